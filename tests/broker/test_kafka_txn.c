/*
 * The transactions of rounds against a real broker: exactly_once sinks, the
 * marker, its claim, and who is fenced by whom.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "drive_txn.h"
#include "kt.h"

static const char *servers;

static void
ok(struct drive_txn *x, int r)
{
    if (r != 0)
        fail_msg("%d %s (%s)", r, x->d.err.msg, x->d.err.hint);
}

static void
says(const struct drive_txn *x, const char *text)
{
    if (strstr(x->d.err.msg, text) == NULL &&
        strstr(x->d.err.hint, text) == NULL)
        fail_msg("no \"%s\" in: %s (%s)", text, x->d.err.msg, x->d.err.hint);
}

static int64_t
visible(const char *topic, int partitions)
{
    kt_settle(servers, topic, partitions);
    return kt_read(servers, topic, true, NULL, NULL);
}

static void
first_round_after_the_start_takes_no_second(void **state)
{
    const char *topic = drive_topic("txn-first");
    struct drive_txn x;
    int64_t start, took;

    (void)state;
    kt_create(servers, topic, 4, NULL);
    drive_txn_init(&x, servers, drive_topic("first"), topic, 2);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    start = clock_mono_ms();
    ok(&x, drive_txn_put(&x, 0, 0, "a"));
    ok(&x, drive_txn_put(&x, 1, 3, "b"));
    ok(&x, drive_txn_round(&x));
    took = clock_mono_ms() - start;
    assert_int_equal(visible(topic, 4), 2);
    if (took >= 500)
        fail_msg("the first round took %d ms", (int)took);
    assert_true(drive_txn_stop(&x) < 2000);
    drive_txn_fini(&x);
}

static void
a_round_is_visible_when_committed_and_not_before(void **state)
{
    const char *topic = drive_topic("txn-visible");
    struct drive_txn x;
    int i;

    (void)state;
    kt_create(servers, topic, 2, NULL);
    drive_txn_init(&x, servers, drive_topic("visible"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    for (i = 1; i <= 5; i++) {
        ok(&x, drive_txn_put(&x, 0, 0, "a"));
        while (kt_read(servers, topic, false, NULL, NULL) < i)
            ; /* it is on its way; the alarm of the run is the limit */
        assert_int_equal(kt_read(servers, topic, true, NULL, NULL), i - 1);
        ok(&x, drive_txn_round(&x));
        assert_int_equal(visible(topic, 2), i);
    }
    drive_txn_fini(&x);
}

static void
timeouts_that_do_not_fit_are_refused_with_both_values(void **state)
{
    const char *topic = drive_topic("txn-timeout");
    struct drive_txn x;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("timeout"), topic, 1);
    x.interval_ms = 400000;
    assert_int_equal(drive_txn_new(&x), ERR_CONFIG);
    says(&x, "transaction.timeout.ms is 920000");
    says(&x, "at most 900000");
    drive_txn_fini(&x);

    drive_txn_init(&x, servers, drive_topic("timeout"), topic, 1);
    x.interval_ms = 10000;
    drive_prop(&x.d, "transaction.timeout.ms", "99999");
    assert_int_equal(drive_txn_new(&x), ERR_CONFIG);
    says(&x, "transaction.timeout.ms is 99999");
    says(&x, "at least 100000");
    drive_txn_fini(&x);
}

/* Row 6 */
static void
transaction_that_outlives_its_timeout_costs_one_recovery(void **state)
{
    const char *topic = drive_topic("txn-late");
    char path[128];
    struct drive_txn x;
    int r;

    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/%s.store", topic);
    (void)unlink(path);
    kt_create(servers, topic, 2, NULL);
    drive_txn_init(&x, servers, drive_topic("late"), topic, 1);
    /* No checkpoint interval allows for so short a timeout. */
    x.interval_ms = -39000;
    drive_prop(&x.d, "transaction.timeout.ms", "3000");
    ok(&x, drive_txn_recover(&x, path, false));
    ok(&x, drive_txn_fill(&x, 2));
    ok(&x, drive_txn_stored_round(&x, path));

    ok(&x, drive_txn_fill(&x, 2));
    while (kt_read(servers, topic, false, NULL, NULL) < 8)
        ;
    kt_settle(servers, topic, 2); /* the broker gave it up */
    assert_true(txn_open_ms(x.txn) >= 3000);
    r = drive_txn_stored_round(&x, path);
    assert_int_equal(r, ERR_UNAVAILABLE);
    assert_true(x.d.err.flags & ERR_RETRIABLE);
    says(&x, "timed out");
    assert_null(strstr(x.d.err.msg, "host:"));
    (void)drive_txn_stop(&x);

    ok(&x, drive_txn_recover(&x, path, true)); /* of nobody else */
    assert_int_equal(x.round, 2);
    ok(&x, drive_txn_fill(&x, 2));
    ok(&x, drive_txn_stored_round(&x, path));
    drive_txn_fini(&x);
    assert_true(drive_txn_exact(servers, topic, 2, 2));
    (void)unlink(path);
}

