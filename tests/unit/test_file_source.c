/* File source: every line once, in order, at its byte offset. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "connect/lines.h"
#include "file_reader.h"

static void
lines_come_with_their_byte_offsets(void **state)
{
    static const char bytes[] = "{\"i\":1}\n \t\r\n{\"i\":2}\r\n\n{\"i\": 3}";
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    run_all(&r, dir, "a", "", 100);
    assert_string_equal(buf_cstr(&r.g.text), "/a@0:{\"i\":1}\n"
                                             "/a@12:{\"i\":2}\n"
                                             "/a@22:{\"i\": 3}\n");
    assert_int_equal(r.g.added, 1);
    assert_int_equal(r.g.ended, 1);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
directory_and_glob_are_sorted_without_dots_and_folders(void **state)
{
    char *dir = help_dir_make();
    struct arena a;
    struct run r;

    (void)state;
    arena_init(&a);
    help_file(dir, "b.txt", "B\n", 2);
    help_file(dir, "a.txt", "A\n", 2);
    help_file(dir, "Z.txt", "Z", 1);
    help_file(dir, ".h.txt", "H\n", 2);
    help_file(dir, "c.log", "C\n", 2);
    help_file(dir, "empty.txt", "", 0);
    assert_int_equal(mkdir(help_path(&a, dir, "d.txt"), 0777), 0);
    help_file(dir, "d.txt/inner", "I\n", 2);

    run_all(&r, dir, "", RAW, 1);
    assert_string_equal(buf_cstr(&r.g.text), "/Z.txt@0:Z\n/a.txt@0:A\n"
                                             "/b.txt@0:B\n/c.log@0:C\n");
    assert_int_equal(r.g.added, 5);
    assert_int_equal(r.g.ended, 5);
    close_run(&r);
    run_all(&r, dir, "*.txt", RAW, 1);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/Z.txt@0:Z\n/a.txt@0:A\n/b.txt@0:B\n");
    close_run(&r);
    run_all(&r, dir, ".h.txt", RAW, 1); /* named, so it is meant */
    assert_string_equal(buf_cstr(&r.g.text), "/.h.txt@0:H\n");
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
what_cannot_be_read_is_an_error_that_names_it(void **state)
{
    char *dir = help_dir_make();
    struct arena a;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "no", ""), 1, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/no': No such file"));
    assert_string_equal(e.where, "job.lua:2");
    arena_fini(&r.a);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "*.x", ""), 1, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "no file matches"));
    assert_non_null(strstr(e.msg, "/*.x'"));
    arena_fini(&r.a);
    assert_int_equal(mkfifo(help_path(&a, dir, "pipe"), 0666), 0);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "pipe", ""), 1, &e),
                     ERR_IO);
    assert_non_null(strstr(e.msg, "/pipe'"));
    arena_fini(&r.a);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
