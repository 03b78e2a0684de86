/*
 * The running job: everything that run_job() builds, and its end.
 *
 * Files: job.c builds and frees it, coordinator.c runs the loop (signals,
 * ticks, watchdog, stopping), rounds.c the rounds, summary.c and progress.c
 * show it. Only the coordinator changes it after the slots started, except
 * through job_failed(), job_wake() and the acknowledgements.
 *
 * Locks: the table in README.md; nothing is called while one is held.
 */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

#include "op/op.h"
#include "plan/plan.h"
#include "run/rounds.h"
#include "run/run.h"
#include "run/slot.h"
#include "run/subtask.h"
#include "script/script.h"

struct job {
    const struct run_conf *conf;
    struct script *script; /* the coordinator's load */
    struct plan *plan;
    struct op_job ops;   /* what operators see */
    struct lane **lanes; /* per edge: from x to (or x, forward), or NULL */
    struct subtask **subtasks; /* per chain: parallelism of them */
    struct slot *slots;
    uint32_t slot_count;
    struct rounds rounds;

    struct ev_loop *loop;
    ev_async wakeup;
    ev_timer tick;
    ev_signal signals[4];

    int64_t started_ms, started_mono_ms; /* wall, monotonic */
    int stop_signal;                     /* last SIGTERM or SIGINT, or 0 */
    bool stopping;                       /* sources were told to stop */
    atomic_bool pipe_closed;             /* stdout has no reader */
    int64_t stop_mono_ms;                /* when stopping began */
    pthread_mutex_t failure_lock;
    bool has_failure, has_record; /* has_record: `failure` has coordinates */
    struct op_failure failure;
    _Atomic bool failing; /* mirrors has_failure without the lock */
};

/**
 * Load, plan, open and wire everything; slots are not started.
 * @return 0 or the error, not yet reported; job_close() either way.
 */
MUST_USE int job_open(struct job *j, const struct run_conf *conf,
                      struct err *e);
/** Free everything; closes connectors with their deadlines. */
void job_close(struct job *j);
/** Run until the end; signals and failures included. @thread main. */
void job_loop(struct job *j);

/** Note a failure; the first one counts. @thread any. */
void job_failed(struct job *j, const struct err *e);
/** Wake the coordinator. @thread any. */
void job_wake(struct job *j);
/** Tell the sources to stop: the job drains and ends. @thread coordinator. */
void job_stop(struct job *j);
/** Whether all subtasks are done. @thread coordinator. */
bool job_is_done(const struct job *j);
/** Wake all slots. @thread coordinator. */
void job_wake_slots(struct job *j);

/** The subtasks of a step's chain; count = its parallelism. */
struct subtask *job_subtasks(const struct job *j, uint32_t chain);

/** Append the summary object (API.md section 9). @thread coordinator. */
void summary_put(struct job *j, struct buf *out, int exit_code);
/** Write it atomically to conf->summary_path, if there is one. */
int summary_write(struct job *j, int exit_code, struct err *e);
/**
 * Summary of a job that did not come to run (load or open failed).
 * @param name NULL while the job has none. A summary that cannot be written
 *        is logged.
 */
void summary_write_failed(const struct run_conf *conf, const char *name,
                          int64_t started_ms, const struct err *error,
                          int exit_code);

/* Sum of the counters of a logical step. */
struct step_sums {
    uint64_t records_in, records_out, bytes_in, bytes_out;
    uint64_t late, late_windows, local_in, local_out, bypassed, keys;
    uint64_t dropped[CAUSE_COUNT], errors[CAUSE_COUNT];
    int64_t watermark; /* smallest over subtasks; WM_NONE before the first */
};
void step_sums(const struct job *j, uint32_t logical, struct step_sums *ret);

/** Redraw or clear the progress line. @thread coordinator. */
void progress_draw(struct job *j, int64_t now_ms);
void progress_clear(struct job *j);

#endif
