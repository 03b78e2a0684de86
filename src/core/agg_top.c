/*
 * top_n: the records that are best by a value, in order. With ties, all that
 * are equal to the last one stay.
 *
 * `by` is held as a key (core/key.h), so 1 and 1.0 are equal and any two
 * values of one type have an order; equal ones stand by event time, origin
 * and bytes, so that what is kept is a function of the multiset. The list is
 * sorted but for a tail of new ones, an eighth of n, which is sorted in when
 * it is full or the list is asked for.
 */
#include "core/agg_top.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"

struct top {
    struct kept_list list;
    uint32_t sorted; /* [sorted, list.n): the tail */
    uint8_t mixed;
};

struct top_ctx {
    uint32_t n, tail_max;
    bool desc, ties;
    struct buf by; /* of the record that check() saw, empty: nil */
};

static void
ctx_free(void *ctx)
{
    struct top_ctx *x = ctx;

    buf_fini(&x->by);
    free(x);
}

int
agg_top_setup(struct agg *a, struct err *e)
{
    int64_t n = opt_int(a->opts, "n", 0);
    struct top_ctx *x;

    if (n < 1 || n > 1000000)
        return agg_fail(a, e, "top_n: n must be from 1 to 1000000");
    x = mem_zalloc(sizeof *x);
    x->n = (uint32_t)n;
    x->tail_max = x->n / 8 + 1;
    x->desc = opt_bool(a->opts, "desc", true);
    x->ties = opt_bool(a->opts, "ties", false);
    buf_init(&x->by);
    a->ctx = x;
    a->free_ctx = ctx_free;
    return 0;
}

static uint32_t
top_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct top);
}

static void
top_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct top));
}

static void
top_fini(const struct agg *a, void *acc)
{
    struct top *t = acc;

    kept_list_fini(&t->list);
    top_init(a, acc);
}

/* Better is negative. */
static int
by_cmp(const struct top_ctx *x, const char *a, uint32_t alen, const char *b,
       uint32_t blen)
{
    int c = key_cmp(a, alen, b, blen);

    return x->desc ? -c : c;
}

static int
top_cmp(const struct top_ctx *x, const struct kept *a, const struct kept *b)
{
    int c = by_cmp(x, a->by, a->by_len, b->by, b->by_len);

    return c != 0 ? c : kept_cmp(&a->rec, &b->rec);
}

static int
order(const void *pa, const void *pb, void *arg)
{
    const struct kept *const *a = pa, *const *b = pb;

    return top_cmp(arg, *a, *b);
}

static bool
is_equal(const struct kept *a, const struct kept *b)
{
    return key_cmp(a->by, a->by_len, b->by, b->by_len) == 0;
}

/* Drop what is behind the first n, or behind all that are equal to those. */
static void
trim(const struct top_ctx *x, struct top *t)
{
    while (t->list.n > x->n && (!x->ties || !is_equal(t->list.at[t->list.n - 1],
                                                      t->list.at[x->n - 1]))) {
        t->list.n--;
        t->list.bytes -= t->list.at[t->list.n]->size;
        free(t->list.at[t->list.n]);
    }
    t->sorted = t->list.n;
}

/* Merge [0, sorted) and [sorted, n), both in order. */
static void
merge_tail(const struct top_ctx *x, struct top *t)
{
    struct kept **out;
    uint32_t i = 0, j = t->sorted, k = 0;

    if (j == 0 || j == t->list.n ||
        top_cmp(x, t->list.at[j - 1], t->list.at[j]) <= 0)
        return;
    out = mem_alloc(t->list.cap * sizeof(struct kept *));
    while (i < t->sorted && j < t->list.n)
        out[k++] = top_cmp(x, t->list.at[i], t->list.at[j]) <= 0
                       ? t->list.at[i++]
                       : t->list.at[j++];
    while (i < t->sorted)
        out[k++] = t->list.at[i++];
    while (j < t->list.n)
        out[k++] = t->list.at[j++];
    free(t->list.at);
    t->list.at = out;
}

static void
settle(const struct top_ctx *x, struct top *t)
{
    if (t->sorted == t->list.n)
        return;
    if (t->list.n - t->sorted > 1)
        qsort_r(t->list.at + t->sorted, t->list.n - t->sorted,
                sizeof(struct kept *), order, (void *)(uintptr_t)x);
    merge_tail(x, t);
    trim(x, t);
}

static const char *
type_name(char tag)
{
    switch (tag) {
    case KEY_FALSE:
    case KEY_TRUE:
        return "booleans";
    case KEY_NUM:
        return "numbers";
    case KEY_STR:
        return "strings";
    case KEY_LIST:
        return "lists";
    default:
        return "maps";
    }
}

static bool
same_type(char a, char b)
{
    return a == b || ((a == KEY_FALSE || a == KEY_TRUE) &&
                      (b == KEY_FALSE || b == KEY_TRUE));
}

static int
top_check(const struct agg *a, const void *acc, const struct val *args,
          const struct rec *r, struct err *e)
{
    struct top_ctx *x = a->ctx;
    const struct top *t = acc;
    char label[AGG_LABEL_MAX];
    int rc;

    (void)r;
    buf_clear(&x->by);
    if (val_is_null(args))
        return 0;
    if (!agg_any_ok(args))
        return agg_type_error(a, "a value", args, e);
    rc = a->encode_key(&x->by, args, e);
    if (rc != 0 || t->list.n == 0 ||
        same_type(t->list.at[0]->by[0], x->by.data[0]))
        return rc;
    return err_record(e, CAUSE_TYPE, "%s: cannot compare %s and %s",
                      agg_label(a, label), type_name(t->list.at[0]->by[0]),
                      type_name(x->by.data[0]));
}

