#include <stdio.h>

#include "plan_tree.h"

#define IN                                                                     \
    "{kind:'source', name:'in', place:'j.lua:1', connector:'kafka',"           \
    " conn:{topic:'t'}}"
#define TIME                                                                   \
    "{kind:'event_time', name:'time', place:'j.lua:2', inputs:[{step:1}]}"
#define STEP(kind, name, line, rest)                                           \
    "{kind:'" kind "', name:'" name "', place:'j.lua:" line "', " rest "}"
#define AGG_REST                                                               \
    "key:[{name:'k', field:'k'}], key_place:'j.lua:3',"                        \
    " window:{kind:'tumbling', size_ms:60000, place:'j.lua:9'},"               \
    " aggs:[{name:'n', fn:'count', args:[]}], "
#define SINK(name, line, inputs)                                               \
    STEP("sink", name, line, "connector:'stdout', inputs:" inputs)

static void
refuse(const char *options, const char *steps, const char *where,
       const char *msg)
{
    struct buf job;

    buf_init(&job);
    buf_addf(&job,
             "{name:'t', file:'j.lua', options:{parallelism:2%s%s},"
             " steps:[%s]}",
             options[0] != '\0' ? ", " : "", options, steps);
    tree_refused(NULL, buf_cstr(&job), ERR_JOBFILE, where, msg);
    buf_fini(&job);
}

static void
accept(struct tree *t, const struct plan_conf *conf, const char *steps)
{
    struct buf job;

    buf_init(&job);
    buf_addf(&job,
             "{name:'t', file:'j.lua', options:{parallelism:2},"
             " steps:[%s]}",
             steps);
    (void)tree_plan(t, conf, buf_cstr(&job));
    buf_fini(&job);
}

static void
a_stream_must_reach_a_sink(void **state)
{
    (void)state;
    refuse("", IN STEP("filter", "f", "5", "func:@1, inputs:[{step:1}]"),
           "j.lua:5", "filter: this stream reaches no sink");
    refuse("", "", "j.lua", "job: the job has no source");
    refuse("",
           IN TIME STEP("aggregate", "a", "5",
                        AGG_REST "late_output:'l', inputs:[{step:2}]")
               SINK("s", "6", "[{step:3, output:'l'}]"),
           "j.lua:5", "aggregate: this stream reaches no sink");
}

static void
names_and_outputs_must_be_known(void **state)
{
    (void)state;
    refuse("", IN SINK("in", "2", "[{step:1}]"), "j.lua:2",
           "sink: the name \"in\" is taken by the source of j.lua:1");
    refuse("", IN SINK("s", "2", "[{step:1, output:'late'}]"), "j.lua:2",
           "side_output: step in has no side output \"late\"; it has none");
    refuse("",
           IN TIME STEP("aggregate", "a", "5",
                        AGG_REST "late_output:'l', inputs:[{step:2}]")
               SINK("s", "6", "[{step:3, output:'late'}]"),
           "j.lua:6",
           "side_output: step a has no side output \"late\"; it has: l");
}

static void
a_window_needs_event_time(void **state)
{
    struct tree t;

    (void)state;
    refuse("",
           IN STEP("aggregate", "a", "5", AGG_REST "inputs:[{step:1}]")
               SINK("s", "6", "[{step:2}]"),
           "j.lua:9",
           "window: tumbling(1m) needs event time; add :event_time { … } "
           "after the source, or clock = \"processing\"");
    accept(&t, NULL,
           IN STEP("aggregate", "a", "5",
                   "key:[], window:{kind:'global'}, inputs:[{step:1}],"
                   " aggs:[{name:'n', fn:'count', args:[]}]")
               SINK("s", "6", "[{step:2}]"));
    tree_free(&t);
}

static void
a_union_has_event_time_on_all_inputs_or_none(void **state)
{
    (void)state;
    refuse("",
           IN TIME STEP("source", "b", "3", "connector:'stdin'")
               SINK("s", "6", "[{step:2}, {step:3}]"),
           "j.lua:6",
           "union: event_time on some inputs only; it is missing on b "
           "(j.lua:3)");
}

