/*
 * s.sink { write = ... }: a sink whose other side is user code.
 *
 * With commit and last_round its target decides a round. Between the barrier
 * of a round and its commit nothing is written into the target: what comes
 * is kept here, up to HELD_MAX records or HELD_BYTES, and flush() waits.
 *
 * | state of such a task | entered by                | write()   | commit() |
 * | open                 | start; a commit that did  | called    | a claim  |
 * | held                 | snapshot of a barrier     | kept      | due      |
 * | ended                | snapshot of the end       | none come | each     |
 * |                      |                           |           | round    |
 * | broken               | a commit that failed      | kept      | never    |
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/calls_impl.h"
#include "script/connector_impl.h"

/* Behind a barrier, before a task is full. */
enum { HELD_MAX = 4096, HELD_BYTES = 16 << 20 };

struct sink {
    int open, write, flush, close, commit, last_round;
    bool checks; /* the target must hold `round` when a task opens */
    uint64_t round;
    const char *place, *step;
};

struct sink_task {
    struct sink *sink;
    struct script *script;
    struct batch batch; /* records since the last write() */
    size_t batch_bytes; /* of their values and keys */
    bool opened;
    bool held, broken; /* of a sink with commit; see above */
};

static int
sink_open(const struct conn_env *env, struct sink **ret, struct err *e)
{
    struct sink *s;

    (void)e;
    s = mem_zalloc(sizeof *s);
    s->open = opt_func(env->opts, "open");
    s->write = opt_func(env->opts, "write");
    s->flush = opt_func(env->opts, "flush");
    s->close = opt_func(env->opts, "close");
    s->commit = opt_func(env->opts, "commit");
    s->last_round = opt_func(env->opts, "last_round");
    s->checks = s->commit != 0 && env->ckpt != NULL;
    s->round = env->ckpt != NULL ? env->ckpt->round : 0;
    s->place = env->place != NULL ? env->place : "";
    s->step = env->step != NULL ? env->step : "";
    *ret = s;
    return 0;
}

static int
sink_task_new(struct sink *s, const struct conn_task *conf,
              struct sink_task **ret, struct err *e)
{
    struct sink_task *t;

    if (conf->script == NULL)
        return err_set(e, ERR_INTERNAL, "a Lua sink without a Lua state");
    t = mem_zalloc(sizeof *t);
    t->sink = s;
    t->script = conf->script;
    batch_init(&t->batch);
    *ret = t;
    return 0;
}

static bool
sink_ready(struct sink_task *t)
{
    return !t->broken &&
           (!t->held || (t->batch.n < HELD_MAX && t->batch_bytes < HELD_BYTES));
}

/* A target may take its time: the watchdog says who holds the job, and
 * interrupts nothing. */
static void
set_patient(struct sink_task *t, bool on)
{
    atomic_store_explicit(&t->script->patient, on, memory_order_relaxed);
}

static int
start(struct sink_task *t, struct err *e)
{
    int r;

    if (t->opened)
        return 0;
    t->opened = true;
    set_patient(t, t->sink->commit != 0);
    r = conn_call(t->script, t->sink->open, -1, e);
    set_patient(t, false);
    return r == 0 ? 0 : conn_error("open", t->sink->place, r, e);
}

/* ---- the target's round ---- */

static int
no_round(lua_State *L, int first, struct err *e)
{
    char got[40];

    if (lua_isinteger(L, first))
        (void)snprintf(got, sizeof got, "%lld",
                       (long long)lua_tointeger(L, first));
    else if (lua_type(L, first) == LUA_TNUMBER)
        (void)snprintf(got, sizeof got, "%.14g", lua_tonumber(L, first));
    else
        (void)snprintf(got, sizeof got, "a %s", luaL_typename(L, first));
    return err_record(e, CAUSE_USER_ERROR,
                      "returned %s; expected the integer that commit() was "
                      "given, or nil (tonumber() makes one of a column's text)",
                      got);
}

