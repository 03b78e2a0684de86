#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "main/cmd.h"
#include "run/run.h"
#include "script/script.h"

enum {
    PARALLELISM_MAX = 32768,
    UNTIL_IDLE_MS = 2000,
    STOP_TIMEOUT_MS = 60000,
};

/* A progress line is drawn for a person at a terminal who wants INFO. */
static bool
wants_progress(const struct cli *c)
{
    return isatty(STDERR_FILENO) == 1 && !cli_has(c, FLAG_QUIET) &&
           !log_is_json() && log_enabled(LOG_INFO);
}

/* Flags that say where the job begins; some contradict each other. */
static int
fill_start(const struct cli *c, struct run_conf *conf, struct err *e)
{
    const char *recover = cli_text(c, FLAG_RECOVER);

    conf->from = cli_text(c, FLAG_FROM);
    conf->new_lineage = cli_has(c, FLAG_NEW_LINEAGE);
    conf->fresh = cli_has(c, FLAG_FRESH);
    conf->accept_code = cli_has(c, FLAG_ACCEPT_CODE);
    conf->allow_state_loss = cli_has(c, FLAG_ALLOW_STATE_LOSS);
    if (recover != NULL)
        conf->recover =
            strcmp(recover, "rewind") == 0 ? RECOVER_REWIND : RECOVER_DISCARD;
    conf->watch = cli_has(c, FLAG_WATCH) ||
                  (isatty(STDERR_FILENO) == 1 && !cli_has(c, FLAG_NO_WATCH));
    if (cli_has(c, FLAG_WATCH) && cli_has(c, FLAG_NO_WATCH))
        return err_set(e, ERR_USAGE,
                       "--watch and --no-watch: give one of them");
    if (conf->from != NULL && conf->from[0] == '\0')
        return err_set(e, ERR_USAGE, "--from: expected a directory, got \"\"");
    if (conf->fresh && conf->from != NULL)
        return err_set(e, ERR_USAGE,
                       "--fresh starts without state, --from brings the state "
                       "of a savepoint: give one of them");
    if (conf->fresh && recover != NULL)
        return err_set(e, ERR_USAGE,
                       "--fresh starts a new lineage, whatever was there; "
                       "--recover goes on with the old one: give one of them");
    if (conf->new_lineage && conf->from == NULL)
        return err_set(e, ERR_USAGE,
                       "--new-lineage makes a copy of a savepoint: name it "
                       "with --from DIR");
    if (conf->new_lineage && recover != NULL)
        return err_set(e, ERR_USAGE,
                       "--new-lineage starts a marker of its own, so there is "
                       "nothing to recover: leave out --recover");
    if (conf->from != NULL && conf->recover == RECOVER_DISCARD)
        return err_set(e, ERR_USAGE,
                       "--recover=discard-state starts without state, --from "
                       "brings the state of a savepoint: give one of them");
    return 0;
}

static int
fill_conf(struct cli *c, struct run_conf *conf, struct err *e)
{
    struct opt *params;

    memset(conf, 0, sizeof *conf);
    conf->until_idle_ms = -1;
    if (cli_pairs(c, FLAG_SET, &params, e) != 0 ||
        cli_connect(c, &conf->cli, e) != 0 ||
        cli_count(c, FLAG_PARALLELISM, PARALLELISM_MAX, &conf->parallelism,
                  e) != 0 ||
        cli_count(c, FLAG_SLOTS, PARALLELISM_MAX, &conf->slots, e) != 0 ||
        cli_duration(c, FLAG_STOP_TIMEOUT, STOP_TIMEOUT_MS,
                     &conf->stop_timeout_ms, e) != 0)
        return e->code;
    if (cli_has(c, FLAG_UNTIL_IDLE) &&
        cli_duration(c, FLAG_UNTIL_IDLE, UNTIL_IDLE_MS, &conf->until_idle_ms,
                     e) != 0)
        return e->code;
    if (fill_start(c, conf, e) != 0)
        return e->code;
    conf->file = c->operand;
    conf->params = params;
    conf->args = c->args;
    conf->summary_path = cli_text(c, FLAG_SUMMARY);
    conf->data_dir = cli_text(c, FLAG_DATA_DIR);
    if (conf->data_dir == NULL)
        conf->data_dir = "streamlua-data";
    conf->unsafe = cli_has(c, FLAG_UNSAFE);
    conf->progress = wants_progress(c);
    return 0;
}

int
cmd_run(struct cli *c)
{
    struct run_conf conf;
    struct err e;
    char *text;
    int rc;

    if (fill_conf(c, &conf, &e) != 0)
        return cmd_usage_error(c, &e);
    if (script_read_file(c->operand, &text, &conf.text_len, &e) != 0)
        return run_refuse(&conf, &e);
    conf.text = text;
    if (conf.progress)
        log_set_progress(true);
    rc = run_job(&conf, &e);
    free(text);
    return rc;
}
