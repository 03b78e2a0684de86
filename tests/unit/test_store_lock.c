#include "store_util.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* --- two processes, one folder
 * ------------------------------------------------ */

static void
a_second_process_is_refused_by_name_of_the_first(void **state)
{
    char *dir = temp_dir(), pid_text[32];
    struct store_opts o = {.dir = dir, .create = true, .any_fs = true};
    struct store *s = NULL;
    int to_parent[2], to_child[2], status = -1;
    char c = 0;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(to_parent) | pipe(to_child), 0);
    pid = fork();
    if (pid == 0) {
        c = (char)(store_open(&o, &s, &err) == 0);
        if (write(to_parent[1], &c, 1) != 1 || read(to_child[0], &c, 1) != 1)
            _exit(1);
        raise(SIGKILL); /* the lock dies with its owner */
    }
    assert_int_equal(read(to_parent[0], &c, 1), 1);
    assert_int_equal(c, 1);

    assert_int_equal(store_open(&o, &s, &err), ERR_BUSY);
    (void)snprintf(pid_text, sizeof pid_text, "pid=%ld ", (long)pid);
    assert_non_null(strstr(err.msg, pid_text));
    assert_non_null(strstr(err.msg, "host="));
    assert_non_null(strstr(err.msg, "boot="));
    assert_non_null(strstr(err.msg, dir));
    assert_int_equal(err_exit_code(err.code), 73);

    assert_int_equal(write(to_child[1], &c, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    must(store_open(&o, &s, &err));
    store_close(&s);
    remove_dir(dir);
    free(dir);
}

static void
one_process_does_not_open_it_twice(void **state)
{
    char *dir = temp_dir();
    struct store_opts o = {.dir = dir, .create = true, .any_fs = true};
    struct store *s = open_store(dir), *t = NULL;

    (void)state;
    assert_int_equal(store_open(&o, &t, &err), ERR_BUSY);
    assert_null(t);
    store_close(&s);
    must(store_open(&o, &t, &err));
    store_close(&t);
    remove_dir(dir);
    free(dir);
}

static void
a_folder_without_a_store_is_said(void **state)
{
    char *dir = temp_dir(), path[300];
    struct store_opts o = {.dir = dir, .any_fs = true};
    struct store_verified v;
    struct store *s = NULL;

    (void)state;
    assert_int_equal(store_open(&o, &s, &err), ERR_IO);
    assert_non_null(strstr(err.msg, dir));
    o.read_only = true;
    assert_int_equal(store_open(&o, &s, &err), ERR_IO);
    assert_int_equal(store_verify(dir, &v, &err), ERR_IO);
    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    o = (struct store_opts){.dir = path, .create = true, .any_fs = true};
    assert_int_equal(store_open(&o, &s, &err), ERR_BUSY);
    assert_int_equal(err_exit_code(err.code), 73);
    remove_dir(dir);
    free(dir);
}

/* --- a full disk
 * --------------------------------------------------------------- */

/* Rounds until one fails, then with room again until all is well. */
static int
fill(const char *dir, void (*make_room)(void))
{
    struct store_opts o = {.dir = dir, .create = true, .any_fs = true};
    struct store *s = NULL;
    struct model m, next;
    uint64_t n;
    int r = store_open(&o, &s, &err);

    model_init(&m, 400);
    model_init(&next, 400);
    for (n = 1; r == 0 && n < 1000; n++) {
        model_copy(&next, &m);
        r = stage_random(s, &next, 800, n, &err);
        if (r == 0)
            r = store_round_write(s, STORE_COMPLETE, &err);
        if (r == 0)
            model_copy(&m, &next);
    }
    n--;
    if (r != ERR_IO || n < 2 || strstr(err.msg, dir) == NULL ||
        strstr(err.hint, "full") == NULL)
        return 10;
    compare(s, STORE_VIEW_COMPLETE, &m);
    make_room();
    if ((err.flags & ERR_FATAL) != 0) { /* or the handle says: reopen */
        store_close(&s);
        if (store_open(&o, &s, &err) != 0 ||
            stage_random(s, &next, 800, n, &err) != 0)
            return 11;
    }
    if (store_round_write(s, STORE_COMPLETE, &err) != 0)
        return 12;
    while ((r = store_merge(s, 1000, &err)) == 1)
        continue;
    if (r == 0)
        compare(s, STORE_VIEW_COMPLETE, &next);
    store_close(&s);
    model_fini(&m);
    model_fini(&next);
    return r == 0 ? 0 : 13;
}

static void
lift_limit(void)
{
    struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY};

    (void)setrlimit(RLIMIT_FSIZE, &l);
}

static void
a_file_that_may_not_grow_is_an_error_until_it_may(void **state)
{
    char *dir = temp_dir();
    int status = -1;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct rlimit l = {2 << 20, RLIM_INFINITY};

        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &l) != 0)
            _exit(9);
        _exit(fill(dir, lift_limit));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    remove_dir(dir);
    free(dir);
}

static char mounted[300];

static void
remount_larger(void)
{
    (void)mount("none", mounted, "tmpfs", MS_REMOUNT, "size=64m");
}

static int
read_only_life(const char *dir)
{
    struct store_opts o = {.dir = dir, .create = true, .any_fs = true};
    struct store_verified v;
    struct store *s = NULL;
    struct model m;

    model_init(&m, 50);
    if (store_open(&o, &s, &err) != 0 ||
        stage_random(s, &m, 50, 1, &err) != 0 ||
        store_round_write(s, STORE_COMPLETE, &err) != 0)
        return 20;
    store_close(&s);
    if (mount("none", mounted, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return 77;
    if (store_open(&o, &s, &err) != ERR_IO || strstr(err.msg, dir) == NULL)
        return 21;
    o.create = false;
    o.read_only = true;
    if (store_open(&o, &s, &err) != 0)
        return 22;
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    model_fini(&m);
    return store_verify(dir, &v, &err) == 0 && v.round == 1 ? 0 : 23;
}

/* Run `life` on a small disk of its own. @return its exit code, 77 = skip. */
static int
on_small_disk(int (*life)(const char *dir))
{
    char *dir = temp_dir();
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        char sub[320];

        (void)snprintf(mounted, sizeof mounted, "%s", dir);
        (void)snprintf(sub, sizeof sub, "%s/job", dir);
        if (unshare(CLONE_NEWNS) != 0 ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", dir, "tmpfs", 0, "size=2m") != 0)
            _exit(77);
        _exit(life(sub));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    remove_dir(dir);
    free(dir);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int
full_disk_life(const char *dir)
{
    return fill(dir, remount_larger);
}

/* Where a test may mount: a namespace of its own. */
static void
a_full_disk_is_an_error_until_there_is_room(void **state)
{
    int r = on_small_disk(full_disk_life);

    (void)state;
    if (r == 77)
        skip();
    assert_int_equal(r, 0);
}

static void
a_read_only_disk_can_be_read(void **state)
{
    int r = on_small_disk(read_only_life);

    (void)state;
    if (r == 77)
        skip();
    assert_int_equal(r, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_process_is_refused_by_name_of_the_first),
        cmocka_unit_test(one_process_does_not_open_it_twice),
        cmocka_unit_test(a_folder_without_a_store_is_said),
        cmocka_unit_test(a_file_that_may_not_grow_is_an_error_until_it_may),
        cmocka_unit_test(a_full_disk_is_an_error_until_there_is_room),
        cmocka_unit_test(a_read_only_disk_can_be_read),
    };

    return cmocka_run_group_tests_name("store_lock", tests, NULL, NULL);
}
