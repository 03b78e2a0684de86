/*
 * The connectors that need no broker: files, stdin, stdout, generator, null.
 *
 * op/ and run/ use them through the two interfaces of core/connector.h and
 * pick one by the normalised `connector` name of the step. Options read from
 * conn_env.opts (durations in ms, sizes in bytes, formats as format/ reads):
 *
 *   file source  path
 *   stdin        none
 *   generator    count, rate, partitions, seed, fields = list in byte order
 *                of names of { name, gen = { kind, ... } }; see gen.h
 *   file sink    path, roll = { size, interval_ms }
 *   stdout       none
 *   blackhole    none
 *
 * Threads: as core/connector.h says. stdin has one thread that only waits
 * for input, each stdout sink one that only writes, so that no slot blocks
 * on a pipe; both have all signals blocked.
 *
 * A reader of stdout that has gone away is reported once per sink as ERR_IO
 * with ERR_FATAL in the flags (connect_is_epipe()); after that the sink
 * drops what it gets, so that the job can be stopped as by SIGTERM.
 */
#ifndef CONNECT_CONNECT_H
#define CONNECT_CONNECT_H

#include <stdbool.h>

#include "base/err.h"
#include "core/connector.h"

extern const struct source_type file_source_type;
extern const struct source_type stdin_source_type;
extern const struct source_type generator_source_type;
extern const struct sink_type file_sink_type;
extern const struct sink_type stdout_sink_type;
extern const struct sink_type blackhole_sink_type;

/** Whether `e` says that nobody reads stdout any more. @thread any. */
static inline bool
connect_is_epipe(const struct err *e)
{
    return e->code == ERR_IO && (e->flags & ERR_FATAL) != 0;
}

#endif
