#include "format/scan.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/buf.h"

const char *
scan_fail(struct scan *s, const char *at, const char *why)
{
    s->at = at;
    s->why = why;
    s->cause = CAUSE_DECODE;
    return NULL;
}

int
scan_err(const struct scan *s, struct err *e)
{
    int n = (int)(s->end - s->at > 24 ? 24 : s->end - s->at);

    if (s->cause == CAUSE_BIGINT) {
        (void)err_record(e, CAUSE_BIGINT,
                         "integer beyond 64 bits at byte %zu: %.*s",
                         (size_t)(s->at - s->start) + 1, n, s->at);
        err_hint(e, "bigint=\"string\" or \"float\" on the source reads it");
        return ERR_RECORD;
    }
    return err_record(e, CAUSE_DECODE, "invalid JSON at byte %zu: %s",
                      (size_t)(s->at - s->start) + 1, s->why);
}

/* First byte from p that ends a run of plain string bytes: a quote, a
 * backslash, a control character; or end. */
static const char *
plain_end(const char *p, const char *end)
{
    unsigned char c;

#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i slash = _mm_set1_epi8('\\');
    const __m128i ctl = _mm_set1_epi8(0x1f);

    while (end - p >= 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i m = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
            _mm_cmpeq_epi8(_mm_min_epu8(x, ctl), x));
        int bits = _mm_movemask_epi8(m);

        if (bits != 0)
            return p + __builtin_ctz((unsigned)bits);
        p += 16;
    }
#endif
    for (; p < end; p++) {
        c = (unsigned char)*p;
        if (c == '"' || c == '\\' || c < 0x20)
            break;
    }
    return p;
}

static int
hex4(const char *p)
{
    int v = 0, i;

    for (i = 0; i < 4; i++) {
        char c = p[i];

        if (c >= '0' && c <= '9')
            v = v * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            v = v * 16 + (c - 'A' + 10);
        else
            return -1;
    }
    return v;
}

/* The escape at p (a backslash); @return behind it, NULL if it is none. */
static const char *
skip_escape(struct scan *s, const char *p)
{
    int v;

    if (s->end - p < 2)
        return scan_fail(s, p, "string without end");
    if (p[1] != 'u') {
        if (p[1] == '\0' || strchr("\"\\/bfnrt", p[1]) == NULL)
            return scan_fail(s, p, "unknown escape in a string");
        return p + 2;
    }
    v = s->end - p < 6 ? -1 : hex4(p + 2);
    if (v < 0)
        return scan_fail(s, p, "\\u needs four hexadecimal digits");
    if (v < 0xD800 || v > 0xDFFF)
        return p + 6;
    if (v > 0xDBFF || s->end - p < 12 || p[6] != '\\' || p[7] != 'u')
        return scan_fail(s, p, "half of a surrogate pair");
    v = hex4(p + 8);
    if (v < 0xDC00 || v > 0xDFFF)
        return scan_fail(s, p, "half of a surrogate pair");
    return p + 12;
}

const char *
scan_string(struct scan *s, const char *p, bool *ret_escaped)
{
    const char *open = p - 1;

    *ret_escaped = false;
    for (;;) {
        p = plain_end(p, s->end);
        if (p == s->end)
            return scan_fail(s, open, "string without end");
        if (*p == '"')
            return p;
        if (*p != '\\')
            return scan_fail(s, p, "control character in a string");
        *ret_escaped = true;
        p = skip_escape(s, p);
        if (p == NULL)
            return NULL;
    }
}

static char *
put_utf8(char *out, int v)
{
    if (v < 0x80) {
        *out++ = (char)v;
    } else if (v < 0x800) {
        *out++ = (char)(0xC0 | v >> 6);
        *out++ = (char)(0x80 | (v & 0x3F));
    } else if (v < 0x10000) {
        *out++ = (char)(0xE0 | v >> 12);
        *out++ = (char)(0x80 | (v >> 6 & 0x3F));
        *out++ = (char)(0x80 | (v & 0x3F));
    } else {
        *out++ = (char)(0xF0 | v >> 18);
        *out++ = (char)(0x80 | (v >> 12 & 0x3F));
        *out++ = (char)(0x80 | (v >> 6 & 0x3F));
        *out++ = (char)(0x80 | (v & 0x3F));
    }
    return out;
}

