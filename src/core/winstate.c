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
    table_init(&w->late, 8);
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

void
winstate_slice_free(struct winstate *w, struct slice *s)
{
    winstate_table_drop(w, &s->table);
    free(s->dirty.items);
    free(s->frozen.items);
    free(s);
}

/* Of the last doomed slice a part is gone already. */
static void
doomed_free(struct winstate *w, struct slice *s, bool begun)
{
    struct table_entry *e;

    while (begun && (e = table_next(&s->table, &w->doomed_iter)) != NULL)
        aggset_fini(w->set, e->block);
    if (begun)
        table_fini(&s->table);
    winstate_slice_free(w, s);
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
        winstate_slice_free(w, w->slices[i]);
    for (i = 0; i < w->doomed_count; i++)
        doomed_free(w, w->doomed[i], i + 1 == w->doomed_count);
    if (w->fire.owned)
        winstate_table_drop(w, &w->fire.merged);
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
    table_init(&s->table, w->set->size);
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

    if (p->first != WINDOW_FIRST_ALL && p->first > at)
        at = p->first;
    assert(p->key_len <= KEY_SIZE_MAX);
    if (p->key_len != 0)
        memcpy(key + 8, p->key, p->key_len);
    for (; at <= last; at += w->spec.slide) {
        int64_t end = window_end(&w->spec, at),
                purge = winstate_purge_at(w, end);
        bool fresh;

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

/* The entry, about to change, its block undefined if it is fresh; NULL:
 * purged. */
static struct table_entry *
upsert(struct winstate *w, const struct partial *head, bool *ret_fresh)
{
    struct table_entry *e;
    struct slice *s;

    if (w->wm != WM_NONE &&
        winstate_purge_at(w, winstate_last_end(w, head->slice)) <= w->wm)
        return NULL;
    s = winstate_slice_get(w, head->slice, head->first);
    e = table_upsert(&s->table, head->hash, head->key, head->key_len,
                     ret_fresh);
    winstate_touch(w, s, e);
    if (w->wm != WM_NONE && w->spec.lateness > 0)
        mark_late(w, head);
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

    p->block = NULL;
    if (fresh && w->set->movable) { /* it moves in as it is */
        memcpy(e->block, block, w->set->size);
        e->count = p->count;
        return 0;
    }
    if (fresh)
        aggset_init(w->set, e->block);
    if (e == NULL) {
        aggset_fini(w->set, block);
        return 1;
    }
    if (aggset_merge(w->set, e->block, block, NULL) != 0)
        e->flags |= ENTRY_TYPES;
    winstate_count(e, p->count);
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
    size_t n = w->late.bytes;
    uint32_t i;

    for (i = 0; i < w->slice_count; i++)
        n += w->slices[i]->table.bytes;
    return n;
}
