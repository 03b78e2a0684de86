/* Making the job work: subtasks in a drawn order, ticks, rounds, attempts. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "testing/sim_impl.h"

enum {
    TURN_STEPS = 4,   /* a subtask does that much in a row, at most */
    QUIET_PASSES = 2, /* a watermark of one subtask is seen by the others */
    PASSES_MAX = 1 << 17,
    ROUNDS_MAX = 1000
};

int
sim_failed(const struct sim *s, struct err *e)
{
    if (s->failure.code != 0)
        *e = s->failure;
    return s->failure.code;
}

/* The first failure counts: that of the job, else `e`. */
static int
fail(struct sim *s, const struct err *e)
{
    struct job *j = box_job(s->box);

    job_failed(j, e);
    s->failure = j->failure.err;
    return s->failure.code;
}

static int
fail_with(struct sim *s, struct err *e)
{
    int r = fail(s, e);

    *e = s->failure;
    return r;
}

static void
shuffle(struct sim *s)
{
    uint32_t i, k, t;

    for (i = s->subtask_count; i > 1; i--) {
        k = queue_draw(&s->queues, i);
        t = s->order[i - 1];
        s->order[i - 1] = s->order[k];
        s->order[k] = t;
    }
}

static int
run_subtask(struct sim *s, struct subtask *st, bool *worked, struct err *e)
{
    uint32_t n = 1 + queue_draw(&s->queues, TURN_STEPS);
    int64_t wait = INT64_MAX;
    int r = STEP_WORKED;

    for (; n > 0 && r == STEP_WORKED; n--) {
        st->ops.env.now_ms = clock_mono_ms();
        subtask_pump(st);
        r = subtask_step(st, &wait, e);
        if (r < 0)
            return r;
        if (r == STEP_WORKED)
            *worked = true;
    }
    return 0;
}

static int
run_all(struct sim *s, bool *worked, struct err *e)
{
    uint32_t i;
    int r = 0;

    *worked = false;
    shuffle(s);
    for (i = 0; i < s->subtask_count && r == 0; i++)
        r = run_subtask(s, s->subtasks[s->order[i]], worked, e);
    return r;
}

/* All are idle: let them look at the clock. s->wait is set to the least time
 * until one wants to look again. */
static int
tick_all(struct sim *s, struct err *e)
{
    uint32_t i;
    int r = 0;

    s->wait = INT64_MAX;
    for (i = 0; i < s->subtask_count && r == 0; i++) {
        struct subtask *st = s->subtasks[s->order[i]];

        st->ops.env.now_ms = clock_mono_ms();
        subtask_pump(st);
        r = subtask_tick(st, true, &s->wait, e);
    }
    return r;
}

/* Time stands still: a timer that registers one for now fires for ever. */
static int
no_rest(struct err *e)
{
    (void)err_set(e, ERR_FAIL, "the job does not come to rest");
    err_hint(e, "time stands still meanwhile: does a timer register one that "
                "is due at once?");
    return ERR_FAIL;
}

static int
come_to_rest(struct sim *s, struct err *e)
{
    uint32_t quiet = 0, passes;
    bool worked;
    int r = 0;

    for (passes = 0; quiet < QUIET_PASSES && r == 0; passes++) {
        r = run_all(s, &worked, e);
        if (r == 0 && passes == PASSES_MAX)
            r = no_rest(e);
        if (r != 0 || worked) {
            quiet = 0;
            continue;
        }
        r = tick_all(s, e);
        quiet = s->wait > 0 ? quiet + 1 : 0;
    }
    if (r == 0 && !atomic_load(&box_job(s->box)->failing))
        return 0;
    return fail_with(s, e);
}

static int
take_round(struct sim *s, struct err *e)
{
    struct rounds *rounds = &box_job(s->box)->rounds;
    uint64_t next = rounds->current + 1;
    int r = 0;

    rounds_wanted(box_job(s->box));
    while (rounds->state != ROUND_RESTING || rounds->current != next) {
        r = rounds_tick(rounds, clock_mono_ms(), e);
        if (r != 0)
            return fail_with(s, e);
        if (rounds->state == ROUND_WRITING) {
            box_wait(s->box);
            continue;
        }
        r = come_to_rest(s, e);
        if (r != 0)
            return r;
    }
    s->queues.kept = s->queues.limit;
    s->dirty = false;
    return 0;
}

/* An operator that is short of memory wants a round before it goes on. */
int
sim_settle(struct sim *s, struct err *e)
{
    struct job *j = box_job(s->box);
    int r = come_to_rest(s, e), n;

    for (n = 0; r == 0 && n < ROUNDS_MAX && atomic_load(&j->rounds.wanted) &&
                !job_is_done(j);
         n++) {
        r = take_round(s, e);
        if (r == 0)
            r = come_to_rest(s, e);
        s->dirty = true;
    }
    return r;
}

int
sim_round(struct sim *s, struct err *e)
{
    return s->dirty && !s->finished ? take_round(s, e) : 0;
}

int
sim_finish(struct sim *s, struct err *e)
{
    struct job *j = box_job(s->box);
    int r;

    if (!job_is_done(j)) {
        (void)err_set(e, ERR_INTERNAL, "the job did not end with its input");
        return fail_with(s, e);
    }
    while ((r = rounds_final(&j->rounds, e)) == 1)
        box_wait(s->box);
    if (r != 0)
        return fail_with(s, e);
    s->queues.kept = s->queues.limit;
    s->dirty = false;
    s->finished = true;
    return 0;
}

/* ---- attempts ---- */

static void
list_subtasks(struct sim *s)
{
    const struct job *j = box_job(s->box);
    uint32_t i, k, n = 0;

    for (i = 0; i < j->plan->chain_count; i++)
        n += j->plan->chains[i].parallelism;
    s->subtasks = mem_realloc(s->subtasks, (n + 1) * sizeof(struct subtask *));
    s->order = mem_realloc(s->order, (n + 1) * sizeof *s->order);
    s->subtask_count = 0;
    for (i = 0; i < j->plan->chain_count; i++)
        for (k = 0; k < j->plan->chains[i].parallelism; k++) {
            s->order[s->subtask_count] = s->subtask_count;
            s->subtasks[s->subtask_count++] = &j->subtasks[i][k];
        }
}

/* What came after the round comes again, in the same order, and each call is
 * brought to its end as it was. */
static int
replay(struct sim *s, struct err *e)
{
    int r = sim_settle(s, e);

    while (r == 0 && s->queues.limit < s->queues.seq) {
        s->queues.limit++;
        s->dirty = true;
        r = sim_settle(s, e);
    }
    if (r == 0 && s->dirty && job_is_done(box_job(s->box)))
        r = sim_finish(s, e);
    return r;
}

int
sim_open(struct sim *s, struct err *e)
{
    struct job *j;
    int r;

    clock_set_virtual(s->now);
    s->failure.code = 0;
    s->dirty = false;
    s->queues.limit = s->queues.kept;
    queue_set_unlive(&s->queues);
    sim_making(true);
    r = box_open(s->box, e);
    sim_making(false);
    if (r != 0)
        return fail_with(s, e);
    j = box_job(s->box);
    queue_cut(&s->queues, j->run->home.status.complete);
    atomic_store(&j->running, true);
    list_subtasks(s);
    return replay(s, e);
}

void
sim_close(struct sim *s)
{
    s->subtask_count = 0;
    box_close(s->box);
}
