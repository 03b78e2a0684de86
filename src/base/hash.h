/*
 * Hashes: one stable 64-bit hash for keys (XXH3, seedless) and splitmix64.
 *
 * hash_key() decides key groups, so it is part of every checkpoint: its
 * version is HASH_VERSION and it never changes within one.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_VERSION = 1 };

/** XXH3-64 of `len` bytes. @thread any. @source xxhash.h, XXH3_64bits. */
uint64_t hash_key(const void *bytes, size_t len);

/** One step of splitmix64: add the golden gamma, then the finaliser. */
static inline uint64_t
hash_splitmix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

#endif
