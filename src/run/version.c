#include "run/version.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { FORM = 1 };

/* ------------------------------------------------------------ a version */

struct version *
version_new(const char *path, const struct opt *params)
{
    struct version *v = mem_zalloc(sizeof *v);

    v->path = mem_strdup(path);
    v->files = script_files_new();
    arena_init(&v->arena);
    version_set_params(v, NULL, params);
    return v;
}

void
version_free(struct version **vp)
{
    struct version *v = *vp;

    *vp = NULL;
    if (v == NULL)
        return;
    script_files_free(&v->files);
    arena_fini(&v->arena);
    free(v->path);
    free(v);
}

static void
add_param(struct version *v, const char *name, const char *s, size_t len)
{
    opt_add(&v->arena, v->params, name, opt_new_str(&v->arena, s, len));
}

void
version_set_params(struct version *v, const struct opt *from,
                   const struct opt *params)
{
    const struct opt *o;

    v->params = opt_new_map(&v->arena);
    for (o = params != NULL ? params->first : NULL; o != NULL; o = o->next)
        add_param(v, o->name, o->s, o->len);
    for (o = from != NULL ? from->first : NULL; o != NULL; o = o->next)
        if (opt_get(params, o->name) == NULL)
            add_param(v, o->name, o->s, o->len);
}

struct version *
version_dup(const struct version *v, uint64_t number)
{
    struct version *d = version_new(v->path, v->params);
    struct script_files *files = NULL;
    struct buf b;
    struct err e;

    d->number = number;
    d->parallelism = v->parallelism;
    buf_init(&b);
    script_files_put(v->files, &b);
    if (script_files_get(b.data, b.len, &files, &e) != 0)
        abort(); /* it reads what it wrote */
    buf_fini(&b);
    script_files_free(&d->files);
    d->files = files;
    return d;
}

const struct script_file *
version_text(const struct version *v)
{
    size_t i;

    for (i = 0; i < script_files_count(v->files); i++) {
        const struct script_file *f = script_files_at(v->files, i);

        if (f->kind == SCRIPT_FILE_JOB && !f->missing)
            return f;
    }
    return NULL;
}

uint64_t
version_hash(const struct version *v)
{
    uint64_t h = 0;
    size_t i;

    for (i = 0; i < script_files_count(v->files); i++) {
        const struct script_file *f = script_files_at(v->files, i);

        if (!f->missing)
            h = hash_splitmix(h ^ (hash_key(f->text, f->len) + f->kind));
    }
    return h;
}

bool
version_differs(const struct version *v)
{
    const struct script_files *files = v->files;
    struct script_files *now = script_files_new();
    const struct script_file *f;
    bool yes = false;
    struct err e;
    size_t i;

    if (script_files_find(files, SCRIPT_FILE_JOB, v->path) == NULL)
        yes = script_files_read(now, SCRIPT_FILE_JOB, v->path, &f, &e) == 0;
    for (i = 0; i < script_files_count(files) && !yes; i++) {
        const struct script_file *was = script_files_at(files, i);

        if (script_files_read(now, was->kind, was->path, &f, &e) != 0)
            yes = !was->missing;
        else
            yes = was->missing || was->len != f->len ||
                  memcmp(was->text, f->text, f->len) != 0;
    }
    script_files_free(&now);
    return yes;
}

/* ------------------------------------------------------------ the history */

struct version *
history_top(const struct history *h)
{
    return h->count != 0 ? h->items[h->count - 1] : NULL;
}

struct version *
history_below(const struct history *h)
{
    return h->count > 1 ? h->items[h->count - 2] : NULL;
}

static void
forget_oldest(struct history *h)
{
    version_free(&h->items[0]);
    h->count--;
    memmove(h->items, h->items + 1, h->count * sizeof(struct version *));
}

void
history_push(struct history *h, struct version **v)
{
    if (h->count == HISTORY_MAX)
        forget_oldest(h);
    history_forgive(h, version_hash(*v));
    h->items[h->count++] = *v;
    *v = NULL;
}

void
history_back(struct history *h, struct version **v)
{
    uint64_t left = h->count != 0 ? version_hash(history_top(h)) : 0;
    uint32_t i;

    for (i = 0; i < 2 && h->count != 0; i++)
        version_free(&h->items[--h->count]);
    if (left != version_hash(*v))
        history_add_bad(h, left);
    history_push(h, v);
}

void
history_retop(struct history *h, struct version **v)
{
    if (h->count != 0)
        version_free(&h->items[--h->count]);
    h->items[h->count++] = *v;
    *v = NULL;
}

void
history_add_bad(struct history *h, uint64_t hash)
{
    history_forgive(h, hash);
    if (h->bad_count == HISTORY_BAD_MAX) {
        h->bad_count--;
        memmove(h->bad, h->bad + 1, h->bad_count * sizeof h->bad[0]);
    }
    h->bad[h->bad_count++] = hash;
}

void
history_forgive(struct history *h, uint64_t hash)
{
    uint32_t i, n = 0;

    for (i = 0; i < h->bad_count; i++)
        if (h->bad[i] != hash)
            h->bad[n++] = h->bad[i];
    h->bad_count = n;
}

bool
history_is_bad(const struct history *h, uint64_t hash)
{
    uint32_t i;

    for (i = 0; i < h->bad_count; i++)
        if (h->bad[i] == hash)
            return true;
    return false;
}

