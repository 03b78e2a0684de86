/* count, sum, avg, min, max, var and stddev: values, nulls, errors. */
#include <math.h>

#include "agg_util.h"

struct fixture {
    struct arena arena;
    struct opt *list;
    struct opt *call;
    struct aggset *set;
    void *block;
    struct err e;
    struct rec r;
};

static void
begin(struct fixture *f, const char *fn, const char *option, const char *text)
{
    memset(f, 0, sizeof *f);
    arena_init(&f->arena);
    f->list = opt_new_list(&f->arena);
    f->call = util_call(&f->arena, f->list, fn, 1);
    if (option != NULL)
        util_str(&f->arena, f->call, option, text);
    f->set = util_set(f->list);
    f->block = util_block(f->set);
}

static void
end(struct fixture *f)
{
    util_drop(f->set, f->block);
    aggset_free(&f->set);
    arena_fini(&f->arena);
}

static int
add(struct fixture *f, struct val v)
{
    err_clear(&f->e);
    return aggset_add(f->set, f->block, &v, &f->r, &f->e);
}

static void
add_all(struct fixture *f, const struct val *v, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        assert_int_equal(add(f, v[i]), 0);
}

#define I(x)                                                                   \
    {                                                                          \
        .type = VAL_INT, .u.i = (x)                                            \
    }
#define D(x)                                                                   \
    {                                                                          \
        .type = VAL_DBL, .u.d = (x)                                            \
    }
#define S(x)                                                                   \
    {                                                                          \
        .type = VAL_STR, .len = sizeof(x) - 1, .u.s = (x)                      \
    }
#define NULLS                                                                  \
    {.type = VAL_NULL},                                                        \
    {                                                                          \
        .type = VAL_NIL                                                        \
    }

struct row {
    const char *fn, *option, *text, *want;
    struct val v[6];
    size_t n;
};

