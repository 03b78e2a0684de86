#include "script/node.h"

#include <string.h>

#include "base/hash.h"

enum { INDEX_MIN = 16, NAME_SHOWN = 100 };

void
tree_init(struct tree *t)
{
    memset(t, 0, sizeof *t);
    arena_init(&t->arena);
}

void
tree_reset(struct tree *t)
{
    if (t->root != NULL || arena_size(&t->arena) != 0)
        arena_reset(&t->arena);
    t->root = NULL;
    t->dirty = false;
    t->ext = false;
}

void
tree_fini(struct tree *t)
{
    arena_fini(&t->arena);
    t->root = NULL;
}

static struct node *
node_make(struct tree *t, enum val_type type)
{
    struct node *n;

    n = arena_alloc(&t->arena, sizeof *n);
    memset(n, 0, sizeof *n);
    n->type = (uint8_t)type;
    n->depth = 1;
    return n;
}

static bool
type_is_container(uint8_t type)
{
    return type == VAL_LIST || type == VAL_MAP;
}

static struct kids *
kids_new(struct tree *t, struct node *n)
{
    struct kids *k;

    k = arena_alloc(&t->arena, sizeof *k);
    memset(k, 0, sizeof *k);
    n->u.kids = k;
    return k;
}

struct node *
node_new(struct tree *t, const struct val *v)
{
    struct node *n;

    n = node_make(t, (enum val_type)v->type);
    n->u.v = *v;
    if (v->type == VAL_STR)
        n->u.v.u.s = arena_dup(&t->arena, v->u.s, v->len);
    return n;
}

/* A node of the value `v` whose text is `raw`. */
static struct node *
node_of(struct tree *t, const struct val *v, const char *raw, size_t raw_len,
        bool ext)
{
    struct node *n;

    n = node_make(t, (enum val_type)v->type);
    n->raw = raw;
    n->raw_len = (uint32_t)raw_len;
    if (!type_is_container(v->type))
        n->u.v = *v;
    n->big = v->type == VAL_STR && raw_len > 0 && raw[0] != '"';
    n->ext = ext;
    return n;
}

int
node_new_text(struct tree *t, const char *text, size_t len, bool ext,
              struct node **ret, struct err *e)
{
    struct val v;
    int r;

    r = (ext ? json_value : json_value_plain)(text, len, BIGINT_STRING,
                                              &t->arena, &v, e);
    if (r != 0)
        return r;
    *ret = node_of(t, &v, text, len, ext);
    return 0;
}

int
node_value(struct tree *t, const struct node *n, struct val *ret, struct err *e)
{
    if (n->big && t->bigint != BIGINT_STRING)
        return json_value(n->raw, n->raw_len, t->bigint, &t->arena, ret, e);
    *ret = n->u.v;
    return 0;
}

/* ---- the text, member by member ---- */

static struct kids *
node_kids(struct tree *t, struct node *n)
{
    struct kids *k;

    if (n->u.kids != NULL)
        return n->u.kids;
    k = kids_new(t, n);
    if (n->raw != NULL) {
        /* Big integers are read as text here, so that one that nobody asks
         * for does no harm; node_value() applies the policy. */
        json_walk_init(&k->walk, n->raw, n->raw_len, BIGINT_STRING, &t->arena);
        k->walk.ext = n->ext;
        k->text = n->raw;
        k->text_end = n->raw + n->raw_len;
        k->open = true;
    }
    return k;
}

static void
index_put(struct kids *k, uint32_t item)
{
    const struct member *m = &k->items[item];
    uint32_t i;

    i = (uint32_t)hash_key(m->name, m->len) & (k->index_cap - 1);
    while (k->index[i] != 0)
        i = (i + 1) & (k->index_cap - 1);
    k->index[i] = item + 1;
}

/* Keep an index of names for a map that has become large. */
static void
index_grow(struct tree *t, struct kids *k)
{
    uint32_t i;

    if (k->n < INDEX_MIN || (k->index != NULL && k->n * 2 < k->index_cap)) {
        if (k->index != NULL)
            index_put(k, k->n - 1);
        return;
    }
    k->index_cap = k->index_cap == 0 ? 4 * INDEX_MIN : 4 * k->index_cap;
    k->index = arena_alloc(&t->arena, k->index_cap * sizeof k->index[0]);
    memset(k->index, 0, k->index_cap * sizeof k->index[0]);
    for (i = 0; i < k->n; i++)
        index_put(k, i);
}

