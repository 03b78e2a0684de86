/*
 * Subtasks: watermarks of several lanes, alignment of barriers, the end,
 * no input while work is pending; and what a round takes: state comes back
 * before the first message, is saved between messages, counters are as they
 * were behind the barrier. The head is a probe that writes down what it is
 * given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/subtask.h"

enum { LANES = 2 };

struct probe {
    struct op op;
    char seen[512];
    int resumes; /* how often resume() says there is more */
    int saves;   /* pieces of frozen state, taken at the next barrier */
    bool restores;
    bool hold;  /* become pending at the next watermark */
    bool ticks; /* counts a row at each look at the clock */
};

struct rig {
    struct probe probe;
    struct op_counters count; /* the probe's */
    struct op *ops[1];
    struct lane lanes[LANES];
    struct subtask st;
};

PRINTF_LIKE(2, 3)
static void
note(struct probe *p, const char *fmt, ...)
{
    size_t n = strlen(p->seen);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(p->seen + n, sizeof p->seen - n, fmt, ap);
    va_end(ap);
}

static int
probe_batch(struct op *op, struct batch *b, struct err *e)
{
    (void)e;
    count_add(&op->count->records_in, b->n);
    note((struct probe *)(void *)op, "r%lld ", (long long)b->recs[0].offset);
    return 0;
}

static int
probe_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct probe *p = (struct probe *)(void *)op;

    (void)e;
    if (m->kind == MARK_WATERMARK)
        note(p, "w%lld ", (long long)m->wm);
    else if (m->kind == MARK_BARRIER)
        note(p, "b%lld ", (long long)m->round);
    else
        note(p, "e%d ", (int)m->final);
    op->pending = p->hold && m->kind == MARK_WATERMARK;
    op->saving = op->saving || (p->saves > 0 && m->kind == MARK_BARRIER);
    return 0;
}

static int
probe_restore(struct op *op, struct err *e)
{
    struct probe *p = (struct probe *)(void *)op;

    (void)e;
    if (p->restores)
        note(p, "restored ");
    return 0;
}

static int
probe_save(struct op *op, struct err *e)
{
    struct probe *p = (struct probe *)(void *)op;

    (void)e;
    note(p, "s%d ", p->saves);
    op->saving = --p->saves > 0;
    return 0;
}

static int
probe_resume(struct op *op, struct err *e)
{
    struct probe *p = (struct probe *)(void *)op;

    (void)e;
    note(p, "p ");
    if (p->resumes-- > 0)
        return 1;
    op->pending = false;
    return 0;
}

static int
probe_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    const struct probe *p = (const struct probe *)(void *)op;

    (void)idle;
    (void)ret_wait;
    (void)e;
    if (p->ticks)
        count_add(&op->count->records_out, 1);
    return 0;
}

static bool
always(struct op_out *o)
{
    (void)o;
    return true;
}

static int
in_batch(struct op_out *o, struct batch *b, struct err *e)
{
    return probe_batch((struct op *)(void *)o, b, e);
}

static int
in_mark(struct op_out *o, const struct mark *m, struct err *e)
{
    return probe_mark((struct op *)(void *)o, m, e);
}

static void
no_wake(void *arg)
{
    (void)arg;
}

static void
rig_up(struct rig *r)
{
    static const struct op_type type = {.batch = probe_batch,
                                        .mark = probe_mark,
                                        .resume = probe_resume,
                                        .tick = probe_tick,
                                        .restore = probe_restore,
                                        .save = probe_save};
    int i;

    memset(r, 0, sizeof *r);
    r->probe.op.in = (struct op_out){in_batch, NULL, in_mark, always};
    r->probe.op.type = &type;
    r->probe.op.count = &r->count;
    r->ops[0] = &r->probe.op;
    r->st.ops.ops = r->ops;
    r->st.ops.count = 1;
    r->st.ops.head = &r->probe.op;
    r->st.inputs = calloc(LANES, sizeof *r->st.inputs);
    r->st.input_count = LANES;
    r->st.final = true;
    wm_input_init(&r->st.wm, LANES);
    for (i = 0; i < LANES; i++) {
        lane_init(&r->lanes[i]);
        r->lanes[i].wake_consumer = r->lanes[i].wake_producer = no_wake;
        r->st.inputs[i].lane = &r->lanes[i];
    }
}

