/*
 * Rounds: when one begins, what it waits for, what connectors hear and when,
 * and what is left when one fails. A kafka-like source says positions to its
 * group, so a position too far, or too early, is a record lost.
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

/* --- what a round waits for ---------------------------------------------- */

static void
connectors_hear_of_a_round_only_after_it_is_written(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "a1", "b1");

    assert_int_equal(tick(&r, MS), 0);
    assert_int_equal(r.job.rounds.state, ROUND_WRITING);
    assert_string_equal(r.heard, "");
    assert_int_equal(rounds_complete(&r.job.rounds), 0);
    (void)sem_post(&r.gate);
    assert_int_equal(tick_written(&r, MS), 0);

    assert_string_equal(r.heard, "sink 1; source a1 b1; ");
    assert_int_equal(rounds_complete(&r.job.rounds), 1);
    assert_int_equal(atomic_load(&r.job.ops.durable), 1);
    assert_remembered(&r, "a1 b1 ");
    rig_down(&r);
}

static void
a_round_waits_for_every_part(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    give(&r, SOURCE, 0, 1, "a1");
    give(&r, SINK, 0, 1, "");
    count_all(&r, 1);

    assert_int_equal(tick_written(&r, MS), 0);
    assert_int_equal(r.job.rounds.state, ROUND_ALIGNING);
    give(&r, SOURCE, 1, 1, "b1");
    assert_int_equal(tick_written(&r, MS), 0);

    assert_string_equal(r.heard, "sink 1; source a1 b1; ");
    rig_down(&r);
}

static void
a_round_waits_for_the_counters_of_every_subtask(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "a1", "b1");
    atomic_store(&r.subtasks[SINK][0].counted, 0);

    assert_int_equal(tick_written(&r, MS), 0);
    assert_int_equal(r.job.rounds.state, ROUND_ALIGNING);
    atomic_store(&r.subtasks[SINK][0].counted, 1);
    assert_int_equal(tick_written(&r, MS), 0);

    assert_int_equal(rounds_complete(&r.job.rounds), 1);
    rig_down(&r);
}

static void
a_subtask_that_is_done_need_not_count(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "a1", "b1");
    atomic_store(&r.subtasks[SOURCE][1].counted, 0);
    atomic_store(&r.subtasks[SOURCE][1].done, true);

    assert_int_equal(tick_written(&r, MS), 0);

    assert_int_equal(rounds_complete(&r.job.rounds), 1);
    rig_down(&r);
}

static void
a_part_that_ended_before_the_barrier_counts_with_its_end(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    give(&r, SOURCE, 0, SNAPSHOT_END, "a9");
    give(&r, SOURCE, 1, 1, "b1");
    give(&r, SINK, 0, 1, "");
    count_all(&r, 1);

    assert_int_equal(tick_written(&r, MS), 0);

    assert_string_equal(r.heard, "sink 1; source a9 b1; ");
    rig_down(&r);
}

static void
a_part_that_ends_behind_its_barrier_is_heard_with_the_barrier(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 2);
    assert_int_equal(tick(&r, MS), 0);
    give(&r, SOURCE, 0, 1, "a1");
    give(&r, SOURCE, 0, SNAPSHOT_END, "a9"); /* what follows is not flushed */
    give(&r, SOURCE, 1, 1, "b1");
    give(&r, SINK, 0, 1, "");
    count_all(&r, 1);
    assert_int_equal(tick_written(&r, MS), 0);
    assert_string_equal(r.heard, "sink 1; source a1 b1; ");

    r.heard[0] = '\0';
    give(&r, SOURCE, 1, SNAPSHOT_END, "b9");
    give(&r, SINK, 0, SNAPSHOT_END, "");
    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 2 final; source a9 b9 final; ");
    rig_down(&r);
}

