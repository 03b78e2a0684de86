/*
 * Learned layouts: reading a record by the skeleton of an earlier one.
 *
 * A layout is a list of steps. Each compares the literal bytes up to the
 * next value and then reads that value: a scalar of any kind (the expected
 * kind first), or a whole container whose inside varies ("opaque", read by
 * the pass over the tree). Lists and maps of constant shape are part of the
 * literals; columns that want their text take it from the positions of
 * literals. A layout ends behind the last column it decides, or, if columns
 * are missing, at the end of the record.
 *
 * A reader holds the last few layouts, most recent first. Where they rarely
 * fit, it stops trying for a while, each time longer. Where one misses again
 * and again inside the same top-level container, that becomes opaque.
 * @source reference: N. Palkar et al., "Mison", VLDB 2017 (speculation on
 * structure); measured gain in doc/performance.md.
 */
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/mem.h"
#include "core/rec.h"
#include "format/reader_impl.h"

enum {
    LAYOUTS_MAX = 8,
    STEPS_MAX = 256,
    LITERAL_MAX = 8192,    /* bytes of all literals */
    WORD_MAX = 32,         /* longer literals are compared by memcmp */
    LEARN_DEPTH_MAX = 32,  /* deeper records are not learned */
    WINDOW = 1024,         /* records between judgements */
    WINDOW_HITS_MIN = 256, /* fewer hits: give up for a while */
    WINDOW_LEARN_MAX = 64,
    PAUSE_MIN = 4096, /* records */
    PAUSE_MAX = 1 << 20,
    OPAQUE_MAX = 16,
    OPAQUE_NAME_MAX = 64,
    OPAQUE_MISSES = 4,
};

enum step_kind { STEP_STRING, STEP_NUMBER, STEP_WORD, STEP_OPAQUE, STEP_STOP };

struct step {
    const char *lit;   /* padded to WORD_MAX */
    struct node *node; /* of STEP_OPAQUE, or NULL */
    uint32_t lit_len;
    uint32_t mask; /* low min(lit_len, 32) bits */
    int32_t col;   /* or -1 */
    uint8_t kind;
};

/* The top-level container that a step's literal or value is in. */
struct touch {
    uint32_t len; /* 0: none */
    char name[OPAQUE_NAME_MAX];
};

/* A column that is a container: from and to are offsets in literals. */
struct span {
    uint16_t from_step, to_step;
    uint32_t from, to;
    int32_t col;
    uint8_t type;
};

struct layout {
    struct step *steps;
    struct touch *touch; /* of each step */
    struct span *spans;
    int32_t *missing;
    char *lits;
    uint32_t step_count, span_count, missing_count, lits_len;
    bool cut; /* ends before the record does */
};

struct opaque {
    char name[OPAQUE_NAME_MAX];
    uint32_t len, misses;
};

struct layouts {
    struct columns *cols;
    struct layout *lay[LAYOUTS_MAX]; /* most recent first */
    uint32_t count;
    uint32_t tried, hits, learned; /* of this window */
    uint32_t pause, pause_next;
    struct opaque opaque[OPAQUE_MAX];
    uint32_t opaque_count;
    const char *pos[STEPS_MAX]; /* literals of the record in hand */
};

static void
layout_free(struct layout *l)
{
    if (l == NULL)
        return;
    free(l->steps);
    free(l->touch);
    free(l->spans);
    free(l->missing);
    free(l->lits);
    free(l);
}

static struct layout *
layout_new(uint32_t columns)
{
    struct layout *l = mem_zalloc(sizeof *l);

    l->steps = mem_alloc(STEPS_MAX * sizeof *l->steps);
    l->touch = mem_alloc(STEPS_MAX * sizeof *l->touch);
    l->spans = mem_alloc((columns + 1u) * sizeof *l->spans);
    l->missing = mem_alloc((columns + 1u) * sizeof *l->missing);
    l->lits = mem_zalloc(LITERAL_MAX + WORD_MAX);
    return l;
}

