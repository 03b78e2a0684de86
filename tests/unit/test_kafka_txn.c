/*
 * The transactions of rounds without a broker: the marker's text, and on
 * librdkafka's mock cluster the order of calls and errors of the broker. It
 * neither fences nor hides what is not committed (tests/broker does).
 */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "base/clock.h"
#include "base/fault.h"
#include "drive_txn.h"
#include "kafka/kafka.h"
#include "kafka/txn_impl.h"

enum { LONG = 20000, PRODUCE = 0, INIT_PRODUCER_ID = 22, END_TXN = 26 };

static rd_kafka_t *rk;
static rd_kafka_mock_cluster_t *mock;
static const char *servers;
static int topics_made;

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
    fault_setup(NULL);
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(rk);
    return 0;
}

static void
ok(struct drive_txn *x, int r)
{
    if (r != 0)
        fail_msg("%d %s (%s)", r, x->d.err.msg, x->d.err.hint);
}

/* A job of its own: topic, prefix and marker topic. */
static void
job_init(struct drive_txn *x, uint32_t tasks)
{
    char topic[64], prefix[64], marker[80];

    (void)snprintf(topic, sizeof topic, "out-%d", ++topics_made);
    (void)snprintf(prefix, sizeof prefix, "job-%d", topics_made);
    (void)snprintf(marker, sizeof marker, "%s-marker", prefix);
    (void)rd_kafka_mock_topic_create(mock, topic, 2, 1);
    (void)rd_kafka_mock_topic_create(mock, marker, 1, 1);
    drive_txn_init(x, servers, prefix, topic, tasks);
}

/* -------------------------------------------------------- the marker */

static struct txn_marker
some_marker(void)
{
    struct txn_marker m = {.found = true,
                           .round = 18446744073709551615u,
                           .code = 0x0123456789abcdefu,
                           .owner = "host.example:42 7f3a"};
    size_t i;

    for (i = 0; i < sizeof m.lineage; i++)
        m.lineage[i] = (uint8_t)(i * 17);
    return m;
}

static void
marker_reads_back_as_it_was_written(void **state)
{
    struct txn_marker m = some_marker(), r;
    char text[TXN_MARKER_TEXT_MAX];
    size_t len = txn_marker_text(&m, text, sizeof text);

    (void)state;
    assert_string_equal(text,
                        "streamlua-marker 1 00112233445566778899aabbccddeeff "
                        "18446744073709551615 0123456789abcdef "
                        "host.example:42 7f3a");
    assert_true(txn_marker_read(text, len, &r));
    assert_true(r.found);
    assert_memory_equal(r.lineage, m.lineage, sizeof m.lineage);
    assert_true(r.round == m.round && r.code == m.code);
    assert_string_equal(r.owner, m.owner);

    memset(m.owner, 'x', sizeof m.owner - 1); /* the longest there is */
    m.owner[sizeof m.owner - 1] = '\0';
    len = txn_marker_text(&m, text, sizeof text);
    assert_true(len < sizeof text);
    assert_true(txn_marker_read(text, len, &r));
    assert_string_equal(r.owner, m.owner);
}

