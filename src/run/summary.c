#include <inttypes.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "run/job.h"

static void
sum_counts(const struct op_counters *c, struct step_sums *s)
{
    int i;

    s->records_in += count_get(&c->records_in);
    s->records_out += count_get(&c->records_out);
    s->bytes_in += count_get(&c->bytes_in);
    s->bytes_out += count_get(&c->bytes_out);
    s->late += count_get(&c->late);
    s->late_windows += count_get(&c->late_windows);
    s->local_in += count_get(&c->local_in);
    s->local_out += count_get(&c->local_out);
    s->bypassed += count_get(&c->bypassed);
    s->incomplete += count_get(&c->incomplete);
    s->timers_unfired += count_get(&c->timers_unfired);
    s->timers_discarded += count_get(&c->timers_discarded);
    for (i = 0; i < CAUSE_COUNT; i++) {
        s->dropped[i] += count_get(&c->dropped[i]);
        s->errors[i] += count_get(&c->errors[i]);
        s->quarantined[i] += count_get(&c->quarantined[i]);
    }
}

static void
sum_op(const struct op *op, struct step_sums *s)
{
    const struct op_counters *c = op->count;
    int64_t wm = atomic_load_explicit(&c->watermark, memory_order_relaxed);

    sum_counts(c, s);
    s->keys += count_get(&c->keys);
    if (wm < s->watermark)
        s->watermark = wm;
}

void
step_sums(const struct job *j, uint32_t logical, struct step_sums *ret)
{
    uint32_t i, k, n;

    memset(ret, 0, sizeof *ret);
    ret->watermark = WM_MAX;
    sum_counts(&j->run->base[logical], ret);
    if (!j->built)
        return; /* a restart that did not come so far */
    for (i = 0; i < j->plan->chain_count; i++)
        for (k = 0; k < j->plan->chains[i].parallelism; k++) {
            const struct op_chain *ops = &j->subtasks[i][k].ops;

            for (n = 0; n < ops->count; n++)
                if (ops->ops[n]->step->logical == logical)
                    sum_op(ops->ops[n], ret);
        }
    sum_counts(op_source_errors(&j->ops, logical, 0), ret);
    sum_counts(op_source_errors(&j->ops, logical, 1), ret);
}

static void
put_name(struct buf *b, const char *name)
{
    json_put_name(b, name, strlen(name));
}

static void
put_count(struct buf *b, const char *name, uint64_t n)
{
    put_name(b, name);
    buf_addf(b, "%" PRIu64, n);
}

static void
put_int(struct buf *b, const char *name, int64_t n)
{
    put_name(b, name);
    json_put_int(b, n);
}

static void
put_text(struct buf *b, const char *name, const char *text)
{
    put_name(b, name);
    if (text == NULL)
        buf_adds(b, "null");
    else
        json_put_str(b, text, strlen(text));
}

static void
put_causes(struct buf *b, const char *name, const uint64_t *counts)
{
    int i;

    put_name(b, name);
    buf_addc(b, '{');
    for (i = 0; i < CAUSE_COUNT; i++)
        if (counts[i] != 0)
            put_count(b, err_cause_name((enum err_cause)i), counts[i]);
    buf_addc(b, '}');
}

static void
put_local(struct buf *b, const struct step_sums *s)
{
    double ratio =
        s->local_out != 0 ? (double)s->local_in / (double)s->local_out : 0;

    put_name(b, "local");
    buf_addc(b, '{');
    put_count(b, "records_in", s->local_in);
    put_count(b, "partials_out", s->local_out);
    put_name(b, "reduction");
    buf_addf(b, "%.2f", ratio);
    put_name(b, "bypassed");
    buf_adds(b, s->bypassed != 0 ? "true" : "false");
    buf_addc(b, '}');
}

/* Timers that the end of input left without a call. */
static void
put_timers(struct buf *b, const struct step_sums *s)
{
    put_name(b, "timers");
    buf_addc(b, '{');
    put_count(b, "unfired", s->timers_unfired);
    put_count(b, "discarded", s->timers_discarded);
    buf_addc(b, '}');
}

