#include "plan/fit.h"

#include <stdio.h>
#include <string.h>

#include "plan/explain_put.h"
#include "plan/fit_impl.h"

bool
plan_same_tree(const struct opt *a, const struct opt *b)
{
    const struct opt *x, *y;

    if (a == NULL || b == NULL)
        return a == b;
    if (a->type != b->type || a->len != b->len)
        return false;
    switch (a->type) {
    case OPT_NIL:
    case OPT_FUNC: /* which one, nobody can say */
        return true;
    case OPT_BOOL:
    case OPT_INT:
        return a->i == b->i;
    case OPT_DBL:
        return !(a->d < b->d) && !(a->d > b->d);
    case OPT_STR:
        return memcmp(a->s, b->s, a->len) == 0;
    case OPT_LIST:
    case OPT_MAP:
        break;
    }
    y = b->first;
    for (x = a->first; x != NULL && y != NULL; x = x->next, y = y->next)
        if ((a->type == OPT_MAP && strcmp(x->name, y->name) != 0) ||
            !plan_same_tree(x, y))
            return false;
    return true;
}

/* --- entries of the result ----------------------------------------------- */

/* What the job file calls a step, or the state if the plan has none. */
static const struct plan_step *
plan_step_find(const struct plan *p, const char *name)
{
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        if (p->steps[i].kind != STEP_LOCAL &&
            strcmp(p->steps[i].name, name) == 0)
            return &p->steps[i];
    return NULL;
}

static bool
is_keyed_kind(const char *kind)
{
    return strcmp(kind, "aggregate") == 0 || strcmp(kind, "process") == 0 ||
           strcmp(kind, "dedup") == 0;
}

void
fit_add(struct fit *f, const char *step, enum fit_verdict verdict,
        const char *why, const char *note)
{
    struct fit_step *s = &f->ret->steps[f->ret->count++];
    const struct plan_step *at = plan_step_find(f->p, step);
    const struct opt *o = fit_find(opt_get(f->was, "steps"), step);

    if (o == NULL)
        o = fit_find(opt_get(f->was, "others"), step);
    s->step = arena_strdup(&f->ret->arena, step);
    s->kind = at != NULL ? plan_step_said(at) : opt_str(o, "kind", "job");
    s->kind = arena_strdup(&f->ret->arena, s->kind);
    s->verdict = verdict;
    s->why = arena_strdup(&f->ret->arena, why);
    s->note = arena_strdup(&f->ret->arena, note);
    s->drop = false;
    s->keyed = at != NULL ? plan_step_is_keyed(at)
                          : is_keyed_kind(opt_str(o, "kind", ""));
}

void
fit_refuse(struct fit *f, const char *step, const char *why)
{
    uint32_t i = 0;

    while (i < f->ret->count && strcmp(f->ret->steps[i].step, step) != 0)
        i++;
    if (i == f->ret->count)
        fit_add(f, step, FIT_REFUSED, "", "");
    f->ret->steps[i].verdict = FIT_REFUSED;
    f->ret->steps[i].why = arena_strdup(&f->ret->arena, why);
}

