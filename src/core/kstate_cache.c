#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "core/kstate_impl.h"

enum {
    FILTER_SHARE = 8, /* of the budget; two while the store is swept */
    FRAME_HEAD = 4,
    PIECE = 128, /* items of a walk that are taken from the store at a time */
    PIECE_BYTES = 64 << 10,
};

void
kstate_cache(struct kstate *k, size_t budget, const struct entry_store *store)
{
    assert(k->rounds.max_parallelism != 0 && k->keys.count == 0 && budget > 0);
    k->cache.budget = budget;
    k->cache.store = *store;
}

void
kcache_failed(struct kstate *k, const struct err *e)
{
    if (k->cache.failed)
        return;
    k->cache.failed = true;
    k->cache.why = *e;
}

int
kstate_check(const struct kstate *k, struct err *e)
{
    if (!k->cache.failed)
        return 0;
    if (e != NULL)
        *e = k->cache.why;
    return k->cache.why.code;
}

/* ---- the filter ---- */

uint64_t
kcache_hash(const struct kstate *k, const struct kkey *key)
{
    return hash_key(kkey_bytes(k, key), key->e.extra);
}

uint64_t
kcache_item_hash(uint64_t key, uint32_t h, uint32_t item)
{
    return hash_splitmix(key ^ ((uint64_t)item << 32 | (h + 1)));
}

bool
kcache_note(struct kstate *k, uint64_t hash)
{
    struct kcache *c = &k->cache;
    size_t limit = c->budget / FILTER_SHARE;
    bool news = !filter_has(&c->filter, hash);

    if (news)
        filter_add(&c->filter, hash, k->keys.count, limit);
    if (c->sweeping && !filter_has(&c->fresh, hash))
        filter_add(&c->fresh, hash, k->keys.count, limit);
    return news;
}

/* ---- keys ---- */

void
kcache_count(struct kstate *k, const struct kkey *key, int more)
{
    struct kcache *c = &k->cache;

    c->evicted += more;
    if (c->sweeping && filter_has(&c->fresh, kcache_hash(k, key)))
        c->fresh_keys += more;
}

void
kcache_guess(struct kstate *k, struct kkey *key)
{
    uint32_t h;

    for (h = 0; h < k->count; h++)
        kcell_of(k, key, h)->flags |= CELL_STORED;
    key->live += k->count;
    key->e.flags |= KEY_GUESS;
    kcache_count(k, key, -1);
}

void
kcache_enter(struct kstate *k)
{
    struct kkey *key = k->cur;

    if (key == NULL) {
        if (!filter_has(&k->cache.filter, k->cur_hash))
            return;
        k->cur = key = kkey_make(k, k->cur_key, k->cur_len, k->cur_hash);
        kcache_guess(k, key);
    }
    if ((key->e.flags & KEY_DEAD) != 0) {
        key->e.flags &= (uint8_t)~KEY_DEAD;
        k->cache.dead--;
    }
    key->e.flags |= KEY_USED;
}

bool
kcache_retains(struct kstate *k, struct kkey *key)
{
    struct entry *en = &key->e;

    if (kcache_is_new(k, en, (en->flags & KEY_FRESH) != 0) ||
        kcache_is_durable(k, en))
        return false;
    if ((en->flags & KEY_DEAD) == 0) {
        en->flags |= KEY_DEAD;
        k->cache.dead++;
    }
    return true;
}

/* ---- asking the store ---- */

/* Pieces of a list, and items, begin with this key. */
static bool
is_framed(const struct kstate *k, const struct kkey *key,
          const struct snapshot_key *name)
{
    const char *p = name->key;
    uint32_t len = key->e.extra;

    return name->key_len >= FRAME_HEAD + len && kform_read_u32be(p) == len &&
           memcmp(p + FRAME_HEAD, kkey_bytes(k, key), len) == 0;
}

