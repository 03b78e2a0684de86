#include "store_util.h"

#include <sys/mman.h>

#include "store_shim.h"

/*
 * One life of a store, step by step, in a process that dies or whose disk or
 * memory fails at the n-th operation, for every n until nothing fails any
 * more. After each the store must open and be what it was after the last
 * step that was acknowledged, or after the one that was under way.
 */

enum { KEYS = 120, STEPS = 16, COPY_STEP = 10 };

/* What a step leaves: the complete round and the pending one, or none. */
struct stage {
    struct model complete, pending;
    bool has_pending;
};

static struct stage stages[STEPS + 1]; /* [k]: after k steps */

struct progress {
    int acked;
};

static struct progress *progress; /* shared with the child */

struct life {
    char *dir, sp[300];
    struct store *s;
    struct store_copy *copy;
    struct model scratch;
    bool staged;
};

/* --- steps
 * -------------------------------------------------------------------- */

/* Random changes of step k; without a store only for the model. */
static int
plan(struct store *s, struct model *m, int k, uint64_t round, struct err *e)
{
    uint32_t op[2] = {1, 2};
    unsigned n, i;
    int r = 0;

    test_random = 7000 + (uint64_t)k;
    if (s != NULL)
        r = store_round_begin(s, round, e);
    if (r == 0 && s != NULL)
        r = round_ops(s, op, e);
    if (k == 13) {
        memset(m->version + m->count, 0, m->count * sizeof *m->version);
        if (r == 0 && s != NULL)
            r = store_round_drop(s, op[1], e);
    }
    n = k == 13 ? 0 : 60 + random_below(40);
    for (i = 0; r == 0 && i < n; i++) {
        unsigned which = random_below(2 * m->count);
        uint32_t version = random_below(4) == 0 ? 0 : 1 + random_below(100000);

        if (s == NULL)
            m->version[which] = version;
        else
            r = stage_change(s, m, op, which, version, e);
    }
    if (r == 0 && s != NULL)
        r = stage_positions(s, round, e);
    m->round = round;
    return r;
}

static int
write_step(struct life *l, int k, uint64_t round, unsigned flags, struct err *e)
{
    int r = 0;

    if (!l->staged) {
        store_round_cancel(l->s);
        model_copy(&l->scratch, &stages[k].complete);
        r = plan(l->s, &l->scratch, k + 1, round, e);
    }
    l->staged = r == 0;
    if (r == 0)
        r = store_round_write(l->s, flags, e);
    if (r == 0)
        l->staged = false;
    return r;
}

static int
merge_step(struct life *l, unsigned times, struct err *e)
{
    int r = 1;

    while (times-- > 0 && r == 1)
        r = store_merge(l->s, 40, e);
    return r < 0 ? r : 0;
}

static int
copy_step(struct life *l, struct err *e)
{
    struct stat st;
    int r = 0;

    store_copy_free(&l->copy);
    if (stat(l->sp, &st) == 0)
        return 0; /* published before the error */
    r = store_copy_begin(l->s, l->sp, NULL, &l->copy, e);
    while (r >= 0 && (r = store_copy_step(l->copy, 50, e)) == 1)
        continue;
    store_copy_free(&l->copy);
    return r;
}

static int
open_step(struct life *l, struct err *e)
{
    struct store_opts o = {
        .dir = l->dir, .create = true, .any_fs = true, .map_bytes = 1 << 18};

    return store_open(&o, &l->s, e);
}

