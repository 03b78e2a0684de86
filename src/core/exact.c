#include "core/exact.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"

__extension__ typedef unsigned __int128 u128;

enum {
    LIMB_BITS = 64,
    WORK_LIMBS = 2 * EXACT_LIMBS_MAX + 8, /* of a numerator of variance */
    MANT_BITS = 53,
    EXP_MIN = -1074 /* of the last bit of a subnormal */
};

/* Inside these bounds a square and its rounding error are both exact. */
static const double SQUARE_MIN = 0x1p-480;
static const double SQUARE_MAX = 0x1p480;

static size_t
wide_size(uint32_t n)
{
    return sizeof(struct exact_wide) + n * sizeof(uint64_t);
}

static void
set_wide(struct exact *x, struct exact_wide *w)
{
    assert(((uintptr_t)w & EXACT_FLAGS) == 0);
    x->word = (x->word & EXACT_FLAGS) | (uintptr_t)w;
}

static uint64_t
sign_limb(const struct exact_wide *w)
{
    return w->limb[w->n - 1] >> 63 != 0 ? UINT64_MAX : 0;
}

/* Limb with the absolute index `at`, also beyond both ends. */
static uint64_t
wide_limb(const struct exact_wide *w, int at)
{
    if (at < w->base)
        return 0;
    if (at >= w->base + (int)w->n)
        return sign_limb(w);
    return w->limb[at - w->base];
}

/* Make w cover the limbs [from, end). */
static struct exact_wide *
wide_cover(struct exact_wide *w, int from, int end)
{
    int old_end = w->base + (int)w->n;
    uint32_t below, n;
    uint64_t sign;

    if (from >= w->base && end <= old_end)
        return w;
    if (from > w->base)
        from = w->base;
    if (end < old_end)
        end = old_end;
    n = (uint32_t)(end - from);
    below = (uint32_t)(w->base - from);
    assert(n <= EXACT_LIMBS_MAX);
    sign = sign_limb(w);
    w = mem_realloc(w, wide_size(n));
    memmove(w->limb + below, w->limb, w->n * sizeof(uint64_t));
    memset(w->limb, 0, below * sizeof(uint64_t));
    for (below += w->n; below < n; below++)
        w->limb[below] = sign;
    w->base = from;
    w->n = n;
    return w;
}

/* Keep a bit of room above the value, so that the next add cannot wrap. */
static struct exact_wide *
wide_headroom(struct exact_wide *w)
{
    uint64_t top = w->limb[w->n - 1];

    if ((top >> 62 & 1) != top >> 63)
        w = wide_cover(w, w->base, w->base + (int)w->n + 1);
    return w;
}

static void
limbs_add(struct exact_wide *w, uint32_t at, const uint64_t *v, int count)
{
    unsigned carry = 0;
    int i;

    for (i = 0; at < w->n && (i < count || carry != 0); i++, at++) {
        uint64_t add = i < count ? v[i] : 0;
        uint64_t sum = w->limb[at] + add;
        unsigned over = sum < add;

        w->limb[at] = sum + carry;
        carry = over | (w->limb[at] < sum);
    }
}

static void
limbs_sub(struct exact_wide *w, uint32_t at, const uint64_t *v, int count)
{
    unsigned borrow = 0;
    int i;

    for (i = 0; at < w->n && (i < count || borrow != 0); i++, at++) {
        uint64_t sub = i < count ? v[i] : 0;
        uint64_t old = w->limb[at];
        uint64_t diff = old - sub;
        unsigned under = old < sub;

        w->limb[at] = diff - borrow;
        borrow = under | (diff < borrow);
    }
}

