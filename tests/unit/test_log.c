/* The log: lines and reports as API.md sections 8 and 9 show them. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"

static char out[16384];
static int real_stderr;
static FILE *capture;

static void
begin(enum log_level level, bool json)
{
    log_setup(level, json);
    capture = tmpfile();
    assert_non_null(capture);
    real_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fileno(capture), STDERR_FILENO) >= 0);
}

static void
end(void)
{
    size_t n;

    assert_true(dup2(real_stderr, STDERR_FILENO) >= 0);
    (void)close(real_stderr);
    rewind(capture);
    n = fread(out, 1, sizeof out - 1, capture);
    out[n] = '\0';
    (void)fclose(capture);
}

static void
assert_matches(const char *pattern)
{
    regex_t re;

    assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&re, out, 0, NULL, 0) != 0)
        fail_msg("/%s/ does not match:\n%s", pattern, out);
    regfree(&re);
}

static void
a_text_line_has_time_level_message_and_pairs(void **state)
{
    const struct log_kv kvs[] = {{"steps", "6", true},
                                 {"path", "a b", false},
                                 {"host", "h1:9092", false}};

    (void)state;
    begin(LOG_INFO, false);
    log_kvs(LOG_INFO, "checkpoint 17 completed", kvs, 3);
    end();
    assert_matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\."
                   "[0-9]{3}Z INFO  checkpoint 17 completed steps=6 "
                   "path=\"a b\" host=h1:9092\n$");
}

static void
a_json_line_is_one_object(void **state)
{
    const struct log_kv kvs[] = {{"steps", "6", true}, {"path", "a\"b", false}};

    (void)state;
    begin(LOG_INFO, true);
    log_kvs(LOG_WARN, "tab\tand \xff byte", kvs, 2);
    end();
    assert_matches("^\\{\"level\":\"warn\",\"time\":[0-9]{13},"
                   "\"message\":\"tab\\\\tand \xef\xbf\xbd byte\","
                   "\"steps\":6,\"path\":\"a\\\\\"b\"\\}\n$");
}

static void
lines_below_the_level_are_not_written(void **state)
{
    enum log_level level = LOG_ERROR;

    (void)state;
    begin(LOG_WARN, false);
    log_line(LOG_DEBUG, "no %d", 1);
    log_line(LOG_INFO, "no %d", 2);
    log_line(LOG_WARN, "yes %d", 3);
    end();
    assert_matches("^[^ ]+ WARN  yes 3\n$");
    assert_false(log_enabled(LOG_INFO));
    assert_true(log_level_read("debug", &level));
    assert_int_equal(level, LOG_DEBUG);
    assert_false(log_level_read("Debug", &level));
}

static void
a_message_cannot_break_its_line(void **state)
{
    (void)state;
    begin(LOG_INFO, false);
    log_line(LOG_INFO, "a\nb\x1b[31m\xff"
                       "c\xc3\xa9");
    end();
    assert_matches("^[^ ]+ INFO  a\\\\nb\\\\x1b\\[31m\\\\xffc\xc3\xa9\n$");
}

static void
fill(struct err *e, struct log_record *r)
{
    static const char value[] = "{\"account\":2,\"ts\":40000}";

    (void)err_record(e, CAUSE_USER_ERROR,
                     "attempt to compare number with nil (field 'amount')");
    err_where(e, "fraud.lua:14");
    err_hint(e, "the field is missing or null in this record");
    (void)snprintf(e->trace, sizeof e->trace,
                   "fraud.lua:14: in function 'on_record'");
    *r = (struct log_record){.step = "process-1",
                             .step_place = "fraud.lua:9",
                             .topic = "payments",
                             .partition = 3,
                             .offset = 182736,
                             .key = "a",
                             .key_len = 1,
                             .timestamp = 40000,
                             .has_timestamp = true,
                             .value = value,
                             .value_len = sizeof value - 1};
}

static void
a_report_is_the_one_of_the_contract(void **state)
{
    struct log_record r;
    struct err e;

    (void)state;
    fill(&e, &r);
    begin(LOG_INFO, false);
    log_error(&e, true, &r);
    end();
    assert_string_equal(
        out, "error: fraud.lua:14: attempt to compare number with nil "
             "(field 'amount')\n"
             "  step: process-1 (fraud.lua:9)   cause: user_error\n"
             "  record: payments[3]@182736 key=\"a\" timestamp=40000\n"
             "  value: {\"account\":2,\"ts\":40000}\n"
             "  trace: fraud.lua:14: in function 'on_record'\n"
             "  hint: the field is missing or null in this record\n");
}

static void
a_json_report_has_the_keys_of_the_contract(void **state)
{
    struct log_record r;
    struct err e;

    (void)state;
    fill(&e, &r);
    r.count = 7;
    begin(LOG_INFO, true);
    log_error(&e, true, &r);
    end();
    assert_matches(
        "^\\{\"level\":\"error\",\"time\":[0-9]+,\"code\":\"user_error\","
        "\"message\":\"attempt to compare number with nil \\(field "
        "'amount'\\)\",\"step\":\"process-1\",\"place\":\"fraud.lua:14\","
        "\"topic\":\"payments\",\"partition\":3,\"offset\":182736,"
        "\"key\":\"a\",\"value\":\"\\{\\\\\"account\\\\\":2,"
        "\\\\\"ts\\\\\":40000\\}\",\"trace\":\"fraud.lua:14: in function "
        "'on_record'\",\"hint\":\"the field is missing or null in this "
        "record\",\"count\":7\\}\n$");
}

static void
a_load_error_has_no_word_in_front(void **state)
{
    struct err e;

    (void)state;
    (void)err_set(&e, ERR_JOBFILE, "window: unknown option \"latenes\"");
    err_where(&e, "job.lua:14");
    begin(LOG_INFO, false);
    log_error(&e, false, NULL);
    end();
    assert_string_equal(out,
                        "job.lua:14: window: unknown option \"latenes\"\n");
}

static void
without_a_place_of_its_own_the_step_gives_it(void **state)
{
    struct log_record r = {.step = "aggregate-1", .step_place = "job.lua:7"};
    struct err e;

    (void)state;
    (void)err_record(&e, CAUSE_OVERFLOW, "sum of 'v' is beyond int64");
    begin(LOG_INFO, false);
    log_error(&e, true, &r);
    end();
    assert_string_equal(out,
                        "error: job.lua:7: sum of 'v' is beyond int64\n"
                        "  step: aggregate-1 (job.lua:7)   cause: overflow\n");
}

static void
long_values_are_cut_at_a_character(void **state)
{
    char value[400];
    struct log_record r = {.topic = "t", .value = value, .value_len = 400};
    struct err e;
    int i;

    (void)state;
    memset(value, 'x', sizeof value);
    for (i = 1; i + 2 < 400; i += 2)
        memcpy(value + i, "\xc3\xa9", 2); /* byte 200 is within one */
    (void)err_record(&e, CAUSE_DECODE, "bad");
    begin(LOG_INFO, false);
    log_error(&e, true, &r);
    end();
    assert_matches("value: x(\xc3\xa9){99}   \\(first 200 bytes\\)\n");
}

