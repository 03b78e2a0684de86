/*
 * Latency: offers events at a fixed rate and times the rows that come back.
 *
 *   paced BOOTSTRAP TOPIC OUT PARTITIONS RATE SECONDS
 *
 * An event's `ts` is the moment it was due, not the moment it was sent, so a
 * producer that falls behind is charged for it. A row of OUT carries
 * window_end; its latency is the moment it was read here minus that. Prints
 * "rows p50 p99 max" in ms, after the rate's last event. Rows of windows
 * that were open at the end are not waited for. The first window is left out:
 * it holds the start of everything.
 */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROWS_MAX = 4000000, KEYS = 100, PARTS_MAX = 64, BATCH = 1000 };

static int64_t *late; /* ms, one a row */
static size_t rows;
static int64_t first_end = INT64_MAX;
static rd_kafka_queue_t *out;

static int64_t
now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[512];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) !=
        RD_KAFKA_CONF_OK)
        abort();
}

static rd_kafka_t *
start(rd_kafka_type_t type, const char *servers)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[512];
    rd_kafka_t *rk;

    set(conf, "bootstrap.servers", servers);
    if (type == RD_KAFKA_CONSUMER) {
        set(conf, "group.id", "paced");
        set(conf, "enable.auto.commit", "false");
        set(conf, "fetch.wait.max.ms", "5");
    } else {
        set(conf, "linger.ms", "1");
    }
    rk = rd_kafka_new(type, conf, text, sizeof text);
    if (rk == NULL)
        abort();
    return rk;
}

static void
watch(rd_kafka_t *rk, const char *topic, int32_t parts)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new(parts);
    int32_t i;

    out = rd_kafka_queue_get_consumer(rk);
    for (i = 0; i < parts; i++)
        rd_kafka_topic_partition_list_add(list, topic, i)->offset =
            RD_KAFKA_OFFSET_END;
    if (rd_kafka_assign(rk, list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        abort();
    rd_kafka_topic_partition_list_destroy(list);
}

static void
take_row(const rd_kafka_message_t *m, int64_t now)
{
    static const char name[] = "\"window_end\":";
    char text[512];
    const char *at;
    int64_t end;

    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR || rows == ROWS_MAX)
        return;
    (void)snprintf(text, sizeof text, "%.*s", (int)m->len,
                   (const char *)m->payload);
    at = strstr(text, name);
    if (at == NULL)
        return;
    end = strtoll(at + sizeof name - 1, NULL, 10);
    if (end < first_end)
        first_end = end;
    if (end != first_end)
        late[rows++] = now / 1000 - end;
}

static void
take_rows(void)
{
    rd_kafka_message_t *m[BATCH];
    ssize_t n, i;

    while ((n = rd_kafka_consume_batch_queue(out, 0, m, BATCH)) > 0) {
        int64_t now = now_us();

        for (i = 0; i < n; i++) {
            take_row(m[i], now);
            rd_kafka_message_destroy(m[i]);
        }
    }
}

static void
offer_one(rd_kafka_t *rk, const char *topic, int32_t part, uint64_t i,
          int64_t us)
{
    char text[256];
    int n = snprintf(
        text, sizeof text,
        "{\"host\":\"h0123456789\",\"metric_name\":%" PRIu64
        ",\"region\":\"eu-west-1\",\"tenant_id\":%" PRIu64 ",\"ts\":%" PRId64
        ",\"unit\":\"milliseconds\",\"user\":%" PRIu64 ",\"value\":%" PRIu64
        "}",
        i / KEYS % KEYS, i % KEYS, us / 1000, i % 1000000, i % 1000);

    while (rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic),
                             RD_KAFKA_V_PARTITION(part),
                             RD_KAFKA_V_VALUE(text, (size_t)n),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                             RD_KAFKA_V_END) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        (void)rd_kafka_poll(rk, 1);
}

static int
by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static void
offer(rd_kafka_t *rk, char **argv, int32_t parts)
{
    uint64_t rate = strtoull(argv[5], NULL, 10), i = 0, due;
    uint64_t count = rate * strtoull(argv[6], NULL, 10);
    int64_t begin = now_us();

    while (i < count) {
        due = (uint64_t)(now_us() - begin) * rate / 1000000;
        for (; i < due && i < count; i++)
            offer_one(rk, argv[2], (int32_t)(i % (uint64_t)parts), i,
                      begin + (int64_t)(i * 1000000 / rate));
        (void)rd_kafka_poll(rk, 0);
        take_rows();
        (void)poll(NULL, 0, 1);
    }
}

int
main(int argc, char **argv)
{
    rd_kafka_t *producer;
    int32_t parts;

    if (argc != 7)
        return 64;
    parts = atoi(argv[4]);
    if (parts < 1 || parts > PARTS_MAX)
        return 64;
    late = calloc(ROWS_MAX, sizeof *late);
    if (late == NULL)
        return 70;
    watch(start(RD_KAFKA_CONSUMER, argv[1]), argv[3], parts);
    producer = start(RD_KAFKA_PRODUCER, argv[1]);
    offer(producer, argv, parts);
    (void)rd_kafka_flush(producer, 10000);
    qsort(late, rows, sizeof *late, by_value);
    if (rows == 0)
        (void)printf("0 0 0 0\n");
    else
        (void)printf("%zu %" PRId64 " %" PRId64 " %" PRId64 "\n", rows,
                     late[rows / 2], late[rows * 99 / 100], late[rows - 1]);
    (void)fflush(stdout);
    _exit(0);
}
