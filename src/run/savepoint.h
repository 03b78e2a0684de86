/*
 * Savepoints of a running job, asked for through the control socket.
 *
 * | state   | leaves it when                                              |
 * | none    | a request comes                                             |
 * | waiting | a round that began after it is complete, or the last round  |
 * |         | of the job (--stop, --drain: only that)                     |
 * | copying | the checkpoint thread has copied it; then the answer goes   |
 *
 * One at a time. A request that the job does not live to answer is refused
 * by control_free(). Thread: coordinator.
 */
#ifndef RUN_SAVEPOINT_H
#define RUN_SAVEPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct control;
struct control_req;
struct job;

enum savepoint_state { SAVEPOINT_NONE, SAVEPOINT_WAITING, SAVEPOINT_COPYING };

struct savepoint {
    enum savepoint_state state;
    struct control_req *req;
    char *to;        /* where; an absolute path */
    bool stop;       /* with the last round */
    uint64_t target; /* the round to wait for */
};

/** Serve the job's socket from now on. @return 0 or ERR_IO. */
MUST_USE int savepoint_serve(struct job *j, struct err *e);
/** Go on with what was asked. `last`: the job's last round is complete.
 * @return whether something is still to be waited for. */
bool savepoint_tick(struct job *j, bool last);
/** Refuse what is under way: the job failed with `e`. */
void savepoint_failed(struct job *j, const struct err *e);

#endif
