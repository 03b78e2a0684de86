/*
 * size: capacity planning as arithmetic, and the slots of a job.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "main/cmd.h"
#include "main/job_load.h"
#include "main/sizing.h"

enum { SLOTS_PER_WORKER = 2, COUNT_MAX = 1000000, SLOTS_MAX = 1 << 30 };

struct size {
    struct sizing_in in;
    bool by_rate; /* --rate and --capacity are given */
    uint32_t slots_per_worker;
    /* what comes out */
    uint32_t parallelism, slots;
    struct sizing result; /* by_rate */
};

/* Flags that mean nothing without another. */
static int
check_pairs(const struct cli *c, struct err *e)
{
    static const enum cli_flag_id of_rate[] = {
        FLAG_UTILIZATION, FLAG_PARTITIONS, FLAG_MAX_PARALLELISM, FLAG_BACKLOG,
        FLAG_WITHIN};
    bool rate = cli_has(c, FLAG_RATE);
    size_t i;

    if (rate != cli_has(c, FLAG_CAPACITY))
        return err_set(e, ERR_USAGE,
                       "size: --rate and --capacity are given together");
    if (!rate && c->operand == NULL)
        return err_set(e, ERR_USAGE,
                       "size: give --rate and --capacity, or a FILE");
    if (cli_has(c, FLAG_BACKLOG) != cli_has(c, FLAG_WITHIN))
        return err_set(e, ERR_USAGE,
                       "size: --backlog and --within are given together");
    for (i = 0; i < sizeof of_rate / sizeof *of_rate; i++)
        if (!rate && cli_has(c, of_rate[i]))
            return err_set(e, ERR_USAGE, "size: --%s needs --rate",
                           cli_flags[of_rate[i]].name);
    if (rate && cli_has(c, FLAG_PARALLELISM))
        return err_set(e, ERR_USAGE,
                       "size: --rate finds the parallelism, --parallelism "
                       "gives it: give one of them");
    return 0;
}

static int
read_flags(const struct cli *c, struct size *s, struct err *e)
{
    struct sizing_in *in = &s->in;
    int64_t within_ms;

    if (check_pairs(c, e) != 0 ||
        cli_number(c, FLAG_RATE, 0, &in->rate, e) != 0 ||
        cli_number(c, FLAG_CAPACITY, 0, &in->capacity, e) != 0 ||
        cli_number(c, FLAG_UTILIZATION, 0.75, &in->utilization, e) != 0 ||
        cli_number(c, FLAG_BACKLOG, 0, &in->backlog, e) != 0 ||
        cli_duration(c, FLAG_WITHIN, 0, &within_ms, e) != 0 ||
        cli_count(c, FLAG_PARTITIONS, COUNT_MAX, &in->partitions, e) != 0 ||
        cli_count(c, FLAG_MAX_PARALLELISM, SIZING_PARALLELISM_MAX,
                  &in->max_parallelism, e) != 0 ||
        cli_count(c, FLAG_SLOTS_PER_WORKER, COUNT_MAX, &s->slots_per_worker,
                  e) != 0)
        return e->code;
    if (in->utilization > 1)
        return err_set(e, ERR_USAGE,
                       "--utilization: expected a share, at most 1, got "
                       "\"%s\"",
                       cli_text(c, FLAG_UTILIZATION));
    if (cli_has(c, FLAG_WITHIN) && within_ms == 0)
        return err_set(e, ERR_USAGE, "--within: expected a time above 0");
    in->within_s = (double)within_ms / 1000.;
    s->by_rate = cli_has(c, FLAG_RATE);
    if (s->slots_per_worker == 0)
        s->slots_per_worker = SLOTS_PER_WORKER;
    return 0;
}

/* Of a job: the slots of its plan, at the parallelism that the rate needs or
 * that it has. A max_parallelism in the file is a limit like the flag's. */
static int
size_job(struct cli *c, struct size *s, struct err *e)
{
    struct job_load job;
    char text[NUM_TEXT_MAX];
    int64_t max;
    int r = job_load(c, &job, e);

    if (r == 0 && s->by_rate) {
        max = opt_int(opt_get(job.plan->job, "options"), "max_parallelism", 0);
        if (max > 0 && (s->in.max_parallelism == 0 ||
                        max < (int64_t)s->in.max_parallelism))
            s->in.max_parallelism = (uint32_t)max;
        s->result = sizing_compute(&s->in);
        (void)num_text_int(s->result.parallelism, text);
        job_load_free(&job);
        c->values[FLAG_PARALLELISM] = arena_strdup(&c->arena, text);
        r = job_load(c, &job, e);
    }
    if (r == 0) {
        s->parallelism = job.plan->parallelism;
        s->slots = job.plan->slots_needed;
    }
    job_load_free(&job);
    return r;
}

static void
put_result(const struct cli *c, const struct size *s, struct buf *out)
{
    uint32_t workers = (s->slots - 1) / s->slots_per_worker + 1;
    const char *binds = s->by_rate ? sizing_binds_name(s->result.binds) : NULL;

    if (cli_has(c, FLAG_JSON)) {
        buf_addf(out, "{\"parallelism\":%u,\"slots\":%u,\"workers\":%u",
                 s->parallelism, s->slots, workers);
        if (binds != NULL)
            buf_addf(out, ",\"binds\":\"%s\"", binds);
        buf_adds(out, "}\n");
        return;
    }
    buf_addf(out, "parallelism %u\nslots %u\nworkers %u\n", s->parallelism,
             s->slots, workers);
    if (binds != NULL)
        buf_addf(out, "binds %s\n", binds);
}

/* Cut: what remains is too little, and that must not go unseen. */
static void
warn_if_short(const struct size *s)
{
    bool partitions = s->result.binds == BINDS_PARTITIONS;

    if (!s->by_rate || (!partitions && s->result.binds != BINDS_KEY_GROUPS))
        return;
    log_line(LOG_WARN, "%.0f subtasks are needed, and %u do %.0f records/s: %s",
             s->result.needed, s->result.parallelism, s->result.sustained,
             partitions ? "the input has too few partitions"
                        : "there are too few key groups (max_parallelism)");
}

int
cmd_size(struct cli *c)
{
    struct size s = {0};
    struct buf out;
    struct err e;
    int rc;

    if (read_flags(c, &s, &e) != 0)
        return cmd_usage_error(c, &e);
    if (c->operand != NULL) {
        if (size_job(c, &s, &e) != 0)
            return cmd_error(c, &e);
    } else {
        s.result = sizing_compute(&s.in);
        s.parallelism = s.slots = s.result.parallelism;
    }
    warn_if_short(&s);
    buf_init(&out);
    put_result(c, &s, &out);
    rc = cmd_print(out.data, out.len);
    buf_fini(&out);
    return rc;
}
