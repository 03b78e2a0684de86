/*
 * The connectors a job can name, and their opening by the coordinator.
 */
#ifndef RUN_CONNECTORS_H
#define RUN_CONNECTORS_H

#include "core/connector.h"

/** Find a source or sink type by the normalised name; NULL if none. */
const struct source_type *connectors_source(const char *name);
const struct sink_type *connectors_sink(const char *name);

#endif
