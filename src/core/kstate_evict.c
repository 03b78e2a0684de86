/*
 * Giving up what is over the budget. A hand goes round the keys, and the items
 * of their maps: what was used since it came by the last time stays, and so
 * does what is not in a durable round; the rest goes. Where a whole turn gains
 * little, it waits for the next round to be durable.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/kstate_impl.h"

enum {
    ENTRY_GUESS = 128, /* bytes of an entry, with what finds it */
    GAIN = 16,         /* of so many looked at one must be gained */
    FRAME_HEAD = 4,
};

/* ---- giving up one key ---- */

static void
give_up_cell(struct kstate *k, struct kkey *key, uint32_t h)
{
    struct kcell *c = kcell_of(k, key, h);

    if (c->len == CELL_EMPTY)
        return;
    kcell_drop(k, h, c);
    c->flags |= CELL_STORED;
}

static void
give_up_list(struct kstate *k, struct kkey *key, uint32_t h)
{
    struct kcell *c = kcell_of(k, key, h);
    struct klist *l = c->u.p;
    uint32_t i;

    if (c->len == CELL_EMPTY || l->hold > k->cache.durable ||
        2 * FRAME_HEAD + key->e.extra > KNAME_MAX)
        return;
    for (i = 0; i < l->n; i++)
        if (!kcache_is_durable(k, &l->chunks[i]->e))
            return;
    if (l->n == 0) {
        kcell_drop(k, h, c);
        key->live--;
        return;
    }
    for (i = 0; i < l->n; i++)
        l->chunks[i]->e.flags &= (uint8_t)~ENTRY_KEPT; /* nothing is deleted */
    give_up_cell(k, key, h);
}

/* @return whether the item is gone. */
static bool
give_up_item(struct kstate *k, struct kitem *it, uint64_t hash)
{
    struct kmap *m = it->map;
    bool tomb = (it->e.small & ITEM_TOMB) != 0;

    if ((it->e.small & ITEM_USED) != 0) {
        it->e.small &= (uint16_t)~ITEM_USED;
        k->cache.gained++;
        return false;
    }
    if (!kcache_is_durable(k, &it->e) ||
        FRAME_HEAD + m->key->e.extra + it->e.extra > KNAME_MAX)
        return false;
    if (!tomb) {
        (void)kcache_note(k, kcache_item_hash(hash, m->h, it->e.hash));
        kcell_of(k, m->key, m->h)->flags |= CELL_STORED;
    }
    kmap_forget_view(k, m);
    kmap_take(k, it);
    it->e.flags &= (uint8_t)~ENTRY_KEPT; /* nothing is deleted */
    kitem_drop(k, it);
    k->cache.gained++;
    return true;
}

/* Look at up to *max items. @return whether all were. */
static bool
give_up_map(struct kstate *k, struct kkey *key, uint32_t h, uint32_t *max)
{
    struct khand *hand = &k->cache.hand;
    struct kcell *c = kcell_of(k, key, h);
    struct kmap *m = c->u.p;
    uint64_t hash;
    struct entry *en;

    if (c->len == CELL_EMPTY)
        return true;
    hash = kcache_hash(k, key);
    while ((en = index_next(&m->index, &hand->items)) != NULL) {
        if (*max == 0)
            return false; /* this one is looked at the next time round */
        --*max;
        k->cache.looked++;
        if (give_up_item(k, (struct kitem *)en, hash))
            index_gone(&m->index, &hand->items);
    }
    if (m->index.count != 0)
        return true;
    key->live -= (c->flags & CELL_STORED) == 0;
    kcell_drop(k, h, c);
    return true;
}

/* Whether nothing of a key is in memory but its name. */
static bool
is_bare(const struct kstate *k, struct kkey *key, bool *ret_stored)
{
    uint32_t h, stored = 0;

    for (h = 0; h < k->count; h++) {
        const struct kcell *c = kcell_of(k, key, h);

        if (c->len != CELL_EMPTY)
            return false;
        stored += (c->flags & CELL_STORED) != 0;
    }
    *ret_stored = stored != 0;
    return key->live == stored; /* no timers */
}

