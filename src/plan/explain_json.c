#include "plan/plan.h"

#include <string.h>
#include <strings.h>

#include "plan/explain_put.h"

static void
put_str(struct buf *out, const char *s)
{
    if (s == NULL)
        buf_adds(out, "null");
    else
        json_put_str(out, s, strlen(s));
}

static void
put_name(struct buf *out, const char *name)
{
    json_put_name(out, name, strlen(name));
}

static void
put_member(struct buf *out, const char *name, const char *value)
{
    put_name(out, name);
    put_str(out, value);
}

static void
put_number(struct buf *out, const char *name, int64_t value)
{
    put_name(out, name);
    json_put_int(out, value);
}

/* Whether a client property may hold a secret, which no output shows. */
static bool
is_secret(const char *name)
{
    static const char *const parts[] = {
        "password", "secret", "token", "jaas", "pem", "credential", "userinfo"};
    const char *at;
    size_t i, len;

    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        len = strlen(parts[i]);
        for (at = name; strlen(at) >= len; at++)
            if (strncasecmp(at, parts[i], len) == 0)
                return true;
    }
    return false;
}

/* Options as JSON: functions are "lua", secrets "***". */
static void
put_value(struct buf *out, const struct opt *o)
{
    const struct opt *c;

    if (o->type == OPT_FUNC) {
        buf_adds(out, "\"lua\"");
        return;
    }
    if (o->type != OPT_LIST && o->type != OPT_MAP) {
        opt_put_json(out, o);
        return;
    }
    buf_addc(out, o->type == OPT_LIST ? '[' : '{');
    for (c = o->first; c != NULL; c = c->next) {
        if (o->type == OPT_MAP)
            put_name(out, c->name);
        if (o->type == OPT_MAP && c->type == OPT_STR && is_secret(c->name))
            buf_adds(out, "\"***\"");
        else
            put_value(out, c);
        if (o->type == OPT_LIST && c->next != NULL)
            buf_addc(out, ',');
    }
    buf_addc(out, o->type == OPT_LIST ? ']' : '}');
}

/* Columns as a list of the texts that the text form shows. */
static void
put_columns(struct buf *out, const struct opt *cols)
{
    const struct opt *c = cols != NULL ? cols->first : NULL;
    struct buf text;

    buf_init(&text);
    buf_addc(out, '[');
    for (; c != NULL; c = c->next) {
        buf_clear(&text);
        explain_put_column(&text, c);
        json_put_str(out, text.data, text.len);
        if (c->next != NULL)
            buf_addc(out, ',');
    }
    buf_addc(out, ']');
    buf_fini(&text);
}

struct inputs {
    struct buf *out;
    const struct plan *p;
    uint32_t n;
};

/* `edge` leads to the step, `from` out of the visible one behind it. */
static void
put_input(void *arg, const struct plan_edge *edge, const struct plan_edge *from)
{
    struct inputs *in = arg;
    struct buf *out = in->out;
    static const char *const names[] = {[EDGE_CHAIN] = "forward",
                                        [EDGE_FORWARD] = "forward",
                                        [EDGE_HASH] = "hash",
                                        [EDGE_REBALANCE] = "rebalance"};

    if (edge->kind == EDGE_CHAIN)
        edge = from; /* what stands before a hidden step */
    buf_adds(out, in->n++ > 0 ? ",{" : "{");
    put_number(out, "step", in->p->steps[from->from].number);
    put_member(out, "output", from->output);
    put_member(out, "exchange", names[edge->kind]);
    put_member(out, "carries", edge->partials ? "partials" : "records");
    put_name(out, "keys");
    if (edge->kind == EDGE_HASH)
        put_columns(out, plan_edge_key(in->p, edge));
    else
        buf_adds(out, "[]");
    buf_addc(out, '}');
}

/* Members of the normalised step that the object shows elsewhere, or that
 * say where and not what. */
