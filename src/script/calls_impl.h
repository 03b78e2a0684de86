/*
 * Inside of the running half of script/: records and views as Lua sees them.
 *
 * A `lrec` is one record bound for Lua: the borrowed struct rec, the reader
 * of its segment, and (once needed) its value tree. A handle is the userdata
 * of a record, a view that of a list or map in it; both carry the lrec's
 * generation at the time they were made and are refused when it has moved
 * on. The handle of a call is used again by the next one only if the called
 * function cannot have kept it (keeps.c); others come from a stock of
 * HANDLES, made at once, so that what was kept stays invalid. Owned records
 * (s.copy, s.row, s.tombstone) have lrec and bytes inside their userdata.
 *
 * Thread: the owner of the script. Nothing here outlives the Lua state.
 */
#ifndef SCRIPT_CALLS_IMPL_H
#define SCRIPT_CALLS_IMPL_H

#include <string.h>

#include "script/node.h"
#include "script/script_impl.h"

/* CALLS_SLOTS: what calls_stack() keeps below every call. */
enum { CALLS_SLOTS = 3, HANDLES = 16, KEY_CACHE = 512, LUA_COLUMNS_MAX = 64 };

enum { SET_KEY = 1, SET_TS = 2, SET_HEADERS = 4 };

struct lrec {
    struct calls *c;
    const struct rec *rec; /* what Lua sees; `own` once it was changed */
    struct rec own;
    struct reader *reader; /* NULL: fields are found in the tree */
    struct tree tree;
    uint64_t gen;   /* of the running binding */
    bool readonly;  /* no assignment in this call */
    bool owned;     /* lives inside a userdata */
    bool fresh;     /* made by s.row: what is not set is inherited */
    uint8_t set;    /* SET_...: what user code has set */
    uint32_t views; /* views made (call records: in calls->views) */
    size_t held;    /* bytes of the arenas, as counted in script.held */
    struct arena meta_arena; /* key and headers, set or read by user code */
};

struct handle {
    struct lrec *r;
    uint64_t gen;
};

struct owned { /* userdata of an owned record; bytes follow */
    struct handle h;
    struct lrec r;
};

struct view {
    struct lrec *r;
    uint64_t gen;
    struct node *node;
};

/* Column of a field name, by the address of Lua's interned string. */
struct key_slot {
    const char *name;
    struct reader *reader;
    uint32_t column;
};

struct agg_state; /* agg.c */

/* s.null is the light userdata of this address. */
extern const char calls_null;

struct calls {
    struct script *s;
    int base; /* stack: base+1 handler, +2 functions, +3 handles */
    int handles_ref, handle_mt_ref;
    struct lrec cur;                 /* the record of the running call */
    struct handle *handles[HANDLES]; /* those below next_handle are used up */
    uint32_t next_handle;
    bool kept;      /* user code may hold the handle of the last call */
    uint8_t *keeps; /* by function number: 1 no, 2 yes, 0 not known yet */
    int keeps_count;
    int views_ref;  /* table slot -> view of call records */
    uint32_t views; /* used slots */
    int keys_ref;   /* table that keeps cached names alive */
    uint32_t keys;  /* names in it */
    struct key_slot key_slots[KEY_CACHE];
    int list_mt_ref, map_mt_ref;
    const void *record_mt, *owned_mt, *view_mt, *list_mt, *map_mt,
        *retriable_mt;
    struct err bad;      /* decode error met while Lua read; code 0: none */
    struct batch *emit;  /* where flat_map's emit() puts records, or NULL */
    struct err emit_err; /* why an emit() failed */
    size_t emitted;      /* bytes of what this call emitted */
    int emit_ref, law_ref, law_load_ref, law_reduce_ref;
    struct buf buf;   /* text being made */
    struct arena tmp; /* short-lived bytes, reset for each conversion */
    uint8_t *is_key;  /* by function number: a key function of key_by */
    int is_key_count;
    struct agg_state *aggs;
    struct lrec **batch; /* records of a sink's batch; never moved */
    uint32_t batch_cap;
    const struct rec *agg_rec; /* script_agg_record() */
    struct reader *agg_reader;
};

static inline struct calls *
calls_of(lua_State *L)
{
    return script_of(L)->calls;
}

/* calls.c */
/** Prepare L's stack for calls (first call only) and return it. */
lua_State *calls_stack(struct calls *c);
/** Whether function `func` can keep its parameter `param` (from 0). */
bool calls_keeps(struct calls *c, int func, unsigned param);
/** Bind the call record and push its handle.
 * @param keeps calls_keeps() of the function that will get it. */
void calls_bind(struct calls *c, const struct rec *r, struct reader *reader,
                bool readonly, bool keeps);
/** The call record is no longer valid; its tree and views are dropped. */
void calls_unbind(struct calls *c);
/**
 * Call the function below `nargs` arguments on the stack.
 *
 * @return 0 with `nresults` results; ERR_RECORD with none: the function's
 *         error, or the decode error it met (whether or not it caught it).
 */
