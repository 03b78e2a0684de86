/*
 * Custom aggregators as an aggregate type: the accumulator is a value in the
 * Lua state, C holds the number of its slot (0 = empty, as init() gives it).
 *
 * An add() that fails leaves the accumulator as it was. Where a failure does
 * not end the job (some on_error is "skip"), add() therefore works on the
 * original while the slot holds a copy until it has returned.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/calls_impl.h"

enum { LAW_RECORDS = 64, ACC_HEAP_GUESS = 128 };

struct agg_state {  /* of one Lua state */
    int accs_ref;   /* table slot -> accumulator */
    uint32_t used;  /* highest slot ever given out */
    uint32_t *free; /* slots to give out again */
    size_t free_count, free_cap;
};

struct agg_ctx { /* of one aggregate */
    struct script *s;
    struct law_feed feed;
    bool backup;
    int migrate; /* what is decoded passes through it; 0: it does not */
};

/* One operation, passed to the protected part. */
struct agg_op {
    const struct agg *a;
    struct agg_ctx *x;
    struct calls *c;
    uint64_t *acc, *from;
    const struct val *args;
    const struct rec *rec;
    const char *bytes;
    size_t len;
    bool nothing; /* the function returned nil */
    struct err *e;
};

void
agg_state_free(struct calls *c)
{
    if (c->aggs != NULL)
        free(c->aggs->free);
    free(c->aggs);
    c->aggs = NULL;
}

static uint32_t
acc_size(const struct agg *a)
{
    (void)a;
    return sizeof(uint64_t);
}

static void
acc_init(const struct agg *a, void *acc)
{
    (void)a;
    *(uint64_t *)acc = 0;
}

static void
acc_fini(const struct agg *a, void *acc)
{
    const struct agg_ctx *x = a->ctx;
    struct calls *c = x->s->calls;
    struct agg_state *st;
    uint64_t *slot = acc;
    lua_State *L;

    if (*slot == 0 || c == NULL)
        return;
    st = c->aggs;
    L = calls_stack(c);
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, st->accs_ref);
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)*slot);
    lua_pop(L, 1);
    mem_grow(&st->free, &st->free_cap, st->free_count + 1, sizeof *st->free);
    st->free[st->free_count++] = (uint32_t)*slot;
    *slot = 0;
}

static size_t
acc_heap(const struct agg *a, const void *acc)
{
    (void)a;
    return *(const uint64_t *)acc == 0 ? 0 : ACC_HEAP_GUESS;
}

/* ---- protected parts; stack index 1: the agg_op ---- */

static void
push_func_lj(lua_State *L, int func)
{
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, script_of(L)->funcs_ref);
    (void)lua_rawgeti(L, -1, func);
    lua_remove(L, -2);
}

/* Push the accumulator of a slot; of an empty one what init() gives. */
static void
push_acc_lj(lua_State *L, const struct agg_op *op, uint64_t slot)
{
    if (slot != 0) {
        (void)lua_rawgeti(L, LUA_REGISTRYINDEX, op->c->aggs->accs_ref);
        (void)lua_rawgeti(L, -1, (lua_Integer)slot);
        lua_remove(L, -2);
        return;
    }
    push_func_lj(L, op->x->feed.law.init);
    lua_call(L, 0, 1);
}

/* Pop the value at the top into the accumulator. A nil from init() is kept
 * by leaving the slot empty. */
static void
store_acc_lj(lua_State *L, struct agg_op *op)
{
    struct agg_state *st = op->c->aggs;

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, st->accs_ref);
    lua_insert(L, -2);
    if (*op->acc != 0) {
        lua_rawseti(L, -2, (lua_Integer)*op->acc);
    } else if (st->free_count > 0) {
        lua_rawseti(L, -2, st->free[st->free_count - 1]);
        *op->acc = st->free[--st->free_count];
    } else {
        lua_rawseti(L, -2, st->used + 1);
        *op->acc = ++st->used;
    }
    lua_pop(L, 1);
}

static void
push_arg_lj(lua_State *L, struct agg_op *op, const struct val *v)
{
    struct err e;

    if (v->type == VAL_LIST || v->type == VAL_MAP) {
        arena_reset(&op->c->tmp);
        if (conv_push_lj(op->c, L, v, json_bigint_of(op->rec), true, &e) != 0)
            (void)calls_raise_lj(L, &e);
        return;
    }
    record_push_scalar_lj(L, v, false);
}

