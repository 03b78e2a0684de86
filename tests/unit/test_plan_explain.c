#include "plan_tree.h"

static const char tenant[] =
    "{name:'tenant-metrics', file:'tenant.lua', options:{parallelism:4,"
    " checkpoint:{interval_ms:10000}, mini_batch:{allow_latency_ms:5000,"
    " size:50000, bytes:33554432}, state:{backend:'lmdb'}},"
    "steps:["
    "{kind:'source', name:'events', place:'tenant.lua:6', connector:'kafka',"
    " conn:{topic:'events', format:'json', start:'earliest'}, inputs:[]},"
    "{kind:'event_time', name:'event_time-1', auto:true,"
    " place:'tenant.lua:7', inputs:[{step:1, output:'main'}], field:'ts',"
    " unit:'ms', out_of_orderness_ms:5000, idle_ms:30000, all_idle_ms:-1,"
    " max_future_ms:-1},"
    "{kind:'filter', name:'filter-1', auto:true, place:'tenant.lua:8',"
    " inputs:[{step:2}], func:@1},"
    "{kind:'aggregate', name:'aggregate-1', auto:true,"
    " place:'tenant.lua:11', key_place:'tenant.lua:9', inputs:[{step:3}],"
    " key:[{name:'tenant_id', field:'tenant_id'},"
    "  {name:'metric_name', field:'metric_name'},"
    "  {name:'dimensions', field:'dimensions'}], on_null:'skip',"
    " window:{kind:'tumbling', size_ms:60000, offset_ms:0,"
    "  place:'tenant.lua:10'}, lateness_ms:0,"
    " aggs:[{name:'mean', fn:'avg', args:[{field:'value'}]},"
    "  {name:'n', fn:'count', args:[]},"
    "  {name:'p99', fn:'percentile', args:[{field:'value'}], q:0.99,"
    "   q_text:['0.99'], error:0.01},"
    "  {name:'total', fn:'sum', args:[{field:'value'}], overflow:'error'},"
    "  {name:'users', fn:'distinct', args:[{field:'user'}]}]},"
    "{kind:'sink', name:'out', place:'tenant.lua:13', inputs:[{step:4}],"
    " connector:'kafka', conn:{topic:'metrics-1m', delivery:'exactly_once'}}"
    "]}";

static const char tenant_text[] =
    "job tenant-metrics (tenant.lua)\n"
    "  parallelism 4, max parallelism 128, slots needed 4\n"
    "  checkpoint every 10s, state backend lmdb\n"
    "  mini_batch allow_latency=5s size=50000 bytes=32MiB\n"
    "chain 1, parallelism 4, group default\n"
    "  1 source events: kafka topic=events format=json start=earliest "
    "(tenant.lua:6)\n"
    "  2 event_time event_time-1: field=ts unit=ms out_of_orderness=5s "
    "idle=30s all_idle=hold (tenant.lua:7)\n"
    "  3 filter filter-1: lua (tenant.lua:8)\n"
    "  4 local_aggregate aggregate-1: key=[tenant_id, metric_name, "
    "dimensions] window=tumbling(1m) select=[mean=avg(value), n=count(), "
    "p99=percentile(value, 0.99), total=sum(value), users=distinct(user)] "
    "(tenant.lua:11)\n"
    "    why: TWO_PHASE by AUTO: all 5 aggregates merge\n"
    "exchange hash [tenant_id, metric_name, dimensions], partials\n"
    "chain 2, parallelism 4, group default\n"
    "  5 global_aggregate aggregate-1: key=[tenant_id, metric_name, "
    "dimensions] window=tumbling(1m) lateness=0s (tenant.lua:11)\n"
    "  6 sink out: kafka topic=metrics-1m delivery=exactly_once "
    "(tenant.lua:13)\n"
    "    why: exactly_once: rows become visible with their checkpoint, up to "
    "10s after the window fires\n";

static const char prices[] =
    "{name:'prices', file:'prices.lua', options:{parallelism:2},"
    "steps:["
    "{kind:'source', name:'in', place:'prices.lua:7', connector:'stdin',"
    " conn:{}},"
    "{kind:'event_time', name:'event_time-1', auto:true,"
    " place:'prices.lua:8', inputs:[{step:1}], field:'ts', unit:'ms',"
    " out_of_orderness_ms:0, idle_ms:30000, all_idle_ms:-1},"
    "{kind:'aggregate', name:'aggregate-1', auto:true,"
    " place:'prices.lua:10', inputs:[{step:2}],"
    " key:[{name:'sym', field:'sym'}], on_null:'skip',"
    " window:{kind:'tumbling', size_ms:60000}, lateness_ms:0,"
    " aggs:[{name:'mid', fn:'custom', place:'prices.lua:3',"
    "  args:[{field:'price'}], init:@1, add:@2, result:@3}]},"
    "{kind:'sink', name:'out', place:'prices.lua:11', inputs:[{step:3}],"
    " connector:'stdout', conn:{format:'json'}}]}";

