#include "state/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make room for one more item in a table that doubles. */
static int
room(void **items, size_t *cap, size_t count, size_t size)
{
    size_t more = *cap != 0 ? *cap * 2 : 8;
    void *p;

    if (count < *cap)
        return 0;
    p = wire_realloc(*items, more * size);
    if (p == NULL)
        return ERR_NOMEM;
    *items = p;
    *cap = more;
    return 0;
}

void
ledger_init(struct ledger *l)
{
    memset(l, 0, sizeof *l);
    l->next_op = 1;
}

void
ledger_fini(struct ledger *l)
{
    unsigned i;

    free(l->ops);
    free(l->blobs);
    for (i = 0; i < l->segment_count; i++)
        totals_fini(&l->segments[i].totals);
    totals_fini(&l->base);
    ledger_init(l);
}

/* A copy of `count` items; NULL for none. */
static int
dup_items(void *to, const void *from, size_t count, size_t size)
{
    void *p = NULL;

    if (count != 0) {
        p = wire_malloc(count * size);
        if (p == NULL)
            return ERR_NOMEM;
        memcpy(p, from, count * size);
    }
    memcpy(to, &p, sizeof p);
    return 0;
}

int
ledger_copy(struct ledger *to, const struct ledger *from)
{
    struct ledger l = *from;
    unsigned i;
    int r;

    l.ops = NULL;
    l.blobs = NULL;
    l.base = (struct totals){0};
    l.segment_count = 0;
    r = dup_items(&l.ops, from->ops, from->op_count, sizeof *l.ops);
    if (r == 0)
        r = dup_items(&l.blobs, from->blobs, from->blob_count, sizeof *l.blobs);
    if (r == 0)
        r = totals_copy(&l.base, &from->base);
    for (i = 0; r == 0 && i < from->segment_count; i++) {
        l.segments[i].totals = (struct totals){0};
        r = totals_copy(&l.segments[i].totals, &from->segments[i].totals);
        if (r == 0)
            l.segment_count++;
    }
    if (r != 0) {
        ledger_fini(&l);
        return r;
    }
    l.op_cap = l.op_count;
    l.blob_cap = l.blob_count;
    ledger_fini(to);
    *to = l;
    return 0;
}

/* --- totals -------------------------------------------------------------- */

/* Index of the first item that is not below op. */
static size_t
totals_index(const struct totals *t, uint32_t op)
{
    size_t lo = 0, hi = t->count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (t->items[mid].op < op)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct total *
totals_find(const struct totals *t, uint32_t op)
{
    size_t i = totals_index(t, op);

    return i < t->count && t->items[i].op == op ? &t->items[i] : NULL;
}

struct total *
totals_at(struct totals *t, uint32_t op)
{
    size_t i = totals_index(t, op);

    if (i < t->count && t->items[i].op == op)
        return &t->items[i];
    if (room((void **)&t->items, &t->cap, t->count, sizeof *t->items) != 0)
        return NULL;
    memmove(t->items + i + 1, t->items + i, (t->count - i) * sizeof *t->items);
    t->count++;
    t->items[i] = (struct total){.op = op};
    return &t->items[i];
}

int
totals_count(struct totals *t, const struct entry *e, size_t bytes, int sign)
{
    struct total *one = totals_at(t, e->key.op);
    uint64_t by = sign < 0 ? UINT64_MAX : 1; /* modulo 2^64, as the sum */

    if (one == NULL)
        return ERR_NOMEM;
    one->entries += by;
    one->dels += e->deleted ? by : 0;
    one->bytes += by * bytes;
    one->sum += by * e->sum;
    return 0;
}

void
totals_remove(struct totals *t, uint32_t op)
{
    size_t i = totals_index(t, op);

    if (i == t->count || t->items[i].op != op)
        return;
    t->count--;
    memmove(t->items + i, t->items + i + 1, (t->count - i) * sizeof *t->items);
}

static bool
total_is_nothing(const struct total *t)
{
    return t->entries == 0 && t->dels == 0 && t->bytes == 0 && t->sum == 0;
}

static bool
totals_within(const struct totals *a, const struct totals *b, uint32_t *ret_op)
{
    size_t i;

    for (i = 0; i < a->count; i++) {
        const struct total *x = &a->items[i];
        const struct total *y = totals_find(b, x->op);

        if (y == NULL ? !total_is_nothing(x)
                      : x->entries != y->entries || x->dels != y->dels ||
                            x->bytes != y->bytes || x->sum != y->sum) {
            *ret_op = x->op;
            return false;
        }
    }
    return true;
}

bool
totals_equal(const struct totals *a, const struct totals *b, uint32_t *ret_op)
{
    return totals_within(a, b, ret_op) && totals_within(b, a, ret_op);
}

int
totals_copy(struct totals *to, const struct totals *from)
{
    struct totals t = {.count = from->count, .cap = from->count};
    int r = dup_items(&t.items, from->items, from->count, sizeof *t.items);

    if (r != 0)
        return r;
    totals_fini(to);
    *to = t;
    return 0;
}

void
totals_fini(struct totals *t)
{
    free(t->items);
    *t = (struct totals){0};
}

/* --- operators and blobs -------------------------------------------------- */

struct ledger_op *
ledger_find_name(const struct ledger *l, const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < l->op_count; i++) {
        struct ledger_op *o = &l->ops[i];

        if (!o->dropped && o->len == len && memcmp(o->name, name, len) == 0)
            return o;
    }
    return NULL;
}