/* Stack index 2: the record's handle where there are no args. */
static int
add_lj(lua_State *L)
{
    struct agg_op *op = lua_touserdata(L, 1);
    uint32_t i;

    push_func_lj(L, op->x->feed.law.add);
    push_acc_lj(L, op, *op->acc);
    if (op->x->backup && *op->acc != 0 && lua_istable(L, -1)) {
        pack_copy_lj(L, -1, 0);
        store_acc_lj(L, op);
    }
    if (op->a->nargs == 0)
        lua_pushvalue(L, 2);
    luaL_checkstack(L, (int)op->a->nargs + 8, "too many arguments");
    for (i = 0; i < op->a->nargs; i++)
        push_arg_lj(L, op, &op->args[i]);
    lua_call(L, op->a->nargs == 0 ? 2 : (int)op->a->nargs + 1, 1);
    op->nothing = lua_isnil(L, -1);
    if (op->nothing)
        return luaL_error(L, "add returned nil; return the accumulator");
    store_acc_lj(L, op);
    return 0;
}

static int
merge_lj(lua_State *L)
{
    struct agg_op *op = lua_touserdata(L, 1);

    push_func_lj(L, op->x->feed.law.merge);
    push_acc_lj(L, op, *op->acc);
    push_acc_lj(L, op, *op->from);
    lua_call(L, 2, 1);
    op->nothing = lua_isnil(L, -1);
    if (op->nothing)
        return luaL_error(L, "merge returned nil; return the accumulator");
    store_acc_lj(L, op);
    return 0;
}

static int
result_lj(lua_State *L)
{
    struct agg_op *op = lua_touserdata(L, 1);

    push_func_lj(L, op->x->feed.law.result);
    push_acc_lj(L, op, *op->acc);
    lua_call(L, 1, 1);
    return 1;
}

static int
decode_acc_lj(lua_State *L)
{
    struct agg_op *op = lua_touserdata(L, 1);

    if (pack_push_lj(op->c, L, op->bytes, op->len, op->e) != 0)
        return luaL_error(L, "%s", op->e->msg);
    store_acc_lj(L, op);
    return 0;
}

/* ---- the type ---- */

static struct agg_op
op_of(const struct agg *a, void *acc)
{
    struct agg_ctx *x = a->ctx;

    return (struct agg_op){.a = a, .x = x, .c = x->s->calls, .acc = acc};
}

/* Give an error without a place that of function `func` or the step. */
static int
op_failed(const struct agg_op *op, int func, int r, struct err *e)
{
    if (op->nothing)
        e->where[0] = '\0';
    if (e->where[0] == '\0' && e->cause == CAUSE_USER_ERROR)
        calls_place(op->c, func, e);
    if (e->where[0] == '\0')
        err_where(e, "%s", op->x->feed.place);
    return r;
}

static int
acc_add(const struct agg *a, void *acc, const struct val *args,
        const struct rec *r, struct err *e)
{
    struct agg_op op = op_of(a, acc);
    struct calls *c = op.c;
    lua_State *L = calls_stack(c);
    int rc;

    op.args = args;
    op.rec = r;
    op.e = e;
    lua_pushcfunction(L, add_lj);
    lua_pushlightuserdata(L, &op);
    if (a->nargs == 0)
        calls_bind(c, r, r == c->agg_rec ? c->agg_reader : NULL, true,
                   calls_keeps(c, op.x->feed.law.add, 1));
    rc = calls_call(c, a->nargs == 0 ? 2 : 1, 0, e);
    if (a->nargs == 0)
        calls_unbind(c);
    if (rc != 0)
        return op_failed(&op, op.x->feed.law.add, rc, e);
    return op.x->feed.on ? law_feed_test(c, &op.x->feed, args, r, e) : 0;
}

static int
acc_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct agg_op op = op_of(a, acc);
    lua_State *L = calls_stack(op.c);
    uint64_t *other = from;
    int r;

    if (*other == 0)
        return 0;
    if (*op.acc == 0) { /* init is neutral */
        *op.acc = *other;
        *other = 0;
        return 0;
    }
    op.from = other;
    if (op.x->feed.law.merge == 0) {
        acc_fini(a, from);
        return err_set(e, ERR_INTERNAL, "aggregator %s has no merge",
                       op.x->feed.name);
    }
    lua_pushcfunction(L, merge_lj);
    lua_pushlightuserdata(L, &op);
    r = calls_call(op.c, 1, 0, e);
    acc_fini(a, from);
    return r == 0 ? 0 : op_failed(&op, op.x->feed.law.merge, r, e);
}

static int
acc_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
           struct err *e)
{
    struct agg_op op = op_of(a, (void *)(uintptr_t)acc);
    lua_State *L = calls_stack(op.c);
    int r;

    lua_pushcfunction(L, result_lj);
    lua_pushlightuserdata(L, &op);
    r = calls_call(op.c, 1, 1, e);
    if (r == 0) {
        r = conv_put(op.c, L, -1, out, ext, e);
        lua_pop(L, 1);
    }
    return r == 0 ? 0 : op_failed(&op, op.x->feed.law.result, r, e);
}

