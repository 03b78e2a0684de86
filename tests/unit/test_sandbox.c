/* Guard rails: what job code can and cannot do (API.md section 13). */
#include "script_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "script/script_impl.h"

/* Statements that must hold in a job; each is run while loading. */
static const char *const holds[] = {
    /* what is not there */
    "assert(io == nil and debug == nil and dofile == nil and loadfile == nil)",
    "assert(string.dump == nil and os.execute == nil and os.exit == nil)",
    "assert(os.getenv == nil and os.remove == nil and os.rename == nil)",
    "assert(package.loadlib == nil and package.cpath == nil)",
    "assert(not pcall(require, 'io') and not pcall(require, 'debug'))",
    "assert(package.loaded.io == nil and package.loaded.debug == nil)",
    "assert(#package.searchers == 3)",
    /* what is there */
    "assert(type(os.time()) == 'number' and os.time() > 1600000000)",
    "assert(os.time { year = 2020, month = 1, day = 2, hour = 12 })",
    "assert(os.date('!%Y', 0) == '1970' and type(os.clock()) == 'number')",
    "assert(os.difftime(3, 1) == 2.0)",
    "assert(utf8.char(228) == '\\u{e4}' and math.type(1) == 'integer')",
    "assert(('a'):rep(3) == 'aaa' and table.concat { 1, 2 } == '12')",
    /* bytecode and code from text */
    "assert(load('return 1')() == 1)",
    "assert(load('return 1', 'n', 'b') ~= nil)",
    "assert(load('return x', 'n', 't', { x = 7 })() == 7)",
    "local n = 0; assert(load(function() n = n + 1; return ({ 'return ', "
    "'5' })[n] end)() == 5)",
    "local f, m = load('\\27Lua'); assert(f == nil and m:find 'binary')",
    "local f, m = load('\\27LuaT', 'n', 'b'); assert(f == nil)",
    "assert(load('y = 1; return y')() == 1 and y == 1)",
    /* metatables */
    "assert(getmetatable('') == false and getmetatable(_G) == false)",
    "assert(not pcall(setmetatable, _G, {}))",
    "local mt = { __gc = function() error 'x' end }\n"
    "for i = 1, 1000 do setmetatable({}, mt) end\n"
    "assert(mt.__gc and getmetatable(setmetatable({}, mt)) == mt)",
    "local t = setmetatable({}, { __index = { a = 1 } }); assert(t.a == 1)",
    "local t = setmetatable({}, { __metatable = 1 })\n"
    "assert(getmetatable(t) == 1 and not pcall(setmetatable, t, {}))",
    "assert(getmetatable(s) == false and getmetatable(job) == false)",
    "assert(not pcall(function() s.sum2 = 1 end))",
    /* garbage */
    "assert(type(collectgarbage 'count') == 'number')",
    "assert(not pcall(collectgarbage) and not pcall(collectgarbage, 'stop'))",
    /* globals while loading */
    "g = 1; assert(g == 1 and _G.g == 1 and rawget(_G, 'g') == 1)",
    "rawset(_G, 'h', 2); assert(h == 2)",
    "assert(_G._G == _G and _G.print == print and _ENV == _G)",
    "assert(next(_G) ~= nil and package.loaded._G == _G)",
    "local n = 0; for k in pairs(_G) do n = n + 1 end; assert(n > 20)",
    "assert(require '_G' == _G)",
    "type, table, error, select, next = 1, 2, 3, 4, 5\n"
    "st:select { 'a', b = 'c' }:sink('o', s.stdout { format = 'text' })",
    /* pcall and friends still behave */
    "local ok, m = pcall(error, 'x'); assert(not ok and m == 'x')",
    "assert(select('#', pcall(function() return 1, nil, nil end)) == 4)",
    "assert(select(2, xpcall(error, function(m) return m .. '!' end, 'a')) "
    "== 'a!')",
    "assert(select(3, xpcall(function(...) return ... end, print, 1, 2)) == 2)",
    "local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1)\n"
    "  return b * 2 end)\n"
    "assert(co(1) == 2 and co(21) == 42 and not pcall(co))",
    "local co = coroutine.create(function() pcall(coroutine.yield, 1)\n"
    "  error 'e' end)\n"
    "assert(select(2, coroutine.resume(co)) == 1)\n"
    "local ok, m = coroutine.resume(co)\n"
    "assert(not ok and m:find 'e$' and coroutine.status(co) == 'dead')",
    "local closed\n"
    "local co = coroutine.create(function()\n"
    "  local x <close> = setmetatable({}, { __close = function() closed = 1 "
    "end })\n"
    "  coroutine.yield() end)\n"
    "coroutine.resume(co); assert(coroutine.close(co) and closed == 1)",
    "assert(not pcall(coroutine.resume, 1) and not pcall(coroutine.close))",
    /* random numbers */
    "math.randomseed(5); local a = math.random(1000); math.randomseed(5)\n"
    "assert(a == math.random(1000))",
    "math.randomseed(); local a = math.random(1 << 40); math.randomseed()\n"
    "assert(a == math.random(1 << 40))",
    /* deep and large */
    "assert(not pcall(function() local function f() return 1 + f() end\n"
    "  f() end))",
    "assert(not pcall(string.rep, 'x', 1 << 40))",
};

