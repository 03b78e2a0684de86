#include "plan/plan_impl.h"

#include <stdio.h>
#include <string.h>

#include "plan/explain_put.h"

/* --- names, sources, sinks, outputs ------------------------------------ */

static int
check_names(struct plan_build *b)
{
    const struct plan_node *n, *m;
    uint32_t i, j;

    for (i = 0; i < b->count; i++) {
        n = &b->nodes[i];
        for (j = 0; j < i; j++) {
            m = &b->nodes[j];
            if (strcmp(n->name, m->name) == 0)
                return plan_refuse(b, n->place, n->kind_name,
                                   "the name \"%s\" is taken by the %s of %s",
                                   n->name, m->kind_name, m->place);
        }
    }
    return 0;
}

/* Append a name to a list with commas. */
static void
list_name(struct buf *list, const char *name)
{
    buf_addf(list, "%s%s", list->len > 0 ? ", " : "", name);
}

/* The outputs a step has beside "main"; those of split have no "main". */
static void
list_outputs(struct buf *list, const struct plan_node *n)
{
    const struct opt *names =
        opt_get(n->opts, n->kind == STEP_SPLIT ? "names" : "outputs");
    const char *late = opt_str(n->opts, "late_output", NULL);
    const struct opt *o;

    for (o = names != NULL ? names->first : NULL; o != NULL; o = o->next)
        list_name(list, o->s);
    if (late != NULL)
        list_name(list, late);
}

static bool
has_output(const struct plan_node *n, const char *name)
{
    const struct opt *names =
        opt_get(n->opts, n->kind == STEP_SPLIT ? "names" : "outputs");
    const struct opt *o;

    if (strcmp(name, "main") == 0)
        return n->kind != STEP_SPLIT;
    for (o = names != NULL ? names->first : NULL; o != NULL; o = o->next)
        if (strcmp(o->s, name) == 0)
            return true;
    return opt_is(n->opts, "late_output", name);
}

static int
check_output(struct plan_build *b, const struct plan_node *n,
             const struct plan_node_in *in)
{
    const struct plan_node *from = &b->nodes[in->node];
    struct buf list;
    int r;

    if (n == b->quarantine)
        return 0; /* every step has that output */
    if (from->kind == STEP_SINK)
        return plan_refuse(b, n->place, n->kind_name,
                           "a sink (%s) has no output", from->name);
    if (has_output(from, in->output))
        return 0;
    buf_init(&list);
    list_outputs(&list, from);
    r = plan_refuse(b, n->place, "side_output",
                    "step %s has no side output \"%s\"; it has%s %s",
                    from->name, in->output, list.len > 0 ? ":" : "",
                    list.len > 0 ? buf_cstr(&list) : "none");
    buf_fini(&list);
    return r;
}

/* A window that is only read for its late records loses its rows; a process
 * may well emit to its outputs alone. */
static bool
reaches_nothing(const struct plan_build *b, uint32_t node)
{
    const struct plan_node *n = &b->nodes[node], *m;
    uint32_t i, j;

    if (n->kind == STEP_SINK)
        return false;
    for (i = node + 1; i < b->count; i++) {
        m = &b->nodes[i];
        for (j = 0; j < m->in_count && m != b->quarantine; j++)
            if (m->in[j].node == node &&
                !opt_is(n->opts, "late_output", m->in[j].output))
                return false;
    }
    return true;
}

static int
check_ends(struct plan_build *b)
{
    const struct plan_node *n;
    bool source = false;
    uint32_t i, j;
    int r;

    for (i = 0; i < b->count; i++) {
        n = &b->nodes[i];
        source = source || n->kind == STEP_SOURCE;
        for (j = 0; j < n->in_count; j++)
            if ((r = check_output(b, n, &n->in[j])) != 0)
                return r;
        if (n->kind != STEP_SOURCE && n->in_count == 0)
            return err_set(b->e, ERR_INTERNAL, "step %s has no input", n->name);
    }
    if (!source)
        return plan_refuse(b, opt_str(b->p->job, "place", b->p->file), "job",
                           "the job has no source");
    for (i = 0; i < b->count; i++) {
        n = &b->nodes[i];
        if (reaches_nothing(b, i))
            return plan_refuse(b, n->place, n->kind_name,
                               "this stream reaches no sink");
    }
    return 0;
}

/* --- time --------------------------------------------------------------- */

