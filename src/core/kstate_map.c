#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "core/kstate_impl.h"

/* ---- items ---- */

static uint32_t
item_key_at(const struct kstate *k, uint32_t h)
{
    return (uint32_t)(sizeof(struct kitem) +
                      (k->handles[h].ttl ? sizeof(int64_t) : 0));
}

char *
kitem_key(const struct kstate *k, const struct kitem *it)
{
    return (char *)(uintptr_t)it + item_key_at(k, it->map->h);
}

struct name {
    const struct kstate_bytes *key;
    uint32_t key_at;
};

static bool
same(const struct entry *en, const void *arg)
{
    const struct name *n = arg;

    return en->extra == n->key->len &&
           (n->key->len == 0 ||
            memcmp((const char *)en + n->key_at, n->key->p, n->key->len) == 0);
}

static uint32_t
hash_of(const struct kstate_bytes *key)
{
    return index_hash(hash_key(key->p, key->len));
}

struct kitem *
kmap_find(const struct kstate *k, const struct kmap *m,
          const struct kstate_bytes *key)
{
    const struct name n = {.key = key, .key_at = item_key_at(k, m->h)};

    return (struct kitem *)index_find(&m->index, hash_of(key), same, &n);
}

/* The map grows or shrinks: its index is counted, its view does not fit. */
static void
changed(struct kstate *k, struct kmap *m, size_t index_bytes)
{
    k->bytes += m->index.bytes - index_bytes;
    m->view_fits = false;
}

struct kitem *
kmap_add(struct kstate *k, struct kmap *m, const struct kstate_bytes *key)
{
    uint32_t at = item_key_at(k, m->h);
    struct kitem *it = kalloc(k, (size_t)at + key->len);
    size_t was = m->index.bytes;

    memset(it, 0, at);
    it->e.hash = hash_of(key);
    it->e.type = ENTRY_ITEM;
    it->e.extra = key->len;
    it->map = m;
    it->cell.len = CELL_EMPTY;
    if (key->len != 0)
        memcpy((char *)it + at, key->p, key->len);
    index_add(&m->index, &it->e);
    changed(k, m, was);
    return it;
}

void
kmap_take(struct kstate *k, struct kitem *it)
{
    struct kmap *m = it->map;
    size_t was = m->index.bytes;

    index_remove(&m->index, &it->e);
    changed(k, m, was);
    it->e.small |= ITEM_REMOVED;
    m->tombs -= (it->e.small & ITEM_TOMB) != 0;
}

void
kmap_put_back(struct kstate *k, struct kitem *it)
{
    struct kmap *m = it->map;
    size_t was = m->index.bytes;

    index_add(&m->index, &it->e);
    changed(k, m, was);
    it->e.small &= (uint16_t)~ITEM_REMOVED;
    m->tombs += (it->e.small & ITEM_TOMB) != 0;
}

void
kitem_bury(struct kstate *k, struct kitem *it)
{
    kbytes_drop(k, &it->cell);
    it->cell.len = CELL_EMPTY;
    it->e.small |= ITEM_TOMB;
    it->map->tombs++;
    it->map->view_fits = false;
}

/* In place of an item that was taken out in this call. */
static void
put_tomb(struct kstate *k, struct kmap *m, const struct kstate_bytes *key)
{
    struct kitem *it = kmap_add(k, m, key);

    it->e.small |= ITEM_TOMB;
    m->tombs++;
    (void)klog_add(k, UNDO_ITEM_NEW, it);
    entry_rounds_touch(&k->rounds, &it->e);
}

void
kitem_drop(struct kstate *k, struct kitem *it)
{
    entry_rounds_leave(&k->rounds, &it->e);
    if ((it->e.flags & ENTRY_KEPT) != 0)
        ksave_delete(k, &it->e);
    kbytes_drop(k, &it->cell);
    kfree(k, it, (size_t)item_key_at(k, it->map->h) + it->e.extra);
}

/* ---- maps ---- */

static size_t
view_size(uint32_t n)
{
    return sizeof(struct kview) + n * sizeof(struct kitem *);
}

/* The view is not looked at any more, but by walks of this call. */
static void
drop_view(struct kstate *k, struct kmap *m)
{
    struct kundo *u;

    if (m->view == NULL)
        return;
    u = klog_add(k, UNDO_FREE, m->view);
    u->time = (int64_t)view_size(m->view->n);
    m->view = NULL;
    klog_settle(k);
}

struct kmap *
kmap_make(struct kstate *k, struct kkey *key, uint32_t h)
{
    struct kmap *m = kalloc(k, sizeof *m);

    memset(m, 0, sizeof *m);
    m->key = key;
    m->h = h;
    index_init(&m->index);
    return m;
}

void
kmap_drop(struct kstate *k, struct kmap *m)
{
    struct index_iter i = {0};
    struct entry *en;

    while ((en = index_next(&m->index, &i)) != NULL)
        kitem_drop(k, (struct kitem *)en);
    k->bytes -= m->index.bytes;
    index_fini(&m->index);
    if (m->view != NULL)
        kfree(k, m->view, view_size(m->view->n));
    kfree(k, m, sizeof *m);
}

