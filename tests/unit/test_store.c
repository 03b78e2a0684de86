#include "store_util.h"

static struct store_status
status_of(struct store *s)
{
    struct store_status st;

    store_status(s, &st);
    return st;
}

static void
write_round(struct store *s, struct model *m, uint64_t round, unsigned flags)
{
    must(stage_random(s, m, 400, round, &err));
    must(store_round_write(s, flags, &err));
}

static void
a_new_store_has_no_round(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct model m;

    (void)state;
    model_init(&m, 10);
    assert_int_equal(status_of(s).complete, 0);
    assert_int_equal(status_of(s).pending, 0);
    compare(s, STORE_VIEW_NEWEST, &m);
    store_close(&s);
    model_fini(&m);
    remove_dir(dir);
    free(dir);
}

static void
a_redo_is_durable_but_not_complete(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct model none, m;

    (void)state;
    model_init(&none, 300);
    model_init(&m, 300);

    write_round(s, &m, 1, 0);
    store_close(&s);
    s = open_store(dir);

    assert_int_equal(status_of(s).complete, 0);
    assert_int_equal(status_of(s).pending, 1);
    compare(s, STORE_VIEW_COMPLETE, &none);
    compare(s, STORE_VIEW_NEWEST, &m);

    must(store_round_complete(s, 1, 0, &err));
    store_close(&s);
    s = open_store(dir);
    assert_int_equal(status_of(s).complete, 1);
    assert_int_equal(status_of(s).pending, 0);
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    model_fini(&m);
    model_fini(&none);
    remove_dir(dir);
    free(dir);
}

static void
a_discarded_redo_leaves_the_round_before(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct model m, gone;

    (void)state;
    model_init(&m, 300);
    model_init(&gone, 300);
    write_round(s, &m, 1, STORE_COMPLETE);
    model_copy(&gone, &m);
    write_round(s, &gone, 2, 0);

    must(store_round_discard(s, 2, &err));

    compare(s, STORE_VIEW_NEWEST, &m);
    write_round(s, &m, 2, STORE_COMPLETE);
    store_close(&s);
    s = open_store(dir);
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    model_fini(&m);
    model_fini(&gone);
    remove_dir(dir);
    free(dir);
}

static void
rounds_out_of_turn_are_refused(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct model m;

    (void)state;
    model_init(&m, 20);
    write_round(s, &m, 3, 0);
    assert_int_equal(store_round_begin(s, 4, &err), ERR_INTERNAL);
    assert_int_equal(store_round_complete(s, 4, 0, &err), ERR_INTERNAL);
    assert_int_equal(store_round_discard(s, 2, &err), ERR_INTERNAL);
    must(store_round_complete(s, 3, 0, &err));
    assert_int_equal(store_round_complete(s, 3, 0, &err), ERR_INTERNAL);
    assert_int_equal(store_round_begin(s, 3, &err), ERR_INTERNAL);
    assert_int_equal(store_round_write(s, 0, &err), ERR_INTERNAL);
    store_close(&s);
    model_fini(&m);
    remove_dir(dir);
    free(dir);
}

static void
merging_changes_nothing_that_is_read(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct model m;
    uint64_t n;
    int r;

    (void)state;
    random_seed("merging", 11);
    model_init(&m, 500);
    for (n = 1; n <= 10; n++)
        write_round(s, &m, n, STORE_COMPLETE);
    assert_int_equal(status_of(s).segments, 10);
    do {
        r = store_merge(s, 97, &err);
        must(r);
        compare(s, STORE_VIEW_COMPLETE, &m);
    } while (r == 1);
    assert_int_equal(status_of(s).segments, 0);
    store_close(&s);
    s = open_store(dir);
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    model_fini(&m);
    remove_dir(dir);
    free(dir);
}

static void
a_backlog_that_nobody_merges_is_bounded(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct model m;
    uint64_t n;

    (void)state;
    model_init(&m, 100);
    for (n = 1; n <= 3 * STORE_SEGMENTS_MAX; n++) {
        write_round(s, &m, n, n % 2 != 0 ? STORE_COMPLETE : 0);
        if (n % 2 == 0)
            must(store_round_complete(s, n, 0, &err));
        assert_true(status_of(s).segments <= STORE_SEGMENTS_MAX);
    }
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    model_fini(&m);
    remove_dir(dir);
    free(dir);
}

