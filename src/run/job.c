#include "run/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "op/route.h"
#include "op/seen.h"
#include "run/connectors.h"
#include "run/recover.h"

struct subtask *
job_subtasks(const struct job *j, uint32_t chain)
{
    return j->subtasks[chain];
}

static void
on_failure(void *arg, const struct op_failure *f)
{
    struct job *j = arg;

    (void)pthread_mutex_lock(&j->failure_lock);
    if (!j->has_failure) {
        j->failure = *f;
        j->has_failure = j->has_record = true;
        atomic_store(&j->failing, true);
    }
    (void)pthread_mutex_unlock(&j->failure_lock);
    job_wake(j);
}

static void
on_closed(void *arg)
{
    struct job *j = arg;

    atomic_store(&j->pipe_closed, true);
    job_wake(j);
}

void
job_failed(struct job *j, const struct err *e)
{
    (void)pthread_mutex_lock(&j->failure_lock);
    if (!j->has_failure) {
        j->failure.err = *e;
        j->has_failure = true;
        atomic_store(&j->failing, true);
    }
    (void)pthread_mutex_unlock(&j->failure_lock);
    job_wake(j);
}

void
job_wake(struct job *j)
{
    ev_async_send(j->run->loop, &j->run->wakeup);
}

void
job_wake_slots(struct job *j)
{
    uint32_t i;

    for (i = 0; i < j->slot_count; i++)
        slot_wake(&j->slots[i]);
}

bool
job_is_done(const struct job *j)
{
    uint32_t i, k;

    for (i = 0; i < j->plan->chain_count; i++)
        for (k = 0; k < j->plan->chains[i].parallelism; k++)
            if (!atomic_load(&j->subtasks[i][k].done))
                return false;
    return true;
}

static void
script_conf_fill(const struct job *j, struct script_conf *c, uint64_t seed)
{
    const struct run_conf *conf = j->conf;

    *c = (struct script_conf){
        .path = conf->file,
        .text = conf->text,
        .text_len = conf->text_len,
        .params = conf->params,
        .args = conf->args,
        .unsafe = conf->unsafe,
        .seed = seed,
        .load_timeout_ms = 5000,
    };
}

static void
print_warning(const struct plan_warning *w)
{
    struct log_kv kv = {"place", w->place, false};

    if (log_is_json())
        log_kvs(LOG_WARN, w->text, &kv, 1);
    else if (log_enabled(LOG_WARN))
        (void)fprintf(stderr, "%s: warning: %s\n", w->place, w->text);
}

/* A job file that came from stdin cannot also read its records there. */
static int
check_stdin(const struct job *j, struct err *e)
{
    const struct plan_step *s;
    uint32_t i;

    if (strcmp(j->conf->file, "-") != 0)
        return 0;
    for (i = 0; i < j->plan->step_count; i++) {
        s = &j->plan->steps[i];
        if (s->kind == STEP_SOURCE && opt_is(s->opts, "connector", "stdin"))
            return err_set(e, ERR_USAGE,
                           "FILE - cannot be used with s.stdin (source %s)",
                           s->name);
    }
    return 0;
}

/* The plan; with state to go on from, by its max parallelism. */
static int
make_plan(struct job *j, struct err *e)
{
    struct plan_conf pc = {.parallelism = j->conf->parallelism,
                           .slots = j->conf->slots};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int r;

    pc.cores = cores > 0 ? (uint32_t)cores : 1;
    pc.bounded = opt_bool(j->conf->cli, "bounded", false);
    r = plan_build(script_job(j->script), &pc, &j->plan, e);
    if (r != 0 || !j->plan->checkpoint)
        return r;
    r = recover_home(j->run, j->plan->name, &pc.max_parallelism, e);
    if (r != 0 || pc.max_parallelism == 0 ||
        pc.max_parallelism == j->plan->max_parallelism)
        return r;
    plan_free(&j->plan);
    return plan_build(script_job(j->script), &pc, &j->plan, e);
}

static int
load(struct job *j, struct err *e)
{
    struct script_conf sc;
    uint32_t i;
    int r;

    script_conf_fill(j, &sc, (uint64_t)clock_mono_ns());
    r = script_load(&sc, &j->script, e);
    if (r == 0)
        r = script_test_laws(j->script, e);
    if (r != 0)
        return r;
    r = make_plan(j, e);
    if (r == 0)
        r = check_stdin(j, e);
    if (r != 0)
        return r;
    for (i = 0; j->run->restarts == 0 && i < j->plan->warning_count; i++)
        print_warning(&j->plan->warnings[i]);
    return 0;
}

