"""Partitions that come, are idle or end in control records; how jobs end."""
import json
import os
import re
import signal
import time

import kit
from kit import check, equal, test, until

GROW = """local s = require "streamlua"
local job = s.job "grow"
job:source("in", s.kafka { topic = "%s", start = "%s", discovery = "1s" })
   :sink("out", s.kafka { topic = "%s" })
return job
"""


def grows(start, old, new):
    """Rows of the old partitions that must come: `old`; of the new: `new`."""
    source, sink = kit.topic("grow-in", 2), kit.topic("grow-out")
    kit.produce(source, [(i % 2, None, None, "%d" % i) for i in range(10)])
    with kit.Job(GROW % (source, start, sink)) as job:
        job.opened()
        kit.produce(source, [(0, None, None, "100")])
        until(lambda: kit.total(sink) == old, "the old partitions", job=job)
        kit.ktool("grow", source, 3)
        kit.produce(source, [(2, None, None, "%d" % i)
                             for i in range(200, 200 + new)])
        begun = time.monotonic()
        until(lambda: kit.total(sink) == old + new, "the new partition",
              wait_s=10, job=job)
        took = time.monotonic() - begun
        check(took < 4, "it took %.1f s, discovery is 1 s" % took)
        check(job.says(r"new partition %s\[2\], read from its beginning" %
                       source), "it says so:", job.stderr())
        job.signal(signal.SIGTERM)
        job.wait(0)
    got = sorted(int(v) for v in kit.values(sink))
    equal(got[-new:], list(range(200, 200 + new)), "new partition")
    return got[:-new]


@test
def a_partition_added_while_running_is_read_from_its_beginning():
    equal(grows("earliest", 11, 50), list(range(10)) + [100], "old ones")


@test
def a_partition_added_is_read_from_its_beginning_also_from_latest():
    equal(grows("latest", 1, 50), [100], "old ones")


IDLE = """local s = require "streamlua"
local job = s.job "idle"
job:source("in", s.kafka { topic = "%s", start = "earliest" })
   :event_time { field = "ts", idle = %s }
   :key_by {} :window(s.tumbling "1s"):aggregate { n = s.count() }
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def a_partition_nobody_writes_holds_windows_back_unless_it_is_idle():
    source = kit.topic("idle-in", 2)
    never, soon = kit.topic("idle-out"), kit.topic("idle-out")
    kit.produce_values(source, ['{"ts":%d}' % t for t in range(0, 5500, 100)],
                       "--partition", 0)

    done = kit.run(IDLE % (source, "false", never), "--until-idle=3s")
    equal(kit.total(never), 0, "rows with idle = false")
    equal(done.step("in")["records_in"], 55, "records read")
    equal(done.sums["watermark"], None, "watermark with idle = false")

    with kit.Job(IDLE % (source, '"500ms"', soon)) as job:
        until(lambda: kit.total(soon) == 5, "rows with idle = 500ms", job=job)
        job.signal(signal.SIGTERM)
        job.wait(0)
        equal(job.summary()["watermark"], 5399, "watermark")
    equal([json.loads(v)["n"] for v in kit.values(soon)], [10] * 5, "rows")


COPY = """local s = require "streamlua"
local job = s.job "copy"
job:source("in", s.kafka { topic = "%s", start = "earliest" })
   :sink("out", s.kafka { topic = "%s" })
