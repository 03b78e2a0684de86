/*
 * The Kafka source against a real broker. Numbers in comments are the rows
 * of the list of tests worth having in doc/internals/kafka.md.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "drive.h"
#include "kafka/kafka.h"
#include "kt.h"

enum { LONG = 30000 };

static const char *servers;

static void
open_ok(struct drive *d)
{
    int r = drive_open_source(d);

    if (r != 0)
        fail_msg("open: %s (%s)", d->err.msg, d->err.hint);
}

static void
read_ok(struct drive *d, size_t count)
{
    int r = drive_read(d, count, LONG);

    if (r != 0)
        fail_msg("read: %d %s, %zu records", r, d->err.msg, d->count);
}

static void
close_ok(struct drive *d)
{
    assert_true(drive_close(d) < 2000);
}

static void
says(const struct drive *d, const char *text)
{
    if (strstr(d->err.msg, text) == NULL && strstr(d->err.hint, text) == NULL)
        fail_msg("no \"%s\" in: %s (%s)", text, d->err.msg, d->err.hint);
}

/* `count` records "P:0", "P:1", ... in each of `parts` partitions. */
static void
fill(const char *topic, int parts, int count)
{
    rd_kafka_t *rk = kt_producer(servers, NULL, NULL);
    char text[32];
    int p, i;

    for (i = 0; i < count; i++) {
        for (p = 0; p < parts; p++) {
            (void)snprintf(text, sizeof text, "%d:%d", p, i);
            kt_puts(rk, topic, p, text);
        }
    }
    kt_close(&rk);
}

/* Each partition's records are "P:first", "P:first+1", ... without gap. */
static void
assert_in_order(const struct drive *d, int parts, int first, int count)
{
    int next[16], p;
    size_t i;

    for (p = 0; p < parts; p++)
        next[p] = first;
    for (i = 0; i < d->count; i++) {
        char want[32];

        p = d->recs[i].partition;
        (void)snprintf(want, sizeof want, "%d:%d", p, next[p]++);
        assert_string_equal(d->recs[i].val, want);
    }
    for (p = 0; p < parts; p++)
        assert_int_equal(next[p], first + count);
}

static void
bounded(struct drive *d, const char *topic, const char *start)
{
    drive_init(d, servers, 1);
    drive_str(d, "topic", topic);
    if (start != NULL)
        drive_str(d, "start", start);
    drive_bounded(d);
}

static void
tasks_share_partitions_and_read_all_in_order(void **state)
{
    const char *topic = drive_topic("share");
    struct drive d;

    (void)state;
    kt_create(servers, topic, 5, NULL);
    fill(topic, 5, 2000);

    drive_init(&d, servers, 2);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    drive_bounded(&d);
    open_ok(&d);
    read_ok(&d, 0);

    assert_int_equal(d.count, 10000);
    assert_int_equal(d.added, 5);
    assert_int_equal(d.part_ends, 5);
    assert_int_equal(kafka_source_type.lag(d.source), 0);
    assert_in_order(&d, 5, 0, 2000);
    close_ok(&d);
}

