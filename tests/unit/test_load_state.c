/* Loading: steps with state, what they become and what they must have. */
#include "script_util.h"

#include <unistd.h>

/* Steps with state: what they must have, and where each may stand. */
static const struct refusal stateful[] = {
    {"st:process {}", "job.lua:4: process: key_by is missing before process; "
                      "without a key use flat_map"},
    {"st:key_by('k'):process {}",
     "job.lua:4: process: missing required option \"on_record\""},
    {"st:key_by('k'):process { on_record = print, on_timr = print }",
     "job.lua:4: process: unknown option \"on_timr\"; did you mean "
     "\"on_timer\"?"},
    {"st:key_by('k'):process { on_window = print }",
     "job.lua:4: process: on_window belongs to a windowed stream; put"},
    {"st:key_by('k'):process { on_left = print }",
     "job.lua:4: process: on_left belongs to connected streams"},
    {"st:key_by('k'):window(s.global()):process { on_record = print }",
     "job.lua:4: process: on_record belongs to a keyed stream; on a windowed "
     "one it is on_window"},
    {"st:key_by('k'):window(s.global()):process { on_window = print, state = "
     "{} }",
     "job.lua:4: process: state belongs to a keyed stream without window"},
    {"st:key_by('k'):process { on_record = print, state = { a = 1 } }",
     "job.lua:4: process: state: a: expected a state handle such as "
     "s.value_state(), got number 1"},
    {"st:key_by('k'):process { on_record = print, state = { ['a b'] = "
     "s.value_state() } }",
     "job.lua:4: process: state: handles have names"},
    {"st:key_by('k'):process { on_record = print, state = { s.value_state() } "
     "}",
     "job.lua:4: process: state: handles have names (letters, digits, _ and "
     "-, at most 64), got number 1"},
    {"st:key_by('k'):process { on_record = print, state = { a = s.map_state { "
     "ttl_clock = 'event' } } }",
     "job.lua:4: map_state: option \"ttl_clock\" needs a ttl"},
    {"s.list_state { ttl = '0s' }", "job.lua:4: list_state: option \"ttl\": "
                                    "expected a duration such as \"30s\", or "
                                    "false, got string \"0s\""},
    {"s.value_state { ttl_update = 'read' }",
     "job.lua:4: value_state: option \"ttl_update\": unknown value \"read\""},
    {"s.reducing_state(s.sum 'v')",
     "job.lua:4: reducing_state: first argument: expected a function, got "
     "aggregator"},
    {"s.aggregating_state(print)",
     "job.lua:4: aggregating_state: first argument: expected an aggregator"},
    {"st:key_by('k'):process { on_record = print, outputs = 'a' }",
     "job.lua:4: process: option \"outputs\": expected a list of names"},
    {"st:key_by('k'):process { on_record = print, outputs = { 'a', 'a' } }",
     "job.lua:4: process: option \"outputs\": the name \"a\" is used twice"},
    {"st:key_by('k'):process { on_record = print, outputs = { 'main' } }",
     "job.lua:4: process: option \"outputs\": entry 1: the name \"main\" is "
     "reserved"},
    {"st:key_by('k'):process { on_record = print, outputs = { 'alerts' } }"
     ":side_output 'alert'",
     "job.lua:4: side_output: step process-1 has no side output \"alert\"; did "
     "you mean \"alerts\"? it has \"alerts\""},
    {"st:key_by('k'):window(s.tumbling '1s', { late_output = 'quarantine' })",
     "job.lua:4: window: option \"late_output\": the name \"quarantine\" is "
     "reserved"},
    {"st:key_by('k'):window(s.tumbling '1s', { late_output = 'a' }):process { "
     "on_window = print, outputs = { 'a' } }",
     "job.lua:4: process: option \"outputs\": \"a\" is the late output of the "
     "window"},
    {"st:key_by('k'):connect(st)",
     "job.lua:4: connect: first argument: expected a keyed stream, got "
     "stream"},
    {"st:key_by('k'):connect(st:key_by { 'a', 'b' })",
     "job.lua:4: connect: the keys differ in shape: [k] (job.lua:4), [a, b] "
     "(job.lua:4)"},
    {"st:key_by('k'):connect(st:key_by 'a'):process { on_left = print }",
     "job.lua:4: process: missing required option \"on_right\""},
    {"st:key_by('k'):connect(st:key_by 'a'):process { on_record = print }",
     "job.lua:4: process: on_record belongs to one keyed stream; connected"},
    {"st:key_by('k'):connect(st:key_by 'a'):map(print)",
     "job.lua:4: map: connected streams have only process { on_left, "
     "on_right }"},
    {"st:key_by('k'):connect(st:key_by 'a')",
     "job.lua:4: connect: this stream reaches no sink"},
    {"st:connect(st)", "job.lua:4: connect: key_by is missing before connect"},
    {"st:key_by('k'):reduce()",
     "job.lua:4: reduce: first argument: expected a function, got nil"},
    {"st:key_by('k'):window(s.tumbling '1s', { window_fields = false })"
     ":reduce(print)",
     "job.lua:4: window: option \"window_fields\" belongs to aggregate and "
     "top_n, here is reduce"},
    {"st:key_by('k'):dedup {}",
     "job.lua:4: dedup: missing required option \"ttl\": how long a key is "
     "remembered, or false for ever"},
    {"st:key_by('k'):dedup()", "job.lua:4: dedup: missing required option"},
    {"st:key_by('k'):dedup { ttl = 0 }",
     "job.lua:4: dedup: option \"ttl\": expected a duration"},
    {"st:key_by('k'):window(s.global()):dedup { ttl = '1h' }",
     "job.lua:4: dedup: a windowed stream has no dedup; put the step before "
     "window"},
    {"st:key_by('k'):window(s.global()):top_n { by = 'v' }",
     "job.lua:4: top_n: missing required option \"n\""},
    {"st:key_by('k'):window(s.global()):top_n { n = 0, by = 'v' }",
     "job.lua:4: top_n: option \"n\": expected an integer"},
    {"st:key_by('k'):window(s.global()):top_n { n = 1, by = 3 }",
     "job.lua:4: top_n: option \"by\": expected a field or a function, got "
     "number 3"},
    {"st:split({ 'a' })", "job.lua:4: split: first argument: expected a "
                          "function, got table"},
    {"st:split(print, {})",
     "job.lua:4: split: second argument: expected a list of names"},
    {"st:split(print, { 'a', 'a' })",
     "job.lua:4: split: second argument: the name \"a\" is used twice"},
    {"st:split(print, { 'a', b = 1 })",
     "job.lua:4: split: second argument: unexpected key string \"b\""},
    {"local p = st:split(print, { 'rest', 'x' }) p.rst:map(print)",
     "job.lua:4: split has no output \"rst\"; did you mean \"rest\"?"},
    {"st:split(print, { 'a' })",
     "job.lua:4: split: the output \"a\" reaches no sink"},
    {"s.same '1m'", "job.lua:4: same: takes no options, got string"},
    {"s.count_window(0)", "job.lua:4: count_window: size: expected an integer"},
    {"s.count_window(2, 3)",
     "job.lua:4: count_window: the slide (3) is larger than the size (2)"},
    {"s.count_window(2, { lateness = 1 })",
     "job.lua:4: count_window: takes no options, got table"},
    {"st:key_by('k'):window(s.count_window(2), { lateness = '1s' })",
     "job.lua:4: window: option \"lateness\" has no meaning with a count "
     "window: no record is late there"},
    {"st:key_by('k'):window(s.same(), { late_output = 'l' })",
     "job.lua:4: window: option \"late_output\" has no meaning with s.same()"},
    {"st:key_by('k'):window(s.tumbling('1s', { clock = 'processing' }), { "
     "lateness = 1 })",
     "job.lua:4: window: option \"lateness\" has no meaning with clock = "
     "\"processing\""},
    {"st:key_by('k'):window(s.global(), { window_fields = false })",
     "job.lua:4: window: option \"window_fields\": a global window has no "
     "window fields"},
    {"st:key_by('k'):window(s.tumbling '1s', { window_fields = { 'a' } })",
     "job.lua:4: window: option \"window_fields\": expected two names such "
     "as"},
    {"st:key_by('k'):window(s.tumbling '1s', { window_fields = { 'a', 'a' } "
     "})",
     "job.lua:4: window: window_fields: the name \"a\" is used twice"},
    {"st:key_by('k'):window(s.tumbling '1s', { window_fields = { 'a', 'k' } "
     "})",
     "job.lua:4: key_by: the name \"k\" is reserved"},
    {"st:key_by('k'):window(s.tumbling '1s', { window_fields = { 'a', 'n' } "
     "}):aggregate { n = s.count() }",
     "job.lua:4: aggregate: the name \"n\" is reserved"},
    {"s.count('v', { where = 'x' })",
     "job.lua:4: count: option \"where\": expected a function, got string"},
    {"s.collect('v', { limit = 0 })",
     "job.lua:4: collect: option \"limit\": expected an integer"},
    {"s.read()", "job.lua:4: read: missing required option \"path\""},
    {"s.read { path = 'none.csv', format = 'csv', header = true }",
     "job.lua:4: read: "},
    {"s.read { path = 'none.csv', format = 'csv' }",
     "job.lua:4: read: csv needs fields = "},
    {"st:sink('o', s.kafka { topic = { 'a' } })",
     "job.lua:4: kafka: option \"topic\": expected a string or a function, "
     "got table"},
    {"st:sink('o', s.kafka { topic = '^a' })",
     "job.lua:4: kafka: option \"topic\": the pattern \"^a\" can only stand "
     "in a source"},
    {"job:source('k', s.kafka { topic = { 'a', '^' }, start = 'latest' })",
     "job.lua:4: kafka: option \"topic\": the pattern \"^\" has nothing"},
    {"job:source('k', s.kafka { topic = '^', start = 'latest' })",
     "job.lua:4: kafka: option \"topic\": the pattern \"^\" has nothing"},
    {"st:sink('o', s.kafka { topic = 'x', create = { partition = 3 } })",
     "job.lua:4: kafka: create: unknown option \"partition\"; did you mean "
     "\"partitions\"?"},
    {"st:sink('o', s.kafka { topic = 'x', create = { partitions = 0 } })",
     "job.lua:4: kafka: create: option \"partitions\": expected an integer"},
};

