/* percentile: nearest rank, exact to 64 values, error bound, collapse. */
#include <math.h>

#include "agg_util.h"

struct fixture {
    struct arena arena;
    struct opt *call;
    struct aggset *set;
    void *block;
};

static void
begin(struct fixture *f, const char *q_text, double q, double error)
{
    struct opt *list;

    arena_init(&f->arena);
    list = opt_new_list(&f->arena);
    f->call = util_call(&f->arena, list, "percentile", 1);
    opt_add(&f->arena, f->call, "q", util_dbl(&f->arena, q));
    if (q_text != NULL)
        util_str(&f->arena, f->call, "q_text", q_text);
    if (error > 0)
        opt_add(&f->arena, f->call, "error", util_dbl(&f->arena, error));
    f->set = util_set(list);
    f->block = util_block(f->set);
}

static void
end(struct fixture *f)
{
    util_drop(f->set, f->block);
    aggset_free(&f->set);
    arena_fini(&f->arena);
}

static void
add(struct fixture *f, struct val v)
{
    struct rec r = {0};
    struct err e;

    assert_int_equal(aggset_add(f->set, f->block, &v, &r, &e), 0);
}

static double
result(struct fixture *f)
{
    return strtod(util_text(f->set, f->block) + strlen("percentile="), NULL);
}

/* The rank that 1..n give at q is its own value. */
static void
ranks_are_those_of_the_decimal(void **state)
{
    static const struct {
        const char *text;
        double q;
        int n;
        double rank;
    } ranks[] = {
        {"0.5", 0.5, 1, 1},
        {"0.5", 0.5, 2, 1},
        {"0.5", 0.5, 3, 2},
        {"0.5", 0.5, 64, 32},
        {NULL, 0.07, 100 / 2, 4},
        {"0.9", 0.9, 10, 9},
        {NULL, 0.9, 10, 9},
        {"0.99", 0.99, 64, 64},
        {"1", 1, 64, 64},
        {"1.0", 1, 7, 7},
        {"0.001", 0.001, 64, 1},
        {"1e-1", 0.1, 30, 3},
        {NULL, 0.1, 30, 3},
        {"0.28", 0.28, 25, 7},
        {NULL, 0.28, 25, 7},
        {"0.29", 0.29, 50, 15},
        {".5", 0.5, 4, 2},
        {"0.55", 0.55, 20, 11},
        {NULL, 0.55, 20, 11},
        {"1e-300", 1e-300, 64, 1},
        {"0.50000000001", 0.50000000001, 64, 32}, /* the slack of 1e-9 */
        {"0.500000001", 0.500000001, 64, 33},
        {"0.2000000000000000000000001", 0.2, 10, 2},
    };
    size_t i;
    int k;

    (void)state;
    for (i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        struct fixture f;

        begin(&f, ranks[i].text, ranks[i].q, 0);
        for (k = ranks[i].n; k >= 1; k--)
            add(&f, k % 2 != 0 ? val_int(k) : val_dbl(k));
        assert_true(result(&f) == ranks[i].rank);
        end(&f);
    }
}

static void
nothing_gives_null(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "0.5", 0.5, 0);
    assert_string_equal(util_text(f.set, f.block), "percentile=null");
    add(&f, val_nil());
    assert_string_equal(util_text(f.set, f.block), "percentile=null");
    add(&f, val_int(7));
    assert_string_equal(util_text(f.set, f.block), "percentile=7.0");
    end(&f);
}

static void
a_list_of_q_gives_a_list(void **state)
{
    struct fixture f;
    struct arena *a = &f.arena;
    struct opt *list, *call, *q, *text;
    int i;

    (void)state;
    arena_init(a);
    list = opt_new_list(a);
    call = util_call(a, list, "percentile", 1);
    q = opt_new_list(a);
    text = opt_new_list(a);
    opt_add(a, q, NULL, util_dbl(a, 0.5));
    opt_add(a, q, NULL, opt_new_int(a, 1));
    opt_add(a, text, NULL, opt_new_str(a, "0.5", 3));
    opt_add(a, text, NULL, opt_new_str(a, "1", 1));
    opt_add(a, call, "q", q);
    opt_add(a, call, "q_text", text);
    f.set = util_set(list);
    f.block = util_block(f.set);
    assert_string_equal(util_text(f.set, f.block), "percentile=null");
    for (i = 1; i <= 10; i++)
        add(&f, val_int(i));
    assert_string_equal(util_text(f.set, f.block), "percentile=[5.0,10.0]");
    end(&f);
}

