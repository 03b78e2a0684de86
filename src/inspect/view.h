/*
 * The state of a job or savepoint, opened to be looked at.
 *
 * Reads beside a running job: takes no lock and sees one checkpoint, the
 * last complete one, until state_view_close(). Used by the forms of `state`
 * and by tests of jobs, which look at a store they have open.
 * Thread: the caller's. Owner of everything: the struct.
 */
#ifndef INSPECT_VIEW_H
#define INSPECT_VIEW_H

#include "base/arena.h"
#include "base/opts.h"
#include "core/agg.h"
#include "core/kstate.h"
#include "core/snapshot.h"
#include "core/window.h"
#include "run/version.h"
#include "script/script.h"
#include "state/store.h"

/* How the job's code is loaded where it has to show what it keeps. Borrowed
 * until state_view_close(). */
struct state_code {
    const struct opt *params, *args; /* as script_conf's */
    bool unsafe;
    bool given; /* the user gave parameters: one that is wrong is an error */
};

struct state_view {
    struct state_code code_conf;
    char *path, *name;   /* of the directory and the job, for messages */
    struct store *store; /* its own, or borrowed */
    bool borrowed;
    struct store_reader *reader;
    struct store_status status; /* of an own store */
    uint64_t round;             /* 0: no checkpoint is complete yet */
    struct arena arena;
    struct arena *scratch;         /* the same, for those who only look */
    const struct opt *plan, *meta; /* descriptions; NULL while round is 0 */
    const char *code;              /* of the job file */
    size_t code_len;
    struct history history; /* its texts and parameters; of older rounds none */
    uint32_t max_parallelism;
    struct restored restored;
};

/**
 * Open the store in a directory.
 *
 * @param path directory. @param name the job's. Both are copied.
 * @param ret filled in any case; ended by state_view_close().
 * @return 0; ERR_IO (no store, damage), ERR_CONFIG (of another version),
 *         ERR_NOMEM.
 * @thread the owner.
 */
MUST_USE int state_view_open(const struct state_code *code, const char *path,
                             const char *name, struct state_view *ret,
                             struct err *e);
/** As state_view_open(), of a store that is open and stays so; another thread
 * may write to it meanwhile. */
MUST_USE int state_view_attach(const struct state_code *code,
                               struct store *store, const char *path,
                               const char *name, struct state_view *ret,
                               struct err *e);
void state_view_close(struct state_view *v);

/* A step that keeps keyed state. */
struct state_step {
    const struct state_view *view;
    const char *name;
    const struct opt *desc; /* in the plan's description; NULL: not there */
    bool known;             /* it is in the store */
    uint32_t op;
    /* from state_step_open() on */
    struct script *script; /* runs custom aggregators; NULL without */
    struct aggset *set;
    struct aggset *inner; /* count window: what `set` holds, or NULL */
    struct window_spec window;
    int64_t *fired; /* watermark of each subtask then */
    uint32_t fired_count;
    struct kstate_blob past; /* process, dedup: the handles, see state_keyed */
    struct aggset **sets;    /* of each of them, or NULL */
};

/**
 * The steps with keyed state, in the order of the plan, then what only the
 * store has.
 *
 * @param ret_count how many. @return in the view's arena, not opened.
 */
struct state_step *state_view_steps(struct state_view *v, size_t *ret_count);

/**
 * Find a step by name.
 * @return 0, or ERR_USAGE: it keeps no state, or there is none; the message
 *         lists those that do.
 */
MUST_USE int state_view_step(struct state_view *v, const char *name,
                             struct state_step *ret, struct err *e);

/**
 * Make ready what shows the step's entries as rows: aggregates, window, and
 * where there are custom aggregators the job's code. If that does not load,
 * plain accumulators are shown and a warning is logged.
 *
 * @return 0; ERR_JOBFILE: its windows cannot be put together without the
 *         code; ERR_IO (damage). state_step_close() in any case.
 */
MUST_USE int state_step_open(struct state_step *s, struct err *e);
void state_step_close(struct state_step *s);

#endif
