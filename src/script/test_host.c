#include "script/test.h"

#include <stdio.h>
#include <string.h>

#include "script/calls_impl.h"

/*
 * The engine's side of lua/streamlua/testfile.lua: host.call, and how a case
 * is run. A case that does not end is stopped by the standing hook that
 * bounds loading.
 */

enum { TREE_DEPTH_MAX = 64 };

struct to_tree {
    lua_State *L;
    struct arena *a;
};

static struct opt *value_lj(const struct to_tree *t, int index, int depth);

/* Refuse the key at `index` of a table that is neither list nor map. */
static void
bad_key_lj(lua_State *L, int index)
{
    const char *type = luaL_typename(L, index);

    (void)luaL_error(L,
                     "the names of fields are strings, got %s %s; a list has "
                     "no gaps and no names",
                     type, luaL_tolstring(L, index, NULL));
}

/* The list at `index`. */
static struct opt *
list_lj(const struct to_tree *t, int index, int depth)
{
    struct opt *o = opt_new_list(t->a);
    lua_Integer i, n = (lua_Integer)lua_rawlen(t->L, index);

    for (i = 1; i <= n; i++) {
        (void)lua_rawgeti(t->L, index, i);
        opt_add(t->a, o, NULL, value_lj(t, lua_gettop(t->L), depth));
        lua_pop(t->L, 1);
    }
    return o;
}

static struct opt *
map_lj(const struct to_tree *t, int index, int depth, bool marked)
{
    struct opt *o = opt_new_map(t->a);

    lua_pushnil(t->L);
    while (lua_next(t->L, index) != 0) {
        if (lua_type(t->L, -2) != LUA_TSTRING)
            bad_key_lj(t->L, -2);
        opt_add(t->a, o, lua_tostring(t->L, -2),
                value_lj(t, lua_gettop(t->L), depth));
        lua_pop(t->L, 1);
    }
    if (o->first == NULL && !marked)
        o->i = TEST_EMPTY;
    return o;
}

/* A value of test.any and the like, whose metatable says `mark`. */
static struct opt *
mark_lj(const struct to_tree *t, int index, const char *mark, int depth)
{
    struct opt *o = list_lj(t, index, depth);

    o->type = OPT_FUNC;
    o->i = strcmp(mark, "any") == 0      ? TEST_ANY
           : strcmp(mark, "approx") == 0 ? TEST_APPROX
                                         : TEST_TOMBSTONE;
    return o;
}

static struct opt *
table_lj(const struct to_tree *t, int index, int depth)
{
    lua_State *L = t->L;
    struct opt *o;
    bool list;

    if (depth >= TREE_DEPTH_MAX)
        (void)luaL_error(L, "tables are nested more than %d deep",
                         TREE_DEPTH_MAX);
    luaL_checkstack(L, 8, "tables are nested too deep");
    if (luaL_getmetafield(L, index, "mark") == LUA_TSTRING) {
        o = mark_lj(t, index, lua_tostring(L, -1), depth + 1);
        lua_pop(L, 1);
        return o;
    }
    lua_settop(L, index); /* a field of another type */
    if (luaL_getmetafield(L, index, "list") != LUA_TNIL) {
        list = lua_toboolean(L, -1);
        lua_pop(L, 1);
        return list ? list_lj(t, index, depth + 1)
                    : map_lj(t, index, depth + 1, true);
    }
    if (lua_rawlen(L, index) == 0)
        return map_lj(t, index, depth + 1, false);
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        if (lua_type(L, -2) == LUA_TSTRING)
            (void)luaL_error(L,
                             "a table has either names or elements, got "
                             "element 1 and name \"%s\"",
                             lua_tostring(L, -2));
        if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 ||
            lua_tointeger(L, -2) > (lua_Integer)lua_rawlen(L, index))
            bad_key_lj(L, -2);
        lua_pop(L, 1);
    }
    return list_lj(t, index, depth + 1);
}

