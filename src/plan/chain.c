#include "plan/plan_impl.h"

#include <string.h>

/* --- slot sharing groups ------------------------------------------------ */

/* Whether the options for slots and chaining are another step's: a local
 * aggregate and a clock stay with their input. */
static bool
stays_with_input(const struct plan_step *s)
{
    return s->kind == STEP_LOCAL || s->kind == STEP_CLOCK;
}

/* Its own, or that of its inputs if they agree, else "default" (as Flink).
 * A local aggregate stays with its input; the group is the global one's. */
static void
set_groups(struct plan *p)
{
    struct plan_step *s;
    const char *own, *in;
    uint32_t i, j;

    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        own = stays_with_input(s)
                  ? NULL
                  : opt_str(s->opts, "slot_sharing_group", NULL);
        s->group = own;
        for (j = 0; own == NULL && j < s->in_count; j++) {
            in = p->steps[p->edges[s->in[j]].from].group;
            if (s->group != NULL && strcmp(s->group, in) != 0)
                in = "default";
            s->group = in;
        }
        if (s->group == NULL)
            s->group = "default";
    }
}

/* --- chains ------------------------------------------------------------- */

static bool
chaining_is(const struct plan_step *s, const char *value)
{
    return opt_is(s->opts, "chaining", value);
}

/* Why the forward edge into `s` cannot be a call, or NULL if it can. */
static const char *
why_not_chained(const struct plan *p, const struct plan_step *s,
                const struct plan_edge *edge)
{
    const struct plan_step *from = &p->steps[edge->from];

    if (s->in_count > 1)
        return "two inputs";
    if (strcmp(from->group, s->group) != 0)
        return "slot group";
    /* A clock is nobody's step: it stands alone for no one. */
    if (s->kind != STEP_CLOCK && from->kind != STEP_CLOCK &&
        chaining_is(from, "never"))
        return "option";
    if (!stays_with_input(s) &&
        (chaining_is(s, "never") || chaining_is(s, "head")))
        return "option";
    return NULL;
}

static void
decide_edges(struct plan *p)
{
    struct plan_step *s;
    struct plan_edge *edge;
    const char *why;
    uint32_t i, j;

    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        why = NULL;
        for (j = 0; j < s->in_count; j++) {
            edge = &p->edges[s->in[j]];
            if (edge->kind == EDGE_FORWARD) {
                edge->why = why_not_chained(p, s, edge);
                if (edge->why == NULL)
                    edge->kind = EDGE_CHAIN;
            } else if (edge->why != NULL && s->in_count > 1) {
                edge->why = "two inputs";
            }
            if (edge->why != NULL)
                why = edge->why;
        }
        if (why != NULL)
            plan_add_why(p, s, "not chained: %s", why);
    }
}

static void
make_chains(struct plan *p)
{
    struct plan_chain *c;
    struct plan_step *s;
    uint32_t i;

    p->chains = arena_alloc(&p->arena, p->step_count * sizeof *p->chains);
    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        if (s->in_count == 1 && p->edges[s->in[0]].kind == EDGE_CHAIN) {
            s->chain = p->steps[p->edges[s->in[0]].from].chain;
            p->chains[s->chain].count++;
            continue;
        }
        s->chain = p->chain_count++;
        c = &p->chains[s->chain];
        memset(c, 0, sizeof *c);
        c->count = 1;
        c->parallelism = s->parallelism;
        c->group = s->group;
    }
    for (i = 0; i < p->chain_count; i++) {
        c = &p->chains[i];
        c->steps = arena_alloc(&p->arena, c->count * sizeof *c->steps);
        c->count = 0;
    }
    for (i = 0; i < p->step_count; i++) {
        c = &p->chains[p->steps[i].chain];
        c->steps[c->count++] = i;
    }
}

/* --- slots -------------------------------------------------------------- */

/*
 * The least loaded of the runs of `par` slots that fit side by side in a
 * group's `width`; the first of equals. So that four sources with one partition
 * each do not share a slot.
 */
static uint32_t
pick_offset(uint32_t *load, uint32_t width, uint32_t par)
{
    uint32_t at, i, most, best = 0, best_load = UINT32_MAX;

    for (at = 0; at + par <= width; at += par) {
        most = 0;
        for (i = 0; i < par; i++)
            if (load[at + i] > most)
                most = load[at + i];
        if (most < best_load) {
            best_load = most;
            best = at;
        }
    }
    for (i = 0; i < par; i++)
        load[best + i]++;
    return best;
}

/* Place the chains of one group in slots from `base` on; @return its width. */
static uint32_t
place_group(struct plan *p, const char *group, uint32_t base)
{
    uint32_t width = 0, i;
    uint32_t *load;
    struct plan_chain *c;

    for (i = 0; i < p->chain_count; i++) {
        c = &p->chains[i];
        if (strcmp(c->group, group) == 0 && c->parallelism > width)
            width = c->parallelism;
    }
    load = arena_alloc(&p->arena, width * sizeof *load);
    memset(load, 0, width * sizeof *load);
    for (i = 0; i < p->chain_count; i++) {
        c = &p->chains[i];
        if (strcmp(c->group, group) == 0)
            c->slot_base = base + pick_offset(load, width, c->parallelism);
    }
    return width;
}

static void
place_chains(struct plan *p)
{
    uint32_t i, j;

    p->slots_needed = 0;
    for (i = 0; i < p->chain_count; i++) {
        for (j = 0; j < i; j++)
            if (strcmp(p->chains[j].group, p->chains[i].group) == 0)
                break;
        if (j == i)
            p->slots_needed +=
                place_group(p, p->chains[i].group, p->slots_needed);
    }
}

int
plan_chain(struct plan_build *b)
{
    struct plan *p = b->p;
    int64_t given = b->conf->slots > 0 ? (int64_t)b->conf->slots
                                       : opt_int(b->options, "slots", 0);

    set_groups(p);
    decide_edges(p);
    make_chains(p);
    place_chains(p);

    if (given > 0 && given < (int64_t)p->slots_needed) {
        (void)err_set(
            b->e, ERR_CONFIG, "%s %lld is below the %u slots this job needs",
            b->conf->slots > 0 ? "--slots" : "slots =", (long long)given,
            (unsigned)p->slots_needed);
        if (b->conf->slots == 0)
            err_where(b->e, "%s", opt_str(p->job, "place", p->file));
        err_hint(b->e,
                 "lower the parallelism, put steps in one slot sharing group, "
                 "or give at least %u slots",
                 (unsigned)p->slots_needed);
        return ERR_CONFIG;
    }
    p->slots = p->slots_needed;
    if (given > 0)
        p->slots = (uint32_t)given;
    else if (b->conf->cores > p->slots)
        p->slots = b->conf->cores;
    return 0;
}
