/*
 * The typed door of op_route for op_local: partials by key group.
 */
#ifndef OP_ROUTE_H
#define OP_ROUTE_H

#include "op/op.h"

/**
 * Send a partial to the subtask of its key group; its block moves in.
 * @param route an op_route of a hash edge of partials. @thread the slot.
 */
MUST_USE int op_route_partial(struct op *route, const struct aggset *set,
                              const struct partial *head, void *block,
                              struct err *e);
/** Set where op_local sends its partials. @thread coordinator. */
void op_local_set_route(struct op *local, struct op *route);
/** The aggregates of an op_local, which free its partials. */
const struct aggset *op_local_aggs(const struct op *local);
/** Tell the route which aggset frees what it still holds. */
void op_route_set_aggs(struct op *route, const struct aggset *set);

#endif
