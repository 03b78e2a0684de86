/* Buffers and the text of numbers and JSON strings. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/hash.h"

static void
doubles_have_the_text_of_pythons_repr(void **state)
{
    /* The right column is what Python 3 prints for repr() of the left. */
    static const struct {
        double d;
        const char *text;
    } table[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {-1.5, "-1.5"},
        {15.0, "15.0"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {90.8, "90.8"},
        {227.0, "227.0"},
        {1.0 / 3.0, "0.3333333333333333"},
        {2.0 / 3.0, "0.6666666666666666"},
        {1e-4, "0.0001"},
        {1.25e-4, "0.000125"},
        {9.999e-5, "9.999e-05"},
        {1e-5, "1e-05"},
        {1.5e-9, "1.5e-09"},
        {1e-10, "1e-10"},
        {1e15, "1000000000000000.0"},
        {1234567890123456.0, "1234567890123456.0"},
        {9999999999999998.0, "9999999999999998.0"},
        {1e16, "1e+16"},
        {12345678901234567.0, "1.2345678901234568e+16"},
        {1e22, "1e+22"},
        {1e23, "1e+23"},
        {1e100, "1e+100"},
        {5e-324, "5e-324"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {9007199254740993.0, "9007199254740992.0"},
        {0.001, "0.001"},
        {123.456, "123.456"},
        {4.35, "4.35"},
        {2.5e-8, "2.5e-08"},
    };
    char out[NUM_TEXT_MAX];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof table / sizeof *table; i++) {
        size_t len = num_text_double(table[i].d, out);

        assert_string_equal(out, table[i].text);
        assert_int_equal(len, strlen(out));
    }
    assert_int_equal(num_text_double(NAN, out), 3);
    assert_string_equal(out, "NaN");
    (void)num_text_double(-INFINITY, out);
    assert_string_equal(out, "-Infinity");
}

static double
random_double(uint64_t *seed)
{
    double d;

    do {
        *seed = hash_splitmix(*seed);
        memcpy(&d, seed, sizeof d);
    } while (!isfinite(d));
    return d;
}

/* Digits of a text, without zeros at either end. */
static int
digit_count(const char *text)
{
    int n = 0, zeros = 0;

    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text == '0') {
            zeros += n > 0;
        } else if (*text >= '1' && *text <= '9') {
            n += zeros + 1;
            zeros = 0;
        }
    }
    return n;
}

static void
any_double_reads_back_from_its_shortest_text(void **state)
{
    uint64_t seed = 20240229;
    char out[NUM_TEXT_MAX], shorter[64];
    int i;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    for (i = 0; i < 100000; i++) {
        double back = 0, d = random_double(&seed);
        size_t len = num_text_double(d, out);
        int digits = digit_count(out);

        assert_true(num_read_double(out, len, &back));
        assert_memory_equal(&back, &d, sizeof d);
        assert_true(strtod(out, NULL) == d);
        if (digits > 1) { /* no text with a digit less is the same double */
            (void)snprintf(shorter, sizeof shorter, "%.*e", digits - 2, d);
            assert_true(strtod(shorter, NULL) != d);
        }
    }
}

static void
integers_have_plain_decimal_text(void **state)
{
    uint64_t seed = 7;
    char out[NUM_TEXT_MAX], want[64];
    int i;

    (void)state;
    (void)num_text_int(0, out);
    assert_string_equal(out, "0");
    (void)num_text_int(INT64_MIN, out);
    assert_string_equal(out, "-9223372036854775808");
    (void)num_text_int(INT64_MAX, out);
    assert_string_equal(out, "9223372036854775807");
    for (i = 0; i < 100000; i++) {
        int64_t v;

        seed = hash_splitmix(seed);
        v = (int64_t)seed >> (i % 64);
        (void)snprintf(want, sizeof want, "%" PRId64, v);
        assert_int_equal(num_text_int(v, out), strlen(want));
        assert_string_equal(out, want);
    }
}

static void
only_whole_numbers_in_range_are_read(void **state)
{
    static const char *const bad[] = {"",     "+1",    "1x",     " 1", "1 ",
                                      "0x10", "1e400", "-1e400", ".",  "-"};
    double d = 42;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(num_read_double(bad[i], strlen(bad[i]), &d));
        assert_true(d == 42);
    }
    assert_true(num_read_double("1e-400", 6, &d));
    assert_true(d == 0);
    assert_true(num_read_double("-2.5E3", 6, &d));
    assert_true(d == -2500);
    assert_true(num_read_double("9007199254740993", 16, &d));
    assert_true(d == 9007199254740992.0);
}

static void
json_strings_escape_only_what_must_be(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b);
    json_put_str(&b, "a/\"\\\n\r\t\b\f\x01\x1f\x7f\0z\xc3\xa9", 16);
    assert_string_equal(buf_cstr(&b),
                        "\"a/\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f\x7f"
                        "\\u0000z\xc3\xa9\"");
    buf_fini(&b);
}

static void
names_are_parted_by_commas(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b);
    buf_addc(&b, '{');
    json_put_name(&b, "a", 1);
    json_put_int(&b, -1);
    json_put_name(&b, "b", 1);
    buf_addc(&b, '{');
    json_put_name(&b, "c", 1);
    json_put_double(&b, 0.5);
    buf_adds(&b, "}}");
    assert_string_equal(buf_cstr(&b), "{\"a\":-1,\"b\":{\"c\":0.5}}");
    buf_fini(&b);
}

static void
appends_keep_what_was_there_and_grow(void **state)
{
    struct buf b;
    int i;

    (void)state;
    buf_init(&b);
    assert_string_equal(buf_cstr(&b), "");
    for (i = 0; i < 1000; i++)
        buf_addf(&b, "%0300d", i);
    assert_int_equal(b.len, 300000);
    for (i = 0; i < 1000; i++) {
        char want[16];

        (void)snprintf(want, sizeof want, "%03d", i);
        assert_memory_equal(b.data + 300 * i + 297, want, 3);
    }
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_true(b.cap >= 300000);
    buf_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_have_the_text_of_pythons_repr),
        cmocka_unit_test(any_double_reads_back_from_its_shortest_text),
        cmocka_unit_test(integers_have_plain_decimal_text),
        cmocka_unit_test(only_whole_numbers_in_range_are_read),
        cmocka_unit_test(json_strings_escape_only_what_must_be),
        cmocka_unit_test(names_are_parted_by_commas),
        cmocka_unit_test(appends_keep_what_was_there_and_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
