/*
 * global_aggregate and aggregate: window state, firing, result rows.
 *
 * Two phases: partials are merged as they come. One phase: records arrive
 * behind a hash exchange with their key and verdict. Rows of a firing window
 * are emitted in pieces; the mark that caused them is held until the last.
 *
 * A count window (one phase, core/panes.h) gives its row with the record that
 * fills it. Keys without window give theirs as late rows are given.
 *
 * Rounds: at a barrier late rows go out, then what changed is frozen, and the
 * mark goes on at once; the frozen part is encoded in pieces between messages
 * (global_save) and given when it is whole. At the end of input nothing
 * follows, so the pieces are saved before the mark goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "core/agg_records.h"
#include "core/panes.h"
#include "core/winstate.h"
#include "op/agg_rows.h"
#include "op/key_eval.h"
#include "op/op_state.h"

enum {
    AHEAD = 16,
    SAVE_STEP = 64,        /* entries between two looks at the clock */
    SAVE_NS = 1000 * 1000, /* of one piece */
    FULL_WAIT_MS = 5,      /* between two looks whether memory has room */
    EXPIRE_PIECE = 4096,
    TRAVEL_MS = 60 * 1000, /* of a partial, at most: latency and full lanes */
};

/* A watermark that fires no global window. */
#define WM_UPDATING (WM_MAX - 2)

struct op_global {
    struct op op;
    struct agg_args args; /* two phases: only its set is used */
    struct key_eval keys; /* one phase without an exchange */
    struct window_spec window;
    struct window_spec slices; /* of the partials */
    void *scratch;             /* a block */
    struct aggset *panes;      /* count window: what the state holds, or NULL */
    struct winstate *state;
    struct agg_rows *rows;
    struct batch late;
    struct mark held; /* forwarded when the rows are out */
    bool has_held, own_keys;
    const char *late_output; /* NULL: late records are dropped */
    bool held_frozen;        /* what the held mark's round keeps is set apart */
    struct op_state *store;  /* NULL: nothing is ever kept */
    struct snapshot *snap;   /* while saving */
    bool full;               /* memory is, until the last round is durable */
    int64_t latency_ms, late_since_ms; /* of re-fired rows */
    int64_t wm;                        /* reached */
};

static void
enter_script(const struct op *op)
{
    if (op->env->script != NULL)
        script_set_step(op->env->script, op->step->name);
}

static void
note_keys(struct op_global *g)
{
    atomic_store_explicit(&g->op.count->keys, winstate_keys(g->state),
                          memory_order_relaxed);
    atomic_store_explicit(&g->op.count->state_bytes, winstate_bytes(g->state),
                          memory_order_relaxed);
}

/* The end of a call: no reader stays open, memory keeps its bound. */
static int
leave(struct op_global *g, int r)
{
    if (g->store == NULL)
        return r;
    op_state_leave(g->store);
    if (r >= 0 && !g->op.pending)
        g->full = !op_state_room(g->store);
    return r;
}

static int
global_save(struct op *op, struct err *e)
{
    struct op_global *g = (struct op_global *)(void *)op;
    int64_t until = clock_mono_ns() + SAVE_NS;
    bool more;

    (void)e;
    enter_script(op);
    do
        more = winstate_save(g->state, SAVE_STEP);
    while (more && clock_mono_ns() < until);
    if (more)
        return 0;
    op->saving = false;
    op_give(op, &g->snap);
    return 0;
}

/* Set apart what the round of the held mark keeps. */
static void
freeze(struct op_global *g)
{
    uint64_t round =
        g->held.kind == MARK_BARRIER ? g->held.round : SNAPSHOT_END;
    int64_t began = clock_mono_ns();
    struct snapshot *s;

    g->held_frozen = true;
    if (!op_job_keeps(g->op.env->job)) {
        s = snapshot_new(round);
        winstate_put(g->state, &s->blob);
        op_give(&g->op, &s);
        return;
    }
    s = winstate_freeze(g->state, round);
    winstate_put(g->state, &s->blob);
    s->pause_ns = clock_mono_ns() - began;
    g->snap = s;
    g->op.saving = true;
}

