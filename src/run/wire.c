#include "run/wire.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "op/route.h"
#include "run/job.h"

struct subtask *
job_subtasks(const struct job *j, uint32_t chain)
{
    return j->subtasks[chain];
}

/* Whether a step calls user code in its own chain. */
static bool
needs_script(const struct plan_step *s)
{
    const struct opt *agg;

    switch (s->kind) {
    case STEP_GLOBAL:
        for (agg = opt_get(s->opts, "aggs")->first; agg != NULL;
             agg = agg->next)
            if (opt_is(agg, "fn", "custom") || opt_is(agg, "fn", "reduce") ||
                opt_is(agg, "fn", "records"))
                return true;
        return false;
    case STEP_SOURCE:
    case STEP_SINK:
        return opt_has_func(opt_get(s->opts, "conn")) ||
               opt_is(s->opts, "connector", "lua");
    case STEP_EVENT_TIME:
    case STEP_FILTER:
    case STEP_MAP:
    case STEP_FLAT_MAP:
    case STEP_SELECT:
    case STEP_LOCAL:
    case STEP_AGGREGATE:
    case STEP_PROCESS:
    case STEP_DEDUP:
    case STEP_SPLIT:
    case STEP_CLOCK:
        break;
    }
    return opt_has_func(s->opts);
}

/* Whether an edge that leaves the chain evaluates a key by a function. */
static bool
edge_needs_script(const struct plan *p, const struct plan_step *s)
{
    uint32_t i;

    for (i = 0; i < s->out_count; i++) {
        const struct plan_edge *edge = &p->edges[s->out[i]];

        if (edge->kind == EDGE_HASH && !edge->partials &&
            opt_has_func(opt_get(p->steps[edge->to].opts, "key")))
            return true;
    }
    return false;
}

static int
load_script(struct job *j, const struct plan_chain *chain, uint32_t subtask,
            struct subtask *st, struct err *e)
{
    struct script_conf sc;
    bool needed = false;
    uint32_t i;
    int r;

    for (i = 0; i < chain->count; i++) {
        const struct plan_step *s = &j->plan->steps[chain->steps[i]];

        needed = needed || needs_script(s) || edge_needs_script(j->plan, s);
    }
    if (!needed)
        return 0;
    job_script_conf(j, &sc, ((uint64_t)subtask << 32) + chain->steps[0] + 1);
    r = script_load(&sc, &st->script, e);
    if (r == 0 && job_lua_bytes(j->plan) != 0)
        script_cap_memory(st->script, job_lua_bytes(j->plan));
    return r != 0 ? r : script_check_same(j->script, st->script, e);
}

/* Lanes of an edge: forward one per subtask, else from x to. */
static struct lane *
edge_lane(const struct job *j, uint32_t edge, uint32_t from, uint32_t to)
{
    const struct plan_edge *d = &j->plan->edges[edge];
    uint32_t n = j->plan->steps[d->to].parallelism;

    if (d->kind == EDGE_FORWARD)
        return &j->lanes[edge][from];
    return &j->lanes[edge][from * n + to];
}

static uint32_t
edge_lane_count(const struct plan *p, const struct plan_edge *d)
{
    uint32_t from = p->steps[d->from].parallelism;

    if (d->kind == EDGE_CHAIN)
        return 0;
    return d->kind == EDGE_FORWARD ? from : from * p->steps[d->to].parallelism;
}

static uint32_t
lanes_of(void *arg, uint32_t edge, uint32_t subtask, struct op_out **ret)
{
    struct job *j = arg;
    const struct plan_edge *d = &j->plan->edges[edge];
    uint32_t i, n = 1;

    if (d->kind != EDGE_FORWARD)
        n = j->plan->steps[d->to].parallelism;
    for (i = 0; i < n; i++)
        ret[i] = &edge_lane(j, edge, subtask, i)->out;
    return n;
}

static void
add_output(struct subtask *st, struct lane *l)
{
    st->outputs = mem_realloc(st->outputs,
                              (st->output_count + 1u) * sizeof(struct lane *));
    st->outputs[st->output_count++] = l;
    l->producer = st->slot;
    l->wake_producer = slot_wake;
}

static void
wire_outputs(struct job *j, const struct plan_chain *chain, uint32_t subtask,
             struct subtask *st)
{
    uint32_t i, k, to;

    for (i = 0; i < chain->count; i++) {
        const struct plan_step *s = &j->plan->steps[chain->steps[i]];

        for (k = 0; k < s->out_count; k++) {
            const struct plan_edge *d = &j->plan->edges[s->out[k]];
            uint32_t n =
                d->kind == EDGE_FORWARD ? 1 : j->plan->steps[d->to].parallelism;

            if (d->kind == EDGE_CHAIN)
                continue;
            for (to = 0; to < n; to++)
                add_output(st, edge_lane(j, s->out[k], subtask, to));
        }
    }
}

static void
add_input(struct subtask *st, struct lane *l)
{
    st->inputs =
        mem_realloc(st->inputs, (st->input_count + 1u) * sizeof *st->inputs);
    st->inputs[st->input_count++] = (struct subtask_input){.lane = l};
    l->consumer = st->slot;
    l->wake_consumer = slot_wake;
}

static void
wire_inputs(struct job *j, const struct plan_chain *chain, uint32_t subtask,
            struct subtask *st)
{
    const struct plan_step *head = &j->plan->steps[chain->steps[0]];
    uint32_t i, from;

