/*
 * The log of a call. Undo walks it from the end, each record putting back what
 * it has; commit walks it from the begin, freeing what it has.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/kstate_impl.h"

enum { LOG_KEEP = 1024 };

/* ---- writing ---- */

struct kundo *
klog_add(struct kstate *k, enum kundo_what what, void *at)
{
    struct kundo *u;

    if (k->log_n == k->log_cap)
        mem_grow(&k->log, &k->log_cap, k->log_n + 1, sizeof *k->log);
    u = &k->log[k->log_n++];
    u->what = what;
    u->at = at;
    return u;
}

static bool
has_time(const struct kstate *k, uint32_t h, enum kundo_what what)
{
    enum kstate_kind kind = k->handles[h].pub.kind;

    if (!k->handles[h].ttl)
        return false;
    return what == UNDO_CELL || kind == KSTATE_AGG;
}

void
klog_cell(struct kstate *k, enum kundo_what what, uint32_t h, struct kcell *c)
{
    struct kundo *u = klog_add(k, what, c);

    u->h = h;
    u->old = *c;
    if (has_time(k, h, what))
        u->time = *ktime_of(c);
    c->len = CELL_EMPTY;
    c->flags &= (uint8_t)~CELL_LOST;
}

void
klog_time(struct kstate *k, uint32_t h, int64_t *time)
{
    struct kundo *u = klog_add(k, UNDO_TIME, time);

    u->time = *time;
    *time = know(k, &k->handles[h]);
    klog_settle(k);
}

/* ---- commit ---- */

static void
commit_one(struct kstate *k, struct kundo *u)
{
    switch (u->what) {
    case UNDO_CELL:
        kbytes_drop(k, &u->old);
        return;
    case UNDO_SWAP:
        if (kcache_is_on(k) && k->handles[u->h].pub.kind == KSTATE_LIST)
            klist_hold(k, u->h, u->at, &u->old);
        kcell_drop(k, u->h, &u->old);
        return;
    case UNDO_ITEM_GONE:
        kitem_drop(k, u->at);
        return;
    case UNDO_TIMER_GONE:
        ktimer_drop(k, u->at);
        return;
    case UNDO_BYTES:
        kfree(k, u->old.u.p, u->old.len);
        return;
    case UNDO_FREE:
        kfree(k, u->at, (size_t)u->time);
        return;
    case UNDO_TIME:
    case UNDO_ITEM_NEW:
    case UNDO_ADD:
    case UNDO_TIMER_NEW:
    case UNDO_REFUSED:
        return; /* it is as it should be */
    }
}

static void
log_clear(struct kstate *k)
{
    k->log_n = 0;
    if (k->log_cap <= LOG_KEEP)
        return;
    free(k->log);
    k->log = NULL;
    k->log_cap = 0;
}

void
klog_commit(struct kstate *k)
{
    size_t i;
    uint32_t h;

    for (i = 0; i < k->log_n; i++)
        commit_one(k, &k->log[i]);
    log_clear(k);
    for (h = 0; k->emptied && k->cur != NULL && h < k->count; h++)
        kclean_empty(k, k->cur, h);
    k->emptied = false;
}

/* ---- undo ---- */

/* What the log has becomes what the cell holds; its bits stay. */
static void
undo_cell(struct kstate *k, const struct kundo *u)
{
    struct kcell *c = u->at;
    bool was = u->old.len != CELL_EMPTY, is = c->len != CELL_EMPTY;

    if (u->what == UNDO_CELL)
        kbytes_drop(k, c);
    else
        kcell_drop(k, u->h, c);
    c->u = u->old.u;
    c->len = u->old.len;
    c->flags = (uint8_t)((c->flags & ~CELL_LOST) | (u->old.flags & CELL_LOST));
    if (has_time(k, u->h, u->what))
        *ktime_of(c) = u->time;
    if (u->what == UNDO_CELL && k->handles[u->h].pub.kind == KSTATE_MAP)
        return; /* an item's */
    k->cur->live += (uint32_t)was - (uint32_t)is;
}

static void
undo_bytes(struct kstate *k, const struct kundo *u)
{
    struct kchunk *c = u->at;

    kfree(k, c->data, c->cap);
    c->data = u->old.u.p;
    c->cap = u->old.len;
    c->len = (uint32_t)u->time;
}

static void
undo_one(struct kstate *k, const struct kundo *u)
{
    switch (u->what) {
    case UNDO_CELL:
    case UNDO_SWAP:
        undo_cell(k, u);
        return;
    case UNDO_TIME:
        *(int64_t *)u->at = u->time;
        return;
    case UNDO_ITEM_NEW:
        kmap_take(k, u->at);
        kitem_drop(k, u->at);
        return;
    case UNDO_ITEM_GONE:
        kmap_put_back(k, u->at);
        return;
    case UNDO_ADD:
        kchunk_cut(k, u->at, u->old.len);
        return;
    case UNDO_BYTES:
        undo_bytes(k, u);
        return;
    case UNDO_TIMER_NEW:
        ktimer_take(k, u->at);
        ktimer_drop(k, u->at);
        return;
    case UNDO_TIMER_GONE:
        ktimer_put(k, u->at);
        return;
    case UNDO_REFUSED:
        k->refused[u->h]--;
        return;
    case UNDO_FREE:
        kfree(k, u->at, (size_t)u->time);
        return;
    }
}

/* ---- calls ---- */

void
kstate_begin(struct kstate *k)
{
    assert(!k->in_call && k->log_n == 0);
    k->in_call = true;
    if (k->has_agg)
        memset(k->copied, 0, sizeof k->copied);
}

void
kstate_commit(struct kstate *k)
{
    assert(k->in_call);
    k->in_call = false;
    if (k->log_n != 0)
        klog_commit(k);
    if (k->cache.walks != NULL)
        kwalk_end(k);
}

void
kstate_undo(struct kstate *k)
{
    size_t i;

    assert(k->in_call);
    for (i = k->log_n; i > 0; i--)
        undo_one(k, &k->log[i - 1]);
    log_clear(k);
    kwalk_end(k);
    k->in_call = false;
    k->emptied = false;
}
