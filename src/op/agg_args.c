#include "op/agg_args.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "format/json.h"

static int
init_fields(struct agg_args *a, const struct opt *aggs, struct err *e)
{
    const struct opt *agg, *arg;
    int r = 0;

    for (agg = aggs->first; agg != NULL; agg = agg->next) {
        const struct opt *args = opt_get(agg, "args");

        if ((opt_is(agg, "fn", "custom") && (args == NULL || args->len == 0)) ||
            opt_is(agg, "fn", "reduce"))
            a->whole_record = true;
        a->wheres = a->wheres || opt_func(agg, "where") != 0;
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
    if (opt_is(opt_get(op->step->opts, "window"), "kind", "none"))
        aggset_keep_times(a->set);
    if (op->step->places != NULL)
        aggset_set_places(a->set, op->step->places);
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

static int
load_fields(struct agg_args *a, const struct rec *r, uint32_t from, uint32_t n,
            struct err *e)
{
    uint32_t i;

    for (i = from; i < from + n; i++) {
        int rc =
            op_field_get(a->op, &a->fields[i], r, &a->arena, &a->vals[i], e);

        if (rc != 0)
            return rc;
    }
    return 0;
}

/* As load_fields() of all, for the aggregates that take the record. */
static int
load_some(struct agg_args *a, const struct rec *r, struct err *e)
{
    uint32_t i;

    for (i = 0; i < a->set->count; i++) {
        struct agg *agg = &a->set->aggs[i];
        int where = opt_func(agg->opts, "where"), rc;
        bool takes = true;

        if (where != 0) {
            rc = script_filter(a->op->env->script, where, r, a->op->reader,
                               &takes, e);
            if (rc != 0)
                return rc;
        }
        agg->skip = !takes;
        rc = takes ? load_fields(a, r, agg->first_arg, agg->nargs, e) : 0;
        if (rc != 0)
            return rc;
    }
    return 0;
}

int
agg_args_load(struct agg_args *a, const struct rec *r, struct err *e)
{
    int rc = a->wheres ? load_some(a, r, e) : load_fields(a, r, 0, a->count, e);

    if (rc != 0)
        return rc;
    if (a->whole_record)
        script_agg_record(a->op->env->script, r, a->op->reader);
    if (a->set->times)
        a->ts = a->op->step->event_time ? r->ts : clock_wall_ms();
    return 0;
}

int
agg_args_put(struct agg_args *a, const struct rec *r, void *block,
             struct err *e)
{
    int rc = aggset_add(a->set, block, a->vals, r, e);

    if (rc == 0)
        aggset_touch(a->set, block, a->ts);
    return rc;
}
