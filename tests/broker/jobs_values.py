"""What comes out of whole jobs on Kafka: rows, keys, timestamps, partitions."""
import json
import os
import random
import re
import time

import kit
import oracle
from kit import check, equal, test

SAMPLE = """local s = require "streamlua"
local job = s.job("tenant-metrics", {
  parallelism = 4, checkpoint = { interval = "10s" },
  mini_batch = { allow_latency = "5s", size = 50000, bytes = "32MiB" },
})
job:source("events", s.kafka { topic = "events", format = "json", start = "earliest" })
   :event_time { field = "ts", out_of_orderness = "5s", idle = "30s" }
   :filter(function(e) return e.value ~= nil end)
   :key_by { "tenant_id", "metric_name", "dimensions" }
   :window(s.tumbling "1m")
   :aggregate { total = s.sum "value", n = s.count(), mean = s.avg "value",
                p99 = s.percentile("value", 0.99), users = s.distinct "user" }
   :sink("out", s.kafka { topic = "metrics-1m", delivery = "at_least_once" })
return job
"""

SAMPLE_IN = """\
{"tenant_id":"a","metric_name":"cpu","dimensions":{"host":"h1","dc":"x"},"value":10,"user":"u1","ts":1000}
{"tenant_id":"a","metric_name":"cpu","dimensions":{"dc":"x","host":"h1"},"value":20,"user":"u2","ts":59999}
{"tenant_id":"a","metric_name":"cpu","dimensions":{"dc":"x","host":"h1"},"value":null,"user":"u3","ts":30000}
{"tenant_id":"b","metric_name":"cpu","dimensions":{},"value":5,"user":"u1","ts":60000}
{"tenant_id":"a","metric_name":"cpu","dimensions":{"host":"h1","dc":"x"},"value":2.5,"user":"u1","ts":65000}"""

KEY_A = '{"tenant_id":"a","metric_name":"cpu","dimensions":{"dc":"x","host":"h1"}}'
KEY_B = '{"tenant_id":"b","metric_name":"cpu","dimensions":{}}'
SAMPLE_OUT = [
    (59999, KEY_A, '{"tenant_id":"a","metric_name":"cpu","dimensions":{"dc":"x","host":"h1"},"window_start":0,"window_end":60000,"mean":15.0,"n":2,"p99":20.0,"total":30,"users":2}'),
    (119999, KEY_A, '{"tenant_id":"a","metric_name":"cpu","dimensions":{"dc":"x","host":"h1"},"window_start":60000,"window_end":120000,"mean":2.5,"n":1,"p99":2.5,"total":2.5,"users":1}'),
    (119999, KEY_B, '{"tenant_id":"b","metric_name":"cpu","dimensions":{},"window_start":60000,"window_end":120000,"mean":5.0,"n":1,"p99":5.0,"total":5,"users":1}'),
]


def with_topics(text, source, sink):
    for old, new in (("events", source), ("metrics-1m", sink)):
        old = 'topic = "%s"' % old
        check(text.count(old) == 1, "the sample has not one", old)
        text = text.replace(old, 'topic = "%s"' % new)
    return text


@test
def sample_1_gives_the_rows_keys_and_timestamps_of_the_contract():
    source, sink = kit.topic("sample-in"), kit.topic("sample-out", 3)
    kit.produce_values(source, SAMPLE_IN.split("\n"))

    kit.run(with_topics(SAMPLE, source, sink), "--bounded")

    got = [(r.ts, r.key.decode(), r.value.decode()) for r in kit.read(sink)]
    equal(sorted(got), sorted(SAMPLE_OUT), "rows")


# --- a million records against the oracle ------------------------------------

