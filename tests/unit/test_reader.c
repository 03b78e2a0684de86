/*
 * Readers: paths, laziness, values, rows, layouts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "core/rec.h"
#include "format/json.h"
#include "format/reader.h"

static struct rec *
add_json(struct batch *b, const char *text, size_t len)
{
    struct rec *r = batch_add(b);

    r->val = arena_dup(&b->arena, text, len);
    r->val_len = (uint32_t)len;
    r->kind = REC_OBJECT;
    return r;
}

static uint32_t
column(struct reader *r, const char *path)
{
    struct err e;
    uint32_t col;

    assert_int_equal(reader_column(r, path, strlen(path), &col, &e), 0);
    return col;
}

/* Get `path` of one record, by row and without: both must agree. */
static int
get(const char *text, uint8_t kind, uint8_t flags, const char *path,
    struct val *ret, struct err *e)
{
    struct reader *r = reader_new();
    struct batch b;
    static char kept[4096];
    uint32_t col = column(r, path);
    struct val v = val_nil();
    int rc, rc2;

    batch_init(&b);
    add_json(&b, text, strlen(text));
    b.recs[0].kind = kind;
    b.recs[0].flags = flags;
    rc = reader_get(r, &b.recs[0], col, ret, e);
    reader_load(r, &b);
    assert_int_equal(b.recs[0].row_n, 1);
    assert_int_equal(b.recs[0].row[col].type == VAL_BAD, rc != 0);
    rc2 = reader_get(r, &b.recs[0], col, &v, e);
    assert_int_equal(rc, rc2);
    if (rc == 0) {
        assert_int_equal(v.type, ret->type);
        if (v.type >= VAL_STR) {
            assert_int_equal(v.len, ret->len);
            assert_memory_equal(v.u.s, ret->u.s, v.len);
            memcpy(kept, v.u.s, v.len);
            ret->u.s = kept;
        }
    }
    batch_fini(&b);
    reader_free(&r);
    return rc;
}

static void
want_int(const char *text, const char *path, int64_t i)
{
    struct val v;
    struct err e;

    assert_int_equal(get(text, REC_OBJECT, 0, path, &v, &e), 0);
    assert_int_equal(v.type, VAL_INT);
    assert_int_equal(v.u.i, i);
}

static void
want_type(const char *text, const char *path, enum val_type t)
{
    struct val v;
    struct err e;

    assert_int_equal(get(text, REC_OBJECT, 0, path, &v, &e), 0);
    assert_int_equal(v.type, t);
}

static void
want_text(const char *text, const char *path, enum val_type t, const char *want)
{
    struct val v;
    struct err e;

    assert_int_equal(get(text, REC_OBJECT, 0, path, &v, &e), 0);
    assert_int_equal(v.type, t);
    assert_int_equal(v.len, strlen(want));
    assert_memory_equal(v.u.s, want, v.len);
}

static void
want_bad(const char *text, const char *path, enum err_cause cause)
{
    struct val v;
    struct err e;

    assert_int_equal(get(text, REC_OBJECT, 0, path, &v, &e), ERR_RECORD);
    assert_int_equal(e.cause, cause);
}

static void
paths_find_members_and_elements(void **state)
{
    (void)state;

    want_int("{\"a\":1}", "a", 1);
    want_int("{ \"a\" : { \"b\" : 2 } }", "a.b", 2);
    want_int("{\"a.b\":3,\"a\":{\"b\":2}}", "a\\.b", 3);
    want_int("{\"l\":[10,20,30]}", "l.2", 20);
    want_int("{\"l\":{\"2\":7}}", "l.2", 7);
    want_type("{\"l\":[10]}", "l.2", VAL_NIL);
    want_type("{\"l\":[10]}", "l.0", VAL_NIL);
    want_type("{\"l\":[10]}", "l.01", VAL_NIL);
    want_type("{\"a\":null}", "a", VAL_NULL);
    want_type("{\"a\":null}", "a.b", VAL_NIL);
    want_type("{\"a\":\"x\"}", "a.b", VAL_NIL);
    want_type("{}", "a", VAL_NIL);
    want_text("{\"a\":[]}", "a", VAL_LIST, "[]");
    want_text("{\"a\":{ }}", "a", VAL_MAP, "{ }");
    want_text("{\"a\":{\"b\":[1, 2]} }", "a", VAL_MAP, "{\"b\":[1, 2]}");
}

