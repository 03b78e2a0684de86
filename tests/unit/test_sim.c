/*
 * A job in a box: the real engine behind queues and a virtual clock.
 */
#include "sim_util.h"

#define JOB "local s = require \"streamlua\"\nlocal job = s.job \"j\"\n"
#define SRC "job:source(\"in\", s.stdin { format = \"json\" })"
#define OUT ":sink(\"out\", s.stdout())\nreturn job\n"

static const char map_job[] =
    JOB SRC ":map(function(e) e.v = e.v + 1; return e end)" OUT;

static const char window_job[] = JOB SRC
    ":event_time { field = \"ts\" } :key_by \"k\" :window(s.tumbling \"10s\")"
    ":aggregate { n = s.count(), v = s.sum \"v\" }" OUT;

static void
what_is_pushed_settles_and_comes_out(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, map_job);

    rig_push(&r, "{\"v\":1}");
    rig_push(&r, "{\"v\":5}");

    expect(&r, "out", "{\"v\":2}\n{\"v\":6}\n");
    expect(&r, "out", "");
    rig_down(&r);
}

static void
watermark_fires_windows(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, window_job);
    rig_push(&r, "{\"k\":\"a\",\"v\":1,\"ts\":1000}");
    rig_push(&r, "{\"k\":\"a\",\"v\":2,\"ts\":2000}");
    rig_push(&r, "{\"k\":\"b\",\"v\":3,\"ts\":3000}");
    expect(&r, "out", "");

    ok(sim_advance_watermark(r.sim, 9998, &err));
    expect(&r, "out", "");
    ok(sim_advance_watermark(r.sim, 9999, &err));

    expect(&r, "out",
           "{\"k\":\"a\",\"window_start\":0,\"window_end\":10000,\"n\":2,"
           "\"v\":3}\n"
           "{\"k\":\"b\",\"window_start\":0,\"window_end\":10000,\"n\":1,"
           "\"v\":3}\n");
    rig_down(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_pushed_settles_and_comes_out),
        cmocka_unit_test(watermark_fires_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
