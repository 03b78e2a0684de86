#!/usr/bin/env python3
"""The command line from outside: streams, exit codes, the examples of jobs/.

usage: cli_test.py [--bin PATH]
"""
import argparse
import fcntl
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile

import oracle
import run_cases

TOP = os.path.join(run_cases.HERE, "..", "..")
JOB = """local s = require "streamlua"
local job = s.job "t"
job:source("in", s.stdin()):sink("out", s.stdout())
return job
"""
BINARY = None
DATA = None  # what jobs keep; never in the source tree


def environment(env=None):
    return run_cases.clean_env({"STREAMLUA_DATA_DIR": DATA, **(env or {})})


def call(*args, stdin=b"", env=None):
    p = subprocess.run([BINARY, *args], input=stdin, capture_output=True,
                       timeout=run_cases.TIMEOUT_S, cwd=TOP,
                       env=environment(env))
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def refused(args, *words):
    rc, out, err = call(*args)
    assert (rc, out) == (64, ""), (rc, out, err)
    lines = err.rstrip("\n").split("\n")
    assert len(lines) == 2 and lines[1].startswith("try: streamlua help"), err
    for word in words:
        assert word in lines[0], (word, err)


def version_names_itself_first():
    rc, out, _ = call("version")
    assert rc == 0 and out.split("\n")[0] == "streamlua 0.1.0", out
    for name in ("compiler", "lua", "librdkafka", "jemalloc"):
        assert re.search(r"^  %s +\S" % name, out, re.M), out
    rc, out, _ = call("version", "--json")
    assert rc == 0 and json.loads(out)["version"] == "0.1.0", out


def wrong_calls_are_one_line_and_a_hint():
    refused([], "verb")
    refused(["rum"], "did you mean run?")
    refused(["run", "--slot", "1", "x.lua"], "did you mean --slots?")
    refused(["run"], "FILE")
    refused(["run", "x.lua", "--slots", "many"], "--slots", "many")
    refused(["run", "--http", ":1", "x.lua"], "is not available in this")
    refused(["help", "chek"], "did you mean check?")
    refused(["--filter", "x", "run", "x.lua"], "--filter")
    refused(["test", "--output", "xml"], "--output: expected text|tap|junit")
    refused(["test", "--seed", "x"], "--seed: expected a number")
    refused(["tap", "-n", "5", "x"], "streamlua tap is not available in")


def starts_that_contradict_each_other_are_refused():
    for flags, why in (
            ("--fresh --from sp", "--fresh starts without state, --from"),
            ("--fresh --recover=rewind", "--fresh starts a new lineage"),
            ("--new-lineage", "name it with --from DIR"),
            ("--from sp --new-lineage --recover=rewind",
             "leave out --recover"),
            ("--from sp --recover discard-state",
             "--recover=discard-state starts without state"),
            ("--from=", "--from: expected a directory"),
            ("--recover", "--recover: expected rewind|discard-state")):
        refused(["run", *flags.split(), "x.lua"], why)


def a_file_that_cannot_be_read_is_65():
    for verb in ("run", "check", "explain"):
        rc, out, err = call(verb, "no/such.lua")
        assert (rc, out) == (65, "") and "no/such.lua" in err, (rc, err)


def every_verb_and_flag_has_help():
    rc, overview, _ = call("help")
    assert rc == 0
    for verb in ("run", "check", "explain", "savepoint", "state", "new",
                 "size", "version", "help"):
        assert re.search(r"^  %s\b" % verb, overview, re.M), overview
        rc, out, _ = call("help", verb)
        assert rc == 0 and out.startswith("usage: streamlua " + verb), out
        if verb != "help":
            assert call(verb, "--help")[1] == out
    for topic in ("exit-codes", "environment", "signals", "units"):
        rc, out, _ = call("help", topic)
        assert rc == 0 and len(out) > 40, out


def the_manual_page_names_every_flag():
    with open(os.path.join(TOP, "doc", "streamlua.1")) as f:
        page = f.read().replace("\\-", "-")
    for verb in ("run", "check", "explain", "savepoint", "state", "new",
                 "size", "version"):
        _, out, _ = call("help", verb)
        for flag in re.findall(r"^  (?:-\w, )?(--?[\w-]+)", out, re.M):
            assert flag in page, "doc/streamlua.1 lacks " + flag


