#include "plan/explain_put.h"

#include <string.h>

void
plan_put_duration(struct buf *out, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};
    size_t i;

    if (ms == 0) {
        buf_adds(out, "0s");
        return;
    }
    for (i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ms % units[i].ms == 0) {
            json_put_int(out, ms / units[i].ms);
            buf_adds(out, units[i].name);
            return;
        }
    }
    json_put_int(out, ms);
    buf_adds(out, "ms");
}

void
explain_put_size(struct buf *out, int64_t bytes)
{
    static const char *const names[] = {"GiB", "MiB", "KiB"};
    int shift = 30;
    size_t i;

    for (i = 0; i < 3; i++, shift -= 10) {
        if (bytes != 0 && bytes % (INT64_C(1) << shift) == 0) {
            json_put_int(out, bytes / (INT64_C(1) << shift));
            buf_adds(out, names[i]);
            return;
        }
    }
    json_put_int(out, bytes);
}

/* Whether the last member of path `field` is `name`. */
static bool
last_member_is(const char *field, const char *name)
{
    const char *last = field;
    const char *c;

    for (c = field; *c != '\0'; c++) {
        if (c[0] == '\\' && c[1] == '.')
            c++;
        else if (*c == '.')
            last = c + 1;
    }
    for (c = last; *c != '\0'; c++, name++) {
        if (c[0] == '\\' && c[1] == '.')
            c++;
        if (*c != *name)
            return false;
    }
    return *name == '\0';
}

void
explain_put_column(struct buf *out, const struct opt *col)
{
    const char *name = opt_str(col, "name", NULL);
    const char *field = opt_str(col, "field", NULL);

    if (name != NULL && (field == NULL || !last_member_is(field, name)))
        buf_addf(out, "%s=", name);
    buf_adds(out, field != NULL ? field : "lua");
}

void
explain_put_columns(struct buf *out, const struct opt *cols)
{
    const struct opt *c = cols != NULL ? cols->first : NULL;

    buf_addc(out, '[');
    for (; c != NULL; c = c->next) {
        explain_put_column(out, c);
        if (c->next != NULL)
            buf_adds(out, ", ");
    }
    buf_addc(out, ']');
}

void
explain_put_key(struct buf *out, const struct opt *step)
{
    explain_put_columns(out, opt_get(step, "key"));
}

static void
put_count_window(struct buf *out, const struct opt *win)
{
    json_put_int(out, opt_int(win, "size", 0));
    if (opt_int(win, "slide", 0) == opt_int(win, "size", 0))
        return;
    buf_adds(out, ", ");
    json_put_int(out, opt_int(win, "slide", 0));
}

void
explain_put_window(struct buf *out, const struct opt *win)
{
    const char *kind = opt_str(win, "kind", "global");
    int64_t offset = opt_int(win, "offset_ms", 0);

    if (strcmp(kind, "none") == 0) {
        buf_adds(out, kind);
        return;
    }
    buf_addf(out, "%s(", kind);
    if (strcmp(kind, "count") == 0)
        put_count_window(out, win);
    else if (strcmp(kind, "global") != 0)
        plan_put_duration(out, opt_int(win, "size_ms", 0));
    if (strcmp(kind, "hopping") == 0) {
        buf_adds(out, ", ");
        plan_put_duration(out, opt_int(win, "slide_ms", 0));
    }
    if (offset != 0) {
        buf_adds(out, ", offset=");
        plan_put_duration(out, offset);
    }
    if (opt_str(win, "clock", NULL) != NULL)
        buf_addf(out, ", clock=%s", opt_str(win, "clock", ""));
    buf_addc(out, ')');
}

/* A scalar, list or map of options as plain text. */
static void
put_plain(struct buf *out, const struct opt *o)
{
    const struct opt *c;

    switch (o->type) {
    case OPT_STR:
        buf_add(out, o->s, o->len);
        break;
    case OPT_FUNC:
        buf_adds(out, "lua");
        break;
    case OPT_LIST:
    case OPT_MAP:
        buf_addc(out, o->type == OPT_LIST ? '[' : '{');
        for (c = o->first; c != NULL; c = c->next) {
            if (o->type == OPT_MAP)
                buf_addf(out, "%s=", c->name);
            put_plain(out, c);
            if (c->next != NULL)
                buf_adds(out, ", ");
        }
        buf_addc(out, o->type == OPT_LIST ? ']' : '}');
        break;
    default:
        opt_put_json(out, o);
    }
}

