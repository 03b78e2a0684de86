/*
 * Records as Lua sees them: e.field, e["a.b"] = v, pairs(e), tostring(e).
 */
#include <string.h>

#include "script/calls_impl.h"

enum { SHORT_STRING_MAX = 40, PROBES = 16, COLUMNS_MAX = 128 };

/* First block of a record's nodes, bytes: a window may hold very many. */
enum { LREC_BLOCK = 512 };

#define NO_COLUMN UINT32_MAX

/* ---- bindings ---- */

void
lrec_init(struct lrec *lr, struct calls *c)
{
    memset(lr, 0, sizeof *lr);
    lr->c = c;
    tree_init(&lr->tree);
    arena_init(&lr->meta_arena);
    lr->tree.arena.block_size = LREC_BLOCK;
}

/* What is kept for the next record is not counted until it is used. */
static void
forget_held(struct lrec *lr)
{
    lr->c->s->held -= lr->held;
    lr->held = 0;
}

void
lrec_release(struct lrec *lr)
{
    forget_held(lr);
    tree_fini(&lr->tree);
    arena_fini(&lr->meta_arena);
    lr->tree.arena.block_size = LREC_BLOCK;
}

void
lrec_recount_lj(lua_State *L, struct lrec *lr, size_t now)
{
    lr->c->s->held += now - lr->held;
    lr->held = now;
    calls_room_lj(L, 0);
}

void
lrec_fini(struct lrec *lr)
{
    tree_fini(&lr->tree);
    arena_fini(&lr->meta_arena);
    lr->rec = NULL;
}

void
lrec_bind(struct lrec *lr, const struct rec *r, struct reader *reader,
          bool readonly)
{
    if (lr->tree.root != NULL)
        tree_reset(&lr->tree);
    if (lr->meta_arena.head != NULL)
        arena_reset(&lr->meta_arena);
    if (lr->held != 0)
        forget_held(lr);
    lr->set = 0;
    lr->rec = r;
    lr->reader = reader;
    lr->readonly = readonly;
    lr->gen++;
}

int
record_root(struct lrec *lr, struct node **ret, struct err *e)
{
    int r;

    r = tree_load(&lr->tree, lr->rec, e);
    if (r == 0)
        *ret = lr->tree.root;
    return r;
}

int
record_stale_lj(lua_State *L)
{
    return luaL_error(L, "record used after its call; keep s.copy(e) or "
                         "s.table(e)");
}

static const void *
metatable_of(lua_State *L, int idx)
{
    const void *p;

    if (lua_type(L, idx) != LUA_TUSERDATA || !lua_getmetatable(L, idx))
        return NULL;
    p = lua_topointer(L, -1);
    lua_pop(L, 1);
    return p;
}

struct lrec *
record_at(lua_State *L, int idx, bool *ret_valid)
{
    const struct handle *h;
    const void *mt;

    mt = metatable_of(L, idx);
    if (mt == NULL ||
        (mt != calls_of(L)->record_mt && mt != calls_of(L)->owned_mt))
        return NULL;
    h = lua_touserdata(L, idx);
    *ret_valid = h->gen == h->r->gen;
    return h->r;
}

struct lrec *
record_check_lj(lua_State *L, int idx, const char *what)
{
    struct lrec *lr;
    bool valid = true;

    lr = record_at(L, idx, &valid);
    if (lr == NULL)
        (void)luaL_error(L, "%s: expected a record, got %s", what,
                         luaL_typename(L, idx));
    if (!valid)
        (void)record_stale_lj(L);
    return lr;
}

void
record_check_write_lj(lua_State *L, const struct lrec *lr)
{
    if (lr->readonly)
        (void)luaL_error(L, "the record is read-only here; change it in map "
                            "or flat_map, or a copy: s.copy(e)");
    if (lr->rec->kind == REC_TOMBSTONE && lr->rec->val == NULL)
        (void)luaL_error(L, "a tombstone has no fields; return a table, or "
                            "s.tombstone { ... }");
}

/* ---- reading ---- */

void
record_push_scalar_lj(lua_State *L, const struct val *v, bool nulls)
{
    switch (v->type) {
    case VAL_BOOL:
        lua_pushboolean(L, v->u.b);
        return;
    case VAL_INT:
        lua_pushinteger(L, v->u.i);
        return;
    case VAL_DBL:
        lua_pushnumber(L, v->u.d);
        return;
    case VAL_STR:
        (void)lua_pushlstring(L, v->u.s, v->len);
        return;
    case VAL_NULL:
        if (nulls) {
            lua_pushlightuserdata(L, (void *)(uintptr_t)&calls_null);
            return;
        }
        break;
    default:
        break;
    }
    lua_pushnil(L);
}

