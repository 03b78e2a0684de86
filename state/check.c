#include "state/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/pages.h"

#define FORMAT_TEXT "streamlua state"

/* More than LMDB could leave unwritten behind the end of a file. */
#define UNWRITTEN_MAX (UINT64_C(64) << 20)

enum { FORMAT_SIZE = 32, SLOT_NAME = 3 };

struct check {
    const struct check_opts *o;
    struct pages p;
    struct pages_tree meta, base, slots[STORE_SEGMENTS_MAX];
    bool has_meta, has_base;
    uint32_t has_slots;
    struct ledger cur, redo;
    bool has_cur, has_redo, has_format;
    uint64_t signed_by; /* transaction id found in `meta` */
    uint64_t bad_blob;  /* round of a damaged blob */
    bool has_bad_blob;
    uint32_t version;
    struct check_result r;
    struct err *e;
};

static int bad(struct check *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The one message of damage: file, place, checkpoint. */
static int
bad(struct check *c, const char *fmt, ...)
{
    char what[ERR_MSG_MAX / 2];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (c->has_cur)
        (void)err_set(c->e, ERR_IO,
                      "'%s' is damaged: checkpoint %" PRIu64 ": %s", c->o->file,
                      c->cur.round, what);
    else
        (void)err_set(c->e, ERR_IO, "'%s' is damaged: checkpoint unknown: %s",
                      c->o->file, what);
    err_hint(c->e, "start from a savepoint; nothing was changed here");
    return ERR_IO;
}

static int
no_memory(struct check *c)
{
    return err_set(c->e, ERR_NOMEM, "no memory to check '%s'", c->o->file);
}

/* Turn the result of a walk into the message about tree `name`. */
static int
walked(struct check *c, int r, const char *name)
{
    if (r == ERR_IO && c->p.place[0] != '\0')
        return bad(c, "%s: %s", name, c->p.place);
    return r;
}

/* --- tables ------------------------------------------------------------------
 */

static int
main_node(void *arg, const struct pages_node *n)
{
    struct check *c = arg;
    const char *k = (const char *)n->key;

    if (!n->is_tree)
        return bad(c, "a table is none");
    if (n->key_len == 4 && memcmp(k, "meta", 4) == 0) {
        pages_tree_read(n, &c->meta);
        c->has_meta = true;
    } else if (n->key_len == 4 && memcmp(k, "base", 4) == 0) {
        pages_tree_read(n, &c->base);
        c->has_base = true;
    } else if (n->key_len == SLOT_NAME && k[0] == 's' && k[1] >= '0' &&
               k[1] <= '3' && k[2] >= '0' && k[2] <= '9' &&
               (k[1] - '0') * 10 + k[2] - '0' < STORE_SEGMENTS_MAX) {
        unsigned slot = (unsigned)((k[1] - '0') * 10 + k[2] - '0');

        pages_tree_read(n, &c->slots[slot]);
        c->has_slots |= 1u << slot;
    } else {
        return bad(c, "a table with an unknown name");
    }
    return 0;
}

static bool
key_is(const struct pages_node *n, const char *name)
{
    return n->key_len == strlen(name) && memcmp(n->key, name, n->key_len) == 0;
}

static uint64_t
load_be(const uint8_t *p)
{
    uint64_t v = 0;
    unsigned i;

    for (i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

static bool
is_blob(const struct pages_node *n)
{
    return n->key[0] == 'b' && n->key_len > 9;
}

static int
read_ledger(struct check *c, struct ledger *l, const void *bytes, size_t len)
{
    int r = ledger_decode(l, bytes, len);

    if (r == ERR_NOMEM)
        return no_memory(c);
    return r == 0 ? 0 : bad(c, "the ledger");
}

static int
meta_node(void *arg, const struct pages_node *n)
{
    struct check *c = arg;
    const void *p;
    size_t len;
    int r = 0;

    if (n->is_tree)
        return bad(c, "the ledger");
    if (!entry_unwrap(n->key, n->key_len, n->value, n->value_len, &p, &len)) {
        if (!is_blob(n) ||
            (c->has_bad_blob && c->bad_blob != load_be(n->key + 1)))
            return bad(c, "the ledger");
        c->bad_blob = load_be(n->key + 1);
        c->has_bad_blob = true;
        return 0;
    }
    if (is_blob(n))
        return 0;
    if (key_is(n, "cur")) {
        r = read_ledger(c, &c->cur, p, len);
        c->has_cur = r == 0;
    } else if (key_is(n, "redo")) {
        r = read_ledger(c, &c->redo, p, len);
        c->has_redo = r == 0;
    } else if (key_is(n, "format") && len == FORMAT_SIZE &&
               memcmp(p, FORMAT_TEXT, sizeof FORMAT_TEXT) == 0) {
        c->has_format = true;
        c->version = wire_load_u32((const uint8_t *)p + 16);
    } else if (key_is(n, "txn") && len == 16) {
        c->signed_by = wire_load_u64(p);
    } else {
        r = bad(c, "the ledger");
    }
    return r;
}

/* Each blob the ledger names is there (its bytes were checked before). */
static int
count_blob(void *arg, const struct pages_node *n)
{
    struct check *c = arg;
    uint8_t key[STORE_NAME_MAX + 16];
    const struct ledger *both[2] = {&c->cur, &c->redo};
    size_t i, j;

    for (j = 0; is_blob(n) && j < 2; j++)
        for (i = 0; i < both[j]->blob_count; i++)
            if (ledger_blob_key(&both[j]->blobs[i], key) == n->key_len &&
                memcmp(key, n->key, n->key_len) == 0)
                both[j]->blobs[i].round |= UINT64_C(1) << 63;
    return 0;
}

static int
check_blobs(struct check *c)
{
    size_t i;
    int r =
        walked(c, pages_walk(&c->p, &c->meta, 0, count_blob, c), "the ledger");

    for (i = 0; r == 0 && i < c->cur.blob_count; i++)
        if (c->cur.blobs[i].round >> 63 == 0)
            return bad(c, "'%s' is missing", c->cur.blobs[i].name);
    for (i = 0; r == 0 && c->has_redo && i < c->redo.blob_count; i++)
        if (c->redo.blobs[i].round >> 63 == 0)
            c->r.pending_damaged = true;
    if (r == 0 && c->has_bad_blob) {
        if (!c->has_redo || c->bad_blob != c->redo.round)
            return bad(c, "a blob of checkpoint %" PRIu64, c->bad_blob);
        c->r.pending_damaged = true;
    }
    return r;
}

static int
check_ledger(struct check *c)
{
    int r;

    c->p.place[0] = '\0';
    r = walked(c,
               pages_walk(&c->p, &c->p.metas[c->p.newest].main, PAGES_MARK,
                          main_node, c),
               "the tables");
    if (r == 0 && (!c->has_meta || !c->has_base || c->has_slots != UINT32_MAX))
        r = bad(c, "a table is missing");
    if (r == 0)
        r = walked(c, pages_walk(&c->p, &c->meta, PAGES_MARK, meta_node, c),
                   "the ledger");
    if (r != 0)
        return r;
    if (!c->has_format || !c->has_cur)
        return bad(c, "the ledger is missing");
    if (c->version != STORE_VERSION)
        return err_set(c->e, ERR_CONFIG,
                       "'%s' has state format %" PRIu32
                       ", this program reads %d",
                       c->o->file, c->version, STORE_VERSION);
    if (c->signed_by != c->p.metas[c->p.newest].txnid)
        return bad(c, "its newest transaction is not the last one");
    if (c->has_redo &&
        (c->redo.round <= c->cur.round || c->redo.segment_count != 1))
        return bad(c, "the ledger contradicts itself");
    return check_blobs(c);
}

/* --- entries
 * ------------------------------------------------------------------ */

struct tree_check {
    struct check *c;
    struct totals totals;
    bool is_base;
    const char *name;
};

static int
tree_node(void *arg, const struct pages_node *n)
{
    struct tree_check *t = arg;
    struct check *c = t->c;
    char place[LEDGER_PLACE_MAX];
    struct entry one;

    if (n->is_tree)
        return bad(c, "%s: a table in a table", t->name);
    if (!entry_decode(n->key, n->key_len, n->value, n->value_len, &one) ||
        (t->is_base && one.deleted)) {
        ledger_place(&c->cur, n->key, n->key_len, place);
        return bad(c, "%s: %s", t->name, place);
    }
    return totals_count(&t->totals, &one, n->key_len + n->value_len, 1) == 0
               ? 0
               : no_memory(c);
}

static int
check_tree(struct check *c, const struct pages_tree *tree, bool is_base,
           const struct totals *want, const char *name)
{
    struct tree_check t = {.c = c, .is_base = is_base, .name = name};
    const struct ledger_op *o;
    uint64_t entries = 0, bytes = 0;
    uint32_t op;
    size_t i;
    int r;

    c->p.place[0] = '\0';
    r = walked(c, pages_walk(&c->p, tree, PAGES_MARK, tree_node, &t), name);
    for (i = 0; i < want->count; i++) {
        entries += want->items[i].entries;
        bytes += want->items[i].bytes;
    }
    if (r == 0 && !totals_equal(want, &t.totals, &op)) {
        o = ledger_find_op(&c->cur, op);
        r = bad(c, "%s: entries of operator '%s' are missing or stale", name,
                o != NULL ? o->name : "?");
    }
    totals_fini(&t.totals);
    if (r == 0) {
        c->r.entries += entries;
        c->r.bytes += bytes;
    }
    return r;
}

/* The pending redo comes last: nobody else's pages can be blamed on it. */
static int
check_pending(struct check *c)
{
    const struct ledger_segment *g = &c->redo.segments[0];
    struct check_result before = c->r;
    struct err *e = c->e;
    int r;

    if (!c->has_redo)
        return 0;
    c->e = NULL;
    r = check_tree(c, &c->slots[g->slot], false, &g->totals, "redo");
    c->e = e;
    if (r == ERR_NOMEM)
        return no_memory(c);
    c->r = before;
    c->r.pending = c->redo.round;
    c->r.pending_damaged |= r != 0;
    return 0;
}

static int
check_segments(struct check *c)
{
    uint32_t taken = c->cur.lost;
    uint64_t before = 0;
    char name[48];
    unsigned i;
    int r = 0;

    for (i = 0; r == 0 && i < c->cur.segment_count; i++) {
        const struct ledger_segment *g = &c->cur.segments[i];

        if ((taken >> g->slot & 1) != 0 || g->round <= before ||
            g->round > c->cur.round)
            return bad(c, "the ledger contradicts itself");
        taken |= 1u << g->slot;
        before = g->round;
        (void)snprintf(name, sizeof name, "segment %" PRIu64, g->round);
        r = check_tree(c, &c->slots[g->slot], false, &g->totals, name);
    }
    if (r == 0 && c->has_redo) {
        if ((taken >> c->redo.segments[0].slot & 1) != 0)
            return bad(c, "the ledger contradicts itself");
        taken |= 1u << c->redo.segments[0].slot;
    }
    for (i = 0; r == 0 && i < STORE_SEGMENTS_MAX; i++)
        if ((taken >> i & 1) == 0 && c->slots[i].entries != 0)
            r = bad(c, "segment table %u should be empty", i);
    for (i = 0; r == 0 && i < STORE_SEGMENTS_MAX; i++)
        if ((taken >> i & 1) == 0)
            r = walked(
                c, pages_walk(&c->p, &c->slots[i], PAGES_MARK, main_node, c),
                "an empty segment");
    return r;
}

/*
 * The meta page of the transaction before the newest one is intact, too, and
 * its tree signed by it. If a flipped bit made the newest look older, this
 * is where the newest shows up.
 */
static int
check_older(struct check *c)
{
    struct check older = {.o = c->o, .p = c->p, .e = NULL};
    const struct pages_meta *m = &c->p.metas[1 - c->p.newest];
    int r;

    if (c->o->live || m->txnid == 0)
        return 0;
    older.p.newest = 1 - c->p.newest;
    r = pages_walk(&older.p, &m->main, 0, main_node, &older);
    if (r == 0)
        r = pages_walk(&older.p, &older.meta, 0, meta_node, &older);
    ledger_fini(&older.cur);
    ledger_fini(&older.redo);
    if (r == ERR_NOMEM)
        return no_memory(c);
    if (r != 0 || older.signed_by != m->txnid)
        return bad(c, "the transaction before the newest one");
    return 0;
}

static int
check_space(struct check *c)
{
    const struct pages_meta *m = &c->p.metas[c->p.newest];
    int r;

    c->p.place[0] = '\0';
    r = walked(c, pages_walk_free(&c->p), "free pages");
    if (r != 0)
        return r;
    if (m->last_page > UINT64_MAX / m->page_size - 1 ||
        (m->last_page + 1) * m->page_size > c->p.size + UNWRITTEN_MAX)
        return bad(c, "cut off after %zu bytes", c->p.size);
    c->r.free_pages = c->p.free_pages;
    return 0;
}

static int
check_all(struct check *c)
{
    int r = check_ledger(c);

    if (r == 0)
        r = check_tree(c, &c->base, true, &c->cur.base, "base");
    if (r == 0)
        r = check_segments(c);
    if (r == 0)
        r = check_space(c);
    if (r == 0)
        r = check_pending(c);
    if (r == 0)
        r = check_older(c);
    if (r == 0)
        c->r.round = c->cur.round;
    return r;
}

int
check_file(const struct check_opts *o, struct check_result *ret, struct err *e)
{
    struct check c = {.o = o, .e = e};
    int r = pages_open(&c.p, o->file, o->live, e);

    if (r != 0) {
        if (r != ERR_NOMEM)
            (void)err_context(e,
                              r == ERR_CONFIG
                                  ? "'%s' cannot be read"
                                  : "'%s' is damaged: checkpoint unknown",
                              o->file);
        return r;
    }
    ledger_init(&c.cur);
    ledger_init(&c.redo);
    if (o->live && c.p.metas[c.p.newest].txnid != o->txnid)
        c.p.newest = 1 - c.p.newest;
    if (o->live && c.p.metas[c.p.newest].txnid != o->txnid)
        r = ERR_AGAIN;
    else
        r = check_all(&c);
    ledger_fini(&c.cur);
    ledger_fini(&c.redo);
    pages_close(&c.p);
    if (r == 0)
        *ret = c.r;
    return r;
}
