#include "plan/plan_impl.h"

#include <string.h>

#include "core/key.h"

/* What of the total each part may use, and what of the machine the total
 * is, where the job does not say. */
#define STATE_SHARE 0.6
#define BUFFERS_SHARE 0.2
#define LUA_SHARE 0.2
#define MACHINE_SHARE 0.7

/* --parallelism > the job's option > --slots or slots > cores, the latter cut
 * to max_parallelism: nobody asked for more. */
static uint32_t
default_parallelism(const struct plan_build *b, int64_t most)
{
    const struct plan_conf *conf = b->conf;
    int64_t slots = conf->slots > 0 ? (int64_t)conf->slots
                                    : opt_int(b->options, "slots", 0);
    int64_t par = slots > 0 ? slots : conf->cores > 0 ? conf->cores : 1;

    return (uint32_t)(most > 0 && par > most ? most : par);
}

int
plan_read_parallelism(struct plan_build *b)
{
    struct plan *p = b->p;
    int64_t par = opt_int(b->options, "parallelism", 0);
    int64_t fixed =
        opt_int(b->options, "max_parallelism", b->conf->max_parallelism);
    int64_t most, given;
    uint32_t i;

    if (b->conf->parallelism > 0)
        par = b->conf->parallelism;
    if (par <= 0)
        par = default_parallelism(b, fixed);
    if (par > KEY_GROUPS_MAX)
        return err_set(b->e, ERR_CONFIG,
                       "parallelism %lld is above the most possible, %d",
                       (long long)par, KEY_GROUPS_MAX);
    p->parallelism = (uint32_t)par;

    most = par;
    for (i = 0; i < b->count; i++) {
        given = opt_int(b->nodes[i].opts, "parallelism", 0);
        if (given > KEY_GROUPS_MAX)
            return plan_refuse(b, b->nodes[i].place, b->nodes[i].kind_name,
                               "parallelism %lld is above the most possible, "
                               "%d",
                               (long long)given, KEY_GROUPS_MAX);
        if (plan_node_is_keyed(&b->nodes[i]) && given > most)
            most = given;
    }
    if (fixed <= 0)
        fixed = key_groups_default((int)most);
    p->max_parallelism = (uint32_t)fixed;
    return 0;
}

/* A part of memory: a fraction of the total, or a size of its own. */
static int64_t
part_bytes(const struct opt *memory, const char *name, double share,
           int64_t total)
{
    const struct opt *o = opt_get(memory, name);

    if (o != NULL && o->type == OPT_INT)
        return o->i;
    return (int64_t)(opt_dbl(memory, name, share) * (double)total);
}

static void
read_memory(struct plan_build *b)
{
    const struct opt *memory = opt_get(b->options, "memory");
    int64_t total = opt_int(memory, "total", 0);

    if (total <= 0)
        total = (int64_t)(MACHINE_SHARE *
                          (double)plan_memory_limit("", plan_memory_machine()));
    b->p->memory_bytes = total;
    b->p->state_bytes = part_bytes(memory, "state", STATE_SHARE, total);
    b->p->buffers_bytes = part_bytes(memory, "buffers", BUFFERS_SHARE, total);
    b->p->lua_bytes = part_bytes(memory, "lua", LUA_SHARE, total);
    b->p->state_lmdb =
        !opt_is(opt_get(b->options, "state"), "backend", "memory");
}

/* Checkpoints are off by option, or because a source cannot be replayed. */
static void
read_checkpoint(struct plan_build *b)
{
    struct plan *p = b->p;
    const struct opt *c = opt_get(b->options, "checkpoint");
    uint32_t i;

    p->checkpoint = true;
    p->checkpoint_interval_ms = opt_int(c, "interval_ms", 10000);
    p->checkpoint_timeout_ms = opt_int(c, "timeout_ms", 600000);
    p->checkpoint_min_pause_ms = opt_int(c, "min_pause_ms", 0);
    p->checkpoint_tolerable = opt_int(c, "tolerable_failures", 0);
    if (b->conf->boxed)
        return;
    if (c != NULL && c->type == OPT_BOOL && c->i == 0) {
        p->checkpoint = false;
        p->checkpoint_off = "by option";
        return;
    }
    for (i = 0; i < b->count; i++) {
        if (b->nodes[i].kind == STEP_SOURCE &&
            opt_is(b->nodes[i].opts, "connector", "stdin")) {
            p->checkpoint = false;
            p->checkpoint_off =
                plan_text(p, "source %s is not replayable", b->nodes[i].name);
            return;
        }
    }
}

void
plan_read_settings(struct plan_build *b)
{
    const struct opt *restart = opt_get(b->options, "restart");

    read_checkpoint(b);
    read_memory(b);
    b->p->restart_initial_ms = opt_int(restart, "initial_backoff_ms", 1000);
    b->p->restart_max_ms = opt_int(restart, "max_backoff_ms", 60000);
    b->p->restart_attempts = opt_int(restart, "attempts", -1);
}