def a_job_from_stdin_cannot_read_stdin():
    for verb in ("check", "explain", "run"):
        rc, out, err = call(verb, "-", stdin=JOB.encode())
        assert (rc, out) == (64, "") and "s.stdin" in err, (rc, out, err)


def check_says_ok_on_stdout_and_warns_on_stderr():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.lua")
        with open(path, "w") as f:
            f.write(JOB)
        rc, out, err = call("check", path)
        assert (rc, out) == (0, path + ": ok\n"), (rc, out, err)
        for line in err.splitlines():
            assert line.startswith(path + ":") or "job.lua:" in line, err
        with open(path, "w") as f:
            f.write(JOB.replace("s.stdin()", "s.stdim()"))
        rc, out, err = call("check", path)
        assert (rc, out) == (65, ""), (rc, out, err)
        assert re.search(r"job\.lua:3: ", err) and "stdin" in err, err
        assert not err.startswith("error: "), err


def the_environment_gives_flags():
    rc, _, err = call("run", "x.lua", env={"STREAMLUA_SLOTS": "many"})
    assert rc == 64 and "STREAMLUA_SLOTS" in err, err
    rc, _, err = call("version", env={"STREAMLUA_LOG_FORMAT": "xml"})
    assert rc == 64 and "STREAMLUA_LOG_FORMAT: expected" in err, err
    rc, _, err = call("version", "--log-format", "xml")
    assert rc == 64 and " --log-format: expected" in err, err


def a_run_that_never_began_has_a_summary():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "summary.json")
        for job, code in ((os.path.join(d, "no.lua"), 65), ("-", 64)):
            rc, _, err = call("run", job, "--summary", path, "--set", "x=1",
                              stdin=JOB.encode())
            assert rc == code, (rc, err)
            with open(path) as f:
                s = json.load(f)
            assert (s["status"], s["exit_code"]) == ("failed", code), s
            assert s["error"] == err.split("\n")[0], (s, err)
            assert s["steps"] == {} and s["watermark"] is None, s
            assert s["started"] <= s["ended"] and s["restarts"] == 0, s


def a_closed_stdout_is_no_file_of_the_job():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.lua")
        with open(path, "w") as f:
            f.write(JOB.replace("s.stdin()", "s.generator { count = 1, "
                                "fields = { a = 1 } }"))
        for line in ("version", "run " + path):
            p = subprocess.run(["/bin/sh", "-c", "%s %s >&-" % (BINARY, line)],
                               capture_output=True, env=environment())
            assert p.returncode == 74, p
            assert b"cannot write to stdout: Bad file" in p.stderr, p


def options_without_effect_are_named_at_the_start():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.lua")
        for options, want in (
                ('{ restart = { attempts = 0 }, checkpoint = { timeout = "1m",'
                 ' retained = 2 }, state = { backend = "lmdb" }, '
                 'memory = { buffers = 0.1, lua = "1MiB" } }',
                 "checkpoint.retained, memory.buffers, memory.lua"),
                ('{ checkpoint = { timeout = "1m" }, state = { backend = '
                 '"memory" }, restart = { attempts = 0 }, memory = { state = '
                 '0.5 } }', None)):
            with open(path, "w") as f:
                f.write(JOB.replace('s.job "t"', 's.job("t", %s)' % options))
            rc, _, err = call("run", path)
            assert rc == 0, err
            lines = [x for x in err.splitlines() if "without effect" in x]
            assert (len(lines) == 1 and want and lines[0].endswith(
                "WARN  without effect in this version: " + want)
                or not lines and not want), err
            assert "without effect" not in call("check", path)[2]


