/*
 * local_aggregate: combines records by (window, key) before the exchange.
 *
 * The table holds deltas and is flushed by entry count, bytes, latency,
 * before a watermark that closes a window it holds (or, of keys without window
 * that end, is half a ttl ahead of what it holds, see op_global), and before
 * each barrier and end: so it is empty in a checkpoint. When combining does not
 * pay (fewer than BYPASS_RATIO records a partial) records pass as partials of
 * one for a while, and then it is tried again. Records are handled in groups
 * so that table slots and entries are fetched ahead.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/table.h"
#include "core/window.h"
#include "op/agg_args.h"
#include "op/key_eval.h"
#include "op/route.h"

enum { BYTES_MIN = 256 << 10, LOOK = 64 };
enum { GROUP = 64, SAMPLE_RECORDS = 20000, BYPASS_RECORDS = 200000 };
#define BYPASS_RATIO 1.5

/* In front of the canonical key in the table. */
struct prefix {
    uint64_t hash; /* of the canonical key: routes the partial */
    int64_t slice, first;
};

struct ahead { /* one record of the group */
    const struct rec *rec;
    struct window_place place;
    uint64_t hash; /* of prefix and key */
    size_t key;    /* offset of the prefix in keys.buf */
    uint32_t len;  /* prefix and key */
};

struct op_local {
    struct op op;
    struct key_eval keys;
    struct agg_args args;
    struct window_spec window;
    struct window_near near;
    struct op *route;
    struct table table;
    void *scratch; /* a block, for bypass */
    struct batch late;
    struct ahead ahead[GROUP];
    const char *late_output; /* NULL: late records are dropped */
    int64_t size_max, bytes_max, latency_ms; /* mini_batch */
    uint64_t records;                        /* in the table */
    int64_t since_ms; /* when the first came, -1 = empty */
    int64_t deadline; /* first watermark that closes something held */
    int64_t wm;       /* reached */
    size_t heap;      /* that blocks in the table own */
    bool heavy;       /* some have been seen to own any */
    uint32_t looked;
    bool may_bypass, bypass;
    uint64_t sample_in, sample_out; /* of the current measurement */
};

static int
put_partial(struct op_local *l, const char *key, uint32_t len, uint32_t count,
            void *block, struct err *e)
{
    struct partial head = {.count = count};
    struct prefix p;

    if (count == 0) { /* every record of it failed */
        aggset_fini(l->args.set, block);
        return 0;
    }
    memcpy(&p, key, sizeof p);
    head.hash = p.hash;
    head.slice = p.slice;
    head.first = p.first;
    head.key = key + sizeof p;
    head.key_len = len - (uint32_t)sizeof p;
    count_add(&l->op.count->local_out, 1);
    return op_route_partial(l->route, l->args.set, &head, block, e);
}

/* Judge whether combining pays; off for a while if it does not. */
static void
judge(struct op_local *l)
{
    if (!l->may_bypass)
        return;
    if (l->bypass) {
        if (l->sample_in < BYPASS_RECORDS)
            return;
        l->bypass = false;
    } else {
        if (l->sample_in < SAMPLE_RECORDS)
            return;
        l->bypass = (double)l->sample_in < BYPASS_RATIO * (double)l->sample_out;
    }
    l->sample_in = l->sample_out = 0;
}

static int
flush(struct op_local *l, struct err *e)
{
    struct table_iter it = {0, 0};
    struct table_entry *t;
    int r = 0;

    if (l->table.count == 0)
        return 0;
    l->sample_out += l->table.count;
    while ((t = table_next(&l->table, &it)) != NULL) {
        if (r != 0) {
            aggset_fini(l->args.set, t->block);
            continue;
        }
        r = put_partial(l, table_key(&l->table, t), t->key_len, t->count,
                        t->block, e);
        if (r != 0)
            r = op_fail(&l->op, NULL, e);
    }
    table_clear(&l->table);
    l->heap = 0;
    l->since_ms = -1;
    l->deadline = INT64_MAX;
    judge(l);
    return r;
}

static int
add_single(struct op_local *l, const struct ahead *a, int *ret_bad,
           struct err *e)
{
    int r;

    aggset_init(l->args.set, l->scratch);
    *ret_bad = agg_args_put(&l->args, a->rec, l->scratch, e);
    if (*ret_bad != 0) {
        aggset_fini(l->args.set, l->scratch);
        return 0;
    }
    count_add(&l->op.count->bypassed, 1);
    l->sample_in++;
    r = put_partial(l, l->keys.buf.data + a->key, a->len, 1, l->scratch, e);
    return r != 0 ? op_fail(&l->op, a->rec, e) : 0;
}

/* Whether an entry has not changed for ttl before the loaded record. */
static bool
is_over(const struct op_local *l, struct table_entry *t)
{
    return t->count != 0 &&
           aggset_times(t->block)->last <= l->args.ts - l->window.ttl;
}

