#include "main/state_diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "main/state_print.h"
#include "main/text_table.h"

struct side {
    struct state_step step;
    struct state_rows rows; /* of the part under comparison */
    bool there;             /* it has the step, opened */
};

struct diff {
    struct side a, b;
    struct state_rows lines; /* value: the line */
    bool json, limited;
    size_t left; /* lines that may still be printed, if limited */
    struct state_diff *count;
    struct buf buf;
};

/* --- lines ---------------------------------------------------------------- */

static void
put_side(struct buf *out, const struct state_row *row)
{
    if (row == NULL) {
        buf_adds(out, "null");
    } else if (row->value != NULL) {
        buf_adds(out, row->value);
    } else {
        buf_adds(out, "{\"error\":");
        json_put_str(out, row->error, strlen(row->error));
        buf_addc(out, '}');
    }
}

static void
put_json(struct diff *d, const struct side *s, const struct state_row *a,
         const struct state_row *b)
{
    const char *which = b == NULL ? "a" : a == NULL ? "b" : "changed";
    struct buf *out = &d->buf;

    buf_addc(out, '{');
    json_put_name(out, "diff", 4);
    json_put_str(out, which, strlen(which));
    state_put_head(out, &s->step, a != NULL ? a : b);
    json_put_name(out, "a", 1);
    put_side(out, a);
    json_put_name(out, "b", 1);
    put_side(out, b);
    buf_addc(out, '}');
}

static void
put_text(struct diff *d, const struct side *s, const struct state_row *a,
         const struct state_row *b)
{
    const struct state_row *row = a != NULL ? a : b;
    struct buf raw;

    buf_init(&raw);
    buf_addf(&raw, "%c %s ",
             b == NULL   ? '-'
             : a == NULL ? '+'
                         : '~',
             s->step.name);
    state_put_key(&raw, &s->step, row);
    buf_addc(&raw, ' ');
    if (row->state != NULL)
        buf_addf(&raw, "%s ", row->state);
    else if (row->timer != NULL)
        buf_addf(&raw, "%s timer %lld ", row->timer, (long long)row->start);
    else if (s->step.window.kind != WINDOW_GLOBAL)
        buf_addf(&raw, "[%lld, %lld) ", (long long)row->start,
                 (long long)row->end);
    put_side(&raw, row);
    if (a != NULL && b != NULL) {
        buf_adds(&raw, " -> ");
        put_side(&raw, b);
    }
    text_put_shown(&d->buf, raw.data, raw.len, SIZE_MAX);
    buf_fini(&raw);
}

/* One of a and b may be NULL: that side lacks the row. */
static void
add_line(struct diff *d, const struct state_row *a, const struct state_row *b)
{
    const struct side *s = a != NULL ? &d->a : &d->b;
    const struct state_row *row = a != NULL ? a : b;
    struct state_row line = {.state = row->state,
                             .timer = row->timer,
                             .start = row->start,
                             .end = row->end};

    if (b == NULL)
        d->count->only_a++;
    else if (a == NULL)
        d->count->only_b++;
    else
        d->count->changed++;
    if (d->limited && d->left == 0)
        return;
    buf_clear(&d->buf);
    if (d->json)
        put_json(d, s, a, b);
    else
        put_text(d, s, a, b);
    line.value = mem_strdup(buf_cstr(&d->buf));
    line.key_len = row->key_len;
    line.key = mem_dup(row->key, row->key_len);
    state_rows_take(&d->lines, &line);
}

/* --- comparing ------------------------------------------------------------ */

static bool
is_same(const struct state_row *a, const struct state_row *b)
{
    if ((a->value == NULL) != (b->value == NULL))
        return false;
    return a->value != NULL ? strcmp(a->value, b->value) == 0
                            : strcmp(a->error, b->error) == 0;
}

static void
merge(struct diff *d)
{
    struct state_rows *ra = &d->a.rows, *rb = &d->b.rows;
    size_t i = 0, k = 0;
    int c;

    while (i < ra->n || k < rb->n) {
        if (i == ra->n)
            c = 1;
        else if (k == rb->n)
            c = -1;
        else
            c = state_row_cmp(&ra->items[i], &rb->items[k]);
        if (c < 0)
            add_line(d, &ra->items[i++], NULL);
        else if (c > 0)
            add_line(d, NULL, &rb->items[k++]);
        else if (!is_same(&ra->items[i++], &rb->items[k++]))
            add_line(d, &ra->items[i - 1], &rb->items[k - 1]);
    }
}

