/*
 * The transactions of rounds against a real broker: exactly_once sinks, the
 * marker, its claim, and who is fenced by whom.
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_round_after_the_start_takes_no_second),
        cmocka_unit_test(a_round_is_visible_when_committed_and_not_before),
        cmocka_unit_test(timeouts_that_do_not_fit_are_refused_with_both_values),
    };

    servers = drive_servers();
    return cmocka_run_group_tests_name("kafka_txn", tests, NULL, NULL);
}
