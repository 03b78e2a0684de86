#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/rec.h"
#include "core/winstate_impl.h"

/* Entries freed in one call of winstate_fire(). */
enum { PURGE_PIECE = 4096 };

void
winstate_advance(struct winstate *w, int64_t wm)
{
    assert(!w->fire.active);
    if (wm <= w->target)
        return;
    w->target = wm;
    if (w->late.count != 0 && wm >= w->late_purge)
        winstate_flush_late(w);
}

void
winstate_flush_late(struct winstate *w)
{
    if (w->late.count == 0 || w->flush_late)
        return;
    w->flush_late = true;
    w->late_iter = (struct table_iter){0, 0};
}

bool
winstate_has_late(const struct winstate *w)
{
    return w->late.count != 0;
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

        if (winstate_last_end(w, w->slices[mid]->start) <= floor)
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

static void
say_lost(struct winstate *w, const struct table_entry *en, struct winrow *row)
{
    row->poisoned = (en->flags & ENTRY_TYPES) != 0;
    if ((en->flags & ENTRY_UNSAVED) != 0)
        row->unsaved = winstate_unsaved_why(w);
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
    dst->flags |= src->flags & ENTRY_LOST;
    winstate_count(dst, src->count);
    if (fresh) {
        if (aggset_dup(w->set, src->block, dst->block, NULL) != 0) {
            aggset_init(w->set, dst->block);
            dst->flags |= ENTRY_TYPES;
        }
        return;
    }
    if (aggset_dup(w->set, src->block, w->scratch, NULL) != 0 ||
        aggset_merge(w->set, dst->block, w->scratch, NULL) != 0)
        dst->flags |= ENTRY_TYPES;
}

static void
start_window(struct winstate *w, int64_t start)
{
    struct firing *f = &w->fire;
    uint32_t i, n = 0, from = winstate_lower_bound(w, start, INT64_MIN);
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
        winstate_table_drop(w, &w->fire.merged);
    w->last_end = w->fire.end;
    memset(&w->fire, 0, sizeof w->fire);
}

/* Take away the slices whose last window is purged at the target. */
static void
doom(struct winstate *w)
{
    uint32_t i, n = 0;

    assert(w->doomed_count == 0);
    for (i = 0; i < w->slice_count; i++) {
        struct slice *s = w->slices[i];

        if (winstate_purge_at(w, winstate_last_end(w, s->start)) > w->target) {
            w->slices[n++] = s;
            continue;
        }
        w->frozen_left -= s->frozen.n; /* seen by the walk over its table */
        mem_grow(&w->doomed, &w->doomed_cap, w->doomed_count + 1u,
                 sizeof *w->doomed);
        w->doomed[w->doomed_count++] = s;
    }
    w->doomed_iter = (struct table_iter){0, 0};
    w->slice_count = n;
    w->recent = 0;
    w->save_at = 0;
}

bool
winstate_purge(struct winstate *w, uint32_t max)
{
    while (w->doomed_count > 0 && max > 0) {
        struct slice *s = w->doomed[w->doomed_count - 1];
        struct table_entry *en = table_next(&s->table, &w->doomed_iter);

        if (en != NULL) {
            winstate_forget(w, s, en);
            aggset_fini(w->set, en->block);
            max--;
            continue;
        }
        table_fini(&s->table);
        winstate_slice_free(w, s);
        w->doomed_count--;
        w->doomed_iter = (struct table_iter){0, 0};
    }
    return w->doomed_count > 0;
}

/* The row of a dirty (window, key): all slices of the window, merged. */
static int
late_row(struct winstate *w, const struct table_entry *d, winstate_row_f *row,
         void *arg, struct err *e)
{
    const char *key = table_key(&w->late, d);
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
    for (i = winstate_lower_bound(w, out.start, INT64_MIN);
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
        say_lost(w, src, &out);
        r = row(arg, &out, e);
    }
    winstate_table_drop(w, &one);
    return r;
}

static int
fire_late(struct winstate *w, uint32_t *left, winstate_row_f *row, void *arg,
          struct err *e)
{
    const struct table_entry *d;
    int r;

    while (*left > 0) {
        d = table_next(&w->late, &w->late_iter);
        if (d == NULL) {
            table_clear(&w->late);
            w->late_purge = INT64_MAX;
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
        say_lost(w, src, &out);
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
        doom(w);
    }
    return winstate_purge(w, PURGE_PIECE);
}
