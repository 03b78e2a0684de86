/* File sink: parts appear whole, numbered on, and only when complete. */
#include <signal.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fault.h"
#include "connect_help.h"

struct run {
    struct arena a;
    char *dir;
    struct conn_env env;
    struct sink *s;
    struct sink_task *t[4];
    uint32_t tasks;
    struct buf out;
};

static void
start(struct run *r, char *dir, const char *more, uint32_t tasks)
{
    char opts[600];
    struct err e;
    uint32_t i;

    memset(r, 0, sizeof *r);
    arena_init(&r->a);
    r->dir = dir;
    (void)snprintf(opts, sizeof opts, "{\"path\":\"%s/x/out\"%s}", dir, more);
    r->env = help_env(&r->a, opts, tasks);
    if (file_sink_type.open(&r->env, &r->s, &e) != 0)
        fail_msg("%s", e.msg);
    r->tasks = tasks;
    for (i = 0; i < tasks; i++) {
        struct conn_task conf = {.subtask = i};

        assert_int_equal(file_sink_type.task_new(r->s, &conf, &r->t[i], &e), 0);
    }
}

static void
stop(struct run *r)
{
    uint32_t i;

    for (i = 0; i < r->tasks; i++)
        if (r->t[i] != NULL)
            file_sink_type.task_free(&r->t[i]);
    file_sink_type.close(&r->s);
    buf_fini(&r->out);
    arena_fini(&r->a);
}

static int
put(struct run *r, uint32_t task, const char *json, struct err *e)
{
    struct rec rec = {
        .val = json, .val_len = (uint32_t)strlen(json), .kind = REC_OBJECT};
    uint64_t bytes = 0;
    int got = file_sink_type.write(r->t[task], &rec, NULL, 0, &bytes, e);

    if (got == 0)
        assert_int_equal(bytes, rec.val_len + 1);
    return got;
}

/* End as a finished job does: flush all, then the last round. */
static void
finish(struct run *r)
{
    struct err e;
    uint32_t i;

    for (i = 0; i < r->tasks; i++)
        assert_int_equal(file_sink_type.flush(r->t[i], &e), 0);
    assert_int_equal(file_sink_type.committed(r->s, 1, true, &e), 0);
}

static const char *
listing(struct run *r)
{
    buf_clear(&r->out);
    help_list(help_path(&r->a, r->dir, "x/out"), &r->out);
    return buf_cstr(&r->out);
}

static const char *
content(struct run *r, const char *name)
{
    buf_clear(&r->out);
    help_read(help_path(&r->a, r->dir, "x/out"), name, &r->out);
    return buf_cstr(&r->out);
}

static void
a_part_appears_under_its_name_when_the_job_has_finished(void **state)
{
    char *dir = help_dir_make();
    struct err e;
    struct run r;

    (void)state;
    start(&r, dir, "", 2);
    assert_int_equal(put(&r, 0, "{\"i\":1}", &e), 0);
    assert_int_equal(put(&r, 1, "{\"i\":2}", &e), 0);
    assert_int_equal(put(&r, 0, "{\"i\":3}", &e), 0);
    assert_int_equal(file_sink_type.batch_end(r.t[0], &e), 0);
    assert_string_equal(listing(&r), ".part-0-000001.jsonl.inprogress\n"
                                     ".part-1-000001.jsonl.inprogress\n");

    finish(&r);

    assert_string_equal(listing(&r),
                        "part-0-000001.jsonl\npart-1-000001.jsonl\n");
    assert_string_equal(content(&r, "part-0-000001.jsonl"),
                        "{\"i\":1}\n{\"i\":3}\n");
    assert_string_equal(content(&r, "part-1-000001.jsonl"), "{\"i\":2}\n");
    stop(&r);
    help_dir_remove(&dir);
}

static void
tasks_may_be_freed_before_the_last_round(void **state)
{
    char *dir = help_dir_make();
    struct err e;
    struct run r;

    (void)state;
    start(&r, dir, "", 2);
    assert_int_equal(put(&r, 1, "{\"i\":1}", &e), 0);
    assert_int_equal(file_sink_type.flush(r.t[1], &e), 0);
    file_sink_type.task_free(&r.t[0]);
    file_sink_type.task_free(&r.t[1]);
    assert_int_equal(file_sink_type.committed(r.s, 1, true, &e), 0);
    assert_string_equal(listing(&r), "part-1-000001.jsonl\n");
    stop(&r);
    help_dir_remove(&dir);
}

