#include "testing/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/test.h"
#include "testing/value.h"

/* Above this many pairs of rows no better matching is looked for than the
 * first that fits: its table would be too large. */
enum { PAIRS_MAX = 16 << 20, NEAR_MAX = 200 };

static const size_t none = (size_t)-1;

struct compare {
    const struct compare_conf *conf;
    const struct opt **want, **got;
    size_t want_count, got_count;
    size_t *match_want;  /* index in got, or none */
    size_t *match_got;   /* index in want, or none */
    unsigned char *fits; /* want x got: 0 not known, 1 no, 2 yes; or NULL */
    unsigned char *seen; /* by got, in one search */
};

static const struct opt **
list_items(const struct opt *list, size_t *ret_count)
{
    const struct opt **items = mem_alloc((list->len + 1) * sizeof *items);
    const struct opt *c;
    size_t n = 0;

    for (c = list->first; c != NULL; c = c->next)
        items[n++] = c;
    *ret_count = n;
    return items;
}

static size_t *
new_matches(size_t count)
{
    size_t *m = mem_alloc((count + 1) * sizeof *m), i;

    for (i = 0; i < count; i++)
        m[i] = none;
    return m;
}

static bool
fits(struct compare *c, size_t w, size_t g)
{
    unsigned char *at = c->fits == NULL ? NULL : &c->fits[w * c->got_count + g];

    if (at != NULL && *at != 0)
        return *at == 2;
    if (value_equal(c->want[w], c->got[g], c->conf->subset)) {
        if (at != NULL)
            *at = 2;
        return true;
    }
    if (at != NULL)
        *at = 1;
    return false;
}

static void
join(struct compare *c, size_t w, size_t g)
{
    c->match_want[w] = g;
    c->match_got[g] = w;
}

/* Kuhn's algorithm: find `w` a partner, moving others if need be. */
static bool
augment(struct compare *c, size_t w)
{
    size_t g;

    for (g = 0; g < c->got_count; g++) {
        if (c->seen[g] != 0 || !fits(c, w, g))
            continue;
        c->seen[g] = 1;
        if (c->match_got[g] == none || augment(c, c->match_got[g])) {
            join(c, w, g);
            return true;
        }
    }
    return false;
}

/* Rows without marks are equal or not, so the first fit is as good as any. */
static bool
first_fit_is_best(const struct compare *c)
{
    size_t w;

    if (c->conf->subset)
        return false;
    for (w = 0; w < c->want_count; w++)
        if (value_has_mark(c->want[w]))
            return false;
    return true;
}

static void
match_any_order(struct compare *c)
{
    size_t w, g;

    for (w = 0; w < c->want_count; w++) {
        if (w < c->got_count && c->match_got[w] == none && fits(c, w, w)) {
            join(c, w, w);
            continue;
        }
        for (g = 0; g < c->got_count; g++) {
            if (c->match_got[g] == none && fits(c, w, g)) {
                join(c, w, g);
                break;
            }
        }
    }
    if (c->fits == NULL || first_fit_is_best(c))
        return;
    for (w = 0; w < c->want_count; w++) {
        if (c->match_want[w] != none)
            continue;
        memset(c->seen, 0, c->got_count);
        (void)augment(c, w);
    }
}

/* In order: equal rows at the begin and at the end. */
static void
match_ordered(struct compare *c)
{
    size_t n = c->want_count < c->got_count ? c->want_count : c->got_count;
    size_t i, back;

    for (i = 0; i < n && fits(c, i, i); i++)
        join(c, i, i);
    for (back = 1;
         back + i <= n && fits(c, c->want_count - back, c->got_count - back);
         back++)
        join(c, c->want_count - back, c->got_count - back);
}

/* ---- what differs ---- */

static bool
is_tombstone(const struct opt *row)
{
    return row->type == OPT_FUNC && row->i == TEST_TOMBSTONE;
}

/* The fields of a row; those of a tombstone. What is no row has none. */
static const struct opt *
fields_of(const struct opt *row)
{
    static const struct opt no_fields = {.type = OPT_MAP};

    if (is_tombstone(row))
        row = row->first;
    return row->type == OPT_MAP ? row : &no_fields;
}

/* Number of fields in which they are the same, and in which not. */
static void
count_fields(const struct compare *c, size_t w, size_t g, size_t *ret_same,
             size_t *ret_other)
{
    const struct opt *a = fields_of(c->want[w]), *b = fields_of(c->got[g]);
    const struct opt *f, *o;

    *ret_same = *ret_other = 0;
    for (f = a->first; f != NULL; f = f->next) {
        o = opt_get(b, f->name);
        if (o != NULL && value_equal(f, o, false))
            ++*ret_same;
        else
            ++*ret_other;
    }
    for (f = b->first; f != NULL && !c->conf->subset; f = f->next)
        *ret_other += opt_get(a, f->name) == NULL;
}

/* The unmatched row nearest to wanted row `w`: least differences, at least
 * one field the same. */
static size_t
nearest(const struct compare *c, size_t w)
{
    size_t g, best = none, least = 0, same, other, tried = 0;

    for (g = 0; g < c->got_count && tried < NEAR_MAX; g++) {
        if (c->match_got[g] != none)
            continue;
        tried++;
        count_fields(c, w, g, &same, &other);
        if (same > 0 && (best == none || other < least)) {
            best = g;
            least = other;
        }
    }
    return best;
}

