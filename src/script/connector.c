/*
 * s.source { read = ... }: a source whose other side is user code. Partition i
 * is read by subtask i modulo parallelism; its position is kept as portable
 * bytes from the moment read() returned it, so that nothing user code does
 * later can change it. Here, too, what sources and sinks share (sink.c).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/blob.h"
#include "script/calls_impl.h"
#include "script/connector_impl.h"

enum { POLL_MS_DEFAULT = 10, SNAPSHOT_VERSION = 1 };

int
conn_error(const char *call, const char *place, int r, struct err *e)
{
    if (r == ERR_RECORD) {
        e->code = (e->flags & ERR_RETRIABLE) != 0 ? ERR_UNAVAILABLE : ERR_FAIL;
        (void)err_context(e, "%s", call);
    }
    if (e->where[0] == '\0')
        err_where(e, "%s", place);
    return e->code;
}

int
conn_call(struct script *s, int func, int64_t arg, struct err *e)
{
    struct calls *c = s->calls;

    if (func == 0)
        return 0;
    (void)calls_stack(c);
    calls_push_func(c, func);
    if (arg >= 0)
        lua_pushinteger(s->L, arg);
    return calls_call(c, arg >= 0 ? 1 : 0, 0, e);
}

void
conn_call_close(struct script *s, int func, int64_t arg, const char *place)
{
    struct err e;
    int r;

    script_watch_close(s, true);
    r = conn_call(s, func, arg, &e);
    script_watch_close(s, false);
    if (r != 0)
        log_line(LOG_WARN, "%s: close: %s",
                 e.where[0] != '\0' ? e.where : place, e.msg);
}

/* ---- source ---- */

struct wake {
    conn_wake_f *wake;
    void *arg;
};

/* Where a partition begins after a restore. */
struct start {
    struct buf position; /* packed; empty: none yet */
    int64_t next;
    bool known, ended;
};

struct source {
    int open, read, close; /* numbers of functions */
    uint32_t partitions, parallelism;
    int64_t poll_ms;
    bool bounded;
    uint16_t topic, src;
    const char *place;
    _Atomic bool stopped;
    struct wake *wakes;
    struct start *starts; /* by partition; NULL: a fresh start */
};

struct part {
    uint32_t partition;
    struct buf position; /* packed; empty: none yet */
    int64_t next;        /* ordinal of the next record */
    int64_t due_ms;      /* after {}: not asked again before; monotonic */
    bool opened, discovered, at_end;
    bool ended;    /* asked no more */
    bool finished; /* ended for ever: read() gave nil */
};

struct source_task {
    struct source *source;
    struct script *script;
    struct part *parts;
    struct source_bad *bad; /* of the batch made last */
    size_t bad_cap;
    uint32_t bad_count;
    uint32_t count, added, ended, turn, subtask;
};

static void
source_close(struct source **ps)
{
    struct source *s = *ps;
    uint32_t i;

    if (s == NULL)
        return;
    *ps = NULL;
    for (i = 0; s->starts != NULL && i < s->partitions; i++)
        buf_fini(&s->starts[i].position);
    free(s->starts);
    free(s->wakes);
    free(s);
}

/* One blob: version, count, then partition, ordinal, finished and packed
 * position of each. */
static int
read_blob(struct source *s, const struct buf *blob, struct err *e)
{
    struct blob_reader r = blob_read(blob);
    uint64_t version = blob_get(&r, 1), n = blob_get(&r, 4);

    for (; version == SNAPSHOT_VERSION && n > 0 && !r.bad; n--) {
        uint64_t p = blob_get(&r, 4);
        struct start *at;
        const char *bytes;
        size_t len;

        if (!r.bad && p >= s->partitions) {
            err_set(e, ERR_JOBFILE,
                    "the checkpoint has partition %u of the source, which has "
                    "%u now: its position would be lost",
                    (unsigned)p, (unsigned)s->partitions);
            err_hint(e,
                     "set partitions=%u or more, or start anew with "
                     "--fresh",
                     (unsigned)p + 1);
            return ERR_JOBFILE;
        }
        at = &s->starts[r.bad ? 0 : p];
        at->next = (int64_t)blob_get(&r, 8);
        at->ended = blob_get(&r, 1) != 0;
        bytes = blob_get_bytes(&r, &len);
        r.bad = r.bad || at->known;
        buf_add(&at->position, bytes, len);
        at->known = true;
    }
    if (version != SNAPSHOT_VERSION || !blob_done(&r))
        return err_set(e, ERR_IO,
                       "the positions of the source in the checkpoint are "
                       "damaged, or of another version of streamlua");
    return 0;
}

