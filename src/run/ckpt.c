#include "run/ckpt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    MERGE_ENTRIES = 10000, /* a step, about 30 ms */
    MERGE_LEAST = 500,
    PAGE_BYTES = 4096,        /* that a changed entry keeps in memory */
    COPY_ENTRIES = 20000,     /* a step, about 20 ms */
    WRITE_RETRY_MS = 200,     /* between tries of a failed write */
    WRITE_DEADLINE_MS = 20000 /* of a redo, DESIGN section 9 */
};

void
ckpt_round_free(struct ckpt_round **rp)
{
    struct ckpt_round *r = *rp;
    uint32_t i;

    *rp = NULL;
    if (r == NULL)
        return;
    for (i = 0; i < r->part_count; i++)
        snapshot_free(&r->parts[i].snap);
    free(r->parts);
    free(r->dropped);
    buf_fini(&r->steps);
    buf_fini(&r->plan);
    buf_fini(&r->code);
    buf_fini(&r->meta);
    buf_fini(&r->reloads);
    free(r);
}

/* ---------------------------------------------------------- one round */

static int
put_part(struct ckpt *c, struct ckpt_round *r, const struct ckpt_part *p,
         struct err *e)
{
    struct snapshot_change ch;
    size_t at = 0;
    uint32_t op;
    int rc;

    if (p->snap == NULL || snapshot_bytes(p->snap) == 0)
        return 0;
    rc = store_round_operator(c->store, p->step, strlen(p->step), &op, e);
    while (rc == 0 && snapshot_next(p->snap, &at, &ch) == 1) {
        struct store_key k = {.op = op,
                              .group = ch.key.group,
                              .ns = ch.key.ns,
                              .ns_len = ch.key.ns_len,
                              .key = ch.key.key,
                              .key_len = ch.key.key_len};

        if (ch.del)
            rc = store_round_del(c->store, &k, e);
        else
            rc = store_round_put(c->store, &k, ch.value, ch.value_len, e);
    }
    r->puts += p->snap->puts;
    r->dels += p->snap->dels;
    r->bytes += snapshot_bytes(p->snap);
    return rc;
}

static int
put_blob(struct ckpt *c, const char *name, const struct buf *b, struct err *e)
{
    return b->len == 0 ? 0
                       : store_round_blob(c->store, name, b->data, b->len, e);
}

/* The state of a finished run, of which nothing is taken. */
static int
drop_all(struct ckpt *c, struct err *e)
{
    struct store_reader *r = NULL;
    uint32_t *ops = NULL;
    size_t i, n = 0;
    int rc = store_reader_new(c->store, &r, e);

    if (rc == 0)
        rc = store_reader_begin(r, STORE_VIEW_COMPLETE, e);
    if (rc == 0) {
        n = store_reader_operator_count(r);
        ops = mem_zalloc((n + 1) * sizeof *ops);
        for (i = 0; i < n; i++) {
            struct store_operator o;

            store_reader_operator(r, i, &o);
            ops[i] = o.op;
        }
        store_reader_end(r); /* before the thread that writes goes on */
    }
    store_reader_free(&r);
    for (i = 0; i < n && rc == 0; i++)
        rc = store_round_drop(c->store, ops[i], e);
    free(ops);
    return rc;
}

static int
drop_steps(struct ckpt *c, const struct ckpt_round *r, struct err *e)
{
    uint32_t i, op;
    int rc = r->drop_all ? drop_all(c, e) : 0;

    for (i = 0; i < r->dropped_count && rc == 0; i++) {
        rc = store_round_operator(c->store, r->dropped[i],
                                  strlen(r->dropped[i]), &op, e);
        if (rc == 0)
            rc = store_round_drop(c->store, op, e);
    }
    return rc;
}