void
kmap_forget_view(struct kstate *k, struct kmap *m)
{
    if (m->view != NULL)
        kfree(k, m->view, view_size(m->view->n));
    m->view = NULL;
    m->view_fits = false;
}

/* The map of the current key, or NULL. */
static struct kmap *
map_of(struct kstate *k, uint32_t h)
{
    struct kcell *c;

    assert(h < k->count && k->handles[h].pub.kind == KSTATE_MAP);
    if (k->cur == NULL)
        return NULL;
    c = kcell_of(k, k->cur, h);
    if (c->len == CELL_EMPTY && (c->flags & CELL_STORED) != 0) {
        c->u.p = kmap_make(k, k->cur, h);
        c->len = 0; /* it is counted already */
    }
    return c->len == CELL_EMPTY ? NULL : c->u.p;
}

/* Find an item, wherever it is. @param ret_tomb set to what says that there is
 * none, or NULL. */
static struct kitem *
look(struct kstate *k, struct kmap *m, const struct kstate_bytes *key,
     struct kitem **ret_tomb)
{
    struct kitem *it;

    *ret_tomb = NULL;
    if (m == NULL)
        return NULL;
    it = kmap_find(k, m, key);
    if (!kcache_is_on(k))
        return it;
    if (it == NULL)
        return kcache_fetch_item(k, m, key);
    it->e.small |= ITEM_USED;
    if ((it->e.small & ITEM_TOMB) == 0)
        return it;
    *ret_tomb = it;
    return NULL;
}

/* ---- reading ---- */

bool
kitem_read(struct kstate *k, uint32_t h, struct kitem *it)
{
    struct khandle *hd = &k->handles[h];
    bool touch;

    if (!hd->ttl)
        return true;
    if (!kfresh(k, hd, ktime_of(&it->cell), &touch))
        return false;
    if (touch) {
        entry_rounds_touch(&k->rounds, &it->e);
        klog_time(k, h, ktime_of(&it->cell));
    }
    return true;
}

const void *
kstate_map_get(struct kstate *k, uint32_t h, const struct kstate_bytes *key,
               uint32_t *ret_len)
{
    struct kitem *tomb, *it = look(k, map_of(k, h), key, &tomb);

    if (it == NULL || !kitem_read(k, h, it))
        return NULL;
    *ret_len = it->cell.len;
    return kcell_bytes(&it->cell);
}

bool
kstate_map_has(struct kstate *k, uint32_t h, const struct kstate_bytes *key)
{
    const struct khandle *hd = &k->handles[h];
    struct kitem *tomb, *it = look(k, map_of(k, h), key, &tomb);

    return it != NULL &&
           !(hd->ttl && kexpired(hd, *ktime_of(&it->cell), know(k, hd)));
}

/* ---- changing ---- */

static int
check(const struct kstate *k, uint32_t h, const struct kstate_bytes *key,
      const struct kstate_bytes *value, struct err *e)
{
    if (value->len > KSTATE_VALUE_MAX)
        return kstate_too_large(k, h, value->len, e);
    if (key->len > KEY_SIZE_MAX)
        return err_record(e, CAUSE_USER_ERROR,
                          "a key of map state '%s' has %u bytes; %d are the "
                          "limit",
                          k->handles[h].pub.name, key->len, KEY_SIZE_MAX);
    return 0;
}

int
kstate_map_put(struct kstate *k, uint32_t h, const struct kstate_bytes *key,
               const struct kstate_bytes *value, struct err *e)
{
    struct khandle *hd = &k->handles[h];
    struct kmap *m = map_of(k, h);
    struct kitem *it, *tomb;
    int r = check(k, h, key, value, e);

    if (r != 0)
        return r;
    if (m == NULL) {
        struct kcell *c = kcell_of(k, kkey_current(k), h);

        klog_cell(k, UNDO_SWAP, h, c);
        c->u.p = m = kmap_make(k, k->cur, h);
        c->len = 0;
        k->cur->live++;
    }
    it = look(k, m, key, &tomb);
    if (it == NULL) {
        if (tomb != NULL) {
            kmap_take(k, tomb);
            (void)klog_add(k, UNDO_ITEM_GONE, tomb);
        }
        it = kmap_add(k, m, key);
        if (kcache_is_on(k))
            it->e.small |= tomb == NULL ? ITEM_USED | ITEM_FRESH : ITEM_USED;
        (void)klog_add(k, UNDO_ITEM_NEW, it);
        entry_rounds_touch(&k->rounds, &it->e);
    } else {
        entry_rounds_touch(&k->rounds, &it->e);
        klog_cell(k, UNDO_CELL, h, &it->cell);
    }
    kcell_fill(k, &it->cell, value->p, value->len);
    if (hd->ttl)
        *ktime_of(&it->cell) = know(k, hd);
    klog_settle(k);
    return 0;
}

