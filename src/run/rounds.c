#include "run/rounds.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/job.h"

void
rounds_init(struct rounds *r, struct job *j)
{
    const struct plan *p = j->plan;
    uint32_t i;

    r->job = j;
    (void)pthread_mutex_init(&r->lock, NULL);
    r->steps = mem_zalloc(p->step_count * sizeof *r->steps);
    for (i = 0; i < p->step_count; i++) {
        const struct plan_step *s = &p->steps[i];

        if (s->kind != STEP_SOURCE && s->kind != STEP_SINK)
            continue;
        r->steps[i].source = s->kind == STEP_SOURCE;
        r->steps[i].count = s->parallelism;
        r->steps[i].tasks =
            mem_zalloc(s->parallelism * sizeof *r->steps[i].tasks);
    }
    r->enabled = p->checkpoint && !p->stateful;
    r->interval_ms = p->checkpoint_interval_ms;
    r->last_ms = clock_mono_ms();
}

void
rounds_fini(struct rounds *r)
{
    uint32_t i, k;

    if (r->steps == NULL)
        return;
    for (i = 0; i < r->job->plan->step_count; i++) {
        for (k = 0; k < r->steps[i].count; k++) {
            buf_fini(&r->steps[i].tasks[k].positions);
            buf_fini(&r->steps[i].tasks[k].end);
        }
        free(r->steps[i].tasks);
    }
    free(r->steps);
    r->steps = NULL;
    (void)pthread_mutex_destroy(&r->lock);
}

void
rounds_ack(void *job, const struct plan_step *step, uint32_t subtask,
           uint64_t round, const struct buf *positions)
{
    struct rounds *r = &((struct job *)job)->rounds;
    struct round_task *t = &r->steps[step->index].tasks[subtask];
    struct buf *to = round == UINT64_MAX ? &t->end : &t->positions;

    (void)pthread_mutex_lock(&r->lock);
    t->acked = round;
    if (round != UINT64_MAX)
        t->round = round;
    if (positions != NULL) {
        buf_clear(to);
        buf_add(to, positions->data, positions->len);
    }
    (void)pthread_mutex_unlock(&r->lock);
    job_wake(r->job);
}

static bool
is_complete(struct rounds *r)
{
    uint32_t i, k;
    bool yes = true;

    (void)pthread_mutex_lock(&r->lock);
    for (i = 0; i < r->job->plan->step_count && yes; i++)
        for (k = 0; k < r->steps[i].count; k++)
            yes = yes && r->steps[i].tasks[k].acked >= r->current;
    (void)pthread_mutex_unlock(&r->lock);
    return yes;
}

/* What a task's round means for its source. One that gave the barrier and
 * ended before the round was complete has read more since, which nobody has
 * acknowledged yet. One that ended before the barrier was read to its end. */
static const struct buf *
positions_of(const struct rounds *r, const struct round_task *t, bool final)
{
    bool ended = t->acked == UINT64_MAX;

    return ended && (final || t->round < r->current) ? &t->end : &t->positions;
}

static int
tell_source(struct rounds *r, uint32_t step, bool final, struct err *e)
{
    const struct source_type *type = r->job->ops.source_types[step];
    const struct round_step *rs = &r->steps[step];
    struct buf *blobs;
    uint32_t k;
    int rc;

    if (type->committed == NULL)
        return 0;
    blobs = mem_zalloc((rs->count + 1u) * sizeof *blobs);
    (void)pthread_mutex_lock(&r->lock);
    for (k = 0; k < rs->count; k++) {
        const struct buf *p = positions_of(r, &rs->tasks[k], final);

        buf_add(&blobs[k], p->data, p->len);
    }
    (void)pthread_mutex_unlock(&r->lock);
    rc = type->committed(r->job->ops.sources[step], blobs, rs->count, final, e);
    for (k = 0; k < rs->count; k++)
        buf_fini(&blobs[k]);
    free(blobs);
    return rc;
}

static int
complete(struct rounds *r, bool final, struct err *e)
{
    const struct plan *p = r->job->plan;
    /* At the end of bounded input every window has fired. */
    bool tell = r->enabled || (final && p->checkpoint && !r->job->stopping);
    uint32_t i;
    int rc = 0;

    /* Rows that nobody took are not acknowledged. */
    tell = tell && !atomic_load(&r->job->pipe_closed);
    for (i = 0; i < p->step_count && rc == 0; i++) {
        if (p->steps[i].kind == STEP_SOURCE && tell)
            rc = tell_source(r, i, final, e);
        else if (p->steps[i].kind == STEP_SINK &&
                 r->job->ops.sink_types[i]->committed != NULL)
            rc = r->job->ops.sink_types[i]->committed(r->job->ops.sinks[i],
                                                      final, e);
    }
    r->under_way = false;
    r->completed++;
    return rc;
}

static void
begin(struct rounds *r, int64_t now_ms)
{
    const struct plan *p = r->job->plan;
    uint32_t i, k;

    r->current++;
    r->under_way = true;
    r->begun_ms = now_ms;
    for (i = 0; i < p->chain_count; i++) {
        struct subtask *st = job_subtasks(r->job, i);

        for (k = 0; k < p->chains[i].parallelism; k++)
            atomic_store(&st[k].round_wanted, r->current);
    }
    job_wake_slots(r->job);
}

int
rounds_tick(struct rounds *r, int64_t now_ms, struct err *e)
{
    if (!r->enabled)
        return 0;
    if (r->under_way && is_complete(r)) {
        r->last_ms = now_ms;
        return complete(r, false, e);
    }
    if (!r->under_way && now_ms - r->last_ms >= r->interval_ms &&
        !r->job->stopping)
        begin(r, now_ms);
    return 0;
}

int
rounds_final(struct rounds *r, struct err *e)
{
    return complete(r, true, e);
}
