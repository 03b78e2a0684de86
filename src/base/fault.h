/*
 * Fault points: named places where a test makes the engine fail or die.
 *
 * Used by every floor: `if (fault_hit("file_sink_write")) errno = EIO, ...`.
 * The calls vanish unless configured with --enable-test-mode (macro
 * STREAMLUA_TEST_MODE). Which hit does what is read once from the
 * environment variable STREAMLUA_FAULT, a comma-separated list of
 *
 *   name=n    the n-th hit (from 1) is true
 *   name=n+   the n-th hit and all later ones are true
 *   name=n!   the n-th hit kills the process as kill -9 would
 *
 * Any thread; the counters are atomic. Limits: FAULT_POINTS_MAX entries,
 * names of at most FAULT_NAME_MAX - 1 bytes; what does not fit is ignored.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>

enum { FAULT_POINTS_MAX = 16, FAULT_NAME_MAX = 48 };

/**
 * Count one hit of point `name` and say whether it shall fail.
 *
 * Always compiled, so that it can be tested; the engine calls fault_hit().
 * @param name NUL-terminated, a constant. @thread any.
 */
bool fault_check(const char *name);

/**
 * Replace the list by `spec` (form above) and begin to count anew.
 *
 * @param spec NUL-terminated; NULL = none. Entries that are malformed are
 *        ignored. @thread tests, before the threads that hit the points.
 */
void fault_setup(const char *spec);

/** As fault_check() in a test-mode build, else false. @thread any. */
static inline bool
fault_hit(const char *name)
{
#ifdef STREAMLUA_TEST_MODE
    return fault_check(name);
#else
    (void)name;
    return false;
#endif
}

#endif
