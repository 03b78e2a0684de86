/*
 * Numbers and strings of a snapshot's blob: little endian, whatever the
 * machine, so that a savepoint can be read on another one.
 *
 * Used by the connectors of connect/ and script/ for what they give to a
 * round. A reader never goes beyond the bytes it was given: from the first
 * value that is not there on it gives zeros and `bad` is set, so that one
 * look at the end is enough. Owner: whoever reads or writes, one thread.
 */
#ifndef CORE_BLOB_H
#define CORE_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/** Append the low `size` bytes of `v`, 1 to 8. @thread the owner. */
static inline void
blob_put(struct buf *b, uint64_t v, unsigned size)
{
    unsigned i;

    for (i = 0; i < size; i++)
        buf_addc(b, (char)(v >> (8 * i)));
}

/** Append `len` bytes, less than 4 GiB, with their length. */
static inline void
blob_put_bytes(struct buf *b, const void *bytes, size_t len)
{
    blob_put(b, len, 4);
    buf_add(b, bytes, len);
}

struct blob_reader {
    const unsigned char *p, *end;
    bool bad; /* asked for more than there is */
};

/** Begin to read `b`, which must outlive the reader. @thread the owner. */
static inline struct blob_reader
blob_read(const struct buf *b)
{
    const unsigned char *p = (const unsigned char *)b->data;

    return (struct blob_reader){.p = p, .end = p != NULL ? p + b->len : p};
}

/** The next number of `size` bytes, 1 to 8; 0 if there is none. */
static inline uint64_t
blob_get(struct blob_reader *r, unsigned size)
{
    uint64_t v = 0;
    unsigned i;

    if (r->bad || (size_t)(r->end - r->p) < size) {
        r->bad = true;
        return 0;
    }
    for (i = 0; i < size; i++)
        v |= (uint64_t)r->p[i] << (8 * i);
    r->p += size;
    return v;
}

/** The next bytes with a length, borrowed; length 0 if there are none. */
static inline const char *
blob_get_bytes(struct blob_reader *r, size_t *ret_len)
{
    size_t len = (size_t)blob_get(r, 4);
    const unsigned char *p = r->p;

    *ret_len = 0;
    if (r->bad || (size_t)(r->end - p) < len) {
        r->bad = true;
        return "";
    }
    r->p += len;
    *ret_len = len;
    return (const char *)p;
}

/** Whether everything was there and nothing is left over. @thread owner. */
static inline bool
blob_done(const struct blob_reader *r)
{
    return !r->bad && r->p == r->end;
}

#endif
