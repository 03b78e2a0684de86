/*
 * Timers of one clock: (ts, key) pairs, unique, given back in order of ts,
 * then of key.
 *
 * Used by kstate; functions meet them as kstate_timer_*(). A queue of eight
 * wheels of 256 buckets, one a byte of ts: a timer lies in the wheel of the
 * first byte in which its ts differs from the time reached, and moves down at
 * most once a wheel until its bucket is one millisecond, whose timers are
 * then ordered by key, as far as they are asked for. Adding, finding and
 * removing take constant time, wherever a timer lies. What is added for a time
 * that is reached already waits in a heap and comes first.
 *
 * Memory: 32 bytes a timer, about 14 in the index and 12 in the queue; the
 * key is shared with the state of the key. 16 more while the timers of one
 * millisecond are being given back.
 * Owner: one subtask. Limits: 2^32 - 1 timers of one ts.
 */
#ifndef CORE_TIMERS_H
#define CORE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/entries.h"
#include "core/entries_index.h"
#include "core/entries_sort.h"

/* Where a timer is; else in a wheel. */
enum { TIMER_EARLY = ENTRY_OWN, TIMER_DUE = ENTRY_OWN << 1 };

/* A timer. `e.place` is for the rounds, `e.extra` its place in the queue. */
struct timer {
    struct entry e;
    int64_t ts;
    struct entry *key; /* borrowed: of the same key the same pointer */
};

enum { TIMERS_WHEELS = 8, TIMERS_BUCKETS = 256 };

struct timer_bucket {
    struct timer **items;
    uint32_t n, cap;
};

struct timer_wheel {
    uint64_t filled[TIMERS_BUCKETS / 64]; /* which buckets are not empty */
    struct timer_bucket buckets[TIMERS_BUCKETS];
};

struct timers {
    uint32_t key_at; /* bytes of a key: this far behind its entry */
    struct entry_index index;
    struct timer_wheel *wheels[TIMERS_WHEELS]; /* made when needed */
    uint64_t reached;      /* ts with the sign bit flipped */
    bool open;             /* those of that ts are in `due` */
    struct entry_sort due; /* in order from due_at on */
    size_t due_at;
    struct timer_bucket early; /* a heap: added for a time that is reached */
    size_t bytes;              /* held by buckets and wheels */
};

/**
 * Make an empty queue.
 * @param key_at where the bytes of a key lie (their count is its `extra`).
 * @thread the owner.
 */
void timers_init(struct timers *t, uint32_t key_at);
/** Free all timers (not the keys). @thread the owner. */
void timers_fini(struct timers *t);

/** The timer of (ts, key), or NULL. @thread the owner. */
struct timer *timers_find(const struct timers *t, const struct entry *key,
                          int64_t ts);
/** Add the timer of (ts, key), which must not be there. */
struct timer *timers_add(struct timers *t, struct entry *key, int64_t ts);
/** Take a timer out; it is the caller's. */
void timers_unlink(struct timers *t, struct timer *tm);
/** Put one back that was taken out. */
void timers_link(struct timers *t, struct timer *tm);
/** Free one that was taken out. */
void timers_drop(struct timers *t, struct timer *tm);

/**
 * The first timer with ts <= limit, in order of (ts, key), or NULL. It stays
 * where it is. `limit` may go back; what is due by then is known anew.
 */
struct timer *timers_due(struct timers *t, int64_t limit);
/**
 * A time that is not later than that of the first timer, and closer the
 * nearer it is: sleep until then and ask again.
 * @return false if there is no timer.
 */
bool timers_bound(const struct timers *t, int64_t *ret);

/** How many there are. */
static inline size_t
timers_count(const struct timers *t)
{
    return t->index.count;
}
/** Bytes of memory held. */
size_t timers_bytes(const struct timers *t);

#endif