static const char prices_text[] =
    "job prices (prices.lua)\n"
    "  parallelism 2, max parallelism 128, slots needed 2\n"
    "  checkpoint off: source in is not replayable\n"
    "  mini_batch allow_latency=1s size=50000 bytes=32MiB\n"
    "chain 1, parallelism 1, group default\n"
    "  1 source in: stdin format=json (prices.lua:7)\n"
    "  2 event_time event_time-1: field=ts unit=ms out_of_orderness=0s "
    "idle=30s all_idle=hold (prices.lua:8)\n"
    "exchange hash [sym], records\n"
    "chain 2, parallelism 2, group default\n"
    "  3 aggregate aggregate-1: key=[sym] window=tumbling(1m) lateness=0s "
    "select=[mid=mid] (prices.lua:10)\n"
    "    why: ONE_PHASE: aggregator mid has no merge (prices.lua:3)\n"
    "  4 sink out: stdout format=json (prices.lua:11)\n"
    "warning: source in is not replayable: no checkpoints, no restore "
    "(prices.lua:7)\n";

/* Union, rebalance, fan-out, two keyed branches. */
static const char graph[] =
    "{name:'t', file:'job.lua', options:{parallelism:1}, steps:["
    "{kind:'source', name:'a', place:'job.lua:4', connector:'file',"
    " conn:{path:'a.jsonl'}},"
    "{kind:'event_time', name:'event_time-1', place:'job.lua:4', auto:true,"
    " inputs:[{step:1}], field:'ts', unit:'ms', out_of_orderness_ms:0,"
    " idle_ms:30000, all_idle_ms:-1},"
    "{kind:'source', name:'b', place:'job.lua:5', connector:'file',"
    " conn:{path:'b.jsonl'}},"
    "{kind:'event_time', name:'event_time-2', place:'job.lua:5', auto:true,"
    " inputs:[{step:3}], field:'ts', unit:'ms', out_of_orderness_ms:0,"
    " idle_ms:30000, all_idle_ms:-1},"
    "{kind:'map', name:'map-1', place:'job.lua:6', func:@1,"
    " inputs:[{step:2, rebalance:true}, {step:4, rebalance:true}]},"
    "{kind:'aggregate', name:'aggregate-1', place:'job.lua:7',"
    " inputs:[{step:5}], key:[{name:'k', field:'k'}], on_null:'skip',"
    " window:{kind:'hopping', size_ms:10000, slide_ms:5000},"
    " aggs:[{name:'n', fn:'count', args:[]}]},"
    "{kind:'sink', name:'out', place:'job.lua:7', inputs:[{step:6}],"
    " connector:'stdout', conn:{format:'json'}},"
    "{kind:'aggregate', name:'aggregate-2', place:'job.lua:8',"
    " inputs:[{step:5}], key:[{name:'k', field:'k'}, {name:'j', field:'j'}],"
    " on_null:'skip', window:{kind:'tumbling', size_ms:90000,"
    " offset_ms:1500}, aggs:[{name:'n', fn:'sum', args:[{field:'v'}]}]},"
    "{kind:'sink', name:'out2', place:'job.lua:8', inputs:[{step:8}],"
    " connector:'blackhole', conn:{format:'json'}}]}";

static const char graph_text[] =
    "job t (job.lua)\n"
    "  parallelism 4, max parallelism 128, slots needed 4\n"
    "  checkpoint every 10s, state backend lmdb\n"
    "  mini_batch allow_latency=1s size=50000 bytes=32MiB\n"
    "chain 1, parallelism 1, group default\n"
    "  1 source a: file path=a.jsonl format=json (job.lua:4)\n"
    "  2 event_time event_time-1: field=ts unit=ms out_of_orderness=0s "
    "idle=30s all_idle=hold (job.lua:4)\n"
    "chain 2, parallelism 1, group default\n"
    "  3 source b: file path=b.jsonl format=json (job.lua:5)\n"
    "  4 event_time event_time-2: field=ts unit=ms out_of_orderness=0s "
    "idle=30s all_idle=hold (job.lua:5)\n"
    "exchange rebalance, records <- 2, 4\n"
    "chain 3, parallelism 4, group default\n"
    "  5 map map-1: lua (job.lua:6)\n"
    "  6 local_aggregate aggregate-1: key=[k] window=hopping(10s, 5s) "
    "select=[n=count()] (job.lua:7)\n"
    "    why: TWO_PHASE by AUTO: the aggregate merges\n"
    "exchange hash [k], partials\n"
    "chain 4, parallelism 4, group default\n"
    "  7 global_aggregate aggregate-1: key=[k] window=hopping(10s, 5s) "
    "lateness=0s (job.lua:7)\n"
    "  8 sink out: stdout format=json (job.lua:7)\n"
    "    why: at_least_once: rows may repeat after a restart\n"
    "chain 3, parallelism 4, group default <- 5\n"
    "  9 local_aggregate aggregate-2: key=[k, j] window=tumbling(90s, "
    "offset=1500ms) select=[n=sum(v)] (job.lua:8)\n"
    "    why: TWO_PHASE by AUTO: the aggregate merges\n"
    "exchange hash [k, j], partials\n"
    "chain 5, parallelism 4, group default\n"
    "  10 global_aggregate aggregate-2: key=[k, j] window=tumbling(90s, "
    "offset=1500ms) lateness=0s (job.lua:8)\n"
    "  11 sink out2: blackhole format=json (job.lua:8)\n"
    "    why: at_least_once: rows may repeat after a restart\n";