def on_a_terminal(*args, until, env=None):
    """stderr of a run on a terminal; SIGTERM once `until` was seen in it."""
    try:
        master, slave = pty.openpty()
    except OSError as e:  # a bare chroot has none
        raise run_cases.Skipped(str(e)) from e
    p = subprocess.Popen([BINARY, *args], stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=slave,
                         env=environment(env))
    os.close(slave)
    out, asked = b"", False
    try:
        while True:
            ready, _, _ = select.select([master], [], [], 30)
            assert ready, (args, out)
            try:
                more = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            out += more
            if not asked and re.search(until, out):
                asked = True
                p.terminate()
        assert p.wait(30) == 0, (args, out)
    finally:
        p.kill()
        os.close(master)
    return out.decode()


def a_terminal_gets_a_progress_line_in_place_of_info():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.lua")
        with open(path, "w") as f:
            f.write("""local s = require "streamlua"
local job = s.job "tty"
job:source("in", s.generator { rate = 50, fields = { i = 1 } })
   :map(function(e) print "chat" s.log("warn", "look") return e end)
   :sink("out", s.blackhole())
return job
""")
        out = on_a_terminal("run", path, until=rb"(?s)reload 0.*reload 0")
        assert re.search(r"\r\x1b\[Ktty running 00:00:01 in \S+/s out \S+/s "
                         "reload 0", out), out
        assert "chat" not in out and "SIGTERM" not in out, out
        assert "WARN  look" in out, out
        out = on_a_terminal("run", path, "-q", until=rb"look")
        assert "reload 0" not in out and "WARN  look" in out, out
        out = on_a_terminal("run", path, "--log-format", "json",
                            until=rb"look")
        assert "reload 0" not in out and '"message":"chat"' in out, out


def the_progress_line_names_the_partition_that_holds_the_watermark():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.lua")
        with open(path, "w") as f:
            f.write("""local s = require "streamlua"
local job = s.job "held"
local src = s.source { partitions = 2, read = function(at, max, p)
  at = at or 0
  if p == 1 then return {}, at end
  return { { ts = at } }, at + 1
end }
job:source("in", src):event_time { field = "ts", idle = false }
   :key_by {} :window(s.tumbling "1s"):aggregate { n = s.count() }
   :sink("out", s.blackhole())
return job
""")
        out = on_a_terminal("run", path, until=rb"held by in\[1\] for [2-9]s")
        assert "held by in[0]" not in out, out


def explain_has_three_forms():
    job = "jobs/tenant_metrics.lua"
    rc, out, err = call("explain", job, "--parallelism", "2")
    assert rc == 0 and out.startswith("job tenant-metrics (" + job), (out, err)
    assert "why: TWO_PHASE by AUTO: all 5 aggregates merge" in out, out
    rc, out, _ = call("explain", "--json", job)
    assert rc == 0 and json.loads(out)["job"] == "tenant-metrics", out
    rc, out, _ = call("explain", "--dot", job)
    assert rc == 0 and out.startswith("digraph"), out
    refused(["explain", "--dot", "--json", job], "--json")


def tenant_metrics_runs_as_it_stands():
    count, seed, start = 100000, 7, 1767225600000
    tenants = ["acme", "acme", "acme", "bolt", "crab"]
    records = []
    for i in range(count):
        # fields in byte order: dimensions metric_name tenant_id ts user value
        h = i // 2 % 2
        fields = {
            "dimensions": {"dc": ("ber", "par")[h],
                           "host": "h%d" % (h + 1)},
            "metric_name": ("cpu", "mem")[i % 2],
            "tenant_id": tenants[oracle.draw(seed, i, 2) % 5],
            "user": 1 + oracle.draw(seed, i, 4) % 200,
            "value": 1 + oracle.draw(seed, i, 5) % 100}
        records.append(oracle.Record(fields, start + i, 0, i, "events"))
    rows, _, _ = oracle.window_job(
        [records], ["tenant_id", "metric_name", "dimensions"],
        [("mean", lambda r: oracle.agg_avg(r, "value")),
         ("n", oracle.agg_count),
         ("p99", lambda r: None),
         ("total", lambda r: oracle.agg_sum(r, "value")),
         ("users", lambda r: oracle.agg_count_distinct(r, "user"))],
        60000, 60000, 5000)
    rc, out, err = call("run", "jobs/tenant_metrics.lua")
    assert rc == 0, err
    got = oracle.read_rows(out.encode())
    assert len(got) == len(rows) and 10 <= len(rows) < 100, len(got)

    def order(row):
        return oracle.text([row["window_start"], row["tenant_id"],
                            row["metric_name"], row["dimensions"]])
    for g, w in zip(sorted(got, key=order), sorted(rows, key=order)):
        assert 90 <= g["p99"] <= 100, g
        w["p99"] = g["p99"]  # approximate above 64 values
        assert oracle.text(g) == oracle.text(w), (g, w)


