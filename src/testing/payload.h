/*
 * What t:push gives: the bytes of a message, encoded as its source decodes.
 *
 * Used by session.c. Thread: one.
 */
#ifndef TESTING_PAYLOAD_H
#define TESTING_PAYLOAD_H

#include "base/buf.h"
#include "base/err.h"
#include "script/script.h"
#include "testing/sim.h"

/**
 * Append the bytes of a record.
 * @param job the job, loaded: the columns of a CSV source.
 * @param value a string: the bytes themselves; a map or list: encoded as
 *        JSON or CSV; NULL: a tombstone, nothing is appended.
 * @return 0 or ERR_USAGE: no such source, or the format does not take it.
 */
MUST_USE int payload_put(const struct sim *sim, const struct script *job,
                         const char *source, const struct opt *value,
                         struct buf *out, struct err *e);
/** Append a message key: a string as it is, else JSON.
 * @return 0 or ERR_USAGE: it holds a mark. */
MUST_USE int payload_put_key(const struct opt *key, struct buf *out,
                             struct err *e);

#endif