static struct opt *
value_lj(const struct to_tree *t, int index, int depth)
{
    lua_State *L = t->L;
    struct opt *o;
    const char *text;
    size_t len;

    switch (lua_type(L, index)) {
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &len);
        return opt_new_str(t->a, text, len);
    case LUA_TTABLE:
        return table_lj(t, index, depth);
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            return opt_new_int(t->a, lua_tointeger(L, index));
        o = opt_new(t->a);
        o->type = OPT_DBL;
        o->d = lua_tonumber(L, index);
        return o;
    case LUA_TBOOLEAN:
        o = opt_new(t->a);
        o->type = OPT_BOOL;
        o->i = lua_toboolean(L, index);
        return o;
    case LUA_TNIL:
    case LUA_TLIGHTUSERDATA: /* s.null */
        return opt_new(t->a);
    default:
        (void)luaL_error(L, "a %s cannot stand in a record or row",
                         luaL_typename(L, index));
        return NULL;
    }
}

/* Push a result. */
static void
push_lj(struct calls *c, lua_State *L, const struct opt *o)
{
    const struct opt *child;
    lua_Integer i = 0;

    luaL_checkstack(L, 8, "a row is nested too deep");
    switch (o->type) {
    case OPT_BOOL:
        lua_pushboolean(L, o->i != 0);
        return;
    case OPT_INT:
        lua_pushinteger(L, o->i);
        return;
    case OPT_DBL:
        lua_pushnumber(L, o->d);
        return;
    case OPT_STR:
        (void)lua_pushlstring(L, o->s, o->len);
        return;
    case OPT_LIST:
    case OPT_MAP:
        lua_newtable(L);
        for (child = o->first; child != NULL; child = child->next) {
            push_lj(c, L, child);
            if (o->type == OPT_LIST)
                lua_rawseti(L, -2, ++i);
            else
                lua_setfield(L, -2, child->name);
        }
        if (o->type == OPT_LIST || o->first == NULL)
            conv_mark_lj(c, L, o->type == OPT_MAP);
        return;
    case OPT_NIL:
    case OPT_FUNC:
        break;
    }
    lua_pushlightuserdata(L, (void *)(uintptr_t)&calls_null);
}

int
script_test_call_lj(lua_State *L)
{
    struct script *s = script_of(L);
    struct calls *c = s->calls;
    char where[ERR_WHERE_MAX];
    const struct opt *args, *ret = NULL;
    struct to_tree t = {.L = L, .a = &c->tmp};
    struct err e;
    lua_Debug ar;

    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    if (!s->loaded)
        return luaL_error(L, "t is for cases");
    where[0] = '\0';
    if (script_user_frame(L, &ar))
        script_place(s, &ar, where, sizeof where);
    arena_reset(&c->tmp);
    args = map_lj(&t, 2, 0, true);
    if (s->conf.test_call(s->conf.test_arg, luaL_checkstring(L, 1), args, where,
                          &c->tmp, &ret, &e) != 0) {
        lua_pushfstring(L, e.hint[0] != '\0' ? "%s: %s (%s)" : "%s: %s", where,
                        e.msg, e.hint);
        return lua_error(L);
    }
    if (ret == NULL)
        return 0;
    push_lj(c, L, ret);
    return 1;
}

int
script_test_run(struct script *s, int func, int64_t limit_ms, struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    bool over;
    int r;

    calls_push_func(c, func);
    s->call_timeout_ns = limit_ms * 1000000;
    script_watch_close(s, true);
    s->loading = true;
    r = lua_pcall(L, 0, 0, c->base + 1);
    s->loading = false;
    over = s->load_over;
    script_watch_close(s, false);
    s->closing = false;
    if (r == LUA_OK)
        return 0;
    (void)script_take_error(s, e);
    if (over) {
        (void)snprintf(e->msg, sizeof e->msg,
                       "the case did not end within %lld ms (option timeout "
                       "of test.case)",
                       (long long)limit_ms);
        e->hint[0] = '\0';
    }
    lua_settop(L, c->base + CALLS_SLOTS);
    return ERR_RECORD;
}