static void
steps_with_state_say_what_they_need(void **state)
{
    (void)state;
    expect_refusals(stateful, sizeof stateful / sizeof stateful[0]);
}

/* The step called `name`. */
static const struct opt *
step_of(const struct script *s, const char *name)
{
    const struct opt *o = opt_get(script_job(s), "steps")->first;

    while (o != NULL && !opt_is(o, "name", name))
        o = o->next;
    assert_non_null(o);
    return o;
}

static const struct opt *
only_agg(const struct opt *step)
{
    assert_int_equal(opt_get(step, "aggs")->len, 1);
    return opt_get(step, "aggs")->first;
}

static struct script *
load_text(const char *text)
{
    struct script_conf conf = conf_of(text);

    return load_ok(&conf);
}

static const char process_job[] =
    "local s = require 'streamlua'\n"
    "local job = s.job('t', { state = { ttl = '1d' } })\n"
    "local src = job:source('in', s.stdin()):event_time {}\n"
    "local p = src:key_by 'k'\n"
    "  :process { name = 'p', outputs = { 'x', 'y' },\n"
    "    state = { z = s.value_state(),\n"
    "      b = s.map_state { ttl = false },\n"
    "      a = s.list_state { ttl = '1s', ttl_clock = 'processing',\n"
    "                         ttl_update = 'read_and_write' },\n"
    "      r = s.reducing_state(print),\n"
    "      g = s.aggregating_state(s.sum('v', { where = print })) },\n"
    "    on_record = function(e, ctx)\n"
    "    end,\n"
    "    on_timer = function(ts, ctx) ctx:register_event_timer(ts) end }\n"
    "p:sink('out', s.blackhole())\n"
    "p:side_output 'y':sink('o2', s.blackhole())\n"
    "src:key_by('l', { on_null = 'fail' }):connect(src:key_by 'r')\n"
    "  :process { on_left = print, on_right = print }\n"
    "  :sink('o3', s.blackhole())\n"
    "return job\n";

