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

#include "base/mem.h"
#include "core/rec.h"
#include "format/layout_impl.h"

enum {
    LAYOUTS_MAX = 8,
    LEARN_DEPTH_MAX = 32, /* deeper records are not learned */
    WINDOW = 1024,        /* records between judgements: a quarter must fit */
    WINDOW_LEARN_MAX = 64,
    PAUSE_MIN = 4096, /* records */
    PAUSE_MAX = 1 << 20,
    SINGLE = 16, /* records taken alone after a pair that did not fit */
    OPAQUE_MAX = 16,
    OPAQUE_MISSES = 4,
};

struct opaque {
    char name[TOUCH_NAME_MAX];
    uint32_t len, misses;
};

struct layouts {
    layout_fit_f *fit;
    layout_pair_f *pair;
    uint32_t single; /* records until pairs are tried again */
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
    l->lits = mem_alloc(LITERAL_MAX);
    return l;
}

void
layouts_set_wide(struct layouts *l, bool wide)
{
    l->fit = layout_fit;
    l->pair = layout_pair;
#if defined(__x86_64__)
    if (wide && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
        l->fit = layout_fit_avx2;
        l->pair = layout_pair_avx2;
    }
#else
    (void)wide;
#endif
}

struct layouts *
layouts_new(struct columns *c)
{
    struct layouts *l = mem_zalloc(sizeof *l);

    l->cols = c;
    layouts_set_wide(l, true);
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
layouts_wanted(struct layouts *l, uint32_t records)
{
    if (l->pause > 0) {
        l->pause = l->pause > records ? l->pause - records : 0;
        return false;
    }
    if (l->tried >= WINDOW) {
        if (l->hits < l->tried / 4) {
            l->pause = l->pause_next;
            if (l->pause_next < PAUSE_MAX)
                l->pause_next *= 2;
            layouts_clear(l);
        } else {
            l->pause_next = PAUSE_MIN;
        }
        l->tried = l->hits = l->learned = 0;
    }
    l->tried += records;
    return l->pause == 0;
}

/* ---- trying ---- */

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
        at = l->fit(l->lay[i], ps, text, l->pos);
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

bool
layouts_try_pair(struct layouts *l, struct pass *a, struct pass *b)
{
    const struct layout *first = l->lay[0];

    if (l->count == 0 || first->has_opaque)
        return false;
    if (l->single > 0) {
        l->single -= 2;
        return false;
    }
    if (!l->pair(first, a, b)) {
        l->single = SINGLE;
        return false;
    }
    l->hits += 2;
    return true;
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
    size_t len = (size_t)(p - t->lit) + (kind == STEP_STRING);
    size_t head = len < HEAD_MAX ? len : HEAD_MAX;
    struct step *st = &l->steps[l->step_count];
    struct touch *touch = &l->touch[l->step_count];

    if (l->step_count == STEPS_MAX - 1 || l->lits_len + len > LITERAL_MAX)
        return learn_stop(t);
    memset(st, 0, sizeof *st);
    st->kind = (uint8_t)kind;
    st->lit_len = (uint32_t)len;
    st->mask = len >= HEAD_MAX ? UINT32_MAX : (1u << len) - 1;
    st->node = n;
    l->has_opaque |= kind == STEP_OPAQUE;
    st->col = n != NULL ? n->col : -1;
    memcpy(st->head, t->lit, head);
    st->rest = l->lits + l->lits_len;
    memcpy(l->lits + l->lits_len, t->lit + head, len - head);
    l->lits_len += (uint32_t)(len - head);
    touch->len = 0;
    if (t->touch != NULL && t->touch_len <= TOUCH_NAME_MAX) {
        memcpy(touch->name, t->touch, t->touch_len);
        touch->len = (uint32_t)t->touch_len;
    }
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
