#include "kafka/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "kafka/props.h"

enum {
    ASK_MS = 500,     /* one metadata request */
    UNKNOWN_MS = 400, /* a topic made a moment ago is not known at once */
    NEAR_MAX = 200
};

#define DEFAULT_MESSAGE_BYTES 1048588
#define DEFAULT_TS_AFTER_MS 3600000

static void
pause_ms(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000L};

    (void)nanosleep(&t, NULL);
}

/* Ask for one topic. */
static rd_kafka_resp_err_t
ask(struct client *c, const char *topic, int timeout_ms, int32_t *ret)
{
    const struct rd_kafka_metadata *md = NULL;
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(c->rk, topic, NULL);
    rd_kafka_resp_err_t err;
    int i;

    if (rkt == NULL)
        return rd_kafka_last_error();
    err = rd_kafka_metadata(c->rk, 0, rkt, &md, timeout_ms);
    rd_kafka_topic_destroy(rkt);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err;
    err = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    for (i = 0; i < md->topic_cnt; i++) {
        if (strcmp(md->topics[i].topic, topic) != 0)
            continue;
        err = md->topics[i].err;
        *ret = md->topics[i].partition_cnt;
    }
    rd_kafka_metadata_destroy(md);
    return err;
}

static bool
is_unknown(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           err == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
}

/* Name the existing topic that is nearest to `topic`, if one is near. */
static void
hint_near(struct client *c, const char *topic, struct err *e)
{
    const struct rd_kafka_metadata *md;
    unsigned best = (unsigned)(strlen(topic) / 3 + 1);
    char near[NEAR_MAX] = "";
    int i;

    if (rd_kafka_metadata(c->rk, 1, NULL, &md, ASK_MS * 4) == 0) {
        for (i = 0; i < md->topic_cnt; i++) {
            const char *name = md->topics[i].topic;
            unsigned d = props_distance(topic, name, best);

            if (d >= best)
                continue;
            best = d;
            (void)snprintf(near, sizeof near, "did you mean \"%s\"? ", name);
        }
        rd_kafka_metadata_destroy(md);
    }
    err_hint(e,
             "%sa topic is made with kafka-topics.sh --create "
             "--bootstrap-server %.80s --topic %.80s --partitions N",
             near, c->servers, topic);
}

static int
topic_error(struct client *c, const char *topic, rd_kafka_resp_err_t err,
            struct err *e)
{
    if (is_unknown(err)) {
        (void)err_set(e, ERR_CONFIG, "%s: topic \"%s\" does not exist at %s",
                      c->name, topic, c->servers);
        hint_near(c, topic, e);
    } else if (err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
        (void)err_set(e, ERR_CONFIG, "%s: no right to %s topic \"%s\" (%s)",
                      c->name, c->kind == CLIENT_CONSUMER ? "read" : "write",
                      topic, rd_kafka_err2name(err));
        err_hint(e, "an ACL must allow DESCRIBE and %s on it",
                 c->kind == CLIENT_CONSUMER ? "READ" : "WRITE");
    } else {
        (void)err_set(e, ERR_CONFIG, "%s: topic \"%s\": %s", c->name, topic,
                      rd_kafka_err2str(err));
    }
    err_where(e, "%s", c->place);
    return ERR_CONFIG;
}

/* Whether waiting helps: the broker is away, or has no leader yet. */
static bool
may_pass(rd_kafka_resp_err_t err)
{
    switch (err) {
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
        return true;
    default:
        return false;
    }
}

int
admin_find_topic(struct client *c, const char *topic, int32_t *ret_partitions,
                 struct err *e)
{
    int64_t deadline = clock_mono_ms() + c->connect_ms;
    int64_t unknown_since = 0;

    for (;;) {
        int64_t left = deadline - clock_mono_ms();
        int32_t count = 0;
        rd_kafka_resp_err_t err;
        int r;

        if (left < 1)
            left = 1;
        err = ask(c, topic, (int)(left < ASK_MS ? left : ASK_MS), &count);
        if (err == RD_KAFKA_RESP_ERR_NO_ERROR && count > 0) {
            *ret_partitions = count;
            return 0;
        }
        if (is_unknown(err)) {
            if (unknown_since == 0)
                unknown_since = clock_mono_ms();
            if (clock_mono_ms() - unknown_since >= UNKNOWN_MS)
                return topic_error(c, topic, err, e);
        } else if (err != RD_KAFKA_RESP_ERR_NO_ERROR && !may_pass(err)) {
            return topic_error(c, topic, err, e);
        }
        r = client_retry(c, deadline, e);
        if (r != 0)
            return r;
        pause_ms(20);
    }
}

