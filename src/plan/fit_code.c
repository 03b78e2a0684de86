#include "plan/fit.h"

#include <string.h>

#include "base/mem.h"
#include "plan/fit_impl.h"

/* --- functions and options ----------------------------------------------- */

/* Whether a hash of functions also stands for what it could not read. */
static bool
is_unsure(const char *code)
{
    return code[0] == '?';
}

static void
list_note(struct buf *note, const char *text)
{
    buf_addf(note, "%s%s", note->len > 0 ? ", " : "", text);
}

bool
fit_note(const struct opt *is, const struct opt *was, struct buf *note)
{
    const char *code = opt_str(is, "code", ""), *old = opt_str(was, "code", "");
    long long now = opt_int(is, "parallelism", 0);
    long long then = opt_int(was, "parallelism", 0);
    bool changed = false;

    if (opt_get(was, "opts") != NULL) { /* else by an older program */
        if (is_unsure(code) || is_unsure(old)) {
            list_note(note, "its functions may have changed");
        } else if (strcmp(code, old) != 0) {
            list_note(note, "its functions changed");
            changed = true;
        }
        if (strcmp(opt_str(is, "opts", ""), opt_str(was, "opts", "")) != 0) {
            list_note(note, "its options changed");
            changed = true;
        }
    }
    if (now != then && then != 0)
        buf_addf(note, "%sparallelism was %lld, is %lld",
                 note->len > 0 ? ", " : "", then, now);
    return changed;
}

void
fit_other(struct fit *f, const struct opt *is, const struct opt *was)
{
    const char *name = opt_str(is, "name", "");
    bool known = opt_get(f->was, "others") != NULL, changed;
    struct buf note;

    if (!known) {
        fit_add(f, name, FIT_KEPT, "",
                "the checkpoint is of a program that noted no such steps");
        return;
    }
    if (was == NULL) {
        fit_add(f, name, FIT_NEW, "", "");
        return;
    }
    buf_init(&note);
    changed = fit_note(is, was, &note);
    if (!opt_is(was, "kind", opt_str(is, "kind", ""))) {
        buf_clear(&note);
        buf_addf(&note, "it was a %s", opt_str(was, "kind", ""));
        changed = true;
    }
    fit_add(f, name, changed ? FIT_CHANGED : FIT_KEPT, "", buf_cstr(&note));
    buf_fini(&note);
}

/* --- migrate ------------------------------------------------------------- */

static bool
is_custom(const struct opt *agg)
{
    return opt_is(agg, "fn", "custom");
}

/* Whether `migrate` of two declarations is there in the first and another
 * than in the second, if that has one. */
static bool
is_other_text(const struct opt *is, const struct opt *was)
{
    return strcmp(opt_str(is, "migrate_text", ""),
                  opt_str(was, "migrate_text", "")) != 0;
}

bool
fit_migrates_agg(const struct opt *is, const struct opt *was)
{
    return is_custom(is) && is_custom(was) && opt_func(is, "migrate") != 0 &&
           (is_other_text(is, was) ||
            !plan_same_tree(opt_get(is, "args"), opt_get(was, "args")));
}

/* Where a handle says how its values migrate: an aggregator does it itself;
 * built-in ones have no value that a function could read. */
static const struct opt *
declared(const struct opt *handle)
{
    const struct opt *agg = opt_get(handle, "agg");

    return agg != NULL && is_custom(agg) ? agg : handle;
}

/* The form that a handle's values have in the state: kinds of one form can
 * take over from each other. */
static const char *
form(const struct opt *handle)
{
    const char *kind = opt_str(handle, "kind", "");

    if (strcmp(kind, "aggregating") == 0 && !is_custom(opt_get(handle, "agg")))
        return kind;
    return strcmp(kind, "list") == 0 || strcmp(kind, "map") == 0 ? kind
                                                                 : "value";
}

bool
fit_migrates_handle(const struct opt *is, const struct opt *was)
{
    const struct opt *now = declared(is), *then = declared(was);

    if (strcmp(form(is), form(was)) != 0 || opt_func(now, "migrate") == 0)
        return false;
    return is_other_text(now, then) ||
           strcmp(opt_str(is, "kind", ""), opt_str(was, "kind", "")) != 0 ||
           !plan_same_tree(opt_get(now, "args"), opt_get(then, "args"));
}

/* The hash of a step's functions but for migrate. */
static const char *
core(const struct opt *step)
{
    return opt_str(step, "core", opt_str(step, "code", ""));
}

bool
fit_unread(const struct opt *is_step, const struct opt *was_step,
           const struct opt *is, const struct opt *was)
{
    const struct opt *now = declared(is), *then = declared(was);

    if (opt_get(then, "migrate_text") == NULL || opt_func(now, "migrate") != 0)
        return false;
    return is_unsure(core(is_step)) || is_unsure(core(was_step)) ||
           strcmp(core(is_step), core(was_step)) != 0;
}

void
fit_migrate(struct fit *f, const struct opt *is, const struct opt *list,
            const bool *due)
{
    struct fit_step *row = &f->ret->steps[f->ret->count - 1];
    const struct opt *o;
    struct buf names;
    uint32_t k;
    size_t i = 0;

    buf_init(&names);
    for (o = list->first; o != NULL; o = o->next, i++)
        if (due[i])
            buf_addf(&names, "%s%s", names.len > 0 ? ", " : "",
                     opt_str(o, "name", ""));
    for (k = 0; k < f->p->step_count && names.len > 0; k++)
        if (strcmp(f->p->steps[k].name, opt_str(is, "name", "")) == 0)
            f->p->steps[k].migrates = due;
    if (names.len > 0 && row->verdict != FIT_LOST) {
        buf_addf(&names, " through migrate");
        row->verdict = FIT_MIGRATED;
        row->note = arena_strdup(&f->ret->arena, buf_cstr(&names));
    }
    buf_fini(&names);
}
