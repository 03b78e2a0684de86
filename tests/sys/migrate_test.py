#!/usr/bin/env python3
"""Jobs whose state gets a new form at each start, under kill -9.

usage: migrate_test.py [--bin PATH] [-j N] [--seed N] [NAME...]

Each version of the job passes all its state through `migrate`. A value knows
under which version it was born, how often it was passed on, and for which
version it is made: once for each version since, or the job says so. What the
job must give is computed here, in plain Python.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

import run_cases
from ckpt_kit import Folder, must_hold, run_tests

COUNT = 40000
KEYS = 50
SEED = 1

# Version 0 keeps numbers, all others tables.
JOB = """local s = require "streamlua"
local job = s.job("job", { checkpoint = { interval = s.param("interval", "40ms") },
  state = { backend = s.param("backend", "lmdb") } })
local VER = %(ver)d
local function fresh(n) return VER == 0 and n or { n = n, born = VER, gens = 0, ver = VER } end
local function count(x) return VER == 0 and x or x.n end
local function bad(x)
  return VER > 0 and (x.ver ~= VER or x.gens ~= VER - x.born) and 1 or 0
end
local function add(x, n)
  if VER == 0 then return x + n end
  x.n = x.n + n
  return x
end
local function up(old, ver)
  if ver == 1 then old = { n = old, born = 0, gens = 0, ver = 0 } end
  if old.ver ~= ver - 1 then error(("of %%s, not %%d"):format(old.ver, ver - 1)) end
  return { n = old.n, born = old.born, gens = old.gens + 1, ver = ver }
end
local function both(a, b)
  if VER == 0 then return a + b end
  local of = a.born <= b.born and a or b
  return { n = a.n + b.n, born = of.born, gens = of.gens, ver = of.ver }
end
local function counter()
  return s.aggregator { args = { "one" },
    init = function() return fresh(0) end,
    add = function(a, one) return add(a, one) end,
    merge = function(a, b) return both(a, b) end,
    result = function(a) return { n = count(a), bad = bad(a) } end,
    %(migrate)s }
end
local input = job:source("in", s.generator { count = %(count)d, rate = s.param("rate", %(count)d),
    partitions = 3, fields = { i = s.gen.sequence {} } })
  :map(function(e) e.k, e.one, e.ts = e.i %% %(keys)d, 1, e.i * 10 return e end)
  :event_time { field = "ts" }

