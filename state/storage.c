#include "state/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "state/entry.h"
#include "state/ledger.h"
#include "state/wire.h"

#define GATE_GROWING 0x80000000u
#define MAP_DEFAULT (UINT64_C(64) << 30)
#define MAP_STEP UINT64_C(65536) /* multiple of any page size */
#define FORMAT_TEXT "streamlua state"

enum {
    TABLES = STORE_SEGMENTS_MAX + 2,
    FORMAT_SIZE = 32,
    META_SIZE = 16 + 136 /* page head and MDB_meta */
};

char *
storage_file(const char *dir)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/data.mdb", dir);
    return fault_hit("store_mem") ? NULL : strdup(path);
}

int
storage_sync_dir(const char *dir, struct err *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = 0;

    if (fd == -1)
        return err_set(e, ERR_IO, "cannot open '%s': %s", dir, strerror(errno));
    if (fsync(fd) != 0)
        r = err_set(e, ERR_IO, "cannot sync '%s': %s", dir, strerror(errno));
    (void)close(fd);
    return r;
}

int
storage_error(struct storage *t, int rc, const char *what, struct err *e)
{
    int code = ERR_IO;

    if (rc == ENOMEM)
        code = ERR_NOMEM;
    else if (rc == MDB_READERS_FULL)
        code = ERR_BUSY;
    else if (rc == MDB_PANIC || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND)
        t->failed = true;
    (void)err_set(e, code, "cannot %s in '%s': %s", what, t->file,
                  mdb_strerror(rc));
    if (rc == ENOSPC || rc == EIO || rc == EFBIG || rc == EDQUOT)
        err_hint(e, "look whether the disk is full or failing");
    if (e != NULL)
        e->flags |= t->failed ? (unsigned)ERR_FATAL : (unsigned)ERR_RETRIABLE;
    return code;
}

/* --- the gate ----------------------------------------------------------------
 */

void
storage_enter(struct storage *t)
{
    /* Acquire pairs with the release of the writer that let readers in:
     * they must see the new map. */
    while ((atomic_fetch_add_explicit(&t->gate, 1, memory_order_acquire) &
            GATE_GROWING) != 0) {
        (void)atomic_fetch_sub_explicit(&t->gate, 1, memory_order_relaxed);
        (void)sched_yield();
    }
}

void
storage_leave(struct storage *t)
{
    /* Release: the writer that sees us gone may move what we read. */
    (void)atomic_fetch_sub_explicit(&t->gate, 1, memory_order_release);
}

/* Double the map. Readers are short (store.h), so waiting for them is too. */
static int
grow(struct storage *t)
{
    uint64_t want = t->map_bytes * 2;
    int rc;

    (void)atomic_fetch_or_explicit(&t->gate, GATE_GROWING,
                                   memory_order_relaxed);
    while (atomic_load_explicit(&t->gate, memory_order_acquire) != GATE_GROWING)
        (void)sched_yield();
    rc = mdb_env_set_mapsize(t->env, want);
    if (rc == 0)
        t->map_bytes = want;
    (void)atomic_fetch_and_explicit(&t->gate, ~GATE_GROWING,
                                    memory_order_release);
    return rc;
}

/* --- transactions
 * -------------------------------------------------------------- */

int
storage_put_meta(struct storage *t, MDB_txn *txn, const void *key,
                 size_t key_len, const void *bytes, size_t len)
{
    MDB_val k = {key_len, (void *)(uintptr_t)key};
    MDB_val v = {ENTRY_VALUE_HEAD + len, NULL};
    uint8_t *out = wire_malloc(v.mv_size);
    int rc;

    if (out == NULL)
        return ENOMEM;
    entry_wrap(out, key, key_len, bytes, len);
    v.mv_data = out;
    rc = mdb_put(txn, t->meta, &k, &v, 0);
    free(out);
    return rc;
}

