/*
 * Fitting a record to a layout: the code of layout_fit.c and, with
 * LAYOUT_AVX2 set and the compiler told so, of layout_avx2.c.
 *
 * Positions never pass the end by more than the 32 bytes of a literal's head
 * before they are checked, and what is read from there is at most 32 bytes:
 * REC_PAD covers both. Thread: pure.
 */
#ifndef FORMAT_LAYOUT_BODY_H
#define FORMAT_LAYOUT_BODY_H

#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "format/layout_impl.h"

/* The rare ways stay out of the loops' registers. */
#define NOT_INLINE __attribute__((noinline, cold))
#define INLINE static inline __attribute__((always_inline))

#if defined(LAYOUT_AVX2)

static inline uint32_t
equal_bits(const char *a, const char *b)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(
        _mm256_loadu_si256((const __m256i *)(const void *)a),
        _mm256_loadu_si256((const __m256i *)(const void *)b)));
}

INLINE bool
head_fits(const struct step *st, const char *p)
{
    return (~equal_bits(p, st->head) & st->mask) == 0;
}

/* Bits of the bytes that end a run of plain string bytes. */
enum { SCAN_WIDTH = 32 };
static inline uint32_t
special_bits(const char *p)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i quote = _mm256_cmpeq_epi8(x, _mm256_set1_epi8('"'));
    __m256i slash = _mm256_cmpeq_epi8(x, _mm256_set1_epi8('\\'));
    __m256i ctl =
        _mm256_cmpeq_epi8(_mm256_min_epu8(x, _mm256_set1_epi8(0x1f)), x);

    return (uint32_t)_mm256_movemask_epi8(
        _mm256_or_si256(_mm256_or_si256(quote, slash), ctl));
}

#elif defined(__SSE2__)

static inline uint32_t
equal_bits(const char *a, const char *b)
{
    return (uint32_t)_mm_movemask_epi8(
        _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)a),
                       _mm_loadu_si128((const __m128i *)(const void *)b)));
}

INLINE bool
head_fits(const struct step *st, const char *p)
{
    uint32_t m = equal_bits(p, st->head);

    m |= equal_bits(p + 16, st->head + 16) << 16;
    return (~m & st->mask) == 0;
}

enum { SCAN_WIDTH = 16 };
static inline uint32_t
special_bits(const char *p)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i quote = _mm_cmpeq_epi8(x, _mm_set1_epi8('"'));
    __m128i slash = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));
    __m128i ctl = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);

    return (uint32_t)_mm_movemask_epi8(
        _mm_or_si128(_mm_or_si128(quote, slash), ctl));
}

#else

INLINE bool
head_fits(const struct step *st, const char *p)
{
    size_t n = st->lit_len < HEAD_MAX ? st->lit_len : HEAD_MAX;

    return memcmp(p, st->head, n) == 0;
}

enum { SCAN_WIDTH = 1 };
static inline uint32_t
special_bits(const char *p)
{
    return *p == '"' || *p == '\\' || (unsigned char)*p < 0x20;
}

#endif

/* The closing quote of a string without escapes, or NULL. It may lie behind
 * `end`: the caller looks. */
INLINE const char *
plain_string(const char *p, const char *end)
{
    uint32_t bits = special_bits(p);

    while (bits == 0) {
        p += SCAN_WIDTH;
        if (p >= end)
            return NULL;
        bits = special_bits(p);
    }
    p += __builtin_ctz(bits);
    return *p == '"' ? p : NULL;
}

static const double pow10_dbl[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,
                                   1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16};

/* Values are stored member by member: a struct built aside and copied by
 * 16 bytes stalls until its narrower stores are done (measured: 15 ns). */
static inline void
set_str(struct val *to, const char *s, uint32_t len)
{
    to->type = VAL_STR;
    to->len = len;
    to->u.s = s;
}

static inline void
set_int(struct val *to, uint64_t i, bool neg)
{
    to->type = VAL_INT;
    to->u.i = neg ? -(int64_t)i : (int64_t)i;
}

