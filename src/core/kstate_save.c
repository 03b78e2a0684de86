#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "core/kstate_impl.h"

enum { BLOB_VERSION = 1, PAST_MIN = 6 /* bytes of a handle in the blob */ };

/* ---- names in the store ---- */

static struct snapshot_key
name_of(const struct kkey *key, const unsigned char *ns)
{
    return (struct snapshot_key){.group = key->e.small,
                                 .ns_len = KSTATE_NS_SIZE,
                                 .key_len = key->e.extra,
                                 .ns = ns};
}

static struct snapshot_key
plain_name(const struct kstate *k, const struct kkey *key,
           const unsigned char *ns)
{
    struct snapshot_key name = name_of(key, ns);

    name.key = kkey_bytes(k, key);
    return name;
}

static struct snapshot_key
framed_name(struct kstate *k, const struct kkey *key, const unsigned char *ns,
            const void *part, uint32_t part_len)
{
    struct kstate_bytes b = {kkey_bytes(k, key), key->e.extra};
    struct snapshot_key name = name_of(key, ns);

    kform_frame(&k->frame, &b, part, part_len);
    name.key = k->frame.data;
    name.key_len = (uint32_t)k->frame.len;
    return name;
}

struct snapshot_key
ksave_name(struct kstate *k, const struct kkey *key, uint32_t h,
           const struct kstate_bytes *part, unsigned char ns[KSTATE_NS_SIZE])
{
    kform_ns_state(ns, k->handles[h].pub.id);
    return part == NULL ? plain_name(k, key, ns)
                        : framed_name(k, key, ns, part->p, part->len);
}

static struct snapshot_key
item_name(struct kstate *k, const struct kitem *it,
          unsigned char ns[KSTATE_NS_SIZE])
{
    kform_ns_state(ns, k->handles[it->map->h].pub.id);
    return framed_name(k, it->map->key, ns, kitem_key(k, it), it->e.extra);
}

static struct snapshot_key
chunk_name(struct kstate *k, const struct kchunk *c,
           unsigned char ns[KSTATE_NS_SIZE])
{
    unsigned char number[4];

    kform_ns_state(ns, k->handles[c->list->h].pub.id);
    kform_u32be(number, c->e.extra);
    return framed_name(k, c->list->key, ns, number, sizeof number);
}

static struct snapshot_key
timer_name(const struct kstate *k, const struct timer *tm,
           unsigned char ns[KSTATE_NS_SIZE])
{
    kform_ns_timer(ns, (enum kstate_clock)tm->e.small, tm->ts);
    return plain_name(k, (const struct kkey *)tm->key, ns);
}

static struct snapshot_key
cell_name(const struct kstate *k, const struct kkey *key, uint32_t h,
          unsigned char ns[KSTATE_NS_SIZE])
{
    kform_ns_state(ns, k->handles[h].pub.id);
    return plain_name(k, key, ns);
}

/* ---- deleting ---- */

void
ksave_delete(struct kstate *k, const struct entry *en)
{
    unsigned char ns[KSTATE_NS_SIZE];
    struct snapshot_key name;

    if (k->rounds.next == NULL)
        return;
    if (en->type == ENTRY_ITEM)
        name = item_name(k, (const struct kitem *)en, ns);
    else if (en->type == ENTRY_CHUNK)
        name = chunk_name(k, (const struct kchunk *)en, ns);
    else
        name = timer_name(k, (const struct timer *)en, ns);
    snapshot_del(k->rounds.next, &name);
}

void
ksave_delete_cell(struct kstate *k, const struct kkey *key, uint32_t h)
{
    unsigned char ns[KSTATE_NS_SIZE];
    struct snapshot_key name = cell_name(k, key, h, ns);

    if (k->rounds.next != NULL)
        snapshot_del(k->rounds.next, &name);
}

/* ---- saving ---- */

