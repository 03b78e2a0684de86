#include "main/cmd.h"
#include "main/job_load.h"

int
cmd_explain(struct cli *c)
{
    struct job_load job;
    struct buf out;
    struct err e;
    int rc;

    buf_init(&out);
    if (cli_has(c, FLAG_JSON) && cli_has(c, FLAG_DOT)) {
        (void)err_set(&e, ERR_USAGE, "give one of --json and --dot");
        return cmd_usage_error(c, &e);
    }
    if (job_load(c, &job, &e) != 0) {
        rc = cmd_error(c, &e);
        goto end;
    }
    if (cmd_check_kafka(c, job.plan, &e) != 0) {
        rc = cmd_error(c, &e);
        goto end;
    }
    if (cli_has(c, FLAG_JSON))
        plan_explain_json(job.plan, &out);
    else if (cli_has(c, FLAG_DOT))
        plan_explain_dot(job.plan, &out);
    else
        plan_explain_text(job.plan, &out);
    if (out.len > 0 && out.data[out.len - 1] != '\n')
        buf_addc(&out, '\n');
    rc = cmd_print(out.data, out.len);
end:
    buf_fini(&out);
    job_load_free(&job);
    return rc;
}
