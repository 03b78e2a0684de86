#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/rec.h"
#include "core/winstate_impl.h"

enum {
    FILTER_SHARE = 8, /* of the budget, for all filters */
    SWEEP_SHARE = 8,  /* of the budget, for deletions of one round */
    SWEEP_MIN = 64 << 10,
};

void
winstate_cache(struct winstate *w, size_t budget,
               const struct entry_store *store)
{
    assert(w->max_parallelism != 0 && w->slice_count == 0 && budget > 0);
    w->budget = budget;
    w->store = *store;
}

/* ---- which keys may be in the store only ---- */

/* Forget the filter of a slice. */
void
winstate_filters_free(struct winstate *w, struct slice *s)
{
    w->filter_bytes -= s->filter.bytes;
    filter_clear(&s->filter);
}

static void
note_evicted(struct winstate *w, struct slice *s, uint64_t hash)
{
    size_t was = s->filter.bytes;

    s->partly = true;
    s->evicted++;
    filter_add(&s->filter, hash, s->old.count,
               was + w->budget / FILTER_SHARE - w->filter_bytes);
    w->filter_bytes += s->filter.bytes - was;
}

/* ---- finding ---- */

struct table_entry *
winstate_move(struct winstate *w, struct slice *s, struct table_entry *o)
{
    struct table_entry *en;
    bool fresh;

    en = table_upsert(&s->young, o->hash, table_key(&s->old, o), o->key_len,
                      &fresh);
    assert(fresh);
    memcpy(en->block, o->block, w->set->size);
    en->count = o->count;
    en->flags = o->flags;
    if ((o->flags & w->dirty_bit) != 0)
        winstate_list(&s->dirty, en);
    if ((o->flags & (ENTRY_DIRTY ^ w->dirty_bit)) != 0) {
        winstate_list(&s->frozen, en);
        w->frozen_left++;
    }
    o->flags = ENTRY_MOVED;
    s->moved++;
    return en;
}

static struct table_entry *
find_old(const struct slice *s, uint64_t hash, const void *key, uint32_t len)
{
    struct table_entry *en;

    if (s->old.count == 0)
        return NULL;
    en = table_find(&s->old, hash, key, len);
    return en != NULL && (en->flags & ENTRY_MOVED) == 0 ? en : NULL;
}

bool
winstate_holds(const struct slice *s, uint64_t hash, const void *key,
               uint32_t len)
{
    return table_find(&s->young, hash, key, len) != NULL ||
           find_old(s, hash, key, len) != NULL;
}

/* Ask the store. */
static int
fetch(struct winstate *w, struct slice *s, const struct partial *head,
      struct table_entry **ret, struct err *e)
{
    unsigned char ns[WINSTATE_NS_SIZE];
    uint32_t count = 0, flags = 0;
    struct snapshot_key k;
    struct table_entry *en;
    const void *value;
    size_t len;
    bool fresh;
    int r;

    winstate_ns(ns, s->start, s->first);
    k = winstate_key(w, head->hash, head->key, head->key_len, ns);
    r = w->store.get(w->store.arg, &k, &value, &len, e);
    if (r <= 0)
        return r;
    r = winstate_decode(w, value, len, w->scratch, &count, &flags, e);
    if (r != 0) {
        aggset_fini(w->set, w->scratch);
        return r;
    }
    en = table_upsert(&s->young, head->hash, head->key, head->key_len, &fresh);
    assert(fresh);
    memcpy(en->block, w->scratch, w->set->size);
    en->count = count;
    en->flags = (flags | ENTRY_PERSISTED) & TABLE_FLAGS;
    s->evicted -= s->evicted > 0;
    *ret = en;
    return 0;
}

int
winstate_find(struct winstate *w, struct slice *s, const struct partial *head,
              struct table_entry **ret, struct err *e)
{
    struct table_entry *en =
        table_find(&s->young, head->hash, head->key, head->key_len);

    if (en == NULL) {
        en = find_old(s, head->hash, head->key, head->key_len);
        if (en != NULL)
            en = winstate_move(w, s, en);
    }
    *ret = en;
    if (en != NULL || !s->partly || !filter_has(&s->filter, head->hash))
        return 0;
    return fetch(w, s, head, ret, e);
}

/* ---- giving up ---- */

static size_t
forget_moved(struct entry_list *l)
{
    size_t i, n = 0, was = l->n;

    for (i = 0; i < was; i++)
        if ((l->items[i]->flags & ENTRY_MOVED) == 0)
            l->items[n++] = l->items[i];
    l->n = n;
    return was - n;
}