/* Push the table of views of a record. */
static void
push_views_lj(lua_State *L, struct lrec *lr, int owner)
{
    if (!lr->owned) {
        (void)lua_rawgeti(L, LUA_REGISTRYINDEX, calls_of(L)->views_ref);
    } else if (lua_getiuservalue(L, owner, 1) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        (void)lua_setiuservalue(L, owner, 1);
    }
}

void
record_push_node_lj(lua_State *L, struct lrec *lr, struct node *n, int owner,
                    bool nulls)
{
    struct calls *c = calls_of(L);
    struct view *w;
    struct val v;
    struct err e;

    if (n->type != VAL_LIST && n->type != VAL_MAP) {
        if (node_value(&lr->tree, n, &v, &e) != 0)
            (void)calls_raise_lj(L, &e);
        record_push_scalar_lj(L, &v, nulls);
        return;
    }
    if (node_check_depth(n, &e) != 0)
        (void)calls_raise_lj(L, &e);
    push_views_lj(L, lr, owner);
    if (n->view != 0) {
        (void)lua_rawgeti(L, -1, n->view);
    } else {
        w = lua_newuserdatauv(L, sizeof *w, lr->owned ? 1 : 0);
        w->r = lr;
        w->gen = lr->gen;
        w->node = n;
        view_set_metatable_lj(L);
        if (lr->owned) {
            lua_pushvalue(L, owner);
            (void)lua_setiuservalue(L, -2, 1);
        }
        n->view = lr->owned ? ++lr->views : ++c->views;
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, n->view);
    }
    lua_remove(L, -2);
}

/* Learn the column of a field name that Lua reads. */
static uint32_t
column_learn_lj(lua_State *L, struct calls *c, struct reader *reader,
                const char *name, size_t len, struct key_slot *slot)
{
    struct err e;
    uint32_t column;
    int r;

    if (slot == NULL || len > SHORT_STRING_MAX || c->keys >= COLUMNS_MAX)
        return NO_COLUMN;
    r = reader_column(reader, name, len, &column, &e);
    if (r == ERR_JOBFILE)
        (void)luaL_error(L, "%s", e.msg);
    if (r != 0)
        return NO_COLUMN;
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->keys_ref);
    lua_pushvalue(L, 2);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3); /* keeps the string, and so its address */
    lua_pop(L, 1);
    slot->name = name;
    slot->reader = reader;
    slot->column = column;
    c->keys++;
    return column;
}

/* The reader's column for the name at stack index 2. */
static uint32_t
column_of_lj(lua_State *L, struct calls *c, struct reader *reader,
             const char *name, size_t len)
{
    struct key_slot *slot;
    uintptr_t h = (uintptr_t)name >> 4 ^ (uintptr_t)reader >> 6;
    unsigned i;

    for (i = 0; i < PROBES; i++) {
        slot = &c->key_slots[(h + i) & (KEY_CACHE - 1)];
        if (slot->name == name && slot->reader == reader)
            return slot->column;
        if (slot->name == NULL)
            return column_learn_lj(L, c, reader, name, len, slot);
    }
    return NO_COLUMN;
}

/* Push a field by the reader. @return false if it is no scalar. */
static bool
push_column_lj(lua_State *L, struct lrec *lr, uint32_t column, const char *name)
{
    struct val v;
    struct err e;

    if (reader_get(lr->reader, lr->rec, column, &v, &e) != 0)
        (void)calls_raise_lj(L, &e);
    if (v.type == VAL_LIST || v.type == VAL_MAP)
        return false;
    if (val_is_null(&v))
        lr->c->s->nil_field = name; /* kept alive by calls->keys_ref */
    record_push_scalar_lj(L, &v, false);
    return true;
}

/* The common case, by itself so that it stays small: a scalar that stands in
 * the record's row. @return false if it is another. */
static inline bool
push_row(lua_State *L, const struct rec *r, uint32_t column)
{
    const struct val *v;

    if (r->row == NULL || column >= r->row_n)
        return false;
    v = &r->row[column];
    switch (v->type) {
    case VAL_INT:
        lua_pushinteger(L, v->u.i);
        return true;
    case VAL_STR:
        (void)lua_pushlstring(L, v->u.s, v->len);
        return true;
    case VAL_DBL:
        lua_pushnumber(L, v->u.d);
        return true;
    case VAL_BOOL:
        lua_pushboolean(L, v->u.b);
        return true;
    default:
        return false;
    }
}

