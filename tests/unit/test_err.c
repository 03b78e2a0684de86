/* Errors: what callers rely on when they fill and pass them on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void
setting_an_error_forgets_the_one_before(void **state)
{
    struct err e;

    (void)state;
    err_clear(&e);
    assert_int_equal(err_record(&e, CAUSE_DECODE, "bad %s", "text"),
                     ERR_RECORD);
    e.flags = ERR_FATAL;
    err_hint(&e, "try %d", 1);
    err_where(&e, "%s:%d", "job.lua", 12);
    assert_int_equal(e.cause, CAUSE_DECODE);
    assert_string_equal(e.hint, "try 1");
    assert_string_equal(e.where, "job.lua:12");

    assert_int_equal(err_set(&e, ERR_IO, "cannot open '%s'", "x"), ERR_IO);

    assert_int_equal(e.code, ERR_IO);
    assert_int_equal(e.cause, CAUSE_NONE);
    assert_int_equal(e.flags, 0);
    assert_string_equal(e.msg, "cannot open 'x'");
    assert_string_equal(e.hint, "");
    assert_string_equal(e.where, "");
}

static void
context_stands_in_front_and_keeps_the_rest(void **state)
{
    struct err e;

    (void)state;
    (void)err_record(&e, CAUSE_ENCODE, "NaN");
    err_where(&e, "job.lua:3");

    assert_int_equal(err_context(&e, "sink %s", "out"), ERR_RECORD);

    assert_string_equal(e.msg, "sink out: NaN");
    assert_string_equal(e.where, "job.lua:3");
    assert_int_equal(e.cause, CAUSE_ENCODE);
}

static void
long_messages_are_cut_and_terminated(void **state)
{
    char big[3 * ERR_MSG_MAX];
    struct err e;

    (void)state;
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = '\0';

    (void)err_set(&e, ERR_FAIL, "%s", big);
    assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
    (void)err_context(&e, "%s", big);
    assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
}

static void
no_error_record_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_TEMP, "x"), ERR_TEMP);
    assert_int_equal(err_record(NULL, CAUSE_TYPE, "x"), ERR_RECORD);
    err_clear(NULL);
    err_hint(NULL, "x");
    err_where(NULL, "x");
    (void)err_context(NULL, "x");
}

static void
exit_codes_are_those_of_the_contract(void **state)
{
    static const struct {
        int code, exit;
    } table[] = {
        {0, 0},
        {ERR_FAIL, 1},
        {ERR_RECORD, 1},
        {ERR_USAGE, 64},
        {ERR_JOBFILE, 65},
        {ERR_UNAVAILABLE, 69},
        {ERR_INTERNAL, 70},
        {ERR_NOMEM, 70},
        {ERR_BUSY, 73},
        {ERR_IO, 74},
        {ERR_TEMP, 75},
        {ERR_CONFIG, 78},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(err_exit_code(table[i].code), table[i].exit);
}

static void
causes_have_the_names_of_the_contract(void **state)
{
    static const char *const names[] = {
        "decode", "timestamp", "future", "user_error", "type",      "overflow",
        "encode", "null_key",  "bigint", "late",       "incomplete"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(err_cause_name((enum err_cause)(i + 1)), names[i]);
    assert_int_equal(CAUSE_COUNT, sizeof names / sizeof *names + 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_an_error_forgets_the_one_before),
        cmocka_unit_test(context_stands_in_front_and_keeps_the_rest),
        cmocka_unit_test(long_messages_are_cut_and_terminated),
        cmocka_unit_test(no_error_record_is_allowed),
        cmocka_unit_test(exit_codes_are_those_of_the_contract),
        cmocka_unit_test(causes_have_the_names_of_the_contract),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
