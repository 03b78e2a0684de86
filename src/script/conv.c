/*
 * Values between Lua and JSON text, by the rules of API.md section 2.
 *
 * conv_put() never raises a Lua error, so it may be used on results outside
 * of a protected call: it allocates nothing in Lua but stack slots.
 */
#include "script/calls_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Members of a table; those that are sorted without heap memory. */
enum { TABLE_MAX = 500000, ENTRIES_FEW = 16 };

struct conv {
    struct calls *c;
    lua_State *L;
    struct buf *out;
    size_t before; /* bytes in out at the beginning */
    bool ext;
    int depth;
    const void *above[JSON_DEPTH_LUA_MAX + 1]; /* tables being written */
    struct {
        const char *name; /* NULL: index */
        size_t len;
        int64_t index;
    } path[JSON_DEPTH_LUA_MAX + 1];
};

static int conv_any(struct conv *v, int idx, struct err *e);

/* user_error "text (at a.b[2])". */
static int
conv_error(const struct conv *v, struct err *e, const char *text)
{
    struct buf b;
    int i;

    buf_init(&b);
    for (i = 0; i < v->depth; i++) {
        if (v->path[i].name != NULL && v->path[i].len == 0)
            continue; /* a table whose members are still being looked at */
        if (v->path[i].name == NULL) {
            buf_addf(&b, "[%lld]", (long long)v->path[i].index);
            continue;
        }
        if (i > 0)
            buf_addc(&b, '.');
        buf_add(&b, v->path[i].name, v->path[i].len > 60 ? 60 : v->path[i].len);
    }
    if (b.len == 0)
        (void)err_record(e, CAUSE_USER_ERROR, "%s", text);
    else
        (void)err_record(e, CAUSE_USER_ERROR, "%s (at %.300s)", text,
                         buf_cstr(&b));
    buf_fini(&b);
    return ERR_RECORD;
}

/* ---- tables ---- */

struct entry {
    const char *name;
    size_t len;
    int slot; /* of the value on Lua's stack */
};

static int
entry_cmp(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    size_t n = a->len < b->len ? a->len : b->len;
    int r = memcmp(a->name, b->name, n);

    if (r != 0)
        return r;
    return a->len < b->len ? -1 : a->len > b->len;
}

static void
entries_sort(struct entry *items, size_t n)
{
    struct entry x;
    size_t i, k;

    if (n > 16) {
        qsort(items, n, sizeof *items, entry_cmp);
        return;
    }
    for (i = 1; i < n; i++) {
        x = items[i];
        for (k = i; k > 0 && entry_cmp(&x, &items[k - 1]) < 0; k--)
            items[k] = items[k - 1];
        items[k] = x;
    }
}

/* The text of a table key. */
static int
entry_name(struct conv *v, int idx, struct entry *ret, struct err *e)
{
    char text[NUM_TEXT_MAX];

    if (lua_type(v->L, idx) == LUA_TSTRING) {
        ret->name = lua_tolstring(v->L, idx, &ret->len);
        return 0;
    }
    if (lua_isinteger(v->L, idx)) {
        ret->len = num_text_int(lua_tointeger(v->L, idx), text);
        ret->name = arena_dup(&v->c->tmp, text, ret->len);
        return 0;
    }
    (void)snprintf(text, sizeof text, "a %s as key of a table",
                   luaL_typename(v->L, idx));
    return conv_error(v, e, text);
}

static int
map_write(struct conv *v, const struct entry *items, size_t n, struct err *e)
{
    size_t i;
    int r;

    buf_addc(v->out, '{');
    for (i = 0; i < n; i++) {
        v->path[v->depth - 1].name = items[i].name;
        v->path[v->depth - 1].len = items[i].len;
        if (i > 0 && entry_cmp(&items[i - 1], &items[i]) == 0)
            return conv_error(v, e, "the number and the string are one name");
        if (i > 0)
            buf_addc(v->out, ',');
        json_put_str(v->out, items[i].name, items[i].len);
        v->ext = v->ext || !json_utf8_ok(items[i].name, items[i].len);
        buf_addc(v->out, ':');
        r = conv_any(v, items[i].slot, e);
        if (r != 0)
            return r;
    }
    buf_addc(v->out, '}');
    return 0;
}