/* A field that is found in the value tree. */
static int
index_tree_lj(lua_State *L, struct lrec *lr, const char *name, size_t len)
{
    struct node *n;
    struct err e;
    int r;

    r = record_root(lr, &n, &e);
    if (r == 0)
        r = node_path(&lr->tree, n, name, len, &n, &e);
    if (r < 0)
        return calls_raise_lj(L, &e);
    lrec_count_lj(L, lr);
    if (r == 0)
        lua_pushnil(L);
    else
        record_push_node_lj(L, lr, n, 1, false);
    return 1;
}

static int
record_index(lua_State *L)
{
    const struct handle *h = lua_touserdata(L, 1);
    struct lrec *lr = h->r;
    const char *name;
    uint32_t column;
    size_t len;

    if (h->gen != lr->gen)
        return record_stale_lj(L);
    name = lua_tolstring(L, 2, &len);
    if (name == NULL) {
        lua_pushnil(L);
        return 1;
    }
    if (lr->reader != NULL && !lr->tree.dirty) {
        column = column_of_lj(L, lr->c, lr->reader, name, len);
        if (column != NO_COLUMN && (push_row(L, lr->rec, column) ||
                                    push_column_lj(L, lr, column, name)))
            return 1;
    }
    return index_tree_lj(L, lr, name, len);
}

int
record_has_lj(lua_State *L)
{
    struct lrec *lr;
    struct view *w;
    struct node *n;
    struct err e;
    struct val v;
    const char *name;
    uint32_t column = NO_COLUMN;
    bool valid = true;
    size_t len;
    int r = 0;

    lr = record_at(L, 1, &valid);
    w = lr == NULL ? view_at(L, 1, &valid) : NULL;
    if (!valid)
        return record_stale_lj(L);
    if (lr == NULL && w == NULL)
        return luaL_error(L, "has: expected a record or a map of one, got %s",
                          luaL_typename(L, 1));
    name = luaL_checklstring(L, 2, &len);
    if (lr != NULL && lr->reader != NULL && !lr->tree.dirty)
        column = column_of_lj(L, lr->c, lr->reader, name, len);
    if (column != NO_COLUMN) {
        r = reader_get(lr->reader, lr->rec, column, &v, &e);
        r = r != 0 ? r : v.type != VAL_NIL;
    } else {
        if (lr != NULL)
            r = record_root(lr, &n, &e);
        else
            n = w->node;
        if (r == 0)
            r = node_path(lr != NULL ? &lr->tree : &w->r->tree, n, name, len,
                          &n, &e);
    }
    if (r < 0)
        return calls_raise_lj(L, &e);
    lua_pushboolean(L, r > 0);
    return 1;
}

/* ---- writing ---- */

struct node *
record_node_lj(lua_State *L, struct lrec *lr, int idx)
{
    struct calls *c = calls_of(L);
    struct node *n = NULL;
    struct view *w;
    struct val v;
    struct err e;
    bool valid = true;
    int r;

    if (lua_isnil(L, idx))
        return NULL;
    if (lua_type(L, idx) != LUA_TTABLE && lua_type(L, idx) != LUA_TUSERDATA &&
        lua_type(L, idx) != LUA_TFUNCTION) {
        arena_reset(&c->tmp);
        if (conv_value(c, L, idx, &c->tmp, &v, &e) != 0)
            (void)calls_raise_lj(L, &e);
        return node_new(&lr->tree, &v);
    }
    w = view_at(L, idx, &valid);
    if (w != NULL && valid && w->r == lr && w->node->raw != NULL) {
        r = node_new_text(&lr->tree, w->node->raw, w->node->raw_len,
                          w->node->ext, &n, &e);
    } else {
        buf_clear(&c->buf);
        r = conv_put(c, L, idx, &c->buf, &lr->tree.ext, &e);
        if (r == 0)
            r = node_new_text(
                &lr->tree, arena_dup(&lr->tree.arena, c->buf.data, c->buf.len),
                c->buf.len, true, &n, &e);
    }
    if (r != 0)
        (void)calls_raise_lj(L, &e);
    return n;
}