static void
expect_text(const struct plan_conf *conf, const char *job, const char *text)
{
    struct tree t;
    struct buf out;

    buf_init(&out);
    plan_explain_text(tree_plan(&t, conf, job), &out);
    assert_string_equal(buf_cstr(&out), text);
    buf_fini(&out);
    tree_free(&t);
}

static void
text_of_tenant_metrics_is_the_contracts(void **state)
{
    (void)state;
    expect_text(NULL, tenant, tenant_text);
}

static void
text_of_prices_is_the_contracts(void **state)
{
    (void)state;
    expect_text(NULL, prices, prices_text);
}

static void
text_of_a_graph_names_inputs_and_returns_to_chains(void **state)
{
    struct plan_conf conf = {.parallelism = 4, .cores = 2};

    (void)state;
    expect_text(&conf, graph, graph_text);
}

static void
expect_step(const char *step, const char *text)
{
    struct tree t;
    struct buf job, out;

    buf_init(&job);
    buf_init(&out);
    buf_addf(&job,
             "{name:'t', file:'j.lua', options:{checkpoint:false}, steps:["
             "{kind:'source', name:'in', place:'j.lua:1', connector:'file',"
             " conn:{path:'none'}}, {kind:'event_time', name:'time',"
             " place:'j.lua:2', inputs:[{step:1}]}, %s,"
             "{kind:'sink', name:'s', place:'j.lua:4', inputs:[{step:3}],"
             " connector:'blackhole'}]}",
             step);
    plan_explain_text(tree_plan(&t, NULL, buf_cstr(&job)), &out);
    if (strstr(buf_cstr(&out), text) == NULL)
        fail_msg("no \"%s\" in:\n%s", text, buf_cstr(&out));
    buf_fini(&out);
    buf_fini(&job);
    tree_free(&t);
}

static void
arguments_are_written_as_the_job_said_them(void **state)
{
    (void)state;

    expect_step("{kind:'select', name:'x', place:'j.lua:3',"
                " inputs:[{step:2}], cols:[{name:'a', field:'a'},"
                " {name:'c', field:'b.c'}, {name:'d', field:'b.c'},"
                " {name:'e', func:@1}, {name:'f.g', field:'f\\\\.g'}]}",
                "  3 select x: select=[a, b.c, d=b.c, e=lua, f.g=f");
    expect_step("{kind:'aggregate', name:'x', place:'j.lua:3', key:[],"
                " inputs:[{step:2}], on_null:'fail', window:{kind:'global'},"
                " late_output:'late', lateness_ms:90000,"
                " aggs:[{name:'a', fn:'min_by', args:[{field:'p'},"
                "  {field:'x.y'}], what:['y'], what_list:false}, {name:'b', "
                "fn:'max_by',"
                "  args:[{func:@1}, {field:'x'}, {field:'y'}],"
                "  what:['x', 'y'], what_list:true},"
                " {name:'c', fn:'percentile', args:[{field:'v'}],"
                "  q:[0.5, 1], q_text:['0.50', '1'], error:0.05},"
                " {name:'d', fn:'sum', args:[{field:'v'}], as:'float',"
                "  overflow:'string'}]}",
                "local_aggregate x: key=[] window=global() late_output=late "
                "on_null=fail select=[a=min_by(p, x.y), "
                "b=max_by(lua, [x, y]), c=percentile(v, [0.50, 1], "
                "error=0.05), d=sum(v, as=float, "
                "overflow=string)] (j.lua:3)");
}

