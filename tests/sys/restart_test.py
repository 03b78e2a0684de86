#!/usr/bin/env python3
"""Jobs that begin again inside their process, and fault points that kill.

usage: restart_test.py [--bin PATH] [-j N] [NAME...]

The outside that fails is a Lua sink or source: what it has to remember from
one start to the next it keeps in a file (its job runs with --unsafe).
"""
import argparse
import os
import re
import signal
import sys
import time

import ckpt_kit
from ckpt_kit import Folder, must_hold, same_rows

HEAD = """local s = require "streamlua"
local job = s.job("job", { checkpoint = { interval = "50ms" },
  on_error = "skip", state = { backend = s.param("backend", "lmdb") },
  restart = { initial_backoff = s.param("first", "10ms"),
    max_backoff = s.param("most", "40ms"), attempts = s.param("tries", 9) } })
local failures = s.param("failures", 2)

-- Count in a file how often the outside has failed; fail if it shall.
local function may_fail(name)
  local f = io.open(name, "r")
  local n = f and #f:read("a") or 0
  if f then f:close() end
  if n >= failures then return end
  f = io.open(name, "a"); f:write("x"); f:close()
  error(s.retriable("the outside is away"))
end

local fields = { i = s.gen.sequence {}, k = s.gen.zipf(200, 1.1),
  v = s.gen.int(-1000, 1000), jitter = s.gen.int(0, 900) }
local function input()
  return job:source("in", s.generator { count = 30000, rate = 30000,
    partitions = 3, fields = fields })
end
local function counted(stream)
  return stream:map(function(e)
      if e.i % 1000 == 999 then error("bad record") end
      e.ts = e.i - e.jitter
      return e
    end)
    :event_time { field = "ts", out_of_orderness = "600ms" }
    :key_by "k":window(s.tumbling("1s"), { late_output = "late" })
    :aggregate { n = s.count(), sum = s.sum "v" }
end
"""

SINK = HEAD + """
local r = counted(input())
r:sink("out", s.file { path = "out" })
r:side_output("late"):sink("late", s.file { path = "late" })
local seen = 0
r:sink("away", s.sink { write = function(batch)
  seen = seen + #batch
  if seen > 150 then may_fail("failed") end
end }, { parallelism = 1 })
return job
"""

SOURCE = HEAD + """
local mine = job:source("in", s.source { partitions = 2, poll = "5ms",
  read = function(position, max, p)
    local at, rows = position or 0, {}
    if at >= 8000 then return nil end
    if at > 4000 and p == 1 then may_fail("failed") end
    for i = at, at + 199 do
      local n = i * 2 + p
      rows[#rows + 1] = { i = n, k = n * 7919 % 100, v = n % 17,
        jitter = n * 104729 % 900 }
    end
    return rows, at + 200
  end })
counted(mine):sink("out", s.file { path = "out" })
return job
"""

# Bad lines are counted at the source, by the step that reads them.
BAD_LINES = HEAD + """
local r = counted(job:source("in", s.file { path = "input/*.jsonl" }))
r:sink("out", s.file { path = "out" })
local seen = 0
r:sink("away", s.sink { write = function(batch)
  seen = seen + #batch
  if seen > 200 then may_fail("failed") end
end }, { parallelism = 1 })
return job
"""

AWAY = HEAD + """
input():sink("away", s.sink { write = function() may_fail("failed") end })
return job
"""

BROKEN = HEAD + """
local mended = s.param("mended", false)
local r = counted(input():map(function(e)
  if e.i == 15000 and not mended then
    error("does not work")
  end
  return e
end, { on_error = "fail" }))
r:sink("out", s.file { path = "out" })
return job
"""


def counts(summary):
    """What must be the same however often a job began again."""
    names = ("records_in", "records_out", "bytes_in", "bytes_out", "late",
             "late_windows", "dropped", "errors")
    return {step: {n: c[n] for n in names if n in c}
            for step, c in summary["steps"].items()}


