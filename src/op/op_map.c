/* map and flat_map: one record in, one or any number out. */
#include <stdlib.h>

#include "base/mem.h"
#include "op/op.h"

struct op_map {
    struct op op;
    int func;
    struct batch made; /* flat_map: what was emitted */
};

static int
map_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_map *m = (struct op_map *)(void *)op;
    uint32_t i, n = 0;

    count_add(&op->count->records_in, b->n);
    script_set_step(op->env->script, op->step->name);
    reader_load(op->reader, b);
    for (i = 0; i < b->n; i++) {
        struct rec out;
        int r = script_map(op->env->script, m->func, &b->recs[i], op->reader,
                           &b->arena, &out, e);

        if (r != 0) {
            r = op_fail(op, &b->recs[i], e);
            if (r != 0)
                return r;
            continue;
        }
        out.row = NULL; /* the next segment has a reader of its own */
        out.row_n = 0;
        b->recs[n++] = out;
    }
    b->n = n;
    count_add(&op->count->records_out, n);
    return op_emit(&op->out, b, e);
}

static int
emit_made(struct op *op, struct op_map *m, struct err *e)
{
    int r;

    count_add(&op->count->records_out, m->made.n);
    r = op_emit(&op->out, &m->made, e);
    batch_clear(&m->made);
    return r;
}

static int
flat_map_batch(struct op *op, struct batch *b, struct err *e)
{
    struct op_map *m = (struct op_map *)(void *)op;
    uint32_t i;
    int r;

    count_add(&op->count->records_in, b->n);
    reader_load(op->reader, b);
    m->made.part = b->part;
    for (i = 0; i < b->n; i++) {
        script_set_step(op->env->script, op->step->name);
        r = script_flat_map(op->env->script, m->func, &b->recs[i], op->reader,
                            &m->made, e);
        if (r != 0)
            r = op_fail(op, &b->recs[i], e);
        if (r == 0 && m->made.n >= OP_BATCH_MAX)
            r = emit_made(op, m, e);
        if (r != 0)
            return r;
    }
    return m->made.n != 0 ? emit_made(op, m, e) : 0;
}

static void
map_free(struct op *op)
{
    batch_fini(&((struct op_map *)(void *)op)->made);
}

int
op_map_new(struct op_env *env, const struct plan_step *s, struct reader *reader,
           struct op **ret, struct err *e)
{
    static const struct op_type map = {.batch = map_batch, .free = map_free};
    static const struct op_type flat_map = {.batch = flat_map_batch,
                                            .free = map_free};
    struct op_map *m = mem_zalloc(sizeof *m);

    (void)e;
    op_init(&m->op, s->kind == STEP_MAP ? &map : &flat_map, env, s);
    m->op.reader = reader;
    m->func = opt_func(s->opts, "func");
    batch_init(&m->made);
    *ret = &m->op;
    return 0;
}
