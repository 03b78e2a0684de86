/*
 * The Kafka sink against a real broker, read back by plain librdkafka.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "drive.h"
#include "kafka/kafka.h"
#include "kt.h"

enum { LONG = 30000, KEY_MAX = 64 };

static const char *servers;

static void
sink_init(struct drive *d, const char *topic, uint32_t parallelism)
{
    drive_init(d, servers, parallelism);
    d->env.step = "out";
    drive_str(d, "topic", topic);
}

static void
open_ok(struct drive *d)
{
    int r = drive_open_sink(d);

    if (r != 0)
        fail_msg("open: %s (%s)", d->err.msg, d->err.hint);
}

static void
flush_ok(struct drive *d)
{
    int r = drive_flush(d, LONG);

    if (r != 0)
        fail_msg("flush: %d %s", r, d->err.msg);
}

static void
says(const struct drive *d, const char *text)
{
    if (strstr(d->err.msg, text) == NULL && strstr(d->err.hint, text) == NULL)
        fail_msg("no \"%s\" in: %s (%s)", text, d->err.msg, d->err.hint);
}

static int
write_str(struct drive *d, uint32_t task, const char *key, const char *val,
          int32_t partition)
{
    struct rec r = {.ts = 0};
    struct sink_message m = {.key = key,
                             .val = val,
                             .key_len = key == NULL ? 0 : (uint32_t)strlen(key),
                             .val_len = val == NULL ? 0 : (uint32_t)strlen(val),
                             .partition = partition};

    return drive_write(d, task, &r, &m);
}

/* What was read back, in order. */
struct got {
    char text[64][256];
    int64_t ts[64];
    int n;
};

static void
see(void *arg, const rd_kafka_message_t *m)
{
    struct got *g = arg;
    rd_kafka_headers_t *h;
    const char *name;
    const void *value;
    size_t size, i;
    char *to;
    int len;

    assert_true(g->n < 64);
    to = g->text[g->n];
    g->ts[g->n++] = rd_kafka_message_timestamp(m, NULL);
    len = snprintf(to, sizeof g->text[0], "%d|%.*s|%.*s", (int)m->partition,
                   m->key == NULL ? 2 : (int)m->key_len,
                   m->key == NULL ? "\\N" : (const char *)m->key,
                   m->payload == NULL ? 2 : (int)m->len,
                   m->payload == NULL ? "\\N" : (const char *)m->payload);
    if (rd_kafka_message_headers(m, &h) != 0)
        return;
    for (i = 0; rd_kafka_header_get_all(h, i, &name, &value, &size) == 0; i++)
        len += snprintf(to + len, sizeof g->text[0] - (size_t)len, "|%s=%.*s",
                        name, value == NULL ? 2 : (int)size,
                        value == NULL ? "\\N" : (const char *)value);
}

static void
message_keeps_key_value_headers_partition_and_time(void **state)
{
    const char *topic = drive_topic("kept");
    struct arena a;
    struct rec_headers *h;
    struct rec r = {.ts = 1234567, .flags = REC_HAS_TS};
    struct sink_message m = {.key = "k",
                             .key_len = 1,
                             .val = "{\"a\":1}",
                             .val_len = 7,
                             .partition = 1};
    struct got g = {.n = 0};
    struct drive d;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    arena_init(&a);
    h = rec_headers_new(&a, 3);
    h->items[0] = (struct rec_header){"n", "1", 1, 1};
    h->items[1] = (struct rec_header){"n", NULL, 1, 0};
    h->items[2] = (struct rec_header){"e", "", 1, 0};
    r.headers = h;
    sink_init(&d, topic, 1);
    open_ok(&d);
    assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    m.val = NULL; /* tombstone */
    m.val_len = 0;
    r.headers = NULL;
    assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    m.key = NULL;
    m.key_len = 0;
    m.val = "";
    assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    flush_ok(&d);
    assert_true(drive_close(&d) < 2000);
    arena_fini(&a);

    assert_int_equal(kt_read(servers, topic, true, see, &g), 3);
    assert_string_equal(g.text[0], "1|k|{\"a\":1}|n=1|n=\\N|e=");
    assert_string_equal(g.text[1], "1|k|\\N");
    assert_string_equal(g.text[2], "1|\\N|");
    assert_int_equal(g.ts[0], 1234567);
}

