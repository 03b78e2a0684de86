#include "op/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "op/quarantine.h"
#include "op/seen.h"

enum { SKIP_LOG_MS = 10000 };

/* Records whose key failed in front of the exchange: take them out of `b`
 * and send them to the quarantine, which is this step's. */
static int
take_failed(struct op *op, struct batch *b, struct err *e)
{
    const struct op_outs *outs = op_side(op, PLAN_QUARANTINE);
    struct batch one = {.part = b->part, .n = 1};
    uint32_t i, n = 0;
    int r;

    for (i = 0; outs != NULL && i < b->n; i++) {
        if ((b->recs[i].flags & REC_FAILED) == 0) {
            b->keys[n] = b->keys[i];
            b->recs[n++] = b->recs[i];
            continue;
        }
        one.recs = &b->recs[i];
        r = op_emit(outs, &one, e);
        if (r != 0)
            return r;
    }
    if (outs != NULL)
        b->n = n;
    return 0;
}

static int
in_batch(struct op_out *o, struct batch *b, struct err *e)
{
    struct op *op = (struct op *)(void *)o;
    int r = b->keys != NULL ? take_failed(op, b, e) : 0;

    if (r != 0)
        return r;
    return op->type->batch(op, b, e);
}

static int
in_partials(struct op_out *o, struct partials **p, struct err *e)
{
    struct op *op = (struct op *)(void *)o;

    return op->type->partials(op, p, e);
}

static int
in_mark(struct op_out *o, const struct mark *m, struct err *e)
{
    struct op *op = (struct op *)(void *)o;

    if (op->type->mark != NULL)
        return op->type->mark(op, m, e);
    return op_forward(op, m, e);
}

static bool
in_ready(struct op_out *o)
{
    struct op *op = (struct op *)(void *)o;

    if (op->type->ready != NULL && !op->type->ready(op))
        return false;
    return op_all_ready(op);
}

void
op_init(struct op *op, const struct op_type *type, struct op_env *env,
        const struct plan_step *step)
{
    op->in = (struct op_out){in_batch, in_partials, in_mark, in_ready};
    op->type = type;
    op->env = env;
    op->step = step;
    op->count = mem_zalloc(sizeof *op->count);
    atomic_init(&op->count->watermark, WM_NONE);
}

void
op_free(struct op **opp)
{
    struct op *op = *opp;
    uint32_t i;

    *opp = NULL;
    if (op == NULL)
        return;
    if (op->type->free != NULL)
        op->type->free(op);
    free(op->out.items);
    for (i = 0; i < op->side_count; i++)
        free(op->sides[i].outs.items);
    free(op->sides);
    if (op->failed != NULL)
        batch_fini(op->failed);
    free(op->failed);
    free(op->count);
    free(op);
}

void
op_outs_add(struct op_outs *outs, struct op_out *o)
{
    outs->items =
        mem_realloc(outs->items, (outs->count + 1u) * sizeof(struct op_out *));
    outs->items[outs->count++] = o;
}

/* Consumers may change the array, so all but the last get one of their own. */
static int
emit_copy(struct op_out *o, const struct batch *b, struct err *e)
{
    struct batch c;
    int r;

    batch_init(&c);
    c.recs = mem_alloc((b->n + 1u) * sizeof *c.recs);
    memcpy(c.recs, b->recs, b->n * sizeof *c.recs);
    c.n = c.cap = b->n;
    c.part = b->part;
    r = o->batch(o, &c, e);
    batch_fini(&c);
    return r;
}

int
op_emit(const struct op_outs *outs, struct batch *b, struct err *e)
{
    uint32_t i;
    int r;

    if (b->n == 0 || outs->count == 0)
        return 0;
    for (i = 0; i + 1 < outs->count; i++) {
        r = emit_copy(outs->items[i], b, e);
        if (r != 0)
            return r;
    }
    return outs->items[i]->batch(outs->items[i], b, e);
}

int
op_emit_mark(const struct op_outs *outs, const struct mark *m, struct err *e)
{
    uint32_t i;
    int r;

    for (i = 0; i < outs->count; i++) {
        r = outs->items[i]->mark(outs->items[i], m, e);
        if (r != 0)
            return r;
    }
    return 0;
}

