#include "core/agg.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"

enum { ACC_ALIGN = 8, SHOWN_MAX = 60 };

struct builtin {
    const struct agg_type *type;
    enum agg_kind kind;
    uint32_t args_min, args_max;
    int (*setup)(struct agg *a, struct err *e); /* may be NULL */
};

static const struct builtin builtins[] = {
    {&agg_count_type, AGG_COUNT, 0, 1, NULL},
    {&agg_sum_type, AGG_SUM, 1, 1, agg_sum_setup},
    {&agg_avg_type, AGG_AVG, 1, 1, NULL},
    {&agg_min_type, AGG_MIN, 1, 1, NULL},
    {&agg_max_type, AGG_MAX, 1, 1, NULL},
    {&agg_min_by_type, AGG_OTHER, 2, AGG_ARGS_MAX, agg_by_setup},
    {&agg_max_by_type, AGG_OTHER, 2, AGG_ARGS_MAX, agg_by_setup},
    {&agg_first_type, AGG_OTHER, 1, 1, agg_by_setup},
    {&agg_last_type, AGG_OTHER, 1, 1, agg_by_setup},
    {&agg_var_pop_type, AGG_VAR, 1, 1, NULL},
    {&agg_var_samp_type, AGG_VAR, 1, 1, NULL},
    {&agg_stddev_pop_type, AGG_VAR, 1, 1, NULL},
    {&agg_stddev_samp_type, AGG_VAR, 1, 1, NULL},
    {&agg_distinct_type, AGG_OTHER, 1, 1, agg_distinct_setup},
    {&agg_count_distinct_type, AGG_OTHER, 1, 1, agg_distinct_setup},
    {&agg_percentile_type, AGG_OTHER, 1, 1, agg_percentile_setup},
    {&agg_collect_type, AGG_OTHER, 1, 1, agg_collect_setup},
    {&agg_top_type, AGG_OTHER, 1, 1, agg_top_setup},
    {&agg_records_type, AGG_OTHER, 0, 0, NULL},
};

enum { BUILTIN_COUNT = sizeof builtins / sizeof builtins[0] };

static const struct builtin *
builtin_find(const char *fn)
{
    size_t i;

    for (i = 0; i < BUILTIN_COUNT; i++)
        if (strcmp(builtins[i].type->name, fn) == 0)
            return &builtins[i];
    return NULL;
}

const struct agg_type *
agg_type_find(const char *fn)
{
    const struct builtin *b = builtin_find(fn);

    return b != NULL ? b->type : NULL;
}

const char *
agg_label(const struct agg *a, char buf[AGG_LABEL_MAX])
{
    const struct opt *arg = opt_at(opt_get(a->opts, "args"), 0);
    const char *field = opt_str(arg, "field", "function");

    (void)snprintf(buf, AGG_LABEL_MAX, "%s(%s)", a->type->name,
                   arg != NULL ? field : "");
    return buf;
}

int
agg_fail(const struct agg *a, struct err *e, const char *fmt, ...)
{
    const char *place = opt_str(a->opts, "place", "");
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = err_vset(e, ERR_JOBFILE, fmt, ap);
    va_end(ap);
    err_where(e, "%s", place);
    return r;
}

int
agg_damaged(const struct agg *a, struct err *e)
{
    return err_set(e, ERR_IO, "damaged accumulator of '%s'", a->name);
}

/* "string "abc"": type and text, cut to what a message may show. */
static void
put_shown(struct buf *b, const struct val *v)
{
    static const char *const names[] = {
        [VAL_NIL] = "nil",      [VAL_NULL] = "null",   [VAL_BOOL] = "boolean ",
        [VAL_INT] = "integer ", [VAL_DBL] = "number ", [VAL_STR] = "string ",
        [VAL_LIST] = "list ",   [VAL_MAP] = "map ",
    };
    bool ext = false, bytes = v->type >= VAL_STR && v->type <= VAL_MAP;
    struct val cut = *v;

    if (bytes && cut.len > SHOWN_MAX)
        for (cut.len = SHOWN_MAX;
             cut.len > 0 && ((unsigned char)v->u.s[cut.len] & 0xc0) == 0x80;)
            cut.len--;
    buf_adds(b, v->type == VAL_DBL && isnan(v->u.d) ? "" : names[v->type]);
    if (v->type > VAL_NULL)
        val_put_json(b, &cut, &ext);
    if (bytes && cut.len < v->len)
        buf_adds(b, "...");
}

