/*
 * process: a user function with keyed state and timers.
 *
 * Each call is all or nothing: state, timers and what it emitted are taken
 * back if it fails. A watermark is held until the event timers it reaches
 * have fired, in pieces between which output drains; rows of a piece go out
 * before the next. Timers that a record registers for a time the watermark has
 * passed fire behind its message. Processing timers fire by the wall clock, at
 * each tick at most as many as there were then, so that one that renews itself
 * cannot keep the subtask.
 *
 * At the end of input (watermark WM_MAX) event timers fire; those registered
 * from then on, and processing timers, are dropped and counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/json.h"
#include "op/keyed.h"

enum { FIRE_MAX = 512, DISCARD_MAX = 4096 };

struct op_process {
    struct op op;
    struct keyed keyed;
    struct aggset **sets;  /* by handle; NULL: it has none */
    struct opt *set_lists; /* what they were made of */
    struct reader *right;  /* of the right side of a connect */
    struct script_process *sp;
    const char **names; /* of outs */
    struct batch *outs; /* main, then the named outputs */
    uint32_t out_count;
    uint64_t by_clock;   /* processing timers that may still fire now */
    int64_t by_clock_ms; /* up to this time */
};

static struct op_process *
process_of(struct op *op)
{
    return (struct op_process *)(void *)op;
}

/* ---- calls ---- */

static int
emit_all(struct op_process *p, struct err *e)
{
    uint32_t i;
    int r = 0;

    for (i = 0; i < p->out_count; i++) {
        struct batch *b = &p->outs[i];

        if (b->n != 0 && r == 0) {
            count_add(&p->op.count->records_out, b->n);
            r = i == 0 ? op_emit(&p->op.out, b, e)
                       : op_emit_side(&p->op, p->names[i], b, e);
        }
        batch_clear(b);
    }
    return r;
}

static int
emit_if_large(struct op_process *p, struct err *e)
{
    uint32_t i, n = 0;

    for (i = 0; i < p->out_count; i++)
        n += p->outs[i].n;
    return n >= OP_BATCH_MAX ? emit_all(p, e) : 0;
}

static int
one_record(struct op_process *p, const struct batch *b, uint32_t i,
           struct err *e)
{
    struct kstate *state = p->keyed.state;
    const struct rec *rec = &b->recs[i];
    struct rec_key key;
    int r = keyed_key(&p->keyed, b, i, &key, e);

    if (r != 0)
        return r < 0 ? r : 0;
    kstate_key(state, key.bytes, key.len, key.hash);
    kstate_now(state, (rec->flags & REC_HAS_TS) ? rec->ts : KSTATE_NO_TIME,
               p->keyed.now);
    kstate_begin(state);
    r = script_process_record(p->sp, b->right, rec,
                              b->right ? p->right : p->op.reader, e);
    if (kstate_check(state, NULL) != 0) {
        kstate_undo(state);
        return kstate_check(state, e);
    }
    if (r == 0) {
        kstate_commit(state);
        return 0;
    }
    kstate_undo(state);
    return op_fail(&p->op, rec, e);
}

/* In the report and the quarantine it is a record of the step: without value,
 * but with the key and the time. */
static int
timer_failed(struct op_process *p, int64_t ts, struct err *e)
{
    struct rec r = {.kind = REC_TOMBSTONE,
                    .flags = REC_HAS_TS,
                    .ts = ts,
                    .wm = WM_NONE,
                    .src = UINT16_MAX,
                    .topic = topic_register(p->op.step->name)};

    r.key = script_process_key(p->sp, &r.key_len);
    return op_fail(&p->op, &r, e);
}

static int
one_timer(struct op_process *p, enum kstate_clock clock, int64_t ts,
          struct err *e)
{
    struct kstate *state = p->keyed.state;
    int r;

    kstate_now(state, ts, p->keyed.now);
    kstate_begin(state);
    r = script_process_timer(p->sp, clock, ts, e);
    if (kstate_check(state, NULL) != 0) {
        kstate_undo(state);
        return kstate_check(state, e);
    }
    if (r == 0) {
        kstate_commit(state);
        return 0;
    }
    kstate_undo(state);
    return timer_failed(p, ts, e);
}

/* ---- timers ---- */

static bool
event_timer_is_due(const struct op_process *p)
{
    int64_t first;

    return kstate_timer_bound(p->keyed.state, KSTATE_EVENT, &first) &&
           first <= p->keyed.wm;
}

static void
count_timers(struct op_process *p)
{
    atomic_store_explicit(&p->op.count->timers_unfired,
                          kstate_timers_refused(p->keyed.state, KSTATE_EVENT),
                          memory_order_relaxed);
}

