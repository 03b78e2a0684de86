#include "plan/fit.h"

#include <string.h>

#include "core/agg.h"
#include "plan/explain_put.h"
#include "plan/fit_impl.h"

bool
fit_same_key(const struct opt *is, const struct opt *was)
{
    const struct opt *a = opt_get(is, "key"), *b = opt_get(was, "key");

    if ((a != NULL ? a->len : 0) != (b != NULL ? b->len : 0))
        return false;
    a = a != NULL ? a->first : NULL;
    b = b != NULL ? b->first : NULL;
    for (; a != NULL && b != NULL; a = a->next, b = b->next)
        if (!plan_same_tree(opt_get(a, "field"), opt_get(b, "field")) ||
            !plan_same_tree(opt_get(a, "func"), opt_get(b, "func")))
            return false;
    return true;
}

bool
fit_same_aggregate(const struct opt *is, const struct opt *was)
{
    if (!opt_is(was, "fn", "custom") || !opt_is(is, "fn", "custom"))
        return plan_same_tree(is, was);
    return plan_same_tree(opt_get(is, "args"), opt_get(was, "args"));
}

/* --- what is kept and what is lost --------------------------------------- */

/* Two descriptions of one step. */
struct pair {
    const struct opt *is, *was;
};

/* Whether the accumulators of `was` go on, as they are or through migrate. */
static bool
keeps_agg(const struct pair *p, const struct opt *is, const struct opt *was)
{
    return fit_migrates_agg(is, was) ||
           (fit_same_aggregate(is, was) && !fit_unread(p->is, p->was, is, was));
}

static void
put_loss(const struct pair *p, const struct opt *is, const struct opt *was,
         struct buf *out)
{
    const char *name = opt_str(was, "name", "");
    struct buf a, b;

    if (out->len > 0)
        buf_adds(out, ", ");
    if (is == NULL) {
        buf_addf(out, "aggregate %s removed", name);
        return;
    }
    if (fit_same_aggregate(is, was) && fit_unread(p->is, p->was, is, was)) {
        buf_addf(out,
                 "migrate of aggregate %s removed, with other functions of "
                 "the step changed",
                 name);
        return;
    }
    buf_init(&a);
    buf_init(&b);
    explain_put_call(&a, was);
    explain_put_call(&b, is);
    if (strcmp(buf_cstr(&a), buf_cstr(&b)) == 0)
        buf_addf(out, "arguments of aggregate %s changed", name);
    else
        buf_addf(out, "aggregate %s changed from %s to %s", name, buf_cstr(&a),
                 buf_cstr(&b));
    buf_fini(&a);
    buf_fini(&b);
}

/* List what of `was` is given up; nothing if all goes on. */
static void
list_losses(const struct pair *p, struct buf *out)
{
    const struct opt *aggs = opt_get(p->was, "aggs"), *o, *now;
    size_t lost = 0;

    for (o = aggs->first; o != NULL; o = o->next) {
        now = fit_find(opt_get(p->is, "aggs"), opt_str(o, "name", ""));
        if (now != NULL && keeps_agg(p, now, o))
            continue;
        put_loss(p, now, o, out);
        lost++;
    }
    if (lost > 0)
        buf_adds(out, lost == 1 ? ": its part is given up"
                                : ": their parts are given up");
    if (lost > 0 && lost < aggs->len)
        buf_adds(out, ", the others are kept");
}

/* --- places -------------------------------------------------------------- */

/* The index in `aggs` of what goes on with the accumulators of `old`, or
 * AGG_NONE; without p->is the name alone decides. */
static uint32_t
heir(const struct pair *p, const struct opt *aggs, const struct opt *old)
{
    const struct opt *o;
    uint32_t i = 0;

    for (o = aggs->first; o != NULL; o = o->next, i++)
        if (opt_is(o, "name", opt_str(old, "name", "")))
            return p->is == NULL || keeps_agg(p, o, old) ? i : AGG_NONE;
    return AGG_NONE;
}

static void
find_places(const struct pair *p, const struct opt *aggs, struct arena *a,
            struct agg_places *ret)
{
    const struct opt *old = opt_get(p->was, "aggs")->first;
    const struct opt *gone = opt_get(p->was, "aggs_gone");
    size_t n = opt_get(p->was, "aggs")->len + (gone != NULL ? gone->len : 0);
    bool *has = arena_alloc(a, (aggs->len + 1) * sizeof *has);
    uint32_t i;

