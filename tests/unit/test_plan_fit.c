#include <stdio.h>

#include "fit_tree.h"

static const struct fit_step *
entry(const struct fixture *f, const char *name)
{
    uint32_t i;

    for (i = 0; i < f->fit.count; i++)
        if (strcmp(f->fit.steps[i].step, name) == 0)
            return &f->fit.steps[i];
    fail_msg("no entry of %s", name);
    return NULL;
}

#define MAX "{name:'m', fn:'max', args:[{field:'v'}]}"

/* Neither refused nor lost. */
static void
keeps(const char *was, const char *is, enum fit_verdict verdict)
{
    struct fixture f;

    meet(&f, was, is, 0);
    if (f.code != 0)
        fail_msg("refused: %s: %s", f.e.where, f.e.msg);
    assert_int_equal(entry(&f, "w")->verdict, verdict);
    assert_false(entry(&f, "w")->drop);
    end(&f);
}

/* Refused as a loss; with --allow-state-loss accepted, and dropped or not. */
static void
loses(const char *was, const char *is, const char *step, bool drop,
      const char *msg)
{
    struct fixture f;
    char text[512];

    (void)snprintf(text, sizeof text, "state would be lost: %s: %s", step, msg);
    meet(&f, was, is, 0);
    assert_int_equal(f.code, ERR_JOBFILE);
    assert_string_equal(f.e.msg, text);
    assert_non_null(strstr(f.e.hint, "--allow-state-loss"));
    end(&f);

    meet(&f, was, is, FIT_ALLOW_LOSS);
    assert_int_equal(f.code, 0);
    assert_int_equal(entry(&f, step)->verdict, FIT_LOST);
    assert_string_equal(entry(&f, step)->why, msg);
    assert_int_equal(entry(&f, step)->drop, drop);
    end(&f);
}

/* Refused whatever is allowed. */
static void
refuses(const char *was, const char *is, const char *where, const char *msg)
{
    struct fixture f;

    meet(&f, was, is, FIT_ALLOW_LOSS);
    assert_int_equal(f.code, ERR_JOBFILE);
    assert_string_equal(f.e.msg, msg);
    assert_string_equal(f.e.where, where);
    end(&f);
}

static void
what_did_not_change_is_kept(void **state)
{
    (void)state;
    keeps(NAMED(KEY, MINUTE, COUNT "," CUSTOM),
          NAMED(KEY, MINUTE, COUNT "," CUSTOM), FIT_KEPT);
}

static void
functions_lateness_and_names_of_key_columns_may_change(void **state)
{
    (void)state;
    keeps(NAMED(KEY, MINUTE, CUSTOM),
          NAMED(KEY, MINUTE,
                "{name:'c', fn:'custom', args:[{field:'v'}], init:@11,"
                " add:@12, merge:@13, result:@14}"),
          FIT_CHANGED);
    keeps(NAMED(KEY, MINUTE, COUNT),
          NAMED(KEY,
                "window:{kind:'tumbling', size_ms:60000, slide_ms:60000,"
                " offset_ms:0}, lateness_ms:5000, ",
                COUNT),
          FIT_CHANGED);
    keeps(NAMED(KEY, MINUTE, COUNT),
          NAMED("key:[{name:'b', field:'a'}, {name:'k', func:@9}], ", MINUTE,
                COUNT),
          FIT_CHANGED);
}

static void
stateless_steps_and_places_may_move(void **state)
{
    (void)state;
    keeps(NAMED(KEY, MINUTE, COUNT),
          IN
          "{kind:'filter', name:'filter-1', auto:true, place:'j.lua:2',"
          " func:@1, inputs:[{step:1}]}" TIME("time", "3", "inputs:[{step:2}]")
              AGG("w", "15",
                  KEY MINUTE "aggs:[" COUNT "], parallelism:1,"
                             " inputs:[{step:3}]") SINK("19", "4"),
          FIT_KEPT);
}

static void
another_key_or_window_is_a_loss(void **state)
{
    (void)state;
    loses(NAMED(KEY, MINUTE, COUNT),
          NAMED("key:[{name:'k', func:@3}], ", MINUTE, COUNT), "w", true,
          "key changed from [a, k=lua] to [k=lua]");
    loses(NAMED(KEY, MINUTE, COUNT),
          NAMED("key:[{name:'k', func:@3}, {name:'a', field:'a'}], ", MINUTE,
                COUNT),
          "w", true, "key changed from [a, k=lua] to [k=lua, a]");
    loses(NAMED(KEY, MINUTE, COUNT),
          NAMED(KEY,
                "window:{kind:'tumbling', size_ms:60000, slide_ms:60000,"
                " offset_ms:1000}, ",
                COUNT),
          "w", true,
          "window changed from tumbling(1m) to tumbling(1m, offset=1s)");
}

