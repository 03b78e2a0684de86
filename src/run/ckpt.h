/*
 * The checkpoint thread: what a round gathered goes to disk and to Kafka.
 *
 * One thread a run. It owns the store and the transactions while it runs;
 * the coordinator gives it one round at a time and hears of the end through
 * job_wake(). Between rounds it renews the transaction's handle, merges the
 * store in small steps and copies a savepoint.
 *
 * | step of a round | on disk, in Kafka            | a crash behind it      |
 * | prepare         | files of sinks are synced    | round N - 1            |
 * | write           | redo N is durable (pending)  | N - 1, redo discarded  |
 * | commit          | outputs and marker N visible | N, redo completed      |
 * |                 | (or the target of a Lua sink |                        |
 * |                 | has both)                    |                        |
 * | complete        | store says N                 | N                      |
 *
 * Without a target that decides, write and complete are one step.
 */
#ifndef RUN_CKPT_H
#define RUN_CKPT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/snapshot.h"
#include "kafka/txn.h"
#include "state/store.h"

/* One snapshot and whose keyed state it changes. */
struct ckpt_part {
    const char *step; /* the plan's, outlives the round */
    struct snapshot *snap;
};

struct ckpt_round {
    uint64_t round;
    bool finished; /* the job ends with it, its input is used up */
    bool last;     /* nothing follows: no handle is renewed */
    struct ckpt_part *parts;
    uint32_t part_count;
    struct buf steps, plan, code, meta, reloads; /* blobs; empty: as before */
    const char *target;   /* id of what decides the round; NULL: nothing */
    const char *owner;    /* as in the marker */
    uint64_t code_id;     /* fingerprint, for the marker */
    bool drop_all;        /* all state of before goes */
    const char **dropped; /* names of steps whose state goes; or NULL */
    uint32_t dropped_count;
    /* set by the thread */
    uint64_t puts, dels, bytes;
    int64_t prepare_ns, write_ns, commit_ns, complete_ns;
};

/* Calls the connectors' prepare(); runs in the thread. */
typedef int ckpt_prepare_f(void *arg, struct err *e);
/* Has a round committed in a target that is not Kafka; in the thread. */
typedef int ckpt_commit_f(void *arg, uint64_t round, struct err *e);
typedef void ckpt_wake_f(void *arg); /* any thread */

struct ckpt {
    struct store *store;
    struct txn *txn; /* NULL: none */
    uint8_t lineage[CONN_LINEAGE_SIZE];
    _Atomic uint64_t *durable;
    int64_t merge_bytes; /* what a step of merging may take, about; 0: as much
                            as it likes */
    ckpt_prepare_f *prepare;
    ckpt_commit_f *commit; /* NULL: no such target; not beside txn */
    ckpt_wake_f *wake;
    void *arg;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t more;
    /* under the lock */
    struct ckpt_round *order; /* to be done */
    char *copy_to;            /* a savepoint to be made */
    bool stop, round_done, copy_done;
    struct err round_err, copy_err; /* code 0: success */
    struct err late_err;            /* what failed between rounds */
    /* the thread's own */
    uint64_t renew; /* round whose handle is to be renewed, 0 = none */
    bool merging;
};

/**
 * Start the thread. Fields down to `arg` are the caller's and set before.
 * @return 0 or ERR_INTERNAL. @thread coord.
 */
MUST_USE int ckpt_start(struct ckpt *c, struct err *e);
/**
 * End the thread: what it does now is finished, orders are not begun.
 * @return false if it did not end within `wait_ms` (a commit waits for its
 *         broker): the process must then _exit(). @thread coord.
 */
bool ckpt_end(struct ckpt *c, int64_t wait_ms);
/** As ckpt_end(), for as long as it takes. */
void ckpt_stop(struct ckpt *c);
/** Give it a round; its parts are freed with ckpt_round_free(). */
void ckpt_give(struct ckpt *c, struct ckpt_round *r);
/** @return true once when the round is done; *ret_err says how. */
bool ckpt_take_round(struct ckpt *c, struct err *ret_err);
/** Begin to copy the complete round to `dir`; one at a time. */
void ckpt_copy(struct ckpt *c, const char *dir);
bool ckpt_take_copy(struct ckpt *c, struct err *ret_err);
/** What failed between rounds since the last call. @return its code. */
int ckpt_late(struct ckpt *c, struct err *ret_err);

/** Free a round with its parts. Accepts NULL. */
void ckpt_round_free(struct ckpt_round **r);

#endif