/* Milliseconds per subtask with maximum and skew (maximum / mean). */
static void
put_load(const struct job *j, const struct plan_step *s, struct buf *b)
{
    struct subtask *st = j->subtasks[s->chain];
    int64_t ns[3], max = 0, sum = 0;
    static const char *const names[] = {"busy_ms", "idle_ms",
                                        "backpressured_ms"};
    uint32_t k, i;

    put_name(b, "subtasks");
    buf_addc(b, '[');
    for (k = 0; k < s->parallelism; k++) {
        ns[0] = atomic_load(&st[k].busy_ns);
        ns[1] = atomic_load(&st[k].idle_ns);
        ns[2] = atomic_load(&st[k].blocked_ns);
        buf_adds(b, k != 0 ? ",{" : "{");
        for (i = 0; i < 3; i++)
            put_int(b, names[i], ns[i] / 1000000);
        buf_addc(b, '}');
        sum += ns[0];
        max = ns[0] > max ? ns[0] : max;
    }
    buf_addc(b, ']');
    put_int(b, "busy_ms_max", max / 1000000);
    put_name(b, "skew");
    buf_addf(b, "%.2f",
             sum > 0 ? (double)max * s->parallelism / (double)sum : 1.0);
}

static void
put_step(const struct job *j, const struct plan_step *s, struct buf *b)
{
    struct step_sums sums;

    step_sums(j, s->logical, &sums);
    put_name(b, s->name);
    buf_addc(b, '{');
    put_text(b, "kind", plan_step_said(s));
    put_count(b, "parallelism", s->parallelism);
    put_count(b, "records_in", sums.records_in);
    put_count(b, "records_out", sums.records_out);
    if (s->kind == STEP_SOURCE)
        put_count(b, "bytes_in", sums.bytes_in);
    if (s->kind == STEP_SINK)
        put_count(b, "bytes_out", sums.bytes_out);
    if (s->kind == STEP_SINK && j->built &&
        j->ops.sink_types[s->index]->clamped != NULL)
        put_count(b, "timestamp_clamped",
                  j->ops.sink_types[s->index]->clamped(j->ops.sinks[s->index]));
    if (s->kind == STEP_GLOBAL || s->kind == STEP_AGGREGATE) {
        put_count(b, "late", sums.late);
        put_count(b, "late_windows", sums.late_windows);
    }
    if (opt_is(opt_get(s->opts, "window"), "kind", "count"))
        put_count(b, "incomplete", sums.incomplete);
    put_causes(b, "dropped", sums.dropped);
    put_causes(b, "quarantined", sums.quarantined);
    put_causes(b, "errors", sums.errors);
    if (s->kind == STEP_GLOBAL)
        put_local(b, &sums);
    if (s->kind == STEP_PROCESS)
        put_timers(b, &sums);
    if (plan_step_is_keyed(s))
        put_count(b, "keys", sums.keys);
    if (j->built)
        put_load(j, s, b);
    buf_addc(b, '}');
}

/* The smallest watermark over the sinks; null before the first. */
static void
put_watermark(const struct job *j, struct buf *b)
{
    int64_t wm = WM_MAX;
    struct step_sums sums;
    uint32_t i;

    for (i = 0; !j->already_done && i < j->plan->step_count; i++) {
        /* A quarantine hears of no time from what fails before event_time. */
        if (j->plan->steps[i].kind != STEP_SINK || j->plan->steps[i].quarantine)
            continue;
        step_sums(j, j->plan->steps[i].logical, &sums);
        wm = sums.watermark < wm ? sums.watermark : wm;
    }
    put_name(b, "watermark");
    if (wm == WM_NONE)
        buf_adds(b, "null");
    else
        json_put_int(b, wm);
}

static const char *
status_name(const struct job *j)
{
    if (j->has_failure)
        return "failed";
    if (j->already_done)
        return "finished";
    if (j->stopping || j->pipe_closed)
        return "stopped";
    return job_is_done(j) ? "finished" : "running";
}

