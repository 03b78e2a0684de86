/*
 * The Kafka sink: one producer a step, shared by its tasks.
 *
 * Threads: a task belongs to its slot, which produces. One poller thread a
 * sink serves the producer's callbacks: it alone touches a task's `seen_*`,
 * and adds them to `acked_*` after each round of reports. The coordinator
 * opens, ticks and closes. The first failed delivery is left in `broken`
 * for all of them.
 *
 * What is in flight is bounded per task (messages and bytes); beyond it the
 * task is not ready, and the poller wakes it. A full client queue is no
 * error: the message waits in the task's own list.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/admin.h"
#include "kafka/kafka.h"

enum {
    INFLIGHT_RECORDS = 100000, /* all tasks together */
    INFLIGHT_BYTES = 64 << 20,
    INFLIGHT_MIN = 1000,      /* messages of one task at least */
    CLIENT_RECORDS = 1000000, /* the client's own bound is out of the way */
    CLIENT_KBYTES = 1 << 20,
    POLL_MS = 100,
    LIMITS_MS = 1000,
    BATCH_BYTES = 1000000,  /* librdkafka's default batch.size */
    MESSAGE_OVERHEAD = 100, /* of a batch with one record */
    CLOCK_SLACK_MS = 1000,  /* our clock against the broker's */
    VUS_MAX = 9
};

#define KAFKA_MESSAGE_BYTES 1048588 /* default max.message.bytes */

struct pending { /* a message the client had no room for */
    struct pending *next;
    rd_kafka_headers_t *headers;
    int64_t ts;
    struct sink_message m; /* key and val point behind it */
};

struct sink_task {
    struct sink *sink;
    struct conn_task conf;
    struct pending *first, *last;
    uint64_t sent, sent_bytes;           /* accepted by the client */
    uint64_t seen, seen_bytes;           /* poller's, not yet in acked */
    _Atomic uint64_t acked, acked_bytes; /* reported */
    atomic_bool waiting;                 /* wants a wake */
    atomic_bool gone;                    /* freed by its user: no more wakes */
    int64_t now_ms;                      /* wall clock, as last looked at */
};

struct sink {
    struct client *client;
    rd_kafka_topic_t *rkt;
    rd_kafka_queue_t *main_queue; /* to end a poll early */
    char *topic;
    int32_t partitions; /* of the topic, at open */
    uint32_t parallelism;
    bool may_lose; /* delivery = "none" */
    bool compressed;
    struct admin_limits limits;
    uint64_t records_max, bytes_max; /* in flight, per task */
    _Atomic(struct sink_task *) *tasks;
    _Atomic(struct err *) broken;
    _Atomic uint64_t lost;    /* failed deliveries with may_lose */
    _Atomic uint64_t clamped; /* timestamps */
    uint64_t lost_told, clamped_told;
    int64_t tell_at;
    atomic_bool publishing; /* the poller is looking at the tasks */
    pthread_t poller;
    bool poller_runs;
    atomic_bool closing;
};

static int
broken_error(struct sink *s, struct err *e)
{
    const struct err *b =
        atomic_load_explicit(&s->broken, memory_order_acquire);

    if (b == NULL)
        return 0;
    if (e != NULL)
        *e = *b;
    return b->code;
}

/* The first failure counts; it stays until the sink is freed. */
static void
set_broken(struct sink *s, const struct err *e)
{
    struct err *mine = mem_alloc(sizeof *mine), *none = NULL;

    *mine = *e;
    if (!atomic_compare_exchange_strong(&s->broken, &none, mine))
        free(mine);
}

