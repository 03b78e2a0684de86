/* Steps with state in the plan: exchanges, phases, hidden steps, outputs,
 * what is refused, and how explain says it. */
#include <stdio.h>

#include "stateful_tree.h"

/* ---- exchanges and phases ---- */

static void
keyed_functions_stand_behind_a_hash_of_records(void **state)
{
    static const char *const steps[] = {IN TIME PROCESS("state:[],") OUT("3"),
                                        IN TIME DEDUP OUT("3")};
    static const enum step_kind kinds[] = {STEP_PROCESS, STEP_DEDUP};
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        p = build(&t, "", steps[i]);
        s = tree_step(p, i == 0 ? "p" : "d", kinds[i]);
        assert_int_equal(s->parallelism, 4);
        assert_int_equal(input(p, s, 0)->kind, EDGE_HASH);
        assert_false(input(p, s, 0)->partials);
        assert_true(s->event_time);
        assert_true(plan_step_in_rounds(s));
        assert_true(p->stateful);
        assert_int_equal(input(p, tree_step(p, "out", STEP_SINK), 0)->kind,
                         EDGE_CHAIN);
        tree_free(&t);
    }
}

static void
records_that_lie_right_take_no_exchange(void **state)
{
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "", IN TIME DEDUP AGG("a", "6", MINUTE, "3", TOP_N) OUT("4"));
    s = tree_step(p, "a", STEP_AGGREGATE);
    assert_int_equal(input(p, s, 0)->kind, EDGE_CHAIN);
    assert_true(
        tree_has_why(s, "ONE_PHASE: input is already distributed by [k]"));
    tree_free(&t);

    /* A process emits what it likes: nobody knows where that belongs. */
    p = build(&t, "",
              IN TIME PROCESS("state:[],") AGG("a", "6", MINUTE, "3", COUNT)
                  OUT("4"));
    assert_int_equal(tree_step(p, "a", STEP_LOCAL)->peer,
                     tree_step(p, "a", STEP_GLOBAL)->index);
    tree_free(&t);

    /* top_n writes the field rank, so its rows are not where rank was. */
    p = build(&t, "",
              IN TIME "{kind:'aggregate', name:'a', " AT(
                  "5") ", window:{" MINUTE
                       "}, key:[{name:'rank', field:'rank'}], " TOP_N
                       " inputs:[{step:2}]}"
                       "{kind:'dedup', name:'d', " AT(
                           "6") ", ttl_ms:-1,"
                                " key:[{name:'rank', field:'rank'}], "
                                "inputs:[{step:3}]}" OUT("4"));
    assert_int_equal(input(p, tree_step(p, "d", STEP_DEDUP), 0)->kind,
                     EDGE_HASH);
    tree_free(&t);
}

static void
what_merges_has_two_phases_and_the_rest_says_why(void **state)
{
    static const struct {
        const char *rest, *why;
        bool two;
    } cases[] = {
        {AGG("a", "5", MINUTE, "2", TOP_N),
         "TWO_PHASE by AUTO: the aggregate merges", true},
        {AGG("a", "5", MINUTE, "2",
             ROWS("record", "{name:'reduce', fn:'reduce', func:@1, args:[]}")),
         "TWO_PHASE by AUTO: the aggregate merges", true},
        {AGG("a", "5", "kind:'none'", "2",
             "aggs:[{name:'l', fn:'collect', limit:10, args:[{field:'v'}]}],"),
         "TWO_PHASE by AUTO: the aggregate merges", true},
        {AGG("a", "5", MINUTE, "2",
             ROWS("record",
                  "{name:'reduce', fn:'reduce', func:@1, args:[],"
                  " place:'j.lua:5', law:{ok:false, text:'a ~= b'}}")),
         "ONE_PHASE: aggregator reduce broke a law: a ~= b (j.lua:5)", false},
        {AGG("a", "5", "kind:'count', size:10, slide:10", "2", COUNT),
         "ONE_PHASE: count window", false},
        {AGG("a", "5", MINUTE, "2", ON_WINDOW),
         "ONE_PHASE: on_window takes all records of a window", false},
    };
    const struct plan *p;
    struct tree t;
    struct buf steps;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buf_init(&steps);
        buf_addf(&steps, "%s%s%s%s", IN, TIME, cases[i].rest, OUT("3"));
        p = build(&t, "", buf_cstr(&steps));
        assert_true(tree_has_why(
            tree_step(p, "a", cases[i].two ? STEP_LOCAL : STEP_AGGREGATE),
            cases[i].why));
        buf_fini(&steps);
        tree_free(&t);
    }
    refuse("agg_phase_strategy:'TWO_PHASE'",
           IN TIME AGG("a", "5", "kind:'count', size:2, slide:2", "2", COUNT)
               OUT("3"),
           "j.lua:5", "aggregate: TWO_PHASE, but count window");
}

