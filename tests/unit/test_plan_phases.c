#include "plan_tree.h"

/* A job: file source, event time, then `steps`, which may use inputs 1, 2. */
static const struct plan *
build(struct tree *t, const char *strategy, const char *steps)
{
    static const struct plan_conf conf = {.parallelism = 4, .cores = 2};
    const struct plan *p;
    struct buf job;

    buf_init(&job);
    buf_addf(&job,
             "{name:'t', file:'j.lua', options:{agg_phase_strategy:'%s'},"
             "steps:[{kind:'source', name:'in', place:'j.lua:1',"
             " connector:'kafka', conn:{topic:'t'}}, {kind:'event_time',"
             " name:'time', place:'j.lua:2', inputs:[{step:1}]}, %s]}",
             strategy, steps);
    p = tree_plan(t, &conf, buf_cstr(&job));
    buf_fini(&job);
    return p;
}

#define WINDOW "window:{kind:'tumbling', size_ms:1000, place:'j.lua:4'}"
#define COUNT "aggs:[{name:'n', fn:'count', args:[]}]"
#define SINK(input)                                                            \
    "{kind:'sink', name:'out', place:'j.lua:9', connector:'blackhole',"        \
    " inputs:[{step:" input "}]}"

#define AGG(name, input, key, aggs)                                            \
    "{kind:'aggregate', name:'" name "', place:'j.lua:5',"                     \
    " key_place:'j.lua:3', inputs:[{step:" input "}], key:" key ", " WINDOW    \
    ", " aggs "}"

#define KEY_K "[{name:'k', field:'k'}]"
#define CUSTOM(rest)                                                           \
    "aggs:[{name:'n', fn:'count', args:[]}, {name:'m', fn:'custom',"           \
    " place:'j.lua:7', init:@1, add:@2, result:@3" rest "}]"

static const struct plan_edge *
only_input(const struct plan *p, const struct plan_step *s)
{
    assert_int_equal(s->in_count, 1);
    return &p->edges[s->in[0]];
}

static void
auto_splits_when_every_aggregate_merges(void **state)
{
    struct tree t;
    const struct plan *p;
    const struct plan_step *local, *global;
    const struct plan_edge *edge;

    (void)state;
    p = build(&t, "AUTO", AGG("a", "2", KEY_K, CUSTOM(", merge:@4")) SINK("3"));

    local = tree_step(p, "a", STEP_LOCAL);
    global = tree_step(p, "a", STEP_GLOBAL);
    assert_true(tree_has_why(local, "TWO_PHASE by AUTO: all 2 aggregates "
                                    "merge"));
    assert_int_equal(local->peer, global->index);
    assert_int_equal(global->peer, local->index);
    assert_int_equal(local->logical, global->logical);
    assert_int_equal(only_input(p, local)->kind, EDGE_CHAIN);
    edge = only_input(p, global);
    assert_int_equal(edge->kind, EDGE_HASH);
    assert_true(edge->partials);
    assert_int_equal(edge->from, local->index);
    tree_free(&t);
}

static void
one_phase_sends_records_by_hash(void **state)
{
    struct tree t;
    const struct plan *p;
    const struct plan_step *s;

    (void)state;
    p = build(&t, "ONE_PHASE", AGG("a", "2", KEY_K, COUNT) SINK("3"));

    s = tree_step(p, "a", STEP_AGGREGATE);
    assert_true(tree_has_why(s, "ONE_PHASE by option"));
    assert_int_equal(only_input(p, s)->kind, EDGE_HASH);
    assert_false(only_input(p, s)->partials);
    assert_int_equal(s->peer, s->index);
    tree_free(&t);
}

static void
two_phase_by_option_says_so(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = build(&t, "TWO_PHASE", AGG("a", "2", KEY_K, COUNT) SINK("3"));

    assert_true(
        tree_has_why(tree_step(p, "a", STEP_LOCAL), "TWO_PHASE by option"));
    tree_free(&t);
}

