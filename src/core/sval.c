#include "core/sval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"

static bool
has_bytes(uint8_t type)
{
    return type == VAL_STR || type == VAL_LIST || type == VAL_MAP;
}

static bool
on_heap(const struct sval *s)
{
    return has_bytes(s->type) && s->len > SVAL_INLINE;
}

void
sval_set(struct sval *s, const struct val *v)
{
    char *old = on_heap(s) ? s->u.heap : NULL;

    s->type = v->type;
    s->len = 0;
    s->u.i = 0;
    if (!has_bytes(v->type)) {
        if (v->type == VAL_BOOL)
            s->u.b = v->u.b;
        else if (v->type == VAL_DBL)
            s->u.d = v->u.d;
        else if (v->type == VAL_INT)
            s->u.i = v->u.i;
        free(old);
        return;
    }
    s->len = v->len;
    if (v->len > SVAL_INLINE) {
        /* Reuse the old piece where it is not much too large. */
        s->u.heap = mem_realloc(old, v->len);
        memcpy(s->u.heap, v->u.s, v->len);
        return;
    }
    if (v->len != 0)
        memcpy(s->u.bytes, v->u.s, v->len);
    free(old);
}

struct val
sval_get(const struct sval *s)
{
    struct val v = {.type = s->type, .len = s->len};

    if (on_heap(s))
        v.u.s = s->u.heap;
    else if (has_bytes(s->type))
        v.u.s = s->u.bytes;
    else if (s->type == VAL_BOOL)
        v.u.b = s->u.b;
    else
        v.u.i = s->u.i; /* or the same bytes of a double */
    return v;
}

void
sval_dup(const struct sval *s, struct sval *to)
{
    *to = *s;
    if (on_heap(s))
        to->u.heap = mem_dup(s->u.heap, s->len);
}

void
sval_fini(struct sval *s)
{
    if (on_heap(s))
        free(s->u.heap);
    memset(s, 0, sizeof *s);
}

size_t
sval_heap(const struct sval *s)
{
    return on_heap(s) ? s->len : 0;
}

void
sval_encode(const struct sval *s, struct buf *out)
{
    struct val v = sval_get(s);

    buf_addc(out, (char)s->type);
    if (has_bytes(s->type))
        codec_put_bytes(out, v.u.s, v.len);
    else if (s->type == VAL_BOOL)
        buf_addc(out, v.u.b ? 1 : 0);
    else if (val_is_num(&v))
        codec_put_u64(out, (uint64_t)v.u.i);
}

bool
sval_decode(struct sval *s, const char **p, const char *end)
{
    struct val v = val_nil();
    uint64_t bits;
    uint8_t flag;

    if (!codec_u8(p, end, &v.type) || v.type >= VAL_BAD)
        return false;
    if (has_bytes(v.type)) {
        if (!codec_bytes(p, end, &v.u.s, &v.len))
            return false;
    } else if (v.type == VAL_BOOL) {
        if (!codec_u8(p, end, &flag) || flag > 1)
            return false;
        v.u.b = flag != 0;
    } else if (val_is_num(&v)) {
        if (!codec_u64(p, end, &bits))
            return false;
        v.u.i = (int64_t)bits;
        if (v.type == VAL_DBL && isnan(v.u.d))
            return false;
    }
    sval_set(s, &v);
    return true;
}

static int
cmp_int_double(int64_t i, double d)
{
    int64_t whole;
    double rest;

    if (d >= 0x1p63)
        return -1;
    if (d < -0x1p63)
        return 1;
    whole = (int64_t)d;
    if (i != whole)
        return i < whole ? -1 : 1;
    rest = d - (double)whole;
    return rest == 0 ? 0 : rest > 0 ? -1 : 1;
}

int
val_num_cmp(const struct val *a, const struct val *b)
{
    if (a->type == VAL_INT && b->type == VAL_INT)
        return a->u.i == b->u.i ? 0 : a->u.i < b->u.i ? -1 : 1;
    if (a->type == VAL_INT)
        return cmp_int_double(a->u.i, b->u.d);
    if (b->type == VAL_INT)
        return -cmp_int_double(b->u.i, a->u.d);
    return a->u.d == b->u.d ? 0 : a->u.d < b->u.d ? -1 : 1;
}

int
val_bytes_cmp(const struct val *a, const struct val *b)
{
    uint32_t n = a->len < b->len ? a->len : b->len;
    int c = n != 0 ? memcmp(a->u.s, b->u.s, n) : 0;

    if (c != 0)
        return c;
    return a->len == b->len ? 0 : a->len < b->len ? -1 : 1;
}

/* Length of the well-formed sequence at s, 0 if there is none. */
static size_t
utf8_sequence(const unsigned char *s, size_t len)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t n, i;

    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (len < n)
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0; /* overlong */
    else if (s[0] == 0xed)
        high = 0x9f; /* surrogates */
    else if (s[0] == 0xf0)
        low = 0x90; /* overlong */
    else if (s[0] == 0xf4)
        high = 0x8f; /* above U+10FFFF */
    if (s[1] < low || s[1] > high)
        return 0;
    for (i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return n;
}

bool
val_utf8_ok(const char *s, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t n = utf8_sequence((const unsigned char *)s + at, len - at);

        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

/* Whether JSON text holds NaN or Infinity: outside strings, plain JSON has
 * no upper-case letter but E. */
static bool
text_has_nan(const char *s, size_t len)
{
    bool quoted = false;
    size_t i;

    for (i = 0; i < len; i++) {
        if (s[i] == '"')
            quoted = !quoted;
        else if (quoted && s[i] == '\\')
            i++;
        else if (!quoted && (s[i] == 'N' || s[i] == 'I'))
            return true;
    }
    return false;
}

void
val_put_json(struct buf *b, const struct val *v, bool *ext)
{
    switch (v->type) {
    case VAL_BOOL:
        buf_adds(b, v->u.b ? "true" : "false");
        break;
    case VAL_INT:
        json_put_int(b, v->u.i);
        break;
    case VAL_DBL:
        json_put_double(b, v->u.d);
        *ext = *ext || !isfinite(v->u.d);
        break;
    case VAL_STR:
        json_put_str(b, v->u.s, v->len);
        *ext = *ext || !val_utf8_ok(v->u.s, v->len);
        break;
    case VAL_LIST:
    case VAL_MAP:
        buf_add(b, v->u.s, v->len);
        *ext = *ext || text_has_nan(v->u.s, v->len) ||
               !val_utf8_ok(v->u.s, v->len);
        break;
    default:
        buf_adds(b, "null");
        break;
    }
}
