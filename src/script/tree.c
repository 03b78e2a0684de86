#include "script/script_impl.h"

#include <stdlib.h>
#include <string.h>

#include "script/calls_impl.h"

/*
 * From the checked Lua table that lua/streamlua makes to the option tree.
 * Members come in byte order of their names and functions are numbered as
 * they are met, so that two loads of the same file give the same tree.
 */

enum { TREE_DEPTH_MAX = 64, TREE_SIZE_MAX = 64 << 20 };

struct tree_name {
    const char *s; /* kept alive by the table */
    size_t len;
};

static struct opt *tree_value_lj(struct script *s, int index, int depth);

static int
compare_names(const void *va, const void *vb)
{
    const struct tree_name *a = va, *b = vb;
    int c;

    c = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
    if (c != 0)
        return c;
    return a->len < b->len ? -1 : a->len > b->len;
}

/* Whether the table is a list: marked as one, or not empty with element 1. */
static bool
is_list_lj(lua_State *L, int index)
{
    const struct calls *c;
    const void *mt;
    bool list;

    c = script_of(L)->calls;
    if (c != NULL && lua_getmetatable(L, index)) { /* s.list, s.map */
        mt = lua_topointer(L, -1);
        lua_pop(L, 1);
        if (mt == c->list_mt || mt == c->map_mt)
            return mt == c->list_mt;
    }
    if (luaL_getmetafield(L, index, "list") != LUA_TNIL) {
        list = lua_toboolean(L, -1);
        lua_pop(L, 1);
        return list;
    }
    return lua_rawlen(L, index) > 0;
}

static struct opt *
tree_list_lj(struct script *s, int index, int depth)
{
    lua_State *L = s->L;
    struct opt *o;
    lua_Integer i, n;

    o = opt_new_list(&s->arena);
    n = (lua_Integer)lua_rawlen(L, index);
    for (i = 1; i <= n; i++) {
        (void)lua_rawgeti(L, index, i);
        opt_add(&s->arena, o, NULL, tree_value_lj(s, lua_gettop(L), depth));
        lua_pop(L, 1);
    }
    return o;
}

static struct opt *
tree_map_lj(struct script *s, int index, int depth)
{
    lua_State *L = s->L;
    struct tree_name *names;
    struct opt *o;
    size_t n, i;

    n = 0;
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        n++;
        lua_pop(L, 1);
    }
    names = lua_newuserdatauv(L, (n + 1) * sizeof *names, 0);
    i = 0;
    lua_pushnil(L);
    while (lua_next(L, index) != 0 && i < n) {
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            (void)luaL_error(L,
                             "a name in a table of options or constants "
                             "must be a string, got %s",
                             luaL_typename(L, -1));
        names[i].s = lua_tolstring(L, -1, &names[i].len);
        i++;
    }
    qsort(names, n, sizeof *names, compare_names);
    o = opt_new_map(&s->arena);
    for (i = 0; i < n; i++) {
        lua_pushlstring(L, names[i].s, names[i].len);
        (void)lua_rawget(L, index);
        opt_add(&s->arena, o, names[i].s,
                tree_value_lj(s, lua_gettop(L), depth));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return o;
}

/* Keep the value at `index` in the list of functions. */
static struct opt *
tree_func_lj(struct script *s, int index)
{
    struct opt *o;

    o = opt_new(&s->arena);
    o->type = OPT_FUNC;
    (void)lua_rawgeti(s->L, LUA_REGISTRYINDEX, s->funcs_ref);
    o->i = (int64_t)lua_rawlen(s->L, -1) + 1;
    lua_pushvalue(s->L, index);
    lua_rawseti(s->L, -2, o->i);
    lua_pop(s->L, 1);
    return o;
}

static struct opt *
tree_table_lj(struct script *s, int index, int depth)
{
    struct opt *o;

    if (depth >= TREE_DEPTH_MAX)
        (void)luaL_error(s->L, "tables are nested more than %d deep",
                         TREE_DEPTH_MAX);
    luaL_checkstack(s->L, 8, "tables are nested too deep");
    if (luaL_getmetafield(s->L, index, "keep") != LUA_TNIL) {
        lua_pop(s->L, 1); /* { value } kept as it is, by number */
        (void)lua_rawgeti(s->L, index, 1);
        o = tree_func_lj(s, lua_gettop(s->L));
        lua_pop(s->L, 1);
        return o;
    }
    return is_list_lj(s->L, index) ? tree_list_lj(s, index, depth + 1)
                                   : tree_map_lj(s, index, depth + 1);
}

static struct opt *
tree_value_lj(struct script *s, int index, int depth)
{
    struct opt *o;
    const char *text;
    size_t len;

    if (arena_size(&s->arena) > TREE_SIZE_MAX)
        (void)luaL_error(s->L,
                         "the options and constants of the job take more than "
                         "%d MiB",
                         TREE_SIZE_MAX >> 20);
    switch (lua_type(s->L, index)) {
    case LUA_TSTRING:
        text = lua_tolstring(s->L, index, &len);
        return opt_new_str(&s->arena, text, len);
    case LUA_TTABLE:
        return tree_table_lj(s, index, depth);
    case LUA_TFUNCTION:
        return tree_func_lj(s, index);
    case LUA_TNUMBER:
        if (lua_isinteger(s->L, index))
            return opt_new_int(&s->arena, lua_tointeger(s->L, index));
        o = opt_new(&s->arena);
        o->type = OPT_DBL;
        o->d = lua_tonumber(s->L, index);
        return o;
    case LUA_TBOOLEAN:
        o = opt_new(&s->arena);
        o->type = OPT_BOOL;
        o->i = lua_toboolean(s->L, index);
        return o;
    case LUA_TNIL:
    case LUA_TLIGHTUSERDATA: /* s.null */
        return opt_new(&s->arena);
    default:
        (void)luaL_error(s->L, "a %s cannot stand in options or constants",
                         luaL_typename(s->L, index));
        return NULL;
    }
}

struct opt *
script_tree_lj(struct script *s)
{
    lua_newtable(s->L);
    s->funcs_ref = luaL_ref(s->L, LUA_REGISTRYINDEX);
    return tree_value_lj(s, lua_gettop(s->L), 0);
}
