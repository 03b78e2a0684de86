/*
 * The parts of the keyed state of functions, for core/kstate*.c only.
 *
 * | file          | has                                              |
 * | kstate.c      | keys, values, clearing                           |
 * | kstate_undo.c | the log of a call: commit and undo               |
 * | kstate_map.c  | maps                                             |
 * | kstate_list.c | lists                                            |
 * | kstate_agg.c  | accumulators                                     |
 * | kstate_time.c | timers, time to live, cleaning                   |
 * | kstate_save.c | rounds: freezing, saving, the blob               |
 * | kstate_load.c | restored rounds                                  |
 * | kstate_form.c | the store's form, for loading and for tools      |
 * | kstate_cache.c | asking the store for what is not in memory      |
 * | kstate_evict.c | giving up what is over the budget               |
 * | kstate_sweep.c | what has expired in the store                   |
 *
 * A key has a cell for each handle. Values (up to CELL_INLINE bytes) lie in
 * the cell, others and maps, lists, accumulators behind a pointer. What rounds
 * save one by one: the cells of a key that hold a value or accumulators (the
 * key is the entry, its cells have bits of their own), the items of a map, the
 * pieces ("chunks") of a list, timers.
 *
 * The log of a call takes what is replaced or removed, so that taking it back
 * is putting it there again, and nothing is copied (but accumulators, which
 * change in place). What it holds is out of sight and freed at commit: only
 * then are deletions written into the round.
 *
 * `live` of a key counts its cells that are not empty and its timers; at 0 the
 * key is dropped when it is left.
 *
 * A bounded memory (kstate_cache()). What is not in memory is in the newest
 * durable round, and what is in memory is newer than what the store says; so
 * the store is asked only for what is not here, and whatever it must not be
 * asked for stays here until a round that says so is durable:
 *
 * | what                  | in memory as                                     |
 * | may be in the store   | nothing, a hash in the filter; of a key that is   |
 * |                       | here CELL_STORED (of a map: some of its items)    |
 * | value deleted         | its key, KEY_DEAD if there is nothing else        |
 * | item of a map deleted | an item without value, ITEM_TOMB                  |
 * | pieces of a list      | their list, maybe empty, until `hold` is durable  |
 *
 * What no round has, and the store does not (KEY_FRESH, ITEM_FRESH), goes at
 * once. Names longer than the store keeps in order (KNAME_MAX) stay: they
 * could not be walked. An entry that is looked at is USED; the hand that goes
 * round (kstate_evict.c) takes that away the first time and gives the entry
 * up the second.
 */
#ifndef CORE_KSTATE_IMPL_H
#define CORE_KSTATE_IMPL_H

#include <string.h>

#include "base/mem.h"
#include "core/entries.h"
#include "core/entries_filter.h"
#include "core/entries_index.h"
#include "core/entries_sort.h"
#include "core/kstate.h"
#include "core/timers.h"

/* struct entry.type */
enum { ENTRY_KEY = 1, ENTRY_ITEM, ENTRY_CHUNK, ENTRY_TIMER };

enum {
    CELL_INLINE = 16,
    CELL_LOST = ENTRY_OWN,       /* accumulators that could not be encoded */
    CELL_STORED = ENTRY_OWN << 1 /* the store may have it; counts in `live` */
};

enum { KNAME_MAX = 400 }; /* bytes of a key in the store */
#define CELL_EMPTY UINT32_MAX

/* An int64_t, the time of the last access, follows where there is a ttl. */
struct kcell {
    union {
        char in[CELL_INLINE];
        void *p; /* bytes, struct kmap, struct klist, accumulators */
    } u;
    uint32_t len;  /* CELL_EMPTY: nothing; of a value its bytes, else 0 */
    uint8_t flags; /* of a value or accumulators: ENTRY_..., CELL_LOST */
};

/* Flags of a key, with a bounded memory only. */
enum {
    KEY_FRESH = ENTRY_OWN,      /* neither a round nor the store has it */
    KEY_USED = ENTRY_OWN << 1,  /* since the hand came by */
    KEY_DEAD = ENTRY_OWN << 2,  /* without state; a round must say so first */
    KEY_GUESS = ENTRY_OWN << 3, /* the filter says maybe */
};