void
history_fini(struct history *h)
{
    while (h->count != 0)
        version_free(&h->items[--h->count]);
    memset(h, 0, sizeof *h);
}

/* ------------------------------------------------------------- as bytes */

static void
put_u64(struct buf *out, uint64_t n)
{
    unsigned char b[8];
    int i;

    for (i = 0; i < 8; i++)
        b[i] = (unsigned char)(n >> (8 * i));
    buf_add(out, b, sizeof b);
}

static void
put_bytes(struct buf *out, const char *s, size_t len)
{
    put_u64(out, len);
    buf_add(out, s, len);
}

static void
put_version(const struct version *v, struct buf *out)
{
    const struct opt *o;
    struct buf files;

    put_u64(out, v->number);
    put_u64(out, v->parallelism);
    put_bytes(out, v->path, strlen(v->path));
    put_u64(out, v->params->len);
    for (o = v->params->first; o != NULL; o = o->next) {
        put_bytes(out, o->name, strlen(o->name));
        put_bytes(out, o->s, o->len);
    }
    buf_init(&files);
    script_files_put(v->files, &files);
    put_bytes(out, files.data, files.len);
    buf_fini(&files);
}

/* The versions from the newest down, as far as there is room. */
static uint32_t
first_kept(const struct version **list, uint32_t n)
{
    size_t bytes = 0, i;
    uint32_t at = n;

    while (at > 0) {
        const struct version *v = list[at - 1];

        for (i = 0; i < script_files_count(v->files); i++)
            bytes += script_files_at(v->files, i)->len;
        if (at != n && (bytes > HISTORY_BYTES || n - at == HISTORY_MAX))
            break;
        at--;
    }
    return at;
}

void
history_put(const struct history *h, const struct version *next, bool back,
            struct buf *out)
{
    const struct version *list[HISTORY_MAX + 1], *top = history_top(h);
    uint64_t left = back && top != NULL ? version_hash(top) : 0;
    uint64_t good = next != NULL ? version_hash(next) : 0;
    uint32_t i, from, n = h->count, bad = 0;

    memcpy(list, h->items, n * sizeof list[0]);
    if (back)
        n = n > 2 ? n - 2 : 0;
    if (next != NULL)
        list[n++] = next;
    from = first_kept(list, n);
    put_u64(out, FORM);
    put_u64(out, h->attempts);
    put_u64(out, n - from);
    for (i = from; i < n; i++)
        put_version(list[i], out);
    for (i = 0; i < h->bad_count; i++)
        bad += next == NULL || (h->bad[i] != good && h->bad[i] != left);
    put_u64(out, bad + (back && left != good));
    for (i = 0; i < h->bad_count; i++)
        if (next == NULL || (h->bad[i] != good && h->bad[i] != left))
            put_u64(out, h->bad[i]);
    if (back && left != good)
        put_u64(out, left);
}

struct cursor {
    const char *p, *end;
    bool bad;
};

static uint64_t
get_u64(struct cursor *c)
{
    uint64_t n = 0;
    int i;

    if (c->end - c->p < 8) {
        c->bad = true;
        return 0;
    }
    for (i = 0; i < 8; i++)
        n |= (uint64_t)(unsigned char)c->p[i] << (8 * i);
    c->p += 8;
    return n;
}

static const char *
get_bytes(struct cursor *c, size_t *ret_len)
{
    uint64_t n = get_u64(c);
    const char *p = c->p;

    if (c->bad || n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        n = 0;
    }
    c->p += n;
    *ret_len = (size_t)n;
    return p;
}

static struct version *
get_version(struct cursor *c, struct err *e)
{
    struct version *v = version_new("", NULL);
    const char *s, *t;
    char *name;
    size_t len, n;
    uint64_t i, params;

    v->number = get_u64(c);
    v->parallelism = (uint32_t)get_u64(c);
    s = get_bytes(c, &len);
    free(v->path);
    v->path = mem_dup(s, len);
    params = get_u64(c);
    for (i = 0; i < params && !c->bad; i++) {
        s = get_bytes(c, &len);
        name = arena_dup(&v->arena, s, len);
        t = get_bytes(c, &n);
        add_param(v, name, t, n);
    }
    s = get_bytes(c, &len);
    script_files_free(&v->files);
    if (!c->bad && script_files_get(s, len, &v->files, e) != 0)
        c->bad = true;
    if (v->files == NULL)
        v->files = script_files_new();
    return v;
}

int
history_get(const void *bytes, size_t len, struct history *ret, struct err *e)
{
    struct cursor c = {bytes, (const char *)bytes + len, false};
    uint64_t i, n;

    if (get_u64(&c) != FORM)
        return err_set(e, ERR_IO,
                       "the versions of the job are damaged, or of a later "
                       "version");
    ret->attempts = get_u64(&c);
    n = get_u64(&c);
    for (i = 0; i < n && i < HISTORY_MAX && !c.bad; i++)
        ret->items[ret->count++] = get_version(&c, e);
    n = c.bad ? HISTORY_BAD_MAX + 1 : get_u64(&c);
    for (i = 0; i < n && i < HISTORY_BAD_MAX && !c.bad; i++)
        ret->bad[ret->bad_count++] = get_u64(&c);
    if (c.bad || n > HISTORY_BAD_MAX || c.p != c.end)
        return err_set(e, ERR_IO, "the versions of the job are damaged");
    return 0;
}
