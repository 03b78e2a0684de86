#include "run/savepoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "run/control.h"
#include "run/job.h"

static void
forget(struct savepoint *s)
{
    free(s->to);
    memset(s, 0, sizeof *s);
}

static void
refuse(struct savepoint *s, const struct err *e)
{
    control_refuse(&s->req, e);
    forget(s);
}

/* Whether a copy can be made there: a job must not be stopped for one that
 * cannot. An empty folder that is there is the copy's to be. */
static int
check_place(const char *to, struct err *e)
{
    if ((mkdir(to, 0777) == 0 || errno == EEXIST) && rmdir(to) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == ENOTDIR || errno == EBUSY)
        (void)err_set(e, ERR_CONFIG, "'%s' is in the way of the copy", to);
    else
        (void)err_set(e, ERR_IO, "cannot make '%s': %s", to, strerror(errno));
    err_hint(e, "name a folder that does not exist yet, in one that does and "
                "that the job may write to");
    return e->code;
}

static int
check(const struct job *j, const struct opt *ask, struct err *e)
{
    const char *to = opt_str(ask, "to", NULL);

    if (j->run->savepoint.state != SAVEPOINT_NONE)
        return err_set(e, ERR_TEMP, "a savepoint of job %s is being made",
                       j->plan->name);
    if (to == NULL || to[0] != '/')
        return err_set(e, ERR_USAGE,
                       "savepoint: \"to\" must be an absolute path");
    if (reload_is_swapping(j->run))
        return err_set(e, ERR_TEMP,
                       "job %s is about to run other code; try again later",
                       j->plan->name);
    if (j->stopping)
        return err_set(e, ERR_TEMP, "job %s is stopping", j->plan->name);
    return check_place(to, e);
}

static void
begin(struct job *j, const struct opt *ask, struct control_req **req)
{
    struct savepoint *s = &j->run->savepoint;
    bool drain = opt_bool(ask, "drain", false);

    s->req = *req;
    *req = NULL;
    s->state = SAVEPOINT_WAITING;
    s->to = mem_strdup(opt_str(ask, "to", ""));
    s->stop = drain || opt_bool(ask, "stop", false);
    log_line(LOG_INFO, "savepoint%s to %s",
             drain     ? " --drain"
             : s->stop ? " --stop"
                       : "",
             s->to);
    if (s->stop) {
        atomic_store(&j->ops.drain, drain);
        job_stop(j);
        return;
    }
    /* The next round: one under way may have begun before the request. */
    s->target = j->rounds.current + 1;
    rounds_wanted(j);
}

static void
on_request(void *arg, struct control_req *req)
{
    struct job *j = arg;
    const struct opt *ask = control_request(req);
    struct err e;
    int r;

    if (reload_request(j, req))
        return;
    err_clear(&e);
    if (!opt_is(ask, "verb", "savepoint"))
        r = err_set(&e, ERR_USAGE, "unknown verb \"%s\"",
                    opt_str(ask, "verb", ""));
    else if (j->plan == NULL || !atomic_load(&j->running))
        r = err_set(&e, ERR_TEMP, "the job is starting again; try later");
    else
        r = check(j, ask, &e);
    if (r != 0)
        control_refuse(&req, &e);
    else
        begin(j, ask, &req);
}

int
savepoint_serve(struct job *j, struct err *e)
{
    struct run *run = j->run;

    if (!j->plan->checkpoint || run->control != NULL)
        return 0;
    return control_new(run->loop, run->home.dir, on_request, j, &run->control,
                       e);
}

static void
answer(struct savepoint *s)
{
    struct buf b;

    buf_init(&b);
    buf_adds(&b, "{\"ok\":true");
    json_put_name(&b, "path", 4);
    json_put_str(&b, s->to, strlen(s->to));
    buf_addc(&b, '}');
    control_reply(&s->req, b.data, b.len);
    buf_fini(&b);
    log_line(LOG_INFO, "savepoint %s is complete", s->to);
    forget(s);
}

bool
savepoint_tick(struct job *j, bool last)
{
    struct savepoint *s = &j->run->savepoint;
    struct err e;

    switch (s->state) {
    case SAVEPOINT_NONE:
        return false;
    case SAVEPOINT_WAITING:
        /* Behind the last round nothing comes, whatever was waited for. */
        if (!last && (s->stop || rounds_complete(&j->rounds) < s->target))
            return true;
        s->state = SAVEPOINT_COPYING;
        ckpt_copy(&j->ckpt, s->to);
        return true;
    case SAVEPOINT_COPYING:
        if (!ckpt_take_copy(&j->ckpt, &e))
            return true;
        if (e.code != 0)
            refuse(s, &e);
        else
            answer(s);
        return false;
    }
    return false;
}

void
savepoint_failed(struct job *j, const struct err *e)
{
    if (j->run->savepoint.state != SAVEPOINT_NONE)
        refuse(&j->run->savepoint, e);
}
