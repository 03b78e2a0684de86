#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/fit.h"
#include "plan/fit_impl.h"

/* A reader of what plan_state_put() writes: JSON without blanks, whose
 * strings hold any bytes and escape only what must be. */
struct reader {
    struct arena *a;
    const char *at, *end;
};

static struct opt *read_value(struct reader *r, int depth);

static bool
take(struct reader *r, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of the escape behind a backslash, or -1. */
static int
read_escape(struct reader *r)
{
    static const char names[] = "\"\\nrtbf", bytes[] = "\"\\\n\r\t\b\f";
    const char *name;
    int hi, lo;

    if (r->at == r->end)
        return -1;
    name = *r->at != '\0' ? strchr(names, *r->at) : NULL;
    if (name != NULL) {
        r->at++;
        return bytes[name - names];
    }
    if (!take(r, "u00") || r->end - r->at < 2)
        return -1;
    hi = hex_digit(r->at[0]);
    lo = hex_digit(r->at[1]);
    r->at += 2;
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

/* A string behind its first quote. */
static bool
read_string(struct reader *r, struct buf *ret)
{
    int c;

    buf_clear(ret);
    while (r->at < r->end && *r->at != '"') {
        c = (unsigned char)*r->at++;
        if (c == '\\' && (c = read_escape(r)) < 0)
            return false;
        buf_addc(ret, (char)c);
    }
    return take(r, "\"");
}

static struct opt *
read_number(struct reader *r)
{
    struct opt *o = opt_new_int(r->a, 0);
    char text[NUM_TEXT_MAX + 1];
    size_t len = 0;
    char *stop;

    while (r->at + len < r->end && len < NUM_TEXT_MAX && r->at[len] != '\0' &&
           strchr("+-.0123456789eE", r->at[len]) != NULL)
        len++;
    memcpy(text, r->at, len);
    text[len] = '\0';
    r->at += len;
    errno = 0;
    o->i = strtoll(text, &stop, 10);
    if (*stop != '\0') {
        o->type = OPT_DBL;
        o->d = strtod(text, &stop);
    }
    return len > 0 && *stop == '\0' && errno == 0 ? o : NULL;
}

/* Whether a map stands for a function. */
static bool
is_func(const struct opt *o)
{
    return o->type == OPT_MAP && o->len == 1 && opt_bool(o, "func", false);
}

/* A list or map behind its bracket. */
static struct opt *
read_children(struct reader *r, int depth)
{
    bool map = r->at[-1] == '{';
    const char *end = map ? "}" : "]";
    struct opt *o = map ? opt_new_map(r->a) : opt_new_list(r->a), *child;
    struct buf name;
    bool ok = true, more = !take(r, end);

    buf_init(&name);
    while (ok && more) {
        if (map)
            ok = take(r, "\"") && read_string(r, &name) && take(r, ":");
        child = ok ? read_value(r, depth + 1) : NULL;
        ok = child != NULL;
        if (ok)
            opt_add(r->a, o, map ? buf_cstr(&name) : NULL, child);
        more = ok && take(r, ",");
    }
    ok = ok && (o->len == 0 || take(r, end));
    buf_fini(&name);
    if (ok && is_func(o)) {
        o->type = OPT_FUNC;
        o->i = 1;
        o->len = 0;
        o->first = NULL;
    }
    return ok ? o : NULL;
}

static struct opt *
read_value(struct reader *r, int depth)
{
    struct opt *o;
    struct buf s;
    bool ok;

    if (r->at == r->end || depth > PLAN_STATE_DEPTH_MAX)
        return NULL;
    if (take(r, "{") || take(r, "["))
        return read_children(r, depth);
    if (take(r, "null"))
        return opt_new(r->a);
    if (take(r, "\"")) {
        buf_init(&s);
        ok = read_string(r, &s);
        o = ok ? opt_new_str(r->a, buf_cstr(&s), s.len) : NULL;
        buf_fini(&s);
        return o;
    }
    if (*r->at != 't' && *r->at != 'f')
        return read_number(r);
    o = opt_new(r->a);
    o->type = OPT_BOOL;
    o->i = *r->at == 't';
    return take(r, o->i != 0 ? "true" : "false") ? o : NULL;
}

/* The handles of a process have names and kinds. */
static bool
has_handles(const struct opt *step)
{
    const struct opt *state = opt_get(step, "state"), *h;

    if (state == NULL || state->type != OPT_LIST)
        return false;
    for (h = state->first; h != NULL; h = h->next)
        if (opt_str(h, "name", NULL) == NULL ||
            opt_str(h, "kind", NULL) == NULL)
            return false;
    return true;
}

/* How many places of an aggregate's are of none any more: a list of numbers
 * that grow. @return -1: damaged. */
static int64_t
count_gone(const struct opt *step, int64_t aggs)
{
    const struct opt *gone = opt_get(step, "aggs_gone"), *o;
    int64_t next = 0, n;

    if (gone == NULL)
        return 0;
    if (gone->type != OPT_LIST)
        return -1;
    n = (int64_t)gone->len;
    for (o = gone->first; o != NULL; o = o->next) {
        if (o->type != OPT_INT || o->i < next || o->i >= aggs + n)
            return -1;
        next = o->i + 1;
    }
    return n;
}

/* An aggregate has a list, and places that every entry has; a process has
 * its handles. */
static bool
has_parts(const struct opt *step)
{
    const struct opt *aggs = opt_get(step, "aggs");
    int64_t min, count;

    if (opt_is(step, "kind", "process"))
        return has_handles(step);
    if (!opt_is(step, "kind", "aggregate"))
        return true;
    if (aggs == NULL || aggs->type != OPT_LIST || aggs->len == 0)
        return false;
    count = count_gone(step, (int64_t)aggs->len);
    if (count < 0)
        return false;
    count += (int64_t)aggs->len;
    min = opt_int(step, "aggs_min", count);
    return min > 0 && min <= count;
}

/* The list of steps that keep nothing may be absent. */
static bool
has_others(const struct opt *o)
{
    const struct opt *list = opt_get(o, "others"), *s;

    if (list == NULL)
        return true;
    if (list->type != OPT_LIST)
        return false;
    for (s = list->first; s != NULL; s = s->next)
        if (opt_str(s, "name", NULL) == NULL ||
            opt_str(s, "kind", NULL) == NULL)
            return false;
    return true;
}

/* Whether the tree has what every reader of it relies on. */
static bool
is_whole(const struct opt *o)
{
    const struct opt *steps = opt_get(o, "steps"), *s;
    int64_t max = opt_int(o, "max_parallelism", 0);

    if (opt_str(o, "job", NULL) == NULL || max < 1 || max > UINT16_MAX ||
        steps == NULL || steps->type != OPT_LIST || !has_others(o))
        return false;
    for (s = steps->first; s != NULL; s = s->next)
        if (opt_str(s, "name", NULL) == NULL ||
            opt_str(s, "kind", NULL) == NULL || !has_parts(s))
            return false;
    return true;
}

int
plan_state_read(const char *json, size_t len, struct arena *a,
                const struct opt **ret, struct err *e)
{
    struct reader r = {.a = a, .at = json, .end = json + len};
    const struct opt *o = read_value(&r, 0);
    int64_t version = opt_int(o, "version", 0);

    if (version > PLAN_STATE_VERSION) {
        (void)err_set(e, ERR_IO,
                      "the description of the plan has version %lld, this "
                      "program reads up to %d",
                      (long long)version, PLAN_STATE_VERSION);
        err_hint(e, "use the version of streamlua that wrote this state");
        return ERR_IO;
    }
    if (o == NULL || r.at != r.end || version < 1 || !is_whole(o))
        return err_set(e, ERR_IO,
                       "the description of the plan is damaged at byte %zu "
                       "of %zu",
                       (size_t)(r.at - json), len);
    *ret = o;
    return 0;
}

uint32_t
plan_state_max_parallelism(const char *json, size_t len)
{
    const struct opt *o;
    struct arena a;
    struct err e;
    int64_t max = 0;

    arena_init(&a);
    if (plan_state_read(json, len, &a, &o, &e) == 0)
        max = opt_int(o, "max_parallelism", 0);
    arena_fini(&a);
    return (uint32_t)max;
}
