#include "format/json.h"

#include <assert.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "format/scan.h"
#include "format/simd.h"

static_assert((int)SIMD_PAD <= (int)REC_PAD, "records are padded for simdjson");
static_assert((int)SIMD_DEPTH_MAX == (int)JSON_DEPTH_MAX,
              "one depth everywhere");

/* Below this the scanner checks a text faster than a DOM is built. */
enum { DOM_MIN = 512 };

#if defined(__SSE2__)

static inline __m128i
load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Whether all of at least 16 bytes are below 0x80. */
static bool
is_ascii(const char *text, size_t len)
{
    __m128i all = load16(text + len - 16);
    size_t i;

    for (i = 0; i + 16 < len; i += 16)
        all = _mm_or_si128(all, load16(text + i));
    return _mm_movemask_epi8(all) == 0;
}

#endif

bool
json_utf8_ok(const char *text, size_t len)
{
    size_t i;

#if defined(__SSE2__)
    if (len >= 16)
        return is_ascii(text, len) || simd_utf8_ok(text, len);
#endif
    for (i = 0; i < len; i++)
        if ((unsigned char)text[i] >= 0x80)
            return simd_utf8_ok(text, len);
    return true;
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool
is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* Whether first and last byte can be those of one JSON value. */
static bool
ends_fit(const char *text, size_t len)
{
    char last = text[len - 1];

    switch (text[0]) {
    case '{':
        return last == '}';
    case '[':
        return len > 1 && last == ']';
    case '"':
        return len > 1 && last == '"';
    case 't':
        return is_word(text, len, "true");
    case 'f':
        return is_word(text, len, "false");
    case 'n':
        return is_word(text, len, "null");
    default:
        return (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) &&
               last >= '0' && last <= '9';
    }
}

/* Opening brackets, those in strings among them. */
static size_t
count_open(const char *text, size_t len)
{
    size_t i = 0, n = 0;

#if defined(__SSE2__)
    const __m128i square = _mm_set1_epi8('['), curly = _mm_set1_epi8('{');

    for (; i + 16 <= len; i += 16) {
        __m128i x = load16(text + i);
        __m128i open =
            _mm_or_si128(_mm_cmpeq_epi8(x, square), _mm_cmpeq_epi8(x, curly));

        n += (size_t)__builtin_popcount((unsigned)_mm_movemask_epi8(open));
    }
#endif
    for (; i < len; i++)
        n += text[i] == '[' || text[i] == '{';
    return n;
}

bool
json_is_deeper(const char *text, size_t len, size_t limit)
{
    const char *p = text, *end = text + len;
    size_t depth = 0;

    /* Few texts have that many brackets at all. */
    if (len <= 2 * limit || count_open(text, len) <= limit)
        return false;
    for (; p < end; p++) {
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                if (*p == '\\')
                    p++;
        } else if (*p == '[' || *p == '{') {
            if (++depth > limit)
                return true;
        } else if ((*p == ']' || *p == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

static int
check_all(const char *text, size_t len, struct err *e)
{
    struct scan s;
    const char *p;

    if (len >= DOM_MIN && simd_json_ok(text, len))
        return 0;
    scan_init(&s, text, len, false, BIGINT_ERROR, NULL);
    p = scan_skip(&s, text, 0);
    if (p != NULL && p != s.end)
        p = scan_fail(&s, p, "something follows the value");
    return p != NULL ? 0 : scan_err(&s, e);
}

int
json_check(const char *text, size_t len, bool validate, struct rec *r,
           struct err *e)
{
    assert(text != NULL || len == 0);

    if (len > 1 && len <= 2 * JSON_DEPTH_MAX && *text == '{' &&
        text[len - 1] == '}' && !validate && json_utf8_ok(text, len)) {
        r->val = text; /* by far the most */
        r->val_len = (uint32_t)len;
        r->kind = REC_OBJECT;
        return 0;
    }
    while (len > 0 && is_blank(text[len - 1]))
        len--;
    while (len > 0 && is_blank(*text)) {
        text++;
        len--;
    }
    if (len == 0)
        return err_record(e, CAUSE_DECODE, "invalid JSON: nothing there");
    if (len > REC_SIZE_MAX)
        return err_record(e, CAUSE_DECODE,
                          "a record of %zu bytes is beyond the limit of %d",
                          len, REC_SIZE_MAX);
    if (!ends_fit(text, len))
        return err_record(e, CAUSE_DECODE,
                          "invalid JSON: no value begins with '%.*s' and "
                          "ends with '%.*s'",
                          (unsigned char)text[0] < 0x80 ? 1 : 0, text,
                          (unsigned char)text[len - 1] < 0x80 ? 1 : 0,
                          text + len - 1);
    if (!json_utf8_ok(text, len))
        return err_record(e, CAUSE_DECODE, "invalid JSON: not UTF-8");
    if (json_is_deeper(text, len, JSON_DEPTH_MAX))
        return err_record(e, CAUSE_DECODE, "nested deeper than %d",
                          (int)JSON_DEPTH_MAX);
    if (validate && check_all(text, len, e) != 0)
        return ERR_RECORD;
    r->val = text;
    r->val_len = (uint32_t)len;
    r->kind = *text == '{' ? REC_OBJECT : REC_VALUE;
    return 0;
}

enum json_bigint
json_bigint_of(const struct rec *r)
{
    if (r->flags & REC_BIGINT_STRING)
        return BIGINT_STRING;
    return r->flags & REC_BIGINT_FLOAT ? BIGINT_FLOAT : BIGINT_ERROR;
}

void
json_walk_init(struct json_walk *w, const char *text, size_t len,
               enum json_bigint bigint, struct arena *a)
{
    w->pos = w->text = text;
    w->end = text + len;
    w->arena = a;
    w->bigint = bigint;
    w->map = len > 0 && *text == '{';
    w->first = true;
    w->ext = true;
}

int
json_walk_next(struct json_walk *w, struct val *name, struct val *value,
               const char **raw, size_t *raw_len, struct err *e)
{
    char open = w->map ? '{' : '[';
    struct scan s;
    struct val n;
    const char *p, *q;
    bool last = false;

    if (w->pos == NULL)
        return 0;
    scan_init(&s, w->text, (size_t)(w->end - w->text), w->ext, w->bigint,
              w->arena);
    if (w->first && (w->pos == w->end || *w->pos != open))
        p = scan_fail(&s, w->pos, "not a list or a map");
    else if (w->first)
        p = scan_first(&s, w->pos, open, &last);
    else
        p = scan_next(&s, w->pos, open, &last);
    if (p == NULL)
        return scan_err(&s, e);
    if (last) {
        w->pos = NULL;
        return 0;
    }
    if (w->map) {
        p = scan_name(&s, p, name != NULL ? name : &n);
        if (p == NULL)
            return scan_err(&s, e);
    }
    q = scan_value(&s, p, 1, value);
    if (q == NULL)
        return scan_err(&s, e);
    w->first = false;
    w->pos = q;
    if (raw != NULL)
        *raw = p;
    if (raw_len != NULL)
        *raw_len = (size_t)(q - p);
    return value->type == VAL_BAD ? scan_err(&s, e) : 1;
}

/* The value that is all of s's text. */
static int
whole_value(struct scan *s, struct val *ret, struct err *e)
{
    struct val v;
    const char *p;

    p = scan_value(s, scan_blanks(s, s->start), 0, &v);
    if (p != NULL && v.type != VAL_BAD && scan_blanks(s, p) != s->end)
        p = scan_fail(s, p, "something follows the value");
    if (p == NULL || v.type == VAL_BAD)
        return scan_err(s, e);
    *ret = v;
    return 0;
}

int
json_value(const char *text, size_t len, enum json_bigint bigint,
           struct arena *a, struct val *ret, struct err *e)
{
    struct scan s;

    scan_init(&s, text, len, true, bigint, a);
    return whole_value(&s, ret, e);
}

int
json_value_plain(const char *text, size_t len, enum json_bigint bigint,
                 struct arena *a, struct val *ret, struct err *e)
{
    struct scan s;

    scan_init(&s, text, len, false, bigint, a);
    return whole_value(&s, ret, e);
}
