/*
 * The parts of window state, for the files core/winstate*.c only.
 *
 * | file             | has                                             |
 * | winstate.c       | slices, adding and merging                      |
 * | winstate_fire.c  | firing, late rows, purging                      |
 * | winstate_save.c  | rounds: what is dirty, freezing, saving, loading |
 * | winstate_cache.c | a bounded memory over the store                 |
 * | winstate_ttl.c   | keys without window that end by ttl             |
 *
 * An entry and the rounds. Two bits take turns: entries of the round under
 * way carry w->dirty_bit, those that are frozen and not saved yet the other
 * one, so that a barrier touches no entry.
 *
 * | flags               | touched                 | saved     | purged      |
 * | neither bit         | + dirty_bit, listed     |           | del *       |
 * | dirty_bit           |                         | (not yet) | del *       |
 * | the other bit       | saved first, then as    | PERSISTED | saved, then |
 * |                     | neither                 |           | del         |
 * * if PERSISTED: some earlier round has put it; the next one deletes it.
 *
 * A bounded memory (winstate_cache()). A slice has two tables. What is new or
 * touched goes into the young one: an entry of the old one moves there with
 * its block, and its old place says MOVED. When the memory is full the old
 * table is given up and the young one becomes old. An entry of the old table
 * may only be given up if it is clean and the round that saved it is durable:
 * then it is `evicted`, in the store only; a dirty one moves to the young
 * table. Memory is always newer than the store: an entry that is found in a
 * table is never asked for there.
 */
#ifndef CORE_WINSTATE_IMPL_H
#define CORE_WINSTATE_IMPL_H

#include "core/entries_filter.h"
#include "core/winstate.h"

/* Flags of a table entry. */
enum {
    ENTRY_TYPES = 1u,   /* a merge met values of different types */
    ENTRY_UNSAVED = 2u, /* its accumulators could not be encoded */
    ENTRY_LOST = ENTRY_TYPES | ENTRY_UNSAVED, /* its row will be an error */
    ENTRY_PERSISTED = 4u,                     /* a round has put it */
    ENTRY_DIRTY_A = 8u,
    ENTRY_DIRTY_B = 16u,
    ENTRY_DIRTY = ENTRY_DIRTY_A | ENTRY_DIRTY_B,
    ENTRY_MOVED = 32u, /* only in an old table: nothing is here any more */
    ENTRY_ROUND = 6,   /* bits from here on: the round that saved it, modulo */
    ENTRY_ROUNDS = 64,
};

/* Of a value in the store: flags and count, then the accumulators. */
enum { WINSTATE_VALUE_HEAD = 5 };

struct entry_list {
    struct table_entry **items;
    size_t n, cap;
};

struct slice {
    int64_t start, first;
    struct table young, old;
    uint32_t moved;             /* entries of `old` that are not there */
    struct entry_list dirty;    /* became dirty since the last barrier */
    struct entry_list frozen;   /* at the last barrier, not looked at yet */
    bool partly;                /* some of it may be in the store only */
    uint64_t evicted;           /* how many, about */
    struct entry_filter filter; /* of what may be in the store only; always:
                                   it would be too large or is not known */
    struct table_iter drop;     /* in `old`: how far it is given up */
};

/* Walks the entries of a slice that are in memory. Zeroed: from the first. */
struct slice_iter {
    bool old;
    struct table_iter in;
};

struct table_entry *winstate_slice_next(const struct slice *s,
                                        struct slice_iter *i);

/* A place in the store's entries of one namespace in the own key groups. */
struct store_place {
    bool begun;     /* the rest is valid */
    bool behind;    /* go on behind `key` */
    uint32_t group; /* being walked */
    struct buf key;
};

/*
 * How the rows of a window are made:
 * | FIRE_SLICE  | it is one slice: its entries, then those in the store    |
 * | FIRE_MERGED | several, all in memory: merged into one table            |
 * | FIRE_GROUPS | several, some in the store: merged key group by key group |
 */
enum fire_kind { FIRE_NOTHING, FIRE_SLICE, FIRE_MERGED, FIRE_GROUPS };

struct firing {
    bool active;
    enum fire_kind kind;
    int64_t start, end;
    const struct slice *only; /* FIRE_SLICE */
    struct slice_iter iter;
    bool iter_done;
    struct store_place place;
    struct table merged;
    struct table_iter merged_iter;
    uint32_t group;                /* FIRE_GROUPS: the next to be merged */
    struct table_entry **by_group; /* all in memory, by key group */
    size_t *group_at;              /* where each own group begins in it */
};

/* Purged, and entries of it may still be in the store. */
struct sweep {
    int64_t start, first;
};

