/*
 * Generator source: record i belongs to partition i mod `partitions`, and
 * partition p to subtask p mod parallelism. With a rate, record i is due at
 * i / rate seconds after the first poll of any task; so the tasks keep one
 * rate together without sharing more than that start. What is due is looked
 * at in whole milliseconds, so that fast rates come in batches. After a
 * restore the rate counts from the smallest index that is still to be given.
 *
 *   state of a partition   event given        next
 *   new                    SOURCE_ADDED       giving
 *   giving                 SOURCE_BATCH       giving, or ended at `count`
 *   ended                  SOURCE_PART_END    closed
 *   all closed             SOURCE_END         (for ever)
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "connect/connect.h"
#include "connect/gen.h"
#include "core/blob.h"

enum { BATCH_BYTES = 256 << 10, SNAPSHOT_VERSION = 1 };

struct source_wake {
    conn_wake_f *wake;
    void *arg;
};

struct source {
    struct gen *gen;
    uint64_t count; /* UINT64_MAX = no end */
    double rate;    /* records a second, 0 = as fast as possible */
    uint32_t partitions, parallelism;
    uint16_t topic, src;
    atomic_bool stopped;
    /* Monotonic ms of the first poll + 1, 0 = none yet. Relaxed is enough:
     * whoever loses the exchange reads the winner's value from it. */
    atomic_int_fast64_t started_ms;
    struct source_wake *wakes; /* one a subtask, set before slots start */
    uint64_t *next;            /* by partition: the index to begin with */
    uint64_t base;             /* the smallest of them */
};

struct source_part {
    uint64_t next; /* index of its next record */
    bool closed;
};

struct source_task {
    struct source *source;
    struct source_part *parts; /* task-local number j: partition
                                  subtask + j * parallelism */
    uint32_t subtask, count, added, closed, turn;
    struct buf text; /* of the batch given last */
    struct source_bad *bad;
    size_t bad_cap;
    struct gen_call call;
};

static void
close_source(struct source **s)
{
    if (*s == NULL)
        return;
    gen_free(&(*s)->gen);
    free((*s)->wakes);
    free((*s)->next);
    free(*s);
    *s = NULL;
}

/* One blob: version, partitions of all, count, partition and next index of
 * each of the task. */
static int
read_blob(struct source *s, const struct buf *blob, struct err *e)
{
    struct blob_reader r = blob_read(blob);
    uint64_t version = blob_get(&r, 1);
    uint64_t partitions = blob_get(&r, 4), n = blob_get(&r, 4);

    if (version == SNAPSHOT_VERSION && !r.bad && partitions != s->partitions) {
        int rc = err_set(e, ERR_JOBFILE,
                         "the checkpoint has %u partitions, the generator "
                         "has %u: its records would be dealt out anew",
                         (unsigned)partitions, (unsigned)s->partitions);

        err_hint(e, "set partitions=%u, or start anew with --fresh",
                 (unsigned)partitions);
        return rc;
    }
    for (; n > 0 && !r.bad; n--) {
        uint64_t p = blob_get(&r, 4), next = blob_get(&r, 8);

        if (p < s->partitions && next % s->partitions == p)
            s->next[p] = next;
        else
            r.bad = true;
    }
    if (version != SNAPSHOT_VERSION || !blob_done(&r))
        return err_set(e, ERR_IO,
                       "the positions of the generator in the checkpoint are "
                       "damaged, or of another version of streamlua");
    return 0;
}

static int
set_start(struct source *s, const struct step_blobs *restored, struct err *e)
{
    uint32_t i;
    int r = 0;

    s->next = mem_zalloc((s->partitions + 1u) * sizeof *s->next);
    for (i = 0; i < s->partitions; i++)
        s->next[i] = i;
    for (i = 0; restored != NULL && i < restored->count && r == 0; i++)
        r = read_blob(s, &restored->blobs[i], e);
    s->base = UINT64_MAX;
    for (i = 0; i < s->partitions; i++)
        if (s->next[i] < s->base)
            s->base = s->next[i];
    return r;
}

