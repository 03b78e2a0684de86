#include "core/hll.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"

enum {
    RANK_BITS = 64 - HLL_BITS, /* hash bits behind the register number */
    RANK_MAX = RANK_BITS + 1,
    SPARSE_FIRST = 512, /* slots; the 257 first values fit */
    SPARSE_MAX = 2048   /* slots; above 3/4 of it: one byte a register */
};

struct hll {
    uint32_t slots; /* of the sparse table, 0 = dense */
    uint32_t used;  /* sparse: slots in use */
    union {
        uint32_t sparse[1]; /* register << 8 | rank, 0 = empty */
        uint8_t dense[HLL_REGISTERS];
    } u;
};

static size_t
hll_size(uint32_t slots)
{
    return offsetof(struct hll, u) +
           (slots != 0 ? slots * sizeof(uint32_t) : HLL_REGISTERS);
}

static struct hll *
sparse_new(uint32_t slots)
{
    struct hll *h = mem_zalloc(hll_size(slots));

    h->slots = slots;
    return h;
}

struct hll *
hll_new(void)
{
    return sparse_new(SPARSE_FIRST);
}

void
hll_free(struct hll **h)
{
    free(*h);
    *h = NULL;
}

struct hll *
hll_dup(const struct hll *h)
{
    size_t size = hll_size(h->slots);
    struct hll *copy = mem_alloc(size);

    memcpy(copy, h, size);
    return copy;
}

static uint32_t *
sparse_slots(struct hll *h)
{
    return h->u.sparse;
}

static void hll_put(struct hll **h, uint32_t reg, uint8_t rank);

/* Move everything into a table of twice the size, or one byte a register. */
static void
hll_grow(struct hll **h)
{
    struct hll *old = *h;
    uint32_t *slots = sparse_slots(old), i;

    *h = sparse_new(old->slots < SPARSE_MAX ? old->slots * 2 : 0);
    for (i = 0; i < old->slots; i++)
        if (slots[i] != 0)
            hll_put(h, slots[i] >> 8, (uint8_t)(slots[i] & 0xffu));
    free(old);
}

static void
sparse_put(struct hll **h, uint32_t reg, uint8_t rank)
{
    uint32_t *slots = sparse_slots(*h), mask = (*h)->slots - 1, i;

    for (i = reg & mask; slots[i] != 0; i = (i + 1) & mask)
        if (slots[i] >> 8 == reg) {
            if ((slots[i] & 0xffu) < rank)
                slots[i] = reg << 8 | rank;
            return;
        }
    slots[i] = reg << 8 | rank;
    (*h)->used++;
    if ((*h)->used * 4 > (*h)->slots * 3)
        hll_grow(h);
}

static void
hll_put(struct hll **h, uint32_t reg, uint8_t rank)
{
    if ((*h)->slots != 0)
        sparse_put(h, reg, rank);
    else if ((*h)->u.dense[reg] < rank)
        (*h)->u.dense[reg] = rank;
}

void
hll_add(struct hll **h, uint64_t hash)
{
    uint64_t rest = hash << HLL_BITS | UINT64_C(1) << (HLL_BITS - 1);

    hll_put(h, (uint32_t)(hash >> RANK_BITS),
            (uint8_t)(__builtin_clzll(rest) + 1));
}

void
hll_merge(struct hll **h, const struct hll *from)
{
    uint32_t i;

    if (from->slots == 0) {
        for (i = 0; i < HLL_REGISTERS; i++)
            if (from->u.dense[i] != 0)
                hll_put(h, i, from->u.dense[i]);
        return;
    }
    for (i = 0; i < from->slots; i++) {
        const uint32_t *slots = from->u.sparse;

        if (slots[i] != 0)
            hll_put(h, slots[i] >> 8, (uint8_t)(slots[i] & 0xffu));
    }
}

/* x + sum x^(2^k) 2^(k-1). */
static double
ertl_sigma(double x)
{
    double y = 1, z = x, before;

    if (x == 1)
        return INFINITY;
    do {
        x *= x;
        before = z;
        z += x * y;
        y += y;
    } while (z != before);
    return z;
}

/* (1 - x - sum (1 - x^(2^-k))^2 2^-k) / 3. */
static double
ertl_tau(double x)
{
    double y = 1, z = 1 - x, before;

    if (x == 0 || x == 1)
        return 0;
    do {
        x = sqrt(x);
        before = z;
        y *= 0.5;
        z -= (1 - x) * (1 - x) * y;
    } while (z != before);
    return z / 3;
}

static void
histogram(const struct hll *h, uint32_t counts[RANK_MAX + 1])
{
    const uint32_t *slots = h->u.sparse;
    uint32_t i;

    memset(counts, 0, (RANK_MAX + 1) * sizeof *counts);
    if (h->slots == 0) {
        for (i = 0; i < HLL_REGISTERS; i++)
            counts[h->u.dense[i]]++;
        return;
    }
    counts[0] = HLL_REGISTERS - h->used;
    for (i = 0; i < h->slots; i++)
        if (slots[i] != 0)
            counts[slots[i] & 0xffu]++;
}

uint64_t
hll_estimate(const struct hll *h)
{
    const double m = HLL_REGISTERS;
    uint32_t counts[RANK_MAX + 1];
    double z;
    int k;

    histogram(h, counts);
    if (counts[0] == HLL_REGISTERS)
        return 0;
    z = m * ertl_tau(1 - counts[RANK_MAX] / m);
    for (k = RANK_BITS; k >= 1; k--)
        z = 0.5 * (z + counts[k]);
    z += m * ertl_sigma(counts[0] / m);
    if (z <= 0)
        return UINT64_MAX / 2; /* every register is full */
    return (uint64_t)llround(m * m / (2 * log(2)) / z);
}

size_t
hll_heap(const struct hll *h)
{
    return hll_size(h->slots);
}

void
hll_encode(const struct hll *h, struct buf *out)
{
    const uint32_t *slots = h->u.sparse;
    uint32_t i;

    buf_addc(out, h->slots == 0 ? 0 : 1);
    if (h->slots == 0) {
        buf_add(out, h->u.dense, HLL_REGISTERS);
        return;
    }
    codec_put_u32(out, h->used);
    for (i = 0; i < h->slots; i++)
        if (slots[i] != 0)
            codec_put_u32(out, slots[i]);
}

static bool
decode_one(struct hll **h, uint32_t reg, uint32_t rank)
{
    if (reg >= HLL_REGISTERS || rank == 0 || rank > RANK_MAX)
        return false;
    hll_put(h, reg, (uint8_t)rank);
    return true;
}

bool
hll_decode(struct hll **h, const char **p, const char *end)
{
    uint32_t i, n, slot;
    uint8_t sparse;

    if (!codec_u8(p, end, &sparse) || sparse > 1)
        return false;
    if (sparse == 0) {
        if (end - *p < HLL_REGISTERS)
            return false;
        for (i = 0; i < HLL_REGISTERS; i++) {
            uint8_t rank = (uint8_t)(*p)[i];

            if (rank != 0 && !decode_one(h, i, rank))
                return false;
        }
        *p += HLL_REGISTERS;
        return true;
    }
    if (!codec_u32(p, end, &n))
        return false;
    for (i = 0; i < n; i++)
        if (!codec_u32(p, end, &slot) ||
            !decode_one(h, slot >> 8, slot & 0xffu))
            return false;
    return true;
}