static int
gather(struct ckpt *c, struct ckpt_round *r, struct err *e)
{
    const char *target = r->target;
    uint32_t i;
    int rc = store_round_begin(c->store, r->round, e);

    if (rc == 0)
        rc = drop_steps(c, r, e);
    for (i = 0; i < r->part_count && rc == 0; i++)
        rc = put_part(c, r, &r->parts[i], e);
    if (rc == 0)
        rc = put_blob(c, "steps", &r->steps, e);
    if (rc == 0)
        rc = put_blob(c, "plan", &r->plan, e);
    if (rc == 0)
        rc = put_blob(c, "code", &r->code, e);
    if (rc == 0)
        rc = put_blob(c, "meta", &r->meta, e);
    if (rc == 0)
        rc = put_blob(c, "reloads", &r->reloads, e);
    if (rc == 0)
        rc = store_round_blob(c->store, "owner", r->owner, strlen(r->owner), e);
    if (rc == 0)
        rc = store_round_blob(c->store, "finished", r->finished ? "1" : "0", 1,
                              e);
    if (rc == 0)
        rc = store_round_blob(c->store, "txn", target,
                              target != NULL ? strlen(target) : 0, e);
    if (rc != 0)
        store_round_cancel(c->store);
    return rc;
}

static bool
is_stopping(struct ckpt *c)
{
    bool stop;

    (void)pthread_mutex_lock(&c->lock);
    stop = c->stop;
    (void)pthread_mutex_unlock(&c->lock);
    return stop;
}

static void
pause_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

/* A full disk or a busy one is waited for, up to a deadline: nothing is
 * committed meanwhile, and nothing is lost. */
static int
again(struct ckpt *c, const struct err *e, int64_t deadline_ms, bool *told)
{
    if ((e->flags & ERR_RETRIABLE) == 0 || (e->flags & ERR_FATAL) != 0 ||
        clock_mono_ms() >= deadline_ms || is_stopping(c))
        return 0;
    if (!*told)
        log_line(LOG_WARN, "checkpoint: %s; trying again", e->msg);
    *told = true;
    pause_ms(WRITE_RETRY_MS);
    return 1;
}

/* Whether something outside the store says which round is committed. */
static bool
is_decided_outside(const struct ckpt *c)
{
    return c->txn != NULL || c->commit != NULL;
}

static int
write_redo(struct ckpt *c, const struct ckpt_round *r, struct err *e)
{
    int64_t deadline = clock_mono_ms() + WRITE_DEADLINE_MS;
    unsigned flags = is_decided_outside(c) ? 0u : STORE_COMPLETE;
    bool told = false;
    int rc;

    if (!is_decided_outside(c) && r->finished)
        flags |= STORE_FINISHED;
    do
        rc = store_round_write(c->store, flags, e);
    while (rc != 0 && again(c, e, deadline, &told));
    if (rc != 0)
        store_round_cancel(c->store);
    return rc;
}

static int
complete_redo(struct ckpt *c, const struct ckpt_round *r, struct err *e)
{
    int64_t deadline = clock_mono_ms() + WRITE_DEADLINE_MS;
    unsigned flags = r->finished ? STORE_FINISHED : 0u;
    bool told = false;
    int rc;

    do
        rc = store_round_complete(c->store, r->round, flags, e);
    while (rc != 0 && again(c, e, deadline, &told));
    return rc;
}

static int
commit(struct ckpt *c, const struct ckpt_round *r, struct err *e)
{
    struct txn_marker m = {
        .found = true, .round = r->round, .code = r->code_id};

    if (c->commit != NULL)
        return c->commit(c->arg, r->round, e);
    memcpy(m.lineage, c->lineage, sizeof m.lineage);
    return txn_commit(c->txn, &m, e);
}