/* Fire a piece. @return 1 there are more, 0, < 0. */
static int
fire(struct op_process *p, struct err *e)
{
    struct kstate *state = p->keyed.state;
    uint32_t n;
    int64_t ts;
    int r;

    for (n = 0; n < FIRE_MAX; n++) {
        enum kstate_clock clock = KSTATE_EVENT;

        if (!kstate_timer_next(state, KSTATE_EVENT, p->keyed.wm, &ts)) {
            clock = KSTATE_PROCESSING;
            if (p->by_clock == 0 ||
                !kstate_timer_next(state, clock, p->by_clock_ms, &ts)) {
                p->by_clock = 0;
                return 0;
            }
            p->by_clock--;
        }
        r = one_timer(p, clock, ts, e);
        if (r == 0)
            r = emit_if_large(p, e);
        if (r != 0)
            return r;
        if (!op_all_ready(&p->op))
            break;
    }
    return 1;
}

/* The end of all input: processing timers will not come. @return as fire(). */
static int
discard(struct op_process *p)
{
    const struct keyed *k = &p->keyed;
    uint32_t n;

    if (!k->has_held || k->held.kind != MARK_END || !k->held.final)
        return 0;
    n = kstate_timers_discard(k->state, KSTATE_PROCESSING, DISCARD_MAX);
    count_add(&p->op.count->timers_discarded, n);
    return n == DISCARD_MAX;
}

static int
resume(struct op_process *p, struct err *e)
{
    struct op *op = &p->op;
    int more, r;

    script_set_step(op->env->script, op->step->name);
    keyed_begin(&p->keyed);
    script_process_times(p->sp, p->keyed.wm, p->keyed.now);
    more = fire(p, e);
    r = more < 0 ? more : emit_all(p, e);
    count_timers(p);
    if (r != 0 || more == 1)
        return r != 0 ? r : 1;
    if (discard(p) == 1)
        return 1;
    keyed_note(&p->keyed);
    return keyed_release(&p->keyed, e);
}

static int
process_resume(struct op *op, struct err *e)
{
    struct op_process *p = process_of(op);

    return keyed_leave(&p->keyed, resume(p, e), e);
}

static bool
process_ready(struct op *op)
{
    return keyed_ready(&process_of(op)->keyed);
}

static int
process_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_process *p = process_of(op);

    if (m->kind == MARK_PART)
        return 0;
    if (m->kind == MARK_WATERMARK) {
        p->keyed.wm = m->wm;
        atomic_store_explicit(&op->count->watermark, m->wm,
                              memory_order_relaxed);
        if (m->wm == WM_MAX)
            kstate_timers_refuse(p->keyed.state, KSTATE_EVENT);
        if (!op->pending && !event_timer_is_due(p))
            return op_forward(op, m, e);
    }
    keyed_hold(&p->keyed, m);
    return 0;
}

static int
process_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_process *p = process_of(op);
    int64_t first;

    (void)idle;
    keyed_begin(&p->keyed);
    if (kstate_timer_bound(p->keyed.state, KSTATE_PROCESSING, &first)) {
        if (first <= p->keyed.now) {
            p->by_clock = kstate_timers(p->keyed.state, KSTATE_PROCESSING);
            p->by_clock_ms = p->keyed.now;
            op->pending = true;
            first = p->keyed.now;
        }
        if (first - p->keyed.now < *ret_wait)
            *ret_wait = first - p->keyed.now;
    }
    return keyed_leave(&p->keyed, keyed_clean(&p->keyed, ret_wait, e), e);
}

/* ---- messages ---- */

static int
take_batch(struct op_process *p, struct batch *b, struct err *e)
{
    struct op *op = &p->op;
    uint32_t i;
    int r;

    if (b->keys == NULL)
        count_add(&op->count->records_in, b->n);
    reader_load(b->right ? p->right : op->reader, b);
    keyed_begin(&p->keyed);
    script_process_times(p->sp, p->keyed.wm, p->keyed.now);
    for (i = 0; i < b->n; i++) {
        script_set_step(op->env->script, op->step->name);
        keyed_prefetch(&p->keyed, b, i);
        r = one_record(p, b, i, e);
        if (r == 0)
            r = emit_if_large(p, e);
        if (r != 0)
            return r;
    }
    keyed_note(&p->keyed);
    count_timers(p);
    if (event_timer_is_due(p))
        op->pending = true;
    return emit_all(p, e);
}

static int
process_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_process *p = process_of(op);

    return keyed_leave(&p->keyed, take_batch(p, b, e), e);
}

static int
process_restore(struct op *op, struct err *e)
{
    script_set_step(op->env->script, op->step->name);
    return keyed_restore(&process_of(op)->keyed, e);
}

static int
process_save(struct op *op, struct err *e)
{
    script_set_step(op->env->script, op->step->name);
    return keyed_save(&process_of(op)->keyed, e);
}

