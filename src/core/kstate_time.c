#include <assert.h>
#include <stdlib.h>

#include "core/kstate_impl.h"

enum { PASSES = 4 /* in the shortest ttl */ };

/* ---- timers ---- */

void
ktimer_take(struct kstate *k, struct timer *tm)
{
    timers_unlink(&k->timers[tm->e.small], tm);
    ((struct kkey *)tm->key)->live--;
}

void
ktimer_put(struct kstate *k, struct timer *tm)
{
    timers_link(&k->timers[tm->e.small], tm);
    ((struct kkey *)tm->key)->live++;
}

void
ktimer_drop(struct kstate *k, struct timer *tm)
{
    entry_rounds_leave(&k->rounds, &tm->e);
    if ((tm->e.flags & ENTRY_KEPT) != 0)
        ksave_delete(k, &tm->e);
    timers_drop(&k->timers[tm->e.small], tm);
}

bool
kstate_timer_add(struct kstate *k, enum kstate_clock clock, int64_t ts)
{
    struct kkey *key = k->cur;
    struct timer *tm;

    if (k->refuse[clock]) {
        k->refused[clock]++;
        klog_add(k, UNDO_REFUSED, NULL)->h = clock;
        klog_settle(k);
        return false;
    }
    if (key != NULL && timers_find(&k->timers[clock], &key->e, ts) != NULL)
        return false;
    key = kkey_current(k);
    tm = timers_add(&k->timers[clock], &key->e, ts);
    tm->e.type = ENTRY_TIMER;
    tm->e.small = (uint16_t)clock;
    key->live++;
    entry_rounds_touch(&k->rounds, &tm->e);
    (void)klog_add(k, UNDO_TIMER_NEW, tm);
    klog_settle(k);
    return true;
}

bool
kstate_timer_delete(struct kstate *k, enum kstate_clock clock, int64_t ts)
{
    struct timer *tm = NULL;

    if (k->cur != NULL)
        tm = timers_find(&k->timers[clock], &k->cur->e, ts);
    if (tm == NULL)
        return false;
    ktimer_take(k, tm);
    (void)klog_add(k, UNDO_TIMER_GONE, tm);
    klog_settle(k);
    return true;
}

bool
kstate_timer_next(struct kstate *k, enum kstate_clock clock, int64_t limit,
                  int64_t *ret_ts)
{
    struct timer *tm = timers_due(&k->timers[clock], limit);
    struct kkey *key;

    assert(!k->in_call);
    if (tm == NULL)
        return false;
    key = (struct kkey *)tm->key;
    if (k->cur != NULL && k->cur != key)
        kkey_leave(k, k->cur);
    k->cur = key;
    if (kcache_is_on(k))
        key->e.flags |= KEY_USED;
    k->cur_key = kkey_bytes(k, key);
    k->cur_len = key->e.extra;
    *ret_ts = tm->ts;
    ktimer_take(k, tm);
    ktimer_drop(k, tm);
    return true;
}

bool
kstate_timer_bound(const struct kstate *k, enum kstate_clock clock,
                   int64_t *ret)
{
    return timers_bound(&k->timers[clock], ret);
}

uint64_t
kstate_timers(const struct kstate *k, enum kstate_clock clock)
{
    return timers_count(&k->timers[clock]);
}

void
kstate_timers_refuse(struct kstate *k, enum kstate_clock clock)
{
    k->refuse[clock] = true;
}

uint64_t
kstate_timers_refused(const struct kstate *k, enum kstate_clock clock)
{
    return k->refused[clock];
}

uint32_t
kstate_timers_discard(struct kstate *k, enum kstate_clock clock, uint32_t max)
{
    struct timers *t = &k->timers[clock];
    struct index_iter i = {0};
    struct entry *en;
    uint32_t n;

    kstate_leave(k);
    for (n = 0; n < max && (en = index_next(&t->index, &i)) != NULL; n++) {
        struct timer *tm = (struct timer *)en;
        struct kkey *key = (struct kkey *)tm->key;

        ktimer_take(k, tm);
        index_gone(&t->index, &i);
        ktimer_drop(k, tm);
        kkey_leave(k, key);
    }
    return n;
}

/* ---- what has expired ---- */

bool
kclean_expired(const struct kstate *k, const struct khandle *h, int64_t time,
               bool *ret_touch)
{
    int64_t now = k->clean.now[h->pub.ttl_clock];

    *ret_touch = time == KSTATE_NO_TIME && now != KSTATE_NO_TIME;
    return kexpired(h, time, now);
}

void
kclean_cells(struct kstate *k, struct kkey *key)
{
    uint32_t i;

    for (i = 0; i < k->count; i++) {
        struct khandle *h = &k->handles[i];
        struct kcell *c = kcell_of(k, key, i);
        bool old, touch;

        if (!h->ttl || c->len == CELL_EMPTY || h->pub.kind == KSTATE_MAP ||
            h->pub.kind == KSTATE_LIST)
            continue;
        old = kclean_expired(k, h, *ktime_of(c), &touch);
        if (!old && !touch)
            continue;
        kcell_touch(k, key, c);
        if (touch) {
            *ktime_of(c) = k->clean.now[h->pub.ttl_clock];
            continue;
        }
        kcell_drop(k, i, c);
        key->live--;
    }
}

