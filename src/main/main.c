/*
 * streamlua: the program. Reads the command line, sets up the log, hands
 * over to the verb. The only file that ends the process by returning.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "main/cmd.h"

int
cmd_usage_error(const struct cli *c, const struct err *e)
{
    if (log_is_json()) {
        log_error(e, false, NULL);
        return EXIT_USAGE;
    }
    (void)fprintf(stderr, "streamlua: %s\n", e->msg);
    if (e->hint[0] != '\0')
        (void)fprintf(stderr, "  hint: %s\n", e->hint);
    if (c->verb != VERB_HELP)
        (void)fprintf(stderr, "try: streamlua help %s\n",
                      cli_verbs[c->verb].name);
    else
        (void)fprintf(stderr, "try: streamlua help\n");
    return EXIT_USAGE;
}

int
cmd_error(const struct cli *c, const struct err *e)
{
    (void)c;
    log_error(e, false, NULL);
    return err_exit_code(e->code);
}

int
cmd_print(const char *text, size_t len)
{
    errno = 0;
    if ((len > 0 && fwrite(text, 1, len, stdout) != len) ||
        fflush(stdout) != 0) {
        (void)fprintf(stderr, "streamlua: cannot write to stdout: %s\n",
                      strerror(errno));
        return EXIT_IO;
    }
    return 0;
}

/* Level and form of the log from -q, -v, --log-level, --log-format. */
static void
setup_log(const struct cli *c)
{
    enum log_level level = LOG_INFO;
    const char *format = cli_text(c, FLAG_LOG_FORMAT);
    const char *name = cli_text(c, FLAG_LOG_LEVEL);

    if (cli_has(c, FLAG_QUIET))
        level = LOG_WARN;
    if (cli_has(c, FLAG_VERBOSE))
        level = LOG_DEBUG;
    if (name != NULL)
        (void)log_level_read(name, &level);
    log_setup(level, format != NULL && strcmp(format, "json") == 0);
}

/*
 * A standard stream that was closed must not become the number of a file
 * that the job opens: hold its place with something that refuses its use.
 */
static void
hold_standard_streams(void)
{
    int fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int
main(int argc, char **argv)
{
    static int (*const verbs[VERB_COUNT])(struct cli *) = {
        [VERB_RUN] = cmd_run,         [VERB_CHECK] = cmd_check,
        [VERB_EXPLAIN] = cmd_explain, [VERB_RELOAD] = cmd_reload,
        [VERB_ROLLBACK] = cmd_reload, [VERB_SAVEPOINT] = cmd_savepoint,
        [VERB_STATE] = cmd_state,     [VERB_TEST] = cmd_test,
        [VERB_NEW] = cmd_new,         [VERB_SIZE] = cmd_size,
        [VERB_VERSION] = cmd_version, [VERB_HELP] = cmd_help,
    };
    struct cli c;
    struct err e;
    int rc;

    hold_standard_streams();
    if (cli_parse(argc, argv, &c, &e) != 0) {
        rc = cmd_usage_error(&c, &e);
    } else {
        setup_log(&c);
        rc = verbs[c.verb](&c);
    }
    cli_fini(&c);
    return rc;
}
