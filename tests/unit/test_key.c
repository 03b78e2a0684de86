/* The canonical encoding of keys: equality, order, reading, bounds. */
#include "core/key.h"

#include <float.h>
#include <math.h>

#include "agg_util.h"

static struct buf
enc(struct val v)
{
    struct buf b;

    buf_init(&b);
    assert_true(key_put_scalar(&b, &v));
    return b;
}

static int
sign(int c)
{
    return (c > 0) - (c < 0);
}

static int
encoded_cmp(struct val x, struct val y)
{
    struct buf a = enc(x), b = enc(y);
    int c = key_cmp(a.data, a.len, b.data, b.len);

    /* The order must also hold when other parts follow. */
    if (c != 0) {
        key_put_map(&a);
        key_put_bool(&b, false);
        assert_int_equal(sign(key_cmp(a.data, a.len, b.data, b.len)), sign(c));
    }
    buf_fini(&a);
    buf_fini(&b);
    return sign(c);
}

/* Compare without doubles where they would round (long double has 64 bits
 * on x86; elsewhere at least as many). */
static int
num_cmp(struct val x, struct val y)
{
    long double a, b;

    if (x.type == VAL_INT && y.type == VAL_INT)
        return (x.u.i > y.u.i) - (x.u.i < y.u.i);
    a = x.type == VAL_INT ? (long double)x.u.i : (long double)x.u.d;
    b = y.type == VAL_INT ? (long double)y.u.i : (long double)y.u.d;
    return (a > b) - (a < b);
}

static void
numbers_are_ordered_by_value(void **state)
{
    int i;

    (void)state;
    (void)util_seed();
    for (i = 0; i < 200000; i++) {
        struct val x = util_number(), y = util_number();

        if (util_below(4) == 0 && x.type == VAL_INT)
            y = val_dbl((double)x.u.i);
        else if (util_below(4) == 0 && x.type == VAL_DBL)
            y = val_dbl(nextafter(x.u.d, util_below(2) ? 1e308 : -1e308));
        else if (util_below(4) == 0 && x.type == VAL_INT)
            y = val_int(x.u.i ^ (int64_t)util_below(2048));
        assert_int_equal(encoded_cmp(x, y), num_cmp(x, y));
    }
}

static void
equal_numbers_are_one_key(void **state)
{
    (void)state;
    assert_int_equal(encoded_cmp(val_int(1), val_dbl(1.0)), 0);
    assert_int_equal(encoded_cmp(val_int(0), val_dbl(-0.0)), 0);
    assert_int_equal(encoded_cmp(val_dbl(0.0), val_dbl(-0.0)), 0);
    assert_int_equal(encoded_cmp(val_int(INT64_MIN), val_dbl(-0x1p63)), 0);
    assert_int_equal(encoded_cmp(val_int(INT64_MAX), val_dbl(0x1p63)), -1);
    assert_int_equal(encoded_cmp(val_int((1LL << 53) + 1), val_dbl(0x1p53)), 1);
    assert_int_equal(encoded_cmp(val_int(-(1LL << 53) - 1), val_dbl(-0x1p53)),
                     -1);
    assert_int_equal(
        encoded_cmp(val_int(-(1LL << 53) - 1), val_dbl(-0x1p53 - 2)), 1);
    assert_int_not_equal(encoded_cmp(val_int(1), util_sv("1")), 0);
    assert_int_not_equal(encoded_cmp(val_bool(true), util_sv("true")), 0);
    assert_int_not_equal(encoded_cmp(val_bool(true), val_int(1)), 0);
}

static void
types_are_ordered(void **state)
{
    static const struct {
        uint8_t tags[8];
        const char *json;
    } sorted[] = {
        {{KEY_FALSE}, "false"},
        {{KEY_TRUE}, "true"},
        {{KEY_LIST, KEY_END}, "[]"},
        {{KEY_LIST, KEY_NULL, KEY_END}, "[null]"},
        {{KEY_LIST, KEY_NULL, KEY_TRUE, KEY_END}, "[null,true]"},
        {{KEY_LIST, KEY_TRUE, KEY_END}, "[true]"},
        {{KEY_LIST, KEY_LIST, KEY_END, KEY_END}, "[[]]"},
        {{KEY_LIST, KEY_MAP, KEY_END, KEY_FALSE, KEY_END}, "[{},false]"},
        {{KEY_MAP, KEY_END}, "{}"},
    };
    const char *before = NULL;
    size_t before_len = 0, i;
    struct buf out;

    (void)state;
    buf_init(&out);
    for (i = 0; i < sizeof sorted / sizeof sorted[0]; i++) {
        const char *p = (const char *)sorted[i].tags;
        size_t len = strlen(p);

        buf_clear(&out);
        assert_int_equal(key_part_json(&out, p, p + len), len);
        assert_string_equal(buf_cstr(&out), sorted[i].json);
        if (before != NULL)
            assert_true(key_cmp(before, before_len, p, len) < 0);
        before = p;
        before_len = len;
    }
    buf_fini(&out);
    assert_int_equal(encoded_cmp(val_bool(true), val_dbl(-DBL_MAX)), -1);
    assert_int_equal(encoded_cmp(val_dbl(DBL_MAX), util_sv("")), -1);
}

