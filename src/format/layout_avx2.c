/*
 * layout_fit.c for machines with AVX2, BMI and BMI2, chosen at run time: a
 * literal is one compare, a string's end mostly one, a number one shuffle
 * and three multiplications.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "format/layout_impl.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2"))),         \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2")
#endif

#define LAYOUT_AVX2 1
#include "format/layout_body.h"

uint32_t
layout_fit_avx2(const struct layout *l, struct pass *ps, const char *p,
                const char **pos)
{
    return fit_body(l, ps, p, pos);
}

bool
layout_pair_avx2(const struct layout *l, struct pass *a, struct pass *b)
{
    return pair_body(l, a, b);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
