#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "state/store_impl.h"

/* --- merged cursors
 * ------------------------------------------------------------ */

void
view_of(const struct storage *t, const struct ledger *cur,
        const struct ledger *redo, struct view *ret)
{
    unsigned i;

    ret->count = 0;
    if (redo != NULL)
        ret->trees[ret->count++] = t->slots[redo->segments[0].slot];
    for (i = cur->segment_count; i-- > 0;)
        ret->trees[ret->count++] = t->slots[cur->segments[i].slot];
    ret->trees[ret->count++] = t->base;
}

static int
read_failed(struct merged *m, int rc, struct err *e)
{
    return err_set(e, rc == ENOMEM ? ERR_NOMEM : ERR_IO, "cannot read '%s': %s",
                   m->t->file, mdb_strerror(rc));
}

static int
advance(struct merged *m, unsigned i, MDB_cursor_op op, struct err *e)
{
    int rc = mdb_cursor_get(m->cursors[i], &m->keys[i], &m->values[i], op);

    m->there[i] = rc == 0;
    return rc == 0 || rc == MDB_NOTFOUND ? 0 : read_failed(m, rc, e);
}

int
merged_init(struct merged *m, struct storage *t, const struct ledger *names,
            MDB_txn *txn, const struct view *v, const struct entry_key *from,
            bool after, struct err *e)
{
    unsigned i;
    int r = 0;

    memset(m, 0, sizeof *m);
    m->t = t;
    m->names = names;
    for (i = 0; r == 0 && i < v->count; i++) {
        int rc = mdb_cursor_open(txn, v->trees[i], &m->cursors[i]);

        if (rc != 0)
            return read_failed(m, rc, e);
        m->count = i + 1;
        if (from->len == 0) {
            r = advance(m, i, MDB_FIRST, e);
            continue;
        }
        m->keys[i] = (MDB_val){from->len, (void *)(uintptr_t)from->bytes};
        r = advance(m, i, MDB_SET_RANGE, e);
        if (r == 0 && after && m->there[i] &&
            entry_key_cmp(m->keys[i].mv_data, m->keys[i].mv_size, from->bytes,
                          from->len) == 0)
            r = advance(m, i, MDB_NEXT, e);
    }
    return r;
}

static int
key_cmp(const MDB_val *a, const MDB_val *b)
{
    return entry_key_cmp(a->mv_data, a->mv_size, b->mv_data, b->mv_size);
}

int
merged_next(struct merged *m, struct merged_pair *ret, struct err *e)
{
    unsigned best = m->count, i;
    int r = 0;

    for (i = 0; i < m->count; i++)
        if (m->there[i] &&
            (best == m->count || key_cmp(&m->keys[i], &m->keys[best]) < 0))
            best = i;
    if (best == m->count)
        return 0;
    ret->key = m->keys[best];
    ret->value = m->values[best];
    for (i = best; r == 0 && i < m->count; i++)
        if (m->there[i] && (i == best || key_cmp(&m->keys[i], &ret->key) == 0))
            r = advance(m, i, MDB_NEXT, e);
    if (r != 0)
        return r;
    if (!entry_decode(ret->key.mv_data, ret->key.mv_size, ret->value.mv_data,
                      ret->value.mv_size, &ret->entry))
        return store_damaged(m->t, m->names, ret->key.mv_data, ret->key.mv_size,
                             e);
    return 1;
}

void
merged_fini(struct merged *m)
{
    unsigned i;

    for (i = 0; i < m->count; i++)
        mdb_cursor_close(m->cursors[i]);
    m->count = 0;
}

/* --- readers
 * ----------------------------------------------------------------------- */

struct store_reader {
    struct store *s;
    MDB_txn *txn;
    bool inside;
    bool has_ledger;
    uint64_t layout; /* of the ledgers below */
    struct ledger cur, redo;
    bool has_redo;
    const struct ledger *top; /* whose round and operators are seen */
    struct view view;
    uint32_t known_op; /* last one found alive, 0 = none */
};

int
store_reader_new(struct store *s, struct store_reader **ret_r, struct err *e)
{
    struct store_reader *r = wire_malloc(sizeof *r);

    if (r == NULL)
        return err_set(e, ERR_NOMEM, "no memory to read '%s'", s->dir);
    memset(r, 0, sizeof *r);
    r->s = s;
    ledger_init(&r->cur);
    ledger_init(&r->redo);
    r->top = &r->cur;
    *ret_r = r;
    return 0;
}

void
store_reader_end(struct store_reader *r)
{
    if (!r->inside)
        return;
    mdb_txn_reset(r->txn);
    storage_leave(&r->s->t);
    r->inside = false;
}

void
store_reader_free(struct store_reader **pr)
{
    struct store_reader *r = *pr;

    *pr = NULL;
    if (r == NULL)
        return;
    store_reader_end(r);
    if (r->txn != NULL)
        mdb_txn_abort(r->txn);
    ledger_fini(&r->cur);
    ledger_fini(&r->redo);
    free(r);
}