static void
a_missing_merge_or_a_broken_law_makes_one_phase(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = build(&t, "AUTO", AGG("a", "2", KEY_K, CUSTOM("")) SINK("3"));
    assert_true(tree_has_why(tree_step(p, "a", STEP_AGGREGATE),
                             "ONE_PHASE: aggregator m has no merge "
                             "(j.lua:7)"));
    assert_int_equal(p->warning_count, 0);
    tree_free(&t);

    p = build(&t, "AUTO",
              AGG("a", "2", KEY_K,
                  CUSTOM(", merge:@4, law:{ok:false, text:'x != y'}"))
                  SINK("3"));
    assert_true(tree_has_why(tree_step(p, "a", STEP_AGGREGATE),
                             "ONE_PHASE: aggregator m broke a law: x != y "
                             "(j.lua:7)"));
    assert_int_equal(p->warning_count, 1);
    assert_string_equal(p->warnings[0].place, "j.lua:7");
    assert_string_equal(p->warnings[0].text,
                        "aggregator m broke a law: x != y");
    tree_free(&t);

    p = build(&t, "AUTO",
              AGG("a", "2", KEY_K, CUSTOM(", merge:@4, law:{ok:true}"))
                  SINK("3"));
    (void)tree_step(p, "a", STEP_LOCAL);
    tree_free(&t);
}

static void
two_phase_refuses_what_cannot_merge(void **state)
{
    (void)state;
    tree_refused(
        NULL,
        "{name:'t', file:'j.lua', options:{agg_phase_strategy:'TWO_PHASE'},"
        "steps:[{kind:'source', name:'in', place:'j.lua:1',"
        " connector:'stdin'}, {kind:'event_time', name:'time',"
        " place:'j.lua:2', inputs:[{step:1}]}," AGG(
            "a", "2", KEY_K,
            "aggs:[{name:'mid', fn:'custom', place:'j.lua:4', init:@1,"
            " add:@2, result:@3}]") SINK("3") "]}",
        ERR_JOBFILE, "j.lua:5",
        "aggregate: TWO_PHASE, but aggregator mid has no merge (j.lua:4)");
}

#define FILTER(input)                                                          \
    "{kind:'filter', name:'f', place:'j.lua:6', func:@9,"                      \
    " inputs:[{step:" input "}]}"

static void
rows_that_lie_right_are_not_sent_again(void **state)
{
    struct tree t;
    const struct plan *p;
    const struct plan_step *s;

    (void)state;
    p = build(&t, "AUTO",
              AGG("a", "2", "[{name:'k', field:'x.y'}]", COUNT) FILTER("3")
                  AGG("b", "4", "[{name:'q', field:'k'}]", COUNT) SINK("5"));

    s = tree_step(p, "b", STEP_AGGREGATE);
    assert_true(tree_has_why(s, "ONE_PHASE: input is already distributed by "
                                "[q=k]"));
    assert_int_equal(only_input(p, s)->kind, EDGE_CHAIN);
    assert_int_equal(s->chain, tree_step(p, "a", STEP_GLOBAL)->chain);
    tree_free(&t);
}

static void
other_keys_order_or_parallelism_are_sent_again(void **state)
{
    static const char *const second[] = {
        AGG("b", "3", "[{name:'k', field:'k.k'}, {name:'j', field:'j'}]",
            COUNT),
        AGG("b", "3", "[{name:'j', field:'j'}, {name:'k', field:'k'}]", COUNT),
        AGG("b", "3", "[{name:'k', field:'k'}]", COUNT),
        AGG("b", "3", "[{name:'k', func:@1}, {name:'j', field:'j'}]", COUNT),
        AGG("b", "3", "[{name:'k', field:'k'}, {name:'j', field:'j'}]",
            "parallelism:2, " COUNT),
        "{kind:'aggregate', name:'b', place:'j.lua:5', " WINDOW ", " COUNT
        ", inputs:[{step:3, rebalance:true}],"
        " key:[{name:'k', field:'k'}, {name:'j', field:'j'}]}",
    };
    struct tree t;
    struct buf steps;
    size_t i;

    (void)state;
    buf_init(&steps);
    for (i = 0; i < sizeof second / sizeof second[0]; i++) {
        buf_clear(&steps);
        buf_addf(&steps, "%s,%s,%s",
                 AGG("a", "2", "[{name:'k', field:'k'}, {name:'j', field:'j'}]",
                     COUNT),
                 second[i], SINK("4"));
        (void)tree_step(build(&t, "AUTO", buf_cstr(&steps)), "b", STEP_LOCAL);
        tree_free(&t);
    }
    buf_fini(&steps);
}