static void
a_failed_job_leaves_its_open_parts_in_progress(void **state)
{
    char *dir = help_dir_make();
    struct err e;
    struct run r;

    (void)state;
    start(&r, dir, ",\"roll\":{\"size\":16}", 1);
    assert_int_equal(put(&r, 0, "{\"i\":1,\"more\":\"12345\"}", &e), 0);
    assert_int_equal(put(&r, 0, "{\"i\":2}", &e), 0);
    file_sink_type.task_free(&r.t[0]);
    file_sink_type.close(&r.s);
    /* The first was complete, the second was not. */
    assert_string_equal(listing(&r), ".part-0-000002.jsonl.inprogress\n"
                                     "part-0-000001.jsonl\n");
    assert_string_equal(content(&r, ".part-0-000002.jsonl.inprogress"),
                        "{\"i\":2}\n");
    stop(&r);
    help_dir_remove(&dir);
}

static void
no_record_no_part(void **state)
{
    char *dir = help_dir_make();
    struct rec bad = {
        .val = "NaN", .val_len = 3, .kind = REC_VALUE, .flags = REC_EXT};
    uint64_t bytes = 0;
    struct err e;
    struct run r;

    (void)state;
    start(&r, dir, "", 1);
    assert_int_equal(file_sink_type.write(r.t[0], &bad, NULL, 0, &bytes, &e),
                     ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_ENCODE);
    finish(&r);
    assert_string_equal(listing(&r), "");
    stop(&r);
    help_dir_remove(&dir);
}

static void
parts_roll_by_size_and_go_on_in_the_next(void **state)
{
    char *dir = help_dir_make(), json[32];
    struct buf all, want;
    struct err e;
    struct run r;
    int i;

    (void)state;
    buf_init(&all);
    buf_init(&want);
    start(&r, dir, ",\"roll\":{\"size\":100,\"interval_ms\":60000}", 1);
    for (i = 0; i < 1000; i++) {
        (void)snprintf(json, sizeof json, "{\"i\":%04d}", i);
        assert_int_equal(put(&r, 0, json, &e), 0);
        buf_addf(&want, "%s\n", json);
        if (i == 500)
            assert_int_equal(file_sink_type.tick(r.s, &e), 0);
    }
    finish(&r);
    for (i = 1; i <= 100; i++) {
        char name[64];

        /* 11 bytes a line: the tenth reaches 100 bytes. */
        (void)snprintf(name, sizeof name, "part-0-%06d.jsonl", i);
        assert_int_equal(strlen(content(&r, name)), 110);
        buf_add(&all, r.out.data, r.out.len);
    }
    assert_int_equal(all.len, want.len);
    assert_memory_equal(all.data, want.data, all.len);
    assert_null(strstr(listing(&r), "inprogress"));
    assert_null(strstr(listing(&r), "000101"));
    buf_fini(&all);
    buf_fini(&want);
    stop(&r);
    help_dir_remove(&dir);
}

static void
parts_roll_by_age_also_when_nothing_comes(void **state)
{
    char *dir = help_dir_make();
    sem_t wakes;
    struct conn_task conf = {.wake = help_wake, .wake_arg = &wakes};
    int64_t began;
    struct err e;
    struct run r;

    (void)state;
    (void)sem_init(&wakes, 0, 0);
    start(&r, dir, ",\"roll\":{\"interval_ms\":30}", 1);
    file_sink_type.task_free(&r.t[0]);
    assert_int_equal(file_sink_type.task_new(r.s, &conf, &r.t[0], &e), 0);
    assert_int_equal(put(&r, 0, "{\"i\":1}", &e), 0);
    began = clock_mono_ms();
    do /* what the coordinator does: the task is woken when it is time */
        assert_int_equal(file_sink_type.tick(r.s, &e), 0);
    while (sem_trywait(&wakes) != 0);
    assert_true(clock_mono_ms() - began >= 29);
    assert_int_equal(file_sink_type.batch_end(r.t[0], &e), 0);
    assert_int_equal(file_sink_type.tick(r.s, &e), 0);
    assert_string_equal(listing(&r), "part-0-000001.jsonl\n");
    stop(&r);
    (void)sem_destroy(&wakes);
    help_dir_remove(&dir);
}

