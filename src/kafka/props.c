#include "kafka/props.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>

#include "base/mem.h"

enum { NAME_MAX_LEN = 80, NAMES_MAX = 512 };

#define NOTHING "nothing: "

struct advice {
    const char *name;
    const char *use;
};

/* Set by the engine, or by an option of the step. */
static const struct advice owned[] = {
    {"acks", "the sink's option `delivery`"},
    {"auto.commit.enable", "nothing: positions are kept by the engine"},
    {"auto.commit.interval.ms", "nothing: positions are kept by the engine"},
    {"auto.offset.reset", "the source's option `start`"},
    {"bootstrap.servers", "the option `bootstrap_servers`"},
    {"default_topic_conf", "the properties themselves"},
    {"delivery.report.only.error",
     "nothing: what is delivered is counted by the engine"},
    {"enable.auto.commit", "nothing: positions are kept by the engine"},
    {"enable.auto.offset.store", "nothing: positions are kept by the engine"},
    {"enable.idempotence", "the sink's option `delivery`"},
    {"enable.partition.eof", "nothing: it is always on"},
    {"group.id", "the source's option `group`"},
    {"group.instance.id", "nothing: partitions are assigned by the engine"},
    {"isolation.level", "the source's option `isolation`"},
    {"metadata.broker.list", "the option `bootstrap_servers`"},
    {"offset.store.method", "nothing: positions are kept by the engine"},
    {"partition.assignment.strategy",
     "nothing: partitions are assigned by the engine"},
    {"partitioner", "the sink's option `partition`; the default is Kafka's "
                    "own murmur2, as in Java"},
    {"request.required.acks", "the sink's option `delivery`"},
    {"transactional.id", "the sink's option `transactional_id_prefix`"},
};

/* Names of the Java client and of Flink's connector that librdkafka does not
 * know. */
static const struct advice java[] = {
    {"batch.max.bytes", "batch.size"},
    {"buffer.memory", "queue.buffering.max.kbytes (KiB, not bytes)"},
    {"client.id.prefix", "client.id"},
    {"commit.offsets.on.checkpoint", "nothing: the engine does that"},
    {"compression.gzip.level", "compression.level"},
    {"compression.lz4.level", "compression.level"},
    {"compression.zstd.level", "compression.level"},
    {"config.providers", "nothing: use parameters of the job (s.param)"},
    {"connector.client.config.override.policy", "nothing"},
    {"default.api.timeout.ms", "socket.timeout.ms"},
    {"exclude.internal.topics", "nothing: topics are named"},
    {"fetch.max.wait.ms", "fetch.wait.max.ms"},
    {"flink.partition-discovery.interval-millis",
     "the source's option `discovery`"},
    {"group.protocol", "nothing: partitions are assigned by the engine"},
    {"interceptor.classes", "nothing: Java classes cannot be loaded"},
    {"internal.leave.group.on.close", "nothing"},
    {"key.deserializer", "the source's option `key_format`"},
    {"key.serializer", "the sink's option `key`"},
    {"max.block.ms", "nothing: a full queue holds the job back by itself"},
    {"max.poll.records", "nothing: batches are sized by the engine"},
    {"max.request.size", "message.max.bytes"},
    {"metadata.max.idle.ms", "topic.metadata.refresh.interval.ms"},
    {"metadata.recovery.strategy", "nothing"},
    {"metric.reporters", "nothing: Java classes cannot be loaded"},
    {"metrics.num.samples", "statistics.interval.ms"},
    {"metrics.recording.level", "statistics.interval.ms"},
    {"metrics.sample.window.ms", "statistics.interval.ms"},
    {"partition.discovery.interval.ms", "the source's option `discovery`"},
    {"partitioner.adaptive.partitioning.enable",
     "sticky.partitioning.linger.ms"},
    {"partitioner.class", "the sink's option `partition`"},
    {"partitioner.ignore.keys", "the sink's option `key = false`"},
    {"receive.buffer.bytes", "socket.receive.buffer.bytes"},
    {"sasl.client.callback.handler.class",
     "nothing: Java classes cannot be loaded"},
    {"sasl.jaas.config", "sasl.username and sasl.password"},
    {"sasl.kerberos.kinit.cmd.path", "sasl.kerberos.kinit.cmd"},
    {"sasl.kerberos.ticket.renew.jitter",
     "sasl.kerberos.min.time.before.relogin"},
    {"sasl.kerberos.ticket.renew.window.factor",
     "sasl.kerberos.min.time.before.relogin"},
    {"sasl.login.callback.handler.class",
     "sasl.oauthbearer.config, with sasl.mechanism=OAUTHBEARER"},
    {"sasl.login.class", "nothing: Java classes cannot be loaded"},
    {"scan.bounded.mode", "the source's option `stop`"},
    {"scan.startup.mode", "the source's option `start`"},
    {"security.providers", "ssl.providers"},
    {"send.buffer.bytes", "socket.send.buffer.bytes"},
    {"sink.delivery-guarantee", "the sink's option `delivery`"},
    {"sink.transactional-id-prefix",
     "the sink's option `transactional_id_prefix`"},
    {"socket.connection.setup.timeout.max.ms",
     "socket.connection.setup.timeout.ms"},
    {"ssl.enabled.protocols", "nothing: OpenSSL decides"},
    {"ssl.keymanager.algorithm", "nothing: OpenSSL decides"},
    {"ssl.keystore.certificate.chain", "ssl.certificate.pem"},
    {"ssl.keystore.key", "ssl.key.pem"},
    {"ssl.keystore.type", "ssl.keystore.location (a PKCS#12 file)"},
    {"ssl.protocol", "nothing: OpenSSL decides"},
    {"ssl.provider", "ssl.providers"},
    {"ssl.secure.random.implementation", "nothing: OpenSSL decides"},
    {"ssl.trustmanager.algorithm", "nothing: OpenSSL decides"},
    {"ssl.truststore.certificates", "ssl.ca.pem"},
    {"ssl.truststore.location", "ssl.ca.location (a PEM file)"},
    {"ssl.truststore.password", "nothing: ssl.ca.location is a PEM file"},
    {"ssl.truststore.type", "ssl.ca.location (a PEM file)"},
    {"transaction.two.phase.commit.enable", "nothing"},
    {"value.deserializer", "the source's option `format`"},
    {"value.serializer", "the sink's option `format`"},
};

