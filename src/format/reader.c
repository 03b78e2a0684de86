#include "format/reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/json.h"
#include "format/reader_impl.h"

/* Rows lie in blocks. The value in front of each row is its tag: the bytes
 * it was made from, so that a record whose payload was replaced, or whose
 * row belongs to another reader, is never served stale columns. */
struct rows {
    struct val *v;
    size_t cap, used; /* in values */
    struct rows *next;
};

struct reader {
    struct columns cols;
    struct layouts *layouts;
    struct rows *rows;  /* newest first */
    struct arena arena; /* unescaped strings */
    uint64_t pass_id;
    struct reader_stats stats;
};

struct reader *
reader_new(void)
{
    struct reader *r = mem_zalloc(sizeof *r);

    columns_init(&r->cols);
    r->layouts = layouts_new(&r->cols);
    arena_init(&r->arena);
    return r;
}

void
reader_set_wide(struct reader *r, bool wide)
{
    layouts_set_wide(r->layouts, wide);
}

static void
rows_free(struct reader *r)
{
    struct rows *b, *next;

    for (b = r->rows; b != NULL; b = next) {
        next = b->next;
        free(b->v);
        free(b);
    }
    r->rows = NULL;
}

void
reader_free(struct reader **r)
{
    if (*r == NULL)
        return;
    rows_free(*r);
    layouts_free(&(*r)->layouts);
    columns_fini(&(*r)->cols);
    arena_fini(&(*r)->arena);
    free(*r);
    *r = NULL;
}

static int
add_column(struct reader *r, const struct val *names, uint32_t count,
           uint32_t *ret, struct err *e)
{
    uint32_t before = r->cols.count;
    int rc = columns_add(&r->cols, names, count, ret, e);

    if (r->cols.count != before)
        layouts_clear(r->layouts);
    return rc;
}

/* Split at dots that no backslash escapes; names are unescaped in `buf`. */
static int
split_path(const char *path, size_t len, char *buf, struct val *names,
           uint32_t *ret_count, struct err *e)
{
    uint32_t n = 0;
    char *from = buf, *o = buf;
    size_t i;

    for (i = 0; i <= len; i++) {
        if (i < len && path[i] != '.') {
            if (path[i] == '\\' && i + 1 < len &&
                (path[i + 1] == '.' || path[i + 1] == '\\'))
                i++;
            *o++ = path[i];
            continue;
        }
        if (o == from)
            return err_set(e, ERR_JOBFILE,
                           "a member of the path '%.*s' is empty",
                           (int)(len > 200 ? 200 : len), path);
        if (n == JSON_DEPTH_MAX)
            return err_set(e, ERR_JOBFILE, "a path has more than %d members",
                           JSON_DEPTH_MAX);
        names[n++] = val_str(from, (uint32_t)(o - from));
        from = o;
    }
    *ret_count = n;
    return 0;
}

int
reader_column(struct reader *r, const char *path, size_t len, uint32_t *ret,
              struct err *e)
{
    struct val *names = mem_alloc(JSON_DEPTH_MAX * sizeof *names);
    char *buf = mem_alloc(len + 1);
    uint32_t count = 0;
    int rc = split_path(path, len, buf, names, &count, e);

    if (rc == 0)
        rc = add_column(r, names, count, ret, e);
    free(buf);
    free(names);
    return rc;
}

int
reader_column_name(struct reader *r, const char *name, size_t len,
                   uint32_t *ret, struct err *e)
{
    struct val v = val_str(name, (uint32_t)len);

    return add_column(r, &v, 1, ret, e);
}

/* Whether `rec` has a row that this reader made from its present bytes. */
static inline bool
has_row(const struct reader *r, const struct rec *rec)
{
    const struct rows *b;

    if (rec->row == NULL)
        return false;
    for (b = r->rows; b != NULL; b = b->next)
        if (rec->row > b->v && rec->row < b->v + b->used)
            return rec->row[-1].u.s == rec->val &&
                   rec->row[-1].len == rec->val_len &&
                   rec->row[-1].type == rec->kind;
    return false;
}

