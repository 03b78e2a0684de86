#include "core/kstate.h"

#include <assert.h>
#include <stdlib.h>

#include "core/kstate_impl.h"

void
kfree(struct kstate *k, void *p, size_t size)
{
    k->bytes -= size;
    free(p);
}

/* ---- making ---- */

static void
lay_out(struct kstate *k, const struct kstate_handle *handles)
{
    uint32_t at = offsetof(struct kkey, cells), i;

    for (i = 0; i < k->count; i++) {
        struct khandle *h = &k->handles[i];
        const struct kstate_handle *p = &handles[i];

        assert(p->id <= KSTATE_ID_MAX && p->kind >= KSTATE_VALUE &&
               p->kind <= KSTATE_AGG);
        h->pub = *p;
        h->ttl = p->ttl_ms >= 0;
        h->cell_at = at;
        at += (uint32_t)sizeof(struct kcell);
        if (h->ttl && (p->kind == KSTATE_VALUE || p->kind == KSTATE_AGG))
            at += (uint32_t)sizeof(int64_t);
        k->has_agg = k->has_agg || p->kind == KSTATE_AGG;
        k->has_others = k->has_others || p->kind != KSTATE_VALUE;
        if (h->ttl && p->ttl_ms < k->clean.ttl_min[p->ttl_clock])
            k->clean.ttl_min[p->ttl_clock] = p->ttl_ms;
    }
    k->key_at = at;
}

struct kstate *
kstate_new(const struct kstate_handle *handles, uint32_t n)
{
    struct kstate *k = mem_zalloc(sizeof *k);
    int c;

    assert(n <= KSTATE_HANDLES_MAX);
    k->handles = mem_zalloc((n + 1u) * sizeof *k->handles);
    k->count = n;
    for (c = 0; c < KSTATE_CLOCKS; c++) {
        k->now[c] = k->clean.now[c] = k->clean.begun[c] = KSTATE_NO_TIME;
        k->clean.ttl_min[c] = INT64_MAX;
    }
    lay_out(k, handles);
    index_init(&k->keys);
    entry_rounds_init(&k->rounds, ksave_entry, k);
    for (c = 0; c < KSTATE_CLOCKS; c++)
        timers_init(&k->timers[c], k->key_at);
    return k;
}

void
kstate_free(struct kstate **kp)
{
    struct kstate *k = *kp;
    struct index_iter i = {0};
    struct entry *en;
    uint32_t h;

    *kp = NULL;
    if (k == NULL)
        return;
    if (k->in_call)
        kstate_undo(k);
    entry_rounds_fini(
        &k->rounds); /* nothing is tracked any more: no deletions */
    memset(&k->rounds, 0, sizeof k->rounds);
    while ((en = index_next(&k->keys, &i)) != NULL) {
        struct kkey *key = (struct kkey *)en;

        for (h = 0; h < k->count; h++)
            kcell_drop(k, h, kcell_of(k, key, h));
        free(key);
    }
    index_fini(&k->keys);
    timers_fini(&k->timers[KSTATE_EVENT]);
    timers_fini(&k->timers[KSTATE_PROCESSING]);
    kwalk_end(k);
    filter_clear(&k->cache.filter);
    filter_clear(&k->cache.fresh);
    buf_fini(&k->cache.sweep_key);
    buf_fini(&k->frame);
    free(k->unsaved_why);
    free(k->log);
    free(k->handles);
    free(k);
}

/* ---- keys ---- */

struct name {
    const void *key;
    uint32_t len, key_at;
};

static bool
same(const struct entry *en, const void *arg)
{
    const struct name *n = arg;

    return en->extra == n->len &&
           (n->len == 0 ||
            memcmp((const char *)en + n->key_at, n->key, n->len) == 0);
}

struct kkey *
kkey_find(const struct kstate *k, const void *key, uint32_t len, uint64_t hash)
{
    const struct name n = {.key = key, .len = len, .key_at = k->key_at};

    return (struct kkey *)index_find(&k->keys, index_hash(hash), same, &n);
}

