#include "run/target.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "base/log.h"
#include "run/connectors.h"
#include "run/job.h"

/* How often the checkpoint thread looks whether the subtask is done. */
enum { LOOK_MS = 20 };

/* ------------------------------------------------------------- the token */

enum { LINEAGE_HEX = 2 * CONN_LINEAGE_SIZE };

void
target_token(const struct job *j, struct conn_round *round)
{
    const uint8_t *lineage = j->run->home.status.lineage;
    int i;

    for (i = 0; i < CONN_LINEAGE_SIZE; i++)
        (void)snprintf(round->token + 2 * i, 3, "%02x", lineage[i]);
    (void)snprintf(round->token + LINEAGE_HEX,
                   sizeof round->token - LINEAGE_HEX, " %s", j->run->owner);
}

static int
nibble(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* @return false if it is no token of ours. */
static bool
read_token(const char *token, struct txn_marker *ret)
{
    int i, high, low;

    if (strlen(token) <= LINEAGE_HEX || token[LINEAGE_HEX] != ' ' ||
        strlen(token) - LINEAGE_HEX > sizeof ret->owner)
        return false;
    for (i = 0; i < CONN_LINEAGE_SIZE; i++) {
        high = nibble(token[2 * i]);
        low = nibble(token[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret->lineage[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(ret->owner, token + LINEAGE_HEX + 1,
           strlen(token) - LINEAGE_HEX); /* with its end */
    return true;
}

/* ----------------------------------------------------------- at a start */

struct session {
    const struct sink_type *type;
    struct sink *sink;
    struct sink_task *task;
};

static void
no_wake(void *arg)
{
    (void)arg;
}

static int
session_open(struct job *j, struct session *s, struct err *e)
{
    const struct plan_step *step = &j->plan->steps[j->plan->target_step];
    struct conn_env env = job_conn_env(j, step);
    struct conn_task conf = {.wake = no_wake, .script = j->script};
    int r;

    memset(s, 0, sizeof *s);
    s->type = connectors_sink(opt_str(step->opts, "connector", ""));
    r = s->type->open(&env, &s->sink, e);
    if (r == 0)
        r = s->type->task_new(s->sink, &conf, &s->task, e);
    return r;
}

static void
session_close(struct session *s)
{
    if (s->task != NULL)
        s->type->task_free(&s->task);
    if (s->sink != NULL)
        s->type->close(&s->sink);
}

static int
place_error(const struct job *j, int r, struct err *e)
{
    const struct plan_step *step = &j->plan->steps[j->plan->target_step];

    if (r != 0 && e->where[0] == '\0')
        err_where(e, "%s", step->place);
    return r;
}

int
target_look(struct job *j, struct txn_marker *ret, bool *ret_told,
            struct err *e)
{
    struct conn_round now;
    struct session s;
    int r;

    /* No watchdog runs yet, and the target may let us wait. */
    log_line(LOG_INFO, "%s: asks its target for the last round",
             j->plan->steps[j->plan->target_step].name);
    r = session_open(j, &s, e);
    if (r == 0)
        r = s.type->last_round(s.task, &now, e);
    session_close(&s);
    if (r != 0)
        return place_error(j, r, e);
    memset(ret, 0, sizeof *ret);
    ret->found = now.found;
    ret->round = now.round;
    *ret_told = now.token[0] != '\0';
    if (*ret_told && !read_token(now.token, ret)) {
        (void)err_set(e, ERR_FAIL,
                      "last_round: the token is not one that commit() was "
                      "given: '%.60s'",
                      now.token);
        return place_error(j, ERR_FAIL, e);
    }
    return 0;
}

int
target_claim(struct job *j, uint64_t round, struct err *e)
{
    struct conn_round claim = {.found = true, .round = round}, before;
    struct session s;
    int r = session_open(j, &s, e);

    target_token(j, &claim);
    if (r == 0) /* every session begins with it */
        r = s.type->last_round(s.task, &before, e);
    if (r == 0)
        r = s.type->commit(s.task, &claim, e);
    session_close(&s);
    return place_error(j, r, e);
}

/* ----------------------------------------------------------- the mailbox */

void
target_init(struct target *t, struct job *j)
{
    uint32_t step = j->plan->target_step, i;
    struct subtask *st = &job_subtasks(j, j->plan->steps[step].chain)[0];
    pthread_condattr_t attr;

    t->subtask = st;
    for (i = 0; i < st->ops.count; i++)
        if (st->ops.ops[i]->step->index == step)
            t->op = st->ops.ops[i];
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&t->answered, &attr);
    (void)pthread_condattr_destroy(&attr);
    err_clear(&t->answer);
    st->target = t;
}

void
target_fini(struct target *t)
{
    if (t->subtask == NULL)
        return;
    t->subtask = NULL;
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_cond_destroy(&t->answered);
}

/* Take what is due. @return whether it was. */
static bool
take(struct target *t, struct conn_round *ret)
{
    bool due;

    (void)pthread_mutex_lock(&t->lock);
    due = t->state == TARGET_DUE;
    if (due) {
        t->state = TARGET_RUNNING;
        atomic_store(&t->due, false);
        *ret = t->round;
    }
    (void)pthread_mutex_unlock(&t->lock);
    return due;
}

/* Make the call and leave its answer; the caller owns the task. */
static int
run(struct target *t, const struct conn_round *round, struct err *e)
{
    int r = op_sink_commit(t->op, round, e);

    (void)pthread_mutex_lock(&t->lock);
    t->answer = *e;
    t->answer.code = r;
    t->state = TARGET_ANSWERED;
    (void)pthread_cond_signal(&t->answered);
    (void)pthread_mutex_unlock(&t->lock);
    return r;
}

int
target_serve(struct target *t, struct err *e)
{
    struct conn_round round;
    int r;

    /* Relaxed: take() looks under the lock. */
    if (!atomic_load_explicit(&t->due, memory_order_relaxed) ||
        !take(t, &round))
        return 0;
    r = run(t, &round, e);
    return r != 0 ? r : 1;
}

void
target_cancel(struct target *t)
{
    if (t->subtask == NULL || atomic_load(&t->subtask->done))
        return;
    (void)pthread_mutex_lock(&t->lock);
    if (t->state != TARGET_ANSWERED)
        t->state = TARGET_CANCELLED;
    (void)pthread_cond_signal(&t->answered);
    (void)pthread_mutex_unlock(&t->lock);
}

/* Wait until there is an answer, or the task is the caller's to call.
 * @return the state then. Under the lock. */
static enum target_state
await(struct target *t)
{
    struct timespec until;

    while (t->state == TARGET_DUE || t->state == TARGET_RUNNING) {
        if (t->state == TARGET_DUE && atomic_load(&t->subtask->done))
            break;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)pthread_cond_timedwait(&t->answered, &t->lock, &until);
    }
    return t->state;
}

static int
ask(struct target *t, const struct conn_round *round, struct err *e)
{
    struct conn_round mine;
    enum target_state state;

    (void)pthread_mutex_lock(&t->lock);
    if (t->state == TARGET_RESTING) {
        t->state = TARGET_DUE;
        t->round = *round;
        atomic_store(&t->due, true);
    }
    (void)pthread_mutex_unlock(&t->lock);
    slot_wake(t->subtask->slot);
    (void)pthread_mutex_lock(&t->lock);
    state = await(t);
    (void)pthread_mutex_unlock(&t->lock);
    if (state == TARGET_DUE && take(t, &mine))
        (void)run(t, &mine, e);
    (void)pthread_mutex_lock(&t->lock);
    state = t->state;
    if (state == TARGET_ANSWERED) {
        t->state = TARGET_RESTING;
        *e = t->answer;
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (state == TARGET_ANSWERED)
        return e->code;
    (void)err_set(e, ERR_UNAVAILABLE, "the job stopped before the commit");
    e->flags |= ERR_RETRIABLE;
    return e->code;
}

/* As if the answer were lost. */
static int
unknown(const char *point, struct err *e)
{
    (void)err_set(e, ERR_UNAVAILABLE, "fault point %s", point);
    e->flags |= ERR_RETRIABLE;
    return e->code;
}

int
target_commit(struct target *t, const struct conn_round *round, struct err *e)
{
    int r;

    if (fault_hit("target_commit"))
        return unknown("target_commit", e);
    r = ask(t, round, e);
    if (r == 0 && fault_hit("target_committed"))
        return unknown("target_committed", e);
    return r;
}
