/* The slot's half of the Kafka sink: produce, wait, flush. */
#include "kafka/sink_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    MESSAGE_OVERHEAD = 100, /* of a batch with one record */
    CLIENT_OVERHEAD = 36,   /* the client's own, of one message */
    CLOCK_SLACK_MS = 1000,  /* our clock against the broker's */
    VUS_MAX = 9
};

int
sink_task_new(struct sink *s, const struct conn_task *conf,
              struct sink_task **ret, struct err *e)
{
    struct sink_task *t = mem_zalloc(sizeof *t);

    (void)e;
    t->sink = s;
    t->conf = *conf;
    t->round = s->first_round;
    atomic_store(&s->tasks[conf->subtask], t);
    *ret = t;
    return 0;
}

/* ------------------------------------------------------------- writing */

static void
set_ptr(rd_kafka_vu_t *v, rd_kafka_vtype_t type, const void *p, size_t size)
{
    v->vtype = type;
    v->u.mem.ptr = (void *)(uintptr_t)p;
    v->u.mem.size = size;
}

/* Hand one message to the client. The headers are the client's on success
 * and stay the caller's otherwise. */
static rd_kafka_resp_err_t
produce(struct sink_task *t, const struct sink_message *m, int64_t ts,
        rd_kafka_headers_t *headers)
{
    rd_kafka_t *rk = t->sink->client->rk;
    const struct sink_topic *topic = t->sink->topics[m->topic];
    rd_kafka_topic_t *rkt = topic->rkt;
    struct txn_handle *h = NULL;
    rd_kafka_vu_t v[VUS_MAX];
    rd_kafka_error_t *error;
    rd_kafka_resp_err_t err;
    size_t n = 0;

    if (t->sink->txn != NULL) {
        h = txn_handle(t->sink->txn, t->round);
        if (h == NULL) /* its producer is being made */
            return RD_KAFKA_RESP_ERR__QUEUE_FULL;
        rk = h->client->rk;
        rkt = h->topics[topic->txn_index];
        txn_handle_touch(h, clock_mono_ms);
    }
    v[n].vtype = RD_KAFKA_VTYPE_RKT;
    v[n++].u.rkt = rkt;
    v[n].vtype = RD_KAFKA_VTYPE_PARTITION;
    v[n++].u.i32 = m->partition < 0 ? RD_KAFKA_PARTITION_UA : m->partition;
    v[n].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    v[n++].u.i = RD_KAFKA_MSG_F_COPY;
    set_ptr(&v[n++], RD_KAFKA_VTYPE_VALUE, m->val,
            m->val == NULL ? 0 : m->val_len);
    if (m->key != NULL)
        set_ptr(&v[n++], RD_KAFKA_VTYPE_KEY, m->key, m->key_len);
    v[n].vtype = RD_KAFKA_VTYPE_OPAQUE;
    v[n++].u.ptr = h == NULL ? t : NULL; /* reports of h know no task */
    v[n].vtype = RD_KAFKA_VTYPE_TIMESTAMP;
    v[n++].u.i64 = ts;
    if (headers != NULL) {
        v[n].vtype = RD_KAFKA_VTYPE_HEADERS;
        v[n++].u.headers = headers;
    }
    error = rd_kafka_produceva(rk, v, n);
    if (error != NULL) {
        err = rd_kafka_error_code(error);
        rd_kafka_error_destroy(error);
        return err;
    }
    t->sent++;
    t->sent_bytes += (m->val == NULL ? 0 : m->val_len) + m->key_len;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_headers_t *
make_headers(const struct rec_headers *from)
{
    rd_kafka_headers_t *h;
    uint32_t i;

    if (from == NULL || from->count == 0)
        return NULL;
    h = rd_kafka_headers_new(from->count);
    for (i = 0; i < from->count; i++) {
        const struct rec_header *x = &from->items[i];

        (void)rd_kafka_header_add(h, x->name, (ssize_t)x->name_len, x->value,
                                  x->value == NULL ? 0 : (ssize_t)x->value_len);
    }
    return h;
}

static uint64_t
headers_size(const struct rec_headers *h)
{
    uint64_t size = 0;
    uint32_t i;

    for (i = 0; h != NULL && i < h->count; i++)
        size += h->items[i].name_len + h->items[i].value_len + 10u;
    return size;
}

/* The timestamp to write. The client takes 0 for "now"; the broker refuses
 * one that is too far ahead for ever. */
static int64_t
out_ts(struct sink_task *t, const struct sink_topic *topic, const struct rec *r)
{
    int64_t ahead = topic->limits.ts_after_ms;

    if (!(r->flags & REC_HAS_TS))
        return 0;
    if (r->ts == 0)
        return 1;
    if (ahead > 10 * CLOCK_SLACK_MS)
        ahead -= CLOCK_SLACK_MS;
    if (r->ts <= t->now_ms || r->ts - t->now_ms <= ahead)
        return r->ts;
    t->now_ms = clock_wall_ms();
    if (r->ts <= t->now_ms || r->ts - t->now_ms <= ahead)
        return r->ts;
    atomic_fetch_add_explicit(&t->sink->clamped, 1, memory_order_relaxed);
    return t->now_ms;
}

static void
keep(struct sink_task *t, const struct sink_message *m, int64_t ts,
     rd_kafka_headers_t *headers)
{
    struct pending *p = mem_alloc(sizeof *p + m->key_len + m->val_len + 2);
    char *bytes = (char *)(p + 1);

    p->next = NULL;
    p->headers = headers;
    p->ts = ts;
    p->m = *m;
    if (m->key != NULL) {
        memcpy(bytes, m->key, m->key_len);
        p->m.key = bytes;
    }
    if (m->val != NULL) {
        memcpy(bytes + m->key_len, m->val, m->val_len);
        p->m.val = bytes + m->key_len;
    }
    if (t->first == NULL)
        t->first = p;
    else
        t->last->next = p;
    t->last = p;
    atomic_store(&t->full, true);
}

static int
too_large(const struct sink *s, const struct sink_message *m, struct err *e)
{
    (void)err_record(e, CAUSE_ENCODE,
                     "message of %" PRIu64 " bytes is larger than the client's "
                     "message.max.bytes, %" PRId64,
                     (uint64_t)m->key_len + m->val_len, s->client_max);
    return ERR_RECORD;
}

static int
refused(struct sink_task *t, const struct sink_message *m,
        rd_kafka_resp_err_t err, struct err *e)
{
    struct sink *s = t->sink;
    struct txn_handle *h = s->txn == NULL ? NULL : txn_handle(s->txn, t->round);
    struct err own;
    char text[256] = "";

    if (err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
        return too_large(s, m, e);
    if (err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION && m->partition >= 0)
        return err_record(e, CAUSE_ENCODE,
                          "partition %" PRId32 " does not exist in topic "
                          "\"%s\"",
                          m->partition, s->topics[m->topic]->name);
    if (err == RD_KAFKA_RESP_ERR__FATAL)
        (void)rd_kafka_fatal_error(h == NULL ? s->client->rk : h->client->rk,
                                   text, sizeof text);
    (void)err_set(&own, ERR_IO, "%s: topic \"%s\" takes no message: %s%s%s",
                  s->client->name, s->topics[m->topic]->name,
                  rd_kafka_err2str(err), text[0] == '\0' ? "" : ": ", text);
    err_where(&own, "%s", s->client->place);
    if (h != NULL) { /* its round is lost, another producer may go on */
        own.code = ERR_UNAVAILABLE;
        own.flags |= ERR_RETRIABLE;
    }
    if (err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
        err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
        own.code = ERR_CONFIG;
        own.flags = 0;
        err_hint(&own, "the topic was probably deleted while the job was "
                       "running");
    }
    sink_set_broken(s, &own);
    return sink_broken_error(s, e);
}

/* Offer waiting messages again, oldest first. */
static int
drain(struct sink_task *t, struct err *e)
{
    while (t->first != NULL) {
        struct pending *p = t->first;
        rd_kafka_resp_err_t err = produce(t, &p->m, p->ts, p->headers);
        int r = 0;

        if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            return 0; /* in order: nothing passes it */
        if (err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            r = refused(t, &p->m, err, e);
            if (p->headers != NULL)
                rd_kafka_headers_destroy(p->headers);
        }
        t->first = p->next;
        free(p);
        if (r != 0)
            return r;
    }
    atomic_store(&t->full, false);
    return 0;
}

static bool
has_room(const struct sink_task *t)
{
    const struct sink *s = t->sink;

    if (s->txn != NULL) {
        const struct txn_handle *h = txn_handle(s->txn, t->round);

        return h != NULL && txn_handle_has_room(h);
    }
    return t->sent - atomic_load(&t->acked) < s->records_max &&
           t->sent_bytes - atomic_load(&t->acked_bytes) < s->bytes_max;
}

/* Have a wake when there is room: by the poller of the sink, or of the
 * round's producer, which also tells when it is made. */
static void
want_room(struct sink_task *t)
{
    struct sink *s = t->sink;
    struct txn_handle *h;

    atomic_store(&t->waiting, true);
    if (s->txn == NULL)
        return;
    h = txn_handle(s->txn, t->round);
    if (h != NULL)
        txn_handle_want_room(h);
}

bool
sink_task_ready(struct sink_task *t)
{
    struct err e;

    if (atomic_load_explicit(&t->sink->broken, memory_order_relaxed) != NULL)
        return true; /* so that the next write tells */
    if (t->first != NULL && drain(t, &e) != 0)
        sink_set_broken(t->sink, &e);
    if (t->first == NULL && has_room(t))
        return true;
    want_room(t);
    if (t->first == NULL && has_room(t))
        return true; /* reports came in between; a wake too many is harmless */
    return false;
}

int
sink_task_write(struct sink_task *t, const struct rec *r,
                const struct sink_message *m, struct err *e)
{
    struct sink *s = t->sink;
    const struct sink_topic *topic = s->topics[m->topic];
    uint64_t size = (uint64_t)m->key_len + m->val_len;
    rd_kafka_headers_t *headers;
    rd_kafka_resp_err_t err;
    int64_t ts;

    if (atomic_load_explicit(&s->broken, memory_order_relaxed) != NULL)
        return sink_broken_error(s, e);
    if (!s->compressed && size + headers_size(r->headers) + MESSAGE_OVERHEAD >
                              (uint64_t)topic->limits.max_message_bytes) {
        (void)err_record(e, CAUSE_ENCODE,
                         "message of %" PRIu64 " bytes is larger than the "
                         "max.message.bytes of topic \"%s\", %" PRId64,
                         size, topic->name, topic->limits.max_message_bytes);
        err_hint(e, "raise max.message.bytes of the topic, or set "
                    "compression.codec in properties");
        return ERR_RECORD;
    }
    /* Also of one that waits: later it would be the sink's failure. */
    if (size + headers_size(r->headers) + CLIENT_OVERHEAD >
        (uint64_t)s->client_max)
        return too_large(s, m, e);
    ts = out_ts(t, topic, r);
    headers = make_headers(r->headers);
    if (t->first != NULL) { /* behind those that wait */
        keep(t, m, ts, headers);
        return drain(t, e);
    }
    err = produce(t, m, ts, headers);
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        keep(t, m, ts, headers);
        return 0;
    }
    if (headers != NULL)
        rd_kafka_headers_destroy(headers);
    return refused(t, m, err, e);
}

int
sink_task_batch_end(struct sink_task *t, struct err *e)
{
    int r = sink_broken_error(t->sink, e);

    return r != 0 || t->first == NULL ? r : drain(t, e);
}

/* The round's commit waits for the delivery; here everything has only to be
 * with the round's producer. */
static int
flush_round(struct sink_task *t, struct err *e)
{
    if (t->first == NULL)
        return 0;
    want_room(t);
    /* Room may have come in between: look again, or the wake is lost. */
    return drain(t, e) != 0 ? e->code : t->first == NULL ? 0 : ERR_AGAIN;
}

int
sink_task_flush(struct sink_task *t, struct err *e)
{
    int r = sink_task_batch_end(t, e);

    if (r != 0)
        return r;
    if (t->sink->txn != NULL)
        return flush_round(t, e);
    /* Order: say that we wait, then look. */
    atomic_store(&t->waiting, true);
    if (t->first == NULL && atomic_load(&t->acked) == t->sent) {
        atomic_store(&t->waiting, false);
        return sink_broken_error(t->sink, e);
    }
    return ERR_AGAIN;
}

int
sink_task_snapshot(struct sink_task *t, uint64_t round, struct buf *out,
                   struct err *e)
{
    (void)out;
    (void)e;
    if (t->sink->txn == NULL || round == SNAPSHOT_END)
        return 0;
    assert(t->first == NULL && round >= t->round);
    t->round = round + 1;
    return 0;
}

void
sink_task_free(struct sink_task **pt)
{
    struct sink_task *t = *pt;

    if (t == NULL)
        return;
    *pt = NULL;
    while (t->first != NULL) {
        struct pending *p = t->first;

        t->first = p->next;
        if (p->headers != NULL)
            rd_kafka_headers_destroy(p->headers);
        free(p);
    }
    free(t->slots);
    t->slots = NULL;
    /* Reports may still come for it, so the struct stays until the sink is
     * closed. No wake is under way after this. */
    atomic_store(&t->gone, true);
    while (atomic_load(&t->sink->publishing) ||
           atomic_load(&t->sink->waking) > 0 ||
           (t->sink->txn != NULL && atomic_load(&t->sink->txn->telling) > 0))
        (void)sched_yield();
}
