/*
 * Entries in the order of their keys' bytes, sorted as far as they are asked
 * for: the first of n takes O(n), each further one O(log n) in the mean.
 *
 * Used by timers (those of one millisecond) and kstate (the entries of a map
 * in canonical order). Multikey quicksort over eight bytes at a time.
 * Owner: one subtask. Limits: 2^32 - 1 entries.
 * @source Bentley, Sedgewick: Fast Algorithms for Sorting and Searching
 * Strings, 1997.
 */
#ifndef CORE_ENTRIES_SORT_H
#define CORE_ENTRIES_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "core/entries.h"

/** The key of an entry (which is not NULL). */
typedef const char *sort_key_f(const void *arg, const struct entry *en,
                               uint32_t *ret_len);

struct sort_item {
    uint64_t word;    /* eight bytes of the key, at the depth of its range */
    struct entry *en; /* NULL: removed, as if its key were empty */
};

/* Entries [from, to) agree in the first `depth` bytes. */
struct sort_range {
    uint32_t from, to, depth;
    bool loaded; /* their words are those at `depth` */
};

struct entry_sort {
    struct sort_item *items; /* n of them; those before `sorted` in order */
    size_t n, cap;
    size_t sorted;
    struct sort_range *pending; /* the first range on top */
    size_t pending_n, pending_cap;
    sort_key_f *key;
    const void *arg;
};

/** No entries. @thread the owner. */
void sort_init(struct entry_sort *s, sort_key_f *key, const void *arg);
void sort_fini(struct entry_sort *s);
/** Forget the entries, keep memory if it is little. @thread the owner. */
void sort_clear(struct entry_sort *s);
/** Add an entry; before sort_begin(). @thread the owner. */
void sort_add(struct entry_sort *s, struct entry *en);
/** All are there. @thread the owner. */
void sort_begin(struct entry_sort *s);
/** Put the entry at place i < n there, and all before it. */
void sort_upto(struct entry_sort *s, size_t i);
/** Bytes of memory held. */
size_t sort_bytes(const struct entry_sort *s);

#endif
