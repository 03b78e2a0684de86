#!/usr/bin/env python3
"""Changes of a running job that cost some of its state: what they leave.

usage: keep_test.py [--bin PATH] [-j N] [NAME...]

A job with aggregates and state handles of which some are removed, changed and
added, by reload, rollback and restarts, under kill -9. All others must be
exact against what is computed here, in plain Python; what was given up must
not come back.
"""
import argparse
import json
import os
import subprocess
import sys

import run_cases
from ckpt_kit import Folder, must_hold, run_tests

COUNT = 30000
KEYS = 50

JOB = """local s = require "streamlua"
local job = s.job("job", { checkpoint = { interval = s.param("interval", "40ms") },
  state = { backend = s.param("backend", "lmdb") } })
local input = job:source("in", s.generator { count = %(count)d, rate = s.param("rate", %(count)d),
    partitions = 3, fields = { i = s.gen.sequence {} } })
  :map(function(e) e.k, e.ts = e.i %% %(keys)d, e.i * 10 return e end)
  :event_time { field = "ts" }
local function aggs()
  return { n = s.count(), %(agg)s sum = s.sum "i" }
end
local function note(st, e) %(note)s end
local function see(st) %(see)s end
input:key_by "k":process { name = "p",
  state = { v = s.value_state(), %(handle)s m = s.map_state() },
  on_record = function(e, ctx)
    local st = ctx.state
    st.v:set((st.v:get() or 0) + 1)
    st.m:put(e.i %% 7, (st.m:get(e.i %% 7) or 0) + 1)
    note(st, e)
    ctx:register_event_timer(1 << 50)
  end,
  on_timer = function(ts, ctx)
    local st, m = ctx.state, 0
    for _, x in st.m:pairs() do m = m + x end
    ctx:emit { k = ctx:key(), v = st.v:get(), m = m, more = see(st) }
  end }
  :sink("process", s.file { path = "process" })
input:key_by "k":window(s.hopping("150s", "50s")):aggregate(aggs(), { name = "w" })
  :sink("windows", s.file { path = "windows" })
input:key_by "k":window(s.global()):aggregate(aggs(), { name = "g" })
  :sink("all", s.file { path = "all" })
input:key_by "k":aggregate(aggs(), { name = "u" })
  :sink("updating", s.file { path = "updating" })
  :sink("seen", s.stdout())
return job
"""

LOW = {"agg": 'low = s.min "i",',
       "handle": "l = s.list_state(),",
       "note": "if e.i // 50 % 2 == 0 then st.l:add(e.i) end",
       "see": "return st.l:get()[1] or -1"}
NONE = {"agg": "", "handle": "", "note": "", "see": "return -2"}
# Another aggregate and another handle of the same names.
OTHER = {"agg": 'low = s.first "i",',
         "handle": "l = s.value_state(),",
         "note": "if not st.l:get() then st.l:set(e.i) end",
         "see": "return st.l:get() or -1"}

REMOVED = ("aggregate low removed: its part is given up, the others are kept",
           "state l removed: its entries are given up, all else is kept")
CHANGED = ("aggregate low changed from ",
           "state l changed from list to value: its entries are given up, "
           "all else is kept")


def text(parts):
    return JOB % {"count": COUNT, "keys": KEYS, **parts}


def parsed(f, folder):
    return [json.loads(line) for line in f.rows(folder)]


def expect(got, want, what):
    assert got == want, "%s: got %r, want %r" % (what, got, want)


def check(f):
    """What was never given up is exact. @return the rows of all keys."""
    each = COUNT // KEYS
    sums = {k: sum(range(k, COUNT, KEYS)) for k in range(KEYS)}
    process = parsed(f, "process")
    expect(sorted((r["k"], r["v"], r["m"]) for r in process),
           [(k, each, each) for k in range(KEYS)], "process")
    whole = parsed(f, "all")
    expect(sorted((r["k"], r["n"], r["sum"]) for r in whole),
           [(k, each, sums[k]) for k in range(KEYS)], "global windows")
    want, seen = {}, {}
    for i in range(COUNT):
        for end in range(i * 10 // 50000 * 50000 + 50000,
                         i * 10 + 150001, 50000):
            n, total = want.get((i % KEYS, end), (0, 0))
            want[i % KEYS, end] = n + 1, total + i
    for r in parsed(f, "windows"):
        at = (r["k"], r["window_end"])
        assert at not in seen, "%r twice" % (at,)
        seen[at] = r["n"], r["sum"]
    expect(seen == want, True, "windows")
    last = {}
    for r in parsed(f, "updating"):
        last[r["k"]] = max(last.get(r["k"], (0, 0)), (r["n"], r["sum"]))
    expect(last, {k: (each, sums[k]) for k in range(KEYS)}, "updating")
    return process, whole


def ask(f, verb, code, *flags):
    out = subprocess.run([f.binary, verb, "job", *flags], cwd=f.path,
                         capture_output=True, text=True, timeout=60,
                         env=run_cases.clean_env({}))
    said = out.stdout + out.stderr
    assert out.returncode == code, (out.returncode, said)
    return said


