#include <assert.h>
#include <stdlib.h>

#include "core/kstate_impl.h"

enum { DATA_FIRST = 64, LIST_FEW = 64 << 10, LEN_SIZE = 4, TIME_SIZE = 8 };

/* ---- elements ---- */

static uint32_t
head_size(const struct kstate *k, const struct klist *l)
{
    return k->handles[l->h].ttl ? LEN_SIZE + TIME_SIZE : LEN_SIZE;
}

bool
kchunk_next(const struct kstate *k, const struct kchunk *c, size_t *at,
            int64_t *ret_time, struct kstate_bytes *ret)
{
    const char *p = c->data + *at;
    uint32_t head = head_size(k, c->list);

    if (*at >= c->len)
        return false;
    memcpy(&ret->len, p, LEN_SIZE);
    *ret_time = KSTATE_NO_TIME;
    if (head > LEN_SIZE)
        memcpy(ret_time, p + LEN_SIZE, TIME_SIZE);
    ret->p = p + head;
    *at += head + ret->len;
    return true;
}

/* The time of the element at `at`. */
static void
set_time(struct kchunk *c, size_t at, int64_t time)
{
    memcpy(c->data + at + LEN_SIZE, &time, TIME_SIZE);
}

void
kchunk_append(struct kstate *k, struct kchunk *c, int64_t time,
              const void *bytes, uint32_t len)
{
    uint32_t head = head_size(k, c->list), at = c->len;
    uint32_t cap = c->cap == 0 ? DATA_FIRST : c->cap;
    char *data = c->data;

    while (cap - c->len < head + len)
        cap *= 2;
    if (cap != c->cap) {
        data = kalloc(k, cap);
        if (at != 0)
            memcpy(data, c->data, at);
    }
    memcpy(data + at, &len, LEN_SIZE);
    if (head > LEN_SIZE)
        memcpy(data + at + LEN_SIZE, &time, TIME_SIZE);
    if (len != 0)
        memcpy(data + at + head, bytes, len); /* may lie in the old data */
    if (data != c->data)
        kfree(k, c->data, c->cap);
    c->list->bytes += cap - c->cap;
    c->data = data;
    c->cap = cap;
    c->len += head + len;
    c->count++;
    c->list->count++;
}

/* ---- chunks ---- */

