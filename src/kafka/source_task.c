#include "kafka/source_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    PAGE = 4096,
    OLDEST_TRIES = 4, /* partitions looked for by age in one poll */
    TURN_EVERY = 32,  /* polls; one in so many goes in turn */
    ASK_MS = 1000     /* a question in the way of an error */
};

/* Called by the client's threads when a queue that was empty is not. */
static void
on_queue(rd_kafka_t *rk, void *opaque)
{
    struct source_task *t = opaque;

    (void)rk;
    t->conf.wake(t->conf.wake_arg);
}

int
source_task_new(struct source *s, const struct conn_task *conf,
                struct source_task **ret, struct err *e)
{
    struct source_task *t = mem_zalloc(sizeof *t);
    size_t i;

    (void)e;
    t->source = s;
    t->conf = *conf;
    for (i = 0; i < s->count; i++)
        if (s->parts[i]->index % s->env.parallelism == conf->subtask)
            source_task_give(t, s->parts[i]);
    atomic_store(&s->tasks[conf->subtask], t);
    *ret = t;
    return 0;
}

void
source_task_give(struct source_task *t, struct part *p)
{
    if (p->queue != NULL)
        rd_kafka_queue_cb_event_enable(p->queue, on_queue, t);
    p->next_intake = atomic_load(&t->intake);
    /* Release, so that the slot sees the part it takes. */
    while (!atomic_compare_exchange_weak_explicit(&t->intake, &p->next_intake,
                                                  p, memory_order_release,
                                                  memory_order_relaxed))
        ;
    t->conf.wake(t->conf.wake_arg);
}

static void
take_intake(struct source_task *t)
{
    struct part *p, *list = NULL;

    if (atomic_load_explicit(&t->intake, memory_order_relaxed) == NULL)
        return;
    p = atomic_exchange_explicit(&t->intake, NULL, memory_order_acquire);
    while (p != NULL) { /* last in, first out: turn it round */
        struct part *next = p->next_intake;

        p->next_intake = list;
        list = p;
        p = next;
    }
    for (; list != NULL; list = list->next_intake) {
        mem_grow(&t->parts, &t->cap, t->count + 1, sizeof *t->parts);
        list->number = (uint32_t)t->count;
        if (list->ended)
            t->ended++;
        t->parts[t->count++] = list;
    }
}

/* The records of the last poll are done with. */
static void
release(struct source_task *t)
{
    for (; t->freed < t->at; t->freed++)
        rd_kafka_message_destroy(t->msgs[t->freed]);
}

static void
part_end(struct source_task *t, struct part *p)
{
    t->at = t->n; /* what is behind the end is not read */
    if (p->ended)
        return;
    p->ended = true;
    t->ended++;
    atomic_store_explicit(&p->done, true, memory_order_release);
}