struct layouts *
layouts_new(struct columns *c)
{
    struct layouts *l = mem_zalloc(sizeof *l);

    l->cols = c;
    l->pause_next = PAUSE_MIN;
    return l;
}

void
layouts_clear(struct layouts *l)
{
    uint32_t i;

    for (i = 0; i < l->count; i++)
        layout_free(l->lay[i]);
    l->count = 0;
}

void
layouts_free(struct layouts **l)
{
    if (*l == NULL)
        return;
    layouts_clear(*l);
    free(*l);
    *l = NULL;
}

bool
layouts_wanted(struct layouts *l)
{
    if (l->pause > 0) {
        l->pause--;
        return false;
    }
    if (++l->tried > WINDOW) {
        if (l->hits < WINDOW_HITS_MIN) {
            l->pause = l->pause_next;
            if (l->pause_next < PAUSE_MAX)
                l->pause_next *= 2;
            layouts_clear(l);
        } else {
            l->pause_next = PAUSE_MIN;
        }
        l->tried = l->hits = l->learned = 0;
    }
    return true;
}

/* ---- trying ---- */

static inline bool
lit_fits(const struct step *st, const char *p, const char *end)
{
#if defined(__SSE2__)
    /* At most 32 bytes from a position <= end: within the pad. */
    const __m128i *a = (const __m128i *)(const void *)p;
    const __m128i *b = (const __m128i *)(const void *)st->lit;
    uint32_t m = (uint32_t)_mm_movemask_epi8(
        _mm_cmpeq_epi8(_mm_loadu_si128(a), _mm_loadu_si128(b)));

    if (st->lit_len > 16)
        m |= (uint32_t)_mm_movemask_epi8(
                 _mm_cmpeq_epi8(_mm_loadu_si128(a + 1), _mm_loadu_si128(b + 1)))
             << 16;
    if ((m & st->mask) != st->mask)
        return false;
    if (st->lit_len <= WORD_MAX)
        return true;
#endif
    return (size_t)(end - p) >= st->lit_len &&
           memcmp(p, st->lit, st->lit_len) == 0;
}

/* The closing quote of a string without escapes, or NULL. */
static inline const char *
plain_string(const char *p, const char *end)
{
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i slash = _mm_set1_epi8('\\');
    const __m128i ctl = _mm_set1_epi8(0x1f);

    for (; p < end; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i m = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
            _mm_cmpeq_epi8(_mm_min_epu8(x, ctl), x));
        unsigned bits = (unsigned)_mm_movemask_epi8(m);

        if (bits == 0)
            continue;
        p += __builtin_ctz(bits);
        return p < end && *p == '"' ? p : NULL;
    }
    return NULL;
#else
    for (; p < end; p++)
        if (*p == '"')
            return p;
        else if (*p == '\\' || (unsigned char)*p < 0x20)
            return NULL;
    return NULL;
#endif
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

static const uint64_t pow10_int[] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u};
static const double pow10_dbl[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
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

/* Values are stored member by member: a struct built aside and copied by
 * 16 bytes stalls until its narrower stores are done (measured: 15 ns). */
static inline void
set_str(struct val *to, const char *s, uint32_t len)
{
    to->type = VAL_STR;
    to->len = len;
    to->u.s = s;
}

/* An integer of at most 16 digits, or a decimal with up to 8 places whose
 * digits are exact in a double, so that one division rounds correctly.
 * Everything else: NULL. Reads at most 25 bytes. */
static inline const char *
plain_number(const char *p, struct val *ret)
{
    bool neg = *p == '-';
    uint64_t i, more;
    unsigned n, m;
    double d;

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
        d = (double)(int64_t)(i * pow10_int[m] + more) / pow10_dbl[m];
        ret->type = VAL_DBL;
        ret->u.d = neg ? -d : d;
    } else {
        ret->type = VAL_INT;
        ret->u.i = neg ? -(int64_t)i : (int64_t)i;
    }
    return *p == 'e' || *p == 'E' ? NULL : p;
}

