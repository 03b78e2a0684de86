#!/usr/bin/env python3
"""Sources in Lua: positions, partitions, open and close, killed on the way.

usage: lua_source_test.py [--bin PATH] [--seed N] [NAME...]

What must come out is computed here.
"""
import argparse
import json
import os
import random
import sys
import time

import ckpt_kit
from ckpt_kit import Folder, must_hold

OPTIONS = None
ROWS = 1500  # of a partition

# The position is a table with all that is plain; a partition that finds
# anything else in it ends the job.
JOB = """local s = require "streamlua"
local partitions = s.param("partitions", 3)
local job = s.job("job", { checkpoint = { interval = "20ms" },
  restart = { initial_backoff = "5ms", max_backoff = "20ms" } })
local function note(name, p)
  local f = assert(io.open("calls", "a"))
  f:write(name, " ", p, "\\n"); f:close()
end
local function make(p, n)
  return { n = n, p = p, name = "p\\0" .. p, whole = (1 << 62) + n,
    half = n + 0.5, list = { n, { n + 1 }, "x" }, yes = true,
    ["a key"] = { deep = { deeper = { n } } }, empty = {} }
end
local function same(a, b)
  if math.type(a) ~= math.type(b) or type(a) ~= type(b) then return false end
  if type(a) ~= "table" then return a == b end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end
local reads, failures = 0, s.param("failures", 0)
local ends = s.param("ends", true) -- false: it is still there to be killed
local function may_fail()
  reads = reads + 1
  if failures == 0 or reads % 40 ~= 0 then return end
  local f = io.open("failed", "r")
  local n = f and #f:read("a") or 0
  if f then f:close() end
  if n >= failures then return end
  f = io.open("failed", "a"); f:write("x"); f:close()
  error(s.retriable("away"))
end
job:source("in", s.source { partitions = partitions, poll = "1ms",
  open = function(p) note("open", p) end,
  close = function(p) note("close", p) end,
  read = function(position, max, p)
    may_fail()
    local n = position and position.n or 0
    if position and not same(position, make(p, n)) then
      error("partition " .. p .. " got another position")
    end
    if n >= ROWS then
      if ends then return nil end
      return {}, position
    end
    if n %% 3 == 0 and math.random(2) == 1 then
      return {}, position
    end
    return { { p = p, i = n } }, make(p, n + 1)
  end }):sink("out", s.file { path = "out" })
return job
""".replace("ROWS", str(ROWS)).replace("%%", "%")


def rows(partitions):
    return sorted((p, i) for p in range(partitions) for i in range(ROWS))


def got(folder):
    return sorted((r["p"], r["i"]) for r in map(json.loads, folder.rows()))


def same(folder, partitions):
    have, want = got(folder), rows(partitions)
    assert have == want, (len(have), len(want), [
        r for r in want if r not in set(have)][:5])


def positions_of_any_plain_value_survive_kill_9_and_rescaling(binary):
    """... also where there are more partitions than before."""
    rng = random.Random(OPTIONS.seed)
    with Folder(binary, JOB) as folder:
        kills = 0
        for k in range(16):
            more = "3" if k < 8 else "5"
            with folder.start("--parallelism", str(rng.choice((1, 2, 3, 5))),
                              "--set", "partitions=" + more,
                              "--set", "ends=false") as run:
                deadline = time.monotonic() + rng.uniform(0.05, 0.3)
                while time.monotonic() < deadline and run.listen(0.01):
                    pass
                kills += run.p.poll() is None
                run.kill()
        folder.finish("--parallelism", "2", "--set", "partitions=5")
        same(folder, 5)
        print("   %d kills" % kills)


def fewer_partitions_than_the_checkpoint_has_are_refused(binary):
    with Folder(binary, JOB) as folder:
        with folder.start() as run:
            run.until("checkpoint 3 completed")
            run.kill()
        must_hold(folder.finish("--set", "partitions=2", code=65),
                  "state would be lost: in: partitions changed from 3 to 2")
        folder.finish()
        same(folder, 3)


def a_read_that_fails_for_now_goes_on_from_the_last_checkpoint(binary):
    with Folder(binary, JOB) as folder:
        err = folder.finish("--set", "failures=4")
        must_hold(err, "away; restart 1", "restart 4: goes on from")
        same(folder, 3)
        assert folder.summary()["restarts"] == 4


def each_open_has_its_close_however_the_job_ends(binary):
    for flags, stop in ((), True), ((), False), (("--set", "failures=3"), False):
        with Folder(binary, JOB) as folder:
            with folder.start("--parallelism", "2", *flags) as run:
                if stop:
                    run.until("checkpoint 2 completed")
                    run.p.terminate()
                run.end(0)
            with open(folder.at("calls")) as f:
                calls = f.read().splitlines()
            for p in "012":
                of_it = [c.split()[0] for c in calls if c.endswith(" " + p)]
                assert of_it == ["open", "close"] * (len(of_it) // 2), (p, calls)
                assert len(of_it) >= 2, calls


TESTS = [
    positions_of_any_plain_value_survive_kill_9_and_rescaling,
    fewer_partitions_than_the_checkpoint_has_are_refused,
    a_read_that_fails_for_now_goes_on_from_the_last_checkpoint,
    each_open_has_its_close_however_the_job_ends,
]


def main():
    global OPTIONS
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("-j", type=int, default=2)
    ap.add_argument("names", nargs="*")
    OPTIONS = ap.parse_args()
    return ckpt_kit.run_tests(TESTS, os.path.abspath(OPTIONS.bin),
                              OPTIONS.names, OPTIONS.j)


if __name__ == "__main__":
    sys.exit(main())
