/*
 * Keyed state of aggregate steps over a real store: rounds, restores with
 * other parallelism, memory that is smaller than the state, against a job
 * without any of it; and op-level readers beside the writer's thread.
 */
#include <pthread.h>
#include <sched.h>

#include "format/json.h"
#include "op/op.h"
#include "plan/fit.h"
#include "plan_tree.h"
#include "store_util.h"
#include "winstate_util.h"

enum { TASKS_MAX = 4, LOG_MAX = 3000 };

struct machine { /* the subtasks of one aggregate step */
    struct op_out probe;
    struct tree tree;
    const struct plan *plan;
    const struct plan_step *step;
    struct op_job job;
    struct op_env env[TASKS_MAX];
    struct reader *readers[TASKS_MAX];
    struct op *ops[TASKS_MAX];
    uint32_t count, given, barriers; /* of the round under way */
    struct snapshot *snaps[TASKS_MAX];
    struct items rows; /* by key and window; the last one */
    struct aggset *set;
    uint64_t wanted;
    const char *more;           /* aggregates beside n and s */
    const struct buf *plan_was; /* that of the restored round, or NULL */
};

/* A row is {"k":..,"window_start":..,"window_end":..,"n":..,"s":..}. */
static int
probe_batch(struct op_out *o, struct batch *b, struct err *e)
{
    struct machine *m = (struct machine *)(void *)o;
    uint32_t i;

    (void)e;
    for (i = 0; i < b->n; i++) {
        const struct rec *r = &b->recs[i];
        const char *n = memmem(r->val, r->val_len, ",\"n\":", 5);
        const char *more = memmem(r->val, r->val_len, ",\"more", 6);
        size_t head = (size_t)(n - r->val);
        size_t end = more != NULL ? (size_t)(more - r->val) : r->val_len - 1;

        assert_non_null(n);
        items_set(&m->rows, r->val, head, n, end - head);
    }
    return 0;
}

static int
probe_mark(struct op_out *o, const struct mark *m, struct err *e)
{
    struct machine *to = (struct machine *)(void *)o;

    (void)e;
    to->barriers += m->kind == MARK_BARRIER;
    return 0;
}

static bool
probe_ready(struct op_out *o)
{
    (void)o;
    return true;
}

static void
give(void *arg, const struct plan_step *step, uint32_t subtask,
     struct snapshot **s)
{
    struct machine *m = arg;

    assert_ptr_equal(step, m->step);
    assert_null(m->snaps[subtask]);
    m->snaps[subtask] = *s;
    *s = NULL;
    m->given++;
}

static void
want_round(void *arg)
{
    ((struct machine *)arg)->wanted++;
}

static void
failed(void *arg, const struct op_failure *f)
{
    (void)arg;
    fail_msg("%s", f->err.msg);
}

/* What becomes of the state of a list of aggregates that was another. */
static void
meet_past(struct machine *m)
{
    struct plan_fit fit;

    if (m->plan_was == NULL || m->plan_was->len == 0)
        return;
    must(plan_fit_check(m->tree.p, m->plan_was->data, m->plan_was->len,
                        FIT_ALLOW_LOSS, &fit, &err));
    plan_fit_fini(&fit);
}

static void
machine_start(struct machine *m, const char *window, uint32_t parallelism,
              struct store *store, size_t cache)
{
    struct plan_conf conf = {.parallelism = parallelism, .cores = 2};
    struct buf text;
    uint32_t i;

