#!/usr/bin/env python3
"""Jobs whose code changes while they run.

usage: reload_test.py [--bin PATH] [-j N] [NAME...]

Each version of the job writes its own number into its rows, so the rows say
which version made them; the log says at which checkpoint each took over. Rows
must be there once each, in whole rounds of one version.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time

import ckpt_kit
from ckpt_kit import Folder, has_test_mode

JOB = """local s = require "streamlua"
local v = %(v)s
local job = s.job("job", { checkpoint = { interval = %(interval)r } })
local rows = job:source("in", s.generator { count = %(count)d,
  rate = %(rate)d, partitions = 2, fields = { i = s.gen.sequence {} } })
  :map(function(e) %(body)s return { i = e.i, ts = e.i, k = e.i %% 7, v = v }
  end)
rows:sink("out", s.file { path = "out" })
rows:event_time { field = "ts", out_of_orderness = "1s" }:key_by "k"
  :window(s.tumbling "100ms")
  :aggregate({ n = s.count(), %(aggs)s first = s.min "i" }, { name = "agg" })
  :sink("sums", s.file { path = "sums" })
return job
"""


def job(v, count=4000, rate=2000, interval="20s", body="", aggs="", more=""):
    text = JOB % {"v": v, "count": count, "rate": rate, "interval": interval,
                  "body": body, "aggs": aggs}
    return text.replace("return job\n", more + "return job\n")


def versions(f, count, known):
    """The rows are there once each; @return the versions in order of i."""
    rows = sorted((json.loads(line) for line in f.rows()),
                  key=lambda r: r["i"])
    assert [r["i"] for r in rows] == list(range(count)), \
        "%d rows, %d of them once" % (len(rows), len({r["i"] for r in rows}))
    assert {r["v"] for r in rows} <= set(known), {r["v"] for r in rows}
    sums = [json.loads(line) for line in f.rows("sums")]
    want = {}
    for i in range(count):
        key = (i // 100 * 100, i % 7)
        want[key] = want.get(key, 0) + 1
    got = {(r["window_start"], r["k"]): r["n"] for r in sums}
    wrong = {k: got.get(k) for k in want if got.get(k) != want[k]}
    assert not wrong and len(sums) == len(want), (wrong, len(sums), len(want))
    for part in (0, 1):  # each partition is read in order
        seen = [r["v"] for r in rows if r["i"] % 2 == part]
        yield [v for n, v in enumerate(seen) if n == 0 or seen[n - 1] != v]


def order(f, count, known):
    both = list(versions(f, count, known))
    assert both[0] == both[1], both
    return both[0]


def wait(run, what):
    assert run.until(what), "no '%s' in: %s" % (what, run.text())


def hup(run):
    run.p.send_signal(signal.SIGHUP)


def verb(f, *words, code=0):
    p = subprocess.run([f.binary, *words], cwd=f.path, text=True, timeout=60,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.returncode == code, (words, p.returncode, p.stdout, p.stderr)
    return p.stdout, p.stderr


def a_new_version_takes_over_at_a_round(binary):
    with Folder(binary, job(0, rate=1000, count=7000)) as f, f.start() as run:
        time.sleep(0.4)
        f.write("job.lua", job(1, rate=1000, count=7000))
        hup(run)
        wait(run, "reload 1 accepted at checkpoint 2 in ")
        f.write("job.lua", job(2, rate=1000, count=7000))
        hup(run)
        wait(run, "reload 2 accepted at checkpoint 4 in ")
        run.end(0)
        assert order(f, 7000, (0, 1, 2)) == [0, 1, 2]
        got = f.summary()
        assert (got["reload"], got["restarts"]) == (2, 0), got
        assert got["steps"]["in"]["records_out"] == 7000, got["steps"]
        assert got["steps"]["out"]["records_in"] == 7000, got["steps"]


BROKEN = (
    ("syntax", job("= 1"), r"job\.lua:2: unexpected symbol near '='"),
    ("check", job(1).replace('"k"', "7"), r"job\.lua:9: "),
    ("no job", "return 1\n", r"job\.lua"),
    ("lost", job(1).replace('key_by "k"', 'key_by "v"'),
     r"state would be lost: agg: key changed"),
    ("name", job(1).replace('s.job("job"', 's.job("other"'),
     r"the state is of job \"job\""),
    ("key groups", job(1).replace("checkpoint =", "max_parallelism = 64, "
                                  "checkpoint ="), "max_parallelism is 64"),
    ("path", job(1).replace('"out" }', '"out2" }'), r"the path is \"out2\""),
    ("slow", "while true do end\n", "load_timeout"),
    ("laws", job(1, aggs="bad = s.aggregator { init = function() return 0 end,"
                 " add = function(a, r) return a + 1 end, merge = function(a, "
                 "b) return a end, result = function(a) return a end, samples "
                 "= { { i = 1 }, { i = 2 } } },"), "bad"),
)


def a_broken_file_changes_nothing(binary):
    with Folder(binary, job(0, count=30000, rate=2000)) as f, \
            f.start() as run:
        time.sleep(0.4)
        for n, (what, text, message) in enumerate(BROKEN):
            f.write("job.lua", text)
            hup(run)
            wait(run, "reload %d refused: " % (n + 1))
            run.listen(0.1)
            line = [x for x in run.text().split("\n")
                    if "reload %d refused: " % (n + 1) in x][0]
            assert re.search(message, line), (what, line)
            assert line.endswith("; still running reload 0"), line
        run.p.send_signal(signal.SIGTERM)
        run.end(0)
        assert f.summary()["reload"] == 0


def an_error_in_the_first_records_brings_the_old_code_back(binary):
    with Folder(binary, job(0)) as f, f.start() as run:
        time.sleep(0.4)
        bad = job(1, body="if e.i % 50 == 7 then error('not so') end")
        f.write("job.lua", bad)
        hup(run)
        wait(run, "reload 1 rolled back to 0: job.lua:6: not so")
        f.write("job.lua", job(2))
        hup(run)
        wait(run, "reload 2 accepted at ")
        f.write("job.lua", bad)
        hup(run)
        wait(run, "reload 3 rolled back to 2: ")
        run.p.send_signal(signal.SIGTERM)
        run.end(0)
        # The text is known by the checkpoint.
        said = f.finish(code=78)
        assert "job.lua: this text was rolled back" in said, said
        assert "--accept-code" in said, said
        said = f.finish("--accept-code", code=1)
        assert "reload 4 at start" in said, said
        f.write("job.lua", job(3))
        f.finish()
        assert order(f, 4000, (0, 2, 3)) == [0, 2, 3]


def another_file_at_the_start_is_a_reload(binary):
    with Folder(binary, job(0)) as f:
        with f.start() as run:
            time.sleep(0.4)
            run.p.send_signal(signal.SIGTERM)
            run.end(0)
        with f.start() as run:  # the same text is none
            time.sleep(0.2)
            run.p.send_signal(signal.SIGTERM)
            assert "reload" not in run.end(0)
        f.write("job.lua", job(1))
        said = f.finish()
        assert re.search(r"job\.lua differs from the code in checkpoint 2: "
                         "reload 1 at start", said), said
        assert "reload 1 accepted at checkpoint 3" in said, said
        assert f.summary()["reload"] == 1
        assert order(f, 4000, (0, 1)) == [0, 1]


def saving_a_file_of_the_job_is_enough_with_watch(binary):
    text = job("require('lib.ver').v", count=20000)
    with Folder(binary, text) as f:
        os.mkdir(f.at("lib"))
        f.write("lib/ver.lua", "return { v = 0 }")
        with f.start("--watch") as run:
            time.sleep(0.4)
            f.write("lib/ver.lua", "return { v = 1 }")  # in place
            wait(run, "reload 1 accepted")
            f.write("new", "return { v = ")  # replaced
            os.rename(f.at("new"), f.at("lib/ver.lua"))
            wait(run, "reload 2 refused: lib/ver.lua:1: ")
            f.write("lib/ver.lua", "return { v = 2 }")
            wait(run, "reload 3 accepted")
            # A module in front of the one that is read: it was missing.
            os.mkdir(f.at("lib/ver"))
            f.write("ver.lua", "")
            f.write("lib/ver.lua", "return { v = 2 }")  # as it was
            time.sleep(0.8)
            run.p.send_signal(signal.SIGTERM)
            said = run.end(0)
            assert "reload 4" not in said, said
        with f.start() as run:  # not on a terminal: nobody watches
            time.sleep(0.4)
            f.write("lib/ver.lua", "return { v = 3 }")
            time.sleep(0.8)
            run.p.send_signal(signal.SIGTERM)
            assert "reload" not in run.end(0)


def verbs_change_parameters_files_and_parallelism(binary):
    text = job("s.param('v', 0)", count=60000)
    with Folder(binary, text) as f, f.start() as run:
        time.sleep(0.4)
        out, err = verb(f, "reload", "job", "--set", "v=5", "--dry-run")
        assert "agg" in out and "reload" not in run.text(), (out, err)
        out, err = verb(f, "reload", "job", "--set", "v=5")
        assert re.search("^reload 1 accepted at checkpoint", err), err
        f.write("other.lua", text.replace("first =", "more = s.sum 'i', "
                                          "first ="))
        out, err = verb(f, "reload", "job", "other.lua", "--parallelism", "3")
        assert "more added" in out and "reload 2 accepted" in err, (out, err)
        out, err = verb(f, "rollback", "job", code=1)
        assert "state would be lost" in err, err
        assert "still running reload 2" in err, err
        verb(f, "rollback", "job", "--allow-state-loss")
        verb(f, "rollback", "job")
        out, err = verb(f, "rollback", "job", code=1)
        assert "no version before reload 5 to roll back to" in err, err
        f.write("job.lua", "x")
        out, err = verb(f, "reload", "job", "--dry-run", code=1)
        assert "a reload would be refused: job.lua:1: " in err, err
        run.p.send_signal(signal.SIGTERM)
        run.end(0)
        out, err = verb(f, "reload", "job", code=69)
        assert "job job is not running" in err, err
        rows = [json.loads(line)["v"] for line in f.rows(hidden=True)]
        assert set(rows) == {0, 5}, set(rows)
        assert f.summary()["parallelism"] != 3


def a_stop_comes_before_a_reload(binary):
    with Folder(binary, job(0, count=400000, rate=20000)) as f:
        for wait in (0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.2):
            with f.start() as run:
                time.sleep(0.6)
                f.write("job.lua", job(int(wait * 1000), count=400000,
                                       rate=20000))
                hup(run)
                time.sleep(wait)
                run.p.send_signal(signal.SIGTERM)
                run.end(0)
                assert f.summary()["status"] == "stopped"
        rows = sorted(json.loads(x)["i"] for x in f.rows(hidden=True))
        for part in (0, 1):
            mine = [i for i in rows if i % 2 == part]
            assert mine == list(range(part, 2 * len(mine) + part, 2))


def held(run):
    """Memory in KiB, descriptors, threads of the process."""
    with open("/proc/%d/status" % run.p.pid) as f:
        rss = [int(x.split()[1]) for x in f if x.startswith("VmRSS")][0]
    return (rss, len(os.listdir("/proc/%d/fd" % run.p.pid)),
            len(os.listdir("/proc/%d/task" % run.p.pid)))


def many_reloads_hold_nothing(binary):
    """STREAMLUA_RELOADS of them; 40 if that is not set."""
    most = int(os.environ.get("STREAMLUA_RELOADS", 40))
    with Folder(binary, job(0, count=10 ** 8, rate=20000)) as f, \
            f.start() as run:
        time.sleep(0.4)
        for n in range(1, most + 1):
            broken = n % 4 == 0
            f.write("job.lua", job("=" if broken else n, count=10 ** 8,
                                   rate=20000))
            hup(run)
            wait(run, "reload %d %s" % (n, "refused" if broken else
                                        "accepted"))
            if n == 20:
                before = held(run)
        after = held(run)
        assert after[1:] == before[1:], (before, after)
        # A sanitizer keeps what is freed.
        plain = "sanitizer     no" in verb(f, "version")[0]
        assert after[0] < 1.1 * before[0] or not plain, (before, after)
        run.p.send_signal(signal.SIGTERM)
        run.end(0)


def a_savepoint_and_a_reload_wait_for_each_other(binary):
    with Folder(binary, job(0, count=400000, rate=20000)) as f, \
            f.start() as run:
        time.sleep(0.5)
        for n in range(1, 5):
            f.write("job.lua", job(n, count=400000, rate=20000))
            save = subprocess.Popen(
                [binary, "savepoint", "job", "--to", "save-%d" % n],
                cwd=f.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.01 * n)
            hup(run)
            wait(run, "reload %d accepted" % n)
            _, err = save.communicate(timeout=60)
            # Made of one of the two, or told to come again.
            assert save.returncode in (0, 75), err
        run.p.send_signal(signal.SIGTERM)
        run.end(0)


AWAY = """local s = require "streamlua"
local job = s.job("job", { checkpoint = { interval = "50ms" },
  restart = { initial_backoff = "1500ms", max_backoff = "1500ms" } })
