#include "run/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/decide.h"

/* A rival that starts fences again with every try of its initialisation, half
 * a second apart. Whoever was fenced waits for longer than a start takes, so
 * that one of the two is left: the rival has claimed, or was refused. */
enum { FENCED_MS = 2000 };

int
recover_home(struct run *run, const char *job, uint32_t *ret_max, struct err *e)
{
    int r = 0;

    *ret_max = 0;
    if (run->home.store == NULL)
        r = home_open(&run->home, run->conf, job, e);
    if (r == 0 && run->home.plan.len != 0 && !run->home.status.finished)
        *ret_max =
            plan_state_max_parallelism(run->home.plan.data, run->home.plan.len);
    return r;
}

/* ------------------------------------------------------ the transactions */

/* Whether the marker is one that an attempt of this process wrote. */
static bool
is_own(const struct run *run, const struct txn_marker *m)
{
    return strncmp(m->owner, run->home.owner, strlen(run->home.owner)) == 0;
}

/* It may also be the predecessor's still, if no claim came through yet. */
static bool
is_as_seen(const struct run *run, const struct txn_marker *m)
{
    return run->seen.found && m->round == run->seen.round &&
           strcmp(m->owner, run->seen.owner) == 0;
}

/* Nothing of ours may be fenced, or written, once another process has gone
 * on from our state. */
static int
check_rival(struct job *j, struct err *e)
{
    const struct run *run = j->run;
    const struct home *h = &run->home;
    uint64_t newest =
        h->status.pending != 0 ? h->status.pending : h->status.complete;
    struct txn_marker m;
    int r = txn_look(j->txn, &m, e);

    (void)fault_hit("recover_looked");
    if (r != 0 || !m.found)
        return r;
    if ((is_own(run, &m) && m.round <= newest) || is_as_seen(run, &m)) {
        /* Or a commit of its own came through, and was not heard of. */
        if (run->fencings < 2 || m.round > run->seen.round)
            return 0;
        (void)err_set(e, ERR_BUSY,
                      "job %s: its producer was fenced again before a commit "
                      "of its own (checkpoint %" PRIu64 ")",
                      j->plan->name, h->status.complete);
    } else {
        (void)err_set(e, ERR_BUSY,
                      "job %s was taken over (checkpoint %" PRIu64
                      ", here %" PRIu64 ") by %.*s",
                      j->plan->name, m.round, h->status.complete,
                      (int)strcspn(m.owner, " "), m.owner);
    }
    err_hint(e, "another process runs this job, or one with the same "
                "transactional_id_prefix; only one of them may");
    return ERR_BUSY;
}

/* ------------------------------------------------------ the equality rule */

/* What the pending round says of itself. */
struct pending {
    bool finishes;             /* the job ends with it */
    char owner[TXN_OWNER_MAX]; /* who wrote it */
    bool other_target;         /* not for the plan's */
};

static int
read_blobs(struct store_reader *r, const char *target, struct pending *ret,
           struct err *e)
{
    const void *bytes;
    size_t len;
    int rc = store_reader_blob(r, "finished", &bytes, &len, e);

    ret->finishes = rc == 1 && len == 1 && *(const char *)bytes == '1';
    if (rc >= 0)
        rc = store_reader_blob(r, "owner", &bytes, &len, e);
    if (rc == 1 && len < sizeof ret->owner)
        memcpy(ret->owner, bytes, len);
    if (rc >= 0 && target != NULL) {
        rc = store_reader_blob(r, "txn", &bytes, &len, e);
        ret->other_target =
            rc == 0 || len != strlen(target) || memcmp(bytes, target, len) != 0;
    }
    return rc < 0 ? rc : 0;
}

static int
read_pending(struct home *h, const char *target, struct pending *ret,
             struct err *e)
{
    struct store_reader *r = NULL;
    int rc = store_reader_new(h->store, &r, e);

    memset(ret, 0, sizeof *ret);
    if (rc == 0)
        rc = store_reader_begin(r, STORE_VIEW_NEWEST, e);
    if (rc == 0) {
        rc = read_blobs(r, target, ret, e);
        store_reader_end(r);
    }
    store_reader_free(&r);
    return rc;
}

