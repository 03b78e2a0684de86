"""Stops, kills, a broker that goes away, topics that change under a job."""
import collections
import json
import os
import signal
import threading
import time

import kit
from kit import check, equal, test, until

# Tens of us a record, so that a job is in the middle for some seconds.
SLOW = """local s = require "streamlua"
local work = s.param("work", 4000)
local job = s.job("slow", { checkpoint = { interval = "300ms" },
  parallelism = 2 })
job:source("in", s.kafka { topic = "%s", start = "%s" })
   :filter(function(e) return e.i %% 10 ~= 3 end)
   :map(function(e)
     local x = 0
     for k = 1, work do x = x + k end
     return { i = e.i, twice = 2 * e.i }
   end)
   :sink("out", s.kafka { topic = "%s", key = "i" })
return job
"""
COUNT = 100000


def fill(name, start, count, partitions):
    kit.produce(name, [(i % partitions, None, None, '{"i":%d}' % i)
                       for i in range(start, start + count)])


def wanted(count):
    return {'{"i":%d,"twice":%d}' % (i, 2 * i)
            for i in range(count) if i % 10 != 3}


def compare_set(sink, count):
    """Nothing lost, nothing made up; returns how many rows are doubled."""
    got = collections.Counter(kit.values(sink))
    want = wanted(count)
    lost = sorted(want - set(got))
    check(not lost, "%d rows are lost, first:" % len(lost), lost[:1])
    alien = sorted(set(got) - want)
    check(not alien, "rows nobody expects:", alien[:3])
    return sum(got.values()) - len(got)


def in_the_middle(job, sink, at_least=5000):
    """Wait until rows are out and positions were committed."""
    until(lambda: kit.total(sink) >= at_least, "output", job=job)
    until(lambda: len(job.ask()["rounds"]) >= 2, "two rounds", job=job)


@test
def a_stateless_job_goes_on_after_sigterm_without_loss_or_doubles():
    source, sink = kit.topic("stop-in", 4), kit.topic("stop-out", 2)
    fill(source, 0, COUNT, 4)
    with kit.Job(SLOW % (source, "committed-or-earliest", sink)) as job:
        in_the_middle(job, sink)
        job.signal(signal.SIGTERM)
        job.wait(0)
        first = job.summary()
        read = first["steps"]["in"]["records_in"]
        check(5000 <= read < COUNT, "not in the middle:", read)
        equal(first["status"], "stopped", "status")
        equal(kit.total(sink), first["steps"]["out"]["records_out"],
              "rows that were finished before the end")

        job.start("--bounded").wait(0)
        equal(job.step("in")["records_in"], COUNT - read,
              "records of the second run")

    equal(compare_set(sink, COUNT), 0, "doubled rows")


@test
def a_stateless_job_goes_on_after_kill_9_with_doubles_only():
    source, sink = kit.topic("kill-in", 4), kit.topic("kill-out", 2)
    fill(source, 0, COUNT, 4)
    with kit.Job(SLOW % (source, "committed-or-earliest", sink)) as job:
        in_the_middle(job, sink)
        job.p.kill()
        job.wait(-signal.SIGKILL)
        before = kit.total(sink)
        check(before < len(wanted(COUNT)), "not in the middle:", before)

        job.start("--bounded").wait(0)
        second = job.step("in")["records_in"]

    doubled = compare_set(sink, COUNT)
    check(second < COUNT, "it began again at the beginning")
    # What was read again is at most what had been written before.
    check(doubled <= before, doubled, "doubled rows of", before)
    print("  %d of %d records were read twice" %
          (doubled, len(wanted(COUNT))), flush=True)


WINDOWED = """local s = require "streamlua"
local job = s.job "windowed"
job:source("in", s.kafka { topic = "%s", start = "committed-or-earliest" })
   :event_time { field = "i" }
   :key_by {} :window(s.tumbling "1s"):aggregate { n = s.count() }
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def a_windowed_job_goes_on_with_its_open_windows_after_a_stop():
    source, sink = kit.topic("windowed-in"), kit.topic("windowed-out")
    fill(source, 0, 2500, 1)
    with kit.Job(WINDOWED % (source, sink)) as job:
        until(lambda: kit.total(sink) == 2, "two windows", job=job)
        job.signal(signal.SIGTERM)
        job.wait(0)
        equal(kit.total(sink), 2, "open windows stay open")

        job.start("--bounded").wait(0)
        equal(job.step("in")["records_in"], 0, "records read again")
    equal([json.loads(v)["n"] for v in kit.values(sink)],
          [1000, 1000, 500], "rows of both runs")


NOWHERE = """local s = require "streamlua"
local job = s.job "nowhere"
job:source("in", s.kafka { topic = "in", start = "earliest" })
   :sink("out", s.blackhole())
