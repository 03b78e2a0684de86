/*
 * Helpers of the tests of window state and rounds: a disk as plain as can be
 * (a list of entries), rows as text, and a random stream of partials.
 */
#ifndef TESTS_WINSTATE_UTIL_H
#define TESTS_WINSTATE_UTIL_H

#include "agg_util.h"
#include "base/mem.h"
#include "core/rec.h"
#include "core/snapshot.h"
#include "core/winstate_impl.h"

enum { MAX_PAR = 128, UTIL_KEYS = 40 };

/* ---- a list of named bytes ---- */

struct item {
    char *name, *value; /* name_len, value_len bytes */
    size_t name_len, value_len;
    uint64_t hash; /* of the name */
};

struct items {
    struct item *at;
    size_t n, cap;
};

static inline struct item *
items_find(struct items *l, const void *name, size_t len)
{
    uint64_t hash = hash_key(name, len);
    size_t i;

    for (i = 0; i < l->n; i++)
        if (l->at[i].hash == hash && l->at[i].name_len == len &&
            memcmp(l->at[i].name, name, len) == 0)
            return &l->at[i];
    return NULL;
}

static inline void
items_del(struct items *l, const void *name, size_t len)
{
    struct item *i = items_find(l, name, len);

    if (i == NULL)
        return;
    free(i->name);
    free(i->value);
    *i = l->at[--l->n];
}

/* Append what is not there. */
static inline void
items_add(struct items *l, const void *name, size_t len, const void *value,
          size_t value_len)
{
    mem_grow(&l->at, &l->cap, l->n + 1, sizeof *l->at);
    l->at[l->n++] = (struct item){.name = mem_dup(name, len),
                                  .value = mem_dup(value, value_len),
                                  .name_len = len,
                                  .value_len = value_len,
                                  .hash = hash_key(name, len)};
}

static inline void
items_set(struct items *l, const void *name, size_t len, const void *value,
          size_t value_len)
{
    items_del(l, name, len);
    items_add(l, name, len, value, value_len);
}

static inline void
items_clear(struct items *l)
{
    while (l->n > 0) {
        l->n--;
        free(l->at[l->n].name);
        free(l->at[l->n].value);
    }
}

static inline void
items_fini(struct items *l)
{
    items_clear(l);
    free(l->at);
    memset(l, 0, sizeof *l);
}

static inline void
items_copy(struct items *to, const struct items *from)
{
    size_t i;

    items_clear(to);
    for (i = 0; i < from->n; i++)
        items_add(to, from->at[i].name, from->at[i].name_len, from->at[i].value,
                  from->at[i].value_len);
}

static inline void
items_equal(struct items *a, struct items *b)
{
    size_t i;

    assert_int_equal(a->n, b->n);
    for (i = 0; i < a->n; i++) {
        struct item *x = &a->at[i];
        struct item *y = items_find(b, x->name, x->name_len);

        assert_non_null(y);
        assert_int_equal(x->value_len, y->value_len);
        assert_memory_equal(x->value, y->value, x->value_len);
    }
}

/* ---- the disk: name = group (2), namespace, key ---- */

static inline void
disk_apply(struct items *disk, const struct snapshot *s)
{
    struct snapshot_change c;
    struct buf name;
    size_t at = 0;

    buf_init(&name);
    while (snapshot_next(s, &at, &c) == 1) {
        buf_clear(&name);
        buf_add(&name, &c.key.group, 2);
        buf_add(&name, c.key.ns, c.key.ns_len);
        buf_add(&name, c.key.key, c.key.key_len);
        if (c.del)
            items_del(disk, name.data, name.len);
        else
            items_set(disk, name.data, name.len, c.value, c.value_len);
    }
    buf_fini(&name);
}

static inline int
disk_get(void *arg, const struct snapshot_key *k, const void **ret,
         size_t *ret_len, struct err *e)
{
    struct items *disk = arg;
    struct item *i;
    struct buf name;

    (void)e;
    buf_init(&name);
    buf_add(&name, &k->group, 2);
    buf_add(&name, k->ns, k->ns_len);
    buf_add(&name, k->key, k->key_len);
    i = items_find(disk, name.data, name.len);
    buf_fini(&name);
    if (i == NULL)
        return 0;
    *ret = i->value;
    *ret_len = i->value_len;
    return 1;
}

/* The entry of the group and namespace with the least key behind `key`. */
static inline struct item *
disk_next(struct items *disk, const struct snapshot_key *k, bool behind,
          const char *key, size_t key_len)
{
    struct item *best = NULL;
    size_t i, head = 2u + k->ns_len;

    for (i = 0; i < disk->n; i++) {
        struct item *x = &disk->at[i];

        if (memcmp(x->name, &k->group, 2) != 0 ||
            memcmp(x->name + 2, k->ns, k->ns_len) != 0)
            continue;
        if (behind &&
            key_cmp(x->name + head, x->name_len - head, key, key_len) <= 0)
            continue;
        if (best == NULL ||
            key_cmp(x->name + head, x->name_len - head, best->name + head,
                    best->name_len - head) < 0)
            best = x;
    }
    return best;
}

static inline int
disk_walk(void *arg, const struct snapshot_key *k, bool behind,
          entry_stored_f *f, void *farg, struct err *e)
{
    struct snapshot_key at = *k;
    struct buf last;
    int r = 0;

    buf_init(&last);
    buf_add(&last, k->key, k->key_len);
    for (;;) {
        struct item *i = disk_next(arg, k, behind, last.data, last.len);

        if (i == NULL)
            break;
        at.key = i->name + 2 + k->ns_len;
        at.key_len = (uint32_t)(i->name_len - 2 - k->ns_len);
        buf_clear(&last);
        buf_add(&last, at.key, at.key_len);
        behind = true;
        r = f(farg, &at, i->value, i->value_len, e);
        if (r != 0)
            break;
    }
    buf_fini(&last);
    return r;
}