input:key_by "k":process { name = "p",
  state = { v = s.value_state { %(migrate)s },
    l = s.list_state { %(migrate)s },
    m = s.map_state { %(migrate)s },
    r = s.reducing_state(both, { %(migrate)s }),
    c = s.aggregating_state(counter()),
    builtin = s.aggregating_state(s.count()) },
  on_record = function(e, ctx)
    local st = ctx.state
    local v = st.v:get()
    st.v:set(v and add(v, 1) or fresh(1))
    if e.i %% 100 < %(keys)d then st.l:add(fresh(1)) end
    local x = st.m:get(e.i %% 7)
    st.m:put(e.i %% 7, x and add(x, 1) or fresh(1))
    st.r:add(fresh(1))
    st.c:add(e)
    st.builtin:add(e)
    ctx:register_event_timer(1 << 50)
  end,
  on_timer = function(ts, ctx)
    local st, n, wrong, first = ctx.state, 0, 0, 0
    local function see(x)
      n, wrong = n + count(x), wrong + bad(x)
      if x.born == 0 then first = first + 1 end
    end
    local row = { { "k", ctx:key() } }
    local function put(name)
      row[#row + 1] = { name, n }
      n = 0
    end
    see(st.v:get()) put "v"
    for _, x in ipairs(st.l:get()) do see(x) end put "l"
    for _, x in st.m:pairs() do see(x) end put "m"
    see(st.r:get()) put "r"
    local c = st.c:get()
    n, wrong = c.n, wrong + c.bad put "c"
    row[#row + 1] = { "builtin", st.builtin:get() }
    row[#row + 1] = { "bad", wrong }
    row[#row + 1] = { "first", first }
    ctx:emit(s.row(row))
  end }
  :sink("process", s.file { path = "process" })
-- Windows that are open over many versions.
input:key_by "k":window(s.hopping("200s", "50s")):aggregate({ c = counter() }, { name = "w" })
  :sink("windows", s.file { path = "windows" })
input:key_by "k":window(s.global()):aggregate({ c = counter(), n = s.count() }, { name = "g" })
  :sink("all", s.file { path = "all" })
-- One row a key for each change; the last one counts.
input:key_by "k":aggregate({ c = counter() }, { name = "u" })
  :sink("updating", s.file { path = "updating" })
  :sink("seen", s.stdout())
return job
"""


def text(ver, migrate=None):
    if migrate is None:
        migrate = "" if ver == 0 else (
            "migrate = function(old) return up(old, %d) end" % ver)
    return JOB % {"ver": ver, "migrate": migrate, "count": COUNT,
                  "keys": KEYS}


def parsed(f, folder):
    return [json.loads(line) for line in f.rows(folder)]


def expect(got, want, what):
    assert got == want, "%s: got %r, want %r" % (what, got, want)


def check(f):
    """All of it, after the last version came to the end of its input."""
    each = COUNT // KEYS
    rows = parsed(f, "process")
    expect(sorted(r["k"] for r in rows), list(range(KEYS)), "keys")
    # Of the first version there are many: a test without is none.
    assert sum(r["first"] for r in rows) > 10 * KEYS, rows
    for r in rows:
        del r["first"]
        want = {"k": r["k"], "v": each, "l": COUNT // 100, "m": each,
                "r": each, "c": each, "builtin": each, "bad": 0}
        expect(r, want, "process")
    rows = parsed(f, "all")
    expect(len(rows), KEYS, "global windows")
    for r in rows:
        expect((r["c"], r["n"]), ({"n": each, "bad": 0}, each), "global")
    seen, want = {}, {}
    for r in parsed(f, "windows"):
        at = (r["k"], r["window_end"])
        assert at not in seen, "%r twice" % (at,)
        expect(r["c"]["bad"], 0, "window")
        seen[at] = r["c"]["n"]
    for i in range(COUNT):
        for end in range(i * 10 // 50000 * 50000 + 50000,
                         i * 10 + 200001, 50000):
            want[i % KEYS, end] = want.get((i % KEYS, end), 0) + 1
    expect(seen == want, True, "windows")
    last = {}
    for r in parsed(f, "updating"):
        expect(r["c"]["bad"], 0, "updating")
        last[r["k"]] = max(last.get(r["k"], 0), r["c"]["n"])
    expect(last, {k: each for k in range(KEYS)}, "updating")


def begin(f, *flags):
    """Version 0, until there is state."""
    with f.start("--set", "rate=8000", "--parallelism", "2", *flags) as run:
        assert run.until("checkpoint 4 completed"), run.text()
        run.kill()


def adopt(f, rng, ver, flags):
    """Start version `ver` and kill it, until a round of it is complete."""
    f.write("job.lua", text(ver))
    while True:
        slots = str(rng.choice([1, 2, 3, 4]))
        with f.start("--set", "rate=8000", "--parallelism", slots,
                     *flags) as run:
            if rng.random() < 0.5:  # maybe within the restore
                time.sleep(rng.uniform(0.02, 0.25))
                run.kill()
                done = "completed" in run.text()
            else:
                assert run.until("completed steps"), run.text()
                time.sleep(rng.uniform(0, 0.3))
                run.kill()
                done = True
            assert "error" not in run.text(), run.text()
        if done:
            return


def killed(binary, backend, seed):
    rng = random.Random(seed)
    flags = ("--set", "backend=" + backend)
    versions = 5
    with Folder(binary, text(0)) as f:
        begin(f, *flags)
        for ver in range(1, versions):
            adopt(f, rng, ver, flags)
        f.write("job.lua", text(versions))
        f.finish("--parallelism", "3", *flags)
        check(f)


def each_value_is_migrated_once_under_kills_lmdb(binary):
    killed(binary, "lmdb", SEED)


def each_value_is_migrated_once_under_kills_memory(binary):
    killed(binary, "memory", SEED + 1)


def a_crash_about_the_first_round_is_exact(binary):
    """Migrated in memory, with a round or without; the next one sees which."""
    with Folder(binary, text(0)) as f:
        begin(f)
        f.write("job.lua", text(1))
        for slots in "1", "4", "2":
            with f.start("--set", "rate=8000", "--set", "interval=1h",
                         "--parallelism", slots, "--log-level",
                         "debug") as run:
                out = f.at("stdout-%d" % f.runs)
                deadline = time.monotonic() + 60
                while not os.path.getsize(out):  # rows of restored state
                    assert run.p.poll() is None, run.text()
                    assert time.monotonic() < deadline, "no rows"
                    run.listen(0.05)
                run.kill()
        f.write("job.lua", text(2, (
            "migrate = function(old) if type(old) == 'number' then "
            "old = up(old, 1) end return up(old, 2) end")))
        f.finish("--parallelism", "3")
        check(f)


def reload(f, code):
    out = subprocess.run([f.binary, "reload", "job"], cwd=f.path,
                         capture_output=True, text=True, timeout=60,
                         env=run_cases.clean_env({}))
    said = out.stdout + out.stderr
    assert out.returncode == code, (out.returncode, said)
    return said


def a_reload_migrates_beside_the_input(binary):
    """The job goes on after each; one that fails leaves the old code."""
    with Folder(binary, text(0)) as f:
        with f.start("--set", "rate=6000", "--parallelism", "2") as run:
            assert run.until("checkpoint 4 completed"), run.text()
            for ver in 1, 2, 3:
                f.write("job.lua", text(ver, (
                    "migrate = function(old) error 'no way %d' end" % ver)))
                must_hold(reload(f, 1), "no way %d" % ver, "job.lua:", "key ")
                f.write("job.lua", text(ver))
                must_hold(reload(f, 0), "kept, migrated",
                          "through migrate")
            run.end(0)
        check(f)


def what_has_not_changed_is_not_migrated(binary):
    """Comments and places are no change; another version after it is."""
    with Folder(binary, text(0)) as f:
        rng = random.Random(SEED)
        begin(f)
        adopt(f, rng, 1, ())
        same = "-- a comment\n" + text(1, (
            "migrate = function(old) -- as it was\n"
            "      return up( old, 1 )\n end"))
        f.write("job.lua", same)
        f.finish("--parallelism", "2")
        check(f)


def a_migrate_that_fails_refuses_the_start_and_changes_nothing(binary):
    cases = [("error 'no way'", "no way"),
             ("return nil", "migrate returned nil"),
             ("return print", "what migrate returned"),
             ("return { f = print }", "what migrate returned"),
             ("return old.x.y", "attempt to index")]
    with Folder(binary, text(0)) as f:
        rng = random.Random(SEED)
        begin(f)
        for body, message in cases:
            f.write("job.lua", text(
                1, "migrate = function(old)\n if old then %s end end" % body))
            said = f.finish(code=65)
            must_hold(said, message, "job.lua:", "key ", "state of '",
                      "nothing has changed")
        adopt(f, rng, 1, ())
        f.write("job.lua", text(2))
        f.finish("--parallelism", "2")
        check(f)


TESTS = [a_reload_migrates_beside_the_input,
         a_crash_about_the_first_round_is_exact,
         each_value_is_migrated_once_under_kills_lmdb,
         each_value_is_migrated_once_under_kills_memory,
         what_has_not_changed_is_not_migrated,
         a_migrate_that_fails_refuses_the_start_and_changes_nothing]


def main():
    global SEED
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=4)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("names", nargs="*")
    a = ap.parse_args()
    SEED = a.seed
    return run_tests(TESTS, os.path.abspath(a.bin), a.names, a.j)


if __name__ == "__main__":
    sys.exit(main())