static struct member *
kids_search(const struct kids *k, const char *name, size_t len)
{
    struct member *m;
    uint32_t i;

    if (k->index == NULL) {
        for (i = 0; i < k->n; i++) {
            m = &k->items[i];
            if (m->node != NULL && m->len == len &&
                memcmp(m->name, name, len) == 0)
                return m;
        }
        return NULL;
    }
    i = (uint32_t)hash_key(name, len) & (k->index_cap - 1);
    for (; k->index[i] != 0; i = (i + 1) & (k->index_cap - 1)) {
        m = &k->items[k->index[i] - 1];
        if (m->node != NULL && m->len == len && memcmp(m->name, name, len) == 0)
            return m;
    }
    return NULL;
}

/* Whether the text named it before, deleted or not: duplicates are ignored. */
static bool
kids_had(const struct kids *k, const char *name, size_t len)
{
    const struct member *m;
    uint32_t i;

    if (k->index == NULL) {
        for (i = 0; i < k->n; i++) {
            m = &k->items[i];
            if (m->len == len && memcmp(m->name, name, len) == 0)
                return true;
        }
        return false;
    }
    i = (uint32_t)hash_key(name, len) & (k->index_cap - 1);
    for (; k->index[i] != 0; i = (i + 1) & (k->index_cap - 1)) {
        m = &k->items[k->index[i] - 1];
        if (m->len == len && memcmp(m->name, name, len) == 0)
            return true;
    }
    return false;
}

static struct member *
kids_add(struct tree *t, struct node *parent, struct node *child)
{
    struct kids *k = parent->u.kids;
    struct member *m;
    uint32_t cap;

    if (k->n == k->cap) {
        cap = k->cap == 0 ? 8 : 2 * k->cap;
        m = arena_alloc(&t->arena, cap * sizeof *m);
        if (k->n > 0)
            memcpy(m, k->items, k->n * sizeof *m);
        k->items = m;
        k->cap = cap;
    }
    m = &k->items[k->n++];
    memset(m, 0, sizeof *m);
    m->node = child;
    k->live++;
    child->parent = parent;
    child->depth = (uint8_t)(parent->depth + 1);
    child->checked = parent->checked;
    return m;
}

/* The name as it stands in the text before `value`, with its quotes. */
static void
member_raw_name(struct member *m, const struct kids *k, const char *from,
                const char *value)
{
    const char *p;

    if (m->name > k->text && m->name + m->len < k->text_end &&
        m->name[-1] == '"') {
        m->raw_name = m->name - 1;
        m->raw_len = m->len + 2;
        return;
    }
    for (p = from; p < value && *p != '"'; p++)
        continue;
    m->raw_name = p;
    for (p++; p < value && *p != '"'; p++)
        if (*p == '\\')
            p++;
    m->raw_len = (uint32_t)(p + 1 - m->raw_name);
}

/* Take one more member from the text. @return 1, 0 at the end, ERR_RECORD. */
static int
node_more(struct tree *t, struct node *n, struct err *e)
{
    struct kids *k = node_kids(t, n);
    struct val name, v;
    struct member *m;
    const char *raw, *from;
    size_t raw_len;
    int r;

    while (k->open) {
        from = k->walk.pos;
        r = json_walk_next(&k->walk, n->type == VAL_MAP ? &name : NULL, &v,
                           &raw, &raw_len, e);
        if (r < 0)
            return r;
        if (r == 0) {
            k->open = false;
            break;
        }
        if (n->type == VAL_LIST) {
            (void)kids_add(t, n, node_of(t, &v, raw, raw_len, n->ext));
            return 1;
        }
        if (kids_had(k, name.u.s, name.len))
            continue;
        m = kids_add(t, n, node_of(t, &v, raw, raw_len, n->ext));
        m->name = name.u.s;
        m->len = name.len;
        member_raw_name(m, k, from, raw);
        index_grow(t, k);
        return 1;
    }
    return 0;
}

static int
node_complete(struct tree *t, struct node *n, struct err *e)
{
    int r;

    do
        r = node_more(t, n, e);
    while (r > 0);
    return r;
}

/* ---- records ---- */