def restarted(binary, text, failures, *sinks):
    """A run whose outside fails now and then against one that never does."""
    with Folder(binary, text) as calm, Folder(binary, text) as f:
        for folder in (calm, f):
            make_lines(folder)
        calm.finish("--set", "failures=0")
        err = f.finish("--set", "failures=%d" % failures)
        got = f.summary()
        assert got["status"] == "finished" and got["exit_code"] == 0, got
        assert got["restarts"] == failures, (got["restarts"], err)
        for sink in sinks:
            same_rows(f.rows(sink), calm.rows(sink), sink)
        want, have = counts(calm.summary()), counts(got)
        for step in want:
            if step != "away":
                assert have[step] == want[step], (step, have[step], want[step])
        must_hold(err, "the outside is away")
        return err


def make_lines(folder):
    os.mkdir(folder.at("input"))
    for p in range(2):
        with open(folder.at("input", "%d.jsonl" % p), "w") as f:
            for i in range(40000):
                n = i * 2 + p
                if i % 50 == 7:
                    f.write('{"i":%d,"k"\n' % n)
                else:
                    f.write('{"i":%d,"k":%d,"v":%d,"jitter":%d}\n' % (
                        n, n * 7919 % 100, n % 17, n * 104729 % 900))


def a_sink_that_is_away_once_costs_a_restart_and_no_row(binary):
    restarted(binary, SINK, 1, "out", "late")


def a_sink_that_is_away_often_changes_no_count(binary):
    restarted(binary, SINK, 4, "out", "late")


def a_source_that_is_away_changes_no_count(binary):
    restarted(binary, SOURCE, 3, "out")


def bad_lines_are_counted_once_however_often_they_are_read(binary):
    restarted(binary, BAD_LINES, 3, "out")


def a_restart_takes_state_in_memory_from_the_store(binary):
    restarted(binary, SINK.replace('"backend", "lmdb"', '"backend", "memory"'),
              2, "out", "late")


def attempts_that_are_used_up_end_the_job_with_69(binary):
    with Folder(binary, AWAY) as f:
        err = f.finish("--set", "failures=1000", "--set", "tries=3", code=69)
        s = f.summary()
        assert s["restarts"] == 3 and s["status"] == "failed", s
        must_hold(s["error"], "the outside is away")
        waits = [int(w) for w in re.findall(r"restart \d+ in (\d+) ms", err)]
        assert waits == [10, 20, 40], waits
        f.finish("--set", "failures=0")
        assert f.summary()["steps"]["away"]["records_out"] == 30000


def no_attempts_end_the_job_at_the_first_failure(binary):
    with Folder(binary, SINK) as f:
        err = f.finish("--set", "failures=1", "--set", "tries=0", code=69)
        assert f.summary()["restarts"] == 0
        assert "restart 1" not in err, err
        f.finish("--set", "failures=1")
        with Folder(binary, SINK) as calm:
            calm.finish("--set", "failures=0")
            same_rows(f.rows(), calm.rows(), "out")


def an_error_of_the_job_ends_it_at_once_and_keeps_its_state(binary):
    with Folder(binary, BROKEN) as f, Folder(binary, BROKEN) as calm:
        err = f.finish(code=1)
        s = f.summary()
        assert s["restarts"] == 0 and s["checkpoints"]["last"] > 0, s
        must_hold(err, "does not work", "job.lua:")
        last = s["checkpoints"]["last"]
        f.finish("--set", "mended=true")
        assert f.summary()["checkpoints"]["restored"] == last
        calm.finish("--set", "mended=true")
        same_rows(f.rows(), calm.rows(), "out")


def a_job_without_checkpoints_does_not_begin_again(binary):
    text = SINK.replace('checkpoint = { interval = "50ms" }',
                        "checkpoint = false")
    with Folder(binary, text) as f:
        f.finish("--set", "failures=1", code=69)
        assert f.summary()["restarts"] == 0
        assert not os.path.exists(f.at("streamlua-data"))


