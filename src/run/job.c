#include "run/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "op/seen.h"
#include "run/connectors.h"
#include "run/recover.h"
#include "run/wire.h"

/* Virtual time moves from stop to stop: an hour is not to be too many. */
enum { BOX_FOLLOW_MS = 1000 };

enum { LUA_BYTES_MIN = 16 << 20 }; /* of one Lua state */

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

void
job_script_conf(const struct job *j, struct script_conf *c, uint64_t seed)
{
    const struct run_box *box = j->conf->box;

    prepare_script_conf(j->conf, reload_version(j->run),
                        box != NULL ? box->seed ^ seed : seed, c);
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

/* The plan; with state to go on from, by its max parallelism. */
static int
make_plan(struct job *j, struct err *e)
{
    struct plan_conf pc = prepare_plan_conf(j->conf, reload_version(j->run));
    int r;

    r = plan_build(script_job(j->script), &pc, &j->plan, e);
    if (r != 0 || (!j->plan->checkpoint && j->run->home.store == NULL))
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

    job_script_conf(j, &sc, (uint64_t)clock_mono_ns());
    r = script_load(&sc, &j->script, e);
    if (r == 0)
        r = script_test_laws(j->script, e);
    if (r != 0)
        return r;
    r = make_plan(j, e);
    if (r == 0)
        r = prepare_check_stdin(reload_version(j->run)->path, j->plan, e);
    if (r != 0)
        return r;
    if (!reload_is_news(j->run) || j->conf->box != NULL)
        return 0;
    for (i = 0; i < j->plan->warning_count; i++)
        print_warning(&j->plan->warnings[i]);
    return 0;
}

size_t
job_lua_bytes(const struct plan *p)
{
    const struct opt *options = opt_get(p->job, "options");
    uint32_t i, n = 1; /* the coordinator's */
    size_t share;

    if (opt_int(opt_get(options, "lua"), "memory", 0) != 0)
        return 0; /* the job says so itself */
    for (i = 0; i < p->chain_count; i++)
        n += p->chains[i].parallelism;
    share = (size_t)p->lua_bytes / n;
    return share < LUA_BYTES_MIN ? LUA_BYTES_MIN : share;
}

/* Half of memory.buffers is for connectors; lanes and rounds have the rest. */
static int64_t
buffer_bytes(const struct plan *p)
{
    int64_t n = 0;
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        n += p->steps[i].kind == STEP_SOURCE || p->steps[i].kind == STEP_SINK;
    return n != 0 ? p->buffers_bytes / 2 / n : 0;
}

struct conn_env
job_conn_env(struct job *j, const struct plan_step *s)
{
    return (struct conn_env){
        .job = j->plan->name,
        .step = s->name,
        .place = s->place,
        .buffer_bytes = buffer_bytes(j->plan),
        .opts = opt_get(s->opts, "conn"),
        .job_opts = opt_get(j->plan->job, "options"),
        .cli = j->conf->cli,
        .parallelism = s->parallelism,
        .src = (uint16_t)s->index,
        .script = j->script,
        .ckpt = j->plan->checkpoint ? &j->conn_ckpt : NULL,
        .restored = j->plan->checkpoint || s->kind == STEP_SOURCE
                        ? restored_find(j->ops.restored, s->name)
                        : NULL,
        .box = j->conf->box != NULL ? j->conf->box->arg : NULL,
    };
}

static int
open_connector(struct job *j, const struct plan_step *s, struct err *e)
{
    const char *name = opt_str(s->opts, "connector", "");
    struct conn_env env = job_conn_env(j, s);
    int r;

    if (s->kind == STEP_SOURCE) {
        j->ops.source_types[s->index] = j->conf->box != NULL
                                            ? j->conf->box->source
                                            : connectors_source(name);
        if (j->ops.source_types[s->index] == NULL)
            return err_set(e, ERR_INTERNAL, "no connector '%s'", name);
        r = j->ops.source_types[s->index]->open(&env, &j->ops.sources[s->index],
                                                e);
    } else {
        j->ops.sink_types[s->index] =
            j->conf->box != NULL ? j->conf->box->sink : connectors_sink(name);
        if (j->ops.sink_types[s->index] == NULL)
            return err_set(e, ERR_INTERNAL, "no connector '%s'", name);
        r = j->ops.sink_types[s->index]->open(&env, &j->ops.sinks[s->index], e);
    }
    if (r != 0 && e->where[0] == '\0')
        err_where(e, "%s", s->place);
    return r;
}

static struct wm_source *
new_clock(const struct job *j, const struct plan_step *s)
{
    struct wm_conf c = {
        .out_of_orderness_ms = opt_int(s->opts, "out_of_orderness_ms", 0),
        .idle_ms = opt_int(s->opts, "idle_ms", 30000),
        .all_idle_ms = opt_int(s->opts, "all_idle_ms", -1),
        .follow_ms = j->conf->box != NULL ? BOX_FOLLOW_MS : 0,
        .tasks = s->parallelism,
    };

    return wm_source_new(&c);
}

/* The share of one stateful subtask of memory.state. */
static size_t
state_share(const struct plan *p)
{
    uint32_t i, n = 0;

    for (i = 0; i < p->step_count; i++)
        if (plan_step_is_keyed(&p->steps[i]))
            n += p->steps[i].parallelism;
    return n != 0 ? (size_t)p->state_bytes / n : 0;
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
    o->tracks = true;
    o->state_share = state_share(p);
    o->cache_bytes = p->checkpoint && p->state_lmdb ? o->state_share : 0;
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
            j->ops.clocks[i] = new_clock(j, s);
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

/* The checkpoint thread asks for the commit of a round whose redo is durable.
 */
static int
commit_to_target(void *arg, uint64_t number, struct err *e)
{
    struct job *j = arg;
    struct conn_round round = {.found = true, .round = number};

    target_token(j, &round);
    return target_commit(&j->target, &round, e);
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

    if (h->store == NULL)
        return 0;
    if (recover_target(j) != NULL)
        r = recover_claim(j, e);
    if (r == 0 && j->txn != NULL)
        r = txn_start(j->txn, h->status.complete + 1, e);
    if (r != 0)
        return r;
    c->store = h->store;
    c->txn = j->txn;
    c->commit = j->target.exists ? commit_to_target : NULL;
    memcpy(c->lineage, h->status.lineage, sizeof c->lineage);
    c->durable = &j->ops.durable;
    c->merge_bytes = j->plan->buffers_bytes / 4;
    c->prepare = prepare_sinks;
    c->wake = wake_coordinator;
    c->arg = j;
    return ckpt_start(c, e);
}

int
job_carry(struct job *j, struct err *e)
{
    struct run *run = j->run;
    int r = 0;

    if (run->home.store == NULL) {
        r = home_open_temporary(&run->home, e);
        if (r == 0)
            r = start_ckpt(j, e);
        j->rounds.current = run->home.status.complete;
    }
    if (r == 0 && run->home.temporary)
        r = home_check_room(&run->home, job_state_bytes(j), e);
    j->rounds.enabled = r == 0;
    atomic_store(&j->ops.keeps, r == 0);
    return r;
}

void
job_carry_no_more(struct job *j)
{
    j->rounds.enabled = false;
    atomic_store(&j->ops.keeps, false);
}

int
job_open(struct job *j, struct run *run, struct err *e)
{
    int r;

    memset(j, 0, sizeof *j);
    j->run = run;
    j->conf = run->conf;
    (void)pthread_mutex_init(&j->failure_lock, NULL);
    reload_init(run);
    r = load(j, e);
    if (r == 0)
        r = recover_state(j, e);
    if (r != 0)
        return r;
    init_ops(j);
    log_line(LOG_DEBUG,
             "memory: %lld MiB, of it state %lld, buffers %lld, lua %lld; a "
             "stateful subtask may use %zu KiB",
             (long long)j->plan->memory_bytes >> 20,
             (long long)j->plan->state_bytes >> 20,
             (long long)j->plan->buffers_bytes >> 20,
             (long long)j->plan->lua_bytes >> 20, j->ops.state_share >> 10);
    if (j->already_done)
        return settle_finished(j, e);
    job_fit_counters(j);
    rounds_init(&j->rounds, j);
    r = open_steps(j, e);
    if (r == 0)
        r = wire_build(j, e);
    j->built = r == 0;
    if (r == 0 && j->target.exists)
        target_init(&j->target, j);
    return r != 0 ? r : start_ckpt(j, e);
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
    target_fini(&j->target);
    wire_free(j);
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

static void
watch_script(struct script *s, int64_t now_ns)
{
    const char *step;
    int64_t ns;

    if (s == NULL || !script_watch(s, now_ns))
        return;
    step = script_held(s, now_ns, &ns);
    if (step != NULL)
        log_line(LOG_WARN, "held by %s for %llds", step,
                 (long long)(ns / 1000000000));
}

void
job_watch_scripts(const struct job *j)
{
    int64_t now_ns = clock_real_ns();
    uint32_t i, k;

    for (i = 0; i < j->plan->chain_count; i++)
        for (k = 0; k < j->plan->chains[i].parallelism; k++)
            watch_script(j->subtasks[i][k].script, now_ns);
    watch_script(j->script, now_ns);
}
