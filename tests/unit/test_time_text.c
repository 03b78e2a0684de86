/*
 * RFC 3339 to milliseconds and back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "format/time_text.h"

static void
parse_reads_zones_and_fractions(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } t[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01 00:00:00", 0},
        {"1970-01-01t00:00:00.1z", 100},
        {"1969-12-31T23:59:59.9999Z", -1},
        {"2026-01-02T03:04:05.678Z", 1767323045678},
        {"2026-01-02T03:04:05.6789999+01:00", 1767319445678},
        {"2026-01-02T03:04:05-23:59", 1767409385000},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"0000-01-01T00:00:00Z", -62167219200000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
    };
    int64_t ms;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        assert_int_equal(time_text_parse(t[i].text, strlen(t[i].text), &ms), 0);
        assert_int_equal(ms, t[i].ms);
    }
}

static void
parse_refuses_what_is_no_time(void **state)
{
    static const char *const bad[] = {
        "",
        "2026-01-02",
        "2026-01-02T03:04",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:00Z",
        "2026-01-02T03:04:60Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05+1:00",
        "2026-01-02T03:04:05+0100",
        "2026-01-02T03:04:05 ",
        "2026-01-02T03:04:05ZZ",
        "-026-01-02T03:04:05Z",
        "2026-1-02T03:04:05Z",
        "2026-01-02  03:04:05Z",
    };
    int64_t ms = 77;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(time_text_parse(bad[i], strlen(bad[i]), &ms), -1);
    assert_int_equal(ms, 77);
}

static void
format_agrees_with_gmtime(void **state)
{
    char out[TIME_TEXT_MAX], want[96];
    int64_t s, ms;

    (void)state;
    for (s = -62167219200; s < 253402300800; s += 86400 * 97 + 3671) {
        time_t t = (time_t)s;
        struct tm tm;

        (void)gmtime_r(&t, &tm);
        (void)snprintf(want, sizeof want, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                       tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                       tm.tm_min, tm.tm_sec, 7);
        assert_int_equal(time_text_format(s * 1000 + 7, out), 24);
        assert_string_equal(out, want);
        assert_int_equal(time_text_parse(out, 24, &ms), 0);
        assert_int_equal(ms, s * 1000 + 7);
    }
}

static void
format_outside_the_calendar_is_a_number(void **state)
{
    char out[TIME_TEXT_MAX];

    (void)state;
    (void)time_text_format(253402300800000, out);
    assert_string_equal(out, "253402300800000");
    (void)time_text_format(INT64_MIN, out);
    assert_string_equal(out, "-9223372036854775808");
    (void)time_text_format(-1, out);
    assert_string_equal(out, "1969-12-31T23:59:59.999Z");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_reads_zones_and_fractions),
        cmocka_unit_test(parse_refuses_what_is_no_time),
        cmocka_unit_test(format_agrees_with_gmtime),
        cmocka_unit_test(format_outside_the_calendar_is_a_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
