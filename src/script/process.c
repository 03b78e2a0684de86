/*
 * Process functions: on_record, on_timer and what their ctx does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/key.h"
#include "core/window.h"
#include "script/process_impl.h"

static const char ctx_magic = 0;

/* ---- ctx ---- */

void
process_check_lj(lua_State *L, const struct script_process *sp)
{
    if (sp == NULL || !sp->active)
        (void)luaL_error(L, "ctx and its state belong to the call that got "
                            "them; they were used after it");
}

static struct script_process *
self_lj(lua_State *L, const char *what)
{
    const struct ctx_box *box = lua_touserdata(L, 1);

    if (box == NULL || lua_rawlen(L, 1) != sizeof *box ||
        box->magic != &ctx_magic)
        (void)luaL_error(L, "%s: call it with a colon, as ctx:%s(...)", what,
                         what);
    process_check_lj(L, box->sp);
    return box->sp;
}

/* The ms at `idx`, an integer or a double that is one. */
static int64_t
ms_lj(lua_State *L, int idx, const char *what)
{
    lua_Integer ms = 0;

    if (lua_isinteger(L, idx))
        return lua_tointeger(L, idx);
    if (lua_type(L, idx) != LUA_TNUMBER)
        (void)luaL_error(L, "%s: expected a time in ms, got %s", what,
                         luaL_typename(L, idx));
    if (!lua_numbertointeger(floor(lua_tonumber(L, idx)), &ms) ||
        (lua_Number)ms != lua_tonumber(L, idx))
        (void)luaL_error(L, "%s: expected whole ms, got %f", what,
                         lua_tonumber(L, idx));
    return ms;
}

static int64_t
in_range(int64_t ts)
{
    if (ts > WINDOW_TIME_MAX)
        return WINDOW_TIME_MAX;
    return ts < -WINDOW_TIME_MAX ? -WINDOW_TIME_MAX : ts;
}

/* ---- keys ---- */

/* The canonical key of the call under way. */
static const char *
current_key(const struct script_process *sp, uint32_t *ret_len)
{
    if (sp->window == NULL)
        return kstate_current(sp->conf.state, ret_len);
    *ret_len = sp->window->key_len;
    return sp->window->key;
}

size_t
process_push_part_lj(lua_State *L, struct calls *c, const char *p,
                     const char *end)
{
    struct buf *b = &c->buf;
    struct val v;
    struct err e;
    size_t n;

    buf_clear(b);
    n = key_part_text(b, p, end);
    switch (n > 0 ? *p : KEY_NULL) {
    case KEY_FALSE:
    case KEY_TRUE:
        lua_pushboolean(L, *p == KEY_TRUE);
        return n;
    case KEY_STR:
        (void)lua_pushlstring(L, b->data, b->len);
        return n;
    case KEY_NUM:
        if (lua_stringtonumber(L, buf_cstr(b)) == 0)
            lua_pushnumber(L, b->data[0] == '-' ? -HUGE_VAL : HUGE_VAL);
        return n;
    case KEY_LIST:
    case KEY_MAP:
        v = val_str(b->data, (uint32_t)b->len);
        v.type = *p == KEY_LIST ? VAL_LIST : VAL_MAP;
        arena_reset(&c->tmp);
        if (conv_push_lj(c, L, &v, BIGINT_FLOAT, true, &e) != 0)
            (void)calls_raise_lj(L, &e);
        return n;
    default:
        lua_pushnil(L);
        return n;
    }
}

static int
ctx_key(lua_State *L)
{
    struct script_process *sp = self_lj(L, "key");
    const struct opt *col = sp->key != NULL ? sp->key->first : NULL;
    uint32_t len;
    const char *p = current_key(sp, &len), *end = p + len;

    if (sp->key != NULL && sp->key->len == 1) {
        (void)process_push_part_lj(L, sp->c, p, end);
        return 1;
    }
    lua_newtable(L);
    for (; col != NULL; col = col->next) {
        p += process_push_part_lj(L, sp->c, p, end);
        lua_setfield(L, -2, opt_str(col, "name", ""));
    }
    return 1;
}

