/* count(), count(x): records, or records whose x is not null. */
#include "core/agg_codec.h"
#include "core/agg_impl.h"

static uint32_t
count_size(const struct agg *a)
{
    (void)a;
    return sizeof(uint64_t);
}

static void
count_init(const struct agg *a, void *acc)
{
    (void)a;
    *(uint64_t *)acc = 0;
}

static int
count_add(const struct agg *a, void *acc, const struct val *args,
          const struct rec *r, struct err *e)
{
    int ret = agg_check_any(a, acc, args, r, e);

    if (ret == 0)
        *(uint64_t *)acc += a->nargs == 0 || !val_is_null(args);
    return ret;
}

static int
count_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    (void)a;
    (void)e;
    *(uint64_t *)acc += *(uint64_t *)from;
    *(uint64_t *)from = 0;
    return 0;
}

static int
count_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
             struct err *e)
{
    (void)a;
    (void)ext;
    (void)e;
    json_put_int(out, (int64_t) * (const uint64_t *)acc);
    return 0;
}

static int
count_encode(const struct agg *a, const void *acc, struct buf *out,
             struct err *e)
{
    (void)a;
    (void)e;
    codec_put_u64(out, *(const uint64_t *)acc);
    return 0;
}

static int
count_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
             struct err *e)
{
    const char *end = bytes + len;

    if (len != sizeof(uint64_t) || !codec_u64(&bytes, end, acc))
        return agg_damaged(a, e);
    return 0;
}

static void
count_fini(const struct agg *a, void *acc)
{
    count_init(a, acc);
}

static size_t
count_heap(const struct agg *a, const void *acc)
{
    (void)a;
    (void)acc;
    return 0;
}

static void
count_dup(const struct agg *a, const void *acc, void *to)
{
    (void)a;
    *(uint64_t *)to = *(const uint64_t *)acc;
}

const struct agg_type agg_count_type = {
    .name = "count",
    .size = count_size,
    .init = count_init,
    .add = count_add,
    .merge = count_merge,
    .result = count_result,
    .encode = count_encode,
    .decode = count_decode,
    .fini = count_fini,
    .heap = count_heap,
    .movable = true,
    .check = agg_check_any,
    .dup = count_dup,
};