/* Values stay on the stack while the map is written, below them the keys
 * that the table itself keeps alive. */
static int
conv_map(struct conv *v, int idx, struct err *e)
{
    struct entry few[ENTRIES_FEW], *items = few, *many = NULL;
    lua_State *L = v->L;
    size_t n = 0, cap = 0;
    int top = lua_gettop(L), r;

    v->depth++;
    v->path[v->depth - 1].name = "";
    v->path[v->depth - 1].len = 0;
    lua_pushnil(L);
    for (;;) {
        if (n >= TABLE_MAX || !lua_checkstack(L, 8)) {
            r = conv_error(v, e, "table with too many members");
            goto done;
        }
        if (lua_next(L, idx) == 0)
            break;
        if (n >= ENTRIES_FEW) {
            mem_grow(&many, &cap, n + 1, sizeof *many);
            if (items == few)
                memcpy(many, few, sizeof few);
            items = many;
        }
        r = entry_name(v, -2, &items[n], e);
        if (r != 0)
            goto done;
        lua_insert(L, -2); /* value below key */
        items[n].slot = lua_gettop(L) - 1;
        n++;
    }
    entries_sort(items, n);
    r = map_write(v, items, n, e);
done:
    free(many);
    lua_settop(L, top);
    if (r == 0)
        v->depth--;
    return r;
}

static int
conv_list(struct conv *v, int idx, lua_Integer n, struct err *e)
{
    lua_Integer i;
    int r = 0;

    v->depth++;
    v->path[v->depth - 1].name = NULL;
    buf_addc(v->out, '[');
    for (i = 1; i <= n && r == 0; i++) {
        if (i > 1)
            buf_addc(v->out, ',');
        v->path[v->depth - 1].index = i;
        (void)lua_rawgeti(v->L, idx, i);
        r = conv_any(v, lua_gettop(v->L), e);
        lua_pop(v->L, 1);
    }
    if (r != 0)
        return r;
    buf_addc(v->out, ']');
    v->depth--;
    return 0;
}

/* Whether the keys are exactly 1 to n. */
static bool
keys_are_list(lua_State *L, int idx, lua_Integer n)
{
    lua_Integer count = 0, key;

    lua_pushnil(L);
    while (lua_next(L, idx) != 0) {
        lua_pop(L, 1);
        key = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
        if (key < 1 || key > n) {
            lua_pop(L, 1);
            return false;
        }
        count++;
    }
    return count == n;
}

static int
conv_table(struct conv *v, int idx, struct err *e)
{
    lua_State *L = v->L;
    const void *self = lua_topointer(L, idx), *mark = NULL;
    lua_Integer n;
    int i;

    for (i = 0; i < v->depth; i++)
        if (v->above[i] == self)
            return conv_error(v, e, "a table that contains itself");
    if (v->depth >= JSON_DEPTH_LUA_MAX)
        return conv_error(v, e, "tables nest deeper than 64 levels");
    if (!lua_checkstack(L, 8))
        return conv_error(v, e, "no room on Lua's stack");
    v->above[v->depth] = self;
    if (lua_getmetatable(L, idx)) {
        mark = lua_topointer(L, -1);
        lua_pop(L, 1);
    }
    n = (lua_Integer)lua_rawlen(L, idx);
    if (mark == v->c->map_mt)
        return conv_map(v, idx, e);
    if (mark == v->c->list_mt) {
        if (!keys_are_list(L, idx, n))
            return conv_error(v, e, "a list has keys other than 1 to n");
        return conv_list(v, idx, n, e);
    }
    if (n > 0 && keys_are_list(L, idx, n))
        return conv_list(v, idx, n, e);
    return conv_map(v, idx, e);
}

/* ---- other values ---- */