/* "name=value" with a blank before, if the option was given. */
static void
put_given(struct buf *out, const struct opt *o, const char *name)
{
    const struct opt *v = opt_get(o, name);

    if (v == NULL || v->type == OPT_NIL)
        return;
    buf_addf(out, " %s=", name);
    put_plain(out, v);
}

/* The arguments; behind the first, min_by and max_by have what they give. */
static void
put_args(struct buf *out, const struct opt *agg)
{
    const struct opt *args = opt_get(agg, "args");
    const struct opt *a = args != NULL ? args->first : NULL;
    bool list = opt_bool(agg, "what_list", false);
    size_t i;

    for (i = 0; a != NULL; a = a->next, i++) {
        if (i == 1 && list)
            buf_addc(out, '[');
        buf_adds(out, opt_str(a, "field", "lua"));
        if (a->next != NULL)
            buf_adds(out, ", ");
        else if (i > 0 && list)
            buf_addc(out, ']');
    }
}

/* q as it was written: 0.99 and not what a double makes of it. */
static void
put_q(struct buf *out, const struct opt *agg)
{
    const struct opt *q = opt_get(agg, "q");
    const struct opt *text = opt_get(agg, "q_text");

    if (q == NULL)
        return;
    buf_adds(out, ", ");
    if (text == NULL)
        text = q;
    if (text->type == OPT_LIST && q->type != OPT_LIST && text->len == 1)
        text = text->first;
    put_plain(out, text);
}

/* How many rows rank, and by which order. */
static void
put_rank(struct buf *out, const struct opt *agg)
{
    buf_adds(out, ", n=");
    json_put_int(out, opt_int(agg, "n", 0));
    buf_addf(out, ", order=%s", opt_bool(agg, "desc", true) ? "desc" : "asc");
    if (opt_bool(agg, "ties", false))
        buf_adds(out, ", ties=true");
}

void
explain_put_call(struct buf *out, const struct opt *agg)
{
    double error = opt_dbl(agg, "error", 0.01);

    if (opt_is(agg, "fn", "custom")) {
        buf_adds(out, opt_str(agg, "name", ""));
        return;
    }
    if (opt_is(agg, "fn", "reduce") || opt_is(agg, "fn", "records")) {
        buf_addf(out, "%s(lua)",
                 opt_is(agg, "fn", "reduce") ? "reduce" : "on_window");
        return;
    }
    buf_addf(out, "%s(", opt_str(agg, "fn", ""));
    put_args(out, agg);
    put_q(out, agg);
    if (opt_is(agg, "fn", "top_n"))
        put_rank(out, agg);
    if (opt_is(agg, "fn", "collect") && opt_int(agg, "limit", 1000) != 1000) {
        buf_adds(out, ", limit=");
        json_put_int(out, opt_int(agg, "limit", 1000));
    }
    if (opt_str(agg, "as", NULL) != NULL)
        buf_addf(out, ", as=%s", opt_str(agg, "as", ""));
    if (!opt_is(agg, "overflow", "error") &&
        opt_str(agg, "overflow", NULL) != NULL)
        buf_addf(out, ", overflow=%s", opt_str(agg, "overflow", ""));
    if (error < 0.01 || error > 0.01) {
        buf_adds(out, ", error=");
        json_put_double(out, error);
    }
    if (opt_func(agg, "where") != 0) {
        const struct opt *args = opt_get(agg, "args");

        buf_adds(out,
                 args != NULL && args->len > 0 ? ", where=lua" : "where=lua");
    }
    buf_addc(out, ')');
}

static void
put_source(struct buf *out, const struct opt *step)
{
    const struct opt *conn = opt_get(step, "conn");

    buf_addf(out, " %s", opt_str(step, "connector", ""));
    put_given(out, conn, "topic");
    put_given(out, conn, "path");
    put_given(out, conn, "count");
    put_given(out, conn, "rate");
    if (opt_is(step, "connector", "generator"))
        put_given(out, conn, "partitions");
    buf_addf(out, " format=%s", opt_str(conn, "format", "json"));
    put_given(out, conn, "start");
    put_given(out, conn, "stop");
}

/* What a topic that does not exist is made with. */
static void
put_create(struct buf *out, const struct opt *create)
{
    int64_t partitions = opt_int(create, "partitions", -1);
    int64_t replication = opt_int(create, "replication", -1);

    if (create == NULL || create->type != OPT_MAP)
        return;
    buf_adds(out, " create=[partitions=");
    if (partitions < 0)
        buf_adds(out, "default");
    else
        json_put_int(out, partitions);
    buf_adds(out, ", replication=");
    if (replication < 0)
        buf_adds(out, "default");
    else
        json_put_int(out, replication);
    buf_addc(out, ']');
}

