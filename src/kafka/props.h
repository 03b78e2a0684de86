/*
 * Client properties: what a job may set, by librdkafka's names.
 *
 * Used by client.c when it builds a configuration. Names the engine owns and
 * names that only the Java client knows are refused with what to use; an
 * unknown name comes with the nearest valid one. Stateless; the list of
 * valid names is read once from the library.
 */
#ifndef KAFKA_PROPS_H
#define KAFKA_PROPS_H

#include <stdbool.h>

#include "base/err.h"

/**
 * Check one property name.
 *
 * @param e filled on failure with what was found and what to use; the code
 *          is ERR_JOBFILE, which the caller changes for -X.
 * @return 0 or ERR_JOBFILE.
 * @thread any.
 */
MUST_USE int props_check(const char *name, struct err *e);

/** Whether librdkafka knows `name` (aliases too). @thread any. */
bool props_is_known(const char *name);

/**
 * The valid name nearest to `name`, or NULL if none is near.
 *
 * @thread any; the answer lives as long as the process.
 */
const char *props_nearest(const char *name);

/** Edit distance of two names, at most `limit`. @thread any. */
unsigned props_distance(const char *a, const char *b, unsigned limit);

#endif
