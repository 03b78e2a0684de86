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
    struct kept **at;
    uint32_t n, cap;
    size_t bytes; /* of the pieces */
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
    uint32_t i;

    for (i = 0; i < s->n; i++)
        free(s->at[i]);
    free(s->at);
    records_init(a, acc);
}

static void
reserve(struct records *s, size_t n)
{
    size_t cap = s->cap;

    mem_grow(&s->at, &cap, n, sizeof(struct kept *));
    s->cap = (uint32_t)cap;
}

static void
append(struct records *s, struct kept *k)
{
    reserve(s, s->n + 1u);
    s->sorted = s->n == 0 ||
                (s->sorted && kept_cmp(&s->at[s->n - 1]->rec, &k->rec) <= 0);
    s->at[s->n++] = k;
    s->bytes += k->size;
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
    if (to->n == 0) {
        records_fini(a, to);
        *to = *other;
    } else {
        for (i = 0; i < other->n; i++)
            append(to, other->at[i]);
        free(other->at);
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

struct kept *const *
agg_records_get(const struct agg *a, const void *block, uint32_t *ret_count)
{
    /* Putting them in order changes nothing that can be told. */
    struct records *s =
        (struct records *)(uintptr_t)((const char *)block + a->offset);

    if (!s->sorted && s->n != 0)
        qsort(s->at, s->n, sizeof(struct kept *), order);
    s->sorted = true;
    *ret_count = s->n;
    return s->at;
}

/* The values as a list, for tools that show an accumulator. */
static int
records_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
               struct err *e)
{
    uint32_t n, i;
    struct kept *const *at =
        agg_records_get(a, (const char *)acc - a->offset, &n);

    (void)e;
    buf_addc(out, '[');
    for (i = 0; i < n; i++) {
        if (i > 0)
            buf_addc(out, ',');
        kept_put_json(at[i], out);
        *ext = *ext || (at[i]->rec.flags & REC_EXT) != 0;
    }
    buf_addc(out, ']');
    return 0;
}

static int
records_encode(const struct agg *a, const void *acc, struct buf *out,
               struct err *e)
{
    uint32_t n, i;
    struct kept *const *at =
        agg_records_get(a, (const char *)acc - a->offset, &n);

    (void)e;
    codec_put_u32(out, n);
    for (i = 0; i < n; i++)
        kept_encode(at[i], out);
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
    return s->bytes + s->cap * sizeof(struct kept *);
}

static void
records_dup(const struct agg *a, const void *acc, void *to)
{
    const struct records *s = acc;
    struct records *copy = to;
    uint32_t i;

    records_init(a, to);
    reserve(copy, s->n + 1u);
    for (i = 0; i < s->n; i++)
        copy->at[i] = kept_dup(s->at[i]);
    copy->n = s->n;
    copy->bytes = s->bytes;
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
