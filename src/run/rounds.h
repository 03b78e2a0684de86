/*
 * Rounds: barriers through all subtasks, and what a complete one means.
 *
 * Round N: the coordinator asks the sources for a barrier, sources give
 * their positions and push it, lanes align it, sinks flush and acknowledge.
 * When all have, everything before the barrier is delivered, and the sources
 * hear it (Kafka commits group offsets). One round at a time.
 *
 * Until there are checkpoints, rounds run only for jobs that keep no state:
 * the offsets of a windowed job must not move past windows that would be
 * lost with the process.
 * Thread: coordinator, but for rounds_ack() (any).
 */
#ifndef RUN_ROUNDS_H
#define RUN_ROUNDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct job;
struct plan_step;

struct round_task {
    uint64_t acked;       /* UINT64_MAX: ended */
    uint64_t round;       /* the last one it gave its positions for */
    struct buf positions; /* sources: at the barrier of `round` */
    struct buf end;       /* sources: when it ended */
};

struct round_step { /* a source or sink step; tasks NULL for others */
    struct round_task *tasks;
    uint32_t count;
    bool source;
};

struct rounds {
    struct job *job;
    pthread_mutex_t lock;
    struct round_step *steps; /* per plan step */
    bool enabled;
    int64_t interval_ms, begun_ms, last_ms; /* monotonic */
    uint64_t current;                       /* under way or last begun */
    bool under_way;
    uint64_t completed; /* how many */
};

void rounds_init(struct rounds *r, struct job *j);
void rounds_fini(struct rounds *r);
/** op_job.ack. @thread any. */
void rounds_ack(void *job, const struct plan_step *step, uint32_t subtask,
                uint64_t round, const struct buf *positions);
/** Begin, or complete, what is due. */
MUST_USE int rounds_tick(struct rounds *r, int64_t now_ms, struct err *e);
/** All slots ended in order: the last positions are final. */
MUST_USE int rounds_final(struct rounds *r, struct err *e);

#endif
