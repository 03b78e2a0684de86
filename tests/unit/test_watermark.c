/* Watermarks: minimum over active partitions, idleness, waking, inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rec.h"
#include "core/watermark.h"

static const struct wm_conf hold = {
    .out_of_orderness_ms = 10, .idle_ms = 100, .all_idle_ms = -1};

static void
read_at(struct wm_source *s, struct wm_part *p, int64_t ts)
{
    wm_part_wake(s, p);
    wm_part_record(p, ts);
    wm_part_publish(s, p);
}

static void
the_slowest_active_partition_holds_the_watermark(void **state)
{
    struct wm_source *s = wm_source_new(&hold);
    struct wm_part *a = wm_part_add(s, false), *b = wm_part_add(s, false);
    bool idle;

    (void)state;
    assert_int_equal(wm_source_now(s, 0, &idle), WM_NONE);
    read_at(s, a, 1000);
    assert_int_equal(wm_source_now(s, 0, &idle), WM_NONE);
    read_at(s, b, 500);
    assert_int_equal(wm_source_now(s, 0, &idle), 489);
    read_at(s, b, 300); /* never back */
    assert_int_equal(wm_source_now(s, 0, &idle), 489);
    wm_part_finish(s, b);
    assert_int_equal(wm_source_now(s, 0, &idle), 989);
    wm_part_finish(s, a);
    assert_int_equal(wm_source_now(s, 0, &idle), WM_MAX);
    wm_source_free(&s);
}

static void
there_is_none_before_every_subtask_named_its_partitions(void **state)
{
    struct wm_conf c = hold;
    struct wm_source *s;
    struct wm_part *a, *b;
    bool idle;

    (void)state;
    c.tasks = 2;
    s = wm_source_new(&c);
    a = wm_part_add(s, false);
    wm_source_ready(s);
    read_at(s, a, 1000);
    assert_int_equal(wm_source_now(s, 0, &idle), WM_NONE);
    wm_part_finish(s, a);
    assert_int_equal(wm_source_now(s, 0, &idle), WM_NONE);

    b = wm_part_add(s, false);
    wm_source_ready(s);
    assert_int_equal(wm_source_now(s, 0, &idle), WM_NONE);
    read_at(s, b, 500);
    assert_int_equal(wm_source_now(s, 0, &idle), 489);
    wm_source_free(&s);
}

static void
a_partition_at_its_end_stops_holding_after_idle_ms(void **state)
{
    struct wm_source *s = wm_source_new(&hold);
    struct wm_part *a = wm_part_add(s, false), *b = wm_part_add(s, false);
    bool idle;

    (void)state;
    read_at(s, a, 1000);
    read_at(s, b, 100);
    wm_part_at_end(s, b, 50);
    assert_int_equal(wm_source_now(s, 149, &idle), 89);
    assert_int_equal(wm_source_wait(s, 120), 30);
    assert_int_equal(wm_source_now(s, 150, &idle), 989);
    assert_false(idle);
    wm_source_free(&s);
}

static void
one_that_wakes_starts_where_the_source_stands(void **state)
{
    struct wm_source *s = wm_source_new(&hold);
    struct wm_part *a = wm_part_add(s, false), *b = wm_part_add(s, false);
    bool idle;

    (void)state;
    read_at(s, a, 1000);
    wm_part_at_end(s, b, 0);
    assert_int_equal(wm_source_now(s, 100, &idle), 989);
    wm_part_wake(s, b);
    assert_int_equal(wm_part_now(b), 989);
    wm_part_record(b, 20); /* judged late by 989, holds nothing back */
    wm_part_publish(s, b);
    assert_int_equal(wm_source_now(s, 100, &idle), 989);
    wm_source_free(&s);
}

static void
a_discovered_partition_starts_where_the_source_stands(void **state)
{
    struct wm_source *s = wm_source_new(&hold);
    struct wm_part *a = wm_part_add(s, false), *b;
    bool idle;

    (void)state;
    read_at(s, a, 1000);
    assert_int_equal(wm_source_now(s, 0, &idle), 989);
    b = wm_part_add(s, true);
    assert_int_equal(wm_part_now(b), 989);
    wm_source_free(&s);
}