int
agg_type_error(const struct agg *a, const char *what, const struct val *v,
               struct err *e)
{
    char label[AGG_LABEL_MAX];
    struct buf b;
    int r;

    if (v->type >= VAL_BAD)
        return err_record(e, CAUSE_DECODE, "%s: the value cannot be decoded",
                          agg_label(a, label));
    buf_init(&b);
    put_shown(&b, v);
    r = err_record(e, CAUSE_TYPE, "%s: expected %s, got %s",
                   agg_label(a, label), what, buf_cstr(&b));
    buf_fini(&b);
    return r;
}

int
agg_mixed_error(const struct agg *a, struct err *e)
{
    char label[AGG_LABEL_MAX];

    return err_record(e, CAUSE_TYPE, "%s: cannot compare numbers and strings",
                      agg_label(a, label));
}

int
agg_check_num(const struct agg *a, const void *acc, const struct val *args,
              const struct rec *r, struct err *e)
{
    (void)acc;
    (void)r;
    return agg_num_ok(args) ? 0 : agg_type_error(a, "a number", args, e);
}

int
agg_check_any(const struct agg *a, const void *acc, const struct val *args,
              const struct rec *r, struct err *e)
{
    uint32_t i;

    (void)acc;
    (void)r;
    for (i = 0; i < a->nargs; i++)
        if (!agg_any_ok(&args[i]))
            return agg_type_error(a, "a value", &args[i], e);
    return 0;
}

static int
builtin_setup(struct agg *a, const char *fn, struct err *e)
{
    const struct builtin *b = builtin_find(fn);

    if (b == NULL)
        return agg_fail(a, e, "unknown aggregate function \"%s\"", fn);
    a->type = b->type;
    a->kind = b->kind;
    if (a->nargs < b->args_min || a->nargs > b->args_max)
        return agg_fail(a, e, "%s: wrong number of arguments (%u)", fn,
                        a->nargs);
    if (b->kind == AGG_COUNT && a->nargs == 0)
        a->kind = AGG_COUNT_ALL;
    return b->setup != NULL ? b->setup(a, e) : 0;
}

static int
agg_setup(struct agg *a, agg_custom_f *custom, void *arg, struct err *e)
{
    const char *fn = opt_str(a->opts, "fn", "");
    int r;

    if (a->nargs > AGG_ARGS_MAX)
        return agg_fail(a, e, "%s: at most %d arguments", fn, AGG_ARGS_MAX);
    if (strcmp(fn, "custom") != 0 && strcmp(fn, "reduce") != 0)
        return builtin_setup(a, fn, e);
    if (custom == NULL)
        return agg_fail(a, e, "a custom aggregator needs a script");
    a->kind = AGG_CUSTOM;
    r = custom(arg, a, e);
    assert(r != 0 || a->type != NULL);
    return r;
}

static bool
agg_can_merge(const struct agg *a)
{
    const struct opt *law = opt_get(a->opts, "law");

    if (a->kind != AGG_CUSTOM)
        return true;
    if (opt_is(a->opts, "fn", "custom") && opt_func(a->opts, "merge") == 0)
        return false;
    return law == NULL || opt_bool(law, "ok", true);
}

int
aggset_new(const struct opt *list, key_encode_f *encode_key,
           agg_custom_f *custom, void *arg, struct aggset **ret, struct err *e)
{
    struct aggset *s = mem_zalloc(sizeof *s);
    const struct opt *o;
    int r = 0;

    assert(list != NULL && encode_key != NULL);
    s->aggs = mem_zalloc(list->len * sizeof *s->aggs);
    s->movable = s->mergeable = s->takes_ints = true;
    for (o = list->first; o != NULL && r == 0; o = o->next) {
        struct agg *a = &s->aggs[s->count++];
        const struct opt *args = opt_get(o, "args");

        a->opts = o;
        a->name = opt_str(o, "name", "");
        a->encode_key = encode_key;
        a->first_arg = s->nargs;
        a->nargs = args != NULL ? (uint32_t)args->len : 0;
        a->offset = s->size;
        r = agg_setup(a, custom, arg, e);
        if (r != 0)
            break;
        s->nargs += a->nargs;
        s->size += (a->type->size(a) + ACC_ALIGN - 1) / ACC_ALIGN * ACC_ALIGN;
        s->customs += a->kind == AGG_CUSTOM;
        s->movable = s->movable && a->type->movable;
        s->takes_ints = s->takes_ints && a->kind != AGG_CUSTOM &&
                        a->kind != AGG_OTHER && opt_func(o, "where") == 0;
        s->mergeable = s->mergeable && agg_can_merge(a);
    }
    if (r != 0) {
        aggset_free(&s);
        return r;
    }
    *ret = s;
    return 0;
}

