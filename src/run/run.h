/*
 * Running a job: the one entrance of main's `run` verb.
 *
 * run_job() loads the file, makes the plan, opens connectors, starts slots,
 * and stays in the coordinator's loop until the job ends. It reports errors
 * on stderr itself and writes the summary. One job a process.
 * Thread: the main thread, which becomes the coordinator.
 */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "core/connector.h"

/* A job in a box (run/box.h): queues in place of all its connectors. */
struct run_box {
    const struct source_type *source;
    const struct sink_type *sink;
    void *arg;            /* conn_env.box of them */
    uint64_t seed;        /* of the job's loads */
    const char *strategy; /* plan_conf.strategy */
    /* script_conf.line of all loads; or NULL */
    void (*line)(void *arg, const char *path, int line);
    void *line_arg;
};

struct run_conf {
    const char *file; /* as given on the command line */
    const char *text; /* its bytes */
    size_t text_len;
    const struct opt *params;    /* map of --set */
    const struct opt *args;      /* list behind "--" */
    const struct opt *cli;       /* map: X, bootstrap_servers, bounded,
                                    connect_timeout_ms */
    uint32_t parallelism, slots; /* 0 = not given */
    int64_t until_idle_ms;       /* -1 off */
    int64_t stop_timeout_ms;
    const char *summary_path; /* NULL = none */
    const char *data_dir;
    const char *from;          /* savepoint to go on from; NULL = none */
    enum conn_recover recover; /* --recover; RECOVER_NOT = not given */
    bool new_lineage;          /* only with `from` */
    bool fresh;                /* never with `from` or `recover` */
    bool allow_state_loss;
    bool accept_code; /* run a text that was rolled back */
    bool watch;       /* reload when a file of the job changes */
    bool unsafe;
    bool progress;             /* draw the progress line */
    const struct run_box *box; /* NULL but in tests of jobs */
};

/**
 * Run the job to its end.
 *
 * @param conf borrowed. @param e scratch for the caller's convenience.
 * @return the process's exit code (API.md section 9).
 * @thread main.
 */
int run_job(const struct run_conf *conf, struct err *e);

/**
 * End a run whose job file cannot even be read: reports the error and writes
 * the summary.
 *
 * @param conf borrowed; its text is not looked at.
 * @return the process's exit code. @thread main.
 */
int run_refuse(const struct run_conf *conf, const struct err *e);

#endif
