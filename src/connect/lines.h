/*
 * Lines: cuts blocks of bytes into lines without copying them.
 *
 * Used by the file source and by stdin. The caller asks for space, reads
 * bytes into it, and takes lines until there is no whole one left; the rest
 * moves to the front when space is asked for again. With CSV a newline
 * inside a quoted cell does not end a line.
 *
 * Owner: one task. Lifetime: a line's bytes are valid until the next
 * lines_space() or lines_start(). Limits: LINE_SIZE_MAX bytes a line; a
 * longer one is given once, cut to LINE_CUT bytes, and the rest is dropped
 * as it comes. LINES_BLOCK is the least that space holds; at least REC_PAD
 * readable bytes follow every line.
 */
#ifndef CONNECT_LINES_H
#define CONNECT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rec.h"

enum { LINES_BLOCK = 256 << 10, LINE_SIZE_MAX = REC_SIZE_MAX, LINE_CUT = 4096 };

enum line_result {
    LINE_NONE, /* no whole line; read more, or the input is at its end */
    LINE_OK,
    LINE_TOO_LONG /* the first LINE_CUT bytes of it */
};

struct line {
    const char *bytes; /* without the newline */
    size_t len;
    int64_t offset; /* byte offset of its first byte in the input */
};

struct lines {
    char *data; /* cap + REC_PAD bytes */
    size_t cap;
    size_t start, end; /* bytes not yet given */
    size_t scan;       /* no newline in [start, scan) */
    int64_t offset;    /* of data[start] in the input */
    bool csv;          /* newlines may be quoted */
    char delimiter;    /* of CSV cells */
    bool skipping;     /* inside a line that was too long */
};

/** Make `l` empty; takes no memory yet. @thread the owner. */
void lines_init(struct lines *l, bool csv, char delimiter);
/** Free the memory. @thread the owner. */
void lines_fini(struct lines *l);
/** Forget all bytes and begin at byte `offset` of an input. */
void lines_start(struct lines *l, int64_t offset);
/**
 * Room to read into, behind the bytes not yet given.
 *
 * @param ret_size at least LINES_BLOCK / 2. @return where to put bytes;
 * lines_filled() says how many came. @thread the owner.
 */
char *lines_space(struct lines *l, size_t *ret_size);
/** `size` bytes were read into the space. @thread the owner. */
void lines_filled(struct lines *l, size_t size);
/**
 * Take the next line.
 *
 * @param eof no more bytes will come: what is left is the last line.
 * @param ret set unless LINE_NONE. @thread the owner.
 */
enum line_result lines_next(struct lines *l, bool eof, struct line *ret);
/** Input offset of the first byte not yet given. @thread the owner. */
int64_t lines_offset(const struct lines *l);
/** Input offset behind the last byte read. @thread the owner. */
int64_t lines_end_offset(const struct lines *l);

#endif
