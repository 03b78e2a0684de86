#include "inspect/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/winstate.h"
#include "format/json.h"
#include "inspect/keyed.h"

enum { FIRE_ROWS = 4096 };

/* --- rows in order -------------------------------------------------------- */

void
state_rows_init(struct state_rows *r, size_t limit)
{
    memset(r, 0, sizeof *r);
    r->limit = limit;
}

static void
row_free(struct state_row *row)
{
    free(row->key);
    free(row->value);
    free(row->error);
}

void
state_rows_clear(struct state_rows *r)
{
    size_t i;

    for (i = 0; i < r->n; i++)
        row_free(&r->items[i]);
    r->n = 0;
    r->sorted = false;
}

void
state_rows_fini(struct state_rows *r)
{
    state_rows_clear(r);
    free(r->items);
    memset(r, 0, sizeof *r);
}

/* NULL first. */
static int
cmp_names(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return (a != NULL) - (b != NULL);
    return strcmp(a, b);
}

int
state_row_cmp(const struct state_row *a, const struct state_row *b)
{
    int c = key_cmp(a->key, a->key_len, b->key, b->key_len);

    if (c == 0)
        c = cmp_names(a->timer, b->timer);
    if (c == 0)
        c = cmp_names(a->state, b->state);
    if (c != 0)
        return c;
    return a->start < b->start ? -1 : a->start > b->start;
}

static int
compare(const void *a, const void *b)
{
    return state_row_cmp(a, b);
}

void
state_rows_sort(struct state_rows *r)
{
    if (r->n > 0)
        qsort(r->items, r->n, sizeof *r->items, compare);
    while (r->limit != 0 && r->n > r->limit)
        row_free(&r->items[--r->n]);
    r->sorted = true;
}

/* Whether a row stands behind all that the limit leaves room for. */
static bool
is_beyond(const struct state_rows *r, const struct state_row *row)
{
    return r->limit != 0 && r->sorted && r->n >= r->limit &&
           state_row_cmp(&r->items[r->limit - 1], row) < 0;
}

void
state_rows_take(struct state_rows *r, struct state_row *row)
{
    if (r->limit != 0 && r->n >= 2 * r->limit)
        state_rows_sort(r);
    if (is_beyond(r, row)) {
        row_free(row);
        return;
    }
    mem_grow(&r->items, &r->cap, r->n + 1, sizeof *r->items);
    r->items[r->n++] = *row;
}

/* --- rows of a group ------------------------------------------------------ */

struct reading {
    struct state_step *step;
    struct state_rows *rows;
    struct winstate *state; /* of one key group; NULL between two */
    uint16_t group;
    int64_t fired;
    struct buf buf, plain;
};

/* The results as one JSON object. @return 0 or why there is no row. */
static int
put_value(struct reading *g, const struct winrow *row, struct err *e)
{
    const struct aggset *set = g->step->set;
    bool ext = false;
    uint32_t i;
    int r;

    if (row->poisoned)
        return err_record(e, CAUSE_TYPE,
                          "values of different types met in one window");
    if (row->unsaved != NULL) {
        *e = *row->unsaved;
        return e->code;
    }
    buf_clear(&g->buf);
    buf_addc(&g->buf, '{');
    for (i = 0; i < set->count; i++) {
        json_put_name(&g->buf, set->aggs[i].name, strlen(set->aggs[i].name));
        r = agg_result(&set->aggs[i], row->block, &g->buf, &ext, e);
        if (r != 0)
            return r;
    }
    buf_addc(&g->buf, '}');
    buf_clear(&g->plain);
    return json_put_plain(&g->plain, g->buf.data, g->buf.len, NAN_STRING,
                          UTF8_REPLACE, e);
}

/* Whether the window is none any more: a slice is there as long as one of its
 * windows. One that fired and is kept for late records still is. */
static bool
is_purged(const struct reading *g, const struct winrow *row)
{
    const struct window_spec *w = &g->step->window;

    return w->kind != WINDOW_GLOBAL && g->fired != WM_NONE &&
           row->end - 1 + w->lateness <= g->fired;
}

