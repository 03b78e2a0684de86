/*
 * The keyed-state and checkpoint store of one job: bytes in, bytes out.
 *
 * One LMDB environment in the job's directory holds a base (the merged
 * state), segments (the changes of single rounds, sorted) and the ledger
 * (which rounds are complete, where their changes lie, totals that damage
 * cannot keep). Positions, plans, watermarks, code are blobs nobody here
 * looks into. Used by run (checkpoint writer, restore), op (reads of the
 * `lmdb` backend) and main (savepoints, the `state` verbs).
 *
 * Thread: a `struct store` and its rounds, merges and copies belong to one
 * thread, the writer. A `struct store_reader` belongs to the thread that
 * uses it, any; readers and the writer do not wait for each other, except
 * while the map grows. No thread, no clock, no log in here.
 * Lifetime: readers, scans and copies end before their store.
 * Limits: below. Bytes given in are copied; bytes handed out are borrowed.
 */
#ifndef STATE_STORE_H
#define STATE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    STORE_VERSION = 1,          /* of the format on disk */
    STORE_NS_MAX = 64,          /* bytes of a namespace */
    STORE_KEY_MAX = 1 << 20,    /* bytes of a key */
    STORE_VALUE_MAX = 1 << 28,  /* bytes of a value or blob */
    STORE_NAME_MAX = 255,       /* bytes of an operator's or blob's name */
    STORE_OPERATORS_MAX = 4096, /* live and dropped ones together */
    STORE_BLOBS_MAX = 64,
    STORE_SEGMENTS_MAX = 32, /* unmerged rounds, the pending one included */
    STORE_LINEAGE_SIZE = 16,
};

struct store;
struct store_reader;
struct store_scan;
struct store_copy;

struct store_opts {
    const char *dir;      /* NUL-terminated; borrowed for the call */
    bool create;          /* make directory and empty store if there is none */
    bool read_only;       /* no lock; beside a running job, or a savepoint */
    bool any_fs;          /* allow network filesystems, where LMDB may break */
    bool no_sync;         /* of a test: nothing survives the machine */
    uint64_t map_bytes;   /* address space at first; 0 = large */
    unsigned readers_max; /* 0 = 126 */
};

/* Where a store stands; what the equality rule compares. */
struct store_status {
    uint64_t complete;    /* last complete round, 0 = none yet */
    uint64_t pending;     /* round whose redo is durable, 0 = none */
    bool pending_damaged; /* it can only be discarded */
    bool finished;        /* the job ended with the complete round */
    uint8_t lineage[STORE_LINEAGE_SIZE];
    unsigned segments; /* complete, not yet merged */
    uint64_t file_bytes;
    uint64_t free_bytes; /* of them, to be used again; when it was opened */
};

/* A key as callers see it. Order: operator, group, namespace length,
 * namespace, key (beyond about 420 bytes, keys that share these are in the
 * order of their digests). */
struct store_key {
    uint32_t op;     /* from store_round_operator() */
    uint16_t group;  /* key group */
    const void *ns;  /* ns_len bytes */
    size_t ns_len;   /* 0..STORE_NS_MAX */
    const void *key; /* key_len bytes */
    size_t key_len;  /* 0..STORE_KEY_MAX */
};

/**
 * Open the store in `opts->dir`: lock the directory, check the file.
 *
 * What was damaged or cut off is refused, never skipped: only a pending
 * redo may be damaged, which the status then says. A process that died at
 * any instant leaves a store that opens.
 *
 * @param opts  borrowed for the call.
 * @param ret_s set on success; ended by store_close(). Untouched on failure.
 * @param e     filled on failure.
 * @return 0, or ERR_BUSY (locked by another process: host, pid and boot id
 *         are in the message; or the directory cannot be made), ERR_IO (no
 *         store there, damage, I/O), ERR_CONFIG (another format, byte order
 *         or a network filesystem), ERR_NOMEM.
 * @thread the writer.
 */
MUST_USE int store_open(const struct store_opts *opts, struct store **ret_s,
                        struct err *e);

/** Close; an open round is forgotten. Accepts NULL. @thread the writer. */
void store_close(struct store **s);

/** Where the store stands. @thread the writer. */
void store_status(struct store *s, struct store_status *ret);

/* --- rounds -------------------------------------------------------------- */

/**
 * Begin to gather the changes of round `n` in memory.
 *
 * @param n above the complete round; there must be no pending redo.
 * @return 0 or ERR_INTERNAL. @thread the writer.
 */
MUST_USE int store_round_begin(struct store *s, uint64_t n, struct err *e);

/**
 * Find the operator called `name`, or add it in this round.
 *
 * Names are the identity of state; the number stays the same in all
 * checkpoints and copies and is never given to another name.
 *
 * @param name `len` bytes, 1..STORE_NAME_MAX.
 * @return 0, ERR_NOMEM, ERR_INTERNAL (limit). @thread the writer.
 */