struct conn_env
job_conn_env(struct job *j, const struct plan_step *s)
{
    return (struct conn_env){
        .job = j->plan->name,
        .step = s->name,
        .place = s->place,
        .opts = opt_get(s->opts, "conn"),
        .job_opts = opt_get(j->plan->job, "options"),
        .cli = j->conf->cli,
        .parallelism = s->parallelism,
        .src = (uint16_t)s->index,
        .script = j->script,
        .ckpt = j->plan->checkpoint ? &j->conn_ckpt : NULL,
        .restored = restored_find(j->ops.restored, s->name),
    };
}

static int
open_connector(struct job *j, const struct plan_step *s, struct err *e)
{
    const char *name = opt_str(s->opts, "connector", "");
    struct conn_env env = job_conn_env(j, s);
    int r;

    if (s->kind == STEP_SOURCE) {
        j->ops.source_types[s->index] = connectors_source(name);
        if (j->ops.source_types[s->index] == NULL)
            return err_set(e, ERR_INTERNAL, "no connector '%s'", name);
        r = j->ops.source_types[s->index]->open(&env, &j->ops.sources[s->index],
                                                e);
    } else {
        j->ops.sink_types[s->index] = connectors_sink(name);
        if (j->ops.sink_types[s->index] == NULL)
            return err_set(e, ERR_INTERNAL, "no connector '%s'", name);
        r = j->ops.sink_types[s->index]->open(&env, &j->ops.sinks[s->index], e);
    }
    if (r != 0 && e->where[0] == '\0')
        err_where(e, "%s", s->place);
    return r;
}

static struct wm_source *
new_clock(const struct plan_step *s)
{
    struct wm_conf c = {
        .out_of_orderness_ms = opt_int(s->opts, "out_of_orderness_ms", 0),
        .idle_ms = opt_int(s->opts, "idle_ms", 30000),
        .all_idle_ms = opt_int(s->opts, "all_idle_ms", -1),
        .tasks = s->parallelism,
    };

    return wm_source_new(&c);
}

/* The share of one stateful subtask; 0: nothing ever leaves memory. */
static size_t
cache_bytes(const struct plan *p)
{
    uint32_t i, n = 0;

    for (i = 0; i < p->step_count; i++)
        if (plan_step_is_keyed(&p->steps[i]))
            n += p->steps[i].parallelism;
    return p->checkpoint && p->state_lmdb && n != 0 ? (size_t)p->state_bytes / n
                                                    : 0;
}

static void
init_ops(struct job *j)
{
    const struct plan *p = j->plan;
    struct op_job *o = &j->ops;

    o->plan = p;
    o->arg = j;
    o->give = rounds_give;
    o->want_round = rounds_wanted;
    o->cache_bytes = cache_bytes(p);
    o->failed = on_failure;
    o->closed = on_closed;
    o->seen = op_seen_new();
    o->counters = mem_zalloc(2u * p->logical_count * sizeof *o->counters);
    j->earlier = mem_zalloc(p->logical_count * sizeof *j->earlier);
    o->clocks = mem_zalloc(p->step_count * sizeof(struct wm_source *));
    o->source_types = mem_zalloc(p->step_count * sizeof *o->source_types);
    o->sources = mem_zalloc(p->step_count * sizeof *o->sources);
    o->sink_types = mem_zalloc(p->step_count * sizeof *o->sink_types);
    o->sinks = mem_zalloc(p->step_count * sizeof *o->sinks);
}

static int
open_steps(struct job *j, struct err *e)
{
    const struct plan *p = j->plan;
    uint32_t i;
    int r;

    for (i = 0; i < p->step_count; i++) {
        const struct plan_step *s = &p->steps[i];

        if (s->kind == STEP_EVENT_TIME)
            j->ops.clocks[i] = new_clock(s);
        if (s->kind != STEP_SOURCE && s->kind != STEP_SINK)
            continue;
        r = open_connector(j, s, e);
        if (r != 0)
            return r;
    }
    return 0;
}

/* A finished job may have died between its last round and the moment its
 * sinks were told of it: those that take part in rounds settle that now. */
static int
settle_finished(struct job *j, struct err *e)
{
    const struct plan *p = j->plan;
    uint32_t i;
    int r = 0;

    for (i = 0; i < p->step_count && r == 0; i++) {
        const struct plan_step *s = &p->steps[i];
        const struct sink_type *type =
            s->kind == STEP_SINK
                ? connectors_sink(opt_str(s->opts, "connector", ""))
                : NULL;

        if (type != NULL && type->committed != NULL &&
            restored_find(j->ops.restored, s->name) != NULL)
            r = open_connector(j, s, e);
    }
    return r;
}

static bool
has_func(const struct opt *o)
{
    const struct opt *c;

    if (o == NULL)
        return false;
    if (o->type == OPT_FUNC)
        return true;
    if (o->type != OPT_LIST && o->type != OPT_MAP)
        return false;
    for (c = o->first; c != NULL; c = c->next)
        if (has_func(c))
            return true;
    return false;
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
        return has_func(opt_get(s->opts, "conn")) ||
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
    return has_func(s->opts);
}

