/* Watermarks: minimum over active partitions, idleness, waking, inputs. */
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

/* ---- rounds ---- */

enum { PARTS = 7, TASKS = 3 };

static uint64_t seed;

static uint32_t
draw(uint32_t n)
{
    seed = hash_splitmix(seed);
    return (uint32_t)(seed % n);
}

struct clock { /* a source with its partitions, by number */
    struct wm_source *s;
    struct wm_part *parts[PARTS];
    bool finished[PARTS];
};

static void
add(struct clock *c, uint32_t i, bool discovered)
{
    char topic[24];

    (void)snprintf(topic, sizeof topic, "topic-%u", i / 2);
    c->parts[i] = wm_part_add(c->s, discovered);
    wm_part_name(c->s, c->parts[i], topic_register(topic), (int32_t)(i % 2));
}

struct change {
    enum { READ, IDLE, FINISH, DISCOVER } kind;
    uint32_t part;
    int64_t ts, now;
};

/* @return the watermark after it. */
static int64_t
change(struct clock *c, const struct change *x)
{
    bool idle;

    if (x->kind == DISCOVER) {
        if (c->parts[x->part] == NULL)
            add(c, x->part, true);
    } else if (c->parts[x->part] == NULL || c->finished[x->part]) {
        return wm_source_now(c->s, x->now, &idle);
    } else if (x->kind == READ) {
        read_at(c->s, c->parts[x->part], x->ts);
    } else if (x->kind == IDLE) {
        wm_part_at_end(c->s, c->parts[x->part], x->now - hold.idle_ms);
    } else {
        wm_part_finish(c->s, c->parts[x->part]);
        c->finished[x->part] = true;
    }
    return wm_source_now(c->s, x->now, &idle);
}

static struct change
random_change(int64_t now)
{
    static const uint32_t often[] = {READ, READ, READ, READ,    READ,
                                     READ, IDLE, IDLE, DISCOVER};
    struct change x = {.part = draw(PARTS), .now = now};

    x.kind = often[draw(9)];
    if (draw(60) == 0)
        x.kind = FINISH;
    x.ts = now + draw(300);
    return x;
}

/* Subtask `task` of TASKS gives what is its own. */
static void
put(struct clock *c, uint32_t task, bool end, struct buf *out)
{
    struct wm_part *own[PARTS] = {NULL};
    uint32_t i;

    for (i = task; i < PARTS; i += TASKS)
        own[i] = c->parts[i];
    wm_source_put(c->s, own, PARTS, end, out);
}

static void
restored(struct clock *c, struct buf *blobs, const bool known[PARTS])
{
    struct step_blobs b = {.step = "t", .count = TASKS, .blobs = blobs};
    struct err e;
    uint32_t i;

    c->s = wm_source_new(&hold);
    assert_int_equal(wm_source_restore(c->s, &b, &e), 0);
    assert_int_equal(wm_source_restore(c->s, &b, &e), 0); /* each subtask */
    for (i = 0; i < PARTS; i++) {
        c->parts[i] = NULL;
        if (known[i])
            add(c, i, false);
    }
}

static void
a_restore_goes_on_as_if_nothing_had_happened(void **state)
{
    int run, k;

    (void)state;
    for (run = 0; run < 300; run++) {
        struct clock c = {.s = wm_source_new(&hold)}, d = {.s = NULL};
        struct buf blobs[TASKS];
        bool known[PARTS];
        int64_t now = 0;
        uint32_t i;

        for (i = 0; i < PARTS; i += 2)
            add(&c, i, false);
        for (k = 0; k < 60; k++) {
            struct change x = random_change(now += draw(5));

            (void)change(&c, &x);
        }
        for (i = 0; i < PARTS; i++)
            known[i] = c.parts[i] != NULL;
        memcpy(d.finished, c.finished, sizeof d.finished);
        for (i = 0; i < TASKS; i++) {
            buf_init(&blobs[i]);
            put(&c, i, false, &blobs[i]);
        }

        restored(&d, blobs, known);

        for (k = 0; k < 60; k++) {
            struct change x = random_change(now += draw(5));

            for (i = 0; i < PARTS; i++)
                if (c.parts[i] != NULL)
                    assert_int_equal(wm_part_now(c.parts[i]),
                                     wm_part_now(d.parts[i]));
            assert_int_equal(change(&c, &x), change(&d, &x));
        }
        for (i = 0; i < TASKS; i++)
            buf_fini(&blobs[i]);
        wm_source_free(&c.s);
        wm_source_free(&d.s);
    }
}

