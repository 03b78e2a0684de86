/*
 * Plain data of Lua as portable bytes: accumulators, positions.
 *
 *   'N' nil   '0' false   '1' true   'i' int, 8 bytes little endian
 *   'd' double, 8 bytes   's' string, u32 length, bytes   'u' s.null
 *   't' table: mark ('-', 'l' s.list, 'm' s.map), u32 n, n values of keys 1
 *       to n, u32 pairs, then key and value of each; keys in order: ints,
 *       doubles, strings by bytes
 *
 * Equal data give equal bytes, whatever the order Lua keeps its keys in.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/calls_impl.h"

enum { MEMBERS_MAX = 500000 };

static int pack_any(struct calls *c, lua_State *L, int idx, int depth,
                    struct buf *out, struct err *e);

static void
put_u64(struct buf *out, uint64_t v, int bytes)
{
    int i;

    for (i = 0; i < bytes; i++)
        buf_addc(out, (char)(v >> (8 * i)));
}

struct pair {
    int rank; /* 0 int, 1 double, 2 string */
    int slot; /* of the value on Lua's stack */
    lua_Integer i;
    double d;
    const char *s;
    size_t len;
};

static int
pair_cmp(const void *pa, const void *pb)
{
    const struct pair *a = pa, *b = pb;
    int r;

    if (a->rank != b->rank)
        return a->rank - b->rank;
    if (a->rank == 0)
        return a->i < b->i ? -1 : a->i > b->i;
    if (a->rank == 1)
        return a->d < b->d ? -1 : a->d > b->d;
    r = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
    if (r != 0)
        return r;
    return a->len < b->len ? -1 : a->len > b->len;
}

static bool
pair_key(lua_State *L, int idx, struct pair *p)
{
    if (lua_isinteger(L, idx)) {
        p->rank = 0;
        p->i = lua_tointeger(L, idx);
    } else if (lua_type(L, idx) == LUA_TNUMBER) {
        p->rank = 1;
        p->d = lua_tonumber(L, idx);
    } else if (lua_type(L, idx) == LUA_TSTRING) {
        p->rank = 2;
        p->s = lua_tolstring(L, idx, &p->len);
    } else {
        return false;
    }
    return true;
}

static void
pair_put_key(const struct pair *p, struct buf *out)
{
    uint64_t bits;

    if (p->rank == 0) {
        buf_addc(out, 'i');
        put_u64(out, (uint64_t)p->i, 8);
    } else if (p->rank == 1) {
        memcpy(&bits, &p->d, sizeof bits);
        buf_addc(out, 'd');
        put_u64(out, bits, 8);
    } else {
        buf_addc(out, 's');
        put_u64(out, p->len, 4);
        buf_add(out, p->s, p->len);
    }
}

static int
pack_error(struct err *e, const char *text)
{
    return err_record(e, CAUSE_USER_ERROR, "%s", text);
}

/* The members of a table that are not 1 to n. */
static int
pack_pairs(struct calls *c, lua_State *L, int idx, lua_Integer n, int depth,
           struct buf *out, struct err *e)
{
    struct pair *items = NULL;
    size_t count = 0, cap = 0, i;
    int top = lua_gettop(L), r = 0;

    lua_pushnil(L);
    while (r == 0) {
        if (count >= MEMBERS_MAX || !lua_checkstack(L, 8)) {
            r = pack_error(e, "table with too many members");
            break;
        }
        if (lua_next(L, idx) == 0)
            break;
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 &&
            lua_tointeger(L, -2) <= n) {
            lua_pop(L, 1);
            continue;
        }
        mem_grow(&items, &cap, count + 1, sizeof *items);
        if (!pair_key(L, -2, &items[count]))
            r = pack_error(e, "keys of plain data are strings and numbers");
        lua_insert(L, -2);
        items[count++].slot = lua_gettop(L) - 1;
    }
    if (count > 1)
        qsort(items, count, sizeof *items, pair_cmp);
    put_u64(out, count, 4);
    for (i = 0; i < count && r == 0; i++) {
        pair_put_key(&items[i], out);
        r = pack_any(c, L, items[i].slot, depth + 1, out, e);
    }
    free(items);
    lua_settop(L, top);
    return r;
}

static int
pack_table(struct calls *c, lua_State *L, int idx, int depth, struct buf *out,
           struct err *e)
{
    const void *mark = NULL;
    lua_Integer i, n;
    int r = 0;

    if (depth >= JSON_DEPTH_LUA_MAX || !lua_checkstack(L, 8))
        return pack_error(e, "tables nest deeper than 64 levels, or in a "
                             "circle");
    if (lua_getmetatable(L, idx)) {
        mark = lua_topointer(L, -1);
        lua_pop(L, 1);
    }
    buf_addc(out, 't');
    buf_addc(out, mark == c->list_mt ? 'l' : mark == c->map_mt ? 'm' : '-');
    /* rawlen is any border; the first one is the same in every state. */
    for (n = 0; lua_rawgeti(L, idx, n + 1) != LUA_TNIL; n++)
        lua_pop(L, 1);
    lua_pop(L, 1);
    if (n > UINT32_MAX)
        return pack_error(e, "table with too many members");
    put_u64(out, (uint64_t)n, 4);
    for (i = 1; i <= n && r == 0; i++) {
        (void)lua_rawgeti(L, idx, i);
        r = pack_any(c, L, lua_gettop(L), depth + 1, out, e);
        lua_pop(L, 1);
    }
    return r == 0 ? pack_pairs(c, L, idx, n, depth, out, e) : r;
}

