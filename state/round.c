#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "state/store_impl.h"

/*
 * A round: gathering -> pending (redo durable) -> complete, or discarded.
 *
 *   store_round_begin    memory only
 *   store_round_write    redo durable: "redo" in the ledger, its segment
 *   store_round_complete "cur" takes the redo in, "redo" goes
 *   store_round_discard  the segment is emptied, "redo" goes
 *
 * Each of the last three is one synced transaction, and what the store
 * remembers changes only after it.
 */

enum { MERGE_NOW = 65536 }; /* entries a step when segments have run out */

static int
no_memory(const struct store *s, struct err *e)
{
    return err_set(e, ERR_NOMEM, "no memory for a checkpoint in '%s'", s->dir);
}

/* --- gathering
 * ---------------------------------------------------------------- */

int
store_round_begin(struct store *s, uint64_t n, struct err *e)
{
    unsigned i;
    int r = store_writable(s, e);

    if (r != 0)
        return r;
    if (s->has_redo || s->gathering || n <= s->cur.round ||
        n >= UINT64_C(1) << 63)
        return err_set(e, ERR_INTERNAL,
                       "round %" PRIu64 " cannot begin: complete %" PRIu64
                       ", pending %" PRIu64 "%s",
                       n, s->cur.round, s->has_redo ? s->redo.round : 0,
                       s->gathering ? ", another is gathered" : "");
    if (ledger_copy(&s->next, &s->cur) != 0)
        return no_memory(s, e);
    for (i = 0; i < s->next.segment_count; i++)
        totals_fini(&s->next.segments[i].totals);
    totals_fini(&s->next.base);
    s->next.segment_count = 0;
    s->next.merge_round = 0;
    s->next.merge_key.len = 0;
    s->next.lost = 0;
    s->next.finished = false;
    s->next.round = n;
    s->gathering = true;
    s->known_op = 0;
    return 0;
}

void
store_free_blobs(struct staged_blob **list)
{
    while (*list != NULL) {
        struct staged_blob *b = *list;

        *list = b->next;
        free(b);
    }
}

void
store_round_cancel(struct store *s)
{
    stage_fini(&s->stage);
    store_free_blobs(&s->blobs);
    s->gathering = false;
}

static int
not_gathering(struct err *e)
{
    return err_set(e, ERR_INTERNAL, "no round of the store has begun");
}

int
store_round_operator(struct store *s, const char *name, size_t len,
                     uint32_t *ret_op, struct err *e)
{
    struct ledger_op *o;
    int r;

    if (!s->gathering)
        return not_gathering(e);
    o = ledger_find_name(&s->next, name, len);
    if (o != NULL) {
        *ret_op = o->id;
        return 0;
    }
    r = ledger_add_op(&s->next, name, len, ret_op);
    if (r == ERR_NOMEM)
        return no_memory(s, e);
    return r == 0 ? 0
                  : err_set(e, r,
                            "too many operators with state, or a name "
                            "of %zu bytes",
                            len);
}

int
store_round_drop(struct store *s, uint32_t op, struct err *e)
{
    struct ledger_op *o;

    if (!s->gathering)
        return not_gathering(e);
    o = ledger_find_op(&s->next, op);
    if (o == NULL || o->dropped)
        return err_set(e, ERR_INTERNAL, "operator %" PRIu32 " has no state",
                       op);
    o->dropped = true;
    s->known_op = 0;
    return 0;
}

static int
add(struct store *s, const struct store_key *key, const void *value, size_t len,
    struct err *e)
{
    const struct ledger_op *o;

    if (!s->gathering)
        return not_gathering(e);
    if (!entry_key_fits(key))
        return err_record(e, CAUSE_OVERFLOW,
                          "state key of %zu bytes (namespace %zu), at most "
                          "%d (%d) are possible",
                          key->key_len, key->ns_len, STORE_KEY_MAX,
                          STORE_NS_MAX);
    if (len > STORE_VALUE_MAX)
        return err_record(e, CAUSE_OVERFLOW,
                          "state value of %zu bytes, at most %d are possible",
                          len, STORE_VALUE_MAX);
    if (key->op != s->known_op) {
        o = ledger_find_op(&s->next, key->op);
        if (o == NULL || o->dropped)
            return err_set(e, ERR_INTERNAL, "operator %" PRIu32 " has no state",
                           key->op);
        s->known_op = key->op;
    }
    return stage_add(&s->stage, s->t.seed, key, value, len) == 0
               ? 0
               : no_memory(s, e);
}