int
storage_get_meta(struct storage *t, MDB_txn *txn, const void *key,
                 size_t key_len, const void **ret, size_t *ret_len,
                 struct err *e)
{
    MDB_val k = {key_len, (void *)(uintptr_t)key}, v;
    int rc = mdb_get(txn, t->meta, &k, &v);

    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc != 0)
        return storage_error(t, rc, "read the ledger", e);
    if (!entry_unwrap(key, key_len, v.mv_data, v.mv_size, ret, ret_len))
        return err_set(e, ERR_IO, "'%s' is damaged: the ledger", t->file);
    return 1;
}

/* Every transaction signs itself, so that a meta page cannot lie about
 * which one is the newest. */
static int
sign(struct storage *t, MDB_txn *txn, unsigned flags)
{
    uint8_t b[16];

    wire_store_u64(b, mdb_txn_id(txn));
    wire_store_u64(b + 8, t->layout + ((flags & STORAGE_LAYOUT) != 0));
    return storage_put_meta(t, txn, "txn", 3, b, sizeof b);
}

/* A meta page as it is on disk, before a commit overwrites it. */
struct meta_page {
    uint8_t bytes[META_SIZE];
    off_t at;
    bool saved;
};

static void
save_meta(struct storage *t, MDB_txn *txn, struct meta_page *m)
{
    MDB_stat st;
    int fd;

    m->saved = false;
    if (mdb_env_stat(t->env, &st) != 0 || mdb_env_get_fd(t->env, &fd) != 0)
        return;
    m->at = (off_t)((mdb_txn_id(txn) & 1) * st.ms_psize);
    m->saved =
        pread(fd, m->bytes, sizeof m->bytes, m->at) == (ssize_t)sizeof m->bytes;
}

/*
 * After a failed commit only LMDB knows whether it can go on. If writing the
 * meta page failed, it puts back the old transaction number but leaves the
 * new roots (mdb_env_write_meta in 0.9.24): a page that contradicts itself,
 * as if damaged, and which the check at the next open would refuse. So the
 * whole old page is put back; if that fails, too, refusing is right.
 */
static void
after_failed_commit(struct storage *t, const struct meta_page *m)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(t->env, NULL, 0, &txn), fd;

    if (rc == 0)
        mdb_txn_abort(txn);
    if (rc != MDB_PANIC)
        return;
    t->failed = true;
    if (m->saved && mdb_env_get_fd(t->env, &fd) == 0 &&
        pwrite(fd, m->bytes, sizeof m->bytes, m->at) ==
            (ssize_t)sizeof m->bytes)
        (void)fdatasync(fd);
}

static int
run_once(struct storage *t, unsigned flags, storage_txn_f fn, void *arg,
         struct err *e)
{
    struct meta_page meta;
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(t->env, NULL, 0, &txn);

    if (rc != 0)
        return rc;
    rc = fn(t, txn, arg, e);
    if (rc == 0)
        rc = sign(t, txn, flags);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    save_meta(t, txn, &meta);
    rc = mdb_txn_commit(txn);
    if (rc != 0 && rc != MDB_MAP_FULL)
        after_failed_commit(t, &meta);
    return rc;
}

static bool
is_ours(int rc)
{
    return rc < 0 && rc >= ERR_AGAIN;
}

int
storage_run(struct storage *t, unsigned flags, storage_txn_f fn, void *arg,
            const char *what, struct err *e)
{
    int rc;

    if (t->failed) {
        (void)err_set(e, ERR_IO,
                      "cannot %s in '%s': an earlier write left it in doubt",
                      what, t->file);
        err_hint(e, "open the store again to see what the disk holds");
        if (e != NULL)
            e->flags |= ERR_FATAL;
        return ERR_IO;
    }
    for (;;) {
        rc = run_once(t, flags, fn, arg, e);
        if (rc != MDB_MAP_FULL)
            break;
        rc = grow(t);
        if (rc != 0)
            break;
    }
    if (is_ours(rc))
        return rc;
    if (rc != 0)
        return storage_error(t, rc, what, e);
    t->layout += (flags & STORAGE_LAYOUT) != 0;
    return 0;
}

