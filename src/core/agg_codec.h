/*
 * Little-endian numbers in the portable form of accumulators.
 *
 * Used by core/exact.c and core/agg*.c only. Pure functions, any thread.
 * Readers move *p and never read at or behind `end`.
 */
#ifndef CORE_AGG_CODEC_H
#define CORE_AGG_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

static inline void
codec_put_u64(struct buf *b, uint64_t v)
{
    char out[8];
    int i;

    for (i = 0; i < 8; i++)
        out[i] = (char)(v >> (8 * i) & 0xffu);
    buf_add(b, out, sizeof out);
}

static inline void
codec_put_u32(struct buf *b, uint32_t v)
{
    char out[4];
    int i;

    for (i = 0; i < 4; i++)
        out[i] = (char)(v >> (8 * i) & 0xffu);
    buf_add(b, out, sizeof out);
}

static inline void
codec_put_double(struct buf *b, double d)
{
    uint64_t u;

    memcpy(&u, &d, sizeof u);
    codec_put_u64(b, u);
}

/** Length (up to 2^32 - 1) and bytes. */
static inline void
codec_put_bytes(struct buf *b, const void *bytes, size_t len)
{
    codec_put_u32(b, (uint32_t)len);
    if (len != 0)
        buf_add(b, bytes, len);
}

static inline bool
codec_u64(const char **p, const char *end, uint64_t *ret)
{
    uint64_t v = 0;
    int i;

    if (end - *p < 8)
        return false;
    for (i = 0; i < 8; i++)
        v |= (uint64_t)(unsigned char)(*p)[i] << (8 * i);
    *p += 8;
    *ret = v;
    return true;
}

static inline bool
codec_u32(const char **p, const char *end, uint32_t *ret)
{
    uint32_t v = 0;
    int i;

    if (end - *p < 4)
        return false;
    for (i = 0; i < 4; i++)
        v |= (uint32_t)(unsigned char)(*p)[i] << (8 * i);
    *p += 4;
    *ret = v;
    return true;
}

static inline bool
codec_u8(const char **p, const char *end, uint8_t *ret)
{
    if (*p >= end)
        return false;
    *ret = (uint8_t) * (*p)++;
    return true;
}

static inline bool
codec_double(const char **p, const char *end, double *ret)
{
    uint64_t u;

    if (!codec_u64(p, end, &u))
        return false;
    memcpy(ret, &u, sizeof u);
    return true;
}

/** The bytes of codec_put_bytes(), borrowed. */
static inline bool
codec_bytes(const char **p, const char *end, const char **ret, uint32_t *len)
{
    const char *at = *p;

    if (!codec_u32(&at, end, len) || (size_t)(end - at) < *len)
        return false;
    *ret = at;
    *p = at + *len;
    return true;
}

#endif
