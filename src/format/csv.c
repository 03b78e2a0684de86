#include "format/csv.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void
add_field(struct csv *c, const char *name, size_t len, enum csv_type type)
{
    struct csv_field *f;

    mem_grow(&c->fields, &c->cap, c->count + 1, sizeof *c->fields);
    f = &c->fields[c->count++];
    f->name = mem_dup(name, len);
    f->name_len = len;
    f->type = type;
}

static bool
read_type(const char *text, enum csv_type *ret)
{
    static const char *const names[] = {"string", "int", "float", "bool"};
    unsigned i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum csv_type)i;
            return true;
        }
    return false;
}

static int
read_field(struct csv *c, const struct opt *o, struct err *e)
{
    const char *name = o->type == OPT_STR ? o->s : opt_str(o, "name", NULL);
    const char *type = o->type == OPT_STR ? NULL : opt_str(o, "type", NULL);
    enum csv_type t = CSV_STRING;
    const char *colon;
    size_t len, i;

    if (name == NULL)
        return err_set(e, ERR_JOBFILE, "a CSV field has no name");
    len = strlen(name);
    colon = o->type == OPT_STR ? strrchr(name, ':') : NULL;
    if (colon != NULL) {
        type = colon + 1;
        len = (size_t)(colon - name);
    }
    if (type != NULL && !read_type(type, &t))
        return err_set(e, ERR_JOBFILE,
                       "CSV field '%.*s' has type '%s', expected string, "
                       "int, float or bool",
                       (int)len, name, type);
    if (len == 0)
        return err_set(e, ERR_JOBFILE, "a CSV field has an empty name");
    for (i = 0; i < c->count; i++)
        if (c->fields[i].name_len == len &&
            memcmp(c->fields[i].name, name, len) == 0)
            return err_set(e, ERR_JOBFILE, "CSV field '%.*s' stands twice",
                           (int)len, name);
    add_field(c, name, len, t);
    return 0;
}

int
csv_new(const struct opt *opts, struct csv **ret, struct err *e)
{
    struct csv *c = mem_zalloc(sizeof *c);
    const char *delimiter = opt_str(opts, "delimiter", ",");
    const struct opt *fields = opt_get(opts, "fields"), *o;
    int r = 0;

    buf_init(&c->line);
    c->header = c->header_next = opt_bool(opts, "header", false);
    c->delimiter = delimiter[0];
    if (strlen(delimiter) != 1 || strchr("\"\r\n", delimiter[0]) != NULL)
        r = err_set(e, ERR_JOBFILE,
                    "delimiter must be one byte and no quote or line end, "
                    "got '%s'",
                    delimiter);
    for (o = fields != NULL ? fields->first : NULL; o != NULL && r == 0;
         o = o->next)
        r = read_field(c, o, e);
    c->declared = c->count != 0;
    if (r == 0 && !c->declared && !c->header)
        r = err_set(e, ERR_JOBFILE,
                    "format \"csv\" needs fields or header=true");
    if (r != 0) {
        csv_free(&c);
        return r;
    }
    *ret = c;
    return 0;
}

void
csv_free(struct csv **c)
{
    size_t i;

    if (*c == NULL)
        return;
    for (i = 0; i < (*c)->count; i++)
        free((*c)->fields[i].name);
    free((*c)->fields);
    buf_fini(&(*c)->line);
    free(*c);
    *c = NULL;
}

/* One cell from *p on into `cell`; *p moves to its delimiter or the end. */
static int
read_cell(const struct csv *c, const char **p, const char *end,
          struct buf *cell, bool *ret_quoted, struct err *e)
{
    const char *s = *p, *q;

    buf_clear(cell);
    *ret_quoted = s < end && *s == '"';
    if (!*ret_quoted) {
        for (q = s; q < end && *q != c->delimiter; q++)
            if (*q == '"')
                return err_record(e, CAUSE_DECODE,
                                  "invalid CSV: a quote inside a cell "
                                  "without quotes");
        buf_add(cell, s, (size_t)(q - s));
        *p = q;
        return 0;
    }
    for (s++;; s = q + 2) {
        q = memchr(s, '"', (size_t)(end - s));
        if (q == NULL)
            return err_record(e, CAUSE_DECODE,
                              "invalid CSV: a quoted cell without end");
        buf_add(cell, s, (size_t)(q - s));
        if (q + 1 == end || q[1] != '"')
            break;
        buf_addc(cell, '"');
    }
    *p = q + 1;
    if (*p < end && **p != c->delimiter)
        return err_record(e, CAUSE_DECODE,
                          "invalid CSV: bytes behind a quoted cell");
    return 0;
}

/* An integer of decimal digits with an optional sign. */
static bool
cell_int(const char *s, size_t len, int64_t *ret)
{
    size_t i = len > 0 && (*s == '-' || *s == '+');
    bool neg = len > 0 && *s == '-';
    uint64_t u = 0;

    if (i == len)
        return false;
    for (; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)s[i] - '0';

        if (digit > 9 || __builtin_mul_overflow(u, 10u, &u) ||
            __builtin_add_overflow(u, digit, &u))
            return false;
    }
    if (u > (uint64_t)INT64_MAX + neg)
        return false;
    *ret = (int64_t)(neg ? 0 - u : u);
    return true;
}

