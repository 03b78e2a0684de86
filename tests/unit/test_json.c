/*
 * JSON texts: check, walk, decode, canonical keys, writing by policy; the
 * scanner against simdjson on generated damage.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/hash.h"
#include "format/json.h"
#include "format/scan.h"
#include "format/simd.h"

static uint64_t seed;

static uint32_t
draw(uint32_t below)
{
    seed = hash_splitmix(seed);
    return (uint32_t)((seed >> 32) % below);
}

/* json_check() of a copy with padding. */
static int
check(const char *text, size_t len, bool validate, struct rec *r)
{
    struct arena a;
    struct err e;
    int rc;

    arena_init(&a);
    memset(r, 0, sizeof *r);
    rc = json_check(arena_dup(&a, text, len), len, validate, r, &e);
    if (rc != 0)
        assert_int_equal(e.cause, CAUSE_DECODE);
    arena_fini(&a);
    return rc;
}

static void
check_looks_at_ends_and_utf8(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint8_t kind;
    } t[] = {
        {"{\"a\":1}", 0, REC_OBJECT}, {" \n{}\t", 0, REC_OBJECT},
        {"{oops}", 0, REC_OBJECT},    {"[1]", 0, REC_VALUE},
        {"17", 0, REC_VALUE},         {"-1e5", 0, REC_VALUE},
        {"\"x\"", 0, REC_VALUE},      {"null", 0, REC_VALUE},
        {"", ERR_RECORD, 0},          {"  ", ERR_RECORD, 0},
        {"{\"a\":1", ERR_RECORD, 0},  {"nul", ERR_RECORD, 0},
        {"\"", ERR_RECORD, 0},        {"{\"a\":\"\xFF\"}", ERR_RECORD, 0},
        {"hello", ERR_RECORD, 0},     {"\xEF\xBB\xBF{}", ERR_RECORD, 0},
        {"NaN", ERR_RECORD, 0},       {"{\"a\":\"\xC3\xA9\"}", 0, 0},
    };
    struct rec r;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        assert_int_equal(check(t[i].text, strlen(t[i].text), false, &r),
                         t[i].rc);
        if (t[i].rc == 0)
            assert_int_equal(r.kind, t[i].kind);
    }
    assert_int_equal(check(" {} ", 4, false, &r), 0);
    assert_int_equal(r.val_len, 2);
}

static void
validate_checks_all_and_nothing_more(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } t[] = {
        {"{\"a\":99999999999999999999,\"b\":1e400}", 0},
        {"{\"a\":[1,{\"b\":null}],\"c\":\"\\u00e9\"}", 0},
        {"{oops}", ERR_RECORD},
        {"{\"a\":1}{}", ERR_RECORD},
        {"{\"a\":01}", ERR_RECORD},
        {"{\"a\":1,}", ERR_RECORD},
        {"[1,]", ERR_RECORD},
        {"{\"a\":\"\\ud800\"}", ERR_RECORD},
        {"{\"a\":NaN}", ERR_RECORD},
        {"[-]", ERR_RECORD},
        {"{\"a\":\"\t\"}", ERR_RECORD},
    };
    struct rec r;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof t / sizeof *t; i++)
        assert_int_equal(check(t[i].text, strlen(t[i].text), true, &r),
                         t[i].rc);
}

static void
long_texts_are_validated_alike(void **state)
{
    struct buf b;
    struct rec r;
    int i;

    (void)state;
    buf_init(&b);
    buf_addc(&b, '[');
    for (i = 0; i < 300000; i++)
        buf_adds(&b, "{\"k\":\"0123456789\",\"v\":[1,2.5,null]},");
    buf_adds(&b, "1e400]");
    assert_int_equal(check(b.data, b.len, true, &r), 0);
    b.data[b.len / 2] = '\x01';
    assert_int_equal(check(b.data, b.len, true, &r), ERR_RECORD);
    buf_fini(&b);
}

static void
depth_ends_at_1024(void **state)
{
    char text[2100];
    struct rec r;
    size_t n;

    (void)state;
    for (n = 1023; n <= 1025; n++) {
        memset(text, '[', n);
        memset(text + n, ']', n);
        assert_int_equal(check(text, 2 * n, true, &r),
                         n <= 1024 ? 0 : ERR_RECORD);
    }
}

static bool
scanner_ok(const char *text, size_t len)
{
    struct scan s;
    const char *p;

    scan_init(&s, text, len, false, BIGINT_FLOAT, NULL);
    p = scan_skip(&s, scan_blanks(&s, text), 0);
    return p != NULL && scan_blanks(&s, p) == s.end;
}

