#include "main/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "main/cli_value.h"

enum { ENV_NAME_MAX = 64 };

/* --- words ---------------------------------------------------------------- */

static int
unknown_verb(const char *word, struct err *e)
{
    const char *best = NULL;
    unsigned d, least = 99;
    size_t i;

    for (i = 0; i < cli_verb_total; i++) {
        d = value_distance(word, cli_verbs[i].name);
        if (d < least && value_is_near(word, d)) {
            least = d;
            best = cli_verbs[i].name;
        }
    }
    if (best != NULL)
        return err_set(e, ERR_USAGE, "unknown verb \"%s\"; did you mean %s?",
                       word, best);
    return err_set(e, ERR_USAGE, "unknown verb \"%s\"", word);
}

static int
later_verb(const char *word, struct err *e)
{
    return err_set(e, ERR_USAGE,
                   "streamlua %s is not available in this version", word);
}

static int
set_verb(struct cli *c, const char *word, struct err *e)
{
    size_t i;

    for (i = 0; i < cli_verb_total; i++)
        if (strcmp(word, cli_verbs[i].name) == 0)
            break;
    if (i == cli_verb_total)
        return unknown_verb(word, e);
    if (i >= VERB_COUNT)
        return later_verb(word, e);
    c->verb = (enum cli_verb_id)i;
    return 0;
}

/* The flag written as `text`, `len` bytes without dashes; total if none. */
static size_t
find_flag(const char *text, size_t len, bool is_short)
{
    size_t i;

    for (i = 0; i < cli_flag_total; i++) {
        if (is_short ? len == 1 && cli_flags[i].letter == *text
                     : strlen(cli_flags[i].name) == len &&
                           strncmp(cli_flags[i].name, text, len) == 0)
            return i;
    }
    return cli_flag_total;
}

static int
unknown_flag(const char *word, size_t len, struct err *e)
{
    const char *best = NULL;
    char name[ENV_NAME_MAX];
    unsigned d, least = 99;
    size_t i;

    if (len >= sizeof name)
        len = sizeof name - 1;
    memcpy(name, word, len);
    name[len] = '\0';
    for (i = 0; i < cli_flag_total; i++) {
        d = value_distance(name + strspn(name, "-"), cli_flags[i].name);
        if (d < least && value_is_near(name + strspn(name, "-"), d)) {
            least = d;
            best = cli_flags[i].name;
        }
    }
    if (best != NULL)
        return err_set(e, ERR_USAGE, "unknown flag %s; did you mean --%s?",
                       name, best);
    return err_set(e, ERR_USAGE, "unknown flag %s", name);
}

/* --- one flag ------------------------------------------------------------- */

static int
refuse_later(size_t i, struct err *e)
{
    return err_set(e, ERR_USAGE, "--%s is not available in this version",
                   cli_flags[i].name);
}

static int
store(struct cli *c, size_t i, const char *value, struct err *e)
{
    size_t m;

    if (i >= FLAG_COUNT)
        return refuse_later(i, e);
    c->values[i] = value;
    if (cli_flags[i].arg != ARG_PAIR)
        return 0;
    m = i == FLAG_X;
    if (c->pair_count[m] == CLI_MULTI_MAX)
        return err_set(e, ERR_USAGE, "--%s is given more than %d times",
                       cli_flags[i].name, CLI_MULTI_MAX);
    c->pairs[m][c->pair_count[m]++] = value;
    return 0;
}

/*
 * Read the flag argv[*at] and, where it needs one, its value behind it.
 * Moves *at to the last word used.
 */
