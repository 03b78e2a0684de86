/* Loading: what a job file may say, what it becomes, what is refused. */
#include "script_util.h"

#include <sys/stat.h>
#include <unistd.h>

/* The form of every mistake: place, step, what was found, what is valid. */
static const struct refusal refusals[] = {
    /* types */
    {"st:filter('x')", "job.lua:4: filter: first argument: expected a "
                       "function, got string \"x\""},
    {"st:map()", "job.lua:4: map: first argument: expected a function, got "
                 "nil"},
    {"st:key_by(1)", "job.lua:4: key_by: first argument: expected a field, a "
                     "table of fields or a function, got number 1"},
    {"st:key_by('a'):window('1m')",
     "job.lua:4: window: first argument: expected a window spec"},
    {"st:event_time('ts')",
     "job.lua:4: event_time: expected a table of options, got string"},
    {"st:union(3)", "job.lua:4: union: argument 1: expected a stream"},
    {"st:sink('o', s.stdin())", "job.lua:4: sink: s.stdin is no sink; use"},
    {"st:sink('o', {})", "job.lua:4: sink: second argument of o: expected"},
    {"st.filter(1)", "job.lua:4: filter: call it with a colon"},
    {"s.sum(3)", "job.lua:4: sum: argument: expected a field or a function"},
    {"s.param('x', {})", "job.lua:4: param: default of x: expected"},
    /* values */
    {"s.tumbling '1x'", "job.lua:4: tumbling: size: expected a duration"},
    {"s.tumbling(0)", "job.lua:4: tumbling: size: expected a duration above"},
    {"s.tumbling '0.5ms'", "job.lua:4: tumbling: size: expected"},
    {"s.hopping('1s', '2s')",
     "job.lua:4: hopping: the slide (2000 ms) is larger than the size"},
    {"s.percentile('v', 0)", "job.lua:4: percentile: q: expected"},
    {"st:sink('o', s.stdout(), { parallelism = 0 })",
     "job.lua:4: sink: option \"parallelism\": expected an integer from 1 to "
     "32768, got number 0"},
    {"st:event_time { field = 'ts', unit = 'min' }",
     "job.lua:4: event_time: option \"unit\": unknown value \"min\""},
    {"st:event_time { field = 'a', func = print }",
     "job.lua:4: event_time: give field or func, not both"},
    {"st:select { 'a..b' }",
     "job.lua:4: select: entry 1: the path \"a..b\" has an empty member"},
    {"st:sink('o', s.stdout { format = 'xml' })",
     "job.lua:4: stdout: option \"format\": unknown value \"xml\""},
    {"st:sink('o', s.stdout { format = 'csv' })",
     "job.lua:4: stdout: missing required option \"fields\""},
    {"job:source('k', s.kafka { topic = 'x' })",
     "job.lua:4: kafka: missing required option \"start\""},
    {"job:source('k', s.kafka { topic = 'x', start = 'erliest' })",
     "job.lua:4: kafka: option \"start\": unknown value \"erliest\"; did you "
     "mean \"earliest\"?"},
    {"st:sink('o', s.kafka { topic = 'x', properties = { ['linger.ms'] = {} "
     "} })",
     "job.lua:4: kafka: properties: \"linger.ms\": expected a string"},
    /* names */
    {"st:sink('in', s.stdout())",
     "job.lua:4: sink: the name \"in\" is already used (job.lua:3)"},
    {"st:sink('a b', s.stdout())", "job.lua:4: sink: first argument: "
                                   "expected a name"},
    {"st:key_by { 'a', 'x.a' }",
     "job.lua:4: key_by: the name \"a\" is used twice"},
    {"st:key_by('k'):window(s.global()):aggregate { window_end = s.count() }",
     "job.lua:4: aggregate: the name \"window_end\" is reserved"},
    {"st:key_by('k'):window(s.global()):aggregate { k = s.count() }",
     "job.lua:4: aggregate: the name \"k\" is a key field already"},
    {"st:key_by('window_start'):window(s.tumbling '1s')",
     "job.lua:4: key_by: the name \"window_start\" is reserved"},
    {"st:key_by('k'):window(s.global()):aggregate { s.count() }",
     "job.lua:4: aggregate: entry 1 (aggregator) needs a name"},
    {"s.aggregator { init = print }",
     "job.lua:4: aggregator: missing required option \"add\""},
    {"s.tumblin '1m'", "job.lua:4: streamlua has no function \"tumblin\"; did "
                       "you mean \"tumbling\"?"},
    {"s.gen.zpf(1, 2)", "job.lua:4: gen has no template \"zpf\"; did you mean "
                        "\"zipf\"?"},
    {"st:sink('o', s.stdout(), { paralelism = 2 })",
     "job.lua:4: sink: unknown option \"paralelism\"; did you mean "
     "\"parallelism\"? allowed: name, parallelism, slot_sharing_group, "
     "chaining, on_error"},
    {"st:side_output 'late'",
     "job.lua:4: side_output: step in has no side output \"late\""},
    /* order of steps */
    {"st:window(s.tumbling '1m')",
     "job.lua:4: window: key_by is missing before window"},
    {"st:aggregate { n = s.count() }",
     "job.lua:4: aggregate: key_by is missing before aggregate"},
    {"st:key_by('k'):filter(print)",
     "job.lua:4: filter: a keyed stream has no filter; put the step before "
     "key_by"},
    {"st:key_by('k'):window(s.global()):sink('o', s.stdout())",
     "job.lua:4: sink: a windowed stream has no sink; put the step before "
     "key_by"},
    {"job:sink('o', s.stdout())", "job.lua:4: sink: a job has no sink"},
    {"s.job 'u'", "job.lua:4: job: s.job was called already (job.lua:2)"},
    {"error('boom')", "job.lua:4: boom"},
    {"error('boom', 0)", "job.lua:4: boom"},
    {"require 'nope'", "job.lua:4: module 'nope' not found"},
    {"x =", "job.lua:6: unexpected symbol near 'return'"},
};

