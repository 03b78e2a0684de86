/*
 * An index of entries by hash that grows, and shrinks to nothing, without a
 * pause: many small tables behind a directory (extendible hashing).
 *
 * Used by kstate for keys and for the entries of a map, by timers. It holds
 * pointers; the entries are the caller's. A table of 1023 slots that is full
 * is split in two; that is the longest an insertion takes.
 *
 * A table is 2^n words. Word 0 is its head: entries, depth. The others
 * are slots: the low 16 bits of the entry's hash above a pointer of 48 bits,
 * or 0. Since these bits give the home of an entry, removing one moves
 * others without looking at them.
 *
 * Owner: one subtask. Limits: 2^31 entries; pointers of 48 bits.
 */
#ifndef CORE_ENTRIES_INDEX_H
#define CORE_ENTRIES_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/entries.h"

enum { INDEX_POINTER_BITS = 48 };

/* A table as the directory has it: a pointer, with the size (8 words times a
 * power of two) in its low bits, so that finding an entry looks at the
 * directory and the slot only. 0: none. */
enum { INDEX_SIZE_BITS = 4, INDEX_SIZE_FIRST = 8 };

struct entry_index {
    uintptr_t *dir; /* 2^depth tables; several may be the same */
    uintptr_t one;  /* the directory while depth is 0 */
    uint32_t depth;
    size_t count; /* entries */
    size_t bytes; /* memory held */
};

/** The 32 bits of a 64-bit hash that an entry keeps: not the low ones, which
 * are much the same in all keys of a subtask. */
static inline uint32_t
index_hash(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

/** Whether `en`, of the same hash, is what is looked for. */
typedef bool index_same_f(const struct entry *en, const void *arg);

/** No entries; takes no memory. @thread the owner. */
void index_init(struct entry_index *x);
/** Free the tables (not the entries). @thread the owner. */
void index_fini(struct entry_index *x);
/** Add an entry that is not there; by its hash. @thread the owner. */
void index_add(struct entry_index *x, struct entry *en);
/** Remove an entry that is there. @thread the owner. */
void index_remove(struct entry_index *x, const struct entry *en);

static inline uintptr_t
index_table(const struct entry_index *x, uint32_t hash)
{
    return x->depth == 0 ? x->one : x->dir[hash >> (32 - x->depth)];
}

static inline uint64_t *
index_words(uintptr_t ref)
{
    return (uint64_t *)(ref & ~(((uintptr_t)1 << INDEX_SIZE_BITS) - 1));
}

static inline uint32_t
index_mask(uintptr_t ref)
{
    return ((uint32_t)INDEX_SIZE_FIRST
            << (ref & (((uintptr_t)1 << INDEX_SIZE_BITS) - 1))) -
           1;
}

static inline struct entry *
index_entry(uint64_t slot)
{
    uintptr_t p = slot & ((UINT64_C(1) << INDEX_POINTER_BITS) - 1);

    return (struct entry *)p;
}

/** Ask the cache for the slot of `hash`. */
static inline void
index_prefetch(const struct entry_index *x, uint32_t hash)
{
    uintptr_t ref = index_table(x, hash);

    if (ref != 0)
        __builtin_prefetch(&index_words(ref)[hash & index_mask(ref)], 0, 3);
}

/**
 * Find an entry, or NULL.
 * @param same is asked about those of the same hash. @thread the owner.
 */
static inline struct entry *
index_find(const struct entry_index *x, uint32_t hash, index_same_f *same,
           const void *arg)
{
    uintptr_t ref = index_table(x, hash);
    uint32_t mask = index_mask(ref), i;
    const uint64_t *t = index_words(ref);

    if (ref == 0)
        return NULL;
    for (i = hash & mask;; i = (i + 1) & mask) {
        struct entry *en;

        if (i == 0)
            continue;
        if (t[i] == 0)
            return NULL;
        if (t[i] >> INDEX_POINTER_BITS != (hash & UINT16_MAX))
            continue;
        en = index_entry(t[i]);
        if (en->hash == hash && same(en, arg))
            return en;
    }
}

/* Walks the entries in no order. Zeroed: from the first. The index may change
 * between calls; then some are missed or seen twice. */
struct index_iter {
    uint64_t at; /* in the space of hashes; 2^32 is its end */
    uint32_t slot, mask;
};

/** The next entry, or NULL at the end. @thread the owner. */
struct entry *index_next(const struct entry_index *x, struct index_iter *i);
/** The entry that came last was removed: none is missed for that. */
void index_gone(const struct entry_index *x, struct index_iter *i);

#endif
