/*
 * Subtasks: one chain of the plan in one slot.
 *
 * A subtask takes one message at a time from its source or lanes, runs it
 * through its operators, and finishes pending work (rows of a firing window,
 * a sink's flush) before it takes the next. It combines watermarks, aligns
 * barriers and ends when all its inputs have ended. Owner: its slot thread;
 * the fields marked "shown" are read by the coordinator.
 */
#ifndef RUN_SUBTASK_H
#define RUN_SUBTASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/watermark.h"
#include "op/build.h"
#include "run/lane.h"

struct slot;
struct target;

struct subtask_input {
    struct lane *lane;
    bool aligned; /* has given the barrier of the round under way */
    bool ended;
};

enum step_result {
    STEP_IDLE,    /* nothing to do now */
    STEP_BLOCKED, /* could work, but an output has no room */
    STEP_WORKED
};

struct subtask {
    struct slot *slot;
    const struct plan_chain *chain;
    struct script *script; /* own Lua state, or NULL */
    struct op_chain ops;   /* ops.env is what operators see */
    struct subtask_input *inputs;
    uint32_t input_count, next_input, ended_count;
    struct lane **outputs; /* lanes it sends on, for pumping */
    uint32_t output_count;
    struct target *target; /* its sink's, if that decides a round; or NULL */
    struct wm_input wm;
    bool final;                    /* all ended inputs were final */
    bool end_given;                /* MARK_END went through the head */
    bool look_aligned;             /* an input ended: is the barrier due? */
    uint64_t round;                /* last round begun here */
    _Atomic uint64_t round_wanted; /* set by the coordinator */
    bool restored;                 /* its operators took back their state */
    bool count_due;                /* a barrier is on its way through */
    /* The operators' counters behind the barrier of round `counted`; written
     * by the slot before `counted` is, then not before the next barrier. */
    struct op_counters *at_barrier;
    _Atomic uint64_t counted;
    _Atomic bool done;         /* shown */
    _Atomic bool at_end;       /* shown: sources have nothing to read */
    _Atomic int64_t active_ms; /* shown: when data last moved */
    _Atomic int64_t busy_ns, idle_ns, blocked_ns; /* shown */
};

/**
 * Do one unit of work.
 * @param ret_wait lowered to the ms after which it wants to be called again.
 * @return enum step_result, or a negative error: the job fails.
 * @thread the slot.
 */
int subtask_step(struct subtask *st, int64_t *ret_wait, struct err *e);
/** Let the operators look at the clock. @thread the slot. */
int subtask_tick(struct subtask *st, bool idle, int64_t *ret_wait,
                 struct err *e);
/** Move overflow of its output lanes. @thread the slot. */
void subtask_pump(struct subtask *st);
/** Free operators, script and inputs (lanes are the job's). */
void subtask_fini(struct subtask *st);

#endif
