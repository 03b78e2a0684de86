#include "core/rec.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { TOPIC_MAX = 65535, BATCH_FIRST = 64 };

/* Names only grow; a published entry never changes, so readers need no lock.
 * The table is a fixed array so that it never moves. */
static const char *topic_names[TOPIC_MAX];
static uint32_t topic_count;
static pthread_mutex_t topic_lock = PTHREAD_MUTEX_INITIALIZER;

/* Lowest bit of rec.headers: a message whose headers were not read. */
static const uintptr_t DEFERRED = 1;
static rec_headers_read_f *headers_read;

void
batch_init(struct batch *b)
{
    memset(b, 0, sizeof *b);
    arena_init(&b->arena);
}

void
batch_fini(struct batch *b)
{
    free(b->recs);
    free(b->keys);
    arena_fini(&b->arena);
    memset(b, 0, sizeof *b);
}

void
batch_clear(struct batch *b)
{
    b->n = 0;
    arena_reset(&b->arena);
}

struct rec *
batch_add(struct batch *b)
{
    size_t cap = b->cap;
    struct rec *r;

    if (b->n == b->cap) {
        mem_grow(&b->recs, &cap, b->n == 0 ? BATCH_FIRST : b->n + 1u,
                 sizeof *b->recs);
        b->cap = (uint32_t)cap;
    }
    r = &b->recs[b->n++];
    memset(r, 0, sizeof *r);
    return r;
}

struct rec *
batch_add_ref(struct batch *b, const struct rec *r)
{
    struct rec *c = batch_add(b);

    *c = *r;
    return c;
}

static const struct rec_headers *
copy_headers(struct arena *a, const struct rec_headers *h)
{
    struct rec_headers *c;
    uint32_t i;

    if (h == NULL)
        return NULL;
    c = rec_headers_new(a, h->count);
    for (i = 0; i < h->count; i++) {
        const struct rec_header *from = &h->items[i];

        c->items[i] = *from;
        c->items[i].name = arena_dup(a, from->name, from->name_len);
        if (from->value != NULL)
            c->items[i].value = arena_dup(a, from->value, from->value_len);
    }
    return c;
}

struct rec *
batch_add_copy(struct batch *b, const struct rec *r)
{
    struct rec *c = batch_add_ref(b, r);

    c->row = NULL;
    c->row_n = 0;
    if (r->val != NULL)
        c->val = arena_dup(&b->arena, r->val, r->val_len);
    if (r->key != NULL)
        c->key = arena_dup(&b->arena, r->key, r->key_len);
    if (r->headers != NULL)
        c->headers = copy_headers(&b->arena, rec_headers(r, &b->arena));
    return c;
}

void
batch_set_key(struct batch *b, const char *bytes, uint32_t len, uint64_t hash)
{
    size_t cap = b->keys_cap;

    assert(b->n > 0);
    mem_grow(&b->keys, &cap, b->cap, sizeof *b->keys);
    b->keys_cap = (uint32_t)cap;
    b->keys[b->n - 1] = (struct rec_key){
        .bytes = arena_dup(&b->arena, bytes, len), .len = len, .hash = hash};
}

void
rec_headers_reader(rec_headers_read_f *f)
{
    headers_read = f;
}

void
rec_headers_defer(struct rec *r, void *message)
{
    uintptr_t at = (uintptr_t)message;

    assert((at & DEFERRED) == 0);
    r->headers = (const struct rec_headers *)(at | DEFERRED);
}

const struct rec_headers *
rec_headers(const struct rec *r, struct arena *a)
{
    uintptr_t at = (uintptr_t)r->headers;

    if ((at & DEFERRED) == 0)
        return r->headers;
    return headers_read((void *)(at & ~DEFERRED), a);
}

struct rec_headers *
rec_headers_new(struct arena *a, uint32_t count)
{
    size_t size =
        sizeof(struct rec_headers) + count * sizeof(struct rec_header);
    struct rec_headers *h = arena_alloc(a, size);

    memset(h, 0, size);
    h->count = count;
    return h;
}

uint16_t
topic_register(const char *name)
{
    uint32_t i;

    (void)pthread_mutex_lock(&topic_lock);
    for (i = 0; i < topic_count; i++)
        if (strcmp(topic_names[i], name) == 0)
            break;
    if (i == topic_count) {
        assert(topic_count < TOPIC_MAX);
        topic_names[topic_count] = mem_strdup(name);
        topic_count++;
    }
    (void)pthread_mutex_unlock(&topic_lock);
    return (uint16_t)i;
}

const char *
topic_name(uint16_t topic)
{
    const char *name = topic_names[topic];

    return name != NULL ? name : "";
}

int
rec_origin_cmp(const struct rec *a, const struct rec *b)
{
    int c;

    if (a->topic != b->topic) {
        c = strcmp(topic_name(a->topic), topic_name(b->topic));
        if (c != 0)
            return c;
    }
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return 0;
}