static void
a_process_has_its_handles_in_order_of_their_names(void **state)
{
    static const char *const names[] = {"a", "b", "g", "r", "z"};
    static const char *const kinds[] = {"list", "map", "aggregating",
                                        "reducing", "value"};
    static const int64_t ttls[] = {1000, -1, 86400000, 86400000, 86400000};
    const struct opt *p, *h;
    struct script *s;
    size_t i;

    (void)state;
    s = load_text(process_job);
    p = step_of(s, "p");
    assert_true(opt_is(p, "kind", "process"));
    assert_true(opt_is(p, "on_null", "skip"));
    assert_true(opt_is(p, "key_place", "job.lua:4"));
    assert_true(opt_is(p, "event_timer_place", "job.lua:14"));
    assert_int_not_equal(opt_func(p, "on_record"), 0);
    assert_int_not_equal(opt_func(p, "on_timer"), 0);
    assert_int_equal(opt_get(p, "outputs")->len, 2);
    assert_int_equal(opt_get(p, "state")->len, 5);
    for (i = 0; i < 5; i++) {
        h = opt_at(opt_get(p, "state"), i);
        assert_true(opt_is(h, "name", names[i]));
        assert_true(opt_is(h, "kind", kinds[i]));
        assert_int_equal(opt_int(h, "ttl_ms", 0), ttls[i]);
        assert_true(
            opt_is(h, "ttl_update", i == 0 ? "read_and_write" : "write"));
    }
    h = opt_at(opt_get(p, "state"), 0);
    assert_true(opt_is(h, "ttl_clock", "processing"));
    assert_true(opt_is(h, "place", "job.lua:8"));
    h = opt_at(opt_get(p, "state"), 2);
    assert_null(opt_get(h, "ttl_clock"));
    assert_true(opt_is(opt_get(h, "agg"), "fn", "sum"));
    assert_true(opt_is(opt_get(h, "agg"), "name", "g"));
    assert_int_not_equal(opt_func(opt_get(h, "agg"), "where"), 0);
    assert_int_not_equal(opt_func(opt_at(opt_get(p, "state"), 3), "func"), 0);
    script_free(&s);
}