/* Room for the rows of `records` records, each behind its tag. */
static struct val *
rows_new(struct reader *r, uint32_t records)
{
    size_t need = (size_t)records * (r->cols.count + 1u);
    struct rows *b = r->rows;
    struct val *v;

    if (b == NULL || b->cap - b->used < need) {
        b = mem_zalloc(sizeof *b);
        b->v = mem_alloc(need * sizeof *b->v);
        b->cap = need;
        b->next = r->rows;
        r->rows = b;
    }
    v = b->v + b->used;
    b->used += need;
    return v;
}

static inline void
pass_init(struct reader *r, struct pass *ps, const struct rec *rec)
{
    enum json_bigint bigint = BIGINT_ERROR;

    if (rec->flags & (REC_BIGINT_STRING | REC_BIGINT_FLOAT))
        bigint = json_bigint_of(rec);
    scan_init(&ps->s, rec->val, rec->val_len, (rec->flags & REC_EXT) != 0,
              bigint, &r->arena);
    ps->left = r->cols.count;
    ps->id = ++r->pass_id;
}

static void
row_fill(struct val *row, uint32_t count, uint8_t type)
{
    uint32_t i;

    for (i = 0; i < count; i++)
        row[i] = (struct val){.type = type};
}

/* A record whose one field is `value`. */
static void
load_value(struct reader *r, struct pass *ps, const struct rec *rec)
{
    struct node *n = node_child(&r->cols.root, "value", 5);
    const char *p = rec->val;
    struct scan s = ps->s;

    row_fill(ps->row, r->cols.count, VAL_NIL);
    if (n == NULL)
        return;
    if (rec->kind == REC_TEXT) {
        if (n->col >= 0)
            ps->row[n->col] = val_str(rec->val, rec->val_len);
        return;
    }
    ps->left = UINT32_MAX;
    /* The value is the whole payload: it is read to its end. */
    if (scan_skip(&s, p, 0) != s.end || pass_value(ps, n, p, 0) == NULL)
        row_fill(ps->row, r->cols.count, VAL_BAD);
    r->pass_id = ps->id;
}

static void
load_object(struct reader *r, struct pass *ps, const struct rec *rec,
            bool wanted)
{
    const char *p = rec->val;

    if (wanted && layouts_try(r->layouts, ps, p, rec->val_len)) {
        r->pass_id = ps->id;
        r->stats.layout_hits++;
        return;
    }
    ps->left = r->cols.count;
    row_fill(ps->row, r->cols.count, VAL_BAD);
    p = pass_value(ps, &r->cols.root, p, 0);
    if (wanted && (p != NULL || ps->left == 0))
        layouts_learn(r->layouts, ps, rec->val, rec->val_len);
    r->pass_id = ps->id;
}

static inline bool
is_object(const struct rec *rec)
{
    return rec->val != NULL &&
           (rec->kind == REC_OBJECT || rec->kind == REC_TOMBSTONE);
}

/* Begin the row of `rec` behind the tag `v`. */
static inline void
row_begin(struct reader *r, struct pass *ps, struct rec *rec, struct val *v)
{
    v->type = rec->kind;
    v->len = rec->val_len;
    v->u.s = rec->val;
    pass_init(r, ps, rec);
    ps->row = v + 1;
    rec->row = v + 1;
    rec->row_n = (uint16_t)r->cols.count;
}

/* Two records at once. @return false if they are to be taken one by one. */
static inline bool
load_pair(struct reader *r, struct rec *rec, struct val *v)
{
    struct pass a, b;

    if (!is_object(&rec[0]) || !is_object(&rec[1]))
        return false;
    row_begin(r, &a, &rec[0], v);
    row_begin(r, &b, &rec[1], v + r->cols.count + 1);
    if (!layouts_try_pair(r->layouts, &a, &b))
        return false;
    r->stats.layout_hits += 2;
    return true;
}