struct kstate_bytes
kcache_part(const struct kmap *m, const struct snapshot_key *key)
{
    uint32_t head = FRAME_HEAD + m->key->e.extra;

    return (struct kstate_bytes){(const char *)key->key + head,
                                 key->key_len - head};
}

struct framed {
    struct kstate *k;
    struct kkey *key;
    uint32_t h;
    entry_stored_f *f;
    void *arg;
};

static int
framed_entry(void *arg, const struct snapshot_key *name, const void *value,
             size_t len, struct err *e)
{
    struct framed *p = arg;

    if (!is_framed(p->k, p->key, name))
        return 1;
    return p->f(p->arg, name, value, len, e);
}

/* Walk what the store has of a key in a namespace, behind `part`. */
static void
walk_framed(struct framed *p, const struct kstate_bytes *part)
{
    static const struct kstate_bytes none = {"", 0};
    struct kcache *c = &p->k->cache;
    unsigned char ns[KSTATE_NS_SIZE];
    struct snapshot_key name;
    struct err e;

    if (c->failed)
        return;
    name = ksave_name(p->k, p->key, p->h, part != NULL ? part : &none, ns);
    err_clear(&e);
    if (c->store.walk(c->store.arg, &name, true, framed_entry, p, &e) < 0)
        kcache_failed(p->k, &e);
}

void
kcache_walk_map(struct kstate *k, const struct kmap *m,
                const struct kstate_bytes *behind, entry_stored_f *f, void *arg)
{
    struct framed p = {.k = k, .key = m->key, .h = m->h, .f = f, .arg = arg};

    walk_framed(&p, behind);
}

static int
read_entry(struct kstate *k, const struct kkey *key, uint32_t h,
           const struct snapshot_key *name, const void *value, size_t len,
           struct kstate_stored *ret, struct err *e)
{
    struct kstate_entry v = {.group = key->e.small,
                             .ns = name->ns,
                             .key = name->key,
                             .key_len = name->key_len,
                             .value = value,
                             .value_len = len};

    return kstate_stored_read(&v, k->handles[h].pub.kind, ret, e);
}

static int
fetch_chunk(void *arg, const struct snapshot_key *name, const void *value,
            size_t len, struct err *e)
{
    struct framed *p = arg;
    struct kstate_stored s;
    int r = read_entry(p->k, p->key, p->h, name, value, len, &s, e);

    return r != 0 ? r : kload_state(p->k, p->key, p->h, &s, e);
}

static int
fetch_one(struct kstate *k, struct kkey *key, uint32_t h, struct err *e)
{
    struct kcache *c = &k->cache;
    unsigned char ns[KSTATE_NS_SIZE];
    struct snapshot_key name = ksave_name(k, key, h, NULL, ns);
    struct kstate_stored s;
    const void *value;
    size_t len;
    int r = c->store.get(c->store.arg, &name, &value, &len, e);

    if (r <= 0)
        return r;
    r = read_entry(k, key, h, &name, value, len, &s, e);
    return r != 0 ? r : kload_state(k, key, h, &s, e);
}

/* The store had nothing of a cell: perhaps it has nothing of the key. */
static void
missed(struct kstate *k, struct kkey *key)
{
    uint32_t h;

    if ((key->e.flags & KEY_GUESS) == 0)
        return;
    for (h = 0; h < k->count; h++)
        if ((kcell_of(k, key, h)->flags & CELL_STORED) != 0)
            return;
    key->e.flags &= (uint8_t)~KEY_GUESS;
    kcache_count(k, key, 1);
}

bool
kcache_fetch(struct kstate *k, struct kkey *key, uint32_t h)
{
    struct framed p = {.k = k, .key = key, .h = h, .f = fetch_chunk, .arg = &p};
    struct kcell *c = kcell_of(k, key, h);
    struct err e;

    assert((c->flags & CELL_STORED) != 0 && c->len == CELL_EMPTY);
    c->flags &= (uint8_t) ~(CELL_STORED | ENTRY_KEPT);
    key->live--;
    if (k->cache.failed)
        return false;
    err_clear(&e);
    if (k->handles[h].pub.kind == KSTATE_LIST)
        walk_framed(&p, NULL);
    else if (fetch_one(k, key, h, &e) < 0)
        kcache_failed(k, &e);
    if (c->len == CELL_EMPTY) {
        missed(k, key);
        return false;
    }
    key->e.flags &= (uint8_t)~KEY_GUESS;
    return true;
}

