/*
 * What `state scan` and `state get` show of a checkpoint: rows as the open
 * windows would give them, in order, and those of one key.
 */
#include "state_make.h"

/* --- promises ------------------------------------------------------------- */

static void
a_window_is_put_together_from_its_slices(void **state)
{
    (void)state;
    expect_scan(make(hopping, WM_NONE, three, 3),
                ROW("\"a\"", -2000, 2000, "{\"a\":2.5,\"n\":1}")
                    ROW("\"a\"", 0, 4000, "{\"a\":2.75,\"n\":2}")
                        ROW("\"a\"", 2000, 6000, "{\"a\":3.0,\"n\":1}")
                            ROW("\"b\"", -2000, 2000, "{\"a\":1.0,\"n\":1}")
                                ROW("\"b\"", 0, 4000, "{\"a\":1.0,\"n\":1}"));
}

static void
a_window_that_has_fired_is_not_shown(void **state)
{
    (void)state;
    expect_scan(make(hopping, 1998, three, 3),
                ROW("\"a\"", -2000, 2000, "{\"a\":2.5,\"n\":1}")
                    ROW("\"a\"", 0, 4000, "{\"a\":2.75,\"n\":2}")
                        ROW("\"a\"", 2000, 6000, "{\"a\":3.0,\"n\":1}")
                            ROW("\"b\"", -2000, 2000, "{\"a\":1.0,\"n\":1}")
                                ROW("\"b\"", 0, 4000, "{\"a\":1.0,\"n\":1}"));
    expect_scan(make(hopping, 1999, three, 3),
                ROW("\"a\"", 0, 4000, "{\"a\":2.75,\"n\":2}")
                    ROW("\"a\"", 2000, 6000, "{\"a\":3.0,\"n\":1}")
                        ROW("\"b\"", 0, 4000, "{\"a\":1.0,\"n\":1}"));
    expect_scan(make(hopping, 3999, three, 3),
                ROW("\"a\"", 2000, 6000, "{\"a\":3.0,\"n\":1}"));
}

static void
a_window_kept_for_late_records_is_shown_until_it_is_purged(void **state)
{
    static const char late[] =
        "x:key_by \"k\":window(s.hopping(\"4s\", \"2s\"), "
        "{ lateness = \"1s\" })\n"
        ":aggregate({ n = s.count() }, { name = \"agg\" })\n";

    (void)state;
    expect_scan(make(late, 2998, three, 1),
                ROW("\"b\"", -2000, 2000, "{\"n\":1}")
                    ROW("\"b\"", 0, 4000, "{\"n\":1}"));
    expect_scan(make(late, 2999, three, 1), ROW("\"b\"", 0, 4000, "{\"n\":1}"));
}

/* Each key group by the watermark of the subtask that held it. */
static void
every_subtask_has_its_own_watermark(void **state)
{
    struct look l;
    struct maker m;
    char json[64], *dir;
    unsigned first = 0;
    size_t i;

    (void)state;
    maker_init(&m, "x:key_by \"k\":window(s.tumbling \"4s\")\n"
                   ":aggregate({ n = s.count() }, { name = \"agg\" })\n");
    for (i = 0; i < 100; i++) {
        (void)snprintf(json, sizeof json, "{\"k\":%zu,\"ts\":0}", i);
        add(&m, json);
    }
    dir =
        keep(&m, (struct kept_entry){.fired = {3999, WM_NONE}, .subtasks = 2});
    look_scan(&l, dir, 0);
    for (i = 0; i < l.rows.n; i++)
        first += hash_key(l.rows.items[i].key, l.rows.items[i].key_len) % 8 < 4;
    assert_int_equal(first, 0);
    assert_in_range(l.rows.n, 20, 80);
    look_close(&l);
    remove_dir(dir);
    free(dir);
}

static void
a_global_window_has_no_bounds(void **state)
{
    static const char global[] =
        "x:key_by {}:window(s.global())\n"
        ":aggregate({ n = s.count() }, { name = \"agg\" })\n";

    (void)state;
    expect_scan(make(global, WM_NONE, three, 3),
                "{\"step\":\"agg\",\"key\":{},\"value\":{\"n\":3}}\n");
}