/* The message key of rows: one field gives its text, several an object. */
static void
make_message_key(struct script_process *sp)
{
    const struct opt *col = sp->key->first;
    struct buf *b = &sp->message_key;
    uint32_t len;
    const char *p = current_key(sp, &len), *end = p + len;

    sp->has_key = true;
    buf_clear(b);
    if (sp->key->len == 1) {
        (void)key_part_text(b, p, end);
        return;
    }
    for (; col != NULL; col = col->next) {
        const char *name = opt_str(col, "name", "");

        buf_addc(b, col == sp->key->first ? '{' : ',');
        json_put_str(b, name, strlen(name));
        buf_addc(b, ':');
        p += key_part_json(b, p, end);
    }
    buf_addc(b, '}');
}

static void
set_message_key(struct script_process *sp, struct batch *b, struct rec *r)
{
    r->key = NULL;
    r->key_len = 0;
    r->flags &= (uint8_t)~REC_KEY_JSON;
    if (sp->key == NULL || sp->key->len == 0)
        return;
    if (!sp->has_key)
        make_message_key(sp);
    r->key = arena_dup(&b->arena, sp->message_key.data, sp->message_key.len);
    r->key_len = (uint32_t)sp->message_key.len;
}

/* ---- emitting ---- */

/* Append the record at `idx` to an output; the ms at `idx` + 1 is its time,
 * unless it is nil. */
static void
emit_lj(lua_State *L, struct script_process *sp, struct batch *b, int idx)
{
    struct calls *c = sp->c;
    const struct lrec *lr;
    struct rec out;
    bool valid;
    uint8_t set;
    size_t from = arena_size(&b->arena);

    if (call_take_record(c, L, idx, "emit got", &b->arena, &out,
                         &c->emit_err) != 0)
        (void)calls_raise_lj(L, &c->emit_err);
    if (sp->window != NULL) { /* its records go with it */
        if (out.val != NULL)
            out.val = arena_dup(&b->arena, out.val, out.val_len);
        record_own_meta(&out, &b->arena);
    }
    lr = record_at(L, idx, &valid);
    set = lr != NULL ? lr->set : c->cur.set;
    if (!(set & SET_KEY))
        set_message_key(sp, b, &out);
    if (!lua_isnil(L, idx + 1)) {
        out.ts = ms_lj(L, idx + 1, "emit");
        if (out.ts != in_range(out.ts))
            (void)luaL_error(L, "emit: the time %I is out of range",
                             (LUAI_UACINT)out.ts);
        out.flags |= REC_HAS_TS;
    } else if (!(set & SET_TS) && sp->has_ts) {
        out.ts = in_range(sp->ts);
        out.flags |= REC_HAS_TS;
    }
    *batch_add(b) = out;
    calls_emitted_lj(L, arena_size(&b->arena) - from);
}

static int
ctx_emit(lua_State *L)
{
    struct script_process *sp = self_lj(L, "emit");

    lua_settop(L, 3);
    emit_lj(L, sp, &sp->conf.outs[0], 2);
    return 0;
}

static int
no_output_lj(lua_State *L, const struct script_process *sp, const char *name)
{
    luaL_Buffer b;
    uint32_t i;

    luaL_buffinit(L, &b);
    for (i = 0; i < sp->output_count; i++) {
        luaL_addstring(&b, i > 0 ? ", " : "");
        luaL_addstring(&b, sp->outputs[i]);
    }
    luaL_pushresult(&b);
    return luaL_error(L, "emit_to: no output \"%s\"; %s%s", name,
                      sp->output_count > 0 ? "outputs of the step: "
                                           : "give the step outputs = { ... }",
                      lua_tostring(L, -1));
}

static int
ctx_emit_to(lua_State *L)
{
    struct script_process *sp = self_lj(L, "emit_to");
    const char *name;
    uint32_t i;

    lua_settop(L, 4);
    if (lua_type(L, 2) != LUA_TSTRING)
        return luaL_error(L, "emit_to: expected the name of an output, got %s",
                          luaL_typename(L, 2));
    name = lua_tostring(L, 2);
    for (i = 0; i < sp->output_count; i++)
        if (strcmp(sp->outputs[i], name) == 0)
            break;
    if (i == sp->output_count)
        return no_output_lj(L, sp, name);
    emit_lj(L, sp, &sp->conf.outs[i + 1], 3);
    return 0;
}

/* ---- time ---- */

static int
ctx_timestamp(lua_State *L)
{
    const struct script_process *sp = self_lj(L, "timestamp");

    if (sp->has_ts)
        lua_pushinteger(L, sp->ts);
    else
        lua_pushnil(L);
    return 1;
}

static int
ctx_watermark(lua_State *L)
{
    lua_pushinteger(L, self_lj(L, "watermark")->watermark);
    return 1;
}

