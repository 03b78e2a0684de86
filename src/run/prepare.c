#include "run/prepare.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "kafka/kafka.h"

enum { LOAD_TIMEOUT_MS = 5000 };

void
prepare_script_conf(const struct run_conf *conf, const struct version *v,
                    uint64_t seed, struct script_conf *ret)
{
    *ret = (struct script_conf){
        .path = v->path,
        .files = v->files,
        .params = v->params,
        .args = conf->args,
        .unsafe = conf->unsafe,
        .seed = seed,
        .load_timeout_ms = LOAD_TIMEOUT_MS,
    };
    if (conf->box != NULL) {
        ret->line = conf->box->line;
        ret->line_arg = conf->box->line_arg;
    }
}

struct plan_conf
prepare_plan_conf(const struct run_conf *conf, const struct version *v)
{
    const struct run_box *box = conf->box;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return (struct plan_conf){
        .parallelism = v->parallelism,
        .slots = conf->slots,
        .cores = cores > 0 ? (uint32_t)cores : 1,
        .bounded = opt_bool(conf->cli, "bounded", false),
        .boxed = box != NULL,
        .strategy = box != NULL ? box->strategy : NULL,
    };
}

int
prepare_check_stdin(const char *path, const struct plan *p, struct err *e)
{
    const struct plan_step *s;
    uint32_t i;

    if (strcmp(path, "-") != 0)
        return 0;
    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        if (s->kind == STEP_SOURCE && opt_is(s->opts, "connector", "stdin"))
            return err_set(e, ERR_USAGE,
                           "FILE - cannot be used with s.stdin (source %s)",
                           s->name);
    }
    return 0;
}

/* ---------------------------------------------------- what runs, copied */

/* Those of the job, which count where a connector has none of its own. */
static void
put_job_option(const struct plan *p, const char *name, struct buf *out)
{
    const struct opt *o = opt_get(opt_get(p->job, "options"), name);

    buf_addc(out, ' ');
    if (o != NULL)
        opt_put_json(out, o);
}

/* One line a Kafka step: the same line, the same connector. */
static void
put_connector(const struct plan *p, const struct plan_step *s, struct buf *out)
{
    buf_addf(out, "\n%s ", s->name);
    opt_put_json(out, opt_get(s->opts, "conn"));
    put_job_option(p, "bootstrap_servers", out);
    put_job_option(p, "properties", out);
    buf_addc(out, '\n');
}

static bool
is_broken(const struct opt *agg)
{
    const struct opt *law = opt_get(agg, "law");

    return law != NULL && !opt_bool(law, "ok", true);
}

/* One line an aggregator that broke a law. */
static void
put_broken_one(const struct plan_step *s, const struct opt *agg,
               struct buf *out)
{
    buf_addf(out, "\n%s.%s\n", s->name, opt_str(agg, "name", ""));
}

/* Aggregators that broke a law: known ones are not held against a file. */
static void
put_broken(const struct plan_step *s, struct buf *out)
{
    const struct opt *aggs = opt_get(s->opts, "aggs"), *a;

    for (a = aggs != NULL ? aggs->first : NULL; a != NULL; a = a->next)
        if (is_broken(a))
            put_broken_one(s, a, out);
}

void
prepare_note_plan(struct prepare *p, const struct plan *plan)
{
    uint32_t i;

    plan_state_put(plan, &p->plan);
    p->max_parallelism = plan->max_parallelism;
    p->checkpoint = plan->checkpoint;
    for (i = 0; i < plan->step_count; i++) {
        put_broken(&plan->steps[i], &p->broken);
        if (opt_is(plan->steps[i].opts, "connector", "kafka"))
            put_connector(plan, &plan->steps[i], &p->connectors);
    }
}

static bool
is_known(struct prepare *p, const struct plan *plan, const struct plan_step *s)
{
    struct buf b;
    bool yes;

    buf_init(&b);
    put_connector(plan, s, &b);
    yes = strstr(buf_cstr(&p->connectors), buf_cstr(&b)) != NULL;
    buf_fini(&b);
    return yes;
}

/* ----------------------------------------------------------- the thread */

static int
preflight(struct prepare *p, const struct plan *plan, struct err *e)
{
    struct conn_env env = {.job = plan->name,
                           .job_opts = opt_get(plan->job, "options"),
                           .cli = p->conf->cli};
    uint32_t i;
    int r = 0;

    for (i = 0; i < plan->step_count && r == 0; i++) {
        const struct plan_step *s = &plan->steps[i];

        if (!opt_is(s->opts, "connector", "kafka") || is_known(p, plan, s))
            continue;
        env.step = s->name;
        env.place = s->place;
        env.opts = opt_get(s->opts, "conn");
        env.parallelism = s->parallelism;
        r = kafka_preflight(&env, s->kind == STEP_SINK, e);
        if (r != 0 && e->where[0] == '\0')
            err_where(e, "%s", s->place);
    }
    return r;
}