/* @return whether it is gone. */
static bool
leave(struct kstate *k, struct kkey *key)
{
    bool stored;

    if (!kcache_is_durable(k, &key->e) || !is_bare(k, key, &stored))
        return false;
    if (stored) {
        (void)kcache_note(k, kcache_hash(k, key));
        kcache_count(k, key, 1);
    }
    kkey_free(k, key);
    k->cache.gained++;
    return true;
}

/* Look at one key. @return whether it is done with. */
static bool
give_up_key(struct kstate *k, struct kkey *key, uint32_t *max)
{
    struct khand *hand = &k->cache.hand;
    bool used = (key->e.flags & KEY_USED) != 0;
    bool durable = kcache_is_durable(k, &key->e);

    for (; hand->h < k->count; hand->h++) {
        enum kstate_kind kind = k->handles[hand->h].pub.kind;

        if (kind == KSTATE_MAP && !give_up_map(k, key, hand->h, max))
            return false;
        memset(&hand->items, 0, sizeof hand->items);
        if (used)
            continue;
        if (kind == KSTATE_LIST)
            give_up_list(k, key, hand->h);
        else if (kind != KSTATE_MAP && durable)
            give_up_cell(k, key, hand->h);
    }
    hand->key = NULL;
    if (used) {
        key->e.flags &= (uint8_t)~KEY_USED;
        k->cache.gained++;
    } else if (leave(k, key)) {
        index_gone(&k->keys, &hand->keys);
    }
    return true;
}

/* ---- going round ---- */

static void
turn(struct kstate *k)
{
    struct kcache *c = &k->cache;

    c->stalled = c->gained < c->looked / GAIN + 1;
    c->looked = c->gained = 0;
    memset(&c->hand, 0, sizeof c->hand);
}

static void
go_on(struct kstate *k, uint32_t max)
{
    struct kcache *c = &k->cache;
    struct khand *hand = &c->hand;

    c->store.renew(c->store.arg); /* what goes is in what is seen then */
    while (max > 0 && !c->stalled) {
        if (hand->key == NULL) {
            hand->key = (struct kkey *)index_next(&k->keys, &hand->keys);
            hand->h = 0;
            memset(&hand->items, 0, sizeof hand->items);
            if (hand->key == NULL) {
                turn(k);
                return;
            }
            max--;
            c->looked++;
        }
        (void)give_up_key(k, hand->key, &max);
    }
}

/* Which generations are durable. */
static void
note_durable(struct kstate *k, uint64_t durable)
{
    struct kcache *c = &k->cache;

    while (c->durable < k->rounds.generation &&
           c->rounds[(c->durable + 1) % GENERATIONS] <= durable) {
        c->durable++;
        c->stalled = false;
    }
}

enum entry_room
kstate_trim(struct kstate *k, uint64_t durable, uint32_t max)
{
    struct kcache *c = &k->cache;
    bool under_way;
    size_t bytes;

    if (c->budget == 0)
        return ROOM_ENOUGH;
    kstate_leave(k);
    c->adopting = false;
    note_durable(k, durable);
    bytes = kstate_bytes(k);
    if (bytes > c->budget / 4 * 3)
        c->evicting = true;
    else if (bytes < c->budget / 8 * 5)
        c->evicting = false;
    if (c->evicting && !c->stalled) {
        go_on(k, max);
        bytes = kstate_bytes(k);
    }
    under_way = k->rounds.into != NULL || c->durable < k->rounds.generation;
    if (under_way)
        return bytes > c->budget ? ROOM_WAIT : ROOM_ENOUGH;
    if (c->asked || bytes <= c->budget / 2 ||
        entry_rounds_changed(&k->rounds) * ENTRY_GUESS < c->budget / 4)
        return ROOM_ENOUGH;
    c->asked = true;
    return ROOM_WANT_ROUND;
}
