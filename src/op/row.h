/*
 * Result rows: key fields, window bounds, aggregates, as JSON bytes.
 *
 * The literal parts are prepared once. Used by agg_rows. Owner: one
 * operator; rows live in the batch they were made for.
 */
#ifndef OP_ROW_H
#define OP_ROW_H

#include "core/agg.h"
#include "core/kept.h"
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
/** Whether the windows of an aggregate step have a start and an end. */
bool row_has_bounds(const struct opt *step);
/** Whether a row can be made: 0, or ERR_RECORD (type, an accumulator that could
 * not be saved). */
MUST_USE int row_check(const struct winrow *row, struct err *e);
/**
 * Append one row to `b`, which row_check() let pass.
 * @return 0, or ERR_RECORD (overflow, type, user_error): nothing appended.
 */
MUST_USE int row_put(struct row_format *f, struct batch *b,
                     const struct winrow *row, struct err *e);
/** Append the record `k` itself, with the row's time and key. */
void row_put_record(struct row_format *f, struct batch *b,
                    const struct winrow *row, const struct kept *k);
/**
 * Append a record with window fields, where it lacks them, and its rank: as if
 * these were assigned.
 * @return 0, or ERR_RECORD (decode): nothing appended.
 */
MUST_USE int row_put_ranked(struct row_format *f, struct batch *b,
                            const struct winrow *row, const struct rec *rec,
                            uint32_t rank, struct err *e);

#endif