static int
compare(struct prepare *p, struct plan *plan, struct err *e)
{
    unsigned flags = p->version->allow_loss ? FIT_ALLOW_LOSS : 0;
    struct plan_fit fit;
    int r = plan_fit_check(plan, p->plan.data, p->plan.len, flags, &fit, e);

    plan_fit_table(&fit, &p->table);
    plan_fit_summary(&fit, &p->short_table);
    plan_fit_fini(&fit);
    return r;
}

/* A task loads the texts again: does it get the same plan? */
static int
load_again(struct prepare *p, const struct script *first, struct err *e)
{
    struct script *again = NULL;
    struct script_conf sc;
    int r;

    prepare_script_conf(p->conf, p->version, (uint64_t)clock_mono_ns() + 1,
                        &sc);
    r = script_load(&sc, &again, e);
    if (r == 0)
        r = script_check_same(first, again, e);
    script_free(&again);
    return r;
}

/* A start warns of a broken law and goes on without what needs it; a running
 * job does not take code for the worse. */
static int
check_laws(struct prepare *p, const struct plan_step *s, struct err *e)
{
    const struct opt *aggs = opt_get(s->opts, "aggs"), *a;
    struct buf b;
    int r = 0;

    buf_init(&b);
    for (a = aggs != NULL ? aggs->first : NULL; a != NULL && r == 0;
         a = a->next) {
        if (!is_broken(a))
            continue;
        buf_clear(&b);
        put_broken_one(s, a, &b);
        if (strstr(buf_cstr(&p->broken), buf_cstr(&b)) != NULL)
            continue;
        r = err_set(e, ERR_JOBFILE, "aggregator %s broke a law: %s",
                    opt_str(a, "name", ""),
                    opt_str(opt_get(a, "law"), "text", ""));
        err_where(e, "%s", opt_str(a, "place", s->place));
    }
    buf_fini(&b);
    return r;
}

static int
check(struct prepare *p, const struct script *script, struct err *e)
{
    struct plan_conf pc = prepare_plan_conf(p->conf, p->version);
    struct plan *plan = NULL;
    uint32_t i;
    int r;

    pc.max_parallelism = p->max_parallelism;
    r = plan_build(script_job(script), &pc, &plan, e);
    if (r == 0)
        r = prepare_check_stdin(p->version->path, plan, e);
    if (r == 0)
        r = compare(p, plan, e);
    if (r == 0 && plan->checkpoint != p->checkpoint)
        r = err_set(e, ERR_JOBFILE,
                    "the job keeps %s and with the file it would keep %s: "
                    "that takes a start",
                    p->checkpoint ? "checkpoints" : "no checkpoints",
                    p->checkpoint ? "none" : "some");
    for (i = 0; r == 0 && i < plan->step_count; i++)
        r = check_laws(p, &plan->steps[i], e);
    if (r == 0 && p->conf->box == NULL)
        r = preflight(p, plan, e);
    plan_free(&plan);
    return r;
}

int
prepare_now(struct prepare *p, struct err *e)
{
    struct script *script = NULL;
    struct script_conf sc;
    int r;

    (void)fault_hit("reload_prepare");
    prepare_script_conf(p->conf, p->version, (uint64_t)clock_mono_ns(), &sc);
    r = script_load(&sc, &script, e);
    if (r == 0)
        r = script_test_laws(script, e);
    if (r == 0) {
        script_files_seal(p->version->files);
        r = load_again(p, script, e);
    }
    if (r == 0)
        r = check(p, script, e);
    script_free(&script);
    return r;
}

static void *
prepare_main(void *arg)
{
    struct prepare *p = arg;

    (void)pthread_setname_np(pthread_self(), "reload");
    mem_apart();
    p->code = prepare_now(p, &p->err);
    mem_give_back(); /* a load may take up to its cap, for nothing */
    atomic_store(&p->done, true);
    p->wake(p->arg);
    return NULL;
}

/* ------------------------------------------------------- the coordinator */

int
prepare_start(struct prepare *p, struct err *e)
{
    sigset_t all, old;

    err_clear(&p->err);
    atomic_store(&p->done, false);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    p->started = pthread_create(&p->thread, NULL, prepare_main, p) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return p->started ? 0 : err_set(e, ERR_INTERNAL, "cannot start a thread");
}

bool
prepare_is_done(struct prepare *p)
{
    if (!p->started || !atomic_load(&p->done))
        return !p->started;
    (void)pthread_join(p->thread, NULL);
    p->started = false;
    return true;
}

bool
prepare_end(struct prepare *p, int64_t wait_ms)
{
    struct timespec until;

    if (!p->started)
        return true;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000;
    if (pthread_timedjoin_np(p->thread, NULL, &until) != 0)
        return false;
    p->started = false;
    return true;
}

void
prepare_fini(struct prepare *p)
{
    version_free(&p->version);
    buf_fini(&p->plan);
    buf_fini(&p->connectors);
    buf_fini(&p->broken);
    buf_fini(&p->table);
    buf_fini(&p->short_table);
    memset(p, 0, sizeof *p);
}
