/*
 * Keyed state of functions: the values, lists, maps and accumulators that one
 * subtask of a process or dedup step keeps for each key, and its timers.
 *
 * Used by op_process, op_dedup and the handles of script/. A handle is named
 * by its place in the step's `state`. Values are opaque bytes. All calls are
 * about the current key, which kstate_key() looks up once.
 *
 *   kstate_key(k, ...)       or kstate_timer_next(): the key
 *   kstate_now(k, ...)       what the clocks say in this call
 *   kstate_begin(k)          then user code: get, set, add, timers, ...
 *   kstate_commit(k)         or kstate_undo(k): all is as at begin
 *
 * Bytes that were read are valid until the same value, map entry or list
 * changes. Between begin and end a walk goes on whatever is changed; it ends
 * with the call, without begin with the next change of the map or list.
 *
 * Time to live, for each value, accumulator, map entry and list element of
 * its own: what was written (or read, with ttl_read) `ttl` or longer ago by
 * the handle's clock is never returned. It takes memory until
 * kstate_clean() or a round meets it. The time of the last access is kept,
 * not the deadline, so that the ttl may be another in the next run; one that
 * was kept without time, or by the other clock, counts from the first look.
 *
 * Rounds, as in winstate.h: kstate_track(), at a barrier kstate_freeze()
 * (which touches no entry), kstate_save() in pieces between messages,
 * kstate_load() for each entry of a restored round, in any order and by any
 * parallelism. In the store:
 *
 * | what            | namespace (16 bytes)   | key                            |
 * | value, agg      | 0x10 + id, 0...        | canonical key                  |
 * | map entry       | 0x10 + id, 0...        | u32 length, canonical key, map |
 * |                 |                        | key                            |
 * | piece of a list | 0x10 + id, 0...        | u32 length, canonical key, u32 |
 * |                 |                        | number of the piece            |
 * | timer           | 0x01 event, 0x02       | canonical key                  |
 * |                 | processing, ts, 0...   |                                |
 *
 * Numbers in these are big endian, ts has its sign bit flipped. A handle's id
 * belongs to its name: kstate_number(). A value begins with a byte of
 * version; kstate_stored_read() takes both apart.
 *
 * Memory: kstate_bytes() counts it; a key takes 24 bytes, its bytes, 24 for
 * each handle (32 for a value with ttl) and about 14 in the index; a value of
 * up to 16 bytes nothing more. A key without state and timers is gone at once.
 * With kstate_cache() about the budget is kept: what was not touched lately
 * and is on disk is given up (kstate_trim()) and asked for when it is needed.
 * Timers stay, and with each the name of its key.
 *
 * Owner: one subtask. Limits: KSTATE_HANDLES_MAX, KSTATE_VALUE_MAX, map keys
 * up to KEY_SIZE_MAX, 2^31 keys, 2^31 entries of a map.
 */
#ifndef CORE_KSTATE_H
#define CORE_KSTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/agg.h"
#include "core/blob.h"
#include "core/entries_store.h"
#include "core/rec.h"
#include "core/snapshot.h"

enum {
    KSTATE_HANDLES_MAX = 200, /* of a step */
    KSTATE_ID_MAX = 239,
    KSTATE_VALUE_MAX = 64 << 20, /* bytes of a value, as of a record */
    KSTATE_NS_SIZE = 16
};

enum kstate_kind {
    KSTATE_VALUE = 1, /* these numbers are in blobs */
    KSTATE_LIST = 2,
    KSTATE_MAP = 3,
    KSTATE_AGG = 4
};

enum kstate_clock { KSTATE_EVENT = 0, KSTATE_PROCESSING = 1, KSTATE_CLOCKS };

/* Time that is not known: nothing expires by it. */
#define KSTATE_NO_TIME INT64_MIN

struct kstate_handle {
    const char *name; /* borrowed, must outlive the state */
    enum kstate_kind kind;
    uint32_t id;    /* in the store, 0 to KSTATE_ID_MAX: kstate_number() */
    int64_t ttl_ms; /* > 0; -1 = none */
    enum kstate_clock ttl_clock;
    bool ttl_read; /* reading counts as well as writing */
    bool anew;     /* for kstate_number(): nothing of its name is its own */
    const struct aggset *set; /* KSTATE_AGG: borrowed, must outlive it */
};

struct kstate;

/**
 * Make an empty state.
 * @param handles n of them, up to KSTATE_HANDLES_MAX; copied.
 * @thread the owner, as all that follow.
 */
struct kstate *kstate_new(const struct kstate_handle *handles, uint32_t n);
/** Free it and all it holds. Accepts NULL. */
void kstate_free(struct kstate **k);

/* ---- the current key ---- */

