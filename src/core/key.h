/*
 * Keys: one canonical, order-preserving byte encoding, and key groups.
 *
 * A key is a sequence of parts. Each part is typed: boolean < number <
 * string < list < map; 1 and 1.0 are the same bytes, "1" is another; -0.0 is
 * 0. memcmp() of two encodings (then length) is the order of keys. Scalars
 * are encoded here; lists and maps (JSON text) by format/json_key, which
 * uses the framing below. Used by routing, hot tables, distinct, ties.
 * Thread: pure functions, any.
 *
 *   boolean  KEY_FALSE or KEY_TRUE
 *   number   KEY_NUM, the bits of the largest double <= v, made so that
 *            memcmp orders them (8 bytes, big endian); if that double is
 *            beyond +-2^53 and within int64, v minus it (2 bytes)
 *   string   KEY_STR, bytes with 0x00 as 0x00 0xff, then 0x00 0x00
 *   list     KEY_LIST, parts, KEY_END
 *   map      KEY_MAP, (name string, part)..., KEY_END; names ascending
 *
 * No encoding of a part is a prefix of another's, so parts may be put one
 * behind the other and anything may follow.
 */
#ifndef CORE_KEY_H
#define CORE_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/val.h"

/* Type tags of the encoding, in order. */
enum key_tag {
    KEY_END = 0x01,  /* end of a list or map; sorts before any part */
    KEY_NULL = 0x02, /* only inside lists and maps */
    KEY_FALSE = 0x03,
    KEY_TRUE = 0x04,
    KEY_NUM = 0x05,
    KEY_STR = 0x06,
    KEY_LIST = 0x07,
    KEY_MAP = 0x08
};

/* Lists and maps inside each other that the readers below accept. */
enum { KEY_DEPTH_MAX = 1024 };

/** Append null (inside a list or map). */
void key_put_null(struct buf *b);
/** Append a boolean. */
void key_put_bool(struct buf *b, bool v);
/** Append an integer; the same bytes as the equal double. */
void key_put_int(struct buf *b, int64_t v);
/** Append a double, not NaN; the same bytes as the equal integer. */
void key_put_double(struct buf *b, double v);
/** Append a string of any bytes. */
void key_put_str(struct buf *b, const char *s, size_t len);
/** Begin and end a list or a map (map: name string, value, name, ...). */
void key_put_list(struct buf *b);
void key_put_map(struct buf *b);
void key_put_end(struct buf *b);

/**
 * Encodes a value of any type; format/json_key.h has the one for JSON.
 *
 * A hook, since core stands below format: aggregates that need the identity
 * or the order of values (distinct, first, min_by) are given one.
 * @return 0, or ERR_RECORD with cause decode, bigint or type (NaN).
 */
typedef int key_encode_f(struct buf *b, const struct val *v, struct err *e);

/** Append a scalar; @return false for nil, NaN, list, map, bad. */
bool key_put_scalar(struct buf *b, const struct val *v);

/**
 * The bytes of one encoded part starting at `p` (at most `end`).
 *
 * Never reads at or behind `end`.
 * @return the length, 0 if the bytes are no whole encoding. @thread any.
 */
size_t key_part_len(const char *p, const char *end);

/**
 * Write one encoded part as canonical JSON text (numbers that are whole and
 * fit int64 as integers, maps with sorted names).
 *
 * Never reads at or behind `end`. A number beyond the double range stands as
 * Infinity, strings with their bytes as they are (extended JSON).
 * @return the bytes of the part, 0 if it is no encoding (nothing written).
 */
size_t key_part_json(struct buf *out, const char *p, const char *end);

/** As key_part_json, but a string part gives its bytes without quotes. */
size_t key_part_text(struct buf *out, const char *p, const char *end);

/** Compare two encodings in the order of keys. */
int key_cmp(const char *a, size_t alen, const char *b, size_t blen);

enum { KEY_GROUPS_MIN = 128, KEY_GROUPS_MAX = 32768 };

/** clamp(next power of two of 1.5 * parallelism, 128, 32768). */
int key_groups_default(int parallelism);
/** hash mod max_parallelism. @source DESIGN section 4. */
static inline uint32_t
key_group(uint64_t hash, uint32_t max_parallelism)
{
    return (uint32_t)(hash % max_parallelism);
}
/** key_group * parallelism / max_parallelism (Flink's formula). */
static inline uint32_t
key_group_subtask(uint32_t group, uint32_t parallelism,
                  uint32_t max_parallelism)
{
    return (uint32_t)((uint64_t)group * parallelism / max_parallelism);
}

#endif