static void
delivery_failed(struct sink *s, const rd_kafka_message_t *m)
{
    struct err e;

    if (s->may_lose) {
        atomic_fetch_add(&s->lost, 1);
        return;
    }
    (void)err_set(&e, ERR_IO,
                  "%s: a message to %s[%" PRId32 "] was not "
                  "delivered: %s (%s)",
                  s->client->name, s->topic, m->partition,
                  rd_kafka_err2str(m->err), rd_kafka_err2name(m->err));
    err_where(&e, "%s", s->client->place);
    switch (m->err) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        e.code = ERR_CONFIG;
        err_hint(&e,
                 "message of %zu bytes; the topic's max.message.bytes is "
                 "%" PRId64,
                 m->len + m->key_len, s->limits.max_message_bytes);
        break;
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
        e.code = ERR_CONFIG;
        err_hint(&e,
                 "timestamp %" PRId64 " ms; see the topic's "
                 "message.timestamp.before.max.ms and "
                 "message.timestamp.after.max.ms",
                 rd_kafka_message_timestamp(m, NULL));
        break;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        e.code = ERR_CONFIG;
        err_hint(&e, "the topic was probably deleted while the job was "
                     "running");
        break;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        e.code = ERR_CONFIG;
        err_hint(&e, "an ACL must allow WRITE on the topic");
        break;
    default:
        e.code = ERR_UNAVAILABLE;
        e.flags |= ERR_RETRIABLE;
        break;
    }
    set_broken(s, &e);
}

static void
on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct sink_task *t = m->_private;

    (void)rk;
    (void)opaque;
    t->seen++;
    t->seen_bytes += m->len + m->key_len;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR &&
        !atomic_load_explicit(&t->sink->closing, memory_order_relaxed))
        delivery_failed(t->sink, m);
}

/* Give a round of reports to the tasks, and wake those that wait. */
static void
publish(struct sink *s)
{
    uint32_t i;

    atomic_store(&s->publishing, true); /* before it looks at `gone` */
    for (i = 0; i < s->parallelism; i++) {
        struct sink_task *t = atomic_load(&s->tasks[i]);

        if (t == NULL || t->seen == 0)
            continue;
        atomic_fetch_add(&t->acked, t->seen);
        atomic_fetch_add(&t->acked_bytes, t->seen_bytes);
        t->seen = t->seen_bytes = 0;
        /* Sequentially consistent against sink_ready() and sink_flush():
         * either they see the new count, or we see that they wait. */
        if (atomic_exchange(&t->waiting, false) && !atomic_load(&t->gone))
            t->conf.wake(t->conf.wake_arg);
    }
    atomic_store(&s->publishing, false);
}

static void *
poller_main(void *arg)
{
    struct sink *s = arg;

    while (!atomic_load(&s->closing)) {
        if (rd_kafka_poll(s->client->rk, POLL_MS) > 0)
            publish(s);
    }
    return NULL;
}

/* ------------------------------------------------------------- opening */

static int
start_client(struct sink *s, const struct conn_env *env, struct err *e)
{
    rd_kafka_conf_t *conf;
    char codec[32] = "none";
    size_t size = sizeof codec;
    int64_t most = s->limits.max_message_bytes;
    int r = client_conf(s->client, env, &conf, e);

    if (r != 0)
        return r;
    client_force(conf, "partitioner", "murmur2_random");
    client_force(conf, "enable.idempotence", s->may_lose ? "false" : "true");
    client_force(conf, "acks", s->may_lose ? "1" : "all");
    if (!client_is_set(env, "queue.buffering.max.messages"))
        client_force_int(conf, "queue.buffering.max.messages", CLIENT_RECORDS);
    if (!client_is_set(env, "queue.buffering.max.kbytes"))
        client_force_int(conf, "queue.buffering.max.kbytes", CLIENT_KBYTES);
    if (!client_is_set(env, "message.max.bytes"))
        client_force_int(conf, "message.max.bytes",
                         most < 1000         ? 1000
                         : most > 1000000000 ? 1000000000
                                             : most);
    if (!client_is_set(env, "batch.size") && most < BATCH_BYTES)
        client_force_int(conf, "batch.size", most);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    if (rd_kafka_conf_get(conf, "compression.codec", codec, &size) ==
        RD_KAFKA_CONF_OK)
        s->compressed = strcmp(codec, "none") != 0;
    return client_start(s->client, &conf, e);
}