/**
 * Make a key the current one. Not between begin and end.
 * @param key  canonical key, borrowed until the next kstate_key().
 * @param hash hash_key() of it.
 */
void kstate_key(struct kstate *k, const void *key, uint32_t len, uint64_t hash);
/** Ask the cache for a key that is current soon: first all of a batch with
 * `entry` false, then with `entry` true. */
void kstate_prefetch(const struct kstate *k, uint64_t hash, bool entry);
/** The current key. @param ret_len its length. @return borrowed until the
 * next kstate_key() or kstate_timer_next(). */
const void *kstate_current(const struct kstate *k, uint32_t *ret_len);

/**
 * What the clocks say for the calls that follow, ms.
 * @param event      ctx:timestamp(), KSTATE_NO_TIME if there is none.
 * @param processing ctx:now(); looked at only by handles whose ttl goes by it
 *                   (kstate_uses()).
 */
void kstate_now(struct kstate *k, int64_t event, int64_t processing);
/** Whether the ttl of any handle goes by this clock. */
bool kstate_uses(const struct kstate *k, enum kstate_clock clock);

/** From here on changes can be taken back. */
void kstate_begin(struct kstate *k);
/** What changed since kstate_begin() stays. */
void kstate_commit(struct kstate *k);
/** State and timers of the key are as at kstate_begin(). */
void kstate_undo(struct kstate *k);

/* ---- handles: `h` is a place in `handles`, of the right kind ---- */

/**
 * The value.
 * @return ret_len bytes (which may be 0), borrowed; NULL: there is none.
 */
const void *kstate_value_get(struct kstate *k, uint32_t h, uint32_t *ret_len);
/**
 * Set the value.
 * @param bytes copied; may be what was read of this state.
 * @return 0, or ERR_RECORD (user_error) beyond KSTATE_VALUE_MAX, when nothing
 *         has changed.
 */
MUST_USE int kstate_value_set(struct kstate *k, uint32_t h, const void *bytes,
                              size_t len, struct err *e);

/** Forget the value, list, map or accumulator of the key; of any kind. */
void kstate_clear(struct kstate *k, uint32_t h);

/* Bytes of a map's key: a canonical encoding, of one part. */
struct kstate_bytes {
    const void *p;
    uint32_t len;
};

/** The value of a map's key, as kstate_value_get(). */
const void *kstate_map_get(struct kstate *k, uint32_t h,
                           const struct kstate_bytes *key, uint32_t *ret_len);
/**
 * Whether a map's key is there. Does not count as reading.
 */
bool kstate_map_has(struct kstate *k, uint32_t h,
                    const struct kstate_bytes *key);
/**
 * Set the value of a map's key.
 * @return 0, or ERR_RECORD (user_error) if the key is longer than
 *         KEY_SIZE_MAX or the value than KSTATE_VALUE_MAX.
 */
MUST_USE int kstate_map_put(struct kstate *k, uint32_t h,
                            const struct kstate_bytes *key,
                            const struct kstate_bytes *value, struct err *e);
/** Remove a map's key. @return whether it was there (expired or not). */
bool kstate_map_remove(struct kstate *k, uint32_t h,
                       const struct kstate_bytes *key);

struct kwalk;

/* A walk through a map or list: what was there when it began. */
struct kstate_iter {
    uint32_t count; /* at most so many come, beside those in the store */
    /* private: */
    uint32_t h, at, given;
    const void *view;
    struct kwalk *walk;
    size_t in;
};

/** Begin to walk a map in canonical order of its keys. Entries that are
 * removed meanwhile do not come any more, those put anew do not come. */
void kstate_map_begin(struct kstate *k, uint32_t h, struct kstate_iter *i);
/** @param key, value set, borrowed until the next step. @return false at the
 * end. */
bool kstate_map_next(struct kstate *k, struct kstate_iter *i,
                     struct kstate_bytes *key, struct kstate_bytes *value);

/**
 * Append an element. (To replace a list: kstate_clear(), then add.)
 * @return as kstate_value_set(); also ERR_RECORD (user_error) if the list of
 *         the key would be larger than half of the budget (kstate_cache()):
 *         a list is in memory as a whole or not at all.
 */
MUST_USE int kstate_list_add(struct kstate *k, uint32_t h, const void *bytes,
                             size_t len, struct err *e);
/** Begin to walk the elements in the order they were added. After
 * kstate_clear() none comes any more. */
void kstate_list_begin(struct kstate *k, uint32_t h, struct kstate_iter *i);
/** @param element set, borrowed. @return false at the end. */
bool kstate_list_next(struct kstate *k, struct kstate_iter *i,
                      struct kstate_bytes *element);

/**
 * Add to the accumulators, as aggset_add().
 * @return 0; aggset_add()'s error, or aggset_dup()'s (the first time in a call
 *         they are copied for kstate_undo()), when nothing has changed; or
 *         ERR_RECORD (user_error) with the reason if they could not be saved in
 *         a checkpoint: these are lost until kstate_clear().
 */