static void
put(struct store *s, uint32_t op, unsigned group, const char *key,
    const char *value)
{
    struct store_key k = {
        .op = op, .group = (uint16_t)group, .key = key, .key_len = strlen(key)};

    must(store_round_put(s, &k, value, strlen(value), &err));
}

static void
a_scan_is_a_range_of_key_groups_in_order(void **state)
{
    static const char *const want[] = {"2:", "2:a", "2:ab", "2:b", "3:a"};
    char *dir = temp_dir(), got[16];
    struct store *s = open_store(dir);
    struct store_reader *r = NULL;
    struct store_scan *c = NULL;
    struct store_key k;
    const void *v;
    size_t len, n = 0;
    uint32_t op, other;

    (void)state;
    must(store_round_begin(s, 1, &err));
    must(store_round_operator(s, "x", 1, &op, &err));
    must(store_round_operator(s, "y", 1, &other, &err));
    put(s, op, 3, "a", "1");
    put(s, op, 2, "b", "1");
    put(s, op, 2, "", "1");
    put(s, op, 1, "z", "1");
    put(s, op, 300, "c", "1");
    put(s, other, 2, "q", "1");
    must(store_round_write(s, STORE_COMPLETE, &err));
    must(store_round_begin(s, 2, &err));
    put(s, op, 2, "ab", "2");
    put(s, op, 2, "a", "2");
    must(store_round_write(s, STORE_COMPLETE, &err));

    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    must(store_scan_open(r, op, 2, 3, &c, &err));
    while (store_scan_next(c, &k, &v, &len, &err) == 1) {
        (void)snprintf(got, sizeof got, "%u:%.*s", (unsigned)k.group,
                       (int)k.key_len, (const char *)k.key);
        assert_true(n < 5);
        assert_string_equal(got, want[n]);
        n++;
    }
    assert_int_equal(n, 5);
    store_scan_close(&c);
    store_reader_free(&r);
    store_close(&s);
    remove_dir(dir);
    free(dir);
}

static void
of_one_key_the_last_change_counts(void **state)
{
    char *dir = temp_dir(), *big = malloc(2000);
    struct store *s = open_store(dir);
    struct store_reader *r = NULL;
    struct store_key k = {.key = big, .key_len = 2000};
    const void *v;
    size_t len;
    int i;

    (void)state;
    memset(big, 'x', 2000);
    must(store_round_begin(s, 1, &err));
    must(store_round_operator(s, "x", 1, &k.op, &err));
    for (i = 0; i < 100; i++)
        must(store_round_put(s, &k, &i, sizeof i, &err));
    must(store_round_write(s, STORE_COMPLETE, &err));
    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    assert_int_equal(store_reader_get(r, &k, &v, &len, &err), 1);
    i = 99;
    assert_int_equal(len, sizeof i);
    assert_memory_equal(v, &i, sizeof i);
    big[1999] = 'y'; /* beyond what is kept in order */
    assert_int_equal(store_reader_get(r, &k, &v, &len, &err), 0);
    store_reader_free(&r);
    store_close(&s);
    free(big);
    remove_dir(dir);
    free(dir);
}

static void
limits_are_said(void **state)
{
    char *dir = temp_dir(), *big = calloc(1, STORE_KEY_MAX + 1);
    struct store *s = open_store(dir);
    struct store_key k = {.key = big, .key_len = STORE_KEY_MAX + 1};

    (void)state;
    must(store_round_begin(s, 1, &err));
    must(store_round_operator(s, "x", 1, &k.op, &err));
    assert_int_equal(store_round_put(s, &k, "", 0, &err), ERR_RECORD);
    assert_non_null(strstr(err.msg, "1048577"));
    k.key_len = STORE_KEY_MAX;
    must(store_round_put(s, &k, "", 0, &err));
    k.ns = big;
    k.ns_len = STORE_NS_MAX + 1;
    assert_int_equal(store_round_put(s, &k, "", 0, &err), ERR_RECORD);
    k.ns_len = STORE_NS_MAX;
    must(store_round_put(s, &k, "", 0, &err));
    k.op = 77;
    assert_int_equal(store_round_put(s, &k, "", 0, &err), ERR_INTERNAL);
    must(store_round_write(s, STORE_COMPLETE, &err));
    store_close(&s);
    free(big);
    remove_dir(dir);
    free(dir);
}

