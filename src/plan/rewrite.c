#include "plan/plan_impl.h"

#include <stdlib.h>
#include <string.h>

#include "plan/explain_put.h"

/* --- phases ------------------------------------------------------------- */

const struct opt *
plan_unmergeable(struct plan *p, const struct opt *step, const char **ret_why)
{
    const struct opt *aggs = opt_get(step, "aggs");
    const struct opt *a, *law;

    for (a = aggs != NULL ? aggs->first : NULL; a != NULL; a = a->next) {
        if (!opt_is(a, "fn", "custom") && !opt_is(a, "fn", "reduce"))
            continue; /* every built-in aggregate merges */
        if (opt_is(a, "fn", "custom") && opt_func(a, "merge") == 0) {
            *ret_why =
                plan_text(p, "aggregator %s has no merge (%s)",
                          opt_str(a, "name", ""), opt_str(a, "place", ""));
            return a;
        }
        law = opt_get(a, "law");
        if (law != NULL && !opt_bool(law, "ok", true)) {
            *ret_why = plan_text(
                p, "aggregator %s broke a law: %s (%s)", opt_str(a, "name", ""),
                opt_str(law, "text", ""), opt_str(a, "place", ""));
            return a;
        }
    }
    return NULL;
}

static uint32_t
keyed_parallelism(const struct plan_build *b, const struct plan_node *n)
{
    const struct opt *key = opt_get(n->opts, "key");

    if (key == NULL || key->len == 0)
        return 1;
    return (uint32_t)opt_int(n->opts, "parallelism", b->p->parallelism);
}

/* --- distribution ------------------------------------------------------- */

/* Whether the path `field` is the one member `name`, unescaped. */
static bool
path_is_name(const char *field, const char *name)
{
    for (; *field != '\0'; field++, name++) {
        if (field[0] == '.')
            return false;
        if (field[0] == '\\' && field[1] == '.')
            field++;
        if (*field != *name)
            return false;
    }
    return *name == '\0';
}

/* Whether the column `k` reads the key field `u` of rows of the step `up`. */
static bool
reads_key(const struct opt *up, const struct opt *k, const struct opt *u)
{
    const char *field = opt_str(k, "field", NULL);
    const char *was = opt_str(u, "field", NULL);
    const char *rows = opt_str(up, "rows", "");

    if (field == NULL)
        return false;
    if (opt_is(up, "kind", "dedup") || strcmp(rows, "ranked") == 0)
        /* The records themselves; top_n writes the field rank. */
        return was != NULL && strcmp(field, was) == 0 &&
               strcmp(field, "rank") != 0;
    return rows[0] == '\0' && path_is_name(field, opt_str(u, "name", ""));
}

/*
 * Whether the records of `n` lie where its keys want them already: they are
 * rows of a keyed step (filters between do not move them) whose key fields
 * are read again, in the same order, at the same parallelism.
 */
static bool
is_distributed(const struct plan_build *b, const struct plan_node *n)
{
    const struct plan_node *up = n;
    const struct opt *k, *u;

    do {
        if (up->in_count != 1 || up->in[0].rebalance ||
            strcmp(up->in[0].output, "main") != 0)
            return false;
        up = &b->nodes[up->in[0].node];
        if (b->p->steps[up->last].parallelism != keyed_parallelism(b, n))
            return false;
    } while (up->kind == STEP_FILTER);
    /* A process emits what it likes. */
    if (!plan_node_is_keyed(up) || up->kind == STEP_PROCESS)
        return false;

    k = opt_get(n->opts, "key");
    u = opt_get(up->opts, "key");
    if ((k != NULL ? k->len : 0) != (u != NULL ? u->len : 0))
        return false;
    k = k != NULL ? k->first : NULL;
    u = u != NULL ? u->first : NULL;
    for (; k != NULL && u != NULL; k = k->next, u = u->next) {
        if (!reads_key(up->opts, k, u))
            return false;
    }
    return true;
}

/* --- steps and edges ---------------------------------------------------- */

