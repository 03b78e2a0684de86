/*
 * One run of one case: a fresh machine, and what the case calls.
 *
 * Made by cases.c for each variant; session_call() is what a test file's
 * script calls. Thread: one.
 */
#ifndef TESTING_SESSION_H
#define TESTING_SESSION_H

#include "base/buf.h"
#include "script/script.h"
#include "testing/sim.h"

/* What happens after each step of a case. */
enum faults {
    FAULTS_NONE,
    FAULTS_RESTART, /* a round, and another process goes on from it */
    FAULTS_CRASH,   /* another process goes on from the last round */
    FAULTS_MIXED    /* one of the two, drawn */
};

/* How a case is run. */
struct variant {
    uint32_t parallelism; /* 0: the job's own */
    enum sim_strategy strategy;
    enum faults faults;
    uint64_t seed;
};

struct session_conf {
    const char *dir;             /* of the test file, with '/', or "" */
    const char *job;             /* path of the job file */
    const struct opt *params;    /* map, or NULL */
    const struct script *script; /* the job, loaded; for its sources */
    struct variant variant;
    bool unsafe;
    int64_t timeout_ms;        /* of the case */
    bool update;               /* write files of rows instead of comparing */
    struct coverage *coverage; /* or NULL */
};

struct session;

/**
 * Start the job at virtual time 0, with no state.
 * @param conf what it points to is borrowed until session_free().
 * @return 0 or the error of the load.
 */
MUST_USE int session_new(const struct session_conf *conf, struct session **ret,
                         struct err *e);
/** Accepts NULL. */
void session_free(struct session **s);
/** script_conf.test_call; `arg` is the struct session. */
int session_call(void *arg, const char *call, const struct opt *args,
                 const char *where, struct arena *a, const struct opt **ret,
                 struct err *e);
/**
 * The case is over.
 * @param e what script_test_run() gave, or NULL.
 * @return NULL if it passed, else why not: lines, the first one begins with
 *         FILE:LINE; the session's.
 */
const char *session_end(struct session *s, const struct err *e);

#endif
