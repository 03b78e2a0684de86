/* Calls into user code: filter, map, flat_map, values; errors and undo. */
#include "script_job.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "script/script_impl.h"

static bool
filter(struct job_of *j, const char *json)
{
    bool keep = false;

    job_record(j, json);
    if (script_filter(j->s, j->func, &j->rec, j->reader, &keep, &j->e) != 0)
        fail_msg("%s: %s", j->e.where, j->e.msg);
    return keep;
}

static void
filter_takes_the_truth(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "filter", "function(e) return e.auction % 123 == 0 end");
    assert_true(filter(&j, "{\"price\":5,\"auction\":246}"));
    assert_false(filter(&j, "{\"price\":6,\"auction\":247}"));
    job_free(&j);
    job_load(&j, "filter", "function(e) return e.v end");
    assert_true(filter(&j, "{\"v\":0}"));
    assert_false(filter(&j, "{\"v\":null}"));
    assert_false(filter(&j, "{\"v\":false}"));
    assert_true(filter(&j, "{\"v\":[]}"));
    job_free(&j);
}

/* The columns that Lua reads are parsed ahead for a loaded batch. */
static void
filter_reads_loaded_rows(void **state)
{
    struct job_of j;
    struct batch b;
    bool keep;
    int i, round;

    (void)state;
    job_load(&j, "filter", "function(e) return e.v == e['a.b'] end");
    batch_init(&b);
    for (round = 0; round < 3; round++) {
        batch_clear(&b);
        for (i = 0; i < 10; i++) {
            job_record(&j, i % 2 == 0 ? "{\"v\":3,\"a\":{\"b\":3}}"
                                      : "{\"a\":{\"b\":3},\"v\":\"3\"}");
            (void)batch_add_copy(&b, &j.rec);
        }
        reader_load(j.reader, &b);
        for (i = 0; i < 10; i++) {
            assert_int_equal(
                script_filter(j.s, j.func, &b.recs[i], j.reader, &keep, &j.e),
                0);
            assert_int_equal(keep, i % 2 == 0);
        }
    }
    assert_int_equal(b.recs[0].row_n, 2);
    batch_fini(&b);
    job_free(&j);
}

static void
records_are_read_only_in_filters(void **state)
{
    struct job_of j;
    bool keep;

    (void)state;
    job_load(&j, "filter", "function(e) e.x = 1 return true end");
    job_record(&j, "{}");
    assert_int_equal(script_filter(j.s, j.func, &j.rec, NULL, &keep, &j.e),
                     ERR_RECORD);
    assert_non_null(strstr(j.e.msg, "read-only"));
    job_free(&j);
}

static void
map_returning_nil_is_an_error_with_its_place(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map", "function(e) e.x = 1 end");
    assert_null(job_map(&j, "{}"));
    assert_string_equal(j.e.msg, "map returned nil; return the record, or "
                                 "use filter or flat_map");
    assert_string_equal(j.e.where, "job.lua:4");
    assert_int_equal(j.e.cause, CAUSE_USER_ERROR);
    job_free(&j);
}

static void
an_error_says_where_and_which_field(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map", "function(e)\n  return e.v > 0\nend");
    assert_null(job_map(&j, "{}"));
    assert_string_equal(j.e.msg, "attempt to compare number with nil "
                                 "(field 'v')");
    assert_string_equal(j.e.where, "job.lua:5");
    assert_string_equal(j.e.hint, "the field is missing or null in this "
                                  "record");
    job_free(&j);
}

/* A failing call changes nothing that a later call sees. */
static void
a_failed_call_leaves_nothing(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map",
             "function(e) if e.bad then e.l[1] = 9 e.x = 1 "
             "error 'boom' end return e end");
    assert_null(job_map(&j, "{\"bad\":true,\"l\":[1]}"));
    assert_string_equal(j.e.where, "job.lua:4");
    assert_string_equal(job_map(&j, "{\"l\":[1]}"), "{\"l\":[1]}");
    assert_memory_equal(j.rec.val, "{\"l\":[1]}", 9);
    job_free(&j);
}