/* event_time stands behind a source with only order-keeping steps before. */
static int
check_event_time(struct plan_build *b, const struct plan_node *n)
{
    const struct plan_node *at = n;
    const char *found = NULL;

    while (found == NULL && at->kind != STEP_SOURCE) {
        if (at->in_count > 1)
            found = "a union";
        else if (at->in[0].rebalance)
            found = "a rebalance";
        at = &b->nodes[at->in[0].node];
        if (found == NULL &&
            (plan_node_is_keyed(at) || at->kind == STEP_EVENT_TIME ||
             at->kind == STEP_SPLIT))
            found = at->name;
    }
    if (found == NULL)
        return 0;
    return plan_refuse(b, n->place, "event_time",
                       "it must stand between a source and the first exchange, "
                       "with only filter, map, flat_map and select before it; "
                       "found %s",
                       found);
}

static int
check_union(struct plan_build *b, const struct plan_node *n)
{
    char names[512] = "";
    const struct plan_node *m;
    bool some = false, all = true;
    size_t len = 0;
    uint32_t j;

    for (j = 0; j < n->in_count; j++) {
        m = &b->nodes[n->in[j].node];
        some = some || m->event_time;
        all = all && m->event_time;
        if (!m->event_time && len + strlen(m->name) + 64 < sizeof names)
            len +=
                (size_t)snprintf(names + len, sizeof names - len, "%s%s (%s)",
                                 len > 0 ? ", " : "", m->name, m->place);
    }
    if (!some || all || n == b->quarantine)
        return 0;
    return plan_refuse(
        b, n->place, opt_get(n->opts, "right") != NULL ? "connect" : "union",
        "event_time on some inputs only; it is missing on %s", names);
}

static int
check_window(struct plan_build *b, const struct plan_node *n)
{
    const struct opt *win = opt_get(n->opts, "window");
    const struct plan_node *from = &b->nodes[n->in[0].node];
    const char *kind = plan_node_window(n);
    struct buf text;
    int r;

    if ((strcmp(kind, "tumbling") != 0 && strcmp(kind, "hopping") != 0) ||
        from->event_time || plan_node_by_clock(n))
        return 0;
    buf_init(&text);
    explain_put_window(&text, win);
    r = plan_refuse(b, opt_str(win, "place", n->place), "window",
                    "%s needs event time; add :event_time { \xe2\x80\xa6 } "
                    "after the source, or clock = \"processing\"",
                    buf_cstr(&text));
    buf_fini(&text);
    return r;
}

/* --- updating streams --------------------------------------------------- */

static bool
input_is_updating(const struct plan_build *b, const struct plan_node_in *in)
{
    return b->nodes[in->node].updating && strcmp(in->output, "main") == 0;
}

/* The step whose rows `in` brings, and why they replace earlier ones. */
static const char *
updating_why(const struct plan_build *b, const struct plan_node_in *in)
{
    const struct plan_node *n = &b->nodes[in->node];

    while (!plan_node_is_keyed(n))
        n = &b->nodes[n->in[0].node];
    return strcmp(plan_node_window(n), "none") == 0 ? "no window" : "lateness";
}

static int
check_updating(struct plan_build *b, const struct plan_node *n)
{
    const struct opt *key;
    uint32_t j;

    for (j = 0; j < n->in_count; j++) {
        if (!input_is_updating(b, &n->in[j]))
            continue;
        key = n->in[j].right ? opt_get(n->opts, "right") : n->opts;
        if (plan_node_is_keyed(n))
            return plan_refuse(b, opt_str(key, "key_place", n->place), "key_by",
                               "aggregate over an updating stream needs "
                               "retraction; use a window");
        if (n->in[j].rebalance || n->in_count > 1 || n->kind == STEP_SPLIT)
            return plan_refuse(b, n->place,
                               n->in[j].rebalance      ? "rebalance"
                               : n->kind == STEP_SPLIT ? "split"
                                                       : "union",
                               "the rows of %s replace earlier ones (%s), "
                               "so only filter, select, map, flat_map and sink "
                               "may follow it",
                               b->nodes[n->in[j].node].name,
                               updating_why(b, &n->in[j]));
    }
    return 0;
}

/* --- aggregates --------------------------------------------------------- */

static bool
is_window_field(const char *name)
{
    return strcmp(name, "window_start") == 0 || strcmp(name, "window_end") == 0;
}

