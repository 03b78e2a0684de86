/*
 * Scripts: one loaded job file in one Lua state.
 *
 * The coordinator loads the file once to get the job's tree (and to test
 * aggregators); each subtask that calls user functions loads it again and
 * checks that the tree is the same. A script belongs to one thread; only
 * script_interrupt() may be called from another. No call keeps a record or a
 * view beyond its return. All failures of user code are ERR_RECORD with
 * cause user_error, `where` = file:line, `trace` and, where known, a hint.
 */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "core/agg.h"
#include "core/connector.h"
#include "core/kept.h"
#include "core/kstate.h"
#include "core/rec.h"
#include "format/reader.h"
#include "script/files.h"

struct script;

struct script_conf {
    const char *path; /* file as given on the command line */
    const char *text; /* its bytes (read once; the same for all loads), or
                         NULL: those in `files` */
    size_t text_len;
    /* The texts of this version, borrowed for the script's life: what is not
     * sealed is added to. NULL: all is read from disk. */
    struct script_files *files;
    const struct opt *params; /* map name -> string, from --set */
    const struct opt *args;   /* list of strings behind "--" */
    bool unsafe;
    uint64_t seed;           /* for math.random of this state */
    int64_t load_timeout_ms; /* first guess; the job's own lua options win */
    /* A test file (script/test.h): what its cases call, by name. Arguments
     * are a map, *ret stays NULL or is set to what the call gives, in `a`.
     * @param where FILE:LINE of the call. */
    int (*test_call)(void *arg, const char *call, const struct opt *args,
                     const char *where, struct arena *a, const struct opt **ret,
                     struct err *e);
    void *test_arg;
    /* Called for each line of the job's files that runs, loading included;
     * NULL: no hook, no cost. `path` as script_file.path. */
    void (*line)(void *arg, const char *path, int line);
    void *line_arg;
};

/** Read a job file ("-" = stdin). @return 0 or ERR_JOBFILE. */
MUST_USE int script_read_file(const char *path, char **ret_text,
                              size_t *ret_len, struct err *e);

/**
 * Load the file: run it, check it, build the tree.
 *
 * @return 0; ERR_JOBFILE (where = file:line); ERR_USAGE for parameters
 *         (missing, not convertible, unknown --set; lists the job's).
 * @thread the owner of the script.
 */
MUST_USE int script_load(const struct script_conf *conf, struct script **ret,
                         struct err *e);
void script_free(struct script **s);
/** The normalised job tree; lives as long as the script. */
const struct opt *script_job(const struct script *s);
/** Text that is equal for equal plans (fingerprint input). */
const char *script_fingerprint(const struct script *s);
/**
 * Compare with the first load.
 * @return 0 or ERR_JOBFILE "the plan differs between two loads (step ...)".
 */
MUST_USE int script_check_same(const struct script *first,
                               const struct script *again, struct err *e);
/** Run the law tests of custom aggregators and note results in the tree. */
MUST_USE int script_test_laws(struct script *s, struct err *e);

/* Calls into user code. `reader` is the segment's reader of `r`; may be NULL
 * for records without columns. @thread the owner. */
MUST_USE int script_filter(struct script *s, int func, const struct rec *r,
                           struct reader *reader, bool *ret, struct err *e);
/** Call map; *out is set to the result record, its bytes in `a`. */
MUST_USE int script_map(struct script *s, int func, const struct rec *r,
                        struct reader *reader, struct arena *a, struct rec *out,
                        struct err *e);
/** Call flat_map; emitted records are appended to `out` (none on failure). */
MUST_USE int script_flat_map(struct script *s, int func, const struct rec *r,
                             struct reader *reader, struct batch *out,
                             struct err *e);
/** Call a function that gives one value (key, select, time, sink key). */
MUST_USE int script_value(struct script *s, int func, const struct rec *r,
                          struct reader *reader, struct arena *a,
                          struct val *ret, struct err *e);
/** As script_value(), with an integer as second argument (partition=). */
MUST_USE int script_value_with(struct script *s, int func, const struct rec *r,
                               struct reader *reader, int64_t second,
                               struct arena *a, struct val *ret, struct err *e);
/**
 * Call the function of split.
 * @param names its outputs, a list of strings.
 * @param ret   set to the place in `names` of what it returned; ERR_RECORD if
 *              that is none of them.
 */
MUST_USE int script_split(struct script *s, int func, const struct opt *names,
                          const struct rec *r, struct reader *reader,
                          uint32_t *ret, struct err *e);

/* The functions of one process step, with ctx and state handles. */
struct script_process;

struct script_process_conf {
    const struct opt *opts; /* the normalised step */
    const char *step;       /* its name: origin of what timers emit */
    struct kstate *state;   /* handles: `state` of the step, in its order */
    const struct kstate_handle *handles;
    uint32_t handle_count;
    struct batch *outs; /* main, then `outputs`: what is emitted is appended */
    bool event_time;    /* whether there are event timers */
};

/**
 * Make ctx and the handles. What `conf` borrows must outlive them.
 * @return 0 or ERR_NOMEM. @thread the owner, as all that follow.
 */
