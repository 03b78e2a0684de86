/*
 * Lanes: what moves between two subtasks, in order, one way.
 *
 * A bounded single-producer single-consumer ring of owned messages (libck),
 * with the sender's overflow list behind it: a sender that was ready may
 * overshoot by what one input makes, and is not run again until the lane has
 * room. Ownership of a message moves with it. The producer's slot calls the
 * op_out face and lane_pump(); the consumer's slot calls lane_pop().
 */
#ifndef RUN_LANE_H
#define RUN_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ck_ring.h>

#include "op/op.h"

enum { LANE_SIZE = 64, LANE_READY = 8 };

enum lane_kind { LANE_BATCH, LANE_PARTIALS, LANE_MARK };

struct lane_msg {
    struct lane_msg *next; /* in the overflow list */
    enum lane_kind kind;
    struct batch batch;
    struct partials *partials;
    struct mark mark;
};

struct lane {
    struct op_out out; /* first: the sender's face */
    ck_ring_t ring;
    ck_ring_buffer_t *buffer;
    struct lane_msg *over, **over_end; /* the sender's */
    conn_wake_f *wake_consumer, *wake_producer;
    void *consumer, *producer;
    _Atomic bool blocked; /* the sender waits for room */
    uint32_t ready; /* messages that wait before the sender does, LANE_READY or
                       fewer: the sender's and the consumer's to read */
    const struct aggset *set; /* frees partials that were never taken */
};

/** Make a lane in place; the wake functions are set by the caller. */
void lane_init(struct lane *l);
/** Free it with all messages in it. @thread coordinator, slots ended. */
void lane_fini(struct lane *l);
/** Take the next message, or NULL; the caller frees it. @thread consumer. */
struct lane_msg *lane_pop(struct lane *l);
/** Free a message and what it still holds (not partials). */
void lane_msg_free(struct lane_msg **m);
/** Move overflow into the ring. @return true if none is left.
 * @thread producer. */
bool lane_pump(struct lane *l);

#endif