static void
malformed_paths_are_refused(void **state)
{
    static const char *const bad[] = {"", ".", "a.", ".a", "a..b"};
    struct reader *r = reader_new();
    struct err e;
    uint32_t a, b, i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(reader_column(r, bad[i], strlen(bad[i]), &a, &e),
                         ERR_JOBFILE);
    assert_int_equal(reader_column(r, "a\\.b", 4, &a, &e), 0);
    assert_int_equal(reader_column_name(r, "a.b", 3, &b, &e), 0);
    assert_int_equal(a, b);
    assert_int_equal(reader_column(r, "a.b", 3, &b, &e), 0);
    assert_int_not_equal(a, b);
    reader_free(&r);
}

static void
columns_have_a_limit(void **state)
{
    struct reader *r = reader_new();
    struct err e;
    char name[16];
    uint32_t i, col;
    struct batch b;

    (void)state;
    for (i = 0; i < READER_COLUMNS_MAX; i++) {
        (void)snprintf(name, sizeof name, "c%u", i);
        assert_int_equal(column(r, name), i);
    }
    assert_int_equal(reader_column(r, "more", 4, &col, &e), ERR_RECORD);
    assert_int_equal(column(r, "c7"), 7);

    batch_init(&b);
    add_json(&b, "{\"c1023\":1,\"c512\":2,\"x\":3}", 27);
    reader_load(r, &b);
    assert_int_equal(b.recs[0].row[1023].u.i, 1);
    assert_int_equal(b.recs[0].row[512].u.i, 2);
    assert_int_equal(b.recs[0].row[0].type, VAL_NIL);
    batch_fini(&b);
    reader_free(&r);
}

static void
integers_are_exact_and_doubles_rounded(void **state)
{
    struct val v;
    struct err e;

    (void)state;
    want_int("{\"a\":9223372036854775807}", "a", INT64_MAX);
    want_int("{\"a\":-9223372036854775808}", "a", INT64_MIN);
    want_int("{\"a\":9007199254740993}", "a", 9007199254740993);
    want_int("{\"a\":-0}", "a", 0);
    assert_int_equal(get("{\"a\":1.0}", REC_OBJECT, 0, "a", &v, &e), 0);
    assert_int_equal(v.type, VAL_DBL);
    assert_int_equal(get("{\"a\":1e3}", REC_OBJECT, 0, "a", &v, &e), 0);
    assert_int_equal(v.type, VAL_DBL);
    assert_true(v.u.d == 1000.0);
    assert_int_equal(get("{\"a\":0.1}", REC_OBJECT, 0, "a", &v, &e), 0);
    assert_true(v.u.d == 0.1);
    want_bad("{\"a\":1e400}", "a", CAUSE_DECODE);
    want_bad("{\"a\":9223372036854775808}", "a", CAUSE_BIGINT);
}

static void
big_integers_follow_the_policy(void **state)
{
    const char *text = "{\"a\":-92233720368547758080}";
    struct val v;
    struct err e;

    (void)state;
    assert_int_equal(get(text, REC_OBJECT, REC_BIGINT_STRING, "a", &v, &e), 0);
    assert_int_equal(v.type, VAL_STR);
    assert_memory_equal(v.u.s, "-92233720368547758080", v.len);
    assert_int_equal(get(text, REC_OBJECT, REC_BIGINT_FLOAT, "a", &v, &e), 0);
    assert_int_equal(v.type, VAL_DBL);
    assert_true(v.u.d == -92233720368547758080.0);
}

static void
names_and_strings_are_unescaped(void **state)
{
    (void)state;
    want_int("{\"\\u0061\\/\":5}", "a/", 5);
    want_text("{\"a\":\"\\u20ac\\ud83d\\ude00\\n\"}", "a", VAL_STR,
              "\xE2\x82\xAC\xF0\x9F\x98\x80\n");
    want_bad("{\"a\":\"\\ud83d\"}", "a", CAUSE_DECODE);
    want_bad("{\"a\":\"\\ude00\\ud83d\"}", "a", CAUSE_DECODE);
    want_bad("{\"a\":\"\\x\"}", "a", CAUSE_DECODE);
    want_bad("{\"a\":\"\n\"}", "a", CAUSE_DECODE);
}