    buf_init(&text);
    buf_addf(&text,
             "{name:'t', file:'j.lua', options:{},"
             " steps:[{kind:'source', name:'in', place:'j.lua:1',"
             " connector:'kafka', conn:{topic:'t'}}, {kind:'event_time',"
             " name:'time', place:'j.lua:2', inputs:[{step:1}]},"
             " {kind:'aggregate', name:'a', place:'j.lua:5',"
             " key_place:'j.lua:3', inputs:[{step:2}],"
             " key:[{name:'k', field:'k'}], %s,"
             " aggs:[{name:'n', fn:'count', args:[]},"
             " {name:'s', fn:'sum', args:[{field:'v'}]}%s]},"
             " {kind:'sink', name:'out', place:'j.lua:9',"
             " connector:'blackhole', inputs:[{step:3}]}]}",
             window, m->more != NULL ? m->more : "");
    m->plan = tree_plan(&m->tree, &conf, buf_cstr(&text));
    buf_fini(&text);
    meet_past(m);
    m->step = tree_step(m->plan, "a", STEP_GLOBAL);
    assert_int_equal(m->step->parallelism, parallelism);
    assert_int_equal(m->plan->max_parallelism, MAX_PAR);
    m->probe = (struct op_out){
        .batch = probe_batch, .mark = probe_mark, .ready = probe_ready};
    m->job.plan = m->plan;
    m->job.give = give;
    m->job.want_round = want_round;
    m->job.failed = failed;
    m->job.arg = m;
    m->job.store = store;
    m->job.cache_bytes = cache;
    m->count = parallelism;
    must(aggset_new(opt_get(m->step->opts, "aggs"), json_key_encode, NULL, NULL,
                    &m->set, &err));
    for (i = 0; i < m->count; i++) {
        m->readers[i] = reader_new();
        m->env[i] =
            (struct op_env){.plan = m->plan, .job = &m->job, .subtask = i};
        must(op_global_new(&m->env[i], m->step, m->readers[i], &m->ops[i],
                           &err));
        op_outs_add(&m->ops[i]->out, &m->probe);
    }
}

static void
machine_restore(struct machine *m, const struct restored *from)
{
    uint32_t i;

    m->job.restored = from;
    for (i = 0; i < m->count; i++)
        must(m->ops[i]->type->restore(m->ops[i], &err));
    m->job.restored = NULL;
}

static void
machine_stop(struct machine *m)
{
    uint32_t i;

    for (i = 0; i < m->count; i++) {
        op_free(&m->ops[i]);
        reader_free(&m->readers[i]);
        snapshot_free(&m->snaps[i]);
    }
    m->given = 0;
    aggset_free(&m->set);
    tree_free(&m->tree);
}

static void
finish(struct op *op)
{
    while (op->pending)
        must(op->type->resume(op, &err));
}

static void
to_all(struct machine *m, const struct mark *mark)
{
    uint32_t i;

    for (i = 0; i < m->count; i++) {
        must(m->ops[i]->in.mark(&m->ops[i]->in, mark, &err));
        finish(m->ops[i]);
    }
}

/* One record, as the partial a local phase makes of it. */
static void
record(struct machine *m, const struct window_spec *w, const struct input *in)
{
    struct partial head = {.count = 1};
    const struct rec rec = {.ts = in->ts};
    struct window_place place;
    struct partials *p;
    struct buf key;
    char name[16];
    struct op *op;
    void *block;

    window_place(w, in->ts, in->wm, &place);
    if (place.late)
        return;
    buf_init(&key);
    key_put_str(&key, name, input_key(in, name));
    head.key = key.data;
    head.key_len = (uint32_t)key.len;
    head.hash = hash_key(key.data, key.len);
    head.slice = place.slice;
    head.first = place.first;
    block = util_block(m->set);
    must(aggset_add(m->set, block, in->v, &rec, &err));
    p = partials_new();
    must(partials_add(p, m->set, &head, block, &err));
    op = m->ops[key_group_subtask(key_group(head.hash, MAX_PAR), m->count,
                                  MAX_PAR)];
    must(op->in.partials(&op->in, &p, &err));
    finish(op);
    free(block);
    buf_fini(&key);
}

static void
apply(struct machine *m, const struct window_spec *w, const struct input *in)
{
    struct mark mark = {.kind = MARK_WATERMARK, .wm = in->wm};

    if (in->kind == IN_RECORD)
        record(m, w, in);
    else
        to_all(m, &mark);
}