static void
event_time_stands_before_the_first_exchange(void **state)
{
    static const char head[] =
        "event_time: it must stand between a source and the first exchange, "
        "with only filter, map, flat_map and select before it; found ";
    char msg[256];

    (void)state;
    (void)snprintf(msg, sizeof msg, "%sa rebalance", head);
    refuse("",
           IN STEP("event_time", "e", "2", "inputs:[{step:1, rebalance:true}]")
               SINK("s", "3", "[{step:2}]"),
           "j.lua:2", msg);
    (void)snprintf(msg, sizeof msg, "%sa union", head);
    refuse("",
           IN STEP("source", "b", "1", "connector:'stdin'")
               STEP("event_time", "e", "2", "inputs:[{step:1}, {step:2}]")
                   SINK("s", "3", "[{step:3}]"),
           "j.lua:2", msg);
    (void)snprintf(msg, sizeof msg, "%stime", head);
    refuse("",
           IN TIME STEP("event_time", "e", "4", "inputs:[{step:2}]")
               SINK("s", "5", "[{step:3}]"),
           "j.lua:4", msg);
    refuse("",
           IN STEP("map", "m", "2", "func:@1, parallelism:3, inputs:[{step:1}]")
               STEP("event_time", "e", "4", "inputs:[{step:2}]")
                   SINK("s", "5", "[{step:3}]"),
           "j.lua:4",
           "event_time: it must stand before the first exchange, but a step "
           "up to it has a parallelism other than its input's, which "
           "rebalances");
}

#define UPDATING                                                               \
    IN TIME STEP("aggregate", "a", "5",                                        \
                 AGG_REST "lateness_ms:1000, inputs:[{step:2}]")

static void
updating_rows_are_not_aggregated_or_shuffled(void **state)
{
    (void)state;
    refuse("",
           UPDATING STEP("map", "m", "6", "func:@1, inputs:[{step:3}]")
               STEP("aggregate", "b", "8", AGG_REST "inputs:[{step:4}]")
                   SINK("s", "9", "[{step:5}]"),
           "j.lua:3",
           "key_by: aggregate over an updating stream needs retraction; use "
           "a window");
    refuse("", UPDATING SINK("s", "6", "[{step:3, rebalance:true}]"), "j.lua:6",
           "rebalance: the rows of a replace earlier ones (lateness), so only "
           "filter, select, map, flat_map and sink may follow it");
    refuse("",
           UPDATING STEP("sink", "s", "6",
                         "connector:'stdout', parallelism:3,"
                         " inputs:[{step:3}]"),
           "j.lua:6",
           "sink: parallelism 2 != 3 would rebalance the rows of a, which "
           "replace earlier ones and must keep their order");
    refuse("", UPDATING SINK("s", "6", "[{step:3}, {step:2}]"), "j.lua:6",
           "union: the rows of a replace earlier ones (lateness), so only "
           "filter, select, map, flat_map and sink may follow it");
}

static void
filters_and_sinks_after_updating_rows_are_fine(void **state)
{
    struct tree t;

    (void)state;
    accept(&t, NULL,
           UPDATING STEP("filter", "f", "6", "func:@1, inputs:[{step:3}]")
               SINK("s", "7", "[{step:4}]"));
    assert_true(tree_step(t.p, "s", STEP_SINK)->updating);
    assert_false(tree_step(t.p, "a", STEP_LOCAL)->updating);
    assert_true(tree_has_why(tree_step(t.p, "f", STEP_FILTER),
                             "each row of an updating stream is judged alone: "
                             "a row passed earlier is not taken back"));
    tree_free(&t);
}

