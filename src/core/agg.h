/*
 * Aggregates: accumulators as functions of the multiset of their inputs.
 *
 * An aggregate type is a table of functions (one file each, core/agg_*.c);
 * an `aggset` is the list of aggregates of one step, whose accumulators lie
 * side by side in one block of `size` bytes inside a table entry. An
 * accumulator may be moved with memcpy (no pointer into itself) and may own
 * heap memory (freed by fini). merge() consumes its second argument. Results
 * and merges do not depend on order (DESIGN section 7); rounding happens in
 * result() only. Custom aggregators (script/) are types of their own.
 *
 * Thread: an aggset and its accumulators belong to one subtask; a partial
 * moves between threads with its lane batch.
 */
#ifndef CORE_AGG_H
#define CORE_AGG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"
#include "core/key.h"
#include "core/rec.h"
#include "core/val.h"

enum { AGG_ARGS_MAX = 16 };

struct agg; /* one aggregate of a step */

struct agg_type {
    const char *name; /* "sum" */
    /** Bytes of an accumulator, a multiple of 8. Called once. */
    uint32_t (*size)(const struct agg *a);
    /** Make an empty accumulator. */
    void (*init)(const struct agg *a, void *acc);
    /**
     * Add one record. args[i] for i < a->nargs; nil and null are skipped by
     * the SQL rule. On failure (cause type, overflow, user_error) the
     * accumulator is as before.
     */
    int (*add)(const struct agg *a, void *acc, const struct val *args,
               const struct rec *r, struct err *e);
    /** Merge `from` into `acc`; `from` is empty afterwards even on error. */
    int (*merge)(const struct agg *a, void *acc, void *from, struct err *e);
    /** Append the result as extended JSON; sets *ext if it is no JSON. */
    int (*result)(const struct agg *a, const void *acc, struct buf *out,
                  bool *ext, struct err *e);
    /** Append a portable form (checkpoints, lanes between Lua states). */
    int (*encode)(const struct agg *a, const void *acc, struct buf *out,
                  struct err *e);
    /** Fill an init-ed accumulator from encode()'s bytes; all are used. */
    int (*decode)(const struct agg *a, void *acc, const char *bytes, size_t len,
                  struct err *e);
    /** Free what the accumulator owns. */
    void (*fini)(const struct agg *a, void *acc);
    /** Heap bytes the accumulator owns beyond its size. */
    size_t (*heap)(const struct agg *a, const void *acc);
    /** True if an accumulator can move to another thread by memcpy; else the
     * lane carries encode()'s bytes (accumulators inside a Lua state). */
    bool movable;
    /**
     * Whether add() would fail, changing nothing. NULL: only add() itself
     * knows (custom aggregators). May prepare for the add() that follows.
     */
    int (*check)(const struct agg *a, const void *acc, const struct val *args,
                 const struct rec *r, struct err *e);
    /** Deep copy into `to` (uninitialised). NULL: by encode and decode. */
    void (*dup)(const struct agg *a, const void *acc, void *to);
};

struct agg {
    const struct agg_type *type;
    const char *name;       /* result name */
    const struct opt *opts; /* the normalised call, borrowed from the plan */
    void *ctx;              /* private to the type; freed by aggset_free */
    void (*free_ctx)(void *ctx); /* NULL if ctx needs no freeing */
    key_encode_f *encode_key;
    uint32_t offset; /* of the accumulator in the block, bytes */
    uint32_t nargs;
    uint32_t first_arg; /* index of args[0] among the set's arguments */
    uint32_t kind;      /* enum agg_kind of core/agg_impl.h */
    uint32_t flags;     /* private to a built-in type */
    bool skip;          /* set by the caller of aggset_add(): its `where` does
                           not take the record */
};

/* When an accumulator block changed, see aggset_keep_times(). */
struct agg_times {
    int64_t first; /* of its first record, in order of adding */
    int64_t last;  /* the latest; INT64_MIN: it has none */
};

enum { AGG_NONE = UINT32_MAX }; /* at a place: of an aggregate that is gone */

/* How the portable form of a block is laid out. */
struct agg_places {
    uint32_t *order; /* place i is of aggregate order[i], or AGG_NONE */
    uint32_t count;
    uint32_t min; /* how many an older form has at least */
};