static int
read_side(struct side *s, const struct state_pick *p, struct err *e)
{
    int r;

    state_rows_clear(&s->rows);
    if (!s->there)
        return 0;
    r = state_rows_read(&s->step, p, &s->rows, e);
    state_rows_sort(&s->rows);
    return r;
}

/* A key group at a time, so that no state need be in memory whole; where the
 * groups of the two are not the same, all at once. */
static int
compare_step(struct diff *d, const struct state_view *a,
             const struct state_view *b, struct err *e)
{
    struct state_pick pa = state_pick_all(a), pb = state_pick_all(b);
    bool grouped = pa.last == pb.last || !d->a.there || !d->b.there;
    uint32_t group, last = !grouped ? 0 : pa.last > pb.last ? pa.last : pb.last;
    int r = 0;

    for (group = 0; group <= last && r == 0; group++) {
        if (grouped)
            pa.first = pa.last = pb.first = pb.last = (uint16_t)group;
        r = read_side(&d->a, &pa, e);
        if (r == 0)
            r = read_side(&d->b, &pb, e);
        if (r == 0)
            merge(d);
    }
    return r;
}

static int
open_side(struct side *s, const struct state_step *step, struct err *e)
{
    state_rows_init(&s->rows, 0);
    s->there = step != NULL;
    if (step == NULL)
        return 0;
    s->step = *step;
    return state_step_open(&s->step, e);
}

static void
close_side(struct side *s)
{
    state_rows_fini(&s->rows);
    if (s->there)
        state_step_close(&s->step);
}

static int
diff_step(struct diff *d, struct state_view *const views[2],
          const struct state_step *const steps[2], struct buf *out,
          struct err *e)
{
    size_t i;
    int r;

    memset(&d->a, 0, sizeof d->a);
    memset(&d->b, 0, sizeof d->b);
    state_rows_init(&d->lines, d->left);
    r = open_side(&d->a, steps[0], e);
    if (r == 0)
        r = open_side(&d->b, steps[1], e);
    if (r == 0)
        r = compare_step(d, views[0], views[1], e);
    if (r == 0) {
        state_rows_sort(&d->lines);
        for (i = 0; i < d->lines.n; i++)
            buf_addf(out, "%s\n", d->lines.items[i].value);
        d->left -= d->limited ? d->lines.n : 0;
    }
    state_rows_fini(&d->lines);
    close_side(&d->a);
    close_side(&d->b);
    return r;
}

static const struct state_step *
find(const struct state_step *steps, size_t n, const char *name)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (strcmp(steps[i].name, name) == 0)
            return &steps[i];
    return NULL;
}

int
state_diff(struct state_view *const views[2], const struct state_ask *ask,
           struct buf *out, struct state_diff *ret, struct err *e)
{
    struct diff d = {.json = ask->json,
                     .limited = ask->limit != 0,
                     .left = ask->limit,
                     .count = ret};
    const struct state_step *all[2], *steps[2];
    size_t n[2], side, i;
    bool found = false;
    int r = 0;

    memset(ret, 0, sizeof *ret);
    buf_init(&d.buf);
    all[0] = state_view_steps(views[0], &n[0]);
    all[1] = state_view_steps(views[1], &n[1]);
    for (side = 0; side < 2; side++)
        for (i = 0; i < n[side] && r == 0; i++) {
            const char *name = all[side][i].name;

            if (ask->step != NULL && strcmp(ask->step, name) != 0)
                continue;
            found = true;
            steps[0] = find(all[0], n[0], name);
            steps[1] = find(all[1], n[1], name);
            if (side == 0 || steps[0] == NULL)
                r = diff_step(&d, views, steps, out, e);
        }
    buf_fini(&d.buf);
    if (r == 0 && !found && ask->step != NULL)
        return err_set(e, ERR_USAGE,
                       "step \"%s\" keeps keyed state in neither of the two",
                       ask->step);
    return r;
}
