/* Looking at the job: rows, counters, state. A look takes a round first. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "inspect/text.h"
#include "testing/sim_impl.h"

static int
no_sink(const struct sim *s, const char *name, struct err *e)
{
    struct buf b;

    buf_init(&b);
    sim_put_names(s, true, &b);
    (void)err_set(e, ERR_USAGE, "the job has no sink \"%s\"; it has: %s", name,
                  buf_cstr(&b));
    buf_fini(&b);
    return ERR_USAGE;
}

static void
copy_row(const struct queue_row *from, struct arena *a, struct sim_row *to)
{
    *to = (struct sim_row){.tombstone = from->tombstone,
                           .has_ts = from->has_ts,
                           .has_key = from->has_key,
                           .ts = from->ts,
                           .key = arena_dup(a, from->key, from->key_len),
                           .key_len = from->key_len,
                           .json = arena_dup(a, from->json, from->json_len),
                           .json_len = from->json_len};
}

int
sim_take(struct sim *s, const char *sink, struct arena *a, struct sim_row **ret,
         uint32_t *ret_count, struct err *e)
{
    struct queue_sink *q = queue_find_sink(&s->queues, sink);
    struct sim_row *rows;
    uint32_t i, n;
    int r = 0;

    if (q == NULL)
        return no_sink(s, sink, e);
    if (s->failure.code == 0)
        r = sim_round(s, e);
    if (r != 0)
        return r;
    n = (uint32_t)(q->count - q->taken);
    rows = arena_alloc(a, (n + 1) * sizeof *rows);
    for (i = 0; i < n; i++)
        copy_row(&q->rows[q->taken + i], a, &rows[i]);
    q->taken = q->count;
    *ret = rows;
    *ret_count = n;
    return 0;
}

/* ---- counters ---- */

struct counter {
    const char *name;
    size_t at; /* in struct step_sums */
};

/* The names of the summary (API.md section 9). */
static const struct counter counters[] = {
    {"records_in", offsetof(struct step_sums, records_in)},
    {"records_out", offsetof(struct step_sums, records_out)},
    {"bytes_in", offsetof(struct step_sums, bytes_in)},
    {"bytes_out", offsetof(struct step_sums, bytes_out)},
    {"late", offsetof(struct step_sums, late)},
    {"late_windows", offsetof(struct step_sums, late_windows)},
    {"incomplete", offsetof(struct step_sums, incomplete)},
    {"keys", offsetof(struct step_sums, keys)},
    {"local.records_in", offsetof(struct step_sums, local_in)},
    {"local.partials_out", offsetof(struct step_sums, local_out)},
    {"timers.unfired", offsetof(struct step_sums, timers_unfired)},
    {"timers.discarded", offsetof(struct step_sums, timers_discarded)},
};

/* Those by cause: "dropped.late". */
static const struct counter by_cause[] = {
    {"dropped.", offsetof(struct step_sums, dropped)},
    {"errors.", offsetof(struct step_sums, errors)},
    {"quarantined.", offsetof(struct step_sums, quarantined)},
};

enum {
    COUNTERS = sizeof counters / sizeof *counters,
    BY_CAUSE = sizeof by_cause / sizeof *by_cause
};

static uint64_t
count_at(const struct step_sums *s, size_t at)
{
    uint64_t n;

    memcpy(&n, (const char *)s + at, sizeof n);
    return n;
}

static bool
find_by_cause(const struct step_sums *s, const char *name, int64_t *ret)
{
    size_t i, len;
    int c;

    for (i = 0; i < BY_CAUSE; i++) {
        len = strlen(by_cause[i].name);
        if (strncmp(name, by_cause[i].name, len) != 0)
            continue;
        for (c = CAUSE_NONE + 1; c < CAUSE_COUNT; c++)
            if (strcmp(name + len, err_cause_name((enum err_cause)c)) == 0) {
                *ret = (int64_t)count_at(s, by_cause[i].at +
                                                (size_t)c * sizeof(uint64_t));
                return true;
            }
    }
    return false;
}

static bool
find_counter(const struct step_sums *s, const char *name, int64_t *ret)
{
    size_t i;

    for (i = 0; i < COUNTERS; i++)
        if (strcmp(name, counters[i].name) == 0) {
            *ret = (int64_t)count_at(s, counters[i].at);
            return true;
        }
    return find_by_cause(s, name, ret);
}