static void
foreign_bytes_are_no_marker(void **state)
{
    static const char *const foreign[] = {
        "",
        "hello",
        "streamlua-marker 2 00112233445566778899aabbccddeeff 1 "
        "0123456789abcdef o",
        "streamlua-marker 1 00112233445566778899aabbccddeef 1 "
        "0123456789abcdef o",
        "streamlua-marker 1 00112233445566778899AABBCCDDEEFF 1 "
        "0123456789abcdef o",
        "streamlua-marker 1 00112233445566778899aabbccddeeff -1 "
        "0123456789abcdef o",
        "streamlua-marker 1 00112233445566778899aabbccddeeff 01 "
        "0123456789abcdef o",
        "streamlua-marker 1 00112233445566778899aabbccddeeff "
        "18446744073709551616 0123456789abcdef o",
        "streamlua-marker 1 00112233445566778899aabbccddeeff 1 "
        "0123456789abcde o",
        "streamlua-marker 1 00112233445566778899aabbccddeeff 1",
        "streamlua-marker 1 00112233445566778899aabbccddeeff 1 "
        "0123456789abcdef o\n",
    };
    struct txn_marker m = some_marker(), r = {.round = 5};
    char text[2 * TXN_MARKER_TEXT_MAX];
    size_t len = txn_marker_text(&m, text, sizeof text), i;

    (void)state;
    for (i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (txn_marker_read(foreign[i], strlen(foreign[i]), &r))
            fail_msg("taken for a marker: %s", foreign[i]);
    /* Every beginning of one that ends in front of its owner. */
    for (i = 0; i < len - strlen(m.owner); i++)
        assert_false(txn_marker_read(text, i, &r));
    memset(text + len, 'y', TXN_OWNER_MAX); /* an owner that is too long */
    assert_false(txn_marker_read(text, len + TXN_OWNER_MAX, &r));
    assert_false(txn_marker_read(NULL, 0, &r));
    assert_true(r.round == 5);
}

/* ------------------------------------------------------- order of calls */

static void
rounds_use_the_two_ids_in_turn_and_a_new_producer_each(void **state)
{
    struct drive_txn x;
    int i;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    for (i = 1; i <= 6; i++) {
        struct txn_handle *now = txn_handle(x.txn, x.round);
        struct txn_handle *next = txn_handle(x.txn, x.round + 1);
        char used[64];

        assert_non_null(now);
        assert_non_null(next);
        assert_ptr_not_equal(now, next);
        assert_null(txn_handle(x.txn, x.round + 2));
        assert_int_equal(now->id[strlen(now->id) - 1], '0' + i % 2);
        (void)snprintf(used, sizeof used, "%s", rd_kafka_name(now->client->rk));
        ok(&x, drive_txn_put(&x, 0, 0, "a"));
        ok(&x, drive_txn_round(&x));
        assert_null(txn_handle(x.txn, (uint64_t)i));
        assert_ptr_equal(txn_handle(x.txn, x.round + 1), now);
        assert_string_not_equal(rd_kafka_name(now->client->rk), used);
    }
    drive_txn_fini(&x);
}

/* A rival may have taken one id of two: whose the next round's is, that one
 * can commit it, and nobody else may put the marker back. */
static void
claim_goes_through_the_id_of_the_next_round(void **state)
{
    struct txn_marker m;
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, txn_init(x.txn, &x.d.err));
    m = drive_txn_marker(&x, 4);
    ok(&x, txn_claim(x.txn, &m, &x.d.err));
    assert_int_equal(x.txn->handles[0].ended_ms, 0);
    assert_int_not_equal(x.txn->handles[1].ended_ms, 0);
    drive_txn_fini(&x);
}

static void
marker_of_the_last_round_is_found_with_its_owner(void **state)
{
    struct txn_marker m;
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, txn_look(x.txn, &m, &x.d.err));
    assert_false(m.found);
    ok(&x, drive_txn_start(&x, 4));
    ok(&x, txn_look(x.txn, &m, &x.d.err));
    assert_int_equal(m.round, 4); /* the claim */
    ok(&x, drive_txn_round(&x));
    (void)drive_txn_stop(&x);

    ok(&x, drive_txn_new(&x));
    ok(&x, txn_look(x.txn, &m, &x.d.err));
    assert_true(m.found);
    assert_int_equal(m.round, 5);
    assert_int_equal(m.code, 77);
    assert_string_equal(m.owner, x.owner);
    assert_memory_equal(m.lineage, x.lineage, sizeof m.lineage);
    drive_txn_fini(&x);
}

static void
task_waits_for_the_producer_of_its_round_and_is_woken(void **state)
{
    struct txn_marker m;
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_barrier(&x)); /* 1 is not committed, 2 is writable */
    x.round = 2;
    assert_true(kafka_sink_type.ready(x.d.outs[0]));
    ok(&x, drive_txn_put(&x, 0, 0, "of 2"));
    ok(&x, drive_txn_barrier(&x));
    assert_false(kafka_sink_type.ready(x.d.outs[0])); /* 3 is not */

    x.d.woken = false;
    m = drive_txn_marker(&x, 1);
    ok(&x, txn_commit(x.txn, &m, &x.d.err));
    assert_false(kafka_sink_type.ready(x.d.outs[0]));
    ok(&x, txn_renew(x.txn, 1, &x.d.err));
    assert_true(x.d.woken);
    assert_true(kafka_sink_type.ready(x.d.outs[0]));
    drive_txn_fini(&x);
}

