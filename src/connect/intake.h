/*
 * Intake: lines of an input become the records of a batch.
 *
 * What the file source and stdin share: cutting (lines.h), decoding
 * (format/format.h), coordinates, and the list of records that are bad. A
 * bad record is delivered with its reason; a blank line or a CSV header is
 * none. Owner: one task. Lifetime: bytes of the records and the list of bad
 * ones are valid until the next intake_batch() or lines_space().
 */
#ifndef CONNECT_INTAKE_H
#define CONNECT_INTAKE_H

#include "connect/lines.h"
#include "core/connector.h"
#include "format/format.h"

struct intake {
    struct lines lines;
    struct source_bad *bad; /* of the batch made last */
    size_t bad_cap;
};

struct intake_from { /* where the lines come from */
    struct decoder *decoder;
    uint16_t topic, src;
};

/**
 * @param opts normalised source options, for `format` and `delimiter`.
 * @thread the owner.
 */
void intake_init(struct intake *in, const struct opt *opts);
void intake_fini(struct intake *in);

/**
 * Append records of the bytes at hand to `b` until it holds `max`.
 *
 * Sets bad, bad_count and bytes of `ev`.
 * @param eof no more bytes will come.
 * @return 1 `max` reached; 0 no whole line is left; or what the decoder
 *         says when more than one record is at fault.
 * @thread the owner.
 */
MUST_USE int intake_batch(struct intake *in, const struct intake_from *from,
                          bool eof, struct batch *b, uint32_t max,
                          struct source_event *ev, struct err *e);

#endif
