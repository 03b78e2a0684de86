/*
 * The savepoint of a job that does not run: what counts, and what must not
 * be decided without the job.
 */
#include "main/savepoint_copy.h"

#include "store_util.h"

struct rig {
    char *dir, to[300];
    struct job_dir job;
};

/* Write round `n` with one key; complete it, or leave it pending. The job
 * ends with round 5. */
static void
write_round(const char *dir, uint64_t n, const char *txn, bool complete)
{
    struct store_opts o = {.dir = dir, .create = true};
    struct store_key k = {.key = &n, .key_len = sizeof n};
    struct store *s;

    assert_int_equal(store_open(&o, &s, &err), 0);
    assert_int_equal(store_round_begin(s, n, &err), 0);
    assert_int_equal(store_round_operator(s, "agg", 3, &k.op, &err), 0);
    assert_int_equal(store_round_put(s, &k, "v", 1, &err), 0);
    assert_int_equal(
        store_round_blob(s, "txn", txn, txn != NULL ? strlen(txn) : 0, &err),
        0);
    assert_int_equal(
        store_round_blob(s, "finished", n == 5 ? "1" : "0", 1, &err), 0);
    assert_int_equal(store_round_write(s, complete ? STORE_COMPLETE : 0, &err),
                     0);
    store_close(&s);
}

static void
rig_up(struct rig *r)
{
    memset(r, 0, sizeof *r);
    r->dir = temp_dir();
    (void)snprintf(r->to, sizeof r->to, "%s-sp", r->dir);
    r->job.path = r->dir;
    r->job.name = (char *)(uintptr_t) "ledger";
}

static void
rig_down(struct rig *r)
{
    remove_dir(r->dir);
    if (access(r->to, F_OK) == 0)
        remove_dir(r->to);
    free(r->dir);
}

static struct store_status
status(const char *dir)
{
    struct store_opts o = {.dir = dir, .read_only = true};
    struct store_status st;
    struct store *s;

    assert_int_equal(store_open(&o, &s, &err), 0);
    store_status(s, &st);
    store_close(&s);
    return st;
}

static void
the_complete_round_is_copied(void **state)
{
    struct store_verified seen;
    struct rig r;

    (void)state;
    rig_up(&r);
    write_round(r.dir, 3, "prefix", true);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), 0);

    assert_int_equal(store_verify(r.to, &seen, &err), 0);
    assert_int_equal(seen.round, 3);
    assert_int_equal(seen.entries, 1);
    assert_memory_equal(status(r.to).lineage, status(r.dir).lineage,
                        STORE_LINEAGE_SIZE);
    rig_down(&r);
}

static void
a_pending_round_of_transactions_is_left_to_the_job(void **state)
{
    struct store_status st;
    struct rig r;

    (void)state;
    rig_up(&r);
    write_round(r.dir, 3, "prefix", true);
    write_round(r.dir, 4, "prefix", false);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), ERR_CONFIG);

    assert_non_null(strstr(err.msg, "ledger"));
    assert_non_null(strstr(err.msg, "checkpoint 4"));
    assert_non_null(strstr(err.hint, "start the job once"));
    st = status(r.dir);
    assert_int_equal(st.complete, 3);
    assert_int_equal(st.pending, 4);
    assert_int_not_equal(access(r.to, F_OK), 0);
    rig_down(&r);
}

/* The plan of round 4 has transactions no more: it is its own that counts. */
static void
a_pending_round_without_transactions_counts(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    write_round(r.dir, 3, "prefix", true);
    write_round(r.dir, 4, NULL, false);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), 0);

    assert_int_equal(status(r.dir).complete, 4);
    assert_int_equal(status(r.to).complete, 4);
    assert_int_equal(status(r.to).pending, 0);
    assert_false(status(r.to).finished);
    write_round(r.dir, 5, NULL, false);
    remove_dir(r.to);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), 0);
    assert_true(status(r.to).finished);
    rig_down(&r);
}

static void
a_finished_job_stays_finished_in_its_copy(void **state)
{
    struct store_opts o = {0};
    struct store *s;
    struct rig r;

    (void)state;
    rig_up(&r);
    write_round(r.dir, 3, NULL, true);
    o.dir = r.dir;
    assert_int_equal(store_open(&o, &s, &err), 0);
    assert_int_equal(store_set_finished(s, true, &err), 0);
    store_close(&s);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), 0);
    assert_true(status(r.to).finished);
    rig_down(&r);
}

static void
without_a_complete_round_there_is_nothing_to_copy(void **state)
{
    struct store_opts o = {.create = true};
    struct store *s;
    struct rig r;

    (void)state;
    rig_up(&r);
    o.dir = r.dir;
    assert_int_equal(store_open(&o, &s, &err), 0);
    store_close(&s);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, "no complete checkpoint"));
    rig_down(&r);
}

static void
what_is_there_already_is_not_touched(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    write_round(r.dir, 3, NULL, true);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), 0);
    write_round(r.dir, 4, NULL, true);
    assert_int_equal(savepoint_copy(&r.job, r.to, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, "in the way"));
    assert_int_equal(status(r.to).complete, 3);
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_complete_round_is_copied),
        cmocka_unit_test(a_pending_round_of_transactions_is_left_to_the_job),
        cmocka_unit_test(a_pending_round_without_transactions_counts),
        cmocka_unit_test(a_finished_job_stays_finished_in_its_copy),
        cmocka_unit_test(without_a_complete_round_there_is_nothing_to_copy),
        cmocka_unit_test(what_is_there_already_is_not_touched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