static void
flat_map_emits_what_the_record_is_then(void **state)
{
    struct job_of j;
    struct batch out;

    (void)state;
    job_load(&j, "flat_map",
             "function(e, emit) for i = 1, e.n do e.i = i emit(e) "
             "if i == 2 then emit { second = e.id } end end end");
    batch_init(&out);
    job_record(&j, "{\"id\":1,\"n\":3}");
    assert_int_equal(script_flat_map(j.s, j.func, &j.rec, j.reader, &out, &j.e),
                     0);
    assert_int_equal(out.n, 4);
    assert_memory_equal(out.recs[0].val, "{\"id\":1,\"n\":3,\"i\":1}", 20);
    assert_memory_equal(out.recs[1].val, "{\"id\":1,\"n\":3,\"i\":2}", 20);
    assert_memory_equal(out.recs[2].val, "{\"second\":1}", 12);
    assert_int_equal(out.recs[2].offset, 17);
    assert_memory_equal(out.recs[3].val, "{\"id\":1,\"n\":3,\"i\":3}", 20);
    batch_fini(&out);
    job_free(&j);
}

static void
flat_map_that_fails_emits_nothing(void **state)
{
    struct job_of j;
    struct batch out;

    (void)state;
    job_load(&j, "flat_map",
             "function(e, emit) emit { a = 1 } "
             "if e.r then return e.r end emit(e.q) end");
    batch_init(&out);
    job_record(&j, "{\"x\":1}");
    assert_int_equal(script_flat_map(j.s, j.func, &j.rec, NULL, &out, &j.e),
                     ERR_RECORD);
    assert_int_equal(out.n, 0);
    assert_non_null(strstr(j.e.msg, "emit got a nil"));
    job_record(&j, "{\"r\":1}");
    assert_int_equal(script_flat_map(j.s, j.func, &j.rec, NULL, &out, &j.e),
                     ERR_RECORD);
    assert_int_equal(out.n, 0);
    assert_non_null(strstr(j.e.msg, "flat_map returned a value"));
    batch_fini(&out);
    job_free(&j);
}

static int
value(struct job_of *j, const char *json, struct val *v)
{
    job_record(j, json);
    return script_value(j->s, j->func, &j->rec, j->reader, &j->out, v, &j->e);
}

static void
values_have_their_types(void **state)
{
    struct job_of j;
    struct val v;

    (void)state;
    job_load_text(&j, "local s = require 'streamlua'\n"
                      "local job = s.job 't'\n"
                      "job:source('in', s.stdin())"
                      ":select { x = function(e) return e.v, 1 end }"
                      ":sink('out', s.stdout())\nreturn job\n");
    j.func =
        opt_func(opt_at(opt_get(job_step(j.s, "select"), "cols"), 0), "func");
    assert_int_equal(value(&j, "{\"v\":7}", &v), 0);
    assert_int_equal(v.type, VAL_INT);
    assert_int_equal(value(&j, "{}", &v), 0);
    assert_int_equal(v.type, VAL_NIL);
    assert_int_equal(value(&j, "{\"v\":\"ab\"}", &v), 0);
    assert_int_equal(v.type, VAL_STR);
    assert_memory_equal(v.u.s, "ab", 2);
    assert_int_equal(value(&j, "{\"v\":{\"b\": 1}}", &v), 0);
    assert_int_equal(v.type, VAL_MAP);
    assert_memory_equal(v.u.s, "{\"b\": 1}", 8);
    assert_int_equal(value(&j, "{\"v\":[1]}", &v), 0);
    assert_int_equal(v.type, VAL_LIST);
    job_free(&j);
}

