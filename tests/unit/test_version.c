/*
 * Versions of a job and their history: what is accepted, what a rollback goes
 * back to, what a checkpoint keeps of it; and when a saved file counts.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/version.h"
#include "run/watch.h"
#include "store_util.h"

static struct version *
version(uint64_t number, const char *text)
{
    struct version *v = version_new("job.lua", NULL);

    v->number = number;
    script_files_add(v->files, SCRIPT_FILE_JOB, "job.lua", text, strlen(text));
    script_files_seal(v->files);
    return v;
}

static void
push(struct history *h, uint64_t number, const char *text)
{
    struct version *v = version(number, text);

    history_push(h, &v);
    assert_null(v);
}

/* "0 2 5": the numbers, oldest first. */
static const char *
numbers(const struct history *h)
{
    static char text[256];
    size_t n = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; i < h->count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d",
                              i > 0 ? " " : "", (int)h->items[i]->number);
    return text;
}

/* The history as a round would bring it back. */
static void
through_a_round(const struct history *h, const struct version *next, bool back,
                struct history *ret)
{
    struct buf b;

    buf_init(&b);
    memset(ret, 0, sizeof *ret);
    history_put(h, next, back, &b);
    assert_int_equal(history_get(b.data, b.len, ret, &err), 0);
    buf_fini(&b);
}

static void
a_version_comes_back_with_all_it_has(void **state)
{
    struct history h = {.attempts = 7}, got;
    struct arena a;
    struct opt *set;
    struct version *v;

    (void)state;
    arena_init(&a);
    set = opt_new_map(&a);
    opt_add(&a, set, "rate", opt_new_str(&a, "x\0y", 3));
    v = version_new("dir/job.lua", set);
    v->number = 6;
    v->parallelism = 3;
    script_files_add(v->files, SCRIPT_FILE_JOB, "dir/job.lua", "return 1", 8);
    script_files_add(v->files, SCRIPT_FILE_DATA, "dir/x.csv", "a\n", 2);
    history_push(&h, &v);

    through_a_round(&h, NULL, false, &got);

    assert_int_equal(got.attempts, 7);
    v = history_top(&got);
    assert_int_equal(v->number, 6);
    assert_int_equal(v->parallelism, 3);
    assert_string_equal(v->path, "dir/job.lua");
    assert_int_equal(opt_get(v->params, "rate")->len, 3);
    assert_memory_equal(opt_get(v->params, "rate")->s, "x\0y", 3);
    assert_string_equal(version_text(v)->text, "return 1");
    assert_int_equal(version_hash(v), version_hash(history_top(&h)));
    history_fini(&h);
    history_fini(&got);
    arena_fini(&a);
}

static void
a_round_holds_the_history_as_it_is_once_it_is_complete(void **state)
{
    struct history h = {0}, got;
    struct version *next = version(3, "three");

    (void)state;
    push(&h, 0, "zero");
    push(&h, 2, "two");

    through_a_round(&h, next, false, &got);
    history_push(&h, &next);

    assert_string_equal(numbers(&got), "0 2 3");
    assert_string_equal(numbers(&h), "0 2 3");
    history_fini(&h);
    history_fini(&got);
}

static void
a_rollback_goes_back_one_version_each_time(void **state)
{
    struct history h = {0}, got;
    struct version *next;
    uint64_t two;

    (void)state;
    push(&h, 0, "zero");
    push(&h, 1, "one");
    push(&h, 2, "two");
    two = version_hash(history_top(&h));

    next = version_dup(history_below(&h), 3);
    through_a_round(&h, next, true, &got);
    history_back(&h, &next);

    assert_string_equal(numbers(&h), "0 3");
    assert_string_equal(numbers(&got), "0 3");
    assert_string_equal(version_text(history_top(&h))->text, "one");
    assert_true(history_is_bad(&h, two));
    assert_true(history_is_bad(&got, two));
    next = version_dup(history_below(&h), 4);
    history_back(&h, &next);
    assert_string_equal(numbers(&h), "4");
    assert_null(history_below(&h));
    history_fini(&h);
    history_fini(&got);
}

static void
a_text_that_is_accepted_again_is_good_again(void **state)
{
    struct history h = {0}, got;
    struct version *next = version(5, "text");
    uint64_t hash = version_hash(next);

    (void)state;
    push(&h, 0, "zero");
    history_add_bad(&h, hash);
    history_add_bad(&h, hash + 1);
    through_a_round(&h, NULL, false, &got);
    assert_true(history_is_bad(&got, hash));
    history_fini(&got);

    through_a_round(&h, next, false, &got);
    history_push(&h, &next);

    assert_false(history_is_bad(&h, hash));
    assert_false(history_is_bad(&got, hash));
    assert_true(history_is_bad(&got, hash + 1));
    history_fini(&h);
    history_fini(&got);
}

static void
history_is_bounded(void **state)
{
    struct history h = {0}, got;
    char text[16];
    int i;

    (void)state;
    for (i = 0; i < 3 * HISTORY_MAX; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        push(&h, (uint64_t)i, text);
    }
    for (i = 0; i < 3 * HISTORY_BAD_MAX; i++)
        history_add_bad(&h, 1000u + (uint64_t)i);

    through_a_round(&h, NULL, false, &got);

    assert_int_equal(got.count, HISTORY_MAX);
    assert_int_equal(history_top(&got)->number, 3 * HISTORY_MAX - 1);
    assert_int_equal(got.bad_count, HISTORY_BAD_MAX);
    assert_true(history_is_bad(&got, 1000 + 3 * HISTORY_BAD_MAX - 1));
    assert_false(history_is_bad(&got, 1000));
    history_fini(&h);
    history_fini(&got);
}

