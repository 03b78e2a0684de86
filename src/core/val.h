/*
 * Values: what a field holds, as borrowed bytes or a scalar.
 *
 * A list or map stays JSON text (the record's own bytes); whoever needs its
 * members walks it with format/json. 16 bytes, passed by pointer, copied
 * freely. Lifetime: strings, lists and maps borrow from the record (or the
 * arena named by the call that made them).
 */
#ifndef CORE_VAL_H
#define CORE_VAL_H

#include <stdbool.h>
#include <stdint.h>

enum val_type {
    VAL_NIL,  /* missing */
    VAL_NULL, /* JSON null */
    VAL_BOOL,
    VAL_INT,
    VAL_DBL,
    VAL_STR,  /* unescaped bytes, len; not NUL-terminated */
    VAL_LIST, /* JSON text "[...]", len bytes */
    VAL_MAP,  /* JSON text "{...}", len bytes */
    VAL_BAD   /* could not be decoded; ask the reader for the reason */
};

struct val {
    uint8_t type;   /* enum val_type */
    uint8_t bigint; /* lists and maps: enum json_bigint of integers in them */
    uint8_t pad[2];
    uint32_t len;
    union {
        bool b;
        int64_t i;
        double d;
        const char *s;
    } u;
};

static inline struct val
val_nil(void)
{
    return (struct val){.type = VAL_NIL};
}

static inline struct val
val_int(int64_t i)
{
    return (struct val){.type = VAL_INT, .u.i = i};
}

static inline struct val
val_dbl(double d)
{
    return (struct val){.type = VAL_DBL, .u.d = d};
}

static inline struct val
val_bool(bool b)
{
    return (struct val){.type = VAL_BOOL, .u.b = b};
}

static inline struct val
val_str(const char *s, uint32_t len)
{
    return (struct val){.type = VAL_STR, .len = len, .u.s = s};
}

/** Whether SQL calls it null: missing, JSON null. */
static inline bool
val_is_null(const struct val *v)
{
    return v->type == VAL_NIL || v->type == VAL_NULL;
}

#endif