/* Add +-mag * 2^exp to the wide number of x, making it if there is none. */
static void
wide_add(struct exact *x, u128 mag, int exp, bool neg)
{
    struct exact_wide *w = exact_wide_get(x);
    int at = exp >= 0 ? exp / LIMB_BITS : -((LIMB_BITS - 1 - exp) / LIMB_BITS);
    int shift = exp - at * LIMB_BITS;
    uint64_t v[3], *low = v;
    uint64_t hi = (uint64_t)(mag >> LIMB_BITS), lo = (uint64_t)mag;
    int count = 3;

    if (mag == 0 && w != NULL)
        return;
    v[0] = lo << shift;
    v[1] = hi << shift;
    v[2] = 0;
    if (shift != 0) {
        v[1] |= lo >> (LIMB_BITS - shift);
        v[2] = hi >> (LIMB_BITS - shift);
    }
    while (count > 0 && low[count - 1] == 0)
        count--;
    for (; count > 0 && *low == 0; low++, at++)
        count--;
    if (w == NULL) {
        w = mem_zalloc(wide_size((uint32_t)count + 1));
        w->base = at;
        w->n = (uint32_t)count + 1;
    }
    w = wide_cover(w, at, at + count + 1);
    if (neg)
        limbs_sub(w, (uint32_t)(at - w->base), low, count);
    else
        limbs_add(w, (uint32_t)(at - w->base), low, count);
    set_wide(x, wide_headroom(w));
}

/* Mantissa and exponent of a finite double: |v| = mant * 2^exp. */
static uint64_t
double_parts(double v, int *exp)
{
    uint64_t u, mant;
    int e;

    memcpy(&u, &v, sizeof u);
    mant = u & ((UINT64_C(1) << 52) - 1);
    e = (int)(u >> 52 & 0x7ff);
    if (e == 0) {
        *exp = EXP_MIN;
        return mant;
    }
    *exp = e + EXP_MIN - 1;
    return mant | UINT64_C(1) << 52;
}

static void
wide_add_double(struct exact *x, double v)
{
    int exp;
    uint64_t mant = double_parts(v, &exp);

    wide_add(x, mant, exp, signbit(v) != 0);
}

static void
wide_add_int(struct exact *x, int64_t v)
{
    uint64_t mag = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    wide_add(x, mag, 0, v < 0);
}

/* Move hi and lo into the wide number. */
static void
spill_doubles(struct exact *x)
{
    if (x->hi != 0)
        wide_add_double(x, x->hi);
    if (x->lo != 0)
        wide_add_double(x, x->lo);
    x->hi = 0;
    x->lo = 0;
}

void
exact_add_int_slow(struct exact *x, int64_t v)
{
    wide_add_int(x, x->i);
    x->i = v;
    x->word |= EXACT_ANY;
}

void
exact_add_double_slow(struct exact *x, double v)
{
    x->word |= EXACT_ANY | EXACT_DBL;
    if (isinf(v)) {
        x->word |= v > 0 ? EXACT_PINF : EXACT_NINF;
        return;
    }
    spill_doubles(x);
    wide_add_double(x, v);
}

void
exact_add_int_square(struct exact *x, int64_t v)
{
    uint64_t mag = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    if (mag < UINT64_C(1) << 31) {
        exact_add_int(x, (int64_t)(mag * mag));
        return;
    }
    x->word |= EXACT_ANY;
    wide_add(x, (u128)mag * mag, 0, false);
}

/* The rounding error of v * v (Dekker, with Veltkamp's splitting). */
static double
square_error(double v, double square)
{
    double c = 0x1.0000002p27 * v;
    double hi = c - (c - v);
    double lo = v - hi;

    return lo * lo - ((square - hi * hi) - 2 * hi * lo);
}

void
exact_add_double_square(struct exact *x, double v)
{
    double mag = fabs(v), square, error;
    uint64_t mant;
    int exp;

    if (v == 0) {
        x->word |= EXACT_ANY | EXACT_DBL;
        return;
    }
    if (x->word <= EXACT_FLAGS && mag > SQUARE_MIN && mag < SQUARE_MAX) {
        square = v * v;
        error = square_error(v, square);
        exact_add_double(x, square);
        if (error != 0)
            exact_add_double(x, error);
        return;
    }
    spill_doubles(x);
    mant = double_parts(v, &exp);
    x->word |= EXACT_ANY | EXACT_DBL;
    wide_add(x, (u128)mant * mant, 2 * exp, false);
}