struct aggset {
    struct agg *aggs;
    uint32_t count;
    uint32_t nargs;   /* arguments of all aggregates together */
    uint32_t size;    /* bytes of one accumulator block */
    uint32_t customs; /* aggregates that are no built-ins */
    bool movable;     /* all types are */
    bool mergeable;   /* no custom one lacks merge or breaks its laws */
    bool takes_ints;  /* all are counts and the like, which refuse no integer
                         unless they hold strings, and none has a where */
    bool times;       /* blocks begin with a struct agg_times */
    struct agg_places places; /* without order: as they come */
};

/**
 * Build the set from the normalised `aggs` list of an aggregate step.
 *
 * Built-in functions are found by their "fn"; a custom one ("custom" and
 * "reduce") asks `custom`, which fills type, ctx and free_ctx of the agg.
 *
 * @param list OPT_LIST of maps, see plan/plan.h "aggregates"; borrowed and
 *        must outlive the set.
 * @param custom may be NULL if the list has no custom aggregator.
 * @return 0, or ERR_JOBFILE for an unknown function or bad parameter.
 * @thread the owner.
 */
typedef int agg_custom_f(void *arg, struct agg *a, struct err *e);
MUST_USE int aggset_new(const struct opt *list, key_encode_f *encode_key,
                        agg_custom_f *custom, void *arg, struct aggset **ret,
                        struct err *e);
/** Free the set (not accumulators made with it). @thread the owner. */
void aggset_free(struct aggset **s);

/** Look up a built-in by name; NULL if there is none. @thread any. */
const struct agg_type *agg_type_find(const char *fn);

/**
 * Say how the portable form is laid out, where state has an older one: a list
 * that grew or was put in another order keeps the places it had. A form that
 * ends early lacks aggregates that were added since: they are empty. What it
 * has at the place of one that is gone is skipped, and written as nothing; the
 * place is not used again, as old forms may stay.
 *
 * @param p copied; order has each index below s->count once, min is 1 to
 *          p->count.
 * @thread the owner, before anything is encoded or decoded.
 */
void aggset_set_places(struct aggset *s, const struct agg_places *p);

/**
 * Let blocks also say when they changed (results of aggregates without
 * window, which end by ttl). @thread the owner, before the first block.
 */
void aggset_keep_times(struct aggset *s);
/** The times of a block; only with s->times. */
static inline struct agg_times *
aggset_times(void *block)
{
    return block;
}
/** Note that a record of time `ts` was added to a block. */
void aggset_touch(const struct aggset *s, void *block, int64_t ts);

/** Initialise a block of s->size bytes. */
void aggset_init(const struct aggset *s, void *block);
/**
 * Add one record to all aggregates, or to none: when one fails, the others
 * are as before. Built-ins are checked before anything is added; of several
 * custom ones all but the last are undone by their encoded form.
 *
 * Those whose `skip` is set are left out.
 *
 * @param args s->nargs values, each aggregate's from its first_arg on.
 * @return 0, or ERR_RECORD (cause type, decode, bigint, user_error).
 */
MUST_USE int aggset_add(const struct aggset *s, void *block,
                        const struct val *args, const struct rec *r,
                        struct err *e);
/**
 * Merge block `from` into `block`; `from` is consumed, also on failure.
 *
 * Custom aggregators come last. After a failure the row is lost: what failed
 * is left as it was or spoilt (min, max, min_by and max_by over numbers and
 * strings: their result() fails from then on), the rest is merged.
 * @return 0, or the first failure: ERR_RECORD (cause type, user_error).
 */
MUST_USE int aggset_merge(const struct aggset *s, void *block, void *from,
                          struct err *e);
/** Deep copy of a block into `to` (uninitialised), for hopping windows. */
MUST_USE int aggset_dup(const struct aggset *s, const void *block, void *to,
                        struct err *e);
/**
 * Append the result of one aggregate as extended JSON; sets *ext if it is no
 * JSON. (The row is the caller's; this is a->type->result.)
 */
MUST_USE int agg_result(const struct agg *a, const void *block, struct buf *out,
                        bool *ext, struct err *e);
/**
 * Portable form of a whole block, and back (into an init-ed block, which is
 * the caller's to fini also after a failure).
 * @return 0, ERR_IO for damaged bytes, or a custom type's error.
 */
MUST_USE int aggset_encode(const struct aggset *s, const void *block,
                           struct buf *out, struct err *e);
MUST_USE int aggset_decode(const struct aggset *s, void *block,
                           const char *bytes, size_t len, struct err *e);
/** Free what a block owns. */
void aggset_fini(const struct aggset *s, void *block);
/** Heap bytes owned by a block. */
size_t aggset_heap(const struct aggset *s, const void *block);

#endif