static struct node *
root_with_value(struct tree *t, struct node *value)
{
    struct node *root;
    struct member *m;

    root = node_make(t, VAL_MAP);
    (void)kids_new(t, root);
    m = kids_add(t, root, value);
    m->name = "value";
    m->len = 5;
    return root;
}

int
tree_load(struct tree *t, const struct rec *r, struct err *e)
{
    struct node *n;
    struct val v;
    int rc;

    if (t->root != NULL)
        return 0;
    t->bigint = json_bigint_of(r);
    t->ext = (r->flags & REC_EXT) != 0;
    if (r->kind == REC_TEXT) {
        v = val_str(r->val, r->val_len);
        n = node_make(t, VAL_STR);
        n->u.v = v;
        if (!json_utf8_ok(r->val, r->val_len))
            t->ext = true;
        t->root = root_with_value(t, n);
    } else if (r->kind == REC_VALUE) {
        rc = node_new_text(t, r->val, r->val_len, t->ext, &n, e);
        if (rc != 0)
            return rc;
        t->root = root_with_value(t, n);
    } else {
        n = node_make(t, VAL_MAP);
        n->raw = r->val;
        n->raw_len = r->val_len;
        n->ext = t->ext;
        if (r->val == NULL)
            (void)kids_new(t, n);
        t->root = n;
    }
    return 0;
}

/* ---- reading ---- */

int
node_find(struct tree *t, struct node *n, const char *name, size_t len,
          struct node **ret, struct err *e)
{
    struct kids *k = node_kids(t, n);
    struct member *m;
    int r;

    m = kids_search(k, name, len);
    if (m != NULL) {
        *ret = m->node;
        return 1;
    }
    while ((r = node_more(t, n, e)) > 0) {
        m = &k->items[k->n - 1];
        if (m->len == len && memcmp(m->name, name, len) == 0) {
            *ret = m->node;
            return 1;
        }
    }
    return r;
}

int
node_at(struct tree *t, struct node *n, uint64_t index, struct node **ret,
        struct err *e)
{
    struct kids *k = node_kids(t, n);
    int r;

    if (index == 0)
        return 0;
    while (k->n < index) {
        r = node_more(t, n, e);
        if (r <= 0)
            return r;
    }
    *ret = k->items[index - 1].node;
    return 1;
}

int
node_next(struct tree *t, struct node *n, uint32_t *pos, struct member *ret,
          struct err *e)
{
    struct kids *k = node_kids(t, n);
    int r;

    for (;;) {
        while (*pos < k->n) {
            *ret = k->items[(*pos)++];
            if (ret->node != NULL)
                return 1;
        }
        r = node_more(t, n, e);
        if (r <= 0)
            return r;
    }
}

int
node_count(struct tree *t, struct node *n, uint32_t *ret, struct err *e)
{
    int r;

    r = node_complete(t, n, e);
    if (r == 0)
        *ret = node_kids(t, n)->live;
    return r;
}

int
node_check_depth(struct node *n, struct err *e)
{
    const char *p, *end;
    int depth = n->depth, deepest = depth;

    if (n->checked || n->raw == NULL)
        return 0;
    depth--; /* the first bracket is the node itself */
    for (p = n->raw, end = p + n->raw_len; p < end; p++) {
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                if (*p == '\\')
                    p++;
        } else if (*p == '[' || *p == '{') {
            if (++depth > deepest)
                deepest = depth;
        } else if (*p == ']' || *p == '}') {
            depth--;
        }
    }
    if (deepest > JSON_DEPTH_LUA_MAX)
        return err_record(e, CAUSE_DECODE,
                          "nested %d deep; Lua can use values of at most %d "
                          "levels",
                          deepest, (int)JSON_DEPTH_LUA_MAX);
    n->checked = true;
    return 0;
}

/* ---- field paths ---- */

/* Next member of a path, unescaped. @return false if it is empty. */
static bool
path_member(struct tree *t, const char **pos, const char *end,
            const char **name, size_t *len)
{
    const char *p = *pos, *start = *pos;
    char *copy;
    bool escaped = false;
    size_t n = 0;

    while (p < end && *p != '.') {
        if (*p == '\\' && p + 1 < end && p[1] == '.') {
            escaped = true;
            p++;
        }
        p++;
    }
    *pos = p < end ? p + 1 : NULL;
    *name = start;
    *len = (size_t)(p - start);
    if (escaped) {
        copy = arena_alloc(&t->arena, *len);
        for (end = p, p = start; p < end; p++) {
            if (*p == '\\' && p + 1 < end && p[1] == '.')
                p++;
            copy[n++] = *p;
        }
        *name = copy;
        *len = n;
    }
    return *len > 0;
}

