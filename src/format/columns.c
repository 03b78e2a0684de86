#include "format/reader_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/reader.h"

void
columns_init(struct columns *c)
{
    memset(c, 0, sizeof *c);
    c->root.col = -1;
    arena_init(&c->arena);
}

static void
node_fini(struct node *n)
{
    uint32_t i;

    for (i = 0; i < n->count; i++)
        node_fini(n->child[i]);
    free(n->child);
    free(n->hash);
}

void
columns_fini(struct columns *c)
{
    node_fini(&c->root);
    free(c->node);
    arena_fini(&c->arena);
    memset(c, 0, sizeof *c);
}

static uint32_t
name_hash(const char *name, uint32_t len)
{
    uint32_t h = len * 0x9E3779B1u;
    uint32_t i;

    for (i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 0x01000193u;
    return h ^ h >> 15;
}

static bool
is_named(const struct node *n, const char *name, uint32_t len)
{
    return n->name_len == len && memcmp(n->name, name, len) == 0;
}

static struct node *
hashed_child(const struct node *n, const char *name, uint32_t len)
{
    uint32_t at = name_hash(name, len) & n->hash_mask;

    for (; n->hash[at] != 0; at = (at + 1) & n->hash_mask) {
        struct node *c = n->child[n->hash[at] - 1];

        if (is_named(c, name, len))
            return c;
    }
    return NULL;
}

struct node *
node_child(struct node *n, const char *name, uint32_t len)
{
    uint32_t i, at = n->next;

    if (at < n->count && is_named(n->child[at], name, len)) {
        n->next = at + 1;
        return n->child[at];
    }
    if (n->hash != NULL)
        return hashed_child(n, name, len);
    for (i = 0; i < n->count; i++)
        if (is_named(n->child[i], name, len)) {
            n->next = i + 1;
            return n->child[i];
        }
    return NULL;
}

struct node *
node_element(struct node *n, uint32_t index)
{
    char text[12];
    uint32_t at = n->next, i = sizeof text;

    if (at < n->count && n->child[at]->index == index) {
        n->next = at + 1;
        return n->child[at];
    }
    if (n->hash == NULL) {
        for (i = 0; i < n->count; i++)
            if (n->child[i]->index == index) {
                n->next = i + 1;
                return n->child[i];
            }
        return NULL;
    }
    for (; index != 0; index /= 10)
        text[--i] = (char)('0' + index % 10);
    return hashed_child(n, text + i, (uint32_t)sizeof text - i);
}

static void
rehash(struct node *n)
{
    uint32_t size = 32, i, at;

    while (size < n->cap * 2)
        size *= 2;
    free(n->hash);
    n->hash = mem_zalloc(size * sizeof *n->hash);
    n->hash_mask = size - 1;
    for (i = 0; i < n->count; i++) {
        at = name_hash(n->child[i]->name, n->child[i]->name_len) & n->hash_mask;
        while (n->hash[at] != 0)
            at = (at + 1) & n->hash_mask;
        n->hash[at] = (uint16_t)(i + 1);
    }
}

/* A decimal number without leading zeros that fits, else 0. */
static uint32_t
list_index(const char *name, uint32_t len)
{
    uint32_t i, v = 0;

    if (len == 0 || len > 9 || name[0] == '0')
        return 0;
    for (i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        v = v * 10 + (uint32_t)(name[i] - '0');
    }
    return v;
}

static struct node *
add_child(struct columns *c, struct node *parent, const struct val *name)
{
    struct node *n = arena_alloc(&c->arena, sizeof *n);
    size_t cap = parent->cap;

    memset(n, 0, sizeof *n);
    n->name = arena_dup(&c->arena, name->u.s, name->len);
    n->name_len = name->len;
    n->index = list_index(n->name, n->name_len);
    n->col = -1;
    n->parent = parent;
    mem_grow(&parent->child, &cap, parent->count + 1u, sizeof *parent->child);
    parent->cap = (uint32_t)cap;
    parent->child[parent->count++] = n;
    if (parent->count > NODE_HASH_MIN)
        rehash(parent);
    return n;
}

int
columns_add(struct columns *c, const struct val *names, uint32_t count,
            uint32_t *ret, struct err *e)
{
    struct node *n = &c->root, *at;
    size_t cap = c->cap;
    uint32_t i;

    for (i = 0; i < count && n != NULL; i++)
        n = node_child(n, names[i].u.s, names[i].len);
    if (n != NULL && n->col >= 0) {
        *ret = (uint32_t)n->col;
        return 0;
    }
    if (c->count == READER_COLUMNS_MAX)
        return err_record(e, CAUSE_NONE, "more than %d fields are read",
                          READER_COLUMNS_MAX);
    for (i = 0, n = &c->root; i < count; i++, n = at) {
        at = node_child(n, names[i].u.s, names[i].len);
        if (at == NULL)
            at = add_child(c, n, &names[i]);
    }
    mem_grow(&c->node, &cap, c->count + 1u, sizeof *c->node);
    c->cap = (uint32_t)cap;
    c->node[c->count] = n;
    n->col = (int32_t)c->count;
    for (at = n; at != NULL; at = at->parent)
        at->col_count++;
    *ret = c->count++;
    return 0;
}

static void
pass_set(struct pass *ps, int32_t col, const struct val *v)
{
    ps->row[col] = *v;
    ps->left--;
}

static void
node_missing(struct pass *ps, struct node *n)
{
    struct val nil = val_nil();

    if (n->col >= 0)
        pass_set(ps, n->col, &nil);
    pass_missing(ps, n);
}

void
pass_missing(struct pass *ps, struct node *n)
{
    uint32_t i;

    for (i = 0; i < n->count; i++)
        node_missing(ps, n->child[i]);
}

/* The children that this pass has not met are missing. */
static void
unseen_missing(struct pass *ps, struct node *n)
{
    uint32_t i;

    for (i = 0; i < n->count; i++)
        if (n->child[i]->seen != ps->id)
            node_missing(ps, n->child[i]);
}

/* The members or elements of the container at p. */
static const char *
pass_children(struct pass *ps, struct node *n, const char *p, unsigned depth)
{
    char open = *p;
    uint32_t index = 0;
    struct val name;
    struct node *c;
    bool last;

    if (depth >= JSON_DEPTH_MAX)
        return scan_fail(&ps->s, p, "nested deeper than 1024");
    n->next = 0;
    p = scan_first(&ps->s, p, open, &last);
    while (!last) {
        if (open == '{') {
            p = scan_name(&ps->s, p, &name);
            if (p == NULL)
                return NULL;
            c = node_child(n, name.u.s, name.len);
        } else {
            c = node_element(n, ++index);
        }
        if (c != NULL && c->seen == ps->id)
            c = NULL;
        if (c != NULL)
            c->seen = ps->id;
        p = pass_value(ps, c, p, depth + 1);
        if (p == NULL)
            return NULL;
        p = scan_next(&ps->s, p, open, &last);
        if (p == NULL)
            return NULL;
    }
    unseen_missing(ps, n);
    return p;
}

const char *
pass_value(struct pass *ps, struct node *n, const char *p, unsigned depth)
{
    bool is_open = p < ps->s.end && (*p == '{' || *p == '[');
    struct val v;
    const char *q;

    if (n == NULL)
        return scan_skip(&ps->s, p, depth);
    if (is_open && n->count != 0) {
        q = pass_children(ps, n, p, depth);
        v = val_str(p, q != NULL ? (uint32_t)(q - p) : 0);
        v.type = *p == '{' ? VAL_MAP : VAL_LIST;
    } else if (n->col >= 0) {
        q = scan_value(&ps->s, p, depth, &v);
    } else {
        q = scan_skip(&ps->s, p, depth);
    }
    if (q == NULL)
        return NULL;
    if (n->col >= 0)
        pass_set(ps, n->col, &v);
    if (!is_open)
        pass_missing(ps, n);
    return ps->left != 0 ? q : NULL;
}
