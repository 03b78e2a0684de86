/*
 * Numbers and byte strings in a row, as the ledger is written: little
 * endian, whatever the machine. Used inside state only.
 *
 * A writer that ran out of memory, or a reader that ran out of bytes, stays
 * failed and is asked once at the end. Owner: one thread.
 */
#ifndef STATE_WIRE_H
#define STATE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
    uint8_t *data;
    size_t len, cap;
    bool failed; /* no memory */
};

struct wire_in {
    const uint8_t *at, *end;
    bool failed; /* bytes ran out */
};

/** malloc that tests can make fail (fault point "store_mem"); may be NULL. */
void *wire_malloc(size_t size) __attribute__((malloc));
/** realloc in the same way. */
void *wire_realloc(void *p, size_t size);

void wire_fini(struct wire *w);
void wire_put(struct wire *w, const void *bytes, size_t len);
void wire_put_u8(struct wire *w, unsigned v);
void wire_put_u16(struct wire *w, unsigned v);
void wire_put_u32(struct wire *w, uint32_t v);
void wire_put_u64(struct wire *w, uint64_t v);

/** `len` bytes in place, or NULL if there are not that many. */
const void *wire_get(struct wire_in *in, size_t len);
uint8_t wire_get_u8(struct wire_in *in);
uint16_t wire_get_u16(struct wire_in *in);
uint32_t wire_get_u32(struct wire_in *in);
uint64_t wire_get_u64(struct wire_in *in);

static inline uint32_t
wire_load_u32(const void *p)
{
    const uint8_t *b = p;

    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
           (uint32_t)b[3] << 24;
}

static inline uint64_t
wire_load_u64(const void *p)
{
    return wire_load_u32(p) | (uint64_t)wire_load_u32((const uint8_t *)p + 4)
                                  << 32;
}

static inline void
wire_store_u32(void *p, uint32_t v)
{
    uint8_t *b = p;

    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}

static inline void
wire_store_u64(void *p, uint64_t v)
{
    wire_store_u32(p, (uint32_t)v);
    wire_store_u32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