/* Whether the record of check() is behind all that are kept. */
static bool
is_behind(const struct top_ctx *x, const struct top *t, const struct rec *r)
{
    const struct kept *last;
    int c;

    if (t->sorted < x->n)
        return false;
    last = t->list.at[x->n - 1];
    c = by_cmp(x, x->by.data, (uint32_t)x->by.len, last->by, last->by_len);
    if (c != 0 || x->ties)
        return c > 0;
    return kept_cmp(r, &last->rec) >= 0;
}

static int
top_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    struct top_ctx *x = a->ctx;
    struct top *t = acc;
    struct kept *k;

    (void)e;
    if (val_is_null(args) || t->mixed != 0 || is_behind(x, t, r))
        return 0;
    k = kept_new(r, x->by.data, (uint32_t)x->by.len);
    kept_list_add(&t->list, k);
    if (t->list.n - t->sorted >= x->tail_max)
        settle(x, t);
    return 0;
}

int
agg_top_mixed(const struct agg *a, struct err *e)
{
    char label[AGG_LABEL_MAX];

    return err_record(e, CAUSE_TYPE,
                      "%s: cannot compare values of different "
                      "types, which met in one window",
                      agg_label(a, label));
}

static int
top_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct top_ctx *x = a->ctx;
    struct top *t = acc, *other = from;
    bool mixed = t->mixed != 0 || other->mixed != 0 ||
                 (t->list.n != 0 && other->list.n != 0 &&
                  !same_type(t->list.at[0]->by[0], other->list.at[0]->by[0]));

    if (mixed) {
        top_fini(a, acc);
        top_fini(a, from);
        t->mixed = 1;
        return agg_top_mixed(a, e);
    }
    if (t->list.n == 0) {
        top_fini(a, acc);
        *t = *other;
    } else if (other->list.n != 0) {
        settle(x, t);
        settle(x, other);
        kept_list_reserve(&t->list, (size_t)t->list.n + other->list.n);
        memcpy(t->list.at + t->list.n, other->list.at,
               other->list.n * sizeof(struct kept *));
        t->list.n += other->list.n;
        t->list.bytes += other->list.bytes;
        merge_tail(x, t);
        trim(x, t);
        free(other->list.at);
    } else {
        free(other->list.at);
    }
    top_init(a, from);
    return 0;
}

bool
agg_top_is_mixed(const struct agg *a, const void *block)
{
    const struct top *t = (const void *)((const char *)block + a->offset);

    return t->mixed != 0;
}

/* Sorting in what is new changes nothing that can be told. */
static const struct top *
in_order(const struct agg *a, const void *acc)
{
    struct top *t = (struct top *)(uintptr_t)acc;

    settle(a->ctx, t);
    return t;
}

struct kept *const *
agg_top_get(const struct agg *a, const void *block, uint32_t *ret_count)
{
    const struct top *t = in_order(a, (const char *)block + a->offset);

    *ret_count = t->list.n;
    return t->list.at;
}

uint32_t
agg_top_rank(const struct agg *a, struct kept *const *items, uint32_t i,
             uint32_t before)
{
    const struct top_ctx *x = a->ctx;

    if (i > 0 && x->ties && is_equal(items[i - 1], items[i]))
        return before;
    return i + 1;
}

/* The records as a list, for tools that show an accumulator. */
static int
top_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
           struct err *e)
{
    const struct top *t = in_order(a, acc);

    if (t->mixed != 0)
        return agg_top_mixed(a, e);
    kept_list_put_json(&t->list, out, ext);
    return 0;
}

static int
top_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    const struct top *t = in_order(a, acc);

    (void)e;
    buf_addc(out, (char)t->mixed);
    kept_list_encode(&t->list, out);
    return 0;
}

/* n and order may be others by now: what comes is put in order anew. */
static int
top_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    const char *end = bytes + len;
    struct top *t = acc;
    uint8_t mixed;
    uint32_t n, i;

    if (!codec_u8(&bytes, end, &mixed) || !codec_u32(&bytes, end, &n) ||
        mixed > 1 || (mixed != 0 && n != 0))
        return agg_damaged(a, e);
    t->mixed = mixed;
    for (i = 0; i < n; i++) {
        struct kept *k = kept_decode(&bytes, end);

        if (k == NULL)
            break;
        kept_list_add(&t->list, k);
        if (k->by_len == 0 || !same_type(k->by[0], t->list.at[0]->by[0]))
            break;
    }
    if (i == n && bytes == end) {
        settle(a->ctx, t);
        return 0;
    }
    top_fini(a, acc);
    return agg_damaged(a, e);
}

static size_t
top_heap(const struct agg *a, const void *acc)
{
    const struct top *t = acc;

    (void)a;
    return kept_list_heap(&t->list);
}

static void
top_dup(const struct agg *a, const void *acc, void *to)
{
    const struct top *t = acc;
    struct top *copy = to;

    top_init(a, to);
    kept_list_dup(&t->list, &copy->list);
    copy->sorted = t->sorted;
    copy->mixed = t->mixed;
}

const struct agg_type agg_top_type = {
    .name = "top_n",
    .size = top_size,
    .init = top_init,
    .add = top_add,
    .merge = top_merge,
    .result = top_result,
    .encode = top_encode,
    .decode = top_decode,
    .fini = top_fini,
    .heap = top_heap,
    .movable = true,
    .check = top_check,
    .dup = top_dup,
};
