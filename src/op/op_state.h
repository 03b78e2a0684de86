/*
 * The keyed state of a window step in the store: how its window state begins
 * with the entries of its own key groups and asks for them (op/op_store.h).
 *
 * Used by op_global. Owner: one subtask; calls come from its slot, new and
 * free from the coordinator while no slot runs.
 */
#ifndef OP_OP_STATE_H
#define OP_OP_STATE_H

#include "core/winstate.h"
#include "op/op.h"
#include "op/op_store.h"

struct op_state;

/**
 * Tie the window state of an operator to the store of its job: changes are
 * tracked, and with op_job.cache_bytes memory is bounded.
 *
 * @param op of a job with a store; @param w without entries. Both must
 *        outlive it. @thread coordinator.
 */
struct op_state *op_state_new(struct op *op, struct winstate *w);
void op_state_free(struct op_state **s);

/**
 * Begin with what the restored round holds. Where memory is bounded and the
 * state is large, it stays in the store until it is asked for.
 *
 * @return 0; ERR_IO for damage, with the place; ERR_CONFIG if the key groups
 *         are others; ERR_NOMEM, ERR_BUSY. @thread the slot.
 */
MUST_USE int op_state_restore(struct op_state *s, struct err *e);

/** The operator's call is over: end the reader, if there is one. */
void op_state_leave(struct op_state *s);

/**
 * Make room in memory, between messages.
 * @return whether the operator may take more. @thread the slot.
 */
bool op_state_room(struct op_state *s);
/** Delete a piece of what purged windows left in the store.
 * @return 1 there is more, 0, < 0. */
MUST_USE int op_state_sweep(struct op_state *s, struct err *e);

#endif