struct kitem *
kcache_fetch_item(struct kstate *k, struct kmap *m,
                  const struct kstate_bytes *key)
{
    struct kcache *c = &k->cache;
    unsigned char ns[KSTATE_NS_SIZE];
    uint64_t hash = kcache_hash(k, m->key);
    struct snapshot_key name;
    struct kstate_stored s;
    const void *value;
    struct kitem *it;
    struct err e;
    size_t len;
    int r;

    if ((kcell_of(k, m->key, m->h)->flags & CELL_STORED) == 0 || c->failed)
        return NULL;
    hash = kcache_item_hash(hash, m->h, index_hash(hash_key(key->p, key->len)));
    if (!filter_has(&c->filter, hash))
        return NULL;
    name = ksave_name(k, m->key, m->h, key, ns);
    err_clear(&e);
    r = c->store.get(c->store.arg, &name, &value, &len, &e);
    if (r == 1)
        r = read_entry(k, m->key, m->h, &name, value, len, &s, &e);
    else if (r == 0)
        return NULL;
    if (r == 0)
        r = kload_state(k, m->key, m->h, &s, &e);
    if (r != 0) {
        kcache_failed(k, &e);
        return NULL;
    }
    m->key->e.flags &= (uint8_t)~KEY_GUESS;
    it = kmap_find(k, m, key);
    it->e.small |= ITEM_USED;
    return it;
}

/* ---- restoring ---- */

/* Pieces of a list are in memory all or none. @return whether this one is
 * there, and as it should be. */
static bool
has_chunk(struct kstate *k, struct klist *l, const struct kstate_stored *s)
{
    uint32_t number = kform_read_u32be(s->part.p), i;

    for (i = 0; i < l->n && l->chunks[i]->e.extra != number; i++)
        ;
    if (i == l->n)
        return false;
    if (!s->changed)
        return true;
    l->chunks[i]->e.flags &= (uint8_t)~ENTRY_KEPT;
    kchunk_drop(k, l->chunks[i]); /* it is loaded anew */
    return false;
}

/* An entry is loaded: what is known of its cell becomes so. @return whether
 * it is there already. */
static bool
make_way(struct kstate *k, struct kkey *key, uint32_t h,
         const struct kstate_stored *s)
{
    enum kstate_kind kind = k->handles[h].pub.kind;
    struct kcell *c = kcell_of(k, key, h);

    if (kind == KSTATE_MAP)
        return false;
    if (kind == KSTATE_LIST) {
        kcache_need(k, key, h, c);
        return c->len != CELL_EMPTY && has_chunk(k, c->u.p, s);
    }
    if ((c->flags & CELL_STORED) == 0)
        return false;
    c->flags &= (uint8_t)~CELL_STORED;
    key->live--;
    return false;
}

bool
kcache_adopt(struct kstate *k, uint32_t h, const struct kstate_entry *v,
             const struct kstate_stored *s)
{
    struct kcache *c = &k->cache;
    enum kstate_kind kind = k->handles[h].pub.kind;
    bool framed = kind == KSTATE_MAP || kind == KSTATE_LIST;
    uint64_t hash = hash_key(s->key.p, s->key.len);
    struct kkey *key;
    struct kcell *cell;

    if (s->what == KSTATE_IS_TIMER)
        return false;
    key = kkey_find(k, s->key.p, s->key.len, hash);
    cell = key != NULL ? kcell_of(k, key, h) : NULL;
    c->adopting = c->adopting || kstate_bytes(k) > c->budget / 2;
    if (!c->adopting || s->changed || (framed && v->key_len > KNAME_MAX) ||
        (kind == KSTATE_LIST && cell != NULL && cell->len != CELL_EMPTY))
        return key != NULL && make_way(k, key, h, s);
    if (key == NULL) {
        bool news = kcache_note(k, hash);

        c->evicted += news || kcache_is_whole(k, h); /* it is no other key */
    } else if ((cell->flags & CELL_STORED) == 0) {
        key->live += cell->len == CELL_EMPTY;
        cell->flags |= CELL_STORED;
    }
    if (kind == KSTATE_MAP)
        (void)kcache_note(
            k, kcache_item_hash(hash, h,
                                index_hash(hash_key(s->part.p, s->part.len))));
    return true;
}