RECORDS = 1000000
PARTITIONS = 4
BASE_MS = 1735689600000
OUT_OF_ORDERNESS_MS = 5000
DIMENSIONS = (
    ('{"host":"h1","dc":"ber"}', '{"dc":"ber","host":"h1"}'),
    ('{"dc":"ber","host":"h1"}', '{"dc":"ber","host":"h1"}'),
    ('{"dc":"par","host":"h2"}', '{"dc":"par","host":"h2"}'),
    ("{}", "{}"),
)
TENANTS = ("acme",) * 60 + ("bolt",) * 30 + ("crab",) * 9 + ("dodo",)


def make_events(seed):
    """The input, and per partition what the oracle needs of each record."""
    rng = random.Random(seed)
    lines, parts = [], []
    for p in range(PARTITIONS):
        now, records = BASE_MS + 1000 * p, []
        for _ in range(RECORDS // PARTITIONS):
            now += rng.randrange(8)
            ts = now - rng.randrange(OUT_OF_ORDERNESS_MS + 1)
            draw = rng.random()
            if draw < 0.002:  # most of them too late for their window
                ts -= rng.randrange(120000)
            tenant = TENANTS[rng.randrange(len(TENANTS))]
            if draw > 0.999:
                tenant = None
            metric = "cpu" if rng.random() < 0.5 else "mem"
            dims = DIMENSIONS[rng.randrange(len(DIMENSIONS))]
            user = rng.randrange(200)
            value = rng.randrange(1, 1001)
            if 0.95 < draw < 0.99:
                value = None
            elif draw > 0.9:
                value = value / 8
            lines.append(
                '%d\t%d\t\\N\t{"dimensions":%s,"metric_name":"%s",'
                '"tenant_id":%s,"ts":%d,"user":%d,"value":%s}' % (
                    p, ts, dims[0], metric, oracle.text(tenant), ts, user,
                    oracle.text(value)))
            records.append((ts, tenant, metric, dims[1], user, value))
        parts.append(records)
    return ("\n".join(lines) + "\n").encode(), parts


def expect(parts):
    """Rows by (key text, window_start), and the counters."""
    groups = {}
    counts = {"late": 0, "null_key": 0, "filtered": 0}
    for records in parts:
        high = None
        for ts, tenant, metric, dims, user, value in records:
            watermark = None if high is None else high - \
                OUT_OF_ORDERNESS_MS - 1
            high = ts if high is None else max(high, ts)
            start = ts // 60000 * 60000
            if value is None:
                counts["filtered"] += 1
            elif tenant is None:
                counts["null_key"] += 1
            elif watermark is not None and watermark >= start + 59999:
                counts["late"] += 1
            else:
                key = '{"tenant_id":"%s","metric_name":"%s","dimensions":%s}' \
                    % (tenant, metric, dims)
                groups.setdefault((key, start), []).append((value, user))
    rows = {}
    for (key, start), members in groups.items():
        # Eighths below 1,000 in doubles: sums are exact.
        vals = sorted(v for v, _ in members)
        total = sum(vals)
        n = len(vals)
        if all(isinstance(v, int) for v in vals):
            total = int(total)
        rank = -(-99 * n // 100)  # nearest rank, in integers
        rows[key, start] = (
            '%s,"window_start":%d,"window_end":%d,"mean":%s,"n":%d,"p99":'
            % (key[:-1], start, start + 60000, oracle.text(total / n), n),
            ',"total":%s,"users":%d}' % (oracle.text(total),
                                         len({u for _, u in members})),
            vals[rank - 1], n)
    return rows, counts


def compare_rows(got, rows):
    """Texts exactly; the percentile exactly up to 64 values, then to 1 %."""
    seen = {}
    for r in got:
        value = r.value.decode()
        row = json.loads(value)
        key = r.key.decode()
        check((key, row["window_start"]) in rows, "a row nobody expects:",
              value)
        check((key, row["window_start"]) not in seen, "a row twice:", value)
        seen[key, row["window_start"]] = r
        head, tail, p99, n = rows[key, row["window_start"]]
        check(value.startswith(head) and value.endswith(tail),
              "row %s, expected %s…%s" % (value, head, tail))
        text = value[len(head):-len(tail)]
        if n <= 64:
            equal(text, oracle.text(float(p99)), "p99 of %d values" % n)
        else:
            check(abs(float(text) - p99) <= 0.01 * p99 * (1 + 1e-12),
                  "p99 %s, exactly it is %s" % (text, p99))
        equal(r.ts, row["window_end"] - 1, "timestamp of " + value)
    missing = sorted(set(rows) - set(seen))
    check(not missing, "%d rows are missing, first:" % len(missing),
          missing[:1])


def check_order(got):
    """Rows of one key lie in one partition in order of their windows."""
    last = {}
    for r in got:
        end = json.loads(r.value)["window_end"]
        partition, before = last.get(r.key, (r.partition, -1))
        equal(r.partition, partition, "partition of key %r" % r.key)
        check(end > before, "rows out of order: %r" % r.value)
        last[r.key] = (r.partition, end)


@test
def a_million_records_give_the_rows_of_the_oracle_for_every_plan():
    seed = int(os.environ.get("SEED", time.time()))
    print("  seed %d" % seed, flush=True)
    data, parts = make_events(seed)
    rows, counts = expect(parts)
    check(counts["late"] > 100 and counts["null_key"] > 100, "too tame a seed")
    source = kit.topic("million", PARTITIONS)
    kit.ktool("produce", source, "-", "--tsv", data=data)
    del data
    with open(os.path.join(kit.TOP, "jobs", "tenant_metrics.lua")) as f:
        text = f.read()
    at = text.index("  mini_batch = {")
    text = text[:at] + '  agg_phase_strategy = s.param("strategy"),\n' + \
        text[at:]

    first = None
    for strategy, slots in (("AUTO", 1), ("AUTO", 4), ("ONE_PHASE", 1),
                            ("ONE_PHASE", 4)):
        sink = kit.topic("metrics", 3)
        done = kit.run(
            text, "--bounded", "--slots", slots, "--parallelism", slots,
            *("--set strategy=%s --set input=kafka --set output=kafka"
              " --set delivery=at_least_once"
              " --set topic_in=%s --set topic_out=%s --set bootstrap=%s" %
              (strategy, source, sink, kit.BROKER)).split())
        what = "%s, %d slots" % (strategy, slots)

        got = kit.read(sink)
        compare_rows(got, rows)
        check_order(got)
        values = sorted(r.value for r in got)
        if first is not None:
            equal(values, first, what + " against the first run")
        first = values
        step = done.step("aggregate-1")
        equal(done.step("events")["records_in"], RECORDS, what + ": events")
        equal(done.step("filter-1")["records_out"],
              RECORDS - counts["filtered"], what + ": passed")
        equal(step["late"], counts["late"], what + ": late")
        equal(step["dropped"], {"late": counts["late"],
                                "null_key": counts["null_key"]},
              what + ": dropped")
        equal(step["records_out"], len(rows), what + ": rows")
        equal(done.step("out")["records_out"], len(rows), what + ": written")
        equal("local" in step, strategy == "AUTO", what + ": two phases")
        equal(done.sums["status"], "finished", what + ": status")
        equal(done.sums["watermark"], 2**63 - 1, what + ": watermark")


# --- messages -------------------------------------------------------------------

PASS = """local s = require "streamlua"
local job = s.job "pass"
job:source("in", s.kafka { topic = "%s", start = "earliest" })
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def key_value_headers_timestamp_and_tombstones_pass_through_untouched():
    source, sink = kit.topic("pass-in"), kit.topic("pass-out")
    now = int(time.time() * 1000)
    lines = [
        "\t%d\ta=1,b=x,a=2\tk1\t{ \"a\" : 1.50 ,\"b\":[ ]}" % (now - 5),
        "\t1\t\t\\N\t{\"unicode\":\"\u00e9\\u0041\",\"big\":12345678901234567890}",
        "\t%d\tn=\\N,e=\tk1\t\\N" % (now - 3),      # tombstone
        "\t%d\t\t\t{\"empty key\":true}" % (now - 2),
        "\t%d\t\t7\tnull" % (now - 1),
        "\t%d\t\t{\"j\":1}\t{\"a\":1}   " % now,
    ]
    kit.ktool("produce", source, "-", "--tsv", "--headers",
              data=("\n".join(lines) + "\n").encode())

    done = kit.run(PASS % (source, sink), "--bounded")

    def shown(name):
        return [(r.ts, r.headers, r.key, r.value.rstrip(b" ")
                 if r.value is not None else None)
                for r in kit.read(name, "--headers")]

    equal(len(shown(source)), len(lines), "input")
    equal(shown(sink), shown(source), "messages")
    equal(shown(sink)[2][3], None, "tombstone")
    equal(shown(sink)[3][2], b"", "empty key")
    equal(done.step("out")["records_out"], len(lines), "written")


CDC = """local s = require "streamlua"
local job = s.job "cdc"
job:source("cdc", s.kafka { topic = "%s", start = "earliest" })
   :filter(function(e) return not s.is_tombstone(e) end)
   :event_time { field = "ts_ms" }
   :map(function(e) if e.op == "d" then return s.tombstone { id = e.before.id } end return e.after end)
   :sink("out", s.kafka { topic = "%s", key = "id" })
return job
"""


@test
def sample_20_writes_keys_and_tombstones_to_a_compacted_topic():
    source = kit.topic("cdc-in")
    sink = kit.topic("cdc-out", 1, "cleanup.policy=compact")
    kit.produce(source, [
        (0, None, "1", '{"op":"c","before":null,"after":{"name":"ann","id":1},"ts_ms":10}'),
        (0, None, "1", None),
        (0, None, "1", '{"op":"d","before":{"id":1,"name":"ann"},"after":null,"ts_ms":20}')])

    kit.run(CDC % (source, sink), "--bounded")

    equal([(r.ts, r.key, r.value) for r in kit.read(sink)],
          [(10, b"1", b'{"name":"ann","id":1}'), (20, b"1", None)], "messages")


TIMES = """local s = require "streamlua"
local job = s.job "times"
job:source("in", s.kafka { topic = "%s", start = "earliest" })
   :event_time { field = "ts" }
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def timestamp_0_is_written_as_1_and_one_too_far_ahead_as_now():
    source, sink = kit.topic("times-in"), kit.topic("times-out")
    free = kit.topic("times-free", 1,
                     "message.timestamp.after.max.ms=9000000")
    before = int(time.time() * 1000)
    ahead, soon = before + 7200000, before + 1800000
    kit.produce_values(source, ['{"ts":0}', '{"ts":1}', '{"ts":%d}' % soon,
                                '{"ts":%d}' % ahead])

    done = kit.run(TIMES % (source, sink), "--bounded")
    kit.run(TIMES % (source, free), "--bounded")

    got = [r.ts for r in kit.read(sink)]
    equal(got[:3], [1, 1, soon], "timestamps")
    check(before <= got[3] <= int(time.time() * 1000), "clamped to", got[3])
    check("timestamp_clamped=1" in done.err, "it must say so:", done.err)
    equal(done.step("out")["timestamp_clamped"], 1, "counted")
    equal([r.ts for r in kit.read(free)], [1, 1, soon, ahead],
          "timestamps in a topic that allows them")


LARGE = """local s = require "streamlua"
local job = s.job "large"
job:source("in", s.kafka { topic = "%s", start = "earliest" })
   :sink("out", s.kafka { topic = "%s" }%s)
return job
"""


@test
def a_message_larger_than_the_topic_takes_costs_itself_by_policy():
    source = kit.topic("large-in")
    sink = kit.topic("large-out", 1, "max.message.bytes=4000")
    kit.produce_values(source, ['{"i":1}', '{"i":2,"pad":"%s"}' % ("x" * 5000),
                                '{"i":3}'])

    failed = kit.run(LARGE % (source, sink, ""), "--bounded", code=1)
    skipped = kit.run(LARGE % (source, sink, ', { on_error = "skip" }'),
                      "--bounded")

    check("max.message.bytes" in failed.err and "4000" in failed.err,
          "limit and option are named:", failed.err)
    check("record: %s[0]@1" % source in failed.err, "coordinates:",
          failed.err)
    check("cause: encode" in failed.err, "cause:", failed.err)
    equal(skipped.step("out")["dropped"], {"encode": 1}, "dropped")
    got = [json.loads(v)["i"] for v in kit.values(sink)]
    equal(got[-2:], [1, 3], "rows")
    check(2 not in got, "a message that is too large came through")


PARTITION = """local s = require "streamlua"
local job = s.job "partitions"
job:source("in", s.file { path = "keys", format = "text" })
   :sink("out", s.kafka { topic = "%s", format = "text",
     key = function(e)
       return (e.value:match("^%%x*"):gsub("..", function(h)
         return string.char(tonumber(h, 16))
       end))
     end })
return job
"""


@test
def a_thousand_keys_land_in_the_partitions_java_chooses():
    with open(os.path.join(kit.HERE, "java_partitions.txt"), "rb") as f:
        keys = f.read()
    sink = kit.topic("partitions", 12)

    kit.run(PARTITION % sink, files={"keys": keys})

    # Values only: keys are bytes of any kind.
    want = [[] for _ in range(12)]
    for line in keys.decode().split("\n")[:-1]:
        want[int(line.split(" ")[1])].append(line)
    got = [[] for _ in range(12)]
    for (low, high), lines in zip(kit.ends(sink), want):
        equal(high - low, len(lines), "records of a partition")
    for line in kit.ktool("read", sink).decode().split("\n")[:-1]:
        got[int(line.split(" ")[1])].append(line)
    equal([sorted(x) for x in got], [sorted(x) for x in want], "keys")
    place = partition_of_each(sink)
    equal(place, {line: int(line.split(" ")[1])
                  for line in keys.decode().split("\n")[:-1]}, "partitions")


def partition_of_each(name):
    """{value: partition}, whatever bytes the keys are."""
    out = kit.ktool("read", name, "--tsv")
    found = re.findall(rb"(\d+)\t\d+\t.*?\t([0-9a-f]* \d+)\n", out, re.S)
    return {value.decode(): int(p) for p, value in found}


POISON = """local s = require "streamlua"
local job = s.job "poison"
job:source("in", s.kafka { topic = "%s", start = "earliest"%s })
   :filter(function(e) return e.a ~= 0 end)
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def poison_records_fail_with_coordinates_or_are_skipped_and_counted():
    source, sink = kit.topic("poison-in", 2), kit.topic("poison-out")
    kit.produce(source, [(1, None, "k", '{"a":%d}' % i) for i in range(1, 4)])
    kit.produce(source, [(1, None, "bad", '{"a":'), (0, None, "k", '{"a":9}'),
                         (1, None, "worse", "no json"),
                         (1, None, "k", '{"a":0}'), (1, None, "k", '{"a":5}')])

    failed = kit.run(POISON % (source, "", kit.topic("poison-out")),
                     "--bounded", code=1)
    skipped = kit.run(POISON % (source, ', on_error = "skip"', sink),
                      "--bounded")

    check("record: %s[1]@3" % source in failed.err, "coordinates:",
          failed.err)
    check("cause: decode" in failed.err and 'key="bad"' in failed.err,
          "cause and key:", failed.err)
    equal(failed.sums["status"], "failed", "status")
    equal(skipped.step("in")["dropped"], {"decode": 2}, "dropped")
    equal(sorted(kit.values(sink)),
          ['{"a":%d}' % i for i in (1, 2, 3, 5, 9)], "rows")
