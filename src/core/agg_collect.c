/*
 * collect: the values of a window as a list, by event time, then origin, then
 * value. Beyond the limit nothing is held any more, and the row fails,
 * whatever the order in which the values came.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/agg_codec.h"
#include "core/agg_impl.h"

struct item {
    int64_t ts, offset;
    int32_t partition;
    uint16_t topic;
    struct sval v;
};

struct list {
    struct item *at;
    uint32_t n, cap;
    uint8_t over, sorted;
};

int
agg_collect_setup(struct agg *a, struct err *e)
{
    int64_t limit = opt_int(a->opts, "limit", 1000);

    if (limit < 1 || limit > 1000000)
        return agg_fail(a, e, "collect: limit must be from 1 to 1000000");
    a->flags = (uint32_t)limit;
    return 0;
}

static uint32_t
list_size(const struct agg *a)
{
    (void)a;
    return sizeof(struct list);
}

static void
list_init(const struct agg *a, void *acc)
{
    (void)a;
    memset(acc, 0, sizeof(struct list));
}

static void
list_fini(const struct agg *a, void *acc)
{
    struct list *l = acc;
    uint32_t i;

    for (i = 0; i < l->n; i++)
        sval_fini(&l->at[i].v);
    free(l->at);
    list_init(a, acc);
}

/* Above the limit: only that is remembered. */
static void
give_up(const struct agg *a, struct list *l)
{
    list_fini(a, l);
    l->over = 1;
}

/* @return room for one more. */
static struct item *
push(struct list *l)
{
    size_t cap = l->cap;

    mem_grow(&l->at, &cap, l->n + 1u, sizeof *l->at);
    l->cap = (uint32_t)cap;
    l->sorted = 0;
    return memset(&l->at[l->n++], 0, sizeof *l->at);
}

static int
list_add(const struct agg *a, void *acc, const struct val *args,
         const struct rec *r, struct err *e)
{
    struct list *l = acc;
    struct item *i;

    (void)e;
    if (val_is_null(args) || l->over != 0)
        return 0;
    if (l->n == a->flags) {
        give_up(a, l);
        return 0;
    }
    i = push(l);
    i->ts = r->ts;
    i->offset = r->offset;
    i->partition = r->partition;
    i->topic = r->topic;
    sval_set(&i->v, args);
    return 0;
}

static int
list_merge(const struct agg *a, void *acc, void *from, struct err *e)
{
    struct list *l = acc, *other = from;
    uint32_t i;

    (void)e;
    if (l->over != 0 || other->over != 0 ||
        (uint64_t)l->n + other->n > a->flags) {
        list_fini(a, from);
        give_up(a, l);
        return 0;
    }
    if (l->n == 0) {
        list_fini(a, l);
        *l = *other;
    } else {
        for (i = 0; i < other->n; i++)
            *push(l) = other->at[i];
        free(other->at);
    }
    list_init(a, from);
    return 0;
}

static int
order(const void *pa, const void *pb, void *arg)
{
    const struct item *a = pa, *b = pb;
    struct rec x = {
        .topic = a->topic, .partition = a->partition, .offset = a->offset};
    struct rec y = {
        .topic = b->topic, .partition = b->partition, .offset = b->offset};
    struct val va, vb;
    int c;

    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    c = rec_origin_cmp(&x, &y);
    if (c != 0)
        return c;
    va = sval_get(&a->v);
    vb = sval_get(&b->v);
    return agg_value_cmp(arg, &va, &vb);
}

/* Putting the values in order changes nothing that can be told. */
static const struct list *
sorted(const struct agg *a, const void *acc)
{
    struct list *l = (struct list *)(uintptr_t)acc;

    if (l->sorted == 0 && l->n > 1)
        qsort_r(l->at, l->n, sizeof *l->at, order, (void *)(uintptr_t)a);
    l->sorted = 1;
    return l;
}

