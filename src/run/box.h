/*
 * A job in a box: a real job that its caller drives, step by step.
 *
 * testing/ uses it: no slot threads, no coordinator's loop, queues in place of
 * connectors (run_conf.box). The caller runs subtask_step() and rounds_tick()
 * of the job itself; the checkpoint thread is there as ever. A thread of the
 * box watches user code by real time, as the coordinator does.
 *
 * An attempt (box_open() to box_close()) is what a process would be: the next
 * one opens the data directory again and goes on from the last round.
 * Thread: one, the caller's.
 */
#ifndef RUN_BOX_H
#define RUN_BOX_H

#include "run/job.h"

struct box;

/**
 * Make a box that holds no job yet.
 * @param conf with `box` set; borrowed, may change between attempts.
 * @return 0 or ERR_INTERNAL.
 */
MUST_USE int box_new(const struct run_conf *conf, struct box **ret,
                     struct err *e);
/** Free it, with a job that is open. Accepts NULL. */
void box_free(struct box **b);
/**
 * Load and open the job, from the last round if there is one.
 * @return 0, or as job_open(); box_close() either way.
 */
MUST_USE int box_open(struct box *b, struct err *e);
/** The job ends where it stands, as if killed. None open: nothing. */
void box_close(struct box *b);
/** The next attempt runs that wide, 0: as the job says. */
void box_set_parallelism(struct box *b, uint32_t parallelism);
/**
 * Prepare a reload to `file`, as the reload of a running job is. The attempt
 * that is open goes on; once it is closed, box_swap() makes the new version
 * the next one, on probation until its first round is complete.
 * @return 0, or ERR_JOBFILE and the like: refused, as if never asked for.
 */
MUST_USE int box_prepare(struct box *b, const char *file, struct err *e);
void box_swap(struct box *b);
/** The open attempt failed. @return whether it was of a version on probation:
 * the next one will be of the version before. */
bool box_rolls_back(struct box *b);
/** The open job. */
struct job *box_job(struct box *b);
/** Wait until something woke the coordinator: the checkpoint thread. */
void box_wait(struct box *b);

#endif
