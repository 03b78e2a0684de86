/*
 * A job file read, loaded twice, law-tested and planned, for check and
 * explain.
 *
 * `run` does not use this: run/ loads the file itself, once for the plan and
 * once a task. Thread: main. Owner of everything: the struct, until
 * job_load_free().
 */
#ifndef MAIN_JOB_LOAD_H
#define MAIN_JOB_LOAD_H

#include "main/cli.h"
#include "plan/plan.h"
#include "script/script.h"

struct job_load {
    char *text; /* bytes of the job file */
    size_t text_len;
    struct script *script;
    struct plan *plan;
};

/**
 * Load the job file of the command line and build its plan.
 *
 * @param ret filled in any case; end it with job_load_free().
 * @return 0; ERR_USAGE for flags and parameters; ERR_JOBFILE for the file;
 *         ERR_CONFIG for slots below what the job needs.
 * @thread main.
 */
MUST_USE int job_load(struct cli *c, struct job_load *ret, struct err *e);
void job_load_free(struct job_load *j);

#endif