MUST_USE int script_process_new(struct script *s,
                                const struct script_process_conf *conf,
                                struct script_process **ret, struct err *e);
/** Free them, before the script. Accepts NULL. */
void script_process_free(struct script_process **p);
/** What ctx:watermark() and ctx:now() say from here on, ms. */
void script_process_times(struct script_process *p, int64_t watermark,
                          int64_t now);
/**
 * Call on_record, or on_left or on_right, about the state's current key.
 *
 * State and timers are the caller's to commit or to undo.
 * @return 0, or ERR_RECORD: the outputs are as before.
 */
MUST_USE int script_process_record(struct script_process *p, bool right,
                                   const struct rec *r, struct reader *reader,
                                   struct err *e);
/** The message key of rows about the current key, borrowed until the next
 * call; NULL: they have none. */
const char *script_process_key(struct script_process *p, uint32_t *ret_len);
/** Call on_timer, likewise. */
MUST_USE int script_process_timer(struct script_process *p,
                                  enum kstate_clock clock, int64_t ts,
                                  struct err *e);
/* A window that has closed, for on_window. Borrowed for the call. */
struct script_window {
    const char *key; /* canonical */
    uint32_t key_len, count;
    int64_t start, end;
    bool bounded; /* else it has no start and end; `end` gives rows a time */
    struct kept *const *records; /* `count` of them, in order */
};

/**
 * Call on_window. The step is an aggregate whose rows are "window"; `state`
 * and `handles` of its conf are NULL.
 * @return 0, or ERR_RECORD: the outputs are as before.
 */
MUST_USE int script_process_window(struct script_process *p,
                                   const struct script_window *w,
                                   struct err *e);
/* A `migrate`: its function, and whether it makes accumulators of a custom
 * aggregator, which may be tables of any keys, or values of a handle. */
struct script_migrate {
    int func;
    bool accumulator;
};
/**
 * Pass what the state has of a value, list element, map value or accumulator
 * through migrate.
 * @param out gets the bytes that the state has from now on.
 * @return 0; ERR_JOBFILE: the function failed, or gave nil or no plain data
 *         (where, trace and hint are set); ERR_IO: damaged bytes.
 * @thread the owner.
 */
MUST_USE int script_migrate(struct script *s, const struct script_migrate *m,
                            const struct kstate_bytes *old, struct buf *out,
                            struct err *e);
/** While `on`, accumulators of a custom aggregator that are decoded pass
 * through its migrate. @thread the owner. */
void script_agg_migrate(const struct agg *a, bool on);
/** Append what a handle keeps, as JSON (a number beyond it as it stands in
 * extended JSON). @return 0 or ERR_IO: damaged bytes. @thread any. */
MUST_USE int script_state_json(const void *bytes, size_t len, struct buf *out,
                               struct err *e);

/** Fill type and ctx of a custom aggregate (agg_custom_f; arg = script). */
int script_agg(void *script, struct agg *a, struct err *e);
/** The record that an aggregate whose fn is "reduce" holds. */
const struct kept *script_reduce_get(const struct agg *a, const void *block);
/** The record whose fields a custom aggregator without args reads, and its
 * reader, for the aggset_add() calls that follow. */
void script_agg_record(struct script *s, const struct rec *r,
                       struct reader *reader);

/** conn_call_f: generator fields; `script` is the task's struct script. */
int script_call_index(void *script, int func, int64_t arg, struct arena *a,
                      struct val *ret, struct err *e);

/** Connector types for s.source and s.sink. conn_env.script is used. */
extern const struct source_type script_source_type;
extern const struct sink_type script_sink_type;

/**
 * Watchdog: look at the running call, interrupt it when it overruns.
 *
 * Called every 20 ms or so; a call's beginning is known to that precision
 * (reading the clock in each call would cost more than the call).
 *
 * @param now_ns clock_mono_ns().
 * @return true if the running call is beyond the job's call_timeout.
 * @thread the watchdog, one thread for all calls of this function.
 */
bool script_watch(struct script *s, int64_t now_ns);
/**
 * Whether to report the running call, which script_watch() found beyond its
 * timeout and which goes on: user code cannot be interrupted in a library
 * call. True a second behind the timeout and every 10 s.
 * @param ret_ns set to how long the call has run.
 * @return the step that calls, or NULL. @thread the watchdog.
 */
const char *script_held(struct script *s, int64_t now_ns, int64_t *ret_ns);
/** Make the running call fail with a user_error. @thread any. */
void script_interrupt(struct script *s);
/** call_timeout of the job, ns. @thread any. */
int64_t script_call_timeout_ns(const struct script *s);
/** Name the step that calls, for messages and logs of print(). */
void script_set_step(struct script *s, const char *step);
/** Lower the cap of this Lua state, if it is above `max` bytes; what it holds
 * already stays. @thread coordinator, before the first call. */
void script_cap_memory(struct script *s, size_t max);
/** Bytes this Lua state holds. @thread any. */
size_t script_memory(const struct script *s);

#endif