static void
what_an_ended_part_gave_stays_in_later_rounds(void **state)
{
    struct rig r;
    int n;

    (void)state;
    rig_up(&r, 3);
    assert_int_equal(tick(&r, MS), 0);
    give(&r, SOURCE, 0, SNAPSHOT_END, "a9");
    for (n = 1; n <= 3; n++) {
        give(&r, SOURCE, 1, (uint64_t)n, n == 3 ? "b3" : "b");
        give(&r, SINK, 0, (uint64_t)n, "");
        count_all(&r, (uint64_t)n);
        assert_int_equal(tick_written(&r, MS * n), 0);
        assert_int_equal(rounds_complete(&r.job.rounds), n);
        assert_int_equal(tick(&r, MS * (n + 1)), 0); /* the next one begins */
    }

    assert_remembered(&r, "a9 b3 ");
    rig_down(&r);
}

static void
changes_of_keyed_state_are_in_the_round_that_they_were_given_to(void **state)
{
    struct store_reader *in = NULL;
    struct store_key k = {.group = 3, .key = "k", .key_len = 1};
    struct snapshot_key sk = {.group = 3, .key = "k", .key_len = 1};
    struct snapshot *s = snapshot_new(1);
    const void *value;
    struct rig r;
    size_t len;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    snapshot_put_begin(s, &sk);
    buf_adds(&s->changes, "value");
    snapshot_put_end(s);
    s->pause_ns = 7000;
    rounds_give(&r.job, &r.steps[SINK], 0, &s);
    give(&r, SOURCE, 0, 1, "");
    give(&r, SOURCE, 1, 1, "");
    count_all(&r, 1);
    assert_int_equal(tick_written(&r, MS), 0);

    ckpt_stop(&r.job.ckpt);
    assert_int_equal(store_reader_new(r.run.home.store, &in, &err), 0);
    assert_int_equal(store_reader_begin(in, STORE_VIEW_COMPLETE, &err), 0);
    assert_true(store_reader_find(in, "out", 3, &k.op));
    assert_int_equal(store_reader_get(in, &k, &value, &len, &err), 1);
    assert_int_equal(len, 5);
    assert_memory_equal(value, "value", 5);
    store_reader_end(in);
    store_reader_free(&in);
    assert_int_equal(r.run.notes[0].round, 1);
    assert_int_equal(r.run.notes[0].puts, 1);
    assert_int_equal(r.run.notes[0].pause_us, 7);
    assert_true(r.run.notes[0].bytes > 0);
    rig_down(&r);
}

/* The errors of a source that other steps meet are counted in one place, by
 * subtasks on either side of a barrier. */
static void
source_errors_behind_a_barrier_are_not_of_its_round(void **state)
{
    struct op_job *ops;
    struct rig r;
    uint64_t n;

    (void)state;
    rig_up(&r, 3);
    ops = &r.job.ops;
    for (n = 0; n < 3; n++) {
        count_add(&op_source_errors(ops, SOURCE, n)->errors[CAUSE_DECODE], 1);
        assert_int_equal(tick(&r, MS * (int64_t)(n + 1)), 0);
        count_add(&op_source_errors(ops, SOURCE, n + 1)->errors[CAUSE_DECODE],
                  100);
        give_all(&r, n + 1, "", "");
        assert_int_equal(tick_written(&r, MS * (int64_t)(n + 1)), 0);

        assert_int_equal(count_get(&r.run.kept[SOURCE].errors[CAUSE_DECODE]),
                         n * 101 + 1);
    }
    rig_down(&r);
}

/* The job fails while its round is written; a restart begins from it. */
static void
counters_of_a_round_that_was_completed_late_are_kept(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    count_add(&r.counters[SOURCE].errors[CAUSE_DECODE], 7);
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "", "");
    assert_int_equal(tick(&r, MS), 0);
    assert_int_equal(r.job.rounds.state, ROUND_WRITING);
    while (sem_wait(&r.begun) != 0)
        ;
    (void)sem_post(&r.gate);
    ckpt_stop(&r.job.ckpt); /* without looking what became of it */
    store_status(r.run.home.store, &r.run.home.status);

    run_pick_counters(&r.run);

    assert_int_equal(r.run.home.status.complete, 1);
    assert_int_equal(count_get(&r.run.base[SOURCE].errors[CAUSE_DECODE]), 7);
    assert_int_equal(r.run.completed, 1);
    assert_int_equal(r.run.notes[0].round, 1); /* the summary shows it */
    rig_down(&r);
}

