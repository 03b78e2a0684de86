/*
 * Exact sums: of integers, doubles, or both, rounded once when asked.
 *
 * Used by sum, avg, var and stddev. The value is a function of the multiset
 * of what was added, whatever the order of adding and merging: nothing is
 * ever rounded or lost. An empty sum is all zero bytes.
 *
 *   i       integers, until they overflow int64
 *   hi, lo  doubles, as long as two hold their sum: hi is the sum rounded to
 *           double, lo what is missing (a non-overlapping expansion)
 *   word    flags, and the pointer to a wide fixed-point number that takes
 *           over what does not fit (a heap piece of some 48 bytes that grows
 *           by 64-bit limbs as values need them)
 *
 * May be moved with memcpy; owns heap memory. Thread: the owner. Limits: up
 * to 2^63 values; magnitudes from squares of the smallest to squares of the
 * largest double. Built with -ffp-contract=off, rounding to nearest.
 */
#ifndef CORE_EXACT_H
#define CORE_EXACT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    EXACT_ANY = 1,  /* something was added */
    EXACT_DBL = 2,  /* a double was */
    EXACT_PINF = 4, /* Infinity was */
    EXACT_NINF = 8, /* -Infinity was */
    EXACT_FLAGS = 15
};

/* Limbs of the widest number: from the square of the smallest double
 * (2^-2148) to 2^63 squares of the largest (2^2048). */
enum { EXACT_LIMB_MIN = -34, EXACT_LIMB_END = 36, EXACT_LIMBS_MAX = 72 };

/* A fixed-point number: two's complement, limb k weighs 2^(64 (base + k)). */
struct exact_wide {
    int32_t base;
    uint32_t n; /* > 0; the top two bits of limb[n - 1] are equal */
    uint64_t limb[];
};

struct exact {
    int64_t i;
    double hi, lo;
    uintptr_t word;
};

static inline struct exact_wide *
exact_wide_get(const struct exact *x)
{
    return (struct exact_wide *)(x->word & ~(uintptr_t)EXACT_FLAGS);
}

/** Add what the fast paths below cannot. @thread the owner. */
void exact_add_int_slow(struct exact *x, int64_t v);
void exact_add_double_slow(struct exact *x, double v);

/** Add an integer. @thread the owner. */
static inline void
exact_add_int(struct exact *x, int64_t v)
{
    int64_t sum;

    if (__builtin_add_overflow(x->i, v, &sum)) {
        exact_add_int_slow(x, v);
        return;
    }
    x->i = sum;
    x->word |= EXACT_ANY;
}

/* s + err = a + b exactly, unless s is beyond the double range (Knuth). */
static inline double
exact_two_sum(double a, double b, double *err)
{
    double s = a + b;
    double bb = s - a;

    *err = (a - (s - bb)) + (b - bb);
    return s;
}

/** Add a double, not NaN; infinities are counted apart. @thread owner. */
static inline void
exact_add_double(struct exact *x, double v)
{
    double s, e, low, rest;

    if (x->word > EXACT_FLAGS) {
        exact_add_double_slow(x, v);
        return;
    }
    s = exact_two_sum(x->hi, v, &e);
    /* Far from the end of the range nothing above overflowed. Infinite
     * values fail this as well. */
    if (!(fabs(s) < 0x1p1000)) {
        exact_add_double_slow(x, v);
        return;
    }
    if (e != 0 || x->lo != 0) {
        low = exact_two_sum(x->lo, e, &rest);
        if (rest != 0) {
            exact_add_double_slow(x, v);
            return;
        }
        s = exact_two_sum(s, low, &e);
        x->lo = e;
    }
    x->hi = s;
    x->word |= EXACT_ANY | EXACT_DBL;
}

/** Add the square of an integer (no flag but EXACT_ANY). @thread owner. */
void exact_add_int_square(struct exact *x, int64_t v);
/** Add the exact square of a finite double. @thread the owner. */
void exact_add_double_square(struct exact *x, double v);

/** Add `from` to `x`; `from` is empty afterwards. @thread the owner. */
void exact_merge(struct exact *x, struct exact *from);
/** Make `to` (uninitialised) a copy of `x`. @thread the owner. */
void exact_dup(const struct exact *x, struct exact *to);
/** Free the heap memory; `x` is empty. @thread the owner. */
void exact_fini(struct exact *x);
/** Heap bytes owned. @thread the owner. */
size_t exact_heap(const struct exact *x);

/**
 * The sum, correctly rounded (half to even); zero is 0.0.
 *
 * @return +-Infinity beyond the double range or if infinities of one sign
 *         were added; NaN if of both. @thread the owner.
 */
double exact_round(const struct exact *x);

/**
 * The sum of integers only, as an 128-bit number.
 *
 * @param hi, lo two's complement halves. x must have no EXACT_DBL.
 */
void exact_int128(const struct exact *x, int64_t *hi, uint64_t *lo);

/**
 * (n * sq - x^2) / (n * div) for a sum `x` and a sum of squares `sq`, exact
 * but for the last roundings (within 2 ulp).
 *
 * @param n   values in x and sq, > 0.
 * @param div n or n - 1, > 0.
 * @param root take the square root.
 * @return >= 0; Infinity if an infinity was added or sq is beyond the double
 *         range. @thread the owner. @source API.md section 6, 7.
 */
double exact_variance(const struct exact *x, const struct exact *sq, uint64_t n,
                      uint64_t div, bool root);

/** Append a portable form. @thread the owner. */
void exact_encode(const struct exact *x, struct buf *out);
/**
 * Fill an empty `x` from exact_encode()'s bytes, moving *p behind them.
 * @return false if the bytes are damaged (x is empty). @thread the owner.
 */
MUST_USE bool exact_decode(struct exact *x, const char **p, const char *end);

#endif