static int
open_source(const struct conn_env *env, struct source **ret, struct err *e)
{
    const struct opt *count = opt_get(env->opts, "count");
    struct source *s;
    struct gen *gen;
    int r;

    if (opt_bool(env->cli, "bounded", false) &&
        (count == NULL || count->type != OPT_INT)) {
        r = err_set(e, ERR_USAGE,
                    "source %s: a generator without count has no end",
                    env->step);
        err_hint(e, "give it a count, or leave out --bounded");
        err_where(e, "%s", env->place != NULL ? env->place : "");
        return r;
    }
    r = gen_new(opt_get(env->opts, "fields"),
                (uint64_t)opt_int(env->opts, "seed", 1), &gen, e);
    if (r < 0) {
        (void)err_context(e, "source %s", env->step);
        err_where(e, "%s", env->place != NULL ? env->place : "");
        return r;
    }
    s = mem_zalloc(sizeof *s);
    s->gen = gen;
    s->count = (uint64_t)opt_int(env->opts, "count", -1);
    s->rate = opt_dbl(env->opts, "rate", 0);
    s->partitions = (uint32_t)opt_int(env->opts, "partitions", 1);
    s->parallelism = env->parallelism;
    s->topic = topic_register(env->step);
    s->src = env->src;
    s->wakes = mem_zalloc(env->parallelism * sizeof *s->wakes);
    r = set_start(s, env->restored, e);
    if (r < 0) {
        (void)err_context(e, "source %s", env->step);
        err_where(e, "%s", env->place != NULL ? env->place : "");
        close_source(&s);
        return r;
    }
    *ret = s;
    return 0;
}

static int
new_task(struct source *s, const struct conn_task *conf,
         struct source_task **ret, struct err *e)
{
    struct source_task *t = mem_zalloc(sizeof *t);
    uint32_t j;

    (void)e;
    assert(conf->subtask < s->parallelism);
    t->source = s;
    t->subtask = conf->subtask;
    if (conf->subtask < s->partitions)
        t->count = (s->partitions - conf->subtask - 1) / s->parallelism + 1;
    t->parts = mem_zalloc((t->count + 1u) * sizeof *t->parts);
    for (j = 0; j < t->count; j++)
        t->parts[j].next = s->next[conf->subtask + j * s->parallelism];
    t->call.script = conf->script;
    t->call.call = conf->script != NULL ? conf->call : NULL;
    buf_init(&t->text);
    s->wakes[conf->subtask] = (struct source_wake){conf->wake, conf->wake_arg};
    *ret = t;
    return 0;
}

static int64_t
elapsed_ms(struct source *s)
{
    int64_t now = clock_mono_ms() + 1;
    int_fast64_t none = 0;

    if (atomic_compare_exchange_strong(&s->started_ms, &none, now))
        return 0;
    return now - (int64_t)none;
}

/* Records below this index may be given by now. */
static uint64_t
due_count(const struct source *s, int64_t elapsed)
{
    uint64_t left = s->base < s->count ? s->count - s->base : 0;
    double due;

    if (!(s->rate > 0))
        return s->count;
    due = (double)elapsed * s->rate / 1000;
    if (due >= (double)left)
        return s->count;
    return (uint64_t)due + 1 < left ? s->base + (uint64_t)due + 1 : s->count;
}

/* How long until record `i` is due, at least a millisecond. */
static int64_t
wait_for(const struct source *s, uint64_t i, int64_t elapsed)
{
    double ms = (double)(i - s->base) * 1000 / s->rate - (double)elapsed;

    if (ms > 60000)
        return 60000;
    return ms > 1 ? (int64_t)ms + (ms > (double)(int64_t)ms) : 1;
}

static int
add_bad(struct source_task *t, struct batch *b, struct source_event *ev,
        const struct err *e)
{
    struct source_bad *bad;

    mem_grow(&t->bad, &t->bad_cap, ev->bad_count + 1u, sizeof *t->bad);
    bad = &t->bad[ev->bad_count++];
    bad->index = b->n - 1;
    bad->cause = e->cause;
    bad->msg = arena_strdup(&b->arena, e->msg);
    bad->where = e->where[0] != '\0' ? arena_strdup(&b->arena, e->where) : NULL;
    ev->bad = t->bad;
    buf_adds(&t->text, "{}");
    return 0;
}

/* The text has its final place: let the records point to it. */
static void
place_values(struct source_task *t, struct batch *b)
{
    const char *p;
    uint32_t k;

    buf_reserve(&t->text, REC_PAD); /* readable bytes behind the last */
    p = t->text.data;
    for (k = 0; k < b->n; k++) {
        b->recs[k].val = p;
        p += b->recs[k].val_len;
    }
}

