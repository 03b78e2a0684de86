/*
 * Operators: one step of the plan in one subtask, one file each.
 *
 * A chain is a tree of operators called directly; what leaves a chain goes
 * through op_route into lanes. `struct op_out` is the one inverted
 * dependency: operators, lanes and test probes implement it. All calls of a
 * subtask come from its slot thread, one message (batch, partials or mark)
 * at a time. An operator whose work for a message is not finished (rows of a
 * firing window, an unfinished flush) is `pending`: run/ calls op_resume()
 * until it is not, and gives the subtask no other message meanwhile.
 *
 * Marks travel in order with the records:
 * | MARK_PART      | a partition's news, from op_source to op_event_time   |
 * | MARK_WATERMARK | event time has reached wm                             |
 * | MARK_BARRIER   | everything before it belongs to round `round`         |
 * | MARK_END       | nothing follows; final: bounded input, windows fired  |
 */
#ifndef OP_OP_H
#define OP_OP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/connector.h"
#include "core/partial.h"
#include "core/rec.h"
#include "core/snapshot.h"
#include "core/watermark.h"
#include "format/json.h"
#include "format/reader.h"
#include "op/counters.h"
#include "plan/plan.h"
#include "script/script.h"
#include "state/store.h"

enum { OP_BATCH_MAX = 512, OP_ROWS_MAX = 1024 };
enum { OP_ROUTE_BYTES = 256 << 10 }; /* of a message in a lane, about */

enum mark_kind { MARK_PART, MARK_WATERMARK, MARK_BARRIER, MARK_END };

struct mark {
    enum mark_kind kind;
    int64_t wm;                        /* MARK_WATERMARK */
    bool idle;                         /* MARK_WATERMARK: inputs are all idle */
    uint64_t round;                    /* MARK_BARRIER */
    bool final;                        /* MARK_END */
    enum source_event_kind part_event; /* MARK_PART; SOURCE_NONE: all
                                          partitions of the start are said */
    uint32_t part;
    bool discovered;
    uint16_t topic; /* MARK_PART of SOURCE_ADDED: its origin */
    int32_t partition;
    int64_t past_ms; /* MARK_PART: as in the event; `wm` likewise */
};

struct op_out {
    /** Take a batch: the array may be changed, the bytes are borrowed. */
    int (*batch)(struct op_out *o, struct batch *b, struct err *e);
    /** Take ownership of partials. */
    int (*partials)(struct op_out *o, struct partials **p, struct err *e);
    int (*mark)(struct op_out *o, const struct mark *m, struct err *e);
    /** Whether it takes more without growing beyond its bound. */
    bool (*ready)(struct op_out *o);
};

struct op_outs { /* several consumers of one output */
    struct op_out **items;
    uint32_t count;
};

struct op_side {      /* a named output beside the main one */
    const char *name; /* the plan's */
    struct op_outs outs;
};

struct op;

struct op_type {
    int (*batch)(struct op *op, struct batch *b, struct err *e);
    int (*partials)(struct op *op, struct partials **p, struct err *e);
    int (*mark)(struct op *op, const struct mark *m, struct err *e);
    /** Go on with pending work. @return 1 more to do, 0 done, < 0 error. */
    int (*resume)(struct op *op, struct err *e);
    /**
     * Time passes. `idle`: the subtask has no input now.
     * @param ret_wait lower it to the ms until the next tick is needed.
     */
    int (*tick)(struct op *op, bool idle, int64_t *ret_wait, struct err *e);
    bool (*ready)(struct op *op);
    /**
     * Take back what `env->job->restored` and the store hold for it; before
     * the first message, on the slot. NULL: it keeps nothing.
     */
    int (*restore)(struct op *op, struct err *e);
    /**
     * Send failed records on in place of the quarantine, which is another
     * step's. NULL: they go to the own output. The batch is borrowed.
     */
    int (*quarantine)(struct op *op, struct batch *b, struct err *e);
    /**
     * While `op->saving`: put a bounded piece of the state frozen at the
     * last barrier into its snapshot; the last piece gives it away and
     * clears `saving`. Called between messages. @return 0 or an error.
     */
    int (*save)(struct op *op, struct err *e);
    void (*free)(struct op *op);
};

/* One subtask, as its operators see it. */
struct op_env {
    const struct plan *plan;
    struct op_job *job;
    struct script *script; /* NULL if no step of the chain needs one */
    uint32_t subtask;
    int64_t now_ms;    /* monotonic, set by run/ before each call */
    uint64_t round;    /* whose barrier went through last; set by run/ */
    conn_wake_f *wake; /* wakes the subtask's slot */
    void *wake_arg;
};

/* What one record failed of, for the report. */
struct op_failure {
    struct err err;
    char step[80], place[256], topic[512], key[128], value[256];
    size_t key_len, value_len;
    int32_t partition;
    int64_t offset, timestamp;
    bool has_record, has_key, has_value, has_timestamp;
};

