/*
 * What leaves an aggregate step when windows fire: rows of aggregates, the
 * reduced record, ranked records, or what a function over all records emits.
 *
 * Used by op_global and op_count_window. Owner: one operator.
 */
#ifndef OP_AGG_ROWS_H
#define OP_AGG_ROWS_H

#include "core/winstate.h"
#include "op/agg_args.h"
#include "op/op.h"

struct agg_rows;

/**
 * @param args what the windows hold; borrowed, must outlive the rows.
 * @return 0 or ERR_NOMEM. @thread coordinator.
 */
MUST_USE int agg_rows_new(struct op *op, const struct agg_args *args,
                          struct agg_rows **ret, struct err *e);
void agg_rows_free(struct agg_rows **r);
/** What functions over windows are told of the time. */
void agg_rows_times(struct agg_rows *r, int64_t watermark);
/**
 * Append what one key and window give. A winstate_row_f; @param arg the rows.
 * @return 0 also where it failed and the policy is to go on, else < 0.
 */
int agg_rows_take(void *arg, const struct winrow *row, struct err *e);
/** How many keys to take at a time, so that no batch grows out of bounds. */
uint32_t agg_rows_piece(const struct agg_rows *r);
/** Rows that wait. */
uint32_t agg_rows_count(const struct agg_rows *r);
/** Give what waits to the consumers. */
MUST_USE int agg_rows_emit(struct agg_rows *r, struct err *e);

#endif
