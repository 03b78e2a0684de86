/*
 * min_by, max_by, first, last: a value chosen by another one, or by time.
 *
 * The accumulator holds the record that wins so far: its event time, origin
 * and values (min_by: x, then what is asked for; first: x). Ties are decided
 * by API.md section 6 down to the value, so that the winner is a function of
 * the multiset.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"

struct pick {
    int64_t ts, offset;
    int32_t partition;
    uint16_t topic;
    uint8_t any;     /* there is a winner */
    uint8_t mark;    /* AGG_MIXED, only without one */
    struct sval v[]; /* a->nargs */
};

/* A candidate: a record with its arguments, or another pick. */
struct cand {
    int64_t ts, offset;
    int32_t partition;
    uint16_t topic;
    const struct val *v;
};

enum { BY_MIN = 1, BY_MAX = 2, BY_LAST = 4, BY_LIST = 8 };

int
agg_by_setup(struct agg *a, struct err *e)
{
    const struct opt *what = opt_get(a->opts, "what");

    if (a->type == &agg_last_type)
        a->flags = BY_LAST;
    if (a->type == &agg_first_type || a->type == &agg_last_type)
        return 0;
    a->flags = a->type == &agg_min_by_type ? BY_MIN : BY_MAX;
    if (!opt_bool(a->opts, "what_list", false))
        return a->nargs == 2
                   ? 0
                   : agg_fail(a, e, "%s: expected one field", a->type->name);
    if (what == NULL || what->type != OPT_LIST || what->len + 1 != a->nargs)
        return agg_fail(a, e, "%s: a name is needed for each field",
                        a->type->name);
    a->flags |= BY_LIST;
    return 0;
}

static uint32_t
pick_size(const struct agg *a)
{
    return (uint32_t)(sizeof(struct pick) + a->nargs * sizeof(struct sval));
}

static void
pick_init(const struct agg *a, void *acc)
{
    memset(acc, 0, pick_size(a));
}

static bool
is_by(const struct agg *a)
{
    return (a->flags & (BY_MIN | BY_MAX)) != 0;
}

static int
origin_cmp(const struct cand *c, const struct pick *p)
{
    struct rec a, b;

    if (c->topic != p->topic) {
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        a.topic = c->topic;
        b.topic = p->topic;
        return rec_origin_cmp(&a, &b);
    }
    if (c->partition != p->partition)
        return c->partition < p->partition ? -1 : 1;
    return c->offset == p->offset ? 0 : c->offset < p->offset ? -1 : 1;
}

/* Order of keys, null first, what has no key (malformed inside) last. */
static int
key_order(const struct agg *a, const struct val *x, const struct val *y)
{
    struct buf bx, by;
    struct err ignored;
    bool bad_x, bad_y;
    int c;

    if (val_is_null(x) || val_is_null(y))
        return val_is_null(y) - val_is_null(x);
    if (val_is_num(x) && val_is_num(y))
        return val_num_cmp(x, y);
    if (x->type == VAL_STR && y->type == VAL_STR)
        return val_bytes_cmp(x, y);
    buf_init(&bx);
    buf_init(&by);
    bad_x = a->encode_key(&bx, x, &ignored) != 0;
    bad_y = a->encode_key(&by, y, &ignored) != 0;
    if (bad_x || bad_y)
        c = bad_x - bad_y;
    else
        c = key_cmp(bx.data, bx.len, by.data, by.len);
    buf_fini(&bx);
    buf_fini(&by);
    return c;
}

static int
num_rank(const struct val *v)
{
    if (v->type == VAL_INT)
        return 0;
    return v->u.d == 0 && signbit(v->u.d) ? 1 : 2;
}

/* Order of values that are one key: the integer, -0.0, other numbers; lists
 * and maps by their bytes. */
static int
same_key_order(const struct val *x, const struct val *y)
{
    if (val_is_num(x) && val_is_num(y))
        return num_rank(x) - num_rank(y);
    if (x->type != y->type)
        return x->type - y->type;
    if (x->type == VAL_LIST || x->type == VAL_MAP)
        return val_bytes_cmp(x, y);
    return 0;
}

