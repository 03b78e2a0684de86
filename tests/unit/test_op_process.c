/*
 * process in its operator: when timers fire, in which order, in what pieces;
 * marks wait for them; what a round keeps of them.
 */
#include "process_rig.h"

/* ---- event timers ---- */

static const char at_n[] =
    "on_record = function(e, ctx) ctx:register_event_timer(e.n) end,\n"
    "on_timer = function(ts, ctx)\n"
    "  ctx:emit { k = ctx:key(), t = ts } end";

static void
timers_fire_in_order_before_their_watermark_goes_on(void **state)
{
    struct rig g;

    (void)state;
    rig_up(&g, at_n);
    put(&g, "b", 1, 30);
    put(&g, "a", 1, 30);
    put(&g, "c", 1, 10);
    put(&g, "a", 1, 30); /* once a key and ts */
    put(&g, "a", 1, 31);
    send(&g);
    expect(&g, "");

    watermark(&g, 9);
    expect(&g, "<9> ");
    watermark(&g, 30);
    expect(&g, "{\"k\":\"c\",\"t\":10} {\"k\":\"a\",\"t\":30} "
               "{\"k\":\"b\",\"t\":30} <30> ");
    watermark(&g, 100);
    expect(&g, "{\"k\":\"a\",\"t\":31} <100> ");
    rig_down(&g);
}

/* The watermark has passed them; it need not move for them. */
static void
timers_of_the_past_fire_behind_their_message(void **state)
{
    struct rig g;

    (void)state;
    rig_up(&g, at_n);
    watermark(&g, 50);
    put(&g, "a", 60, 20);
    put(&g, "b", 60, 50);
    put(&g, "b", 60, 51);
    send(&g);

    assert_true(g.op->pending);
    finish(&g);

    expect(&g, "<50> {\"k\":\"a\",\"t\":20} {\"k\":\"b\",\"t\":50} ");
    rig_down(&g);
}

static void
many_timers_fire_in_pieces_between_which_output_drains(void **state)
{
    struct mark m = {.kind = MARK_WATERMARK, .wm = 1000000};
    uint32_t pieces = 0, i;
    struct rig g;

    (void)state;
    rig_up(&g, at_n);
    for (i = 0; i < 5000; i++)
        put(&g, "a", 1, i);
    send(&g);
    mark(&g, &m);
    while (g.op->pending) {
        g.emits = 0;
        assert_true(g.op->type->resume(g.op, &err) >= 0);
        assert_true(g.emits <= 1);
        pieces += g.emits;
    }
    assert_true(pieces >= 5000 / OP_BATCH_MAX);

    /* Nothing is done for an output that has no room but what was begun. */
    for (i = 0; i < 100; i++)
        put(&g, "a", 1, i);
    send(&g);
    g.full = true;
    buf_clear(&g.log);
    assert_int_equal(g.op->type->resume(g.op, &err), 1);
    expect(&g, "{\"k\":\"a\",\"t\":0} ");
    g.full = false;
    finish(&g);
    rig_down(&g);
}

static void
what_is_registered_in_the_final_firing_is_counted(void **state)
{
    struct rig g;

    (void)state;
    rig_up(&g, "on_record = function(e, ctx)\n"
               "  ctx:register_event_timer(e.n)\n"
               "  ctx:register_processing_timer(ctx:now() + 1000000) end,\n"
               "on_timer = function(ts, ctx) ctx:emit { t = ts }\n"
               "  ctx:register_event_timer(ts + 10) end");
    put(&g, "a", 1, 5);
    put(&g, "b", 1, 8);
    send(&g);
    watermark(&g, 15);
    expect(&g, "{\"t\":5} {\"t\":8} {\"t\":15} <15> ");

    watermark(&g, WM_MAX);
    end(&g, true);

    expect(&g, "{\"t\":18} {\"t\":25} <max> <end> ");
    assert_int_equal(count_get(&g.op->count->timers_unfired), 2);
    assert_int_equal(count_get(&g.op->count->timers_discarded), 2);
    rig_down(&g);
}

static void
a_stop_keeps_processing_timers(void **state)
{
    struct rig g;

    (void)state;
    rig_up(&g, "on_record = function(e, ctx)\n"
               "  ctx:register_processing_timer(ctx:now() + 1000000) end,\n"
               "on_timer = function() end");
    put(&g, "a", 1, 5);
    send(&g);
    end(&g, false);
    assert_int_equal(count_get(&g.op->count->timers_discarded), 0);
    assert_int_equal(count_get(&g.op->count->keys), 1);
    rig_down(&g);
}