static void
libraries_are_what_the_contract_says(void **state)
{
    struct script_conf conf;
    struct script *s;
    char text[2048];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof holds / sizeof holds[0]; i++) {
        (void)snprintf(text, sizeof text, JOB_HEAD "do %s\nend" JOB_END,
                       holds[i]);
        conf = conf_of(text);
        s = load_ok(&conf);
        script_free(&s);
    }
}

static void
unsafe_opens_the_rest(void **state)
{
    struct script_conf conf;
    struct script *s;

    (void)state;
    conf = conf_of(JOB_HEAD "assert(io.open and debug.getinfo and os.execute "
                            "and os.exit and package.loadlib)\n"
                            "assert(os.getenv and require 'io' == io)" JOB_END);
    conf.unsafe = true;
    s = load_ok(&conf);
    script_free(&s);
}

static void
a_guarded_library_gets_a_hint(void **state)
{
    struct script_conf conf;
    struct script *s;
    struct err e;

    (void)state;
    conf = conf_of(JOB_HEAD "io.open('x')" JOB_END);
    assert_int_equal(script_load(&conf, &s, &e), ERR_JOBFILE);
    assert_string_equal(e.where, "job.lua:4");
    assert_string_equal(e.hint, "'io' is available with --unsafe only");
}

/* A job whose filter is `body`; funcs[1] is the function. */
static struct script *
load_filter(const char *body)
{
    struct script_conf conf;
    char text[4096];

    (void)snprintf(text, sizeof text,
                   "local s = require 'streamlua'\n"
                   "local job = s.job('t', { lua = { memory = '8MiB' } })\n"
                   "n = 1\n"
                   "job:source('in', s.stdin()):filter(function()\n"
                   "%s\nend):sink('o', s.stdout())" JOB_END,
                   body);
    conf = conf_of(text);
    return load_ok(&conf);
}

/* Call funcs[1] as the running half does. @return 0 or ERR_RECORD. */
static int
call_filter(struct script *s, struct err *e)
{
    int r;

    lua_settop(s->L, 0);
    lua_pushcfunction(s->L, script_msgh);
    (void)lua_rawgeti(s->L, LUA_REGISTRYINDEX, s->funcs_ref);
    (void)lua_rawgeti(s->L, -1, 1);
    lua_remove(s->L, -2);
    script_enter(s);
    r = lua_pcall(s->L, 0, 1, 1);
    script_leave(s);
    if (r != LUA_OK)
        return script_take_error(s, e);
    return 0;
}

static void
globals_are_sealed_after_load(void **state)
{
    static const struct {
        const char *body, *name;
    } cases[] = {
        {"n = 2", "n"},
        {"fresh = 2", "fresh"},
        {"_G.n = 2", "n"},
        {"_G['x y'] = 2", "x y"},
        {"rawset(_G, 'n', 2)", "n"},
        {"rawset(_G, 'fresh', 2)", "fresh"},
        {"rawset(_ENV, 'fresh', 2)", "fresh"},
        {"print = nil", "print"},
        {"table.insert(_G, 1)", "1"},
        {"load('n = 2')()", "n"},
        {"for k in pairs(_G) do _G[k] = nil end", "_G"},
    };
    char expected[128];
    struct script *s;
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        s = load_filter(cases[i].body);
        assert_int_equal(call_filter(s, &e), ERR_RECORD);
        (void)snprintf(expected, sizeof expected,
                       "assignment to global '%s'; declare it local",
                       cases[i].name);
        assert_string_equal(e.msg, expected);
        assert_int_equal(e.cause, CAUSE_USER_ERROR);
        script_free(&s);
    }
    s = load_filter("assert(n == 1 and rawget(_G, 'n') == 1); return n");
    assert_int_equal(call_filter(s, &e), 0);
    script_free(&s);
}

