/*
 * The job's directory: made, locked, and on a disk of this machine.
 * Used inside state only; the writer.
 *
 * The lock is a flock(2) on the file `lock`, which dies with the process.
 * Its text (host, pid, boot id) is for the message of whoever comes second.
 */
#ifndef STATE_LOCK_H
#define STATE_LOCK_H

#include <stdbool.h>

#include "base/err.h"

/** Make `dir` if it is not there. @return 0 or ERR_BUSY (cannot). */
MUST_USE int lock_make_dir(const char *dir, struct err *e);

/** Refuse network filesystems. @return 0, ERR_CONFIG, ERR_IO. */
MUST_USE int lock_check_fs(const char *dir, struct err *e);

/**
 * Lock `dir`.
 *
 * @param ret_fd set on success; lock_give() ends it.
 * @return 0, ERR_BUSY (held: host, pid and boot id in the message), ERR_IO.
 */
MUST_USE int lock_take(const char *dir, int *ret_fd, struct err *e);

/** Unlock; -1 is ignored and set. */
void lock_give(int *fd);

/** Whether somebody holds the lock of `dir`. */
bool lock_is_held(const char *dir);

#endif
