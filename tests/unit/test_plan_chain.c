#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan_tree.h"

#define SRC(name, rest)                                                        \
    "{kind:'source', name:'" name "', place:'j.lua:1', " rest "}"
#define KAFKA "connector:'kafka', conn:{topic:'t'}"
#define MAP(name, rest)                                                        \
    "{kind:'map', name:'" name "', place:'j.lua:2', func:@1, " rest "}"
#define SINK(name, inputs)                                                     \
    "{kind:'sink', name:'" name "', place:'j.lua:3', connector:'blackhole',"   \
    " inputs:" inputs "}"
#define JOB(options, steps)                                                    \
    "{name:'t', file:'j.lua', options:{" options "}, steps:[" steps "]}"

static const struct plan_edge *
input(const struct plan *p, const struct plan_step *s, uint32_t j)
{
    assert_true(j < s->in_count);
    return &p->edges[s->in[j]];
}

static void
fan_out_stays_in_one_chain(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = tree_plan(&t, NULL,
                  JOB("parallelism:2",
                      SRC("a", KAFKA) MAP("m", "inputs:[{step:1}]")
                          MAP("n", "inp"
                                   "uts"
                                   ":[{"
                                   "ste"
                                   "p:"
                                   "1}"
                                   "]") SINK("x", "[{step:2}]")
                              SINK("y", "[{step:3}]") SINK("z", "[{"
                                                                "st"
                                                                "ep"
                                                                ":1"
                                                                "}"
                                                                "]")));

    assert_int_equal(p->chain_count, 1);
    assert_int_equal(p->chains[0].count, 6);
    assert_int_equal(p->steps[0].out_count, 3);
    assert_int_equal(p->slots_needed, 2);
    tree_free(&t);
}

static void
options_and_groups_cut_chains_and_say_why(void **state)
{
    static const struct {
        const char *map, *why;
        uint32_t chains;
    } rows[] = {
        {"chaining:'always', inputs:[{step:1}]", NULL, 1},
        {"chaining:'head', inputs:[{step:1}]", "not chained: option", 2},
        {"chaining:'never', inputs:[{step:1}]", "not chained: option", 3},
        {"slot_sharing_group:'g', inputs:[{step:1}]", "not chained: slot group",
         2},
        {"parallelism:8, inputs:[{step:1}]", "not chained: parallelism 4 != 8",
         2},
        {"inputs:[{step:1, rebalance:true}]", NULL, 2},
        {"inputs:[{step:1}, {step:1}]", "not chained: two inputs", 2},
    };
    struct tree t;
    struct buf job;
    const struct plan *p;
    size_t i;

    (void)state;
    buf_init(&job);
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_clear(&job);
        buf_addf(&job,
                 "{name:'t', file:'j', options:{parallelism:4}, steps:[%s,"
                 "{kind:'map', name:'m', place:'j:2', func:@1, %s},%s]}",
                 SRC("a", KAFKA), rows[i].map, SINK("s", "[{step:2}]"));
        p = tree_plan(&t, NULL, buf_cstr(&job));
        assert_int_equal(p->chain_count, rows[i].chains);
        if (rows[i].why != NULL)
            assert_true(tree_has_why(tree_step(p, "m", STEP_MAP), rows[i].why));
        else
            assert_null(tree_step(p, "m", STEP_MAP)->why[0]);
        tree_free(&t);
    }
    buf_fini(&job);
}

static void
another_parallelism_rebalances_and_says_so(void **state)
{
    struct tree t;
    const struct plan *p;
    const struct plan_step *m;

    (void)state;
    p = tree_plan(&t, NULL,
                  JOB("parallelism:4",
                      SRC("a", KAFKA) MAP("m", "parallelism:8, "
                                               "inputs:[{step:1}]")
                          SINK("s", "[{step:2}]")));

    m = tree_step(p, "m", STEP_MAP);
    assert_int_equal(input(p, m, 0)->kind, EDGE_REBALANCE);
    assert_true(tree_has_why(m, "rebalance inserted (parallelism 4 != 8): "
                                "order between records is lost"));
    assert_int_equal(tree_step(p, "s", STEP_SINK)->parallelism, 8);
    assert_int_equal(p->slots_needed, 8);
    tree_free(&t);
}

