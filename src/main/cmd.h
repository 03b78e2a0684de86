/*
 * The verbs, one function a file (cmd_*.c), and how they end.
 *
 * Used by main.c. Thread: main. Each returns the process exit code and has
 * said on stderr what was wrong.
 */
#ifndef MAIN_CMD_H
#define MAIN_CMD_H

#include "base/err.h"
#include "main/cli.h"
#include "plan/plan.h"

/** Exit codes that main itself decides (others come from the err code). */
enum { EXIT_USAGE = 64, EXIT_IO = 74 };

int cmd_run(struct cli *c);
int cmd_check(struct cli *c);
int cmd_explain(struct cli *c);
int cmd_savepoint(struct cli *c);
int cmd_reload(struct cli *c); /* and rollback */
int cmd_state(struct cli *c);
int cmd_test(struct cli *c);
int cmd_new(struct cli *c);
int cmd_size(struct cli *c);
int cmd_version(struct cli *c);
int cmd_help(struct cli *c);

/**
 * Report a wrong call: one line and where to read on.
 * @return 64. @thread main.
 */
int cmd_usage_error(const struct cli *c, const struct err *e);

/**
 * Report what happened before a job runs, as API.md says for load errors.
 * @return the exit code of e. @thread main.
 */
int cmd_error(const struct cli *c, const struct err *e);

/**
 * Ask the Kafka connector about each step that uses it: its options always,
 * the broker with --preflight.
 *
 * @param p borrowed. @return 0, or what kafka_check() and kafka_preflight()
 *        return, with its place. @thread main.
 */
MUST_USE int cmd_check_kafka(struct cli *c, const struct plan *p,
                             struct err *e);
/**
 * Write `len` bytes to stdout and flush it.
 * @return 0, or 74 after saying why it failed. @thread main.
 */
int cmd_print(const char *text, size_t len);

#endif
