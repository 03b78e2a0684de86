#include "op/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "op/route.h"

struct builder {
    struct op_chain *c;
    const struct plan *plan;
    op_lanes_f *lanes;
    void *arg;
    struct op **by_step;        /* operator of each step of this chain */
    struct reader **out_reader; /* reader for what a step gives */
};

static struct reader *
new_reader(struct builder *b)
{
    struct op_chain *c = b->c;

    c->readers = mem_realloc(c->readers,
                             (c->reader_count + 1u) * sizeof(struct reader *));
    c->readers[c->reader_count] = reader_new();
    return c->readers[c->reader_count++];
}

static void
add_op(struct builder *b, struct op *op)
{
    struct op_chain *c = b->c;

    c->ops = mem_realloc(c->ops, (c->count + 1u) * sizeof(struct op *));
    c->ops[c->count++] = op;
}

static int
make_op(struct builder *b, const struct plan_step *s, struct reader *in,
        struct op **ret, struct err *e)
{
    struct op_env *env = &b->c->env;

    switch (s->kind) {
    case STEP_SOURCE:
        return op_source_new(env, s, ret, e);
    case STEP_EVENT_TIME:
        return op_event_time_new(env, s, in, ret, e);
    case STEP_FILTER:
        return op_filter_new(env, s, in, ret, e);
    case STEP_MAP:
    case STEP_FLAT_MAP:
        return op_map_new(env, s, in, ret, e);
    case STEP_SELECT:
        return op_select_new(env, s, in, ret, e);
    case STEP_LOCAL:
        return op_local_new(env, s, in, ret, e);
    case STEP_GLOBAL:
    case STEP_AGGREGATE:
        return op_global_new(env, s, in, ret, e);
    case STEP_SINK:
        return op_sink_new(env, s, in, ret, e);
    case STEP_PROCESS:
        return op_process_new(env, s, in, ret, e);
    case STEP_DEDUP:
        return op_dedup_new(env, s, in, ret, e);
    case STEP_SPLIT:
        return op_split_new(env, s, in, ret, e);
    case STEP_CLOCK:
        return op_clock_new(env, s, in, ret, e);
    }
    return err_set(e, ERR_INTERNAL, "step kind %d", (int)s->kind);
}

/* Whether what a step gives has other bytes than what it took. */
static bool
new_bytes(enum step_kind kind)
{
    return kind == STEP_SOURCE || kind == STEP_MAP || kind == STEP_FLAT_MAP ||
           kind == STEP_SELECT || kind == STEP_GLOBAL ||
           kind == STEP_AGGREGATE || kind == STEP_PROCESS;
}

/* The chained input edge of a step, or NULL for the head. */
static const struct plan_edge *
chained_input(const struct builder *b, const struct plan_step *s)
{
    uint32_t i;

    for (i = 0; i < s->in_count; i++)
        if (b->plan->edges[s->in[i]].kind == EDGE_CHAIN)
            return &b->plan->edges[s->in[i]];
    return NULL;
}

/* Whether user code emits to the output by name. */
static bool
is_emitted_to(const struct plan_step *s, const char *output)
{
    const struct opt *list = opt_get(s->opts, "outputs"), *o;

    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next)
        if (strcmp(o->s, output) == 0)
            return true;
    return false;
}

static struct reader *
reader_behind(struct builder *b, const struct plan_edge *edge)
{
    /* Late and failed records are the input's bytes, no new ones. */
    if (strcmp(edge->output, "main") != 0 &&
        !is_emitted_to(&b->plan->steps[edge->from], edge->output))
        return b->by_step[edge->from]->reader;
    return b->out_reader[edge->from];
}

static int
add_step(struct builder *b, const struct plan_step *s, struct err *e)
{
    const struct plan_edge *edge = chained_input(b, s);
    struct reader *in;
    struct op *op = NULL;
    int r;

    in = edge != NULL ? reader_behind(b, edge) : new_reader(b);
    r = make_op(b, s, in, &op, e);
    if (r != 0)
        return r;
    add_op(b, op);
    b->by_step[s->index] = op;
    b->out_reader[s->index] = new_bytes(s->kind) ? new_reader(b) : in;
    if (edge != NULL)
        op_outs_add(op_output(b->by_step[edge->from], edge->output), &op->in);
    return 0;
}

/* Behind a local phase the route is called with partials, not as output. */
static int
add_route(struct builder *b, uint32_t index, struct err *e)
{
    const struct plan_edge *edge = &b->plan->edges[index];
    uint32_t max = b->plan->steps[edge->to].parallelism, n;
    struct op *from = b->by_step[edge->from], *op = NULL;
    struct op_out **lanes = mem_zalloc((max + 1u) * sizeof(struct op_out *));
    int r;

    n = b->lanes(b->arg, index, b->c->env.subtask, lanes);
    r = op_route_new(&b->c->env, edge, reader_behind(b, edge), lanes, n, &op,
                     e);
    free(lanes);
    if (r != 0)
        return r;
    add_op(b, op);
    op_outs_add(op_output(from, edge->output), &op->in);
    if (edge->partials)
        op_local_set_route(from, op);
    return 0;
}

static int
build(struct builder *b, const struct plan_chain *chain, struct err *e)
{
    uint32_t i, k;
    int r;

    for (i = 0; i < chain->count; i++) {
        const struct plan_step *s = &b->plan->steps[chain->steps[i]];

        r = add_step(b, s, e);
        if (r != 0)
            return r;
    }
    for (i = 0; i < chain->count; i++) {
        const struct plan_step *s = &b->plan->steps[chain->steps[i]];

        for (k = 0; k < s->out_count; k++) {
            if (b->plan->edges[s->out[k]].kind == EDGE_CHAIN)
                continue;
            r = add_route(b, s->out[k], e);
            if (r != 0)
                return r;
        }
    }
    return 0;
}

int
op_chain_build(struct op_chain *c, const struct plan_chain *chain,
               op_lanes_f *lanes, void *arg, struct err *e)
{
    const struct plan *plan = c->env.plan;
    struct builder b = {.c = c, .plan = plan, .lanes = lanes, .arg = arg};
    int r;

    c->ops = NULL;
    c->readers = NULL;
    c->count = c->reader_count = 0;
    b.by_step = mem_zalloc(plan->step_count * sizeof(struct op *));
    b.out_reader = mem_zalloc(plan->step_count * sizeof(struct reader *));
    r = build(&b, chain, e);
    free(b.by_step);
    free(b.out_reader);
    if (r != 0) {
        op_chain_fini(c);
        return r;
    }
    c->head = c->ops[0];
    return 0;
}

void
op_chain_fini(struct op_chain *c)
{
    uint32_t i;

    /* Backwards: a route frees its partials with the set of its local step. */
    for (i = c->count; i > 0; i--)
        op_free(&c->ops[i - 1]);
    for (i = 0; i < c->reader_count; i++)
        reader_free(&c->readers[i]);
    free(c->ops);
    free(c->readers);
    c->ops = NULL;
    c->readers = NULL;
    c->count = c->reader_count = 0;
}