static int
give_batch(struct source_task *t, uint32_t j, uint64_t due, uint32_t max,
           struct batch *b, struct source_event *ev, struct err *e)
{
    const struct source *s = t->source;
    struct source_part *part = &t->parts[j];
    uint32_t partition = t->subtask + j * s->parallelism;

    t->call.arena = &b->arena;
    buf_clear(&t->text);
    while (part->next < due && b->n < max && t->text.len < BATCH_BYTES) {
        struct rec *r = batch_add(b);
        size_t from = t->text.len;
        bool ext = false;
        int got = gen_put(s->gen, part->next, &t->call, &t->text, &ext, e);

        r->offset = (int64_t)part->next;
        r->partition = (int32_t)partition;
        r->topic = s->topic;
        r->src = s->src;
        r->kind = REC_OBJECT;
        r->flags = ext ? REC_EXT : 0;
        part->next += s->partitions;
        if (got == ERR_RECORD)
            got = add_bad(t, b, ev, e);
        if (got < 0)
            return got;
        r->val_len = (uint32_t)(t->text.len - from);
    }
    place_values(t, b);
    ev->bytes = t->text.len;
    ev->kind = SOURCE_BATCH;
    return 0;
}

static int
poll_parts(struct source_task *t, struct batch *b, uint32_t max,
           struct source_event *ev, struct err *e)
{
    struct source *s = t->source;
    int64_t elapsed = s->rate > 0 ? elapsed_ms(s) : 0;
    uint64_t due = due_count(s, elapsed), first = UINT64_MAX;
    uint32_t k;

    for (k = 0; k < t->count; k++) {
        uint32_t j = t->turn;
        struct source_part *part = &t->parts[j];

        t->turn = (t->turn + 1) % t->count;
        ev->part = j;
        if (part->closed)
            continue;
        if (part->next >= s->count) {
            part->closed = true;
            t->closed++;
            ev->kind = SOURCE_PART_END;
            return 0;
        }
        if (part->next < due)
            return give_batch(t, j, due, max, b, ev, e);
        if (part->next < first)
            first = part->next;
    }
    ev->kind = SOURCE_NONE;
    ev->wait_ms = wait_for(s, first, elapsed);
    return 0;
}

static int
poll_task(struct source_task *t, struct batch *b, uint32_t max,
          struct source_event *ev, struct err *e)
{
    assert(max > 0);
    memset(ev, 0, sizeof *ev);
    ev->wait_ms = -1;
    if (atomic_load(&t->source->stopped) || t->closed == t->count) {
        ev->kind = SOURCE_END;
        return 0;
    }
    if (t->added < t->count) {
        ev->kind = SOURCE_ADDED;
        ev->topic = t->source->topic;
        ev->partition =
            (int32_t)(t->subtask + t->added * t->source->parallelism);
        ev->part = t->added++;
        return 0;
    }
    return poll_parts(t, b, max, ev, e);
}

static void
stop(struct source *s)
{
    uint32_t i;

    atomic_store(&s->stopped, true);
    for (i = 0; i < s->parallelism; i++)
        if (s->wakes[i].wake != NULL)
            s->wakes[i].wake(s->wakes[i].arg);
}

static int
snapshot(struct source_task *t, struct buf *out, struct err *e)
{
    const struct source *s = t->source;
    uint32_t j;

    (void)e;
    blob_put(out, SNAPSHOT_VERSION, 1);
    blob_put(out, s->partitions, 4);
    blob_put(out, t->count, 4);
    for (j = 0; j < t->count; j++) {
        blob_put(out, t->subtask + j * s->parallelism, 4);
        blob_put(out, t->parts[j].next, 8);
    }
    return 0;
}

static void
free_task(struct source_task **t)
{
    if (*t == NULL)
        return;
    (*t)->source->wakes[(*t)->subtask].wake = NULL;
    buf_fini(&(*t)->text);
    free((*t)->bad);
    free((*t)->parts);
    free(*t);
    *t = NULL;
}

const struct source_type generator_source_type = {
    .name = "generator",
    .open = open_source,
    .task_new = new_task,
    .poll = poll_task,
    .stop = stop,
    .snapshot = snapshot,
    .task_free = free_task,
    .close = close_source,
};