/* What a block owns. Few sets own anything: they are looked at now and then
 * until one does. */
static size_t
heap_of(struct op_local *l, const void *block)
{
    size_t n;

    if (!l->heavy && l->looked++ % LOOK != 0)
        return 0;
    n = aggset_heap(l->args.set, block);
    l->heavy = l->heavy || n != 0;
    return n;
}

/* Add the loaded record to one entry; *ret_bad is the record's failure. */
static int
add_entry(struct op_local *l, const struct ahead *a, int *ret_bad,
          struct err *e)
{
    const struct window_place *p = &a->place;
    struct table_entry *t;
    int64_t deadline;
    size_t owned;
    bool fresh;
    int r;

    if (l->bypass)
        return add_single(l, a, ret_bad, e);
    t = table_upsert(&l->table, a->hash, l->keys.buf.data + a->key, a->len,
                     &fresh);
    if (!fresh && l->window.ttl >= 0 && is_over(l, t)) {
        /* What is held ended before this record: it is a delta of its own. */
        r = flush(l, e);
        if (r != 0)
            return r;
        t = table_upsert(&l->table, a->hash, l->keys.buf.data + a->key, a->len,
                         &fresh);
    }
    if (fresh) {
        aggset_init(l->args.set, t->block);
        deadline = l->window.ttl >= 0 && l->op.step->event_time
                       ? l->args.ts + l->window.ttl / 2
                       : window_deadline(&l->window, p->slice, p->first, l->wm);
        if (deadline < l->deadline)
            l->deadline = deadline;
        if (l->since_ms < 0)
            l->since_ms = l->op.env->now_ms;
    }
    owned = l->heavy && !fresh ? heap_of(l, t->block) : 0;
    *ret_bad = agg_args_put(&l->args, a->rec, t->block, e);
    if (*ret_bad != 0)
        return 0;
    l->heap += heap_of(l, t->block) - owned;
    t->count++;
    l->sample_in++;
    if (l->table.count >= (uint64_t)l->size_max ||
        l->table.bytes + l->heap >= (size_t)l->bytes_max)
        return flush(l, e);
    return 0;
}

static void
count_late(struct op_local *l, const struct rec *r)
{
    count_add(&l->op.count->late, 1);
    if (l->late_output != NULL)
        (void)batch_add_ref(&l->late, r);
    else
        count_add_shared(&l->op.count->dropped[CAUSE_LATE], 1);
}

/* Key, place and hash of one record. @return 1 take it, 0 not, < 0. */
static int
look(struct op_local *l, const struct rec *r, struct ahead *a, struct err *e)
{
    struct prefix p;
    size_t from = l->keys.buf.len;
    int rc;

    buf_add(&l->keys.buf, &p, sizeof p); /* room; filled below */
    rc = key_eval_put(&l->keys, r, e);
    if (rc != 0) {
        l->keys.buf.len = from;
        return key_eval_failed(&l->keys, r, e);
    }
    window_place_near(&l->window, &l->near, r->ts, r->wm, &a->place);
    if (a->place.late) {
        l->keys.buf.len = from;
        count_late(l, r);
        return 0;
    }
    if (a->place.missed != 0)
        count_add(&l->op.count->late_windows, a->place.missed);
    a->rec = r;
    a->key = from;
    a->len = (uint32_t)(l->keys.buf.len - from);
    p.hash = hash_key(l->keys.buf.data + from + sizeof p, a->len - sizeof p);
    p.slice = a->place.slice;
    p.first = a->place.first;
    memcpy(l->keys.buf.data + from, &p, sizeof p);
    a->hash =
        p.hash ^ hash_splitmix((uint64_t)p.slice) ^
        (p.first == WINDOW_FIRST_ALL ? 0 : hash_splitmix(~(uint64_t)p.first));
    return 1;
}

static int
add_record(struct op_local *l, const struct ahead *a, struct err *e)
{
    int bad = agg_args_load(&l->args, a->rec, e), r = 0;

    if (bad == 0)
        r = add_entry(l, a, &bad, e);
    if (r != 0)
        return r;
    return bad != 0 ? op_fail(&l->op, a->rec, e) : 0;
}

static int
group(struct op_local *l, const struct rec *recs, uint32_t n, struct err *e)
{
    uint32_t i, k = 0;
    int r;

    key_eval_reset(&l->keys);
    arena_reset(&l->args.arena);
    for (i = 0; i < n; i++) {
        r = look(l, &recs[i], &l->ahead[k], e);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        table_prefetch(&l->table, l->ahead[k].hash);
        k++;
    }
    for (i = 0; i < k; i++)
        table_prefetch_entry(&l->table, l->ahead[i].hash);
    for (i = 0; i < k; i++) {
        r = add_record(l, &l->ahead[i], e);
        if (r != 0)
            return r;
    }
    return 0;
}

