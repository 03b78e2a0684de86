#include "core/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    SLOTS_FIRST = 16,
    PAGE_FIRST_UNITS = 128,
    UNIT = 8,
    PAGE_UNITS_MAX = 1 << TABLE_PAGE_BITS,
    CLEAR_SLOTS_MAX = 1 << 18,
    LINE = 64,     /* of the cache */
    KEY_AHEAD = 48 /* bytes of the key that are fetched ahead */
};

/* A slot's handle: page number above TABLE_PAGE_BITS, unit in page below. */

void
table_init(struct table *t, uint32_t block_size)
{
    memset(t, 0, sizeof *t);
    t->block_size = block_size;
}

static void
free_pages(struct table *t, uint32_t from)
{
    while (t->page_count > from) {
        struct table_page *p = &t->pages[--t->page_count];

        t->bytes -= (size_t)p->units * UNIT;
        free(p->mem);
    }
}

void
table_fini(struct table *t)
{
    free_pages(t, 0);
    free(t->pages);
    free(t->slots);
    table_init(t, t->block_size);
}

void
table_clear(struct table *t)
{
    struct table_page last;

    if (t->count == 0)
        return;
    if (t->mask >= CLEAR_SLOTS_MAX) {
        table_fini(t);
        return;
    }
    /* Keep the slots and the newest page, which is the largest. */
    last = t->pages[t->page_count - 1];
    t->pages[t->page_count - 1] = t->pages[0];
    t->pages[0] = last;
    free_pages(t, 1);
    t->pages[0].used = 0;
    memset(t->slots, 0, ((size_t)t->mask + 1) * sizeof *t->slots);
    t->count = 0;
}

static struct table_entry *
entry_at(const struct table *t, uint64_t slot)
{
    uint32_t handle = (uint32_t)slot - 1;
    char *page = t->pages[handle >> TABLE_PAGE_BITS].mem;

    return (
        struct table_entry *)(void *)(page +
                                      (size_t)(handle & (PAGE_UNITS_MAX - 1)) *
                                          UNIT);
}

/* Not the lowest bits: the keys of one subtask have few remainders modulo max
 * parallelism (up to 2^15), and would crowd in few slots. */
static inline uint32_t
first_slot(uint64_t hash, uint32_t mask)
{
    return (uint32_t)(hash >> 16) & mask;
}

void
table_prefetch(const struct table *t, uint64_t hash)
{
    if (t->slots != NULL)
        __builtin_prefetch(&t->slots[first_slot(hash, t->mask)], 0, 3);
}

void
table_prefetch_entry(const struct table *t, uint64_t hash)
{
    uint64_t slot;
    const char *e;
    size_t i;

    if (t->slots == NULL)
        return;
    slot = t->slots[first_slot(hash, t->mask)];
    if (slot == 0)
        return;
    e = (const char *)entry_at(t, slot);
    for (i = 0; i < sizeof(struct table_entry) + t->block_size + KEY_AHEAD;
         i += LINE)
        __builtin_prefetch(e + i, 1, 3);
}

/* Keys are short: compared by words, without a call. */
static inline bool
same_bytes(const char *a, const char *b, uint32_t len)
{
    uint64_t x, y;

    if (len < sizeof x) /* none: the key of key_by {} may be NULL */
        return len == 0 || memcmp(a, b, len) == 0;
    for (; len > sizeof x; len -= 8, a += 8, b += 8) {
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        if (x != y)
            return false;
    }
    a -= sizeof x - len; /* the last word overlaps the one before */
    b -= sizeof x - len;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x == y;
}

static inline bool
same_key(const struct table *t, const struct table_entry *e, const void *key,
         uint32_t len)
{
    return e->key_len == len && same_bytes(table_key(t, e), key, len);
}

struct table_entry *
table_find(const struct table *t, uint64_t hash, const void *key, uint32_t len)
{
    uint32_t i, tag = (uint32_t)(hash >> 32);

    if (t->slots == NULL)
        return NULL;
    for (i = first_slot(hash, t->mask); t->slots[i] != 0;
         i = (i + 1) & t->mask) {
        struct table_entry *e;

        if ((uint32_t)(t->slots[i] >> 32) != tag)
            continue;
        e = entry_at(t, t->slots[i]);
        if (e->hash == hash && same_key(t, e, key, len))
            return e;
    }
    return NULL;
}

