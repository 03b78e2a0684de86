/*
 * Preparing a version beside the running job: load it, check it, compare it.
 *
 * In a thread of its own, so that the job runs on unharmed: the texts are read
 * and loaded with their deadline and memory cap, laws tested, loaded again and
 * compared, planned, held against the plan that runs, and Kafka connectors
 * that changed ask their broker. Nothing of the running job is looked at; what
 * is needed of it is copied before.
 *
 * Owner: the coordinator; the thread's from prepare_start() until it is done.
 */
#ifndef RUN_PREPARE_H
#define RUN_PREPARE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "plan/fit.h"
#include "run/run.h"
#include "run/version.h"
#include "script/script.h"

struct prepare {
    const struct run_conf *conf;
    struct version *version; /* made by the caller; its texts are read here
                                unless they are there */
    struct buf plan;         /* description of the plan that runs */
    struct buf connectors;   /* of its Kafka steps, see prepare_note_plan() */
    struct buf broken;       /* its aggregators that broke a law */
    uint32_t max_parallelism;
    bool checkpoint; /* the job that runs keeps some */
    void (*wake)(void *arg);
    void *arg;

    pthread_t thread;
    bool started;
    atomic_bool done;
    /* set by the thread */
    int code;
    struct err err;
    struct buf table;       /* empty if it did not come so far */
    struct buf short_table; /* "kept a, b; changed c" */
};

/** Copy what is compared with from the plan that runs. @thread coord. */
void prepare_note_plan(struct prepare *p, const struct plan *plan);
/** Begin; `wake` is called in the thread at its end. @return 0 or ERR_INTERNAL.
 * @thread coord. */
MUST_USE int prepare_start(struct prepare *p, struct err *e);
/** What the thread does, here and now. @return 0 or why it is refused. */
MUST_USE int prepare_now(struct prepare *p, struct err *e);
/** Whether it is done; it is joined then. @thread coord. */
bool prepare_is_done(struct prepare *p);
/** Wait for the thread for at most so long. @return false: it runs still, and
 * the process must _exit(). @thread coord. */
bool prepare_end(struct prepare *p, int64_t wait_ms);
/** Free all but the version, which is freed too if it is still there. */
void prepare_fini(struct prepare *p);

/** How texts of a version are loaded. @thread any. */
void prepare_script_conf(const struct run_conf *conf, const struct version *v,
                         uint64_t seed, struct script_conf *ret);
/** How a version is planned, but for the key groups of its state.
 * @thread any. */
struct plan_conf prepare_plan_conf(const struct run_conf *conf,
                                   const struct version *v);
/** A job file that came from stdin cannot also read its records there.
 * @thread any. */
MUST_USE int prepare_check_stdin(const char *path, const struct plan *p,
                                 struct err *e);

#endif
