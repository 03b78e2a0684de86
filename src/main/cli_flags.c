#include "main/cli.h"

/*
 * The tables of the command line. Order inside a verb's help is the order
 * here. Entries without help text belong to a later version: they are known,
 * so that they can be refused by name instead of called unknown.
 */

const struct cli_flag cli_flags[] = {
    [FLAG_DATA_DIR] = {"data-dir", 0, ARG_VALUE,
                       FOR_RUN | FOR_SAVEPOINT | FOR_STATE, "DIR",
                       "where jobs keep their data (streamlua-data)"},
    [FLAG_PARALLELISM] = {"parallelism", 0, ARG_VALUE, FOR_JOB, "N",
                          "subtasks of keyed steps and sources"},
    [FLAG_SLOTS] = {"slots", 0, ARG_VALUE, FOR_JOB, "N",
                    "worker threads (the larger of cores and slots needed)"},
    [FLAG_SET] = {"set", 0, ARG_PAIR, FOR_JOB | FOR_STATE, "NAME=VALUE",
                  "value of s.param(NAME); may be repeated"},
    [FLAG_X] = {"X", 'X', ARG_PAIR, FOR_JOB, "NAME=VALUE",
                "librdkafka property of every client; may be repeated"},
    [FLAG_BOOTSTRAP_SERVERS] = {"bootstrap-servers", 0, ARG_VALUE, FOR_JOB,
                                "HOST:PORT,...", "Kafka brokers to ask first"},
    [FLAG_BOUNDED] = {"bounded", 0, ARG_NONE, FOR_JOB, NULL,
                      "Kafka sources end at the end offsets found at start"},
    [FLAG_UNTIL_IDLE] = {"until-idle", 0, ARG_OPTIONAL, FOR_RUN, "DUR",
                         "stop when nothing has moved for DUR (2s); windows "
                         "stay open"},
    [FLAG_FRESH] = {"fresh", 0, ARG_NONE, FOR_RUN, NULL,
                    "start by the start policies, whatever an earlier run "
                    "left"},
    [FLAG_FROM] = {"from", 0, ARG_VALUE, FOR_RUN, "DIR",
                   "go on from the savepoint in DIR"},
    [FLAG_NEW_LINEAGE] = {"new-lineage", 0, ARG_NONE, FOR_RUN, NULL,
                          "with --from: this is a copy, under another job name "
                          "or prefix"},
    [FLAG_RECOVER] = {"recover", 0, ARG_VALUE, FOR_RUN, "rewind|discard-state",
                      "go on where state and output disagree"},
    [FLAG_ALLOW_STATE_LOSS] = {"allow-state-loss", 0, ARG_NONE, FOR_RUN, NULL,
                               "start although steps lost their state"},
    [FLAG_SUMMARY] = {"summary", 0, ARG_VALUE, FOR_RUN, "FILE",
                      "write the counters of the run as JSON at its end"},
    [FLAG_UNSAFE] = {"unsafe", 0, ARG_NONE, FOR_JOB | FOR_STATE, NULL,
                     "give job code io, os, debug and C modules"},
    [FLAG_STOP_TIMEOUT] = {"stop-timeout", 0, ARG_VALUE, FOR_RUN, "DUR",
                           "how long a stop may take (60s)"},
    [FLAG_PREFLIGHT] = {"preflight", 0, ARG_NONE, FOR_CHECK, NULL,
                        "also ask the broker for topics and rights"},
    [FLAG_TO] = {"to", 0, ARG_VALUE, FOR_SAVEPOINT, "DIR",
                 "where the savepoint goes (beside the job's directory)"},
    [FLAG_STOP] = {"stop", 0, ARG_NONE, FOR_SAVEPOINT, NULL,
                   "and stop: nothing is committed after the savepoint"},
    [FLAG_DRAIN] = {"drain", 0, ARG_NONE, FOR_SAVEPOINT, NULL,
                    "with --stop: open windows fire first"},
    [FLAG_AT] = {"at", 0, ARG_VALUE, FOR_STATE, "CHECKPOINT",
                 "only if that is the one there is"},
    [FLAG_LIMIT] = {"limit", 0, ARG_VALUE, FOR_STATE, "N",
                    "print the first N only"},
    [FLAG_JSON] = {"json", 0, ARG_NONE, FOR_EXPLAIN | FOR_STATE | FOR_VERSION,
                   NULL, "print JSON: one object, of state one a line"},
    [FLAG_DOT] = {"dot", 0, ARG_NONE, FOR_EXPLAIN, NULL,
                  "print a graph for Graphviz"},
    [FLAG_LOG_FORMAT] = {"log-format", 0, ARG_VALUE, FOR_ALL, "text|json",
                         "form of the lines on stderr (text)"},
    [FLAG_LOG_LEVEL] = {"log-level", 0, ARG_VALUE, FOR_ALL,
                        "debug|info|warn|error", "least level shown (info)"},
    [FLAG_QUIET] = {"quiet", 'q', ARG_NONE, FOR_ALL, NULL,
                    "warnings and errors only, no progress line"},
    [FLAG_VERBOSE] = {"verbose", 'v', ARG_NONE, FOR_ALL, NULL,
                      "debug lines, too"},
    [FLAG_COLOR] = {"color", 0, ARG_VALUE, FOR_ALL, "auto|always|never",
                    "colours on stderr (auto: on a terminal)"},
    [FLAG_HELP] = {"help", 'h', ARG_NONE, FOR_ALL, NULL,
                   "print the help of the verb"},
    /* Later versions. */
    {"accept-code", 0, ARG_NONE, FOR_RUN, NULL, NULL},
    {"watch", 0, ARG_NONE, FOR_RUN, NULL, NULL},
    {"no-watch", 0, ARG_NONE, FOR_RUN, NULL, NULL},
    {"http", 0, ARG_VALUE, FOR_RUN, "HOST:PORT", NULL},
};

const size_t cli_flag_total = sizeof cli_flags / sizeof cli_flags[0];

const struct cli_verb cli_verbs[] = {
    [VERB_RUN] = {"run", "FILE", "run a job until its input ends or a signal",
                  1},
    [VERB_CHECK] = {"check", "FILE", "load a job and say what is wrong", 1},
    [VERB_EXPLAIN] = {"explain", "FILE", "print the plan and its reasons", 1},
    [VERB_SAVEPOINT] = {"savepoint", "JOB",
                        "copy the state of a job, running or not", 1},
    [VERB_STATE] = {"state", "FORM JOB|DIR ...",
                    "look into the state of a job or savepoint", 4},
    [VERB_VERSION] = {"version", "", "print the version and the build", 0},
    [VERB_HELP] = {"help", "[VERB|TOPIC]", "print help", 1},
    /* Later versions. */
    {"test", "[FILE|DIR]...", NULL, 0},
    {"new", "NAME", NULL, 0},
    {"size", "[FILE]", NULL, 0},
    {"reload", "JOB [FILE]", NULL, 0},
    {"rollback", "JOB", NULL, 0},
    {"top", "JOB", NULL, 0},
    {"tap", "STEP", NULL, 0},
};

const size_t cli_verb_total = sizeof cli_verbs / sizeof cli_verbs[0];
