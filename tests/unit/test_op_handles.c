/*
 * The state of a process step behind a change of its handles: what is given up
 * and what stays, and migrate, before and after the first round with it.
 */
#include "process_rig.h"

#include "plan/fit.h"

struct other {
    struct store_opts o;
    struct store *store;
    struct step_blobs blobs;
    struct restored from;
    struct buf blob, plan; /* of the last complete round */
    struct rig g;
};

static void
complete(struct other *t, uint64_t round)
{
    barrier(&t->g, round);
    write_round(t->store, round, t->g.snap);
    buf_clear(&t->blob);
    buf_add(&t->blob, t->g.snap->blob.data, t->g.snap->blob.len);
    buf_clear(&t->plan);
    plan_state_put(t->g.plan, &t->plan);
    t->from.round = round;
}

/* Begin, or go on from the last complete round, with this text. */
static void
begin(struct other *t, const char *text, size_t cache)
{
    struct plan_fit fit;

    rig_up(&t->g, text);
    op_free(&t->g.op);
    t->g.ops.store = t->store;
    t->g.ops.cache_bytes = cache;
    if (t->from.round != 0) {
        if (plan_fit_check(t->g.plan, t->plan.data, t->plan.len, FIT_ALLOW_LOSS,
                           &fit, &err) != 0)
            fail_msg("%s", err.msg);
        plan_fit_fini(&fit);
        t->from.max_parallelism = t->g.plan->max_parallelism;
        t->g.ops.restored = &t->from;
    }
    rig_make(&t->g);
    if (t->from.round != 0 && t->g.op->type->restore(t->g.op, &err) != 0)
        fail_msg("%s", err.msg);
    t->g.ops.restored = NULL;
    t->g.ops.durable = t->from.round;
}

static void
other_up(struct other *t)
{
    memset(t, 0, sizeof *t);
    t->o = (struct store_opts){.dir = temp_dir(), .create = true};
    buf_init(&t->blob);
    buf_init(&t->plan);
    t->blobs = (struct step_blobs){
        .step = (char *)(uintptr_t) "p", .count = 1, .blobs = &t->blob};
    t->from = (struct restored){.steps = &t->blobs, .step_count = 1};
    if (store_open(&t->o, &t->store, &err) != 0)
        fail_msg("%s", err.msg);
}

static void
other_down(struct other *t)
{
    buf_fini(&t->blob);
    buf_fini(&t->plan);
    store_close(&t->store);
    remove_dir(t->o.dir);
    free((void *)(uintptr_t)t->o.dir);
}

static const char with_all[] =
    "state = { v = s.value_state(), l = s.list_state(), m = s.map_state() },\n"
    "on_record = function(e, ctx)\n"
    "  ctx.state.v:set(e.n) ctx.state.l:add(e.n) ctx.state.m:put('x', e.n)\n"
    "  ctx:register_event_timer(e.ts + 100) end,\n"
    "on_timer = function(ts, ctx) ctx:emit { t = ts } end";
/* l is gone, m is a list. */
static const char with_less[] =
    "state = { v = s.value_state(), m = s.list_state() },\n"
    "on_record = function(e, ctx)\n"
    "  ctx.state.m:add(e.n)\n"
    "  ctx:emit { v = ctx.state.v:get(), m = #ctx.state.m:get() } end,\n"
    "on_timer = function(ts, ctx) ctx:emit { t = ts } end";
static const char with_l_again[] =
    "state = { v = s.value_state(), l = s.list_state() },\n"
    "on_record = function(e, ctx)\n"
    "  ctx:emit { v = ctx.state.v:get(), l = #ctx.state.l:get() } end,\n"
    "on_timer = function(ts, ctx) end";

