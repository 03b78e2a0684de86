#include "core/timers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    BUCKET_FIRST = 4, /* timers */
    WORD_BITS = 64,
    AHEAD = 8 /* timers fetched before they are moved */
};

/* ---- names ---- */

/* Times as numbers without sign, in the same order. */
static uint64_t
up(int64_t ts)
{
    return (uint64_t)ts ^ UINT64_C(1) << 63;
}

static int64_t
down(uint64_t u)
{
    return (int64_t)(u ^ UINT64_C(1) << 63);
}

static uint32_t
timer_hash(const struct entry *key, int64_t ts)
{
    return index_hash(hash_splitmix((uint64_t)ts ^ (uint64_t)key->hash << 24));
}

struct name {
    const struct entry *key;
    int64_t ts;
};

static bool
same(const struct entry *en, const void *arg)
{
    const struct timer *tm = (const struct timer *)en;
    const struct name *n = arg;

    return tm->ts == n->ts && tm->key == n->key;
}

static const char *
key_of(const void *arg, const struct entry *en, uint32_t *ret_len)
{
    const struct timers *t = arg;
    const struct entry *key = ((const struct timer *)en)->key;

    *ret_len = key->extra;
    return (const char *)key + t->key_at;
}

static bool
is_less(const struct timers *t, const struct timer *a, const struct timer *b)
{
    uint32_t alen, blen;
    const char *x, *y;
    int c;

    if (a->ts != b->ts)
        return a->ts < b->ts;
    x = key_of(t, &a->e, &alen);
    y = key_of(t, &b->e, &blen);
    c = memcmp(x, y, alen < blen ? alen : blen);
    return c != 0 ? c < 0 : alen < blen;
}

void
timers_init(struct timers *t, uint32_t key_at)
{
    memset(t, 0, sizeof *t);
    t->key_at = key_at;
    index_init(&t->index);
    sort_init(&t->due, key_of, t);
}

void
timers_fini(struct timers *t)
{
    struct index_iter i = {0};
    struct entry *en;
    int w, b;

    while ((en = index_next(&t->index, &i)) != NULL)
        free(en);
    index_fini(&t->index);
    for (w = 0; w < TIMERS_WHEELS; w++) {
        for (b = 0; t->wheels[w] != NULL && b < TIMERS_BUCKETS; b++)
            free(t->wheels[w]->buckets[b].items);
        free(t->wheels[w]);
    }
    free(t->early.items);
    sort_fini(&t->due);
    timers_init(t, t->key_at);
}

/* ---- buckets ---- */

static void
bucket_add(struct timers *t, struct timer_bucket *b, struct timer *tm)
{
    if (b->n == b->cap) {
        uint32_t cap = b->cap == 0 ? BUCKET_FIRST : b->cap * 2;

        assert(cap > b->cap);
        b->items = mem_realloc(b->items, (size_t)cap * sizeof *b->items);
        t->bytes += (size_t)(cap - b->cap) * sizeof *b->items;
        b->cap = cap;
    }
    tm->e.extra = b->n;
    b->items[b->n++] = tm;
}

static void
bucket_fini(struct timers *t, struct timer_bucket *b)
{
    t->bytes -= (size_t)b->cap * sizeof *b->items;
    free(b->items);
    memset(b, 0, sizeof *b);
}

/* Which wheel and bucket a time is in. */
static int
wheel_of(const struct timers *t, uint64_t u)
{
    return u == t->reached ? 0 : (63 - __builtin_clzll(u ^ t->reached)) / 8;
}

static uint32_t
digit(uint64_t u, int wheel)
{
    return (uint32_t)(u >> (8 * wheel)) & (TIMERS_BUCKETS - 1);
}

static void
wheel_add(struct timers *t, struct timer *tm)
{
    uint64_t u = up(tm->ts);
    int n = wheel_of(t, u);
    uint32_t d = digit(u, n);
    struct timer_wheel *w = t->wheels[n];

    if (w == NULL) {
        w = t->wheels[n] = mem_zalloc(sizeof *w);
        t->bytes += sizeof *w;
    }
    w->filled[d / WORD_BITS] |= UINT64_C(1) << d % WORD_BITS;
    bucket_add(t, &w->buckets[d], tm);
}