/* e.small: key group, e.extra: bytes of the key. Cells and the key follow. */
struct kkey {
    struct entry e;
    uint32_t live;
    uint64_t cells[];
};

/* What a walk looks at; replaced as a whole. */
struct kview {
    struct kmap *map;
    uint32_t n;
    struct kitem *items[]; /* in canonical order of their keys */
};

struct kmap {
    struct kkey *key;
    uint32_t h;
    bool view_fits; /* the view is what is in the map */
    uint32_t tombs; /* items that are ITEM_TOMB */
    struct entry_index index;
    struct kview *view;
};

/* e.small: ITEM_..., e.extra: bytes of the map key, which follows. */
struct kitem {
    struct entry e;
    struct kmap *map;
    struct kcell cell;
};

enum {
    ITEM_REMOVED = 1, /* out of the map */
    /* With a bounded memory only: */
    ITEM_TOMB = 2,  /* there is none */
    ITEM_FRESH = 4, /* as KEY_FRESH */
    ITEM_USED = 8,
};

/* e.extra: its number, by which the chunks of a list are in order. An element
 * is its length (4 bytes), with ttl the time (8), its bytes. */
struct kchunk {
    struct entry e;
    struct klist *list;
    char *data;
    uint32_t len, cap;
    uint32_t count; /* elements */
};

struct klist {
    struct kkey *key;
    uint32_t h;
    uint32_t count; /* elements */
    uint32_t hold;  /* generation in which pieces were deleted last */
    struct kchunk **chunks;
    uint32_t n;
    size_t cap;
    size_t bytes; /* of what its chunks hold */
};

struct khandle {
    struct kstate_handle pub;
    uint32_t cell_at; /* behind the begin of the key */
    bool ttl;
};

enum kundo_what {
    UNDO_CELL,      /* at: cell; old, time: what it held */
    UNDO_TIME,      /* at: a time; time: what it was */
    UNDO_SWAP,      /* at: cell; old, time: its map, list, accumulators */
    UNDO_ITEM_NEW,  /* at: item */
    UNDO_ITEM_GONE, /* at: item, out of its map */
    UNDO_ADD,       /* at: chunk; old.len: bytes it had, 0: it is new */
    UNDO_BYTES,     /* at: chunk; old.u.p, old.len, time: data, cap, len */
    UNDO_TIMER_NEW, /* at: timer */
    UNDO_TIMER_GONE,
    UNDO_REFUSED, /* h: clock */
    UNDO_FREE     /* at: memory that a walk may still look at; time: bytes */
};

struct kundo {
    enum kundo_what what;
    uint32_t h;
    void *at;
    struct kcell old;
    int64_t time;
};

/* How far kstate_clean() has come. */
struct kclean {
    bool running;
    struct index_iter keys;
    struct kkey *key; /* the one being looked at, or NULL */
    uint32_t h;
    struct index_iter items;
    uint32_t chunk;
    int64_t now[KSTATE_CLOCKS];
    int64_t begun[KSTATE_CLOCKS];   /* what the clocks said at the last pass */
    int64_t ttl_min[KSTATE_CLOCKS]; /* INT64_MAX: no handle has one */
};

/* Where a walk through the keys, and the items of one, has come to. */
struct khand {
    struct index_iter keys;
    struct kkey *key; /* the one being looked at, or NULL */
    uint32_t h;
    struct index_iter items;
};

enum { GENERATIONS = 8 }; /* barriers whose rounds are not durable, at most */

/* A bounded memory; budget = 0: all of it stays here. */
struct kcache {
    size_t budget;
    struct entry_store store;
    struct entry_filter filter;
    int64_t evicted;              /* keys in the store only, about */
    uint64_t dead;                /* keys that are KEY_DEAD */
    bool adopting;                /* what is restored stays in the store */
    uint32_t durable;             /* generation */
    uint64_t rounds[GENERATIONS]; /* of the newest generations */
    bool asked;                   /* for a round, since the last barrier */
    bool evicting, stalled;
    uint64_t looked, gained; /* by the hand, this turn */
    struct khand hand;
    struct kwalk *walks; /* of this call */
    bool failed;
    struct err why;
    /* A pass over the store. */
    bool sweep_due, sweeping, sweep_behind;
    uint32_t sweep_h, sweep_group;
    struct buf sweep_key;
    struct entry_filter fresh; /* of what the pass has left */
    int64_t fresh_keys;
};

