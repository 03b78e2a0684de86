/*
 * Functions of module `streamlua` about records and values (API.md 2).
 */
#include <string.h>

#include "base/hash.h"
#include "format/time_text.h"
#include "script/calls_impl.h"

/* ---- whole values ---- */

/* Push a value's text as plain data. */
static int
push_text_lj(lua_State *L, const char *text, size_t len,
             enum json_bigint bigint, bool ext)
{
    struct calls *c = calls_of(L);
    struct val v;
    struct err e;

    arena_reset(&c->tmp);
    if (json_value(text, len, bigint, &c->tmp, &v, &e) != 0 ||
        conv_push_lj(c, L, &v, bigint, ext, &e) != 0)
        return calls_raise_lj(L, &e);
    return 1;
}

static int
table_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct lrec *lr;
    struct view *w;
    struct err e;
    bool valid = true, ext = false;

    lr = record_at(L, 1, &valid);
    w = lr == NULL ? view_at(L, 1, &valid) : NULL;
    if (!valid)
        return record_stale_lj(L);
    if (lr == NULL && w == NULL) {
        luaL_checktype(L, 1, LUA_TTABLE);
        lua_settop(L, 1);
        return 1;
    }
    if (lr == NULL)
        lr = w->r;
    if (lr->rec->kind == REC_TOMBSTONE && w == NULL && lr->rec->val == NULL) {
        lua_newtable(L);
        return 1;
    }
    if (w != NULL && w->node->raw != NULL)
        return push_text_lj(L, w->node->raw, w->node->raw_len, lr->tree.bigint,
                            w->node->ext);
    if (w == NULL && !lr->tree.dirty && lr->rec->kind != REC_TEXT &&
        lr->rec->kind != REC_VALUE)
        return push_text_lj(L, lr->rec->val, lr->rec->val_len,
                            json_bigint_of(lr->rec),
                            (lr->rec->flags & REC_EXT) != 0);
    buf_clear(&c->buf);
    if (conv_put(c, L, 1, &c->buf, &ext, &e) != 0)
        return calls_raise_lj(L, &e);
    return push_text_lj(L, c->buf.data, c->buf.len, json_bigint_of(lr->rec),
                        ext);
}

static int
copy_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct lrec *lr, *copy;
    struct rec r;
    struct err e;

    lr = record_check_lj(L, 1, "copy");
    arena_reset(&c->tmp);
    if (record_take(c, lr, lr->rec, &c->tmp, &r, &e) != 0)
        return calls_raise_lj(L, &e);
    copy = record_push_owned_lj(L, &r);
    copy->fresh = lr->fresh;
    copy->set = lr->set;
    return 1;
}

/* Push an owned record of the text in c->buf. */
static int
push_new_lj(lua_State *L, enum rec_kind kind, bool ext)
{
    struct calls *c = calls_of(L);
    struct rec r;

    memset(&r, 0, sizeof r);
    r.kind = (uint8_t)kind;
    r.wm = WM_NONE;
    r.flags = (uint8_t)(REC_OWNED | (ext ? REC_EXT : 0u));
    r.val = c->buf.len > 0 ? c->buf.data : NULL;
    r.val_len = (uint32_t)c->buf.len;
    record_push_owned_lj(L, &r)->fresh = true;
    return 1;
}

/* Append `"name":value` of the pair at the top of the stack. */
static void
row_member_lj(lua_State *L, lua_Integer i, bool *ext)
{
    struct calls *c = calls_of(L);
    struct err e;
    const char *name;
    size_t len;

    if (!lua_istable(L, -1))
        (void)luaL_error(L, "row: entry %d: expected { name, value }, got %s",
                         (int)i, luaL_typename(L, -1));
    if (lua_rawgeti(L, -1, 1) != LUA_TSTRING)
        (void)luaL_error(L, "row: entry %d: expected a name, got %s", (int)i,
                         luaL_typename(L, -1));
    name = lua_tolstring(L, -1, &len);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 2) != LUA_TNIL)
        (void)luaL_error(L, "row: two fields are called \"%s\"", name);
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, 2);
    if (lua_rawgeti(L, -2, 2) != LUA_TNIL) {
        if (c->buf.len > 1)
            buf_addc(&c->buf, ',');
        json_put_str(&c->buf, name, len);
        buf_addc(&c->buf, ':');
        *ext = *ext || !json_utf8_ok(name, len);
        if (conv_put(c, L, -1, &c->buf, ext, &e) != 0)
            (void)calls_raise_lj(L, &e);
        if (c->buf.len > REC_SIZE_MAX)
            (void)luaL_error(L, "row: record above 64 MiB");
    }
    lua_pop(L, 2);
}