MUST_USE int kstate_agg_add(struct kstate *k, uint32_t h,
                            const struct val *args, const struct rec *r,
                            struct err *e);
/**
 * The accumulators.
 * @param ret block for agg_result(), borrowed; NULL: nothing was added.
 * @return 0, or ERR_RECORD (user_error) if they are lost, see above.
 */
MUST_USE int kstate_agg_get(struct kstate *k, uint32_t h, const void **ret,
                            struct err *e);

/* ---- timers of the current key ---- */

/** Register a timer. @return false if there is one of this key, clock and
 * ts already, or it was refused (kstate_timers_refuse()). */
bool kstate_timer_add(struct kstate *k, enum kstate_clock clock, int64_t ts);
/** Delete a timer. @return whether there was one. */
bool kstate_timer_delete(struct kstate *k, enum kstate_clock clock, int64_t ts);

/**
 * Take the first timer with ts <= limit, in order of ts, then of key: it is
 * gone, and its key is the current one. Ask again after its function was
 * called: a timer it registered may be the next. Not between begin and end;
 * kstate_undo() does not bring it back.
 * @param ret_ts set if there is one. @return whether there is one.
 */
bool kstate_timer_next(struct kstate *k, enum kstate_clock clock, int64_t limit,
                       int64_t *ret_ts);
/** A time not later than the first timer's, to sleep until; it comes closer
 * with each kstate_timer_next(). @return false if there is no timer. */
bool kstate_timer_bound(const struct kstate *k, enum kstate_clock clock,
                        int64_t *ret);
/** How many are pending. */
uint64_t kstate_timers(const struct kstate *k, enum kstate_clock clock);
/** For the final firing: timers that are registered from now on are counted
 * only. */
void kstate_timers_refuse(struct kstate *k, enum kstate_clock clock);
/** How many were refused; those of a call that was undone are not. */
uint64_t kstate_timers_refused(const struct kstate *k, enum kstate_clock clock);
/** Delete up to `max` pending timers. @return how many were deleted. */
uint32_t kstate_timers_discard(struct kstate *k, enum kstate_clock clock,
                               uint32_t max);

/* ---- time to live, memory ---- */

/**
 * Look at up to `max` keys, map entries and pieces of lists, and free what
 * has expired. Between messages. Begins a new pass when a quarter of the
 * shortest ttl has gone by since the last one began.
 *
 * @param event      time that on-time records are not before: the watermark;
 *                   nothing expires by INT64_MAX, the end of the input.
 * @param processing the wall clock, ms. Either may be KSTATE_NO_TIME.
 * @return whether the pass is unfinished: call again soon.
 */
bool kstate_clean(struct kstate *k, int64_t event, int64_t processing,
                  uint32_t max);

/** Keys that have state or timers; about, of those that are in the store only.
 */
uint64_t kstate_keys(const struct kstate *k);
/** Bytes of memory held, about: values, keys, timers, indexes, lists of
 * changes; not what accumulators own, nor snapshots. */
size_t kstate_bytes(const struct kstate *k);

/* ---- larger than memory ---- */

/**
 * Keep about `budget` bytes in memory. After kstate_track(), before the first
 * key. A walk then needs a call (kstate_begin()).
 * @param budget > 0. @param store copied.
 */
void kstate_cache(struct kstate *k, size_t budget,
                  const struct entry_store *store);
/**
 * Give up what is over the budget: look at up to `max` keys and map entries,
 * between messages.
 * @param durable the last round that is on disk.
 */
enum entry_room kstate_trim(struct kstate *k, uint64_t durable, uint32_t max);
/**
 * Look at up to `max` entries that the store has, and delete what has expired
 * by the times of the last kstate_clean(). A pass follows each of its passes;
 * it stops early while the round under way deletes enough.
 * @return 1 there is more to do now, 0, < 0 what the store says.
 */
MUST_USE int kstate_sweep(struct kstate *k, uint32_t max, struct err *e);
/**
 * Whether the store could be asked. Calls that read or write find nothing once
 * it could not; what they made must not get out.
 * @return 0, or what the store said first.
 */
MUST_USE int kstate_check(const struct kstate *k, struct err *e);

/* ---- rounds ---- */

/** Keep track of changes, by key groups. Before the first key. */
void kstate_track(struct kstate *k, uint32_t max_parallelism);
/**
 * At the barrier of `round`: set apart what changed since the one before.
 * Nothing may be frozen still; not between begin and end.
 * @return the round's snapshot, the caller's; the state puts changes into it
 *         until kstate_save() says that all are there.
 */