struct kstate {
    struct khandle *handles;
    uint32_t count;
    uint32_t key_at;          /* where the bytes of a key begin */
    bool has_agg, has_others; /* handles that are not values */
    struct entry_index keys;
    struct kkey *cur; /* NULL: the current key has no state yet */
    const void *cur_key;
    uint32_t cur_len;
    uint64_t cur_hash;
    int64_t now[KSTATE_CLOCKS];
    bool in_call;
    bool emptied; /* in this call a map or list has become empty */
    struct kundo *log;
    size_t log_n, log_cap;
    uint64_t copied[(KSTATE_HANDLES_MAX + 63) / 64]; /* accumulators that the
                                                        call has a copy of */
    struct timers timers[KSTATE_CLOCKS];
    bool refuse[KSTATE_CLOCKS];
    uint64_t refused[KSTATE_CLOCKS];
    struct kclean clean;
    struct entry_rounds rounds;
    struct err *unsaved_why; /* of the newest accumulators that were lost */
    struct buf frame;        /* a key of the store */
    size_t bytes;            /* beside indexes, timers and rounds */
    struct kcache cache;
};

/* ---- memory, counted ---- */

static inline void *
kalloc(struct kstate *k, size_t size)
{
    k->bytes += size;
    return mem_alloc(size);
}

/** Free what has `size` bytes. */
void kfree(struct kstate *k, void *p, size_t size);

/* ---- cells ---- */

static inline struct kcell *
kcell_of(const struct kstate *k, struct kkey *key, uint32_t h)
{
    return (struct kcell *)(void *)((char *)key + k->handles[h].cell_at);
}

static inline int64_t *
ktime_of(struct kcell *c)
{
    return (int64_t *)(void *)(c + 1);
}

static inline const void *
kcell_bytes(const struct kcell *c)
{
    return c->len <= CELL_INLINE ? c->u.in : c->u.p;
}

static inline char *
kkey_bytes(const struct kstate *k, const struct kkey *key)
{
    return (char *)(uintptr_t)key + k->key_at;
}

/** The bytes of an item's key. */
char *kitem_key(const struct kstate *k, const struct kitem *it);

/** Whether `time` is out of date when the handle's clock says `now`. */
static inline bool
kexpired(const struct khandle *h, int64_t time, int64_t now)
{
    int64_t age;

    if (time == KSTATE_NO_TIME || now == KSTATE_NO_TIME)
        return false;
    if (__builtin_sub_overflow(now, time, &age))
        return now > time;
    return age >= h->pub.ttl_ms;
}

static inline int64_t
know(const struct kstate *k, const struct khandle *h)
{
    return k->now[h->pub.ttl_clock];
}

/* ---- kstate.c ---- */

/** The entry of a key, or NULL. */
struct kkey *kkey_find(const struct kstate *k, const void *key, uint32_t len,
                       uint64_t hash);
struct kkey *kkey_make(struct kstate *k, const void *key, uint32_t len,
                       uint64_t hash);
/** The current key, made if it has no state. */
struct kkey *kkey_current(struct kstate *k);
/** Drop a key if nothing of it is left; it is not looked at again. */
void kkey_leave(struct kstate *k, struct kkey *key);
/** Between messages: there is no current key. */
void kstate_leave(struct kstate *k);
/** Before a cell with a value or accumulators changes. */
void kcell_touch(struct kstate *k, struct kkey *key, struct kcell *c);
/** Free a key. Its cells are empty, it has no timers and is in no list. */
void kkey_free(struct kstate *k, struct kkey *key);
/** Copy bytes into an empty cell. */
void kcell_fill(struct kstate *k, struct kcell *c, const void *p, uint32_t len);
/** Free what a cell holds, whatever its kind; it is empty then. */
void kcell_drop(struct kstate *k, uint32_t h, struct kcell *c);
/** Free a value that is out of the cell. */
static inline void
kbytes_drop(struct kstate *k, const struct kcell *c)
{
    if (c->len != CELL_EMPTY && c->len > CELL_INLINE)
        kfree(k, c->u.p, c->len);
}
/**
 * Whether what was accessed at *time may be returned now. If so and this
 * counts as access, *ret_touch says that it must be touched and set.
 */