/* A number that only simdjson refuses: without digits enough for it. */
static bool
has_long_number(const char *text, size_t len)
{
    size_t i, run = 0;

    for (i = 0; i < len; i++) {
        run = text[i] >= '0' && text[i] <= '9' ? run + 1 : 0;
        if (run > 18 || ((text[i] | 32) == 'e' && i + 3 < len))
            return true;
    }
    return false;
}

static void
scanner_agrees_with_simdjson(void **state)
{
    static const char *const bases[] = {
        "{\"a\":1,\"b\":[true,false,null],\"c\":{\"d\":\"x\\n\\u00e9\"}}",
        "[0,-1,2.5,\"\\\"\",{},[],[[]],{\"\":\"\"}]",
        " {\"k\" : \"\\ud83d\\ude00 abcdefghijklmnopqrstuvwxyz\" , \"v\":-0}",
        "\"just a string\"",
        "[\"0123456789abcde\",\"0123456789abcdef\",\"0123456789abcdefg\"]",
    };
    static const char set[] = "{}[]\",:\\ \n0129.-tfnu\x01\x7f"
                              "aA/";
    struct arena a;
    unsigned i, k, good = 0;

    (void)state;
    arena_init(&a);
    for (i = 0; i < 200000; i++) {
        const char *base = bases[draw(5)];
        size_t len = strlen(base);
        char *text;

        if (i % 64 == 0)
            arena_reset(&a);
        text = arena_dup(&a, base, len);
        for (k = 1 + draw(2); k > 0; k--)
            text[draw((uint32_t)len)] = set[draw(sizeof set - 1)];
        if (draw(8) == 0)
            len = 1 + draw((uint32_t)len);
        if (has_long_number(text, len))
            continue;
        good += scanner_ok(text, len);
        if (scanner_ok(text, len) != simd_json_ok(text, len))
            fail_msg("scanner says %d of %.*s", scanner_ok(text, len), (int)len,
                     text);
    }
    assert_true(good > 10000);
    arena_fini(&a);
}

