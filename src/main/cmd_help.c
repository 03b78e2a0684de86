#include <string.h>

#include "base/buf.h"
#include "main/cli_value.h"
#include "main/cmd.h"

static const char exit_codes[] =
    "Exit codes\n"
    "  0    ok; also after SIGTERM or SIGINT when everything was finished\n"
    "  1    the job or a test failed; no such key, damage, a difference "
    "(state)\n"
    "  64   wrong call\n"
    "  65   bad or unreadable job file\n"
    "  69   broker unavailable, or the job does not run\n"
    "  70   internal error\n"
    "  73   data directory in use, or the job was taken over\n"
    "  74   I/O error or damage\n"
    "  75   temporary failure, try again\n"
    "  78   configuration refused\n"
    "  130  ended at once by SIGINT\n"
    "  143  ended at once by SIGTERM\n";

static const char environment[] =
    "Environment\n"
    "  STREAMLUA_<FLAG>     value of a flag: --log-level is "
    "STREAMLUA_LOG_LEVEL;\n"
    "                       a switch takes true or false. A flag given wins\n"
    "  STREAMLUA_PARAM_<N>  value of s.param(\"n\"); --set n=value wins\n"
    "  NO_COLOR             no colours unless --color says always\n";

static const char signals[] =
    "Signals\n"
    "  SIGTERM, SIGINT  stop reading, finish what was read, exit 0;\n"
    "                   a second one, or --stop-timeout, ends at once\n"
    "  SIGHUP           reload the job's file (help reload)\n"
    "  SIGUSR1          the counters so far, one JSON line on stderr\n";

static const char units[] =
    "Values\n"
    "  duration  milliseconds, or parts: 500ms 30s 5m 2h 1d 1h30m 1.5s\n"
    "  size      bytes, or 64KiB 8MiB 1GiB (1024), 1KB 1MB 1GB (1000)\n";

static const struct {
    const char *name, *text;
} topics[] = {
    {"exit-codes", exit_codes},
    {"environment", environment},
    {"signals", signals},
    {"units", units},
};

enum { TOPIC_COUNT = sizeof topics / sizeof topics[0] };

static void
put_flag(struct buf *out, const struct cli_flag *f)
{
    struct buf left;

    buf_init(&left);
    if (f->letter != 0)
        buf_addf(&left, "-%c", f->letter);
    if (f->letter == 0 || strlen(f->name) > 1)
        buf_addf(&left, "%s--%s", f->letter != 0 ? ", " : "", f->name);
    if (f->arg == ARG_OPTIONAL)
        buf_addf(&left, "[=%s]", f->metavar);
    else if (f->metavar != NULL)
        buf_addf(&left, " %s", f->metavar);
    buf_addf(out, "  %-32s %s\n", buf_cstr(&left), f->help);
    buf_fini(&left);
}

/* What the operands of a verb are; a NULL: nothing to say. */
static const char *const operand_help[VERB_COUNT] = {
    [VERB_RUN] = "  FILE is a job in Lua; - reads it from stdin\n",
    [VERB_CHECK] = "  FILE is a job in Lua; - reads it from stdin\n",
    [VERB_EXPLAIN] = "  FILE is a job in Lua; - reads it from stdin\n",
    [VERB_SAVEPOINT] =
        "  JOB is a job's name under --data-dir, or the path of its directory\n"
        "  with a / in it. The path of the savepoint is printed.\n",
    [VERB_RELOAD] =
        "  JOB is a running job's name under --data-dir, or the path of its\n"
        "  directory with a / in it; FILE takes the place of the job's file.\n"
        "  What each step keeps is printed. 0: the new code is accepted and "
        "has\n"
        "  its first checkpoint; 1: it was refused, or rolled back.\n",
    [VERB_ROLLBACK] =
        "  JOB is a running job's name under --data-dir, or the path of its\n"
        "  directory with a / in it. Each call goes back one accepted "
        "version.\n",
    [VERB_TEST] =
        "  FILE is a test file NAME_test.lua, or the job NAME.lua beside one;\n"
        "  DIR stands for all *_test.lua in it. None: the current folder.\n",
    [VERB_NEW] = "  NAME is the folder that is made; its last part is the "
                 "job's name.\n"
                 "  The next two commands are printed.\n",
    [VERB_SIZE] = "  FILE is a job: slots are those of its plan.\n",
    [VERB_STATE] =
        "  JOB is a job's name under --data-dir; DIR a path with a / in it,\n"
        "  also of a savepoint. The last complete checkpoint is shown:\n"
        "\n"
        "  list JOB|DIR           steps, entries, bytes\n"
        "  scan JOB|DIR [STEP]    rows as the open windows would give them "
        "now\n"
        "  get JOB|DIR STEP KEY   those of one key; KEY is a JSON value or\n"
        "                         an object of the key's fields\n"
        "  size JOB|DIR [STEP]    where the bytes are\n"
        "  verify JOB|DIR         read and check every byte\n"
        "  diff A B [STEP]        what differs; exit 1 if anything does\n",
};

