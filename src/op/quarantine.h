/*
 * Quarantined records: what failed, as it was, and why.
 *
 * A failed record travels from the step that met the failure to the job's
 * quarantine (plan_step.quarantine) as a record with the original key, value
 * bytes and headers, and the headers of its error behind them. The sink
 * writes those as they are (Kafka), or a JSON line made of them (file).
 */
#ifndef OP_QUARANTINE_H
#define OP_QUARANTINE_H

#include "op/op.h"

/**
 * Append what is quarantined of one failure to `b`.
 *
 * @param step where it counts: its name goes into the headers.
 * @param r    the failed record; NULL: a result or timer failed, which has
 *             neither key nor value. Its bytes are borrowed by `b`.
 * @thread the slot.
 */
void quarantine_add(const struct op *op, const struct plan_step *step,
                    const struct rec *r, const struct err *e, struct batch *b);

/**
 * Append the JSON line (without its end) of a quarantined record: { error,
 * origin, timestamp, key, value }. @thread any.
 */
void quarantine_line(const struct plan *p, const struct rec *r, struct buf *b);

#endif
