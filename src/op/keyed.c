#include "op/keyed.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/blob.h"
#include "op/op_migrate.h"
#include "op/op_state.h"

enum {
    AHEAD = 16,
    SAVE_STEP = 64,       /* entries between two looks at the clock */
    SAVE_NS = 500 * 1000, /* of one piece */
    CLEAN_PIECE = 1024,
    TRIM_PIECE = 4096,
    CLEAN_WAIT_MS = 5, /* between two pieces */
};

/* ---- making it ---- */

static const struct step_blobs *
past_blobs(const struct keyed *k)
{
    const struct step_blobs *b =
        restored_find(k->op->env->job->restored, k->op->step->name);

    return b != NULL && b->count > 0 ? b : NULL;
}

static int
read_blob(const struct step_blobs *b, uint32_t i, struct kstate_blob *ret,
          int64_t *ret_wm, struct err *e)
{
    struct blob_reader r = blob_read(&b->blobs[i]);
    int rc = kstate_blob_read(&r, ret, e);

    if (rc == 0) {
        *ret_wm = (int64_t)blob_get(&r, 8);
        if (!blob_done(&r))
            rc = err_set(e, ERR_IO, "damaged: no keyed state of a function");
    }
    return rc == 0 ? 0 : err_context(e, "'%s', subtask %u", b->step, i);
}

/* Handles keep the numbers they have in the store. */
static int
number(struct keyed *k, struct err *e)
{
    const struct step_blobs *b = past_blobs(k);
    struct kstate_blob past = {0};
    int64_t wm;
    int r = b != NULL ? read_blob(b, 0, &past, &wm, e) : 0;

    if (r == 0)
        r = kstate_number(k->handles, k->count, b != NULL ? &past : NULL, e);
    kstate_blob_fini(&past);
    return r;
}

/* Changes are tracked, and memory is bounded if it has a share. */
static void
tie(struct keyed *k)
{
    const struct op_env *env = k->op->env;

    kstate_track(k->state, env->plan->max_parallelism);
    op_store_init(&k->store, k->op);
    if (env->job->cache_bytes > 0 &&
        k->store.groups.first <= k->store.groups.last) {
        const struct entry_store face = op_store_face(&k->store);

        kstate_cache(k->state, env->job->cache_bytes, &face);
    }
}

int
keyed_init(struct keyed *k, struct op *op, struct kstate_handle *handles,
           uint32_t count, struct err *e)
{
    int r;

    k->op = op;
    k->handles = handles;
    k->count = count;
    k->wm = WM_NONE;
    r = number(k, e);
    if (r == 0)
        r = key_eval_init(&k->keys, op, op->step, e);
    if (r != 0)
        return r;
    k->state = kstate_new(handles, count);
    k->uses_event = kstate_uses(k->state, KSTATE_EVENT);
    k->uses_processing = kstate_uses(k->state, KSTATE_PROCESSING);
    if (op_job_tracks(op->env->job))
        tie(k);
    return 0;
}

void
keyed_fini(struct keyed *k)
{
    snapshot_free(&k->snap);
    op_store_fini(&k->store);
    if (k->keys.op != NULL)
        key_eval_fini(&k->keys);
    kstate_free(&k->state);
    free(k->handles);
    k->handles = NULL;
}

/* ---- restoring ---- */

static int
load_all(struct keyed *k, struct op_migrate *m, struct store_scan *c,
         struct err *e)
{
    for (;;) {
        struct kstate_entry v;
        struct store_key key;
        const void *value;
        size_t len;
        int r = store_scan_next(c, &key, &value, &len, e);

        if (r <= 0)
            return r;
        if (key.ns_len != KSTATE_NS_SIZE)
            return err_set(e, ERR_IO,
                           "state of '%s', key group %u: this is no state of "
                           "a function",
                           k->op->step->name, key.group);
        v = (struct kstate_entry){.group = key.group,
                                  .ns = key.ns,
                                  .key = key.key,
                                  .key_len = (uint32_t)key.key_len,
                                  .value = value,
                                  .value_len = len};
        r = op_migrate_entry(m, &v, e);
        if (r == 0)
            r = kstate_load(k->state, &v, e);
        if (r != 0)
            return e->cause != CAUSE_NONE || r == ERR_JOBFILE
                       ? r
                       : err_context(e, "state of '%s', key group %u",
                                     k->op->step->name, key.group);
    }
}

