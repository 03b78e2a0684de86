#include "core/ddsketch.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"

enum { CHUNK = 32 }; /* buckets that a side grows by */

/* Bucket numbers stay far inside int32, whatever the error. */
static const double INDEX_MAX = 1e9;

/* The buckets of one sign, numbered [low, low + n). The memory begins with
 * bucket `base`; low and the last bucket are in use. */
struct side {
    int32_t base, low;
    uint32_t n, cap;
    uint64_t *counts;
};

struct ddsketch {
    uint64_t n, zeros, pos_inf, neg_inf;
    double min, max;
    struct side pos, neg;
};

void
dd_conf_init(struct dd_conf *c, double error)
{
    assert(error > 0 && error < 1);
    /* A bit narrower, so that rounding here cannot exceed the promise. */
    error -= fmin(error * 0.01, 1e-11);
    c->log_gamma = log1p(2 * error / (1 - error));
    c->log_mid = log1p(-error);
}

struct ddsketch *
ddsketch_new(void)
{
    struct ddsketch *d = mem_zalloc(sizeof *d);

    d->min = INFINITY;
    d->max = -INFINITY;
    return d;
}

void
ddsketch_free(struct ddsketch **d)
{
    if (*d == NULL)
        return;
    free((*d)->pos.counts);
    free((*d)->neg.counts);
    free(*d);
    *d = NULL;
}

static void
side_dup(struct side *s)
{
    uint64_t *counts = mem_alloc(s->cap * sizeof *counts);

    if (s->cap != 0)
        memcpy(counts, s->counts, s->cap * sizeof *counts);
    s->counts = counts;
}

struct ddsketch *
ddsketch_dup(const struct ddsketch *d)
{
    struct ddsketch *copy = mem_alloc(sizeof *copy);

    *copy = *d;
    side_dup(&copy->pos);
    side_dup(&copy->neg);
    return copy;
}

static int32_t
chunk_floor(int32_t index)
{
    int32_t rest = index % CHUNK;

    return index - (rest < 0 ? rest + CHUNK : rest);
}

/* Make the memory cover [from, end) and what is in use. */
static void
side_cover(struct side *s, int32_t from, int32_t end)
{
    uint64_t *counts;
    int32_t base;
    uint32_t cap;

    if (s->n != 0) {
        from = from < s->low ? from : s->low;
        end = end > s->low + (int32_t)s->n ? end : s->low + (int32_t)s->n;
    }
    if (s->cap != 0 && from >= s->base && end <= s->base + (int32_t)s->cap)
        return;
    base = chunk_floor(from);
    cap = (uint32_t)(chunk_floor(end - 1) + CHUNK - base);
    counts = mem_zalloc(cap * sizeof *counts);
    if (s->n != 0)
        memcpy(counts + (s->low - base), s->counts + (s->low - s->base),
               s->n * sizeof *counts);
    free(s->counts);
    s->counts = counts;
    s->base = base;
    s->cap = cap;
}

/* Move everything below `low` into bucket `low`, which lies at or before the
 * new end. */
static void
side_collapse(struct side *s, int32_t low, int32_t end)
{
    int32_t at, last = s->low + (int32_t)s->n;
    uint64_t sum = 0;

    for (at = s->low; at < low && at < last; at++)
        sum += s->counts[at - s->base];
    if (low >= last) {
        /* Nothing of the old range stays. */
        memset(s->counts, 0, s->cap * sizeof *s->counts);
        s->n = 0;
        side_cover(s, low, end);
        s->low = low;
        s->n = 1;
    } else {
        memset(s->counts + (s->low - s->base), 0,
               (size_t)(low - s->low) * sizeof *s->counts);
        s->n -= (uint32_t)(low - s->low);
        s->low = low;
        side_cover(s, low, end);
    }
    s->counts[low - s->base] += sum;
}

static void
side_add(struct side *s, int32_t index, uint64_t count)
{
    int32_t end = s->low + (int32_t)s->n;

    if (s->n == 0) {
        side_cover(s, index, index + 1);
        s->low = index;
        s->n = 1;
    } else if (index >= end) {
        if (index - s->low >= DD_BUCKETS_MAX)
            side_collapse(s, index - DD_BUCKETS_MAX + 1, index + 1);
        else
            side_cover(s, s->low, index + 1);
        s->n = (uint32_t)(index + 1 - s->low);
    } else if (index < s->low) {
        if (index < end - DD_BUCKETS_MAX)
            index = end - DD_BUCKETS_MAX;
        if (index < s->low) {
            side_cover(s, index, end);
            s->n = (uint32_t)(end - index);
            s->low = index;
        }
    }
    s->counts[index - s->base] += count;
}

/* Bucket of a finite magnitude > 0: the i with gamma^(i-1) < mag <= gamma^i. */
static int32_t
bucket_of(const struct dd_conf *c, double mag)
{
    double i = ceil(log(mag) / c->log_gamma);

    return (int32_t)fmax(fmin(i, INDEX_MAX), -INDEX_MAX);
}

static double
bucket_value(const struct dd_conf *c, int32_t index)
{
    return exp(index * c->log_gamma + c->log_mid);
}

