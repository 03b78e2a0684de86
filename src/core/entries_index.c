#include "core/entries_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    SIZE_FIRST = 8,     /* words of a table */
    SIZE_SPLIT = 1024,  /* a full one of this size is split */
    SIZE_MAX16 = 65536, /* where splitting does not help */
    DEPTH_MAX = 22
};

/* The head of a table. */
struct head {
    uint32_t mask, count, depth;
};

static struct head
head_get(const uint64_t *t)
{
    return (struct head){.mask = (uint32_t)(t[0] & UINT16_MAX),
                         .count = (uint32_t)(t[0] >> 16 & UINT16_MAX),
                         .depth = (uint32_t)(t[0] >> 32)};
}

static void
head_set(uint64_t *t, struct head h)
{
    t[0] = h.mask | (uint64_t)h.count << 16 | (uint64_t)h.depth << 32;
}

static uint64_t *
table_make(struct entry_index *x, uint32_t size, uint32_t depth)
{
    uint64_t *t = mem_zalloc(size * sizeof *t);

    head_set(t, (struct head){.mask = size - 1, .depth = depth});
    x->bytes += size * sizeof *t;
    return t;
}

static void
table_drop(struct entry_index *x, uint64_t *t)
{
    x->bytes -= ((size_t)index_mask(t) + 1) * sizeof *t;
    free(t);
}

void
index_init(struct entry_index *x)
{
    memset(x, 0, sizeof *x);
}

/* Tables stand in the directory 2^(depth - their depth) times in a row. */
static size_t
repeats(const struct entry_index *x, const uint64_t *t)
{
    return (size_t)1 << (x->depth - head_get(t).depth);
}

void
index_fini(struct entry_index *x)
{
    size_t i, step;

    if (x->depth == 0 && x->one != NULL)
        table_drop(x, x->one);
    for (i = 0; x->depth != 0 && i < (size_t)1 << x->depth; i += step) {
        step = repeats(x, x->dir[i]);
        table_drop(x, x->dir[i]);
    }
    free(x->dir);
    index_init(x);
}

static uint32_t
home(uint64_t slot, uint32_t mask)
{
    uint32_t i = (uint32_t)(slot >> INDEX_POINTER_BITS) & mask;

    return i == 0 ? 1 : i;
}

static uint32_t
after(uint32_t i, uint32_t mask)
{
    return i == mask ? 1 : i + 1;
}

static void
put(uint64_t *t, uint64_t slot)
{
    uint32_t mask = index_mask(t), i = home(slot, mask);

    while (t[i] != 0)
        i = after(i, mask);
    t[i] = slot;
    t[0] += 1u << 16; /* the count */
}

/* Let `t` take the place of `was` in the directory. */
static void
replace(struct entry_index *x, const uint64_t *was, uint32_t hash, uint64_t *t)
{
    size_t n = repeats(x, was), at, i;

    if (x->depth == 0) {
        x->one = t;
        return;
    }
    at = (hash >> (32 - x->depth)) & ~(n - 1);
    for (i = 0; i < n; i++)
        x->dir[at + i] = t;
}

static void
resize(struct entry_index *x, uint64_t *t, uint32_t hash, uint32_t size)
{
    struct head h = head_get(t);
    uint64_t *to = table_make(x, size, h.depth);
    uint32_t i;

    for (i = 1; i <= h.mask; i++)
        if (t[i] != 0)
            put(to, t[i]);
    replace(x, t, hash, to);
    table_drop(x, t);
}

static void
double_dir(struct entry_index *x)
{
    size_t n = (size_t)1 << x->depth, i;
    uint64_t **dir = mem_alloc(2 * n * sizeof *dir);

    for (i = 0; i < n; i++)
        dir[2 * i] = dir[2 * i + 1] = x->depth == 0 ? x->one : x->dir[i];
    if (x->depth != 0)
        x->bytes -= n * sizeof *dir;
    x->bytes += 2 * n * sizeof *dir;
    free(x->dir);
    x->dir = dir;
    x->one = NULL;
    x->depth++;
}

