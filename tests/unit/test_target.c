/*
 * The target of a Lua sink: its commit goes from the checkpoint thread to the
 * slot and back, or stays in that thread when the subtask is done; its token
 * says what a marker says.
 *
 * The job around it is played here: this thread is the slot.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "run/connectors.h"
#include "run/job.h"
#include "run/target.h"

struct sink_task {
    struct conn_round holds, committed;
    int open, looks;
};

struct sink {
    int unused;
};

static struct sink_task task;
static struct {
    struct plan plan;
    struct plan_step step;
    struct plan_chain chain;
    struct subtask subtask;
    struct op op, *ops[1];
    struct run run;
    struct job job;
    pthread_t thread, committer;
    int result, commit_result;
    struct err err;
    atomic_bool ended;
} rig;

/* ---- what the target needs of others ---- */

int
op_sink_commit(struct op *op, const struct conn_round *round, struct err *e)
{
    assert_ptr_equal(op, &rig.op);
    rig.committer = pthread_self();
    task.committed = *round;
    if (rig.commit_result != 0)
        return err_set(e, rig.commit_result, "the database is away");
    return 0;
}

void
slot_wake(void *slot)
{
    (void)slot;
}

struct subtask *
job_subtasks(const struct job *j, uint32_t chain)
{
    (void)j;
    (void)chain;
    return &rig.subtask;
}

struct conn_env
job_conn_env(struct job *j, const struct plan_step *s)
{
    (void)j;
    return (struct conn_env){.step = s->name};
}

static int
fake_open(const struct conn_env *env, struct sink **ret, struct err *e)
{
    (void)e;
    assert_string_equal(env->step, "out");
    *ret = mem_zalloc(sizeof **ret);
    return 0;
}

static int
fake_task_new(struct sink *s, const struct conn_task *conf,
              struct sink_task **ret, struct err *e)
{
    (void)s;
    (void)conf;
    (void)e;
    task.open++;
    *ret = &task;
    return 0;
}

static int
fake_last_round(struct sink_task *t, struct conn_round *ret, struct err *e)
{
    (void)e;
    t->looks++;
    *ret = t->holds;
    return 0;
}

static int
fake_commit(struct sink_task *t, const struct conn_round *r, struct err *e)
{
    (void)e;
    assert_true(t->looks > 0); /* every session begins with a look */
    t->holds = *r;
    return 0;
}

static void
fake_task_free(struct sink_task **t)
{
    (*t)->open--;
    *t = NULL;
}

static void
fake_close(struct sink **s)
{
    free(*s);
    *s = NULL;
}

const struct sink_type *
connectors_sink(const char *name)
{
    static const struct sink_type type = {.open = fake_open,
                                          .task_new = fake_task_new,
                                          .last_round = fake_last_round,
                                          .commit = fake_commit,
                                          .task_free = fake_task_free,
                                          .close = fake_close};

    (void)name;
    return &type;
}

/* ---- the rig ---- */

static int
rig_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    memset(&task, 0, sizeof task);
    rig.step.name = "out";
    rig.step.place = "job.lua:3";
    rig.plan.steps = &rig.step;
    rig.op.step = &rig.step;
    rig.ops[0] = &rig.op;
    rig.subtask.ops.ops = rig.ops;
    rig.subtask.ops.count = 1;
    rig.job.plan = &rig.plan;
    rig.job.run = &rig.run;
    (void)snprintf(rig.run.owner, sizeof rig.run.owner, "here:42 cafe-0");
    memset(rig.run.home.status.lineage, 0x5a, CONN_LINEAGE_SIZE);
    rig.job.target.exists = true;
    target_init(&rig.job.target, &rig.job);
    return 0;
}

static int
rig_down(void **state)
{
    (void)state;
    target_fini(&rig.job.target);
    return 0;
}

static void *
checkpoint_thread(void *arg)
{
    struct conn_round round = {.found = true, .round = 7};

    (void)arg;
    err_clear(&rig.err);
    target_token(&rig.job, &round);
    rig.result = target_commit(&rig.job.target, &round, &rig.err);
    atomic_store(&rig.ended, true);
    return NULL;
}

static void
ask(void)
{
    assert_int_equal(pthread_create(&rig.thread, NULL, checkpoint_thread, NULL),
                     0);
}

/* Be the slot until it has served something. @return as target_serve(). */
static int
serve(struct err *e)
{
    int r = 0;

    err_clear(e);
    while (r == 0) {
        r = target_serve(&rig.job.target, e);
        (void)sched_yield();
    }
    return r;
}