#else

static inline const char *
plain_number(const char *p, struct val *ret)
{
    (void)p;
    (void)ret;
    return NULL;
}

#endif

/* A scalar that is not of the expected plain kind. */
static const char *
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

static inline const char *
step_read(struct pass *ps, const struct step *st, const char *p)
{
    const char *q;
    struct val unused;

    switch ((enum step_kind)st->kind) {
    case STEP_STRING:
        q = *p == '"' ? plain_string(p + 1, ps->s.end) : NULL;
        if (q == NULL)
            return any_scalar(ps, st, p);
        if (st->col >= 0)
            set_str(&ps->row[st->col], p + 1, (uint32_t)(q - p - 1));
        return q + 1;
    case STEP_NUMBER:
        q = plain_number(p, st->col >= 0 ? &ps->row[st->col] : &unused);
        return q != NULL ? q : any_scalar(ps, st, p);
    case STEP_WORD:
        return any_scalar(ps, st, p);
    case STEP_OPAQUE:
        return p < ps->s.end ? pass_value(ps, st->node, p, 1) : NULL;
    case STEP_STOP:
        break;
    }
    return p;
}

static bool
is_token_end(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' ||
           c == '\t' || c == '\r';
}

/* @return STEPS_MAX if the layout fits, else the step that did not. */
static uint32_t
layout_fit(const struct layout *l, struct pass *ps, const char *p,
           const char **pos)
{
    const char *end = ps->s.end;
    uint32_t i;

    for (i = 0; i < l->step_count; i++) {
        const struct step *st = &l->steps[i];

        if (!lit_fits(st, p, end))
            return i;
        pos[i] = p;
        p = step_read(ps, st, p + st->lit_len);
        if (p == NULL || p > end)
            return i;
    }
    if (l->cut ? p == end || !is_token_end(*p) : p != end)
        return l->step_count - 1;
    for (i = 0; i < l->span_count; i++) {
        const struct span *sp = &l->spans[i];
        const char *from = pos[sp->from_step] + sp->from;
        const char *to = pos[sp->to_step] + sp->to;

        set_str(&ps->row[sp->col], from, (uint32_t)(to - from));
        ps->row[sp->col].type = sp->type;
    }
    for (i = 0; i < l->missing_count; i++)
        ps->row[l->missing[i]] = val_nil();
    return STEPS_MAX;
}

static struct opaque *
opaque_find(struct layouts *l, const char *name, size_t len)
{
    uint32_t i;

    for (i = 0; i < l->opaque_count; i++)
        if (l->opaque[i].len == len &&
            memcmp(l->opaque[i].name, name, len) == 0)
            return &l->opaque[i];
    return NULL;
}

/* No layout fits; the best one failed in `at`: a varying container? */
static void
note_miss(struct layouts *l, const struct touch *at)
{
    struct opaque *o;

    if (at == NULL || at->len == 0)
        return;
    o = opaque_find(l, at->name, at->len);
    if (o == NULL) {
        if (l->opaque_count == OPAQUE_MAX)
            return;
        o = &l->opaque[l->opaque_count++];
        memcpy(o->name, at->name, at->len);
        o->len = at->len;
        o->misses = 0;
    }
    if (++o->misses == OPAQUE_MISSES)
        layouts_clear(l);
}

bool
layouts_try(struct layouts *l, struct pass *ps, const char *text, size_t len)
{
    const struct touch *best = NULL;
    struct layout *hit;
    uint32_t i, at, furthest = 0;

    (void)len;
    ps->left = UINT32_MAX; /* an opaque step must not stop early */
    for (i = 0; i < l->count; i++) {
        at = layout_fit(l->lay[i], ps, text, l->pos);
        if (at == STEPS_MAX) {
            hit = l->lay[i];
            if (i != 0)
                memmove(l->lay + 1, l->lay, i * sizeof *l->lay);
            l->lay[0] = hit;
            l->hits++;
            return true;
        }
        ps->id++; /* an opaque step may have marked nodes */
        if (best == NULL || at > furthest) {
            furthest = at;
            best = &l->lay[i]->touch[at];
        }
    }
    note_miss(l, best);
    return false;
}