static void
bad_q_is_refused(void **state)
{
    static const double bad[] = {0, -0.5, 1.5, 1e300};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct arena a;
        struct opt *list, *call;
        struct aggset *s = NULL;
        struct err e;

        arena_init(&a);
        list = opt_new_list(&a);
        call = util_call(&a, list, "percentile", 1);
        opt_add(&a, call, "q", util_dbl(&a, bad[i]));
        err_clear(&e);
        assert_int_equal(aggset_new(list, util_encode, NULL, NULL, &s, &e),
                         ERR_JOBFILE);
        assert_string_equal(e.where, "job.lua:7");
        assert_null(s);
        arena_fini(&a);
    }
}

static int
double_cmp(const void *a, const void *b)
{
    double x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static double
temperament(int kind)
{
    switch (kind) {
    case 0: /* latencies */
        return exp((double)(util_rand() >> 11) * 0x1p-53 * 12);
    case 1: /* both signs and zero */
        return (double)((int)util_below(2001) - 1000);
    case 2: /* one value often; magnitudes within a factor of 50 */
        if (util_below(10) < 9)
            return 5;
        return util_below(10) == 0 ? 0 : 2 + (double)util_below(98);
    case 3: /* negative */
        return -exp((double)(util_rand() >> 11) * 0x1p-53 * 30);
    default: /* near the ends of the range */
        return ldexp(1 + (double)util_below(1000) / 1000,
                     1023 - (int)util_below(50));
    }
}

static void
error_is_within_the_promise(void **state)
{
    static const double errors[] = {0.01, 0.05, 0.001};
    enum { MAX = 3000 };
    static double v[MAX];
    int round, i;

    (void)state;
    (void)util_seed();
    for (round = 0; round < 300; round++) {
        double q = (1 + util_below(1000)) / 1000.0;
        double error = errors[util_below(3)], want, got;
        int n = 65 + (int)util_below(MAX - 65), kind = (int)util_below(5);
        struct fixture f;

        /* 2,048 buckets of 0.1 % span no more than a factor of 60. */
        if (error < 0.01)
            kind = 2;
        begin(&f, NULL, q, error);
        for (i = 0; i < n; i++) {
            v[i] = temperament(kind);
            add(&f, val_dbl(v[i]));
        }
        qsort(v, (size_t)n, sizeof v[0], double_cmp);
        i = (int)ceil(q * n - 1e-9);
        want = v[i < 1 ? 0 : i - 1];
        got = result(&f);
        assert_true(fabs(got - want) <= error * fabs(want));
        assert_true(got >= v[0] && got <= v[n - 1]);
        end(&f);
    }
}

/* More than 2,048 buckets: the large magnitudes keep their precision, in
 * whatever order they came. */
static void
lowest_magnitudes_collapse(void **state)
{
    int turn, i;
    char texts[2][64];

    (void)state;
    for (turn = 0; turn < 2; turn++) {
        struct fixture f;
        double got;

        begin(&f, "0.6", 0.6, 0);
        for (i = 0; i < 1000; i++) {
            int k = turn == 0 ? i : 999 - i;

            add(&f, val_dbl(ldexp(1.0, k - 500)));
        }
        assert_in_range(aggset_heap(f.set, f.block), 1, 18000);
        got = result(&f);
        /* Rank 600 is 2^99, far below 10^-17 of 2^499: it reads as the
         * lowest bucket. */
        assert_true(got >= 0x1p99 && got <= 0x1p499);
        (void)snprintf(texts[turn], sizeof texts[0], "%s",
                       util_text(f.set, f.block));
        end(&f);

        begin(&f, "0.99", 0.99, 0);
        for (i = 0; i < 1000; i++)
            add(&f, val_dbl(-ldexp(1.0, (turn == 0 ? i : 999 - i) - 500)));
        got = result(&f);
        assert_true(got < 0 && got <= -0x1p-490);
        end(&f);
    }
    assert_string_equal(texts[0], texts[1]);
}

static void
infinities_have_their_rank(void **state)
{
    struct fixture f;
    int i;

    (void)state;
    begin(&f, "1", 1, 0);
    for (i = 0; i < 100; i++)
        add(&f, val_dbl(i));
    add(&f, val_dbl(-INFINITY));
    assert_true(fabs(result(&f) - 99) <= 0.99);
    add(&f, val_dbl(INFINITY));
    assert_string_equal(util_text(f.set, f.block), "percentile=Infinity*");
    end(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_those_of_the_decimal),
        cmocka_unit_test(nothing_gives_null),
        cmocka_unit_test(a_list_of_q_gives_a_list),
        cmocka_unit_test(bad_q_is_refused),
        cmocka_unit_test(error_is_within_the_promise),
        cmocka_unit_test(lowest_magnitudes_collapse),
        cmocka_unit_test(infinities_have_their_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
