/*
 * Memory: allocation that does not return NULL, and the out-of-memory end.
 *
 * Sizes are bounded by the callers (batch, table and record limits), so a
 * failing malloc means that the machine is at its end: the process says so
 * and stops with exit code 70. Tests make the n-th allocation fail through
 * the fault point "mem".
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/** malloc that ends the process instead of failing. @thread any. */
void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));

/** calloc that ends the process instead of failing. @thread any. */
void *mem_zalloc(size_t size) __attribute__((malloc, returns_nonnull));

/** realloc that ends the process instead of failing. @thread any. */
void *mem_realloc(void *p, size_t size) __attribute__((returns_nonnull));

/** strdup that ends the process instead of failing. @thread any. */
char *mem_strdup(const char *s) __attribute__((returns_nonnull));

/** Copy of `len` bytes with a NUL behind them. @thread any. */
char *mem_dup(const void *bytes, size_t len) __attribute__((returns_nonnull));

/**
 * Grow `*items` (count `*cap`, element size `size`) to hold `need` elements.
 *
 * Doubles, so that appending is constant amortised. @thread owner of items.
 */
void mem_grow(void *items, size_t *cap, size_t need, size_t size);

/**
 * The calling thread allocates apart from others, in one place for all that
 * call this: for threads that take much for a while and end.
 * @thread any, one at a time.
 */
void mem_apart(void);

/**
 * Give what the calling thread has freed back to the machine at once. The
 * allocator keeps it else for what is allocated next, which for a thread that
 * ends is nothing. @thread any; takes milliseconds.
 */
void mem_give_back(void);

#endif
