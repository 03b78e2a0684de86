#include "core/panes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"

struct panes {
    uint64_t n;     /* records so far */
    uint64_t first; /* number of blocks[0]: of a pane, or of a window */
    uint32_t count, cap;
    char *blocks; /* `count` of the inner set's */
};

struct panes_ctx {
    const struct aggset *inner;
    uint64_t size, slide, pane;
    bool whole;    /* blocks are windows */
    bool has_full; /* `full` owns something */
    void *full;    /* the window that is full */
    void *scratch;
};

static uint64_t
gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t c = a % b;

        a = b;
        b = c;
    }
    return a;
}

static void
drop_full(struct panes_ctx *x)
{
    if (x->has_full)
        aggset_fini(x->inner, x->full);
    x->has_full = false;
}

static void
ctx_free(void *ctx)
{
    struct panes_ctx *x = ctx;

    drop_full(x);
    free(x->full);
    free(x->scratch);
    free(x);
}

static void *
block_at(const struct panes_ctx *x, const struct panes *p, uint64_t i)
{
    return p->blocks + i * x->inner->size;
}

static uint32_t
panes_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct panes);
}

static void
panes_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct panes));
}

static void
panes_fini(const struct agg *a, void *acc)
{
    const struct panes_ctx *x = a->ctx;
    struct panes *p = acc;
    uint32_t i;

    for (i = 0; i < p->count; i++)
        aggset_fini(x->inner, block_at(x, p, i));
    free(p->blocks);
    panes_init(a, acc);
}

static void *
push(const struct panes_ctx *x, struct panes *p)
{
    size_t cap = p->cap;
    void *block;

    mem_grow(&p->blocks, &cap, p->count + 1u, x->inner->size);
    p->cap = (uint32_t)cap;
    block = block_at(x, p, p->count++);
    aggset_init(x->inner, block);
    return block;
}

/* Forget the first `n` blocks, which own nothing any more. */
static void
shift(const struct panes_ctx *x, struct panes *p, uint32_t n)
{
    p->first += n;
    p->count -= n;
    memmove(p->blocks, block_at(x, p, n), (size_t)p->count * x->inner->size);
}

/* Put the window of the last `size` records together. */
static int
make_full(struct panes_ctx *x, struct panes *p, struct err *e)
{
    uint32_t have = (uint32_t)(x->size / x->pane), i;
    uint32_t over = (uint32_t)(x->slide / x->pane);
    int r = 0;

    assert(p->count == have);
    for (i = 0; i < have; i++) {
        void *to = i == 0 ? x->full : x->scratch, *from = block_at(x, p, i);
        int rc = 0;

        if (i < over) /* no later window has it */
            memcpy(to, from, x->inner->size);
        else if (r == 0)
            rc = aggset_dup(x->inner, from, to, e);
        if (i >= over && (r != 0 || rc != 0)) {
            r = r != 0 ? r : rc;
            if (i == 0)
                aggset_init(x->inner, x->full);
            continue;
        }
        if (i > 0 && r == 0)
            r = aggset_merge(x->inner, x->full, x->scratch, e);
        else if (i > 0)
            aggset_fini(x->inner, x->scratch);
    }
    x->has_full = true;
    shift(x, p, over);
    return r;
}

static int
add_pane(struct panes_ctx *x, struct panes *p, panes_add_f *add, void *arg,
         struct err *e)
{
    uint64_t at = p->n / x->pane;
    int r;

    if (at - p->first == p->count)
        (void)push(x, p);
    r = add(arg, block_at(x, p, at - p->first), e);
    if (r == 0)
        p->n++;
    return r;
}

/* Every open window gets the record. */
static int
add_whole(struct panes_ctx *x, struct panes *p, panes_add_f *add, void *arg,
          struct err *e)
{
    struct err other;
    uint32_t i;

    if (p->n % x->slide == 0 && p->first + p->count == p->n / x->slide)
        (void)push(x, p);
    for (i = 0; i < p->count; i++) {
        int r = add(arg, block_at(x, p, i), i == 0 ? e : &other);

        if (r != 0 && i == 0)
            return r;
    }
    p->n++;
    return 0;
}

int
panes_add(const struct aggset *s, void *block, panes_add_f *add, void *arg,
          void **ret_full, struct err *e)
{
    struct panes_ctx *x = s->aggs[0].ctx;
    struct panes *p = block;
    int r;

    *ret_full = NULL;
    drop_full(x);
    r = x->whole ? add_whole(x, p, add, arg, e) : add_pane(x, p, add, arg, e);
    if (r != 0 || p->n < x->size || (p->n - x->size) % x->slide != 0)
        return r;
    if (!x->whole) {
        r = make_full(x, p, e);
    } else {
        memcpy(x->full, p->blocks, x->inner->size);
        x->has_full = true;
        shift(x, p, 1);
    }
    if (r == 0)
        *ret_full = x->full;
    return r;
}