struct op_seen; /* op/seen.h */

/* The running job, shared by all subtasks. Written before slots start. */
struct op_job {
    const struct plan *plan;
    /* Source errors, met by any subtask: per logical step, those of subtasks
     * behind an even round, then those of subtasks behind an odd one (see
     * op_source_errors()): of a round that is complete, exactly those before
     * its barrier count. */
    struct op_counters *counters;
    struct wm_source **clocks; /* per step index; event_time steps only */
    const struct source_type **source_types; /* per step index */
    struct source **sources;
    const struct sink_type **sink_types;
    struct sink **sinks;
    struct op_seen *seen;
    /**
     * Take what a step of a subtask gives to round (*s)->round; every one
     * for which plan_step_in_rounds() is true gives one at each barrier and
     * one (SNAPSHOT_END) at its end. Any thread.
     */
    void (*give)(void *arg, const struct plan_step *step, uint32_t subtask,
                 struct snapshot **s);
    /** Memory is short: a round soon lets entries leave it. Any thread. */
    void (*want_round)(void *arg);
    struct store *store;             /* NULL: the job keeps no checkpoints */
    const struct restored *restored; /* NULL: a fresh start */
    size_t state_share;       /* memory.state of one stateful subtask; 0: it
                                 is not known */
    size_t cache_bytes;       /* the same where state may leave memory; 0:
                                 all of it stays there */
    _Atomic uint64_t durable; /* last round whose changes are on disk */
    bool tracks;              /* without a store, too: one may come */
    atomic_bool keeps;        /* one will be there for what is given from now
                                 on */
    atomic_bool stopped;      /* sources were told to stop */
    atomic_bool drain;        /* sources that are stopped end as if used up */
    /** The job fails with this record. Any thread; the first one counts. */
    void (*failed)(void *arg, const struct op_failure *f);
    void (*closed)(void *arg); /* nobody reads stdout: stop, as SIGTERM does */
    void *arg;
};

/** Whether changes of keyed state are to be known. @thread any. */
static inline bool
op_job_tracks(const struct op_job *job)
{
    return job->store != NULL || job->tracks;
}

/** Whether what is given to a round has the state in it. @thread any. */
static inline bool
op_job_keeps(const struct op_job *job)
{
    return job->store != NULL || atomic_load(&job->keeps);
}

/** The source errors of a logical step met behind `round`'s barrier. */
static inline struct op_counters *
op_source_errors(const struct op_job *job, uint32_t logical, uint64_t round)
{
    return &job->counters[(round & 1) * job->plan->logical_count + logical];
}

struct op {
    struct op_out in; /* first: how others call it */
    const struct op_type *type;
    struct op_env *env;
    const struct plan_step *step;
    struct op_counters *count;
    struct reader *reader; /* of the segment it reads, or NULL */
    struct op_outs out;    /* main output */
    struct op_side *sides; /* those of the plan that something takes */
    uint32_t side_count;
    struct batch *failed; /* of one record that is quarantined, or NULL */
    bool pending;
    bool saving; /* has frozen state that is not in its snapshot yet */
};

/** Fill the common part of an operator. @thread coordinator. */
void op_init(struct op *op, const struct op_type *type, struct op_env *env,
             const struct plan_step *step);
/** Free any operator. @thread coordinator, slots ended. */
void op_free(struct op **op);
/** Append a consumer to an output. @thread coordinator. */
void op_outs_add(struct op_outs *outs, struct op_out *o);

/** Give a batch to all consumers; each sees it unchanged. */
MUST_USE int op_emit(const struct op_outs *outs, struct batch *b,
                     struct err *e);
/** Give a mark to all consumers. */
MUST_USE int op_emit_mark(const struct op_outs *outs, const struct mark *m,
                          struct err *e);
/** The side output `name`, or NULL: nothing takes it. */
const struct op_outs *op_side(const struct op *op, const char *name);
/** The outputs for `name`, "main" or a side output, made if need be.
 * @thread coordinator. */
struct op_outs *op_output(struct op *op, const char *name);
/** Give a batch to a side output, if something takes it. */
MUST_USE int op_emit_side(const struct op *op, const char *name,
                          struct batch *b, struct err *e);
/** Whether the consumers of all outputs are ready. */
bool op_all_ready(const struct op *op);
/** Forward a mark to main and side outputs. */
MUST_USE int op_forward(struct op *op, const struct mark *m, struct err *e);
/** Give what the operator puts into a round; *s is NULL afterwards. */
void op_give(struct op *op, struct snapshot **s);
/** Whether all consumers are ready. */
bool op_outs_ready(const struct op_outs *outs);