static void
processing_time_windows_have_a_hidden_clock(void **state)
{
    const struct plan_step *clock, *local;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "",
              IN AGG("a", "5", MINUTE ", clock:'processing'", "1", COUNT)
                  OUT("2"));
    clock = tree_step(p, "a", STEP_CLOCK);
    local = tree_step(p, "a", STEP_LOCAL);
    assert_int_equal(clock->number, 0);
    assert_int_equal(local->number, 2);
    assert_int_equal(clock->logical, local->logical);
    assert_int_equal(input(p, local, 0)->from, clock->index);
    assert_int_equal(input(p, local, 0)->kind, EDGE_CHAIN);
    assert_false(plan_step_in_rounds(clock));
    assert_true(tree_step(p, "out", STEP_SINK)->event_time);
    says(p, plan_explain_text,
         "  1 source in: kafka topic=t format=json (j.lua:1)\n"
         "  2 local_aggregate a: key=[k] window=tumbling(1m, "
         "clock=processing) select=[n=count()] (j.lua:5)\n"
         "    why: TWO_PHASE by AUTO: the aggregate merges\n"
         "exchange hash [k], partials\n"
         "chain 2, parallelism 4, group default\n"
         "  3 global_aggregate a: key=[k] window=tumbling(1m, "
         "clock=processing) (j.lua:5)\n");
    says(p, plan_explain_json,
         "{\"id\":2,\"name\":\"a\",\"kind\":\"local_aggregate\","
         "\"parallelism\":4,\"chain\":1,\"group\":\"default\","
         "\"place\":\"j.lua:5\",\"inputs\":[{\"step\":1,");
    says(p, plan_explain_dot, "  s1 -> s2 [label=\"\"];\n");
    tree_free(&t);

    p = build(&t, "agg_phase_strategy:'ONE_PHASE'",
              IN AGG("a", "5", MINUTE ", clock:'processing'", "1", COUNT)
                  OUT("2"));
    clock = tree_step(p, "a", STEP_CLOCK);
    assert_int_equal(input(p, tree_step(p, "a", STEP_AGGREGATE), 0)->kind,
                     EDGE_HASH);
    assert_int_equal(input(p, clock, 0)->kind, EDGE_CHAIN);
    says(p, plan_explain_text,
         "exchange hash [k], records\nchain 2, parallelism 4, group default\n"
         "  2 aggregate a: ");
    tree_free(&t);
}

static void
a_clock_behind_an_exchange_begins_a_chain(void **state)
{
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "",
              IN "{kind:'aggregate', name:'a', " AT(
                  "5") ", " KEY "window:{" MINUTE
                       ", clock:'processing'}, " COUNT
                       " inputs:[{step:1, rebalance:true}]}" OUT("2"));
    says(p, plan_explain_text,
         "exchange rebalance, records\nchain 2, parallelism 4, group default\n"
         "  2 local_aggregate a: ");
    says(p, plan_explain_json,
         "\"inputs\":[{\"step\":1,\"output\":\"main\","
         "\"exchange\":\"rebalance\"");
    says(p, plan_explain_dot,
         "  s1 -> s2 [label=\"rebalance, records\", style=bold];\n");
    tree_free(&t);
}

