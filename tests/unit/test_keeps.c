/*
 * Which functions may keep their record: every way to store it is found, and
 * the usual functions are known to be harmless.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lauxlib.h>
#include <lualib.h>

#include "script/calls_impl.h"

/* Whether the function that `source` returns may keep parameter `param`. */
static bool
keeps(const char *source, unsigned param)
{
    lua_State *L = luaL_newstate();
    bool ret;

    assert_non_null(L);
    luaL_openlibs(L);
    if (luaL_dostring(L, source) != LUA_OK)
        fail_msg("%s: %s", source, lua_tostring(L, -1));
    ret = keeps_param(L, param);
    lua_close(L);
    return ret;
}

static void
readers_and_writers_of_fields_keep_nothing(void **state)
{
    static const char *const sources[] = {
        "return function(e) return e.a end",
        "return function(e) return e.a.b and e['x.y'] > 5 end",
        "return function(e) return e[1] end",
        "local k = 'a' return function(e) return e[k] end",
        "return function(e) e.a = 1; e.b = e.c; e[1] = {}; return e end",
        "return function(e) e.price = e.price * 0.908; return e end",
        "return function(e) if e then return not e end end",
        "return function(e) if e == nil then return 1 end return e end",
        "return function(e) for i, x in ipairs(e.l) do e.n = i + x end end",
        "return function(e, emit) emit { word = e.value:lower() } end",
        "return function() return 5 end",
        "return function(e) return { a = e.a, b = { e.c .. e.d } } end",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof sources / sizeof *sources; i++)
        if (keeps(sources[i], 0))
            fail_msg("may keep: %s", sources[i]);
}

static void
whatever_stores_the_record_is_found(void **state)
{
    static const char *const sources[] = {
        "local k return function(e) k = e end",
        "local t = {} return function(e) t.x = e end",
        "local t = {} return function(e) t[1] = e end",
        "local t, n = {}, 'x' return function(e) t[n] = e end",
        "local t = {} return function(e) t[e] = 1 end",
        "local t = {} return function(e) t[#t + 1] = e end",
        "return function(e) G = e end",
        "return function(e) local f = e; f = f or 1 end",
        "return function(e) local f = e or 1 return f end",
        "return function(e) return { e } end",
        "return function(e) return { x = e } end",
        "return function(e) return print(e) end",
        "return function(e) print(e) end",
        "return function(e, emit) emit(e) end",
        "return function(e) for k, v in pairs(e) do print(k) end end",
        "return function(e) return function() return e end end",
        "return function(e) return e:method() end",
        "local t = {} return function(e) return t[e] end",
        "local t = {} return function(e) return t + e end",
        "local t = {} return function(e) return e .. t end",
        "local t = {} return function(e) return t == e end",
        "local t = {} return function(e) return e < t end",
        "return function(...) local t = { ... } end",
        "return function(e) return #e end",
        "return function(e) return -e end",
        "return print",
        "return coroutine.wrap(function(e) local k = e end)",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!keeps(sources[i], 0))
            fail_msg("not found: %s", sources[i]);
}

static void
the_parameter_asked_for_counts(void **state)
{
    (void)state;
    assert_false(keeps("return function(a, e) return a + e.x end", 1));
    assert_false(keeps("return function(a) return a end", 1));
    assert_true(keeps("return function(a, e) a[1] = e return a end", 1));
    /* What add() returns is the accumulator. */
    assert_true(keeps("return function(a, e) return e end", 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_and_writers_of_fields_keep_nothing),
        cmocka_unit_test(whatever_stores_the_record_is_found),
        cmocka_unit_test(the_parameter_asked_for_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