static unsigned
flags_of(const struct khandle *h, int64_t time)
{
    if (!h->ttl || time == KSTATE_NO_TIME)
        return 0;
    return h->pub.ttl_clock == KSTATE_EVENT ? FORM_TIME
                                            : FORM_TIME | FORM_CLOCK;
}

static void
save_value(struct kstate *k, uint32_t h, struct kcell *c, struct buf *out)
{
    const struct khandle *hd = &k->handles[h];
    int64_t time = hd->ttl ? *ktime_of(c) : KSTATE_NO_TIME;
    size_t at = out->len;

    kform_head(out, flags_of(hd, time), time);
    if (hd->pub.kind != KSTATE_AGG) {
        buf_add(out, kcell_bytes(c), c->len);
        return;
    }
    kagg_encode(k, h, c, out);
    if ((c->flags & CELL_LOST) != 0)
        out->data[at + 1] |= FORM_LOST;
}

static void
save_cell(struct kstate *k, struct kkey *key, uint32_t h)
{
    struct snapshot *into = k->rounds.into;
    struct kcell *c = kcell_of(k, key, h);
    unsigned char ns[KSTATE_NS_SIZE];
    struct snapshot_key name = cell_name(k, key, h, ns);

    c->flags &= (uint8_t)(k->rounds.dirty_bit | ~ENTRY_CHANGED);
    if (c->len == CELL_EMPTY) {
        if ((c->flags & ENTRY_KEPT) != 0)
            snapshot_del(into, &name);
        c->flags &= (uint8_t)~ENTRY_KEPT;
        return;
    }
    snapshot_put_begin(into, &name);
    save_value(k, h, c, &into->changes);
    snapshot_put_end(into);
    c->flags |= ENTRY_KEPT;
}

static void
save_chunk(const struct kstate *k, const struct kchunk *c, struct buf *out)
{
    const struct khandle *h = &k->handles[c->list->h];
    unsigned flags = flags_of(h, 0);
    struct kstate_bytes b;
    size_t at = 0;
    int64_t time;

    kform_head(out, flags & ~(unsigned)FORM_TIME, 0);
    out->data[out->len - 1] = (char)flags;
    while (kchunk_next(k, c, &at, &time, &b)) {
        blob_put(out, b.len, 4);
        if ((flags & FORM_TIME) != 0)
            kform_u64(out, (uint64_t)time);
        buf_add(out, b.p, b.len);
    }
}

/* Entries but keys: one put. */
static void
save_one(struct kstate *k, struct entry *en)
{
    struct snapshot *into = k->rounds.into;
    unsigned char ns[KSTATE_NS_SIZE];
    struct snapshot_key name;

    if (en->type == ENTRY_ITEM) {
        struct kitem *it = (struct kitem *)en;

        name = item_name(k, it, ns);
        if ((it->e.small & ITEM_TOMB) != 0) {
            snapshot_del(into, &name);
            en->flags &= (uint8_t)~ENTRY_KEPT;
            return;
        }
        it->e.small &= (uint16_t)~ITEM_FRESH;
        snapshot_put_begin(into, &name);
        save_value(k, it->map->h, &it->cell, &into->changes);
    } else if (en->type == ENTRY_CHUNK) {
        name = chunk_name(k, (struct kchunk *)en, ns);
        snapshot_put_begin(into, &name);
        save_chunk(k, (struct kchunk *)en, &into->changes);
    } else {
        name = timer_name(k, (struct timer *)en, ns);
        snapshot_put_begin(into, &name);
        buf_addc(&into->changes, FORM_VERSION);
    }
    snapshot_put_end(into);
    en->flags |= ENTRY_KEPT;
}

void
ksave_entry(void *arg, struct entry *en)
{
    struct kstate *k = arg;
    uint8_t frozen = k->rounds.dirty_bit ^ ENTRY_CHANGED;
    uint32_t h;

    en->flags &= (uint8_t)~frozen;
    if (en->type != ENTRY_KEY) {
        save_one(k, en);
        return;
    }
    en->flags &= (uint8_t)~KEY_FRESH;
    for (h = 0; h < k->count; h++)
        if ((kcell_of(k, (struct kkey *)en, h)->flags & frozen) != 0)
            save_cell(k, (struct kkey *)en, h);
}