static int
read_flag(struct cli *c, int argc, char **argv, int *at, struct err *e)
{
    const char *word = argv[*at], *value = NULL, *eq;
    bool is_short = word[1] != '-';
    size_t i, len;

    if (is_short) {
        i = find_flag(word + 1, 1, true);
        if (i < cli_flag_total && word[2] != '\0') {
            if (cli_flags[i].arg == ARG_NONE)
                return unknown_flag(word, strlen(word), e);
            value = word + 2;
        }
    } else {
        eq = strchr(word, '=');
        len = eq != NULL ? (size_t)(eq - word) : strlen(word);
        value = eq != NULL ? eq + 1 : NULL;
        i = find_flag(word + 2, len - 2, false);
    }
    if (i == cli_flag_total)
        return unknown_flag(word, strcspn(word, "="), e);
    if (i >= FLAG_COUNT)
        return refuse_later(i, e);
    if (cli_flags[i].arg == ARG_NONE && value != NULL)
        return err_set(e, ERR_USAGE, "--%s takes no value, got \"%s\"",
                       cli_flags[i].name, value);
    if (value == NULL &&
        (cli_flags[i].arg == ARG_VALUE || cli_flags[i].arg == ARG_PAIR)) {
        if (*at + 1 >= argc || strcmp(argv[*at + 1], "--") == 0)
            return err_set(e, ERR_USAGE, "--%s needs a value: --%s %s",
                           cli_flags[i].name, cli_flags[i].name,
                           cli_flags[i].metavar);
        value = argv[++*at];
    }
    return store(c, i, value != NULL ? value : "", e);
}

/* --- the environment ------------------------------------------------------ */

static void
env_name(const char *flag, char out[ENV_NAME_MAX])
{
    static const char prefix[] = "STREAMLUA_";
    size_t n = sizeof prefix - 1, i;

    memcpy(out, prefix, n);
    for (i = 0; flag[i] != '\0' && n < ENV_NAME_MAX - 1; i++)
        out[n++] = flag[i] == '-' ? '_' : (char)toupper((unsigned char)flag[i]);
    out[n] = '\0';
}

/* Take the flags of the verb from the environment where argv has none. */
static int
read_env(struct cli *c, struct err *e)
{
    char name[ENV_NAME_MAX];
    const char *value;
    bool on;
    size_t i;

    for (i = 0; i < cli_flag_total; i++) {
        if ((cli_flags[i].verbs & 1u << c->verb) == 0 || i == FLAG_HELP ||
            (i < FLAG_COUNT && c->values[i] != NULL))
            continue;
        env_name(cli_flags[i].name, name);
        value = getenv(name);
        if (value == NULL)
            continue;
        if (cli_flags[i].arg == ARG_NONE) {
            if (!value_read_switch(value, &on))
                return err_set(e, ERR_USAGE,
                               "%s: expected true or false, got \"%s\"", name,
                               value);
            if (!on)
                continue;
            value = "";
        } else if (*value == '\0' && cli_flags[i].arg != ARG_OPTIONAL) {
            continue; /* set but empty is as not set */
        }
        if (store(c, i, value, e) != 0)
            return e->code;
        if (i < FLAG_COUNT)
            c->from_env[i] = true;
    }
    return 0;
}

/* --- the whole line ------------------------------------------------------- */

/* "--slots" or "STREAMLUA_SLOTS", whichever the user wrote. */
static const char *
flag_source(const struct cli *c, enum cli_flag_id f, char out[ENV_NAME_MAX])
{
    if (c->from_env[f])
        env_name(cli_flags[f].name, out);
    else
        (void)snprintf(out, ENV_NAME_MAX, "--%s", cli_flags[f].name);
    return out;
}

/* Each flag given belongs to the verb; levels and colours are known words. */
static int
check_flags(const struct cli *c, struct err *e)
{
    static const struct {
        enum cli_flag_id flag;
        const char *words[5];
    } sets[] = {
        {FLAG_LOG_FORMAT, {"text", "json", NULL}},
        {FLAG_LOG_LEVEL, {"debug", "info", "warn", "error", NULL}},
        {FLAG_RECOVER, {"rewind", "discard-state", NULL}},
        {FLAG_COLOR, {"auto", "always", "never", NULL}},
    };
    char name[ENV_NAME_MAX];
    const char *v;
    size_t i, k;

    for (i = 0; i < FLAG_COUNT; i++)
        if (c->values[i] != NULL && (cli_flags[i].verbs & 1u << c->verb) == 0)
            return err_set(e, ERR_USAGE, "%s has no flag --%s",
                           cli_verbs[c->verb].name, cli_flags[i].name);
    for (i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        v = c->values[sets[i].flag];
        if (v == NULL)
            continue;
        for (k = 0; sets[i].words[k] != NULL; k++)
            if (strcmp(v, sets[i].words[k]) == 0)
                break;
        if (sets[i].words[k] == NULL)
            return err_set(e, ERR_USAGE, "%s: expected %s, got \"%s\"",
                           flag_source(c, sets[i].flag, name),
                           cli_flags[sets[i].flag].metavar, v);
    }
    return 0;
}