static void
process_free(struct op *op)
{
    struct op_process *p = process_of(op);
    uint32_t i;

    script_process_free(&p->sp);
    for (i = 0; i < p->out_count; i++)
        batch_fini(&p->outs[i]);
    free(p->outs);
    free(p->names);
    i = p->keyed.count;
    keyed_fini(&p->keyed);
    while (p->sets != NULL && i-- > 0)
        aggset_free(&p->sets[i]);
    free(p->sets);
    free(p->set_lists);
    reader_free(&p->right);
}

/* ---- making it ---- */

/* The set of one built-in aggregator. */
static int
make_set(struct op_process *p, const struct opt *agg, uint32_t i, struct err *e)
{
    struct opt *list = &p->set_lists[2 * i], *one = list + 1;

    *one = *agg;
    one->next = NULL;
    *list = (struct opt){.type = OPT_LIST, .len = 1, .first = one};
    return aggset_new(list, json_key_encode, NULL, NULL, &p->sets[i], e);
}

static enum kstate_kind
kind_of(const struct opt *o)
{
    if (opt_is(o, "kind", "list"))
        return KSTATE_LIST;
    if (opt_is(o, "kind", "map"))
        return KSTATE_MAP;
    return opt_is(o, "kind", "aggregating") &&
                   !opt_is(opt_get(o, "agg"), "fn", "custom")
               ? KSTATE_AGG
               : KSTATE_VALUE;
}

static bool
by_event_time(const struct op_process *p, const struct opt *o)
{
    const char *clock = opt_str(o, "ttl_clock", NULL);

    if (clock == NULL)
        return p->op.step->event_time;
    return strcmp(clock, "event") == 0;
}

static int
init_state(struct op_process *p, struct err *e)
{
    const struct opt *list = opt_get(p->op.step->opts, "state"), *o;
    const bool *anew = p->op.step->anew;
    uint32_t n = list != NULL ? (uint32_t)list->len : 0, i = 0;
    struct kstate_handle *handles = mem_zalloc((n + 1u) * sizeof *handles);
    int r = 0;

    p->sets = mem_zalloc((n + 1u) * sizeof *p->sets);
    p->set_lists = mem_zalloc((2u * n + 1u) * sizeof *p->set_lists);
    for (o = n > 0 ? list->first : NULL; o != NULL && r == 0;
         o = o->next, i++) {
        struct kstate_handle *h = &handles[i];

        h->name = opt_str(o, "name", "");
        h->kind = kind_of(o);
        h->ttl_ms = opt_int(o, "ttl_ms", -1);
        h->ttl_clock = by_event_time(p, o) ? KSTATE_EVENT : KSTATE_PROCESSING;
        h->ttl_read = opt_is(o, "ttl_update", "read_and_write");
        h->anew = anew != NULL && anew[i];
        if (h->kind == KSTATE_AGG)
            r = make_set(p, opt_get(o, "agg"), i, e);
        h->set = p->sets[i];
    }
    p->keyed.count = n; /* what process_free() looks at */
    if (r != 0) {
        free(handles);
        return r;
    }
    return keyed_init(&p->keyed, &p->op, handles, n, e);
}

static void
init_outputs(struct op_process *p)
{
    const struct opt *list = opt_get(p->op.step->opts, "outputs"), *o;
    size_t n = list != NULL ? list->len : 0;

    p->names = mem_zalloc((n + 1) * sizeof *p->names);
    p->outs = mem_zalloc((n + 1) * sizeof *p->outs);
    p->names[0] = "main";
    p->out_count = 1;
    for (o = n > 0 ? list->first : NULL; o != NULL; o = o->next)
        p->names[p->out_count++] = o->s;
    for (n = 0; n < p->out_count; n++)
        batch_init(&p->outs[n]);
}

static int
process_init(struct op_process *p, struct err *e)
{
    struct script_process_conf conf;
    int r;

    if (opt_func(p->op.step->opts, "on_right") != 0)
        p->right = reader_new();
    init_outputs(p);
    r = init_state(p, e);
    if (r != 0)
        return r;
    conf = (struct script_process_conf){
        .opts = p->op.step->opts,
        .step = p->op.step->name,
        .state = p->keyed.state,
        .handles = p->keyed.handles,
        .handle_count = p->keyed.count,
        .outs = p->outs,
        .event_time = p->op.step->event_time,
    };
    return script_process_new(p->op.env->script, &conf, &p->sp, e);
}

int
op_process_new(struct op_env *env, const struct plan_step *s,
               struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = process_batch,
                                        .mark = process_mark,
                                        .resume = process_resume,
                                        .tick = process_tick,
                                        .ready = process_ready,
                                        .restore = process_restore,
                                        .save = process_save,
                                        .free = process_free};
    struct op_process *p = mem_zalloc(sizeof *p);
    int r;

    op_init(&p->op, &type, env, s);
    p->op.reader = reader;
    r = process_init(p, e);
    *ret = &p->op;
    if (r != 0)
        op_free(ret);
    return r;
}
