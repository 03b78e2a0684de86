#include "core/partial.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { LOOK = 16 };

struct partials *
partials_new(void)
{
    struct partials *p = mem_zalloc(sizeof *p);

    arena_init(&p->arena);
    return p;
}

void
partials_free(struct partials **pp, const struct aggset *set)
{
    struct partials *p = *pp;
    uint32_t i;

    *pp = NULL;
    if (p == NULL)
        return;
    for (i = 0; i < p->n; i++)
        if (p->items[i].block != NULL)
            aggset_fini(set, p->items[i].block);
    free(p->items);
    arena_fini(&p->arena);
    free(p);
}

static int
encode_block(struct partials *p, const struct aggset *set, struct partial *item,
             void *block, struct err *e)
{
    struct buf b;
    int r;

    buf_init(&b);
    r = aggset_encode(set, block, &b, e);
    aggset_fini(set, block);
    if (r == 0) {
        item->bytes = arena_dup(&p->arena, b.data, b.len);
        item->bytes_len = (uint32_t)b.len;
    }
    buf_fini(&b);
    return r;
}

int
partials_add(struct partials *p, const struct aggset *set,
             const struct partial *head, void *block, struct err *e)
{
    struct partial *item;
    int r;

    mem_grow(&p->items, &p->cap, p->n + 1u, sizeof *p->items);
    item = &p->items[p->n];
    if (p->n % LOOK == 0) /* it stands for those that follow */
        p->look = set->size + aggset_heap(set, block);
    p->bytes += p->look;
    *item = *head;
    item->block = NULL;
    item->bytes = NULL;
    item->bytes_len = 0;
    item->key = arena_dup(&p->arena, head->key, head->key_len);
    if (!set->movable) {
        r = encode_block(p, set, item, block, e);
        if (r != 0)
            return r;
    } else {
        item->block = arena_alloc(&p->arena, set->size);
        memcpy(item->block, block, set->size);
    }
    p->n++;
    return 0;
}

int
partials_decode(struct partials *p, const struct aggset *set,
                struct partial *item, struct err *e)
{
    void *block;
    int r;

    if (item->block != NULL)
        return 0;
    block = arena_alloc(&p->arena, set->size);
    aggset_init(set, block);
    r = aggset_decode(set, block, item->bytes, item->bytes_len, e);
    if (r != 0) {
        aggset_fini(set, block);
        return r;
    }
    item->block = block;
    return 0;
}