static void
records_keep_key_time_headers_and_null(void **state)
{
    const char *topic = drive_topic("kept");
    rd_kafka_t *rk;
    struct drive d;
    rd_kafka_headers_t *h = rd_kafka_headers_new(3);
    struct kt_record a = {.key = "k",
                          .key_len = 1,
                          .val = "{}",
                          .val_len = 2,
                          .ts = -5,
                          .headers = h};
    struct kt_record b = {.key = "", .val = NULL, .ts = 7};
    struct kt_record c = {.val = "", .ts = 8};

    (void)state;
    kt_create(servers, topic, 1, NULL);
    (void)rd_kafka_header_add(h, "n", -1, "1", 1);
    (void)rd_kafka_header_add(h, "n", -1, NULL, 0);
    (void)rd_kafka_header_add(h, "e", -1, "", 0);
    rk = kt_producer(servers, NULL, NULL);
    kt_put(rk, topic, &a);
    kt_put(rk, topic, &b);
    kt_put(rk, topic, &c);
    kt_close(&rk);

    bounded(&d, topic, "earliest");
    drive_str(&d, "key_format", "json");
    open_ok(&d);
    read_ok(&d, 0);

    assert_int_equal(d.count, 3);
    assert_string_equal(d.recs[0].key, "k");
    assert_string_equal(d.recs[0].headers, "n=1;n=<null>;e=;");
    assert_int_equal(d.recs[0].ts, -5);
    assert_int_equal(d.recs[0].kind, REC_TEXT);
    assert_true(d.recs[0].flags & REC_HAS_TS);
    assert_true(d.recs[0].flags & REC_KEY_JSON);
    assert_string_equal(topic_name(d.recs[0].topic), topic);
    assert_int_equal(d.recs[1].kind, REC_TOMBSTONE);
    assert_null(d.recs[1].val);
    assert_non_null(d.recs[1].key);
    assert_int_equal(d.recs[1].key_len, 0);
    assert_null(d.recs[1].headers);
    assert_non_null(d.recs[2].val);
    assert_null(d.recs[2].key);
    assert_int_equal(d.recs[2].offset, 2);
    close_ok(&d);

    bounded(&d, topic, "earliest");
    drive_str(&d, "tombstones", "drop");
    open_ok(&d);
    read_ok(&d, 0);
    assert_int_equal(d.count, 2);
    close_ok(&d);
}

/* Row 10: what the tail of a partition may look like. */
enum tail { CONTROL, ABORTED, OPEN, EMPTY, ONLY_ABORTED };

static rd_kafka_t *
make_tail(const char *topic, enum tail tail)
{
    rd_kafka_t *rk;
    int i;

    kt_create(servers, topic, 1, NULL);
    if (tail == EMPTY)
        return NULL;
    rk = kt_producer(servers, topic, NULL);
    kt_begin(rk);
    for (i = 0; i < 3; i++)
        kt_puts(rk, topic, 0, "x");
    kt_end(rk, tail != ONLY_ABORTED);
    kt_settle(servers, topic, 1);
    if (tail == CONTROL || tail == ONLY_ABORTED)
        return rk;
    kt_begin(rk);
    kt_puts(rk, topic, 0, "y");
    kt_flush(rk);
    if (tail == ABORTED) {
        kt_end(rk, false);
        kt_settle(servers, topic, 1);
    }
    return rk;
}

static void
bounded_read_ends_at_the_last_stable_offset(void **state)
{
    static const size_t want[] = {3, 3, 3, 0, 0};
    enum tail tail;

    (void)state;
    for (tail = CONTROL; tail <= ONLY_ABORTED; tail++) {
        const char *topic = drive_topic("tail");
        rd_kafka_t *rk = make_tail(topic, tail);
        struct drive d;

        bounded(&d, topic, "earliest");
        open_ok(&d);
        read_ok(&d, 0);
        if (d.count != want[tail])
            fail_msg("tail %d: %zu records", (int)tail, d.count);
        assert_int_equal(d.part_ends, 1);
        close_ok(&d);
        if (tail == OPEN)
            kt_end(rk, true);
        if (rk != NULL)
            kt_close(&rk);
    }
}

static void
bounded_read_may_start_on_a_control_record(void **state)
{
    const char *topic = drive_topic("ctl");
    rd_kafka_t *rk = make_tail(topic, ABORTED);
    int64_t at;

    (void)state;
    kt_close(&rk);
    for (at = 0; at <= 6; at++) { /* 0-2 records, 3 marker, 4 aborted, 5 */
        struct drive d;

        bounded(&d, topic, NULL);
        drive_offset(&d, "start", 0, NULL, at);
        open_ok(&d);
        read_ok(&d, 0);
        assert_int_equal(d.count, at < 3 ? 3 - at : 0);
        close_ok(&d);
    }
}

