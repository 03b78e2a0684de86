/*
 * A job of one source step (two subtasks) and one sink, without operators:
 * the test gives what subtasks would give, the checkpoint thread is the real
 * one over a real store in a temporary folder.
 *
 * A gate makes the order of threads certain: the sink's prepare() waits until
 * the test opens it, so that a round stays "being written" for as long as the
 * test wants.
 */
#ifndef TESTS_ROUNDS_RIG_H
#define TESTS_ROUNDS_RIG_H

#include <semaphore.h>

#include "base/fault.h"
#include "run/job.h"
#include "store_util.h"

enum { SOURCE, SINK, STEPS, SUBTASKS = 2 };

struct rig {
    struct plan_step steps[STEPS];
    struct plan_chain chains[STEPS];
    const struct source_type *sources[STEPS];
    const struct sink_type *sinks[STEPS];
    struct source *source[STEPS];
    struct sink *sink[STEPS];
    struct plan plan;
    struct run_conf conf;
    struct run run;
    struct subtask subtasks[STEPS][SUBTASKS];
    struct subtask *by_chain[STEPS];
    struct op_counters counters[2 * STEPS], earlier[STEPS];
    struct job job;
    char *dir;
    sem_t gate, begun;  /* prepare() waits for one, having posted the other */
    int prepare_result; /* what the sink's prepare() says */
    char heard[256];    /* what connectors were told, in order */
};

static struct rig *rig; /* of the test that runs */

PRINTF_LIKE(1, 2)
static inline void
hear(const char *fmt, ...)
{
    size_t n = strlen(rig->heard);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(rig->heard + n, sizeof rig->heard - n, fmt, ap);
    va_end(ap);
}

static inline int
source_committed(struct source *s, const struct buf *blobs, uint32_t count,
                 bool final, struct err *e)
{
    uint32_t i;

    (void)s;
    (void)e;
    hear("source");
    for (i = 0; i < count; i++)
        hear(" %.*s", (int)blobs[i].len, (const char *)blobs[i].data);
    hear(final ? " final; " : "; ");
    return 0;
}

static inline int
sink_committed(struct sink *s, uint64_t round, bool final, struct err *e)
{
    (void)s;
    (void)e;
    hear("sink %d%s; ", (int)round, final ? " final" : "");
    return 0;
}

static inline int
prepare(void *arg, struct err *e)
{
    struct rig *r = arg;

    (void)sem_post(&r->begun);
    while (sem_wait(&r->gate) != 0)
        ;
    if (r->prepare_result != 0)
        return err_set(e, r->prepare_result, "cannot sync part-0");
    return 0;
}

static inline void
wake(void *arg)
{
    job_wake(&((struct rig *)arg)->job);
}

static inline void
on_wakeup(struct ev_loop *loop, ev_async *w, int events)
{
    (void)w;
    (void)events;
    ev_break(loop, EVBREAK_ONE);
}

static inline void
rig_plan(struct rig *r)
{
    static const struct source_type source_type = {.committed =
                                                       source_committed};
    static const struct sink_type sink_type = {.name = "sink",
                                               .committed = sink_committed};
    uint32_t i;

    r->steps[SOURCE].kind = STEP_SOURCE;
    r->steps[SOURCE].name = "in";
    r->steps[SOURCE].parallelism = SUBTASKS;
    r->steps[SINK].kind = STEP_SINK;
    r->steps[SINK].name = "out";
    r->steps[SINK].parallelism = 1;
    for (i = 0; i < STEPS; i++) {
        r->steps[i].index = r->steps[i].chain = r->steps[i].logical = i;
        r->chains[i].parallelism = r->steps[i].parallelism;
        r->by_chain[i] = r->subtasks[i];
    }
    r->sources[SOURCE] = &source_type;
    r->sinks[SINK] = &sink_type;
    r->sink[SINK] = (struct sink *)r; /* there is one; never looked into */
    r->plan.name = "job";
    r->plan.steps = r->steps;
    r->plan.step_count = r->plan.logical_count = STEPS;
    r->plan.chains = r->chains;
    r->plan.chain_count = STEPS;
    r->plan.max_parallelism = 128;
    r->plan.checkpoint = true;
    r->plan.checkpoint_interval_ms = 1000;
}

static inline void
rig_job(struct rig *r)
{
    struct job *j = &r->job;

    r->conf.file = "job.lua";
    r->conf.text = "return 1";
    r->conf.text_len = 8;
    r->run.conf = j->conf = &r->conf;
    r->run.loop = ev_loop_new(EVFLAG_AUTO);
    assert_non_null(r->run.loop);
    ev_async_init(&r->run.wakeup, on_wakeup);
    ev_async_start(r->run.loop, &r->run.wakeup);
    r->run.base = calloc(STEPS, sizeof *r->run.base);
    r->run.kept = calloc(STEPS, sizeof *r->run.kept);
    r->run.next = calloc(STEPS, sizeof *r->run.next);
    r->run.logical_count = STEPS;
    reload_init(&r->run);
    assert_int_equal(reload_look(&r->run, true, &err), 0);
    r->run.home.store = open_store(r->dir);
    j->run = &r->run;
    j->plan = &r->plan;
    j->described = true; /* no tree to describe */
    j->subtasks = r->by_chain;
    j->ops.plan = &r->plan;
    j->ops.counters = r->counters;
    j->earlier = r->earlier;
    j->ops.source_types = r->sources;
    j->ops.sink_types = r->sinks;
    j->ops.sources = r->source;
    j->ops.sinks = r->sink;
}

