/*
 * The bare baseline: one librdkafka consumer, a queue per partition, batches
 * of 2,000, nothing parsed. What reading a topic costs before anybody looks
 * at a record.
 *
 *   bare_consumer BOOTSTRAP TOPIC PARTITIONS
 *
 * Reads from the beginning to the end of each partition; prints the number
 * of messages and bytes. Who runs it measures its CPU time. Linked with
 * jemalloc, as the program is. It ends by _exit(): closing is not measured.
 */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 2000, PARTS_MAX = 64, WAIT_MS = 1 };

static int32_t parts;
static rd_kafka_queue_t *queues[PARTS_MAX];
static uint64_t messages, bytes;

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[512];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) !=
        RD_KAFKA_CONF_OK) {
        (void)fprintf(stderr, "bare_consumer: %s: %s\n", name, text);
        abort();
    }
}

/* The prefetch holds more than a second of work: a full queue would stall
 * the fetcher of librdkafka 2.0.2 for that long. */
static rd_kafka_t *
start(const char *servers)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[512];
    rd_kafka_t *rk;

    set(conf, "bootstrap.servers", servers);
    set(conf, "group.id", "bare");
    set(conf, "enable.auto.commit", "false");
    set(conf, "auto.offset.reset", "error");
    set(conf, "enable.partition.eof", "true");
    set(conf, "queued.min.messages", "1000000");
    set(conf, "queued.max.messages.kbytes", "1000000");
    set(conf, "fetch.wait.max.ms", "10"); /* as the engine: the end is told */
    rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
    if (rk == NULL) {
        (void)fprintf(stderr, "bare_consumer: %s\n", text);
        abort();
    }
    return rk;
}

static void
assign(rd_kafka_t *rk, const char *topic)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(parts);
    int32_t i;

    for (i = 0; i < parts; i++) {
        queues[i] = rd_kafka_queue_get_partition(rk, topic, i);
        rd_kafka_queue_forward(queues[i], NULL);
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = 0;
    }
    if (rd_kafka_assign(rk, list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        abort();
    rd_kafka_topic_partition_list_destroy(list);
}

/* One batch. @return 1 if it ended the partition. Sets *ret_any. */
static int32_t
drain(rd_kafka_queue_t *q, bool *ret_any)
{
    static rd_kafka_message_t *batch[BATCH];
    ssize_t n = rd_kafka_consume_batch_queue(q, 0, batch, BATCH), i;
    int32_t ended = 0;

    for (i = 0; i < n; i++) {
        rd_kafka_message_t *m = batch[i];

        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            ended = 1;
        } else if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            (void)fprintf(stderr, "bare_consumer: %s\n",
                          rd_kafka_message_errstr(m));
            abort();
        } else {
            messages++;
            bytes += m->len;
        }
        rd_kafka_message_destroy(m);
    }
    *ret_any = *ret_any || n > 0;
    return ended;
}

int
main(int argc, char **argv)
{
    int32_t i, ended = 0;

    if (argc != 4) {
        (void)fprintf(stderr,
                      "usage: bare_consumer BOOTSTRAP TOPIC PARTITIONS\n");
        return 64;
    }
    parts = atoi(argv[3]);
    if (parts < 1 || parts > PARTS_MAX)
        return 64;
    assign(start(argv[1]), argv[2]);
    while (ended < parts) {
        bool any = false;

        for (i = 0; i < parts; i++)
            ended += drain(queues[i], &any);
        if (!any)
            (void)poll(NULL, 0, WAIT_MS);
    }
    (void)printf("%" PRIu64 " %" PRIu64 "\n", messages, bytes);
    (void)fflush(stdout);
    _exit(0);
}
