#include "connect/gen.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "format/json.h"

/* 2^-53 as the draw of a double in [0, 1) needs it. */
#define UNIT 0x1p-53

enum { GUIDE_BITS_MAX = 16 };

enum gen_kind {
    GEN_SEQUENCE_INT,
    GEN_SEQUENCE_DBL,
    GEN_CYCLE,
    GEN_INT,
    GEN_FLOAT,
    GEN_CHOICE,
    GEN_ZIPF,
    GEN_HEX,
    GEN_CONST,
    GEN_FUNC
};

struct gen_text { /* a piece of JSON made ahead */
    uint32_t pos, len;
};

/* Ranks 1...n by their running sum; guide[j] is the smallest rank whose sum
 * reaches j / 2^bits of the whole, so a draw is searched in a short range. */
struct gen_zipf {
    double *sums; /* sums[k - 1] = H(k) */
    uint32_t *guide;
    uint32_t n;
    unsigned bits;
};

struct gen_field {
    enum gen_kind kind;
    bool ext;             /* texts are extended JSON */
    struct gen_text lead; /* `,"name":` */
    struct gen_text *values;
    uint64_t value_count; /* of values; span of an int, 0 = 2^64 */
    struct gen_zipf zipf;
    int64_t from, step;    /* int, sequence */
    double from_d, step_d; /* float: a and b - a */
    uint32_t hex_len;
    int func;
};

struct gen {
    uint64_t seed_drawn; /* M(seed) */
    struct gen_field *fields;
    uint32_t count;
    size_t size_max;
    struct buf texts;
};

/* Extended JSON in a constant: numbers that are none, strings of any bytes. */
static bool
opt_is_ext(const struct opt *o)
{
    const struct opt *c;

    if (o->type == OPT_DBL)
        return !isfinite(o->d);
    if (o->type == OPT_STR)
        return !json_utf8_ok(o->s, o->len);
    for (c = o->first; c != NULL; c = c->next) {
        if (c->name != NULL && !json_utf8_ok(c->name, strlen(c->name)))
            return true;
        if (opt_is_ext(c))
            return true;
    }
    return false;
}

static struct gen_text
text_end(const struct gen *g, size_t pos)
{
    return (struct gen_text){(uint32_t)pos, (uint32_t)(g->texts.len - pos)};
}

static struct gen_text
add_value(struct gen *g, struct gen_field *f, const struct opt *o)
{
    size_t pos = g->texts.len;

    opt_put_json(&g->texts, o);
    f->ext = f->ext || (o != NULL && opt_is_ext(o));
    return text_end(g, pos);
}

static int
read_values(struct gen *g, struct gen_field *f, const struct opt *o,
            struct err *e)
{
    const struct opt *list = opt_get(o, "values");
    const struct opt *c = list != NULL ? list->first : NULL;
    size_t i, longest = 0;

    if (c == NULL)
        return err_set(e, ERR_JOBFILE, "the list of values is empty");
    f->value_count = list->len;
    f->values = mem_zalloc(list->len * sizeof *f->values);
    for (i = 0; c != NULL; c = c->next, i++) {
        f->values[i] = add_value(g, f, c);
        if (f->values[i].len > longest)
            longest = f->values[i].len;
    }
    g->size_max += longest;
    return 0;
}

/* A whole number, which Lua may have held as a float. */
static int64_t
whole(const struct opt *o, const char *name, int64_t dflt)
{
    const struct opt *c = opt_get(o, name);

    if (c != NULL && c->type == OPT_DBL && fabs(c->d) < 0x1p63)
        return (int64_t)c->d;
    return opt_int(o, name, dflt);
}

static int
read_sequence(struct gen_field *f, const struct opt *o, const char *from,
              int64_t step)
{
    const struct opt *a = opt_get(o, from), *b = opt_get(o, "step");
    bool dbl =
        (a != NULL && a->type == OPT_DBL) || (b != NULL && b->type == OPT_DBL);

    f->kind = dbl ? GEN_SEQUENCE_DBL : GEN_SEQUENCE_INT;
    f->from = opt_int(o, from, 0);
    f->step = opt_int(o, "step", step);
    f->from_d = opt_dbl(o, from, 0);
    f->step_d = opt_dbl(o, "step", (double)step);
    return 0;
}

static int
read_range(struct gen_field *f, const struct opt *o, bool dbl, struct err *e)
{
    double a = opt_dbl(o, "a", 0), b = opt_dbl(o, "b", 1);

    if (!dbl && !(a <= b))
        return err_set(e, ERR_JOBFILE, "the range %g to %g is empty", a, b);
    f->kind = dbl ? GEN_FLOAT : GEN_INT;
    f->from_d = a;
    f->step_d = b - a;
    f->from = whole(o, "a", 0);
    f->value_count = (uint64_t)whole(o, "b", 1) - (uint64_t)f->from + 1;
    return 0;
}