static int
row_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    lua_Integer i, n;
    bool ext = false;

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_newtable(L); /* names so far */
    n = (lua_Integer)lua_rawlen(L, 1);
    buf_clear(&c->buf);
    buf_addc(&c->buf, '{');
    for (i = 1; i <= n; i++) {
        (void)lua_rawgeti(L, 1, i);
        row_member_lj(L, i, &ext);
        lua_pop(L, 1);
    }
    buf_addc(&c->buf, '}');
    return push_new_lj(L, REC_OBJECT, ext);
}

static int
tombstone_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct err e;
    bool ext = false;

    buf_clear(&c->buf);
    if (!lua_isnoneornil(L, 1)) {
        if (conv_put(c, L, 1, &c->buf, &ext, &e) != 0)
            return calls_raise_lj(L, &e);
        if (c->buf.data[0] != '{')
            return luaL_error(L,
                              "tombstone: expected a table of fields, got "
                              "%s",
                              luaL_typename(L, 1));
    }
    return push_new_lj(L, REC_TOMBSTONE, ext);
}

static int
list_lj(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    conv_mark_lj(calls_of(L), L, false);
    return 1;
}

static int
map_lj(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    conv_mark_lj(calls_of(L), L, true);
    return 1;
}

/* ---- the message around the record ---- */

static int
key_lj(lua_State *L)
{
    const struct rec *r = record_check_lj(L, 1, "key")->rec;

    if (r->key == NULL)
        lua_pushnil(L);
    else if (r->flags & REC_KEY_JSON)
        return push_text_lj(L, r->key, r->key_len, json_bigint_of(r), false);
    else
        (void)lua_pushlstring(L, r->key, r->key_len);
    return 1;
}

static int
timestamp_lj(lua_State *L)
{
    const struct rec *r = record_check_lj(L, 1, "timestamp")->rec;

    if (r->flags & REC_HAS_TS)
        lua_pushinteger(L, r->ts);
    else
        lua_pushnil(L);
    return 1;
}

