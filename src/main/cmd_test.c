/*
 * test: cases of test files, against the engine in a box.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "main/cmd.h"
#include "testing/cases.h"
#include "testing/sim.h"

static int
read_seed(const struct cli *c, uint64_t *ret, struct err *e)
{
    const char *text = cli_text(c, FLAG_SEED);
    char *end;

    *ret = 1;
    if (text == NULL)
        return 0;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return err_set(e, ERR_USAGE, "--seed: expected a number, got \"%s\"",
                       text);
    if (*ret == 0) /* a new one, short enough to type */
        *ret = (uint64_t)time(NULL) % 1000000 + 2;
    return 0;
}

static int
read_output(const struct cli *c, enum report_form *ret, struct err *e)
{
    const char *text = cli_text(c, FLAG_OUTPUT);

    *ret = REPORT_TEXT;
    if (text == NULL || strcmp(text, "text") == 0)
        return 0;
    *ret = REPORT_TAP;
    if (strcmp(text, "tap") == 0)
        return 0;
    *ret = REPORT_JUNIT;
    if (strcmp(text, "junit") == 0)
        return 0;
    return err_set(e, ERR_USAGE, "--output: expected %s, got \"%s\"",
                   cli_flags[FLAG_OUTPUT].metavar, text);
}

/* What the engine says in passing is of no interest here, unless asked for. */
static void
quiet_log(const struct cli *c)
{
    if (cli_text(c, FLAG_LOG_LEVEL) == NULL && !cli_has(c, FLAG_VERBOSE))
        log_setup(LOG_ERROR, log_is_json());
}

static void *
end_by_signal(void *arg)
{
    int number;

    if (sigwait(arg, &number) != 0)
        return NULL;
    sim_remove_left();
    (void)signal(number, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, arg, NULL);
    (void)raise(number);
    return NULL;
}

/* A signal that ends the process leaves no temporary directory. Those that are
 * ignored stay so; without a thread all are as they were. */
static void
tidy_at_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    static sigset_t set; /* the thread's, to the end */
    struct sigaction was;
    pthread_t thread;
    size_t i;

    (void)sigemptyset(&set);
    for (i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler == SIG_DFL)
            (void)sigaddset(&set, numbers[i]);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, end_by_signal, &set) == 0)
        (void)pthread_detach(thread);
    else
        (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int
cmd_test(struct cli *c)
{
    struct cases_conf conf = {.paths = c->operands,
                              .path_count = c->operand_count,
                              .filter = cli_text(c, FLAG_FILTER),
                              .coverage = cli_text(c, FLAG_COVERAGE),
                              .update = cli_has(c, FLAG_UPDATE),
                              .unsafe = cli_has(c, FLAG_UNSAFE)};
    enum report_form form;
    struct err e;
    int64_t failed;
    int r;

    if (read_seed(c, &conf.seed, &e) != 0 || read_output(c, &form, &e) != 0)
        return cmd_usage_error(c, &e);
    quiet_log(c);
    tidy_at_signals();
    conf.report = report_new(form, stdout, cli_colour(c, stdout));
    r = cases_run(&conf, &e);
    failed = report_end(conf.report);
    report_free(&conf.report);
    if (r != 0)
        return cmd_error(c, &e);
    if (failed < 0)
        return EXIT_IO;
    return failed > 0 ? 1 : 0;
}