static int
record_newindex(lua_State *L)
{
    struct handle *h = lua_touserdata(L, 1);
    struct lrec *lr = h->r;
    struct node *root, *child, *old;
    struct view *w;
    struct err e;
    const char *name;
    size_t len;
    bool valid;
    int r;

    if (h->gen != lr->gen)
        return record_stale_lj(L);
    record_check_write_lj(L, lr);
    if (lua_type(L, 2) != LUA_TSTRING && !lua_isinteger(L, 2))
        return luaL_error(L, "a field name is a string, got %s",
                          luaL_typename(L, 2));
    name = lua_tolstring(L, 2, &len);
    if (record_root(lr, &root, &e) != 0)
        return calls_raise_lj(L, &e);
    w = view_at(L, 3, &valid);
    if (w != NULL && w->r == lr &&
        node_path(&lr->tree, root, name, len, &old, &e) > 0 && old == w->node)
        return 0; /* the value that is there already */
    child = record_node_lj(L, lr, 3);
    r = node_set_path(&lr->tree, root, name, len, child, &e);
    if (r != 0)
        return calls_raise_lj(L, &e);
    lrec_count_lj(L, lr);
    return 0;
}

/* ---- the other metamethods ---- */

static int
record_pairs_next(lua_State *L)
{
    struct lrec *lr;
    struct member m;
    struct node *root;
    struct err e;
    uint32_t pos = (uint32_t)lua_tointeger(L, lua_upvalueindex(2));
    int r;

    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(1));
    lr = record_check_lj(L, 1, "pairs");
    r = record_root(lr, &root, &e);
    if (r == 0)
        r = node_next(&lr->tree, root, &pos, &m, &e);
    if (r < 0)
        return calls_raise_lj(L, &e);
    if (r == 0)
        return 0;
    lrec_count_lj(L, lr);
    lua_pushinteger(L, pos);
    lua_replace(L, lua_upvalueindex(2));
    (void)lua_pushlstring(L, m.name, m.len);
    record_push_node_lj(L, lr, m.node, 1, true);
    return 2;
}

static int
record_pairs(lua_State *L)
{
    (void)record_check_lj(L, 1, "pairs");
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, record_pairs_next, 2);
    return 1;
}

static int
record_len(lua_State *L)
{
    return luaL_error(L, "a record has no length; count its fields with "
                         "pairs, or take # of a list in it");
}

static int
record_tostring(lua_State *L)
{
    struct lrec *lr = record_check_lj(L, 1, "tostring");
    struct calls *c = calls_of(L);
    struct err e;
    bool ext = false;

    if (lr->rec->kind == REC_VALUE && !lr->tree.dirty) {
        (void)lua_pushlstring(L, lr->rec->val, lr->rec->val_len);
        return 1;
    }
    buf_clear(&c->buf);
    if (conv_put(c, L, 1, &c->buf, &ext, &e) != 0)
        return calls_raise_lj(L, &e);
    (void)lua_pushlstring(L, c->buf.data, c->buf.len);
    return 1;
}

static int
record_gc(lua_State *L)
{
    struct lrec *lr = &((struct owned *)lua_touserdata(L, 1))->r;

    script_of(L)->held -= lr->held;
    lr->held = 0;
    lrec_fini(lr);
    return 0;
}

/* ---- new records ---- */

static void
set_metatable_lj(lua_State *L)
{
    (void)luaL_getmetatable(L, "streamlua.record");
    (void)lua_setmetatable(L, -2);
}

struct handle *
record_push_handle_lj(lua_State *L, struct lrec *lr)
{
    struct handle *h;

    h = lua_newuserdatauv(L, sizeof *h, 0);
    h->r = lr;
    h->gen = lr->gen;
    set_metatable_lj(L);
    return h;
}

static char *
put_bytes(char **pos, const char *bytes, size_t len)
{
    char *at = *pos;

    memcpy(at, bytes, len);
    *pos += len;
    return at;
}

void
record_own_meta(struct rec *r, struct arena *a)
{
    const struct rec_headers *old = rec_headers(r, a);
    struct rec_headers *h;
    uint32_t i;

    if (r->key != NULL)
        r->key = arena_dup(a, r->key, r->key_len);
    r->headers = NULL;
    if (old == NULL)
        return;
    h = rec_headers_new(a, old->count);
    for (i = 0; i < h->count; i++) {
        h->items[i] = old->items[i];
        h->items[i].name = arena_dup(a, h->items[i].name, h->items[i].name_len);
        if (h->items[i].value != NULL)
            h->items[i].value =
                arena_dup(a, h->items[i].value, h->items[i].value_len);
    }
    r->headers = h;
}

