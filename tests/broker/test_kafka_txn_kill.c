/*
 * Processes that are killed or stopped while they commit rounds, and their
 * successors, on a real broker. Run with arguments this program is such a
 * process:
 *
 *   test_kafka_txn_kill STORE PREFIX TOPIC PHASE ROUND
 *
 * runs rounds until it is killed; in round ROUND (0: never) it stops itself
 * as SIGSTOP does at PHASE. It ends with 7 when it finds the job taken over,
 * with 9 when store and marker contradict each other, else with 8.
 * STREAMLUA_KILLS sets how many processes are killed.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "drive_txn.h"
#include "kt.h"

enum {
    PARTS = 4,
    TASKS = 2,
    KILLS = 40,
    TAKEN = 7,
    FAILED = 8,
    MISMATCH = 9,
    LIMIT_MS = 60000
};

enum phase {
    IDLE,      /* the round has begun, nothing was written */
    QUEUED,    /* written a moment ago */
    OPEN,      /* written and delivered */
    REDO,      /* the barrier is through, nothing committed */
    COMMITTED, /* committed, the next producer of the id is not made */
    CLAIMED,   /* claimed, the first producers are not made */
    PHASES
};

static const char *servers, *self;
static char store[128];

/* ------------------------------------------------------------ the process */

static void
stop_if(bool now)
{
    if (now)
        (void)raise(SIGSTOP);
}

static int
end_of(struct drive_txn *x, int r)
{
    (void)fprintf(stderr, "%s\n", x->d.err.msg);
    drive_txn_fini(x);
    return r == ERR_BUSY ? TAKEN : r == ERR_CONFIG ? MISMATCH : FAILED;
}

/* drive_txn_recover() with a stop behind the claim. */
static int
recover_stopping(struct drive_txn *x)
{
    struct drive_store s = drive_store_read(store);
    struct txn_marker m = drive_txn_marker(x, s.complete);
    int r = drive_txn_new(x);

    if (r == 0)
        r = txn_init(x->txn, &x->d.err);
    if (r == 0)
        r = txn_claim(x->txn, &m, &x->d.err);
    stop_if(r == 0);
    return r != 0 ? r : drive_txn_open(x, s.complete);
}

static int
run_round(struct drive_txn *x, enum phase stop, bool now)
{
    struct txn_marker m = drive_txn_marker(x, x->round);
    struct drive_store s = {.complete = x->round - 1, .redo = x->round};
    int r;

    stop_if(now && stop == IDLE);
    r = drive_txn_fill(x, PARTS);
    stop_if(now && stop == QUEUED);
    if (now && stop == OPEN)
        while (kt_read(servers, x->topic, false, NULL, NULL) <
               (int64_t)x->round * 2 * PARTS)
            ;
    stop_if(now && stop == OPEN);
    if (r == 0)
        r = drive_txn_barrier(x);
    if (r != 0)
        return r;
    drive_store_write(store, &s);
    stop_if(now && stop == REDO);
    r = txn_commit(x->txn, &m, &x->d.err);
    if (r != 0)
        return r;
    s.complete = x->round;
    drive_store_write(store, &s);
    stop_if(now && stop == COMMITTED);
    r = txn_renew(x->txn, x->round, &x->d.err);
    if (r == 0)
        x->round++;
    return r;
}

/* After a failure: rule 7 of DESIGN section 9. */
static int
after_failure(struct drive_txn *x, int r)
{
    (void)fprintf(stderr, "%s\n", x->d.err.msg);
    if (r != ERR_UNAVAILABLE)
        return end_of(x, r);
    (void)drive_txn_stop(x);
    r = drive_txn_recover(x, store, true);
    return r != 0 ? end_of(x, r) : 0;
}

static int
process_main(char **argv)
{
    enum phase stop = (enum phase)atoi(argv[4]);
    uint64_t round = strtoull(argv[5], NULL, 10);
    struct drive_txn x;
    int r;

    (void)snprintf(store, sizeof store, "%s", argv[1]);
    drive_txn_init(&x, servers, argv[2], argv[3], TASKS);
    r = stop == CLAIMED ? recover_stopping(&x)
                        : drive_txn_recover(&x, store, false);
    for (;;) {
        if (r == 0)
            r = run_round(&x, stop, round != 0 && x.round == round);
        if (r != 0) {
            r = after_failure(&x, r);
            if (r != 0)
                return r;
        }
    }
}

/* -------------------------------------------------------------- the tests */

struct job {
    char path[128], prefix[80], topic[80];
};

static void
job_init(struct job *j, const char *name)
{
    (void)snprintf(j->topic, sizeof j->topic, "%s", drive_topic(name));
    (void)snprintf(j->prefix, sizeof j->prefix, "%s", drive_topic(name));
    (void)snprintf(j->path, sizeof j->path, "/tmp/%s.store", j->topic);
    (void)snprintf(store, sizeof store, "%s", j->path);
    (void)unlink(j->path);
    kt_create(servers, j->topic, PARTS, NULL);
}

static pid_t
start(const struct job *j, enum phase phase, uint64_t round)
{
    char p[8], n[24];
    pid_t pid;

    (void)snprintf(p, sizeof p, "%d", (int)phase);
    (void)snprintf(n, sizeof n, "%" PRIu64, round);
    pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    (void)execl(self, self, j->path, j->prefix, j->topic, p, n, (char *)NULL);
    _exit(127);
}

/* Wait for a process to end or stop, at most so long. SIGCHLD is blocked. */
static void
wait_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigtimedwait(&set, NULL, &t);
}