/* Judge what last_round() returned: nil, or the round and perhaps a token. */
static int
take_round(struct sink_task *t, int first, struct conn_round *ret,
           struct err *e)
{
    lua_State *L = t->script->L;
    const char *token = NULL;
    size_t len = 0;
    int is_int;
    lua_Integer n;

    memset(ret, 0, sizeof *ret);
    if (lua_isnil(L, first))
        return 0;
    n = lua_tointegerx(L, first, &is_int);
    if (lua_type(L, first) != LUA_TNUMBER || !is_int || n < 0)
        return no_round(L, first, e);
    if (lua_type(L, first + 1) == LUA_TSTRING)
        token = lua_tolstring(L, first + 1, &len);
    else if (!lua_isnil(L, first + 1))
        return err_record(e, CAUSE_USER_ERROR,
                          "returned a %s as the token; expected the string "
                          "that commit() was given, or nil",
                          luaL_typename(L, first + 1));
    if (len >= sizeof ret->token || (token != NULL && strlen(token) != len))
        return err_record(e, CAUSE_USER_ERROR,
                          "returned a token that commit() was never given");
    ret->found = true;
    ret->round = (uint64_t)n;
    if (token != NULL)
        memcpy(ret->token, token, len);
    return 0;
}

static int
sink_last_round(struct sink_task *t, struct conn_round *ret, struct err *e)
{
    struct calls *c = t->script->calls;
    lua_State *L;
    int top, r = start(t, e);

    if (r != 0)
        return r;
    L = calls_stack(c);
    top = lua_gettop(L);
    calls_push_func(c, t->sink->last_round);
    set_patient(t, true);
    r = calls_call(c, 0, 2, e);
    set_patient(t, false);
    if (r == 0) {
        r = take_round(t, top + 1, ret, e);
        if (r != 0)
            calls_place(c, t->sink->last_round, e);
    }
    lua_settop(L, top);
    return r == 0 ? 0 : conn_error("last_round", t->sink->place, r, e);
}

/* Between the start's look and this one another process may have begun. */
static int
check_round(struct sink_task *t, struct err *e)
{
    struct conn_round now;
    int r = sink_last_round(t, &now, e);

    if (r != 0 || now.round == t->sink->round)
        return r;
    (void)err_set(e, ERR_BUSY,
                  "the target of %s has checkpoint %" PRIu64
                  ", this job goes on from %" PRIu64
                  ": another process writes to it",
                  t->sink->step, now.round, t->sink->round);
    err_hint(e, "only one process may run this job");
    err_where(e, "%s", t->sink->place);
    return ERR_BUSY;
}

static int
sink_start(struct sink_task *t, struct err *e)
{
    bool first = !t->opened;
    int r = start(t, e);

    return r == 0 && first && t->sink->checks ? check_round(t, e) : r;
}

struct commit_op {
    struct sink_task *t;
    const struct conn_round *round;
};

/* Arguments: the operation. Calls commit(round, token). */
static int
commit_lj(lua_State *L)
{
    const struct commit_op *op = lua_touserdata(L, 1);

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, calls_of(L)->s->funcs_ref);
    (void)lua_rawgeti(L, -1, op->t->sink->commit);
    lua_pushinteger(L, (lua_Integer)op->round->round);
    (void)lua_pushstring(L, op->round->token);
    lua_call(L, 2, 0);
    return 0;
}

static int
sink_commit(struct sink_task *t, const struct conn_round *round, struct err *e)
{
    struct calls *c = t->script->calls;
    struct commit_op op = {t, round};
    lua_State *L;
    int r;

    if (t->broken)
        return err_set(e, ERR_INTERNAL, "a target is asked again");
    r = start(t, e);
    if (r == 0) {
        L = calls_stack(c);
        lua_pushcfunction(L, commit_lj);
        lua_pushlightuserdata(L, &op);
        set_patient(t, true);
        r = calls_call(c, 1, 0, e);
        set_patient(t, false);
        if (r != 0)
            r = conn_error("commit", t->sink->place, r, e);
    }
    t->broken = r != 0;
    t->held = t->held && t->broken;
    return r;
}