uint64_t
panes_records(const void *block)
{
    return ((const struct panes *)block)->n;
}

uint64_t
panes_open(const struct aggset *s, const void *block)
{
    const struct panes_ctx *x = s->aggs[0].ctx;
    const struct panes *p = block;
    uint64_t begun = (p->n + x->slide - 1) / x->slide;

    return p->n < x->size ? begun : begun - (p->n - x->size) / x->slide - 1;
}

static int
panes_none(const struct agg *a, void *acc, const struct val *args,
           const struct rec *r, struct err *e)
{
    (void)a;
    (void)acc;
    (void)args;
    (void)r;
    return err_set(e, ERR_INTERNAL, "a count window takes records one by one");
}

static int
panes_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    (void)acc;
    panes_fini(a, from);
    return err_set(e, ERR_INTERNAL, "count windows do not merge");
}

/* For tools: what the key has. */
static int
panes_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
             struct err *e)
{
    const struct panes *p = acc;

    (void)a;
    (void)ext;
    (void)e;
    buf_addf(out, "%llu", (unsigned long long)p->n);
    return 0;
}

static int
panes_encode(const struct agg *a, const void *acc, struct buf *out,
             struct err *e)
{
    const struct panes_ctx *x = a->ctx;
    const struct panes *p = acc;
    struct buf one;
    uint32_t i;
    int r = 0;

    codec_put_u64(out, x->whole ? x->slide : x->pane);
    codec_put_u64(out, p->n);
    codec_put_u64(out, p->first);
    codec_put_u32(out, p->count);
    buf_init(&one);
    for (i = 0; i < p->count && r == 0; i++) {
        buf_clear(&one);
        r = aggset_encode(x->inner, block_at(x, p, i), &one, e);
        codec_put_bytes(out, one.data, one.len);
    }
    buf_fini(&one);
    return r;
}

static int
panes_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
             struct err *e)
{
    const struct panes_ctx *x = a->ctx;
    const char *end = bytes + len, *one;
    struct panes *p = acc;
    uint32_t n, i, one_len;
    uint64_t unit;
    int r = 0;

    if (!codec_u64(&bytes, end, &unit) || !codec_u64(&bytes, end, &p->n) ||
        !codec_u64(&bytes, end, &p->first) || !codec_u32(&bytes, end, &n) ||
        unit != (x->whole ? x->slide : x->pane))
        return agg_damaged(a, e);
    for (i = 0; i < n && r == 0; i++) {
        if (!codec_bytes(&bytes, end, &one, &one_len))
            return agg_damaged(a, e);
        r = aggset_decode(x->inner, push(x, p), one, one_len, e);
    }
    return r != 0 || bytes == end ? r : agg_damaged(a, e);
}

static size_t
panes_heap(const struct agg *a, const void *acc)
{
    const struct panes_ctx *x = a->ctx;
    const struct panes *p = acc;
    size_t n = (size_t)p->cap * x->inner->size;
    uint32_t i;

    for (i = 0; i < p->count; i++)
        n += aggset_heap(x->inner, block_at(x, p, i));
    return n;
}

static const struct agg_type panes_type = {
    .name = "count_window",
    .size = panes_size,
    .init = panes_init,
    .add = panes_none,
    .merge = panes_merge,
    .result = panes_result,
    .encode = panes_encode,
    .decode = panes_decode,
    .fini = panes_fini,
    .heap = panes_heap,
};

struct aggset *
panes_new(const struct aggset *inner, uint64_t size, uint64_t slide)
{
    struct aggset *s = mem_zalloc(sizeof *s);
    struct panes_ctx *x = mem_zalloc(sizeof *x);

    assert(slide > 0 && slide <= size);
    x->inner = inner;
    x->size = size;
    x->slide = slide;
    x->pane = gcd(size, slide);
    x->whole = !inner->mergeable || size / x->pane > PANES_MAX;
    x->full = mem_zalloc(inner->size);
    x->scratch = mem_zalloc(inner->size);
    s->aggs = mem_zalloc(sizeof *s->aggs);
    s->aggs[0] = (struct agg){.type = &panes_type,
                              .name = "records",
                              .ctx = x,
                              .free_ctx = ctx_free,
                              .kind = AGG_OTHER};
    s->count = 1;
    s->size = sizeof(struct panes);
    s->customs = inner->customs;
    s->mergeable = true;
    return s;
}
