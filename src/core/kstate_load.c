#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "core/kstate_impl.h"

/* The time of an access that was kept: it counts if it is of the same clock. */
int64_t
kload_time(const struct khandle *h, const struct kstate_stored *s)
{
    return s->clock == h->pub.ttl_clock ? s->time : KSTATE_NO_TIME;
}

static int
twice(struct err *e)
{
    return err_set(e, ERR_IO, "the state of a function is there twice");
}

static int
load_value(struct kstate *k, struct kkey *key, uint32_t h,
           const struct kstate_stored *s, struct err *e)
{
    struct kcell *c = kcell_of(k, key, h);

    if (c->len != CELL_EMPTY)
        return twice(e);
    kcell_fill(k, c, s->value.p, s->value.len);
    if (k->handles[h].ttl)
        *ktime_of(c) = kload_time(&k->handles[h], s);
    c->flags |= ENTRY_KEPT;
    if (s->changed)
        kcell_touch(k, key, c);
    key->live++;
    return 0;
}

static int
load_agg(struct kstate *k, struct kkey *key, uint32_t h,
         const struct kstate_stored *s, struct err *e)
{
    const struct aggset *set = k->handles[h].pub.set;
    struct kcell *c = kcell_of(k, key, h);
    void *block;
    int r = 0;

    if (c->len != CELL_EMPTY)
        return twice(e);
    block = kagg_alloc(k, h);
    aggset_init(set, block);
    if (!s->lost)
        r = aggset_decode(set, block, s->value.p, s->value.len, e);
    kagg_count(k, h, block);
    if (r != 0) {
        kagg_drop(k, h, block);
        return r;
    }
    c->u.p = block;
    c->len = 0;
    c->flags |= s->lost ? ENTRY_KEPT | CELL_LOST : ENTRY_KEPT;
    if (k->handles[h].ttl)
        *ktime_of(c) = kload_time(&k->handles[h], s);
    key->live++;
    return 0;
}

static int
load_item(struct kstate *k, struct kkey *key, uint32_t h,
          const struct kstate_stored *s, struct err *e)
{
    struct kcell *c = kcell_of(k, key, h);
    struct kitem *it;

    if (c->len == CELL_EMPTY) {
        c->u.p = kmap_make(k, key, h);
        c->len = 0;
        key->live += (c->flags & CELL_STORED) == 0;
    }
    if (kmap_find(k, c->u.p, &s->part) != NULL)
        return twice(e);
    it = kmap_add(k, c->u.p, &s->part);
    kcell_fill(k, &it->cell, s->value.p, s->value.len);
    if (k->handles[h].ttl)
        *ktime_of(&it->cell) = kload_time(&k->handles[h], s);
    it->e.flags |= ENTRY_KEPT;
    if (s->changed)
        entry_rounds_touch(&k->rounds, &it->e);
    return 0;
}

static int
load_chunk(struct kstate *k, struct kkey *key, uint32_t h,
           struct kstate_stored *s, struct err *e)
{
    struct kcell *c = kcell_of(k, key, h);
    struct kstate_bytes b;
    struct kchunk *chunk;
    int r;

    if (c->len == CELL_EMPTY) {
        c->u.p = klist_make(k, key, h);
        c->len = 0;
        key->live++;
    }
    chunk = klist_chunk(k, c->u.p, kform_read_u32be(s->part.p));
    if (chunk == NULL)
        return twice(e);
    chunk->e.flags |= ENTRY_KEPT;
    if (s->changed)
        entry_rounds_touch(&k->rounds, &chunk->e);
    while ((r = kstate_stored_element(s, &b, e)) > 0)
        kchunk_append(k, chunk, kload_time(&k->handles[h], s), b.p, b.len);
    if (r == 0 && chunk->len == 0)
        r = err_set(e, ERR_IO, "a piece of a list is empty");
    return r;
}

static int
load_timer(struct kstate *k, struct kkey *key, const struct kstate_stored *s,
           struct err *e)
{
    struct timer *tm;

    if (timers_find(&k->timers[s->clock], &key->e, s->ts) != NULL)
        return twice(e);
    tm = timers_add(&k->timers[s->clock], &key->e, s->ts);
    tm->e.type = ENTRY_TIMER;
    tm->e.small = (uint16_t)s->clock;
    tm->e.flags |= ENTRY_KEPT;
    key->live++;
    return 0;
}

int
kload_state(struct kstate *k, struct kkey *key, uint32_t h,
            struct kstate_stored *s, struct err *e)
{
    switch (k->handles[h].pub.kind) {
    case KSTATE_VALUE:
        return load_value(k, key, h, s, e);
    case KSTATE_AGG:
        return load_agg(k, key, h, s, e);
    case KSTATE_MAP:
        return load_item(k, key, h, s, e);
    case KSTATE_LIST:
        return load_chunk(k, key, h, s, e);
    }
    return 0;
}

/* Delete what belongs to a handle that is no more. */
static void
forget(struct kstate *k, const struct kstate_entry *v)
{
    struct snapshot_key name = {.group = v->group,
                                .ns_len = KSTATE_NS_SIZE,
                                .key_len = v->key_len,
                                .ns = v->ns,
                                .key = v->key};

    if (k->rounds.next != NULL)
        snapshot_del(k->rounds.next, &name);
}

int
kstate_load(struct kstate *k, const struct kstate_entry *v, struct err *e)
{
    int id = kstate_stored_id(v->ns), r;
    struct kstate_stored s;
    struct kkey *key;
    uint64_t hash;
    uint32_t h = 0;

    kstate_leave(k);
    while (id >= 0 && h < k->count && k->handles[h].pub.id != (uint32_t)id)
        h++;
    if (id >= 0 && h == k->count) {
        forget(k, v);
        return 0;
    }
    r = kstate_stored_read(v, id >= 0 ? k->handles[h].pub.kind : KSTATE_VALUE,
                           &s, e);
    if (r != 0)
        return r;
    s.changed = v->changed;
    hash = hash_key(s.key.p, s.key.len);
    if (kcache_is_on(k) && kcache_adopt(k, h, v, &s))
        return 0;
    key = kkey_find(k, s.key.p, s.key.len, hash);
    if (key == NULL) {
        key = kkey_make(k, s.key.p, s.key.len, hash);
        if (kcache_is_on(k) && filter_has(&k->cache.filter, hash))
            kcache_guess(k, key);
    }
    if (s.what == KSTATE_IS_TIMER)
        r = load_timer(k, key, &s, e);
    else
        r = kload_state(k, key, h, &s, e);
    kkey_leave(k, key); /* nothing was loaded */
    return r;
}
