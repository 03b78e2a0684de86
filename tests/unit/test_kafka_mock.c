/*
 * Source and sink on librdkafka's mock cluster: order of calls and errors of
 * the broker. It knows nothing of isolation (tests/broker does).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "base/clock.h"
#include "drive.h"
#include "kafka/kafka.h"

enum { LONG = 20000, PRODUCE = 0, METADATA = 3 };

static rd_kafka_t *rk;
static rd_kafka_mock_cluster_t *mock;
static const char *servers;

static void
on_log(const rd_kafka_t *h, int level, const char *fac, const char *text)
{
    (void)h;
    (void)level;
    (void)fac;
    (void)text;
}

static int
setup(void **state)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[200];

    (void)state;
    rd_kafka_conf_set_log_cb(conf, on_log);
    rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (rk == NULL)
        return -1;
    mock = rd_kafka_mock_cluster_new(rk, 1);
    if (mock == NULL)
        return -1;
    servers = rd_kafka_mock_cluster_bootstraps(mock);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(rk);
    return 0;
}

static void
init(struct drive *d, const char *topic, uint32_t parallelism)
{
    drive_init(d, servers, parallelism);
    drive_str(d, "topic", topic);
}

static void
source_of(struct drive *d, const char *topic, uint32_t parallelism)
{
    init(d, topic, parallelism);
    drive_str(d, "start", "earliest");
    drive_bounded(d);
}

static int
put(struct drive *d, uint32_t task, int32_t partition, const char *val)
{
    struct rec r = {.ts = 1000, .flags = REC_HAS_TS};
    struct sink_message m = {
        .val = val, .val_len = (uint32_t)strlen(val), .partition = partition};

    return drive_write(d, task, &r, &m);
}

static void
what_the_sink_writes_the_source_reads(void **state)
{
    struct drive out, in;
    char text[32];
    int i;
    size_t k;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "pipe", 3, 1);
    init(&out, "pipe", 2);
    assert_int_equal(drive_open_sink(&out), 0);
    for (i = 0; i < 3000; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(put(&out, (uint32_t)i % 2, i % 3, text), 0);
    }
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)drive_close(&out);

    source_of(&in, "pipe", 2);
    in.max = 7;
    assert_int_equal(drive_open_source(&in), 0);
    assert_int_equal(drive_read(&in, 0, LONG), 0);
    assert_int_equal(in.count, 3000);
    assert_int_equal(in.added, 3);
    assert_int_equal(in.part_ends, 3);
    for (k = 0; k < in.count; k++) {
        assert_int_equal(atoi(in.recs[k].val) % 3, in.recs[k].partition);
        assert_int_equal(in.recs[k].ts, 1000);
    }
    (void)drive_close(&in);
}

static void
partitions_go_to_tasks_by_index(void **state)
{
    struct drive d;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "few", 2, 1);
    source_of(&d, "few", 4);
    assert_int_equal(drive_open_source(&d), 0);
    assert_int_equal(drive_read(&d, 0, LONG), 0);
    assert_int_equal(d.added, 2);
    assert_true(d.ended[0] && d.ended[1] && d.ended[2] && d.ended[3]);
    (void)drive_close(&d);
}

static void
stop_ends_every_task_at_once(void **state)
{
    struct drive d;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "stop", 2, 1);
    init(&d, "stop", 2);
    drive_str(&d, "start", "earliest");
    assert_int_equal(drive_open_source(&d), 0);
    kafka_source_type.stop(d.source);
    assert_int_equal(drive_read(&d, 0, LONG), 0);
    assert_true(d.ended[0] && d.ended[1]);
    (void)drive_close(&d);
}

static void
snapshot_holds_what_was_polled(void **state)
{
    struct drive out, d;
    struct buf b;
    int i;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "snap", 1, 1);
    init(&out, "snap", 1);
    assert_int_equal(drive_open_sink(&out), 0);
    for (i = 0; i < 10; i++)
        assert_int_equal(put(&out, 0, 0, "x"), 0);
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)drive_close(&out);

    source_of(&d, "snap", 1);
    d.max = 4;
    assert_int_equal(drive_open_source(&d), 0);
    assert_int_equal(drive_read(&d, 4, LONG), 0);
    assert_int_equal(d.count, 4);
    buf_init(&b);
    assert_int_equal(kafka_source_type.snapshot(d.tasks[0], &b, &d.err), 0);
    /* head, topic length, partition, then the next offset */
    assert_int_equal(b.data[4 + 2 + 4], 4);
    buf_fini(&b);
    (void)drive_close(&d);
}

