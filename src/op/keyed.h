/*
 * The keyed state of a function step in its operator: how it begins with a
 * restored round, takes part in rounds, and is cleaned.
 *
 * Used by op_process and op_dedup. Owner: one subtask. At a barrier the state
 * freezes and the mark goes on at once; what is frozen is encoded in pieces
 * between messages (keyed_save) and given when it is whole. At the end of
 * input nothing follows, so all is saved before the mark goes on. With
 * op_job.cache_bytes memory is bounded: what was not touched lately is in the
 * store only. Every call of the operator ends with keyed_leave().
 */
#ifndef OP_KEYED_H
#define OP_KEYED_H

#include "core/kstate.h"
#include "op/key_eval.h"
#include "op/op.h"
#include "op/op_store.h"

struct keyed {
    struct op *op;
    struct kstate_handle *handles; /* count of them */
    uint32_t count;
    struct kstate *state;
    struct key_eval keys;  /* for input that comes without exchange */
    struct snapshot *snap; /* while saving */
    int64_t wm;            /* in the step's blob */
    int64_t now;           /* wall clock, as of the call */
    struct mark held;      /* goes on when nothing is left to do for it */
    bool has_held, frozen;
    bool uses_event, uses_processing; /* clocks of ttls */
    struct op_store store;            /* if the job has one */
    bool full;                        /* memory has no room: take nothing */
    bool warned;                      /* of memory */
};

/**
 * Make the state.
 * @param handles count of them, heap memory, taken; ids are given here.
 * @return 0; ERR_IO, ERR_CONFIG: the restored round does not fit them.
 * @thread coordinator.
 */
MUST_USE int keyed_init(struct keyed *k, struct op *op,
                        struct kstate_handle *handles, uint32_t count,
                        struct err *e);
void keyed_fini(struct keyed *k);
/** op_type.restore. @thread the slot, as all that follow. */
MUST_USE int keyed_restore(struct keyed *k, struct err *e);
/** op_type.save. */
MUST_USE int keyed_save(struct keyed *k, struct err *e);

/** Look at the wall clock: once a message. */
void keyed_begin(struct keyed *k);
/**
 * The key of record `i` of a batch.
 * @return 0; 1: there is none, which was judged; < 0: the job fails.
 */
MUST_USE int keyed_key(struct keyed *k, const struct batch *b, uint32_t i,
                       struct rec_key *ret, struct err *e);
/** Ask the cache for the keys of records from `i` on, if it is time to. */
void keyed_prefetch(const struct keyed *k, const struct batch *b, uint32_t i);
/** The end of a message: count the keys that there are. */
void keyed_note(struct keyed *k);

/** Hold a mark until keyed_release(); the operator is pending. */
void keyed_hold(struct keyed *k, const struct mark *m);
/**
 * Do a piece of what the held mark still needs, then let it go.
 * @return 1 there is more to do; 0 it went on, or there was none; < 0.
 */
MUST_USE int keyed_release(struct keyed *k, struct err *e);
/**
 * Free a piece of what has expired, in memory and in the store.
 * @param ret_wait as op_type.tick.
 * @return 0, or what the store says.
 */
MUST_USE int keyed_clean(struct keyed *k, int64_t *ret_wait, struct err *e);
/** The end of a call of the operator with result `r`: no reader stays open,
 * memory keeps its bound. @return `r`, or what the store said. */
MUST_USE int keyed_leave(struct keyed *k, int r, struct err *e);
/** op_type.ready, beside that of the outputs. */
bool keyed_ready(struct keyed *k);

#endif
