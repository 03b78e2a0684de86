#include "plan/plan.h"

#include <string.h>

#include "plan/explain_put.h"

static void
put_checkpoint(struct buf *out, const struct plan *p)
{
    const struct opt *options = opt_get(p->job, "options");
    int64_t ttl = opt_int(opt_get(options, "state"), "ttl_ms", -1);

    if (!p->checkpoint) {
        buf_addf(out, "  checkpoint off: %s\n", p->checkpoint_off);
        return;
    }
    buf_adds(out, "  checkpoint every ");
    plan_put_duration(out, p->checkpoint_interval_ms);
    buf_addf(out, ", state backend %s",
             opt_str(opt_get(options, "state"), "backend", "lmdb"));
    if (ttl >= 0) {
        buf_adds(out, ", state ttl ");
        plan_put_duration(out, ttl);
    }
    buf_addc(out, '\n');
}

static void
put_settings(struct buf *out, const struct plan *p)
{
    const struct opt *mb = opt_get(opt_get(p->job, "options"), "mini_batch");

    buf_addf(out, "job %s (%s)\n", p->name, p->file);
    buf_addf(out, "  parallelism %u, max parallelism %u, slots needed %u\n",
             (unsigned)p->parallelism, (unsigned)p->max_parallelism,
             (unsigned)p->slots_needed);
    put_checkpoint(out, p);
    buf_adds(out, "  mini_batch allow_latency=");
    plan_put_duration(out, opt_int(mb, "allow_latency_ms", 1000));
    buf_adds(out, " size=");
    json_put_int(out, opt_int(mb, "size", 50000));
    buf_adds(out, " bytes=");
    explain_put_size(out, opt_int(mb, "bytes", 32 * 1024 * 1024));
    buf_addc(out, '\n');
}

/* Numbers of the visible steps behind some edges of a step. */
struct sources {
    const struct plan *p;
    unsigned kinds; /* bit set of edge kinds to take */
    int right;      /* -1: both sides of a connect; 0, 1: one */
    uint32_t n, only;
    struct buf list;
};

static void
add_source(void *arg, const struct plan_edge *into,
           const struct plan_edge *from)
{
    struct sources *s = arg;
    uint32_t number = s->p->steps[from->from].number;

    if ((s->kinds >> into->kind & 1u) == 0 ||
        (s->right >= 0 && (s->right == 1) != into->right))
        return;
    buf_addf(&s->list, "%s%u", s->n > 0 ? ", " : "", (unsigned)number);
    s->n++;
    s->only = number;
}

/*
 * Append " <- N, N", the inputs that `of` asks for; nothing if that is just
 * the step printed before (its number; 0 = none).
 */
static void
put_inputs(struct buf *out, const struct plan_step *s, struct sources *of,
           uint32_t prev)
{
    buf_init(&of->list);
    of->n = 0;
    explain_each_input(of->p, s, add_source, of);
    if (of->n > 1 || (of->n == 1 && of->only != prev))
        buf_addf(out, " <- %s", buf_cstr(&of->list));
    buf_fini(&of->list);
}

static void
put_hash(struct buf *out, const struct plan *p, const struct plan_step *s,
         int right, uint32_t prev)
{
    struct sources of = {.p = p, .kinds = 1u << EDGE_HASH, .right = right};
    const struct plan_edge *edge, *hash = NULL;
    uint32_t j;

    for (j = 0; j < s->in_count; j++) {
        edge = &p->edges[s->in[j]];
        if (edge->kind == EDGE_HASH && edge->right == (right == 1))
            hash = edge;
    }
    if (hash == NULL)
        return;
    buf_adds(out, "exchange hash ");
    explain_put_columns(out, plan_edge_key(p, hash));
    buf_adds(out, hash->partials ? ", partials" : ", records");
    put_inputs(out, s, &of, prev);
    buf_addc(out, '\n');
}

static void
put_exchanges(struct buf *out, const struct plan *p, const struct plan_step *s,
              uint32_t prev)
{
    struct sources of = {.p = p, .kinds = 1u << EDGE_REBALANCE, .right = -1};
    bool rebalance = false;
    uint32_t j;

    put_hash(out, p, s, 0, prev);
    put_hash(out, p, s, 1, prev);
    for (j = 0; j < s->in_count; j++)
        rebalance = rebalance || p->edges[s->in[j]].kind == EDGE_REBALANCE;
    if (rebalance) {
        buf_adds(out, "exchange rebalance, records");
        put_inputs(out, s, &of, prev);
        buf_addc(out, '\n');
    }
}

/* The head line of a chain, before its first step and wherever the flow
 * comes back to it. */
static void
put_chain(struct buf *out, const struct plan *p, const struct plan_step *s,
          uint32_t prev)
{
    struct sources of = {
        .p = p, .kinds = 1u << EDGE_FORWARD | 1u << EDGE_CHAIN, .right = -1};
    const struct plan_chain *c = &p->chains[s->chain];

    put_exchanges(out, p, s, prev);
    buf_addf(out, "chain %u, parallelism %u, group %s", (unsigned)s->chain + 1,
             (unsigned)c->parallelism, c->group);
    put_inputs(out, s, &of, prev);
    buf_addc(out, '\n');
}

void
plan_explain_text(const struct plan *p, struct buf *out)
{
    const struct plan_step *s;
    uint32_t chain = UINT32_MAX, prev = 0, i, j;

    put_settings(out, p);
    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        if (s->chain != chain || explain_is_head(p, s))
            put_chain(out, p, s, prev);
        chain = s->chain;
        if (s->number > 0) {
            prev = s->number;
            buf_addf(out, "  %u ", (unsigned)s->number);
            explain_put_step(out, s);
            buf_addc(out, '\n');
        }
        for (j = 0; s->why[j] != NULL; j++)
            buf_addf(out, "    why: %s\n", s->why[j]);
    }
    for (i = 0; i < p->warning_count; i++) {
        buf_addf(out, "warning: %s (%s)\n", p->warnings[i].text,
                 p->warnings[i].place);
    }
}
