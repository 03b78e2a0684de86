/* Records and views as Lua sees them (API.md section 2). */
#include "script_job.h"

/* `code` is a map function; the record becomes `want`. */
static void
assert_maps(const char *code, const char *json, const char *want)
{
    struct job_of j;
    const char *got;

    job_load(&j, "map", code);
    got = job_map(&j, json);
    if (got == NULL)
        fail_msg("%s: %s", j.e.where, j.e.msg);
    assert_string_equal(got, want);
    job_free(&j);
}

/* `code` is a map function that fails with a message that holds `text`. */
static void
assert_map_fails(const char *code, const char *json, enum err_cause cause,
                 const char *text)
{
    struct job_of j;
    const char *got;

    job_load(&j, "map", code);
    got = job_map(&j, json);
    if (got != NULL)
        fail_msg("no error, but %s", got);
    if (strstr(j.e.msg, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, j.e.msg);
    assert_int_equal(j.e.cause, cause);
    assert_int_equal(j.e.code, ERR_RECORD);
    job_free(&j);
}

static void
untouched_record_keeps_its_bytes(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map", "function(e) local x = e.a; return e end");
    assert_string_equal(job_map(&j, "{\"a\": 1 , \"b\":[]}"),
                        "{\"a\": 1 , \"b\":[]}");
    assert_ptr_equal(j.res.val, j.rec.val);
    job_free(&j);
}

static void
assigned_record_keeps_what_is_not_assigned(void **state)
{
    (void)state;
    assert_maps("function(e) e.c = 2 return e end",
                "{\"a\": 1.50 , \"b\": [ 1 ]}",
                "{\"a\":1.50,\"b\":[ 1 ],\"c\":2}");
    assert_maps("function(e) e.a.x = true return e end",
                "{\"a\":{\"y\":1.0e1, \"x\":0}, \"caf\\u00e9\":1}",
                "{\"a\":{\"y\":1.0e1,\"x\":true},\"caf\\u00e9\":1}");
    assert_maps("function(e) e.a = nil e.a = 3 return e end",
                "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":3}");
    assert_maps("function(e) e.z = 0 return e end", "{\"a\":1,\"b\":2,\"a\":3}",
                "{\"a\":1,\"b\":2,\"z\":0}");
    assert_maps("function(e) e.price = e.price * 0.908 return e end",
                "{\"auction\":1,\"price\":250,\"bidder\":7}",
                "{\"auction\":1,\"price\":227.0,\"bidder\":7}");
}

static void
paths_read_and_write(void **state)
{
    (void)state;
    assert_maps("function(e) return { a = e['a.b'], b = e['l.2'], "
                "c = e['x\\\\.y'], d = e['a.b.c'] == nil, "
                "n = e.n == nil, same = e.a.l == e['a.l'] } end",
                "{\"a\":{\"b\":7,\"l\":[]},\"l\":[1,\"q\"],\"x.y\":9,"
                "\"n\":null}",
                "{\"a\":7,\"b\":\"q\",\"c\":9,\"d\":true,\"n\":true,"
                "\"same\":true}");
    assert_maps("function(e) e['p.q.r'] = 1 e['l.3'] = s.null return e end",
                "{\"l\":[1,2]}", "{\"l\":[1,2,null],\"p\":{\"q\":{\"r\":1}}}");
    assert_map_fails("function(e) e['i.x'] = 1 return e end", "{\"i\":5}",
                     CAUSE_USER_ERROR, "cannot assign member \"x\" of");
    assert_map_fails("function(e) return { e['a..b'] } end", "{}",
                     CAUSE_USER_ERROR, "a..b");
}

static void
lists_work_as_tables(void **state)
{
    (void)state;
    assert_maps("function(e) local t = {} for i, v in ipairs(e.l) do "
                "t[i] = v == s.null and 'null' or v end "
                "return { n = #e.l, t = t, c = table.concat(e.w, ','), "
                "u = select('#', table.unpack(e.l)) } end",
                "{\"l\":[1,null,3.5],\"w\":[\"a\",\"b\"]}",
                "{\"c\":\"a,b\",\"n\":3,\"t\":[1,\"null\",3.5],\"u\":3}");
    assert_maps("function(e) table.insert(e.l, 1, 9) table.remove(e.l) "
                "table.sort(e.l) return e end",
                "{\"l\":[3,1,2,7]}", "{\"l\":[1,2,3,9]}");
    assert_maps("function(e) table.sort(e.l, function(a, b) "
                "return a.k < b.k end) return e end",
                "{\"l\":[{\"k\":2.50},{\"k\": 1}]}",
                "{\"l\":[{\"k\": 1},{\"k\":2.50}]}");
    assert_maps("function(e) e.l[2] = nil return e end", "{\"l\":[1,2]}",
                "{\"l\":[1]}");
    assert_maps("function(e) e.l[3] = nil return e end", "{\"l\":[1,2]}",
                "{\"l\":[1,2]}");
    assert_map_fails("function(e) e.l[1] = nil return e end", "{\"l\":[1,2]}",
                     CAUSE_USER_ERROR, "table.remove");
    assert_map_fails("function(e) e.l[4] = 1 return e end", "{\"l\":[1,2]}",
                     CAUSE_USER_ERROR, "outside");
}

static void
nulls_are_told_from_missing(void **state)
{
    (void)state;
    assert_maps("function(e) local t = {} for k, v in pairs(e) do "
                "t[#t + 1] = k .. '=' .. tostring(v) end "
                "for k, v in pairs(e.m) do t[#t + 1] = k .. tostring(v) end "
                "return { t = t, has = s.has(e, 'n'), no = s.has(e, 'q'), "
                "deep = s.has(e, 'm.x'), v = e.m.x == nil } end",
                "{\"n\":null,\"m\":{\"x\":null}}",
                "{\"deep\":true,\"has\":true,\"no\":false,"
                "\"t\":[\"n=null\",\"m={\\\"x\\\":null}\",\"xnull\"],"
                "\"v\":true}");
    assert_maps("function(e) e.a = s.null e.b = nil return e end",
                "{\"a\":1,\"b\":2}", "{\"a\":null}");
}

static void
view_stays_with_its_value(void **state)
{
    (void)state;
    assert_map_fails("function(e) local v = e.a e.a = { y = 2 } v.x = 1 "
                     "return e end",
                     "{\"a\":{\"x\":0}}", CAUSE_USER_ERROR, "left its record");
    assert_maps("function(e) local v = e.a e.a = { y = 2 } "
                "return { v = v.x, n = e.a.y } end",
                "{\"a\":{\"x\":0}}", "{\"n\":2,\"v\":0}");
    assert_maps("function(e) local v = e.l[2] table.insert(v.t, 5) "
                "e.l[2] = v e.c = v v.t[1] = 0 return e end",
                "{\"l\":[1,{\"t\":[]}]}",
                "{\"l\":[1,{\"t\":[0]}],\"c\":{\"t\":[5]}}");
}

static void
integers_are_exact(void **state)
{
    (void)state;
    assert_maps("function(e) return { a = e.a + 1, b = e.b, t = "
                "math.type(e.c), z = e.z } end",
                "{\"a\":9223372036854775806,\"b\":-9223372036854775808,"
                "\"c\":1.0,\"z\":-0}",
                "{\"a\":9223372036854775807,\"b\":-9223372036854775808,"
                "\"t\":\"float\",\"z\":0}");
    assert_map_fails("function(e) pcall(function() return e.v end) "
                     "return { v = 1 } end",
                     "{\"v\":9223372036854775808}", CAUSE_BIGINT, "");
    assert_map_fails("function(e) local l = e.l pcall(function() "
                     "return l[1] end) return { v = 1 } end",
                     "{\"l\":[9223372036854775808]}", CAUSE_BIGINT, "");
    /* One that nobody reads does no harm. */
    assert_maps("function(e) e.x = #e.l return e end",
                "{\"v\":9223372036854775808,\"l\":[1]}",
                "{\"v\":9223372036854775808,\"l\":[1],\"x\":1}");
}

static void
malformed_json_is_found_where_it_is_read(void **state)
{
    (void)state;
    assert_maps("function(e) return { n = #e.l } end", "{\"l\":[1],\"b\":tru}",
                "{\"n\":1}");
    assert_map_fails("function(e) pcall(function() return e.b end) "
                     "return e end",
                     "{\"l\":[1],\"b\":tru}", CAUSE_DECODE, "");
    assert_map_fails("function(e) e.c = 1 return e end",
                     "{\"l\":[1],\"b\":tru}", CAUSE_DECODE, "");
}

static void
deep_values_are_refused_once_touched(void **state)
{
    char json[1024] = "{\"d\":";
    size_t n = strlen(json);

    (void)state;
    memset(json + n, '[', 64);
    memset(json + n + 64, ']', 64);
    memcpy(json + n + 128, "}", 2);
    assert_map_fails("function(e) return { n = #e.d } end", json, CAUSE_DECODE,
                     "levels");
    assert_map_fails("function(e) return s.table(e) end", json, CAUSE_DECODE,
                     "levels");
    assert_maps("function(e) return e end", json, json);
}

static void
tables_become_values(void **state)
{
    (void)state;
    assert_maps("function(e) return { b = 1, a = { 1, 2 }, c = {}, "
                "d = s.list {}, f = { [1] = 1, [3] = 2 }, "
                "g = { z = { y = 1, x = s.null } }, h = s.map { 5 } } end",
                "{}",
                "{\"a\":[1,2],\"b\":1,\"c\":{},\"d\":[],"
                "\"f\":{\"1\":1,\"3\":2},\"g\":{\"z\":{\"x\":null,\"y\":1}},"
                "\"h\":{\"1\":5}}");
    assert_maps("function(e) local t = s.table(e) t.l[1] = nil return t end",
                "{\"l\":[1],\"m\":{}}", "{\"l\":[],\"m\":{}}");
    assert_maps("function(e) return { t = '\\xc3\\xa9\\n/\"', i = 1e15, "
                "x = 1e16 } end",
                "{}",
                "{\"i\":1000000000000000.0,"
                "\"t\":\"\xc3\xa9\\n/\\\"\",\"x\":1e+16}");
    assert_map_fails("function(e) return { a = { 1, { f = print } } } end",
                     "{}", CAUSE_USER_ERROR, "a[2].f");
    assert_map_fails("function(e) local t = {} t.t = t return t end", "{}",
                     CAUSE_USER_ERROR, "contains itself");
    assert_map_fails("function(e) return { [1.5] = 1 } end", "{}",
                     CAUSE_USER_ERROR, "key");
    assert_map_fails("function(e) return { [1] = 1, ['1'] = 2 , x = 1} end",
                     "{}", CAUSE_USER_ERROR, "one name");
    assert_map_fails("function(e) return { 1, 2 } end", "{}", CAUSE_USER_ERROR,
                     "map returned a list");
    assert_map_fails("function(e) return 5 end", "{}", CAUSE_USER_ERROR,
                     "map returned a number");
}

static void
rows_keep_their_order(void **state)
{
    (void)state;
    assert_maps("function(e) return s.row { {'b', 1}, {'a', e.a}, "
                "{'n', nil}, {'z', s.null} } end",
                "{\"a\":[1, 2]}", "{\"b\":1,\"a\":[1, 2],\"z\":null}");
    assert_map_fails("function(e) return s.row { {'b', 1}, {'b', 2} } end",
                     "{}", CAUSE_USER_ERROR, "two fields");
}

static void
map_view_is_a_record_with_its_bytes(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map", "function(e) return e.after end");
    assert_string_equal(job_map(&j, "{\"after\":{ \"id\": 1.0 }}"),
                        "{ \"id\": 1.0 }");
    assert_true(j.res.val > j.rec.val);
    assert_int_equal(j.res.ts, 1000);
    assert_int_equal(j.res.offset, 17);
    assert_null(job_map(&j, "{\"after\":[1]}"));
    assert_non_null(strstr(j.e.msg, "map returned a list"));
    job_free(&j);
}

static void
kept_record_is_refused_later(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map",
             "(function() local kept, view, copy\n"
             "return function(e) if kept == nil then kept = e view = e.l "
             "copy = s.copy(e) return e end\n"
             "local a, b = pcall(function() return kept.i end)\n"
             "local c, d = pcall(function() return view[1] end)\n"
             "copy.l[1] = copy.l[1] + 1\n"
             "return { b = b:match 'record used.*', d = d:match 'record "
             "used.*', copy = copy } end end)()");
    assert_non_null(job_map(&j, "{\"i\":1,\"l\":[1]}"));
    assert_string_equal(
        job_map(&j, "{\"i\":2,\"l\":[5]}"),
        "{\"b\":\"record used after its call; keep s.copy(e) or "
        "s.table(e)\",\"copy\":{\"i\":1,\"l\":[2]},"
        "\"d\":\"record used after its call; keep s.copy(e) or "
        "s.table(e)\"}");
    job_free(&j);
}