static void
a_fresh_start_numbers_on_from_the_highest_part(void **state)
{
    char *dir = help_dir_make();
    struct arena a;
    struct err e;
    struct run r;

    (void)state;
    arena_init(&a);
    start(&r, dir, "", 1);
    stop(&r);
    help_file(help_path(&a, dir, "x/out"), "part-3-000007.csv", "", 0);
    help_file(help_path(&a, dir, "x/out"), ".part-0-000011.jsonl.inprogress",
              "", 0);
    help_file(help_path(&a, dir, "x/out"), "part-0-99x.jsonl", "", 0);
    help_file(help_path(&a, dir, "x/out"), "other-0-000099.jsonl", "", 0);
    start(&r, dir, "", 2);
    assert_int_equal(put(&r, 1, "{}", &e), 0);
    finish(&r);
    assert_string_equal(content(&r, "part-1-000012.jsonl"), "{}\n");
    stop(&r);
    start(&r, dir, "", 2);
    assert_int_equal(put(&r, 0, "{}", &e), 0);
    finish(&r);
    assert_string_equal(content(&r, "part-0-000013.jsonl"), "{}\n");
    stop(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
each_csv_part_begins_with_the_header(void **state)
{
    char *dir = help_dir_make();
    struct err e;
    struct run r;

    (void)state;
    start(&r, dir,
          ",\"format\":\"csv\",\"header\":true,\"roll\":{\"size\":12},"
          "\"fields\":[{\"name\":\"b\",\"type\":\"int\"},"
          "{\"name\":\"a\",\"type\":\"string\"}]",
          1);
    for (int i = 0; i < 3; i++) {
        struct buf json;
        struct rec rec = {.kind = REC_OBJECT};
        uint64_t bytes = 0;

        buf_init(&json);
        buf_addf(&json, "{\"a\":\"x,%d\",\"b\":%d}", i, i);
        buf_reserve(&json, REC_PAD);
        rec.val = json.data;
        rec.val_len = (uint32_t)json.len;
        assert_int_equal(
            file_sink_type.write(r.t[0], &rec, NULL, 0, &bytes, &e), 0);
        assert_int_equal(bytes, 8);
        buf_fini(&json);
    }
    finish(&r);
    assert_string_equal(content(&r, "part-0-000001.csv"), "b,a\n0,\"x,0\"\n");
    assert_string_equal(content(&r, "part-0-000003.csv"), "b,a\n2,\"x,2\"\n");
    stop(&r);
    help_dir_remove(&dir);
}

static void
a_tombstone_is_null_in_json_and_refused_elsewhere(void **state)
{
    char *dir = help_dir_make();
    struct rec dead = {.kind = REC_TOMBSTONE};
    uint64_t bytes = 0;
    struct err e;
    struct run r;

    (void)state;
    start(&r, dir, "", 1);
    assert_int_equal(file_sink_type.write(r.t[0], &dead, NULL, 0, &bytes, &e),
                     0);
    finish(&r);
    assert_string_equal(content(&r, "part-0-000001.jsonl"), "null\n");
    stop(&r);
    start(&r, dir, ",\"format\":\"text\"", 1);
    assert_int_equal(file_sink_type.write(r.t[0], &dead, NULL, 0, &bytes, &e),
                     ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_ENCODE);
    finish(&r);
    stop(&r);
    help_dir_remove(&dir);
}

static void
a_full_disk_is_an_error_that_names_the_part(void **state)
{
    char *dir = help_dir_make(), big[2000];
    struct rlimit old, small;
    struct err e;
    struct run r;
    int i, got = 0;

    (void)state;
    /* A limit on file sizes stands in for the end of the disk. */
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    memset(big, ' ', sizeof big);
    big[0] = '{';
    big[sizeof big - 2] = '}';
    big[sizeof big - 1] = '\0';
    start(&r, dir, "", 1);
    for (i = 0; i < 1000 && got == 0; i++)
        got = put(&r, 0, big, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(got, ERR_IO);
    assert_int_equal(err_exit_code(e.code), 74);
    assert_non_null(strstr(e.msg, "x/out/part-0-000001.jsonl': "));
    stop(&r);
    help_dir_remove(&dir);
}

static void
what_cannot_be_synced_is_not_shown(void **state)
{
#ifdef STREAMLUA_TEST_MODE
    char *dir = help_dir_make();
    struct err e;
    struct run r;

    (void)state;
    start(&r, dir, "", 1);
    assert_int_equal(put(&r, 0, "{}", &e), 0);
    fault_setup("file_sink_sync=1");
    assert_int_equal(file_sink_type.committed(r.s, 1, true, &e), ERR_IO);
    fault_setup(NULL);
    assert_non_null(strstr(e.msg, "cannot sync '"));
    assert_string_equal(listing(&r), ".part-0-000001.jsonl.inprogress\n");
    stop(&r);
    help_dir_remove(&dir);
#else
    (void)state;
    skip();
#endif
}

static void
a_path_that_is_no_directory_is_refused_at_open(void **state)
{
    char *dir = help_dir_make();
    struct sink *s = NULL;
    struct conn_env env;
    struct arena a;
    struct buf b;
    struct err e;

    (void)state;
    arena_init(&a);
    buf_init(&b);
    help_file(dir, "file", "x", 1);
    buf_addf(&b, "{\"path\":\"%s/file/out\"}", dir);
    env = help_env(&a, buf_cstr(&b), 1);
    assert_int_equal(file_sink_type.open(&env, &s, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/file/out'"));
    assert_null(s);
    buf_fini(&b);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
the_blackhole_encodes_and_counts(void **state)
{
    struct rec rec = {.val = "{\"a\":1}", .val_len = 7, .kind = REC_OBJECT};
    struct rec bad = {
        .val = "NaN", .val_len = 3, .kind = REC_VALUE, .flags = REC_EXT};
    struct conn_task conf = {0};
    struct sink_task *t = NULL;
    struct sink *s = NULL;
    struct conn_env env;
    uint64_t bytes = 0;
    struct arena a;
    struct err e;

    (void)state;
    arena_init(&a);
    env = help_env(&a, "{}", 1);
    assert_int_equal(blackhole_sink_type.open(&env, &s, &e), 0);
    assert_int_equal(blackhole_sink_type.task_new(s, &conf, &t, &e), 0);
    assert_true(blackhole_sink_type.ready(t));
    assert_int_equal(blackhole_sink_type.write(t, &rec, NULL, 0, &bytes, &e),
                     0);
    assert_int_equal(bytes, 7);
    assert_int_equal(blackhole_sink_type.write(t, &bad, NULL, 0, &bytes, &e),
                     ERR_RECORD);
    assert_int_equal(blackhole_sink_type.flush(t, &e), 0);
    blackhole_sink_type.task_free(&t);
    blackhole_sink_type.close(&s);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_part_appears_under_its_name_when_the_job_has_finished),
        cmocka_unit_test(tasks_may_be_freed_before_the_last_round),
        cmocka_unit_test(a_failed_job_leaves_its_open_parts_in_progress),
        cmocka_unit_test(no_record_no_part),
        cmocka_unit_test(parts_roll_by_size_and_go_on_in_the_next),
        cmocka_unit_test(parts_roll_by_age_also_when_nothing_comes),
        cmocka_unit_test(a_fresh_start_numbers_on_from_the_highest_part),
        cmocka_unit_test(each_csv_part_begins_with_the_header),
        cmocka_unit_test(a_tombstone_is_null_in_json_and_refused_elsewhere),
        cmocka_unit_test(a_full_disk_is_an_error_that_names_the_part),
        cmocka_unit_test(what_cannot_be_synced_is_not_shown),
        cmocka_unit_test(a_path_that_is_no_directory_is_refused_at_open),
        cmocka_unit_test(the_blackhole_encodes_and_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