/* Names of later stages are known, and refused by name. */
static const struct refusal later[] = {
    {"st:key_by('k'):window(s.session '10s')",
     "job.lua:4: session windows are not available in this version"},
    {"s.cumulating('1m', '1d')", "job.lua:4: cumulating windows are not"},
    {"s.top_k('x', 3)", "job.lua:4: top_k is not available in this version"},
    {"s.lookup {}", "job.lua:4: lookup is not available"},
    {"st:join(st)", "job.lua:4: join is not available in this version"},
    {"st:lookup(st)", "job.lua:4: lookup is not available"},
    {"st:broadcast()", "job.lua:4: broadcast is not available"},
    {"job:table('t', s.stdin())", "job.lua:4: table is not available"},
    {"st:key_by('k'):over {}", "job.lua:4: over is not available"},
    {"st:key_by('k'):window(s.global(), { early = '1s' })",
     "job.lua:4: window: option \"early\" is not available in this version"},
    {"s.tumbling('1m', { time_zone = 'UTC' })",
     "job.lua:4: tumbling: option \"time_zone\" is not available"},
    {"st:sink('o', s.stdout { format = 'avro' })",
     "job.lua:4: stdout: format = \"avro\" is not available"},
    {"require 'streamlua.test'",
     "job.lua:4: require: streamlua.test is for test files"},
    {"s.value_state { migrate = 1 }",
     "job.lua:4: value_state: option \"migrate\": expected a function"},
    {"s.sum('v', { migrate = print })",
     "job.lua:4: sum: unknown option \"migrate\""},
    {"s.aggregating_state(s.sum 'v', { migrate = function(o) return o end })",
     "job.lua:4: aggregating_state: option \"migrate\" belongs to "
     "s.aggregator"},
    {"st:key_by('k'):process { on_record = function() end, state = { v = "
     "s.value_state { migrate = load 'return 1' } } }:sink('o', s.stdout())",
     "job.lua:4: migrate: the text of the function cannot be told"},
    {"st:key_by('k'):dedup { ttl = false, keep = 'last' }",
     "job.lua:4: dedup: keep = \"last\" is not available in this version"},
    {"st:key_by('k'):top_n { n = 1, by = 'v' }",
     "job.lua:4: top_n without window is not available in this version"},
};

