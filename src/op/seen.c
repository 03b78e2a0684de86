#include "op/seen.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"

enum { GENERATION = 1 << 19, SLOTS_MIN = 1024 };

struct ids { /* open addressing, 0 = free */
    uint64_t *slots;
    size_t cap, n;
};

struct op_seen {
    pthread_mutex_t lock;
    struct ids now, before; /* the older half is forgotten at once */
};

struct op_seen *
op_seen_new(void)
{
    struct op_seen *s = mem_zalloc(sizeof *s);

    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

void
op_seen_free(struct op_seen **sp)
{
    struct op_seen *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    free(s->now.slots);
    free(s->before.slots);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The slot of `id`, or the free one where it belongs. */
static uint64_t *
ids_slot(const struct ids *t, uint64_t id)
{
    size_t i = id & (t->cap - 1);

    while (t->slots[i] != 0 && t->slots[i] != id)
        i = (i + 1) & (t->cap - 1);
    return &t->slots[i];
}

static bool
ids_have(const struct ids *t, uint64_t id)
{
    return t->cap != 0 && *ids_slot(t, id) != 0;
}

static void
ids_grow(struct ids *t)
{
    struct ids bigger = {.cap = t->cap == 0 ? SLOTS_MIN : 2 * t->cap};
    size_t i;

    bigger.n = t->n;
    bigger.slots = mem_zalloc(bigger.cap * sizeof *bigger.slots);
    for (i = 0; i < t->cap; i++)
        if (t->slots[i] != 0)
            *ids_slot(&bigger, t->slots[i]) = t->slots[i];
    free(t->slots);
    *t = bigger;
}

static void
ids_add(struct ids *t, uint64_t id)
{
    if (2 * (t->n + 1) > t->cap)
        ids_grow(t);
    *ids_slot(t, id) = id;
    t->n++;
}

bool
op_seen_before(struct op_seen *s, const struct rec *r)
{
    uint64_t id[4] = {r->topic, (uint64_t)(uint32_t)r->partition,
                      (uint64_t)r->offset, r->src};
    uint64_t h = hash_key(id, sizeof id) | 1;
    bool found;

    (void)pthread_mutex_lock(&s->lock);
    found = ids_have(&s->now, h) || ids_have(&s->before, h);
    if (!found) {
        if (s->now.n == GENERATION) {
            free(s->before.slots);
            s->before = s->now;
            s->now = (struct ids){0};
        }
        ids_add(&s->now, h);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return found;
}
