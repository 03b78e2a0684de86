/*
 * Rows expected and got: what is the same, and how a difference is told.
 */
#include "testing/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "script/test.h"
#include "testing/rows.h"
#include "testing/value.h"

static struct arena arena;

static int
setup(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static struct opt *
value(const char *json)
{
    struct opt *o = NULL;
    struct err e;

    assert_int_equal(value_from_json(json, strlen(json), &arena, &o, &e), 0);
    return o;
}

static struct opt *
rows(const char *lines)
{
    struct opt *o = NULL;
    struct err e;

    assert_int_equal(rows_read(lines, strlen(lines), &arena, &o, &e), 0);
    return o;
}

static struct opt *
mark(enum script_test_mark which, const char *list)
{
    struct opt *o = value(list);

    o->type = OPT_FUNC;
    o->i = which;
    return o;
}

static bool
same(const char *want, const char *got)
{
    return value_equal(value(want), value(got), false);
}

static void
values_are_the_same_by_kind_and_content(void **state)
{
    (void)state;
    assert_true(same("1", "1"));
    assert_false(same("1", "1.0"));
    assert_false(same("1.0", "1"));
    assert_true(same("1.0", "1e0"));
    assert_false(same("1", "\"1\""));
    assert_false(same("9007199254740993", "9007199254740992"));
    assert_true(same("null", "null"));
    assert_false(same("null", "false"));
    assert_false(same("{\"a\":null}", "{}"));
    assert_false(same("{}", "{\"a\":null}"));
    assert_true(same("\"\\u00e9\"", "\"\xc3\xa9\""));
    assert_false(same("\"\xc3\xa9\"", "\"e\xcc\x81\""));
    assert_true(same("{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2],\"a\":1}"));
    assert_false(same("[1,2]", "[2,1]"));
    assert_false(same("[1]", "[1,2]"));
    assert_false(same("[]", "{}"));
    assert_true(same("{\"a\":1,\"a\":2}", "{\"a\":1}"));
    assert_true(same("NaN", "NaN"));
}

static void
marks_stand_for_values(void **state)
{
    struct opt *any = mark(TEST_ANY, "[]"), *row = opt_new_map(&arena);

    (void)state;
    assert_true(value_equal(any, value("null"), false));
    opt_add(&arena, row, "a", any);
    assert_true(value_equal(row, value("{\"a\":[1]}"), false));
    assert_false(value_equal(row, value("{}"), false)); /* it must be there */
    assert_true(
        value_equal(mark(TEST_APPROX, "[2.0,0.1]"), value("2.05"), false));
    assert_true(value_equal(mark(TEST_APPROX, "[2.0,0.1]"), value("2"), false));
    assert_false(
        value_equal(mark(TEST_APPROX, "[2.0,0.1]"), value("2.2"), false));
    assert_false(
        value_equal(mark(TEST_APPROX, "[2.0,0.1]"), value("\"2\""), false));
    assert_false(
        value_equal(mark(TEST_APPROX, "[2.0,0.1]"), value("NaN"), false));
    assert_true(value_equal(mark(TEST_TOMBSTONE, "[{\"id\":1}]"),
                            mark(TEST_TOMBSTONE, "[{\"id\":1}]"), false));
    assert_false(value_equal(mark(TEST_TOMBSTONE, "[{\"id\":1}]"),
                             value("{\"id\":1}"), false));
    assert_true(value_equal(mark(TEST_TOMBSTONE, "[{}]"),
                            mark(TEST_TOMBSTONE, "[null]"), false));
    assert_false(value_equal(mark(TEST_TOMBSTONE, "[{}]"),
                             mark(TEST_TOMBSTONE, "[{\"id\":1}]"), false));
    assert_false(value_equal(mark(TEST_TOMBSTONE, "[{\"id\":1}]"),
                             mark(TEST_TOMBSTONE, "[null]"), false));
    assert_false(value_equal(value("{\"id\":1}"),
                             mark(TEST_TOMBSTONE, "[{\"id\":1}]"), false));
}

static void
a_table_of_nothing_is_a_list_or_a_map(void **state)
{
    struct opt *empty = opt_new_map(&arena);

    (void)state;
    empty->i = TEST_EMPTY;
    assert_true(value_equal(empty, value("{}"), false));
    assert_true(value_equal(empty, value("[]"), false));
    assert_false(value_equal(empty, value("[1]"), false));
    assert_false(value_equal(empty, value("null"), false));
}

static void
a_subset_is_of_the_fields_of_the_row_only(void **state)
{
    (void)state;
    assert_true(
        value_equal(value("{\"a\":1}"), value("{\"a\":1,\"b\":2}"), true));
    assert_false(value_equal(value("{\"a\":1}"), value("{\"b\":2}"), true));
    assert_false(
        value_equal(value("{\"a\":{}}"), value("{\"a\":{\"b\":2}}"), true));
}

/* Compare lines of JSON; `told` is what must be said, NULL: they are equal. */
static void
compare(const char *want, const char *got, bool ordered, const char *told)
{
    struct compare_conf conf = {.ordered = ordered};
    struct buf out;
    bool equal;

    buf_init(&out);
    equal = compare_rows(rows(want), rows(got), &conf, &out);
    assert_string_equal(buf_cstr(&out), told == NULL ? "" : told);
    assert_int_equal(equal, told == NULL);
    buf_fini(&out);
}

static void
rows_are_counted_whatever_their_order(void **state)
{
    (void)state;
    compare("", "", false, NULL);
    compare("{\"a\":1}\n{\"a\":2}\n", "{\"a\":2}\n{\"a\":1}\n", false, NULL);
    compare("{\"a\":1}\n{\"a\":1}\n", "{\"a\":1}\n", false,
            "1 of 2 rows missing, 0 unexpected\n- {\"a\":1}\n");
    compare("", "{\"a\":1}\n", false,
            "0 of 0 rows missing, 1 unexpected\n+ {\"a\":1}\n");
}

static void
order_counts_where_it_is_asked_for(void **state)
{
    (void)state;
    compare("{\"a\":1}\n{\"a\":2}\n", "{\"a\":1}\n{\"a\":2}\n", true, NULL);
    compare("{\"a\":1}\n{\"a\":2}\n", "{\"a\":2}\n{\"a\":1}\n", true,
            "the rows are there, in another order\n"
            "- {\"a\":1}\n+ {\"a\":2}\n    a: expected 1, got 2\n"
            "- {\"a\":2}\n+ {\"a\":1}\n    a: expected 2, got 1\n");
}

static void
the_nearest_rows_stand_beside_each_other(void **state)
{
    (void)state;
    compare("{\"k\":\"a\",\"n\":1,\"x\":true}\n{\"k\":\"b\",\"n\":2}\n",
            "{\"k\":\"b\",\"n\":2.0}\n{\"k\":\"a\",\"n\":1,\"y\":null}\n"
            "{\"k\":\"c\"}\n",
            false,
            "2 of 2 rows missing, 3 unexpected\n"
            "- {\"k\":\"a\",\"n\":1,\"x\":true}\n"
            "+ {\"k\":\"a\",\"n\":1,\"y\":null}\n"
            "    x: expected true, it is missing\n"
            "    y: not expected, got null\n"
            "- {\"k\":\"b\",\"n\":2}\n"
            "+ {\"k\":\"b\",\"n\":2.0}\n"
            "    n: expected 2 (integer), got 2.0 (float)\n"
            "+ {\"k\":\"c\"}\n");
}

/* They reach compare only by a mistake, which is to be told. */
static void
what_is_no_row_has_no_fields(void **state)
{
    struct opt *want = opt_new_list(&arena);
    struct compare_conf conf = {0};
    struct buf out;

    (void)state;
    buf_init(&out);
    opt_add(&arena, want, NULL, mark(TEST_APPROX, "[1,0.5]"));
    opt_add(&arena, want, NULL, value("[1]"));
    assert_false(compare_rows(want, rows("{\"a\":1}"), &conf, &out));
    assert_string_equal(buf_cstr(&out), "2 of 2 rows missing, 1 unexpected\n"
                                        "- approx(1, 0.5)\n- [1]\n"
                                        "+ {\"a\":1}\n");
    buf_fini(&out);
}

static void
many_differences_are_counted(void **state)
{
    struct buf want, told;
    int i;

    (void)state;
    buf_init(&want);
    buf_init(&told);
    buf_adds(&told, "12 of 12 rows missing, 0 unexpected\n");
    for (i = 0; i < 12; i++) {
        buf_addf(&want, "{\"a\":%d}\n", i);
        if (i < COMPARE_SHOWN)
            buf_addf(&told, "- {\"a\":%d}\n", i);
    }
    buf_adds(&told, "... and 2 more\n");
    compare(buf_cstr(&want), "", false, buf_cstr(&told));
    buf_fini(&want);
    buf_fini(&told);
}

/* any takes the row that only the other could have: it must let it go. */
static void
marks_find_the_partners_that_leave_none_alone(void **state)
{
    struct opt *want = opt_new_list(&arena), *row = opt_new_map(&arena);
    struct compare_conf conf = {0};
    struct buf out;

    (void)state;
    buf_init(&out);
    opt_add(&arena, row, "a", mark(TEST_ANY, "[]"));
    opt_add(&arena, want, NULL, row);
    opt_add(&arena, want, NULL, value("{\"a\":1}"));
    assert_true(
        compare_rows(want, rows("{\"a\":1}\n{\"a\":2}\n"), &conf, &out));
    assert_false(
        compare_rows(want, rows("{\"a\":3}\n{\"a\":2}\n"), &conf, &out));
    buf_fini(&out);
}

static void
marks_are_written_as_what_they_are(void **state)
{
    struct opt *row = opt_new_map(&arena);
    struct buf out;

    (void)state;
    buf_init(&out);
    opt_add(&arena, row, "a", mark(TEST_ANY, "[]"));
    opt_add(&arena, row, "b", mark(TEST_APPROX, "[2.0,1e-09]"));
    opt_add(&arena, row, "c", value("[1,\"x\",null,{\"d\":1.5}]"));
    value_put(&out, row);
    assert_string_equal(buf_cstr(&out), "{\"a\":any,\"b\":approx(2.0, 1e-09),"
                                        "\"c\":[1,\"x\",null,{\"d\":1.5}]}");
    buf_fini(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_are_the_same_by_kind_and_content,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(marks_stand_for_values, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_table_of_nothing_is_a_list_or_a_map,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_subset_is_of_the_fields_of_the_row_only, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_are_counted_whatever_their_order,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(order_counts_where_it_is_asked_for,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_nearest_rows_stand_beside_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_row_has_no_fields, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(many_differences_are_counted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            marks_find_the_partners_that_leave_none_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(marks_are_written_as_what_they_are,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
