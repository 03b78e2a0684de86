/*
 * records: all records of a window, whole. Added in any order and put in
 * order when they are asked for, so that the list is a function of the
 * multiset. Beyond a->flags KiB (0: no bound) nothing is held any more, and
 * only that is remembered.
 */
#include "core/agg_records.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"

struct records {
    struct kept_list list;
    bool sorted, over;
};

#define FORM_OVER UINT32_MAX /* instead of the number of records */

static uint32_t
records_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct records);
}

static void
records_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct records));
}

static void
records_fini(const struct agg *a, void *acc)
{
    struct records *s = acc;

    kept_list_fini(&s->list);
    records_init(a, acc);
}

static void
append(struct records *s, struct kept *k)
{
    const struct kept_list *l = &s->list;

    s->sorted = l->n == 0 ||
                (s->sorted && kept_cmp(&l->at[l->n - 1]->rec, &k->rec) <= 0);
    kept_list_add(&s->list, k);
}

void
agg_records_bound(const struct aggset *set, size_t bytes)
{
    uint32_t i;

    for (i = 0; i < set->count; i++)
        if (set->aggs[i].type == &agg_records_type)
            set->aggs[i].flags = (uint32_t)(bytes >> 10) + 1;
}

bool
agg_records_is_over(const struct agg *a, const void *block)
{
    const struct records *s = (const void *)((const char *)block + a->offset);

    return s->over;
}

/* Whether the records take too much; then they are given up. */
static void
look(const struct agg *a, struct records *s)
{
    if (s->over ||
        (a->flags != 0 && kept_list_heap(&s->list) >> 10 >= a->flags)) {
        records_fini(a, s);
        s->over = true;
    }
}

static int
records_check(const struct agg *a, const void *acc, const struct val *args,
              const struct rec *r, struct err *e)
{
    (void)a;
    (void)acc;
    (void)args;
    (void)r;
    (void)e;
    return 0;
}

static int
records_add(const struct agg *a, void *acc, const struct val *args,
            const struct rec *r, struct err *e)
{
    struct records *s = acc;

    (void)args;
    (void)e;
    if (s->over)
        return 0;
    append(s, kept_new(r, NULL, 0));
    look(a, s);
    return 0;
}

static int
records_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct records *to = acc, *other = from;
    uint32_t i;

    (void)e;
    if (to->over || other->over) {
        records_fini(a, other);
        to->over = true;
    } else if (to->list.n == 0) {
        records_fini(a, to);
        *to = *other;
    } else {
        for (i = 0; i < other->list.n; i++)
            append(to, other->list.at[i]);
        free(other->list.at);
    }
    records_init(a, other);
    look(a, to);
    return 0;
}

static int
order(const void *pa, const void *pb)
{
    const struct kept *const *a = pa, *const *b = pb;

    return kept_cmp(&(*a)->rec, &(*b)->rec);
}

/* Putting them in order changes nothing that can be told. */
static const struct kept_list *
in_order(const void *acc)
{
    struct records *s = (struct records *)(uintptr_t)acc;

    if (!s->sorted && s->list.n != 0)
        qsort(s->list.at, s->list.n, sizeof(struct kept *), order);
    s->sorted = true;
    return &s->list;
}

struct kept *const *
agg_records_get(const struct agg *a, const void *block, uint32_t *ret_count)
{
    const struct kept_list *l = in_order((const char *)block + a->offset);

    *ret_count = l->n;
    return l->at;
}

/* The values as a list, for tools that show an accumulator. */
static int
records_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
               struct err *e)
{
    (void)a;
    (void)e;
    kept_list_put_json(in_order(acc), out, ext);
    return 0;
}

static int
records_encode(const struct agg *a, const void *acc, struct buf *out,
               struct err *e)
{
    const struct records *s = acc;

    (void)a;
    (void)e;
    if (s->over)
        codec_put_u32(out, FORM_OVER);
    else
        kept_list_encode(in_order(acc), out);
    return 0;
}

static int
records_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
               struct err *e)
{
    const char *end = bytes + len;
    struct records *s = acc;
    uint32_t n, i;

    if (!codec_u32(&bytes, end, &n))
        return agg_damaged(a, e);
    if (n == FORM_OVER && bytes == end) {
        s->over = true;
        return 0;
    }
    for (i = 0; i < n; i++) {
        struct kept *k = kept_decode(&bytes, end);

        if (k == NULL)
            break;
        append(s, k);
    }
    if (i == n && bytes == end)
        return 0;
    records_fini(a, acc);
    return agg_damaged(a, e);
}

static size_t
records_heap(const struct agg *a, const void *acc)
{
    const struct records *s = acc;

    (void)a;
    return kept_list_heap(&s->list);
}

static void
records_dup(const struct agg *a, const void *acc, void *to)
{
    const struct records *s = acc;
    struct records *copy = to;

    records_init(a, to);
    kept_list_dup(&s->list, &copy->list);
    copy->sorted = s->sorted;
    copy->over = s->over;
}

const struct agg_type agg_records_type = {
    .name = "records",
    .size = records_size,
    .init = records_init,
    .add = records_add,
    .merge = records_merge,
    .result = records_result,
    .encode = records_encode,
    .decode = records_decode,
    .fini = records_fini,
    .heap = records_heap,
    .movable = true,
    .check = records_check,
    .dup = records_dup,
};