static void
custom_aggregators_run_in_the_code_of_the_checkpoint(void **state)
{
    static const char custom[] =
        "x:key_by \"k\":window(s.hopping(\"4s\", \"2s\"))\n"
        ":aggregate({ x = list }, { name = \"agg\" })\n";

    (void)state;
    expect_scan(make(custom, 1999, three, 3),
                ROW("\"a\"", 0, 4000, "{\"x\":5.5}")
                    ROW("\"a\"", 2000, 6000, "{\"x\":3}")
                        ROW("\"b\"", 0, 4000, "{\"x\":1}"));
}

static void
aggregators_without_merge_have_whole_windows(void **state)
{
    static const char custom[] =
        "local last = s.aggregator { args = { \"v\" },\n"
        "  init = function() return 0 end,\n"
        "  add = function(_, v) return v end,\n"
        "  result = function(a) return a end }\n"
        "x:key_by \"k\":window(s.hopping(\"4s\", \"2s\"))\n"
        ":aggregate({ x = last }, { name = \"agg\" })\n";

    (void)state;
    expect_scan(make(custom, WM_NONE, three, 2),
                ROW("\"a\"", -2000, 2000, "{\"x\":2.5}")
                    ROW("\"b\"", -2000, 2000, "{\"x\":1}"));
}

/* An entry that `before` made, shown where the list is that of `after`. */
static void
expect_older(const char *before, const char *after,
             const struct agg_places *places, const char *want)
{
    struct maker old, new;
    uint32_t i;

    maker_init(&old, before);
    add(&old, three[0]);
    maker_init(&new, after);
    for (i = 0; i < new.plan->step_count; i++)
        new.plan->steps[i].places = places;
    expect_scan(keep(&old, (struct kept_entry){.fired = {WM_NONE},
                                               .code = new.text,
                                               .plan = new.plan}),
                want);
    maker_fini(&new);
}

#define LIST(aggs)                                                             \
    "x:key_by \"k\":window(s.tumbling \"4s\")\n"                               \
    ":aggregate({" aggs "}, { name = \"agg\" })\n"

static void
an_aggregate_that_was_added_is_empty_in_older_entries(void **state)
{
    static uint32_t order[2] = {1, 0};
    const struct agg_places places = {order, 2, 1};

    (void)state;
    expect_older(LIST("n = s.count()"), LIST("a = s.sum \"v\", n = s.count()"),
                 &places, ROW("\"b\"", 0, 4000, "{\"n\":1,\"a\":null}"));
}

static void
an_aggregate_that_is_gone_is_skipped_in_older_entries(void **state)
{
    static uint32_t order[3] = {AGG_NONE, 0, 1};
    const struct agg_places places = {order, 3, 2};

    (void)state;
    expect_older(LIST("a = s.sum \"v\", n = s.count()"),
                 LIST("n = s.count(), p = s.sum \"v\""), &places,
                 ROW("\"b\"", 0, 4000, "{\"n\":1,\"p\":null}"));
}

static void
without_the_code_plain_accumulators_are_shown(void **state)
{
    static const char custom[] =
        "x:key_by \"k\":window(s.tumbling \"4s\")\n"
        ":aggregate({ x = list, n = s.count() }, { name = \"agg\" })\n";
    struct maker m;
    size_t i;

    (void)state;
    maker_init(&m, custom);
    for (i = 0; i < 3; i++)
        add(&m, three[i]);
    expect_scan(keep(&m, (struct kept_entry){.fired = {WM_NONE},
                                             .code = "error 'gone'"}),
                ROW("\"a\"", 0, 4000, "{\"n\":2,\"x\":[2.5,3]}")
                    ROW("\"b\"", 0, 4000, "{\"n\":1,\"x\":[1]}"));
}

