/* Custom aggregators and their laws (API.md section 6, "Custom"). */
#include "script_job.h"

#include "core/agg.h"

struct agg_job {
    struct job_of j;
    struct aggset *set;
    void *acc, *other;
};

static void *
acc_new(const struct aggset *set)
{
    void *p = calloc(1, set->size);

    assert_non_null(p);
    aggset_init(set, p);
    return p;
}

/* Load a job whose aggregate step has `{ x = s.aggregator { code } }`. */
static void
agg_load(struct agg_job *a, const char *code, const char *opts)
{
    char text[4096];

    (void)snprintf(text, sizeof text,
                   "local s = require 'streamlua'\n"
                   "local job = s.job('t', { %s })\n"
                   "local x = s.aggregator {\n%s\n}\n"
                   "job:source('in', s.stdin()):key_by 'k'"
                   ":window(s.global()):aggregate { x = x }"
                   ":sink('out', s.stdout())\nreturn job\n",
                   opts, code);
    job_load_text(&a->j, text);
    if (script_test_laws(a->j.s, &a->j.e) != 0)
        fail_msg("%s: %s", a->j.e.where, a->j.e.msg);
    assert_int_equal(aggset_new(opt_get(job_step(a->j.s, "aggregate"), "aggs"),
                                json_key_encode, script_agg, a->j.s, &a->set,
                                &a->j.e),
                     0);
    a->acc = acc_new(a->set);
    a->other = acc_new(a->set);
}

static void
agg_close(struct agg_job *a)
{
    aggset_fini(a->set, a->acc);
    aggset_fini(a->set, a->other);
    free(a->acc);
    free(a->other);
    aggset_free(&a->set);
    job_free(&a->j);
}

static int
add_args(struct agg_job *a, void *acc, struct val x, struct val y)
{
    struct val args[2] = {x, y};

    job_record(&a->j, "{}");
    return aggset_add(a->set, acc, args, &a->j.rec, &a->j.e);
}

static int
add_record(struct agg_job *a, void *acc, const char *json)
{
    job_record(&a->j, json);
    script_agg_record(a->j.s, &a->j.rec, a->j.reader);
    return aggset_add(a->set, acc, NULL, &a->j.rec, &a->j.e);
}

static void
assert_result(struct agg_job *a, const void *acc, const char *want)
{
    struct buf b;
    bool ext = false;

    buf_init(&b);
    if (agg_result(&a->set->aggs[0], acc, &b, &ext, &a->j.e) != 0)
        fail_msg("%s: %s", a->j.e.where, a->j.e.msg);
    assert_string_equal(buf_cstr(&b), want);
    buf_fini(&b);
}

static const char vwap[] =
    "args = { 'price', 'qty' },\n"
    "init = function() return { 0, 0 } end,\n"
    "add = function(a, p, q) if p and q then a[1] = a[1] + p * q "
    "a[2] = a[2] + q end return a end,\n"
    "merge = function(a, b) a[1] = a[1] + b[1] a[2] = a[2] + b[2] "
    "return a end,\n"
    "result = function(a) if a[2] ~= 0 then return a[1] / a[2] end end";

static void
vwap_of_two_parts(void **state)
{
    struct agg_job a;

    (void)state;
    agg_load(&a, vwap, "");
    assert_result(&a, a.acc, "null");
    assert_int_equal(add_args(&a, a.acc, val_int(10), val_int(1)), 0);
    assert_int_equal(add_args(&a, a.other, val_int(20), val_int(3)), 0);
    assert_int_equal(add_args(&a, a.other, val_nil(), val_int(3)), 0);
    assert_int_equal(aggset_merge(a.set, a.acc, a.other, &a.j.e), 0);
    assert_result(&a, a.acc, "17.5");
    assert_result(&a, a.other, "null");
    agg_close(&a);
}