static int
take_row(void *arg, const struct winrow *row, struct err *e)
{
    struct reading *g = arg;
    struct state_row mine = {.key = (char *)(uintptr_t)row->key,
                             .key_len = row->key_len,
                             .start = row->start,
                             .end = row->end};

    if (is_purged(g, row) || is_beyond(g->rows, &mine))
        return 0;
    if (put_value(g, row, e) == 0)
        mine.value = mem_dup(g->plain.data, g->plain.len);
    else if (e->code == ERR_RECORD)
        mine.error = mem_strdup(e->msg);
    else
        return e->code;
    mine.key = mem_dup(row->key, row->key_len);
    state_rows_take(g->rows, &mine);
    return 0;
}

static void
begin_group(struct reading *g, uint16_t group)
{
    struct state_step *s = g->step;

    g->group = group;
    g->fired = s->fired[key_group_subtask(group, s->fired_count,
                                          s->view->max_parallelism)];
    g->state = winstate_new(&s->window, s->set);
    winstate_track(g->state, s->view->max_parallelism);
}

/* Let every window of the group fire. */
static int
end_group(struct reading *g, struct err *e)
{
    int r = 0;

    if (g->state == NULL)
        return 0;
    winstate_advance(g->state, WM_MAX);
    do
        r = winstate_fire(g->state, FIRE_ROWS, take_row, g, e);
    while (r == 1);
    winstate_free(&g->state);
    return r;
}

static int
load_entry(struct reading *g, const struct store_key *key, const void *value,
           size_t len, struct err *e)
{
    struct winstate_entry v = {.ns = key->ns,
                               .hash = hash_key(key->key, key->key_len),
                               .key = key->key,
                               .key_len = (uint32_t)key->key_len,
                               .value = value,
                               .value_len = len,
                               .fired = WM_NONE}; /* see is_purged() */

    if (key->ns_len != WINSTATE_NS_SIZE || key->key_len > KEY_SIZE_MAX)
        return err_set(e, ERR_IO, "this is no state of a window");
    if (g->state != NULL && g->group != key->group && end_group(g, e) != 0)
        return e->code;
    if (g->state == NULL)
        begin_group(g, key->group);
    return winstate_load(g->state, &v, e);
}

static bool
is_picked(const struct state_pick *p, const struct store_key *key)
{
    return p->key == NULL || (key->key_len == p->key_len &&
                              memcmp(key->key, p->key, p->key_len) == 0);
}

static int
scan(struct reading *g, const struct state_pick *p, struct store_scan *c,
     struct err *e)
{
    struct store_key key;
    const void *value;
    size_t len;
    int r;

    while ((r = store_scan_next(c, &key, &value, &len, e)) == 1) {
        if (!is_picked(p, &key))
            continue;
        r = load_entry(g, &key, value, len, e);
        if (r != 0)
            return err_context(
                e, "'%s', checkpoint %" PRIu64 ", state of %s, key group %u",
                g->step->view->path, g->step->view->round, g->step->name,
                key.group);
    }
    return r;
}

int
state_rows_read(struct state_step *s, const struct state_pick *p,
                struct state_rows *ret, struct err *e)
{
    struct reading g = {.step = s, .rows = ret};
    struct store_scan *c = NULL;
    int r;

    if (!s->known)
        return 0;
    if (state_is_keyed(s->desc))
        return state_keyed_read(s, p, ret, e);
    buf_init(&g.buf);
    buf_init(&g.plain);
    r = store_scan_open(s->view->reader, s->op, p->first, p->last, &c, e);
    if (r == 0)
        r = scan(&g, p, c, e);
    if (r == 0)
        r = end_group(&g, e);
    store_scan_close(&c);
    winstate_free(&g.state);
    buf_fini(&g.buf);
    buf_fini(&g.plain);
    return r;
}

/* --- picking -------------------------------------------------------------- */

struct state_pick
state_pick_all(const struct state_view *v)
{
    uint32_t max = v->max_parallelism;

    return (struct state_pick){.last = (uint16_t)(max > 0 ? max - 1 : 0)};
}

struct state_pick
state_pick_key(const struct state_view *v, const char *key, size_t len)
{
    uint16_t group =
        v->max_parallelism == 0
            ? 0
            : (uint16_t)key_group(hash_key(key, len), v->max_parallelism);

    return (struct state_pick){
        .first = group, .last = group, .key = key, .key_len = len};
}
