/*
 * Formats of sources and sinks: json, text, raw, csv.
 *
 * Decoding turns the bytes of one line or message into a record; encoding
 * turns a record into the bytes of one line or message (no newline; the
 * connector adds it where the medium has lines). Both are made once per task
 * from the normalised options of the connector. Owner: one task.
 */
#ifndef FORMAT_FORMAT_H
#define FORMAT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"
#include "core/rec.h"

struct decoder;
/**
 * @param opts source options: format, validate, bigint, fields, header,
 *        delimiter. Borrowed. `has_lines`: files and stdin.
 */
MUST_USE int decoder_new(const struct opt *opts, bool has_lines,
                         struct decoder **ret, struct err *e);
void decoder_free(struct decoder **d);
/**
 * Decode one message or line (without its newline) into `r`: kind, val, flags.
 *
 * @param bytes borrowed by r unless the format makes new bytes in `a`;
 *        REC_PAD readable bytes behind. NULL = tombstone.
 * @return 1 a record; 0 nothing (blank line, CSV header);
 *         ERR_RECORD decode or bigint (r then holds the raw bytes).
 */
int decoder_decode(struct decoder *d, const char *bytes, size_t len,
                   struct arena *a, struct rec *r, struct err *e);
/** A new file begins (CSV header line is expected again). */
void decoder_restart(struct decoder *d);
/** Whether a newline may stand inside a record (quoted CSV cells). */
bool decoder_is_csv(const struct decoder *d);

struct encoder;
/** @param opts sink options: format, fields, header, delimiter, nan,
 *         invalid_utf8, envelope. Borrowed. */
MUST_USE int encoder_new(const struct opt *opts, struct encoder **ret,
                         struct err *e);
void encoder_free(struct encoder **d);
/**
 * Append the payload of one record, without newline.
 *
 * @param key the message key as op_sink decided it (for envelope), or NULL.
 * @param ret_null set true if the payload is absent (tombstone). json has
 *        appended "null" then, for media that know no absent payload; the
 *        other formats nothing: such a medium refuses it (cause encode).
 * @return 0, or ERR_RECORD cause encode; `out` is then as before.
 */
MUST_USE int encoder_encode(struct encoder *d, const struct rec *r,
                            const char *key, size_t key_len, struct buf *out,
                            bool *ret_null, struct err *e);
/** Header line of a CSV part (without newline), or NULL. */
const char *encoder_header(const struct encoder *d);
/** "jsonl", "txt", "csv" or "bin". */
const char *encoder_suffix(const struct encoder *d);

#endif