job:source("in", s.generator { rate = 1000, fields = { i = s.gen.sequence {} }
  }):sink("out", s.sink { write = function(rows)
    if io.open("away") then error(s.retriable("the outside is away")) end
  end })
return job
"""


def a_reload_during_a_restart_is_answered(binary):
    with Folder(binary, AWAY) as f, f.start() as run:
        time.sleep(0.5)
        f.write("away", "")
        wait(run, "restart 1 in 1500 ms")
        _, err = verb(f, "reload", "job", code=75)
        assert "the job is starting again; try again later" in err, err
        hup(run)  # is done when the job runs again
        os.remove(f.at("away"))
        wait(run, "reload 1 accepted")
        assert run.text().index("restart 1: goes on") < \
            run.text().index("reload 1: loading")
        run.p.send_signal(signal.SIGTERM)
        run.end(0)
        assert f.summary()["restarts"] == 1


COMMIT = """local s = require "streamlua"
local v = %(v)s
local job = s.job("job", { checkpoint = { interval = "20s" },
  restart = { initial_backoff = "100ms" } })
local rows = {}
job:source("in", s.generator { rate = 2000, count = 5000,
    fields = { i = s.gen.sequence {} } })
  :sink("out", s.sink {
    write = function(more)
      for _, r in ipairs(more) do rows[#rows + 1] = r.i end
    end,
    commit = function(round, token)
      %(before)s
      local f = io.open("rows", "a")
      for _, i in ipairs(rows) do f:write(i, " ", v, "\\n") end
      rows = {}
      f:close()
      f = io.open("round", "w")
      f:write(round, " ", token)
      f:close()
      %(behind)s
    end,
    last_round = function()
      local f = io.open("round")
      rows = {}
      if not f then return nil end
      local round, token = f:read("a"):match("^(%%d+) (.*)$")
      f:close()
      return math.tointeger(round), token
    end })
return job
"""


def commit_job(v, before="", behind=""):
    return COMMIT % {"v": v, "before": before, "behind": behind}


def committed(f):
    """All rows are in the target once. @return the versions they are of."""
    with open(f.at("rows")) as lines:
        rows = [line.split() for line in lines]
    assert sorted(int(i) for i, _ in rows) == list(range(5000)), len(rows)
    return [int(v) for v in sorted({v for _, v in rows})]


def a_version_whose_first_round_was_committed_is_not_rolled_back(binary):
    """Its commit fails behind, or in front of what makes it final."""
    for before, behind, said, left in (
            ("", "if round == 2 then error 'late' end",
             "reload 1 accepted at checkpoint 2", [0, 1]),
            ("if round == 2 then error 'early' end", "",
             "reload 1 rolled back to 0: job.lua:13: commit: early", [0])):
        with Folder(binary, commit_job(0)) as f, f.start() as run:
            time.sleep(0.5)
            f.write("job.lua", commit_job(1, before, behind))
            hup(run)
            wait(run, "reload 1 failed during the commit of checkpoint 2")
            wait(run, said)
            run.end(0)
            # Either it was accepted or it was rolled back.
            assert run.text().count("reload 1 ") == 2, run.text()
            assert "stay in sinks" not in run.text(), run.text()
            assert committed(f) == left
    with Folder(binary, commit_job(0)) as f, f.start() as run:
        time.sleep(0.5)
        f.write("job.lua", commit_job(1, behind="if round > 1 then "
                                      "error 'late' end"))
        hup(run)
        run.end(1)  # accepted, and then it failed as any version does
        assert "reload 1 accepted at checkpoint 2" in run.text()
        assert committed(f) == [0, 1]


def a_restart_on_probation_does_not_wait_for_the_interval(binary):
    once = """if round == 2 and not io.open("once") then
        io.open("once", "w"):close()
        error(s.retriable("the outside is away"))
      end"""
    with Folder(binary, commit_job(0)) as f, f.start() as run:
        time.sleep(0.3)
        f.write("job.lua", commit_job(1, once))
        hup(run)
        wait(run, "reload 1 accepted at checkpoint 2")
        assert "restart 1: goes on from checkpoint 1" in run.text()
        run.p.send_signal(signal.SIGTERM)
        run.end(0)
        # It ran on behind that round: it did not end with it.
        assert f.summary()["checkpoints"]["last"] == 3


def a_parameter_that_fails_does_not_make_the_text_bad(binary):
    text = job("s.param('v', 0)", count=60000,
               body="if v == 99 then error('not so') end")
    with Folder(binary, text) as f:
        with f.start() as run:
            time.sleep(0.4)
            _, err = verb(f, "reload", "job", "--set", "v=99", code=1)
            assert "reload 1 rolled back to 0: " in err, err
            f.write("job.lua", job(1, count=60000))
            hup(run)
            wait(run, "reload 2 accepted")
            run.p.send_signal(signal.SIGTERM)
            run.end(0)
        f.write("job.lua", text)
        with f.start() as run:
            wait(run, "reload 3 accepted")
            run.p.send_signal(signal.SIGTERM)
            run.end(0)


def a_file_that_could_not_be_read_is_watched_on(binary):
    with Folder(binary, job(0, count=60000)) as f, f.start("--watch") as run:
        time.sleep(0.4)
        os.remove(f.at("job.lua"))
        wait(run, "reload 1 refused: job.lua: cannot open: ")
        f.write("job.lua", job(1, count=60000))
        wait(run, "reload 2 accepted")
        f.write("job.lua", "-- " + "x" * (17 << 20))
        wait(run, "reload 3 refused: job.lua: larger than 16 MiB")
        run.listen(0.6)
        f.write("new", job(2, count=60000))
        os.rename(f.at("job.lua"), f.at("job.lua~"))
        os.rename(f.at("new"), f.at("job.lua"))
        wait(run, "reload 4 accepted")
        f.write("real.lua", job(3, count=60000))
        os.remove(f.at("job.lua"))
        os.symlink("real.lua", f.at("job.lua"))
        wait(run, "reload 5 accepted")
        f.write("real.lua", job(4, count=60000))
        wait(run, "reload 6 accepted")
        run.p.send_signal(signal.SIGTERM)
        run.end(0)


def a_signal_to_stop_is_heard_while_the_new_code_is_opened(binary):
    """Its target is asked for its round on the way, and does not answer."""
    slow = commit_job(1).replace('local f = io.open("round")\n', """
      io.open("asked", "w"):close()
      os.execute("sleep 2")
      local f = io.open("round")
""")
    for second in (False, True):
        with Folder(binary, commit_job(0)) as f, f.start() as run:
            time.sleep(0.3)
            f.write("job.lua", slow)
            hup(run)
            while not os.path.exists(f.at("asked")):
                assert run.listen(0.01), run.text()
            began = time.monotonic()
            run.p.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            if second:
                run.p.send_signal(signal.SIGTERM)
            run.p.wait(60)
            took = time.monotonic() - began
            run.end(143 if second else 0)
            assert not second or took < 1.5, took
            assert second or "SIGTERM: stopping" in run.text(), run.text()


STDIN = """local s = require "streamlua"
local v = %(v)s
local job = s.job "job"
local rows = job:source("in", s.stdin { format = "csv", header = true })
  :map(function(e) %(body)s return { i = math.tointeger(e.i), v = v,
    k = math.tointeger(e.i) %% 7 } end)
rows:sink("out", s.file { path = "out" })
rows:key_by "k":process({ name = "count", state = { n = s.value_state() },
    on_record = function(r, ctx)
      local n = (ctx.state.n:get() or 0) + 1
      ctx.state.n:set(n)
      ctx:emit { k = r.k, n = n, i = r.i, v = v }
    end })
  :sink("counts", s.stdout())
return job
"""


def stdin_job(v, body=""):
    return STDIN % {"v": v, "body": body}


def a_job_on_stdin_is_reloaded_without_losing_a_byte(binary):
    with Folder(binary, stdin_job(0)) as f:
        tmp = f.at("tmp")
        os.mkdir(tmp)
        err = open(f.at("err"), "wb")
        out = open(f.at("counted"), "wb")
        p = subprocess.Popen([binary, "run", "job.lua"], cwd=f.path,
                             stdin=subprocess.PIPE, stdout=out, stderr=err,
                             env=dict(os.environ, TMPDIR=tmp))
        n = 0

        def feed(until):
            """Rows in pieces that end anywhere, until the log says so."""
            nonlocal n
            deadline = time.monotonic() + 30
            rest = b""
            while not re.search(until, open(f.at("err")).read()):
                assert time.monotonic() < deadline, open(f.at("err")).read()
                rest += b"".join(b"%d,x\n" % i for i in range(n, n + 20))
                n += 20
                p.stdin.write(rest[:-3])
                p.stdin.flush()
                rest = rest[-3:]
                time.sleep(0.002)
            p.stdin.write(rest)
            p.stdin.flush()

        p.stdin.write(b"i,name\n")
        p.stdin.flush()
        time.sleep(0.5)
        known = [0]
        for step, (v, body, until) in enumerate((
                (1, "", "reload 1 accepted in "),
                (2, "if e.i % 10 == 3 then error('not so') end",
                 "reload 2 rolled back to 1: job.lua:5: not so"),
                (3, "", "reload 3 accepted in "),
                ("=", "", "reload 4 refused: job.lua:2: "),
                (5, "", "reload 5 accepted in "))):
            f.write("job.lua", stdin_job(v, body))
            p.send_signal(signal.SIGHUP)
            feed(until)
            if "accepted" in until:
                known.append(v)
        feed("reload 1 accepted")
        p.stdin.close()
        assert p.wait(60) == 0, open(f.at("err")).read()
        rows = [json.loads(line) for line in f.rows()]
        got = sorted(r["i"] for r in rows if r["v"] != 2)
        assert got == list(range(n)), (
            n, len(got), len(set(got)), sorted(set(range(n)) - set(got))[:9],
            open(f.at("err")).read())
        rows.sort(key=lambda r: r["i"])
        seen = [r["v"] for r in rows if r["v"] != 2]
        assert [v for k, v in enumerate(seen)
                if k == 0 or seen[k - 1] != v] == known, known
        counts = {}
        with open(f.at("counted")) as lines:
            for line in lines:
                r = json.loads(line)
                if r["v"] != 2:
                    counts.setdefault(r["k"], []).append(r["n"])
        for k, got in counts.items():
            assert got == list(range(1, len(got) + 1)), (k, got[:20])
        assert sum(len(c) for c in counts.values()) == n
        assert os.listdir(tmp) == [], os.listdir(tmp)
        assert not os.path.exists(f.at("streamlua-data"))


DOUBLED = """local s = require "streamlua"
return s.aggregator { args = { "i" }, init = function() return 0 end,
  add = function(a, i) return a + i end,
  merge = function(a, b) return a + b end,
  result = function(a) return a * 2 end }
"""

WITH_MODULE = """local s = require "streamlua"
local job = s.job("job", { checkpoint = { interval = "100ms" } })
job:source("in", s.generator { rate = 100, fields = {
     i = s.gen.sequence {} } })
   :event_time { field = "i" }:key_by {}:window(s.tumbling(s.param "size"))
   :aggregate({ sum = require "doubled" }, { name = "agg" })
   :sink("out", s.blackhole())
return job
"""


def state_is_shown_by_the_code_of_its_checkpoint(binary):
    """Its modules and parameters, too, whatever is on the disk by now."""
    with Folder(binary, WITH_MODULE) as f:
        f.write("doubled.lua", DOUBLED)
        with f.start("--set", "size=1d") as run:
            wait(run, "checkpoint 3 completed")
            run.p.terminate()
            run.end(0)
        f.write("doubled.lua", DOUBLED.replace("a * 2", "a * 1000"))
        out, err = verb(f, "state", "scan", "job", "--json")
        row = json.loads(out)
        n = row["value"]["sum"] // 2
        assert row["window_end"] == 86400000 and err == "", (row, err)
        assert any(n == k * (k - 1) // 2 for k in range(2, 10000)), row


# --- fault points: the program must be built with --enable-test-mode ---------

# Hits in a run with one reload and no other checkpoint: the first of a round
# is the swap's, the second the new version's.
DEATHS = ["reload_prepare=1!", "reload_swap=1!", "round_frozen=1!",
          "ckpt_prepare=1!", "sink_committed=1!", "source_committed=1!",
          "round_done=1!", "reload_swapped=1!", "recover_begin=2!",
          "recover_decided=2!", "restore_done=6!", "round_begin=1!",
          "round_frozen=2!", "ckpt_prepare=2!", "sink_committed=2!",
          "source_committed=2!", "reload_accepted=1!", "round_done=2!"]
NEW = DEATHS[-4:]


def a_kill_at_any_step_leaves_one_of_the_two(binary):
    if not has_test_mode(binary):
        return
    for fault in DEATHS:
        with Folder(binary, job(0, count=5000, rate=4000)) as f:
            with f.start() as run:
                time.sleep(0.6)
                run.p.send_signal(signal.SIGTERM)
                run.end(0)
            with f.start(env={"STREAMLUA_FAULT": fault}) as run:
                time.sleep(0.4)
                f.write("job.lua", job(1, count=5000, rate=4000))
                hup(run)
                run.drain()
                assert run.p.returncode == -signal.SIGKILL, \
                    fault + " was never reached"
            said = f.finish()
            assert order(f, 5000, (0, 1))[-1] == 1, fault
            # From the round on that has it, the new code is the job's code.
            assert (" at start" in said) == (fault not in NEW), \
                (fault, said)
            assert f.summary()["reload"] in (1, 2), (fault, said)


def a_kill_while_it_rolls_back_leaves_the_old_code(binary):
    if not has_test_mode(binary):
        return
    bad = job(1, count=5000, rate=4000,
              body="if e.i > 900 then error('not so') end")
    with Folder(binary, job(0, count=5000, rate=4000)) as f:
        with f.start(env={"STREAMLUA_FAULT": "reload_rollback=1!"}) as run:
            time.sleep(0.4)
            f.write("job.lua", bad)
            hup(run)
            run.drain()
            assert run.p.returncode == -signal.SIGKILL
        f.write("job.lua", job(0, count=5000, rate=4000))
        said = f.finish()
        assert "reload" not in said, said
        assert order(f, 5000, (0,)) == [0]


TESTS = [v for v in list(globals().values())
         if getattr(v, "__module__", "") == __name__ and callable(v) and
         v.__code__.co_varnames[:1] == ("binary",)]

def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=2)
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    return ckpt_kit.run_tests(TESTS, os.path.abspath(args.bin), args.names,
                              args.j)


if __name__ == "__main__":
    sys.exit(main())
