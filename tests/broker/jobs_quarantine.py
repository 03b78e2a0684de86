"""Records that fail under quarantine, topics by function and by pattern."""
import json
import os
import random
import re
import signal

import kit
from kit import check, equal, test, until

HERE = os.path.dirname(os.path.abspath(__file__))
REQUEUE = os.path.join(HERE, "..", "..", "jobs", "requeue.lua")
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(10 ** 6))

STRICT = """local s = require "streamlua"
local job = s.job("%(job)s", {
  checkpoint = { interval = "200ms" }, on_error = "quarantine", parallelism = 2,
  quarantine = s.kafka { topic = "%(bad)s" },
})
job:source("in", s.kafka { topic = "%(source)s", start = "earliest" })
   :map(function(e)
     local x = 0
     for i = 1, 2000 do x = x + i end
     if e.v < 0 then error "negative" end
     return { v = e.v, k = e.k }
   end, { name = "check" })
   :key_by({ "k" }, { on_null = "quarantine" })
   :process { name = "pass", state = {}, on_record = function(e, ctx) ctx:emit(e) end }
   :sink("out", s.kafka { topic = "%(out)s", delivery = "exactly_once" })
return job
"""


def strict_input(count):
    """Rows for kit.produce, the values that are good, and for those that are
    not the cause by (partition, offset)."""
    rows, good, bad, ends = [], [], {}, [0, 0, 0]
    for i in range(count):
        p, value = i % 3, '{"v":%d,"k":"k%d"}' % (i, i % 13)
        if i % 7 == 3:
            value, cause = '{"v":%d,"k": x}' % i, "decode"
        elif i % 11 == 5:
            value, cause = '{"k":"k", "v":-%d}' % i, "user_error"
        elif i % 17 == 1:
            value, cause = '{"v":%d}' % i, "null_key"
        else:
            cause = None
            good.append(i)
        if cause is not None:
            key = "key%d" % i
            bad[p, ends[p]] = (cause, key.encode(), value.encode(), 1000 + i)
        rows.append((p, 1000 + i, "key%d" % i, value))
        ends[p] += 1
    return rows, good, bad


def headers_of(row):
    """`ktool read --headers`: NAME=VALUE, joined by commas."""
    return {name.decode(): value for name, value in
            re.findall(rb"(__stream[a-z.]*)=([^,]*)", row.headers)}


def origin(row):
    h = headers_of(row)
    return (int(h["__streams.errors.partition"]),
            int(h["__streams.errors.offset"]))


@test
def rows_and_quarantine_are_those_of_the_oracle_although_the_job_is_killed():
    print("  SEED=%d" % SEED)
    draw = random.Random(SEED)
    names = {"job": "strict%d" % os.getpid(), "source": kit.topic("q-in", 3),
             "out": kit.topic("q-out", 2), "bad": kit.topic("q-bad", 2)}
    rows, good, bad = strict_input(6000)
    with kit.Feed(names["source"]) as feed, \
            kit.Job(STRICT % names, "--data-dir", "data") as job:
        for part in range(4):
            feed.put(rows[part * 1500:(part + 1) * 1500])
            want = kit.total(names["out"]) + draw.randrange(50, 900)
            until(lambda: kit.total(names["out"]) >= want, "output", job=job)
            job.signal(signal.SIGKILL)
            job.p.wait()
            job.start("--data-dir", "data")
        until(lambda: len(kit.values(names["out"])) >= len(good) and
              len(kit.read(names["bad"])) >= len(bad), "all rows", job=job)
        job.signal(signal.SIGTERM)
        job.wait()

    equal(sorted(json.loads(v)["v"] for v in kit.values(names["out"])), good,
          "rows")
    got = kit.read(names["bad"], "--headers")
    equal(sorted(map(origin, got)), sorted(bad), "origins, each once")
    for row in got:
        h = headers_of(row)
        cause, key, value, ts = bad[origin(row)]
        equal(h["__streamlua.errors.cause"].decode(), cause, "cause")
        if cause != "null_key":  # the step before it made new bytes
            equal(row.value, value, "bytes")
        equal((row.key, row.ts), (key, ts), "key and timestamp")
        equal(h["__streamlua.errors.timestamp"].decode(), str(ts), "time")
        equal(h["__streamlua.errors.job"].decode(), names["job"], "job")
        equal(h["__streams.errors.topic"].decode(), names["source"], "topic")
        equal(h["__streamlua.errors.step"].decode(),
              {"decode": "in", "user_error": "check",
               "null_key": "pass"}[cause], "step")


CAREFUL = """local s = require "streamlua"
local job = s.job("%(job)s", {
  checkpoint = { interval = "200ms" }, quarantine = s.kafka { topic = "%(bad)s" },
})
job:source("in", s.kafka { topic = "%(source)s", format = "raw", start = "earliest" })
   :map(function(e)
     local n = e.value:match "%(pattern)s" or error "no number"
     return { n = math.tointeger(tonumber(n)), key = s.key(e), ts = s.timestamp(e),
              id = s.headers(e)[1][2], headers = #s.headers(e) }
   end, { name = "number", on_error = "quarantine" })
   :sink("out", s.kafka { topic = "%(out)s", delivery = "exactly_once" })
return job
"""


