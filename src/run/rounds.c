#include "run/rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/job.h"

enum { SLOW_MS = 10000 }; /* a round that takes so long is talked about */

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

        if (!plan_step_in_rounds(s))
            continue;
        r->steps[i].count = s->parallelism;
        r->steps[i].parts =
            mem_zalloc(s->parallelism * sizeof *r->steps[i].parts);
    }
    r->enabled =
        p->checkpoint || (j->run != NULL && j->run->home.store != NULL);
    r->ended_ms = clock_mono_ms();
    if (j->run != NULL && j->run->home.store != NULL)
        r->current = j->run->home.status.complete;
}

void
rounds_fini(struct rounds *r)
{
    uint32_t i, k;

    if (r->steps == NULL)
        return;
    for (i = 0; i < r->job->plan->step_count; i++) {
        for (k = 0; k < r->steps[i].count; k++) {
            struct round_part *p = &r->steps[i].parts[k];

            snapshot_free(&p->now);
            snapshot_free(&p->end);
            buf_fini(&p->blob);
        }
        free(r->steps[i].parts);
    }
    free(r->steps);
    r->steps = NULL;
    ckpt_round_free(&r->writing);
    (void)pthread_mutex_destroy(&r->lock);
}

uint64_t
rounds_complete(const struct rounds *r)
{
    return r->state == ROUND_RESTING ? r->current : r->current - 1;
}

void
rounds_give(void *job, const struct plan_step *step, uint32_t subtask,
            struct snapshot **s)
{
    struct rounds *r = &((struct job *)job)->rounds;
    struct round_part *p = &r->steps[step->index].parts[subtask];

    (void)pthread_mutex_lock(&r->lock);
    p->now_ms = clock_mono_ms();
    if ((*s)->round == SNAPSHOT_END) {
        p->ended = true;
        snapshot_free(&p->end);
        p->end = *s;
    } else {
        snapshot_free(&p->now);
        p->now = *s;
    }
    *s = NULL;
    (void)pthread_mutex_unlock(&r->lock);
    job_wake(r->job);
}

void
rounds_wanted(void *job)
{
    struct rounds *r = &((struct job *)job)->rounds;

    if (!atomic_exchange(&r->wanted, true))
        job_wake(r->job);
}

/* ------------------------------------------------------------- aligning */

static bool
part_gave(const struct rounds *r, const struct round_part *p)
{
    return p->ended || (p->now != NULL && p->now->round == r->current);
}

/* The first part that a round waits for; NULL: none. Under the lock. */
static const struct plan_step *
waits_for(const struct rounds *r, uint32_t *ret_subtask)
{
    const struct plan *p = r->job->plan;
    uint32_t i, k;

    for (i = 0; i < p->step_count; i++)
        for (k = 0; k < r->steps[i].count; k++)
            if (!part_gave(r, &r->steps[i].parts[k])) {
                *ret_subtask = k;
                return &p->steps[i];
            }
    return NULL;
}

/* Every subtask has taken its counters behind the barrier, too. */
static bool
all_counted(const struct rounds *r)
{
    const struct plan *p = r->job->plan;
    uint32_t i, k;

    for (i = 0; i < p->chain_count; i++)
        for (k = 0; k < p->chains[i].parallelism; k++) {
            struct subtask *st = &r->job->subtasks[i][k];

            if (atomic_load(&st->counted) < r->current &&
                !atomic_load(&st->done))
                return false;
        }
    return true;
}

/* Whether a snapshot of the barrier under way was given; if none was, the
 * barrier met only ends, and one round takes them all. Under the lock. */
static bool
has_nows(const struct rounds *r)
{
    const struct plan *p = r->job->plan;
    uint32_t i, k;
    bool any = false;

    for (i = 0; i < p->step_count; i++)
        for (k = 0; k < r->steps[i].count; k++) {
            const struct round_part *part = &r->steps[i].parts[k];

            any = any || (part->now != NULL && part->now->round == r->current);
        }
    return any;
}

/* A round of ends alone is the job's last one: rounds_final() gives it, which
 * follows at once. */
static bool
is_aligned(struct rounds *r)
{
    uint32_t subtask;
    bool yes;

    (void)pthread_mutex_lock(&r->lock);
    yes = waits_for(r, &subtask) == NULL && has_nows(r);
    (void)pthread_mutex_unlock(&r->lock);
    return yes && all_counted(r);
}