def wordcount_counts_words():
    rc, out, err = call("run", "jobs/wordcount.lua",
                        stdin=b"To be or not to be\nBe\n")
    assert rc == 0, err
    assert sorted(out.split("\n")) == sorted(
        ["", '{"word":"be","n":3}', '{"word":"not","n":1}',
         '{"word":"or","n":1}', '{"word":"to","n":2}']), out


def hotkey_combines_before_the_exchange():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "summary.json")
        rc, out, err = call("run", "jobs/hotkey.lua", "--summary", path)
        assert rc == 0 and len(out.splitlines()) == 4, (out, err)
        with open(path) as f:
            local = json.load(f)["steps"]["aggregate-1"]["local"]
        assert local["reduction"] > 10, local


# Its source gives records 0..99 and then waits: --until-idle stops it with
# its windows open, and every number below can be worked out.
STATE_JOB = """local s = require "streamlua"
local job = s.job("%s", { parallelism = 2, checkpoint = { interval = "50ms" } })
local span = s.aggregator { args = { "v" },
  init = function() return {} end,
  add = function(a, v)
    return { math.min(a[1] or v, v), math.max(a[2] or v, v) }
  end,
  merge = function(a, b)
    if not a[1] or not b[1] then return a[1] and a or b end
    return { math.min(a[1], b[1]), math.max(a[2], b[2]) }
  end,
  result = function(a) return a[1] and a[2] - a[1] end }
local src = s.source { read = function(at, max)
  at = at or 0
  local out = {}
  for i = at, math.min(at + max, 100) - 1 do
    out[#out + 1] = { k = i %% 7, v = i, ts = i * 100 }
  end
  return out, at + #out
end }
local rows = job:source("in", src):event_time { field = "ts" }
rows:key_by "k":window(s.hopping("8s", "4s"))
   :aggregate({ n = s.count(), span = span }, { name = "hops" })
   :sink("out", s.blackhole())
rows:key_by { "v", "k" }:window(s.tumbling "1h")
   :aggregate({ n = s.count() }, { name = "each" })
   :sink("out2", s.blackhole())
return job
"""


def hop_rows():
    """What `state scan` shows of step hops: windows that have not fired."""
    rows = []
    for k in range(7):
        for start in range(-4000, 10000, 4000):
            vs = [i for i in range(k, 100, 7)
                  if start <= i * 100 < start + 8000]
            if start + 8000 - 1 > 9900 - 1 and vs:  # the watermark is 9899
                rows.append({"step": "hops", "key": {"k": k},
                             "window_start": start,
                             "window_end": start + 8000,
                             "value": {"n": len(vs),
                                       "span": vs[-1] - vs[0]}})
    return rows


def each_rows():
    return [{"step": "each", "key": {"v": v, "k": v % 7}, "window_start": 0,
             "window_end": 3600000, "value": {"n": 1}} for v in range(100)]


class Job:
    """A folder with a job that has run and keeps state."""

    def __init__(self, folder, name="kept"):
        self.name, self.data = name, os.path.join(folder, "data")
        self.file = os.path.join(folder, name + ".lua")
        with open(self.file, "w") as f:
            f.write(STATE_JOB % name)

    def run(self):
        rc, _, err = call("run", self.file, "--data-dir", self.data,
                          "--until-idle=200ms")
        assert rc == 0, err
        return self

    def path(self, name):
        return os.path.join(self.data, name)

    def state(self, form, *args):
        """Exit code, JSON lines."""
        rc, out, err = call("state", form, *args, "--json", "--data-dir",
                            self.data)
        assert rc in (0, 1), err
        return rc, [json.loads(x) for x in out.splitlines()]

    def start(self):
        """Run it; returns when its first checkpoint is there."""
        p = subprocess.Popen([BINARY, "run", self.file, "--data-dir",
                              self.data], stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, env=environment())
        for line in p.stderr:
            if b" completed " in line:
                return p
        raise AssertionError("the job ended: %d" % p.wait())


