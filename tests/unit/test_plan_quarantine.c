/* The quarantine in the plan: what it reads, and when it is refused. */
#include <stdio.h>

#include "stateful_tree.h"

#define QUARANTINE                                                             \
    "quarantine:{kind:'sink', name:'quarantine', auto:false, " AT(             \
        "1") ","                                                               \
             " connector:'file', conn:{path:'bad', format:'json'}, "           \
             "on_error:'fail'}"

static void
the_quarantine_reads_what_may_fail(void **state)
{
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;
    uint32_t i;

    (void)state;
    p = build(&t, QUARANTINE,
              "{kind:'source', name:'in', " AT(
                  "1") ", connector:'stdin',"
                       " conn:{}, on_error:'quarantine'}"
                       "{kind:'event_time', name:'time', " AT(
                           "2") ","
                                " inputs:[{step:1}]}"
                                "{kind:'aggregate', name:'a', " AT(
                                    "5") ", on_error:"
                                         "'quarantine', " KEY "window:{" MINUTE
                                         "}, " COUNT
                                         " inputs:[{step:2}]}" OUT("3"));
    s = tree_step(p, "quarantine", STEP_SINK);
    assert_true(s->quarantine);
    assert_int_equal(s->on_error, ON_ERROR_FAIL);
    assert_int_equal(s->parallelism, 4);
    /* Also what only meets records that the source quarantines. */
    assert_int_equal(s->in_count, 5);
    for (i = 0; i < 5; i++)
        assert_string_equal(input(p, s, i)->output, PLAN_QUARANTINE);
    assert_int_equal(p->steps[input(p, s, 0)->from].kind, STEP_SOURCE);
    assert_int_equal(input(p, s, 0)->kind, EDGE_REBALANCE);
    assert_int_equal(p->steps[input(p, s, 1)->from].kind, STEP_EVENT_TIME);
    assert_int_equal(p->steps[input(p, s, 2)->from].kind, STEP_LOCAL);
    assert_int_equal(input(p, s, 2)->kind, EDGE_REBALANCE);
    assert_int_equal(p->steps[input(p, s, 3)->from].kind, STEP_GLOBAL);
    assert_int_equal(input(p, s, 3)->kind, EDGE_FORWARD);
    assert_int_equal(p->steps[input(p, s, 4)->from].kind, STEP_SINK);
    assert_int_equal(tree_step(p, "in", STEP_SOURCE)->on_error,
                     ON_ERROR_QUARANTINE);
    assert_int_equal(tree_step(p, "out", STEP_SINK)->on_error, ON_ERROR_FAIL);
    says(p, plan_explain_text,
         "  6 sink quarantine: file path=bad format=json (j.lua:1)\n");
    tree_free(&t);

    /* Keys without a value go there as well, under on_null. */
    p = build(&t, QUARANTINE,
              IN "{kind:'dedup', name:'d', " AT(
                  "5") ", ttl_ms:-1,"
                       " key:[{name:'k', field:'k'}], on_null:'quarantine',"
                       " inputs:[{step:1}]}" OUT("2"));
    s = tree_step(p, "quarantine", STEP_SINK);
    assert_int_equal(s->in_count, 1);
    assert_int_equal(p->steps[input(p, s, 0)->from].kind, STEP_DEDUP);
    tree_free(&t);
}

#define RIGHT_NULL                                                             \
    IN "{kind:'process', name:'p', " AT(                                       \
        "5") ", " KEY                                                          \
             "right:{key:[{name:'k', field:'k'}], key_place:'j.lua:4',"        \
             " on_null:'quarantine'}, state:[], on_left:@1, on_right:@2,"      \
             " inputs:[{step:1}, {step:1, side:'right'}]}"

static void
the_quarantine_reads_both_sides_and_no_clock(void **state)
{
    const struct plan_step *s;
    const struct plan *p;
    struct tree t;

    (void)state;
    p = build(&t, QUARANTINE, RIGHT_NULL OUT("2"));
    s = tree_step(p, "quarantine", STEP_SINK);
    assert_int_equal(s->in_count, 1);
    assert_int_equal(p->steps[input(p, s, 0)->from].kind, STEP_PROCESS);
    tree_free(&t);

    p = build(&t, QUARANTINE,
              IN "{kind:'aggregate', name:'a', " AT(
                  "5") ", on_error:"
                       "'quarantine', " KEY "window:{" MINUTE
                       ", clock:'processing'}, " COUNT
                       " inputs:[{step:1}]}" OUT("2"));
    s = tree_step(p, "quarantine", STEP_SINK);
    assert_int_equal(s->in_count, 2);
    assert_int_equal(p->steps[input(p, s, 0)->from].kind, STEP_LOCAL);
    assert_int_equal(p->steps[input(p, s, 1)->from].kind, STEP_GLOBAL);
    tree_free(&t);
}

static void
a_quarantine_must_be_there_and_be_used(void **state)
{
    static const char remedy[] =
        "%s: %s = \"quarantine\", but the job has none: s.job(name, { "
        "quarantine = s.kafka { \xe2\x80\xa6 } }) or s.file";
    char text[256];
    struct tree t;
    const struct plan *p;

    (void)state;
    (void)snprintf(text, sizeof text, remedy, "source", "on_error");
    refuse("",
           "{kind:'source', name:'in', " AT(
               "1") ", connector:'stdin',"
                    " conn:{}, on_error:'quarantine'}" OUT("1"),
           "j.lua:1", text);
    (void)snprintf(text, sizeof text, remedy, "job", "on_error");
    refuse("on_error:'quarantine'", IN OUT("1"), "j.lua", text);
    (void)snprintf(text, sizeof text, remedy, "key_by", "on_null");
    refuse("",
           IN "{kind:'dedup', name:'d', " AT(
               "5") ", ttl_ms:-1,"
                    " key:[{name:'k', field:'k'}], on_null:'quarantine',"
                    " key_place:'j.lua:3', inputs:[{step:1}]}" OUT("2"),
           "j.lua:3", text);
    refuse("", RIGHT_NULL OUT("2"), "j.lua:4", text);

    p = build(&t, QUARANTINE, IN OUT("1"));
    assert_int_equal(p->step_count, 2);
    says(p, plan_explain_text,
         "warning: job: nothing goes to the quarantine; say on_error = "
         "\"quarantine\" in the job, a source or a step (j.lua:1)\n");
    tree_free(&t);

    refuse(QUARANTINE ", on_error:'quarantine'",
           IN SINK("quarantine", "3", "[{step:1}]"), "j.lua:1",
           "sink: the name \"quarantine\" is taken by the sink of j.lua:3");
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quarantine_reads_what_may_fail),
        cmocka_unit_test(the_quarantine_reads_both_sides_and_no_clock),
        cmocka_unit_test(a_quarantine_must_be_there_and_be_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