/* Take an item out of its map; the caller settles. */
static void
remove_item(struct kstate *k, struct kmap *m, struct kitem *it)
{
    bool gone = !kcache_is_on(k) ||
                kcache_is_new(k, &it->e, (it->e.small & ITEM_FRESH) != 0);

    kmap_take(k, it);
    (void)klog_add(k, UNDO_ITEM_GONE, it);
    if (!gone) {
        struct kstate_bytes key = {kitem_key(k, it), it->e.extra};

        put_tomb(k, m, &key);
    }
    k->emptied = k->emptied || m->index.count == 0;
}

bool
kstate_map_remove(struct kstate *k, uint32_t h, const struct kstate_bytes *key)
{
    struct kmap *m = map_of(k, h);
    struct kitem *tomb, *it = look(k, m, key, &tomb);

    if (it == NULL)
        return false;
    remove_item(k, m, it);
    klog_settle(k);
    return true;
}

/* Whether rounds or the store may have anything of a map. */
static bool
has_past(const struct kstate *k, const struct kmap *m)
{
    struct index_iter at = {0};
    struct entry *en;

    while ((en = index_next(&m->index, &at)) != NULL)
        if (!kcache_is_new(k, en, (en->small & ITEM_FRESH) != 0))
            return true;
    return false;
}

struct clearing {
    struct kstate *k;
    struct kmap *m;
};

static int
clear_stored(void *arg, const struct snapshot_key *key, const void *value,
             size_t value_len, struct err *e)
{
    struct clearing *c = arg;
    struct kstate_bytes part = kcache_part(c->m, key);

    (void)value;
    (void)value_len;
    (void)e;
    if (kmap_find(c->k, c->m, &part) == NULL)
        put_tomb(c->k, c->m, &part);
    return 0;
}

bool
kmap_clear(struct kstate *k, uint32_t h)
{
    struct kmap *m = map_of(k, h);
    struct clearing c = {.k = k, .m = m};
    const struct kview *v;
    bool stored;
    uint32_t i, n;

    if (m == NULL)
        return false;
    stored = (kcell_of(k, k->cur, h)->flags & CELL_STORED) != 0;
    if (!stored && !has_past(k, m))
        return false;
    if (m->index.count != m->tombs) {
        v = kmap_view(k, m);
        for (i = 0, n = v->n; i < n; i++)
            remove_item(k, m, v->items[i]);
    }
    if (stored)
        kcache_walk_map(k, m, NULL, clear_stored, &c);
    klog_settle(k);
    return true;
}

/* ---- walking ---- */

static const char *
sort_key(const void *arg, const struct entry *en, uint32_t *ret_len)
{
    *ret_len = en->extra;
    return kitem_key(arg, (const struct kitem *)en);
}

static void
make_view(struct kstate *k, struct kmap *m)
{
    uint32_t n = (uint32_t)m->index.count - m->tombs, i;
    struct index_iter at = {0};
    struct entry_sort s;
    struct entry *en;

    drop_view(k, m);
    sort_init(&s, sort_key, k);
    while ((en = index_next(&m->index, &at)) != NULL)
        if ((en->small & ITEM_TOMB) == 0)
            sort_add(&s, en);
    sort_begin(&s);
    if (n != 0)
        sort_upto(&s, n - 1);
    m->view = kalloc(k, view_size(n));
    m->view->map = m;
    m->view->n = n;
    for (i = 0; i < n; i++)
        m->view->items[i] = (struct kitem *)s.items[i].en;
    sort_fini(&s);
    m->view_fits = true;
}

const struct kview *
kmap_view(struct kstate *k, struct kmap *m)
{
    if (!m->view_fits)
        make_view(k, m);
    return m->view;
}

void
kstate_map_begin(struct kstate *k, uint32_t h, struct kstate_iter *i)
{
    struct kmap *m = map_of(k, h);

    memset(i, 0, sizeof *i);
    i->h = h;
    if (m != NULL && (kcell_of(k, k->cur, h)->flags & CELL_STORED) != 0) {
        kwalk_begin(k, m, i);
        return;
    }
    if (m == NULL || m->index.count == m->tombs)
        return;
    i->view = kmap_view(k, m);
    i->count = m->view->n;
}

bool
kstate_map_next(struct kstate *k, struct kstate_iter *i,
                struct kstate_bytes *key, struct kstate_bytes *value)
{
    const struct kview *v = i->view;

    if (i->walk != NULL)
        return kwalk_next(k, i, key, value);
    if (v == NULL || map_of(k, i->h) != v->map)
        return false; /* cleared meanwhile */
    while (i->at < v->n) {
        struct kitem *it = v->items[i->at++];

        if ((it->e.small & ITEM_REMOVED) != 0 || !kitem_read(k, i->h, it))
            continue;
        key->p = kitem_key(k, it);
        key->len = it->e.extra;
        value->p = kcell_bytes(&it->cell);
        value->len = it->cell.len;
        return true;
    }
    return false;
}
