#include "op/row.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/key.h"
#include "format/json.h"
#include "script/node.h"

struct piece { /* literal text in front of a value */
    char *text;
    size_t len;
};

struct row_format {
    const struct aggset *set;
    struct piece *keys, *aggs;
    uint32_t key_count;
    struct piece window_start, window_end;
    const char *names[2]; /* of the window fields */
    bool has_window, with_key;
    uint16_t topic; /* origin of rows: the step's name */
    struct buf buf;
    struct buf window; /* text of the last window: [start, end) */
    int64_t start, end;
    struct tree tree; /* of a ranked record */
};

static struct piece
piece_of(const char *name, bool first)
{
    struct buf b;
    struct piece p;

    buf_init(&b);
    buf_addc(&b, first ? '{' : ',');
    json_put_str(&b, name, strlen(name));
    buf_addc(&b, ':');
    p.text = mem_dup(b.data, b.len);
    p.len = b.len;
    buf_fini(&b);
    return p;
}

bool
row_has_bounds(const struct opt *step)
{
    const struct opt *w = opt_get(step, "window");

    return !opt_is(w, "kind", "global") && !opt_is(w, "kind", "none") &&
           !opt_is(w, "kind", "count");
}

/* The window fields: none for windows without bounds. */
static void
name_window(struct row_format *f, const struct opt *opts)
{
    const struct opt *names = opt_get(opts, "window_fields");

    f->names[0] = "window_start";
    f->names[1] = "window_end";
    f->has_window =
        row_has_bounds(opts) && (names == NULL || names->type == OPT_LIST);
    if (names != NULL && names->type == OPT_LIST && names->len == 2) {
        f->names[0] = names->first->s;
        f->names[1] = names->first->next->s;
    }
}

struct row_format *
row_format_new(const struct plan_step *step, const struct aggset *set,
               bool with_key)
{
    const struct opt *key = opt_get(step->opts, "key"), *c;
    struct row_format *f = mem_zalloc(sizeof *f);
    bool first = true;
    uint32_t i;

    f->set = set;
    f->with_key = with_key;
    f->topic = topic_register(step->name);
    name_window(f, step->opts);
    f->keys = mem_zalloc((key->len + 1) * sizeof *f->keys);
    for (c = key->first; c != NULL; c = c->next) {
        f->keys[f->key_count++] = piece_of(opt_str(c, "name", ""), first);
        first = false;
    }
    f->window_start = piece_of(f->names[0], first);
    f->window_end = piece_of(f->names[1], false);
    if (f->has_window)
        first = false;
    f->aggs = mem_zalloc((set->count + 1u) * sizeof *f->aggs);
    for (i = 0; i < set->count; i++) {
        f->aggs[i] = piece_of(set->aggs[i].name, first);
        first = false;
    }
    buf_init(&f->buf);
    buf_init(&f->window);
    tree_init(&f->tree);
    return f;
}

void
row_format_free(struct row_format **fp)
{
    struct row_format *f = *fp;
    uint32_t i;

    *fp = NULL;
    if (f == NULL)
        return;
    for (i = 0; i < f->key_count; i++)
        free(f->keys[i].text);
    for (i = 0; i < f->set->count; i++)
        free(f->aggs[i].text);
    free(f->keys);
    free(f->aggs);
    free(f->window_start.text);
    free(f->window_end.text);
    buf_fini(&f->buf);
    buf_fini(&f->window);
    tree_fini(&f->tree);
    free(f);
}

/* @param ext set where a key is no JSON: an infinity, bad UTF-8. */
static void
put_key(struct row_format *f, const struct winrow *row, bool *ext)
{
    const char *p = row->key, *end = row->key + row->key_len;
    size_t from = f->buf.len;
    uint32_t i;

    for (i = 0; i < f->key_count; i++) {
        buf_add(&f->buf, f->keys[i].text, f->keys[i].len);
        p += key_part_json(&f->buf, p, end);
    }
    if (f->key_count > 0 && json_is_ext(f->buf.data + from, f->buf.len - from))
        *ext = true;
}

/* The rows of a window come together: its text is made once. */
static void
put_window(struct row_format *f, const struct winrow *row)
{
    struct buf *b = &f->window;

    if (b->len == 0 || f->start != row->start || f->end != row->end) {
        buf_clear(b);
        buf_add(b, f->window_start.text, f->window_start.len);
        json_put_int(b, row->start);
        buf_add(b, f->window_end.text, f->window_end.len);
        json_put_int(b, row->end);
        f->start = row->start;
        f->end = row->end;
    }
    buf_add(&f->buf, b->data, b->len);
}

static int
put_aggs(struct row_format *f, const struct winrow *row, bool *ext,
         struct err *e)
{
    uint32_t i;
    int r;

