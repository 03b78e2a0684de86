/* source: polls its connector, decodes, judges bad records, tells time. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "format/format.h"
#include "op/op.h"

struct part {
    bool at_end, ended;
};

struct op_source {
    struct op op;
    const struct source_type *type;
    struct source_task *task;
    struct decoder *decoder; /* raw_payload sources only */
    struct batch batch;
    struct part *parts;
    size_t part_cap;
    uint32_t part_count;
    bool ended, gave;
    bool announced; /* its first partitions were all said downstream */
};

static bool
bad_here(const struct source_event *ev, uint32_t i, uint32_t *next)
{
    return *next < ev->bad_count && ev->bad[*next].index == i;
}

static int
bad_error(const struct source_bad *bad, struct err *e)
{
    (void)err_record(e, bad->cause, "%s", bad->msg);
    if (bad->where != NULL)
        err_where(e, "%s", bad->where);
    return ERR_RECORD;
}

/* Turn raw bytes into a record. @return 1 keep, 0 nothing, or the error. */
static int
decode(struct op_source *s, struct rec *r, struct err *e)
{
    if (s->decoder == NULL || r->kind == REC_TOMBSTONE)
        return 1;
    return decoder_decode(s->decoder, r->val, r->val_len, &s->batch.arena, r,
                          e);
}

static int
take_batch(struct op_source *s, const struct source_event *ev, struct err *e)
{
    struct batch *b = &s->batch;
    uint32_t i, n = 0, bad = 0;
    int64_t wall = clock_wall_ms();
    int r;

    count_add(&s->op.count->records_in, b->n);
    count_add(&s->op.count->bytes_in, ev->bytes);
    b->part = ev->part;
    for (i = 0; i < b->n; i++) {
        struct rec *rec = &b->recs[i];

        rec->wm = WM_NONE;
        if ((rec->flags & REC_HAS_TS) == 0) {
            rec->ts = wall;
            rec->flags |= REC_HAS_TS;
        }
        if (bad_here(ev, i, &bad))
            r = bad_error(&ev->bad[bad++], e);
        else
            r = decode(s, rec, e);
        if (r < 0) {
            r = op_fail(&s->op, rec, e);
            if (r != 0)
                return r;
            continue;
        }
        if (r == 0)
            continue;
        if (n != i)
            b->recs[n] = *rec;
        n++;
    }
    b->n = n;
    count_add(&s->op.count->records_out, n);
    return op_emit(&s->op.out, b, e);
}

static int
part_mark(struct op_source *s, const struct source_event *ev, struct err *e)
{
    struct mark m = {.kind = MARK_PART,
                     .part_event = ev->kind,
                     .part = ev->part,
                     .wm = ev->wm,
                     .past_ms = ev->past_ms,
                     .discovered = ev->discovered,
                     .topic = ev->topic,
                     .partition = ev->partition};

    return op_forward(&s->op, &m, e);
}

/* Give the round the positions of everything read so far. */
static int
give_positions(struct op_source *s, uint64_t round, struct err *e)
{
    struct snapshot *snap = snapshot_new(round);
    int r = s->type->snapshot(s->task, &snap->blob, e);

    if (r == 0)
        op_give(&s->op, &snap);
    snapshot_free(&snap);
    return r;
}

static int
source_end(struct op_source *s, struct err *e)
{
    struct mark wm = {.kind = MARK_WATERMARK, .wm = WM_MAX};
    struct mark end = {.kind = MARK_END, .final = true};
    uint32_t i;
    int r = give_positions(s, SNAPSHOT_END, e);

    if (r != 0)
        return r;
    s->ended = true;
    /* One that was stopped before it said what it has is not used up. */
    if (s->part_count == 0)
        end.final = !atomic_load(&s->op.env->job->stopped);
    for (i = 0; i < s->part_count; i++)
        end.final = end.final && s->parts[i].ended;
    end.final = end.final || atomic_load(&s->op.env->job->drain);
    if (end.final) {
        r = op_forward(&s->op, &wm, e);
        if (r != 0)
            return r;
    }
    return op_forward(&s->op, &end, e);
}