/* What the held mark waits for beside rows. @return 1 more, 0, < 0. */
static int
save_held(struct op_global *g, struct err *e)
{
    int r;

    if (g->held.kind != MARK_BARRIER && g->held.kind != MARK_END)
        return 0;
    if (!g->held_frozen) {
        if (g->op.saving) { /* the round before is not whole yet */
            r = global_save(&g->op, e);
            return r != 0 ? r : 1;
        }
        freeze(g);
    }
    if (g->held.kind == MARK_BARRIER || !g->op.saving)
        return 0;
    r = global_save(&g->op, e);
    return r != 0 ? r : g->op.saving;
}

/* At the end of input: the windows of a key that are not full. */
static int
take_open(void *arg, const struct winrow *row, struct err *e)
{
    struct op_global *g = arg;

    (void)e;
    count_add(&g->op.count->incomplete, panes_open(g->panes, row->block));
    return 0;
}

/* Let windows fire, up to about OP_ROWS_MAX rows. @return as winstate_fire() */
static int
fire(struct op_global *g, struct err *e)
{
    uint32_t piece = agg_rows_piece(g->rows), before;
    int more;

    if (g->panes != NULL)
        return winstate_fire(g->state, OP_ROWS_MAX, take_open, g, e);
    do {
        before = agg_rows_count(g->rows);
        more = winstate_fire(g->state, piece, agg_rows_take, g->rows, e);
    } while (more == 1 && agg_rows_count(g->rows) != before &&
             agg_rows_count(g->rows) < OP_ROWS_MAX);
    return more;
}

static int
resume(struct op_global *g, struct err *e)
{
    struct op *op = &g->op;
    int more = fire(g, e), r;

    if (more < 0)
        return more;
    r = agg_rows_emit(g->rows, e);
    if (r != 0 || more == 1)
        return r != 0 ? r : 1;
    if (!winstate_has_late(g->state))
        g->late_since_ms = -1;
    note_keys(g);
    r = g->has_held ? save_held(g, e) : 0;
    if (r != 0)
        return r;
    op->pending = false;
    if (!g->has_held)
        return 0;
    g->has_held = false;
    return op_forward(op, &g->held, e);
}

static int
global_resume(struct op *op, struct err *e)
{
    struct op_global *g = (struct op_global *)(void *)op;

    enter_script(op);
    return leave(g, resume(g, e));
}

static int
global_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_global *g = (struct op_global *)(void *)op;

    (void)e;
    if (m->kind == MARK_PART)
        return 0;
    if (m->kind == MARK_WATERMARK) {
        /* Keys without window do not end with their input. */
        winstate_advance(g->state, g->window.updating && m->wm > WM_UPDATING
                                       ? WM_UPDATING
                                       : m->wm);
        agg_rows_times(g->rows, m->wm);
        g->wm = m->wm;
        atomic_store_explicit(&op->count->watermark, m->wm,
                              memory_order_relaxed);
    } else {
        winstate_flush_late(g->state);
    }
    g->held = *m;
    g->has_held = true;
    g->held_frozen = false;
    op->pending = true;
    return 0;
}

static void
note_late(struct op_global *g)
{
    if ((g->window.lateness > 0 || g->window.updating) &&
        g->late_since_ms < 0 && winstate_has_late(g->state))
        g->late_since_ms = g->op.env->now_ms;
}

/* Merge a partial into each of its whole windows. @return as the state's, 1
 * if all are purged; < 0 if its accumulators cannot be copied. */
static int
merge_whole(struct op_global *g, struct partial *p, struct err *e)
{
    int64_t at = window_first(&g->slices, p->slice);
    int64_t last = window_last(&g->slices, p->slice);
    int late = 1, r;

    if (p->first != WINDOW_FIRST_ALL && p->first > at)
        at = p->first;
    for (; at < last; at += g->window.slide) {
        struct partial one = *p;

        one.slice = at;
        one.first = WINDOW_FIRST_ALL;
        r = aggset_dup(g->args.set, p->block, g->scratch, e);
        if (r != 0)
            return r;
        one.block = g->scratch;
        r = winstate_merge(g->state, &one, e);
        if (r < 0)
            return r;
        if (r == 0)
            late = 0;
    }
    p->slice = last;
    p->first = WINDOW_FIRST_ALL;
    r = winstate_merge(g->state, p, e);
    return r == 1 ? late : r;
}

