/*
 * Result rows: key fields, window bounds, aggregates, as JSON bytes.
 *
 * The literal parts are prepared once. Used by op_global. Owner: one
 * operator; rows live in the batch they were made for.
 */
#ifndef OP_ROW_H
#define OP_ROW_H

#include "core/agg.h"
#include "core/rec.h"
#include "core/winstate.h"
#include "plan/plan.h"

struct row_format;

/**
 * @param step the aggregate step; @param set borrowed.
 * @param with_key whether somebody reads the message key of the rows.
 * @thread coordinator.
 */
struct row_format *row_format_new(const struct plan_step *step,
                                  const struct aggset *set, bool with_key);
void row_format_free(struct row_format **f);
/**
 * Append one row to `b`.
 * @return 0, or ERR_RECORD (overflow, type, user_error; an accumulator that
 *         could not be saved): nothing appended.
 */
MUST_USE int row_put(struct row_format *f, struct batch *b,
                     const struct winrow *row, struct err *e);

#endif
