/*
 * The equality rule: may a job go on from what its directory and its target
 * say: the marker of its transactions, or the round that the target of a Lua
 * sink holds? (DESIGN section 9, rule 4; API.md section 9.1.)
 *
 * A pure function, so that it can be tested exhaustively; used once at every
 * start and every recovery inside the process, when nothing of an earlier
 * process can still change the target (both transactional ids are initialised
 * and the marker was read after that).
 */
#ifndef RUN_DECIDE_H
#define RUN_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/connector.h"
#include "kafka/txn.h"
#include "state/store.h"

enum decision {
    DECIDE_RUN,      /* go on from the complete round */
    DECIDE_COMPLETE, /* the pending redo was committed: complete it */
    DECIDE_DISCARD,  /* it was not: discard it */
    DECIDE_REFUSE,   /* neither is sure; the error says what can be done */
};

struct decide_in {
    const char *job;
    const char *dir; /* the job's data directory, for messages */
    struct store_status store;
    bool has_target;          /* exactly_once Kafka sinks, or a Lua sink whose
                                 target decides a round */
    const char *sink;         /* of that Lua sink; NULL: Kafka's marker */
    bool numbers_only;        /* its target keeps no token: the marker has
                                 neither lineage nor owner */
    bool store_had_target;    /* so had the one that wrote the checkpoint, with
                                 the same prefix, or the same sink */
    const char *redo_owner;   /* who wrote the pending redo, "" if none */
    bool redo_other_target;   /* it was written for another one */
    struct txn_marker marker; /* of has_target only */
    enum conn_recover recover;
};

/**
 * Decide.
 * @param e filled for DECIDE_REFUSE: ERR_CONFIG, or ERR_IO where a completed
 *        round cannot be read.
 * @thread any.
 */
enum decision decide(const struct decide_in *in, struct err *e);

#endif