struct ledger_op *
ledger_find_op(const struct ledger *l, uint32_t id)
{
    size_t i;

    for (i = 0; i < l->op_count; i++)
        if (l->ops[i].id == id)
            return &l->ops[i];
    return NULL;
}

int
ledger_add_op(struct ledger *l, const char *name, size_t len, uint32_t *ret)
{
    struct ledger_op *o;

    if (l->op_count >= STORE_OPERATORS_MAX || l->next_op == UINT32_MAX ||
        len == 0 || len > STORE_NAME_MAX)
        return ERR_INTERNAL;
    if (room((void **)&l->ops, &l->op_cap, l->op_count, sizeof *l->ops) != 0)
        return ERR_NOMEM;
    o = &l->ops[l->op_count++];
    memset(o, 0, sizeof *o);
    o->id = l->next_op++;
    o->len = (uint8_t)len;
    memcpy(o->name, name, len);
    *ret = o->id;
    return 0;
}

void
ledger_remove_op(struct ledger *l, uint32_t id)
{
    struct ledger_op *o = ledger_find_op(l, id);
    size_t behind;

    if (o == NULL)
        return;
    behind = (size_t)(l->ops + l->op_count - (o + 1));
    memmove(o, o + 1, behind * sizeof *o);
    l->op_count--;
}

struct ledger_blob *
ledger_find_blob(const struct ledger *l, const char *name)
{
    size_t i;

    for (i = 0; i < l->blob_count; i++)
        if (strcmp(l->blobs[i].name, name) == 0)
            return &l->blobs[i];
    return NULL;
}

int
ledger_set_blob(struct ledger *l, const char *name, uint64_t round)
{
    struct ledger_blob *b = ledger_find_blob(l, name);
    size_t len = strlen(name);

    if (b == NULL) {
        if (len == 0 || len > STORE_NAME_MAX ||
            l->blob_count >= STORE_BLOBS_MAX)
            return ERR_INTERNAL;
        if (room((void **)&l->blobs, &l->blob_cap, l->blob_count,
                 sizeof *l->blobs) != 0)
            return ERR_NOMEM;
        b = &l->blobs[l->blob_count++];
        memset(b, 0, sizeof *b);
        b->len = (uint8_t)len;
        memcpy(b->name, name, len);
    }
    b->round = round;
    return 0;
}

void
ledger_remove_blob(struct ledger *l, const char *name)
{
    struct ledger_blob *b = ledger_find_blob(l, name);

    if (b != NULL)
        *b = l->blobs[--l->blob_count];
}

