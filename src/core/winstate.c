#include "core/winstate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/rec.h"
#include "core/snapshot.h"
#include "core/winstate_impl.h"

struct winstate *
winstate_new(const struct window_spec *spec, const struct aggset *set)
{
    struct winstate *w = mem_zalloc(sizeof *w);

    w->spec = *spec;
    w->set = set;
    w->wm = w->target = WM_NONE;
    w->last_end = INT64_MIN;
    w->late_purge = INT64_MAX;
    w->cut = INT64_MIN;
    table_init(&w->late, 8);
    table_init(&w->fire.merged, set->size);
    w->scratch = mem_alloc(set->size);
    return w;
}

void
winstate_table_drop(const struct winstate *w, struct table *t)
{
    struct table_iter it = {0, 0};
    struct table_entry *e;

    while ((e = table_next(t, &it)) != NULL)
        aggset_fini(w->set, e->block);
    table_fini(t);
}

struct table_entry *
winstate_slice_next(const struct slice *s, struct slice_iter *i)
{
    for (;;) {
        struct table_entry *en =
            table_next(i->old ? &s->old : &s->young, &i->in);

        if (en != NULL && (en->flags & ENTRY_MOVED) == 0)
            return en;
        if (en == NULL && i->old)
            return NULL;
        if (en == NULL)
            *i = (struct slice_iter){.old = true};
    }
}

void
winstate_slice_free(struct winstate *w, struct slice *s)
{
    table_fini(&s->young);
    table_fini(&s->old);
    free(s->dirty.items);
    free(s->frozen.items);
    winstate_filters_free(w, s);
    free(s);
}

/* Free a slice with what is left from `from` on. */
static void
slice_drop(struct winstate *w, struct slice *s, struct slice_iter from)
{
    struct table_entry *en;

    while ((en = winstate_slice_next(s, &from)) != NULL)
        aggset_fini(w->set, en->block);
    winstate_slice_free(w, s);
}

void
winstate_free(struct winstate **wp)
{
    const struct slice_iter whole = {.old = false};
    struct winstate *w = *wp;
    uint32_t i;

    *wp = NULL;
    if (w == NULL)
        return;
    for (i = 0; i < w->slice_count; i++)
        slice_drop(w, w->slices[i], whole);
    for (i = 0; i < w->doomed_count; i++)
        slice_drop(w, w->doomed[i],
                   i + 1 == w->doomed_count ? w->doomed_iter : whole);
    winstate_table_drop(w, &w->fire.merged);
    free(w->fire.by_group);
    free(w->fire.group_at);
    buf_fini(&w->fire.place.key);
    buf_fini(&w->swept.key);
    buf_fini(&w->expired.key);
    free(w->sweeps);
    free(w->slices);
    free(w->doomed);
    snapshot_free(&w->next);
    free(w->unsaved_why);
    table_fini(&w->late);
    free(w->scratch);
    free(w);
}