/* As window state merges: the row tells that it is lost, not why. */
static void
a_merge_that_fails_needs_no_place_for_its_reason(void **state)
{
    struct agg_job a;
    int i;

    (void)state;
    agg_load(&a,
             "args = { 'v', 'w' },\n"
             "init = function() return { 0 } end,\n"
             "add = function(a, v) a[1] = v return a end,\n"
             "merge = function(a, b) if a[1] == 3 then error 'no' end "
             "return a end,\n"
             "result = function(a) return a[1] end",
             "");
    for (i = 0; i < 70; i++) /* the laws are tested on the first of them */
        assert_int_equal(add_args(&a, a.acc, val_int(1), val_int(0)), 0);
    assert_int_equal(add_args(&a, a.acc, val_int(3), val_int(0)), 0);
    assert_int_equal(add_args(&a, a.other, val_int(4), val_int(0)), 0);
    assert_int_equal(aggset_merge(a.set, a.acc, a.other, NULL), ERR_RECORD);
    agg_close(&a);
}

static void
accumulators_move_as_bytes(void **state)
{
    struct agg_job a;
    struct buf one, two;
    void *copy;

    (void)state;
    agg_load(&a,
             "init = function() return { list = {}, seen = {} } end,\n"
             "add = function(a, e) a.list[#a.list + 1] = e.v "
             "a.seen[e.w] = (a.seen[e.w] or 0) + 1 return a end,\n"
             "result = function(a) return a end",
             "");
    assert_int_equal(add_record(&a, a.acc, "{\"v\":1,\"w\":\"q\"}"), 0);
    assert_int_equal(add_record(&a, a.acc, "{\"v\":2.5,\"w\":\"a\"}"), 0);
    assert_int_equal(add_record(&a, a.acc, "{\"v\":true,\"w\":7}"), 0);
    buf_init(&one);
    buf_init(&two);
    assert_int_equal(aggset_encode(a.set, a.acc, &one, &a.j.e), 0);
    copy = acc_new(a.set);
    assert_int_equal(aggset_decode(a.set, copy, one.data, one.len, &a.j.e), 0);
    assert_result(&a, copy,
                  "{\"list\":[1,2.5,true],\"seen\":{\"7\":1,\"a\":1,"
                  "\"q\":1}}");
    assert_int_equal(aggset_encode(a.set, copy, &two, &a.j.e), 0);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    aggset_fini(a.set, copy);
    free(copy);
    buf_fini(&one);
    buf_fini(&two);
    agg_close(&a);
}

static void
a_failed_add_is_undone_where_errors_are_skipped(void **state)
{
    struct agg_job a;

    (void)state;
    agg_load(&a,
             "init = function() return { n = 0 } end,\n"
             "add = function(a, e) a.n = a.n + 1 a.m = e.v + 1 "
             "return a end,\n"
             "result = function(a) return a.n end",
             "on_error = 'skip'");
    assert_int_equal(add_record(&a, a.acc, "{\"v\":1}"), 0);
    assert_int_equal(add_record(&a, a.acc, "{}"), ERR_RECORD);
    assert_int_equal(a.j.e.cause, CAUSE_USER_ERROR);
    assert_string_equal(a.j.e.where, "job.lua:5");
    assert_result(&a, a.acc, "1");
    assert_int_equal(add_record(&a, a.acc, "{\"v\":tru}"), ERR_RECORD);
    assert_int_equal(a.j.e.cause, CAUSE_DECODE);
    assert_result(&a, a.acc, "1");
    agg_close(&a);
}

static void
add_must_return_the_accumulator(void **state)
{
    struct agg_job a;

    (void)state;
    agg_load(&a,
             "init = function() return nil end,\n"
             "add = function(a, e) if e.v then return (a or 0) + e.v end "
             "end,\n"
             "result = function(a) return a end",
             "");
    assert_result(&a, a.acc, "null");
    assert_int_equal(add_record(&a, a.acc, "{\"v\":4}"), 0);
    assert_int_equal(add_record(&a, a.acc, "{}"), ERR_RECORD);
    assert_string_equal(a.j.e.msg, "add returned nil; return the "
                                   "accumulator");
    assert_string_equal(a.j.e.where, "job.lua:5");
    assert_result(&a, a.acc, "4");
    agg_close(&a);
}

static const struct opt *
law_of(struct agg_job *a)
{
    const struct opt *aggs = opt_get(job_step(a->j.s, "aggregate"), "aggs");

    return opt_get(opt_at(aggs, 0), "law");
}