return job
"""


class Away:
    """A job without a broker, begun early: the wait is 30 s."""

    def __init__(self):
        self.begun = time.monotonic()
        self.job = kit.Job(NOWHERE, "--bootstrap-servers", "127.0.0.1:1")
        self.took = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        until(lambda: self.job.signals("SigIgn", signal.SIGUSR1), "a start")
        self.job.signal(signal.SIGUSR1)  # must not end it
        self.job.p.wait()
        self.took = time.monotonic() - self.begun


away = []


def begin_early():
    away.append(Away())


@test
def a_broker_away_while_a_job_runs_is_said_and_nothing_is_lost():
    source, sink = kit.topic("away-in", 2), kit.topic("away-out", 2)
    half = COUNT // 2
    fill(source, 0, half, 2)
    with kit.Job(SLOW % (source, "earliest", sink)) as job:
        until(lambda: kit.total(sink) >= 5000, "output", job=job)
        kit.broker_do("kill")
        until(lambda: job.says("source in: Kafka broker .* is unreachable") and
              job.says("sink out: Kafka broker .* is unreachable"),
              "words about the broker", job=job)
        kit.broker_do("restart")
        until(lambda: job.says("source in: .*is back after") and
              job.says("sink out: .*is back after"), "the broker is back",
              job=job)
        fill(source, half, half, 2)
        rows = len(wanted(COUNT))
        until(lambda: job.ask()["steps"]["out"]["records_out"] >= rows,
              "all rows", job=job)
        job.signal(signal.SIGTERM)
        job.wait(0)
        equal(job.step("in")["records_in"], COUNT, "records read")
    print("  %d rows doubled" % compare_set(sink, COUNT), flush=True)


COUNTS = """local s = require "streamlua"
local job = s.job("counts", { parallelism = 2 })
job:source("in", s.kafka { topic = "%s", start = "earliest" })
   :event_time { field = "i", idle = false }
   :map(function(e)
     local x = 0
     for k = 1, 4000 do x = x + k end
     return e
   end)
   :key_by { { "k", function(e) return e.i %% 7 end } }
   :window(s.tumbling "1s")
   :aggregate { n = s.count(), sum = s.sum "i" }
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def windows_count_each_record_once_though_the_broker_was_away():
    source, sink = kit.topic("counts-in", 2), kit.topic("counts-out", 2)
    fill(source, 0, COUNT, 2)
    # Small fetches: the broker is missed by the source, too.
    with kit.Job(COUNTS % (source, sink), "--bounded", "-X",
                 "queued.min.messages=1000", "-X",
                 "fetch.message.max.bytes=20000") as job:
        until(lambda: kit.total(sink) >= 70, "ten windows", job=job)
        kit.broker_do("kill")
        until(lambda: job.says("in: Kafka broker .* is unreachable"),
              "words about the broker", job=job)
        read = job.ask()["steps"]["in"]["records_in"]
        check(read < COUNT, "all was read before")
        kit.broker_do("restart")
        job.wait(0)
        equal(job.step("in")["records_in"], COUNT, "records read")

    want = {}
    for i in range(COUNT):
        n, total = want.get((i % 7, i // 1000 * 1000), (0, 0))
        want[i % 7, i // 1000 * 1000] = (n + 1, total + i)
    got = [json.loads(v) for v in kit.values(sink)]
    equal(sorted((r["k"], r["window_start"], r["n"], r["sum"]) for r in got),
          sorted(key + value for key, value in want.items()), "rows")


FAST = """local s = require "streamlua"
local job = s.job("fast", { checkpoint = { interval = "1s" } })
job:source("in", s.generator { count = s.param("count", 1500000),
     partitions = 4, fields = { i = s.gen.sequence {},
       pad = "%s" } })
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def a_sink_that_stands_still_holds_the_job_back_in_bounded_memory():
    sink = kit.topic("paused-out", 4)
    count, seconds = 1500000, 5
    with kit.Job(FAST % ("x" * 200, sink), "--set", "count=%d" % count) as job:
        until(lambda: kit.total(sink) >= 20000, "output", job=job)
        with kit.BrokerPaused():
            begun = time.monotonic()
            before = job.ask()["steps"]["out"]["records_in"]
            most = 0
            until(lambda: time.monotonic() - begun > seconds / 2, "time")
            held = job.ask()["steps"]["out"]["records_in"]
            while time.monotonic() - begun < seconds:
                most = max(most, job.rss())
                threading.Event().wait(0.05)
            end = job.ask()["steps"]["out"]["records_in"]
        check(job.p.poll() is None, "it ended:", job.stderr())
        check(end < count, "the pause came too late")
        # 100,000 messages in flight, whatever the pause.
        check(end - before <= 150000, end - before, "records taken")
        equal(end, held, "records taken in the second half of the pause")
        check(most < 250 * kit.MIB, most // kit.MIB, "MiB resident")
        job.wait(0, 60)
        equal(job.step("out")["records_out"], count, "rows")
    seen = bytearray(count)
    for v in kit.ktool("read", sink).split(b"\n")[:-1]:
        seen[int(v[5:v.index(b",")])] += 1
    equal(seen.count(1), count, "rows that are there once")
    print("  %d MiB resident at most" % (most // kit.MIB), flush=True)


# Keys come again when all the others have been there; one call in ten gives
# a row, so that state grows while little waits for the sink.
KEYS = 200000
STATE_HELD = """local s = require "streamlua"
local job = s.job("held", { checkpoint = { interval = "500ms" },
  parallelism = 2, memory = { total = "96MiB", state = "4MiB" } })
job:source("in", s.generator { count = s.param("count", 1), partitions = 4,
     fields = { i = s.gen.sequence {} } })
   :map(function(e) return { k = e.i %% %d, i = e.i } end)
   :key_by "k"
   :process { name = "p", state = { n = s.value_state(), t = s.value_state() },
     on_record = function(e, ctx)
       local n = (ctx.state.n:get() or 0) + 1
       ctx.state.n:set(n)
       ctx.state.t:set(("the last one was %%d"):format(e.i))
       if e.k %% 10 == 0 then ctx:emit { k = e.k, n = n } end
     end }
   :sink("out", s.kafka { topic = "%s" })
return job
"""


def anonymous(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("RssAnon"):
                return int(line.split()[1]) << 10
    return 0


@test
def state_larger_than_memory_waits_for_a_broker_that_stands_still():
    sink = kit.topic("held-out", 4)
    count, seconds, most = 3 * KEYS, 20, 0
    with kit.Job(STATE_HELD % (KEYS, sink), "--set",
                 "count=%d" % count) as job:
        until(lambda: kit.total(sink) >= 2000, "output", job=job)
        with kit.BrokerPaused():
            begun = time.monotonic()
            while time.monotonic() - begun < seconds:
                check(job.p.poll() is None, "it ended:", job.stderr())
                most = max(most, anonymous(job.p.pid))
                threading.Event().wait(0.05)
            end = job.ask()["steps"]["in"]["records_out"]
        check(end < count, "the pause came too late")
        while job.p.poll() is None:
            most = max(most, anonymous(job.p.pid))
            threading.Event().wait(0.05)
        job.wait(0, 120)
        memory = job.summary()["memory"]
    check(most < memory["total"], most // kit.MIB, "MiB at most")
    check(memory["state"]["used"] <= memory["state"]["limit"] * 5 // 4, memory)
    rows = [json.loads(v) for v in kit.values(sink)]
    equal(sorted((r["k"], r["n"]) for r in rows),
          [(k, n) for k in range(0, KEYS, 10) for n in (1, 2, 3)], "rows")
    print("  %d MiB at most" % (most // kit.MIB), flush=True)


READER = """local s = require "streamlua"
local job = s.job("reader", { checkpoint = { interval = "200ms" } })
job:source("in", s.kafka { topic = "%s", start = %s, discovery = "1s" })
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def a_topic_deleted_under_a_reader_ends_the_job_within_5_s():
    source, sink = kit.topic("gone-in", 2), kit.topic("gone-out")
    fill(source, 0, 100, 2)
    with kit.Job(READER % (source, '"earliest"', sink)) as job:
        until(lambda: kit.total(sink) == 100, "output", job=job)
        kit.ktool("delete", source)
        job.wait(78, 5)
        check('topic "%s" was deleted while the job was reading it' % source
              in job.stderr(), "the reason:", job.stderr())
        check("job.lua:3" in job.stderr(), "the place:", job.stderr())
        equal(job.summary()["status"], "failed", "status")


@test
def records_that_retention_removed_are_an_error_that_names_them():
    source, sink = kit.topic("trim-in", 2), kit.topic("trim-out")
    fill(source, 0, 2000, 2)
    with kit.Job(READER % (source, '"committed-or-earliest"', sink)) as job:
        until(lambda: kit.total(sink) == 2000, "output", job=job)
        job.signal(signal.SIGTERM)
        job.wait(0)
        fill(source, 2000, 2000, 2)
        kit.ktool("trim", source, 1, 1500)

        job.start("--bounded").wait(78)
        check("position 1000 of %s[1] in the checkpoint is no longer on the "
              "broker, whose log begins at 1500: 500 offsets were not read" %
              source in job.stderr(), "the reason:", job.stderr())
        check("retention" in job.stderr(), "the hint:", job.stderr())


@test
def retention_that_overtakes_a_running_reader_is_an_error():
    source, sink = kit.topic("overtaken-in"), kit.topic("overtaken-out")
    fill(source, 0, 60000, 1)
    # Small fetches: the reader stays far behind the end.
    with kit.Job(SLOW % (source, "earliest", sink), "--set", "work=20000",
                 "-X", "queued.min.messages=100", "-X",
                 "fetch.message.max.bytes=20000") as job:
        until(lambda: kit.total(sink) >= 100, "output", job=job)
        kit.ktool("trim", source, 0, 60000)
        job.wait(1)
        said = job.says(r"%s\[0\]: offset (\d+) is no longer on the broker, "
                        r"whose log begins at 60000" % source)
        check(said, "the reason:", job.stderr())
        check(0 < int(said.group(1)) < 60000, "the offset:", said.group(1))


@test
def a_broker_away_at_start_is_exit_69_with_address_and_reason():
    if not away:
        begin_early()
    a = away.pop()
    with a.job:
        a.thread.join(kit.WAIT_S + 30)
        a.job.wait(69, 1)
        check(28 <= a.took <= 40, "it took %.1f s" % a.took)
        text = a.job.stderr()
        check("no Kafka broker answers at 127.0.0.1:1 within 30000 ms" in text,
              "address and time:", text)
        check("Connection refused" in text, "reason:", text)
        equal(a.job.summary()["exit_code"], 69, "exit code of the summary")


@test
def a_stop_that_cannot_finish_ends_at_its_timeout_with_143():
    sink = kit.topic("stuck-out", 4)
    with kit.Job(FAST % ("x" * 200, sink), "--stop-timeout", "1500ms") as job:
        until(lambda: kit.total(sink) >= 20000, "output", job=job)
        with kit.BrokerPaused():
            begun = time.monotonic()
            job.signal(signal.SIGTERM)
            job.wait(143, 10)
            took = time.monotonic() - begun
        check(1.4 <= took <= 4, "it took %.1f s" % took)
        check("without finishing" in job.stderr(), "it says so:", job.stderr())
        equal(job.summary()["exit_code"], 143, "exit code of the summary")


@test
def a_topic_deleted_under_a_writer_ends_the_job():
    sink = kit.topic("gone-out", 2)
    text = (FAST % ("x", sink)).replace("count = s.param", "rate = s.param")
    with kit.Job(text, "--set", "count=1000") as job:
        until(lambda: kit.total(sink) >= 100, "output", job=job)
        kit.ktool("delete", sink)
        job.wait(78)
        check(sink in job.stderr() and "was probably deleted" in job.stderr(),
              "the reason:", job.stderr())


@test
def the_run_after_until_idle_goes_on_from_the_committed_positions():
    source, sink = kit.topic("again-in", 3), kit.topic("again-out")
    fill(source, 0, 3000, 3)
    with kit.Job(READER % (source, '"committed-or-earliest"', sink),
                 "--until-idle=500ms") as job:
        job.wait(0)
        equal(job.step("in")["records_in"], 3000, "first run")
        fill(source, 3000, 500, 3)
        job.start("--until-idle=500ms").wait(0)
        equal(job.step("in")["records_in"], 500, "second run")
        job.start("--bounded").wait(0)
        equal(job.step("in")["records_in"], 0, "third run")
    equal(sorted(json.loads(v)["i"] for v in kit.values(sink)),
          list(range(3500)), "rows")
