/*
 * How keyed state that is larger than memory asks the store for what it has
 * given up, and how much room it says there is.
 *
 * Used by winstate and kstate, whose operators implement it. Calls come from
 * the owner of the state. What is seen is not older than the newest durable
 * round at the last renew().
 */
#ifndef CORE_ENTRIES_STORE_H
#define CORE_ENTRIES_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/snapshot.h"

/* An entry the store has; bytes are borrowed until the next call of the
 * store. @return 0 go on, 1 stop before this one, < 0 an error. */
typedef int entry_stored_f(void *arg, const struct snapshot_key *key,
                           const void *value, size_t value_len, struct err *e);

struct entry_store {
    void *arg;
    uint32_t first_group, last_group; /* own key groups, both included */
    /** @param ret borrowed until the next call. @return 1 found, 0, < 0. */
    int (*get)(void *arg, const struct snapshot_key *k, const void **ret,
               size_t *ret_len, struct err *e);
    /** Entries of k's group and namespace, behind k->key with `behind`. */
    int (*walk)(void *arg, const struct snapshot_key *k, bool behind,
                entry_stored_f *f, void *farg, struct err *e);
    /** Look anew from the next call on. */
    void (*renew)(void *arg);
};

enum entry_room {
    ROOM_ENOUGH,
    ROOM_WANT_ROUND, /* said once a round: too much has changed since */
    ROOM_WAIT,       /* above the budget until the last round is durable */
};

#endif
