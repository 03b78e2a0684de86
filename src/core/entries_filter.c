#include "core/entries_filter.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"

enum { KEYS_MIN = 64, KEY_BITS = 10, PROBES = 4 };

struct filter_part {
    struct filter_part *next;
    uint64_t count, keys; /* in it, at most */
    uint64_t mask;        /* bits - 1 */
    uint64_t words[];
};

void
filter_clear(struct entry_filter *f)
{
    while (f->parts != NULL) {
        struct filter_part *p = f->parts;

        f->parts = p->next;
        free(p);
    }
    f->bytes = 0;
}

static uint64_t
probe(uint64_t hash, int i)
{
    return hash + (uint64_t)i * (hash_splitmix(hash) | 1);
}

/* A part for `keys`, or more if there is one already. */
static struct filter_part *
push(struct entry_filter *f, uint64_t keys, size_t limit)
{
    uint64_t bits = 64;
    struct filter_part *p;
    size_t size;

    if (keys < KEYS_MIN)
        keys = KEYS_MIN;
    if (f->parts != NULL && keys < 2 * f->parts->keys)
        keys = 2 * f->parts->keys;
    while (bits < keys * KEY_BITS)
        bits *= 2;
    size = sizeof *p + (size_t)bits / 8;
    if (f->bytes + size > limit) {
        f->always = true;
        filter_clear(f);
        return NULL;
    }
    p = mem_zalloc(size);
    p->keys = bits / KEY_BITS;
    p->mask = bits - 1;
    p->next = f->parts;
    f->parts = p;
    f->bytes += size;
    return p;
}

void
filter_add(struct entry_filter *f, uint64_t hash, uint64_t expect, size_t limit)
{
    struct filter_part *p = f->parts;
    int i;

    if (f->always)
        return;
    if (p == NULL || p->count == p->keys)
        p = push(f, expect, limit);
    if (p == NULL)
        return;
    p->count++;
    for (i = 0; i < PROBES; i++) {
        uint64_t bit = probe(hash, i) & p->mask;

        p->words[bit / 64] |= UINT64_C(1) << bit % 64;
    }
}

bool
filter_has(const struct entry_filter *f, uint64_t hash)
{
    const struct filter_part *p;

    if (f->always)
        return true;
    for (p = f->parts; p != NULL; p = p->next) {
        int i = 0;

        while (i < PROBES) {
            uint64_t bit = probe(hash, i) & p->mask;

            if ((p->words[bit / 64] >> bit % 64 & 1) == 0)
                break;
            i++;
        }
        if (i == PROBES)
            return true;
    }
    return false;
}