/* A producer of somebody else in a marker topic. */
static rd_kafka_t *
stranger(const struct drive_txn *x, char marker[100])
{
    (void)snprintf(marker, 100, "%s-marker", x->prefix);
    return kt_producer(servers, marker, NULL);
}

/* A compacted topic takes no record without a key. */
static void
stray(rd_kafka_t *rk, const char *marker, const char *val)
{
    struct kt_record r = {.key = "k", .key_len = 1, .val = val};

    r.val_len = strlen(val);
    kt_put(rk, marker, &r);
}

/* Row 9 */
static void
marker_is_found_behind_aborted_transactions(void **state)
{
    const char *topic = drive_topic("txn-aborted");
    struct txn_marker m;
    struct drive_txn x;
    char marker[100];
    rd_kafka_t *rk;
    int i;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("aborted"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, txn_look(x.txn, &m, &x.d.err));
    assert_false(m.found); /* an empty topic */
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_round(&x));
    (void)drive_txn_stop(&x);

    rk = stranger(&x, marker);
    for (i = 0; i < 200; i++) {
        kt_begin(rk);
        stray(rk, marker, "never seen");
        kt_end(rk, false);
    }
    kt_close(&rk);
    kt_settle(servers, marker, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, txn_look(x.txn, &m, &x.d.err));
    assert_true(m.found);
    assert_int_equal(m.round, 1);
    assert_string_equal(m.owner, x.owner);
    drive_txn_fini(&x);
}

struct ender {
    rd_kafka_t *rk;
    atomic_bool ended;
};

static void *
end_later(void *arg)
{
    struct ender *e = arg;
    int64_t until = clock_mono_ms() + 1500;

    while (clock_mono_ms() < until)
        (void)rd_kafka_poll(e->rk, 50);
    atomic_store(&e->ended, true);
    kt_end(e->rk, false);
    return NULL;
}

static void
open_transaction_of_a_stranger_is_waited_for(void **state)
{
    const char *topic = drive_topic("txn-open");
    struct ender e = {.rk = NULL};
    struct txn_marker m;
    struct drive_txn x;
    char marker[100];
    pthread_t thread;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("open"), topic, 1);
    ok(&x, drive_txn_new(&x));
    e.rk = stranger(&x, marker);
    kt_begin(e.rk);
    stray(e.rk, marker, "open");
    kt_flush(e.rk);
    ok(&x, txn_look(x.txn, &m, &x.d.err)); /* the ids are not ours yet */
    assert_false(m.found);
    ok(&x, txn_init(x.txn, &x.d.err));
    assert_int_equal(pthread_create(&thread, NULL, end_later, &e), 0);
    ok(&x, txn_look(x.txn, &m, &x.d.err));
    assert_true(atomic_load(&e.ended));
    assert_false(m.found);
    (void)pthread_join(thread, NULL);
    kt_close(&e.rk);
    drive_txn_fini(&x);
}

static void
foreign_record_behind_the_marker_is_an_error_that_says_so(void **state)
{
    const char *topic = drive_topic("txn-foreign");
    struct kt_record null = {.key = "marker", .key_len = 6, .partition = 0};
    struct txn_marker m;
    struct drive_txn x;
    char marker[100];
    rd_kafka_t *rk;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("foreign"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    rk = stranger(&x, marker);
    kt_begin(rk);
    stray(rk, marker, "hello\n");
    kt_end(rk, true);
    kt_settle(servers, marker, 1);
    assert_int_equal(txn_look(x.txn, &m, &x.d.err), ERR_IO);
    says(&x, marker);
    says(&x, "no marker of streamlua: \"hello?\"");
    kt_begin(rk);
    kt_put(rk, marker, &null);
    kt_end(rk, true);
    kt_settle(servers, marker, 1);
    assert_int_equal(txn_look(x.txn, &m, &x.d.err), ERR_IO);
    says(&x, "no marker of streamlua: null");
    kt_close(&rk);
    drive_txn_fini(&x);
}

static void
marker_topic_that_is_not_compacted_or_wide_is_refused(void **state)
{
    static const char *const compact[] = {"cleanup.policy=compact", NULL};
    const char *topic = drive_topic("txn-policy");
    struct drive_txn x;
    char marker[100];

    (void)state;
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("policy"), topic, 1);
    (void)snprintf(marker, sizeof marker, "%s-marker", x.prefix);
    kt_create(servers, marker, 1, NULL);
    assert_int_equal(drive_txn_new(&x), ERR_CONFIG);
    says(&x, "cleanup.policy=delete");
    drive_txn_fini(&x);

    drive_txn_init(&x, servers, drive_topic("wide"), topic, 1);
    (void)snprintf(marker, sizeof marker, "%s-marker", x.prefix);
    kt_create(servers, marker, 2, compact);
    assert_int_equal(drive_txn_new(&x), ERR_CONFIG);
    says(&x, "has 2 partitions");
    drive_txn_fini(&x);
}

