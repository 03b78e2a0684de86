#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/blob.h"
#include "core/rec.h"
#include "core/winstate_impl.h"

enum {
    BLOB_VERSION = 1,
    VALUE_HEAD = WINSTATE_VALUE_HEAD,
    VALUE_TYPES = 1, /* as ENTRY_TYPES; no accumulators follow */
    VALUE_UNSAVED = 2,
    SLICE_SIZE = 24 /* in the blob */
};

/* ---- namespaces ---- */

/* Big endian with the sign bit flipped: bytes in the order of numbers. */
static void
ns_put(unsigned char *p, int64_t v)
{
    uint64_t u = (uint64_t)v ^ UINT64_C(1) << 63;
    int i;

    for (i = 7; i >= 0; i--, u >>= 8)
        p[i] = (unsigned char)u;
}

static int64_t
ns_get(const unsigned char *p)
{
    uint64_t u = 0;
    int i;

    for (i = 0; i < 8; i++)
        u = u << 8 | p[i];
    return (int64_t)(u ^ UINT64_C(1) << 63);
}

void
winstate_ns(unsigned char ns[WINSTATE_NS_SIZE], int64_t start, int64_t first)
{
    ns_put(ns, start);
    ns_put(ns + 8, first);
}

struct snapshot_key
winstate_key(const struct winstate *w, uint64_t hash, const void *key,
             uint32_t len, const unsigned char *ns)
{
    return (struct snapshot_key){
        .group = (uint16_t)key_group(hash, w->max_parallelism),
        .ns_len = WINSTATE_NS_SIZE,
        .key_len = len,
        .ns = ns,
        .key = key};
}

/* ---- saving ---- */

void
winstate_track(struct winstate *w, uint32_t max_parallelism)
{
    assert(w->slice_count == 0 && w->max_parallelism == 0);
    w->max_parallelism = max_parallelism;
    w->dirty_bit = ENTRY_DIRTY_A;
    w->next = snapshot_new(0);
}

static struct err *
why(struct winstate *w)
{
    if (w->unsaved_why == NULL) {
        w->unsaved_why = mem_zalloc(sizeof *w->unsaved_why);
        (void)err_record(w->unsaved_why, CAUSE_USER_ERROR,
                         "the accumulator could not be saved in a checkpoint");
    }
    return w->unsaved_why;
}

const struct err *
winstate_unsaved_why(struct winstate *w)
{
    return why(w);
}

/* Append the value of an entry; one that is lost needs no accumulators. */
static void
put_value(struct winstate *w, struct table_entry *en, struct buf *out)
{
    size_t at = out->len;
    struct err *e = w->set->customs != 0 ? why(w) : NULL;

    buf_addc(out, (char)(en->flags & ENTRY_LOST));
    codec_put_u32(out, en->count);
    if ((en->flags & ENTRY_LOST) != 0 ||
        aggset_encode(w->set, en->block, out, e) == 0)
        return;
    en->flags |= ENTRY_UNSAVED;
    out->len = at + VALUE_HEAD;
    out->data[at] = VALUE_UNSAVED;
}

/* Put an entry into the frozen round. One of which every record failed is
 * nothing, unless there was something before. */
static void
save(struct winstate *w, const struct slice *s, struct table_entry *en)
{
    unsigned char ns[WINSTATE_NS_SIZE];
    struct snapshot_key k;

    en->flags &= (w->dirty_bit | ~(uint32_t)ENTRY_DIRTY) & TABLE_FLAGS;
    if (en->count == 0 && (en->flags & ENTRY_PERSISTED) == 0)
        return;
    winstate_ns(ns, s->start, s->first);
    k = winstate_key(w, en->hash, table_key(&s->young, en), en->key_len, ns);
    snapshot_put_begin(w->into, &k);
    put_value(w, en, &w->into->changes);
    snapshot_put_end(w->into);
    en->flags &= (1u << ENTRY_ROUND) - 1;
    en->flags |= (ENTRY_PERSISTED | winstate_round_bits(w)) & TABLE_FLAGS;
    w->saved++;
}

static bool
is_frozen(const struct winstate *w, const struct table_entry *en)
{
    return w->into != NULL && (en->flags & (ENTRY_DIRTY ^ w->dirty_bit)) != 0;
}