    for (i = 0; i < f->set->count; i++) {
        const struct agg *a = &f->set->aggs[i];

        buf_add(&f->buf, f->aggs[i].text, f->aggs[i].len);
        r = a->type->result(a, (const char *)row->block + a->offset, &f->buf,
                            ext, e);
        if (r != 0) {
            if (e->where[0] == '\0')
                err_where(e, "%s", opt_str(a->opts, "place", ""));
            return r;
        }
    }
    return 0;
}

/* Message key: one field gives its text, several a JSON object. */
static void
set_key(struct row_format *f, const struct winrow *row, struct batch *b,
        struct rec *r)
{
    size_t from = f->buf.len;
    bool ext;

    if (!f->with_key || f->key_count == 0)
        return;
    if (f->key_count == 1) {
        (void)key_part_text(&f->buf, row->key, row->key + row->key_len);
    } else {
        put_key(f, row, &ext);
        buf_addc(&f->buf, '}');
    }
    r->key_len = (uint32_t)(f->buf.len - from);
    r->key = arena_dup(&b->arena, f->buf.data + from, r->key_len);
}

int
row_check(const struct winrow *row, struct err *e)
{
    if (row->poisoned)
        return err_record(e, CAUSE_TYPE,
                          "values of different types met in "
                          "one window, numbers and strings");
    if (row->unsaved != NULL) {
        *e = *row->unsaved;
        return e->code;
    }
    return 0;
}

/* What all rows have: time, origin and key. */
static void
finish(struct row_format *f, struct batch *b, const struct winrow *row,
       struct rec *r)
{
    r->flags |= REC_HAS_TS;
    r->ts = row->end - 1;
    r->wm = WM_NONE;
    r->src = UINT16_MAX;
    r->topic = f->topic;
    r->partition = 0;
    r->offset = 0;
    r->key = NULL;
    r->key_len = 0;
    set_key(f, row, b, r);
}

int
row_put(struct row_format *f, struct batch *b, const struct winrow *row,
        struct err *e)
{
    bool ext = false;
    struct rec *r;
    int rc;

    buf_clear(&f->buf);
    put_key(f, row, &ext);
    if (f->has_window)
        put_window(f, row);
    rc = put_aggs(f, row, &ext, e);
    if (rc != 0)
        return rc;
    buf_addc(&f->buf, '}');
    r = batch_add(b);
    r->val = arena_dup(&b->arena, f->buf.data, f->buf.len);
    r->val_len = (uint32_t)f->buf.len;
    r->kind = REC_OBJECT;
    r->flags = (uint8_t)(REC_OWNED | (ext ? REC_EXT : 0));
    finish(f, b, row, r);
    return 0;
}

void
row_put_record(struct row_format *f, struct batch *b, const struct winrow *row,
               const struct kept *k)
{
    struct rec *r = batch_add_ref(b, &k->rec);

    r->val = arena_dup(&b->arena, k->rec.val, k->rec.val_len);
    r->headers = NULL;
    r->flags &= (uint8_t)~REC_KEY_JSON;
    finish(f, b, row, r);
}

/* Assign an integer member, if it is not there or `always`. */
static int
assign(struct row_format *f, const char *name, int64_t i, bool always,
       struct err *e)
{
    struct val v = val_int(i);
    struct node *old;
    size_t len = strlen(name);
    int rc = node_find(&f->tree, f->tree.root, name, len, &old, e);

    if (rc < 0 || (rc == 1 && !always))
        return rc < 0 ? rc : 0;
    return node_set(&f->tree, f->tree.root, name, len, node_new(&f->tree, &v),
                    e);
}

int
row_put_ranked(struct row_format *f, struct batch *b, const struct winrow *row,
               const struct rec *rec, uint32_t rank, struct err *e)
{
    bool ext;
    struct rec *r;
    int rc;

    tree_reset(&f->tree);
    rc = tree_load(&f->tree, rec, e);
    if (rc == 0 && f->has_window)
        rc = assign(f, f->names[0], row->start, false, e);
    if (rc == 0 && f->has_window)
        rc = assign(f, f->names[1], row->end, false, e);
    if (rc == 0)
        rc = assign(f, "rank", rank, true, e);
    if (rc != 0)
        return rc;
    ext = f->tree.ext;
    buf_clear(&f->buf);
    rc = node_put(&f->tree, f->tree.root, &f->buf, &ext, e);
    if (rc != 0)
        return rc;
    r = batch_add_copy(b, rec);
    r->val = arena_dup(&b->arena, f->buf.data, f->buf.len);
    r->val_len = (uint32_t)f->buf.len;
    r->kind = REC_OBJECT;
    r->flags &= (uint8_t) ~(REC_RAW | REC_EXT | REC_KEY_JSON);
    r->flags |= (uint8_t)(REC_OWNED | (ext ? REC_EXT : 0));
    finish(f, b, row, r);
    return 0;
}