static void
a_union_has_the_largest_parallelism_of_its_inputs(void **state)
{
    struct tree t;
    const struct plan *p;
    const struct plan_step *s;

    (void)state;
    p = tree_plan(&t, NULL,
                  JOB("parallelism:4",
                      SRC("a", "connector:'stdin'") SRC("b", KAFKA)
                          SINK("s", "[{step:1}, {step:2}]")));

    s = tree_step(p, "s", STEP_SINK);
    assert_int_equal(s->parallelism, 4);
    assert_int_equal(input(p, s, 0)->kind, EDGE_REBALANCE);
    assert_int_equal(input(p, s, 1)->kind, EDGE_FORWARD);
    assert_string_equal(input(p, s, 1)->why, "two inputs");
    tree_free(&t);
}

static void
rebalance_has_the_jobs_parallelism(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = tree_plan(&t, NULL,
                  JOB("parallelism:4",
                      SRC("a", "connector:'stdin'")
                          MAP("m", "inputs:[{step:1, rebalance:true}]")
                              SINK("s", "[{step:2}]")));

    assert_int_equal(tree_step(p, "a", STEP_SOURCE)->parallelism, 1);
    assert_int_equal(tree_step(p, "m", STEP_MAP)->parallelism, 4);
    assert_int_equal(tree_step(p, "s", STEP_SINK)->chain,
                     tree_step(p, "m", STEP_MAP)->chain);
    tree_free(&t);
}

static uint32_t
source_parallelism(const char *source)
{
    struct tree t;
    struct buf job;
    uint32_t par;

    buf_init(&job);
    buf_addf(&job,
             "{name:'t', file:'j', options:{parallelism:8}, steps:["
             "{kind:'source', name:'a', place:'j:1', %s},%s]}",
             source, SINK("s", "[{step:1}]"));
    par = tree_plan(&t, NULL, buf_cstr(&job))->steps[0].parallelism;
    tree_free(&t);
    buf_fini(&job);
    return par;
}

static void
touch(const char *dir, const char *name)
{
    char path[512];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    (void)fclose(f);
}

static void
remove_files(const char *dir)
{
    static const char *const names[] = {"a.txt", "b.txt", "c.json", ".d.txt"};
    char path[512];
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/sub.txt", dir);
    (void)rmdir(path);
    (void)rmdir(dir);
}

static void
a_source_has_no_more_subtasks_than_partitions(void **state)
{
    char dir[] = "/tmp/plan-parts-XXXXXX";
    char text[512];

    (void)state;
    assert_int_equal(source_parallelism(KAFKA), 8);
    assert_int_equal(source_parallelism("connector:'stdin'"), 1);
    assert_int_equal(
        source_parallelism("connector:'generator', conn:{partitions:3}"), 3);
    assert_int_equal(source_parallelism("connector:'generator', conn:{}"), 1);
    assert_int_equal(
        source_parallelism("connector:'lua', conn:{partitions:20}"), 8);
    assert_int_equal(source_parallelism("connector:'kafka', parallelism:3"), 3);
    assert_int_equal(source_parallelism("connector:'file', "
                                        "conn:{path:'/nonexistent/x'}"),
                     1);

    assert_non_null(mkdtemp(dir));
    touch(dir, "a.txt");
    touch(dir, "b.txt");
    touch(dir, "c.json");
    touch(dir, ".d.txt");
    (void)snprintf(text, sizeof text, "%s/sub.txt", dir);
    assert_int_equal(mkdir(text, 0700), 0);
    (void)snprintf(text, sizeof text, "connector:'file', conn:{path:'%s'}",
                   dir);
    assert_int_equal(source_parallelism(text), 3);
    (void)snprintf(text, sizeof text,
                   "connector:'file', conn:{path:'%s/*.txt'}", dir);
    assert_int_equal(source_parallelism(text), 2);
    remove_files(dir);
}

