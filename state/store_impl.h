/*
 * The parts of a store, for the files of this folder. See store.h for who
 * may touch what.
 */
#ifndef STATE_STORE_IMPL_H
#define STATE_STORE_IMPL_H

#include "state/ledger.h"
#include "state/stage.h"
#include "state/storage.h"

struct staged_blob {
    struct staged_blob *next;
    char name[STORE_NAME_MAX + 1];
    bool removed;
    size_t len;
    uint8_t bytes[];
};

struct store {
    struct storage t;
    char *dir;
    int lock_fd;
    bool read_only;
    struct ledger cur;  /* as on disk */
    struct ledger redo; /* as on disk, if has_redo */
    bool has_redo;
    atomic_bool redo_damaged; /* readers ask */
    uint64_t free_pages;      /* when it was opened */
    /* The round that is gathered. */
    bool gathering;
    struct ledger next; /* round, operators, blobs */
    struct stage stage;
    struct staged_blob *blobs;
    uint32_t known_op;       /* last one put to, 0 = none */
    struct store_copy *copy; /* under way, or NULL */
};

/* The trees one view of the store consists of, newest first, base last. */
struct view {
    MDB_dbi trees[STORE_SEGMENTS_MAX + 1];
    unsigned count;
};

/** The trees of the complete round, with the redo on top if asked. */
void view_of(const struct storage *t, const struct ledger *cur,
             const struct ledger *redo, struct view *ret);

/* Merged cursors over a view: of each key the newest. */
struct merged {
    const struct storage *t;
    const struct ledger *names; /* for messages */
    MDB_cursor *cursors[STORE_SEGMENTS_MAX + 1];
    MDB_val keys[STORE_SEGMENTS_MAX + 1], values[STORE_SEGMENTS_MAX + 1];
    bool there[STORE_SEGMENTS_MAX + 1];
    unsigned count;
};

/* One key's newest pair. */
struct merged_pair {
    MDB_val key, value;
    struct entry entry;
};

/**
 * Put cursors on the first keys not below `from` (above it with `after`).
 *
 * @return 0, or ERR_ codes; merged_fini() in any case. @thread of the txn.
 */
MUST_USE int merged_init(struct merged *m, struct storage *t,
                         const struct ledger *names, MDB_txn *txn,
                         const struct view *v, const struct entry_key *from,
                         bool after, struct err *e);

/** The next pair, deletions included. @return 1, 0 at the end, ERR_IO. */
MUST_USE int merged_next(struct merged *m, struct merged_pair *ret,
                         struct err *e);
void merged_fini(struct merged *m);

/** "'file' is damaged: <operator, group, key>". @return ERR_IO. */
int store_damaged(const struct storage *t, const struct ledger *names,
                  const void *key, size_t key_len, struct err *e);

/** Encode `l` and put it under `name` of meta. As a storage_txn_f. */
MUST_USE int store_put_ledger(struct storage *t, MDB_txn *txn, const char *name,
                              const struct ledger *l);

/** Refuse writing through a store opened for reading. */
MUST_USE int store_writable(const struct store *s, struct err *e);

/** Free the list of a round's blobs. */
void store_free_blobs(struct staged_blob **list);

#endif
