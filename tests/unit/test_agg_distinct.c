/* distinct and count_distinct: exact limits, error bounds, equality. */
#include <math.h>

#include "agg_util.h"

struct fixture {
    struct arena arena;
    struct aggset *set;
    void *block;
};

static void
begin(struct fixture *f)
{
    struct opt *list;

    arena_init(&f->arena);
    list = opt_new_list(&f->arena);
    (void)util_call(&f->arena, list, "distinct", 1);
    (void)util_call(&f->arena, list, "count_distinct", 1);
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
    struct val args[2] = {v, v};
    struct rec r = {0};
    struct err e;

    assert_int_equal(aggset_add(f->set, f->block, args, &r, &e), 0);
}

static void
equality_is_that_of_keys(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_string_equal(util_text(f.set, f.block),
                        "distinct=0 count_distinct=0");
    add(&f, val_nil());
    add(&f, (struct val){.type = VAL_NULL});
    assert_string_equal(util_text(f.set, f.block),
                        "distinct=0 count_distinct=0");
    add(&f, val_int(1));
    add(&f, val_dbl(1.0));
    add(&f, util_sv("1"));
    add(&f, val_bool(true));
    add(&f, val_dbl(-0.0));
    add(&f, val_int(0));
    add(&f, util_sv(""));
    add(&f, util_json(VAL_LIST, "[]"));
    add(&f, util_json(VAL_LIST, "[]"));
    assert_string_equal(util_text(f.set, f.block),
                        "distinct=6 count_distinct=6");
    end(&f);
}

static void
nan_inside_a_list_is_refused(void **state)
{
    struct val args[2] = {util_json(VAL_LIST, "[NaN]"),
                          util_json(VAL_LIST, "[NaN]")};
    struct fixture f;
    struct rec r = {0};
    struct err e;

    (void)state;
    begin(&f);
    err_clear(&e);
    assert_int_equal(aggset_add(f.set, f.block, args, &r, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_TYPE);
    assert_string_equal(e.msg, "distinct(a): NaN in a key");
    assert_string_equal(util_text(f.set, f.block),
                        "distinct=0 count_distinct=0");
    end(&f);
}

static int64_t
distinct_of(const struct fixture *f)
{
    return strtoll(util_text(f->set, f->block) + strlen("distinct="), NULL, 10);
}

static void
exact_up_to_256_values(void **state)
{
    struct fixture f;
    int64_t i, k;

    (void)state;
    begin(&f);
    for (i = 1; i <= 256; i++)
        for (k = 0; k < 3; k++) {
            add(&f, val_int(i * 7919));
            assert_int_equal(distinct_of(&f), i);
        }
    end(&f);
}

/* Over many sets the error is that of 2^14 registers: its mean square is
 * near (0.81 %)^2, none is far out, and there is no bias. */
static void
standard_error_is_0_81_percent(void **state)
{
    static const int64_t sizes[] = {300, 1500, 5000, 20000, 45000, 100000};
    enum { SETS = 60 };
    size_t i;

    (void)state;
    (void)util_seed();
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double sum = 0, squares = 0;
        int k;

        for (k = 0; k < SETS; k++) {
            struct arena arena;
            struct opt *list;
            struct aggset *s;
            struct rec r = {0};
            struct err e;
            int64_t n = sizes[i], j;
            void *block;
            double error;

            arena_init(&arena);
            list = opt_new_list(&arena);
            (void)util_call(&arena, list, "distinct", 1);
            s = util_set(list);
            block = util_block(s);
            for (j = 0; j < n; j++) {
                struct val v = val_int((int64_t)util_rand());

                assert_int_equal(aggset_add(s, block, &v, &r, &e), 0);
            }
            error = strtod(util_text(s, block) + strlen("distinct="), NULL) /
                        (double)n -
                    1;
            assert_true(fabs(error) < 5 * 0.0081);
            sum += error;
            squares += error * error;
            util_drop(s, block);
            aggset_free(&s);
            arena_fini(&arena);
        }
        /* Four standard deviations of the mean and of the mean square. */
        assert_true(fabs(sum / SETS) < 4 * 0.0081 / sqrt(SETS));
        assert_true(sqrt(squares / SETS) <
                    0.0081 * sqrt(1 + 4 * sqrt(2.0 / SETS)));
    }
}

/* 16 KiB at most, less while few registers are used. */
static void
memory_is_bounded(void **state)
{
    struct arena arena;
    struct opt *list;
    struct aggset *s;
    struct rec r = {0};
    struct err e;
    void *block;
    int64_t i;

    (void)state;
    arena_init(&arena);
    list = opt_new_list(&arena);
    (void)util_call(&arena, list, "distinct", 1);
    s = util_set(list);
    block = util_block(s);
    for (i = 0; i < 100000; i++) {
        struct val v = val_int(i);

        assert_int_equal(aggset_add(s, block, &v, &r, &e), 0);
        if (i < 10)
            assert_in_range(aggset_heap(s, block), 1, 512);
        if (i > 260 && i < 350)
            assert_in_range(aggset_heap(s, block), 1, 2100);
        assert_in_range(aggset_heap(s, block), 1, 16500);
    }
    util_drop(s, block);
    aggset_free(&s);
    arena_fini(&arena);
}

static void
count_distinct_stays_exact(void **state)
{
    struct arena arena;
    struct opt *list;
    struct aggset *s;
    struct rec r = {0};
    struct err e;
    void *block;
    int i;

    (void)state;
    arena_init(&arena);
    list = opt_new_list(&arena);
    (void)util_call(&arena, list, "count_distinct", 1);
    s = util_set(list);
    block = util_block(s);
    for (i = 0; i < 60000; i++) {
        char text[200];
        int len = snprintf(text, sizeof text, "%0*d", i % 3 == 0 ? 150 : 6,
                           i % 30000);
        struct val v = val_str(text, (uint32_t)len);

        assert_int_equal(aggset_add(s, block, &v, &r, &e), 0);
    }
    assert_string_equal(util_text(s, block), "count_distinct=30000");
    util_drop(s, block);
    aggset_free(&s);
    arena_fini(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_is_that_of_keys),
        cmocka_unit_test(nan_inside_a_list_is_refused),
        cmocka_unit_test(exact_up_to_256_values),
        cmocka_unit_test(standard_error_is_0_81_percent),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(count_distinct_stays_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
