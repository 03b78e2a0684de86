/*
 * What top_n holds, for whoever writes its rows. The accumulator is that of
 * an aggregate whose fn is "top_n". Thread: the owner of the accumulator.
 */
#ifndef CORE_AGG_TOP_H
#define CORE_AGG_TOP_H

#include "core/agg.h"
#include "core/kept.h"

/**
 * Whether records whose `by` are of different types met: there is no answer.
 * @param block of the set that `a` belongs to.
 */
bool agg_top_is_mixed(const struct agg *a, const void *block);
/** As agg_top_is_mixed(), filling e: cause type. @return ERR_RECORD. */
int agg_top_mixed(const struct agg *a, struct err *e);
/**
 * The records that are among the first n, best first.
 * @param ret_count set. @return borrowed until the accumulator changes.
 */
struct kept *const *agg_top_get(const struct agg *a, const void *block,
                                uint32_t *ret_count);
/**
 * The rank of item i of agg_top_get(), from 1: its place, or with ties that of
 * the first which is equal.
 * @param before the rank of item i - 1, of no meaning for i = 0.
 */
uint32_t agg_top_rank(const struct agg *a, struct kept *const *items,
                      uint32_t i, uint32_t before);

#endif
