#include <assert.h>
#include <stdlib.h>

#include "core/kstate_impl.h"

/* Why accumulators are lost: what the encoder said last. */
static struct err *
why(struct kstate *k)
{
    if (k->unsaved_why == NULL) {
        k->unsaved_why = mem_zalloc(sizeof *k->unsaved_why);
        (void)err_record(k->unsaved_why, CAUSE_USER_ERROR,
                         "the accumulator could not be saved in a checkpoint");
    }
    return k->unsaved_why;
}

const struct err *
kagg_why(struct kstate *k)
{
    return why(k);
}

/* Behind a block: the heap bytes of its accumulators that are counted. */
static size_t *
counted(const struct aggset *set, void *block)
{
    return (size_t *)(void *)((char *)block + set->size);
}

void *
kagg_alloc(struct kstate *k, uint32_t h)
{
    const struct aggset *set = k->handles[h].pub.set;
    void *block = kalloc(k, set->size + sizeof(size_t));

    *counted(set, block) = 0;
    return block;
}

void
kagg_count(struct kstate *k, uint32_t h, void *block)
{
    const struct aggset *set = k->handles[h].pub.set;
    size_t *was = counted(set, block), is = aggset_heap(set, block);

    k->bytes += is - *was;
    *was = is;
}

void
kagg_free(struct kstate *k, uint32_t h, void *block)
{
    const struct aggset *set = k->handles[h].pub.set;

    k->bytes -= *counted(set, block);
    kfree(k, block, set->size + sizeof(size_t));
}

void
kagg_drop(struct kstate *k, uint32_t h, void *block)
{
    aggset_fini(k->handles[h].pub.set, block);
    kagg_free(k, h, block);
}

void
kagg_encode(struct kstate *k, uint32_t h, struct kcell *c, struct buf *out)
{
    const struct aggset *set = k->handles[h].pub.set;
    size_t at = out->len;

    if ((c->flags & CELL_LOST) != 0)
        return;
    if (aggset_encode(set, c->u.p, out, set->customs != 0 ? why(k) : NULL) == 0)
        return;
    c->flags |= CELL_LOST;
    out->len = at;
}

/* ---- adding ---- */

static int
lost(struct kstate *k, uint32_t h, struct err *e)
{
    const struct err *w = why(k);

    if (e != NULL)
        *e = *w;
    (void)err_context(e, "state '%s' is lost until clear() is called",
                      k->handles[h].pub.name);
    return ERR_RECORD;
}

/* The first change in a call: the log gets a copy. */
static int
copy(struct kstate *k, uint32_t h, struct kcell *c, struct err *e)
{
    const struct aggset *set = k->handles[h].pub.set;
    struct kundo *u;
    void *block;
    int r;

    if (!k->in_call || (k->copied[h / 64] >> h % 64 & 1) != 0)
        return 0;
    block = kagg_alloc(k, h);
    r = aggset_dup(set, c->u.p, block, e);
    if (r != 0) {
        kagg_free(k, h, block);
        return r;
    }
    kagg_count(k, h, block);
    u = klog_add(k, UNDO_SWAP, c);
    u->h = h;
    u->old = *c;
    u->old.u.p = block;
    if (k->handles[h].ttl)
        u->time = *ktime_of(c);
    k->copied[h / 64] |= UINT64_C(1) << h % 64;
    return 0;
}

/* Nothing becomes an empty accumulator. */
static void
make(struct kstate *k, uint32_t h, struct kcell *c)
{
    const struct aggset *set = k->handles[h].pub.set;

    klog_cell(k, UNDO_SWAP, h, c);
    c->u.p = kagg_alloc(k, h);
    c->len = 0;
    aggset_init(set, c->u.p);
    k->cur->live++;
    k->copied[h / 64] |= UINT64_C(1) << h % 64;
}

int
kstate_agg_add(struct kstate *k, uint32_t h, const struct val *args,
               const struct rec *r, struct err *e)
{
    struct khandle *hd = &k->handles[h];
    struct kcell *c;
    bool fresh, touch;
    int ret;

    assert(h < k->count && hd->pub.kind == KSTATE_AGG);
    c = kcell_of(k, kkey_current(k), h);
    kcache_need(k, k->cur, h, c);
    if (c->len != CELL_EMPTY && hd->ttl && !kfresh(k, hd, ktime_of(c), &touch))
        kstate_clear(k, h);
    if ((c->flags & CELL_LOST) != 0)
        return lost(k, h, e);
    kcell_touch(k, k->cur, c);
    if ((c->flags & CELL_LOST) != 0) /* it was frozen, and is lost now */
        return lost(k, h, e);
    fresh = c->len == CELL_EMPTY;
    if (fresh)
        make(k, h, c);
    else if ((ret = copy(k, h, c, e)) != 0)
        return ret;
    ret = aggset_add(hd->pub.set, c->u.p, args, r, e);
    kagg_count(k, h, c->u.p);
    if (ret == 0 && hd->ttl)
        *ktime_of(c) = know(k, hd);
    if (ret != 0 && fresh) {
        kcell_drop(k, h, c);
        k->cur->live--;
    }
    klog_settle(k);
    return ret;
}

int
kstate_agg_get(struct kstate *k, uint32_t h, const void **ret, struct err *e)
{
    struct khandle *hd = &k->handles[h];
    struct kcell *c;
    bool touch;

    assert(h < k->count && hd->pub.kind == KSTATE_AGG);
    *ret = NULL;
    if (k->cur == NULL)
        return 0;
    c = kcell_of(k, k->cur, h);
    kcache_need(k, k->cur, h, c);
    if (c->len == CELL_EMPTY)
        return 0;
    if (hd->ttl && !kfresh(k, hd, ktime_of(c), &touch))
        return 0;
    if ((c->flags & CELL_LOST) != 0)
        return lost(k, h, e);
    if (hd->ttl && touch) {
        kcell_touch(k, k->cur, c);
        klog_time(k, h, ktime_of(c));
        if ((c->flags & CELL_LOST) != 0)
            return lost(k, h, e);
    }
    *ret = c->u.p;
    return 0;
}