static int
connect_topic(struct sink *s, const struct conn_env *env, struct err *e)
{
    int32_t partitions;
    int r;

    s->limits.max_message_bytes = KAFKA_MESSAGE_BYTES;
    r = start_client(s, env, e);
    if (r == 0)
        r = admin_find_topic(s->client, s->topic, &partitions, e);
    if (r != 0)
        return r;
    admin_limits(s->client, s->topic, LIMITS_MS, &s->limits);
    if (s->limits.max_message_bytes == KAFKA_MESSAGE_BYTES)
        return 0;
    /* Batches and messages must fit the topic, and those sizes belong to
     * the handle. */
    (void)client_stop(s->client);
    return start_client(s, env, e);
}

/* Name the topic before the first message: without a topic handle that one
 * waits for a timer of a second. */
static int
warm(struct sink *s, struct err *e)
{
    s->rkt = rd_kafka_topic_new(s->client->rk, s->topic, NULL);
    if (s->rkt == NULL)
        return err_set(e, ERR_CONFIG, "%s: topic \"%s\": %s", s->client->name,
                       s->topic, rd_kafka_err2str(rd_kafka_last_error()));
    return admin_find_topic(s->client, s->topic, &s->partitions, e);
}

static void
tell_counts(struct sink *s, int64_t now)
{
    uint64_t lost = atomic_load(&s->lost);
    uint64_t clamped = atomic_load(&s->clamped);

    if (now < s->tell_at)
        return;
    if (lost > s->lost_told)
        log_line(LOG_WARN,
                 "%s: %" PRIu64 " messages were not delivered "
                 "(delivery=\"none\")",
                 s->client->name, lost);
    if (clamped > s->clamped_told)
        log_line(LOG_WARN,
                 "%s: timestamp_clamped=%" PRIu64 ": event times "
                 "further ahead than the topic allows were written "
                 "as now",
                 s->client->name, clamped);
    if (lost > s->lost_told || clamped > s->clamped_told)
        s->tell_at = now + 10000;
    s->lost_told = lost;
    s->clamped_told = clamped;
}

/* What was not delivered by now is given up (the end was not waited for). */
static void
purge_left(struct sink *s)
{
    if (s->client != NULL && s->client->rk != NULL &&
        rd_kafka_outq_len(s->client->rk) > 0)
        (void)rd_kafka_purge(s->client->rk, RD_KAFKA_PURGE_F_QUEUE |
                                                RD_KAFKA_PURGE_F_INFLIGHT);
}

/* End the poller; it leaves within one poll. */
static bool
stop_poller(struct sink *s)
{
    struct timespec until;

    if (!s->poller_runs)
        return true;
    s->poller_runs = false;
    rd_kafka_queue_yield(s->main_queue);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLIENT_CLOSE_MS / 1000;
    return pthread_timedjoin_np(s->poller, NULL, &until) == 0;
}

static void
sink_close(struct sink **ps)
{
    struct sink *s = *ps;
    uint32_t i;

    if (s == NULL)
        return;
    *ps = NULL;
    atomic_store(&s->closing, true);
    if (!stop_poller(s))
        return;                 /* it may still look at all of it */
    tell_counts(s, s->tell_at); /* a short job has no later tick */
    purge_left(s);
    if (s->main_queue != NULL)
        rd_kafka_queue_destroy(s->main_queue);
    if (s->rkt != NULL)
        rd_kafka_topic_destroy(s->rkt);
    if (s->client != NULL && !client_stop(s->client))
        return;
    client_close(&s->client);
    free(atomic_load(&s->broken));
    for (i = 0; i < s->parallelism; i++)
        free(atomic_load(&s->tasks[i]));
    free(s->topic);
    free(s->tasks);
    free(s);
}

