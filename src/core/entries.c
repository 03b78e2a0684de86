#include "core/entries.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- lists ---- */

static void
list_add(struct entry_list *l, struct entry *en)
{
    if (l->hole != 0) {
        en->place = l->hole - 1;
        l->hole = (uint32_t)(l->items[en->place] >> 1);
    } else {
        assert(l->n < UINT32_MAX);
        if (l->n == l->cap)
            mem_grow(&l->items, &l->cap, l->n + 1, sizeof *l->items);
        en->place = (uint32_t)l->n++;
    }
    l->items[en->place] = (uintptr_t)en;
}

static void
list_take(struct entry_list *l, const struct entry *en)
{
    assert(en->place < l->n && l->items[en->place] == (uintptr_t)en);
    l->items[en->place] = (uintptr_t)l->hole << 1 | 1;
    l->hole = en->place + 1;
}

static void
list_fini(struct entry_list *l)
{
    free(l->items);
    memset(l, 0, sizeof *l);
}

/* ---- rounds ---- */

void
entry_rounds_init(struct rounds *r, rounds_save_f *save, void *arg)
{
    memset(r, 0, sizeof *r);
    r->save = save;
    r->arg = arg;
}

void
entry_rounds_fini(struct rounds *r)
{
    list_fini(&r->dirty);
    list_fini(&r->frozen);
    snapshot_free(&r->next);
}

void
rounds_track(struct rounds *r, uint32_t max_parallelism)
{
    assert(r->max_parallelism == 0 && max_parallelism != 0);
    r->max_parallelism = max_parallelism;
    r->dirty_bit = ENTRY_A;
    r->next = snapshot_new(0);
}

/* Save an entry if it is frozen. */
static void
thaw(struct rounds *r, struct entry *en)
{
    if (!rounds_is_frozen(r, en->flags))
        return;
    r->save(r->arg, en);
    list_take(&r->frozen, en);
}

void
rounds_touch_slow(struct rounds *r, struct entry *en)
{
    thaw(r, en);
    en->flags |= r->dirty_bit;
    list_add(&r->dirty, en);
}

void
rounds_leave(struct rounds *r, struct entry *en)
{
    thaw(r, en);
    if ((en->flags & r->dirty_bit) != 0)
        list_take(&r->dirty, en);
    en->flags &= (uint8_t)~ENTRY_CHANGED;
}

struct snapshot *
rounds_freeze(struct rounds *r, uint64_t round)
{
    struct snapshot *s = r->next;

    assert(r->max_parallelism != 0 && r->into == NULL && r->frozen.n == 0);
    s->round = round;
    r->into = s;
    r->next = snapshot_new(0);
    r->dirty_bit ^= ENTRY_CHANGED;
    r->frozen = r->dirty;
    memset(&r->dirty, 0, sizeof r->dirty);
    return s;
}

struct entry *
rounds_frozen(struct rounds *r)
{
    while (r->frozen.n > 0) {
        uintptr_t p = r->frozen.items[--r->frozen.n];

        if ((p & 1) == 0)
            return (struct entry *)p;
    }
    list_fini(&r->frozen);
    r->into = NULL;
    return NULL;
}

size_t
rounds_bytes(const struct rounds *r)
{
    return (r->dirty.cap + r->frozen.cap) * sizeof *r->dirty.items;
}