static void
connected_streams_are_one_process_with_two_inputs(void **state)
{
    const struct opt *p, *in;
    struct script *s;

    (void)state;
    s = load_text(process_job);
    p = step_of(s, "process-2");
    in = opt_get(p, "inputs");
    assert_int_equal(in->len, 2);
    assert_null(opt_get(opt_at(in, 0), "side"));
    assert_true(opt_is(opt_at(in, 1), "side", "right"));
    assert_true(opt_is(opt_get(p, "key")->first, "field", "l"));
    assert_true(opt_is(p, "on_null", "fail"));
    assert_true(
        opt_is(opt_get(opt_get(p, "right"), "key")->first, "field", "r"));
    assert_true(opt_is(opt_get(p, "right"), "on_null", "skip"));
    assert_int_not_equal(opt_func(p, "on_left"), 0);
    assert_int_not_equal(opt_func(p, "on_right"), 0);
    assert_null(opt_get(p, "event_timer_place"));
    script_free(&s);
}

static const char window_job[] =
    "local s = require 'streamlua'\n"
    "local job = s.job('t', { state = { ttl = '2s' } })\n"
    "local k = job:source('in', s.stdin()):event_time {}:key_by 'k'\n"
    "local n = 0\n"
    "local function out(st) n = n + 1; st:sink('o' .. n, s.blackhole()) end\n"
    "out(k:aggregate { c = s.collect 'v', n = s.count('v', { where = print }) "
    "})\n"
    "out(k:reduce(print))\n"
    "local w = k:window(s.tumbling('1m', { clock = 'processing' }),\n"
    "  { window_fields = { 'from', 'to' } })\n"
    "out(w:top_n { n = 3, by = 'v', order = 'asc', ties = true })\n"
    "out(k:window(s.count_window(9, 3)):reduce(print, { name = 'red' }))\n"
    "out(k:window(s.tumbling '1m', { window_fields = false, late_output = 'l' "
    "})\n"
    "  :aggregate({ n = s.count() }, { name = 'bare' }))\n"
    "out(k:window(s.global()):process { on_window = print, outputs = { 'x' } "
    "})\n"
    "out(k:dedup { ttl = false })\n"
    "return job\n";