static void
late_records_of_an_updating_step_are_append(void **state)
{
    struct tree t;

    (void)state;
    accept(&t, NULL,
           IN TIME STEP("aggregate", "a", "5",
                        AGG_REST "lateness_ms:1000, late_output:'l',"
                                 " inputs:[{step:2}]")
               SINK("s", "6", "[{step:3}]") SINK("l", "7",
                                                 "[{step:3, output:'l', "
                                                 "rebalance:"
                                                 "true}]"));
    assert_false(tree_step(t.p, "l", STEP_SINK)->updating);
    tree_free(&t);
}

static void
column_names_do_not_clash(void **state)
{
    (void)state;
    refuse("",
           IN TIME STEP("aggregate", "a", "7",
                        "key:[], window:{kind:'global'}, "
                        "inputs:[{step:2}],"
                        " aggs:[{name:'window_start', fn:'count', "
                        "args:[]}]") SINK("s", "8", "[{step:3}]"),
           "j.lua:7", "aggregate: the name \"window_start\" is reserved");
    refuse("",
           IN TIME STEP("aggregate", "a", "7",
                        "key:[{name:'n', field:'n'}], "
                        "window:{kind:'global'},"
                        " inputs:[{step:2}], aggs:[{name:'n', "
                        "fn:'count'}]") SINK("s", "8", "[{step:3}]"),
           "j.lua:7", "aggregate: the name \"n\" is a key field already");
}

static void
exactly_once_needs_checkpoints(void **state)
{
    static const char sink[] =
        "{kind:'sink', name:'s', place:'j.lua:3', connector:'kafka',"
        " conn:{topic:'o', delivery:'exactly_once'}, inputs:[{step:1}]}";
    struct buf steps;

    (void)state;
    buf_init(&steps);
    buf_addf(&steps, "%s,%s", IN, sink);
    refuse("checkpoint:false", buf_cstr(&steps), "j.lua:3",
           "sink: delivery = \"exactly_once\" needs checkpoints, but the job "
           "says checkpoint = false");
    buf_clear(&steps);
    buf_addf(&steps, "%s,%s", STEP("source", "in", "1", "connector:'stdin'"),
             sink);
    refuse("", buf_cstr(&steps), "j.lua:3",
           "sink: delivery = \"exactly_once\" needs checkpoints, but source "
           "in is not replayable");
    buf_fini(&steps);
}

static void
bounded_refuses_an_endless_generator(void **state)
{
    struct plan_conf conf = {.bounded = true};

    (void)state;
    tree_refused(&conf,
                 "{name:'t', file:'j.lua', steps:["
                 "{kind:'source', name:'g', place:'j.lua:1',"
                 " connector:'generator', conn:{rate:5}}," SINK(
                     "s", "2", "[{step:1}]") "]}",
                 ERR_USAGE, "j.lua:1",
                 "--bounded: generator g has no count, so it never ends");
}

static void
expect_warning(const char *steps, const char *place, const char *text)
{
    struct tree t;

    accept(&t, NULL, steps);
    if (text == NULL) {
        assert_int_equal(t.p->warning_count, 0);
    } else {
        assert_int_equal(t.p->warning_count, 1);
        assert_string_equal(t.p->warnings[0].text, text);
        assert_string_equal(t.p->warnings[0].place, place);
    }
    tree_free(&t);
}

#define GLOBAL_OVER(source)                                                    \
    "{kind:'source', name:'g', place:'j.lua:3', " source                       \
    "}," STEP("aggregate", "a", "6",                                           \
              "key:[{name:'k', field:'k'}], window:{kind:'global'},"           \
              " inputs:[{step:1}], aggs:[{name:'n', fn:'count', args:[]}]")    \
        SINK("s", "7", "[{step:2}]")

static void
a_global_window_over_an_endless_source_is_warned_about(void **state)
{
    static const char text[] =
        "window: a global window over an unbounded source never fires";

    (void)state;
    expect_warning(GLOBAL_OVER("connector:'generator', conn:{rate:5}"),
                   "j.lua:6", text);
    expect_warning(GLOBAL_OVER("connector:'kafka', conn:{topic:'t'}"),
                   "j.lua:6", text);
    expect_warning(
        GLOBAL_OVER("connector:'kafka', conn:{topic:'t', stop:'latest'}"), "",
        NULL);
    expect_warning(GLOBAL_OVER("connector:'generator', conn:{count:5}"), "",
                   NULL);
    expect_warning(GLOBAL_OVER("connector:'lua', conn:{}"), "", NULL);
}

