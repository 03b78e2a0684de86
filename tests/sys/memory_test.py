#!/usr/bin/env python3
"""State larger than its memory, and sinks that stall: the process keeps its
budget, does not die, and says what a plain Python says.

What counts is anonymous memory: pages of the store's file are the system's to
take back, and its map is address space only. It is looked at all the time
(RssAnon), and the process runs under a hard limit of it (RLIMIT_DATA: what is
above fails, and a process whose memory fails ends).

STREAMLUA_LONG=1: twenty times the records.
"""
import argparse
import collections
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time

import ckpt_kit
import run_cases

LONG = os.environ.get("STREAMLUA_LONG") == "1"
RECORDS = 1200000 if LONG else 60000
STATE = 2 << 20    # bytes, for all stateful subtasks
# The program itself, Lua, batches on their way, and what rounds gather.
BESIDE = 44 << 20
# What RLIMIT_DATA counts beside that: stacks of threads, and what the
# allocator has asked for and not used.
RESERVED = 72 << 20

JOB = """
local s = require "streamlua"
local job = s.job("memory", {
  parallelism = %(par)d, checkpoint = { interval = "500ms" },
  memory = { total = "64MiB", state = "%(state)dB" },
})
local keyed = job:source("in", s.file { path = "in.jsonl" }):key_by "k"
%(rest)s
return job
"""


def keys(kind):
    """The hostile distributions: numbers of keys, record by record."""
    r = random.Random(7)
    for i in range(RECORDS):
        if kind == "distinct":
            yield i * 7919 % 1000003
        elif kind == "zipf":
            yield int(r.paretovariate(0.4)) % 1000003
        else:
            yield 1