static void
windows_and_their_rows_are_normalised(void **state)
{
    const struct opt *o, *a;
    struct script *s;

    (void)state;
    s = load_text(window_job);
    o = step_of(s, "aggregate-1");
    assert_true(opt_is(opt_get(o, "window"), "kind", "none"));
    assert_int_equal(opt_int(o, "ttl_ms", 0), 2000);
    assert_null(opt_get(o, "rows"));
    a = opt_get(o, "aggs");
    assert_int_equal(opt_int(opt_at(a, 0), "limit", 0), 1000);
    assert_int_not_equal(opt_func(opt_at(a, 1), "where"), 0);

    o = step_of(s, "reduce-1");
    assert_true(opt_is(o, "kind", "aggregate"));
    assert_true(opt_is(o, "rows", "record"));
    assert_true(opt_is(only_agg(o), "fn", "reduce"));
    assert_int_not_equal(opt_func(only_agg(o), "func"), 0);
    assert_int_equal(opt_get(only_agg(o), "args")->len, 0);

    o = step_of(s, "top_n-1");
    assert_true(opt_is(o, "rows", "ranked"));
    assert_true(opt_is(opt_get(o, "window"), "clock", "processing"));
    assert_string_equal(opt_at(opt_get(o, "window_fields"), 1)->s, "to");
    a = only_agg(o);
    assert_true(opt_is(a, "fn", "top_n"));
    assert_int_equal(opt_int(a, "n", 0), 3);
    assert_false(opt_bool(a, "desc", true));
    assert_true(opt_bool(a, "ties", false));
    assert_true(opt_is(opt_get(a, "args")->first, "field", "v"));

    o = opt_get(step_of(s, "red"), "window");
    assert_true(opt_is(o, "kind", "count"));
    assert_int_equal(opt_int(o, "size", 0), 9);
    assert_int_equal(opt_int(o, "slide", 0), 3);

    o = step_of(s, "bare");
    assert_true(opt_get(o, "window_fields")->type == OPT_BOOL);
    assert_null(opt_get(opt_get(o, "window"), "clock"));

    o = step_of(s, "process-1");
    assert_true(opt_is(o, "rows", "window"));
    assert_true(opt_is(only_agg(o), "fn", "records"));
    assert_string_equal(opt_get(o, "outputs")->first->s, "x");

    o = step_of(s, "dedup-1");
    assert_int_equal(opt_int(o, "ttl_ms", 0), -1);
    assert_true(opt_is(o, "keep", "first"));
    script_free(&s);
}

static void
a_quarantine_in_kafka_takes_part_in_the_job_s_transaction(void **state)
{
    static const char *const given[] = {"", ", delivery = 'at_least_once'"};
    static const char *const want[] = {"exactly_once", "at_least_once"};
    const struct opt *q;
    struct script *s;
    char text[1024];
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        (void)snprintf(
            text, sizeof text,
            "local s = require 'streamlua'\n"
            "local job = s.job('t', { on_error = 'quarantine',\n"
            "  quarantine = s.kafka { topic = 'bad'%s } })\n"
            "job:source('in', s.kafka { topic = '^in-', start = 'latest' })\n"
            "  :sink('out', s.kafka { topic = function(e) return 'x' end,\n"
            "    delivery = 'exactly_once', transactional_id_prefix = 'p',\n"
            "    create = { partitions = 3, config = { a = 1 } } })\n"
            "return job\n",
            given[i]);
        s = load_text(text);
        q = opt_get(opt_get(script_job(s), "options"), "quarantine");
        assert_true(opt_is(q, "kind", "sink"));
        assert_true(opt_is(q, "name", "quarantine"));
        assert_true(opt_is(q, "connector", "kafka"));
        assert_true(opt_is(opt_get(q, "conn"), "delivery", want[i]));
        if (i == 0)
            assert_true(
                opt_is(opt_get(q, "conn"), "transactional_id_prefix", "p"));
        q = opt_get(step_of(s, "out"), "conn");
        assert_int_not_equal(opt_func(q, "topic_func"), 0);
        assert_null(opt_get(q, "topic"));
        assert_int_equal(opt_int(opt_get(q, "create"), "partitions", 0), 3);
        assert_int_equal(opt_int(opt_get(q, "create"), "replication", 0), -1);
        assert_true(opt_is(opt_get(opt_get(q, "create"), "config"), "a", "1"));
        assert_true(opt_is(opt_get(step_of(s, "in"), "conn"), "topic", "^in-"));
        script_free(&s);
    }
}

