/*
 * The sample jobs of the manual in a box: input in, rows out, whatever the
 * seed, the strategy and the parallelism, and with a crash after each step.
 */
#include "sim_util.h"

#include "base/log.h"

/* clang-format off */
static const struct sample {
    const char *name, *options, *job;
    const char *in[8], *out; /* rows of "out" at the end, sorted */
} samples[] = {
    {"tenant_metrics",
     "parallelism = 4, checkpoint = { interval = \"10s\" }, mini_batch = { allow_latency = \"5s\", size = 50000, bytes = \"32MiB\" }",
     "job:source(\"in\", s.kafka { topic = \"events\", format = \"json\", start = \"earliest\" })\n"
     "   :event_time { field = \"ts\", out_of_orderness = \"5s\", idle = \"30s\" }\n"
     "   :filter(function(e) return e.value ~= nil end)\n"
     "   :key_by { \"tenant_id\", \"metric_name\", \"dimensions\" }\n"
     "   :window(s.tumbling \"1m\")\n"
     "   :aggregate { total = s.sum \"value\", n = s.count(), mean = s.avg \"value\",\n"
     "                p99 = s.percentile(\"value\", 0.99), users = s.distinct \"user\" }\n"
     "   :sink(\"out\", s.kafka { topic = \"metrics-1m\", delivery = \"exactly_once\" })\n",
     {"{\"tenant_id\":\"a\",\"metric_name\":\"cpu\",\"dimensions\":{\"host\":\"h1\",\"dc\":\"x\"},\"value\":10,\"user\":\"u1\",\"ts\":1000}",
      "{\"tenant_id\":\"a\",\"metric_name\":\"cpu\",\"dimensions\":{\"dc\":\"x\",\"host\":\"h1\"},\"value\":20,\"user\":\"u2\",\"ts\":59999}",
      "{\"tenant_id\":\"a\",\"metric_name\":\"cpu\",\"dimensions\":{\"dc\":\"x\",\"host\":\"h1\"},\"value\":null,\"user\":\"u3\",\"ts\":30000}",
      "{\"tenant_id\":\"b\",\"metric_name\":\"cpu\",\"dimensions\":{},\"value\":5,\"user\":\"u1\",\"ts\":60000}",
      "{\"tenant_id\":\"a\",\"metric_name\":\"cpu\",\"dimensions\":{\"host\":\"h1\",\"dc\":\"x\"},\"value\":2.5,\"user\":\"u1\",\"ts\":65000}"},
     "{\"tenant_id\":\"a\",\"metric_name\":\"cpu\",\"dimensions\":{\"dc\":\"x\",\"host\":\"h1\"},\"window_start\":0,\"window_end\":60000,\"mean\":15.0,\"n\":2,\"p99\":20.0,\"total\":30,\"users\":2}\n"
     "{\"tenant_id\":\"a\",\"metric_name\":\"cpu\",\"dimensions\":{\"dc\":\"x\",\"host\":\"h1\"},\"window_start\":60000,\"window_end\":120000,\"mean\":2.5,\"n\":1,\"p99\":2.5,\"total\":2.5,\"users\":1}\n"
     "{\"tenant_id\":\"b\",\"metric_name\":\"cpu\",\"dimensions\":{},\"window_start\":60000,\"window_end\":120000,\"mean\":5.0,\"n\":1,\"p99\":5.0,\"total\":5,\"users\":1}\n"},
    {"word_count",
     "",
     "job:source(\"in\", s.file { path = \"in.txt\", format = \"text\" })\n"
     "   :flat_map(function(e, emit) for w in e.value:gmatch \"%a+\" do emit { word = w:lower() } end end)\n"
     "   :key_by \"word\" :window(s.global()) :aggregate { n = s.count() } :sink(\"out\", s.stdout())\n",
     {"To be or not to be",
      "Be"},
     "{\"word\":\"be\",\"n\":3}\n"
     "{\"word\":\"not\",\"n\":1}\n"
     "{\"word\":\"or\",\"n\":1}\n"
     "{\"word\":\"to\",\"n\":2}\n"},
    {"q0",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):sink(\"out\", s.stdout())\n",
     {"{\"a\": 1 , \"b\":[]}"},
     "{\"a\": 1 , \"b\":[]}\n"},
    {"q1",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):map(function(e) e.price = e.price * 0.908; return e end):sink(\"out\", s.stdout())\n",
     {"{\"auction\":1,\"price\":100,\"bidder\":7}",
      "{\"auction\":2,\"price\":250,\"bidder\":8}"},
     "{\"auction\":1,\"price\":90.8,\"bidder\":7}\n"
     "{\"auction\":2,\"price\":227.0,\"bidder\":8}\n"},
    {"q2",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):filter(function(e) return e.auction % 123 == 0 end):select { \"auction\", \"price\" }:sink(\"out\", s.stdout())\n",
     {"{\"price\":5,\"auction\":246}",
      "{\"price\":6,\"auction\":247}"},
     "{\"auction\":246,\"price\":5}\n"},
    {"q5",
     "",
     "local counts = job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" }\n"
     "   :key_by \"auction\" :window(s.hopping(\"4s\", \"2s\")) :aggregate({ n = s.count() }, { name = \"counts\" })\n"
     "counts:key_by {} :window(s.same()) :top_n { n = 1, by = \"n\", ties = true } :sink(\"out\", s.stdout())\n",
     {"{\"auction\":1,\"bidder\":11,\"price\":100,\"ts\":1000}",
      "{\"auction\":2,\"bidder\":12,\"price\":250,\"ts\":3000}",
      "{\"auction\":2,\"bidder\":15,\"price\":120,\"ts\":3500}",
      "{\"auction\":1,\"bidder\":13,\"price\":250,\"ts\":5000}",
      "{\"auction\":3,\"bidder\":14,\"price\":90,\"ts\":12000}"},
     "{\"auction\":1,\"window_start\":-2000,\"window_end\":2000,\"n\":1,\"rank\":1}\n"
     "{\"auction\":1,\"window_start\":4000,\"window_end\":8000,\"n\":1,\"rank\":1}\n"
     "{\"auction\":2,\"window_start\":0,\"window_end\":4000,\"n\":2,\"rank\":1}\n"
     "{\"auction\":2,\"window_start\":2000,\"window_end\":6000,\"n\":2,\"rank\":1}\n"
     "{\"auction\":3,\"window_start\":10000,\"window_end\":14000,\"n\":1,\"rank\":1}\n"
     "{\"auction\":3,\"window_start\":12000,\"window_end\":16000,\"n\":1,\"rank\":1}\n"},
    {"q7",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" } :key_by {} :window(s.tumbling \"10s\")\n"
     "   :aggregate { price = s.max \"price\", bidder = s.max_by(\"price\", \"bidder\"), auction = s.max_by(\"price\", \"auction\") }\n"
     "   :sink(\"out\", s.stdout())\n",
     {"{\"auction\":1,\"bidder\":11,\"price\":100,\"ts\":1000}",
      "{\"auction\":2,\"bidder\":12,\"price\":250,\"ts\":3000}",
      "{\"auction\":2,\"bidder\":15,\"price\":120,\"ts\":3500}",
      "{\"auction\":1,\"bidder\":13,\"price\":250,\"ts\":5000}",
      "{\"auction\":3,\"bidder\":14,\"price\":90,\"ts\":12000}"},
     "{\"window_start\":0,\"window_end\":10000,\"auction\":2,\"bidder\":12,\"price\":250}\n"
     "{\"window_start\":10000,\"window_end\":20000,\"auction\":3,\"bidder\":14,\"price\":90}\n"},
    {"dedup",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" } :key_by \"id\" :dedup { keep = \"first\", ttl = \"1h\" } :sink(\"out\", s.stdout())\n",
     {"{\"id\":\"x\",\"v\":1,\"ts\":0}",
      "{\"id\":\"y\",\"v\":2,\"ts\":5}",
      "{\"id\":\"x\",\"v\":3,\"ts\":9}"},
     "{\"id\":\"x\",\"v\":1,\"ts\":0}\n"
     "{\"id\":\"y\",\"v\":2,\"ts\":5}\n"},
    {"top_n",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" } :key_by \"cat\" :window(s.tumbling \"10s\") :top_n { n = 2, by = \"price\" } :sink(\"out\", s.stdout())\n",
     {"{\"cat\":\"a\",\"item\":1,\"price\":10,\"ts\":0}",
      "{\"cat\":\"a\",\"item\":2,\"price\":30,\"ts\":1}",
      "{\"cat\":\"a\",\"item\":3,\"price\":20,\"ts\":2}",
      "{\"cat\":\"b\",\"item\":4,\"price\":5,\"ts\":3}"},
     "{\"cat\":\"a\",\"item\":2,\"price\":30,\"ts\":1,\"window_start\":0,\"window_end\":10000,\"rank\":1}\n"
     "{\"cat\":\"a\",\"item\":3,\"price\":20,\"ts\":2,\"window_start\":0,\"window_end\":10000,\"rank\":2}\n"
     "{\"cat\":\"b\",\"item\":4,\"price\":5,\"ts\":3,\"window_start\":0,\"window_end\":10000,\"rank\":1}\n"},
    {"fraud",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" } :key_by \"account\"\n"
     "   :process { name = \"fraud\", state = { small = s.value_state() },\n"
     "     on_record = function(e, ctx)\n"
     "       local t0 = ctx.state.small:get()\n"
     "       if t0 and e.amount > 500 and e.ts - t0 <= 60000 then\n"
     "         ctx:emit { account = e.account, amount = e.amount, at = e.ts }\n"
     "       end\n"
     "       ctx.state.small:clear()\n"
     "       if e.amount < 1 then\n"
     "         ctx.state.small:set(e.ts)\n"
     "         ctx:register_event_timer(e.ts + 60000)\n"
     "       end\n"
     "     end,\n"
     "     on_timer = function(ts, ctx)\n"
     "       if ctx.state.small:get() == ts - 60000 then ctx.state.small:clear() end\n"
     "     end }\n"
     "   :sink(\"out\", s.stdout())\n",
     {"{\"account\":1,\"amount\":0.5,\"ts\":1000}",
      "{\"account\":1,\"amount\":600,\"ts\":30000}",
      "{\"account\":2,\"amount\":0.9,\"ts\":40000}",
      "{\"account\":2,\"amount\":700,\"ts\":120000}"},
     "{\"account\":1,\"amount\":600,\"at\":30000}\n"},
    {"source_and_sink_in_lua",
     "",
     "local src = s.source { read = function(position, max) return nil end }\n"
     "job:source(\"in\", src):sink(\"out\", s.sink { write = function(batch) error(\"nobody calls it\") end })\n",
     {"{\"i\":1}",
      "{\"i\":2}"},
     "{\"i\":1}\n"
     "{\"i\":2}\n"},
    {"weighted_average",
     "",
     "local vwap = s.aggregator { args = { \"price\", \"qty\" },\n"
     "  init    = function() return { 0, 0 } end,\n"
     "  add     = function(a, p, q) a[1] = a[1] + p * q; a[2] = a[2] + q; return a end,\n"
     "  merge   = function(a, b) a[1] = a[1] + b[1]; a[2] = a[2] + b[2]; return a end,\n"
     "  result  = function(a) if a[2] ~= 0 then return a[1] / a[2] end end }\n"
     "job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" } :key_by \"sym\" :window(s.tumbling \"1m\")\n"
     "   :aggregate { { \"vwap\", vwap }, { \"vol\", s.sum \"qty\" } } :sink(\"out\", s.stdout())\n",
     {"{\"sym\":\"x\",\"price\":10,\"qty\":1,\"ts\":0}",
      "{\"sym\":\"x\",\"price\":20,\"qty\":3,\"ts\":10}"},
     "{\"sym\":\"x\",\"window_start\":0,\"window_end\":60000,\"vwap\":17.5,\"vol\":4}\n"},
    {"generator",
     "",
     "job:source(\"in\", s.generator { count = 100000, fields = {\n"
     "     k = s.gen.cycle { \"hot\", \"cold\" }, ts = s.gen.time { start = 0, step = \"1ms\" }, v = s.gen.sequence {} } })\n"
     "   :event_time { field = \"ts\" } :key_by \"k\" :window(s.tumbling \"1m\")\n"
     "   :aggregate { n = s.count(), max = s.max \"v\" } :sink(\"out\", s.stdout())\n",
     {"{\"k\":\"hot\",\"ts\":5,\"v\":7}",
      "{\"k\":\"hot\",\"ts\":6,\"v\":3}"},
     "{\"k\":\"hot\",\"window_start\":0,\"window_end\":60000,\"max\":7,\"n\":2}\n"},
    {"cdc",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" })\n"
     "   :filter(function(e) return not s.is_tombstone(e) end)\n"
     "   :event_time { field = \"ts_ms\" }\n"
     "   :map(function(e) if e.op == \"d\" then return s.tombstone { id = e.before.id } end return e.after end)\n"
     "   :sink(\"out\", s.stdout { envelope = true, key = \"id\" })\n",
     {"{\"op\":\"c\",\"before\":null,\"after\":{\"name\":\"ann\",\"id\":1},\"ts_ms\":10}",
      "{\"op\":\"d\",\"before\":{\"id\":1,\"name\":\"ann\"},\"after\":null,\"ts_ms\":20}"},
     "{\"id\":1}\n"
     "{\"name\":\"ann\",\"id\":1}\n"},
    {"fan_out",
     "",
     "local p = job:source(\"in\", s.stdin { format = \"json\" }):split(function(e) return e.level == \"error\" and \"errors\" or \"rest\" end, { \"errors\", \"rest\" })\n"
     "p.errors:sink(\"out\", s.file { path = \"errors\" })\n"
     "p.rest:sink(\"rest\", s.file { path = \"rest\" }):sink(\"count\", s.blackhole())\n",
     {"{\"level\":\"error\",\"m\":\"x\"}",
      "{\"level\":\"info\",\"m\":\"y\"}"},
     "{\"level\":\"error\",\"m\":\"x\"}\n"},
    {"late_records",
     "",
     "local r = job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" } :key_by \"k\"\n"
     "   :window(s.tumbling \"10s\", { late_output = \"late\" }) :aggregate { n = s.count() }\n"
     "r:sink(\"out\", s.stdout())\n"
     "r:side_output(\"late\"):sink(\"late\", s.stdout())\n",
     {"{\"k\":\"a\",\"ts\":1000}",
      "{\"k\":\"a\",\"ts\":11000}",
      "{\"k\":\"a\",\"ts\":2000}",
      "{\"k\":\"a\",\"ts\":12000}"},
     "{\"k\":\"a\",\"window_start\":0,\"window_end\":10000,\"n\":1}\n"
     "{\"k\":\"a\",\"window_start\":10000,\"window_end\":20000,\"n\":2}\n"},
    {"silence",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\", all_idle = \"1m\" } :key_by \"device\"\n"
     "   :process { name = \"silence\", state = { last = s.value_state() },\n"
     "     on_record = function(e, ctx)\n"
     "       ctx.state.last:set(math.max(ctx.state.last:get() or e.ts, e.ts))\n"
     "       ctx:register_event_timer(e.ts + 300000)\n"
     "     end,\n"
     "     on_timer = function(ts, ctx)\n"
     "       if ctx.state.last:get() == ts - 300000 then\n"
     "         ctx:emit { device = ctx:key(), silent_since = ts - 300000 }\n"
     "       end\n"
     "     end }\n"
     "   :sink(\"out\", s.stdout())\n",
     {"{\"device\":\"d1\",\"ts\":0}",
      "{\"device\":\"d2\",\"ts\":0}",
      "{\"device\":\"d2\",\"ts\":200000}",
      "{\"device\":\"d2\",\"ts\":400000}"},
     "{\"device\":\"d1\",\"silent_since\":0}\n"
     "{\"device\":\"d2\",\"silent_since\":400000}\n"},
    {"bursts",
     "",
     "job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" } :key_by \"account\"\n"
     "   :process { name = \"burst\", state = { seen = s.list_state { ttl = \"1h\" } },\n"
     "     on_record = function(e, ctx)\n"
     "       local keep = {}\n"
     "       for _, t in ipairs(ctx.state.seen:get()) do\n"
     "         if t > e.ts - 3600000 then keep[#keep + 1] = t end\n"
     "       end\n"
     "       keep[#keep + 1] = e.ts\n"
     "       if #keep >= 3 then\n"
     "         ctx:emit { account = e.account, n = #keep, at = e.ts }\n"
     "         keep = {}\n"
     "       end\n"
     "       ctx.state.seen:update(keep)\n"
     "     end }\n"
     "   :sink(\"out\", s.stdout())\n",
     {"{\"account\":1,\"ts\":0}",
      "{\"account\":1,\"ts\":1000}",
      "{\"account\":1,\"ts\":4000000}",
      "{\"account\":1,\"ts\":4001000}",
      "{\"account\":1,\"ts\":4002000}"},
     "{\"account\":1,\"at\":4002000,\"n\":3}\n"},
    {"order_items",
     "",
     "local items = job:source(\"in\", s.stdin { format = \"json\" }):event_time { field = \"ts\" }\n"
     "   :flat_map(function(e, emit)\n"
     "      for _, it in ipairs(e.items or {}) do emit { sku = it.sku, region = e.region, qty = it.qty } end\n"
     "    end)\n"
     "items:key_by { \"region\", \"sku\" } :window(s.tumbling \"1m\") :aggregate({ qty = s.sum \"qty\" }, { name = \"per-sku\" }):sink(\"out\", s.stdout())\n",
     {"{\"region\":\"eu\",\"ts\":0,\"items\":[{\"sku\":\"a\",\"qty\":2},{\"sku\":\"b\",\"qty\":1}]}",
      "{\"region\":\"eu\",\"ts\":5,\"items\":[{\"sku\":\"a\",\"qty\":1}]}",
      "{\"region\":\"us\",\"ts\":9,\"items\":null}"},
     "{\"region\":\"eu\",\"sku\":\"a\",\"window_start\":0,\"window_end\":60000,\"qty\":3}\n"
     "{\"region\":\"eu\",\"sku\":\"b\",\"window_start\":0,\"window_end\":60000,\"qty\":1}\n"},
};
/* clang-format on */