static void
put_error(const struct job *j, struct buf *b)
{
    char text[ERR_MSG_MAX + ERR_WHERE_MAX + 3];
    const struct err *e = &j->failure.err;

    if (!j->has_failure) {
        put_text(b, "error", NULL);
        return;
    }
    (void)snprintf(text, sizeof text, "%s%s%s", e->where,
                   e->where[0] != '\0' ? ": " : "", e->msg);
    put_text(b, "error", text);
}

static void
put_round(struct buf *b, const struct round_note *n)
{
    buf_addc(b, '{');
    put_count(b, "checkpoint", n->round);
    put_int(b, "ms", n->ms);
    put_int(b, "align_ms", n->align_ms);
    put_int(b, "sync_ms", n->sync_ms);
    put_int(b, "commit_ms", n->commit_ms);
    put_int(b, "pause_us_max", n->pause_us);
    put_count(b, "puts", n->puts);
    put_count(b, "dels", n->dels);
    put_count(b, "bytes", n->bytes);
    buf_addc(b, '}');
}

/* The last rounds, oldest first. */
static void
put_rounds(const struct run *run, struct buf *b)
{
    uint64_t i =
        run->completed > ROUNDS_KEPT ? run->completed - ROUNDS_KEPT : 0;
    bool first = true;

    put_name(b, "rounds");
    buf_addc(b, '[');
    for (; i < run->completed; i++) {
        if (!first)
            buf_addc(b, ',');
        first = false;
        put_round(b, &run->notes[i % ROUNDS_KEPT]);
    }
    buf_addc(b, ']');
}

static void
put_checkpoints(const struct run *run, struct buf *b)
{
    uint64_t last = run->home.store != NULL && !run->home.temporary
                        ? run->home.status.complete
                        : 0;

    put_name(b, "checkpoints");
    buf_addc(b, '{');
    put_count(b, "completed", run->completed);
    put_count(b, "failed", run->failed_rounds);
    if (last != 0)
        put_count(b, "last", last);
    else
        put_text(b, "last", NULL);
    if (run->restored != 0)
        put_count(b, "restored", run->restored);
    else
        put_text(b, "restored", NULL);
    buf_addc(b, '}');
}

/* What the process holds in memory beside mapped files, bytes; 0: unknown. */
static uint64_t
anonymous_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long size, resident = 0, shared = 0;
    long page = sysconf(_SC_PAGESIZE);

    if (f == NULL)
        return 0;
    if (fscanf(f, "%lu %lu %lu", &size, &resident, &shared) != 3)
        resident = shared = 0;
    (void)fclose(f);
    return resident > shared ? (uint64_t)(resident - shared) * (uint64_t)page
                             : 0;
}

static void
put_part(struct buf *b, const char *name, uint64_t used, int64_t limit)
{
    put_name(b, name);
    buf_addc(b, '{');
    put_count(b, "used", used);
    put_int(b, "limit", limit);
    buf_addc(b, '}');
}

uint64_t
job_state_bytes(const struct job *j)
{
    const struct plan *p = j->plan;
    uint64_t sum = 0;
    uint32_t i, k, n;

    for (i = 0; j->built && i < p->chain_count; i++)
        for (k = 0; k < p->chains[i].parallelism; k++) {
            const struct subtask *st = &j->subtasks[i][k];

            for (n = 0; n < st->ops.count; n++)
                sum += count_get(&st->ops.ops[n]->count->state_bytes);
        }
    return sum;
}

/* The parts of memory. Buffers are what is neither state nor Lua. */
static void
put_memory(const struct job *j, struct buf *b)
{
    uint64_t state = job_state_bytes(j), lua = script_memory(j->script), all;
    const struct plan *p = j->plan;
    uint32_t i, k;

    for (i = 0; j->built && i < p->chain_count; i++)
        for (k = 0; k < p->chains[i].parallelism; k++) {
            const struct subtask *st = &j->subtasks[i][k];

            lua += st->script != NULL ? script_memory(st->script) : 0;
        }
    all = anonymous_bytes();
    put_name(b, "memory");
    buf_addc(b, '{');
    put_int(b, "total", p->memory_bytes);
    put_count(b, "used", all);
    put_part(b, "state", state, p->state_bytes);
    put_part(b, "buffers", all > state + lua ? all - state - lua : 0,
             p->buffers_bytes);
    put_part(b, "lua", lua, p->lua_bytes);
    buf_addc(b, '}');
}

