#include <stdio.h>

#include "base/log.h"
#include "kafka/kafka.h"
#include "main/cmd.h"
#include "main/job_load.h"

static void
print_warnings(const struct cli *c, const struct plan *p)
{
    const char *on = cli_colour(c, stderr) ? "\033[33m" : "";
    const char *off = *on != '\0' ? "\033[0m" : "";
    uint32_t i;

    for (i = 0; i < p->warning_count; i++) {
        if (log_is_json()) {
            struct log_kv kv = {"place", p->warnings[i].place, false};

            log_kvs(LOG_WARN, p->warnings[i].text, &kv, 1);
            continue;
        }
        (void)fprintf(stderr, "%s: %swarning:%s %s\n", p->warnings[i].place, on,
                      off, p->warnings[i].text);
    }
}

int
cmd_check_kafka(struct cli *c, const struct plan *p, struct err *e)
{
    struct conn_env env = {0};
    const struct plan_step *s;
    bool ask = cli_has(c, FLAG_PREFLIGHT), sink;
    uint32_t i;
    int r;

    if (cli_connect(c, &env.cli, e) != 0)
        return e->code;
    env.job = p->name;
    env.job_opts = opt_get(p->job, "options");
    for (i = 0; i < p->step_count; i++) {
        s = &p->steps[i];
        if (!opt_is(s->opts, "connector", "kafka"))
            continue;
        sink = s->kind == STEP_SINK;
        env.step = s->name;
        env.place = s->place;
        env.opts = opt_get(s->opts, "conn");
        env.parallelism = s->parallelism;
        r = ask ? kafka_preflight(&env, sink, e) : kafka_check(&env, sink, e);
        if (r != 0)
            return r;
    }
    return 0;
}

int
cmd_check(struct cli *c)
{
    struct job_load job;
    struct buf out;
    struct err e;
    int rc;

    buf_init(&out);
    if (job_load(c, &job, &e) != 0) {
        rc = cmd_error(c, &e);
        goto end;
    }
    print_warnings(c, job.plan);
    if (cmd_check_kafka(c, job.plan, &e) != 0) {
        rc = cmd_error(c, &e);
        goto end;
    }
    buf_addf(&out, "%s: ok\n", c->operand);
    rc = cmd_print(out.data, out.len);
end:
    buf_fini(&out);
    job_load_free(&job);
    return rc;
}