static void
split(struct entry_index *x, uint64_t *t, uint32_t hash)
{
    struct head h = head_get(t);
    uint32_t bit = 31 - h.depth, i;
    uint64_t *half[2];
    size_t n, at;

    if (h.depth == x->depth)
        double_dir(x);
    for (i = 0; i < 2; i++)
        half[i] = table_make(x, h.mask + 1, h.depth + 1);
    for (i = 1; i <= h.mask; i++)
        if (t[i] != 0)
            put(half[index_entry(t[i])->hash >> bit & 1], t[i]);
    n = repeats(x, t);
    at = (hash >> (32 - x->depth)) & ~(n - 1);
    for (i = 0; i < n; i++)
        x->dir[at + i] = half[i >= n / 2];
    table_drop(x, t);
}

/* Make room for one more in the table of `hash`. */
static uint64_t *
room(struct entry_index *x, uint32_t hash)
{
    for (;;) {
        uint64_t *t = index_table(x, hash);
        struct head h;

        if (t == NULL)
            return x->one = table_make(x, SIZE_FIRST, 0);
        h = head_get(t);
        if (h.count < (h.mask + 1) / 4 * 3)
            return t;
        if (h.mask + 1 < SIZE_SPLIT || h.depth == DEPTH_MAX) {
            assert(h.mask + 1 < SIZE_MAX16);
            resize(x, t, hash, (h.mask + 1) * 2);
        } else {
            split(x, t, hash);
        }
    }
}

void
index_add(struct entry_index *x, struct entry *en)
{
    uint64_t p = (uintptr_t)en;

    assert(p >> INDEX_POINTER_BITS == 0);
    put(room(x, en->hash), p | (uint64_t)(en->hash & UINT16_MAX)
                                   << INDEX_POINTER_BITS);
    x->count++;
}

/* Whether k lies in (i, j], going round. */
static bool
between(uint32_t i, uint32_t k, uint32_t j)
{
    return i <= j ? i < k && k <= j : i < k || k <= j;
}

void
index_remove(struct entry_index *x, const struct entry *en)
{
    uint64_t *t = index_table(x, en->hash);
    uint64_t slot = (uintptr_t)en | (uint64_t)(en->hash & UINT16_MAX)
                                        << INDEX_POINTER_BITS;
    uint32_t mask = index_mask(t), i, j;
    struct head h;

    for (i = home(slot, mask); t[i] != slot; i = after(i, mask))
        assert(t[i] != 0);
    for (j = after(i, mask); t[j] != 0; j = after(j, mask))
        if (!between(i, home(t[j], mask), j)) {
            t[i] = t[j];
            i = j;
        }
    t[i] = 0;
    t[0] -= 1u << 16;
    if (--x->count == 0) {
        index_fini(x);
        return;
    }
    h = head_get(t);
    if (h.mask + 1 > SIZE_FIRST && h.count < (h.mask + 1) / 8)
        resize(x, t, en->hash, (h.mask + 1) / 2);
}

struct entry *
index_next(const struct entry_index *x, struct index_iter *i)
{
    while (x->count != 0 && i->at >> 32 == 0) {
        const uint64_t *t = index_table(x, (uint32_t)i->at);
        uint64_t span = UINT64_C(1) << (32 - head_get(t).depth);

        while (i->slot < index_mask(t)) {
            i->slot++;
            if (t[i->slot] == 0)
                continue;
            i->mask = index_mask(t);
            return index_entry(t[i->slot]);
        }
        i->at = (i->at & ~(span - 1)) + span;
        i->slot = 0;
    }
    return NULL;
}

void
index_gone(const struct entry_index *x, struct index_iter *i)
{
    const uint64_t *t;

    if (x->count == 0 || i->slot == 0)
        return;
    t = index_table(x, (uint32_t)i->at);
    if (index_mask(t) == i->mask)
        i->slot--; /* another may have moved to its place */
    else
        i->slot = 0; /* the table has shrunk: all have moved */
}