void
ddsketch_add(struct ddsketch *d, const struct dd_conf *c, double v)
{
    d->n++;
    d->min = fmin(d->min, v);
    d->max = fmax(d->max, v);
    if (v == 0)
        d->zeros++;
    else if (isinf(v))
        ++*(v > 0 ? &d->pos_inf : &d->neg_inf);
    else
        side_add(v > 0 ? &d->pos : &d->neg, bucket_of(c, fabs(v)), 1);
}

static void
side_merge(struct side *s, const struct side *from)
{
    uint32_t i;

    /* From the top, so that what collapses is known at once. */
    for (i = from->n; i-- > 0;) {
        int32_t index = from->low + (int32_t)i;
        uint64_t count = from->counts[index - from->base];

        if (count != 0)
            side_add(s, index, count);
    }
}

void
ddsketch_merge(struct ddsketch *d, const struct ddsketch *from)
{
    d->n += from->n;
    d->zeros += from->zeros;
    d->pos_inf += from->pos_inf;
    d->neg_inf += from->neg_inf;
    d->min = fmin(d->min, from->min);
    d->max = fmax(d->max, from->max);
    side_merge(&d->pos, &from->pos);
    side_merge(&d->neg, &from->neg);
}

uint64_t
ddsketch_count(const struct ddsketch *d)
{
    return d->n;
}

static uint64_t
side_total(const struct side *s)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < s->n; i++)
        sum += s->counts[s->low - s->base + (int32_t)i];
    return sum;
}

/* Bucket of the k-th smallest magnitude, 1 <= k <= total. */
static int32_t
side_rank(const struct side *s, uint64_t k)
{
    int32_t at = s->low, last = s->low + (int32_t)s->n - 1;

    for (; at < last; at++) {
        uint64_t count = s->counts[at - s->base];

        if (k <= count)
            break;
        k -= count;
    }
    return at;
}

/* Value of rank k before it is clamped. */
static double
rank_value(const struct ddsketch *d, const struct dd_conf *c, uint64_t k)
{
    uint64_t negatives = side_total(&d->neg);

    if (k <= d->neg_inf)
        return -INFINITY;
    k -= d->neg_inf;
    if (k <= negatives)
        return -bucket_value(c, side_rank(&d->neg, negatives - k + 1));
    k -= negatives;
    if (k <= d->zeros)
        return 0.0;
    k -= d->zeros;
    if (d->pos.n == 0 ||
        k > d->n - d->neg_inf - negatives - d->zeros - d->pos_inf)
        return INFINITY;
    return bucket_value(c, side_rank(&d->pos, k));
}

double
ddsketch_rank(const struct ddsketch *d, const struct dd_conf *c, uint64_t k)
{
    double v = rank_value(d, c, k);

    assert(k > 0 && k <= d->n);
    if (v < d->min)
        return d->min;
    return v > d->max ? d->max : v;
}

size_t
ddsketch_heap(const struct ddsketch *d)
{
    return sizeof *d + (d->pos.cap + d->neg.cap) * sizeof(uint64_t);
}

static void
side_encode(const struct side *s, struct buf *out)
{
    uint32_t i;

    codec_put_u32(out, s->n);
    codec_put_u32(out, (uint32_t)s->low);
    for (i = 0; i < s->n; i++)
        codec_put_u64(out, s->counts[s->low - s->base + (int32_t)i]);
}

void
ddsketch_encode(const struct ddsketch *d, struct buf *out)
{
    codec_put_u64(out, d->n);
    codec_put_u64(out, d->zeros);
    codec_put_u64(out, d->pos_inf);
    codec_put_u64(out, d->neg_inf);
    codec_put_double(out, d->min);
    codec_put_double(out, d->max);
    side_encode(&d->pos, out);
    side_encode(&d->neg, out);
}

static bool
side_decode(struct side *s, const char **p, const char *end)
{
    uint32_t n, low, i;
    uint64_t count;

    if (!codec_u32(p, end, &n) || !codec_u32(p, end, &low) ||
        n > DD_BUCKETS_MAX || (int32_t)low < -2 * (int32_t)INDEX_MAX ||
        (int32_t)low > (int32_t)INDEX_MAX)
        return false;
    for (i = 0; i < n; i++) {
        if (!codec_u64(p, end, &count))
            return false;
        if (count != 0 || i == 0 || i == n - 1)
            side_add(s, (int32_t)low + (int32_t)i, count);
    }
    return true;
}

bool
ddsketch_decode(struct ddsketch *d, const char **p, const char *end)
{
    return codec_u64(p, end, &d->n) && codec_u64(p, end, &d->zeros) &&
           codec_u64(p, end, &d->pos_inf) && codec_u64(p, end, &d->neg_inf) &&
           codec_double(p, end, &d->min) && codec_double(p, end, &d->max) &&
           side_decode(&d->pos, p, end) && side_decode(&d->neg, p, end) &&
           d->n == d->zeros + d->pos_inf + d->neg_inf + side_total(&d->pos) +
                       side_total(&d->neg);
}