static void
options_of_slots_and_chains_are_the_window_s_and_not_its_clock_s(void **state)
{
    const struct plan_step *clock;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "agg_phase_strategy:'ONE_PHASE'",
              "{kind:'source', name:'in', " AT(
                  "1") ", connector:'kafka',"
                       " conn:{topic:'t'}, chaining:'never'}"
                       "{kind:'aggregate', name:'a', " AT(
                           "5") ", " KEY "window:{" MINUTE
                                ", clock:'processing'}, " COUNT
                                " chaining:'never', slot_sharing_group:'g', "
                                "inputs:[{step:1}]}" OUT("2"));
    clock = tree_step(p, "a", STEP_CLOCK);
    assert_int_equal(input(p, clock, 0)->kind, EDGE_CHAIN);
    assert_string_equal(clock->group, "default");
    assert_string_equal(tree_step(p, "a", STEP_AGGREGATE)->group, "g");
    tree_free(&t);
}

/* ---- s.same ---- */

#define SAME(input, rest) AGG("b", "6", "kind:'same'", input, rest)
#define HOP "kind:'hopping', size_ms:4000, slide_ms:2000, offset_ms:0"

static void
same_takes_the_size_of_the_windows_of_its_rows(void **state)
{
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(
        &t, "",
        IN TIME AGG("a", "5", HOP, "2", COUNT) "{kind:'filter', name:'f', " AT(
            "6") ", func:@2,"
                 " inputs:[{step:3}]}" SAME("4", TOP_N) OUT("5"));
    s = tree_step(p, "b", STEP_AGGREGATE);
    assert_true(opt_is(opt_get(s->opts, "window"), "kind", "same"));
    assert_int_equal(opt_int(opt_get(s->opts, "window"), "size_ms", 0), 4000);
    assert_true(opt_is(s->opts, "rows", "ranked"));
    says(p, plan_explain_text, " window=same(4s) ");
    tree_free(&t);

    p = build(&t, "",
              IN AGG("a", "5", "kind:'global'", "1", COUNT) SAME("2", COUNT)
                  OUT("3"));
    s = tree_step(p, "b", STEP_AGGREGATE);
    assert_true(opt_is(opt_get(s->opts, "window"), "kind", "global"));
    tree_free(&t);
}

static void
same_needs_rows_of_an_append_window(void **state)
{
    static const char msg[] =
        "window: s.same() needs rows of one append window step, such as a "
        "tumbling aggregate without lateness; %s gives none%s";
    char text[256];

    (void)state;
    (void)snprintf(text, sizeof text, msg, "time (j.lua:2)", "");
    refuse("", IN TIME SAME("2", COUNT) OUT("3"), "j.lua:4", text);
    (void)snprintf(text, sizeof text, msg, "a (j.lua:5)", "");
    refuse("",
           IN TIME AGG("a", "5", "kind:'count', size:2, slide:2", "2", COUNT)
               SAME("3", COUNT) OUT("4"),
           "j.lua:4", text);
    (void)snprintf(text, sizeof text, msg, "a (j.lua:5)",
                   ", or the inputs have windows that differ");
    refuse("",
           IN TIME AGG("a", "5", HOP, "2", COUNT)
               AGG("c", "5", MINUTE, "2",
                   COUNT) "{kind:'aggregate', "
                          "name:'b', " AT("6") ", " KEY "window:{kind:'same',"
                                               " place:'j.lua:4'},"
                                               " " COUNT " inputs:[{step:3}, "
                                               "{step:4}]}" OUT("5"),
           "j.lua:4", text);
}

/* ---- updating streams ---- */

#define UPDATING IN TIME AGG("a", "5", "kind:'none'", "2", "ttl_ms:-1, " COUNT)

static void
an_aggregate_without_window_is_updating(void **state)
{
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "", UPDATING OUT("3"));
    s = tree_step(p, "a", STEP_GLOBAL);
    assert_true(s->updating);
    assert_false(tree_step(p, "a", STEP_LOCAL)->updating);
    assert_true(tree_has_why(
        s, "updating: a row replaces the earlier row of the same key [k]"));
    says(p, plan_explain_text,
         "global_aggregate a: key=[k] window=none "
         "ttl=false (j.lua:5)\n");
    tree_free(&t);

    p = build(&t, "",
              IN TIME "{kind:'aggregate', name:'a', " AT(
                  "5") ", " KEY "window:{" MINUTE "}, lateness_ms:1000, " COUNT
                       " inputs:[{step:2}]}" OUT("3"));
    assert_true(tree_has_why(tree_step(p, "a", STEP_GLOBAL),
                             "updating: a row replaces the earlier row of the "
                             "same key [k] and window"));
    tree_free(&t);
}

