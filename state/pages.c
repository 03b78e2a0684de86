#include "state/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state/entry.h"
#include "state/wire.h"

enum {
    PAGE_HEAD = 16,
    NODE_HEAD = 8,
    TREE_SIZE = 48,
    META_SIZE = 136,
    DEPTH_MAX = 32, /* CURSOR_STACK */
    READ_STEP = 1 << 20
};

enum { PAGE_BRANCH = 1, PAGE_LEAF = 2, PAGE_OVERFLOW = 4, PAGE_META = 8 };
enum { NODE_BIG = 1, NODE_TREE = 2 };

#define MAGIC 0xBEEFC0DEu
#define NO_PAGE UINT64_MAX
#define DATA_VERSION 1u
#define FREE_LIST_FLAGS 8u /* MDB_INTEGERKEY */

/* Native byte order: that is how LMDB writes. */
static uint16_t
get16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t
get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t
get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static int damaged(struct pages *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

static int
damaged(struct pages *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(p->place, sizeof p->place, fmt, ap);
    va_end(ap);
    return ERR_IO;
}

/* --- meta pages ------------------------------------------------------------
 */

static void
read_tree(const uint8_t *b, struct pages_tree *ret)
{
    ret->flags = get16(b + 4);
    ret->depth = get16(b + 6);
    ret->branch_pages = get64(b + 8);
    ret->leaf_pages = get64(b + 16);
    ret->overflow_pages = get64(b + 24);
    ret->entries = get64(b + 32);
    ret->root = get64(b + 40);
}

void
pages_tree_read(const struct pages_node *node, struct pages_tree *ret)
{
    read_tree(node->value, ret);
}

static bool
page_size_is_possible(uint32_t size)
{
    return size >= 512 && size <= 32768 && (size & (size - 1)) == 0;
}

static int
read_meta(struct pages *p, const uint8_t *page, unsigned n, struct err *e)
{
    struct pages_meta *m = &p->metas[n];
    const uint8_t *b = page + PAGE_HEAD;

    if (get32(b) == __builtin_bswap32(MAGIC))
        return err_set(e, ERR_CONFIG,
                       "it was written on a machine with the other byte "
                       "order");
    if (get32(b) != MAGIC)
        return err_set(e, ERR_IO, "meta page %u has no magic number", n);
    if (get32(b + 4) != DATA_VERSION)
        return err_set(e, ERR_CONFIG,
                       "meta page %u has LMDB data version %" PRIu32
                       ", this program reads %u",
                       n, get32(b + 4), DATA_VERSION);
    m->page_size = get32(b + 24);
    m->env_flags = get16(b + 28);
    read_tree(b + 24, &m->free_list);
    read_tree(b + 24 + TREE_SIZE, &m->main);
    m->last_page = get64(b + 24 + 2 * TREE_SIZE);
    m->txnid = get64(b + 32 + 2 * TREE_SIZE);
    if (get64(page) != n || get16(page + 10) != PAGE_META ||
        !page_size_is_possible(m->page_size) || get64(b + 8) != 0 ||
        m->env_flags != FREE_LIST_FLAGS || m->main.flags != 0 ||
        (m->txnid != 0 && (m->txnid & 1) != n))
        return err_set(e, ERR_IO, "meta page %u", n);
    return 0;
}

/* The second meta page lies one page behind, of a size the first one says. */
static int
read_metas(struct pages *p, bool live, struct err *e)
{
    uint64_t a, b;
    int r;

    if (p->size < PAGE_HEAD + META_SIZE)
        return err_set(e, ERR_IO, "%zu bytes are no store", p->size);
    r = read_meta(p, p->map, 0, e);
    if (r != 0)
        return r;
    if (p->size < 2 * (size_t)p->metas[0].page_size)
        return err_set(e, ERR_IO, "cut off after %zu bytes", p->size);
    r = read_meta(p, p->map + p->metas[0].page_size, 1, e);
    if (r != 0)
        return r;
    a = p->metas[0].txnid;
    b = p->metas[1].txnid;
    if (p->metas[0].page_size != p->metas[1].page_size ||
        (!live && a != b + 1 && b != a + 1 && !(a == 0 && b == 0)))
        return err_set(e, ERR_IO,
                       "meta pages disagree: %" PRIu64 " and %" PRIu64, a, b);
    p->newest = a < b;
    p->count = p->size / p->metas[0].page_size;
    return 0;
}

/*
 * Read the file once through the kernel's front door: a bad sector is an
 * error here and a dead process in the map. It also loads the file in order.
 */
static int
read_through(int fd, size_t size, struct err *e)
{
    uint8_t *buf = wire_malloc(READ_STEP);
    size_t at = 0;
    int r = 0;

    if (buf == NULL)
        return err_set(e, ERR_NOMEM, "no memory to read it");
    while (r == 0 && at < size) {
        ssize_t n = pread(fd, buf, READ_STEP, (off_t)at);

        if (n > 0)
            at += (size_t)n;
        else if (n == 0)
            r = err_set(e, ERR_IO, "it shrinks while it is read");
        else if (errno != EINTR)
            r = err_set(e, ERR_IO, "cannot read at byte %zu: %s", at,
                        strerror(errno));
    }
    free(buf);
    return r;
}

int
pages_open(struct pages *p, const char *path, bool live, struct err *e)
{
    struct stat st;
    void *map;
    int fd, r;

    memset(p, 0, sizeof *p);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return err_set(e, ERR_IO, "cannot open it: %s", strerror(errno));
    if (fstat(fd, &st) != 0) {
        r = err_set(e, ERR_IO, "cannot look at it: %s", strerror(errno));
        goto done;
    }
    p->size = (size_t)st.st_size;
    r = read_through(fd, p->size, e);
    if (r != 0)
        goto done;
    if (p->size == 0) {
        r = err_set(e, ERR_IO, "it is empty");
        goto done;
    }
    map = mmap(NULL, p->size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        r = err_set(e, ERR_IO, "cannot map it: %s", strerror(errno));
        goto done;
    }
    p->map = map;
    r = read_metas(p, live, e);
    if (r == 0) {
        p->used = wire_malloc(p->count / 8 + 1);
        if (p->used == NULL)
            r = err_set(e, ERR_NOMEM, "no memory to check it");
        else
            memset(p->used, 0, p->count / 8 + 1);
    }
done:
    (void)close(fd);
    if (r != 0)
        pages_close(p);
    return r;
}

void
pages_close(struct pages *p)
{
    if (p->map != NULL)
        (void)munmap((void *)(uintptr_t)p->map, p->size);
    free(p->used);
    p->map = NULL;
    p->used = NULL;
}

/* --- trees ------------------------------------------------------------------
 */

struct bytes {
    const uint8_t *at;
    size_t len;
};

struct walk {
    struct pages *p;
    const struct pages_meta *meta;
    unsigned flags;
    pages_node_f fn;
    void *arg;
    struct pages_tree seen; /* counts so far */
    uint16_t depth;
    struct bytes last; /* key before this one, at NULL before the first */
};

static int
mark(struct walk *w, uint64_t first, uint64_t n)
{
    struct pages *p = w->p;
    uint64_t i;

    if (first < 2 || n == 0 || first > w->meta->last_page ||
        first >= p->count || n > p->count - first ||
        n - 1 > w->meta->last_page - first)
        return damaged(p, "page %" PRIu64 " is not in the file", first);
    if ((w->flags & PAGES_MARK) == 0)
        return 0;
    for (i = first; i < first + n; i++) {
        if ((p->used[i / 8] >> (i % 8) & 1) != 0)
            return damaged(p, "page %" PRIu64 " is used twice", i);
        p->used[i / 8] |= (uint8_t)(1u << (i % 8));
    }
    if (p->highest < first + n - 1)
        p->highest = first + n - 1;
    return 0;
}

static int
key_cmp(const struct walk *w, struct bytes a, struct bytes b)
{
    if ((w->flags & PAGES_INTEGER) != 0) {
        uint64_t x = get64(a.at), y = get64(b.at);

        return (x > y) - (x < y);
    }
    return entry_key_cmp(a.at, a.len, b.at, b.len);
}

/* The value of a leaf's node, in the page or on pages of its own. */
static int
big_value(struct walk *w, const uint8_t *ref, struct pages_node *node)
{
    uint32_t size = w->meta->page_size;
    uint64_t first = get64(ref), n;
    const uint8_t *page;
    int r;

    n = (PAGE_HEAD - 1 + node->value_len) / size + 1;
    r = mark(w, first, n);
    if (r != 0)
        return r;
    page = w->p->map + first * size;
    if (get64(page) != first || get16(page + 10) != PAGE_OVERFLOW ||
        get32(page + 12) != n)
        return damaged(w->p, "overflow page %" PRIu64, first);
    w->seen.overflow_pages += n;
    node->value = page + PAGE_HEAD;
    return 0;
}

static int
leaf_node(struct walk *w, const uint8_t *b, size_t room, uint64_t page,
          size_t *ret_size)
{
    struct pages_node node = {
        .key = b + NODE_HEAD,
        .key_len = get16(b + 6),
        .value_len = (size_t)get16(b) | (size_t)get16(b + 2) << 16,
    };
    unsigned flags = get16(b + 4);
    size_t inside = (flags & NODE_BIG) != 0 ? 8 : node.value_len;
    struct bytes key = {node.key, node.key_len};
    int r;

    if ((flags & ~(unsigned)(NODE_BIG | NODE_TREE)) != 0 || node.key_len == 0 ||
        node.key_len > ENTRY_KEY_LONG || inside > room ||
        NODE_HEAD + node.key_len + inside > room ||
        ((w->flags & PAGES_INTEGER) != 0 && node.key_len != 8) ||
        (flags == NODE_TREE && node.value_len != TREE_SIZE) ||
        flags == (NODE_BIG | NODE_TREE))
        return damaged(w->p, "a node of page %" PRIu64, page);
    if (w->last.at != NULL && key_cmp(w, w->last, key) >= 0)
        return damaged(w->p, "keys of page %" PRIu64 " out of order", page);
    *ret_size = (NODE_HEAD + node.key_len + inside + 1) & ~(size_t)1;
    node.value = node.key + node.key_len;
    node.is_tree = flags == NODE_TREE;
    if (flags == NODE_BIG) {
        r = big_value(w, node.value, &node);
        if (r != 0)
            return r;
    }
    w->last = key;
    w->seen.entries++;
    return w->fn(w->arg, &node);
}

static int walk_page(struct walk *w, uint64_t number, unsigned depth,
                     struct bytes low, struct bytes high);

/* The i-th node of a page: NULL, or its head and key lie in the page. */
static const uint8_t *
node_at(struct walk *w, const uint8_t *page, unsigned i, struct bytes *ret_key)
{
    uint32_t size = w->meta->page_size;
    unsigned at = get16(page + PAGE_HEAD + 2 * (size_t)i);
    size_t key_len;

    if (at < get16(page + 14) || (at & 1) != 0 || at + NODE_HEAD > size)
        return NULL;
    key_len = get16(page + at + 6);
    if (at + NODE_HEAD + key_len > size || key_len > ENTRY_KEY_LONG ||
        ((w->flags & PAGES_INTEGER) != 0 && key_len != 8 &&
         (i != 0 || key_len != 0)))
        return NULL;
    *ret_key = (struct bytes){page + at + NODE_HEAD, key_len};
    return page + at;
}

/* Nodes lie anywhere in the upper part, but leave no gap and no overlap:
 * their sizes add up to it. */
static int
walk_leaf(struct walk *w, uint64_t number, struct bytes low, struct bytes high)
{
    uint32_t size = w->meta->page_size;
    const uint8_t *page = w->p->map + number * size;
    unsigned n = (get16(page + 12) - PAGE_HEAD) / 2u, i;
    size_t sum = 0, node_size = 0;

    for (i = 0; i < n; i++) {
        struct bytes key = {NULL, 0};
        const uint8_t *b = node_at(w, page, i, &key);
        int r;

        if (b == NULL || key.len == 0)
            return damaged(w->p, "a node of page %" PRIu64, number);
        if ((i == 0 && low.at != NULL && key_cmp(w, low, key) > 0) ||
            (high.at != NULL && key_cmp(w, key, high) >= 0))
            return damaged(w->p, "keys of page %" PRIu64 " out of bounds",
                           number);
        r = leaf_node(w, b, (size_t)(page + size - b), number, &node_size);
        if (r != 0)
            return r;
        sum += node_size;
    }
    if (sum != size - get16(page + 14))
        return damaged(w->p, "the nodes of page %" PRIu64, number);
    return 0;
}

static int
walk_branch(struct walk *w, uint64_t number, unsigned depth, struct bytes low,
            struct bytes high)
{
    uint32_t size = w->meta->page_size;
    const uint8_t *page = w->p->map + number * size;
    unsigned n = (get16(page + 12) - PAGE_HEAD) / 2u, i;
    struct bytes key, next = {NULL, 0};
    const uint8_t *b = node_at(w, page, 0, &key), *after;
    size_t sum = 0;

    for (i = 0; i < n; i++, b = after, key = next) {
        int r;

        after = i + 1 < n ? node_at(w, page, i + 1, &next) : NULL;
        if (b == NULL || (i + 1 < n && (after == NULL || next.len == 0)))
            return damaged(w->p, "a node of page %" PRIu64, number);
        r = walk_page(w,
                      (uint64_t)get16(b) | (uint64_t)get16(b + 2) << 16 |
                          (uint64_t)get16(b + 4) << 32,
                      depth + 1, i == 0 ? low : key, i + 1 < n ? next : high);
        if (r != 0)
            return r;
        sum += (NODE_HEAD + key.len + 1) & ~(size_t)1;
    }
    if (sum != size - get16(page + 14))
        return damaged(w->p, "the nodes of page %" PRIu64, number);
    return 0;
}

static int
walk_page(struct walk *w, uint64_t number, unsigned depth, struct bytes low,
          struct bytes high)
{
    uint32_t size = w->meta->page_size;
    unsigned lower, upper, kind = depth == w->depth ? PAGE_LEAF : PAGE_BRANCH;
    const uint8_t *page;
    int r = mark(w, number, 1);

    if (r != 0)
        return r;
    page = w->p->map + number * size;
    lower = get16(page + 12);
    upper = get16(page + 14);
    if (get64(page) != number || get16(page + 10) != kind ||
        lower < PAGE_HEAD + 2 || (lower & 1) != 0 || lower > upper ||
        upper > size || (kind == PAGE_BRANCH && lower < PAGE_HEAD + 4))
        return damaged(w->p, "page %" PRIu64, number);
    if (kind == PAGE_LEAF)
        w->seen.leaf_pages++;
    else
        w->seen.branch_pages++;
    return kind == PAGE_LEAF ? walk_leaf(w, number, low, high)
                             : walk_branch(w, number, depth, low, high);
}

static int
walk_tree(struct pages *p, const struct pages_meta *meta,
          const struct pages_tree *t, struct walk *w)
{
    struct bytes none = {NULL, 0};
    int r;

    w->p = p;
    w->meta = meta;
    w->depth = t->depth;
    if (t->root == NO_PAGE) {
        if (t->depth != 0 || t->entries != 0 || t->branch_pages != 0 ||
            t->leaf_pages != 0 || t->overflow_pages != 0)
            return damaged(p, "an empty tree with counts");
        return 0;
    }
    if (t->depth == 0 || t->depth > DEPTH_MAX)
        return damaged(p, "a tree %u pages deep", t->depth);
    r = walk_page(w, t->root, 1, none, none);
    if (r != 0)
        return r;
    if (w->seen.branch_pages != t->branch_pages ||
        w->seen.leaf_pages != t->leaf_pages ||
        w->seen.overflow_pages != t->overflow_pages ||
        w->seen.entries != t->entries)
        return damaged(p, "%" PRIu64 " entries instead of %" PRIu64,
                       w->seen.entries, t->entries);
    return 0;
}

int
pages_walk(struct pages *p, const struct pages_tree *t, unsigned flags,
           pages_node_f fn, void *arg)
{
    const struct pages_meta *meta = &p->metas[p->newest];
    struct walk w = {.flags = flags, .fn = fn, .arg = arg};

    if ((flags & PAGES_INTEGER) == 0 && t->flags != 0)
        return damaged(p, "a tree with flags %u", t->flags);
    return walk_tree(p, meta, t, &w);
}

/* One entry of the free list: a count, then page numbers, falling. */
static int
free_node(void *arg, const struct pages_node *node)
{
    struct walk *w = arg;
    uint64_t n, i, before = NO_PAGE;

    if (node->is_tree || node->value_len < 8 ||
        get64(node->key) > w->meta->txnid)
        return damaged(w->p, "the free list");
    n = get64(node->value);
    if (n > node->value_len / 8 - 1)
        return damaged(w->p, "the free list");
    for (i = 0; i < n; i++) {
        uint64_t page = get64(node->value + 8 + 8 * i);

        if (page < 2 || page >= before || page > w->meta->last_page)
            return damaged(w->p, "the free list");
        before = page;
        if (page >= w->p->count)
            continue; /* never written, behind the end of the file */
        if ((w->p->used[page / 8] >> (page % 8) & 1) != 0)
            return damaged(w->p, "page %" PRIu64 " is free and used", page);
        w->p->used[page / 8] |= (uint8_t)(1u << (page % 8));
    }
    if (n != 0 && w->p->highest < get64(node->value + 8))
        w->p->highest = get64(node->value + 8);
    w->p->free_pages += n;
    return 0;
}

int
pages_walk_free(struct pages *p)
{
    const struct pages_meta *meta = &p->metas[p->newest];
    struct walk inner = {.p = p, .meta = meta};
    struct pages_tree t = meta->free_list;

    inner.flags = PAGES_MARK;
    return pages_walk(p, &t, PAGES_MARK | PAGES_INTEGER, free_node, &inner);
}
