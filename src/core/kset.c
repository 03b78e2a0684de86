#include "core/kset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { SLOTS_FIRST = 8, PLACE_BITS = 40, LEB_MAX = 10 };

#define PLACE_MASK ((UINT64_C(1) << PLACE_BITS) - 1)

struct kset *
kset_new(void)
{
    struct kset *s = mem_zalloc(sizeof *s);

    s->slots = mem_zalloc(SLOTS_FIRST * sizeof *s->slots);
    s->mask = SLOTS_FIRST - 1;
    return s;
}

void
kset_free(struct kset **s)
{
    if (*s == NULL)
        return;
    free((*s)->slots);
    free((*s)->bytes);
    free(*s);
    *s = NULL;
}

struct kset *
kset_dup(const struct kset *s)
{
    struct kset *copy = mem_alloc(sizeof *copy);
    size_t slots = (s->mask + 1) * sizeof *s->slots;

    *copy = *s;
    copy->slots = mem_alloc(slots);
    memcpy(copy->slots, s->slots, slots);
    copy->bytes = s->len != 0 ? mem_dup(s->bytes, s->len) : NULL;
    copy->cap = s->len;
    return copy;
}

/* Read a string at `at`; @return where the next one begins. */
static size_t
read_at(const struct kset *s, size_t at, const char **bytes, size_t *len)
{
    unsigned shift = 0;
    unsigned char c;

    *len = 0;
    do {
        c = (unsigned char)s->bytes[at++];
        *len |= (size_t)(c & 0x7fu) << shift;
        shift += 7;
    } while ((c & 0x80u) != 0);
    *bytes = s->bytes + at;
    return at + *len;
}

static void
append(struct kset *s, const void *bytes, size_t len)
{
    size_t rest = len;

    mem_grow(&s->bytes, &s->cap, s->len + len + LEB_MAX, 1);
    do {
        unsigned char c = rest & 0x7fu;

        rest >>= 7;
        s->bytes[s->len++] = (char)(rest != 0 ? c | 0x80u : c);
    } while (rest != 0);
    if (len != 0)
        memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    assert(s->len < PLACE_MASK);
}

static uint64_t
slot_make(uint64_t hash, size_t place)
{
    return (hash & ~PLACE_MASK) | (place + 1);
}

static void
grow(struct kset *s)
{
    size_t slots = (s->mask + 1) * 2, at = 0, next, len;
    const char *bytes;

    free(s->slots);
    s->slots = mem_zalloc(slots * sizeof *s->slots);
    s->mask = slots - 1;
    for (; at < s->len; at = next) {
        uint64_t hash;
        size_t i;

        next = read_at(s, at, &bytes, &len);
        hash = hash_key(bytes, len);
        for (i = hash & s->mask; s->slots[i] != 0; i = (i + 1) & s->mask)
            ;
        s->slots[i] = slot_make(hash, at);
    }
}

bool
kset_add(struct kset *s, uint64_t hash, const void *bytes, size_t len)
{
    size_t i;

    for (i = hash & s->mask; s->slots[i] != 0; i = (i + 1) & s->mask) {
        const char *held;
        size_t held_len;

        if (((s->slots[i] ^ hash) & ~PLACE_MASK) != 0)
            continue;
        (void)read_at(s, (s->slots[i] & PLACE_MASK) - 1, &held, &held_len);
        if (held_len == len && (len == 0 || memcmp(held, bytes, len) == 0))
            return false;
    }
    s->slots[i] = slot_make(hash, s->len);
    append(s, bytes, len);
    s->count++;
    if (s->count * 4 > (s->mask + 1) * 3)
        grow(s);
    return true;
}

size_t
kset_heap(const struct kset *s)
{
    return sizeof *s + (s->mask + 1) * sizeof *s->slots + s->cap;
}

bool
kset_next(const struct kset *s, size_t *at, const char **bytes, size_t *len)
{
    if (*at >= s->len)
        return false;
    *at = read_at(s, *at, bytes, len);
    return true;
}
