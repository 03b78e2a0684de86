/*
 * Fit, private: the form of a description and the pieces its files share.
 *
 * state_put.c writes a description, state_read.c reads it back as an option
 * tree, fit.c compares two. The new plan is compared in the same form as the
 * old: as the tree of its own description. Any thread; included by these
 * files and their test only.
 */
#ifndef PLAN_FIT_IMPL_H
#define PLAN_FIT_IMPL_H

#include <stdbool.h>

#include "base/opts.h"

enum { PLAN_STATE_VERSION = 1, PLAN_STATE_DEPTH_MAX = 128 };

/** Whether two trees say the same; NULL equals NULL. @thread any. */
bool plan_same_tree(const struct opt *a, const struct opt *b);

#endif
