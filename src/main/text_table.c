#include "main/text_table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { GAP = 2 };

void
text_table_init(struct text_table *t)
{
    memset(t, 0, sizeof *t);
}

void
text_table_fini(struct text_table *t)
{
    size_t i;

    for (i = 0; i < t->n; i++)
        free(t->cells[i]);
    free(t->cells);
    memset(t, 0, sizeof *t);
}

static bool
is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Characters in the first `len` bytes. */
static size_t
width(const char *s, size_t len)
{
    size_t n = 0, i;

    for (i = 0; i < len; i++)
        n += !is_continuation(s[i]);
    return n;
}

/* C0 controls, DEL and C1 controls (0xc2 0x80..0x9f). */
static bool
is_control(const char *s, const char *end)
{
    unsigned char c = (unsigned char)s[0];

    return c < 0x20 || c == 0x7f ||
           (c == 0xc2 && s + 1 < end && (unsigned char)s[1] < 0xa0);
}

void
text_put_shown(struct buf *out, const char *text, size_t len, size_t max)
{
    const char *end = text + len;
    size_t shown = 0;

    while (text < end) {
        const char *next = text + 1;

        while (next < end && is_continuation(*next))
            next++;
        if (++shown > max) {
            buf_adds(out, "...");
            break;
        }
        if (is_control(text, end))
            buf_addc(out, '?');
        else
            buf_add(out, text, (size_t)(next - text));
        text = next;
    }
}

void
text_table_cell(struct text_table *t, const char *text, size_t len)
{
    struct buf b;

    buf_init(&b);
    text_put_shown(&b, text, len, TEXT_CELL_MAX);
    mem_grow(&t->cells, &t->cap, t->n + 1, sizeof(char *));
    t->cells[t->n++] = mem_strdup(buf_cstr(&b));
    buf_fini(&b);
}

void
text_table_head(struct text_table *t, const char *name)
{
    assert(t->n == t->columns);
    text_table_cell(t, name, strlen(name));
    t->columns++;
}

/* Whether all cells below the head are numbers, or nothing. */
static bool
is_numeric(const struct text_table *t, size_t column)
{
    size_t i;

    for (i = column + t->columns; i < t->n; i += t->columns)
        if (t->cells[i][strspn(t->cells[i], "+-0123456789.e")] != '\0')
            return false;
    return true;
}

static void
put_spaces(struct buf *out, size_t n)
{
    while (n-- > 0)
        buf_addc(out, ' ');
}

void
text_table_put(const struct text_table *t, struct buf *out)
{
    size_t *widths = mem_zalloc((t->columns + 1) * sizeof *widths);
    bool *right = mem_zalloc((t->columns + 1) * sizeof *right);
    size_t i, w, column;

    assert(t->columns > 0 && t->n % t->columns == 0);
    for (i = 0; i < t->n; i++) {
        w = width(t->cells[i], strlen(t->cells[i]));
        if (w > widths[i % t->columns])
            widths[i % t->columns] = w;
    }
    for (i = 0; i < t->columns; i++)
        right[i] = is_numeric(t, i);
    for (i = 0; i < t->n; i++) {
        column = i % t->columns;
        w = widths[column] - width(t->cells[i], strlen(t->cells[i]));
        if (right[column])
            put_spaces(out, w);
        buf_adds(out, t->cells[i]);
        if (column + 1 == t->columns)
            buf_addc(out, '\n');
        else
            put_spaces(out, GAP + (right[column] ? 0 : w));
    }
    free(widths);
    free(right);
}
