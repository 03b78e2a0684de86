/*
 * What s.source (connector.c) and s.sink (sink.c) share: calls of their
 * functions, and what an error of one means.
 *
 * Private to script/. Thread: whoever owns the script at the moment.
 */
#ifndef SCRIPT_CONNECTOR_IMPL_H
#define SCRIPT_CONNECTOR_IMPL_H

#include <stdint.h>

#include "base/err.h"

struct script;

/**
 * Say of an error that it ends the job, whatever on_error says; what was
 * raised as s.retriable() is for the restart policy, as a broker that is away.
 * @param call the function, for the message.
 * @param place the connector's, where the error has none.
 * @param r what the call returned. @return the code it has now.
 */
int conn_error(const char *call, const char *place, int r, struct err *e);
/**
 * Call function `func` (0: there is none) with an integer, or with nothing if
 * `arg` is negative; results are dropped.
 * @return 0, or as calls_call().
 */
MUST_USE int conn_call(struct script *s, int func, int64_t arg, struct err *e);
/** Call close(): the watchdog may be gone; an error is logged. */
void conn_call_close(struct script *s, int func, int64_t arg,
                     const char *place);

#endif