static int
check_columns(struct plan_build *b, const struct plan_node *n)
{
    const struct opt *key = opt_get(n->opts, "key");
    const struct opt *aggs = opt_get(n->opts, "aggs");
    const struct opt *a, *k;
    const char *name;

    if (opt_get(n->opts, "rows") != NULL)
        return 0; /* rows are records: names are not the engine's */
    for (a = aggs != NULL ? aggs->first : NULL; a != NULL; a = a->next) {
        name = opt_str(a, "name", "");
        if (is_window_field(name))
            return plan_refuse(b, n->place, "aggregate",
                               "the name \"%s\" is reserved", name);
        for (k = key != NULL ? key->first : NULL; k != NULL; k = k->next)
            if (opt_is(k, "name", name))
                return plan_refuse(b, n->place, "aggregate",
                                   "the name \"%s\" is a key field already",
                                   name);
        for (k = aggs->first; k != a; k = k->next)
            if (opt_is(k, "name", name))
                return plan_refuse(b, n->place, "aggregate",
                                   "the name \"%s\" is used twice", name);
    }
    for (k = key != NULL ? key->first : NULL; k != NULL; k = k->next)
        if (is_window_field(opt_str(k, "name", "")))
            return plan_refuse(b, opt_str(n->opts, "key_place", n->place),
                               "key_by", "the name \"%s\" is reserved",
                               opt_str(k, "name", ""));
    return 0;
}

/* --- the passes --------------------------------------------------------- */

/* Whether the output has what the step makes, and not what it diverts. */
static bool
gives_rows(const struct plan_node *from, const char *output)
{
    return strcmp(output, PLAN_QUARANTINE) != 0 &&
           !opt_is(from->opts, "late_output", output);
}

/* What the node's output is, from its inputs. */
static void
derive(struct plan_build *b, struct plan_node *n)
{
    const char *win = plan_node_window(n);
    const struct plan_node *from;
    uint32_t j;

    for (j = 0; j < n->in_count; j++) {
        from = &b->nodes[n->in[j].node];
        n->event_time = n->event_time || from->event_time;
        n->endless = n->endless || from->endless;
        if (!gives_rows(from, n->in[j].output))
            continue;
        n->updating = n->updating || from->updating;
        n->windowed = n->windowed || from->windowed;
    }
    n->in_time = n->event_time;
    n->win = plan_window_of_inputs(b, n);
    if (n->kind == STEP_SOURCE)
        n->endless = !opt_is(n->opts, "connector", "lua") &&
                     !plan_source_is_bounded(n->opts, b->conf->bounded);
    if (n->kind == STEP_EVENT_TIME)
        n->event_time = true;
    if (n->kind == STEP_PROCESS) {
        n->windowed = false;
        n->win = NULL;
    }
    if (n->kind == STEP_AGGREGATE) {
        n->updating =
            opt_int(n->opts, "lateness_ms", 0) > 0 || strcmp(win, "none") == 0;
        n->windowed = strcmp(win, "global") != 0 && strcmp(win, "count") != 0 &&
                      strcmp(win, "none") != 0;
        n->win = n->windowed || strcmp(win, "global") == 0
                     ? opt_get(n->opts, "window")
                     : NULL;
        n->event_time = n->event_time || plan_node_by_clock(n);
    }
}

int
plan_check_graph(struct plan_build *b)
{
    struct plan_node *n;
    uint32_t i;
    int r;

    if ((r = check_names(b)) != 0 || (r = check_ends(b)) != 0)
        return r;
    for (i = 0; i < b->count; i++) {
        n = &b->nodes[i];
        if ((r = check_union(b, n)) != 0 || (r = check_updating(b, n)) != 0)
            return r;
        if (n->kind == STEP_EVENT_TIME && (r = check_event_time(b, n)) != 0)
            return r;
        if (n->kind == STEP_AGGREGATE &&
            ((r = check_window(b, n)) != 0 || (r = check_columns(b, n)) != 0))
            return r;
        if ((r = plan_check_state(b, n)) != 0)
            return r;
        derive(b, n);
    }
    if ((r = plan_check_quarantine(b)) != 0)
        return r;
    return plan_check_delivery(b);
}

/* Whether the step's only way to its source is free of exchanges. */
static bool
stands_before_exchange(const struct plan *p, const struct plan_step *s)
{
    while (s->in_count == 1) {
        if (p->edges[s->in[0]].kind != EDGE_FORWARD)
            return false;
        s = &p->steps[p->edges[s->in[0]].from];
    }
    return s->in_count == 0;
}