static void
another_list_of_aggregates_is_a_loss(void **state)
{
    (void)state;
    loses(NAMED(KEY, MINUTE, COUNT "," P99), NAMED(KEY, MINUTE, COUNT), "w",
          false,
          "aggregate p removed: its part is given up, the others are kept");
    loses(NAMED(KEY, MINUTE, COUNT "," P99), NAMED(KEY, MINUTE, MAX), "w",
          false,
          "aggregate n removed, aggregate p removed: their parts are given up");
    loses(NAMED(KEY, MINUTE, P99),
          NAMED(KEY, MINUTE,
                "{name:'p', fn:'percentile', args:[{field:'v'}], q:0.5,"
                " q_text:'0.5', error:0.01}"),
          "w", false,
          "aggregate p changed from percentile(v, 0.99) to percentile(v, "
          "0.5): its part is given up");
    loses(NAMED(KEY, MINUTE, CUSTOM),
          NAMED(KEY, MINUTE,
                "{name:'c', fn:'custom', args:[{field:'w'}], init:@1, add:@2,"
                " result:@4}"),
          "w", false, "arguments of aggregate c changed: its part is given up");
}

static void
assert_places(const struct fixture *f, uint32_t min, const char *want)
{
    const struct plan_step *s = tree_step(f->is.p, "w", STEP_GLOBAL);
    struct buf got;
    uint32_t i;

    buf_init(&got);
    assert_non_null(s->places);
    assert_int_equal(s->places->min, min);
    for (i = 0; i < s->places->count; i++)
        if (s->places->order[i] == AGG_NONE)
            buf_addc(&got, '-');
        else
            buf_addf(&got, "%u", (unsigned)s->places->order[i]);
    assert_string_equal(buf_cstr(&got), want);
    assert_ptr_equal(tree_step(f->is.p, "w", STEP_LOCAL)->places, s->places);
    buf_fini(&got);
}

static void
an_added_aggregate_begins_empty_at_a_place_of_its_own(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, NAMED(KEY, MINUTE, COUNT "," P99),
         NAMED(KEY, MINUTE, COUNT "," MAX "," P99), 0);
    assert_int_equal(f.code, 0);
    assert_int_equal(entry(&f, "w")->verdict, FIT_CHANGED);
    assert_string_equal(entry(&f, "w")->why,
                        "m added: it begins empty in the windows that are "
                        "open");
    assert_places(&f, 2, "021");
    plan_fit_fini(&f.fit);
    compare(&f, 0); /* the plan's own places do not count */
    assert_places(&f, 2, "021");
    end(&f);

    meet(&f, NAMED(KEY, MINUTE, COUNT), NAMED(KEY, MINUTE, COUNT "," MAX), 0);
    assert_places(&f, 1, "01");
    end(&f);
}

static void
another_order_of_aggregates_keeps_their_places(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, NAMED(KEY, MINUTE, COUNT "," P99),
         NAMED(KEY, MINUTE, P99 "," COUNT), 0);
    assert_int_equal(f.code, 0);
    assert_string_equal(entry(&f, "w")->why, "");
    assert_places(&f, 2, "10");
    end(&f);
}

static void
places_go_on_in_the_states_that_follow(void **state)
{
    struct fixture f, next;
    const struct opt *o;
    struct arena a;
    struct err e;

    (void)state;
    meet(&f, NAMED(KEY, MINUTE, P99), NAMED(KEY, MINUTE, COUNT "," P99), 0);
    assert_places(&f, 1, "10");
    memset(&next, 0, sizeof next);
    buf_init(&next.state);
    plan_state_put(f.is.p, &next.state);
    arena_init(&a);
    assert_int_equal(
        plan_state_read(next.state.data, next.state.len, &a, &o, &e), 0);
    o = opt_at(opt_get(o, "steps"), 2);
    assert_true(opt_is(opt_get(o, "aggs")->first, "name", "p"));
    assert_int_equal(opt_int(o, "aggs_min", 0), 1);
    arena_fini(&a);

    build(&next.is, "t", OPTIONS, NAMED(KEY, MINUTE, COUNT "," P99 "," MAX));
    compare(&next, 0);
    assert_int_equal(next.code, 0);
    assert_places(&next, 1, "102");

    plan_fit_fini(&next.fit);
    tree_free(&next.is);
    build(&next.is, "t", OPTIONS, NAMED(KEY, MINUTE, COUNT "," P99));
    compare(&next, 0);
    assert_int_equal(entry(&next, "w")->verdict, FIT_CHANGED);
    assert_places(&next, 1, "10");
    plan_fit_fini(&next.fit);
    tree_free(&next.is);
    buf_fini(&next.state);
    end(&f);
}