MUST_USE int calls_call(struct calls *c, int nargs, int nresults,
                        struct err *e);
/** Push function `func`. */
void calls_push_func(struct calls *c, int func);
/** user_error of function `func`, with its place. @return ERR_RECORD. */
int calls_fail(struct calls *c, int func, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/** Set e's place to that of function `func`. */
void calls_place(struct calls *c, int func, struct err *e);
/** Raise "not enough memory" unless `more` bytes fit below the cap, with what C
 * holds for the state; looks for garbage first. */
void calls_room_lj(lua_State *L, size_t more);
/** Count `bytes` that an emit took, and its record. May raise. */
void calls_emitted_lj(lua_State *L, size_t bytes);
/** Remember a decode error and raise it in Lua. Does not return. */
int calls_raise_lj(lua_State *L, const struct err *e);

/* record.c */
void record_open(struct calls *c, lua_State *L);
void lrec_init(struct lrec *r, struct calls *c);
void lrec_fini(struct lrec *r);
/** Bind `lr` to a borrowed record, dropping what it held. */
void lrec_bind(struct lrec *lr, const struct rec *r, struct reader *reader,
               bool readonly);
/** Give back the memory of `lr`, which nobody reads any more. */
void lrec_release(struct lrec *lr);
/** The slow half of lrec_count_lj(). */
void lrec_recount_lj(lua_State *L, struct lrec *lr, size_t now);

/** Count the memory of `lr` after something was read or written in it; raises
 * when the state has more than its cap. */
static inline void
lrec_count_lj(lua_State *L, struct lrec *lr)
{
    size_t now = lr->tree.arena.total + lr->meta_arena.total;

    if (now != lr->held)
        lrec_recount_lj(L, lr, now);
}

/** Push a new handle on `lr` (no owned record). May raise. */
struct handle *record_push_handle_lj(lua_State *L, struct lrec *lr);
/** Push an owned record with copies of r's bytes. May raise. */
struct lrec *record_push_owned_lj(lua_State *L, const struct rec *r);
/** The record at `idx` if it is one (valid or not), else NULL. */
struct lrec *record_at(lua_State *L, int idx, bool *ret_valid);
/** The valid record at `idx`, else an error naming `what`. May raise. */
struct lrec *record_check_lj(lua_State *L, int idx, const char *what);
/** The root map's node. @return 0 or ERR_RECORD. */
MUST_USE int record_root(struct lrec *lr, struct node **ret, struct err *e);
/** Push a scalar value (not list, map). May raise for lack of memory. */
void record_push_scalar_lj(lua_State *L, const struct val *v, bool nulls);
/** Push the value of a node: scalar or view. `owner` is the index of the
 * record's userdata when it is owned. May raise. */
void record_push_node_lj(lua_State *L, struct lrec *lr, struct node *n,
                         int owner, bool nulls);
/** New node for the Lua value at `idx` (nil: NULL). May raise. */
struct node *record_node_lj(lua_State *L, struct lrec *lr, int idx);
/** Raise unless the record may be written. */
void record_check_write_lj(lua_State *L, const struct lrec *lr);
/** The record as it is now, in `ret`: bytes in `a` unless borrowed from the
 * record that was bound. `base` gives what a new record inherits. */
MUST_USE int record_take(struct calls *c, struct lrec *lr,
                         const struct rec *base, struct arena *a,
                         struct rec *ret, struct err *e);
/** Copy key and headers of `r` to `a`. */
void record_own_meta(struct rec *r, struct arena *a);
/** Raise "record used after its call". Does not return. */
int record_stale_lj(lua_State *L);

/** s.has(e, f). */
int record_has_lj(lua_State *L);

/* view.c */
void view_open(struct calls *c, lua_State *L);
void view_set_metatable_lj(lua_State *L);
/** The view at `idx` if it is one, else NULL. */
struct view *view_at(lua_State *L, int idx, bool *ret_valid);

/** keeps.c: whether the function on top of the stack can keep its parameter
 * number `param`, from 0. Never raises. */
bool keeps_param(lua_State *L, unsigned param);

/* conv.c: values of Lua as text, and back */
/** Append the value at `idx` as (extended) JSON. Never raises.
 * @return 0, or ERR_RECORD: user_error with the path, or decode. */
MUST_USE int conv_put(struct calls *c, lua_State *L, int idx, struct buf *out,
                      bool *ext, struct err *e);
/** Push a value (its text) as plain Lua data, nulls as s.null. May raise
 * for lack of memory only. @return 0 (pushed) or ERR_RECORD (not). */
int conv_push_lj(struct calls *c, lua_State *L, const struct val *v,
                 enum json_bigint bigint, bool ext, struct err *e);
/** The value at `idx` as struct val, bytes in `a`. Never raises. */
MUST_USE int conv_value(struct calls *c, lua_State *L, int idx, struct arena *a,
                        struct val *ret, struct err *e);
/** Mark the table on top as list or map. */
void conv_mark_lj(struct calls *c, lua_State *L, bool map);

/* pack.c: plain data of Lua as portable bytes */
MUST_USE int pack_put(struct calls *c, lua_State *L, int idx, struct buf *out,
                      struct err *e);
/** As pack_put(); tables that are neither list nor map are refused. */
MUST_USE int pack_put_state(struct calls *c, lua_State *L, int idx,
                            struct buf *out, struct err *e);

/* A number as pack_put() writes it: what most state is. */
enum { PACK_NUMBER = 9 };

struct pack_number {
    bool is_int;
    union {
        int64_t i;
        double d;
    } u;
};

static inline void
pack_put_number(char out[PACK_NUMBER], const struct pack_number *n)
{
    uint64_t bits;
    int i;

    memcpy(&bits, &n->u, sizeof bits);
    out[0] = n->is_int ? 'i' : 'd';
    for (i = 0; i < 8; i++)
        out[i + 1] = (char)(bits >> (8 * i));
}

/** @return false if these are the bytes of something else. */
static inline bool
pack_get_number(const char *p, size_t len, struct pack_number *ret)
{
    uint64_t bits = 0;
    int i;

    if (len != PACK_NUMBER || (p[0] != 'i' && p[0] != 'd'))
        return false;
    for (i = 0; i < 8; i++)
        bits |= (uint64_t)(unsigned char)p[i + 1] << (8 * i);
    ret->is_int = p[0] == 'i';
    memcpy(&ret->u, &bits, sizeof bits);
    return true;
}

/** Push what pack_put() wrote. @return 0 (pushed) or ERR_RECORD (not). May
 * raise for lack of memory. */
int pack_push_lj(struct calls *c, lua_State *L, const char *bytes, size_t len,
                 struct err *e);
/** Push a deep copy of the plain value at `idx`. May raise. */
void pack_copy_lj(lua_State *L, int idx, int depth);

/* call.c */
void call_open_lj(struct calls *c, lua_State *L);
/** The result of a function (at `idx`) as a record that inherits from the
 * call's record; its bytes in `a` unless borrowed. `what` is "map".
 * Never raises. @return 0 or ERR_RECORD. */
MUST_USE int call_take_record(struct calls *c, lua_State *L, int idx,
                              const char *what, struct arena *a,
                              struct rec *ret, struct err *e);

/* sink.c */
/** Make room for `n` bound records in c->batch; user code may hold old handles
 * on them, so they keep their addresses. */
void calls_batch(struct calls *c, uint32_t n);

/* law.c */
enum { LAW_TEXT_MAX = 400 };

/** Functions of a custom aggregator by number, and its arguments. */
struct law {
    int init, add, merge, result;
    uint32_t nargs; /* 0: add(acc, e) */
    int reduce;     /* that of reduce: there is no other then */
};
void law_open_lj(struct calls *c, lua_State *L);
/**
 * Test the laws on the list of inputs at the top of the stack (popped):
 * records, or lists of arguments. Only what the last input adds to earlier
 * tests is tried.
 *
 * @param text set to the counter-example, "" if all hold.
 * @thread the owner.
 */
void law_test_newest(struct calls *c, const struct law *l,
                     char text[LAW_TEXT_MAX]);

/* The laws of an aggregate on the first real records. Zeroed but for law, on,
 * max, name and place: none was seen. */
struct law_feed {
    struct law law;
    bool on;
    uint32_t seen, max; /* records */
    int inputs_ref;
    const char *name, *place; /* in the plan's tree */
};
/**
 * Test the laws on one more record, or its arguments.
 * @param args nargs values. @return 0, or ERR_FAIL with the counter-example.
 */
MUST_USE int law_feed_test(struct calls *c, struct law_feed *f,
                           const struct val *args, const struct rec *r,
                           struct err *e);

/** Begin with new records; those seen count on. */
void law_feed_forget(struct calls *c, struct law_feed *f);

/* helpers.c */
void helpers_open(struct calls *c, lua_State *L, int module);

/* agg.c */
void agg_state_free(struct calls *c);

/* migrate.c */
/**
 * Push what function `func`, a migrate, makes of packed bytes.
 * @return 0, or with nothing pushed ERR_JOBFILE with a place (it failed or
 *         gave nil) or the error of damaged bytes.
 */
MUST_USE int migrate_push(struct calls *c, int func, const char *bytes,
                          size_t len, struct err *e);
/**
 * Pack the value on top, which stays; as a value of a handle if `state`.
 * @return 0, or ERR_JOBFILE (popped): it is no plain data.
 */
MUST_USE int migrate_put(struct calls *c, int func, bool state, struct buf *out,
                         struct err *e);

/* reduce.c */
/** fold(f, a, b): what reduce makes of two owned records, which stay as they
 * are. For law.c. */
int reduce_fold_lj(lua_State *L);
/** script_agg() of an aggregate whose fn is "reduce". */
void reduce_agg(struct script *s, struct agg *a);

#endif
