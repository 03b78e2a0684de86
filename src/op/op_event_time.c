/* event_time: gives records their time and verdict, and makes watermarks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/window.h"
#include "format/time_text.h"
#include "op/op.h"

enum unit { UNIT_MS, UNIT_S, UNIT_US, UNIT_NS, UNIT_RFC3339 };

struct op_event_time {
    struct op op;
    struct op_field field;
    bool by_message; /* neither field nor function */
    enum unit unit;
    int64_t max_future_ms; /* -1 none */
    struct wm_source *clock;
    struct wm_part **parts; /* by task-local number */
    size_t part_cap;
    uint32_t part_count;
    int64_t sent;
    bool sent_idle;
    bool ended; /* its own end went out: nothing may follow it */
    struct arena arena;
};

static int64_t
floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return a % b < 0 ? q - 1 : q;
}

static bool
from_int(enum unit unit, int64_t i, int64_t *ret)
{
    switch (unit) {
    case UNIT_S:
        return !__builtin_mul_overflow(i, (int64_t)1000, ret);
    case UNIT_US:
        *ret = floor_div(i, 1000);
        return true;
    case UNIT_NS:
        *ret = floor_div(i, 1000000);
        return true;
    case UNIT_MS:
        *ret = i;
        return true;
    case UNIT_RFC3339:
        break;
    }
    return false;
}

static bool
from_double(enum unit unit, double d, int64_t *ret)
{
    switch (unit) {
    case UNIT_S:
        d *= 1000.0;
        break;
    case UNIT_US:
        d /= 1000.0;
        break;
    case UNIT_NS:
        d /= 1000000.0;
        break;
    case UNIT_MS:
        break;
    case UNIT_RFC3339:
        return false;
    }
    d = floor(d);
    if (!(d >= -0x1p63 && d < 0x1p63))
        return false;
    *ret = (int64_t)d;
    return true;
}

static const char *
type_name(const struct val *v)
{
    static const char *const names[] = {"nothing (the field is missing)",
                                        "null",
                                        "a boolean",
                                        "an integer",
                                        "a number",
                                        "a string",
                                        "a list",
                                        "a map",
                                        "a bad value"};

    return names[v->type];
}

static bool
in_range(int64_t ts)
{
    return ts <= WINDOW_TIME_MAX && ts >= -WINDOW_TIME_MAX;
}

static void
say_skip(struct err *e)
{
    err_hint(e, "on_error = \"skip\" on event_time drops and counts such "
                "records");
}

static int
message_range(int64_t ts, struct err *e)
{
    int r = err_record(e, CAUSE_TIMESTAMP,
                       "the record's timestamp %lld is out of range",
                       (long long)ts);

    say_skip(e);
    return r;
}

static int
bad_time(const struct op_event_time *t, const struct val *v, struct err *e)
{
    const char *field = opt_str(t->op.step->opts, "field", NULL);
    const char *want =
        t->unit == UNIT_RFC3339 ? "an RFC 3339 time" : "a number";
    int r;

    if (v->type == VAL_STR)
        r = err_record(e, CAUSE_TIMESTAMP,
                       "%s: expected %s, got the string \"%.*s\"",
                       field != NULL ? field : "event_time", want,
                       (int)(v->len < 60 ? v->len : 60), v->u.s);
    else if ((v->type == VAL_INT || v->type == VAL_DBL) &&
             t->unit != UNIT_RFC3339)
        r = err_record(e, CAUSE_TIMESTAMP, "%s: the time is out of range",
                       field != NULL ? field : "event_time");
    else
        r = err_record(e, CAUSE_TIMESTAMP, "%s: expected %s, got %s",
                       field != NULL ? field : "event_time", want,
                       type_name(v));
    say_skip(e);
    return r;
}

static int
time_of(struct op_event_time *t, const struct rec *r, int64_t *ret,
        struct err *e)
{
    struct val v;
    bool ok;
    int rc;