static int
load_entries(struct keyed *k, struct store_scan *c, struct err *e)
{
    struct op_migrate m = {
        .op = k->op, .handles = k->handles, .count = k->count};
    int r;

    buf_init(&m.bytes);
    r = load_all(k, &m, c, e);
    buf_fini(&m.bytes);
    return r;
}

static int
load(struct keyed *k, const struct op_groups *g, struct err *e)
{
    const char *name = k->op->step->name;
    struct store_reader *reader = NULL;
    struct store_scan *c = NULL;
    uint32_t id;
    int r = store_reader_new(k->op->env->job->store, &reader, e);

    if (r != 0)
        return r;
    r = store_reader_begin(reader, STORE_VIEW_COMPLETE, e);
    if (r == 0) {
        if (store_reader_find(reader, name, strlen(name), &id)) {
            r = store_scan_open(reader, id, (uint16_t)g->first,
                                (uint16_t)g->last, &c, e);
            if (r == 0)
                r = load_entries(k, c, e);
            store_scan_close(&c);
        }
        store_reader_end(reader);
    }
    store_reader_free(&reader);
    return r;
}

int
keyed_restore(struct keyed *k, struct err *e)
{
    const struct op_job *job = k->op->env->job;
    uint32_t max = k->op->env->plan->max_parallelism, i, last;
    const struct step_blobs *b = past_blobs(k);
    struct op_groups g =
        op_state_groups(k->op->env->subtask, k->op->step->parallelism, max);
    int r = 0;

    if (job->store == NULL || b == NULL || g.first > g.last)
        return 0;
    if (job->restored->max_parallelism != max)
        return err_set(e, ERR_CONFIG,
                       "max_parallelism is %u, and the state was kept with "
                       "%u",
                       max, job->restored->max_parallelism);
    last = key_group_subtask(g.last, b->count, max);
    k->wm = WM_MAX;
    for (i = key_group_subtask(g.first, b->count, max); i <= last; i++) {
        struct kstate_blob past = {0};
        int64_t wm;

        r = read_blob(b, i, &past, &wm, e);
        kstate_blob_fini(&past);
        if (r != 0)
            return r;
        k->wm = wm < k->wm ? wm : k->wm;
    }
    r = load(k, &g, e);
    keyed_note(k);
    return r;
}

/* ---- rounds ---- */

int
keyed_save(struct keyed *k, struct err *e)
{
    int64_t until = clock_mono_ns() + SAVE_NS;
    bool more;

    (void)e;
    do
        more = kstate_save(k->state, SAVE_STEP);
    while (more && clock_mono_ns() < until);
    if (more)
        return 0;
    k->op->saving = false;
    op_give(k->op, &k->snap);
    return 0;
}

static void
freeze(struct keyed *k)
{
    uint64_t round =
        k->held.kind == MARK_BARRIER ? k->held.round : SNAPSHOT_END;
    int64_t began = clock_mono_ns();
    struct snapshot *s;

    k->frozen = true;
    if (!op_job_keeps(k->op->env->job)) {
        s = snapshot_new(round);
        kstate_put(k->state, &s->blob);
        blob_put(&s->blob, (uint64_t)k->wm, 8);
        op_give(k->op, &s);
        return;
    }
    s = kstate_freeze(k->state, round);
    kstate_put(k->state, &s->blob);
    blob_put(&s->blob, (uint64_t)k->wm, 8);
    s->pause_ns = clock_mono_ns() - began;
    k->snap = s;
    k->op->saving = true;
}

void
keyed_hold(struct keyed *k, const struct mark *m)
{
    k->held = *m;
    k->has_held = true;
    k->frozen = false;
    k->op->pending = true;
}

/* What the held mark waits for. @return 1 more, 0, < 0. */
static int
save_held(struct keyed *k, struct err *e)
{
    int r;

    if (k->held.kind != MARK_BARRIER && k->held.kind != MARK_END)
        return 0;
    if (!k->frozen) {
        if (k->op->saving) { /* the round before is not whole yet */
            r = keyed_save(k, e);
            return r != 0 ? r : 1;
        }
        freeze(k);
    }
    if (k->held.kind == MARK_BARRIER || !k->op->saving)
        return 0;
    r = keyed_save(k, e);
    return r != 0 ? r : k->op->saving;
}

