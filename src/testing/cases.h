/*
 * Test files: finding them, running their cases in all variants.
 *
 * What `streamlua test` calls. Thread: one.
 */
#ifndef TESTING_CASES_H
#define TESTING_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "testing/report.h"

struct cases_conf {
    const char *const *paths; /* files and folders; none: the current one */
    unsigned path_count;
    const char *filter;   /* only cases whose name holds this text; or NULL */
    const char *coverage; /* file for the report in lcov's form; or NULL */
    uint64_t seed;        /* of all variants; repeats them */
    bool update;          /* write files of rows instead of comparing */
    bool unsafe;
    struct report *report; /* borrowed */
};

/**
 * Run them. A test file that does not load, and a path or a filter without
 * any test, count as a failed case each.
 * @return 0, whatever failed (report_end() says); ERR_IO: the coverage could
 *         not be written.
 */
MUST_USE int cases_run(const struct cases_conf *conf, struct err *e);

#endif
