#include "op/agg_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/agg_records.h"
#include "core/agg_top.h"
#include "op/op_store.h"
#include "op/row.h"

enum mode {
    ROWS_PLAIN,
    ROWS_RECORD, /* the record of reduce */
    ROWS_RANKED, /* the records of top_n */
    ROWS_WINDOW, /* what on_window emits */
};

struct agg_rows {
    struct op *op;
    const struct aggset *set;
    enum mode mode;
    bool bounded; /* windows have a start and an end */
    struct row_format *format;
    struct script_process *window;
    struct batch *outs; /* main, then the step's `outputs` */
    const char **names; /* of those behind main */
    uint32_t out_count;
};

/* Whether anything behind the step can see the rows' message keys. */
static bool
key_is_read(const struct plan *p, const struct plan_step *s)
{
    uint32_t i;

    for (i = 0; i < s->out_count; i++) {
        const struct plan_step *to = &p->steps[p->edges[s->out[i]].to];
        const struct opt *conn = opt_get(to->opts, "conn");

        if (to->kind != STEP_SINK)
            return true;
        if (opt_is(opt_get(conn, "key"), "kind", "default") ||
            opt_is(to->opts, "connector", "lua"))
            return true;
    }
    return false;
}

static enum mode
mode_of(const struct opt *opts)
{
    if (opt_is(opts, "rows", "record"))
        return ROWS_RECORD;
    if (opt_is(opts, "rows", "ranked"))
        return ROWS_RANKED;
    return opt_is(opts, "rows", "window") ? ROWS_WINDOW : ROWS_PLAIN;
}

static void
make_outputs(struct agg_rows *r)
{
    const struct opt *list = opt_get(r->op->step->opts, "outputs"), *o;
    size_t n = list != NULL ? list->len : 0, i;

    r->outs = mem_zalloc((n + 1) * sizeof *r->outs);
    r->names = mem_zalloc((n + 1) * sizeof *r->names);
    for (i = 0; i <= n; i++)
        batch_init(&r->outs[i]);
    r->out_count = (uint32_t)n + 1;
    for (i = 1, o = n != 0 ? list->first : NULL; o != NULL; o = o->next)
        r->names[i++] = o->s;
}

int
agg_rows_new(struct op *op, const struct agg_args *args, struct agg_rows **ret,
             struct err *e)
{
    struct agg_rows *r = mem_zalloc(sizeof *r);
    int rc = 0;

    r->op = op;
    r->set = args->set;
    r->mode = mode_of(op->step->opts);
    r->bounded = row_has_bounds(op->step->opts);
    make_outputs(r);
    r->format = row_format_new(op->step, args->set,
                               key_is_read(op->env->plan, op->step));
    if (r->mode == ROWS_WINDOW) {
        const struct script_process_conf conf = {
            .opts = op->step->opts, .step = op->step->name, .outs = r->outs};

        rc = script_process_new(op->env->script, &conf, &r->window, e);
    }
    if (rc != 0) {
        agg_rows_free(&r);
        return rc;
    }
    *ret = r;
    return 0;
}

void
agg_rows_free(struct agg_rows **rp)
{
    struct agg_rows *r = *rp;
    uint32_t i;

    *rp = NULL;
    if (r == NULL)
        return;
    script_process_free(&r->window);
    row_format_free(&r->format);
    for (i = 0; i < r->out_count; i++)
        batch_fini(&r->outs[i]);
    free(r->outs);
    free(r->names);
    free(r);
}

void
agg_rows_times(struct agg_rows *r, int64_t watermark)
{
    if (r->window != NULL)
        script_process_times(r->window, watermark, clock_wall_ms());
}

static int
failed(struct agg_rows *r, struct err *e)
{
    return op_fail(r->op, NULL, e);
}

static int
take_ranked(struct agg_rows *r, const struct winrow *row, struct err *e)
{
    const struct agg *a = &r->set->aggs[0];
    struct kept *const *items;
    uint32_t n, i, rank = 0;
    int rc = 0;

    if (agg_top_is_mixed(a, row->block)) {
        (void)agg_top_mixed(a, e);
        return failed(r, e);
    }
    items = agg_top_get(a, row->block, &n);
    for (i = 0; i < n && rc == 0; i++) {
        rank = agg_top_rank(a, items, i, rank);
        rc = row_put_ranked(r->format, &r->outs[0], row, &items[i]->rec, rank,
                            e);
        if (rc != 0)
            rc = failed(r, e);
    }
    return rc;
}

/* They are in memory together when the function takes them. */
static int
too_many(const struct agg_rows *r, const struct winrow *row, struct err *e)
{
    (void)err_record(e, CAUSE_OVERFLOW,
                     "on_window: the records of this window take more than "
                     "half of the %zu KiB of memory.state that the subtask "
                     "may use",
                     r->op->env->job->cache_bytes >> 10);
    err_hint(e, "use an aggregate, which keeps one value, or a shorter "
                "window, or raise memory");
    return op_state_refused(r->op, row->key, row->key_len, e);
}

static int
take_window(struct agg_rows *r, const struct winrow *row, struct err *e)
{
    struct script_window w = {.key = row->key,
                              .key_len = row->key_len,
                              .start = row->start,
                              .end = row->end,
                              .bounded = r->bounded};
    int rc;

    if (agg_records_is_over(&r->set->aggs[0], row->block)) {
        (void)too_many(r, row, e);
        return failed(r, e);
    }
    w.records = agg_records_get(&r->set->aggs[0], row->block, &w.count);
    rc = script_process_window(r->window, &w, e);
    return rc != 0 ? failed(r, e) : 0;
}

int
agg_rows_take(void *arg, const struct winrow *row, struct err *e)
{
    struct agg_rows *r = arg;
    int rc = row_check(row, e);

    if (rc != 0)
        return failed(r, e);
    switch (r->mode) {
    case ROWS_RANKED:
        return take_ranked(r, row, e);
    case ROWS_WINDOW:
        return take_window(r, row, e);
    case ROWS_RECORD:
        row_put_record(r->format, &r->outs[0], row,
                       script_reduce_get(&r->set->aggs[0], row->block));
        return 0;
    case ROWS_PLAIN:
        break;
    }
    rc = row_put(r->format, &r->outs[0], row, e);
    return rc != 0 ? failed(r, e) : 0;
}

uint32_t
agg_rows_piece(const struct agg_rows *r)
{
    return r->mode == ROWS_RANKED || r->mode == ROWS_WINDOW ? 1 : OP_ROWS_MAX;
}

uint32_t
agg_rows_count(const struct agg_rows *r)
{
    uint32_t i, n = 0;

    for (i = 0; i < r->out_count; i++)
        n += r->outs[i].n;
    return n;
}

int
agg_rows_emit(struct agg_rows *r, struct err *e)
{
    uint32_t i;
    int rc = 0;

    for (i = 0; i < r->out_count; i++) {
        struct batch *b = &r->outs[i];

        if (b->n == 0)
            continue;
        count_add(&r->op->count->records_out, b->n);
        if (rc == 0)
            rc = i == 0 ? op_emit(&r->op->out, b, e)
                        : op_emit_side(r->op, r->names[i], b, e);
        batch_clear(b);
    }
    return rc;
}
