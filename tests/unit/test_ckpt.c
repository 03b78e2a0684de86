/*
 * The checkpoint thread over a real store: in which order a round becomes
 * durable, what a crash behind each step leaves, what a full disk does, and
 * what happens beside and between rounds.
 *
 * The two calls that need a broker are played here (the commit of a round,
 * and the producer of the next but one): they stop at a gate where a test
 * wants them to.
 */
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

#include "store_shim.h"

#include "base/fault.h"
#include "run/ckpt.h"
#include "store_util.h"

enum { MANY = 45000 }; /* changes: a copy of them takes three steps */

struct rig {
    struct ckpt ckpt;
    _Atomic uint64_t durable;
    char *dir;
    sem_t woken;
    sem_t gate;  /* the commit waits for it, if there are transactions */
    sem_t begun; /* a round was taken up */
    int commit_result, renew_result;
    atomic_uint commits, renewed; /* the last round of each; 0: none */
    uint64_t pending_at_commit, durable_at_commit;
    unsigned renewed_at_commit;
    struct ckpt_round *next; /* given by the thread itself when one is done */
};

static struct rig *rig;

static void
await(sem_t *s)
{
    while (sem_wait(s) != 0)
        ;
}

int
txn_commit(struct txn *t, const struct txn_marker *m, struct err *e)
{
    struct store_status s;

    assert_ptr_equal(t, rig);
    store_status(rig->ckpt.store, &s); /* the store is this thread's */
    rig->pending_at_commit = s.pending;
    rig->durable_at_commit = atomic_load(&rig->durable);
    rig->renewed_at_commit = atomic_load(&rig->renewed);
    await(&rig->gate);
    (void)fault_hit("commit_dies");
    if (rig->commit_result != 0)
        return err_set(e, rig->commit_result, "the broker is away");
    atomic_store(&rig->commits, (unsigned)m->round);
    return 0;
}

int
txn_renew(struct txn *t, uint64_t round, struct err *e)
{
    assert_ptr_equal(t, rig);
    if (rig->renew_result != 0)
        return err_set(e, rig->renew_result, "no new producer");
    atomic_store(&rig->renewed, (unsigned)round);
    return 0;
}

static int
prepare(void *arg, struct err *e)
{
    (void)e;
    (void)sem_post(&((struct rig *)arg)->begun);
    return 0;
}

static void
wake(void *arg)
{
    struct rig *r = arg;
    struct ckpt_round *next = r->next;

    r->next = NULL;
    if (next != NULL)
        ckpt_give(&r->ckpt, next);
    (void)sem_post(&r->woken);
}

static void
rig_open(struct rig *r)
{
    r->ckpt.store = open_store(r->dir);
    r->ckpt.durable = &r->durable;
    r->ckpt.prepare = prepare;
    r->ckpt.wake = wake;
    r->ckpt.arg = r;
}

static void
rig_run(struct rig *r)
{
    assert_int_equal(ckpt_start(&r->ckpt, &err), 0);
}

static void
rig_start(struct rig *r)
{
    rig_open(r);
    rig_run(r);
}

static void
rig_init(struct rig *r)
{
    memset(r, 0, sizeof *r);
    rig = r;
    r->dir = temp_dir();
    assert_int_equal(sem_init(&r->woken, 0, 0), 0);
    assert_int_equal(sem_init(&r->gate, 0, 0), 0);
    assert_int_equal(sem_init(&r->begun, 0, 0), 0);
}

static void
rig_up(struct rig *r)
{
    rig_init(r);
    rig_start(r);
}

/* With transactions; `open` commits pass the gate. */
static void
rig_up_txn(struct rig *r, unsigned open)
{
    rig_init(r);
    r->ckpt.txn = (struct txn *)(void *)r; /* never looked into */
    while (open-- > 0)
        (void)sem_post(&r->gate);
    rig_start(r);
}