static void
every_mistake_is_one_message_with_place_and_remedy(void **state)
{
    (void)state;
    expect_refusals(refusals, sizeof refusals / sizeof refusals[0]);
}

static void
later_names_are_refused_by_name(void **state)
{
    (void)state;
    expect_refusals(later, sizeof later / sizeof later[0]);
}

static void
file_must_return_its_job(void **state)
{
    struct script_conf conf;

    (void)state;
    conf = conf_of(JOB_HEAD);
    load_fails(&conf, ERR_JOBFILE,
               "job.lua:3: the file must end with return job, got nothing");
    conf = conf_of(JOB_HEAD "return st\n");
    load_fails(&conf, ERR_JOBFILE,
               "job.lua:4: the file must end with return job, got stream");
    conf = conf_of("local x = 1\n");
    load_fails(&conf, ERR_JOBFILE, "job.lua:1: no job");
    conf = conf_of("");
    load_fails(&conf, ERR_JOBFILE, "job.lua:1: no job");
}

static void
only_text_is_loaded(void **state)
{
    struct script_conf conf;

    (void)state;
    conf = conf_of("\033Lua");
    load_fails(&conf, ERR_JOBFILE, "job.lua:1: attempt to load a binary chunk");
    conf = conf_of("#!/usr/bin/env -S streamlua run\nlocal x = nil + 1\n");
    load_fails(&conf, ERR_JOBFILE, "job.lua:2: attempt to perform arithmetic");
    conf = conf_of("\xEF\xBB\xBFlocal x = nil + 1\n");
    load_fails(&conf, ERR_JOBFILE, "job.lua:1: attempt to perform arithmetic");
}

static const char wide_job[] =
    "local s = require 'streamlua'\n"
    "local job = s.job('n', { parallelism = 4, checkpoint = { interval = "
    "'1h30m' },\n"
    "  mini_batch = { bytes = '1.5MiB' }, buffer_timeout = '1.5s',\n"
    "  lua = { memory = '10MB' } })\n"
    "job:source('k', s.kafka { topic = { 'a', 'b' }, discovery = '1m',\n"
    "    start = { offsets = { [0] = 42, [1] = 'earliest' } },\n"
    "    properties = { ['fetch.min.bytes'] = 5, x = true } })\n"
    "  :event_time { field = 'a\\\\.b.c', idle = false, all_idle = '1m' }\n"
    "  :key_by { 'z.y', { 'p', 'q' }, b = 'x', a = function() end }\n"
    "  :window(s.hopping('90s', '1m', { offset = '-8h' }), { late_output = "
    "'late', name = 'agg' })\n"
    "  :aggregate { n = s.count(), { 'r', s.percentile('v', { 0.5, 0.99 "
    "}) } }\n"
    "  :sink('o', s.kafka { topic = 't', key = { 'p' }, headers = { h = 1 "
    "} })\n"
    "return job\n";

static void
parts_of_memory_are_shares_or_sizes(void **state)
{
    static const char text[] =
        "local s = require 'streamlua'\n"
        "local job = s.job('n', { memory = { state = 1, lua = '1KiB' },\n"
        "  checkpoint = { retained = 2, timeout = '1m' } })\n"
        "job:source('in', s.stdin()):sink('o', s.blackhole())\n"
        "return job\n";
    const struct opt *o, *memory, *idle;
    struct script_conf conf;
    struct script *s;

    (void)state;
    conf = conf_of(text);
    s = load_ok(&conf);
    o = opt_get(script_job(s), "options");
    memory = opt_get(o, "memory");

    assert_int_equal(opt_get(memory, "state")->type, OPT_DBL);
    assert_int_equal(opt_int(memory, "lua", 0), 1024);
    assert_null(opt_get(memory, "total"));
    assert_int_equal(opt_int(opt_get(o, "checkpoint"), "timeout_ms", 0), 60000);

    idle = opt_get(o, "idle"); /* only what has no effect yet */
    assert_int_equal(idle->len, 2);
    assert_string_equal(opt_at(idle, 0)->s, "checkpoint.retained");
    assert_string_equal(opt_at(idle, 1)->s, "memory.lua");
    script_free(&s);
}