void
fit_lost(struct fit *f, const char *step, bool drop, const char *fmt, ...)
{
    char why[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    fit_add(f, step, FIT_LOST, why, "");
    f->ret->steps[f->ret->count - 1].drop = drop;
}

void
fit_tell(struct fit *f, const char *fmt, ...)
{
    char why[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    f->ret->steps[f->ret->count - 1].why = arena_strdup(&f->ret->arena, why);
}

void
fit_kept(struct fit *f, const struct opt *is, const struct opt *was)
{
    static const char *const beside[] = {"auto", "place", "parallelism", "from",
                                         "opts", "code",  "core"};
    const struct opt *o;
    struct buf note;
    bool same = true;
    size_t i;

    for (o = is->first; o != NULL && same; o = o->next) {
        for (i = 0; i < sizeof beside / sizeof beside[0]; i++)
            if (strcmp(o->name, beside[i]) == 0)
                break;
        if (i == sizeof beside / sizeof beside[0])
            same = plan_same_tree(o, opt_get(was, o->name));
    }
    buf_init(&note);
    if (fit_note(is, was, &note))
        same = false;
    fit_add(f, opt_str(is, "name", ""), same ? FIT_KEPT : FIT_CHANGED, "",
            buf_cstr(&note));
    buf_fini(&note);
}

const struct opt *
fit_find(const struct opt *list, const char *name)
{
    const struct opt *o;

    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next)
        if (opt_is(o, "name", name))
            return o;
    return NULL;
}

/* Whether a step of a description has something that can be lost. */
static bool
keeps(const struct opt *step)
{
    return step != NULL &&
           (!opt_is(step, "kind", "sink") || opt_is(step, "connector", "file"));
}

static bool
is_aggregate(const struct opt *step)
{
    return opt_is(step, "kind", "aggregate");
}

/* Whether the step has keyed state. */
static bool
is_keyed(const struct opt *step)
{
    return is_keyed_kind(opt_str(step, "kind", ""));
}

/* --- sources, event time, sinks ------------------------------------------ */

/* Whether `topics`, a string or a list, has the string `one`. */
static bool
has_topic(const struct opt *topics, const struct opt *one)
{
    const struct opt *t;

    if (topics == NULL || topics->type != OPT_LIST)
        return topics != NULL && plan_same_tree(topics, one);
    for (t = topics->first; t != NULL; t = t->next)
        if (plan_same_tree(t, one))
            return true;
    return false;
}

static const struct opt *
removed_topic(const struct opt *is, const struct opt *was)
{
    const struct opt *old = opt_get(was, "topic"), *now = opt_get(is, "topic");
    const struct opt *t;

    if (old == NULL || old->type != OPT_LIST)
        return old == NULL || has_topic(now, old) ? NULL : old;
    for (t = old->first; t != NULL; t = t->next)
        if (!has_topic(now, t))
            return t;
    return NULL;
}

static void
fit_source(struct fit *f, const struct opt *is, const struct opt *was)
{
    const char *step = opt_str(is, "name", "");
    const char *now = opt_str(is, "connector", "");
    const char *then = opt_str(was, "connector", "");
    int64_t parts = opt_int(is, "partitions", 1);
    int64_t before = opt_int(was, "partitions", 1);
    const struct opt *topic = removed_topic(is, was);

    if (strcmp(now, then) != 0)
        fit_lost(f, step, true, "source changed from %s to %s", then, now);
    else if (topic != NULL)
        fit_lost(f, step, false, "topic %s removed", topic->s);
    else if (parts != before &&
             (parts < before || strcmp(now, "generator") == 0))
        fit_lost(f, step, true, "partitions changed from %lld to %lld",
                 (long long)before, (long long)parts);
    else
        fit_kept(f, is, was);
}

/* Its watermarks are those of the partitions of its source. */
static void
fit_event_time(struct fit *f, const struct opt *is, const struct opt *was)
{
    if (plan_same_tree(opt_get(is, "from"), opt_get(was, "from")))
        fit_kept(f, is, was);
    else
        fit_lost(f, opt_str(is, "name", ""), true, "it has another source");
}

static void
fit_sink(struct fit *f, const struct opt *is, const struct opt *was)
{
    if (keeps(was) && !keeps(is))
        fit_lost(f, opt_str(is, "name", ""), true,
                 "sink changed from %s to %s: parts in progress stay hidden",
                 opt_str(was, "connector", ""), opt_str(is, "connector", ""));
    else
        fit_kept(f, is, was);
}

static void
fit_step(struct fit *f, const struct opt *is)
{
    const char *name = opt_str(is, "name", "");
    const char *kind = opt_str(is, "kind", "");
    const struct opt *was = fit_find(opt_get(f->was, "steps"), name);

    if (was == NULL)
        fit_add(f, name, FIT_NEW, "", "");
    else if (!opt_is(was, "kind", kind))
        fit_lost(f, name, true, "it was a step of kind %s, and is %s",
                 opt_str(was, "kind", ""), kind);
    else if (is_aggregate(is))
        fit_aggregate(f, is, was);
    else if (is_keyed(is))
        fit_keyed(f, is, was);
    else if (strcmp(kind, "source") == 0)
        fit_source(f, is, was);
    else if (strcmp(kind, "event_time") == 0)
        fit_event_time(f, is, was);
    else
        fit_sink(f, is, was);
}

/* --- automatic names ----------------------------------------------------- */

static bool
is_auto(const struct opt *step)
{
    return step != NULL && opt_bool(step, "auto", false);
}

/* Steps of a kind with automatic names. */
static uint32_t
count_auto(const struct opt *tree, const char *kind)
{
    const struct opt *o = opt_get(tree, "steps");
    uint32_t n = 0;

    for (o = o->first; o != NULL; o = o->next)
        n += is_auto(o) && opt_is(o, "kind", kind);
    return n;
}

static bool
same_shape(const struct opt *a, const struct opt *b)
{
    return fit_same_key(a, b) &&
           fit_same_key(opt_get(a, "right"), opt_get(b, "right")) &&
           plan_same_tree(opt_get(a, "state"), opt_get(b, "state")) &&
           plan_same_tree(opt_get(a, "window"), opt_get(b, "window")) &&
           plan_same_tree(opt_get(a, "aggs"), opt_get(b, "aggs")) &&
           plan_same_tree(opt_get(a, "from"), opt_get(b, "from"));
}

/*
 * Whether an automatically named step stands where another stood. With one
 * such step of its kind a changed key or window is just that; with several
 * nobody can tell it from two that changed places.
 */
static bool
has_moved(const struct fit *f, const struct opt *is, const struct opt *was)
{
    const char *kind = opt_str(is, "kind", "");
    const struct opt *o;

    if (count_auto(f->is, kind) < 2 && count_auto(f->was, kind) < 2)
        return false;
    if (!plan_same_tree(opt_get(is, "from"), opt_get(was, "from")))
        return true;
    if (!is_keyed(is))
        return false;
    if (!fit_same_key(is, was) ||
        !plan_same_tree(opt_get(is, "window"), opt_get(was, "window")))
        return true;
    if (same_shape(is, was))
        return false;
    for (o = opt_get(f->was, "steps")->first; o != NULL; o = o->next)
        if (o != was && is_auto(o) && is_keyed(o) && same_shape(is, o))
            return true;
    return false;
}

/* Event time is told by its source, so that it may come and go. */
static bool
breaks_naming(const struct fit *f, const struct opt *is)
{
    const struct opt *was =
        fit_find(opt_get(f->was, "steps"), opt_str(is, "name", ""));

    if (!is_auto(is))
        return false;
    if (was == NULL || !opt_is(was, "kind", opt_str(is, "kind", "")))
        return is_keyed(is);
    return has_moved(f, is, was);
}

static void
list_step(struct fit *f, struct buf *out, struct err *e, const struct opt *step)
{
    if (out->len == 0)
        err_where(e, "%s", opt_str(step, "place", ""));
    fit_refuse(f, opt_str(step, "name", ""),
               "name it first: steps with automatic names came, went or "
               "moved");
    buf_addf(out, "%s%s (%s)", out->len > 0 ? ", " : "",
             opt_str(step, "name", ""), opt_str(step, "place", ""));
}

static int
check_names(struct fit *f, struct err *e)
{
    const struct opt *o, *is = opt_get(f->is, "steps");
    struct err where;
    struct buf list;
    int r = 0;

    err_clear(&where);
    buf_init(&list);
    for (o = is->first; o != NULL; o = o->next)
        if (breaks_naming(f, o))
            list_step(f, &list, &where, o);
    for (o = opt_get(f->was, "steps")->first; o != NULL; o = o->next)
        if (is_auto(o) && is_keyed(o) &&
            fit_find(is, opt_str(o, "name", "")) == NULL)
            list_step(f, &list, &where, o);
    if (list.len > 0) {
        r = err_set(e, ERR_JOBFILE, "name these steps first: %s",
                    buf_cstr(&list));
        err_where(e, "%s", where.where);
        err_hint(e, "with the file as it was, give each the name that its "
                    "state has (name = \"aggregate-1\"), and change it then; "
                    "or begin anew with --fresh");
    }
    buf_fini(&list);
    return r;
}

/* --- the job, and what is refused ---------------------------------------- */

static int
check_job(struct fit *f, unsigned flags, struct err *e)
{
    const char *place = opt_str(f->p->job, "place", f->p->file);
    const char *name = opt_str(f->was, "job", "");
    int64_t max = opt_int(f->was, "max_parallelism", 0);

    if ((flags & FIT_OTHER_NAME) == 0 && strcmp(name, f->p->name) != 0) {
        (void)err_set(e, ERR_JOBFILE,
                      "the state is of job \"%s\", the file makes job \"%s\"",
                      name, f->p->name);
        err_hint(e, "give the job its old name, or begin anew with --fresh");
        err_where(e, "%s", place);
        fit_refuse(f, "(job)", e->msg);
        return ERR_JOBFILE;
    }
    if (max == (int64_t)f->p->max_parallelism)
        return 0;
    (void)err_set(e, ERR_JOBFILE,
                  "max_parallelism is %u, the state was made with %lld: it is "
                  "fixed once state exists",
                  (unsigned)f->p->max_parallelism, (long long)max);
    err_hint(e, "set max_parallelism = %lld, or begin anew with --fresh",
             (long long)max);
    err_where(e, "%s", place);
    fit_refuse(f, "(job)", e->msg);
    return ERR_JOBFILE;
}

/* A path without what does not change it: "./a/" is "a". */
static const char *
plain_path(const char *path, size_t *ret_len)
{
    while (path[0] == '.' && path[1] == '/') {
        path += 2;
        path += strspn(path, "/");
    }
    *ret_len = strlen(path);
    while (*ret_len > 1 && path[*ret_len - 1] == '/')
        (*ret_len)--;
    return path;
}

/* Whether two texts name different directories. One that is absolute and one
 * that is not may be the same; the sink itself sees. */
static bool
is_other_path(const char *is, const char *was)
{
    size_t n, m;

    if ((is[0] == '/') != (was[0] == '/'))
        return false;
    is = plain_path(is, &n);
    was = plain_path(was, &m);
    return n != m || memcmp(is, was, n) != 0;
}

static int
check_paths(struct fit *f, struct err *e)
{
    const struct opt *o, *was;
    const char *path, *old;

    for (o = opt_get(f->is, "steps")->first; o != NULL; o = o->next) {
        was = fit_find(opt_get(f->was, "steps"), opt_str(o, "name", ""));
        if (!opt_is(o, "kind", "sink") || !opt_is(o, "connector", "file") ||
            !opt_is(was, "kind", "sink") || !opt_is(was, "connector", "file"))
            continue;
        path = opt_str(o, "path", "");
        old = opt_str(was, "path", "");
        if (!is_other_path(path, old))
            continue;
        (void)err_set(e, ERR_JOBFILE,
                      "sink %s: the path is \"%s\", in the state it is "
                      "\"%s\", where its parts in progress lie",
                      opt_str(o, "name", ""), path, old);
        fit_refuse(f, opt_str(o, "name", ""),
                   "the directory of a file sink is fixed");
        err_hint(e, "set the path back, give the sink a new name with "
                    "--allow-state-loss, or begin anew with --fresh");
        err_where(e, "%s", opt_str(o, "place", ""));
        return ERR_JOBFILE;
    }
    return 0;
}

static int
check_losses(struct fit *f, struct err *e)
{
    const struct opt *is;
    const struct fit_step *s;
    const char *place = NULL;
    struct buf list;
    uint32_t i;

    buf_init(&list);
    for (i = 0; i < f->ret->count; i++) {
        s = &f->ret->steps[i];
        if (s->verdict != FIT_LOST)
            continue;
        is = fit_find(opt_get(f->is, "steps"), s->step);
        if (place == NULL)
            place = opt_str(is, "place", NULL);
        buf_addf(&list, "%s%s: %s", list.len > 0 ? "; " : "", s->step, s->why);
    }
    if (list.len > 0) {
        (void)err_set(e, ERR_JOBFILE, "state would be lost: %s",
                      buf_cstr(&list));
        if (place == NULL)
            place = opt_str(f->p->job, "place", f->p->file);
        err_where(e, "%s", place);
        err_hint(e, "undo the change, or give --allow-state-loss: what is lost "
                    "is then given up");
    }
    i = list.len > 0;
    buf_fini(&list);
    return i ? ERR_JOBFILE : 0;
}

/* --- the whole ----------------------------------------------------------- */

/* The steps of the plan, kept ones and others, in its order. */
static void
fit_plan(struct fit *f)
{
    const struct opt *was = opt_get(f->was, "steps"), *o;
    const struct plan *p = f->p;
    const char *name;
    uint32_t i;

    for (i = 0; i < p->step_count; i++) {
        name = p->steps[i].name;
        o = fit_find(opt_get(f->is, "steps"), name);
        if (o != NULL && plan_step_in_rounds(&p->steps[i])) {
            fit_step(f, o);
            continue;
        }
        o = fit_find(opt_get(f->is, "others"), name);
        if (o == NULL || p->steps[i].kind == STEP_LOCAL)
            continue;
        if (keeps(fit_find(was, name)))
            fit_lost(f, name, true, "it was a step of kind %s, and is %s",
                     opt_str(fit_find(was, name), "kind", ""),
                     opt_str(o, "kind", ""));
        else
            fit_other(f, o, fit_find(opt_get(f->was, "others"), name));
    }
}

static void
fit_steps(struct fit *f)
{
    const struct opt *is = opt_get(f->is, "steps");
    const struct opt *others = opt_get(f->is, "others");
    const struct opt *was = opt_get(f->was, "steps"), *o;
    const struct opt *gone = opt_get(f->was, "others");
    const char *name;

    f->ret->steps =
        arena_alloc(&f->ret->arena, (is->len + others->len + was->len +
                                     (gone != NULL ? gone->len : 0) + 1) *
                                        sizeof *f->ret->steps);
    fit_plan(f);
    for (o = was->first; o != NULL; o = o->next) {
        name = opt_str(o, "name", "");
        if (fit_find(is, name) != NULL || fit_find(others, name) != NULL)
            continue;
        if (keeps(o))
            fit_lost(f, name, true, "%s removed (%s)", opt_str(o, "kind", ""),
                     opt_str(o, "place", ""));
        else
            fit_add(f, name, FIT_REMOVED, "", "");
    }
    for (o = gone != NULL ? gone->first : NULL; o != NULL; o = o->next) {
        name = opt_str(o, "name", "");
        if (fit_find(is, name) == NULL && fit_find(others, name) == NULL)
            fit_add(f, name, FIT_REMOVED, "", "");
    }
}

int
plan_fit_check(struct plan *p, const char *json, size_t len, unsigned flags,
               struct plan_fit *ret, struct err *e)
{
    struct fit f = {.p = p, .ret = ret};
    struct arena *a = &ret->arena;
    struct buf own;
    uint32_t i;
    int r;

    arena_init(a);
    ret->steps = NULL;
    ret->count = 0;
    for (i = 0; i < p->step_count; i++) {
        p->steps[i].places = NULL;
        p->steps[i].anew = NULL;
        p->steps[i].migrates = NULL;
    }
    buf_init(&own);
    plan_state_put(p, &own);
    r = plan_state_read(own.data, own.len, a, &f.is, e);
    buf_fini(&own);
    if (r == 0)
        r = plan_state_read(json, len, a, &f.was, e);
    if (r != 0)
        return r;
    fit_steps(&f);
    if ((r = check_job(&f, flags, e)) != 0 || (r = check_names(&f, e)) != 0)
        return r;
    /* A copy leaves the parts in progress to whoever has them. */
    if ((flags & FIT_OTHER_NAME) == 0 && (r = check_paths(&f, e)) != 0)
        return r;
    return (flags & FIT_ALLOW_LOSS) != 0 ? 0 : check_losses(&f, e);
}

void
plan_fit_fini(struct plan_fit *f)
{
    arena_fini(&f->arena);
    f->steps = NULL;
    f->count = 0;
}
