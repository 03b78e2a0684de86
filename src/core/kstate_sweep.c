/*
 * What has expired in the store only. A pass walks all that the store has of
 * the own key groups, in pieces; it also makes the filter anew, without what
 * is gone. What is in memory too is left to kstate_clean().
 */
#include <stdlib.h>

#include "base/hash.h"
#include "core/kstate_impl.h"

enum {
    FILTER_SHARE = 8,
    DELETE_SHARE = 8, /* of the budget, for deletions of one round */
    DELETE_MIN = 64 << 10,
};

struct sweeping {
    struct kstate *k;
    uint32_t left;
    size_t limit; /* of bytes of the round under way */
};

/* Whether memory has what counts instead of an entry of the store. */
static bool
is_here(const struct kstate *k, uint32_t h, const struct kstate_stored *s,
        uint64_t hash)
{
    struct kkey *key = kkey_find(k, s->key.p, s->key.len, hash);
    const struct kcell *c = key != NULL ? kcell_of(k, key, h) : NULL;

    if (key == NULL)
        return false;
    if (k->handles[h].pub.kind == KSTATE_MAP && c->len != CELL_EMPTY &&
        kmap_find(k, c->u.p, &s->part) != NULL)
        return true;
    return (c->flags & CELL_STORED) == 0;
}

/* Whether all of an entry has expired. @param ret_unknown whether there is
 * something whose time is not known. */
static int
expired(const struct kstate *k, uint32_t h, struct kstate_stored *s,
        bool *ret_unknown, struct err *e)
{
    const struct khandle *hd = &k->handles[h];
    struct kstate_stored in = *s;
    struct kstate_bytes b;
    bool all = true, touch;
    int r;

    *ret_unknown = false;
    if (!hd->ttl)
        return 0;
    if (hd->pub.kind != KSTATE_LIST) {
        all = kclean_expired(k, hd, kload_time(hd, s), &touch);
        *ret_unknown = touch;
        return all;
    }
    while ((r = kstate_stored_element(&in, &b, e)) > 0) {
        all = kclean_expired(k, hd, kload_time(hd, &in), &touch) && all;
        *ret_unknown = *ret_unknown || touch;
    }
    return r < 0 ? r : all;
}

/* What was kept without a time counts from now on: bring it here. */
static int
bring(struct kstate *k, uint32_t h, struct kstate_stored *s, uint64_t hash,
      struct err *e)
{
    struct kkey *key = kkey_find(k, s->key.p, s->key.len, hash);
    enum kstate_kind kind = k->handles[h].pub.kind;
    struct kcell *c;
    int r = 0;

    if (key == NULL) {
        key = kkey_make(k, s->key.p, s->key.len, hash);
        kcache_guess(k, key);
    }
    c = kcell_of(k, key, h);
    if (kind == KSTATE_MAP) {
        r = kload_state(k, key, h, s, e);
        if (r == 0)
            (void)kclean_item(k, kmap_find(k, c->u.p, &s->part));
        return r;
    }
    (void)kcache_fetch(k, key, h);
    if (kind == KSTATE_LIST && c->len != CELL_EMPTY) {
        struct klist *l = c->u.p;
        uint32_t i;

        for (i = l->n; i > 0; i--) {
            struct kchunk *chunk = l->chunks[i - 1];

            if (!kchunk_is_stale(k, chunk))
                continue;
            entry_rounds_touch(&k->rounds, &chunk->e);
            if (kchunk_filter(k, chunk))
                kchunk_drop(k, chunk);
        }
    } else {
        kclean_cells(k, key);
    }
    return 0;
}

static void
keep(struct kstate *k, uint32_t h, const struct kstate_stored *s, uint64_t hash)
{
    struct kcache *c = &k->cache;
    size_t limit = c->budget / FILTER_SHARE;

    bool news = !filter_has(&c->fresh, hash);

    if (news)
        filter_add(&c->fresh, hash, k->keys.count, limit);
    c->fresh_keys += news || kcache_is_whole(k, h);
    if (k->handles[h].pub.kind == KSTATE_MAP)
        filter_add(&c->fresh,
                   kcache_item_hash(
                       hash, h, index_hash(hash_key(s->part.p, s->part.len))),
                   k->keys.count, limit);
}