static void
a_dropped_operator_is_gone_and_its_name_starts_empty(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct store_reader *r = NULL;
    struct store_scan *c = NULL;
    struct model m, before;
    struct store_key old;
    char key[LONG_KEY + 16];
    uint32_t op[2], again;
    const void *v;
    size_t len;
    unsigned i;
    int rc;

    (void)state;
    model_init(&m, 300);
    model_init(&before, 300);
    write_round(s, &m, 1, STORE_COMPLETE);
    while ((rc = store_merge(s, 50, &err)) == 1)
        continue;
    must(rc);
    write_round(s, &m, 2, STORE_COMPLETE);
    model_copy(&before, &m);

    must(store_round_begin(s, 3, &err));
    must(round_ops(s, op, &err));
    must(store_round_drop(s, op[0], &err));
    must(store_round_operator(s, "first", 5, &again, &err));
    assert_int_not_equal(again, op[0]);
    must(stage_positions(s, 3, &err));
    must(store_round_write(s, 0, &err));
    compare(s, STORE_VIEW_COMPLETE, &before);
    memset(m.version, 0, m.count * sizeof *m.version);
    m.round = 3;
    compare(s, STORE_VIEW_NEWEST, &m);
    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_NEWEST, &err));
    for (i = 0; i < m.count; i++) {
        old = key_of(op[0], i, key);
        assert_int_equal(store_reader_get(r, &old, &v, &len, &err), 0);
    }
    must(store_scan_open(r, op[0], 0, UINT16_MAX, &c, &err));
    assert_int_equal(store_scan_next(c, &old, &v, &len, &err), 0);
    store_scan_close(&c);
    store_reader_free(&r);
    must(store_round_complete(s, 3, 0, &err));
    while ((rc = store_merge(s, 50, &err)) == 1)
        compare(s, STORE_VIEW_COMPLETE, &m);
    must(rc);

    store_close(&s);
    s = open_store(dir);
    compare(s, STORE_VIEW_COMPLETE, &m);
    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    assert_int_equal(store_reader_operator_count(r), 2);
    old = key_of(op[0], 1, key);
    assert_int_equal(store_reader_get(r, &old, &v, &len, &err), 0);
    must(store_scan_open(r, op[0], 0, UINT16_MAX, &c, &err));
    assert_int_equal(store_scan_next(c, &old, &v, &len, &err), 0);
    store_scan_close(&c);
    store_reader_free(&r);
    store_close(&s);
    model_fini(&m);
    model_fini(&before);
    remove_dir(dir);
    free(dir);
}

static void
operators_say_what_they_hold(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct store_reader *r = NULL;
    struct store_operator o;
    struct store_key k = {.key = "b", .key_len = 1};
    int rc;

    (void)state;
    must(store_round_begin(s, 1, &err));
    must(store_round_operator(s, "agg", 3, &k.op, &err));
    put(s, k.op, 0, "a", "1");
    put(s, k.op, 0, "b", "1");
    must(store_round_write(s, STORE_COMPLETE, &err));
    while ((rc = store_merge(s, 1, &err)) == 1)
        continue;
    must(rc);
    must(store_round_begin(s, 2, &err));
    put(s, k.op, 0, "c", "1");
    must(store_round_del(s, &k, &err));
    must(store_round_write(s, STORE_COMPLETE, &err));

    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    store_reader_operator(r, 0, &o);
    assert_string_equal(o.name, "agg");
    assert_int_equal(o.keys, 2);
    assert_int_equal(o.puts, 1);
    assert_int_equal(o.dels, 1);
    assert_true(o.bytes > 0 && o.unmerged_bytes > 0);
    store_reader_free(&r);
    store_close(&s);
    remove_dir(dir);
    free(dir);
}