/* Row 15: timestamps that a broker or the client takes for something else. */
static void
odd_timestamps_are_written_and_never_refused(void **state)
{
    static const int64_t in[] = {0, -1, -5, 1700000000000};
    const char *topic = drive_topic("times");
    int64_t now = clock_wall_ms();
    struct got g = {.n = 0};
    struct drive d;
    size_t i;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    for (i = 0; i < 7; i++) {
        struct rec r = {.ts = i < 4 ? in[i] : now, .flags = REC_HAS_TS};
        struct sink_message m = {.val = "x", .val_len = 1, .partition = 0};

        if (i == 4)
            r.ts = now + 2 * 3600 * 1000;
        if (i == 5)
            r.ts = now + 59 * 60 * 1000;
        if (i == 6)
            r.flags = 0;
        assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    }
    flush_ok(&d);
    (void)drive_close(&d);

    assert_int_equal(kt_read(servers, topic, true, see, &g), 7);
    assert_int_equal(g.ts[0], 1);
    assert_int_equal(g.ts[1], -1);
    assert_int_equal(g.ts[2], -5);
    assert_int_equal(g.ts[3], 1700000000000);
    assert_in_range(g.ts[4], now, now + 60000); /* clamped */
    assert_int_equal(g.ts[5], now + 59 * 60 * 1000);
    assert_in_range(g.ts[6], now, now + 60000);
}

static void
timestamps_are_clamped_to_what_the_topic_allows(void **state)
{
    static const char *const configs[] = {
        "message.timestamp.after.max.ms=86400000", NULL};
    const char *topic = drive_topic("ahead");
    int64_t now = clock_wall_ms();
    struct rec r = {.ts = now + 2 * 3600 * 1000, .flags = REC_HAS_TS};
    struct sink_message m = {.val = "x", .val_len = 1, .partition = 0};
    struct got g = {.n = 0};
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, configs);
    sink_init(&d, topic, 1);
    open_ok(&d);
    assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    flush_ok(&d);
    (void)drive_close(&d);
    assert_int_equal(kt_read(servers, topic, true, see, &g), 1);
    assert_int_equal(g.ts[0], r.ts);
}

/* Row 15: a message beyond the topic's limit costs itself alone. */
static void
message_too_large_is_refused_with_both_sizes(void **state)
{
    const char *topic = drive_topic("large");
    static const char *const configs[] = {"max.message.bytes=200000", NULL};
    char *big = mem_zalloc(1100000);
    struct rec r = {.ts = 0};
    struct sink_message m = {.val = big, .partition = 0};
    struct drive d;
    int64_t low, high;

    (void)state;
    memset(big, 'x', 1100000);
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    m.val_len = 1100000;
    assert_int_equal(drive_write(&d, 0, &r, &m), ERR_RECORD);
    assert_int_equal(d.err.cause, CAUSE_ENCODE);
    says(&d, "1100000");
    says(&d, "1048588");
    m.val_len = 1040000;
    assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    flush_ok(&d);
    (void)drive_close(&d);

    /* A topic with a limit of its own: many small ones still fit a batch. */
    topic = drive_topic("small");
    kt_create(servers, topic, 1, configs);
    sink_init(&d, topic, 1);
    open_ok(&d);
    m.val_len = 200001;
    assert_int_equal(drive_write(&d, 0, &r, &m), ERR_RECORD);
    says(&d, "200000");
    m.val_len = 1000;
    for (low = 0; low < 2000; low++)
        assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    flush_ok(&d);
    (void)drive_close(&d);
    kt_ends(servers, topic, 0, true, &low, &high);
    assert_int_equal(high, 2000);
    free(big);
}

/* Row 17. */
struct java {
    int want[1000], wrong, seen;
};

static void
see_partition(void *arg, const rd_kafka_message_t *m)
{
    struct java *j = arg;
    int i = atoi(m->payload);

    j->seen++;
    if (j->want[i] != m->partition)
        j->wrong++;
}

static int
unhex(const char *s, char *out)
{
    int n = 0;

    for (; s[0] != ' ' && s[0] != '\0'; s += 2) {
        char pair[3] = {s[0], s[1], '\0'};

        out[n++] = (char)strtol(pair, NULL, 16);
    }
    return n;
}