static void
wheel_take(struct timers *t, const struct timer *tm)
{
    uint64_t u = up(tm->ts);
    int n = wheel_of(t, u);
    uint32_t d = digit(u, n), at = tm->e.extra;
    struct timer_bucket *b = &t->wheels[n]->buckets[d];

    assert(at < b->n && b->items[at] == tm);
    b->items[at] = b->items[--b->n];
    b->items[at]->e.extra = at;
    if (b->n != 0)
        return;
    bucket_fini(t, b);
    t->wheels[n]->filled[d / WORD_BITS] &= ~(UINT64_C(1) << d % WORD_BITS);
}

/* ---- the heap of those that are early ---- */

static void
heap_set(struct timer_bucket *h, uint32_t i, struct timer *tm)
{
    h->items[i] = tm;
    tm->e.extra = i;
}

static void
heap_up(struct timers *t, uint32_t i, struct timer *tm)
{
    struct timer_bucket *h = &t->early;

    for (; i > 0 && is_less(t, tm, h->items[(i - 1) / 2]); i = (i - 1) / 2)
        heap_set(h, i, h->items[(i - 1) / 2]);
    heap_set(h, i, tm);
}

static void
heap_down(struct timers *t, uint32_t i, struct timer *tm)
{
    struct timer_bucket *h = &t->early;

    for (;;) {
        uint32_t k = 2 * i + 1;

        if (k >= h->n)
            break;
        if (k + 1 < h->n && is_less(t, h->items[k + 1], h->items[k]))
            k++;
        if (!is_less(t, h->items[k], tm))
            break;
        heap_set(h, i, h->items[k]);
        i = k;
    }
    heap_up(t, i, tm);
}

static void
heap_take(struct timers *t, const struct timer *tm)
{
    struct timer_bucket *h = &t->early;
    uint32_t at = tm->e.extra;
    struct timer *last = h->items[--h->n];

    if (last != tm)
        heap_down(t, at, last);
    if (h->n == 0)
        bucket_fini(t, h);
}

/* ---- adding and removing ---- */

struct timer *
timers_find(const struct timers *t, const struct entry *key, int64_t ts)
{
    const struct name n = {.key = key, .ts = ts};

    return (struct timer *)index_find(&t->index, timer_hash(key, ts), same, &n);
}

void
timers_link(struct timers *t, struct timer *tm)
{
    uint64_t u = up(tm->ts);

    index_add(&t->index, &tm->e);
    if (u > t->reached || (u == t->reached && !t->open)) {
        wheel_add(t, tm);
        return;
    }
    tm->e.flags |= TIMER_EARLY;
    bucket_add(t, &t->early, tm);
    heap_up(t, t->early.n - 1, tm);
}

struct timer *
timers_add(struct timers *t, struct entry *key, int64_t ts)
{
    struct timer *tm = mem_zalloc(sizeof *tm);

    tm->e.hash = timer_hash(key, ts);
    tm->ts = ts;
    tm->key = key;
    timers_link(t, tm);
    return tm;
}

/* Rare: the timers of a time that is being given back are being removed. */
static void
due_take(struct timers *t, const struct timer *tm)
{
    size_t i;

    for (i = t->due_at; t->due.items[i].en != &tm->e; i++)
        assert(i + 1 < t->due.n);
    t->due.items[i].en = NULL;
}

void
timers_unlink(struct timers *t, struct timer *tm)
{
    index_remove(&t->index, &tm->e);
    if ((tm->e.flags & TIMER_DUE) != 0)
        due_take(t, tm);
    else if ((tm->e.flags & TIMER_EARLY) != 0)
        heap_take(t, tm);
    else
        wheel_take(t, tm);
    tm->e.flags &= (uint8_t) ~(TIMER_DUE | TIMER_EARLY);
}

void
timers_drop(struct timers *t, struct timer *tm)
{
    (void)t;
    free(tm);
}

/* ---- time ---- */

/* The first bucket that is not empty. @param ret_base its begin. */
static struct timer_bucket *
first_bucket(const struct timers *t, int *ret_wheel, uint64_t *ret_base)
{
    int n, i;

    for (n = 0; n < TIMERS_WHEELS; n++) {
        struct timer_wheel *w = t->wheels[n];

        for (i = 0; w != NULL && i < TIMERS_BUCKETS / WORD_BITS; i++) {
            uint64_t d, above;

            if (w->filled[i] == 0)
                continue;
            d = (uint64_t)(i * WORD_BITS + __builtin_ctzll(w->filled[i]));
            above = n + 1 == TIMERS_WHEELS
                        ? 0
                        : t->reached >> (8 * (n + 1)) << (8 * (n + 1));
            *ret_wheel = n;
            *ret_base = above | d << (8 * n);
            return &w->buckets[d];
        }
    }
    return NULL;
}

