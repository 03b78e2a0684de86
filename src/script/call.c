/*
 * Calls of filter, map, flat_map and value functions; the watchdog's view.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/calls_impl.h"

/* When a call that cannot be interrupted is reported: so long behind its
 * timeout, and how often. */
#define HELD_NS INT64_C(1000000000)
#define HELD_AGAIN_NS INT64_C(10000000000)

int
script_filter(struct script *s, int func, const struct rec *r,
              struct reader *reader, bool *ret, struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    int rc;

    calls_push_func(c, func);
    calls_bind(c, r, reader, true, calls_keeps(c, func, 0));
    rc = calls_call(c, 1, 1, e);
    if (rc == 0) {
        *ret = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    calls_unbind(c);
    return rc;
}

/* ---- records as results ---- */

static int
take_error(const char *what, const char *got, struct err *e)
{
    return err_record(e, CAUSE_USER_ERROR,
                      "%s %s; expected a record, a map of one, or a table "
                      "with named fields",
                      what, got);
}

/* A record of the JSON text in c->buf that inherits from `base`. */
static int
take_text(struct calls *c, const char *what, bool ext, struct arena *a,
          struct rec *ret, struct err *e)
{
    if (c->buf.data[0] != '{')
        return take_error(what, c->buf.data[0] == '[' ? "a list" : "no map", e);
    if (c->buf.len > REC_SIZE_MAX)
        return err_record(e, CAUSE_USER_ERROR, "record above 64 MiB");
    ret->val = arena_dup(a, c->buf.data, c->buf.len);
    ret->val_len = (uint32_t)c->buf.len;
    ret->flags &= (uint8_t)~REC_EXT;
    ret->flags |= (uint8_t)(REC_OWNED | (ext ? REC_EXT : 0u));
    return 0;
}

static int
take_view(struct calls *c, struct view *w, const char *what, struct arena *a,
          struct rec *ret, struct err *e)
{
    struct node *n = w->node;
    bool ext = w->r->tree.ext;
    int r;

    if (n->type == VAL_MAP && n->raw != NULL && !w->r->owned &&
        !w->r->tree.dirty) {
        ret->val = n->raw;
        ret->val_len = n->raw_len;
        return 0;
    }
    buf_clear(&c->buf);
    r = node_put(&w->r->tree, n, &c->buf, &ext, e);
    return r == 0 ? take_text(c, what, ext, a, ret, e) : r;
}

int
call_take_record(struct calls *c, lua_State *L, int idx, const char *what,
                 struct arena *a, struct rec *ret, struct err *e)
{
    const struct rec *base = c->cur.rec;
    struct rec out = *base;
    struct lrec *lr;
    struct view *w;
    bool valid = true, ext = false;
    char got[64];
    int r;

    lr = record_at(L, idx, &valid);
    w = lr == NULL ? view_at(L, idx, &valid) : NULL;
    if (!valid)
        return err_record(e, CAUSE_USER_ERROR,
                          "record used after its call; keep s.copy(e) or "
                          "s.table(e)");
    if (lr != NULL)
        return record_take(c, lr, base, a, ret, e);
    out.kind = REC_OBJECT;
    out.flags &= (uint8_t)~REC_RAW;
    out.row = NULL;
    out.row_n = 0;
    if (w != NULL) {
        r = take_view(c, w, what, a, &out, e);
    } else if (lua_istable(L, idx)) {
        buf_clear(&c->buf);
        r = conv_put(c, L, idx, &c->buf, &ext, e);
        if (r == 0)
            r = take_text(c, what, ext, a, &out, e);
    } else {
        (void)snprintf(got, sizeof got, "a %s", luaL_typename(L, idx));
        return take_error(what, got, e);
    }
    if (r != 0)
        return r;
    if (c->cur.set != 0)
        record_own_meta(&out, a);
    *ret = out;
    return 0;
}

int
script_map(struct script *s, int func, const struct rec *r,
           struct reader *reader, struct arena *a, struct rec *out,
           struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    int rc;

    calls_push_func(c, func);
    calls_bind(c, r, reader, false, calls_keeps(c, func, 0));
    rc = calls_call(c, 1, 1, e);
    if (rc == 0 && lua_isnil(L, -1)) {
        rc = calls_fail(c, func, e,
                        "map returned nil; return the record, or "
                        "use filter or flat_map");
    } else if (rc == 0) {
        rc = call_take_record(c, L, -1, "map returned", a, out, e);
        if (rc != 0 && e->cause == CAUSE_USER_ERROR)
            calls_place(c, func, e);
        lua_pop(L, 1);
    }
    calls_unbind(c);
    return rc;
}

/* The function `emit` that flat_map functions get. */
static int
emit_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct rec out;
    size_t from;

    if (c->emit == NULL)
        return luaL_error(L, "emit used after its call");
    lua_settop(L, 1);
    from = arena_size(&c->emit->arena);
    if (call_take_record(c, L, 1, "emit got", &c->emit->arena, &out,
                         &c->emit_err) != 0)
        return calls_raise_lj(L, &c->emit_err);
    *batch_add(c->emit) = out;
    calls_emitted_lj(L, arena_size(&c->emit->arena) - from);
    return 0;
}

