#include "plan/fit.h"

#include <string.h>

#include "plan/explain_put.h"
#include "plan/fit_impl.h"

static void
lost_change(struct fit *f, const char *step, const char *name, struct buf *was,
            struct buf *is)
{
    fit_lost(f, step, true, "%s changed from %s to %s", name, buf_cstr(was),
             buf_cstr(is));
    buf_fini(was);
    buf_fini(is);
}

/* Whether a handle that is there in both still reads what it wrote, as it is
 * or through migrate: of the same kind, and accumulators of the same
 * aggregate. Times to live and functions may change. */
static bool
keeps_handle(struct fit *f, const char *step, const struct opt *is,
             const struct opt *was)
{
    bool same = strcmp(opt_str(is, "kind", ""), opt_str(was, "kind", "")) == 0;
    struct buf name, a, b;

    if (same && (!opt_is(is, "kind", "aggregating") ||
                 fit_same_aggregate(opt_get(is, "agg"), opt_get(was, "agg"))))
        return true;
    if (fit_migrates_handle(is, was))
        return true;
    buf_init(&name);
    buf_init(&a);
    buf_init(&b);
    buf_addf(&name, "state %s", opt_str(is, "name", ""));
    if (same) {
        explain_put_call(&a, opt_get(was, "agg"));
        explain_put_call(&b, opt_get(is, "agg"));
    } else {
        buf_adds(&a, opt_str(was, "kind", ""));
        buf_adds(&b, opt_str(is, "kind", ""));
    }
    lost_change(f, step, buf_cstr(&name), &a, &b);
    buf_fini(&name);
    return false;
}

/* Append to a list with commas the names that `list` has and `other` not. */
static void
list_missing(struct buf *out, const struct opt *list, const struct opt *other)
{
    const struct opt *o;

    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next)
        if (fit_find(other, opt_str(o, "name", "")) == NULL)
            buf_addf(out, "%s%s", out->len > 0 ? ", " : "",
                     opt_str(o, "name", ""));
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

/* Handles are told by name. One that is gone takes only its own with it. */
static void
fit_handles(struct fit *f, const struct opt *is, const struct opt *was)
{
    const char *step = opt_str(is, "name", "");
    const struct opt *now = opt_get(is, "state"), *then = opt_get(was, "state");
    const struct opt *o, *old;
    struct buf names;

    for (o = now != NULL ? now->first : NULL; o != NULL; o = o->next) {
        old = fit_find(then, opt_str(o, "name", ""));
        if (old != NULL && !keeps_handle(f, step, o, old))
            return;
    }
    buf_init(&names);
    list_missing(&names, then, now);
    if (names.len > 0) {
        fit_lost(f, step, false, "state %s removed", buf_cstr(&names));
        set_migrates(f, is, was);
    } else {
        fit_kept(f, is, was);
        set_migrates(f, is, was);
        list_missing(&names, now, then);
        if (names.len > 0)
            fit_tell(f, "state %s added: it begins empty", buf_cstr(&names));
    }
    buf_fini(&names);
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
        lost_change(f, step, "key", &a, &b);
    } else {
        fit_handles(f, is, was);
    }
}