/* Add all of `from` to the wide number of x. */
static void
wide_merge(struct exact *x, const struct exact_wide *from)
{
    struct exact_wide *w = exact_wide_get(x);
    int at, end = from->base + (int)from->n;
    unsigned carry = 0;

    w = wide_cover(w, from->base, end);
    end = w->base + (int)w->n;
    for (at = from->base; at < end; at++) {
        uint64_t add = wide_limb(from, at);
        uint64_t *to = &w->limb[at - w->base];
        uint64_t sum = *to + add;
        unsigned over = sum < add;

        *to = sum + carry;
        carry = over | (*to < sum);
    }
    set_wide(x, wide_headroom(w));
}

void
exact_merge(struct exact *x, struct exact *from)
{
    struct exact_wide *w = exact_wide_get(from);

    if (from->i != 0)
        exact_add_int(x, from->i);
    if (w != NULL && x->word <= EXACT_FLAGS)
        set_wide(x, w);
    else if (w != NULL) {
        wide_merge(x, w);
        free(w);
    }
    if (from->hi != 0)
        exact_add_double(x, from->hi);
    if (from->lo != 0)
        exact_add_double(x, from->lo);
    x->word |= from->word & EXACT_FLAGS;
    memset(from, 0, sizeof *from);
}

void
exact_dup(const struct exact *x, struct exact *to)
{
    const struct exact_wide *w = exact_wide_get(x);
    struct exact_wide *copy;

    *to = *x;
    if (w == NULL)
        return;
    copy = mem_alloc(wide_size(w->n));
    memcpy(copy, w, wide_size(w->n));
    set_wide(to, copy);
}

void
exact_fini(struct exact *x)
{
    free(exact_wide_get(x));
    memset(x, 0, sizeof *x);
}

size_t
exact_heap(const struct exact *x)
{
    const struct exact_wide *w = exact_wide_get(x);

    return w != NULL ? wide_size(w->n) : 0;
}

/* A magnitude on the stack, limb k weighs 2^(64 (base + k)). */
struct work {
    int base, n;
    bool neg;
    uint64_t limb[WORK_LIMBS];
};

static void
work_from(struct work *k, const struct exact_wide *w)
{
    unsigned carry;
    uint32_t i;

    k->base = w->base;
    k->n = (int)w->n;
    k->neg = w->limb[w->n - 1] >> 63 != 0;
    carry = k->neg;
    for (i = 0; i < w->n; i++) {
        k->limb[i] = (k->neg ? ~w->limb[i] : w->limb[i]) + carry;
        carry = carry != 0 && k->limb[i] == 0;
    }
}

/* Load a whole sum, i, hi and lo included. */
static void
work_load(struct work *k, const struct exact *x)
{
    struct exact all;

    exact_dup(x, &all);
    spill_doubles(&all);
    wide_add_int(&all, all.i);
    work_from(k, exact_wide_get(&all));
    exact_fini(&all);
}

/* Round a magnitude to `bits` bits, but none below 2^exp_min, half to even.
 * The value is the result * 2^*exp. */
static uint64_t
work_round(const struct work *k, int bits, int exp_min, int *exp)
{
    int n = k->n, last, at, shift, i;
    uint64_t mant, low;
    bool half, rest;

    while (n > 0 && k->limb[n - 1] == 0)
        n--;
    if (n == 0)
        return 0;
    /* `last` is the number of the last bit kept, from the lowest limb. */
    last = n * LIMB_BITS - __builtin_clzll(k->limb[n - 1]) - bits;
    if (last < exp_min - k->base * LIMB_BITS)
        last = exp_min - k->base * LIMB_BITS;
    *exp = k->base * LIMB_BITS + last;
    if (last <= 0) {
        /* Nothing to cut; the value has at most `bits` bits in limb 0. */
        *exp = k->base * LIMB_BITS;
        return k->limb[0];
    }
    if (last > n * LIMB_BITS)
        return 0;
    at = last / LIMB_BITS;
    shift = last % LIMB_BITS;
    mant = at < n ? k->limb[at] >> shift : 0;
    if (shift != 0 && at + 1 < n)
        mant |= k->limb[at + 1] << (LIMB_BITS - shift);
    i = (last - 1) / LIMB_BITS;
    low = k->limb[i] << (LIMB_BITS - 1 - (last - 1) % LIMB_BITS);
    half = low >> 63 != 0;
    rest = low << 1 != 0;
    while (!rest && --i >= 0)
        rest = k->limb[i] != 0;
    return mant + (half && (rest || (mant & 1) != 0));
}

