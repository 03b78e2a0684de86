#!/usr/bin/env python3
"""Jobs with state that are killed, stopped, rescaled and copied.

usage: checkpoint_test.py [--bin PATH] [-j N] [--seed N] [NAME...]

Every job is first run undisturbed and without checkpoints; what comes out of
all its disturbed runs together must be the same. Kills come at random places
of fixed seeds; --seed draws others.
"""
import argparse
import json
import os
import random
import signal
import sys
import time

import ckpt_kit
from ckpt_kit import COMPLETED, Folder, must_hold, same_rows

HEAD = """local s = require "streamlua"
local job = s.job("job", { checkpoint = s.param("ck", true) and
  { interval = "50ms" }, state = { backend = s.param("backend", "lmdb") } })
local rate, count = s.param("rate", 30000), s.param("count", 30000)
local fields = { i = s.gen.sequence {}, k = s.gen.zipf(200, 1.1),
  v = s.gen.int(-1000, 1000), f = s.gen.float(0, 1), u = s.gen.int(0, 5000),
  jitter = s.gen.int(0, 900) }
local function timed(stream)
  return stream:map(function(e) e.ts = e.i - e.jitter; return e end)
    :event_time { field = "ts", out_of_orderness = "600ms" }
end
local function input(name, seed)
  return timed(job:source(name, s.generator { count = count, rate = rate,
    partitions = 3, seed = seed, fields = fields }))
end
"""

SINKS = """
r:sink("out", s.file { path = "out" })
r:side_output("late"):sink("late", s.file { path = "late" })
return job
"""

TUMBLING = HEAD + """
local r = input("in", 1):key_by "k"
  :window(s.tumbling("1s"), { late_output = "late" })
  :aggregate { n = s.count(), sum = s.sum "v", x = s.sum "f", lo = s.min "v",
    avg = s.avg "f", d = s.distinct "u", p = s.percentile("v", 0.9) }
""" + SINKS

HOPPING = HEAD + """
local spread = s.aggregator { args = { "v", "u" },
  init = function() return { lo = 1 << 40, hi = -(1 << 40), users = 0 } end,
  add = function(a, v, u)
    if v then a.lo = math.min(a.lo, v); a.hi = math.max(a.hi, v) end
    a.users = a.users + (u or 0)
    return a
  end,
  merge = function(a, b)
    a.lo, a.hi = math.min(a.lo, b.lo), math.max(a.hi, b.hi)
    a.users = a.users + b.users
    return a
  end,
  result = function(a) return { a.hi - a.lo, a.users } end,
  samples = { { v = 1, u = 2 }, { v = 3, u = 4 } } }
local r = input("in", 2):key_by "k"
  :window(s.hopping("2s", "500ms"), { late_output = "late" })
  :aggregate { n = s.count(), d = s.count_distinct "u", spread = spread,
    last = s.last "v" }
""" + SINKS

UNION = HEAD + """
local r = input("in", 3):union(input("more", 4)):key_by "k"
  :window(s.tumbling("700ms"), { late_output = "late" })
  :aggregate { n = s.count(), sum = s.sum "v", sd = s.stddev_pop "f" }
""" + SINKS

# A Lua source of two partitions beside files, windows over windows.
LUA_AND_FILES = HEAD + """
local mine = timed(job:source("mine", s.source { partitions = 2, poll = "5ms",
  read = function(position, max, p)
    local at, rows = position or 0, {}
    if at >= count // 2 then return nil end
    for i = at, math.min(at + 40, count // 2) - 1 do
      local n = i * 2 + p
      rows[#rows + 1] = { i = n, k = n * 7919 % 100, v = n % 17, f = n / 8,
        u = n % 1000, jitter = n * 104729 % 900 }
    end
    return rows, math.min(at + 40, count // 2)
  end }))
local read = timed(job:source("files", s.file { path = "input/*.jsonl" }))
local r = mine:union(read):key_by "k"
  :window(s.tumbling("1s"), { late_output = "late" })
  :aggregate { n = s.count(), sum = s.sum "v", x = s.sum "f" }
r:key_by { g = function(e) return e.k % 10 end }:window(s.tumbling("5s"))
  :aggregate { windows = s.count(), n = s.sum "n", x = s.sum "x" }
  :sink("wide", s.file { path = "wide" })
""" + SINKS

