/* sum(x) and avg(x): exact sums, rounded in the result. */
#include <string.h>

#include "core/agg_codec.h"
#include "core/agg_impl.h"

/* Flags of a sum. */
enum { SUM_FLOAT = 1, SUM_OVER_FLOAT = 2, SUM_OVER_STRING = 4 };

enum { INT128_TEXT_MAX = 41 };

static uint32_t
sum_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct exact);
}

int
agg_sum_setup(struct agg *a, struct err *e)
{
    const char *as = opt_str(a->opts, "as", "");
    const char *overflow = opt_str(a->opts, "overflow", "error");

    if (strcmp(as, "float") == 0)
        a->flags |= SUM_FLOAT;
    else if (*as != '\0')
        return agg_fail(a, e, "sum: as must be \"float\", got \"%s\"", as);
    if (strcmp(overflow, "float") == 0)
        a->flags |= SUM_OVER_FLOAT;
    else if (strcmp(overflow, "string") == 0)
        a->flags |= SUM_OVER_STRING;
    else if (strcmp(overflow, "error") != 0)
        return agg_fail(a, e,
                        "sum: overflow must be \"error\", \"float\" or "
                        "\"string\", got \"%s\"",
                        overflow);
    return 0;
}

static void
sum_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct exact));
}

static int
sum_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    int ret = agg_check_num(a, acc, args, r, e);

    if (ret == 0)
        agg_exact_add(acc, args);
    return ret;
}

static int
sum_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    (void)a;
    (void)e;
    exact_merge(acc, from);
    return 0;
}

/* Decimal text of hi * 2^64 + lo; @return where it starts in out. */
static const char *
int128_text(int64_t hi, uint64_t lo, char out[INT128_TEXT_MAX])
{
    uint64_t h = (uint64_t)hi, part, rest;
    char *p = out + INT128_TEXT_MAX - 1;

    *p = '\0';
    if (hi < 0) {
        h = ~h + (lo == 0);
        lo = 0 - lo;
    }
    do {
        /* One step of long division by ten, 32 bits at a time. */
        rest = h % 10;
        h /= 10;
        part = rest << 32 | lo >> 32;
        rest = part % 10;
        lo = (part / 10) << 32 | (lo & 0xffffffffu);
        part = rest << 32 | (lo & 0xffffffffu);
        rest = part % 10;
        lo = (lo & ~UINT64_C(0xffffffff)) | part / 10;
        *--p = (char)('0' + rest);
    } while ((h | lo) != 0);
    if (hi < 0)
        *--p = '-';
    return p;
}

/* The result of integers only. */
static int
sum_int_result(const struct agg *a, const struct exact *x, struct buf *out,
               bool *ext, struct err *e)
{
    char text[INT128_TEXT_MAX], label[AGG_LABEL_MAX];
    const char *p;
    int64_t hi;
    uint64_t lo;
    int r;

    exact_int128(x, &hi, &lo);
    if (hi == (lo >> 63 != 0 ? -1 : 0)) {
        json_put_int(out, (int64_t)lo);
        return 0;
    }
    if ((a->flags & SUM_OVER_FLOAT) != 0) {
        agg_put_double(out, exact_round(x), ext);
        return 0;
    }
    p = int128_text(hi, lo, text);
    if ((a->flags & SUM_OVER_STRING) != 0) {
        json_put_str(out, p, strlen(p));
        return 0;
    }
    r = err_record(e, CAUSE_OVERFLOW, "%s: %s is beyond int64",
                   agg_label(a, label), p);
    err_hint(e, "overflow=\"float\" or overflow=\"string\" gives a result");
    return r;
}

static int
sum_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
           struct err *e)
{
    const struct exact *x = acc;

    if ((x->word & EXACT_ANY) == 0)
        buf_adds(out, "null");
    else if ((x->word & EXACT_DBL) != 0 || (a->flags & SUM_FLOAT) != 0)
        agg_put_double(out, exact_round(x), ext);
    else
        return sum_int_result(a, x, out, ext, e);
    return 0;
}

static int
sum_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    (void)a;
    (void)e;
    exact_encode(acc, out);
    return 0;
}

static int
sum_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    const char *end = bytes + len;

    if (!exact_decode(acc, &bytes, end) || bytes != end)
        return agg_damaged(a, e);
    return 0;
}

static void
sum_fini(const struct agg *a, void *acc)
{
    (void)a;
    exact_fini(acc);
}

static size_t
sum_heap(const struct agg *a, const void *acc)
{
    (void)a;
    return exact_heap(acc);
}

static void
sum_dup(const struct agg *a, const void *acc, void *to)
{
    (void)a;
    exact_dup(acc, to);
}

static uint32_t
avg_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct agg_avg_acc);
}

static void
avg_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct agg_avg_acc));
}

static int
avg_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    int ret = agg_check_num(a, acc, args, r, e);

    if (ret == 0)
        agg_avg_apply(acc, args);
    return ret;
}

static int
avg_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct agg_avg_acc *to = acc, *other = from;

    (void)a;
    (void)e;
    exact_merge(&to->sum, &other->sum);
    to->n += other->n;
    other->n = 0;
    return 0;
}

static int
avg_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
           struct err *e)
{
    const struct agg_avg_acc *avg = acc;

    (void)a;
    (void)e;
    if (avg->n == 0)
        buf_adds(out, "null");
    else
        agg_put_double(out, exact_round(&avg->sum) / (double)avg->n, ext);
    return 0;
}

static int
avg_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    const struct agg_avg_acc *avg = acc;

    (void)a;
    (void)e;
    codec_put_u64(out, avg->n);
    exact_encode(&avg->sum, out);
    return 0;
}

static int
avg_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    struct agg_avg_acc *avg = acc;
    const char *end = bytes + len;

    if (!codec_u64(&bytes, end, &avg->n) ||
        !exact_decode(&avg->sum, &bytes, end) || bytes != end)
        return agg_damaged(a, e);
    return 0;
}

static void
avg_fini(const struct agg *a, void *acc)
{
    exact_fini(&((struct agg_avg_acc *)acc)->sum);
    avg_init(a, acc);
}

static size_t
avg_heap(const struct agg *a, const void *acc)
{
    (void)a;
    return exact_heap(&((const struct agg_avg_acc *)acc)->sum);
}

static void
avg_dup(const struct agg *a, const void *acc, void *to)
{
    const struct agg_avg_acc *avg = acc;
    struct agg_avg_acc *copy = to;

    (void)a;
    exact_dup(&avg->sum, &copy->sum);
    copy->n = avg->n;
}

const struct agg_type agg_sum_type = {
    .name = "sum",
    .size = sum_size,
    .init = sum_init,
    .add = sum_add,
    .merge = sum_merge,
    .result = sum_result,
    .encode = sum_encode,
    .decode = sum_decode,
    .fini = sum_fini,
    .heap = sum_heap,
    .movable = true,
    .check = agg_check_num,
    .dup = sum_dup,
};

const struct agg_type agg_avg_type = {
    .name = "avg",
    .size = avg_size,
    .init = avg_init,
    .add = avg_add,
    .merge = avg_merge,
    .result = avg_result,
    .encode = avg_encode,
    .decode = avg_decode,
    .fini = avg_fini,
    .heap = avg_heap,
    .movable = true,
    .check = agg_check_num,
    .dup = avg_dup,
};
