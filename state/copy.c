#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "state/check.h"
#include "state/store_impl.h"

/*
 * A copy: another store with one base in order and no segments.
 *
 * It is written unsynced into `dir`.partial, which nobody looks into; then
 * synced, read back and checked, and renamed. The source merges nothing
 * meanwhile, so the trees of the copied round stay what they are although
 * no read transaction is held between the steps.
 */

enum { STEP_BYTES = 16 << 20 };

struct store_copy {
    struct store *s;
    char dir[PATH_MAX], partial[PATH_MAX];
    struct ledger from; /* the round that is copied */
    struct ledger to;   /* of the copy; its base totals grow */
    struct view view;
    struct entry_key last;
    struct storage dest;
    bool made, open, failed;
};

/* --- folders
 * ------------------------------------------------------------------- */

/* @return 1 nothing there or empty, 0 in the way. */
static bool
is_free(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *f;
    bool empty = true;

    if (d == NULL)
        return errno == ENOENT;
    while (empty && (f = readdir(d)) != NULL)
        empty = strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0;
    (void)closedir(d);
    return empty;
}

/* Remove the folder of a copy and the files such a folder can hold. */
static int
remove_partial(const struct store_copy *c, struct err *e)
{
    static const char *const names[] = {"data.mdb", "data.mdb.new", "lock.mdb"};
    char path[PATH_MAX + 16];
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", c->partial, names[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/" STORAGE_NEW, c->partial);
    (void)rmdir(path);
    if (rmdir(c->partial) == 0 || errno == ENOENT)
        return 0;
    return err_set(e, ERR_CONFIG, "'%s' is in the way of the copy: %s",
                   c->partial, strerror(errno));
}

static int
sync_parent(const char *dir, struct err *e)
{
    char path[PATH_MAX];
    char *slash;

    (void)snprintf(path, sizeof path, "%s", dir);
    slash = strrchr(path, '/');
    if (slash == NULL)
        return storage_sync_dir(".", e);
    slash[slash == path] = '\0';
    return storage_sync_dir(path, e);
}

/* --- begin and end
 * ---------------------------------------------------------------- */

static int
set_paths(struct store_copy *c, const char *dir, struct err *e)
{
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len == 0 || len + sizeof ".partial/" STORAGE_NEW "/data.mdb" > PATH_MAX)
        return err_set(e, ERR_CONFIG, "a path of %zu bytes", len);
    memcpy(c->dir, dir, len);
    memcpy(c->partial, dir, len);
    memcpy(c->partial + len, ".partial", sizeof ".partial");
    if (is_free(c->dir))
        return 0;
    (void)err_set(e, ERR_CONFIG, "'%s' is in the way of the copy", c->dir);
    err_hint(e, "name a folder that does not exist");
    return ERR_CONFIG;
}

struct blobs {
    struct store_copy *c;
    MDB_txn *source;
};

/* At once: the source deletes them when a later round replaces them. */
static int
blobs_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct blobs *b = arg;
    struct store_copy *c = b->c;
    size_t i;

    for (i = 0; i < c->from.blob_count; i++) {
        uint8_t key[STORE_NAME_MAX + 16];
        size_t len, key_len = ledger_blob_key(&c->from.blobs[i], key);
        const void *p;
        int rc =
            storage_get_meta(&c->s->t, b->source, key, key_len, &p, &len, e);

        if (rc == 0)
            rc = err_set(e, ERR_IO, "'%s' is damaged: '%s' is missing",
                         c->s->t.file, c->from.blobs[i].name);
        if (rc < 0)
            return rc;
        rc = storage_put_meta(t, txn, key, key_len, p, len);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int
copy_blobs(struct store_copy *c, struct err *e)
{
    struct blobs b = {.c = c};
    struct storage *t = &c->s->t;
    int r;

    storage_enter(t);
    r = storage_read(t, &b.source, e);
    if (r == 0) {
        r = storage_run(&c->dest, 0, blobs_txn, &b, "write the copy", e);
        mdb_txn_abort(b.source);
    }
    storage_leave(t);
    return r;
}

static int
begin(struct store_copy *c, const uint8_t *lineage, struct err *e)
{
    struct storage_opts o = {.dir = c->partial, .no_sync = true};
    struct store *s = c->s;
    size_t i;
    int r = remove_partial(c, e);

    if (r != 0)
        return r;
    if (mkdir(c->partial, 0700) != 0)
        return err_set(e, ERR_IO, "cannot make '%s': %s", c->partial,
                       strerror(errno));
    c->made = true;
    if (ledger_copy(&c->from, &s->cur) != 0 ||
        ledger_copy(&c->to, &s->cur) != 0)
        return err_set(e, ERR_NOMEM, "no memory for a copy of '%s'", s->dir);
    view_of(&s->t, &s->cur, NULL, &c->view);
    for (i = 0; i < c->to.segment_count; i++)
        totals_fini(&c->to.segments[i].totals);
    c->to.segment_count = 0;
    totals_fini(&c->to.base);
    c->to.merge_round = 0;
    c->to.merge_key.len = 0;
    c->to.lost = 0;
    for (i = c->to.op_count; i-- > 0;)
        if (c->to.ops[i].dropped)
            ledger_remove_op(&c->to, c->to.ops[i].id);
    if (lineage != NULL)
        memcpy(c->to.lineage, lineage, sizeof c->to.lineage);
    r = storage_create(c->partial, s->t.seed, c->to.lineage, e);
    if (r == 0)
        r = storage_open(&c->dest, &o, e);
    c->open = r == 0;
    if (r == 0)
        r = storage_start(&c->dest, e);
    return r == 0 ? copy_blobs(c, e) : r;
}

int
store_copy_begin(struct store *s, const char *dir, const uint8_t *lineage,
                 struct store_copy **ret_c, struct err *e)
{
    struct store_copy *c;
    int r;

    if (s->copy != NULL || s->cur.round == 0)
        return err_set(e, ERR_INTERNAL, "'%s' cannot be copied: %s", s->dir,
                       s->copy != NULL ? "a copy is under way"
                                       : "it has no checkpoint");
    c = wire_malloc(sizeof *c);
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "no memory for a copy of '%s'", s->dir);
    memset(c, 0, sizeof *c);
    c->s = s;
    ledger_init(&c->from);
    ledger_init(&c->to);
    r = set_paths(c, dir, e);
    if (r == 0)
        r = begin(c, lineage, e);
    if (r != 0) {
        store_copy_free(&c);
        return r;
    }
    s->copy = c;
    *ret_c = c;
    return 0;
}

