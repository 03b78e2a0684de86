/*
 * The records of a window, for the function that takes them all. The
 * accumulator is that of an aggregate whose fn is "records". Thread: the
 * owner of the accumulator.
 */
#ifndef CORE_AGG_RECORDS_H
#define CORE_AGG_RECORDS_H

#include "core/agg.h"
#include "core/kept.h"

/**
 * All records by event time, then origin, then bytes.
 * @param block of the set that `a` belongs to. @param ret_count set.
 * @return borrowed until the accumulator changes.
 */
struct kept *const *agg_records_get(const struct agg *a, const void *block,
                                    uint32_t *ret_count);

/**
 * Hold no more than `bytes` in an accumulator of the set: one with more holds
 * nothing. @thread the owner, before the first block.
 */
void agg_records_bound(const struct aggset *set, size_t bytes);
/** Whether there were more: the records are lost. */
bool agg_records_is_over(const struct agg *a, const void *block);

#endif