static void
updating_rows_are_not_counted_twice(void **state)
{
    static const char retraction[] =
        "key_by: aggregate over an updating stream needs retraction; use a "
        "window";

    (void)state;
    refuse("", UPDATING AGG("b", "6", MINUTE, "3", COUNT) OUT("4"), "j.lua:3",
           retraction);
    refuse("",
           UPDATING "{kind:'process', name:'p', " AT(
               "6") ", " KEY
                    "state:[], on_record:@1, inputs:[{step:3}]}" OUT("4"),
           "j.lua:3", retraction);
    refuse("",
           UPDATING "{kind:'process', name:'p', " AT(
               "6") ", " KEY
                    "right:{key:[{name:'k', field:'k'}], key_place:'j.lua:8'},"
                    " state:[], on_left:@1, on_right:@2, inputs:[{step:2},"
                    " {step:3, side:'right'}]}" OUT("4"),
           "j.lua:8", retraction);
    refuse("",
           UPDATING "{kind:'dedup', name:'d', " AT(
               "6") ", " KEY "ttl_ms:-1, inputs:[{step:3}]}" OUT("4"),
           "j.lua:3", retraction);
    refuse("",
           UPDATING "{kind:'split', name:'s', " AT(
               "6") ", func:@1,"
                    " names:['x'], inputs:[{step:3}]}" SINK(
                        "out", "9", "[{step:4, output:'x'}]"),
           "j.lua:6",
           "split: the rows of a replace earlier ones (no window), so only "
           "filter, select, map, flat_map and sink may follow it");
}

/* ---- connect ---- */

#define BOTH(rest)                                                             \
    IN TIME "{kind:'source', name:'in2', " AT("3") ", connector:'kafka',"      \
                                                   " conn:{topic:'u'}}" rest

static void
connected_streams_are_hashed_by_keys_of_their_own(void **state)
{
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "",
              BOTH("{kind:'event_time', name:'t2', " AT(
                  "4") ","
                       " inputs:[{step:3}]}"
                       "{kind:'process', name:'p', " AT(
                           "5") ", " KEY "right:{key:[{name:'u', "
                                "field:'a.u'}], on_null:'fail'},"
                                " state:[], on_left:@1, on_right:@2, "
                                "inputs:[{step:2},"
                                " {step:4, side:'right'}]}") OUT("5"));
    s = tree_step(p, "p", STEP_PROCESS);
    assert_int_equal(s->in_count, 2);
    assert_int_equal(input(p, s, 0)->kind, EDGE_HASH);
    assert_int_equal(input(p, s, 1)->kind, EDGE_HASH);
    assert_false(input(p, s, 0)->right);
    assert_true(input(p, s, 1)->right);
    assert_true(opt_is(plan_edge_key(p, input(p, s, 0))->first, "field", "k"));
    assert_true(
        opt_is(plan_edge_key(p, input(p, s, 1))->first, "field", "a.u"));
    assert_string_equal(plan_edge_on_null(p, input(p, s, 1)), "fail");
    says(p, plan_explain_text,
         "exchange hash [k], records <- 2\n"
         "exchange hash [a.u], records\n"
         "chain 3, parallelism 4, group default\n"
         "  5 process p: key=[k] right_key=[a.u] right_on_null=fail state=[] "
         "(j.lua:5)\n");
    says(p, plan_explain_json,
         "{\"step\":4,\"output\":\"main\",\"exchange\":\"hash\","
         "\"carries\":\"records\",\"keys\":[\"a.u\"]}]");
    says(p, plan_explain_json, "\"right_key\":[\"a.u\"]");
    says(p, plan_explain_dot, "  s4 -> s5 [label=\"hash [a.u], records\"");
    tree_free(&t);
}