MUST_USE int store_round_operator(struct store *s, const char *name, size_t len,
                                  uint32_t *ret_op, struct err *e);

/**
 * Forget all state of operator `op` with this round.
 *
 * Its keys are gone from every view of the round at once; the space comes
 * back with later merges. An operator of the same name starts empty.
 * @return 0 or ERR_INTERNAL (unknown). @thread the writer.
 */
MUST_USE int store_round_drop(struct store *s, uint32_t op, struct err *e);

/**
 * Set `key` to `len` bytes. Any order; of one key the last call counts.
 *
 * @return 0, ERR_NOMEM, ERR_RECORD (a limit above; the message says which).
 * @thread the writer.
 */
MUST_USE int store_round_put(struct store *s, const struct store_key *key,
                             const void *value, size_t len, struct err *e);

/** Remove `key`; it need not exist. As store_round_put(). */
MUST_USE int store_round_del(struct store *s, const struct store_key *key,
                             struct err *e);

/**
 * Set the blob `name` of this round; blobs that are not set stay as they
 * were, NULL bytes remove one.
 *
 * @param name NUL-terminated, 1..STORE_NAME_MAX bytes.
 * @return 0, ERR_NOMEM, ERR_INTERNAL (limits). @thread the writer.
 */
MUST_USE int store_round_blob(struct store *s, const char *name,
                              const void *bytes, size_t len, struct err *e);

/** Changes gathered so far, and the memory they take. @thread the writer. */
size_t store_round_size(const struct store *s, size_t *ret_bytes);

enum {
    STORE_COMPLETE = 1u, /* durable and complete in one step */
    STORE_FINISHED = 2u, /* the job ends with this round */
};

/**
 * Make the gathered round durable: one synced transaction.
 *
 * Afterwards it is the pending redo, or with STORE_COMPLETE the last
 * complete round. On failure nothing has changed on disk and the changes
 * are kept, so that the call may be repeated (the error is ERR_RETRIABLE),
 * unless it is ERR_FATAL: then what the disk holds is only known after
 * store_close() and store_open().
 *
 * @return 0, ERR_IO (disk full included), ERR_NOMEM, ERR_TEMP (all segments
 *         are taken and a copy holds the merge), ERR_INTERNAL.
 * @thread the writer.
 */
MUST_USE int store_round_write(struct store *s, unsigned flags, struct err *e);

/** Forget the gathered changes. @thread the writer. */
void store_round_cancel(struct store *s);

/**
 * Mark the pending round `n` complete: a small synced transaction.
 *
 * @param flags STORE_FINISHED or 0.
 * @return 0; ERR_IO (also for a damaged redo); ERR_INTERNAL (n is not
 *         pending). Failures as store_round_write(). @thread the writer.
 */
MUST_USE int store_round_complete(struct store *s, uint64_t n, unsigned flags,
                                  struct err *e);

/** Forget the pending round `n`. As store_round_complete(). */
MUST_USE int store_round_discard(struct store *s, uint64_t n, struct err *e);

/** Set or take away the finished mark of the complete round. @thread writer */
MUST_USE int store_set_finished(struct store *s, bool finished, struct err *e);

/** Give the store another lineage. No redo may be pending. @thread writer */
MUST_USE int store_set_lineage(struct store *s,
                               const uint8_t lineage[STORE_LINEAGE_SIZE],
                               struct err *e);

/**
 * Merge complete segments into the base: one bounded, synced step.
 *
 * @param entries_max most changes moved in this step, > 0.
 * @return 1 (more to do), 0 (nothing left, or a copy holds the merge), or
 *         ERR_IO, ERR_NOMEM; nothing is lost. @thread the writer.
 */
MUST_USE int store_merge(struct store *s, size_t entries_max, struct err *e);

/* --- reading ------------------------------------------------------------- */

enum store_view {
    STORE_VIEW_COMPLETE, /* the last complete round */
    STORE_VIEW_NEWEST,   /* the pending redo on top of it */
};

/** Make a reader. @return 0, ERR_NOMEM. @thread the one that will use it. */
MUST_USE int store_reader_new(struct store *s, struct store_reader **ret_r,
                              struct err *e);
/** Free it (ends what it began). Accepts NULL. @thread its owner. */
void store_reader_free(struct store_reader **r);

/**
 * Begin to read one consistent state; what follows sees no later round.
 *
 * Keep it short: pages that a reader sees cannot be used again, so a long
 * one makes the file grow. A growing map waits for all readers, so the
 * writer's thread ends its own before it writes, merges or copies.
 *
 * @return 0, ERR_IO, ERR_NOMEM, ERR_BUSY (too many readers). @thread owner.
 */
MUST_USE int store_reader_begin(struct store_reader *r, enum store_view view,
                                struct err *e);
/** End what store_reader_begin() began. @thread its owner. */
void store_reader_end(struct store_reader *r);

/** The round this reader sees, 0 if none. Between begin and end. */
uint64_t store_reader_round(const struct store_reader *r);