void
store_copy_free(struct store_copy **pc)
{
    struct store_copy *c = *pc;

    *pc = NULL;
    if (c == NULL)
        return;
    if (c->open)
        storage_fini(&c->dest);
    if (c->made)
        (void)remove_partial(c, NULL);
    if (c->s->copy == c)
        c->s->copy = NULL;
    ledger_fini(&c->from);
    ledger_fini(&c->to);
    free(c);
}

/* --- steps
 * -------------------------------------------------------------------------- */

struct step {
    struct store_copy *c;
    MDB_txn *source;
    size_t entries_max;
    struct ledger l; /* the copy's after this step */
    struct entry_key last;
    bool more;
};

static int
copy_entries(struct step *st, struct merged *from, MDB_cursor *to,
             struct err *e)
{
    struct merged_pair p;
    size_t n, bytes = 0;
    int rc;

    st->more = true;
    for (n = 0; n < st->entries_max && bytes < STEP_BYTES; n++) {
        rc = merged_next(from, &p, e);
        if (rc <= 0) {
            st->more = rc != 0;
            return rc;
        }
        bytes += p.key.mv_size + p.value.mv_size;
        memcpy(st->last.bytes, p.key.mv_data, p.key.mv_size);
        st->last.len = (uint16_t)p.key.mv_size;
        if (p.entry.deleted || ledger_find_op(&st->l, p.entry.key.op) == NULL)
            continue;
        if (totals_count(&st->l.base, &p.entry, p.key.mv_size + p.value.mv_size,
                         1) != 0)
            return ENOMEM;
        rc = mdb_cursor_put(to, &p.key, &p.value, MDB_APPEND);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int
step_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct step *st = arg;
    struct store_copy *c = st->c;
    struct merged from = {.count = 0};
    MDB_cursor *to = NULL;
    int rc = mdb_cursor_open(txn, t->base, &to);

    if (rc == 0 && ledger_copy(&st->l, &c->to) != 0)
        rc = ENOMEM;
    st->last = c->last;
    if (rc == 0)
        rc = merged_init(&from, &c->s->t, &c->from, st->source, &c->view,
                         &c->last, true, e);
    if (rc == 0)
        rc = copy_entries(st, &from, to, e);
    merged_fini(&from);
    if (to != NULL)
        mdb_cursor_close(to);
    if (rc == 0 && !st->more)
        rc = store_put_ledger(t, txn, "cur", &st->l);
    return rc;
}

/* Whole and synced: check it and give it its name. */
static int
publish(struct store_copy *c, struct err *e)
{
    char file[PATH_MAX + 16], lock[PATH_MAX + 16];
    struct check_opts check = {.file = file};
    struct check_result result;
    int r = storage_sync(&c->dest, e);

    storage_fini(&c->dest);
    c->open = false;
    (void)snprintf(file, sizeof file, "%s/data.mdb", c->partial);
    (void)snprintf(lock, sizeof lock, "%s/lock.mdb", c->partial);
    (void)unlink(lock);
    if (r == 0)
        r = storage_sync_dir(c->partial, e);
    if (r == 0)
        r = check_file(&check, &result, e);
    if (r == 0 && fault_hit("store_copy_publish"))
        r = err_set(e, ERR_IO, "cannot name '%s'", c->dir);
    if (r != 0)
        return r;
    if (rename(c->partial, c->dir) != 0)
        return err_set(
            e, errno == EEXIST || errno == ENOTEMPTY ? ERR_CONFIG : ERR_IO,
            "cannot name the copy '%s': %s", c->dir, strerror(errno));
    c->made = false;
    return sync_parent(c->dir, e);
}

static int
run_step(struct store_copy *c, struct step *st, struct err *e)
{
    struct storage *t = &c->s->t;
    int r;

    storage_enter(t);
    r = storage_read(t, &st->source, e);
    if (r == 0) {
        r = storage_run(&c->dest, 0, step_txn, st, "write the copy", e);
        mdb_txn_abort(st->source);
    }
    storage_leave(t);
    return r;
}

int
store_copy_step(struct store_copy *c, size_t entries_max, struct err *e)
{
    struct step st = {.c = c, .entries_max = entries_max};
    int r;

    if (c->failed || !c->open)
        return err_set(e, ERR_INTERNAL, "the copy '%s' has ended", c->dir);
    if (fault_hit("store_copy")) {
        c->failed = true;
        return err_set(e, ERR_IO, "cannot write the copy '%s'", c->dir);
    }
    ledger_init(&st.l);
    r = run_step(c, &st, e);
    if (r == 0) {
        struct ledger old = c->to;

        c->to = st.l;
        st.l = old;
        c->last = st.last;
        r = st.more ? 1 : publish(c, e);
    }
    ledger_fini(&st.l);
    c->failed = r < 0;
    return r;
}
