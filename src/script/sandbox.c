#include "script/script_impl.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

/*
 * What a job may use (API.md section 13). The real table of globals stays
 * with the engine; jobs see an empty table in front of it, so that
 * __newindex is asked for every assignment, also to names that exist, and
 * rawset is replaced for the same reason. This protects against mistakes; it
 * is no boundary against malice.
 */

static const char globals_key = 0; /* registry: the real table */

static bool
is_globals(lua_State *L, int index)
{
    return lua_topointer(L, index) == script_of(L)->globals;
}

static int
seal_newindex_lj(lua_State *L)
{
    const char *name;

    if (script_of(L)->loaded) {
        name = luaL_tolstring(L, 2, NULL);
        return luaL_error(L, "assignment to global '%s'; declare it local",
                          name);
    }
    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &globals_key);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_rawset(L, -3);
    return 0;
}

static int
rawset_lj(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    if (is_globals(L, 1)) {
        (void)seal_newindex_lj(L);
        lua_settop(L, 1);
        return 1;
    }
    lua_rawset(L, 1);
    return 1;
}

static int
rawget_lj(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    if (is_globals(L, 1)) {
        (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &globals_key);
        lua_replace(L, 1);
    }
    (void)lua_rawget(L, 1);
    return 1;
}

static int
next_lj(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    if (is_globals(L, 1)) {
        (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &globals_key);
        lua_replace(L, 1);
    }
    if (lua_next(L, 1) != 0)
        return 2;
    lua_pushnil(L);
    return 1;
}

/* setmetatable that never marks an object for finalisation: __gc is hidden
 * while the metatable is set. */
static int
setmetatable_lj(lua_State *L)
{
    int type, gc;

    type = lua_type(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2,
                     "nil or table");
    lua_settop(L, 2);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    gc = LUA_TNIL;
    if (type == LUA_TTABLE) {
        lua_pushliteral(L, "__gc");
        gc = lua_rawget(L, 2); /* index 3 */
        if (gc != LUA_TNIL) {
            lua_pushliteral(L, "__gc");
            lua_pushnil(L);
            lua_rawset(L, 2);
        }
    }
    lua_pushvalue(L, 2);
    lua_setmetatable(L, 1);
    if (gc != LUA_TNIL) {
        lua_pushliteral(L, "__gc");
        lua_pushvalue(L, 3);
        lua_rawset(L, 2);
    }
    lua_settop(L, 1);
    return 1;
}

static int
collectgarbage_lj(lua_State *L)
{
    const char *what;
    int k, b;

    what = luaL_optstring(L, 1, "collect");
    if (strcmp(what, "count") != 0)
        return luaL_error(L, "collectgarbage: only \"count\" is available");
    k = lua_gc(L, LUA_GCCOUNT);
    b = lua_gc(L, LUA_GCCOUNTB);
    lua_pushnumber(L, k + b / 1024.0);
    return 1;
}

/* Upvalue: Lua's own load. The mode is always text. */
static int
load_lj(lua_State *L)
{
    int n;

    n = lua_gettop(L);
    if (n < 2)
        lua_settop(L, 2);
    if (n < 3)
        lua_settop(L, 3);
    lua_pushliteral(L, "t");
    lua_replace(L, 3);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int
print_lj(lua_State *L)
{
    struct log_kv kv;
    struct script *s;
    luaL_Buffer b;
    int i, n;

    n = lua_gettop(L);
    luaL_buffinit(L, &b);
    for (i = 1; i <= n; i++) {
        if (i > 1)
            luaL_addchar(&b, '\t');
        (void)luaL_tolstring(L, i, NULL);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    s = script_of(L);
    kv = (struct log_kv){.key = "step", .value = script_step(s)};
    log_kvs(LOG_INFO, lua_tostring(L, -1), &kv, kv.value == NULL ? 0 : 1);
    return 0;
}

static int
os_time_lj(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_pushinteger(L, clock_wall_ms() / 1000);
        return 1;
    }
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int
os_date_lj(lua_State *L)
{
    lua_settop(L, 2);
    if (lua_isnil(L, 1)) {
        lua_pushliteral(L, "%c");
        lua_replace(L, 1);
    }
    if (lua_isnil(L, 2)) {
        lua_pushinteger(L, clock_wall_ms() / 1000);
        lua_replace(L, 2);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 1);
    return 1;
}

static int
os_clock_lj(lua_State *L)
{
    lua_pushnumber(L, (lua_Number)clock_cpu_ns() / 1e9);
    return 1;
}

/* Upvalue: Lua's own randomseed. Without arguments the seed is ours: Lua's
 * would be time and addresses. */
static int
randomseed_lj(lua_State *L)
{
    if (lua_gettop(L) == 0)
        lua_pushinteger(L, (lua_Integer)script_of(L)->conf.seed);
    lua_settop(L, 2);
    if (lua_isnil(L, 2))
        lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 0);
    return 0;
}

/* Replace field `name` of the table on the stack by `f`, which gets the old
 * value as its upvalue. */
static void
wrap_field_lj(lua_State *L, const char *name, lua_CFunction f)
{
    (void)lua_getfield(L, -1, name);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, -2, name);
}

