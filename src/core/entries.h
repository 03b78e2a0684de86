/*
 * Entries of keyed state: the header that all of them begin with, and how
 * rounds know which have changed.
 *
 * Used by kstate and timers. Two bits take turns, so that a barrier touches
 * no entry: those that changed in the round under way carry `dirty_bit` and
 * stand in the list `dirty`; those that are frozen and not saved yet carry
 * the other one and stand in `frozen`.
 *
 * | flags         | touched             | saved        | removed             |
 * | neither bit   | + dirty_bit, listed |              | del if ENTRY_KEPT   |
 * | dirty_bit     |                     | (not yet)    | del if ENTRY_KEPT   |
 * | the other bit | saved first, then   | + ENTRY_KEPT | saved first, then   |
 * |               | as neither          |              | del                 |
 *
 * A deletion goes into the round under way; of one name the last change
 * counts, so one that is put again later in the round is there.
 *
 * `place` of an entry that has changed is its place in a list; of one that is
 * clean it is the generation that saved it: how many barriers there had been
 * (0: it was loaded). So an owner that gives entries up knows which are in a
 * durable round.
 *
 * Owner: one subtask. Limits: 2^32 - 1 entries in a list.
 */
#ifndef CORE_ENTRIES_H
#define CORE_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/snapshot.h"

/* Flags of an entry; the other bits are the owner's. */
enum {
    ENTRY_A = 1u,
    ENTRY_B = 2u,
    ENTRY_CHANGED = ENTRY_A | ENTRY_B,
    ENTRY_KEPT = 4u, /* a round has put it */
    ENTRY_OWN = 8u   /* the first of the owner's bits */
};

/* At the begin of whatever can be indexed and saved. 16 bytes. */
struct entry {
    uint32_t hash;  /* for entry_index */
    uint32_t place; /* in the list it stands in; clean: generation */
    uint8_t flags;  /* ENTRY_... */
    uint8_t type;   /* the owner's */
    uint16_t small; /* the owner's: of a key its key group */
    uint32_t extra; /* the owner's: of a key its length */
};

enum { LIST_PIECE_BITS = 9, LIST_PIECE = 1 << LIST_PIECE_BITS };

/* Pointers to entries, in pieces, so that it grows without a pause; one that
 * left is a hole, odd and with the place of the next hole in it, to be used
 * again. */
struct entry_list {
    uintptr_t **pieces; /* of LIST_PIECE */
    size_t piece_n, piece_cap;
    size_t n, holes;
    uint32_t hole; /* place of the first one + 1, 0: there is none */
};

struct entry_rounds;

/** Put what is frozen of an entry into r->into, and clear its frozen bit. */
typedef void entry_rounds_save_f(void *arg, struct entry *en);

struct entry_rounds {
    uint8_t dirty_bit;        /* 0: nothing is tracked */
    uint32_t max_parallelism; /* 0: nothing is tracked */
    uint32_t generation;      /* barriers so far */
    struct snapshot *next;    /* deletions of the round under way */
    struct snapshot *into;    /* borrowed: of the frozen round, until saved */
    struct entry_list dirty, frozen;
    entry_rounds_save_f *save;
    void *arg;
};

/** Track nothing yet. @thread the owner. */
void entry_rounds_init(struct entry_rounds *r, entry_rounds_save_f *save,
                       void *arg);
void entry_rounds_fini(struct entry_rounds *r);
/** Track changes, by key groups of `max_parallelism`. Before any entry. */
void entry_rounds_track(struct entry_rounds *r, uint32_t max_parallelism);

/** Whether an entry with these flags waits to be saved. */
static inline bool
entry_rounds_is_frozen(const struct entry_rounds *r, uint8_t flags)
{
    return r->into != NULL &&
           (flags & (ENTRY_CHANGED ^ r->dirty_bit) & ENTRY_CHANGED) != 0;
}

/** The slow half of entry_rounds_touch(). */
void entry_rounds_touch_slow(struct entry_rounds *r, struct entry *en);
/** Before an entry changes. */
static inline void
entry_rounds_touch(struct entry_rounds *r, struct entry *en)
{
    if ((en->flags & r->dirty_bit) != r->dirty_bit)
        entry_rounds_touch_slow(r, en);
}
/**
 * Before an entry is freed: it leaves the lists, saved if it is frozen.
 * The caller deletes it in r->next if it is ENTRY_KEPT after that.
 */
void entry_rounds_leave(struct entry_rounds *r, struct entry *en);

/**
 * Set apart what changed; O(1). Nothing may be frozen still.
 * @return the snapshot of `round`, the caller's.
 */
struct snapshot *entry_rounds_freeze(struct entry_rounds *r, uint64_t round);
/**
 * The next frozen entry, which leaves the list with its frozen bit set, or
 * NULL: the round is saved (r->into is NULL then).
 */
struct entry *entry_rounds_frozen(struct entry_rounds *r);
/** How many entries have changed since the last barrier, or are frozen. */
static inline size_t
entry_rounds_changed(const struct entry_rounds *r)
{
    return r->dirty.n - r->dirty.holes + (r->frozen.n - r->frozen.holes);
}
/** Bytes of memory held by the lists. */
size_t entry_rounds_bytes(const struct entry_rounds *r);

#endif