void
winstate_list(struct entry_list *l, struct table_entry *en)
{
    if (l->n == l->cap)
        mem_grow(&l->items, &l->cap, l->n + 1, sizeof(struct table_entry *));
    l->items[l->n++] = en;
}

void
winstate_touch_slow(struct winstate *w, struct slice *s, struct table_entry *en)
{
    if (is_frozen(w, en))
        save(w, s, en);
    if (w->budget != 0 && en->count != 0 && (w->sample++ & 15) == 0)
        w->heap_mean += aggset_heap(w->set, en->block) - w->heap_mean / 16;
    en->flags |= w->dirty_bit & TABLE_FLAGS;
    winstate_list(&s->dirty, en);
}

void
winstate_forget(struct winstate *w, const struct slice *s,
                struct table_entry *en)
{
    unsigned char ns[WINSTATE_NS_SIZE];
    struct snapshot_key k;

    if (w->max_parallelism == 0)
        return;
    if (is_frozen(w, en))
        save(w, s, en);
    if ((en->flags & ENTRY_PERSISTED) == 0)
        return;
    winstate_ns(ns, s->start, s->first);
    k = winstate_key(w, en->hash, table_key(&s->young, en), en->key_len, ns);
    snapshot_del(w->next, &k);
}

struct snapshot *
winstate_freeze(struct winstate *w, uint64_t round)
{
    struct snapshot *s = w->next;
    uint32_t i;

    assert(w->max_parallelism != 0 && w->into == NULL);
    assert(w->doomed_count == 0 && !w->fire.active && w->late.count == 0);
    s->round = round;
    w->into = s;
    w->round_before = w->last_round;
    w->last_round = round;
    w->saved = 0;
    w->asked = false;
    w->next = snapshot_new(0);
    w->dirty_bit ^= ENTRY_DIRTY;
    w->save_at = 0;
    for (i = 0; i < w->slice_count; i++) {
        struct slice *at = w->slices[i];

        assert(at->frozen.n == 0);
        at->frozen = at->dirty;
        memset(&at->dirty, 0, sizeof at->dirty);
        w->frozen_left += at->frozen.n;
    }
    return s;
}

/* The next slice with frozen entries; there is one. Slices come and go
 * meanwhile, so the search goes round. */
static struct slice *
frozen_slice(struct winstate *w)
{
    for (;; w->save_at++) {
        if (w->save_at >= w->slice_count)
            w->save_at = 0;
        if (w->slices[w->save_at]->frozen.n != 0)
            return w->slices[w->save_at];
    }
}

bool
winstate_save(struct winstate *w, uint32_t max)
{
    for (; w->frozen_left > 0; max--) {
        struct slice *s;
        struct table_entry *en;

        if (max == 0)
            return true;
        s = frozen_slice(w);
        en = s->frozen.items[--s->frozen.n];
        w->frozen_left--;
        if (is_frozen(w, en))
            save(w, s, en);
        if (s->frozen.n == 0) {
            free(s->frozen.items);
            memset(&s->frozen, 0, sizeof s->frozen);
        }
    }
    if (winstate_purge(w, max)) /* it saves what it meets */
        return true;
    w->into = NULL;
    return false;
}

/* ---- the blob ---- */

void
winstate_put(const struct winstate *w, struct buf *out)
{
    uint32_t i;

    blob_put(out, BLOB_VERSION, 1);
    blob_put(out, (uint64_t)w->wm, 8);
    blob_put(out, w->slice_count + w->sweep_count, 4);
    for (i = 0; i < w->slice_count; i++) {
        const struct slice *s = w->slices[i];

        blob_put(out, (uint64_t)s->start, 8);
        blob_put(out, (uint64_t)s->first, 8);
        blob_put(out, s->young.count + s->old.count - s->moved + s->evicted, 8);
    }
    for (i = 0; i < w->sweep_count; i++) { /* known by being purged */
        blob_put(out, (uint64_t)w->sweeps[i].start, 8);
        blob_put(out, (uint64_t)w->sweeps[i].first, 8);
        blob_put(out, 0, 8);
    }
}

int
winstate_blob_read(const struct buf *b, struct winstate_blob *ret,
                   struct err *e)
{
    struct blob_reader r = blob_read(b);
    uint64_t version = blob_get(&r, 1);
    uint32_t n, i;