def swap(f, parts, lost):
    """Reload: refused, and then accepted as a loss of what `lost` says."""
    f.write("job.lua", text(parts))
    must_hold(ask(f, "reload", 1), "state would be lost", *lost)
    must_hold(ask(f, "reload", 0, "--allow-state-loss"), "state loss", *lost)


def reloaded(binary, backend):
    with Folder(binary, text(LOW)) as f:
        with f.start("--set", "rate=3000", "--set", "backend=" + backend,
                     "--parallelism", "2") as run:
            assert run.until("checkpoint 4 completed"), run.text()
            swap(f, NONE, REMOVED)
            f.write("job.lua", text(LOW))
            must_hold(ask(f, "reload", 0), "low added", "state l added")
            swap(f, OTHER, CHANGED)
            run.end(0)
        process, whole = check(f)
        # In the first fifty records every key has its lowest.
        assert min(r["more"] for r in process) >= KEYS, process[:3]
        assert min(r["low"] for r in whole) >= KEYS, whole[:3]


def a_reload_costs_what_it_is_about_and_no_more_lmdb(binary):
    reloaded(binary, "lmdb")


def a_reload_costs_what_it_is_about_and_no_more_memory(binary):
    reloaded(binary, "memory")


def crashed(binary, backend):
    """The loss is in memory only until a round has it."""
    flags = ("--set", "rate=8000", "--set", "backend=" + backend)
    with Folder(binary, text(LOW)) as f:
        with f.start("--parallelism", "2", *flags) as run:
            assert run.until("checkpoint 4 completed"), run.text()
            run.kill()
        f.write("job.lua", text(NONE))
        for slots in "1", "4", "2":
            with f.start("--set", "interval=1h", "--allow-state-loss",
                         "--parallelism", slots, *flags) as run:
                assert run.until("goes on from checkpoint"), run.text()
                run.kill()
                must_hold(run.text(), *REMOVED)
        f.write("job.lua", text(LOW))  # as nothing has happened
        with f.start("--parallelism", "1", *flags) as run:
            assert run.until("completed steps"), run.text()
            run.kill()
            assert "given up" not in run.text(), run.text()
        f.write("job.lua", text(NONE))
        with f.start("--allow-state-loss", "--parallelism", "3",
                     *flags) as run:
            assert run.until("completed steps"), run.text()
            run.kill()
        f.write("job.lua", text(LOW))
        f.finish("--parallelism", "4")
        process, whole = check(f)
        assert min(r["more"] for r in process) >= KEYS, process[:3]
        assert min(r["low"] for r in whole) >= KEYS, whole[:3]


def a_crash_in_front_of_the_first_round_loses_no_more_lmdb(binary):
    crashed(binary, "lmdb")


def a_crash_in_front_of_the_first_round_loses_no_more_memory(binary):
    crashed(binary, "memory")


def back_from_an_added_aggregate_the_others_go_on(binary):
    with Folder(binary, text(NONE)) as f:
        with f.start("--set", "rate=3000", "--parallelism", "2") as run:
            assert run.until("checkpoint 4 completed"), run.text()
            f.write("job.lua", text(LOW))
            must_hold(ask(f, "reload", 0), "low added", "state l added")
            must_hold(ask(f, "rollback", 1), "state would be lost", *REMOVED)
            must_hold(ask(f, "rollback", 0, "--allow-state-loss"), *REMOVED)
            run.end(0)
        process, _ = check(f)
        assert {r["more"] for r in process} == {-2}, process[:3]


# The handle is a number, and with migrate a table.
FORM = [dict(NONE, handle="l = s.value_state(),",
             note="st.l:set(math.max(e.i, st.l:get() or 0))",
             see="return st.l:get()"),
        dict(NONE, handle="l = s.value_state { migrate = function(old) "
             "return { old } end },",
             note="st.l:set { math.max(e.i, (st.l:get() or { 0 })[1]) }",
             see="return st.l:get()[1]")]


def back_over_a_migration_the_new_form_is_not_read(binary):
    why = ("state l has no migrate any more, with other functions of the step "
           "changed: its entries are given up, all else is kept")
    with Folder(binary, text(FORM[0])) as f:
        with f.start("--set", "rate=3000", "--parallelism", "2") as run:
            assert run.until("checkpoint 4 completed"), run.text()
            f.write("job.lua", text(FORM[1]))
            must_hold(ask(f, "reload", 0), "l through migrate")
            must_hold(ask(f, "rollback", 1), "state would be lost", why)
            must_hold(ask(f, "rollback", 0, "--allow-state-loss"), why)
            run.end(0)
        process, _ = check(f)
        expect(sorted((r["k"], r["more"]) for r in process),
               [(k, COUNT - KEYS + k) for k in range(KEYS)], "the new value")


TESTS = [a_reload_costs_what_it_is_about_and_no_more_lmdb,
         a_reload_costs_what_it_is_about_and_no_more_memory,
         a_crash_in_front_of_the_first_round_loses_no_more_lmdb,
         a_crash_in_front_of_the_first_round_loses_no_more_memory,
         back_from_an_added_aggregate_the_others_go_on,
         back_over_a_migration_the_new_form_is_not_read]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=4)
    ap.add_argument("names", nargs="*")
    a = ap.parse_args()
    return run_tests(TESTS, os.path.abspath(a.bin), a.names, a.j)


if __name__ == "__main__":
    sys.exit(main())