def state_shows_the_rows_of_open_windows():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d).run()
        rc, got = job.state("scan", "kept", "hops")
        assert (rc, got) == (0, hop_rows()), got
        rc, got = job.state("scan", job.path("kept"))
        assert (rc, got) == (0, hop_rows() + each_rows()), got
        for n in (1, len(hop_rows()), len(hop_rows()) + 3):
            rc, got = job.state("scan", "kept", "--limit", str(n))
            assert (rc, got) == (0, (hop_rows() + each_rows())[:n]), (n, got)
        rc, out, err = call("state", "scan", job.path("kept"), "hops")
        lines = out.splitlines()
        assert rc == 0 and len(lines) == 1 + len(hop_rows()), (out, err)
        assert lines[0].split() == ["k", "window_start", "window_end", "n",
                                    "span"], out
        assert "1970-01-01T00:00:04.000Z" in lines[1], out


def state_get_finds_one_key():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d).run()
        want = [r for r in hop_rows() if r["key"]["k"] == 3]
        for key in ("3", "3.0", '{"k":3}'):
            assert job.state("get", "kept", "hops", key) == (0, want), key
        assert job.state("get", "kept", "hops", "-3") == (1, [])
        assert job.state("get", "kept", "each", '{"k":1,"v":8}') == (
            0, [each_rows()[8]])
        refused(["state", "get", job.path("kept"), "each", "8"],
                'KEY of each is {"v":...,"k":...}, got 8')
        refused(["state", "get", job.path("kept"), "nix", "8"],
                'step "nix" keeps no keyed state', "hops, each")
        rc, out, err = call("state", "get", job.path("kept"), "hops", "x")
        assert rc == 64 and "hint: a string is written with" in err, err


def state_list_and_size_count_what_is_kept():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d).run()
        rc, got = job.state("list", "kept")
        assert rc == 0 and [r["step"] for r in got] == ["hops", "each"], got
        assert [r["state"] for r in got] == ["window"] * 2, got
        assert got[1]["keys"] == 100 and got[1]["bytes"] > 1000, got
        rc, size = job.state("size", "kept")
        assert [r["keys"] for r in size] == [got[0]["keys"], 100,
                                             got[0]["keys"] + 100], size
        assert size[1]["bytes"] == got[1]["bytes"], size
        assert set(size[1]["largest_key"]) == {"k", "v"}, size
        assert size[2]["file_bytes"] > size[2]["bytes"], size
        rc, got = job.state("list", "kept", "--limit", "1")
        assert len(got) == 1, got


def state_verify_finds_damage():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d).run()
        rc, out, err = call("state", "verify", job.path("kept"))
        assert rc == 0 and re.fullmatch(r"ok \d+ keys \d+ bytes\n", out), out
        path = job.path("kept/data.mdb")
        with open(path, "r+b") as f:
            data = f.read()
            f.seek(0)
            f.write(data.replace(b"hops", b"hope"))
        rc, out, err = call("state", "verify", job.path("kept"))
        assert (rc, out) == (1, "") and "data.mdb" in err, (rc, out, err)
        assert "damaged" in err, err
        rc, out, err = call("state", "scan", job.path("kept"))
        assert (rc, out) == (74, "") and "data.mdb" in err, (rc, err)


