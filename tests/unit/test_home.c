/*
 * The data directory at a start: what is begun from, what is moved aside or
 * copied, and that nothing of an earlier run is ever lost.
 */
#include <signal.h>

#include "run/home.h"
#include "store_util.h"

enum { JOB_PATH = 300 };

struct rig {
    struct run_conf conf;
    struct home home;
    char *data; /* the data directory of all jobs */
};

static void
rig_up(struct rig *r)
{
    memset(r, 0, sizeof *r);
    r->data = temp_dir();
    r->conf.data_dir = r->data;
}

static void
rig_down(struct rig *r)
{
    home_close(&r->home);
    remove_dir(r->data);
    free(r->data);
}

static void
path_of(const struct rig *r, const char *name, char ret[JOB_PATH])
{
    (void)snprintf(ret, JOB_PATH, "%s/%s", r->data, name);
}

static bool
is_there(const struct rig *r, const char *name)
{
    char path[JOB_PATH];

    path_of(r, name, path);
    return access(path, F_OK) == 0;
}

/* A store under `name` whose round `n` is complete and says what it holds. */
static void
put_store(const struct rig *r, const char *name, uint64_t n, unsigned flags)
{
    struct restored all = {.round = n, .max_parallelism = 128};
    struct step_blobs step = {.count = 1};
    char path[JOB_PATH];
    struct buf blob, bytes;
    struct store *s;

    path_of(r, name, path);
    s = open_store(path);
    buf_init(&blob);
    buf_init(&bytes);
    buf_addf(&blob, "at %d", (int)n);
    step.step = strdup("in");
    step.blobs = &blob;
    all.steps = &step;
    all.step_count = 1;
    restored_put(&all, &bytes);
    must(store_round_begin(s, n, &err));
    must(store_round_blob(s, "steps", bytes.data, bytes.len, &err));
    must(store_round_blob(s, "plan", "{}", 2, &err));
    must(store_round_blob(s, "meta", name, strlen(name), &err)); /* its own */
    must(store_round_blob(s, "txn", "prefix", 6, &err));
    must(store_round_write(s, flags, &err));
    store_close(&s);
    free(step.step);
    buf_fini(&blob);
    buf_fini(&bytes);
}

static void
lineage_of(const struct rig *r, const char *name,
           uint8_t ret[STORE_LINEAGE_SIZE])
{
    struct store_status st;
    char path[JOB_PATH];
    struct store *s;

    path_of(r, name, path);
    s = open_store(path);
    store_status(s, &st);
    store_close(&s);
    memcpy(ret, st.lineage, STORE_LINEAGE_SIZE);
}

static int
open_home(struct rig *r)
{
    err_clear(&err);
    return home_open(&r->home, &r->conf, "job", &err);
}

static void
assert_blob(const struct rig *r, const char *want)
{
    const struct step_blobs *b = restored_find(&r->home.restored, "in");

    assert_non_null(b);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->blobs[0].len, strlen(want));
    assert_memory_equal(b->blobs[0].data, want, strlen(want));
}

/* --- a plain start ---------------------------------------------------------
 */

static void
a_first_start_makes_an_empty_store_with_a_lineage(void **state)
{
    static const uint8_t none[STORE_LINEAGE_SIZE];
    struct rig r;

    (void)state;
    rig_up(&r);

    assert_int_equal(open_home(&r), 0);

    assert_non_null(r.home.store);
    assert_int_equal(r.home.status.complete, 0);
    assert_int_equal(r.home.restored.round, 0);
    assert_memory_not_equal(r.home.status.lineage, none, sizeof none);
    assert_int_equal(r.home.recover, RECOVER_NOT);
    rig_down(&r);
}

static void
what_the_last_round_kept_is_read(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 7, STORE_COMPLETE | STORE_FINISHED);

    assert_int_equal(open_home(&r), 0);

    assert_int_equal(r.home.status.complete, 7);
    assert_true(r.home.status.finished);
    assert_int_equal(r.home.restored.round, 7);
    assert_int_equal(r.home.plan.len, 2);
    assert_int_equal(r.home.txn.len, 6);
    assert_blob(&r, "at 7");
    rig_down(&r);
}

