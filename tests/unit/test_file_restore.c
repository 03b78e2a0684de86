/* File source after a restore: every line once, whatever came in between. */
#include <stdio.h>

#include "connect/lines.h"
#include "file_reader.h"

static void
any_number_of_tasks_goes_on_where_the_others_were(void **state)
{
    uint64_t seed = 4242;
    int round, f;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    for (round = 0; round < 20; round++) {
        struct buf all, want[5], bytes, got;
        struct step_blobs blobs = {0};
        char *dir = help_dir_make();
        char name[16];
        uint32_t i, tasks;
        struct arena a;
        struct run r;
        struct err e;

        arena_init(&a);
        buf_init(&all);
        for (f = 0; f < 5; f++) {
            (void)snprintf(name, sizeof name, "/f%d", f);
            buf_init(&bytes);
            buf_init(&want[f]);
            random_file(&seed, name, &bytes, &want[f]);
            help_file(dir, name + 1, buf_cstr(&bytes), bytes.len);
            buf_fini(&bytes);
        }

        tasks = 1 + (uint32_t)(round % 4);
        assert_int_equal(open_run(&r, opts_for(&a, dir, "", RAW), tasks, &e),
                         0);
        for (i = 0; i < tasks; i++) {
            task(&r, i);
            seed = hash_splitmix(seed);
            (void)poll_some(&r, dir, 7, 3 + (int)(seed % 80));
            keep(&r, &blobs);
        }
        buf_add(&all, r.g.text.data, r.g.text.len);
        close_run(&r);
        tasks = 1 + (uint32_t)(seed % 6);
        assert_int_equal(
            open_from(&r, &blobs, opts_for(&a, dir, "", RAW), tasks, &e), 0);
        for (i = 0; i < tasks; i++) {
            task(&r, i);
            assert_true(poll_some(&r, dir, 100, -1));
        }
        buf_add(&all, r.g.text.data, r.g.text.len);
        assert_int_equal(r.g.added, 5);
        assert_int_equal(r.g.ended, 5);
        assert_int_equal(r.g.discovered, 0);
        close_run(&r);

        (void)buf_cstr(&all);
        for (f = 0; f < 5; f++) {
            (void)snprintf(name, sizeof name, "/f%d@", f);
            buf_init(&got);
            if (all.len != 0)
                lines_of(&all, name, &got);
            assert_string_equal(buf_cstr(&got), buf_cstr(&want[f]));
            buf_fini(&got);
            buf_fini(&want[f]);
        }
        buf_fini(&all);
        help_blobs_free(&blobs);
        arena_fini(&a);
        help_dir_remove(&dir);
    }
}

static void
a_csv_file_goes_on_with_its_header(void **state)
{
    static const char bytes[] = "\"i\nd\",b\n1,2\n\"3\n\",4\n5,6\n";
    char *dir = help_dir_make();
    int records;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    for (records = 0; records <= 3; records++) {
        static const char *const all[] = {
            "/a@8:{\"i\\nd\":\"1\",\"b\":\"2\"}\n",
            "/a@12:{\"i\\nd\":\"3\\n\",\"b\":\"4\"}\n",
            "/a@19:{\"i\\nd\":\"5\",\"b\":\"6\"}\n"};
        struct step_blobs blobs = {0};
        struct buf want;
        struct run r;
        struct err e;
        int i;

        buf_init(&want);
        for (i = records; i < 3; i++)
            buf_adds(&want, all[i]);
        read_some(&blobs, dir, "a", HEADER, 1 + records);
        assert_int_equal(read_on(&r, &blobs, dir, "a", HEADER, &e), 0);
        assert_string_equal(buf_cstr(&r.g.text), buf_cstr(&want));
        assert_int_equal(r.g.bad, 0);
        close_run(&r);
        buf_fini(&want);
        help_blobs_free(&blobs);
    }
    help_dir_remove(&dir);
}

static void
a_bad_line_before_the_csv_header_is_skipped_again(void **state)
{
    static const char bytes[] = "\xff\na,b\n1,2\n3,4\n";
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct run r;
    struct err e;

    (void)state;
    help_file(dir, "a", bytes, sizeof bytes - 1);
    read_some(&blobs, dir, "a", HEADER, 3); /* the bad one and 1,2 */
    assert_int_equal(read_on(&r, &blobs, dir, "a", HEADER, &e), 0);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/a@10:{\"a\":\"3\",\"b\":\"4\"}\n");
    close_run(&r);
    help_blobs_free(&blobs);
    help_dir_remove(&dir);
}

static void
what_came_or_grew_since_is_read_and_the_rest_has_ended(void **state)
{
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct run r;
    struct err e;

    (void)state;
    help_file(dir, "b", "1\n2\n", 4);
    help_file(dir, "c", "3\n4", 3);
    help_file(dir, "d", "5\r", 2);
    help_file(dir, "e", "", 0);
    read_some(&blobs, dir, "", RAW, -1);

    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), 0);
    assert_int_equal(r.g.records, 0);
    assert_int_equal(r.g.added, 4);
    assert_int_equal(r.g.ended, 4);
    close_run(&r);

    help_file(dir, "a", "new\n", 4);
    help_file(dir, "b", "1\n2\n6\n", 6);
    help_file(dir, "c", "3\n4\n7\n", 6);
    help_file(dir, "d", "5\r\n8\n", 5);
    help_file(dir, "e", "9", 1);
    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), 0);
    assert_string_equal(buf_cstr(&r.g.text),
                        "/a@0:new\n/b@4:6\n/c@4:7\n/d@3:8\n/e@0:9\n");
    assert_int_equal(r.g.discovered, 1);
    assert_int_equal(r.g.ended, 5);
    close_run(&r);
    help_blobs_free(&blobs);
    help_dir_remove(&dir);
}

