#include "core/entries.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- lists ---- */

static uintptr_t *
list_at(const struct entry_list *l, size_t i)
{
    return &l->pieces[i >> LIST_PIECE_BITS][i & (LIST_PIECE - 1)];
}

static void
list_add(struct entry_list *l, struct entry *en)
{
    if (l->hole != 0) {
        en->place = l->hole - 1;
        l->hole = (uint32_t)(*list_at(l, en->place) >> 1);
        l->holes--;
    } else {
        assert(l->n < UINT32_MAX);
        if (l->n == l->piece_n * LIST_PIECE) {
            mem_grow(&l->pieces, &l->piece_cap, l->piece_n + 1,
                     sizeof *l->pieces);
            l->pieces[l->piece_n++] =
                mem_alloc(LIST_PIECE * sizeof **l->pieces);
        }
        en->place = (uint32_t)l->n++;
    }
    *list_at(l, en->place) = (uintptr_t)en;
}

static void
list_take(struct entry_list *l, const struct entry *en)
{
    assert(en->place < l->n && *list_at(l, en->place) == (uintptr_t)en);
    *list_at(l, en->place) = (uintptr_t)l->hole << 1 | 1;
    l->hole = en->place + 1;
    if (++l->holes < l->n)
        return;
    while (l->piece_n > 1) /* all have left */
        free(l->pieces[--l->piece_n]);
    l->n = l->holes = l->hole = 0;
}

/* Take the last one off. @return NULL if it is a hole. */
static struct entry *
list_pop(struct entry_list *l)
{
    uintptr_t p = *list_at(l, --l->n);
    bool hole = (p & 1) != 0;

    l->holes -= hole;
    if (l->n % LIST_PIECE == 0)
        free(l->pieces[--l->piece_n]);
    return hole ? NULL : (struct entry *)p;
}

static void
list_fini(struct entry_list *l)
{
    while (l->piece_n > 0)
        free(l->pieces[--l->piece_n]);
    free(l->pieces);
    memset(l, 0, sizeof *l);
}

/* ---- rounds ---- */

void
entry_rounds_init(struct entry_rounds *r, entry_rounds_save_f *save, void *arg)
{
    memset(r, 0, sizeof *r);
    r->save = save;
    r->arg = arg;
}

void
entry_rounds_fini(struct entry_rounds *r)
{
    list_fini(&r->dirty);
    list_fini(&r->frozen);
    snapshot_free(&r->next);
}

void
entry_rounds_track(struct entry_rounds *r, uint32_t max_parallelism)
{
    assert(r->max_parallelism == 0 && max_parallelism != 0);
    r->max_parallelism = max_parallelism;
    r->dirty_bit = ENTRY_A;
    r->next = snapshot_new(0);
}

/* Save an entry if it is frozen. */
static void
thaw(struct entry_rounds *r, struct entry *en)
{
    if (!entry_rounds_is_frozen(r, en->flags))
        return;
    r->save(r->arg, en);
    list_take(&r->frozen, en);
    en->place = r->generation;
}

void
entry_rounds_touch_slow(struct entry_rounds *r, struct entry *en)
{
    thaw(r, en);
    en->flags |= r->dirty_bit;
    list_add(&r->dirty, en);
}

void
entry_rounds_leave(struct entry_rounds *r, struct entry *en)
{
    thaw(r, en);
    if ((en->flags & r->dirty_bit) != 0) {
        list_take(&r->dirty, en);
        en->place = r->generation;
    }
    en->flags &= (uint8_t)~ENTRY_CHANGED;
}

struct snapshot *
entry_rounds_freeze(struct entry_rounds *r, uint64_t round)
{
    struct snapshot *s = r->next;

    assert(r->max_parallelism != 0 && r->into == NULL && r->frozen.n == 0);
    s->round = round;
    r->generation++;
    r->into = s;
    r->next = snapshot_new(0);
    r->dirty_bit ^= ENTRY_CHANGED;
    r->frozen = r->dirty;
    memset(&r->dirty, 0, sizeof r->dirty);
    return s;
}

struct entry *
entry_rounds_frozen(struct entry_rounds *r)
{
    while (r->frozen.n > 0) {
        struct entry *en = list_pop(&r->frozen);

        if (en == NULL)
            continue;
        en->place = r->generation;
        return en;
    }
    list_fini(&r->frozen);
    r->into = NULL;
    return NULL;
}

size_t
entry_rounds_bytes(const struct entry_rounds *r)
{
    return (r->dirty.piece_n + r->frozen.piece_n) * LIST_PIECE *
           sizeof **r->dirty.pieces;
}
