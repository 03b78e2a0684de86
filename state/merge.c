#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "state/store_impl.h"

/*
 * Merging: complete segments go into the base, in the order of keys.
 *
 * All segments that are there when a merge begins are merged together, of
 * each key only the newest change. A step moves some keys and, in the same
 * transaction, writes down how far it came. Until the end the segments stay,
 * so whoever reads finds the same with any part of them merged; the last
 * step empties them. Operators that were dropped are skipped, and their keys
 * deleted from the base when no segment is left.
 */

/* What a transaction may dirty at most, in bytes of changes. */
enum { STEP_BYTES = 16 << 20 };

struct merge {
    struct store *s;
    size_t entries_max;
    struct ledger l; /* the ledger after this step */
    bool more;
};

static bool
op_is_alive(const struct ledger *l, uint32_t op, uint32_t *known)
{
    const struct ledger_op *o;

    if (op == *known)
        return true;
    o = ledger_find_op(l, op);
    if (o == NULL || o->dropped)
        return false;
    *known = op;
    return true;
}

/* Count the entry a change replaces out. @return 0 or ENOMEM. */
static int
count_out(struct ledger *l, uint32_t op, const MDB_val *key,
          const MDB_val *value)
{
    struct entry old = {.key = {.op = op}};

    if (value->mv_size >= ENTRY_VALUE_HEAD)
        old.sum = entry_sum(value->mv_data);
    return totals_count(&l->base, &old, key->mv_size + value->mv_size, -1) == 0
               ? 0
               : ENOMEM;
}

/* Two different long keys with one digest must not replace each other. */
static bool
is_same_key(const struct entry *change, const MDB_val *key, const MDB_val *old)
{
    struct entry e;

    return key->mv_size != ENTRY_KEY_LONG ||
           (entry_decode(key->mv_data, key->mv_size, old->mv_data, old->mv_size,
                         &e) &&
            e.key.key_len == change->key.key_len &&
            memcmp(e.key.key, change->key.key, e.key.key_len) == 0);
}

/* Carry one change into the base. */
static int
apply(struct merge *m, MDB_cursor *base, struct merged_pair *p, struct err *e)
{
    MDB_val key = p->key, old;
    int rc = mdb_cursor_get(base, &key, &old, MDB_SET_KEY);
    bool there = rc == 0;

    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    if (there && !is_same_key(&p->entry, &p->key, &old))
        return store_damaged(&m->s->t, &m->l, p->key.mv_data, p->key.mv_size,
                             e);
    rc = there ? count_out(&m->l, p->entry.key.op, &p->key, &old) : 0;
    if (rc != 0)
        return rc;
    if (p->entry.deleted)
        return there ? mdb_cursor_del(base, 0) : 0;
    if (totals_count(&m->l.base, &p->entry, p->key.mv_size + p->value.mv_size,
                     1) != 0)
        return ENOMEM;
    return mdb_cursor_put(base, &p->key, &p->value, 0);
}

/* The oldest segments, up to the merge's round, are one prefix of them. */
static unsigned
segments_in(const struct ledger *l)
{
    unsigned n = 0;

    while (n < l->segment_count && l->segments[n].round <= l->merge_round)
        n++;
    return n;
}

static int
end_merge(struct storage *t, MDB_txn *txn, struct ledger *l)
{
    unsigned n = segments_in(l), i;
    int rc = 0;

    for (i = 0; rc == 0 && i < n; i++) {
        rc = mdb_drop(txn, t->slots[l->segments[i].slot], 0);
        totals_fini(&l->segments[i].totals);
    }
    l->segment_count -= n;
    memmove(l->segments, l->segments + n,
            l->segment_count * sizeof *l->segments);
    l->merge_round = 0;
    l->merge_key.len = 0;
    return rc;
}

static int
move_entries(struct merge *m, struct merged *from, MDB_cursor *base,
             struct err *e)
{
    struct merged_pair p;
    size_t n, bytes = 0;
    uint32_t known = 0;
    int rc = 0;

    m->more = true;
    for (n = 0; n < m->entries_max && bytes < STEP_BYTES; n++) {
        rc = merged_next(from, &p, e);
        if (rc <= 0) {
            m->more = rc != 0;
            return rc;
        }
        if (op_is_alive(&m->l, p.entry.key.op, &known)) {
            rc = apply(m, base, &p, e);
            if (rc != 0)
                return rc;
        }
        bytes += p.key.mv_size + p.value.mv_size;
        memcpy(m->l.merge_key.bytes, p.key.mv_data, p.key.mv_size);
        m->l.merge_key.len = (uint16_t)p.key.mv_size;
    }
    return 0;
}

