#include "plan/fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "core/agg.h"
#include "plan/fit_impl.h"

static void
put_name(struct buf *out, const char *name)
{
    json_put_name(out, name, strlen(name));
}

static void
put_text(struct buf *out, const char *name, const char *value)
{
    put_name(out, name);
    json_put_str(out, value, strlen(value));
}

/* Members that say where something stands or how it was tried, and not what
 * state it makes. */
static bool
is_left_out(const char *name)
{
    static const char *const names[] = {"place", "key_place", "law", "samples",
                                        "label"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* As opt_put_json(), but functions have no number: it changes with the file,
 * and means nothing to whoever reads the state. */
static void
put_value(struct buf *out, const struct opt *o)
{
    const struct opt *c;
    bool first = true;

    if (o->type == OPT_FUNC) {
        buf_adds(out, "{\"func\":true}");
        return;
    }
    if (o->type != OPT_LIST && o->type != OPT_MAP) {
        opt_put_json(out, o);
        return;
    }
    buf_addc(out, o->type == OPT_LIST ? '[' : '{');
    for (c = o->first; c != NULL; c = c->next) {
        if (o->type == OPT_MAP && is_left_out(c->name))
            continue;
        if (o->type == OPT_MAP)
            put_name(out, c->name);
        else if (!first)
            buf_addc(out, ',');
        put_value(out, c);
        first = false;
    }
    buf_addc(out, o->type == OPT_LIST ? ']' : '}');
}

/* The member `name` of `o`, if it is there. */
static void
put_member(struct buf *out, const struct opt *o, const char *name)
{
    const struct opt *v = opt_get(o, name);

    if (v == NULL || v->type == OPT_NIL)
        return;
    put_name(out, name);
    put_value(out, v);
}

/* Whether the input gives late records of a step in two phases: they leave
 * its local phase. */
static bool
is_late_output(const struct plan *p, const struct plan_step *s, uint32_t input)
{
    const struct plan_edge *edge = &p->edges[s->in[input]];

    return p->steps[edge->from].kind == STEP_LOCAL && !edge->partials;
}

/* The names of the sources and keyed steps next above `s`, in order. */
static void
put_from(struct buf *out, const struct plan *p, const struct plan_step *s,
         bool *seen)
{
    const struct plan_step *up;
    uint32_t i;

    for (i = 0; i < s->in_count; i++) {
        up = &p->steps[p->edges[s->in[i]].from];
        if (seen[up->index])
            continue;
        seen[up->index] = true;
        if (up->kind == STEP_SOURCE || plan_step_is_keyed(up) ||
            is_late_output(p, s, i)) {
            if (out->data[out->len - 1] != '[')
                buf_addc(out, ',');
            json_put_str(out, up->name, strlen(up->name));
        } else {
            put_from(out, p, up, seen);
        }
    }
}

static void
put_source(struct buf *out, const struct opt *step)
{
    const struct opt *conn = opt_get(step, "conn");

    put_member(out, step, "connector");
    put_member(out, conn, "topic");
    put_member(out, conn, "path");
    if (!opt_is(step, "connector", "kafka"))
        put_member(out, conn, "partitions");
}

/* The places that are of no aggregate any more. */
static void
put_gone(struct buf *out, const struct agg_places *p)
{
    bool first = true;
    uint32_t i;

    put_name(out, "aggs_gone");
    buf_addc(out, '[');
    for (i = 0; i < p->count; i++) {
        if (p->order[i] != AGG_NONE)
            continue;
        if (!first)
            buf_addc(out, ',');
        json_put_int(out, i);
        first = false;
    }
    buf_addc(out, ']');
}

/* The list in order of its places; how many of them every entry has. */
static void
put_aggs(struct buf *out, const struct plan_step *s)
{
    const struct opt *aggs = opt_get(s->opts, "aggs");
    const struct agg_places *p = s->places;
    size_t i, n = p != NULL ? p->count : aggs != NULL ? aggs->len : 0;
    bool first = true;

    put_name(out, "aggs");
    buf_addc(out, '[');
    for (i = 0; i < n; i++) {
        if (p != NULL && p->order[i] == AGG_NONE)
            continue;
        if (!first)
            buf_addc(out, ',');
        put_value(out, opt_at(aggs, p != NULL ? p->order[i] : i));
        first = false;
    }
    buf_addc(out, ']');
    if (p == NULL)
        return;
    if (p->count > aggs->len)
        put_gone(out, p);
    if (p->min == p->count)
        return;
    put_name(out, "aggs_min");
    json_put_int(out, p->min);
}

static void
put_aggregate(struct buf *out, const struct plan_step *s)
{
    const struct opt *step = s->opts;

    put_member(out, step, "key");
    put_member(out, step, "on_null");
    put_member(out, step, "window");
    put_member(out, step, "lateness_ms");
    put_member(out, step, "late_output");
    put_member(out, step, "ttl_ms");
    put_member(out, step, "rows");
    put_aggs(out, s);
}

static void
put_process(struct buf *out, const struct opt *step)
{
    put_member(out, step, "key");
    put_member(out, step, "on_null");
    put_member(out, step, "right");
    put_member(out, step, "state");
}

static void
put_dedup(struct buf *out, const struct opt *step)
{
    put_member(out, step, "key");
    put_member(out, step, "on_null");
    put_member(out, step, "keep");
    put_member(out, step, "ttl_ms");
}

static void
put_sink(struct buf *out, const struct opt *step)
{
    put_member(out, step, "connector");
    if (opt_is(step, "connector", "file"))
        put_member(out, opt_get(step, "conn"), "path");
}

/* Hashes of the options and, where script/ made one, of the functions. */
static void
put_hashes(struct buf *out, const struct plan_step *s)
{
    static const char *const beside[] = {
        "name",     "auto", "inputs", "parallelism", "slot_sharing_group",
        "chaining", "code", "core",   "kind"};
    const struct opt *o;
    struct buf text;
    char hash[17];
    size_t i, n = sizeof beside / sizeof beside[0];

    buf_init(&text);
    for (o = s->opts->first; o != NULL; o = o->next) {
        for (i = 0; i < n && strcmp(beside[i], o->name) != 0; i++)
            continue;
        if (i < n || is_left_out(o->name))
            continue;
        put_name(&text, o->name);
        put_value(&text, o);
    }
    (void)snprintf(hash, sizeof hash, "%016" PRIx64,
                   hash_key(text.data, text.len));
    buf_fini(&text);
    put_text(out, "opts", hash);
    put_member(out, s->opts, "code");
    put_member(out, s->opts, "core");
}

/* What all steps have. */
static void
put_begin(struct buf *out, const struct plan_step *s)
{
    buf_addc(out, '{');
    put_text(out, "name", s->name);
    put_text(out, "kind", plan_kind_logical(s->kind));
    put_name(out, "auto");
    buf_adds(out, s->auto_named ? "true" : "false");
    put_text(out, "place", s->place);
    put_name(out, "parallelism");
    json_put_int(out, s->parallelism);
    put_hashes(out, s);
}

static void
put_step(struct buf *out, const struct plan *p, const struct plan_step *s)
{
    bool *seen = mem_zalloc(p->step_count * sizeof *seen);

    put_begin(out, s);
    put_name(out, "from");
    buf_addc(out, '[');
    put_from(out, p, s, seen);
    buf_addc(out, ']');
    free(seen);
    if (s->kind == STEP_SOURCE)
        put_source(out, s->opts);
    else if (s->kind == STEP_SINK)
        put_sink(out, s->opts);
    else if (s->kind == STEP_PROCESS)
        put_process(out, s->opts);
    else if (s->kind == STEP_DEDUP)
        put_dedup(out, s->opts);
    else if (s->kind != STEP_EVENT_TIME)
        put_aggregate(out, s);
    buf_addc(out, '}');
}

/* Whether a step is one of the job file and keeps nothing. */
static bool
is_other(const struct plan_step *s)
{
    return !plan_step_in_rounds(s) && s->kind != STEP_LOCAL &&
           s->kind != STEP_CLOCK;
}

static void
put_others(struct buf *out, const struct plan *p)
{
    bool first = true;
    uint32_t i;

    put_name(out, "others");
    buf_addc(out, '[');
    for (i = 0; i < p->step_count; i++) {
        if (!is_other(&p->steps[i]))
            continue;
        if (!first)
            buf_addc(out, ',');
        put_begin(out, &p->steps[i]);
        buf_addc(out, '}');
        first = false;
    }
    buf_addc(out, ']');
}

void
plan_state_put(const struct plan *p, struct buf *out)
{
    bool first = true;
    uint32_t i;

    buf_addc(out, '{');
    put_name(out, "version");
    json_put_int(out, PLAN_STATE_VERSION);
    put_text(out, "job", p->name);
    put_name(out, "max_parallelism");
    json_put_int(out, p->max_parallelism);
    put_name(out, "steps");
    buf_addc(out, '[');
    for (i = 0; i < p->step_count; i++) {
        if (!plan_step_in_rounds(&p->steps[i]))
            continue;
        if (!first)
            buf_addc(out, ',');
        put_step(out, p, &p->steps[i]);
        first = false;
    }
    buf_addc(out, ']');
    put_others(out, p);
    buf_addc(out, '}');
}