/* The place of the first chunk whose number is not below. */
static uint32_t
place_of(const struct klist *l, uint32_t number)
{
    uint32_t lo = 0, hi = l->n;

    if (l->n != 0 && l->chunks[l->n - 1]->e.extra < number)
        return l->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (l->chunks[mid]->e.extra < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct kchunk *
klist_chunk(struct kstate *k, struct klist *l, uint32_t number)
{
    uint32_t at = place_of(l, number);
    size_t cap = l->cap;
    struct kchunk *c;

    if (at < l->n && l->chunks[at]->e.extra == number)
        return NULL;
    if (l->n == l->cap)
        mem_grow(&l->chunks, &l->cap, l->n + 1u, sizeof(struct kchunk *));
    k->bytes += (l->cap - cap) * sizeof(struct kchunk *);
    memmove(&l->chunks[at + 1], &l->chunks[at],
            (l->n - at) * sizeof(struct kchunk *));
    c = kalloc(k, sizeof *c);
    memset(c, 0, sizeof *c);
    c->e.type = ENTRY_CHUNK;
    c->e.extra = number;
    c->list = l;
    l->chunks[at] = c;
    l->n++;
    return c;
}

/* Free a chunk that is out of its list, deleting what rounds have of it. */
static void
chunk_free(struct kstate *k, struct kchunk *c)
{
    entry_rounds_leave(&k->rounds, &c->e);
    if ((c->e.flags & ENTRY_KEPT) != 0) {
        ksave_delete(k, &c->e);
        c->list->hold = k->rounds.generation + 1;
    }
    c->list->bytes -= c->cap;
    kfree(k, c->data, c->cap);
    kfree(k, c, sizeof *c);
}

void
kchunk_drop(struct kstate *k, struct kchunk *c)
{
    struct klist *l = c->list;
    uint32_t at = place_of(l, c->e.extra);

    assert(l->chunks[at] == c);
    l->n--;
    memmove(&l->chunks[at], &l->chunks[at + 1],
            (l->n - at) * sizeof(struct kchunk *));
    l->count -= c->count;
    chunk_free(k, c);
}

void
kchunk_cut(struct kstate *k, struct kchunk *c, uint32_t len)
{
    struct kstate_bytes b;
    size_t at = len;
    int64_t time;

    if (len == 0) {
        kchunk_drop(k, c);
        return;
    }
    while (kchunk_next(k, c, &at, &time, &b)) {
        c->count--;
        c->list->count--;
    }
    c->len = len;
}

/* ---- lists ---- */

struct klist *
klist_make(struct kstate *k, struct kkey *key, uint32_t h)
{
    struct klist *l = kalloc(k, sizeof *l);

    memset(l, 0, sizeof *l);
    l->key = key;
    l->h = h;
    return l;
}

void
klist_drop(struct kstate *k, struct klist *l)
{
    uint32_t i;

    for (i = 0; i < l->n; i++)
        chunk_free(k, l->chunks[i]);
    k->bytes -= l->cap * sizeof(struct kchunk *);
    free(l->chunks);
    kfree(k, l, sizeof *l);
}

void
klist_hold(struct kstate *k, uint32_t h, struct kcell *c,
           const struct kcell *old)
{
    const struct klist *l = old->u.p;
    bool kept;
    uint32_t i;

    if (old->len == CELL_EMPTY)
        return;
    kept = l->hold > k->cache.durable;
    for (i = 0; i < l->n && !kept; i++)
        kept = (l->chunks[i]->e.flags & ENTRY_KEPT) != 0 ||
               entry_rounds_is_frozen(&k->rounds, l->chunks[i]->e.flags);
    if (!kept)
        return;
    if (c->len == CELL_EMPTY) {
        c->u.p = klist_make(k, k->cur, h);
        c->len = 0;
        k->cur->live++;
    }
    ((struct klist *)c->u.p)->hold = k->rounds.generation + 1;
}

/* The list of the current key, or NULL. */
static struct klist *
list_of(struct kstate *k, uint32_t h)
{
    struct kcell *c;

    assert(h < k->count && k->handles[h].pub.kind == KSTATE_LIST);
    if (k->cur == NULL)
        return NULL;
    c = kcell_of(k, k->cur, h);
    kcache_need(k, k->cur, h, c);
    return c->len == CELL_EMPTY ? NULL : c->u.p;
}

/* A list is given up as a whole, so it must not be all of memory. */
static int
list_too_large(const struct kstate *k, uint32_t h, struct err *e)
{
    return err_record(e, CAUSE_USER_ERROR,
                      "list state '%s' of this key has reached half of the "
                      "%zu KiB of memory.state that the subtask may use: clear "
                      "it in time, keep the elements as a map state, which is "
                      "read entry by entry, or raise memory",
                      k->handles[h].pub.name, k->cache.budget >> 10);
}

int
kstate_list_add(struct kstate *k, uint32_t h, const void *bytes, size_t len,
                struct err *e)
{
    struct klist *l = list_of(k, h);
    struct kchunk *c = NULL;
    struct kundo *u;

    if (len > KSTATE_VALUE_MAX)
        return kstate_too_large(k, h, len, e);
    if (l != NULL && kcache_is_on(k) && l->bytes > LIST_FEW &&
        l->bytes + len > k->cache.budget / 2)
        return list_too_large(k, h, e);
    if (l == NULL) {
        struct kcell *cell = kcell_of(k, kkey_current(k), h);

        klog_cell(k, UNDO_SWAP, h, cell);
        cell->u.p = l = klist_make(k, k->cur, h);
        cell->len = 0;
        k->cur->live++;
    }
    if (l->n != 0)
        c = l->chunks[l->n - 1];
    if (c == NULL || c->len + head_size(k, l) + len > CHUNK_BYTES)
        c = klist_chunk(k, l, c == NULL ? 0 : c->e.extra + 1);
    assert(c != NULL);
    entry_rounds_touch(&k->rounds, &c->e);
    u = klog_add(k, UNDO_ADD, c);
    u->old.len = c->len;
    kchunk_append(k, c, know(k, &k->handles[h]), bytes, (uint32_t)len);
    klog_settle(k);
    return 0;
}

/* ---- walking ---- */

/* Whether reading a chunk changes times in it. */
static bool
reading_counts(const struct kstate *k, const struct kchunk *c)
{
    const struct khandle *h = &k->handles[c->list->h];
    struct kstate_bytes b;
    size_t at = 0;
    int64_t time;
    bool touch;

    while (kchunk_next(k, c, &at, &time, &b))
        if (kfresh(k, h, &time, &touch) && touch)
            return true;
    return false;
}

/* Set the times of what is read; the log takes the bytes as they are. */
static void
read_chunk(struct kstate *k, struct kchunk *c)
{
    const struct khandle *h = &k->handles[c->list->h];
    struct kundo *u;
    struct kstate_bytes b;
    size_t at = 0, was = 0;
    int64_t time;
    bool touch;

    entry_rounds_touch(&k->rounds, &c->e);
    u = klog_add(k, UNDO_BYTES, c);
    u->old.u.p = c->data;
    u->old.len = c->cap;
    u->time = c->len;
    c->data = kalloc(k, c->cap);
    memcpy(c->data, u->old.u.p, c->len);
    for (; kchunk_next(k, c, &at, &time, &b); was = at)
        if (kfresh(k, h, &time, &touch) && touch)
            set_time(c, was, know(k, h));
    klog_settle(k);
}

void
kstate_list_begin(struct kstate *k, uint32_t h, struct kstate_iter *i)
{
    struct klist *l = list_of(k, h);
    uint32_t n;

    memset(i, 0, sizeof *i);
    i->h = h;
    if (l == NULL)
        return;
    i->view = l;
    i->count = l->count;
    for (n = 0; k->handles[h].ttl && n < l->n; n++)
        if (reading_counts(k, l->chunks[n]))
            read_chunk(k, l->chunks[n]);
}

bool
kstate_list_next(struct kstate *k, struct kstate_iter *i,
                 struct kstate_bytes *element)
{
    const struct khandle *h = &k->handles[i->h];
    const struct klist *l = list_of(k, i->h);
    int64_t time;

    if (l == NULL || l != i->view)
        return false; /* cleared meanwhile */
    while (i->given < i->count && i->at < l->n) {
        if (!kchunk_next(k, l->chunks[i->at], &i->in, &time, element)) {
            i->at++;
            i->in = 0;
            continue;
        }
        i->given++;
        if (!h->ttl || !kexpired(h, time, know(k, h)))
            return true;
    }
    return false;
}

/* ---- cleaning ---- */

bool
kchunk_is_stale(const struct kstate *k, const struct kchunk *c)
{
    const struct khandle *h = &k->handles[c->list->h];
    int64_t now = k->clean.now[h->pub.ttl_clock], time;
    struct kstate_bytes b;
    size_t at = 0;

    while (h->ttl && kchunk_next(k, c, &at, &time, &b))
        if (now != KSTATE_NO_TIME &&
            (time == KSTATE_NO_TIME || kexpired(h, time, now)))
            return true;
    return false;
}

bool
kchunk_filter(struct kstate *k, struct kchunk *c)
{
    const struct khandle *h = &k->handles[c->list->h];
    int64_t now = k->clean.now[h->pub.ttl_clock], time;
    struct kstate_bytes b;
    size_t at = 0, from = 0, to = 0;

    for (; kchunk_next(k, c, &at, &time, &b); from = at) {
        if (kexpired(h, time, now)) {
            c->count--;
            c->list->count--;
            continue;
        }
        memmove(c->data + to, c->data + from, at - from);
        if (time == KSTATE_NO_TIME)
            set_time(c, to, now);
        to += at - from;
    }
    c->len = (uint32_t)to;
    return to == 0;
}
