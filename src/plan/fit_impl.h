/*
 * Fit, private: the form of a description and the pieces its files share.
 *
 * state_put.c writes a description, state_read.c reads it back as an option
 * tree, fit.c, fit_aggs.c and fit_keyed.c compare two. The new plan is compared
 * in the same form as the old: as the tree of its own description. Any thread;
 * included by these files and their test only.
 */
#ifndef PLAN_FIT_IMPL_H
#define PLAN_FIT_IMPL_H

#include <stdbool.h>

#include "base/opts.h"
#include "plan/fit.h"

enum { PLAN_STATE_VERSION = 1, PLAN_STATE_DEPTH_MAX = 128 };

/* One comparison, while plan_fit_check() runs. */
struct fit {
    struct plan *p;
    struct plan_fit *ret;
    const struct opt *was, *is; /* descriptions of the state and of the plan */
};

/** Note that a step loses its state, all of it if `drop`. */
void fit_lost(struct fit *f, const char *step, bool drop, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/** Note a step as kept, with code around it that is as it was, or not. */
void fit_kept(struct fit *f, const struct opt *is, const struct opt *was);
/** Say something about the step noted last. */
void fit_tell(struct fit *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/** Note one entry; one of this name is there already only if it is lost. */
void fit_add(struct fit *f, const char *step, enum fit_verdict verdict,
             const char *why, const char *note);
/** Refuse a step: its entry, or a new one. */
void fit_refuse(struct fit *f, const char *step, const char *why);
/** fit_code.c: compare a step that keeps nothing. @param was may be NULL. */
void fit_other(struct fit *f, const struct opt *is, const struct opt *was);
/** fit_code.c: append what changed around the state of a step.
 * @return whether its functions or options did, as far as one can say. */
bool fit_note(const struct opt *is, const struct opt *was, struct buf *note);
/** fit_code.c: whether an aggregate or handle has `migrate` and its
 * declaration is another. @thread any. */
bool fit_migrates_agg(const struct opt *is, const struct opt *was);
bool fit_migrates_handle(const struct opt *is, const struct opt *was);
/** fit_code.c: let a step pass these members of a list (of aggregates or
 * handles; `due` is list->len long) through migrate, if any is due. */
void fit_migrate(struct fit *f, const struct opt *is, const struct opt *list,
                 const bool *due);
/** fit_code.c: whether what `was`, an aggregate or handle of the step
 * `was_step`, has passed through its migrate, and nobody can tell that `is`,
 * which has none, reads it: other functions of the step changed, too, as if it
 * were the file of before. @thread any. */
bool fit_unread(const struct opt *is_step, const struct opt *was_step,
                const struct opt *is, const struct opt *was);
/** The member of a list with this name, or NULL. @thread any. */
const struct opt *fit_find(const struct opt *list, const char *name);
/** Whether keys are equal by what they read; what a column is called only
 * names it in rows. @thread any. */
bool fit_same_key(const struct opt *is, const struct opt *was);
/** Whether accumulators of `was` are accumulators of `is`. The functions of a
 * custom one may change; then it is the user's to keep what they mean. */
bool fit_same_aggregate(const struct opt *is, const struct opt *was);
/** fit_aggs.c: compare an aggregate step. */
void fit_aggregate(struct fit *f, const struct opt *is, const struct opt *was);
/** Compare a process or dedup step. */
void fit_keyed(struct fit *f, const struct opt *is, const struct opt *was);

/** Whether two trees say the same; NULL equals NULL. @thread any. */
bool plan_same_tree(const struct opt *a, const struct opt *b);

#endif