static inline bool
kfresh(const struct kstate *k, const struct khandle *h, const int64_t *time,
       bool *ret_touch)
{
    int64_t now = know(k, h);

    *ret_touch = false;
    if (kexpired(h, *time, now))
        return false;
    *ret_touch = now != KSTATE_NO_TIME && *time != now &&
                 (h->pub.ttl_read || *time == KSTATE_NO_TIME);
    return true;
}
/** ERR_RECORD for a value that is too large. */
MUST_USE int kstate_too_large(const struct kstate *k, uint32_t h, size_t len,
                              struct err *e);

/* ---- kstate_undo.c ---- */

/** Append to the log. The caller ends with klog_settle(). */
struct kundo *klog_add(struct kstate *k, enum kundo_what what, void *at);
/** Append what a cell holds, which moves into the log: the cell is empty.
 * @param ttl whether a time follows. */
void klog_cell(struct kstate *k, enum kundo_what what, uint32_t h,
               struct kcell *c);
/** Append a time that changes to now. */
void klog_time(struct kstate *k, uint32_t h, int64_t *time);
/** Outside of a call a change takes effect at once. */
void klog_commit(struct kstate *k);
static inline void
klog_settle(struct kstate *k)
{
    if (!k->in_call)
        klog_commit(k);
}

/* ---- kstate_map.c ---- */

/** Free what is shown to walks that have ended. */
void kmap_forget_view(struct kstate *k, struct kmap *m);
/** The view, made anew if it does not fit. */
const struct kview *kmap_view(struct kstate *k, struct kmap *m);
/** Clear the map of the current key item by item, if rounds or the store have
 * any. @return whether that was so. */
bool kmap_clear(struct kstate *k, uint32_t h);
/** Whether an item may be returned; then it counts as read. */
bool kitem_read(struct kstate *k, uint32_t h, struct kitem *it);
/** The item is deleted, and a round must say so: it becomes a tomb where it
 * is. Between calls; it is touched, or about to be saved. */
void kitem_bury(struct kstate *k, struct kitem *it);
struct kmap *kmap_make(struct kstate *k, struct kkey *key, uint32_t h);
/** An item without value, in the map. */
struct kitem *kmap_add(struct kstate *k, struct kmap *m,
                       const struct kstate_bytes *key);
struct kitem *kmap_find(const struct kstate *k, const struct kmap *m,
                        const struct kstate_bytes *key);
/** Take an item out of its map, whose view does not fit then. */
void kmap_take(struct kstate *k, struct kitem *it);
void kmap_put_back(struct kstate *k, struct kitem *it);
/** Free an item that is out of its map, deleting what rounds have of it. */
void kitem_drop(struct kstate *k, struct kitem *it);
/** Free a map and all that is in it, likewise. */
void kmap_drop(struct kstate *k, struct kmap *m);

/* ---- kstate_list.c ---- */

enum { CHUNK_BYTES = 4096 };

struct klist *klist_make(struct kstate *k, struct kkey *key, uint32_t h);
/** A chunk in its place by number, or NULL: there is one. */
struct kchunk *klist_chunk(struct kstate *k, struct klist *l, uint32_t number);
/** Append an element to a chunk. */
void kchunk_append(struct kstate *k, struct kchunk *c, int64_t time,
                   const void *bytes, uint32_t len);
/** The element at *at, which moves behind it. @return false at the end. */
bool kchunk_next(const struct kstate *k, const struct kchunk *c, size_t *at,
                 int64_t *ret_time, struct kstate_bytes *ret);
/** Whether an element has expired by the clock that cleans, or has no time. */
bool kchunk_is_stale(const struct kstate *k, const struct kchunk *c);
/** Free these elements; the others without time get one. The chunk is touched
 * already, or about to be saved. @return whether none is left. */