static const struct row rows[] = {
    {"count", NULL, NULL, "count=0", {NULLS}, 2},
    {"count", NULL, NULL, "count=2", {NULLS, S(""), I(0)}, 4},
    {"sum", NULL, NULL, "sum=null", {NULLS}, 2},
    {"sum", NULL, NULL, "sum=null", {{0}}, 0},
    {"sum", NULL, NULL, "sum=3", {I(1), NULLS, I(2)}, 4},
    {"sum", NULL, NULL, "sum=3.0", {I(1), D(2.0)}, 2},
    {"sum", NULL, NULL, "sum=0.0", {D(-0.0), D(-0.0)}, 2},
    {"sum", NULL, NULL, "sum=0.0", {D(1e300), D(-1e300)}, 2},
    {"sum", NULL, NULL, "sum=0.6", {D(0.1), D(0.2), D(0.3)}, 3},
    {"sum", NULL, NULL, "sum=1.0", {D(1e16), I(1), D(-1e16)}, 3},
    {"sum", NULL, NULL, "sum=1e+308", {D(1e308), D(1e308), D(-1e308)}, 3},
    {"sum", NULL, NULL, "sum=Infinity*", {D(1e308), D(1e308)}, 2},
    {"sum", NULL, NULL, "sum=-Infinity*", {D(-1e308), D(-1e308)}, 2},
    {"sum",
     NULL,
     NULL,
     "sum=9007199254740994.0",
     {D(0x1p53), I(1), D(5e-324)},
     3},
    {"sum",
     NULL,
     NULL,
     "sum=9223372036854775807",
     {I(INT64_MAX), I(INT64_MAX), I(-INT64_MAX)},
     3},
    {"sum",
     NULL,
     NULL,
     "sum=-9223372036854775808",
     {I(INT64_MIN), I(-1), I(1)},
     3},
    {"sum", NULL, NULL, "sum=!overflow", {I(INT64_MAX), I(1)}, 2},
    {"sum", "overflow", "error", "sum=!overflow", {I(INT64_MIN), I(-1)}, 2},
    {"sum",
     "overflow",
     "float",
     "sum=9.223372036854776e+18",
     {I(INT64_MAX), I(1)},
     2},
    {"sum",
     "overflow",
     "string",
     "sum=\"9223372036854775808\"",
     {I(INT64_MAX), I(1)},
     2},
    {"sum",
     "overflow",
     "string",
     "sum=\"-18446744073709551616\"",
     {I(INT64_MIN), I(INT64_MIN)},
     2},
    {"sum", "overflow", "string", "sum=5", {I(5)}, 1},
    {"sum", "as", "float", "sum=5.0", {I(5)}, 1},
    {"sum", "as", "float", "sum=null", {NULLS}, 2},
    {"sum",
     "as",
     "float",
     "sum=9.223372036854776e+18",
     {I(INT64_MAX), I(INT64_MAX), I(-INT64_MAX)},
     3},
    {"avg", NULL, NULL, "avg=null", {NULLS}, 2},
    {"avg", NULL, NULL, "avg=1.5", {I(1), NULLS, I(2)}, 4},
    {"avg", NULL, NULL, "avg=0.10000000000000002", {D(0.1), D(0.1), D(0.1)}, 3},
    {"avg",
     NULL,
     NULL,
     "avg=9.223372036854776e+18",
     {I(INT64_MAX), I(INT64_MAX)},
     2},
    {"avg", NULL, NULL, "avg=Infinity*", {D(1e308), D(1e308)}, 2},
    {"min", NULL, NULL, "min=null", {NULLS}, 2},
    {"min", NULL, NULL, "min=-1", {I(2), D(-1.0), I(-1), D(2.5)}, 4},
    {"min", NULL, NULL, "min=1", {D(1.0), I(1), D(1.0)}, 3},
    {"max", NULL, NULL, "max=1", {I(1), D(1.0)}, 2},
    {"min", NULL, NULL, "min=-0.0", {D(0.0), D(-0.0), D(0.0)}, 3},
    {"max", NULL, NULL, "max=0.0", {D(-0.0), D(0.0), D(-0.0)}, 3},
    {"max",
     NULL,
     NULL,
     "max=9007199254740993",
     {D(0x1p53), I((1LL << 53) + 1)},
     2},
    {"min",
     NULL,
     NULL,
     "min=9007199254740992",
     {I((1LL << 53) + 1), D(0x1p53), I(1LL << 53)},
     3},
    {"max",
     NULL,
     NULL,
     "max=9.223372036854776e+18",
     {I(INT64_MAX), D(0x1p63)},
     2},
    {"min", NULL, NULL, "min=\"\"", {S("b"), S(""), S("a long string")}, 3},
    {"max", NULL, NULL, "max=\"b\"", {S("b"), S("B"), S("a long string")}, 3},
    {"max", NULL, NULL, "max=\"\xc3\xa9\"", {S("z"), S("\xc3\xa9")}, 2},
    {"max", NULL, NULL, "max=\"\xff\"*", {S("z"), S("\xff")}, 2},
    {"var_pop", NULL, NULL, "var_pop=null", {NULLS}, 2},
    {"var_pop", NULL, NULL, "var_pop=0.0", {D(0.1)}, 1},
    {"var_samp", NULL, NULL, "var_samp=null", {D(0.1), NULLS}, 3},
    {"stddev_samp", NULL, NULL, "stddev_samp=null", {I(7)}, 1},
    {"stddev_pop", NULL, NULL, "stddev_pop=0.0", {I(7), I(7)}, 2},
    {"var_pop", NULL, NULL, "var_pop=1.25", {I(1), I(2), I(3), D(4.0)}, 4},
    {"var_samp",
     NULL,
     NULL,
     "var_samp=30.0",
     {D(1e9 + 4), D(1e9 + 7), I(1000000013), D(1e9 + 16)},
     4},
    {"stddev_pop", NULL, NULL, "stddev_pop=2.0", {I(2), I(6), D(2.0), I(6)}, 4},
    {"var_pop",
     NULL,
     NULL,
     "var_pop=0.25",
     {I(INT64_MAX), I(INT64_MAX - 1)},
     2},
    {"stddev_pop",
     NULL,
     NULL,
     "stddev_pop=9.223372036854776e+18",
     {I(INT64_MAX), I(INT64_MIN)},
     2},
    {"var_pop", NULL, NULL, "var_pop=Infinity*", {D(1e200), D(1e200)}, 2},
    {"stddev_pop", NULL, NULL, "stddev_pop=1e-200", {D(1e-200), D(3e-200)}, 2},
    {"stddev_pop", NULL, NULL, "stddev_pop=3e+150", {D(3e150), D(-3e150)}, 2},
};