static int
step(struct life *l, int k, struct err *e)
{
    switch (k) {
    case 0:
        return l->s != NULL ? 0 : open_step(l, e);
    case 1:
        return write_step(l, k, 1, 0, e);
    case 2:
        return store_round_complete(l->s, 1, 0, e);
    case 3:
        return write_step(l, k, 2, STORE_COMPLETE, e);
    case 4:
        return merge_step(l, 3, e);
    case 5:
        return write_step(l, k, 3, 0, e);
    case 6:
        return store_round_discard(l->s, 3, e);
    case 7:
        return write_step(l, k, 3, 0, e);
    case 8:
        return store_round_complete(l->s, 3, 0, e);
    case 9:
        return merge_step(l, 2, e);
    case COPY_STEP:
        return copy_step(l, e);
    case 11:
        return write_step(l, k, 4, STORE_COMPLETE, e);
    case 12:
        return merge_step(l, 100, e);
    case 13:
        return write_step(l, k - 1, 5, STORE_COMPLETE, e);
    case 14:
        return merge_step(l, 100, e);
    default:
        return store_set_finished(l->s, true, e);
    }
}

/* What each step leaves, computed without a store. */
static void
plan_all(void)
{
    static const struct {
        int write; /* round written by step k, 0 none */
        char what; /* p pending, c complete at once, e end, d discard */
    } steps[STEPS] = {{0, 0},   {1, 'p'}, {0, 'e'}, {2, 'c'}, {0, 0}, {3, 'p'},
                      {0, 'd'}, {3, 'p'}, {0, 'e'}, {0, 0},   {0, 0}, {4, 'c'},
                      {0, 0},   {5, 'c'}, {0, 0},   {0, 0}};
    int k;

    for (k = 0; k <= STEPS; k++) {
        model_init(&stages[k].complete, KEYS);
        model_init(&stages[k].pending, KEYS);
    }
    for (k = 0; k < STEPS; k++) {
        struct stage *a = &stages[k], *b = &stages[k + 1];

        model_copy(&b->complete, &a->complete);
        model_copy(&b->pending, &a->pending);
        b->has_pending = a->has_pending;
        if (steps[k].write != 0) {
            model_copy(&b->pending, &a->complete);
            (void)plan(NULL, &b->pending, k == 13 ? k : k + 1,
                       (uint64_t)steps[k].write, NULL);
            b->has_pending = steps[k].what == 'p';
        }
        if (steps[k].what == 'c' || steps[k].what == 'e')
            model_copy(&b->complete, &b->pending);
        if (steps[k].what == 'e' || steps[k].what == 'd')
            b->has_pending = false;
    }
}

static bool
is_stage(struct store *s, const struct stage *g)
{
    struct store_status st;

    store_status(s, &st);
    return st.complete == g->complete.round &&
           st.pending == (g->has_pending ? g->pending.round : 0);
}

/* --- the child
 * ------------------------------------------------------------------ */

static void
life_end(struct life *l)
{
    store_copy_free(&l->copy);
    store_close(&l->s);
    l->staged = false;
}

/* After an error: the same step again, or after one that leaves doubt, from
 * what the disk says. @return the step to go on with, -1 to give up. */
static int
recover(struct life *l, int k, const struct err *failed, struct err *e)
{
    if (l->s != NULL && (failed->flags & ERR_FATAL) == 0)
        return k;
    life_end(l);
    if (open_step(l, e) != 0)
        return -1;
    if (k > 0 && !is_stage(l->s, &stages[k]))
        return is_stage(l->s, &stages[k + 1]) ? k + 1 : -1;
    return k;
}

static int
live(struct life *l, bool retry)
{
    static struct err e, e2;
    int k = 0, tries = 0;

    while (k < STEPS) {
        int r;

        err_clear(&e);
        r = step(l, k, &e);
        if (r == 0) {
            k++;
            progress->acked = k;
            continue;
        }
        if (e.msg[0] == '\0') {
            (void)fprintf(stderr, "step %d: %d without a message\n", k, r);
            return 2;
        }
        if (!retry || tries++ == 3) {
            life_end(l);
            return 3;
        }
        k = recover(l, k, &e, &e2);
        if (k < 0) {
            (void)fprintf(stderr, "after '%s': '%s'\n", e.msg, e2.msg);
            return 4;
        }
    }
    life_end(l);
    return 0;
}

