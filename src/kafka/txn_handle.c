/* One producer of one round: how it is made, commits and ends. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/admin.h"
#include "kafka/txn_impl.h"

enum {
    POLL_MS = 100,
    POLL_WAITED_MS = 5, /* while a task waits for room */
    INIT_MS = 1000,     /* one call; it is resumed */
    BATCH_BYTES = 1000000,
    MESSAGE_MAX = 1000000000,
    ASK_MS = 1000,
    REPORT_MS = 500,
    WHAT_MAX = 80,
    KEY_SHOWN = 40
};

/* ---------------------------------------------------------- callbacks */

static void
set_fenced(struct txn *t, rd_kafka_resp_err_t err)
{
    if (err == RD_KAFKA_RESP_ERR__FENCED)
        atomic_store(&t->fenced, true);
}

/* The producer is of no more use, so its round cannot be committed. What
 * became of it is found out by who takes it from here. */
static void
on_fatal(struct client *c, rd_kafka_resp_err_t err, const char *text)
{
    struct txn_handle *h = c->user;
    struct err e;

    if (atomic_load(&h->closing))
        return;
    set_fenced(h->txn, err);
    (void)err_set(&e, ERR_UNAVAILABLE, "%s: the producer of \"%s\" %s: %s (%s)",
                  c->name, h->id,
                  err == RD_KAFKA_RESP_ERR__FENCED
                      ? "was fenced, or its transaction timed out"
                      : "failed",
                  text, rd_kafka_err2name(err));
    err_where(&e, "%s", c->place);
    e.flags |= ERR_RETRIABLE;
    txn_set_broken(h->txn, &e);
}

/* What a message that can never be delivered needs; false: it may pass. */
static bool
hint_refused(const rd_kafka_message_t *m, struct err *e)
{
    switch (m->err) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        err_hint(e, "it has %zu bytes; raise the topic's max.message.bytes",
                 m->len + m->key_len);
        return true;
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
        err_hint(e,
                 "its timestamp is %" PRId64 " ms; see the topic's "
                 "message.timestamp.before.max.ms and "
                 "message.timestamp.after.max.ms",
                 rd_kafka_message_timestamp(m, NULL));
        return true;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        err_hint(e, "the topic was probably deleted while the job was running");
        return true;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        err_hint(e, "an ACL must allow WRITE on the topic and on the "
                    "transactional ids");
        return true;
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        err_hint(e, "does the topic ask for a key (cleanup.policy=compact)?");
        return true;
    default:
        return false;
    }
}

static void
on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct client *c = opaque;
    struct txn_handle *h = c->user;
    int key_len = m->key_len < KEY_SHOWN ? (int)m->key_len : KEY_SHOWN;
    struct err e;

    (void)rk;
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR || atomic_load(&h->closing))
        return;
    if (m->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
        m->err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
        return; /* given up because another one failed, which is told */
    (void)err_set(&e, ERR_UNAVAILABLE,
                  "%s: a message to %s[%" PRId32 "] (%s%.*s%s) was not "
                  "delivered: %s (%s)",
                  c->name, m->rkt == NULL ? "?" : rd_kafka_topic_name(m->rkt),
                  m->partition, m->key == NULL ? "no key" : "key \"", key_len,
                  m->key == NULL ? "" : (const char *)m->key,
                  m->key == NULL ? "" : "\"", rd_kafka_err2str(m->err),
                  rd_kafka_err2name(m->err));
    err_where(&e, "%s", c->place);
    if (hint_refused(m, &e))
        e.code = ERR_CONFIG;
    else
        e.flags |= ERR_RETRIABLE;
    txn_set_broken(h->txn, &e);
}

/* Delivery reports are of failures only, so that a message that arrives
 * costs nothing; the offset of the marker comes by this. */