static int
pack_any(struct calls *c, lua_State *L, int idx, int depth, struct buf *out,
         struct err *e)
{
    struct pair p = {0};
    char text[80];

    switch (lua_type(L, idx)) {
    case LUA_TNIL:
        buf_addc(out, 'N');
        return 0;
    case LUA_TBOOLEAN:
        buf_addc(out, lua_toboolean(L, idx) ? '1' : '0');
        return 0;
    case LUA_TNUMBER:
    case LUA_TSTRING:
        (void)pair_key(L, idx, &p);
        if (p.len > REC_SIZE_MAX)
            return pack_error(e, "string above 64 MiB");
        pair_put_key(&p, out);
        return 0;
    case LUA_TTABLE:
        return pack_table(c, L, idx, depth, out, e);
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, idx) == &calls_null) {
            buf_addc(out, 'u');
            return 0;
        }
        break;
    default:
        break;
    }
    (void)snprintf(text, sizeof text,
                   "a %s is no plain data; keep s.table(v) of a record or "
                   "view",
                   luaL_typename(L, idx));
    return pack_error(e, text);
}

int
pack_put(struct calls *c, lua_State *L, int idx, struct buf *out, struct err *e)
{
    size_t before = out->len;
    int r;

    r = pack_any(c, L, lua_absindex(L, idx), 0, out, e);
    if (r != 0)
        out->len = before;
    return r;
}

/* ---- back ---- */

struct unpack {
    struct calls *c;
    lua_State *L;
    const char *p, *end;
};

static bool
take(struct unpack *u, int bytes, uint64_t *ret)
{
    uint64_t v = 0;
    int i;

    if (u->end - u->p < bytes)
        return false;
    for (i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)u->p[i] << (8 * i);
    u->p += bytes;
    *ret = v;
    return true;
}

static bool unpack_any_lj(struct unpack *u, int depth);

static bool
unpack_table_lj(struct unpack *u, int depth)
{
    lua_State *L = u->L;
    uint64_t n, i;
    char mark;

    if (u->p == u->end || depth >= JSON_DEPTH_LUA_MAX)
        return false;
    mark = *u->p++;
    luaL_checkstack(L, 8, "data nest too deep");
    lua_newtable(L);
    if (mark != '-')
        conv_mark_lj(u->c, L, mark == 'm');
    if (!take(u, 4, &n))
        return false;
    for (i = 1; i <= n; i++) {
        if (!unpack_any_lj(u, depth + 1))
            return false;
        lua_rawseti(L, -2, (lua_Integer)i);
    }
    if (!take(u, 4, &n))
        return false;
    for (i = 0; i < n; i++) {
        if (!unpack_any_lj(u, depth + 1) || lua_isnil(L, -1) ||
            !unpack_any_lj(u, depth + 1))
            return false;
        lua_rawset(L, -3);
    }
    return true;
}

static bool
unpack_any_lj(struct unpack *u, int depth)
{
    uint64_t v;
    double d;
    char tag;

    if (u->p == u->end)
        return false;
    tag = *u->p++;
    switch (tag) {
    case 'N':
        lua_pushnil(u->L);
        return true;
    case '0':
    case '1':
        lua_pushboolean(u->L, tag == '1');
        return true;
    case 'u':
        lua_pushlightuserdata(u->L, (void *)(uintptr_t)&calls_null);
        return true;
    case 'i':
        if (!take(u, 8, &v))
            return false;
        lua_pushinteger(u->L, (lua_Integer)v);
        return true;
    case 'd':
        if (!take(u, 8, &v))
            return false;
        memcpy(&d, &v, sizeof d);
        lua_pushnumber(u->L, d);
        return true;
    case 's':
        if (!take(u, 4, &v) || (uint64_t)(u->end - u->p) < v)
            return false;
        (void)lua_pushlstring(u->L, u->p, (size_t)v);
        u->p += v;
        return true;
    case 't':
        return unpack_table_lj(u, depth);
    default:
        return false;
    }
}

int
pack_push_lj(struct calls *c, lua_State *L, const char *bytes, size_t len,
             struct err *e)
{
    struct unpack u = {c, L, bytes, bytes + len};
    int top = lua_gettop(L);

    if (unpack_any_lj(&u, 0) && u.p == u.end)
        return 0;
    lua_settop(L, top);
    return err_set(e, ERR_IO, "damaged data of a Lua value");
}

void
pack_copy_lj(lua_State *L, int idx, int depth)
{
    if (lua_type(L, idx) != LUA_TTABLE || depth > JSON_DEPTH_LUA_MAX) {
        lua_pushvalue(L, idx);
        return;
    }
    idx = lua_absindex(L, idx);
    luaL_checkstack(L, 8, "data nest too deep");
    lua_createtable(L, (int)lua_rawlen(L, idx), 0);
    if (lua_getmetatable(L, idx))
        (void)lua_setmetatable(L, -2);
    lua_pushnil(L);
    while (lua_next(L, idx) != 0) {
        lua_pushvalue(L, -2);
        pack_copy_lj(L, -2, depth + 1);
        lua_rawset(L, -5);
        lua_pop(L, 1);
    }
}
