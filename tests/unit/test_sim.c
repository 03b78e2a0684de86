/*
 * A job in a box: the real engine behind queues and a virtual clock.
 */
#include "sim_util.h"

#include "base/log.h"
#include "testing/sim_impl.h"

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

static const char idle_job[] = JOB
    "job:source(\"in\", s.kafka { topic = \"t\", start = \"earliest\" })"
    ":event_time { field = \"ts\" } :key_by \"k\" :window(s.tumbling \"10s\")"
    ":aggregate { n = s.count() }"
    ":sink(\"out\", s.kafka { topic = \"o\", delivery = \"exactly_once\" })\n"
    "return job\n";

#define ROW(k, from, to, n)                                                    \
    "{\"k\":\"" k "\",\"window_start\":" #from ",\"window_end\":" #to          \
    ",\"n\":" #n "}\n"

static void
idle_partition_holds_no_window(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, idle_job);
    ok(rig_try(&r, "in", 1, "{\"k\":\"b\",\"ts\":500}"));
    ok(rig_try(&r, "in", 0, "{\"k\":\"a\",\"ts\":1000}"));
    ok(rig_try(&r, "in", 0, "{\"k\":\"a\",\"ts\":11000}"));
    expect(&r, "out", "");

    ok(sim_idle(r.sim, "in", 1, &err));

    expect(&r, "out", ROW("a", 0, 10000, 1) ROW("b", 0, 10000, 1));
    rig_down(&r);
}

/* idle_ms is 30 s unless the job says otherwise. */
static void
partition_gets_idle_by_virtual_time(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, idle_job);
    ok(rig_try(&r, "in", 1, "{\"k\":\"b\",\"ts\":500}"));
    ok(sim_advance_time(r.sim, 20000, &err));
    ok(rig_try(&r, "in", 0, "{\"k\":\"a\",\"ts\":11000}"));
    ok(sim_advance_time(r.sim, 9999, &err));
    expect(&r, "out", "");
    ok(sim_crash(r.sim, &err));
    expect(&r, "out", "");

    ok(sim_advance_time(r.sim, 1, &err));

    expect(&r, "out", ROW("b", 0, 10000, 1));
    assert_int_equal(sim_now(r.sim), 30000);
    rig_down(&r);
}

static const char clock_job[] = JOB SRC
    ":key_by \"k\" :window(s.tumbling(\"10s\", { clock = \"processing\" }))"
    ":aggregate { n = s.count() }" OUT;

static void
processing_windows_follow_virtual_time(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, clock_job);
    rig_push(&r, "{\"k\":\"a\"}");
    ok(sim_advance_time(r.sim, 9000, &err));
    rig_push(&r, "{\"k\":\"a\"}");
    ok(sim_crash(r.sim, &err));
    expect(&r, "out", "");

    ok(sim_advance_time(r.sim, 15000, &err));

    expect(&r, "out", ROW("a", 0, 10000, 2));
    rig_down(&r);
}

static const char timer_job[] = JOB SRC
    ":key_by \"k\" :process { name = \"p\","
    " state = { n = s.value_state() },"
    " on_record = function(e, ctx)"
    "   ctx.state.n:set(0) ctx:register_processing_timer(ctx:now() + e.d) end,"
    " on_timer = function(ts, ctx)"
    "   local n = ctx.state.n:get() + 1 ctx.state.n:set(n)"
    "   ctx:emit { k = ctx:key(), n = n, at = ctx:now(), ts = ts }"
    "   if n < 3 then ctx:register_processing_timer(ts + 100) end end }" OUT;

/* Each at its own time, not all at the time that was asked for. */
static void
advancing_time_stops_at_each_timer(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, timer_job);
    rig_push(&r, "{\"k\":\"a\",\"d\":50}");

    ok(sim_advance_time(r.sim, 1000, &err));
    ok(sim_crash(r.sim, &err));

    expect(&r, "out",
           "{\"at\":150,\"k\":\"a\",\"n\":2,\"ts\":150}\n"
           "{\"at\":250,\"k\":\"a\",\"n\":3,\"ts\":250}\n"
           "{\"at\":50,\"k\":\"a\",\"n\":1,\"ts\":50}\n");
    rig_down(&r);
}