static void
results_are_as_promised(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;

        begin(&f, rows[i].fn, rows[i].option, rows[i].text);
        add_all(&f, rows[i].v, rows[i].n);
        assert_string_equal(util_text(f.set, f.block), rows[i].want);
        end(&f);
    }
}

static void
count_without_argument_counts_records(void **state)
{
    struct arena a;
    struct opt *list;
    struct aggset *s;
    struct rec r = {0};
    struct err e;
    void *block;
    int i;

    (void)state;
    arena_init(&a);
    list = opt_new_list(&a);
    (void)util_call(&a, list, "count", 0);
    s = util_set(list);
    block = util_block(s);
    for (i = 0; i < 3; i++)
        assert_int_equal(aggset_add(s, block, NULL, &r, &e), 0);
    assert_string_equal(util_text(s, block), "count=3");
    util_drop(s, block);
    aggset_free(&s);
    arena_fini(&a);
}

static const struct {
    const char *fn;
    struct val v;
    const char *message;
    enum err_cause cause;
} bad_types[] = {
    {"sum", S("abc"), "sum(a): expected a number, got string \"abc\"",
     CAUSE_TYPE},
    {"avg",
     {.type = VAL_BOOL, .u.b = true},
     "avg(a): expected a number, got boolean true",
     CAUSE_TYPE},
    {"var_pop",
     {.type = VAL_LIST, .len = 2, .u.s = "[]"},
     "var_pop(a): expected a number, got list []",
     CAUSE_TYPE},
    {"sum", D((double)NAN), "sum(a): expected a number, got NaN", CAUSE_TYPE},
    {"count", D((double)NAN), "count(a): expected a value, got NaN",
     CAUSE_TYPE},
    {"min",
     {.type = VAL_BOOL},
     "min(a): expected a number or a string, got boolean false",
     CAUSE_TYPE},
    {"max",
     {.type = VAL_MAP, .len = 2, .u.s = "{}"},
     "max(a): expected a number or a string, got map {}",
     CAUSE_TYPE},
    {"min", D((double)NAN), "min(a): expected a number or a string, got NaN",
     CAUSE_TYPE},
    {"sum",
     {.type = VAL_BAD},
     "sum(a): the value cannot be decoded",
     CAUSE_DECODE},
    {"percentile", S("x"), "percentile(a): expected a number, got string \"x\"",
     CAUSE_TYPE},
    {"distinct", D((double)NAN), "distinct(a): expected a value, got NaN",
     CAUSE_TYPE},
    {"sum",
     S("0123456789012345678901234567890123456789012345678901234567"
       "\xc3\xa9\xc3\xa9"),
     "sum(a): expected a number, got string "
     "\"0123456789012345678901234567890123456789012345678901234567"
     "\xc3\xa9\"...",
     CAUSE_TYPE},
};

static void
wrong_types_are_named(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad_types / sizeof bad_types[0]; i++) {
        struct arena a;
        struct opt *list, *call;
        struct aggset *s;
        struct rec r = {0};
        struct err e;
        void *block;

        arena_init(&a);
        list = opt_new_list(&a);
        call = util_call(&a, list, bad_types[i].fn, 1);
        opt_add(&a, call, "q", util_dbl(&a, 0.5));
        s = util_set(list);
        block = util_block(s);
        err_clear(&e);
        assert_int_equal(aggset_add(s, block, &bad_types[i].v, &r, &e),
                         ERR_RECORD);
        assert_int_equal(e.cause, bad_types[i].cause);
        assert_string_equal(e.msg, bad_types[i].message);
        util_drop(s, block);
        aggset_free(&s);
        arena_fini(&a);
    }
}

