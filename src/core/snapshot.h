/*
 * What a round keeps of one operator of one subtask, and how it comes back.
 *
 * At a barrier an operator makes a `struct snapshot`: a blob (positions,
 * watermarks, parts of files: nobody else looks into it) and the changes of
 * its keyed state since the barrier before. It gives it to run/, whose
 * checkpoint thread puts it into the store. A restore hands the blobs of a
 * step, one a subtask of then, to every subtask of now (`struct step_blobs`),
 * which picks what is its own by partition or key group; keyed state is read
 * from the store by key group.
 *
 * Owner: the operator until it is given away, then whoever took it. Bytes
 * given in are copied. Limits: those of state/store.h.
 */
#ifndef CORE_SNAPSHOT_H
#define CORE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Round of a snapshot that was made at the end of the subtask's input. */
#define SNAPSHOT_END UINT64_MAX

struct snapshot {
    uint64_t round;
    struct buf blob;
    struct buf changes; /* the newest; empty only if there are none */
    struct buf *full;   /* those before, in order: a large one never grows */
    size_t full_cap;
    uint32_t full_count;
    size_t full_bytes;
    uint64_t puts, dels;
    int64_t pause_ns;  /* how long the barrier stopped the subtask */
    size_t open_value; /* private: where the value under way has its length */
};

/** Make an empty one. @thread any. */
struct snapshot *snapshot_new(uint64_t round);
/** Free it. Accepts NULL. @thread the owner. */
void snapshot_free(struct snapshot **s);

/* Where an entry lies, as in state/store.h, without the operator. */
struct snapshot_key {
    uint16_t group; /* key group */
    uint8_t ns_len; /* bytes, of one length in all entries of a step */
    uint32_t key_len;
    const void *ns, *key;
};

/** Bytes of all changes so far. @thread the owner. */
static inline size_t
snapshot_bytes(const struct snapshot *s)
{
    return s->full_bytes + s->changes.len;
}

/**
 * Begin to set an entry: the caller appends its value to s->changes, then
 * calls snapshot_put_end(). @thread the owner.
 */
void snapshot_put_begin(struct snapshot *s, const struct snapshot_key *k);
void snapshot_put_end(struct snapshot *s);
/** Remove an entry; it need not exist. @thread the owner. */
void snapshot_del(struct snapshot *s, const struct snapshot_key *k);

struct snapshot_change {
    struct snapshot_key key;
    bool del;
    const void *value; /* value_len bytes */
    uint32_t value_len;
};

/**
 * Walk the changes in the order they were made; of one entry the last counts.
 *
 * @param at  0 at first. @param ret borrows the snapshot's bytes.
 * @return 1, 0 at the end. @thread the owner.
 */
int snapshot_next(const struct snapshot *s, size_t *at,
                  struct snapshot_change *ret);

/* The blobs of one step in a complete round. */
struct step_blobs {
    char *step;     /* its name; the identity of state */
    uint32_t count; /* subtasks then; subtask i held the key groups g with
                       key_group_subtask(g, count, max_parallelism) == i */
    struct buf *blobs;
};

/* What a job begins from, beside its keyed state. Immutable after reading. */
struct restored {
    uint64_t round; /* > 0 */
    uint32_t max_parallelism;
    struct step_blobs *steps;
    uint32_t step_count;
};

/** Append the portable form of all blobs. @thread any. */
void restored_put(const struct restored *r, struct buf *out);
/**
 * Read it back.
 * @param ret to be ended by restored_fini(), also after a failure.
 * @return 0, ERR_IO for damaged bytes. @thread any.
 */
MUST_USE int restored_read(const void *bytes, size_t len, struct restored *ret,
                           struct err *e);
void restored_fini(struct restored *r);
/** Forget what `step` gave, as if it were new. @thread the owner. */
void restored_forget(struct restored *r, const char *step);
/** The blobs of `step`, or NULL: it is new. `r` may be NULL. @thread any. */
const struct step_blobs *restored_find(const struct restored *r,
                                       const char *step);

#endif