static void
connect_takes_event_time_from_both_or_none(void **state)
{
    (void)state;
    refuse("",
           BOTH("{kind:'process', name:'p', " AT(
               "5") ", " KEY
                    "right:{key:[{name:'k', field:'k'}]}, state:[], on_left:@1,"
                    " on_right:@2, inputs:[{step:2}, {step:3, side:'right'}]}")
               OUT("4"),
           "j.lua:5",
           "connect: event_time on some inputs only; it is missing on in2 "
           "(j.lua:3)");
}

/* ---- process ---- */

static void
event_timers_and_ttl_need_event_time(void **state)
{
    (void)state;
    refuse("",
           IN "{kind:'process', name:'p', " AT(
               "5") ", " KEY
                    "state:[], on_record:@1, event_timer_place:'j.lua:7',"
                    " inputs:[{step:1}]}" OUT("2"),
           "j.lua:7",
           "process: register_event_timer needs event time; add :event_time "
           "{ \xe2\x80\xa6 } after the source, or use "
           "register_processing_timer");
    refuse("",
           IN "{kind:'process', name:'p', " AT(
               "5") ", " KEY "state:[{name:'x', kind:'value', ttl_ms:1000,"
                    " ttl_clock:'event', " AT(
                        "6") "}],"
                             " on_record:@1, inputs:[{step:1}]}" OUT("2"),
           "j.lua:6",
           "process: state x: ttl_clock = \"event\" needs event time; add "
           ":event_time { \xe2\x80\xa6 } after the source, or use "
           "\"processing\"");
}

static void
explain_shows_state_timers_and_outputs(void **state)
{
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(
        &t, "state:{backend:'memory', ttl_ms:86400000}",
        IN TIME PROCESS(
            " state:[{name:'a', kind:'aggregating', ttl_ms:-1, agg:{"
            "name:'a', fn:'sum', args:[{field:'v'}]}},"
            " {name:'l', kind:'list', ttl_ms:3600000,"
            " ttl_update:'read_and_write', ttl_clock:'processing'},"
            " {name:'s', kind:'aggregating', ttl_ms:1000, agg:{name:'s',"
            " fn:'count', args:[], where:@4}},"
            " {name:'v', kind:'value', ttl_ms:-1}], on_timer:@2,"
            " outputs:['alerts'],") "{kind:'sink', name:'al', " AT("8") ", "
                                                                        "connec"
                                                                        "tor:'"
                                                                        "blackh"
                                                                        "ole',"
                                                                        " conn:"
                                                                        "{forma"
                                                                        "t:'"
                                                                        "json'}"
                                                                        ", "
                                                                        "inputs"
                                                                        ":[{"
                                                                        "step:"
                                                                        "3, "
                                                                        "output"
                                                                        ":'"
                                                                        "alerts"
                                                                        "'}]}");
    says(p, plan_explain_text,
         "checkpoint every 10s, state backend memory, state ttl 1d\n");
    says(p, plan_explain_text,
         "  3 process p: key=[k] state=[a=aggregating(sum(v)), l=list(ttl=1h, "
         "clock=processing, update=read_and_write), s=aggregating(count("
         "where=lua), ttl=1s), v=value] on_timer=lua outputs=[alerts] "
         "(j.lua:5)\n");
    says(p, plan_explain_json, "\"outputs\":[\"alerts\"]");
    says(p, plan_explain_dot, "  s3 -> s4 [label=\"alerts \"];\n");
    tree_free(&t);
}