/* ---- learning ---- */

struct learn {
    struct layouts *all;
    struct layout *lay;
    struct scan s;
    uint64_t id;
    uint32_t left;
    const char *lit;   /* end of the last value */
    const char *touch; /* top-level container since then */
    size_t touch_len;
    bool ok;
};

static const char *
learn_stop(struct learn *t)
{
    t->ok = false;
    return NULL;
}

/* Add a step whose literal ends at p. @return p, NULL if there is no room. */
static const char *
add_step(struct learn *t, enum step_kind kind, const char *p, struct node *n)
{
    struct layout *l = t->lay;
    size_t len = (size_t)(p - t->lit);
    struct step *st = &l->steps[l->step_count];

    if (l->step_count == STEPS_MAX - 1 || l->lits_len + len > LITERAL_MAX)
        return learn_stop(t);
    st->kind = (uint8_t)kind;
    st->lit = l->lits + l->lits_len;
    st->lit_len = (uint32_t)len;
    st->mask = len >= 32 ? UINT32_MAX : (1u << len) - 1;
    st->node = n;
    st->col = n != NULL ? n->col : -1;
    l->touch[l->step_count].len = 0;
    if (t->touch != NULL && t->touch_len <= OPAQUE_NAME_MAX) {
        memcpy(l->touch[l->step_count].name, t->touch, t->touch_len);
        l->touch[l->step_count].len = (uint32_t)t->touch_len;
    }
    memcpy(l->lits + l->lits_len, t->lit, len);
    l->lits_len += (uint32_t)len;
    l->step_count++;
    return p;
}

static void
add_missing(struct learn *t, struct node *n, bool self)
{
    uint32_t i;

    if (self && n->col >= 0)
        t->lay->missing[t->lay->missing_count++] = n->col;
    for (i = 0; i < n->count; i++)
        add_missing(t, n->child[i], true);
}

/* A scalar, or a container read as a whole. */
static const char *
learn_leaf(struct learn *t, enum step_kind kind, struct node *n, const char *p)
{
    if (add_step(t, kind, p, n) == NULL)
        return NULL;
    if (n != NULL) {
        if (kind != STEP_OPAQUE)
            add_missing(t, n, false);
        t->left -= n->col_count;
    }
    p = scan_skip(&t->s, p, 1);
    if (p == NULL)
        return learn_stop(t);
    t->lit = p;
    t->touch = NULL;
    return p;
}

static const char *learn_value(struct learn *t, struct node *n, const char *p,
                               unsigned depth);

/* The next child: its node in *ret_node, its value returned. */
static const char *
learn_child(struct learn *t, struct node *n, const char *p, unsigned depth,
            uint32_t index, struct node **ret_node)
{
    struct node *c = NULL;
    struct val name;

    if (index != 0) {
        c = n != NULL ? node_element(n, index) : NULL;
    } else {
        p = scan_name(&t->s, p, &name);
        if (p == NULL)
            return learn_stop(t);
        c = n != NULL ? node_child(n, name.u.s, name.len) : NULL;
        if (depth == 1 && p < t->s.end && (*p == '{' || *p == '[')) {
            t->touch = name.u.s;
            t->touch_len = name.len;
        }
    }
    if (c != NULL && c->seen == t->id)
        c = NULL;
    if (c != NULL)
        c->seen = t->id;
    *ret_node = c;
    return p;
}