    if (t->by_message || r->kind == REC_TOMBSTONE) {
        *ret = r->ts;
        return in_range(r->ts) ? 0 : message_range(r->ts, e);
    }
    rc = op_field_get(&t->op, &t->field, r, &t->arena, &v, e);
    if (rc != 0)
        return rc;
    if (v.type == VAL_INT)
        ok = from_int(t->field.func != 0 ? UNIT_MS : t->unit, v.u.i, ret);
    else if (v.type == VAL_DBL)
        ok = from_double(t->field.func != 0 ? UNIT_MS : t->unit, v.u.d, ret);
    else
        ok = v.type == VAL_STR && t->unit == UNIT_RFC3339 &&
             time_text_parse(v.u.s, v.len, ret) == 0;
    return ok && in_range(*ret) ? 0 : bad_time(t, &v, e);
}

static int
check_future(const struct op_event_time *t, int64_t ts, int64_t wall,
             struct err *e)
{
    if (t->max_future_ms < 0 || ts - wall <= t->max_future_ms)
        return 0;
    return err_record(e, CAUSE_FUTURE,
                      "the time %lld is %lld ms ahead of the clock, "
                      "max_future is %lld ms",
                      (long long)ts, (long long)(ts - wall),
                      (long long)t->max_future_ms);
}

static int
send_watermark(struct op_event_time *t, struct err *e)
{
    struct mark m = {.kind = MARK_WATERMARK};

    if (t->ended) /* other subtasks may still move the watermark */
        return 0;
    m.wm = wm_source_now(t->clock, t->op.env->now_ms, &m.idle);
    if (m.wm == t->sent && m.idle == t->sent_idle)
        return 0;
    if (m.wm == WM_MAX) /* said by the end of input itself */
        return 0;
    t->sent = m.wm;
    t->sent_idle = m.idle;
    atomic_store_explicit(&t->op.count->watermark, m.wm, memory_order_relaxed);
    return op_forward(&t->op, &m, e);
}

static int
event_time_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_event_time *t = (struct op_event_time *)(void *)op;
    struct wm_part *p = t->parts[b->part];
    int64_t wall = t->max_future_ms >= 0 ? clock_wall_ms() : 0;
    uint32_t i, n = 0;
    int r;

    count_add(&op->count->records_in, b->n);
    if (t->field.func != 0)
        script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    wm_part_wake(t->clock, p);
    arena_reset(&t->arena);
    for (i = 0; i < b->n; i++) {
        struct rec *rec = &b->recs[i];
        int64_t ts = 0;

        r = time_of(t, rec, &ts, e);
        if (r == 0)
            r = check_future(t, ts, wall, e);
        if (r != 0) {
            r = op_fail(op, rec, e);
            if (r != 0)
                return r;
            continue;
        }
        rec->ts = ts;
        rec->flags |= REC_HAS_TS;
        rec->wm = wm_part_now(p);
        wm_part_record(p, ts);
        if (n != i)
            b->recs[n] = *rec;
        n++;
    }
    b->n = n;
    wm_part_publish(t->clock, p);
    count_add(&op->count->records_out, n);
    r = op_emit(&op->out, b, e);
    return r != 0 ? r : send_watermark(t, e);
}

static void
add_part(struct op_event_time *t, const struct mark *m)
{
    uint32_t part = m->part;

    if (part >= t->part_count) {
        mem_grow(&t->parts, &t->part_cap, part + 1u, sizeof *t->parts);
        memset(t->parts + t->part_count, 0,
               (part + 1u - t->part_count) * sizeof(struct wm_part *));
        t->part_count = part + 1;
    }
    if (t->parts[part] != NULL)
        return;
    t->parts[part] = wm_part_add(t->clock, m->discovered);
    wm_part_name(t->clock, t->parts[part], m->topic, m->partition);
}

