#include "testing/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/json_opt.h"
#include "script/test.h"

int
value_from_json(const char *text, size_t len, struct arena *a, struct opt **ret,
                struct err *e)
{
    struct opt *o;
    struct val v;
    int r;

    r = json_value(text, len, BIGINT_STRING, a, &v, e);
    if (r == 0)
        r = json_opt(&v, BIGINT_STRING, a, &o, e);
    if (r != 0)
        return r;
    value_sort(o);
    *ret = o;
    return 0;
}

static int
compare_names(const void *va, const void *vb)
{
    const struct opt *const *a = va, *const *b = vb;

    return strcmp((*a)->name, (*b)->name);
}

void
value_sort(struct opt *o)
{
    struct opt **all, *c;
    size_t n = 0, i;

    for (c = o->first; c != NULL; c = c->next) {
        value_sort(c);
        n++;
    }
    if (o->type != OPT_MAP || n < 2)
        return;
    all = mem_alloc(n * sizeof(struct opt *));
    for (i = 0, c = o->first; c != NULL; c = c->next)
        all[i++] = c;
    qsort(all, n, sizeof(struct opt *), compare_names);
    for (i = 0; i < n; i++)
        all[i]->next = i + 1 < n ? all[i + 1] : NULL;
    o->first = all[0];
    free(all);
}

bool
value_has_mark(const struct opt *o)
{
    const struct opt *c;

    if (o->type == OPT_FUNC)
        return true;
    for (c = o->first; c != NULL; c = c->next)
        if (value_has_mark(c))
            return true;
    return false;
}

static bool
mark_equal(const struct opt *want, const struct opt *got, bool subset)
{
    const struct opt *value, *eps;
    double d;

    switch ((enum script_test_mark)want->i) {
    case TEST_ANY:
        return true;
    case TEST_APPROX:
        value = want->first;
        eps = value->next;
        if (got->type != OPT_INT && got->type != OPT_DBL)
            return false;
        d = got->type == OPT_INT ? (double)got->i : got->d;
        d -= value->type == OPT_INT ? (double)value->i : value->d;
        return fabs(d) <= (eps->type == OPT_INT ? (double)eps->i : eps->d);
    case TEST_TOMBSTONE:
        if (got->type != OPT_FUNC || got->i != TEST_TOMBSTONE)
            return false;
        if (got->first->type == OPT_NIL) /* it has no fields at all */
            return want->first->first == NULL;
        return value_equal(want->first, got->first, subset);
    }
    return false;
}

static bool
map_equal(const struct opt *want, const struct opt *got, bool subset)
{
    const struct opt *c, *other;

    if (!subset && want->len != got->len)
        return false;
    for (c = want->first; c != NULL; c = c->next) {
        other = opt_get(got, c->name);
        if (other == NULL || !value_equal(c, other, false))
            return false;
    }
    return true;
}

static bool
list_equal(const struct opt *want, const struct opt *got)
{
    const struct opt *a = want->first, *b = got->first;

    for (; a != NULL && b != NULL; a = a->next, b = b->next)
        if (!value_equal(a, b, false))
            return false;
    return a == NULL && b == NULL;
}

bool
value_equal(const struct opt *want, const struct opt *got, bool subset)
{
    if (want->type == OPT_FUNC)
        return mark_equal(want, got, subset);
    if (want->type == OPT_MAP && want->i == TEST_EMPTY && got->type == OPT_LIST)
        return got->first == NULL;
    if (want->type != got->type)
        return false;
    switch (want->type) {
    case OPT_BOOL:
    case OPT_INT:
        return want->i == got->i;
    case OPT_DBL:
        return want->d == got->d || (isnan(want->d) && isnan(got->d));
    case OPT_STR:
        return want->len == got->len && memcmp(want->s, got->s, want->len) == 0;
    case OPT_LIST:
        return list_equal(want, got);
    case OPT_MAP:
        return map_equal(want, got, subset);
    case OPT_NIL:
    case OPT_FUNC:
        break;
    }
    return true;
}

static void
put_mark(struct buf *out, const struct opt *o)
{
    switch ((enum script_test_mark)o->i) {
    case TEST_ANY:
        buf_adds(out, "any");
        return;
    case TEST_APPROX:
        buf_adds(out, "approx(");
        value_put(out, o->first);
        buf_adds(out, ", ");
        value_put(out, o->first->next);
        buf_addc(out, ')');
        return;
    case TEST_TOMBSTONE:
        buf_adds(out, "tombstone ");
        value_put(out, o->first);
        return;
    }
}

void
value_put(struct buf *out, const struct opt *o)
{
    const struct opt *c;

    if (o->type == OPT_FUNC) {
        put_mark(out, o);
    } else if (o->type == OPT_LIST) {
        buf_addc(out, '[');
        for (c = o->first; c != NULL; c = c->next) {
            if (c != o->first)
                buf_addc(out, ',');
            value_put(out, c);
        }
        buf_addc(out, ']');
    } else if (o->type == OPT_MAP) {
        buf_addc(out, '{');
        for (c = o->first; c != NULL; c = c->next) {
            json_put_name(out, c->name, strlen(c->name));
            value_put(out, c);
        }
        buf_addc(out, '}');
    } else {
        opt_put_json(out, o);
    }
}