STDOUT = HEAD + """
input("in", 5):key_by "k":window(s.tumbling("1s"))
  :aggregate { n = s.count(), sum = s.sum "v" }:sink("out", s.stdout())
return job
"""

ROWS = HEAD + """
input("in", 6):sink("out", s.file { path = "out", roll = { size = "64KiB" } })
return job
"""

GLOBAL = HEAD + """
input("in", 7):key_by "k":window(s.global()):aggregate { n = s.count(),
  sum = s.sum "v", d = s.count_distinct "u", f = s.first "f" }
  :sink("out", s.file { path = "out" })
return job
"""

seed = 1


def make_input(folder):
    os.mkdir(folder.at("input"))
    rng = random.Random(5)
    for p in range(3):
        with open(folder.at("input", "%d.jsonl" % p), "w") as f:
            for i in range(6000):
                f.write('{"i":%d,"k":%d,"v":%d,"f":%r,"u":%d,"jitter":%d}\n' %
                        (i * 3, rng.randrange(100), rng.randrange(-9, 9),
                         rng.random(), rng.randrange(1000),
                         rng.randrange(900)))


def undisturbed(binary, text, sinks, *flags):
    """Rows by sink, and the summary, of a run that nobody disturbs."""
    with Folder(binary, text) as f:
        make_input(f)
        f.finish("--set", "rate=0", "--set", "ck=false", *flags)
        assert not os.path.exists(f.at("streamlua-data")), "made a directory"
        return {s: f.rows(s) for s in sinks}, f.summary()


def kill_somewhere(run, rng):
    """Kill the process soon after its start, or after some rounds.
    @return whether it was alive."""
    if rng.random() < 0.25:
        time.sleep(rng.random() * 0.1)
    else:
        seen = run.text().count("completed")
        for _ in range(rng.randrange(1, 4)):
            while run.text().count("completed") <= seen:
                if not run.listen(ckpt_kit.WAIT_S):
                    break
            seen = run.text().count("completed")
        time.sleep(rng.random() * 0.04)
    alive = run.p.poll() is None
    run.kill()
    return alive


def last_completed(text):
    done = [int(line.split("checkpoint ")[1].split()[0])
            for line in text.split("\n") if " completed steps=" in line]
    return done[-1] if done else 0


def disturb(f, rng, kills, *flags):
    """Kill the job again and again, then let it finish."""
    known, widths = 0, [1, 4, 2, 3]
    for i in range(kills):
        with f.start("--parallelism", str(widths[i % 4]), *flags) as run:
            alive = kill_somewhere(run, rng)
            known = max(known, last_completed(run.text()))
            if not alive:
                assert run.p.returncode == 0, run.text()
    f.finish("--parallelism", str(widths[kills % 4]), *flags)
    return known


def killed(binary, text, backend, sinks, number, kills=5):
    want, calm = undisturbed(binary, text, sinks)
    rng = random.Random(seed * 1000 + number)
    with Folder(binary, text) as f:
        make_input(f)
        known = disturb(f, rng, kills, "--set", "backend=" + backend)
        for s in sinks:
            same_rows(f.rows(s), want[s], s)
        got = f.summary()["checkpoints"]
        if f.summary()["status"] == "finished" and got["restored"]:
            assert got["restored"] >= known, (got, known)
        return want, calm


def tumbling_windows_survive_kills_and_other_widths(binary):
    want, calm = killed(binary, TUMBLING, "lmdb", ["out", "late"], 1)
    assert len(want["late"]) > 100, "the test has no late records"
    assert calm["steps"]["aggregate-1"]["late"] == len(want["late"])


def tumbling_windows_in_memory_survive_kills(binary):
    killed(binary, TUMBLING, "memory", ["out", "late"], 2)


def hopping_windows_and_own_aggregators_survive_kills(binary):
    killed(binary, HOPPING, "lmdb", ["out", "late"], 3)


def hopping_windows_in_memory_survive_kills(binary):
    killed(binary, HOPPING, "memory", ["out", "late"], 4)


def a_union_survives_kills(binary):
    killed(binary, UNION, "lmdb", ["out", "late"], 5)


def lua_sources_files_and_windows_over_windows_survive_kills(binary):
    killed(binary, LUA_AND_FILES, "lmdb", ["out", "late", "wide"], 6)


def rows_of_rolled_parts_are_neither_lost_nor_doubled(binary):
    want, _ = killed(binary, ROWS, "lmdb", ["out"], 7)
    assert len(want["out"]) == 30000


