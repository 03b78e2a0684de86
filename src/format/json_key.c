/*
 * Canonical keys of lists and maps.
 *
 * Sorting the names of a map per record is dear, and few maps differ, so
 * each thread remembers encodings by the raw bytes they were made from, in a
 * direct-mapped table that a thread's end frees.
 */
#include "format/json.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "format/scan.h"

enum { CACHE_SLOTS = 1024, CACHE_RAW_MAX = 256, CACHE_ENC_MAX = 512 };

struct cache_slot {
    char *bytes; /* raw, then encoding; NULL = free */
    uint16_t raw_len, enc_len;
};

struct key_ctx {
    struct cache_slot slots[CACHE_SLOTS];
    struct arena arena; /* of one encoding: names, strings, member lists */
};

struct member {
    struct val name;
    const char *at; /* its value in the text */
    uint32_t index;
};

static pthread_key_t ctx_key;
static pthread_once_t ctx_once = PTHREAD_ONCE_INIT;
static _Thread_local struct key_ctx *ctx_mine;

static int encode_at(struct buf *b, struct scan *s, const char **p,
                     unsigned depth);

static void
ctx_free(void *arg)
{
    struct key_ctx *c = arg;
    size_t i;

    for (i = 0; i < CACHE_SLOTS; i++)
        free(c->slots[i].bytes);
    arena_fini(&c->arena);
    free(c);
    ctx_mine = NULL;
}

/* The main thread's end runs no destructors of thread-specific data. */
static void
ctx_free_mine(void)
{
    if (ctx_mine != NULL)
        ctx_free(ctx_mine);
}

static void
ctx_make_key(void)
{
    (void)pthread_key_create(&ctx_key, ctx_free);
    (void)atexit(ctx_free_mine);
}

static struct key_ctx *
ctx_get(void)
{
    if (ctx_mine == NULL) {
        (void)pthread_once(&ctx_once, ctx_make_key);
        ctx_mine = mem_zalloc(sizeof *ctx_mine);
        arena_init(&ctx_mine->arena);
        (void)pthread_setspecific(ctx_key, ctx_mine);
    }
    return ctx_mine;
}

