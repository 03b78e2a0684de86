/*
 * Counters of one step in one subtask.
 *
 * Written by the slot with relaxed stores once a batch, read by the
 * coordinator for progress, summary and SIGUSR1 (any thread). Summed over
 * subtasks and phases by logical step.
 */
#ifndef OP_COUNTERS_H
#define OP_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

struct op_counters {
    _Atomic uint64_t records_in, records_out;
    _Atomic uint64_t bytes_in, bytes_out;
    _Atomic uint64_t late, late_windows;
    _Atomic uint64_t dropped[CAUSE_COUNT], errors[CAUSE_COUNT];
    _Atomic uint64_t quarantined[CAUSE_COUNT];
    _Atomic uint64_t local_in, local_out; /* records, partials */
    _Atomic uint64_t bypassed;            /* records not combined */
    _Atomic uint64_t incomplete;  /* count windows not full at the end */
    _Atomic uint64_t keys;        /* entries held now */
    _Atomic uint64_t state_bytes; /* memory of its keyed state now */
    /* process, at the end of input: event timers that were registered too
     * late to fire, processing timers that were pending. */
    _Atomic uint64_t timers_unfired, timers_discarded;
    _Atomic int64_t watermark;
    _Atomic int64_t skip_log_ms[CAUSE_COUNT]; /* the job's, of all subtasks */
};

/** Add to a counter that only this thread writes. */
static inline void
count_add(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/** Add to a counter that several threads write. */
static inline void
count_add_shared(_Atomic uint64_t *c, uint64_t n)
{
    (void)atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static inline uint64_t
count_get(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

/**
 * Add what `from` counted to `to` (what is a state of now, keys,
 * memory and watermark, is not). @thread the owner of `to`.
 */
static inline void
counters_add(struct op_counters *to, const struct op_counters *from)
{
    int i;

    count_add(&to->records_in, count_get(&from->records_in));
    count_add(&to->records_out, count_get(&from->records_out));
    count_add(&to->bytes_in, count_get(&from->bytes_in));
    count_add(&to->bytes_out, count_get(&from->bytes_out));
    count_add(&to->late, count_get(&from->late));
    count_add(&to->late_windows, count_get(&from->late_windows));
    count_add(&to->local_in, count_get(&from->local_in));
    count_add(&to->local_out, count_get(&from->local_out));
    count_add(&to->bypassed, count_get(&from->bypassed));
    count_add(&to->incomplete, count_get(&from->incomplete));
    count_add(&to->timers_unfired, count_get(&from->timers_unfired));
    count_add(&to->timers_discarded, count_get(&from->timers_discarded));
    for (i = 0; i < CAUSE_COUNT; i++) {
        count_add(&to->dropped[i], count_get(&from->dropped[i]));
        count_add(&to->errors[i], count_get(&from->errors[i]));
        count_add(&to->quarantined[i], count_get(&from->quarantined[i]));
    }
}

#endif