static void
message_around_the_record(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map",
             "function(e) local t, p, o = s.origin(e)\n"
             "s.set_header(e, 'h', 'v') s.set_header(e, 'g', 'w') "
             "s.set_header(e, 'h', nil)\n"
             "s.set_key(e, 'k' .. (s.key(e) or '')) "
             "s.set_timestamp(e, s.timestamp(e) + 1)\n"
             "return { t = t, p = p, o = o, k = s.key(e), h = "
             "s.headers(e) } end");
    assert_string_equal(job_map(&j, "{\"key\":1}"),
                        "{\"h\":[[\"g\",\"w\"]],\"k\":\"k\",\"o\":17,"
                        "\"p\":0,\"t\":\"stdin\"}");
    assert_int_equal(j.res.ts, 1001);
    assert_int_equal(j.res.key_len, 1);
    assert_memory_equal(j.res.key, "k", 1);
    assert_int_equal(j.res.headers->count, 1);
    assert_int_equal(j.res.wm, 5);
    assert_null(j.rec.key);
    job_free(&j);
}

static void
tombstones(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map",
             "function(e) if e.d then return s.tombstone { id = e.d } end "
             "return s.tombstone() end");
    assert_string_equal(job_map(&j, "{\"d\":1}"), "{\"id\":1}");
    assert_int_equal(j.res.kind, REC_TOMBSTONE);
    assert_string_equal(job_map(&j, "{}"), "(absent)");
    assert_int_equal(j.res.kind, REC_TOMBSTONE);
    job_free(&j);
}

