/*
 * Slots: worker threads that run subtasks cooperatively.
 *
 * A slot goes round its subtasks, one unit of work each, and sleeps on its
 * libev loop when none has anything to do; lanes, connectors and the
 * coordinator wake it (slot_wake). A failing subtask ends its slot and,
 * through job_failed(), the job.
 * Thread: slot_wake any; the rest coordinator.
 */
#ifndef RUN_SLOT_H
#define RUN_SLOT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

#include "run/subtask.h"

struct job;

struct slot {
    struct job *job;
    uint32_t index;
    struct subtask **subtasks;
    uint32_t count;
    struct ev_loop *loop;
    ev_async wakeup;
    ev_timer timer;
    pthread_t thread;
    bool started;
    _Atomic bool stop;  /* end at once */
    _Atomic bool ended; /* shown */
};

/** Make a slot in place (no thread yet). @return 0 or ERR_INTERNAL. */
int slot_init(struct slot *s, struct job *job, uint32_t index, struct err *e);
void slot_fini(struct slot *s);
/** Give it a subtask; before slot_start(). */
void slot_add(struct slot *s, struct subtask *st);
/** Start the thread. */
int slot_start(struct slot *s, struct err *e);
/** Wait for the thread. */
void slot_join(struct slot *s);
/** Wake it; conn_wake_f. @thread any. */
void slot_wake(void *slot);

#endif