    memset(ret, 0, sizeof *ret);
    ret->fired = (int64_t)blob_get(&r, 8);
    n = (uint32_t)blob_get(&r, 4);
    if (r.bad || version != BLOB_VERSION ||
        (size_t)(r.end - r.p) != (size_t)n * SLICE_SIZE)
        return err_set(e, ERR_IO,
                       "what a round kept of the windows is "
                       "damaged");
    ret->slices = mem_zalloc((n + 1u) * sizeof *ret->slices);
    ret->count = n;
    for (i = 0; i < n; i++) {
        ret->slices[i].start = (int64_t)blob_get(&r, 8);
        ret->slices[i].first = (int64_t)blob_get(&r, 8);
        ret->slices[i].entries = blob_get(&r, 8);
    }
    return 0;
}

void
winstate_blob_fini(struct winstate_blob *b)
{
    free(b->slices);
    memset(b, 0, sizeof *b);
}

/* ---- loading ---- */

void
winstate_set_fired(struct winstate *w, int64_t wm)
{
    assert(w->slice_count == 0);
    w->wm = w->target = wm;
}

int
winstate_decode(struct winstate *w, const void *value, size_t value_len,
                void *block, uint32_t *ret_count, uint32_t *ret_flags,
                struct err *e)
{
    const char *p = value, *end = p + value_len;
    uint32_t flags;

    aggset_init(w->set, block);
    if (value_len < VALUE_HEAD)
        return err_set(e, ERR_IO, "the state of a window is damaged");
    flags = (unsigned char)*p++;
    (void)codec_u32(&p, end, ret_count);
    if ((flags & ~(uint32_t)ENTRY_LOST) != 0)
        return err_set(e, ERR_IO, "the state of a window is damaged");
    *ret_flags = flags;
    if (flags != 0)
        return 0;
    return aggset_decode(w->set, block, p, (size_t)(end - p), e);
}

/*
 * Raise `first` beyond the windows that have fired where an entry was. With
 * lateness a row may come again, and nothing is raised.
 * @return false if all its windows have fired.
 */
static bool
raise_first(const struct winstate *w, int64_t fired, int64_t start,
            int64_t *first)
{
    int64_t from, left;

    if (w->spec.lateness > 0 || fired <= w->wm)
        return true;
    if (fired == WM_MAX)
        return false;
    if (w->spec.kind == WINDOW_GLOBAL)
        return true;
    from = window_first(&w->spec, start);
    left = window_unfired(&w->spec, from, fired);
    if (left == from || (*first != WINDOW_FIRST_ALL && *first >= left))
        return left <= window_last(&w->spec, start);
    *first = left;
    return left <= window_last(&w->spec, start);
}

/* Merge a value into the entry of (start, first, key). */
static int
load(struct winstate *w, const struct winstate_entry *v, int64_t start,
     int64_t first, bool moved, struct err *e)
{
    struct slice *s = winstate_slice_get(w, start, first);
    uint32_t count = 0, flags = 0;
    struct table_entry *en;
    bool fresh;
    void *block;
    int r;

    en = table_upsert(&s->young, v->hash, v->key, v->key_len, &fresh);
    if (!moved)
        en->flags |= ENTRY_PERSISTED;
    if (moved || v->changed)
        winstate_touch(w, s, en);
    block = fresh ? (void *)en->block : w->scratch;
    r = winstate_decode(w, v->value, v->value_len, block, &count, &flags, e);
    if (r != 0) {
        if (!fresh)
            aggset_fini(w->set, block);
        return r;
    }
    if (!fresh && aggset_merge(w->set, en->block, block, NULL) != 0)
        flags |= ENTRY_TYPES;
    en->flags |= flags & ENTRY_LOST;
    winstate_count(en, count);
    return 0;
}

int
winstate_load(struct winstate *w, const struct winstate_entry *v, struct err *e)
{
    const unsigned char *ns = v->ns;
    int64_t start = ns_get(ns), was = ns_get(ns + 8), first = was;
    bool left = raise_first(w, v->fired, start, &first);

    /* Purged, and not deleted yet when the round was kept. */
    if (w->wm != WM_NONE &&
        winstate_purge_at(w, winstate_last_end(w, start)) <= w->wm)
        left = false;
    if (first != was || !left) {
        struct snapshot_key k =
            winstate_key(w, v->hash, v->key, v->key_len, ns);

        snapshot_del(w->next, &k);
    }
    return left ? load(w, v, start, first, first != was, e) : 0;
}
