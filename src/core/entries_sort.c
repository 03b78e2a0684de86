#include "core/entries_sort.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    WORD = 8,         /* bytes compared at once */
    SMALL = 12,       /* ranges up to this are sorted by insertion */
    AHEAD = 64,       /* entries whose keys are fetched together */
    KEEP = 1 << 12,   /* items kept by sort_clear() */
    NINTHER = 1 << 10 /* from here on the pivot is chosen with more care */
};

void
sort_init(struct entry_sort *s, sort_key_f *key, const void *arg)
{
    memset(s, 0, sizeof *s);
    s->key = key;
    s->arg = arg;
}

void
sort_fini(struct entry_sort *s)
{
    free(s->items);
    free(s->pending);
    sort_init(s, s->key, s->arg);
}

void
sort_clear(struct entry_sort *s)
{
    s->n = s->sorted = s->pending_n = 0;
    if (s->cap > KEEP)
        sort_fini(s);
}

void
sort_add(struct entry_sort *s, struct entry *en)
{
    if (s->n == s->cap)
        mem_grow(&s->items, &s->cap, s->n + 1, sizeof *s->items);
    s->items[s->n].word = 0;
    s->items[s->n++].en = en;
}

static void
push(struct entry_sort *s, struct sort_range r)
{
    if (r.from == r.to)
        return;
    if (s->pending_n == s->pending_cap)
        mem_grow(&s->pending, &s->pending_cap, s->pending_n + 1,
                 sizeof *s->pending);
    s->pending[s->pending_n++] = r;
}

void
sort_begin(struct entry_sort *s)
{
    assert(s->n < UINT32_MAX);
    s->sorted = s->pending_n = 0;
    push(s, (struct sort_range){.to = (uint32_t)s->n});
}

/* ---- keys ---- */

/* The key behind its first `depth` bytes. */
static const char *
tail(const struct entry_sort *s, const struct entry *en, uint32_t depth,
     uint32_t *ret_len)
{
    const char *key = "";

    *ret_len = 0;
    if (en != NULL)
        key = s->key(s->arg, en, ret_len);
    if (*ret_len <= depth) {
        *ret_len = 0;
        return key;
    }
    *ret_len -= depth;
    return key + depth;
}

static uint64_t
word_at(const char *p, uint32_t len)
{
    unsigned char b[WORD] = {0};
    uint64_t v = 0;
    int i;

    memcpy(b, p, len < WORD ? len : WORD);
    for (i = 0; i < WORD; i++)
        v = v << 8 | b[i];
    return v;
}

/* Load the words at r's depth. @return whether a key goes on beyond it. */
static bool
load(struct entry_sort *s, const struct sort_range *r)
{
    const char *keys[AHEAD];
    uint32_t lens[AHEAD], i, k, n;
    bool more = false;

    for (i = r->from; i < r->to; i += n) {
        struct sort_item *at = &s->items[i];

        n = r->to - i < AHEAD ? r->to - i : AHEAD;
        for (k = 0; k < n; k++)
            __builtin_prefetch(at[k].en);
        for (k = 0; k < n; k++) {
            keys[k] = tail(s, at[k].en, r->depth, &lens[k]);
            __builtin_prefetch(keys[k]);
        }
        for (k = 0; k < n; k++) {
            at[k].word = word_at(keys[k], lens[k]);
            more = more || lens[k] != 0;
        }
    }
    return more;
}

/* ---- sorting ---- */

static bool
is_less(const struct entry_sort *s, const struct sort_item *a,
        const struct sort_item *b, uint32_t depth)
{
    uint32_t alen, blen;
    const char *x, *y;
    int c;

    if (a->word != b->word)
        return a->word < b->word;
    x = tail(s, a->en, depth, &alen);
    y = tail(s, b->en, depth, &blen);
    c = memcmp(x, y, alen < blen ? alen : blen);
    if (c == 0 && alen == blen) { /* one may be the other and zeros */
        (void)tail(s, a->en, 0, &alen);
        (void)tail(s, b->en, 0, &blen);
    }
    return c != 0 ? c < 0 : alen < blen;
}

static void
insertion(struct entry_sort *s, const struct sort_range *r)
{
    uint32_t i, k;

    for (i = r->from + 1; i < r->to; i++) {
        struct sort_item it = s->items[i];

        for (k = i; k > r->from && is_less(s, &it, &s->items[k - 1], r->depth);
             k--)
            s->items[k] = s->items[k - 1];
        s->items[k] = it;
    }
}

static uint64_t
median(uint64_t a, uint64_t b, uint64_t c)
{
    if (a < b)
        return b < c ? b : a < c ? c : a;
    return a < c ? a : b < c ? c : b;
}

static uint64_t
pivot(const struct entry_sort *s, const struct sort_range *r)
{
    const struct sort_item *at = &s->items[r->from];
    uint32_t n = r->to - r->from, d = n / 8, m = n / 2;

    if (n < NINTHER)
        return median(at[0].word, at[m].word, at[n - 1].word);
    return median(
        median(at[0].word, at[d].word, at[2 * d].word),
        median(at[m - d].word, at[m].word, at[m + d].word),
        median(at[n - 1 - 2 * d].word, at[n - 1 - d].word, at[n - 1].word));
}

/* Three ranges out of one: below the pivot, as it, above. */
static void
partition(struct entry_sort *s, const struct sort_range *r)
{
    uint64_t p = pivot(s, r);
    uint32_t lt = r->from, i = r->from, gt = r->to;

    while (i < gt) {
        struct sort_item it = s->items[i];

        if (it.word < p) {
            s->items[i++] = s->items[lt];
            s->items[lt++] = it;
        } else if (it.word > p) {
            s->items[i] = s->items[--gt];
            s->items[gt] = it;
        } else {
            i++;
        }
    }
    push(s, (struct sort_range){gt, r->to, r->depth, true});
    push(s, (struct sort_range){lt, gt, r->depth + WORD, false});
    push(s, (struct sort_range){r->from, lt, r->depth, true});
}

void
sort_upto(struct entry_sort *s, size_t i)
{
    assert(i < s->n);
    while (s->sorted <= i) {
        struct sort_range r = s->pending[--s->pending_n];
        bool more = true;

        if (r.to - r.from > 1 && !r.loaded)
            more = load(s, &r);
        if (r.to - r.from > SMALL && more) {
            partition(s, &r);
            continue;
        }
        insertion(s, &r);
        s->sorted = r.to;
    }
}

size_t
sort_bytes(const struct entry_sort *s)
{
    return s->cap * sizeof *s->items + s->pending_cap * sizeof *s->pending;
}