static void
a_redo_is_not_what_the_job_begins_from(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 7, STORE_COMPLETE);
    put_store(&r, "job", 8, 0);

    assert_int_equal(open_home(&r), 0);

    assert_int_equal(r.home.status.complete, 7);
    assert_int_equal(r.home.status.pending, 8);
    assert_blob(&r, "at 7");
    rig_down(&r);
}

static void
a_directory_that_another_process_uses_is_refused(void **state)
{
    struct rig r;
    pid_t child;
    int go[2], status;
    char byte;

    (void)state;
    rig_up(&r);
    assert_int_equal(pipe(go), 0);
    child = fork();
    if (child == 0) {
        if (open_home(&r) != 0)
            _exit(1);
        (void)!write(go[1], "x", 1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(go[0], &byte, 1), 1);

    assert_int_equal(open_home(&r), ERR_BUSY);

    assert_int_equal(err_exit_code(err.code), 73);
    {
        char pid[32];

        (void)snprintf(pid, sizeof pid, "%ld", (long)child);
        assert_non_null(strstr(err.msg, pid));
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    (void)close(go[0]);
    (void)close(go[1]);
    rig_down(&r);
}

/* --- --fresh, --recover=discard-state --------------------------------------
 */

static void
fresh_moves_what_was_there_aside_and_counts(void **state)
{
    uint8_t old[STORE_LINEAGE_SIZE];
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 7, STORE_COMPLETE);
    lineage_of(&r, "job", old);
    r.conf.fresh = true;

    assert_int_equal(open_home(&r), 0);
    assert_int_equal(r.home.status.complete, 0);
    assert_int_equal(r.home.recover, RECOVER_FRESH);
    assert_memory_not_equal(r.home.status.lineage, old, sizeof old);
    assert_true(is_there(&r, "job.old-1/data.mdb"));
    home_close(&r.home);
    assert_int_equal(open_home(&r), 0);

    assert_true(is_there(&r, "job.old-2/data.mdb"));
    assert_false(is_there(&r, "job.old-3"));
    {
        uint8_t kept[STORE_LINEAGE_SIZE];

        lineage_of(&r, "job.old-1", kept);
        assert_memory_equal(kept, old, sizeof old);
    }
    rig_down(&r);
}

static void
fresh_without_a_directory_moves_nothing(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    r.conf.fresh = true;

    assert_int_equal(open_home(&r), 0);

    assert_false(is_there(&r, "job.old-1"));
    rig_down(&r);
}

static void
fresh_takes_no_directory_from_a_running_job(void **state)
{
    struct home second;
    struct run_conf conf;
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 7, STORE_COMPLETE);
    assert_int_equal(open_home(&r), 0);
    conf = r.conf;
    conf.fresh = true;

    assert_int_equal(home_open(&second, &conf, "job", &err), ERR_BUSY);

    assert_true(is_there(&r, "job/data.mdb"));
    assert_false(is_there(&r, "job.old-1"));
    home_close(&second);
    rig_down(&r);
}

static void
a_damaged_directory_can_be_moved_aside(void **state)
{
    char path[JOB_PATH];
    struct rig r;
    FILE *f;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 7, STORE_COMPLETE);
    path_of(&r, "job/data.mdb", path);
    f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("not a store", f);
    (void)fclose(f);
    assert_int_equal(open_home(&r), ERR_IO);
    home_close(&r.home);
    r.conf.fresh = true;

    assert_int_equal(open_home(&r), 0);

    assert_true(is_there(&r, "job.old-1/data.mdb"));
    rig_down(&r);
}

