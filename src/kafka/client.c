#include "kafka/client.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka.h"
#include "kafka/props.h"
#include "kafka/tsan_threads.h"

enum { ERRSTR = 512, SCRAM_FIXED = 0x020601ff, QUEUE_KBYTES_MIN = 1024 };

static atomic_bool left_behind_any;

struct pair {
    const char *name;
    const char *value;
};

/* What the engine prefers and a job may override. Backoffs: a broker that
 * is back is noticed within two seconds instead of ten. */
static const struct pair common_defaults[] = {
    {"reconnect.backoff.ms", "50"},
    {"reconnect.backoff.max.ms", "1000"},
    {"log.connection.close", "false"},
    {"socket.nagle.disable", "true"},
    {"topic.metadata.refresh.interval.ms", "60000"},
};

bool
kafka_left_behind(void)
{
    return atomic_load_explicit(&left_behind_any, memory_order_relaxed);
}

const char *
kafka_client_version(void)
{
    return rd_kafka_version_str();
}

struct client *
client_new(enum client_kind kind, const struct conn_env *env)
{
    struct client *c = mem_zalloc(sizeof *c);
    char name[160];
    const char *servers;

#if TSAN_THREADS
    assert(tsan_threads_here);
#endif

    c->kind = kind;
    (void)snprintf(name, sizeof name, "%s %s",
                   kind == CLIENT_CONSUMER ? "source" : "sink", env->step);
    c->name = mem_strdup(name);
    c->place = mem_strdup(env->place == NULL ? "" : env->place);
    servers = opt_str(env->cli, "bootstrap_servers", NULL);
    if (servers == NULL)
        servers = opt_str(env->opts, "bootstrap_servers", NULL);
    if (servers == NULL)
        servers = opt_str(env->job_opts, "bootstrap_servers", NULL);
    if (servers != NULL)
        c->servers = mem_strdup(servers);
    c->connect_ms = opt_int(env->cli, "connect_timeout_ms", CLIENT_CONNECT_MS);
    return c;
}

/* A newer text replaces one that nobody has taken. Runs in any thread. */
static void
put_news(struct client *c, const char *text)
{
    char *mine = mem_strdup(text);

    /* Release: who takes the pointer sees the text. */
    free(atomic_exchange_explicit(&c->news, mine, memory_order_acq_rel));
}

static bool
is_topic_error(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
           err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

static void
on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    struct client *c = opaque;
    rd_kafka_resp_err_t err = (rd_kafka_resp_err_t)code;
    char text[ERRSTR];

    if (err == RD_KAFKA_RESP_ERR__FATAL) {
        err = rd_kafka_fatal_error(rk, text, sizeof text);
        if (c->on_fatal != NULL)
            c->on_fatal(c, err, text);
    }
    if (err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        atomic_store(&c->down, true);
        return;
    }
    if (is_topic_error(err)) {
        atomic_store(&c->suspect, true);
        return;
    }
    if (err == RD_KAFKA_RESP_ERR__AUTHENTICATION ||
        (err == RD_KAFKA_RESP_ERR__SSL && reason != NULL &&
         strstr(reason, "verif") != NULL))
        atomic_store(&c->auth_failed, true);
    (void)snprintf(text, sizeof text, "%s (%s)", reason == NULL ? "" : reason,
                   rd_kafka_err2name(err));
    put_news(c, text);
}

/* Connection trouble is told once by client_watch(), deliveries and
 * transactions that fail are told by the sink, so those lines are for
 * --log-level debug. */
static bool
is_quiet(const char *fac)
{
    static const char *const quiet[] = {
        "FAIL",      "ERROR",    "BROKERFAIL", "CONFWARN", "CONNECT",
        "PARTCNT",   "REQTMOUT", "TIMEOUT",    "GETPID",   "BROKER",
        "TERMINATE", "TXNERR",   "FATAL",      "ADDPARTS"};
    size_t i;

    for (i = 0; i < sizeof quiet / sizeof quiet[0]; i++)
        if (strcmp(quiet[i], fac) == 0)
            return true;
    return false;
}