static bool
is_saving(const struct machine *m)
{
    uint32_t i;

    for (i = 0; i < m->count; i++)
        if (m->ops[i]->saving)
            return true;
    return false;
}

static void
save_piece(struct machine *m)
{
    uint32_t i;

    for (i = 0; i < m->count; i++)
        if (m->ops[i]->saving)
            must(m->ops[i]->type->save(m->ops[i], &err));
}

/* What the checkpoint thread does with the snapshots of a round. */
static void
write_round(struct store *s, uint64_t round, struct snapshot **snaps,
            uint32_t count, struct err *e)
{
    uint32_t op, i;

    must(store_round_begin(s, round, e));
    must(store_round_operator(s, "a", 1, &op, e));
    for (i = 0; i < count; i++) {
        struct snapshot_change c;
        size_t at = 0;

        while (snapshot_next(snaps[i], &at, &c) == 1) {
            struct store_key k = {.op = op,
                                  .group = c.key.group,
                                  .ns = c.key.ns,
                                  .ns_len = c.key.ns_len,
                                  .key = c.key.key,
                                  .key_len = c.key.key_len};

            if (c.del)
                must(store_round_del(s, &k, e));
            else
                must(store_round_put(s, &k, c.value, c.value_len, e));
        }
    }
    must(store_round_write(s, STORE_COMPLETE, e));
}

/* ---- the same rows, whatever happens ---- */

struct world {
    struct window_spec spec;
    const char *window;
    struct machine plain, m;
    struct store *store;
    size_t cache;
    struct input log[LOG_MAX]; /* since the last complete round */
    uint32_t log_count, log_barrier;
    struct items rows_at_round, rows_at_barrier;
    struct restored restored;
    struct step_blobs blobs;
    struct buf plan; /* of the last complete round */
    bool edits;      /* a restart has another list of aggregates */
    uint64_t round;
    int64_t wm, now;
    bool under_way;
    uint64_t full;
};

static void
keep_blobs(struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->blobs.count; i++)
        buf_fini(&w->blobs.blobs[i]);
    free(w->blobs.blobs);
    w->blobs.step = (char *)(uintptr_t) "a";
    w->blobs.count = w->m.count;
    w->blobs.blobs = mem_zalloc(w->m.count * sizeof *w->blobs.blobs);
    for (i = 0; i < w->m.count; i++)
        buf_add(&w->blobs.blobs[i], w->m.snaps[i]->blob.data,
                w->m.snaps[i]->blob.len);
    w->restored = (struct restored){.round = w->round,
                                    .max_parallelism = MAX_PAR,
                                    .steps = &w->blobs,
                                    .step_count = 1};
}

static void
complete(struct world *w)
{
    uint32_t i;

    write_round(w->store, w->round, w->m.snaps, w->m.count, &err);
    keep_blobs(w);
    buf_clear(&w->plan);
    plan_state_put(w->m.plan, &w->plan);
    for (i = 0; i < w->m.count; i++)
        snapshot_free(&w->m.snaps[i]);
    w->m.given = 0;
    atomic_store(&w->m.job.durable, w->round);
    items_copy(&w->rows_at_round, &w->rows_at_barrier);
    w->log_count -= w->log_barrier;
    memmove(w->log, w->log + w->log_barrier, w->log_count * sizeof w->log[0]);
    w->under_way = false;
    must(store_merge(w->store, 20, &err));
}

static void
begin_round(struct world *w)
{
    struct mark b = {.kind = MARK_BARRIER, .round = ++w->round};

    w->m.barriers = 0;
    to_all(&w->m, &b);
    assert_int_equal(w->m.barriers, w->m.count); /* before it is saved */
    w->log_barrier = w->log_count;
    items_copy(&w->rows_at_barrier, &w->m.rows);
    w->under_way = true;
}