static void
rig_down(struct rig *r)
{
    (void)sem_post(&r->gate);
    ckpt_stop(&r->ckpt);
    store_close(&r->ckpt.store);
    remove_dir(r->dir);
    free(r->dir);
    (void)sem_destroy(&r->woken);
    (void)sem_destroy(&r->gate);
    (void)sem_destroy(&r->begun);
    rig = NULL;
}

/* Round `n` of a step "count" with `changes` keys, each set to `n`. */
static struct ckpt_round *
make_round(struct rig *r, uint64_t n, unsigned changes)
{
    struct ckpt_round *c = calloc(1, sizeof *c);
    struct snapshot *s = snapshot_new(n);
    unsigned i;

    for (i = 0; i < changes; i++) {
        char key[16];
        struct snapshot_key k = {.group = (uint16_t)(i % GROUPS), .key = key};

        k.key_len = (uint32_t)snprintf(key, sizeof key, "key%07u", i);
        snapshot_put_begin(s, &k);
        buf_addf(&s->changes, "%llu", (unsigned long long)n);
        snapshot_put_end(s);
    }
    c->parts = calloc(1, sizeof *c->parts);
    c->part_count = 1;
    c->parts[0].step = "count";
    c->parts[0].snap = s;
    c->round = n;
    c->owner = "here:1 cafe";
    c->target = r->ckpt.txn != NULL ? "prefix" : NULL;
    buf_addf(&c->steps, "steps of %llu", (unsigned long long)n);
    return c;
}

/* Wait for the round that was given. @return how it ended. */
static int
wait_for(struct rig *r, bool (*take)(struct ckpt *c, struct err *e))
{
    while (!take(&r->ckpt, &err))
        await(&r->woken);
    return err.code;
}

static int
do_round(struct rig *r, uint64_t n, unsigned changes)
{
    struct ckpt_round *c = make_round(r, n, changes);
    int rc;

    ckpt_give(&r->ckpt, c);
    rc = wait_for(r, ckpt_take_round);
    ckpt_round_free(&c);
    return rc;
}

/* End the thread and look at the store. */
static struct store_status
look(struct rig *r)
{
    struct store_status s;

    ckpt_stop(&r->ckpt);
    store_status(r->ckpt.store, &s);
    return s;
}

/* The value of the first key of "count" in the store of `dir`, 0 if none. */
static int
stored(struct store *s)
{
    struct store_reader *in = NULL;
    struct store_key k = {.key = "key0000000", .key_len = 10};
    const void *value;
    char text[16] = "";
    size_t len;

    must(store_reader_new(s, &in, &err));
    must(store_reader_begin(in, STORE_VIEW_COMPLETE, &err));
    if (store_reader_find(in, "count", 5, &k.op) &&
        store_reader_get(in, &k, &value, &len, &err) == 1)
        memcpy(text, value, len);
    store_reader_free(&in);
    return atoi(text);
}

/* --- a round ---------------------------------------------------------------
 */

static int
keys_stored(struct store *s)
{
    struct store_reader *in = NULL;
    struct store_scan *scan = NULL;
    struct store_key k;
    const void *value;
    uint32_t op;
    size_t len;
    int n = 0;

    must(store_reader_new(s, &in, &err));
    must(store_reader_begin(in, STORE_VIEW_COMPLETE, &err));
    assert_true(store_reader_find(in, "count", 5, &op));
    must(store_scan_open(in, op, 0, UINT16_MAX, &scan, &err));
    while (store_scan_next(scan, &k, &value, &len, &err) == 1)
        n++;
    store_scan_close(&scan);
    store_reader_free(&in);
    return n;
}

/* --- a round ------------------------------------------------------------ */

static void
a_round_without_transactions_is_complete_in_one_step(void **state)
{
    struct store_status s;
    struct rig r;

    (void)state;
    rig_up(&r);

    assert_int_equal(do_round(&r, 1, 3), 0);

    assert_int_equal(atomic_load(&r.durable), 1);
    s = look(&r);
    assert_int_equal(s.complete, 1);
    assert_int_equal(s.pending, 0);
    assert_false(s.finished);
    assert_int_equal(stored(r.ckpt.store), 1);
    rig_down(&r);
}