bool kchunk_filter(struct kstate *k, struct kchunk *c);
/** Remove a chunk from its list and free it, deleting what rounds have. */
void kchunk_drop(struct kstate *k, struct kchunk *c);
/** Put back what a chunk was before elements were added. */
void kchunk_cut(struct kstate *k, struct kchunk *c, uint32_t len);
void klist_drop(struct kstate *k, struct klist *l);
/** A list of the current key that was cleared is about to be freed: if rounds
 * have pieces of it, what is in its cell now stays until they are deleted. */
void klist_hold(struct kstate *k, uint32_t h, struct kcell *c,
                const struct kcell *old);

/* ---- kstate_agg.c ---- */

/** Memory for accumulators, not initialised; free without what they own. */
void *kagg_alloc(struct kstate *k, uint32_t h);
void kagg_free(struct kstate *k, uint32_t h, void *block);
/** Count anew what accumulators own. */
void kagg_count(struct kstate *k, uint32_t h, void *block);
/** Free accumulators. */
void kagg_drop(struct kstate *k, uint32_t h, void *block);
const struct err *kagg_why(struct kstate *k);
/** Append the portable form; if there is none the cell is CELL_LOST and
 * nothing is appended. */
void kagg_encode(struct kstate *k, uint32_t h, struct kcell *c,
                 struct buf *out);

/* ---- kstate_load.c ---- */

/** Load a value, accumulators, an item or a piece of a list as clean. */
MUST_USE int kload_state(struct kstate *k, struct kkey *key, uint32_t h,
                         struct kstate_stored *s, struct err *e);
/** The time of an access that was kept, if it is of the handle's clock. */
int64_t kload_time(const struct khandle *h, const struct kstate_stored *s);

/* ---- kstate_cache.c ---- */

static inline bool
kcache_is_on(const struct kstate *k)
{
    return k->cache.budget != 0;
}

/** Whether an entry is in no list, and the round that saved it is durable. */
static inline bool
kcache_is_durable(const struct kstate *k, const struct entry *en)
{
    return (en->flags & ENTRY_CHANGED) == 0 && en->place <= k->cache.durable;
}

/** Whether no round and not the store have an entry, if `fresh` was said of
 * it and it was not frozen since. */
static inline bool
kcache_is_new(const struct kstate *k, const struct entry *en, bool fresh)
{
    return fresh && !entry_rounds_is_frozen(&k->rounds, en->flags);
}

/** The current key was looked for in memory: if it is not there, and may be in
 * the store, it is here now with cells that are CELL_STORED. */
void kcache_enter(struct kstate *k);
/** Say of all cells of a key that was made that the store may have them. */
void kcache_guess(struct kstate *k, struct kkey *key);
/** Whether a dead key must stay until a round is durable. */
bool kcache_retains(struct kstate *k, struct kkey *key);
/** Ask the store for a value, accumulators or a list: the cell of a key is not
 * CELL_STORED then. @return whether there is something in it. */
bool kcache_fetch(struct kstate *k, struct kkey *key, uint32_t h);
static inline void
kcache_need(struct kstate *k, struct kkey *key, uint32_t h,
            const struct kcell *c)
{
    if ((c->flags & CELL_STORED) != 0)
        (void)kcache_fetch(k, key, h);
}
/** Ask the store for an item that is not in memory. @return it, or NULL. */
struct kitem *kcache_fetch_item(struct kstate *k, struct kmap *m,
                                const struct kstate_bytes *key);
/** Walk what the store has of a map: f is given items that are in memory
 * too. `behind` a key, or NULL. What the store says is kept. */
void kcache_walk_map(struct kstate *k, const struct kmap *m,
                     const struct kstate_bytes *behind, entry_stored_f *f,
                     void *arg);
/** The key of an item in what kcache_walk_map() gives. */
struct kstate_bytes kcache_part(const struct kmap *m,
                                const struct snapshot_key *key);
/** Begin and go on with a walk through a map of which some is in the store. */
void kwalk_begin(struct kstate *k, struct kmap *m, struct kstate_iter *i);
bool kwalk_next(struct kstate *k, struct kstate_iter *i,
                struct kstate_bytes *key, struct kstate_bytes *value);
