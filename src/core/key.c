#include "core/key.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define SIGN_BIT (UINT64_C(1) << 63)

/* Doubles from here on do not hold every integer. */
static const double EXACT_MAX = 0x1p53;
static const double INT_END = 0x1p63; /* int64 is [-INT_END, INT_END) */
/* Integers within are doubles. */
static const int64_t INT_SMALL = INT64_C(1) << 53;

enum { NUM_BYTES = 9, REST_BYTES = 2 };

/* Bits of `d` such that unsigned order is the order of doubles. */
static uint64_t
order_bits(double d)
{
    uint64_t u;

    memcpy(&u, &d, sizeof u);
    return (u & SIGN_BIT) != 0 ? ~u : u | SIGN_BIT;
}

static double
order_bits_read(uint64_t u)
{
    double d;

    u = (u & SIGN_BIT) != 0 ? u & ~SIGN_BIT : ~u;
    memcpy(&d, &u, sizeof d);
    return d;
}

/* Whether integers near `d` are written with a remainder. Decided by the
 * double alone, so that a reader knows after nine bytes. */
static bool
has_rest(double d)
{
    return (d >= EXACT_MAX || d < -EXACT_MAX) && d >= -INT_END && d < INT_END;
}

static void
put_num(struct buf *b, double d, unsigned rest)
{
    uint64_t u = __builtin_bswap64(order_bits(d));
    char *out;

    buf_reserve(b, NUM_BYTES + REST_BYTES);
    out = b->data + b->len;
    out[0] = KEY_NUM;
    memcpy(out + 1, &u, sizeof u);
    out[NUM_BYTES] = (char)(rest >> 8);
    out[NUM_BYTES + 1] = (char)(rest & 0xffu);
    b->len += has_rest(d) ? NUM_BYTES + REST_BYTES : NUM_BYTES;
}

void
key_put_null(struct buf *b)
{
    buf_addc(b, KEY_NULL);
}

void
key_put_bool(struct buf *b, bool v)
{
    buf_addc(b, v ? KEY_TRUE : KEY_FALSE);
}

void
key_put_int(struct buf *b, int64_t v)
{
    double d = (double)v; /* rounded to nearest */
    int64_t back;

    if (v > -INT_SMALL && v < INT_SMALL) {
        put_num(b, d, 0);
        return;
    }
    /* Rounding up may leave int64: then the double below 2^63 is meant. */
    if (d >= INT_END)
        d = nextafter(INT_END, 0);
    back = (int64_t)d;
    if (back > v) {
        d = nextafter(d, -INFINITY);
        back = (int64_t)d;
    }
    put_num(b, d, (unsigned)(v - back));
}

void
key_put_double(struct buf *b, double v)
{
    assert(!isnan(v));
    put_num(b, v == 0 ? 0.0 : v, 0);
}

void
key_put_str(struct buf *b, const char *s, size_t len)
{
    const char *zero;
    char *to;

    buf_reserve(b, len + 3);
    buf_addc(b, KEY_STR);
    while (len != 0 && (zero = memchr(s, 0, len)) != NULL) {
        size_t n = (size_t)(zero - s) + 1;

        buf_add(b, s, n);
        buf_addc(b, (char)0xff);
        s += n;
        len -= n;
    }
    buf_reserve(b, len + 2);
    to = b->data + b->len;
    if (len != 0)
        memcpy(to, s, len);
    to[len] = 0;
    to[len + 1] = 0;
    b->len += len + 2;
}

void
key_put_list(struct buf *b)
{
    buf_addc(b, KEY_LIST);
}

void
key_put_map(struct buf *b)
{
    buf_addc(b, KEY_MAP);
}

void
key_put_end(struct buf *b)
{
    buf_addc(b, KEY_END);
}