static void
options_of_job_and_source_are_normalised(void **state)
{
    const struct opt *job, *o, *step, *conn;
    struct script_conf conf;
    struct script *s;

    (void)state;
    conf = conf_of(wide_job);
    s = load_ok(&conf);
    job = script_job(s);
    o = opt_get(job, "options");

    assert_string_equal(opt_str(job, "name", ""), "n");
    assert_string_equal(opt_str(job, "file", ""), "job.lua");
    assert_int_equal(opt_int(o, "parallelism", 0), 4);
    assert_int_equal(opt_int(opt_get(o, "checkpoint"), "interval_ms", 0),
                     5400000);
    assert_int_equal(opt_int(opt_get(o, "mini_batch"), "bytes", 0), 1572864);
    assert_int_equal(opt_int(opt_get(o, "mini_batch"), "size", 0), 50000);
    assert_int_equal(opt_int(o, "buffer_timeout_ms", 0), 1500);
    assert_int_equal(opt_int(opt_get(o, "lua"), "memory", 0), 10000000);

    step = opt_at(opt_get(job, "steps"), 0);
    conn = opt_get(step, "conn");
    assert_string_equal(opt_str(step, "connector", ""), "kafka");
    assert_int_equal(opt_get(conn, "topic")->len, 2);
    assert_int_equal(opt_int(conn, "discovery_ms", 0), 60000);
    assert_int_equal(
        opt_int(opt_get(opt_get(conn, "start"), "offsets"), "0", 0), 42);
    assert_true(
        opt_is(opt_get(opt_get(conn, "start"), "offsets"), "1", "earliest"));
    assert_true(opt_is(opt_get(conn, "properties"), "fetch.min.bytes", "5"));
    assert_true(opt_is(opt_get(conn, "properties"), "x", "true"));
    script_free(&s);
}

static void
options_of_steps_and_sinks_are_normalised(void **state)
{
    const struct opt *job, *o, *step, *conn;
    struct script_conf conf;
    struct script *s;

    (void)state;
    conf = conf_of(wide_job);
    s = load_ok(&conf);
    job = script_job(s);

    step = opt_at(opt_get(job, "steps"), 1);
    assert_string_equal(opt_str(step, "name", ""), "event_time-1");
    assert_true(opt_bool(step, "auto", false));
    assert_string_equal(opt_str(step, "field", ""), "a\\.b.c");
    assert_int_equal(opt_int(step, "idle_ms", 0), -1);
    assert_int_equal(opt_int(step, "all_idle_ms", 0), 60000);
    assert_int_equal(opt_int(step, "out_of_orderness_ms", -5), 0);

    step = opt_at(opt_get(job, "steps"), 2);
    assert_string_equal(opt_str(step, "name", ""), "agg");
    assert_string_equal(opt_str(step, "late_output", ""), "late");
    assert_int_equal(opt_get(step, "key")->len, 4);
    assert_true(opt_is(opt_at(opt_get(step, "key"), 0), "name", "y"));
    assert_true(opt_is(opt_at(opt_get(step, "key"), 1), "field", "q"));
    assert_true(opt_is(opt_at(opt_get(step, "key"), 2), "name", "a"));
    assert_int_not_equal(opt_func(opt_at(opt_get(step, "key"), 2), "func"), 0);
    assert_true(opt_is(opt_at(opt_get(step, "key"), 3), "name", "b"));
    assert_int_equal(opt_int(opt_get(step, "window"), "offset_ms", 0),
                     -28800000);
    assert_int_equal(opt_int(opt_get(step, "window"), "slide_ms", 0), 60000);
    assert_true(opt_is(opt_at(opt_get(step, "aggs"), 0), "name", "r"));
    o = opt_get(opt_at(opt_get(step, "aggs"), 0), "q_text");
    assert_string_equal(opt_at(o, 1)->s, "0.99");

    step = opt_at(opt_get(job, "steps"), 3);
    conn = opt_get(step, "conn");
    assert_true(opt_is(opt_get(conn, "key"), "kind", "fields"));
    assert_true(opt_is(opt_get(conn, "headers"), "h", "1"));
    assert_true(opt_is(conn, "delivery", "at_least_once"));
    script_free(&s);
}