size_t
ledger_blob_key(const struct ledger_blob *b, uint8_t out[STORE_NAME_MAX + 16])
{
    unsigned i;

    out[0] = 'b';
    for (i = 0; i < 8; i++)
        out[1 + i] = (uint8_t)(b->round >> (56 - 8 * i));
    memcpy(out + 9, b->name, b->len);
    return 9 + (size_t)b->len;
}

/* --- bytes ---------------------------------------------------------------- */

static void
encode_totals(const struct totals *t, struct wire *w)
{
    size_t i;

    wire_put_u32(w, (uint32_t)t->count);
    for (i = 0; i < t->count; i++) {
        wire_put_u32(w, t->items[i].op);
        wire_put_u64(w, t->items[i].entries);
        wire_put_u64(w, t->items[i].dels);
        wire_put_u64(w, t->items[i].bytes);
        wire_put_u64(w, t->items[i].sum);
    }
}

void
ledger_encode(const struct ledger *l, struct wire *w)
{
    size_t i;

    wire_put_u64(w, l->round);
    wire_put(w, l->lineage, sizeof l->lineage);
    wire_put_u8(w, l->finished);
    wire_put_u32(w, l->next_op);
    wire_put_u32(w, (uint32_t)l->op_count);
    for (i = 0; i < l->op_count; i++) {
        wire_put_u32(w, l->ops[i].id);
        wire_put_u8(w, l->ops[i].dropped);
        wire_put_u8(w, l->ops[i].len);
        wire_put(w, l->ops[i].name, l->ops[i].len);
    }
    wire_put_u32(w, (uint32_t)l->blob_count);
    for (i = 0; i < l->blob_count; i++) {
        wire_put_u64(w, l->blobs[i].round);
        wire_put_u8(w, l->blobs[i].len);
        wire_put(w, l->blobs[i].name, l->blobs[i].len);
    }
    wire_put_u32(w, l->segment_count);
    for (i = 0; i < l->segment_count; i++) {
        wire_put_u64(w, l->segments[i].round);
        wire_put_u8(w, l->segments[i].slot);
        encode_totals(&l->segments[i].totals, w);
    }
    encode_totals(&l->base, w);
    wire_put_u64(w, l->merge_round);
    wire_put_u16(w, l->merge_key.len);
    wire_put(w, l->merge_key.bytes, l->merge_key.len);
    wire_put_u32(w, l->lost);
}

static int
decode_totals(struct totals *t, struct wire_in *in)
{
    uint32_t n = wire_get_u32(in);

    while (!in->failed && n-- > 0) {
        uint32_t op = wire_get_u32(in);
        struct total *one = totals_at(t, op);

        if (one == NULL)
            return ERR_NOMEM;
        one->entries = wire_get_u64(in);
        one->dels = wire_get_u64(in);
        one->bytes = wire_get_u64(in);
        one->sum = wire_get_u64(in);
    }
    return 0;
}

static int
decode_ops(struct ledger *l, struct wire_in *in)
{
    uint32_t next = wire_get_u32(in), n = wire_get_u32(in), id;
    int r;

    while (!in->failed && n-- > 0) {
        uint8_t len, dropped;
        const char *name;

        l->next_op = wire_get_u32(in);
        dropped = wire_get_u8(in);
        len = wire_get_u8(in);
        name = wire_get(in, len);
        if (name == NULL)
            break;
        r = ledger_add_op(l, name, len, &id);
        if (r != 0)
            return r == ERR_NOMEM ? r : ERR_IO;
        l->ops[l->op_count - 1].dropped = dropped != 0;
    }
    l->next_op = next;
    return 0;
}

static int
decode_blobs(struct ledger *l, struct wire_in *in)
{
    uint32_t n = wire_get_u32(in);
    char name[STORE_NAME_MAX + 1];
    int r;

    while (!in->failed && n-- > 0) {
        uint64_t round = wire_get_u64(in);
        uint8_t len = wire_get_u8(in);
        const void *p = wire_get(in, len);

        if (p == NULL)
            break;
        memcpy(name, p, len);
        name[len] = '\0';
        r = ledger_set_blob(l, name, round);
        if (r != 0)
            return r == ERR_NOMEM ? r : ERR_IO;
    }
    return 0;
}

