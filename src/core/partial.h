/*
 * Partials: accumulators on their way from a local to a global phase.
 *
 * A partial is a delta for (key, slice, first window), never a cumulative
 * total. Batches are made by one subtask, moved over a lane and consumed by
 * another; accumulators that cannot move by memcpy travel encoded. A batch
 * that is freed unconsumed frees what its accumulators own.
 * Owner: whoever holds the batch; it needs an aggset of the same step.
 */
#ifndef CORE_PARTIAL_H
#define CORE_PARTIAL_H

#include <stdint.h>

#include "base/arena.h"
#include "core/agg.h"

struct partial {
    uint64_t hash;   /* hash_key() of the key */
    int64_t slice;   /* start of the slice */
    int64_t first;   /* first window it counts for, WINDOW_FIRST_ALL */
    const char *key; /* canonical key */
    uint32_t key_len;
    uint32_t count;    /* records in it */
    void *block;       /* accumulators, or NULL: encoded */
    const char *bytes; /* encoded accumulators */
    uint32_t bytes_len;
};

struct partials {
    struct partial *items;
    uint32_t n;
    size_t cap;
    size_t bytes; /* of the blocks, with what they own, about */
    size_t look;  /* of the one that was looked at last */
    struct arena arena;
};

struct partials *partials_new(void);
/** Free a batch; `set` frees accumulators of items whose block is not NULL. */
void partials_free(struct partials **p, const struct aggset *set);

/**
 * Append a partial whose block moves in: the caller's block is empty after.
 *
 * @param head hash, slice, first, key, key_len, count; the key is copied.
 * @param block set->size bytes. @return 0, or the encode error.
 */
MUST_USE int partials_add(struct partials *p, const struct aggset *set,
                          const struct partial *head, void *block,
                          struct err *e);
/** Bring an item's block into memory of this thread's Lua state if needed. */
MUST_USE int partials_decode(struct partials *p, const struct aggset *set,
                             struct partial *item, struct err *e);

#endif