int
store_round_put(struct store *s, const struct store_key *key, const void *value,
                size_t len, struct err *e)
{
    return add(s, key, value != NULL ? value : "", len, e);
}

int
store_round_del(struct store *s, const struct store_key *key, struct err *e)
{
    return add(s, key, NULL, 0, e);
}

/* Forget what was staged for `name` before. */
static void
unstage_blob(struct store *s, const char *name)
{
    struct staged_blob **at = &s->blobs, *b;

    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    b = *at;
    if (b != NULL)
        *at = b->next;
    free(b);
}

int
store_round_blob(struct store *s, const char *name, const void *bytes,
                 size_t len, struct err *e)
{
    size_t name_len = strlen(name);
    struct staged_blob *b;

    if (!s->gathering)
        return not_gathering(e);
    if (name_len == 0 || name_len > STORE_NAME_MAX || len > STORE_VALUE_MAX)
        return err_set(e, ERR_INTERNAL, "blob '%s' of %zu bytes", name, len);
    b = wire_malloc(sizeof *b + len);
    if (b == NULL)
        return no_memory(s, e);
    unstage_blob(s, name);
    memcpy(b->name, name, name_len + 1);
    b->removed = bytes == NULL;
    b->len = len;
    if (len != 0 && bytes != NULL)
        memcpy(b->bytes, bytes, len);
    b->next = s->blobs;
    s->blobs = b;
    return 0;
}

size_t
store_round_size(const struct store *s, size_t *ret_bytes)
{
    *ret_bytes = s->stage.bytes;
    return s->stage.count;
}

/* --- what all transactions of a round share ----------------------------------
 */

struct change {
    struct store *s;
    struct ledger cur;  /* to be, if set_cur */
    struct ledger redo; /* to be, if set_redo */
    bool set_cur, set_redo;
};

static void
change_init(struct change *c, struct store *s)
{
    memset(c, 0, sizeof *c);
    c->s = s;
    ledger_init(&c->cur);
    ledger_init(&c->redo);
}

static void
change_fini(struct change *c)
{
    ledger_fini(&c->cur);
    ledger_fini(&c->redo);
}

static void
swap_ledgers(struct ledger *a, struct ledger *b)
{
    struct ledger t = *a;

    *a = *b;
    *b = t;
}

/* What is on disk now becomes what the store remembers. */
static void
change_keep(struct change *c)
{
    struct store *s = c->s;

    if (c->set_cur)
        swap_ledgers(&s->cur, &c->cur);
    if (c->set_redo)
        swap_ledgers(&s->redo, &c->redo);
    s->has_redo = c->set_redo;
}

/* Take round `redo` into `cur`. @return 0 or ERR_NOMEM. */
static int
fold(struct ledger *cur, const struct ledger *redo, unsigned flags)
{
    struct ledger l;

    ledger_init(&l);
    if (ledger_copy(&l, redo) != 0)
        return ERR_NOMEM;
    cur->round = l.round;
    cur->finished = (flags & STORE_FINISHED) != 0;
    cur->next_op = l.next_op;
    free(cur->ops);
    cur->ops = l.ops;
    cur->op_count = l.op_count;
    cur->op_cap = l.op_cap;
    free(cur->blobs);
    cur->blobs = l.blobs;
    cur->blob_count = l.blob_count;
    cur->blob_cap = l.blob_cap;
    l.ops = NULL;
    l.blobs = NULL;
    if (l.segments[0].totals.count != 0) {
        cur->segments[cur->segment_count++] = l.segments[0];
        l.segment_count = 0;
    }
    ledger_fini(&l);
    return 0;
}