/* A member that is a decimal number: its value, else 0. */
static uint64_t
path_index(const char *name, size_t len)
{
    uint64_t i = 0;
    size_t k;

    if (len > 9)
        return 0;
    for (k = 0; k < len; k++) {
        if (name[k] < '0' || name[k] > '9')
            return 0;
        i = 10 * i + (uint64_t)(name[k] - '0');
    }
    return i;
}

static int
path_error(const char *path, size_t len, struct err *e)
{
    return err_record(e, CAUSE_USER_ERROR,
                      "field path \"%.*s\" has an empty "
                      "member; a dot in a name is written \\.",
                      len > NAME_SHOWN ? NAME_SHOWN : (int)len, path);
}

int
node_path(struct tree *t, struct node *n, const char *path, size_t len,
          struct node **ret, struct err *e)
{
    const char *p = path, *end = path + len, *name;
    size_t name_len;
    int r = 1;

    while (p != NULL) {
        if (!path_member(t, &p, end, &name, &name_len))
            return path_error(path, len, e);
        if (r == 0)
            continue; /* only checks the rest of the path */
        if (n->type == VAL_MAP)
            r = node_find(t, n, name, name_len, &n, e);
        else if (n->type == VAL_LIST)
            r = node_at(t, n, path_index(name, name_len), &n, e);
        else
            r = 0;
        if (r < 0)
            return r;
    }
    if (r > 0)
        *ret = n;
    return r;
}

/* ---- writing ---- */

bool
node_is_attached(const struct tree *t, const struct node *n)
{
    while (n->parent != NULL)
        n = n->parent;
    return n == t->root;
}

static void
node_touch(struct tree *t, struct node *n)
{
    for (; n != NULL; n = n->parent)
        n->raw = NULL;
    t->dirty = true;
}

/* Put `child` in the place of `m`'s value. */
static void
member_replace(struct node *parent, struct member *m, struct node *child)
{
    if (m->node != NULL)
        m->node->parent = NULL;
    else if (child != NULL)
        parent->u.kids->live++;
    if (child == NULL) {
        parent->u.kids->live--;
    } else {
        child->parent = parent;
        child->depth = (uint8_t)(parent->depth + 1);
        child->checked = false;
    }
    m->node = child;
}

static int
depth_error(struct err *e)
{
    return err_record(e, CAUSE_USER_ERROR, "value nests deeper than %d levels",
                      (int)JSON_DEPTH_LUA_MAX);
}

/* Make sure the assigned value fits below `parent`. */
static int
child_check(const struct node *parent, struct node *child, struct err *e)
{
    struct err ignored;

    if (child == NULL)
        return 0;
    child->depth = (uint8_t)(parent->depth + 1);
    if (child->depth > JSON_DEPTH_LUA_MAX ||
        (type_is_container(child->type) &&
         node_check_depth(child, &ignored) != 0))
        return depth_error(e);
    return 0;
}

/*
 * A node's text is needed until all its members are known, since a partly
 * read map would lose the rest with its raw bytes.
 */
int
node_set(struct tree *t, struct node *map, const char *name, size_t len,
         struct node *child, struct err *e)
{
    struct kids *k;
    struct member *m;
    int r;

    r = child_check(map, child, e);
    if (r == 0)
        r = node_complete(t, map, e);
    if (r != 0)
        return r;
    k = map->u.kids;
    m = kids_search(k, name, len);
    if (m == NULL && child == NULL)
        return 0;
    node_touch(t, map);
    if (m != NULL) {
        member_replace(map, m, child);
        return 0;
    }
    m = kids_add(t, map, child);
    child->checked = false;
    m->name = arena_dup(&t->arena, name, len);
    m->len = (uint32_t)len;
    index_grow(t, k);
    return 0;
}

int
node_set_at(struct tree *t, struct node *list, int64_t index,
            struct node *child, struct err *e)
{
    struct kids *k;
    int64_t n;
    int r;