def resident(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            for line in f:
                if line.startswith("RssAnon"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def limit_data():
    resource.setrlimit(resource.RLIMIT_DATA,
                       (STATE + BESIDE + RESERVED,) * 2)


def run(binary, rest, kind, par=2, stall=0, lines=None):
    """@param lines a file that has the rows instead of stdout.
    @return the rows, and the input's (key, number)."""
    rows = [(k, i) for i, k in enumerate(keys(kind))]
    sanitized = is_sanitized(binary)
    text = JOB % {"par": par, "state": STATE, "rest": rest}
    with ckpt_kit.Folder(binary, text) as f:
        with open(f.at("in.jsonl"), "w") as out:
            for k, i in rows:
                out.write('{"k":"key-%07d","i":%d}\n' % (k, i))
        with tempfile.TemporaryFile() as err:
            p = subprocess.Popen(
                [binary, "run", "job.lua", "-q", "--unsafe", "--summary",
                 "summary.json"], cwd=f.path, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=err, env=run_cases.clean_env({}),
                preexec_fn=None if sanitized else limit_data)
            most = [0]

            def look():
                while p.poll() is None:
                    most[0] = max(most[0], resident(p.pid))
                    time.sleep(0.01)

            watch = threading.Thread(target=look)
            watch.start()
            time.sleep(stall)
            got = [json.loads(line) for line in p.stdout]
            p.stdout.close()
            code = p.wait(ckpt_kit.WAIT_S)
            watch.join()
            err.seek(0)
            assert code == 0, (code, err.read().decode())
        memory = f.summary()["memory"]
        if lines is not None:
            with open(f.at(lines)) as file:
                got = [json.loads(line) for line in file]
    assert memory["total"] == 64 << 20 and memory["state"]["limit"] == STATE
    # What was on its way in front of a barrier becomes state before it comes.
    assert memory["state"]["used"] <= (
        STATE * 5 // 4 + memory["buffers"]["limit"] // 2), memory
    if not sanitized:
        assert most[0] < STATE + BESIDE, "RssAnon %d KiB" % (most[0] >> 10)
    return got, [("key-%07d" % k, i) for k, i in rows]


def is_sanitized(binary):
    """Sanitizers keep what was freed: their memory says nothing."""
    out = subprocess.run([binary, "--version"], capture_output=True,
                         text=True, env=run_cases.clean_env({}))
    return "sanitizer     no" not in out.stdout


DEDUP = 'keyed:dedup { ttl = false }:sink("out", s.stdout {})'


def dedup(binary, kind, **more):
    got, rows = run(binary, DEDUP, kind, **more)
    assert len(got) == len({r["k"] for r in got})
    assert {r["k"] for r in got} == {k for k, _ in rows}


def dedup_of_more_keys_than_memory_holds(binary):
    dedup(binary, "distinct")


def a_sink_that_stalls_holds_the_source(binary):
    dedup(binary, "distinct", stall=4)


PROCESS = """
keyed:process { name = "p",
  state = { n = s.value_state(), last = s.value_state() },
  on_record = function(e, ctx)
    local n = (ctx.state.n:get() or 0) + 1
    local last = ctx.state.last:get()
    ctx.state.n:set(n)
    ctx.state.last:set("record number " .. e.i)
    ctx:emit { k = e.k, n = n, last = last }
  end }:sink("out", s.stdout {})
"""


def values_come_back(binary, kind):
    got, rows = run(binary, PROCESS, kind)
    counts = collections.Counter(k for k, _ in rows)
    assert collections.Counter(r["k"] for r in got) == counts
    seen = collections.defaultdict(set)
    for r in got:
        seen[r["k"]].add(r["n"])
        assert ("last" in r and r["last"] is not None) == (r["n"] > 1), r
    assert all(v == set(range(1, counts[k] + 1)) for k, v in seen.items())


def values_of_distinct_keys_come_back(binary):
    values_come_back(binary, "distinct")


def values_of_few_hot_and_many_cold_keys_come_back(binary):
    values_come_back(binary, "zipf")


MAP = """
keyed:process { name = "p", state = { m = s.map_state() },
  on_record = function(e, ctx)
    local m, at = ctx.state.m, e.i * 7919 % 50021
    local was = m:get(at)
    if e.i % 5 == 4 then m:remove(at) else m:put(at, "the number " .. e.i) end
    ctx:emit { at = at, was = was }
  end }:sink("out", s.stdout {})
"""


def the_map_of_one_giant_key_is_read_entry_by_entry(binary):
    got, rows = run(binary, MAP, "giant", par=1)
    m, want = {}, []
    for _, i in rows:
        at = i * 7919 % 50021
        want.append((at, m.get(at)))
        if i % 5 == 4:
            m.pop(at, None)
        else:
            m[at] = "the number %d" % i
    assert [(r["at"], r.get("was")) for r in got] == want


WINDOWS = """
keyed:window(s.global()):aggregate({ n = s.count(), sum = s.sum "i" })
  :sink("out", s.stdout {})
"""


def windows_of_more_keys_than_memory_holds(binary):
    got, rows = run(binary, WINDOWS, "distinct")
    n, total = collections.Counter(), collections.Counter()
    for k, i in rows:
        n[k] += 1
        total[k] += i
    assert {r["k"]: (r["n"], r["sum"]) for r in got} == {
        k: (n[k], total[k]) for k in n}
    assert len(got) == len(n)


TOP = """
keyed:window(s.global()):top_n { n = 3, by = "i" }:sink("out", s.stdout {})
"""


def best_of(binary, kind):
    got, rows = run(binary, TOP, kind)
    all_of = collections.defaultdict(list)
    for k, i in rows:
        all_of[k].append(i)
    want = {(k, n + 1, i) for k, of in all_of.items()
            for n, i in enumerate(sorted(of, reverse=True)[:3])}
    assert len(got) == len(want)
    assert {(r["k"], r["rank"], r["i"]) for r in got} == want


def the_best_of_more_keys_than_memory_holds(binary):
    best_of(binary, "distinct")


def the_best_of_few_hot_and_many_cold_keys(binary):
    best_of(binary, "zipf")


RECORDS_OF = """
keyed:window(s.global()):process { name = "w",
  on_window = function(records, ctx)
    local sum = 0
    for _, r in ipairs(records) do sum = sum + r.i end
    ctx:emit { k = ctx:key(), n = #records, sum = sum }
  end }:sink("out", s.stdout {})
"""


def records_of_windows_leave_memory_and_come_back(binary):
    got, rows = run(binary, RECORDS_OF, "distinct")
    n, total = collections.Counter(), collections.Counter()
    for k, i in rows:
        n[k] += 1
        total[k] += i
    assert len(got) == len(n)
    assert {r["k"]: (r["n"], r["sum"]) for r in got} == {
        k: (n[k], total[k]) for k in n}


def refused(binary, rest, *texts):
    """A job with one key ends, and says which and what to do about it."""
    with ckpt_kit.Folder(binary, JOB % {
            "par": 1, "state": STATE, "rest": rest}) as f:
        with open(f.at("in.jsonl"), "w") as out:
            for i in range(4000):
                out.write('{"k":"giant","i":%d,"x":"%s"}\n' % (i, "x" * 1000))
        said = f.finish("-q", code=1)
    for text in texts:
        assert text in said, said


def records_of_one_window_are_refused_beyond_half_of_memory(binary):
    refused(binary, RECORDS_OF, "records of this window take more than half",
            "giant", "use an aggregate")


LIST = """
keyed:process { name = "p", state = { l = s.list_state() },
  on_record = function(e, ctx) ctx.state.l:add(e.x) end
  }:sink("out", s.stdout {})
"""


def a_list_of_one_key_is_refused_beyond_half_of_memory(binary):
    refused(binary, LIST, "list state 'l' of this key has reached half",
            "giant", "keep the elements as a map state")


SILENT = """
local n, file = 0
keyed:process { name = "p", state = { v = s.value_state() },
  on_record = function(e, ctx)
    ctx.state.v:set(("%07d of a text that takes memory"):format(e.i))
    if e.i % 50 == 0 then ctx:emit { k = e.k, i = e.i } end
  end }:sink("out", s.sink {
  open = function() file = io.open("rows.jsonl", "a") end,
  write = function(batch)
    n = n + 1
    if n <= 8 then os.execute "sleep 0.6" end
    for _, e in ipairs(batch) do
      file:write(('{"k":"%s","i":%d}\\n'):format(e.k, e.i))
    end
    file:flush()
  end })
"""


def a_lua_sink_that_sleeps_holds_state_that_grows_without_output(binary):
    got, rows = run(binary, SILENT, "distinct", par=1, lines="rows.jsonl")
    assert [(r["k"], r["i"]) for r in got] == [
        (k, i) for k, i in rows if i % 50 == 0]


TESTS = [
    dedup_of_more_keys_than_memory_holds,
    a_sink_that_stalls_holds_the_source,
    values_of_distinct_keys_come_back,
    values_of_few_hot_and_many_cold_keys_come_back,
    the_map_of_one_giant_key_is_read_entry_by_entry,
    windows_of_more_keys_than_memory_holds,
    the_best_of_more_keys_than_memory_holds,
    the_best_of_few_hot_and_many_cold_keys,
    records_of_windows_leave_memory_and_come_back,
    records_of_one_window_are_refused_beyond_half_of_memory,
    a_list_of_one_key_is_refused_beyond_half_of_memory,
    a_lua_sink_that_sleeps_holds_state_that_grows_without_output,
]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=3)
    ap.add_argument("names", nargs="*")
    a = ap.parse_args()
    return ckpt_kit.run_tests(TESTS, os.path.abspath(a.bin), a.names, a.j)


if __name__ == "__main__":
    sys.exit(main())
