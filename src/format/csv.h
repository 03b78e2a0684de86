/*
 * CSV (RFC 4180): columns as declared, cells to JSON and back.
 *
 * Private to format/. A quoted empty cell is the empty string, an empty one
 * without quotes is null. Owner: the decoder or encoder that made it.
 */
#ifndef FORMAT_CSV_H
#define FORMAT_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"
#include "core/rec.h"

enum csv_type { CSV_STRING, CSV_INT, CSV_FLOAT, CSV_BOOL };

struct csv_field {
    char *name; /* NUL-terminated */
    size_t name_len;
    enum csv_type type;
};

struct csv {
    struct csv_field *fields;
    size_t count, cap;
    char delimiter;
    bool header;      /* files begin with a line of names */
    bool header_next; /* reading: the next line is one */
    bool declared;    /* fields came from the options */
    struct buf line;  /* scratch: unquoted cell, JSON text */
};

/**
 * Read `fields` (list of "name:type", "name", { name, type }), `header` and
 * `delimiter`. @return 0, or ERR_JOBFILE.
 */
MUST_USE int csv_new(const struct opt *opts, struct csv **ret, struct err *e);
void csv_free(struct csv **c);

/**
 * Read one line into the JSON object text of `r`, made in `a`.
 *
 * @return 1; 0 for a header or an empty line; ERR_RECORD cause decode.
 */
int csv_read(struct csv *c, const char *line, size_t len, struct arena *a,
             struct rec *r, struct err *e);

/** Append one cell, quoted where needed and if empty: an empty cell is null. */
void csv_put_cell(char delimiter, struct buf *out, const char *s, size_t len);
/** What stands between cells. */
char csv_delimiter(const struct csv *c);
/** Append the line of names. */
void csv_put_header(const struct csv *c, struct buf *out);

#endif
