/*
 * Window state: the accumulators of the open windows of one subtask.
 *
 * Entries live in one hot table per slice (core/window.h); a window is the
 * merge of its slices at the moment it fires. Firing is resumable, so that a
 * burst of rows never outgrows the output: winstate_fire() emits at most so
 * many rows and says whether there is more. No input may be added while a
 * firing is unfinished. Rows of one key leave in order of window_end.
 *
 * | window          | when                                    |
 * | open            | watermark < end - 1                     |
 * | fired           | end - 1 <= watermark: one row per key   |
 * | re-fired        | late change within lateness: dirty rows |
 * | purged          | end - 1 + lateness <= watermark         |
 *
 * Without window (`updating`) there is one entry a key, which never fires:
 * every change makes it wait for a row as late changes do. It ends by ttl.
 *
 * Rounds. With winstate_track() every entry that changes is known without a
 * scan. At a barrier winstate_freeze() sets these apart (it touches none of
 * them) and winstate_save() encodes them in pieces between messages; one that
 * changes before its turn is encoded first. The store keeps an entry under
 * its key group, the namespace (slice, first) and its key; winstate_load()
 * takes it back.
 *
 * Larger than memory. With winstate_cache() the state is a bounded memory over
 * the store: what was not touched lately and is on disk is given up
 * (winstate_trim()) and asked for when it is needed.
 *
 * Owner: one subtask. Limits: memory is what the open windows hold, or with
 * winstate_cache() about the budget, if rounds keep up with the changes.
 */
#ifndef CORE_WINSTATE_H
#define CORE_WINSTATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/agg.h"
#include "core/entries_store.h"
#include "core/partial.h"
#include "core/snapshot.h"
#include "core/table.h"
#include "core/window.h"

struct winstate;

/* One result row, for the callback only. */
struct winrow {
    const char *key; /* canonical key */
    uint32_t key_len;
    bool poisoned; /* values of different types met: the row is lost */
    const struct err *unsaved; /* its accumulators could not be saved: why;
                                  the row is lost. NULL: they could */
    int64_t start, end;
    const void *block;
};

typedef int winstate_row_f(void *arg, const struct winrow *row, struct err *e);

/** @param set borrowed, must outlive the state. @thread the owner. */
struct winstate *winstate_new(const struct window_spec *spec,
                              const struct aggset *set);
void winstate_free(struct winstate **w);

/**
 * The entry of (slice, first, key), to aggset_add() into (one phase) or to
 * merge into.
 * A fresh entry's block is initialised and its count 0; the caller counts.
 * @param ret set; NULL if all its windows are purged already.
 * @return 0, or what the store says (winstate_cache() only).
 */
MUST_USE int winstate_upsert(struct winstate *w, const struct partial *head,
                             struct table_entry **ret, struct err *e);
/**
 * Merge a partial whose block is present; consumes the block.
 * @return 0; 1 if its windows are purged (counts as late); < 0 what the
 *         store says (winstate_cache() only).
 */
MUST_USE int winstate_merge(struct winstate *w, struct partial *p,
                            struct err *e);
/**
 * Begin an entry anew if it has not changed for the window's ttl before `ts`,
 * the time of the record that is about to change it (updating ones only).
 */
void winstate_renew(struct winstate *w, struct table_entry *en, int64_t ts);
/** Prefetch for a partial that is merged soon. */
void winstate_prefetch(const struct winstate *w, const struct partial *p,
                       bool entry);

/** Move the watermark; then winstate_fire() until it returns 0. */
void winstate_advance(struct winstate *w, int64_t wm);
/** Ask for the re-fired rows at the next winstate_fire(). */
void winstate_flush_late(struct winstate *w);
/** Whether re-fired rows wait. */
bool winstate_has_late(const struct winstate *w);
/**
 * Emit up to `max` rows.
 * @return 1 more to do, 0 done (the watermark is reached), or row's error or
 *         the store's.
 */
int winstate_fire(struct winstate *w, uint32_t max, winstate_row_f *row,
                  void *arg, struct err *e);

/* ---- rounds ---- */

enum { WINSTATE_NS_SIZE = 16 };