static void
a_key_function_gives_one_value(void **state)
{
    struct job_of j;
    struct val v;

    (void)state;
    job_load_text(&j, "local s = require 'streamlua'\n"
                      "local job = s.job 't'\n"
                      "job:source('in', s.stdin())\n"
                      ":key_by(function(e) return e.a, e.b end)\n"
                      ":window(s.global()):aggregate { n = s.count() }\n"
                      ":sink('out', s.stdout())\nreturn job\n");
    j.func =
        opt_func(opt_at(opt_get(job_step(j.s, "aggregate"), "key"), 0), "func");
    assert_int_equal(value(&j, "{\"a\":1,\"b\":2}", &v), ERR_RECORD);
    assert_non_null(strstr(j.e.msg, "use key_by { {\"a\", f}, {\"b\", g} }"));
    assert_string_equal(j.e.where, "job.lua:4");
    assert_int_equal(value(&j, "{\"a\":1}", &v), 0);
    assert_int_equal(v.u.i, 1);
    job_free(&j);
}

static void *
watch(void *arg)
{
    struct script *s = arg;
    int64_t end = clock_mono_ns() + 20ll * 1000000000;

    while (clock_mono_ns() < end && !script_watch(s, clock_mono_ns()))
        (void)sched_yield();
    return NULL;
}

static void
an_endless_call_is_interrupted(void **state)
{
    struct job_of j;
    pthread_t t;

    (void)state;
    job_load_text(&j, "local s = require 'streamlua'\n"
                      "local job = s.job('t', { lua = { call_timeout = "
                      "'50ms' } })\n"
                      "job:source('in', s.stdin()):map(function(e) "
                      "while e.loop do pcall(function() while true do end "
                      "end) end return e end)"
                      ":sink('out', s.stdout())\nreturn job\n");
    j.func = opt_func(job_step(j.s, "map"), "func");
    assert_int_equal(pthread_create(&t, NULL, watch, j.s), 0);
    assert_null(job_map(&j, "{\"loop\":true}"));
    assert_non_null(strstr(j.e.msg, "call_timeout"));
    (void)pthread_join(t, NULL);
    assert_string_equal(job_map(&j, "{\"x\":1}"), "{\"x\":1}");
    job_free(&j);
}

/* Memory ends at another place each time: never more than an error. */
static void
memory_may_end_anywhere_in_a_call(void **state)
{
    static const char code[] =
        "(function()\n"
        "  local kept\n"
        "  return function(e)\n"
        "    local c, co = s.copy(e), coroutine.wrap(function(r)\n"
        "      for k, v in pairs(r) do coroutine.yield(k, v) end end)\n"
        "    c.n = { 1, { a = c.l, b = s.list {} }, s.map { 'x' } }\n"
        "    c['m.z.y'] = s.table(e)\n"
        "    s.set_key(c, { 1, 2 })\n"
        "    s.set_header(c, 'h', ('v'):rep(100))\n"
        "    table.insert(c.l, s.decode('json', '[1,{\"a\":[2]}]'))\n"
        "    kept = kept or {}\n"
        "    kept[1] = pcall(error, s.encode('json', c) .. tostring(e.m))\n"
        "    co(c) co()\n"
        "    local ok, m = xpcall(function() return e.l.x.y end, tostring)\n"
        "    local r = s.row { { 'i', e.i }, { 'k', s.key(c) }, { 'h',\n"
        "      s.headers(c) }, { 'hash', s.hash(e.l) } }\n"
        "    for k, v in pairs { r = r, x = 1, [2.5] = 2 } do kept[k] = v end\n"
        "    kept.r = load('return ' .. #s.format_time(1))()\n"
        "    e.rows = { r, r }\n"
        "    return e\n"
        "  end\n"
        "end)()";
    static const char record[] = "{\"i\":5,\"l\":[1,2],\"m\":{\"x\":null}}";
    struct job_of j;
    size_t live, room;
    char *whole;
    int failed = 0;

    (void)state;
    job_load(&j, "map", code);
    if (job_map(&j, record) == NULL)
        fail_msg("%s: %s", j.e.where, j.e.msg);
    whole = strdup(job_map(&j, record));
    (void)lua_gc(j.s->L, LUA_GCCOLLECT);
    live = script_memory(j.s) + j.s->held;
    for (room = 0; room < 64 << 10; room += 199) {
        j.s->memory_max = live + room;
        if (job_map(&j, record) != NULL)
            continue;
        failed++;
        assert_int_equal(j.e.cause, CAUSE_USER_ERROR);
        if (strstr(j.e.msg, "not enough memory") == NULL)
            fail_msg("%s", j.e.msg);
    }
    assert_true(failed > 20);
    j.s->memory_max = (size_t)64 << 20;
    assert_string_equal(job_map(&j, record), whole);
    free(whole);
    job_free(&j);
}

