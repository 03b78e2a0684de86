/*
 * How far the files of a source have been read: what a round keeps of them.
 *
 * A blob holds the files of one task: version, count, then path, offset and
 * flags of each. After a restore every task looks its files up by path,
 * since another number of tasks, or files that came since, deal them out
 * anew. Made once by the coordinator at open, immutable after it.
 */
#ifndef CONNECT_FILE_POSITION_H
#define CONNECT_FILE_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "connect/file_list.h"
#include "core/snapshot.h"

struct file_position {
    const char *path;
    int64_t pos;   /* offset of the first byte not yet given */
    bool ended;    /* everything was given, also a last line without newline */
    bool skipping; /* `pos` lies in a line that was too long */
};

struct file_positions {
    struct file_position *items; /* by bytes of the path */
    uint32_t count;
    struct arena arena; /* the paths */
};

/** Begin the blob of a task that has `count` files. @thread the slot. */
void file_position_begin(struct buf *out, uint32_t count);
void file_position_put(struct buf *out, const struct file_position *p);

/**
 * Read the blobs of all tasks of then and hold them against the files of now.
 *
 * @param ret overwritten; to be ended by file_positions_fini(), also after a
 *        failure.
 * @return 0, or ERR_IO: a file that is gone or shorter than what was read of
 *         it, damaged bytes. @thread coordinator.
 */
MUST_USE int file_positions_read(const struct step_blobs *blobs,
                                 const struct file_list *list,
                                 struct file_positions *ret, struct err *e);
/** The position of a file; NULL: it has come since. @thread any. */
const struct file_position *file_positions_find(const struct file_positions *p,
                                                const char *path);
void file_positions_fini(struct file_positions *p);

#endif