/* What `is` makes of the state of the plan before, whose place it takes. */
static void
go_on(struct fixture *f, const char *is, uint32_t min, const char *places)
{
    struct buf state;

    buf_init(&state);
    plan_state_put(f->is.p, &state);
    plan_fit_fini(&f->fit);
    tree_free(&f->is);
    build(&f->is, "t", OPTIONS, is);
    buf_fini(&f->state);
    f->state = state;
    compare(f, FIT_ALLOW_LOSS);
    if (f->code != 0)
        fail_msg("%s", f->e.msg);
    assert_places(f, min, places);
}

static void
a_place_that_was_given_up_is_never_used_again(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, NAMED(KEY, MINUTE, COUNT "," P99 "," MAX),
         NAMED(KEY, MINUTE, COUNT "," MAX), FIT_ALLOW_LOSS);
    assert_int_equal(f.code, 0);
    assert_places(&f, 3, "0-1");
    go_on(&f, NAMED(KEY, MINUTE, COUNT "," MAX), 3, "0-1");
    assert_int_equal(entry(&f, "w")->verdict, FIT_KEPT);
    go_on(&f, NAMED(KEY, MINUTE, COUNT "," P99 "," MAX), 3, "0-21");
    assert_int_equal(entry(&f, "w")->verdict, FIT_CHANGED);
    go_on(&f, NAMED(KEY, MINUTE, P99), 3, "---0");
    assert_int_equal(entry(&f, "w")->verdict, FIT_LOST);
    go_on(&f,
          NAMED(KEY, MINUTE,
                "{name:'p', fn:'percentile', args:[{field:'v'}], q:0.5,"
                " q_text:'0.5', error:0.01}," COUNT),
          3, "----01");
    end(&f);
}

static void
an_unchanged_list_needs_no_places(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, NAMED(KEY, MINUTE, COUNT "," P99),
         NAMED(KEY, MINUTE, COUNT "," P99), 0);
    assert_null(tree_step(f.is.p, "w", STEP_GLOBAL)->places);
    end(&f);
    meet(&f, NAMED(KEY, MINUTE, COUNT "," P99),
         NAMED("key:[], ", MINUTE, P99 "," COUNT), FIT_ALLOW_LOSS);
    assert_null(tree_step(f.is.p, "w", STEP_GLOBAL)->places);
    end(&f);
}

static void
a_step_that_is_gone_or_of_another_kind_is_a_loss(void **state)
{
    (void)state;
    loses(NAMED(KEY, MINUTE, COUNT),
          IN TIME("time", "2", "inputs:[{step:1}]") SINK("9", "2"), "w", true,
          "aggregate removed (j.lua:5)");
    loses(IN PARTS("w", "3", "d"),
          IN AGG("w", "5",
                 "key:[], window:{kind:'global'}, aggs:[" COUNT
                 "], inputs:[{step:1}]") SINK("9", "2"),
          "w", true, "it was a step of kind sink, and is aggregate");
    loses(IN PARTS("p", "3", "d") SINK("4", "1"), IN SINK("4", "1"), "p", true,
          "sink removed (j.lua:3)");
}

static void
a_sink_that_keeps_nothing_may_go(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, IN PARTS("p", "3", "d") SINK("4", "1"), IN PARTS("p", "3", "d"),
         0);
    assert_int_equal(f.code, 0);
    assert_int_equal(f.fit.count, 3);
    assert_int_equal(entry(&f, "out")->verdict, FIT_REMOVED);
    end(&f);
}

