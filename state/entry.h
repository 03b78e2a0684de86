/*
 * How keys and values lie in the file. Used inside state only; any thread.
 *
 * Stored key: operator u32, key group u16 (both big endian), length of the
 * namespace u8, namespace, key. It has at most ENTRY_KEY_SHORT bytes. What
 * would be longer keeps as much of the key as fits, then 16 bytes of digest
 * (XXH3-128 seeded by the store, so that nobody can prepare a collision),
 * and has exactly ENTRY_KEY_LONG bytes: the two forms cannot be confused.
 *
 * Stored value: checksum u64 (XXH3 over everything else, key included),
 * length and flags u32, then, for long keys, their length u32 and the whole
 * key, then the value. Little endian. The same bytes lie in segments and in
 * the base, so merging moves them as they are.
 */
#ifndef STATE_ENTRY_H
#define STATE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/store.h"

enum {
    ENTRY_KEY_LONG = 511, /* LMDB's limit */
    ENTRY_KEY_SHORT = ENTRY_KEY_LONG - 1,
    ENTRY_KEY_HEAD = 7, /* before the namespace */
    ENTRY_DIGEST_SIZE = 16,
    ENTRY_VALUE_HEAD = 12 /* before the long key or the value */
};

struct entry_key {
    uint8_t bytes[ENTRY_KEY_LONG];
    uint16_t len;
};

/* A stored pair taken apart; borrows its bytes. */
struct entry {
    uint64_t sum; /* its checksum */
    struct store_key key;
    const void *value;
    size_t value_len;
    bool deleted; /* a segment's word that the key is gone */
};

/** Whether `k` keeps the limits. @thread any. */
bool entry_key_fits(const struct store_key *k);

/** Encode a key that fits. @thread any. */
void entry_key_encode(uint64_t seed, const struct store_key *k,
                      struct entry_key *ret);

/**
 * Take a stored key apart; of a long one, `key` is its start and digest.
 *
 * @return false if it cannot be one. @thread any.
 */
bool entry_key_decode(const void *bytes, size_t len, struct store_key *ret);

/** Bytes entry_value_encode() writes for `value_len` bytes. */
size_t entry_value_size(const struct entry_key *stored,
                        const struct store_key *k, size_t value_len);

/**
 * Write the stored value to `out`.
 *
 * @param value NULL for a deletion. @thread any.
 */
void entry_value_encode(uint8_t *out, const struct entry_key *stored,
                        const struct store_key *k, const void *value,
                        size_t value_len);

/**
 * Take a stored pair apart, checking everything.
 *
 * @return false if it is damaged. @thread any.
 */
bool entry_decode(const void *key, size_t key_len, const void *value,
                  size_t value_len, struct entry *ret);

/** The checksum a stored value of at least 8 bytes carries. */
uint64_t entry_sum(const void *value);

/** Wrap bytes of the ledger: the same head; `out` has len + 12 bytes. */
void entry_wrap(uint8_t *out, const char *key, size_t key_len,
                const void *bytes, size_t len);
/** Undo it. @return false if damaged. @thread any. */
bool entry_unwrap(const void *key, size_t key_len, const void *value,
                  size_t value_len, const void **ret, size_t *ret_len);

/** Order of stored keys, as LMDB has it. @thread any. */
int entry_key_cmp(const void *a, size_t a_len, const void *b, size_t b_len);

#endif
