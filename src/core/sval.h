/*
 * Owned values: a copy of a struct val that outlives its record.
 *
 * Used by the aggregates that keep values (min, max, first, last, min_by,
 * max_by). 16 bytes; up to 8 bytes of a string lie inside, more on the heap.
 * May be moved with memcpy. All zero bytes = VAL_NIL. Thread: the owner.
 */
#ifndef CORE_SVAL_H
#define CORE_SVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/val.h"

enum { SVAL_INLINE = 8 };

struct sval {
    uint8_t type; /* enum val_type, never VAL_BAD */
    uint8_t mark; /* the owner's; sval_set() leaves it alone */
    uint8_t pad[2];
    uint32_t len;
    union {
        bool b;
        int64_t i;
        double d;
        char *heap;              /* len > SVAL_INLINE */
        char bytes[SVAL_INLINE]; /* else */
    } u;
};

/** Replace the value by a copy of `v`. @thread the owner. */
void sval_set(struct sval *s, const struct val *v);
/** The value, borrowing from `s`. @thread the owner. */
struct val sval_get(const struct sval *s);
/** Make `to` (uninitialised) a copy of `s`. @thread the owner. */
void sval_dup(const struct sval *s, struct sval *to);
/** Free the bytes; `s` is nil. @thread the owner. */
void sval_fini(struct sval *s);
/** Heap bytes owned. @thread the owner. */
size_t sval_heap(const struct sval *s);
/** Append a portable form. @thread the owner. */
void sval_encode(const struct sval *s, struct buf *out);
/** Fill a nil `s` from sval_encode()'s bytes; @return false if damaged. */
MUST_USE bool sval_decode(struct sval *s, const char **p, const char *end);

/** Whether `v` is an integer or a double. @thread any. */
static inline bool
val_is_num(const struct val *v)
{
    return v->type == VAL_INT || v->type == VAL_DBL;
}

/** Compare two numbers (no NaN) by value, exactly. @thread any. */
int val_num_cmp(const struct val *a, const struct val *b);
/** Compare the bytes of two strings, lists or maps. @thread any. */
int val_bytes_cmp(const struct val *a, const struct val *b);
/** Whether `len` bytes are valid UTF-8. @thread any. @source RFC 3629. */
bool val_utf8_ok(const char *s, size_t len);
/** Append `v` as extended JSON (nil as null); sets *ext if it is no JSON. */
void val_put_json(struct buf *b, const struct val *v, bool *ext);

#endif
