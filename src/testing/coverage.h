/*
 * Coverage: how often each line of a job's files was executed, as lcov.
 *
 * Made by cases.c, fed by the machine (sim_conf.line). Thread: one.
 */
#ifndef TESTING_COVERAGE_H
#define TESTING_COVERAGE_H

#include "base/buf.h"
#include "base/err.h"

struct coverage;

struct coverage *coverage_new(void);
/** Accepts NULL. */
void coverage_free(struct coverage **c);
/** A file takes part, though no line of it may be executed. */
void coverage_file(struct coverage *c, const char *path);
/** A line was executed; `arg` is the struct coverage. */
void coverage_line(void *arg, const char *path, int line);
/**
 * Append the report: per file SF, a DA for each line that can be executed,
 * LF, LH.
 * @return 0 or ERR_JOBFILE: a file cannot be read any more.
 * @source geninfo(1), "TRACEFILE FORMAT".
 */
MUST_USE int coverage_put(const struct coverage *c, struct buf *out,
                          struct err *e);

#endif