static int
ctx_now(lua_State *L)
{
    lua_pushinteger(L, self_lj(L, "now")->now);
    return 1;
}

static int
ctx_clock(lua_State *L)
{
    const struct script_process *sp = self_lj(L, "clock");

    if (!sp->in_timer)
        return luaL_error(L, "clock: there is one in on_timer only");
    lua_pushstring(L, sp->clock == KSTATE_EVENT ? "event" : "processing");
    return 1;
}

static int
ctx_window_start(lua_State *L)
{
    const struct script_process *sp = self_lj(L, "window_start");

    if (!sp->window->bounded)
        lua_pushnil(L);
    else
        lua_pushinteger(L, sp->window->start);
    return 1;
}

static int
ctx_window_end(lua_State *L)
{
    const struct script_process *sp = self_lj(L, "window_end");

    if (!sp->window->bounded)
        lua_pushnil(L);
    else
        lua_pushinteger(L, sp->window->end);
    return 1;
}

static int
register_lj(lua_State *L, enum kstate_clock clock, const char *what)
{
    struct script_process *sp = self_lj(L, what);
    int64_t ts = ms_lj(L, 2, what);

    if (sp->on_timer == 0)
        return luaL_error(L, "%s: the step has no on_timer", what);
    if (clock == KSTATE_EVENT && !sp->conf.event_time)
        return luaL_error(L,
                          "%s: the stream has no event time; add :event_time "
                          "{ ... } after the source",
                          what);
    (void)kstate_timer_add(sp->conf.state, clock, ts);
    return 0;
}

static int
delete_lj(lua_State *L, enum kstate_clock clock, const char *what)
{
    struct script_process *sp = self_lj(L, what);

    (void)kstate_timer_delete(sp->conf.state, clock, ms_lj(L, 2, what));
    return 0;
}

static int
ctx_register_event(lua_State *L)
{
    return register_lj(L, KSTATE_EVENT, "register_event_timer");
}

static int
ctx_register_processing(lua_State *L)
{
    return register_lj(L, KSTATE_PROCESSING, "register_processing_timer");
}

static int
ctx_delete_event(lua_State *L)
{
    return delete_lj(L, KSTATE_EVENT, "delete_event_timer");
}

static int
ctx_delete_processing(lua_State *L)
{
    return delete_lj(L, KSTATE_PROCESSING, "delete_processing_timer");
}

static int
ctx_newindex(lua_State *L)
{
    return luaL_error(L, "ctx cannot be assigned to; keep values in its state");
}

/* Make ctx: userdata whose members are found in a table, without a call. */
static int
open_lj(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"emit", ctx_emit},
        {"emit_to", ctx_emit_to},
        {"key", ctx_key},
        {"timestamp", ctx_timestamp},
        {"watermark", ctx_watermark},
        {"now", ctx_now},
        {"clock", ctx_clock},
        {"register_event_timer", ctx_register_event},
        {"register_processing_timer", ctx_register_processing},
        {"delete_event_timer", ctx_delete_event},
        {"delete_processing_timer", ctx_delete_processing},
        {NULL, NULL},
    };
    static const luaL_Reg window_methods[] = {
        {"emit", ctx_emit},
        {"emit_to", ctx_emit_to},
        {"key", ctx_key},
        {"window_start", ctx_window_start},
        {"window_end", ctx_window_end},
        {"timestamp", ctx_timestamp},
        {"watermark", ctx_watermark},
        {"now", ctx_now},
        {NULL, NULL},
    };
    struct script_process *sp = lua_touserdata(L, 1);

    sp->box = lua_newuserdatauv(L, sizeof *sp->box, 0);
    *sp->box = (struct ctx_box){.magic = &ctx_magic, .sp = sp};
    lua_createtable(L, 0, 4);
    if (sp->on_window != 0) {
        luaL_newlib(L, window_methods);
    } else {
        luaL_newlib(L, methods);
        states_push_lj(L, sp);
        lua_setfield(L, -2, "state");
    }
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, ctx_newindex);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushliteral(L, "ctx");
    lua_setfield(L, -2, "__name");
    (void)lua_setmetatable(L, -2);
    sp->ctx_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

/* ---- from outside ---- */

static void
take_outputs(struct script_process *sp)
{
    const struct opt *list = opt_get(sp->conf.opts, "outputs"), *o;

    sp->outputs =
        mem_zalloc((list != NULL ? list->len + 1 : 1) * sizeof *sp->outputs);
    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next)
        sp->outputs[sp->output_count++] = o->s;
}