def state_diff_says_what_differs():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d).run()
        rc, out, _ = call("savepoint", job.path("kept"), "--to",
                          job.path("sp"))
        assert (rc, out) == (0, job.path("sp") + "\n"), out
        rc, out, err = call("state", "diff", job.path("kept"), job.path("sp"))
        assert (rc, out, err) == (0, "", ""), (rc, out, err)
        with open(job.file) as f:
            text = f.read()
        job2 = Job(d, "other")
        with open(job2.file, "w") as f:
            f.write(text.replace('"kept"', '"other"').replace("100)", "99)"))
        job2.run()
        rc, got = job.state("diff", "kept", "other")
        assert rc == 1, got
        assert [(r["step"], r["diff"]) for r in got] == [
            ("hops", "changed"), ("hops", "changed"), ("each", "a")], got
        assert got[2] == {"diff": "a", "a": {"n": 1}, "b": None,
                          **{k: v for k, v in each_rows()[99].items()
                             if k != "value"}}, got
        assert job.state("diff", "kept", "other", "--limit", "1") == (
            1, got[:1])
        assert job.state("diff", "other", "kept", "each")[1][0]["diff"] == "b"
        rc, out, _ = call("state", "diff", job.path("kept"),
                          job.path("other"))
        assert out.endswith("1 only in A, 0 only in B, 2 changed\n"), out


def state_is_named_by_job_path_and_checkpoint():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d).run()
        number = job.state("size", "kept")[1][-1]["checkpoint"]
        assert job.state("list", "kept", "--at", str(number))[0] == 0
        refused(["state", "list", job.path("kept"), "--at", "999"],
                "checkpoint 999 is not in", ": %d" % number)
        refused(["state", "list", job.path("kept"), "--at", "last"], "--at")
        refused(["state", "lst", "kept"], "did you mean list?")
        refused(["state"], "say list, get, scan, size, verify or diff")
        refused(["state", "get", "kept", "hops"],
                "expected state get JOB|DIR STEP KEY")
        for args in (["list", "nix"], ["verify", "nix"], ["diff", "nix", "x"]):
            rc, out, err = call("state", *args, "--data-dir", job.data)
            assert (rc, out) == (64, ""), (rc, err)
            assert "there is no checkpoint in '%s'" % job.path("nix") in err


def a_running_job_is_seen_and_makes_its_savepoint():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d)
        p = job.start()
        try:
            assert job.state("list", "kept")[0] == 0
            assert call("state", "verify", job.path("kept"))[0] == 0
            rc, out, err = call("savepoint", "kept", "--data-dir", job.data)
            assert (rc, out) == (0, job.path("kept-savepoint-1") + "\n"), err
            rc, out, err = call("savepoint", job.path("kept"), "--to",
                                job.path("kept-savepoint-1"))
            assert (rc, out) == (78, "") and "in the way" in err, (rc, err)
            assert p.poll() is None
            rc, out, err = call("savepoint", "kept", "--data-dir", job.data,
                                "--stop")
            assert (rc, out) == (0, job.path("kept-savepoint-2") + "\n"), err
            assert p.wait(30) == 0, p.stderr.read()
        finally:
            p.kill()
            p.wait()
        assert job.state("diff", "kept", job.path("kept-savepoint-2")) == (
            0, [])
        assert job.state("scan", job.path("kept-savepoint-2"), "each") == (
            0, each_rows())
        assert not os.path.exists(job.path("kept/control"))


def a_stopped_job_is_copied_under_its_lock():
    with tempfile.TemporaryDirectory() as d:
        job = Job(d).run()
        rc, out, err = call("savepoint", "kept", "--data-dir", job.data,
                            "--stop")
        sp = job.path("kept-savepoint-1")
        assert (rc, out) == (0, sp + "\n"), err
        assert "not running: nothing to stop" in err, err
        assert os.listdir(sp) == ["data.mdb"], os.listdir(sp)
        assert job.state("diff", "kept", sp) == (0, [])
        rc, out, err = call("savepoint", sp, "--to", job.path("again"))
        assert rc == 0 and job.state("diff", sp, job.path("again"))[0] == 0
        rc, out, err = call("savepoint", job.path("kept"), "--stop",
                            "--drain")
        assert (rc, out) == (69, "") and "is not running" in err, (rc, err)
        rc, out, err = call("savepoint", job.path("kept"), "--drain")
        assert (rc, out) == (69, "") and "is not running" in err, (rc, err)
        rc, out, err = call("savepoint", "nix", "--data-dir", job.data)
        assert (rc, out) == (69, ""), (rc, err)
        assert "job nix is not running" in err, err
        with open(job.path("kept/lock"), "r+") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            rc, out, err = call("savepoint", job.path("kept"))
            assert (rc, out) == (73, ""), (rc, err)
            assert "pid=" in err and "try again" in err, err
            assert job.state("list", "kept")[0] == 0