static void
blobs_stay_until_they_are_set_or_removed(void **state)
{
    char *dir = temp_dir(), *big = calloc(1, 100000);
    struct store *s = open_store(dir);
    struct store_reader *r = NULL;
    const void *p;
    size_t len;
    uint64_t n;

    (void)state;
    for (n = 1; n <= 4; n++) {
        must(store_round_begin(s, n, &err));
        if (n == 1) {
            must(store_round_blob(s, "code", "old", 3, &err));
            must(store_round_blob(s, "code", big, 100000, &err));
            must(store_round_blob(s, "plan", "p", 1, &err));
        }
        if (n == 3)
            must(store_round_blob(s, "plan", NULL, 0, &err));
        must(store_round_write(s, n != 4 ? STORE_COMPLETE : 0, &err));
    }
    must(store_round_discard(s, 4, &err));
    store_close(&s);
    s = open_store(dir);
    must(store_reader_new(s, &r, &err));
    must(store_reader_begin(r, STORE_VIEW_COMPLETE, &err));
    assert_int_equal(store_reader_blob(r, "code", &p, &len, &err), 1);
    assert_int_equal(len, 100000);
    assert_memory_equal(p, big, len);
    assert_int_equal(store_reader_blob(r, "plan", &p, &len, &err), 0);
    store_reader_free(&r);
    store_close(&s);
    free(big);
    remove_dir(dir);
    free(dir);
}

static void
blobs_that_were_replaced_take_no_room(void **state)
{
    char *dir = temp_dir(), *big = calloc(1, 100000);
    struct store *s = open_store(dir);
    uint64_t n;

    (void)state;
    for (n = 1; n <= 60; n++) {
        must(store_round_begin(s, n, &err));
        must(store_round_blob(s, "code", big, 100000, &err));
        must(store_round_write(s, n % 2 != 0 ? STORE_COMPLETE : 0, &err));
        if (n % 4 == 0)
            must(store_round_complete(s, n, 0, &err));
        else if (n % 2 == 0)
            must(store_round_discard(s, n, &err));
    }
    assert_true(status_of(s).file_bytes < 2000000);
    store_close(&s);
    free(big);
    remove_dir(dir);
    free(dir);
}

static void
marks_survive(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    uint8_t lineage[STORE_LINEAGE_SIZE] = "0123456789abcde";
    struct model m;

    (void)state;
    model_init(&m, 20);
    write_round(s, &m, 1, STORE_COMPLETE | STORE_FINISHED);
    must(store_set_lineage(s, lineage, &err));
    store_close(&s);
    s = open_store(dir);
    assert_true(status_of(s).finished);
    assert_memory_equal(status_of(s).lineage, lineage, sizeof lineage);
    write_round(s, &m, 2, STORE_COMPLETE);
    assert_false(status_of(s).finished);
    must(store_set_finished(s, true, &err));
    assert_true(status_of(s).finished);
    compare(s, STORE_VIEW_COMPLETE, &m);
    store_close(&s);
    model_fini(&m);
    remove_dir(dir);
    free(dir);
}

/* A copy begun at round 3 while rounds go on is round 3, and a store. */
static void
a_copy_is_one_round_of_a_running_store(void **state)
{
    char *dir = temp_dir(), to[300];
    struct store *s = open_store(dir), *other;
    struct store_copy *c = NULL;
    struct store_verified v;
    struct model m, third;
    uint64_t n;
    int r;

    (void)state;
    random_seed("copy", 5);
    model_init(&m, 500);
    model_init(&third, 500);
    (void)snprintf(to, sizeof to, "%s/savepoint/", dir);
    for (n = 1; n <= 3; n++) {
        write_round(s, &m, n, STORE_COMPLETE);
        must(store_merge(s, 100, &err));
    }
    model_copy(&third, &m);
    must(store_copy_begin(s, to, NULL, &c, &err));
    assert_int_equal(store_merge(s, 100, &err), 0);
    while ((r = store_copy_step(c, 60, &err)) == 1) {
        write_round(s, &m, n, STORE_COMPLETE);
        n++;
    }
    must(r);
    store_copy_free(&c);

    must(store_verify(to, &v, &err));
    assert_int_equal(v.round, 3);
    compare(s, STORE_VIEW_COMPLETE, &m);
    other = open_store(to);
    assert_memory_equal(status_of(other).lineage, status_of(s).lineage, 16);
    compare(other, STORE_VIEW_COMPLETE, &third);
    write_round(other, &third, 4, STORE_COMPLETE);
    compare(other, STORE_VIEW_COMPLETE, &third);
    store_close(&other);
    assert_int_equal(store_copy_begin(s, to, NULL, &c, &err), ERR_CONFIG);
    store_close(&s);
    model_fini(&m);
    model_fini(&third);
    remove_dir(dir);
    free(dir);
}