static int
source_restore(struct source *s, const struct conn_env *env, struct err *e)
{
    uint32_t i;
    int r = 0;

    if (env->restored == NULL)
        return 0;
    s->starts = mem_zalloc((s->partitions + 1u) * sizeof *s->starts);
    for (i = 0; i < env->restored->count && r == 0; i++)
        r = read_blob(s, &env->restored->blobs[i], e);
    if (r != 0) {
        (void)err_context(e, "source %s", env->step);
        err_where(e, "%s", s->place);
    }
    return r;
}

static int
source_open(const struct conn_env *env, struct source **ret, struct err *e)
{
    struct source *s = mem_zalloc(sizeof *s);
    int r;

    s->open = opt_func(env->opts, "open");
    s->read = opt_func(env->opts, "read");
    s->close = opt_func(env->opts, "close");
    s->partitions = (uint32_t)opt_int(env->opts, "partitions", 1);
    s->poll_ms = opt_int(env->opts, "poll_ms", POLL_MS_DEFAULT);
    s->bounded = opt_bool(env->cli, "bounded", false);
    s->parallelism = env->parallelism;
    s->topic = topic_register(env->step);
    s->src = env->src;
    s->place = env->place != NULL ? env->place : "";
    s->wakes = mem_zalloc(env->parallelism * sizeof *s->wakes);
    r = source_restore(s, env, e);
    if (r != 0)
        source_close(&s);
    else
        *ret = s;
    return r;
}

static void
init_part(const struct source *s, struct part *p, uint32_t partition)
{
    const struct start *at = s->starts != NULL ? &s->starts[partition] : NULL;

    p->partition = partition;
    buf_init(&p->position);
    if (at == NULL)
        return;
    buf_add(&p->position, at->position.data, at->position.len);
    p->next = at->next;
    p->finished = at->ended;
    p->discovered = !at->known;
}

static int
source_task_new(struct source *s, const struct conn_task *conf,
                struct source_task **ret, struct err *e)
{
    struct source_task *t;
    uint32_t i;

    if (conf->script == NULL)
        return err_set(e, ERR_INTERNAL, "a Lua source without a Lua state");
    t = mem_zalloc(sizeof *t);
    t->source = s;
    t->script = conf->script;
    t->subtask = conf->subtask;
    if (conf->subtask < s->partitions)
        t->count = (s->partitions - conf->subtask - 1) / s->parallelism + 1;
    t->parts = mem_zalloc((t->count + 1u) * sizeof *t->parts);
    for (i = 0; i < t->count; i++)
        init_part(s, &t->parts[i], conf->subtask + i * s->parallelism);
    s->wakes[conf->subtask] = (struct wake){conf->wake, conf->wake_arg};
    *ret = t;
    return 0;
}

/* A call of read(), passed to its protected part. */
struct read_op {
    struct source_task *t;
    struct part *part;
    uint32_t max;
};

static int
read_lj(lua_State *L)
{
    const struct read_op *op = lua_touserdata(L, 1);
    const struct part *p = op->part;
    struct calls *c = calls_of(L);
    struct err e;

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->s->funcs_ref);
    (void)lua_rawgeti(L, -1, op->t->source->read);
    if (p->position.len == 0)
        lua_pushnil(L);
    else if (pack_push_lj(c, L, p->position.data, p->position.len, &e) != 0)
        return luaL_error(L, "%s", e.msg);
    lua_pushinteger(L, op->max);
    lua_pushinteger(L, p->partition);
    lua_call(L, 3, LUA_MULTRET);
    return lua_gettop(L) - 2;
}

/* Say that the last record of the batch is none. */
static void
add_bad(struct source_task *t, struct batch *b, const struct err *e)
{
    struct source_bad *bad;

    mem_grow(&t->bad, &t->bad_cap, t->bad_count + 1u, sizeof *t->bad);
    bad = &t->bad[t->bad_count++];
    bad->index = b->n - 1;
    bad->cause = e->cause;
    bad->msg = arena_strdup(&b->arena, e->msg);
    bad->where = arena_strdup(&b->arena, e->where);
}

