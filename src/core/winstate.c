#include "core/winstate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/rec.h"

/* Mark in table_entry.count: a merge met values of different types. */
#define POISON 0x80000000u

struct slice {
    int64_t start, first;
    struct table table;
};

struct firing {
    bool active, owned; /* owned: `merged` was made for this window */
    int64_t start, end;
    const struct table *table;
    struct table merged;
    struct table_iter iter;
};

struct winstate {
    struct window_spec spec;
    const struct aggset *set;
    struct slice **slices; /* sorted by (start, first) */
    size_t slice_cap;
    uint32_t slice_count, recent;
    int64_t wm;     /* reached */
    int64_t target; /* being reached */
    int64_t last_end;
    struct firing fire;
    struct table dirty; /* key: window start, canonical key */
    struct table_iter dirty_iter;
    int64_t dirty_purge; /* first watermark that purges a dirty window */
    bool flush_late;
    void *scratch; /* one block */
};

struct winstate *
winstate_new(const struct window_spec *spec, const struct aggset *set)
{
    struct winstate *w = mem_zalloc(sizeof *w);

    w->spec = *spec;
    w->set = set;
    w->wm = w->target = WM_NONE;
    w->last_end = INT64_MIN;
    w->dirty_purge = INT64_MAX;
    table_init(&w->dirty, 8);
    w->scratch = mem_alloc(set->size);
    return w;
}

static void
table_drop(struct table *t, const struct aggset *set)
{
    struct table_iter it = {0, 0};
    struct table_entry *e;

    while ((e = table_next(t, &it)) != NULL)
        aggset_fini(set, e->block);
    table_fini(t);
}

static void
slice_free(struct slice *s, const struct aggset *set)
{
    table_drop(&s->table, set);
    free(s);
}

void
winstate_free(struct winstate **wp)
{
    struct winstate *w = *wp;
    uint32_t i;

    *wp = NULL;
    if (w == NULL)
        return;
    for (i = 0; i < w->slice_count; i++)
        slice_free(w->slices[i], w->set);
    if (w->fire.owned)
        table_drop(&w->fire.merged, w->set);
    free(w->slices);
    table_fini(&w->dirty);
    free(w->scratch);
    free(w);
}

/* Index of the first slice not below (start, first). */
static uint32_t
lower_bound(const struct winstate *w, int64_t start, int64_t first)
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
        i = lower_bound(w, start, first);
    return slice_is(w, i, start, first) ? w->slices[i] : NULL;
}

static struct slice *
slice_get(struct winstate *w, int64_t start, int64_t first)
{
    uint32_t i = w->recent;
    struct slice *s;

    if (slice_is(w, i, start, first))
        return w->slices[i];
    i = w->recent = lower_bound(w, start, first);
    if (slice_is(w, i, start, first))
        return w->slices[i];
    s = mem_zalloc(sizeof *s);
    s->start = start;
    s->first = first;
    table_init(&s->table, w->set->size);
    mem_grow(&w->slices, &w->slice_cap, w->slice_count + 1u, sizeof *w->slices);
    memmove(w->slices + i + 1, w->slices + i,
            (w->slice_count - i) * sizeof *w->slices);
    w->slices[i] = s;
    w->slice_count++;
    return s;
}

/* End of the last window of a slice. */
static int64_t
last_end(const struct winstate *w, int64_t start)
{
    return window_end(&w->spec, window_last(&w->spec, start));
}

static int64_t
purge_at(const struct winstate *w, int64_t end)
{
    return w->spec.kind == WINDOW_GLOBAL ? INT64_MAX - 1
                                         : end - 1 + w->spec.lateness;
}

/* Note that windows which fired already must give a new row for this key. */
static void
mark_dirty(struct winstate *w, const struct partial *p)
{
    int64_t at = window_first(&w->spec, p->slice);
    int64_t last = window_last(&w->spec, p->slice);
    char key[8 + KEY_SIZE_MAX];

    if (p->first != WINDOW_FIRST_ALL && p->first > at)
        at = p->first;
    assert(p->key_len <= KEY_SIZE_MAX);
    if (p->key_len != 0)
        memcpy(key + 8, p->key, p->key_len);
    for (; at <= last; at += w->spec.slide) {
        int64_t end = window_end(&w->spec, at), purge = purge_at(w, end);
        bool fresh;

        if (end - 1 > w->wm)
            break;
        if (purge <= w->wm)
            continue;
        memcpy(key, &at, sizeof at);
        (void)table_upsert(&w->dirty, p->hash ^ hash_splitmix((uint64_t)at),
                           key, 8 + p->key_len, &fresh);
        if (purge < w->dirty_purge)
            w->dirty_purge = purge;
    }
}

