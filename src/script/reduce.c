/*
 * reduce as an aggregate type: the accumulator is one record, as bytes, so it
 * moves between threads and into checkpoints as it is; only f is in Lua.
 *
 * Of two records the later one (event time, then origin) gives the result its
 * message key, headers, origin and time, so that these are functions of the
 * records alone, as f's result is to be.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/kept.h"
#include "script/calls_impl.h"

enum { LAW_RECORDS = 16 };

struct reduce_ctx {
    struct script *s;
    int func;
    struct law_feed feed;
    uint64_t folded;    /* hash of what the inputs of `feed` were folded to */
    struct arena arena; /* bytes of a result */
};

/* The accumulator; NULL: no record yet. */
static struct kept **
slot_of(const void *acc)
{
    return (struct kept **)(uintptr_t)acc;
}

const struct kept *
script_reduce_get(const struct agg *a, const void *block)
{
    return *slot_of((const char *)block + a->offset);
}

static uint32_t
reduce_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct kept *);
}

static void
reduce_init(const struct agg *a, void *acc)
{
    (void)a;
    *slot_of(acc) = NULL;
}

static void
reduce_fini(const struct agg *a, void *acc)
{
    (void)a;
    free(*slot_of(acc));
    *slot_of(acc) = NULL;
}

static size_t
reduce_heap(const struct agg *a, const void *acc)
{
    (void)a;
    return *slot_of(acc) != NULL ? (*slot_of(acc))->size : 0;
}

static void
reduce_dup(const struct agg *a, const void *acc, void *to)
{
    (void)a;
    *slot_of(to) = *slot_of(acc) != NULL ? kept_dup(*slot_of(acc)) : NULL;
}

/* The handle of the first record; its argument is a light userdata. */
static int
push_first_lj(lua_State *L)
{
    (void)record_push_handle_lj(L, lua_touserdata(L, 1));
    return 1;
}

/* f(first, second) in *ret, its bytes borrowed from these or the arena. */
static int
call_f(struct reduce_ctx *x, const struct rec *first, const struct rec *second,
       struct rec *ret, struct err *e)
{
    struct calls *c = x->s->calls;
    lua_State *L = calls_stack(c);
    int r;

    calls_batch(c, 1);
    lrec_bind(c->batch[0], first, NULL, false);
    calls_push_func(c, x->func);
    lua_pushcfunction(L, push_first_lj);
    lua_pushlightuserdata(L, c->batch[0]);
    r = calls_call(c, 1, 1, e);
    if (r != 0)
        return r;
    calls_bind(c, second, second == c->agg_rec ? c->agg_reader : NULL, false,
               calls_keeps(c, x->func, 1));
    r = calls_call(c, 2, 1, e);
    if (r == 0 && lua_isnil(L, -1)) {
        r = calls_fail(c, x->func, e, "reduce returned nil; return the record");
    } else if (r == 0) {
        r = call_take_record(c, L, -1, "reduce returned", &x->arena, ret, e);
        if (r != 0 && e->cause == CAUSE_USER_ERROR)
            calls_place(c, x->func, e);
        lua_pop(L, 1);
    }
    calls_unbind(c);
    c->batch[0]->gen++;
    if (r == 0 && ret->kind == REC_TOMBSTONE)
        r = calls_fail(c, x->func, e,
                       "reduce returned a tombstone; expected a "
                       "record with fields");
    return r;
}

/* The record with the value `out` that a and b give. */
static struct rec
folded(const struct rec *a, const struct rec *b, const struct rec *out)
{
    struct rec made = kept_cmp(a, b) > 0 ? *a : *b;

    made.val = out->val;
    made.val_len = out->val_len;
    made.kind = out->kind;
    made.flags = (uint8_t)((out->flags & ~(REC_HAS_TS | REC_KEY_JSON)) |
                           (made.flags & (REC_HAS_TS | REC_KEY_JSON)));
    return made;
}

/* Put f(*acc, r) into the accumulator. */
static int
fold(struct reduce_ctx *x, struct kept **acc, const struct rec *r,
     struct err *e)
{
    struct kept *was = *acc;
    struct rec out;
    int rc;

    arena_reset(&x->arena);
    rc = call_f(x, &was->rec, r, &out, e);
    if (rc == 0) {
        struct rec made = folded(&was->rec, r, &out);

        *acc = kept_new(&made, NULL, 0);
        free(was);
    }
    return rc;
}