/* Delete the blobs of `from` that `to` does not have. */
static int
delete_blobs(struct storage *t, MDB_txn *txn, const struct ledger *from,
             const struct ledger *to)
{
    size_t i;
    int rc = 0;

    for (i = 0; (rc == 0 || rc == MDB_NOTFOUND) && i < from->blob_count; i++) {
        uint8_t key[STORE_NAME_MAX + 16];
        struct ledger_blob *b = ledger_find_blob(to, from->blobs[i].name);
        MDB_val k = {ledger_blob_key(&from->blobs[i], key), key};

        if (b == NULL || b->round != from->blobs[i].round)
            rc = mdb_del(txn, t->meta, &k, NULL);
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int
delete_redo(struct storage *t, MDB_txn *txn)
{
    MDB_val k = {4, (void *)(uintptr_t) "redo"};
    int rc = mdb_del(txn, t->meta, &k, NULL);

    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* --- writing
 * -------------------------------------------------------------------- */

/* A segment table nobody uses. @return its number, or -1. */
static int
free_slot(const struct ledger *l)
{
    uint32_t taken = l->lost;
    unsigned i;

    for (i = 0; i < l->segment_count; i++)
        taken |= 1u << l->segments[i].slot;
    for (i = 0; i < STORE_SEGMENTS_MAX; i++)
        if ((taken >> i & 1) == 0)
            return (int)i;
    return -1;
}

/* The caller did not merge in time, so this round does. */
static int
find_slot(struct store *s, unsigned *ret, struct err *e)
{
    int slot = free_slot(&s->cur);

    while (slot < 0 || s->cur.segment_count >= STORE_SEGMENTS_MAX) {
        int r;

        if (s->copy != NULL)
            return err_set(e, ERR_TEMP,
                           "no room for checkpoint %" PRIu64
                           " in '%s' before the savepoint under way is done",
                           s->next.round, s->dir);
        r = store_merge(s, MERGE_NOW, e);
        if (r < 0)
            return r;
        slot = free_slot(&s->cur);
        if (r == 0 && slot < 0)
            return err_set(e, ERR_IO,
                           "no room for checkpoint %" PRIu64
                           " in '%s': damaged redos take it all",
                           s->next.round, s->dir);
    }
    *ret = (unsigned)slot;
    return 0;
}

/* Fill in what the redo's ledger says of its segment and blobs. */
static int
describe(struct store *s, unsigned slot)
{
    struct ledger_segment *g = &s->next.segments[0];
    struct staged_blob *b;
    struct stage_pair p;
    struct entry one;
    size_t i;
    int r = 0;

    if (s->next.segment_count != 0)
        totals_fini(&g->totals);
    memset(g, 0, sizeof *g);
    s->next.segment_count = 1;
    g->round = s->next.round;
    g->slot = (uint8_t)slot;
    for (i = 0; r == 0 && i < s->stage.count; i++) {
        stage_pair(&s->stage, i, &p);
        one.sum = entry_sum(p.value);
        one.deleted = (p.value[11] & 0x80) != 0;
        (void)entry_key_decode(p.key, p.key_len, &one.key);
        r = totals_count(&g->totals, &one, p.key_len + p.value_len, 1);
    }
    for (b = s->blobs; r == 0 && b != NULL; b = b->next) {
        const struct ledger_blob *l = ledger_find_blob(&s->next, b->name);

        if (b->removed)
            ledger_remove_blob(&s->next, b->name);
        else if (l == NULL || l->round != s->next.round)
            r = ledger_set_blob(&s->next, b->name, s->next.round);
    }
    return r;
}

static int
append(struct storage *t, MDB_txn *txn, const struct stage *stage, MDB_dbi dbi)
{
    MDB_cursor *cursor = NULL;
    size_t i;
    int rc = mdb_drop(txn, dbi, 0);

    if (rc == 0)
        rc = mdb_cursor_open(txn, dbi, &cursor);
    for (i = 0; rc == 0 && i < stage->count; i++) {
        struct stage_pair p;
        MDB_val k, v;

        stage_pair(stage, i, &p);
        k = (MDB_val){p.key_len, (void *)(uintptr_t)p.key};
        v = (MDB_val){p.value_len, (void *)(uintptr_t)p.value};
        rc = mdb_cursor_put(cursor, &k, &v, MDB_APPEND);
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    (void)t;
    return rc;
}

static int
put_blobs(struct store *s, MDB_txn *txn)
{
    struct staged_blob *b;
    size_t i;
    int rc = 0;

    for (i = 0; rc == 0 && i < s->next.blob_count; i++) {
        const struct ledger_blob *l = &s->next.blobs[i];
        uint8_t key[STORE_NAME_MAX + 16];

        if (l->round != s->next.round)
            continue;
        for (b = s->blobs; strcmp(b->name, l->name) != 0; b = b->next)
            continue;
        rc = storage_put_meta(&s->t, txn, key, ledger_blob_key(l, key),
                              b->bytes, b->len);
    }
    return rc;
}

static int
write_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct change *c = arg;
    struct store *s = c->s;
    int rc = append(t, txn, &s->stage, t->slots[s->next.segments[0].slot]);

    (void)e;
    if (rc == 0)
        rc = put_blobs(s, txn);
    if (rc == 0 && c->set_redo)
        rc = store_put_ledger(t, txn, "redo", &c->redo);
    if (rc == 0 && c->set_cur)
        rc = store_put_ledger(t, txn, "cur", &c->cur);
    if (rc == 0 && c->set_cur)
        rc = delete_blobs(t, txn, &s->cur, &c->cur);
    return rc;
}

int
store_round_write(struct store *s, unsigned flags, struct err *e)
{
    struct change c;
    unsigned slot = 0;
    int r;

    if (!s->gathering)
        return not_gathering(e);
    if (stage_sort(&s->stage) != 0)
        return err_set(e, ERR_INTERNAL, "two state keys share a digest");
    r = find_slot(s, &slot, e);
    if (r != 0)
        return r;
    change_init(&c, s);
    c.set_cur = (flags & STORE_COMPLETE) != 0;
    c.set_redo = !c.set_cur;
    r = describe(s, slot);
    if (r == 0)
        r = ledger_copy(&c.redo, &s->next);
    if (r == 0 && c.set_cur)
        r = ledger_copy(&c.cur, &s->cur);
    if (r == 0 && c.set_cur)
        r = fold(&c.cur, &s->next, flags);
    if (r != 0) {
        r = no_memory(s, e);
    } else if (fault_hit("store_write")) {
        r = err_set(e, ERR_IO, "cannot write the checkpoint in '%s'",
                    s->t.file);
    } else {
        r = storage_run(&s->t, STORAGE_LAYOUT, write_txn, &c,
                        "write the checkpoint", e);
    }
    if (r == 0) {
        (void)fault_hit("store_written");
        change_keep(&c);
        atomic_store(&s->redo_damaged, false);
        store_round_cancel(s);
    }
    change_fini(&c);
    return r;
}

/* --- the end of a round
 * ----------------------------------------------------------- */

static int
complete_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct change *c = arg;
    int rc = store_put_ledger(t, txn, "cur", &c->cur);

    (void)e;
    if (rc == 0)
        rc = delete_redo(t, txn);
    if (rc == 0)
        rc = delete_blobs(t, txn, &c->s->cur, &c->cur);
    return rc;
}

static int
not_pending(const struct store *s, uint64_t n, struct err *e)
{
    return err_set(e, ERR_INTERNAL, "round %" PRIu64 " of '%s' is not pending",
                   n, s->dir);
}

int
store_round_complete(struct store *s, uint64_t n, unsigned flags, struct err *e)
{
    struct change c;
    int r, stale;

    if (!s->has_redo || s->redo.round != n)
        return not_pending(s, n, e);
    r = store_writable(s, e);
    if (r != 0)
        return r;
    if (atomic_load(&s->redo_damaged)) {
        (void)err_set(e, ERR_IO,
                      "'%s' is damaged: checkpoint %" PRIu64
                      ": its redo cannot be read",
                      s->t.file, n);
        err_hint(e, "start from a savepoint; nothing was changed here");
        return ERR_IO;
    }
    change_init(&c, s);
    c.set_cur = true;
    r = ledger_copy(&c.cur, &s->cur);
    if (r == 0)
        r = fold(&c.cur, &s->redo, flags);
    if (r != 0)
        r = no_memory(s, e);
    else if (fault_hit("store_complete"))
        r = err_set(e, ERR_IO, "cannot complete the checkpoint in '%s'",
                    s->t.file);
    else
        r = storage_run(&s->t, STORAGE_LAYOUT, complete_txn, &c,
                        "complete the checkpoint", e);
    if (r == 0) {
        (void)fault_hit("store_completed");
        change_keep(&c);
        (void)mdb_reader_check(s->t.env, &stale);
    }
    change_fini(&c);
    return r;
}

static int
discard_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct change *c = arg;
    struct store *s = c->s;
    unsigned slot = s->redo.segments[0].slot;
    int rc = 0;

    (void)e;
    /* What is damaged is left where it is: LMDB must not walk it. */
    if ((c->cur.lost >> slot & 1) == 0)
        rc = mdb_drop(txn, t->slots[slot], 0);
    if (rc == 0)
        rc = store_put_ledger(t, txn, "cur", &c->cur);
    if (rc == 0)
        rc = delete_redo(t, txn);
    if (rc == 0)
        rc = delete_blobs(t, txn, &s->redo, &s->cur);
    return rc;
}

int
store_round_discard(struct store *s, uint64_t n, struct err *e)
{
    struct change c;
    int r;

    if (!s->has_redo || s->redo.round != n)
        return not_pending(s, n, e);
    r = store_writable(s, e);
    if (r != 0)
        return r;
    change_init(&c, s);
    c.set_cur = true;
    if (ledger_copy(&c.cur, &s->cur) != 0) {
        r = no_memory(s, e);
    } else {
        if (atomic_load(&s->redo_damaged))
            c.cur.lost |= 1u << s->redo.segments[0].slot;
        r = storage_run(&s->t, STORAGE_LAYOUT, discard_txn, &c,
                        "discard the checkpoint", e);
    }
    if (r == 0) {
        change_keep(&c);
        atomic_store(&s->redo_damaged, false);
    }
    change_fini(&c);
    return r;
}

/* --- marks
 * ----------------------------------------------------------------------------
 */

static int
mark_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct change *c = arg;

    (void)e;
    return store_put_ledger(t, txn, "cur", &c->cur);
}