struct snapshot *kstate_freeze(struct kstate *k, uint64_t round);
/**
 * Encode up to `max` frozen entries; what has expired is deleted instead, by
 * the times of the last kstate_clean(). Between messages.
 * @return whether more are left.
 */
bool kstate_save(struct kstate *k, uint32_t max);

struct kstate_past {
    uint32_t id;
    enum kstate_kind kind;
    char *name;
};

/* What the blob of a round tells. */
struct kstate_blob {
    struct kstate_past *handles;
    uint32_t count;
    uint64_t keys;
    uint64_t timers[KSTATE_CLOCKS];
};

/** Append what kstate_blob_read() reads, to the blob of the step. */
void kstate_put(const struct kstate *k, struct buf *out);
/**
 * Read it back; what follows in the blob stays in `r`.
 * @param ret to be ended by kstate_blob_fini(), also after a failure.
 * @return 0, or ERR_IO for damaged bytes. @thread any.
 */
MUST_USE int kstate_blob_read(struct blob_reader *r, struct kstate_blob *ret,
                              struct err *e);
void kstate_blob_fini(struct kstate_blob *b);

/**
 * Give handles their ids: those of the same names in the past, free ones to
 * new names and to those that begin `anew`. All subtasks of a step come to the
 * same.
 *
 * @param past blob of any subtask of the restored round, or NULL: none.
 * @return 0, or ERR_CONFIG if a handle was of another kind, or there are too
 *         many beside those that go. @thread any.
 */
MUST_USE int kstate_number(struct kstate_handle *handles, uint32_t n,
                           const struct kstate_blob *past, struct err *e);

/* An entry of the store. */
struct kstate_entry {
    uint16_t group; /* its key group; looked at by kstate_load() only */
    const void *ns; /* KSTATE_NS_SIZE bytes */
    const void *key;
    uint32_t key_len;
    const void *value; /* value_len bytes */
    size_t value_len;
    bool changed; /* for kstate_load(): the store has another value */
};

/**
 * Take an entry of the store, as clean, or with `changed` as one that the next
 * round saves. One of a handle that is no more is deleted with it.
 * With kstate_cache(), from half of the budget on, only the name of what has
 * not changed is noted: all that the store has must be given, by key groups
 * and in the order of the store within one.
 * @return 0, ERR_IO for damaged bytes, or what decoding accumulators says.
 */
MUST_USE int kstate_load(struct kstate *k, const struct kstate_entry *v,
                         struct err *e);

/* ---- the store's form, for tools ---- */

enum kstate_what { KSTATE_IS_STATE, KSTATE_IS_TIMER };

struct kstate_stored {
    enum kstate_what what;
    uint32_t id;               /* of the handle */
    enum kstate_clock clock;   /* of the timer, or of `time` */
    int64_t ts;                /* of the timer */
    struct kstate_bytes key;   /* canonical */
    struct kstate_bytes part;  /* key in the map; number of a list's piece */
    bool lost;                 /* accumulators that could not be saved */
    bool elements;             /* a piece of a list */
    bool has_times;            /* ... each element has its own */
    bool changed;              /* as the entry's, in kstate_load() */
    int64_t time;              /* last access; KSTATE_NO_TIME: not kept */
    struct kstate_bytes value; /* value; bytes for aggset_decode(); elements */
};

/**
 * Take an entry of the store apart.
 * @param kind of the handle, by the blob; not looked at for a timer.
 * @param ret  borrows from `v`. @return 0, or ERR_IO. @thread any.
 */
MUST_USE int kstate_stored_read(const struct kstate_entry *v,
                                enum kstate_kind kind,
                                struct kstate_stored *ret, struct err *e);
/** The id of the handle an entry belongs to, -1: it is a timer's, or of
 * something unknown. @thread any. */
int kstate_stored_id(const void *ns);
/**
 * Take the first element off a piece of a list.
 * @param s what kstate_stored_read() gave; s->value gets shorter, s->time is
 *          the element's. @return 1, 0 at the end, ERR_IO. @thread any.
 */
MUST_USE int kstate_stored_element(struct kstate_stored *s,
                                   struct kstate_bytes *ret, struct err *e);

/** Append what takes the place of a value. @return 0 or an error. */
typedef int kstate_rewrite_f(void *arg, const struct kstate_bytes *old,
                             struct buf *out, struct err *e);
/**
 * Write an entry of a handle with another value: of a list, each element.
 * Times stay as they are.
 * @param out gets the bytes of the entry's value.
 * @return 0, ERR_IO for damaged bytes, ERR_RECORD beyond KSTATE_VALUE_MAX, or
 *         what `f` says. @thread any.
 */
MUST_USE int kstate_stored_rewrite(const struct kstate_stored *s,
                                   kstate_rewrite_f *f, void *arg,
                                   struct buf *out, struct err *e);

#endif
