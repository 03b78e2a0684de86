/*
 * Whether a plan fits the state of a checkpoint.
 *
 * Every checkpoint keeps a description of the plan that wrote it (JSON, by
 * plan_state_put()): max parallelism and, per step that keeps something, what
 * its state depends on; of all steps, hashes of their options and functions.
 * At a restore or reload the new plan is compared with it by step name; the
 * table of API.md section 12 decides. Descriptions of older programs lack some
 * of it and are read, too. Pure functions; used by run/ and main.
 */
#ifndef PLAN_FIT_H
#define PLAN_FIT_H

#include "core/agg.h"
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
 * named, not called), aggs_gone (numbers of places of which nothing is known
 * any more, absent if there are none), aggs_min (places that every form has,
 * absent: all); process key, right, state = [{ name, kind, ttl_ms, agg
 * ... }]; dedup key, ttl_ms; sources connector and topic, path or partitions;
 * sinks connector and path (of files); of all kinds opts and code, hashes of
 * the options and of the functions, which may be absent, and core, of the
 * functions but for migrate, if there is one }], others = [{ name,
 * kind, auto, place, parallelism, opts, code }]: steps that keep nothing,
 * absent before there was such a list }.
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
 * @param a owns ret->order. @param ret for aggset_set_places(). @thread any.
 */
void plan_state_places(const struct opt *step, const struct opt *aggs,
                       struct arena *a, struct agg_places *ret);

/** max_parallelism of a description, for plan_conf; 0: damaged. @thread any. */
uint32_t plan_state_max_parallelism(const char *json, size_t len);

enum fit_verdict {
    FIT_KEPT,     /* has its state, or had none */
    FIT_CHANGED,  /* the same; its functions or options changed, in a way the
                     user should hear of at a start if `why` is not "" */
    FIT_MIGRATED, /* has its state, each value passed through migrate */
    FIT_NEW,      /* starts empty */
    FIT_REMOVED,  /* had nothing to lose */
    FIT_LOST,     /* had state that the plan cannot take: --allow-state-loss */
    FIT_REFUSED,  /* not allowed whatever is given */
    FIT_VERDICTS
};

struct fit_step {
    const char *step; /* "(job)": the job as a whole */
    const char *kind; /* as the job file calls it */
    enum fit_verdict verdict;
    const char *why;  /* "" or the reason, one line */
    const char *note; /* "" or what changed beside, one line */
    bool drop;  /* FIT_LOST: what the store and the round's blobs have under
                   this name is not for it: neither may reach a step. Else only
                   what `why` says is lost, by the step's places and anew. */
    bool keyed; /* has keyed state */
};

enum {
    FIT_ALLOW_LOSS = 1, /* --allow-state-loss: FIT_LOST is no refusal */
    FIT_OTHER_NAME = 2  /* --new-lineage: a copy, maybe of another job name
                           and with other directories */
};

struct plan_fit {
    struct arena arena;
    struct fit_step *steps; /* all: plan order, then those that are gone */
    uint32_t count;
};

/**
 * Compare `p` with the description `json` (`len` bytes), and give its steps
 * their `places`, `anew` and `migrates`: before anything reads the plan beside
 * the caller.
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

/** "kept", "changed code", "kept, migrated", "new", "removed", "state loss",
 * "refused". @thread any. */
const char *plan_fit_word(enum fit_verdict v);
/** Append the table of a comparison, also a refused one: columns step, kind,
 * verdict, why; ASCII, a line a step. @thread any. */
void plan_fit_table(const struct plan_fit *f, struct buf *out);
/** Append "kept aggregate-1; changed filter-1": all but what is as it was and
 * keeps no keyed state; "nothing changed" if that is all. @thread any. */
void plan_fit_summary(const struct plan_fit *f, struct buf *out);
/** Append a JSON list of { step, kind, verdict, why }. @thread any. */
void plan_fit_json(const struct plan_fit *f, struct buf *out);

#endif
