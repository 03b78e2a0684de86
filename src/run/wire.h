/*
 * The subtasks of a job and the lanes between them: made from the plan, one
 * subtask per chain and parallel instance, each with its own load of the job
 * where its steps call user code.
 *
 * Used by job.c alone, on the coordinator thread, while no slot runs.
 */
#ifndef RUN_WIRE_H
#define RUN_WIRE_H

#include "base/err.h"

struct job;

/**
 * Make slots, lanes and subtasks of j->plan and join them; the slots are not
 * started. What was made of it is freed by wire_free() and the slots by
 * job_close(), also after a failure.
 * @return 0, or the error of a load or of an operator that cannot be built.
 * @thread coordinator.
 */
MUST_USE int wire_build(struct job *j, struct err *e);
/** Free lanes and subtasks; the slots have ended. @thread coordinator. */
void wire_free(struct job *j);

#endif
