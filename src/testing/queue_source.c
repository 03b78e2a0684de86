/* queue source: gives what was pushed, and marks between the records. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/blob.h"
#include "testing/queue.h"

enum { SNAPSHOT_VERSION = 1 };

struct position {
    int32_t number;
    uint64_t next;
};

struct source {
    struct queue_set *set;
    struct queue_source *queue;
    uint32_t parallelism;
    uint16_t src;
    uint8_t rec_flags;    /* of all records */
    bool drop_tombstones; /* as a kafka source does */
    uint64_t opened;      /* set->limit then: later partitions are discovered */
    struct position *restored;
    size_t restored_count, restored_cap;
};

struct task_part {
    size_t index; /* in queue->parts */
    uint64_t next;
    bool at_end, closed;
};

struct source_task {
    struct source *source;
    uint32_t subtask;
    struct task_part *parts;
    size_t part_cap;
    uint32_t count, closed;
    size_t seen; /* of queue->parts, those before it were looked at */
};

static void
close_source(struct source **s)
{
    if (*s == NULL)
        return;
    free((*s)->restored);
    free(*s);
    *s = NULL;
}

static int
read_positions(struct source *s, const struct step_blobs *b, struct err *e)
{
    uint32_t i, n;

    for (i = 0; b != NULL && i < b->count; i++) {
        struct blob_reader r = blob_read(&b->blobs[i]);
        bool current = blob_get(&r, 1) == SNAPSHOT_VERSION;

        for (n = (uint32_t)blob_get(&r, 4); n > 0 && !r.bad; n--) {
            struct position *p;

            mem_grow(&s->restored, &s->restored_cap, s->restored_count + 1,
                     sizeof *s->restored);
            p = &s->restored[s->restored_count++];
            p->number = (int32_t)(uint32_t)blob_get(&r, 4);
            p->next = blob_get(&r, 8);
        }
        if (!current || !blob_done(&r))
            return err_set(e, ERR_IO, "positions of source %s are damaged",
                           b->step);
    }
    return 0;
}

static int
open_source(const struct conn_env *env, struct source **ret, struct err *e)
{
    struct queue_set *set = env->box;
    struct source *s = mem_zalloc(sizeof *s);
    int r;

    queue_add_source(set, env->step, opt_str(env->opts, "format", "json"));
    s->set = set;
    s->queue = queue_find_source(set, env->step);
    s->parallelism = env->parallelism;
    s->src = env->src;
    s->opened = set->limit;
    s->drop_tombstones = opt_is(env->opts, "tombstones", "drop");
    s->rec_flags = opt_is(env->opts, "key_format", "json") ? REC_KEY_JSON : 0;
    r = read_positions(s, env->restored, e);
    if (r != 0)
        close_source(&s);
    *ret = s;
    return r;
}

static int
new_task(struct source *s, const struct conn_task *conf,
         struct source_task **ret, struct err *e)
{
    struct source_task *t = mem_zalloc(sizeof *t);

    (void)e;
    t->source = s;
    t->subtask = conf->subtask;
    *ret = t;
    return 0;
}

static uint64_t
start_of(const struct source *s, int32_t number)
{
    size_t i;

    for (i = 0; i < s->restored_count; i++)
        if (s->restored[i].number == number)
            return s->restored[i].next;
    return 0;
}

/* Take the next partition that is this task's. @return whether there is. */
static bool
add_part(struct source_task *t, struct source_event *ev)
{
    const struct source *s = t->source;
    const struct queue_source *q = s->queue;

    while (t->seen < q->part_count) {
        const struct queue_part *p = &q->parts[t->seen];

        if (p->made > s->set->limit)
            return false;
        t->seen++;
        if ((uint32_t)p->number % s->parallelism != t->subtask)
            continue;
        mem_grow(&t->parts, &t->part_cap, t->count + 1u, sizeof *t->parts);
        t->parts[t->count] = (struct task_part){.index = t->seen - 1,
                                                .next = start_of(s, p->number)};
        ev->kind = SOURCE_ADDED;
        ev->part = t->count++;
        ev->discovered = p->made > s->opened;
        ev->topic = q->topic;
        ev->partition = p->number;
        return true;
    }
    return false;
}

static const struct queue_part *
part_of(const struct source_task *t, uint32_t i)
{
    return &t->source->queue->parts[t->parts[i].index];
}

