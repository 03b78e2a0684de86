/*
 * Rows: from a sink of the machine, from and to a file of JSON lines.
 *
 * Used by session.c. A row is a map of its fields; a tombstone is the mark
 * TEST_TOMBSTONE with its fields. With meta a row is a map { value, key,
 * timestamp, tombstone }, of which only `value` is always there.
 * Thread: one; rows are the arena's.
 */
#ifndef TESTING_ROWS_H
#define TESTING_ROWS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/opts.h"
#include "testing/sim.h"

struct rows_conf {
    struct sim *sim;
    const char *sink;
    bool meta;
};

/** Take what the sink got since the last look, as a list of rows.
 * @return 0, or what sim_take() gives. */
MUST_USE int rows_take(const struct rows_conf *conf, struct arena *a,
                       struct opt **ret, struct err *e);
/** Read lines of JSON; empty ones are skipped.
 * @return 0 or ERR_RECORD, with the number of the line. */
MUST_USE int rows_read(const char *text, size_t len, struct arena *a,
                       struct opt **ret, struct err *e);
/** The same of a file. @return 0, or ERR_IO: it cannot be read. */
MUST_USE int rows_read_file(const char *path, struct arena *a, struct opt **ret,
                            struct err *e);
/**
 * Write rows as lines of JSON; a file that is the same is left alone.
 * @param ordered else the lines are sorted, so that equal rows make equal
 *        files. @return 0; ERR_IO; ERR_USAGE: a tombstone without meta.
 */
MUST_USE int rows_write_file(const char *path, const struct opt *rows,
                             bool ordered, struct err *e);

#endif