int
plan_check_placed(struct plan_build *b)
{
    const struct plan *p = b->p;
    const struct plan_step *s;
    const struct plan_edge *edge;
    const char *kind;
    uint32_t i;

    for (i = 0; i < p->edge_count; i++) {
        edge = &p->edges[i];
        s = &p->steps[edge->to];
        kind = plan_kind_logical(s->kind);
        if (edge->kind == EDGE_REBALANCE && p->steps[edge->from].updating &&
            strcmp(edge->output, "main") == 0)
            return plan_refuse(b, s->place, kind,
                               "%s would rebalance the rows of %s, which "
                               "replace earlier ones and must keep their "
                               "order",
                               edge->why != NULL ? edge->why : "rebalance()",
                               p->steps[edge->from].name);
    }
    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        if (s->kind == STEP_EVENT_TIME && !stands_before_exchange(p, s))
            return plan_refuse(b, s->place, "event_time",
                               "it must stand before the first exchange, but a "
                               "step up to it has a parallelism other than its "
                               "input's, which rebalances");
    }
    return 0;
}

/* --- warnings ----------------------------------------------------------- */

static void
warn_auto_names(struct plan_build *b)
{
    const struct plan_node *n;
    uint32_t i, count = 0;

    for (i = 0; i < b->count; i++)
        if (plan_node_is_keyed(&b->nodes[i]) && b->nodes[i].auto_named)
            count++;
    for (i = 0; count > 1 && i < b->count; i++) {
        n = &b->nodes[i];
        if (plan_node_is_keyed(n) && n->auto_named)
            plan_add_warning(b->p, n->place,
                             "%s: %s keeps state under an automatic name; "
                             "give it a name, or a changed job will not find "
                             "its state",
                             n->kind_name, n->name);
    }
}

static void
warn_laws(struct plan_build *b, const struct plan_node *n)
{
    const struct opt *aggs = opt_get(n->opts, "aggs");
    const struct opt *a, *law;

    for (a = aggs != NULL ? aggs->first : NULL; a != NULL; a = a->next) {
        law = opt_get(a, "law");
        if (law != NULL && !opt_bool(law, "ok", true))
            plan_add_warning(b->p, opt_str(a, "place", n->place),
                             "aggregator %s broke a law: %s",
                             opt_str(a, "name", ""), opt_str(law, "text", ""));
    }
}

/* Whether a key column of a sink is part of what tells windows apart. */
static bool
key_has_window(const struct opt *key)
{
    const struct opt *c, *cols = opt_get(key, "cols");

    if (is_window_field(opt_str(key, "field", "")))
        return true;
    for (c = cols != NULL ? cols->first : NULL; c != NULL; c = c->next)
        if (is_window_field(opt_str(c, "field", "")) ||
            opt_func(c, "func") != 0)
            return true;
    return false;
}

/* The nearest aggregate before `n` whose rows the sink would write. */
static const struct plan_node *
aggregate_before(const struct plan_build *b, const struct plan_node *n)
{
    while (n->kind != STEP_AGGREGATE && n->in_count > 0)
        n = &b->nodes[n->in[0].node];
    return n;
}

static void
warn_shared_key(struct plan_build *b, const struct plan_node *n)
{
    const struct opt *key = opt_get(opt_get(n->opts, "conn"), "key");
    const char *kind = opt_str(key, "kind", "default");
    const struct opt *cols;

    if (!opt_is(n->opts, "connector", "kafka") || !n->updating || !n->windowed)
        return;
    if (strcmp(kind, "none") == 0 || strcmp(kind, "func") == 0 ||
        key_has_window(key))
        return;
    cols = opt_get(aggregate_before(b, n)->opts, "key");
    if (strcmp(kind, "default") == 0 && (cols == NULL || cols->len == 0))
        return;
    plan_add_warning(b->p, n->place,
                     "sink: updating rows of different windows share a message "
                     "key in %s; add \"window_start\" to its key",
                     n->name);
}

void
plan_check_warn(struct plan_build *b)
{
    const struct plan_node *n;
    uint32_t i;

    for (i = 0; i < b->count; i++) {
        n = &b->nodes[i];
        if (n->kind == STEP_SOURCE && b->p->checkpoint_off != NULL &&
            opt_is(n->opts, "connector", "stdin") &&
            strcmp(b->p->checkpoint_off, "by option") != 0)
            plan_add_warning(b->p, n->place,
                             "source %s is not replayable: no checkpoints, no "
                             "restore",
                             n->name);
        if (n->kind == STEP_AGGREGATE)
            warn_laws(b, n);
        if (n->endless && strcmp(plan_node_window(n), "global") == 0)
            plan_add_warning(b->p, n->place,
                             "window: a global window over an unbounded source "
                             "never fires");
        if (opt_is(n->opts, "rows", "window"))
            plan_add_warning(b->p, n->place,
                             "process: on_window keeps all records of a window "
                             "until it fires; an aggregate keeps one value");
        if (n->kind == STEP_SINK)
            warn_shared_key(b, n);
    }
    warn_auto_names(b);
}