static bool
is_shown(const char *name)
{
    static const char *const names[] = {"kind",        "name",
                                        "auto",        "place",
                                        "inputs",      "aggs",
                                        "parallelism", "slot_sharing_group",
                                        "key_place",   "event_timer_place"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void
put_options(struct buf *out, const struct plan_step *s)
{
    const struct opt *o;

    put_name(out, "options");
    buf_addc(out, '{');
    for (o = s->opts->first; o != NULL; o = o->next) {
        if (is_shown(o->name))
            continue;
        if (strcmp(o->name, "right") == 0) {
            put_name(out, "right_key");
            put_columns(out, opt_get(o, "key"));
            continue;
        }
        put_name(out, o->name);
        if (strcmp(o->name, "key") == 0 || strcmp(o->name, "cols") == 0)
            put_columns(out, o);
        else
            put_value(out, o);
    }
    buf_addc(out, '}');
}

static void
put_select(struct buf *out, const struct plan_step *s)
{
    const struct opt *aggs = opt_get(s->opts, "aggs");
    const struct opt *a = aggs != NULL ? aggs->first : NULL;
    struct buf call;

    buf_init(&call);
    put_name(out, "select");
    buf_addc(out, '[');
    for (; a != NULL; a = a->next) {
        buf_clear(&call);
        explain_put_call(&call, a);
        buf_addc(out, '{');
        put_member(out, "name", opt_str(a, "name", ""));
        put_name(out, "aggregate");
        json_put_str(out, call.data, call.len);
        buf_adds(out, a->next != NULL ? "}," : "}");
    }
    buf_addc(out, ']');
    buf_fini(&call);
}

static void
put_step(struct buf *out, const struct plan *p, const struct plan_step *s)
{
    struct inputs in = {.out = out, .p = p};
    uint32_t j;

    buf_addc(out, '{');
    put_number(out, "id", s->number);
    put_member(out, "name", s->name);
    put_member(out, "kind",
               s->kind == STEP_AGGREGATE ? plan_step_said(s)
                                         : plan_kind_name(s->kind));
    put_number(out, "parallelism", s->parallelism);
    put_number(out, "chain", (int64_t)s->chain + 1);
    put_member(out, "group", s->group);
    put_member(out, "place", s->place);
    put_name(out, "inputs");
    buf_addc(out, '[');
    explain_each_input(p, s, put_input, &in);
    buf_addc(out, ']');
    put_options(out, s);
    put_select(out, s);
    put_name(out, "why");
    buf_addc(out, '[');
    for (j = 0; s->why[j] != NULL; j++) {
        if (j > 0)
            buf_addc(out, ',');
        put_str(out, s->why[j]);
    }
    buf_adds(out, "]}");
}

static void
put_checkpoint(struct buf *out, const struct plan *p)
{
    put_name(out, "checkpoint");
    buf_addc(out, '{');
    put_name(out, "interval_ms");
    if (p->checkpoint) {
        json_put_int(out, p->checkpoint_interval_ms);
    } else {
        buf_adds(out, "null");
        put_member(out, "off", p->checkpoint_off);
    }
    buf_addc(out, '}');
}

void
plan_explain_json(const struct plan *p, struct buf *out)
{
    uint32_t i;

    buf_addc(out, '{');
    put_member(out, "job", p->name);
    put_member(out, "file", p->file);
    put_number(out, "parallelism", p->parallelism);
    put_number(out, "max_parallelism", p->max_parallelism);
    put_number(out, "slots_needed", p->slots_needed);
    put_checkpoint(out, p);
    put_name(out, "steps");
    buf_addc(out, '[');
    for (i = 0; i < p->step_count; i++) {
        if (p->steps[i].number == 0)
            continue;
        if (p->steps[i].number > 1)
            buf_addc(out, ',');
        put_step(out, p, &p->steps[i]);
    }
    buf_addc(out, ']');
    put_name(out, "warnings");
    buf_addc(out, '[');
    for (i = 0; i < p->warning_count; i++) {
        buf_adds(out, i > 0 ? ",{" : "{");
        put_member(out, "place", p->warnings[i].place);
        put_member(out, "text", p->warnings[i].text);
        buf_addc(out, '}');
    }
    buf_adds(out, "]}\n");
}