int
script_process_new(struct script *s, const struct script_process_conf *conf,
                   struct script_process **ret, struct err *e)
{
    struct script_process *sp = mem_zalloc(sizeof *sp);
    lua_State *L = calls_stack(s->calls);

    sp->conf = *conf;
    sp->s = s;
    sp->c = s->calls;
    sp->ctx_ref = LUA_NOREF;
    sp->on_record = opt_func(conf->opts, "on_record");
    if (sp->on_record == 0)
        sp->on_record = opt_func(conf->opts, "on_left");
    sp->on_right = opt_func(conf->opts, "on_right");
    sp->on_timer = opt_func(conf->opts, "on_timer");
    if (opt_is(conf->opts, "rows", "window"))
        sp->on_window =
            opt_func(opt_at(opt_get(conf->opts, "aggs"), 0), "func");
    sp->key = opt_get(conf->opts, "key");
    sp->watermark = WM_NONE;
    sp->timer = (struct rec){.kind = REC_OBJECT,
                             .val = "{}",
                             .val_len = 2,
                             .wm = WM_NONE,
                             .src = UINT16_MAX,
                             .topic = topic_register(conf->step)};
    sp->handles = mem_zalloc((conf->handle_count + 1u) * sizeof *sp->handles);
    buf_init(&sp->message_key);
    buf_init(&sp->bytes);
    buf_init(&sp->map_key);
    arena_init(&sp->arena);
    take_outputs(sp);
    lua_pushcfunction(L, open_lj);
    lua_pushlightuserdata(L, sp);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        int r = err_set(e, ERR_NOMEM, "state of '%s': %s", conf->step,
                        lua_tostring(L, -1));

        lua_pop(L, 1);
        script_process_free(&sp);
        return r;
    }
    *ret = sp;
    return 0;
}

void
script_process_free(struct script_process **spp)
{
    struct script_process *sp = *spp;
    uint32_t i;

    *spp = NULL;
    if (sp == NULL)
        return;
    if (sp->ctx_ref != LUA_NOREF) {
        /* User code may have kept them, and a sink's close() runs later. */
        sp->box->sp = NULL;
        for (i = 0; i < sp->conf.handle_count; i++)
            sp->handles[i]->sp = NULL;
        luaL_unref(sp->s->L, LUA_REGISTRYINDEX, sp->ctx_ref);
    }
    if (sp->empty != NULL)
        free(sp->empty);
    free(sp->handles);
    free(sp->outputs);
    buf_fini(&sp->message_key);
    buf_fini(&sp->bytes);
    buf_fini(&sp->map_key);
    arena_fini(&sp->arena);
    free(sp);
}

void
script_process_times(struct script_process *sp, int64_t watermark, int64_t now)
{
    sp->watermark = watermark;
    sp->now = now;
}

const char *
script_process_key(struct script_process *sp, uint32_t *ret_len)
{
    *ret_len = 0;
    if (sp->key == NULL || sp->key->len == 0)
        return NULL;
    if (!sp->has_key)
        make_message_key(sp);
    *ret_len = (uint32_t)sp->message_key.len;
    return sp->message_key.data;
}

/* Call the function and its two arguments on the stack. After a failure the
 * outputs are as before. */
static int
call(struct script_process *sp, struct err *e)
{
    struct calls *c = sp->c;
    uint32_t few[8], *before = few, i;
    int r;

    if (sp->output_count >= 8)
        before = mem_alloc((sp->output_count + 1u) * sizeof *before);
    for (i = 0; i <= sp->output_count; i++)
        before[i] = sp->conf.outs[i].n;
    sp->active = true;
    sp->number++;
    sp->has_key = false;
    c->emitted = 0;
    r = calls_call(c, 2, 0, e);
    sp->active = false;
    calls_unbind(c);
    if (r != 0) {
        for (i = 0; i <= sp->output_count; i++)
            sp->conf.outs[i].n = before[i];
        if (sp->raised.code != 0 && e->cause == CAUSE_USER_ERROR &&
            strstr(e->msg, sp->raised.msg) != NULL)
            e->cause = sp->raised.cause;
    }
    sp->raised.code = 0;
    if (before != few)
        free(before);
    return r;
}