static void
min_does_not_mix_numbers_and_strings(void **state)
{
    struct fixture f, g;

    (void)state;
    begin(&f, "min", NULL, NULL);
    assert_int_equal(add(&f, val_int(1)), 0);
    assert_int_equal(add(&f, util_sv("x")), ERR_RECORD);
    assert_int_equal(f.e.cause, CAUSE_TYPE);
    assert_string_equal(f.e.msg, "min(a): expected a number, got string \"x\";"
                                 " min(a) holds numbers so far");
    assert_string_equal(util_text(f.set, f.block), "min=1");

    begin(&g, "min", NULL, NULL);
    assert_int_equal(add(&g, util_sv("a rather long string")), 0);
    assert_int_equal(aggset_merge(f.set, f.block, g.block, &f.e), ERR_RECORD);
    assert_int_equal(f.e.cause, CAUSE_TYPE);
    assert_string_equal(util_text(f.set, f.block), "min=!type");
    assert_string_equal(util_text(g.set, g.block), "min=null");
    assert_int_equal(aggset_merge(f.set, g.block, f.block, &f.e), ERR_RECORD);
    assert_string_equal(util_text(g.set, g.block), "min=!type");
    end(&f);
    end(&g);
}

/* Variance does not change by an offset and grows with the square of a
 * factor; powers of two make both exact. */
static void
variance_follows_scale_and_offset(void **state)
{
    int round, i;

    (void)state;
    (void)util_seed();
    for (round = 0; round < 300; round++) {
        struct fixture plain, moved;
        int shift = (int)util_below(600) - 300;
        double offset = (double)util_below(1u << 20) * 0x1p20, got, want;
        char *end_of;

        begin(&plain, "var_samp", NULL, NULL);
        begin(&moved, "var_samp", NULL, NULL);
        for (i = 0; i < 20; i++) {
            double d = (double)util_below(1000) / 8;

            assert_int_equal(add(&plain, val_dbl(d)), 0);
            assert_int_equal(add(&moved, val_dbl(ldexp(d + offset, shift))), 0);
        }
        want = strtod(util_text(plain.set, plain.block) + 9, &end_of);
        got = strtod(util_text(moved.set, moved.block) + 9, &end_of);
        assert_true(got == ldexp(want, 2 * shift));
        end(&plain);
        end(&moved);
    }
}

/* Small integers: the variance is a fraction of two of them. */
static void
variance_is_within_two_ulp(void **state)
{
    int round, i;

    (void)state;
    (void)util_seed();
    for (round = 0; round < 2000; round++) {
        struct fixture f;
        int64_t n = 2 + (int64_t)util_below(30), sum = 0, squares = 0;
        double got, want;

        begin(&f, "var_samp", NULL, NULL);
        for (i = 0; i < n; i++) {
            int64_t v = (int64_t)util_below(20001) - 10000;

            sum += v;
            squares += v * v;
            assert_int_equal(
                add(&f, util_below(2) ? val_int(v) : val_dbl((double)v)), 0);
        }
        want = (double)(n * squares - sum * sum) / (double)(n * (n - 1));
        got = strtod(util_text(f.set, f.block) + 9, NULL);
        assert_true(fabs(got - want) <= 2 * (nextafter(want, INFINITY) - want));
        end(&f);
    }
}

static void
accumulators_are_small(void **state)
{
    static const struct {
        const char *fn;
        uint32_t size;
    } sizes[] = {{"count", 8}, {"sum", 32}, {"avg", 40},
                 {"min", 16},  {"max", 16}, {"var_pop", 72}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct fixture f;

        begin(&f, sizes[i].fn, NULL, NULL);
        assert_int_equal(f.set->size, sizes[i].size);
        assert_true(f.set->movable);
        assert_int_equal(add(&f, val_dbl(2.5)), 0);
        assert_int_equal(aggset_heap(f.set, f.block), 0);
        end(&f);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_as_promised),
        cmocka_unit_test(count_without_argument_counts_records),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(min_does_not_mix_numbers_and_strings),
        cmocka_unit_test(variance_follows_scale_and_offset),
        cmocka_unit_test(variance_is_within_two_ulp),
        cmocka_unit_test(accumulators_are_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