static void
end_of_input_fires_what_is_open_and_nothing_follows(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, window_job);
    rig_push(&r, "{\"k\":\"a\",\"v\":1,\"ts\":1000}");
    expect(&r, "out", "");

    ok(sim_end_of_input(r.sim, &err));
    ok(sim_crash(r.sim, &err));

    expect(&r, "out",
           "{\"k\":\"a\",\"window_start\":0,\"window_end\":10000,\"n\":1,"
           "\"v\":1}\n");
    assert_int_equal(rig_try(&r, "in", 0, "{}"), ERR_USAGE);
    assert_string_equal(err.msg, "the job has ended with its input");
    rig_down(&r);
}

static const char keyed_job[] = JOB SRC
    ":filter(function(e) return not s.is_tombstone(e) end)"
    ":event_time { field = \"ts\" }"
    ":map(function(e) if e.op == \"d\" then"
    " return s.tombstone { id = e.id } end return e end)"
    ":sink(\"out\", s.stdout { envelope = true, key = \"id\" })\nreturn job\n";

static void
rows_have_key_time_and_order(void **state)
{
    struct sim_row *rows;
    struct arena a;
    struct box_rig r;
    uint32_t n;

    (void)state;
    arena_init(&a);
    rig_up(&r, keyed_job);
    rig_push(&r, "{\"id\":2,\"ts\":7}");
    rig_push(&r, "{\"id\":1,\"op\":\"d\",\"ts\":9}");
    ok(rig_try(&r, "in", 0, NULL));

    ok(sim_take(r.sim, "out", &a, &rows, &n, &err));

    assert_int_equal(n, 2);
    assert_string_equal(rows[0].json, "{\"id\":2,\"ts\":7}");
    assert_true(rows[0].has_ts && rows[0].has_key && !rows[0].tombstone);
    assert_int_equal(rows[0].ts, 7);
    assert_string_equal(rows[0].key, "2");
    assert_true(rows[1].tombstone);
    assert_string_equal(rows[1].json, "{\"id\":1}");
    assert_string_equal(rows[1].key, "1");
    rig_down(&r);
    arena_fini(&a);
}

static const char late_job[] =
    JOB "local r = " SRC ":event_time { field = \"ts\" } :key_by \"k\""
        ":window(s.tumbling \"10s\", { late_output = \"late\" })"
        ":aggregate({ n = s.count() }, { name = \"agg\" })\n"
        "r:sink(\"out\", s.stdout())\n"
        "r:side_output(\"late\"):sink(\"late\", s.stdout())\nreturn job\n";

static int64_t
counter(struct box_rig *r, const char *step, const char *name)
{
    int64_t n = -1;

    ok(sim_counter(r->sim, step, name, &n, &err));
    return n;
}

static void
counters_are_those_of_the_summary_across_a_crash(void **state)
{
    struct box_rig r;
    int64_t n;

    (void)state;
    rig_up(&r, late_job);
    rig_push(&r, "{\"k\":\"a\",\"ts\":1000}");
    rig_push(&r, "{\"k\":\"a\",\"ts\":11000}");
    rig_push(&r, "{\"k\":\"a\",\"ts\":2000}");
    ok(sim_crash(r.sim, &err));

    assert_int_equal(counter(&r, "agg", "late"), 1);
    assert_int_equal(counter(&r, "in", "records_in"), 3);
    assert_int_equal(counter(&r, "agg", "dropped.null_key"), 0);
    ok(sim_restart(r.sim, 0, &err));
    assert_int_equal(counter(&r, "agg", "late"), 1);
    expect(&r, "late", "{\"k\":\"a\",\"ts\":2000}\n");
    assert_int_equal(sim_counter(r.sim, "x", "late", &n, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "it has: in, "));
    assert_int_equal(sim_counter(r.sim, "agg", "x", &n, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "late_windows"));
    rig_down(&r);
}