enum on_error
plan_error_policy(const struct plan_build *b, const struct plan_node *n)
{
    const char *own = opt_str(n->opts, "on_error", NULL);

    if (own == NULL && n->kind == STEP_SOURCE)
        own = opt_str(opt_get(n->opts, "conn"), "on_error", NULL);
    if (own == NULL)
        own = opt_str(b->options, "on_error", "fail");
    if (strcmp(own, PLAN_QUARANTINE) == 0)
        return ON_ERROR_QUARANTINE;
    return strcmp(own, "skip") == 0 ? ON_ERROR_SKIP : ON_ERROR_FAIL;
}

static struct plan_step *
add_step(struct plan_build *b, const struct plan_node *n, enum step_kind kind,
         uint32_t parallelism)
{
    static const char *no_why[1];
    struct plan *p = b->p;
    struct plan_step *s = &p->steps[p->step_count];

    memset(s, 0, sizeof *s);
    s->kind = kind;
    s->name = n->name;
    s->auto_named = n->auto_named;
    s->place = n->place;
    s->opts = n->opts;
    s->index = p->step_count++;
    s->logical = (uint32_t)(n - b->nodes);
    s->parallelism = parallelism;
    s->on_error = plan_error_policy(b, n);
    s->updating = n->updating && kind != STEP_LOCAL && kind != STEP_CLOCK;
    s->event_time = n->in_time;
    s->quarantine = n == b->quarantine;
    if (kind != STEP_CLOCK)
        s->number = ++b->steps_shown;
    s->why = no_why;
    s->peer = s->index;
    return s;
}

static struct plan_edge *
add_edge(struct plan_build *b, uint32_t from, uint32_t to, enum edge_kind kind)
{
    struct plan_edge *edge = &b->p->edges[b->p->edge_count++];

    memset(edge, 0, sizeof *edge);
    edge->from = from;
    edge->to = to;
    edge->kind = kind;
    edge->output = "main";
    return edge;
}

/* The step that emits what `in` reads: late records leave the first phase. */
static uint32_t
emitter(const struct plan_build *b, const struct plan_node_in *in)
{
    const struct plan_node *from = &b->nodes[in->node];

    return opt_is(from->opts, "late_output", in->output) ? from->first
                                                         : from->last;
}

/* Connect the inputs of `n` to step `s`, by key or in place. */
static void
connect_inputs(struct plan_build *b, const struct plan_node *n,
               struct plan_step *s, bool by_key)
{
    const struct plan_step *from;
    struct plan_edge *edge;
    bool warned = false;
    uint32_t j;

    for (j = 0; j < n->in_count; j++) {
        from = &b->p->steps[emitter(b, &n->in[j])];
        edge = add_edge(b, from->index, s->index, EDGE_FORWARD);
        edge->output = n->in[j].output;
        edge->right = n->in[j].right;
        if (by_key) {
            edge->kind = EDGE_HASH;
        } else if (n->in[j].rebalance) {
            edge->kind = EDGE_REBALANCE;
        } else if (from->parallelism != s->parallelism) {
            edge->kind = EDGE_REBALANCE;
            edge->why = plan_text(b->p, "parallelism %u != %u",
                                  (unsigned)from->parallelism,
                                  (unsigned)s->parallelism);
            if (!warned)
                plan_add_why(b->p, s,
                             "rebalance inserted (%s): order between records "
                             "is lost",
                             edge->why);
            warned = true;
        }
    }
}

/* A step without keys: as its input, the largest after a union, the job's
 * after rebalance(), or what it says itself. */
static uint32_t
stateless_parallelism(const struct plan_build *b, const struct plan_node *n,
                      bool own)
{
    uint32_t most = 1, in, j;
    int64_t given = own ? opt_int(n->opts, "parallelism", 0) : 0;

    if (given > 0)
        return (uint32_t)given;
    for (j = 0; j < n->in_count; j++) {
        in = n->in[j].rebalance
                 ? b->p->parallelism
                 : b->p->steps[emitter(b, &n->in[j])].parallelism;
        if (in > most)
            most = in;
    }
    return most;
}

