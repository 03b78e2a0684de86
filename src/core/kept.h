/*
 * Kept records: a copy of a record, with all its bytes, that outlives its
 * batch. What top_n and the functions over whole windows hold.
 *
 * One piece of heap memory a record; immutable once made, so it may move
 * between threads. Thread: the owner.
 */
#ifndef CORE_KEPT_H
#define CORE_KEPT_H

#include "base/buf.h"
#include "core/rec.h"

struct kept {
    struct rec rec; /* borrows from this piece; no row */
    const char *by; /* by_len bytes: what it is ranked by, or NULL */
    uint32_t by_len;
    uint32_t size; /* of the piece */
};

/** Copy a record; @param by `by_len` bytes, copied. free() ends it. */
struct kept *kept_new(const struct rec *r, const char *by, uint32_t by_len)
    __attribute__((malloc, returns_nonnull));
struct kept *kept_dup(const struct kept *k)
    __attribute__((malloc, returns_nonnull));

/**
 * Order of two records, a function of what they hold: event time, origin,
 * then bytes of value and key. @return < 0, 0, > 0.
 */
int kept_cmp(const struct rec *a, const struct rec *b);

/** Append the fields of a record as one (extended) JSON map: a text, or a JSON
 * value, is the field `value`. */
void kept_put_json(const struct kept *k, struct buf *out);

/** Append a portable form. */
void kept_encode(const struct kept *k, struct buf *out);
/** Make one of kept_encode()'s bytes; @return NULL if they are damaged. */
struct kept *kept_decode(const char **p, const char *end);

/* A list of kept records, which it owns. Zeroed: empty. May be moved. */
struct kept_list {
    struct kept **at;
    uint32_t n, cap;
    size_t bytes; /* of the pieces */
};

/** Free the records and the list; it is empty then. @thread the owner. */
void kept_list_fini(struct kept_list *l);
/** Make room for `n` records in all. @thread the owner. */
void kept_list_reserve(struct kept_list *l, size_t n);
/** Append a record; it is the list's. @thread the owner. */
void kept_list_add(struct kept_list *l, struct kept *k);
/** Copy a list into `to` (undefined before). @thread the owner. */
void kept_list_dup(const struct kept_list *l, struct kept_list *to);
/** Heap bytes it owns. */
size_t kept_list_heap(const struct kept_list *l);
/** Append the records as a list of JSON maps; sets *ext if it is no JSON. */
void kept_list_put_json(const struct kept_list *l, struct buf *out, bool *ext);
/** Append their number and portable forms, for kept_decode(). */
void kept_list_encode(const struct kept_list *l, struct buf *out);

#endif
