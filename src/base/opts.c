#include "base/opts.h"

#include <string.h>

struct opt *
opt_new(struct arena *a)
{
    struct opt *o = arena_alloc(a, sizeof *o);

    memset(o, 0, sizeof *o);
    return o;
}

struct opt *
opt_new_str(struct arena *a, const char *s, size_t len)
{
    struct opt *o = opt_new(a);

    o->type = OPT_STR;
    o->s = arena_dup(a, s, len);
    o->len = len;
    return o;
}

struct opt *
opt_new_int(struct arena *a, int64_t i)
{
    struct opt *o = opt_new(a);

    o->type = OPT_INT;
    o->i = i;
    return o;
}

struct opt *
opt_new_list(struct arena *a)
{
    struct opt *o = opt_new(a);

    o->type = OPT_LIST;
    return o;
}

struct opt *
opt_new_map(struct arena *a)
{
    struct opt *o = opt_new(a);

    o->type = OPT_MAP;
    return o;
}

void
opt_add(struct arena *a, struct opt *parent, const char *name,
        struct opt *child)
{
    struct opt **at = &parent->first;

    while (*at != NULL)
        at = &(*at)->next;
    *at = child;
    child->next = NULL;
    child->name = name != NULL ? arena_strdup(a, name) : NULL;
    parent->len++;
}

const struct opt *
opt_get(const struct opt *o, const char *name)
{
    const struct opt *c;

    if (o == NULL || o->type != OPT_MAP)
        return NULL;
    for (c = o->first; c != NULL; c = c->next)
        if (c->name != NULL && strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

const struct opt *
opt_at(const struct opt *o, size_t index)
{
    const struct opt *c;

    if (o == NULL)
        return NULL;
    for (c = o->first; c != NULL && index > 0; c = c->next)
        index--;
    return c;
}

int64_t
opt_int(const struct opt *o, const char *name, int64_t dflt)
{
    const struct opt *c = opt_get(o, name);

    return c != NULL && c->type == OPT_INT ? c->i : dflt;
}

bool
opt_bool(const struct opt *o, const char *name, bool dflt)
{
    const struct opt *c = opt_get(o, name);

    return c != NULL && c->type == OPT_BOOL ? c->i != 0 : dflt;
}

double
opt_dbl(const struct opt *o, const char *name, double dflt)
{
    const struct opt *c = opt_get(o, name);

    if (c != NULL && c->type == OPT_INT)
        return (double)c->i;
    return c != NULL && c->type == OPT_DBL ? c->d : dflt;
}

const char *
opt_str(const struct opt *o, const char *name, const char *dflt)
{
    const struct opt *c = opt_get(o, name);

    return c != NULL && c->type == OPT_STR ? c->s : dflt;
}

int
opt_func(const struct opt *o, const char *name)
{
    const struct opt *c = opt_get(o, name);

    return c != NULL && c->type == OPT_FUNC ? (int)c->i : 0;
}

bool
opt_has_func(const struct opt *o)
{
    const struct opt *c;

    if (o == NULL)
        return false;
    if (o->type == OPT_FUNC)
        return true;
    if (o->type != OPT_LIST && o->type != OPT_MAP)
        return false;
    for (c = o->first; c != NULL; c = c->next)
        if (opt_has_func(c))
            return true;
    return false;
}

bool
opt_is(const struct opt *o, const char *name, const char *value)
{
    const char *s = opt_str(o, name, NULL);

    return s != NULL && strcmp(s, value) == 0;
}

static void
put_children(struct buf *b, const struct opt *o)
{
    const struct opt *c;

    for (c = o->first; c != NULL; c = c->next) {
        if (o->type == OPT_MAP)
            json_put_name(b, c->name, strlen(c->name));
        else if (c != o->first)
            buf_addc(b, ',');
        opt_put_json(b, c);
    }
}

void
opt_put_json(struct buf *b, const struct opt *o)
{
    if (o == NULL) {
        buf_adds(b, "null");
        return;
    }
    switch (o->type) {
    case OPT_NIL:
        buf_adds(b, "null");
        break;
    case OPT_BOOL:
        buf_adds(b, o->i != 0 ? "true" : "false");
        break;
    case OPT_INT:
        json_put_int(b, o->i);
        break;
    case OPT_DBL:
        json_put_double(b, o->d);
        break;
    case OPT_STR:
        json_put_str(b, o->s, o->len);
        break;
    case OPT_FUNC:
        buf_addf(b, "{\"func\":%d}", (int)o->i);
        break;
    case OPT_LIST:
        buf_addc(b, '[');
        put_children(b, o);
        buf_addc(b, ']');
        break;
    case OPT_MAP:
        buf_addc(b, '{');
        put_children(b, o);
        buf_addc(b, '}');
        break;
    }
}