static void
a_file_that_is_gone_or_shorter_than_its_position_is_an_error(void **state)
{
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct arena a;
    struct run r;
    struct err e;

    (void)state;
    arena_init(&a);
    help_file(dir, "a", "1\n2\n", 4);
    help_file(dir, "b", "3\n4\n", 4);
    read_some(&blobs, dir, "", RAW, -1);

    help_file(dir, "a", "1\n2", 3);
    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a' has 3 bytes"));
    assert_non_null(strstr(e.msg, "has read 4"));
    assert_string_equal(e.where, "job.lua:2");
    assert_non_null(strstr(e.hint, "--fresh"));
    assert_int_equal(unlink(help_path(&a, dir, "a")), 0);
    assert_int_equal(read_on(&r, &blobs, dir, "", RAW, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a' is gone"));
    assert_non_null(strstr(e.msg, " 4 bytes"));
    assert_non_null(strstr(e.hint, "--fresh"));
    assert_int_equal(unlink(help_path(&a, dir, "b")), 0);
    assert_int_equal(read_on(&r, &blobs, dir, "*", RAW, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/a' is gone"));
    help_blobs_free(&blobs);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
a_file_with_other_lines_than_those_that_were_read_is_an_error(void **state)
{
    static const struct {
        const char *before, *after, *msg;
        int polls;
    } cases[] = {
        {"11\n22\n", "1111\n22\n", "no line ends at the position", 2},
        {"11\n22", "11\n2233\n", "its last line went on", -1},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step_blobs blobs = {0};
        char *dir = help_dir_make();
        struct source_event ev;
        struct arena a;
        struct batch b;
        struct run r;
        struct err e;

        arena_init(&a);
        batch_init(&b);
        help_file(dir, "a", cases[i].before, strlen(cases[i].before));
        read_some(&blobs, dir, "a", RAW, cases[i].polls);
        help_file(dir, "a", cases[i].after, strlen(cases[i].after));
        assert_int_equal(
            open_from(&r, &blobs, opts_for(&a, dir, "a", RAW), 1, &e), 0);
        task(&r, 0);
        assert_false(poll_some(&r, dir, 1, 1));
        assert_int_equal(file_source_type.poll(r.t, &b, 1, &ev, &e), ERR_IO);
        assert_non_null(strstr(e.msg, "/a' was changed"));
        assert_non_null(strstr(e.msg, cases[i].msg));
        assert_int_equal(b.n, 0);
        close_run(&r);
        batch_fini(&b);
        arena_fini(&a);
        help_blobs_free(&blobs);
        help_dir_remove(&dir);
    }
}

static void
the_rest_of_a_line_that_is_too_long_is_no_record_after_a_restore(void **state)
{
    /* More than the block that is read before the line is given up. */
    int64_t size = 3 * (int64_t)LINE_SIZE_MAX;
    char *dir = help_dir_make(), want[32];
    struct step_blobs blobs = {0};
    struct arena a;
    struct run r;
    struct err e;
    FILE *f;

    (void)state;
    arena_init(&a);
    f = fopen(help_path(&a, dir, "a"), "wb");
    assert_non_null(f);
    assert_int_equal(fseeko(f, size, SEEK_SET), 0);
    assert_int_equal(fwrite("\nab\n", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    read_some(&blobs, dir, "a", RAW, 2); /* its first bytes, as a bad one */
    assert_int_equal(read_on(&r, &blobs, dir, "a", RAW, &e), 0);
    (void)snprintf(want, sizeof want, "/a@%" PRId64 ":ab\n", size + 1);
    assert_string_equal(buf_cstr(&r.g.text), want);
    close_run(&r);
    help_blobs_free(&blobs);
    arena_fini(&a);
    help_dir_remove(&dir);
}

static void
damaged_positions_are_refused(void **state)
{
    struct step_blobs blobs = {0};
    char *dir = help_dir_make();
    struct run r;
    struct err e;

    (void)state;
    help_file(dir, "a", "1\n2\n", 4);
    read_some(&blobs, dir, "a", RAW, -1);
    buf_addc(&blobs.blobs[0], 0);
    assert_int_equal(read_on(&r, &blobs, dir, "a", RAW, &e), ERR_IO);
    for (blobs.blobs[0].len--; blobs.blobs[0].len > 0;) {
        blobs.blobs[0].len--;
        assert_int_equal(read_on(&r, &blobs, dir, "a", RAW, &e), ERR_IO);
        assert_non_null(strstr(e.msg, "damaged"));
    }
    help_blobs_free(&blobs);
    help_dir_remove(&dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_tasks_goes_on_where_the_others_were),
        cmocka_unit_test(a_csv_file_goes_on_with_its_header),
        cmocka_unit_test(a_bad_line_before_the_csv_header_is_skipped_again),
        cmocka_unit_test(
            what_came_or_grew_since_is_read_and_the_rest_has_ended),
        cmocka_unit_test(
            a_file_that_is_gone_or_shorter_than_its_position_is_an_error),
        cmocka_unit_test(
            a_file_with_other_lines_than_those_that_were_read_is_an_error),
        cmocka_unit_test(
            the_rest_of_a_line_that_is_too_long_is_no_record_after_a_restore),
        cmocka_unit_test(damaged_positions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
