/*
 * Helpers of the aggregate tests: sets from short texts, random values.
 *
 * A test describes an aggregate as "sum", "percentile" and so on with a few
 * options; everything lives in one arena. Random numbers come from one seed
 * that is printed, so that a failure can be seen again (SEED=n in the
 * environment).
 */
#ifndef TESTS_AGG_UTIL_H
#define TESTS_AGG_UTIL_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/opts.h"
#include "core/agg.h"

static uint64_t util_state;

static inline uint64_t
util_seed(void)
{
    const char *given = getenv("SEED");
    uint64_t seed;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    seed = given != NULL ? strtoull(given, NULL, 10)
                         : hash_splitmix((uint64_t)now.tv_nsec);

    printf("SEED=%" PRIu64 "\n", seed);
    util_state = seed;
    return seed;
}

static inline uint64_t
util_rand(void)
{
    util_state += 0x9E3779B97F4A7C15u;
    return hash_splitmix(util_state);
}

/* Uniform in [0, n). */
static inline uint32_t
util_below(uint32_t n)
{
    return (uint32_t)(util_rand() % n);
}

/* Key encoder that stands in for format's: lists and maps by their text; a
 * text with NaN in it has no key. */
static inline int
util_encode(struct buf *b, const struct val *v, struct err *e)
{
    if (key_put_scalar(b, v))
        return 0;
    if (v->type != VAL_LIST && v->type != VAL_MAP)
        return err_record(e, CAUSE_TYPE, "no key");
    if (memmem(v->u.s, v->len, "NaN", 3) != NULL)
        return err_record(e, CAUSE_TYPE, "NaN in a key");
    key_put_list(b);
    key_put_str(b, v->u.s, v->len);
    key_put_end(b);
    return 0;
}

/* A call as plan/plan.h describes it: name = fn, `nargs` fields a, b, ... */
static inline struct opt *
util_call(struct arena *a, struct opt *list, const char *fn, int nargs)
{
    struct opt *call = opt_new_map(a), *args = opt_new_list(a);
    int i;

    for (i = 0; i < nargs; i++) {
        struct opt *arg = opt_new_map(a);
        char field = (char)('a' + i);

        opt_add(a, arg, "field", opt_new_str(a, &field, 1));
        opt_add(a, args, NULL, arg);
    }
    opt_add(a, call, "name", opt_new_str(a, fn, strlen(fn)));
    opt_add(a, call, "fn", opt_new_str(a, fn, strlen(fn)));
    opt_add(a, call, "place", opt_new_str(a, "job.lua:7", 9));
    opt_add(a, call, "args", args);
    opt_add(a, list, NULL, call);
    return call;
}

static inline void
util_str(struct arena *a, struct opt *call, const char *name, const char *s)
{
    opt_add(a, call, name, opt_new_str(a, s, strlen(s)));
}

static inline struct opt *
util_dbl(struct arena *a, double d)
{
    struct opt *o = opt_new(a);

    o->type = OPT_DBL;
    o->d = d;
    return o;
}

static inline struct aggset *
util_set(const struct opt *list)
{
    struct aggset *s = NULL;
    struct err e;

    err_clear(&e);
    if (aggset_new(list, util_encode, NULL, NULL, &s, &e) != 0)
        fail_msg("%s", e.msg);
    return s;
}

static inline void *
util_block(const struct aggset *s)
{
    void *block = malloc(s->size != 0 ? s->size : 1);

    aggset_init(s, block);
    return block;
}

static inline void
util_drop(const struct aggset *s, void *block)
{
    aggset_fini(s, block);
    free(block);
}

/* All results as one text "name=json name=json"; a failure shows its cause.
 * Valid until the next call. */
static inline const char *
util_text(const struct aggset *s, const void *block)
{
    static struct buf text;
    struct err e;
    uint32_t i;

    buf_clear(&text);
    for (i = 0; i < s->count; i++) {
        bool ext = false;
        size_t at;

        if (i > 0)
            buf_addc(&text, ' ');
        buf_adds(&text, s->aggs[i].name);
        buf_addc(&text, '=');
        at = text.len;
        err_clear(&e);
        if (agg_result(&s->aggs[i], block, &text, &ext, &e) != 0) {
            assert_int_equal(text.len, at);
            buf_addf(&text, "!%s", err_cause_name(e.cause));
        }
        if (ext)
            buf_adds(&text, "*");
    }
    return buf_cstr(&text);
}

static inline struct val
util_sv(const char *s)
{
    return val_str(s, (uint32_t)strlen(s));
}

static inline struct val
util_json(uint8_t type, const char *s)
{
    struct val v = util_sv(s);

    v.type = type;
    return v;
}

static inline double
util_from_bits(uint64_t u)
{
    double d;

    memcpy(&d, &u, sizeof d);
    return d;
}

/* Any finite double: every exponent alike, subnormals included. */
static inline double
util_any_double(void)
{
    double d;

    do
        d = util_from_bits(util_rand());
    while (!(d - d == 0));
    return d;
}

/* A number as tests like them: small, extreme, equal ones often. */
static inline struct val
util_number(void)
{
    static const int64_t ints[] = {
        0,  1,      -1, 2, INT64_MAX, INT64_MIN, 1LL << 53, (1LL << 53) + 1,
        -7, 1000000};
    static const double doubles[] = {0.0,    -0.0,     1.0,    -1.0,   0.1,
                                     0.25,   1e16,     -1e16,  5e-324, 1e300,
                                     -1e300, 0x1p1023, 0x1p53, 2.5,    1e-300};

    switch (util_below(8)) {
    case 0:
        return val_int(ints[util_below(sizeof ints / sizeof ints[0])]);
    case 1:
        return val_dbl(doubles[util_below(sizeof doubles / sizeof doubles[0])]);
    case 2:
        return val_dbl(util_any_double());
    case 3:
        return val_int((int64_t)util_rand());
    case 4:
        return val_int((int64_t)util_below(2000) - 1000);
    case 5:
        return val_dbl((double)(int32_t)util_rand() / 100);
    case 6:
        return val_dbl((double)util_below(64) / 4);
    default:
        return val_dbl((double)util_below(1000) / 10);
    }
}

#endif