/* Ask the cache for what giving a timer back and removing it looks at. */
static void
fetch(const struct timers *t, const struct timer *tm)
{
    __builtin_prefetch(tm->key, 1);
    index_prefetch(&t->index, tm->e.hash);
}

/* Take the timers of a bucket out of it: those of one time become due,
 * others move to lower wheels. */
static void
empty_bucket(struct timers *t, int wheel, uint64_t base)
{
    uint32_t d = digit(base, wheel), i;
    struct timer_wheel *w = t->wheels[wheel];
    struct timer_bucket b = w->buckets[d];

    memset(&w->buckets[d], 0, sizeof w->buckets[d]);
    w->filled[d / WORD_BITS] &= ~(UINT64_C(1) << d % WORD_BITS);
    t->reached = base;
    t->open = wheel == 0;
    for (i = 0; i < b.n; i++) {
        __builtin_prefetch(b.items[i + AHEAD < b.n ? i + AHEAD : i], 1);
        if (wheel != 0) {
            wheel_add(t, b.items[i]);
            continue;
        }
        b.items[i]->e.flags |= TIMER_DUE;
        sort_add(&t->due, &b.items[i]->e);
    }
    for (i = 0; wheel == 1 && i < b.n; i++) /* they are next */
        fetch(t, b.items[i]);
    bucket_fini(t, &b);
    if (wheel == 0)
        sort_begin(&t->due);
}

/* Bring the first timers up to `limit` into `due`. */
static void
advance(struct timers *t, uint64_t limit)
{
    uint64_t base;
    int wheel;

    while (first_bucket(t, &wheel, &base) != NULL && base <= limit) {
        empty_bucket(t, wheel, base);
        if (wheel == 0)
            return;
    }
    if (limit > t->reached) {
        t->reached = limit;
        t->open = false;
    }
}

/* The same for the timers of one time that come soon, of which there may be
 * many. */
static void
fetch_ahead(const struct timers *t)
{
    const struct sort_item *at = &t->due.items[t->due_at];
    size_t left = t->due.n - t->due_at;

    if (left > 2 * AHEAD)
        __builtin_prefetch(at[2 * AHEAD].en, 1);
    if (left > AHEAD && at[AHEAD].en != NULL)
        fetch(t, (const struct timer *)at[AHEAD].en);
}

/* The first of those that are due already, or NULL. */
static struct timer *
due_first(struct timers *t)
{
    for (; t->due_at < t->due.n; t->due_at++) {
        sort_upto(&t->due, t->due_at);
        fetch_ahead(t);
        if (t->due.items[t->due_at].en != NULL)
            return (struct timer *)t->due.items[t->due_at].en;
    }
    sort_clear(&t->due);
    t->due_at = 0;
    return NULL;
}

struct timer *
timers_due(struct timers *t, int64_t limit)
{
    struct timer *due = due_first(t);
    struct timer *early = t->early.n != 0 ? t->early.items[0] : NULL;

    if (due == NULL && early == NULL) {
        advance(t, up(limit));
        due = due_first(t);
    }
    if (due == NULL || (early != NULL && is_less(t, early, due)))
        due = early;
    return due != NULL && due->ts <= limit ? due : NULL;
}

bool
timers_bound(const struct timers *t, int64_t *ret)
{
    uint64_t base;
    int wheel;

    if (t->index.count == 0)
        return false;
    if (t->due_at < t->due.n)
        *ret = down(t->reached);
    else if (first_bucket(t, &wheel, &base) != NULL)
        *ret = down(base);
    else
        *ret = INT64_MAX;
    if (t->early.n != 0 && t->early.items[0]->ts < *ret)
        *ret = t->early.items[0]->ts;
    return true;
}

size_t
timers_bytes(const struct timers *t)
{
    return t->index.count * sizeof(struct timer) + t->index.bytes + t->bytes +
           sort_bytes(&t->due);
}
