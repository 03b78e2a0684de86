/*
 * route: what leaves a chain, into the lanes of the next one.
 *
 * Forward and rebalance copy whole batches; a hash edge of records evaluates
 * the key and scatters; a hash edge of partials scatters by the hash they
 * carry. What is gathered is handed on when it is large, when the subtask
 * has no more input, before every mark, and at the latest after the buffer
 * timeout.
 */
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "op/key_eval.h"
#include "op/route.h"

enum { ROUTE_RECORDS = 512, ROUTE_PARTIALS = 1024 };

struct target {
    struct op_out *lane;
    struct batch batch;
    struct partials *partials;
};

struct op_route {
    struct op op;
    const struct plan_edge *edge;
    struct target *targets;
    uint32_t count, next; /* next: round robin */
    uint32_t max_parallelism;
    struct key_eval keys;
    bool has_keys;
    const struct aggset *set;
    int64_t timeout_ms, since_ms; /* since: oldest gathered, -1 = none */
};

static int
flush_target(struct op_route *t, struct target *to, struct err *e)
{
    int r = 0;

    if (to->batch.n != 0) {
        to->batch.right = t->edge->right;
        r = to->lane->batch(to->lane, &to->batch, e);
        batch_clear(&to->batch);
    }
    if (r == 0 && to->partials != NULL && to->partials->n != 0)
        r = to->lane->partials(to->lane, &to->partials, e);
    return r;
}

static int
flush_all(struct op_route *t, struct err *e)
{
    uint32_t i;
    int r;

    t->since_ms = -1;
    for (i = 0; i < t->count; i++) {
        r = flush_target(t, &t->targets[i], e);
        if (r != 0)
            return r;
    }
    return 0;
}

static void
note_time(struct op_route *t)
{
    if (t->since_ms < 0)
        t->since_ms = t->op.env->now_ms;
}

static int
put_record(struct op_route *t, struct target *to, const struct rec *r,
           struct err *e)
{
    (void)batch_add_copy(&to->batch, r);
    note_time(t);
    if (to->batch.n >= ROUTE_RECORDS ||
        arena_size(&to->batch.arena) >= OP_ROUTE_BYTES)
        return flush_target(t, to, e);
    return 0;
}

static int
whole_batch(struct op_route *t, const struct batch *b, struct err *e)
{
    struct target *to = &t->targets[t->next];
    uint32_t i;
    int r = 0;

    /* A batch never mixes partitions: event_time may stand behind a lane. */
    if (to->batch.n != 0 && to->batch.part != b->part)
        r = flush_target(t, to, e);
    for (i = 0; i < b->n && r == 0; i++) {
        to->batch.part = b->part; /* a flush gives the batch away whole */
        r = put_record(t, to, &b->recs[i], e);
    }
    t->next = (t->next + 1) % t->count;
    return r;
}

static int
keyed_record(struct op_route *t, const struct rec *rec, struct err *e)
{
    struct key_eval *k = &t->keys;
    struct target *to;
    uint64_t hash;
    uint32_t group;
    int r;

    key_eval_reset(k);
    r = key_eval_put(k, rec, e);
    if (r != 0)
        return key_eval_failed(k, rec, e);
    hash = hash_key(k->buf.data, k->buf.len);
    group = key_group(hash, t->max_parallelism);
    to = &t->targets[key_group_subtask(group, t->count, t->max_parallelism)];
    (void)batch_add_copy(&to->batch, rec);
    batch_set_key(&to->batch, k->buf.data, (uint32_t)k->buf.len, hash);
    note_time(t);
    if (to->batch.n >= ROUTE_RECORDS ||
        arena_size(&to->batch.arena) >= OP_ROUTE_BYTES)
        return flush_target(t, to, e);
    return 0;
}

static int
route_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_route *t = (struct op_route *)(void *)op;
    uint32_t i;
    int r;

    if (!t->has_keys)
        return whole_batch(t, b, e);
    count_add(&op->count->records_in, b->n);
    if (op->env->script != NULL)
        script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    for (i = 0; i < b->n; i++) {
        r = keyed_record(t, &b->recs[i], e);
        if (r != 0)
            return r;
    }
    return 0;
}

/* A record whose key fails belongs to the keyed step's quarantine: send it
 * there, to any subtask. */
