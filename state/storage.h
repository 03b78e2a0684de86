/*
 * The LMDB environment below a store, and nothing else knows LMDB's calls
 * for transactions, growth and errors. Used inside state only.
 *
 * Tables: `meta` (ledgers, blobs, format), `base`, and a fixed pool of
 * segments `s00`..`s31`, all made with the file and never closed, so that
 * readers on other threads need not know when one begins or ends.
 *
 * Threads: storage_run() and storage_grow() belong to the writer. Readers
 * stand between storage_enter() and storage_leave() while they have a
 * transaction; growth moves the map, so it waits for them. This gate is one
 * counter: its top bit says "growing", the others count readers inside.
 */
#ifndef STATE_STORAGE_H
#define STATE_STORAGE_H

#include <lmdb.h>
#include <stdatomic.h>

#include "state/store.h"

struct storage {
    MDB_env *env;
    MDB_dbi meta, base, slots[STORE_SEGMENTS_MAX];
    uint64_t map_bytes;
    uint64_t layout; /* counts changes of tables and operators */
    uint64_t seed;   /* of long keys' digests */
    atomic_uint gate;
    bool read_only;
    bool failed; /* LMDB is in an unknown state until reopened */
    char *file;  /* for messages */
};

/* What a write transaction does: 0, an LMDB or errno code, or an ERR_ code
 * with `e` filled. It may run more than once (the map grew). */
typedef int (*storage_txn_f)(struct storage *t, MDB_txn *txn, void *arg,
                             struct err *e);

enum {
    STORAGE_LAYOUT = 1u, /* readers must look at the ledger again */
};

/* Folder in a store's folder where its file is made. */
#define STORAGE_NEW "new"

/** Name of the file with the data in `dir`; the caller frees it. */
char *storage_file(const char *dir);

/**
 * Make an empty store's file in `dir`: it is there whole or not at all.
 *
 * @param seed    for digests of long keys.
 * @param lineage of the new store.
 * @return 0, ERR_IO, ERR_NOMEM. @thread the writer.
 */
MUST_USE int storage_create(const char *dir, uint64_t seed,
                            const uint8_t lineage[STORE_LINEAGE_SIZE],
                            struct err *e);

struct storage_opts {
    const char *dir;
    bool read_only, no_sync;
    uint64_t map_bytes;
    unsigned readers_max;
};

/**
 * Open the environment; LMDB looks at the meta pages only, so the file need
 * not be checked yet. On failure `t` is as after fini.
 */
MUST_USE int storage_open(struct storage *t, const struct storage_opts *o,
                          struct err *e);
/** Open the tables of a file that was checked. */
MUST_USE int storage_start(struct storage *t, struct err *e);
void storage_fini(struct storage *t);

/**
 * Run `fn` in a synced write transaction; grow the map and repeat if full.
 *
 * @param what for messages: "cannot <what>: ...".
 * @return 0, or an ERR_ code; then nothing has changed, or t->failed.
 */
MUST_USE int storage_run(struct storage *t, unsigned flags, storage_txn_f fn,
                         void *arg, const char *what, struct err *e);

/** Begin a read transaction, or renew `*txn`. Inside the gate. */
MUST_USE int storage_read(struct storage *t, MDB_txn **txn, struct err *e);

void storage_enter(struct storage *t);
void storage_leave(struct storage *t);

/** Sync a file opened with no_sync. */
MUST_USE int storage_sync(struct storage *t, struct err *e);

/** Turn an LMDB or errno code into an error. @return its ERR_ code. */
int storage_error(struct storage *t, int rc, const char *what, struct err *e);

/** Put ledger bytes, wrapped, under `key` of `meta`. */
MUST_USE int storage_put_meta(struct storage *t, MDB_txn *txn, const void *key,
                              size_t key_len, const void *bytes, size_t len);

/** Get them: 1 found, 0 none, ERR_IO damaged. Borrowed from the txn. */
MUST_USE int storage_get_meta(struct storage *t, MDB_txn *txn, const void *key,
                              size_t key_len, const void **ret, size_t *ret_len,
                              struct err *e);

/** Flush a folder's names to disk. @return 0 or ERR_IO. @thread any. */
MUST_USE int storage_sync_dir(const char *dir, struct err *e);

#endif
