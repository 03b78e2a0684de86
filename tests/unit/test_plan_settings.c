#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan_tree.h"

#include "plan/plan_impl.h"

#define IN                                                                     \
    "{kind:'source', name:'in', place:'j.lua:1', connector:'kafka',"           \
    " conn:{topic:'t'}}"
#define STDIN                                                                  \
    "{kind:'source', name:'in', place:'j.lua:1', connector:'stdin', conn:{}}"
#define OUT(name, line, rest)                                                  \
    "{kind:'sink', name:'" name "', place:'j.lua:" line "',"                   \
    " connector:'kafka', conn:{topic:'o', " rest "}, inputs:[{step:1}]}"
#define ONCE "delivery:'exactly_once', "

static void
plan(struct tree *t, const struct plan_conf *conf, const char *options,
     const char *steps)
{
    struct buf job;

    buf_init(&job);
    buf_addf(&job, "{name:'t', file:'j.lua', options:{%s}, steps:[%s]}",
             options, steps);
    (void)tree_plan(t, conf, buf_cstr(&job));
    buf_fini(&job);
}

static void
refuse(const char *options, const char *steps, const char *where,
       const char *msg)
{
    struct buf job;

    buf_init(&job);
    buf_addf(&job, "{name:'t', file:'j.lua', options:{%s}, steps:[%s]}",
             options, steps);
    tree_refused(NULL, buf_cstr(&job), ERR_JOBFILE, where, msg);
    buf_fini(&job);
}

static void
settings_have_their_defaults(void **state)
{
    struct tree t;

    (void)state;
    plan(&t, NULL, "", IN OUT("out", "2", ""));
    assert_true(t.p->checkpoint && t.p->state_lmdb);
    assert_int_equal(t.p->checkpoint_interval_ms, 10000);
    assert_int_equal(t.p->checkpoint_timeout_ms, 600000);
    assert_int_equal(t.p->checkpoint_min_pause_ms, 0);
    assert_int_equal(t.p->checkpoint_tolerable, 0);
    assert_int_equal(t.p->restart_initial_ms, 1000);
    assert_int_equal(t.p->restart_max_ms, 60000);
    assert_int_equal(t.p->restart_attempts, -1);
    assert_false(t.p->exactly_once);
    tree_free(&t);
}

static void
settings_are_those_of_the_job(void **state)
{
    struct tree t;

    (void)state;
    plan(&t, NULL,
         "checkpoint:{interval_ms:1, timeout_ms:2, min_pause_ms:3,"
         " tolerable_failures:4}, restart:{initial_backoff_ms:5,"
         " max_backoff_ms:6, attempts:7}, state:{backend:'memory'}",
         IN OUT("out", "2", ""));
    assert_false(t.p->state_lmdb);
    assert_int_equal(t.p->checkpoint_interval_ms, 1);
    assert_int_equal(t.p->checkpoint_timeout_ms, 2);
    assert_int_equal(t.p->checkpoint_min_pause_ms, 3);
    assert_int_equal(t.p->checkpoint_tolerable, 4);
    assert_int_equal(t.p->restart_initial_ms, 5);
    assert_int_equal(t.p->restart_max_ms, 6);
    assert_int_equal(t.p->restart_attempts, 7);
    tree_free(&t);
}

static int64_t
state_bytes(const char *options)
{
    struct tree t;
    int64_t bytes;

    plan(&t, NULL, options, IN OUT("out", "2", ""));
    bytes = t.p->state_bytes;
    tree_free(&t);
    return bytes;
}

static void
memory_of_state_is_a_share_or_a_size(void **state)
{
    int64_t machine = (int64_t)plan_memory_limit("", plan_memory_machine());
    int64_t all = state_bytes("memory:{state:1.0}");

    (void)state;
    assert_int_equal(state_bytes("memory:{total:1000}"), 600);
    assert_int_equal(state_bytes("memory:{total:1000, state:0.25}"), 250);
    assert_int_equal(state_bytes("memory:{total:1000, state:77}"), 77);
    assert_int_equal(state_bytes("memory:{state:77}"), 77);
    assert_true(all > machine / 100 * 69 && all <= machine / 100 * 71);
}

static void
memory_is_divided_into_state_buffers_and_lua(void **state)
{
    struct tree t;

    (void)state;
    plan(&t, NULL, "memory:{total:1000, buffers:0.1, lua:70}",
         IN OUT("out", "2", ""));
    assert_int_equal(t.p->memory_bytes, 1000);
    assert_int_equal(t.p->state_bytes, 600);
    assert_int_equal(t.p->buffers_bytes, 100);
    assert_int_equal(t.p->lua_bytes, 70);
    tree_free(&t);
    plan(&t, NULL, "memory:{total:1000}", IN OUT("out", "2", ""));
    assert_int_equal(t.p->buffers_bytes, 200);
    assert_int_equal(t.p->lua_bytes, 200);
    tree_free(&t);
}