static void
lose_handles(size_t cache)
{
    struct other t;

    other_up(&t);
    begin(&t, with_all, cache);
    put(&t.g, "a", 50, 4);
    put(&t.g, "a", 60, 5);
    send(&t.g);
    complete(&t, 1);
    rig_down(&t.g);

    begin(&t, with_less, cache);
    put(&t.g, "a", 70, 9);
    send(&t.g);
    expect(&t.g, "{\"m\":1,\"v\":5} ");
    rig_down(&t.g); /* in front of the first round */

    begin(&t, with_less, cache);
    put(&t.g, "a", 80, 9);
    send(&t.g);
    watermark(&t.g, 155);
    expect(&t.g, "{\"m\":1,\"v\":5} {\"t\":150} <155> ");
    complete(&t, 2);
    assert_int_equal(t.g.snap->dels, 3); /* a list, a map, a timer */
    rig_down(&t.g);

    begin(&t, with_less, cache);
    put(&t.g, "a", 90, 9);
    send(&t.g);
    watermark(&t.g, 160);
    expect(&t.g, "{\"m\":2,\"v\":5} {\"t\":160} <160> ");
    complete(&t, 3);
    rig_down(&t.g);

    begin(&t, with_l_again, cache);
    put(&t.g, "a", 170, 9);
    send(&t.g);
    expect(&t.g, "{\"l\":0,\"v\":5} ");
    rig_down(&t.g);
    other_down(&t);
}

static void
what_is_lost_of_a_step_is_its_handle_and_no_more(void **state)
{
    (void)state;
    lose_handles(0);
    lose_handles(100000);
    lose_handles(1);
}

static const char form_0[] =
    "state = { v = s.value_state(), l = s.list_state() },\n"
    "on_record = function(e, ctx) ctx.state.v:set(e.n)\n"
    "  ctx.state.l:add(e.n) end";
static const char form_1[] =
    "state = { v = s.value_state { \n"
    "    migrate = function(x) return { x, 1 } end },\n"
    "  l = s.list_state {\n"
    "    migrate = function(x) return x + 0.5 end } },\n"
    "on_record = function(e, ctx) local v = ctx.state.v:get()\n"
    "  ctx:emit { v = v[1], g = v[2], l = ctx.state.l:get()[1] } end";
static const char form_2[] =
    "state = { v = s.value_state { \n"
    "    migrate = function(x) return { x[1], x[2] + 1 } end },\n"
    "  l = s.list_state() },\n"
    "on_record = function(e, ctx) local v = ctx.state.v:get()\n"
    "  ctx:emit { v = v[1], g = v[2], l = #ctx.state.l:get() } end";

static const char back[] =
    "state = { v = s.value_state { \n"
    "    migrate = function(x) return { #x, 1 } end },\n"
    "  l = s.list_state {\n"
    "    migrate = function(x) return x + 0.5 end } },\n"
    "on_record = function(e, ctx) local v = ctx.state.v:get()\n"
    "  ctx:emit { v = v[1], g = v[2], l = ctx.state.l:get()[1] } end";

/* What a record gives with this text. */
static void
ask(struct other *t, const char *text, const char *want, size_t cache)
{
    begin(t, text, cache);
    put(&t->g, "a", 70, 9);
    send(&t->g);
    expect(&t->g, want);
}

static void
migrate_values(size_t cache)
{
    struct other t;

    other_up(&t);
    begin(&t, form_0, cache);
    put(&t.g, "a", 50, 4);
    send(&t.g);
    complete(&t, 1);
    rig_down(&t.g);

    ask(&t, form_1, "{\"g\":1,\"l\":4.5,\"v\":4} ", cache);
    rig_down(&t.g); /* in front of the first round: again from the old ones */
    ask(&t, form_1, "{\"g\":1,\"l\":4.5,\"v\":4} ", cache);
    complete(&t, 2);
    rig_down(&t.g);
    ask(&t, form_1, "{\"g\":1,\"l\":4.5,\"v\":4} ", cache);
    complete(&t, 3); /* they are in the store in the new form */
    rig_down(&t.g);

    /* v goes on from the form it has, l cannot tell: it is given up. */
    ask(&t, form_2, "{\"g\":2,\"l\":0,\"v\":4} ", cache);
    complete(&t, 4);
    rig_down(&t.g);

    /* Back: migrate of then is called with what is there; l begins again. */
    ask(&t, back, "{\"g\":1,\"v\":2} ", cache);
    rig_down(&t.g);
    other_down(&t);
}

static void
values_pass_through_migrate_once_before_and_after_a_round(void **state)
{
    (void)state;
    migrate_values(0);
    migrate_values(100000);
    migrate_values(1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lost_of_a_step_is_its_handle_and_no_more),
        cmocka_unit_test(
            values_pass_through_migrate_once_before_and_after_a_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
