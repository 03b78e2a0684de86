/*
 * Values of rows: option trees, with marks (script/test.h) among those that
 * are expected.
 *
 * Made of JSON or by script/test_host.c; both sort the members of maps, so
 * texts of equal values are equal. Thread: any; memory is the arena's.
 */
#ifndef TESTING_VALUE_H
#define TESTING_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"

/**
 * Read (extended) JSON. An integer beyond 64 bits becomes its digits.
 * @return 0 or ERR_RECORD.
 */
MUST_USE int value_from_json(const char *text, size_t len, struct arena *a,
                             struct opt **ret, struct err *e);
/** Sort the members of all maps in it by name. */
void value_sort(struct opt *o);
/** Whether it holds a mark. */
bool value_has_mark(const struct opt *o);
/**
 * Whether `got` is what is wanted: 1 is not 1.0, missing is not null.
 * @param want may hold marks. @param subset a map `got` may have more
 *        members; not so maps in it.
 */
bool value_equal(const struct opt *want, const struct opt *got, bool subset);
/** Append it as JSON; marks as `any`, `approx(2.0, 0.5)`, `tombstone {…}`. */
void value_put(struct buf *out, const struct opt *o);

#endif
