/*
 * The entries of a step as the rows they would give now: one a key and open
 * window, windows put together from their slices.
 *
 * Entries are loaded a key group at a time, so memory is what a group and
 * the rows take. Rows are in canonical key order, then by window; with a
 * limit only so many (at most twice that) are kept meanwhile.
 *
 * Thread: the view's. Owner of everything: struct state_rows.
 */
#ifndef INSPECT_ROWS_H
#define INSPECT_ROWS_H

#include "inspect/view.h"

struct state_row {
    char *key; /* canonical, key_len bytes */
    uint32_t key_len;
    const char *state;  /* handle of a function's state; NULL: none */
    const char *timer;  /* its clock, "event" or "processing"; NULL: none */
    int64_t start, end; /* of the window; start: ts of the timer */
    char *value;        /* JSON object of results; NULL: see error */
    char *error;        /* why the row would be lost; NULL with a value */
};

struct state_rows {
    struct state_row *items;
    size_t n, cap;
    size_t limit; /* 0 = none */
    bool sorted;  /* items[limit - 1] is an upper bound */
};

void state_rows_init(struct state_rows *r, size_t limit);
void state_rows_fini(struct state_rows *r);
/** Forget the rows, keep the limit. */
void state_rows_clear(struct state_rows *r);
/** Put in order and keep what the limit allows. */
void state_rows_sort(struct state_rows *r);
/** Move a row in: its strings are taken. */
void state_rows_take(struct state_rows *r, struct state_row *row);
/** Order: canonical key; handles by name, timers; window, ts. */
int state_row_cmp(const struct state_row *a, const struct state_row *b);

/* Which entries. */
struct state_pick {
    uint16_t first, last; /* key groups, both included */
    const char *key;      /* only this one, key_len bytes; NULL: all */
    size_t key_len;
};

/** All key groups of the view. */
struct state_pick state_pick_all(const struct state_view *v);
/** Only `key`: canonical bytes, borrowed. */
struct state_pick state_pick_key(const struct state_view *v, const char *key,
                                 size_t len);

/**
 * Add the rows of an opened step.
 * @return 0, ERR_IO (damage: the message names step, checkpoint, group).
 */
MUST_USE int state_rows_read(struct state_step *s, const struct state_pick *p,
                             struct state_rows *ret, struct err *e);

#endif
