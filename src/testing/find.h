/*
 * From the arguments of `streamlua test` to test files.
 *
 * Used by cases.c. Thread: any.
 */
#ifndef TESTING_FIND_H
#define TESTING_FIND_H

#include <stddef.h>

#include "base/err.h"

/**
 * The test files of one path: a folder's *_test.lua (not those of folders in
 * it), in byte order; a file *_test.lua itself; of any other file X.lua the
 * X_test.lua beside it.
 *
 * @param ret list of `*ret_count` paths, to be freed with find_free().
 * @return 0 or ERR_JOBFILE: there is none.
 */
MUST_USE int find_tests(const char *path, char ***ret, size_t *ret_count,
                        struct err *e);
void find_free(char ***paths, size_t count);

#endif