bool
kclean_item(struct kstate *k, struct kitem *it)
{
    const struct khandle *h = &k->handles[it->map->h];
    bool touch;

    if (!h->ttl || (it->e.small & ITEM_TOMB) != 0)
        return false;
    if (kclean_expired(k, h, *ktime_of(&it->cell), &touch)) {
        if (kcache_is_on(k) &&
            !kcache_is_new(k, &it->e, (it->e.small & ITEM_FRESH) != 0)) {
            entry_rounds_touch(&k->rounds, &it->e);
            kitem_bury(k, it);
            return false;
        }
        kmap_take(k, it);
        kitem_drop(k, it);
        return true;
    }
    if (touch) {
        entry_rounds_touch(&k->rounds, &it->e);
        *ktime_of(&it->cell) = k->clean.now[h->pub.ttl_clock];
    }
    return false;
}

void
kclean_empty(struct kstate *k, struct kkey *key, uint32_t h)
{
    enum kstate_kind kind = k->handles[h].pub.kind;
    struct kcell *c = kcell_of(k, key, h);
    bool empty = false;

    if (c->len == CELL_EMPTY || (c->flags & CELL_STORED) != 0)
        return;
    if (kind == KSTATE_MAP)
        empty = ((struct kmap *)c->u.p)->index.count == 0;
    if (kind == KSTATE_LIST)
        empty = ((struct klist *)c->u.p)->n == 0 &&
                (!kcache_is_on(k) ||
                 ((struct klist *)c->u.p)->hold <= k->cache.durable);
    if (!empty)
        return;
    kcell_drop(k, h, c);
    key->live--;
}

/* ---- passes ---- */

/* Whether enough time has gone by since the last pass began. */
static bool
pass_is_due(const struct kclean *c)
{
    int i;

    for (i = 0; i < KSTATE_CLOCKS; i++) {
        int64_t gap = c->ttl_min[i] / PASSES;

        if (c->ttl_min[i] == INT64_MAX || c->now[i] == KSTATE_NO_TIME)
            continue;
        if (c->begun[i] == KSTATE_NO_TIME || c->now[i] < c->begun[i] ||
            (uint64_t)c->now[i] - (uint64_t)c->begun[i] >=
                (uint64_t)(gap > 0 ? gap : 1))
            return true;
    }
    return false;
}

/* Look at up to *max items of a map. @return whether all were. */
static bool
clean_map(struct kstate *k, struct kmap *m, uint32_t *max)
{
    struct kclean *c = &k->clean;
    struct entry *en;

    while (*max > 0) {
        en = index_next(&m->index, &c->items);
        if (en == NULL)
            return true;
        if (kclean_item(k, (struct kitem *)en))
            index_gone(&m->index, &c->items);
        --*max;
    }
    return false;
}

static bool
clean_list(struct kstate *k, struct klist *l, uint32_t *max)
{
    struct kclean *c = &k->clean;

    while (*max > 0) {
        struct kchunk *at;

        if (c->chunk >= l->n)
            return true;
        --*max;
        at = l->chunks[c->chunk++];
        if (!kchunk_is_stale(k, at))
            continue;
        entry_rounds_touch(&k->rounds, &at->e);
        if (kchunk_filter(k, at)) {
            kchunk_drop(k, at);
            c->chunk--;
        }
    }
    return false;
}

/* Go on with maps and lists of the key. @return whether all were looked at. */
static bool
clean_key(struct kstate *k, uint32_t *max)
{
    struct kclean *c = &k->clean;

    for (; c->h < k->count; c->h++) {
        enum kstate_kind kind = k->handles[c->h].pub.kind;
        struct kcell *cell = kcell_of(k, c->key, c->h);

        bool here = k->handles[c->h].ttl && cell->len != CELL_EMPTY;

        if (here && kind == KSTATE_MAP && !clean_map(k, cell->u.p, max))
            return false;
        if (here && kind == KSTATE_LIST && !clean_list(k, cell->u.p, max))
            return false;
        memset(&c->items, 0, sizeof c->items);
        c->chunk = 0;
        if (here)
            kclean_empty(k, c->key, c->h);
    }
    return true;
}

bool
kstate_clean(struct kstate *k, int64_t event, int64_t processing, uint32_t max)
{
    struct kclean *c = &k->clean;

    kstate_leave(k);
    c->now[KSTATE_EVENT] = event == INT64_MAX ? KSTATE_NO_TIME : event;
    c->now[KSTATE_PROCESSING] = processing;
    if (!c->running) {
        if (!pass_is_due(c))
            return false;
        c->running = true;
        memset(&c->keys, 0, sizeof c->keys);
        c->key = NULL;
        k->cache.sweep_due = kcache_is_on(k);
        memcpy(c->begun, c->now, sizeof c->begun);
    }
    while (max > 0) {
        struct kkey *key = c->key;
        size_t n;

        if (key == NULL) {
            key = c->key = (struct kkey *)index_next(&k->keys, &c->keys);
            if (key == NULL) {
                c->running = false;
                return false;
            }
            max--;
            c->h = k->has_others ? 0 : k->count;
            memset(&c->items, 0, sizeof c->items);
            c->chunk = 0;
            kclean_cells(k, key);
        }
        if (!clean_key(k, &max))
            return true;
        c->key = NULL;
        if (key->live != 0)
            continue;
        n = k->keys.count;
        kkey_leave(k, key);
        if (k->keys.count != n)
            index_gone(&k->keys, &c->keys);
    }
    return true;
}