static int
read_ledger(struct store_reader *r, const char *name, struct ledger *l,
            struct err *e)
{
    const void *p;
    size_t len;
    int rc =
        storage_get_meta(&r->s->t, r->txn, name, strlen(name), &p, &len, e);

    if (rc != 1)
        return rc;
    rc = ledger_decode(l, p, len);
    if (rc != 0)
        return err_set(e, rc, "cannot read the ledger of '%s'", r->s->t.file);
    return 1;
}

/* The ledgers of this transaction; they are read anew only if they changed. */
static int
look(struct store_reader *r, struct err *e)
{
    const void *p;
    size_t len;
    uint64_t layout;
    int rc = storage_get_meta(&r->s->t, r->txn, "txn", 3, &p, &len, e);

    if (rc < 0)
        return rc;
    layout = rc == 1 && len == 16 ? wire_load_u64((const uint8_t *)p + 8) : 0;
    if (r->has_ledger && r->layout == layout)
        return 0;
    r->has_ledger = false;
    rc = read_ledger(r, "cur", &r->cur, e);
    if (rc == 1)
        rc = read_ledger(r, "redo", &r->redo, e);
    if (rc < 0)
        return rc;
    r->has_redo = rc == 1;
    r->layout = layout;
    r->has_ledger = true;
    return 0;
}

int
store_reader_begin(struct store_reader *r, enum store_view view, struct err *e)
{
    struct storage *t = &r->s->t;
    bool newest;
    int rc;

    if (r->inside)
        return err_set(e, ERR_INTERNAL, "a reader of '%s' began twice",
                       r->s->dir);
    storage_enter(t);
    rc = storage_read(t, &r->txn, e);
    if (rc != 0) {
        storage_leave(t);
        return rc;
    }
    r->inside = true;
    rc = look(r, e);
    newest = view == STORE_VIEW_NEWEST && r->has_redo;
    if (rc == 0 && newest && atomic_load(&r->s->redo_damaged))
        rc = err_set(e, ERR_IO, "'%s' is damaged: the redo", t->file);
    if (rc != 0) {
        store_reader_end(r);
        return rc;
    }
    r->top = newest ? &r->redo : &r->cur;
    view_of(t, &r->cur, newest ? &r->redo : NULL, &r->view);
    r->known_op = 0;
    return 0;
}

uint64_t
store_reader_round(const struct store_reader *r)
{
    return r->top->round;
}

static bool
op_is_alive(struct store_reader *r, uint32_t op)
{
    const struct ledger_op *o;

    if (op == r->known_op)
        return op != 0;
    o = ledger_find_op(r->top, op);
    if (o == NULL || o->dropped)
        return false;
    r->known_op = op;
    return true;
}

/* A long key's digest was found: is it the key? */
static int
same_long_key(struct store_reader *r, const struct store_key *want,
              const struct entry *found, struct err *e)
{
    if (found->key.key_len == want->key_len &&
        memcmp(found->key.key, want->key, want->key_len) == 0)
        return 1;
    return err_set(e, ERR_INTERNAL, "two state keys of '%s' share a digest",
                   r->s->dir);
}

int
store_reader_get(struct store_reader *r, const struct store_key *key,
                 const void **ret, size_t *ret_len, struct err *e)
{
    struct entry_key stored;
    struct entry one;
    unsigned i;

    if (!entry_key_fits(key) || !op_is_alive(r, key->op))
        return 0;
    entry_key_encode(r->s->t.seed, key, &stored);
    for (i = 0; i < r->view.count; i++) {
        MDB_val k = {stored.len, stored.bytes}, v;
        int rc = mdb_get(r->txn, r->view.trees[i], &k, &v);

        if (rc == MDB_NOTFOUND)
            continue;
        if (rc != 0)
            return err_set(e, ERR_IO, "cannot read '%s': %s", r->s->t.file,
                           mdb_strerror(rc));
        if (!entry_decode(stored.bytes, stored.len, v.mv_data, v.mv_size, &one))
            return store_damaged(&r->s->t, r->top, stored.bytes, stored.len, e);
        if (stored.len == ENTRY_KEY_LONG) {
            rc = same_long_key(r, key, &one, e);
            if (rc < 0)
                return rc;
        }
        if (one.deleted)
            return 0;
        *ret = one.value;
        *ret_len = one.value_len;
        return 1;
    }
    return 0;
}

int
store_reader_blob(struct store_reader *r, const char *name, const void **ret,
                  size_t *ret_len, struct err *e)
{
    const struct ledger_blob *b = ledger_find_blob(r->top, name);
    uint8_t key[STORE_NAME_MAX + 16];
    int rc;

    if (b == NULL)
        return 0;
    rc = storage_get_meta(&r->s->t, r->txn, key, ledger_blob_key(b, key), ret,
                          ret_len, e);
    if (rc == 0)
        rc = err_set(e, ERR_IO, "'%s' is damaged: '%s' is missing",
                     r->s->t.file, name);
    return rc;
}

/* --- operators
 * ----------------------------------------------------------------------- */