static void
an_error_in_a_timer_costs_the_timer(void **state)
{
    struct rig g;

    (void)state;
    rig_up(&g, "on_error = 'skip', state = { n = s.value_state() },\n"
               "on_record = function(e, ctx)\n"
               "  ctx:register_event_timer(10) ctx:register_event_timer(20)\n"
               "  ctx:register_event_timer(30) end,\n"
               "on_timer = function(ts, ctx)\n"
               "  ctx.state.n:set((ctx.state.n:get() or 0) + 1)\n"
               "  ctx:emit { n = ctx.state.n:get() }\n"
               "  ctx:register_event_timer(ts + 1)\n"
               "  if ts ~= 10 then error 'no' end end");
    put(&g, "a", 1, 0);
    send(&g);
    watermark(&g, 30);
    expect(&g, "{\"n\":1} <30> ");
    /* 11 (set by 10), 20 and 30. */
    assert_int_equal(count_get(&g.op->count->dropped[CAUSE_USER_ERROR]), 3);
    rig_down(&g);
}

static void
a_failing_timer_ends_the_job_and_says_where(void **state)
{
    struct mark m = {.kind = MARK_WATERMARK, .wm = 30};
    struct rig g;

    (void)state;
    rig_up(&g, "on_record = function(e, ctx) ctx:register_event_timer(1) end,\n"
               "on_timer = function(ts, ctx) local x = nil + ts end");
    put(&g, "a", 1, 0);
    send(&g);
    mark(&g, &m);
    assert_true(g.op->type->resume(g.op, &err) < 0);
    assert_int_equal(g.failures, 1);
    assert_true(failure.has_record && failure.has_key && !failure.has_value);
    assert_memory_equal(failure.key, "a", 1);
    assert_string_equal(failure.topic, "p");
    assert_int_equal(failure.timestamp, 1);
    assert_string_equal(failure.step, "p");
    assert_string_equal(failure.err.where, "job.lua:6");
    assert_string_equal(failure.err.hint, "");
    rig_down(&g);
}

/* ---- processing timers ---- */

static const char by_clock[] =
    "on_record = function(e, ctx)\n"
    "  ctx:register_processing_timer(e.n) end,\n"
    "on_timer = function(ts, ctx)\n"
    "  ctx:emit { t = ts, clock = ctx:clock() }\n"
    "  if ts == 7 then ctx:register_processing_timer(ts) end end";

static void
processing_timers_fire_by_the_clock_at_a_tick(void **state)
{
    int64_t now = clock_wall_ms(), wait;
    struct rig g;

    (void)state;
    rig_up(&g, by_clock);
    put(&g, "a", 1, now - 5);
    put(&g, "a", 1, 3);
    put(&g, "b", 1, now + 100000);
    send(&g);
    assert_false(g.op->pending);
    watermark(&g, INT64_MAX - 1);
    buf_clear(&g.log);

    wait = tick(&g);
    assert_true(g.op->pending);
    assert_int_equal(wait, 0);
    finish(&g);
    assert_non_null(
        strstr(buf_cstr(&g.log), "{\"clock\":\"processing\",\"t\":3} "));
    assert_int_equal(count_get(&g.op->count->records_out), 2);

    wait = tick(&g);
    assert_false(g.op->pending);
    assert_in_range(wait, 1, 100000);
    rig_down(&g);
}

static void
a_timer_that_renews_itself_leaves_room_for_messages(void **state)
{
    struct rig g;

    (void)state;
    rig_up(&g, by_clock);
    put(&g, "a", 1, 7);
    put(&g, "b", 1, 7);
    send(&g);
    assert_int_equal(tick(&g), 0);
    finish(&g);
    assert_int_equal(count_get(&g.op->count->records_out), 2);
    assert_int_equal(tick(&g), 0);
    finish(&g);
    assert_int_equal(count_get(&g.op->count->records_out), 4);
    rig_down(&g);
}

/* ---- rounds ---- */

static const char kept[] =
    "state = { n = s.value_state(), l = s.list_state() },\n"
    "on_record = function(e, ctx)\n"
    "  ctx.state.n:set((ctx.state.n:get() or 0) + e.n)\n"
    "  ctx.state.l:add(e.n)\n"
    "  ctx:register_event_timer(e.ts + 100)\n"
    "  ctx:register_processing_timer(e.n)\n"
    "  ctx:emit { n = ctx.state.n:get(), l = #ctx.state.l:get(),\n"
    "    w = ctx:watermark() } end,\n"
    "on_timer = function(ts, ctx)\n"
    "  ctx:emit { c = ctx:clock(), t = ts, n = ctx.state.n:get() }\n"
    "  ctx.state.n:clear() end";

