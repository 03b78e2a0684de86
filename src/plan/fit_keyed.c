#include "plan/fit.h"

#include <string.h>

#include "plan/explain_put.h"
#include "plan/fit_impl.h"

/* Whether a handle that is there in both still reads what it wrote, as it is:
 * of the same kind, and accumulators of the same aggregate. Times to live and
 * functions may change. */
static bool
is_same_handle(const struct opt *is, const struct opt *was)
{
    return strcmp(opt_str(is, "kind", ""), opt_str(was, "kind", "")) == 0 &&
           (!opt_is(is, "kind", "aggregating") ||
            fit_same_aggregate(opt_get(is, "agg"), opt_get(was, "agg")));
}

/* Two descriptions of one step. */
struct pair {
    const struct opt *is, *was;
};

/* Whether it goes on with what there is, as it is or through migrate. */
static bool
keeps_handle(const struct pair *p, const struct opt *is, const struct opt *was)
{
    return fit_migrates_handle(is, was) ||
           (is_same_handle(is, was) && !fit_unread(p->is, p->was, is, was));
}

/* Append to a list with commas the names that `list` has and `other` not. */
static size_t
list_missing(struct buf *out, const struct opt *list, const struct opt *other)
{
    const struct opt *o;
    size_t n = 0;

    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next)
        if (fit_find(other, opt_str(o, "name", "")) == NULL)
            buf_addf(out, "%s%s", n++ > 0 ? ", " : "", opt_str(o, "name", ""));
    return n;
}

/* Say what became of a handle that is there in both. */
static void
put_change(const struct opt *is, const struct opt *was, struct buf *out)
{
    buf_addf(out, "%sstate %s", out->len > 0 ? ", " : "",
             opt_str(is, "name", ""));
    if (is_same_handle(is, was)) {
        buf_adds(out, " has no migrate any more, with other functions of the "
                      "step changed");
        return;
    }
    buf_adds(out, " changed from ");
    if (strcmp(opt_str(is, "kind", ""), opt_str(was, "kind", "")) == 0) {
        explain_put_call(out, opt_get(was, "agg"));
        buf_adds(out, " to ");
        explain_put_call(out, opt_get(is, "agg"));
    } else {
        buf_addf(out, "%s to %s", opt_str(was, "kind", ""),
                 opt_str(is, "kind", ""));
    }
}

/* List what of `was` is given up, nothing if all goes on, and note which
 * handles begin empty though there is state of their names. */
static void
list_losses(struct fit *f, const struct pair *p, struct buf *out)
{
    const struct opt *now = opt_get(p->is, "state"), *o, *old;
    const struct opt *then = opt_get(p->was, "state");
    size_t n = now != NULL ? now->len : 0, i = 0, lost;
    bool *anew = arena_alloc(&f->p->arena, (n + 1) * sizeof *anew), any = false;
    struct buf names;
    uint32_t k;

    buf_init(&names);
    lost = list_missing(&names, then, now);
    if (lost > 0)
        buf_addf(out, "state %s removed", buf_cstr(&names));
    buf_fini(&names);
    for (o = n > 0 ? now->first : NULL; o != NULL; o = o->next, i++) {
        old = fit_find(then, opt_str(o, "name", ""));
        anew[i] = old != NULL && !keeps_handle(p, o, old);
        if (!anew[i])
            continue;
        put_change(o, old, out);
        lost++;
        any = true;
    }
    for (k = 0; k < f->p->step_count && any; k++)
        if (strcmp(f->p->steps[k].name, opt_str(p->is, "name", "")) == 0)
            f->p->steps[k].anew = anew;
    if (lost > 0)
        buf_addf(out, ": %s given up, all else is kept",
                 lost == 1 ? "its entries are" : "their entries are");
}

/* Note which handles pass their values through migrate. */
static void
set_migrates(struct fit *f, const struct opt *is, const struct opt *was)
{
    const struct opt *now = opt_get(is, "state"), *o, *old;
    size_t n = now != NULL ? now->len : 0, i = 0;
    bool *due = arena_alloc(&f->p->arena, (n + 1) * sizeof *due);

    for (o = n > 0 ? now->first : NULL; o != NULL; o = o->next, i++) {
        old = fit_find(opt_get(was, "state"), opt_str(o, "name", ""));
        due[i] = old != NULL && fit_migrates_handle(o, old);
    }
    if (n > 0)
        fit_migrate(f, is, now, due);
}

/* Handles are told by name. One that is gone, or is another, takes only its
 * own with it. */
static void
fit_handles(struct fit *f, const struct opt *is, const struct opt *was)
{
    const struct pair p = {is, was};
    struct buf text;

    buf_init(&text);
    list_losses(f, &p, &text);
    if (text.len > 0) {
        fit_lost(f, opt_str(is, "name", ""), false, "%s", buf_cstr(&text));
        set_migrates(f, is, was);
    } else {
        fit_kept(f, is, was);
        set_migrates(f, is, was);
        if (list_missing(&text, opt_get(is, "state"), opt_get(was, "state")))
            fit_tell(f, "state %s added: it begins empty", buf_cstr(&text));
    }
    buf_fini(&text);
}

void
fit_keyed(struct fit *f, const struct opt *is, const struct opt *was)
{
    const char *step = opt_str(is, "name", "");
    const struct opt *right = opt_get(is, "right");
    const struct opt *old = opt_get(was, "right");
    bool left = !fit_same_key(is, was);
    struct buf a, b;

    if ((right != NULL) != (old != NULL)) {
        fit_lost(f, step, true,
                 right != NULL ? "it had one input, and has two"
                               : "it had two inputs, and has one");
    } else if (left || !fit_same_key(right, old)) {
        buf_init(&a);
        buf_init(&b);
        explain_put_key(&a, left ? was : old);
        explain_put_key(&b, left ? is : right);
        fit_lost(f, step, true, "key changed from %s to %s", buf_cstr(&a),
                 buf_cstr(&b));
        buf_fini(&a);
        buf_fini(&b);
    } else {
        fit_handles(f, is, was);
    }
}
