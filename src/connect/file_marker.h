/*
 * The marker of a file sink: which round its directory is at.
 *
 * The file `.streamlua` in the directory, four lines of text: what it is
 * with its version, the lineage of the job, the last round whose parts are
 * published, and whether that was a final one (then no part is open). It is
 * replaced as a whole, after the renames of the round. The equality rule of
 * API.md section 9.1 holds it against the checkpoint that a job begins from.
 *
 * Thread: coordinator.
 */
#ifndef CONNECT_FILE_MARKER_H
#define CONNECT_FILE_MARKER_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/file_part.h"
#include "core/connector.h"

#define FILE_MARKER_NAME ".streamlua"

struct file_marker {
    bool found;
    bool final;
    uint8_t lineage[CONN_LINEAGE_SIZE];
    uint64_t round;
};

/** @return 0 (also if there is none), or ERR_IO: unreadable, damaged. */
MUST_USE int file_marker_read(const struct part_dir *d, struct file_marker *ret,
                              struct err *e);
/** Replace it, durably. @return 0 or ERR_IO; the old one is then there. */
MUST_USE int file_marker_write(const struct part_dir *d,
                               const struct file_marker *m, struct err *e);

enum marker_verdict {
    MARKER_NEW,    /* there is none and nothing to go on with */
    MARKER_EQUAL,  /* at the checkpoint's round, or at the one before */
    MARKER_AHEAD,  /* go on from the own checkpoint all the same */
    MARKER_REPLACE /* a new lineage begins */
};

/**
 * The equality rule.
 *
 * @param has_parts whether the checkpoint names parts in the directory.
 * @return 0 with a verdict, or ERR_CONFIG with both values and what can be
 *         done.
 */
MUST_USE int file_marker_check(const struct conn_ckpt *c,
                               const struct part_dir *d,
                               const struct file_marker *m, bool has_parts,
                               enum marker_verdict *ret, struct err *e);

#endif
