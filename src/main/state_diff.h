/*
 * Two states compared, row by row. Thread: main.
 */
#ifndef MAIN_STATE_DIFF_H
#define MAIN_STATE_DIFF_H

#include "inspect/rows.h"

struct state_diff {
    uint64_t only_a, only_b, changed;
};

struct state_ask {
    const char *step; /* NULL: all */
    size_t limit;     /* lines at most, 0 = all */
    bool json;        /* lines are JSON objects */
};

/**
 * Compare views[0], A, with views[1], B: what rows their entries would give.
 * Steps, keys and windows that one of them lacks count, too.
 *
 * @param out a line a difference, steps in the order of A, then of B.
 * @param ret all differences, printed or not.
 * @return 0; ERR_USAGE: neither has the step; others as state_step_open()
 *         and state_rows_read().
 */
MUST_USE int state_diff(struct state_view *const views[2],
                        const struct state_ask *ask, struct buf *out,
                        struct state_diff *ret, struct err *e);

#endif