static void
counters_of_a_round_that_was_not_completed_are_forgotten(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.prepare_result = ERR_IO;
    count_add(&r.counters[SOURCE].errors[CAUSE_DECODE], 7);
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "", "");
    assert_int_equal(tick_written(&r, MS), ERR_IO);
    store_status(r.run.home.store, &r.run.home.status);

    run_pick_counters(&r.run);

    assert_int_equal(count_get(&r.run.base[SOURCE].errors[CAUSE_DECODE]), 0);
    assert_int_equal(r.run.completed, 0);
    rig_down(&r);
}

/* --- when a round begins -------------------------------------------------- */

static void
the_first_round_begins_an_interval_after_the_start(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);

    assert_int_equal(tick(&r, MS - 1), 0);
    assert_int_equal(r.job.rounds.state, ROUND_RESTING);
    assert_int_equal(tick(&r, MS), 0);

    assert_int_equal(r.job.rounds.state, ROUND_ALIGNING);
    assert_int_equal(atomic_load(&r.subtasks[SOURCE][1].round_wanted), 1);
    rig_down(&r);
}

static void
intervals_run_from_begin_to_begin(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "", "");
    assert_int_equal(tick_written(&r, MS + 300), 0);

    assert_int_equal(tick(&r, 2 * MS - 1), 0);
    assert_int_equal(r.job.rounds.state, ROUND_RESTING);
    assert_int_equal(tick(&r, 2 * MS), 0);

    assert_int_equal(r.job.rounds.state, ROUND_ALIGNING);
    rig_down(&r);
}

static void
a_round_keeps_its_distance_from_the_end_of_the_last(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.plan.checkpoint_min_pause_ms = 5 * MS;
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "", "");
    assert_int_equal(tick_written(&r, 3 * MS), 0);

    assert_int_equal(tick(&r, 8 * MS - 1), 0);
    assert_int_equal(r.job.rounds.state, ROUND_RESTING);
    assert_int_equal(tick(&r, 8 * MS), 0);

    assert_int_equal(r.job.rounds.state, ROUND_ALIGNING);
    rig_down(&r);
}

static void
a_round_that_is_wanted_begins_at_once(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);

    rounds_wanted(&r.job);
    assert_int_equal(tick(&r, 1), 0);
    assert_int_equal(r.job.rounds.state, ROUND_ALIGNING);
    give_all(&r, 1, "", "");
    assert_int_equal(tick_written(&r, 2), 0);
    assert_int_equal(tick(&r, 3), 0);

    assert_int_equal(r.job.rounds.state, ROUND_RESTING); /* wanted once */
    rig_down(&r);
}

static void
a_round_wanted_while_one_is_under_way_begins_after_it(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    rounds_wanted(&r.job);
    give_all(&r, 1, "", "");
    assert_int_equal(tick_written(&r, MS), 0);
    assert_int_equal(rounds_complete(&r.job.rounds), 1);

    assert_int_equal(tick(&r, MS + 1), 0);

    assert_int_equal(r.job.rounds.state, ROUND_ALIGNING);
    assert_int_equal(r.job.rounds.current, 2);
    rig_down(&r);
}

static void
no_round_begins_while_the_job_stops(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    r.job.stopping = true;

    assert_int_equal(tick(&r, 100 * MS), 0);

    assert_int_equal(r.job.rounds.state, ROUND_RESTING);
    rig_down(&r);
}