int
storage_read(struct storage *t, MDB_txn **txn, struct err *e)
{
    int rc;

    if (*txn != NULL)
        rc = mdb_txn_renew(*txn);
    else
        rc = mdb_txn_begin(t->env, NULL, MDB_RDONLY, txn);
    if (rc == MDB_MAP_RESIZED && *txn == NULL) {
        /* Another process made it larger than our map; we only read. */
        rc = mdb_env_set_mapsize(t->env, 0);
        if (rc == 0)
            rc = mdb_txn_begin(t->env, NULL, MDB_RDONLY, txn);
    }
    return rc == 0 ? 0 : storage_error(t, rc, "read", e);
}

int
storage_sync(struct storage *t, struct err *e)
{
    int rc = mdb_env_sync(t->env, 1);

    return rc == 0 ? 0 : storage_error(t, rc, "sync", e);
}

/* --- opening and making ------------------------------------------------------
 */

static int
open_tables(struct storage *t, unsigned txn_flags, unsigned db_flags)
{
    MDB_txn *txn = NULL;
    char name[8];
    unsigned i;
    int rc = mdb_txn_begin(t->env, NULL, txn_flags, &txn);

    if (rc != 0)
        return rc;
    rc = mdb_dbi_open(txn, "meta", db_flags, &t->meta);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "base", db_flags, &t->base);
    for (i = 0; rc == 0 && i < STORE_SEGMENTS_MAX; i++) {
        (void)snprintf(name, sizeof name, "s%02u", i);
        rc = mdb_dbi_open(txn, name, db_flags, &t->slots[i]);
    }
    if (rc == 0 && (db_flags & MDB_CREATE) != 0)
        rc = sign(t, txn, 0);
    if (rc == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

/* The map may be larger than what the address space allows: halve it. */
static int
open_env(struct storage *t, const char *path, unsigned flags,
         const struct storage_opts *o)
{
    uint64_t map =
        (o->map_bytes != 0 ? o->map_bytes : MAP_DEFAULT) & ~(MAP_STEP - 1);
    int rc;

    if (map < MAP_STEP)
        map = MAP_STEP;
    for (;; map /= 2) {
        rc = mdb_env_create(&t->env);
        if (rc != 0)
            return rc;
        rc = mdb_env_set_maxdbs(t->env, TABLES);
        if (rc == 0)
            rc = mdb_env_set_mapsize(t->env, map);
        if (rc == 0 && o->readers_max != 0)
            rc = mdb_env_set_maxreaders(t->env, o->readers_max);
        if (rc == 0)
            rc = mdb_env_open(t->env, path, flags, 0600);
        if (rc == 0)
            break;
        mdb_env_close(t->env);
        t->env = NULL;
        if (rc != ENOMEM || map <= (MAP_STEP << 8) || o->map_bytes != 0)
            return rc;
    }
    t->map_bytes = map;
    return 0;
}

/* The map of a file that is longer than asked for is made as long. */
static void
learn_map(struct storage *t)
{
    MDB_envinfo info;

    if (mdb_env_info(t->env, &info) == 0)
        t->map_bytes = info.me_mapsize;
}

static int
read_format(struct storage *t, struct err *e)
{
    MDB_txn *txn = NULL;
    const void *p;
    size_t len;
    int r = storage_read(t, &txn, e);

    if (r != 0)
        return r;
    r = storage_get_meta(t, txn, "format", 6, &p, &len, e);
    if (r == 1 && len == FORMAT_SIZE) {
        t->seed = wire_load_u64((const uint8_t *)p + 24);
        r = storage_get_meta(t, txn, "txn", 3, &p, &len, e);
        if (r == 1 && len == 16)
            t->layout = wire_load_u64((const uint8_t *)p + 8);
    }
    mdb_txn_abort(txn);
    return r < 0 ? r : 0;
}

/* Only a store that somebody writes to has LMDB's lock file: elsewhere
 * reading shall change nothing. */
static unsigned
reader_flags(const char *dir)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/lock.mdb", dir);
    return access(path, R_OK | W_OK) == 0 ? MDB_RDONLY
                                          : MDB_RDONLY | MDB_NOLOCK;
}

