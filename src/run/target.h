/*
 * The target of a Lua sink that decides a round: what it holds at a start,
 * and its commit when a round's redo is durable.
 *
 * The sink's connection lives in the Lua state of its subtask, so the
 * checkpoint thread never calls it while a slot may: it leaves the round here
 * and waits; the slot takes it in its next turn, before any other work of the
 * subtask. Once the subtask is done, its state is nobody's, and the
 * checkpoint thread makes the call itself.
 *
 * | state     | entered by                    | leaves when                  |
 * | resting   | start; an answer was taken    | the checkpoint thread asks   |
 * | due       | target_commit()               | someone takes it; cancelled  |
 * | running   | the slot, or the checkpoint   | commit() returned            |
 * |           | thread if the subtask is done |                              |
 * | answered  | commit() returned             | the checkpoint thread reads  |
 * | cancelled | the slots stopped with a      | never                        |
 * |           | failure                       |                              |
 *
 * At a start the coordinator asks and, if a flag allowed it to go on from
 * elsewhere, claims, in a session of its own in its own Lua state, which is
 * closed before the slots have theirs.
 */
#ifndef RUN_TARGET_H
#define RUN_TARGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/connector.h"
#include "kafka/txn.h"

struct job;
struct op;
struct subtask;

enum target_state {
    TARGET_RESTING,
    TARGET_DUE,
    TARGET_RUNNING,
    TARGET_ANSWERED,
    TARGET_CANCELLED,
};

struct target {
    bool exists;             /* the job has one */
    const char *id;          /* the plan's, for the redo */
    struct subtask *subtask; /* of the sink */
    struct op *op;           /* the sink in it */
    pthread_mutex_t lock;
    pthread_cond_t answered;
    atomic_bool due; /* mirrors TARGET_DUE: looked at in every turn */
    /* under the lock */
    enum target_state state;
    struct conn_round round;
    struct err answer; /* code 0: committed */
};

/**
 * Ask what the target holds, as a marker. A target that keeps no token says
 * no lineage and no owner.
 * @param ret_told whether it keeps a token.
 * @return 0, or the sink's error. @thread coordinator, no slot runs.
 */
MUST_USE int target_look(struct job *j, struct txn_marker *ret, bool *ret_told,
                         struct err *e);
/** Make the target say that this attempt goes on from `round`. As
 * target_look(). */
MUST_USE int target_claim(struct job *j, uint64_t round, struct err *e);

/** Find the sink's subtask, which is built. @thread coordinator. */
void target_init(struct target *t, struct job *j);
void target_fini(struct target *t);

/**
 * Have `round` committed, for as long as it takes.
 * @param t of the job. @return 0; else what became of it is unknown, or
 *        ERR_UNAVAILABLE because the slots have stopped.
 * @thread the checkpoint thread.
 */
MUST_USE int target_commit(struct target *t, const struct conn_round *round,
                           struct err *e);
/** Make the commit that is due, if one is. @return 1 it was made, 0 none, or
 * its error. @thread the slot of the sink's subtask. */
int target_serve(struct target *t, struct err *e);
/** The slots have stopped and will serve nothing any more. @thread coord. */
void target_cancel(struct target *t);

/** The token of a round: lineage and owner, one line. */
void target_token(const struct job *j, struct conn_round *round);

#endif