int
agg_value_cmp(const struct agg *a, const struct val *x, const struct val *y)
{
    int c = key_order(a, x, y);

    return c != 0 || val_is_null(x) ? c : same_key_order(x, y);
}

static int
values_cmp(const struct agg *a, const struct val *v, const struct sval *held)
{
    uint32_t i, from = is_by(a) ? 1 : 0;
    struct val h;
    int c;

    for (i = from; i < a->nargs; i++) {
        h = sval_get(&held[i]);
        c = key_order(a, &v[i], &h);
        if (c != 0)
            return c;
    }
    for (i = from; i < a->nargs; i++) {
        h = sval_get(&held[i]);
        if (val_is_null(&h))
            continue;
        c = same_key_order(&v[i], &h);
        if (c != 0)
            return c;
    }
    return 0;
}

/* Whether the candidate takes the place of the winner. */
static bool
is_better(const struct agg *a, const struct cand *c, const struct pick *p)
{
    struct val x;
    int order;

    if (is_by(a)) {
        x = sval_get(&p->v[0]);
        order = agg_minmax_cmp(c->v, &x);
        if (order != 0)
            return (a->flags & BY_MAX) != 0 ? order > 0 : order < 0;
    }
    order = c->ts == p->ts ? 0 : c->ts < p->ts ? -1 : 1;
    if (order == 0)
        order = origin_cmp(c, p);
    if (order == 0)
        order = values_cmp(a, c->v, p->v);
    return (a->flags & BY_LAST) != 0 ? order > 0 : order < 0;
}

static void
take(const struct agg *a, const struct cand *c, struct pick *p)
{
    uint32_t i;

    p->ts = c->ts;
    p->offset = c->offset;
    p->partition = c->partition;
    p->topic = c->topic;
    p->any = 1;
    for (i = 0; i < a->nargs; i++)
        sval_set(&p->v[i], &c->v[i]);
}

static int
pick_check(const struct agg *a, const void *acc, const struct val *args,
           const struct rec *r, struct err *e)
{
    const struct pick *p = acc;

    if (val_is_null(args))
        return 0;
    if (is_by(a) && !agg_minmax_ok(&p->v[0], args))
        return agg_minmax_refuse(a, args, e);
    return agg_check_any(a, acc, args, r, e);
}

static int
pick_add(const struct agg *a, void *acc, const struct val *args,
         const struct rec *r, struct err *e)
{
    struct pick *p = acc;
    struct cand c;
    int ret = pick_check(a, acc, args, r, e);

    if (ret != 0 || val_is_null(args) || p->mark == AGG_MIXED)
        return ret;
    c = (struct cand){.ts = r->ts,
                      .offset = r->offset,
                      .partition = r->partition,
                      .topic = r->topic,
                      .v = args};
    if (p->any == 0 || is_better(a, &c, p))
        take(a, &c, p);
    return 0;
}

static void
pick_fini(const struct agg *a, void *acc)
{
    struct pick *p = acc;
    uint32_t i;

    for (i = 0; i < a->nargs; i++)
        sval_fini(&p->v[i]);
    pick_init(a, acc);
}

static int
pick_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct pick *p = acc, *other = from;
    struct val v[AGG_ARGS_MAX];
    struct cand c;
    uint32_t i;
    int ret = 0;

    if (p->mark == AGG_MIXED) {
        pick_fini(a, from);
        return 0;
    }
    for (i = 0; i < a->nargs; i++)
        v[i] = sval_get(&other->v[i]);
    c = (struct cand){.ts = other->ts,
                      .offset = other->offset,
                      .partition = other->partition,
                      .topic = other->topic,
                      .v = v};
    if (other->mark == AGG_MIXED ||
        (is_by(a) && !agg_minmax_ok(&p->v[0], &v[0]))) {
        ret = agg_mixed_error(a, e);
        pick_fini(a, acc);
        p->mark = AGG_MIXED;
    } else if (other->any != 0 && (p->any == 0 || is_better(a, &c, p)))
        take(a, &c, p);
    pick_fini(a, from);
    return ret;
}

static int
pick_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
            struct err *e)
{
    const struct pick *p = acc;
    const struct opt *name;
    struct val v;
    uint32_t i;