static void
union_rebalance_and_fan_out_become_inputs(void **state)
{
    const struct opt *steps, *in;
    struct script_conf conf;
    struct script *s;

    (void)state;
    conf = conf_of(
        JOB_HEAD "local b = job:source('b', s.stdin())\n"
                 "st:union(b):rebalance():sink('o', s.stdout())\n"
                 "b:sink('p', s.blackhole()):sink('q', s.blackhole())" JOB_END);
    s = load_ok(&conf);
    steps = opt_get(script_job(s), "steps");

    in = opt_get(opt_at(steps, 2), "inputs");
    assert_int_equal(in->len, 2);
    assert_int_equal(opt_int(opt_at(in, 0), "step", 0), 1);
    assert_int_equal(opt_int(opt_at(in, 1), "step", 0), 2);
    assert_true(opt_bool(opt_at(in, 1), "rebalance", false));
    in = opt_get(opt_at(steps, 4), "inputs");
    assert_int_equal(opt_int(opt_at(in, 0), "step", 0), 2);
    assert_false(opt_bool(opt_at(in, 0), "rebalance", true));
    script_free(&s);
}

static struct opt *
map_of(struct arena *a, const char *name, const char *value)
{
    struct opt *map;

    map = opt_new_map(a);
    opt_add(a, map, name, opt_new_str(a, value, strlen(value)));
    return map;
}

static void
parameters_convert_to_the_type_of_their_default(void **state)
{
    static const struct {
        const char *call, *value, *test;
    } cases[] = {
        {"'p', 1", "42", "v == 42 and math.type(v) == 'integer'"},
        {"'p', 1.5", "2", "v == 2.0 and math.type(v) == 'float'"},
        {"'p', true", "false", "v == false"},
        {"'p', false", "true", "v == true"},
        {"'p', 'x'", "7", "v == '7'"},
        {"'p'", "7", "v == '7'"},
    };
    struct script_conf conf;
    struct script *s;
    struct arena a;
    char text[512];
    size_t i;

    (void)state;
    arena_init(&a);
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(text, sizeof text,
                       JOB_HEAD "local v = s.param(%s)\nassert(%s)" JOB_END,
                       cases[i].call, cases[i].test);
        conf = conf_of(text);
        conf.params = map_of(&a, "p", cases[i].value);
        s = load_ok(&conf);
        script_free(&s);
    }
    arena_fini(&a);
}

static void
parameters_come_from_the_environment_too(void **state)
{
    struct script_conf conf;
    struct script *s;
    struct arena a;

    (void)state;
    conf = conf_of(JOB_HEAD "assert(s.param('my-limit', 1) == 9)" JOB_END);
    assert_int_equal(setenv("STREAMLUA_PARAM_MY_LIMIT", "9", 1), 0);
    s = load_ok(&conf);
    script_free(&s);

    arena_init(&a); /* the flag wins */
    conf = conf_of(JOB_HEAD "assert(s.param('my-limit', 1) == 8)" JOB_END);
    conf.params = map_of(&a, "my-limit", "8");
    s = load_ok(&conf);
    script_free(&s);
    assert_int_equal(unsetenv("STREAMLUA_PARAM_MY_LIMIT"), 0);
    arena_fini(&a);
}

