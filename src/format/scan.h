/*
 * The incremental JSON scanner: exact grammar, one token at a time.
 *
 * Private to format/: reader, walker, key encoder and writer share it, so
 * there is one idea of what JSON is. Functions take a position and return
 * the position behind what they read, or NULL with `why`, `at` and `cause`
 * set. Nothing is read at or behind `end`, so a text needs no padding.
 * UTF-8 is not looked at (sources checked it). Owner: the caller.
 */
#ifndef FORMAT_SCAN_H
#define FORMAT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/val.h"
#include "format/json.h"

struct scan {
    const char *start, *end;
    bool ext;                /* NaN, Infinity, -Infinity are values */
    enum json_bigint bigint; /* how integers beyond int64 are decoded */
    struct arena *arena;     /* for unescaped strings */
    const char *why;         /* of the last failure */
    const char *at;
    enum err_cause cause;
};

/** Begin on `len` bytes. @thread the owner. */
static inline void
scan_init(struct scan *s, const char *text, size_t len, bool ext,
          enum json_bigint bigint, struct arena *arena)
{
    s->start = text;
    s->end = text + len;
    s->ext = ext;
    s->bigint = bigint;
    s->arena = arena;
    s->why = "";
    s->at = text;
    s->cause = CAUSE_DECODE;
}

/** Note a failure at `at`. @return NULL. */
const char *scan_fail(struct scan *s, const char *at, const char *why);

/** Report the noted failure. @return ERR_RECORD, cause decode or bigint. */
int scan_err(const struct scan *s, struct err *e);

/** Skip blanks. @return the next byte that is none, or end. */
static inline const char *
scan_blanks(const struct scan *s, const char *p)
{
    while (p < s->end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/**
 * Find the closing quote of a string and check its escapes.
 *
 * @param p behind the opening quote.
 * @param ret_escaped set to whether it holds a backslash.
 * @return the closing quote, or NULL.
 */
const char *scan_string(struct scan *s, const char *p, bool *ret_escaped);

/**
 * Unescape the bytes [p, q), which scan_string() accepted.
 *
 * @param out at least q - p bytes. @return the bytes written.
 */
size_t scan_unescape(const char *p, const char *q, char *out);

/**
 * Read a string as a value, unescaped into the arena where needed.
 *
 * @param p at the opening quote. @return behind the closing one, or NULL.
 */
const char *scan_string_val(struct scan *s, const char *p, struct val *ret);

/** Find the end of a number and check it. @return NULL if it is none. */
const char *scan_number(struct scan *s, const char *p);

/**
 * Decode a value of any type; a list or map gives its text.
 *
 * A value that is well formed but has no decoding (a big integer, 1e400)
 * gives VAL_BAD with `why` and `cause` set, and still its end.
 * @param depth containers around it.
 */
const char *scan_value(struct scan *s, const char *p, unsigned depth,
                       struct val *ret);

/** Check and skip a value of any type. @param depth containers around it. */
const char *scan_skip(struct scan *s, const char *p, unsigned depth);

/**
 * Read `"name" :` with the blanks behind it.
 *
 * @param p at the opening quote. @return the first byte of the value.
 */
const char *scan_name(struct scan *s, const char *p, struct val *ret);

/** The first member or element behind `open`; *ret_last set if none. */
const char *scan_first(struct scan *s, const char *p, char open,
                       bool *ret_last);
/** What follows a value: the next member or element, or the close (then
 * *ret_last is set and the position is behind it). */
const char *scan_next(struct scan *s, const char *p, char open, bool *ret_last);

#endif