static void
put_sink(struct buf *out, const struct opt *step)
{
    const struct opt *conn = opt_get(step, "conn");

    buf_addf(out, " %s", opt_str(step, "connector", ""));
    if (opt_is(step, "connector", "kafka")) {
        put_given(out, conn, "topic");
        if (opt_func(conn, "topic_func") != 0)
            buf_adds(out, " topic=lua");
        buf_addf(out, " delivery=%s",
                 opt_str(conn, "delivery", "at_least_once"));
        put_create(out, opt_get(conn, "create"));
        return;
    }
    put_given(out, conn, "path");
    if (!opt_is(step, "connector", "lua"))
        buf_addf(out, " format=%s", opt_str(conn, "format", "json"));
}

static void
put_event_time(struct buf *out, const struct opt *step)
{
    int64_t idle = opt_int(step, "idle_ms", 30000);
    int64_t all_idle = opt_int(step, "all_idle_ms", -1);
    int64_t future = opt_int(step, "max_future_ms", -1);

    put_given(out, step, "field");
    put_given(out, step, "func");
    if (opt_get(step, "field") != NULL || opt_get(step, "func") != NULL)
        buf_addf(out, " unit=%s", opt_str(step, "unit", "ms"));
    buf_adds(out, " out_of_orderness=");
    plan_put_duration(out, opt_int(step, "out_of_orderness_ms", 0));
    buf_adds(out, " idle=");
    if (idle < 0)
        buf_adds(out, "false");
    else
        plan_put_duration(out, idle);
    buf_adds(out, " all_idle=");
    if (all_idle < 0)
        buf_adds(out, "hold");
    else
        plan_put_duration(out, all_idle);
    if (future >= 0) {
        buf_adds(out, " max_future=");
        plan_put_duration(out, future);
    }
}

static void
put_select(struct buf *out, const struct opt *step)
{
    const struct opt *aggs = opt_get(step, "aggs");
    const struct opt *a = aggs != NULL ? aggs->first : NULL;

    buf_adds(out, " select=[");
    for (; a != NULL; a = a->next) {
        if (opt_get(step, "rows") == NULL)
            buf_addf(out, "%s=", opt_str(a, "name", ""));
        explain_put_call(out, a);
        if (a->next != NULL)
            buf_adds(out, ", ");
    }
    buf_addc(out, ']');
}

/* A duration that may be absent: " ttl=1h", " ttl=false". */
static void
put_ttl(struct buf *out, const struct opt *o)
{
    int64_t ttl = opt_int(o, "ttl_ms", -1);

    buf_adds(out, " ttl=");
    if (ttl < 0)
        buf_adds(out, "false");
    else
        plan_put_duration(out, ttl);
}

static void
put_on_null(struct buf *out, const struct opt *step)
{
    if (!opt_is(step, "on_null", "skip"))
        put_given(out, step, "on_null");
}

/* " outputs=[a, b]", if there are any. */
static void
put_outputs(struct buf *out, const struct opt *step)
{
    const struct opt *names = opt_get(step, "outputs");

    if (names != NULL && names->len > 0)
        put_given(out, step, "outputs");
}

static void
put_aggregate(struct buf *out, const struct plan_step *s)
{
    const struct opt *win = opt_get(s->opts, "window");
    bool updates = opt_is(win, "kind", "none");
    /* These have no time that a record could be late for. */
    bool timeless = updates || opt_is(win, "kind", "count") ||
                    opt_is(win, "kind", "same") ||
                    opt_str(win, "clock", NULL) != NULL;

    buf_adds(out, " key=");
    explain_put_key(out, s->opts);
    buf_adds(out, " window=");
    explain_put_window(out, win);
    if (s->kind != STEP_LOCAL && updates)
        put_ttl(out, s->opts);
    if (s->kind != STEP_LOCAL && !timeless) {
        buf_adds(out, " lateness=");
        plan_put_duration(out, opt_int(s->opts, "lateness_ms", 0));
    }
    if (s->kind != STEP_LOCAL)
        put_given(out, s->opts, "window_fields");
    if (s->kind != STEP_GLOBAL) {
        put_given(out, s->opts, "late_output");
        put_on_null(out, s->opts);
        put_select(out, s->opts);
    }
    if (s->kind != STEP_LOCAL)
        put_outputs(out, s->opts);
}