static void
put_slot(uint64_t *slots, uint32_t mask, uint64_t hash, uint64_t slot)
{
    uint32_t i = first_slot(hash, mask);

    while (slots[i] != 0)
        i = (i + 1) & mask;
    slots[i] = slot;
}

static uint32_t
entry_units(const struct table *t, uint32_t key_len)
{
    size_t bytes = sizeof(struct table_entry) + t->block_size + key_len;

    return (uint32_t)((bytes + UNIT - 1) / UNIT);
}

static void
grow_slots(struct table *t)
{
    uint32_t count = t->slots == NULL ? SLOTS_FIRST : (t->mask + 1) * 2;
    uint64_t *slots = mem_zalloc((size_t)count * sizeof *slots);
    uint32_t i;

    for (i = 0; t->slots != NULL && i <= t->mask; i++)
        if (t->slots[i] != 0)
            put_slot(slots, count - 1, entry_at(t, t->slots[i])->hash,
                     t->slots[i]);
    t->bytes += (size_t)count * sizeof *slots;
    if (t->slots != NULL)
        t->bytes -= ((size_t)t->mask + 1) * sizeof *slots;
    free(t->slots);
    t->slots = slots;
    t->mask = count - 1;
}

static struct table_page *
grow_pages(struct table *t, uint32_t need)
{
    uint32_t units = PAGE_FIRST_UNITS;
    struct table_page *p;

    if (t->page_count != 0)
        units = t->pages[t->page_count - 1].units * 2;
    if (units > PAGE_UNITS_MAX)
        units = PAGE_UNITS_MAX;
    while (units < need)
        units *= 2;
    assert(t->page_count < TABLE_PAGES_MAX && units <= PAGE_UNITS_MAX);
    mem_grow(&t->pages, &t->page_cap, t->page_count + 1u, sizeof *t->pages);
    p = &t->pages[t->page_count++];
    p->mem = mem_alloc((size_t)units * UNIT);
    p->units = units;
    p->used = 0;
    t->bytes += (size_t)units * UNIT;
    return p;
}

static struct table_entry *
new_entry(struct table *t, uint64_t hash, const void *key, uint32_t len)
{
    uint32_t units = entry_units(t, len), handle;
    struct table_page *p = NULL;
    struct table_entry *e;

    if (t->page_count != 0)
        p = &t->pages[t->page_count - 1];
    if (p == NULL || p->units - p->used < units)
        p = grow_pages(t, units);
    handle = (t->page_count - 1) << TABLE_PAGE_BITS | p->used;
    e = (struct table_entry *)(void *)(p->mem + (size_t)p->used * UNIT);
    p->used += units;
    e->hash = hash;
    assert(len < 1u << TABLE_KEY_BITS);
    e->key_len = len & ((1u << TABLE_KEY_BITS) - 1);
    e->flags = 0;
    e->count = 0;
    if (len != 0) /* the key of key_by {} may be NULL */
        memcpy((char *)e->block + t->block_size, key, len);
    put_slot(t->slots, t->mask, hash,
             (hash >> 32) << 32 | ((uint64_t)handle + 1));
    t->count++;
    return e;
}

struct table_entry *
table_upsert(struct table *t, uint64_t hash, const void *key, uint32_t len,
             bool *ret_fresh)
{
    struct table_entry *e = table_find(t, hash, key, len);

    *ret_fresh = e == NULL;
    if (e != NULL)
        return e;
    if (t->slots == NULL || t->count >= (t->mask + 1) / 8 * 5)
        grow_slots(t);
    return new_entry(t, hash, key, len);
}

struct table_entry *
table_next(const struct table *t, struct table_iter *i)
{
    struct table_entry *e;

    while (i->page < t->page_count && i->unit >= t->pages[i->page].used) {
        i->page++;
        i->unit = 0;
    }
    if (i->page >= t->page_count)
        return NULL;
    e = (struct table_entry *)(void *)(t->pages[i->page].mem +
                                       (size_t)i->unit * UNIT);
    i->unit += entry_units(t, e->key_len);
    return e;
}