static char *known[NAMES_MAX];
static size_t known_count;
static pthread_once_t known_once = PTHREAD_ONCE_INIT;

/* The library prints its table as Markdown: `name   | C/P | ...`. */
static void
read_line(const char *line)
{
    size_t len = strcspn(line, " |\n");

    if (len == 0 || len > NAME_MAX_LEN || known_count == NAMES_MAX)
        return;
    if (line[0] == '#' || line[0] == '-' || strncmp(line, "Property ", 9) == 0)
        return;
    if (strchr(line, '|') == NULL)
        return;
    known[known_count++] = mem_dup(line, len);
}

static void
read_known(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    char *line, *save = NULL;

    if (f == NULL)
        return;
    rd_kafka_conf_properties_show(f);
    if (fclose(f) == 0) {
        line = strtok_r(text, "\n", &save);
        for (; line != NULL; line = strtok_r(NULL, "\n", &save))
            read_line(line);
    }
    free(text);
}

bool
props_is_known(const char *name)
{
    size_t i;

    (void)pthread_once(&known_once, read_known);
    for (i = 0; i < known_count; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return false;
}

unsigned
props_distance(const char *a, const char *b, unsigned limit)
{
    unsigned row[NAME_MAX_LEN + 1];
    size_t la = strlen(a), lb = strlen(b), i, j;

    if (la > NAME_MAX_LEN || lb > NAME_MAX_LEN)
        return limit;
    for (j = 0; j <= lb; j++)
        row[j] = (unsigned)j;
    for (i = 1; i <= la; i++) {
        unsigned diag = row[0];

        row[0] = (unsigned)i;
        for (j = 1; j <= lb; j++) {
            unsigned up = row[j];
            unsigned best = diag + (a[i - 1] != b[j - 1]);

            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diag = up;
            row[j] = best;
        }
    }
    return row[lb] < limit ? row[lb] : limit;
}

const char *
props_nearest(const char *name)
{
    unsigned best = (unsigned)(strlen(name) / 3 + 1);
    const char *found = NULL;
    size_t i;

    (void)pthread_once(&known_once, read_known);
    for (i = 0; i < known_count; i++) {
        unsigned d = props_distance(name, known[i], best);

        if (d < best) {
            best = d;
            found = known[i];
        }
    }
    return found;
}

static const char *
advice_find(const struct advice *list, size_t count, const char *name)
{
    size_t i;

    for (i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].use;
    return NULL;
}

/* An advice that begins with "nothing: " names no other property. */
static const char *
advice_text(const char *use)
{
    return strncmp(use, NOTHING, sizeof NOTHING - 1) == 0
               ? use + sizeof NOTHING - 1
               : use;
}

static const char *
use_or_not(const char *use)
{
    return advice_text(use) == use ? "use " : "";
}

int
props_check(const char *name, struct err *e)
{
    const char *use, *near;
    size_t len = strlen(name);

    use = advice_find(owned, sizeof owned / sizeof owned[0], name);
    if (use != NULL) {
        return err_set(e, ERR_JOBFILE,
                       "kafka: property \"%s\" is set by streamlua; %s%s", name,
                       use_or_not(use), advice_text(use));
    }
    if ((len > 3 && strcmp(name + len - 3, "_cb") == 0) ||
        strcmp(name, "opaque") == 0 || strcmp(name, "interceptors") == 0)
        return err_set(e, ERR_JOBFILE,
                       "kafka: property \"%s\" is a pointer of the C client "
                       "and cannot be set in a job",
                       name);
    if (props_is_known(name))
        return 0;
    use = advice_find(java, sizeof java / sizeof java[0], name);
    if (use != NULL)
        return err_set(e, ERR_JOBFILE,
                       "kafka: property \"%s\" is one of the Java client; "
                       "properties are those of librdkafka: %s%s",
                       name, use_or_not(use), advice_text(use));
    near = props_nearest(name);
    if (near != NULL)
        (void)err_set(e, ERR_JOBFILE,
                      "kafka: unknown property \"%s\"; did "
                      "you mean \"%s\"?",
                      name, near);
    else
        (void)err_set(e, ERR_JOBFILE, "kafka: unknown property \"%s\"", name);
    err_hint(e,
             "properties are those of librdkafka %s (CONFIGURATION.md of "
             "that library lists them)",
             rd_kafka_version_str());
    return ERR_JOBFILE;
}