static void
a_redo_is_durable_before_its_transaction_is_committed(void **state)
{
    struct store_status s;
    struct rig r;

    (void)state;
    rig_up_txn(&r, 1);

    assert_int_equal(do_round(&r, 1, 3), 0);

    assert_int_equal(r.pending_at_commit, 1);
    assert_int_equal(r.durable_at_commit, 1);
    assert_int_equal(atomic_load(&r.commits), 1);
    s = look(&r);
    assert_int_equal(s.complete, 1);
    assert_int_equal(s.pending, 0);
    rig_down(&r);
}

static void
a_commit_that_fails_leaves_the_redo_pending(void **state)
{
    struct store_status s;
    struct rig r;

    (void)state;
    rig_up_txn(&r, 1);
    r.commit_result = ERR_UNAVAILABLE;

    assert_int_equal(do_round(&r, 1, 3), ERR_UNAVAILABLE);

    assert_string_equal(err.msg, "the broker is away");
    s = look(&r);
    assert_int_equal(s.complete, 0);
    assert_int_equal(s.pending, 1);
    assert_int_equal(atomic_load(&r.renewed), 0);
    rig_down(&r);
}

static void
the_producer_is_renewed_before_the_next_round_commits(void **state)
{
    struct ckpt_round *first, *second;
    struct rig r;

    (void)state;
    rig_up_txn(&r, 2);
    first = make_round(&r, 1, 3);
    r.next = second = make_round(&r, 2, 3); /* there before the renewal */

    ckpt_give(&r.ckpt, first);
    while (atomic_load(&r.commits) != 2)
        assert_int_equal(wait_for(&r, ckpt_take_round), 0);

    assert_int_equal(r.renewed_at_commit, 1);
    assert_int_equal(look(&r).complete, 2);
    ckpt_round_free(&first);
    ckpt_round_free(&second);
    rig_down(&r);
}

static void
a_producer_that_cannot_be_renewed_is_heard(void **state)
{
    struct err e;
    struct rig r;

    (void)state;
    rig_up_txn(&r, 1);
    r.renew_result = ERR_UNAVAILABLE;
    assert_int_equal(do_round(&r, 1, 3), 0);

    while (ckpt_late(&r.ckpt, &e) == 0)
        await(&r.woken);

    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_string_equal(e.msg, "no new producer");
    assert_int_equal(ckpt_late(&r.ckpt, &e), 0); /* once */
    rig_down(&r);
}

static void
the_last_round_marks_the_job_finished_and_renews_nothing(void **state)
{
    struct ckpt_round *c;
    struct rig r;

    (void)state;
    rig_up_txn(&r, 1);
    c = make_round(&r, 1, 3);
    c->last = c->finished = true;

    ckpt_give(&r.ckpt, c);
    assert_int_equal(wait_for(&r, ckpt_take_round), 0);

    assert_true(look(&r).finished);
    assert_int_equal(atomic_load(&r.renewed), 0);
    ckpt_round_free(&c);
    rig_down(&r);
}

static void
the_state_of_a_dropped_step_is_gone_with_the_round(void **state)
{
    struct ckpt_round *c;
    struct rig r;

    (void)state;
    rig_up(&r);
    assert_int_equal(do_round(&r, 1, 3), 0);
    c = make_round(&r, 2, 0);
    c->dropped = calloc(1, sizeof *c->dropped);
    c->dropped[0] = "count";
    c->dropped_count = 1;

    ckpt_give(&r.ckpt, c);
    assert_int_equal(wait_for(&r, ckpt_take_round), 0);

    assert_int_equal(look(&r).complete, 2);
    assert_int_equal(stored(r.ckpt.store), 0);
    ckpt_round_free(&c);
    rig_down(&r);
}