static void
discard_state_moves_aside_too(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 7, STORE_COMPLETE);
    r.conf.recover = RECOVER_DISCARD;

    assert_int_equal(open_home(&r), 0);

    assert_int_equal(r.home.status.complete, 0);
    assert_int_equal(r.home.recover, RECOVER_DISCARD);
    assert_true(is_there(&r, "job.old-1/data.mdb"));
    rig_down(&r);
}

static void
rewind_keeps_the_directory(void **state)
{
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 7, STORE_COMPLETE);
    r.conf.recover = RECOVER_REWIND;

    assert_int_equal(open_home(&r), 0);

    assert_int_equal(r.home.status.complete, 7);
    assert_false(is_there(&r, "job.old-1"));
    rig_down(&r);
}

/* --- --from ----------------------------------------------------------------
 */

static void
from_copies_the_savepoint_and_leaves_it_as_it_is(void **state)
{
    uint8_t lineage[STORE_LINEAGE_SIZE];
    char from[JOB_PATH];
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "savepoint", 7, STORE_COMPLETE);
    lineage_of(&r, "savepoint", lineage);
    path_of(&r, "savepoint", from);
    r.conf.from = from;

    assert_int_equal(open_home(&r), 0);

    assert_int_equal(r.home.status.complete, 7);
    assert_memory_equal(r.home.status.lineage, lineage, sizeof lineage);
    assert_int_equal(r.home.recover, RECOVER_NOT);
    assert_blob(&r, "at 7");
    assert_true(is_there(&r, "savepoint/data.mdb"));
    assert_true(is_there(&r, "job/data.mdb"));
    assert_false(is_there(&r, "job.partial"));
    rig_down(&r);
}

static void
from_with_a_new_lineage_makes_a_job_of_its_own(void **state)
{
    uint8_t lineage[STORE_LINEAGE_SIZE];
    char from[JOB_PATH];
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "savepoint", 7, STORE_COMPLETE);
    lineage_of(&r, "savepoint", lineage);
    path_of(&r, "savepoint", from);
    r.conf.from = from;
    r.conf.new_lineage = true;

    assert_int_equal(open_home(&r), 0);

    assert_int_equal(r.home.status.complete, 7);
    assert_memory_not_equal(r.home.status.lineage, lineage, sizeof lineage);
    assert_int_equal(r.home.recover, RECOVER_FRESH);
    rig_down(&r);
}

static void
from_may_be_said_again_until_a_round_is_complete(void **state)
{
    uint8_t copy[STORE_LINEAGE_SIZE];
    char from[JOB_PATH];
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "savepoint", 7, STORE_COMPLETE);
    path_of(&r, "savepoint", from);
    r.conf.from = from;
    r.conf.new_lineage = true;
    must(open_home(&r));
    memcpy(copy, r.home.status.lineage, sizeof copy);
    home_close(&r.home); /* refused behind this, or killed */

    must(open_home(&r));
    assert_int_equal(r.home.status.complete, 7);
    assert_memory_equal(r.home.status.lineage, copy, sizeof copy);
    home_close(&r.home);

    put_store(&r, "job", 8, STORE_COMPLETE);
    assert_int_equal(open_home(&r), ERR_CONFIG);
    rig_down(&r);
}

static void
from_is_refused_where_another_round_is_as_far(void **state)
{
    char from[JOB_PATH];
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "savepoint", 7, STORE_COMPLETE);
    put_store(&r, "job", 7, STORE_COMPLETE);
    path_of(&r, "savepoint", from);
    r.conf.from = from;

    assert_int_equal(open_home(&r), ERR_CONFIG);
    rig_down(&r);
}

static void
from_is_refused_where_the_job_has_a_directory(void **state)
{
    char from[JOB_PATH];
    struct rig r;

    (void)state;
    rig_up(&r);
    put_store(&r, "savepoint", 7, STORE_COMPLETE);
    put_store(&r, "job", 9, STORE_COMPLETE);
    path_of(&r, "savepoint", from);
    r.conf.from = from;

    assert_int_equal(open_home(&r), ERR_CONFIG);

    assert_non_null(strstr(err.msg, "a data directory of its own"));
    assert_non_null(strstr(err.msg, "/job'"));
    assert_true(err.hint[0] != '\0');
    home_close(&r.home);
    r.conf.from = NULL;
    assert_int_equal(open_home(&r), 0);
    assert_int_equal(r.home.status.complete, 9); /* untouched */
    rig_down(&r);
}