/* ---- walks through what is in memory and what is not ---- */

struct kwalk {
    struct kwalk *next;
    struct kmap *map;
    const struct kview *view;
    uint32_t at;       /* in the view */
    struct buf bytes;  /* a piece of what the store has, */
    uint32_t n, stage; /* so many items, the next one */
    struct {
        size_t key, value;
        uint32_t key_len, value_len;
        int64_t time;
    } items[PIECE];
    bool end; /* the store has no more */
};

static void
walk_free(struct kwalk *w)
{
    buf_fini(&w->bytes);
    free(w);
}

void
kwalk_end(struct kstate *k)
{
    while (k->cache.walks != NULL) {
        struct kwalk *w = k->cache.walks;

        k->cache.walks = w->next;
        walk_free(w);
    }
}

void
kwalk_begin(struct kstate *k, struct kmap *m, struct kstate_iter *i)
{
    struct kwalk *w = mem_zalloc(sizeof *w);

    assert(k->in_call);
    w->map = m;
    w->view = kmap_view(k, m);
    buf_init(&w->bytes);
    w->next = k->cache.walks;
    k->cache.walks = w;
    i->walk = w;
    i->count = w->view->n;
}

struct taking {
    struct kstate *k;
    struct kwalk *w;
};

static int
take_item(void *arg, const struct snapshot_key *name, const void *value,
          size_t len, struct err *e)
{
    struct taking *t = arg;
    struct kwalk *w = t->w;
    const struct kmap *m = w->map;
    struct kstate_stored s;
    int r;

    if (name->key_len > KNAME_MAX)
        return 0; /* it is in memory */
    if (w->n == PIECE || w->bytes.len > PIECE_BYTES)
        return 1;
    r = read_entry(t->k, m->key, m->h, name, value, len, &s, e);
    if (r != 0)
        return r;
    w->items[w->n].key = w->bytes.len;
    w->items[w->n].key_len = s.part.len;
    buf_add(&w->bytes, s.part.p, s.part.len);
    w->items[w->n].value = w->bytes.len;
    w->items[w->n].value_len = s.value.len;
    w->items[w->n].time = kload_time(&t->k->handles[m->h], &s);
    buf_add(&w->bytes, s.value.p, s.value.len);
    w->n++;
    return 0;
}

static struct kstate_bytes
stage_key(const struct kwalk *w, uint32_t i)
{
    return (struct kstate_bytes){w->bytes.data + w->items[i].key,
                                 w->items[i].key_len};
}

static void
refill(struct kstate *k, struct kwalk *w)
{
    struct taking t = {.k = k, .w = w};
    struct kstate_bytes last = {0};
    char *copy = NULL;
    uint32_t n = w->n;

    if (n > 0) {
        last = stage_key(w, n - 1);
        last.p = copy = mem_dup(last.p, last.len);
    }
    buf_clear(&w->bytes);
    w->n = w->stage = 0;
    kcache_walk_map(k, w->map, n > 0 ? &last : NULL, take_item, &t);
    w->end = w->n == 0;
    free(copy);
}