static void
barrier_does_not_wait_for_delivery_but_the_commit_does(void **state)
{
    struct txn_marker m;
    struct drive_txn x;
    int i;

    (void)state;
    job_init(&x, 2);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    for (i = 0; i < 1000; i++)
        ok(&x, drive_txn_put(&x, (uint32_t)i % 2, i % 2, "a"));
    (void)rd_kafka_mock_broker_set_rtt(mock, 1, 300);
    assert_int_equal(txn_open_ms(x.txn) >= 0, 1);
    ok(&x, drive_flush(&x.d, 0)); /* at once */
    ok(&x, drive_txn_barrier(&x));
    m = drive_txn_marker(&x, 1);
    ok(&x, txn_commit(x.txn, &m, &x.d.err));
    (void)rd_kafka_mock_broker_set_rtt(mock, 1, 0);
    assert_int_equal(rd_kafka_outq_len(x.txn->handles[1].client->rk), 0);
    assert_int_equal(txn_open_ms(x.txn), 0);
    drive_txn_fini(&x);
}

/* Two slots and the checkpoint thread, as in a job: slots write on while a
 * round commits. */
enum { SLOTS = 2, ROUNDS = 8, EACH = 300 };

struct slot {
    pthread_t thread;
    struct sink_task *task;
    sem_t woken, given; /* its wake; one a snapshot */
    int failed;
};

static void
wake_slot(void *arg)
{
    (void)sem_post(&((struct slot *)arg)->woken);
}

static int
slot_round(struct slot *s, uint64_t round, struct err *e)
{
    struct rec r = {.ts = 1000, .flags = REC_HAS_TS};
    struct sink_message m = {.val = "x", .val_len = 1, .partition = -1};
    struct buf none;
    int i, rc = 0;

    for (i = 0; rc == 0 && i < EACH; i++) {
        while (!kafka_sink_type.ready(s->task))
            (void)sem_wait(&s->woken);
        rc = kafka_sink_type.write_raw(s->task, &r, &m, e);
    }
    while (rc == 0 && (rc = kafka_sink_type.flush(s->task, e)) == ERR_AGAIN) {
        (void)sem_wait(&s->woken);
        rc = 0;
    }
    buf_init(&none);
    if (rc == 0)
        rc = kafka_sink_type.snapshot(s->task, round, &none, e);
    buf_fini(&none);
    return rc;
}

static void *
slot_main(void *arg)
{
    struct slot *s = arg;
    struct err e;
    uint64_t round;

    for (round = 1; round <= ROUNDS; round++) {
        if (s->failed == 0)
            s->failed = slot_round(s, round, &e);
        (void)sem_post(&s->given);
    }
    return NULL;
}

static void
start_slots(struct drive_txn *x, struct slot *slots)
{
    uint32_t i;

    for (i = 0; i < SLOTS; i++) {
        struct conn_task conf = {
            .subtask = i, .wake = wake_slot, .wake_arg = &slots[i]};

        (void)sem_init(&slots[i].woken, 0, 0);
        (void)sem_init(&slots[i].given, 0, 0);
        slots[i].failed = 0;
        ok(x, kafka_sink_type.task_new(x->d.sink, &conf, &x->d.outs[i],
                                       &x->d.err));
        slots[i].task = x->d.outs[i];
        assert_int_equal(
            pthread_create(&slots[i].thread, NULL, slot_main, &slots[i]), 0);
    }
}

static void
slots_write_on_while_rounds_commit(void **state)
{
    struct slot slots[SLOTS];
    struct txn_marker m;
    struct drive_txn x;
    struct drive in;
    uint64_t round;
    int i;

    (void)state;
    job_init(&x, SLOTS);
    ok(&x, drive_txn_new(&x));
    ok(&x, txn_init(x.txn, &x.d.err));
    m = drive_txn_marker(&x, 0);
    ok(&x, txn_claim(x.txn, &m, &x.d.err));
    ok(&x, kafka_sink_type.open(&x.d.env, &x.d.sink, &x.d.err));
    start_slots(&x, slots); /* before there is a producer */
    ok(&x, txn_start(x.txn, 1, &x.d.err));
    for (round = 1; round <= ROUNDS; round++) {
        for (i = 0; i < SLOTS; i++)
            (void)sem_wait(&slots[i].given);
        m = drive_txn_marker(&x, round);
        ok(&x, txn_commit(x.txn, &m, &x.d.err));
        ok(&x, txn_renew(x.txn, round, &x.d.err));
    }
    for (i = 0; i < SLOTS; i++) {
        (void)pthread_join(slots[i].thread, NULL);
        assert_int_equal(slots[i].failed, 0);
        (void)sem_destroy(&slots[i].woken);
        (void)sem_destroy(&slots[i].given);
    }

    drive_init(&in, servers, 1);
    drive_str(&in, "topic", x.topic);
    drive_str(&in, "start", "earliest");
    drive_bounded(&in);
    assert_int_equal(drive_open_source(&in), 0);
    assert_int_equal(drive_read(&in, 0, LONG), 0);
    assert_int_equal(in.count, SLOTS * ROUNDS * EACH);
    (void)drive_close(&in);
    drive_txn_fini(&x);
}

