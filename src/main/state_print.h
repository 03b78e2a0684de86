/*
 * State as tables, for people; inspect/text.h has the lines for scripts.
 *
 * Thread: main.
 */
#ifndef MAIN_STATE_PRINT_H
#define MAIN_STATE_PRINT_H

#include "inspect/text.h"

/** Append the rows of one step as a table. @param s opened. */
void state_put_table(struct buf *out, const struct state_step *s,
                     const struct state_rows *rows);
#endif
