/*
 * State as JSON lines: what stands in a key, a row, and how a KEY is read.
 *
 * Used by the forms of `state` and by tests of jobs. Thread: the view's.
 */
#ifndef INSPECT_TEXT_H
#define INSPECT_TEXT_H

#include "inspect/rows.h"

/** Append the members "step", "key", "window_start", "window_end".
 * @param s opened. */
void state_put_head(struct buf *out, const struct state_step *s,
                    const struct state_row *row);
/** Append `,"value":{…}` or `,"value":null,"error":…`, unclosed. */
void state_put_value(struct buf *out, const struct state_row *row);
/** Whether the rows have a window with bounds. @param s opened. */
bool state_has_window(const struct state_step *s);
/** Append a key as JSON object. */
void state_put_key(struct buf *out, const struct state_step *s,
                   const struct state_row *row);

/**
 * Read KEY: a JSON scalar or list for a key of one field, or an object with
 * every field of the key.
 *
 * @param out canonical bytes are appended.
 * @return 0, or ERR_USAGE that says what the key's fields are. @thread the
 * view's.
 */
MUST_USE int state_read_key(const struct state_step *s, const char *text,
                            struct buf *out, struct err *e);

#endif
