/*
 * The running job: everything that run_job() builds, and its end.
 *
 * Files: job.c builds and frees it with wire.c, coordinator.c runs the loop
 * (signals, ticks, watchdog, stopping), rounds.c the rounds, summary.c and
 * progress.c show it. Only the coordinator changes it after the slots started,
 * except through job_failed(), job_wake() and the acknowledgements.
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
#include "plan/fit.h"
#include "plan/plan.h"
#include "run/ckpt.h"
#include "run/home.h"
#include "run/reload.h"
#include "run/rounds.h"
#include "run/run.h"
#include "run/savepoint.h"
#include "run/slot.h"
#include "run/subtask.h"
#include "run/target.h"
#include "script/script.h"

/* What outlives a restart of the job inside the process. */
struct run {
    const struct run_conf *conf;
    struct ev_loop *loop;
    ev_async wakeup;
    ev_timer tick;
    ev_signal signals[4];
    int64_t started_ms, started_mono_ms; /* wall, monotonic */
    int64_t stop_signal_ms;              /* when it came, monotonic */
    int stop_signal;                     /* last SIGTERM or SIGINT, or 0 */
    struct home home;                    /* store NULL: no checkpoints */
    struct control *control;             /* of the home; or NULL */
    struct savepoint savepoint;

    char owner[HOME_OWNER_MAX + 16]; /* the home's and the attempt's number */
    struct txn_marker seen;          /* as this process read or wrote it last */
    bool marked;                     /* it has written one */
    uint32_t restarts;
    uint32_t attempts;  /* restarts since the last complete round */
    uint32_t fencings;  /* likewise, of those by fencing */
    int64_t backoff_ms; /* before the next one; 0: the initial one */

    bool commit_hangs;                    /* at the end, for too long */
    bool finished;                        /* the last round is complete */
    uint64_t completed, failed_rounds;    /* by this process */
    uint64_t restored;                    /* round it began from, 0 fresh */
    int64_t completed_mono_ms;            /* when the last one was, 0 none */
    struct round_note note;               /* of the round under way */
    struct round_note notes[ROUNDS_KEPT]; /* ring, by completed */
    /* Per logical step: counted by earlier attempts up to the round this one
     * began from, and up to the last complete one. */
    struct op_counters *base, *kept;
    struct op_counters *next; /* up to the round given last, next_round */
    uint64_t next_round;
    uint32_t logical_count;
    char **step_names; /* of these counters */
    struct reload reload;
    uint32_t said_restarts; /* by the log */
    uint32_t opens;         /* attempts before this one: restarts and reloads */
};

struct job {
    struct run *run;
    const struct run_conf *conf;
    struct script *script; /* the coordinator's load */
    struct plan *plan;
    struct plan_fit fit; /* against the state it begins from */
    struct op_job ops;   /* what operators see */
    struct lane **lanes; /* per edge: from x to (or x, forward), or NULL */
    struct subtask **subtasks; /* per chain: parallelism of them */
    struct slot *slots;
    uint32_t slot_count;
    struct rounds rounds;
    struct ckpt ckpt;
    struct conn_ckpt conn_ckpt;  /* what connectors see of it */
    struct txn *txn;             /* of exactly_once sinks, or NULL */
    struct target target;        /* of a Lua sink that decides a round */
    struct conn_env txn_env;     /* what it was made with */
    struct op_counters *earlier; /* see kept.c; per logical step */
    bool start_over;             /* the state is of a finished run: not taken */
    bool described;              /* plan and code are in a round */
    bool already_done;           /* finished, and not to be started again */

    bool built;              /* all subtasks are there */
    atomic_bool running;     /* slots are at work */
    bool stopping;           /* sources were told to stop */
    atomic_bool pipe_closed; /* stdout has no reader */
    int64_t stop_mono_ms;    /* when stopping began */
    pthread_mutex_t failure_lock;
    bool has_failure, has_record; /* has_record: `failure` has coordinates */
    struct op_failure failure;
    _Atomic bool failing; /* mirrors has_failure without the lock */
};

/**
 * Load, plan, open and wire everything; slots are not started.
 * @return 0 or the error, not yet reported; job_close() either way.
 */
MUST_USE int job_open(struct job *j, struct run *run, struct err *e);
/** The cap of one Lua state by memory.lua; 0: the job gives lua.memory. */
size_t job_lua_bytes(const struct plan *p);
/** How the job's file is loaded; `seed` tells the loads apart. */
void job_script_conf(const struct job *j, struct script_conf *c, uint64_t seed);
/**
 * A job without checkpoints makes rounds for a reload: into a temporary store,
 * while it is stopped for the swap and while the new version is on probation.
 * @return 0 or ERR_IO. @thread coordinator.
 */
MUST_USE int job_carry(struct job *j, struct err *e);
/** The reload is over: no more rounds. @thread coordinator. */
void job_carry_no_more(struct job *j);
/** What the connector of a step is opened with; borrows from the job. */
struct conn_env job_conn_env(struct job *j, const struct plan_step *s);
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

/** Whether the end of its input is the end of the job: bounded, not stopped,
 * or drained. @thread coordinator. */
bool job_is_finished(const struct job *j);
/** Add to a round what the job itself keeps in it. @thread coordinator. */
void job_fill_round(struct job *j, struct ckpt_round *c);
/** The marker of `round` is this attempt's. @thread coordinator. */
void job_wrote_marker(struct job *j, uint64_t round);
/** A round is aligned: take the counters it ends with. */
void job_take_counters(struct job *j, uint64_t round);
/** A round is complete: count, log, remember. @thread coordinator. */
void job_round_completed(struct job *j, const struct round_note *n);
/** run->note is of a complete round: the summary counts and shows it. */
void run_note_round(struct run *run);
/** Go on counting from the round that a restart begins from: it may have been
 * completed after the job had failed. @thread coordinator. */
void run_pick_counters(struct run *run);

/** Make the counters fit the plan that is about to run: a step goes on with
 * what one of its name counted. @thread coordinator. */
void job_fit_counters(struct job *j);
/** Remember, put back or forget how counters are, by step. */
void counters_keep(const struct run *run, struct named_counters *ret);
void counters_restore(struct run *run, struct named_counters *from);
void counters_forget(struct named_counters *c);
/** Free what job_fit_counters() made. */
void run_free_counters(struct run *run);

/** Interrupt user code that overruns by real time; say so when it cannot be.
 * @thread coordinator, or the watchdog of a box. */
void job_watch_scripts(const struct job *j);
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
    uint64_t incomplete, timers_unfired, timers_discarded;
    uint64_t dropped[CAUSE_COUNT], errors[CAUSE_COUNT];
    uint64_t quarantined[CAUSE_COUNT];
    int64_t watermark; /* smallest over subtasks; WM_NONE before the first */
};
void step_sums(const struct job *j, uint32_t logical, struct step_sums *ret);
/** What keyed state takes in memory, bytes. @thread coordinator. */
uint64_t job_state_bytes(const struct job *j);

/** Redraw or clear the progress line. @thread coordinator. */
void progress_draw(struct job *j, int64_t now_ms);
void progress_clear(struct job *j);

#endif