/**
 * Get the value of `key`.
 *
 * @param ret     borrowed until store_reader_end(); set when found.
 * @return 1 found, 0 not there, ERR_IO (damage). @thread its owner.
 */
MUST_USE int store_reader_get(struct store_reader *r,
                              const struct store_key *key, const void **ret,
                              size_t *ret_len, struct err *e);

/** Get the blob `name`. As store_reader_get(). */
MUST_USE int store_reader_blob(struct store_reader *r, const char *name,
                               const void **ret, size_t *ret_len,
                               struct err *e);

/* An operator; what is here is exact for what was merged, and an upper
 * bound (puts) for what was not. store_scan gives exact counts. */
struct store_operator {
    uint32_t op;
    const char *name; /* name_len bytes, NUL-terminated; until reader_end */
    size_t name_len;
    uint64_t keys, bytes;                /* in the base, as stored */
    uint64_t puts, dels, unmerged_bytes; /* in the segments of the view */
};

/** Operators of the view, in the order of their numbers. @thread owner. */
size_t store_reader_operator_count(const struct store_reader *r);
/** The i-th of them. @thread its owner. */
void store_reader_operator(const struct store_reader *r, size_t i,
                           struct store_operator *ret);
/** Find one by name. @return true if found. @thread its owner. */
bool store_reader_find(const struct store_reader *r, const char *name,
                       size_t len, uint32_t *ret_op);

/**
 * Scan the entries of `op` in key groups `first`..`last`, both included.
 *
 * Ended by store_scan_close() before store_reader_end().
 * @return 0, ERR_NOMEM, ERR_IO. @thread the reader's owner.
 */
MUST_USE int store_scan_open(struct store_reader *r, uint32_t op,
                             uint16_t first, uint16_t last,
                             struct store_scan **ret_c, struct err *e);

/**
 * Scan the entries of one namespace of one key group.
 *
 * @param at    operator, group, namespace, and with `after` a key; borrowed
 *        for the call.
 * @param after begin behind at->key (in order; it need not exist): how a
 *        scan goes on in another reader's or a later begin.
 * @return as store_scan_open(). @thread the reader's owner.
 */
MUST_USE int store_scan_ns(struct store_reader *r, const struct store_key *at,
                           bool after, struct store_scan **ret_c,
                           struct err *e);

/**
 * The next entry in order.
 *
 * @param ret_key, ret_value borrowed until store_reader_end().
 * @return 1, 0 at the end, ERR_IO (damage). @thread the reader's owner.
 */
MUST_USE int store_scan_next(struct store_scan *c, struct store_key *ret_key,
                             const void **ret_value, size_t *ret_len,
                             struct err *e);
/** End a scan. Accepts NULL. @thread the reader's owner. */
void store_scan_close(struct store_scan **c);

/* --- copies -------------------------------------------------------------- */

/**
 * Begin a self-contained, compact copy of the last complete round: a
 * savepoint, or the store of a job that starts from one.
 *
 * It is made in steps beside running rounds, in the folder `dir`.partial,
 * checked, and appears as `dir` only when it is whole. Meanwhile nothing is
 * merged. What an earlier try left in the folder is removed.
 *
 * @param dir     must not exist or be an empty folder; its parent exists.
 * @param lineage STORE_LINEAGE_SIZE bytes for the copy; NULL = the same.
 * @param ret_c   ended by store_copy_free(), before store_close().
 * @return 0, ERR_CONFIG (dir is in the way), ERR_IO, ERR_NOMEM,
 *         ERR_INTERNAL (a copy is under way, or no round is complete).
 * @thread the writer.
 */
MUST_USE int store_copy_begin(struct store *s, const char *dir,
                              const uint8_t *lineage, struct store_copy **ret_c,
                              struct err *e);

/**
 * Copy up to `entries_max` entries; the last step checks and publishes.
 *
 * @return 1 (more to do), 0 (`dir` is there), ERR_IO, ERR_NOMEM,
 *         ERR_CONFIG. After an error only store_copy_free() may follow.
 * @thread the writer.
 */
MUST_USE int store_copy_step(struct store_copy *c, size_t entries_max,
                             struct err *e);

/** End; an unfinished copy is removed. Accepts NULL. @thread the writer. */
void store_copy_free(struct store_copy **c);

/* --- verify -------------------------------------------------------------- */

struct store_verified {
    uint64_t round;          /* complete */
    uint64_t entries, bytes; /* in base and segments, as stored */
};

/**
 * Read every byte of the store in `dir` and check it, as store_open() does.
 *
 * Works beside a running job and on savepoints; changes nothing.
 * @return 0; ERR_IO (damage: file, checkpoint, operator, key group and key
 *         or page are in the message), ERR_CONFIG, ERR_NOMEM. @thread any.
 */
MUST_USE int store_verify(const char *dir, struct store_verified *ret,
                          struct err *e);

#endif