def a_signal_ends_the_wait_for_the_next_attempt(binary):
    with Folder(binary, SINK) as f:
        with f.start("--set", "failures=1", "--set", "first=60s", "--set",
                     "most=60s") as run:
            assert run.until("restart 1 in 60000 ms"), run.text()
            begun = time.monotonic()
            run.p.send_signal(signal.SIGTERM)
            run.end(143)
            assert time.monotonic() - begun < 20
        last = f.summary()["checkpoints"]["last"]
        f.finish("--set", "failures=1")
        c = f.summary()["checkpoints"]
        assert c["restored"] == last, (c, last)


# --- fault points: the program must be built with --enable-test-mode -----------


DEATHS = ("round_begin=3!", "round_frozen=3!", "ckpt_prepare=3!",
          "store_write=3!", "store_written=3!", "store_merge=3!",
          "sink_committed=3!", "source_committed=3!", "round_done=3!",
          "file_sink_sync=2!", "file_sink_rename=1!", "file_sink_write=9!",
          "store_written=1!", "round_begin=1!")


def dying_at_any_step_of_a_round_loses_and_doubles_nothing(binary):
    if not ckpt_kit.has_test_mode(binary):
        return "skipped"
    text = SINK.replace("30000", "9000")
    with Folder(binary, text) as calm:
        calm.finish("--set", "failures=0")
        want = {s: calm.rows(s) for s in ("out", "late")}
    for fault in DEATHS:
        with Folder(binary, text) as f:
            with f.start("--set", "failures=0",
                         env={"STREAMLUA_FAULT": fault}) as run:
                run.drain()
                assert run.p.returncode in (0, -signal.SIGKILL), run.text()
                died = run.p.returncode != 0
            assert died or "sink" in fault, fault + " was never reached"
            # And once more, while it begins again.
            with f.start("--set", "failures=0",
                         env={"STREAMLUA_FAULT": "restore_done=2!"}) as run:
                run.drain()
            f.finish("--set", "failures=0")
            for sink in want:
                same_rows(f.rows(sink), want[sink], fault + " " + sink)
    return None


FAILURES = (("store_write=3", 74), ("file_sink_sync=2", 74),
            ("file_sink_write=5", 74))


def a_round_that_cannot_be_written_fails_the_job_and_not_its_state(binary):
    if not ckpt_kit.has_test_mode(binary):
        return "skipped"
    text = SINK.replace("30000", "9000")
    with Folder(binary, text) as calm:
        calm.finish("--set", "failures=0")
        want = {s: calm.rows(s) for s in ("out", "late")}
    for fault, code in FAILURES:
        with Folder(binary, text) as f:
            f.finish("--set", "failures=0", code=code,
                     env={"STREAMLUA_FAULT": fault})
            c = f.summary()["checkpoints"]
            assert c["last"] == c["completed"] > 0, c
            f.finish("--set", "failures=0")
            for sink in want:
                same_rows(f.rows(sink), want[sink], fault + " " + sink)
    return None


TESTS = [
    dying_at_any_step_of_a_round_loses_and_doubles_nothing,
    a_sink_that_is_away_once_costs_a_restart_and_no_row,
    a_sink_that_is_away_often_changes_no_count,
    a_source_that_is_away_changes_no_count,
    bad_lines_are_counted_once_however_often_they_are_read,
    a_restart_takes_state_in_memory_from_the_store,
    attempts_that_are_used_up_end_the_job_with_69,
    no_attempts_end_the_job_at_the_first_failure,
    an_error_of_the_job_ends_it_at_once_and_keeps_its_state,
    a_job_without_checkpoints_does_not_begin_again,
    a_signal_ends_the_wait_for_the_next_attempt,
    a_round_that_cannot_be_written_fails_the_job_and_not_its_state,
]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=4)
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    return ckpt_kit.run_tests(TESTS, os.path.abspath(args.bin), args.names,
                              args.j)


if __name__ == "__main__":
    sys.exit(main())