/* ---------------------------------------------------------------- errors */

static void
retriable_answers_are_asked_again(void **state)
{
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    rd_kafka_mock_push_request_errors(
        mock, INIT_PRODUCER_ID, 2,
        RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS);
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_put(&x, 0, 0, "a"));
    rd_kafka_mock_push_request_errors(
        mock, END_TXN, 2, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS);
    ok(&x, drive_txn_round(&x));
    assert_false(txn_fenced(x.txn));
    drive_txn_fini(&x);
}

static void
timeout_that_the_broker_refuses_is_a_configuration_error(void **state)
{
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    rd_kafka_mock_push_request_errors(
        mock, INIT_PRODUCER_ID, 1,
        RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT);
    assert_int_equal(txn_init(x.txn, &x.d.err), ERR_CONFIG);
    assert_non_null(strstr(x.d.err.hint, "transaction.timeout.ms is 122000"));
    drive_txn_fini(&x);

    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    rd_kafka_mock_push_request_errors(
        mock, INIT_PRODUCER_ID, 1,
        RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_int_equal(txn_init(x.txn, &x.d.err), ERR_CONFIG);
    assert_non_null(strstr(x.d.err.hint, "ACL"));
    drive_txn_fini(&x);
}

static void
sinks_that_share_a_producer_must_have_the_same_properties(void **state)
{
    struct drive_txn x, y;

    (void)state;
    job_init(&x, 1);
    drive_txn_init(&y, servers, x.prefix, x.topic, 1);
    drive_prop(&x.d, "compression.codec", "lz4");
    drive_prop(&y.d, "compression.codec", "lz4");
    ok(&x, drive_txn_new(&x));
    y.ckpt.txn = x.txn;
    ok(&y, drive_open_sink(&y.d));
    drive_txn_fini(&y);

    drive_txn_init(&y, servers, x.prefix, x.topic, 1);
    y.ckpt.txn = x.txn;
    assert_int_equal(drive_open_sink(&y.d), ERR_CONFIG);
    assert_non_null(strstr(y.d.err.msg, "property \"compression.codec\""));
    y.ckpt.txn = NULL;
    drive_txn_fini(&y);
    drive_txn_fini(&x);
}

static void
fenced_commit_is_unknown_and_says_so(void **state)
{
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_put(&x, 0, 0, "a"));
    rd_kafka_mock_push_request_errors(mock, END_TXN, 1,
                                      RD_KAFKA_RESP_ERR_PRODUCER_FENCED);
    assert_int_equal(drive_txn_round(&x), ERR_UNAVAILABLE);
    assert_true(x.d.err.flags & ERR_RETRIABLE);
    assert_true(txn_fenced(x.txn));
    assert_non_null(strstr(x.d.err.msg, "what became of round 1 is not known"));
    assert_non_null(strstr(x.d.err.msg, "timed out or was fenced"));
    drive_txn_fini(&x);
}

static void
message_that_is_refused_for_ever_is_a_configuration_error(void **state)
{
    int64_t until = clock_mono_ms() + LONG;
    struct err e;
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    assert_int_equal(txn_broken(x.txn, &e), 0);
    rd_kafka_mock_push_request_errors(
        mock, PRODUCE, 1, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    ok(&x, drive_txn_put(&x, 0, 1, "a"));
    while (txn_broken(x.txn, &e) == 0 && clock_mono_ms() < until)
        (void)rd_kafka_poll(x.txn->handles[1].client->rk, 10);
    if (txn_broken(x.txn, &e) != ERR_CONFIG)
        fail_msg("%s", e.msg);
    assert_int_equal(drive_txn_round(&x), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "[1]"));
    assert_non_null(strstr(e.hint, "ACL"));
    assert_int_equal(kafka_sink_type.tick(x.d.sink, &e), ERR_CONFIG);
    drive_txn_fini(&x);
}

