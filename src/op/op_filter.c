/* filter: keeps the records its function accepts. */
#include <stdlib.h>

#include "base/mem.h"
#include "op/op.h"

struct op_filter {
    struct op op;
    int func;
};

static int
filter_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_filter *f = (struct op_filter *)(void *)op;
    uint32_t i, n = 0;

    count_add(&op->count->records_in, b->n);
    script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    for (i = 0; i < b->n; i++) {
        bool keep = false;
        int r = script_filter(op->env->script, f->func, &b->recs[i], op->reader,
                              &keep, e);

        if (r != 0) {
            r = op_fail(op, &b->recs[i], e);
            if (r != 0)
                return r;
            continue;
        }
        if (!keep)
            continue;
        if (n != i)
            b->recs[n] = b->recs[i];
        n++;
    }
    b->n = n;
    count_add(&op->count->records_out, n);
    return op_emit(&op->out, b, e);
}

int
op_filter_new(struct op_env *env, const struct plan_step *s,
              struct reader *reader, struct op **ret, struct err *e)
{
    static const struct op_type type = {.batch = filter_batch};
    struct op_filter *f = mem_zalloc(sizeof *f);

    (void)e;
    op_init(&f->op, &type, env, s);
    f->op.reader = reader;
    f->func = opt_func(s->opts, "func");
    *ret = &f->op;
    return 0;
}