static int
compare(const struct kstate_bytes *a, const struct kstate_bytes *b)
{
    uint32_t n = a->len < b->len ? a->len : b->len;
    int c = n != 0 ? memcmp(a->p, b->p, n) : 0;

    return c != 0 ? c : (a->len > b->len) - (a->len < b->len);
}

/* Whether the walk's view has a key. */
static bool
is_in_view(const struct kstate *k, const struct kwalk *w,
           const struct kstate_bytes *key)
{
    uint32_t lo = 0, hi = w->view->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const struct kitem *it = w->view->items[mid];
        struct kstate_bytes b = {kitem_key(k, it), it->e.extra};
        int c = compare(&b, key);

        if (c == 0)
            return true;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

/* What becomes of the next item of the store. */
enum stage_what {
    STAGE_SKIP, /* the view has it, it was removed or has expired */
    STAGE_ITEM, /* it is in memory since the walk began */
    STAGE_COPY, /* it is as the store says */
};

static enum stage_what
judge(struct kstate *k, const struct kwalk *w, struct kitem **ret)
{
    const struct khandle *h = &k->handles[w->map->h];
    struct kstate_bytes key = stage_key(w, w->stage);
    int64_t time = w->items[w->stage].time;
    struct kitem *it = kmap_find(k, w->map, &key);
    bool touch = false;

    if (it != NULL) {
        *ret = it;
        return (it->e.small & ITEM_TOMB) != 0 ||
                       (it->e.flags & ENTRY_KEPT) == 0 || is_in_view(k, w, &key)
                   ? STAGE_SKIP
                   : STAGE_ITEM;
    }
    if (!h->ttl)
        return STAGE_COPY;
    if (!kfresh(k, h, &time, &touch))
        return STAGE_SKIP;
    if (!touch)
        return STAGE_COPY;
    *ret = kcache_fetch_item(k, w->map, &key);
    return *ret != NULL ? STAGE_ITEM : STAGE_SKIP;
}

/* The next item of the store that comes. @return false: there is none. */
static bool
next_stage(struct kstate *k, struct kwalk *w, struct kitem **ret)
{
    for (;; w->stage++) {
        *ret = NULL;
        if (w->stage == w->n && !w->end)
            refill(k, w);
        if (w->end || k->cache.failed)
            return false;
        if (judge(k, w, ret) != STAGE_SKIP)
            return true;
    }
}

/* The next item of the view that was not removed. */
static struct kitem *
next_in_view(struct kwalk *w)
{
    while (w->at < w->view->n) {
        struct kitem *it = w->view->items[w->at];

        if ((it->e.small & ITEM_REMOVED) == 0)
            return it;
        w->at++;
    }
    return NULL;
}

static bool
give_item(struct kstate *k, struct kitem *it, struct kstate_bytes *key,
          struct kstate_bytes *value)
{
    if (!kitem_read(k, it->map->h, it))
        return false;
    *key = (struct kstate_bytes){kitem_key(k, it), it->e.extra};
    *value = (struct kstate_bytes){kcell_bytes(&it->cell), it->cell.len};
    return true;
}

bool
kwalk_next(struct kstate *k, struct kstate_iter *i, struct kstate_bytes *key,
           struct kstate_bytes *value)
{
    struct kwalk *w = i->walk;

    for (;;) {
        struct kitem *it, *stored;
        bool more = next_stage(k, w, &stored);
        uint32_t at = w->stage;

        it = next_in_view(w);
        if (it == NULL && !more)
            return false;
        if (it != NULL && more) {
            struct kstate_bytes a = {kitem_key(k, it), it->e.extra};
            struct kstate_bytes b = stage_key(w, at);

            more = compare(&b, &a) < 0;
        }
        if (!more) {
            w->at++;
            if (give_item(k, it, key, value))
                return true;
            continue;
        }
        w->stage++;
        if (stored == NULL) {
            *key = stage_key(w, at);
            value->p = w->bytes.data + w->items[at].value;
            value->len = w->items[at].value_len;
            return true;
        }
        if (give_item(k, stored, key, value))
            return true;
    }
}
