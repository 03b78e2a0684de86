/*
 * The keyed state of one step in the store, as one of its subtasks sees it:
 * the entries of its own key groups.
 *
 * Used by op_state (windows) and keyed (functions). Owner: one subtask; calls
 * come from its slot, init and fini from the coordinator while no slot runs. A
 * reader is open from the first question of a call of the operator to
 * op_store_leave(), so that it never holds up the checkpoint thread for long.
 */
#ifndef OP_OP_STORE_H
#define OP_OP_STORE_H

#include "core/entries_store.h"
#include "op/op.h"

/* Key groups, both included; first > last: none. */
struct op_groups {
    uint32_t first, last;
};

/** Those of subtask `i` of `n`. @thread any. */
struct op_groups op_state_groups(uint32_t i, uint32_t n, uint32_t max);

/** Put the step and a canonical key before the message of a migrate.
 * @return e's code. @thread any. */
int op_state_refused(const struct op *op, const char *key, uint32_t len,
                     struct err *e);

struct op_store {
    const struct op *op;
    struct op_groups groups;
    struct store_reader *reader; /* made by the slot */
    bool inside;
    uint32_t id; /* the step's operator in the store */
    bool told;   /* that it had to wait */
    bool known;  /* there is one in what the reader sees */
};

/** @param op of a job with a store; must outlive it. @thread coordinator. */
void op_store_init(struct op_store *s, const struct op *op);
void op_store_fini(struct op_store *s);
/** How the state asks it. It must not move. */
struct entry_store op_store_face(struct op_store *s);

/** Open the reader, if it is not. @return 0 or an error. */
MUST_USE int op_store_enter(struct op_store *s, enum store_view view,
                            struct err *e);
/** The operator's call is over: end the reader, if there is one. */
void op_store_leave(struct op_store *s);
/**
 * Give all entries of the own key groups in the last complete round to `f`.
 * @return 0, what `f` says, with the place, or ERR_IO, ERR_NOMEM, ERR_BUSY.
 */
MUST_USE int op_store_load(struct op_store *s, entry_stored_f *f, void *arg,
                           struct err *e);
/**
 * What to do about how much room there is: want a round, wait for one.
 * @return whether the operator may take more.
 */
bool op_store_room(struct op_store *s, enum entry_room room);
/** The last round that is on disk. */
uint64_t op_store_durable(const struct op_store *s);

#endif