/* --help and --version stand for verbs, wherever they are. */
static void
turn_to_verb(struct cli *c, bool has_verb)
{
    if (c->values[FLAG_HELP] == NULL)
        return;
    if (has_verb && c->verb != VERB_HELP)
        c->operand = cli_verbs[c->verb].name;
    c->verb = VERB_HELP;
}

/*
 * A flag that nobody knows, in front of the verb, may be one of a verb of a
 * later version: then the verb is what is refused.
 */
static int
refuse_later_verb(int argc, char **argv, int from, struct err *e)
{
    size_t v;
    int i;

    for (i = from; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (v = 0; v < cli_verb_total; v++)
            if (strcmp(argv[i], cli_verbs[v].name) == 0)
                return v < VERB_COUNT ? e->code : later_verb(argv[i], e);
    return e->code;
}

/* "-" is an operand, "-5" the key of some state. */
static bool
looks_like_flag(const char *word)
{
    return word[0] == '-' && word[1] != '\0' &&
           isdigit((unsigned char)word[1]) == 0;
}

static int
add_operand(struct cli *c, const char *word, struct err *e)
{
    const struct cli_verb *v = &cli_verbs[c->verb];

    if (c->operand_count < v->operands) {
        if (c->operand_count == 0)
            c->operand = word;
        c->operands[c->operand_count++] = word;
        return 0;
    }
    if (v->operands == 0)
        return err_set(e, ERR_USAGE, "%s takes no operand, got \"%s\"", v->name,
                       word);
    if (v->operands > 1)
        return err_set(e, ERR_USAGE,
                       "%s takes at most %u operands, got \"%s\" as well",
                       v->name, v->operands, word);
    return err_set(e, ERR_USAGE, "%s takes one operand, got \"%s\" %s", v->name,
                   word,
                   (1u << c->verb & FOR_JOB) != 0
                       ? "as well (arguments of the job stand behind --)"
                       : "as well");
}

static int
read_words(struct cli *c, int argc, char **argv, bool *has_verb, struct err *e)
{
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (++i < argc)
                opt_add(&c->arena, c->args, NULL,
                        opt_new_str(&c->arena, argv[i], strlen(argv[i])));
        } else if (!*has_verb && strcmp(argv[i], "--version") == 0) {
            c->verb = VERB_VERSION;
            *has_verb = true;
        } else if (looks_like_flag(argv[i])) {
            if (read_flag(c, argc, argv, &i, e) != 0)
                return *has_verb ? e->code
                                 : refuse_later_verb(argc, argv, i + 1, e);
        } else if (!*has_verb) {
            if (set_verb(c, argv[i], e) != 0)
                return e->code;
            *has_verb = true;
        } else if (add_operand(c, argv[i], e) != 0) {
            return e->code;
        }
    }
    return 0;
}

int
cli_parse(int argc, char **argv, struct cli *ret, struct err *e)
{
    bool has_verb = false;

    memset(ret, 0, sizeof *ret);
    arena_init(&ret->arena);
    ret->args = opt_new_list(&ret->arena);
    ret->verb = VERB_HELP;
    err_clear(e);
    if (read_words(ret, argc, argv, &has_verb, e) != 0)
        return e->code;
    if (ret->values[FLAG_HELP] != NULL) {
        turn_to_verb(ret, has_verb);
        return 0;
    }
    if (!has_verb)
        return err_set(e, ERR_USAGE, "a verb is missing");
    if (check_flags(ret, e) != 0 || read_env(ret, e) != 0 ||
        check_flags(ret, e) != 0)
        return e->code;
    if ((1u << ret->verb & (FOR_JOB | FOR_SAVEPOINT | FOR_NEW)) != 0 &&
        ret->operand == NULL)
        return err_set(e, ERR_USAGE, "%s: %s is missing",
                       cli_verbs[ret->verb].name, cli_verbs[ret->verb].operand);
    return 0;
}

void
cli_fini(struct cli *c)
{
    arena_fini(&c->arena);
}

/* --- values --------------------------------------------------------------- */

bool
cli_has(const struct cli *c, enum cli_flag_id f)
{
    return c->values[f] != NULL;
}

const char *
cli_text(const struct cli *c, enum cli_flag_id f)
{
    return c->values[f];
}

