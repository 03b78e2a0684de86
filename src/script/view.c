/*
 * Views: lists and maps inside of a record as Lua sees them.
 *
 * A view stays with its value: when the value is replaced in its record, the
 * view still reads it, and writing through it is an error.
 */
#include "script/calls_impl.h"

struct view *
view_at(lua_State *L, int idx, bool *ret_valid)
{
    struct view *w;
    bool is_view;

    if (lua_type(L, idx) != LUA_TUSERDATA || !lua_getmetatable(L, idx))
        return NULL;
    is_view = lua_topointer(L, -1) == calls_of(L)->view_mt;
    lua_pop(L, 1);
    if (!is_view)
        return NULL;
    w = lua_touserdata(L, idx);
    *ret_valid = w->gen == w->r->gen;
    return w;
}

void
view_set_metatable_lj(lua_State *L)
{
    (void)luaL_getmetatable(L, "streamlua.view");
    (void)lua_setmetatable(L, -2);
}

/* The valid view at index 1. */
static struct view *
view_self_lj(lua_State *L)
{
    struct view *w = lua_touserdata(L, 1);

    if (w->gen != w->r->gen)
        (void)record_stale_lj(L);
    return w;
}

/* Push a node of the view's record. `self` is the view's stack index. */
static void
push_node_lj(lua_State *L, struct view *w, int self, struct node *n, bool nulls)
{
    if (!w->r->owned) {
        record_push_node_lj(L, w->r, n, 0, nulls);
        return;
    }
    (void)lua_getiuservalue(L, self, 1);
    record_push_node_lj(L, w->r, n, lua_gettop(L), nulls);
    lua_remove(L, -2);
}

static int
view_index(lua_State *L)
{
    struct view *w = view_self_lj(L);
    struct node *n = w->node;
    struct tree *t = &w->r->tree;
    struct err e;
    lua_Integer i;
    const char *name;
    size_t len;
    int r = 0;

    if (n->type == VAL_LIST && lua_isinteger(L, 2)) {
        i = lua_tointeger(L, 2);
        r = i < 1 || i > UINT32_MAX ? 0 : node_at(t, n, (uint64_t)i, &n, &e);
    } else if (lua_type(L, 2) == LUA_TSTRING || lua_isinteger(L, 2)) {
        lua_pushvalue(L, 2);
        name = lua_tolstring(L, -1, &len);
        r = node_path(t, n, name, len, &n, &e);
        lua_pop(L, 1);
    }
    if (r < 0)
        return calls_raise_lj(L, &e);
    lrec_count_lj(L, w->r);
    if (r == 0)
        lua_pushnil(L);
    else
        push_node_lj(L, w, 1, n, w->node->type == VAL_LIST);
    return 1;
}

/* Whether the value at index 3 is the one that is there already. */
static bool
is_same(lua_State *L, const struct view *w, struct node *there)
{
    struct view *v;
    bool valid;

    v = view_at(L, 3, &valid);
    return v != NULL && v->r == w->r && v->node == there;
}

static int
list_assign(lua_State *L, struct view *w)
{
    struct node *old, *child;
    struct err e;
    lua_Integer i = lua_tointeger(L, 2);
    int r;

    if (i >= 1 && i < UINT32_MAX) {
        r = node_at(&w->r->tree, w->node, (uint64_t)i, &old, &e);
        if (r < 0)
            return calls_raise_lj(L, &e);
        if (r > 0 && is_same(L, w, old))
            return 0;
    }
    child = record_node_lj(L, w->r, 3);
    r = node_set_at(&w->r->tree, w->node, i, child, &e);
    if (r != 0)
        return calls_raise_lj(L, &e);
    lrec_count_lj(L, w->r);
    return 0;
}

static int
view_newindex(lua_State *L)
{
    struct view *w = view_self_lj(L);
    struct node *old, *child;
    struct err e;
    const char *name;
    size_t len;
    int r;

    record_check_write_lj(L, w->r);
    if (!node_is_attached(&w->r->tree, w->node))
        return luaL_error(L, "this value has left its record; take it from "
                             "the record again");
    if (w->node->type == VAL_LIST && lua_isinteger(L, 2))
        return list_assign(L, w);
    if (lua_type(L, 2) != LUA_TSTRING && !lua_isinteger(L, 2))
        return luaL_error(L, "a field name is a string, got %s",
                          luaL_typename(L, 2));
    name = lua_tolstring(L, 2, &len);
    r = node_path(&w->r->tree, w->node, name, len, &old, &e);
    if (r < 0)
        return calls_raise_lj(L, &e);
    if (r > 0 && is_same(L, w, old))
        return 0;
    child = record_node_lj(L, w->r, 3);
    r = node_set_path(&w->r->tree, w->node, name, len, child, &e);
    if (r != 0)
        return calls_raise_lj(L, &e);
    lrec_count_lj(L, w->r);
    return 0;
}

static int
view_len(lua_State *L)
{
    struct view *w = view_self_lj(L);
    struct err e;
    uint32_t n;

    if (w->node->type != VAL_LIST)
        return luaL_error(L, "a map has no length; count its fields with "
                             "pairs");
    if (node_count(&w->r->tree, w->node, &n, &e) != 0)
        return calls_raise_lj(L, &e);
    lua_pushinteger(L, n);
    return 1;
}

static int
view_pairs_next(lua_State *L)
{
    struct view *w;
    struct member m;
    struct err e;
    uint32_t pos = (uint32_t)lua_tointeger(L, lua_upvalueindex(2));
    int r;

    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(1));
    w = view_self_lj(L);
    r = node_next(&w->r->tree, w->node, &pos, &m, &e);
    if (r < 0)
        return calls_raise_lj(L, &e);
    if (r == 0)
        return 0;
    lrec_count_lj(L, w->r);
    lua_pushinteger(L, pos);
    lua_replace(L, lua_upvalueindex(2));
    if (w->node->type == VAL_LIST)
        lua_pushinteger(L, pos);
    else
        (void)lua_pushlstring(L, m.name, m.len);
    push_node_lj(L, w, 1, m.node, true);
    return 2;
}

static int
view_pairs(lua_State *L)
{
    (void)view_self_lj(L);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, view_pairs_next, 2);
    return 1;
}

static int
view_tostring(lua_State *L)
{
    struct view *w = view_self_lj(L);
    struct calls *c = calls_of(L);
    struct err e;
    bool ext = false;

    buf_clear(&c->buf);
    if (node_put(&w->r->tree, w->node, &c->buf, &ext, &e) != 0)
        return calls_raise_lj(L, &e);
    (void)lua_pushlstring(L, c->buf.data, c->buf.len);
    return 1;
}

void
view_open(struct calls *c, lua_State *L)
{
    static const luaL_Reg meta[] = {
        {"__index", view_index},       {"__newindex", view_newindex},
        {"__len", view_len},           {"__pairs", view_pairs},
        {"__tostring", view_tostring}, {NULL, NULL},
    };

    (void)luaL_newmetatable(L, "streamlua.view");
    luaL_setfuncs(L, meta, 0);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushliteral(L, "view");
    lua_setfield(L, -2, "__name");
    c->view_mt = lua_topointer(L, -1);
    lua_pop(L, 1);
}
