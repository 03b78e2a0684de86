/* The Kafka sink: one producer a step, shared by its tasks. */
#include "kafka/sink_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka.h"

enum {
    INFLIGHT_RECORDS = 100000, /* all tasks together */
    INFLIGHT_BYTES = 64 << 20,
    INFLIGHT_MIN = 1000,      /* messages of one task at least */
    CLIENT_RECORDS = 1000000, /* the client's own bound is out of the way */
    CLIENT_KBYTES = 1 << 20,
    POLL_MS = 100,
    ASK_MS = 500,
    LIMITS_MS = 1000,
    BATCH_BYTES = 1000000 /* librdkafka's default batch.size */
};

#define KAFKA_MESSAGE_BYTES 1048588 /* default max.message.bytes */

int
sink_broken_error(struct sink *s, struct err *e)
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
void
sink_set_broken(struct sink *s, const struct err *e)
{
    struct err *mine = mem_alloc(sizeof *mine), *none = NULL;

    *mine = *e;
    if (!atomic_compare_exchange_strong(&s->broken, &none, mine))
        free(mine);
}

static int64_t
limit_of(const struct sink *s, const char *topic)
{
    uint32_t i;

    for (i = 0; i < atomic_load(&s->topic_count); i++)
        if (strcmp(s->topics[i]->name, topic) == 0)
            return s->topics[i]->limits.max_message_bytes;
    return s->message_max;
}

static void
delivery_failed(struct sink *s, const rd_kafka_message_t *m)
{
    const char *topic = rd_kafka_topic_name(m->rkt);
    struct err e;

    if (s->may_lose) {
        atomic_fetch_add(&s->lost, 1);
        return;
    }
    (void)err_set(&e, ERR_IO,
                  "%s: a message to %s[%" PRId32 "] was not "
                  "delivered: %s (%s)",
                  s->client->name, topic, m->partition,
                  rd_kafka_err2str(m->err), rd_kafka_err2name(m->err));
    err_where(&e, "%s", s->client->place);
    switch (m->err) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        e.code = ERR_CONFIG;
        err_hint(&e,
                 "message of %zu bytes; the topic's max.message.bytes is "
                 "%" PRId64,
                 m->len + m->key_len, limit_of(s, topic));
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
    sink_set_broken(s, &e);
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

        if (t == NULL || (t->seen == 0 && !atomic_load(&t->full)))
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
    char max[32] = "";
    size_t max_size = sizeof max;
    int64_t most = s->message_max;
    /* That of exactly_once writes nothing. */
    bool idempotent = !s->may_lose && s->txn == NULL;
    int r = client_conf(s->client, env, &conf, e);

    if (r != 0)
        return r;
    client_force(conf, "partitioner", "murmur2_random");
    client_force(conf, "enable.idempotence", idempotent ? "true" : "false");
    client_force(conf, "acks", s->may_lose ? "1" : "all");
    if (!client_is_set(env, "queue.buffering.max.messages"))
        client_force_int(conf, "queue.buffering.max.messages", CLIENT_RECORDS);
    if (!client_is_set(env, "queue.buffering.max.kbytes"))
        client_force_int(conf, "queue.buffering.max.kbytes",
                         client_queue_kbytes(env, CLIENT_KBYTES));
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
    if (rd_kafka_conf_get(conf, "message.max.bytes", max, &max_size) ==
        RD_KAFKA_CONF_OK)
        s->client_max = strtoll(max, NULL, 10);
    max_size = sizeof max;
    if (rd_kafka_conf_get(conf, "batch.size", max, &max_size) ==
        RD_KAFKA_CONF_OK)
        s->batch_bytes = strtoll(max, NULL, 10);
    return client_start(s->client, &conf, e);
}

