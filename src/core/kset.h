/*
 * Sets of byte strings: canonical encodings of the values of a distinct.
 *
 * Used by distinct and count_distinct. Open addressing; the strings lie one
 * behind the other in one piece, each slot holds 24 bits of the hash and the
 * place. Owner: one accumulator. Limits: 2^40 bytes of strings.
 */
#ifndef CORE_KSET_H
#define CORE_KSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kset {
    uint64_t *slots; /* hash bits, then place + 1; 0 = empty */
    char *bytes;     /* length (LEB128) and bytes of each string */
    size_t len, cap; /* of bytes */
    size_t mask;     /* slots - 1 */
    size_t count;
};

/** Make an empty set. @thread the owner. */
struct kset *kset_new(void);
/** Free a set; accepts NULL. @thread the owner. */
void kset_free(struct kset **s);
/** Deep copy. @thread the owner. */
struct kset *kset_dup(const struct kset *s);
/**
 * Put a string into the set.
 * @param hash hash_key() of it. @return true if it was not there before.
 */
bool kset_add(struct kset *s, uint64_t hash, const void *bytes, size_t len);
/** Heap bytes, the set itself included. @thread the owner. */
size_t kset_heap(const struct kset *s);
/**
 * Next string, in order of insertion.
 * @param at place, begins with 0. @return false at the end.
 */
bool kset_next(const struct kset *s, size_t *at, const char **bytes,
               size_t *len);

#endif