static void
on_log(const rd_kafka_t *rk, int level, const char *fac, const char *text)
{
    const struct client *c = rd_kafka_opaque(rk);
    enum log_level to = level <= 4 && !is_quiet(fac) ? LOG_WARN : LOG_DEBUG;

    if (log_enabled(to))
        log_line(to, "kafka %s: %s: %s", c == NULL ? "" : c->name, fac, text);
}

static const char *
opt_text(const struct opt *o, char buf[NUM_TEXT_MAX])
{
    switch (o->type) {
    case OPT_STR:
        return o->s;
    case OPT_BOOL:
        return o->i != 0 ? "true" : "false";
    case OPT_INT:
        (void)num_text_int(o->i, buf);
        return buf;
    case OPT_DBL:
        (void)num_text_double(o->d, buf);
        return buf;
    default:
        return NULL;
    }
}

/* Where properties come from decides what an error says. */
static int
blame(int r, const struct conn_env *env, bool cli, struct err *e)
{
    if (cli && e != NULL) {
        e->code = ERR_USAGE;
        return err_context(e, "-X");
    }
    if (env->place != NULL)
        err_where(e, "%s", env->place);
    return r;
}

static int
apply_props(rd_kafka_conf_t *conf, const struct opt *props, struct err *e)
{
    const struct opt *o;

    if (props == NULL || props->type != OPT_MAP)
        return 0;
    for (o = props->first; o != NULL; o = o->next) {
        char buf[NUM_TEXT_MAX], text[ERRSTR];
        const char *value = opt_text(o, buf);
        int r = props_check(o->name, e);

        if (r != 0)
            return r;
        if (value == NULL)
            return err_set(e, ERR_JOBFILE,
                           "kafka: property \"%s\" must be a string, number "
                           "or boolean",
                           o->name);
        if (rd_kafka_conf_set(conf, o->name, value, text, sizeof text) !=
            RD_KAFKA_CONF_OK)
            return err_set(e, ERR_JOBFILE, "kafka: property \"%s\": %s",
                           o->name, text);
    }
    return 0;
}

static const struct opt *
props_of(const struct opt *o, const char *name)
{
    return opt_get(o, name);
}

bool
client_is_set(const struct conn_env *env, const char *name)
{
    return opt_get(props_of(env->job_opts, "properties"), name) != NULL ||
           opt_get(props_of(env->opts, "properties"), name) != NULL ||
           opt_get(props_of(env->cli, "X"), name) != NULL;
}

static int
apply_all(rd_kafka_conf_t *conf, const struct conn_env *env, struct err *e)
{
    int r;

    r = apply_props(conf, props_of(env->job_opts, "properties"), e);
    if (r != 0)
        return blame(r, env, false, e);
    r = apply_props(conf, props_of(env->opts, "properties"), e);
    if (r != 0)
        return blame(r, env, false, e);
    r = apply_props(conf, props_of(env->cli, "X"), e);
    if (r != 0)
        return blame(r == ERR_JOBFILE ? ERR_USAGE : r, env, true, e);
    return 0;
}

static bool
scram_is_broken(const rd_kafka_conf_t *conf)
{
    char mech[64] = "";
    size_t size = sizeof mech;

    if (rd_kafka_conf_get(conf, "sasl.mechanism", mech, &size) !=
        RD_KAFKA_CONF_OK)
        return false;
    return strncmp(mech, "SCRAM", 5) == 0 && rd_kafka_version() < SCRAM_FIXED;
}

void
client_force(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[ERRSTR];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) !=
        RD_KAFKA_CONF_OK)
        log_line(LOG_ERROR, "kafka: cannot set %s: %s", name, text);
}

void
client_force_int(rd_kafka_conf_t *conf, const char *name, int64_t value)
{
    char buf[NUM_TEXT_MAX];

    (void)num_text_int(value, buf);
    client_force(conf, name, buf);
}

int64_t
client_queue_kbytes(const struct conn_env *env, int64_t most)
{
    int64_t kbytes = env->buffer_bytes / 1024;

    if (env->buffer_bytes <= 0 || kbytes > most)
        return most;
    return kbytes > QUEUE_KBYTES_MIN ? kbytes : QUEUE_KBYTES_MIN;
}