/* Whether an edge that leaves the chain evaluates a key by a function. */
static bool
edge_needs_script(const struct plan *p, const struct plan_step *s)
{
    uint32_t i;

    for (i = 0; i < s->out_count; i++) {
        const struct plan_edge *edge = &p->edges[s->out[i]];

        if (edge->kind == EDGE_HASH && !edge->partials &&
            has_func(opt_get(p->steps[edge->to].opts, "key")))
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
    script_conf_fill(j, &sc, ((uint64_t)subtask << 32) + chain->steps[0] + 1);
    r = script_load(&sc, &st->script, e);
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

static int
build(struct job *j, struct err *e)
{
    const struct plan *p = j->plan;
    uint32_t i, k, n;
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
        for (k = 0; k < n; k++)
            lane_init(&j->lanes[i][k]);
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

/* The checkpoint thread asks each sink to make its part of a round durable. */
static int
prepare_sinks(void *arg, struct err *e)
{
    struct job *j = arg;
    struct op_job *o = &j->ops;
    uint32_t i;
    int r = 0;

    for (i = 0; i < j->plan->step_count && r == 0; i++)
        if (o->sinks[i] != NULL && o->sink_types[i]->prepare != NULL)
            r = o->sink_types[i]->prepare(o->sinks[i], e);
    return r;
}

static void
wake_coordinator(void *arg)
{
    job_wake(arg);
}

static int
start_ckpt(struct job *j, struct err *e)
{
    struct ckpt *c = &j->ckpt;
    const struct home *h = &j->run->home;
    int r = 0;

    if (!j->plan->checkpoint)
        return 0;
    if (j->txn != NULL)
        r = recover_claim(j, e);
    if (r == 0 && j->txn != NULL)
        r = txn_start(j->txn, h->status.complete + 1, e);
    if (r != 0)
        return r;
    c->store = h->store;
    c->txn = j->txn;
    memcpy(c->lineage, h->status.lineage, sizeof c->lineage);
    c->durable = &j->ops.durable;
    c->prepare = prepare_sinks;
    c->wake = wake_coordinator;
    c->arg = j;
    return ckpt_start(c, e);
}

static void
init_counters(struct job *j)
{
    struct run *run = j->run;
    size_t n = j->plan->logical_count;

    if (run->base != NULL) {
        run_pick_counters(run);
        return;
    }
    run->base = mem_zalloc(n * sizeof *run->base);
    run->kept = mem_zalloc(n * sizeof *run->kept);
    run->next = mem_zalloc(n * sizeof *run->next);
    run->logical_count = j->plan->logical_count;
}

int
job_open(struct job *j, struct run *run, struct err *e)
{
    int r;

    memset(j, 0, sizeof *j);
    j->run = run;
    j->conf = run->conf;
    (void)pthread_mutex_init(&j->failure_lock, NULL);
    r = load(j, e);
    if (r == 0)
        r = recover_state(j, e);
    if (r != 0)
        return r;
    init_ops(j);
    if (j->already_done)
        return settle_finished(j, e);
    init_counters(j);
    rounds_init(&j->rounds, j);
    r = open_steps(j, e);
    if (r == 0)
        r = build(j, e);
    j->built = r == 0;
    return r != 0 ? r : start_ckpt(j, e);
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

static void
close_steps(struct job *j)
{
    struct op_job *o = &j->ops;
    uint32_t i;

    for (i = 0; o->plan != NULL && i < j->plan->step_count; i++) {
        if (o->sources[i] != NULL)
            o->source_types[i]->close(&o->sources[i]);
        if (o->sinks[i] != NULL)
            o->sink_types[i]->close(&o->sinks[i]);
        wm_source_free(&o->clocks[i]);
    }
    op_seen_free(&o->seen);
    free(o->counters);
    free(j->earlier);
    free(o->clocks);
    free(o->source_types);
    free(o->sources);
    free(o->sink_types);
    free(o->sinks);
}

void
job_close(struct job *j)
{
    uint32_t i;

    for (i = 0; i < j->slot_count && j->slots != NULL; i++)
        slot_join(&j->slots[i]);
    ckpt_stop(&j->ckpt);
    free_lanes(j);
    free_subtasks(j);
    for (i = 0; i < j->slot_count && j->slots != NULL; i++)
        slot_fini(&j->slots[i]);
    free(j->slots);
    close_steps(j);
    txn_free(&j->txn);
    rounds_fini(&j->rounds);
    plan_fit_fini(&j->fit);
    plan_free(&j->plan);
    script_free(&j->script);
    (void)pthread_mutex_destroy(&j->failure_lock);
}