return job
"""


@test
def a_bounded_read_ends_behind_control_records_and_aborted_transactions():
    source, sink = kit.topic("txn-in", 5), kit.topic("txn-out")
    kit.produce_values(source, ["1", "2"], "--partition", 0)
    kit.produce_values(source, ["3", "4"], "--partition", 0, "--txn", "commit")
    kit.produce_values(source, ["bad"] * 9, "--partition", 1, "--txn", "abort")
    kit.produce_values(source, ["5"], "--partition", 2)
    kit.produce_values(source, ["bad"] * 9, "--partition", 2, "--txn", "abort")
    kit.produce_values(source, ["6"], "--partition", 3)
    # 4 stays empty; a transaction is open behind the end of 3.
    with kit.Feed(source, "--txn", "commit") as feed:
        feed.put([(3, None, None, "777")])
        until(lambda: b"777" in kit.ktool("read", source, "--uncommitted"),
              "an open transaction")
        begun = time.monotonic()
        done = kit.run(COPY % (source, sink), "--bounded")
        took = time.monotonic() - begun

    equal(sorted(kit.values(sink)), list("123456"), "rows")
    equal(done.sums["status"], "finished", "status")
    check(took < 10, "it took %.1f s" % took)
    done = kit.run(COPY % (source, kit.topic("txn-out")), "--bounded")
    equal(done.step("in")["records_in"], 7, "records after the commit")


@test
def rows_of_an_aborted_transaction_are_seen_only_if_asked_for():
    source, sink = kit.topic("dirty-in"), kit.topic("dirty-out")
    kit.produce_values(source, ["1"])
    kit.produce_values(source, ["2"], "--txn", "abort")
    kit.produce_values(source, ["3"])
    text = (COPY % (source, sink)).replace(
        "start =", 'isolation = "read_uncommitted", start =')

    kit.run(text, "--bounded")

    equal(kit.values(sink), ["1", "2", "3"], "rows")


@test
def until_idle_stops_a_job_whose_windows_stay_open():
    source, sink = kit.topic("until-in"), kit.topic("until-out")
    kit.produce_values(source, ['{"ts":%d}' % t for t in range(0, 2500, 100)])
    begun = time.monotonic()

    done = kit.run(IDLE % (source, '"100ms"', sink), "--until-idle=1s")

    check(1 <= time.monotonic() - begun < 15, "the time it took")
    equal(done.sums["status"], "stopped", "status")
    equal([json.loads(v)["n"] for v in kit.values(sink)], [10, 10], "rows")
    check("idle for 1000 ms: stopping" in done.err, "it says so:", done.err)


@test
def bounded_ends_at_the_offsets_found_at_start():
    source, sink = kit.topic("bounded-in", 2), kit.topic("bounded-out")
    kit.produce(source, [(i % 2, None, None, "%d" % i) for i in range(1000)])

    done = kit.run(COPY % (source, sink), "--bounded")
    equal(sorted(map(int, kit.values(sink))), list(range(1000)), "rows")
    equal(done.sums["status"], "finished", "status")

    empty = kit.topic("bounded-empty", 3)
    done = kit.run(COPY % (empty, sink), "--bounded")
    equal(done.step("in")["records_in"], 0, "records of an empty topic")
    equal(done.sums["status"], "finished", "status of an empty topic")


@test
def properties_pass_through_and_wrong_ones_are_explained():
    source, sink = kit.topic("props-in"), kit.topic("props-out")
    kit.produce_values(source, ["1"])
    text = COPY % (source, sink)
    in_job = text.replace("start =", "properties = { %s }, start =")

    # It reaches the client: the broker never is asked on that port.
    done = kit.run(text, "--bounded", "-X", "client.id=probe-77", "-X",
                   "debug=broker", "-v")
    check("probe-77" in done.err or "BROKER" in done.err.upper(),
          "-X reaches the client")
    kit.run(in_job % '["fetch.min.bytes"] = 1, ["socket.keepalive.enable"] = true',
            "--bounded")

    for flags, words in (
            (["-X", "fetch.min.byte=1"], "did you mean \"fetch.min.bytes\""),
            (["-X", "max.poll.records=9"], "one of the Java client"),
            (["-X", "group.id=g"], "the source's option `group`"),
            (["-X", "fetch.min.bytes=x"], "fetch.min.bytes")):
        done = kit.run(text, "--bounded", *flags, code=64)
        check(words in done.err and "-X" in done.err, words, "not in",
              done.err)
    for name, words in (
            ("fetch.min.byte", "did you mean \"fetch.min.bytes\""),
            ("max.poll.records", "batches are sized by the engine"),
            ("sasl.jaas.config", "use sasl.username and sasl.password"),
            ("auto.offset.reset", "option `start`"),
            ("isolation.level", "option `isolation`")):
        done = kit.run(in_job % ('["%s"] = "1"' % name), "--bounded", code=65)
        check(words in done.err and "job.lua:3" in done.err, words, "not in",
              done.err)


@test
def sigusr1_prints_the_summary_and_the_job_goes_on():
    source, sink = kit.topic("ask-in"), kit.topic("ask-out")
    kit.produce_values(source, ["1", "2"])
    with kit.Job(COPY % (source, sink)) as job:
        until(lambda: kit.total(sink) == 2, "output", job=job)
        first = job.ask()
        equal(first["status"], "running", "status")
        equal(first["steps"]["in"]["records_in"], 2, "records")
        equal(first["steps"]["out"]["records_out"], 2, "rows")
        kit.produce_values(source, ["3"])
        until(lambda: kit.total(sink) == 3, "more output", job=job)
        equal(job.ask()["steps"]["in"]["records_in"], 3, "records later")
        job.signal(signal.SIGTERM)
        job.wait(0)


LAGS = """local s = require "streamlua"
local job = s.job "lags"
job:source("in", s.kafka { topic = "%s", start = "earliest" })
   :map(function(e)
     local x = 0
     for k = 1, 40000 do x = x + k end
     return e
   end)
   :sink("out", s.blackhole())
return job
"""


@test
def the_progress_line_of_a_terminal_shows_the_lag():
    source = kit.topic("lag-in")
    kit.produce_values(source, ['{"i":%d}' % i for i in range(30000)])
    try:
        master, slave = os.openpty()
    except OSError as e:  # a bare chroot has none
        raise kit.Skipped(str(e)) from e
    os.set_blocking(master, False)
    text = bytearray()

    def lag():
        try:
            text.extend(os.read(master, 65536))
        except BlockingIOError:
            pass
        return re.search(rb"lags running [0-9:]+ in \S+/s out \S+/s "
                         rb"lag ([0-9.]+)K", bytes(text))

    try:
        with kit.Job(LAGS % source, stderr=slave) as job:
            said = until(lag, "a line with the lag")
            check(1 <= float(said.group(1)) <= 30, "lag", said.group(1), "K")
            job.signal(signal.SIGTERM)
            job.wait(0)
    finally:
        os.close(master)
        os.close(slave)
