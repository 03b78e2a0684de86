#include "plan/plan_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static char *vtext(struct plan *p, const char *fmt, va_list ap)
    PRINTF_LIKE(2, 0);

static char *
vtext(struct plan *p, const char *fmt, va_list ap)
{
    char line[ERR_MSG_MAX];

    (void)vsnprintf(line, sizeof line, fmt, ap);
    return arena_strdup(&p->arena, line);
}

char *
plan_text(struct plan *p, const char *fmt, ...)
{
    va_list ap;
    char *text;

    va_start(ap, fmt);
    text = vtext(p, fmt, ap);
    va_end(ap);
    return text;
}

void
plan_add_why(struct plan *p, struct plan_step *s, const char *fmt, ...)
{
    const char **why;
    size_t n = 0;
    va_list ap;

    while (s->why != NULL && s->why[n] != NULL)
        n++;
    why = arena_alloc(&p->arena, (n + 2) * sizeof *why);
    if (n > 0)
        memcpy(why, s->why, n * sizeof *why);
    va_start(ap, fmt);
    why[n] = vtext(p, fmt, ap);
    va_end(ap);
    why[n + 1] = NULL;
    s->why = why;
}

void
plan_add_warning(struct plan *p, const char *place, const char *fmt, ...)
{
    struct plan_warning *w;
    uint32_t n = p->warning_count, i;
    const char *text;
    va_list ap;

    va_start(ap, fmt);
    text = vtext(p, fmt, ap);
    va_end(ap);
    for (i = 0; i < n; i++) /* an aggregator may be used in several steps */
        if (strcmp(p->warnings[i].place, place) == 0 &&
            strcmp(p->warnings[i].text, text) == 0)
            return;
    w = arena_alloc(&p->arena, (n + 1) * sizeof *w);
    if (n > 0)
        memcpy(w, p->warnings, n * sizeof *w);
    w[n].place = place;
    w[n].text = text;
    p->warnings = w;
    p->warning_count = n + 1;
}

int
plan_refuse(struct plan_build *b, const char *place, const char *kind,
            const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)err_set(b->e, ERR_JOBFILE, "%s: %s", kind, text);
    err_where(b->e, "%s", place != NULL ? place : b->p->file);
    return ERR_JOBFILE;
}

