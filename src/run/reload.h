/*
 * Changing the code of a running job (DESIGN section 11, API.md section 12).
 *
 * | state     | the job                        | leaves it when              |
 * | none      | runs what history says         | asked: signal, watch, verb  |
 * | preparing | runs on; a thread loads and    | it is done: refused (none), |
 * |           | checks (prepare.h)             | or ready                    |
 * | ready     | runs on                        | no savepoint is being made  |
 * | swapping  | its sources have stopped; what | the round is complete, and  |
 * |           | was read goes into a last round| the attempt is closed       |
 * | probation | a new attempt runs the new     | its first round is complete |
 * |           | version from that round        | (accepted), or it fails     |
 * |           |                                | (rolled back)               |
 *
 * So the rows of a round are made by one version, and none is made twice. The
 * first round of a version on probation holds the history with it: what a
 * crash leaves is one of the two. An error that is retriable begins the
 * version on probation again, as it does any other.
 *
 * At the start of the process the version of the command line is held against
 * the history in the checkpoint; another text is on probation, too, but ends
 * the process where it fails: nothing was changed.
 * Thread: coordinator.
 */
#ifndef RUN_RELOAD_H
#define RUN_RELOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "op/counters.h"
#include "run/prepare.h"
#include "run/version.h"
#include "run/watch.h"

struct control_req;
struct job;
struct run;
struct home;

enum reload_state {
    RELOAD_NONE,
    RELOAD_PREPARING,
    RELOAD_READY,
    RELOAD_SWAPPING,
    RELOAD_PROBATION
};

/* Counters by the names of their steps, through a change of the plan. */
struct named_counters {
    char **names;
    struct op_counters *counters;
    uint32_t count;
};

struct reload {
    enum reload_state state;
    struct history history;
    struct version *next;  /* of the command line, before the history was
                              looked at; then the one on probation */
    struct version *tried; /* refused or rolled back last, or NULL */
    struct prepare prepare;
    struct watch watch;
    struct control_req *req; /* of the verb that waits for it, or NULL */
    struct buf table, short_table;
    bool asked;          /* by signal or watch, while it could not be begun */
    bool dirty;          /* the history is not as the last round has it */
    bool back;           /* next is a rollback */
    bool dry_run;        /* only the table is asked for */
    bool at_start;       /* on probation since the start of the process */
    bool opened;         /* an attempt with it was opened */
    bool wanted;         /* this attempt was asked for its first round */
    bool undecided;      /* it failed while its first round was committed:
                            rolled back only if that was not */
    struct err failure;  /* then */
    uint64_t stay;       /* rows of that attempt, see reload_rolls_back() */
    uint64_t from_round; /* the one that probation began from */
    int64_t began_ms;    /* when it was asked for, monotonic */
    int64_t opened_ms;   /* when the new version began to run, 0 not */
    struct named_counters kept; /* as they were before the swap */
};

/** Take the code of the command line, once. */
void reload_init(struct run *run);
/** The version that runs, or is about to. Never NULL. Borrowed until the next
 * call of this file. */
struct version *reload_version(const struct run *run);
/** Whether an attempt with it is the first one. */
bool reload_is_news(const struct run *run);
/** Its number. */
uint64_t reload_number(const struct run *run);
/**
 * At the first start of the process, when what it begins from is known: hold
 * the code against the history of the checkpoint.
 * @param fresh nothing is gone on from.
 * @return 0; ERR_CONFIG: a text that was rolled back; ERR_IO: damage.
 */
MUST_USE int reload_look(struct run *run, bool fresh, struct err *e);
/** The plan fits: say that the code is another one, if it is. */
void reload_say_start(struct job *j);

/** A signal or the watch asks for a reload: as soon as possible. */
void reload_ask(struct run *run);
/** A request of a verb. @return false: it is not one of reload's. */
bool reload_request(struct job *j, struct control_req *req);
/** An attempt is open and about to run. */
void reload_opened(struct run *run);
/** Go on with what is due. The job runs. */
void reload_tick(struct job *j, int64_t now_ms);
/** Whether the version that runs may still be rolled back. */
bool reload_on_probation(const struct run *run);
/** Whether the sources were stopped for a swap. */
bool reload_is_swapping(const struct run *run);
/** The job is asked to stop while it swaps: it stops with its old code. */
void reload_give_up(struct job *j);
/** The attempt failed while it swapped: the old code begins again. */
void reload_failed(struct job *j);

/** The attempt is closed at its last round: the new version is next. */
void reload_swap(struct run *run);
/** Put the history into a round, if it is not there yet. */
void reload_fill_round(struct job *j, struct buf *out);
/** A round is complete: a version on probation is accepted. */
void reload_completed(struct job *j, uint64_t round);
/**
 * Whether it is not known if the failed attempt on probation has committed its
 * first round: then the next one, with the same version, asks. The checkpoint
 * thread has ended.
 */
bool reload_asks(struct job *j);
/** It is known now. @return 0: the version goes on; or why it failed then. */
MUST_USE int reload_decided(struct run *run, struct err *e);
/**
 * Whether the failed attempt ends a probation: then the version of before is
 * next. The checkpoint thread has ended. Called before the job is closed.
 */
bool reload_rolls_back(struct job *j);

/** At the end of the process. @return false: a thread runs still, and the
 * process must _exit(). */
bool reload_end(struct run *run);

#endif