    memset(has, 0, (aggs->len + 1) * sizeof *has);
    ret->order = arena_alloc(a, (n + aggs->len) * sizeof *ret->order);
    gone = gone != NULL ? gone->first : NULL;
    for (i = 0; i < n; i++) {
        ret->order[i] = AGG_NONE;
        if (gone != NULL && gone->i == (int64_t)i) {
            gone = gone->next;
            continue;
        }
        ret->order[i] = heir(p, aggs, old);
        if (ret->order[i] != AGG_NONE)
            has[ret->order[i]] = true;
        old = old->next;
    }
    ret->count = (uint32_t)n;
    for (i = 0; i < aggs->len; i++)
        if (!has[i])
            ret->order[ret->count++] = i;
    ret->min = (uint32_t)opt_int(p->was, "aggs_min", (int64_t)n);
}

void
plan_state_places(const struct opt *step, const struct opt *aggs,
                  struct arena *a, struct agg_places *ret)
{
    const struct pair p = {NULL, step};

    find_places(&p, aggs, a, ret);
}

/* Give the steps of a kept aggregate the places its state has. */
static void
set_places(struct fit *f, const struct pair *pair)
{
    const struct opt *aggs = opt_get(pair->is, "aggs");
    struct plan *p = f->p;
    struct agg_places *places = arena_alloc(&p->arena, sizeof *places);
    uint32_t i;
    bool plain;

    find_places(pair, aggs, &p->arena, places);
    plain = places->min == aggs->len && places->count == aggs->len;
    for (i = 0; i < aggs->len && plain; i++)
        plain = places->order[i] == i;
    for (i = 0; i < p->step_count && !plain; i++)
        if (strcmp(p->steps[i].name, opt_str(pair->is, "name", "")) == 0)
            p->steps[i].places = places;
}

/* --- the step ------------------------------------------------------------ */

/* Note which accumulators pass through migrate. */
static void
set_migrates(struct fit *f, const struct opt *is, const struct opt *was)
{
    const struct opt *aggs = opt_get(is, "aggs"), *o, *old;
    bool *due = arena_alloc(&f->p->arena, aggs->len * sizeof *due);
    size_t i = 0;

    for (o = aggs->first; o != NULL; o = o->next, i++) {
        old = fit_find(opt_get(was, "aggs"), opt_str(o, "name", ""));
        due[i] = old != NULL && fit_migrates_agg(o, old);
    }
    fit_migrate(f, is, aggs, due);
}

/* Tell which aggregates begin empty in the windows that are open. */
static void
tell_added(struct fit *f, const struct opt *is, const struct opt *was)
{
    const struct opt *o;
    struct buf why;

    buf_init(&why);
    for (o = is->first; o != NULL; o = o->next)
        if (fit_find(was, opt_str(o, "name", "")) == NULL)
            buf_addf(&why, "%s%s", why.len > 0 ? ", " : "",
                     opt_str(o, "name", ""));
    if (why.len > 0)
        fit_tell(f, "%s added: it begins empty in the windows that are open",
                 buf_cstr(&why));
    buf_fini(&why);
}

static void
fit_aggs(struct fit *f, const struct opt *is, const struct opt *was)
{
    const struct pair p = {is, was};
    struct buf lost;

    buf_init(&lost);
    list_losses(&p, &lost);
    if (lost.len > 0)
        fit_lost(f, opt_str(is, "name", ""), false, "%s", buf_cstr(&lost));
    else
        fit_kept(f, is, was);
    set_places(f, &p);
    set_migrates(f, is, was);
    if (lost.len == 0)
        tell_added(f, opt_get(is, "aggs"), opt_get(was, "aggs"));
    buf_fini(&lost);
}

void
fit_aggregate(struct fit *f, const struct opt *is, const struct opt *was)
{
    const char *step = opt_str(is, "name", "");
    struct buf a, b;

    buf_init(&a);
    buf_init(&b);
    if (!fit_same_key(is, was)) {
        explain_put_key(&a, was);
        explain_put_key(&b, is);
        fit_lost(f, step, true, "key changed from %s to %s", buf_cstr(&a),
                 buf_cstr(&b));
    } else if (!plan_same_tree(opt_get(is, "window"), opt_get(was, "window"))) {
        explain_put_window(&a, opt_get(was, "window"));
        explain_put_window(&b, opt_get(is, "window"));
        fit_lost(f, step, true, "window changed from %s to %s", buf_cstr(&a),
                 buf_cstr(&b));
    } else {
        fit_aggs(f, is, was);
    }
    buf_fini(&a);
    buf_fini(&b);
}
