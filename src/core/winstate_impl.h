/*
 * The parts of window state, for the files core/winstate*.c only.
 *
 * | file             | has                                             |
 * | winstate.c       | slices, adding and merging                      |
 * | winstate_fire.c  | firing, late rows, purging                      |
 * | winstate_save.c  | rounds: what is dirty, freezing, saving, loading |
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
 */
#ifndef CORE_WINSTATE_IMPL_H
#define CORE_WINSTATE_IMPL_H

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
};

struct entry_list {
    struct table_entry **items;
    size_t n, cap;
};

struct slice {
    int64_t start, first;
    struct table table;
    struct entry_list dirty;  /* became dirty since the last barrier */
    struct entry_list frozen; /* at the last barrier, not looked at yet */
};

struct firing {
    bool active, owned; /* owned: `merged` was made for this window */
    int64_t start, end;
    const struct table *table;
    struct table merged;
    struct table_iter iter;
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
    struct table_iter doomed_iter;
    /* Rounds; max_parallelism = 0: nothing is tracked and dirty_bit is 0. */
    uint32_t max_parallelism;
    uint32_t dirty_bit;
    struct snapshot *next;   /* deletions of the round under way */
    struct snapshot *into;   /* borrowed: of the frozen round, until saved */
    uint64_t frozen_left;    /* in the slices' lists */
    uint32_t save_at;        /* slice looked at last */
    struct err *unsaved_why; /* of the newest entry that was not encoded */
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
/** Why accumulators that could not be encoded are lost. */
const struct err *winstate_unsaved_why(struct winstate *w);

#endif
