#include "testing/coverage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/test.h"

enum { LINES_MAX = 1 << 24 }; /* a file has no more bytes */

struct lines {
    char *path;
    uint64_t *hits; /* by line number */
    size_t cap;
};

struct coverage {
    struct lines *files;
    size_t count, cap;
};

struct coverage *
coverage_new(void)
{
    struct coverage *c = mem_zalloc(sizeof *c);

    return c;
}

void
coverage_free(struct coverage **pc)
{
    struct coverage *c = *pc;
    size_t i;

    if (c == NULL)
        return;
    *pc = NULL;
    for (i = 0; i < c->count; i++) {
        free(c->files[i].path);
        free(c->files[i].hits);
    }
    free(c->files);
    free(c);
}

static struct lines *
find(struct coverage *c, const char *path)
{
    struct lines *f;
    size_t i;

    for (i = c->count; i > 0; i--)
        if (strcmp(c->files[i - 1].path, path) == 0)
            return &c->files[i - 1];
    mem_grow(&c->files, &c->cap, c->count + 1, sizeof *c->files);
    f = &c->files[c->count++];
    *f = (struct lines){.path = mem_strdup(path)};
    return f;
}

void
coverage_file(struct coverage *c, const char *path)
{
    (void)find(c, path);
}

/* Make room for a line number. */
static uint64_t *
line_of(struct lines *f, int line)
{
    size_t old = f->cap;

    if (line < 1 || line > LINES_MAX)
        return NULL;
    if ((size_t)line >= f->cap) {
        mem_grow(&f->hits, &f->cap, (size_t)line + 1, sizeof *f->hits);
        memset(f->hits + old, 0, (f->cap - old) * sizeof *f->hits);
    }
    return &f->hits[line];
}

void
coverage_line(void *arg, const char *path, int line)
{
    uint64_t *hits = line_of(find(arg, path), line);

    if (hits != NULL)
        ++*hits;
}

/* `arg`: a struct lines whose hits say which lines there are. */
static void
note_line(void *arg, int line)
{
    uint64_t *known = line_of(arg, line);

    if (known != NULL)
        *known = 1;
}

static int
put_file(const struct lines *f, struct buf *out, struct err *e)
{
    struct lines can = {0};
    size_t i, len, found = 0, hit = 0;
    uint64_t n;
    char *text;
    int r;

    r = script_read_file(f->path, &text, &len, e);
    if (r != 0)
        return r;
    r = script_lines(text, len, note_line, &can, e);
    free(text);
    if (r != 0) {
        err_where(e, "%s", f->path);
        goto end;
    }
    buf_addf(out, "SF:%s\n", f->path);
    for (i = 1; i < can.cap; i++) {
        if (can.hits[i] == 0)
            continue;
        n = i < f->cap ? f->hits[i] : 0;
        buf_addf(out, "DA:%zu,%" PRIu64 "\n", i, n);
        found++;
        hit += n > 0;
    }
    buf_addf(out, "LF:%zu\nLH:%zu\nend_of_record\n", found, hit);
end:
    free(can.hits);
    return r;
}

int
coverage_put(const struct coverage *c, struct buf *out, struct err *e)
{
    size_t i;
    int r = 0;

    buf_adds(out, "TN:\n");
    for (i = 0; i < c->count && r == 0; i++)
        r = put_file(&c->files[i], out, e);
    return r;
}