static int
global_partials(struct op *op, struct partials **pp, struct err *e)
{
    struct op_global *g = (struct op_global *)(void *)op;
    struct partials *p = *pp;
    uint32_t i;
    int r = 0;

    *pp = NULL;
    for (i = 0; i < p->n && r == 0; i++) {
        struct partial *item = &p->items[i];

        if (i % AHEAD == 0) {
            uint32_t j, end = i + AHEAD < p->n ? i + AHEAD : p->n;

            for (j = i; j < end; j++)
                winstate_prefetch(g->state, &p->items[j], false);
            for (j = i; j < end; j++)
                winstate_prefetch(g->state, &p->items[j], true);
        }
        r = partials_decode(p, g->args.set, item, e);
        if (r != 0) {
            r = op_fail(op, NULL, e);
            continue;
        }
        r = g->window.whole ? merge_whole(g, item, e)
                            : winstate_merge(g->state, item, e);
        if (r < 0) {
            r = op_fail(op, NULL, e);
            continue;
        }
        if (r == 1) {
            r = 0;
            count_add(&op->count->late, item->count);
            count_add_shared(&op->count->dropped[CAUSE_LATE], item->count);
        }
    }
    partials_free(&p, g->args.set);
    note_late(g);
    return leave(g, r);
}

static int
late_record(struct op_global *g, const struct rec *r)
{
    count_add(&g->op.count->late, 1);
    if (g->late_output != NULL)
        (void)batch_add_ref(&g->late, r);
    else
        count_add_shared(&g->op.count->dropped[CAUSE_LATE], 1);
    return 0;
}

/* Add the loaded record to one entry; *ret_bad is the record's failure.
 * @return 1, 0 if the entry takes no records any more, or the store's error. */
static int
add_entry(struct op_global *g, const struct rec *r, const struct partial *head,
          int *ret_bad, struct err *e)
{
    struct table_entry *t;
    int rc = winstate_upsert(g->state, head, &t, e);

    if (rc != 0 || t == NULL)
        return rc;
    if (g->window.updating)
        winstate_renew(g->state, t, g->args.ts);
    *ret_bad = agg_args_put(&g->args, r, t->block, e);
    if (*ret_bad == 0)
        t->count += t->count != UINT32_MAX;
    return 1;
}

/* Windows that are kept whole: one entry a window, but one failure a record;
 * a record that the first window refuses is in none. */
static int
add_whole(struct op_global *g, const struct rec *r,
          const struct window_place *place, struct partial *head, struct err *e)
{
    bool added = false, taken = false;
    int failed = 0;
    struct err why;

    head->first = WINDOW_FIRST_ALL;
    for (; head->slice <= place->last && (failed == 0 || added);
         head->slice += g->window.slide) {
        int bad = 0, rc = add_entry(g, r, head, &bad, e);

        if (rc < 0)
            return op_fail(&g->op, r, e);
        if (rc == 0)
            continue;
        taken = true;
        added = added || bad == 0;
        if (bad != 0) {
            failed = bad;
            why = *e;
        }
    }
    if (!taken)
        return late_record(g, r);
    if (failed == 0)
        return 0;
    *e = why;
    return op_fail(&g->op, r, e);
}

struct adding {
    struct op_global *g;
    const struct rec *r;
};

static int
add_loaded(void *arg, void *block, struct err *e)
{
    const struct adding *a = arg;

    return agg_args_put(&a->g->args, a->r, block, e);
}

/* Add the loaded record to the count windows of its key. */
static int
add_counted(struct op_global *g, const struct rec *r,
            const struct partial *head, struct err *e)
{
    struct adding a = {.g = g, .r = r};
    struct winrow row = {
        .key = head->key, .key_len = head->key_len, .end = r->ts + 1};
    struct table_entry *t;
    void *full = NULL;
    int rc = winstate_upsert(g->state, head, &t, e);

    if (rc == 0 && t == NULL)
        return late_record(g, r);
    if (rc == 0) {
        rc = panes_add(g->panes, t->block, add_loaded, &a, &full, e);
        t->count = panes_records(t->block) > 0;
    }
    if (rc != 0)
        return op_fail(&g->op, r, e);
    row.block = full;
    return full != NULL ? agg_rows_take(g->rows, &row, e) : 0;
}