static int
apply(struct home *h, enum decision d, bool finishes, struct err *e)
{
    uint64_t pending = h->status.pending;
    int r;

    switch (d) {
    case DECIDE_RUN:
        return 0;
    case DECIDE_REFUSE:
        return e->code;
    case DECIDE_DISCARD:
        log_line(LOG_INFO,
                 "checkpoint %" PRIu64 " was not committed: discarded",
                 pending);
        r = store_round_discard(h->store, pending, e);
        break;
    case DECIDE_COMPLETE:
        log_line(LOG_INFO, "checkpoint %" PRIu64 " was committed: completed",
                 pending);
        r = store_round_complete(h->store, pending,
                                 finishes ? STORE_FINISHED : 0, e);
        break;
    default:
        return err_set(e, ERR_INTERNAL, "decision %d", (int)d);
    }
    return r != 0 ? r : home_look(h, e);
}

/* Whether this process has said somewhere that it goes on. */
static bool
has_said(const struct job *j)
{
    if (j->txn == NULL && !j->target.exists)
        return true;
    return j->txn != NULL ? is_own(j->run, &j->run->seen) : j->run->marked;
}

/* A flag is a permission for one start: until this process has a marker of
 * its own, which a claim that failed did not leave. */
static enum conn_recover
recover_flag(const struct job *j)
{
    const struct run *run = j->run;

    return run->opens == 0 || !has_said(j) ? run->home.recover : RECOVER_NOT;
}

const char *
recover_target(const struct job *j)
{
    if (j->txn != NULL)
        return j->plan->txn_prefix;
    return j->target.exists ? j->plan->lua_target : NULL;
}

static bool
text_is(const struct buf *b, const char *text)
{
    return text != NULL && b->len == strlen(text) &&
           memcmp(b->data, text, b->len) == 0;
}

static int
read_in(struct job *j, struct decide_in *ret, struct pending *pending,
        struct err *e)
{
    struct home *h = &j->run->home;
    int r;

    *ret = (struct decide_in){.job = j->plan->name,
                              .dir = h->dir,
                              .store = h->status,
                              .has_target = recover_target(j) != NULL,
                              .store_had_target =
                                  text_is(&h->txn, recover_target(j)),
                              .recover = recover_flag(j)};
    memset(pending, 0, sizeof *pending);
    ret->redo_owner = pending->owner;
    if (j->target.exists)
        ret->sink = j->plan->steps[j->plan->target_step].name;
    if (h->status.pending == 0 || h->status.pending_damaged)
        return 0;
    r = read_pending(h, recover_target(j), pending, e);
    ret->redo_other_target = pending->other_target;
    return r;
}

/* A start that will be refused whatever happens until then must not fence a
 * job that is well: what the marker says only grows. */
static int
refuse_early(struct job *j, struct err *e)
{
    struct pending pending;
    struct decide_in in;
    int r = read_in(j, &in, &pending, e);

    if (r == 0)
        r = txn_look(j->txn, &in.marker, e);
    if (r != 0 || !in.marker.found || decide(&in, e) != DECIDE_REFUSE)
        return r;
    if (memcmp(in.marker.lineage, in.store.lineage, CONN_LINEAGE_SIZE) == 0 &&
        in.marker.round <= in.store.complete && in.store.complete != 0)
        return 0; /* behind: it may have been read too early */
    return e->code;
}

static int
new_txn(struct job *j, struct err *e)
{
    const struct plan_step *s = &j->plan->steps[j->plan->txn_step];
    struct txn_conf c = {.prefix = j->plan->txn_prefix,
                         .interval_ms = j->plan->checkpoint_interval_ms,
                         .owner = j->run->owner};
    int r;

    j->txn_env = job_conn_env(j, s);
    c.env = &j->txn_env;
    r = txn_new(&c, &j->txn, e);
    if (r == 0)
        r = j->run->opens != 0 ? check_rival(j, e) : refuse_early(j, e);
    if (r == 0)
        r = txn_init(j->txn, e);
    if (r != 0 && e->where[0] == '\0')
        err_where(e, "%s", s->place);
    return r;
}