static int
decode_segments(struct ledger *l, struct wire_in *in)
{
    uint32_t n = wire_get_u32(in);
    int r;

    if (n > STORE_SEGMENTS_MAX)
        return ERR_IO;
    while (!in->failed && n-- > 0) {
        struct ledger_segment *g = &l->segments[l->segment_count];

        memset(g, 0, sizeof *g);
        g->round = wire_get_u64(in);
        g->slot = wire_get_u8(in);
        l->segment_count++;
        if (g->slot >= STORE_SEGMENTS_MAX)
            return ERR_IO;
        r = decode_totals(&g->totals, in);
        if (r != 0)
            return r;
    }
    return 0;
}

int
ledger_decode(struct ledger *l, const void *bytes, size_t len)
{
    struct wire_in in = {.at = bytes, .end = (const uint8_t *)bytes + len};
    const void *p;
    int r;

    ledger_fini(l);
    l->round = wire_get_u64(&in);
    p = wire_get(&in, sizeof l->lineage);
    if (p != NULL)
        memcpy(l->lineage, p, sizeof l->lineage);
    l->finished = wire_get_u8(&in) != 0;
    r = decode_ops(l, &in);
    if (r == 0)
        r = decode_blobs(l, &in);
    if (r == 0)
        r = decode_segments(l, &in);
    if (r == 0)
        r = decode_totals(&l->base, &in);
    if (r != 0)
        return r;
    l->merge_round = wire_get_u64(&in);
    l->merge_key.len = wire_get_u16(&in);
    if (l->merge_key.len > ENTRY_KEY_LONG)
        return ERR_IO;
    p = wire_get(&in, l->merge_key.len);
    if (p != NULL)
        memcpy(l->merge_key.bytes, p, l->merge_key.len);
    l->lost = wire_get_u32(&in);
    return in.failed || in.at != in.end ? ERR_IO : 0;
}

/* --- messages ------------------------------------------------------------- */

enum { KEY_SHOWN = 32 };

/* Text as it is, anything else in hexadecimal, cut at KEY_SHOWN bytes. */
static void
show_bytes(const uint8_t *b, size_t len, char out[2 * KEY_SHOWN + 8])
{
    size_t shown = len < KEY_SHOWN ? len : KEY_SHOWN, i, n = 0;
    const char *dots = len > shown ? ".." : "";
    bool text = true;

    for (i = 0; i < shown; i++)
        text = text && b[i] >= 0x20 && b[i] < 0x7f && b[i] != '\'';
    if (text) {
        (void)snprintf(out, 2 * KEY_SHOWN + 8, "'%.*s%s'", (int)shown,
                       (const char *)b, dots);
        return;
    }
    n = (size_t)snprintf(out, 2 * KEY_SHOWN + 8, "0x");
    for (i = 0; i < shown; i++)
        n += (size_t)snprintf(out + n, 2 * KEY_SHOWN + 8 - n, "%02x", b[i]);
    (void)snprintf(out + n, 2 * KEY_SHOWN + 8 - n, "%s", dots);
}

void
ledger_place(const struct ledger *l, const void *key, size_t len,
             char out[LEDGER_PLACE_MAX])
{
    struct store_key k;
    struct ledger_op *o;
    char shown[2 * KEY_SHOWN + 8];

    if (!entry_key_decode(key, len, &k)) {
        show_bytes(key, len, shown);
        (void)snprintf(out, LEDGER_PLACE_MAX, "key %s", shown);
        return;
    }
    show_bytes(k.key, k.key_len, shown);
    o = ledger_find_op(l, k.op);
    if (o != NULL)
        (void)snprintf(out, LEDGER_PLACE_MAX,
                       "operator '%s', key group %u, key %s", o->name,
                       (unsigned)k.group, shown);
    else
        (void)snprintf(out, LEDGER_PLACE_MAX,
                       "operator %" PRIu32 ", key group %u, key %s", k.op,
                       (unsigned)k.group, shown);
}