static inline void
disk_renew(void *arg)
{
    (void)arg;
}

/* What the disk should hold: every entry there is, by its own bytes. */
static inline void
disk_expect(struct items *want, const struct winstate *w)
{
    struct buf name;
    uint32_t i;

    buf_init(&name);
    for (i = 0; i < w->slice_count; i++) {
        const struct slice *at = w->slices[i];
        struct slice_iter it = {.old = false};
        struct table_entry *en;

        while ((en = winstate_slice_next(at, &it)) != NULL) {
            uint64_t start = (uint64_t)at->start ^ UINT64_C(1) << 63;
            uint64_t first = (uint64_t)at->first ^ UINT64_C(1) << 63;
            uint16_t group = (uint16_t)key_group(en->hash, MAX_PAR);
            char head[5] = {(char)(en->flags & ENTRY_LOST)};
            struct buf value;
            struct err e;

            if (en->count == 0)
                continue;
            start = __builtin_bswap64(start);
            first = __builtin_bswap64(first);
            buf_clear(&name);
            buf_add(&name, &group, 2);
            buf_add(&name, &start, 8);
            buf_add(&name, &first, 8);
            buf_add(&name, table_key(&at->young, en), en->key_len);
            buf_init(&value);
            memcpy(head + 1, &en->count, 4);
            buf_add(&value, head, 5);
            if ((en->flags & ENTRY_LOST) == 0)
                assert_int_equal(aggset_encode(w->set, en->block, &value, &e),
                                 0);
            items_set(want, name.data, name.len, value.data, value.len);
            buf_fini(&value);
        }
    }
    buf_fini(&name);
}

/* ---- rows ---- */

struct rows {
    const struct aggset *set;
    struct items list; /* name = window start and key */
    bool append;       /* a row must not come twice */
    uint32_t left;     /* of this call of winstate_fire() */
};

static inline int
rows_take(void *arg, const struct winrow *row, struct err *e)
{
    struct rows *r = arg;
    struct buf name, value;

    (void)e;
    assert_true(r->left-- > 0);
    buf_init(&name);
    buf_init(&value);
    buf_add(&name, &row->start, sizeof row->start);
    buf_add(&name, row->key, row->key_len);
    if (row->poisoned || row->unsaved != NULL)
        buf_adds(&value, row->poisoned ? "types" : row->unsaved->msg);
    else
        buf_adds(&value, util_text(r->set, row->block));
    if (r->append)
        assert_null(items_find(&r->list, name.data, name.len));
    items_set(&r->list, name.data, name.len, value.data, value.len);
    buf_fini(&name);
    buf_fini(&value);
    return 0;
}

static inline void
rows_fire(struct winstate *w, struct rows *r)
{
    struct err e;
    int more;

    do {
        r->left = 1 + util_below(4);
        more = winstate_fire(w, r->left, rows_take, r, &e);
    } while (more == 1);
    assert_int_equal(more, 0);
}

/* ---- aggregates ---- */

static inline struct opt *
sum_and_max(struct arena *a)
{
    struct opt *list = opt_new_list(a);

    (void)util_call(a, list, "sum", 1);
    (void)util_call(a, list, "max", 1);
    return list;
}

/* ---- input ---- */

struct input { /* one record, or a watermark, or a flush of late rows */
    enum { IN_RECORD, IN_WATERMARK, IN_FLUSH } kind;
    int64_t ts, wm;
    uint32_t key;
    bool direct;     /* added to the entry, as in one phase */
    struct val v[4]; /* of each aggregate the same */
};

static inline uint32_t
input_key(const struct input *in, char out[16])
{
    if (in->key == 0) /* the key of key_by {} */
        return 0;
    return (uint32_t)snprintf(out, 16, "key-%u", in->key);
}

static inline void
input_put(struct winstate *w, const struct input *in, const struct partial *to)
{
    struct partial p = *to;
    struct table_entry *en;
    struct err e;
    void *block;

    if (in->direct) {
        assert_int_equal(winstate_upsert(w, &p, &en, &e), 0);
        if (en != NULL && aggset_add(w->set, en->block, in->v, NULL, &e) == 0)
            en->count++;
        return;
    }
    block = p.block = util_block(w->set);
    if (aggset_add(w->set, block, in->v, NULL, &e) == 0)
        assert_in_range(winstate_merge(w, &p, &e), 0, 1);
    else
        aggset_fini(w->set, block);
    free(block);
}

/* Give a record to the state, as op_global does: to each whole window. */
static inline void
input_add(struct winstate *w, const struct input *in)
{
    char key[16];
    uint32_t len = input_key(in, key);
    struct partial p = {.hash = hash_key(key, len),
                        .key = len != 0 ? key : NULL,
                        .key_len = len,
                        .count = 1};
    struct window_place place;

    window_place(&w->spec, in->ts, in->wm, &place);
    if (place.late)
        return;
    p.first = w->spec.whole ? WINDOW_FIRST_ALL : place.first;
    p.slice = place.slice;
    do {
        input_put(w, in, &p);
        p.slice += w->spec.slide;
    } while (w->spec.whole && p.slice <= place.last);
}

#endif
