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

    if (w->wm != WM_NONE && w->wm >= floor) /* behind what is reached */
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

static bool
in_window(const struct winstate *w, const struct slice *s)
{
    return s->first <= w->fire.start &&
           (!w->spec.whole || s->start == w->fire.start);
}

/* The next slice of the window that fires, from index *i on; or NULL. */
static struct slice *
window_slice(const struct winstate *w, uint32_t *i)
{
    while (*i < w->slice_count && w->slices[*i]->start < w->fire.end) {
        struct slice *s = w->slices[(*i)++];

        if (in_window(w, s))
            return s;
    }
    return NULL;
}

static uint32_t
first_slice(const struct winstate *w)
{
    return winstate_lower_bound(w, w->fire.start, INT64_MIN);
}

/* All entries of the window that are in memory, by key group. */
static void
group_entries(struct winstate *w)
{
    struct firing *f = &w->fire;
    uint32_t from = w->store.first_group, pass, i, g;
    uint32_t groups = w->store.last_group - from + 1;
    size_t *at = mem_zalloc((groups + 2u) * sizeof *at);

    for (pass = 0; pass < 2; pass++) {
        struct slice *s;

        for (i = first_slice(w); (s = window_slice(w, &i)) != NULL;) {
            struct slice_iter it = {.old = false};
            struct table_entry *en;

            while ((en = winstate_slice_next(s, &it)) != NULL) {
                g = key_group(en->hash, w->max_parallelism) - from;
                assert(g < groups);
                if (pass == 0)
                    at[g + 2]++;
                else
                    f->by_group[at[g + 1]++] = en;
            }
        }
        for (g = 2; pass == 0 && g <= groups + 1; g++)
            at[g] += at[g - 1];
        if (pass == 0)
            f->by_group =
                mem_alloc((at[groups + 1] + 1) * sizeof(struct table_entry *));
    }
    f->group_at = at;
    f->group = from;
}

static void
start_window(struct winstate *w, int64_t start)
{
    struct firing *f = &w->fire;
    uint32_t i, n = 0;
    bool partly = false;
    struct slice *s;

    f->active = true;
    f->start = start;
    f->end = window_end(&w->spec, start);
    for (i = first_slice(w); (s = window_slice(w, &i)) != NULL; n++) {
        f->only = s;
        partly = partly || s->partly;
    }
    f->kind = n == 0   ? FIRE_NOTHING
              : n == 1 ? FIRE_SLICE
              : partly ? FIRE_GROUPS
                       : FIRE_MERGED;
    if (f->kind == FIRE_GROUPS)
        group_entries(w);
    if (f->kind != FIRE_MERGED)
        return;
    for (i = first_slice(w); (s = window_slice(w, &i)) != NULL;) {
        struct slice_iter it = {.old = false};
        const struct table_entry *src;

        while ((src = winstate_slice_next(s, &it)) != NULL)
            merge_entry(w, &f->merged, &s->young, src);
    }
}

static void
end_window(struct winstate *w)
{
    struct firing *f = &w->fire;

    winstate_table_drop(w, &f->merged);
    free(f->by_group);
    free(f->group_at);
    w->last_end = f->end;
    f->active = f->iter_done = false;
    f->by_group = NULL;
    f->group_at = NULL;
    f->only = NULL;
    memset(&f->iter, 0, sizeof f->iter);
    memset(&f->merged_iter, 0, sizeof f->merged_iter);
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
    memset(&w->doomed_iter, 0, sizeof w->doomed_iter);
    w->slice_count = n;
    w->recent = 0;
    w->save_at = 0;
}

bool
winstate_purge(struct winstate *w, uint32_t max)
{
    while (w->doomed_count > 0 && max > 0) {
        struct slice *s = w->doomed[w->doomed_count - 1];
        struct table_entry *en = winstate_slice_next(s, &w->doomed_iter);

        if (en != NULL) {
            winstate_forget(w, s, en);
            aggset_fini(w->set, en->block);
            max--;
            continue;
        }
        if (s->partly)
            winstate_sweep_add(w, s->start, s->first);
        winstate_slice_free(w, s);
        w->doomed_count--;
        memset(&w->doomed_iter, 0, sizeof w->doomed_iter);
    }
    return w->doomed_count > 0;
}

