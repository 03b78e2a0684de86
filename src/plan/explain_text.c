#include "plan/plan.h"

#include <string.h>

#include "plan/explain_put.h"

static void
put_checkpoint(struct buf *out, const struct plan *p)
{
    const struct opt *options = opt_get(p->job, "options");

    if (!p->checkpoint) {
        buf_addf(out, "  checkpoint off: %s\n", p->checkpoint_off);
        return;
    }
    buf_adds(out, "  checkpoint every ");
    plan_put_duration(out, p->checkpoint_interval_ms);
    buf_addf(out, ", state backend %s\n",
             opt_str(opt_get(options, "state"), "backend", "lmdb"));
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

/*
 * Append " <- N, N", the inputs of `s` whose edge kind is in the bit set
 * `kinds`; nothing if that is just the step printed before (`prev`, a step
 * index; UINT32_MAX = none).
 */
static void
put_inputs(struct buf *out, const struct plan *p, const struct plan_step *s,
           unsigned kinds, uint32_t prev)
{
    const struct plan_edge *edge;
    uint32_t j, n = 0, only = UINT32_MAX;

    for (j = 0; j < s->in_count; j++) {
        edge = &p->edges[s->in[j]];
        if ((kinds >> edge->kind & 1u) == 0)
            continue;
        only = edge->from;
        n++;
    }
    if (n == 0 || (n == 1 && only == prev))
        return;
    buf_adds(out, " <- ");
    for (j = 0; j < s->in_count; j++) {
        edge = &p->edges[s->in[j]];
        if ((kinds >> edge->kind & 1u) == 0)
            continue;
        buf_addf(out, "%u", (unsigned)edge->from + 1);
        if (--n > 0)
            buf_adds(out, ", ");
    }
}

static void
put_exchanges(struct buf *out, const struct plan *p, const struct plan_step *s,
              uint32_t prev)
{
    const struct plan_edge *edge, *hash = NULL;
    bool rebalance = false;
    uint32_t j;

    for (j = 0; j < s->in_count; j++) {
        edge = &p->edges[s->in[j]];
        if (edge->kind == EDGE_HASH)
            hash = edge;
        rebalance = rebalance || edge->kind == EDGE_REBALANCE;
    }
    if (hash != NULL) {
        buf_adds(out, "exchange hash ");
        explain_put_key(out, s->opts);
        buf_adds(out, hash->partials ? ", partials" : ", records");
        put_inputs(out, p, s, 1u << EDGE_HASH, prev);
        buf_addc(out, '\n');
    }
    if (rebalance) {
        buf_adds(out, "exchange rebalance, records");
        put_inputs(out, p, s, 1u << EDGE_REBALANCE, prev);
        buf_addc(out, '\n');
    }
}

/* The head line of a chain, before its first step and wherever the flow
 * comes back to it. */
static void
put_chain(struct buf *out, const struct plan *p, const struct plan_step *s,
          uint32_t prev)
{
    const struct plan_chain *c = &p->chains[s->chain];

    put_exchanges(out, p, s, prev);
    buf_addf(out, "chain %u, parallelism %u, group %s", (unsigned)s->chain + 1,
             (unsigned)c->parallelism, c->group);
    put_inputs(out, p, s, 1u << EDGE_FORWARD | 1u << EDGE_CHAIN, prev);
    buf_addc(out, '\n');
}

void
plan_explain_text(const struct plan *p, struct buf *out)
{
    const struct plan_step *s;
    uint32_t chain = UINT32_MAX, i, j;

    put_settings(out, p);
    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        if (s->chain != chain || explain_is_head(p, s))
            put_chain(out, p, s, i > 0 ? i - 1 : UINT32_MAX);
        chain = s->chain;
        buf_addf(out, "  %u ", (unsigned)i + 1);
        explain_put_step(out, s);
        buf_addc(out, '\n');
        for (j = 0; s->why[j] != NULL; j++)
            buf_addf(out, "    why: %s\n", s->why[j]);
    }
    for (i = 0; i < p->warning_count; i++) {
        buf_addf(out, "warning: %s (%s)\n", p->warnings[i].text,
                 p->warnings[i].place);
    }
}
