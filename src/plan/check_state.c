#include "plan/plan_impl.h"

#include <string.h>

#include "plan/explain_put.h"

/* --- s.same ------------------------------------------------------------- */

/* Whether two windows cut time alike, as far as a row can tell. */
static bool
same_size(const struct opt *a, const struct opt *b)
{
    return strcmp(opt_str(a, "kind", ""), "global") == 0
               ? opt_is(b, "kind", "global")
               : !opt_is(b, "kind", "global") &&
                     opt_int(a, "size_ms", 0) == opt_int(b, "size_ms", 0);
}

const struct opt *
plan_window_of_inputs(const struct plan_build *b, const struct plan_node *n)
{
    const struct opt *first = NULL, *win;
    uint32_t j;

    for (j = 0; j < n->in_count; j++) {
        win = b->nodes[n->in[j].node].win;
        if (win == NULL ||
            opt_is(b->nodes[n->in[j].node].opts, "late_output",
                   n->in[j].output) ||
            (first != NULL && !same_size(first, win)))
            return NULL;
        first = win;
    }
    return first;
}

static int
refuse_same(struct plan_build *b, const struct plan_node *n)
{
    const struct plan_node *from = &b->nodes[n->in[0].node];

    return plan_refuse(
        b, opt_str(opt_get(n->opts, "window"), "place", n->place), "window",
        "s.same() needs rows of one append window step, such as a tumbling "
        "aggregate without lateness; %s (%s) gives none%s",
        from->name, from->place,
        n->in_count > 1 ? ", or the inputs have windows that differ" : "");
}

/* Fill in the size of the windows that the rows come from. */
static int
resolve_same(struct plan_build *b, struct plan_node *n)
{
    const struct opt *own = opt_get(n->opts, "window");
    const struct opt *win = plan_window_of_inputs(b, n);
    struct opt *made = opt_new_map(&b->p->arena);
    bool global;

    if (win == NULL)
        return refuse_same(b, n);
    global = opt_is(win, "kind", "global");
    opt_add(&b->p->arena, made, "kind",
            opt_new_str(&b->p->arena, global ? "global" : "same",
                        global ? strlen("global") : strlen("same")));
    if (!global)
        opt_add(&b->p->arena, made, "size_ms",
                opt_new_int(&b->p->arena, opt_int(win, "size_ms", 0)));
    if (opt_str(own, "place", NULL) != NULL)
        opt_add(&b->p->arena, made, "place",
                opt_new_str(&b->p->arena, opt_str(own, "place", ""),
                            strlen(opt_str(own, "place", ""))));
    n->opts = plan_with(b->p, n->opts, "window", made);
    return 0;
}

/* --- process ------------------------------------------------------------ */

#define ADD_EVENT_TIME "add :event_time { \xe2\x80\xa6 } after the source"

static int
check_process(struct plan_build *b, const struct plan_node *n)
{
    const struct opt *state = opt_get(n->opts, "state"), *h;
    const char *timers = opt_str(n->opts, "event_timer_place", NULL);
    uint32_t j;

    for (j = 0; j < n->in_count; j++)
        if (b->nodes[n->in[j].node].event_time)
            return 0;
    if (timers != NULL)
        return plan_refuse(
            b, timers, "process",
            "register_event_timer needs event time; " ADD_EVENT_TIME ", or use "
            "register_processing_timer");
    for (h = state != NULL ? state->first : NULL; h != NULL; h = h->next)
        if (opt_is(h, "ttl_clock", "event"))
            return plan_refuse(b, opt_str(h, "place", n->place), "process",
                               "state %s: ttl_clock = \"event\" needs event "
                               "time; " ADD_EVENT_TIME
                               ", or use \"processing\"",
                               opt_str(h, "name", ""));
    return 0;
}

int
plan_check_state(struct plan_build *b, struct plan_node *n)
{
    if (strcmp(plan_node_window(n), "same") == 0)
        return resolve_same(b, n);
    if (n->kind == STEP_PROCESS)
        return check_process(b, n);
    return 0;
}

/* --- quarantine --------------------------------------------------------- */

static int
refuse_quarantine(struct plan_build *b, const char *place, const char *kind,
                  const char *option)
{
    return plan_refuse(b, place, kind,
                       "%s = \"quarantine\", but the job has none: s.job(name, "
                       "{ quarantine = s.kafka { \xe2\x80\xa6 } }) or s.file",
                       option);
}

int
plan_check_quarantine(struct plan_build *b)
{
    const struct plan_node *n;
    const struct opt *right;
    uint32_t i;

    if (opt_get(b->options, PLAN_QUARANTINE) != NULL)
        return 0;
    if (opt_is(b->options, "on_error", PLAN_QUARANTINE))
        return refuse_quarantine(b, opt_str(b->p->job, "place", b->p->file),
                                 "job", "on_error");
    for (i = 0; i < b->count; i++) {
        n = &b->nodes[i];
        right = opt_get(n->opts, "right");
        if (plan_error_policy(b, n) == ON_ERROR_QUARANTINE)
            return refuse_quarantine(b, n->place, n->kind_name, "on_error");
        if (opt_is(n->opts, "on_null", PLAN_QUARANTINE))
            return refuse_quarantine(b, opt_str(n->opts, "key_place", n->place),
                                     "key_by", "on_null");
        if (opt_is(right, "on_null", PLAN_QUARANTINE))
            return refuse_quarantine(b, opt_str(right, "key_place", n->place),
                                     "key_by", "on_null");
    }
    return 0;
}
