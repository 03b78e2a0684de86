/*
 * Whether a plan fits the state of a checkpoint.
 *
 * Every checkpoint keeps a description of the plan that wrote it (JSON, by
 * plan_state_put()): max parallelism and, per step that keeps something, what
 * its state depends on. At a restore (and, later, a reload) the new plan is
 * compared with it by step name; the table of API.md section 12 decides.
 * Pure functions; used by run/ and main's `state` verbs.
 */
#ifndef PLAN_FIT_H
#define PLAN_FIT_H

#include "plan/plan.h"

/** Append the description of `p` as one JSON object. @thread any. */
void plan_state_put(const struct plan *p, struct buf *out);

/**
 * Read a description back.
 *
 * The tree is as plan_state_put() wrote it: { version, job, max_parallelism,
 * steps = [{ name, kind (as plan_kind_logical()), auto, place, parallelism,
 * and by kind: aggregates key = [{ name, field | func }], window, lateness_ms,
 * rows, aggs (in order of their places, for aggset_new(); functions are
 * OPT_FUNC without a Lua state behind them, so a custom aggregator can be
 * named, not called); process key, right, state = [{ name, kind, ttl_ms, agg
 * ... }]; dedup key, ttl_ms; sources connector and topic, path or partitions;
 * sinks connector and path (of files) }] }.
 *
 * @param a owns the tree. @param ret untouched on failure.
 * @return 0; ERR_IO: damaged, or of a later version. @thread any.
 */
MUST_USE int plan_state_read(const char *json, size_t len, struct arena *a,
                             const struct opt **ret, struct err *e);

/**
 * How the accumulators of an aggregate step lie in the state.
 *
 * @param step of a description. @param aggs the list of the job file, in its
 *        order; it has all that the description has.
 * @param order aggs->len indexes, for aggset_set_places().
 * @return the fewest places, > 0. @thread any.
 */
uint32_t plan_state_places(const struct opt *step, const struct opt *aggs,
                           uint32_t *order);

/** max_parallelism of a description, for plan_conf; 0: damaged. @thread any. */
uint32_t plan_state_max_parallelism(const char *json, size_t len);

enum fit_verdict {
    FIT_KEPT,    /* has its state */
    FIT_CHANGED, /* has its state; the code around it changed, in a way
                    the user should hear of if `why` is not "" */
    FIT_NEW,     /* starts empty */
    FIT_LOST,    /* had state that the plan cannot take: --allow-state-loss */
};

struct fit_step {
    const char *step;
    enum fit_verdict verdict;
    const char *why; /* "" or the reason, one line */
    bool drop; /* FIT_LOST: what the store and the round's blobs have under
                  this name is not for it: neither may reach a step */
};

enum {
    FIT_ALLOW_LOSS = 1, /* --allow-state-loss: FIT_LOST is no refusal */
    FIT_OTHER_NAME = 2  /* --new-lineage: a copy, maybe of another job name
                           and with other directories */
};

struct plan_fit {
    struct arena arena;
    struct fit_step *steps; /* plan order, then what only the state has */
    uint32_t count;
};

/**
 * Compare `p` with the description `json` (`len` bytes), and give its steps
 * their `places`: before anything reads the plan beside the caller.
 *
 * @param flags 0 or some of FIT_ALLOW_LOSS, FIT_OTHER_NAME.
 * @param ret filled also when it is refused; ended by plan_fit_fini().
 * @return 0; ERR_JOBFILE with place: refused (state would be lost, auto-named
 *         stateful steps were added, removed or moved, max_parallelism or the
 *         job's name changed), the message says the way out; ERR_IO: the
 *         description is damaged. @thread any. @source API.md section 12.
 */
MUST_USE int plan_fit_check(struct plan *p, const char *json, size_t len,
                            unsigned flags, struct plan_fit *ret,
                            struct err *e);
void plan_fit_fini(struct plan_fit *f);

#endif
