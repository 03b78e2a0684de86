/*
 * The arithmetic of `size`.
 */
#include "main/sizing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
expect(struct sizing_in in, uint32_t parallelism, enum sizing_binds binds)
{
    struct sizing s = sizing_compute(&in);

    assert_int_equal(s.parallelism, parallelism);
    assert_int_equal(s.binds, binds);
}

static void
subtasks_are_rounded_up_and_never_none(void **state)
{
    (void)state;
    expect((struct sizing_in){.rate = 48000,
                              .capacity = 4000,
                              .utilization = 0.75},
           16, BINDS_RATE);
    expect((struct sizing_in){.rate = 48001,
                              .capacity = 4000,
                              .utilization = 0.75},
           17, BINDS_RATE);
    expect(
        (struct sizing_in){.rate = 0.001, .capacity = 4000, .utilization = 1},
        1, BINDS_RATE);
}

/* 0.3 / (1 * 0.1) is 2.9999999999999996 or 3.0000000000000004: it means 3. */
static void
decimal_fractions_do_not_cost_a_subtask(void **state)
{
    int i;

    (void)state;
    for (i = 1; i < 1000; i++) {
        expect((struct sizing_in){.rate = i * 0.1,
                                  .capacity = 1,
                                  .utilization = 0.1},
               (uint32_t)i, BINDS_RATE);
        expect((struct sizing_in){.rate = i * 700.7,
                                  .capacity = 1001,
                                  .utilization = 0.7},
               (uint32_t)i, BINDS_RATE);
    }
}

static void
a_backlog_binds_only_if_it_needs_more(void **state)
{
    struct sizing_in in = {
        .rate = 90, .capacity = 100, .utilization = 1, .within_s = 10};

    (void)state;
    in.backlog = 100;
    expect(in, 1, BINDS_RATE);
    in.backlog = 101;
    expect(in, 2, BINDS_CATCH_UP);
}

static void
the_smaller_limit_binds_and_says_what_is_sustained(void **state)
{
    struct sizing_in in = {
        .rate = 48000, .capacity = 4000, .utilization = 0.75, .partitions = 12};
    struct sizing s = sizing_compute(&in);

    (void)state;
    assert_int_equal(s.parallelism, 12);
    assert_int_equal(s.binds, BINDS_PARTITIONS);
    assert_true(s.needed > 15.5 && s.needed < 16.5);
    assert_true(s.sustained > 35999 && s.sustained < 36001);
    in.max_parallelism = 8;
    expect(in, 8, BINDS_KEY_GROUPS);
    in.max_parallelism = 14;
    expect(in, 12, BINDS_PARTITIONS);
    in.partitions = 16;
    in.max_parallelism = 16;
    expect(in, 16, BINDS_RATE);
    expect(
        (struct sizing_in){.rate = 1e300, .capacity = 1e-300, .utilization = 1},
        SIZING_PARALLELISM_MAX, BINDS_KEY_GROUPS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subtasks_are_rounded_up_and_never_none),
        cmocka_unit_test(decimal_fractions_do_not_cost_a_subtask),
        cmocka_unit_test(a_backlog_binds_only_if_it_needs_more),
        cmocka_unit_test(the_smaller_limit_binds_and_says_what_is_sustained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