static void
until_idle_sees_the_end_behind_control_records(void **state)
{
    const char *topic = drive_topic("end");
    rd_kafka_t *rk = make_tail(topic, CONTROL);
    struct drive d;
    int i;

    (void)state;
    kt_close(&rk);
    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    open_ok(&d);
    for (i = 0; i < 50 && d.at_end == 0; i++)
        assert_true(drive_read(&d, 0, 200) >= 0);
    assert_int_equal(d.count, 3);
    assert_true(d.at_end > 0);
    assert_int_equal(kafka_source_type.lag(d.source), 0);

    kafka_source_type.stop(d.source);
    read_ok(&d, 0);
    assert_true(d.ended[0]);
    close_ok(&d);
}

/* Rows 8 and 18: aborted records stay hidden, whatever the codec. */
static void
aborted_records_are_never_shown(void **state)
{
    static const char *const codecs[] = {"none", "gzip", "snappy", "lz4",
                                         "zstd"};
    size_t c;

    (void)state;
    srand(18);
    for (c = 0; c < 5; c++) {
        const char *topic = drive_topic("codec");
        char codec[64];
        const char *const extra[] = {codec, NULL};
        int next[2] = {0, 0}, i, k, sum = 0;
        rd_kafka_t *rk;
        struct drive d;

        (void)snprintf(codec, sizeof codec, "compression.codec=%s", codecs[c]);
        kt_create(servers, topic, 2, NULL);
        rk = kt_producer(servers, topic, extra);
        for (i = 0; i < 40; i++) {
            bool commit = rand() % 2 == 0;

            kt_begin(rk);
            for (k = rand() % 40 + 1; k > 0; k--) {
                int p = rand() % 2;
                char text[32];

                (void)snprintf(text, sizeof text, "%d:%d", p,
                               commit ? next[p]++ : -1);
                sum += commit;
                kt_puts(rk, topic, p, text);
            }
            kt_end(rk, commit);
        }
        kt_close(&rk);
        kt_settle(servers, topic, 2);
        bounded(&d, topic, "earliest");
        open_ok(&d);
        read_ok(&d, 0);
        assert_int_equal(d.count, sum);
        next[0] = next[1] = 0;
        for (i = 0; i < sum; i++) {
            char want[32];
            int p = d.recs[i].partition;

            (void)snprintf(want, sizeof want, "%d:%d", p, next[p]++);
            assert_string_equal(d.recs[i].val, want);
        }
        close_ok(&d);
    }
}

static void
fill_times(const char *topic)
{
    rd_kafka_t *rk = kt_producer(servers, NULL, NULL);
    int i;

    kt_create(servers, topic, 1, NULL);
    for (i = 0; i < 10; i++) {
        char text[32];
        struct kt_record r = {.val = text, .ts = 1000 + i * 100};

        (void)snprintf(text, sizeof text, "0:%d", i);
        r.val_len = strlen(text);
        kt_put(rk, topic, &r);
    }
    kt_close(&rk);
}

static void
start_and_stop_by_timestamp_and_offset(void **state)
{
    const char *topic = drive_topic("times");
    struct drive d;

    (void)state;
    fill_times(topic);

    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_table(&d, "start", "timestamp", 1250);
    drive_table(&d, "stop", "timestamp", 1700);
    open_ok(&d);
    read_ok(&d, 0);
    assert_in_order(&d, 1, 3, 4);
    close_ok(&d);

    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_offset(&d, "start", 0, "earliest", 0);
    drive_offset(&d, "stop", 0, NULL, 4);
    open_ok(&d);
    read_ok(&d, 0);
    assert_in_order(&d, 1, 0, 4);
    close_ok(&d);

    bounded(&d, topic, NULL);
    drive_table(&d, "start", "timestamp", 99999);
    open_ok(&d);
    read_ok(&d, 0);
    assert_int_equal(d.count, 0);
    close_ok(&d);
}