/* ---- rounds ---- */

void
kstate_track(struct kstate *k, uint32_t max_parallelism)
{
    assert(k->keys.count == 0);
    entry_rounds_track(&k->rounds, max_parallelism);
}

struct snapshot *
kstate_freeze(struct kstate *k, uint64_t round)
{
    kstate_leave(k);
    k->cache.rounds[(k->rounds.generation + 1) % GENERATIONS] = round;
    k->cache.asked = false;
    return entry_rounds_freeze(&k->rounds, round);
}

/* Frozen values and accumulators that have expired are gone before they are
 * saved. */
static void
expire_cells(struct kstate *k, struct kkey *key)
{
    uint8_t frozen = k->rounds.dirty_bit ^ ENTRY_CHANGED;
    uint32_t h;
    bool touch;

    for (h = 0; h < k->count; h++) {
        const struct khandle *hd = &k->handles[h];
        struct kcell *c = kcell_of(k, key, h);

        if (!hd->ttl || (c->flags & frozen) == 0 || c->len == CELL_EMPTY ||
            !kclean_expired(k, hd, *ktime_of(c), &touch))
            continue;
        kcell_drop(k, h, c);
        key->live--;
    }
}

/* Whether nothing of an item or a chunk, which has left the list, is to be
 * saved: it has expired. @param ret_key, ret_h set: where it is. */
static bool
has_expired(struct kstate *k, struct entry *en, struct kkey **ret_key,
            uint32_t *ret_h)
{
    bool touch;

    if (en->type == ENTRY_ITEM) {
        struct kitem *it = (struct kitem *)en;

        *ret_key = it->map->key;
        *ret_h = it->map->h;
        return k->handles[*ret_h].ttl && (it->e.small & ITEM_TOMB) == 0 &&
               kclean_expired(k, &k->handles[*ret_h], *ktime_of(&it->cell),
                              &touch);
    }
    if (en->type == ENTRY_CHUNK) {
        struct kchunk *c = (struct kchunk *)en;

        *ret_key = c->list->key;
        *ret_h = c->list->h;
        return kchunk_is_stale(k, c) && kchunk_filter(k, c);
    }
    return false;
}

/* Save an entry that has left the list, or free it if it has expired: what
 * earlier rounds have of it is deleted in the next one. */
static void
save_or_expire(struct kstate *k, struct entry *en)
{
    struct kkey *key;
    uint32_t h;

    if (en->type == ENTRY_KEY) {
        expire_cells(k, (struct kkey *)en);
        ksave_entry(k, en);
        kkey_leave(k, (struct kkey *)en);
        return;
    }
    if (!has_expired(k, en, &key, &h)) {
        ksave_entry(k, en);
        return;
    }
    if (en->type == ENTRY_ITEM && kcache_is_on(k)) {
        kitem_bury(k, (struct kitem *)en);
        ksave_entry(k, en);
        return;
    }
    en->flags &= (uint8_t)~ENTRY_CHANGED;
    if (en->type == ENTRY_ITEM)
        (void)kclean_item(k, (struct kitem *)en);
    else
        kchunk_drop(k, (struct kchunk *)en);
    kclean_empty(k, key, h);
    kkey_leave(k, key);
}

bool
kstate_save(struct kstate *k, uint32_t max)
{
    kstate_leave(k);
    while (k->rounds.into != NULL) {
        struct entry *en;

        if (max == 0)
            return true;
        en = entry_rounds_frozen(&k->rounds);
        if (en == NULL)
            break;
        save_or_expire(k, en);
        max--;
    }
    return false;
}

/* ---- the blob ---- */