static void
from_a_path_without_a_store_names_it_and_makes_nothing(void **state)
{
    char from[JOB_PATH];
    struct rig r;

    (void)state;
    rig_up(&r);
    path_of(&r, "nowhere", from);
    r.conf.from = from;

    assert_int_equal(open_home(&r), ERR_IO);

    assert_non_null(strstr(err.msg, "--from"));
    assert_non_null(strstr(err.msg, "nowhere"));
    assert_false(is_there(&r, "job"));
    assert_false(is_there(&r, "nowhere"));
    rig_down(&r);
}

static void
every_subtask_of_a_wide_job_can_read_its_state(void **state)
{
    enum { SUBTASKS = 400 }; /* LMDB by itself has 126 places */
    struct store_reader *readers[SUBTASKS] = {NULL};
    struct rig r;
    int i;

    (void)state;
    rig_up(&r);
    put_store(&r, "job", 1, STORE_COMPLETE);
    must(open_home(&r));

    for (i = 0; i < SUBTASKS; i++) {
        must(store_reader_new(r.home.store, &readers[i], &err));
        must(store_reader_begin(readers[i], STORE_VIEW_COMPLETE, &err));
        store_reader_end(readers[i]);
    }

    for (i = 0; i < SUBTASKS; i++)
        store_reader_free(&readers[i]);
    rig_down(&r);
}

static void
a_temporary_store_says_whether_a_round_has_room(void **state)
{
    char dir[JOB_PATH];
    struct rig r;
    struct err e;

    (void)state;
    rig_up(&r);
    err_clear(&e);
    assert_int_equal(home_open_temporary(&r.home, &e), 0);
    (void)snprintf(dir, sizeof dir, "%s", r.home.dir);
    assert_int_equal(home_check_room(&r.home, 0, &e), 0);
    assert_int_equal(home_check_room(&r.home, UINT64_C(1) << 60, &e), ERR_IO);
    assert_non_null(strstr(e.msg, " MiB, and what the job keeps may take "));
    assert_non_null(strstr(e.hint, "TMPDIR"));
    home_close(&r.home);
    assert_int_equal(access(dir, F_OK), -1);
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_subtask_of_a_wide_job_can_read_its_state),
        cmocka_unit_test(a_first_start_makes_an_empty_store_with_a_lineage),
        cmocka_unit_test(what_the_last_round_kept_is_read),
        cmocka_unit_test(a_redo_is_not_what_the_job_begins_from),
        cmocka_unit_test(a_directory_that_another_process_uses_is_refused),
        cmocka_unit_test(fresh_moves_what_was_there_aside_and_counts),
        cmocka_unit_test(fresh_without_a_directory_moves_nothing),
        cmocka_unit_test(fresh_takes_no_directory_from_a_running_job),
        cmocka_unit_test(a_damaged_directory_can_be_moved_aside),
        cmocka_unit_test(discard_state_moves_aside_too),
        cmocka_unit_test(rewind_keeps_the_directory),
        cmocka_unit_test(from_copies_the_savepoint_and_leaves_it_as_it_is),
        cmocka_unit_test(from_with_a_new_lineage_makes_a_job_of_its_own),
        cmocka_unit_test(from_may_be_said_again_until_a_round_is_complete),
        cmocka_unit_test(from_is_refused_where_another_round_is_as_far),
        cmocka_unit_test(from_is_refused_where_the_job_has_a_directory),
        cmocka_unit_test(a_temporary_store_says_whether_a_round_has_room),
        cmocka_unit_test(
            from_a_path_without_a_store_names_it_and_makes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