static int
local_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_local *l = (struct op_local *)(void *)op;
    uint32_t i;
    int r;

    count_add(&op->count->records_in, b->n);
    count_add(&op->count->local_in, b->n);
    if (op->env->script != NULL)
        script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    for (i = 0; i < b->n; i += GROUP) {
        r = group(l, b->recs + i, b->n - i < GROUP ? b->n - i : GROUP, e);
        if (r != 0)
            return r;
    }
    if (l->bypass)
        judge(l);
    if (l->late.n == 0)
        return 0;
    l->late.part = b->part;
    r = op_emit_side(op, l->late_output, &l->late, e);
    batch_clear(&l->late);
    return r;
}

static int
local_mark(struct op *op, const struct mark *m, struct err *e)
{
    struct op_local *l = (struct op_local *)(void *)op;
    int r = 0;

    if (m->kind == MARK_PART)
        return 0;
    if (m->kind != MARK_WATERMARK || m->wm >= l->deadline)
        r = flush(l, e);
    if (m->kind == MARK_WATERMARK)
        l->wm = m->wm;
    return r != 0 ? r : op_forward(op, m, e);
}

static int
local_tick(struct op *op, bool idle, int64_t *ret_wait, struct err *e)
{
    struct op_local *l = (struct op_local *)(void *)op;
    int64_t left;

    (void)idle;
    if (l->since_ms < 0)
        return 0;
    left = l->since_ms + l->latency_ms - op->env->now_ms;
    if (left <= 0)
        return flush(l, e);
    if (left < *ret_wait)
        *ret_wait = left;
    return 0;
}

static void
local_free(struct op *op)
{
    struct op_local *l = (struct op_local *)(void *)op;
    struct table_iter it = {0, 0};
    struct table_entry *t;

    while ((t = table_next(&l->table, &it)) != NULL)
        aggset_fini(l->args.set, t->block);
    table_fini(&l->table);
    batch_fini(&l->late);
    free(l->scratch);
    key_eval_fini(&l->keys);
    agg_args_fini(&l->args);
}

/* A quarter of memory.buffers is for all tables of this kind; mini_batch may
 * say less. */
static int64_t
bytes_share(const struct plan *p)
{
    int64_t n = 0, share;
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == STEP_LOCAL)
            n += p->steps[i].parallelism;
    share = p->buffers_bytes / 4 / (n + (n == 0));
    return share < BYTES_MIN ? BYTES_MIN : share;
}

static int
local_init(struct op_local *l, struct err *e)
{
    const struct opt *job = opt_get(l->op.env->plan->job, "options");
    const struct opt *mini = opt_get(job, "mini_batch");
    int64_t share;
    int r;

    window_spec_init(&l->window, l->op.step->opts);
    window_spec_use_slices(&l->window);
    l->size_max = opt_int(mini, "size", 50000);
    l->bytes_max = opt_int(mini, "bytes", INT64_MAX);
    share = bytes_share(l->op.env->plan);
    if (l->bytes_max > share)
        l->bytes_max = share;
    l->latency_ms = opt_int(mini, "allow_latency_ms", 1000);
    if (l->window.updating)
        l->latency_ms /= 2; /* the other half is the global phase's */
    l->since_ms = -1;
    l->deadline = INT64_MAX;
    l->wm = WM_NONE;
    l->may_bypass = !opt_is(job, "agg_phase_strategy", "TWO_PHASE");
    l->late_output = opt_str(l->op.step->opts, "late_output", NULL);
    batch_init(&l->late);
    r = key_eval_init(&l->keys, &l->op, l->op.step, e);
    if (r == 0)
        r = agg_args_init(&l->args, &l->op, e);
    if (r != 0)
        return r;
    table_init(&l->table, l->args.set->size);
    l->scratch = mem_alloc(l->args.set->size);
    return 0;
}

int
op_local_new(struct op_env *env, const struct plan_step *s,
             struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = local_batch,
                                        .mark = local_mark,
                                        .tick = local_tick,
                                        .free = local_free};
    struct op_local *l = mem_zalloc(sizeof *l);
    int r;

    op_init(&l->op, &type, env, s);
    l->op.reader = reader;
    r = local_init(l, e);
    *ret = &l->op;
    if (r != 0)
        op_free(ret);
    return r;
}

void
op_local_set_route(struct op *op, struct op *route)
{
    struct op_local *l = (struct op_local *)(void *)op;

    l->route = route;
    op_route_set_aggs(route, l->args.set);
}

const struct aggset *
op_local_aggs(const struct op *op)
{
    return ((const struct op_local *)(const void *)op)->args.set;
}