    for (i = 0; i < head->in_count; i++) {
        const struct plan_edge *d = &j->plan->edges[head->in[i]];

        if (d->kind == EDGE_FORWARD) {
            add_input(st, edge_lane(j, head->in[i], subtask, 0));
            continue;
        }
        for (from = 0; from < j->plan->steps[d->from].parallelism; from++)
            add_input(st, edge_lane(j, head->in[i], from, subtask));
    }
    wm_input_init(&st->wm, st->input_count);
    st->final = true;
}

/* Partials that nobody takes any more are freed with the sender's set; a
 * chain may hold several local steps. */
static void
set_lane_aggs(struct job *j, uint32_t subtask, const struct subtask *st)
{
    const struct plan *p = j->plan;
    uint32_t i, k, to;

    for (i = 0; i < st->ops.count; i++) {
        const struct op *op = st->ops.ops[i];

        /* A route carries the step it leads to, which is another chain's. */
        if (op->step->kind != STEP_LOCAL ||
            &p->chains[op->step->chain] != st->chain)
            continue;
        for (k = 0; k < op->step->out_count; k++) {
            uint32_t edge = op->step->out[k];

            if (!p->edges[edge].partials)
                continue;
            for (to = 0; to < p->steps[p->edges[edge].to].parallelism; to++)
                edge_lane(j, edge, subtask, to)->set = op_local_aggs(op);
        }
    }
}

static int
build_subtask(struct job *j, uint32_t chain, uint32_t subtask, struct err *e)
{
    const struct plan_chain *c = &j->plan->chains[chain];
    struct subtask *st = &j->subtasks[chain][subtask];
    int r;

    st->chain = c;
    slot_add(&j->slots[(c->slot_base + subtask) % j->slot_count], st);
    r = load_script(j, c, subtask, st, e);
    if (r != 0)
        return r;
    wire_inputs(j, c, subtask, st);
    wire_outputs(j, c, subtask, st);
    st->ops.env = (struct op_env){
        .plan = j->plan,
        .job = &j->ops,
        .script = st->script,
        .subtask = subtask,
        .now_ms = clock_mono_ms(),
        .round = j->rounds.current,
        .wake = slot_wake,
        .wake_arg = st->slot,
    };
    atomic_store(&st->active_ms, clock_mono_ms());
    r = op_chain_build(&st->ops, c, lanes_of, j, e);
    if (r == 0)
        set_lane_aggs(j, subtask, st);
    return r;
}

/* A quarter of memory.buffers is for what lanes hold, if all of them are full
 * of the largest messages. */
static uint32_t
messages_of_lane(const struct plan *p)
{
    enum { LANE_LEAST = 2 };
    int64_t n, lanes = 1;
    uint32_t i;

    for (i = 0; i < p->edge_count; i++)
        lanes += edge_lane_count(p, &p->edges[i]);
    n = p->buffers_bytes / 4 / lanes / OP_ROUTE_BYTES;
    if (n < LANE_LEAST)
        return LANE_LEAST;
    return n < LANE_READY ? (uint32_t)n : LANE_READY;
}

int
wire_build(struct job *j, struct err *e)
{
    const struct plan *p = j->plan;
    uint32_t i, k, n, ready = messages_of_lane(p);
    int r;

    j->slot_count = p->slots;
    j->slots = mem_zalloc(p->slots * sizeof *j->slots);
    for (i = 0; i < p->slots; i++) {
        r = slot_init(&j->slots[i], j, i, e);
        if (r != 0)
            return r;
    }
    j->lanes = mem_zalloc((p->edge_count + 1u) * sizeof(struct lane *));
    for (i = 0; i < p->edge_count; i++) {
        n = edge_lane_count(p, &p->edges[i]);
        j->lanes[i] = mem_zalloc((n + 1u) * sizeof(struct lane));
        for (k = 0; k < n; k++) {
            lane_init(&j->lanes[i][k]);
            j->lanes[i][k].ready = ready;
        }
    }
    j->subtasks = mem_zalloc(p->chain_count * sizeof(struct subtask *));
    for (i = 0; i < p->chain_count; i++)
        j->subtasks[i] =
            mem_zalloc(p->chains[i].parallelism * sizeof(struct subtask));
    for (i = 0; i < p->chain_count; i++)
        for (k = 0; k < p->chains[i].parallelism; k++) {
            r = build_subtask(j, i, k, e);
            if (r != 0)
                return r;
        }
    return 0;
}

static void
free_lanes(struct job *j)
{
    uint32_t i, k;

    for (i = 0; j->lanes != NULL && i < j->plan->edge_count; i++) {
        uint32_t n = edge_lane_count(j->plan, &j->plan->edges[i]);

        for (k = 0; j->lanes[i] != NULL && k < n; k++)
            lane_fini(&j->lanes[i][k]);
        free(j->lanes[i]);
    }
    free(j->lanes);
}

static void
free_subtasks(struct job *j)
{
    uint32_t i, k;

    for (i = 0; j->subtasks != NULL && i < j->plan->chain_count; i++) {
        for (k = 0; k < j->plan->chains[i].parallelism; k++)
            subtask_fini(&j->subtasks[i][k]);
        free(j->subtasks[i]);
    }
    free(j->subtasks);
}

void
wire_free(struct job *j)
{
    free_lanes(j);
    free_subtasks(j);
}