static int
sink_open(const struct conn_env *env, struct sink **ret, struct err *e)
{
    struct sink *s = mem_zalloc(sizeof *s);
    const char *topic = opt_str(env->opts, "topic", NULL);
    int r;

    s->parallelism = env->parallelism;
    s->tasks = mem_zalloc(env->parallelism * sizeof *s->tasks);
    s->may_lose = opt_is(env->opts, "delivery", "none");
    s->records_max = INFLIGHT_RECORDS / env->parallelism;
    if (s->records_max < INFLIGHT_MIN)
        s->records_max = INFLIGHT_MIN;
    s->bytes_max = INFLIGHT_BYTES / env->parallelism;
    if (topic == NULL || topic[0] == '\0') {
        r = err_set(e, ERR_JOBFILE, "kafka: option \"topic\" is required");
        goto fail;
    }
    s->topic = mem_strdup(topic);
    s->client = client_new(CLIENT_PRODUCER, env);
    r = connect_topic(s, env, e);
    if (r == 0)
        r = warm(s, e);
    if (r != 0)
        goto fail;
    s->main_queue = rd_kafka_queue_get_main(s->client->rk);
    if (pthread_create(&s->poller, NULL, poller_main, s) != 0) {
        r = err_set(e, ERR_NOMEM, "%s: no thread for the producer",
                    s->client->name);
        goto fail;
    }
    s->poller_runs = true;
    atomic_store(&s->client->down, false);
    *ret = s;
    return 0;

fail:
    sink_close(&s);
    return r;
}

static int
sink_task_new(struct sink *s, const struct conn_task *conf,
              struct sink_task **ret, struct err *e)
{
    struct sink_task *t = mem_zalloc(sizeof *t);

    (void)e;
    t->sink = s;
    t->conf = *conf;
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
    rd_kafka_vu_t v[VUS_MAX];
    rd_kafka_error_t *error;
    rd_kafka_resp_err_t err;
    size_t n = 0;