static int
conv_record(struct conv *v, struct lrec *lr, struct err *e)
{
    struct node *root;
    int r;

    if (lr->rec->flags & REC_EXT || lr->tree.ext)
        v->ext = true;
    if (!lr->tree.dirty && lr->rec->kind == REC_OBJECT) {
        buf_add(v->out, lr->rec->val, lr->rec->val_len);
        return 0;
    }
    if (lr->rec->kind == REC_TOMBSTONE) {
        buf_adds(v->out, "null");
        return 0;
    }
    r = record_root(lr, &root, e);
    if (r == 0)
        r = node_put(&lr->tree, root, v->out, &v->ext, e);
    return r;
}

/* Whether a record or view that was put into a table, as text from `from`
 * on, still fits below it. */
static int
conv_check_depth(const struct conv *v, size_t from, struct err *e)
{
    if (v->depth > 0 && json_is_deeper(v->out->data + from, v->out->len - from,
                                       (size_t)(JSON_DEPTH_LUA_MAX - v->depth)))
        return conv_error(v, e, "tables nest deeper than 64 levels");
    return 0;
}

static int
conv_userdata(struct conv *v, int idx, struct err *e)
{
    size_t from = v->out->len;
    struct lrec *lr;
    struct view *w;
    bool valid = true;
    int r;

    lr = record_at(v->L, idx, &valid);
    if (lr != NULL && valid) {
        r = conv_record(v, lr, e);
        return r == 0 ? conv_check_depth(v, from, e) : r;
    }
    w = valid ? view_at(v->L, idx, &valid) : NULL;
    if (!valid)
        return conv_error(v, e,
                          "record used after its call; keep s.copy(e) "
                          "or s.table(e)");
    if (w == NULL)
        return conv_error(v, e, "a userdata is no value of a record");
    if (w->r->tree.ext)
        v->ext = true;
    r = node_put(&w->r->tree, w->node, v->out, &v->ext, e);
    return r == 0 ? conv_check_depth(v, from, e) : r;
}

static int
conv_any(struct conv *v, int idx, struct err *e)
{
    struct val s;
    size_t len;
    char text[80];

    /* Here, since a small table may be written any number of times. */
    if (v->out->len - v->before > REC_SIZE_MAX)
        return conv_error(v, e, "value above 64 MiB");
    switch (lua_type(v->L, idx)) {
    case LUA_TNIL:
        buf_adds(v->out, "null");
        return 0;
    case LUA_TBOOLEAN:
        buf_adds(v->out, lua_toboolean(v->L, idx) ? "true" : "false");
        return 0;
    case LUA_TNUMBER:
        if (lua_isinteger(v->L, idx)) {
            json_put_int(v->out, lua_tointeger(v->L, idx));
            return 0;
        }
        s = val_dbl(lua_tonumber(v->L, idx));
        json_put_val(v->out, &s, &v->ext);
        return 0;
    case LUA_TSTRING:
        s = val_str(lua_tolstring(v->L, idx, &len), 0);
        if (len > REC_SIZE_MAX)
            return conv_error(v, e, "string above 64 MiB");
        s.len = (uint32_t)len;
        json_put_val(v->out, &s, &v->ext);
        return 0;
    case LUA_TTABLE:
        return conv_table(v, idx, e);
    case LUA_TUSERDATA:
        return conv_userdata(v, idx, e);
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(v->L, idx) != &calls_null)
            return conv_error(v, e, "a userdata is no value of a record");
        buf_adds(v->out, "null");
        return 0;
    default:
        (void)snprintf(text, sizeof text, "a %s is no value of a record",
                       luaL_typename(v->L, idx));
        return conv_error(v, e, text);
    }
}

int
conv_put(struct calls *c, lua_State *L, int idx, struct buf *out, bool *ext,
         struct err *e)
{
    struct conv v;
    int r;

    v.c = c;
    v.L = L;
    v.out = out;
    v.before = out->len;
    v.ext = false;
    v.depth = 0;
    arena_reset(&c->tmp);
    r = conv_any(&v, lua_absindex(L, idx), e);
    if (r == 0 && out->len - v.before > REC_SIZE_MAX)
        r = conv_error(&v, e, "value above 64 MiB");
    if (r != 0)
        out->len = v.before;
    else if (v.ext)
        *ext = true;
    return r;
}

