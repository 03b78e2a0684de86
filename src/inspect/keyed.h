/*
 * The keyed state of process and dedup steps for `state`: one row a key and
 * handle, and one a timer. What user code kept is shown as JSON, accumulators
 * of built-in aggregators as their result; nothing is asked of the job's code.
 *
 * What has expired and was not cleaned yet is shown.
 *
 * Thread: the view's. Used by state_view, state_rows and main's cmd_state.
 */
#ifndef INSPECT_KEYED_H
#define INSPECT_KEYED_H

#include "inspect/rows.h"

/** Whether a described step is of that kind. */
bool state_is_keyed(const struct opt *desc);

/**
 * Read what the checkpoint tells of the handles; part of state_step_open().
 * @return 0 or ERR_IO. state_keyed_close() in any case.
 */
MUST_USE int state_keyed_open(struct state_step *s, struct err *e);
void state_keyed_close(struct state_step *s);

/** As state_rows_read(). */
MUST_USE int state_keyed_read(struct state_step *s, const struct state_pick *p,
                              struct state_rows *ret, struct err *e);

/** The canonical key of an entry of an opened step; its own bytes if they
 * are of something unknown. */
struct kstate_bytes state_keyed_key(const struct state_step *s,
                                    const struct store_key *key);

/* What there is of a handle, or of timers. */
struct state_part {
    const char *kind; /* "value", ..., "timer" */
    const char *name; /* of the handle; NULL: timers */
    uint64_t entries, bytes;
};

/**
 * Count entries by handle.
 * @param ret room for s->past.count + 1; the last are timers.
 */
MUST_USE int state_keyed_count(struct state_step *s, struct state_part *ret,
                               struct err *e);

#endif