static void
split_gives_a_stream_for_each_name(void **state)
{
    const struct opt *o;
    struct script *s;

    (void)state;
    s = load_text("local s = require 'streamlua'\n"
                  "local job = s.job 't'\n"
                  "local p = job:source('in', s.stdin())\n"
                  "  :split(print, { 'b', 'a' }, { name = 'fork' })\n"
                  "for name, st in pairs(p) do\n"
                  "  st:sink('to-' .. name, s.blackhole())\n"
                  "end\n"
                  "return job\n");
    o = step_of(s, "fork");
    assert_true(opt_is(o, "kind", "split"));
    assert_string_equal(opt_at(opt_get(o, "names"), 0)->s, "b");
    o = opt_get(step_of(s, "to-a"), "inputs")->first;
    assert_true(opt_is(o, "output", "a"));
    assert_int_equal(opt_int(o, "step", 0), 2);
    script_free(&s);
}

static void
what_was_read_is_told_by_its_bytes(void **state)
{
    static const char text[] =
        "local s = require 'streamlua'\n"
        "local job = s.job 't'\n"
        "local t = s.read { path = 'read.jsonl' }\n"
        "assert(#t == 2 and t[1].a == 1 and t[2].value[2] == 'x')\n"
        "assert(not pcall(coroutine.wrap(function()\n"
        "  s.read { path = 'none' } end)))\n"
        "coroutine.wrap(function() s.read { path = 'read.jsonl' } end)()\n"
        "job:source('in', s.stdin()):sink('o', s.blackhole())\n"
        "return job\n";
    char path[] = "/tmp/load_state.XXXXXX/job.lua", file[64], *slash;
    struct script_conf conf = conf_of(text);
    struct script *one, *other;
    const struct opt *reads;
    struct err e;
    FILE *f;

    (void)state;
    slash = strrchr(path, '/');
    *slash = '\0';
    assert_non_null(mkdtemp(path));
    (void)snprintf(file, sizeof file, "%s/read.jsonl", path);
    *slash = '/';
    conf.path = path;
    f = fopen(file, "w");
    assert_non_null(f);
    (void)fputs("{\"a\":1}\n\n[1,\"x\"]", f);
    (void)fclose(f);

    one = load_ok(&conf);
    reads = opt_get(script_job(one), "reads");
    assert_int_equal(reads->len, 2);
    assert_int_equal(opt_int(reads->first, "size", 0), 16);
    f = fopen(file, "w");
    assert_non_null(f);
    (void)fputs("{\"a\":1}\n\n[2,\"x\"]", f);
    (void)fclose(f);
    other = load_ok(&conf);
    err_clear(&e);
    assert_int_equal(script_check_same(one, other, &e), ERR_JOBFILE);

    script_free(&one);
    script_free(&other);
    (void)unlink(file);
    *slash = '\0';
    (void)rmdir(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_with_state_say_what_they_need),
        cmocka_unit_test(a_process_has_its_handles_in_order_of_their_names),
        cmocka_unit_test(connected_streams_are_one_process_with_two_inputs),
        cmocka_unit_test(windows_and_their_rows_are_normalised),
        cmocka_unit_test(
            a_quarantine_in_kafka_takes_part_in_the_job_s_transaction),
        cmocka_unit_test(split_gives_a_stream_for_each_name),
        cmocka_unit_test(what_was_read_is_told_by_its_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