/* A finished job that starts over: what it gives stays, the rest goes. */
static void
a_job_that_starts_over_leaves_nothing_of_the_last_run(void **state)
{
    struct ckpt_round *c;
    struct rig r;

    (void)state;
    rig_up(&r);
    assert_int_equal(do_round(&r, 1, 50), 0);
    c = make_round(&r, 2, 1);
    c->drop_all = true;

    ckpt_give(&r.ckpt, c);
    assert_int_equal(wait_for(&r, ckpt_take_round), 0);

    (void)look(&r);
    assert_int_equal(stored(r.ckpt.store), 2);
    assert_int_equal(keys_stored(r.ckpt.store), 1);
    ckpt_round_free(&c);
    rig_down(&r);
}

/* --- disks -----------------------------------------------------------------
 */

static void
a_disk_that_is_full_for_a_moment_costs_no_round(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r); /* there is nothing to merge: the failure is the round's */
    shim_errno = ENOSPC;
    shim_count = 0;
    shim_at = 1;
    shim_mode = SHIM_FAIL;

    assert_int_equal(do_round(&r, 1, 3), 0);

    shim_mode = SHIM_OFF;
    assert_true(shim_count > 1);
    assert_int_equal(look(&r).complete, 1);
    assert_int_equal(stored(r.ckpt.store), 1);
    rig_down(&r);
}

/* A store whose round 1 is complete and not merged, before the thread is. */
static void
unmerged(struct rig *r)
{
    struct store_key k = {.key = "key", .key_len = 3};
    struct store *s = open_store(r->dir);

    must(store_round_begin(s, 1, &err));
    must(store_round_operator(s, "count", 5, &k.op, &err));
    must(store_round_put(s, &k, "1", 1, &err));
    must(store_round_write(s, STORE_COMPLETE, &err));
    store_close(&s);
}

static void
a_merge_that_finds_the_disk_full_does_not_fail_the_job(void **state)
{
    struct err e;
    struct rig r;

    (void)state;
    rig_init(&r);
    unmerged(&r);
    shim_errno = ENOSPC;
    shim_count = 0;
    shim_at = 1;
    rig_open(&r);
    shim_mode = SHIM_FAIL;
    rig_run(&r); /* it merges at once */

    while (shim_count == 0)
        (void)sched_yield();
    assert_int_equal(do_round(&r, 2, 3), 0);

    shim_mode = SHIM_OFF;
    assert_int_equal(ckpt_late(&r.ckpt, &e), 0);
    assert_int_equal(look(&r).complete, 2);
    rig_down(&r);
}

static void
the_end_does_not_wait_for_a_disk_that_stays_full(void **state)
{
    struct ckpt_round *c;
    struct rig r;

    (void)state;
    rig_up(&r);
    assert_int_equal(do_round(&r, 1, 3), 0);
    await(&r.begun);
    shim_errno = ENOSPC;
    shim_count = 0;
    shim_at = 1;
    shim_mode = SHIM_FAIL_FROM;
    c = make_round(&r, 2, 3);
    ckpt_give(&r.ckpt, c);
    await(&r.begun);

    assert_true(ckpt_end(&r.ckpt, 60000));

    shim_mode = SHIM_OFF;
    assert_int_equal(r.ckpt.round_err.code, ERR_IO);
    assert_non_null(strstr(r.ckpt.round_err.msg, "checkpoint 2"));
    assert_int_equal(look(&r).complete, 1);
    assert_int_equal(stored(r.ckpt.store), 1);
    ckpt_round_free(&c);
    rig_down(&r);
}

#ifdef STREAMLUA_TEST_MODE

/* Another process does round 1, then round 2, and dies in the latter. */
static struct store_status
after_crash(struct rig *r, const char *fault, bool txn)
{
    struct store_status s;
    pid_t child;
    int status;

    rig_init(r);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (txn)
            r->ckpt.txn = (struct txn *)(void *)r;
        (void)sem_post(&r->gate);
        (void)sem_post(&r->gate);
        fault_setup(fault);
        rig_start(r);
        if (do_round(r, 1, 3) != 0)
            _exit(1);
        (void)do_round(r, 2, 3);
        _exit(2); /* it did not die */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    r->ckpt.store = open_store(r->dir);
    store_status(r->ckpt.store, &s);
    return s;
}

struct crash {
    const char *fault;
    bool txn;
    int complete, pending;
};

