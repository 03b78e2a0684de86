/*
 * DDSketch: quantiles with a relative error, over all doubles.
 *
 * Used by percentile above its exact limit. A value goes to the bucket of
 * its magnitude's logarithm; of more than 2,048 buckets of one sign the
 * lowest magnitudes share one. The state is a function of the multiset.
 * Owner: one accumulator. Limits: 2^64 values; 16 KiB a sign.
 */
#ifndef CORE_DDSKETCH_H
#define CORE_DDSKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { DD_BUCKETS_MAX = 2048 };

/* The mapping; the same for all sketches of an aggregate. */
struct dd_conf {
    double log_gamma; /* width of a bucket */
    double log_mid;   /* a bucket's value below its end, as a logarithm */
};

struct ddsketch;

/**
 * Prepare the mapping.
 * @param error relative error, 0 < error < 1.
 */
void dd_conf_init(struct dd_conf *c, double error);

/** Make an empty sketch. @thread the owner. */
struct ddsketch *ddsketch_new(void);
/** Free a sketch; accepts NULL. @thread the owner. */
void ddsketch_free(struct ddsketch **d);
/** Deep copy. @thread the owner. */
struct ddsketch *ddsketch_dup(const struct ddsketch *d);
/** Add a value, not NaN. @thread the owner. */
void ddsketch_add(struct ddsketch *d, const struct dd_conf *c, double v);
/** Add all of `from`. @thread the owner. */
void ddsketch_merge(struct ddsketch *d, const struct ddsketch *from);
/** Values added. @thread the owner. */
uint64_t ddsketch_count(const struct ddsketch *d);
/**
 * The value of rank `k` (1 is the smallest) within the relative error.
 * @return inside [min, max] of the values. @source C. Masson, J. Rim, H. Lee,
 *         "DDSketch" (VLDB 2019).
 */
double ddsketch_rank(const struct ddsketch *d, const struct dd_conf *c,
                     uint64_t k);
/** Heap bytes. @thread the owner. */
size_t ddsketch_heap(const struct ddsketch *d);
/** Append a portable form. @thread the owner. */
void ddsketch_encode(const struct ddsketch *d, struct buf *out);
/** Read ddsketch_encode()'s bytes into an empty sketch; false if damaged. */
MUST_USE bool ddsketch_decode(struct ddsketch *d, const char **p,
                              const char *end);

#endif
