/*
 * clock: in front of a processing-time window. Records get the wall clock as
 * their time, which never goes back, and the watermark follows it.
 *
 * The watermark of the input has no say but for its end. What counts are the
 * ends of windows, so the watermark moves when one is reached (a slice's),
 * before the records behind it, and by tick where no records come.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/window.h"
#include "op/op.h"

struct op_clock {
    struct op op;
    int64_t step, offset; /* ms: windows end at offset (mod step) */
    int64_t now;          /* wall clock, as far as it has come */
    int64_t next;         /* when the watermark moves */
    bool begun, ended;
};

static struct op_clock *
clock_of(struct op *op)
{
    return (struct op_clock *)(void *)op;
}

/* Look at the clock, and move the watermark if a window ends. */
static int
look(struct op_clock *c, struct err *e)
{
    struct mark m = {.kind = MARK_WATERMARK};
    int64_t now = clock_wall_ms(), rest;

    if (c->begun && now <= c->now)
        return 0;
    c->now = now;
    if (c->begun && now < c->next)
        return 0;
    c->begun = true;
    rest = (now - c->offset) % c->step;
    c->next = now - rest + (rest < 0 ? 0 : c->step);
    m.wm = now - 1; /* more may come in this millisecond */
    atomic_store_explicit(&c->op.count->watermark, m.wm, memory_order_relaxed);
    return op_forward(&c->op, &m, e);
}

static int
clock_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_clock *c = clock_of(op);
    uint32_t i;
    int r = look(c, e);

    if (r != 0)
        return r;
    for (i = 0; i < b->n; i++) {
        b->recs[i].ts = c->now;
        b->recs[i].wm = WM_NONE; /* none is late */
        b->recs[i].flags |= REC_HAS_TS;
    }
    return op_emit(&op->out, b, e);
}

static int
clock_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_clock *c = clock_of(op);

    if (m->kind == MARK_PART || (m->kind == MARK_WATERMARK && m->wm != WM_MAX))
        return 0;
    if (m->kind == MARK_WATERMARK)
        atomic_store_explicit(&op->count->watermark, m->wm,
                              memory_order_relaxed);
    c->ended = c->ended || m->kind != MARK_BARRIER;
    return op_forward(op, m, e);
}

static int
clock_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_clock *c = clock_of(op);
    int r;

    (void)idle;
    if (c->ended)
        return 0;
    r = look(c, e);
    if (r == 0 && c->next - c->now < *ret_wait)
        *ret_wait = c->next - c->now;
    return r;
}

int
op_clock_new(struct op_env *env, const struct plan_step *s,
             struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {
        .batch = clock_batch, .mark = clock_mark, .tick = clock_tick};
    struct op_clock *c = mem_zalloc(sizeof *c);
    struct window_spec w;

    (void)e;
    op_init(&c->op, &type, env, s);
    c->op.reader = reader;
    window_spec_init(&w, s->opts);
    window_spec_use_slices(&w);
    c->step = w.slice;
    c->offset = w.offset;
    *ret = &c->op;
    return 0;
}
