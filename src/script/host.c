#include "script/script_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/*
 * The engine's services for lua/streamlua: a table that each of its files
 * gets as second argument. Job files never see it.
 */

static int
where_lj(lua_State *L)
{
    char place[ERR_WHERE_MAX];
    struct script *s;
    lua_Debug ar;

    s = script_of(L);
    if (!script_user_frame(L, &ar)) {
        lua_pushfstring(L, "%s:1", s->conf.path);
        return 1;
    }
    script_place(s, &ar, place, sizeof place);
    lua_pushstring(L, place);
    return 1;
}

static int
env_lj(lua_State *L)
{
    lua_pushstring(L, getenv(luaL_checkstring(L, 1)));
    return 1;
}

/* limits(memory, call_timeout_ms, load_timeout_ms), nil = as it is */
static int
limits_lj(lua_State *L)
{
    struct script *s;

    s = script_of(L);
    if (!lua_isnoneornil(L, 1))
        s->memory_max = (size_t)luaL_checkinteger(L, 1);
    if (!lua_isnoneornil(L, 2))
        s->call_timeout_ns = luaL_checkinteger(L, 2) * 1000000;
    if (!lua_isnoneornil(L, 3))
        s->load_timeout_ns = luaL_checkinteger(L, 3) * 1000000;
    return 0;
}

/* log(level, text): level is "debug", "info", "warn" or "error". */
static int
log_lj(lua_State *L)
{
    enum log_level level;
    struct log_kv kv;
    struct script *s;
    const char *name;

    name = luaL_checkstring(L, 1);
    if (!log_level_read(name, &level))
        return luaL_error(L,
                          "log: unknown level \"%s\"; allowed: debug, info, "
                          "warn, error",
                          name);
    s = script_of(L);
    kv = (struct log_kv){.key = "step", .value = script_step(s)};
    log_kvs(level, luaL_tolstring(L, 2, NULL), &kv, kv.value == NULL ? 0 : 1);
    return 0;
}

static void
push_opts_lj(lua_State *L, const struct opt *o)
{
    const struct opt *c;
    lua_Integer i;

    lua_newtable(L);
    if (o == NULL)
        return;
    i = 0;
    for (c = o->first; c != NULL; c = c->next) {
        if (c->type != OPT_STR)
            continue;
        lua_pushlstring(L, c->s, c->len);
        if (o->type == OPT_MAP)
            lua_setfield(L, -2, c->name);
        else
            lua_rawseti(L, -2, ++i);
    }
}

/* Where line `line` (from 1) of the job file begins. */
static size_t
line_start(const struct script_conf *conf, int line)
{
    size_t at = 0;

    for (; line > 1 && at < conf->text_len; at++)
        line -= conf->text[at] == '\n';
    return at;
}

/* source(f): text and number of the lines of the job file that make the
 * function, or nil: it is made elsewhere. While the file is loaded. */
static int
source_lj(lua_State *L)
{
    const struct script_conf *conf = &script_of(L)->conf;
    lua_Debug ar;
    size_t from, to;

    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    (void)lua_getinfo(L, ">S", &ar);
    if (conf->text == NULL || ar.source[0] != '@' || ar.linedefined < 1 ||
        strcmp(ar.source + 1, script_of(L)->chunk) != 0)
        return 0;
    from = line_start(conf, ar.linedefined);
    to = line_start(conf, ar.lastlinedefined + 1);
    (void)lua_pushlstring(L, conf->text + from, to - from);
    lua_pushinteger(L, ar.linedefined);
    return 2;
}

static lua_Integer
count_lines(const char *text, size_t len)
{
    lua_Integer n;
    size_t i;

    n = 1;
    for (i = 0; i + 1 < len; i++)
        n += text[i] == '\n';
    return n;
}

void
script_host_lj(struct script *s)
{
    static const luaL_Reg funcs[] = {
        {"where", where_lj}, {"env", env_lj},          {"limits", limits_lj},
        {"log", log_lj},     {"read", script_read_lj}, {"source", source_lj},
        {NULL, NULL}};
    lua_State *L = s->L;

    luaL_newlib(L, funcs);
    lua_pushstring(L, s->conf.path);
    lua_setfield(L, -2, "file");
    lua_pushinteger(L, count_lines(s->conf.text, s->conf.text_len));
    lua_setfield(L, -2, "lines");
    push_opts_lj(L, s->conf.params);
    lua_setfield(L, -2, "params");
    push_opts_lj(L, s->conf.args);
    lua_setfield(L, -2, "args");
    if (s->conf.test_call != NULL) {
        lua_pushcfunction(L, script_test_call_lj);
        lua_setfield(L, -2, "call");
    }
}