static const struct {
    const char *name, *logical;
} kinds[] = {
    [STEP_SOURCE] = {"source", "source"},
    [STEP_EVENT_TIME] = {"event_time", "event_time"},
    [STEP_FILTER] = {"filter", "filter"},
    [STEP_MAP] = {"map", "map"},
    [STEP_FLAT_MAP] = {"flat_map", "flat_map"},
    [STEP_SELECT] = {"select", "select"},
    [STEP_LOCAL] = {"local_aggregate", "aggregate"},
    [STEP_GLOBAL] = {"global_aggregate", "aggregate"},
    [STEP_AGGREGATE] = {"aggregate", "aggregate"},
    [STEP_PROCESS] = {"process", "process"},
    [STEP_DEDUP] = {"dedup", "dedup"},
    [STEP_SPLIT] = {"split", "split"},
    [STEP_CLOCK] = {"clock", "clock"},
    [STEP_SINK] = {"sink", "sink"},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

const char *
plan_kind_name(enum step_kind kind)
{
    return kinds[kind].name;
}

const char *
plan_kind_logical(enum step_kind kind)
{
    return kinds[kind].logical;
}

const struct opt *
plan_edge_key(const struct plan *p, const struct plan_edge *edge)
{
    const struct opt *to = p->steps[edge->to].opts;

    return opt_get(edge->right ? opt_get(to, "right") : to, "key");
}

const char *
plan_edge_on_null(const struct plan *p, const struct plan_edge *edge)
{
    const struct opt *to = p->steps[edge->to].opts;

    return opt_str(edge->right ? opt_get(to, "right") : to, "on_null", "skip");
}

/* The kind of a step of the tree, or -1: the rewrite alone makes the phases
 * of an aggregate, and clocks. */
static int
kind_of(const char *name)
{
    int k;

    for (k = 0; k < KIND_COUNT; k++)
        if (k != STEP_LOCAL && k != STEP_GLOBAL && k != STEP_CLOCK &&
            strcmp(kinds[k].name, name) == 0)
            return k;
    return -1;
}

const struct opt *
plan_with(struct plan *p, const struct opt *o, const char *name,
          const struct opt *value)
{
    struct opt *copy = opt_new_map(&p->arena), *m;
    const struct opt *c;

    for (c = o->first; c != NULL; c = c->next) {
        m = opt_new(&p->arena);
        *m = strcmp(c->name, name) == 0 ? *value : *c;
        opt_add(&p->arena, copy, c->name, m);
    }
    return copy;
}

/* What the job file calls the step. */
static const char *
said_kind(const struct opt *step)
{
    const char *rows = opt_str(step, "rows", "");

    if (strcmp(rows, "record") == 0)
        return "reduce";
    if (strcmp(rows, "ranked") == 0)
        return "top_n";
    if (strcmp(rows, "window") == 0)
        return "process";
    return opt_str(step, "kind", "");
}

const char *
plan_step_said(const struct plan_step *s)
{
    return s->kind == STEP_LOCAL || plan_step_is_keyed(s)
               ? said_kind(s->opts)
               : plan_kind_logical(s->kind);
}

static int
read_inputs(struct plan_build *b, struct plan_node *n, uint32_t index)
{
    const struct opt *list = opt_get(n->opts, "inputs");
    const struct opt *o;
    struct plan_node_in *in;
    int64_t from;

    n->in_count = list != NULL ? (uint32_t)list->len : 0;
    n->in = arena_alloc(&b->p->arena, (n->in_count + 1) * sizeof *n->in);
    in = n->in;
    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next) {
        from = opt_int(o, "step", 0);
        if (from < 1 || from > (int64_t)index)
            return err_set(b->e, ERR_INTERNAL,
                           "step %s reads step %d, which is not before it",
                           n->name, (int)from);
        in->node = (uint32_t)from - 1;
        in->output = opt_str(o, "output", "main");
        in->rebalance = opt_bool(o, "rebalance", false);
        in->right = opt_is(o, "side", "right");
        b->nodes[in->node].uses++;
        in++;
    }
    return 0;
}

static int
read_node(struct plan_build *b, const struct opt *o, uint32_t index)
{
    struct plan_node *n = &b->nodes[index];
    int k;

    n->opts = o;
    n->kind_name = said_kind(o);
    n->name = opt_str(o, "name", "");
    n->place = opt_str(o, "place", b->p->file);
    n->auto_named = opt_bool(o, "auto", false);
    k = kind_of(opt_str(o, "kind", ""));
    if (k < 0)
        return err_set(b->e, ERR_INTERNAL, "unknown kind of step '%s'",
                       opt_str(o, "kind", ""));
    n->kind = (enum step_kind)k;
    return read_inputs(b, n, index);
}

/* Whether the node may meet a record that its source quarantines: malformed
 * ones are found where a field is read, and follow the source's policy. */
static bool
reads_for_source(const struct plan_build *b, const struct plan_node *n)
{
    uint32_t i;

    for (i = 0; i < n->in_count; i++) {
        const struct plan_node *from = &b->nodes[n->in[i].node];

        if (from->kind == STEP_SOURCE
                ? plan_error_policy(b, from) == ON_ERROR_QUARANTINE
                : reads_for_source(b, from))
            return true;
    }
    return false;
}

/* Whether failed records of the node go to the quarantine: by its policy, or
 * that of a source, or those without a key. */
static bool
quarantines(const struct plan_build *b, const struct plan_node *n)
{
    return plan_error_policy(b, n) == ON_ERROR_QUARANTINE ||
           reads_for_source(b, n) ||
           opt_is(n->opts, "on_null", PLAN_QUARANTINE) ||
           opt_is(opt_get(n->opts, "right"), "on_null", PLAN_QUARANTINE);
}