static void
start_latest_reads_only_what_comes(void **state)
{
    const char *topic = drive_topic("late");
    rd_kafka_t *rk;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 50);
    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "latest");
    open_ok(&d);
    rk = kt_producer(servers, NULL, NULL);
    kt_puts(rk, topic, 0, "new");
    kt_close(&rk);
    read_ok(&d, 1);
    assert_string_equal(d.recs[0].val, "new");
    assert_int_equal(d.recs[0].offset, 50);
    close_ok(&d);
}

static void
offsets_must_name_every_partition_and_no_other(void **state)
{
    const char *topic = drive_topic("named");
    struct drive d;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    bounded(&d, topic, NULL);
    drive_offset(&d, "start", 0, NULL, 0);
    assert_int_equal(drive_open_source(&d), ERR_CONFIG);
    says(&d, "does not name partition 1");
    close_ok(&d);

    bounded(&d, topic, NULL);
    drive_offset(&d, "start", 0, NULL, 0);
    drive_offset(&d, "start", 1, "latest", 0);
    drive_offset(&d, "start", 2, NULL, 0);
    assert_int_equal(drive_open_source(&d), ERR_CONFIG);
    says(&d, "names partition 2");
    close_ok(&d);
}

static void
committed_positions_are_where_the_next_run_starts(void **state)
{
    const char *topic = drive_topic("commit");
    struct drive d;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    fill(topic, 2, 100);

    bounded(&d, topic, "committed");
    drive_str(&d, "group", topic);
    assert_int_equal(drive_open_source(&d), ERR_CONFIG);
    says(&d, "no committed offset");
    says(&d, "committed-or-earliest");
    close_ok(&d);

    bounded(&d, topic, "committed-or-latest");
    drive_str(&d, "group", topic);
    open_ok(&d);
    read_ok(&d, 0);
    assert_int_equal(d.count, 0);
    close_ok(&d);

    bounded(&d, topic, "committed-or-earliest");
    drive_str(&d, "group", topic);
    open_ok(&d);
    read_ok(&d, 0);
    assert_in_order(&d, 2, 0, 100);
    drive_commit(&d);
    close_ok(&d);

    fill(topic, 2, 10);
    bounded(&d, topic, "committed");
    drive_str(&d, "group", topic);
    open_ok(&d);
    read_ok(&d, 0);
    assert_in_order(&d, 2, 0, 10);
    assert_int_equal(d.recs[0].offset, 100);
    close_ok(&d);
}

static void
put_old(rd_kafka_t *rk, const char *topic, int partition, int count, int64_t ts)
{
    struct kt_record r = {.val = "x", .val_len = 1, .ts = ts};

    r.partition = partition;
    for (; count > 0; count--)
        kt_put(rk, topic, &r);
}

static void
partition_whose_time_stands_still_starves_nobody(void **state)
{
    const char *topic = drive_topic("fair");
    rd_kafka_t *rk = kt_producer(servers, NULL, NULL);
    size_t i, others = 0;
    struct drive d;
    int64_t until;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    put_old(rk, topic, 0, 20000, 1);
    put_old(rk, topic, 1, 1000, 1000000);
    kt_close(&rk);
    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    d.max = 100;
    open_ok(&d);
    until = clock_mono_ms() + 700; /* both queues are full by then */
    while (clock_mono_ms() < until)
        assert_int_equal(kafka_source_type.tick(d.source, &d.err), 0);
    read_ok(&d, 10000);
    for (i = 0; i < d.count; i++)
        others += d.recs[i].partition == 1;
    assert_in_range(others, 150, 1000);
    read_ok(&d, 21000);
    close_ok(&d);
}

/* Row 14. */
static void
new_partition_is_read_from_its_beginning(void **state)
{
    const char *topic = drive_topic("grow");
    rd_kafka_t *rk;
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 10);
    drive_init(&d, servers, 2);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "latest");
    drive_int(&d, "discovery", 200);
    open_ok(&d);
    assert_int_equal(drive_read(&d, 1, 300), 1);

    kt_grow(servers, topic, 3);
    rk = kt_producer(servers, NULL, NULL);
    kt_puts(rk, topic, 1, "1:0");
    kt_puts(rk, topic, 2, "2:0");
    kt_close(&rk);
    read_ok(&d, 2);
    assert_int_equal(d.discovered, 2);
    close_ok(&d);
}