static void
other_payloads_are_the_field_value(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map",
             "function(e) if e.value == 7 then return e end "
             "e.x = #s.table(e).value return e end");
    assert_string_equal(job_map(&j, "[1, 2]"), "{\"value\":[1, 2],\"x\":2}");
    assert_string_equal(job_map(&j, "7"), "7");
    assert_int_equal(j.res.kind, REC_VALUE);
    job_free(&j);
}

static void
texts(void **state)
{
    (void)state;
    assert_maps("function(e) return { j = s.encode('json', { b = 1.5, "
                "a = {} }), d = s.decode('json', ' {\"x\":[null,1]} ').x[1] "
                "== s.null, t = s.parse_time '1970-01-01T00:00:01Z', "
                "f = s.format_time(1500), h = s.hash(1) == s.hash(1.0), "
                "g = s.hash '1' == s.hash(1) } end",
                "{}",
                "{\"d\":true,\"f\":\"1970-01-01T00:00:01.500Z\",\"g\":false,"
                "\"h\":true,\"j\":\"{\\\"a\\\":{},\\\"b\\\":1.5}\","
                "\"t\":1000}");
    assert_map_fails("function(e) return { s.decode('json', '{') } end", "{}",
                     CAUSE_USER_ERROR, "decode");
    assert_map_fails("function(e) return { s.encode('json', 0/0) } end", "{}",
                     CAUSE_USER_ERROR, "encode");
}

