#include "base/mem.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"

static void out_of_memory(void) __attribute__((noreturn));

static void
out_of_memory(void)
{
    static const char text[] = "error: out of memory\n";

    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(70);
}

void *
mem_alloc(size_t size)
{
    void *p = malloc(size != 0 ? size : 1);

    if (p == NULL || fault_hit("mem"))
        out_of_memory();
    return p;
}

void *
mem_zalloc(size_t size)
{
    void *p = calloc(1, size != 0 ? size : 1);

    if (p == NULL || fault_hit("mem"))
        out_of_memory();
    return p;
}

void *
mem_realloc(void *old, size_t size)
{
    void *p = realloc(old, size != 0 ? size : 1);

    if (p == NULL || fault_hit("mem"))
        out_of_memory();
    return p;
}

char *
mem_dup(const void *bytes, size_t len)
{
    char *p = mem_alloc(len + 1);

    if (len != 0)
        memcpy(p, bytes, len);
    p[len] = '\0';
    return p;
}

char *
mem_strdup(const char *s)
{
    return mem_dup(s, strlen(s));
}

void
mem_grow(void *items, size_t *cap, size_t need, size_t size)
{
    void *p;
    size_t n = *cap != 0 ? *cap : 8;

    if (need <= *cap)
        return;
    while (n < need) {
        if (n > SIZE_MAX / 2 / size)
            out_of_memory();
        n *= 2;
    }
    memcpy(&p, items, sizeof p);
    p = mem_realloc(p, n * size);
    memcpy(items, &p, sizeof p);
    *cap = n;
}

/* Of jemalloc, where it is linked: its header is not needed to build. */
extern int mallctl(const char *name, void *old, size_t *old_len, void *new,
                   size_t new_len) __attribute__((weak));

void
mem_apart(void)
{
    static unsigned arena;
    static bool made;
    size_t len = sizeof arena;

    if (mallctl == NULL)
        return;
    if (!made)
        made = mallctl("arenas.create", &arena, &len, NULL, 0) == 0;
    if (made)
        (void)mallctl("thread.arena", NULL, NULL, &arena, sizeof arena);
}

void
mem_give_back(void)
{
    unsigned arena;
    size_t len = sizeof arena;
    char name[64];

    if (mallctl == NULL) {
        (void)malloc_trim(0);
        return;
    }
    (void)mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    if (mallctl("thread.arena", &arena, &len, NULL, 0) != 0)
        return;
    (void)snprintf(name, sizeof name, "arena.%u.purge", arena);
    (void)mallctl(name, NULL, NULL, NULL, 0);
}