static void
push_some(struct box_rig *r, bool crash)
{
    char json[96];
    int i;

    for (i = 0; i < 40; i++) {
        (void)snprintf(json, sizeof json, "{\"k\":\"%c\",\"v\":%d,\"ts\":%d}",
                       'a' + i % 5, i, i * 700);
        ok(rig_try(r, "in", i % 3, json));
        if (crash)
            ok(sim_crash(r->sim, &err));
        if (i == 20)
            ok(sim_restart(r->sim, crash ? 3 : 0, &err));
    }
    ok(sim_end_of_input(r->sim, &err));
}

static char *
outcome(uint64_t seed, enum sim_strategy strategy, bool crash)
{
    struct box_rig r;
    char *lines;

    rig_file(&r, window_job);
    r.conf.seed = seed;
    r.conf.strategy = strategy;
    ok(sim_new(&r.conf, &r.sim, &err));
    push_some(&r, crash);
    (void)rig_take(&r, "out");
    lines = r.lines;
    r.lines = NULL;
    rig_down(&r);
    return lines;
}

static void
same_rows(char *a, char *b)
{
    assert_string_equal(a, b);
    free(b);
}

static void
seeds_strategies_and_crashes_change_no_row(void **state)
{
    char *rows = outcome(1, SIM_AS_PLANNED, false);

    (void)state;
    assert_non_null(strstr(rows, "\"window_end\":30000"));
    same_rows(rows, outcome(2, SIM_AS_PLANNED, false));
    same_rows(rows, outcome(3, SIM_ONE_PHASE, false));
    same_rows(rows, outcome(4, SIM_TWO_PHASE, false));
    same_rows(rows, outcome(5, SIM_AS_PLANNED, true));
    same_rows(rows, outcome(6, SIM_TWO_PHASE, true));
    free(rows);
}

static const char error_job[] = JOB SRC
    ":map(function(e)\nif e.bad then error(\"no\") end return e end)" OUT;

static void
error_of_user_code_ends_the_job_until_restart(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, error_job);
    rig_push(&r, "{\"v\":1}");
    expect(&r, "out", "{\"v\":1}\n");

    assert_int_equal(rig_try(&r, "in", 0, "{\"bad\":true}"), ERR_RECORD);

    assert_int_equal(err.cause, CAUSE_USER_ERROR);
    assert_non_null(strstr(err.where, ".lua:4"));
    assert_non_null(strstr(err.trace, ".lua:4"));
    err_clear(&err);
    assert_int_equal(rig_try(&r, "in", 0, "{\"v\":2}"), ERR_RECORD);
    assert_int_equal(err.cause, CAUSE_USER_ERROR);
    assert_int_equal(sim_crash(r.sim, &err), ERR_RECORD);
    expect(&r, "out", "");
    /* What fails once fails again: it is read again. */
    assert_int_equal(sim_restart(r.sim, 0, &err), ERR_RECORD);
    assert_int_equal(err.cause, CAUSE_USER_ERROR);
    rig_down(&r);
}

static const char quarantine_job[] =
    "local s = require \"streamlua\"\n"
    "local job = s.job(\"j\", { on_error = \"quarantine\","
    " quarantine = s.file { path = \"q\" } })\n" SRC
    ":map(function(e) return { v = e.v + 1 } end)" OUT;

static void
what_fails_is_in_the_quarantine(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, quarantine_job);
    rig_push(&r, "{\"v\":1}");
    rig_push(&r, "no json");

    expect(&r, "out", "{\"v\":2}\n");
    assert_non_null(strstr(rig_take(&r, "quarantine"), "no json"));
    assert_int_equal(counter(&r, "in", "quarantined.decode"), 1);
    rig_down(&r);
}

static const char endless_job[] =
    "local s = require \"streamlua\"\n"
    "local job = s.job(\"j\", { lua = { call_timeout = \"100ms\" } })\n" SRC
    ":map(function(e) while true do end return e end)" OUT;