/* Digits below 2^53 and a power of ten below 10^22: one correctly rounded
 * division. @source W. Clinger, "How to read floating point numbers
 * accurately", PLDI 1990. */
static inline void
set_dbl(struct val *to, uint64_t digits, unsigned places, bool neg)
{
    double d = (double)(int64_t)digits / pow10_dbl[places];

    to->type = VAL_DBL;
    to->u.d = neg ? -d : d;
}

#if defined(LAYOUT_AVX2)

/* Shuffles that move the first n of 16 bytes to the end, zeros before. */
static const char align_end[] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                 -1, -1, -1, -1, -1, 0,  1,  2,  3,  4,  5,
                                 6,  7,  8,  9,  10, 11, 12, 13, 14, 15};
static const char indexes[] = {0, 1, 2,  3,  4,  5,  6,  7,
                               8, 9, 10, 11, 12, 13, 14, 15};

/* The number of 16 digit values, first digit first. */
static inline uint64_t
digits16(__m128i v)
{
    __m128i w =
        _mm_maddubs_epi16(v, _mm_set1_epi16(10 | 1 << 8)); /* pairs: 10 a + b */
    uint64_t x;

    w = _mm_madd_epi16(w, _mm_set1_epi32(100 | 1 << 16));
    w = _mm_packus_epi32(w, w);
    w = _mm_madd_epi16(w, _mm_set1_epi32(10000 | 1 << 16));
    x = (uint64_t)_mm_cvtsi128_si64(w);
    return (x & 0xFFFFFFFFu) * 100000000u + (x >> 32);
}

/* A number of at most 15 bytes without its sign: an integer, or a decimal.
 * Everything else: NULL. */
INLINE const char *
plain_number(const char *p, struct val *ret)
{
    bool neg = *p == '-';
    __m128i v, before;
    uint32_t other;
    unsigned n, all;

    p += neg;
    v = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(const void *)p),
                     _mm_set1_epi8('0'));
    other = (uint32_t)_mm_movemask_epi8(
        _mm_cmpgt_epi8(_mm_xor_si128(v, _mm_set1_epi8((char)0x80)),
                       _mm_set1_epi8((char)(0x80 + 9))));
    if (other == 0)
        return NULL;
    n = (unsigned)__builtin_ctz(other);
    if (n == 0 || (*p == '0' && n > 1) || (p[n] | 32) == 'e')
        return NULL;
    if (p[n] != '.') {
        v = _mm_shuffle_epi8(
            v, _mm_loadu_si128((const __m128i *)(const void *)(align_end + n)));
        set_int(ret, digits16(v), neg);
        return p + n;
    }
    other &= other - 1;
    if (other == 0)
        return NULL;
    all = (unsigned)__builtin_ctz(other);
    if (all == n + 1 || (p[all] | 32) == 'e')
        return NULL;
    /* Close the gap: bytes behind the dot move up by one. */
    before =
        _mm_cmpgt_epi8(_mm_set1_epi8((char)n),
                       _mm_loadu_si128((const __m128i *)(const void *)indexes));
    v = _mm_or_si128(_mm_and_si128(before, v),
                     _mm_andnot_si128(before, _mm_srli_si128(v, 1)));
    v = _mm_shuffle_epi8(
        v,
        _mm_loadu_si128((const __m128i *)(const void *)(align_end + all - 1)));
    set_dbl(ret, digits16(v), all - n - 1, neg);
    return p + all;
}

#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

static const uint64_t pow10_int[] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u};
/* An integer part below this keeps the digits below 2^53 with m places. */
static const uint64_t dbl_limit[] = {
    9007199254740991u, 900719925474099u, 90071992547409u,
    9007199254740u,    900719925474u,    90071992547u,
    9007199254u,       900719925u,       90071992u};

