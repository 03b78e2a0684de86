/*
 * Count windows: the records of one key in windows of so many records.
 *
 * A set of aggregates is wrapped into a set of one, whose accumulator holds
 * the number of the key's records and the accumulators of the windows that
 * are open: in panes of gcd(size, slide) records, merged when a window is
 * full; or one a window, where accumulators cannot merge or a window has more
 * than PANES_MAX panes. So keyed state keeps it as it keeps any other.
 * Owner: one subtask.
 */
#ifndef CORE_PANES_H
#define CORE_PANES_H

#include "core/agg.h"

enum { PANES_MAX = 1000 };

/**
 * Wrap a set.
 * @param inner borrowed, must outlive the result. @param slide <= size.
 * @return to be freed by aggset_free(). @thread the owner.
 */
struct aggset *panes_new(const struct aggset *inner, uint64_t size,
                         uint64_t slide);

/* How one record is added: as aggset_add() to a block of the inner set. */
typedef int panes_add_f(void *arg, void *block, struct err *e);

/**
 * Add a record to the open windows of a block of the wrapping set.
 *
 * @param add called for each pane or window that takes the record. If the
 *        first refuses it nothing has changed; one that others refuse is in
 *        the first.
 * @param ret_full set to a block of the inner set: the window that the record
 *        has made full, until the next call; or to NULL.
 * @return 0, or add's failure, or that of a merge (the record counts then).
 */
MUST_USE int panes_add(const struct aggset *s, void *block, panes_add_f *add,
                       void *arg, void **ret_full, struct err *e);
/** How many records a block has taken. */
uint64_t panes_records(const void *block);
/** How many windows of a block are not full. */
uint64_t panes_open(const struct aggset *s, const void *block);

#endif