static int
headers_lj(lua_State *L)
{
    struct lrec *lr = record_check_lj(L, 1, "headers");
    const struct rec_headers *h = rec_headers(lr->rec, &lr->meta_arena);
    uint32_t i, n = h == NULL ? 0 : h->count;

    lua_createtable(L, (int)n, 0);
    for (i = 0; i < n; i++) {
        lua_createtable(L, 2, 0);
        (void)lua_pushlstring(L, h->items[i].name, h->items[i].name_len);
        lua_rawseti(L, -2, 1);
        if (h->items[i].value != NULL) {
            (void)lua_pushlstring(L, h->items[i].value, h->items[i].value_len);
            lua_rawseti(L, -2, 2);
        }
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int
origin_lj(lua_State *L)
{
    struct lrec *lr = record_check_lj(L, 1, "origin");

    if (lr->fresh) {
        lua_pushnil(L); /* not read from anywhere */
        return 1;
    }
    lua_pushstring(L, topic_name(lr->rec->topic));
    lua_pushinteger(L, lr->rec->partition);
    lua_pushinteger(L, lr->rec->offset);
    return 3;
}

static int
is_tombstone_lj(lua_State *L)
{
    lua_pushboolean(L, record_check_lj(L, 1, "is_tombstone")->rec->kind ==
                           REC_TOMBSTONE);
    return 1;
}

/* The record at index 1, made ready for a change of its coordinates. */
static struct lrec *
change_lj(lua_State *L, const char *what, uint8_t bit)
{
    struct lrec *lr = record_check_lj(L, 1, what);

    if (lr->readonly)
        (void)luaL_error(L, "%s: the record is read-only here", what);
    if (lr->rec != &lr->own) {
        lr->own = *lr->rec;
        lr->rec = &lr->own;
    }
    lr->set |= bit;
    return lr;
}

static int
set_key_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct lrec *lr;
    struct err e;
    const char *s;
    size_t len;
    bool ext = false;

    lua_settop(L, 2);
    buf_clear(&c->buf);
    if (!lua_isnil(L, 2) && lua_type(L, 2) != LUA_TSTRING &&
        conv_put(c, L, 2, &c->buf, &ext, &e) != 0)
        return calls_raise_lj(L, &e);
    if (ext)
        return luaL_error(L, "set_key: NaN, Infinity and bytes that are no "
                             "UTF-8 have no JSON form");
    lr = change_lj(L, "set_key", SET_KEY);
    lr->own.flags &= (uint8_t)~REC_KEY_JSON;
    lr->own.key = NULL;
    lr->own.key_len = 0;
    if (lua_isnil(L, 2))
        return 0;
    if (lua_type(L, 2) == LUA_TSTRING) {
        s = lua_tolstring(L, 2, &len);
    } else {
        s = c->buf.data;
        len = c->buf.len;
        lr->own.flags |= REC_KEY_JSON;
    }
    if (len > KEY_SIZE_MAX)
        return luaL_error(L, "set_key: key above 64 KiB");
    lr->own.key = arena_dup(&lr->meta_arena, s, len);
    lr->own.key_len = (uint32_t)len;
    lrec_count_lj(L, lr);
    return 0;
}

static int
set_timestamp_lj(lua_State *L)
{
    struct lrec *lr;
    lua_Integer ms = 0;

    lua_settop(L, 2);
    if (!lua_isnil(L, 2)) {
        if (lua_type(L, 2) != LUA_TNUMBER)
            return luaL_error(L, "set_timestamp: expected ms, got %s",
                              luaL_typename(L, 2));
        ms = luaL_checkinteger(L, 2);
    }
    lr = change_lj(L, "set_timestamp", SET_TS);
    lr->own.ts = ms;
    lr->own.flags &= (uint8_t)~REC_HAS_TS;
    if (!lua_isnil(L, 2))
        lr->own.flags |= REC_HAS_TS;
    return 0;
}

static int
set_header_lj(lua_State *L)
{
    const struct rec_headers *old;
    struct rec_headers *h;
    struct rec_header *item;
    struct lrec *lr;
    const char *name, *value = NULL;
    size_t name_len, value_len = 0;
    uint32_t i, n;

    lua_settop(L, 3);
    name = luaL_checklstring(L, 2, &name_len);
    if (!lua_isnil(L, 3))
        value = luaL_checklstring(L, 3, &value_len);
    if (name_len > KEY_SIZE_MAX || value_len > REC_SIZE_MAX)
        return luaL_error(L, "set_header: name above 64 KiB, or value above "
                             "64 MiB");
    lr = change_lj(L, "set_header", SET_HEADERS);
    old = rec_headers(&lr->own, &lr->meta_arena);
    n = old == NULL ? 0 : old->count;
    h = rec_headers_new(&lr->meta_arena, n + 1);
    h->count = 0;
    for (i = 0; i < n; i++)
        if (old->items[i].name_len != name_len ||
            memcmp(old->items[i].name, name, name_len) != 0)
            h->items[h->count++] = old->items[i];
    if (value != NULL) {
        item = &h->items[h->count++];
        item->name = arena_dup(&lr->meta_arena, name, name_len);
        item->name_len = (uint32_t)name_len;
        item->value = arena_dup(&lr->meta_arena, value, value_len);
        item->value_len = (uint32_t)value_len;
    }
    lr->own.headers = h->count > 0 ? h : NULL;
    lrec_count_lj(L, lr);
    return 0;
}

/* ---- texts ---- */

static void
check_json_lj(lua_State *L, const char *call)
{
    if (strcmp(luaL_checkstring(L, 1), "json") != 0)
        (void)luaL_error(L, "%s: unknown format \"%s\"; allowed: json", call,
                         lua_tostring(L, 1));
}

static int
encode_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct buf plain;
    struct err e;
    bool ext = false;
    int r = 0;

    check_json_lj(L, "encode");
    luaL_checkany(L, 2);
    buf_clear(&c->buf);
    if (conv_put(c, L, 2, &c->buf, &ext, &e) != 0)
        return calls_raise_lj(L, &e);
    buf_init(&plain);
    if (ext) {
        r = json_put_plain(&plain, c->buf.data, c->buf.len, NAN_ERROR,
                           UTF8_ERROR, &e);
        buf_clear(&c->buf);
        buf_add(&c->buf, plain.data, plain.len);
    }
    buf_fini(&plain);
    if (r != 0)
        return luaL_error(L, "encode: %s", e.msg);
    (void)lua_pushlstring(L, c->buf.data, c->buf.len);
    return 1;
}