static void
a_removed_topic_is_a_loss_and_an_added_one_is_none(void **state)
{
    struct fixture f;
    const char *const less =
        "{kind:'source', name:'in', place:'j.lua:1', connector:'kafka',"
        " conn:{topic:'u'}}" SINK("9", "1");

    (void)state;
    loses(IN SINK("9", "1"), less, "in", false, "topic t removed");
    meet(&f, less, IN SINK("9", "1"), 0);
    assert_int_equal(f.code, 0);
    assert_int_equal(entry(&f, "in")->verdict, FIT_CHANGED);
    end(&f);
    loses(IN SINK("9", "1"), FILES("in", "1", "a") SINK("9", "1"), "in", true,
          "source changed from kafka to file");
}

static void
fewer_partitions_are_a_loss(void **state)
{
    static const char gen[] =
        "{kind:'source', name:'in', place:'j.lua:1', connector:'%s',"
        " conn:{partitions:%d}}" SINK("9", "1");
    char four[256], five[256];
    struct fixture f;

    (void)state;
    (void)snprintf(four, sizeof four, gen, "generator", 4);
    (void)snprintf(five, sizeof five, gen, "generator", 5);
    loses(four, five, "in", true, "partitions changed from 4 to 5");

    (void)snprintf(four, sizeof four, gen, "lua", 4);
    (void)snprintf(five, sizeof five, gen, "lua", 5);
    loses(five, four, "in", true, "partitions changed from 5 to 4");
    meet(&f, four, five, 0);
    assert_int_equal(f.code, 0);
    end(&f);
}

static void
new_steps_begin_empty(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, IN TIME("time", "2", "inputs:[{step:1}]") SINK("9", "2"),
         NAMED(KEY, MINUTE, COUNT), 0);
    assert_int_equal(f.code, 0);
    assert_int_equal(entry(&f, "w")->verdict, FIT_NEW);
    assert_int_equal(entry(&f, "in")->verdict, FIT_KEPT);
    end(&f);
}

#define AUTO(n, line, key, step)                                               \
    AGG("aggregate-" n, line,                                                  \
        "auto:true, " key "window:{kind:'global'}, aggs:[" COUNT               \
        "], inputs:[{step:" step "}]")
#define KEY_A "key:[{name:'a', field:'a'}], "
#define KEY_B "key:[{name:'b', field:'b'}], "
#define TWO(first, second) IN first second TAP("x", "2") TAP("y", "3")

static void
automatic_names_that_moved_are_refused(void **state)
{
    (void)state;
    refuses(TWO(AUTO("1", "3", KEY_A, "1"), AUTO("2", "5", KEY_B, "1")),
            TWO(AUTO("1", "3", KEY_B, "1"), AUTO("2", "5", KEY_A, "1")),
            "j.lua:3",
            "name these steps first: aggregate-1 (j.lua:3), aggregate-2 "
            "(j.lua:5)");
    refuses(IN AUTO("1", "3", KEY_A, "1") TAP("x", "2"),
            TWO(AUTO("1", "3", KEY_B, "1"), AUTO("2", "5", KEY_A, "1")),
            "j.lua:3",
            "name these steps first: aggregate-1 (j.lua:3), aggregate-2 "
            "(j.lua:5)");
    refuses(TWO(AUTO("1", "3", KEY_A, "1"), AUTO("2", "5", KEY_A, "1")),
            IN AUTO("1", "3", KEY_A, "1") TAP("x", "2"), "j.lua:5",
            "name these steps first: aggregate-2 (j.lua:5)");
    refuses(IN FILES("b", "2", "f") AUTO("1", "3", KEY_A, "1")
                AUTO("2", "5", KEY_A, "2") TAP("x", "3") TAP("y", "4"),
            IN FILES("b", "2", "f") AUTO("1", "3", KEY_A, "2")
                AUTO("2", "5", KEY_A, "1") TAP("x", "3") TAP("y", "4"),
            "j.lua:3",
            "name these steps first: aggregate-1 (j.lua:3), aggregate-2 "
            "(j.lua:5)");
}

