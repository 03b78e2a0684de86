/* var_pop, var_samp, stddev_pop, stddev_samp: exact n, sum, sum of squares. */
#include <string.h>

#include "core/agg_codec.h"
#include "core/agg_impl.h"

static uint32_t
var_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct agg_var_acc);
}

static void
var_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct agg_var_acc));
}

static int
var_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    int ret = agg_check_num(a, acc, args, r, e);

    if (ret == 0)
        agg_var_apply(acc, args);
    return ret;
}

static int
var_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct agg_var_acc *to = acc, *other = from;

    (void)a;
    (void)e;
    exact_merge(&to->sum, &other->sum);
    exact_merge(&to->squares, &other->squares);
    to->n += other->n;
    other->n = 0;
    return 0;
}

static int
var_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
           struct err *e)
{
    const struct agg_var_acc *var = acc;
    bool samp =
        a->type == &agg_var_samp_type || a->type == &agg_stddev_samp_type;
    bool root =
        a->type == &agg_stddev_pop_type || a->type == &agg_stddev_samp_type;

    (void)e;
    if (var->n == 0 || (samp && var->n == 1))
        buf_adds(out, "null");
    else
        agg_put_double(out,
                       exact_variance(&var->sum, &var->squares, var->n,
                                      var->n - samp, root),
                       ext);
    return 0;
}

static int
var_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    const struct agg_var_acc *var = acc;

    (void)a;
    (void)e;
    codec_put_u64(out, var->n);
    exact_encode(&var->sum, out);
    exact_encode(&var->squares, out);
    return 0;
}

static int
var_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    struct agg_var_acc *var = acc;
    const char *end = bytes + len;

    if (!codec_u64(&bytes, end, &var->n) ||
        !exact_decode(&var->sum, &bytes, end) ||
        !exact_decode(&var->squares, &bytes, end) || bytes != end)
        return agg_damaged(a, e);
    return 0;
}

static void
var_fini(const struct agg *a, void *acc)
{
    struct agg_var_acc *var = acc;

    exact_fini(&var->sum);
    exact_fini(&var->squares);
    var_init(a, acc);
}

static size_t
var_heap(const struct agg *a, const void *acc)
{
    const struct agg_var_acc *var = acc;

    (void)a;
    return exact_heap(&var->sum) + exact_heap(&var->squares);
}

static void
var_dup(const struct agg *a, const void *acc, void *to)
{
    const struct agg_var_acc *var = acc;
    struct agg_var_acc *copy = to;

    (void)a;
    exact_dup(&var->sum, &copy->sum);
    exact_dup(&var->squares, &copy->squares);
    copy->n = var->n;
}

/* The four differ in the name and in what var_result() asks of it. */
#define VAR_TYPE(text)                                                         \
    {                                                                          \
        .name = (text), .size = var_size, .init = var_init, .add = var_add,    \
        .merge = var_merge, .result = var_result, .encode = var_encode,        \
        .decode = var_decode, .fini = var_fini, .heap = var_heap,              \
        .movable = true, .check = agg_check_num, .dup = var_dup,               \
    }

const struct agg_type agg_var_pop_type = VAR_TYPE("var_pop");
const struct agg_type agg_var_samp_type = VAR_TYPE("var_samp");
const struct agg_type agg_stddev_pop_type = VAR_TYPE("stddev_pop");
const struct agg_type agg_stddev_samp_type = VAR_TYPE("stddev_samp");