/* Smallest k in [lo, hi] with H(k) >= t; hi is known to do. */
static uint32_t
zipf_search(const struct gen_zipf *z, double t, uint32_t lo, uint32_t hi)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (z->sums[mid - 1] >= t)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static int
read_zipf(struct gen_field *f, const struct opt *o, struct err *e)
{
    int64_t k, n = whole(o, "n", 0);
    double sum = 0, exponent = opt_dbl(o, "exponent", 1);
    struct gen_zipf *z = &f->zipf;
    uint32_t j;

    if (n < 1 || n > GEN_ZIPF_MAX)
        return err_set(e, ERR_JOBFILE, "zipf: n must be 1 to %d",
                       (int)GEN_ZIPF_MAX);
    z->n = (uint32_t)n;
    z->sums = mem_alloc((size_t)n * sizeof *z->sums);
    for (k = 1; k <= n; k++)
        z->sums[k - 1] = sum += pow((double)k, -exponent);
    if (!isfinite(sum))
        return err_set(e, ERR_JOBFILE,
                       "zipf: exponent %g over %d ranks has no finite sum",
                       exponent, (int)n);
    while (z->bits < GUIDE_BITS_MAX && (1u << z->bits) < z->n)
        z->bits++;
    z->guide = mem_alloc(((1u << z->bits) + 1u) * sizeof *z->guide);
    for (j = 0; j <= 1u << z->bits; j++) {
        double t = ldexp((double)j, -(int)z->bits) * sum;

        z->guide[j] = zipf_search(z, t, 1, z->n);
    }
    f->kind = GEN_ZIPF;
    return 0;
}

static int
read_hex(struct gen *g, struct gen_field *f, const struct opt *o, struct err *e)
{
    int64_t len = whole(o, "len", 16);

    if (len < 0 || len > GEN_HEX_MAX)
        return err_set(e, ERR_JOBFILE, "hex: the length must be 0 to %d",
                       (int)GEN_HEX_MAX);
    f->kind = GEN_HEX;
    f->hex_len = (uint32_t)len;
    g->size_max += (size_t)len;
    return 0;
}

static int
read_gen(struct gen *g, struct gen_field *f, const struct opt *o, struct err *e)
{
    const char *kind = opt_str(o, "kind", "");

    if (strcmp(kind, "sequence") == 0)
        return read_sequence(f, o, "from", 1);
    if (strcmp(kind, "time") == 0)
        return read_sequence(f, o, "start", 1);
    if (strcmp(kind, "int") == 0 || strcmp(kind, "float") == 0)
        return read_range(f, o, *kind == 'f', e);
    if (strcmp(kind, "zipf") == 0)
        return read_zipf(f, o, e);
    if (strcmp(kind, "hex") == 0)
        return read_hex(g, f, o, e);
    if (strcmp(kind, "cycle") == 0 || strcmp(kind, "choice") == 0) {
        f->kind = kind[1] == 'y' ? GEN_CYCLE : GEN_CHOICE;
        return read_values(g, f, o, e);
    }
    if (strcmp(kind, "func") == 0) {
        f->kind = GEN_FUNC;
        f->func = opt_func(o, "func");
        return 0;
    }
    if (strcmp(kind, "const") != 0)
        return err_set(e, ERR_JOBFILE, "unknown generator \"%s\"", kind);
    f->kind = GEN_CONST;
    f->values = mem_zalloc(sizeof *f->values);
    f->values[0] = add_value(g, f, opt_get(o, "value"));
    g->size_max += f->values[0].len;
    return 0;
}

static int
read_field(struct gen *g, struct gen_field *f, const struct opt *o,
           struct err *e)
{
    const struct opt *name = opt_get(o, "name");
    size_t pos = g->texts.len;
    int r;

    assert(name != NULL && name->type == OPT_STR);
    f->ext = !json_utf8_ok(name->s, name->len);
    buf_addc(&g->texts, ',');
    json_put_str(&g->texts, name->s, name->len);
    buf_addc(&g->texts, ':');
    f->lead = text_end(g, pos);
    g->size_max += f->lead.len + NUM_TEXT_MAX;
    r = read_gen(g, f, opt_get(o, "gen"), e);
    if (r < 0)
        (void)err_context(e, "field %s", name->s);
    return r;
}

static int
by_name(const void *a, const void *b)
{
    const struct opt *x = opt_get(*(const struct opt *const *)a, "name");
    const struct opt *y = opt_get(*(const struct opt *const *)b, "name");
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);

    return c != 0 ? c : (x->len > y->len) - (x->len < y->len);
}

int
gen_new(const struct opt *fields, uint64_t seed, struct gen **ret,
        struct err *e)
{
    size_t i, n = fields != NULL ? fields->len : 0;
    struct gen *g = mem_zalloc(sizeof *g);
    const struct opt **sorted = mem_alloc((n + 1) * sizeof(void *));
    int r = 0;

