/*
 * percentile(x, q): nearest rank, exact up to 64 values, then DDSketch.
 *
 * The state is a function of the multiset: all values while there are at
 * most 64, else the sketch of all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"
#include "core/ddsketch.h"

__extension__ typedef unsigned __int128 u128;

enum {
    EXACT_MAX = 64, /* values kept as they are */
    VALUES_FIRST = 4,
    DIGITS_MAX = 18,         /* decimals of q that count */
    RANK_SLACK = 1000000000, /* 1 / 1e-9, see API.md section 6 */
    QUANTILES_MAX = 1024
};

/* q as a fraction num / den, den a power of ten. */
struct quantile {
    uint64_t num, den;
};

struct conf {
    struct dd_conf dd;
    uint32_t count;
    bool list;
    struct quantile q[];
};

struct pct {
    double *values;      /* n of cap; NULL if there are none or a sketch */
    struct ddsketch *dd; /* NULL: exact */
    uint32_t n, cap;
};

/* Read digits with an optional point, dropping what DIGITS_MAX cannot hold.
 * Sets m and the power of ten it counts in. */
static const char *
read_digits(const char *p, uint64_t *m, int *exp)
{
    bool point = false;
    int digits = 0;

    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        if (digits == DIGITS_MAX) {
            *exp += point ? 0 : 1;
            continue;
        }
        *m = *m * 10 + (uint64_t)(*p - '0');
        *exp -= point ? 1 : 0;
        digits += *m != 0;
    }
    return p;
}

static bool
quantile_read(const char *p, struct quantile *q)
{
    uint64_t m = 0;
    char *end;
    int exp = 0;
    bool any;

    p = read_digits(p, &m, &exp);
    if (*p == 'e' || *p == 'E') {
        long given = strtol(p + 1, &end, 10);

        if (end == p + 1 || given < -400 || given > 400)
            return false;
        exp += (int)given;
        p = end;
    }
    any = m != 0;
    while (m != 0 && m % 10 == 0) {
        m /= 10;
        exp++;
    }
    while (exp < -DIGITS_MAX && m != 0) {
        m /= 10;
        exp++;
    }
    if (*p != '\0' || !any || (m != 0 && exp > 0))
        return false;
    q->num = m;
    for (q->den = 1; m != 0 && exp < 0; exp++)
        q->den *= 10;
    return q->num <= q->den;
}

static int
quantile_set(struct agg *a, const struct opt *q, const struct opt *text,
             struct quantile *ret, struct err *e)
{
    char shown[NUM_TEXT_MAX] = "1";

    if (text != NULL && text->type == OPT_STR && quantile_read(text->s, ret))
        return 0;
    if (q != NULL && q->type == OPT_DBL)
        (void)num_text_double(q->d, shown);
    else if (q != NULL && q->type == OPT_INT)
        (void)num_text_int(q->i, shown);
    else
        return agg_fail(a, e, "percentile: q must be a number");
    if (!quantile_read(shown, ret))
        return agg_fail(a, e, "percentile: q must be in (0, 1], got %s", shown);
    return 0;
}

int
agg_percentile_setup(struct agg *a, struct err *e)
{
    const struct opt *q = opt_get(a->opts, "q");
    const struct opt *text = opt_get(a->opts, "q_text");
    double error = opt_dbl(a->opts, "error", 0.01);
    struct conf *c;
    bool list = q != NULL && q->type == OPT_LIST;
    uint32_t i, count = list ? (uint32_t)q->len : 1;
    int r;

    if (!(error > 0 && error < 1))
        return agg_fail(a, e, "percentile: error must be in (0, 1)");
    if (count == 0 || count > QUANTILES_MAX)
        return agg_fail(a, e, "percentile: q must have 1 to %d numbers",
                        QUANTILES_MAX);
    c = mem_zalloc(sizeof *c + count * sizeof c->q[0]);
    a->ctx = c;
    a->free_ctx = free;
    dd_conf_init(&c->dd, error);
    c->count = count;
    c->list = list;
    if (!list)
        return quantile_set(a, q, text, &c->q[0], e);
    for (i = 0; i < count; i++) {
        r = quantile_set(a, opt_at(q, i), opt_at(text, i), &c->q[i], e);
        if (r != 0)
            return r;
    }
    return 0;
}

static uint32_t
pct_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct pct);
}

static void
pct_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct pct));
}

static void
to_sketch(struct pct *p, const struct conf *c)
{
    uint32_t i;

    p->dd = ddsketch_new();
    for (i = 0; i < p->n; i++)
        ddsketch_add(p->dd, &c->dd, p->values[i]);
    free(p->values);
    p->values = NULL;
    p->n = 0;
    p->cap = 0;
}

static void
pct_put(struct pct *p, const struct conf *c, double v)
{
    if (p->dd == NULL && p->n == EXACT_MAX)
        to_sketch(p, c);
    if (p->dd != NULL) {
        ddsketch_add(p->dd, &c->dd, v);
        return;
    }
    if (p->n == p->cap) {
        p->cap = p->cap == 0 ? VALUES_FIRST : p->cap * 2;
        p->values = mem_realloc(p->values, p->cap * sizeof *p->values);
    }
    p->values[p->n++] = v;
}

