/*
 * Rounds: which positions a source hears. A kafka-like source says it to its
 * group, so a position too far is a record lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/job.h"

enum { SOURCE, SINK, STEPS };

static char heard[64]; /* the positions of the last committed() */

static int
committed(struct source *s, const struct buf *blobs, uint32_t count, bool final,
          struct err *e)
{
    (void)s;
    (void) final;
    (void)e;
    assert_int_equal(count, 1);
    assert_in_range(blobs[0].len, 1, sizeof heard - 1);
    memcpy(heard, blobs[0].data, blobs[0].len);
    heard[blobs[0].len] = '\0';
    return 0;
}

static const struct source_type source_type = {.committed = committed};
static const struct sink_type sink_type = {.name = "sink"};

struct rig {
    struct plan_step steps[STEPS];
    const struct source_type *sources[STEPS];
    const struct sink_type *sinks[STEPS];
    struct source *source[STEPS];
    struct sink *sink[STEPS];
    struct plan plan;
    struct job job;
};

static void
rig_up(struct rig *r)
{
    uint32_t i;

    memset(r, 0, sizeof *r);
    heard[0] = '\0';
    r->steps[SOURCE].kind = STEP_SOURCE;
    r->steps[SINK].kind = STEP_SINK;
    for (i = 0; i < STEPS; i++) {
        r->steps[i].index = i;
        r->steps[i].parallelism = 1;
    }
    r->sources[SOURCE] = &source_type;
    r->sinks[SINK] = &sink_type;
    r->plan.steps = r->steps;
    r->plan.step_count = STEPS;
    r->plan.checkpoint = true;
    r->plan.checkpoint_interval_ms = 1;
    r->job.plan = &r->plan;
    r->job.ops.source_types = r->sources;
    r->job.ops.sink_types = r->sinks;
    r->job.ops.sources = r->source;
    r->job.ops.sinks = r->sink;
    r->job.loop = ev_loop_new(EVFLAG_AUTO);
    assert_non_null(r->job.loop);
    ev_async_init(&r->job.wakeup, NULL);
    rounds_init(&r->job.rounds, &r->job);
    r->job.rounds.last_ms = 0;
}

static void
rig_down(struct rig *r)
{
    rounds_fini(&r->job.rounds);
    ev_loop_destroy(r->job.loop);
}

static void
tick(struct rig *r, int64_t now_ms)
{
    struct err e;

    err_clear(&e);
    assert_int_equal(rounds_tick(&r->job.rounds, now_ms, &e), 0);
}

static void
ack(struct rig *r, int step, uint64_t round, const char *positions)
{
    struct buf b;

    buf_init(&b);
    if (positions != NULL)
        buf_adds(&b, positions);
    rounds_ack(&r->job, &r->steps[step], 0, round,
               positions != NULL ? &b : NULL);
    buf_fini(&b);
}

static void
final_round(struct rig *r)
{
    struct err e;

    err_clear(&e);
    assert_int_equal(rounds_final(&r->job.rounds, &e), 0);
}

static void
a_round_is_told_when_its_sinks_have_flushed(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);

    tick(&r, 10);
    ack(&r, SOURCE, 1, "at 5");
    tick(&r, 20);
    assert_string_equal(heard, "");
    ack(&r, SINK, 1, NULL);
    tick(&r, 30);

    assert_string_equal(heard, "at 5");
    rig_down(&r);
}

static void
a_source_that_ends_within_a_round_is_told_the_barrier(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);

    tick(&r, 10);
    ack(&r, SOURCE, 1, "at 5");
    ack(&r, SOURCE, UINT64_MAX, "at 9"); /* what follows is not flushed */
    ack(&r, SINK, 1, NULL);
    tick(&r, 20);
    assert_string_equal(heard, "at 5");
    ack(&r, SINK, UINT64_MAX, NULL);
    final_round(&r);

    assert_string_equal(heard, "at 9");
    rig_down(&r);
}

static void
a_source_that_ended_before_the_barrier_is_told_its_end(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);

    tick(&r, 10);
    ack(&r, SOURCE, UINT64_MAX, "at 9"); /* its end stands for the barrier */
    ack(&r, SINK, 1, NULL);
    tick(&r, 20);

    assert_string_equal(heard, "at 9");
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_told_when_its_sinks_have_flushed),
        cmocka_unit_test(a_source_that_ends_within_a_round_is_told_the_barrier),
        cmocka_unit_test(
            a_source_that_ended_before_the_barrier_is_told_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