int32_t
admin_count_partitions(struct client *c, const char *topic, int timeout_ms)
{
    int32_t count = 0;
    rd_kafka_resp_err_t err = ask(c, topic, timeout_ms, &count);

    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        return count;
    return is_unknown(err) ? ADMIN_UNKNOWN : ADMIN_AWAY;
}

bool
admin_list_topics(struct client *c, int timeout_ms,
                  void (*each)(void *arg, const char *name), void *arg)
{
    const struct rd_kafka_metadata *md;
    int i;

    if (rd_kafka_metadata(c->rk, 1, NULL, &md, timeout_ms) != 0)
        return false;
    for (i = 0; i < md->topic_cnt; i++)
        if (md->topics[i].err == 0)
            each(arg, md->topics[i].topic);
    rd_kafka_metadata_destroy(md);
    return true;
}

int32_t
admin_look(struct client *c, const char *topic, int timeout_ms, struct err *e)
{
    int32_t count = 0;
    rd_kafka_resp_err_t err = ask(c, topic, timeout_ms, &count);

    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        return count > 0 ? count : ADMIN_AWAY;
    if (may_pass(err))
        return ADMIN_AWAY;
    (void)topic_error(c, topic, err, e);
    return is_unknown(err) ? ADMIN_UNKNOWN : ADMIN_REFUSED;
}

/* One question about settings; `each` gets every answer. */
struct settings {
    rd_kafka_ResourceType_t type;
    const char *name; /* topic, or broker id */
    void (*each)(void *arg, const char *name, const char *value);
    void *arg;
};

static bool
read_settings(rd_kafka_event_t *ev, const struct settings *q)
{
    const rd_kafka_DescribeConfigs_result_t *result =
        rd_kafka_event_DescribeConfigs_result(ev);
    const rd_kafka_ConfigResource_t **list;
    const rd_kafka_ConfigEntry_t **entries;
    size_t count, n, i;

    if (result == NULL || rd_kafka_event_error(ev) != 0) {
        log_line(LOG_DEBUG, "kafka: settings cannot be read: %s",
                 rd_kafka_event_error_string(ev));
        return false;
    }
    list = rd_kafka_DescribeConfigs_result_resources(result, &count);
    if (count == 0 || rd_kafka_ConfigResource_error(list[0]) != 0)
        return false;
    entries = rd_kafka_ConfigResource_configs(list[0], &n);
    for (i = 0; i < n; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);

        if (value != NULL)
            q->each(q->arg, rd_kafka_ConfigEntry_name(entries[i]), value);
    }
    return true;
}

/* The controller's id; -1 if none answers. Questions about settings go by way
 * of it, and the client would look for one that is no broker (as that of its
 * own mock) until the time is up. */
static int32_t
controller_of(struct client *c, int timeout_ms)
{
    const struct rd_kafka_metadata *md;
    int32_t id = -1;
    int i;

    if (rd_kafka_metadata(c->rk, 0, NULL, &md, timeout_ms) != 0)
        return -1;
    for (i = 0; i < md->broker_cnt; i++)
        if (md->brokers[i].id == rd_kafka_controllerid(c->rk, 0))
            id = md->brokers[i].id;
    rd_kafka_metadata_destroy(md);
    return id;
}

