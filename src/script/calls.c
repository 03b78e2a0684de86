/*
 * What all calls into user code share: the stack they work on, the record
 * they bind, how their errors are told.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/calls_impl.h"

/* What a call may emit before it counts: a batch takes memory in blocks of up
 * to 1 MiB. And what is kept of the buffer in which texts are made. */
enum { EMIT_FREE = 2 << 20, BUF_KEPT = 4 << 20 };

const char calls_null = 0;

lua_State *
calls_stack(struct calls *c)
{
    lua_State *L = c->s->L;

    if (c->base < 0) {
        c->base = lua_gettop(L);
        (void)lua_checkstack(L, 2 * LUA_MINSTACK);
        lua_pushcfunction(L, script_msgh);
        (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->s->funcs_ref);
        (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->handles_ref);
    }
    return L;
}

void
calls_push_func(struct calls *c, int func)
{
    (void)lua_rawgeti(c->s->L, c->base + 2, func);
}

/* Fill the table of handles with new ones; those that user code kept stay as
 * they are, for ever invalid. */
static int
renew_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct handle *h;
    int i;

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->handles_ref);
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->handle_mt_ref);
    for (i = 0; i < HANDLES; i++) {
        h = lua_newuserdatauv(L, sizeof *h, 0);
        h->r = &c->cur;
        h->gen = 0;
        lua_pushvalue(L, 2);
        (void)lua_setmetatable(L, -2);
        c->handles[i] = h;
        lua_rawseti(L, 1, i + 1);
    }
    return 0;
}

static void
renew_handles(struct calls *c)
{
    lua_State *L = c->s->L;

    lua_pushcfunction(L, renew_lj);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

bool
calls_keeps(struct calls *c, int func, unsigned param)
{
    lua_State *L = c->s->L;

    if (c->keeps == NULL) {
        c->keeps_count = (int)lua_rawlen(L, c->base + 2) + 1;
        c->keeps = mem_zalloc((size_t)c->keeps_count);
    }
    if (func >= c->keeps_count)
        return true;
    if (c->keeps[func] == 0) {
        calls_push_func(c, func);
        c->keeps[func] = keeps_param(L, param) ? 2 : 1;
        lua_pop(L, 1);
    }
    return c->keeps[func] == 2;
}

void
calls_bind(struct calls *c, const struct rec *r, struct reader *reader,
           bool readonly, bool keeps)
{
    struct handle *h;

    lrec_bind(&c->cur, r, reader, readonly);
    if (c->kept && ++c->next_handle == HANDLES) {
        c->next_handle = 0;
        renew_handles(c);
    }
    c->kept = keeps;
    h = c->handles[c->next_handle];
    h->gen = c->cur.gen;
    (void)lua_rawgeti(c->s->L, c->base + 3, c->next_handle + 1);
}

void
calls_unbind(struct calls *c)
{
    lua_State *L = c->s->L;

    c->cur.gen++;
    if (c->buf.cap > BUF_KEPT)
        buf_fini(&c->buf);
    if (c->views == 0)
        return;
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->views_ref);
    for (; c->views > 0; c->views--) {
        lua_pushnil(L);
        lua_rawseti(L, -2, c->views);
    }
    lua_pop(L, 1);
}

int
calls_call(struct calls *c, int nargs, int nresults, struct err *e)
{
    lua_State *L = c->s->L;
    bool retriable = false;
    int r;

    script_enter(c->s);
    r = lua_pcall(L, nargs, nresults, c->base + 1);
    script_leave(c->s);
    if (r == LUA_OK && c->bad.code == 0)
        return 0;
    if (r != LUA_OK) {
        if (lua_istable(L, -1) && lua_getmetatable(L, -1)) {
            retriable = lua_topointer(L, -1) == c->retriable_mt;
            lua_pop(L, 1);
        }
        (void)script_take_error(c->s, e);
        e->flags |= retriable ? (unsigned)ERR_RETRIABLE : 0;
    }
    lua_settop(L, c->base + CALLS_SLOTS);
    if (c->bad.code != 0) {
        *e = c->bad;
        c->bad.code = 0;
    }
    return ERR_RECORD;
}

/* Emergency collections of Lua's allocator call no finalisers, so records that
 * are garbage would keep what C holds for them: it is looked for here, before
 * the cap is met, whenever half of the room that was left is taken. */