static void
a_job_goes_on_counting_where_its_store_is(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.run.home.status.complete = 41;
    rounds_fini(&r.job.rounds);
    rounds_init(&r.job.rounds, &r.job);
    assert_int_equal(rounds_complete(&r.job.rounds), 41);

    rounds_wanted(&r.job);
    assert_int_equal(tick(&r, 1), 0);
    give_all(&r, 42, "", "");
    assert_int_equal(tick_written(&r, 1), 0);

    assert_string_equal(r.heard, "sink 42; source  ; ");
    rig_down(&r);
}

static void
a_job_without_checkpoints_has_no_rounds_and_tells_its_sinks_the_end(
    void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    r.job.rounds.enabled = false;

    assert_int_equal(tick(&r, 100 * MS), 0);
    assert_int_equal(r.job.rounds.state, ROUND_RESTING);
    end_all(&r, "a9", "b9");
    assert_int_equal(final_round(&r), 0);

    assert_string_equal(r.heard, "sink 0 final; ");
    rig_down(&r);
}

/* --- timeouts --------------------------------------------------------------
 */

static void
a_timeout_names_who_holds_the_round_and_fails_the_job(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    r.plan.checkpoint_timeout_ms = 500;
    assert_int_equal(tick(&r, MS), 0);
    give(&r, SOURCE, 0, 1, "");
    assert_int_equal(tick(&r, MS + 499), 0);

    assert_int_equal(tick(&r, MS + 500), ERR_UNAVAILABLE);

    assert_non_null(strstr(err.msg, "in[1]"));
    assert_non_null(strstr(err.msg, "checkpoint 1"));
    assert_true((err.flags & ERR_RETRIABLE) != 0);
    assert_int_equal(r.run.failed_rounds, 1);
    rig_down(&r);
}

static void
tolerated_timeouts_are_waited_out_and_counted(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.plan.checkpoint_timeout_ms = 500;
    r.plan.checkpoint_tolerable = 1;
    assert_int_equal(tick(&r, MS), 0);

    assert_int_equal(tick(&r, MS + 500), 0);
    assert_int_equal(tick(&r, MS + 999), 0);
    assert_int_equal(r.run.failed_rounds, 1);
    give_all(&r, 1, "a1", "b1");
    assert_int_equal(tick_written(&r, MS + 999), 0);

    assert_string_equal(r.heard, "sink 1; source a1 b1; ");
    rig_down(&r);
}

static void
one_timeout_more_than_tolerated_fails_the_job(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 0);
    r.plan.checkpoint_timeout_ms = 500;
    r.plan.checkpoint_tolerable = 1;
    assert_int_equal(tick(&r, MS), 0);
    assert_int_equal(tick(&r, MS + 500), 0);

    assert_int_equal(tick(&r, MS + 1000), ERR_UNAVAILABLE);

    assert_int_equal(r.run.failed_rounds, 2);
    rig_down(&r);
}

/* --- failures --------------------------------------------------------------
 */

static void
a_sink_that_cannot_prepare_fails_the_job_and_nobody_hears(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    r.prepare_result = ERR_IO;
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "a1", "b1");

    assert_int_equal(tick_written(&r, MS), ERR_IO);

    assert_string_equal(err.msg, "checkpoint 1: cannot sync part-0");
    assert_string_equal(r.heard, "");
    assert_int_equal(r.run.failed_rounds, 1);
    assert_int_equal(rounds_complete(&r.job.rounds), 0);
    assert_int_equal(atomic_load(&r.job.ops.durable), 0);
    assert_remembered(&r, "");
    rig_down(&r);
}

static void
the_number_of_a_round_that_failed_is_used_again(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r, 2);
    r.prepare_result = ERR_IO;
    assert_int_equal(tick(&r, MS), 0);
    give_all(&r, 1, "a1", "b1");
    assert_int_equal(tick_written(&r, MS), ERR_IO);

    r.prepare_result = 0;
    rounds_fini(&r.job.rounds); /* as a restart does */
    rounds_init(&r.job.rounds, &r.job);
    rounds_wanted(&r.job);
    assert_int_equal(tick(&r, MS), 0);
    assert_int_equal(r.job.rounds.current, 1);
    give_all(&r, 1, "a2", "b2");
    assert_int_equal(tick_written(&r, MS), 0);

    assert_remembered(&r, "a2 b2 ");
    rig_down(&r);
}

