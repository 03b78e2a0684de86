/*
 * Lines out: one record as one line of a file or of stdout.
 *
 * Owner: the task whose encoder and buffer these are.
 */
#ifndef CONNECT_OUT_LINE_H
#define CONNECT_OUT_LINE_H

#include "base/buf.h"
#include "base/err.h"
#include "core/rec.h"
#include "format/format.h"

/**
 * Append one record and its newline.
 *
 * @param key the message key as op_sink decided it, or NULL.
 * @return 0, or ERR_RECORD cause encode, also for a tombstone in a format
 *         that cannot write one; `out` is then as before.
 * @thread the owner.
 */
MUST_USE int out_line(struct encoder *d, const struct rec *r, const char *key,
                      uint32_t key_len, struct buf *out, struct err *e);

#endif