static void
windows_that_only_the_code_can_put_together_are_refused_without(void **state)
{
    static const char custom[] =
        "x:key_by \"k\":window(s.hopping(\"4s\", \"2s\"))\n"
        ":aggregate({ x = list }, { name = \"agg\" })\n";
    struct maker m;
    struct look l;
    char *dir;

    (void)state;
    maker_init(&m, custom);
    add(&m, three[0]);
    dir = keep(&m,
               (struct kept_entry){.fired = {WM_NONE}, .code = "error 'gone'"});
    look_open(&l, dir);
    assert_int_equal(state_step_open(&l.step, &err), ERR_JOBFILE);
    assert_non_null(strstr(err.msg, "gone"));
    look_close(&l);
    remove_dir(dir);
    free(dir);
}

static void
a_row_that_would_be_lost_says_why(void **state)
{
    static const char mixed[] =
        "x:key_by \"k\":window(s.tumbling \"4s\")\n"
        ":aggregate({ m = s.sum(\"v\") }, { name = \"agg\" })\n";
    static const char *const big[] = {
        "{\"k\":1,\"v\":9223372036854775807,\"ts\":0}",
        "{\"k\":1,\"v\":1,\"ts\":0}",
    };
    struct look l;
    char *dir = make(mixed, WM_NONE, big, 2);

    (void)state;
    look_scan(&l, dir, 0);
    assert_non_null(strstr(buf_cstr(&l.text), "\"value\":null,\"error\":\""));
    assert_int_equal(l.rows.n, 1);
    assert_null(l.rows.items[0].value);
    look_close(&l);
    remove_dir(dir);
    free(dir);
}

/* Keys of all types and groups, in the order of keys, whole and cut. */
static void
rows_are_in_key_order_and_a_limit_takes_the_first(void **state)
{
    static const size_t limits[] = {1, 2, 7, MANY - 1, MANY, MANY + 1};
    struct look whole, cut;
    struct maker m;
    char json[128], *dir;
    size_t i, len;

    (void)state;
    maker_init(&m, "x:key_by \"k\":window(s.tumbling \"4s\")\n"
                   ":aggregate({ n = s.count() }, { name = \"agg\" })\n");
    for (i = 0; i < MANY; i++) {
        (void)snprintf(json, sizeof json,
                       i % 2 == 0 ? "{\"k\":%zu.5,\"ts\":%zu}"
                                  : "{\"k\":\"s%zu\",\"ts\":%zu}",
                       i * 7919 % MANY, i % 3 * 5000);
        add(&m, json);
    }
    dir = keep(&m, (struct kept_entry){.fired = {WM_NONE}});
    look_scan(&whole, dir, 0);
    assert_int_equal(whole.rows.n, MANY);
    for (i = 1; i < MANY; i++)
        assert_true(
            state_row_cmp(&whole.rows.items[i - 1], &whole.rows.items[i]) < 0);

    for (i = 0; i < sizeof limits / sizeof *limits; i++) {
        look_scan(&cut, dir, limits[i]);
        assert_int_equal(cut.rows.n, limits[i] < MANY ? limits[i] : MANY);
        len = cut.text.len;
        assert_true(len <= whole.text.len);
        assert_memory_equal(cut.text.data, whole.text.data, len);
        look_close(&cut);
    }
    look_close(&whole);
    remove_dir(dir);
    free(dir);
}

/* --- one key -------------------------------------------------------------- */

static void
look_get(struct look *l, const char *dir, const char *key)
{
    struct state_pick one;
    struct buf b;

    buf_init(&b);
    look_open(l, dir);
    state_rows_init(&l->rows, 0);
    assert_int_equal(state_step_open(&l->step, &err), 0);
    if (state_read_key(&l->step, key, &b, &err) == 0) {
        one = state_pick_key(&l->view, b.data, b.len);
        assert_int_equal(state_rows_read(&l->step, &one, &l->rows, &err), 0);
        put_rows(l);
    } else {
        assert_int_equal(err.code, ERR_USAGE);
        buf_adds(&l->text, err.msg);
    }
    buf_fini(&b);
}

static void
expect_get(const char *dir, const char *key, const char *want)
{
    struct look l;

    look_get(&l, dir, key);
    assert_string_equal(buf_cstr(&l.text), want);
    look_close(&l);
}