static void
what_c_holds_for_a_call_counts(void **state)
{
    static const char *const codes[] = {
        "function(e) while true do e.x = 1 end end",
        "function(e) while true do table.insert(e.l, 1) end end",
        "function(e) while true do s.set_key(e, ('x'):rep(100)) end end",
        /* parentheses: the comma between the two is not forgotten */
        ("function(e) local t = {} while true do local c = s.copy(e)\n"
         "  c.x = 1 t[#t + 1] = c end end"),
    };
    struct job_of j;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        job_load(&j, "map", codes[i]);
        j.s->memory_max = (size_t)4 << 20;
        assert_null(job_map(&j, "{\"l\":[1]}"));
        assert_non_null(strstr(j.e.msg, "not enough memory: the Lua state may "
                                        "take 4 MiB"));
        assert_string_equal(j.e.where, i == 3 ? "job.lua:5" : "job.lua:4");
        assert_true(j.s->held <= (size_t)5 << 20);
        job_free(&j);
    }
}

static void
records_that_are_garbage_do_not_count(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map",
             "function(e) for i = 1, 20000 do local c = s.copy(e)\n"
             "  c.x = { i } end return e end");
    j.s->memory_max = (size_t)4 << 20;
    assert_non_null(job_map(&j, "{\"l\":[1]}"));
    assert_true(j.s->held <= (size_t)4 << 20);
    job_free(&j);
}

static void
what_a_call_emits_counts(void **state)
{
    struct job_of j;
    struct batch b;

    (void)state;
    job_load(&j, "flat_map", "function(e, emit) while true do emit(e) end end");
    j.s->memory_max = (size_t)8 << 20;
    batch_init(&b);
    job_record(&j, "{}");
    assert_int_equal(script_flat_map(j.s, j.func, &j.rec, j.reader, &b, &j.e),
                     ERR_RECORD);
    assert_non_null(strstr(j.e.msg, "not enough memory"));
    assert_int_equal(b.n, 0);
    batch_fini(&b);
    job_free(&j);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filter_takes_the_truth),
        cmocka_unit_test(filter_reads_loaded_rows),
        cmocka_unit_test(records_are_read_only_in_filters),
        cmocka_unit_test(map_returning_nil_is_an_error_with_its_place),
        cmocka_unit_test(an_error_says_where_and_which_field),
        cmocka_unit_test(a_failed_call_leaves_nothing),
        cmocka_unit_test(flat_map_emits_what_the_record_is_then),
        cmocka_unit_test(flat_map_that_fails_emits_nothing),
        cmocka_unit_test(values_have_their_types),
        cmocka_unit_test(a_key_function_gives_one_value),
        cmocka_unit_test(an_endless_call_is_interrupted),
        cmocka_unit_test(memory_may_end_anywhere_in_a_call),
        cmocka_unit_test(what_c_holds_for_a_call_counts),
        cmocka_unit_test(records_that_are_garbage_do_not_count),
        cmocka_unit_test(what_a_call_emits_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
