#include "core/snapshot.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A change: this head, namespace, key, value. Native byte order: changes
 * never leave the process. */
struct head {
    uint16_t group;
    uint8_t ns_len, del;
    uint32_t key_len, value_len;
};

enum {
    CHUNK = 1 << 20, /* bytes of changes in one buffer, about */
    AT_BITS = 40,    /* of a place: offset below, number of buffer above */
};

struct snapshot *
snapshot_new(uint64_t round)
{
    struct snapshot *s = mem_zalloc(sizeof *s);

    s->round = round;
    return s;
}

void
snapshot_free(struct snapshot **sp)
{
    struct snapshot *s = *sp;
    uint32_t i;

    *sp = NULL;
    if (s == NULL)
        return;
    for (i = 0; i < s->full_count; i++)
        buf_fini(&s->full[i]);
    free(s->full);
    buf_fini(&s->blob);
    buf_fini(&s->changes);
    free(s);
}

/* Begin a new buffer behind a full one: growing by copies would stop the
 * subtask for milliseconds. */
static void
make_room(struct snapshot *s)
{
    if (s->changes.len < CHUNK)
        return;
    mem_grow(&s->full, &s->full_cap, s->full_count + 1u, sizeof *s->full);
    s->full[s->full_count++] = s->changes;
    s->full_bytes += s->changes.len;
    buf_init(&s->changes);
    buf_reserve(&s->changes, CHUNK + CHUNK / 16);
}

static void
put_head(struct snapshot *s, const struct snapshot_key *k, bool del)
{
    struct head h = {.group = k->group,
                     .ns_len = k->ns_len,
                     .del = del,
                     .key_len = k->key_len};

    buf_reserve(&s->changes, sizeof h + k->ns_len + k->key_len);
    buf_add(&s->changes, &h, sizeof h);
    buf_add(&s->changes, k->ns, k->ns_len);
    buf_add(&s->changes, k->key, k->key_len);
}

void
snapshot_put_begin(struct snapshot *s, const struct snapshot_key *k)
{
    make_room(s);
    s->open_value = s->changes.len;
    put_head(s, k, false);
}

void
snapshot_put_end(struct snapshot *s)
{
    struct head h;
    size_t len;

    memcpy(&h, s->changes.data + s->open_value, sizeof h);
    len = s->changes.len - s->open_value - sizeof h - h.ns_len - h.key_len;
    assert(len <= UINT32_MAX);
    h.value_len = (uint32_t)len;
    memcpy(s->changes.data + s->open_value, &h, sizeof h);
    s->puts++;
}

void
snapshot_del(struct snapshot *s, const struct snapshot_key *k)
{
    make_room(s);
    put_head(s, k, true);
    s->dels++;
}

int
snapshot_next(const struct snapshot *s, size_t *at, struct snapshot_change *ret)
{
    size_t i = *at >> AT_BITS, from = *at & (((size_t)1 << AT_BITS) - 1);
    const struct buf *b = i < s->full_count ? &s->full[i] : &s->changes;
    const char *p;
    struct head h;

    if (from >= b->len && i < s->full_count) {
        *at = (i + 1) << AT_BITS;
        return snapshot_next(s, at, ret);
    }
    if (from >= b->len)
        return 0;
    p = b->data + from;
    memcpy(&h, p, sizeof h);
    p += sizeof h;
    ret->key = (struct snapshot_key){.group = h.group,
                                     .ns_len = h.ns_len,
                                     .key_len = h.key_len,
                                     .ns = p,
                                     .key = p + h.ns_len};
    ret->del = h.del != 0;
    ret->value = p + h.ns_len + h.key_len;
    ret->value_len = h.value_len;
    *at += sizeof h + h.ns_len + h.key_len + h.value_len;
    return 1;
}

/* ------------------------------------------------- blobs of a whole round */

enum { RESTORED_VERSION = 1 };

static void
put_u32(struct buf *b, uint32_t v)
{
    unsigned char c[4] = {(unsigned char)v, (unsigned char)(v >> 8),
                          (unsigned char)(v >> 16), (unsigned char)(v >> 24)};

    buf_add(b, c, sizeof c);
}