static void
automatic_names_of_equal_keys_that_moved_are_refused(void **state)
{
    static const char rest[] = "auto:true, key:[], window:{kind:'global'},"
                               " inputs:[{step:1}], aggs:[%s]";
    char count[512], max[512], was[2048], is[2048];

    (void)state;
    (void)snprintf(count, sizeof count, rest, COUNT);
    (void)snprintf(max, sizeof max, rest, MAX);
    (void)snprintf(was, sizeof was,
                   "%s" AGG("aggregate-1", "3", "%s")
                       AGG("aggregate-2", "5", "%s") "%s",
                   IN, count, max, TAP("x", "2") TAP("y", "3"));
    (void)snprintf(is, sizeof is,
                   "%s" AGG("aggregate-1", "3", "%s")
                       AGG("aggregate-2", "5", "%s") "%s",
                   IN, max, count, TAP("x", "2") TAP("y", "3"));
    refuses(was, is, "j.lua:3",
            "name these steps first: aggregate-1 (j.lua:3), aggregate-2 "
            "(j.lua:5)");
}

static void
a_step_may_be_given_the_name_it_had(void **state)
{
    struct fixture f;

    (void)state;
    meet(&f, IN AUTO("1", "3", KEY_A, "1") TAP("x", "2"),
         IN AGG("aggregate-1", "3",
                KEY_A "window:{kind:'global'}, aggs:[" COUNT
                      "], inputs:[{step:1}]")
             AGG("more", "4",
                 KEY_B "window:{kind:'global'}, aggs:[" COUNT
                       "], inputs:[{step:1}]") TAP("x", "2") TAP("y", "3"),
         0);
    if (f.code != 0)
        fail_msg("refused: %s", f.e.msg);
    assert_int_equal(entry(&f, "aggregate-1")->verdict, FIT_KEPT);
    assert_int_equal(entry(&f, "more")->verdict, FIT_NEW);
    end(&f);
}

static void
one_automatic_step_may_change_as_a_named_one(void **state)
{
    (void)state;
    loses(IN AUTO("1", "3", KEY_A, "1") TAP("x", "2"),
          IN AUTO("1", "3", KEY_B, "1") TAP("x", "2"), "aggregate-1", true,
          "key changed from [a] to [b]");
}

static void
event_time_belongs_to_its_source(void **state)
{
    static const char two[] = "{kind:'sink', name:'x', place:'j.lua:9',"
                              " connector:'blackhole', inputs:[{step:3},"
                              " {step:4}]}";
    char was[1024], is[1024];

    (void)state;
    (void)snprintf(was, sizeof was, "%s%s",
                   IN FILES("b", "2", "f")
                       TIME("e-1", "3", "auto:true, inputs:[{step:1}]")
                           TIME("e-2", "4", "auto:true, inputs:[{step:2}]"),
                   two);
    (void)snprintf(is, sizeof is, "%s%s",
                   IN FILES("b", "2", "f")
                       TIME("e-1", "3", "auto:true, inputs:[{step:2}]")
                           TIME("e-2", "4", "auto:true, inputs:[{step:1}]"),
                   two);
    refuses(was, is, "j.lua:3",
            "name these steps first: e-1 (j.lua:3), e-2 (j.lua:4)");
    loses(IN TIME("time", "2", "inputs:[{step:1}]") SINK("9", "2"),
          IN TIME("clock", "2", "inputs:[{step:1}]") SINK("9", "2"), "time",
          true, "event_time removed (j.lua:2)");
    loses(IN FILES("b", "2", "f") TIME("time", "3", "inputs:[{step:1}]")
              TAP("x", "2") TAP("y", "3"),
          IN FILES("b", "2", "f") TIME("time", "3", "inputs:[{step:2}]")
              TAP("x", "1") TAP("y", "3"),
          "time", true, "it has another source");
}

static void
another_job_or_number_of_key_groups_is_refused(void **state)
{
    struct fixture f;

    (void)state;
    describe(&f, OPTIONS, IN SINK("9", "1"));
    build(&f.is, "u", OPTIONS, IN SINK("9", "1"));
    compare(&f, FIT_ALLOW_LOSS);
    assert_int_equal(f.code, ERR_JOBFILE);
    assert_string_equal(f.e.msg,
                        "the state is of job \"t\", the file makes job \"u\"");
    plan_fit_fini(&f.fit);
    compare(&f, FIT_OTHER_NAME);
    assert_int_equal(f.code, 0);
    end(&f);

    describe(&f, OPTIONS, IN SINK("9", "1"));
    build(&f.is, "t", OPTIONS ", max_parallelism:256", IN SINK("9", "1"));
    compare(&f, FIT_ALLOW_LOSS);
    assert_int_equal(f.code, ERR_JOBFILE);
    assert_string_equal(f.e.msg, "max_parallelism is 256, the state was made "
                                 "with 128: it is fixed once state exists");
    assert_non_null(strstr(f.e.hint, "max_parallelism = 128"));
    assert_string_equal(f.e.where, "j.lua:1");
    end(&f);
}

