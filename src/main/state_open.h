/*
 * The state that JOB or DIR on the command line names, opened to be looked at.
 *
 * Used by the forms of `state`. Thread: main.
 */
#ifndef MAIN_STATE_OPEN_H
#define MAIN_STATE_OPEN_H

#include "main/cli.h"
#include "inspect/view.h"

/**
 * Open what `word` (JOB or DIR) names, as the flags say.
 *
 * @param c outlives the view. @param ret filled in any case; ended by
 *        state_view_close().
 * @return 0; ERR_USAGE: nothing of that name, or --at is another checkpoint;
 *         or as state_view_open().
 * @thread main.
 */
MUST_USE int state_open(struct cli *c, const char *word, struct state_view *ret,
                        struct err *e);

#endif
