/*
 * Records whose decode error was counted: a record counts once at its
 * source, however many branches meet its error.
 *
 * Remembers at least the last half million; memory grows with the errors, to
 * 16 MiB. Thread: any (a lock; errors are rare).
 */
#ifndef OP_SEEN_H
#define OP_SEEN_H

#include <stdbool.h>

#include "core/rec.h"

struct op_seen;

/** Make an empty set. @thread coordinator. */
struct op_seen *op_seen_new(void);
void op_seen_free(struct op_seen **s);
/** Whether the record, known by source and origin, was asked about before.
 * @thread any. */
bool op_seen_before(struct op_seen *s, const struct rec *r);

#endif
