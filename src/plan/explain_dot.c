#include "plan/plan.h"

#include <string.h>

#include "plan/explain_put.h"

/* A dot string: JSON's escapes but for control bytes, which it has not. */
static void
put_quoted(struct buf *out, const char *s, size_t len)
{
    size_t i;

    buf_addc(out, '"');
    for (i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '\n') {
            buf_adds(out, "\\n");
        } else {
            if (c == '"' || c == '\\')
                buf_addc(out, '\\');
            buf_addc(out, c < 0x20 ? ' ' : (char)c);
        }
    }
    buf_addc(out, '"');
}

static void
put_node(struct buf *out, const struct plan_step *s)
{
    struct buf label;
    uint32_t j;

    buf_init(&label);
    buf_addf(&label, "%u ", (unsigned)s->number);
    explain_put_step(&label, s);
    for (j = 0; s->why[j] != NULL; j++)
        buf_addf(&label, "\n%s", s->why[j]);
    buf_addf(out, "    s%u [label=", (unsigned)s->number);
    put_quoted(out, label.data, label.len);
    buf_adds(out, "];\n");
    buf_fini(&label);
}

struct edges {
    struct buf *out;
    const struct plan *p;
    const struct plan_step *to;
};

/* `edge` leads to the step, `from` out of the visible one behind it. */
static void
put_edge(void *arg, const struct plan_edge *edge, const struct plan_edge *from)
{
    struct edges *es = arg;
    const struct plan *p = es->p;
    struct buf *out = es->out;
    struct buf label;

    if (edge->kind == EDGE_CHAIN)
        edge = from; /* what stands before a hidden step */
    buf_init(&label);
    if (strcmp(from->output, "main") != 0)
        buf_addf(&label, "%s ", from->output);
    if (edge->kind == EDGE_HASH) {
        buf_adds(&label, "hash ");
        explain_put_columns(&label, plan_edge_key(p, edge));
        buf_adds(&label, edge->partials ? ", partials" : ", records");
    } else if (edge->kind == EDGE_REBALANCE) {
        buf_adds(&label, "rebalance, records");
    } else if (edge->kind == EDGE_FORWARD) {
        buf_adds(&label, "forward");
    }
    buf_addf(out, "  s%u -> s%u [label=", (unsigned)p->steps[from->from].number,
             (unsigned)es->to->number);
    put_quoted(out, label.data, label.len);
    buf_addf(out, "%s];\n", edge->kind == EDGE_CHAIN ? "" : ", style=bold");
    buf_fini(&label);
}

void
plan_explain_dot(const struct plan *p, struct buf *out)
{
    struct edges es = {.out = out, .p = p};
    const struct plan_chain *c;
    uint32_t i, j;

    buf_adds(out, "digraph ");
    put_quoted(out, p->name, strlen(p->name));
    buf_adds(out, " {\n  rankdir=LR;\n  node [shape=box];\n");
    for (i = 0; i < p->chain_count; i++) {
        c = &p->chains[i];
        buf_addf(out,
                 "  subgraph cluster_%u {\n    label=\"chain %u, "
                 "parallelism %u, group %s\";\n",
                 (unsigned)i + 1, (unsigned)i + 1, (unsigned)c->parallelism,
                 c->group);
        for (j = 0; j < c->count; j++)
            if (p->steps[c->steps[j]].number > 0)
                put_node(out, &p->steps[c->steps[j]]);
        buf_adds(out, "  }\n");
    }
    for (i = 0; i < p->step_count; i++) {
        es.to = &p->steps[i];
        if (es.to->number > 0)
            explain_each_input(p, es.to, put_edge, &es);
    }
    buf_adds(out, "}\n");
}
