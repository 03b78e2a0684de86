/*
 * The files of a source: what a path option names.
 *
 * A path is a regular file, a directory (its regular files, none of its
 * subdirectories) or a glob. Names that begin with "." are ignored in a
 * directory or a glob. Sorted by bytes of the name, so that partition
 * numbers do not depend on the locale. Made once by the coordinator at open
 * and immutable after it. Limit: FILE_LIST_MAX files.
 */
#ifndef CONNECT_FILE_LIST_H
#define CONNECT_FILE_LIST_H

#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

enum { FILE_LIST_MAX = 50000 }; /* topic numbers are 16 bits */

struct file_entry {
    const char *path; /* as given, or below the given directory */
    int64_t size;     /* bytes when listed; later ones are not read */
    dev_t dev;
    ino_t ino;
};

struct file_list {
    struct file_entry *files;
    uint32_t count;
    struct arena arena; /* the paths */
};

/**
 * List the files that `path` names. An empty directory gives none.
 *
 * @param ret overwritten; to be ended with file_list_fini() also on failure.
 * @return 0, or ERR_IO: nothing of that name, no file matches, not readable,
 *         neither a regular file nor a directory, too many.
 * @thread coordinator.
 */
MUST_USE int file_list_make(const char *path, struct file_list *ret,
                            struct err *e);
void file_list_fini(struct file_list *l);

#endif