int
client_conf(struct client *c, const struct conn_env *env,
            rd_kafka_conf_t **ret_conf, struct err *e)
{
    rd_kafka_conf_t *conf;
    char id[200];
    size_t i;
    int r;

    if (c->servers == NULL || c->servers[0] == '\0') {
        (void)err_set(e, ERR_CONFIG, "%s: no Kafka brokers are given", c->name);
        err_hint(e, "set bootstrap_servers in the job, or use "
                    "--bootstrap-servers HOST:PORT");
        err_where(e, "%s", c->place);
        return ERR_CONFIG;
    }
    conf = rd_kafka_conf_new();
    for (i = 0; i < sizeof common_defaults / sizeof common_defaults[0]; i++)
        client_force(conf, common_defaults[i].name, common_defaults[i].value);
    (void)snprintf(id, sizeof id, "streamlua-%s-%s", env->job, env->step);
    client_force(conf, "client.id", id);
    if (c->kind == CLIENT_CONSUMER) {
        client_force(conf, "fetch.error.backoff.ms", "100");
    } else {
        /* A broker that is away holds the job back and fails nothing. */
        client_force(conf, "message.timeout.ms", "0");
    }
    r = apply_all(conf, env, e);
    if (r != 0) {
        rd_kafka_conf_destroy(conf);
        return r;
    }
    client_force(conf, "bootstrap.servers", c->servers);
    c->old_scram = scram_is_broken(conf);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_opaque(conf, c);
    *ret_conf = conf;
    return 0;
}

int
client_check(enum client_kind kind, const struct conn_env *env, struct err *e)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int r;

    (void)kind;
    r = apply_all(conf, env, e);
    rd_kafka_conf_destroy(conf);
    return r;
}

int
client_start(struct client *c, rd_kafka_conf_t **conf, struct err *e)
{
    char text[ERRSTR];

    c->rk = rd_kafka_new(c->kind == CLIENT_CONSUMER ? RD_KAFKA_CONSUMER
                                                    : RD_KAFKA_PRODUCER,
                         *conf, text, sizeof text);
    if (c->rk == NULL) {
        rd_kafka_conf_destroy(*conf);
        *conf = NULL;
        (void)err_set(e, ERR_CONFIG, "%s: %s", c->name, text);
        err_where(e, "%s", c->place);
        return ERR_CONFIG;
    }
    *conf = NULL;
    if (c->kind == CLIENT_CONSUMER)
        (void)rd_kafka_poll_set_consumer(c->rk);
    return 0;
}

void
client_poll(struct client *c)
{
    int i;

    if (c->kind == CLIENT_PRODUCER) {
        (void)rd_kafka_poll(c->rk, 0);
        return;
    }
    /* Records come on the queues of partitions; here are only callbacks and
     * errors of the whole client. */
    for (i = 0; i < 100; i++) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(c->rk, 0);

        if (m == NULL)
            return;
        if (m->err != 0) {
            if (is_topic_error(m->err))
                atomic_store(&c->suspect, true);
            else
                put_news(c, rd_kafka_message_errstr(m));
        }
        rd_kafka_message_destroy(m);
    }
}

const char *
client_reason(struct client *c)
{
    char *news = atomic_exchange_explicit(&c->news, NULL, memory_order_acq_rel);

    if (news != NULL) {
        free(c->last);
        c->last = news;
    }
    return c->last == NULL ? "no answer" : c->last;
}

int
client_login_failed(struct client *c, struct err *e)
{
    (void)err_set(e, ERR_CONFIG, "%s: broker %s refuses the connection: %s",
                  c->name, c->servers, client_reason(c));
    if (c->old_scram)
        err_hint(e,
                 "librdkafka %s cannot log in with SCRAM at current "
                 "brokers, even with the right password (fixed in 2.6.1); "
                 "use sasl.mechanism=PLAIN over TLS or a newer library",
                 rd_kafka_version_str());
    else
        err_hint(e, "check security.protocol, sasl.mechanism, sasl.username, "
                    "sasl.password and ssl.ca.location");
    err_where(e, "%s", c->place);
    return ERR_CONFIG;
}