uint32_t
winstate_lower_bound(const struct winstate *w, int64_t start, int64_t first)
{
    uint32_t lo = 0, hi = w->slice_count;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const struct slice *s = w->slices[mid];

        if (s->start < start || (s->start == start && s->first < first))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool
slice_is(const struct winstate *w, uint32_t i, int64_t start, int64_t first)
{
    return i < w->slice_count && w->slices[i]->start == start &&
           w->slices[i]->first == first;
}

static struct slice *
slice_find(const struct winstate *w, int64_t start, int64_t first)
{
    uint32_t i = w->recent;

    if (!slice_is(w, i, start, first))
        i = winstate_lower_bound(w, start, first);
    return slice_is(w, i, start, first) ? w->slices[i] : NULL;
}

struct slice *
winstate_slice_get(struct winstate *w, int64_t start, int64_t first)
{
    uint32_t i = w->recent;
    struct slice *s;

    if (slice_is(w, i, start, first))
        return w->slices[i];
    i = w->recent = winstate_lower_bound(w, start, first);
    if (slice_is(w, i, start, first))
        return w->slices[i];
    s = mem_zalloc(sizeof *s);
    s->start = start;
    s->first = first;
    table_init(&s->young, w->set->size);
    table_init(&s->old, w->set->size);
    mem_grow(&w->slices, &w->slice_cap, w->slice_count + 1u, sizeof *w->slices);
    memmove(w->slices + i + 1, w->slices + i,
            (w->slice_count - i) * sizeof *w->slices);
    w->slices[i] = s;
    w->slice_count++;
    return s;
}

int64_t
winstate_last_end(const struct winstate *w, int64_t start)
{
    return window_end(&w->spec, window_last(&w->spec, start));
}

int64_t
winstate_purge_at(const struct winstate *w, int64_t end)
{
    return w->spec.kind == WINDOW_GLOBAL ? INT64_MAX - 1
                                         : end - 1 + w->spec.lateness;
}

/* Note that windows which fired already must give a new row for this key. */
static void
mark_late(struct winstate *w, const struct partial *p)
{
    int64_t at = window_first(&w->spec, p->slice);
    int64_t last = window_last(&w->spec, p->slice);
    char key[8 + KEY_SIZE_MAX];
    bool fresh;

    if (p->first != WINDOW_FIRST_ALL && p->first > at)
        at = p->first;
    assert(p->key_len <= KEY_SIZE_MAX);
    if (p->key_len != 0)
        memcpy(key + 8, p->key, p->key_len);
    if (w->spec.updating) {
        memcpy(key, &p->slice, sizeof p->slice);
        (void)table_upsert(&w->late,
                           p->hash ^ hash_splitmix((uint64_t)p->slice), key,
                           8 + p->key_len, &fresh);
        return;
    }
    for (; at <= last; at += w->spec.slide) {
        int64_t end = window_end(&w->spec, at),
                purge = winstate_purge_at(w, end);

        if (end - 1 > w->wm)
            break;
        if (purge <= w->wm)
            continue;
        memcpy(key, &at, sizeof at);
        (void)table_upsert(&w->late, p->hash ^ hash_splitmix((uint64_t)at), key,
                           8 + p->key_len, &fresh);
        if (purge < w->late_purge)
            w->late_purge = purge;
    }
}

/* Set *ret to the entry, about to change, its block undefined if it is fresh;
 * NULL: purged. */
static int
upsert(struct winstate *w, const struct partial *head, struct table_entry **ret,
       bool *ret_fresh, struct err *e)
{
    struct table_entry *en = NULL;
    struct slice *s;

    *ret = NULL;
    *ret_fresh = false;
    if (w->wm != WM_NONE &&
        winstate_purge_at(w, winstate_last_end(w, head->slice)) <= w->wm)
        return 0;
    s = winstate_slice_get(w, head->slice, head->first);
    if (w->budget != 0 || s->old.count != 0) {
        int r = winstate_find(w, s, head, &en, e);

        if (r != 0)
            return r;
    }
    if (en == NULL)
        en = table_upsert(&s->young, head->hash, head->key, head->key_len,
                          ret_fresh);
    winstate_touch(w, s, en);
    if (w->spec.updating || (w->wm != WM_NONE && w->spec.lateness > 0))
        mark_late(w, head);
    *ret = en;
    return 0;
}

int
winstate_upsert(struct winstate *w, const struct partial *head,
                struct table_entry **ret, struct err *e)
{
    bool fresh;
    int r = upsert(w, head, ret, &fresh, e);

    if (fresh)
        aggset_init(w->set, (*ret)->block);
    return r;
}

void
winstate_renew(struct winstate *w, struct table_entry *en, int64_t ts)
{
    if (w->spec.ttl < 0 || en->count == 0 ||
        aggset_times(en->block)->last > ts - w->spec.ttl)
        return;
    aggset_fini(w->set, en->block);
    aggset_init(w->set, en->block);
    en->count = 0;
    en->flags &= (uint32_t)~ENTRY_LOST & TABLE_FLAGS;
}

int
winstate_merge(struct winstate *w, struct partial *p, struct err *e)
{
    struct table_entry *en;
    void *block = p->block;
    bool fresh;
    int r = upsert(w, p, &en, &fresh, e);

    p->block = NULL;
    if (fresh && w->set->movable) { /* it moves in as it is */
        memcpy(en->block, block, w->set->size);
        en->count = p->count;
        return 0;
    }
    if (en == NULL) {
        aggset_fini(w->set, block);
        return r != 0 ? r : 1;
    }
    if (fresh)
        aggset_init(w->set, en->block);
    if (w->spec.updating)
        winstate_renew(w, en, aggset_times(block)->first);
    if (aggset_merge(w->set, en->block, block, NULL) != 0)
        en->flags |= ENTRY_TYPES;
    winstate_count(en, p->count);
    return 0;
}

void
winstate_prefetch(const struct winstate *w, const struct partial *p, bool entry)
{
    const struct slice *s = slice_find(w, p->slice, p->first);

    if (s == NULL)
        return;
    if (entry)
        table_prefetch_entry(&s->young, p->hash);
    else
        table_prefetch(&s->young, p->hash);
}

uint64_t
winstate_keys(const struct winstate *w)
{
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < w->slice_count; i++) {
        const struct slice *s = w->slices[i];

        n += s->young.count + s->old.count - s->moved + s->evicted;
    }
    return n;
}

size_t
winstate_bytes(const struct winstate *w)
{
    size_t n = w->late.bytes + w->filter_bytes;
    uint32_t i;

    for (i = 0; i < w->slice_count; i++)
        n += w->slices[i]->young.bytes + w->slices[i]->old.bytes +
             (w->slices[i]->young.count + w->slices[i]->old.count -
              w->slices[i]->moved) *
                 (size_t)(w->heap_mean / 16);
    return n;
}

size_t
winstate_block_size(const struct winstate *w)
{
    return w->set->size;
}