static struct val
random_string(char *bytes, uint32_t max)
{
    static const char alphabet[] = {0,   0,          1,          'a',
                                    'b', (char)0xff, (char)0xc3, (char)0xa9};
    uint32_t len = util_below(max), i;

    for (i = 0; i < len; i++)
        bytes[i] = alphabet[util_below(sizeof alphabet)];
    return val_str(bytes, len);
}

static void
strings_are_ordered_by_bytes(void **state)
{
    char a[8], b[8];
    int i;

    (void)state;
    (void)util_seed();
    for (i = 0; i < 100000; i++) {
        struct val x = random_string(a, 8), y = random_string(b, 8);
        uint32_t n = x.len < y.len ? x.len : y.len;
        int c = memcmp(a, b, n);

        if (c == 0)
            c = (x.len > y.len) - (x.len < y.len);
        assert_int_equal(encoded_cmp(x, y), sign(c));
    }
}

static void
strings_come_back(void **state)
{
    char bytes[300];
    int i;

    (void)state;
    (void)util_seed();
    for (i = 0; i < 5000; i++) {
        struct val v = random_string(bytes, sizeof bytes);
        struct buf b = enc(v), text, want;

        buf_init(&text);
        buf_init(&want);
        assert_int_equal(key_part_len(b.data, b.data + b.len), b.len);
        assert_int_equal(key_part_text(&text, b.data, b.data + b.len), b.len);
        assert_int_equal(text.len, v.len);
        assert_true(v.len == 0 || memcmp(text.data, bytes, v.len) == 0);
        buf_clear(&text);
        assert_int_equal(key_part_json(&text, b.data, b.data + b.len), b.len);
        json_put_str(&want, bytes, v.len);
        assert_string_equal(buf_cstr(&text), buf_cstr(&want));
        buf_fini(&b);
        buf_fini(&text);
        buf_fini(&want);
    }
}

static void
numbers_come_back(void **state)
{
    static const struct {
        struct val v;
        const char *json;
    } rows[] = {
        {{.type = VAL_INT, .u.i = 0}, "0"},
        {{.type = VAL_DBL, .u.d = -0.0}, "0"},
        {{.type = VAL_DBL, .u.d = 15.0}, "15"},
        {{.type = VAL_DBL, .u.d = 0.1}, "0.1"},
        {{.type = VAL_DBL, .u.d = -2.5}, "-2.5"},
        {{.type = VAL_DBL, .u.d = 1e300}, "1e+300"},
        {{.type = VAL_DBL, .u.d = 0x1p63}, "9.223372036854776e+18"},
        {{.type = VAL_DBL, .u.d = 0x1p62}, "4611686018427387904"},
        {{.type = VAL_DBL, .u.d = 5e-324}, "5e-324"},
        {{.type = VAL_DBL, .u.d = -INFINITY}, "-Infinity"},
    };
    struct buf out;
    size_t i;
    int k;

    (void)state;
    (void)util_seed();
    buf_init(&out);
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf b = enc(rows[i].v);

        buf_clear(&out);
        assert_int_equal(key_part_text(&out, b.data, b.data + b.len), b.len);
        assert_string_equal(buf_cstr(&out), rows[i].json);
        buf_fini(&b);
    }
    for (k = 0; k < 50000; k++) {
        int64_t v = (int64_t)util_rand() >> util_below(64);
        struct buf b = enc(val_int(v));
        char want[NUM_TEXT_MAX];

        buf_clear(&out);
        assert_int_equal(key_part_json(&out, b.data, b.data + b.len), b.len);
        (void)num_text_int(v, want);
        assert_string_equal(buf_cstr(&out), want);
        buf_fini(&b);
    }
    buf_fini(&out);
}

static void
maps_come_back(void **state)
{
    struct buf b, out;

    (void)state;
    buf_init(&b);
    buf_init(&out);
    key_put_map(&b);
    key_put_str(&b, "a\0", 2);
    key_put_list(&b);
    key_put_int(&b, 1);
    key_put_map(&b);
    key_put_str(&b, "", 0);
    key_put_null(&b);
    key_put_end(&b);
    key_put_str(&b, "x\"", 2);
    key_put_end(&b);
    key_put_str(&b, "b", 1);
    key_put_bool(&b, true);
    key_put_end(&b);
    key_put_str(&b, "next part", 9);
    assert_int_equal(key_part_json(&out, b.data, b.data + b.len), b.len - 12);
    assert_string_equal(buf_cstr(&out),
                        "{\"a\\u0000\":[1,{\"\":null},\"x\\\"\"],\"b\":true}");
    buf_fini(&b);
    buf_fini(&out);
}