static const char *
learn_children(struct learn *t, struct node *n, const char *p, unsigned depth)
{
    char open = *p;
    uint32_t index = 0, i;
    const char *touch = NULL;
    struct node *c;
    bool last;

    if (depth >= LEARN_DEPTH_MAX)
        return learn_stop(t);
    if (depth >= 1)
        touch = t->touch;
    p = scan_first(&t->s, p, open, &last);
    while (!last) {
        index += open == '[';
        p = learn_child(t, n, p, depth + 1, index, &c);
        if (p == NULL)
            return NULL;
        p = learn_value(t, c, p, depth + 1);
        if (p == NULL)
            return NULL;
        if (depth >= 1)
            t->touch = touch;
        p = scan_next(&t->s, p, open, &last);
        if (p == NULL)
            return learn_stop(t);
    }
    for (i = 0; n != NULL && i < n->count; i++)
        if (n->child[i]->seen != t->id) {
            add_missing(t, n->child[i], true);
            t->left -= n->child[i]->col_count;
        }
    return p;
}

static bool
is_opaque(struct learn *t, unsigned depth)
{
    struct opaque *o;

    if (depth != 1 || t->touch == NULL)
        return false;
    o = opaque_find(t->all, t->touch, t->touch_len);
    return o != NULL && o->misses >= OPAQUE_MISSES;
}

static const char *
learn_container(struct learn *t, struct node *n, const char *p, unsigned depth)
{
    struct layout *l = t->lay;
    struct span sp = {0};

    if (is_opaque(t, depth))
        return learn_leaf(t, STEP_OPAQUE, n, p);
    sp.from_step = (uint16_t)l->step_count;
    sp.from = (uint32_t)(p - t->lit);
    sp.type = *p == '{' ? VAL_MAP : VAL_LIST;
    p = learn_children(t, n, p, depth);
    if (p == NULL || n == NULL || n->col < 0)
        return p;
    sp.to_step = (uint16_t)l->step_count;
    sp.to = (uint32_t)(p - t->lit);
    sp.col = n->col;
    l->spans[l->span_count++] = sp;
    t->left--;
    return p;
}

/* @return behind the value; NULL when no column is left (the layout ends
 * here, t->ok) or when the record is not to be learned. */
static const char *
learn_value(struct learn *t, struct node *n, const char *p, unsigned depth)
{
    if (p == t->s.end)
        return learn_stop(t);
    if (*p == '{' || *p == '[')
        p = learn_container(t, n, p, depth);
    else if (*p == '"')
        p = learn_leaf(t, STEP_STRING, n, p);
    else if (*p == '-' || (*p >= '0' && *p <= '9'))
        p = learn_leaf(t, STEP_NUMBER, n, p);
    else
        p = learn_leaf(t, STEP_WORD, n, p);
    if (p == NULL || t->left != 0 || depth == 0)
        return p;
    /* The last column may be the text of a container that ends here. */
    if (p != t->lit && add_step(t, STEP_STOP, p, NULL) == NULL)
        return NULL;
    t->lay->cut = true;
    return NULL;
}

static void
layouts_push(struct layouts *l, struct layout *lay)
{
    if (l->count == LAYOUTS_MAX)
        layout_free(l->lay[--l->count]);
    memmove(l->lay + 1, l->lay, l->count * sizeof *l->lay);
    l->lay[0] = lay;
    l->count++;
}

void
layouts_learn(struct layouts *l, struct pass *ps, const char *text, size_t len)
{
    struct learn t = {.all = l, .left = l->cols->count, .ok = true};
    const char *p;

    if (l->learned >= WINDOW_LEARN_MAX || l->cols->count == 0)
        return;
    l->learned++;
    scan_init(&t.s, text, len, ps->s.ext, ps->s.bigint, ps->s.arena);
    t.id = ++ps->id;
    t.lit = text;
    t.lay = layout_new(l->cols->count);
    p = learn_value(&t, &l->cols->root, text, 0);
    if (p != NULL && (p != t.s.end || p == t.lit ||
                      add_step(&t, STEP_STOP, p, NULL) == NULL))
        t.ok = false;
    if (t.ok && t.lay->step_count > 0)
        layouts_push(l, t.lay);
    else
        layout_free(t.lay);
}