/* "last=value(ttl=1h)", "sum=aggregating(sum(v))". */
void
explain_put_handle(struct buf *out, const struct opt *h)
{
    const char *clock = opt_str(h, "ttl_clock", NULL);
    bool agg = opt_is(h, "kind", "aggregating");
    bool ttl = opt_int(h, "ttl_ms", -1) >= 0;

    buf_addf(out, "%s=%s", opt_str(h, "name", ""), opt_str(h, "kind", ""));
    if (!agg && !ttl)
        return;
    buf_addc(out, '(');
    if (agg)
        explain_put_call(out, opt_get(h, "agg"));
    if (ttl) {
        buf_adds(out, agg ? ", ttl=" : "ttl=");
        plan_put_duration(out, opt_int(h, "ttl_ms", 0));
        if (clock != NULL)
            buf_addf(out, ", clock=%s", clock);
        if (opt_is(h, "ttl_update", "read_and_write"))
            buf_adds(out, ", update=read_and_write");
    }
    buf_addc(out, ')');
}

static void
put_process(struct buf *out, const struct opt *step)
{
    const struct opt *right = opt_get(step, "right");
    const struct opt *state = opt_get(step, "state");
    const struct opt *h = state != NULL ? state->first : NULL;

    buf_adds(out, " key=");
    explain_put_key(out, step);
    put_on_null(out, step);
    if (right != NULL) {
        buf_adds(out, " right_key=");
        explain_put_key(out, right);
        if (!opt_is(right, "on_null", "skip"))
            buf_addf(out, " right_on_null=%s", opt_str(right, "on_null", ""));
    }
    buf_adds(out, " state=[");
    for (; h != NULL; h = h->next) {
        explain_put_handle(out, h);
        if (h->next != NULL)
            buf_adds(out, ", ");
    }
    buf_addc(out, ']');
    put_given(out, step, "on_timer");
    put_outputs(out, step);
}

static void
put_dedup(struct buf *out, const struct opt *step)
{
    buf_adds(out, " key=");
    explain_put_key(out, step);
    put_on_null(out, step);
    put_given(out, step, "keep");
    put_ttl(out, step);
}

/* The inputs of the hidden step that `edge` comes from. */
static void
each_hidden(const struct plan *p, const struct plan_edge *edge,
            explain_input_f *f, void *arg)
{
    const struct plan_step *from = &p->steps[edge->from];
    uint32_t j;

    for (j = 0; j < from->in_count; j++)
        f(arg, edge, &p->edges[from->in[j]]);
}

void
explain_put_step(struct buf *out, const struct plan_step *s)
{
    buf_addf(out, "%s %s:",
             s->kind == STEP_AGGREGATE ? plan_step_said(s)
                                       : plan_kind_name(s->kind),
             s->name);
    switch (s->kind) {
    case STEP_SOURCE:
        put_source(out, s->opts);
        break;
    case STEP_EVENT_TIME:
        put_event_time(out, s->opts);
        break;
    case STEP_FILTER:
    case STEP_MAP:
    case STEP_FLAT_MAP:
        buf_adds(out, " lua");
        break;
    case STEP_SELECT:
        buf_adds(out, " select=");
        explain_put_columns(out, opt_get(s->opts, "cols"));
        break;
    case STEP_LOCAL:
    case STEP_GLOBAL:
    case STEP_AGGREGATE:
        put_aggregate(out, s);
        break;
    case STEP_PROCESS:
        put_process(out, s->opts);
        break;
    case STEP_DEDUP:
        put_dedup(out, s->opts);
        break;
    case STEP_SPLIT:
        buf_adds(out, " lua outputs=");
        put_plain(out, opt_get(s->opts, "names"));
        break;
    case STEP_CLOCK: /* hidden */
        break;
    case STEP_SINK:
        put_sink(out, s->opts);
        break;
    }
    buf_addf(out, " (%s)", s->place);
}

void
explain_each_input(const struct plan *p, const struct plan_step *s,
                   explain_input_f *f, void *arg)
{
    const struct plan_edge *edge;
    uint32_t j;

    for (j = 0; j < s->in_count; j++) {
        edge = &p->edges[s->in[j]];
        if (p->steps[edge->from].number > 0)
            f(arg, edge, edge);
        else
            each_hidden(p, edge, f, arg);
    }
}

bool
explain_is_head(const struct plan *p, const struct plan_step *s)
{
    return p->chains[s->chain].steps[0] == s->index;
}