static void
broker_that_is_away_during_a_commit_is_waited_for(void **state)
{
    struct drive_txn x;

    (void)state;
    job_init(&x, 1);
    ok(&x, drive_txn_new(&x));
    ok(&x, drive_txn_start(&x, 0));
    ok(&x, drive_txn_put(&x, 0, 0, "a"));
    rd_kafka_mock_push_request_errors(
        mock, END_TXN, 3, RD_KAFKA_RESP_ERR__TRANSPORT,
        RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__TRANSPORT);
    ok(&x, drive_txn_round(&x));
    drive_txn_fini(&x);
}

static void
marker_that_another_left_is_found_before_the_next_round(void **state)
{
    struct txn_marker m;
    struct drive_txn a, b;

    (void)state;
    job_init(&a, 1);
    drive_txn_init(&b, servers, a.prefix, a.topic, 1); /* the same, elsewhere */
    (void)snprintf(b.owner, sizeof b.owner, "other:1 x");
    ok(&a, drive_txn_new(&a));
    ok(&a, drive_txn_start(&a, 0));
    ok(&a, drive_txn_barrier(&a));
    m = drive_txn_marker(&a, 1);
    ok(&a, txn_commit(a.txn, &m, &a.d.err));
    ok(&b, drive_txn_new(&b));
    ok(&b, drive_txn_start(&b, 1));
    ok(&b, drive_txn_round(&b)); /* the mock has no control records */

    assert_int_equal(txn_renew(a.txn, 1, &a.d.err), ERR_UNAVAILABLE);
    assert_true(txn_fenced(a.txn));
    assert_non_null(strstr(a.d.err.msg, "says round 2 of other:1 x"));
    drive_txn_fini(&b);
    drive_txn_fini(&a);
}

/* Fault points exist in test mode only. */
#ifdef STREAMLUA_TEST_MODE
static void
each_step_may_fail(void **state)
{
    static const char *const at_start[] = {"txn_init=2",      "txn_begin=1",
                                           "txn_marker=1",    "txn_commit=1",
                                           "txn_committed=1", "txn_claimed=1"};
    static const char *const in_round[] = {"txn_marker=1",    "txn_commit=1",
                                           "txn_committed=1", "txn_renew=1",
                                           "txn_init=1",      "txn_begin=1"};
    struct drive_txn x;
    size_t i;

    (void)state;
    for (i = 0; i < 6; i++) {
        job_init(&x, 1);
        ok(&x, drive_txn_new(&x));
        fault_setup(at_start[i]);
        assert_int_equal(drive_txn_start(&x, 0), ERR_UNAVAILABLE);
        fault_setup(NULL);
        drive_txn_fini(&x);

        job_init(&x, 1);
        ok(&x, drive_txn_new(&x));
        ok(&x, drive_txn_start(&x, 0));
        fault_setup(in_round[i]);
        assert_int_equal(drive_txn_round(&x), ERR_UNAVAILABLE);
        fault_setup(NULL);
        drive_txn_fini(&x);
    }
}
#endif

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marker_reads_back_as_it_was_written),
        cmocka_unit_test(foreign_bytes_are_no_marker),
        cmocka_unit_test(
            rounds_use_the_two_ids_in_turn_and_a_new_producer_each),
        cmocka_unit_test(claim_goes_through_the_id_of_the_next_round),
        cmocka_unit_test(marker_of_the_last_round_is_found_with_its_owner),
        cmocka_unit_test(task_waits_for_the_producer_of_its_round_and_is_woken),
        cmocka_unit_test(
            barrier_does_not_wait_for_delivery_but_the_commit_does),
        cmocka_unit_test(slots_write_on_while_rounds_commit),
        cmocka_unit_test(retriable_answers_are_asked_again),
        cmocka_unit_test(
            timeout_that_the_broker_refuses_is_a_configuration_error),
        cmocka_unit_test(
            sinks_that_share_a_producer_must_have_the_same_properties),
        cmocka_unit_test(fenced_commit_is_unknown_and_says_so),
        cmocka_unit_test(
            message_that_is_refused_for_ever_is_a_configuration_error),
        cmocka_unit_test(broker_that_is_away_during_a_commit_is_waited_for),
        cmocka_unit_test(
            marker_that_another_left_is_found_before_the_next_round),
#ifdef STREAMLUA_TEST_MODE
        cmocka_unit_test(each_step_may_fail),
#endif
    };

    return cmocka_run_group_tests_name("kafka_txn_unit", tests, setup,
                                       teardown);
}
