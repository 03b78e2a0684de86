/*
 * The ledger: what a store knows of its rounds. Used inside state only.
 *
 * One ledger describes the last complete round (kept under "cur" in the
 * table `meta`), one the pending redo (under "redo"; its only segment is the
 * redo's own, and base, merge and lost say nothing there). Completing a round
 * folds the second into the first.
 *
 * Totals count the entries of a tree by operator: how many, bytes, and the
 * sum of their checksums modulo 2^64. A tree that lost an entry, holds one
 * twice or an older version of one cannot have the totals of the ledger.
 *
 * Owner: one thread. Memory that cannot be had is ERR_NOMEM.
 */
#ifndef STATE_LEDGER_H
#define STATE_LEDGER_H

#include "state/entry.h"
#include "state/wire.h"

struct total {
    uint32_t op;
    uint64_t entries; /* deletions included */
    uint64_t dels;    /* of them, deletions */
    uint64_t bytes;   /* stored keys and values */
    uint64_t sum;     /* of the checksums */
};

struct totals {
    struct total *items; /* by op, ascending */
    size_t count, cap;
};

struct ledger_op {
    uint32_t id;
    bool dropped; /* waits until its keys are out of the base */
    uint8_t len;
    char name[STORE_NAME_MAX + 1];
};

struct ledger_blob {
    uint64_t round; /* that wrote it */
    uint8_t len;
    char name[STORE_NAME_MAX + 1];
};

struct ledger_segment {
    uint64_t round;
    uint8_t slot;
    struct totals totals;
};

struct ledger {
    uint64_t round;
    uint8_t lineage[STORE_LINEAGE_SIZE];
    bool finished;
    uint32_t next_op;
    struct ledger_op *ops; /* by id, ascending */
    size_t op_count, op_cap;
    struct ledger_blob *blobs;
    size_t blob_count, blob_cap;
    struct ledger_segment segments[STORE_SEGMENTS_MAX]; /* oldest first */
    unsigned segment_count;
    struct totals base;
    /* A merge under way: segments up to this round, keys up to this one. */
    uint64_t merge_round; /* 0 = none */
    struct entry_key merge_key;
    uint32_t lost; /* bit per slot: a damaged redo lies there, untouchable */
};

/** Empty, round 0. */
void ledger_init(struct ledger *l);
void ledger_fini(struct ledger *l);
/** Make `to` (initialised) a copy of `from`. @return 0 or ERR_NOMEM. */
MUST_USE int ledger_copy(struct ledger *to, const struct ledger *from);

/** Append the ledger to `w` (which may fail). */
void ledger_encode(const struct ledger *l, struct wire *w);
/** Read what ledger_encode() wrote into `l` (initialised).
 * @return 0, ERR_NOMEM, ERR_IO (not a ledger). */
MUST_USE int ledger_decode(struct ledger *l, const void *bytes, size_t len);

/** The entry of `op`, or NULL. */
struct total *totals_find(const struct totals *t, uint32_t op);
/** The entry of `op`, made if need be; NULL without memory. */
struct total *totals_at(struct totals *t, uint32_t op);
/** Count one entry: `sign` 1 or -1. @return 0 or ERR_NOMEM. */
MUST_USE int totals_count(struct totals *t, const struct entry *e, size_t bytes,
                          int sign);
/** Take the entry of `op` out. */
void totals_remove(struct totals *t, uint32_t op);
/** Whether both count the same; entries of nothing do not matter. */
bool totals_equal(const struct totals *a, const struct totals *b,
                  uint32_t *ret_op);
MUST_USE int totals_copy(struct totals *to, const struct totals *from);
void totals_fini(struct totals *t);

/** The live operator called `name`, or NULL. */
struct ledger_op *ledger_find_name(const struct ledger *l, const char *name,
                                   size_t len);
/** The operator with this number, dropped ones too, or NULL. */
struct ledger_op *ledger_find_op(const struct ledger *l, uint32_t id);
/** Add an operator. @return 0, ERR_NOMEM, ERR_INTERNAL (too many). */
MUST_USE int ledger_add_op(struct ledger *l, const char *name, size_t len,
                           uint32_t *ret);
void ledger_remove_op(struct ledger *l, uint32_t id);

struct ledger_blob *ledger_find_blob(const struct ledger *l, const char *name);
/** Enter a blob, or another round for it. @return as ledger_add_op(). */
MUST_USE int ledger_set_blob(struct ledger *l, const char *name,
                             uint64_t round);
void ledger_remove_blob(struct ledger *l, const char *name);

/** The key of a blob in `meta`: "b", round, name. @return its length. */
size_t ledger_blob_key(const struct ledger_blob *b,
                       uint8_t out[STORE_NAME_MAX + 16]);

enum { LEDGER_PLACE_MAX = 448 };

/** "operator 'x', key group 3, key 'abc'" of a stored key, for messages. */
void ledger_place(const struct ledger *l, const void *key, size_t len,
                  char out[LEDGER_PLACE_MAX]);

#endif