static void
damage_is_no_history(void **state)
{
    struct history h = {0}, got;
    struct buf b;
    size_t len;

    (void)state;
    push(&h, 0, "zero");
    history_add_bad(&h, 9);
    buf_init(&b);
    history_put(&h, NULL, false, &b);
    for (len = 0; len < b.len; len++) {
        memset(&got, 0, sizeof got);
        assert_int_equal(history_get(b.data, len, &got, &err), ERR_IO);
        history_fini(&got);
    }
    buf_addc(&b, 'x');
    memset(&got, 0, sizeof got);
    assert_int_equal(history_get(b.data, b.len, &got, &err), ERR_IO);
    history_fini(&got);
    buf_fini(&b);
    history_fini(&h);
}

static void
the_same_texts_elsewhere_are_the_same(void **state)
{
    struct version *a = version(0, "text"), *b = version_new("/x/j.lua", NULL);
    struct version *c = version(0, "texts");

    (void)state;
    script_files_add(b->files, SCRIPT_FILE_JOB, "/x/j.lua", "text", 4);

    assert_int_equal(version_hash(a), version_hash(b));
    assert_int_not_equal(version_hash(a), version_hash(c));
    version_free(&a);
    version_free(&b);
    version_free(&c);
}

/* --- watching ------------------------------------------------------------- */

static void
save(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void
a_change_counts_once_the_file_rests(void **state)
{
    char *dir = temp_dir(), path[300];
    struct script_files *files = script_files_new();
    struct watch w = {.on = true};

    (void)state;
    (void)snprintf(path, sizeof path, "%s/job.lua", dir);
    save(path, "one");
    script_files_add(files, SCRIPT_FILE_JOB, path, "one", 3);
    watch_set(&w, files, 900);
    assert_false(watch_look(&w, 901)); /* it may be half written */
    assert_true(watch_look(&w, 1100)); /* it may have changed before */
    assert_false(watch_look(&w, 2000));

    save(path, "half");
    assert_false(watch_look(&w, 3000));
    save(path, "whole text");
    assert_false(watch_look(&w, 4000));
    assert_true(watch_look(&w, 5000));
    assert_false(watch_look(&w, 6000));

    assert_int_equal(unlink(path), 0);
    assert_false(watch_look(&w, 7000));
    assert_true(watch_look(&w, 8000));
    watch_fini(&w);
    script_files_free(&files);
    remove_dir(dir);
    free(dir);
}

static void
a_file_that_was_missing_is_watched(void **state)
{
    char *dir = temp_dir(), path[300];
    struct script_files *files = script_files_new();
    const struct script_file *f;
    struct watch w = {.on = true};

    (void)state;
    (void)snprintf(path, sizeof path, "%s/lib.lua", dir);
    assert_int_not_equal(
        script_files_read(files, SCRIPT_FILE_MODULE, path, &f, &err), 0);
    watch_set(&w, files, 0);
    assert_true(watch_look(&w, 1000));

    save(path, "return {}");

    assert_false(watch_look(&w, 2000));
    assert_true(watch_look(&w, 3000));
    watch_fini(&w);
    script_files_free(&files);
    remove_dir(dir);
    free(dir);
}

static void
a_version_differs_if_a_file_of_it_reads_otherwise_now(void **state)
{
    char *dir = temp_dir(), path[300], lib[300];
    const struct script_file *f;
    struct version *v;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/job.lua", dir);
    (void)snprintf(lib, sizeof lib, "%s/lib.lua", dir);
    v = version_new(path, NULL);
    /* Nothing of it was read: it counts once it can be. */
    assert_false(version_differs(v));
    save(path, "one");
    assert_true(version_differs(v));
    script_files_add(v->files, SCRIPT_FILE_JOB, path, "one", 3);
    assert_false(version_differs(v));

    assert_int_not_equal(
        script_files_read(v->files, SCRIPT_FILE_MODULE, lib, &f, &err), 0);
    assert_false(version_differs(v));
    save(lib, "return {}");
    assert_true(version_differs(v));
    assert_int_equal(unlink(lib), 0);
    assert_false(version_differs(v));

    save(path, "two");
    assert_true(version_differs(v));
    assert_int_equal(unlink(path), 0);
    assert_true(version_differs(v));
    save(path, "one");
    assert_false(version_differs(v));
    version_free(&v);
    remove_dir(dir);
    free(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_comes_back_with_all_it_has),
        cmocka_unit_test(
            a_round_holds_the_history_as_it_is_once_it_is_complete),
        cmocka_unit_test(a_rollback_goes_back_one_version_each_time),
        cmocka_unit_test(a_text_that_is_accepted_again_is_good_again),
        cmocka_unit_test(history_is_bounded),
        cmocka_unit_test(damage_is_no_history),
        cmocka_unit_test(the_same_texts_elsewhere_are_the_same),
        cmocka_unit_test(a_change_counts_once_the_file_rests),
        cmocka_unit_test(a_file_that_was_missing_is_watched),
        cmocka_unit_test(a_version_differs_if_a_file_of_it_reads_otherwise_now),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
