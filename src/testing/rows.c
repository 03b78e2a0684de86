#include "testing/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "script/test.h"
#include "testing/value.h"

enum { FILE_MAX = 64 << 20 }; /* bytes of a file of rows */

static struct opt *
tombstone_of(struct opt *fields, struct arena *a)
{
    struct opt *o = opt_new_list(a);

    opt_add(a, o, NULL, fields);
    o->type = OPT_FUNC;
    o->i = TEST_TOMBSTONE;
    return o;
}

static struct opt *
row_with_meta(const struct sim_row *row, struct opt *fields, struct arena *a)
{
    struct opt *o = opt_new_map(a), *flag;

    opt_add(a, o, "value", fields);
    if (row->has_key)
        opt_add(a, o, "key", opt_new_str(a, row->key, row->key_len));
    if (row->has_ts)
        opt_add(a, o, "timestamp", opt_new_int(a, row->ts));
    if (row->tombstone) {
        flag = opt_new(a);
        flag->type = OPT_BOOL;
        flag->i = 1;
        opt_add(a, o, "tombstone", flag);
    }
    value_sort(o);
    return o;
}

int
rows_take(const struct rows_conf *conf, struct arena *a, struct opt **ret,
          struct err *e)
{
    struct opt *list = opt_new_list(a), *fields;
    struct sim_row *rows;
    uint32_t count, i;
    int r;

    r = sim_take(conf->sim, conf->sink, a, &rows, &count, e);
    if (r != 0)
        return r;
    for (i = 0; i < count; i++) {
        r = value_from_json(rows[i].json, rows[i].json_len, a, &fields, e);
        if (r != 0)
            return r;
        if (conf->meta)
            fields = row_with_meta(&rows[i], fields, a);
        else if (rows[i].tombstone)
            fields = tombstone_of(fields, a);
        opt_add(a, list, NULL, fields);
    }
    *ret = list;
    return 0;
}

int
rows_read(const char *text, size_t len, struct arena *a, struct opt **ret,
          struct err *e)
{
    struct opt *list = opt_new_list(a), *row;
    size_t at = 0, end, n = 0;
    int r;

    for (; at < len; at = end + 1) {
        for (end = at; end < len && text[end] != '\n'; end++)
            continue;
        n++;
        if (strspn(text + at, " \t\r") >= end - at)
            continue;
        r = value_from_json(text + at, end - at, a, &row, e);
        if (r == 0 && row->type != OPT_MAP)
            r = err_set(e, ERR_USAGE, "a row is a JSON object");
        if (r != 0)
            return err_context(e, "line %zu", n);
        opt_add(a, list, NULL, row);
    }
    *ret = list;
    return 0;
}

/* A whole file, with a NUL behind it. */
static int
read_all(const char *path, struct buf *out, struct err *e)
{
    FILE *f = fopen(path, "rbe");
    char chunk[8192];
    size_t n;
    int r = 0;

    if (f == NULL) {
        r = err_set(e, ERR_IO, "cannot open '%s': %s", path, strerror(errno));
        err_hint(e, "--update writes it");
        return r;
    }
    while (r == 0 && (n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        buf_add(out, chunk, n);
        if (out->len > FILE_MAX)
            r = err_set(e, ERR_IO, "'%s' is larger than 64 MiB", path);
    }
    if (r == 0 && ferror(f))
        r = err_set(e, ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    (void)fclose(f);
    (void)buf_cstr(out);
    return r;
}

int
rows_read_file(const char *path, struct arena *a, struct opt **ret,
               struct err *e)
{
    struct buf text;
    int r;

    buf_init(&text);
    r = read_all(path, &text, e);
    if (r == 0) {
        r = rows_read(buf_cstr(&text), text.len, a, ret, e);
        if (r != 0)
            (void)err_context(e, "%s", path);
    }
    buf_fini(&text);
    return r;
}

static int
compare_lines(const void *va, const void *vb)
{
    const char *const *a = va, *const *b = vb;

    return strcmp(*a, *b);
}

static int
put_lines(const struct opt *rows, bool ordered, struct buf *out, struct err *e)
{
    char **lines = mem_alloc((rows->len + 1) * sizeof *lines);
    const struct opt *row;
    struct buf line;
    size_t n = 0, i;
    int r = 0;

    buf_init(&line);
    for (row = rows->first; row != NULL && r == 0; row = row->next) {
        if (value_has_mark(row))
            r = err_set(e, ERR_USAGE,
                        "a tombstone has no line of its own in a file of "
                        "rows; use { meta = true }");
        buf_clear(&line);
        value_put(&line, row);
        lines[n++] = mem_strdup(buf_cstr(&line));
    }
    if (!ordered)
        qsort(lines, n, sizeof *lines, compare_lines);
    for (i = 0; i < n; i++) {
        buf_adds(out, lines[i]);
        buf_addc(out, '\n');
        free(lines[i]);
    }
    free(lines);
    buf_fini(&line);
    return r;
}

int
rows_write_file(const char *path, const struct opt *rows, bool ordered,
                struct err *e)
{
    struct buf text, old;
    FILE *f;
    bool ok;
    int r;

    buf_init(&text);
    buf_init(&old);
    r = put_lines(rows, ordered, &text, e);
    if (r != 0)
        goto end;
    if (read_all(path, &old, NULL) == 0 && old.len == text.len &&
        (text.len == 0 || memcmp(old.data, text.data, text.len) == 0))
        goto end;
    f = fopen(path, "wbe");
    ok = f != NULL &&
         (text.len == 0 || fwrite(text.data, 1, text.len, f) == text.len);
    if (f != NULL && fclose(f) != 0)
        ok = false;
    if (!ok)
        r = err_set(e, ERR_IO, "cannot write '%s': %s", path, strerror(errno));
end:
    buf_fini(&text);
    buf_fini(&old);
    return r;
}