static int
do_round(struct ckpt *c, struct ckpt_round *r, struct err *e)
{
    int64_t t0 = clock_mono_ns(), t1, t2, t3;
    int rc;

    (void)fault_hit("ckpt_prepare");
    rc = c->prepare(c->arg, e);
    t1 = clock_mono_ns();
    r->prepare_ns = t1 - t0;
    if (rc == 0)
        rc = gather(c, r, e);
    if (rc == 0)
        rc = write_redo(c, r, e);
    if (rc != 0)
        return err_context(e, "checkpoint %llu", (unsigned long long)r->round);
    atomic_store(c->durable, r->round);
    t2 = clock_mono_ns();
    r->write_ns = t2 - t1;
    if (!is_decided_outside(c))
        return 0;
    rc = commit(c, r, e);
    t3 = clock_mono_ns();
    r->commit_ns = t3 - t2;
    if (rc == 0)
        rc = complete_redo(c, r, e);
    r->complete_ns = clock_mono_ns() - t3;
    c->renew = rc == 0 && !r->last && c->txn != NULL ? r->round : 0;
    return rc;
}

/* ---------------------------------------------------------- the thread */

static void
round_is_done(struct ckpt *c, int rc, const struct err *e)
{
    (void)pthread_mutex_lock(&c->lock);
    c->order = NULL;
    c->round_done = true;
    c->round_err = *e;
    c->round_err.code = rc;
    (void)pthread_mutex_unlock(&c->lock);
    c->wake(c->arg);
}

static void
failed_between(struct ckpt *c, const struct err *e)
{
    (void)pthread_mutex_lock(&c->lock);
    if (c->late_err.code == 0)
        c->late_err = *e;
    (void)pthread_mutex_unlock(&c->lock);
    c->wake(c->arg);
}

struct copying {
    struct store_copy *copy;
    const char *dir;
};

static void
end_copy(struct ckpt *c, struct copying *cp, int rc, const struct err *e)
{
    store_copy_free(&cp->copy);
    cp->dir = NULL;
    (void)pthread_mutex_lock(&c->lock);
    free(c->copy_to);
    c->copy_to = NULL;
    c->copy_done = true;
    c->copy_err = *e;
    c->copy_err.code = rc;
    (void)pthread_mutex_unlock(&c->lock);
    c->wake(c->arg);
}

static void
copy_piece(struct ckpt *c, struct copying *cp)
{
    struct err e;
    int rc = 0;

    err_clear(&e);
    if (cp->copy == NULL)
        rc = store_copy_begin(c->store, cp->dir, NULL, &cp->copy, &e);
    if (rc == 0)
        rc = store_copy_step(cp->copy, COPY_ENTRIES, &e);
    if (rc <= 0)
        end_copy(c, cp, rc, &e);
}

/* A merge loses nothing by failing: after the next round it is tried again,
 * and a disk that is full then is that round's to wait for. */
static int
merge_piece(struct ckpt *c, struct err *e)
{
    int64_t n = c->merge_bytes / PAGE_BYTES; /* each entry in its own page */
    size_t max = MERGE_ENTRIES;
    int rc;

    if (c->merge_bytes > 0 && n < MERGE_ENTRIES)
        max = n > MERGE_LEAST ? (size_t)n : MERGE_LEAST;
    rc = store_merge(c->store, max, e);

    c->merging = rc == 1;
    if (rc >= 0 || (e->flags & ERR_RETRIABLE) == 0)
        return rc;
    log_line(LOG_WARN, "checkpoint: %s; trying again after the next one",
             e->msg);
    return 0;
}

/* A handle that cannot be renewed, a store that is broken: the job hears. */
static void
do_between(struct ckpt *c)
{
    struct err e;
    int rc = 0;

    err_clear(&e);
    if (c->renew != 0) {
        rc = txn_renew(c->txn, c->renew, &e);
        c->renew = 0;
    } else if (c->merging) {
        rc = merge_piece(c, &e);
    }
    if (rc < 0)
        failed_between(c, &e);
}

/* Wait for an order. @return false at the end. */
static bool
next_order(struct ckpt *c, struct copying *cp, struct ckpt_round **ret)
{
    bool stop;

    (void)pthread_mutex_lock(&c->lock);
    while (!c->stop && c->order == NULL && c->copy_to == NULL &&
           c->renew == 0 && !c->merging)
        (void)pthread_cond_wait(&c->more, &c->lock);
    stop = c->stop;
    *ret = c->order;
    cp->dir = c->copy_to;
    (void)pthread_mutex_unlock(&c->lock);
    return !stop;
}

