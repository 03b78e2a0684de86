/*
 * Watching the files of a job for a change (--watch).
 *
 * A few calls of stat(2) a second, on the coordinator: the files of the
 * version that runs and of the one that was tried last, those that were looked
 * for and are not there included. A change counts once the files were the same
 * for two looks, so that one half written, or removed to be replaced, is not
 * taken; times are compared to the nanosecond.
 */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/files.h"

struct watch_seen { /* what stat(2) said; all 0: not there */
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

struct watch_file {
    char *path;
    struct watch_seen seen;
};

struct watch {
    bool on;
    struct watch_file *files;
    size_t count, cap;
    int64_t looked_ms;
    bool moved; /* the last look found a change */
};

/** Watch these files, and no other any more. They may have changed since they
 * were read, or be half written at this moment, so the next look says that
 * they did, once the time to settle is over. */
void watch_set(struct watch *w, const struct script_files *files,
               int64_t now_ms);
/** And these. */
void watch_add(struct watch *w, const struct script_files *files);
/** Look, if it is time. @return whether files have changed and come to rest.
 * @thread coord. */
bool watch_look(struct watch *w, int64_t now_ms);
void watch_fini(struct watch *w);

#endif