static int
add_record(struct op_global *g, const struct rec *r, const struct rec_key *key,
           struct err *e)
{
    struct partial head = {
        .hash = key->hash, .key = key->bytes, .key_len = key->len};
    struct window_place place;
    int bad, rc;

    window_place(&g->window, r->ts, r->wm, &place);
    if (place.late)
        return late_record(g, r);
    if (place.missed != 0)
        count_add(&g->op.count->late_windows, place.missed);
    bad = agg_args_load(&g->args, r, e);
    if (bad != 0)
        return op_fail(&g->op, r, e);
    head.slice = place.slice;
    head.first = place.first;
    if (g->panes != NULL)
        return add_counted(g, r, &head, e);
    if (g->window.whole)
        return add_whole(g, r, &place, &head, e);
    rc = add_entry(g, r, &head, &bad, e);
    if (rc == 0)
        return late_record(g, r);
    return rc < 0 || bad != 0 ? op_fail(&g->op, r, e) : 0;
}

/* Input that is distributed by the key already: the key is made here. */
static int
own_key(struct op_global *g, const struct rec *r, struct rec_key *ret,
        struct err *e)
{
    int rc;

    key_eval_reset(&g->keys);
    rc = key_eval_put(&g->keys, r, e);
    if (rc != 0) {
        rc = key_eval_failed(&g->keys, r, e);
        return rc != 0 ? rc : 1;
    }
    ret->bytes = g->keys.buf.data;
    ret->len = (uint32_t)g->keys.buf.len;
    ret->hash = hash_key(ret->bytes, ret->len);
    return 0;
}

static int
add_batch(struct op_global *g, struct batch *b, struct err *e)
{
    struct op *op = &g->op;
    uint32_t i;
    int r;

    if (b->keys == NULL)
        count_add(&op->count->records_in, b->n);
    reader_load(op->reader, b);
    for (i = 0; i < b->n; i++) {
        struct rec_key key;

        r = 0;
        if (b->keys != NULL)
            key = b->keys[i];
        else
            r = own_key(g, &b->recs[i], &key, e);
        if (r == 0)
            r = add_record(g, &b->recs[i], &key, e);
        if (r < 0)
            return r;
    }
    arena_reset(&g->args.arena);
    note_late(g);
    if (g->panes != NULL && (r = agg_rows_emit(g->rows, e)) != 0)
        return r;
    if (g->late.n == 0)
        return 0;
    r = op_emit_side(op, g->late_output, &g->late, e);
    batch_clear(&g->late);
    return r;
}

static int
global_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_global *g = (struct op_global *)(void *)op;

    enter_script(op);
    return leave(g, add_batch(g, b, e));
}

/*
 * Keys without window end by ttl. A local phase may still hold changes of a
 * key that look too old here: by the watermark up to half a ttl, which it sees
 * to; by the wall clock as long as a partial travels. Those are waited for.
 * @return as winstate_expire()
 */
static int
expire(struct op_global *g, struct err *e)
{
    bool by_event = g->op.step->event_time;
    int64_t now = by_event ? g->wm : clock_wall_ms() - TRAVEL_MS;

    if (g->window.ttl < 0 || now == WM_NONE || now == WM_MAX)
        return 0;
    now -= g->window.ttl / 2;
    enter_script(&g->op);
    return leave(
        g, winstate_expire(g->state, now, g->op.env->now_ms, EXPIRE_PIECE, e));
}

static int
global_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_global *g = (struct op_global *)(void *)op;
    int64_t left;
    int r;

    (void)idle;
    if (g->store != NULL) {
        enter_script(op);
        r = leave(g, op_state_sweep(g->store, e));
        if (r < 0)
            return r;
        if ((r == 1 || g->full) && *ret_wait > FULL_WAIT_MS)
            *ret_wait = FULL_WAIT_MS;
    }
    r = expire(g, e);
    if (r < 0)
        return r;
    if (r == 1)
        *ret_wait = 0;
    if (g->late_since_ms < 0)
        return 0;
    left = g->late_since_ms + g->latency_ms - op->env->now_ms;
    if (left <= 0) {
        winstate_flush_late(g->state);
        op->pending = true;
        left = 0;
    }
    if (left < *ret_wait)
        *ret_wait = left;
    return 0;
}