/* Its next entry, or NULL: none that may be seen. */
static const struct queue_entry *
entry_of(const struct source_task *t, uint32_t i)
{
    const struct queue_part *p = part_of(t, i);
    uint64_t next = t->parts[i].next;

    if (next >= p->count || p->entries[next].seq > t->source->set->limit)
        return NULL;
    return &p->entries[next];
}

static void
put_record(const struct source_task *t, const struct queue_part *p,
           const struct queue_entry *en, struct batch *b,
           struct source_event *ev)
{
    struct rec *r;

    if (en->value == NULL && t->source->drop_tombstones)
        return;
    r = batch_add(b);
    r->kind = en->value != NULL ? REC_TEXT : REC_TOMBSTONE;
    r->val = en->value;
    r->val_len = (uint32_t)en->value_len;
    r->key = en->key;
    r->key_len = (uint32_t)en->key_len;
    r->headers = en->headers;
    r->offset = en->offset;
    r->partition = p->number;
    r->topic = t->source->queue->topic;
    r->src = t->source->src;
    r->flags = t->source->rec_flags;
    if (en->has_ts) {
        r->ts = en->ts;
        r->flags |= REC_HAS_TS;
    }
    ev->bytes += en->value_len + en->key_len;
}

static void
give(struct source_task *t, uint32_t i, uint32_t max, struct batch *b,
     struct source_event *ev)
{
    const struct queue_entry *en = entry_of(t, i);
    uint32_t n = 1 + queue_draw(t->source->set, max < 16 ? max : 16);

    ev->part = i;
    t->parts[i].at_end = false;
    if (en->kind != QUEUE_RECORD) {
        ev->kind = en->kind == QUEUE_IDLE ? SOURCE_PART_IDLE : SOURCE_WATERMARK;
        ev->wm = en->wm;
        t->parts[i].next++;
        return;
    }
    ev->kind = SOURCE_BATCH;
    for (; n > 0 && en != NULL && en->kind == QUEUE_RECORD; n--) {
        put_record(t, part_of(t, i), en, b, ev);
        t->parts[i].next++;
        en = entry_of(t, i);
    }
}

static bool
is_over(const struct source_task *t)
{
    const struct source *s = t->source;

    return s->queue->ended != 0 && s->queue->ended <= s->set->limit;
}

/* What there is to say where nothing is left to read. */
static void
say_end(struct source_task *t, struct source_event *ev)
{
    bool over = is_over(t);
    uint32_t i;

    for (i = 0; i < t->count; i++) {
        struct task_part *p = &t->parts[i];

        ev->part = i;
        if (over && !p->closed) {
            p->closed = true;
            ev->kind = SOURCE_PART_END;
            return;
        }
        if (!over && !p->at_end) {
            p->at_end = true;
            ev->kind = SOURCE_AT_END;
            ev->past_ms = clock_wall_ms() - part_of(t, i)->end_ms;
            return;
        }
    }
    ev->kind = over ? SOURCE_END : SOURCE_NONE;
}

static int
poll_task(struct source_task *t, struct batch *b, uint32_t max,
          struct source_event *ev, struct err *e)
{
    uint32_t i, n = 0, at = 0;

    (void)e;
    memset(ev, 0, sizeof *ev);
    ev->wait_ms = -1;
    if (add_part(t, ev))
        return 0;
    for (i = 0; i < t->count; i++) /* one of those that have something */
        if (entry_of(t, i) != NULL && queue_draw(t->source->set, ++n) == 0)
            at = i;
    if (n != 0)
        give(t, at, max, b, ev);
    else
        say_end(t, ev);
    return 0;
}

static void
stop(struct source *s)
{
    (void)s; /* a box is not stopped */
}

static int
snapshot(struct source_task *t, struct buf *out, struct err *e)
{
    uint32_t i;

    (void)e;
    blob_put(out, SNAPSHOT_VERSION, 1);
    blob_put(out, t->count, 4);
    for (i = 0; i < t->count; i++) {
        blob_put(out, (uint32_t)part_of(t, i)->number, 4);
        blob_put(out, t->parts[i].next, 8);
    }
    return 0;
}

static void
free_task(struct source_task **t)
{
    if (*t == NULL)
        return;
    free((*t)->parts);
    free(*t);
    *t = NULL;
}

const struct source_type queue_source_type = {
    .name = "queue",
    .raw_payload = true,
    .open = open_source,
    .task_new = new_task,
    .poll = poll_task,
    .stop = stop,
    .snapshot = snapshot,
    .task_free = free_task,
    .close = close_source,
};