/* Turn element `i` of the list at `list` into a record of `b`. */
static void
take_element(struct source_task *t, struct part *p, int list, lua_Integer i,
             struct batch *b, struct err *e)
{
    struct source *s = t->source;
    struct calls *c = t->script->calls;
    struct rec base, out;
    int r;

    memset(&base, 0, sizeof base);
    base.wm = WM_NONE;
    base.kind = REC_OBJECT;
    base.topic = s->topic;
    base.partition = (int32_t)p->partition;
    base.offset = p->next;
    base.src = s->src;
    lrec_bind(&c->cur, &base, NULL, true);
    (void)lua_rawgeti(t->script->L, list, i);
    r = call_take_record(c, t->script->L, -1, "a record is", &b->arena, &out,
                         e);
    lua_pop(t->script->L, 1);
    calls_unbind(c);
    c->cur.rec = NULL;
    if (r != 0) { /* costs this element only, by the policy */
        (void)err_context(e, "records[%d]", (int)i);
        calls_place(c, s->read, e);
        out = base;
        out.kind = REC_TOMBSTONE; /* no value to show */
    }
    out.topic = base.topic;
    out.partition = base.partition;
    out.offset = base.offset;
    *batch_add(b) = out;
    p->next++;
    if (r != 0)
        add_bad(t, b, e);
}

/* Keep the position, the second of `n` results at `first`. */
static int
take_position(struct source_task *t, struct part *p, int first, int n,
              struct err *e)
{
    lua_State *L = t->script->L;
    int r;

    if (n < 2)
        return 0; /* not given: it stays where it was */
    buf_clear(&p->position);
    if (lua_isnil(L, first + 1))
        return 0;
    r = pack_put(t->script->calls, L, first + 1, &p->position, e);
    return r == 0 ? 0 : err_context(e, "position");
}

/* Judge the `n` results of read() at stack index `first`. */
static int
take_results(struct source_task *t, struct part *p, uint32_t max, int first,
             int n, struct batch *b, struct err *e)
{
    lua_State *L = t->script->L;
    lua_Integer i, count;

    if (n == 0 || lua_isnil(L, first)) {
        p->finished = true;
        return 0;
    }
    if (!lua_istable(L, first))
        return err_record(e, CAUSE_USER_ERROR,
                          "returned a %s; expected a list of records and the "
                          "position, or nil at the end of input",
                          luaL_typename(L, first));
    count = (lua_Integer)lua_rawlen(L, first);
    if (count > max)
        return err_record(e, CAUSE_USER_ERROR,
                          "returned %lld records, asked for at most %u",
                          (long long)count, (unsigned)max);
    if (count == 0) {
        lua_pushnil(L);
        if (lua_next(L, first) != 0) {
            lua_pop(L, 2);
            return err_record(e, CAUSE_USER_ERROR,
                              "returned a table with named fields; expected "
                              "a list of records");
        }
    }
    for (i = 1; i <= count; i++)
        take_element(t, p, first, i, b, e);
    return take_position(t, p, first, n, e);
}

static int
part_read(struct source_task *t, struct part *p, struct batch *b, uint32_t max,
          struct err *e)
{
    struct calls *c = t->script->calls;
    lua_State *L = calls_stack(c);
    struct read_op op = {t, p, max};
    int first = lua_gettop(L) + 1, r;

    if (!p->opened) {
        p->opened = true;
        r = conn_call(t->script, t->source->open, p->partition, e);
        if (r != 0)
            return conn_error("open", t->source->place, r, e);
    }
    lua_pushcfunction(L, read_lj);
    lua_pushlightuserdata(L, &op);
    r = calls_call(c, 1, LUA_MULTRET, e);
    if (r == 0)
        r = take_results(t, p, max, first, lua_gettop(L) - first + 1, b, e);
    lua_settop(L, first - 1);
    if (r != 0 && e->cause == CAUSE_USER_ERROR && e->where[0] == '\0')
        calls_place(c, t->source->read, e);
    return r == 0 ? 0 : conn_error("read", t->source->place, r, e);
}

static void
say_batch(const struct source_task *t, const struct batch *b,
          struct source_event *ev)
{
    uint32_t i;

    ev->kind = SOURCE_BATCH;
    ev->bad = t->bad;
    ev->bad_count = t->bad_count;
    for (i = 0; i < b->n; i++)
        ev->bytes += b->recs[i].val_len + b->recs[i].key_len;
}

