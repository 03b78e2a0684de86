/*
 * What a job begins from: its data directory, the equality rule, the
 * transactions (DESIGN section 9, "Exactly once, one process").
 *
 * Called by job_open(), at the first start and at every restart inside the
 * process; after a restart the marker is read before anything is fenced, so
 * that a process that was overtaken ends instead of fighting.
 * Thread: coordinator, before slots and checkpoint thread start.
 */
#ifndef RUN_RECOVER_H
#define RUN_RECOVER_H

#include "run/job.h"

/**
 * Open the data directory, if the job keeps checkpoints, and take the plan's
 * max parallelism from it where the job file sets none.
 * @param ret_max set to the stored max parallelism, 0 if there is none.
 * @return 0, or as home_open(). The store is run->home's.
 */
MUST_USE int recover_home(struct run *run, const char *job, uint32_t *ret_max,
                          struct err *e);

/**
 * Decide what to go on from and get hold of the transactions: afterwards
 * home.restored, j->txn and j->conn_ckpt are set, or j->already_done is.
 * @return 0; ERR_JOBFILE (the plan does not fit the state), ERR_CONFIG (the
 *         equality rule, the preflight), ERR_BUSY (taken over), ERR_IO,
 *         ERR_UNAVAILABLE.
 */
MUST_USE int recover_state(struct job *j, struct err *e);

/** What decides the job's rounds, as a redo notes it: a prefix, a sink; NULL:
 * nothing outside the store. */
const char *recover_target(const struct job *j);

/**
 * Say in the marker that this attempt goes on from the complete round: once
 * all connectors are open, so that a job that cannot start claims nothing.
 * The target of a Lua sink is told only if it holds another round.
 * @return 0, or as txn_claim(), or as target_claim().
 */
MUST_USE int recover_claim(struct job *j, struct err *e);

/**
 * A job that was fenced and does not begin again: its failure becomes that
 * it was taken over, if the marker says so. The checkpoint thread has ended.
 */
void recover_judge_fencing(struct job *j);

/**
 * Whether the failed job may begin again, as recover_may_restart(), which then
 * counts it as a restart.
 */
bool recover_is_retriable(const struct job *j);

/**
 * Whether the failed job may begin again from its last round: retriable, it
 * keeps checkpoints, nobody asked it to stop, attempts are left. Says which
 * of the conditions fails only where a user could expect a restart.
 * @param ret_wait_ms how long to wait before. @thread coordinator.
 */
bool recover_may_restart(struct job *j, int64_t *ret_wait_ms);

#endif
