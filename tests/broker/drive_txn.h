/*
 * Drives exactly_once sinks and the transaction of their rounds as slots,
 * coordinator and checkpoint thread would, in one thread. The store of a
 * job is a small file, replaced as a whole: which round is complete, and
 * which one has its redo.
 */
#ifndef TESTS_BROKER_DRIVE_TXN_H
#define TESTS_BROKER_DRIVE_TXN_H

#include "drive.h"
#include "kafka/txn.h"

struct drive_txn {
    struct drive d; /* the sink and its tasks */
    struct txn *txn;
    struct conn_ckpt ckpt;
    uint8_t lineage[CONN_LINEAGE_SIZE];
    char prefix[80], topic[80], owner[TXN_OWNER_MAX];
    int64_t interval_ms;
    uint64_t round; /* under way */
};

/** A job with one sink to `topic`, nothing open yet. */
void drive_txn_init(struct drive_txn *x, const char *servers,
                    const char *prefix, const char *topic, uint32_t tasks);
/** txn_new(); the error is in d.err. */
int drive_txn_new(struct drive_txn *x);
/** From new: initialise, look, claim `round`, open the sink, start. */
int drive_txn_start(struct drive_txn *x, uint64_t round);
/** What remains of that when the claim is made. */
int drive_txn_open(struct drive_txn *x, uint64_t round);
/** Write `val` through task `task` to `partition`. */
int drive_txn_put(struct drive_txn *x, uint32_t task, int32_t partition,
                  const char *val);
/** The barrier: flush all tasks and take their snapshots. */
int drive_txn_barrier(struct drive_txn *x);
/** The marker of `round`, by this job. */
struct txn_marker drive_txn_marker(const struct drive_txn *x, uint64_t round);
/** Barrier, commit and renewal of the round under way. */
int drive_txn_round(struct drive_txn *x);
/** Everything is closed; options and owner stay, so it can be started anew.
 * @return how long it took, ms. */
int64_t drive_txn_stop(struct drive_txn *x);
/** As drive_txn_stop(), and free what is left. */
void drive_txn_fini(struct drive_txn *x);

/* The file-backed store. */
struct drive_store {
    uint64_t complete, redo;
};

/**
 * The whole way from nothing to rounds that can be written: look, init,
 * look, the equality rule against the store of `path`, claim, open.
 *
 * @param inside the process has run before: another owner's marker ends it.
 * @return 0, ERR_BUSY (taken over), ERR_CONFIG (store and marker differ),
 *         ERR_UNAVAILABLE.
 */
int drive_txn_recover(struct drive_txn *x, const char *path, bool inside);

/** Write round `x->round`: "P:ROUND:0" and "P:ROUND:1" to each partition. */
int drive_txn_fill(struct drive_txn *x, int partitions);
/** The round as a job does it: barrier, redo, commit, complete, renewal. */
int drive_txn_stored_round(struct drive_txn *x, const char *path);
/**
 * Whether the committed records of `topic` are exactly the rounds 1 to
 * `rounds`, in order; prints the first difference.
 */
bool drive_txn_exact(const char *servers, const char *topic, int partitions,
                     uint64_t rounds);

/** Read it; a missing one is all 0. */
struct drive_store drive_store_read(const char *path);
void drive_store_write(const char *path, const struct drive_store *s);

#endif