static void
errors_of_user_code_say_place_trace_and_hint(void **state)
{
    struct script *s;
    struct err e;

    (void)state;
    s = load_filter("local function inner(v) return v > 0 end\n"
                    "local r = inner(nil)\nreturn r");
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    assert_string_equal(e.where, "job.lua:5");
    assert_string_equal(e.msg, "attempt to compare number with nil");
    assert_string_equal(e.hint, "the field is missing or null in this record");
    assert_non_null(strstr(e.trace, "job.lua:5: in "));
    assert_non_null(strstr(e.trace, "job.lua:6"));
    script_free(&s);

    s = load_filter("error({})");
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    assert_string_equal(e.where, "job.lua:5");
    assert_string_equal(e.msg, "(the error is a table value)");
    script_free(&s);

    s = load_filter("error('plain', 0)");
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    assert_string_equal(e.where, "job.lua:5");
    assert_string_equal(e.msg, "plain");
    script_free(&s);

    s = load_filter("local e = {}\nlocal x = e.v + 1");
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    assert_string_equal(e.where, "job.lua:6");
    assert_non_null(strstr(e.msg, "(field 'v')"));
    script_free(&s);
}

static void
a_call_is_bounded_in_memory_and_the_state_stays_usable(void **state)
{
    struct script *s;
    struct err e;
    int i;

    (void)state;
    s = load_filter("local t = {}\nfor i = 1, 1e8 do t[i] = { i } end");
    for (i = 0; i < 3; i++) {
        assert_int_equal(call_filter(s, &e), ERR_RECORD);
        assert_string_equal(e.msg,
                            "not enough memory: the Lua state may take 8 "
                            "MiB (lua.memory)");
        assert_string_equal(e.where, "job.lua:6");
        assert_non_null(strstr(e.hint, "memory = \"16MiB\""));
        assert_true(script_memory(s) <= (size_t)8 << 20);
    }
    script_free(&s);
}

static void
an_error_without_memory_for_it_is_told(void **state)
{
    static const char *const values[] = {"1234567.25", "{ message = 'm' }",
                                         "t"};
    char body[512];
    struct script *s;
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof values / sizeof values[0]; i++) {
        (void)snprintf(body, sizeof body,
                       "local t = {}\n"
                       "pcall(function() while true do t[#t + 1] = { t } end "
                       "end)\n"
                       "pcall(function() while true do t[#t + 1] = #t .. '' "
                       "end end)\nerror(%s)",
                       values[i]);
        s = load_filter(body);
        assert_int_equal(call_filter(s, &e), ERR_RECORD);
        assert_true(e.msg[0] != '\0');
        script_free(&s);
    }
}

static void
a_runaway_recursion_is_told_at_once(void **state)
{
    struct script *s;
    struct err e;
    int64_t began = clock_mono_ns();

    (void)state;
    s = load_filter("local function f() return 1 + f() end return f()");
    s->memory_max = (size_t)1 << 30;
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    assert_non_null(strstr(e.msg, "stack overflow"));
    assert_string_equal(e.where, "job.lua:5");
    /* With a trace whose cost is the square of the depth: half a minute. */
    assert_true(clock_mono_ns() - began < INT64_C(10000000000));
    script_free(&s);
}

/* A watchdog that interrupts whatever runs until told to stop. */
struct dog {
    struct script *s;
    _Atomic bool stop;
};

static void *
dog_run(void *arg)
{
    struct dog *d = arg;
    int64_t began;

    began = clock_mono_ns();
    while (!atomic_load(&d->stop)) {
        if (clock_mono_ns() - began > 10 * 1000000) {
            script_interrupt(d->s);
            began = clock_mono_ns();
        }
        (void)sched_yield();
    }
    return NULL;
}