static void
of_duplicates_the_first_counts(void **state)
{
    (void)state;
    want_int("{\"a\":1,\"a\":2}", "a", 1);
    want_int("{\"\\u0061\":1,\"a\":2}", "a", 1);
    want_type("{\"a\":{\"c\":1},\"a\":{\"b\":2}}", "a.b", VAL_NIL);
}

static void
errors_behind_the_field_are_not_seen(void **state)
{
    (void)state;
    want_int("{\"a\":1,\"b\":tru}", "a", 1);
    want_int("{\"a\":1 oops}", "a", 1);
    want_bad("{\"a\":1,\"b\":tru}", "b", CAUSE_DECODE);
    want_bad("{\"b\":tru,\"a\":1}", "a", CAUSE_DECODE);
    want_bad("{\"a\":1,\"b\":tru}", "c", CAUSE_DECODE);
    want_bad("{\"a\":01}", "a", CAUSE_DECODE);
    want_bad("{\"a\":[1,2}", "a", CAUSE_DECODE);
    want_int("{\"a\":[1,2}", "a.2", 2);
    /* What is well formed and cannot be decoded concerns its reader only. */
    want_int("{\"x\":1e400,\"y\":99999999999999999999,\"a\":1}", "a", 1);
}

static void
extended_tokens_need_engine_made_text(void **state)
{
    struct val v;
    struct err e;

    (void)state;
    want_bad("{\"a\":NaN}", "a", CAUSE_DECODE);
    assert_int_equal(get("{\"a\":-Infinity}", REC_OBJECT, REC_EXT, "a", &v, &e),
                     0);
    assert_int_equal(v.type, VAL_DBL);
    assert_true(v.u.d < -1e308);
}

static void
other_payloads_have_the_field_value(void **state)
{
    struct val v;
    struct err e;

    (void)state;
    assert_int_equal(get("abc", REC_TEXT, 0, "value", &v, &e), 0);
    assert_int_equal(v.type, VAL_STR);
    assert_int_equal(get("abc", REC_TEXT, 0, "a", &v, &e), 0);
    assert_int_equal(v.type, VAL_NIL);
    assert_int_equal(get("17", REC_VALUE, 0, "value", &v, &e), 0);
    assert_int_equal(v.u.i, 17);
    assert_int_equal(get("[1,[2]]", REC_VALUE, 0, "value.2.1", &v, &e), 0);
    assert_int_equal(v.u.i, 2);
    assert_int_equal(get("[1]", REC_VALUE, 0, "other", &v, &e), 0);
    assert_int_equal(v.type, VAL_NIL);
    assert_int_equal(get("1 2", REC_VALUE, 0, "value", &v, &e), ERR_RECORD);
}

static void
want_raw(const char *text, uint8_t kind, const char *path, const char *want)
{
    struct reader *r = reader_new();
    struct rec rec = {
        .val = text, .val_len = (uint32_t)strlen(text), .kind = kind};
    const char *raw;
    size_t len = 0;
    struct err e;

    assert_int_equal(reader_raw(r, &rec, column(r, path), &raw, &len, &e), 0);
    if (want == NULL) {
        assert_null(raw);
    } else {
        assert_int_equal(len, strlen(want));
        assert_memory_equal(raw, want, len);
    }
    reader_free(&r);
}

static void
raw_gives_the_bytes_as_they_stand(void **state)
{
    (void)state;
    want_raw("{\"a\": 1.50 }", REC_OBJECT, "a", "1.50");
    want_raw("{\"a\":{\"b\": [ 1 ] }}", REC_OBJECT, "a", "{\"b\": [ 1 ] }");
    want_raw("{\"a\":{\"b\":\"\\u0061\"}}", REC_OBJECT, "a.b", "\"\\u0061\"");
    want_raw("{\"a\":null}", REC_OBJECT, "a", "null");
    want_raw("{\"a\":null}", REC_OBJECT, "b", NULL);
    want_raw("1.50", REC_VALUE, "value", "1.50");
    want_raw("[1,1.50]", REC_VALUE, "value.2", "1.50");
    want_raw("a\"b", REC_TEXT, "value", "\"a\\\"b\"");
    want_raw("ab", REC_TEXT, "other", NULL);
}

