/*
 * The plan: logical graph -> checks -> two-phase rewrite -> chains -> slots.
 *
 * Pure data: no thread, no I/O. Input is the job as one normalised option
 * tree (made by lua/streamlua and script/), output is what explain prints and
 * run builds. Everything lives in the plan's arena until plan_free();
 * immutable after plan_build() and, where there is state, plan_fit_check()
 * (plan/fit.h), so any thread may read it.
 *
 * The normalised job tree ("F" = field path string or function):
 *   { name, place, file, options = {...}, steps = [...],
 *     warnings = [{place,text}], reads = [{path,size,hash}] (of s.read) }
 * options: parallelism, max_parallelism, slots (ints, absent = default),
 *   checkpoint = { interval_ms, timeout_ms, min_pause_ms,
 *   tolerable_failures, retained } or false,
 *   mini_batch = { allow_latency_ms, size, bytes },
 *   agg_phase_strategy, state = { backend, ttl_ms (-1 none) }, memory = {
 *   total, state, buffers, lua } (int: bytes; float: a share of total),
 *   buffer_timeout_ms, on_error, quarantine (absent, or a sink step: kind,
 *   name "quarantine", place, connector, conn),
 *   restart = { initial_backoff_ms, max_backoff_ms, attempts },
 *   bootstrap_servers, properties, lua = { memory, call_timeout_ms,
 *   load_timeout_ms }, idle = [names of given options without effect yet].
 * step, all kinds: kind, name, auto (bool), place ("job.lua:6"),
 *   inputs = [{ step = index from 1, output = "main" or side output name,
 *   rebalance = bool, side = "right" (connect only) }], and as given:
 *   parallelism, slot_sharing_group, chaining, on_error; code, a hash of its
 *   functions and what they hold ("?" before it: not all could be read).
 * source: connector ("kafka" "file" "stdin" "generator" "lua"), conn = {...}.
 * event_time: field or func (neither: message timestamp), unit,
 *   out_of_orderness_ms, idle_ms (-1 never), all_idle_ms (-1 hold),
 *   max_future_ms (-1 none).
 * filter, map, flat_map: func.
 * select: cols = [{ name, field | func }].
 * split: func, names = [names]: each is an output, and there is no "main".
 * Keyed steps (aggregate, process, dedup): key = [{ name, field | func }]
 *   ([] = key_by{}), key_place, on_null ("skip" by default, "fail",
 *   "quarantine": under the last a record whose key fails is sent on, to
 *   any subtask, and the keyed step quarantines it).
 * aggregate: window = { kind, place, size_ms, slide_ms, offset_ms, clock
 *   (absent, or "processing") } with kind "tumbling", "hopping", "global",
 *   "count" (size, slide: records; no clock), "none" (keyed without window:
 *   updating), "same" (the window [ts + 1 - size_ms, ts + 1) of the input
 *   row; size_ms is filled in by the plan, and "same" over a global window
 *   is "global"); lateness_ms, late_output (absent = none), ttl_ms (window
 *   "none", -1 = none), window_fields (absent, [start, end] or false),
 *   rows (absent: key, window, aggregates; "record": the reduced record;
 *   "ranked": records with window_start, window_end, rank; "window": what
 *   on_window emits), outputs = [names] (rows = "window"), aggs = [...].
 * aggregates: { name, fn, place, args = [{ field | func }], where (function;
 *   absent = all), and by fn:
 *   as ("float"), overflow ("error" "float" "string"), q (number or list),
 *   q_text (decimal texts), error, what = [names], what_list (bool), limit
 *   (collect). custom: fn = "custom", label, init, add, merge, result
 *   (functions; merge may be absent), samples (a number in the list of
 *   functions, absent = none), law = { ok, text } once tested.
 *   With rows there is one: "reduce" (func; law), "top_n" (args = [by], n,
 *   desc, ties), "records" (func = on_window); the others have args = [].
 * process: on_record or, with two inputs (connect), on_left and on_right;
 *   on_timer (all functions, on_timer may be absent), outputs = [names],
 *   state = [{ name, kind ("value" "list" "map" "reducing" "aggregating"),
 *   ttl_ms (-1 none), ttl_clock (absent: "event" if plan_step.event_time,
 *   else "processing"), ttl_update ("write" "read_and_write"), place, func
 *   (reducing), agg = an entry of aggs (aggregating), migrate (function,
 *   may be absent), migrate_text }] in byte order of
 *   names, right = { key, key_place, on_null } (connect), event_timer_place
 *   (where the job says register_event_timer, else absent).
 * dedup: keep ("first"), ttl_ms (-1 none).
 * sink: connector ("kafka" "file" "stdout" "blackhole" "lua"), conn = {...}.
 *
 * conn, all with a format: format ("json" "text" "raw" "csv"), and as given
 *   fields = [{ name, type }], header, delimiter; sources validate, bigint;
 *   sinks nan, invalid_utf8; kafka, file and stdout sinks key = { kind =
 *   "default" | "none" | "field" | "fields" | "func", field,
 *   cols = [{ name, field | func }], func }; file and stdout sinks envelope.
 * kafka source: topic (string, "^regex" or list), start (name, or
 *   { timestamp } or { offsets = { ["0"] = 42 | "earliest" | "latest" } }),
 *   stop (absent, or "latest" or a map as start), isolation, key_format,
 *   tombstones, discovery_ms, properties = {} (all strings),
 *   bootstrap_servers, group.
 * kafka sink: topic or topic_func, delivery, transactional_id_prefix (absent:
 *   "streamlua-" and the job's name), properties, headers = { name = string |
 *   func }, partition (func), create (absent, or { partitions, replication,
 *   config = {} (all strings) }; -1 = the broker's default), bootstrap_servers.
 * file source: path. file sink: path, roll = { size, interval_ms }.
 * generator: count (absent = unbounded), rate, partitions, seed,
 *   fields = [{ name, gen = { kind, ... } }] in byte order of names; gen:
 *   "sequence" from step, "time" start step (ms), "cycle" "choice" values,
 *   "int" "float" a b, "zipf" n exponent, "hex" len, "const" value,
 *   "func" func.
 * lua source: open, read, close (functions), partitions, poll_ms.
 * lua sink: open, write, flush, close (functions).
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"

enum step_kind {
    STEP_SOURCE,
    STEP_EVENT_TIME,
    STEP_FILTER,
    STEP_MAP,
    STEP_FLAT_MAP,
    STEP_SELECT,
    STEP_LOCAL,     /* local_aggregate of a two-phase step */
    STEP_GLOBAL,    /* global_aggregate of a two-phase step */
    STEP_AGGREGATE, /* aggregate in one phase */
    STEP_PROCESS,   /* keyed function with state and timers */
    STEP_DEDUP,
    STEP_SPLIT,
    STEP_CLOCK, /* hidden: in front of a processing-time window it stamps the
                   wall clock as event time and makes the watermark from it;
                   WM_MAX at the end of input */
    STEP_SINK
};

