/*
 * Inside of the transactions, shared by txn*.c and the sink only.
 *
 * A `struct txn_handle` is a place for one producer; the struct lives as
 * long as the txn, so a task may ask it for its round at any time. The
 * producer in it is one round's.
 *
 * | txn_handle.round | producer            | tasks                          |
 * | TXN_NO_ROUND     | none, or being made | wait                           |
 * | N                | has a transaction   | of round N write, until the    |
 * |                  | begun               | snapshot they give for N       |
 *
 * Threads: the checkpoint thread (at start the coordinator) makes and ends
 * producers; between them `round` is the gate (release when set, acquire by
 * tasks). One poller a producer serves its callbacks. Acknowledgements come
 * in the client's own threads and touch `marker_at` only.
 */
#ifndef KAFKA_TXN_IMPL_H
#define KAFKA_TXN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kafka/client.h"
#include "kafka/txn.h"

#define TXN_NO_ROUND UINT64_MAX

enum {
    TXN_IDS = 2,
    TXN_LISTENERS_MAX = 1024, /* exactly_once sinks of a job */
    TXN_QUEUE_MAX = 100000,   /* messages in a producer's queue */
    TXN_QUEUE_KBYTES = 64 * 1024,
    TXN_GAP_MS = 20 /* between a commit and the next init of its id */
};

struct txn_handle {
    struct txn *txn;
    unsigned number;       /* 0 or 1: which id */
    char *id;              /* transactional.id */
    struct client *client; /* NULL: no producer */
    rd_kafka_topic_t *marker;
    /* By index of txn_topic(); written under topics_lock. Complete before
     * the index is known to a task. */
    rd_kafka_topic_t *topics[TXN_TOPICS_MAX];
    bool named;                   /* it has its topics; under topics_lock */
    rd_kafka_queue_t *main_queue; /* to end a poll early */
    pthread_t poller;
    bool poller_runs;
    atomic_bool closing;
    _Atomic uint64_t round;
    _Atomic int64_t open_ms;   /* first message, monotonic; 0: none */
    _Atomic int64_t marker_at; /* acknowledged offset of the marker, or -1 */
    atomic_bool waiting;       /* a task wants a wake when there is room */
    int64_t ended_ms;          /* when its commit was answered, 0: not */
};

/* Told when a round became writable, or a queue has room again. */
struct txn_listener {
    void (*tell)(void *arg); /* any thread; must not block */
    void *arg;
};

struct txn {
    struct conn_env env;
    char *prefix;
    char *topic; /* of the marker */
    char owner[TXN_OWNER_MAX];
    int64_t interval_ms, timeout_ms;
    int64_t timeout_max_ms; /* the broker's, 0: it did not tell */
    struct client *reader;
    struct txn_handle handles[TXN_IDS];
    char *topics[TXN_TOPICS_MAX]; /* only grow, under topics_lock */
    _Atomic uint32_t topic_count;
    pthread_mutex_t topics_lock;
    int64_t message_max, batch_max; /* over all topics, 0: none named yet */
    bool initialised;               /* both ids are ours */
    bool running;                   /* outages are waited for */
    struct txn_marker own;          /* the last one that was committed */
    int64_t end;                    /* marker topic's end after it, -1 */
    atomic_bool fenced;
    _Atomic(struct err *) broken;
    _Atomic(struct txn_listener *) listeners[TXN_LISTENERS_MAX];
    atomic_int telling; /* threads that look at the listeners */
    bool left_behind;   /* a producer did not end: the struct must stay */
};

/* How long a call that failed in a retriable way is made again. */
struct patience {
    struct client *client;
    int64_t limit_ms; /* at start the deadline, later how long */
    int64_t since_ms; /* the broker was away for the last time */
    int64_t told_ms;
    const char *what; /* "commit of round 7" */
};

/** Wait for news of `t`. Both @thread coord, before txn_start() and after
 * the last task is freed. */
void txn_listen(struct txn *t, struct txn_listener *l);
void txn_unlisten(struct txn *t, struct txn_listener *l);
/** Call all listeners. @thread any. */
void txn_tell(struct txn *t);

/** Batches must fit a topic that takes so many bytes. @thread coord. */
void txn_fit(struct txn *t, int64_t max_message_bytes);

/** What a fault point fails with: as if the broker had not answered.
 * @return ERR_UNAVAILABLE, retriable. @thread any. */
int txn_fault(const char *point, struct err *e);

/** The first failure of a delivery stays. @thread any. */
void txn_set_broken(struct txn *t, const struct err *e);

/** Begin to be patient. @thread that of txn.h. */
void txn_patience(struct txn *t, struct client *c, const char *what,
                  struct patience *ret);
/**
 * After a failure that may pass: go on trying? Waits a moment.
 * @return 0, ERR_CONFIG (login), ERR_UNAVAILABLE. @thread that of txn.h.
 */
MUST_USE int txn_patient(struct txn *t, struct patience *p, struct err *e);

/** Make the producer of an id and initialise it. As txn_init(). */
MUST_USE int txn_handle_open(struct txn_handle *h, struct err *e);
/** Begin `round` on it. @return 0, ERR_UNAVAILABLE. */
MUST_USE int txn_handle_begin(struct txn_handle *h, struct err *e);
/** Let the tasks of `round` write. */
void txn_handle_publish(struct txn_handle *h, uint64_t round);
/** Put the marker in and commit. As txn_commit(). */
MUST_USE int txn_handle_commit(struct txn_handle *h, const struct txn_marker *m,
                               struct err *e);
/** Name topic `index` to its producer. @thread any, under topics_lock. */
MUST_USE int txn_handle_name(struct txn_handle *h, uint32_t index,
                             struct err *e);
/** Destroy the producer, if there is one. */
void txn_handle_close(struct txn_handle *h);
/** Wait until an id may be initialised again after its last commit. */
void txn_handle_rest(const struct txn_handle *h);
/** Whether the producer takes more. @thread a slot, in its round. */
bool txn_handle_has_room(const struct txn_handle *h);
/** Wake (txn_tell()) when there is room. @thread a slot, in its round. */
void txn_handle_want_room(struct txn_handle *h);
/** Something is about to be written. @thread a slot, in its round. */
static inline void
txn_handle_touch(struct txn_handle *h, int64_t (*clock_ms)(void))
{
    int64_t none = 0;

    if (atomic_load_explicit(&h->open_ms, memory_order_relaxed) == 0)
        (void)atomic_compare_exchange_strong(&h->open_ms, &none, clock_ms());
}

/** Marker as text, NUL-terminated; @return its length. @thread any. */
size_t txn_marker_text(const struct txn_marker *m, char *out, size_t size);
/** Read it back; @return false: not a marker of ours. @thread any. */
bool txn_marker_read(const char *text, size_t len, struct txn_marker *ret);
enum { TXN_MARKER_TEXT_MAX = 256 };

/** Make the reader, find or make the marker topic. As txn_new(). */
MUST_USE int txn_reader_open(struct txn *t, struct err *e);
/**
 * Compare the end of the marker topic with t->end (-1: look it up).
 * @return 0, ERR_UNAVAILABLE (fenced if the marker is not the own).
 */
MUST_USE int txn_check_end(struct txn *t, struct err *e);

#endif