static int
set_mark(struct store *s, struct change *c, struct err *e)
{
    int r =
        storage_run(&s->t, STORAGE_LAYOUT, mark_txn, c, "mark the store", e);

    if (r == 0)
        swap_ledgers(&s->cur, &c->cur);
    return r;
}

int
store_set_finished(struct store *s, bool finished, struct err *e)
{
    struct change c;
    int r = store_writable(s, e);

    if (r != 0)
        return r;
    change_init(&c, s);
    if (ledger_copy(&c.cur, &s->cur) != 0)
        r = no_memory(s, e);
    c.cur.finished = finished;
    if (r == 0)
        r = set_mark(s, &c, e);
    change_fini(&c);
    return r;
}

int
store_set_lineage(struct store *s, const uint8_t lineage[STORE_LINEAGE_SIZE],
                  struct err *e)
{
    struct change c;
    int r = store_writable(s, e);

    if (r == 0 && s->has_redo)
        r = err_set(e, ERR_INTERNAL, "a checkpoint of '%s' is pending", s->dir);
    if (r != 0)
        return r;
    change_init(&c, s);
    if (ledger_copy(&c.cur, &s->cur) != 0)
        r = no_memory(s, e);
    memcpy(c.cur.lineage, lineage, STORE_LINEAGE_SIZE);
    if (r == 0)
        r = set_mark(s, &c, e);
    change_fini(&c);
    return r;
}