def windows_that_close_at_the_end_survive_kills(binary):
    killed(binary, GLOBAL, "lmdb", ["out"], 8, kills=4)


def stdout_gets_every_row_at_least_once(binary):
    want, _ = undisturbed(binary, STDOUT.replace(
        "s.stdout()", 's.file { path = "out" }'), ["out"])
    with Folder(binary, STDOUT) as f:
        disturb(f, random.Random(seed * 1000 + 9), 4)
        got = f.stdout()
        assert set(got) == set(want["out"]), set(got) ^ set(want["out"])
        assert len(got) >= len(want["out"])


# --- stopping, finishing, starting over --------------------------------------


def stop_after_a_round(f, *flags):
    """SIGTERM behind the first round that is complete. @return stderr."""
    with f.start(*flags) as run:
        assert run.until(" completed steps="), run.text()
        run.p.send_signal(signal.SIGTERM)
        text = run.end(0)
    assert f.summary()["status"] == "stopped", f.summary()["status"]
    return text


def a_stopped_job_goes_on_where_it_was(binary):
    for text, name in ((TUMBLING, "file"), (STDOUT, "stdout")):
        want, _ = undisturbed(binary, text.replace(
            "s.stdout()", 's.file { path = "out" }'), ["out"])
        with Folder(binary, text) as f:
            for width in ("2", "3", "1"):
                stop_after_a_round(f, "--parallelism", width)
                last = f.summary()["checkpoints"]["last"]
                if name == "file":
                    f.rows()  # nothing is in progress
            text_of_last = f.finish()
            must_hold(text_of_last, "goes on from checkpoint %d" % last)
            c = f.summary()["checkpoints"]
            assert c["restored"] == last and c["last"] > last, c
            got = f.rows() if name == "file" else sorted(f.stdout())
            same_rows(got, want["out"], name)


def a_finished_job_with_a_file_sink_is_not_run_again(binary):
    with Folder(binary, TUMBLING) as f:
        f.finish("--set", "rate=0")
        rows, last = f.rows(), f.summary()["checkpoints"]["last"]
        text = f.finish("--set", "rate=0")
        must_hold(text, "job finished at checkpoint %d; use --fresh to run "
                        "it again" % last)
        same_rows(f.rows(), rows, "out")
        s = f.summary()
        assert s["exit_code"] == 0 and s["checkpoints"]["last"] == last, s


def a_finished_job_on_stdout_starts_over_and_says_so(binary):
    with Folder(binary, STDOUT) as f:
        f.finish("--set", "rate=0")
        once, last = sorted(f.stdout()), f.summary()["checkpoints"]["last"]
        text = f.finish("--set", "rate=0")
        must_hold(text, "finished at checkpoint %d; it starts over" % last)
        same_rows(sorted(f.stdout()), sorted(once * 2), "stdout")
        c = f.summary()["checkpoints"]
        assert c["restored"] is None and c["last"] > last, c


def a_run_that_started_over_can_be_killed_too(binary):
    with Folder(binary, STDOUT) as f:
        f.finish("--set", "rate=0")
        want = set(f.stdout())
        with f.start() as run:
            assert run.until(" completed steps=")
            assert kill_somewhere(run, random.Random(seed * 1000 + 10))
        must_hold(f.finish(), "goes on from checkpoint")
        got = f.stdout()
        assert set(got) == want and len(got) >= 2 * len(want)


def fresh_begins_anew_and_keeps_what_was(binary):
    with Folder(binary, TUMBLING) as f:
        stop_after_a_round(f)
        begun = f.rows()
        text = f.finish("--fresh", "--set", "rate=0")
        must_hold(text, "job.old-1")
        want, _ = undisturbed(binary, TUMBLING, ["out"])
        same_rows(f.rows(), sorted(begun + want["out"]), "out")
        assert os.path.exists(f.at("streamlua-data", "job.old-1", "data.mdb"))
        assert f.summary()["checkpoints"]["restored"] is None