enum edge_kind {
    EDGE_CHAIN,    /* same chain, direct call */
    EDGE_FORWARD,  /* lane from subtask i to subtask i */
    EDGE_HASH,     /* lanes from all to all, by key group */
    EDGE_REBALANCE /* lanes from all to all, round robin by batch */
};

enum on_error { ON_ERROR_FAIL, ON_ERROR_SKIP, ON_ERROR_QUARANTINE };

/** The output of failed records, of any step. */
#define PLAN_QUARANTINE "quarantine"

struct plan_edge {
    uint32_t from, to; /* indexes into plan->steps */
    enum edge_kind kind;
    bool partials;      /* carries partials, else records */
    bool right;         /* right side of a connect */
    const char *output; /* "main", or a side output's name */
    const char *why;    /* why not chained, or NULL */
};

struct agg_places; /* core/agg.h */

struct plan_step {
    enum step_kind kind;
    const char *name; /* local and global share it */
    bool auto_named;
    const char *place;      /* "tenant.lua:6" */
    const struct opt *opts; /* the normalised step */
    uint32_t index;         /* own index */
    uint32_t number;        /* as explain shows it, from 1; 0: hidden */
    uint32_t logical;       /* index of the logical step, from 0: counters */
    uint32_t parallelism;
    uint32_t chain;    /* index into plan->chains */
    const char *group; /* slot sharing group */
    enum on_error on_error;
    bool updating;            /* its output is an updating stream */
    bool event_time;          /* its input has event time */
    bool quarantine;          /* the sink of failed records */
    const char **why;         /* reasons, NULL-terminated (never NULL itself) */
    uint32_t *in, in_count;   /* edge indexes, in order of inputs */
    uint32_t *out, out_count; /* edge indexes */
    uint32_t peer;            /* STEP_LOCAL: its STEP_GLOBAL, and back */
    const struct agg_places *places; /* aggregates whose list changed over
                         their state, else NULL: where their accumulators lie,
                         for aggset_set_places(); made by plan_fit_check().
                         (Handles of a process are told by their names.) */
    const bool *anew; /* which members of `state` begin empty, though there is
                         state of their names; NULL: none; made by
                         plan_fit_check() */
    const bool *migrates; /* which members of `aggs`, or of `state`, pass what
                             the state has through their migrate at a restore;
                             NULL: none; made by plan_fit_check() */
};

struct plan_chain {
    uint32_t *steps, count; /* step indexes, topological; [0] is the head */
    uint32_t parallelism;
    const char *group;
    uint32_t slot_base; /* subtask i runs in slot slot_base + i */
};