void
aggset_free(struct aggset **s)
{
    uint32_t i;

    if (*s == NULL)
        return;
    for (i = 0; i < (*s)->count; i++) {
        struct agg *a = &(*s)->aggs[i];

        if (a->free_ctx != NULL)
            a->free_ctx(a->ctx);
    }
    free((*s)->aggs);
    free((*s)->places.order);
    free(*s);
    *s = NULL;
}

void
aggset_set_places(struct aggset *s, const struct agg_places *p)
{
    assert(p->min > 0 && p->min <= p->count && p->count >= s->count);
    free(s->places.order);
    s->places = *p;
    s->places.order = mem_zalloc(p->count * sizeof *p->order);
    memcpy(s->places.order, p->order, p->count * sizeof *p->order);
}

void
aggset_keep_times(struct aggset *s)
{
    uint32_t i;

    assert(!s->times);
    s->times = true;
    for (i = 0; i < s->count; i++)
        s->aggs[i].offset += (uint32_t)sizeof(struct agg_times);
    s->size += (uint32_t)sizeof(struct agg_times);
}

void
aggset_touch(const struct aggset *s, void *block, int64_t ts)
{
    struct agg_times *t = aggset_times(block);

    if (!s->times)
        return;
    if (t->last == INT64_MIN)
        t->first = ts;
    if (ts > t->last)
        t->last = ts;
}

static void
times_merge(struct agg_times *t, const struct agg_times *from)
{
    if (t->last == INT64_MIN)
        t->first = from->first;
    if (from->last > t->last)
        t->last = from->last;
}

/* How many places the portable form has. */
static uint32_t
place_count(const struct aggset *s)
{
    return s->places.order != NULL ? s->places.count : s->count;
}

/* The aggregate whose accumulator stands at place `i` of the portable form;
 * NULL: it is gone. */
static const struct agg *
agg_at_place(const struct aggset *s, uint32_t i)
{
    uint32_t k = s->places.order != NULL ? s->places.order[i] : i;

    return k != AGG_NONE ? &s->aggs[k] : NULL;
}

static void *
acc_at(const struct agg *a, void *block)
{
    return (char *)block + a->offset;
}

static const void *
acc_peek(const struct agg *a, const void *block)
{
    return (const char *)block + a->offset;
}

void
aggset_init(const struct aggset *s, void *block)
{
    uint32_t i;

    memset(block, 0, s->size);
    if (s->times)
        aggset_times(block)->last = INT64_MIN;
    for (i = 0; i < s->count; i++)
        if (s->aggs[i].type->init != NULL)
            s->aggs[i].type->init(&s->aggs[i], acc_at(&s->aggs[i], block));
}

/* Whether one built-in will take its arguments. */
static inline int
check_one(const struct agg *a, const void *acc, const struct val *args,
          const struct rec *r, struct err *e)
{
    switch (a->kind) {
    case AGG_CUSTOM:
    case AGG_COUNT_ALL:
        return 0;
    case AGG_SUM:
    case AGG_AVG:
    case AGG_VAR:
        if (agg_num_ok(args))
            return 0;
        break;
    case AGG_MIN:
    case AGG_MAX:
        if (agg_minmax_ok(acc, args))
            return 0;
        break;
    default:
        break;
    }
    return a->type->check(a, acc, args, r, e);
}

static inline void
apply_one(const struct agg *a, void *acc, const struct val *args,
          const struct rec *r)
{
    int failed;

    switch (a->kind) {
    case AGG_CUSTOM:
        break;
    case AGG_COUNT_ALL:
        ++*(uint64_t *)acc;
        break;
    case AGG_COUNT:
        *(uint64_t *)acc += !val_is_null(args);
        break;
    case AGG_SUM:
        agg_exact_add(acc, args);
        break;
    case AGG_AVG:
        agg_avg_apply(acc, args);
        break;
    case AGG_MIN:
        agg_minmax_apply(false, acc, args);
        break;
    case AGG_MAX:
        agg_minmax_apply(true, acc, args);
        break;
    case AGG_VAR:
        agg_var_apply(acc, args);
        break;
    default:
        failed = a->type->add(a, acc, args, r, NULL);
        assert(failed == 0); /* check() let it pass */
        (void)failed;
        break;
    }
}