static void
keys_go_where_java_producers_put_them(void **state)
{
    const char *dir = getenv("top_srcdir");
    const char *topic = drive_topic("java");
    struct java *j = mem_zalloc(sizeof *j);
    char path[512], line[256];
    struct drive d;
    FILE *f;
    int i;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/tests/broker/java_partitions.txt",
                   dir == NULL ? "." : dir);
    f = fopen(path, "r");
    if (f == NULL)
        fail_msg("cannot open %s", path);
    kt_create(servers, topic, 12, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    for (i = 0; i < 1000 && fgets(line, sizeof line, f) != NULL; i++) {
        char key[KEY_MAX + 1], val[16];
        struct rec r = {.ts = 0};
        struct sink_message m = {.key = key, .val = val, .partition = -1};

        m.key_len = (uint32_t)unhex(line, key);
        m.val_len = (uint32_t)snprintf(val, sizeof val, "%d\n", i);
        j->want[i] = atoi(strchr(line, ' ') + 1);
        assert_int_equal(drive_write(&d, 0, &r, &m), 0);
    }
    (void)fclose(f);
    assert_int_equal(i, 1000);
    flush_ok(&d);
    (void)drive_close(&d);
    assert_int_equal(kt_read(servers, topic, true, see_partition, j), 1000);
    assert_int_equal(j->wrong, 0);
    free(j);
}

static void
see_order(void *arg, const rd_kafka_message_t *m)
{
    int *next = arg;
    char text[16];

    (void)snprintf(text, sizeof text, "%d", *next);
    assert_int_equal(m->len, strlen(text));
    assert_memory_equal(m->payload, text, m->len);
    (*next)++;
}

static void
full_client_queue_holds_back_and_loses_nothing(void **state)
{
    const char *topic = drive_topic("full");
    struct drive d;
    int i, next = 0;
    char text[16];

    (void)state;
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    drive_prop(&d, "queue.buffering.max.messages", "10");
    open_ok(&d);
    for (i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(write_str(&d, 0, NULL, text, 0), 0);
    }
    for (; i < 1100; i++) { /* without asking whether it is ready */
        struct rec r = {.ts = 0};
        struct sink_message m = {.val = text, .partition = 0};

        m.val_len = (uint32_t)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(kafka_sink_type.write_raw(d.outs[0], &r, &m, &d.err),
                         0);
    }
    flush_ok(&d);
    (void)drive_close(&d);
    assert_int_equal(kt_read(servers, topic, true, see_order, &next), 1100);
}

static void
stalled_broker_makes_the_sink_unready_within_its_bound(void **state)
{
    const char *topic = drive_topic("stall");
    struct drive d;
    int n = 0, next = 0, stalled;
    char text[16];

    (void)state;
    if (getenv("STREAMLUA_TEST_BROKER_DIR") == NULL)
        skip();
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    assert_int_equal(write_str(&d, 0, NULL, "0", 0), 0);
    flush_ok(&d);
    assert_true(drive_signal(SIGSTOP));
    for (n = 1; n < 1000000 && kafka_sink_type.ready(d.outs[0]); n++) {
        (void)snprintf(text, sizeof text, "%d", n);
        assert_int_equal(write_str(&d, 0, NULL, text, 0), 0);
    }
    stalled = drive_flush(&d, 300);
    assert_true(drive_signal(SIGCONT)); /* also for the tests behind it */
    assert_in_range(n, 99000, 101000);
    assert_int_equal(stalled, 1);
    flush_ok(&d);
    assert_true(kafka_sink_type.ready(d.outs[0]));
    (void)drive_close(&d);
    assert_int_equal(kt_read(servers, topic, true, see_order, &next), n);
}

static void
broker_restart_loses_nothing_written(void **state)
{
    const char *topic = drive_topic("outage");
    struct drive d;
    int i, next = 0;
    char text[16];

    (void)state;
    if (getenv("STREAMLUA_TEST_BROKER_DIR") == NULL)
        skip();
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    for (i = 0; i < 2000; i++) {
        if (i == 1000)
            assert_true(drive_broker("kill"));
        (void)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(write_str(&d, 0, NULL, text, 0), 0);
    }
    assert_int_equal(drive_flush(&d, 300), 1);
    assert_int_equal(kafka_sink_type.tick(d.sink, &d.err), 0);
    assert_true(drive_broker("restart"));
    flush_ok(&d);
    (void)drive_close(&d);
    while (kt_partitions(servers, topic) != 1)
        ;
    assert_int_equal(kt_read(servers, topic, true, see_order, &next), 2000);
}

/* A partition function is told how many there are. */
static void
task_knows_the_partitions_of_its_topic(void **state)
{
    const char *topic = drive_topic("count");
    struct drive d;

    (void)state;
    kt_create(servers, topic, 7, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);

    assert_non_null(kafka_sink_type.partitions);
    assert_int_equal(kafka_sink_type.partitions(d.outs[0], 0), 7);

    (void)drive_close(&d);
}