static void *
ckpt_main(void *arg)
{
    struct ckpt *c = arg;
    struct ckpt_round *r = NULL;
    struct copying cp = {NULL, NULL};
    struct err e;

    (void)pthread_setname_np(pthread_self(), "checkpoint");
    while (next_order(c, &cp, &r)) {
        int rc;

        if (c->renew != 0) { /* before the next round commits */
            do_between(c);
        } else if (r != NULL) {
            err_clear(&e);
            rc = do_round(c, r, &e);
            c->merging = rc == 0;
            round_is_done(c, rc, &e);
        } else if (cp.dir != NULL) {
            copy_piece(c, &cp);
        } else {
            do_between(c);
        }
    }
    store_copy_free(&cp.copy);
    return NULL;
}

int
ckpt_start(struct ckpt *c, struct err *e)
{
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->more, NULL);
    c->order = NULL;
    c->copy_to = NULL;
    c->stop = c->round_done = c->copy_done = false;
    c->renew = 0;
    c->merging = true; /* what an earlier process left */
    err_clear(&c->late_err);
    c->started = pthread_create(&c->thread, NULL, ckpt_main, c) == 0;
    if (!c->started)
        return err_set(e, ERR_INTERNAL, "cannot start a thread");
    return 0;
}

static void
ask_to_stop(struct ckpt *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->stop = true;
    (void)pthread_cond_signal(&c->more);
    (void)pthread_mutex_unlock(&c->lock);
}

static void
joined(struct ckpt *c)
{
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->more);
    free(c->copy_to);
    c->copy_to = NULL;
    c->started = false;
}

bool
ckpt_end(struct ckpt *c, int64_t wait_ms)
{
    struct timespec until;

    if (!c->started)
        return true;
    ask_to_stop(c);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += wait_ms % 1000 * 1000000;
    until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(c->thread, NULL, &until) != 0)
        return false;
    joined(c);
    return true;
}

void
ckpt_stop(struct ckpt *c)
{
    if (!c->started)
        return;
    ask_to_stop(c);
    (void)pthread_join(c->thread, NULL);
    joined(c);
}

void
ckpt_give(struct ckpt *c, struct ckpt_round *r)
{
    (void)pthread_mutex_lock(&c->lock);
    c->order = r;
    (void)pthread_cond_signal(&c->more);
    (void)pthread_mutex_unlock(&c->lock);
}

void
ckpt_copy(struct ckpt *c, const char *dir)
{
    (void)pthread_mutex_lock(&c->lock);
    c->copy_to = mem_strdup(dir);
    (void)pthread_cond_signal(&c->more);
    (void)pthread_mutex_unlock(&c->lock);
}

bool
ckpt_take_round(struct ckpt *c, struct err *ret_err)
{
    bool done;

    (void)pthread_mutex_lock(&c->lock);
    done = c->round_done;
    c->round_done = false;
    if (done)
        *ret_err = c->round_err;
    (void)pthread_mutex_unlock(&c->lock);
    return done;
}

bool
ckpt_take_copy(struct ckpt *c, struct err *ret_err)
{
    bool done;

    (void)pthread_mutex_lock(&c->lock);
    done = c->copy_done;
    c->copy_done = false;
    if (done)
        *ret_err = c->copy_err;
    (void)pthread_mutex_unlock(&c->lock);
    return done;
}

int
ckpt_late(struct ckpt *c, struct err *ret_err)
{
    int code;

    (void)pthread_mutex_lock(&c->lock);
    code = c->late_err.code;
    if (code != 0)
        *ret_err = c->late_err;
    c->late_err.code = 0;
    (void)pthread_mutex_unlock(&c->lock);
    return code;
}
