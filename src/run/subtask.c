#include "run/subtask.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "run/target.h"
#include "script/script.h"

static bool
is_source(const struct subtask *st)
{
    return st->input_count == 0;
}

static void
note_active(struct subtask *st)
{
    atomic_store_explicit(&st->active_ms, st->ops.env.now_ms,
                          memory_order_relaxed);
}

static bool
any_pending(const struct subtask *st)
{
    uint32_t i;

    for (i = 0; i < st->ops.count; i++)
        if (st->ops.ops[i]->pending)
            return true;
    return false;
}

/* What the chain gave so far. A round that flushes nothing moves nothing,
 * and must not keep --until-idle waiting. */
static uint64_t
given(const struct subtask *st)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < st->ops.count; i++)
        sum += count_get(&st->ops.ops[i]->count->records_out);
    return sum;
}

/* Go on with unfinished work. @return enum step_result or an error. */
static int
resume(struct subtask *st, int64_t *ret_wait, struct err *e)
{
    uint64_t before = given(st);
    int result = STEP_IDLE;
    uint32_t i;

    for (i = 0; i < st->ops.count; i++) {
        struct op *op = st->ops.ops[i];
        int r;

        if (!op->pending)
            continue;
        if (!op_all_ready(op)) {
            if (result == STEP_IDLE)
                result = STEP_BLOCKED;
            continue;
        }
        r = op->type->resume(op, e);
        if (r < 0)
            return r;
        if (r == 1 || !op->pending)
            result = STEP_WORKED;
    }
    if (given(st) != before)
        note_active(st);
    if (result != STEP_WORKED && *ret_wait > 20)
        *ret_wait = 20; /* a flush: woken earlier when there is news */
    return result;
}

static int
step_source(struct subtask *st, int64_t *ret_wait, struct err *e)
{
    struct op *head = st->ops.head;
    uint64_t round = atomic_load(&st->round_wanted);
    int64_t wait = -1;
    int r;

    if (op_source_ended(head)) {
        st->end_given = true;
        return STEP_IDLE;
    }
    if (round > st->round) {
        st->round = round;
        st->count_due = true;
        r = op_source_barrier(head, round, e);
        return r != 0 ? r : STEP_WORKED;
    }
    r = op_source_poll(head, &wait, e);
    if (r < 0)
        return r;
    atomic_store_explicit(&st->at_end, op_source_at_end(head),
                          memory_order_relaxed);
    if (r == 0) {
        if (wait >= 0 && wait < *ret_wait)
            *ret_wait = wait;
        return STEP_IDLE;
    }
    if (op_source_gave_records(head))
        note_active(st);
    if (op_source_ended(head))
        st->end_given = true;
    return STEP_WORKED;
}

static int
give_watermark(struct subtask *st, struct err *e)
{
    struct mark m = {
        .kind = MARK_WATERMARK, .wm = st->wm.wm, .idle = st->wm.idle};

    return st->ops.head->in.mark(&st->ops.head->in, &m, e);
}

/* All open inputs have given the barrier: pass it on and go on reading. */
static int
check_aligned(struct subtask *st, struct err *e)
{
    struct mark m = {.kind = MARK_BARRIER};
    uint32_t i, open = 0, aligned = 0;

    for (i = 0; i < st->input_count; i++) {
        if (st->inputs[i].ended)
            continue;
        open++;
        aligned += st->inputs[i].aligned;
    }
    if (aligned == 0 || aligned != open)
        return 0;
    for (i = 0; i < st->input_count; i++)
        st->inputs[i].aligned = false;
    m.round = st->round;
    st->count_due = true;
    return st->ops.head->in.mark(&st->ops.head->in, &m, e);
}

static int
input_ended(struct subtask *st, uint32_t i, bool final, struct err *e)
{
    struct mark m = {.kind = MARK_END};
    int r = 0;

    st->inputs[i].ended = true;
    st->final = st->final && final;
    if (++st->ended_count < st->input_count) {
        /* The watermark may leave work pending: the barrier waits for it. */
        st->look_aligned = true;
        if (wm_input_end(&st->wm, i))
            r = give_watermark(st, e);
        return r;
    }
    st->end_given = true;
    m.final = st->final;
    return st->ops.head->in.mark(&st->ops.head->in, &m, e);
}

static int
take_mark(struct subtask *st, uint32_t i, const struct mark *m, struct err *e)
{
    switch (m->kind) {
    case MARK_WATERMARK:
        if (wm_input_set(&st->wm, i, m->wm, m->idle))
            return give_watermark(st, e);
        return 0;
    case MARK_BARRIER:
        st->round = m->round;
        st->inputs[i].aligned = true;
        return check_aligned(st, e);
    case MARK_END:
        return input_ended(st, i, m->final, e);
    case MARK_PART:
        break;
    }
    return st->ops.head->in.mark(&st->ops.head->in, m, e);
}

