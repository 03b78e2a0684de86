/*
 * State as text: JSON lines for scripts, tables for people. What stands in a
 * key, a row, and how KEY is read from the command line.
 *
 * Thread: main.
 */
#ifndef MAIN_STATE_PRINT_H
#define MAIN_STATE_PRINT_H

#include "main/state_rows.h"

/** Append the members "step", "key", "window_start", "window_end".
 * @param s opened. */
void state_put_head(struct buf *out, const struct state_step *s,
                    const struct state_row *row);
/** Append `,"value":{…}` or `,"value":null,"error":…`, unclosed. */
void state_put_value(struct buf *out, const struct state_row *row);
/** Append the rows of one step as a table. @param s opened. */
void state_put_table(struct buf *out, const struct state_step *s,
                     const struct state_rows *rows);
/** Append a key as JSON object. */
void state_put_key(struct buf *out, const struct state_step *s,
                   const struct state_row *row);

/**
 * Read KEY: a JSON scalar or list for a key of one field, or an object with
 * every field of the key.
 *
 * @param out canonical bytes are appended.
 * @return 0, or ERR_USAGE that says what the key's fields are. @thread main.
 */
MUST_USE int state_read_key(const struct state_step *s, const char *text,
                            struct buf *out, struct err *e);

#endif