enum { SAMPLES = sizeof samples / sizeof *samples };

static void
sample_up(struct box_rig *r, const struct sample *s)
{
    struct buf b;

    buf_init(&b);
    buf_addf(&b,
             "local s = require \"streamlua\"\n"
             "local job = s.job(\"j\", { %s })\n%sreturn job\n",
             s->options, s->job);
    rig_file(r, buf_cstr(&b));
    buf_fini(&b);
}

static void
run_sample(const struct sample *s, const struct sim_conf *with, bool crash)
{
    struct box_rig r;
    uint32_t i;

    sample_up(&r, s);
    r.conf.seed = with->seed;
    r.conf.parallelism = with->parallelism;
    r.conf.strategy = with->strategy;
    r.conf.unsafe = true;
    ok(sim_new(&r.conf, &r.sim, &err));
    for (i = 0; i < 8 && s->in[i] != NULL; i++) {
        rig_push(&r, s->in[i]);
        if (crash)
            ok(sim_crash(r.sim, &err));
    }
    ok(sim_end_of_input(r.sim, &err));
    if (strcmp(rig_take(&r, "out"), s->out) != 0)
        fail_msg("%s, seed %u: expected\n%s got\n%s", s->name,
                 (unsigned)with->seed, s->out, r.lines);
    rig_down(&r);
}

static void
run_samples(struct sim_conf with, bool crash)
{
    uint32_t i;

    for (i = 0; i < SAMPLES; i++) {
        with.seed++;
        run_sample(&samples[i], &with, crash);
    }
}

static void
samples_give_what_the_manual_says(void **state)
{
    (void)state;
    run_samples((struct sim_conf){.seed = 100, .parallelism = 1}, false);
    run_samples((struct sim_conf){.seed = 200}, false);
}

static void
samples_are_the_same_in_one_phase_and_in_two(void **state)
{
    (void)state;
    run_samples((struct sim_conf){.seed = 300,
                                  .parallelism = 3,
                                  .strategy = SIM_ONE_PHASE},
                false);
    run_samples((struct sim_conf){.seed = 400,
                                  .parallelism = 3,
                                  .strategy = SIM_TWO_PHASE},
                false);
}

static void
samples_survive_a_crash_after_each_step(void **state)
{
    (void)state;
    run_samples((struct sim_conf){.seed = 500, .parallelism = 2}, true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_give_what_the_manual_says),
        cmocka_unit_test(samples_are_the_same_in_one_phase_and_in_two),
        cmocka_unit_test(samples_survive_a_crash_after_each_step),
    };

    log_setup(LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