/* A tree of files that stands for /proc and /sys. */
struct machine {
    char root[64];
    char made[16][256];
    int count;
};

static void
put(struct machine *m, const char *path, const char *text)
{
    char name[256], *at = name;
    FILE *f;

    (void)snprintf(name, sizeof name, "%s%s", m->root, path);
    memcpy(m->made[m->count++], name, sizeof name);
    for (; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(name, 0700);
        *at = '/';
    }
    f = fopen(name, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void
machine_begin(struct machine *m)
{
    memset(m, 0, sizeof *m);
    (void)snprintf(m->root, sizeof m->root, "plan-memory-XXXXXX");
    assert_non_null(mkdtemp(m->root));
}

static void
machine_end(struct machine *m)
{
    char *slash;

    while (m->count > 0) {
        char *name = m->made[--m->count];

        (void)unlink(name);
        while ((slash = strrchr(name, '/')) != NULL) {
            *slash = '\0';
            (void)rmdir(name);
        }
    }
}

static void
a_limit_of_any_cgroup_above_counts(void **state)
{
    struct machine m;

    (void)state;
    machine_begin(&m);
    assert_int_equal(plan_memory_limit(m.root, 900), 900);
    put(&m, "/proc/self/cgroup", "0::/a/b\n");
    assert_int_equal(plan_memory_limit(m.root, 900), 900);
    put(&m, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal(plan_memory_limit(m.root, 900), 900);
    put(&m, "/sys/fs/cgroup/a/memory.max", "500\n");
    assert_int_equal(plan_memory_limit(m.root, 900), 500);
    assert_int_equal(plan_memory_limit(m.root, 400), 400);
    put(&m, "/sys/fs/cgroup/a/b/memory.max", "300\n");
    assert_int_equal(plan_memory_limit(m.root, 900), 300);
    machine_end(&m);
}

static void
the_root_of_a_container_has_a_limit(void **state)
{
    struct machine m;

    (void)state;
    machine_begin(&m);
    put(&m, "/proc/self/cgroup", "0::/\n");
    put(&m, "/sys/fs/cgroup/memory.max", "700\n");
    assert_int_equal(plan_memory_limit(m.root, 900), 700);
    machine_end(&m);
}

static void
cgroups_of_version_1_count_too(void **state)
{
    struct machine m;

    (void)state;
    machine_begin(&m);
    put(&m, "/proc/self/cgroup",
        "5:cpu,cpuacct:/x\n4:hugetlb,memory:/pod/c\n0::/x\n");
    put(&m, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "9223372036854771712\n");
    put(&m, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
    assert_int_equal(plan_memory_limit(m.root, 900), 900);
    put(&m, "/sys/fs/cgroup/memory/pod/c/memory.limit_in_bytes", "250\n");
    assert_int_equal(plan_memory_limit(m.root, 900), 250);
    machine_end(&m);
}

static void
max_parallelism_is_the_jobs_then_that_of_the_state(void **state)
{
    struct plan_conf conf = {.max_parallelism = 200};
    struct tree t;

    (void)state;
    plan(&t, &conf, "parallelism:4", IN OUT("out", "2", ""));
    assert_int_equal(t.p->max_parallelism, 200);
    tree_free(&t);

    plan(&t, &conf, "parallelism:4, max_parallelism:64",
         IN OUT("out", "2", ""));
    assert_int_equal(t.p->max_parallelism, 64);
    tree_free(&t);

    conf.max_parallelism = 2;
    conf.cores = 16;
    plan(&t, &conf, "", IN OUT("out", "2", ""));
    assert_int_equal(t.p->parallelism, 2);
    tree_free(&t);
}

static void
exactly_once_sinks_share_a_transaction(void **state)
{
    struct tree t;

    (void)state;
    plan(&t, NULL, "parallelism:2",
         IN OUT("plain", "2", "") OUT("a", "3", ONCE) OUT("b", "4", ONCE));
    assert_true(t.p->exactly_once);
    assert_string_equal(t.p->txn_prefix, "streamlua-t");
    assert_string_equal(t.p->steps[t.p->txn_step].name, "a");
    tree_free(&t);

    plan(&t, NULL, "parallelism:2, bootstrap_servers:'x:1'",
         IN OUT("a", "3", ONCE "transactional_id_prefix:'p', ")
             OUT("b", "4",
                 ONCE "transactional_id_prefix:'p', bootstrap_servers:'x:1'"));
    assert_string_equal(t.p->txn_prefix, "p");
    tree_free(&t);
}

static void
two_targets_that_decide_a_round_are_refused(void **state)
{
    (void)state;
    refuse("parallelism:2",
           IN OUT("a", "3", ONCE) OUT("plain", "4", "bootstrap_servers:'y:1'")
               OUT("b", "5", ONCE "transactional_id_prefix:'p'"),
           "j.lua:5",
           "sink: a job has at most one target that decides a round, but the "
           "exactly_once sinks a (j.lua:3) and b differ in "
           "transactional_id_prefix: \"streamlua-t\" and \"p\"");
    refuse("bootstrap_servers:'x:1'",
           IN OUT("a", "3", ONCE) OUT("b", "4", ONCE "bootstrap_servers:'y:1'"),
           "j.lua:4",
           "sink: a job has at most one target that decides a round, but the "
           "exactly_once sinks a (j.lua:3) and b differ in "
           "bootstrap_servers: \"x:1\" and \"y:1\"");
}

static void
exactly_once_needs_checkpoints(void **state)
{
    (void)state;
    refuse("checkpoint:false", IN OUT("out", "2", ONCE), "j.lua:2",
           "sink: delivery = \"exactly_once\" needs checkpoints, but the job "
           "says checkpoint = false");
    refuse("", STDIN OUT("out", "2", ONCE), "j.lua:2",
           "sink: delivery = \"exactly_once\" needs checkpoints, but source in "
           "is not replayable");
}

static void
properties_that_break_transactions_are_refused(void **state)
{
    struct tree t;

    (void)state;
    refuse("", IN OUT("out", "2", ONCE "properties:{acks:'1'}"), "j.lua:2",
           "sink: the property acks = 1 breaks delivery = \"exactly_once\"; "
           "remove it, the engine sets it");
    refuse("properties:{'enable.idempotence':'false'}",
           IN OUT("out", "2", ONCE), "j.lua:2",
           "sink: the property enable.idempotence = false breaks delivery = "
           "\"exactly_once\"; remove it, the engine sets it");
    refuse("", IN OUT("out", "2", ONCE "properties:{'transactional.id':'x'}"),
           "j.lua:2",
           "sink: the property transactional.id = x breaks delivery = "
           "\"exactly_once\"; remove it, the ids begin with "
           "transactional_id_prefix");
    plan(&t, NULL, "properties:{'acks':'1'}",
         IN OUT("out", "2", "delivery:'none'"));
    tree_free(&t);
    plan(&t, NULL, "properties:{'acks':'all'}", IN OUT("out", "2", ONCE));
    tree_free(&t);
}

static void
each_sink_says_what_it_guarantees(void **state)
{
    struct tree t;

    (void)state;
    plan(&t, NULL, "checkpoint:{interval_ms:1500}",
         IN OUT("e", "2", ONCE) OUT("l", "3", "")
             OUT("n", "4",
                 "delivery:'none'") "{kind:'sink', name:'f', place:'j.lua:5', "
                                    "connector:'file',"
                                    " conn:{path:'d'}, inputs:[{step:1}]}");
    assert_true(tree_has_why(tree_step(t.p, "e", STEP_SINK),
                             "exactly_once: rows become visible with their "
                             "checkpoint, up to 1500ms after they are "
                             "written"));
    assert_true(tree_has_why(tree_step(t.p, "l", STEP_SINK),
                             "at_least_once: rows may repeat after a "
                             "restart"));
    assert_true(tree_has_why(tree_step(t.p, "n", STEP_SINK),
                             "none: rows may be lost, and may repeat after a "
                             "restart"));
    assert_true(tree_has_why(tree_step(t.p, "f", STEP_SINK),
                             "exactly_once: parts become visible with their "
                             "checkpoint, up to 1500ms after they are "
                             "closed"));
    tree_free(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_have_their_defaults),
        cmocka_unit_test(settings_are_those_of_the_job),
        cmocka_unit_test(memory_of_state_is_a_share_or_a_size),
        cmocka_unit_test(memory_is_divided_into_state_buffers_and_lua),
        cmocka_unit_test(a_limit_of_any_cgroup_above_counts),
        cmocka_unit_test(the_root_of_a_container_has_a_limit),
        cmocka_unit_test(cgroups_of_version_1_count_too),
        cmocka_unit_test(max_parallelism_is_the_jobs_then_that_of_the_state),
        cmocka_unit_test(exactly_once_sinks_share_a_transaction),
        cmocka_unit_test(two_targets_that_decide_a_round_are_refused),
        cmocka_unit_test(exactly_once_needs_checkpoints),
        cmocka_unit_test(properties_that_break_transactions_are_refused),
        cmocka_unit_test(each_sink_says_what_it_guarantees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