/* Up to eight leading digits at p: their count and value. */
static inline unsigned
digits8(const char *p, uint64_t *ret)
{
    uint64_t w, over;
    unsigned n;

    memcpy(&w, p, sizeof w);
    w ^= 0x3030303030303030u;
    over = ((w + 0x7676767676767676u) | w) & 0x8080808080808080u;
    n = over != 0 ? (unsigned)__builtin_ctzll(over) / 8 : 8;
    if (n == 0) {
        *ret = 0;
        return 0;
    }
    /* First digit to the lowest byte that is left, zeros below it. */
    w <<= 64 - 8 * n;
    w = w * 10 + (w >> 8);
    w = ((w & 0x000000FF000000FFu) * 0x000F424000000064u +
         (w >> 16 & 0x000000FF000000FFu) * 0x0000271000000001u) >>
        32;
    *ret = w & 0xFFFFFFFFu;
    return n;
}

/* An integer of at most 16 digits, or a decimal with up to 8 places whose
 * digits are exact in a double. Everything else: NULL. */
INLINE const char *
plain_number(const char *p, struct val *ret)
{
    bool neg = *p == '-';
    uint64_t i, more;
    unsigned n, m;

    p += neg;
    n = digits8(p, &i);
    if (n == 0 || (*p == '0' && n > 1))
        return NULL;
    p += n;
    if (n == 8) {
        m = digits8(p, &more);
        i = i * pow10_int[m] + more;
        p += m;
        if (m == 8 && *p >= '0' && *p <= '9')
            return NULL;
    }
    if (*p == '.') {
        m = digits8(p + 1, &more);
        p += 1 + m;
        if (m == 0 || (m == 8 && *p >= '0' && *p <= '9') || i >= dbl_limit[m])
            return NULL;
        set_dbl(ret, i * pow10_int[m] + more, m, neg);
    } else {
        set_int(ret, i, neg);
    }
    return (*p | 32) == 'e' ? NULL : p;
}

#else

INLINE const char *
plain_number(const char *p, struct val *ret)
{
    (void)p;
    (void)ret;
    return NULL;
}

#endif

/* A scalar that is not of the expected plain kind. */
NOT_INLINE static const char *
any_scalar(struct pass *ps, const struct step *st, const char *p)
{
    struct val v;

    if (p >= ps->s.end || *p == '{' || *p == '[')
        return NULL;
    p = st->col >= 0 ? scan_value(&ps->s, p, 1, &v) : scan_skip(&ps->s, p, 1);
    if (p != NULL && st->col >= 0)
        ps->row[st->col] = v;
    return p;
}

/* The literal as a whole does not fit: does it but for a string's quote? */
NOT_INLINE static const char *
step_otherwise(struct pass *ps, const struct step *st, const char *p)
{
    size_t len = st->lit_len - 1u, head = len < HEAD_MAX ? len : HEAD_MAX;

    if (st->kind != STEP_STRING || (size_t)(ps->s.end - p) <= len ||
        memcmp(p, st->head, head) != 0 ||
        memcmp(p + head, st->rest, len - head) != 0)
        return NULL;
    return any_scalar(ps, st, p + len);
}

/* The value of a step that is expected to be a string, behind its quote. */
INLINE const char *
read_string(struct pass *ps, const struct step *st, const char *p)
{
    const char *q = plain_string(p, ps->s.end);

    if (q == NULL)
        return any_scalar(ps, st, p - 1);
    if (st->col >= 0)
        set_str(&ps->row[st->col], p, (uint32_t)(q - p));
    return q + 1;
}

INLINE const char *
read_number(struct pass *ps, const struct step *st, const char *p)
{
    struct val unused;
    const char *q = plain_number(p, st->col >= 0 ? &ps->row[st->col] : &unused);

    return q != NULL ? q : any_scalar(ps, st, p);
}

static inline const char *
read_other(struct pass *ps, const struct step *st, const char *p)
{
    if (st->kind == STEP_WORD)
        return any_scalar(ps, st, p);
    if (st->kind == STEP_OPAQUE)
        return p < ps->s.end ? pass_value(ps, st->node, p, 1) : NULL;
    return p;
}

