/*
 * The last round of a job: which snapshots are in it, which round comes
 * before it, what connectors hear, and whether the job is finished; what waits
 * for it.
 */
#include "rounds_rig.h"

enum { MS = 1000 }; /* the interval, and so when the first round begins */

static void
assert_remembered(struct rig *r, const char *want)
{
    char got[64];

    ckpt_stop(&r->job.ckpt); /* the store is ours from here on */
    remembered(r, "in", got, sizeof got);
    assert_string_equal(got, want);
}

static bool
is_finished(struct rig *r)
{
    struct store_status s;

    ckpt_stop(&r->job.ckpt);
    store_status(r->run.home.store, &s);
    return s.finished;
}

static void
the_last_round_takes_what_every_part_ended_with(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    end_all(&r, "a9", "b9");

    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 1 final; source a9 b9 final; ");
    assert_true(is_finished(&r));
    assert_remembered(&r, "a9 b9 ");
    rig_down(&r);
}

static void
a_barrier_that_only_met_ends_is_the_last_round(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    end_all(&r, "a9", "b9");

    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 1 final; source a9 b9 final; ");
    assert_true(is_finished(&r));
    rig_down(&r);
}

/* The coordinator may look at the round before it looks at the subtasks. */
static void
a_round_of_ends_alone_is_the_last_one_also_when_a_tick_sees_it(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 2);
    assert_int_equal(tick(&r, MS), 0);
    end_all(&r, "a9", "b9");

    assert_int_equal(tick(&r, MS), 0);
    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 1 final; source a9 b9 final; ");
    assert_true(is_finished(&r));
    rig_down(&r);
}

static void
a_barrier_that_was_given_is_a_round_of_its_own_before_the_last(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 2);
    assert_int_equal(tick(&r, MS), 0);
    give(&r, SOURCE, 0, 1, "a1");
    end_all(&r, "a9", "b9");

    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 1; source a1 b9; "
                                 "sink 2 final; source a9 b9 final; ");
    assert_true(is_finished(&r));
    rig_down(&r);
}

static void
a_round_that_is_being_written_at_the_end_is_heard_before_the_last(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "a1", "b1");
    assert_int_equal(tick(&r, MS), 0);
    assert_int_equal(r.job.rounds.state, ROUND_WRITING);
    end_all(&r, "a9", "b9");

    (void)sem_post(&r.gate);
    (void)sem_post(&r.gate);
    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 1; source a1 b1; "
                                 "sink 2 final; source a9 b9 final; ");
    rig_down(&r);
}

static void
a_job_that_was_stopped_is_not_finished(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.job.stopping = true;
    end_all(&r, "a5", "b5");

    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 1 final; source a5 b5 final; ");
    assert_false(is_finished(&r));
    rig_down(&r);
}

static void
a_job_that_was_drained_is_finished(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.job.stopping = true;
    atomic_store(&r.job.ops.drain, true);
    end_all(&r, "a5", "b5");

    assert_int_equal(final_round(&r), 0);

    assert_true(is_finished(&r));
    rig_down(&r);
}

static void
a_last_round_that_cannot_be_written_fails_the_job(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.prepare_result = ERR_IO;
    end_all(&r, "a9", "b9");

    assert_int_equal(final_round(&r), ERR_IO);

    assert_string_equal(r.heard, "");
    assert_false(is_finished(&r));
    rig_down(&r);
}

/* --- what else happens at the end ----------------------------------------- */

static void
a_savepoint_that_waits_for_a_later_round_gets_the_last_one(void **state)
{
    struct store_verified v;
    char to[300], kept[300];
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    (void)snprintf(to, sizeof to, "%s/copy", r.dir);
    memcpy(kept, to, sizeof kept);
    assert_int_equal(tick(&r, MS), 0);
    r.run.savepoint.state = SAVEPOINT_WAITING; /* while round 1 is under way */
    r.run.savepoint.target = r.job.rounds.current + 1;
    r.run.savepoint.to = to;
    end_all(&r, "a9", "b9"); /* which is the last one now */
    assert_int_equal(final_round(&r), 0);

    assert_true(savepoint_tick(&r.job, true));
    memset(to, 'x', sizeof to); /* as of a request that is refused meanwhile */

    assert_int_equal(r.run.savepoint.state, SAVEPOINT_COPYING);
    while (!ckpt_take_copy(&r.job.ckpt, &err))
        (void)ev_run(r.run.loop, EVRUN_ONCE);
    assert_int_equal(err.code, 0);
    assert_int_equal(store_verify(kept, &v, &err), 0);
    assert_int_equal(v.round, 1);
    rig_down(&r);
}

static void
a_restart_that_has_not_opened_its_sources_can_be_stopped(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    r.job.ops.sources = NULL;

    job_stop(&r.job);

    assert_true(r.job.stopping);
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_round_takes_what_every_part_ended_with),
        cmocka_unit_test(a_barrier_that_only_met_ends_is_the_last_round),
        cmocka_unit_test(
            a_round_of_ends_alone_is_the_last_one_also_when_a_tick_sees_it),
        cmocka_unit_test(
            a_barrier_that_was_given_is_a_round_of_its_own_before_the_last),
        cmocka_unit_test(
            a_round_that_is_being_written_at_the_end_is_heard_before_the_last),
        cmocka_unit_test(a_job_that_was_stopped_is_not_finished),
        cmocka_unit_test(a_job_that_was_drained_is_finished),
        cmocka_unit_test(a_last_round_that_cannot_be_written_fails_the_job),
        cmocka_unit_test(
            a_savepoint_that_waits_for_a_later_round_gets_the_last_one),
        cmocka_unit_test(
            a_restart_that_has_not_opened_its_sources_can_be_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