static void
a_key_is_found_by_its_value_or_its_field(void **state)
{
    static const char tumbling[] =
        "x:key_by \"k\":window(s.tumbling \"4s\")\n"
        ":aggregate({ n = s.count() }, { name = \"agg\" })\n";
    static const char *const records[] = {
        "{\"k\":\"1\",\"ts\":0}",
        "{\"k\":1,\"ts\":5000}",
        "{\"k\":1,\"ts\":9000}",
        "{\"k\":2,\"ts\":0}",
    };
    static const char one[] =
        ROW("1", 4000, 8000, "{\"n\":1}") ROW("1", 8000, 12000, "{\"n\":1}");
    char *dir = make(tumbling, WM_NONE, records, 4);

    (void)state;
    expect_get(dir, "1", one);
    expect_get(dir, " 1.0", one);
    expect_get(dir, "{\"k\":1}", one);
    expect_get(dir, "\"1\"", ROW("\"1\"", 0, 4000, "{\"n\":1}"));
    expect_get(dir, "3", "");
    expect_get(dir, "[1]", "");
    expect_get(dir, "{}",
               "KEY of agg is {\"k\":...} or the value alone, got {}");
    expect_get(dir, "{\"x\":1}",
               "KEY of agg is {\"k\":...} or the value alone, got {\"x\":1}");
    expect_get(dir, "null", "KEY: \"k\" is null, which no key is");
    expect_get(dir, "a", "KEY is JSON, got a");
    expect_get(dir, "Infinity", "KEY is JSON, got Infinity");
    expect_get(dir, "1 2", "KEY is JSON, got 1 2");
    remove_dir(dir);
    free(dir);
}

static void
a_key_of_several_fields_needs_them_all(void **state)
{
    static const char two[] =
        "x:key_by { \"k\", \"v\" }:window(s.global())\n"
        ":aggregate({ n = s.count() }, { name = \"agg\" })\n";
    static const char found[] = "{\"step\":\"agg\",\"key\":{\"k\":\"a\",\"v\":"
                                "3},\"value\":{\"n\":1}}\n";
    char *dir = make(two, WM_NONE, three, 3);

    (void)state;
    expect_get(dir, "{\"v\":3,\"k\":\"a\"}", found);
    expect_get(dir, "{\"v\":4,\"k\":\"a\"}", "");
    expect_get(dir, "{\"k\":\"a\"}",
               "KEY of agg is {\"k\":...,\"v\":...}, got {\"k\":\"a\"}");
    expect_get(
        dir, "{\"k\":\"a\",\"w\":1}",
        "KEY of agg is {\"k\":...,\"v\":...}, got {\"k\":\"a\",\"w\":1}");
    expect_get(dir, "{\"k\":\"a\",\"v\":3,\"w\":1}",
               "KEY of agg is {\"k\":...,\"v\":...}, got "
               "{\"k\":\"a\",\"v\":3,\"w\":1}");
    expect_get(dir, "\"a\"", "KEY of agg is {\"k\":...,\"v\":...}, got \"a\"");
    remove_dir(dir);
    free(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_put_together_from_its_slices),
        cmocka_unit_test(a_window_that_has_fired_is_not_shown),
        cmocka_unit_test(
            a_window_kept_for_late_records_is_shown_until_it_is_purged),
        cmocka_unit_test(every_subtask_has_its_own_watermark),
        cmocka_unit_test(a_global_window_has_no_bounds),
        cmocka_unit_test(custom_aggregators_run_in_the_code_of_the_checkpoint),
        cmocka_unit_test(aggregators_without_merge_have_whole_windows),
        cmocka_unit_test(an_aggregate_that_was_added_is_empty_in_older_entries),
        cmocka_unit_test(an_aggregate_that_is_gone_is_skipped_in_older_entries),
        cmocka_unit_test(without_the_code_plain_accumulators_are_shown),
        cmocka_unit_test(
            windows_that_only_the_code_can_put_together_are_refused_without),
        cmocka_unit_test(a_row_that_would_be_lost_says_why),
        cmocka_unit_test(rows_are_in_key_order_and_a_limit_takes_the_first),
        cmocka_unit_test(a_key_is_found_by_its_value_or_its_field),
        cmocka_unit_test(a_key_of_several_fields_needs_them_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