static int
decode_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct rec r;
    struct err e;
    struct val v;
    const char *text;
    size_t len;

    check_json_lj(L, "decode");
    text = luaL_checklstring(L, 2, &len);
    arena_reset(&c->tmp);
    text = arena_dup(&c->tmp, text, len);
    memset(&r, 0, sizeof r);
    if (json_check(text, len, true, &r, &e) != 0 ||
        json_value(r.val, r.val_len, BIGINT_ERROR, &c->tmp, &v, &e) != 0 ||
        conv_push_lj(c, L, &v, BIGINT_ERROR, false, &e) != 0)
        return luaL_error(L, "decode: %s", e.msg);
    return 1;
}

static int
parse_time_lj(lua_State *L)
{
    size_t len;
    const char *text = luaL_checklstring(L, 1, &len);
    int64_t ms;

    if (time_text_parse(text, len, &ms) != 0)
        return luaL_error(L, "parse_time: \"%s\" is no RFC 3339 time", text);
    lua_pushinteger(L, ms);
    return 1;
}

static int
format_time_lj(lua_State *L)
{
    char text[TIME_TEXT_MAX];
    size_t len;

    len = time_text_format(luaL_checkinteger(L, 1), text);
    (void)lua_pushlstring(L, text, len);
    return 1;
}

static int
hash_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct view *w;
    struct val v;
    struct err e;
    bool valid;

    luaL_checkany(L, 1);
    arena_reset(&c->tmp);
    if (conv_value(c, L, 1, &c->tmp, &v, &e) != 0)
        return calls_raise_lj(L, &e);
    w = view_at(L, 1, &valid);
    if (w != NULL)
        v.bigint = (uint8_t)w->r->tree.bigint;
    buf_clear(&c->buf);
    if (json_key_encode(&c->buf, &v, &e) != 0)
        return luaL_error(L, "hash: %s", e.msg);
    lua_pushinteger(L, (lua_Integer)hash_key(c->buf.data, c->buf.len));
    return 1;
}

static int
retriable_tostring(lua_State *L)
{
    lua_pushliteral(L, "message");
    (void)lua_rawget(L, 1);
    return 1;
}

/* An error value: error(s.retriable("...")). */
static int
retriable_lj(lua_State *L)
{
    (void)luaL_checkstring(L, 1);
    lua_settop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "message");
    (void)luaL_getmetatable(L, "streamlua.retriable");
    (void)lua_setmetatable(L, -2);
    return 1;
}

void
helpers_open(struct calls *c, lua_State *L, int module)
{
    static const luaL_Reg funcs[] = {
        {"has", record_has_lj},
        {"table", table_lj},
        {"copy", copy_lj},
        {"row", row_lj},
        {"tombstone", tombstone_lj},
        {"list", list_lj},
        {"map", map_lj},
        {"key", key_lj},
        {"timestamp", timestamp_lj},
        {"headers", headers_lj},
        {"origin", origin_lj},
        {"is_tombstone", is_tombstone_lj},
        {"set_key", set_key_lj},
        {"set_timestamp", set_timestamp_lj},
        {"set_header", set_header_lj},
        {"encode", encode_lj},
        {"decode", decode_lj},
        {"parse_time", parse_time_lj},
        {"format_time", format_time_lj},
        {"hash", hash_lj},
        {"retriable", retriable_lj},
        {NULL, NULL},
    };

    lua_pushvalue(L, module);
    luaL_setfuncs(L, funcs, 0);
    lua_pop(L, 1);
    (void)luaL_newmetatable(L, "streamlua.retriable");
    lua_pushcfunction(L, retriable_tostring);
    lua_setfield(L, -2, "__tostring");
    c->retriable_mt = lua_topointer(L, -1);
    lua_pop(L, 1);
}