static void
a_skipped_record_is_one_warning(void **state)
{
    struct log_record r;
    struct err e;

    (void)state;
    fill(&e, &r);
    r.count = 3;
    begin(LOG_INFO, false);
    log_skipped(&e, &r);
    end();
    assert_matches("^[^ ]+ WARN  skipped: fraud.lua:14: attempt to compare "
                   "number with nil \\(field 'amount'\\) step=process-1 "
                   "cause=user_error count=3 record=payments\\[3\\]@182736 "
                   "key=\"a\" timestamp=40000 value=.*\\}\n$");
}

static void
a_progress_line_gives_way(void **state)
{
    (void)state;
    begin(LOG_INFO, false);
    log_progress("not on yet");
    log_set_progress(true);
    log_progress("job running");
    log_line(LOG_INFO, "hidden");
    log_line(LOG_WARN, "seen");
    log_set_progress(false);
    log_line(LOG_INFO, "seen again");
    end();
    assert_matches("^\r\x1b\\[Kjob running\r\x1b\\[K[^ ]+ WARN  seen\n"
                   "\r\x1b\\[K[^ ]+ INFO  seen again\n$");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_line_has_time_level_message_and_pairs),
        cmocka_unit_test(a_json_line_is_one_object),
        cmocka_unit_test(lines_below_the_level_are_not_written),
        cmocka_unit_test(a_message_cannot_break_its_line),
        cmocka_unit_test(a_report_is_the_one_of_the_contract),
        cmocka_unit_test(a_json_report_has_the_keys_of_the_contract),
        cmocka_unit_test(a_load_error_has_no_word_in_front),
        cmocka_unit_test(without_a_place_of_its_own_the_step_gives_it),
        cmocka_unit_test(long_values_are_cut_at_a_character),
        cmocka_unit_test(a_skipped_record_is_one_warning),
        cmocka_unit_test(a_progress_line_gives_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
