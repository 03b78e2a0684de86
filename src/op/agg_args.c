#include "op/agg_args.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "format/json.h"

static int
init_fields(struct agg_args *a, const struct opt *aggs, struct err *e)
{
    const struct opt *agg, *arg;
    int r = 0;

    for (agg = aggs->first; agg != NULL; agg = agg->next) {
        const struct opt *args = opt_get(agg, "args");

        if (opt_is(agg, "fn", "custom") && (args == NULL || args->len == 0))
            a->whole_record = true;
        if (args == NULL)
            continue;
        for (arg = args->first; arg != NULL && r == 0; arg = arg->next)
            r = op_field_init(a->op, arg, &a->fields[a->count++], e);
    }
    return r;
}

int
agg_args_init(struct agg_args *a, struct op *op, struct err *e)
{
    const struct opt *aggs = opt_get(op->step->opts, "aggs");
    int r;

    a->op = op;
    arena_init(&a->arena);
    r = aggset_new(aggs, json_key_encode, script_agg, op->env->script, &a->set,
                   e);
    if (r != 0)
        return r;
    if (op->step->places != NULL)
        aggset_set_places(a->set, op->step->places, op->step->places_min);
    a->fields = mem_zalloc((a->set->nargs + 1u) * sizeof *a->fields);
    a->vals = mem_zalloc((a->set->nargs + 1u) * sizeof *a->vals);
    r = init_fields(a, aggs, e);
    assert(r != 0 || a->count == a->set->nargs);
    return r;
}

void
agg_args_fini(struct agg_args *a)
{
    free(a->fields);
    free(a->vals);
    aggset_free(&a->set);
    arena_fini(&a->arena);
}

int
agg_args_load(struct agg_args *a, const struct rec *r, struct err *e)
{
    uint32_t i;
    int rc;

    for (i = 0; i < a->count; i++) {
        rc = op_field_get(a->op, &a->fields[i], r, &a->arena, &a->vals[i], e);
        if (rc != 0)
            return rc;
    }
    if (a->whole_record)
        script_agg_record(a->op->env->script, r, a->op->reader);
    return 0;
}

int
agg_args_put(struct agg_args *a, const struct rec *r, void *block,
             struct err *e)
{
    return aggset_add(a->set, block, a->vals, r, e);
}
