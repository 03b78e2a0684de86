#include "inspect/text.h"

#include <string.h>

#include "format/json.h"
#include "inspect/keyed.h"

/* --- keys ----------------------------------------------------------------- */

/* Append what may be extended JSON, as JSON. */
static void
put_plain(struct buf *out, const char *text, size_t len)
{
    struct err e;
    size_t from = out->len;

    if (json_put_plain(out, text, len, NAN_STRING, UTF8_REPLACE, &e) == 0)
        return;
    out->len = from; /* nothing that a key can be */
    buf_adds(out, "null");
}

void
state_put_key(struct buf *out, const struct state_step *s,
              const struct state_row *row)
{
    const struct opt *c = opt_get(s->desc, "key");
    const char *p = row->key, *end = p + row->key_len;
    struct buf part;

    buf_init(&part);
    buf_addc(out, '{');
    for (c = c != NULL ? c->first : NULL; c != NULL; c = c->next) {
        const char *name = opt_str(c, "name", "");

        buf_clear(&part);
        p += key_part_json(&part, p, end);
        json_put_name(out, name, strlen(name));
        put_plain(out, part.data, part.len);
    }
    buf_addc(out, '}');
    buf_fini(&part);
}

static int
key_shape(const struct state_step *s, const char *text, struct err *e)
{
    const struct opt *key = opt_get(s->desc, "key"), *c;
    struct buf names;
    int r;

    buf_init(&names);
    for (c = key->first; c != NULL; c = c->next)
        buf_addf(&names, "%s\"%s\":...", c != key->first ? "," : "",
                 opt_str(c, "name", ""));
    r = err_set(e, ERR_USAGE, "KEY of %s is {%s}%s, got %s", s->name,
                buf_cstr(&names), key->len == 1 ? " or the value alone" : "",
                text);
    buf_fini(&names);
    return r;
}

/* @param v a value of any type; NULL and null are no part of a key. */
static int
put_part(const struct opt *column, const struct val *v, struct buf *out,
         struct err *e)
{
    int r = 0;

    if (val_is_null(v))
        return err_set(e, ERR_USAGE, "KEY: \"%s\" is null, which no key is",
                       opt_str(column, "name", ""));
    if (!key_put_scalar(out, v))
        r = json_key_encode(out, v, e);
    if (r == 0)
        return 0;
    (void)err_context(e, "KEY");
    e->code = ERR_USAGE;
    return ERR_USAGE;
}

/* The member of map `v` that is called `name`. @return 1, 0, or an error. */
static int
find_member(const struct val *v, const char *name, struct arena *a,
            struct val *ret, struct err *e)
{
    struct json_walk w;
    struct val n, value;
    int r;

    json_walk_init(&w, v->u.s, v->len, BIGINT_ERROR, a);
    while ((r = json_walk_next(&w, &n, &value, NULL, NULL, e)) == 1)
        if (n.len == strlen(name) && memcmp(n.u.s, name, n.len) == 0) {
            *ret = value;
            return 1;
        }
    return r;
}

static int
count_members(const struct val *v, struct arena *a, size_t *ret, struct err *e)
{
    struct json_walk w;
    struct val n, value;
    int r;

    *ret = 0;
    json_walk_init(&w, v->u.s, v->len, BIGINT_ERROR, a);
    while ((r = json_walk_next(&w, &n, &value, NULL, NULL, e)) == 1)
        (*ret)++;
    return r;
}

static int
put_fields(const struct state_step *s, const char *text, const struct val *v,
           struct buf *out, struct err *e)
{
    const struct opt *key = opt_get(s->desc, "key"), *c;
    struct arena *a = s->view->scratch;
    struct val part;
    size_t n;
    int r = count_members(v, a, &n, e);

    if (r == 0 && n != key->len)
        return key_shape(s, text, e);
    for (c = key->first; c != NULL && r == 0; c = c->next) {
        r = find_member(v, opt_str(c, "name", ""), a, &part, e);
        if (r == 0)
            return key_shape(s, text, e);
        r = r == 1 ? put_part(c, &part, out, e) : r;
    }
    if (r == 0)
        return 0;
    e->code = ERR_USAGE;
    return ERR_USAGE;
}

int
state_read_key(const struct state_step *s, const char *text, struct buf *out,
               struct err *e)
{
    const struct opt *key = opt_get(s->desc, "key");
    struct arena *a = s->view->scratch;
    size_t len = strlen(text);
    struct val v;

    if (key == NULL)
        return err_set(e, ERR_IO, "the description of step %s is damaged",
                       s->name);
    text = arena_dup(a, text, len);
    if (!json_utf8_ok(text, len) ||
        json_value_plain(text, len, BIGINT_ERROR, a, &v, e) != 0) {
        (void)err_set(e, ERR_USAGE, "KEY is JSON, got %s", text);
        err_hint(e, "a string is written with its quotes, for a shell: "
                    "'\"text\"'");
        return ERR_USAGE;
    }
    if (v.type == VAL_MAP)
        return put_fields(s, text, &v, out, e);
    return key->len == 1 ? put_part(key->first, &v, out, e)
                         : key_shape(s, text, e);
}

/* --- rows ----------------------------------------------------------------- */

bool
state_has_window(const struct state_step *s)
{
    return !state_is_keyed(s->desc) && s->window.kind != WINDOW_GLOBAL;
}

void
state_put_head(struct buf *out, const struct state_step *s,
               const struct state_row *row)
{
    json_put_name(out, "step", 4);
    json_put_str(out, s->name, strlen(s->name));
    json_put_name(out, "key", 3);
    state_put_key(out, s, row);
    if (row->state != NULL) {
        json_put_name(out, "state", 5);
        json_put_str(out, row->state, strlen(row->state));
    }
    if (row->timer != NULL) {
        json_put_name(out, "timer", 5);
        json_put_str(out, row->timer, strlen(row->timer));
        json_put_name(out, "ts", 2);
        json_put_int(out, row->start);
    }
    if (!state_has_window(s))
        return;
    json_put_name(out, "window_start", 12);
    json_put_int(out, row->start);
    json_put_name(out, "window_end", 10);
    json_put_int(out, row->end);
}

void
state_put_value(struct buf *out, const struct state_row *row)
{
    if (row->timer != NULL)
        return; /* there is nothing else */
    json_put_name(out, "value", 5);
    if (row->value != NULL) {
        buf_adds(out, row->value);
    } else {
        buf_adds(out, "null");
        json_put_name(out, "error", 5);
        json_put_str(out, row->error, strlen(row->error));
    }
}