int
cli_count(const struct cli *c, enum cli_flag_id f, uint32_t max, uint32_t *ret,
          struct err *e)
{
    char name[ENV_NAME_MAX];
    int64_t v;

    if (c->values[f] == NULL) {
        *ret = 0;
        return 0;
    }
    if (!value_read_int(c->values[f], 1, max, &v))
        return err_set(e, ERR_USAGE,
                       "%s: expected a whole number from 1 to %u, got \"%s\"",
                       flag_source(c, f, name), max, c->values[f]);
    *ret = (uint32_t)v;
    return 0;
}

int
cli_number(const struct cli *c, enum cli_flag_id f, double dflt, double *ret,
           struct err *e)
{
    char name[ENV_NAME_MAX];
    double v;

    if (c->values[f] == NULL) {
        *ret = dflt;
        return 0;
    }
    if (!num_read_double(c->values[f], strlen(c->values[f]), &v) || v <= 0)
        return err_set(e, ERR_USAGE,
                       "%s: expected a number above 0, got \"%s\"",
                       flag_source(c, f, name), c->values[f]);
    *ret = v;
    return 0;
}

int
cli_duration(const struct cli *c, enum cli_flag_id f, int64_t dflt_ms,
             int64_t *ret_ms, struct err *e)
{
    char name[ENV_NAME_MAX];

    if (c->values[f] == NULL ||
        (cli_flags[f].arg == ARG_OPTIONAL && c->values[f][0] == '\0')) {
        *ret_ms = dflt_ms;
        return 0;
    }
    if (!value_read_duration(c->values[f], ret_ms))
        return err_set(e, ERR_USAGE,
                       "%s: expected a duration such as 500ms, 30s or 1h30m, "
                       "got \"%s\"",
                       flag_source(c, f, name), c->values[f]);
    return 0;
}

/* Whether a later pair has the same name as pair `i`. */
static bool
is_overridden(const char *const *pairs, size_t count, size_t i)
{
    size_t len = strcspn(pairs[i], "="), k;

    for (k = i + 1; k < count; k++)
        if (strcspn(pairs[k], "=") == len &&
            strncmp(pairs[k], pairs[i], len) == 0)
            return true;
    return false;
}

int
cli_pairs(struct cli *c, enum cli_flag_id f, struct opt **ret, struct err *e)
{
    size_t m = f == FLAG_X, i;
    const char *const *pairs = c->pairs[m];
    const char *eq, *name;
    struct opt *map = opt_new_map(&c->arena);

    for (i = 0; i < c->pair_count[m]; i++) {
        eq = strchr(pairs[i], '=');
        if (eq == NULL || eq == pairs[i])
            return err_set(e, ERR_USAGE, "%s%s: expected %s, got \"%s\"",
                           f == FLAG_X ? "-" : "--", cli_flags[f].name,
                           cli_flags[f].metavar, pairs[i]);
        if (is_overridden(pairs, c->pair_count[m], i))
            continue;
        name = arena_dup(&c->arena, pairs[i], (size_t)(eq - pairs[i]));
        opt_add(&c->arena, map, name,
                opt_new_str(&c->arena, eq + 1, strlen(eq + 1)));
    }
    *ret = map;
    return 0;
}

int
cli_connect(struct cli *c, const struct opt **ret, struct err *e)
{
    struct opt *map = opt_new_map(&c->arena), *x, *bounded;
    const char *servers = cli_text(c, FLAG_BOOTSTRAP_SERVERS);

    if (cli_pairs(c, FLAG_X, &x, e) != 0)
        return e->code;
    opt_add(&c->arena, map, "X", x);
    if (servers != NULL)
        opt_add(&c->arena, map, "bootstrap_servers",
                opt_new_str(&c->arena, servers, strlen(servers)));
    bounded = opt_new(&c->arena);
    bounded->type = OPT_BOOL;
    bounded->i = cli_has(c, FLAG_BOUNDED);
    opt_add(&c->arena, map, "bounded", bounded);
    *ret = map;
    return 0;
}

bool
cli_colour(const struct cli *c, FILE *out)
{
    const char *how = c->values[FLAG_COLOR], *no = getenv("NO_COLOR");

    if (how != NULL && strcmp(how, "auto") != 0)
        return strcmp(how, "always") == 0;
    if (no != NULL && *no != '\0')
        return false;
    return isatty(fileno(out)) == 1;
}
