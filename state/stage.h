/*
 * The changes of one round while they are gathered, then sorted for one
 * sequential append. Used inside state only; owner: the writer.
 *
 * Pairs are encoded as they will lie in the file and kept in chunks; what is
 * sorted is a table of pointers with eight bytes of key beside each, so that
 * comparing seldom touches the pairs (multikey sort, eight bytes a level).
 */
#ifndef STATE_STAGE_H
#define STATE_STAGE_H

#include "state/ledger.h"

struct stage_chunk;

struct stage_item {
    uint64_t cache; /* eight bytes of the key, for sorting */
    uint8_t *pair;  /* see stage_pair() */
    uint64_t turn;  /* of two of one key, the later counts */
};

struct stage {
    struct stage_chunk *chunks;
    uint8_t *pos, *end; /* free part of the newest chunk */
    struct stage_item *items;
    size_t count, cap;
    size_t bytes; /* memory taken */
};

struct stage_pair {
    const uint8_t *key, *value;
    size_t key_len, value_len;
};

/** Forget everything, free the memory. A zeroed stage is empty. */
void stage_fini(struct stage *s);

/**
 * Add a change; `value` NULL deletes.
 *
 * @return 0 or ERR_NOMEM, then nothing was added.
 */
MUST_USE int stage_add(struct stage *s, uint64_t seed,
                       const struct store_key *k, const void *value,
                       size_t len);

/**
 * Sort by stored key and keep the last change of each.
 *
 * @return 0, or ERR_INTERNAL: two long keys share a digest.
 */
MUST_USE int stage_sort(struct stage *s);

/** The i-th pair as it goes into the file; borrowed. */
void stage_pair(const struct stage *s, size_t i, struct stage_pair *ret);

#endif