/* Put back the custom accumulators before index `end` from `saved`. */
static void
customs_undo(const struct aggset *s, void *block, uint32_t end,
             const struct buf *saved)
{
    const char *p = saved->data, *stop = saved->data + saved->len, *bytes;
    uint32_t i, len;

    for (i = 0; i < end; i++) {
        const struct agg *a = &s->aggs[i];
        void *acc = acc_at(a, block);

        if (a->kind != AGG_CUSTOM || a->skip ||
            !codec_bytes(&p, stop, &bytes, &len))
            continue;
        a->type->fini(a, acc);
        a->type->init(a, acc);
        if (a->type->decode(a, acc, bytes, len, NULL) != 0)
            a->type->init(a, acc);
    }
}

/* encode() with its length in front. */
static int
encode_framed(const struct agg *a, const void *acc, struct buf *out,
              struct err *e)
{
    size_t at = out->len, len;
    int r, i;

    codec_put_u32(out, 0);
    r = a->type->encode(a, acc, out, e);
    if (r != 0)
        return r;
    len = out->len - at - 4;
    for (i = 0; i < 4; i++)
        out->data[at + (size_t)i] = (char)(len >> (8 * i) & 0xffu);
    return 0;
}

static int
customs_add(const struct aggset *s, void *block, const struct val *args,
            const struct rec *r, struct err *e)
{
    struct buf saved;
    uint32_t i, left = s->customs;
    int ret = 0;

    buf_init(&saved);
    for (i = 0; i < s->count && ret == 0; i++) {
        const struct agg *a = &s->aggs[i];
        void *acc = acc_at(a, block);

        if (a->kind != AGG_CUSTOM)
            continue;
        left--;
        if (a->skip)
            continue;
        if (left != 0)
            ret = encode_framed(a, acc, &saved, e);
        if (ret == 0)
            ret = a->type->add(a, acc, args + a->first_arg, r, e);
        if (ret != 0)
            customs_undo(s, block, i, &saved);
    }
    buf_fini(&saved);
    return ret;
}

/* Whether all will take their arguments as no more than integers. */
static inline bool
takes_ints(const struct aggset *s, const void *block, const struct val *args)
{
    uint32_t i;

    if (!s->takes_ints)
        return false;
    for (i = 0; i < s->nargs; i++)
        if (args[i].type != VAL_INT)
            return false;
    for (i = 0; i < s->count; i++) {
        const struct agg *a = &s->aggs[i];
        const struct sval *acc = acc_peek(a, block);

        if ((a->kind == AGG_MIN || a->kind == AGG_MAX) && acc->type == VAL_STR)
            return false;
    }
    return true;
}

int
aggset_add(const struct aggset *s, void *block, const struct val *args,
           const struct rec *r, struct err *e)
{
    const struct agg *a, *end = s->aggs + s->count;
    int ret;

    if (takes_ints(s, block, args)) {
        for (a = s->aggs; a < end; a++)
            apply_one(a, acc_at(a, block), args + a->first_arg, r);
        return 0;
    }
    for (a = s->aggs; a < end; a++) {
        if (a->skip)
            continue;
        ret = check_one(a, acc_at(a, block), args + a->first_arg, r, e);
        if (ret != 0)
            return ret;
    }
    if (s->customs != 0) {
        ret = customs_add(s, block, args, r, e);
        if (ret != 0)
            return ret;
    }
    for (a = s->aggs; a < end; a++)
        if (!a->skip)
            apply_one(a, acc_at(a, block), args + a->first_arg, r);
    return 0;
}

static inline int
merge_one(const struct agg *a, void *acc, void *from, struct err *e)
{
    switch (a->kind) {
    case AGG_COUNT_ALL:
    case AGG_COUNT:
        *(uint64_t *)acc += *(uint64_t *)from;
        *(uint64_t *)from = 0;
        return 0;
    case AGG_SUM:
        exact_merge(acc, from);
        return 0;
    case AGG_AVG: {
        struct agg_avg_acc *to = acc, *other = from;

        exact_merge(&to->sum, &other->sum);
        to->n += other->n;
        other->n = 0;
        return 0;
    }
    default:
        return a->type->merge(a, acc, from, e);
    }
}

/* Merge the built-ins or the custom ones; the first failure is kept. */
static int
merge_kind(const struct aggset *s, void *block, void *from, bool custom,
           struct err *e)
{
    struct err other;
    uint32_t i;
    int ret = 0;

    for (i = 0; i < s->count; i++) {
        const struct agg *a = &s->aggs[i];
        int r;

        if ((a->kind == AGG_CUSTOM) != custom)
            continue;
        r = merge_one(a, acc_at(a, block), acc_at(a, from),
                      ret == 0 ? e : &other);
        if (ret == 0)
            ret = r;
    }
    return ret;
}

