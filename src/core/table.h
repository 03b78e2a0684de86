/*
 * Hot tables: bytes key -> fixed-size block, open addressing, made for
 * probing many records at once.
 *
 * Used by local aggregation (key = window prefix and record key) and by
 * window state (one table a slice). Entries never move, so pointers to them
 * stay valid until clear or free. The caller brings the hash and calls the
 * two prefetch functions for a group of records before the first upsert.
 * Owner: one subtask. Limits: 2^31 entries, keys up to KEY_SIZE_MAX + prefix.
 */
#ifndef CORE_TABLE_H
#define CORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TABLE_KEY_BITS = 20, TABLE_PAGES_MAX = 4096, TABLE_PAGE_BITS = 20 };

#define TABLE_FLAGS ((1u << (32 - TABLE_KEY_BITS)) - 1)

struct table_entry {
    uint64_t hash;
    uint32_t key_len : TABLE_KEY_BITS;
    uint32_t flags : 32 - TABLE_KEY_BITS; /* the owner's */
    uint32_t count;   /* the owner's: records in this entry */
    uint64_t block[]; /* block_size bytes, then the key */
};

struct table_page {
    char *mem;
    uint32_t used, units; /* in units of 8 bytes */
};

struct table {
    uint64_t *slots; /* high half: tag, low half: handle + 1; 0 = empty */
    uint32_t mask;   /* slot count - 1 */
    uint32_t count;  /* entries */
    uint32_t block_size;
    uint32_t page_count;
    size_t page_cap;
    struct table_page *pages; /* entries fill them one after the other */
    size_t bytes;             /* memory held */
};

/** Make an empty table of blocks of `block_size` bytes (multiple of 8). */
void table_init(struct table *t, uint32_t block_size);
/** Free everything (not what blocks own). @thread the owner. */
void table_fini(struct table *t);
/** Forget the entries, keep some memory. @thread the owner. */
void table_clear(struct table *t);

/** Ask the cache for the slot of `hash`. @thread the owner. */
void table_prefetch(const struct table *t, uint64_t hash);
/** Ask the cache for the entry the slot of `hash` points to. */
void table_prefetch_entry(const struct table *t, uint64_t hash);

/**
 * Find the entry of a key, or NULL.
 * @param key `len` bytes. @thread the owner.
 */
struct table_entry *table_find(const struct table *t, uint64_t hash,
                               const void *key, uint32_t len);
/**
 * Find or make the entry of a key.
 * @param ret_fresh true if it was made: count and flags are 0, the block
 *        undefined.
 */
struct table_entry *table_upsert(struct table *t, uint64_t hash,
                                 const void *key, uint32_t len,
                                 bool *ret_fresh);

static inline const char *
table_key(const struct table *t, const struct table_entry *e)
{
    return (const char *)e->block + t->block_size;
}

/* Walks all entries in order of insertion. */
struct table_iter {
    uint32_t page, unit;
};
/** Next entry, or NULL at the end; begin with a zeroed iterator. */
struct table_entry *table_next(const struct table *t, struct table_iter *i);

#endif