bool
key_put_scalar(struct buf *b, const struct val *v)
{
    switch (v->type) {
    case VAL_BOOL:
        key_put_bool(b, v->u.b);
        return true;
    case VAL_INT:
        key_put_int(b, v->u.i);
        return true;
    case VAL_DBL:
        if (isnan(v->u.d))
            return false;
        key_put_double(b, v->u.d);
        return true;
    case VAL_STR:
        key_put_str(b, v->u.s, v->len);
        return true;
    default:
        return false;
    }
}

/* Bytes of the number at p (its tag included), 0 if there is none. Sets *d
 * and the remainder. Refuses bits that no encoder writes. */
static size_t
read_num(const char *p, const char *end, double *d, unsigned *rest)
{
    uint64_t u;
    double gap;

    if (end - p < NUM_BYTES)
        return 0;
    memcpy(&u, p + 1, sizeof u);
    *d = order_bits_read(__builtin_bswap64(u));
    *rest = 0;
    if (isnan(*d) || (*d == 0 && signbit(*d)))
        return 0;
    if (!has_rest(*d))
        return NUM_BYTES;
    if (end - p < NUM_BYTES + REST_BYTES)
        return 0;
    *rest = (unsigned)(unsigned char)p[NUM_BYTES] << 8 |
            (unsigned char)p[NUM_BYTES + 1];
    gap = nextafter(*d, INFINITY) - *d;
    return *rest < gap ? NUM_BYTES + REST_BYTES : 0;
}

/* Bytes of the string at p, tag and end mark included, 0 if there is none. */
static size_t
string_len(const char *p, const char *end)
{
    const char *at = p + 1;

    for (;;) {
        const char *zero = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;

        if (zero == NULL || end - zero < 2)
            return 0;
        if (zero[1] == 0)
            return (size_t)(zero + 2 - p);
        if ((unsigned char)zero[1] != 0xff)
            return 0;
        at = zero + 2;
    }
}

/* Bytes of the tag or scalar at p, 0 if there is none. */
static size_t
token_len(const char *p, const char *end)
{
    double d;
    unsigned rest;

    switch (*p) {
    case KEY_NUM:
        return read_num(p, end, &d, &rest);
    case KEY_STR:
        return string_len(p, end);
    case KEY_END:
    case KEY_NULL:
    case KEY_FALSE:
    case KEY_TRUE:
    case KEY_LIST:
    case KEY_MAP:
        return 1;
    default:
        return 0;
    }
}

/* Copy the bytes of a string, its end mark at `end`, without escapes. */
static void
put_bytes(struct buf *out, const char *p, const char *end)
{
    while (p < end) {
        const char *zero = memchr(p, 0, (size_t)(end - p));
        size_t n = (size_t)((zero != NULL ? zero + 1 : end) - p);

        buf_add(out, p, n);
        p += n + (zero != NULL ? 1 : 0);
    }
}

/* As put_bytes() but quoted. A copy is made only if there are escapes. */
static void
put_quoted(struct buf *out, const char *p, const char *end)
{
    struct buf bytes;

    if (end == p || memchr(p, 0, (size_t)(end - p)) == NULL) {
        json_put_str(out, p, (size_t)(end - p));
        return;
    }
    buf_init(&bytes);
    put_bytes(&bytes, p, end);
    json_put_str(out, bytes.data, bytes.len);
    buf_fini(&bytes);
}

static void
put_number(struct buf *out, const char *p, const char *end)
{
    double d;
    unsigned rest;

    (void)read_num(p, end, &d, &rest);
    if (d >= -INT_END && d < INT_END && d == floor(d))
        json_put_int(out, (int64_t)d + (int64_t)rest);
    else
        json_put_double(out, d);
}

static void
put_scalar(struct buf *out, const char *p, size_t len)
{
    switch (*p) {
    case KEY_NUM:
        put_number(out, p, p + len);
        break;
    case KEY_STR:
        put_quoted(out, p + 1, p + len - 2);
        break;
    case KEY_NULL:
        buf_adds(out, "null");
        break;
    default:
        buf_adds(out, *p == KEY_TRUE ? "true" : "false");
        break;
    }
}