static void
an_overrun_ends_the_call_pcall_or_not(void **state)
{
    static const char *const loops[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(pcall, function() while true do end end) end",
        "while true do xpcall(error, function() while true do end end) end",
        "xpcall(function() while true do end end,\n"
        "  function() while true do end end)",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "local co\n"
        "repeat co = coroutine.create(function() while true do end end)\n"
        "until coroutine.resume(co) and false",
        "while true do pcall(coroutine.wrap(function()\n"
        "  pcall(function() while true do end end) end)) end",
        "local function f() return pcall(f) end while true do f() end",
        "local t = setmetatable({}, { __index = function() while true do end "
        "end })\nwhile true do pcall(function() return t.x end) end",
        "while true do string.gsub('x', '.', function() while true do end "
        "end) end",
        "while true do table.sort({ 1, 2, 3 }, function() while true do end "
        "end) end",
        "local x <close> = setmetatable({}, { __close = function()\n"
        "  while true do end end })\nwhile true do end",
        "while true do load('while true do end')() end",
        "coroutine.wrap(function()\n"
        "  local x <close> = setmetatable({}, { __close = function()\n"
        "    while true do end end })\n"
        "  error 'x' end)()",
        "local w = coroutine.wrap(function() while true do end end)\n"
        "local x <close> = setmetatable({}, { __close = w })\n"
        "while true do end",
    };
    struct script *s;
    struct dog dog;
    pthread_t thread;
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        s = load_filter(loops[i]);
        dog = (struct dog){.s = s};
        assert_int_equal(pthread_create(&thread, NULL, dog_run, &dog), 0);
        assert_int_equal(call_filter(s, &e), ERR_RECORD);
        atomic_store(&dog.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (strstr(e.msg, "the call took longer than call_timeout") == NULL)
            fail_msg("%s: %s", loops[i], e.msg);
        assert_int_equal(e.cause, CAUSE_USER_ERROR);
        script_free(&s);
    }
}

