/* Which topics a Kafka source reads: named ones, and those that match. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/admin.h"
#include "kafka/source_impl.h"

enum { ASK_MS = 2000, PAUSE_MS = 20, REASON_MAX = 160 };

static int
topic_cmp(const void *a, const void *b)
{
    return strcmp(((const struct source_topic *)a)->name,
                  ((const struct source_topic *)b)->name);
}

/* @return whether it is new. */
static bool
add_topic(struct source *s, const char *name)
{
    size_t i;

    for (i = 0; i < s->topic_count; i++)
        if (strcmp(s->topics[i].name, name) == 0)
            return false;
    mem_grow(&s->topics, &s->topic_cap, s->topic_count + 1, sizeof *s->topics);
    s->topics[s->topic_count++] = (struct source_topic){
        .name = mem_strdup(name), .id = topic_register(name)};
    return true;
}

static void
sort_topics(struct source *s)
{
    if (s->topic_count > 1)
        qsort(s->topics, s->topic_count, sizeof *s->topics, topic_cmp);
}

static int
add_pattern(struct source *s, const char *text, struct err *e)
{
    struct source_pattern *p = &s->patterns[s->pattern_count];
    char reason[REASON_MAX];
    int rc = regcomp(&p->re, text, REG_EXTENDED | REG_NOSUB);

    p->text = text;
    if (rc == 0) {
        s->pattern_count++;
        return 0;
    }
    (void)regerror(rc, &p->re, reason, sizeof reason);
    (void)err_set(e, ERR_JOBFILE,
                  "kafka: option \"topic\": \"%s\" is no regular expression: "
                  "%s",
                  text, reason);
    err_where(e, "%s", s->env.place == NULL ? "" : s->env.place);
    return ERR_JOBFILE;
}

static int
add_option(struct source *s, const struct opt *o, struct err *e)
{
    if (o->type != OPT_STR || o->len == 0)
        return 0;
    if (o->s[0] == '^')
        return add_pattern(s, o->s, e);
    (void)add_topic(s, o->s);
    return 0;
}

int
source_read_topics(struct source *s, struct err *e)
{
    const struct opt *o = opt_get(s->env.opts, "topic");
    const struct opt *el;
    int r = 0;

    s->patterns =
        mem_zalloc((o == NULL ? 1 : o->len + 1) * sizeof *s->patterns);
    if (o != NULL && o->type == OPT_STR)
        r = add_option(s, o, e);
    if (o != NULL && o->type == OPT_LIST)
        for (el = o->first; el != NULL && r == 0; el = el->next)
            r = add_option(s, el, e);
    if (r == 0 && s->topic_count == 0 && s->pattern_count == 0)
        r = err_set(e, ERR_JOBFILE, "kafka: option \"topic\" is required");
    sort_topics(s);
    return r;
}

void
source_free_topics(struct source *s)
{
    size_t i;

    for (i = 0; i < s->topic_count; i++)
        free(s->topics[i].name);
    for (i = 0; i < s->pattern_count; i++)
        regfree(&s->patterns[i].re);
    free(s->topics);
    free(s->patterns);
}

bool
source_matches(const struct source *s, const char *name)
{
    size_t i;

    for (i = 0; i < s->pattern_count; i++) {
        const struct source_pattern *p = &s->patterns[i];

        /* Kafka's own are meant only where they are named. */
        if (strncmp(name, "__", 2) == 0 && strncmp(p->text, "^__", 3) != 0)
            continue;
        if (regexec(&p->re, name, 0, NULL, 0) == 0)
            return true;
    }
    return false;
}

static void
take_matching(void *arg, const char *name)
{
    struct source *s = arg;

    if (source_matches(s, name))
        (void)add_topic(s, name);
}

static int
none_matches(const struct source *s, struct err *e)
{
    (void)err_set(e, ERR_CONFIG, "%s: no topic at %s matches \"%s\"%s",
                  s->client->name, s->client->servers, s->patterns[0].text,
                  s->pattern_count > 1 ? " or another pattern of the list"
                                       : "");
    err_hint(e, "a source begins with at least one topic; later ones are "
                "found by discovery. Names must match from their beginning, "
                "by POSIX extended rules");
    err_where(e, "%s", s->env.place);
    return ERR_CONFIG;
}

int
source_find_matching(struct source *s, struct err *e)
{
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    int64_t deadline = clock_mono_ms() + s->client->connect_ms;
    int r = 0;

    if (s->pattern_count == 0)
        return 0;
    while (!admin_list_topics(s->client, ASK_MS, take_matching, s)) {
        r = client_retry(s->client, deadline, e);
        if (r != 0)
            return r;
        (void)nanosleep(&pause, NULL);
    }
    sort_topics(s);
    return s->topic_count == 0 ? none_matches(s, e) : 0;
}

static void
take_new(void *arg, const char *name)
{
    struct source *s = arg;

    if (source_matches(s, name) && add_topic(s, name))
        log_line(LOG_INFO, "%s: new topic \"%s\"", s->client->name, name);
}

bool
source_discover_topics(struct source *s, int timeout_ms)
{
    if (s->pattern_count == 0 || s->stop != STOP_NEVER)
        return true;
    return admin_list_topics(s->client, timeout_ms, take_new, s);
}