static void
metatables_are_hidden(void **state)
{
    (void)state;
    assert_maps("function(e) return { a = getmetatable(e), b = "
                "getmetatable(e.l), t = tostring(e), n = tostring(s.null), "
                "l = pcall(function() return #e end) } end",
                "{\"l\": [1]}",
                "{\"a\":false,\"b\":false,\"l\":false,\"n\":\"null\","
                "\"t\":\"{\\\"l\\\": [1]}\"}");
}

static void
extended_values_are_marked(void **state)
{
    struct job_of j;

    (void)state;
    job_load(&j, "map", "function(e) e.q = e.i / e.d return e end");
    assert_string_equal(job_map(&j, "{\"i\":1,\"d\":0}"),
                        "{\"i\":1,\"d\":0,\"q\":Infinity}");
    assert_int_equal(j.res.flags & REC_EXT, REC_EXT);
    assert_non_null(job_map(&j, "{\"i\":1,\"d\":2}"));
    assert_int_equal(j.res.flags & REC_EXT, 0);
    job_free(&j);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untouched_record_keeps_its_bytes),
        cmocka_unit_test(assigned_record_keeps_what_is_not_assigned),
        cmocka_unit_test(paths_read_and_write),
        cmocka_unit_test(lists_work_as_tables),
        cmocka_unit_test(nulls_are_told_from_missing),
        cmocka_unit_test(view_stays_with_its_value),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(malformed_json_is_found_where_it_is_read),
        cmocka_unit_test(deep_values_are_refused_once_touched),
        cmocka_unit_test(tables_become_values),
        cmocka_unit_test(rows_keep_their_order),
        cmocka_unit_test(map_view_is_a_record_with_its_bytes),
        cmocka_unit_test(kept_record_is_refused_later),
        cmocka_unit_test(message_around_the_record),
        cmocka_unit_test(tombstones),
        cmocka_unit_test(other_payloads_are_the_field_value),
        cmocka_unit_test(texts),
        cmocka_unit_test(metatables_are_hidden),
        cmocka_unit_test(extended_values_are_marked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