static void
json_has_the_contracts_shape(void **state)
{
    static const char step5[] =
        "{\"id\":5,\"name\":\"aggregate-1\",\"kind\":\"global_aggregate\","
        "\"parallelism\":4,\"chain\":2,\"group\":\"default\","
        "\"place\":\"tenant.lua:11\",\"inputs\":[{\"step\":4,"
        "\"output\":\"main\",\"exchange\":\"hash\",\"carries\":\"partials\","
        "\"keys\":[\"tenant_id\",\"metric_name\",\"dimensions\"]}],"
        "\"options\":{\"key\":[\"tenant_id\",\"metric_name\","
        "\"dimensions\"],\"on_null\":\"skip\",\"window\":{\"kind\":"
        "\"tumbling\",\"size_ms\":60000,\"offset_ms\":0,\"place\":"
        "\"tenant.lua:10\"},\"lateness_ms\":0},\"select\":[{\"name\":"
        "\"mean\",\"aggregate\":\"avg(value)\"}";
    struct tree t;
    struct buf out;

    (void)state;
    buf_init(&out);
    plan_explain_json(tree_plan(&t, NULL, tenant), &out);

    assert_non_null(
        strstr(buf_cstr(&out),
               "{\"job\":\"tenant-metrics\",\"file\":\"tenant.lua\","
               "\"parallelism\":4,\"max_parallelism\":128,\"slots_needed\":4,"
               "\"checkpoint\":{\"interval_ms\":10000},\"steps\":[{\"id\":1,"));
    assert_non_null(strstr(buf_cstr(&out), step5));
    assert_non_null(strstr(buf_cstr(&out),
                           "\"why\":[\"TWO_PHASE by AUTO: all 5 aggregates "
                           "merge\"]"));
    assert_non_null(strstr(buf_cstr(&out), "],\"warnings\":[]}\n"));
    buf_fini(&out);
    tree_free(&t);
}

static void
json_shows_no_secrets(void **state)
{
    struct tree t;
    struct buf out;

    (void)state;
    buf_init(&out);
    plan_explain_json(
        tree_plan(&t, NULL,
                  "{name:'t', file:'j', steps:[{kind:'source', name:'a',"
                  " place:'j:1', connector:'kafka', conn:{topic:'t',"
                  " properties:{'sasl.password':'hunter2',"
                  " 'sasl.username':'me'}}}, {kind:'sink', name:'s',"
                  " place:'j:2', connector:'stdout', inputs:[{step:1}]}]}"),
        &out);

    assert_null(strstr(buf_cstr(&out), "hunter2"));
    assert_non_null(strstr(buf_cstr(&out), "\"sasl.password\":\"***\""));
    assert_non_null(strstr(buf_cstr(&out), "\"sasl.username\":\"me\""));
    buf_fini(&out);
    tree_free(&t);
}

static void
dot_has_a_cluster_a_chain_and_an_arrow_an_edge(void **state)
{
    struct plan_conf conf = {.parallelism = 4};
    struct tree t;
    struct buf out;
    const struct plan *p;
    const char *at;
    uint32_t clusters = 0, arrows = 0;

    (void)state;
    buf_init(&out);
    p = tree_plan(&t, &conf, graph);
    plan_explain_dot(p, &out);

    for (at = buf_cstr(&out); (at = strstr(at, "subgraph")) != NULL; at++)
        clusters++;
    for (at = buf_cstr(&out); (at = strstr(at, " -> ")) != NULL; at++)
        arrows++;
    assert_int_equal(clusters, p->chain_count);
    assert_int_equal(arrows, p->edge_count);
    assert_non_null(
        strstr(buf_cstr(&out), "s6 -> s7 [label=\"hash [k], partials\""));
    buf_fini(&out);
    tree_free(&t);
}

static void
durations_use_the_largest_unit_that_divides(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{0, "0s"},        {1, "1ms"},         {1500, "1500ms"},
                {90000, "90s"},   {60000, "1m"},      {5400000, "90m"},
                {86400000, "1d"}, {-28800000, "-8h"}, {36000000, "10h"}};
    struct buf out;
    size_t i;

    (void)state;
    buf_init(&out);
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_clear(&out);
        plan_put_duration(&out, rows[i].ms);
        assert_string_equal(buf_cstr(&out), rows[i].text);
    }
    buf_fini(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_tenant_metrics_is_the_contracts),
        cmocka_unit_test(text_of_prices_is_the_contracts),
        cmocka_unit_test(text_of_a_graph_names_inputs_and_returns_to_chains),
        cmocka_unit_test(arguments_are_written_as_the_job_said_them),
        cmocka_unit_test(json_has_the_contracts_shape),
        cmocka_unit_test(json_shows_no_secrets),
        cmocka_unit_test(dot_has_a_cluster_a_chain_and_an_arrow_an_edge),
        cmocka_unit_test(durations_use_the_largest_unit_that_divides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