/* A sink with commit has one subtask: one transaction of its target makes a
 * round final. */
static uint32_t
sink_parallelism(const struct plan_build *b, const struct plan_node *n)
{
    return n->kind == STEP_SINK && plan_sink_is_lua_target(n->opts)
               ? 1
               : stateless_parallelism(b, n, true);
}

static void
place_source(struct plan_build *b, struct plan_node *n)
{
    int64_t given = opt_int(n->opts, "parallelism", 0);
    uint32_t want = given > 0 ? (uint32_t)given : b->p->parallelism;
    uint32_t parts = b->conf->boxed ? 0 : plan_partitions(n->opts);
    uint32_t par = parts > 0 && parts < want ? parts : want;
    struct plan_step *s = add_step(b, n, STEP_SOURCE, par);

    if (given > 0 && par < want)
        plan_add_why(b->p, s,
                     "parallelism %u instead of %u: it has %u "
                     "partition%s",
                     (unsigned)par, (unsigned)want, (unsigned)parts,
                     parts == 1 ? "" : "s");
    n->first = n->last = s->index;
}

static void
place_stateless(struct plan_build *b, struct plan_node *n)
{
    struct plan_step *s = add_step(b, n, n->kind, sink_parallelism(b, n));

    connect_inputs(b, n, s, false);
    if (n->kind == STEP_SINK && plan_sink_is_lua_target(n->opts))
        plan_add_why(b->p, s,
                     "parallelism 1: one transaction of its target makes a "
                     "round final");
    if (n->kind == STEP_FILTER && n->updating)
        plan_add_why(b->p, s,
                     "each row of an updating stream is judged alone: a row "
                     "passed earlier is not taken back");
    n->first = n->last = s->index;
}

/* Say of an updating stream what its rows mean. */
static void
explain_updating(struct plan_build *b, const struct plan_node *n,
                 struct plan_step *s)
{
    struct buf keys;

    if (!n->updating)
        return;
    buf_init(&keys);
    explain_put_key(&keys, n->opts);
    plan_add_why(b->p, s,
                 "updating: a row replaces the earlier row of the same key "
                 "%s%s",
                 buf_cstr(&keys), n->windowed ? " and window" : "");
    buf_fini(&keys);
}

/* The clock of a processing-time window, which takes the inputs. */
static struct plan_step *
place_clock(struct plan_build *b, const struct plan_node *n)
{
    struct plan_step *s =
        add_step(b, n, STEP_CLOCK, stateless_parallelism(b, n, false));

    connect_inputs(b, n, s, false);
    return s;
}

/* Connect the inputs of a window step, through its clock if it has one. */
static void
connect_window(struct plan_build *b, const struct plan_node *n,
               struct plan_step *clock, struct plan_step *s, bool by_key)
{
    if (clock == NULL)
        connect_inputs(b, n, s, by_key);
    else
        add_edge(b, clock->index, s->index, by_key ? EDGE_HASH : EDGE_FORWARD);
}

static void
place_two_phase(struct plan_build *b, struct plan_node *n, bool by_option)
{
    const struct opt *aggs = opt_get(n->opts, "aggs");
    struct plan_step *clock = NULL, *local, *global;
    struct plan_edge *edge;
    size_t count = aggs != NULL ? aggs->len : 0;

    if (plan_node_by_clock(n))
        clock = place_clock(b, n);
    local = add_step(b, n, STEP_LOCAL, stateless_parallelism(b, n, false));
    global = add_step(b, n, STEP_GLOBAL, keyed_parallelism(b, n));
    local->peer = global->index;
    global->peer = local->index;
    if (by_option)
        plan_add_why(b->p, local, "TWO_PHASE by option");
    else if (count == 1)
        plan_add_why(b->p, local, "TWO_PHASE by AUTO: the aggregate merges");
    else
        plan_add_why(b->p, local, "TWO_PHASE by AUTO: all %zu aggregates merge",
                     count);
    connect_window(b, n, clock, local, false);
    explain_updating(b, n, global);
    edge = add_edge(b, local->index, global->index, EDGE_HASH);
    edge->partials = true;
    n->first = local->index;
    n->last = global->index;
}