static void
a_dot_in_a_name_is_no_path(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = build(&t, "AUTO",
              AGG("a", "2", "[{name:'x.y', field:'z'}]", COUNT)
                  AGG("b", "3", "[{name:'y', field:'x.y'}]", COUNT) SINK("4"));
    (void)tree_step(p, "b", STEP_LOCAL);
    tree_free(&t);

    p = build(&t, "AUTO",
              AGG("a", "2", "[{name:'x.y', field:'z'}]", COUNT)
                  AGG("b", "3", "[{name:'x.y', field:'x\\.y'}]", COUNT)
                      SINK("4"));
    (void)tree_step(p, "b", STEP_AGGREGATE);
    tree_free(&t);
}

static void
chaining_of_an_aggregate_leaves_its_local_half_alone(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = build(
        &t, "AUTO",
        AGG("a", "2", KEY_K, "chaining:'never', slot_sharing_group:'g', " COUNT)
            SINK("3"));

    assert_int_equal(tree_step(p, "a", STEP_LOCAL)->chain, 0);
    assert_string_equal(tree_step(p, "a", STEP_LOCAL)->group, "default");
    assert_string_equal(tree_step(p, "a", STEP_GLOBAL)->group, "g");
    assert_true(
        tree_has_why(tree_step(p, "out", STEP_SINK), "not chained: option"));
    tree_free(&t);
}

static void
late_records_leave_where_the_input_arrives(void **state)
{
    static const char steps[] =
        "{kind:'aggregate', name:'a', place:'j.lua:5', inputs:[{step:2}],"
        " key:" KEY_K ", " WINDOW ", " COUNT
        ", late_output:'late', parallelism:2}, {kind:'sink', name:'late',"
        " place:'j.lua:8', connector:'blackhole', inputs:[{step:3, "
        "output:'late'}]}," SINK("3");
    struct tree t;
    const struct plan *p;
    const struct plan_step *late;

    (void)state;
    p = build(&t, "AUTO", steps);
    late = tree_step(p, "late", STEP_SINK);
    assert_int_equal(only_input(p, late)->from,
                     tree_step(p, "a", STEP_LOCAL)->index);
    assert_string_equal(only_input(p, late)->output, "late");
    assert_int_equal(late->parallelism, 4);
    assert_int_equal(tree_step(p, "out", STEP_SINK)->parallelism, 2);
    tree_free(&t);

    p = build(&t, "ONE_PHASE", steps);
    late = tree_step(p, "late", STEP_SINK);
    assert_int_equal(only_input(p, late)->from,
                     tree_step(p, "a", STEP_AGGREGATE)->index);
    assert_int_equal(late->parallelism, 2);
    tree_free(&t);
}

static void
one_key_for_all_has_parallelism_one(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = build(&t, "AUTO", AGG("a", "2", "[]", COUNT) SINK("3"));

    assert_int_equal(tree_step(p, "a", STEP_LOCAL)->parallelism, 4);
    assert_int_equal(tree_step(p, "a", STEP_GLOBAL)->parallelism, 1);
    assert_int_equal(tree_step(p, "out", STEP_SINK)->parallelism, 1);
    tree_free(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_splits_when_every_aggregate_merges),
        cmocka_unit_test(one_phase_sends_records_by_hash),
        cmocka_unit_test(two_phase_by_option_says_so),
        cmocka_unit_test(a_missing_merge_or_a_broken_law_makes_one_phase),
        cmocka_unit_test(two_phase_refuses_what_cannot_merge),
        cmocka_unit_test(rows_that_lie_right_are_not_sent_again),
        cmocka_unit_test(other_keys_order_or_parallelism_are_sent_again),
        cmocka_unit_test(a_dot_in_a_name_is_no_path),
        cmocka_unit_test(chaining_of_an_aggregate_leaves_its_local_half_alone),
        cmocka_unit_test(late_records_leave_where_the_input_arrives),
        cmocka_unit_test(one_key_for_all_has_parallelism_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
