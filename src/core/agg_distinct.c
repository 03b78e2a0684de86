/*
 * distinct(x): exact up to 256 values, then HyperLogLog.
 * count_distinct(x): exact.
 *
 * Both keep the canonical encodings of the values (equality as for keys).
 * The state of distinct is a function of the set: all encodings while there
 * are at most 256, else the registers of all their hashes.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"
#include "core/hll.h"
#include "core/kset.h"

enum { DISTINCT_EXACT_MAX = 256 };

struct distinct {
    struct kset *set; /* NULL: empty, or there is a sketch */
    struct hll *hll;  /* NULL: exact; never set by count_distinct */
};

/* What an aggregate keeps for its adds. */
struct scratch {
    struct buf key;
};

static void
scratch_free(void *ctx)
{
    struct scratch *s = ctx;

    buf_fini(&s->key);
    free(s);
}

int
agg_distinct_setup(struct agg *a, struct err *e)
{
    struct scratch *s = mem_alloc(sizeof *s);

    (void)e;
    buf_init(&s->key);
    a->ctx = s;
    a->free_ctx = scratch_free;
    return 0;
}

static uint32_t
distinct_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct distinct);
}

static void
distinct_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct distinct));
}

/* The encoding of `v` in the scratch; fails for NaN and broken values. */
static int
encode_value(const struct agg *a, const struct val *v, struct err *e)
{
    struct scratch *s = a->ctx;
    char label[AGG_LABEL_MAX];

    if (!agg_any_ok(v))
        return agg_type_error(a, "a value", v, e);
    buf_clear(&s->key);
    if (key_put_scalar(&s->key, v))
        return 0;
    if (a->encode_key(&s->key, v, e) != 0)
        return err_context(e, "%s", agg_label(a, label));
    return 0;
}

static int
distinct_check(const struct agg *a, const void *acc, const struct val *args,
               const struct rec *r, struct err *e)
{
    (void)acc;
    (void)r;
    if (args->type < VAL_LIST && agg_any_ok(args))
        return 0;
    return encode_value(a, args, e);
}

/* Give up the exact set for a sketch of the same hashes. */
static void
to_hll(struct distinct *d)
{
    const char *bytes;
    size_t at = 0, len;

    d->hll = hll_new();
    while (kset_next(d->set, &at, &bytes, &len))
        hll_add(&d->hll, hash_key(bytes, len));
    kset_free(&d->set);
}

static void
distinct_put(const struct agg *a, struct distinct *d, const char *bytes,
             size_t len)
{
    uint64_t hash = hash_key(bytes, len);

    if (d->hll != NULL) {
        hll_add(&d->hll, hash);
        return;
    }
    if (d->set == NULL)
        d->set = kset_new();
    if (kset_add(d->set, hash, bytes, len) && a->type == &agg_distinct_type &&
        d->set->count > DISTINCT_EXACT_MAX)
        to_hll(d);
}

static int
distinct_add(const struct agg *a, void *acc, const struct val *args,
             const struct rec *r, struct err *e)
{
    const struct scratch *s = a->ctx;
    int ret;

    (void)r;
    if (val_is_null(args))
        return 0;
    ret = encode_value(a, args, e);
    if (ret == 0)
        distinct_put(a, acc, s->key.data, s->key.len);
    return ret;
}

static void
distinct_fini(const struct agg *a, void *acc)
{
    struct distinct *d = acc;

    (void)a;
    kset_free(&d->set);
    hll_free(&d->hll);
}

static int
distinct_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct distinct *d = acc, *other = from, tmp;
    const char *bytes;
    size_t at = 0, len;

    (void)e;
    /* Put the smaller one into the larger one. */
    if ((d->hll == NULL && other->hll != NULL) ||
        (d->hll == NULL && other->set != NULL &&
         (d->set == NULL || d->set->count < other->set->count))) {
        tmp = *d;
        *d = *other;
        *other = tmp;
    }
    if (other->hll != NULL)
        hll_merge(&d->hll, other->hll);
    if (other->set != NULL)
        while (kset_next(other->set, &at, &bytes, &len))
            distinct_put(a, d, bytes, len);
    distinct_fini(a, from);
    return 0;
}