static int
take_message(struct subtask *st, uint32_t i, struct lane_msg *m, struct err *e)
{
    struct op_out *in = &st->ops.head->in;
    int r = 0;

    switch (m->kind) {
    case LANE_BATCH:
        r = in->batch(in, &m->batch, e);
        note_active(st);
        break;
    case LANE_PARTIALS:
        r = in->partials(in, &m->partials, e);
        note_active(st);
        break;
    case LANE_MARK:
        r = take_mark(st, i, &m->mark, e);
        break;
    }
    lane_msg_free(&m);
    return r;
}

static int
step_lanes(struct subtask *st, struct err *e)
{
    uint32_t n;
    int r;

    if (st->look_aligned) {
        st->look_aligned = false;
        r = check_aligned(st, e);
        return r != 0 ? r : STEP_WORKED;
    }
    for (n = 0; n < st->input_count; n++) {
        uint32_t i = (st->next_input + n) % st->input_count;
        struct lane_msg *m;

        if (st->inputs[i].aligned || st->inputs[i].ended)
            continue;
        m = lane_pop(st->inputs[i].lane);
        if (m == NULL)
            continue;
        st->next_input = i + 1;
        r = take_message(st, i, m, e);
        return r != 0 ? r : STEP_WORKED;
    }
    return STEP_IDLE;
}

static bool
outputs_empty(const struct subtask *st)
{
    uint32_t i;

    for (i = 0; i < st->output_count; i++)
        if (st->outputs[i]->over != NULL)
            return false;
    return true;
}

/* Before the first message: take back what the last round kept. */
static int
restore(struct subtask *st, struct err *e)
{
    uint32_t i;
    int r = 0;

    st->restored = true;
    (void)fault_hit("restore_begin");
    for (i = 0; i < st->ops.count && r == 0; i++) {
        struct op *op = st->ops.ops[i];

        if (op->type->restore != NULL)
            r = op->type->restore(op, e);
    }
    (void)fault_hit("restore_done");
    return r != 0 ? r : STEP_WORKED;
}

/* Put frozen state into its snapshot, piece by piece.
 * @return whether there was something to do; < 0 error. */
static int
save(struct subtask *st, struct err *e)
{
    uint32_t i;
    int r, worked = 0;

    for (i = 0; i < st->ops.count; i++) {
        struct op *op = st->ops.ops[i];

        if (!op->saving)
            continue;
        r = op->type->save(op, e);
        if (r != 0)
            return r;
        worked = 1;
    }
    return worked;
}

/* A barrier went through the whole chain: what was counted up to here is
 * what a restart from this round begins with. */
static void
take_counts(struct subtask *st)
{
    uint32_t i;

    st->count_due = false;
    free(st->at_barrier);
    st->at_barrier = mem_zalloc((st->ops.count + 1u) * sizeof *st->at_barrier);
    for (i = 0; i < st->ops.count; i++)
        counters_add(&st->at_barrier[i], st->ops.ops[i]->count);
    st->ops.env.round = st->round;
    atomic_store(&st->counted, st->round);
}

static int
step_end(struct subtask *st)
{
    if (outputs_empty(st))
        atomic_store(&st->done, true);
    return STEP_IDLE;
}

int
subtask_step(struct subtask *st, int64_t *ret_wait, struct err *e)
{
    struct op_out *in = &st->ops.head->in;
    int r;

    if (atomic_load_explicit(&st->done, memory_order_relaxed))
        return STEP_IDLE;
    if (!st->restored)
        return restore(st, e);
    r = st->target != NULL ? target_serve(st->target, e) : 0;
    if (r != 0)
        return r < 0 ? r : STEP_WORKED;
    if (any_pending(st))
        return resume(st, ret_wait, e);
    if (st->count_due)
        take_counts(st);
    r = save(st, e);
    if (r < 0)
        return r;
    if (st->end_given)
        return r != 0 ? STEP_WORKED : step_end(st);
    if (!in->ready(in))
        return r != 0 ? STEP_WORKED : STEP_BLOCKED;
    if (r == 0)
        return is_source(st) ? step_source(st, ret_wait, e) : step_lanes(st, e);
    r = is_source(st) ? step_source(st, ret_wait, e) : step_lanes(st, e);
    return r < 0 ? r : STEP_WORKED;
}

int
subtask_tick(struct subtask *st, bool idle, int64_t *ret_wait, struct err *e)
{
    uint32_t i;
    int r;

    /* A tick behind a barrier must not be counted in front of it. */
    if (st->count_due || atomic_load_explicit(&st->done, memory_order_relaxed))
        return 0;
    for (i = 0; i < st->ops.count; i++) {
        struct op *op = st->ops.ops[i];

        if (op->type->tick == NULL || any_pending(st))
            continue;
        r = op->type->tick(op, idle, ret_wait, e);
        if (r != 0)
            return r;
    }
    return 0;
}

void
subtask_pump(struct subtask *st)
{
    uint32_t i;

    for (i = 0; i < st->output_count; i++)
        if (st->outputs[i]->over != NULL)
            (void)lane_pump(st->outputs[i]);
}

void
subtask_fini(struct subtask *st)
{
    op_chain_fini(&st->ops);
    script_free(&st->script);
    wm_input_fini(&st->wm);
    free(st->at_barrier);
    free(st->inputs);
    free(st->outputs);
    st->at_barrier = NULL;
    st->inputs = NULL;
    st->outputs = NULL;
}