size_t
scan_unescape(const char *p, const char *q, char *out)
{
    static const char names[] = "bfnrt";
    static const char codes[] = "\b\f\n\r\t";
    char *o = out;

    while (p < q) {
        const char *b = memchr(p, '\\', (size_t)(q - p));
        const char *at;
        int v;

        if (b == NULL)
            b = q;
        memcpy(o, p, (size_t)(b - p));
        o += b - p;
        if (b == q)
            break;
        p = b + 2;
        if (b[1] != 'u') {
            at = strchr(names, b[1]);
            *o++ = at != NULL ? codes[at - names] : b[1];
            continue;
        }
        v = hex4(p);
        p += 4;
        if (v >= 0xD800 && v <= 0xDFFF) {
            v = 0x10000 + ((v - 0xD800) << 10) + (hex4(p + 2) - 0xDC00);
            p += 6;
        }
        o = put_utf8(o, v);
    }
    return (size_t)(o - out);
}

const char *
scan_string_val(struct scan *s, const char *p, struct val *ret)
{
    bool escaped;
    const char *q = scan_string(s, p + 1, &escaped);
    char *out;

    if (q == NULL)
        return NULL;
    p++;
    if (!escaped) {
        *ret = val_str(p, (uint32_t)(q - p));
        return q + 1;
    }
    out = arena_alloc(s->arena, (size_t)(q - p));
    *ret = val_str(out, (uint32_t)scan_unescape(p, q, out));
    return q + 1;
}

static bool
is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

static const char *
skip_digits(const char *p, const char *end)
{
    while (is_digit(p, end))
        p++;
    return p;
}

/* Whether a number or word may end before p. */
static bool
is_token_end(const struct scan *s, const char *p)
{
    return p == s->end || *p == ',' || *p == '}' || *p == ']' || *p == ' ' ||
           *p == '\n' || *p == '\t' || *p == '\r';
}

const char *
scan_number(struct scan *s, const char *p)
{
    const char *from = p, *q;

    if (*p == '-')
        p++;
    if (!is_digit(p, s->end))
        return scan_fail(s, from, "not a value");
    q = *p == '0' ? p + 1 : skip_digits(p, s->end);
    if (q < s->end && *q == '.') {
        if (!is_digit(q + 1, s->end))
            return scan_fail(s, from, "malformed number");
        q = skip_digits(q + 1, s->end);
    }
    if (q < s->end && (*q == 'e' || *q == 'E')) {
        q++;
        if (q < s->end && (*q == '+' || *q == '-'))
            q++;
        if (!is_digit(q, s->end))
            return scan_fail(s, from, "malformed number");
        q = skip_digits(q, s->end);
    }
    if (!is_token_end(s, q))
        return scan_fail(s, from, "malformed number");
    return q;
}

/* An integer of digits only; @return false if beyond int64. */
static bool
read_int(const char *p, const char *q, int64_t *ret)
{
    bool neg = *p == '-';
    uint64_t u = 0;

    for (p += neg; p < q; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (__builtin_mul_overflow(u, 10u, &u) ||
            __builtin_add_overflow(u, digit, &u))
            return false;
    }
    if (u > (uint64_t)INT64_MAX + neg)
        return false;
    *ret = (int64_t)(neg ? 0 - u : u);
    return true;
}

static const char *
number_val(struct scan *s, const char *p, struct val *ret)
{
    const char *q = scan_number(s, p), *c;
    double d;
    int64_t i;

    if (q == NULL)
        return NULL;
    for (c = p; c < q; c++)
        if (*c == '.' || *c == 'e' || *c == 'E')
            break;
    if (c == q && read_int(p, q, &i)) {
        *ret = val_int(i);
        return q;
    }
    ret->type = VAL_BAD;
    if (c == q && s->bigint == BIGINT_STRING) {
        *ret = val_str(p, (uint32_t)(q - p));
    } else if (c == q && s->bigint == BIGINT_ERROR) {
        (void)scan_fail(s, p, "integer beyond 64 bits");
        s->cause = CAUSE_BIGINT;
    } else if (num_read_double(p, (size_t)(q - p), &d)) {
        *ret = val_dbl(d);
    } else {
        (void)scan_fail(s, p, "number beyond the range of a double");
    }
    return q;
}

static bool
is_word(const struct scan *s, const char *p, const char *word, size_t len)
{
    return (size_t)(s->end - p) >= len && memcmp(p, word, len) == 0 &&
           is_token_end(s, p + len);
}

static const char *
word_val(struct scan *s, const char *p, struct val *ret)
{
    static const struct word {
        const char *text;
        size_t len;
        uint8_t type;
        bool b, ext;
        double d;
    } words[] = {
        {"null", 4, VAL_NULL, false, false, 0},
        {"true", 4, VAL_BOOL, true, false, 0},
        {"false", 5, VAL_BOOL, false, false, 0},
        {"NaN", 3, VAL_DBL, false, true, __builtin_nan("")},
        {"Infinity", 8, VAL_DBL, false, true, __builtin_inf()},
        {"-Infinity", 9, VAL_DBL, false, true, -__builtin_inf()},
    };
    size_t i;

    for (i = 0; i < sizeof words / sizeof *words; i++) {
        const struct word *w = &words[i];

        if ((w->ext && !s->ext) || !is_word(s, p, w->text, w->len))
            continue;
        if (w->type == VAL_DBL) {
            *ret = val_dbl(w->d);
        } else {
            *ret = val_bool(w->b);
            ret->type = w->type;
        }
        return p + w->len;
    }
    return NULL;
}

