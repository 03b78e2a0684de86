/*
 * Inside of the machine: sim.c has its calls, drive.c makes the job work and
 * takes rounds, look.c reads what came of it. Included by these alone.
 */
#ifndef TESTING_SIM_IMPL_H
#define TESTING_SIM_IMPL_H

#include "run/box.h"
#include "testing/queue.h"
#include "testing/sim.h"

struct sim {
    struct sim_conf conf;
    struct run_conf run_conf;
    struct run_box run_box;
    struct queue_set queues;
    struct box *box;
    char *text;                /* of the job file it began with */
    char *dir;                 /* temporary: the data directory */
    int64_t now;               /* virtual wall time, ms */
    int64_t wait;              /* ms until something is due by the clock */
    bool dirty;                /* something came since the last round */
    bool finished;             /* the input ended, and so did the job */
    struct subtask **subtasks; /* of all chains, in an order that is drawn */
    uint32_t subtask_count;
    uint32_t *order;
    struct err failure; /* the error that ended the job; code 0: none */
};

/** Files of the job are being made, or no longer; does not return once
 * sim_remove_left() has begun. */
void sim_making(bool on);
/** Open the job from the last round, and give it again, call by call, what
 * the round does not hold. @return 0 or the failure. */
MUST_USE int sim_open(struct sim *s, struct err *e);
/** End it where it stands. */
void sim_close(struct sim *s);
/** Run until nothing has anything to do. @return 0 or the failure. */
MUST_USE int sim_settle(struct sim *s, struct err *e);
/** Take a round, if anything came since the last one. */
MUST_USE int sim_round(struct sim *s, struct err *e);
/** All input has ended and all subtasks are done: the last round. */
MUST_USE int sim_finish(struct sim *s, struct err *e);
/** The failure of before, if there is one. @return its code. */
MUST_USE int sim_failed(const struct sim *s, struct err *e);
/** Refuse what an ended job cannot do. */
MUST_USE int sim_check_open(const struct sim *s, struct err *e);

#endif