def size_is_arithmetic():
    base = ["size", "--rate", "48000", "--capacity", "4000"]
    rc, out, err = call(*base)
    assert (rc, out, err) == (0, "parallelism 16\nslots 16\nworkers 8\n"
                              "binds rate\n", ""), (out, err)
    rc, out, _ = call(*base, "--backlog", "3600000", "--within", "10m",
                      "--slots-per-worker", "4", "--json")
    assert json.loads(out) == {"parallelism": 18, "slots": 18, "workers": 5,
                               "binds": "catch-up"}, out
    for flag, name in (("--partitions", "partitions"),
                       ("--max-parallelism", "key-groups")):
        rc, out, err = call(*base, flag, "12", "--json")
        assert json.loads(out) == {"parallelism": 12, "slots": 12,
                                   "workers": 6, "binds": name}, out
        assert rc == 0 and "16 subtasks are needed, and 12 do 36000" in err
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.lua")
        with open(path, "w") as f:
            f.write("""local s = require "streamlua"
local job = s.job("t", { parallelism = 3, max_parallelism = 20 })
job:source("in", s.generator { partitions = 64, fields = { i = 1 } },
           { slot_sharing_group = "in" })
   :key_by "i":window(s.global()):aggregate { n = s.count() }
   :sink("out", s.stdout())
return job
""".replace('"in" })', '"in", parallelism = 2 })'))
        rc, out, err = call("size", path)
        assert (rc, out) == (0, "parallelism 3\nslots 3\nworkers 2\n"), out
        rc, out, err = call("size", path, "--parallelism", "5")
        assert out == "parallelism 5\nslots 5\nworkers 3\n", out
        rc, out, err = call("size", path, *base[1:])
        assert out.startswith("parallelism 16\nslots 16\n"), out
        rc, out, err = call("size", path, "--rate", "96000", "--capacity",
                            "4000")
        assert out.startswith("parallelism 20\n"), out
        assert out.endswith("binds key-groups\n") and "32 subtasks" in err


def sizes_that_cannot_be_computed_are_refused():
    refused(["size"], "give --rate and --capacity, or a FILE")
    for flags, why in (
            ("--rate 5", "--rate and --capacity"),
            ("--capacity 5", "--rate and --capacity"),
            ("--rate 0 --capacity 5", "--rate: expected a number above 0"),
            ("--rate x --capacity 5", "--rate: expected a number above 0"),
            ("--rate 5 --capacity 5 --backlog 5", "--backlog and --within"),
            ("--rate 5 --capacity 5 --backlog 5 --within 0", "--within: "),
            ("--rate 5 --capacity 5 --utilization 1.1", "--utilization: "),
            ("--rate 5 --capacity 5 --parallelism 5", "give one of them"),
            ("x.lua --partitions 5", "--partitions needs --rate"),
            ("--rate 5 --capacity 5 --partitions 0", "--partitions: ")):
        refused(["size", *flags.split()], why)
    assert call("size", "no/such.lua")[0] == 65