struct kkey *
kkey_make(struct kstate *k, const void *key, uint32_t len, uint64_t hash)
{
    struct kkey *to = kalloc(k, (size_t)k->key_at + len);
    uint32_t h;

    memset(to, 0, k->key_at);
    to->e.hash = index_hash(hash);
    to->e.type = ENTRY_KEY;
    to->e.extra = len;
    if (k->rounds.max_parallelism != 0)
        to->e.small = (uint16_t)key_group(hash, k->rounds.max_parallelism);
    if (len != 0)
        memcpy(kkey_bytes(k, to), key, len);
    for (h = 0; h < k->count; h++)
        kcell_of(k, to, h)->len = CELL_EMPTY;
    index_add(&k->keys, &to->e);
    return to;
}

struct kkey *
kkey_current(struct kstate *k)
{
    if (k->cur == NULL) {
        k->cur = kkey_make(k, k->cur_key, k->cur_len, k->cur_hash);
        if (kcache_is_on(k))
            k->cur->e.flags |= KEY_FRESH | KEY_USED;
    }
    return k->cur;
}

void
kkey_free(struct kstate *k, struct kkey *key)
{
    index_remove(&k->keys, &key->e);
    if ((key->e.flags & KEY_DEAD) != 0)
        k->cache.dead--;
    if (k->cur == key)
        k->cur = NULL;
    if (k->clean.key == key)
        k->clean.key = NULL;
    if (k->cache.hand.key == key)
        k->cache.hand.key = NULL;
    kfree(k, key, (size_t)k->key_at + key->e.extra);
}

/* What rounds have of its cells goes with it. */
void
kkey_leave(struct kstate *k, struct kkey *key)
{
    uint32_t h;

    if (key->live != 0 || (kcache_is_on(k) && kcache_retains(k, key)))
        return;
    entry_rounds_leave(&k->rounds, &key->e);
    for (h = 0; h < k->count; h++)
        if ((kcell_of(k, key, h)->flags & ENTRY_KEPT) != 0)
            ksave_delete_cell(k, key, h);
    kkey_free(k, key);
}

void
kstate_leave(struct kstate *k)
{
    assert(!k->in_call);
    if (k->cur != NULL)
        kkey_leave(k, k->cur);
    k->cur = NULL;
    k->cur_key = NULL;
    k->cur_len = 0;
}

void
kstate_key(struct kstate *k, const void *key, uint32_t len, uint64_t hash)
{
    assert(!k->in_call);
    if (k->cur != NULL)
        kkey_leave(k, k->cur);
    k->cur_key = key;
    k->cur_len = len;
    k->cur_hash = hash;
    k->cur = kkey_find(k, key, len, hash);
    if (kcache_is_on(k))
        kcache_enter(k);
}

void
kstate_prefetch(const struct kstate *k, uint64_t hash, bool entry)
{
    uint32_t h = index_hash(hash);
    uintptr_t ref;
    uint32_t at;

    if (!entry) {
        index_prefetch(&k->keys, h);
        return;
    }
    ref = index_table(&k->keys, h);
    at = h & index_mask(ref);
    if (ref != 0 && at != 0)
        __builtin_prefetch(index_entry(index_words(ref)[at]), 1, 3);
}

const void *
kstate_current(const struct kstate *k, uint32_t *ret_len)
{
    *ret_len = k->cur_len;
    return k->cur_key;
}

void
kstate_now(struct kstate *k, int64_t event, int64_t processing)
{
    k->now[KSTATE_EVENT] = event;
    k->now[KSTATE_PROCESSING] = processing;
}

bool
kstate_uses(const struct kstate *k, enum kstate_clock clock)
{
    return k->clean.ttl_min[clock] != INT64_MAX;
}

uint64_t
kstate_keys(const struct kstate *k)
{
    uint64_t here = k->keys.count - k->cache.dead;

    return k->cache.evicted > 0 ? here + (uint64_t)k->cache.evicted : here;
}

size_t
kstate_bytes(const struct kstate *k)
{
    return k->bytes + k->keys.bytes + timers_bytes(&k->timers[KSTATE_EVENT]) +
           timers_bytes(&k->timers[KSTATE_PROCESSING]) +
           entry_rounds_bytes(&k->rounds) + k->log_cap * sizeof *k->log +
           k->cache.filter.bytes + k->cache.fresh.bytes;
}

/* ---- cells ---- */

