/*
 * A job in a box: the real plan, operators, rounds and store, with queues in
 * place of connectors, a virtual clock in place of time, and one thread.
 *
 * What `streamlua test` drives. Every call here that gives input or moves time
 * *settles*: subtasks run, in an order drawn from the seed, until none of them
 * has anything to do. A look (sim_take, sim_counter, sim_state) first takes a
 * round, so that what was seen cannot be taken back by a crash.
 *
 * Sources: what is pushed to a partition stays in its queue; its position is
 * in the rounds; after a crash it is read again from there. Marks (watermark,
 * idle, end) are in the queues like records. Sinks: a row is in the list once
 * emitted; a crash cuts the list to the last round. All sinks are so exactly
 * once, as a committing sink's readers see it.
 *
 * Thread: one, the caller's (and the checkpoint thread behind it).
 */
#ifndef TESTING_SIM_H
#define TESTING_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"

enum sim_strategy { SIM_AS_PLANNED, SIM_ONE_PHASE, SIM_TWO_PHASE };

struct sim_conf {
    const char *file;           /* job file; messages name it so */
    const struct opt *params;   /* map, as of --set; or NULL */
    const struct opt *args;     /* list; or NULL */
    uint32_t parallelism;       /* 0: the job's own */
    enum sim_strategy strategy; /* where the plan allows it */
    uint64_t seed;              /* orders, batch sizes, math.random */
    bool unsafe;
    /* sim_advance_time() ends by then, as clock_real_ns() has it; 0: never */
    int64_t deadline_ns;
    /* Called for each executed line of the job's files while user code runs;
     * NULL: no coverage, no cost. `path` as script_file.path. */
    void (*line)(void *arg, const char *path, int line);
    void *line_arg;
};

struct sim;

/**
 * Load the job, plan it, open it at virtual time 0 with empty state.
 * @param conf borrowed until sim_free(). @param ret set on success.
 * @return 0 or the error of the load (ERR_JOBFILE, ERR_USAGE, ERR_CONFIG).
 */
MUST_USE int sim_new(const struct sim_conf *conf, struct sim **ret,
                     struct err *e);
/** Remove it and its temporary directory. Accepts NULL. */
void sim_free(struct sim **s);
/** Remove the temporary directory of the job that is open: the process ends by
 * a signal. @thread any. */
void sim_remove_left(void);

struct sim_record {
    const char *value; /* `value_len` bytes of payload; NULL: a tombstone */
    size_t value_len;
    const char *key; /* or NULL */
    size_t key_len;
    bool has_ts;
    int64_t ts;                /* of the message */
    const struct opt *headers; /* list of [name, value] lists; or NULL */
    int32_t partition;         /* from 0; made when first named */
};

/** The job's sources and sinks by name: the format of each ("json", "text",
 * ...), NULL if there is none of that name. */
const char *sim_source_format(const struct sim *s, const char *name);
const char *sim_sink_format(const struct sim *s, const char *name);
/** Append the names, ", " between them, for messages. */
void sim_put_names(const struct sim *s, bool sinks, struct buf *out);

/* All that follow: 0, or the error that ended the job (the one the user would
 * see, with cause in e->cause, where, trace), or ERR_USAGE for a name that the
 * job does not have. Once a job has ended by an error, every call but
 * sim_take() gives that error again until sim_restart(). */

MUST_USE int sim_push(struct sim *s, const char *source,
                      const struct sim_record *r, struct err *e);
/**
 * Every source: the watermark of each of its partitions reaches `ms`, so
 * windows that end by then fire and records up to then are late. One without
 * partitions gets partition 0; an idle one stays so. Without event_time: no
 * effect.
 */
MUST_USE int sim_advance_watermark(struct sim *s, int64_t ms, struct err *e);
/** The partition is idle as of now, until something is pushed to it. */
MUST_USE int sim_idle(struct sim *s, const char *source, int32_t partition,
                      struct err *e);
/** Move the virtual clock by `ms`, stopping at each due timer on the way.
 * @return also ERR_USAGE: the deadline came first; the clock is on its way. */
MUST_USE int sim_advance_time(struct sim *s, int64_t ms, struct err *e);
/** As bounded input ends: windows fire, the job is finished. Afterwards it can
 * be looked at; a restart and a crash change nothing. */
MUST_USE int sim_end_of_input(struct sim *s, struct err *e);

/* A row as a sink got it. Memory: the arena's of sim_take(). */
struct sim_row {
    bool tombstone, has_ts, has_key;
    int64_t ts;
    const char *key;
    size_t key_len;
    /* The fields as JSON, NUL-terminated; a number beyond it (NaN, infinity)
     * as extended JSON of script_state_json() has it. */
    const char *json;
    size_t json_len;
};

/** What a sink got since the last look, in order of emission.
 * @param ret in `a`. */
MUST_USE int sim_take(struct sim *s, const char *sink, struct arena *a,
                      struct sim_row **ret, uint32_t *ret_count, struct err *e);
/** A counter of the summary: "records_in", "late", "dropped.null_key", ...
 * @return 0; ERR_USAGE: no such step or counter (both lists in the message). */
MUST_USE int sim_counter(struct sim *s, const char *step, const char *name,
                         int64_t *ret, struct err *e);
/** State of a key (JSON scalar or object), as `state get --json` prints it:
 * lines appended to `out`, none if there is no such key.
 * @param window_start NULL: all windows. */
MUST_USE int sim_state(struct sim *s, const char *step, const char *key_json,
                       const int64_t *window_start, struct buf *out,
                       struct err *e);

/** A round, the end of the process, a new one from the round.
 * @param parallelism 0: as it was. */
MUST_USE int sim_restart(struct sim *s, uint32_t parallelism, struct err *e);
/** The process is gone at once; a new one goes on from the last round. */
MUST_USE int sim_crash(struct sim *s, struct err *e);
/**
 * Hot reload to another file, accepted with a round of its own at once. Also of
 * a job that failed: the new code goes on from the last round.
 * @return also ERR_JOBFILE: refused, or failed on what the round does not
 *         hold, and the old code goes on.
 */
MUST_USE int sim_reload(struct sim *s, const char *file, struct err *e);
/** Virtual time, ms. */
int64_t sim_now(const struct sim *s);

#endif