static inline void
load_one(struct reader *r, struct rec *rec, struct val *v, bool wanted)
{
    struct pass ps;

    row_begin(r, &ps, rec, v);
    if (is_object(rec))
        load_object(r, &ps, rec, wanted);
    else if (rec->val == NULL)
        row_fill(ps.row, r->cols.count, VAL_NIL);
    else
        load_value(r, &ps, rec);
}

/* Forget rows and strings; one block large enough is kept. */
static void
rows_reset(struct reader *r, uint32_t records)
{
    size_t need = (size_t)records * (r->cols.count + 1u);

    if (r->rows != NULL && (r->rows->next != NULL || r->rows->cap < need))
        rows_free(r);
    if (r->rows != NULL)
        r->rows->used = 0;
    arena_reset(&r->arena);
}

void
reader_load(struct reader *r, struct batch *b)
{
    uint32_t i, missing = 0, width = r->cols.count + 1u;
    struct val *v;
    bool wanted;

    for (i = 0; i < b->n; i++)
        missing += !has_row(r, &b->recs[i]);
    if (missing == 0)
        return;
    if (missing == b->n)
        rows_reset(r, missing);
    if (r->cols.count == 0)
        return;
    v = rows_new(r, missing);
    wanted = layouts_wanted(r->layouts, missing);
    r->stats.records += missing;
    for (i = 0; i < b->n; i++) {
        if (i + 4 < b->n)
            __builtin_prefetch(b->recs[i + 4].val);
        if (missing != b->n && has_row(r, &b->recs[i]))
            continue;
        if (wanted && missing == b->n && i + 1 < b->n &&
            load_pair(r, &b->recs[i], v)) {
            i++;
            v += 2 * width;
            continue;
        }
        load_one(r, &b->recs[i], v, wanted);
        v += width;
    }
}

/* Find the member (or element) that `n` names in the container at p.
 * @return its value; NULL on an error, or with *ret_missing. */
static const char *
find_child(struct scan *s, const struct node *n, const char *p, unsigned depth,
           bool *ret_missing)
{
    char open = *p;
    uint32_t index = 0;
    struct val name;
    bool last;

    *ret_missing = false;
    p = scan_first(s, p, open, &last);
    while (!last) {
        index++;
        if (open == '{') {
            p = scan_name(s, p, &name);
            if (p == NULL)
                return NULL;
            if (name.len == n->name_len &&
                memcmp(name.u.s, n->name, name.len) == 0)
                return p;
        } else if (index == n->index) {
            return p;
        }
        p = scan_skip(s, p, depth + 1);
        if (p != NULL)
            p = scan_next(s, p, open, &last);
        if (p == NULL)
            return NULL;
    }
    *ret_missing = true;
    return NULL;
}

/*
 * Find the value of node `n` in a JSON text whose root is the node `top`.
 * @param ret set to where it begins, NULL if it is missing.
 */
static int
find_json(struct scan *s, const struct node *top, const struct node *n,
          const char **ret, unsigned *ret_depth, struct err *e)
{
    const struct node *chain[JSON_DEPTH_MAX];
    unsigned depth = 0, i;
    const char *p = s->start;
    bool missing;
    struct val v;

    for (; n != top; n = n->parent)
        chain[depth++] = n;
    for (i = 0; i < depth; i++) {
        if (p == s->end || (*p != '{' && *p != '[')) {
            p = scan_value(s, p, i, &v);
            missing = p != NULL;
        } else {
            p = find_child(s, chain[depth - 1 - i], p, i, &missing);
            if (p != NULL)
                continue;
        }
        if (!missing)
            return scan_err(s, e);
        *ret = NULL;
        return 0;
    }
    *ret = p;
    *ret_depth = depth;
    return 0;
}

/* Decode one column of a JSON text whose root is the node `top`. */
static int
get_json(struct scan *s, const struct node *top, const struct node *n,
         struct val *ret, struct err *e)
{
    unsigned depth = 0;
    const char *p;
    struct val v;
    int rc = find_json(s, top, n, &p, &depth, e);

