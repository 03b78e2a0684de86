/*
 * The savepoint of a job that does not run. Thread: main.
 */
#ifndef MAIN_SAVEPOINT_COPY_H
#define MAIN_SAVEPOINT_COPY_H

#include "base/err.h"
#include "main/job_dir.h"

/**
 * Copy the last complete round of a stopped job, under its lock.
 *
 * A pending round is completed first where nothing outside decides about it.
 * @param to a folder that does not exist or is empty; its parent does.
 * @return 0; ERR_BUSY: a process holds the lock; ERR_CONFIG: transactions
 *         decide about a pending round, no round is complete, or `to` is in
 *         the way; ERR_IO, ERR_NOMEM. No folder is left after a failure.
 * @thread main.
 */
MUST_USE int savepoint_copy(const struct job_dir *job, const char *to,
                            struct err *e);

#endif