static bool
is_text(const struct buf *b, const char *s)
{
    return b->len == strlen(s) && memcmp(b->data, s, b->len) == 0;
}

/* Append the cell as JSON; @return false if it does not convert. */
static bool
put_json(struct buf *out, const struct csv_field *f, const struct buf *cell)
{
    int64_t i;
    double d;

    switch (f->type) {
    case CSV_STRING:
        json_put_str(out, cell->data, cell->len);
        return true;
    case CSV_INT:
        if (!cell_int(cell->data, cell->len, &i))
            return false;
        json_put_int(out, i);
        return true;
    case CSV_FLOAT:
        i = cell->len > 1 && cell->data[0] == '+' && cell->data[1] != '-';
        if (!num_read_double(cell->data + i, cell->len - (size_t)i, &d))
            return false;
        json_put_double(out, d);
        return true;
    case CSV_BOOL:
        if (!is_text(cell, "true") && !is_text(cell, "false"))
            return false;
        buf_add(out, cell->data, cell->len);
        return true;
    }
    return false;
}

static const char *
type_name(enum csv_type t)
{
    return t == CSV_INT     ? "an int"
           : t == CSV_FLOAT ? "a float"
           : t == CSV_BOOL  ? "a bool"
                            : "a string";
}

static int
count_err(const struct csv *c, size_t cells, struct err *e)
{
    return err_record(e, CAUSE_DECODE, "invalid CSV: %s%zu cells, expected %zu",
                      cells > c->count ? "at least " : "", cells, c->count);
}

static int
read_cells(struct csv *c, const char *p, const char *end, struct buf *cell,
           struct err *e)
{
    struct buf *out = &c->line;
    size_t i = 0;
    bool quoted;

    for (;; p++, i++) {
        const struct csv_field *f = &c->fields[i];

        if (i == c->count)
            return count_err(c, i + 1, e);
        if (read_cell(c, &p, end, cell, &quoted, e) != 0)
            return ERR_RECORD;
        json_put_name(out, f->name, f->name_len);
        if (cell->len == 0 && (!quoted || f->type != CSV_STRING))
            buf_adds(out, "null");
        else if (!put_json(out, f, cell))
            return err_record(e, CAUSE_DECODE,
                              "invalid CSV: cell '%.*s' of field '%s' is "
                              "not %s",
                              (int)(cell->len > 100 ? 100 : cell->len),
                              cell->data, f->name, type_name(f->type));
        if (p == end)
            return i + 1 == c->count ? 0 : count_err(c, i + 1, e);
    }
}

/* The line of names: learned, or held against the declared ones. */
static int
read_header(struct csv *c, const char *p, const char *end, struct err *e)
{
    struct buf cell;
    size_t i = 0;
    bool quoted;
    int r = 0;

    buf_init(&cell);
    if (!c->declared)
        while (c->count > 0)
            free(c->fields[--c->count].name);
    for (;; p++, i++) {
        r = read_cell(c, &p, end, &cell, &quoted, e);
        if (r != 0)
            break;
        if (!c->declared)
            add_field(c, cell.len != 0 ? cell.data : "", cell.len, CSV_STRING);
        else if (i >= c->count || !is_text(&cell, c->fields[i].name))
            r = err_record(e, CAUSE_DECODE,
                           "invalid CSV: column %zu of the header is '%.*s'",
                           i + 1, (int)(cell.len > 100 ? 100 : cell.len),
                           cell.len != 0 ? cell.data : "");
        if (r != 0 || p == end)
            break;
    }
    if (r == 0 && i + 1 != c->count)
        r = count_err(c, i + 1, e);
    buf_fini(&cell);
    return r;
}

int
csv_read(struct csv *c, const char *line, size_t len, struct arena *a,
         struct rec *r, struct err *e)
{
    struct buf cell;
    int rc;

    if (len > 0 && line[len - 1] == '\r')
        len--;
    if (c->header_next) {
        c->header_next = false;
        return read_header(c, line, line + len, e);
    }
    if (len == 0 && c->count != 1)
        return 0;
    buf_init(&cell);
    buf_reserve(&cell, len);
    buf_clear(&c->line);
    buf_addc(&c->line, '{');
    rc = read_cells(c, line, line + len, &cell, e);
    buf_addc(&c->line, '}');
    buf_fini(&cell);
    if (rc != 0)
        return rc;
    r->val = arena_dup(a, c->line.data, c->line.len);
    r->val_len = (uint32_t)c->line.len;
    r->kind = REC_OBJECT;
    return 1;
}

void
csv_put_cell(char delimiter, struct buf *out, const char *s, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++)
        if (s[i] == '"' || s[i] == '\n' || s[i] == '\r' || s[i] == delimiter)
            break;
    if (i == len && len != 0) {
        buf_add(out, s, len);
        return;
    }
    buf_addc(out, '"');
    for (i = 0; i < len; i++) {
        if (s[i] == '"')
            buf_addc(out, '"');
        buf_addc(out, s[i]);
    }
    buf_addc(out, '"');
}

char
csv_delimiter(const struct csv *c)
{
    return c->delimiter;
}

void
csv_put_header(const struct csv *c, struct buf *out)
{
    size_t i;

    for (i = 0; i < c->count; i++) {
        if (i > 0)
            buf_addc(out, c->delimiter);
        csv_put_cell(c->delimiter, out, c->fields[i].name,
                     c->fields[i].name_len);
    }
}