static void
tombstones_read_as_their_fields(void **state)
{
    struct reader *r = reader_new();
    uint32_t id = column(r, "id");
    struct batch b;
    struct rec *t;

    (void)state;
    batch_init(&b);
    t = batch_add(&b);
    t->kind = REC_TOMBSTONE;
    add_json(&b, "{\"id\":4}", 8)->kind = REC_TOMBSTONE;
    reader_load(r, &b);
    assert_int_equal(b.recs[0].row[id].type, VAL_NIL);
    assert_int_equal(b.recs[1].row[id].u.i, 4);
    batch_fini(&b);
    reader_free(&r);
}

static void
deep_nesting_is_an_error_beyond_1024(void **state)
{
    static char text[4200];
    struct reader *r = reader_new();
    uint32_t a = column(r, "a"), z = column(r, "z");
    struct val v;
    struct err e;
    struct batch b;
    unsigned n;

    (void)state;
    for (n = 1023; n <= 1024; n++) {
        size_t len = 0;

        memcpy(text, "{\"a\":", 5);
        memset(text + 5, '[', n);
        memset(text + 5 + n, ']', n);
        len = 5 + 2 * n;
        memcpy(text + len, ",\"z\":1}", 7);
        len += 7;
        batch_init(&b);
        add_json(&b, text, len);
        reader_load(r, &b);
        if (n == 1023) {
            assert_int_equal(b.recs[0].row[a].type, VAL_LIST);
            assert_int_equal(b.recs[0].row[z].u.i, 1);
        } else {
            assert_int_equal(b.recs[0].row[a].type, VAL_BAD);
            assert_int_equal(reader_get(r, &b.recs[0], z, &v, &e), ERR_RECORD);
            assert_int_equal(e.cause, CAUSE_DECODE);
        }
        batch_fini(&b);
    }
    reader_free(&r);
}

static void
rows_follow_their_bytes(void **state)
{
    struct reader *r = reader_new();
    uint32_t a = column(r, "a"), c;
    struct val v;
    struct err e;
    struct batch b;
    const struct val *row;

    (void)state;
    batch_init(&b);
    add_json(&b, "{\"a\":1,\"c\":5}", 13);
    add_json(&b, "{\"a\":2,\"c\":6}", 13);
    reader_load(r, &b);
    row = b.recs[0].row;

    /* A second load keeps what is there, also with a new column. */
    c = column(r, "c");
    reader_load(r, &b);
    assert_ptr_equal(b.recs[0].row, row);
    assert_int_equal(b.recs[0].row_n, 1);
    assert_int_equal(reader_get(r, &b.recs[0], c, &v, &e), 0);
    assert_int_equal(v.u.i, 5);

    /* A record that got other bytes is read anew; the rest stays. */
    b.recs[1].val = arena_dup(&b.arena, "{\"a\":9}", 7);
    b.recs[1].val_len = 7;
    assert_int_equal(reader_get(r, &b.recs[1], a, &v, &e), 0);
    assert_int_equal(v.u.i, 9);
    reader_load(r, &b);
    assert_ptr_equal(b.recs[0].row, row);
    assert_int_equal(b.recs[1].row[a].u.i, 9);
    assert_int_equal(b.recs[1].row_n, 2);
    batch_fini(&b);
    reader_free(&r);
}

static void
layouts_serve_records_that_look_alike(void **state)
{
    struct reader *r = reader_new();
    struct reader_stats st;
    struct batch b;
    char text[256];
    uint32_t i, k = column(r, "k"), m = column(r, "m"), z = column(r, "z");

    (void)state;
    batch_init(&b);
    for (i = 0; i < 1000; i++) {
        int n =
            snprintf(text, sizeof text,
                     "{\"k\":\"key%u\",\"m\":{\"x\":[1,%u.5],\"y\":%s},"
                     "\"z\":%d,\"free%u\":1}",
                     i, i, i % 3 != 0 ? "null" : "\"\\n\"", (int)i - 500, i);

        add_json(&b, text, (size_t)n);
    }
    reader_load(r, &b);
    for (i = 0; i < 1000; i++) {
        assert_int_equal(b.recs[i].row[k].type, VAL_STR);
        assert_int_equal(b.recs[i].row[m].type, VAL_MAP);
        assert_int_equal(b.recs[i].row[m].u.s[b.recs[i].row[m].len - 1], '}');
        assert_int_equal(b.recs[i].row[z].u.i, (int)i - 500);
    }
    reader_stats(r, &st);
    assert_int_equal(st.records, 1000);
    assert_true(st.layout_hits >= 990);
    batch_fini(&b);
    reader_free(&r);
}