static void
put_verb(struct buf *out, enum cli_verb_id v)
{
    size_t i;

    buf_addf(out, "usage: streamlua %s [flags]%s%s%s\n  %s\n",
             cli_verbs[v].name, cli_verbs[v].operand[0] != '\0' ? " " : "",
             cli_verbs[v].operand,
             (FOR_JOB & 1u << v) != 0 ? " [-- job arguments]" : "",
             cli_verbs[v].help);
    if (operand_help[v] != NULL)
        buf_adds(out, operand_help[v]);
    buf_adds(out, "\n");
    for (i = 0; i < FLAG_COUNT; i++)
        if ((cli_flags[i].verbs & 1u << v) != 0)
            put_flag(out, &cli_flags[i]);
}

static void
put_overview(struct buf *out)
{
    size_t i;

    buf_adds(out, "usage: streamlua VERB [flags] [FILE] [-- job arguments]\n"
                  "\n");
    for (i = 0; i < VERB_COUNT; i++) {
        struct buf left;

        buf_init(&left);
        buf_addf(&left, "%s %s", cli_verbs[i].name, cli_verbs[i].operand);
        buf_addf(out, "  %-24s %s\n", buf_cstr(&left), cli_verbs[i].help);
        buf_fini(&left);
    }
    buf_adds(out, "\nstreamlua help VERB lists the flags of a verb.\n"
                  "Other topics:");
    for (i = 0; i < TOPIC_COUNT; i++)
        buf_addf(out, " %s", topics[i].name);
    buf_adds(out, "\n");
}

/* The verb or topic nearest to `word`, or NULL. */
static const char *
nearest(const char *word)
{
    const char *best = NULL;
    unsigned d, least = 99;
    size_t i;

    for (i = 0; i < VERB_COUNT + TOPIC_COUNT; i++) {
        const char *name =
            i < VERB_COUNT ? cli_verbs[i].name : topics[i - VERB_COUNT].name;

        d = value_distance(word, name);
        if (d < least && value_is_near(word, d)) {
            least = d;
            best = name;
        }
    }
    return best;
}

static int
put_word(struct buf *out, const char *word, struct err *e)
{
    const char *near;
    size_t i;

    for (i = 0; i < VERB_COUNT; i++)
        if (strcmp(word, cli_verbs[i].name) == 0) {
            put_verb(out, (enum cli_verb_id)i);
            return 0;
        }
    for (i = 0; i < TOPIC_COUNT; i++)
        if (strcmp(word, topics[i].name) == 0) {
            buf_adds(out, topics[i].text);
            return 0;
        }
    for (i = VERB_COUNT; i < cli_verb_total; i++)
        if (strcmp(word, cli_verbs[i].name) == 0)
            return err_set(e, ERR_USAGE,
                           "streamlua %s is not available in this version",
                           word);
    near = nearest(word);
    if (near != NULL)
        return err_set(e, ERR_USAGE, "no help on \"%s\"; did you mean %s?",
                       word, near);
    return err_set(e, ERR_USAGE, "no help on \"%s\"", word);
}

int
cmd_help(struct cli *c)
{
    struct buf out;
    struct err e;
    int rc = 0;

    buf_init(&out);
    if (c->operand == NULL)
        put_overview(&out);
    else if (put_word(&out, c->operand, &e) != 0)
        rc = cmd_usage_error(c, &e);
    if (rc == 0)
        rc = cmd_print(out.data, out.len);
    buf_fini(&out);
    return rc;
}