static void
parameter_errors_list_the_parameters(void **state)
{
    struct script_conf conf;
    struct arena a;

    (void)state;
    arena_init(&a);
    conf = conf_of(JOB_HEAD "s.param('n', 1)\ns.param 'topic'" JOB_END);
    load_fails(&conf, ERR_USAGE,
               "parameter topic is missing: give --set topic=VALUE; the job's "
               "parameters: n (integer, default 1), topic (string, required)");
    conf = conf_of(JOB_HEAD "s.param('n', 1)" JOB_END);
    conf.params = map_of(&a, "n", "x");
    load_fails(&conf, ERR_USAGE,
               "parameter n: \"x\" is no integer; the job's parameters: n");
    conf.params = map_of(&a, "m", "1");
    load_fails(&conf, ERR_USAGE, "parameter m: no s.param asks for it");
    conf.params = map_of(&a, "nn", "1");
    load_fails(&conf, ERR_USAGE,
               "parameter nn: no s.param asks for it; the job's parameters: n "
               "(integer, default 1)");
    arena_fini(&a);
}

static void
two_loads_of_the_same_text_are_the_same(void **state)
{
    struct script_conf conf;
    struct script *a, *b;
    struct err e;

    (void)state;
    conf = conf_of(JOB_HEAD
                   "st:map(function(e) return e end)\n"
                   " :sink('o', s.kafka { topic = 't', headers = { a = '1', b "
                   "= '2', c = print } })" JOB_END);
    a = load_ok(&conf);
    conf.seed = 2;
    b = load_ok(&conf);

    assert_string_equal(script_fingerprint(a), script_fingerprint(b));
    assert_int_equal(script_check_same(a, b, &e), 0);
    script_free(&a);
    script_free(&b);
}

static void
a_plan_that_differs_names_the_first_step(void **state)
{
    struct script_conf conf;
    struct script *a, *b;
    struct err e;

    (void)state;
    conf = conf_of(JOB_HEAD "st:filter(print):filter(print, { parallelism = "
                            "math.random(1, 1000) })\n"
                            "  :sink('o', s.stdout())" JOB_END);
    a = load_ok(&conf);
    conf.seed = 2;
    b = load_ok(&conf);

    assert_int_equal(script_check_same(a, b, &e), ERR_JOBFILE);
    assert_string_equal(e.where, "job.lua");
    assert_string_equal(e.msg, "the plan differs between two loads (step "
                               "\"filter-2\"); do not use time, randomness or "
                               "changing files at the top level");
    script_free(&b);

    conf = conf_of(JOB_HEAD JOB_END);
    b = load_ok(&conf);
    assert_int_equal(script_check_same(a, b, &e), ERR_JOBFILE);
    assert_non_null(strstr(e.msg, "step \"filter-1\""));
    assert_int_equal(script_check_same(b, a, &e), ERR_JOBFILE);
    assert_non_null(strstr(e.msg, "step \"filter-1\""));
    script_free(&a);
    script_free(&b);
}

static void
modules_are_found_beside_the_job_and_in_lib(void **state)
{
    char dir[] = "/tmp/test_load.XXXXXX", path[128];
    struct script_conf conf;
    struct script *s;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/lib", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/one.lua", dir);
    f = fopen(path, "w");
    (void)fputs("return 1", f);
    (void)fclose(f);
    (void)snprintf(path, sizeof path, "%s/lib/two.lua", dir);
    f = fopen(path, "w");
    (void)fputs("local x\nreturn { f = function() return x.y end }", f);
    (void)fclose(f);
    (void)snprintf(path, sizeof path, "%s/job.lua", dir);

    conf = conf_of(JOB_HEAD "assert(require 'one' == 1)\n"
                            "assert(require 'two'.f)" JOB_END);
    conf.path = path;
    s = load_ok(&conf);
    script_free(&s);
    conf = conf_of(JOB_HEAD "require 'two'.f()" JOB_END);
    conf.path = path;
    {
        char expected[160];

        (void)snprintf(expected, sizeof expected,
                       "%s/lib/two.lua:2: attempt to index a nil value", dir);
        load_fails(&conf, ERR_JOBFILE, expected);
    }

    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/one.lua", dir);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/lib/two.lua", dir);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/lib", dir);
    (void)rmdir(path);
    (void)rmdir(dir);
}

