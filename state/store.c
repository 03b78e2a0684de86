#include "state/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "state/check.h"
#include "state/lock.h"
#include "state/store_impl.h"

enum { PIN_TRIES = 1000 };

/* --- opening
 * ------------------------------------------------------------------ */

static int
random_bytes(void *out, size_t len, struct err *e)
{
    if (getrandom(out, len, 0) == (ssize_t)len)
        return 0;
    return err_set(e, ERR_IO, "no random bytes: %s", strerror(errno));
}

/* Make the file if there is none and that was asked for. */
static int
make_file(const struct store_opts *o, const char *file, struct err *e)
{
    uint8_t lineage[STORE_LINEAGE_SIZE];
    uint64_t seed;
    int r;

    if (access(file, F_OK) == 0)
        return 0;
    if (errno != ENOENT && errno != ENOTDIR)
        return err_set(e, ERR_IO, "cannot look at '%s': %s", file,
                       strerror(errno));
    if (!o->create || o->read_only)
        return err_set(e, ERR_IO, "there is no checkpoint in '%s'", o->dir);
    r = random_bytes(&seed, sizeof seed, e);
    if (r == 0)
        r = random_bytes(lineage, sizeof lineage, e);
    return r == 0 ? storage_create(o->dir, seed, lineage, e) : r;
}

/*
 * Check a file another process may be writing: a read transaction holds the
 * pages of one state while they are looked at.
 */
static int
check_live(struct storage *t, struct check_opts *o, struct check_result *ret,
           struct err *e)
{
    int r = ERR_AGAIN, tries;

    for (tries = 0; r == ERR_AGAIN && tries < PIN_TRIES; tries++) {
        MDB_txn *txn = NULL;

        r = storage_read(t, &txn, e);
        if (r != 0)
            return r;
        o->live = true;
        o->txnid = mdb_txn_id(txn);
        r = check_file(o, ret, e);
        mdb_txn_abort(txn);
    }
    if (r == ERR_AGAIN)
        r = err_set(e, ERR_TEMP, "'%s' changes too fast to be read", o->file);
    return r;
}

static int
load_ledgers(struct store *s, struct err *e)
{
    MDB_txn *txn = NULL;
    const void *p;
    size_t len;
    int r = storage_read(&s->t, &txn, e);

    if (r != 0)
        return r;
    r = storage_get_meta(&s->t, txn, "cur", 3, &p, &len, e);
    if (r == 1)
        r = ledger_decode(&s->cur, p, len) == 0
                ? storage_get_meta(&s->t, txn, "redo", 4, &p, &len, e)
                : err_set(e, ERR_NOMEM, "no memory for the ledger");
    if (r == 1) {
        r = ledger_decode(&s->redo, p, len) == 0
                ? 0
                : err_set(e, ERR_NOMEM, "no memory for the ledger");
        s->has_redo = r == 0;
    }
    mdb_txn_abort(txn);
    return r;
}

static int
open_file(struct store *s, const struct store_opts *o, struct err *e)
{
    char *file = storage_file(o->dir);
    struct check_opts check = {.file = file};
    struct storage_opts open = {.dir = o->dir,
                                .read_only = o->read_only,
                                .no_sync = o->no_sync,
                                .map_bytes = o->map_bytes,
                                .readers_max = o->readers_max};
    struct check_result result = {0};
    int r;

    if (file == NULL)
        return err_set(e, ERR_NOMEM, "no memory to open '%s'", o->dir);
    r = make_file(o, file, e);
    if (r == 0 && !o->read_only)
        r = check_file(&check, &result, e);
    if (r == 0)
        r = storage_open(&s->t, &open, e);
    if (r == 0 && o->read_only)
        r = check_live(&s->t, &check, &result, e);
    if (r == 0)
        r = storage_start(&s->t, e);
    if (r == 0)
        r = load_ledgers(s, e);
    s->redo_damaged = result.pending_damaged;
    s->free_pages = result.free_pages;
    free(file);
    return r;
}