static void
part_note(struct op_source *s, const struct source_event *ev)
{
    if (ev->part >= s->part_count) {
        mem_grow(&s->parts, &s->part_cap, ev->part + 1u, sizeof *s->parts);
        memset(s->parts + s->part_count, 0,
               (ev->part + 1u - s->part_count) * sizeof *s->parts);
        s->part_count = ev->part + 1;
    }
    if (ev->kind == SOURCE_AT_END)
        s->parts[ev->part].at_end = true;
    else if (ev->kind == SOURCE_PART_END)
        s->parts[ev->part].at_end = s->parts[ev->part].ended = true;
    else
        s->parts[ev->part].at_end = false;
}

/* Whatever is not a new partition ends the list of those of the start. */
static int
announced_all(struct op_source *s, struct err *e)
{
    const struct source_event none = {.kind = SOURCE_NONE};

    s->announced = true;
    return part_mark(s, &none, e);
}

int
op_source_poll(struct op *op, int64_t *ret_wait, struct err *e)
{
    struct op_source *s = (struct op_source *)(void *)op;
    struct source_event ev = {.kind = SOURCE_NONE, .wait_ms = -1};
    int r;

    if (s->ended)
        return 0;
    batch_clear(&s->batch);
    s->gave = false;
    r = s->type->poll(s->task, &s->batch, OP_BATCH_MAX, &ev, e);
    if (r != 0)
        return op_fail(op, NULL, e) != 0 ? e->code : 1;
    if (ev.kind != SOURCE_ADDED && !s->announced) {
        r = announced_all(s, e);
        if (r != 0)
            return r;
    }
    switch (ev.kind) {
    case SOURCE_NONE:
        *ret_wait = ev.wait_ms;
        return 0;
    case SOURCE_BATCH:
        s->gave = true;
        if (s->parts[ev.part].at_end) /* it has something to read again */
            r = part_mark(s, &ev, e);
        part_note(s, &ev);
        if (r == 0)
            r = take_batch(s, &ev, e);
        break;
    case SOURCE_ADDED:
    case SOURCE_AT_END:
    case SOURCE_PART_END:
        part_note(s, &ev);
        r = part_mark(s, &ev, e);
        break;
    case SOURCE_PART_IDLE:
    case SOURCE_WATERMARK:
        r = part_mark(s, &ev, e);
        break;
    case SOURCE_END:
        r = source_end(s, e);
        break;
    }
    return r != 0 ? r : 1;
}

int
op_source_barrier(struct op *op, uint64_t round, struct err *e)
{
    struct op_source *s = (struct op_source *)(void *)op;
    struct mark m = {.kind = MARK_BARRIER, .round = round};
    int r;

    if (s->ended)
        return 0;
    r = give_positions(s, round, e);
    return r != 0 ? r : op_forward(op, &m, e);
}

bool
op_source_ended(const struct op *op)
{
    return ((const struct op_source *)(const void *)op)->ended;
}

bool
op_source_gave_records(const struct op *op)
{
    return ((const struct op_source *)(const void *)op)->gave;
}

bool
op_source_at_end(const struct op *op)
{
    const struct op_source *s = (const struct op_source *)(const void *)op;
    uint32_t i;

    for (i = 0; i < s->part_count; i++)
        if (!s->parts[i].at_end)
            return s->ended;
    return true;
}

static int
source_batch(struct op *op, struct batch *b, struct err *e)
{
    (void)op;
    (void)b;
    return err_set(e, ERR_INTERNAL, "a source was given records");
}

static void
source_free(struct op *op)
{
    struct op_source *s = (struct op_source *)(void *)op;

    if (s->task != NULL)
        s->type->task_free(&s->task);
    decoder_free(&s->decoder);
    batch_fini(&s->batch);
    free(s->parts);
}

int
op_source_new(struct op_env *env, const struct plan_step *step, struct op **ret,
              struct err *e)
{
    static const struct op_type type = {.batch = source_batch,
                                        .free = source_free};
    struct op_source *s = mem_zalloc(sizeof *s);
    struct conn_task conf = {.subtask = env->subtask,
                             .wake = env->wake,
                             .wake_arg = env->wake_arg,
                             .script = env->script,
                             .call = script_call_index};
    int r = 0;

    op_init(&s->op, &type, env, step);
    batch_init(&s->batch);
    *ret = &s->op;
    s->type = env->job->source_types[step->index];
    if (s->type->raw_payload)
        r = decoder_new(opt_get(step->opts, "conn"), false, &s->decoder, e);
    if (r == 0)
        r = s->type->task_new(env->job->sources[step->index], &conf, &s->task,
                              e);
    if (r != 0)
        op_free(ret);
    return r;
}