static int
list_result(const struct agg *a, const void *acc, struct buf *out, bool *ext,
            struct err *e)
{
    const struct list *l = sorted(a, acc);
    char label[AGG_LABEL_MAX];
    uint32_t i;

    if (l->over != 0) {
        int r = err_record(e, CAUSE_OVERFLOW, "%s: more than %u values",
                           agg_label(a, label), a->flags);

        err_hint(e, "limit = n of collect allows more");
        return r;
    }
    if (l->n == 0) {
        buf_adds(out, "null");
        return 0;
    }
    for (i = 0; i < l->n; i++) {
        struct val v = sval_get(&l->at[i].v);

        buf_addc(out, i == 0 ? '[' : ',');
        val_put_json(out, &v, ext);
    }
    buf_addc(out, ']');
    return 0;
}

static int
list_encode(const struct agg *a, const void *acc, struct buf *out,
            struct err *e)
{
    const struct list *l = sorted(a, acc);
    uint32_t i;

    (void)e;
    buf_addc(out, (char)l->over);
    codec_put_u32(out, l->n);
    for (i = 0; i < l->n; i++) {
        const struct item *x = &l->at[i];
        const char *topic = topic_name(x->topic);

        codec_put_u64(out, (uint64_t)x->ts);
        codec_put_u64(out, (uint64_t)x->offset);
        codec_put_u32(out, (uint32_t)x->partition);
        codec_put_bytes(out, topic, strlen(topic));
        sval_encode(&x->v, out);
    }
    return 0;
}

static bool
decode_item(struct list *l, const char **p, const char *end)
{
    uint64_t ts, offset;
    uint32_t partition, len;
    const char *topic;
    struct item *i;
    char *name;

    if (!codec_u64(p, end, &ts) || !codec_u64(p, end, &offset) ||
        !codec_u32(p, end, &partition) || !codec_bytes(p, end, &topic, &len))
        return false;
    i = push(l);
    name = mem_dup(topic, len);
    i->topic = topic_register(name);
    free(name);
    i->ts = (int64_t)ts;
    i->offset = (int64_t)offset;
    i->partition = (int32_t)partition;
    return sval_decode(&i->v, p, end);
}

static int
list_decode(const struct agg *a, void *acc, const char *bytes, size_t len,
            struct err *e)
{
    const char *end = bytes + len;
    struct list *l = acc;
    uint8_t over;
    uint32_t n, i;

    if (!codec_u8(&bytes, end, &over) || !codec_u32(&bytes, end, &n) ||
        over > 1 || (over != 0 && n != 0))
        return agg_damaged(a, e);
    l->over = over;
    for (i = 0; i < n && decode_item(l, &bytes, end); i++)
        continue;
    if (i != n || bytes != end) {
        list_fini(a, acc);
        return agg_damaged(a, e);
    }
    if (l->n > a->flags) /* the limit was another one */
        give_up(a, l);
    return 0;
}

static size_t
list_heap(const struct agg *a, const void *acc)
{
    const struct list *l = acc;
    size_t bytes = l->cap * sizeof *l->at;
    uint32_t i;

    (void)a;
    for (i = 0; i < l->n; i++)
        bytes += sval_heap(&l->at[i].v);
    return bytes;
}

static void
list_dup(const struct agg *a, const void *acc, void *to)
{
    const struct list *l = acc;
    struct list *copy = to;
    uint32_t i;

    list_init(a, to);
    for (i = 0; i < l->n; i++) {
        struct item *x = push(copy);

        *x = l->at[i];
        sval_dup(&l->at[i].v, &x->v);
    }
    copy->over = l->over;
    copy->sorted = l->sorted;
}

const struct agg_type agg_collect_type = {
    .name = "collect",
    .size = list_size,
    .init = list_init,
    .add = list_add,
    .merge = list_merge,
    .result = list_result,
    .encode = list_encode,
    .decode = list_decode,
    .fini = list_fini,
    .heap = list_heap,
    .movable = true,
    .check = agg_check_any,
    .dup = list_dup,
};