static int
look_at_target(struct job *j, struct decide_in *in, struct err *e)
{
    bool told = false;
    int r = target_look(j, &in->marker, &told, e);

    in->numbers_only = !told;
    return r;
}

static int
agree(struct job *j, struct err *e)
{
    struct home *h = &j->run->home;
    struct pending pending;
    struct decide_in in;
    enum decision d;
    int r = read_in(j, &in, &pending, e);

    if (r == 0 && j->txn != NULL)
        r = txn_look(j->txn, &in.marker, e);
    if (r == 0 && j->target.exists)
        r = look_at_target(j, &in, e);
    if (r != 0)
        return r;
    j->run->seen = in.marker;
    if (in.recover == RECOVER_REWIND || in.recover == RECOVER_DISCARD)
        log_line(LOG_WARN,
                 "--recover=%s: begins from checkpoint %" PRIu64
                 " of '%s'; %s is %s %" PRIu64
                 "; rows written since then may be doubled",
                 in.recover == RECOVER_REWIND ? "rewind" : "discard-state",
                 h->status.complete, h->dir,
                 in.sink != NULL ? "the target" : "the marker",
                 in.marker.found ? "at" : "missing, not", in.marker.round);
    d = decide(&in, e);
    (void)fault_hit("recover_decided");
    return apply(h, d, pending.finishes, e);
}

/* --------------------------------------------------------- what it begins */

static bool
has_committing_sink(const struct plan *p)
{
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == STEP_SINK &&
            plan_sink_commits(p->steps[i].opts))
            return true;
    return false;
}

/* A finished job is not run again by mistake. */
static void
look_finished(struct job *j)
{
    const struct home *h = &j->run->home;

    if (!h->status.finished)
        return;
    if (has_committing_sink(j->plan)) {
        j->already_done = true;
        log_line(LOG_WARN,
                 "%s finished at checkpoint %" PRIu64
                 "; use --fresh to run it again",
                 j->plan->name, h->status.complete);
        return;
    }
    j->start_over = true;
    log_line(LOG_INFO, "%s finished at checkpoint %" PRIu64 "; it starts over",
             j->plan->name, h->status.complete);
}

static int
fit(struct job *j, struct err *e)
{
    struct home *h = &j->run->home;
    unsigned flags = 0;
    uint32_t i;
    int r;

    if (j->start_over || h->status.complete == 0)
        return 0;
    if (reload_version(j->run)->allow_loss)
        flags |= FIT_ALLOW_LOSS;
    if (j->conf->new_lineage)
        flags |= FIT_OTHER_NAME;
    r = plan_fit_check(j->plan, h->plan.data, h->plan.len, flags, &j->fit, e);
    for (i = 0; r == 0 && i < j->fit.count; i++) {
        const struct fit_step *s = &j->fit.steps[i];

        if (s->verdict == FIT_LOST)
            log_line(LOG_WARN, "%s: %s is given up: %s", s->step,
                     s->drop ? "its state" : "state", s->why);
        else if (s->verdict < FIT_NEW && s->why[0] != '\0')
            log_line(LOG_WARN, "%s: %s", s->step, s->why);
        if (s->drop)
            restored_forget(&h->restored, s->step);
    }
    if (r == 0)
        reload_say_start(j);
    return r;
}

static void
set_conn_ckpt(struct job *j)
{
    struct home *h = &j->run->home;

    j->conn_ckpt = (struct conn_ckpt){.lineage = h->status.lineage,
                                      .round = h->status.complete,
                                      .recover = recover_flag(j),
                                      .finished = j->already_done,
                                      .txn = j->txn};
    j->ops.store = h->store;
    if (!j->start_over && h->status.complete != 0)
        j->ops.restored = &h->restored;
    atomic_store(&j->ops.durable, h->status.complete);
    if (j->run->opens == 0 && j->ops.restored != NULL && !j->already_done)
        j->run->restored = h->status.complete;
}