/* A hook that raises leaves hooks off in a coroutine that no pcall ends. */
static void
what_a_stopped_coroutine_has_to_close_can_be_stopped(void **state)
{
    struct script *s;
    struct dog dog;
    pthread_t thread;
    struct err e;

    (void)state;
    s = load_filter("if not kept[1] then\n"
                    "  kept[1] = coroutine.create(function()\n"
                    "    local x <close> = setmetatable({}, { __close = "
                    "function()\n"
                    "      while true do end end })\n"
                    "    while true do end end)\n"
                    "  coroutine.resume(kept[1])\n"
                    "end\n"
                    "coroutine.close(kept[1])\n"
                    "return true");
    s->loaded = false;
    (void)luaL_dostring(s->L, "kept = {}");
    s->loaded = true;
    dog = (struct dog){.s = s};
    assert_int_equal(pthread_create(&thread, NULL, dog_run, &dog), 0);
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    (void)call_filter(s, &e);
    atomic_store(&dog.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    script_free(&s);
}

static void
the_line_that_ran_is_told(void **state)
{
    struct script *s;
    struct dog dog;
    pthread_t thread;
    struct err e;

    (void)state;
    s = load_filter("local function inner()\n"
                    "  while true do end\n"
                    "end\n"
                    "inner()");
    dog = (struct dog){.s = s};
    assert_int_equal(pthread_create(&thread, NULL, dog_run, &dog), 0);
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    atomic_store(&dog.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(e.where, "job.lua:6");
    script_free(&s);
}

static void
a_late_interrupt_does_not_hit_the_next_call(void **state)
{
    struct script *s;
    struct err e;
    int i;

    (void)state;
    s = load_filter("local x = 0 for i = 1, 10000 do x = x + i end return x");
    assert_int_equal(call_filter(s, &e), 0);

    script_interrupt(s); /* nothing runs: void */
    assert_int_equal(call_filter(s, &e), 0);
    atomic_store(&s->interrupt_seq, s->call_seq - 1); /* meant the last call */
    for (i = 0; i < 3; i++)
        assert_int_equal(call_filter(s, &e), 0);
    script_free(&s);
}

static void
the_state_is_usable_after_an_interrupt(void **state)
{
    struct script *s;
    struct dog dog;
    pthread_t thread;
    struct err e;

    (void)state;
    s = load_filter("local c = s_count or 0\n"
                    "if collectgarbage 'count' < 0 then return end\n"
                    "local t = {} for i = 1, 100 do t[i] = i end\n"
                    "if not done then while true do end end");
    dog = (struct dog){.s = s};
    assert_int_equal(pthread_create(&thread, NULL, dog_run, &dog), 0);
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    assert_int_equal(call_filter(s, &e), ERR_RECORD);
    atomic_store(&dog.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    s->loaded = false; /* a way out of the loop for this test */
    (void)luaL_dostring(s->L, "done = true");
    s->loaded = true;

    assert_int_equal(call_filter(s, &e), 0);
    script_free(&s);
}

static void
pairs_has_one_order_in_every_state(void **state)
{
    static const char body[] = JOB_HEAD
        "local t = { 10, 20, nil, 40, zeta = 1, alpha = 2, [2.5] = 3, [-1] = "
        "4,\n"
        "  [true] = 5, [false] = 6, ['a\\0b'] = 7, a = 8, [1 << 60] = 9, beta "
        "= 10 }\n"
        "for i = 1, 50 do t['key' .. i * 7919 % 50] = i end\n"
        "local out = {}\n"
        "for k, v in pairs(t) do out[#out + 1] = tostring(k) .. '=' .. v end\n"
        "out = table.concat(out, ' ')\n"
        "assert(out:find '^1=10 2=20 4=40 %-1=4 2.5=3 1152921504606846976=9 "
        "a=8 a%z' , out)\n"
        "assert(out:find 'alpha=2 beta=10 key0=%d+ key1=%d+ key10=' , out)\n"
        "assert(out:find 'zeta=1 false=6 true=5$', out)\n"
        "st:filter(function() return out end, { parallelism = #out })\n"
        "  :sink('o', s.stdout(), { slot_sharing_group = 'g' .. s.param('x', "
        "'') })\n"
        /* clearing while walking, holes, and emptiness */
        "local c, n = { 1, 2, 3, x = 1, y = 2 }, 0\n"
        "for k in pairs(c) do c[k] = nil; n = n + 1 end\n"
        "assert(n == 5 and next(c) == nil)\n"
        "n = 0; for i, v in pairs { 1, nil, 3, nil, 5 } do n = n + v end\n"
        "assert(n == 9)\n"
        "for _ in pairs {} do error 'not empty' end\n"
        "local c = { 1, 2, 3, 4 }; n = 0\n"
        "for i in pairs(c) do c[i + 1] = nil; n = n + i end\n"
        "assert(n == 4, n)\n"
        "assert(not pcall(pairs) and not pcall(pairs, nil))\n"
        "local p = setmetatable({}, { __pairs = function() return function(_, "
        "k)\n"
        "  if not k then return 1, 2 end end end })\n"
        "for k, v in pairs(p) do assert(k == 1 and v == 2) end" JOB_END;
    struct script_conf conf;
    struct script *a, *b;

    (void)state;
    conf = conf_of(body);
    a = load_ok(&conf);
    b = load_ok(&conf);
    assert_string_equal(script_fingerprint(a), script_fingerprint(b));
    script_free(&a);
    script_free(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_are_what_the_contract_says),
        cmocka_unit_test(unsafe_opens_the_rest),
        cmocka_unit_test(a_guarded_library_gets_a_hint),
        cmocka_unit_test(globals_are_sealed_after_load),
        cmocka_unit_test(errors_of_user_code_say_place_trace_and_hint),
        cmocka_unit_test(
            a_call_is_bounded_in_memory_and_the_state_stays_usable),
        cmocka_unit_test(an_error_without_memory_for_it_is_told),
        cmocka_unit_test(a_runaway_recursion_is_told_at_once),
        cmocka_unit_test(an_overrun_ends_the_call_pcall_or_not),
        cmocka_unit_test(what_a_stopped_coroutine_has_to_close_can_be_stopped),
        cmocka_unit_test(the_line_that_ran_is_told),
        cmocka_unit_test(a_late_interrupt_does_not_hit_the_next_call),
        cmocka_unit_test(the_state_is_usable_after_an_interrupt),
        cmocka_unit_test(pairs_has_one_order_in_every_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