/* Every cut is seen, nothing is written, and no byte behind the end is read
 * (the copy has none; run with AddressSanitizer). */
static void
cut_encodings_are_refused(void **state)
{
    struct buf b, out;
    size_t len;

    (void)state;
    buf_init(&b);
    buf_init(&out);
    key_put_list(&b);
    key_put_int(&b, INT64_MAX);
    key_put_str(&b, "a\0b", 3);
    key_put_map(&b);
    key_put_str(&b, "n", 1);
    key_put_double(&b, 1.5);
    key_put_end(&b);
    key_put_end(&b);
    for (len = 0; len < b.len; len++) {
        char *cut = malloc(len + (len == 0));

        memcpy(cut, b.data, len);
        assert_int_equal(key_part_len(cut, cut + len), 0);
        assert_int_equal(key_part_json(&out, cut, cut + len), 0);
        assert_int_equal(key_part_text(&out, cut, cut + len), 0);
        assert_int_equal(out.len, 0);
        free(cut);
    }
    buf_fini(&b);
    buf_fini(&out);
}

static void
what_no_encoder_writes_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\x01", 1}, /* an end alone */
        {"\x02", 1}, /* null at the top */
        {"\x09", 1}, /* no tag */
        {"\x06"
         "a\0b\0\0",
         6},                      /* a bad escape */
        {"\x08\x03\x04\x01", 4},  /* a name that is no string */
        {"\x08\x06n\0\0\x01", 6}, /* a name without a value */
        {"\x05\x7f\xff\xff\xff\xff\xff\xff\xff", 9}, /* -0.0 */
        {"\x05\xff\xf8\0\0\0\0\0\0", 9},             /* NaN */
        {"\x05\xc3\x40\0\0\0\0\0\0\0\x02", 11},      /* remainder too large */
    };
    static const char good[] = "\x05\xc3\x40\0\0\0\0\0\0\0\x01";
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(key_part_len(bad[i].bytes, bad[i].bytes + bad[i].len),
                         0);
    assert_int_equal(key_part_len(good, good + sizeof good - 1), 11);
}

static void
nesting_is_bounded(void **state)
{
    struct buf b;
    int i, depth;

    (void)state;
    buf_init(&b);
    for (depth = KEY_DEPTH_MAX; depth <= KEY_DEPTH_MAX + 1; depth++) {
        buf_clear(&b);
        for (i = 0; i < depth; i++)
            key_put_list(&b);
        for (i = 0; i < depth; i++)
            key_put_end(&b);
        assert_int_equal(key_part_len(b.data, b.data + b.len),
                         depth <= KEY_DEPTH_MAX ? b.len : 0);
    }
    buf_fini(&b);
}

static void
what_is_no_key_is_refused(void **state)
{
    struct val no[] = {
        val_nil(),         val_dbl((double)NAN),      {.type = VAL_NULL},
        {.type = VAL_BAD}, util_json(VAL_LIST, "[]"), util_json(VAL_MAP, "{}")};
    struct buf b;
    size_t i;

    (void)state;
    buf_init(&b);
    for (i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(key_put_scalar(&b, &no[i]));
    assert_int_equal(b.len, 0);
    buf_fini(&b);
}

static void
key_groups_follow_flink(void **state)
{
    uint32_t g, before = 0, counts[7] = {0};

    (void)state;
    assert_int_equal(key_groups_default(1), 128);
    assert_int_equal(key_groups_default(85), 128);
    assert_int_equal(key_groups_default(86), 256);
    assert_int_equal(key_groups_default(1000), 2048);
    assert_int_equal(key_groups_default(32768), 32768);
    for (g = 0; g < 128; g++) {
        uint32_t t = key_group_subtask(g, 7, 128);

        assert_true(t >= before && t < 7);
        before = t;
        counts[t]++;
    }
    for (g = 0; g < 7; g++)
        assert_in_range(counts[g], 18, 19);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_ordered_by_value),
        cmocka_unit_test(equal_numbers_are_one_key),
        cmocka_unit_test(types_are_ordered),
        cmocka_unit_test(strings_are_ordered_by_bytes),
        cmocka_unit_test(strings_come_back),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(maps_come_back),
        cmocka_unit_test(cut_encodings_are_refused),
        cmocka_unit_test(what_no_encoder_writes_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test(key_groups_follow_flink),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
