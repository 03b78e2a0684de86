#include "state/stage.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_SIZE = 1 << 18,
    PAIR_HEAD = 8, /* value length u32, key length u16, 2 spare */
    CACHE_SIZE = 8
};

struct stage_chunk {
    struct stage_chunk *next;
    size_t size;
};

void
stage_fini(struct stage *s)
{
    struct stage_chunk *c, *next;

    for (c = s->chunks; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    free(s->items);
    memset(s, 0, sizeof *s);
}

static uint8_t *
take(struct stage *s, size_t size)
{
    struct stage_chunk *c;
    size_t want = size > CHUNK_SIZE / 4 ? size : (size_t)CHUNK_SIZE;
    uint8_t *p;

    size = (size + 7) & ~(size_t)7;
    if ((size_t)(s->end - s->pos) < size) {
        c = wire_malloc(sizeof *c + ((want + 7) & ~(size_t)7));
        if (c == NULL)
            return NULL;
        c->next = s->chunks;
        c->size = sizeof *c + ((want + 7) & ~(size_t)7);
        s->chunks = c;
        s->bytes += c->size;
        s->pos = (uint8_t *)(c + 1);
        s->end = (uint8_t *)c + c->size;
    }
    p = s->pos;
    s->pos += size;
    return p;
}

static int
room(struct stage *s)
{
    size_t cap = s->cap != 0 ? s->cap * 2 : 1024;
    struct stage_item *p;

    if (s->count < s->cap)
        return 0;
    p = wire_realloc(s->items, cap * sizeof *p);
    if (p == NULL)
        return ERR_NOMEM;
    s->bytes += (cap - s->cap) * sizeof *p;
    s->items = p;
    s->cap = cap;
    return 0;
}

int
stage_add(struct stage *s, uint64_t seed, const struct store_key *k,
          const void *value, size_t len)
{
    struct entry_key key;
    size_t value_len;
    uint16_t key_len;
    uint32_t word;
    uint8_t *p;

    entry_key_encode(seed, k, &key);
    value_len = entry_value_size(&key, k, len);
    if (room(s) != 0)
        return ERR_NOMEM;
    p = take(s, PAIR_HEAD + key.len + value_len);
    if (p == NULL)
        return ERR_NOMEM;
    word = (uint32_t)value_len;
    key_len = key.len;
    memcpy(p, &word, sizeof word);
    memcpy(p + 4, &key_len, sizeof key_len);
    memcpy(p + PAIR_HEAD, key.bytes, key.len);
    entry_value_encode(p + PAIR_HEAD + key.len, &key, k, value, len);
    s->items[s->count] = (struct stage_item){0, p, s->count};
    s->count++;
    return 0;
}

static size_t
key_len_of(const struct stage_item *i)
{
    uint16_t len;

    memcpy(&len, i->pair + 4, sizeof len);
    return len;
}

void
stage_pair(const struct stage *s, size_t i, struct stage_pair *ret)
{
    const uint8_t *p = s->items[i].pair;
    uint32_t len;

    memcpy(&len, p, sizeof len);
    ret->key_len = key_len_of(&s->items[i]);
    ret->key = p + PAIR_HEAD;
    ret->value = ret->key + ret->key_len;
    ret->value_len = len;
}

static int
by_cache(const void *a, const void *b)
{
    const struct stage_item *x = a, *y = b;

    if (x->cache != y->cache)
        return x->cache < y->cache ? -1 : 1;
    return x->turn < y->turn ? -1 : 1;
}

static int
by_key(const void *a, const void *b)
{
    const struct stage_item *x = a, *y = b;
    int r = entry_key_cmp(x->pair + PAIR_HEAD, key_len_of(x),
                          y->pair + PAIR_HEAD, key_len_of(y));

    return r != 0 ? r : x->turn < y->turn ? -1 : 1;
}

/* Eight bytes at `depth`, big endian; missing ones are zero. */
static void
load_cache(struct stage_item *i, size_t depth)
{
    size_t len = key_len_of(i), j;
    const uint8_t *k = i->pair + PAIR_HEAD;
    uint64_t v = 0;

    for (j = 0; j < CACHE_SIZE; j++)
        v = v << 8 | (depth + j < len ? k[depth + j] : 0u);
    i->cache = v;
}

/* Sort items whose keys agree before `depth`. At most 64 levels deep. */
static void
sort_from(struct stage_item *items, size_t n, size_t depth)
{
    bool all_longer;
    size_t i, j, k;

    for (i = 0; i < n; i++)
        load_cache(&items[i], depth);
    qsort(items, n, sizeof *items, by_cache);
    for (i = 0; i < n; i = j) {
        for (j = i + 1; j < n && items[j].cache == items[i].cache; j++)
            continue;
        if (j - i == 1)
            continue;
        all_longer = true;
        for (k = i; k < j; k++)
            all_longer =
                all_longer && depth + CACHE_SIZE < key_len_of(&items[k]);
        /* Short runs are cheaper by hand; ended keys need their lengths. */
        if (j - i > 8 && all_longer)
            sort_from(items + i, j - i, depth + CACHE_SIZE);
        else
            qsort(items + i, j - i, sizeof *items, by_key);
    }
}

/* Two stored keys are equal: are the whole ones? */
static bool
same_key(const struct stage_pair *a, const struct stage_pair *b)
{
    uint32_t len;

    if (a->key_len != ENTRY_KEY_LONG)
        return true;
    len = wire_load_u32(a->value + ENTRY_VALUE_HEAD);
    return len == wire_load_u32(b->value + ENTRY_VALUE_HEAD) &&
           memcmp(a->value + ENTRY_VALUE_HEAD + 4,
                  b->value + ENTRY_VALUE_HEAD + 4, len) == 0;
}

int
stage_sort(struct stage *s)
{
    size_t i, out = 0;

    if (s->count == 0)
        return 0;
    sort_from(s->items, s->count, 0);
    for (i = 1; i < s->count; i++) {
        struct stage_pair a, b;

        stage_pair(s, out, &a);
        stage_pair(s, i, &b);
        if (a.key_len != b.key_len || memcmp(a.key, b.key, a.key_len) != 0)
            out++;
        else if (!same_key(&a, &b))
            return ERR_INTERNAL;
        s->items[out] = s->items[i];
    }
    s->count = out + 1;
    return 0;
}