/* Beside n and s, which are compared: others that come, go, and are others. */
static const char *const lists[] = {
    NULL,
    ", {name:'more', fn:'max', args:[{field:'v'}]}",
    ", {name:'more', fn:'collect', args:[{field:'v'}], max:1000}",
    ", {name:'more', fn:'count', args:[]},"
    " {name:'more2', fn:'max', args:[{field:'v'}]}",
    ", {name:'more2', fn:'max', args:[{field:'v'}]},"
    " {name:'more', fn:'count', args:[]}",
};

static void
crash(struct world *w)
{
    uint32_t i;

    machine_stop(&w->m);
    if (w->edits)
        w->m.more = lists[util_below(sizeof lists / sizeof lists[0])];
    items_copy(&w->m.rows, &w->rows_at_round);
    w->under_way = false;
    machine_start(&w->m, w->window, 1 + util_below(TASKS_MAX), w->store,
                  w->cache);
    if (w->restored.round != 0)
        machine_restore(&w->m, &w->restored);
    atomic_store(&w->m.job.durable, w->restored.round);
    for (i = 0; i < w->log_count; i++)
        apply(&w->m, &w->spec, &w->log[i]);
}

static void
take(struct world *w, const struct input *in)
{
    uint32_t i;

    for (i = 0; i < w->m.count; i++) {
        int64_t wait = 1000;

        if (!w->m.ops[i]->in.ready(&w->m.ops[i]->in)) {
            assert_true(w->under_way); /* else nothing would end it */
            w->full++;
            return;
        }
        must(w->m.ops[i]->type->tick(w->m.ops[i], false, &wait, &err));
        finish(w->m.ops[i]);
    }
    assert_true(w->log_count < LOG_MAX);
    w->log[w->log_count++] = *in;
    apply(&w->m, &w->spec, in);
    apply(&w->plain, &w->spec, in);
}

static void
world_step(struct world *w)
{
    struct input in = {.kind = IN_RECORD};

    switch (util_below(30)) {
    case 0:
    case 1:
        in.kind = IN_WATERMARK;
        in.wm = w->wm == WM_NONE ? w->now - 300 : w->wm + util_below(22);
        take(w, &in);
        if (w->log_count > 0 && w->log[w->log_count - 1].wm == in.wm)
            w->wm = in.wm;
        return;
    case 2:
        if (!w->under_way)
            begin_round(w);
        return;
    case 3:
    case 4:
        if (w->under_way && is_saving(&w->m))
            save_piece(&w->m);
        else if (w->under_way)
            complete(w);
        return;
    case 5:
        if (util_below(w->edits ? 2 : 4) == 0)
            crash(w);
        return;
    default:
        break;
    }
    w->now++;
    in.ts = w->now + util_below(200) - 350;
    in.wm = w->wm;
    in.key = util_below(200);
    in.v[0] = val_int((int64_t)util_below(1000) - 500);
    in.v[1] = in.v[2] = in.v[0];
    take(w, &in);
}

static void
world_run(const char *window, size_t cache, bool edits, uint64_t *full)
{
    static struct world world;
    struct world *w = &world;
    struct mark end = {.kind = MARK_WATERMARK, .wm = WM_MAX};
    char *dir = temp_dir();
    int i;

    memset(w, 0, sizeof *w);
    w->window = window;
    w->cache = cache;
    w->edits = edits;
    w->m.plan_was = &w->plan;
    w->wm = WM_NONE;
    w->store = open_store(dir);
    machine_start(&w->plain, window, 1, NULL, 0);
    machine_start(&w->m, window, 1 + util_below(TASKS_MAX), w->store, cache);
    window_spec_init(&w->spec, w->m.step->opts);
    window_spec_use_slices(&w->spec);
    for (i = 0; i < 2500; i++)
        world_step(w);
    to_all(&w->plain, &end);
    to_all(&w->m, &end);
    items_equal(&w->m.rows, &w->plain.rows);
    assert_true(w->m.rows.n > 100);
    *full += w->full;

    machine_stop(&w->m);
    machine_stop(&w->plain);
    for (i = 0; i < (int)w->blobs.count; i++)
        buf_fini(&w->blobs.blobs[i]);
    free(w->blobs.blobs);
    buf_fini(&w->plan);
    items_fini(&w->m.rows);
    items_fini(&w->plain.rows);
    items_fini(&w->rows_at_round);
    items_fini(&w->rows_at_barrier);
    store_close(&w->store);
    remove_dir(dir);
    free(dir);
}