static int
no_counter(const char *name, struct err *e)
{
    struct buf b;
    size_t i;

    buf_init(&b);
    for (i = 0; i < COUNTERS; i++)
        buf_addf(&b, "%s, ", counters[i].name);
    for (i = 0; i < BY_CAUSE; i++)
        buf_addf(&b, "%s%sCAUSE", i != 0 ? ", " : "", by_cause[i].name);
    (void)err_set(e, ERR_USAGE, "there is no counter \"%s\"; there are: %s",
                  name, buf_cstr(&b));
    buf_fini(&b);
    return ERR_USAGE;
}

static const struct plan_step *
find_step(const struct plan *p, const char *name)
{
    uint32_t i;

    for (i = 0; i < p->step_count; i++)
        if (p->steps[i].number > 0 && p->steps[i].kind != STEP_LOCAL &&
            strcmp(p->steps[i].name, name) == 0)
            return &p->steps[i];
    return NULL;
}

static int
no_step(const struct plan *p, const char *name, struct err *e)
{
    struct buf b;
    uint32_t i;

    buf_init(&b);
    for (i = 0; i < p->step_count; i++)
        if (p->steps[i].number > 0 && p->steps[i].kind != STEP_LOCAL)
            buf_addf(&b, "%s%s", b.len != 0 ? ", " : "", p->steps[i].name);
    (void)err_set(e, ERR_USAGE, "the job has no step \"%s\"; it has: %s", name,
                  buf_cstr(&b));
    buf_fini(&b);
    return ERR_USAGE;
}

/* A look at a job that failed is given its error. */
static int
look(struct sim *s, struct err *e)
{
    int r = sim_failed(s, e);

    return r != 0 ? r : sim_round(s, e);
}

int
sim_counter(struct sim *s, const char *step, const char *name, int64_t *ret,
            struct err *e)
{
    const struct plan_step *p;
    struct step_sums sums;
    int r = look(s, e);

    if (r != 0)
        return r;
    p = find_step(box_job(s->box)->plan, step);
    if (p == NULL)
        return no_step(box_job(s->box)->plan, step, e);
    step_sums(box_job(s->box), p->logical, &sums);
    return find_counter(&sums, name, ret) ? 0 : no_counter(name, e);
}

/* ---- state ---- */

static void
put_rows(const struct state_step *step, const struct state_rows *rows,
         const int64_t *window_start, struct buf *out)
{
    size_t i;

    for (i = 0; i < rows->n; i++) {
        const struct state_row *row = &rows->items[i];

        if (window_start != NULL && row->start != *window_start)
            continue;
        buf_addc(out, '{');
        state_put_head(out, step, row);
        state_put_value(out, row);
        buf_adds(out, "}\n");
    }
}

static int
read_rows(struct state_step *step, const char *key_json,
          struct state_rows *rows, struct err *e)
{
    struct state_pick one;
    struct buf key;
    int r;

    buf_init(&key);
    r = state_read_key(step, key_json, &key, e);
    if (r == 0) {
        one = state_pick_key(step->view, key.data, key.len);
        r = state_rows_read(step, &one, rows, e);
    }
    if (r == 0)
        state_rows_sort(rows);
    buf_fini(&key);
    return r;
}

int
sim_state(struct sim *s, const char *step, const char *key_json,
          const int64_t *window_start, struct buf *out, struct err *e)
{
    struct state_code code = {.params = s->conf.params,
                              .args = s->conf.args,
                              .unsafe = s->conf.unsafe};
    struct state_step it = {0};
    struct state_rows rows;
    struct state_view v;
    const struct home *h;
    int r;

    /* The first round says which steps keep state, though they have none. */
    s->dirty = s->dirty || s->queues.kept == 0;
    r = look(s, e);
    if (r != 0)
        return r;
    h = &box_job(s->box)->run->home;
    state_rows_init(&rows, 0);
    r = state_view_attach(&code, h->store, h->dir, box_job(s->box)->plan->name,
                          &v, e);
    if (r == 0)
        r = state_view_step(&v, step, &it, e);
    if (r == 0)
        r = state_step_open(&it, e);
    if (r == 0)
        r = read_rows(&it, key_json, &rows, e);
    if (r == 0)
        put_rows(&it, &rows, window_start, out);
    state_rows_fini(&rows);
    state_step_close(&it);
    state_view_close(&v);
    return r;
}