/* A value that is neither list nor map. */
static const char *
scalar_val(struct scan *s, const char *p, struct val *ret)
{
    const char *q;

    if (p == s->end)
        return scan_fail(s, p, "a value is missing");
    if (*p == '"')
        return scan_string_val(s, p, ret);
    if (*p >= '0' && *p <= '9')
        return number_val(s, p, ret);
    q = word_val(s, p, ret);
    return q != NULL ? q : number_val(s, p, ret);
}

static const char *
skip_scalar(struct scan *s, const char *p)
{
    struct val v;
    bool escaped;
    const char *q;

    if (p == s->end)
        return scan_fail(s, p, "a value is missing");
    if (*p == '"') {
        q = scan_string(s, p + 1, &escaped);
        return q != NULL ? q + 1 : NULL;
    }
    if (*p >= '0' && *p <= '9')
        return scan_number(s, p);
    q = word_val(s, p, &v);
    return q != NULL ? q : scan_number(s, p);
}

const char *
scan_name(struct scan *s, const char *p, struct val *ret)
{
    if (p == s->end || *p != '"')
        return scan_fail(s, p, "expected a name in quotes");
    p = scan_string_val(s, p, ret);
    if (p == NULL)
        return NULL;
    p = scan_blanks(s, p);
    if (p == s->end || *p != ':')
        return scan_fail(s, p, "expected ':' after a name");
    return scan_blanks(s, p + 1);
}

/* As scan_name() without looking at the name. */
static const char *
skip_name(struct scan *s, const char *p)
{
    bool escaped;

    if (p == s->end || *p != '"')
        return scan_fail(s, p, "expected a name in quotes");
    p = scan_string(s, p + 1, &escaped);
    if (p == NULL)
        return NULL;
    p = scan_blanks(s, p + 1);
    if (p == s->end || *p != ':')
        return scan_fail(s, p, "expected ':' after a name");
    return scan_blanks(s, p + 1);
}

const char *
scan_first(struct scan *s, const char *p, char open, bool *ret_last)
{
    p = scan_blanks(s, p + 1);
    *ret_last = p < s->end && *p == (open == '{' ? '}' : ']');
    return p + *ret_last;
}

const char *
scan_next(struct scan *s, const char *p, char open, bool *ret_last)
{
    p = scan_blanks(s, p);
    if (p < s->end && *p == ',') {
        *ret_last = false;
        return scan_blanks(s, p + 1);
    }
    if (p < s->end && *p == (open == '{' ? '}' : ']')) {
        *ret_last = true;
        return p + 1;
    }
    return scan_fail(s, p,
                     open == '{' ? "expected ',' or '}' in a map"
                                 : "expected ',' or ']' in a list");
}

const char *
scan_skip(struct scan *s, const char *p, unsigned depth)
{
    char open[JSON_DEPTH_MAX];
    unsigned n = 0;
    bool last;

    for (;;) {
        if (p < s->end && (*p == '{' || *p == '[')) {
            if (depth + n >= JSON_DEPTH_MAX)
                return scan_fail(s, p, "nested deeper than 1024");
            open[n++] = *p;
            p = scan_first(s, p, *p, &last);
            if (!last) {
                p = open[n - 1] == '{' ? skip_name(s, p) : p;
                if (p == NULL)
                    return NULL;
                continue;
            }
            n--;
        } else {
            p = skip_scalar(s, p);
            if (p == NULL)
                return NULL;
        }
        for (;; n--) {
            if (n == 0)
                return p;
            p = scan_next(s, p, open[n - 1], &last);
            if (p == NULL)
                return NULL;
            if (!last)
                break;
        }
        if (open[n - 1] == '{') {
            p = skip_name(s, p);
            if (p == NULL)
                return NULL;
        }
    }
}

const char *
scan_value(struct scan *s, const char *p, unsigned depth, struct val *ret)
{
    const char *q;

    if (p == s->end || (*p != '{' && *p != '['))
        return scalar_val(s, p, ret);
    q = scan_skip(s, p, depth);
    if (q == NULL)
        return NULL;
    *ret = val_str(p, (uint32_t)(q - p));
    ret->type = *p == '{' ? VAL_MAP : VAL_LIST;
    return q;
}