/* A start that takes longer than people expect says what it waits for. */
static void
say_waiting(struct client *c, int64_t deadline_ms)
{
    int64_t left = deadline_ms - clock_mono_ms();

    if (c->wait_told || c->connect_ms - left < CLIENT_WAIT_TOLD_MS)
        return;
    c->wait_told = true;
    log_line(LOG_WARN,
             "%s: waiting up to %" PRId64 " ms for a Kafka broker at %s: %s",
             c->name, c->connect_ms, c->servers, client_reason(c));
}

int
client_retry(struct client *c, int64_t deadline_ms, struct err *e)
{
    client_poll(c);
    if (atomic_load(&c->auth_failed))
        return client_login_failed(c, e);
    if (clock_mono_ms() < deadline_ms) {
        say_waiting(c, deadline_ms);
        return 0;
    }
    (void)err_set(e, ERR_UNAVAILABLE,
                  "%s: no Kafka broker answers at %s within %" PRId64 " ms: %s",
                  c->name, c->servers, c->connect_ms, client_reason(c));
    err_hint(e, "is the broker running and the address right? "
                "(bootstrap_servers, --bootstrap-servers)");
    err_where(e, "%s", c->place);
    if (e != NULL)
        e->flags |= ERR_RETRIABLE;
    return ERR_UNAVAILABLE;
}

bool
client_answers(struct client *c, int timeout_ms)
{
    const struct rd_kafka_metadata *md;

    if (rd_kafka_metadata(c->rk, 0, NULL, &md, timeout_ms) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    rd_kafka_metadata_destroy(md);
    return true;
}

void
client_watch(struct client *c)
{
    int64_t now;

    if (!atomic_load(&c->down) && c->down_ms == 0)
        return;
    now = clock_mono_ms();
    if (c->down_ms == 0) {
        /* The reason comes a moment after the news: the next tick tells. */
        c->down_ms = now == 0 ? 1 : now;
        c->probe_ms = now + CLIENT_PROBE_MS;
        return;
    }
    if (!c->down_told) {
        c->down_told = true;
        log_line(LOG_WARN, "%s: Kafka broker %s is unreachable, waiting: %s",
                 c->name, c->servers, client_reason(c));
        return;
    }
    if (now < c->probe_ms)
        return;
    c->probe_ms = now + CLIENT_PROBE_MS;
    if (!client_answers(c, 100))
        return;
    atomic_store(&c->down, false);
    log_line(LOG_INFO, "%s: Kafka broker %s is back after %" PRId64 " ms",
             c->name, c->servers, now - c->down_ms);
    c->down_ms = 0;
    c->down_told = false;
}

void *
client_destroy_main(void *rk)
{
    rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    return NULL;
}

bool
client_join(struct client *c, pthread_t thread)
{
    struct timespec until;

    c->rk = NULL;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLIENT_CLOSE_MS / 1000;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
        return true;
    (void)pthread_detach(thread);
    atomic_store(&left_behind_any, true);
    log_line(LOG_WARN,
             "%s: the Kafka client did not close within %d ms and "
             "is left behind",
             c->name, CLIENT_CLOSE_MS);
    return false;
}

bool
client_stop(struct client *c)
{
    pthread_t thread;

    if (c->rk == NULL)
        return true;
    if (pthread_create(&thread, NULL, client_destroy_main, c->rk) != 0) {
        c->rk = NULL;
        atomic_store(&left_behind_any, true);
        return false;
    }
    return client_join(c, thread);
}

void
client_close(struct client **pc)
{
    struct client *c = pc == NULL ? NULL : *pc;

    if (c == NULL)
        return;
    *pc = NULL;
    /* Threads of a handle that is left behind still call on_error(). */
    if (!client_stop(c))
        return;
    free(c->name);
    free(c->servers);
    free(c->place);
    free(c->last);
    free(atomic_exchange(&c->news, NULL));
    free(c);
}
