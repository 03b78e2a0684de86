/*
 * Readers: the columns one segment of a chain reads from its records.
 *
 * A segment is a run of operators over the same untouched bytes. Each has
 * one reader: declared fields are registered as columns when the chain is
 * built; fields that Lua turns out to read are added while running. One pass
 * per record fills `rec.row` (decoded values, one per column), by a learned
 * layout where the record looks like earlier ones, else by the incremental
 * scanner. reader_get() serves any record, with or without a row, and is the
 * one that reports errors: a record is malformed only for whoever reads up
 * to the fault (API.md section 2), except that bad UTF-8 and a wrong first
 * or last byte were already found by the source (json_check()).
 *
 * Owner: one subtask. Rows and unescaped strings live until the next
 * reader_load() of the same reader.
 */
#ifndef FORMAT_READER_H
#define FORMAT_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/rec.h"
#include "core/val.h"

enum { READER_COLUMNS_MAX = 1024 };

struct reader;

/** Make a reader without columns. @thread the owner. */
struct reader *reader_new(void);
/** Free it (rows of loaded batches become invalid). @thread the owner. */
void reader_free(struct reader **r);

/**
 * Find or add the column of `path` ("a.b", "items.1", "a\\.b").
 *
 * Idempotent: the same path gives the same number.
 * @param ret set on success.
 * @return 0, ERR_JOBFILE for a malformed path (empty member), ERR_RECORD
 *         (cause none) when READER_COLUMNS_MAX is reached.
 * @thread the owner.
 */
MUST_USE int reader_column(struct reader *r, const char *path, size_t len,
                           uint32_t *ret, struct err *e);
/** As reader_column() for one literal top-level name (dots are not special). */
MUST_USE int reader_column_name(struct reader *r, const char *name, size_t len,
                                uint32_t *ret, struct err *e);

/**
 * Fill the rows of all records of `b` that have none from this reader.
 *
 * Values that cannot be decoded become VAL_BAD. Cheap to call again.
 * @thread the owner.
 */
void reader_load(struct reader *r, struct batch *b);

/**
 * Get one column of a record (loaded or not).
 *
 * @param ret nil if missing, null, the value; strings are unescaped into the
 *        reader's memory.
 * @return 0, or ERR_RECORD with cause decode or bigint.
 * @thread the owner.
 */
MUST_USE int reader_get(struct reader *r, const struct rec *rec,
                        uint32_t column, struct val *ret, struct err *e);

/**
 * Get the bytes of one column's value as they stand in the payload (for
 * select, which keeps `1.50`); for REC_TEXT the value is encoded as JSON
 * into the reader's memory.
 *
 * @param ret set to the value's text, NULL if it is missing.
 * @return 0, or ERR_RECORD with cause decode or bigint.
 * @thread the owner. Valid until the next reader_load().
 */
MUST_USE int reader_raw(struct reader *r, const struct rec *rec,
                        uint32_t column, const char **ret, size_t *ret_len,
                        struct err *e);

struct reader_stats {
    uint64_t records, layout_hits; /* records parsed; by a learned layout */
};
void reader_stats(const struct reader *r, struct reader_stats *ret);

#endif
