#include "main/state_open.h"

#include <inttypes.h>
#include <string.h>

#include "main/cli_value.h"
#include "main/job_dir.h"

static int
check_at(const struct cli *c, const struct state_view *v, struct err *e)
{
    const char *at = cli_text(c, FLAG_AT);
    int64_t n;

    if (at == NULL)
        return 0;
    if (!value_read_int(at, 1, INT64_MAX, &n))
        return err_set(e, ERR_USAGE,
                       "--at: expected the number of a checkpoint, got \"%s\"",
                       at);
    if ((uint64_t)n == v->round)
        return 0;
    if (v->round == 0)
        return err_set(e, ERR_USAGE,
                       "--at: no checkpoint is complete yet in '%s'", v->path);
    return err_set(e, ERR_USAGE,
                   "--at: checkpoint %" PRId64 " is not in '%s', which keeps "
                   "the last complete one: %" PRIu64,
                   n, v->path, v->round);
}

static int
not_there(const struct job_dir *job, const char *word, struct err *e)
{
    struct job_dir here = {.path = (char *)(uintptr_t)word};

    (void)err_set(e, ERR_USAGE, "there is no checkpoint in '%s'", job->path);
    if (strchr(word, '/') == NULL && job_dir_has_store(&here))
        err_hint(e, "the folder here is written ./%s", word);
    else
        err_hint(e, "name the job as s.job() does, and the --data-dir it runs "
                    "with, or a path with a /; a job without checkpoints "
                    "keeps none");
    return ERR_USAGE;
}

int
state_open(struct cli *c, const char *word, struct state_view *ret,
           struct err *e)
{
    struct state_code code = {.args = c->args,
                              .unsafe = cli_has(c, FLAG_UNSAFE),
                              .given = cli_has(c, FLAG_SET)};
    struct opt *params = NULL;
    struct job_dir job;
    int r;

    memset(ret, 0, sizeof *ret);
    r = job_dir_read(c, word, &job, e);
    if (r == 0 && !job_dir_has_store(&job))
        r = not_there(&job, word, e);
    if (r == 0)
        r = cli_pairs(c, FLAG_SET, &params, e);
    code.params = params;
    if (r == 0)
        r = state_view_open(&code, job.path, job.name, ret, e);
    job_dir_fini(&job);
    return r != 0 ? r : check_at(c, ret, e);
}
