#include "script/script_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * pairs() that gives the same order in every state: 1 to n, then numbers,
 * strings in byte order, booleans; keys of other kinds last, as they come.
 * Lua's own order depends on a random seed and on addresses, and would reach
 * output (DESIGN section 12). The cost is one walk and a sort of the keys
 * that are no list indexes; a list costs nothing more than before.
 */

struct pair_key {
    int rank;            /* 0 number, 1 string, 2 boolean, 3 other */
    int at;              /* position in the list of keys found, from 1 */
    lua_Integer integer; /* tie break of equal doubles */
    double number;
    const char *text; /* kept alive by the table that is walked */
    size_t len;
};

static int
compare_keys(const void *va, const void *vb)
{
    const struct pair_key *a = va, *b = vb;
    size_t len;
    int c;

    if (a->rank != b->rank)
        return a->rank - b->rank;
    if (a->rank == 1) {
        len = a->len < b->len ? a->len : b->len;
        c = memcmp(a->text, b->text, len);
        if (c != 0)
            return c;
        return a->len < b->len ? -1 : a->len > b->len;
    }
    if (a->number < b->number)
        return -1;
    if (a->number > b->number)
        return 1;
    if (a->integer != b->integer)
        return a->integer < b->integer ? -1 : 1;
    return a->at - b->at;
}

static void
describe_key(lua_State *L, int index, int at, struct pair_key *k)
{
    *k = (struct pair_key){.rank = 3, .at = at};
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        k->rank = 0;
        k->number = lua_tonumber(L, index);
        k->integer = lua_tointeger(L, index);
        break;
    case LUA_TSTRING:
        k->rank = 1;
        k->text = lua_tolstring(L, index, &k->len);
        break;
    case LUA_TBOOLEAN:
        k->rank = 2;
        k->number = lua_toboolean(L, index);
        break;
    default:
        break;
    }
}

static bool
is_index(lua_State *L, int index, lua_Integer n)
{
    lua_Integer i;

    if (!lua_isinteger(L, index))
        return false;
    i = lua_tointeger(L, index);
    return i >= 1 && i <= n;
}

/* Iterator. Upvalues: table, keys in order, n, position so far. */
static int
pairs_next_lj(lua_State *L)
{
    lua_Integer n, i;

    n = lua_tointeger(L, lua_upvalueindex(3));
    i = lua_tointeger(L, lua_upvalueindex(4));
    for (;;) {
        i++;
        lua_settop(L, 0);
        if (i <= n) {
            lua_pushinteger(L, i);
        } else if (lua_isnil(L, lua_upvalueindex(2)) ||
                   lua_rawgeti(L, lua_upvalueindex(2), i - n) == LUA_TNIL) {
            lua_pushnil(L);
            return 1;
        }
        lua_pushvalue(L, 1);
        if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
            break;
    }
    lua_pushinteger(L, i);
    lua_replace(L, lua_upvalueindex(4));
    return 2;
}

/* Push the keys of table `t` that are no index in 1..n, in order. */
static void
push_keys_lj(lua_State *L, int t, lua_Integer n, int count)
{
    struct pair_key *keys;
    int found, i;

    keys = lua_newuserdatauv(L, (size_t)count * sizeof *keys, 0);
    lua_createtable(L, count, 0); /* as found */
    found = 0;
    lua_pushnil(L);
    while (lua_next(L, t) != 0 && found < count) {
        lua_pop(L, 1);
        if (is_index(L, -1, n))
            continue;
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, found + 1);
        describe_key(L, -1, found + 1, &keys[found]);
        found++;
    }
    lua_settop(L, t + 2);
    qsort(keys, (size_t)found, sizeof *keys, compare_keys);
    lua_createtable(L, found, 0);
    for (i = 0; i < found; i++) {
        (void)lua_rawgeti(L, -2, keys[i].at);
        lua_rawseti(L, -2, i + 1);
    }
}

int
script_pairs_lj(lua_State *L)
{
    lua_Integer n;
    int others;

    luaL_checkany(L, 1);
    if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 3);
        return 3;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (lua_topointer(L, 1) == script_of(L)->globals) {
        (void)luaL_getmetafield(L, 1, "__index");
        lua_replace(L, 1);
    }
    n = (lua_Integer)lua_rawlen(L, 1);
    others = 0;
    lua_pushnil(L);
    while (lua_next(L, 1) != 0) {
        lua_pop(L, 1);
        others += !is_index(L, -1, n);
    }
    if (others == 0)
        lua_pushnil(L);
    else
        push_keys_lj(L, 1, n, others);
    lua_pushvalue(L, 1);
    lua_insert(L, -2);
    lua_pushinteger(L, n);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_next_lj, 4);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}