/* ---- records ---- */

static int
sink_write(struct sink_task *t, const struct rec *r, const char *key,
           uint32_t key_len, uint64_t *ret_bytes, struct err *e)
{
    (void)key;
    (void)key_len;
    (void)e;
    (void)batch_add_copy(&t->batch, r);
    t->batch_bytes += r->val_len + r->key_len;
    *ret_bytes = r->val_len;
    return 0;
}

void
calls_batch(struct calls *c, uint32_t n)
{
    if (n <= c->batch_cap)
        return;
    c->batch = mem_realloc(c->batch, n * sizeof(struct lrec *));
    for (; c->batch_cap < n; c->batch_cap++) {
        c->batch[c->batch_cap] = mem_alloc(sizeof(struct lrec));
        lrec_init(c->batch[c->batch_cap], c);
    }
}

/* Arguments: the task. Calls write() with a list of its records. */
static int
write_lj(lua_State *L)
{
    struct sink_task *t = lua_touserdata(L, 1);
    struct calls *c = calls_of(L);
    uint32_t i;

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->s->funcs_ref);
    (void)lua_rawgeti(L, -1, t->sink->write);
    lua_createtable(L, (int)t->batch.n, 0);
    for (i = 0; i < t->batch.n; i++) {
        (void)record_push_handle_lj(L, c->batch[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_call(L, 1, 0);
    return 0;
}

static int
sink_batch_end(struct sink_task *t, struct err *e)
{
    struct calls *c = t->script->calls;
    lua_State *L;
    uint32_t i;
    int r;

    if (t->held || t->broken)
        return 0; /* written when the round in front of it is committed */
    r = sink_start(t, e);
    if (r != 0 || t->batch.n == 0)
        return r;
    L = calls_stack(c);
    calls_batch(c, t->batch.n);
    for (i = 0; i < t->batch.n; i++)
        lrec_bind(c->batch[i], &t->batch.recs[i], NULL, true);
    lua_pushcfunction(L, write_lj);
    lua_pushlightuserdata(L, t);
    r = calls_call(c, 1, 0, e);
    for (i = 0; i < t->batch.n; i++)
        c->batch[i]->gen++;
    calls_unbind(c);
    batch_clear(&t->batch);
    t->batch_bytes = 0;
    return r == 0 ? 0 : conn_error("write", t->sink->place, r, e);
}

static int
sink_flush(struct sink_task *t, struct err *e)
{
    int r;

    if (t->held || t->broken)
        return ERR_AGAIN; /* the slot makes the commit, and asks again */
    r = sink_batch_end(t, e);
    if (r == 0)
        r = conn_call(t->script, t->sink->flush, -1, e);
    return r == 0 ? 0 : conn_error("flush", t->sink->place, r, e);
}

static int
sink_snapshot(struct sink_task *t, uint64_t round, struct buf *out,
              struct err *e)
{
    (void)round;
    (void)out;
    (void)e;
    t->held = t->sink->checks;
    return 0;
}

static void
sink_task_free(struct sink_task **pt)
{
    struct sink_task *t = *pt;

    if (t == NULL)
        return;
    *pt = NULL;
    if (t->opened)
        conn_call_close(t->script, t->sink->close, -1, t->sink->place);
    batch_fini(&t->batch);
    free(t);
}

static void
sink_close(struct sink **ps)
{
    free(*ps);
    *ps = NULL;
}

const struct sink_type script_sink_type = {
    .name = "lua",
    .open = sink_open,
    .task_new = sink_task_new,
    .ready = sink_ready,
    .write = sink_write,
    .batch_end = sink_batch_end,
    .flush = sink_flush,
    .snapshot = sink_snapshot,
    .last_round = sink_last_round,
    .commit = sink_commit,
    .task_free = sink_task_free,
    .close = sink_close,
};