int
reduce_fold_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct lrec *a, *b;
    struct rec out, made;
    struct err e;

    a = record_check_lj(L, 2, "reduce");
    b = record_check_lj(L, 3, "reduce");
    lua_pushvalue(L, 1);
    (void)record_push_owned_lj(L, a->rec); /* f may change it */
    (void)record_push_owned_lj(L, b->rec);
    lua_call(L, 2, 1);
    lrec_bind(&c->cur, b->rec, NULL, true);
    arena_reset(&c->tmp);
    if (call_take_record(c, L, -1, "reduce returned", &c->tmp, &out, &e) != 0)
        return calls_raise_lj(L, &e);
    made = folded(a->rec, b->rec, &out);
    record_push_owned_lj(L, &made)->readonly = true;
    return 1;
}

static uint64_t
value_hash(const struct kept *k)
{
    return hash_key(k->rec.val, k->rec.val_len);
}

/*
 * Test the laws on what was folded: the records of one key, as f may count on
 * that. They are known as long as the accumulator at hand is the one that was
 * changed last; else its value stands for those before.
 */
static int
test_laws(struct reduce_ctx *x, const struct kept *was, const struct rec *r,
          const struct kept *now, struct err *e)
{
    struct calls *c = x->s->calls;
    int rc = 0;

    if (value_hash(was) != x->folded || x->feed.inputs_ref == 0) {
        law_feed_forget(c, &x->feed);
        rc = law_feed_test(c, &x->feed, NULL, &was->rec, e);
    }
    if (rc == 0 && x->feed.on)
        rc = law_feed_test(c, &x->feed, NULL, r, e);
    x->folded = value_hash(now);
    return rc;
}

/* fold(), testing the laws. */
static int
fold_first(struct reduce_ctx *x, struct kept **acc, const struct rec *r,
           struct err *e)
{
    struct kept *was = kept_dup(*acc);
    int rc = fold(x, acc, r, e);

    if (rc == 0)
        rc = test_laws(x, was, r, *acc, e);
    free(was);
    return rc;
}

static int
reduce_add(const struct agg *a, void *acc, const struct val *args,
           const struct rec *r, struct err *e)
{
    struct reduce_ctx *x = a->ctx;

    (void)args;
    if (*slot_of(acc) != NULL)
        return x->feed.on ? fold_first(x, slot_of(acc), r, e)
                          : fold(x, slot_of(acc), r, e);
    *slot_of(acc) = kept_new(r, NULL, 0);
    return 0;
}

static int
reduce_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct kept **to = slot_of(acc), *other = *slot_of(from);
    int r = 0;

    *slot_of(from) = NULL;
    if (other == NULL)
        return 0;
    if (*to == NULL) {
        *to = other;
        return 0;
    }
    r = fold(a->ctx, to, &other->rec, e);
    free(other);
    return r;
}

static int
reduce_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
              struct err *e)
{
    const struct kept *k = *slot_of(acc);

    (void)a;
    (void)e;
    if (k == NULL) {
        buf_adds(out, "null");
        return 0;
    }
    kept_put_json(k, out);
    *ext = *ext || (k->rec.flags & REC_EXT) != 0;
    return 0;
}

static int
reduce_encode(const struct agg *a, const void *acc, struct buf *out,
              struct err *e)
{
    (void)a;
    (void)e;
    if (*slot_of(acc) != NULL)
        kept_encode(*slot_of(acc), out);
    return 0;
}

static int
reduce_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
              struct err *e)
{
    const char *end = bytes + len;

    if (len == 0)
        return 0;
    *slot_of(acc) = kept_decode(&bytes, end);
    if (*slot_of(acc) != NULL && bytes == end)
        return 0;
    reduce_fini(a, acc);
    return err_set(e, ERR_IO, "damaged record of '%s'", a->name);
}

static const struct agg_type reduce_type = {
    .name = "reduce",
    .size = reduce_size,
    .init = reduce_init,
    .add = reduce_add,
    .merge = reduce_merge,
    .result = reduce_result,
    .encode = reduce_encode,
    .decode = reduce_decode,
    .fini = reduce_fini,
    .heap = reduce_heap,
    .movable = true,
    .dup = reduce_dup,
};

static void
ctx_free(void *ctx)
{
    struct reduce_ctx *x = ctx;

    arena_fini(&x->arena);
    free(x);
}

void
reduce_agg(struct script *s, struct agg *a)
{
    struct reduce_ctx *x = mem_zalloc(sizeof *x);

    x->s = s;
    x->func = opt_func(a->opts, "func");
    arena_init(&x->arena);
    x->feed = (struct law_feed){.law = {.reduce = x->func},
                                .on = true,
                                .max = LAW_RECORDS,
                                .name = a->name,
                                .place = opt_str(a->opts, "place", "")};
    a->type = &reduce_type;
    a->ctx = x;
    a->free_ctx = ctx_free;
}