/* Row 12, first part. */
static void
deleted_topic_ends_the_job_within_five_seconds(void **state)
{
    const char *topic = drive_topic("gone");
    struct drive d;
    int64_t start;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    fill(topic, 2, 10);
    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    open_ok(&d);
    read_ok(&d, 20);

    kt_delete(servers, topic);
    start = clock_mono_ms();
    assert_int_equal(drive_read(&d, 0, 10000), ERR_CONFIG);
    says(&d, "was deleted while the job was reading it");
    says(&d, topic);
    assert_true(drive_close(&d) < 3500);
    assert_true(clock_mono_ms() - start < 5000);
}

/* Row 12, second part. A broker forgets a group's offsets with the topic, so
 * the mark is put there by hand: it may have come back with a mirror. */
static void
topic_made_again_is_noticed(void **state)
{
    const char *topic = drive_topic("again");
    struct drive d;
    int r;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 5);
    drive_init(&d, servers, 1); /* made again shorter */
    drive_str(&d, "topic", topic);
    drive_offset(&d, "start", 0, NULL, 20);
    open_ok(&d);
    r = drive_read(&d, 1, 5000);
    if (r != ERR_FAIL)
        fail_msg("%d: %s", r, d.err.msg);
    says(&d, "beyond the end");
    close_ok(&d);

    fill(topic, 1, 50); /* longer: offset 19 holds another record */
    kt_commit(servers, topic, topic, 20,
              "streamlua 1 19 1234567 00000000deadbeef");
    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "group", topic);
    drive_str(&d, "start", "committed");
    assert_int_equal(drive_open_source(&d), ERR_CONFIG);
    says(&d, "is not the one it was");
    close_ok(&d);
}

/* Row 13. */
static void
retention_loss_is_named_and_others_read_on(void **state)
{
    const char *topic = drive_topic("lost");
    struct drive d;
    int r = 0, i;

    (void)state;
    kt_create(servers, topic, 3, NULL);
    fill(topic, 3, 100);
    kt_trim(servers, topic, 1, 60);

    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    for (i = 0; i < 3; i++)
        drive_offset(&d, "start", i, NULL, 10);
    open_ok(&d);
    r = drive_read(&d, 1000, LONG);
    assert_int_equal(r, ERR_FAIL);
    says(&d, "[1]");
    says(&d, "offset 10");
    assert_false(d.err.flags & ERR_RETRIABLE);

    assert_int_equal(drive_read(&d, 180, LONG), 0);
    assert_int_equal(d.count, 180);
    close_ok(&d);
}

static void
missing_topic_is_named_with_the_nearest(void **state)
{
    const char *topic = drive_topic("nearby");
    char wrong[80];
    struct drive d;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    (void)snprintf(wrong, sizeof wrong, "%sx", topic);
    bounded(&d, wrong, "earliest");
    assert_int_equal(drive_open_source(&d), ERR_CONFIG);
    says(&d, "does not exist");
    says(&d, wrong);
    says(&d, "did you mean");
    says(&d, topic);
    assert_string_equal(d.err.where, "job.lua:6");
    close_ok(&d);
}

static void
broker_away_at_start_is_reported_with_address_and_reason(void **state)
{
    struct drive d;
    int64_t start = clock_mono_ms();

    (void)state;
    drive_init(&d, "127.0.0.1:1", 1);
    drive_str(&d, "topic", "t");
    drive_str(&d, "start", "earliest");
    ((struct opt *)(uintptr_t)opt_get(d.cli, "connect_timeout_ms"))->i = 1000;
    assert_int_equal(drive_open_source(&d), ERR_UNAVAILABLE);
    assert_true(clock_mono_ms() - start < 3000);
    says(&d, "127.0.0.1:1");
    says(&d, "Connection refused");
    close_ok(&d);
}