    r = child_check(list, child, e);
    if (r == 0)
        r = node_complete(t, list, e);
    if (r != 0)
        return r;
    k = list->u.kids;
    n = k->n;
    if (child == NULL) {
        /* table.remove() of an empty list assigns element 0. */
        if (index == n + 1 || (index == 0 && n == 0))
            return 0;
        if (index != n)
            return err_record(e, CAUSE_USER_ERROR,
                              "cannot set element %lld of a list of %lld to "
                              "nil; use table.remove, or s.null",
                              (long long)index, (long long)n);
        node_touch(t, list);
        member_replace(list, &k->items[n - 1], NULL);
        k->n--;
        return 0;
    }
    if (index < 1 || index > n + 1)
        return err_record(e, CAUSE_USER_ERROR,
                          "element %lld is outside of a list of %lld",
                          (long long)index, (long long)n);
    node_touch(t, list);
    if (index <= n) {
        member_replace(list, &k->items[index - 1], child);
    } else {
        (void)kids_add(t, list, child);
        child->checked = false;
    }
    return 0;
}

static const char *
type_name(uint8_t type)
{
    static const char *const names[] = {"nil",    "null",    "a boolean",
                                        "an int", "a float", "a string",
                                        "a list", "a map",   "bad"};

    return names[type];
}

/* Assign the last member of a path. */
static int
path_assign(struct tree *t, struct node *n, const char *name, size_t len,
            struct node *child, struct err *e)
{
    if (n->type == VAL_MAP)
        return node_set(t, n, name, len, child, e);
    if (n->type == VAL_LIST && path_index(name, len) > 0)
        return node_set_at(t, n, (int64_t)path_index(name, len), child, e);
    return err_record(
        e, CAUSE_USER_ERROR, "cannot assign member \"%.*s\" of %s",
        len > NAME_SHOWN ? NAME_SHOWN : (int)len, name, type_name(n->type));
}

int
node_set_path(struct tree *t, struct node *n, const char *path, size_t len,
              struct node *child, struct err *e)
{
    const char *p = path, *end = path + len, *name, *probe = path;
    struct node *next;
    size_t name_len;
    int r;

    while (probe != NULL)
        if (!path_member(t, &probe, end, &name, &name_len))
            return path_error(path, len, e);
    for (;;) {
        (void)path_member(t, &p, end, &name, &name_len);
        if (p == NULL)
            return path_assign(t, n, name, name_len, child, e);
        next = NULL;
        if (n->type == VAL_MAP)
            r = node_find(t, n, name, name_len, &next, e);
        else if (n->type == VAL_LIST)
            r = node_at(t, n, path_index(name, name_len), &next, e);
        else
            r = 0;
        if (r < 0)
            return r;
        if (next == NULL) {
            if (child == NULL && type_is_container(n->type))
                return 0; /* nothing there to delete */
            next = node_make(t, VAL_MAP);
            (void)kids_new(t, next);
            r = path_assign(t, n, name, name_len, next, e);
            if (r != 0)
                return r;
        }
        n = next;
    }
}

/* ---- text ---- */

int
node_put(struct tree *t, struct node *n, struct buf *b, bool *ext,
         struct err *e)
{
    struct member m;
    uint32_t pos = 0;
    int r;

    if (n->big && t->bigint != BIGINT_STRING && n->raw == NULL)
        return err_record(e, CAUSE_BIGINT, "integer beyond 64 bits");
    if (n->raw != NULL) {
        buf_add(b, n->raw, n->raw_len);
        return 0;
    }
    if (!type_is_container(n->type)) {
        json_put_val(b, &n->u.v, ext);
        return 0;
    }
    buf_addc(b, n->type == VAL_MAP ? '{' : '[');
    while ((r = node_next(t, n, &pos, &m, e)) > 0) {
        if (b->data[b->len - 1] != '{' && b->data[b->len - 1] != '[')
            buf_addc(b, ',');
        if (n->type == VAL_MAP && m.raw_name != NULL) {
            buf_add(b, m.raw_name, m.raw_len);
            buf_addc(b, ':');
        } else if (n->type == VAL_MAP) {
            json_put_str(b, m.name, m.len);
            buf_addc(b, ':');
            *ext = *ext || !json_utf8_ok(m.name, m.len);
        }
        r = node_put(t, m.node, b, ext, e);
        if (r != 0)
            return r;
    }
    if (r < 0)
        return r;
    buf_addc(b, n->type == VAL_MAP ? '}' : ']');
    return 0;
}