    if (p->mark == AGG_MIXED)
        return agg_mixed_error(a, e);
    if (p->any == 0) {
        buf_adds(out, "null");
        return 0;
    }
    if ((a->flags & BY_LIST) == 0) {
        v = sval_get(&p->v[is_by(a) ? 1 : 0]);
        val_put_json(out, &v, ext);
        return 0;
    }
    buf_addc(out, '{');
    name = opt_get(a->opts, "what")->first;
    for (i = 1; i < a->nargs; i++, name = name->next) {
        if (i > 1)
            buf_addc(out, ',');
        json_put_str(out, name->s, name->len);
        buf_addc(out, ':');
        v = sval_get(&p->v[i]);
        val_put_json(out, &v, ext);
    }
    buf_addc(out, '}');
    return 0;
}

static int
pick_encode(const struct agg *a, const void *acc, struct buf *out,
            struct err *e)
{
    const struct pick *p = acc;
    const char *topic;
    uint32_t i;

    (void)e;
    buf_addc(out, (char)p->mark);
    buf_addc(out, (char)p->any);
    if (p->any == 0)
        return 0;
    topic = topic_name(p->topic);
    codec_put_u64(out, (uint64_t)p->ts);
    codec_put_u64(out, (uint64_t)p->offset);
    codec_put_u32(out, (uint32_t)p->partition);
    codec_put_bytes(out, topic, strlen(topic));
    for (i = 0; i < a->nargs; i++)
        sval_encode(&p->v[i], out);
    return 0;
}

static bool
decode_winner(const struct agg *a, struct pick *p, const char **bytes,
              const char *end)
{
    const char *topic;
    char *name;
    uint64_t ts, offset;
    uint32_t partition, len, i;
    struct val x;

    if (!codec_u64(bytes, end, &ts) || !codec_u64(bytes, end, &offset) ||
        !codec_u32(bytes, end, &partition) ||
        !codec_bytes(bytes, end, &topic, &len))
        return false;
    for (i = 0; i < a->nargs; i++)
        if (!sval_decode(&p->v[i], bytes, end))
            return false;
    x = sval_get(&p->v[0]);
    if (val_is_null(&x) || (is_by(a) && !val_is_num(&x) && x.type != VAL_STR))
        return false;
    name = mem_dup(topic, len);
    p->topic = topic_register(name);
    free(name);
    p->ts = (int64_t)ts;
    p->offset = (int64_t)offset;
    p->partition = (int32_t)partition;
    return true;
}

static int
pick_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
            struct err *e)
{
    struct pick *p = acc;
    const char *end = bytes + len;
    uint8_t mark, any;

    if (!codec_u8(&bytes, end, &mark) || !codec_u8(&bytes, end, &any) ||
        mark > AGG_MIXED || any > 1 || (mark == AGG_MIXED && any != 0) ||
        (any != 0 && !decode_winner(a, p, &bytes, end)) || bytes != end) {
        pick_fini(a, acc);
        return agg_damaged(a, e);
    }
    p->mark = mark;
    p->any = any;
    return 0;
}

static size_t
pick_heap(const struct agg *a, const void *acc)
{
    const struct pick *p = acc;
    size_t bytes = 0;
    uint32_t i;

    for (i = 0; i < a->nargs; i++)
        bytes += sval_heap(&p->v[i]);
    return bytes;
}

static void
pick_dup(const struct agg *a, const void *acc, void *to)
{
    const struct pick *p = acc;
    struct pick *copy = to;
    uint32_t i;

    memcpy(copy, p, sizeof *copy);
    for (i = 0; i < a->nargs; i++)
        sval_dup(&p->v[i], &copy->v[i]);
}

#define PICK_TYPE(text)                                                        \
    {                                                                          \
        .name = (text), .size = pick_size, .init = pick_init, .add = pick_add, \
        .merge = pick_merge, .result = pick_result, .encode = pick_encode,     \
        .decode = pick_decode, .fini = pick_fini, .heap = pick_heap,           \
        .movable = true, .check = pick_check, .dup = pick_dup,                 \
    }

const struct agg_type agg_min_by_type = PICK_TYPE("min_by");
const struct agg_type agg_max_by_type = PICK_TYPE("max_by");
const struct agg_type agg_first_type = PICK_TYPE("first");
const struct agg_type agg_last_type = PICK_TYPE("last");