static void
explain_shows_dedup_top_n_reduce_and_window_functions(void **state)
{
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "",
              IN TIME DEDUP AGG("t", "6", MINUTE, "3", TOP_N) SINK("o1", "7",
                                                                   "[{step:4}]")
                  AGG("w", "8", "kind:'count', size:10, slide:5", "3",
                      ROWS("record", "{name:'reduce', fn:'reduce', func:@1,"
                                     " args:[]}")) SINK("o2", "9", "[{step:6}]")
                      AGG("f", "10", MINUTE, "3", "outputs:['x'], " ON_WINDOW)
                          SINK("o3", "11", "[{step:8}]"));
    says(p, plan_explain_text,
         " dedup d: key=[k] keep=first ttl=1h (j.lua:5)\n");
    says(p, plan_explain_text,
         " top_n t: key=[k] window=tumbling(1m) lateness=0s select=[top_n(v, "
         "n=2, order=desc)] (j.lua:6)\n");
    says(p, plan_explain_text,
         " reduce w: key=[k] window=count(10, 5) select=[reduce(lua)] "
         "(j.lua:8)\n");
    says(p, plan_explain_text,
         " process f: key=[k] window=tumbling(1m) lateness=0s "
         "select=[on_window(lua)] outputs=[x] (j.lua:10)\n");
    says(p, plan_explain_text,
         "warning: process: on_window keeps all records of a window until it "
         "fires; an aggregate keeps one value (j.lua:10)\n");
    says(p, plan_explain_json, "\"name\":\"t\",\"kind\":\"top_n\"");
    tree_free(&t);
}

/* ---- split ---- */

static void
split_has_the_outputs_it_names_and_no_other(void **state)
{
#define SPLIT                                                                  \
    IN "{kind:'split', name:'s', " AT("4") ", func:@1, names:['a', 'b'],"      \
                                           " inputs:[{step:1}]}"
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, "",
              SPLIT SINK("x", "5", "[{step:2, output:'a'}]")
                  SINK("y", "6", "[{step:2, output:'b'}]"));
    s = tree_step(p, "s", STEP_SPLIT);
    assert_int_equal(s->out_count, 2);
    assert_string_equal(p->edges[s->out[0]].output, "a");
    assert_string_equal(p->edges[s->out[1]].output, "b");
    assert_false(plan_step_in_rounds(s));
    says(p, plan_explain_text, "  2 split s: lua outputs=[a, b] (j.lua:4)\n");
    tree_free(&t);

    refuse("", SPLIT SINK("x", "5", "[{step:2}]"), "j.lua:5",
           "side_output: step s has no side output \"main\"; it has: a, b");
}

/* ---- warnings ---- */

static void
every_step_with_state_should_have_a_name(void **state)
{
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(
        &t, "",
        IN TIME "{kind:'dedup', name:'dedup-1', auto:true, " AT(
            "5") ", " KEY "ttl_ms:-1, inputs:[{step:2}]}"
                 "{kind:'process', name:'process-1', auto:true, " AT(
                     "6") ", " KEY
                          "state:[], on_record:@1, inputs:[{step:3}]}" OUT(
                              "4"));
    says(p, plan_explain_text,
         "warning: dedup: dedup-1 keeps state under an automatic name;");
    says(p, plan_explain_text,
         "warning: process: process-1 keeps state under an automatic name;");
    tree_free(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keyed_functions_stand_behind_a_hash_of_records),
        cmocka_unit_test(records_that_lie_right_take_no_exchange),
        cmocka_unit_test(what_merges_has_two_phases_and_the_rest_says_why),
        cmocka_unit_test(processing_time_windows_have_a_hidden_clock),
        cmocka_unit_test(a_clock_behind_an_exchange_begins_a_chain),
        cmocka_unit_test(
            options_of_slots_and_chains_are_the_window_s_and_not_its_clock_s),
        cmocka_unit_test(same_takes_the_size_of_the_windows_of_its_rows),
        cmocka_unit_test(same_needs_rows_of_an_append_window),
        cmocka_unit_test(an_aggregate_without_window_is_updating),
        cmocka_unit_test(updating_rows_are_not_counted_twice),
        cmocka_unit_test(connected_streams_are_hashed_by_keys_of_their_own),
        cmocka_unit_test(connect_takes_event_time_from_both_or_none),
        cmocka_unit_test(event_timers_and_ttl_need_event_time),
        cmocka_unit_test(explain_shows_state_timers_and_outputs),
        cmocka_unit_test(explain_shows_dedup_top_n_reduce_and_window_functions),
        cmocka_unit_test(split_has_the_outputs_it_names_and_no_other),
        cmocka_unit_test(every_step_with_state_should_have_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