static void
a_crash_leaves_what_the_steps_before_it_made_durable(void **state)
{
    static const struct crash crashes[] = {
        {"ckpt_prepare=2!", false, 1, 0},  {"store_write=2!", false, 1, 0},
        {"store_written=2!", false, 2, 0}, {"ckpt_prepare=2!", true, 1, 0},
        {"store_write=2!", true, 1, 0},    {"store_written=2!", true, 1, 2},
        {"commit_dies=2!", true, 1, 2},    {"store_complete=2!", true, 1, 2},
        {"store_completed=2!", true, 2, 0}};
    struct rig r;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        const struct crash *c = &crashes[i];
        struct store_status s = after_crash(&r, c->fault, c->txn);

        if ((int)s.complete != c->complete || (int)s.pending != c->pending)
            print_message("%s, transactions %d\n", c->fault, c->txn);
        assert_int_equal(s.complete, c->complete);
        assert_int_equal(s.pending, c->pending);
        assert_int_equal(stored(r.ckpt.store), c->complete);
        rig_down(&r);
    }
}

static void
a_committed_round_that_cannot_be_completed_stays_pending(void **state)
{
    struct rig r;

    (void)state;
    fault_setup("store_complete=1"); /* not retriable: the job must hear */
    rig_up_txn(&r, 1);

    assert_int_equal(do_round(&r, 1, 3), ERR_IO);

    assert_int_equal(look(&r).pending, 1);
    fault_setup(NULL);
    assert_int_equal(atomic_load(&r.commits), 1);
    rig_down(&r);
}

static void
a_store_that_breaks_while_it_is_merged_is_heard(void **state)
{
    struct err e;
    struct rig r;

    (void)state;
    fault_setup("store_merge=1+");
    rig_up(&r);
    assert_int_equal(do_round(&r, 1, 3), 0);

    while (ckpt_late(&r.ckpt, &e) == 0)
        await(&r.woken);

    assert_int_equal(e.code, ERR_IO);
    rig_down(&r);
    fault_setup(NULL);
}

static void
a_copy_that_fails_is_heard_and_the_thread_goes_on(void **state)
{
    char to[300];
    struct rig r;

    (void)state;
    fault_setup("store_copy=1");
    rig_up(&r);
    (void)snprintf(to, sizeof to, "%s-copy", r.dir);
    assert_int_equal(do_round(&r, 1, 3), 0);

    ckpt_copy(&r.ckpt, to);
    assert_true(wait_for(&r, ckpt_take_copy) < 0);

    assert_int_not_equal(access(to, F_OK), 0);
    assert_int_equal(do_round(&r, 2, 3), 0);
    rig_down(&r);
    fault_setup(NULL);
}

#endif

/* --- savepoints ------------------------------------------------------------
 */

static void
a_copy_is_made_beside_rounds_and_holds_one_of_them_whole(void **state)
{
    struct store_verified v;
    struct store_opts o = {.any_fs = true, .read_only = true};
    struct store *copy = NULL;
    char to[300];
    struct rig r;
    uint64_t n;

    (void)state;
    rig_up(&r);
    (void)snprintf(to, sizeof to, "%s-copy", r.dir);
    assert_int_equal(do_round(&r, 1, MANY), 0);

    ckpt_copy(&r.ckpt, to);
    for (n = 2; n <= 4; n++)
        assert_int_equal(do_round(&r, n, 100), 0);
    assert_int_equal(wait_for(&r, ckpt_take_copy), 0);

    assert_int_equal(store_verify(to, &v, &err), 0);
    assert_in_range(v.round, 1, 4);
    assert_int_equal(v.entries, MANY);
    o.dir = to;
    must(store_open(&o, &copy, &err));
    assert_int_equal(stored(copy), v.round);
    store_close(&copy);
    assert_int_equal(look(&r).complete, 4);
    remove_dir(to);
    rig_down(&r);
}