/* Row 15 */
static void
times(void *arg, const rd_kafka_message_t *m)
{
    int64_t *ts = arg;

    ts[m->offset < 5 ? m->offset : 4] = rd_kafka_message_timestamp(m, NULL);
}

static void
odd_timestamps_are_committed_and_never_refused(void **state)
{
    const char *topic = drive_topic("txn-times");
    int64_t now = clock_wall_ms(), ts[5] = {0};
    int64_t in[] = {0, -1, -5, now + 2 * 3600 * 1000};
    struct drive_txn x;
    int i;

    (void)state;
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("times"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    for (i = 0; i < 4; i++) {
        struct rec r = {.ts = in[i], .flags = REC_HAS_TS};
        struct sink_message m = {.val = "x", .val_len = 1, .partition = 0};

        ok(&x, drive_write(&x.d, 0, &r, &m));
    }
    ok(&x, drive_txn_round(&x));
    assert_int_equal(visible(topic, 1), 4);
    (void)kt_read(servers, topic, true, times, ts);
    assert_int_equal(ts[0], 1);
    assert_int_equal(ts[1], -1);
    assert_int_equal(ts[2], -5);
    assert_in_range(ts[3], now, now + 60000);
    drive_txn_fini(&x);
}

/* Whatever a message is refused for, the round ends with its name. */
static void
refused(struct drive_txn *x, const char *topic, const char *why)
{
    if (drive_txn_round(x) != ERR_CONFIG)
        fail_msg("%s: %s", why, x->d.err.msg);
    says(x, topic);
    says(x, why);
    (void)drive_txn_stop(x);
}

static void
message_that_cannot_be_delivered_is_named_with_its_topic(void **state)
{
    static const char *const small[] = {"max.message.bytes=20000", NULL};
    static const char *const young[] = {"message.timestamp.before.max.ms=1000",
                                        NULL};
    char *noise = mem_alloc(1100000);
    const char *topic = drive_topic("txn-large");
    struct rec r = {.ts = 0};
    struct sink_message m = {.val = noise, .partition = 0};
    struct drive_txn x;
    int i;

    (void)state;
    for (i = 0; i < 1100000; i++)
        noise[i] = (char)rand();
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("large"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    m.val_len = 1100000;
    assert_int_equal(drive_write(&x.d, 0, &r, &m), ERR_RECORD);
    says(&x, "1100000");
    says(&x, "1048588");
    ok(&x, drive_txn_put(&x, 0, 0, "the next one goes on"));
    ok(&x, drive_txn_round(&x));
    assert_int_equal(visible(topic, 1), 1);
    drive_txn_fini(&x);

    /* What only the broker can find: a batch after compression. */
    topic = drive_topic("txn-small");
    kt_create(servers, topic, 1, small);
    drive_txn_init(&x, servers, drive_topic("small"), topic, 1);
    drive_prop(&x.d, "compression.codec", "lz4");
    drive_prop(&x.d, "message.max.bytes", "1000000");
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    m.val_len = 30000;
    m.key = "the key";
    m.key_len = 7;
    ok(&x, drive_write(&x.d, 0, &r, &m));
    refused(&x, topic, "max.message.bytes");
    says(&x, "\"the key\"");
    drive_txn_fini(&x);

    topic = drive_topic("txn-young");
    kt_create(servers, topic, 1, young);
    drive_txn_init(&x, servers, drive_topic("young"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_put(&x, 0, 0, "of 1970"));
    refused(&x, topic, "message.timestamp.before.max.ms");
    drive_txn_fini(&x);

    topic = drive_topic("txn-deleted");
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("deleted"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_put(&x, 0, 0, "a"));
    ok(&x, drive_txn_round(&x));
    kt_delete(servers, topic);
    ok(&x, drive_txn_put(&x, 0, 0, "b"));
    refused(&x, topic, "deleted");
    drive_txn_fini(&x);
    free(noise);
}

static void
two_sinks_share_the_transaction_of_a_round(void **state)
{
    const char *one = drive_topic("txn-one"), *two = drive_topic("txn-two");
    struct drive_txn x, y;

    (void)state;
    kt_create(servers, one, 1, NULL);
    kt_create(servers, two, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("share"), one, 1);
    drive_txn_init(&y, servers, x.prefix, two, 1);
    ok(&x, drive_txn_new(&x));
    y.ckpt.txn = x.txn;
    ok(&y, drive_open_sink(&y.d));
    ok(&x, drive_txn_start(&x, 0));
    y.round = 1;
    ok(&x, drive_txn_put(&x, 0, 0, "a"));
    ok(&y, drive_txn_put(&y, 0, 0, "b"));
    ok(&y, drive_txn_barrier(&y));
    ok(&x, drive_txn_barrier(&x));
    kt_settle(servers, one, 0);
    assert_int_equal(kt_read(servers, one, true, NULL, NULL), 0);
    assert_int_equal(kt_read(servers, two, true, NULL, NULL), 0);
    {
        struct txn_marker m = drive_txn_marker(&x, 1);

        ok(&x, txn_commit(x.txn, &m, &x.d.err));
    }
    assert_int_equal(visible(one, 1), 1);
    assert_int_equal(visible(two, 1), 1);
    drive_txn_fini(&y);
    drive_txn_fini(&x);
}

static void
full_queue_holds_back_and_loses_nothing(void **state)
{
    const char *topic = drive_topic("txn-full");
    char *val = mem_zalloc(5001);
    struct drive_txn x;
    int i;

    (void)state;
    memset(val, 'x', 5000);
    kt_create(servers, topic, 1, NULL);
    drive_txn_init(&x, servers, drive_topic("full"), topic, 1);
    drive_prop(&x.d, "queue.buffering.max.kbytes", "200");
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    for (i = 0; i < 2000; i++)
        ok(&x, drive_txn_put(&x, 0, 0, val));
    ok(&x, drive_txn_round(&x));
    assert_int_equal(visible(topic, 1), 2000);
    drive_txn_fini(&x);
    free(val);
}

static void
broker_restart_holds_the_commit_and_loses_nothing(void **state)
{
    const char *topic = drive_topic("txn-restart");
    struct drive_txn x;

    (void)state;
    if (getenv("STREAMLUA_TEST_BROKER_TOOL") == NULL)
        skip();
    kt_create(servers, topic, 2, NULL);
    drive_txn_init(&x, servers, drive_topic("restart"), topic, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_fill(&x, 2));
    ok(&x, drive_txn_round(&x));
    ok(&x, drive_txn_fill(&x, 2));
    assert_true(drive_broker("kill"));
    assert_true(drive_broker("restart"));
    ok(&x, drive_txn_round(&x));
    ok(&x, drive_txn_fill(&x, 2));
    ok(&x, drive_txn_round(&x));
    drive_txn_fini(&x);
    assert_true(drive_txn_exact(servers, topic, 2, 3));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_round_after_the_start_takes_no_second),
        cmocka_unit_test(a_round_is_visible_when_committed_and_not_before),
        cmocka_unit_test(timeouts_that_do_not_fit_are_refused_with_both_values),
        cmocka_unit_test(
            transaction_that_outlives_its_timeout_costs_one_recovery),
        cmocka_unit_test(marker_is_found_behind_aborted_transactions),
        cmocka_unit_test(open_transaction_of_a_stranger_is_waited_for),
        cmocka_unit_test(
            foreign_record_behind_the_marker_is_an_error_that_says_so),
        cmocka_unit_test(marker_topic_that_is_not_compacted_or_wide_is_refused),
        cmocka_unit_test(odd_timestamps_are_committed_and_never_refused),
        cmocka_unit_test(
            message_that_cannot_be_delivered_is_named_with_its_topic),
        cmocka_unit_test(two_sinks_share_the_transaction_of_a_round),
        cmocka_unit_test(full_queue_holds_back_and_loses_nothing),
        cmocka_unit_test(broker_restart_holds_the_commit_and_loses_nothing),
    };

    servers = drive_servers();
    return cmocka_run_group_tests_name("kafka_txn", tests, NULL, NULL);
}
