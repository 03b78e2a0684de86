/*
 * JSON texts: check, walk, canonical keys, writing by policy.
 *
 * Extended JSON (see core/rec.h) is read everywhere here. Thread: pure
 * functions, any; a walker belongs to its caller.
 */
#ifndef FORMAT_JSON_H
#define FORMAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/key.h"
#include "core/rec.h"
#include "core/val.h"

enum { JSON_DEPTH_MAX = 1024, JSON_DEPTH_LUA_MAX = 64 };

/**
 * Look at a JSON payload as a source does: trim blanks, first and last byte,
 * UTF-8 of all of it; with `validate` the whole grammar and nothing behind.
 *
 * Sets r->val, r->val_len and r->kind (REC_OBJECT or REC_VALUE).
 * @param text `len` bytes with REC_PAD readable bytes behind.
 * @return 0, or ERR_RECORD cause decode. @thread any. @source simdjson.
 */
MUST_USE int json_check(const char *text, size_t len, bool validate,
                        struct rec *r, struct err *e);
/** Whether brackets outside of strings nest more than `limit` deep. */
bool json_is_deeper(const char *text, size_t len, size_t limit);
/** Whether `len` bytes are valid UTF-8. */
bool json_utf8_ok(const char *text, size_t len);

/* How integers beyond int64 are read. */
enum json_bigint { BIGINT_ERROR, BIGINT_STRING, BIGINT_FLOAT };
/** The policy in a record's flags. */
enum json_bigint json_bigint_of(const struct rec *r);

/**
 * Walk the members of a map or the elements of a list, one level.
 */
struct json_walk {
    const char *text, *pos, *end;
    struct arena *arena; /* for unescaped strings */
    enum json_bigint bigint;
    bool map, first;
    bool ext; /* NaN and Infinity are values; set by init, may be cleared
                 where the bytes were not made by the engine */
};
/**
 * Start on the text of a VAL_LIST or VAL_MAP (or a REC_OBJECT's bytes).
 *
 * Needs no padding behind the text.
 */
void json_walk_init(struct json_walk *w, const char *text, size_t len,
                    enum json_bigint bigint, struct arena *a);
/**
 * Next member or element. Duplicates are all given; the first counts.
 *
 * After an error about the value alone (bigint, 1e400) the walk may go on.
 * @param name may be NULL; set to a map's name, unescaped.
 * @param value the value; lists and maps as their text.
 * @param raw, raw_len may be NULL: the value's bytes in the text.
 * @return 1, 0 at the end, or ERR_RECORD (decode, bigint).
 */
int json_walk_next(struct json_walk *w, struct val *name, struct val *value,
                   const char **raw, size_t *raw_len, struct err *e);
/**
 * Decode one value text (any type); blanks around it are allowed, anything
 * else behind it is an error. Strings without escapes borrow from text.
 * @return 0 or ERR_RECORD (decode, bigint); *ret is untouched then.
 */
MUST_USE int json_value(const char *text, size_t len, enum json_bigint bigint,
                        struct arena *a, struct val *ret, struct err *e);
/** As json_value() of bytes that the engine did not make: NaN and Infinity
 * are no values, at any depth. */
MUST_USE int json_value_plain(const char *text, size_t len,
                              enum json_bigint bigint, struct arena *a,
                              struct val *ret, struct err *e);

/**
 * key_encode_f for any value; maps by sorted names, first duplicate wins.
 *
 * Nulls inside lists and maps stay. Encodings of short lists and maps are
 * remembered per thread by their raw bytes.
 * @return 0, or ERR_RECORD: null_key for nil and null, type for NaN, decode,
 *         bigint; `b` is then as before.
 */
int json_key_encode(struct buf *b, const struct val *v, struct err *e);

/** Whether a text may be extended JSON. One that only holds the word NaN or
 * Infinity in a string counts too, which costs the sink a look and changes
 * nothing. @thread any. */
bool json_is_ext(const char *text, size_t len);
/** Append a value as (extended) JSON text; sets *ext if it is not JSON.
 * Lists and maps keep their bytes; nil and bad values are written null. */
void json_put_val(struct buf *b, const struct val *v, bool *ext);

enum json_nan { NAN_ERROR, NAN_NULL, NAN_STRING };
enum json_utf8 { UTF8_ERROR, UTF8_REPLACE };
/**
 * Append string bytes as a JSON string, bad UTF-8 by policy.
 * @return 0, or ERR_RECORD cause encode; `b` is then as before.
 */
MUST_USE int json_put_text(struct buf *b, const char *s, size_t len,
                           enum json_utf8 utf8, struct err *e);
/** Append bytes, each maximal part that is no UTF-8 as U+FFFD. */
void json_put_utf8(struct buf *b, const char *s, size_t len);
/**
 * Append extended JSON `text` as plain JSON by policy (for REC_EXT records).
 *
 * What is JSON already keeps its bytes.
 * @return 0, or ERR_RECORD cause encode.
 */
MUST_USE int json_put_plain(struct buf *b, const char *text, size_t len,
                            enum json_nan nan, enum json_utf8 utf8,
                            struct err *e);

#endif
