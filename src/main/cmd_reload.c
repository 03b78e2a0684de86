/*
 * reload and rollback: ask a running job to change its code.
 *
 * The job does it all (run/reload.h) and answers when its new code has a
 * checkpoint, or why it goes on with the old one.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "main/cmd.h"
#include "main/job_dir.h"
#include "run/control.h"

enum { PARALLELISM_MAX = 32768, NOT_ACCEPTED = 1 };

static void
put_text(struct buf *b, const char *name, const char *text)
{
    json_put_name(b, name, strlen(name));
    json_put_str(b, text, strlen(text));
}

static int
put_file(const struct cli *c, struct buf *b, struct err *e)
{
    char *path;

    if (c->operand_count < 2)
        return 0;
    path = job_dir_absolute(c->operands[1]);
    if (path == NULL)
        return err_set(e, ERR_IO, "the working directory cannot be named");
    put_text(b, "file", path);
    free(path);
    return 0;
}

static int
put_request(struct cli *c, struct buf *b, struct err *e)
{
    uint32_t parallelism = 0;
    struct opt *set;

    if (cli_pairs(c, FLAG_SET, &set, e) != 0 ||
        cli_count(c, FLAG_PARALLELISM, PARALLELISM_MAX, &parallelism, e) != 0)
        return e->code;
    buf_addf(b, "{\"verb\":\"%s\",\"dry_run\":%s,\"allow_state_loss\":%s",
             cli_verbs[c->verb].name,
             cli_has(c, FLAG_DRY_RUN) ? "true" : "false",
             cli_has(c, FLAG_ALLOW_STATE_LOSS) ? "true" : "false");
    if (parallelism != 0)
        buf_addf(b, ",\"parallelism\":%u", (unsigned)parallelism);
    json_put_name(b, "set", 3);
    opt_put_json(b, set);
    if (put_file(c, b, e) != 0)
        return e->code;
    buf_addc(b, '}');
    return 0;
}

static int
ask(const struct cli *c, const struct job_dir *job, const char *request,
    int *ret_exit, struct err *e)
{
    const struct opt *answer;
    const char *table, *message;
    struct arena a;
    int r;

    arena_init(&a);
    r = control_call(job->path, request, &a, &answer, e);
    if (r == 0) {
        r = err_set(e, ERR_UNAVAILABLE, "job %s is not running", job->name);
        err_hint(e, "name the job as s.job() does, and the --data-dir it runs "
                    "with; a job without checkpoints hears SIGHUP only");
    }
    if (r == 1) {
        table = opt_str(answer, "table", "");
        message = opt_str(answer, "message", "");
        *ret_exit = cmd_print(table, strlen(table));
        if (message[0] != '\0' && !cli_has(c, FLAG_QUIET))
            (void)fprintf(stderr, "%s\n", message);
        if (*ret_exit == 0 && !opt_bool(answer, "accepted", false))
            *ret_exit = NOT_ACCEPTED;
    }
    arena_fini(&a);
    return r < 0 ? r : 0;
}

int
cmd_reload(struct cli *c)
{
    struct job_dir job;
    struct buf request;
    struct err e;
    int rc = 0;

    buf_init(&request);
    if (job_dir_read(c, c->operand, &job, &e) != 0 ||
        put_request(c, &request, &e) != 0)
        rc = cmd_usage_error(c, &e);
    else if (ask(c, &job, buf_cstr(&request), &rc, &e) != 0)
        rc = cmd_error(c, &e);
    job_dir_fini(&job);
    buf_fini(&request);
    return rc;
}