#define TUMBLING "window:{kind:'tumbling', size_ms:60, place:'j.lua:4'}"
#define HOPPING(size, slide)                                                   \
    "window:{kind:'hopping', size_ms:" size ", slide_ms:" slide                \
    ", place:'j.lua:4'}"

static const char *const windows[] = {TUMBLING, HOPPING("90", "30"),
                                      TUMBLING ", lateness_ms:50",
                                      HOPPING("50", "20") ", lateness_ms:30"};

static void
rows_are_the_same_after_restores(void **state)
{
    uint64_t full = 0;
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++)
        world_run(windows[i], 0, false, &full);
    assert_int_equal(full, 0);
}

static void
rows_are_the_same_with_less_memory_than_state(void **state)
{
    uint64_t full = 0;
    size_t i;

    (void)state;
    for (i = 0; i < 8; i++)
        world_run(windows[i % 4], 2000u << util_below(5), false, &full);
    assert_true(full > 100);
}

static void
aggregates_go_on_exactly_while_others_come_and_go(void **state)
{
    uint64_t full = 0;
    size_t i;

    (void)state;
    for (i = 0; i < 8; i++)
        world_run(windows[i % 4], i < 4 ? 0 : 2000u << util_below(5), true,
                  &full);
}

/* ---- the end of input ---- */

static void
the_end_gives_what_changed_before_its_mark_goes_on(void **state)
{
    struct mark b = {.kind = MARK_BARRIER, .round = 1},
                end = {.kind = MARK_END};
    struct input in = {.kind = IN_RECORD, .ts = 5, .wm = WM_NONE};
    struct window_spec spec;
    struct machine m = {.given = 0};
    char *dir = temp_dir();
    struct store *s = open_store(dir);

    (void)state;
    machine_start(&m, windows[0], 1, s, 0);
    window_spec_init(&spec, m.step->opts);
    for (in.key = 0; in.key < 1000; in.key++) {
        in.v[0] = val_int(1);
        record(&m, &spec, &in);
    }
    to_all(&m, &b);
    assert_true(m.ops[0]->saving);
    in.key = 7;
    record(&m, &spec, &in);

    /* The round before is given first, whole. */
    must(m.ops[0]->in.mark(&m.ops[0]->in, &end, &err));
    while (m.given == 0)
        must(m.ops[0]->type->resume(m.ops[0], &err));
    assert_int_equal(m.snaps[0]->round, 1);
    assert_int_equal(m.snaps[0]->puts, 1000);
    snapshot_free(&m.snaps[0]);
    finish(m.ops[0]);
    assert_int_equal(m.given, 2);
    assert_true(m.snaps[0]->round == SNAPSHOT_END);
    assert_int_equal(m.snaps[0]->puts, 1);
    assert_false(m.ops[0]->saving);

    machine_stop(&m);
    store_close(&s);
    remove_dir(dir);
    free(dir);
}

/* ---- a reader beside the writer ---- */

struct writer {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct store *store;
    struct machine *m;
    struct snapshot *snap; /* to be written */
    uint64_t round;
    bool stop;
};