static void
a_copy_given_up_leaves_nothing(void **state)
{
    char *dir = temp_dir(), to[300], partial[320];
    struct store *s = open_store(dir);
    struct store_copy *c = NULL;
    struct model m;
    struct stat st;

    (void)state;
    model_init(&m, 300);
    write_round(s, &m, 1, STORE_COMPLETE);
    (void)snprintf(to, sizeof to, "%s/sp", dir);
    (void)snprintf(partial, sizeof partial, "%s.partial", to);
    must(store_copy_begin(s, to, NULL, &c, &err));
    assert_int_equal(store_copy_step(c, 10, &err), 1);
    assert_int_equal(stat(partial, &st), 0);
    store_copy_free(&c);
    assert_int_not_equal(stat(partial, &st), 0);
    assert_int_not_equal(stat(to, &st), 0);
    must(store_merge(s, 10, &err));
    store_close(&s);
    model_fini(&m);
    remove_dir(dir);
    free(dir);
}

/* A tool in another process reads the last checkpoint of a running job. */
static void
another_process_reads_beside_the_writer(void **state)
{
    char *dir = temp_dir();
    struct store *s = open_store(dir);
    struct model m;
    int status = -1, n;

    (void)state;
    model_init(&m, 400);
    for (n = 1; n <= 3; n++)
        write_round(s, &m, (uint64_t)n, STORE_COMPLETE);
    for (n = 0; n < 2; n++) {
        pid_t pid = fork();

        if (pid == 0) {
            struct store_opts o = {
                .dir = dir, .read_only = true, .any_fs = true};
            struct store_verified v;
            struct store *tool = NULL;
            int r;

            /* The environment of the parent is not ours to use. */
            r = store_open(&o, &tool, &err);
            if (r == 0)
                compare(tool, STORE_VIEW_COMPLETE, &m);
            if (r == 0)
                r = store_round_begin(tool, 9, &err) == ERR_INTERNAL ? 0 : 1;
            store_close(&tool);
            if (r == 0)
                r = store_verify(dir, &v, &err) == 0 && v.round == m.round ? 0
                                                                           : 2;
            if (r != 0)
                (void)fprintf(stderr, "%s\n", err.msg);
            _exit(r != 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        must(store_merge(s, 100, &err));
    }
    store_close(&s);
    model_fini(&m);
    remove_dir(dir);
    free(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_store_has_no_round),
        cmocka_unit_test(a_redo_is_durable_but_not_complete),
        cmocka_unit_test(a_discarded_redo_leaves_the_round_before),
        cmocka_unit_test(rounds_out_of_turn_are_refused),
        cmocka_unit_test(merging_changes_nothing_that_is_read),
        cmocka_unit_test(a_backlog_that_nobody_merges_is_bounded),
        cmocka_unit_test(a_scan_is_a_range_of_key_groups_in_order),
        cmocka_unit_test(of_one_key_the_last_change_counts),
        cmocka_unit_test(limits_are_said),
        cmocka_unit_test(a_dropped_operator_is_gone_and_its_name_starts_empty),
        cmocka_unit_test(operators_say_what_they_hold),
        cmocka_unit_test(blobs_stay_until_they_are_set_or_removed),
        cmocka_unit_test(blobs_that_were_replaced_take_no_room),
        cmocka_unit_test(marks_survive),
        cmocka_unit_test(a_copy_is_one_round_of_a_running_store),
        cmocka_unit_test(a_copy_given_up_leaves_nothing),
        cmocka_unit_test(another_process_reads_beside_the_writer),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
