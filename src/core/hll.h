/*
 * HyperLogLog, 2^14 registers, standard error 0.81 %.
 *
 * Used by distinct above its exact limit. The state is a function of the set
 * of hashes: register j holds the largest rank of the hashes that begin with
 * j. While few registers are used they are kept as a small hash table, later
 * as one byte each; that does not show in the estimate. Owner: one
 * accumulator.
 */
#ifndef CORE_HLL_H
#define CORE_HLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { HLL_BITS = 14, HLL_REGISTERS = 1 << HLL_BITS };

struct hll;

/** Make an empty sketch. @thread the owner. */
struct hll *hll_new(void);
/** Free a sketch; accepts NULL. @thread the owner. */
void hll_free(struct hll **h);
/** Deep copy. @thread the owner. */
struct hll *hll_dup(const struct hll *h);
/** Add a 64-bit hash; may move the sketch. @thread the owner. */
void hll_add(struct hll **h, uint64_t hash);
/** Take the larger of each register. @thread the owner. */
void hll_merge(struct hll **h, const struct hll *from);
/**
 * Estimate the number of different hashes.
 * @source O. Ertl, "New cardinality estimation algorithms for HyperLogLog
 *         sketches" (2017), improved raw estimator, algorithm 6.
 */
uint64_t hll_estimate(const struct hll *h);
/** Heap bytes. @thread the owner. */
size_t hll_heap(const struct hll *h);
/** Append a portable form. @thread the owner. */
void hll_encode(const struct hll *h, struct buf *out);
/** Read hll_encode()'s bytes into an empty sketch; false if damaged. */
MUST_USE bool hll_decode(struct hll **h, const char **p, const char *end);

#endif