void
kcell_touch(struct kstate *k, struct kkey *key, struct kcell *c)
{
    if ((c->flags & k->rounds.dirty_bit) == k->rounds.dirty_bit)
        return;
    entry_rounds_touch(&k->rounds,
                       &key->e); /* saves the cell if it is frozen */
    c->flags |= k->rounds.dirty_bit;
}

void
kcell_fill(struct kstate *k, struct kcell *c, const void *p, uint32_t len)
{
    char *to = c->u.in;

    if (len > CELL_INLINE)
        c->u.p = to = kalloc(k, len);
    if (len != 0)
        memmove(to, p, len); /* it may lie in the cell */
    c->len = len;
}

void
kcell_drop(struct kstate *k, uint32_t h, struct kcell *c)
{
    if (c->len == CELL_EMPTY)
        return;
    switch (k->handles[h].pub.kind) {
    case KSTATE_VALUE:
        kbytes_drop(k, c);
        break;
    case KSTATE_MAP:
        kmap_drop(k, c->u.p);
        break;
    case KSTATE_LIST:
        klist_drop(k, c->u.p);
        break;
    case KSTATE_AGG:
        kagg_drop(k, h, c->u.p);
        break;
    }
    c->len = CELL_EMPTY;
    c->flags &= (uint8_t)~CELL_LOST;
}

int
kstate_too_large(const struct kstate *k, uint32_t h, size_t len, struct err *e)
{
    int r = err_record(e, CAUSE_USER_ERROR,
                       "a value of state '%s' has %zu bytes; %d are the limit",
                       k->handles[h].pub.name, len, KSTATE_VALUE_MAX);

    err_hint(e, "keep it in parts, as a map or a list");
    return r;
}

/* ---- values ---- */

const void *
kstate_value_get(struct kstate *k, uint32_t h, uint32_t *ret_len)
{
    struct khandle *hd = &k->handles[h];
    struct kcell *c;
    bool touch;

    assert(h < k->count && hd->pub.kind == KSTATE_VALUE);
    if (k->cur == NULL)
        return NULL;
    c = kcell_of(k, k->cur, h);
    if (c->len == CELL_EMPTY &&
        ((c->flags & CELL_STORED) == 0 || !kcache_fetch(k, k->cur, h)))
        return NULL;
    if (hd->ttl) {
        if (!kfresh(k, hd, ktime_of(c), &touch))
            return NULL;
        if (touch) {
            kcell_touch(k, k->cur, c);
            klog_time(k, h, ktime_of(c));
        }
    }
    *ret_len = c->len;
    return kcell_bytes(c);
}

int
kstate_value_set(struct kstate *k, uint32_t h, const void *bytes, size_t len,
                 struct err *e)
{
    struct khandle *hd = &k->handles[h];
    struct kcell *c;
    bool fresh;

    assert(h < k->count && hd->pub.kind == KSTATE_VALUE);
    if (len > KSTATE_VALUE_MAX)
        return kstate_too_large(k, h, len, e);
    c = kcell_of(k, kkey_current(k), h);
    kcache_need(k, k->cur, h, c);
    fresh = c->len == CELL_EMPTY;
    kcell_touch(k, k->cur, c);
    klog_cell(k, UNDO_CELL, h, c);
    kcell_fill(k, c, bytes, (uint32_t)len);
    if (hd->ttl)
        *ktime_of(c) = know(k, hd);
    k->cur->live += fresh;
    klog_settle(k);
    return 0;
}

/* Rounds know values and accumulators by the cell; maps and lists by what is
 * in them, which the log deletes. */
void
kstate_clear(struct kstate *k, uint32_t h)
{
    bool value = k->handles[h].pub.kind == KSTATE_VALUE;
    struct kcell *c;

    assert(h < k->count);
    if (k->cur == NULL)
        return;
    c = kcell_of(k, k->cur, h);
    if (kcache_is_on(k) && k->handles[h].pub.kind == KSTATE_MAP) {
        if (kmap_clear(k, h))
            return;
    } else {
        kcache_need(k, k->cur, h, c);
    }
    if (c->len == CELL_EMPTY)
        return;
    if (value || k->handles[h].pub.kind == KSTATE_AGG)
        kcell_touch(k, k->cur, c);
    klog_cell(k, value ? UNDO_CELL : UNDO_SWAP, h, c);
    k->cur->live--;
    klog_settle(k);
}
