/*
 * The command line: verbs, flags, their environment and their values.
 *
 * Used by main.c and each cmd_*.c. Verbs and flags are tables (cli_flags.c);
 * parsing fills one `struct cli`, in which a flag's value is its text from
 * the command line or else from STREAMLUA_<FLAG>. What a verb or flag of a
 * later version is called is known, so it is refused by name.
 *
 * Thread: main only, before others start. Lifetime: until cli_fini(); values
 * are borrowed from argv and the environment.
 * Limits: at most CLI_MULTI_MAX values of one repeated flag.
 */
#ifndef MAIN_CLI_H
#define MAIN_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opts.h"

enum { CLI_MULTI_MAX = 256, CLI_OPERANDS_MAX = 256 };

enum cli_verb_id {
    VERB_RUN,
    VERB_CHECK,
    VERB_EXPLAIN,
    VERB_SAVEPOINT,
    VERB_RELOAD,
    VERB_ROLLBACK,
    VERB_STATE,
    VERB_TEST,
    VERB_NEW,
    VERB_SIZE,
    VERB_VERSION,
    VERB_HELP,
    VERB_COUNT /* verbs of this version; later ones stand behind it */
};

enum { /* which verbs take a flag */
       FOR_RUN = 1u << VERB_RUN,
       FOR_CHECK = 1u << VERB_CHECK,
       FOR_EXPLAIN = 1u << VERB_EXPLAIN,
       FOR_SAVEPOINT = 1u << VERB_SAVEPOINT,
       FOR_RELOAD = 1u << VERB_RELOAD | 1u << VERB_ROLLBACK,
       FOR_STATE = 1u << VERB_STATE,
       FOR_TEST = 1u << VERB_TEST,
       FOR_NEW = 1u << VERB_NEW,
       FOR_SIZE = 1u << VERB_SIZE,
       FOR_VERSION = 1u << VERB_VERSION,
       FOR_HELP = 1u << VERB_HELP,
       FOR_JOB = FOR_RUN | FOR_CHECK | FOR_EXPLAIN,
       FOR_ALL = FOR_JOB | FOR_SAVEPOINT | FOR_RELOAD | FOR_STATE | FOR_TEST |
                 FOR_NEW | FOR_SIZE | FOR_VERSION | FOR_HELP,
};

enum cli_flag_id {
    FLAG_DATA_DIR,
    FLAG_PARALLELISM,
    FLAG_SLOTS,
    FLAG_SET,
    FLAG_X,
    FLAG_BOOTSTRAP_SERVERS,
    FLAG_BOUNDED,
    FLAG_UNTIL_IDLE,
    FLAG_FRESH,
    FLAG_FROM,
    FLAG_NEW_LINEAGE,
    FLAG_RECOVER,
    FLAG_ACCEPT_CODE,
    FLAG_ALLOW_STATE_LOSS,
    FLAG_WATCH,
    FLAG_NO_WATCH,
    FLAG_DRY_RUN,
    FLAG_SUMMARY,
    FLAG_UNSAFE,
    FLAG_STOP_TIMEOUT,
    FLAG_PREFLIGHT,
    FLAG_TO,
    FLAG_STOP,
    FLAG_DRAIN,
    FLAG_AT,
    FLAG_LIMIT,
    FLAG_FILTER,
    FLAG_OUTPUT,
    FLAG_SEED,
    FLAG_UPDATE,
    FLAG_COVERAGE,
    FLAG_TEMPLATE,
    FLAG_FORCE,
    FLAG_RATE,
    FLAG_CAPACITY,
    FLAG_UTILIZATION,
    FLAG_SLOTS_PER_WORKER,
    FLAG_PARTITIONS,
    FLAG_MAX_PARALLELISM,
    FLAG_BACKLOG,
    FLAG_WITHIN,
    FLAG_JSON,
    FLAG_DOT,
    FLAG_LOG_FORMAT,
    FLAG_LOG_LEVEL,
    FLAG_QUIET,
    FLAG_VERBOSE,
    FLAG_COLOR,
    FLAG_HELP,
    FLAG_COUNT /* flags of this version; later ones stand behind it */
};