static void
the_directory_of_a_file_sink_is_fixed(void **state)
{
    struct fixture f;

    (void)state;
    refuses(IN PARTS("p", "3", "d"), IN PARTS("p", "3", "e"), "j.lua:3",
            "sink p: the path is \"e\", in the state it is \"d\", where its "
            "parts in progress lie");
    meet(&f, IN PARTS("p", "3", "d"), IN PARTS("p", "3", "./d/"), 0);
    assert_int_equal(f.code, 0);
    end(&f);
    meet(&f, IN PARTS("p", "3", "d"), IN PARTS("p", "3", "/x/d"), 0);
    assert_int_equal(f.code, 0);
    end(&f);
    /* A copy has a directory of its own. */
    meet(&f, IN PARTS("p", "3", "d"), IN PARTS("p", "3", "e"), FIT_OTHER_NAME);
    assert_int_equal(f.code, 0);
    end(&f);
}

#define PROC(key, rest)                                                        \
    ONE("{kind:'process', name:'w', place:'j.lua:5', " key rest                \
        " on_record:@1, inputs:[{step:2}]}")
#define STATE(handles) "state:[" handles "],"
#define VALUE(name) "{name:'" name "', kind:'value', ttl_ms:-1}"
#define SUM(name, arg)                                                         \
    "{name:'" name "', kind:'aggregating', ttl_ms:-1, agg:{name:'" name "',"   \
    " fn:'sum', args:[{field:'" arg "'}]}}"

static void
handles_are_kept_by_name_and_kind_whatever_their_order_and_ttl(void **state)
{
    struct fixture f;

    (void)state;
    keeps(PROC(KEY, STATE(VALUE("v") "," SUM("s", "x"))),
          PROC(KEY, STATE(VALUE("v") "," SUM("s", "x"))), FIT_KEPT);
    keeps(PROC(KEY, STATE(VALUE("v"))),
          PROC(KEY, STATE("{name:'v', kind:'value', ttl_ms:1000,"
                          " ttl_clock:'processing'}")),
          FIT_CHANGED);
    keeps(PROC(KEY, STATE("{name:'r', kind:'reducing', ttl_ms:-1, func:@3}")),
          PROC(KEY, STATE("{name:'r', kind:'reducing', ttl_ms:-1, func:@8}")),
          FIT_KEPT);

    meet(&f, PROC(KEY, STATE(VALUE("v"))),
         PROC(KEY, STATE(VALUE("a") "," VALUE("v"))), 0);
    assert_int_equal(f.code, 0);
    assert_int_equal(entry(&f, "w")->verdict, FIT_CHANGED);
    assert_string_equal(entry(&f, "w")->why, "state a added: it begins empty");
    end(&f);
}

static void
a_handle_that_is_gone_is_lost_and_the_others_stay(void **state)
{
    (void)state;
    loses(PROC(KEY, STATE(VALUE("a") "," VALUE("b") "," VALUE("v"))),
          PROC(KEY, STATE(VALUE("v"))), "w", false,
          "state a, b removed: their entries are given up, all else is kept");
}

static void
a_handle_that_means_something_else_is_a_loss(void **state)
{
    (void)state;
    loses(PROC(KEY, STATE(VALUE("v"))),
          PROC(KEY, STATE("{name:'v', kind:'list', ttl_ms:-1}")), "w", false,
          "state v changed from value to list: its entries are given up, all "
          "else is kept");
    loses(PROC(KEY, STATE(VALUE("v") "," SUM("s", "x"))),
          PROC(KEY, STATE(SUM("s", "y"))), "w", false,
          "state v removed, state s changed from sum(x) to sum(y): their "
          "entries are given up, all else is kept");
}

static void
a_step_knows_which_handles_begin_anew(void **state)
{
    const struct plan_step *s;
    struct fixture f;

    (void)state;
    meet(&f, PROC(KEY, STATE(VALUE("u") "," VALUE("v") "," SUM("s", "x"))),
         PROC(KEY, STATE(SUM("s", "y") "," VALUE("v") "," VALUE("w"))),
         FIT_ALLOW_LOSS);
    assert_int_equal(f.code, 0);
    s = tree_step(f.is.p, "w", STEP_PROCESS);
    assert_non_null(s->anew);
    assert_true(s->anew[0]);
    assert_false(s->anew[1]);
    assert_false(s->anew[2]); /* there is none of its name */
    end(&f);
    meet(&f, PROC(KEY, STATE(VALUE("u") "," VALUE("v"))),
         PROC(KEY, STATE(VALUE("v"))), FIT_ALLOW_LOSS);
    assert_null(tree_step(f.is.p, "w", STEP_PROCESS)->anew);
    end(&f);
}

