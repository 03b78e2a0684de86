/*
 * The job's data directory: its store, opened once a process, and what the
 * last complete round says beside keyed state.
 *
 * Opened by the coordinator before the first start, closed at the end; the
 * store is the checkpoint thread's while that runs (run/ckpt.h). It outlives
 * restarts of the job inside the process.
 */
#ifndef RUN_HOME_H
#define RUN_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/snapshot.h"
#include "run/run.h"
#include "state/store.h"

enum { HOME_OWNER_MAX = 96 };

struct home {
    struct store *store; /* NULL: the job keeps no checkpoints */
    char *dir;
    char owner[HOME_OWNER_MAX]; /* "HOST:PID ID" */
    struct store_status status; /* as of home_look() */
    struct restored restored;   /* round 0: a fresh start */
    struct buf plan; /* the plan it was written by (plan/fit.h), or empty */
    struct buf txn;  /* the transactional_id_prefix then, or empty */
    struct buf code, reloads; /* the job file, its versions (run/version.h);
                                 until the start of the process is over */
    bool temporary; /* in a folder of its own, for a reload of a job without
                       checkpoints; gone with home_close() */
    bool started;   /* it is: neither is read any more */
    enum conn_recover recover; /* how markers are to be taken at this start */
};

/**
 * Open `<data_dir>/<job>`, as --fresh, --from and --new-lineage say, take its
 * lock and read what is there.
 * @return 0; ERR_BUSY (in use: host and pid), ERR_IO (damage), ERR_CONFIG.
 * @thread coord.
 */
MUST_USE int home_open(struct home *h, const struct run_conf *conf,
                       const char *job, struct err *e);
/**
 * Make a store in a new folder under TMPDIR, to carry a job without checkpoints
 * over a reload. @return 0 or ERR_IO. @thread coord.
 */
MUST_USE int home_open_temporary(struct home *h, struct err *e);
/**
 * Whether a round with `state` bytes of keyed state finds room where the
 * temporary store is. @return 0 or ERR_IO with the remedy. @thread coord.
 */
MUST_USE int home_check_room(const struct home *h, uint64_t state,
                             struct err *e);
/** Look again at status and blobs. @thread whoever owns the store now. */
MUST_USE int home_look(struct home *h, struct err *e);
void home_close(struct home *h);

#endif