/* The successor of them all: recovers, and what is visible is exact. */
static void
check_exact(const struct job *j)
{
    struct drive_txn x;
    uint64_t rounds;

    drive_txn_init(&x, servers, j->prefix, j->topic, TASKS);
    if (drive_txn_recover(&x, j->path, false) != 0)
        fail_msg("%s", x.d.err.msg);
    rounds = x.round - 1;
    drive_txn_fini(&x);
    assert_true(drive_txn_exact(servers, j->topic, PARTS, rounds));
    print_message("%" PRIu64 " rounds\n", rounds);
    assert_true(rounds > 0);
    (void)unlink(j->path);
}

/* Row 4 */
static void
killed_processes_lose_and_double_nothing(void **state)
{
    const char *many = getenv("STREAMLUA_KILLS");
    int kills = many == NULL ? KILLS : atoi(many), i;
    unsigned seed = (unsigned)clock_wall_ms();
    struct job j;

    (void)state;
    job_init(&j, "kill");
    print_message("seed %u, %d kills\n", seed, kills);
    srand(seed);
    for (i = 0; i < kills; i++) {
        uint64_t before = drive_store_read(j.path).complete;
        int64_t until = clock_mono_ms() + LIMIT_MS;
        pid_t pid = start(&j, IDLE, 0);
        int status;

        /* Into its rounds, mostly; some die while they start. */
        while (i % 8 != 0 && drive_store_read(j.path).complete == before &&
               clock_mono_ms() < until)
            wait_ms(2);
        wait_ms(rand() % 90);
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status))
            fail_msg("ended by itself with %d", WEXITSTATUS(status));
    }
    check_exact(&j);
}

static int
wait_end(pid_t pid)
{
    int64_t until = clock_mono_ms() + LIMIT_MS;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (clock_mono_ms() > until) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            return -1;
        }
        wait_ms(5);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A process that sleeps at `phase` while a second one takes its job. */
static void
sleeper(const char *name, enum phase phase)
{
    struct drive_txn x;
    struct job j;
    int status, i, r;
    pid_t pid;

    job_init(&j, name);
    pid = start(&j, phase, 3);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));

    drive_txn_init(&x, servers, j.prefix, j.topic, TASKS);
    (void)snprintf(x.owner, sizeof x.owner, "second:1 z");
    r = drive_txn_recover(&x, j.path, false);
    for (i = 0; r == 0 && i < 3; i++) {
        r = drive_txn_fill(&x, PARTS);
        if (r == 0)
            r = drive_txn_stored_round(&x, j.path);
    }
    if (r != 0)
        fail_msg("phase %d: %s", (int)phase, x.d.err.msg);

    (void)kill(pid, SIGCONT);
    status = wait_end(pid);
    if (status != TAKEN)
        fail_msg("phase %d: the sleeper ended with %d", (int)phase, status);
    /* It may have taken the ids before it saw the marker: once. */
    for (i = 0; i < 3; i++) {
        r = drive_txn_fill(&x, PARTS);
        if (r == 0)
            r = drive_txn_stored_round(&x, j.path);
        if (r == ERR_UNAVAILABLE && i == 0) {
            assert_true(phase == COMMITTED || phase == CLAIMED);
            assert_true(txn_fenced(x.txn));
            (void)drive_txn_stop(&x);
            r = drive_txn_recover(&x, j.path, true);
        }
        if (r != 0)
            fail_msg("phase %d: %s", (int)phase, x.d.err.msg);
    }
    drive_txn_fini(&x);
    check_exact(&j);
}

/* Row 7 */
static void
process_that_slept_stops_and_nothing_of_it_is_seen(void **state)
{
    enum phase phase;

    (void)state;
    for (phase = IDLE; phase < PHASES; phase++)
        sleeper("sleep", phase);
}

#ifdef STREAMLUA_TEST_MODE
/* The control: the same sleeper, not looking at the end of the marker's
 * topic, writes what its successor has written. */
static void
without_the_look_at_the_end_records_are_doubled(void **state)
{
    int64_t until = clock_mono_ms() + LIMIT_MS;
    struct drive_txn x;
    struct job j;
    int status, i, r;
    pid_t pid;

    (void)state;
    job_init(&j, "control");
    (void)setenv("STREAMLUA_FAULT", "txn_no_check=1+", 1);
    pid = start(&j, CLAIMED, 0);
    (void)unsetenv("STREAMLUA_FAULT");
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    drive_txn_init(&x, servers, j.prefix, j.topic, TASKS);
    r = drive_txn_recover(&x, j.path, false);
    for (i = 0; r == 0 && i < 3; i++) {
        r = drive_txn_fill(&x, PARTS);
        if (r == 0)
            r = drive_txn_stored_round(&x, j.path);
    }
    assert_int_equal(r, 0);
    assert_true(drive_txn_exact(servers, j.topic, PARTS, 3));

    (void)kill(pid, SIGCONT);
    while (kt_read(servers, j.topic, true, NULL, NULL) <= 6 * PARTS &&
           clock_mono_ms() < until)
        ;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    assert_true(clock_mono_ms() < until);
    print_message("as it must be: ");
    assert_false(drive_txn_exact(servers, j.topic, PARTS, 3));
    drive_txn_fini(&x);
    (void)unlink(j.path);
}
#endif

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_processes_lose_and_double_nothing),
        cmocka_unit_test(process_that_slept_stops_and_nothing_of_it_is_seen),
#ifdef STREAMLUA_TEST_MODE
        cmocka_unit_test(without_the_look_at_the_end_records_are_doubled),
#endif
    };

    sigset_t set;

    servers = drive_servers();
    self = argv[0];
    if (argc == 6)
        return process_main(argv);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return cmocka_run_group_tests_name("kafka_txn_kill", tests, NULL, NULL);
}