/* Barriers of subtasks come one after the other; whatever happens between
 * them, records that are read again must not be behind the watermark. */
static void
a_restored_watermark_is_behind_every_active_partition(void **state)
{
    int run, k;

    (void)state;
    for (run = 0; run < 1000; run++) {
        struct clock c = {.s = wm_source_new(&hold)}, d = {.s = NULL};
        struct buf blobs[TASKS];
        bool known[PARTS], idle;
        int64_t now = 0, wm;
        uint32_t i, t;

        for (i = 0; i < PARTS; i += 2)
            add(&c, i, false);
        for (k = 0; k < 40; k++) {
            struct change x = random_change(now += draw(5));

            (void)change(&c, &x);
        }
        for (t = 0; t < TASKS; t++) {
            buf_init(&blobs[t]);
            put(&c, t, false, &blobs[t]);
            for (i = t; i < PARTS; i += TASKS) {
                known[i] = c.parts[i] != NULL;
                d.finished[i] = c.finished[i];
            }
            for (k = 0; k < 10; k++) {
                struct change x = random_change(now += draw(5));

                (void)change(&c, &x);
            }
        }

        restored(&d, blobs, known);

        wm = wm_source_now(d.s, now, &idle);
        for (i = 0; i < PARTS; i++)
            if (known[i] &&
                !d.finished[i]) { /* an idle one wakes there at the earliest */
                wm_part_wake(d.s, d.parts[i]);
                if (wm != WM_MAX)
                    assert_true(wm_part_now(d.parts[i]) >= wm);
            }
        for (t = 0; t < TASKS; t++)
            buf_fini(&blobs[t]);
        wm_source_free(&c.s);
        wm_source_free(&d.s);
    }
}

static void
a_partition_the_round_did_not_know_starts_at_the_watermark(void **state)
{
    struct clock c = {.s = wm_source_new(&hold)}, d = {.s = NULL};
    struct buf blobs[TASKS];
    bool known[PARTS] = {true, true, false, true}, idle;
    uint32_t i;

    (void)state;
    add(&c, 0, false);
    add(&c, 1, false);
    read_at(c.s, c.parts[0], 500);
    read_at(c.s, c.parts[1], 700);
    assert_int_equal(wm_source_now(c.s, 0, &idle), 489);
    for (i = 0; i < TASKS; i++) {
        buf_init(&blobs[i]);
        put(&c, i, false, &blobs[i]);
    }

    restored(&d, blobs, known);

    assert_int_equal(wm_part_now(d.parts[1]), 689);
    assert_int_equal(wm_part_now(d.parts[3]), 489);
    assert_int_equal(wm_source_now(d.s, 0, &idle), 489);
    for (i = 0; i < TASKS; i++)
        buf_fini(&blobs[i]);
    wm_source_free(&c.s);
    wm_source_free(&d.s);
}

static void
a_subtask_that_had_finished_long_ago_does_not_pull_the_watermark_back(
    void **state)
{
    struct clock c = {.s = wm_source_new(&hold)}, d = {.s = NULL};
    struct buf blobs[TASKS];
    bool known[PARTS] = {true, true}, idle;
    uint32_t i;

    (void)state;
    add(&c, 0, false);
    add(&c, 1, false);
    read_at(c.s, c.parts[0], 100);
    read_at(c.s, c.parts[1], 100);
    (void)wm_source_now(c.s, 0, &idle);
    for (i = 0; i < TASKS; i++)
        buf_init(&blobs[i]);
    wm_part_finish(c.s, c.parts[0]);
    put(&c, 0, true, &blobs[0]);
    put(&c, 2, true, &blobs[2]); /* it never had a partition */
    read_at(c.s, c.parts[1], 1000);
    assert_int_equal(wm_source_now(c.s, 0, &idle), 989);
    put(&c, 1, false, &blobs[1]);

    restored(&d, blobs, known);

    add(&d, 4, true); /* starts where the source stands */
    assert_int_equal(wm_part_now(d.parts[4]), 989);
    assert_int_equal(wm_source_now(d.s, 0, &idle), 989);
    for (i = 0; i < TASKS; i++)
        buf_fini(&blobs[i]);
    wm_source_free(&c.s);
    wm_source_free(&d.s);
}

/* The first round after a restore may come before some subtask has added its
 * partitions: their positions are in it as they were restored, and so must be
 * what late records are judged by. */
