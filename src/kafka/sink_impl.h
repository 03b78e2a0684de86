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
 *
 * topic = function: a topic is found (and made, with `create`) when a record
 * first names it, by a thread of the sink: the task says ERR_AGAIN until it
 * is there, and the slot goes on with other work.
 */
#ifndef KAFKA_SINK_IMPL_H
#define KAFKA_SINK_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kafka/admin.h"
#include "kafka/txn_impl.h"

enum { SINK_TOPICS_MAX = TXN_TOPICS_MAX };

/* A topic is written to once it is `ready`; nothing changes afterwards. */
struct sink_topic {
    char *name;
    size_t len;
    rd_kafka_topic_t *rkt; /* not exactly_once */
    uint32_t txn_index;    /* exactly_once: in the handles */
    int32_t partitions;    /* as it was found */
    struct admin_limits limits;
    atomic_bool ready;
};

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
    uint16_t *slots;  /* topics by name, + 1; open addressing, 0 = free */
};

struct sink {
    struct client *client;
    rd_kafka_queue_t *main_queue; /* to end a poll early */
    /* The one of the option; or those that a function named so far, each
     * found by the finder's thread. Only grows, under the lock. */
    struct sink_topic *topics[SINK_TOPICS_MAX];
    _Atomic uint32_t topic_count;
    pthread_mutex_t topics_lock;
    pthread_cond_t topics_wanted;
    pthread_t finder;
    bool finder_runs;
    int64_t batch_bytes; /* topics that a function names take no less */
    uint32_t parallelism;
    bool may_lose; /* delivery = "none" */
    bool compressed;
    bool may_create; /* a topic that is missing, as `create` says */
    struct admin_topic create;
    int64_t message_max;             /* what the handle is made for */
    int64_t client_max;              /* message.max.bytes */
    uint64_t records_max, bytes_max; /* in flight, per task */
    _Atomic(struct sink_task *) *tasks;
    _Atomic(struct err *) broken;
    _Atomic uint64_t lost;    /* failed deliveries with may_lose */
    _Atomic uint64_t clamped; /* timestamps */
    uint64_t lost_told, clamped_told;
    int64_t tell_at;
    atomic_bool publishing; /* the poller is looking at the tasks */
    atomic_int waking;      /* others that are */
    pthread_t poller;
    bool poller_runs;
    atomic_bool closing;
    struct txn *txn;      /* exactly_once, else NULL; the job's */
    uint64_t first_round; /* its tasks begin with */
    struct txn_listener listener;
};

/** The first failure of the sink, or 0. @thread any. */
int sink_broken_error(struct sink *s, struct err *e);
/** Leave a failure; the first counts, until the sink is freed. */
void sink_set_broken(struct sink *s, const struct err *e);

/** Wake the tasks that wait. @thread any. */
void sink_wake_tasks(struct sink *s);

/** Start and stop the finder of topics. @return of stop: whether it ended;
 * the sink must stay if not. @thread coord. */
MUST_USE int sink_topics_start(struct sink *s, struct err *e);
bool sink_topics_stop(struct sink *s);
/** Append a topic. @thread coord, before there are tasks. */
struct sink_topic *sink_topics_add(struct sink *s, const char *name,
                                   size_t len);
void sink_topics_free(struct sink *s);

/** The slot's half of the connector. */
int sink_task_topic(struct sink_task *t, const char *name, size_t len,
                    uint32_t *ret, struct err *e);
int32_t sink_task_partitions(struct sink_task *t, uint32_t topic);
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
