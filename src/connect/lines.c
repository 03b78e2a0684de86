#include "connect/lines.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { LINES_KEEP = 16 * LINES_BLOCK }; /* a larger block is given back */

static_assert((int)REC_PAD >= 64, "vector code reads 64 bytes behind a line");

void
lines_init(struct lines *l, bool csv, char delimiter)
{
    memset(l, 0, sizeof *l);
    l->csv = csv;
    l->delimiter = delimiter;
}

void
lines_fini(struct lines *l)
{
    free(l->data);
    l->data = NULL;
    l->cap = l->start = l->scan = l->end = 0;
}

void
lines_start(struct lines *l, int64_t offset)
{
    assert(offset >= 0);
    l->start = l->scan = l->end = 0;
    l->offset = offset;
    l->skipping = false;
}

static void
resize(struct lines *l, size_t cap)
{
    l->data = mem_realloc(l->data, cap + REC_PAD);
    l->cap = cap;
    memset(l->data + cap, 0, REC_PAD);
}

char *
lines_space(struct lines *l, size_t *ret_size)
{
    size_t left = l->end - l->start;

    if (l->start > 0) {
        memmove(l->data, l->data + l->start, left);
        l->scan -= l->start;
        l->start = 0;
        l->end = left;
    }
    if (l->cap - left < LINES_BLOCK / 2)
        resize(l, l->cap == 0 ? LINES_BLOCK : l->cap * 2);
    else if (l->cap > LINES_KEEP && left < LINES_BLOCK / 2)
        resize(l, LINES_BLOCK); /* a long line has passed */
    *ret_size = l->cap - l->end;
    return l->data + l->end;
}

void
lines_filled(struct lines *l, size_t size)
{
    assert(size <= l->cap - l->end);
    l->end += size;
}

/*
 * End of the CSV record at data[start], whose newline at `nl` may be quoted.
 * NULL: the bytes end inside a quoted cell. A quote opens a cell only as its
 * first byte (RFC 4180); elsewhere it is the decoder's to judge.
 */
static const char *
csv_end(const struct lines *l, const char *nl)
{
    const char *p = l->data + l->start;
    const char *end = l->data + l->end;

    if (memchr(p, '"', (size_t)(nl - p)) == NULL)
        return nl;
    for (;;) {
        if (p < end && *p == '"') {
            do { /* a doubled quote closes and opens again */
                p = memchr(p + 1, '"', (size_t)(end - p - 1));
                if (p == NULL)
                    return NULL;
                p++;
            } while (p < end && *p == '"');
        }
        while (p < end && *p != '\n' && *p != l->delimiter)
            p++;
        if (p >= end)
            return NULL;
        if (*p == '\n')
            return p;
        p++;
    }
}

/* The newline that ends the line at data[start], or NULL. */
static const char *
find_end(struct lines *l)
{
    const char *from = l->data + l->scan;
    const char *nl = memchr(from, '\n', l->end - l->scan);

    if (nl == NULL)
        l->scan = l->end;
    else if (l->csv) {
        /* Not remembered: a quoted newline is looked at again with the
         * bytes that follow; the buffer doubles, so that stays linear. */
        nl = csv_end(l, nl);
    }
    return nl;
}

static void
take(struct lines *l, size_t size)
{
    l->start += size;
    l->offset += (int64_t)size;
    l->scan = l->start;
}

/* Drop the rest of a line that was too long; true when it is over. */
static bool
skip_rest(struct lines *l)
{
    size_t left = l->end - l->start;
    const char *nl = left != 0 ? memchr(l->data + l->start, '\n', left) : NULL;

    if (nl == NULL) {
        take(l, left);
        return false;
    }
    take(l, (size_t)(nl - (l->data + l->start)) + 1);
    l->skipping = false;
    return true;
}

enum line_result
lines_next(struct lines *l, bool eof, struct line *ret)
{
    const char *nl;
    size_t len;

    if (l->skipping && !skip_rest(l))
        return LINE_NONE;
    if (l->start == l->end)
        return LINE_NONE;
    nl = find_end(l);
    len = (nl != NULL ? (size_t)(nl - l->data) : l->end) - l->start;
    if (nl == NULL && !eof && len <= LINE_SIZE_MAX)
        return LINE_NONE;
    ret->bytes = l->data + l->start;
    ret->len = len;
    ret->offset = l->offset;
    if (len > LINE_SIZE_MAX) {
        ret->len = LINE_CUT;
        l->skipping = nl == NULL;
        take(l, len + (nl != NULL));
        return LINE_TOO_LONG;
    }
    take(l, len + (nl != NULL));
    return LINE_OK;
}

int64_t
lines_offset(const struct lines *l)
{
    return l->offset;
}

int64_t
lines_end_offset(const struct lines *l)
{
    return l->offset + (int64_t)(l->end - l->start);
}