/* Who holds the round under way: the first part that has not given yet; NULL
 * once all is given to the checkpoint thread. */
static const struct plan_step *
held_by(struct rounds *r, uint32_t *ret_subtask)
{
    const struct plan_step *s;

    if (r->state != ROUND_ALIGNING)
        return NULL;
    (void)pthread_mutex_lock(&r->lock);
    s = waits_for(r, ret_subtask);
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

/* A slow round is told with the subtask that holds it. */
static void
tell_slow(struct rounds *r, int64_t now_ms)
{
    const struct plan_step *s;
    uint32_t subtask = 0;

    if (now_ms - r->told_ms < SLOW_MS)
        return;
    r->told_ms = now_ms;
    s = held_by(r, &subtask);
    if (s != NULL)
        log_line(LOG_WARN, "checkpoint %llu held by %s[%u] for %llds",
                 (unsigned long long)r->current, s->name, subtask,
                 (long long)((now_ms - r->begun_ms) / 1000));
    else if (r->state == ROUND_WRITING)
        log_line(LOG_WARN,
                 "checkpoint %llu is being written or committed for %llds",
                 (unsigned long long)r->current,
                 (long long)((now_ms - r->begun_ms) / 1000));
}

/* A barrier cannot be taken back, so a tolerated timeout is waited out. */
static int
check_timeout(struct rounds *r, int64_t now_ms, struct err *e)
{
    const struct plan *p = r->job->plan;
    int64_t over =
        now_ms - r->begun_ms - (int64_t)r->overdue * p->checkpoint_timeout_ms;
    const struct plan_step *s;
    uint32_t subtask = 0;
    char number[16] = "";

    if (p->checkpoint_timeout_ms <= 0 || over < p->checkpoint_timeout_ms)
        return 0;
    r->overdue++;
    r->job->run->failed_rounds++;
    s = held_by(r, &subtask);
    if (s != NULL)
        (void)snprintf(number, sizeof number, "[%u]", subtask);
    (void)err_set(e, ERR_UNAVAILABLE,
                  "checkpoint %llu did not end within its timeout of %lld ms: "
                  "held by %s%s",
                  (unsigned long long)r->current,
                  (long long)p->checkpoint_timeout_ms,
                  s != NULL ? s->name : "the commit", number);
    e->flags |= ERR_RETRIABLE;
    err_hint(e, "checkpoint.timeout, checkpoint.tolerable_failures");
    if ((int64_t)r->overdue > p->checkpoint_tolerable)
        return e->code;
    log_line(LOG_WARN, "%s; waiting on (%llu of %lld tolerable failures)",
             e->msg, (unsigned long long)r->overdue,
             (long long)p->checkpoint_tolerable);
    return 0;
}

static void
begin(struct rounds *r, int64_t now_ms)
{
    const struct plan *p = r->job->plan;
    uint32_t i, k;

    (void)fault_hit("round_begin");
    atomic_store(&r->wanted, false);
    r->current++;
    r->overdue = 0;
    r->state = ROUND_ALIGNING;
    r->begun_ms = r->told_ms = now_ms;
    for (i = 0; i < p->chain_count; i++) {
        struct subtask *st = job_subtasks(r->job, i);

        for (k = 0; k < p->chains[i].parallelism; k++)
            atomic_store(&st[k].round_wanted, r->current);
    }
    job_wake_slots(r->job);
}

/* -------------------------------------------------------------- writing */

/* What a part puts into the round: its barrier's snapshot, or its end's. */
static struct snapshot *
take_snapshot(struct rounds *r, struct round_part *p, struct round_note *note)
{
    struct snapshot **from =
        p->now != NULL && p->now->round == r->current ? &p->now : &p->end;
    struct snapshot *s = *from;

    *from = NULL;
    if (s == NULL)
        return NULL; /* it ended in an earlier round */
    buf_clear(&p->blob);
    buf_add(&p->blob, s->blob.data, s->blob.len);
    if (s->pause_ns / 1000 > note->pause_us)
        note->pause_us = s->pause_ns / 1000;
    return s;
}

static void
put_blobs(const struct rounds *r, struct buf *out)
{
    const struct plan *p = r->job->plan;
    struct restored all = {.round = r->current,
                           .max_parallelism = p->max_parallelism};
    uint32_t i, k;

    all.steps = mem_zalloc((p->step_count + 1u) * sizeof *all.steps);
    for (i = 0; i < p->step_count; i++) {
        struct step_blobs *to = &all.steps[all.step_count];

        if (r->steps[i].parts == NULL)
            continue;
        all.step_count++;
        to->step = mem_strdup(p->steps[i].name);
        to->blobs = mem_zalloc((r->steps[i].count + 1u) * sizeof *to->blobs);
        to->count = r->steps[i].count;
        for (k = 0; k < to->count; k++) {
            const struct buf *b = &r->steps[i].parts[k].blob;

            buf_add(&to->blobs[k], b->data, b->len);
        }
    }
    restored_put(&all, out);
    restored_fini(&all);
}

static struct ckpt_round *
take_round(struct rounds *r)
{
    const struct plan *p = r->job->plan;
    struct ckpt_round *c = mem_zalloc(sizeof *c);
    uint32_t i, k, n = 0;

    memset(&r->job->run->note, 0, sizeof r->job->run->note);
    for (i = 0; i < p->step_count; i++)
        n += r->steps[i].count;
    c->parts = mem_zalloc((n + 1u) * sizeof *c->parts);
    c->round = r->current;
    (void)pthread_mutex_lock(&r->lock);
    for (i = 0; i < p->step_count; i++)
        for (k = 0; k < r->steps[i].count; k++) {
            struct ckpt_part *to = &c->parts[c->part_count++];

            to->step = p->steps[i].name;
            to->snap =
                take_snapshot(r, &r->steps[i].parts[k], &r->job->run->note);
        }
    put_blobs(r, &c->steps);
    (void)pthread_mutex_unlock(&r->lock);
    return c;
}

static void
give_round(struct rounds *r, int64_t now_ms, bool last)
{
    struct job *j = r->job;
    struct ckpt_round *c;

    (void)fault_hit("round_frozen");
    job_take_counters(r->job, r->current);
    c = take_round(r);
    j->run->note.round = r->current;
    j->run->note.align_ms = now_ms - r->begun_ms;
    c->last = last;
    c->finished = last && job_is_finished(j);
    job_fill_round(j, c);
    r->writing = c;
    r->state = ROUND_WRITING;
    ckpt_give(&j->ckpt, c);
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
    for (k = 0; k < rs->count; k++)
        buf_add(&blobs[k], rs->parts[k].blob.data, rs->parts[k].blob.len);
    rc = type->committed(r->job->ops.sources[step], blobs, rs->count, final, e);
    for (k = 0; k < rs->count; k++)
        buf_fini(&blobs[k]);
    free(blobs);
    return rc;
}

/* Sinks first: a row that is not yet visible must not be acknowledged. */
static int
tell_connectors(struct rounds *r, bool final, struct err *e)
{
    const struct plan *p = r->job->plan;
    struct op_job *o = &r->job->ops;
    uint32_t i;
    int rc = 0;
    uint64_t said = p->checkpoint ? r->current : 0;
    bool hear = p->checkpoint || final; /* else no sink waits for rounds */

    (void)fault_hit("sink_committed");
    for (i = 0; i < p->step_count && rc == 0; i++)
        if (p->steps[i].kind == STEP_SINK && hear &&
            o->sink_types[i]->committed != NULL)
            rc = o->sink_types[i]->committed(o->sinks[i], said, final, e);
    (void)fault_hit("source_committed");
    for (i = 0; i < p->step_count && rc == 0; i++)
        if (p->steps[i].kind == STEP_SOURCE)
            rc = tell_source(r, i, final, e);
    return rc;
}

static int
round_done(struct rounds *r, int64_t now_ms, bool final, struct err *e)
{
    struct round_note *n = &r->job->run->note;
    const struct ckpt_round *c = r->writing;
    int rc;

    r->state = ROUND_RESTING;
    r->ended_ms = now_ms;
    n->ms = now_ms - r->begun_ms;
    n->sync_ms = (c->prepare_ns + c->write_ns + c->complete_ns) / 1000000;
    n->commit_ms = c->commit_ns / 1000000;
    n->puts = c->puts;
    n->dels = c->dels;
    n->bytes = c->bytes + c->steps.len;
    r->job->run->finished = c->finished;
    rc = tell_connectors(r, final, e);
    job_round_completed(r->job, n);
    ckpt_round_free(&r->writing);
    (void)fault_hit("round_done");
    return rc;
}

/* Look whether the thread is done. @return 1 not yet. */
static int
check_written(struct rounds *r, int64_t now_ms, bool final, struct err *e)
{
    if (!ckpt_take_round(&r->job->ckpt, e))
        return 1;
    if (e->code != 0) {
        r->job->run->failed_rounds++;
        ckpt_round_free(&r->writing);
        r->state = ROUND_RESTING;
        r->current--;
        return e->code;
    }
    return round_done(r, now_ms, final, e);
}

/* ------------------------------------------------------------ from outside */

static bool
is_due(struct rounds *r, int64_t now_ms)
{
    const struct plan *p = r->job->plan;
    int64_t since_begun = now_ms - r->begun_ms;
    int64_t since_ended = now_ms - r->ended_ms;

    if (r->job->stopping)
        return false; /* the last round follows */
    if (atomic_load(&r->wanted))
        return true;
    if (!p->checkpoint)
        return false;     /* a reload wants it */
    if (r->begun_ms == 0) /* the first one */
        return since_ended >= p->checkpoint_interval_ms;
    return since_begun >= p->checkpoint_interval_ms &&
           since_ended >= p->checkpoint_min_pause_ms;
}

int
rounds_tick(struct rounds *r, int64_t now_ms, struct err *e)
{
    int rc = 0;

    if (!r->enabled)
        return 0;
    rc = ckpt_late(&r->job->ckpt, e);
    if (rc != 0)
        return rc;
    if (r->state == ROUND_RESTING && is_due(r, now_ms))
        begin(r, now_ms);
    /* Rows that nobody reads any more must not be acknowledged. */
    if (r->state == ROUND_ALIGNING && !atomic_load(&r->job->pipe_closed) &&
        is_aligned(r))
        give_round(r, now_ms, false);
    if (r->state == ROUND_WRITING) {
        rc = check_written(r, now_ms, false, e);
        rc = rc == 1 ? 0 : rc;
    }
    if (rc != 0 || r->state == ROUND_RESTING)
        return rc;
    tell_slow(r, now_ms);
    return check_timeout(r, now_ms, e);
}

/* Without checkpoints the end is told at once. */
static int
final_unkept(struct rounds *r, struct err *e)
{
    struct op_job *o = &r->job->ops;
    uint32_t i;
    int rc = 0;

    for (i = 0; i < r->job->plan->step_count && rc == 0; i++)
        if (o->sinks[i] != NULL && o->sink_types[i]->committed != NULL)
            rc = o->sink_types[i]->committed(o->sinks[i], 0, true, e);
    return rc;
}

static bool
has_ends(struct rounds *r)
{
    const struct plan *p = r->job->plan;
    uint32_t i, k;
    bool any = false;

    (void)pthread_mutex_lock(&r->lock);
    for (i = 0; i < p->step_count; i++)
        for (k = 0; k < r->steps[i].count; k++)
            any = any || r->steps[i].parts[k].end != NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return any;
}

int
rounds_final(struct rounds *r, struct err *e)
{
    bool last;
    int rc;

    if (!r->enabled)
        return final_unkept(r, e);
    rc = ckpt_late(&r->job->ckpt, e);
    if (rc != 0)
        return rc;
    for (;;) {
        switch (r->state) {
        case ROUND_RESTING:
            if (!has_ends(r))
                return 0;
            r->current++;
            r->begun_ms = r->told_ms = clock_mono_ms();
            r->state = ROUND_ALIGNING;
            break;
        case ROUND_ALIGNING:
            give_round(r, clock_mono_ms(),
                       !has_nows(r)); /* nobody gives any more */
            break;
        case ROUND_WRITING:
            last = r->writing->last;
            rc = check_written(r, clock_mono_ms(), last, e);
            if (rc != 0)
                return rc;
            if (last)
                return 0;
            break;
        }
    }
}
