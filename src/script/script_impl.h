/*
 * Inside of script/: the layout of a loaded job. Only script/ includes it.
 *
 * Two halves: load.c, host.c, require.c, sandbox.c, pairs.c, watch.c,
 * errors.c, tree.c make the state and the tree; record.c, view.c, call.c,
 * agg.c, law.c, connector.c, helpers.c run user code. The Lua state finds its
 * script through lua_getextraspace().
 */
#ifndef SCRIPT_SCRIPT_IMPL_H
#define SCRIPT_SCRIPT_IMPL_H

#include <stdatomic.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/arena.h"
#include "script/script.h"

struct calls; /* state of the running half, private to call.c and friends */

struct script {
    lua_State *L;
    struct script_conf conf;
    struct script_files *files, *own_files; /* conf's, or its own */
    struct arena arena;                     /* the tree */
    struct opt *job;                        /* normalised tree */
    char *fingerprint;
    int funcs_ref;         /* registry ref: list of functions by number */
    _Atomic size_t memory; /* bytes in use; written by the owner only */
    size_t memory_max;     /* cap of the allocator */
    size_t held;           /* bytes C holds for objects of the state */
    size_t held_collect;   /* of these, when garbage is looked for next */
    int64_t call_timeout_ns, load_timeout_ns;
    _Atomic bool patient; /* the running call is told of, not interrupted */
    /* Counted up when a call into user code begins and when it ends, so it is
     * odd while user code runs; written by the owner only (call.c). */
    _Atomic uint32_t call_seq;
    /* The call_seq that script_interrupt() means, 0 = none: the hook raises
     * while it equals call_seq and else removes itself (load.c). */
    _Atomic uint32_t interrupt_seq;
    uint32_t watch_seq;         /* the watchdog thread's own: last seen */
    int64_t watch_since;        /* ... and since when, monotonic ns */
    int64_t watch_said;         /* ... and when it last said so, or 0 */
    _Atomic(const char *) step; /* borrowed name of the calling step */
    bool loaded;                /* globals are sealed */
    struct calls *calls;

    /* Private to load.c, watch.c and sandbox.c. */
    _Atomic(lua_State *) running; /* L, or the coroutine that runs now */
    _Atomic uintptr_t thread;     /* pthread_t of the running call */
    int64_t load_began;           /* real ns, 0 = no count hook */
    bool load_over;            /* load_timeout has passed, or at the end ... */
    bool closing;              /* ... call_timeout */
    bool loading;              /* the file, or a case, runs: the cap holds */
    const void *globals;       /* identity of the table jobs see as _G */
    char chunk[64];            /* chunk name of the job file, no '@' */
    char dir[256];             /* folder of the job file with '/', or "" */
    char where[ERR_WHERE_MAX]; /* place of the error, by script_msgh() */
    char trace[ERR_TRACE_MAX]; /* its traceback, by script_msgh() */
    /* The running half may note the last field that read as nil in this
     * call (borrowed, alive during the call); script_take_error() then names
     * it in the message. script_enter() clears it. */
    const char *nil_field;
};

/** The script of a Lua state. */
static inline struct script *
script_of(lua_State *L)
{
    struct script *s;

    s = *(struct script **)lua_getextraspace(L);
    return s;
}

/** Name of the calling step, or NULL. @thread any. */
static inline const char *
script_step(const struct script *s)
{
    return atomic_load_explicit(&s->step, memory_order_relaxed);
}

/* watch.c: bound user code that runs where no watchdog does, by a standing
 * hook: while loading by load_timeout, at the end by call_timeout. */
void script_watch_close(struct script *s, bool on);

/* calls.c: called by script_load() before the job file runs, to register the
 * record metatables and the C functions of module `streamlua` (has, table,
 * copy, row, key, ..., encode, decode, parse_time, hash) into the module
 * table at stack index `module`; and by script_free(). */
int calls_open(struct script *s, int module, struct err *e);
void calls_close(struct script *s);