struct plan_warning {
    const char *place, *text;
};

struct plan {
    struct arena arena;
    const struct opt *job; /* the normalised tree */
    const char *name, *file;
    uint32_t parallelism, max_parallelism;
    uint32_t slots_needed, slots;
    bool checkpoint;            /* rounds with state are on */
    const char *checkpoint_off; /* why not: "source in is not replayable" */
    int64_t checkpoint_interval_ms, checkpoint_timeout_ms;
    int64_t checkpoint_min_pause_ms, checkpoint_tolerable;
    int64_t restart_initial_ms, restart_max_ms, restart_attempts; /* -1: ever */
    bool state_lmdb;         /* keyed state may be larger than memory */
    int64_t memory_bytes;    /* the process, all of it; its parts: */
    int64_t state_bytes;     /* working state of all steps */
    int64_t buffers_bytes;   /* what is on its way */
    int64_t lua_bytes;       /* all Lua states */
    bool exactly_once;       /* has exactly_once Kafka sinks */
    uint32_t txn_step;       /* the first of them */
    const char *txn_prefix;  /* their transactional_id_prefix */
    const char *lua_target;  /* id of the Lua sink whose target decides a round,
                                "lua:" and its name; NULL: there is none */
    uint32_t target_step;    /* that sink */
    bool stateful;           /* has a step that keeps state */
    bool bounded;            /* all sources are, by their options */
    struct plan_step *steps; /* flow order: topological, ties file order */
    uint32_t step_count;
    struct plan_edge *edges;
    uint32_t edge_count;
    struct plan_chain *chains;
    uint32_t chain_count;
    uint32_t logical_count; /* logical steps, for counters */
    struct plan_warning *warnings;
    uint32_t warning_count;
};

struct plan_conf { /* from the command line; 0 = not given */
    uint32_t parallelism, slots;
    uint32_t cores;
    uint32_t max_parallelism; /* of the state the job goes on from: used where
                                 the job file does not say */
    bool bounded;             /* --bounded: Kafka sources end */
    bool boxed;               /* queues in place of connectors (run/box.h): any
                                 partitions, always checkpoints, no transaction */
    const char *strategy;     /* agg_phase_strategy in place of the job's, where
                                 it may be; NULL = the job's */
};

/**
 * Check the job and make the plan.
 *
 * @param job normalised tree; borrowed, must outlive the plan.
 * @return 0; ERR_JOBFILE with place for a bad job; ERR_CONFIG when
 *         options.slots or --slots is below slots needed; ERR_USAGE.
 * @thread any.
 */
MUST_USE int plan_build(const struct opt *job, const struct plan_conf *conf,
                        struct plan **ret, struct err *e);
void plan_free(struct plan **p);

/** Append explain's text, JSON object or dot graph. @source API.md 10. */
void plan_explain_text(const struct plan *p, struct buf *out);
void plan_explain_json(const struct plan *p, struct buf *out);
void plan_explain_dot(const struct plan *p, struct buf *out);

/** Whether a step has keyed state. @thread any. */
static inline bool
plan_step_is_keyed(const struct plan_step *s)
{
    return s->kind == STEP_GLOBAL || s->kind == STEP_AGGREGATE ||
           s->kind == STEP_PROCESS || s->kind == STEP_DEDUP;
}

/**
 * Whether a step gives something to every round: positions, watermarks,
 * keyed state, or that it has flushed. @thread any.
 */
static inline bool
plan_step_in_rounds(const struct plan_step *s)
{
    return s->kind == STEP_SOURCE || s->kind == STEP_EVENT_TIME ||
           s->kind == STEP_SINK || plan_step_is_keyed(s);
}

/** Whether what a sink writes is final with a checkpoint.
 * @param step its normalised options. @source API.md 9.1. @thread any. */
bool plan_sink_commits(const struct opt *step);

/** The key that a hash edge scatters by: [{ name, field | func }]. */
const struct opt *plan_edge_key(const struct plan *p,
                                const struct plan_edge *edge);
/** What that key does with nulls: "skip", "fail", "quarantine". */
const char *plan_edge_on_null(const struct plan *p,
                              const struct plan_edge *edge);

/** "source", "event_time", ..., "local_aggregate". */
const char *plan_kind_name(enum step_kind kind);
/** Kind as the summary shows it: local and global are "aggregate". */
const char *plan_kind_logical(enum step_kind kind);
/** As the job file calls the step: "top_n" for an aggregate that ranks. */
const char *plan_step_said(const struct plan_step *s);
/** Duration in the largest unit that divides it: "10s", "1500ms", "0s". */
void plan_put_duration(struct buf *out, int64_t ms);

#endif
