/* What `check` asks: options without a broker, topics with one. */
#include <stdlib.h>
#include <string.h>

#include "kafka/admin.h"
#include "kafka/kafka.h"
#include "kafka/source_impl.h"

enum { ASK_MS = 2000 };

static int
check_topic(const struct conn_env *env, bool sink, struct err *e)
{
    const struct opt *o = opt_get(env->opts, "topic");

    if (o != NULL && o->type == OPT_STR && o->len > 0)
        return 0;
    if (sink && opt_func(env->opts, "topic_func") != 0)
        return 0;
    if (!sink && o != NULL && o->type == OPT_LIST && o->len > 0)
        return 0;
    (void)err_set(e, ERR_JOBFILE, "kafka: option \"topic\" is required");
    err_where(e, "%s", env->place == NULL ? "" : env->place);
    return ERR_JOBFILE;
}

int
kafka_check(const struct conn_env *env, bool sink, struct err *e)
{
    struct source s;
    int r = check_topic(env, sink, e);

    if (r == 0)
        r = client_check(sink ? CLIENT_PRODUCER : CLIENT_CONSUMER, env, e);
    if (r != 0 || sink)
        return r;
    memset(&s, 0, sizeof s);
    s.env = *env;
    r = source_read_topics(&s, e);
    source_free_topics(&s);
    return r != 0 ? r : source_read_policy(&s, e);
}

/* A topic that is missing is no fault where `create` makes it. */
static int
find_topic(struct client *c, const char *topic, const struct opt *sink,
           struct err *e)
{
    struct admin_topic create;
    int32_t partitions;
    int r = admin_find_topic(c, topic, &partitions, e);

    if (r == ERR_CONFIG && admin_read_create(sink, &create) &&
        admin_count_partitions(c, topic, ASK_MS) == ADMIN_UNKNOWN)
        return 0;
    return r;
}

/* Those of a source, at least one for its patterns. */
static int
find_topics(struct client *c, const struct conn_env *env, struct err *e)
{
    struct source s;
    size_t i;
    int r;

    memset(&s, 0, sizeof s);
    s.env = *env;
    s.client = c;
    r = source_read_topics(&s, e);
    for (i = 0; r == 0 && i < s.topic_count; i++)
        r = find_topic(c, s.topics[i].name, NULL, e);
    if (r == 0)
        r = source_find_matching(&s, e);
    source_free_topics(&s);
    return r;
}

int
kafka_preflight(const struct conn_env *env, bool sink, struct err *e)
{
    const struct opt *topic = opt_get(env->opts, "topic");
    rd_kafka_conf_t *conf;
    struct client *c;
    int r = kafka_check(env, sink, e);

    if (r != 0)
        return r;
    c = client_new(sink ? CLIENT_PRODUCER : CLIENT_CONSUMER, env);
    r = client_conf(c, env, &conf, e);
    if (r == 0)
        r = client_start(c, &conf, e);
    if (r == 0 && sink && topic != NULL)
        r = find_topic(c, topic->s, env->opts, e);
    if (r == 0 && !sink)
        r = find_topics(c, env, e);
    client_close(&c);
    return r;
}