static void
endless_call_is_stopped_by_real_time(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, endless_job);

    assert_int_equal(rig_try(&r, "in", 0, "{}"), ERR_RECORD);

    assert_non_null(strstr(err.msg, "call_timeout"));
    rig_down(&r);
}

static void
unknown_names_are_refused_with_those_there_are(void **state)
{
    struct sim_row *rows;
    struct arena a;
    struct box_rig r;
    uint32_t n;

    (void)state;
    arena_init(&a);
    rig_up(&r, late_job);

    assert_int_equal(rig_try(&r, "inn", 0, "{}"), ERR_USAGE);
    assert_string_equal(err.msg, "the job has no source \"inn\"; it has: in");
    assert_int_equal(sim_take(r.sim, "x", &a, &rows, &n, &err), ERR_USAGE);
    assert_string_equal(err.msg,
                        "the job has no sink \"x\"; it has: out, late");
    assert_string_equal(sim_source_format(r.sim, "in"), "json");
    assert_null(sim_sink_format(r.sim, "in"));
    assert_int_equal(rig_try(&r, "in", -1, "{}"), ERR_USAGE);
    rig_down(&r);
    arena_fini(&a);
}

static void
job_that_does_not_load_is_refused(void **state)
{
    struct box_rig r;

    (void)state;
    rig_file(&r, "return 1 +\n");
    assert_int_equal(sim_new(&r.conf, &r.sim, &err), ERR_JOBFILE);
    rig_down(&r);
}

static const char reload_job[] = JOB SRC
    ":key_by \"k\" :process { name = \"p\", state = { n = s.value_state() },"
    " on_record = function(e, ctx)"
    "   local n = (ctx.state.n:get() or 0) + 1 ctx.state.n:set(n)"
    "   ctx:emit { k = e.k, n = n } end }" OUT;

static const char reloaded_job[] = JOB SRC
    ":map(function(e) return e end)"
    ":key_by \"k\" :process { name = \"p\", state = { n = s.value_state() },"
    " on_record = function(e, ctx)"
    "   local n = (ctx.state.n:get() or 0) + 10 ctx.state.n:set(n)"
    "   ctx:emit { k = e.k, n = n } end }"
    ":sink(\"more\", s.stdout())\nreturn job\n";

static void
reload_keeps_state_and_runs_the_new_code(void **state)
{
    struct box_rig r, other;

    (void)state;
    rig_file(&other, reloaded_job);
    rig_up(&r, reload_job);
    rig_push(&r, "{\"k\":1}");
    rig_push(&r, "{\"k\":1}");

    ok(sim_reload(r.sim, other.file, &err));
    rig_push(&r, "{\"k\":1}");
    ok(sim_crash(r.sim, &err));
    rig_push(&r, "{\"k\":1}");

    expect(&r, "more", "{\"k\":1,\"n\":12}\n{\"k\":1,\"n\":22}\n");
    assert_null(sim_sink_format(r.sim, "out"));
    assert_int_equal(counter(&r, "p", "records_in"), 4);
    rig_down(&r);
    rig_down(&other);
}

static void
refused_reload_leaves_the_old_code(void **state)
{
    struct box_rig r, broken, wrong;

    (void)state;
    rig_file(&broken, "return 1 +\n");
    rig_file(&wrong, JOB SRC ":key_by { \"k\", \"l\" } :process { name = \"p\","
                             " state = { n = s.value_state() },"
                             " on_record = function(e, ctx) end }" OUT);
    rig_up(&r, reload_job);
    rig_push(&r, "{\"k\":1}");

    assert_int_equal(sim_reload(r.sim, broken.file, &err), ERR_JOBFILE);
    assert_non_null(strstr(err.where, ".lua:2"));
    assert_int_equal(sim_reload(r.sim, wrong.file, &err), ERR_JOBFILE);
    assert_non_null(strstr(err.msg, "key"));
    rig_push(&r, "{\"k\":1}");

    expect(&r, "out", "{\"k\":1,\"n\":1}\n{\"k\":1,\"n\":2}\n");
    rig_down(&r);
    rig_down(&broken);
    rig_down(&wrong);
}