static double
work_double(const struct work *k)
{
    int exp = 0;
    uint64_t mant = work_round(k, MANT_BITS, EXP_MIN, &exp);
    double d = ldexp((double)mant, exp);

    return k->neg && mant != 0 ? -d : d;
}

/* The sum without a wide number, if it can be had without one. */
static bool
round_small(const struct exact *x, double *ret)
{
    struct exact sum = {.hi = x->hi, .lo = x->lo};
    int64_t low = x->i & 0xffffffff;

    if (x->hi == 0) {
        *ret = (double)x->i;
        return true;
    }
    if (x->i != 0) {
        exact_add_double(&sum, (double)(x->i - low));
        exact_add_double(&sum, (double)low);
    }
    *ret = sum.hi + 0.0; /* -0.0 becomes 0.0 */
    if (sum.word <= EXACT_FLAGS)
        return true;
    exact_fini(&sum);
    return false;
}

double
exact_round(const struct exact *x)
{
    struct work k;
    double d;

    if ((x->word & (EXACT_PINF | EXACT_NINF)) != 0) {
        if ((x->word & EXACT_NINF) == 0)
            return INFINITY;
        return (x->word & EXACT_PINF) == 0 ? -INFINITY : (double)NAN;
    }
    if (x->word <= EXACT_FLAGS && round_small(x, &d))
        return d;
    work_load(&k, x);
    return work_double(&k);
}

void
exact_int128(const struct exact *x, int64_t *hi, uint64_t *lo)
{
    const struct exact_wide *w = exact_wide_get(x);
    uint64_t sign = x->i < 0 ? UINT64_MAX : 0;
    u128 sum = (u128)sign << LIMB_BITS | (uint64_t)x->i;

    assert((x->word & EXACT_DBL) == 0);
    if (w != NULL)
        sum += (u128)wide_limb(w, 1) << LIMB_BITS | wide_limb(w, 0);
    *hi = (int64_t)(uint64_t)(sum >> LIMB_BITS);
    *lo = (uint64_t)sum;
}

/* to = a * b. */
static void
work_mul(struct work *to, const struct work *a, const struct work *b)
{
    int i, j;

    to->base = a->base + b->base;
    to->n = a->n + b->n;
    to->neg = a->neg != b->neg;
    assert(to->n <= WORK_LIMBS);
    memset(to->limb, 0, (size_t)to->n * sizeof(uint64_t));
    for (i = 0; i < a->n; i++) {
        uint64_t carry = 0;

        for (j = 0; j < b->n; j++) {
            u128 t = (u128)a->limb[i] * b->limb[j];

            t += to->limb[i + j];
            t += carry;
            to->limb[i + j] = (uint64_t)t;
            carry = (uint64_t)(t >> LIMB_BITS);
        }
        to->limb[i + b->n] = carry;
    }
}

static uint64_t
work_limb(const struct work *k, int at)
{
    return at < k->base || at >= k->base + k->n ? 0 : k->limb[at - k->base];
}