static void
walk_gives_members_in_order(void **state)
{
    const char *text = "{ \"a\" : 1, \"\\u0062\":[2, 3], \"a\":NaN }";
    struct arena a;
    struct json_walk w;
    struct val n, v;
    struct err e;
    const char *raw;
    size_t raw_len;

    (void)state;
    arena_init(&a);
    json_walk_init(&w, text, strlen(text), BIGINT_ERROR, &a);
    assert_int_equal(json_walk_next(&w, &n, &v, NULL, NULL, &e), 1);
    assert_int_equal(v.u.i, 1);
    assert_int_equal(json_walk_next(&w, &n, &v, &raw, &raw_len, &e), 1);
    assert_int_equal(n.len, 1);
    assert_int_equal(n.u.s[0], 'b');
    assert_int_equal(v.type, VAL_LIST);
    assert_int_equal(raw_len, 6);
    assert_memory_equal(raw, "[2, 3]", 6);
    assert_int_equal(json_walk_next(&w, &n, &v, NULL, NULL, &e), 1);
    assert_true(isnan(v.u.d));
    assert_int_equal(json_walk_next(&w, &n, &v, NULL, NULL, &e), 0);
    assert_int_equal(json_walk_next(&w, &n, &v, NULL, NULL, &e), 0);

    json_walk_init(&w, "[1 2]", 5, BIGINT_ERROR, &a);
    assert_int_equal(json_walk_next(&w, NULL, &v, NULL, NULL, &e), 1);
    assert_int_equal(json_walk_next(&w, NULL, &v, NULL, NULL, &e), ERR_RECORD);
    json_walk_init(&w, "[]", 2, BIGINT_ERROR, &a);
    assert_int_equal(json_walk_next(&w, NULL, &v, NULL, NULL, &e), 0);
    json_walk_init(&w, "[99999999999999999999,5]", 24, BIGINT_ERROR, &a);
    assert_int_equal(json_walk_next(&w, NULL, &v, NULL, NULL, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_BIGINT);
    assert_int_equal(json_walk_next(&w, NULL, &v, NULL, NULL, &e), 1);
    assert_int_equal(v.u.i, 5);
    arena_fini(&a);
}

static void
value_decodes_the_whole_text(void **state)
{
    struct arena a;
    struct val v;
    struct err e;

    (void)state;
    arena_init(&a);
    assert_int_equal(json_value(" 12 ", 4, BIGINT_ERROR, &a, &v, &e), 0);
    assert_int_equal(v.u.i, 12);
    assert_int_equal(json_value("12 3", 4, BIGINT_ERROR, &a, &v, &e),
                     ERR_RECORD);
    assert_int_equal(v.u.i, 12);
    assert_int_equal(json_value("", 0, BIGINT_ERROR, &a, &v, &e), ERR_RECORD);
    assert_int_equal(json_value("-", 1, BIGINT_ERROR, &a, &v, &e), ERR_RECORD);
    assert_int_equal(json_value("[1", 2, BIGINT_ERROR, &a, &v, &e), ERR_RECORD);
    arena_fini(&a);
}

static struct val
text_val(const char *text)
{
    struct val v = val_str(text, (uint32_t)strlen(text));

    v.type = *text == '{' ? VAL_MAP : *text == '[' ? VAL_LIST : VAL_STR;
    return v;
}

static bool
same_key(const char *x, const char *y)
{
    struct buf a, b;
    struct err e;
    struct val v = text_val(x), w = text_val(y);
    bool same;
    int i;

    buf_init(&a);
    buf_init(&b);
    for (i = 0; i < 2; i++) { /* the second time from the cache */
        buf_clear(&a);
        buf_clear(&b);
        assert_int_equal(json_key_encode(&a, &v, &e), 0);
        assert_int_equal(json_key_encode(&b, &w, &e), 0);
    }
    same = a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    buf_fini(&a);
    buf_fini(&b);
    return same;
}

static void
keys_do_not_depend_on_spelling(void **state)
{
    (void)state;
    assert_true(same_key("{\"a\":1,\"b\":[2,null]}",
                         "{ \"b\" : [2.0,null], \"\\u0061\":1e0}"));
    assert_true(same_key("{\"a\":1,\"a\":2}", "{\"a\":1}"));
    assert_true(same_key("[-0.0]", "[0]"));
    assert_true(same_key("{}", "{ }"));
    assert_false(same_key("{}", "[]"));
    assert_false(same_key("{\"a\":null}", "{}"));
    assert_false(same_key("{\"a\":1}", "{\"a\":\"1\"}"));
    assert_false(same_key("[[1],2]", "[[1,2]]"));
    assert_false(same_key("{\"ab\":1}", "{\"a\":\"b\"}"));
    assert_true(same_key("{\"x\":{\"b\":1,\"a\":[{\"d\":1,\"c\":2}]}}",
                         "{\"x\":{\"a\":[{\"c\":2,\"d\":1}],\"b\":1}}"));
}

static void
key_text_is_canonical_json(void **state)
{
    struct buf b, out;
    struct err e;
    struct val v = text_val("{\"host\":\"h1\",\"dc\":\"x\",\"n\":1.0,"
                            "\"l\":[true,null,2.5]}");
    const char *want = "{\"dc\":\"x\",\"host\":\"h1\",\"l\":[true,null,2.5],"
                       "\"n\":1}";

    (void)state;
    buf_init(&b);
    buf_init(&out);
    assert_int_equal(json_key_encode(&b, &v, &e), 0);
    assert_int_equal(key_part_json(&out, b.data, b.data + b.len), b.len);
    assert_int_equal(out.len, strlen(want));
    assert_memory_equal(out.data, want, out.len);
    buf_fini(&b);
    buf_fini(&out);
}

static void
keys_refuse_what_has_no_identity(void **state)
{
    static const struct {
        const char *text;
        enum err_cause cause;
    } t[] = {
        {"[NaN]", CAUSE_TYPE},
        {"{\"a\":{\"b\":NaN}}", CAUSE_TYPE},
        {"[99999999999999999999]", CAUSE_BIGINT},
        {"[1e400]", CAUSE_DECODE},
        {"{\"a\" 1}", CAUSE_DECODE},
    };
    struct buf b;
    struct err e;
    struct val v;
    size_t i;

    (void)state;
    buf_init(&b);
    buf_adds(&b, "keep");
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        v = text_val(t[i].text);
        assert_int_equal(json_key_encode(&b, &v, &e), ERR_RECORD);
        assert_int_equal(e.cause, t[i].cause);
        assert_int_equal(b.len, 4);
    }
    v = val_nil();
    assert_int_equal(json_key_encode(&b, &v, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_NULL_KEY);
    v = val_dbl((double)NAN);
    assert_int_equal(json_key_encode(&b, &v, &e), ERR_RECORD);
    assert_int_equal(e.cause, CAUSE_TYPE);
    buf_fini(&b);
}

static void *
encode_in_thread(void *arg)
{
    (void)arg;
    assert_true(same_key("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"));
    return NULL;
}

static void
threads_have_their_own_cache(void **state)
{
    pthread_t t;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, encode_in_thread, NULL), 0);
    assert_true(same_key("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"));
    assert_int_equal(pthread_join(t, NULL), 0);
}