/* --- the parent
 * -------------------------------------------------------------------- */

static void
compare_stage(struct store *s, const struct stage *g)
{
    compare(s, STORE_VIEW_COMPLETE, &g->complete);
    compare(s, STORE_VIEW_NEWEST, g->has_pending ? &g->pending : &g->complete);
}

/* A savepoint that has its name is whole. */
static void
look_at_copy(const struct life *l)
{
    struct store_verified v;
    struct stat st;
    struct store *s;

    if (stat(l->sp, &st) != 0) {
        assert_true(progress->acked <= COPY_STEP);
        return;
    }
    must(store_verify(l->sp, &v, &err));
    s = open_store(l->sp);
    compare(s, STORE_VIEW_COMPLETE, &stages[COPY_STEP].complete);
    store_close(&s);
}

/* It opens, is one of two states, and can be worked with. */
static void
look_at_store(const struct life *l)
{
    struct store *s = open_store(l->dir);
    int k = progress->acked;
    const struct stage *g = &stages[k];
    struct model m;

    if (!is_stage(s, g)) {
        g = &stages[k < STEPS ? k + 1 : k];
        assert_true(is_stage(s, g));
    }
    compare_stage(s, g);
    model_init(&m, KEYS);
    model_copy(&m, &g->complete);
    if (g->has_pending)
        must(store_round_discard(s, g->pending.round, &err));
    must(stage_random(s, &m, 50, 100, &err));
    must(store_round_write(s, STORE_COMPLETE, &err));
    must(merge_step(&(struct life){.s = s}, 1000, &err));
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    s = open_store(l->dir);
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    model_fini(&m);
}

/* One life with a fault at `n`. @return the child's exit code. */
static int
one_life(enum shim_mode mode, unsigned long n, bool retry)
{
    struct life l = {.dir = temp_dir()};
    int status = -1;
    pid_t pid;

    (void)snprintf(l.sp, sizeof l.sp, "%s/sp", l.dir);
    model_init(&l.scratch, KEYS);
    progress->acked = 0;
    pid = fork();
    if (pid == 0) {
        shim_arm(mode, n);
        status = live(&l, retry);
        if (status == 0 && shim_count < n)
            status = 5; /* the fault did not happen any more */
        shim_mode = SHIM_OFF;
        _exit(status);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status))
        print_message("mode %d, operation %lu: signal %d\n", (int)mode, n,
                      WTERMSIG(status));
    assert_true(WIFEXITED(status));
    status = WEXITSTATUS(status);
    if (status == 2 || status == 4)
        print_message("mode %d, operation %lu: exit %d\n", (int)mode, n,
                      status);
    assert_true(status == 0 || status == 3 || status == 5 ||
                status == SHIM_EXIT);
    if (retry && (status == 0 || status == 5))
        assert_int_equal(progress->acked, STEPS);
    look_at_store(&l);
    look_at_copy(&l);
    model_fini(&l.scratch);
    remove_dir(l.dir);
    free(l.dir);
    return status;
}

/* Each n, until a life passes without meeting the fault. */
static void
all_lives(enum shim_mode mode, bool retry)
{
    unsigned long n = 1, lives = 0;
    int status;

    do {
        status = one_life(mode, n, retry);
        lives++;
        if (retry)
            assert_int_not_equal(status, 3);
        /* Allocations are many: each of the first, then ever fewer. */
        n += mode == SHIM_MEM && n > 150 ? 1 + n / 40 : 1;
    } while (status != 5);
    print_message("%lu lives, %lu operations\n", lives, n);
}

static void
a_kill_at_any_write_or_sync_loses_nothing(void **state)
{
    (void)state;
    all_lives(SHIM_DIE, false);
}

static void
a_power_cut_at_any_write_or_sync_loses_nothing(void **state)
{
    (void)state;
    all_lives(SHIM_POWER, false);
}

