/* min(x), max(x): numbers or strings; of equal numbers the integer. */
#include <string.h>

#include "core/agg_codec.h"
#include "core/agg_impl.h"

static uint32_t
minmax_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct sval);
}

static void
minmax_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct sval));
}

static bool
is_negative_zero(const struct val *v)
{
    return v->type == VAL_DBL && v->u.d == 0 && signbit(v->u.d);
}

int
agg_minmax_cmp(const struct val *a, const struct val *b)
{
    int c;

    if (a->type == VAL_STR)
        return val_bytes_cmp(a, b);
    c = val_num_cmp(a, b);
    if (c == 0)
        c = is_negative_zero(b) - is_negative_zero(a);
    return c;
}

void
agg_minmax_slow(bool max, struct sval *acc, const struct val *v)
{
    struct val held = sval_get(acc);
    int c;

    if (acc->mark == AGG_MIXED)
        return;
    if (acc->type == VAL_NIL) {
        sval_set(acc, v);
        return;
    }
    c = agg_minmax_cmp(v, &held);
    if (c == 0 ? v->type == VAL_INT : max ? c > 0 : c < 0)
        sval_set(acc, v);
}

int
agg_minmax_refuse(const struct agg *a, const struct val *v, struct err *e)
{
    char label[AGG_LABEL_MAX];
    struct err got;

    if (v->type == VAL_STR || (val_is_num(v) && agg_num_ok(v))) {
        (void)agg_type_error(a, v->type == VAL_STR ? "a number" : "a string", v,
                             &got);
        return err_record(e, CAUSE_TYPE, "%s; %s holds %ss so far", got.msg,
                          agg_label(a, label),
                          v->type == VAL_STR ? "number" : "string");
    }
    return agg_type_error(a, "a number or a string", v, e);
}

static int
minmax_check(const struct agg *a, const void *acc, const struct val *args,
             const struct rec *r, struct err *e)
{
    (void)r;
    return agg_minmax_ok(acc, args) ? 0 : agg_minmax_refuse(a, args, e);
}

static int
minmax_add(const struct agg *a, void *acc, const struct val *args,
           const struct rec *r, struct err *e)
{
    int ret = minmax_check(a, acc, args, r, e);

    if (ret == 0)
        agg_minmax_apply(a->type == &agg_max_type, acc, args);
    return ret;
}

static int
minmax_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct sval *to = acc, *other = from;
    struct val v = sval_get(other);
    int ret = 0;

    if (other->mark == AGG_MIXED || !agg_minmax_ok(to, &v)) {
        if (to->mark != AGG_MIXED)
            ret = agg_mixed_error(a, e);
        sval_fini(to);
        to->mark = AGG_MIXED;
    } else
        agg_minmax_apply(a->type == &agg_max_type, to, &v);
    sval_fini(other);
    return ret;
}

static int
minmax_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
              struct err *e)
{
    const struct sval *held = acc;
    struct val v = sval_get(held);

    if (held->mark == AGG_MIXED)
        return agg_mixed_error(a, e);
    val_put_json(out, &v, ext);
    return 0;
}

static int
minmax_encode(const struct agg *a, const void *acc, struct buf *out,
              struct err *e)
{
    const struct sval *held = acc;

    (void)a;
    (void)e;
    buf_addc(out, (char)held->mark);
    sval_encode(held, out);
    return 0;
}

static int
minmax_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
              struct err *e)
{
    struct sval *held = acc;
    const char *end = bytes + len;
    uint8_t mark;

    if (!codec_u8(&bytes, end, &mark) || mark > AGG_MIXED ||
        !sval_decode(held, &bytes, end) || bytes != end ||
        (mark == AGG_MIXED && held->type != VAL_NIL) ||
        (held->type != VAL_NIL && held->type != VAL_INT &&
         held->type != VAL_DBL && held->type != VAL_STR))
        return agg_damaged(a, e);
    held->mark = mark;
    return 0;
}

static void
minmax_fini(const struct agg *a, void *acc)
{
    (void)a;
    sval_fini(acc);
}

static size_t
minmax_heap(const struct agg *a, const void *acc)
{
    (void)a;
    return sval_heap(acc);
}

static void
minmax_dup(const struct agg *a, const void *acc, void *to)
{
    (void)a;
    sval_dup(acc, to);
}

#define MINMAX_TYPE(text)                                                      \
    {                                                                          \
        .name = (text), .size = minmax_size, .init = minmax_init,              \
        .add = minmax_add, .merge = minmax_merge, .result = minmax_result,     \
        .encode = minmax_encode, .decode = minmax_decode, .fini = minmax_fini, \
        .heap = minmax_heap, .movable = true, .check = minmax_check,           \
        .dup = minmax_dup,                                                     \
    }

const struct agg_type agg_min_type = MINMAX_TYPE("min");
const struct agg_type agg_max_type = MINMAX_TYPE("max");