    g->seed_drawn = hash_splitmix(seed);
    g->fields = mem_zalloc((n + 1) * sizeof *g->fields);
    g->size_max = 8;
    for (i = 0; i < n; i++)
        sorted[i] = i == 0 ? fields->first : sorted[i - 1]->next;
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, by_name);
    for (i = 0; i < n && r == 0; i++) {
        g->count++;
        r = read_field(g, &g->fields[i], sorted[i], e);
    }
    free(sorted);
    if (r < 0) {
        gen_free(&g);
        return r;
    }
    *ret = g;
    return 0;
}

void
gen_free(struct gen **g)
{
    uint32_t i;

    if (*g == NULL)
        return;
    for (i = 0; i < (*g)->count; i++) {
        free((*g)->fields[i].values);
        free((*g)->fields[i].zipf.sums);
        free((*g)->fields[i].zipf.guide);
    }
    free((*g)->fields);
    buf_fini(&(*g)->texts);
    free(*g);
    *g = NULL;
}

size_t
gen_size_max(const struct gen *g)
{
    return g->size_max;
}

static uint32_t
draw_zipf(const struct gen_zipf *z, uint64_t u)
{
    double t = (double)(u >> 11) * UNIT * z->sums[z->n - 1];
    uint64_t j = z->bits == 0 ? 0 : u >> (64 - z->bits);

    return zipf_search(z, t, z->guide[j], z->guide[j + 1]);
}

static char *
put_hex(char *p, uint32_t len, uint64_t u)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t i;

    *p++ = '"';
    for (i = 0; i < len; i++) {
        if (i != 0 && i % 16 == 0)
            u = hash_splitmix(u);
        *p++ = digits[u >> (60 - 4 * (i % 16)) & 15];
    }
    *p++ = '"';
    return p;
}

static char *
put_text(char *p, const struct gen *g, struct gen_text t)
{
    memcpy(p, g->texts.data + t.pos, t.len);
    return p + t.len;
}

static char *
put_double(char *p, double d, bool *ext)
{
    if (!isfinite(d))
        *ext = true;
    return p + num_text_double(d, p);
}

/* Write the value of a field that is no function. */
static char *
put_value(char *p, const struct gen *g, const struct gen_field *f, uint64_t i,
          uint64_t u, bool *ext)
{
    switch (f->kind) {
    case GEN_SEQUENCE_INT:
        u = (uint64_t)f->from + i * (uint64_t)f->step;
        return p + num_text_int((int64_t)u, p);
    case GEN_SEQUENCE_DBL:
        return put_double(p, f->from_d + (double)i * f->step_d, ext);
    case GEN_INT:
        u = f->value_count != 0 ? u % f->value_count : u;
        return p + num_text_int((int64_t)((uint64_t)f->from + u), p);
    case GEN_FLOAT:
        return put_double(p, f->from_d + f->step_d * (double)(u >> 11) * UNIT,
                          ext);
    case GEN_ZIPF:
        return p + num_text_int(draw_zipf(&f->zipf, u), p);
    case GEN_HEX:
        return put_hex(p, f->hex_len, u);
    case GEN_CYCLE:
        return put_text(p, g, f->values[i % f->value_count]);
    case GEN_CHOICE:
        return put_text(p, g, f->values[u % f->value_count]);
    default:
        return put_text(p, g, f->values[0]);
    }
}

/* Append a function's field; room for the rest stays reserved. */
static int
put_func(const struct gen *g, const struct gen_field *f, uint64_t i,
         const struct gen_call *c, struct buf *b, bool *ext, struct err *e)
{
    struct val v = val_nil();
    int r;

    if (c->call == NULL)
        return err_set(e, ERR_INTERNAL, "a generator function has no state");
    r = c->call(c->script, f->func, (int64_t)i, c->arena, &v, e);
    if (r < 0 || v.type == VAL_NIL)
        return r;
    buf_add(b, g->texts.data + f->lead.pos, f->lead.len);
    json_put_val(b, &v, ext);
    buf_reserve(b, g->size_max);
    return 0;
}

int
gen_put(const struct gen *g, uint64_t i, const struct gen_call *c,
        struct buf *b, bool *ext, struct err *e)
{
    uint64_t drawn = hash_splitmix(g->seed_drawn ^ i);
    size_t start = b->len;
    uint32_t k;

    buf_reserve(b, g->size_max);
    for (k = 0; k < g->count; k++) {
        const struct gen_field *f = &g->fields[k];
        char *p = b->data + b->len;

        if (f->ext)
            *ext = true;
        if (f->kind == GEN_FUNC) {
            int r = put_func(g, f, i, c, b, ext, e);

            if (r < 0) {
                b->len = start;
                return r;
            }
            continue;
        }
        p = put_text(p, g, f->lead);
        p = put_value(p, g, f, i, hash_splitmix(drawn ^ k), ext);
        b->len = (size_t)(p - b->data);
    }
    if (b->len == start)
        buf_addc(b, '{');
    else
        b->data[start] = '{'; /* in place of the first comma */
    buf_addc(b, '}');
    return 0;
}