#define KAFKA_SINK(conn)                                                       \
    "{kind:'sink', name:'s', place:'j.lua:7', connector:'kafka',"              \
    " inputs:[{step:3}], conn:" conn "}"

static void
updating_windows_that_share_a_message_key_are_warned_about(void **state)
{
    static const char text[] =
        "sink: updating rows of different windows share a message key in s; "
        "add \"window_start\" to its key";

    (void)state;
    expect_warning(UPDATING KAFKA_SINK("{topic:'o'}"), "j.lua:7", text);
    expect_warning(UPDATING KAFKA_SINK("{key:{kind:'field', field:'k'}}"),
                   "j.lua:7", text);
    expect_warning(UPDATING KAFKA_SINK("{key:{kind:'fields', cols:[{name:'k',"
                                       " field:'k'}, {name:'window_start',"
                                       " field:'window_start'}]}}"),
                   "", NULL);
    expect_warning(UPDATING KAFKA_SINK("{key:{kind:'none'}}"), "", NULL);
}

static void
several_automatic_names_of_state_are_warned_about(void **state)
{
    struct tree t;

    (void)state;
    accept(&t, NULL,
           IN TIME STEP("aggregate", "aggregate-1", "5",
                        "auto:true, " AGG_REST "inputs:[{step:2}]")
               STEP("aggregate", "aggregate-2", "6",
                    "auto:true, " AGG_REST "inputs:[{step:2}]")
                   SINK("s", "7", "[{step:3}]") SINK("u", "8", "[{step:4}]"));
    assert_int_equal(t.p->warning_count, 2);
    assert_string_equal(t.p->warnings[1].place, "j.lua:6");
    assert_non_null(strstr(t.p->warnings[1].text, "aggregate-2 keeps state"));
    tree_free(&t);
}

static void
warnings_of_the_tree_come_first(void **state)
{
    struct tree t;

    (void)state;
    (void)tree_plan(
        &t, NULL,
        "{name:'t', file:'j.lua', steps:["
        "{kind:'source', name:'in', place:'j.lua:1',"
        " connector:'stdin'}," SINK(
            "s", "2",
            "[{step:1}]") "], warnings:[{place:'j.lua:2', text:'odd'}]}");
    assert_int_equal(t.p->warning_count, 2);
    assert_string_equal(t.p->warnings[0].text, "odd");
    assert_string_equal(t.p->warnings[1].text,
                        "source in is not replayable: no checkpoints, no "
                        "restore");
    tree_free(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_must_reach_a_sink),
        cmocka_unit_test(names_and_outputs_must_be_known),
        cmocka_unit_test(a_window_needs_event_time),
        cmocka_unit_test(a_union_has_event_time_on_all_inputs_or_none),
        cmocka_unit_test(event_time_stands_before_the_first_exchange),
        cmocka_unit_test(updating_rows_are_not_aggregated_or_shuffled),
        cmocka_unit_test(filters_and_sinks_after_updating_rows_are_fine),
        cmocka_unit_test(late_records_of_an_updating_step_are_append),
        cmocka_unit_test(column_names_do_not_clash),
        cmocka_unit_test(exactly_once_needs_checkpoints),
        cmocka_unit_test(bounded_refuses_an_endless_generator),
        cmocka_unit_test(
            a_global_window_over_an_endless_source_is_warned_about),
        cmocka_unit_test(
            updating_windows_that_share_a_message_key_are_warned_about),
        cmocka_unit_test(several_automatic_names_of_state_are_warned_about),
        cmocka_unit_test(warnings_of_the_tree_come_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
