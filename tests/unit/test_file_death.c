/*
 * File sink in a process that dies: no row visible twice, none lost.
 *
 * Each life of the job is a process; the store is memory that they share.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "file_job.h"

enum { ROWS = 60, BLOB_MAX = 4096 };

/* The store: what the last complete round holds, in memory that outlives the
 * process. `at` is switched when the other half is whole. */
struct store_half {
    uint64_t round;
    int rows; /* read by it */
    uint32_t count;
    uint32_t len[TASKS_MAX];
    char blob[TASKS_MAX][BLOB_MAX];
};

struct store_of {
    volatile uint32_t at;
    struct store_half half[2];
};

static void
store_take(const struct store_of *st, struct job *j)
{
    const struct store_half *h = &st->half[st->at];
    uint32_t i;

    j->ckpt.round = h->round;
    for (i = 0; i < h->count; i++)
        buf_add(help_blobs_add(&j->kept), h->blob[i], h->len[i]);
}

static void
store_put(struct store_of *st, uint64_t round, int rows,
          const struct step_blobs *b)
{
    struct store_half *h = &st->half[1 - st->at];
    uint32_t i;

    h->round = round;
    h->rows = rows;
    h->count = b->count;
    for (i = 0; i < b->count; i++) {
        assert_true(b->blobs[i].len <= BLOB_MAX);
        h->len[i] = (uint32_t)b->blobs[i].len;
        memcpy(h->blob[i], b->blobs[i].data, b->blobs[i].len);
    }
    st->at = 1 - st->at;
}

static void
put_rows(struct job *j, int *row, int n)
{
    for (; n > 0 && *row < ROWS; n--, ++*row) {
        put(j, (uint32_t)*row % j->tasks, *row);
        if (*row % 5 == 0)
            (void)file_sink_type.batch_end(j->t[(uint32_t)*row % j->tasks],
                                           &j->e);
    }
}

/* Run the job from where the store is to its end. */
static void
live(struct store_of *st, char *dir, uint32_t tasks, uint64_t seed)
{
    int row = st->half[st->at].rows;
    bool last = false;
    struct job j;

    job_init(&j, dir);
    (void)snprintf(j.more, sizeof j.more,
                   ",\"roll\":{\"size\":14},\"format\":\"csv\",\"header\":true,"
                   "\"fields\":[{\"name\":\"i\",\"type\":\"int\"}]");
    store_take(st, &j);
    start(&j, tasks);
    while (!last) {
        struct step_blobs given = {0};
        uint64_t round = j.ckpt.round + 1;
        int rows;

        seed = hash_splitmix(seed);
        put_rows(&j, &row, (int)(seed % 17));
        last = row == ROWS;
        rows = row;
        (void)fault_check("test_step");
        give(&j, last ? SNAPSHOT_END : round, &given);
        put_rows(&j, &row, (int)(seed % 5)); /* tasks go on meanwhile */
        if (file_sink_type.prepare(j.s, &j.e) != 0)
            fail_msg("%s", j.e.msg);
        (void)fault_check("test_step");
        store_put(st, round, rows, &given);
        put_rows(&j, &row, (int)(seed % 3));
        (void)fault_check("test_step");
        if (file_sink_type.committed(j.s, round, last, &j.e) != 0)
            fail_msg("%s", j.e.msg);
        (void)fault_check("test_step");
        keep(&j, round, &given);
    }
    job_fini(&j);
}

/* Live in a process of its own. @return whether it came to the end. */
static bool
live_in_child(struct store_of *st, char *dir, uint32_t tasks, uint64_t seed,
              const char *fault)
{
    pid_t pid;
    int status;

    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fault_setup(fault);
        live(st, dir, tasks, seed);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) != pid)
        assert_int_equal(errno, EINTR);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return false;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the job ended with status %d after %s", status, fault);
    return true;
}

/* Every visible part is whole, every row at most once and in the store;
 * at the end each is there and nothing is in progress. */