/* Row 16. */
static void
refused_login_names_the_cause_at_once(void **state)
{
    const char *sasl = getenv("STREAMLUA_TEST_BROKER_SASL");
    const char *topic = drive_topic("sasl");
    struct drive d;

    (void)state;
    if (sasl == NULL)
        skip();
    kt_create(servers, topic, 1, NULL);
    fill(topic, 1, 3);

    drive_init(&d, sasl, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    drive_prop(&d, "security.protocol", "sasl_plaintext");
    drive_prop(&d, "sasl.mechanism", "PLAIN");
    drive_prop(&d, "sasl.username", "alice");
    drive_prop(&d, "sasl.password", "secret");
    open_ok(&d);
    read_ok(&d, 3);
    close_ok(&d);

    drive_init(&d, sasl, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    drive_prop(&d, "security.protocol", "sasl_plaintext");
    drive_prop(&d, "sasl.mechanism", "PLAIN");
    drive_prop(&d, "sasl.username", "alice");
    drive_prop(&d, "sasl.password", "wrong");
    assert_int_equal(drive_open_source(&d), ERR_CONFIG);
    says(&d, "Authentication failed");
    close_ok(&d);

    drive_init(&d, sasl, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    drive_prop(&d, "security.protocol", "sasl_plaintext");
    drive_prop(&d, "sasl.mechanism", "SCRAM-SHA-256");
    drive_prop(&d, "sasl.username", "alice");
    drive_prop(&d, "sasl.password", "secret");
    if (rd_kafka_version() < 0x020601ff) {
        assert_int_equal(drive_open_source(&d), ERR_CONFIG);
        says(&d, "2.6.1");
    } else {
        open_ok(&d);
    }
    close_ok(&d);
}

static void
broker_restart_loses_and_repeats_nothing(void **state)
{
    const char *topic = drive_topic("restart");
    struct drive d;

    (void)state;
    if (getenv("STREAMLUA_TEST_BROKER_DIR") == NULL)
        skip();
    kt_create(servers, topic, 2, NULL);
    fill(topic, 2, 100);
    drive_init(&d, servers, 1);
    drive_str(&d, "topic", topic);
    drive_str(&d, "start", "earliest");
    open_ok(&d);
    read_ok(&d, 200);

    assert_true(drive_broker("kill"));
    assert_int_equal(drive_read(&d, 201, 1500), 1);
    assert_true(drive_broker("restart"));
    while (kt_partitions(servers, topic) != 2)
        ;
    fill(topic, 2, 50);
    read_ok(&d, 300);
    assert_int_equal(d.recs[200].offset, 100);
    close_ok(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_share_partitions_and_read_all_in_order),
        cmocka_unit_test(records_keep_key_time_headers_and_null),
        cmocka_unit_test(bounded_read_ends_at_the_last_stable_offset),
        cmocka_unit_test(bounded_read_may_start_on_a_control_record),
        cmocka_unit_test(until_idle_sees_the_end_behind_control_records),
        cmocka_unit_test(aborted_records_are_never_shown),
        cmocka_unit_test(start_and_stop_by_timestamp_and_offset),
        cmocka_unit_test(start_latest_reads_only_what_comes),
        cmocka_unit_test(offsets_must_name_every_partition_and_no_other),
        cmocka_unit_test(committed_positions_are_where_the_next_run_starts),
        cmocka_unit_test(partition_whose_time_stands_still_starves_nobody),
        cmocka_unit_test(new_partition_is_read_from_its_beginning),
        cmocka_unit_test(deleted_topic_ends_the_job_within_five_seconds),
        cmocka_unit_test(topic_made_again_is_noticed),
        cmocka_unit_test(retention_loss_is_named_and_others_read_on),
        cmocka_unit_test(missing_topic_is_named_with_the_nearest),
        cmocka_unit_test(
            broker_away_at_start_is_reported_with_address_and_reason),
        cmocka_unit_test(refused_login_names_the_cause_at_once),
        cmocka_unit_test(broker_restart_loses_and_repeats_nothing),
    };

    servers = drive_servers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