static void
put_row(struct buf *out, char sign, const struct opt *row)
{
    buf_addc(out, sign);
    buf_addc(out, ' ');
    value_put(out, row);
    buf_addc(out, '\n');
}

static const char *
number_word(const struct opt *a, const struct opt *b)
{
    if ((a->type == OPT_INT && b->type == OPT_DBL) ||
        (a->type == OPT_DBL && b->type == OPT_INT))
        return a->type == OPT_INT ? " (integer)" : " (float)";
    return "";
}

static void
put_field(struct buf *out, const char *name, const struct opt *want,
          const struct opt *got)
{
    buf_addf(out, "    %s: ", name);
    if (want == NULL) {
        buf_adds(out, "not expected");
    } else {
        buf_adds(out, "expected ");
        value_put(out, want);
        if (got != NULL)
            buf_adds(out, number_word(want, got));
    }
    if (got == NULL) {
        buf_adds(out, ", it is missing\n");
        return;
    }
    buf_adds(out, ", got ");
    value_put(out, got);
    if (want != NULL)
        buf_adds(out, number_word(got, want));
    buf_addc(out, '\n');
}

static void
put_pair(const struct compare *c, size_t w, size_t g, struct buf *out)
{
    const struct opt *a = fields_of(c->want[w]), *b = fields_of(c->got[g]);
    bool want_one = is_tombstone(c->want[w]), got_one = is_tombstone(c->got[g]);
    const struct opt *f, *o;

    put_row(out, '-', c->want[w]);
    put_row(out, '+', c->got[g]);
    if (want_one != got_one)
        buf_addf(out, "    expected %s tombstone, got %s\n",
                 want_one ? "a" : "no", want_one ? "a row" : "one");
    for (f = a->first; f != NULL; f = f->next) {
        o = opt_get(b, f->name);
        if (o == NULL || !value_equal(f, o, false))
            put_field(out, f->name, f, o);
    }
    for (f = b->first; f != NULL && !c->conf->subset; f = f->next)
        if (opt_get(a, f->name) == NULL)
            put_field(out, f->name, NULL, f);
}

/* Tell one difference, unless enough were told; counts it. */
static bool
is_shown(size_t *told)
{
    return ++*told <= COMPARE_SHOWN;
}

static void
put_differences(struct compare *c, struct buf *out)
{
    size_t w, g, told = 0;

    for (w = 0; w < c->want_count; w++) {
        if (c->match_want[w] != none)
            continue;
        g = c->conf->ordered ? w : nearest(c, w);
        if (g != none && g < c->got_count && c->match_got[g] == none) {
            if (is_shown(&told))
                put_pair(c, w, g, out);
            join(c, w, g);
        } else if (is_shown(&told)) {
            put_row(out, '-', c->want[w]);
        }
    }
    for (g = 0; g < c->got_count; g++)
        if (c->match_got[g] == none && is_shown(&told))
            put_row(out, '+', c->got[g]);
    if (told > COMPARE_SHOWN)
        buf_addf(out, "... and %zu more\n", told - COMPARE_SHOWN);
}

static size_t
count_unmatched(const size_t *match, size_t count)
{
    size_t i, n = 0;

    for (i = 0; i < count; i++)
        n += match[i] == none;
    return n;
}

/* Whether only the order differs. */
static bool
is_reordered(struct compare *c)
{
    const struct compare_conf any = {.subset = c->conf->subset};
    const struct compare_conf *own = c->conf;
    size_t *want = c->match_want, *got = c->match_got, left;

    c->conf = &any;
    c->match_want = new_matches(c->want_count);
    c->match_got = new_matches(c->got_count);
    match_any_order(c);
    left = count_unmatched(c->match_want, c->want_count) +
           count_unmatched(c->match_got, c->got_count);
    free(c->match_want);
    free(c->match_got);
    c->match_want = want;
    c->match_got = got;
    c->conf = own;
    return left == 0;
}

bool
compare_rows(const struct opt *want, const struct opt *got,
             const struct compare_conf *conf, struct buf *out)
{
    struct compare c = {.conf = conf};
    size_t missing, more;

    c.want = list_items(want, &c.want_count);
    c.got = list_items(got, &c.got_count);
    c.match_want = new_matches(c.want_count);
    c.match_got = new_matches(c.got_count);
    c.seen = mem_zalloc(c.got_count + 1);
    if (c.want_count == 0 || c.got_count <= PAIRS_MAX / c.want_count)
        c.fits = mem_zalloc(c.want_count * c.got_count + 1);
    if (conf->ordered)
        match_ordered(&c);
    else
        match_any_order(&c);
    missing = count_unmatched(c.match_want, c.want_count);
    more = count_unmatched(c.match_got, c.got_count);
    if (missing + more > 0) {
        if (conf->ordered && is_reordered(&c))
            buf_adds(out, "the rows are there, in another order\n");
        else
            buf_addf(out, "%zu of %zu rows missing, %zu unexpected\n", missing,
                     c.want_count, more);
        put_differences(&c, out);
    }
    free(c.want);
    free(c.got);
    free(c.match_want);
    free(c.match_got);
    free(c.seen);
    free(c.fits);
    return missing + more == 0;
}
