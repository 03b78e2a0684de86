/*
 * A process step in its operator: fed by hand, its rows and marks in a log.
 *
 * For test_op_process.c and test_op_handles.c; static functions, so that each
 * has its own.
 */
#ifndef TESTS_PROCESS_RIG_H
#define TESTS_PROCESS_RIG_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "op/op.h"
#include "script_job.h"
#include "store_util.h"

static struct op_failure failure; /* the last one */

struct rig {
    struct op_out probe;
    struct job_of job;
    struct plan *plan;
    const struct plan_step *step;
    struct op_job ops;
    struct op_env env;
    struct op *op;
    struct batch in;
    struct buf log; /* rows, and marks as <wm>, <barrier>, <end> */
    uint32_t emits; /* calls with rows since the last look */
    struct snapshot *snap;
    bool full;
    int failures;
};

static inline int
probe_batch(struct op_out *o, struct batch *b, struct err *e)
{
    struct rig *g = (struct rig *)(void *)o;
    uint32_t i;

    (void)e;
    g->emits++;
    for (i = 0; i < b->n; i++) {
        buf_add(&g->log, b->recs[i].val, b->recs[i].val_len);
        buf_addc(&g->log, ' ');
    }
    return 0;
}

static inline int
probe_mark(struct op_out *o, const struct mark *m, struct err *e)
{
    struct rig *g = (struct rig *)(void *)o;

    (void)e;
    if (m->kind == MARK_WATERMARK && m->wm == WM_MAX)
        buf_adds(&g->log, "<max> ");
    else if (m->kind == MARK_WATERMARK)
        buf_addf(&g->log, "<%lld> ", (long long)m->wm);
    else
        buf_adds(&g->log, m->kind == MARK_BARRIER ? "<barrier> " : "<end> ");
    if (m->kind == MARK_END)
        assert_non_null(g->snap);
    return 0;
}

static inline bool
probe_ready(struct op_out *o)
{
    return !((struct rig *)(void *)o)->full;
}

static inline void
give(void *arg, const struct plan_step *step, uint32_t subtask,
     struct snapshot **s)
{
    struct rig *g = arg;

    (void)step;
    (void)subtask;
    snapshot_free(&g->snap);
    g->snap = *s;
    *s = NULL;
}

static inline void
failed(void *arg, const struct op_failure *f)
{
    ((struct rig *)arg)->failures++;
    failure = *f;
}

static inline void
rig_make(struct rig *g)
{
    if (op_process_new(&g->env, g->step, g->job.reader, &g->op, &err) != 0)
        fail_msg("%s", err.msg);
    op_outs_add(&g->op->out, &g->probe);
}

/* A step with the options `text`. */
static inline void
rig_up(struct rig *g, const char *text)
{
    static const char format[] =
        "local s = require 'streamlua'\n"
        "local job = s.job 't'\n"
        "job:source('in', s.generator { count = 1, fields = {} })\n"
        "  :event_time { field = 'ts' }:key_by 'k'\n"
        "  :process { name = 'p', %s }:sink('out', s.blackhole())\n"
        "return job\n";
    struct plan_conf conf = {.parallelism = 1, .cores = 1};
    char job[4096];
    uint32_t i;

    memset(g, 0, sizeof *g);
    (void)snprintf(job, sizeof job, format, text);
    job_load_text(&g->job, job);
    assert_int_equal(plan_build(script_job(g->job.s), &conf, &g->plan, &err),
                     0);
    for (i = 0; i < g->plan->step_count; i++)
        if (g->plan->steps[i].kind == STEP_PROCESS)
            g->step = &g->plan->steps[i];
    g->probe = (struct op_out){
        .batch = probe_batch, .mark = probe_mark, .ready = probe_ready};
    g->ops = (struct op_job){
        .plan = g->plan, .give = give, .failed = failed, .arg = g};
    g->ops.counters =
        mem_zalloc(2 * g->plan->logical_count * sizeof *g->ops.counters);
    g->env =
        (struct op_env){.plan = g->plan, .job = &g->ops, .script = g->job.s};
    batch_init(&g->in);
    buf_init(&g->log);
    rig_make(g);
}

static inline void
rig_down(struct rig *g)
{
    op_free(&g->op);
    snapshot_free(&g->snap);
    free(g->ops.counters);
    plan_free(&g->plan);
    batch_fini(&g->in);
    buf_fini(&g->log);
    job_free(&g->job);
}

/* Append a record of key k at ts to the next batch. */
static inline void
put(struct rig *g, const char *k, int64_t ts, int64_t n)
{
    char text[128];
    struct buf key;
    int len =
        snprintf(text, sizeof text, "{\"k\":\"%s\",\"ts\":%lld,\"n\":%lld}", k,
                 (long long)ts, (long long)n);
    struct rec r = {.val = text,
                    .val_len = (uint32_t)len,
                    .kind = REC_OBJECT,
                    .flags = REC_HAS_TS,
                    .ts = ts,
                    .wm = WM_NONE};

    buf_init(&key);
    key_put_str(&key, k, strlen(k));
    (void)batch_add_copy(&g->in, &r);
    batch_set_key(&g->in, key.data, (uint32_t)key.len,
                  hash_key(key.data, key.len));
    buf_fini(&key);
}

static inline void
send(struct rig *g)
{
    assert_int_equal(g->op->in.batch(&g->op->in, &g->in, &err), 0);
    batch_clear(&g->in);
}

static inline void
mark(struct rig *g, const struct mark *m)
{
    assert_int_equal(g->op->in.mark(&g->op->in, m, &err), 0);
}

static inline void
finish(struct rig *g)
{
    while (g->op->pending)
        if (g->op->type->resume(g->op, &err) < 0)
            fail_msg("%s", err.msg);
}

static inline void
watermark(struct rig *g, int64_t wm)
{
    struct mark m = {.kind = MARK_WATERMARK, .wm = wm};

    mark(g, &m);
    finish(g);
}

static inline void
end(struct rig *g, bool final)
{
    struct mark m = {.kind = MARK_END, .final = final};

    mark(g, &m);
    finish(g);
}

static inline int64_t
tick(struct rig *g)
{
    int64_t wait = 1000000;

    assert_int_equal(g->op->type->tick(g->op, true, &wait, &err), 0);
    return wait;
}

#define expect(g, text)                                                        \
    do {                                                                       \
        assert_string_equal(buf_cstr(&(g)->log), text);                        \
        buf_clear(&(g)->log);                                                  \
    } while (0)

static inline void
write_round(struct store *s, uint64_t round, const struct snapshot *snap)
{
    struct snapshot_change c;
    uint32_t op;
    size_t at = 0;

    assert_int_equal(store_round_begin(s, round, &err), 0);
    assert_int_equal(store_round_operator(s, "p", 1, &op, &err), 0);
    while (snapshot_next(snap, &at, &c) == 1) {
        struct store_key k = {.op = op,
                              .group = c.key.group,
                              .ns = c.key.ns,
                              .ns_len = c.key.ns_len,
                              .key = c.key.key,
                              .key_len = c.key.key_len};
        int r = c.del ? store_round_del(s, &k, &err)
                      : store_round_put(s, &k, c.value, c.value_len, &err);

        assert_int_equal(r, 0);
    }
    assert_int_equal(store_round_write(s, STORE_COMPLETE, &err), 0);
}

static inline void
barrier(struct rig *g, uint64_t round)
{
    struct mark m = {.kind = MARK_BARRIER, .round = round};

    mark(g, &m);
    finish(g);
    while (g->op->saving)
        assert_int_equal(g->op->type->save(g->op, &err), 0);
    assert_non_null(g->snap);
}

#endif
