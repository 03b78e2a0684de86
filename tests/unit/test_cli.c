/*
 * The command line: flags, environment, refusals and the words of messages.
 */
#include "main/cli.h"
#include "main/cli_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARGV_MAX = 16 };

/* Parse `line`, words apart by one blank ("" of no word). */
static int
parse(const char *line, struct cli *c, struct err *e)
{
    static char text[512]; /* argv borrows from it after the return */
    char *argv[ARGV_MAX] = {"streamlua"}, *save = NULL, *w;
    int argc = 1;

    assert_true(strlen(line) < sizeof text);
    memcpy(text, line, strlen(line) + 1);
    for (w = strtok_r(text, " ", &save); w != NULL && argc < ARGV_MAX;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    return cli_parse(argc, argv, c, e);
}

static void
refused(const char *line, const char *message)
{
    struct cli c;
    struct err e;

    assert_int_equal(parse(line, &c, &e), ERR_USAGE);
    assert_string_equal(e.msg, message);
    cli_fini(&c);
}

static void
flags_stand_anywhere_before_the_dashes(void **state)
{
    struct cli c;
    struct err e;
    uint32_t n;

    (void)state;
    assert_int_equal(
        parse("--slots 3 run --bounded j.lua --parallelism=2 -- --slots x", &c,
              &e),
        0);
    assert_int_equal(c.verb, VERB_RUN);
    assert_string_equal(c.operand, "j.lua");
    assert_true(cli_has(&c, FLAG_BOUNDED));
    assert_int_equal(cli_count(&c, FLAG_SLOTS, 10, &n, &e), 0);
    assert_int_equal(n, 3);
    assert_int_equal(cli_count(&c, FLAG_PARALLELISM, 10, &n, &e), 0);
    assert_int_equal(n, 2);
    assert_int_equal(c.args->len, 2);
    assert_string_equal(opt_at(c.args, 0)->s, "--slots");
    cli_fini(&c);
}

static void
unknown_words_name_the_nearest_known(void **state)
{
    (void)state;
    refused("rum j.lua", "unknown verb \"rum\"; did you mean run?");
    refused("zebra", "unknown verb \"zebra\"");
    refused("run --slot 3 j.lua", "unknown flag --slot; did you mean --slots?");
    refused("run --qqqqqq j.lua", "unknown flag --qqqqqq");
    refused("run -Z j.lua", "unknown flag -Z");
    refused("run -vq j.lua", "unknown flag -vq");
}

static void
names_of_later_versions_are_refused_by_name(void **state)
{
    (void)state;
    refused("tap --filter x", "streamlua tap is not available in this version");
    refused("top --filter x", "streamlua top is not available in this version");
    refused("run --http x:1 j.lua", "--http is not available in this version");
    assert_int_equal(setenv("STREAMLUA_HTTP", "x:1", 1), 0);
    refused("run j.lua", "--http is not available in this version");
    assert_int_equal(unsetenv("STREAMLUA_HTTP"), 0);
}

static void
a_flag_that_another_verb_has_is_refused(void **state)
{
    (void)state;
    refused("run --json j.lua", "run has no flag --json");
    refused("check --summary s j.lua", "check has no flag --summary");
}

static void
missing_and_needless_values_are_refused(void **state)
{
    (void)state;
    refused("run j.lua --slots", "--slots needs a value: --slots N");
    refused("run --bounded=1 j.lua", "--bounded takes no value, got \"1\"");
    refused("run", "run: FILE is missing");
    refused("", "a verb is missing");
    refused("run a.lua b.lua", "run takes one operand, got \"b.lua\" as well "
                               "(arguments of the job stand behind --)");
    refused("version x", "version takes no operand, got \"x\"");
    refused("savepoint", "savepoint: JOB is missing");
    refused("savepoint a b", "savepoint takes one operand, got \"b\" as well");
    refused("state get a b c d",
            "state takes at most 4 operands, got \"d\" as well");
    refused("run --color blue j.lua",
            "--color: expected auto|always|never, got \"blue\"");
    refused("run --recover forward j.lua",
            "--recover: expected rewind|discard-state, got \"forward\"");
}

static void
counts_and_durations_are_checked(void **state)
{
    struct cli c;
    struct err e;
    uint32_t n;
    int64_t ms;

    (void)state;
    assert_int_equal(parse("run --slots 0 --until-idle=1h2 j", &c, &e), 0);
    assert_int_equal(cli_count(&c, FLAG_SLOTS, 9, &n, &e), ERR_USAGE);
    assert_string_equal(
        e.msg, "--slots: expected a whole number from 1 to 9, got \"0\"");
    assert_int_equal(cli_duration(&c, FLAG_UNTIL_IDLE, 2000, &ms, &e),
                     ERR_USAGE);
    cli_fini(&c);

    assert_int_equal(parse("run --until-idle j", &c, &e), 0);
    assert_int_equal(cli_duration(&c, FLAG_UNTIL_IDLE, 2000, &ms, &e), 0);
    assert_int_equal(ms, 2000);
    assert_int_equal(cli_duration(&c, FLAG_STOP_TIMEOUT, 60000, &ms, &e), 0);
    assert_int_equal(ms, 60000);
    assert_string_equal(c.operand, "j");
    cli_fini(&c);
}

static void
the_environment_gives_flags_but_the_line_wins(void **state)
{
    struct cli c;
    struct err e;
    uint32_t n;

    (void)state;
    assert_int_equal(setenv("STREAMLUA_SLOTS", "7", 1), 0);
    assert_int_equal(setenv("STREAMLUA_BOUNDED", "true", 1), 0);
    assert_int_equal(setenv("STREAMLUA_UNSAFE", "0", 1), 0);
    assert_int_equal(parse("run j", &c, &e), 0);
    assert_int_equal(cli_count(&c, FLAG_SLOTS, 10, &n, &e), 0);
    assert_int_equal(n, 7);
    assert_true(cli_has(&c, FLAG_BOUNDED));
    assert_false(cli_has(&c, FLAG_UNSAFE));
    assert_int_equal(cli_count(&c, FLAG_SLOTS, 5, &n, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "STREAMLUA_SLOTS: "));
    cli_fini(&c);

    assert_int_equal(parse("run --slots 2 j", &c, &e), 0);
    assert_int_equal(cli_count(&c, FLAG_SLOTS, 10, &n, &e), 0);
    assert_int_equal(n, 2);
    cli_fini(&c);

    assert_int_equal(setenv("STREAMLUA_BOUNDED", "maybe", 1), 0);
    refused("run j",
            "STREAMLUA_BOUNDED: expected true or false, got \"maybe\"");
    assert_int_equal(unsetenv("STREAMLUA_SLOTS"), 0);
    assert_int_equal(unsetenv("STREAMLUA_BOUNDED"), 0);
    assert_int_equal(unsetenv("STREAMLUA_UNSAFE"), 0);
}

static void
of_repeated_pairs_the_last_counts(void **state)
{
    struct cli c;
    struct err e;
    struct opt *set, *x;

    (void)state;
    assert_int_equal(
        parse("run --set a=1 -Xacks=1 --set=a=x=y -X linger.ms=5 --set b= j",
              &c, &e),
        0);
    assert_int_equal(cli_pairs(&c, FLAG_SET, &set, &e), 0);
    assert_int_equal(set->len, 2);
    assert_string_equal(opt_str(set, "a", NULL), "x=y");
    assert_string_equal(opt_str(set, "b", NULL), "");
    assert_int_equal(cli_pairs(&c, FLAG_X, &x, &e), 0);
    assert_string_equal(opt_str(x, "linger.ms", NULL), "5");
    assert_string_equal(opt_str(x, "acks", NULL), "1");
    cli_fini(&c);

    assert_int_equal(parse("run --set a j", &c, &e), 0);
    assert_int_equal(cli_pairs(&c, FLAG_SET, &set, &e), ERR_USAGE);
    assert_string_equal(e.msg, "--set: expected NAME=VALUE, got \"a\"");
    cli_fini(&c);
}

static void
help_and_version_are_found_as_flags(void **state)
{
    struct cli c;
    struct err e;

    (void)state;
    assert_int_equal(parse("run --help", &c, &e), 0);
    assert_int_equal(c.verb, VERB_HELP);
    assert_string_equal(c.operand, "run");
    cli_fini(&c);
    assert_int_equal(parse("-h", &c, &e), 0);
    assert_int_equal(c.verb, VERB_HELP);
    assert_null(c.operand);
    cli_fini(&c);
    assert_int_equal(parse("--version", &c, &e), 0);
    assert_int_equal(c.verb, VERB_VERSION);
    cli_fini(&c);
}

static void
the_dash_is_a_file(void **state)
{
    struct cli c;
    struct err e;

    (void)state;
    assert_int_equal(parse("check - --set a=1", &c, &e), 0);
    assert_string_equal(c.operand, "-");
    cli_fini(&c);
}

static void
operands_are_kept_in_order_and_a_number_is_one(void **state)
{
    struct cli c;
    struct err e;

    (void)state;
    assert_int_equal(parse("state get job step -1.5 --json", &c, &e), 0);
    assert_int_equal(c.verb, VERB_STATE);
    assert_int_equal(c.operand_count, 4);
    assert_string_equal(c.operand, "get");
    assert_string_equal(c.operands[0], "get");
    assert_string_equal(c.operands[2], "step");
    assert_string_equal(c.operands[3], "-1.5");
    assert_true(cli_has(&c, FLAG_JSON));
    cli_fini(&c);
}

static void
durations_read_as_the_contract_says(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {
        {"0", 0},
        {"250", 250},
        {"500ms", 500},
        {"30s", 30000},
        {"5m", 300000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"1h30m", 5400000},
        {"1.5s", 1500},
        {"0.001s", 1},
        {"0.0001s", -1},
        {"1.5ms", -1},
        {"", -1},
        {"s", -1},
        {"5 s", -1},
        {"5w", -1},
        {"-5s", -1},
        {"1.s", -1},
        {"1h30", -1},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", -1},
        {"106751991168d", -1},
    };
    int64_t ms;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ms = -1;
        assert_int_equal(value_read_duration(rows[i].text, &ms),
                         rows[i].ms >= 0);
        assert_int_equal(ms, rows[i].ms);
    }
}

