#include "core/kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"

enum {
    HEADERS_MAX = 1 << 16,
    HEADER_NULL = UINT32_MAX, /* length of a null value or key */
    /* Of the flags, those that say how the bytes are read. */
    FLAGS_KEPT = REC_EXT | REC_HAS_TS | REC_BIGINT_STRING | REC_BIGINT_FLOAT |
                 REC_OWNED | REC_KEY_JSON | REC_RAW,
};

static size_t
headers_size(const struct rec_headers *h)
{
    size_t n = h == NULL ? 0 : sizeof *h + h->count * sizeof h->items[0];
    uint32_t i;

    for (i = 0; h != NULL && i < h->count; i++)
        n += h->items[i].name_len +
             (h->items[i].value != NULL ? h->items[i].value_len : 0);
    return n;
}

static const char *
put(char **at, const char *bytes, size_t len)
{
    char *p = *at;

    if (len != 0)
        memcpy(p, bytes, len);
    *at += len;
    return p;
}

/* Copy the headers to `h`, their bytes to *at. */
static void
put_headers(struct rec_headers *h, const struct rec_headers *from, char **at)
{
    uint32_t i;

    h->count = from->count;
    for (i = 0; i < from->count; i++) {
        const struct rec_header *f = &from->items[i];

        h->items[i] = *f;
        h->items[i].name = put(at, f->name, f->name_len);
        if (f->value != NULL)
            h->items[i].value = put(at, f->value, f->value_len);
    }
}

/* The piece: struct, headers, their bytes, by, key, value, padding. */
static struct kept *
make(const struct rec *r, const struct rec_headers *headers, const char *by,
     uint32_t by_len)
{
    uint32_t key_len = r->key != NULL ? r->key_len : 0;
    uint32_t val_len = r->val != NULL ? r->val_len : 0;
    size_t size = sizeof(struct kept) + headers_size(headers) + by_len +
                  key_len + val_len + REC_PAD;
    struct kept *k = mem_alloc(size);
    char *at = (char *)(k + 1);

    k->rec = *r;
    k->rec.row = NULL;
    k->rec.row_n = 0;
    k->rec.headers = NULL;
    k->size = (uint32_t)size;
    if (headers != NULL) {
        struct rec_headers *h = (struct rec_headers *)(void *)at;

        at += sizeof *h + headers->count * sizeof h->items[0];
        put_headers(h, headers, &at);
        k->rec.headers = h;
    }
    k->by = by != NULL ? put(&at, by, by_len) : NULL;
    k->by_len = by_len;
    if (r->key != NULL)
        k->rec.key = put(&at, r->key, key_len);
    if (r->val != NULL)
        k->rec.val = put(&at, r->val, val_len);
    memset(at, 0, REC_PAD);
    return k;
}

struct kept *
kept_new(const struct rec *r, const char *by, uint32_t by_len)
{
    struct kept *k;
    struct arena a;

    if (r->headers == NULL)
        return make(r, NULL, by, by_len);
    arena_init(&a);
    k = make(r, rec_headers(r, &a), by, by_len);
    arena_fini(&a);
    return k;
}

struct kept *
kept_dup(const struct kept *k)
{
    return make(&k->rec, k->rec.headers, k->by, k->by_len);
}

static int
bytes_cmp(const char *a, uint32_t alen, const char *b, uint32_t blen)
{
    uint32_t n = alen < blen ? alen : blen;
    int c = n != 0 ? memcmp(a, b, n) : 0;

    return c != 0 ? c : (alen > blen) - (alen < blen);
}

int
kept_cmp(const struct rec *a, const struct rec *b)
{
    int c;

    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    c = rec_origin_cmp(a, b);
    if (c != 0)
        return c;
    if ((a->val == NULL) != (b->val == NULL))
        return a->val == NULL ? -1 : 1;
    c = a->val == NULL ? 0 : bytes_cmp(a->val, a->val_len, b->val, b->val_len);
    if (c != 0)
        return c;
    if ((a->key == NULL) != (b->key == NULL))
        return a->key == NULL ? -1 : 1;
    return a->key == NULL ? 0
                          : bytes_cmp(a->key, a->key_len, b->key, b->key_len);
}

void
kept_put_json(const struct kept *k, struct buf *out)
{
    const struct rec *r = &k->rec;

    if (r->val == NULL) {
        buf_adds(out, "{}");
    } else if (r->kind == REC_TEXT) {
        buf_adds(out, "{\"value\":");
        json_put_str(out, r->val, r->val_len);
        buf_addc(out, '}');
    } else if (r->kind == REC_VALUE) {
        buf_adds(out, "{\"value\":");
        buf_add(out, r->val, r->val_len);
        buf_addc(out, '}');
    } else {
        buf_add(out, r->val, r->val_len);
    }
}

static void
encode_bytes(struct buf *out, const char *bytes, uint32_t len)
{
    if (bytes == NULL)
        codec_put_u32(out, HEADER_NULL);
    else
        codec_put_bytes(out, bytes, len);
}

static bool
decode_bytes(const char **p, const char *end, const char **ret, uint32_t *len)
{
    const char *at = *p;

    *ret = NULL;
    if (!codec_u32(&at, end, len))
        return false;
    if (*len != HEADER_NULL)
        return codec_bytes(p, end, ret, len);
    *len = 0;
    *p = at;
    return true;
}

