#include <stdio.h>

#include "fit_tree.h"

#include "core/agg.h"

static int
no_key(struct buf *out, const struct val *v, struct err *e)
{
    (void)v;
    (void)out;
    return err_set(e, ERR_INTERNAL, "no key is encoded here");
}

static void
a_description_reads_back_as_what_was_written(void **state)
{
    struct fixture f;
    struct arena a;
    const struct opt *o, *s, *aggs;
    struct aggset *set;
    struct err e;

    (void)state;
    describe(&f, OPTIONS ", max_parallelism:300",
             NAMED(KEY, MINUTE, COUNT "," P99));
    arena_init(&a);

    assert_int_equal(plan_state_read(f.state.data, f.state.len, &a, &o, &e), 0);
    assert_true(opt_is(o, "job", "t"));
    assert_int_equal(opt_int(o, "max_parallelism", 0), 300);
    assert_int_equal(opt_get(o, "steps")->len, 4);
    s = opt_at(opt_get(o, "steps"), 2);
    assert_true(opt_is(s, "name", "w") && opt_is(s, "kind", "aggregate"));
    assert_true(opt_is(opt_at(opt_get(s, "key"), 0), "field", "a"));
    assert_int_equal(opt_func(opt_at(opt_get(s, "key"), 1), "func"), 1);
    assert_int_equal(opt_int(opt_get(s, "window"), "size_ms", 0), 60000);
    assert_string_equal(opt_at(opt_get(s, "from"), 0)->s, "in");
    aggs = opt_get(s, "aggs");
    assert_int_equal(aggset_new(aggs, no_key, NULL, NULL, &set, &e), 0);
    assert_int_equal(set->count, 2);
    aggset_free(&set);

    arena_fini(&a);
    buf_fini(&f.state);
    tree_free(&f.was);
}

static void
what_feeds_a_step_is_told_once_and_by_name(void **state)
{
    struct fixture f;
    struct arena a;
    const struct opt *o, *from;
    struct err e;

    (void)state;
    describe(
        &f, OPTIONS,
        IN TIME(
            "time", "2",
            "inputs:[{step:1}]") "{kind:'filter', name:'f', place:'j.lua:3', "
                                 "func:@1,"
                                 " inputs:[{step:2}]}" AGG(
                                     "w", "5",
                                     KEY MINUTE
                                     "late_output:'late', aggs:[" COUNT
                                     "], inputs:[{step:2}, {step:3}]")
                                     AGG("v", "6",
                                         "key:[], window:{kind:'global'}, "
                                         "aggs:[" COUNT
                                         "], inputs:[{step:4, output:'late'}]")
                                         TAP("x", "4") TAP("y", "5"));
    arena_init(&a);
    assert_int_equal(plan_state_read(f.state.data, f.state.len, &a, &o, &e), 0);
    from = opt_get(opt_at(opt_get(o, "steps"), 2), "from");
    assert_int_equal(from->len, 1);
    assert_string_equal(from->first->s, "in");
    from = opt_get(opt_at(opt_get(o, "steps"), 3), "from");
    assert_int_equal(from->len, 1);
    assert_string_equal(from->first->s, "w");
    arena_fini(&a);
    buf_fini(&f.state);
    tree_free(&f.was);
}

static void
strings_of_any_bytes_read_back(void **state)
{
    static const char json[] =
        "{\"version\":1,\"job\":\"\\u0001\\n\\\"\\\\\xff\\u001f\","
        "\"max_parallelism\":128,\"steps\":[],\"x\":[-5,1.5,1e+16,null,false,"
        "{},[]]}";
    const struct opt *o, *x;
    struct arena a;
    struct err e;

    (void)state;
    arena_init(&a);
    assert_int_equal(plan_state_read(json, sizeof json - 1, &a, &o, &e), 0);
    assert_string_equal(opt_str(o, "job", ""), "\x01\n\"\\\xff\x1f");
    x = opt_get(o, "x");
    assert_int_equal(x->len, 7);
    assert_int_equal(x->first->i, -5);
    assert_true(opt_at(x, 1)->d > 1.4 && opt_at(x, 1)->d < 1.6);
    assert_int_equal(opt_at(x, 2)->type, OPT_DBL);
    assert_int_equal(opt_at(x, 3)->type, OPT_NIL);
    assert_int_equal(opt_at(x, 5)->type, OPT_MAP);
    arena_fini(&a);
}

static void
a_damaged_description_is_refused(void **state)
{
    struct fixture f;
    const struct opt *o;
    struct arena a;
    struct err e;
    size_t len;

    (void)state;
    describe(&f, OPTIONS, NAMED(KEY, MINUTE, CUSTOM));
    arena_init(&a);
    for (len = 0; len < f.state.len; len++) {
        assert_int_equal(plan_state_read(f.state.data, len, &a, &o, &e),
                         ERR_IO);
        assert_int_equal(plan_state_max_parallelism(f.state.data, len), 0);
    }
    assert_int_equal(plan_state_max_parallelism(f.state.data, len), 128);
    buf_addc(&f.state, ' ');
    assert_int_equal(plan_state_read(f.state.data, f.state.len, &a, &o, &e),
                     ERR_IO);

    build(&f.is, "t", OPTIONS, NAMED(KEY, MINUTE, CUSTOM));
    compare(&f, 0);
    assert_int_equal(f.code, ERR_IO);
    arena_fini(&a);
    end(&f);
}

static void
a_description_of_impossible_places_is_damaged(void **state)
{
    static const char *const steps[] = {"", ",\"aggs\":[]",
                                        ",\"aggs\":[{}],\"aggs_min\":0",
                                        ",\"aggs\":[{}],\"aggs_min\":2"};
    const struct opt *o;
    struct arena a;
    struct err e;
    char json[256];
    size_t i;
    int len;

    (void)state;
    arena_init(&a);
    for (i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        len = snprintf(json, sizeof json,
                       "{\"version\":1,\"job\":\"t\",\"max_parallelism\":1,"
                       "\"steps\":[{\"name\":\"w\",\"kind\":\"aggregate\"%s}]}",
                       steps[i]);
        assert_int_equal(plan_state_read(json, (size_t)len, &a, &o, &e),
                         ERR_IO);
    }
    arena_fini(&a);
}

static void
a_description_of_a_later_version_is_told_as_such(void **state)
{
    static const char json[] = "{\"version\":2}";
    const struct opt *o;
    struct arena a;
    struct err e;

    (void)state;
    arena_init(&a);
    assert_int_equal(plan_state_read(json, sizeof json - 1, &a, &o, &e),
                     ERR_IO);
    assert_non_null(strstr(e.msg, "version 2"));
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_reads_back_as_what_was_written),
        cmocka_unit_test(what_feeds_a_step_is_told_once_and_by_name),
        cmocka_unit_test(strings_of_any_bytes_read_back),
        cmocka_unit_test(a_damaged_description_is_refused),
        cmocka_unit_test(a_description_of_impossible_places_is_damaged),
        cmocka_unit_test(a_description_of_a_later_version_is_told_as_such),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
