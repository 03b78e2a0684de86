/*
 * Growing byte buffers and the primitives of JSON text.
 *
 * A `struct buf` is embedded by whoever writes rows, keys, messages. The
 * JSON primitives here fix the text form of API.md section 7 (escapes,
 * shortest doubles, no spaces), so that core, format, log and summary write
 * the same text. Owner: one thread. BUF_PAD readable bytes follow the data.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

enum { BUF_PAD = 64 };

struct buf {
    char *data; /* not NUL-terminated unless buf_cstr() was asked */
    size_t len, cap;
};

/** Make `b` empty; takes no memory yet. @thread the owner. */
void buf_init(struct buf *b);
/** Free the memory; `b` is empty and usable. @thread the owner. */
void buf_fini(struct buf *b);
/** Forget the bytes, keep the memory. @thread the owner. */
void buf_clear(struct buf *b);
/** The slow half of buf_reserve(). @thread the owner. */
void buf_grow(struct buf *b, size_t more);

/* The next three are inline: keys and rows are made of many small pieces. */

/** Make room for `more` bytes behind the data (and the pad). @thread owner. */
static inline void
buf_reserve(struct buf *b, size_t more)
{
    if (b->data == NULL || b->cap - b->len < more)
        buf_grow(b, more);
}

/** Append `len` bytes. @thread the owner. */
static inline void
buf_add(struct buf *b, const void *bytes, size_t len)
{
    buf_reserve(b, len);
    if (len != 0)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
}

/** Append one byte. @thread the owner. */
static inline void
buf_addc(struct buf *b, char c)
{
    buf_reserve(b, 1);
    b->data[b->len++] = c;
}

/** Append a NUL-terminated string. @thread the owner. */
void buf_adds(struct buf *b, const char *s);
/** Append formatted text. @thread the owner. */
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/** The data as a NUL-terminated string (until the next append). */
const char *buf_cstr(struct buf *b);

/**
 * Longest text of num_text_*(): sign, 17 digits, point, exponent, NUL.
 */
enum { NUM_TEXT_MAX = 40 };

/** Write `i` in decimal; @return its length, NUL-terminated. @thread any. */
size_t num_text_int(int64_t i, char out[NUM_TEXT_MAX]);

/**
 * Write the shortest text that reads back as `d`, as Python's repr().
 *
 * Plain notation for 1e-4 <= |d| < 1e16 with ".0" if whole, else an exponent
 * of at least two digits ("1e-05"). NaN and infinities give "NaN",
 * "Infinity", "-Infinity" (the extended JSON records carry inside).
 * @return the length, NUL-terminated. @thread any.
 * @source API.md section 7, "JSON text"; std::to_chars.
 */
size_t num_text_double(double d, char out[NUM_TEXT_MAX]);

/**
 * Read a JSON or CSV floating-point number, correctly rounded.
 *
 * @param text `len` bytes, the whole number, no spaces.
 * @param ret  set on success; +-HUGE_VAL is never returned.
 * @return true if all of text is a number within the double range.
 * @thread any. @source std::from_chars.
 */
bool num_read_double(const char *text, size_t len, double *ret);

/** Append `s` as a JSON string with quotes; bytes >= 0x80 go as they are. */
void json_put_str(struct buf *b, const char *s, size_t len);
/** Append an integer. @thread the owner of b. */
void json_put_int(struct buf *b, int64_t i);
/** Append a double as num_text_double() (so NaN may appear). */
void json_put_double(struct buf *b, double d);
/** Append `"name":`, preceded by a comma unless the last byte opens. */
void json_put_name(struct buf *b, const char *name, size_t len);

#endif