#define MOVED(name, kind, text)                                                \
    "{name:'" name "', kind:'" kind "', ttl_ms:-1, migrate:@5, "               \
    "migrate_text:'" text "'}"
#define MOVED_C(text)                                                          \
    "{name:'c', fn:'custom', label:'c', args:[{field:'v'}], init:@1, add:@2,"  \
    " result:@4, migrate:@5, migrate_text:'" text "'}"

/* Going back over a migration: nobody may read the newer form as the older. */
static void
without_migrate_the_form_that_it_made_is_given_up(void **state)
{
    static const char handle[] =
        "state v has no migrate any more, with other functions of the step "
        "changed: its entries are given up, all else is kept";
    static const char agg[] =
        "migrate of aggregate c removed, with other functions of the step "
        "changed: its part is given up, the others are kept";

    (void)state;
    loses(PROC(KEY, STATE(MOVED("v", "value", "m")) "code:'bb', core:'b',"),
          PROC(KEY, STATE(VALUE("v")) "code:'a',"), "w", false, handle);
    loses(PROC(KEY, STATE(MOVED("v", "value", "m")) "code:'bb', core:'?b',"),
          PROC(KEY, STATE(VALUE("v")) "code:'?b',"), "w", false, handle);
    loses(NAMED(KEY "code:'bb', core:'b', ", MINUTE, COUNT "," MOVED_C("m")),
          NAMED(KEY "code:'a', ", MINUTE, COUNT "," CUSTOM), "w", false, agg);
}

static void
migrate_alone_may_be_taken_out(void **state)
{
    (void)state;
    keeps(PROC(KEY, STATE(MOVED("v", "value", "m")) "code:'bb', core:'b',"),
          PROC(KEY, STATE(VALUE("v")) "code:'b',"), FIT_CHANGED);
    keeps(NAMED(KEY "code:'bb', core:'b', ", MINUTE, COUNT "," MOVED_C("m")),
          NAMED(KEY "code:'b', ", MINUTE, COUNT "," CUSTOM), FIT_CHANGED);
    keeps(PROC(KEY, STATE(MOVED("v", "value", "m")) "code:'bb', core:'b',"),
          PROC(KEY, STATE(MOVED("v", "value", "n")) "code:'a', core:'a',"),
          FIT_MIGRATED); /* it is called with what is there */
}

#define JOIN(right)                                                            \
    ONE("{kind:'process', name:'w', place:'j.lua:5', " KEY STATE(VALUE("v"))   \
            right " on_left:@1, on_right:@2,"                                  \
                  " inputs:[{step:2}, {step:2, side:'right'}]}")

static void
another_key_or_side_of_a_process_is_a_loss(void **state)
{
    (void)state;
    loses(PROC(KEY, STATE(VALUE("v"))),
          PROC("key:[{name:'k', func:@3}], ", STATE(VALUE("v"))), "w", true,
          "key changed from [a, k=lua] to [k=lua]");
    loses(PROC(KEY, STATE(VALUE("v"))),
          JOIN("right:{key:[{name:'a', field:'a'}, {name:'k', func:@3}]},"),
          "w", true, "it had one input, and has two");
    loses(JOIN("right:{key:[{name:'a', field:'a'}, {name:'k', func:@3}]},"),
          JOIN("right:{key:[{name:'b', field:'b'}, {name:'k', func:@3}]},"),
          "w", true, "key changed from [a, k=lua] to [b, k=lua]");
    keeps(JOIN("right:{key:[{name:'a', field:'a'}, {name:'k', func:@3}],"
               " key_place:'j.lua:5'},"),
          JOIN("right:{key:[{name:'a', field:'a'}, {name:'k', func:@3}],"
               " key_place:'j.lua:55'},"),
          FIT_KEPT);
}

#define FIRST(key, ttl)                                                        \
    ONE("{kind:'dedup', name:'w', place:'j.lua:5', " key "keep:'first',"       \
        " ttl_ms:" ttl ", inputs:[{step:2}]}")

