/*
 * JOB on the command line: a job's name under --data-dir, or the path of a
 * directory where it holds a "/".
 *
 * Thread: main. Owner of everything: the struct, until job_dir_fini().
 */
#ifndef MAIN_JOB_DIR_H
#define MAIN_JOB_DIR_H

#include <stdbool.h>

#include "main/cli.h"

struct job_dir {
    char *path; /* as the user may write it: relative to where we are */
    char *name; /* the last part of it */
};

/**
 * Find the directory that `word` means.
 *
 * @param ret filled in any case; ended by job_dir_fini().
 * @return 0, or ERR_USAGE: nothing to be named so. @thread main.
 */
MUST_USE int job_dir_read(const struct cli *c, const char *word,
                          struct job_dir *ret, struct err *e);
void job_dir_fini(struct job_dir *d);

/** Whether a store is there: a job with checkpoints, or a savepoint. */
bool job_dir_has_store(const struct job_dir *d);

/** `path` as any process may write it. @return malloc'd; NULL: too long, or
 * the working directory is gone. @thread main. */
char *job_dir_absolute(const char *path);

#endif