static int
route_quarantine(struct op *op, struct batch *b, struct err *e)
{
    struct op_route *t = (struct op_route *)(void *)op;
    struct target *to = &t->targets[t->next];

    t->next = (t->next + 1) % t->count;
    (void)batch_add_copy(&to->batch, &b->recs[0]);
    batch_set_key(&to->batch, "", 0, 0);
    note_time(t);
    return to->batch.n >= ROUTE_RECORDS ? flush_target(t, to, e) : 0;
}

int
op_route_partial(struct op *route, const struct aggset *set,
                 const struct partial *head, void *block, struct err *e)
{
    struct op_route *t = (struct op_route *)(void *)route;
    uint32_t group = key_group(head->hash, t->max_parallelism);
    struct target *to;
    int r;

    to = &t->targets[key_group_subtask(group, t->count, t->max_parallelism)];
    if (to->partials == NULL)
        to->partials = partials_new();
    r = partials_add(to->partials, set, head, block, e);
    if (r != 0)
        return r;
    note_time(t);
    if (to->partials->n >= ROUTE_PARTIALS ||
        to->partials->bytes >= OP_ROUTE_BYTES)
        return flush_target(t, to, e);
    return 0;
}

void
op_route_set_aggs(struct op *route, const struct aggset *set)
{
    ((struct op_route *)(void *)route)->set = set;
}

static int
route_partials(struct op *op, struct partials **p, struct err *e)
{
    (void)op;
    (void)p;
    return err_set(e, ERR_INTERNAL, "a route was given partials");
}

static int
route_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_route *t = (struct op_route *)(void *)op;
    uint32_t i;
    int r;

    if (m->kind == MARK_PART && t->edge->kind != EDGE_FORWARD)
        return 0; /* a source's own affair */
    r = flush_all(t, e);
    for (i = 0; i < t->count && r == 0; i++)
        r = t->targets[i].lane->mark(t->targets[i].lane, m, e);
    return r;
}

static int
route_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_route *t = (struct op_route *)(void *)op;
    int64_t left;

    if (t->since_ms < 0)
        return 0;
    left = t->since_ms + t->timeout_ms - op->env->now_ms;
    if (idle || left <= 0)
        return flush_all(t, e);
    if (left < *ret_wait)
        *ret_wait = left;
    return 0;
}

static bool
route_ready(struct op *op)
{
    struct op_route *t = (struct op_route *)(void *)op;
    uint32_t i;

    for (i = 0; i < t->count; i++)
        if (!t->targets[i].lane->ready(t->targets[i].lane))
            return false;
    return true;
}

static void
route_free(struct op *op)
{
    struct op_route *t = (struct op_route *)(void *)op;
    uint32_t i;

    for (i = 0; i < t->count; i++) {
        batch_fini(&t->targets[i].batch);
        partials_free(&t->targets[i].partials, t->set);
    }
    free(t->targets);
    if (t->has_keys)
        key_eval_fini(&t->keys);
}

int
op_route_new(struct op_env *env, const struct plan_edge *edge,
             struct reader *reader, struct op_out **lanes, uint32_t lane_count,
             struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = route_batch,
                                        .partials = route_partials,
                                        .mark = route_mark,
                                        .tick = route_tick,
                                        .ready = route_ready,
                                        .quarantine = route_quarantine,
                                        .free = route_free};
    const struct plan_step *to = &env->plan->steps[edge->to];
    struct op_route *t = mem_zalloc(sizeof *t);
    uint32_t i;
    int r = 0;

    /* Key errors and null keys are the keyed step's. */
    op_init(&t->op, &type, env, to);
    /* It stands for the step it leads to, which keeps that step's time. */
    atomic_store_explicit(&t->op.count->watermark, WM_MAX,
                          memory_order_relaxed);
    t->op.reader = reader;
    t->edge = edge;
    t->max_parallelism = env->plan->max_parallelism;
    t->timeout_ms =
        opt_int(opt_get(env->plan->job, "options"), "buffer_timeout_ms", 100);
    t->since_ms = -1;
    t->count = lane_count;
    t->next = env->subtask % lane_count;
    t->targets = mem_zalloc(lane_count * sizeof *t->targets);
    for (i = 0; i < lane_count; i++) {
        t->targets[i].lane = lanes[i];
        batch_init(&t->targets[i].batch);
    }
    if (edge->kind == EDGE_HASH && !edge->partials) {
        t->has_keys = true;
        r = key_eval_init_opts(
            &t->keys, &t->op,
            edge->right ? opt_get(to->opts, "right") : to->opts, e);
    }
    *ret = &t->op;
    if (r != 0)
        op_free(ret);
    return r;
}
