#include "main/job_load.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/prepare.h"

enum { PARALLELISM_MAX = 32768, LOAD_TIMEOUT_MS = 5000 };

static uint32_t
cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : (uint32_t)n;
}

/* A task that calls user code will load the file again: does it get the same
 * plan? Another seed shows randomness. */
static int
check_second_load(const struct script_conf *first, struct script *script,
                  struct err *e)
{
    struct script_conf sc = *first;
    struct script *again = NULL;
    int r;

    if (!opt_has_func(opt_get(script_job(script), "steps")))
        return 0;
    sc.seed = first->seed + 1;
    r = script_load(&sc, &again, e);
    if (r == 0)
        r = script_check_same(script, again, e);
    script_free(&again);
    return r;
}

int
job_load(struct cli *c, struct job_load *ret, struct err *e)
{
    struct script_conf sc = {0};
    struct plan_conf pc = {0};
    struct opt *params;

    memset(ret, 0, sizeof *ret);
    if (cli_pairs(c, FLAG_SET, &params, e) != 0 ||
        cli_count(c, FLAG_PARALLELISM, PARALLELISM_MAX, &pc.parallelism, e) ||
        cli_count(c, FLAG_SLOTS, PARALLELISM_MAX, &pc.slots, e) != 0)
        return e->code;
    if (script_read_file(c->operand, &ret->text, &ret->text_len, e) != 0)
        return e->code;
    sc.path = c->operand;
    sc.text = ret->text;
    sc.text_len = ret->text_len;
    sc.params = params;
    sc.args = c->args;
    sc.unsafe = cli_has(c, FLAG_UNSAFE);
    sc.load_timeout_ms = LOAD_TIMEOUT_MS;
    if (script_load(&sc, &ret->script, e) != 0 ||
        script_test_laws(ret->script, e) != 0)
        return e->code;
    pc.cores = cores();
    pc.bounded = cli_has(c, FLAG_BOUNDED);
    if (plan_build(script_job(ret->script), &pc, &ret->plan, e) != 0 ||
        prepare_check_stdin(c->operand, ret->plan, e) != 0)
        return e->code;
    return check_second_load(&sc, ret->script, e);
}

void
job_load_free(struct job_load *j)
{
    plan_free(&j->plan);
    script_free(&j->script);
    free(j->text);
    j->text = NULL;
}