/* The entry, its block undefined if it is fresh; NULL: purged. */
static struct table_entry *
upsert(struct winstate *w, const struct partial *head, bool *ret_fresh)
{
    struct table_entry *e;
    struct slice *s;

    if (w->wm != WM_NONE && purge_at(w, last_end(w, head->slice)) <= w->wm)
        return NULL;
    s = slice_get(w, head->slice, head->first);
    e = table_upsert(&s->table, head->hash, head->key, head->key_len,
                     ret_fresh);
    if (w->wm != WM_NONE && w->spec.lateness > 0)
        mark_dirty(w, head);
    return e;
}

struct table_entry *
winstate_upsert(struct winstate *w, const struct partial *head)
{
    bool fresh = false;
    struct table_entry *e = upsert(w, head, &fresh);

    if (fresh)
        aggset_init(w->set, e->block);
    return e;
}

int
winstate_merge(struct winstate *w, struct partial *p)
{
    bool fresh = false;
    struct table_entry *e = upsert(w, p, &fresh);
    void *block = p->block;
    uint32_t count;

    p->block = NULL;
    if (fresh && w->set->movable) { /* it moves in as it is */
        memcpy(e->block, block, w->set->size);
        e->count = p->count & ~POISON;
        return 0;
    }
    if (fresh)
        aggset_init(w->set, e->block);
    if (e == NULL) {
        aggset_fini(w->set, block);
        return 1;
    }
    count = (e->count & ~POISON) + p->count;
    if (aggset_merge(w->set, e->block, block, NULL) != 0)
        e->count |= POISON;
    e->count = (e->count & POISON) | (count & ~POISON);
    return 0;
}

void
winstate_prefetch(const struct winstate *w, const struct partial *p, bool entry)
{
    const struct slice *s = slice_find(w, p->slice, p->first);

    if (s == NULL)
        return;
    if (entry)
        table_prefetch_entry(&s->table, p->hash);
    else
        table_prefetch(&s->table, p->hash);
}

void
winstate_advance(struct winstate *w, int64_t wm)
{
    assert(!w->fire.active);
    if (wm <= w->target)
        return;
    w->target = wm;
    if (w->dirty.count != 0 && wm >= w->dirty_purge)
        winstate_flush_late(w);
}

void
winstate_flush_late(struct winstate *w)
{
    if (w->dirty.count == 0 || w->flush_late)
        return;
    w->flush_late = true;
    w->dirty_iter = (struct table_iter){0, 0};
}

bool
winstate_has_late(const struct winstate *w)
{
    return w->dirty.count != 0;
}

/* Start of the next window to fire, if there is one up to the target. */
static bool
next_window(const struct winstate *w, int64_t *ret)
{
    int64_t floor = w->last_end, start, end;
    uint32_t lo = 0, hi = w->slice_count;

    if (w->wm != WM_NONE && w->wm + 1 > floor)
        floor = w->wm == WM_MAX ? WM_MAX : w->wm + 1;
    while (lo < hi) { /* first slice with a window that ends behind floor */
        uint32_t mid = lo + (hi - lo) / 2;

        if (last_end(w, w->slices[mid]->start) <= floor)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == w->slice_count)
        return false;
    start = window_first(&w->spec, w->slices[lo]->start);
    end = window_end(&w->spec, start);
    if (end <= floor) {
        start += ((floor - end) / w->spec.slide + 1) * w->spec.slide;
        end = window_end(&w->spec, start);
    }
    if (end - 1 > w->target)
        return false;
    *ret = start;
    return true;
}

/* Merge an entry of a slice into the table of the window that fires. */
static void
merge_entry(struct winstate *w, struct table *to, const struct table *from,
            const struct table_entry *src)
{
    struct table_entry *dst;
    bool fresh;

    dst =
        table_upsert(to, src->hash, table_key(from, src), src->key_len, &fresh);
    dst->count = ((dst->count & ~POISON) + (src->count & ~POISON)) |
                 ((dst->count | src->count) & POISON);
    if (fresh) {
        if (aggset_dup(w->set, src->block, dst->block, NULL) != 0) {
            aggset_init(w->set, dst->block);
            dst->count |= POISON;
        }
        return;
    }
    if (aggset_dup(w->set, src->block, w->scratch, NULL) != 0 ||
        aggset_merge(w->set, dst->block, w->scratch, NULL) != 0)
        dst->count |= POISON;
}

static void
start_window(struct winstate *w, int64_t start)
{
    struct firing *f = &w->fire;
    uint32_t i, n = 0, from = lower_bound(w, start, INT64_MIN);
    const struct slice *only = NULL;

    *f = (struct firing){
        .active = true, .start = start, .end = window_end(&w->spec, start)};
    for (i = from; i < w->slice_count && w->slices[i]->start < f->end; i++) {
        if (w->slices[i]->first > start)
            continue;
        if (w->spec.whole && w->slices[i]->start != start)
            break;
        only = w->slices[i];
        n++;
    }
    if (n <= 1) {
        f->table = n == 1 ? &only->table : NULL;
        return;
    }
    table_init(&f->merged, w->set->size);
    f->owned = true;
    f->table = &f->merged;
    for (i = from; i < w->slice_count && w->slices[i]->start < f->end; i++) {
        struct table_iter it = {0, 0};
        const struct table_entry *src;

        if (w->slices[i]->first > start)
            continue;
        if (w->spec.whole && w->slices[i]->start != start)
            break;
        while ((src = table_next(&w->slices[i]->table, &it)) != NULL)
            merge_entry(w, &f->merged, &w->slices[i]->table, src);
    }
}