/* What a start does: open, roll the redo forward, merge. */
static int
settle(struct life *l)
{
    struct store_status st;
    int r = open_step(l, &err);

    if (r == 0) {
        store_status(l->s, &st);
        if (st.pending != 0)
            r = store_round_complete(l->s, st.pending, 0, &err);
    }
    if (r == 0)
        r = merge_step(l, 100, &err);
    life_end(l);
    return r == 0 ? 0 : 3;
}

/* The process dies at operation n, the one that recovers at its m-th. */
static int
two_deaths(unsigned long n, unsigned long m)
{
    struct life l = {.dir = temp_dir()};
    int status = -1, i;
    struct store *s;
    pid_t pid;

    model_init(&l.scratch, KEYS);
    (void)snprintf(l.sp, sizeof l.sp, "%s/sp", l.dir);
    progress->acked = 0;
    for (i = 0; i < 2; i++) {
        pid = fork();
        if (pid == 0) {
            shim_arm(SHIM_POWER, i == 0 ? n : m);
            status = i == 0 ? live(&l, false) : settle(&l);
            if (status == 0 && shim_count < shim_at)
                status = 5;
            shim_mode = SHIM_OFF;
            _exit(status);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        status = WEXITSTATUS(status);
        assert_true(status == 0 || status == 5 || status == SHIM_EXIT);
    }
    s = open_store(l.dir);
    for (i = progress->acked; i <= progress->acked + 1; i++) {
        const struct stage *g = &stages[i < STEPS ? i : STEPS];
        struct stage forward = {.complete = g->pending};

        if (is_stage(s, g))
            break;
        if (g->has_pending && is_stage(s, &forward))
            break;
    }
    assert_true(i <= progress->acked + 1);
    if (is_stage(s, &stages[i < STEPS ? i : STEPS]))
        compare_stage(s, &stages[i < STEPS ? i : STEPS]);
    else
        compare(s, STORE_VIEW_NEWEST, &stages[i].pending);
    store_close(&s);
    model_fini(&l.scratch);
    remove_dir(l.dir);
    free(l.dir);
    return status;
}

static void
a_second_power_cut_while_recovering_loses_nothing(void **state)
{
    unsigned long n, m, pairs = 0;

    (void)state;
    for (n = 2; n < 135; n += 5)
        for (m = 1 + n % 2; two_deaths(n, m) != 5; m += 2)
            pairs++;
    print_message("%lu pairs\n", pairs);
}

static void
any_failing_write_or_sync_is_an_error_and_may_be_repeated(void **state)
{
    (void)state;
    shim_errno = EIO;
    all_lives(SHIM_FAIL, true);
}

static void
any_short_write_is_an_error_and_may_be_repeated(void **state)
{
    (void)state;
    all_lives(SHIM_SHORT, true);
}

static void
a_disk_that_stays_full_is_an_error_each_time(void **state)
{
    (void)state;
    shim_errno = ENOSPC;
    all_lives(SHIM_FAIL_FROM, false);
}

static void
any_failing_allocation_is_an_error_and_may_be_repeated(void **state)
{
    (void)state;
    if (!SHIM_HAS_MEM)
        skip();
    all_lives(SHIM_MEM, true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_write_or_sync_loses_nothing),
        cmocka_unit_test(a_power_cut_at_any_write_or_sync_loses_nothing),
        cmocka_unit_test(a_second_power_cut_while_recovering_loses_nothing),
        cmocka_unit_test(
            any_failing_write_or_sync_is_an_error_and_may_be_repeated),
        cmocka_unit_test(any_short_write_is_an_error_and_may_be_repeated),
        cmocka_unit_test(a_disk_that_stays_full_is_an_error_each_time),
        cmocka_unit_test(
            any_failing_allocation_is_an_error_and_may_be_repeated),
    };

    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        return 1;
    plan_all();
    return cmocka_run_group_tests_name("store_fault", tests, NULL, NULL);
}