/* The quarantine is the last step: it reads all that send it something. */
static int
read_quarantine(struct plan_build *b)
{
    const struct opt *o = opt_get(b->options, PLAN_QUARANTINE);
    struct plan_node *n = &b->nodes[b->count];
    struct plan_node_in *in;
    uint32_t i;
    int r;

    if (o == NULL || o->type != OPT_MAP)
        return 0;
    if ((r = read_node(b, o, b->count)) != 0)
        return r;
    n->in = arena_alloc(&b->p->arena, (b->count + 1) * sizeof *n->in);
    for (i = 0; i < b->count; i++) {
        if (!quarantines(b, &b->nodes[i]))
            continue;
        in = &n->in[n->in_count++];
        memset(in, 0, sizeof *in);
        in->node = i;
        in->output = PLAN_QUARANTINE;
    }
    if (n->in_count > 0)
        b->quarantine = &b->nodes[b->count++];
    else
        plan_add_warning(b->p, n->place,
                         "job: nothing goes to the quarantine; say on_error = "
                         "\"quarantine\" in the job, a source or a step");
    return 0;
}

static int
read_nodes(struct plan_build *b)
{
    const struct opt *steps = opt_get(b->p->job, "steps");
    const struct opt *o;
    uint32_t i = 0;
    int r;

    b->count = steps != NULL ? (uint32_t)steps->len : 0;
    b->nodes = arena_alloc(&b->p->arena, (b->count + 1) * sizeof *b->nodes);
    memset(b->nodes, 0, (b->count + 1) * sizeof *b->nodes);
    for (o = steps != NULL ? steps->first : NULL; o != NULL; o = o->next)
        if ((r = read_node(b, o, i++)) != 0)
            return r;
    r = read_quarantine(b);
    b->p->logical_count = b->count;
    return r;
}

static int
read_bounded(struct plan_build *b)
{
    const struct plan_node *n;
    bool flag = b->conf->bounded;
    uint32_t i;

    b->p->bounded = true;
    for (i = 0; i < b->count; i++) {
        n = &b->nodes[i];
        if (plan_node_is_keyed(n))
            b->p->stateful = true;
        if (n->kind != STEP_SOURCE || plan_source_is_bounded(n->opts, flag))
            continue;
        b->p->bounded = false;
        if (flag && opt_is(n->opts, "connector", "generator")) {
            (void)err_set(b->e, ERR_USAGE,
                          "--bounded: generator %s has no count, so it never "
                          "ends",
                          n->name);
            err_hint(b->e, "give it a count: s.generator { count = ... }");
            err_where(b->e, "%s", n->place);
            return ERR_USAGE;
        }
    }
    return 0;
}

static void
read_warnings(struct plan_build *b)
{
    const struct opt *list = opt_get(b->p->job, "warnings");
    const struct opt *w;

    for (w = list != NULL ? list->first : NULL; w != NULL; w = w->next)
        plan_add_warning(b->p, opt_str(w, "place", b->p->file), "%s",
                         opt_str(w, "text", ""));
}

static int
run_passes(struct plan_build *b)
{
    int r;

    if ((r = read_nodes(b)) != 0)
        return r;
    plan_read_settings(b);
    if ((r = plan_check_graph(b)) != 0)
        return r;
    if ((r = plan_read_parallelism(b)) != 0)
        return r;
    if ((r = read_bounded(b)) != 0)
        return r;
    if ((r = plan_rewrite(b)) != 0)
        return r;
    plan_place_delivery(b);
    if ((r = plan_check_placed(b)) != 0)
        return r;
    if ((r = plan_chain(b)) != 0)
        return r;
    read_warnings(b);
    plan_check_warn(b);
    return 0;
}

int
plan_build(const struct opt *job, const struct plan_conf *conf,
           struct plan **ret, struct err *e)
{
    static const struct plan_conf none;
    struct plan *p = mem_zalloc(sizeof *p);
    struct plan_build b = {.p = p,
                           .conf = conf != NULL ? conf : &none,
                           .options = opt_get(job, "options"),
                           .e = e};
    int r;

    arena_init(&p->arena);
    p->job = job;
    p->name = opt_str(job, "name", "");
    p->file = opt_str(job, "file", "");
    r = run_passes(&b);
    if (r != 0) {
        plan_free(&p);
        return r;
    }
    *ret = p;
    return 0;
}

void
plan_free(struct plan **p)
{
    if (*p == NULL)
        return;
    arena_fini(&(*p)->arena);
    free(*p);
    *p = NULL;
}
