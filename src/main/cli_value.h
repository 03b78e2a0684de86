/*
 * Reading single values of the command line: counts, durations, switches,
 * and the nearest known word for a misspelt one.
 *
 * Pure functions without state; any thread.
 */
#ifndef MAIN_CLI_VALUE_H
#define MAIN_CLI_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Read a whole number in decimal.
 * @param ret untouched on failure.
 * @return false if `text` is no number, or not in min..max. @thread any.
 */
bool value_read_int(const char *text, int64_t min, int64_t max, int64_t *ret);

/**
 * Read a duration: integer milliseconds, or parts such as 1h30m, 1.5s, 500ms.
 *
 * @param ret_ms milliseconds, >= 0; untouched on failure.
 * @return false if `text` is none, a fraction is no whole millisecond, or it
 *         is beyond int64. @thread any. @source API.md, common notation.
 */
bool value_read_duration(const char *text, int64_t *ret_ms);

/**
 * Read a switch from the environment: 1 true yes on, or 0 false no off "".
 * @return false if it is neither. @thread any.
 */
bool value_read_switch(const char *text, bool *ret);

/**
 * Edit distance of two words, neighbours swapped count as one.
 * @return the distance, at most 99 (also for words over 63 bytes).
 * @thread any.
 */
unsigned value_distance(const char *a, const char *b);

/**
 * Whether `distance` is near enough to suggest the other word for `word`.
 * @thread any.
 */
bool value_is_near(const char *word, unsigned distance);

#endif
