/* split: each record goes to the output that the function names. */
#include <stdlib.h>

#include "base/mem.h"
#include "op/op.h"

struct op_split {
    struct op op;
    const struct opt *names;
    int func;
    struct batch *outs; /* by place in `names` */
};

static int
split_emit(struct op_split *s, struct err *e)
{
    const struct opt *name = s->names->first;
    uint32_t i;
    int r = 0;

    for (i = 0; name != NULL && r == 0; name = name->next, i++) {
        count_add(&s->op.count->records_out, s->outs[i].n);
        r = op_emit_side(&s->op, name->s, &s->outs[i], e);
    }
    for (i = 0; i < s->names->len; i++)
        batch_clear(&s->outs[i]);
    return r;
}

static int
split_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_split *s = (struct op_split *)(void *)op;
    uint32_t i, to = 0;
    int r;

    count_add(&op->count->records_in, b->n);
    script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    for (i = 0; i < s->names->len; i++)
        s->outs[i].part = b->part;
    for (i = 0; i < b->n; i++) {
        r = script_split(op->env->script, s->func, s->names, &b->recs[i],
                         op->reader, &to, e);
        if (r == 0)
            (void)batch_add_ref(&s->outs[to], &b->recs[i]);
        else if ((r = op_fail(op, &b->recs[i], e)) != 0)
            return r;
    }
    return split_emit(s, e);
}

static void
split_free(struct op *op)
{
    struct op_split *s = (struct op_split *)(void *)op;
    uint32_t i;

    for (i = 0; i < s->names->len; i++)
        batch_fini(&s->outs[i]);
    free(s->outs);
}

int
op_split_new(struct op_env *env, const struct plan_step *s,
             struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = split_batch,
                                        .free = split_free};
    struct op_split *p = mem_zalloc(sizeof *p);
    uint32_t i;

    (void)e;
    op_init(&p->op, &type, env, s);
    p->op.reader = reader;
    p->func = opt_func(s->opts, "func");
    p->names = opt_get(s->opts, "names");
    p->outs = mem_zalloc((p->names->len + 1) * sizeof *p->outs);
    for (i = 0; i < p->names->len; i++)
        batch_init(&p->outs[i]);
    *ret = &p->op;
    return 0;
}