    if (rc != 0)
        return rc;
    if (p == NULL) {
        *ret = val_nil();
        return 0;
    }
    p = scan_value(s, p, depth, &v);
    if (p == NULL || v.type == VAL_BAD)
        return scan_err(s, e);
    *ret = v;
    return 0;
}

/* As get_json() for the payloads that have the one field `value`. */
static int
get_value(struct reader *r, struct scan *s, const struct rec *rec,
          const struct node *n, struct val *ret, struct err *e)
{
    const struct node *top = node_child(&r->cols.root, "value", 5), *at;
    const char *p;

    for (at = n; at != NULL && at != top; at = at->parent)
        ;
    if (at == NULL || (rec->kind == REC_TEXT && n != top)) {
        *ret = val_nil();
        return 0;
    }
    if (rec->kind == REC_TEXT) {
        *ret = val_str(rec->val, rec->val_len);
        return 0;
    }
    p = scan_skip(s, s->start, 0);
    if (p != NULL && p != s->end)
        p = scan_fail(s, p, "something follows the value");
    return p == NULL ? scan_err(s, e) : get_json(s, top, n, ret, e);
}

int
reader_get(struct reader *r, const struct rec *rec, uint32_t column,
           struct val *ret, struct err *e)
{
    const struct node *n;
    struct scan s;

    assert(column < r->cols.count);
    if (column < rec->row_n && has_row(r, rec) &&
        rec->row[column].type != VAL_BAD) {
        *ret = rec->row[column];
        return 0;
    }
    n = r->cols.node[column];
    if (rec->val == NULL) {
        *ret = val_nil();
        return 0;
    }
    scan_init(&s, rec->val, rec->val_len, (rec->flags & REC_EXT) != 0,
              json_bigint_of(rec), &r->arena);
    if (rec->kind == REC_OBJECT || rec->kind == REC_TOMBSTONE)
        return get_json(&s, &r->cols.root, n, ret, e);
    return get_value(r, &s, rec, n, ret, e);
}

void
reader_stats(const struct reader *r, struct reader_stats *ret)
{
    *ret = r->stats;
}

/* The string of a text record as JSON. */
static void
raw_text(struct reader *r, const struct rec *rec, const char **ret,
         size_t *ret_len)
{
    struct buf b;

    buf_init(&b);
    json_put_str(&b, rec->val, rec->val_len);
    *ret = arena_dup(&r->arena, b.data, b.len);
    *ret_len = b.len;
    buf_fini(&b);
}

/* Whether `n` is `top` or below it. */
static bool
is_below(const struct node *n, const struct node *top)
{
    while (n != NULL && n != top)
        n = n->parent;
    return n != NULL;
}

int
reader_raw(struct reader *r, const struct rec *rec, uint32_t column,
           const char **ret, size_t *ret_len, struct err *e)
{
    const struct node *n, *top = &r->cols.root;
    unsigned depth = 0;
    const char *end;
    struct scan s;
    int rc;

    assert(column < r->cols.count);
    n = r->cols.node[column];
    *ret = NULL;
    if (rec->val == NULL)
        return 0;
    if (!is_object(rec)) {
        top = node_child(&r->cols.root, "value", 5);
        if (top == NULL || !is_below(n, top))
            return 0;
        if (rec->kind == REC_TEXT) {
            if (n == top)
                raw_text(r, rec, ret, ret_len);
            return 0;
        }
    }
    scan_init(&s, rec->val, rec->val_len, (rec->flags & REC_EXT) != 0,
              json_bigint_of(rec), &r->arena);
    rc = find_json(&s, top, n, ret, &depth, e);
    if (rc != 0 || *ret == NULL)
        return rc;
    end = scan_skip(&s, *ret, depth);
    if (end == NULL)
        return scan_err(&s, e);
    *ret_len = (size_t)(end - *ret);
    return 0;
}