static void
a_swap_of_neighbours_is_one_edit(void **state)
{
    (void)state;
    assert_int_equal(value_distance("slots", "slost"), 1);
    assert_int_equal(value_distance("slots", "slots"), 0);
    assert_int_equal(value_distance("", "abc"), 3);
    assert_int_equal(value_distance("kitten", "sitting"), 3);
    assert_false(value_is_near("a", 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_stand_anywhere_before_the_dashes),
        cmocka_unit_test(unknown_words_name_the_nearest_known),
        cmocka_unit_test(names_of_later_versions_are_refused_by_name),
        cmocka_unit_test(a_flag_that_another_verb_has_is_refused),
        cmocka_unit_test(missing_and_needless_values_are_refused),
        cmocka_unit_test(counts_and_durations_are_checked),
        cmocka_unit_test(the_environment_gives_flags_but_the_line_wins),
        cmocka_unit_test(of_repeated_pairs_the_last_counts),
        cmocka_unit_test(help_and_version_are_found_as_flags),
        cmocka_unit_test(the_dash_is_a_file),
        cmocka_unit_test(operands_are_kept_in_order_and_a_number_is_one),
        cmocka_unit_test(durations_read_as_the_contract_says),
        cmocka_unit_test(a_swap_of_neighbours_is_one_edit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