int
store_open(const struct store_opts *o, struct store **ret_s, struct err *e)
{
    struct store *s = wire_malloc(sizeof *s);
    int r = 0;

    if (s == NULL)
        return err_set(e, ERR_NOMEM, "no memory to open '%s'", o->dir);
    memset(s, 0, sizeof *s);
    s->lock_fd = -1;
    s->read_only = o->read_only;
    ledger_init(&s->cur);
    ledger_init(&s->redo);
    ledger_init(&s->next);
    s->dir = strdup(o->dir);
    if (s->dir == NULL)
        r = err_set(e, ERR_NOMEM, "no memory to open '%s'", o->dir);
    if (r == 0 && o->create && !o->read_only)
        r = lock_make_dir(o->dir, e);
    if (r == 0 && access(o->dir, F_OK) != 0)
        r = err_set(e, ERR_IO, "there is no data directory '%s'", o->dir);
    if (r == 0 && !o->any_fs)
        r = lock_check_fs(o->dir, e);
    if (r == 0 && !o->read_only)
        r = lock_take(o->dir, &s->lock_fd, e);
    if (r == 0)
        r = open_file(s, o, e);
    if (r != 0) {
        store_close(&s);
        return r;
    }
    *ret_s = s;
    return 0;
}

void
store_close(struct store **ps)
{
    struct store *s = *ps;

    *ps = NULL;
    if (s == NULL)
        return;
    store_round_cancel(s);
    storage_fini(&s->t);
    ledger_fini(&s->cur);
    ledger_fini(&s->redo);
    ledger_fini(&s->next);
    lock_give(&s->lock_fd);
    free(s->dir);
    free(s);
}

void
store_status(struct store *s, struct store_status *ret)
{
    MDB_envinfo info;
    MDB_stat st;

    memset(ret, 0, sizeof *ret);
    ret->complete = s->cur.round;
    ret->pending = s->has_redo ? s->redo.round : 0;
    ret->pending_damaged = s->has_redo && s->redo_damaged;
    ret->finished = s->cur.finished;
    memcpy(ret->lineage, s->cur.lineage, sizeof ret->lineage);
    ret->segments = s->cur.segment_count;
    if (mdb_env_info(s->t.env, &info) == 0 &&
        mdb_env_stat(s->t.env, &st) == 0) {
        ret->file_bytes = (info.me_last_pgno + 1) * st.ms_psize;
        ret->free_bytes = s->free_pages * st.ms_psize;
    }
}

/* --- shared by the files of the folder -------------------------------------
 */

int
store_damaged(const struct storage *t, const struct ledger *names,
              const void *key, size_t key_len, struct err *e)
{
    char place[LEDGER_PLACE_MAX];

    ledger_place(names, key, key_len, place);
    (void)err_set(e, ERR_IO, "'%s' is damaged: checkpoint %" PRIu64 ": %s",
                  t->file, names->round, place);
    err_hint(e, "start from a savepoint; nothing was changed here");
    return ERR_IO;
}

int
store_put_ledger(struct storage *t, MDB_txn *txn, const char *name,
                 const struct ledger *l)
{
    struct wire w = {0};
    int rc = ENOMEM;

    ledger_encode(l, &w);
    if (!w.failed)
        rc = storage_put_meta(t, txn, name, strlen(name), w.data, w.len);
    wire_fini(&w);
    return rc;
}

int
store_writable(const struct store *s, struct err *e)
{
    return s->read_only ? err_set(e, ERR_INTERNAL,
                                  "'%s' was opened for reading", s->t.file)
                        : 0;
}

static int
verify_live(const char *dir, struct check_opts *check, struct check_result *ret,
            struct err *e)
{
    struct storage_opts open = {.dir = dir, .read_only = true};
    struct storage t;
    int r = storage_open(&t, &open, e);

    if (r != 0)
        return r;
    r = check_live(&t, check, ret, e);
    storage_fini(&t);
    return r;
}

int
store_verify(const char *dir, struct store_verified *ret, struct err *e)
{
    char *file = storage_file(dir);
    struct check_opts check = {.file = file};
    struct check_result result = {0};
    int r = ERR_IO;

    if (file == NULL)
        return err_set(e, ERR_NOMEM, "no memory to read '%s'", dir);
    if (access(file, F_OK) != 0) {
        r = err_set(e, ERR_IO, "there is no checkpoint in '%s'", dir);
    } else {
        if (!lock_is_held(dir))
            r = check_file(&check, &result, e);
        /* Or a job started while we looked. */
        if (r == ERR_IO && lock_is_held(dir))
            r = verify_live(dir, &check, &result, e);
    }
    if (r == 0) {
        ret->round = result.round;
        ret->entries = result.entries;
        ret->bytes = result.bytes;
    }
    free(file);
    return r;
}
