/*
 * Tables for people: columns as wide as their cells, numbers to the right.
 *
 * Cells are cut at TEXT_CELL_MAX characters, and what would move a terminal's
 * cursor is shown as "?". Owner: one thread.
 */
#ifndef MAIN_TEXT_TABLE_H
#define MAIN_TEXT_TABLE_H

#include <stddef.h>

#include "base/buf.h"

enum { TEXT_CELL_MAX = 60 };

struct text_table {
    char **cells; /* row by row, the heads first */
    size_t n, cap;
    size_t columns;
};

/**
 * Append UTF-8 text for a terminal: at most `max` characters, controls as "?".
 * @param text `len` bytes. @thread any.
 */
void text_put_shown(struct buf *out, const char *text, size_t len, size_t max);

void text_table_init(struct text_table *t);
void text_table_fini(struct text_table *t);
/** Add a column; all of them before the first cell. */
void text_table_head(struct text_table *t, const char *name);
/** Add the next cell: `len` bytes of UTF-8. Rows are filled in order. */
void text_table_cell(struct text_table *t, const char *text, size_t len);
/** Append the table. The last row is whole. */
void text_table_put(const struct text_table *t, struct buf *out);

#endif