static void
check_visible(const struct store_of *st, char *dir, bool ended,
              const char *after)
{
    int seen[ROWS] = {0}, i, rows = st->half[st->at].rows;
    char *name, *rest, *line;
    struct buf b;
    struct job j;

    job_init(&j, dir);
    buf_init(&b);
    help_list(j.dir, &b);
    buf_addc(&b, '\0');
    for (rest = b.data;
         (name = strsep(&rest, "\n")) != NULL && *name != '\0';) {
        if (ended && strstr(name, "inprogress") != NULL)
            fail_msg("%s is left after %s", name, after);
        if (*name == '.')
            continue;
        (void)content(&j, name);
        line = j.out.data;
        if (strncmp(line, "i\n", 2) != 0 || j.out.data[j.out.len - 1] != '\n')
            fail_msg("%s after %s is: %s", name, after, line);
        for (line += 2; *line != '\0'; line += 4) {
            i = atoi(line) - 100;
            assert_in_range(i, 0, ROWS - 1);
            if (line[3] != '\n' || ++seen[i] != 1 || i >= rows)
                fail_msg("row %d of %d in %s after %s", i, rows, name, after);
        }
    }
    for (i = 0; ended && i < ROWS; i++)
        if (seen[i] != 1)
            fail_msg("row %d is there %d times after %s", i, seen[i], after);
    buf_fini(&b);
    job_fini(&j);
}

static struct store_of *
store_make(void)
{
    void *p = mmap(NULL, sizeof(struct store_of), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    return p;
}

static const char *const death_points[] = {"test_step",
#ifdef STREAMLUA_TEST_MODE
                                           "file_sink_sync", "file_sink_rename",
                                           "file_sink_marker", "file_sink_write"
#endif
};

enum { POINTS = sizeof death_points / sizeof *death_points };

static void
no_row_is_lost_or_doubled_wherever_the_process_dies(void **state)
{
    struct store_of *st = store_make();
    size_t p;

    (void)state;
    for (p = 0; p < POINTS; p++) {
        bool ended = false;
        int k;

        for (k = 1; !ended; k++) {
            uint64_t seed = hash_splitmix((uint64_t)k);
            char *dir = help_dir_make(), fault[64];

            (void)snprintf(fault, sizeof fault, "%s=%d!", death_points[p], k);
            memset(st, 0, sizeof *st);
            ended = live_in_child(st, dir, 2, seed, fault);
            check_visible(st, dir, ended, fault);
            if (!ended)
                (void)live_in_child(st, dir, 1 + (uint32_t)k % TASKS_MAX, seed,
                                    NULL);
            check_visible(st, dir, true, fault);
            help_dir_remove(&dir);
        }
        print_message("%s: %d deaths\n", death_points[p], k - 2);
        assert_true(k > 5);
    }
    (void)munmap(st, sizeof *st);
}

static void
a_job_that_dies_again_and_again_comes_to_its_end(void **state)
{
    struct store_of *st = store_make();
    uint64_t seed = 20261129;
    int series, deaths = 0;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    for (series = 0; series < 30; series++) {
        char *dir = help_dir_make(), fault[64];
        bool ended = false;
        int tries;

        memset(st, 0, sizeof *st);
        for (tries = 0; !ended; tries++) {
            seed = hash_splitmix(seed);
            (void)snprintf(fault, sizeof fault, "%s=%d!",
                           death_points[seed % POINTS],
                           1 + (int)(seed / 7 % 12) + tries / 4);
            ended = live_in_child(
                st, dir, 1 + (uint32_t)(seed / 91 % TASKS_MAX), seed, fault);
            check_visible(st, dir, ended, fault);
            deaths += !ended;
        }
        help_dir_remove(&dir);
    }
    print_message("%d deaths\n", deaths);
    assert_true(deaths > 30);
    (void)munmap(st, sizeof *st);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_row_is_lost_or_doubled_wherever_the_process_dies),
        cmocka_unit_test(a_job_that_dies_again_and_again_comes_to_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