static void
a_partition_not_added_yet_stays_in_the_next_round_as_it_was(void **state)
{
    struct clock c = {.s = wm_source_new(&hold)}, d = {.s = NULL},
                 e = {.s = NULL};
    struct buf blobs[TASKS];
    bool known[PARTS] = {false}, both[PARTS] = {true, true};
    uint32_t i, t;

    (void)state;
    for (i = 0; i < 2; i++) { /* of subtasks 0 and 1 */
        add(&c, i, false);
        read_at(c.s, c.parts[i], 100 * (i + 1));
    }
    for (t = 0; t < TASKS; t++) {
        buf_init(&blobs[t]);
        put(&c, t, false, &blobs[t]);
    }
    restored(&d, blobs, known);

    /* Subtask 1 is at its barrier before it has added anything; subtask 0
     * adds, reads, and comes to the barrier then. */
    buf_clear(&blobs[1]);
    put(&d, 1, false, &blobs[1]);
    add(&d, 0, false);
    read_at(d.s, d.parts[0], 150);
    for (t = 0; t < TASKS; t++)
        if (t != 1) {
            buf_clear(&blobs[t]);
            put(&d, t, false, &blobs[t]);
        }
    restored(&e, blobs, both);

    assert_int_equal(wm_part_now(e.parts[0]), 139);
    assert_int_equal(wm_part_now(e.parts[1]), 189);
    for (t = 0; t < TASKS; t++)
        buf_fini(&blobs[t]);
    wm_source_free(&c.s);
    wm_source_free(&d.s);
    wm_source_free(&e.s);
}

/* A connector that cannot tell its partitions apart. */
static void
partitions_of_one_name_are_restored_once_each(void **state)
{
    struct clock c = {.s = wm_source_new(&hold)}, d = {.s = NULL};
    struct buf blobs[TASKS];
    bool known[PARTS] = {false};
    uint16_t topic = topic_register("same");
    uint32_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        c.parts[i] = wm_part_add(c.s, false);
        wm_part_name(c.s, c.parts[i], topic, 0);
        read_at(c.s, c.parts[i], 100 * (i + 1));
    }
    for (i = 0; i < TASKS; i++) {
        buf_init(&blobs[i]);
        put(&c, i, false, &blobs[i]);
    }

    restored(&d, blobs, known);
    for (i = 0; i < 3; i++) {
        d.parts[i] = wm_part_add(d.s, false);
        wm_part_name(d.s, d.parts[i], topic, 0);
    }

    assert_int_equal(wm_part_now(d.parts[0]), 89);
    assert_int_equal(wm_part_now(d.parts[1]), 189);
    assert_int_equal(wm_part_now(d.parts[2]), WM_NONE); /* discovered */
    for (i = 0; i < TASKS; i++)
        buf_fini(&blobs[i]);
    wm_source_free(&c.s);
    wm_source_free(&d.s);
}

static void
damaged_watermarks_are_refused(void **state)
{
    struct clock c = {.s = wm_source_new(&hold)};
    struct buf blob;
    struct step_blobs b = {.step = "t", .count = 1, .blobs = &blob};
    size_t len;

    (void)state;
    add(&c, 0, false);
    buf_init(&blob);
    put(&c, 0, false, &blob);
    for (len = blob.len; len-- > 0;) {
        struct wm_source *s = wm_source_new(&hold);
        struct err e;

        blob.len = len;
        assert_int_equal(wm_source_restore(s, &b, &e), ERR_IO);
        wm_source_free(&s);
    }
    buf_fini(&blob);
    wm_source_free(&c.s);
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
        cmocka_unit_test(a_restore_goes_on_as_if_nothing_had_happened),
        cmocka_unit_test(a_restored_watermark_is_behind_every_active_partition),
        cmocka_unit_test(
            a_partition_the_round_did_not_know_starts_at_the_watermark),
        cmocka_unit_test(
            a_subtask_that_had_finished_long_ago_does_not_pull_the_watermark_back),
        cmocka_unit_test(
            a_partition_not_added_yet_stays_in_the_next_round_as_it_was),
        cmocka_unit_test(partitions_of_one_name_are_restored_once_each),
        cmocka_unit_test(damaged_watermarks_are_refused),
    };
    const char *given = getenv("SEED");

    seed = given != NULL ? strtoull(given, NULL, 10)
                         : (uint64_t)(uintptr_t)&given ^ (uint64_t)time(NULL);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