static void
a_lawful_aggregator_passes_on_generated_values(void **state)
{
    struct agg_job a;

    (void)state;
    agg_load(&a, vwap, "");
    assert_non_null(law_of(&a));
    assert_string_equal(opt_str(law_of(&a), "text", "?"), "");
    assert_true(opt_bool(law_of(&a), "ok", false));
    agg_close(&a);
}

static void
a_broken_law_is_found_on_generated_values(void **state)
{
    struct agg_job a;

    (void)state;
    /* The mean of means. */
    agg_load(&a,
             "args = { 'v' }, init = function() return { 0, 0 } end,\n"
             "add = function(a, v) if v then a[1] = a[1] + v "
             "a[2] = a[2] + 1 end return a end,\n"
             "merge = function(a, b) if a[2] == 0 then return b end "
             "if b[2] == 0 then return a end "
             "return { (a[1] / a[2] + b[1] / b[2]) / 2, 1 } end,\n"
             "result = function(a) return a[2] > 0 and a[1] / a[2] or nil "
             "end",
             "");
    assert_false(opt_bool(law_of(&a), "ok", true));
    assert_non_null(
        strstr(opt_str(law_of(&a), "text", ""), "merge of two parts = "));
    agg_close(&a);
}

static const char spread[] =
    "init = function() return { n = 0, lo = 0, hi = 0 } end,\n"
    "add = function(a, e) local v = e.v "
    "if a.n == 0 then a.lo, a.hi = v, v end "
    "a.n, a.lo, a.hi = a.n + 1, math.min(a.lo, v), math.max(a.hi, v) "
    "return a end,\n"
    "merge = function(a, b) a.n = a.n + b.n a.lo = math.min(a.lo, b.lo) "
    "a.hi = math.max(a.hi, b.hi) return a end,\n"
    "result = function(a) return a.n > 0 and a.hi - a.lo or nil end";

static void
a_broken_law_is_found_on_samples(void **state)
{
    struct agg_job a;
    char code[1024];

    (void)state;
    (void)snprintf(code, sizeof code, "samples = { { v = 5 }, { v = 9 } }, %s",
                   spread);
    agg_load(&a, code, "");
    assert_string_equal(opt_str(law_of(&a), "text", ""),
                        "merge(init, x) = 5, x = 0");
    /* The step runs in one phase, so real records are not tested. */
    assert_int_equal(add_record(&a, a.acc, "{\"v\":5}"), 0);
    agg_close(&a);
}

static void
a_law_that_real_records_break_ends_the_job(void **state)
{
    struct agg_job a;

    (void)state;
    agg_load(&a, spread, "");
    assert_null(law_of(&a));
    assert_int_equal(add_record(&a, a.acc, "{\"v\":5}"), ERR_FAIL);
    assert_non_null(strstr(a.j.e.msg, "merge(init, x) = 5, x = 0"));
    assert_non_null(strstr(a.j.e.hint, "samples"));
    agg_close(&a);
}

static void
lawful_real_records_pass(void **state)
{
    struct agg_job a;
    char json[64];
    int i;

    (void)state;
    agg_load(&a,
             "init = function() return 0 end,\n"
             "add = function(a, e) return a + e.v end,\n"
             "merge = function(a, b) return a + b end,\n"
             "result = function(a) return a end",
             "");
    for (i = 0; i < 100; i++) {
        (void)snprintf(json, sizeof json, "{\"v\":%d.1}", i % 7 - 3);
        if (add_record(&a, a.acc, json) != 0)
            fail_msg("%s", a.j.e.msg);
    }
    agg_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vwap_of_two_parts),
        cmocka_unit_test(a_merge_that_fails_needs_no_place_for_its_reason),
        cmocka_unit_test(accumulators_move_as_bytes),
        cmocka_unit_test(a_failed_add_is_undone_where_errors_are_skipped),
        cmocka_unit_test(add_must_return_the_accumulator),
        cmocka_unit_test(a_lawful_aggregator_passes_on_generated_values),
        cmocka_unit_test(a_broken_law_is_found_on_generated_values),
        cmocka_unit_test(a_broken_law_is_found_on_samples),
        cmocka_unit_test(a_law_that_real_records_break_ends_the_job),
        cmocka_unit_test(lawful_real_records_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