static int
merge_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct merge *m = arg;
    struct merged from = {.count = 0};
    MDB_cursor *base = NULL;
    struct entry_key after;
    struct view v;
    unsigned n;
    int rc;

    if (ledger_copy(&m->l, &m->s->cur) != 0)
        return ENOMEM;
    if (m->l.merge_round == 0)
        m->l.merge_round = m->l.segments[m->l.segment_count - 1].round;
    v.count = 0;
    for (n = segments_in(&m->l); n-- > 0;)
        v.trees[v.count++] = t->slots[m->l.segments[n].slot];
    after = m->l.merge_key;
    rc = mdb_cursor_open(txn, t->base, &base);
    if (rc == 0)
        rc = merged_init(&from, t, &m->l, txn, &v, &after, true, e);
    if (rc == 0)
        rc = move_entries(m, &from, base, e);
    merged_fini(&from);
    if (base != NULL)
        mdb_cursor_close(base);
    if (rc == 0 && !m->more)
        rc = end_merge(t, txn, &m->l);
    return rc == 0 ? store_put_ledger(t, txn, "cur", &m->l) : rc;
}

/* --- operators that were dropped
 * -------------------------------------------------- */

static struct ledger_op *
find_dropped(const struct ledger *l)
{
    size_t i;

    for (i = 0; i < l->op_count; i++)
        if (l->ops[i].dropped)
            return &l->ops[i];
    return NULL;
}

static int
delete_keys(struct merge *m, MDB_cursor *base, uint32_t op)
{
    struct store_key from = {.op = op};
    struct entry_key start;
    MDB_val key, value;
    size_t n;
    int rc;

    entry_key_encode(0, &from, &start);
    key = (MDB_val){ENTRY_KEY_HEAD - 1, start.bytes};
    rc = mdb_cursor_get(base, &key, &value, MDB_SET_RANGE);
    for (n = 0; rc == 0 && n < m->entries_max; n++) {
        if (memcmp(key.mv_data, start.bytes, 4) != 0) {
            rc = MDB_NOTFOUND;
            break;
        }
        rc = count_out(&m->l, op, &key, &value);
        if (rc == 0)
            rc = mdb_cursor_del(base, 0);
        if (rc == 0)
            rc = mdb_cursor_get(base, &key, &value, MDB_GET_CURRENT);
        /* Behind the last node of a page, or of the tree. */
        if (rc == EINVAL || rc == MDB_NOTFOUND)
            rc = mdb_cursor_get(base, &key, &value, MDB_NEXT);
    }
    m->more = rc != MDB_NOTFOUND;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int
drop_txn(struct storage *t, MDB_txn *txn, void *arg, struct err *e)
{
    struct merge *m = arg;
    MDB_cursor *base = NULL;
    uint32_t op;
    int rc;

    (void)e;
    if (ledger_copy(&m->l, &m->s->cur) != 0)
        return ENOMEM;
    op = find_dropped(&m->l)->id;
    rc = mdb_cursor_open(txn, t->base, &base);
    if (rc == 0)
        rc = delete_keys(m, base, op);
    if (base != NULL)
        mdb_cursor_close(base);
    if (rc == 0 && !m->more) {
        ledger_remove_op(&m->l, op);
        totals_remove(&m->l.base, op);
    }
    return rc == 0 ? store_put_ledger(t, txn, "cur", &m->l) : rc;
}

int
store_merge(struct store *s, size_t entries_max, struct err *e)
{
    struct merge m = {.s = s, .entries_max = entries_max};
    int r = store_writable(s, e);

    if (r != 0 || s->copy != NULL)
        return r;
    if (s->cur.segment_count == 0 && find_dropped(&s->cur) == NULL)
        return 0;
    if (fault_hit("store_merge"))
        return err_set(e, ERR_IO, "cannot merge in '%s'", s->t.file);
    ledger_init(&m.l);
    r = storage_run(&s->t, STORAGE_LAYOUT,
                    s->cur.segment_count != 0 ? merge_txn : drop_txn, &m,
                    "merge", e);
    if (r == 0) {
        struct ledger old = s->cur;

        s->cur = m.l;
        m.l = old;
        r = s->cur.segment_count != 0 || find_dropped(&s->cur) != NULL;
    }
    ledger_fini(&m.l);
    return r;
}