int
keyed_release(struct keyed *k, struct err *e)
{
    int r = k->has_held ? save_held(k, e) : 0;

    if (r != 0)
        return r;
    k->op->pending = false;
    if (!k->has_held)
        return 0;
    k->has_held = false;
    return op_forward(k->op, &k->held, e);
}

/* ---- records ---- */

void
keyed_begin(struct keyed *k)
{
    k->now = clock_wall_ms();
}

int
keyed_key(struct keyed *k, const struct batch *b, uint32_t i,
          struct rec_key *ret, struct err *e)
{
    struct key_eval *own = &k->keys;
    int r;

    if (b->keys != NULL) {
        *ret = b->keys[i];
        return 0;
    }
    key_eval_reset(own);
    r = key_eval_put(own, &b->recs[i], e);
    if (r != 0) {
        r = key_eval_failed(own, &b->recs[i], e);
        return r != 0 ? r : 1;
    }
    ret->bytes = own->buf.data;
    ret->len = (uint32_t)own->buf.len;
    ret->hash = hash_key(ret->bytes, ret->len);
    return 0;
}

void
keyed_prefetch(const struct keyed *k, const struct batch *b, uint32_t i)
{
    uint32_t j, end = i + AHEAD < b->n ? i + AHEAD : b->n;

    if (b->keys == NULL || i % AHEAD != 0)
        return;
    for (j = i; j < end; j++)
        kstate_prefetch(k->state, b->keys[j].hash, false);
    for (j = i; j < end; j++)
        kstate_prefetch(k->state, b->keys[j].hash, true);
}

void
keyed_note(struct keyed *k)
{
    atomic_store_explicit(&k->op->count->keys, kstate_keys(k->state),
                          memory_order_relaxed);
}

/* What cannot leave memory is larger than its share: say so before memory
 * ends. */
static void
look_at_memory(struct keyed *k, size_t bytes)
{
    size_t share = k->op->env->job->state_share;
    bool cached = k->op->env->job->cache_bytes > 0;

    atomic_store_explicit(&k->op->count->state_bytes, bytes,
                          memory_order_relaxed);
    if (share == 0 || k->warned || bytes <= share + (cached ? share / 4 : 0))
        return;
    k->warned = true;
    log_line(LOG_WARN,
             "state of %s takes %zu KiB in subtask %u, its share of "
             "memory.state is %zu KiB; %s: give it a ttl, or raise memory",
             k->op->step->name, bytes >> 10, k->op->env->subtask, share >> 10,
             cached ? "timers, and what changed since the last checkpoint, "
                      "stay in memory"
                    : "without backend lmdb and checkpoints all of it stays "
                      "in memory");
}

/* Give up what is over the budget. @return whether there is room. */
static bool
make_room(struct keyed *k)
{
    bool stored = k->op->env->job->store != NULL;
    enum entry_room room = ROOM_ENOUGH;

    if (stored)
        room = kstate_trim(k->state, op_store_durable(&k->store), TRIM_PIECE);
    look_at_memory(k, kstate_bytes(k->state));
    return !stored || op_store_room(&k->store, room);
}

int
keyed_leave(struct keyed *k, int r, struct err *e)
{
    if (k->op->env->job->store != NULL)
        op_store_leave(&k->store);
    if (r >= 0 && kstate_check(k->state, e) != 0)
        return kstate_check(k->state, e);
    if (r >= 0 && !k->op->pending)
        k->full = !make_room(k);
    return r;
}

bool
keyed_ready(struct keyed *k)
{
    if (k->full)
        k->full = !make_room(k);
    return !k->full;
}

int
keyed_clean(struct keyed *k, int64_t *ret_wait, struct err *e)
{
    bool more;
    int r;

    if (!k->uses_event && !k->uses_processing)
        return 0;
    more =
        kstate_clean(k->state, k->uses_event ? k->wm : KSTATE_NO_TIME,
                     k->uses_processing ? k->now : KSTATE_NO_TIME, CLEAN_PIECE);
    r = kstate_sweep(k->state, CLEAN_PIECE, e);
    if ((more || r == 1) && *ret_wait > CLEAN_WAIT_MS)
        *ret_wait = CLEAN_WAIT_MS;
    keyed_note(k);
    return r < 0 ? r : 0;
}