static void
put_no_checkpoints(struct buf *b)
{
    static const struct run none;

    put_checkpoints(&none, b);
}

void
summary_put(struct job *j, struct buf *b, int exit_code)
{
    uint32_t i;

    buf_addc(b, '{');
    put_text(b, "job", j->plan->name);
    put_text(b, "status", status_name(j));
    put_int(b, "exit_code", exit_code);
    put_error(j, b);
    put_int(b, "started", j->run->started_ms);
    put_int(b, "ended", clock_wall_ms());
    put_count(b, "parallelism", j->plan->parallelism);
    put_count(b, "slots", j->slot_count);
    put_count(b, "reload", reload_number(j->run));
    put_count(b, "restarts", j->run->restarts);
    put_watermark(j, b);
    put_checkpoints(j->run, b);
    put_rounds(j->run, b);
    put_memory(j, b);
    put_name(b, "steps");
    buf_addc(b, '{');
    for (i = 0; !j->already_done && i < j->plan->step_count; i++)
        if (j->plan->steps[i].kind != STEP_LOCAL &&
            j->plan->steps[i].number > 0)
            put_step(j, &j->plan->steps[i], b);
    buf_adds(b, "}}");
}

static int
write_file(const char *path, const struct buf *b, struct err *e)
{
    char tmp[4096];
    FILE *f;
    int bad;

    (void)snprintf(tmp, sizeof tmp, "%s.tmp-%ld", path, (long)getpid());
    f = fopen(tmp, "we");
    if (f == NULL)
        return err_set(e, ERR_IO, "cannot write '%s': %s", tmp,
                       strerror(errno));
    bad = fwrite(b->data, 1, b->len, f) != b->len || fputc('\n', f) == EOF ||
          fflush(f) != 0 || fsync(fileno(f)) != 0;
    bad = fclose(f) != 0 || bad;
    if (bad || rename(tmp, path) != 0) {
        int r =
            err_set(e, ERR_IO, "cannot write '%s': %s", path, strerror(errno));

        (void)unlink(tmp);
        return r;
    }
    return 0;
}

int
summary_write(struct job *j, int exit_code, struct err *e)
{
    struct buf b;
    int r;

    if (j->conf->summary_path == NULL)
        return 0;
    buf_init(&b);
    summary_put(j, &b, exit_code);
    r = write_file(j->conf->summary_path, &b, e);
    buf_fini(&b);
    return r;
}

void
summary_write_failed(const struct run_conf *conf, const char *name,
                     int64_t started_ms, const struct err *error, int exit_code)
{
    char text[ERR_MSG_MAX + ERR_WHERE_MAX + 3];
    struct buf b;
    struct err e;

    if (conf->summary_path == NULL)
        return;
    (void)snprintf(text, sizeof text, "%s%s%s", error->where,
                   error->where[0] != '\0' ? ": " : "", error->msg);
    buf_init(&b);
    buf_addc(&b, '{');
    put_text(&b, "job", name);
    put_text(&b, "status", "failed");
    put_int(&b, "exit_code", exit_code);
    put_text(&b, "error", text);
    put_int(&b, "started", started_ms);
    put_int(&b, "ended", clock_wall_ms());
    put_text(&b, "parallelism", NULL);
    put_text(&b, "slots", NULL);
    put_int(&b, "reload", 0);
    put_int(&b, "restarts", 0);
    put_text(&b, "watermark", NULL);
    put_no_checkpoints(&b);
    put_name(&b, "steps");
    buf_adds(&b, "{}}");
    err_clear(&e);
    if (write_file(conf->summary_path, &b, &e) != 0)
        log_error(&e, true, NULL);
    buf_fini(&b);
}
