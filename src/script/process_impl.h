/*
 * Inside of script/: one process step of a script: its ctx, its state
 * handles, the call under way. process.c has ctx and the calls, states.c the
 * handles. Included by them and by nobody else.
 *
 * ctx, ctx.state and the handles are userdata made once a step; a call makes
 * none. All of them are about the call under way: outside of one they are
 * refused.
 */
#ifndef SCRIPT_PROCESS_IMPL_H
#define SCRIPT_PROCESS_IMPL_H

#include "script/calls_impl.h"

enum state_kind {
    STATE_VALUE,
    STATE_LIST,
    STATE_MAP,
    STATE_REDUCING,    /* a value */
    STATE_AGGREGATING, /* built-in accumulators */
    STATE_CUSTOM,      /* a value: the accumulator of s.aggregator */
    STATE_KINDS
};

/* Userdata of a handle: ctx.state.NAME. */
struct state_handle {
    const char *magic;         /* state_magic of its kind */
    struct script_process *sp; /* NULL: the step is gone */
    uint32_t h;                /* place in `state` */
    const struct opt *opts;    /* of the handle */
};

/* Userdata of ctx. */
struct ctx_box {
    const char *magic;
    struct script_process *sp;
};

struct script_process {
    struct script_process_conf conf;
    struct script *s;
    struct calls *c;
    int on_record, on_right, on_timer, on_window;
    int ctx_ref;
    struct ctx_box *box;
    struct state_handle **handles; /* conf.handle_count, owned by Lua */
    const char **outputs;          /* conf.outs[i + 1] is outputs[i] */
    uint32_t output_count;
    const struct opt *key; /* its columns */

    /* The call under way. */
    bool active;
    bool has_ts, in_timer;
    enum kstate_clock clock; /* of the timer */
    int64_t ts;
    uint64_t number;
    int64_t watermark, now;
    struct rec timer; /* what rows of a timer or window inherit from */
    const struct script_window *window; /* in on_window, else NULL */
    bool has_key;                       /* `message_key` is made */
    struct buf message_key;

    struct buf bytes;   /* packed values */
    struct buf map_key; /* a canonical key */
    struct arena arena; /* values of aggregates */
    void *empty;        /* accumulators, for a result over nothing */
    struct err raised;  /* by accumulators, to keep its cause */
};

/** Raise unless a call of the step is under way. May raise. */
void process_check_lj(lua_State *L, const struct script_process *sp);
/** Push the Lua value of one part of a canonical key, at most to `end`.
 * @return its length. May raise. */
size_t process_push_part_lj(lua_State *L, struct calls *c, const char *p,
                            const char *end);

/* states.c */
/** Push ctx.state of the step. May raise. */
void states_push_lj(lua_State *L, struct script_process *sp);

#endif
