/*
 * Rounds: barriers through all subtasks, and what a complete one means.
 *
 * | state    | entered by                       | leaves when               |
 * | resting  | start; a round that is done      | interval, savepoint,      |
 * |          |                                  | an operator short of room |
 * | aligning | begin: sources push the barrier  | every part has given, all |
 * |          |                                  | subtasks have counted     |
 * | writing  | all snapshots go to the          | the thread says how it    |
 * |          | checkpoint thread                | ended                     |
 *
 * One round at a time; round N is the complete one plus 1, always. A part is
 * one subtask of a step that takes part (plan_step_in_rounds()). It gives a
 * snapshot at each barrier and one at its end; a part that ended before the
 * barrier counts with what it gave then, and with its blob as it was in every
 * later round. A round that cannot be written or committed fails the job,
 * which may then begin again from the round before (run/recover.h).
 *
 * A job without checkpoints has no rounds; one that keeps no state and whose
 * checkpoints are off has none either.
 * Thread: coordinator, but for rounds_give() and rounds_wanted() (any).
 */
#ifndef RUN_ROUNDS_H
#define RUN_ROUNDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/snapshot.h"
#include "run/ckpt.h"

struct job;
struct plan_step;

enum { ROUNDS_KEPT = 16 };

struct round_part {
    struct snapshot *now; /* of the round under way */
    struct snapshot *end; /* given at its end, not yet in a round */
    struct buf blob;      /* as in the last round it was in */
    int64_t now_ms;       /* when it gave */
    bool ended;
};

struct round_step { /* a step that takes part; parts NULL for others */
    struct round_part *parts;
    uint32_t count;
};

/* What the summary says of a round. */
struct round_note {
    uint64_t round;
    int64_t ms, align_ms, sync_ms, commit_ms; /* whole; of it */
    int64_t pause_us;                         /* the longest of a subtask */
    uint64_t puts, dels, bytes;
};

enum round_state { ROUND_RESTING, ROUND_ALIGNING, ROUND_WRITING };

struct rounds {
    struct job *job;
    pthread_mutex_t lock;
    struct round_step *steps; /* per plan step */
    bool enabled;
    enum round_state state;
    uint64_t current;                    /* under way, or done last */
    int64_t begun_ms, ended_ms, told_ms; /* monotonic */
    uint64_t overdue;                    /* timeouts of this round */
    atomic_bool wanted;                  /* before its interval is over */
    struct ckpt_round *writing;
};

void rounds_init(struct rounds *r, struct job *j);
void rounds_fini(struct rounds *r);
/** op_job.give. @thread any. */
void rounds_give(void *job, const struct plan_step *step, uint32_t subtask,
                 struct snapshot **s);
/** op_job.want_round: begin one as soon as the last is done. @thread any. */
void rounds_wanted(void *job);
/** Begin, or go on with, what is due. @return 0 or the job's failure. */
MUST_USE int rounds_tick(struct rounds *r, int64_t now_ms, struct err *e);
/**
 * All slots ended in order: finish the round under way, then take the last
 * one. Called again and again until it returns 0.
 * @return 1 not yet (job_wake() follows), 0 done, or the job's failure.
 */
MUST_USE int rounds_final(struct rounds *r, struct err *e);
/** The last complete round. */
uint64_t rounds_complete(const struct rounds *r);

#endif