/* The one topic of the option. */
static int
connect_topic(struct sink *s, const struct conn_env *env, struct err *e)
{
    struct sink_topic *topic = s->topics[0];
    int32_t partitions;
    int r =
        admin_find_or_create(s->client, topic->name,
                             s->may_create ? &s->create : NULL, &partitions, e);

    if (r != 0)
        return r;
    admin_limits(s->client, topic->name, LIMITS_MS, &topic->limits);
    s->message_max = topic->limits.max_message_bytes;
    if (s->message_max == KAFKA_MESSAGE_BYTES)
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
    struct sink_topic *topic = s->topics[0];
    int r;

    topic->rkt = rd_kafka_topic_new(s->client->rk, topic->name, NULL);
    if (topic->rkt == NULL)
        return err_set(e, ERR_CONFIG, "%s: topic \"%s\": %s", s->client->name,
                       topic->name, rd_kafka_err2str(rd_kafka_last_error()));
    r = admin_find_topic(s->client, topic->name, &topic->partitions, e);
    atomic_store(&topic->ready, r == 0);
    return r;
}

/* Topics are named later: only the broker must be there. */
static int
connect_broker(struct sink *s, struct err *e)
{
    int64_t deadline = clock_mono_ms() + s->client->connect_ms;
    int r = 0;

    while (r == 0 && !client_answers(s->client, ASK_MS))
        r = client_retry(s->client, deadline, e);
    return r;
}

static int
connect_all(struct sink *s, const struct conn_env *env, struct err *e)
{
    int r;

    s->message_max = KAFKA_MESSAGE_BYTES;
    r = start_client(s, env, e);
    if (r != 0)
        return r;
    if (atomic_load(&s->topic_count) == 0) {
        r = connect_broker(s, e);
        return r != 0 ? r : sink_topics_start(s, e);
    }
    r = connect_topic(s, env, e);
    return r != 0 ? r : warm(s, e);
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
    if (s->txn != NULL)
        txn_unlisten(s->txn, &s->listener);
    if (!sink_topics_stop(s) || !stop_poller(s))
        return;                 /* it may still look at all of it */
    tell_counts(s, s->tell_at); /* a short job has no later tick */
    purge_left(s);
    if (s->main_queue != NULL)
        rd_kafka_queue_destroy(s->main_queue);
    sink_topics_free(s);
    if (s->client != NULL && !client_stop(s->client))
        return;
    client_close(&s->client);
    free(atomic_load(&s->broken));
    for (i = 0; i < s->parallelism; i++)
        free(atomic_load(&s->tasks[i]));
    (void)pthread_mutex_destroy(&s->topics_lock);
    (void)pthread_cond_destroy(&s->topics_wanted);
    free(s->tasks);
    free(s);
}

void
sink_wake_tasks(struct sink *s)
{
    uint32_t i;

    atomic_fetch_add(&s->waking, 1); /* before it looks at `gone` */
    for (i = 0; i < s->parallelism; i++) {
        struct sink_task *t = atomic_load(&s->tasks[i]);

        if (t != NULL && atomic_exchange(&t->waiting, false) &&
            !atomic_load(&t->gone))
            t->conf.wake(t->conf.wake_arg);
    }
    atomic_fetch_sub(&s->waking, 1);
}

/* A round became writable, or its producer has room again. */
static void
on_txn(void *arg)
{
    sink_wake_tasks(arg);
}

static bool
same_scalar(const struct opt *a, const struct opt *b)
{
    if (b == NULL || a->type != b->type)
        return false;
    if (a->type == OPT_STR)
        return strcmp(a->s, b->s) == 0;
    return a->type == OPT_DBL ? a->d >= b->d && a->d <= b->d : a->i == b->i;
}

/* The first property of `a` that `b` has not, or has otherwise. */
static const char *
differs(const struct opt *a, const struct opt *b)
{
    const struct opt *o;

    for (o = a == NULL ? NULL : a->first; o != NULL; o = o->next)
        if (!same_scalar(o, b == NULL ? NULL : opt_get(b, o->name)))
            return o->name;
    return NULL;
}