static int
sweep_entry(void *arg, const struct snapshot_key *name, const void *value,
            size_t value_len, struct err *e)
{
    struct sweeping *p = arg;
    struct kstate *k = p->k;
    struct kcache *c = &k->cache;
    struct kstate_entry v = {.group = name->group,
                             .ns = name->ns,
                             .key = name->key,
                             .key_len = name->key_len,
                             .value = value,
                             .value_len = value_len};
    struct kstate_stored s;
    bool unknown;
    uint64_t hash;
    int r;

    if (p->left == 0 || snapshot_bytes(k->rounds.next) >= p->limit)
        return 1;
    p->left--;
    r = kstate_stored_read(&v, k->handles[c->sweep_h].pub.kind, &s, e);
    if (r != 0)
        return r;
    buf_clear(&c->sweep_key);
    buf_add(&c->sweep_key, name->key, name->key_len);
    c->sweep_behind = true;
    hash = hash_key(s.key.p, s.key.len);
    if (is_here(k, c->sweep_h, &s, hash))
        return 0;
    r = expired(k, c->sweep_h, &s, &unknown, e);
    if (r < 0)
        return r;
    if (r == 1)
        snapshot_del(k->rounds.next, name);
    else
        keep(k, c->sweep_h, &s, hash);
    return r == 0 && unknown ? bring(k, c->sweep_h, &s, hash, e) : 0;
}

static void
begin(struct kcache *c)
{
    c->sweep_due = false;
    c->sweeping = true;
    c->sweep_h = 0;
    c->sweep_group = c->store.first_group;
    c->sweep_behind = false;
    c->fresh_keys = 0;
}

static void
finish(struct kcache *c)
{
    c->sweeping = false;
    filter_clear(&c->filter);
    c->filter = c->fresh;
    memset(&c->fresh, 0, sizeof c->fresh);
    c->evicted = c->fresh_keys;
}

/* Walk on in one key group of one handle. @return 1 it stopped before the
 * end, 0, < 0. */
static int
sweep_group(struct sweeping *p, struct err *e)
{
    struct kcache *c = &p->k->cache;
    unsigned char ns[KSTATE_NS_SIZE];
    struct snapshot_key name = {
        .group = (uint16_t)c->sweep_group, .ns_len = KSTATE_NS_SIZE, .ns = ns};
    struct buf at = c->sweep_key; /* it moves while it is looked at */
    int r;

    kform_ns_state(ns, p->k->handles[c->sweep_h].pub.id);
    buf_init(&c->sweep_key);
    if (c->sweep_behind) {
        name.key = at.data;
        name.key_len = (uint32_t)at.len;
        buf_add(&c->sweep_key, at.data, at.len);
    }
    r = c->store.walk(c->store.arg, &name, c->sweep_behind, sweep_entry, p, e);
    buf_fini(&at);
    return r;
}

int
kstate_sweep(struct kstate *k, uint32_t max, struct err *e)
{
    struct kcache *c = &k->cache;
    struct sweeping p = {
        .k = k, .left = max, .limit = c->budget / DELETE_SHARE};

    if (c->budget == 0 || (!c->sweeping && !c->sweep_due))
        return 0;
    kstate_leave(k);
    if (p.limit < DELETE_MIN)
        p.limit = DELETE_MIN;
    if (!c->sweeping)
        begin(c);
    for (; c->sweep_h < k->count; c->sweep_h++) {
        for (; c->sweep_group <= c->store.last_group; c->sweep_group++) {
            int r = sweep_group(&p, e);

            if (r < 0)
                return r;
            if (r == 1) /* else the round deletes enough */
                return p.left == 0;
            c->sweep_behind = false;
        }
        c->sweep_group = c->store.first_group;
    }
    finish(c);
    return 0;
}
