/*
 * Clocks: the engine reads the time only here, so that tests can stand in.
 *
 * A test of a job sets the virtual clock: wall and monotonic time then stand
 * still until it moves them, for all threads of the process. What guards
 * against a hang (the watchdog of user code) reads clock_real_ns(), which no
 * test moves.
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
/** Monotonic clock, ns, whatever a test says. @thread any. */
int64_t clock_real_ns(void);
/** CPU time of the process (user and system), ns. @thread any. */
int64_t clock_cpu_ns(void);

/**
 * From now on the wall clock says `wall_ms` and the monotonic clock that plus
 * a constant: the virtual clock. It must not go back while a job lives.
 * @param wall_ms from 0. @thread the test's; any may read.
 */
void clock_set_virtual(int64_t wall_ms);
/** Back to real time. @thread the test's. */
void clock_set_real(void);

#endif