struct winstate {
    struct window_spec spec;
    const struct aggset *set;
    struct slice **slices; /* sorted by (start, first) */
    size_t slice_cap;
    uint32_t slice_count, recent;
    int64_t wm;     /* reached */
    int64_t target; /* being reached */
    int64_t last_end;
    struct firing fire;
    struct table late; /* key: window start, canonical key */
    struct table_iter late_iter;
    int64_t late_purge; /* first watermark that purges a window in `late` */
    bool flush_late;
    void *scratch; /* one block */
    /* Slices that are purged in pieces; doomed_iter is in the last one. */
    struct slice **doomed;
    size_t doomed_cap;
    uint32_t doomed_count;
    struct slice_iter doomed_iter;
    /* Rounds; max_parallelism = 0: nothing is tracked and dirty_bit is 0. */
    uint32_t max_parallelism;
    uint32_t dirty_bit;
    struct snapshot *next;   /* deletions of the round under way */
    struct snapshot *into;   /* borrowed: of the frozen round, until saved */
    uint64_t frozen_left;    /* in the slices' lists */
    uint32_t save_at;        /* slice looked at last */
    struct err *unsaved_why; /* of the newest entry that was not encoded */
    uint64_t last_round;     /* of the newest barrier, 0 = none */
    uint64_t round_before;   /* of the one before it */
    uint64_t saved;          /* entries saved in the newest */
    /* A bounded memory; budget = 0: all of it stays here. */
    size_t budget, filter_bytes;
    struct entry_store store;
    bool dropping; /* old tables are being given up */
    bool asked;    /* for a round, since the last barrier */
    uint32_t sample;
    uint64_t heap_mean; /* bytes a block owns, times 16 */
    struct sweep *sweeps;
    size_t sweep_cap;
    uint32_t sweep_count;
    struct store_place swept; /* in the last one */
    /* Keys that end by ttl. */
    bool expiring;      /* a pass is under way */
    int64_t cut;        /* of the newest pass: what changed last up to here */
    int64_t pass_ms;    /* when it began, monotonic */
    uint64_t pass_left; /* keys it left */
    struct store_place expired;
};

/* ---- winstate.c ---- */

/** Index of the first slice not below (start, first). */
uint32_t winstate_lower_bound(const struct winstate *w, int64_t start,
                              int64_t first);
struct slice *winstate_slice_get(struct winstate *w, int64_t start,
                                 int64_t first);
/** End of the last window of a slice. */
int64_t winstate_last_end(const struct winstate *w, int64_t start);
/** The watermark that purges a window which ends at `end`. */
int64_t winstate_purge_at(const struct winstate *w, int64_t end);
/** Free a table and what its blocks own. */
void winstate_table_drop(const struct winstate *w, struct table *t);
void winstate_slice_free(struct winstate *w, struct slice *s);

/** Add to the count of an entry, up to UINT32_MAX. */
static inline void
winstate_count(struct table_entry *en, uint32_t more)
{
    en->count = en->count > UINT32_MAX - more ? UINT32_MAX : en->count + more;
}

/* ---- winstate_fire.c ---- */

/**
 * Free up to `max` entries of purged slices: frozen ones are saved, those of
 * earlier rounds become deletions of the next.
 * @return whether more are left.
 */
bool winstate_purge(struct winstate *w, uint32_t max);

/* ---- winstate_save.c ---- */

/** Flags of an entry that the newest round saved. */
static inline uint32_t
winstate_round_bits(const struct winstate *w)
{
    return (uint32_t)(w->last_round % ENTRY_ROUNDS) << ENTRY_ROUND;
}

void winstate_touch_slow(struct winstate *w, struct slice *s,
                         struct table_entry *en);
/** Before an entry changes (a fresh one's block need not be initialised). */
static inline void
winstate_touch(struct winstate *w, struct slice *s, struct table_entry *en)
{
    if ((en->flags & w->dirty_bit) != w->dirty_bit)
        winstate_touch_slow(w, s, en);
}
/** Before a purged entry is freed. */
void winstate_forget(struct winstate *w, const struct slice *s,
                     struct table_entry *en);
void winstate_ns(unsigned char ns[WINSTATE_NS_SIZE], int64_t start,
                 int64_t first);
struct snapshot_key winstate_key(const struct winstate *w, uint64_t hash,
                                 const void *key, uint32_t len,
                                 const unsigned char *ns);
/**
 * Initialise `block` and decode a value into it; the block is the caller's
 * to fini, also after a failure.
 * @param ret_flags ENTRY_LOST bits.
 */
MUST_USE int winstate_decode(struct winstate *w, const void *value,
                             size_t value_len, void *block, uint32_t *ret_count,
                             uint32_t *ret_flags, struct err *e);
/** Append an entry to a list of its slice. */
void winstate_list(struct entry_list *l, struct table_entry *en);
/** Why accumulators that could not be encoded are lost. */
const struct err *winstate_unsaved_why(struct winstate *w);

/* ---- winstate_cache.c ---- */

/**
 * Find the entry of a key, wherever it is, and bring it into the young table.
 * @param head hash, key, key_len.
 * @param ret  set; NULL if there is none.
 * @return 0, or what the store says.
 */
MUST_USE int winstate_find(struct winstate *w, struct slice *s,
                           const struct partial *head, struct table_entry **ret,
                           struct err *e);
/** Move an entry of the old table, with its block, to the young one. */
struct table_entry *winstate_move(struct winstate *w, struct slice *s,
                                  struct table_entry *o);
/** The young tables become old: all old ones are empty. */
void winstate_turn(struct winstate *w);
/** Free an old table of which every entry has MOVED. */
void winstate_old_free(struct winstate *w, struct slice *s);
/** Whether a key of a slice is in memory. */
bool winstate_holds(const struct slice *s, uint64_t hash, const void *key,
                    uint32_t len);
/**
 * Walk what the store has of a namespace, from `at` on, until `f` gives 1.
 * @return 1 it did, 0 at the end, < 0. `at` is behind what f took.
 */
MUST_USE int winstate_walk(struct winstate *w, int64_t start, int64_t first,
                           struct store_place *at, entry_stored_f *f, void *arg,
                           struct err *e);
/** As winstate_walk(), of one key group. */
MUST_USE int winstate_walk_group(struct winstate *w, int64_t start,
                                 int64_t first, struct store_place *at,
                                 entry_stored_f *f, void *arg, struct err *e);
/** Remember that what the store has of a slice is to be deleted. */
void winstate_sweep_add(struct winstate *w, int64_t start, int64_t first);
void winstate_filters_free(struct winstate *w, struct slice *s);

#endif
