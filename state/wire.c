#include "state/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

void *
wire_malloc(size_t size)
{
    return fault_hit("store_mem") ? NULL : malloc(size != 0 ? size : 1);
}

void *
wire_realloc(void *p, size_t size)
{
    return fault_hit("store_mem") ? NULL : realloc(p, size != 0 ? size : 1);
}

void
wire_fini(struct wire *w)
{
    free(w->data);
    *w = (struct wire){0};
}

void
wire_put(struct wire *w, const void *bytes, size_t len)
{
    if (w->failed || len == 0)
        return;
    if (w->cap - w->len < len) {
        size_t cap = (w->cap + len) * 2;
        uint8_t *p = wire_realloc(w->data, cap);

        if (p == NULL) {
            w->failed = true;
            return;
        }
        w->data = p;
        w->cap = cap;
    }
    memcpy(w->data + w->len, bytes, len);
    w->len += len;
}

void
wire_put_u8(struct wire *w, unsigned v)
{
    uint8_t b = (uint8_t)v;

    wire_put(w, &b, 1);
}

void
wire_put_u16(struct wire *w, unsigned v)
{
    uint8_t b[2] = {(uint8_t)v, (uint8_t)(v >> 8)};

    wire_put(w, b, sizeof b);
}

void
wire_put_u32(struct wire *w, uint32_t v)
{
    uint8_t b[4];

    wire_store_u32(b, v);
    wire_put(w, b, sizeof b);
}

void
wire_put_u64(struct wire *w, uint64_t v)
{
    uint8_t b[8];

    wire_store_u64(b, v);
    wire_put(w, b, sizeof b);
}

const void *
wire_get(struct wire_in *in, size_t len)
{
    const uint8_t *p = in->at;

    if (in->failed || (size_t)(in->end - in->at) < len) {
        in->failed = true;
        return NULL;
    }
    in->at += len;
    return p;
}

uint8_t
wire_get_u8(struct wire_in *in)
{
    const uint8_t *b = wire_get(in, 1);

    return b != NULL ? *b : 0;
}

uint16_t
wire_get_u16(struct wire_in *in)
{
    const uint8_t *b = wire_get(in, 2);

    return b != NULL ? (uint16_t)((unsigned)b[0] | (unsigned)b[1] << 8) : 0;
}

uint32_t
wire_get_u32(struct wire_in *in)
{
    const uint8_t *b = wire_get(in, 4);

    return b != NULL ? wire_load_u32(b) : 0;
}

uint64_t
wire_get_u64(struct wire_in *in)
{
    const uint8_t *b = wire_get(in, 8);

    return b != NULL ? wire_load_u64(b) : 0;
}