static void
place_one_phase(struct plan_build *b, struct plan_node *n, bool distributed,
                const char *why)
{
    struct plan_step *clock = NULL, *s;
    struct buf keys;

    if (plan_node_by_clock(n))
        clock = place_clock(b, n);
    s = add_step(b, n, STEP_AGGREGATE, keyed_parallelism(b, n));
    if (why != NULL)
        plan_add_why(b->p, s, "%s", why);
    if (distributed) {
        buf_init(&keys);
        explain_put_key(&keys, n->opts);
        plan_add_why(b->p, s, "ONE_PHASE: input is already distributed by %s",
                     buf_cstr(&keys));
        buf_fini(&keys);
    }
    explain_updating(b, n, s);
    connect_window(b, n, clock, s, !distributed);
    n->first = n->last = s->index;
}

static int
check_keyed_parallelism(struct plan_build *b, const struct plan_node *n)
{
    const struct opt *key = opt_get(n->opts, "key");
    int64_t given = opt_int(n->opts, "parallelism", 0);
    uint32_t par = keyed_parallelism(b, n);

    if ((key == NULL || key->len == 0) && given > 1)
        return plan_refuse(b, n->place, n->kind_name,
                           "parallelism %lld, but key_by {} has one key for "
                           "all, so its parallelism is 1",
                           (long long)given);
    if (par <= b->p->max_parallelism)
        return 0;
    if (given > 0)
        return plan_refuse(b, n->place, n->kind_name,
                           "parallelism %u is above max_parallelism %u",
                           (unsigned)par, (unsigned)b->p->max_parallelism);
    if (b->conf->parallelism == 0)
        return plan_refuse(b, opt_str(b->p->job, "place", b->p->file), "job",
                           "parallelism %u is above max_parallelism %u",
                           (unsigned)par, (unsigned)b->p->max_parallelism);
    return err_set(b->e, ERR_CONFIG,
                   "--parallelism %u is above max_parallelism %u of the job",
                   (unsigned)par, (unsigned)b->p->max_parallelism);
}

/* Why an aggregate cannot have two phases, or NULL. */
static const char *
needs_one_phase(struct plan_build *b, const struct plan_node *n)
{
    const char *why = NULL;

    if (strcmp(plan_node_window(n), "count") == 0)
        return "count window";
    (void)plan_unmergeable(b->p, n->opts, &why);
    return why;
}

/* A function over all records of a window: a first phase would only hold
 * them twice. */
static bool
keeps_records(const struct plan_node *n)
{
    return opt_is(n->opts, "rows", "window");
}

static int
place_aggregate(struct plan_build *b, struct plan_node *n)
{
    const char *own = opt_str(b->options, "agg_phase_strategy", "AUTO");
    const char *option = b->conf->strategy != NULL ? b->conf->strategy : own;
    bool distributed = is_distributed(b, n);
    const char *why;
    int r = check_keyed_parallelism(b, n);

    if (r != 0)
        return r;
    if (strcmp(option, "ONE_PHASE") == 0) {
        place_one_phase(b, n, distributed, "ONE_PHASE by option");
        return 0;
    }
    if ((why = needs_one_phase(b, n)) != NULL) {
        if (strcmp(own, "TWO_PHASE") == 0)
            return plan_refuse(b, n->place, n->kind_name, "TWO_PHASE, but %s",
                               why);
        place_one_phase(b, n, distributed,
                        plan_text(b->p, "ONE_PHASE: %s", why));
        return 0;
    }
    if (strcmp(option, "TWO_PHASE") == 0)
        place_two_phase(b, n, true);
    else if (keeps_records(n))
        place_one_phase(b, n, distributed,
                        "ONE_PHASE: on_window takes all records of a window");
    else if (distributed)
        place_one_phase(b, n, true, NULL);
    else
        place_two_phase(b, n, false);
    return 0;
}

