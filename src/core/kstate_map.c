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
}

void
kmap_put_back(struct kstate *k, struct kitem *it)
{
    struct kmap *m = it->map;
    size_t was = m->index.bytes;

    index_add(&m->index, &it->e);
    changed(k, m, was);
    it->e.small &= (uint16_t)~ITEM_REMOVED;
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

/* The map of the current key, or NULL. */
static struct kmap *
map_of(const struct kstate *k, uint32_t h)
{
    struct kcell *c;

    assert(h < k->count && k->handles[h].pub.kind == KSTATE_MAP);
    if (k->cur == NULL)
        return NULL;
    c = kcell_of(k, k->cur, h);
    return c->len == CELL_EMPTY ? NULL : c->u.p;
}

/* ---- reading ---- */

/* Whether an item may be returned; then it counts as read. */
static bool
read_item(struct kstate *k, uint32_t h, struct kitem *it)
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
    struct kmap *m = map_of(k, h);
    struct kitem *it = m != NULL ? kmap_find(k, m, key) : NULL;

    if (it == NULL || !read_item(k, h, it))
        return NULL;
    *ret_len = it->cell.len;
    return kcell_bytes(&it->cell);
}

bool
kstate_map_has(struct kstate *k, uint32_t h, const struct kstate_bytes *key)
{
    const struct khandle *hd = &k->handles[h];
    struct kmap *m = map_of(k, h);
    struct kitem *it = m != NULL ? kmap_find(k, m, key) : NULL;

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
    struct kitem *it;
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
    it = kmap_find(k, m, key);
    if (it == NULL) {
        it = kmap_add(k, m, key);
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

bool
kstate_map_remove(struct kstate *k, uint32_t h, const struct kstate_bytes *key)
{
    struct kmap *m = map_of(k, h);
    struct kitem *it = m != NULL ? kmap_find(k, m, key) : NULL;

    if (it == NULL)
        return false;
    kmap_take(k, it);
    (void)klog_add(k, UNDO_ITEM_GONE, it);
    k->emptied = k->emptied || m->index.count == 0;
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
    uint32_t n = (uint32_t)m->index.count, i;
    struct index_iter at = {0};
    struct entry_sort s;
    struct entry *en;

    drop_view(k, m);
    sort_init(&s, sort_key, k);
    while ((en = index_next(&m->index, &at)) != NULL)
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

void
kstate_map_begin(struct kstate *k, uint32_t h, struct kstate_iter *i)
{
    struct kmap *m = map_of(k, h);

    memset(i, 0, sizeof *i);
    i->h = h;
    if (m == NULL || m->index.count == 0)
        return;
    if (!m->view_fits)
        make_view(k, m);
    i->view = m->view;
    i->count = m->view->n;
}

bool
kstate_map_next(struct kstate *k, struct kstate_iter *i,
                struct kstate_bytes *key, struct kstate_bytes *value)
{
    const struct kview *v = i->view;

    if (v == NULL || map_of(k, i->h) != v->map)
        return false; /* cleared meanwhile */
    while (i->at < v->n) {
        struct kitem *it = v->items[i->at++];

        if ((it->e.small & ITEM_REMOVED) != 0 || !read_item(k, i->h, it))
            continue;
        key->p = kitem_key(k, it);
        key->len = it->e.extra;
        value->p = kcell_bytes(&it->cell);
        value->len = it->cell.len;
        return true;
    }
    return false;
}