an_empty_directory_is_an_empty_input(void **state)
{
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    run_all(&r, dir, "", RAW, 1);
    assert_int_equal(r.g.added, 0);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
file_i_belongs_to_task_i_mod_parallelism(void **state)
{
    char *dir = help_dir_make(), name[8], want[32];
    struct arena a;
    struct run r;
    struct err e;
    uint32_t i;

    (void)state;
    arena_init(&a);
    for (i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        help_file(dir, name, "x\n", 2);
    }
    assert_int_equal(open_run(&r, opts_for(&a, dir, "", RAW), 7, &e), 0);
    for (i = 0; i < 7; i++) {
        task(&r, i);
        buf_clear(&r.g.text);
        assert_true(poll_some(&r, dir, 10, -1));
        (void)snprintf(want, sizeof want, "/f%u@0:x\n", i);
        assert_string_equal(buf_cstr(&r.g.text), i < 5 ? want : "");
    }
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
bad_records_are_given_with_their_reason(void **state)
{
    static const char bytes[] = "{\"a\":1}\n{\"b\":\"\xff\"}\nnonsense\n"
                                "{\"c\":3}\n";
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    run_all(&r, dir, "a", "", 100);
    assert_int_equal(r.g.records, 4);
    assert_int_equal(r.g.bad, 2);
    assert_int_equal(r.g.cause, CAUSE_DECODE);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/a@0:{\"a\":1}\n/a@8:{\"b\":\"\xff\"}\n"
                        "/a@18:nonsense\n/a@27:{\"c\":3}\n");
    close_run(&r);
    help_dir_remove(&dir);
}

static void
a_quoted_newline_does_not_end_a_csv_record(void **state)
{
    static const char bytes[] = "id,text\n1,\"a\nb\"\n2,\"say \"\"hi\"\"\n\n"
                                "x\"\n3,5\" wide\n4,\"end\"";
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "a.csv", bytes, sizeof bytes - 1);
    run_all(&r, dir, "a.csv",
            ",\"format\":\"csv\",\"header\":true,\"delimiter\":\",\"", 1);
    assert_non_null(strstr(buf_cstr(&r.g.text),
                           "/a.csv@8:{\"id\":\"1\",\"text\":\"a\\nb\"}\n"));
    assert_non_null(strstr(buf_cstr(&r.g.text),
                           "/a.csv@16:{\"id\":\"2\",\"text\":"
                           "\"say \\\"hi\\\"\\n\\nx\"}\n"));
    assert_non_null(strstr(buf_cstr(&r.g.text), "/a.csv@34:"));
    assert_non_null(strstr(buf_cstr(&r.g.text),
                           "/a.csv@44:{\"id\":\"4\",\"text\":\"end\"}\n"));
    assert_int_equal(r.g.records, 4);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
each_csv_file_has_its_own_header(void **state)
{
    char *dir = help_dir_make();
    struct run r;

    (void)state;
    help_file(dir, "1", "a,b\n1,2\n3,4\n", 12);
    help_file(dir, "2", "b,a\n5,6\n7,8\n", 12);
    run_all(&r, dir, "", ",\"format\":\"csv\",\"header\":true", 1);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/1@4:{\"a\":\"1\",\"b\":\"2\"}\n"
                        "/1@8:{\"a\":\"3\",\"b\":\"4\"}\n"
                        "/2@4:{\"b\":\"5\",\"a\":\"6\"}\n"
                        "/2@8:{\"b\":\"7\",\"a\":\"8\"}\n");
    close_run(&r);
    help_dir_remove(&dir);
}

static void
a_line_of_the_size_limit_is_read_and_a_longer_one_is_bad(void **state)
{
    size_t size = (size_t)LINE_SIZE_MAX;
    char *dir = help_dir_make(), *bytes = mem_alloc(2 * size + 16);
    struct source_event ev;
    struct batch b;
    struct run r;
    struct err e;
    struct arena a;

    (void)state;
    arena_init(&a);
    memset(bytes, 'x', 2 * size + 16);
    bytes[size] = '\n';         /* a line of the limit */
    bytes[2 * size + 2] = '\n'; /* one byte longer */
    bytes[2 * size + 3] = 'y';
    help_file(dir, "a", bytes, 2 * size + 4);
    free(bytes);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    batch_init(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);

    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    assert_int_equal(b.recs[0].val_len, size);
    assert_int_equal(ev.bad_count, 0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    assert_int_equal(b.n, 1);
    assert_int_equal(ev.bad_count, 1);
    assert_int_equal(ev.bad[0].cause, CAUSE_DECODE);
    assert_int_equal(b.recs[0].offset, size + 1);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.recs[0].val_len, 1);
    assert_int_equal(b.recs[0].val[0], 'y');
    assert_int_equal(b.recs[0].offset, 2 * size + 3);
    batch_fini(&b);
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
files_of_any_lines_are_given_whole_and_in_order(void **state)
{
    uint64_t seed = 7331;
    int round, f;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    for (round = 0; round < 12; round++) {
        char *dir = help_dir_make();
        struct buf want[5], bytes, got;
        char name[16], topic[16];
        uint32_t max;
        struct run r;

        for (f = 0; f < 5; f++) {
            (void)snprintf(name, sizeof name, "f%d", f);
            (void)snprintf(topic, sizeof topic, "/f%d", f);
            buf_init(&bytes);
            buf_init(&want[f]);
            random_file(&seed, topic, &bytes, &want[f]);
            help_file(dir, name, buf_cstr(&bytes), bytes.len);
            buf_fini(&bytes);
        }
        seed = hash_splitmix(seed);
        max = 1 + (uint32_t)(seed % 300);
        run_all(&r, dir, "", RAW, max);
        for (f = 0; f < 5; f++) {
            (void)snprintf(topic, sizeof topic, "/f%d@", f);
            buf_init(&got);
            (void)buf_cstr(&r.g.text);
            if (r.g.text.len != 0)
                lines_of(&r.g.text, topic, &got);
            assert_int_equal(got.len, want[f].len);
            assert_memory_equal(buf_cstr(&got), buf_cstr(&want[f]), got.len);
            buf_fini(&got);
            buf_fini(&want[f]);
        }
        assert_int_equal(r.g.ended, 5);
        close_run(&r);
        help_dir_remove(&dir);
    }
}

/* Feed `size` bytes of 'x' in pieces as a pipe gives them. */
static void
feed(struct lines *l, size_t size)
{
    while (size > 0) {
        size_t room, n;
        char *to = lines_space(l, &room);

        n = room < 65536 ? room : 65536;
        n = n < size ? n : size;
        memset(to, 'x', n);
        lines_filled(l, n);
        size -= n;
    }
}

static void
the_rest_of_a_line_that_is_too_long_is_dropped(void **state)
{
    struct line line;
    struct lines l;
    size_t room;

    (void)state;
    lines_init(&l, false, ',');
    lines_start(&l, 0);
    feed(&l, (size_t)LINE_SIZE_MAX + 1);
    assert_int_equal(lines_next(&l, false, &line), LINE_TOO_LONG);
    assert_int_equal(line.len, LINE_CUT);
    assert_int_equal(lines_next(&l, false, &line), LINE_NONE);
    feed(&l, 100);
    assert_int_equal(lines_next(&l, false, &line), LINE_NONE);
    memcpy(lines_space(&l, &room), "x\nabc\n", 6);
    lines_filled(&l, 6);
    assert_int_equal(lines_next(&l, false, &line), LINE_OK);
    assert_int_equal(line.len, 3);
    assert_memory_equal(line.bytes, "abc", 3);
    assert_int_equal(line.offset, (int64_t)LINE_SIZE_MAX + 103);
    assert_int_equal(lines_next(&l, true, &line), LINE_NONE);
    lines_fini(&l);
}

static void
more_files_than_may_be_open_are_read_in_turns(void **state)
{
    enum { FILES = 90, LINES = 300, LINE = 1000 }; /* more than a block each */
    char *dir = help_dir_make(), *bytes = mem_alloc(LINES * LINE), name[16];
    struct rlimit old, small;
    struct run r;
    int f;

    (void)state;
    memset(bytes, 'x', LINES * LINE);
    for (f = LINE - 1; f < LINES * LINE; f += LINE)
        bytes[f] = '\n';
    for (f = 0; f < FILES; f++) {
        (void)snprintf(name, sizeof name, "f%03d", f);
        help_file(dir, name, bytes, LINES * LINE);
    }
    free(bytes);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    small = old;
    small.rlim_cur = 80;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    run_all(&r, dir, "", RAW, 200);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(r.g.records, FILES * LINES);
    assert_int_equal(r.g.ended, FILES);
    close_run(&r);
    help_dir_remove(&dir);
}

static void
stopping_ends_and_the_position_is_that_of_the_next_line(void **state)
{
    char *dir = help_dir_make();
    struct step_blobs blobs = {0};
    struct arena a;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    help_file(dir, "a", "11\n22\n33\n", 9);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 2, 2));
    file_source_type.stop(r.s);
    assert_true(poll_some(&r, dir, 2, -1));
    assert_int_equal(r.g.records, 2);
    assert_int_equal(r.g.ended, 0);
    keep(&r, &blobs);
    close_run(&r);

    assert_int_equal(open_from(&r, &blobs, opts_for(&a, dir, "a", RAW), 1, &e),
                     0);
    task(&r, 0);
    assert_true(poll_some(&r, dir, 2, -1));
    assert_string_equal(buf_cstr(&r.g.text), "/a@6:33\n");
    close_run(&r);
    help_blobs_free(&blobs);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
a_file_that_shrinks_or_goes_is_never_skipped(void **state)
{
    char *dir = help_dir_make();
    struct source_event ev;
    struct arena a;
    struct batch b;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    batch_init(&b);
    help_file(dir, "a", "11\n22\n33\n", 9);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    assert_int_equal(truncate(help_path(&a, dir, "a"), 4), 0);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), 0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "became shorter"));
    close_run(&r);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    assert_int_equal(unlink(help_path(&a, dir, "a")), 0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a': No such file"));
    close_run(&r);
    help_file(dir, "a", "11\n", 3);
    help_file(dir, "b", "22\n", 3);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    assert_int_equal(rename(help_path(&a, dir, "b"), help_path(&a, dir, "a")),
                     0);
    batch_clear(&b);
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "was replaced"));
    batch_fini(&b);
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
a_read_that_fails_names_the_file(void **state)
{
#ifdef STREAMLUA_TEST_MODE
    char *dir = help_dir_make();
    struct source_event ev;
    struct arena a;
    struct batch b;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    batch_init(&b);
    help_file(dir, "a", "11\n", 3);
    assert_int_equal(open_run(&r, opts_for(&a, dir, "a", RAW), 1, &e), 0);
    task(&r, 0);
    assert_false(poll_some(&r, dir, 1, 1));
    fault_setup("file_source_read=1");
    assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
    fault_setup(NULL);
    assert_non_null(strstr(e.msg, "/a': Input/output error"));
    batch_fini(&b);
    close_run(&r);
    arena_fini(&a);
    help_dir_remove(&dir);
#else
    (void)state;
    skip();
#endif
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_with_their_byte_offsets),
        cmocka_unit_test(
            directory_and_glob_are_sorted_without_dots_and_folders),
        cmocka_unit_test(what_cannot_be_read_is_an_error_that_names_it),
        cmocka_unit_test(an_empty_directory_is_an_empty_input),
        cmocka_unit_test(file_i_belongs_to_task_i_mod_parallelism),
        cmocka_unit_test(bad_records_are_given_with_their_reason),
        cmocka_unit_test(a_quoted_newline_does_not_end_a_csv_record),
        cmocka_unit_test(each_csv_file_has_its_own_header),
        cmocka_unit_test(
            a_line_of_the_size_limit_is_read_and_a_longer_one_is_bad),
        cmocka_unit_test(files_of_any_lines_are_given_whole_and_in_order),
        cmocka_unit_test(the_rest_of_a_line_that_is_too_long_is_dropped),
        cmocka_unit_test(more_files_than_may_be_open_are_read_in_turns),
        cmocka_unit_test(
            stopping_ends_and_the_position_is_that_of_the_next_line),
        cmocka_unit_test(a_file_that_shrinks_or_goes_is_never_skipped),
        cmocka_unit_test(a_read_that_fails_names_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
