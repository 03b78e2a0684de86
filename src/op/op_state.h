/*
 * The keyed state of one step in the store, as one of its subtasks sees it:
 * the entries of its own key groups.
 *
 * Used by op_global. Owner: one subtask; calls come from its slot, free from
 * the coordinator once slots have ended. Nothing stays open in the store
 * between two calls, so that a reader never holds up the checkpoint thread.
 */
#ifndef OP_OP_STATE_H
#define OP_OP_STATE_H

#include "op/op.h"

struct op_state;

/* Key groups, both included; first > last: none. */
struct op_groups {
    uint32_t first, last;
};

/** Those of subtask `i` of `n`. @thread any. */
struct op_groups op_state_groups(uint32_t i, uint32_t n, uint32_t max);

/** @param op the operator, of a job with a store; must outlive it. */
struct op_state *op_state_new(struct op *op);
void op_state_free(struct op_state **s);

/* One entry; bytes are borrowed for the call. @return 0 or an error. */
typedef int op_state_entry_f(void *arg, const struct store_key *key,
                             const void *value, size_t value_len,
                             struct err *e);

/**
 * Give every entry of the last complete round, in the order of the store.
 * @return 0, ERR_IO, ERR_NOMEM, ERR_BUSY, or f's error with the place of the
 *         entry. @thread the slot.
 */
MUST_USE int op_state_each(struct op_state *s, op_state_entry_f *f, void *arg,
                           struct err *e);

#endif