static void
plain(const char *text, enum json_nan nan, enum json_utf8 utf8,
      const char *want)
{
    struct buf b;
    struct err e;
    int rc;

    buf_init(&b);
    rc = json_put_plain(&b, text, strlen(text), nan, utf8, &e);
    if (want == NULL) {
        assert_int_equal(rc, ERR_RECORD);
        assert_int_equal(e.cause, CAUSE_ENCODE);
        assert_int_equal(b.len, 0);
    } else {
        assert_int_equal(rc, 0);
        assert_string_equal(buf_cstr(&b), want);
    }
    buf_fini(&b);
}

static void
extended_json_becomes_plain_by_policy(void **state)
{
    const char *t = "{\"NaN\": 1.50,\"a\":NaN,\"b\":[-Infinity,Infinity,-1]}";

    (void)state;
    plain(t, NAN_ERROR, UTF8_ERROR, NULL);
    plain(t, NAN_NULL, UTF8_ERROR,
          "{\"NaN\": 1.50,\"a\":null,\"b\":[null,null,-1]}");
    plain(t, NAN_STRING, UTF8_ERROR,
          "{\"NaN\": 1.50,\"a\":\"NaN\",\"b\":[\"-Infinity\",\"Infinity\","
          "-1]}");
    plain("{\"NaN\\\"\":1}", NAN_ERROR, UTF8_ERROR, "{\"NaN\\\"\":1}");
    plain("\"a\xFF"
          "b\"",
          NAN_ERROR, UTF8_ERROR, NULL);
    plain("\"a\xFF"
          "b\"",
          NAN_ERROR, UTF8_REPLACE,
          "\"a\xEF\xBF\xBD"
          "b\"");
    plain("\"\xE2\x82\xE2\x82\xAC\xF0\x9F\"", NAN_ERROR, UTF8_REPLACE,
          "\"\xEF\xBF\xBD\xE2\x82\xAC\xEF\xBF\xBD\"");
    plain("\"\xED\xA0\x80\"", NAN_ERROR, UTF8_REPLACE,
          "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void
put_val_tells_what_is_no_json(void **state)
{
    struct buf b;
    bool ext = false;
    struct val v;

    (void)state;
    buf_init(&b);
    v = val_int(INT64_MIN);
    json_put_val(&b, &v, &ext);
    v = val_str("a\"\n\x01", 4);
    json_put_val(&b, &v, &ext);
    v = text_val("{\"a\": 1.50}");
    json_put_val(&b, &v, &ext);
    v = val_nil();
    json_put_val(&b, &v, &ext);
    v = val_dbl(15);
    json_put_val(&b, &v, &ext);
    assert_false(ext);
    assert_string_equal(buf_cstr(&b), "-9223372036854775808\"a\\\"\\n\\u0001\""
                                      "{\"a\": 1.50}null15.0");
    v = val_dbl((double)INFINITY);
    json_put_val(&b, &v, &ext);
    assert_true(ext);
    ext = false;
    v = val_str("\xFF", 1);
    json_put_val(&b, &v, &ext);
    assert_true(ext);
    ext = false;
    v = text_val("[NaN]");
    json_put_val(&b, &v, &ext);
    assert_true(ext);
    buf_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_looks_at_ends_and_utf8),
        cmocka_unit_test(validate_checks_all_and_nothing_more),
        cmocka_unit_test(long_texts_are_validated_alike),
        cmocka_unit_test(depth_ends_at_1024),
        cmocka_unit_test(scanner_agrees_with_simdjson),
        cmocka_unit_test(walk_gives_members_in_order),
        cmocka_unit_test(value_decodes_the_whole_text),
        cmocka_unit_test(keys_do_not_depend_on_spelling),
        cmocka_unit_test(key_text_is_canonical_json),
        cmocka_unit_test(keys_refuse_what_has_no_identity),
        cmocka_unit_test(threads_have_their_own_cache),
        cmocka_unit_test(extended_json_becomes_plain_by_policy),
        cmocka_unit_test(put_val_tells_what_is_no_json),
    };
    const char *given = getenv("STREAMLUA_TEST_SEED");

    seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