def the_summary_tells_of_rounds(binary):
    with Folder(binary, TUMBLING) as f:
        text = f.finish()
        s = f.summary()
        c, rounds = s["checkpoints"], s["rounds"]
        assert c["failed"] == 0 and c["restored"] is None, c
        assert c["completed"] == c["last"] == last_completed(text), c
        assert len(rounds) == min(16, c["completed"]), len(rounds)
        numbers = [r["checkpoint"] for r in rounds]
        assert numbers == list(range(c["last"] - len(rounds) + 1,
                                     c["last"] + 1)), numbers
        for r in rounds:
            assert r["bytes"] > 0 and 0 <= r["align_ms"] <= r["ms"], r
            assert r["sync_ms"] >= 0 and r["commit_ms"] == 0, r
        assert sum(r["puts"] for r in rounds) > 0, rounds


# --- refusals ------------------------------------------------------------------


def a_plan_that_does_not_fit_is_refused_and_changes_nothing(binary):
    want, _ = undisturbed(binary, TUMBLING, ["out", "late"])
    with Folder(binary, TUMBLING) as f:
        stop_after_a_round(f)
        for old, new, word in (('key_by "k"', 'key_by "u"', "aggregate-1"),
                               ('tumbling("1s")', 'tumbling("2s")',
                                "aggregate-1"),
                               ('path = "out"', 'path = "other"', "other")):
            f.write("changed.lua", TUMBLING.replace(old, new))
            text = f.finish(code=65, file="changed.lua")
            must_hold(text, word)
            assert not os.path.exists(f.at("other")), text
        f.finish()
        for s in ("out", "late"):
            same_rows(f.rows(s), want[s], s)


def state_that_may_be_lost_is_begun_anew(binary):
    with Folder(binary, TUMBLING) as f:
        stop_after_a_round(f)
        f.write("changed.lua", TUMBLING.replace('key_by "k"', 'key_by "u"'))
        text = f.finish("--allow-state-loss", file="changed.lua")
        must_hold(text, "aggregate-1: its state is given up",
                  "goes on from checkpoint")


def a_second_process_is_refused(binary):
    with Folder(binary, TUMBLING) as f:
        with f.start() as first:
            assert first.until(" completed steps=")
            with f.start() as second:
                text = second.end(73)
            must_hold(text, str(first.p.pid))
            with f.start("--fresh") as third:
                must_hold(third.end(73), str(first.p.pid))
            first.end(0)
        want, _ = undisturbed(binary, TUMBLING, ["out"])
        same_rows(f.rows(), want["out"], "out")


def a_damaged_store_is_named_and_never_skipped(binary):
    with Folder(binary, TUMBLING) as f:
        stop_after_a_round(f)
        path = f.at("streamlua-data", "job", "data.mdb")
        with open(path, "r+b") as store:
            store.truncate(8192)
        before = f.rows()
        text = f.finish(code=74)
        must_hold(text, "data.mdb")
        same_rows(f.rows(), before, "out")


def a_part_that_is_shorter_than_recorded_is_named(binary):
    with Folder(binary, ROWS.replace(', roll = { size = "64KiB" }', "")) as f:
        with f.start("--parallelism", "1") as run:
            assert run.until(COMPLETED % 3)
            run.kill()
        parts = [n for n in os.listdir(f.at("out"))
                 if n.endswith(".inprogress")]
        assert parts, os.listdir(f.at("out"))
        with open(f.at("out", parts[-1]), "r+b") as part:
            part.truncate(1)
        must_hold(f.finish(code=74),
                  parts[-1][1:-len(".inprogress")], "has 1 bytes in progress")


# --- savepoints ----------------------------------------------------------------


def savepoint(f, *flags):
    """The verb. @return how it ended."""
    return ckpt_kit.subprocess.run(
        [f.binary, "savepoint", "job", *flags], cwd=f.path,
        capture_output=True, text=True, timeout=ckpt_kit.WAIT_S,
        env=ckpt_kit.run_cases.clean_env({}))


def ask(f, *flags):
    """The verb savepoint. @return the path that it prints."""
    p = savepoint(f, *flags)
    assert p.returncode == 0, p.stderr
    path = os.path.join(f.path, p.stdout.strip())
    assert os.path.exists(os.path.join(path, "data.mdb")), p.stdout
    return path


def a_savepoint_of_a_running_job_disturbs_nothing(binary):
    want, _ = undisturbed(binary, STDOUT.replace(
        "s.stdout()", 's.file { path = "out" }'), ["out"])
    with Folder(binary, STDOUT) as f, Folder(binary, STDOUT) as other:
        with f.start() as run:
            assert run.until(" completed steps=")
            path = ask(f)
            run.end(0)
        same_rows(sorted(f.stdout()), want["out"], "the job")
        must_hold(other.finish("--from", path), "goes on from checkpoint")
        rest = other.stdout()
        assert 0 < len(rest) < len(want["out"]), len(rest)
        assert set(rest) <= set(want["out"])
        other.finish("--from", path, code=78)  # it has a directory now