int
op_forward(struct op *op, const struct mark *m, struct err *e)
{
    int r = op_emit_mark(&op->out, m, e);
    uint32_t i;

    for (i = 0; i < op->side_count && r == 0; i++)
        r = op_emit_mark(&op->sides[i].outs, m, e);
    return r;
}

const struct op_outs *
op_side(const struct op *op, const char *name)
{
    uint32_t i;

    for (i = 0; i < op->side_count; i++)
        if (strcmp(op->sides[i].name, name) == 0)
            return &op->sides[i].outs;
    return NULL;
}

struct op_outs *
op_output(struct op *op, const char *name)
{
    uint32_t i;

    if (strcmp(name, "main") == 0)
        return &op->out;
    for (i = 0; i < op->side_count; i++)
        if (strcmp(op->sides[i].name, name) == 0)
            return &op->sides[i].outs;
    op->sides = mem_realloc(op->sides, (i + 1u) * sizeof *op->sides);
    op->sides[i] = (struct op_side){.name = name};
    op->side_count++;
    return &op->sides[i].outs;
}

int
op_emit_side(const struct op *op, const char *name, struct batch *b,
             struct err *e)
{
    const struct op_outs *outs = op_side(op, name);

    return outs != NULL ? op_emit(outs, b, e) : 0;
}

bool
op_all_ready(const struct op *op)
{
    uint32_t i;

    if (!op_outs_ready(&op->out))
        return false;
    for (i = 0; i < op->side_count; i++)
        if (!op_outs_ready(&op->sides[i].outs))
            return false;
    return true;
}

void
op_give(struct op *op, struct snapshot **s)
{
    struct op_job *job = op->env->job;

    job->give(job->arg, op->step, op->env->subtask, s);
}

bool
op_outs_ready(const struct op_outs *outs)
{
    uint32_t i;

    for (i = 0; i < outs->count; i++)
        if (!outs->items[i]->ready(outs->items[i]))
            return false;
    return true;
}

int
op_field_init(struct op *op, const struct opt *o, struct op_field *ret,
              struct err *e)
{
    const char *path = opt_str(o, "field", NULL);

    *ret = (struct op_field){.func = opt_func(o, "func")};
    if (path == NULL)
        return 0;
    return reader_column(op->reader, path, strlen(path), &ret->column, e);
}

/* Whether a skipped record is logged now: the first of its step and cause,
 * then one every 10 s, whatever the subtask. */
static bool
log_now(struct op_counters *c, enum err_cause cause)
{
    int64_t now = clock_mono_ms() + 1; /* 0 = never */
    int64_t last =
        atomic_load_explicit(&c->skip_log_ms[cause], memory_order_relaxed);

    return (last == 0 || now - last >= SKIP_LOG_MS) &&
           atomic_compare_exchange_strong(&c->skip_log_ms[cause], &last, now);
}

static void
copy_text(char *to, size_t size, const char *from)
{
    size_t n = from != NULL ? strlen(from) : 0;

    if (n >= size)
        n = size - 1;
    if (n != 0)
        memcpy(to, from, n);
    to[n] = '\0';
}

static void
copy_bytes(char *to, size_t size, size_t *ret_len, const char *from, size_t len)
{
    *ret_len = len < size ? len : size;
    if (*ret_len != 0)
        memcpy(to, from, *ret_len);
}

static void
fill_failure(struct op_failure *f, const struct plan_step *step,
             const struct rec *r, const struct err *e)
{
    f->err = *e;
    copy_text(f->step, sizeof f->step, step->name);
    copy_text(f->place, sizeof f->place, step->place);
    if (f->err.where[0] == '\0')
        copy_text(f->err.where, sizeof f->err.where, step->place);
    if (r == NULL)
        return;
    f->has_record = true;
    copy_text(f->topic, sizeof f->topic, topic_name(r->topic));
    f->partition = r->partition;
    f->offset = r->offset;
    f->timestamp = r->ts;
    f->has_timestamp = (r->flags & REC_HAS_TS) != 0;
    f->has_key = r->key != NULL;
    if (f->has_key)
        copy_bytes(f->key, sizeof f->key, &f->key_len, r->key, r->key_len);
    f->has_value = r->val != NULL;
    if (f->has_value)
        copy_bytes(f->value, sizeof f->value, &f->value_len, r->val,
                   r->val_len);
}