const struct rec_headers *
source_read_headers(void *message, struct arena *a)
{
    rd_kafka_headers_t *from;
    struct rec_headers *h;
    size_t n, i;

    if (rd_kafka_message_headers(message, &from) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return NULL;
    n = rd_kafka_header_cnt(from);
    if (n == 0)
        return NULL;
    h = rec_headers_new(a, (uint32_t)n);
    for (i = 0; i < n; i++) {
        struct rec_header *to = &h->items[i];
        const char *name;
        const void *value;
        size_t size;

        if (rd_kafka_header_get_all(from, i, &name, &value, &size) != 0)
            continue;
        to->name = name;
        to->name_len = (uint32_t)strlen(name);
        to->value = value;
        to->value_len = (uint32_t)size;
    }
    return h;
}

#if defined(__SANITIZE_ADDRESS__)
#define COPY_ALWAYS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COPY_ALWAYS 1
#endif
#endif
#ifndef COPY_ALWAYS
#define COPY_ALWAYS 0
#endif

/* Vector code reads up to REC_PAD bytes behind a value. They are the
 * client's own memory and harmless, unless they lie in the next page, which
 * may not be mapped. A sanitizer cannot know that, so there all are copied.
 */
static const char *
padded(const char *val, size_t len, struct arena *a)
{
    if (!COPY_ALWAYS && (((uintptr_t)val + len) & (PAGE - 1)) <= PAGE - REC_PAD)
        return val;
    return arena_dup(a, val, len);
}

static void
add_record(struct source_task *t, struct part *p, rd_kafka_message_t *m,
           struct batch *batch)
{
    struct rec *r = batch_add(batch);
    rd_kafka_timestamp_type_t type;

    r->flags = t->source->rec_flags;
    r->ts = rd_kafka_message_timestamp(m, &type);
    if (type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE)
        r->flags |= REC_HAS_TS;
    if (m->payload == NULL) {
        r->kind = REC_TOMBSTONE;
    } else {
        r->kind = REC_TEXT;
        r->val = padded(m->payload, m->len, &batch->arena);
        r->val_len = (uint32_t)m->len;
    }
    if (m->key != NULL) {
        r->key = padded(m->key, m->key_len, &batch->arena);
        r->key_len = (uint32_t)m->key_len;
    }
    rec_headers_defer(r, m);
    r->offset = m->offset;
    r->partition = p->partition;
    r->topic = p->topic_id;
    r->src = t->source->env.src;
}

/* The offset asked for is not there: say what is. The job ends by this (or
 * its policy is asked), so a question to the broker may take its time. */
static int
out_of_range(struct part *p, const rd_kafka_message_t *m, rd_kafka_t *rk,
             struct err *e)
{
    int64_t low = -1, high = -1;

    (void)rd_kafka_query_watermark_offsets(rk, p->topic, p->partition, &low,
                                           &high, ASK_MS);
    if (high >= 0 && m->offset > high) {
        (void)err_set(e, ERR_FAIL,
                      "source %s[%" PRId32 "]: offset %" PRId64
                      " is beyond the end of the partition (%" PRId64 ")",
                      p->topic, p->partition, m->offset, high);
        err_hint(e, "the topic was probably deleted and made again, or lost "
                    "data; start it anew from `earliest`");
        return ERR_FAIL;
    }
    if (low > m->offset)
        (void)err_set(e, ERR_FAIL,
                      "source %s[%" PRId32 "]: offset %" PRId64
                      " is no longer on the broker, whose log begins at "
                      "%" PRId64 ": %" PRId64 " offsets were not read",
                      p->topic, p->partition, m->offset, low, low - m->offset);
    else
        (void)err_set(e, ERR_FAIL,
                      "source %s[%" PRId32 "]: the broker refuses offset "
                      "%" PRId64 " (%s)",
                      p->topic, p->partition, m->offset,
                      rd_kafka_message_errstr(m));
    err_hint(e, "retention removed records before the job read them; nothing "
                "is skipped in silence: start again with another `start`, and "
                "raise retention.ms or retention.bytes of the topic");
    return ERR_FAIL;
}

/* A message that is no record: an error of its partition. */
static int
part_error(struct source_task *t, struct part *p, rd_kafka_message_t *m,
           struct err *e)
{
    switch (m->err) {
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
        return out_of_range(p, m, t->source->client->rk, e);
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        /* The coordinator asks whether it is gone for good. */
        atomic_store(&t->source->client->suspect, true);
        return 0;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return err_set(e, ERR_CONFIG,
                       "source %s[%" PRId32 "]: no right to read the topic "
                       "(%s)",
                       p->topic, p->partition, rd_kafka_err2name(m->err));
    default:
        (void)err_set(e, ERR_UNAVAILABLE, "source %s[%" PRId32 "]: %s (%s)",
                      p->topic, p->partition, rd_kafka_message_errstr(m),
                      rd_kafka_err2name(m->err));
        if (e != NULL)
            e->flags |= ERR_RETRIABLE;
        return ERR_UNAVAILABLE;
    }
}

static void
end_of_partition(struct source_task *t, struct part *p, int64_t offset,
                 struct source_event *ev)
{
    /* Offsets up to here are control records or aborted ones. */
    if (offset > atomic_load_explicit(&p->pos, memory_order_relaxed))
        atomic_store_explicit(&p->pos, offset, memory_order_relaxed);
    if (offset >= p->end) {
        part_end(t, p);
        return;
    }
    ev->kind = SOURCE_AT_END;
    ev->part = p->number;
}

static void
batch_done(struct part *p, const rd_kafka_message_t *last, struct batch *b,
           struct source_event *ev)
{
    rd_kafka_timestamp_type_t type;

    p->last.offset = last->offset;
    p->last.ts = rd_kafka_message_timestamp(last, &type);
    p->last.hash =
        hash_key(last->payload == NULL ? "" : last->payload, last->len);
    atomic_store_explicit(&p->pos, last->offset + 1, memory_order_relaxed);
    if (b->n == 0)
        return;
    ev->kind = SOURCE_BATCH;
    ev->part = p->number;
}

/* Hand out what is in msgs, up to the next message that is no record. */
static int
deliver(struct source_task *t, struct batch *batch, struct source_event *ev,
        struct err *e)
{
    struct part *p = t->current;
    rd_kafka_message_t *last = NULL;
    bool at_end = false;

    while (t->at < t->n && !at_end) {
        rd_kafka_message_t *m = t->msgs[t->at];

        if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            if (last != NULL)
                break; /* records first; it is the next poll's */
            t->at++;
            if (m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
                return part_error(t, p, m, e);
            end_of_partition(t, p, m->offset, ev);
            return 0;
        }
        if (m->offset >= p->end) {
            at_end = true;
            break;
        }
        t->at++;
        last = m;
        ev->bytes += m->len + m->key_len;
        if (m->payload != NULL || !t->source->drop_tombstones)
            add_record(t, p, m, batch);
        at_end = m->offset + 1 >= p->end;
    }
    if (last != NULL)
        batch_done(p, last, batch, ev);
    if (at_end)
        part_end(t, p);
    return 0;
}

/* Take what a partition's queue holds. @return whether there was anything. */
static bool
fetch_part(struct source_task *t, struct part *p, uint32_t max)
{
    ssize_t n;

    if (p->ended || p->queue == NULL)
        return false;
    n = rd_kafka_consume_batch_queue(p->queue, 0, t->msgs, max);
    if (n <= 0)
        return false;
    t->n = (size_t)n;
    t->current = p;
    return true;
}

/* The partition, not tried in this turn, whose last record is the oldest. */
static struct part *
oldest(struct source_task *t, uint64_t turn)
{
    struct part *best = NULL;
    size_t i;

    for (i = 0; i < t->count; i++) {
        struct part *p = t->parts[i];

        if (p->ended || p->tried == turn)
            continue;
        if (best == NULL || p->last.ts < best->last.ts)
            best = p;
    }
    if (best != NULL)
        best->tried = turn;
    return best;
}

/*
 * Fill msgs from a partition that has something: from those that are behind
 * in message time first, so that a backlog is read evenly and few windows
 * are open at once; then in turn, so that a silent one costs nothing. Every
 * so often in turn at once: one whose time stands still starves nobody.
 */
static bool
fetch(struct source_task *t, uint32_t max)
{
    struct part *p;
    size_t i;

    t->at = t->n = t->freed = 0;
    mem_grow(&t->msgs, &t->msgs_cap, max, sizeof(rd_kafka_message_t *));
    t->polls++;
    for (i = t->polls % TURN_EVERY == 0 ? OLDEST_TRIES : 0; i < OLDEST_TRIES;
         i++) {
        p = oldest(t, t->polls);
        if (p == NULL)
            return false;
        if (fetch_part(t, p, max))
            return true;
    }
    for (i = 0; i < t->count; i++) {
        p = t->parts[t->turn % t->count];
        t->turn = (t->turn + 1) % t->count;
        if (p->tried != t->polls && fetch_part(t, p, max))
            return true;
    }
    return false;
}

static void
free_rest(struct source_task *t)
{
    t->at = t->n;
    release(t);
}

/* The next partition whose end was not told yet. */
static bool
tell_end(struct source_task *t, struct source_event *ev)
{
    size_t i;

    for (i = 0; i < t->count; i++) {
        struct part *p = t->parts[i];

        if (!p->ended || p->end_told)
            continue;
        p->end_told = true;
        t->told++;
        ev->kind = SOURCE_PART_END;
        ev->part = p->number;
        return true;
    }
    return false;
}

int
source_task_poll(struct source_task *t, struct batch *batch, uint32_t max,
                 struct source_event *ev, struct err *e)
{
    memset(ev, 0, sizeof *ev);
    ev->wait_ms = -1;
    release(t);
    if (atomic_load_explicit(&t->source->stopping, memory_order_relaxed)) {
        ev->kind = SOURCE_END;
        return 0;
    }
    take_intake(t);
    if (t->announced < t->count) {
        struct part *p = t->parts[t->announced++];

        ev->kind = SOURCE_ADDED;
        ev->part = p->number;
        ev->discovered = p->discovered;
        ev->topic = p->topic_id;
        ev->partition = p->partition;
        return 0;
    }
    for (;;) {
        int r;

        if (t->told < t->ended && tell_end(t, ev))
            return 0;
        if (t->at == t->n) {
            release(t);
            if (!fetch(t, max))
                break;
        }
        r = deliver(t, batch, ev, e);
        if (r != 0 || ev->kind != SOURCE_NONE)
            return r;
        if (t->told == t->ended) { /* only dropped ones: others' turn */
            ev->wait_ms = 0;
            return 0;
        }
    }
    if (t->source->stop != STOP_NEVER && t->told == t->count)
        ev->kind = SOURCE_END;
    return 0;
}

int
source_task_snapshot(struct source_task *t, struct buf *out, struct err *e)
{
    size_t i;

    (void)e;
    take_intake(t);
    position_put_head(out);
    for (i = 0; i < t->count; i++) {
        const struct part *p = t->parts[i];
        struct position pos = {
            .topic = p->topic,
            .topic_len = strlen(p->topic),
            .partition = p->partition,
            .next = atomic_load_explicit(&p->pos, memory_order_relaxed),
            .last = p->last,
        };

        position_put(out, &pos);
    }
    return 0;
}

void
source_task_free(struct source_task **pt)
{
    struct source_task *t = *pt;
    size_t i;

    if (t == NULL)
        return;
    *pt = NULL;
    atomic_store(&t->source->tasks[t->conf.subtask], NULL);
    take_intake(t);
    for (i = 0; i < t->count; i++)
        if (t->parts[i]->queue != NULL)
            rd_kafka_queue_cb_event_enable(t->parts[i]->queue, NULL, NULL);
    free_rest(t);
    free(t->msgs);
    free(t->parts);
    free(t);
}
