/*
 * dedup: the first record of each key by arrival passes on, untouched.
 *
 * The state of a key is an empty value with the time it was seen; after `ttl`
 * (by event time where the stream has one) the key is new again.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "op/keyed.h"

struct op_dedup {
    struct op op;
    struct keyed keyed;
};

/* @return 1 the record passes, 0 its key was seen, < 0 the job fails. */
static int
is_first(struct op_dedup *d, const struct batch *b, uint32_t i, struct err *e)
{
    struct kstate *state = d->keyed.state;
    const struct rec *rec = &b->recs[i];
    struct rec_key key;
    uint32_t len;
    int r = keyed_key(&d->keyed, b, i, &key, e);

    if (r != 0)
        return r < 0 ? r : 0;
    kstate_key(state, key.bytes, key.len, key.hash);
    kstate_now(state, (rec->flags & REC_HAS_TS) ? rec->ts : KSTATE_NO_TIME,
               d->keyed.now);
    if (kstate_value_get(state, 0, &len) != NULL)
        return 0;
    r = kstate_check(state, e);
    if (r == 0)
        r = kstate_value_set(state, 0, "", 0, e);
    return r == 0 ? 1 : r;
}

static int
dedup_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_dedup *d = (struct op_dedup *)(void *)op;
    struct rec_key *keys = b->keys;
    uint32_t i, n = 0;
    int r;

    if (keys == NULL)
        count_add(&op->count->records_in, b->n);
    if (op->env->script != NULL)
        script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    keyed_begin(&d->keyed);
    for (i = 0; i < b->n; i++) {
        keyed_prefetch(&d->keyed, b, i);
        r = is_first(d, b, i, e);
        if (r < 0)
            return keyed_leave(&d->keyed, r, e);
        if (r == 1) {
            if (n != i)
                b->recs[n] = b->recs[i];
            n++;
        }
    }
    b->n = n;
    keyed_note(&d->keyed);
    count_add(&op->count->records_out, n);
    b->keys = NULL; /* they are no longer beside their records */
    r = op_emit(&op->out, b, e);
    b->keys = keys;
    return keyed_leave(&d->keyed, r, e);
}

static int
dedup_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_dedup *d = (struct op_dedup *)(void *)op;

    if (m->kind == MARK_PART)
        return 0;
    if (m->kind == MARK_WATERMARK) {
        d->keyed.wm = m->wm;
        atomic_store_explicit(&op->count->watermark, m->wm,
                              memory_order_relaxed);
        if (!op->pending)
            return op_forward(op, m, e);
    }
    keyed_hold(&d->keyed, m);
    return 0;
}

static int
dedup_resume(struct op *op, struct err *e)
{
    struct op_dedup *d = (struct op_dedup *)(void *)op;

    return keyed_leave(&d->keyed, keyed_release(&d->keyed, e), e);
}

static bool
dedup_ready(struct op *op)
{
    return keyed_ready(&((struct op_dedup *)(void *)op)->keyed);
}

static int
dedup_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_dedup *d = (struct op_dedup *)(void *)op;

    (void)idle;
    keyed_begin(&d->keyed);
    return keyed_leave(&d->keyed, keyed_clean(&d->keyed, ret_wait, e), e);
}

static int
dedup_restore(struct op *op, struct err *e)
{
    return keyed_restore(&((struct op_dedup *)(void *)op)->keyed, e);
}

static int
dedup_save(struct op *op, struct err *e)
{
    return keyed_save(&((struct op_dedup *)(void *)op)->keyed, e);
}

static void
dedup_free(struct op *op)
{
    keyed_fini(&((struct op_dedup *)(void *)op)->keyed);
}

int
op_dedup_new(struct op_env *env, const struct plan_step *s,
             struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = dedup_batch,
                                        .mark = dedup_mark,
                                        .resume = dedup_resume,
                                        .tick = dedup_tick,
                                        .ready = dedup_ready,
                                        .restore = dedup_restore,
                                        .save = dedup_save,
                                        .free = dedup_free};
    struct op_dedup *d = mem_zalloc(sizeof *d);
    struct kstate_handle *seen = mem_zalloc(sizeof *seen);
    int r;

    op_init(&d->op, &type, env, s);
    d->op.reader = reader;
    *seen = (struct kstate_handle){
        .name = "seen",
        .kind = KSTATE_VALUE,
        .ttl_ms = opt_int(s->opts, "ttl_ms", -1),
        .ttl_clock = s->event_time ? KSTATE_EVENT : KSTATE_PROCESSING,
    };
    r = keyed_init(&d->keyed, &d->op, seen, 1, e);
    *ret = &d->op;
    if (r != 0)
        op_free(ret);
    return r;
}