static void
give_time(struct op *op, const struct mark *m)
{
    struct op_event_time *t = (struct op_event_time *)(void *)op;
    bool end = m->kind == MARK_END;
    struct snapshot *s = snapshot_new(end ? SNAPSHOT_END : m->round);

    wm_source_put(t->clock, t->parts, t->part_count, end, &s->blob);
    op_give(op, &s);
}

static int
event_time_restore(struct op *op, struct err *e)
{
    struct op_event_time *t = (struct op_event_time *)(void *)op;

    return wm_source_restore(
        t->clock, restored_find(op->env->job->restored, op->step->name), e);
}

static int
event_time_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_event_time *t = (struct op_event_time *)(void *)op;

    if (m->kind == MARK_BARRIER || m->kind == MARK_END)
        give_time(op, m);
    if (m->kind != MARK_PART) {
        if (m->kind != MARK_BARRIER)
            t->ended = true;
        if (m->kind == MARK_WATERMARK)
            atomic_store_explicit(&op->count->watermark, m->wm,
                                  memory_order_relaxed);
        return op_forward(op, m, e);
    }
    switch (m->part_event) {
    case SOURCE_ADDED:
        add_part(t, m);
        break;
    case SOURCE_AT_END:
        wm_part_at_end(t->clock, t->parts[m->part],
                       op->env->now_ms - m->past_ms);
        break;
    case SOURCE_PART_END:
        wm_part_finish(t->clock, t->parts[m->part]);
        break;
    case SOURCE_NONE:
        wm_source_ready(t->clock);
        break;
    case SOURCE_BATCH: /* also if all of it is dropped on the way here */
        wm_part_wake(t->clock, t->parts[m->part]);
        break;
    case SOURCE_PART_IDLE:
        wm_part_idle(t->clock, t->parts[m->part]);
        break;
    case SOURCE_WATERMARK:
        wm_part_reach(t->clock, t->parts[m->part], m->wm);
        break;
    case SOURCE_END:
        break;
    }
    return send_watermark(t, e);
}

static int
event_time_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_event_time *t = (struct op_event_time *)(void *)op;
    int64_t wait;

    (void)idle;
    if (t->ended) /* partitions that were stopped never become idle */
        return 0;
    wait = wm_source_wait(t->clock, op->env->now_ms);
    if (wait >= 0 && wait < *ret_wait)
        *ret_wait = wait;
    return send_watermark(t, e);
}

static void
event_time_free(struct op *op)
{
    struct op_event_time *t = (struct op_event_time *)(void *)op;

    free(t->parts);
    arena_fini(&t->arena);
}

static enum unit
unit_of(const struct opt *o)
{
    if (opt_is(o, "unit", "s"))
        return UNIT_S;
    if (opt_is(o, "unit", "us"))
        return UNIT_US;
    if (opt_is(o, "unit", "ns"))
        return UNIT_NS;
    return opt_is(o, "unit", "rfc3339") ? UNIT_RFC3339 : UNIT_MS;
}

int
op_event_time_new(struct op_env *env, const struct plan_step *s,
                  struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = event_time_batch,
                                        .mark = event_time_mark,
                                        .tick = event_time_tick,
                                        .restore = event_time_restore,
                                        .free = event_time_free};
    struct op_event_time *t = mem_zalloc(sizeof *t);
    int r;

    op_init(&t->op, &type, env, s);
    arena_init(&t->arena);
    t->op.reader = reader;
    t->unit = unit_of(s->opts);
    t->max_future_ms = opt_int(s->opts, "max_future_ms", -1);
    t->clock = env->job->clocks[s->index];
    t->sent = WM_NONE;
    t->by_message =
        opt_get(s->opts, "field") == NULL && opt_func(s->opts, "func") == 0;
    *ret = &t->op;
    r = op_field_init(&t->op, s->opts, &t->field, e);
    if (r != 0)
        op_free(ret);
    return r;
}