static void
drop_fields_lj(lua_State *L, const char *const *names)
{
    for (; *names != NULL; names++) {
        lua_pushnil(L);
        lua_setfield(L, -2, *names);
    }
}

static void
open_libraries_lj(struct script *s)
{
    static const luaL_Reg libs[] = {
        {LUA_GNAME, luaopen_base},          {LUA_LOADLIBNAME, luaopen_package},
        {LUA_COLIBNAME, luaopen_coroutine}, {LUA_TABLIBNAME, luaopen_table},
        {LUA_STRLIBNAME, luaopen_string},   {LUA_MATHLIBNAME, luaopen_math},
        {LUA_UTF8LIBNAME, luaopen_utf8},    {LUA_OSLIBNAME, luaopen_os},
        {LUA_IOLIBNAME, luaopen_io},        {LUA_DBLIBNAME, luaopen_debug}};
    size_t i, n;

    n = sizeof libs / sizeof libs[0];
    if (!s->conf.unsafe)
        n -= 2; /* io and debug */
    for (i = 0; i < n; i++) {
        luaL_requiref(s->L, libs[i].name, libs[i].func, 1);
        lua_pop(s->L, 1);
    }
}

static void
guard_libraries_lj(struct script *s)
{
    static const char *const unsafe_os[] = {"execute", "exit",   "getenv",
                                            "remove",  "rename", "setlocale",
                                            "tmpname", NULL};
    static const char *const files[] = {"dofile", "loadfile", NULL};
    static const char *const dump[] = {"dump", NULL};
    lua_State *L = s->L;

    lua_pushglobaltable(L);
    drop_fields_lj(L, files);
    wrap_field_lj(L, "load", load_lj);
    (void)lua_getfield(L, -1, LUA_STRLIBNAME);
    drop_fields_lj(L, dump);
    lua_pop(L, 1);
    (void)lua_getfield(L, -1, LUA_OSLIBNAME);
    if (!s->conf.unsafe)
        drop_fields_lj(L, unsafe_os);
    wrap_field_lj(L, "time", os_time_lj);
    wrap_field_lj(L, "date", os_date_lj);
    wrap_field_lj(L, "clock", os_clock_lj);
    lua_pop(L, 1);
    (void)lua_getfield(L, -1, LUA_MATHLIBNAME);
    wrap_field_lj(L, "randomseed", randomseed_lj);
    (void)lua_getfield(L, -1, "randomseed");
    lua_call(L, 0, 0);
    lua_pop(L, 2);
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1)) {
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* Put the empty table in front of the globals; chunks get it as _ENV. */
static void
front_globals_lj(struct script *s)
{
    lua_State *L = s->L;

    lua_newtable(L);
    s->globals = lua_topointer(L, -1);
    lua_createtable(L, 0, 3);
    lua_pushglobaltable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &globals_key);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, LUA_GNAME);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, seal_newindex_lj);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    (void)lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, LUA_GNAME);
    lua_pop(L, 1);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}

void
script_sandbox_lj(struct script *s)
{
    static const luaL_Reg base[] = {{"print", print_lj},
                                    {"rawset", rawset_lj},
                                    {"rawget", rawget_lj},
                                    {"next", next_lj},
                                    {"pairs", script_pairs_lj},
                                    {"setmetatable", setmetatable_lj},
                                    {"collectgarbage", collectgarbage_lj},
                                    {NULL, NULL}};

    open_libraries_lj(s);
    lua_pushglobaltable(s->L);
    luaL_setfuncs(s->L, base, 0);
    lua_pop(s->L, 1);
    guard_libraries_lj(s);
    script_watch_open_lj(s);
    script_require_open_lj(s);
    front_globals_lj(s);
}