/**
 * Apply the error policy to one failed record.
 *
 * Counts it by cause (at the source for decode and bigint, once a record);
 * under `skip` logs the first and then one every 10 s; under `quarantine`
 * sends it to the quarantine, before any later mark.
 * @param r may be NULL (a row's result failed).
 * @return 0 to go on without the record, or e's code: the job fails, and
 *         the report was given to op_job.failed.
 * @thread the slot.
 */
MUST_USE int op_fail(struct op *op, const struct rec *r, struct err *e);
/** As op_fail() under the policy `fail`, whatever the step's is. */
MUST_USE int op_fail_always(struct op *op, const struct rec *r, struct err *e);
/** As op_fail() under the policy `quarantine`. */
MUST_USE int op_fail_quarantine(struct op *op, const struct rec *r,
                                struct err *e);

/** A column's value: from the row, else by the reader. */
static inline int
op_column(struct op *op, const struct rec *r, uint32_t column, struct val *ret,
          struct err *e)
{
    if (r->row != NULL && column < r->row_n && r->row[column].type != VAL_BAD) {
        *ret = r->row[column];
        return 0;
    }
    return reader_get(op->reader, r, column, ret, e);
}

/* A declared value: a field (column) or a function, from {field|func}. */
struct op_field {
    uint32_t column;
    int func; /* > 0: user function */
};

/** Read {field | func} of `o`, registering the column. */
MUST_USE int op_field_init(struct op *op, const struct opt *o,
                           struct op_field *ret, struct err *e);
/** Its value for a record. @param a for values a function makes. */
static inline int
op_field_get(struct op *op, const struct op_field *f, const struct rec *r,
             struct arena *a, struct val *ret, struct err *e)
{
    int rc;

    if (f->func == 0)
        rc = op_column(op, r, f->column, ret, e);
    else
        rc = script_value(op->env->script, f->func, r, op->reader, a, ret, e);
    if (rc == 0 && (ret->type == VAL_LIST || ret->type == VAL_MAP))
        ret->bigint = (uint8_t)json_bigint_of(r);
    return rc;
}

/* Makers, one per file. `op` is freed by op_free(). @thread coordinator. */
int op_source_new(struct op_env *env, const struct plan_step *s,
                  struct op **ret, struct err *e);
int op_event_time_new(struct op_env *env, const struct plan_step *s,
                      struct reader *reader, struct op **ret, struct err *e);
int op_filter_new(struct op_env *env, const struct plan_step *s,
                  struct reader *reader, struct op **ret, struct err *e);
int op_map_new(struct op_env *env, const struct plan_step *s,
               struct reader *reader, struct op **ret, struct err *e);
int op_select_new(struct op_env *env, const struct plan_step *s,
                  struct reader *reader, struct op **ret, struct err *e);
int op_clock_new(struct op_env *env, const struct plan_step *s,
                 struct reader *reader, struct op **ret, struct err *e);
int op_local_new(struct op_env *env, const struct plan_step *s,
                 struct reader *reader, struct op **ret, struct err *e);
int op_global_new(struct op_env *env, const struct plan_step *s,
                  struct reader *reader, struct op **ret, struct err *e);
int op_process_new(struct op_env *env, const struct plan_step *s,
                   struct reader *reader, struct op **ret, struct err *e);
int op_dedup_new(struct op_env *env, const struct plan_step *s,
                 struct reader *reader, struct op **ret, struct err *e);
int op_split_new(struct op_env *env, const struct plan_step *s,
                 struct reader *reader, struct op **ret, struct err *e);
int op_sink_new(struct op_env *env, const struct plan_step *s,
                struct reader *reader, struct op **ret, struct err *e);
/**
 * What leaves a chain: `lanes` by subtask of the target (one for a forward
 * edge). For a hash edge of records it evaluates the key of step `to`.
 */
int op_route_new(struct op_env *env, const struct plan_edge *edge,
                 struct reader *reader, struct op_out **lanes,
                 uint32_t lane_count, struct op **ret, struct err *e);

/**
 * op_sink whose target decides a round: have it committed.
 * @return 0, or the job's failure; what became of the round is unknown then.
 * @thread its slot, or the checkpoint thread when its subtask is done.
 */
MUST_USE int op_sink_commit(struct op *op, const struct conn_round *round,
                            struct err *e);
/** op_source: ask its connector once and push what there is down the chain.
 * @return 1 something was done, 0 nothing now (*ret_wait ms), or an error. */
MUST_USE int op_source_poll(struct op *op, int64_t *ret_wait, struct err *e);
/** op_source: begin round `round` (push the barrier). */
MUST_USE int op_source_barrier(struct op *op, uint64_t round, struct err *e);
/** op_source: whether it has given MARK_END. */
bool op_source_ended(const struct op *op);
/** op_source: whether every partition is at its end. */
bool op_source_at_end(const struct op *op);
/** op_source: whether the last poll gave records. */
bool op_source_gave_records(const struct op *op);
#endif
