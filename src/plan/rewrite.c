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
        if (!opt_is(a, "fn", "custom"))
            continue; /* every built-in aggregate merges */
        if (opt_func(a, "merge") == 0) {
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
    const char *field;

    do {
        if (up->in_count != 1 || up->in[0].rebalance ||
            strcmp(up->in[0].output, "main") != 0)
            return false;
        up = &b->nodes[up->in[0].node];
        if (b->p->steps[up->last].parallelism != keyed_parallelism(b, n))
            return false;
    } while (up->kind == STEP_FILTER);
    if (!plan_node_is_keyed(up))
        return false;

    k = opt_get(n->opts, "key");
    u = opt_get(up->opts, "key");
    if ((k != NULL ? k->len : 0) != (u != NULL ? u->len : 0))
        return false;
    k = k != NULL ? k->first : NULL;
    u = u != NULL ? u->first : NULL;
    for (; k != NULL && u != NULL; k = k->next, u = u->next) {
        field = opt_str(k, "field", NULL);
        if (field == NULL || !path_is_name(field, opt_str(u, "name", "")))
            return false;
    }
    return true;
}

/* --- steps and edges ---------------------------------------------------- */

static enum on_error
error_policy(const struct plan_build *b, const struct plan_node *n)
{
    const char *own = opt_str(n->opts, "on_error", NULL);

    if (own == NULL && n->kind == STEP_SOURCE)
        own = opt_str(opt_get(n->opts, "conn"), "on_error", NULL);
    if (own == NULL)
        own = opt_str(b->options, "on_error", "fail");
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
    s->on_error = error_policy(b, n);
    s->updating = n->updating && kind != STEP_LOCAL;
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

/* The step that emits what `in` reads. */
static uint32_t
emitter(const struct plan_build *b, const struct plan_node_in *in)
{
    const struct plan_node *from = &b->nodes[in->node];

    return strcmp(in->output, "main") == 0 ? from->last : from->first;
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

static void
place_source(struct plan_build *b, struct plan_node *n)
{
    int64_t given = opt_int(n->opts, "parallelism", 0);
    uint32_t want = given > 0 ? (uint32_t)given : b->p->parallelism;
    uint32_t parts = plan_partitions(n->opts);
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
    uint32_t par = stateless_parallelism(b, n, true);
    struct plan_step *s = add_step(b, n, n->kind, par);

    connect_inputs(b, n, s, false);
    if (n->kind == STEP_FILTER && n->updating)
        plan_add_why(b->p, s,
                     "each row of an updating stream is judged alone: a row "
                     "passed earlier is not taken back");
    n->first = n->last = s->index;
}

static void
place_two_phase(struct plan_build *b, struct plan_node *n, bool by_option)
{
    const struct opt *aggs = opt_get(n->opts, "aggs");
    struct plan_step *local, *global;
    struct plan_edge *edge;
    size_t count = aggs != NULL ? aggs->len : 0;

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
    connect_inputs(b, n, local, false);
    edge = add_edge(b, local->index, global->index, EDGE_HASH);
    edge->partials = true;
    n->first = local->index;
    n->last = global->index;
}

static void
place_one_phase(struct plan_build *b, struct plan_node *n, bool distributed,
                const char *why)
{
    struct plan_step *s =
        add_step(b, n, STEP_AGGREGATE, keyed_parallelism(b, n));
    struct buf keys;

    if (why != NULL)
        plan_add_why(b->p, s, "%s", why);
    if (distributed) {
        buf_init(&keys);
        explain_put_key(&keys, n->opts);
        plan_add_why(b->p, s, "ONE_PHASE: input is already distributed by %s",
                     buf_cstr(&keys));
        buf_fini(&keys);
    }
    connect_inputs(b, n, s, !distributed);
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

static int
place_aggregate(struct plan_build *b, struct plan_node *n)
{
    const char *option = opt_str(b->options, "agg_phase_strategy", "AUTO");
    bool distributed = is_distributed(b, n);
    const char *why = NULL;
    int r = check_keyed_parallelism(b, n);

    if (r != 0)
        return r;
    if (strcmp(option, "ONE_PHASE") == 0) {
        place_one_phase(b, n, distributed, "ONE_PHASE by option");
        return 0;
    }
    if (plan_unmergeable(b->p, n->opts, &why) != NULL) {
        if (strcmp(option, "TWO_PHASE") == 0)
            return plan_refuse(b, n->place, n->kind_name, "TWO_PHASE, but %s",
                               why);
        place_one_phase(b, n, distributed,
                        plan_text(b->p, "ONE_PHASE: %s", why));
        return 0;
    }
    if (strcmp(option, "TWO_PHASE") == 0)
        place_two_phase(b, n, true);
    else if (distributed)
        place_one_phase(b, n, true, NULL);
    else
        place_two_phase(b, n, false);
    return 0;
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

int
plan_rewrite(struct plan_build *b)
{
    struct plan *p = b->p;
    size_t edges = 0;
    uint32_t i;
    int r;

    for (i = 0; i < b->count; i++)
        edges += b->nodes[i].in_count + 1u;
    p->steps = arena_alloc(&p->arena, 2 * b->count * sizeof *p->steps);
    p->edges = arena_alloc(&p->arena, edges * sizeof *p->edges);
    for (i = 0; i < b->count; i++) {
        if (b->nodes[i].kind == STEP_SOURCE) {
            place_source(b, &b->nodes[i]);
        } else if (b->nodes[i].kind == STEP_AGGREGATE) {
            if ((r = place_aggregate(b, &b->nodes[i])) != 0)
                return r;
        } else {
            place_stateless(b, &b->nodes[i]);
        }
    }
    list_edges(p);
    return 0;
}