static int
member_cmp(const void *x, const void *y)
{
    const struct member *a = x, *b = y;
    uint32_t n = a->name.len < b->name.len ? a->name.len : b->name.len;
    int c = n != 0 ? memcmp(a->name.u.s, b->name.u.s, n) : 0;

    if (c != 0)
        return c;
    if (a->name.len != b->name.len)
        return a->name.len < b->name.len ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static bool
same_name(const struct member *a, const struct member *b)
{
    return a->name.len == b->name.len &&
           memcmp(a->name.u.s, b->name.u.s, a->name.len) == 0;
}

/* Collect the members of the map at *p; *p moves behind it. */
static int
read_members(struct scan *s, const char **p, unsigned depth,
             struct member **ret, size_t *ret_count)
{
    struct member *m = NULL;
    size_t n = 0, cap = 0;
    bool last;
    const char *q = scan_first(s, *p, '{', &last);

    while (!last) {
        mem_grow(&m, &cap, n + 1, sizeof *m);
        q = scan_name(s, q, &m[n].name);
        if (q == NULL)
            goto fail;
        m[n].at = q;
        m[n].index = (uint32_t)n;
        n++;
        q = scan_skip(s, q, depth);
        if (q != NULL)
            q = scan_next(s, q, '{', &last);
        if (q == NULL)
            goto fail;
    }
    *p = q;
    *ret = m;
    *ret_count = n;
    return 0;

fail:
    free(m);
    return ERR_RECORD;
}

static int
encode_map(struct buf *b, struct scan *s, const char **p, unsigned depth)
{
    struct member *m;
    size_t i, n;
    int r = read_members(s, p, depth, &m, &n);

    if (r != 0)
        return r;
    if (n > 1)
        qsort(m, n, sizeof *m, member_cmp);
    key_put_map(b);
    for (i = 0; i < n && r == 0; i++) {
        const char *at = m[i].at;

        if (i > 0 && same_name(&m[i], &m[i - 1]))
            continue;
        key_put_str(b, m[i].name.u.s, m[i].name.len);
        r = encode_at(b, s, &at, depth);
    }
    key_put_end(b);
    free(m);
    return r;
}

static int
encode_list(struct buf *b, struct scan *s, const char **p, unsigned depth)
{
    bool last;
    const char *q = scan_first(s, *p, '[', &last);
    int r;

    key_put_list(b);
    while (!last) {
        r = encode_at(b, s, &q, depth);
        if (r != 0)
            return r;
        q = scan_next(s, q, '[', &last);
        if (q == NULL)
            return ERR_RECORD;
    }
    key_put_end(b);
    *p = q;
    return 0;
}

static int
nan_fail(struct scan *s, const char *p)
{
    (void)scan_fail(s, p, "NaN");
    s->cause = CAUSE_TYPE;
    return ERR_RECORD;
}

/* Encode the value at *p; *p moves behind it. Errors are left in s. */
static int
encode_at(struct buf *b, struct scan *s, const char **p, unsigned depth)
{
    const char *q = *p;
    struct val v;

    if (q < s->end && (*q == '{' || *q == '[')) {
        if (depth >= JSON_DEPTH_MAX) {
            (void)scan_fail(s, q, "nested deeper than 1024");
            return ERR_RECORD;
        }
        return *q == '{' ? encode_map(b, s, p, depth + 1)
                         : encode_list(b, s, p, depth + 1);
    }
    q = scan_value(s, q, depth, &v);
    if (q == NULL || v.type == VAL_BAD)
        return ERR_RECORD;
    if (v.type == VAL_NULL)
        key_put_null(b);
    else if (!key_put_scalar(b, &v))
        return nan_fail(s, *p);
    *p = q;
    return 0;
}

static int
nan_err(struct err *e)
{
    return err_record(e, CAUSE_TYPE, "NaN cannot be a key");
}

static void
cache_put(struct cache_slot *slot, const struct val *v, const char *enc,
          size_t len)
{
    if (v->len > CACHE_RAW_MAX || len > CACHE_ENC_MAX)
        return;
    slot->bytes = mem_realloc(slot->bytes, v->len + len);
    memcpy(slot->bytes, v->u.s, v->len);
    memcpy(slot->bytes + v->len, enc, len);
    slot->raw_len = (uint16_t)v->len;
    slot->enc_len = (uint16_t)len;
}

static int
encode_text(struct buf *b, const struct val *v, struct err *e)
{
    struct key_ctx *c = ctx_get();
    struct cache_slot *slot = &c->slots[hash_key(v->u.s, v->len) % CACHE_SLOTS];
    size_t before = b->len;
    const char *p = v->u.s;
    struct scan s;
    int r;

    if (slot->bytes != NULL && slot->raw_len == v->len &&
        memcmp(slot->bytes, v->u.s, v->len) == 0) {
        buf_add(b, slot->bytes + slot->raw_len, slot->enc_len);
        return 0;
    }
    arena_reset(&c->arena);
    scan_init(&s, v->u.s, v->len, true, BIGINT_ERROR, &c->arena);
    r = encode_at(b, &s, &p, 0);
    if (r != 0 && s.cause == CAUSE_BIGINT && v->bigint != BIGINT_ERROR) {
        /* Not remembered: the same bytes of another source may fail. */
        b->len = before;
        p = v->u.s;
        scan_init(&s, p, v->len, true, v->bigint, &c->arena);
        r = encode_at(b, &s, &p, 0);
        if (r == 0)
            return 0;
    }
    if (r != 0) {
        b->len = before;
        return s.cause == CAUSE_TYPE ? nan_err(e) : scan_err(&s, e);
    }
    cache_put(slot, v, b->data + before, b->len - before);
    return 0;
}

int
json_key_encode(struct buf *b, const struct val *v, struct err *e)
{
    switch ((enum val_type)v->type) {
    case VAL_NIL:
    case VAL_NULL:
        return err_record(e, CAUSE_NULL_KEY, "the key is null");
    case VAL_LIST:
    case VAL_MAP:
        return encode_text(b, v, e);
    case VAL_BAD:
        return err_record(e, CAUSE_DECODE, "the key cannot be decoded");
    case VAL_BOOL:
    case VAL_INT:
    case VAL_DBL:
    case VAL_STR:
        break;
    }
    return key_put_scalar(b, v) ? 0 : nan_err(e);
}