/* Process and dedup: one step behind an exchange, if need be. */
static int
place_keyed(struct plan_build *b, struct plan_node *n)
{
    bool distributed = is_distributed(b, n);
    struct plan_step *s;
    struct buf keys;
    int r = check_keyed_parallelism(b, n);

    if (r != 0)
        return r;
    s = add_step(b, n, n->kind, keyed_parallelism(b, n));
    if (distributed) {
        buf_init(&keys);
        explain_put_key(&keys, n->opts);
        plan_add_why(b->p, s, "no exchange: input is already distributed by %s",
                     buf_cstr(&keys));
        buf_fini(&keys);
    }
    connect_inputs(b, n, s, !distributed);
    n->first = n->last = s->index;
    return 0;
}

/* The sink of failed records reads every step that may send it one: both
 * phases of an aggregate, each for what fails in it. */
static void
place_quarantine(struct plan_build *b, struct plan_node *n)
{
    struct plan *p = b->p;
    struct plan_step *s, *from;
    struct plan_edge *edge;
    uint32_t par = 1, count = p->step_count, i, j;

    for (j = 0; j < n->in_count; j++)
        for (i = 0; i < count; i++)
            if (p->steps[i].logical == n->in[j].node &&
                p->steps[i].parallelism > par)
                par = p->steps[i].parallelism;
    s = add_step(b, n, STEP_SINK, par);
    for (j = 0; j < n->in_count; j++)
        for (i = 0; i < count; i++) {
            from = &p->steps[i];
            if (from->logical != n->in[j].node || from->kind == STEP_CLOCK)
                continue;
            edge = add_edge(b, i, s->index,
                            from->parallelism == par ? EDGE_FORWARD
                                                     : EDGE_REBALANCE);
            edge->output = PLAN_QUARANTINE;
        }
    n->first = n->last = s->index;
}

/* Give each step the lists of its edges, in order of inputs and of uses. */
static void
list_edges(struct plan *p)
{
    struct plan_step *from, *to;
    uint32_t i;

    for (i = 0; i < p->edge_count; i++) {
        p->steps[p->edges[i].to].in_count++;
        p->steps[p->edges[i].from].out_count++;
    }
    for (i = 0; i < p->step_count; i++) {
        to = &p->steps[i];
        to->in = arena_alloc(&p->arena, (to->in_count + 1) * sizeof *to->in);
        to->out = arena_alloc(&p->arena, (to->out_count + 1) * sizeof *to->out);
        to->in_count = to->out_count = 0;
    }
    for (i = 0; i < p->edge_count; i++) {
        to = &p->steps[p->edges[i].to];
        from = &p->steps[p->edges[i].from];
        to->in[to->in_count++] = i;
        from->out[from->out_count++] = i;
    }
}

static int
place_node(struct plan_build *b, struct plan_node *n)
{
    if (n == b->quarantine)
        place_quarantine(b, n);
    else if (n->kind == STEP_SOURCE)
        place_source(b, n);
    else if (n->kind == STEP_AGGREGATE)
        return place_aggregate(b, n);
    else if (plan_node_is_keyed(n))
        return place_keyed(b, n);
    else
        place_stateless(b, n);
    return 0;
}

int
plan_rewrite(struct plan_build *b)
{
    struct plan *p = b->p;
    size_t edges = 0;
    uint32_t i;
    int r;

    /* At most three steps a node: clock, local, global; two edges between
     * them, and two to the quarantine. */
    for (i = 0; i < b->count; i++)
        edges += b->nodes[i].in_count + 4u;
    p->steps = arena_alloc(&p->arena, 3 * b->count * sizeof *p->steps);
    p->edges = arena_alloc(&p->arena, edges * sizeof *p->edges);
    for (i = 0; i < b->count; i++)
        if ((r = place_node(b, &b->nodes[i])) != 0)
            return r;
    list_edges(p);
    return 0;
}