/* A job without checkpoints: only a reload has something to go on from. */
static int
begin_unkept(struct job *j, struct err *e)
{
    struct home *h = &j->run->home;
    int r;

    if (j->run->opens == 0)
        return reload_look(j->run, true, e);
    if (h->store == NULL)
        return 0;
    r = home_look(h, e);
    if (r == 0)
        r = fit(j, e);
    if (r == 0)
        set_conn_ckpt(j);
    return r;
}

int
recover_state(struct job *j, struct err *e)
{
    struct home *h = &j->run->home;
    int r = 0;

    if (!j->plan->checkpoint)
        return begin_unkept(j, e);
    (void)fault_hit("recover_begin");
    if (j->run->opens != 0)
        r = home_look(h, e);
    (void)snprintf(j->run->owner, sizeof j->run->owner, "%s-%u", h->owner,
                   j->run->opens);
    j->target.exists = j->plan->lua_target != NULL;
    if (r == 0 && j->plan->exactly_once)
        r = new_txn(j, e);
    if (r == 0)
        r = agree(j, e);
    if (r == 0)
        r = reload_decided(j->run, e);
    if (r != 0)
        return r;
    look_finished(j);
    if (j->run->opens == 0)
        r = reload_look(j->run, j->start_over || h->status.complete == 0, e);
    if (r == 0 && !j->already_done)
        r = fit(j, e);
    if (r == 0)
        set_conn_ckpt(j);
    return r;
}

int
recover_claim(struct job *j, struct err *e)
{
    const struct script_file *text = version_text(reload_version(j->run));
    struct home *h = &j->run->home;
    struct txn_marker m = {.found = true,
                           .round = h->status.complete,
                           .code = hash_key(text->text, text->len)};
    const struct txn_marker *seen = &j->run->seen;
    int r;

    memcpy(m.lineage, h->status.lineage, sizeof m.lineage);
    if (j->txn == NULL && (seen->found ? seen->round : 0) == m.round)
        return 0;
    r = j->txn != NULL ? txn_claim(j->txn, &m, e) : target_claim(j, m.round, e);
    if (r == 0)
        job_wrote_marker(j, m.round);
    return r;
}

/* ------------------------------------------------------------- restarting */

bool
recover_is_retriable(const struct job *j)
{
    const struct run *run = j->run;
    const struct plan *p = j->plan;
    const struct err *e = &j->failure.err;

    if (!j->has_failure || p == NULL || !p->checkpoint || j->stopping ||
        run->finished || run->stop_signal != 0 ||
        (e->flags & ERR_RETRIABLE) == 0 ||
        (e->code != ERR_UNAVAILABLE && e->code != ERR_TEMP))
        return false;
    return p->restart_attempts < 0 || run->attempts < p->restart_attempts;
}

bool
recover_may_restart(struct job *j, int64_t *ret_wait_ms)
{
    struct run *run = j->run;
    const struct plan *p = j->plan;

    if (!recover_is_retriable(j))
        return false;
    *ret_wait_ms =
        run->backoff_ms != 0 ? run->backoff_ms : p->restart_initial_ms;
    if (j->txn != NULL && txn_fenced(j->txn)) {
        run->fencings++;
        if (*ret_wait_ms < FENCED_MS)
            *ret_wait_ms = FENCED_MS;
    }
    run->backoff_ms = *ret_wait_ms * 2 < p->restart_max_ms ? *ret_wait_ms * 2
                                                           : p->restart_max_ms;
    run->attempts++;
    run->restarts++;
    return true;
}

void
recover_judge_fencing(struct job *j)
{
    struct err e;

    if (!j->has_failure || j->txn == NULL || !txn_fenced(j->txn))
        return;
    err_clear(&e);
    if (home_look(&j->run->home, &e) == 0 && check_rival(j, &e) == ERR_BUSY) {
        j->failure.err = e;
        j->has_record = false;
    }
}