static void
a_copy_into_a_folder_that_is_in_use_is_refused(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    assert_int_equal(do_round(&r, 1, 3), 0);

    ckpt_copy(&r.ckpt, r.dir);
    assert_int_equal(wait_for(&r, ckpt_take_copy), ERR_CONFIG);

    assert_int_equal(do_round(&r, 2, 3), 0);
    assert_int_equal(look(&r).complete, 2);
    rig_down(&r);
}

static void
a_copy_that_the_end_cuts_short_leaves_nothing(void **state)
{
    char to[300], partial[320];
    struct rig r;

    (void)state;
    rig_up(&r);
    (void)snprintf(to, sizeof to, "%s-copy", r.dir);
    (void)snprintf(partial, sizeof partial, "%s.partial", to);
    assert_int_equal(do_round(&r, 1, MANY), 0);

    ckpt_copy(&r.ckpt, to);
    while (access(partial, F_OK) != 0 && access(to, F_OK) != 0)
        (void)sched_yield();
    assert_true(ckpt_end(&r.ckpt, 60000));

    if (r.ckpt.copy_done) { /* the thread was faster */
        assert_int_equal(r.ckpt.copy_err.code, 0);
        remove_dir(to);
    }
    assert_int_not_equal(access(to, F_OK), 0);
    assert_int_not_equal(access(partial, F_OK), 0);
    rig_down(&r);
}

/* --- the end ---------------------------------------------------------------
 */

static void
a_thread_with_nothing_to_do_ends_at_once(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    assert_true(ckpt_end(&r.ckpt, 60000));
    assert_true(ckpt_end(&r.ckpt, 0)); /* it has ended */
    rig_down(&r);
}

static void
the_end_says_that_a_commit_still_waits_for_its_broker(void **state)
{
    struct ckpt_round *c;
    struct store_status s;
    struct rig r;

    (void)state;
    rig_up_txn(&r, 0);
    c = make_round(&r, 1, 3);
    ckpt_give(&r.ckpt, c);
    await(&r.begun);

    assert_false(ckpt_end(&r.ckpt, 0));

    (void)sem_post(&r.gate); /* the broker is back */
    s = look(&r);
    assert_int_equal(s.complete, 1); /* what was begun is finished */
    ckpt_round_free(&c);
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_without_transactions_is_complete_in_one_step),
        cmocka_unit_test(a_redo_is_durable_before_its_transaction_is_committed),
        cmocka_unit_test(a_commit_that_fails_leaves_the_redo_pending),
        cmocka_unit_test(the_producer_is_renewed_before_the_next_round_commits),
        cmocka_unit_test(a_producer_that_cannot_be_renewed_is_heard),
        cmocka_unit_test(
            the_last_round_marks_the_job_finished_and_renews_nothing),
        cmocka_unit_test(the_state_of_a_dropped_step_is_gone_with_the_round),
        cmocka_unit_test(a_job_that_starts_over_leaves_nothing_of_the_last_run),
        cmocka_unit_test(a_disk_that_is_full_for_a_moment_costs_no_round),
        cmocka_unit_test(
            a_merge_that_finds_the_disk_full_does_not_fail_the_job),
        cmocka_unit_test(the_end_does_not_wait_for_a_disk_that_stays_full),
#ifdef STREAMLUA_TEST_MODE
        cmocka_unit_test(a_crash_leaves_what_the_steps_before_it_made_durable),
        cmocka_unit_test(
            a_committed_round_that_cannot_be_completed_stays_pending),
        cmocka_unit_test(a_store_that_breaks_while_it_is_merged_is_heard),
        cmocka_unit_test(a_copy_that_fails_is_heard_and_the_thread_goes_on),
#endif
        cmocka_unit_test(
            a_copy_is_made_beside_rounds_and_holds_one_of_them_whole),
        cmocka_unit_test(a_copy_into_a_folder_that_is_in_use_is_refused),
        cmocka_unit_test(a_copy_that_the_end_cuts_short_leaves_nothing),
        cmocka_unit_test(a_thread_with_nothing_to_do_ends_at_once),
        cmocka_unit_test(the_end_says_that_a_commit_still_waits_for_its_broker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