int
storage_open(struct storage *t, const struct storage_opts *o, struct err *e)
{
    unsigned flags = MDB_NOTLS;
    int rc, stale;

    memset(t, 0, sizeof *t);
    atomic_init(&t->gate, 0);
    t->read_only = o->read_only;
    t->file = storage_file(o->dir);
    if (t->file == NULL)
        return err_set(e, ERR_NOMEM, "no memory to open '%s'", o->dir);
    flags |= o->read_only ? reader_flags(o->dir) : 0u;
    flags |= o->no_sync ? MDB_NOSYNC : 0u;
    rc = open_env(t, o->dir, flags, o);
    if (rc != 0) {
        rc = storage_error(t, rc, "open the store", e);
        storage_fini(t);
        return rc;
    }
    learn_map(t);
    (void)mdb_reader_check(t->env, &stale);
    return 0;
}

int
storage_start(struct storage *t, struct err *e)
{
    int rc = open_tables(t, t->read_only ? MDB_RDONLY : 0u, 0);

    return rc != 0 ? storage_error(t, rc, "open the tables", e)
                   : read_format(t, e);
}

void
storage_fini(struct storage *t)
{
    if (t->env != NULL)
        mdb_env_close(t->env);
    t->env = NULL;
    free(t->file);
    t->file = NULL;
}

struct creation {
    uint64_t seed;
    const uint8_t *lineage;
};

static int
create_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct creation *c = arg;
    uint8_t format[FORMAT_SIZE] = FORMAT_TEXT;
    struct ledger l;
    struct wire w = {0};
    int rc;

    (void)e;
    wire_store_u32(format + 16, STORE_VERSION);
    wire_store_u64(format + 24, c->seed);
    ledger_init(&l);
    memcpy(l.lineage, c->lineage, sizeof l.lineage);
    ledger_encode(&l, &w);
    rc = w.failed ? ENOMEM : storage_put_meta(t, txn, "cur", 3, w.data, w.len);
    wire_fini(&w);
    if (rc == 0)
        rc = storage_put_meta(t, txn, "format", 6, format, sizeof format);
    return rc;
}

/* The folder a new file is made in; one that a crash left is emptied. */
static int
make_nursery(const char *dir, char folder[PATH_MAX], char file[PATH_MAX],
             struct storage *t, struct err *e)
{
    if (snprintf(folder, PATH_MAX, "%s/" STORAGE_NEW, dir) >= PATH_MAX ||
        snprintf(file, PATH_MAX, "%s/" STORAGE_NEW "/data.mdb", dir) >=
            PATH_MAX)
        return storage_error(t, ENAMETOOLONG, "make the store", e);
    if (unlink(file) != 0 && errno != ENOENT && errno != ENOTDIR)
        return storage_error(t, errno, "remove a half-made file", e);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return storage_error(t, errno, "make a folder", e);
    return 0;
}

/* Not under its final name, so that a crash leaves nothing that looks like a
 * store: what has the name is whole, or damaged. */
int
storage_create(const char *dir, uint64_t seed,
               const uint8_t lineage[STORE_LINEAGE_SIZE], struct err *e)
{
    struct creation c = {seed, lineage};
    struct storage_opts o = {.map_bytes = MAP_STEP << 6};
    char folder[PATH_MAX], file[PATH_MAX];
    struct storage t;
    int rc, r;

    memset(&t, 0, sizeof t);
    atomic_init(&t.gate, 0);
    t.file = storage_file(dir);
    if (t.file == NULL)
        return err_set(e, ERR_NOMEM, "no memory to make '%s'", dir);
    r = make_nursery(dir, folder, file, &t, e);
    if (r != 0)
        goto done;
    rc = open_env(&t, folder, MDB_NOLOCK, &o);
    if (rc == 0)
        rc = open_tables(&t, 0, MDB_CREATE);
    r = rc != 0 ? storage_error(&t, rc, "make the tables", e)
                : storage_run(&t, 0, create_txn, &c, "make the store", e);
    if (r == 0)
        r = storage_sync(&t, e);
    if (r == 0 && rename(file, t.file) != 0)
        r = storage_error(&t, errno, "name the file", e);
    if (r == 0)
        r = storage_sync_dir(dir, e);
    if (r != 0)
        (void)unlink(file);
    (void)rmdir(folder);
done:
    storage_fini(&t);
    return r;
}