def new_writes_a_job_whose_next_commands_work():
    with tempfile.TemporaryDirectory() as d:
        env = dict(environment(), HOME=d, PATH=os.path.join(d, "bin") + ":" +
                   os.environ["PATH"])
        os.mkdir(os.path.join(d, "bin"))
        os.symlink(BINARY, os.path.join(d, "bin", "streamlua"))
        for name, template, want in (
                ("plain", [], '{"host":"a","window_start"'),
                ("it's/words", ["--template", "wordcount"],
                 '{"word":"be","n":2}'),
                ("fraud", ["--template", "fraud"], "")):
            os.makedirs(os.path.dirname(os.path.join(d, name)), exist_ok=True)
            p = subprocess.run([BINARY, "new", name, *template], cwd=d,
                               env=env, capture_output=True, text=True)
            assert p.returncode == 0 and p.stderr == "", p
            assert sorted(os.listdir(os.path.join(d, name))) == [
                ".luacheckrc", ".luarc.json", "README.md", "job.lua",
                "job_test.lua"], p
            commands = p.stdout.splitlines()
            assert len(commands) == 2, p
            assert commands[0].startswith("streamlua test "), commands
            for command in commands:
                p = subprocess.run(["/bin/sh", "-c", command], cwd=d, env=env,
                                   capture_output=True, text=True)
                assert p.returncode == 0, (command, p)
                assert command != commands[0] or re.search(
                    r"^[1-9] passed, 0 failed$", p.stdout, re.M), p
            assert want in p.stdout, p
            with open(os.path.join(d, name, ".luarc.json")) as f:
                assert json.load(f)["runtime.version"] == "Lua 5.4"
            with open(os.path.join(d, name, "README.md")) as f:
                readme = f.read()
            assert readme.startswith("# %s\n" % os.path.basename(name)), readme
            assert "@" not in readme and "run job.lua\n" in readme, readme
            with open(os.path.join(d, name, "job.lua")) as f:
                assert 's.job%s"%s"' % ("(" if not template else " ",
                                        os.path.basename(name)) in f.read()


def new_writes_over_nothing_unless_told():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "mine")
        os.mkdir(path)
        with open(os.path.join(path, "job.lua"), "w") as f:
            f.write("mine")
        with open(os.path.join(path, "other"), "w") as f:
            f.write("mine")
        rc, out, err = call("new", path)
        assert (rc, out) == (73, "") and "exists already" in err, (rc, err)
        assert sorted(os.listdir(path)) == ["job.lua", "other"]
        rc, out, err = call("new", path + "/", "--force")
        assert rc == 0 and path + "/job.lua" in out, (out, err)
        with open(os.path.join(path, "job.lua")) as f:
            assert f.read().startswith("-- Metrics of each host")
        with open(os.path.join(path, "other")) as f:
            assert f.read() == "mine"
        rc, out, err = call("new", os.path.join(path, "other"), "--force")
        assert rc == 73 and "it is no folder" in err, (rc, err)
        rc, out, err = call("new", os.path.join(d, "no", "such"))
        assert rc == 73 and "cannot make" in err, (rc, err)
    refused(["new"], "NAME is missing")
    refused(["new", "9x"], "cannot be the name of a job")
    refused(["new", "x", "--template", "nix"],
            "--template: expected metrics|wordcount|fraud")


TESTS = [
    version_names_itself_first,
    wrong_calls_are_one_line_and_a_hint,
    starts_that_contradict_each_other_are_refused,
    a_file_that_cannot_be_read_is_65,
    every_verb_and_flag_has_help,
    the_manual_page_names_every_flag,
    a_job_from_stdin_cannot_read_stdin,
    check_says_ok_on_stdout_and_warns_on_stderr,
    the_environment_gives_flags,
    a_run_that_never_began_has_a_summary,
    a_closed_stdout_is_no_file_of_the_job,
    options_without_effect_are_named_at_the_start,
    a_terminal_gets_a_progress_line_in_place_of_info,
    the_progress_line_names_the_partition_that_holds_the_watermark,
    explain_has_three_forms,
    tenant_metrics_runs_as_it_stands,
    wordcount_counts_words,
    hotkey_combines_before_the_exchange,
    state_shows_the_rows_of_open_windows,
    state_get_finds_one_key,
    state_list_and_size_count_what_is_kept,
    state_verify_finds_damage,
    state_diff_says_what_differs,
    state_is_named_by_job_path_and_checkpoint,
    a_running_job_is_seen_and_makes_its_savepoint,
    a_stopped_job_is_copied_under_its_lock,
    size_is_arithmetic,
    sizes_that_cannot_be_computed_are_refused,
    new_writes_a_job_whose_next_commands_work,
    new_writes_over_nothing_unless_told,
]


def main():
    global BINARY, DATA
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    BINARY = os.path.abspath(args.bin)
    with tempfile.TemporaryDirectory() as DATA:
        return run_cases.run_tests(TESTS, args.names)


if __name__ == "__main__":
    sys.exit(main())