int
script_flat_map(struct script *s, int func, const struct rec *r,
                struct reader *reader, struct batch *out, struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    uint32_t before = out->n;
    int rc;

    calls_push_func(c, func);
    calls_bind(c, r, reader, false, calls_keeps(c, func, 0));
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->emit_ref);
    c->emit = out;
    c->emitted = 0;
    rc = calls_call(c, 2, 1, e);
    c->emit = NULL;
    if (rc == 0 && !lua_isnil(L, -1))
        rc = calls_fail(c, func, e,
                        "flat_map returned a value; it must call "
                        "emit(r) for each record");
    else if (rc == 0)
        lua_pop(L, 1);
    if (rc != 0)
        out->n = before;
    calls_unbind(c);
    return rc;
}

/* ---- values as results ---- */

/* Note which functions are keys of key_by. */
static void
find_keys(struct calls *c)
{
    const struct opt *steps = opt_get(c->s->job, "steps"), *step, *col;
    const struct opt *key;
    int func;

    (void)lua_rawgeti(c->s->L, LUA_REGISTRYINDEX, c->s->funcs_ref);
    c->is_key_count = (int)lua_rawlen(c->s->L, -1) + 1;
    lua_pop(c->s->L, 1);
    c->is_key = mem_zalloc((size_t)c->is_key_count);
    for (step = steps == NULL ? NULL : steps->first; step != NULL;
         step = step->next) {
        key = opt_get(step, "key");
        for (col = key == NULL ? NULL : key->first; col != NULL;
             col = col->next) {
            func = opt_func(col, "func");
            if (func > 0 && func < c->is_key_count)
                c->is_key[func] = 1;
        }
    }
}

int
script_value(struct script *s, int func, const struct rec *r,
             struct reader *reader, struct arena *a, struct val *ret,
             struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    int rc;

    if (c->is_key == NULL)
        find_keys(c);
    calls_push_func(c, func);
    calls_bind(c, r, reader, true, calls_keeps(c, func, 0));
    rc = calls_call(c, 1, 2, e);
    if (rc == 0 && !lua_isnil(L, -1) && func < c->is_key_count &&
        c->is_key[func]) {
        rc = calls_fail(c, func, e,
                        "a key function returns one value, got "
                        "two; use key_by { {\"a\", f}, "
                        "{\"b\", g} }");
    } else if (rc == 0) {
        rc = conv_value(c, L, -2, a, ret, e);
        if (rc != 0 && e->cause == CAUSE_USER_ERROR)
            calls_place(c, func, e);
        lua_pop(L, 2);
    }
    calls_unbind(c);
    return rc;
}

int
script_value_with(struct script *s, int func, const struct rec *r,
                  struct reader *reader, int64_t second, struct arena *a,
                  struct val *ret, struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    int rc;

    calls_push_func(c, func);
    calls_bind(c, r, reader, true, calls_keeps(c, func, 0));
    lua_pushinteger(L, second);
    rc = calls_call(c, 2, 1, e);
    if (rc == 0) {
        rc = conv_value(c, L, -1, a, ret, e);
        if (rc != 0 && e->cause == CAUSE_USER_ERROR)
            calls_place(c, func, e);
        lua_pop(L, 1);
    }
    calls_unbind(c);
    return rc;
}

int
script_call_index(void *script, int func, int64_t arg, struct arena *a,
                  struct val *ret, struct err *e)
{
    struct calls *c = ((struct script *)script)->calls;
    lua_State *L = calls_stack(c);
    int rc;

    calls_push_func(c, func);
    lua_pushinteger(L, arg);
    rc = calls_call(c, 1, 1, e);
    if (rc != 0)
        return rc;
    rc = conv_value(c, L, -1, a, ret, e);
    if (rc != 0 && e->cause == CAUSE_USER_ERROR)
        calls_place(c, func, e);
    lua_pop(L, 1);
    return rc;
}

void
call_open_lj(struct calls *c, lua_State *L)
{
    lua_pushcfunction(L, emit_lj);
    c->emit_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* ---- the watchdog ---- */

bool
script_watch(struct script *s, int64_t now_ns)
{
    uint32_t seq;

    /* Relaxed: only the number itself is looked at. */
    seq = atomic_load_explicit(&s->call_seq, memory_order_relaxed);
    if (seq != s->watch_seq || (seq & 1u) == 0) {
        s->watch_seq = seq;
        s->watch_since = (seq & 1u) != 0 ? now_ns : 0;
        s->watch_said = 0;
        return false;
    }
    if (now_ns - s->watch_since <= s->call_timeout_ns)
        return false;
    /* Relaxed: a late look interrupts, or spares, by a tick. */
    if (!atomic_load_explicit(&s->patient, memory_order_relaxed))
        script_interrupt(s);
    return true;
}

const char *
script_held(struct script *s, int64_t now_ns, int64_t *ret_ns)
{
    int64_t held = now_ns - s->watch_since;

    if (s->watch_since == 0 || held < s->call_timeout_ns + HELD_NS ||
        (s->watch_said != 0 && now_ns - s->watch_said < HELD_AGAIN_NS))
        return NULL;
    s->watch_said = now_ns;
    *ret_ns = held;
    return script_step(s) != NULL ? script_step(s) : "a Lua function";
}