static void
columns_may_be_added_between_loads(void **state)
{
    struct reader *r = reader_new();
    struct batch b;
    uint32_t i, round, a = column(r, "a"), z = 0;

    (void)state;
    batch_init(&b);
    for (round = 0; round < 2; round++) {
        batch_clear(&b);
        for (i = 0; i < 8; i++)
            add_json(&b, "{\"a\":1,\"b\":\"x\",\"z\":3}", 21);
        reader_load(r, &b);
        for (i = 0; i < b.n; i++) {
            assert_int_equal(b.recs[i].row_n, round + 1);
            assert_int_equal(b.recs[i].row[a].u.i, 1);
            if (round == 1) {
                assert_int_equal(b.recs[i].row[z].type, VAL_INT);
                assert_int_equal(b.recs[i].row[z].u.i, 3);
            }
        }
        z = column(r, "z");
    }
    batch_fini(&b);
    reader_free(&r);
}

static void
readers_give_up_on_shapeless_records_and_return(void **state)
{
    struct reader *r = reader_new();
    struct reader_stats st;
    struct batch b;
    struct buf t;
    uint32_t i, round, a = column(r, "a");
    uint64_t before = 0;

    (void)state;
    batch_init(&b);
    buf_init(&t);
    for (round = 0; round < 12; round++) {
        batch_clear(&b);
        for (i = 0; i < 1000; i++) {
            buf_clear(&t);
            if (round < 4)
                buf_addf(&t, "{\"x%u\":0,\"a\":%u}", round * 1000 + i, i);
            else
                buf_addf(&t, "{\"a\":%u}", i);
            add_json(&b, t.data, t.len);
        }
        reader_load(r, &b);
        for (i = 0; i < b.n; i++)
            assert_int_equal(b.recs[i].row[a].u.i, i);
        reader_stats(r, &st);
        if (round == 3)
            assert_int_equal(st.layout_hits, 0);
        if (round == 11)
            assert_int_equal(st.layout_hits - before, 1000);
        before = st.layout_hits;
    }
    buf_fini(&t);
    batch_fini(&b);
    reader_free(&r);
}

static void
varying_containers_become_opaque(void **state)
{
    struct reader *r = reader_new();
    struct reader_stats st;
    struct batch b;
    struct buf t;
    uint32_t i, j, z = column(r, "z"), y = column(r, "m.y");

    (void)state;
    batch_init(&b);
    buf_init(&t);
    for (i = 0; i < 1000; i++) {
        buf_clear(&t);
        buf_adds(&t, "{\"m\":{");
        for (j = 0; j < i % 37; j++)
            buf_addf(&t, "\"x%u\":%u,", j, j);
        buf_addf(&t, "\"y\":%u},\"z\":%u}", i, i);
        add_json(&b, t.data, t.len);
    }
    reader_load(r, &b);
    for (i = 0; i < 1000; i++) {
        assert_int_equal(b.recs[i].row[z].u.i, i);
        assert_int_equal(b.recs[i].row[y].u.i, i);
    }
    reader_stats(r, &st);
    assert_true(st.layout_hits >= 950);
    buf_fini(&t);
    batch_fini(&b);
    reader_free(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_members_and_elements),
        cmocka_unit_test(malformed_paths_are_refused),
        cmocka_unit_test(columns_have_a_limit),
        cmocka_unit_test(integers_are_exact_and_doubles_rounded),
        cmocka_unit_test(big_integers_follow_the_policy),
        cmocka_unit_test(names_and_strings_are_unescaped),
        cmocka_unit_test(of_duplicates_the_first_counts),
        cmocka_unit_test(errors_behind_the_field_are_not_seen),
        cmocka_unit_test(extended_tokens_need_engine_made_text),
        cmocka_unit_test(other_payloads_have_the_field_value),
        cmocka_unit_test(raw_gives_the_bytes_as_they_stand),
        cmocka_unit_test(tombstones_read_as_their_fields),
        cmocka_unit_test(deep_nesting_is_an_error_beyond_1024),
        cmocka_unit_test(rows_follow_their_bytes),
        cmocka_unit_test(layouts_serve_records_that_look_alike),
        cmocka_unit_test(columns_may_be_added_between_loads),
        cmocka_unit_test(readers_give_up_on_shapeless_records_and_return),
        cmocka_unit_test(varying_containers_become_opaque),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