static void
a_round_keeps_state_timers_and_the_watermark(void **state)
{
    struct step_blobs blobs = {.step = (char *)(uintptr_t) "p", .count = 1};
    struct restored from = {.round = 1, .steps = &blobs, .step_count = 1};
    struct store_opts o = {.dir = temp_dir(), .create = true};
    struct store *store;
    struct rig g;

    (void)state;
    rig_up(&g, kept);
    op_free(&g.op);
    if (store_open(&o, &store, &err) != 0)
        fail_msg("%s", err.msg);
    g.ops.store = store;
    rig_make(&g);
    watermark(&g, 40);
    put(&g, "a", 50, 4);
    put(&g, "b", 60, 5);
    send(&g);
    watermark(&g, 70);
    barrier(&g, 1);
    write_round(store, 1, g.snap);
    put(&g, "a", 80, 10); /* is not in the round */
    send(&g);
    op_free(&g.op);

    from.max_parallelism = g.plan->max_parallelism;
    blobs.blobs = &g.snap->blob;
    g.ops.restored = &from;
    buf_clear(&g.log);
    rig_make(&g);
    if (g.op->type->restore(g.op, &err) != 0)
        fail_msg("%s", err.msg);
    put(&g, "a", 90, 1);
    send(&g);
    expect(&g, "{\"l\":2,\"n\":5,\"w\":70} ");
    watermark(&g, 160);
    expect(&g, "{\"c\":\"event\",\"n\":5,\"t\":150} "
               "{\"c\":\"event\",\"n\":5,\"t\":160} <160> ");
    (void)tick(&g);
    finish(&g);
    expect(&g, "{\"c\":\"processing\",\"t\":1} "
               "{\"c\":\"processing\",\"t\":4} "
               "{\"c\":\"processing\",\"t\":5} ");
    barrier(&g, 2);
    write_round(store, 2, g.snap);
    rig_down(&g);
    store_close(&store);
    remove_dir(o.dir);
    free((void *)(uintptr_t)o.dir);
}

static void
a_damaged_blob_is_refused_with_the_step(void **state)
{
    struct step_blobs blobs = {.step = (char *)(uintptr_t) "p", .count = 1};
    struct restored from = {.round = 1, .steps = &blobs, .step_count = 1};
    struct store_opts o = {.dir = temp_dir(), .create = true};
    struct store *store;
    struct buf bytes;
    struct rig g;

    (void)state;
    rig_up(&g, kept);
    op_free(&g.op);
    assert_int_equal(store_open(&o, &store, &err), 0);
    buf_init(&bytes);
    buf_adds(&bytes, "\1\1");
    blobs.blobs = &bytes;
    g.ops.restored = &from;
    assert_int_equal(op_process_new(&g.env, g.step, g.job.reader, &g.op, &err),
                     ERR_IO);
    assert_non_null(strstr(err.msg, "'p', subtask 0"));

    g.ops.restored = NULL; /* one that was kept, but for its last byte */
    g.ops.store = store;
    rig_make(&g);
    barrier(&g, 1);
    op_free(&g.op);
    buf_clear(&bytes);
    buf_add(&bytes, g.snap->blob.data, g.snap->blob.len);
    g.ops.restored = &from;
    rig_make(&g);
    op_free(&g.op);
    bytes.len--;
    assert_int_equal(op_process_new(&g.env, g.step, g.job.reader, &g.op, &err),
                     ERR_IO);
    buf_fini(&bytes);
    rig_down(&g);
    store_close(&store);
    remove_dir(o.dir);
    free((void *)(uintptr_t)o.dir);
}

/* Nothing follows the end: all is saved before it goes on. */
static void
the_end_waits_for_its_snapshot(void **state)
{
    struct mark m = {.kind = MARK_END, .final = true};
    struct store_opts o = {.dir = temp_dir(), .create = true};
    struct store *store;
    struct rig g;
    char key[16];
    int i;

    (void)state;
    rig_up(&g, kept);
    op_free(&g.op);
    assert_int_equal(store_open(&o, &store, &err), 0);
    g.ops.store = store;
    rig_make(&g);
    for (i = 0; i < 100; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        put(&g, key, 1, 1);
    }
    send(&g);
    buf_clear(&g.log);
    mark(&g, &m);
    expect(&g, "");
    finish(&g);
    expect(&g, "<end> ");
    assert_non_null(g.snap);
    assert_true(g.snap->round == SNAPSHOT_END);
    assert_int_equal(g.snap->puts, 300); /* value, list, timer of a key */
    rig_down(&g);
    store_close(&store);
    remove_dir(o.dir);
    free((void *)(uintptr_t)o.dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_before_their_watermark_goes_on),
        cmocka_unit_test(timers_of_the_past_fire_behind_their_message),
        cmocka_unit_test(
            many_timers_fire_in_pieces_between_which_output_drains),
        cmocka_unit_test(what_is_registered_in_the_final_firing_is_counted),
        cmocka_unit_test(a_stop_keeps_processing_timers),
        cmocka_unit_test(an_error_in_a_timer_costs_the_timer),
        cmocka_unit_test(a_failing_timer_ends_the_job_and_says_where),
        cmocka_unit_test(processing_timers_fire_by_the_clock_at_a_tick),
        cmocka_unit_test(a_timer_that_renews_itself_leaves_room_for_messages),
        cmocka_unit_test(a_round_keeps_state_timers_and_the_watermark),
        cmocka_unit_test(a_damaged_blob_is_refused_with_the_step),
        cmocka_unit_test(the_end_waits_for_its_snapshot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
