/*
 * What a file sink gives to a round, and how its directory is brought back
 * to a round.
 *
 * | part in the checkpoint        | in the directory       | after a restore |
 * | open, `size` bytes            | in progress, not less  | cut to `size`;
 * its| |                               |                        | subtask goes
 * on,  | |                               |                        | or, if
 * there is   | |                               |                        | none,
 * it is closed| | open, the round was final     | published              | as
 * it is          | | closed, its round is complete | in progress            |
 * published         | | closed                        | published, or the | as
 * it is          | |                               | marker says it was     | |
 * | any                           | missing, or shorter    | ERR_IO | | none |
 * in progress            | removed           |
 *
 * Everything is looked at before the first change, and each change can be
 * made again, so that a start that dies in the middle is as if it had not
 * begun. Thread: coordinator; a blob is made by its task.
 */
#ifndef CONNECT_FILE_RESTORE_H
#define CONNECT_FILE_RESTORE_H

#include "base/buf.h"
#include "connect/file_marker.h"

/* A part as a blob names it. */
struct part_note {
    char name[PART_NAME_SIZE];
    int64_t size;   /* bytes that belong to the round */
    uint64_t round; /* the first one it belongs to as a whole; 0 = open */
};

/* The blob of one task. */
struct file_note {
    const char *path;  /* of the directory, absolute */
    uint64_t format;   /* what its parts look like: a hash, see file_sink.c */
    uint64_t next_seq; /* of its next part */
    const struct part_note *parts;
    uint32_t count;
};

void file_note_put(struct buf *out, const struct file_note *n);

/* A part to be gone on with. */
struct part_resumed {
    struct part *part; /* NULL: none, or taken */
    uint64_t format;
};

struct file_start {
    struct part_resumed *resumed; /* by subtask of now */
    uint32_t count;
    struct part *closed; /* of subtasks that are no more: for the next round */
    uint64_t next_seq;   /* no part has it or a higher one */
};

/**
 * Decide whether the job may write to the directory, and bring the directory
 * to the round it begins from: parts, then the marker. The parts of a
 * finished job (env->ckpt->finished) are published, if they are not yet.
 *
 * @param env with ckpt; restored is NULL where the step is new.
 * @param ret to be ended by file_start_fini(), also after a failure.
 * @return 0; ERR_CONFIG by the equality rule; ERR_JOBFILE for another path;
 *         ERR_IO: a part that is missing or too short, damage, or I/O.
 */
MUST_USE int file_restore(const struct conn_env *env, const struct part_dir *d,
                          struct file_start *ret, struct err *e);
/**
 * Before the directory is made: whether the checkpoint's is another one.
 * @return 0 or ERR_JOBFILE, ERR_IO for a damaged blob.
 */
MUST_USE int file_restore_check_path(const struct conn_env *env,
                                     const char *path, struct err *e);
void file_start_fini(struct file_start *s);

#endif
