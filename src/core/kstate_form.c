/*
 * The form of keyed state in the store: namespaces, keys, heads of values.
 */
#include "core/kstate_impl.h"

enum { HEAD_SIZE = 2, TIME_SIZE = 8, LEN_SIZE = 4 };

/* ---- numbers ---- */

void
kform_u32be(unsigned char p[4], uint32_t v)
{
    int i;

    for (i = 3; i >= 0; i--, v >>= 8)
        p[i] = (unsigned char)v;
}

uint32_t
kform_read_u32be(const void *from)
{
    const unsigned char *p = from;

    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

void
kform_u64(struct buf *out, uint64_t v)
{
    blob_put(out, v, 8);
}

static uint64_t
read_le(const void *from, int n)
{
    const unsigned char *p = from;
    uint64_t v = 0;

    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

/* ---- namespaces and keys ---- */

void
kform_ns_state(unsigned char ns[KSTATE_NS_SIZE], uint32_t id)
{
    memset(ns, 0, KSTATE_NS_SIZE);
    ns[0] = (unsigned char)(NS_STATE + id);
}

void
kform_ns_timer(unsigned char ns[KSTATE_NS_SIZE], enum kstate_clock clock,
               int64_t ts)
{
    uint64_t u = (uint64_t)ts ^ UINT64_C(1) << 63;

    memset(ns, 0, KSTATE_NS_SIZE);
    ns[0] = clock == KSTATE_EVENT ? NS_EVENT : NS_PROCESSING;
    kform_u32be(ns + 1, (uint32_t)(u >> 32));
    kform_u32be(ns + 5, (uint32_t)u);
}

void
kform_frame(struct buf *out, const struct kstate_bytes *key, const void *part,
            uint32_t part_len)
{
    unsigned char len[LEN_SIZE];

    buf_clear(out);
    kform_u32be(len, key->len);
    buf_add(out, len, sizeof len);
    buf_add(out, key->p, key->len);
    buf_add(out, part, part_len);
}

void
kform_head(struct buf *out, unsigned flags, int64_t time)
{
    buf_addc(out, FORM_VERSION);
    buf_addc(out, (char)flags);
    if ((flags & FORM_TIME) != 0)
        kform_u64(out, (uint64_t)time);
}

int
kstate_stored_id(const void *ns)
{
    unsigned char c = *(const unsigned char *)ns;

    return c < NS_STATE ? -1 : c - NS_STATE;
}

/* ---- reading ---- */

static int
damaged(struct err *e)
{
    return err_set(e, ERR_IO, "the state of a function is damaged");
}

/* Take a framed key apart. */
static bool
read_frame(const struct kstate_entry *v, struct kstate_stored *ret)
{
    const char *p = v->key;
    uint32_t len;

    if (v->key_len < LEN_SIZE)
        return false;
    len = kform_read_u32be(p);
    if (len > v->key_len - LEN_SIZE)
        return false;
    ret->key = (struct kstate_bytes){p + LEN_SIZE, len};
    ret->part =
        (struct kstate_bytes){p + LEN_SIZE + len, v->key_len - LEN_SIZE - len};
    return true;
}

static int
read_timer(const struct kstate_entry *v, struct kstate_stored *ret,
           struct err *e)
{
    const unsigned char *ns = v->ns;
    uint64_t u =
        (uint64_t)kform_read_u32be(ns + 1) << 32 | kform_read_u32be(ns + 5);

    if ((ns[0] != NS_EVENT && ns[0] != NS_PROCESSING) || v->value_len != 1 ||
        *(const char *)v->value != FORM_VERSION)
        return damaged(e);
    ret->what = KSTATE_IS_TIMER;
    ret->clock = ns[0] == NS_EVENT ? KSTATE_EVENT : KSTATE_PROCESSING;
    ret->ts = (int64_t)(u ^ UINT64_C(1) << 63);
    return 0;
}

int
kstate_stored_read(const struct kstate_entry *v, enum kstate_kind kind,
                   struct kstate_stored *ret, struct err *e)
{
    const unsigned char *p = v->value;
    size_t left = v->value_len;
    unsigned flags;

    memset(ret, 0, sizeof *ret);
    ret->time = KSTATE_NO_TIME;
    ret->key = (struct kstate_bytes){v->key, v->key_len};
    if (kstate_stored_id(v->ns) < 0)
        return read_timer(v, ret, e);
    ret->id = (uint32_t)kstate_stored_id(v->ns);
    if ((kind == KSTATE_MAP || kind == KSTATE_LIST) && !read_frame(v, ret))
        return damaged(e);
    if (kind == KSTATE_LIST && ret->part.len != LEN_SIZE)
        return damaged(e);
    if (left < HEAD_SIZE || left > UINT32_MAX || p[0] != FORM_VERSION ||
        (p[1] & ~(unsigned)FORM_ALL) != 0)
        return damaged(e);
    flags = p[1];
    ret->clock = (flags & FORM_CLOCK) != 0 ? KSTATE_PROCESSING : KSTATE_EVENT;
    ret->lost = (flags & FORM_LOST) != 0;
    ret->elements = kind == KSTATE_LIST;
    p += HEAD_SIZE;
    left -= HEAD_SIZE;
    if ((flags & FORM_TIME) != 0 && kind == KSTATE_LIST) {
        ret->has_times = true;
    } else if ((flags & FORM_TIME) != 0) {
        if (left < TIME_SIZE)
            return damaged(e);
        ret->time = (int64_t)read_le(p, TIME_SIZE);
        p += TIME_SIZE;
        left -= TIME_SIZE;
    }
    ret->value = (struct kstate_bytes){p, (uint32_t)left};
    return 0;
}

int
kstate_stored_element(struct kstate_stored *s, struct kstate_bytes *ret,
                      struct err *e)
{
    const char *p = s->value.p;
    uint32_t left = s->value.len, head = LEN_SIZE, len;

    if (left == 0)
        return 0;
    if (s->has_times)
        head += TIME_SIZE;
    if (left < head)
        return damaged(e);
    len = (uint32_t)read_le(p, LEN_SIZE);
    if (len > left - head)
        return damaged(e);
    if (s->has_times)
        s->time = (int64_t)read_le(p + LEN_SIZE, TIME_SIZE);
    *ret = (struct kstate_bytes){p + head, len};
    s->value = (struct kstate_bytes){p + head + len, left - head - len};
    return 1;
}

/* ---- rewriting ---- */

/* Append what `f` makes of a value. */
static int
rewrite_one(kstate_rewrite_f *f, void *arg, const struct kstate_bytes *old,
            struct buf *out, struct err *e)
{
    size_t at = out->len;
    int r = f(arg, old, out, e);

    if (r == 0 && out->len - at > KSTATE_VALUE_MAX)
        r = err_record(e, CAUSE_USER_ERROR, "a value above 64 MiB");
    return r;
}

int
kstate_stored_rewrite(const struct kstate_stored *s, kstate_rewrite_f *f,
                      void *arg, struct buf *out, struct err *e)
{
    struct kstate_stored in = *s;
    bool timed = s->has_times || s->time != KSTATE_NO_TIME;
    struct kstate_bytes b;
    int r;

    kform_head(out,
               (timed ? FORM_TIME : 0u) |
                   (s->clock == KSTATE_PROCESSING ? FORM_CLOCK : 0u) |
                   (s->lost ? FORM_LOST : 0u),
               s->time);
    if (!s->elements)
        return rewrite_one(f, arg, &s->value, out, e);
    out->len -= timed ? TIME_SIZE : 0; /* each element has its own */
    while ((r = kstate_stored_element(&in, &b, e)) > 0) {
        size_t at = out->len, len;
        unsigned char *p;

        blob_put(out, 0, LEN_SIZE);
        if (s->has_times)
            kform_u64(out, (uint64_t)in.time);
        len = out->len;
        r = rewrite_one(f, arg, &b, out, e);
        if (r != 0)
            return r;
        len = out->len - len;
        for (p = (unsigned char *)out->data + at;
             p < (unsigned char *)out->data + at + LEN_SIZE; p++, len >>= 8)
            *p = (unsigned char)len;
    }
    return r;
}
