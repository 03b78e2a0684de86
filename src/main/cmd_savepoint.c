/*
 * savepoint: a self-contained copy of a job's last round.
 *
 * A running job makes it itself, as a round of its own, and is asked through
 * its control socket. The store of a stopped job is opened here, under its
 * lock. Either way the copy is read back before its path is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "main/cmd.h"
#include "main/job_dir.h"
#include "main/savepoint_copy.h"
#include "run/control.h"
#include "state/store.h"

enum { NUMBERS_MAX = 1000000 };

/* Where it goes by default: beside the job, by the first free number. */
static char *
default_to(const struct job_dir *job)
{
    size_t size = strlen(job->path) + 32;
    char *path = mem_alloc(size);
    struct stat st;
    int n;

    for (n = 1; n < NUMBERS_MAX; n++) {
        (void)snprintf(path, size, "%s-savepoint-%d", job->path, n);
        if (lstat(path, &st) != 0)
            break;
    }
    return path;
}

/* @return 1 the job made it, 0 the job does not run, or its refusal. */
static int
ask_job(const struct cli *c, const struct job_dir *job, const char *to,
        struct err *e)
{
    const struct opt *answer;
    struct arena a;
    struct buf b;
    int r;

    arena_init(&a);
    buf_init(&b);
    buf_adds(&b, "{\"verb\":\"savepoint\",\"to\":");
    json_put_str(&b, to, strlen(to));
    buf_addf(&b, ",\"stop\":%s,\"drain\":%s}",
             cli_has(c, FLAG_STOP) ? "true" : "false",
             cli_has(c, FLAG_DRAIN) ? "true" : "false");
    r = control_call(job->path, buf_cstr(&b), &a, &answer, e);
    buf_fini(&b);
    arena_fini(&a);
    return r;
}

static int
not_running(const struct cli *c, const struct job_dir *job, struct err *e)
{
    if (!job_dir_has_store(job)) {
        (void)err_set(e, ERR_UNAVAILABLE,
                      "job %s is not running, and no checkpoint is in '%s'",
                      job->name, job->path);
        err_hint(e, "name the job as s.job() does, and the --data-dir it runs "
                    "with; a job without checkpoints has no savepoints");
        return ERR_UNAVAILABLE;
    }
    if (!cli_has(c, FLAG_DRAIN))
        return 0;
    (void)err_set(e, ERR_UNAVAILABLE,
                  "job %s is not running: its windows cannot fire", job->name);
    err_hint(e, "without --drain they stay open in the savepoint");
    return ERR_UNAVAILABLE;
}

static int
make(const struct cli *c, const struct job_dir *job, const char *to,
     struct err *e)
{
    char *absolute = job_dir_absolute(to);
    int r;

    if (absolute == NULL)
        return err_set(e, ERR_IO, "the working directory cannot be named");
    r = ask_job(c, job, absolute, e);
    if (r != 0)
        goto end;
    r = not_running(c, job, e);
    if (r == 0)
        r = savepoint_copy(job, to, e);
    if (r == 0 && cli_has(c, FLAG_STOP))
        log_line(LOG_INFO, "job %s is not running: nothing to stop", job->name);
    if (r != ERR_BUSY)
        goto end;
    r = ask_job(c, job, absolute, e); /* it has started meanwhile */
    if (r == 0) {
        r = savepoint_copy(job, to, e); /* or ended */
        if (r == ERR_BUSY)
            err_hint(e, "it does not answer: it starts, or it ends; try "
                        "again");
    }
end:
    free(absolute);
    return r < 0 ? r : 0;
}

static int
check_flags(const struct cli *c, struct err *e)
{
    const char *to = cli_text(c, FLAG_TO);

    if (to != NULL && to[0] == '\0')
        return err_set(e, ERR_USAGE, "--to: expected a directory, got \"\"");
    return 0;
}

int
cmd_savepoint(struct cli *c)
{
    struct store_verified seen;
    struct job_dir job;
    char *to = NULL;
    struct buf out;
    struct err e;
    int rc;

    buf_init(&out);
    if (job_dir_read(c, c->operand, &job, &e) != 0 || check_flags(c, &e) != 0) {
        rc = cmd_usage_error(c, &e);
        goto end;
    }
    to = cli_has(c, FLAG_TO) ? mem_strdup(cli_text(c, FLAG_TO))
                             : default_to(&job);
    if (make(c, &job, to, &e) != 0 || store_verify(to, &seen, &e) != 0) {
        rc = cmd_error(c, &e);
        goto end;
    }
    buf_addf(&out, "%s\n", to);
    rc = cmd_print(out.data, out.len);
end:
    free(to);
    job_dir_fini(&job);
    buf_fini(&out);
    return rc;
}