static void
dedup_keeps_its_keys_under_another_ttl(void **state)
{
    (void)state;
    keeps(FIRST(KEY, "-1"), FIRST(KEY, "1000"), FIT_CHANGED);
    loses(FIRST(KEY, "-1"), FIRST("key:[{name:'k', func:@3}], ", "-1"), "w",
          true, "key changed from [a, k=lua] to [k=lua]");
    loses(FIRST(KEY, "-1"), PROC(KEY, STATE(VALUE("v"))), "w", true,
          "it was a step of kind dedup, and is process");
}

static void
an_automatic_name_of_a_process_is_no_identity(void **state)
{
#define AUTO_PROC(n, line, key, handle)                                        \
    "{kind:'process', name:'process-" n "', auto:true, place:'j.lua:" line     \
    "', " key                                                                  \
    STATE(VALUE(handle)) " on_record:@1, inputs:[{step:2}]}"
#define PROCS(a, b)                                                            \
    IN TIME("time", "2", "inputs:[{step:1}]") a b TAP("o1", "3") TAP("o2", "4")

    (void)state;
    refuses(PROCS(AUTO_PROC("1", "5", KEY, "x"), AUTO_PROC("2", "6", KEY, "y")),
            PROCS(AUTO_PROC("1", "5", KEY, "y"), AUTO_PROC("2", "6", KEY, "x")),
            "j.lua:5",
            "name these steps first: process-1 (j.lua:5), process-2 "
            "(j.lua:6)");
    refuses(NAMED(KEY, MINUTE, COUNT), ONE(AUTO_PROC("1", "5", KEY, "x")),
            "j.lua:5", "name these steps first: process-1 (j.lua:5)");
    refuses(ONE(AUTO_PROC("1", "5", KEY, "x")), NAMED(KEY, MINUTE, COUNT),
            "j.lua:5", "name these steps first: process-1 (j.lua:5)");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_added_aggregate_begins_empty_at_a_place_of_its_own),
        cmocka_unit_test(another_order_of_aggregates_keeps_their_places),
        cmocka_unit_test(places_go_on_in_the_states_that_follow),
        cmocka_unit_test(a_place_that_was_given_up_is_never_used_again),
        cmocka_unit_test(a_step_knows_which_handles_begin_anew),
        cmocka_unit_test(without_migrate_the_form_that_it_made_is_given_up),
        cmocka_unit_test(migrate_alone_may_be_taken_out),
        cmocka_unit_test(an_unchanged_list_needs_no_places),
        cmocka_unit_test(a_sink_that_keeps_nothing_may_go),
        cmocka_unit_test(automatic_names_of_equal_keys_that_moved_are_refused),
        cmocka_unit_test(what_did_not_change_is_kept),
        cmocka_unit_test(
            functions_lateness_and_names_of_key_columns_may_change),
        cmocka_unit_test(stateless_steps_and_places_may_move),
        cmocka_unit_test(another_key_or_window_is_a_loss),
        cmocka_unit_test(another_list_of_aggregates_is_a_loss),
        cmocka_unit_test(a_step_that_is_gone_or_of_another_kind_is_a_loss),
        cmocka_unit_test(a_removed_topic_is_a_loss_and_an_added_one_is_none),
        cmocka_unit_test(fewer_partitions_are_a_loss),
        cmocka_unit_test(new_steps_begin_empty),
        cmocka_unit_test(automatic_names_that_moved_are_refused),
        cmocka_unit_test(a_step_may_be_given_the_name_it_had),
        cmocka_unit_test(one_automatic_step_may_change_as_a_named_one),
        cmocka_unit_test(event_time_belongs_to_its_source),
        cmocka_unit_test(another_job_or_number_of_key_groups_is_refused),
        cmocka_unit_test(the_directory_of_a_file_sink_is_fixed),
        cmocka_unit_test(
            handles_are_kept_by_name_and_kind_whatever_their_order_and_ttl),
        cmocka_unit_test(a_handle_that_is_gone_is_lost_and_the_others_stay),
        cmocka_unit_test(a_handle_that_means_something_else_is_a_loss),
        cmocka_unit_test(another_key_or_side_of_a_process_is_a_loss),
        cmocka_unit_test(dedup_keeps_its_keys_under_another_ttl),
        cmocka_unit_test(an_automatic_name_of_a_process_is_no_identity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