static void
end_window(struct winstate *w)
{
    if (w->fire.owned)
        table_drop(&w->fire.merged, w->set);
    w->last_end = w->fire.end;
    memset(&w->fire, 0, sizeof w->fire);
}

/* Drop the slices whose last window is purged at the target. */
static void
purge(struct winstate *w)
{
    uint32_t i, n = 0;

    for (i = 0; i < w->slice_count; i++) {
        struct slice *s = w->slices[i];

        if (purge_at(w, last_end(w, s->start)) <= w->target)
            slice_free(s, w->set);
        else
            w->slices[n++] = s;
    }
    w->slice_count = n;
    w->recent = 0;
}

/* The row of a dirty (window, key): all slices of the window, merged. */
static int
late_row(struct winstate *w, const struct table_entry *d, winstate_row_f *row,
         void *arg, struct err *e)
{
    const char *key = table_key(&w->dirty, d);
    struct winrow out = {.key = key + 8, .key_len = d->key_len - 8};
    struct table one;
    struct table_iter it = {0, 0};
    const struct table_entry *src;
    uint64_t hash;
    uint32_t i;
    int r = 0;

    memcpy(&out.start, key, sizeof out.start);
    out.end = window_end(&w->spec, out.start);
    hash = d->hash ^ hash_splitmix((uint64_t)out.start);
    table_init(&one, w->set->size);
    for (i = lower_bound(w, out.start, INT64_MIN);
         i < w->slice_count && w->slices[i]->start < out.end; i++) {
        const struct slice *s = w->slices[i];

        if (s->first > out.start || (w->spec.whole && s->start != out.start))
            continue;
        src = table_find(&s->table, hash, out.key, out.key_len);
        if (src != NULL)
            merge_entry(w, &one, &s->table, src);
    }
    src = table_next(&one, &it);
    if (src != NULL && src->count != 0) {
        out.block = src->block;
        out.poisoned = (src->count & POISON) != 0;
        r = row(arg, &out, e);
    }
    table_drop(&one, w->set);
    return r;
}

static int
fire_late(struct winstate *w, uint32_t *left, winstate_row_f *row, void *arg,
          struct err *e)
{
    const struct table_entry *d;
    int r;

    while (*left > 0) {
        d = table_next(&w->dirty, &w->dirty_iter);
        if (d == NULL) {
            table_clear(&w->dirty);
            w->dirty_purge = INT64_MAX;
            w->flush_late = false;
            return 0;
        }
        (*left)--;
        r = late_row(w, d, row, arg, e);
        if (r < 0)
            return r;
    }
    return 1;
}

static int
fire_rows(struct winstate *w, uint32_t *left, winstate_row_f *row, void *arg,
          struct err *e)
{
    struct firing *f = &w->fire;
    int r;

    while (f->table != NULL && *left > 0) {
        struct table_entry *src = table_next(f->table, &f->iter);
        struct winrow out = {.start = f->start, .end = f->end};

        if (src == NULL)
            return 0;
        if (src->count == 0) /* every record of it failed */
            continue;
        (*left)--;
        out.key = table_key(f->table, src);
        out.key_len = src->key_len;
        out.block = src->block;
        out.poisoned = (src->count & POISON) != 0;
        r = row(arg, &out, e);
        if (r < 0)
            return r;
    }
    return f->table != NULL;
}

int
winstate_fire(struct winstate *w, uint32_t max, winstate_row_f *row, void *arg,
              struct err *e)
{
    int64_t start;
    int r;

    if (w->flush_late) {
        r = fire_late(w, &max, row, arg, e);
        if (r != 0)
            return r;
    }
    for (;;) {
        if (w->fire.active) {
            r = fire_rows(w, &max, row, arg, e);
            if (r != 0)
                return r;
            end_window(w);
        }
        if (!next_window(w, &start))
            break;
        start_window(w, start);
    }
    if (w->target > w->wm) {
        w->wm = w->target;
        purge(w);
    }
    return 0;
}

uint64_t
winstate_keys(const struct winstate *w)
{
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < w->slice_count; i++)
        n += w->slices[i]->table.count;
    return n;
}

size_t
winstate_bytes(const struct winstate *w)
{
    size_t n = w->dirty.bytes;
    uint32_t i;

    for (i = 0; i < w->slice_count; i++)
        n += w->slices[i]->table.bytes;
    return n;
}
