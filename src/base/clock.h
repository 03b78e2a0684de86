/*
 * Clocks: the engine reads the time only here, so that tests can stand in.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/** Wall clock, ms since 1970-01-01 UTC. @thread any. */
int64_t clock_wall_ms(void);
/** Monotonic clock, ns since some start. @thread any. */
int64_t clock_mono_ns(void);
/** Monotonic clock, ms. @thread any. */
int64_t clock_mono_ms(void);
/** CPU time of the process (user and system), ns. @thread any. */
int64_t clock_cpu_ns(void);

#endif
