/*
 * Arenas: memory that is given out piecewise and taken back at once.
 *
 * Used for everything that lives as long as one batch or one load: bytes of
 * records, decoded strings, keys. Owner: one thread, usually with the batch
 * it belongs to. Every piece is 16-byte aligned and followed by at least
 * ARENA_PAD readable bytes, so that vector code may read behind a value.
 * Memory comes from malloc (jemalloc in a release build); arena_reset()
 * keeps the largest block for the next round.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

enum { ARENA_PAD = 64 };

struct arena_block;

struct arena {
    struct arena_block *head; /* block in use, newest first */
    size_t block_size;        /* size of the next plain block, bytes */
    size_t total;             /* bytes taken from malloc */
    char *pos, *end;          /* free part of head */
};

/** Make `a` an empty arena; takes no memory yet. @thread the owner. */
void arena_init(struct arena *a);

/** Give all memory back; `a` is empty and usable again. @thread the owner. */
void arena_fini(struct arena *a);

/** Forget all pieces but keep one block for reuse. @thread the owner. */
void arena_reset(struct arena *a);

/**
 * Give out `size` bytes, uninitialised, 16-byte aligned.
 *
 * Memory exhaustion ends the process: it is bounded by the callers' own
 * limits (batch sizes, record size), see DESIGN section 7.
 *
 * @param size bytes, 0 allowed. @return never NULL; valid until reset/fini.
 * @thread the owner.
 */
void *arena_alloc(struct arena *a, size_t size);

/** Copy `len` bytes into the arena, NUL-terminated. @thread the owner. */
char *arena_dup(struct arena *a, const void *bytes, size_t len);

/** Copy a NUL-terminated string into the arena. @thread the owner. */
char *arena_strdup(struct arena *a, const char *s);

/** Bytes the arena holds from malloc. @thread the owner. */
size_t arena_size(const struct arena *a);

#endif