void
winstate_old_free(struct winstate *w, struct slice *s)
{
    (void)forget_moved(&s->dirty);
    w->frozen_left -= forget_moved(&s->frozen);
    if (s->frozen.n == 0) { /* as after saving: the next barrier sets it anew */
        free(s->frozen.items);
        memset(&s->frozen, 0, sizeof s->frozen);
    }
    table_fini(&s->old);
    s->moved = 0;
}

/* Whether an entry is not in the newest durable round: it is dirty, or only
 * the round that is under way has it (rounds count modulo: some stay in vain).
 */
static bool
must_stay(const struct winstate *w, const struct table_entry *en,
          bool under_way)
{
    return (en->flags & ENTRY_DIRTY) != 0 ||
           (en->flags & ENTRY_PERSISTED) == 0 ||
           (under_way &&
            en->flags >> ENTRY_ROUND == winstate_round_bits(w) >> ENTRY_ROUND);
}

/* Give up to `max` entries of an old table up, and then itself. */
static uint32_t
drop_old(struct winstate *w, struct slice *s, bool under_way, uint32_t max)
{
    while (max > 0) {
        struct table_entry *en = table_next(&s->old, &s->drop);

        if (en == NULL) {
            winstate_old_free(w, s);
            return max;
        }
        if ((en->flags & ENTRY_MOVED) != 0)
            continue;
        max--;
        if (must_stay(w, en, under_way)) {
            (void)winstate_move(w, s, en);
            continue;
        }
        note_evicted(w, s, en->hash);
        aggset_fini(w->set, en->block);
        en->flags = ENTRY_MOVED;
        s->moved++;
    }
    return 0;
}

void
winstate_turn(struct winstate *w)
{
    uint32_t i;

    for (i = 0; i < w->slice_count; i++) {
        struct slice *s = w->slices[i];
        struct table t = s->old;

        assert(t.count == 0);
        s->old = s->young;
        s->young = t;
        s->moved = 0;
        s->drop = (struct table_iter){0, 0};
    }
}

static void
drop_some(struct winstate *w, bool under_way, uint32_t max)
{
    uint32_t i;

    w->store.renew(w->store.arg);
    for (i = 0; i < w->slice_count && max > 0; i++)
        if (w->slices[i]->old.count != 0)
            max = drop_old(w, w->slices[i], under_way, max);
    if (i < w->slice_count || max == 0)
        return;
    winstate_turn(w);
    w->dropping = false;
}

struct held {
    uint64_t entries, dirty; /* dirty: or saved by a round under way */
    size_t bytes, young, old;
};

static void
measure(const struct winstate *w, bool under_way, struct held *h)
{
    uint32_t i;

    memset(h, 0, sizeof *h);
    h->dirty = under_way ? w->saved : 0;
    for (i = 0; i < w->slice_count; i++) {
        const struct slice *s = w->slices[i];
        uint32_t old = s->old.count - s->moved;

        h->young +=
            s->young.bytes + (size_t)(s->young.count * (w->heap_mean / 16));
        h->old += s->old.bytes + (size_t)(old * (w->heap_mean / 16));
        h->entries += s->young.count + old;
        h->dirty += s->dirty.n + s->frozen.n;
    }
    h->bytes = h->young + h->old + w->filter_bytes + w->late.bytes;
}

/* What more than the budget, or too many changes, ask for. */
static enum entry_room
judge(struct winstate *w, const struct held *h, bool under_way)
{
    if (under_way)
        return h->bytes > w->budget ? ROOM_WAIT : ROOM_ENOUGH;
    if (w->asked || h->bytes <= w->budget / 2 || h->dirty < h->entries / 4)
        return ROOM_ENOUGH;
    w->asked = true;
    return ROOM_WANT_ROUND;
}

enum entry_room
winstate_trim(struct winstate *w, uint64_t durable, uint32_t max)
{
    bool under_way = w->into != NULL || durable < w->last_round;
    struct held h;

    if (w->budget == 0 || w->fire.active || w->doomed_count != 0)
        return ROOM_ENOUGH;
    measure(w, under_way, &h);
    if (!w->dropping && h.bytes > w->budget / 2) {
        if (h.old == 0)
            winstate_turn(w);
        else if (h.young > w->budget / 2 || h.bytes > w->budget)
            /* If nearly all must stay, it would be moved to and fro. */
            w->dropping = h.dirty < h.entries - h.entries / 4;
    }
    /* A round that failed is in the next one: its entries are not on disk. */
    if (w->dropping && durable >= w->round_before) {
        drop_some(w, under_way, max);
        return ROOM_ENOUGH;
    }
    return judge(w, &h, under_way);
}