/* Ms until a partition may be asked again, -1 if all ended. */
static int64_t
next_due(const struct source_task *t, int64_t now_ms)
{
    int64_t left, wait = -1;
    uint32_t k;

    for (k = 0; k < t->count; k++) {
        if (t->parts[k].ended)
            continue;
        left = t->parts[k].due_ms - now_ms;
        if (left < 0)
            left = 0;
        if (wait < 0 || left < wait)
            wait = left;
    }
    return wait;
}

/* Ask the partitions in turn, beginning behind the last one asked. */
static int
poll_parts(struct source_task *t, struct batch *b, uint32_t max,
           struct source_event *ev, struct err *e)
{
    int64_t now_ms = clock_mono_ms();
    struct part *p;
    uint32_t k;
    int r;

    for (k = 0; k < t->count; k++) {
        ev->part = t->turn;
        p = &t->parts[t->turn];
        t->turn = (t->turn + 1) % t->count;
        if (p->ended || p->due_ms > now_ms)
            continue;
        r = p->finished ? 0 : part_read(t, p, b, max, e);
        if (r != 0)
            return r;
        if (b->n > 0) {
            p->at_end = false;
            say_batch(t, b, ev);
            return 0;
        }
        p->due_ms = now_ms + t->source->poll_ms;
        if (p->finished || t->source->bounded) {
            p->ended = true;
            t->ended++;
        }
        if (p->ended || !p->at_end) {
            ev->kind = p->ended ? SOURCE_PART_END : SOURCE_AT_END;
            p->at_end = true;
            return 0;
        }
    }
    ev->kind = SOURCE_NONE;
    ev->wait_ms = next_due(t, now_ms);
    return 0;
}

static int
source_poll(struct source_task *t, struct batch *batch, uint32_t max,
            struct source_event *ev, struct err *e)
{
    assert(max > 0);
    memset(ev, 0, sizeof *ev);
    ev->wait_ms = -1;
    t->bad_count = 0;
    /* Relaxed: the flag is all that is told. */
    if (atomic_load_explicit(&t->source->stopped, memory_order_relaxed) ||
        t->ended == t->count) {
        ev->kind = SOURCE_END;
        return 0;
    }
    if (t->added < t->count) {
        ev->kind = SOURCE_ADDED;
        ev->topic = t->source->topic;
        ev->partition = (int32_t)t->parts[t->added].partition;
        ev->discovered = t->parts[t->added].discovered;
        ev->part = t->added++;
        return 0;
    }
    return poll_parts(t, batch, max, ev, e);
}

static void
source_stop(struct source *s)
{
    uint32_t i;

    atomic_store_explicit(&s->stopped, true, memory_order_relaxed);
    for (i = 0; i < s->parallelism; i++)
        if (s->wakes[i].wake != NULL)
            s->wakes[i].wake(s->wakes[i].arg);
}

static int
source_snapshot(struct source_task *t, struct buf *out, struct err *e)
{
    const struct part *p;
    uint32_t i;

    (void)e;
    blob_put(out, SNAPSHOT_VERSION, 1);
    blob_put(out, t->count, 4);
    for (i = 0; i < t->count; i++) {
        p = &t->parts[i];
        blob_put(out, p->partition, 4);
        blob_put(out, (uint64_t)p->next, 8);
        /* A source that --bounded ended is asked again by the next run. */
        blob_put(out, p->finished, 1);
        blob_put_bytes(out, p->position.data, p->position.len);
    }
    return 0;
}

static void
source_task_free(struct source_task **pt)
{
    struct source_task *t = *pt;
    uint32_t i;

    if (t == NULL)
        return;
    *pt = NULL;
    t->source->wakes[t->subtask].wake = NULL;
    for (i = 0; i < t->count; i++) {
        if (t->parts[i].opened)
            conn_call_close(t->script, t->source->close, t->parts[i].partition,
                            t->source->place);
        buf_fini(&t->parts[i].position);
    }
    free(t->parts);
    free(t->bad);
    free(t);
}

const struct source_type script_source_type = {
    .name = "lua",
    .open = source_open,
    .task_new = source_task_new,
    .poll = source_poll,
    .stop = source_stop,
    .snapshot = source_snapshot,
    .task_free = source_task_free,
    .close = source_close,
};