void
kept_encode(const struct kept *k, struct buf *out)
{
    const struct rec *r = &k->rec;
    const char *topic = topic_name(r->topic);
    uint32_t i, n = r->headers != NULL ? r->headers->count : 0;

    codec_put_u64(out, (uint64_t)r->ts);
    codec_put_u64(out, (uint64_t)r->offset);
    codec_put_u32(out, (uint32_t)r->partition);
    codec_put_bytes(out, topic, strlen(topic));
    buf_addc(out, (char)r->kind);
    buf_addc(out, (char)(r->flags & FLAGS_KEPT));
    encode_bytes(out, k->by, k->by_len);
    encode_bytes(out, r->key, r->key_len);
    encode_bytes(out, r->val, r->val_len);
    codec_put_u32(out, n);
    for (i = 0; i < n; i++) {
        const struct rec_header *h = &r->headers->items[i];

        codec_put_bytes(out, h->name, h->name_len);
        encode_bytes(out, h->value, h->value_len);
    }
}

static struct rec_headers *
decode_headers(const char **p, const char *end, uint32_t n, struct arena *a)
{
    struct rec_headers *h = rec_headers_new(a, n);
    uint32_t i;

    for (i = 0; i < n; i++) {
        struct rec_header *x = &h->items[i];

        if (!codec_bytes(p, end, &x->name, &x->name_len) ||
            !decode_bytes(p, end, &x->value, &x->value_len))
            return NULL;
    }
    return h;
}

/* Number, event time, origin, kind and flags. */
static bool
decode_head(const char **p, const char *end, struct rec *r)
{
    const char *topic;
    char *name;
    uint64_t ts, offset;
    uint32_t partition, len;
    uint8_t kind, flags;

    if (!codec_u64(p, end, &ts) || !codec_u64(p, end, &offset) ||
        !codec_u32(p, end, &partition) || !codec_bytes(p, end, &topic, &len) ||
        !codec_u8(p, end, &kind) || !codec_u8(p, end, &flags) ||
        kind > REC_TOMBSTONE || (flags & ~FLAGS_KEPT) != 0)
        return false;
    name = mem_dup(topic, len);
    *r = (struct rec){.ts = (int64_t)ts,
                      .offset = (int64_t)offset,
                      .partition = (int32_t)partition,
                      .topic = topic_register(name),
                      .kind = kind,
                      .flags = flags,
                      .wm = WM_NONE,
                      .src = UINT16_MAX};
    free(name);
    return true;
}

struct kept *
kept_decode(const char **p, const char *end)
{
    struct rec_headers *h = NULL;
    struct kept *k = NULL;
    struct rec r;
    struct arena a;
    const char *by;
    uint32_t by_len, n;

    if (!decode_head(p, end, &r) || !decode_bytes(p, end, &by, &by_len) ||
        !decode_bytes(p, end, &r.key, &r.key_len) ||
        !decode_bytes(p, end, &r.val, &r.val_len) || !codec_u32(p, end, &n) ||
        n > HEADERS_MAX || (r.val == NULL && r.kind != REC_TOMBSTONE))
        return NULL;
    arena_init(&a);
    if (n != 0)
        h = decode_headers(p, end, n, &a);
    if (n == 0 || h != NULL)
        k = make(&r, h, by, by_len);
    arena_fini(&a);
    return k;
}

/* ---- lists ---- */

void
kept_list_fini(struct kept_list *l)
{
    uint32_t i;

    for (i = 0; i < l->n; i++)
        free(l->at[i]);
    free(l->at);
    memset(l, 0, sizeof *l);
}

void
kept_list_reserve(struct kept_list *l, size_t n)
{
    size_t cap = l->cap;

    mem_grow(&l->at, &cap, n, sizeof(struct kept *));
    l->cap = (uint32_t)cap;
}

void
kept_list_add(struct kept_list *l, struct kept *k)
{
    kept_list_reserve(l, l->n + 1u);
    l->at[l->n++] = k;
    l->bytes += k->size;
}

void
kept_list_dup(const struct kept_list *l, struct kept_list *to)
{
    uint32_t i;

    memset(to, 0, sizeof *to);
    kept_list_reserve(to, l->n + 1u);
    for (i = 0; i < l->n; i++)
        kept_list_add(to, kept_dup(l->at[i]));
}

size_t
kept_list_heap(const struct kept_list *l)
{
    return l->bytes + l->cap * sizeof(struct kept *);
}

void
kept_list_put_json(const struct kept_list *l, struct buf *out, bool *ext)
{
    uint32_t i;

    buf_addc(out, '[');
    for (i = 0; i < l->n; i++) {
        if (i > 0)
            buf_addc(out, ',');
        kept_put_json(l->at[i], out);
        *ext = *ext || (l->at[i]->rec.flags & REC_EXT) != 0;
    }
    buf_addc(out, ']');
}

void
kept_list_encode(const struct kept_list *l, struct buf *out)
{
    uint32_t i;

    codec_put_u32(out, l->n);
    for (i = 0; i < l->n; i++)
        kept_encode(l->at[i], out);
}
