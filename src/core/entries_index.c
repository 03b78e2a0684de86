#include "core/entries_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    SIZE_SPLIT = 1024,  /* words; a full table of this size is split */
    SIZE_MAX16 = 65536, /* where splitting does not help */
    DEPTH_MAX = 22,
    COUNT_BITS = 32
};

/* ---- tables ---- */

static uint32_t
count_of(uintptr_t ref)
{
    return (uint32_t)index_words(ref)[0];
}

static uint32_t
depth_of(uintptr_t ref)
{
    return (uint32_t)(index_words(ref)[0] >> COUNT_BITS);
}

static uintptr_t
table_make(struct entry_index *x, uint32_t size, uint32_t depth)
{
    uint64_t *t = mem_zalloc(size * sizeof *t);
    uint32_t bits = (uint32_t)__builtin_ctz(size / INDEX_SIZE_FIRST);

    static_assert(SIZE_MAX16 / INDEX_SIZE_FIRST < 1 << 15, "fits the bits");
    assert(((uintptr_t)t & ((1u << INDEX_SIZE_BITS) - 1)) == 0);
    t[0] = (uint64_t)depth << COUNT_BITS;
    x->bytes += size * sizeof *t;
    return (uintptr_t)t | bits;
}

static void
table_drop(struct entry_index *x, uintptr_t ref)
{
    x->bytes -= ((size_t)index_mask(ref) + 1) * sizeof(uint64_t);
    free(index_words(ref));
}

void
index_init(struct entry_index *x)
{
    memset(x, 0, sizeof *x);
}

/* Tables stand in the directory 2^(depth - their depth) times in a row. */
static size_t
repeats(const struct entry_index *x, uintptr_t ref)
{
    return (size_t)1 << (x->depth - depth_of(ref));
}

void
index_fini(struct entry_index *x)
{
    size_t i, step;

    if (x->depth == 0 && x->one != 0)
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
put(uintptr_t ref, uint64_t slot)
{
    uint64_t *t = index_words(ref);
    uint32_t mask = index_mask(ref), i = home(slot, mask);

    while (t[i] != 0)
        i = after(i, mask);
    t[i] = slot;
    t[0]++; /* the count */
}

/* Let `ref` take the place of `was` in the directory. */
static void
replace(struct entry_index *x, uintptr_t was, uint32_t hash, uintptr_t ref)
{
    size_t n = repeats(x, was), at, i;

    if (x->depth == 0) {
        x->one = ref;
        return;
    }
    at = (hash >> (32 - x->depth)) & ~(n - 1);
    for (i = 0; i < n; i++)
        x->dir[at + i] = ref;
}

static void
resize(struct entry_index *x, uintptr_t ref, uint32_t hash, uint32_t size)
{
    const uint64_t *t = index_words(ref);
    uintptr_t to = table_make(x, size, depth_of(ref));
    uint32_t i;

    for (i = 1; i <= index_mask(ref); i++)
        if (t[i] != 0)
            put(to, t[i]);
    replace(x, ref, hash, to);
    table_drop(x, ref);
}

static void
double_dir(struct entry_index *x)
{
    size_t n = (size_t)1 << x->depth, i;
    uintptr_t *dir = mem_alloc(2 * n * sizeof *dir);

    for (i = 0; i < n; i++)
        dir[2 * i] = dir[2 * i + 1] = x->depth == 0 ? x->one : x->dir[i];
    if (x->depth != 0)
        x->bytes -= n * sizeof *dir;
    x->bytes += 2 * n * sizeof *dir;
    free(x->dir);
    x->dir = dir;
    x->one = 0;
    x->depth++;
}

static void
split(struct entry_index *x, uintptr_t ref, uint32_t hash)
{
    const uint64_t *t = index_words(ref);
    uint32_t bit = 31 - depth_of(ref), mask = index_mask(ref), i;
    uintptr_t half[2];
    size_t n, at;

    if (depth_of(ref) == x->depth)
        double_dir(x);
    for (i = 0; i < 2; i++)
        half[i] = table_make(x, mask + 1, depth_of(ref) + 1);
    for (i = 1; i <= mask; i++)
        if (t[i] != 0)
            put(half[index_entry(t[i])->hash >> bit & 1], t[i]);
    n = repeats(x, ref);
    at = (hash >> (32 - x->depth)) & ~(n - 1);
    for (i = 0; i < n; i++)
        x->dir[at + i] = half[i >= n / 2];
    table_drop(x, ref);
}

/* Make room for one more in the table of `hash`. */
static uintptr_t
room(struct entry_index *x, uint32_t hash)
{
    for (;;) {
        uintptr_t ref = index_table(x, hash);
        uint32_t size;

        if (ref == 0)
            return x->one = table_make(x, INDEX_SIZE_FIRST, 0);
        size = index_mask(ref) + 1;
        if (count_of(ref) < size / 4 * 3)
            return ref;
        if (size < SIZE_SPLIT || depth_of(ref) == DEPTH_MAX) {
            assert(size < SIZE_MAX16);
            resize(x, ref, hash, size * 2);
        } else {
            split(x, ref, hash);
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
    uintptr_t ref = index_table(x, en->hash);
    uint64_t *t = index_words(ref);
    uint64_t slot = (uintptr_t)en | (uint64_t)(en->hash & UINT16_MAX)
                                        << INDEX_POINTER_BITS;
    uint32_t mask = index_mask(ref), i, j;

    for (i = home(slot, mask); t[i] != slot; i = after(i, mask))
        assert(t[i] != 0);
    for (j = after(i, mask); t[j] != 0; j = after(j, mask))
        if (!between(i, home(t[j], mask), j)) {
            t[i] = t[j];
            i = j;
        }
    t[i] = 0;
    t[0]--; /* the count */
    if (--x->count == 0) {
        index_fini(x);
        return;
    }
    if (mask + 1 > INDEX_SIZE_FIRST && count_of(ref) < (mask + 1) / 8)
        resize(x, ref, en->hash, (mask + 1) / 2);
}

struct entry *
index_next(const struct entry_index *x, struct index_iter *i)
{
    while (x->count != 0 && i->at >> 32 == 0) {
        uintptr_t ref = index_table(x, (uint32_t)i->at);
        uint64_t span = UINT64_C(1) << (32 - depth_of(ref));
        const uint64_t *t = index_words(ref);

        while (i->slot < index_mask(ref)) {
            i->slot++;
            if (t[i->slot] == 0)
                continue;
            i->mask = index_mask(ref);
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
    if (x->count == 0 || i->slot == 0)
        return;
    if (index_mask(index_table(x, (uint32_t)i->at)) == i->mask)
        i->slot--; /* another may have moved to its place */
    else
        i->slot = 0; /* the table has shrunk: all have moved */
}