int
conv_value(struct calls *c, lua_State *L, int idx, struct arena *a,
           struct val *ret, struct err *e)
{
    const char *s;
    size_t len;
    bool ext = false;
    int r;

    switch (lua_type(L, idx)) {
    case LUA_TNIL:
        *ret = val_nil();
        return 0;
    case LUA_TBOOLEAN:
        *ret = val_bool(lua_toboolean(L, idx));
        return 0;
    case LUA_TNUMBER:
        *ret = lua_isinteger(L, idx) ? val_int(lua_tointeger(L, idx))
                                     : val_dbl(lua_tonumber(L, idx));
        return 0;
    case LUA_TSTRING:
        s = lua_tolstring(L, idx, &len);
        if (len > REC_SIZE_MAX)
            break;
        *ret = val_str(arena_dup(a, s, len), (uint32_t)len);
        return 0;
    default:
        break;
    }
    buf_clear(&c->buf);
    r = conv_put(c, L, idx, &c->buf, &ext, e);
    if (r != 0)
        return r;
    s = arena_dup(a, c->buf.data, c->buf.len);
    *ret = val_str(s, (uint32_t)c->buf.len);
    ret->type = s[0] == '[' ? VAL_LIST : s[0] == '{' ? VAL_MAP : VAL_NULL;
    return 0;
}

/* ---- text to Lua ---- */

void
conv_mark_lj(struct calls *c, lua_State *L, bool map)
{
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX,
                      map ? c->map_mt_ref : c->list_mt_ref);
    (void)lua_setmetatable(L, -2);
}

static int conv_push_at(struct calls *c, lua_State *L, const struct val *v,
                        struct json_walk *above, int depth, struct err *e);

static int
conv_push_members(struct calls *c, lua_State *L, struct json_walk *w, int depth,
                  struct err *e)
{
    struct val name, v;
    lua_Integer n = 0;
    int r;

    while ((r = json_walk_next(w, w->map ? &name : NULL, &v, NULL, NULL, e)) >
           0) {
        if (w->map) {
            lua_pushlstring(L, name.u.s, name.len);
            lua_pushvalue(L, -1);
            if (lua_rawget(L, -3) != LUA_TNIL) {
                lua_pop(L, 2); /* a duplicate: the first counts */
                continue;
            }
            lua_pop(L, 1);
        }
        r = conv_push_at(c, L, &v, w, depth + 1, e);
        if (r != 0)
            return r;
        if (w->map)
            lua_rawset(L, -3);
        else
            lua_rawseti(L, -2, ++n);
    }
    return r;
}

/* @param above how the value is to be read: the walk it was found in. */
static int
conv_push_at(struct calls *c, lua_State *L, const struct val *v,
             struct json_walk *above, int depth, struct err *e)
{
    struct json_walk w;

    if (v->type != VAL_LIST && v->type != VAL_MAP) {
        record_push_scalar_lj(L, v, true);
        return 0;
    }
    if (depth >= JSON_DEPTH_LUA_MAX)
        return err_record(e, CAUSE_DECODE,
                          "nested deeper than the %d levels Lua can use",
                          (int)JSON_DEPTH_LUA_MAX);
    luaL_checkstack(L, 6, "value nests too deep");
    json_walk_init(&w, v->u.s, v->len, above->bigint, above->arena);
    w.ext = above->ext;
    lua_newtable(L);
    if (v->type == VAL_LIST)
        conv_mark_lj(c, L, false);
    return conv_push_members(c, L, &w, depth, e);
}

int
conv_push_lj(struct calls *c, lua_State *L, const struct val *v,
             enum json_bigint bigint, bool ext, struct err *e)
{
    struct json_walk w = {.arena = &c->tmp, .bigint = bigint, .ext = ext};
    int top = lua_gettop(L), r;

    r = conv_push_at(c, L, v, &w, 0, e);
    if (r != 0)
        lua_settop(L, top);
    return r;
}