struct lrec *
record_push_owned_lj(lua_State *L, const struct rec *r)
{
    struct owned *o;
    char *p;

    o = lua_newuserdatauv(L, sizeof *o + r->val_len + REC_PAD, 1);
    memset(o, 0, sizeof *o);
    lrec_init(&o->r, calls_of(L));
    o->r.owned = true;
    o->r.own = *r;
    o->r.own.row = NULL;
    o->r.own.row_n = 0;
    o->r.rec = &o->r.own;
    p = (char *)(o + 1);
    if (r->val != NULL)
        o->r.own.val = put_bytes(&p, r->val, r->val_len);
    memset(p, 0, REC_PAD);
    o->r.gen = 1;
    o->h.r = &o->r;
    o->h.gen = 1;
    (void)luaL_getmetatable(L, "streamlua.owned");
    (void)lua_setmetatable(L, -2);
    if (r->key != NULL || r->headers != NULL)
        record_own_meta(&o->r.own, &o->r.meta_arena);
    lrec_count_lj(L, &o->r);
    return &o->r;
}

/* Write the changed fields of `lr` into `ret`. */
static int
take_value(struct calls *c, struct lrec *lr, struct arena *a, struct rec *ret,
           struct err *e)
{
    bool ext = lr->tree.ext;
    int r;

    buf_clear(&c->buf);
    r = node_put(&lr->tree, lr->tree.root, &c->buf, &ext, e);
    if (r != 0)
        return r;
    if (c->buf.len > REC_SIZE_MAX)
        return err_record(e, CAUSE_USER_ERROR, "record above 64 MiB");
    ret->val = arena_dup(a, c->buf.data, c->buf.len);
    ret->val_len = (uint32_t)c->buf.len;
    if (ret->kind != REC_TOMBSTONE)
        ret->kind = REC_OBJECT;
    ret->flags &= (uint8_t) ~(REC_RAW | REC_EXT);
    ret->flags |= (uint8_t)(REC_OWNED | (ext ? REC_EXT : 0u));
    return 0;
}

int
record_take(struct calls *c, struct lrec *lr, const struct rec *base,
            struct arena *a, struct rec *ret, struct err *e)
{
    struct rec out = *lr->rec;
    int r;

    if (lr->tree.dirty) {
        r = take_value(c, lr, a, &out, e);
        if (r != 0)
            return r;
    } else if (lr->owned && out.val != NULL) {
        out.val = arena_dup(a, out.val, out.val_len);
    }
    if (lr->fresh) {
        out.offset = base->offset;
        out.partition = base->partition;
        out.topic = base->topic;
        if (!(lr->set & SET_KEY)) {
            out.key = base->key;
            out.key_len = base->key_len;
            out.flags |= base->flags & REC_KEY_JSON;
        }
        if (!(lr->set & SET_HEADERS))
            out.headers = base->headers;
        if (!(lr->set & SET_TS)) {
            out.ts = base->ts;
            out.flags |= base->flags & REC_HAS_TS;
        }
    }
    if (lr->owned || lr->set != 0)
        record_own_meta(&out, a);
    out.wm = base->wm;
    out.src = base->src;
    out.row = NULL;
    out.row_n = 0;
    *ret = out;
    return 0;
}

/* Push the metatable of records; owned ones have memory to free. */
static const void *
make_metatable_lj(lua_State *L, const char *name, bool owned)
{
    static const luaL_Reg meta[] = {
        {"__index", record_index},       {"__newindex", record_newindex},
        {"__pairs", record_pairs},       {"__len", record_len},
        {"__tostring", record_tostring}, {NULL, NULL},
    };

    (void)luaL_newmetatable(L, name);
    luaL_setfuncs(L, meta, 0);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushliteral(L, "record");
    lua_setfield(L, -2, "__name");
    if (owned) {
        lua_pushcfunction(L, record_gc);
        lua_setfield(L, -2, "__gc");
    }
    return lua_topointer(L, -1);
}

void
record_open(struct calls *c, lua_State *L)
{
    c->owned_mt = make_metatable_lj(L, "streamlua.owned", true);
    lua_pop(L, 1);
    c->record_mt = make_metatable_lj(L, "streamlua.record", false);
    c->handle_mt_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}