/* What the rows of a window go to. */
struct rows_out {
    struct winstate *w;
    uint32_t *left;
    winstate_row_f *row;
    void *arg;
};

/* The row of a key without window: as it is, at the time of its change. */
static int
updated_row(const struct rows_out *to, const struct partial *head,
            struct winrow *out, struct err *e)
{
    struct winstate *w = to->w;
    struct table_entry *found = NULL;
    int r = 0;

    if (w->slice_count > 0)
        r = winstate_find(w, w->slices[0], head, &found, e);
    if (r != 0 || found == NULL || found->count == 0)
        return r;
    out->block = found->block;
    out->end = aggset_times(found->block)->last + 1;
    say_lost(w, found, out);
    return to->row(to->arg, out, e);
}

/* The row of a dirty (window, key): all slices of the window, merged. */
static int
late_row(const struct rows_out *to, const struct table_entry *d, struct err *e)
{
    struct winstate *w = to->w;
    const char *key = table_key(&w->late, d);
    struct winrow out = {.key = key + 8, .key_len = d->key_len - 8};
    struct table one;
    struct table_iter it = {0, 0};
    const struct table_entry *src;
    struct table_entry *found;
    struct partial head = {.key = key + 8, .key_len = d->key_len - 8};
    uint32_t i;
    int r = 0;

    memcpy(&out.start, key, sizeof out.start);
    out.end = window_end(&w->spec, out.start);
    head.hash = d->hash ^ hash_splitmix((uint64_t)out.start);
    if (w->spec.updating)
        return updated_row(to, &head, &out, e);
    table_init(&one, w->set->size);
    for (i = winstate_lower_bound(w, out.start, INT64_MIN);
         r == 0 && i < w->slice_count && w->slices[i]->start < out.end; i++) {
        struct slice *s = w->slices[i];

        if (s->first > out.start || (w->spec.whole && s->start != out.start))
            continue;
        r = winstate_find(w, s, &head, &found, e);
        if (r == 0 && found != NULL)
            merge_entry(w, &one, &s->young, found);
    }
    src = r == 0 ? table_next(&one, &it) : NULL;
    if (src != NULL && src->count != 0) {
        out.block = src->block;
        say_lost(w, src, &out);
        r = to->row(to->arg, &out, e);
    }
    winstate_table_drop(w, &one);
    return r;
}

static int
fire_late(const struct rows_out *to, struct err *e)
{
    struct winstate *w = to->w;
    const struct table_entry *d;
    int r;

    while (*to->left > 0) {
        d = table_next(&w->late, &w->late_iter);
        if (d == NULL) {
            table_clear(&w->late);
            w->late_purge = INT64_MAX;
            w->flush_late = false;
            return 0;
        }
        (*to->left)--;
        r = late_row(to, d, e);
        if (r < 0)
            return r;
    }
    return 1;
}

static int
put_row(const struct rows_out *o, const struct table_entry *src,
        const char *key, const void *block, struct err *e)
{
    struct winrow out = {.start = o->w->fire.start, .end = o->w->fire.end};

    if (src->count == 0) /* every record of it failed */
        return 0;
    (*o->left)--;
    out.key = key;
    out.key_len = src->key_len;
    out.block = block;
    say_lost(o->w, src, &out);
    return o->row(o->arg, &out, e);
}

/* A row of what the store alone has. */
static int
stored_row(void *arg, const struct snapshot_key *key, const void *value,
           size_t value_len, struct err *e)
{
    const struct rows_out *o = arg;
    struct winstate *w = o->w;
    struct table_entry en = {.hash = hash_key(key->key, key->key_len),
                             .key_len =
                                 key->key_len & ((1u << TABLE_KEY_BITS) - 1)};
    uint32_t count = 0, flags = 0;
    int r;

    if (*o->left == 0)
        return 1;
    if (winstate_holds(w->fire.only, en.hash, key->key, key->key_len))
        return 0;
    r = winstate_decode(w, value, value_len, w->scratch, &count, &flags, e);
    en.count = count;
    en.flags = flags & TABLE_FLAGS;
    if (r == 0)
        r = put_row(o, &en, key->key, w->scratch, e);
    aggset_fini(w->set, w->scratch);
    return r < 0 ? r : 0;
}

