/*
 * Building: the operators of one subtask of one chain, wired up.
 *
 * Used by run/. A chain's steps become a tree of operators; edges that leave
 * the chain get an op_route into the lanes run/ names. Consecutive steps
 * over the same bytes share one reader (a segment); map, flat_map, select
 * and aggregates begin a new one. Owner: coordinator while building, then
 * the slot.
 */
#ifndef OP_BUILD_H
#define OP_BUILD_H

#include "op/op.h"

struct op_chain {
    struct op_env env;
    struct op **ops; /* in order of the chain, routes behind their step */
    uint32_t count;
    struct reader **readers;
    uint32_t reader_count;
    struct op *head; /* first operator */
};

/**
 * The lanes of an edge for a sending subtask: fills `ret` (room for the
 * target's parallelism) and returns how many.
 */
typedef uint32_t op_lanes_f(void *arg, uint32_t edge, uint32_t subtask,
                            struct op_out **ret);

/**
 * Build the operators of `chain` for c->env.subtask.
 *
 * @param c env is filled in; the rest is set here. On failure nothing needs
 *        freeing. @return 0 or the error of a connector or script.
 * @thread coordinator.
 */
MUST_USE int op_chain_build(struct op_chain *c, const struct plan_chain *chain,
                            op_lanes_f *lanes, void *arg, struct err *e);
/** Free the operators and readers. @thread coordinator, slots ended. */
void op_chain_fini(struct op_chain *c);

#endif
