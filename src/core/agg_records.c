/*
 * records: all records of a window, whole. Added in any order and put in
 * order when they are asked for, so that the list is a function of the
 * multiset.
 */
#include "core/agg_records.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"

struct records {
    struct kept_list list;
    bool sorted;
};

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
    (void)a;
    (void)args;
    (void)e;
    append(acc, kept_new(r, NULL, 0));
    return 0;
}

static int
records_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct records *to = acc, *other = from;
    uint32_t i;

    (void)e;
    if (to->list.n == 0) {
        records_fini(a, to);
        *to = *other;
    } else {
        for (i = 0; i < other->list.n; i++)
            append(to, other->list.at[i]);
        free(other->list.at);
    }
    records_init(a, other);
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
    (void)a;
    (void)e;
    kept_list_encode(in_order(acc), out);
    return 0;
}

static int
records_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
               struct err *e)
{
    const char *end = bytes + len;
    uint32_t n, i;

    if (!codec_u32(&bytes, end, &n))
        return agg_damaged(a, e);
    for (i = 0; i < n; i++) {
        struct kept *k = kept_decode(&bytes, end);

        if (k == NULL)
            break;
        append(acc, k);
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