static int
fire_slice(const struct rows_out *o, struct err *e)
{
    struct firing *f = &o->w->fire;

    while (!f->iter_done && *o->left > 0) {
        const struct table_entry *src = winstate_slice_next(f->only, &f->iter);
        int r;

        if (src == NULL) {
            f->iter_done = true;
            break;
        }
        r = put_row(o, src, table_key(&f->only->young, src), src->block, e);
        if (r < 0)
            return r;
    }
    if (!f->iter_done)
        return 1;
    if (!f->only->partly)
        return 0;
    return winstate_walk(o->w, f->only->start, f->only->first, &f->place,
                         stored_row, (void *)(uintptr_t)o, e);
}

/* @return 1 more are left, 0, < 0. */
static int
fire_merged(const struct rows_out *o, struct err *e)
{
    struct firing *f = &o->w->fire;

    while (*o->left > 0) {
        const struct table_entry *src = table_next(&f->merged, &f->merged_iter);
        int r;

        if (src == NULL)
            return 0;
        r = put_row(o, src, table_key(&f->merged, src), src->block, e);
        if (r < 0)
            return r;
    }
    return 1;
}

struct merging {
    struct winstate *w;
    const struct slice *s;
};

static int
merge_stored(void *arg, const struct snapshot_key *key, const void *value,
             size_t value_len, struct err *e)
{
    struct merging *m = arg;
    struct winstate *w = m->w;
    uint64_t hash = hash_key(key->key, key->key_len);
    uint32_t count = 0, flags = 0;
    struct table_entry *dst;
    bool fresh;
    int r;

    if (winstate_holds(m->s, hash, key->key, key->key_len))
        return 0;
    dst = table_upsert(&w->fire.merged, hash, key->key, key->key_len, &fresh);
    r = winstate_decode(w, value, value_len, fresh ? dst->block : w->scratch,
                        &count, &flags, e);
    if (r != 0) {
        if (!fresh)
            aggset_fini(w->set, w->scratch);
        return r;
    }
    if (!fresh && aggset_merge(w->set, dst->block, w->scratch, NULL) != 0)
        flags |= ENTRY_TYPES;
    dst->flags |= flags & ENTRY_LOST;
    winstate_count(dst, count);
    return 0;
}

/* Merge one key group of the window that fires. */
static int
merge_group(struct winstate *w, struct err *e)
{
    struct firing *f = &w->fire;
    uint32_t g = f->group - w->store.first_group, i;
    struct slice *s;
    size_t k;
    int r = 0;

    winstate_table_drop(w, &f->merged);
    memset(&f->merged_iter, 0, sizeof f->merged_iter);
    for (k = f->group_at[g]; k < f->group_at[g + 1]; k++)
        merge_entry(w, &f->merged, &f->merged, f->by_group[k]);
    for (i = first_slice(w); r == 0 && (s = window_slice(w, &i)) != NULL;) {
        struct merging m = {.w = w, .s = s};

        if (!s->partly)
            continue;
        f->place.group = f->group;
        f->place.behind = false;
        r = winstate_walk_group(w, s->start, s->first, &f->place, merge_stored,
                                &m, e);
        f->place.behind = false;
    }
    return r;
}

static int
fire_groups(const struct rows_out *o, struct err *e)
{
    struct firing *f = &o->w->fire;

    for (;;) {
        int r = fire_merged(o, e);

        if (r != 0)
            return r;
        if (f->group > o->w->store.last_group)
            return 0;
        r = merge_group(o->w, e);
        if (r != 0)
            return r;
        f->group++;
    }
}

static int
fire_rows(const struct rows_out *o, struct err *e)
{
    switch (o->w->fire.kind) {
    case FIRE_SLICE:
        return fire_slice(o, e);
    case FIRE_MERGED:
        return fire_merged(o, e);
    case FIRE_GROUPS:
        return fire_groups(o, e);
    case FIRE_NOTHING:
        break;
    }
    return 0;
}

int
winstate_fire(struct winstate *w, uint32_t max, winstate_row_f *row, void *arg,
              struct err *e)
{
    const struct rows_out out = {.w = w, .left = &max, .row = row, .arg = arg};
    int64_t start;
    int r;

    if (w->flush_late) {
        r = fire_late(&out, e);
        if (r != 0)
            return r;
    }
    for (;;) {
        if (w->fire.active) {
            r = fire_rows(&out, e);
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