def stop_with_a_savepoint_is_the_last_round(binary):
    want, _ = undisturbed(binary, STDOUT.replace(
        "s.stdout()", 's.file { path = "out" }'), ["out"])
    with Folder(binary, STDOUT) as f, Folder(binary, STDOUT) as other:
        with f.start("--parallelism", "3") as run:
            assert run.until(" completed steps=")
            path = ask(f, "--stop", "--to", "kept")
            run.end(0)
        assert path == f.at("kept"), path
        other.finish("--from", path, "--parallelism", "2")
        same_rows(sorted(f.stdout() + other.stdout()), want["out"], "both")


def a_job_is_not_stopped_for_a_savepoint_that_cannot_be_made(binary):
    with Folder(binary, STDOUT) as f:
        f.write("taken", "")
        with f.start() as run:
            assert run.until(" completed steps=")
            for to, code, why in (("taken", 78, "in the way"),
                                  ("streamlua-data", 78, "in the way"),
                                  ("no/kept", 74, "cannot make")):
                p = savepoint(f, "--stop", "--to", to)
                assert p.returncode == code, (to, p.returncode, p.stderr)
                must_hold(p.stderr, why)
            assert ": stopping" not in run.text(), run.text()
            path = ask(f, "--stop")
            run.end(0)
        assert os.path.exists(path)


def drain_lets_windows_fire_and_finishes_the_job(binary):
    with Folder(binary, TUMBLING) as f:
        with f.start() as run:
            assert run.until(" completed steps=")
            ask(f, "--stop", "--drain")
            run.end(0)
        s = f.summary()["steps"]
        late = s["aggregate-1"]["late"]
        counted = sum(json.loads(r)["n"] for r in f.rows())
        assert 0 < counted == s["in"]["records_out"] - late, (counted, late)
        must_hold(f.finish(), "use --fresh to run it again")


def a_savepoint_of_a_stopped_job_can_be_started_from(binary):
    want, _ = undisturbed(binary, STDOUT.replace(
        "s.stdout()", 's.file { path = "out" }'), ["out"])
    with Folder(binary, STDOUT) as f, Folder(binary, STDOUT) as other:
        stop_after_a_round(f)
        path = ask(f)
        other.finish("--from", path, "--data-dir", "elsewhere")
        same_rows(sorted(f.stdout() + other.stdout()), want["out"], "both")
        assert os.path.exists(other.at("elsewhere", "job", "data.mdb"))


TESTS = [
    tumbling_windows_survive_kills_and_other_widths,
    tumbling_windows_in_memory_survive_kills,
    hopping_windows_and_own_aggregators_survive_kills,
    hopping_windows_in_memory_survive_kills,
    a_union_survives_kills,
    lua_sources_files_and_windows_over_windows_survive_kills,
    rows_of_rolled_parts_are_neither_lost_nor_doubled,
    windows_that_close_at_the_end_survive_kills,
    stdout_gets_every_row_at_least_once,
    a_stopped_job_goes_on_where_it_was,
    a_finished_job_with_a_file_sink_is_not_run_again,
    a_finished_job_on_stdout_starts_over_and_says_so,
    a_run_that_started_over_can_be_killed_too,
    fresh_begins_anew_and_keeps_what_was,
    the_summary_tells_of_rounds,
    a_plan_that_does_not_fit_is_refused_and_changes_nothing,
    state_that_may_be_lost_is_begun_anew,
    a_second_process_is_refused,
    a_damaged_store_is_named_and_never_skipped,
    a_part_that_is_shorter_than_recorded_is_named,
    a_savepoint_of_a_running_job_disturbs_nothing,
    stop_with_a_savepoint_is_the_last_round,
    a_job_is_not_stopped_for_a_savepoint_that_cannot_be_made,
    drain_lets_windows_fire_and_finishes_the_job,
    a_savepoint_of_a_stopped_job_can_be_started_from,
]


def main():
    global seed
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=4)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    seed = args.seed
    return ckpt_kit.run_tests(TESTS, os.path.abspath(args.bin), args.names,
                              args.j)


if __name__ == "__main__":
    sys.exit(main())
