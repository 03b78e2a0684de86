/*
 * Window state: the accumulators of the open windows of one subtask.
 *
 * Entries live in one hot table per slice (core/window.h); a window is the
 * merge of its slices at the moment it fires. Firing is resumable, so that a
 * burst of rows never outgrows the output: winstate_fire() emits at most so
 * many rows and says whether there is more. No input may be added while a
 * firing is unfinished. Rows of one key leave in order of window_end.
 *
 * | window          | when                                    |
 * | open            | watermark < end - 1                     |
 * | fired           | end - 1 <= watermark: one row per key   |
 * | re-fired        | late change within lateness: dirty rows |
 * | purged          | end - 1 + lateness <= watermark         |
 *
 * Owner: one subtask. Limits: memory is what the open windows hold.
 */
#ifndef CORE_WINSTATE_H
#define CORE_WINSTATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/agg.h"
#include "core/partial.h"
#include "core/table.h"
#include "core/window.h"

struct winstate;

/* One result row, for the callback only. */
struct winrow {
    const char *key; /* canonical key */
    uint32_t key_len;
    bool poisoned; /* values of different types met: the row is lost */
    int64_t start, end;
    const void *block;
};

typedef int winstate_row_f(void *arg, const struct winrow *row, struct err *e);

/** @param set borrowed, must outlive the state. @thread the owner. */
struct winstate *winstate_new(const struct window_spec *spec,
                              const struct aggset *set);
void winstate_free(struct winstate **w);

/**
 * The entry of (slice, first, key), to aggset_add() into (one phase) or to
 * merge into. NULL if all its windows are purged already.
 * A fresh entry's block is initialised and its count 0; the caller counts.
 */
struct table_entry *winstate_upsert(struct winstate *w,
                                    const struct partial *head);
/** Merge a partial whose block is present; consumes the block.
 * @return 0; 1 if its windows are purged (counts as late). */
int winstate_merge(struct winstate *w, struct partial *p);
/** Prefetch for a partial that is merged soon. */
void winstate_prefetch(const struct winstate *w, const struct partial *p,
                       bool entry);

/** Move the watermark; then winstate_fire() until it returns 0. */
void winstate_advance(struct winstate *w, int64_t wm);
/** Ask for the re-fired rows at the next winstate_fire(). */
void winstate_flush_late(struct winstate *w);
/** Whether re-fired rows wait. */
bool winstate_has_late(const struct winstate *w);
/**
 * Emit up to `max` rows.
 * @return 1 more to do, 0 done (the watermark is reached), or row's error.
 */
int winstate_fire(struct winstate *w, uint32_t max, winstate_row_f *row,
                  void *arg, struct err *e);

/** Entries held; bytes held without what blocks own. */
uint64_t winstate_keys(const struct winstate *w);
size_t winstate_bytes(const struct winstate *w);

#endif
