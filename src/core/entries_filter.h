/*
 * Which entries may be in the store only: Bloom filters, each twice as large
 * as the one before, so that a key that is nowhere is seldom asked for.
 *
 * Used by winstate (one a slice) and kstate. 10 bits a key and four probes:
 * one question in about 80 is in vain. What was added stays; what would make
 * the filters larger than their limit makes them say "maybe" from then on.
 *
 * Owner: one subtask. Zeroed: nothing was added.
 */
#ifndef CORE_ENTRIES_FILTER_H
#define CORE_ENTRIES_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct filter_part;

struct entry_filter {
    struct filter_part *parts; /* the newest first */
    bool always;               /* "maybe" to all */
    size_t bytes;              /* held */
};

/**
 * Add a hash.
 * @param expect how many are likely to come.
 * @param limit  bytes that may be held.
 * @thread the owner.
 */
void filter_add(struct entry_filter *f, uint64_t hash, uint64_t expect,
                size_t limit);
/** Whether it may have been added. @thread the owner. */
bool filter_has(const struct entry_filter *f, uint64_t hash);
/** Free the parts; `always` stays. @thread the owner. */
void filter_clear(struct entry_filter *f);

#endif