/* `open` prepares pass the gate at once; more by sem_post(). */
static inline void
rig_up(struct rig *r, unsigned open)
{
    struct ckpt *c = &r->job.ckpt;

    memset(r, 0, sizeof *r);
    rig = r;
    assert_int_equal(sem_init(&r->gate, 0, open), 0);
    assert_int_equal(sem_init(&r->begun, 0, 0), 0);
    r->dir = temp_dir();
    rig_plan(r);
    rig_job(r);
    rounds_init(&r->job.rounds, &r->job);
    r->job.rounds.ended_ms = 0; /* the test's clock begins at 0 */
    c->store = r->run.home.store;
    c->durable = &r->job.ops.durable;
    c->prepare = prepare;
    c->wake = wake;
    c->arg = r;
    assert_int_equal(ckpt_start(c, &err), 0);
}

static inline void
rig_down(struct rig *r)
{
    (void)sem_post(&r->gate);
    ckpt_stop(&r->job.ckpt);
    rounds_fini(&r->job.rounds);
    store_close(&r->run.home.store);
    assert_true(reload_end(&r->run));
    ev_loop_destroy(r->run.loop);
    free(r->run.base);
    free(r->run.kept);
    free(r->run.next);
    remove_dir(r->dir);
    free(r->dir);
    (void)sem_destroy(&r->gate);
    (void)sem_destroy(&r->begun);
    rig = NULL;
}

/* One call of the coordinator at `now_ms`. */
static inline int
tick(struct rig *r, int64_t now_ms)
{
    err_clear(&err);
    return rounds_tick(&r->job.rounds, now_ms, &err);
}

/* Tick until the round that is being written has ended. */
static inline int
tick_written(struct rig *r, int64_t now_ms)
{
    int rc = tick(r, now_ms);

    while (rc == 0 && r->job.rounds.state == ROUND_WRITING) {
        (void)ev_run(r->run.loop, EVRUN_ONCE);
        rc = tick(r, now_ms);
    }
    return rc;
}

/* The last round, to its end. */
static inline int
final_round(struct rig *r)
{
    int rc;

    err_clear(&err);
    while ((rc = rounds_final(&r->job.rounds, &err)) == 1)
        (void)ev_run(r->run.loop, EVRUN_ONCE);
    return rc;
}

/* A part gives `blob` to `round`, which may be SNAPSHOT_END. */
static inline void
give(struct rig *r, int step, uint32_t subtask, uint64_t round,
     const char *blob)
{
    struct snapshot *s = snapshot_new(round);

    buf_adds(&s->blob, blob);
    rounds_give(&r->job, &r->steps[step], subtask, &s);
    assert_null(s);
}

static inline void
count_all(struct rig *r, uint64_t round)
{
    atomic_store(&r->subtasks[SOURCE][0].counted, round);
    atomic_store(&r->subtasks[SOURCE][1].counted, round);
    atomic_store(&r->subtasks[SINK][0].counted, round);
}

/* Every part gives the barrier of `round`, and has counted. */
static inline void
give_all(struct rig *r, uint64_t round, const char *a, const char *b)
{
    give(r, SOURCE, 0, round, a);
    give(r, SOURCE, 1, round, b);
    give(r, SINK, 0, round, "");
    count_all(r, round);
}

/* Every part ends; the subtasks are done. */
static inline void
end_all(struct rig *r, const char *a, const char *b)
{
    give(r, SOURCE, 0, SNAPSHOT_END, a);
    give(r, SOURCE, 1, SNAPSHOT_END, b);
    give(r, SINK, 0, SNAPSHOT_END, "");
    atomic_store(&r->subtasks[SOURCE][0].done, true);
    atomic_store(&r->subtasks[SOURCE][1].done, true);
    atomic_store(&r->subtasks[SINK][0].done, true);
}

/* What the store remembers of `step`, as "blob blob "; "" if nothing. The
 * thread that owns the store must be at rest. */
static inline void
remembered(struct rig *r, const char *step, char *ret, size_t size)
{
    struct store_reader *in = NULL;
    const struct step_blobs *b;
    struct restored all = {0};
    const void *bytes;
    size_t len, n = 0;
    uint32_t i;

    ret[0] = '\0';
    assert_int_equal(store_reader_new(r->run.home.store, &in, &err), 0);
    assert_int_equal(store_reader_begin(in, STORE_VIEW_COMPLETE, &err), 0);
    if (store_reader_blob(in, "steps", &bytes, &len, &err) == 1)
        assert_int_equal(restored_read(bytes, len, &all, &err), 0);
    b = restored_find(&all, step);
    for (i = 0; b != NULL && i < b->count; i++)
        n += (size_t)snprintf(ret + n, size - n, "%.*s ", (int)b->blobs[i].len,
                              (const char *)b->blobs[i].data);
    store_reader_end(in);
    store_reader_free(&in);
    restored_fini(&all);
}

#endif