/** The call is over: free its walks. */
void kwalk_end(struct kstate *k);
/** Keep what the store said. */
void kcache_failed(struct kstate *k, const struct err *e);

/** Of a key, for the filter. */
uint64_t kcache_hash(const struct kstate *k, const struct kkey *key);
/** Of an item of a key with that hash. */
uint64_t kcache_item_hash(uint64_t key, uint32_t h, uint32_t item);
/** Remember that the store may have it. @return whether that is news. */
bool kcache_note(struct kstate *k, uint64_t hash);
/** Whether an entry of a handle is all that there is of its key. */
static inline bool
kcache_is_whole(const struct kstate *k, uint32_t h)
{
    return k->count == 1 && (k->handles[h].pub.kind == KSTATE_VALUE ||
                             k->handles[h].pub.kind == KSTATE_AGG);
}
/** Count a key that is in the store only, or is no more. */
void kcache_count(struct kstate *k, const struct kkey *key, int more);
/** What the store has of an entry that is being restored stays there.
 * @return false: it must be loaded. */
bool kcache_adopt(struct kstate *k, uint32_t h, const struct kstate_entry *v,
                  const struct kstate_stored *s);

/* ---- kstate_time.c ---- */

/** Take a timer out of its queue and its key. */
void ktimer_take(struct kstate *k, struct timer *tm);
void ktimer_put(struct kstate *k, struct timer *tm);
/** Free one that is out, deleting what rounds have of it. */
void ktimer_drop(struct kstate *k, struct timer *tm);
/** Whether a time has expired by the clock that cleans. @param ret_touch
 * whether it is not known, and becomes what that clock says. */
bool kclean_expired(const struct kstate *k, const struct khandle *h,
                    int64_t time, bool *ret_touch);
/** Free what has expired of a key's values and accumulators. */
void kclean_cells(struct kstate *k, struct kkey *key);
/** Free an item of a map if it has expired. @return whether it did. */
bool kclean_item(struct kstate *k, struct kitem *it);
/** Free a map or list of a key if it is empty. */
void kclean_empty(struct kstate *k, struct kkey *key, uint32_t h);

/* ---- kstate_save.c ---- */

/** Save what is frozen of an entry: entry_rounds_save_f. */
void ksave_entry(void *arg, struct entry *en);
/** The name of a cell, an item, a piece of a list in the store; in k->frame.
 * @param part of items and pieces, or NULL. */
struct snapshot_key ksave_name(struct kstate *k, const struct kkey *key,
                               uint32_t h, const struct kstate_bytes *part,
                               unsigned char ns[KSTATE_NS_SIZE]);
/** Delete what rounds have of an entry, in the round under way. */
void ksave_delete(struct kstate *k, const struct entry *en);
void ksave_delete_cell(struct kstate *k, const struct kkey *key, uint32_t h);

/* ---- kstate_form.c ---- */

enum {
    FORM_VERSION = 1,
    FORM_TIME = 1,  /* flags: a time follows (of a list: in each element) */
    FORM_CLOCK = 2, /* of the processing clock */
    FORM_LOST = 4,
    FORM_ALL = FORM_TIME | FORM_CLOCK | FORM_LOST,
    NS_STATE = 0x10, /* first byte of a namespace, + id */
    NS_EVENT = 0x01,
    NS_PROCESSING = 0x02
};

void kform_ns_state(unsigned char ns[KSTATE_NS_SIZE], uint32_t id);
void kform_ns_timer(unsigned char ns[KSTATE_NS_SIZE], enum kstate_clock clock,
                    int64_t ts);
/** Append what values begin with; `time` if flags say so. */
void kform_head(struct buf *out, unsigned flags, int64_t time);
/** Set out->data to a framed key: its length, the key, a part behind it. */
void kform_frame(struct buf *out, const struct kstate_bytes *key,
                 const void *part, uint32_t part_len);
void kform_u32be(unsigned char p[4], uint32_t v);
uint32_t kform_read_u32be(const void *p);
void kform_u64(struct buf *out, uint64_t v);

#endif