/* What the restored round has passes through migrate, and nothing else. */
static void
let_migrate(struct op_global *g, bool on)
{
    const struct aggset *set = g->args.set;
    const bool *due = g->op.step->migrates;
    uint32_t i;

    for (i = 0; due != NULL && i < set->count; i++)
        if (due[i])
            script_agg_migrate(&set->aggs[i], on);
}

static int
global_restore(struct op *op, struct err *e)
{
    struct op_global *g = (struct op_global *)(void *)op;
    int r;

    if (g->store == NULL)
        return 0;
    enter_script(op);
    let_migrate(g, true);
    r = op_state_restore(g->store, e);
    let_migrate(g, false);
    note_keys(g);
    return r;
}

/* Whether memory has room for more; see op_state.h. */
static bool
global_ready(struct op *op)
{
    struct op_global *g = (struct op_global *)(void *)op;

    if (!g->full)
        return true;
    enter_script(op);
    g->full = !op_state_room(g->store);
    return !g->full;
}

static void
global_free(struct op *op)
{
    struct op_global *g = (struct op_global *)(void *)op;

    snapshot_free(&g->snap);
    op_state_free(&g->store);
    winstate_free(&g->state);
    aggset_free(&g->panes);
    free(g->scratch);
    agg_rows_free(&g->rows);
    batch_fini(&g->late);
    if (g->own_keys)
        key_eval_fini(&g->keys);
    agg_args_fini(&g->args);
}

static int
global_init(struct op_global *g, struct err *e)
{
    const struct opt *job = opt_get(g->op.env->plan->job, "options");
    const struct opt *win = opt_get(g->op.step->opts, "window");
    int r;

    window_spec_init(&g->window, g->op.step->opts);
    g->slices = g->window;
    window_spec_use_slices(&g->slices);
    g->latency_ms =
        opt_int(opt_get(job, "mini_batch"), "allow_latency_ms", 1000);
    if (g->window.updating && g->op.step->kind == STEP_GLOBAL)
        g->latency_ms -= g->latency_ms / 2; /* the local phase has the rest */
    g->late_since_ms = -1;
    g->wm = WM_NONE;
    g->late_output = opt_str(g->op.step->opts, "late_output", NULL);
    batch_init(&g->late);
    r = agg_args_init(&g->args, &g->op, e);
    if (r == 0 && g->op.step->kind == STEP_AGGREGATE) {
        g->own_keys = true;
        r = key_eval_init(&g->keys, &g->op, g->op.step, e);
    }
    if (r != 0)
        return r;
    if (g->op.env->job->cache_bytes > 0)
        agg_records_bound(g->args.set, g->op.env->job->cache_bytes / 2);
    if (!g->args.set->mergeable)
        window_spec_keep_whole(&g->window);
    if (opt_is(win, "kind", "count"))
        g->panes = panes_new(g->args.set, (uint64_t)opt_int(win, "size", 1),
                             (uint64_t)opt_int(win, "slide", 1));
    g->state =
        winstate_new(&g->window, g->panes != NULL ? g->panes : g->args.set);
    if (op_job_tracks(g->op.env->job))
        g->store = op_state_new(&g->op, g->state);
    g->scratch = mem_alloc(g->args.set->size);
    return agg_rows_new(&g->op, &g->args, &g->rows, e);
}

int
op_global_new(struct op_env *env, const struct plan_step *s,
              struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = global_batch,
                                        .partials = global_partials,
                                        .mark = global_mark,
                                        .resume = global_resume,
                                        .tick = global_tick,
                                        .ready = global_ready,
                                        .restore = global_restore,
                                        .save = global_save,
                                        .free = global_free};
    struct op_global *g = mem_zalloc(sizeof *g);
    int r;

    op_init(&g->op, &type, env, s);
    g->op.reader = reader;
    r = global_init(g, e);
    *ret = &g->op;
    if (r != 0)
        op_free(ret);
    return r;
}