static bool
ask_settings(struct client *c, const struct settings *q, int timeout_ms)
{
    rd_kafka_ConfigResource_t *res;
    rd_kafka_AdminOptions_t *o;
    rd_kafka_queue_t *queue;
    rd_kafka_event_t *ev;
    char text[200];
    bool ok = false;

    if (controller_of(c, timeout_ms) < 0)
        return false;
    res = rd_kafka_ConfigResource_new(q->type, q->name);
    queue = rd_kafka_queue_new(c->rk);
    o = rd_kafka_AdminOptions_new(c->rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    (void)rd_kafka_AdminOptions_set_request_timeout(o, timeout_ms, text,
                                                    sizeof text);
    rd_kafka_DescribeConfigs(c->rk, &res, 1, o, queue);
    ev = rd_kafka_queue_poll(queue, timeout_ms);
    if (ev != NULL) {
        ok = read_settings(ev, q);
        rd_kafka_event_destroy(ev);
    }
    rd_kafka_AdminOptions_destroy(o);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(res);
    return ok;
}

static void
take_limit(void *arg, const char *name, const char *value)
{
    struct admin_limits *to = arg;
    int64_t n = strtoll(value, NULL, 10);

    if (n <= 0)
        return;
    if (strcmp(name, "max.message.bytes") == 0)
        to->max_message_bytes = n;
    else if (strcmp(name, "message.timestamp.after.max.ms") == 0)
        to->ts_after_ms = n;
}

void
admin_limits(struct client *c, const char *topic, int timeout_ms,
             struct admin_limits *ret)
{
    struct settings q = {.type = RD_KAFKA_RESOURCE_TOPIC,
                         .name = topic,
                         .each = take_limit,
                         .arg = ret};

    ret->max_message_bytes = DEFAULT_MESSAGE_BYTES;
    ret->ts_after_ms = DEFAULT_TS_AFTER_MS;
    (void)ask_settings(c, &q, timeout_ms);
}

struct wanted {
    const char *name;
    char value[ADMIN_VALUE_MAX];
    bool found;
};

static void
take_wanted(void *arg, const char *name, const char *value)
{
    struct wanted *w = arg;

    if (strcmp(name, w->name) != 0)
        return;
    (void)snprintf(w->value, sizeof w->value, "%s", value);
    w->found = true;
}

bool
admin_setting(struct client *c, const char *topic, const char *name,
              int timeout_ms, char *ret, size_t size)
{
    char id[NUM_TEXT_MAX];
    struct wanted w = {.name = name};
    struct settings q = {.type = RD_KAFKA_RESOURCE_TOPIC,
                         .name = topic,
                         .each = take_wanted,
                         .arg = &w};

    if (topic == NULL) {
        int32_t broker = controller_of(c, timeout_ms);

        if (broker < 0)
            return false;
        (void)num_text_int(broker, id);
        q.type = RD_KAFKA_RESOURCE_BROKER;
        q.name = id;
    }
    if (!ask_settings(c, &q, timeout_ms) || !w.found)
        return false;
    (void)snprintf(ret, size, "%s", w.value);
    return true;
}

/* A setting as the broker takes it. */
static void
put_scalar(struct buf *b, const struct opt *o)
{
    if (o->type == OPT_STR)
        buf_add(b, o->s, o->len);
    else if (o->type == OPT_BOOL)
        buf_adds(b, o->i != 0 ? "true" : "false");
    else if (o->type == OPT_DBL)
        json_put_double(b, o->d);
    else
        json_put_int(b, o->i);
}

static int
create_failed(struct client *c, const struct admin_topic *t,
              rd_kafka_resp_err_t err, const char *text, struct err *e)
{
    bool denied = err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
                  err == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    int code = may_pass(err) ? ERR_UNAVAILABLE : ERR_CONFIG;
    const struct opt *o;
    struct buf b;

    (void)err_set(e, code, "%s: topic \"%s\" cannot be made: %s (%s)", c->name,
                  t->name, text == NULL ? rd_kafka_err2str(err) : text,
                  rd_kafka_err2name(err));
    if (code == ERR_UNAVAILABLE && e != NULL)
        e->flags |= ERR_RETRIABLE;
    buf_init(&b);
    for (o = t->config == NULL ? NULL : t->config->first; o != NULL;
         o = o->next) {
        buf_addf(&b, " --config %s=", o->name);
        put_scalar(&b, o);
    }
    err_hint(e,
             "%smake it with kafka-topics.sh --create --bootstrap-server "
             "%.60s --topic %.80s --partitions %d%.80s",
             denied ? "an ACL must allow CREATE on it, or " : "", c->servers,
             t->name, t->partitions < 1 ? 1 : (int)t->partitions, buf_cstr(&b));
    buf_fini(&b);
    err_where(e, "%s", c->place);
    return code;
}

/* The answer of one topic. */
static rd_kafka_resp_err_t
created(rd_kafka_event_t *ev, char *text, size_t size)
{
    const rd_kafka_CreateTopics_result_t *result;
    const rd_kafka_topic_result_t **list;
    rd_kafka_resp_err_t err;
    const char *why;
    size_t n;

    err = rd_kafka_event_error(ev);
    why = rd_kafka_event_error_string(ev);
    result = rd_kafka_event_CreateTopics_result(ev);
    if (err == 0 && result != NULL) {
        list = rd_kafka_CreateTopics_result_topics(result, &n);
        if (n > 0) {
            err = rd_kafka_topic_result_error(list[0]);
            why = rd_kafka_topic_result_error_string(list[0]);
        }
    }
    (void)snprintf(text, size, "%s", why == NULL ? "" : why);
    return err;
}

static void
set_config(rd_kafka_NewTopic_t *nt, const struct opt *config)
{
    const struct opt *o;
    struct buf b;

    for (o = config == NULL ? NULL : config->first; o != NULL; o = o->next) {
        buf_init(&b);
        put_scalar(&b, o);
        (void)rd_kafka_NewTopic_set_config(nt, o->name, buf_cstr(&b));
        buf_fini(&b);
    }
}

/* Ask once. @param text why not, or "". */
static rd_kafka_resp_err_t
request_create(struct client *c, rd_kafka_NewTopic_t *nt, int timeout_ms,
               char *text, size_t size)
{
    rd_kafka_resp_err_t err = RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(c->rk);
    rd_kafka_AdminOptions_t *o =
        rd_kafka_AdminOptions_new(c->rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_event_t *ev;

    (void)rd_kafka_AdminOptions_set_request_timeout(o, timeout_ms, text, size);
    (void)rd_kafka_AdminOptions_set_operation_timeout(o, timeout_ms / 2, text,
                                                      size);
    rd_kafka_CreateTopics(c->rk, &nt, 1, o, queue);
    ev = rd_kafka_queue_poll(queue, timeout_ms);
    if (ev != NULL) {
        err = created(ev, text, size);
        rd_kafka_event_destroy(ev);
    }
    rd_kafka_AdminOptions_destroy(o);
    rd_kafka_queue_destroy(queue);
    return err;
}

int
admin_create(struct client *c, const struct admin_topic *t, int timeout_ms,
             struct err *e)
{
    char text[256] = "";
    rd_kafka_NewTopic_t *nt = rd_kafka_NewTopic_new(
        t->name, t->partitions, t->replication, text, sizeof text);
    rd_kafka_resp_err_t err;

    if (nt == NULL)
        return create_failed(c, t, RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, text, e);
    set_config(nt, t->config);
    err = request_create(c, nt, timeout_ms, text, sizeof text);
    rd_kafka_NewTopic_destroy(nt);
    if (err == 0 || err == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        return 0;
    return create_failed(c, t, err, text[0] == '\0' ? NULL : text, e);
}

int
admin_create_compacted(struct client *c, const char *topic, int timeout_ms,
                       struct err *e)
{
    struct opt policy = {
        .name = "cleanup.policy", .type = OPT_STR, .s = "compact", .len = 7};
    const struct opt config = {.type = OPT_MAP, .first = &policy, .len = 1};
    const struct admin_topic t = {
        .name = topic, .partitions = 1, .replication = -1, .config = &config};

    return admin_create(c, &t, timeout_ms, e);
}

bool
admin_read_create(const struct opt *opts, struct admin_topic *ret)
{
    const struct opt *o = opt_get(opts, "create");

    if (o == NULL || o->type != OPT_MAP)
        return false;
    *ret = (struct admin_topic){
        .name = opt_str(opts, "topic", NULL),
        .partitions = (int32_t)opt_int(o, "partitions", -1),
        .replication = (int32_t)opt_int(o, "replication", -1),
        .config = opt_get(o, "config")};
    return true;
}

int
admin_find_or_create(struct client *c, const char *topic,
                     const struct admin_topic *create, int32_t *ret_partitions,
                     struct err *e)
{
    int r = admin_find_topic(c, topic, ret_partitions, e);
    int64_t deadline = clock_mono_ms() + c->connect_ms;

    if (r != ERR_CONFIG || create == NULL ||
        admin_count_partitions(c, topic, ASK_MS) != ADMIN_UNKNOWN)
        return r;
    r = admin_create(c, create, (int)c->connect_ms, e);
    /* Not all brokers know it at once. */
    while (r == 0 && admin_count_partitions(c, topic, ASK_MS) < 1 &&
           clock_mono_ms() < deadline)
        pause_ms(20);
    if (r == 0)
        log_line(LOG_INFO, "%s: topic \"%s\" was made", c->name, topic);
    return r != 0 ? r : admin_find_topic(c, topic, ret_partitions, e);
}