/* to = |a| - |b|; false if that is negative. */
static bool
work_sub(struct work *to, const struct work *a, const struct work *b)
{
    int end = a->base + a->n, at;
    unsigned borrow = 0;

    to->base = a->base < b->base ? a->base : b->base;
    if (end < b->base + b->n)
        end = b->base + b->n;
    to->n = end - to->base;
    to->neg = false;
    assert(to->n <= WORK_LIMBS);
    for (at = to->base; at < end; at++) {
        uint64_t x = work_limb(a, at), y = work_limb(b, at);
        uint64_t diff = x - y;
        unsigned under = x < y;

        to->limb[at - to->base] = diff - borrow;
        borrow = under | (diff < borrow);
    }
    return borrow == 0;
}

double
exact_variance(const struct exact *x, const struct exact *sq, uint64_t n,
               uint64_t div, bool root)
{
    const struct work count = {.n = 1, .limb = {n}};
    struct work sum, squares, left, right;
    double num, den;
    int exp = 0;

    if ((x->word & (EXACT_PINF | EXACT_NINF)) != 0)
        return INFINITY;
    work_load(&squares, sq);
    if (isinf(work_double(&squares)))
        return INFINITY;
    work_load(&sum, x);
    work_mul(&left, &squares, &count);
    work_mul(&right, &sum, &sum);
    /* Never negative (Cauchy-Schwarz), unless the sums are not of the same
     * values: damage that a checksum did not find. */
    if (!work_sub(&squares, &left, &right))
        return 0.0;
    num = (double)work_round(&squares, MANT_BITS, 4 * EXP_MIN, &exp);
    if (num == 0)
        return 0.0;
    den = (double)n * (double)div;
    if (!root)
        return ldexp(num / den, exp);
    if (exp % 2 != 0) {
        num *= 2;
        exp--;
    }
    return ldexp(sqrt(num / den), exp / 2);
}

enum { CODE_WIDE = 16 }; /* above EXACT_FLAGS: a wide number follows */

void
exact_encode(const struct exact *x, struct buf *out)
{
    const struct exact_wide *w = exact_wide_get(x);
    uint32_t i;

    buf_addc(out,
             (char)((x->word & EXACT_FLAGS) | (w != NULL ? CODE_WIDE : 0)));
    codec_put_u64(out, (uint64_t)x->i);
    codec_put_double(out, x->hi);
    codec_put_double(out, x->lo);
    if (w == NULL)
        return;
    buf_addc(out, (char)(w->base - EXACT_LIMB_MIN));
    buf_addc(out, (char)w->n);
    for (i = 0; i < w->n; i++)
        codec_put_u64(out, w->limb[i]);
}

static bool
decode_wide(struct exact *x, const char **p, const char *end)
{
    struct exact_wide *w;
    uint8_t base, n;
    uint64_t limb[EXACT_LIMBS_MAX];
    uint32_t i;

    if (!codec_u8(p, end, &base) || !codec_u8(p, end, &n) || n == 0 ||
        base + n > EXACT_LIMB_END - EXACT_LIMB_MIN)
        return false;
    for (i = 0; i < n; i++)
        if (!codec_u64(p, end, &limb[i]))
            return false;
    if ((limb[n - 1] >> 62 & 1) != limb[n - 1] >> 63)
        return false;
    w = mem_alloc(wide_size(n));
    w->base = base + EXACT_LIMB_MIN;
    w->n = n;
    memcpy(w->limb, limb, n * sizeof(uint64_t));
    set_wide(x, w);
    return true;
}

bool
exact_decode(struct exact *x, const char **p, const char *end)
{
    uint8_t flags;
    uint64_t i;
    double hi, lo;

    if (!codec_u8(p, end, &flags) || flags > (CODE_WIDE | EXACT_FLAGS) ||
        !codec_u64(p, end, &i) || !codec_double(p, end, &hi) ||
        !codec_double(p, end, &lo) || !isfinite(hi) || !isfinite(lo))
        return false;
    if ((flags & CODE_WIDE) != 0 && !decode_wide(x, p, end))
        return false;
    x->i = (int64_t)i;
    if (hi != 0)
        exact_add_double(x, hi);
    if (lo != 0)
        exact_add_double(x, lo);
    x->word = (x->word & ~(uintptr_t)EXACT_FLAGS) | (flags & EXACT_FLAGS);
    return true;
}
