#include "main/state_print.h"

#include <string.h>

#include "format/json.h"
#include "format/time_text.h"
#include "main/text_table.h"
#include "inspect/keyed.h"

static void
put_time(struct text_table *t, int64_t ms)
{
    char text[TIME_TEXT_MAX];

    text_table_cell(t, text, time_text_format(ms, text));
}

/* The members of a JSON object, a cell each. */
static void
put_cells(struct text_table *t, const char *object, size_t count)
{
    struct json_walk w;
    struct arena a;
    struct val name, value;
    const char *raw;
    size_t len, n = 0;
    struct err e;

    arena_init(&a);
    json_walk_init(&w, object, strlen(object), BIGINT_FLOAT, &a);
    while (n < count &&
           json_walk_next(&w, &name, &value, &raw, &len, &e) == 1) {
        text_table_cell(t, raw, len);
        n++;
    }
    for (; n < count; n++)
        text_table_cell(t, "", 0);
    arena_fini(&a);
}

/* A handle and its value, or a timer and its time. */
static void
put_keyed(struct text_table *t, const struct state_row *row)
{
    const char *value = row->value != NULL ? row->value : row->error;

    if (row->timer == NULL) {
        text_table_cell(t, row->state, strlen(row->state));
        text_table_cell(t, value, strlen(value));
        return;
    }
    value = row->timer[0] == 'e' ? "event timer" : "processing timer";
    text_table_cell(t, value, strlen(value));
    put_time(t, row->start);
}

static void
put_row(struct text_table *t, const struct state_step *s,
        const struct state_row *row)
{
    const struct opt *key = opt_get(s->desc, "key");
    struct buf b;
    uint32_t i;

    buf_init(&b);
    state_put_key(&b, s, row);
    put_cells(t, buf_cstr(&b), key != NULL ? key->len : 0);
    buf_fini(&b);
    if (state_is_keyed(s->desc)) {
        put_keyed(t, row);
        return;
    }
    if (state_has_window(s)) {
        put_time(t, row->start);
        put_time(t, row->end);
    }
    if (row->value != NULL) {
        put_cells(t, row->value, s->set->count);
        return;
    }
    for (i = 0; i < s->set->count; i++)
        text_table_cell(t, i == 0 ? row->error : "",
                        i == 0 ? strlen(row->error) : 0);
}

void
state_put_table(struct buf *out, const struct state_step *s,
                const struct state_rows *rows)
{
    const struct opt *c = opt_get(s->desc, "key");
    struct text_table t;
    uint32_t i;
    size_t n;

    text_table_init(&t);
    for (c = c != NULL ? c->first : NULL; c != NULL; c = c->next)
        text_table_head(&t, opt_str(c, "name", ""));
    if (state_has_window(s)) {
        text_table_head(&t, "window_start");
        text_table_head(&t, "window_end");
    }
    if (state_is_keyed(s->desc)) {
        text_table_head(&t, "state");
        text_table_head(&t, "value");
    }
    for (i = 0; s->set != NULL && i < s->set->count; i++)
        text_table_head(&t, s->set->aggs[i].name);
    for (n = 0; n < rows->n; n++)
        put_row(&t, s, &rows->items[n]);
    text_table_put(&t, out);
    text_table_fini(&t);
}
