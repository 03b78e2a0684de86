/* Failed records as the quarantine gets them, and their JSON lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/quarantine.h"

static struct plan_step step = {.name = "check", .place = "j.lua:4"};
static struct plan plan = {.name = "job", .steps = &step, .step_count = 1};
static struct op_env env = {.plan = &plan};
static const struct op op = {.env = &env, .step = &step};

static struct err
failure(void)
{
    struct err e;

    (void)err_record(&e, CAUSE_USER_ERROR, "no \"x\"");
    err_where(&e, "j.lua:7");
    return e;
}

static struct rec
record(const char *val, uint32_t len)
{
    return (struct rec){.kind = REC_OBJECT,
                        .flags = REC_HAS_TS | REC_OWNED,
                        .val = val,
                        .val_len = len,
                        .ts = -5,
                        .partition = 3,
                        .offset = INT64_C(9007199254740993),
                        .topic = topic_register("in")};
}

/* The line of a record that failed once, or with `again` twice. */
static void
expect_line(const struct rec *r, bool again, const char *want)
{
    struct err e = failure();
    struct batch b, c;
    struct buf out;

    batch_init(&b);
    batch_init(&c);
    buf_init(&out);
    quarantine_add(&op, &step, r, &e, &b);
    if (again) {
        (void)err_record(&e, CAUSE_TYPE, "again");
        quarantine_add(&op, &step, &b.recs[0], &e, &c);
    }
    quarantine_line(&plan, again ? &c.recs[0] : &b.recs[0], &out);
    assert_string_equal(buf_cstr(&out), want);
    buf_fini(&out);
    batch_fini(&b);
    batch_fini(&c);
}

#define HEAD                                                                   \
    "{\"error\":{\"cause\":\"user_error\",\"message\":\"j.lua:7: no "          \
    "\\\"x\\\"\",\"step\":\"check\",\"place\":\"j.lua:4\"},\"origin\":"
#define ORIGIN                                                                 \
    "{\"topic\":\"in\",\"partition\":3,\"offset\":9007199254740993},"          \
    "\"timestamp\":-5,"

static void
a_line_has_the_bytes_as_text_or_base64(void **state)
{
    struct rec r = record("{\"a\": 1 }", 9);

    (void)state;
    expect_line(&r, false,
                HEAD ORIGIN "\"key\":null,\"value\":\"{\\\"a\\\": 1 }\"}");
    r.key = "k\n";
    r.key_len = 2;
    r.val = "";
    r.val_len = 0;
    expect_line(&r, false, HEAD ORIGIN "\"key\":\"k\\n\",\"value\":\"\"}");
    r.key = NULL;
    r.val = "\xff";
    r.val_len = 1;
    expect_line(&r, false,
                HEAD ORIGIN "\"key\":null,\"value\":{\"base64\":\"/w==\"}}");
    r.val = "\xff\xfe";
    r.val_len = 2;
    expect_line(&r, false,
                HEAD ORIGIN "\"key\":null,\"value\":{\"base64\":\"//4=\"}}");
    r.val = "\xff\xfe\xfb";
    r.val_len = 3;
    expect_line(&r, false,
                HEAD ORIGIN "\"key\":null,\"value\":{\"base64\":\"//77\"}}");
}

static void
without_a_record_there_is_no_origin(void **state)
{
    (void)state;
    expect_line(NULL, false,
                HEAD "null,\"timestamp\":null,\"key\":null,\"value\":null}");
}

static void
of_two_failures_the_last_is_told(void **state)
{
    struct rec r = record("x", 1);

    (void)state;
    expect_line(&r, true,
                "{\"error\":{\"cause\":\"type\",\"message\":\"j.lua:4: again\","
                "\"step\":\"check\",\"place\":\"j.lua:4\"},\"origin\":" ORIGIN
                "\"key\":null,\"value\":\"x\"}");
}

static void
bytes_and_headers_stay_as_they_were(void **state)
{
    struct err e = failure();
    struct batch b;
    struct arena a;
    struct rec r = record("{}", 2);
    struct rec_headers *h;

    (void)state;
    arena_init(&a);
    batch_init(&b);
    h = rec_headers_new(&a, 1);
    h->items[0] = (struct rec_header){"id", NULL, 2, 0};
    r.headers = h;
    quarantine_add(&op, &step, &r, &e, &b);
    assert_ptr_equal(b.recs[0].val, r.val);
    assert_int_equal(b.recs[0].kind, REC_TEXT);
    assert_int_equal(b.recs[0].flags, REC_HAS_TS | REC_RAW | REC_FAILED);
    assert_int_equal(b.recs[0].headers->count, 11);
    assert_memory_equal(b.recs[0].headers->items[0].name, "id", 2);
    assert_null(b.recs[0].headers->items[0].value);
    assert_int_equal(h->count, 1);

    r.kind = REC_TOMBSTONE;
    r.val = NULL;
    quarantine_add(&op, &step, &r, &e, &b);
    assert_int_equal(b.recs[1].kind, REC_TOMBSTONE);
    assert_null(b.recs[1].val);
    batch_fini(&b);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_the_bytes_as_text_or_base64),
        cmocka_unit_test(without_a_record_there_is_no_origin),
        cmocka_unit_test(of_two_failures_the_last_is_told),
        cmocka_unit_test(bytes_and_headers_stay_as_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