static void
the_partition_that_holds_is_named_with_its_time(void **state)
{
    struct wm_source *s = wm_source_new(&hold);
    struct wm_part *a = wm_part_add(s, false), *b = wm_part_add(s, false);
    int32_t partition = -1;
    uint16_t topic = 0;
    int64_t since = -1;
    bool idle;

    (void)state;
    assert_false(wm_source_holder(s, &topic, &partition, &since));
    wm_part_name(s, a, 7, 0);
    wm_part_name(s, b, 7, 1);
    read_at(s, a, 1000);
    (void)wm_source_now(s, 40, &idle);
    read_at(s, a, 2000);
    (void)wm_source_now(s, 90, &idle);
    assert_true(wm_source_holder(s, &topic, &partition, &since));
    assert_int_equal(topic, 7);
    assert_int_equal(partition, 1);
    assert_int_equal(since, 40);
    read_at(s, b, 3000);
    (void)wm_source_now(s, 95, &idle);
    assert_true(wm_source_holder(s, &topic, &partition, &since));
    assert_int_equal(partition, 0);
    assert_int_equal(since, 95);
    wm_part_finish(s, a);
    wm_part_finish(s, b);
    (void)wm_source_now(s, 96, &idle);
    assert_false(wm_source_holder(s, &topic, &partition, &since));
    wm_source_free(&s);
}

static void
all_idle_takes_the_largest_and_holds(void **state)
{
    struct wm_source *s = wm_source_new(&hold);
    struct wm_part *a = wm_part_add(s, false), *b = wm_part_add(s, false);
    bool idle;

    (void)state;
    read_at(s, a, 1000);
    read_at(s, b, 500);
    wm_part_at_end(s, a, 0);
    wm_part_at_end(s, b, 0);
    assert_int_equal(wm_source_now(s, 100, &idle), 989);
    assert_true(idle);
    assert_int_equal(wm_source_now(s, 100000, &idle), 989);
    wm_source_free(&s);
}

static void
all_idle_may_follow_the_wall_clock(void **state)
{
    struct wm_conf c = {
        .out_of_orderness_ms = 0, .idle_ms = 10, .all_idle_ms = 50};
    struct wm_source *s = wm_source_new(&c);
    struct wm_part *a = wm_part_add(s, false);
    bool idle;

    (void)state;
    read_at(s, a, 1001);
    wm_part_at_end(s, a, 0);
    assert_int_equal(wm_source_now(s, 10, &idle), 1000);
    assert_int_equal(wm_source_now(s, 60, &idle), 1000);
    assert_int_equal(wm_source_now(s, 67, &idle), 1007);
    assert_false(idle);
    wm_source_free(&s);
}

/* FLINK-38454: two inputs idle at 5 and 4 give 5 in both orders. */
static void
idle_inputs_give_the_larger_in_both_orders(void **state)
{
    int order;

    (void)state;
    for (order = 0; order < 2; order++) {
        struct wm_input w;
        uint32_t first = (uint32_t)order, second = 1 - first;

        wm_input_init(&w, 2);
        (void)wm_input_set(&w, 0, 5, false);
        (void)wm_input_set(&w, 1, 4, false);
        assert_int_equal(w.wm, 4);
        (void)wm_input_set(&w, first, first == 0 ? 5 : 4, true);
        (void)wm_input_set(&w, second, second == 0 ? 5 : 4, true);
        assert_int_equal(w.wm, 5);
        assert_true(w.idle);
        wm_input_fini(&w);
    }
}

static void
a_finished_input_does_not_outrun_an_idle_one(void **state)
{
    struct wm_input w;

    (void)state;
    wm_input_init(&w, 2);
    (void)wm_input_set(&w, 0, WM_MAX, false);
    (void)wm_input_set(&w, 1, 7, true);
    assert_int_equal(w.wm, 7);
    assert_true(wm_input_set(&w, 1, WM_MAX, false));
    assert_int_equal(w.wm, WM_MAX);
    wm_input_fini(&w);
}

static void
an_input_that_ended_without_watermark_holds_nothing(void **state)
{
    struct wm_input w;

    (void)state;
    wm_input_init(&w, 2);
    assert_false(wm_input_set(&w, 0, 9, false));
    assert_true(wm_input_end(&w, 1));
    assert_int_equal(w.wm, 9);
    assert_false(wm_input_end(&w, 0)); /* never jumps to the end of time */
    assert_int_equal(w.wm, 9);
    wm_input_fini(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_active_partition_holds_the_watermark),
        cmocka_unit_test(
            there_is_none_before_every_subtask_named_its_partitions),
        cmocka_unit_test(a_partition_at_its_end_stops_holding_after_idle_ms),
        cmocka_unit_test(one_that_wakes_starts_where_the_source_stands),
        cmocka_unit_test(a_discovered_partition_starts_where_the_source_stands),
        cmocka_unit_test(the_partition_that_holds_is_named_with_its_time),
        cmocka_unit_test(all_idle_takes_the_largest_and_holds),
        cmocka_unit_test(all_idle_may_follow_the_wall_clock),
        cmocka_unit_test(idle_inputs_give_the_larger_in_both_orders),
        cmocka_unit_test(a_finished_input_does_not_outrun_an_idle_one),
        cmocka_unit_test(an_input_that_ended_without_watermark_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