/** Keep track of changes, by key groups of `max_parallelism`. @thread the
 * owner, before the first entry. */
void winstate_track(struct winstate *w, uint32_t max_parallelism);
/**
 * At the barrier of `round`: set apart what changed since the one before.
 *
 * Nothing may be frozen still, firing be unfinished or re-fired rows wait.
 * @return the round's snapshot, the caller's; the state puts changes into it
 *         until winstate_save() says that all are there.
 */
struct snapshot *winstate_freeze(struct winstate *w, uint64_t round);
/**
 * Encode up to `max` frozen entries. Accumulators that cannot be encoded are
 * lost, which their row will say.
 * @return whether more are left.
 */
bool winstate_save(struct winstate *w, uint32_t max);

/* A slice, as the blob of a round tells it. */
struct winstate_slice {
    int64_t start, first;
    uint64_t entries; /* of this subtask */
};

struct winstate_blob {
    int64_t fired; /* watermark; windows that ended up to it have fired */
    struct winstate_slice *slices;
    uint32_t count;
};

/** Append the watermark that is reached and the slices there are. */
void winstate_put(const struct winstate *w, struct buf *out);
/**
 * Read it back.
 * @param ret to be ended by winstate_blob_fini(), also after a failure.
 * @return 0, or ERR_IO for damaged bytes. @thread any.
 */
MUST_USE int winstate_blob_read(const struct buf *b, struct winstate_blob *ret,
                                struct err *e);
void winstate_blob_fini(struct winstate_blob *b);

/** Begin where windows up to `wm` have fired. Before the first entry. */
void winstate_set_fired(struct winstate *w, int64_t wm);

/* An entry of the store. */
struct winstate_entry {
    const void *ns; /* WINSTATE_NS_SIZE bytes */
    uint64_t hash;  /* hash_key() of the key */
    const void *key;
    uint32_t key_len;
    const void *value; /* value_len bytes */
    size_t value_len;
    int64_t fired; /* where it was: windows up to this have fired */
    bool changed;  /* decoding gives another value than the store has: the
                      next round saves it */
};

/**
 * Take an entry of the store, as clean. One that comes from a subtask that
 * was further, without lateness, counts only for windows that have not fired
 * there; it is changed then, and saved under its new name.
 * @return 0, ERR_IO for damaged bytes, or what decoding says.
 */
MUST_USE int winstate_load(struct winstate *w, const struct winstate_entry *v,
                           struct err *e);

/* ---- larger than memory ---- */

/**
 * Keep about `budget` bytes in memory. After winstate_track(), before the
 * first entry.
 * @param budget > 0. @param store copied.
 */
void winstate_cache(struct winstate *w, size_t budget,
                    const struct entry_store *store);

/**
 * Give up what is over the budget, at most `max` entries, between messages.
 * @param durable the last round that is on disk.
 */
enum entry_room winstate_trim(struct winstate *w, uint64_t durable,
                              uint32_t max);
/**
 * A slice of the blob whose entries stay in the store for now. All of a
 * restored state is either adopted or loaded. @param entries about how many.
 */
void winstate_adopt(struct winstate *w, int64_t start, int64_t first,
                    uint64_t entries);
/**
 * Delete up to `max` entries that the store still has of purged slices; fewer
 * if the round under way deletes enough.
 * @return 1 there are more, 0 none, < 0. Between messages.
 */
MUST_USE int winstate_sweep(struct winstate *w, uint32_t max, struct err *e);

/* ---- keys that end ---- */

/**
 * Let a pass over the keys that have not changed for ttl go on, or begin one.
 *
 * @param now     by the clock that the blocks' times are of; WM_NONE: none.
 * @param mono_ms monotonic. @param max entries to look at.
 * @return 1 there is more to do now, 0, < 0 the store's. Between messages,
 *         while nothing fires.
 */
MUST_USE int winstate_expire(struct winstate *w, int64_t now, int64_t mono_ms,
                             uint32_t max, struct err *e);

/** Bytes of one block. */
size_t winstate_block_size(const struct winstate *w);
/** Entries held; bytes held without what blocks own. */
uint64_t winstate_keys(const struct winstate *w);
size_t winstate_bytes(const struct winstate *w);

#endif