static void
rig_down(struct rig *r)
{
    int i;

    for (i = 0; i < LANES; i++)
        lane_fini(&r->lanes[i]);
    wm_input_fini(&r->st.wm);
    free(r->st.inputs);
    free(r->st.at_barrier);
}

static void
put(struct rig *r, int lane, struct mark m)
{
    struct err e;

    assert_int_equal(r->lanes[lane].out.mark(&r->lanes[lane].out, &m, &e), 0);
}

static void
put_record(struct rig *r, int lane, int64_t offset)
{
    struct batch b;
    struct err e;

    batch_init(&b);
    batch_add(&b)->offset = offset;
    assert_int_equal(r->lanes[lane].out.batch(&r->lanes[lane].out, &b, &e), 0);
}

static void
run(struct rig *r)
{
    int64_t wait = 1000;
    struct err e;
    int got;

    do
        got = subtask_step(&r->st, &wait, &e);
    while (got == STEP_WORKED);
    assert_true(got >= 0);
}

#define WM(x) ((struct mark){.kind = MARK_WATERMARK, .wm = (x)})
#define BARRIER(x) ((struct mark){.kind = MARK_BARRIER, .round = (x)})
#define END(x) ((struct mark){.kind = MARK_END, .final = (x)})

static void
the_watermark_is_the_minimum_of_the_lanes(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put(&r, 0, WM(5));
    run(&r);
    put(&r, 1, WM(3));
    put(&r, 1, WM(9));
    run(&r);
    assert_string_equal(r.probe.seen, "w3 w5 ");
    rig_down(&r);
}

static void
nothing_behind_a_barrier_passes_before_all_have_given_it(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put_record(&r, 0, 1);
    put(&r, 0, BARRIER(1));
    put_record(&r, 0, 2);
    run(&r);
    put_record(&r, 1, 3);
    run(&r);
    put(&r, 1, BARRIER(1));
    run(&r);
    assert_string_equal(r.probe.seen, "r1 r3 b1 r2 ");
    rig_down(&r);
}

static void
a_lane_that_ends_no_longer_holds_a_barrier(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put(&r, 0, BARRIER(7));
    run(&r);
    put(&r, 1, END(true));
    run(&r);
    assert_string_equal(r.probe.seen, "b7 ");
    rig_down(&r);
}

static void
a_barrier_that_an_end_lets_through_waits_for_pending_work(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    r.probe.hold = true;
    r.probe.resumes = 1;
    put(&r, 0, WM(5));
    put(&r, 0, BARRIER(7));
    run(&r);
    put(&r, 1, END(false)); /* the watermark moves, the barrier is due */
    run(&r);
    assert_string_equal(r.probe.seen, "w5 p p b7 ");
    rig_down(&r);
}

static void
the_end_is_final_only_if_every_input_was(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put(&r, 0, END(true));
    put(&r, 1, END(false));
    run(&r);
    assert_string_equal(r.probe.seen, "e0 ");
    assert_true(atomic_load(&r.st.done));
    rig_down(&r);
}

static void
pending_work_is_finished_before_the_next_message(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    r.probe.hold = true;
    r.probe.resumes = 2;
    put(&r, 0, WM(1));
    put(&r, 1, WM(1));
    put_record(&r, 1, 4);
    run(&r);
    assert_string_equal(r.probe.seen, "w1 p p p r4 ");
    rig_down(&r);
}

static void
state_comes_back_before_the_first_message(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    r.probe.restores = true;
    put_record(&r, 0, 1);
    run(&r);
    assert_string_equal(r.probe.seen, "restored r1 ");
    rig_down(&r);
}

static void
frozen_state_is_saved_piece_by_piece_between_messages(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    r.probe.saves = 3;
    put(&r, 0, BARRIER(1));
    put(&r, 1, BARRIER(1));
    put_record(&r, 0, 2);
    put_record(&r, 1, 3);
    run(&r);
    assert_string_equal(r.probe.seen, "b1 s3 r2 s2 r3 s1 ");
    rig_down(&r);
}

