#include "plan/plan_impl.h"

#include <stdio.h>
#include <string.h>

bool
plan_sink_is_transactional(const struct opt *step)
{
    return opt_is(step, "connector", "kafka") &&
           opt_is(opt_get(step, "conn"), "delivery", "exactly_once");
}

bool
plan_sink_is_lua_target(const struct opt *step)
{
    return opt_is(step, "connector", "lua") &&
           opt_func(opt_get(step, "conn"), "commit") != 0;
}

bool
plan_sink_commits(const struct opt *step)
{
    return opt_is(step, "connector", "file") || plan_sink_is_lua_target(step) ||
           plan_sink_is_transactional(step);
}

static int
check_checkpoints(struct plan_build *b, const struct plan_node *n)
{
    const char *what = plan_sink_is_lua_target(n->opts)
                           ? "commit"
                           : "delivery = \"exactly_once\"";

    if (b->p->checkpoint)
        return 0;
    if (strcmp(b->p->checkpoint_off, "by option") == 0)
        return plan_refuse(b, n->place, "sink",
                           "%s needs checkpoints, but the job says checkpoint "
                           "= false",
                           what);
    return plan_refuse(b, n->place, "sink", "%s needs checkpoints, but %s",
                       what, b->p->checkpoint_off);
}

/* Client properties with which a producer keeps no transaction. */
static bool
breaks_transactions(const struct opt *property)
{
    const char *name = property->name;
    const char *v = property->type == OPT_STR ? property->s : "";

    if (strcmp(name, "transactional.id") == 0)
        return true;
    if (strcmp(name, "enable.idempotence") == 0)
        return strcmp(v, "true") != 0;
    if (strcmp(name, "acks") == 0 || strcmp(name, "request.required.acks") == 0)
        return strcmp(v, "all") != 0 && strcmp(v, "-1") != 0;
    return false;
}

static int
check_properties(struct plan_build *b, const struct plan_node *n,
                 const struct opt *owner)
{
    const struct opt *list = opt_get(owner, "properties");
    const struct opt *o;

    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next)
        if (breaks_transactions(o))
            return plan_refuse(
                b, n->place, "sink",
                "the property %s = %s breaks delivery = \"exactly_once\"; "
                "remove it%s",
                o->name, o->type == OPT_STR ? o->s : "?",
                strcmp(o->name, "transactional.id") == 0
                    ? ", the ids begin with transactional_id_prefix"
                    : ", the engine sets it");
    return 0;
}

static const char *
prefix_of(struct plan_build *b, const struct plan_node *n)
{
    const char *given =
        opt_str(opt_get(n->opts, "conn"), "transactional_id_prefix", NULL);

    return given != NULL ? given : plan_text(b->p, "streamlua-%s", b->p->name);
}

static const char *
servers_of(const struct plan_build *b, const struct plan_node *n)
{
    return opt_str(opt_get(n->opts, "conn"), "bootstrap_servers",
                   opt_str(b->options, "bootstrap_servers", ""));
}

/* One transaction makes a round final, so all its sinks share it. */
static int
check_same_target(struct plan_build *b, const struct plan_node *first,
                  const struct plan_node *n)
{
    const char *what = "transactional_id_prefix";
    const char *one = prefix_of(b, first), *other = prefix_of(b, n);

    if (strcmp(one, other) == 0) {
        what = "bootstrap_servers";
        one = servers_of(b, first);
        other = servers_of(b, n);
    }
    if (strcmp(one, other) == 0)
        return 0;
    return plan_refuse(b, n->place, "sink",
                       "a job has at most one target that decides a round, but "
                       "the exactly_once sinks %s (%s) and %s differ in %s: "
                       "\"%s\" and \"%s\"",
                       first->name, first->place, n->name, what, one, other);
}

static int
check_transaction(struct plan_build *b, const struct plan_node *first,
                  const struct plan_node *n)
{
    int r;

    if ((r = check_checkpoints(b, n)) != 0 ||
        (r = check_properties(b, n, opt_get(n->opts, "conn"))) != 0 ||
        (r = check_properties(b, n, b->options)) != 0)
        return r;
    if (first != NULL)
        return check_same_target(b, first, n);
    b->p->exactly_once = true;
    b->p->txn_prefix = prefix_of(b, n);
    return 0;
}

static int
check_lua_target(struct plan_build *b, const struct plan_node *n)
{
    int64_t given = opt_int(n->opts, "parallelism", 1);

    if (given > 1)
        return plan_refuse(b, n->place, "sink",
                           "parallelism = %lld: a sink with commit has one "
                           "subtask, since one transaction of its target "
                           "makes a round final; give the steps before it the "
                           "parallelism",
                           (long long)given);
    b->p->lua_target = plan_text(b->p, "lua:%s", n->name);
    return check_checkpoints(b, n);
}

/* One thing says which round is committed. */
static int
check_one_target(struct plan_build *b, const struct plan_node *first,
                 const struct plan_node *n)
{
    if (first == NULL || (!plan_sink_is_lua_target(first->opts) &&
                          !plan_sink_is_lua_target(n->opts)))
        return 0;
    return plan_refuse(b, n->place, "sink",
                       "a job has at most one target that decides a round, but "
                       "the sinks %s (%s) and %s have one each",
                       first->name, first->place, n->name);
}

int
plan_check_delivery(struct plan_build *b)
{
    const struct plan_node *n, *first = NULL;
    uint32_t i;
    int r;

    for (i = 0; i < b->count && !b->conf->boxed; i++) {
        n = &b->nodes[i];
        if (n->kind != STEP_SINK || (!plan_sink_is_transactional(n->opts) &&
                                     !plan_sink_is_lua_target(n->opts)))
            continue;
        if ((r = check_one_target(b, first, n)) != 0 ||
            (r = plan_sink_is_lua_target(n->opts)
                     ? check_lua_target(b, n)
                     : check_transaction(b, first, n)) != 0)
            return r;
        first = first == NULL ? n : first;
    }
    return 0;
}

/* When the rows of a sink that commits become visible. */
static void
explain_commit(struct plan_build *b, const struct plan_node *n,
               struct plan_step *s)
{
    bool file = opt_is(n->opts, "connector", "file");
    struct buf every;

    buf_init(&every);
    plan_put_duration(&every, b->p->checkpoint_interval_ms);
    plan_add_why(b->p, s,
                 "exactly_once: %s become visible with their checkpoint, up "
                 "to %s after %s",
                 file ? "parts" : "rows", buf_cstr(&every),
                 file          ? "they are closed"
                 : n->windowed ? "the window fires"
                               : "they are written");
    buf_fini(&every);
}

static void
explain_sink(struct plan_build *b, const struct plan_node *n,
             struct plan_step *s)
{
    if (plan_sink_commits(n->opts))
        explain_commit(b, n, s);
    else if (opt_is(opt_get(n->opts, "conn"), "delivery", "none"))
        plan_add_why(b->p, s,
                     "none: rows may be lost, and may repeat after a restart");
    else
        plan_add_why(b->p, s, "at_least_once: rows may repeat after a restart");
}

void
plan_place_delivery(struct plan_build *b)
{
    struct plan *p = b->p;
    struct plan_step *s;
    bool found = false;
    uint32_t i;

    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        if (s->kind != STEP_SINK)
            continue;
        if (p->checkpoint)
            explain_sink(b, &b->nodes[s->logical], s);
        if (plan_sink_is_lua_target(s->opts))
            p->target_step = i;
        if (!found && plan_sink_is_transactional(s->opts)) {
            found = true;
            p->txn_step = i;
        }
    }
}