@test
def what_was_quarantined_is_sent_again_and_then_all_is_there_once():
    names = {"job": "careful%d" % os.getpid(), "pattern": "^n=(%d+)$",
             "source": kit.topic("again-in", 2), "bad": kit.topic("again-bad"),
             "out": kit.topic("again-out")}
    rows = ""
    for i in range(40):
        value = "n=%d" % i if i % 4 else "N: %d" % i
        rows += "%d\t%d\tid=%d\tk%d\t%s\n" % (i % 2, 5000 + i, i, i, value)
    kit.ktool("produce", names["source"], "-", "--tsv", "--headers",
              data=rows.encode())

    with kit.Job(CAREFUL % names, "--data-dir", "data") as job:
        until(lambda: len(kit.values(names["out"])) == 30 and
              len(kit.read(names["bad"])) == 10, "rows", job=job)
        job.signal(signal.SIGTERM)
        job.wait()
        with open(REQUEUE) as f:
            kit.run(f.read(), "--until-idle=500ms",
                    "--set", "from=" + names["bad"],
                    "--set", "to=" + names["source"],
                    "--set", "name=requeue-" + names["job"])
        fixed = CAREFUL % dict(names, pattern="(%d+)$")
        with open(os.path.join(job.folder, "job.lua"), "w") as f:
            f.write(fixed)
        job.start("--data-dir", "data")
        until(lambda: len(kit.values(names["out"])) >= 40, "the rest", job=job)
        job.signal(signal.SIGTERM)
        job.wait()

    got = sorted((json.loads(v) for v in kit.values(names["out"])),
                 key=lambda r: r["n"])
    equal(got, [{"n": i, "key": "k%d" % i, "ts": 5000 + i, "id": str(i),
                 "headers": 1} for i in range(40)], "rows")
    equal(len(kit.read(names["bad"])), 10, "quarantined")


BY_FUNCTION = """local s = require "streamlua"
local job = s.job("%s", { checkpoint = { interval = "200ms" }, parallelism = 2 })
job:source("in", s.kafka { topic = "%s", start = "earliest", stop = "latest" })
   :sink("out", s.kafka {
     topic = function(e) return e.to end, delivery = "%s",
     partition = function(e, n) return e.i %% n end%s })
return job
"""
CREATE = """, create = { partitions = 3, replication = 1,
       config = { ["retention.ms"] = 7200000 } }"""


@test
def a_function_names_topics_that_are_made_on_first_use():
    for delivery in ("at_least_once", "exactly_once"):
        source = kit.topic("to-in", 2)
        prefix = "%s-made" % source
        kit.produce_values(source, [
            '{"to":"%s-%d","i":%d}' % (prefix, i // 3 % 5, i)
            for i in range(300)])

        done = kit.run(BY_FUNCTION % (source, source, delivery, CREATE))

        equal(done.step("out")["records_out"], 300, "written")
        for k in range(5):
            rows = kit.read("%s-%d" % (prefix, k))
            equal(sorted(json.loads(r.value)["i"] for r in rows),
                  [i for i in range(300) if i // 3 % 5 == k], "rows")
            for r in rows:
                equal(r.partition, json.loads(r.value)["i"] % 3, "partition")


@test
def a_topic_that_a_function_names_must_exist_without_create():
    source = kit.topic("to-none")
    kit.produce_values(source, ['{"to":"%s-missing","i":0}' % source])

    for delivery in ("at_least_once", "exactly_once"):
        done = kit.run(BY_FUNCTION % (source, source, delivery, ""), code=78)
        check('topic "%s-missing" does not exist' % source in done.err,
              "the topic:", done.err)
    kit.produce_values(source, ['{"to":"not/a name","i":0}'])
    done = kit.run(BY_FUNCTION % (source + "x", source, "at_least_once",
                                  CREATE), code=1)
    check("cause: encode" in done.err and '"not/a name"' in done.err,
          "a name that is none:", done.err)


BY_PATTERN = """local s = require "streamlua"
local job = s.job("%s", { checkpoint = { interval = "200ms" } })
job:source("in", s.kafka { topic = "^%s-[ab]$", start = "latest", discovery = "300ms" })
   :map(function(e) e.from = s.origin(e) return e end)
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def topics_that_match_are_read_also_those_that_come_later():
    out = kit.topic("match-out")
    base = out + "-in"
    text = BY_PATTERN % (base, base, out)

    none = kit.run(text, "--data-dir", "data", code=78)
    check('matches "^%s-[ab]$"' % base in none.err, "pattern:", none.err)

    kit.ktool("create", base + "-a", 2)
    kit.ktool("create", base + "-c", 1)  # does not match
    kit.produce_values(base + "-a", ['{"i":0}'])  # in front of "latest"
    with kit.Job(text, "--data-dir", "data") as job:
        job.opened()
        kit.produce_values(base + "-a", ['{"i":1}'])
        kit.produce_values(base + "-c", ['{"i":2}'])
        kit.ktool("create", base + "-b", 2)
        kit.produce_values(base + "-b", ['{"i":3}'])
        until(lambda: len(kit.values(out)) >= 2, "rows", job=job)
        job.signal(signal.SIGTERM)
        job.wait()
        kit.produce_values(base + "-b", ['{"i":4}'])
        job.start("--data-dir", "data")
        until(lambda: len(kit.values(out)) >= 3, "the row after it", job=job)
        job.signal(signal.SIGTERM)
        job.wait()
        kit.ktool("delete", base + "-b")
        job.start("--data-dir", "data").wait(78)
        check('topic "%s-b"' % base in job.stderr(), "gone:", job.stderr())
    got = sorted((json.loads(v)["i"], json.loads(v)["from"])
                 for v in kit.values(out))
    equal(got, [(1, base + "-a"), (3, base + "-b"), (4, base + "-b")], "rows")