static void
two_tasks_share_a_producer(void **state)
{
    const char *topic = drive_topic("two");
    struct drive d;
    int i;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    sink_init(&d, topic, 2);
    open_ok(&d);
    for (i = 0; i < 1000; i++)
        assert_int_equal(write_str(&d, (uint32_t)i % 2, "k", "v", i % 2), 0);
    flush_ok(&d);
    (void)drive_close(&d);
    assert_int_equal(kt_read(servers, topic, true, NULL, NULL), 1000);
}

/* Row 12 for sinks. */
static void
deleted_topic_is_never_silent(void **state)
{
    const char *topic = drive_topic("gone");
    struct drive d;
    int64_t until;
    int r = 0;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    assert_int_equal(write_str(&d, 0, NULL, "a", 0), 0);
    flush_ok(&d);
    kt_delete(servers, topic);
    until = clock_mono_ms() + 15000;
    while (r == 0 && clock_mono_ms() < until) {
        r = write_str(&d, 0, NULL, "b", 0);
        if (r == 0)
            r = drive_flush(&d, 1000);
        if (r == 1)
            r = 0;
    }
    assert_int_equal(r, ERR_CONFIG);
    says(&d, topic);
    says(&d, "deleted");
    assert_int_equal(kafka_sink_type.tick(d.sink, &d.err), ERR_CONFIG);
    assert_true(drive_close(&d) < 3000);
}

static void
missing_topic_and_partition_are_named(void **state)
{
    const char *topic = drive_topic("some");
    struct drive d;

    (void)state;
    sink_init(&d, topic, 1);
    assert_int_equal(drive_open_sink(&d), ERR_CONFIG);
    says(&d, topic);
    says(&d, "--create");
    (void)drive_close(&d);

    kt_create(servers, topic, 2, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    assert_int_equal(write_str(&d, 0, NULL, "x", 7), ERR_RECORD);
    says(&d, "partition 7");
    assert_int_equal(write_str(&d, 0, NULL, "x", 1), 0);
    flush_ok(&d);
    (void)drive_close(&d);
}

static void
first_message_does_not_wait_for_a_timer(void **state)
{
    const char *topic = drive_topic("cold");
    int64_t start;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    open_ok(&d);
    start = clock_mono_ms();
    assert_int_equal(write_str(&d, 0, NULL, "x", -1), 0);
    flush_ok(&d);
    assert_true(clock_mono_ms() - start < 500);
    (void)drive_close(&d);
}

static void
preflight_finds_topics_and_leaves_no_trace(void **state)
{
    const char *topic = drive_topic("pre");
    struct drive d;
    int64_t low, high;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    sink_init(&d, topic, 1);
    assert_int_equal(kafka_preflight(&d.env, true, &d.err), 0);
    drive_str(&d, "start", "earliest");
    assert_int_equal(kafka_preflight(&d.env, false, &d.err), 0);
    (void)drive_close(&d);
    sink_init(&d, "there-is-none", 1);
    assert_int_equal(kafka_preflight(&d.env, true, &d.err), ERR_CONFIG);
    (void)drive_close(&d);
    kt_ends(servers, topic, 0, true, &low, &high);
    assert_int_equal(high, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_keeps_key_value_headers_partition_and_time),
        cmocka_unit_test(odd_timestamps_are_written_and_never_refused),
        cmocka_unit_test(timestamps_are_clamped_to_what_the_topic_allows),
        cmocka_unit_test(message_too_large_is_refused_with_both_sizes),
        cmocka_unit_test(keys_go_where_java_producers_put_them),
        cmocka_unit_test(full_client_queue_holds_back_and_loses_nothing),
        cmocka_unit_test(
            stalled_broker_makes_the_sink_unready_within_its_bound),
        cmocka_unit_test(broker_restart_loses_nothing_written),
        cmocka_unit_test(task_knows_the_partitions_of_its_topic),
        cmocka_unit_test(two_tasks_share_a_producer),
        cmocka_unit_test(deleted_topic_is_never_silent),
        cmocka_unit_test(missing_topic_and_partition_are_named),
        cmocka_unit_test(first_message_does_not_wait_for_a_timer),
        cmocka_unit_test(preflight_finds_topics_and_leaves_no_trace),
    };

    servers = drive_servers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
