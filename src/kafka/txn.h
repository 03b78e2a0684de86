/*
 * Transactions: the output of one round, final at once or not at all.
 *
 * All exactly_once sinks of a job share one `struct txn`. It uses two
 * transactional ids in turn, `<prefix>-0` for even rounds and `<prefix>-1`
 * for odd ones, and a new producer handle for every round: a late EndTxn of
 * a kept handle can commit half of the next transaction (doc/internals/
 * exactly-once.md). The marker, the last record of the compacted topic
 * `<prefix>-marker`, says which round is committed; nothing else does.
 *
 * | state      | call                          | next                      |
 * | new        | txn_look (reads, fences none) | new                       |
 * | new        | txn_init (fences, aborts)     | initialised               |
 * | initialised| txn_look                      | initialised               |
 * | initialised| txn_claim(N)                  | claimed                   |
 * | claimed    | txn_start(N + 1)              | rounds N+1, N+2 writable  |
 * | rounds     | txn_commit(N)                 | N committed, or unknown   |
 * | committed  | txn_renew(N)                  | round N+2 writable        |
 * | any        | txn_free                      | all handles are gone      |
 *
 * After any result but success the only way on is txn_free() and a new one:
 * never abort, never reuse. Thread: one at a time, the coordinator's at start
 * and then the checkpoint thread's, but for txn_handle() and what sinks do
 * with it (their slots) and txn_topic().
 */
#ifndef KAFKA_TXN_H
#define KAFKA_TXN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/connector.h"

enum { TXN_OWNER_MAX = 128, TXN_TOPICS_MAX = 1024 };

struct txn;

struct txn_conf {
    const struct conn_env *env; /* of one exactly_once sink: servers and
                                   properties; borrowed until txn_free() */
    const char *prefix;         /* transactional_id_prefix; borrowed */
    int64_t interval_ms;        /* of checkpoints: for the timeout */
    const char *owner;          /* "HOST:PID ID", < TXN_OWNER_MAX bytes, no
                                   control characters; borrowed */
};

struct txn_marker {
    bool found; /* else the whole topic was read and holds none */
    uint8_t lineage[CONN_LINEAGE_SIZE];
    uint64_t round;
    uint64_t code; /* fingerprint of the job's code */
    char owner[TXN_OWNER_MAX];
};

/**
 * Preflight and the private reader: broker, marker topic (made if it is
 * missing: compacted, one partition), transaction.timeout.ms.
 *
 * @return 0, ERR_CONFIG (timeout below 2 * interval + 80 s or above the
 *         broker's maximum: both values in one sentence; rights),
 *         ERR_UNAVAILABLE. @thread coord; blocks up to the connect timeout.
 */
MUST_USE int txn_new(const struct txn_conf *conf, struct txn **ret,
                     struct err *e);
/** Destroy all handles, with a deadline. Accepts NULL. */
void txn_free(struct txn **t);

/**
 * Read the marker, read_committed, the whole range if need be; waits and
 * says so while an open transaction hides it. Never "none" by mistake.
 * @return 0, ERR_UNAVAILABLE (retriable), ERR_IO (no marker of ours in the
 *         topic: foreign bytes). @thread as above.
 */
MUST_USE int txn_look(struct txn *t, struct txn_marker *ret, struct err *e);

/**
 * Initialise both ids: fences whoever used them, and waits for or aborts
 * what they left open.
 * @return 0, ERR_CONFIG (INVALID_TRANSACTION_TIMEOUT, rights),
 *         ERR_UNAVAILABLE (retriable). @thread as above.
 */
MUST_USE int txn_init(struct txn *t, struct err *e);

/**
 * Commit a marker of `m` (the complete round, not the next) with the own
 * owner, so that whoever was fenced can see by whom, and remember the
 * marker topic's end from here on.
 * @return 0, or as txn_commit(). @thread as above.
 */
MUST_USE int txn_claim(struct txn *t, const struct txn_marker *m,
                       struct err *e);

/**
 * Name a topic sinks write to; also while rounds are open, whose producers
 * then get a handle for it.
 * @param ret its index in txn_handle.topics.
 * @return 0, ERR_CONFIG (too many, or refused by the client). @thread any.
 */
MUST_USE int txn_topic(struct txn *t, const char *topic, uint32_t *ret,
                       struct err *e);

/** Make rounds `first` and `first` + 1 writable. As txn_renew(). */
MUST_USE int txn_start(struct txn *t, uint64_t first, struct err *e);

/* A round's producer, as sinks see it. Valid until the sink's task has given
 * its snapshot of that round. */
struct txn_handle;
/** The handle of `round`, or NULL while it is not ready. @thread any. */
struct txn_handle *txn_handle(struct txn *t, uint64_t round);

/**
 * Put the marker of `m->round` behind the round's outputs and commit, for as
 * long as it takes (a broker that is away is waited for).
 *
 * @param m lineage, round and code; the owner is the own.
 * @return 0 committed. Else what became of it is unknown: ERR_UNAVAILABLE
 *         (retriable; txn_fenced() says whether the id was taken),
 *         ERR_CONFIG (a message can never be delivered: too large, a
 *         timestamp refused, topic deleted, rights).
 * @thread the checkpoint thread.
 */
MUST_USE int txn_commit(struct txn *t, const struct txn_marker *m,
                        struct err *e);

/**
 * After the commit of `round`: destroy its handle, make the one of
 * `round` + 2, and compare the marker topic's end with the one this process
 * left: a new epoch always succeeds, so only this shows a successor.
 * @return 0, ERR_UNAVAILABLE (retriable; txn_fenced() if the end moved).
 * @thread the checkpoint thread.
 */
MUST_USE int txn_renew(struct txn *t, uint64_t round, struct err *e);

/** Whether the last failure was fencing, or a marker that moved. */
bool txn_fenced(const struct txn *t);
/** The first delivery failure of a round under way, or 0. @thread any. */
int txn_broken(struct txn *t, struct err *e);
/** Largest age, ms, of the open transactions; 0 none. @thread any. */
int64_t txn_open_ms(const struct txn *t);

#endif
