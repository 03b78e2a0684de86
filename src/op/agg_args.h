/*
 * Aggregate arguments: the values all aggregates of a step take from one
 * record. Used by op_local and op_aggregate. Owner: the operator.
 */
#ifndef OP_AGG_ARGS_H
#define OP_AGG_ARGS_H

#include "op/op.h"

struct agg_args {
    struct op *op;
    struct aggset *set;
    struct op_field *fields; /* set->nargs of them */
    struct val *vals;        /* of the record at hand */
    uint32_t count;
    bool whole_record; /* a custom aggregator reads the record itself */
    bool wheres;       /* some aggregate takes some records only */
    int64_t ts;        /* set->times: when the record at hand came */
    struct arena arena;
};

MUST_USE int agg_args_init(struct agg_args *a, struct op *op, struct err *e);
void agg_args_fini(struct agg_args *a);
/**
 * Fetch the values of `r`: user functions are called here, once a record,
 * however many windows agg_args_put() then adds them to. An aggregate whose
 * `where` is not true has no values and skips the record.
 */
MUST_USE int agg_args_load(struct agg_args *a, const struct rec *r,
                           struct err *e);
/** Add the values that agg_args_load() fetched to a block, all or none. */
MUST_USE int agg_args_put(struct agg_args *a, const struct rec *r, void *block,
                          struct err *e);

#endif
