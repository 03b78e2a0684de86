/*
 * Plain data of Lua as portable bytes: accumulators, positions, state.
 *
 *   'N' nil   '0' false   '1' true   'i' int, 8 bytes little endian
 *   'd' double, 8 bytes   's' string, u32 length, bytes   'u' s.null
 *   't' table: mark ('-', 'l' s.list, 'm' s.map), u32 n, n values of keys 1
 *       to n, u32 pairs, then key and value of each; keys in order: ints,
 *       doubles, strings by bytes
 *
 * Equal data give equal bytes, whatever the order Lua keeps its keys in. The
 * form is on disk and never changes; a new one would need a new tag. State is
 * packed more strictly: a table is a list or has names, as in a record.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/calls_impl.h"

enum { MEMBERS_MAX = 500000 };

struct pair {
    int rank; /* 0 int, 1 double, 2 string */
    int slot; /* of the value on Lua's stack */
    lua_Integer i;
    double d;
    const char *s;
    size_t len;
};

struct pack {
    struct calls *c;
    lua_State *L;
    struct buf *out;
    size_t before; /* bytes in out at the beginning */
    bool strict;   /* no table that is neither list nor map */
    int depth;
    const void *above[JSON_DEPTH_LUA_MAX]; /* tables being written */
    struct pair path[JSON_DEPTH_LUA_MAX];  /* key in each of them */
};

static int pack_any(struct pack *k, int idx, struct err *e);

static void
put_u64(struct buf *out, uint64_t v, int bytes)
{
    int i;

    for (i = 0; i < bytes; i++)
        buf_addc(out, (char)(v >> (8 * i)));
}

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
put_8(struct buf *out, char tag, uint64_t v)
{
    char bytes[9];
    int i;

    bytes[0] = tag;
    for (i = 0; i < 8; i++)
        bytes[i + 1] = (char)(v >> (8 * i));
    buf_add(out, bytes, sizeof bytes);
}

static void
pair_put_key(const struct pair *p, struct buf *out)
{
    uint64_t bits;

    if (p->rank == 0) {
        put_8(out, 'i', (uint64_t)p->i);
    } else if (p->rank == 1) {
        memcpy(&bits, &p->d, sizeof bits);
        put_8(out, 'd', bits);
    } else {
        buf_addc(out, 's');
        put_u64(out, p->len, 4);
        buf_add(out, p->s, p->len);
    }
}

/* user_error "text (at a.b[2])". */
static int
pack_error(const struct pack *k, struct err *e, const char *text)
{
    struct buf b;
    int i;

    buf_init(&b);
    for (i = 0; i < k->depth; i++) {
        const struct pair *p = &k->path[i];

        if (p->rank == 0) {
            buf_addf(&b, "[%lld]", (long long)p->i);
        } else if (p->rank == 1) {
            buf_addf(&b, "[%.17g]", p->d);
        } else if (p->s != NULL) {
            buf_adds(&b, b.len > 0 ? "." : "");
            buf_add(&b, p->s, p->len > 60 ? 60 : p->len);
        }
    }
    if (b.len == 0)
        (void)err_record(e, CAUSE_USER_ERROR, "%s", text);
    else
        (void)err_record(e, CAUSE_USER_ERROR, "%s (at %.300s)", text,
                         buf_cstr(&b));
    buf_fini(&b);
    return ERR_RECORD;
}

/* A key that the table may not have. */
static int
pack_bad_key(struct pack *k, int idx, lua_Integer n, struct err *e)
{
    char text[120];

    if (lua_type(k->L, idx) == LUA_TSTRING)
        return pack_error(k, e,
                          "a table with elements 1 to n and names beside "
                          "them is neither list nor map");
    if (lua_isinteger(k->L, idx) && n > 0)
        (void)snprintf(text, sizeof text,
                       "a list with a gap: the key %lld, but none %lld",
                       (long long)lua_tointeger(k->L, idx), (long long)n + 1);
    else if (lua_isinteger(k->L, idx))
        (void)snprintf(text, sizeof text,
                       "the number %lld as key of a map; keys are strings",
                       (long long)lua_tointeger(k->L, idx));
    else
        (void)snprintf(text, sizeof text, "a %s as key of a table; keys are %s",
                       luaL_typename(k->L, idx),
                       k->strict ? "strings" : "strings and numbers");
    return pack_error(k, e, text);
}