void
calls_room_lj(lua_State *L, size_t more)
{
    struct script *s = script_of(L);
    size_t used = script_memory(s) + s->held + more, room;

    if (used <= s->memory_max && s->held <= s->held_collect)
        return;
    (void)lua_gc(L, LUA_GCCOLLECT);
    used = script_memory(s) + s->held + more;
    room = used < s->memory_max ? s->memory_max - used : 0;
    s->held_collect = s->held + room / 2;
    if (room > 0)
        return;
    script_note_place(s);
    (void)luaL_error(L, "not enough memory");
}

void
calls_emitted_lj(lua_State *L, size_t bytes)
{
    struct calls *c = calls_of(L);

    c->emitted += bytes + sizeof(struct rec);
    if (c->emitted > EMIT_FREE)
        calls_room_lj(L, c->emitted);
}

int
calls_raise_lj(lua_State *L, const struct err *e)
{
    struct calls *c = calls_of(L);

    if (c->bad.code == 0 &&
        (e->cause == CAUSE_DECODE || e->cause == CAUSE_BIGINT))
        c->bad = *e;
    return luaL_error(L, "%s", e->msg);
}

void
calls_place(struct calls *c, int func, struct err *e)
{
    lua_State *L = c->s->L;
    lua_Debug ar;
    char place[ERR_WHERE_MAX];

    calls_push_func(c, func);
    if (!lua_isfunction(L, -1)) {
        lua_pop(L, 1);
        return;
    }
    memset(&ar, 0, sizeof ar);
    (void)lua_getinfo(L, ">S", &ar);
    if (strcmp(ar.what, "C") == 0)
        return;
    ar.currentline = ar.linedefined;
    script_place(c->s, &ar, place, sizeof place);
    err_where(e, "%s", place);
}

int
calls_fail(struct calls *c, int func, struct err *e, const char *fmt, ...)
{
    char msg[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    (void)err_record(e, CAUSE_USER_ERROR, "%s", msg);
    calls_place(c, func, e);
    lua_settop(c->s->L, c->base + CALLS_SLOTS);
    return ERR_RECORD;
}

/* ---- opening ---- */

static int
null_tostring(lua_State *L)
{
    lua_pushstring(L,
                   lua_touserdata(L, 1) == &calls_null ? "null" : "userdata");
    return 1;
}

/* All light userdata share one metatable; s.null is the only one jobs see. */
static void
open_null_lj(lua_State *L, int module)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)&calls_null);
    lua_createtable(L, 0, 3);
    lua_pushcfunction(L, null_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushliteral(L, "null");
    lua_setfield(L, -2, "__name");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    (void)lua_setmetatable(L, -2);
    lua_setfield(L, module, "null");
}

/* The marks of s.list and s.map; field `list` is what tree.c asks for. */
static int
open_mark_lj(lua_State *L, bool list, const void **ret)
{
    lua_createtable(L, 0, 1);
    lua_pushboolean(L, list);
    lua_setfield(L, -2, "list");
    *ret = lua_topointer(L, -1);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

static void
open_handles_lj(struct calls *c, lua_State *L)
{
    lua_createtable(L, HANDLES, 0);
    c->handles_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushcfunction(L, renew_lj);
    lua_call(L, 0, 0);
    lua_newtable(L);
    c->views_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L);
    c->keys_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

int
calls_open(struct script *s, int module, struct err *e)
{
    lua_State *L = s->L;
    struct calls *c;

    (void)e;
    c = mem_zalloc(sizeof *c);
    s->calls = c;
    c->s = s;
    c->base = -1;
    lrec_init(&c->cur, c);
    c->cur.gen = 1;
    buf_init(&c->buf);
    arena_init(&c->tmp);
    record_open(c, L);
    view_open(c, L);
    open_null_lj(L, module);
    c->list_mt_ref = open_mark_lj(L, true, &c->list_mt);
    c->map_mt_ref = open_mark_lj(L, false, &c->map_mt);
    open_handles_lj(c, L);
    call_open_lj(c, L);
    law_open_lj(c, L);
    helpers_open(c, L, module);
    return 0;
}

void
calls_close(struct script *s)
{
    struct calls *c = s->calls;
    uint32_t i;

    if (c == NULL)
        return;
    s->calls = NULL;
    agg_state_free(c);
    for (i = 0; i < c->batch_cap; i++) {
        lrec_fini(c->batch[i]);
        free(c->batch[i]);
    }
    free(c->batch);
    free(c->is_key);
    free(c->keeps);
    lrec_fini(&c->cur);
    buf_fini(&c->buf);
    arena_fini(&c->tmp);
    free(c);
}