/* ---- walking the store ---- */

static int
walk_group(struct winstate *w, const unsigned char *ns, struct store_place *at,
           entry_stored_f *f, void *arg, struct err *e)
{
    struct snapshot_key k = {.group = (uint16_t)at->group,
                             .ns_len = WINSTATE_NS_SIZE,
                             .key_len = (uint32_t)at->key.len,
                             .ns = ns,
                             .key = at->key.data};

    return w->store.walk(w->store.arg, &k, at->behind, f, arg, e);
}

struct walk {
    struct store_place *at;
    entry_stored_f *f;
    void *arg;
};

static int
walk_entry(void *arg, const struct snapshot_key *key, const void *value,
           size_t value_len, struct err *e)
{
    struct walk *k = arg;
    int r = k->f(k->arg, key, value, value_len, e);

    if (r != 0)
        return r;
    buf_clear(&k->at->key);
    buf_add(&k->at->key, key->key, key->key_len);
    k->at->behind = true;
    return 0;
}

int
winstate_walk_group(struct winstate *w, int64_t start, int64_t first,
                    struct store_place *at, entry_stored_f *f, void *arg,
                    struct err *e)
{
    struct walk k = {.at = at, .f = f, .arg = arg};
    unsigned char ns[WINSTATE_NS_SIZE];

    winstate_ns(ns, start, first);
    return walk_group(w, ns, at, walk_entry, &k, e);
}

int
winstate_walk(struct winstate *w, int64_t start, int64_t first,
              struct store_place *at, entry_stored_f *f, void *arg,
              struct err *e)
{
    if (!at->begun) {
        at->begun = true;
        at->behind = false;
        at->group = w->store.first_group;
    }
    for (; at->group <= w->store.last_group; at->group++) {
        int r = winstate_walk_group(w, start, first, at, f, arg, e);

        if (r != 0)
            return r;
        at->behind = false;
    }
    at->begun = false;
    return 0;
}

/* ---- what begins or ends in the store ---- */

void
winstate_adopt(struct winstate *w, int64_t start, int64_t first,
               uint64_t entries)
{
    struct slice *s;

    if (w->wm != WM_NONE &&
        winstate_purge_at(w, winstate_last_end(w, start)) <= w->wm) {
        winstate_sweep_add(w, start, first);
        return;
    }
    s = winstate_slice_get(w, start, first);
    s->partly = true;
    s->filter.always = true;
    s->evicted += entries;
}

void
winstate_sweep_add(struct winstate *w, int64_t start, int64_t first)
{
    uint32_t i;

    for (i = 0; i < w->sweep_count; i++)
        if (w->sweeps[i].start == start && w->sweeps[i].first == first)
            return;
    mem_grow(&w->sweeps, &w->sweep_cap, w->sweep_count + 1u, sizeof *w->sweeps);
    /* The last one may be under way. */
    if (w->sweep_count > 0) {
        w->sweeps[w->sweep_count] = w->sweeps[w->sweep_count - 1];
        w->sweeps[w->sweep_count - 1] = (struct sweep){start, first};
    } else {
        w->sweeps[0] = (struct sweep){start, first};
    }
    w->sweep_count++;
}

struct sweeping {
    struct winstate *w;
    size_t limit; /* of bytes of the round under way */
    uint32_t left;
};

static int
sweep_entry(void *arg, const struct snapshot_key *key, const void *value,
            size_t value_len, struct err *e)
{
    struct sweeping *p = arg;

    (void)value;
    (void)value_len;
    (void)e;
    if (p->left == 0 || snapshot_bytes(p->w->next) >= p->limit)
        return 1;
    p->left--;
    snapshot_del(p->w->next, key);
    return 0;
}

int
winstate_sweep(struct winstate *w, uint32_t max, struct err *e)
{
    struct sweeping p = {.w = w, .limit = w->budget / SWEEP_SHARE, .left = max};

    if (p.limit < SWEEP_MIN)
        p.limit = SWEEP_MIN;
    while (w->sweep_count > 0) {
        const struct sweep *s = &w->sweeps[w->sweep_count - 1];
        int r =
            winstate_walk(w, s->start, s->first, &w->swept, sweep_entry, &p, e);

        if (r < 0)
            return r;
        if (r == 1)
            return p.left == 0; /* else the round deletes enough */
        w->sweep_count--;
    }
    return 0;
}