enum cli_arg {
    ARG_NONE,     /* a switch */
    ARG_VALUE,    /* --flag VALUE or --flag=VALUE */
    ARG_OPTIONAL, /* --flag or --flag=VALUE */
    ARG_PAIR      /* NAME=VALUE, may be repeated */
};

struct cli_flag {
    const char *name; /* without "--" */
    char letter;      /* short form, 0 if none */
    enum cli_arg arg;
    unsigned verbs;      /* FOR_... */
    const char *metavar; /* "N", "DIR", NULL for a switch */
    const char *help;    /* NULL: of a later version, refused by name */
};

struct cli_verb {
    const char *name;
    const char *operand; /* "FILE", "[VERB|TOPIC]", "" */
    const char *help;    /* NULL: of a later version, refused by name */
    unsigned operands;   /* at most so many */
};

/* Tables; the first FLAG_COUNT and VERB_COUNT entries are in enum order. */
extern const struct cli_flag cli_flags[];
extern const size_t cli_flag_total;
extern const struct cli_verb cli_verbs[];
extern const size_t cli_verb_total;

struct cli {
    struct arena arena;
    enum cli_verb_id verb;
    const char *operand; /* FILE, or the word after help; NULL */
    const char *operands[CLI_OPERANDS_MAX]; /* all of them, `operand` first */
    unsigned operand_count;
    const char *values[FLAG_COUNT]; /* NULL: not given; "" for a switch */
    bool from_env[FLAG_COUNT];
    const char *pairs[2][CLI_MULTI_MAX]; /* --set and -X, in order given */
    size_t pair_count[2];
    struct opt *args; /* list of strings behind "--" */
};

/**
 * Read the command line and the environment.
 *
 * @param argv argc entries; borrowed until cli_fini().
 * @param ret  filled in any case; end it with cli_fini().
 * @return 0, or ERR_USAGE with one line that names the fault and, where there
 *         is one, the nearest known word.
 * @thread main. @source API.md section 9.
 */
MUST_USE int cli_parse(int argc, char **argv, struct cli *ret, struct err *e);
void cli_fini(struct cli *c);

/** Whether a switch or flag was given. @thread main. */
bool cli_has(const struct cli *c, enum cli_flag_id f);
/** A flag's text, or NULL. Borrowed until cli_fini(). @thread main. */
const char *cli_text(const struct cli *c, enum cli_flag_id f);
/**
 * A flag's whole number.
 * @param ret  min..max, or `dflt` if the flag was not given.
 * @return 0 or ERR_USAGE. @thread main.
 */
MUST_USE int cli_count(const struct cli *c, enum cli_flag_id f, uint32_t max,
                       uint32_t *ret, struct err *e);
/**
 * A flag's number, above 0 and finite; `dflt` if not given.
 * @return 0 or ERR_USAGE. @thread main.
 */
MUST_USE int cli_number(const struct cli *c, enum cli_flag_id f, double dflt,
                        double *ret, struct err *e);
/** A flag's duration in ms, `dflt_ms` if not given or given without value. */
MUST_USE int cli_duration(const struct cli *c, enum cli_flag_id f,
                          int64_t dflt_ms, int64_t *ret_ms, struct err *e);
/**
 * The pairs of FLAG_SET or FLAG_X as a map name -> string; of a repeated name
 * the last counts.
 * @return 0 or ERR_USAGE (no "=", or no name). @thread main.
 */
MUST_USE int cli_pairs(struct cli *c, enum cli_flag_id f, struct opt **ret,
                       struct err *e);
/**
 * What Kafka clients and bounded sources take from the command line: a map
 * with "X" (map), "bounded" (bool), "bootstrap_servers" (if given).
 * @param ret borrowed until cli_fini().
 * @return 0 or ERR_USAGE, as cli_pairs(). @thread main.
 */
MUST_USE int cli_connect(struct cli *c, const struct opt **ret, struct err *e);
/** Whether text on `out` may be coloured (--color, NO_COLOR, terminal). */
bool cli_colour(const struct cli *c, FILE *out);

#endif
