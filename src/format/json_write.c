#include "format/json.h"

#include <math.h>
#include <string.h>

static bool
has_ext_token(const char *text, size_t len)
{
    return memmem(text, len, "NaN", 3) != NULL ||
           memmem(text, len, "Infinity", 8) != NULL;
}

bool
json_is_ext(const char *text, size_t len)
{
    return !json_utf8_ok(text, len) || has_ext_token(text, len);
}

void
json_put_val(struct buf *b, const struct val *v, bool *ext)
{
    switch ((enum val_type)v->type) {
    case VAL_BOOL:
        buf_adds(b, v->u.b ? "true" : "false");
        break;
    case VAL_INT:
        json_put_int(b, v->u.i);
        break;
    case VAL_DBL:
        if (!isfinite(v->u.d))
            *ext = true;
        json_put_double(b, v->u.d);
        break;
    case VAL_STR:
        if (!json_utf8_ok(v->u.s, v->len))
            *ext = true;
        json_put_str(b, v->u.s, v->len);
        break;
    case VAL_LIST:
    case VAL_MAP:
        if (json_is_ext(v->u.s, v->len))
            *ext = true;
        buf_add(b, v->u.s, v->len);
        break;
    case VAL_NIL:
    case VAL_NULL:
    case VAL_BAD:
        buf_adds(b, "null");
        break;
    }
}

/* Bytes a lead byte asks for, 0 if it cannot lead; the range of the second
 * byte. @source Unicode 15, table 3-7 "Well-Formed UTF-8 Byte Sequences". */
static size_t
lead_len(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return 2;
    if (c >= 0xE0 && c <= 0xEF) {
        if (c == 0xE0)
            *lo = 0xA0;
        if (c == 0xED)
            *hi = 0x9F;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (c == 0xF0)
            *lo = 0x90;
        if (c == 0xF4)
            *hi = 0x8F;
        return 4;
    }
    return 0;
}

/* Length of the character or of the maximal bad part at s. */
static size_t
utf8_part(const char *s, size_t len, bool *ok)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned char lo, hi;
    size_t need = lead_len(u[0], &lo, &hi), i;

    *ok = false;
    if (need == 0)
        return 1;
    for (i = 1; i < need; i++) {
        if (i == len || u[i] < lo || u[i] > hi)
            return i;
        lo = 0x80;
        hi = 0xBF;
    }
    *ok = true;
    return need;
}

void
json_put_utf8(struct buf *b, const char *s, size_t len)
{
    size_t i, n;
    bool ok;

    for (i = 0; i < len; i += n) {
        n = utf8_part(s + i, len - i, &ok);
        if (ok)
            buf_add(b, s + i, n);
        else
            buf_add(b, "\xEF\xBF\xBD", 3);
    }
}

static int
utf8_err(struct err *e)
{
    (void)err_record(e, CAUSE_ENCODE, "a string holds bytes that are no UTF-8");
    err_hint(e, "invalid_utf8=\"replace\" on the sink writes U+FFFD for them");
    return ERR_RECORD;
}

int
json_put_text(struct buf *b, const char *s, size_t len, enum json_utf8 utf8,
              struct err *e)
{
    struct buf clean;

    if (json_utf8_ok(s, len)) {
        json_put_str(b, s, len);
        return 0;
    }
    if (utf8 == UTF8_ERROR)
        return utf8_err(e);
    buf_init(&clean);
    json_put_utf8(&clean, s, len);
    json_put_str(b, clean.data, clean.len);
    buf_fini(&clean);
    return 0;
}

/* Length of NaN, Infinity, -Infinity at p, or 0. */
static size_t
token_len(const char *p, const char *end)
{
    size_t left = (size_t)(end - p);

    if (left >= 3 && memcmp(p, "NaN", 3) == 0)
        return 3;
    if (left >= 8 && memcmp(p, "Infinity", 8) == 0)
        return 8;
    if (left >= 9 && memcmp(p, "-Infinity", 9) == 0)
        return 9;
    return 0;
}

static const char *
string_end(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end)
            p++;
    return p < end ? p + 1 : end;
}

/* Replace the tokens outside strings. */
static int
put_tokens(struct buf *b, const char *text, size_t len, enum json_nan nan,
           struct err *e)
{
    const char *p = text, *end = text + len, *from = text;
    size_t n;

    while (p < end) {
        if (*p == '"') {
            p = string_end(p, end);
            continue;
        }
        n = *p == 'N' || *p == 'I' || *p == '-' ? token_len(p, end) : 0;
        if (n == 0) {
            p++;
            continue;
        }
        if (nan == NAN_ERROR) {
            (void)err_record(e, CAUSE_ENCODE, "%.*s has no JSON form", (int)n,
                             p);
            err_hint(e, "nan=\"null\" or \"string\" on the sink writes it");
            return ERR_RECORD;
        }
        buf_add(b, from, (size_t)(p - from));
        if (nan == NAN_NULL)
            buf_adds(b, "null");
        else
            json_put_str(b, p, n);
        p += n;
        from = p;
    }
    buf_add(b, from, (size_t)(end - from));
    return 0;
}

int
json_put_plain(struct buf *b, const char *text, size_t len, enum json_nan nan,
               enum json_utf8 utf8, struct err *e)
{
    struct buf clean;
    size_t before = b->len;
    int r;

    buf_init(&clean);
    if (!json_utf8_ok(text, len)) {
        if (utf8 == UTF8_ERROR)
            return utf8_err(e);
        json_put_utf8(&clean, text, len);
        text = clean.data;
        len = clean.len;
    }
    if (has_ext_token(text, len)) {
        r = put_tokens(b, text, len, nan, e);
    } else {
        buf_add(b, text, len);
        r = 0;
    }
    if (r != 0)
        b->len = before;
    buf_fini(&clean);
    return r;
}