static void
parallelism_comes_from_flag_job_slots_cores(void **state)
{
    static const struct {
        struct plan_conf conf;
        const char *options;
        uint32_t want;
    } rows[] = {
        {{.parallelism = 3, .slots = 5, .cores = 2}, "parallelism:4", 3},
        {{.slots = 5, .cores = 2}, "parallelism:4", 4},
        {{.slots = 5, .cores = 2}, "", 5},
        {{.cores = 2}, "slots:6", 6},
        {{.cores = 2}, "", 2},
        {{.cores = 0}, "", 1},
    };
    struct tree t;
    struct buf job;
    size_t i;

    (void)state;
    buf_init(&job);
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_clear(&job);
        buf_addf(&job, "{name:'t', file:'j', options:{%s}, steps:[%s,%s]}",
                 rows[i].options, SRC("a", KAFKA), SINK("s", "[{step:1}]"));
        assert_int_equal(
            tree_plan(&t, &rows[i].conf, buf_cstr(&job))->parallelism,
            rows[i].want);
        tree_free(&t);
    }
    buf_fini(&job);
}

#define TWO_GROUPS(options)                                                    \
    JOB(options,                                                               \
        SRC("a", KAFKA) MAP("m", "slot_sharing_group:'g', "                    \
                                 "inputs:[{step:1}]") SINK("s", "[{step:2}]"))

static void
slots_needed_is_the_sum_over_groups(void **state)
{
    struct plan_conf cores = {.cores = 16}, few = {.slots = 7};
    struct tree t;
    const struct plan *p;

    (void)state;
    p = tree_plan(&t, &cores, TWO_GROUPS("parallelism:4"));
    assert_int_equal(p->slots_needed, 8);
    assert_int_equal(p->slots, 16);
    assert_int_equal(p->chains[0].slot_base, 0);
    assert_int_equal(p->chains[1].slot_base, 4);
    assert_string_equal(tree_step(p, "s", STEP_SINK)->group, "g");
    tree_free(&t);

    p = tree_plan(&t, &cores, TWO_GROUPS("parallelism:4, slots:9"));
    assert_int_equal(p->slots, 9);
    tree_free(&t);

    tree_refused(&few, TWO_GROUPS("parallelism:4"), ERR_CONFIG, "",
                 "--slots 7 is below the 8 slots this job needs");
    tree_refused(&cores, TWO_GROUPS("parallelism:4, slots:2"), ERR_CONFIG,
                 "j.lua", "slots = 2 is below the 8 slots this job needs");
}

static void
small_chains_spread_over_their_group(void **state)
{
    static const char job[] =
        "{name:'t', file:'j', options:{parallelism:4}, steps:["
        "{kind:'source', name:'a', place:'j:1', connector:'stdin'},"
        "{kind:'source', name:'b', place:'j:2', connector:'lua'},"
        "{kind:'source', name:'c', place:'j:3', connector:'lua'},"
        "{kind:'source', name:'d', place:'j:4', connector:'lua'},"
        "{kind:'map', name:'m', place:'j:5', func:@1, inputs:["
        " {step:1, rebalance:true}, {step:2, rebalance:true},"
        " {step:3, rebalance:true}, {step:4, rebalance:true}]},"
        "{kind:'sink', name:'s', place:'j:6', connector:'blackhole',"
        " inputs:[{step:5}]}]}";
    struct tree t;
    const struct plan *p;
    uint32_t i;

    (void)state;
    p = tree_plan(&t, NULL, job);

    assert_int_equal(p->chain_count, 5);
    for (i = 0; i < 4; i++)
        assert_int_equal(p->chains[i].slot_base, i);
    assert_int_equal(p->chains[4].slot_base, 0);
    tree_free(&t);
}

#define KEYED(rest)                                                            \
    "{kind:'aggregate', name:'g', place:'j.lua:4', inputs:[{step:1}],"         \
    " window:{kind:'global'}, aggs:[{name:'n', fn:'count', args:[]}], " rest   \
    "}"
#define K "key:[{name:'k', field:'k'}]"