static void
restart_changes_how_wide_the_job_is(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, reload_job);
    assert_int_equal(box_job(r.sim->box)->plan->parallelism, 2);
    rig_push(&r, "{\"k\":1}");

    ok(sim_restart(r.sim, 3, &err));
    rig_push(&r, "{\"k\":1}");

    assert_int_equal(box_job(r.sim->box)->plan->parallelism, 3);
    expect(&r, "out", "{\"k\":1,\"n\":1}\n{\"k\":1,\"n\":2}\n");
    rig_down(&r);
}

static const char *
look_state(struct box_rig *r, const char *step, const char *key,
           const int64_t *start)
{
    struct buf b;

    buf_init(&b);
    ok(sim_state(r->sim, step, key, start, &b, &err));
    free(r->lines);
    r->lines = strdup(buf_cstr(&b));
    buf_fini(&b);
    return r->lines;
}

static void
state_is_shown_as_the_verb_shows_it(void **state)
{
    const int64_t second = 10000;
    struct box_rig r;
    struct buf b;

    (void)state;
    buf_init(&b);
    rig_up(&r, late_job);
    rig_push(&r, "{\"k\":\"a\",\"ts\":1000}");
    rig_push(&r, "{\"k\":\"a\",\"ts\":9000}");
    assert_string_equal(look_state(&r, "agg", "\"a\"", NULL),
                        "{\"step\":\"agg\",\"key\":{\"k\":\"a\"},"
                        "\"window_start\":0,\"window_end\":10000,"
                        "\"value\":{\"n\":2}}\n");
    rig_push(&r, "{\"k\":\"a\",\"ts\":11000}");
    assert_string_equal(look_state(&r, "agg", "{\"k\":\"a\"}", &second),
                        "{\"step\":\"agg\",\"key\":{\"k\":\"a\"},"
                        "\"window_start\":10000,\"window_end\":20000,"
                        "\"value\":{\"n\":1}}\n");
    assert_string_equal(look_state(&r, "agg", "\"b\"", NULL), "");
    assert_int_equal(sim_state(r.sim, "in", "1", NULL, &b, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "those that do: agg"));
    assert_int_equal(sim_state(r.sim, "agg", "{", NULL, &b, &err), ERR_USAGE);
    rig_down(&r);
    buf_fini(&b);
}

static void
state_is_asked_for_before_anything_came(void **state)
{
    struct box_rig r;
    struct buf b;

    (void)state;
    buf_init(&b);
    rig_up(&r, late_job);
    assert_string_equal(look_state(&r, "agg", "\"a\"", NULL), "");
    assert_int_equal(sim_state(r.sim, "in", "1", NULL, &b, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "those that do: agg"));
    rig_down(&r);
    buf_fini(&b);
}

static void
state_of_functions_and_timers_is_shown(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, timer_job);
    rig_push(&r, "{\"k\":\"a\",\"d\":50}");

    assert_string_equal(look_state(&r, "p", "\"a\"", NULL),
                        "{\"step\":\"p\",\"key\":{\"k\":\"a\"},\"state\":\"n\","
                        "\"value\":0}\n"
                        "{\"step\":\"p\",\"key\":{\"k\":\"a\"},\"timer\":"
                        "\"processing\",\"ts\":50}\n");
    rig_down(&r);
}

struct lines {
    const char *file;
    int count[16];
};

static void
note_line(void *arg, const char *path, int line)
{
    struct lines *l = arg;

    assert_string_equal(path, l->file);
    if (line < 16)
        l->count[line]++;
}