static void
the_slot_makes_the_commit_that_is_asked_for(void **state)
{
    struct err e;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) { /* one round after the other */
        assert_int_equal(target_serve(&rig.job.target, &e), 0);
        ask();
        assert_int_equal(serve(&e), 1);
        assert_int_equal(pthread_join(rig.thread, NULL), 0);
        assert_int_equal(rig.result, 0);
        assert_true(pthread_equal(rig.committer, pthread_self()));
        assert_int_equal(task.committed.round, 7);
        assert_string_equal(task.committed.token,
                            "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a here:42 cafe-0");
    }
}

static void
a_subtask_that_is_done_leaves_its_commits_to_the_thread_that_asks(void **state)
{
    struct err e;

    (void)state;
    ask();
    atomic_store(&rig.subtask.done, true); /* before it, or while it waits */
    assert_int_equal(pthread_join(rig.thread, NULL), 0);

    assert_int_equal(rig.result, 0);
    assert_true(pthread_equal(rig.committer, rig.thread));
    assert_int_equal(target_serve(&rig.job.target, &e), 0);
}

static void
a_commit_that_fails_ends_both_the_slot_and_the_round(void **state)
{
    struct err e;

    (void)state;
    rig.commit_result = ERR_UNAVAILABLE;
    ask();
    assert_int_equal(serve(&e), ERR_UNAVAILABLE);
    assert_int_equal(pthread_join(rig.thread, NULL), 0);

    assert_int_equal(rig.result, ERR_UNAVAILABLE);
    assert_string_equal(rig.err.msg, "the database is away");
    assert_string_equal(e.msg, "the database is away");
}

static void
slots_that_stopped_do_not_hold_the_checkpoint_thread(void **state)
{
    (void)state;
    ask();
    target_cancel(&rig.job.target);
    assert_int_equal(pthread_join(rig.thread, NULL), 0);

    assert_int_equal(rig.result, ERR_UNAVAILABLE);
    assert_int_equal(rig.err.flags & ERR_RETRIABLE, ERR_RETRIABLE);
    assert_int_equal(task.committed.round, 0); /* and nothing was committed */
}

static void
a_claim_is_found_again_with_lineage_and_owner(void **state)
{
    struct txn_marker m;
    struct err e;
    bool told;

    (void)state;
    assert_int_equal(target_look(&rig.job, &m, &told, &e), 0);
    assert_false(m.found);
    assert_int_equal(target_claim(&rig.job, 5, &e), 0);
    assert_int_equal(target_look(&rig.job, &m, &told, &e), 0);

    assert_true(m.found && told);
    assert_int_equal(m.round, 5);
    assert_memory_equal(m.lineage, rig.run.home.status.lineage,
                        CONN_LINEAGE_SIZE);
    assert_string_equal(m.owner, "here:42 cafe-0");
    assert_int_equal(task.open, 0); /* each session is closed */
}

static void
a_target_without_tokens_tells_its_number_alone(void **state)
{
    struct txn_marker m;
    struct err e;
    bool told;

    (void)state;
    task.holds = (struct conn_round){.found = true, .round = 9};
    assert_int_equal(target_look(&rig.job, &m, &told, &e), 0);
    assert_true(m.found && !told);
    assert_int_equal(m.round, 9);
}

static void
a_token_of_somebody_else_is_refused_with_its_place(void **state)
{
    static const char *const foreign[] = {
        "x", "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
        "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5ahere",
        "5A5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a here:42"};
    struct txn_marker m;
    struct err e;
    bool told;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        task.holds = (struct conn_round){.found = true, .round = 9};
        (void)snprintf(task.holds.token, sizeof task.holds.token, "%s",
                       foreign[i]);
        err_clear(&e);
        assert_int_equal(target_look(&rig.job, &m, &told, &e), ERR_FAIL);
        assert_non_null(strstr(e.msg, foreign[i]));
        assert_string_equal(e.where, "job.lua:3");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_slot_makes_the_commit_that_is_asked_for, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(
            a_subtask_that_is_done_leaves_its_commits_to_the_thread_that_asks,
            rig_up, rig_down),
        cmocka_unit_test_setup_teardown(
            a_commit_that_fails_ends_both_the_slot_and_the_round, rig_up,
            rig_down),
        cmocka_unit_test_setup_teardown(
            slots_that_stopped_do_not_hold_the_checkpoint_thread, rig_up,
            rig_down),
        cmocka_unit_test_setup_teardown(
            a_claim_is_found_again_with_lineage_and_owner, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(
            a_target_without_tokens_tells_its_number_alone, rig_up, rig_down),
        cmocka_unit_test_setup_teardown(
            a_token_of_somebody_else_is_refused_with_its_place, rig_up,
            rig_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