static int
distinct_result(const struct agg *a, const void *acc, struct buf *out,
                bool *ext, struct err *e)
{
    const struct distinct *d = acc;
    uint64_t n = 0;

    (void)a;
    (void)ext;
    (void)e;
    if (d->hll != NULL)
        n = hll_estimate(d->hll);
    else if (d->set != NULL)
        n = d->set->count;
    json_put_int(out, (int64_t)n);
    return 0;
}

enum { CODE_EMPTY, CODE_SET, CODE_HLL };

static int
distinct_encode(const struct agg *a, const void *acc, struct buf *out,
                struct err *e)
{
    const struct distinct *d = acc;
    const char *bytes;
    size_t at = 0, len;

    (void)a;
    (void)e;
    if (d->hll != NULL) {
        buf_addc(out, CODE_HLL);
        hll_encode(d->hll, out);
        return 0;
    }
    buf_addc(out, d->set != NULL ? CODE_SET : CODE_EMPTY);
    if (d->set == NULL)
        return 0;
    codec_put_u64(out, d->set->count);
    while (kset_next(d->set, &at, &bytes, &len))
        codec_put_bytes(out, bytes, len);
    return 0;
}

static bool
decode_set(const struct agg *a, struct distinct *d, const char **p,
           const char *end)
{
    const char *bytes;
    uint64_t n, i;
    uint32_t len;

    if (!codec_u64(p, end, &n) ||
        (a->type == &agg_distinct_type && n > DISTINCT_EXACT_MAX))
        return false;
    for (i = 0; i < n; i++) {
        if (!codec_bytes(p, end, &bytes, &len))
            return false;
        distinct_put(a, d, bytes, len);
    }
    return true;
}

static int
distinct_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
                struct err *e)
{
    struct distinct *d = acc;
    const char *end = bytes + len;
    uint8_t code;
    bool ok = codec_u8(&bytes, end, &code);

    if (ok && code == CODE_SET)
        ok = decode_set(a, d, &bytes, end);
    else if (ok && code == CODE_HLL && a->type == &agg_distinct_type) {
        d->hll = hll_new();
        ok = hll_decode(&d->hll, &bytes, end);
    } else
        ok = ok && code == CODE_EMPTY;
    if (ok && bytes == end)
        return 0;
    distinct_fini(a, acc);
    return agg_damaged(a, e);
}

static size_t
distinct_heap(const struct agg *a, const void *acc)
{
    const struct distinct *d = acc;

    (void)a;
    if (d->hll != NULL)
        return hll_heap(d->hll);
    return d->set != NULL ? kset_heap(d->set) : 0;
}

static void
distinct_dup(const struct agg *a, const void *acc, void *to)
{
    const struct distinct *d = acc;
    struct distinct *copy = to;

    (void)a;
    copy->set = d->set != NULL ? kset_dup(d->set) : NULL;
    copy->hll = d->hll != NULL ? hll_dup(d->hll) : NULL;
}

#define DISTINCT_TYPE(text)                                                    \
    {                                                                          \
        .name = (text), .size = distinct_size, .init = distinct_init,          \
        .add = distinct_add, .merge = distinct_merge,                          \
        .result = distinct_result, .encode = distinct_encode,                  \
        .decode = distinct_decode, .fini = distinct_fini,                      \
        .heap = distinct_heap, .movable = true, .check = distinct_check,       \
        .dup = distinct_dup,                                                   \
    }

const struct agg_type agg_distinct_type = DISTINCT_TYPE("distinct");
const struct agg_type agg_count_distinct_type = DISTINCT_TYPE("count_distinct");
