/*
 * Plan, private: the state of one plan_build() and the passes over it.
 *
 * build.c reads the normalised tree into logical nodes and settings.c what is
 * job-wide, check.c and delivery.c refuse what cannot run, rewrite.c turns
 * nodes into steps and edges (two-phase split, parallelism), chain.c chains
 * steps and places them in slots. The passes run in this order, each once, in
 * the thread that called plan_build(); the build ends with it, only the plan
 * stays. Everything lies in the plan's arena. Included by the files of this
 * folder and by nobody else.
 */
#ifndef PLAN_PLAN_IMPL_H
#define PLAN_PLAN_IMPL_H

#include "plan/plan.h"

/* One input of a logical node. */
struct plan_node_in {
    uint32_t node;      /* index of the logical node it comes from */
    const char *output; /* "main" or the name of a side output */
    bool rebalance;     /* rebalance() stands between */
    bool right;         /* right side of a connect */
};

/* One step as the job file says it, before the two-phase rewrite. */
struct plan_node {
    const struct opt *opts;
    const char *kind_name; /* "top_n": as the job file calls it */
    enum step_kind kind;   /* STEP_AGGREGATE for every aggregate */
    const char *name, *place;
    bool auto_named;
    struct plan_node_in *in;
    uint32_t in_count;
    uint32_t uses;         /* how many inputs read it, "main" or by name */
    bool event_time;       /* its records have an event time */
    bool in_time;          /* the records it takes have one */
    bool updating;         /* "main" is an updating stream */
    bool windowed;         /* its rows come from a window with bounds */
    bool endless;          /* a Kafka topic or generator without end feeds it */
    const struct opt *win; /* the window all its rows come from, or NULL */
    uint32_t first; /* step that takes the input and emits late records */
    uint32_t last;  /* step that emits "main" */
};

struct plan_build {
    struct plan *p;
    const struct plan_conf *conf;
    const struct opt *options; /* the job's, may be NULL */
    struct plan_node *nodes;   /* in file order, which is topological */
    uint32_t count;
    const struct plan_node *quarantine; /* the last of them, or NULL */
    uint32_t steps_shown;               /* plan_step.number so far */
    struct err *e;
};

/** Whether the node keeps its input order: no keys, no exchange of its own. */
static inline bool
plan_node_is_keyed(const struct plan_node *n)
{
    return n->kind == STEP_AGGREGATE || n->kind == STEP_PROCESS ||
           n->kind == STEP_DEDUP;
}

/** Kind of the node's window: "none" without one, "" if it is not of a kind
 * that has windows. @thread any. */
static inline const char *
plan_node_window(const struct plan_node *n)
{
    if (n->kind != STEP_AGGREGATE)
        return "";
    return opt_str(opt_get(n->opts, "window"), "kind", "global");
}

/** Whether a step's wall clock decides its windows. @thread any. */
static inline bool
plan_node_by_clock(const struct plan_node *n)
{
    return n->kind == STEP_AGGREGATE &&
           opt_is(opt_get(n->opts, "window"), "clock", "processing");
}

/** Policy for failed records: the step's, its source's, the job's. */
enum on_error plan_error_policy(const struct plan_build *b,
                                const struct plan_node *n);

/** The map `o` with `value` as its member `name`, in the plan's arena; other
 * members are shared. @thread the builder. */
const struct opt *plan_with(struct plan *p, const struct opt *o,
                            const char *name, const struct opt *value);

/** Formatted text in the plan's arena. @thread the builder. */
char *plan_text(struct plan *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
/** Add a reason to a step. @thread the builder. */
void plan_add_why(struct plan *p, struct plan_step *s, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/** Add a warning; `place` is borrowed, "file:line". @thread the builder. */
void plan_add_warning(struct plan *p, const char *place, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/** Fail with ERR_JOBFILE "place: kind: text". @thread the builder. */
int plan_refuse(struct plan_build *b, const char *place, const char *kind,
                const char *fmt, ...) PRINTF_LIKE(4, 5);

/**
 * Partitions of a source that are known at load; 0 = unknown (Kafka).
 *
 * For files this looks at the file system, so that the answer is that of
 * now; a path that matches nothing counts as one.
 * @thread any.
 */
uint32_t plan_partitions(const struct opt *step);

/** Whether the source ends by itself, by its options. @thread any. */
bool plan_source_is_bounded(const struct opt *step, bool bounded_flag);

/** First unmergeable aggregate, or NULL; ret_why gets the reason. */
const struct opt *plan_unmergeable(struct plan *p, const struct opt *step,
                                   const char **ret_why);

/** Checkpoints, restart, state: what the options and defaults say. */
void plan_read_settings(struct plan_build *b);
/** @return 0, ERR_JOBFILE or ERR_CONFIG: above the most possible. */
MUST_USE int plan_read_parallelism(struct plan_build *b);

/** Bytes of memory the machine has; 0 = unknown. @thread any. */
uint64_t plan_memory_machine(void);
/**
 * The least of `machine` and the limits of the own cgroup and all above it.
 *
 * @param root put before "/proc" and "/sys"; "" but in tests.
 * @return bytes. @thread any. @source man 7 cgroups; kernel documentation
 *         of memory.max and memory.limit_in_bytes.
 */
uint64_t plan_memory_limit(const char *root, uint64_t machine);

/** Whether the step is an exactly_once Kafka sink. @thread any. */
bool plan_sink_is_transactional(const struct opt *step);
/** Whether it is a Lua sink whose target decides a round. @thread any. */
bool plan_sink_is_lua_target(const struct opt *step);
/** What exactly_once sinks need, and that they share one transaction; fills
 * p->exactly_once and p->txn_prefix. @return 0 or ERR_JOBFILE. */
MUST_USE int plan_check_delivery(struct plan_build *b);
/** Reasons of the sinks; p->txn_step. */
void plan_place_delivery(struct plan_build *b);

/** Graph checks on the nodes; fills event_time, updating, windowed. */
MUST_USE int plan_check_graph(struct plan_build *b);
/** What functions with state need; quarantine; windows of rows. */
MUST_USE int plan_check_state(struct plan_build *b, struct plan_node *n);
/** The window that the rows of all inputs come from, or NULL: none, or they
 * differ. @thread the builder. */
const struct opt *plan_window_of_inputs(const struct plan_build *b,
                                        const struct plan_node *n);
/** That what is quarantined has a quarantine. */
MUST_USE int plan_check_quarantine(struct plan_build *b);
/** Checks that need steps, edges and parallelism. */
MUST_USE int plan_check_placed(struct plan_build *b);
/** Collect the warnings. */
void plan_check_warn(struct plan_build *b);

/** Nodes to steps and edges. @return 0 or ERR_JOBFILE, ERR_CONFIG. */
MUST_USE int plan_rewrite(struct plan_build *b);

/** Chains, slot sharing groups, slots. @return 0 or ERR_CONFIG. */
MUST_USE int plan_chain(struct plan_build *b);

#endif