/* What follows the literal at p. Most steps are strings, then numbers; two
 * well predicted branches cost less than a jump table. */
static inline const char *
step_read(struct pass *ps, const struct step *st, const char *p)
{
    if (st->kind == STEP_STRING)
        return read_string(ps, st, p);
    if (st->kind == STEP_NUMBER)
        return read_number(ps, st, p);
    return read_other(ps, st, p);
}

static inline bool
rest_fits(const struct step *st, const char *p, const char *end)
{
    return st->lit_len <= HEAD_MAX ||
           ((size_t)(end - p) >= st->lit_len &&
            memcmp(p + HEAD_MAX, st->rest, st->lit_len - HEAD_MAX) == 0);
}

static inline bool
is_token_end(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' ||
           c == '\t' || c == '\r';
}

static void
set_spans(const struct layout *l, struct pass *ps, const char **pos)
{
    uint32_t i;

    for (i = 0; i < l->span_count; i++) {
        const struct span *sp = &l->spans[i];
        const char *from = pos[sp->from_step] + sp->from;
        const char *to = pos[sp->to_step] + sp->to;

        set_str(&ps->row[sp->col], from, (uint32_t)(to - from));
        ps->row[sp->col].type = sp->type;
    }
    for (i = 0; i < l->missing_count; i++)
        ps->row[l->missing[i]] = val_nil();
}

/* NULL, or behind the end. */
static inline bool
is_behind(const char *p, const char *end)
{
    return (uintptr_t)p - 1 >= (uintptr_t)end;
}

static inline bool
ends_well(const struct layout *l, const char *p, const char *end)
{
    return l->cut ? p < end && is_token_end(*p) : p == end;
}

static inline uint32_t
fit_body(const struct layout *l, struct pass *ps, const char *p,
         const char **pos)
{
    const char *end = ps->s.end;
    const struct step *st = l->steps, *last = st + l->step_count;

    for (; st < last; st++, pos++) {
        *pos = p;
        if (head_fits(st, p) && rest_fits(st, p, end))
            p = step_read(ps, st, p + st->lit_len);
        else
            p = step_otherwise(ps, st, p);
        if (is_behind(p, end))
            return (uint32_t)(st - l->steps);
    }
    if (!ends_well(l, p, end))
        return l->step_count - 1;
    if ((l->span_count | l->missing_count) != 0)
        set_spans(l, ps, pos - l->step_count);
    return STEPS_MAX;
}

/* Where one record waits for the end of a string, the other goes on. */
static inline bool
pair_body(const struct layout *l, struct pass *a, struct pass *b)
{
    const char *p = a->s.start, *pend = a->s.end;
    const char *q = b->s.start, *qend = b->s.end;
    const struct step *st = l->steps, *last = st + l->step_count;
    const char *ppos[STEPS_MAX], *qpos[STEPS_MAX];
    uint32_t i = 0;

    for (; st < last; st++, i++) {
        ppos[i] = p;
        qpos[i] = q;
        if (!head_fits(st, p) || !head_fits(st, q))
            return false;
        if (st->lit_len > HEAD_MAX &&
            (!rest_fits(st, p, pend) || !rest_fits(st, q, qend)))
            return false;
        if (st->kind == STEP_STRING) {
            p = read_string(a, st, p + st->lit_len);
            q = read_string(b, st, q + st->lit_len);
        } else if (st->kind == STEP_NUMBER) {
            p = read_number(a, st, p + st->lit_len);
            q = read_number(b, st, q + st->lit_len);
        } else {
            p = read_other(a, st, p + st->lit_len);
            q = read_other(b, st, q + st->lit_len);
        }
        if (is_behind(p, pend) || is_behind(q, qend))
            return false;
    }
    if (!ends_well(l, p, pend) || !ends_well(l, q, qend))
        return false;
    if ((l->span_count | l->missing_count) != 0) {
        set_spans(l, a, ppos);
        set_spans(l, b, qpos);
    }
    return true;
}

#endif