static void
log_skip(const struct op_failure *f, uint64_t count)
{
    struct log_record lr = {
        .step = f->step,
        .step_place = f->place,
        .topic = f->has_record ? f->topic : NULL,
        .partition = f->partition,
        .offset = f->offset,
        .key = f->has_key ? f->key : NULL,
        .key_len = f->key_len,
        .timestamp = f->timestamp,
        .has_timestamp = f->has_timestamp,
        .value = f->has_value ? f->value : NULL,
        .value_len = f->value_len,
        .count = count,
    };

    log_skipped(&f->err, &lr);
}

/* How many were skipped so far; at a source, behind rounds of both kinds. */
static uint64_t
skipped(const struct op *op, const struct plan_step *step,
        const struct op_counters *count, enum err_cause cause)
{
    const struct op_job *job = op->env->job;

    if (count == op->count)
        return count_get(&count->dropped[cause]);
    return count_get(&op_source_errors(job, step->logical, 0)->dropped[cause]) +
           count_get(&op_source_errors(job, step->logical, 1)->dropped[cause]);
}

/* At once: the record's bytes are only borrowed, and what reads the output
 * gathers. */
static int
quarantine(struct op *op, const struct plan_step *step, const struct rec *r,
           struct err *e)
{
    struct err why = *e;

    if (op->failed == NULL) {
        op->failed = mem_zalloc(sizeof *op->failed);
        batch_init(op->failed);
    }
    batch_clear(op->failed);
    quarantine_add(op, step, r, &why, op->failed);
    if (op->type->quarantine != NULL)
        return op->type->quarantine(op, op->failed, e);
    if (op_side(op, PLAN_QUARANTINE) == NULL)
        return err_set(e, ERR_INTERNAL, "step %s has no quarantine",
                       op->step->name);
    return op_emit_side(op, PLAN_QUARANTINE, op->failed, e);
}

/* What the policy of a step says; `r` is its failed record. */
enum policy { BY_STEP, ALWAYS_FAIL, ALWAYS_QUARANTINE };

static int
fail_by(struct op *op, const struct rec *r, enum policy policy, struct err *e)
{
    struct op_job *job = op->env->job;
    const struct plan_step *step = op->step;
    struct op_counters *count = op->count;
    enum err_cause cause = e->cause;
    bool at_source = (cause == CAUSE_DECODE || cause == CAUSE_BIGINT) &&
                     r != NULL && r->src != UINT16_MAX;
    struct op_failure f;
    bool first = true;

    if (e->code == ERR_IO && (e->flags & ERR_FATAL) != 0 &&
        job->closed != NULL) {
        job->closed(job->arg); /* the sink drops what it gets from now on */
        return 0;
    }
    if (e->code != ERR_RECORD) { /* the sink, source or engine is broken */
        memset(&f, 0, sizeof f);
        fill_failure(&f, step, r, e);
        job->failed(job->arg, &f);
        return e->code;
    }
    if (at_source) {
        step = &job->plan->steps[r->src];
        count = op_source_errors(job, step->logical, op->env->round);
        first = op->step == step || !op_seen_before(job->seen, r);
        err_where(e, "%s", step->place); /* not where Lua met it */
    }
    if (first)
        count_add_shared(&count->errors[cause], 1);
    memset(&f, 0, sizeof f);
    fill_failure(&f, step, r, e);
    if (policy == ALWAYS_FAIL ||
        (policy == BY_STEP && step->on_error == ON_ERROR_FAIL)) {
        job->failed(job->arg, &f);
        return e->code;
    }
    if (policy == ALWAYS_QUARANTINE || step->on_error == ON_ERROR_QUARANTINE) {
        if (!first)
            return 0;
        count_add_shared(&count->quarantined[cause], 1);
        return quarantine(op, step, r, e);
    }
    if (first) {
        count_add_shared(&count->dropped[cause], 1);
        if (log_now(&job->counters[step->logical], cause))
            log_skip(&f, skipped(op, step, count, cause));
    }
    return 0;
}

int
op_fail(struct op *op, const struct rec *r, struct err *e)
{
    return fail_by(op, r, BY_STEP, e);
}

int
op_fail_always(struct op *op, const struct rec *r, struct err *e)
{
    return fail_by(op, r, ALWAYS_FAIL, e);
}

int
op_fail_quarantine(struct op *op, const struct rec *r, struct err *e)
{
    return fail_by(op, r, ALWAYS_QUARANTINE, e);
}