/* Who writes what: script_filter() to script_call_index(), script_agg*(),
 * script_test_laws(), script_watch(), script_held() and the connector
 * types are in the running half; script_interrupt(), script_set_step(),
 * script_memory(), script_call_timeout_ns() and all else in load.c and watch.c.
 * A custom aggregate's `samples` is OPT_FUNC: funcs_ref[n] holds the list of
 * records. The running half keeps a few slots at the bottom of L's stack from
 * the first call on: load.c leaves the stack as it found it. */

/* The script whose user code this thread runs or ran last. */
extern _Thread_local struct script *script_current;

/* watch.c: make this thread the one that script_interrupt() signals. */
void script_switch(struct script *s);

/* Around every call into user code: script_enter, lua_pcall with script_msgh,
 * script_leave. They alone count call_seq; a late interrupt is void since
 * the number has changed. */
static inline void
script_enter(struct script *s)
{
    uint32_t seq;

    if (script_current != s)
        script_switch(s);
    s->nil_field = NULL;
    seq = atomic_load_explicit(&s->call_seq, memory_order_relaxed);
    atomic_store_explicit(&s->call_seq, seq + 1, memory_order_relaxed);
}

static inline void
script_leave(struct script *s)
{
    uint32_t seq;

    seq = atomic_load_explicit(&s->call_seq, memory_order_relaxed);
    atomic_store_explicit(&s->call_seq, seq + 1, memory_order_relaxed);
}

/* errors.c: turn the Lua error on top of the stack (popped) into `e`: cause
 * user_error, where = file:line, msg, trace, hint. @return ERR_RECORD. */
int script_take_error(struct script *s, struct err *e);
/* errors.c: message handler for lua_pcall that adds the traceback. */
int script_msgh(lua_State *L);
/* errors.c: the same for an error while loading. @return ERR_JOBFILE, or
 * ERR_USAGE for parameters. */
int script_take_load_error(struct script *s, struct err *e);
/* errors.c: find the user's frame above the engine's Lua files. `ar` gets
 * source and line. @return false if there is none. */
bool script_user_frame(lua_State *L, lua_Debug *ar);
/* errors.c: note the place that runs, for an error of memory: Lua calls no
 * message handler for it. Allocates nothing. */
void script_note_place(struct script *s);
/* errors.c: write "job.lua:12" of a frame to `out`. */
void script_place(const struct script *s, const lua_Debug *ar, char *out,
                  size_t size);

/* sandbox.c: open the libraries that jobs may use (API.md 13). */
void script_sandbox_lj(struct script *s);
/* pairs.c: pairs() in an order that is the same in every state. */
int script_pairs_lj(lua_State *L);
/* trace.c: a line hook was called: tell the line, if it is the job's. */
void script_trace_line(lua_State *L, lua_Debug *ar);
/* trace.c: set the hook that stands where no other does: none, or lines. */
void script_trace_rest(lua_State *L);
/* trace.c: what a hook of another kind must let through: lines, or 0. */
int script_trace_mask(const struct script *s);
/* watch.c: pcall, xpcall and coroutine functions that an interrupt passes
 * through; the hook that bounds loading. */
void script_watch_open_lj(struct script *s);
void script_watch_load(struct script *s, bool on);
/* load.c: bytes to skip at the begin of a text: BOM, then the text of a "#!"
 * line. */
size_t script_skip_begin(const char *text, size_t len);
/* require.c: the searchers of require, and the engine's own modules. */
void script_require_open_lj(struct script *s);
/* host.c: push the table that lua/streamlua gets as its second argument. */
void script_host_lj(struct script *s);
/* test_host.c: call(name, arguments) for lua/streamlua/testfile.lua. */
int script_test_call_lj(lua_State *L);
/* read.c: read(options) for lua/streamlua. */
int script_read_lj(lua_State *L);
/* texts.c: add `code` to each step with functions and `migrate_text` beside
 * each `migrate`. @return 0 or ERR_JOBFILE: the text of one is not known. */
int script_texts_lj(struct script *s, struct err *e);
/* tree.c: the table at the top of the stack as a tree; functions are
 * numbered and kept in funcs_ref. Raises on what has no place in a tree. */
struct opt *script_tree_lj(struct script *s);

/* Chunk names of the engine's Lua files begin so. */
#define SCRIPT_LIB_MARK "=streamlua."

#endif