size_t
store_reader_operator_count(const struct store_reader *r)
{
    size_t n = 0, i;

    for (i = 0; i < r->top->op_count; i++)
        n += !r->top->ops[i].dropped;
    return n;
}

static void
add_unmerged(struct store_operator *o, const struct ledger *l)
{
    unsigned i;

    for (i = 0; i < l->segment_count; i++) {
        const struct total *t = totals_find(&l->segments[i].totals, o->op);

        if (t == NULL)
            continue;
        o->puts += t->entries - t->dels;
        o->dels += t->dels;
        o->unmerged_bytes += t->bytes;
    }
}

void
store_reader_operator(const struct store_reader *r, size_t i,
                      struct store_operator *ret)
{
    const struct ledger_op *o = r->top->ops;
    const struct total *t;

    for (;; o++)
        if (!o->dropped && i-- == 0)
            break;
    memset(ret, 0, sizeof *ret);
    ret->op = o->id;
    ret->name = o->name;
    ret->name_len = o->len;
    t = totals_find(&r->cur.base, o->id);
    if (t != NULL) {
        ret->keys = t->entries;
        ret->bytes = t->bytes;
    }
    add_unmerged(ret, &r->cur);
    if (r->top == &r->redo)
        add_unmerged(ret, &r->redo);
}

bool
store_reader_find(const struct store_reader *r, const char *name, size_t len,
                  uint32_t *ret_op)
{
    const struct ledger_op *o = ledger_find_name(r->top, name, len);

    if (o == NULL)
        return false;
    *ret_op = o->id;
    return true;
}

/* --- scans
 * ------------------------------------------------------------------------------
 */

struct store_scan {
    struct merged m;
    uint32_t op;
    uint16_t last;
    bool ended;
    bool by_ns; /* of one namespace only */
    uint8_t ns_len, ns[STORE_NS_MAX];
};

/* Put a scan on the first stored key not below `from`, above it with
 * `after`. */
static int
scan_begin(struct store_reader *r, struct store_scan *c,
           const struct entry_key *from, bool after, struct err *e)
{
    c->ended = !op_is_alive(r, c->op);
    return merged_init(&c->m, &r->s->t, r->top, r->txn, &r->view, from, after,
                       e);
}

int
store_scan_open(struct store_reader *r, uint32_t op, uint16_t first,
                uint16_t last, struct store_scan **ret_c, struct err *e)
{
    struct store_scan *c = wire_malloc(sizeof *c);
    struct store_key from = {.op = op, .group = first};
    struct entry_key key;
    int rc;

    if (c == NULL)
        return err_set(e, ERR_NOMEM, "no memory to read '%s'", r->s->dir);
    memset(c, 0, sizeof *c);
    entry_key_encode(r->s->t.seed, &from, &key);
    key.len = ENTRY_KEY_HEAD - 1; /* before any namespace */
    c->op = op;
    c->last = last;
    rc = scan_begin(r, c, &key, false, e);
    if (rc != 0) {
        store_scan_close(&c);
        return rc;
    }
    *ret_c = c;
    return 0;
}

int
store_scan_ns(struct store_reader *r, const struct store_key *at, bool after,
              struct store_scan **ret_c, struct err *e)
{
    struct store_scan *c = wire_malloc(sizeof *c);
    struct store_key from = *at;
    struct entry_key key;
    int rc;

    if (c == NULL)
        return err_set(e, ERR_NOMEM, "no memory to read '%s'", r->s->dir);
    memset(c, 0, sizeof *c);
    if (!after)
        from.key_len = 0;
    c->op = at->op;
    c->last = at->group;
    c->by_ns = true;
    c->ns_len = (uint8_t)at->ns_len;
    if (at->ns_len != 0)
        memcpy(c->ns, at->ns, at->ns_len);
    entry_key_encode(r->s->t.seed, &from, &key);
    rc = scan_begin(r, c, &key, after, e);
    if (rc != 0) {
        store_scan_close(&c);
        return rc;
    }
    *ret_c = c;
    return 0;
}

static bool
is_beyond(const struct store_scan *c, const struct store_key *k)
{
    if (k->op != c->op || k->group > c->last)
        return true;
    return c->by_ns &&
           (k->ns_len != c->ns_len || memcmp(k->ns, c->ns, c->ns_len) != 0);
}

int
store_scan_next(struct store_scan *c, struct store_key *ret_key,
                const void **ret_value, size_t *ret_len, struct err *e)
{
    struct merged_pair p;
    int rc;

    if (c->ended)
        return 0;
    do {
        rc = merged_next(&c->m, &p, e);
        if (rc < 0)
            return rc;
        if (rc == 0 || is_beyond(c, &p.entry.key)) {
            c->ended = true;
            return 0;
        }
    } while (p.entry.deleted);
    *ret_key = p.entry.key;
    *ret_value = p.entry.value;
    *ret_len = p.entry.value_len;
    return 1;
}

void
store_scan_close(struct store_scan **pc)
{
    struct store_scan *c = *pc;

    *pc = NULL;
    if (c == NULL)
        return;
    merged_fini(&c->m);
    free(c);
}
