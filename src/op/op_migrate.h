/*
 * Values of state handles on their way from a restored round through the
 * `migrate` of their declaration.
 *
 * Used by keyed.c while it loads; plan_step.migrates says which handles are
 * due. Owner: one subtask, for the time of a restore.
 */
#ifndef OP_OP_MIGRATE_H
#define OP_OP_MIGRATE_H

#include "core/kstate.h"
#include "op/op.h"

struct op_migrate {
    const struct op *op;
    const struct kstate_handle *handles; /* as the step's `state` */
    uint32_t count;
    struct buf bytes; /* of the entry at hand */
};

/**
 * Give an entry its new form, if its handle is due.
 * @param v is about m->bytes then, until the next call, and `changed`.
 * @return 0; ERR_JOBFILE: migrate failed, with step, handle, key and place;
 *         ERR_IO: damaged. @thread the slot.
 */
MUST_USE int op_migrate_entry(struct op_migrate *m, struct kstate_entry *v,
                              struct err *e);

#endif