static void *
write_rounds(void *arg)
{
    struct writer *w = arg;
    struct err e;

    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        struct snapshot *s;

        while (w->snap == NULL && !w->stop)
            (void)pthread_cond_wait(&w->news, &w->lock);
        if (w->snap == NULL)
            break;
        s = w->snap;
        w->snap = NULL;
        (void)pthread_mutex_unlock(&w->lock);
        write_round(w->store, s->round, &s, 1, &e);
        atomic_store(&w->m->job.durable, s->round);
        while (store_merge(w->store, 100, &e) == 1)
            continue;
        snapshot_free(&s);
        (void)pthread_mutex_lock(&w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Give the writer what is given; @return whether a round is under way. */
static bool
hand_over(struct writer *w)
{
    struct machine *m = w->m;

    if (m->given == 0)
        return is_saving(m) || atomic_load(&m->job.durable) < w->round;
    (void)pthread_mutex_lock(&w->lock);
    assert_null(w->snap);
    w->snap = m->snaps[0];
    m->snaps[0] = NULL;
    m->given = 0;
    (void)pthread_cond_signal(&w->news);
    (void)pthread_mutex_unlock(&w->lock);
    return true;
}

static void
the_store_is_read_while_rounds_are_written(void **state)
{
    struct machine m = {.given = 0}, plain = {.given = 0};
    struct mark wm = {.kind = MARK_WATERMARK};
    struct window_spec spec;
    char *dir = temp_dir();
    struct writer w = {.store = open_store(dir), .m = &m};
    struct op *op;
    pthread_t thread;
    int64_t wait;
    int i;

    (void)state;
    (void)pthread_mutex_init(&w.lock, NULL);
    (void)pthread_cond_init(&w.news, NULL);
    machine_start(&plain, windows[1], 1, NULL, 0);
    machine_start(&m, windows[1], 1, w.store, 20000);
    window_spec_init(&spec, m.step->opts);
    op = m.ops[0];
    assert_int_equal(pthread_create(&thread, NULL, write_rounds, &w), 0);
    for (i = 0; i < 6000; i++) {
        struct input in = {.kind = IN_RECORD, .ts = i / 20, .wm = WM_NONE};

        in.key = util_below(2000);
        in.v[0] = val_int(i);
        while (!op->in.ready(&op->in)) {
            if (!hand_over(&w)) /* it has just become durable */
                assert_true(op->in.ready(&op->in));
            save_piece(&m);
            (void)sched_yield();
        }
        if (op->saving && i % 8 == 0)
            save_piece(&m);
        if (!hand_over(&w) && (m.wanted > 0 || i % 1000 == 999)) {
            struct mark b = {.kind = MARK_BARRIER, .round = ++w.round};

            m.wanted = 0;
            to_all(&m, &b);
        }
        record(&m, &spec, &in);
        record(&plain, &spec, &in);
        must(op->type->tick(op, false, &wait, &err));
        if (i % 500 == 0) {
            wm.wm = i / 20 - 40;
            to_all(&m, &wm);
            to_all(&plain, &wm);
        }
    }
    wm.wm = WM_MAX;
    to_all(&m, &wm);
    to_all(&plain, &wm);
    (void)pthread_mutex_lock(&w.lock);
    w.stop = true;
    (void)pthread_cond_signal(&w.news);
    (void)pthread_mutex_unlock(&w.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);

    items_equal(&m.rows, &plain.rows);
    assert_true(w.round > 3);

    machine_stop(&m);
    machine_stop(&plain);
    items_fini(&m.rows);
    items_fini(&plain.rows);
    store_close(&w.store);
    remove_dir(dir);
    free(dir);
    (void)pthread_cond_destroy(&w.news);
    (void)pthread_mutex_destroy(&w.lock);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_same_after_restores),
        cmocka_unit_test(rows_are_the_same_with_less_memory_than_state),
        cmocka_unit_test(aggregates_go_on_exactly_while_others_come_and_go),
        cmocka_unit_test(the_end_gives_what_changed_before_its_mark_goes_on),
        cmocka_unit_test(the_store_is_read_while_rounds_are_written),
    };

    (void)util_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
