/*
 * Inside of the Kafka sink, shared by sink.c (open, close, reports) and
 * sink_task.c (the slot's half) only.
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
 *
 * delivery = "exactly_once": the messages go to the producer of the task's
 * round (txn_impl.h) instead, whose queue is the bound; the sink's own
 * client then only asks for topics and watches the broker.
 */
#ifndef KAFKA_SINK_IMPL_H
#define KAFKA_SINK_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kafka/admin.h"
#include "kafka/txn_impl.h"

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
    atomic_bool full; /* the client's queue was: others' reports count too */
    atomic_bool gone; /* freed by its user: no more wakes */
    int64_t now_ms;   /* wall clock, as last looked at */
    uint64_t round;   /* exactly_once: whose producer it writes to */
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
    int64_t client_max;              /* message.max.bytes */
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
    struct txn *txn;      /* exactly_once, else NULL; the job's */
    uint32_t topic_index; /* in its handles */
    uint64_t first_round; /* its tasks begin with */
    struct txn_listener listener;
};

/** The first failure of the sink, or 0. @thread any. */
int sink_broken_error(struct sink *s, struct err *e);
/** Leave a failure; the first counts, until the sink is freed. */
void sink_set_broken(struct sink *s, const struct err *e);

/** The slot's half of the connector. */
int sink_task_new(struct sink *s, const struct conn_task *conf,
                  struct sink_task **ret, struct err *e);
bool sink_task_ready(struct sink_task *t);
int sink_task_write(struct sink_task *t, const struct rec *r,
                    const struct sink_message *m, struct err *e);
int sink_task_batch_end(struct sink_task *t, struct err *e);
int sink_task_flush(struct sink_task *t, struct err *e);
int sink_task_snapshot(struct sink_task *t, uint64_t round, struct buf *out,
                       struct err *e);
void sink_task_free(struct sink_task **t);

#endif