/* Sinks that share a producer cannot each have properties of their own. */
static int
check_properties(const struct sink *s, const struct conn_env *env,
                 struct err *e)
{
    const struct conn_env *first = &s->txn->env;
    const struct opt *a = opt_get(env->opts, "properties");
    const struct opt *b = opt_get(first->opts, "properties");
    const char *name = differs(a, b);

    if (name == NULL)
        name = differs(b, a);
    if (name == NULL)
        return 0;
    (void)err_set(e, ERR_CONFIG,
                  "%s: property \"%s\" differs from that of sink %s (%s): "
                  "exactly_once sinks share their producers",
                  s->client->name, name, first->step, first->place);
    err_hint(e, "give them the same properties, or set them in the job's "
                "options");
    err_where(e, "%s", env->place);
    return ERR_CONFIG;
}

/* Take part in the job's transactions. */
static int
join_txn(struct sink *s, struct err *e)
{
    int r = 0;

    if (atomic_load(&s->topic_count) > 0 && !s->finder_runs)
        r = txn_topic(s->txn, s->topics[0]->name, &s->topics[0]->txn_index, e);
    txn_fit(s->txn, s->message_max);
    s->listener = (struct txn_listener){.tell = on_txn, .arg = s};
    if (r == 0)
        txn_listen(s->txn, &s->listener);
    return r;
}

static int
start_poller(struct sink *s, struct err *e)
{
    s->main_queue = rd_kafka_queue_get_main(s->client->rk);
    if (pthread_create(&s->poller, NULL, poller_main, s) != 0)
        return err_set(e, ERR_NOMEM, "%s: no thread for the producer",
                       s->client->name);
    s->poller_runs = true;
    return 0;
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
    if (opt_is(env->opts, "delivery", "exactly_once")) {
        assert(env->ckpt != NULL && env->ckpt->txn != NULL);
        s->txn = env->ckpt->txn;
        s->first_round = env->ckpt->round + 1;
    }
    s->records_max = INFLIGHT_RECORDS / env->parallelism;
    if (s->records_max < INFLIGHT_MIN)
        s->records_max = INFLIGHT_MIN;
    s->bytes_max = INFLIGHT_BYTES / env->parallelism;
    (void)pthread_mutex_init(&s->topics_lock, NULL);
    (void)pthread_cond_init(&s->topics_wanted, NULL);
    if (topic != NULL && topic[0] != '\0') {
        (void)sink_topics_add(s, topic, strlen(topic));
    } else if (opt_func(env->opts, "topic_func") == 0) {
        r = err_set(e, ERR_JOBFILE, "kafka: option \"topic\" is required");
        goto fail;
    }
    s->may_create = admin_read_create(env->opts, &s->create);
    s->client = client_new(CLIENT_PRODUCER, env);
    r = s->txn == NULL ? 0 : check_properties(s, env, e);
    if (r == 0)
        r = connect_all(s, env, e);
    if (r == 0)
        r = start_poller(s, e);
    if (r == 0 && s->txn != NULL)
        r = join_txn(s, e);
    if (r != 0)
        goto fail;
    atomic_store(&s->client->down, false);
    *ret = s;
    return 0;

fail:
    sink_close(&s);
    return r;
}

/* -------------------------------------------------------- housekeeping */

static int
sink_tick(struct sink *s, struct err *e)
{
    int r;

    client_watch(s->client);
    tell_counts(s, clock_mono_ms());
    r = sink_broken_error(s, e);
    return r == 0 && s->txn != NULL ? txn_broken(s->txn, e) : r;
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
    .ready = sink_task_ready,
    .write_raw = sink_task_write,
    .batch_end = sink_task_batch_end,
    .topic = sink_task_topic,
    .partitions = sink_task_partitions,
    .flush = sink_task_flush,
    .snapshot = sink_task_snapshot,
    .tick = sink_tick,
    .task_free = sink_task_free,
    .close = sink_close,
};