static rd_kafka_resp_err_t
on_ack(rd_kafka_t *rk, rd_kafka_message_t *m, void *arg)
{
    struct txn_handle *h = arg;

    (void)rk;
    if (m->_private == h && m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        atomic_store(&h->marker_at, m->offset < 0 ? -1 : m->offset);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t
on_new(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *arg, char *text,
       size_t size)
{
    (void)conf;
    (void)text;
    (void)size;
    return rd_kafka_interceptor_add_on_acknowledgement(rk, "streamlua", on_ack,
                                                       arg);
}

static void *
poller_main(void *arg)
{
    struct txn_handle *h = arg;

    while (!atomic_load(&h->closing)) {
        (void)rd_kafka_poll(
            h->client->rk, atomic_load(&h->waiting) ? POLL_WAITED_MS : POLL_MS);
        if (atomic_load(&h->waiting) &&
            rd_kafka_outq_len(h->client->rk) <= TXN_QUEUE_MAX / 2 &&
            atomic_exchange(&h->waiting, false))
            txn_tell(h->txn);
    }
    return NULL;
}

bool
txn_handle_has_room(const struct txn_handle *h)
{
    return rd_kafka_outq_len(h->client->rk) < TXN_QUEUE_MAX;
}

void
txn_handle_want_room(struct txn_handle *h)
{
    if (!atomic_exchange(&h->waiting, true))
        rd_kafka_queue_yield(h->main_queue);
}

/* ------------------------------------------------------- make and end */

static void
set_sizes(const struct txn *t, rd_kafka_conf_t *conf)
{
    int64_t most = t->message_max;

    if (!client_is_set(&t->env, "queue.buffering.max.messages"))
        client_force_int(conf, "queue.buffering.max.messages",
                         2 * TXN_QUEUE_MAX);
    if (!client_is_set(&t->env, "queue.buffering.max.kbytes"))
        client_force_int(conf, "queue.buffering.max.kbytes",
                         client_queue_kbytes(&t->env, TXN_QUEUE_KBYTES));
    if (most == 0)
        return;
    if (!client_is_set(&t->env, "message.max.bytes"))
        client_force_int(conf, "message.max.bytes",
                         most < 1000          ? 1000
                         : most > MESSAGE_MAX ? MESSAGE_MAX
                                              : most);
    if (!client_is_set(&t->env, "batch.size") && t->batch_max < BATCH_BYTES)
        client_force_int(conf, "batch.size", t->batch_max);
}

static int
start_producer(struct txn_handle *h, struct err *e)
{
    struct txn *t = h->txn;
    struct client *c = client_new(CLIENT_PRODUCER, &t->env);
    rd_kafka_conf_t *conf;
    int r;

    h->client = c;
    c->user = h;
    c->on_fatal = on_fatal;
    r = client_conf(c, &t->env, &conf, e);
    if (r != 0)
        return r;
    client_force(conf, "transactional.id", h->id);
    client_force_int(conf, "transaction.timeout.ms", t->timeout_ms);
    client_force(conf, "partitioner", "murmur2_random");
    client_force(conf, "delivery.report.only.error", "true");
    set_sizes(t, conf);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    (void)rd_kafka_conf_interceptor_add_on_new(conf, "streamlua", on_new, h);
    return client_start(c, &conf, e);
}

static int
not_named(struct txn_handle *h, const char *topic, struct err *e)
{
    return err_set(e, ERR_CONFIG, "%s: topic \"%s\": %s", h->client->name,
                   topic, rd_kafka_err2str(rd_kafka_last_error()));
}

int
txn_handle_name(struct txn_handle *h, uint32_t index, struct err *e)
{
    const char *topic = h->txn->topics[index];

    h->topics[index] = rd_kafka_topic_new(h->client->rk, topic, NULL);
    return h->topics[index] == NULL ? not_named(h, topic, e) : 0;
}

/* Name all topics before the first message: without a topic handle that one
 * waits for a timer of a second. */
static int
name_topics(struct txn_handle *h, struct err *e)
{
    struct txn *t = h->txn;
    uint32_t i;
    int r = 0;

    h->marker = rd_kafka_topic_new(h->client->rk, t->topic, NULL);
    if (h->marker == NULL)
        return not_named(h, t->topic, e);
    (void)pthread_mutex_lock(&t->topics_lock);
    for (i = 0; r == 0 && i < atomic_load(&t->topic_count); i++)
        r = txn_handle_name(h, i, e);
    h->named = r == 0;
    (void)pthread_mutex_unlock(&t->topics_lock);
    return r;
}

/* Nobody names it a topic after this. */
static void
forget_topics(struct txn_handle *h)
{
    uint32_t i;

    (void)pthread_mutex_lock(&h->txn->topics_lock);
    h->named = false;
    for (i = 0; i < TXN_TOPICS_MAX; i++) {
        if (h->topics[i] != NULL)
            rd_kafka_topic_destroy(h->topics[i]);
        h->topics[i] = NULL;
    }
    (void)pthread_mutex_unlock(&h->txn->topics_lock);
}

/* A failure that does not pass by itself. */
static int
init_failed(struct txn_handle *h, const rd_kafka_error_t *error, struct err *e)
{
    const struct txn *t = h->txn;
    rd_kafka_resp_err_t err = rd_kafka_error_code(error);
    char text[256] = "";
    int code = ERR_UNAVAILABLE;

    if (rd_kafka_error_is_fatal(error)) {
        rd_kafka_resp_err_t cause =
            rd_kafka_fatal_error(h->client->rk, text, sizeof text);

        err = cause != 0 ? cause : err;
    }
    set_fenced(h->txn, err);
    if (err == RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT ||
        err == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED ||
        err == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED)
        code = ERR_CONFIG;
    (void)err_set(e, code, "%s: transactional id \"%s\": %s (%s)",
                  h->client->name, h->id,
                  text[0] == '\0' ? rd_kafka_error_string(error) : text,
                  rd_kafka_err2name(err));
    if (err == RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT)
        err_hint(e,
                 "transaction.timeout.ms is %" PRId64 " (2 intervals of "
                 "checkpoints and 120 s, unless properties set it) and above "
                 "the broker's transaction.max.timeout.ms",
                 t->timeout_ms);
    else if (code == ERR_CONFIG)
        err_hint(e,
                 "an ACL must allow DESCRIBE and WRITE on the transactional "
                 "ids \"%s-0\" and \"%s-1\"",
                 t->prefix, t->prefix);
    else if (e != NULL)
        e->flags |= ERR_RETRIABLE;
    err_where(e, "%s", h->client->place);
    return code;
}

static int
init_id(struct txn_handle *h, struct err *e)
{
    struct patience p;
    char what[WHAT_MAX];

    if (fault_hit("txn_init"))
        return txn_fault("txn_init", e);
    (void)snprintf(what, sizeof what, "the start of \"%.50s\"", h->id);
    txn_patience(h->txn, h->client, what, &p);
    for (;;) {
        rd_kafka_error_t *error =
            rd_kafka_init_transactions(h->client->rk, INIT_MS);
        int r = 0;

        if (error == NULL)
            return 0;
        if (rd_kafka_error_is_fatal(error) ||
            !rd_kafka_error_is_retriable(error))
            r = init_failed(h, error, e);
        rd_kafka_error_destroy(error);
        if (r == 0)
            r = txn_patient(h->txn, &p, e);
        if (r != 0)
            return r;
    }
}

int
txn_handle_open(struct txn_handle *h, struct err *e)
{
    int r;

    assert(h->client == NULL);
    atomic_store(&h->closing, false);
    atomic_store(&h->waiting, false);
    atomic_store(&h->marker_at, -1);
    h->ended_ms = 0;
    r = start_producer(h, e);
    if (r == 0)
        r = name_topics(h, e);
    if (r != 0)
        return r;
    h->main_queue = rd_kafka_queue_get_main(h->client->rk);
    if (pthread_create(&h->poller, NULL, poller_main, h) != 0)
        return err_set(e, ERR_NOMEM, "%s: no thread for a producer",
                       h->client->name);
    h->poller_runs = true;
    return init_id(h, e);
}

/* End the poller; it leaves within one poll. */
static bool
stop_poller(struct txn_handle *h)
{
    struct timespec until;

    if (!h->poller_runs)
        return true;
    h->poller_runs = false;
    rd_kafka_queue_yield(h->main_queue);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLIENT_CLOSE_MS / 1000;
    return pthread_timedjoin_np(h->poller, NULL, &until) == 0;
}

void
txn_handle_close(struct txn_handle *h)
{
    atomic_store(&h->round, TXN_NO_ROUND);
    atomic_store(&h->open_ms, 0);
    if (h->client == NULL)
        return;
    atomic_store(&h->closing, true);
    if (!stop_poller(h)) {
        (void)pthread_mutex_lock(&h->txn->topics_lock);
        h->named = false;
        (void)pthread_mutex_unlock(&h->txn->topics_lock);
        h->txn->left_behind = true; /* it still looks at all of it */
        h->client = NULL;
        return;
    }
    if (h->main_queue != NULL)
        rd_kafka_queue_destroy(h->main_queue);
    h->main_queue = NULL;
    forget_topics(h);
    if (h->marker != NULL)
        rd_kafka_topic_destroy(h->marker);
    h->marker = NULL;
    if (!client_stop(h->client))
        h->txn->left_behind = true;
    else
        client_close(&h->client);
    h->client = NULL;
}

void
txn_handle_rest(const struct txn_handle *h)
{
    int64_t left =
        h->ended_ms == 0 ? 0 : h->ended_ms + TXN_GAP_MS - clock_mono_ms();
    struct timespec ts = {.tv_nsec = left * 1000000L};

    if (left > 0 && left <= TXN_GAP_MS)
        (void)nanosleep(&ts, NULL);
}

/* ----------------------------------------------------------- its round */

int
txn_handle_begin(struct txn_handle *h, struct err *e)
{
    rd_kafka_error_t *error;
    int r;

    if (fault_hit("txn_begin"))
        return txn_fault("txn_begin", e);
    error = rd_kafka_begin_transaction(h->client->rk);
    h->ended_ms = 0;
    if (error == NULL)
        return 0;
    r = init_failed(h, error, e);
    rd_kafka_error_destroy(error);
    return r;
}

void
txn_handle_publish(struct txn_handle *h, uint64_t round)
{
    atomic_store(&h->open_ms, 0);
    /* Release: tasks see the producer, its topics and its transaction. */
    atomic_store_explicit(&h->round, round, memory_order_release);
}

/* A message that fails makes the transaction fail first, and is reported a
 * moment later: the report says which one it was. */
static void
await_report(struct txn_handle *h)
{
    int64_t until = clock_mono_ms() + REPORT_MS;

    /* An empty queue says nothing: the poller may be in the callback. */
    while (txn_broken(h->txn, NULL) == 0 && clock_mono_ms() < until)
        (void)rd_kafka_poll(h->client->rk, 10);
}

static int
put_marker(struct txn_handle *h, const struct txn_marker *m, struct err *e)
{
    char text[TXN_MARKER_TEXT_MAX];
    size_t len = txn_marker_text(m, text, sizeof text);
    rd_kafka_resp_err_t err;
    int r;

    if (fault_hit("txn_marker"))
        return txn_fault("txn_marker", e);
    atomic_store(&h->marker_at, -1);
    for (;;) {
        struct timespec ts = {.tv_nsec = 1000000L};

        err = rd_kafka_producev(
            h->client->rk, RD_KAFKA_V_RKT(h->marker), RD_KAFKA_V_PARTITION(0),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY("marker", 6), RD_KAFKA_V_VALUE(text, len),
            RD_KAFKA_V_OPAQUE(h), RD_KAFKA_V_END);
        if (err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            break;
        (void)nanosleep(&ts, NULL); /* the round's outputs are on their way */
    }
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    await_report(h);
    r = txn_broken(h->txn, e);
    if (r != 0)
        return r;
    (void)err_set(e, ERR_UNAVAILABLE,
                  "%s: the marker of round %" PRIu64 " is not taken: %s (%s)",
                  h->client->name, m->round, rd_kafka_err2str(err),
                  rd_kafka_err2name(err));
    if (e != NULL)
        e->flags |= ERR_RETRIABLE;
    return ERR_UNAVAILABLE;
}

static bool
is_denied(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
           err == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED ||
           err == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
}

/* A topic that is gone fails every round from here on. @return its name. */
static const char *
missing_topic(struct txn *t, rd_kafka_resp_err_t err)
{
    uint32_t i;

    if (err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART &&
        err != RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC &&
        err != RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        return NULL;
    for (i = 0; i < atomic_load(&t->topic_count); i++)
        if (admin_count_partitions(t->reader, t->topics[i], ASK_MS) ==
            ADMIN_UNKNOWN)
            return t->topics[i];
    return NULL;
}

static bool
is_refused(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
           err == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP ||
           err == RD_KAFKA_RESP_ERR_INVALID_RECORD;
}

/* The commit will fail again: a topic is gone, a right, or a message is never
 * taken. @return its code, or 0. */
static int
for_ever(struct txn_handle *h, const struct txn_marker *m,
         const rd_kafka_error_t *error, struct err *e)
{
    rd_kafka_resp_err_t err = rd_kafka_error_code(error);
    const char *gone = missing_topic(h->txn, err);

    if (gone != NULL) {
        (void)err_set(e, ERR_CONFIG,
                      "%s: round %" PRIu64 " cannot be committed: topic "
                      "\"%s\" does not exist any more",
                      h->client->name, m->round, gone);
        err_hint(e, "it was deleted while the job was running");
    } else if (is_denied(err) || is_refused(err)) {
        (void)err_set(e, ERR_CONFIG,
                      "%s: round %" PRIu64 " cannot be committed: %s (%s)",
                      h->client->name, m->round, rd_kafka_error_string(error),
                      rd_kafka_err2name(err));
        err_hint(e,
                 is_denied(err)
                     ? "an ACL must allow WRITE on the topics of the sinks "
                       "and on the marker's, and on the transactional ids"
                     : "see max.message.bytes and message.timestamp.*.max.ms "
                       "of the topic");
    } else {
        return 0;
    }
    err_where(e, "%s", h->client->place);
    return ERR_CONFIG;
}

/* Whatever it says, it does not say whether the round is committed. */
static int
commit_failed(struct txn_handle *h, const struct txn_marker *m,
              const rd_kafka_error_t *error, struct err *e)
{
    rd_kafka_resp_err_t err = rd_kafka_error_code(error), cause = 0;
    char text[256] = "";

    if (rd_kafka_error_is_fatal(error))
        cause = rd_kafka_fatal_error(h->client->rk, text, sizeof text);
    set_fenced(h->txn, err);
    set_fenced(h->txn, cause);
    if (cause == 0)
        await_report(h);
    if (txn_broken(h->txn, e) == ERR_CONFIG || for_ever(h, m, error, e) != 0)
        return ERR_CONFIG;
    (void)err_set(e, ERR_UNAVAILABLE,
                  "%s: what became of round %" PRIu64 " is not known, its "
                  "commit %s: %s (%s)",
                  h->client->name, m->round,
                  err == RD_KAFKA_RESP_ERR__FENCED ||
                          cause == RD_KAFKA_RESP_ERR__FENCED
                      ? "timed out or was fenced"
                      : "failed",
                  text[0] == '\0' ? rd_kafka_error_string(error) : text,
                  rd_kafka_err2name(cause != 0 ? cause : err));
    err_where(e, "%s", h->client->place);
    if (e != NULL)
        e->flags |= ERR_RETRIABLE;
    return ERR_UNAVAILABLE;
}

static int
commit(struct txn_handle *h, const struct txn_marker *m, struct err *e)
{
    struct patience p;
    char what[WHAT_MAX];

    (void)snprintf(what, sizeof what, "the commit of round %" PRIu64, m->round);
    txn_patience(h->txn, h->client, what, &p);
    for (;;) {
        rd_kafka_error_t *error =
            rd_kafka_commit_transaction(h->client->rk, -1);
        int r = 0;

        if (error == NULL)
            return 0;
        if (!rd_kafka_error_is_retriable(error) ||
            rd_kafka_error_is_fatal(error) ||
            rd_kafka_error_txn_requires_abort(error))
            r = commit_failed(h, m, error, e);
        rd_kafka_error_destroy(error);
        if (r == 0)
            r = txn_patient(h->txn, &p, e);
        if (r != 0)
            return r;
    }
}

int
txn_handle_commit(struct txn_handle *h, const struct txn_marker *m,
                  struct err *e)
{
    struct txn *t = h->txn;
    struct txn_marker own = *m;
    int64_t at;
    int r;

    own.found = true;
    (void)snprintf(own.owner, sizeof own.owner, "%s", t->owner);
    r = put_marker(h, &own, e);
    if (r == 0 && fault_hit("txn_commit"))
        return txn_fault("txn_commit", e);
    if (r == 0)
        r = commit(h, &own, e);
    if (r != 0)
        return r;
    h->ended_ms = clock_mono_ms();
    atomic_store(&h->open_ms, 0);
    t->own = own;
    at = atomic_load(&h->marker_at);
    t->end = at < 0 ? -1 : at + 2; /* it, and the control record behind it */
    if (fault_hit("txn_committed"))
        return txn_fault("txn_committed", e);
    return 0;
}