static void
lines_that_run_are_told(void **state)
{
    struct lines l = {0};
    struct box_rig r;

    (void)state;
    rig_file(&r, JOB SRC ":map(function(e)\nif e.v then\ne.v = 1\nend\n"
                         "return e end)" OUT);
    l.file = r.file;
    r.conf.line = note_line;
    r.conf.line_arg = &l;
    ok(sim_new(&r.conf, &r.sim, &err));

    rig_push(&r, "{\"w\":1}");
    rig_push(&r, "{\"w\":2}");

    assert_true(l.count[1] > 0 && l.count[2] > 0);
    assert_int_equal(l.count[4], 2);
    assert_int_equal(l.count[5], 0);
    assert_int_equal(l.count[6], 0);
    rig_down(&r);
}

static const char spinning_job[] = JOB SRC
    ":key_by \"k\" :process { name = \"p\","
    " on_record = function(e, ctx) ctx:register_processing_timer(0) end,"
    " on_timer = function(ts, ctx) ctx:register_processing_timer(0) end }" OUT;

static void
job_that_never_rests_is_an_error(void **state)
{
    struct box_rig r;

    (void)state;
    rig_up(&r, spinning_job);

    assert_int_equal(rig_try(&r, "in", 0, "{\"k\":1}"), ERR_FAIL);

    assert_string_equal(err.msg, "the job does not come to rest");
    rig_down(&r);
}

/* A partition that wakes begins at the watermark, whatever comes first. */
static void
replay_repeats_calls_in_their_order(void **state)
{
    struct box_rig r;
    uint64_t seed;

    (void)state;
    for (seed = 1; seed <= 8; seed++) {
        rig_file(&r, idle_job);
        r.conf.seed = seed;
        ok(sim_new(&r.conf, &r.sim, &err));
        ok(rig_try(&r, "in", 0, "{\"k\":\"a\",\"ts\":1000}"));
        ok(rig_try(&r, "in", 1, "{\"k\":\"b\",\"ts\":1000}"));
        ok(sim_idle(r.sim, "in", 1, &err));
        expect(&r, "out", "");
        ok(rig_try(&r, "in", 0, "{\"k\":\"a\",\"ts\":20000}"));
        ok(rig_try(&r, "in", 1, "{\"k\":\"b\",\"ts\":500}"));

        ok(sim_crash(r.sim, &err));

        expect(&r, "out", ROW("a", 0, 10000, 1) ROW("b", 0, 10000, 1));
        assert_int_equal(counter(&r, "aggregate-1", "late"), 1);
        rig_down(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_pushed_settles_and_comes_out),
        cmocka_unit_test(watermark_fires_windows),
        cmocka_unit_test(idle_partition_holds_no_window),
        cmocka_unit_test(partition_gets_idle_by_virtual_time),
        cmocka_unit_test(processing_windows_follow_virtual_time),
        cmocka_unit_test(advancing_time_stops_at_each_timer),
        cmocka_unit_test(end_of_input_fires_what_is_open_and_nothing_follows),
        cmocka_unit_test(rows_have_key_time_and_order),
        cmocka_unit_test(counters_are_those_of_the_summary_across_a_crash),
        cmocka_unit_test(seeds_strategies_and_crashes_change_no_row),
        cmocka_unit_test(error_of_user_code_ends_the_job_until_restart),
        cmocka_unit_test(what_fails_is_in_the_quarantine),
        cmocka_unit_test(endless_call_is_stopped_by_real_time),
        cmocka_unit_test(unknown_names_are_refused_with_those_there_are),
        cmocka_unit_test(job_that_does_not_load_is_refused),
        cmocka_unit_test(reload_keeps_state_and_runs_the_new_code),
        cmocka_unit_test(refused_reload_leaves_the_old_code),
        cmocka_unit_test(restart_changes_how_wide_the_job_is),
        cmocka_unit_test(state_is_shown_as_the_verb_shows_it),
        cmocka_unit_test(state_is_asked_for_before_anything_came),
        cmocka_unit_test(state_of_functions_and_timers_is_shown),
        cmocka_unit_test(lines_that_run_are_told),
        cmocka_unit_test(job_that_never_rests_is_an_error),
        cmocka_unit_test(replay_repeats_calls_in_their_order),
    };

    log_setup(LOG_WARN, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
