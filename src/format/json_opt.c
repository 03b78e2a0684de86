#include "format/json_opt.h"

#include <string.h>

/* Whether map `o` has a member of that name already. */
static bool
has_member(const struct opt *o, const struct val *name)
{
    const struct opt *m;

    for (m = o->first; m != NULL; m = m->next)
        if (strlen(m->name) == name->len &&
            memcmp(m->name, name->u.s, name->len) == 0)
            return true;
    return false;
}

static int
from_members(const struct val *v, enum json_bigint bigint, struct arena *a,
             struct opt **ret, struct err *e)
{
    bool map = v->type == VAL_MAP;
    struct opt *o = map ? opt_new_map(a) : opt_new_list(a), *child;
    struct json_walk w;
    struct val name, value;
    int r;

    json_walk_init(&w, v->u.s, v->len, bigint, a);
    while ((r = json_walk_next(&w, map ? &name : NULL, &value, NULL, NULL,
                               e)) == 1) {
        if (map && has_member(o, &name))
            continue;
        r = json_opt(&value, bigint, a, &child, e);
        if (r != 0)
            return r;
        opt_add(a, o, map ? arena_dup(a, name.u.s, name.len) : NULL, child);
    }
    if (r == 0)
        *ret = o;
    return r;
}

int
json_opt(const struct val *v, enum json_bigint bigint, struct arena *a,
         struct opt **ret, struct err *e)
{
    struct opt *o;

    if (v->type == VAL_LIST || v->type == VAL_MAP)
        return from_members(v, bigint, a, ret, e);
    if (v->type == VAL_STR) {
        *ret = opt_new_str(a, v->u.s, v->len);
        return 0;
    }
    if (v->type == VAL_INT) {
        *ret = opt_new_int(a, v->u.i);
        return 0;
    }
    o = opt_new(a);
    if (v->type == VAL_BOOL) {
        o->type = OPT_BOOL;
        o->i = v->u.b;
    } else if (v->type == VAL_DBL) {
        o->type = OPT_DBL;
        o->d = v->u.d;
    }
    *ret = o;
    return 0;
}
