#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BLOCK_FIRST = 4096, BLOCK_MAX = 1 << 20, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* usable bytes behind the header, without the pad */
    char pad[ALIGN - 2 * sizeof(void *) % ALIGN];
};

void
arena_init(struct arena *a)
{
    memset(a, 0, sizeof *a);
    a->block_size = BLOCK_FIRST;
}

void
arena_fini(struct arena *a)
{
    struct arena_block *b, *next;

    for (b = a->head; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    arena_init(a);
}

static char *
block_start(struct arena_block *b)
{
    return (char *)b + sizeof *b;
}

void
arena_reset(struct arena *a)
{
    struct arena_block *b, *next, *keep = NULL;

    for (b = a->head; b != NULL; b = next) {
        next = b->next;
        if (b->size > 4u * BLOCK_MAX ||
            (keep != NULL && keep->size >= b->size)) {
            a->total -= b->size;
            free(b);
            continue;
        }
        if (keep != NULL) {
            a->total -= keep->size;
            free(keep);
        }
        keep = b;
    }
    a->head = keep;
    a->pos = a->end = NULL;
    if (keep != NULL) {
        keep->next = NULL;
        a->pos = block_start(keep);
        a->end = a->pos + keep->size;
    }
}

static void *
alloc_block(struct arena *a, size_t size)
{
    size_t want = a->block_size;
    struct arena_block *b;

    if (want < size)
        want = size;
    b = mem_alloc(sizeof *b + want + ARENA_PAD);
    b->size = want;
    b->next = a->head;
    a->head = b;
    a->total += want;
    if (a->block_size < BLOCK_MAX)
        a->block_size *= 2;
    a->pos = block_start(b) + size;
    a->end = block_start(b) + want;
    /* The pad is read by vector code, never acted on. */
    memset(a->end, 0, ARENA_PAD);
    return block_start(b);
}

void *
arena_alloc(struct arena *a, size_t size)
{
    char *p;

    size = (size + (ALIGN - 1)) & ~(size_t)(ALIGN - 1);
    if (size > (size_t)(a->end - a->pos) || a->pos == NULL)
        return alloc_block(a, size);
    p = a->pos;
    a->pos += size;
    return p;
}

char *
arena_dup(struct arena *a, const void *bytes, size_t len)
{
    char *p = arena_alloc(a, len + 1);

    if (len != 0)
        memcpy(p, bytes, len);
    p[len] = '\0';
    return p;
}

char *
arena_strdup(struct arena *a, const char *s)
{
    return arena_dup(a, s, strlen(s));
}

size_t
arena_size(const struct arena *a)
{
    return a->total;
}