static void
retriable_answer_is_retried_and_delivered_once(void **state)
{
    struct drive out, in;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "retry", 1, 1);
    init(&out, "retry", 1);
    assert_int_equal(drive_open_sink(&out), 0);
    rd_kafka_mock_push_request_errors(
        mock, PRODUCE, 2, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(put(&out, 0, 0, "x"), 0);
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)drive_close(&out);

    source_of(&in, "retry", 1);
    assert_int_equal(drive_open_source(&in), 0);
    assert_int_equal(drive_read(&in, 0, LONG), 0);
    assert_int_equal(in.count, 1);
    (void)drive_close(&in);
}

static void
failed_delivery_breaks_the_sink_with_its_reason(void **state)
{
    struct drive out;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "denied", 1, 1);
    init(&out, "denied", 1);
    out.env.step = "out";
    assert_int_equal(drive_open_sink(&out), 0);
    rd_kafka_mock_push_request_errors(
        mock, PRODUCE, 1, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(put(&out, 0, 0, "x"), 0);
    assert_int_equal(drive_flush(&out, LONG), ERR_CONFIG);
    assert_non_null(strstr(out.err.msg, "sink out"));
    assert_non_null(strstr(out.err.msg, "denied[0]"));
    assert_non_null(strstr(out.err.hint, "ACL"));
    assert_int_equal(put(&out, 0, 0, "y"), ERR_CONFIG);
    assert_int_equal(kafka_sink_type.tick(out.sink, &out.err), ERR_CONFIG);
    (void)drive_close(&out);
}

static void
delivery_none_counts_failures_and_goes_on(void **state)
{
    struct drive out;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "lossy", 1, 1);
    init(&out, "lossy", 1);
    drive_str(&out, "delivery", "none");
    assert_int_equal(drive_open_sink(&out), 0);
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP);
    assert_int_equal(put(&out, 0, 0, "x"), 0);
    assert_int_equal(drive_flush(&out, LONG), 0);
    if (put(&out, 0, 0, "y") != 0)
        fail_msg("%s", out.err.msg);
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)drive_close(&out);
}

static void
topic_without_rights_is_refused_at_open(void **state)
{
    struct drive d;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "secret", 1, 1);
    rd_kafka_mock_topic_set_error(mock, "secret",
                                  RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    source_of(&d, "secret", 1);
    assert_int_equal(drive_open_source(&d), ERR_CONFIG);
    assert_non_null(strstr(d.err.msg, "no right to read topic \"secret\""));
    assert_string_equal(d.err.where, "job.lua:6");
    (void)drive_close(&d);
    init(&d, "secret", 1);
    assert_int_equal(drive_open_sink(&d), ERR_CONFIG);
    assert_non_null(strstr(d.err.msg, "no right to write topic \"secret\""));
    (void)drive_close(&d);
}

static void
broker_that_comes_late_is_waited_for(void **state)
{
    struct drive d;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "late", 1, 1);
    rd_kafka_mock_push_request_errors(mock, METADATA, 2,
                                      RD_KAFKA_RESP_ERR__TRANSPORT,
                                      RD_KAFKA_RESP_ERR__TRANSPORT);
    source_of(&d, "late", 1);
    assert_int_equal(drive_open_source(&d), 0);
    assert_int_equal(drive_read(&d, 0, LONG), 0);
    (void)drive_close(&d);
}

static void
lost_broker_holds_the_sink_until_it_is_back(void **state)
{
    struct drive out;
    int64_t until = clock_mono_ms() + 2500;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "outage", 1, 1);
    init(&out, "outage", 1);
    assert_int_equal(drive_open_sink(&out), 0);
    assert_int_equal(put(&out, 0, 0, "x"), 0);
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)rd_kafka_mock_broker_set_down(mock, 1);
    assert_int_equal(put(&out, 0, 0, "y"), 0);
    while (clock_mono_ms() < until) {
        assert_int_equal(drive_flush(&out, 100), 1);
        assert_int_equal(kafka_sink_type.tick(out.sink, &out.err), 0);
    }
    (void)rd_kafka_mock_broker_set_up(mock, 1);
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)drive_close(&out);
}