int
aggset_merge(const struct aggset *s, void *block, void *from, struct err *e)
{
    struct err other;
    int ret, r;

    if (s->times)
        times_merge(block, from);
    ret = merge_kind(s, block, from, false, e);
    if (s->customs == 0)
        return ret;
    /* User code needs a place to say why it failed. */
    r = merge_kind(s, block, from, true, ret == 0 && e != NULL ? e : &other);
    return ret != 0 ? ret : r;
}

int
agg_result(const struct agg *a, const void *block, struct buf *out, bool *ext,
           struct err *e)
{
    return a->type->result(a, acc_peek(a, block), out, ext, e);
}

static int
dup_by_codec(const struct agg *a, const void *acc, void *to, struct err *e)
{
    struct buf b;
    int r;

    buf_init(&b);
    a->type->init(a, to);
    r = a->type->encode(a, acc, &b, e);
    if (r == 0)
        r = a->type->decode(a, to, b.data, b.len, e);
    buf_fini(&b);
    return r;
}

int
aggset_dup(const struct aggset *s, const void *block, void *to, struct err *e)
{
    uint32_t i;

    memset(to, 0, s->size);
    if (s->times)
        memcpy(to, block, sizeof(struct agg_times));
    for (i = 0; i < s->count; i++) {
        const struct agg *a = &s->aggs[i];
        void *acc = acc_at(a, to);
        int r;

        if (a->type->dup != NULL) {
            a->type->dup(a, acc_peek(a, block), acc);
            continue;
        }
        r = dup_by_codec(a, acc_peek(a, block), acc, e);
        if (r != 0) {
            for (i++; i-- > 0;)
                if (s->aggs[i].type->fini != NULL)
                    s->aggs[i].type->fini(&s->aggs[i], acc_at(&s->aggs[i], to));
            return r;
        }
    }
    return 0;
}

int
aggset_encode(const struct aggset *s, const void *block, struct buf *out,
              struct err *e)
{
    const struct agg_times *t = block;
    uint32_t i, n = place_count(s);

    if (s->times) {
        codec_put_u64(out, (uint64_t)t->first);
        codec_put_u64(out, (uint64_t)t->last);
    }
    for (i = 0; i < n; i++) {
        const struct agg *a = agg_at_place(s, i);
        int r = 0;

        if (a != NULL)
            r = encode_framed(a, acc_peek(a, block), out, e);
        else
            codec_put_u32(out, 0);
        if (r != 0)
            return r;
    }
    return 0;
}

static bool
decode_times(struct agg_times *t, const char **p, const char *end)
{
    uint64_t first, last;

    if (!codec_u64(p, end, &first) || !codec_u64(p, end, &last))
        return false;
    t->first = (int64_t)first;
    t->last = (int64_t)last;
    return true;
}

int
aggset_decode(const struct aggset *s, void *block, const char *bytes,
              size_t len, struct err *e)
{
    const char *p = bytes, *end = bytes + len, *part;
    uint32_t i, n = place_count(s), part_len;

    if (s->times && !decode_times(block, &p, end))
        return err_set(e, ERR_IO, "damaged accumulators: no times");
    for (i = 0; i < n; i++) {
        const struct agg *a = agg_at_place(s, i);
        int r;

        if (p == end && s->places.order != NULL && i >= s->places.min)
            return 0; /* written before it was added */
        if (!codec_bytes(&p, end, &part, &part_len))
            return a != NULL ? agg_damaged(a, e)
                             : err_set(e, ERR_IO,
                                       "damaged accumulators: they end early");
        if (a == NULL)
            continue;
        r = a->type->decode(a, acc_at(a, block), part, part_len, e);
        if (r != 0)
            return r;
    }
    if (p != end)
        return err_set(e, ERR_IO, "damaged accumulators: bytes left over");
    return 0;
}

void
aggset_fini(const struct aggset *s, void *block)
{
    uint32_t i;

    for (i = 0; i < s->count; i++)
        if (s->aggs[i].type->fini != NULL)
            s->aggs[i].type->fini(&s->aggs[i], acc_at(&s->aggs[i], block));
}

size_t
aggset_heap(const struct aggset *s, const void *block)
{
    size_t bytes = 0;
    uint32_t i;

    for (i = 0; i < s->count; i++) {
        const struct agg *a = &s->aggs[i];

        if (a->type->heap != NULL)
            bytes += a->type->heap(a, acc_peek(a, block));
    }
    return bytes;
}
