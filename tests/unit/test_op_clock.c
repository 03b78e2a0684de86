/*
 * The clock of processing-time windows, under a wall clock that the test
 * sets: stamps, watermarks, the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "op/op.h"

static int64_t wall; /* ms */

int64_t __wrap_clock_wall_ms(void);

int64_t
__wrap_clock_wall_ms(void)
{
    return wall;
}

struct probe {
    struct op_out in; /* first */
    int64_t wm[16], ts[16], rec_wm[16];
    uint32_t marks, recs, ends, barriers;
    uint32_t marks_at_rec; /* watermarks seen before the newest record */
};

static int
probe_batch(struct op_out *o, struct batch *b, struct err *e)
{
    struct probe *p = (struct probe *)(void *)o;
    uint32_t i;

    (void)e;
    for (i = 0; i < b->n; i++) {
        assert_true(b->recs[i].flags & REC_HAS_TS);
        p->ts[p->recs] = b->recs[i].ts;
        p->rec_wm[p->recs++] = b->recs[i].wm;
    }
    p->marks_at_rec = p->marks;
    return 0;
}

static int
probe_mark(struct op_out *o, const struct mark *m, struct err *e)
{
    struct probe *p = (struct probe *)(void *)o;

    (void)e;
    if (m->kind == MARK_WATERMARK)
        p->wm[p->marks++] = m->wm;
    p->ends += m->kind == MARK_END;
    p->barriers += m->kind == MARK_BARRIER;
    return 0;
}

struct rig {
    struct arena arena;
    struct plan_step step;
    struct op_env env;
    struct op *op;
    struct probe probe;
};

/* A clock in front of s.tumbling("1s", { offset = 300 }). */
static void
rig_open(struct rig *r)
{
    struct opt *opts, *win;
    struct err e;

    memset(r, 0, sizeof *r);
    arena_init(&r->arena);
    opts = opt_new_map(&r->arena);
    win = opt_new_map(&r->arena);
    opt_add(&r->arena, win, "kind", opt_new_str(&r->arena, "tumbling", 8));
    opt_add(&r->arena, win, "size_ms", opt_new_int(&r->arena, 1000));
    opt_add(&r->arena, win, "offset_ms", opt_new_int(&r->arena, 300));
    opt_add(&r->arena, opts, "window", win);
    r->step =
        (struct plan_step){.kind = STEP_CLOCK, .name = "clock", .opts = opts};
    r->probe.in = (struct op_out){.batch = probe_batch, .mark = probe_mark};
    assert_int_equal(op_clock_new(&r->env, &r->step, NULL, &r->op, &e), 0);
    op_outs_add(&r->op->out, &r->probe.in);
}

static void
rig_close(struct rig *r)
{
    op_free(&r->op);
    arena_fini(&r->arena);
}

static void
give(struct rig *r, int64_t now, uint32_t n)
{
    struct batch b;
    struct err e;

    wall = now;
    batch_init(&b);
    while (n-- > 0) {
        struct rec *rec = batch_add(&b);

        rec->ts = 5; /* what the input says of time has no say */
        rec->wm = 4;
    }
    assert_int_equal(r->op->in.batch(&r->op->in, &b, &e), 0);
    batch_fini(&b);
}

static int64_t
tick(struct rig *r, int64_t now)
{
    int64_t wait = 100000;
    struct err e;

    wall = now;
    assert_int_equal(r->op->type->tick(r->op, true, &wait, &e), 0);
    return wait;
}

static void
mark(struct rig *r, struct mark m)
{
    struct err e;

    assert_int_equal(r->op->in.mark(&r->op->in, &m, &e), 0);
}

static void
records_get_the_wall_clock_and_are_never_late(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r);
    give(&r, 10000, 2);
    assert_int_equal(r.probe.recs, 2);
    assert_int_equal(r.probe.ts[1], 10000);
    assert_int_equal(r.probe.rec_wm[1], WM_NONE);

    give(&r, 9000, 1); /* the clock was set back: time stands */
    assert_int_equal(r.probe.ts[2], 10000);
    rig_close(&r);
}

static void
the_watermark_moves_at_the_end_of_a_window_before_what_is_behind_it(
    void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r);
    give(&r, 10000, 1);
    assert_int_equal(r.probe.marks, 1);
    assert_int_equal(r.probe.wm[0], 9999);
    give(&r, 10299, 1); /* [9300, 10300) is not over */
    assert_int_equal(r.probe.marks, 1);

    give(&r, 10300, 1);

    assert_int_equal(r.probe.marks, 2);
    assert_int_equal(r.probe.wm[1], 10299); /* fires it */
    assert_int_equal(r.probe.marks_at_rec, 2);
    assert_int_equal(r.probe.ts[2], 10300);
    rig_close(&r);
}

static void
windows_end_without_records_too(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r);
    assert_int_equal(tick(&r, 10000), 300);
    assert_int_equal(r.probe.marks, 1);
    assert_int_equal(tick(&r, 10250), 50);
    assert_int_equal(r.probe.marks, 1);
    assert_int_equal(tick(&r, 10301), 999);
    assert_int_equal(r.probe.wm[1], 10300);
    assert_int_equal(tick(&r, 15000), 300); /* it was asleep */
    assert_int_equal(r.probe.wm[2], 14999);
    rig_close(&r);
}

static void
of_the_input_only_its_end_counts(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r);
    give(&r, 10000, 1);
    mark(&r, (struct mark){.kind = MARK_WATERMARK, .wm = 77777777});
    mark(&r, (struct mark){.kind = MARK_PART});
    assert_int_equal(r.probe.marks, 1);
    mark(&r, (struct mark){.kind = MARK_BARRIER, .round = 1});
    assert_int_equal(r.probe.barriers, 1);

    mark(&r, (struct mark){.kind = MARK_WATERMARK, .wm = WM_MAX});
    mark(&r, (struct mark){.kind = MARK_END, .final = true});

    assert_int_equal(r.probe.wm[1], WM_MAX);
    assert_int_equal(r.probe.ends, 1);
    assert_int_equal(tick(&r, 90000), 100000); /* nothing follows */
    assert_int_equal(r.probe.marks, 2);
    rig_close(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_get_the_wall_clock_and_are_never_late),
        cmocka_unit_test(
            the_watermark_moves_at_the_end_of_a_window_before_what_is_behind_it),
        cmocka_unit_test(windows_end_without_records_too),
        cmocka_unit_test(of_the_input_only_its_end_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