static void
count_wake(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Two tasks, each with its count of wakes, and a client whose queue holds
 * one message: the first task's, which does not go away. */
static void
full_sink(struct drive *out, const char *topic, atomic_int wakes[2])
{
    uint32_t i;

    (void)rd_kafka_mock_topic_create(mock, topic, 1, 1);
    init(out, topic, 2);
    drive_prop(out, "queue.buffering.max.messages", "1");
    drive_prop(out, "compression.codec", "lz4"); /* size is the client's */
    drive_prop(out, "linger.ms", "0");
    assert_int_equal(kafka_sink_type.open(&out->env, &out->sink, &out->err), 0);
    for (i = 0; i < 2; i++) {
        struct conn_task conf = {
            .subtask = i, .wake = count_wake, .wake_arg = &wakes[i]};

        assert_int_equal(kafka_sink_type.task_new(out->sink, &conf,
                                                  &out->outs[i], &out->err),
                         0);
    }
    (void)rd_kafka_mock_broker_set_down(mock, 1);
    assert_int_equal(put(out, 0, 0, "fills the queue"), 0);
}

static int
put_now(struct drive *out, uint32_t task, const char *val, size_t len)
{
    struct rec r = {.ts = 1000, .flags = REC_HAS_TS};
    struct sink_message m = {
        .val = val, .val_len = (uint32_t)len, .partition = 0};

    return kafka_sink_type.write_raw(out->outs[task], &r, &m, &out->err);
}

static void
record_too_large_behind_a_full_queue_fails_alone(void **state)
{
    char *big = calloc(1, 1100000);
    atomic_int wakes[2] = {0, 0};
    struct drive out;

    (void)state;
    assert_non_null(big);
    full_sink(&out, "large", wakes);
    assert_int_equal(put_now(&out, 0, "waits", 5), 0);
    assert_int_equal(put_now(&out, 0, big, 1100000), ERR_RECORD);
    assert_int_equal(out.err.cause, CAUSE_ENCODE);
    (void)rd_kafka_mock_broker_set_up(mock, 1);
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)drive_close(&out);
    free(big);
}

static void
task_that_waits_for_anothers_messages_is_woken_by_their_delivery(void **state)
{
    int64_t until = clock_mono_ms() + LONG;
    atomic_int wakes[2] = {0, 0};
    struct drive out;

    (void)state;
    full_sink(&out, "others", wakes);
    assert_int_equal(put_now(&out, 1, "waits", 5), 0);
    assert_false(kafka_sink_type.ready(out.outs[1]));
    (void)rd_kafka_mock_broker_set_up(mock, 1);
    while (atomic_load(&wakes[1]) == 0 && clock_mono_ms() < until)
        (void)kafka_sink_type.tick(out.sink, &out.err);
    assert_true(atomic_load(&wakes[1]) > 0);
    assert_int_equal(drive_flush(&out, LONG), 0);
    (void)drive_close(&out);
}

static void
closing_with_undelivered_messages_does_not_wait(void **state)
{
    struct drive out;

    (void)state;
    (void)rd_kafka_mock_topic_create(mock, "left", 1, 1);
    init(&out, "left", 1);
    assert_int_equal(drive_open_sink(&out), 0);
    (void)rd_kafka_mock_broker_set_down(mock, 1);
    assert_int_equal(put(&out, 0, 0, "x"), 0);
    assert_true(drive_close(&out) < 1500);
    (void)rd_kafka_mock_broker_set_up(mock, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_sink_writes_the_source_reads),
        cmocka_unit_test(partitions_go_to_tasks_by_index),
        cmocka_unit_test(stop_ends_every_task_at_once),
        cmocka_unit_test(snapshot_holds_what_was_polled),
        cmocka_unit_test(retriable_answer_is_retried_and_delivered_once),
        cmocka_unit_test(failed_delivery_breaks_the_sink_with_its_reason),
        cmocka_unit_test(delivery_none_counts_failures_and_goes_on),
        cmocka_unit_test(topic_without_rights_is_refused_at_open),
        cmocka_unit_test(broker_that_comes_late_is_waited_for),
        cmocka_unit_test(lost_broker_holds_the_sink_until_it_is_back),
        cmocka_unit_test(record_too_large_behind_a_full_queue_fails_alone),
        cmocka_unit_test(
            task_that_waits_for_anothers_messages_is_woken_by_their_delivery),
        cmocka_unit_test(closing_with_undelivered_messages_does_not_wait),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