static int
pct_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    int ret = agg_check_num(a, acc, args, r, e);

    if (ret != 0 || val_is_null(args))
        return ret;
    pct_put(acc, a->ctx, args->type == VAL_INT ? (double)args->u.i : args->u.d);
    return 0;
}

static void
pct_fini(const struct agg *a, void *acc)
{
    struct pct *p = acc;

    free(p->values);
    ddsketch_free(&p->dd);
    pct_init(a, acc);
}

static int
pct_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct pct *p = acc, *other = from, tmp;
    uint32_t i;

    (void)e;
    if (p->dd == NULL && other->dd != NULL) {
        tmp = *p;
        *p = *other;
        *other = tmp;
    }
    if (other->dd != NULL)
        ddsketch_merge(p->dd, other->dd);
    for (i = 0; i < other->n; i++)
        pct_put(p, a->ctx, other->values[i]);
    pct_fini(a, from);
    return 0;
}

/* The rank ceil(q n - 1e-9), without rounding, within [1, n]. */
static uint64_t
rank_of(const struct quantile *q, uint64_t n)
{
    u128 product = (u128)q->num * n;
    uint64_t k = (uint64_t)(product / q->den);
    uint64_t rest = (uint64_t)(product % q->den);

    if ((u128)rest * RANK_SLACK > q->den)
        k++;
    return k == 0 ? 1 : k > n ? n : k;
}

/* Order of doubles with -0.0 before 0.0. */
static int
double_cmp(const void *a, const void *b)
{
    double x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (x != y)
        return x < y ? -1 : 1;
    return (signbit(y) != 0) - (signbit(x) != 0);
}

static int
pct_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
           struct err *e)
{
    const struct conf *c = a->ctx;
    const struct pct *p = acc;
    uint64_t n = p->dd != NULL ? ddsketch_count(p->dd) : p->n;
    double sorted[EXACT_MAX];
    uint32_t i;

    (void)e;
    if (n == 0) {
        buf_adds(out, "null");
        return 0;
    }
    if (p->dd == NULL) {
        memcpy(sorted, p->values, p->n * sizeof *sorted);
        qsort(sorted, p->n, sizeof *sorted, double_cmp);
    }
    if (c->list)
        buf_addc(out, '[');
    for (i = 0; i < c->count; i++) {
        uint64_t k = rank_of(&c->q[i], n);

        if (i > 0)
            buf_addc(out, ',');
        agg_put_double(out,
                       p->dd != NULL ? ddsketch_rank(p->dd, &c->dd, k)
                                     : sorted[k - 1],
                       ext);
    }
    if (c->list)
        buf_addc(out, ']');
    return 0;
}

enum { CODE_VALUES, CODE_SKETCH };

static int
pct_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    const struct pct *p = acc;
    uint32_t i;

    (void)a;
    (void)e;
    if (p->dd != NULL) {
        buf_addc(out, CODE_SKETCH);
        ddsketch_encode(p->dd, out);
        return 0;
    }
    buf_addc(out, CODE_VALUES);
    buf_addc(out, (char)p->n);
    for (i = 0; i < p->n; i++)
        codec_put_double(out, p->values[i]);
    return 0;
}

static bool
decode_values(struct pct *p, const struct conf *c, const char **bytes,
              const char *end)
{
    uint8_t n, i;
    double v;

    if (!codec_u8(bytes, end, &n) || n > EXACT_MAX)
        return false;
    for (i = 0; i < n; i++) {
        if (!codec_double(bytes, end, &v) || isnan(v))
            return false;
        pct_put(p, c, v);
    }
    return true;
}

static int
pct_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    struct pct *p = acc;
    const char *end = bytes + len;
    uint8_t code;
    bool ok = codec_u8(&bytes, end, &code) && code <= CODE_SKETCH;

    if (ok && code == CODE_SKETCH) {
        p->dd = ddsketch_new();
        ok = ddsketch_decode(p->dd, &bytes, end);
    } else if (ok)
        ok = decode_values(p, a->ctx, &bytes, end);
    if (ok && bytes == end)
        return 0;
    pct_fini(a, acc);
    return agg_damaged(a, e);
}

static size_t
pct_heap(const struct agg *a, const void *acc)
{
    const struct pct *p = acc;

    (void)a;
    return p->cap * sizeof *p->values +
           (p->dd != NULL ? ddsketch_heap(p->dd) : 0);
}

static void
pct_dup(const struct agg *a, const void *acc, void *to)
{
    const struct pct *p = acc;
    struct pct *copy = to;

    (void)a;
    *copy = *p;
    if (p->values != NULL) {
        copy->values = mem_alloc(p->cap * sizeof *copy->values);
        memcpy(copy->values, p->values, p->n * sizeof *copy->values);
    }
    if (p->dd != NULL)
        copy->dd = ddsketch_dup(p->dd);
}

const struct agg_type agg_percentile_type = {
    .name = "percentile",
    .size = pct_size,
    .init = pct_init,
    .add = pct_add,
    .merge = pct_merge,
    .result = pct_result,
    .encode = pct_encode,
    .decode = pct_decode,
    .fini = pct_fini,
    .heap = pct_heap,
    .movable = true,
    .check = agg_check_num,
    .dup = pct_dup,
};