void
restored_put(const struct restored *r, struct buf *out)
{
    uint32_t i, k;

    put_u32(out, RESTORED_VERSION);
    put_u32(out, (uint32_t)r->round);
    put_u32(out, (uint32_t)(r->round >> 32));
    put_u32(out, r->max_parallelism);
    put_u32(out, r->step_count);
    for (i = 0; i < r->step_count; i++) {
        const struct step_blobs *s = &r->steps[i];

        put_u32(out, (uint32_t)strlen(s->step));
        buf_adds(out, s->step);
        put_u32(out, s->count);
        for (k = 0; k < s->count; k++) {
            put_u32(out, (uint32_t)s->blobs[k].len);
            buf_add(out, s->blobs[k].data, s->blobs[k].len);
        }
    }
}

struct cursor {
    const unsigned char *p, *end;
    bool bad;
};

static uint32_t
get_u32(struct cursor *c)
{
    uint32_t v;

    if (c->bad || c->end - c->p < 4) {
        c->bad = true;
        return 0;
    }
    v = (uint32_t)c->p[0] | (uint32_t)c->p[1] << 8 | (uint32_t)c->p[2] << 16 |
        (uint32_t)c->p[3] << 24;
    c->p += 4;
    return v;
}

static const unsigned char *
get_bytes(struct cursor *c, uint32_t len)
{
    const unsigned char *p = c->p;

    if (c->bad || (size_t)(c->end - c->p) < len) {
        c->bad = true;
        return NULL;
    }
    c->p += len;
    return p;
}

static void
get_step(struct cursor *c, struct step_blobs *s)
{
    uint32_t len = get_u32(c), k;
    const unsigned char *p = get_bytes(c, len);

    if (p == NULL)
        return;
    s->step = mem_zalloc(len + 1u);
    memcpy(s->step, p, len);
    k = get_u32(c);
    if ((size_t)(c->end - c->p) / 4 < k) {
        c->bad = true;
        return;
    }
    s->blobs = mem_zalloc((k + 1u) * sizeof *s->blobs);
    for (; s->count < k && !c->bad; s->count++) {
        len = get_u32(c);
        p = get_bytes(c, len);
        if (p != NULL)
            buf_add(&s->blobs[s->count], p, len);
    }
}

int
restored_read(const void *bytes, size_t len, struct restored *ret,
              struct err *e)
{
    struct cursor c = {.p = bytes, .end = (const unsigned char *)bytes + len};
    uint32_t version = get_u32(&c), i, n;
    uint64_t low = get_u32(&c);

    memset(ret, 0, sizeof *ret);
    ret->round = low | (uint64_t)get_u32(&c) << 32;
    ret->max_parallelism = get_u32(&c);
    n = get_u32(&c);
    if (c.bad || version != RESTORED_VERSION || (size_t)(c.end - c.p) / 8 < n)
        return err_set(e, ERR_IO, "the blobs of the steps are damaged");
    ret->steps = mem_zalloc((n + 1u) * sizeof *ret->steps);
    for (i = 0; i < n && !c.bad; i++) {
        ret->step_count++;
        get_step(&c, &ret->steps[i]);
    }
    if (c.bad || c.p != c.end)
        return err_set(e, ERR_IO, "the blobs of the steps are damaged");
    return 0;
}

void
restored_fini(struct restored *r)
{
    uint32_t i, k;

    for (i = 0; i < r->step_count; i++) {
        for (k = 0; k < r->steps[i].count; k++)
            buf_fini(&r->steps[i].blobs[k]);
        free(r->steps[i].blobs);
        free(r->steps[i].step);
    }
    free(r->steps);
    memset(r, 0, sizeof *r);
}

const struct step_blobs *
restored_find(const struct restored *r, const char *step)
{
    uint32_t i;

    for (i = 0; r != NULL && i < r->step_count; i++)
        if (r->steps[i].step != NULL && strcmp(r->steps[i].step, step) == 0)
            return &r->steps[i];
    return NULL;
}

void
restored_forget(struct restored *r, const char *step)
{
    uint32_t i;

    for (i = 0; i < r->step_count; i++)
        if (r->steps[i].step != NULL && strcmp(r->steps[i].step, step) == 0)
            r->steps[i].step[0] = '\0';
}