static void
loading_has_a_deadline_that_pcall_does_not_pass(void **state)
{
    static const char *const loops[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(error, function() while true do end end) end",
        "while true do coroutine.wrap(function() while true do end end)() end",
        ("local co = coroutine.create(function() while true do end end)\n"
         "while true do coroutine.resume(co) end"),
    };
    struct script_conf conf;
    char text[512];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        (void)snprintf(text, sizeof text, "local s = require 'streamlua'\n%s\n",
                       loops[i]);
        conf = conf_of(text);
        conf.load_timeout_ms = 20;
        load_fails(&conf, ERR_JOBFILE, "job.lua:");
    }
}

static void
loading_is_bounded_in_memory(void **state)
{
    struct script_conf conf;

    (void)state;
    conf = conf_of("local s = require 'streamlua'\n"
                   "s.job('t', { lua = { memory = '4MiB' } })\n"
                   "local t = {}\n"
                   "for i = 1, 1e7 do t[i] = i end\n");
    load_fails(&conf, ERR_JOBFILE,
               "job.lua:4: not enough memory: the Lua state may take 4 MiB "
               "(lua.memory)");
}

static void
missing_and_unreadable_files_say_why(void **state)
{
    struct err e;
    char *text;
    size_t len;

    (void)state;
    assert_int_equal(script_read_file("missing.lua", &text, &len, &e),
                     ERR_JOBFILE);
    assert_string_equal(e.where, "missing.lua");
    assert_string_equal(e.msg, "cannot open: No such file or directory");
    assert_int_equal(script_read_file("/tmp", &text, &len, &e), ERR_JOBFILE);
    assert_string_equal(e.msg, "cannot read: Is a directory");
}

static void
types_for_editors_match_what_the_engine_accepts(void **state)
{
    char path[512], types[512];
    struct script_conf conf;
    const char *srcdir;
    struct script *s;
    struct arena a;
    struct err e;
    char *text;
    size_t len;

    (void)state;
    srcdir = getenv("srcdir");
    if (srcdir == NULL)
        srcdir = ".";
    (void)snprintf(path, sizeof path, "%s/tests/lua/types_test.lua", srcdir);
    (void)snprintf(types, sizeof types, "%s/lua/types/streamlua.lua", srcdir);
    if (script_read_file(path, &text, &len, &e) != 0)
        fail_msg("%s: %s", e.where, e.msg);
    arena_init(&a);
    conf = (struct script_conf){.path = path,
                                .text = text,
                                .text_len = len,
                                .unsafe = true,
                                .params = map_of(&a, "types", types)};
    s = load_ok(&conf);
    script_free(&s);
    free(text);
    arena_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_one_message_with_place_and_remedy),
        cmocka_unit_test(later_names_are_refused_by_name),
        cmocka_unit_test(file_must_return_its_job),
        cmocka_unit_test(only_text_is_loaded),
        cmocka_unit_test(parts_of_memory_are_shares_or_sizes),
        cmocka_unit_test(options_of_job_and_source_are_normalised),
        cmocka_unit_test(options_of_steps_and_sinks_are_normalised),
        cmocka_unit_test(union_rebalance_and_fan_out_become_inputs),
        cmocka_unit_test(parameters_convert_to_the_type_of_their_default),
        cmocka_unit_test(parameters_come_from_the_environment_too),
        cmocka_unit_test(parameter_errors_list_the_parameters),
        cmocka_unit_test(two_loads_of_the_same_text_are_the_same),
        cmocka_unit_test(a_plan_that_differs_names_the_first_step),
        cmocka_unit_test(modules_are_found_beside_the_job_and_in_lib),
        cmocka_unit_test(loading_has_a_deadline_that_pcall_does_not_pass),
        cmocka_unit_test(loading_is_bounded_in_memory),
        cmocka_unit_test(missing_and_unreadable_files_say_why),
        cmocka_unit_test(types_for_editors_match_what_the_engine_accepts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