static int
acc_encode(const struct agg *a, const void *acc, struct buf *out, struct err *e)
{
    struct agg_op op = op_of(a, (void *)(uintptr_t)acc);
    lua_State *L = calls_stack(op.c);
    int r;

    if (*op.acc == 0)
        return 0;
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, op.c->aggs->accs_ref);
    (void)lua_rawgeti(L, -1, (lua_Integer)*op.acc);
    r = pack_put(op.c, L, -1, out, e);
    lua_pop(L, 2);
    if (r == 0)
        return 0;
    (void)err_context(e, "accumulator of %s", op.x->feed.name);
    return op_failed(&op, op.x->feed.law.add, r, e);
}

/* Stack: 1 the agg_op, 2 the accumulator. */
static int
take_acc_lj(lua_State *L)
{
    store_acc_lj(L, lua_touserdata(L, 1));
    return 0;
}

/* Take what migrate makes of the bytes. */
static int
migrate_acc(struct agg_op *op, const char *bytes, size_t len, struct err *e)
{
    struct calls *c = op->c;
    int func = op->x->migrate;
    struct buf plain;
    int r = migrate_push(c, func, bytes, len, e);

    if (r != 0)
        return r;
    buf_init(&plain);
    r = migrate_put(c, func, false, &plain, e);
    buf_fini(&plain);
    if (r != 0)
        return r;
    lua_pushcfunction(c->s->L, take_acc_lj);
    lua_pushlightuserdata(c->s->L, op);
    lua_rotate(c->s->L, -3, 2);
    return calls_call(c, 2, 0, e);
}

static int
acc_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
           struct err *e)
{
    struct agg_op op = op_of(a, acc);
    lua_State *L = calls_stack(op.c);
    struct err damage;

    if (len == 0)
        return 0;
    if (op.x->migrate != 0)
        return migrate_acc(&op, bytes, len, e);
    op.bytes = bytes;
    op.len = len;
    op.e = &damage;
    err_clear(&damage);
    lua_pushcfunction(L, decode_acc_lj);
    lua_pushlightuserdata(L, &op);
    if (calls_call(op.c, 1, 0, e) == 0)
        return 0;
    if (damage.code != 0)
        *e = damage;
    return e->code;
}

static const struct agg_type custom_type = {
    .name = "custom",
    .size = acc_size,
    .init = acc_init,
    .add = acc_add,
    .merge = acc_merge,
    .result = acc_result,
    .encode = acc_encode,
    .decode = acc_decode,
    .fini = acc_fini,
    .heap = acc_heap,
    .movable = false,
};

void
script_agg_migrate(const struct agg *a, bool on)
{
    struct agg_ctx *x = a->ctx;

    if (a->type == &custom_type)
        x->migrate = on ? opt_func(a->opts, "migrate") : 0;
}

/* ---- making one ---- */

/* Whether some error may be skipped: then add() must be undone. */
static bool
has_skip(const struct opt *o)
{
    const struct opt *m;

    if (o == NULL || (o->type != OPT_MAP && o->type != OPT_LIST))
        return false;
    if (o->type == OPT_MAP && opt_is(o, "on_error", "skip"))
        return true;
    for (m = o->first; m != NULL; m = m->next)
        if (has_skip(m))
            return true;
    return false;
}

static int
accs_open_lj(lua_State *L)
{
    struct agg_state *st = lua_touserdata(L, 1);

    lua_newtable(L);
    st->accs_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static void
ctx_free(void *ctx)
{
    free(ctx);
}

int
script_agg(void *script, struct agg *a, struct err *e)
{
    struct script *s = script;
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    const struct opt *law = opt_get(a->opts, "law");
    const struct opt *args = opt_get(a->opts, "args");
    struct agg_ctx *x;
    int r;

    if (opt_is(a->opts, "fn", "reduce")) {
        reduce_agg(s, a);
        return 0;
    }
    if (c->aggs == NULL) {
        c->aggs = mem_zalloc(sizeof *c->aggs);
        lua_pushcfunction(L, accs_open_lj);
        lua_pushlightuserdata(L, c->aggs);
        r = calls_call(c, 1, 0, e);
        if (r != 0) {
            agg_state_free(c);
            return r;
        }
    }
    x = mem_zalloc(sizeof *x);
    x->s = s;
    x->feed = (struct law_feed){
        .law = {.init = opt_func(a->opts, "init"),
                .add = opt_func(a->opts, "add"),
                .merge = opt_func(a->opts, "merge"),
                .result = opt_func(a->opts, "result"),
                .nargs = args == NULL ? 0 : (uint32_t)args->len},
        .max = LAW_RECORDS,
        .name = a->name,
        .place = opt_str(a->opts, "place", "")};
    x->feed.on = x->feed.law.merge != 0 && opt_bool(law, "ok", true);
    x->backup = has_skip(s->job);
    a->type = &custom_type;
    a->ctx = x;
    a->free_ctx = ctx_free;
    return 0;
}

void
script_agg_record(struct script *s, const struct rec *r, struct reader *reader)
{
    s->calls->agg_rec = r;
    s->calls->agg_reader = reader;
}