static void
max_parallelism_bounds_keyed_steps(void **state)
{
    struct plan_conf conf = {.parallelism = 3};
    struct tree t;
    const struct plan *p;

    (void)state;
    p = tree_plan(&t, NULL,
                  JOB("parallelism:4",
                      SRC("i", "connector:'stdin'") KEYED(K ", parallelism:100")
                          SINK("s", "[{step:2}]")));
    assert_int_equal(p->max_parallelism, 256);
    tree_free(&t);

    tree_refused(&conf,
                 JOB("max_parallelism:2", SRC("i", "connector:'stdin'") KEYED(K)
                                              SINK("s", "[{step:2}]")),
                 ERR_CONFIG, "",
                 "--parallelism 3 is above max_parallelism 2 of the job");
    tree_refused(
        NULL,
        JOB("parallelism:3, max_parallelism:2",
            SRC("i", "connector:'stdin'") KEYED(K) SINK("s", "[{step:2}]")),
        ERR_JOBFILE, "j.lua", "job: parallelism 3 is above max_parallelism 2");
    tree_refused(&conf,
                 JOB("max_parallelism:128",
                     SRC("i", "connector:'stdin'") KEYED(K ", parallelism:200")
                         SINK("s", "[{step:2}]")),
                 ERR_JOBFILE, "j.lua:4",
                 "aggregate: parallelism 200 is above max_parallelism 128");
    tree_refused(&conf,
                 JOB("", SRC("i", "connector:'stdin'") KEYED(
                             "key:[], parallelism:2") SINK("s", "[{step:2}]")),
                 ERR_JOBFILE, "j.lua:4",
                 "aggregate: parallelism 2, but key_by {} has one key for "
                 "all, so its parallelism is 1");
}

static void
error_policy_is_the_steps_or_the_jobs(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = tree_plan(&t, NULL,
                  JOB("on_error:'skip'",
                      SRC("a", "connector:'stdin', conn:{on_error:'fail'}")
                          MAP("m", "inputs:[{step:1}]")
                              MAP("n", "on_error:'fail', "
                                       "inputs:[{step:2}]") SINK("s", "[{"
                                                                      "ste"
                                                                      "p:"
                                                                      "3}"
                                                                      "]")));

    assert_int_equal(p->steps[0].on_error, ON_ERROR_FAIL);
    assert_int_equal(p->steps[1].on_error, ON_ERROR_SKIP);
    assert_int_equal(p->steps[2].on_error, ON_ERROR_FAIL);
    tree_free(&t);
}

static void
flags_of_the_job_follow_its_sources(void **state)
{
    struct tree t;
    const struct plan *p;

    (void)state;
    p = tree_plan(
        &t, NULL,
        JOB("", SRC("a", "connector:'stdin'") SINK("s", "[{step:1}]")));
    assert_true(p->bounded);
    assert_false(p->stateful);
    assert_false(p->checkpoint);
    assert_string_equal(p->checkpoint_off, "source a is not replayable");
    tree_free(&t);

    p = tree_plan(&t, NULL,
                  JOB("checkpoint:false",
                      SRC("a", KAFKA) KEYED(K) SINK("s", "[{step:2}]")));
    assert_false(p->bounded);
    assert_true(p->stateful);
    assert_false(p->checkpoint);
    assert_string_equal(p->checkpoint_off, "by option");
    tree_free(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fan_out_stays_in_one_chain),
        cmocka_unit_test(options_and_groups_cut_chains_and_say_why),
        cmocka_unit_test(another_parallelism_rebalances_and_says_so),
        cmocka_unit_test(a_union_has_the_largest_parallelism_of_its_inputs),
        cmocka_unit_test(rebalance_has_the_jobs_parallelism),
        cmocka_unit_test(a_source_has_no_more_subtasks_than_partitions),
        cmocka_unit_test(parallelism_comes_from_flag_job_slots_cores),
        cmocka_unit_test(slots_needed_is_the_sum_over_groups),
        cmocka_unit_test(small_chains_spread_over_their_group),
        cmocka_unit_test(max_parallelism_bounds_keyed_steps),
        cmocka_unit_test(error_policy_is_the_steps_or_the_jobs),
        cmocka_unit_test(flags_of_the_job_follow_its_sources),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
