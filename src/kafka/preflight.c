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
    return source_read_policy(&s, e);
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

int
kafka_preflight(const struct conn_env *env, bool sink, struct err *e)
{
    const struct opt *topic = opt_get(env->opts, "topic"), *el;
    rd_kafka_conf_t *conf;
    struct client *c;
    int r = kafka_check(env, sink, e);

    if (r != 0)
        return r;
    c = client_new(sink ? CLIENT_PRODUCER : CLIENT_CONSUMER, env);
    r = client_conf(c, env, &conf, e);
    if (r == 0)
        r = client_start(c, &conf, e);
    if (r == 0 && topic != NULL && topic->type == OPT_STR)
        r = find_topic(c, topic->s, sink ? env->opts : NULL, e);
    if (r == 0 && topic != NULL && topic->type == OPT_LIST)
        for (el = topic->first; r == 0 && el != NULL; el = el->next)
            if (el->type == OPT_STR)
                r = find_topic(c, el->s, NULL, e);
    client_close(&c);
    return r;
}
