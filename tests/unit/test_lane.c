/* Lanes: order across overflow, room, waking, and nothing leaked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/lane.h"

struct ends {
    struct lane lane;
    int consumer_woken, producer_woken;
};

static void
count_wake(void *arg)
{
    ++*(int *)arg;
}

static void
open_lane(struct ends *x)
{
    memset(x, 0, sizeof *x);
    lane_init(&x->lane);
    x->lane.wake_consumer = x->lane.wake_producer = count_wake;
    x->lane.consumer = &x->consumer_woken;
    x->lane.producer = &x->producer_woken;
}

static void
send(struct ends *x, int64_t wm)
{
    struct mark m = {.kind = MARK_WATERMARK, .wm = wm};
    struct err e;

    assert_int_equal(x->lane.out.mark(&x->lane.out, &m, &e), 0);
}

static int64_t
receive(struct ends *x)
{
    struct lane_msg *m = lane_pop(&x->lane);
    int64_t wm;

    if (m == NULL)
        return -1;
    wm = m->mark.wm;
    lane_msg_free(&m);
    return wm;
}

static void
messages_keep_their_order_beyond_the_ring(void **state)
{
    struct ends x;
    int64_t i;

    (void)state;
    open_lane(&x);
    for (i = 0; i < 3 * LANE_SIZE; i++)
        send(&x, i);
    assert_non_null(x.lane.over);
    for (i = 0; i < 3 * LANE_SIZE; i++) {
        int64_t got = receive(&x);

        if (got == -1) {
            (void)lane_pump(&x.lane);
            got = receive(&x);
        }
        assert_int_equal(got, i);
    }
    assert_int_equal(receive(&x), -1);
    assert_true(lane_pump(&x.lane));
    assert_int_not_equal(x.consumer_woken, 0);
    lane_fini(&x.lane);
}

static void
a_sender_without_room_is_woken_when_there_is(void **state)
{
    struct ends x;
    int64_t i;

    (void)state;
    open_lane(&x);
    for (i = 0; i < LANE_READY; i++) {
        assert_true(x.lane.out.ready(&x.lane.out));
        send(&x, i);
    }
    assert_false(x.lane.out.ready(&x.lane.out));
    for (i = 0; x.producer_woken == 0; i++)
        assert_int_equal(receive(&x), i);
    assert_true(x.lane.out.ready(&x.lane.out));
    lane_fini(&x.lane);
}

static void
a_batch_moves_with_its_bytes(void **state)
{
    struct lane_msg *m;
    struct batch b;
    struct ends x;
    struct err e;
    struct rec *r;

    (void)state;
    open_lane(&x);
    batch_init(&b);
    r = batch_add(&b);
    r->val = arena_dup(&b.arena, "{\"a\":1}", 7);
    r->val_len = 7;
    assert_int_equal(x.lane.out.batch(&x.lane.out, &b, &e), 0);
    assert_int_equal(b.n, 0);
    batch_fini(&b); /* the sender's is empty; the bytes are the lane's */
    m = lane_pop(&x.lane);
    assert_non_null(m);
    assert_int_equal(m->batch.n, 1);
    assert_memory_equal(m->batch.recs[0].val, "{\"a\":1}", 7);
    lane_msg_free(&m);
    lane_fini(&x.lane);
}

static void
what_nobody_took_is_freed(void **state)
{
    struct batch b;
    struct ends x;
    struct err e;
    int i;

    (void)state;
    open_lane(&x);
    for (i = 0; i < 2 * LANE_SIZE; i++) {
        batch_init(&b);
        (void)batch_add(&b);
        (void)arena_dup(&b.arena, "bytes", 5);
        assert_int_equal(x.lane.out.batch(&x.lane.out, &b, &e), 0);
    }
    lane_fini(&x.lane); /* a leak shows under the sanitizer */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_their_order_beyond_the_ring),
        cmocka_unit_test(a_sender_without_room_is_woken_when_there_is),
        cmocka_unit_test(a_batch_moves_with_its_bytes),
        cmocka_unit_test(what_nobody_took_is_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