static bool
key_is_ok(const struct pack *k, int idx, lua_Integer n, struct pair *p)
{
    if (k->strict && (n > 0 || lua_type(k->L, idx) != LUA_TSTRING))
        return false;
    return pair_key(k->L, idx, p);
}

/* The members of a table that are not 1 to n. */
static int
pack_pairs(struct pack *k, int idx, lua_Integer n, struct err *e)
{
    struct pair *items = NULL, *own = &k->path[k->depth - 1];
    lua_State *L = k->L;
    size_t count = 0, cap = 0, i;
    int top = lua_gettop(L), r = 0;

    *own = (struct pair){.rank = 2};
    lua_pushnil(L);
    while (r == 0) {
        if (count >= MEMBERS_MAX || !lua_checkstack(L, 8)) {
            r = pack_error(k, e, "table with too many members");
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
        if (!key_is_ok(k, -2, n, &items[count]))
            r = pack_bad_key(k, -2, n, e);
        lua_insert(L, -2);
        items[count++].slot = lua_gettop(L) - 1;
    }
    if (count > 1 && r == 0)
        qsort(items, count, sizeof *items, pair_cmp);
    put_u64(k->out, count, 4);
    for (i = 0; i < count && r == 0; i++) {
        *own = items[i];
        pair_put_key(&items[i], k->out);
        r = pack_any(k, items[i].slot, e);
    }
    free(items);
    lua_settop(L, top);
    return r;
}

static int
pack_check_table(struct pack *k, int idx, struct err *e)
{
    const void *self = lua_topointer(k->L, idx);
    int i;

    for (i = 0; i < k->depth; i++)
        if (k->above[i] == self)
            return pack_error(k, e, "a table that contains itself");
    if (k->depth >= JSON_DEPTH_LUA_MAX || !lua_checkstack(k->L, 8))
        return pack_error(k, e, "tables nest deeper than 64 levels");
    k->above[k->depth] = self;
    return 0;
}

static int
pack_table(struct pack *k, int idx, struct err *e)
{
    const void *mark = NULL;
    lua_State *L = k->L;
    lua_Integer i, n;
    int r;

    r = pack_check_table(k, idx, e);
    if (r != 0)
        return r;
    if (lua_getmetatable(L, idx)) {
        mark = lua_topointer(L, -1);
        lua_pop(L, 1);
    }
    buf_addc(k->out, 't');
    buf_addc(k->out, mark == k->c->list_mt  ? 'l'
                     : mark == k->c->map_mt ? 'm'
                                            : '-');
    /* rawlen is any border; the first one is the same in every state. */
    for (n = 0; lua_rawgeti(L, idx, n + 1) != LUA_TNIL; n++)
        lua_pop(L, 1);
    lua_pop(L, 1);
    if (n > UINT32_MAX)
        return pack_error(k, e, "table with too many members");
    put_u64(k->out, (uint64_t)n, 4);
    k->depth++;
    for (i = 1; i <= n && r == 0; i++) {
        k->path[k->depth - 1] = (struct pair){.rank = 0, .i = i};
        (void)lua_rawgeti(L, idx, i);
        r = pack_any(k, lua_gettop(L), e);
        lua_pop(L, 1);
    }
    if (r == 0)
        r = pack_pairs(k, idx, n, e);
    k->depth--;
    return r;
}

static int
pack_any(struct pack *k, int idx, struct err *e)
{
    lua_State *L = k->L;
    struct pair p = {0};
    char text[80];

    /* Here, since a small table may be written any number of times. */
    if (k->out->len - k->before > REC_SIZE_MAX)
        return pack_error(k, e, "a value above 64 MiB");
    switch (lua_type(L, idx)) {
    case LUA_TNIL:
        buf_addc(k->out, 'N');
        return 0;
    case LUA_TBOOLEAN:
        buf_addc(k->out, lua_toboolean(L, idx) ? '1' : '0');
        return 0;
    case LUA_TNUMBER:
    case LUA_TSTRING:
        (void)pair_key(L, idx, &p);
        if (p.len > REC_SIZE_MAX)
            return pack_error(k, e, "string above 64 MiB");
        pair_put_key(&p, k->out);
        return 0;
    case LUA_TTABLE:
        return pack_table(k, idx, e);
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, idx) == &calls_null) {
            buf_addc(k->out, 'u');
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
    return pack_error(k, e, text);
}

static int
put(struct calls *c, lua_State *L, int idx, bool strict, struct buf *out,
    struct err *e)
{
    struct pack k;
    int r;

    k.c = c;
    k.L = L;
    k.out = out;
    k.before = out->len;
    k.strict = strict;
    k.depth = 0;
    r = pack_any(&k, lua_absindex(L, idx), e);
    if (r == 0 && out->len - k.before > REC_SIZE_MAX)
        r = pack_error(&k, e, "a value above 64 MiB");
    if (r != 0)
        out->len = k.before;
    return r;
}

int
pack_put(struct calls *c, lua_State *L, int idx, struct buf *out, struct err *e)
{
    return put(c, L, idx, false, out, e);
}

int
pack_put_state(struct calls *c, lua_State *L, int idx, struct buf *out,
               struct err *e)
{
    return put(c, L, idx, true, out, e);
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

/* ---- as text ---- */

struct text {
    const char *p, *end;
    struct buf *out;
    int depth;
};

static bool text_any(struct text *t);

static bool
text_take(struct text *t, int bytes, uint64_t *ret)
{
    struct unpack u = {NULL, NULL, t->p, t->end};
    bool ok = take(&u, bytes, ret);

    t->p = u.p;
    return ok;
}

/* A key of a table as a name. */
static bool
text_name(struct text *t)
{
    bool is_number = t->p < t->end && *t->p != 's';

    if (t->p < t->end && (*t->p == 't' || *t->p == 'N'))
        return false;
    if (is_number)
        buf_addc(t->out, '"');
    if (!text_any(t))
        return false;
    buf_adds(t->out, is_number ? "\":" : ":");
    return true;
}

static bool
text_names(struct text *t, uint64_t pairs)
{
    uint64_t i;

    buf_addc(t->out, '{');
    for (i = 0; i < pairs; i++) {
        buf_adds(t->out, i > 0 ? "," : "");
        if (!text_name(t) || !text_any(t))
            return false;
    }
    buf_addc(t->out, '}');
    return true;
}

/* A list or a map; of an accumulator that is both a list whose last element
 * are the names. */
static bool
text_table(struct text *t)
{
    size_t begin = t->out->len;
    uint64_t n, pairs, i;
    char mark;

    if (t->p == t->end || ++t->depth > JSON_DEPTH_LUA_MAX)
        return false;
    mark = *t->p++;
    if (!text_take(t, 4, &n))
        return false;
    buf_addc(t->out, '[');
    for (i = 0; i < n; i++) {
        buf_adds(t->out, i > 0 ? "," : "");
        if (!text_any(t))
            return false;
    }
    if (!text_take(t, 4, &pairs))
        return false;
    if (n == 0 && (pairs > 0 || mark != 'l')) {
        t->out->len = begin;
        if (!text_names(t, pairs))
            return false;
        t->depth--;
        return true;
    }
    buf_adds(t->out, pairs > 0 ? "," : "");
    if (pairs > 0 && !text_names(t, pairs))
        return false;
    buf_addc(t->out, ']');
    t->depth--;
    return true;
}

static bool
text_any(struct text *t)
{
    struct val v;
    uint64_t n;
    bool ext;

    if (t->p == t->end)
        return false;
    switch (*t->p++) {
    case 'N':
    case 'u':
        buf_adds(t->out, "null");
        return true;
    case '0':
        buf_adds(t->out, "false");
        return true;
    case '1':
        buf_adds(t->out, "true");
        return true;
    case 'i':
        if (!text_take(t, 8, &n))
            return false;
        json_put_int(t->out, (int64_t)n);
        return true;
    case 'd':
        if (!text_take(t, 8, &n))
            return false;
        v = val_dbl(0);
        memcpy(&v.u.d, &n, sizeof v.u.d);
        json_put_val(t->out, &v, &ext);
        return true;
    case 's':
        if (!text_take(t, 4, &n) || (uint64_t)(t->end - t->p) < n)
            return false;
        json_put_str(t->out, t->p, (size_t)n);
        t->p += n;
        return true;
    case 't':
        return text_table(t);
    default:
        return false;
    }
}

int
script_state_json(const void *bytes, size_t len, struct buf *out, struct err *e)
{
    struct text t = {bytes, (const char *)bytes + len, out, 0};
    size_t before = out->len;

    if (len > 0 && text_any(&t) && t.p == t.end)
        return 0;
    out->len = before;
    return err_set(e, ERR_IO, "damaged data of a Lua value");
}

/* ---- copies ---- */

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