static void
a_subtask_is_done_only_when_its_frozen_state_is_saved(void **state)
{
    int64_t wait = 1000;
    struct rig r;
    struct err e;

    (void)state;
    rig_up(&r);
    r.probe.saves = 5; /* more pieces than messages behind the barrier */
    put(&r, 0, BARRIER(1));
    put(&r, 1, BARRIER(1));
    put(&r, 0, END(true));
    put(&r, 1, END(true));
    while (!r.st.end_given)
        assert_int_equal(subtask_step(&r.st, &wait, &e), STEP_WORKED);
    assert_int_equal(subtask_step(&r.st, &wait, &e), STEP_WORKED);
    assert_int_not_equal(r.probe.saves, 0);
    assert_false(atomic_load(&r.st.done));

    run(&r);

    assert_int_equal(r.probe.saves, 0);
    assert_true(atomic_load(&r.st.done));
    rig_down(&r);
}

static void
counters_of_a_round_are_as_they_were_behind_its_barrier(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put_record(&r, 0, 1);
    put(&r, 0, BARRIER(1));
    put(&r, 1, BARRIER(1));
    run(&r);
    put_record(&r, 0, 2);
    put_record(&r, 1, 3);
    run(&r);

    assert_int_equal(count_get(&r.count.records_in), 3);
    assert_int_equal(atomic_load(&r.st.counted), 1);
    assert_int_equal(count_get(&r.st.at_barrier[0].records_in), 1);
    rig_down(&r);
}

static void
counters_wait_for_the_work_that_a_barrier_leaves(void **state)
{
    int64_t wait = 1000;
    struct rig r;
    struct err e;

    (void)state;
    rig_up(&r);
    put(&r, 0, BARRIER(1));
    put(&r, 1, BARRIER(1));
    while (r.probe.seen[0] == '\0')
        assert_int_equal(subtask_step(&r.st, &wait, &e), STEP_WORKED);
    r.probe.op.pending = true; /* as a sink that flushes */
    r.probe.resumes = 1;
    assert_int_equal(subtask_step(&r.st, &wait, &e), STEP_WORKED);
    assert_int_equal(atomic_load(&r.st.counted), 0);

    run(&r);

    assert_int_equal(atomic_load(&r.st.counted), 1);
    rig_down(&r);
}

static void
rows_of_a_tick_are_not_counted_in_front_of_a_barrier_that_went_through(
    void **state)
{
    int64_t wait = 1000;
    struct rig r;
    struct err e;

    (void)state;
    rig_up(&r);
    r.probe.ticks = true;
    put(&r, 0, BARRIER(1));
    put(&r, 1, BARRIER(1));
    while (r.probe.seen[0] == '\0')
        assert_int_equal(subtask_step(&r.st, &wait, &e), STEP_WORKED);

    assert_int_equal(subtask_tick(&r.st, false, &wait, &e), 0);
    run(&r);
    assert_int_equal(subtask_tick(&r.st, false, &wait, &e), 0);

    assert_int_equal(atomic_load(&r.st.counted), 1);
    assert_int_equal(count_get(&r.st.at_barrier[0].records_out), 0);
    assert_int_equal(count_get(&r.count.records_out), 1);
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_watermark_is_the_minimum_of_the_lanes),
        cmocka_unit_test(
            nothing_behind_a_barrier_passes_before_all_have_given_it),
        cmocka_unit_test(a_lane_that_ends_no_longer_holds_a_barrier),
        cmocka_unit_test(
            a_barrier_that_an_end_lets_through_waits_for_pending_work),
        cmocka_unit_test(the_end_is_final_only_if_every_input_was),
        cmocka_unit_test(pending_work_is_finished_before_the_next_message),
        cmocka_unit_test(state_comes_back_before_the_first_message),
        cmocka_unit_test(frozen_state_is_saved_piece_by_piece_between_messages),
        cmocka_unit_test(a_subtask_is_done_only_when_its_frozen_state_is_saved),
        cmocka_unit_test(
            counters_of_a_round_are_as_they_were_behind_its_barrier),
        cmocka_unit_test(counters_wait_for_the_work_that_a_barrier_leaves),
        cmocka_unit_test(
            rows_of_a_tick_are_not_counted_in_front_of_a_barrier_that_went_through),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