static void
a_change_that_the_store_refuses_fails_the_job(void **state)
{
    static const char long_ns[STORE_NS_MAX + 1];
    struct snapshot_key k = {
        .ns = long_ns, .ns_len = sizeof long_ns, .key = "k", .key_len = 1};
    struct snapshot *s = snapshot_new(1);
    struct rig r;

    (void)state;
    rig_up(&r, 1);
    assert_int_equal(tick(&r, MS), 0);
    snapshot_put_begin(s, &k);
    snapshot_put_end(s);
    rounds_give(&r.job, &r.steps[SINK], 0, &s);
    give(&r, SOURCE, 0, 1, "a1");
    give(&r, SOURCE, 1, 1, "b1");
    count_all(&r, 1);

    assert_true(tick_written(&r, MS) < 0);

    assert_string_equal(r.heard, "");
    assert_int_equal(rounds_complete(&r.job.rounds), 0);
    assert_remembered(&r, "");
    rig_down(&r);
}

static void
what_fails_between_rounds_fails_the_job(void **state)
{
    struct rig r;
    struct err e;

    (void)state;
    rig_up(&r, 0);
    (void)err_set(&e, ERR_UNAVAILABLE, "no new producer");
    (void)pthread_mutex_lock(&r.job.ckpt.lock);
    r.job.ckpt.late_err = e;
    (void)pthread_mutex_unlock(&r.job.ckpt.lock);

    assert_int_equal(tick(&r, 1), ERR_UNAVAILABLE);

    assert_string_equal(err.msg, "no new producer");
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connectors_hear_of_a_round_only_after_it_is_written),
        cmocka_unit_test(a_round_waits_for_every_part),
        cmocka_unit_test(a_round_waits_for_the_counters_of_every_subtask),
        cmocka_unit_test(a_subtask_that_is_done_need_not_count),
        cmocka_unit_test(
            a_part_that_ended_before_the_barrier_counts_with_its_end),
        cmocka_unit_test(
            a_part_that_ends_behind_its_barrier_is_heard_with_the_barrier),
        cmocka_unit_test(what_an_ended_part_gave_stays_in_later_rounds),
        cmocka_unit_test(
            changes_of_keyed_state_are_in_the_round_that_they_were_given_to),
        cmocka_unit_test(source_errors_behind_a_barrier_are_not_of_its_round),
        cmocka_unit_test(counters_of_a_round_that_was_completed_late_are_kept),
        cmocka_unit_test(
            counters_of_a_round_that_was_not_completed_are_forgotten),
        cmocka_unit_test(the_first_round_begins_an_interval_after_the_start),
        cmocka_unit_test(intervals_run_from_begin_to_begin),
        cmocka_unit_test(a_round_keeps_its_distance_from_the_end_of_the_last),
        cmocka_unit_test(a_round_that_is_wanted_begins_at_once),
        cmocka_unit_test(a_round_wanted_while_one_is_under_way_begins_after_it),
        cmocka_unit_test(no_round_begins_while_the_job_stops),
        cmocka_unit_test(a_job_goes_on_counting_where_its_store_is),
        cmocka_unit_test(
            a_job_without_checkpoints_has_no_rounds_and_tells_its_sinks_the_end),
        cmocka_unit_test(a_timeout_names_who_holds_the_round_and_fails_the_job),
        cmocka_unit_test(tolerated_timeouts_are_waited_out_and_counted),
        cmocka_unit_test(one_timeout_more_than_tolerated_fails_the_job),
        cmocka_unit_test(
            a_sink_that_cannot_prepare_fails_the_job_and_nobody_hears),
        cmocka_unit_test(the_number_of_a_round_that_failed_is_used_again),
        cmocka_unit_test(a_change_that_the_store_refuses_fails_the_job),
        cmocka_unit_test(what_fails_between_rounds_fails_the_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