    v[n].vtype = RD_KAFKA_VTYPE_RKT;
    v[n++].u.rkt = t->sink->rkt;
    v[n].vtype = RD_KAFKA_VTYPE_PARTITION;
    v[n++].u.i32 = m->partition < 0 ? RD_KAFKA_PARTITION_UA : m->partition;
    v[n].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    v[n++].u.i = RD_KAFKA_MSG_F_COPY;
    set_ptr(&v[n++], RD_KAFKA_VTYPE_VALUE, m->val,
            m->val == NULL ? 0 : m->val_len);
    if (m->key != NULL)
        set_ptr(&v[n++], RD_KAFKA_VTYPE_KEY, m->key, m->key_len);
    v[n].vtype = RD_KAFKA_VTYPE_OPAQUE;
    v[n++].u.ptr = t;
    v[n].vtype = RD_KAFKA_VTYPE_TIMESTAMP;
    v[n++].u.i64 = ts;
    if (headers != NULL) {
        v[n].vtype = RD_KAFKA_VTYPE_HEADERS;
        v[n++].u.headers = headers;
    }
    error = rd_kafka_produceva(t->sink->client->rk, v, n);
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
out_ts(struct sink_task *t, const struct rec *r)
{
    int64_t ahead = t->sink->limits.ts_after_ms;

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
}

static int
refused(struct sink_task *t, const struct sink_message *m,
        rd_kafka_resp_err_t err, struct err *e)
{
    struct sink *s = t->sink;
    struct err own;
    char text[256] = "";

    if (err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
        return err_record(e, CAUSE_ENCODE,
                          "message of %" PRIu64 " bytes is larger than the "
                          "client's message.max.bytes",
                          (uint64_t)m->key_len + m->val_len);
    if (err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION && m->partition >= 0)
        return err_record(e, CAUSE_ENCODE,
                          "partition %" PRId32 " does not exist in topic "
                          "\"%s\"",
                          m->partition, s->topic);
    if (err == RD_KAFKA_RESP_ERR__FATAL)
        (void)rd_kafka_fatal_error(s->client->rk, text, sizeof text);
    (void)err_set(&own, ERR_IO, "%s: topic \"%s\" takes no message: %s%s%s",
                  s->client->name, s->topic, rd_kafka_err2str(err),
                  text[0] == '\0' ? "" : ": ", text);
    err_where(&own, "%s", s->client->place);
    if (err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
        err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
        own.code = ERR_CONFIG;
        err_hint(&own, "the topic was probably deleted while the job was "
                       "running");
    }
    set_broken(s, &own);
    return broken_error(s, e);
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
            return 0;
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
    return 0;
}

static bool
has_room(const struct sink_task *t)
{
    const struct sink *s = t->sink;

    return t->sent - atomic_load(&t->acked) < s->records_max &&
           t->sent_bytes - atomic_load(&t->acked_bytes) < s->bytes_max;
}

static bool
sink_ready(struct sink_task *t)
{
    struct err e;

    if (atomic_load_explicit(&t->sink->broken, memory_order_relaxed) != NULL)
        return true; /* so that the next write tells */
    if (t->first != NULL && drain(t, &e) != 0)
        set_broken(t->sink, &e);
    if (t->first == NULL && has_room(t))
        return true;
    atomic_store(&t->waiting, true);
    if (t->first == NULL && has_room(t))
        return true; /* reports came in between; a wake too many is harmless */
    return false;
}

static int
sink_write(struct sink_task *t, const struct rec *r,
           const struct sink_message *m, struct err *e)
{
    struct sink *s = t->sink;
    uint64_t size = (uint64_t)m->key_len + m->val_len;
    rd_kafka_headers_t *headers;
    rd_kafka_resp_err_t err;
    int64_t ts;

    if (atomic_load_explicit(&s->broken, memory_order_relaxed) != NULL)
        return broken_error(s, e);
    if (!s->compressed && size + headers_size(r->headers) + MESSAGE_OVERHEAD >
                              (uint64_t)s->limits.max_message_bytes) {
        (void)err_record(e, CAUSE_ENCODE,
                         "message of %" PRIu64 " bytes is larger than the "
                         "max.message.bytes of topic \"%s\", %" PRId64,
                         size, s->topic, s->limits.max_message_bytes);
        err_hint(e, "raise max.message.bytes of the topic, or set "
                    "compression.codec in properties");
        return ERR_RECORD;
    }
    ts = out_ts(t, r);
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

static int
sink_batch_end(struct sink_task *t, struct err *e)
{
    int r = broken_error(t->sink, e);

    return r != 0 || t->first == NULL ? r : drain(t, e);
}

static int
sink_flush(struct sink_task *t, struct err *e)
{
    int r = sink_batch_end(t, e);

    if (r != 0)
        return r;
    /* Order: say that we wait, then look. */
    atomic_store(&t->waiting, true);
    if (t->first == NULL && atomic_load(&t->acked) == t->sent) {
        atomic_store(&t->waiting, false);
        return broken_error(t->sink, e);
    }
    return ERR_AGAIN;
}

static void
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
    /* Reports may still come for it, so the struct stays until the sink is
     * closed. No wake is under way after this. */
    atomic_store(&t->gone, true);
    while (atomic_load(&t->sink->publishing))
        (void)sched_yield();
}

/* -------------------------------------------------------- housekeeping */

static int
sink_tick(struct sink *s, struct err *e)
{
    client_watch(s->client);
    tell_counts(s, clock_mono_ms());
    return broken_error(s, e);
}

static int32_t
sink_partitions(struct sink_task *t)
{
    return t->sink->partitions;
}

static uint64_t
sink_clamped(struct sink *s)
{
    return atomic_load_explicit(&s->clamped, memory_order_relaxed);
}

const struct sink_type kafka_sink_type = {
    .name = "kafka",
    .raw_payload = true,
    .open = sink_open,
    .task_new = sink_task_new,
    .clamped = sink_clamped,
    .ready = sink_ready,
    .write_raw = sink_write,
    .batch_end = sink_batch_end,
    .partitions = sink_partitions,
    .flush = sink_flush,
    .tick = sink_tick,
    .task_free = sink_task_free,
    .close = sink_close,
};