int
script_process_record(struct script_process *sp, bool right,
                      const struct rec *r, struct reader *reader, struct err *e)
{
    struct calls *c = sp->c;
    lua_State *L = calls_stack(c);
    int func = right ? sp->on_right : sp->on_record;

    sp->in_timer = false;
    sp->has_ts = (r->flags & REC_HAS_TS) != 0;
    sp->ts = r->ts;
    calls_push_func(c, func);
    calls_bind(c, r, reader, false, calls_keeps(c, func, 0));
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, sp->ctx_ref);
    return call(sp, e);
}

int
script_process_timer(struct script_process *sp, enum kstate_clock clock,
                     int64_t ts, struct err *e)
{
    struct calls *c = sp->c;
    lua_State *L = calls_stack(c);
    int r;

    sp->in_timer = true;
    sp->clock = clock;
    sp->has_ts = true;
    sp->ts = ts;
    sp->timer.ts = in_range(ts);
    sp->timer.flags = REC_HAS_TS;
    lrec_bind(&c->cur, &sp->timer, NULL, true);
    calls_push_func(c, sp->on_timer);
    lua_pushinteger(L, ts);
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, sp->ctx_ref);
    r = call(sp, e);
    if (r != 0 && e->code == ERR_RECORD)
        e->hint[0] = '\0'; /* it would speak of a record */
    return r;
}

/* The list of a window's records; the argument is the step. */
static int
push_records_lj(lua_State *L)
{
    const struct script_process *sp = lua_touserdata(L, 1);
    uint32_t i;

    lua_createtable(L, (int)sp->window->count, 0);
    for (i = 0; i < sp->window->count; i++) {
        (void)record_push_handle_lj(L, sp->c->batch[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

int
script_process_window(struct script_process *sp, const struct script_window *w,
                      struct err *e)
{
    struct calls *c = sp->c;
    lua_State *L = calls_stack(c);
    uint32_t i;
    int r;

    sp->window = w;
    sp->in_timer = false;
    sp->has_ts = true;
    sp->ts = w->end - 1;
    sp->timer.ts = in_range(sp->ts);
    sp->timer.flags = REC_HAS_TS;
    calls_batch(c, w->count);
    for (i = 0; i < w->count; i++)
        lrec_bind(c->batch[i], &w->records[i]->rec, NULL, false);
    calls_push_func(c, sp->on_window);
    lua_pushcfunction(L, push_records_lj);
    lua_pushlightuserdata(L, sp);
    r = calls_call(c, 1, 1, e);
    if (r == 0) {
        lrec_bind(&c->cur, &sp->timer, NULL, true);
        (void)lua_rawgeti(L, LUA_REGISTRYINDEX, sp->ctx_ref);
        r = call(sp, e);
    }
    for (i = 0; i < w->count; i++) {
        c->batch[i]->gen++;
        if (c->batch[i]->held != 0)
            lrec_release(c->batch[i]);
    }
    sp->window = NULL;
    return r;
}

/* ---- split ---- */

/* The value on top of the stack is no name of an output. */
static int
split_error(struct calls *c, int func, const struct opt *names, struct err *e)
{
    lua_State *L = c->s->L;
    const struct opt *n;
    struct buf b;
    int r;

    buf_init(&b);
    if (lua_type(L, -1) == LUA_TSTRING)
        buf_addf(&b, "\"%.60s\"", lua_tostring(L, -1));
    else
        buf_addf(&b, "a %s", luaL_typename(L, -1));
    buf_adds(&b, "; it must return one of");
    for (n = names->first; n != NULL; n = n->next)
        buf_addf(&b, "%s %s", n == names->first ? "" : ",", n->s);
    r = calls_fail(c, func, e, "split returned %s", buf_cstr(&b));
    buf_fini(&b);
    return r;
}

int
script_split(struct script *s, int func, const struct opt *names,
             const struct rec *r, struct reader *reader, uint32_t *ret,
             struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    const struct opt *n = names->first;
    const char *name = NULL;
    uint32_t i = 0;
    size_t len = 0;
    int rc;

    calls_push_func(c, func);
    calls_bind(c, r, reader, true, calls_keeps(c, func, 0));
    rc = calls_call(c, 1, 1, e);
    if (rc == 0) {
        if (lua_type(L, -1) == LUA_TSTRING)
            name = lua_tolstring(L, -1, &len);
        while (n != NULL && (name == NULL || n->len != len ||
                             memcmp(n->s, name, len) != 0)) {
            n = n->next;
            i++;
        }
        if (n == NULL) {
            rc = split_error(c, func, names, e);
        } else {
            *ret = i;
            lua_pop(L, 1);
        }
    }
    calls_unbind(c);
    return rc;
}