void
kstate_put(const struct kstate *k, struct buf *out)
{
    uint32_t i;

    blob_put(out, BLOB_VERSION, 1);
    blob_put(out, k->count, 4);
    for (i = 0; i < k->count; i++) {
        const struct kstate_handle *h = &k->handles[i].pub;

        blob_put(out, h->id, 1);
        blob_put(out, h->kind, 1);
        blob_put_bytes(out, h->name, strlen(h->name));
    }
    blob_put(out, kstate_keys(k), 8);
    blob_put(out, kstate_timers(k, KSTATE_EVENT), 8);
    blob_put(out, kstate_timers(k, KSTATE_PROCESSING), 8);
}

int
kstate_blob_read(struct blob_reader *r, struct kstate_blob *ret, struct err *e)
{
    uint64_t version = blob_get(r, 1);
    uint32_t n = (uint32_t)blob_get(r, 4), i;

    memset(ret, 0, sizeof *ret);
    if (r->bad || version != BLOB_VERSION ||
        n > (size_t)(r->end - r->p) / PAST_MIN)
        return err_set(e, ERR_IO,
                       "what a round kept of the state of functions is "
                       "damaged");
    ret->handles = mem_zalloc((n + 1u) * sizeof *ret->handles);
    for (i = 0; i < n; i++) {
        struct kstate_past *p = &ret->handles[ret->count++];
        const char *name;
        size_t len;

        p->id = (uint32_t)blob_get(r, 1);
        p->kind = (enum kstate_kind)blob_get(r, 1);
        name = blob_get_bytes(r, &len);
        p->name = mem_dup(name, len);
    }
    ret->keys = blob_get(r, 8);
    ret->timers[KSTATE_EVENT] = blob_get(r, 8);
    ret->timers[KSTATE_PROCESSING] = blob_get(r, 8);
    if (r->bad)
        return err_set(e, ERR_IO,
                       "what a round kept of the state of functions is "
                       "damaged");
    return 0;
}

void
kstate_blob_fini(struct kstate_blob *b)
{
    uint32_t i;

    for (i = 0; i < b->count; i++)
        free(b->handles[i].name);
    free(b->handles);
    memset(b, 0, sizeof *b);
}

static const struct kstate_past *
past_of(const struct kstate_blob *past, const char *name)
{
    uint32_t i;

    for (i = 0; past != NULL && i < past->count; i++)
        if (strcmp(past->handles[i].name, name) == 0)
            return &past->handles[i];
    return NULL;
}

static const char *
kind_name(enum kstate_kind kind)
{
    switch (kind) {
    case KSTATE_VALUE:
        return "value";
    case KSTATE_LIST:
        return "list";
    case KSTATE_MAP:
        return "map";
    case KSTATE_AGG:
        return "aggregating";
    }
    return "unknown";
}

int
kstate_number(struct kstate_handle *handles, uint32_t n,
              const struct kstate_blob *past, struct err *e)
{
    bool taken[UINT8_MAX + 1] = {false};
    uint32_t i, next = 0;

    for (i = 0; past != NULL && i < past->count; i++)
        taken[past->handles[i].id & UINT8_MAX] = true;
    for (i = 0; i < n; i++) {
        const struct kstate_past *p = past_of(past, handles[i].name);

        if (p == NULL || handles[i].anew) {
            while (next <= KSTATE_ID_MAX && taken[next])
                next++;
            if (next > KSTATE_ID_MAX)
                return err_set(e, ERR_CONFIG,
                               "too many states at once: those that begin "
                               "empty, and those that the checkpoint has");
            handles[i].id = next++;
            continue;
        }
        if (p->kind != handles[i].kind) {
            int r = err_set(e, ERR_CONFIG,
                            "state '%s' is a %s state, and the checkpoint has "
                            "it as a %s state",
                            handles[i].name, kind_name(handles[i].kind),
                            kind_name(p->kind));

            err_hint(e, "give the new state another name");
            return r;
        }
        handles[i].id = p->id;
    }
    return 0;
}