/* Walks one part without recursion; what is open is a stack of bits. */
struct walk {
    uint64_t is_map[KEY_DEPTH_MAX / 64];
    unsigned depth;
    bool at_name;    /* inside a map, a name or the end comes next */
    bool first;      /* nothing has been written since the last bracket */
    struct buf *out; /* NULL: only measure */
};

static bool
in_map(const struct walk *w)
{
    unsigned at = w->depth - 1;

    return w->depth != 0 && (w->is_map[at / 64] >> at % 64 & 1) != 0;
}

/* The text between the value before and the token that comes. */
static void
separate(struct walk *w, char tag)
{
    if (w->out == NULL || w->depth == 0 || tag == KEY_END)
        return;
    if (in_map(w) && !w->at_name)
        buf_addc(w->out, ':');
    else if (!w->first)
        buf_addc(w->out, ',');
}

static bool
walk_open(struct walk *w, bool map)
{
    unsigned at = w->depth;

    if (at == KEY_DEPTH_MAX)
        return false;
    w->is_map[at / 64] &= ~(UINT64_C(1) << at % 64);
    w->is_map[at / 64] |= (uint64_t)map << at % 64;
    w->depth++;
    w->at_name = map;
    w->first = true;
    if (w->out != NULL)
        buf_addc(w->out, map ? '{' : '[');
    return true;
}

static bool
walk_close(struct walk *w)
{
    bool map = in_map(w);

    if (w->depth == 0 || (map && !w->at_name))
        return false;
    w->depth--;
    if (w->out != NULL)
        buf_addc(w->out, map ? '}' : ']');
    return true;
}

/* One token; false if it may not stand here. */
static bool
walk_token(struct walk *w, const char *p, size_t len)
{
    bool name = w->depth != 0 && w->at_name;

    if (name && *p != KEY_STR && *p != KEY_END)
        return false;
    if (w->depth == 0 && (*p == KEY_NULL || *p == KEY_END))
        return false;
    separate(w, *p);
    if (*p == KEY_LIST || *p == KEY_MAP)
        return walk_open(w, *p == KEY_MAP);
    if (*p == KEY_END && !walk_close(w))
        return false;
    if (*p != KEY_END && w->out != NULL)
        put_scalar(w->out, p, len);
    w->first = false;
    /* A bracket that closes ends a value, whatever stood before it. */
    w->at_name = (*p == KEY_END || !name) && in_map(w);
    return true;
}

static size_t
walk_part(struct buf *out, const char *p, const char *end)
{
    const char *at = p;
    struct walk w;

    w.depth = 0;
    w.at_name = false;
    w.first = true;
    w.out = out;
    do {
        size_t len = at < end ? token_len(at, end) : 0;

        if (len == 0 || !walk_token(&w, at, len))
            return 0;
        at += len;
    } while (w.depth != 0);
    return (size_t)(at - p);
}

size_t
key_part_len(const char *p, const char *end)
{
    return walk_part(NULL, p, end);
}

size_t
key_part_json(struct buf *out, const char *p, const char *end)
{
    size_t before = out->len;
    size_t len = walk_part(out, p, end);

    if (len == 0)
        out->len = before;
    return len;
}

size_t
key_part_text(struct buf *out, const char *p, const char *end)
{
    size_t len;

    if (p >= end || *p != KEY_STR)
        return key_part_json(out, p, end);
    len = string_len(p, end);
    if (len != 0)
        put_bytes(out, p + 1, p + len - 2);
    return len;
}

int
key_cmp(const char *a, size_t alen, const char *b, size_t blen)
{
    size_t n = alen < blen ? alen : blen;
    int c = n != 0 ? memcmp(a, b, n) : 0;

    if (c != 0)
        return c;
    return alen == blen ? 0 : alen < blen ? -1 : 1;
}

int
key_groups_default(int parallelism)
{
    int64_t want = ((int64_t)parallelism * 3 + 1) / 2;
    int groups = KEY_GROUPS_MIN;

    while (groups < want && groups < KEY_GROUPS_MAX)
        groups *= 2;
    return groups;
}
