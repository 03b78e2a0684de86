#!/usr/bin/env python3
"""Functions with keyed state that are killed, stopped and rescaled.

usage: stateful_test.py [--bin PATH] [-j N] [--seed N] [NAME...]

What a job must give is computed here, in plain Python, from the same input;
an undisturbed run and all disturbed runs together must give just that.
"""
import argparse
import json
import os
import random
import subprocess
import sys

import checkpoint_test
import ckpt_kit
import run_cases
from ckpt_kit import Folder, must_hold, same_rows

COUNT = 30000

# A key lies in one partition, so its records come in order of time.
HEAD = """local s = require "streamlua"
local job = s.job("job", { checkpoint = s.param("ck", true) and
  { interval = "50ms" }, state = { backend = s.param("backend", "lmdb") } })
local rate, count = s.param("rate", 30000), s.param("count", 30000)
local input = job:source("in", s.generator { count = count, rate = rate,
    partitions = 3, fields = { i = s.gen.sequence {} } })
  :map(function(e)
    local x = e.i * 0x9E3779B1 & 0xffffffff
    x = (x ~ x >> 15) * 0x85EBCA6B & 0xffffffff
    x = x ~ x >> 13
    e.k, e.v, e.ts = (x % 40) * 3 + e.i % 3, (x >> 8) % 100, e.i * 10
    return e
  end)
  :event_time { field = "ts" }
local function keyed()
  return input:key_by { "k", { "even", function(e) return e.k % 2 == 0 end } }
end
"""

TAIL = """
  :sink("out", s.file { path = "out" })
return job
"""


def records():
    for i in range(COUNT):
        x = i * 0x9E3779B1 & 0xffffffff
        x = (x ^ x >> 15) * 0x85EBCA6B & 0xffffffff
        x = x ^ x >> 13
        yield {"i": i, "k": (x % 40) * 3 + i % 3, "v": (x >> 8) % 100,
               "ts": i * 10}


def text_of(rows):
    return sorted(json.dumps(r, separators=(",", ":")).encode() for r in rows)


# --- the jobs -----------------------------------------------------------------

# A value and a timer. A record may come before the timer it makes void.
SILENCE = HEAD + """
local r = keyed():process { name = "silence",
  state = { last = s.value_state(), beats = s.value_state() },
  on_record = function(e, ctx)
    local last = ctx.state.last:get()
    if last and e.ts - last >= 2500 then
      ctx:emit(s.row { { "k", e.k }, { "since", last } })
    end
    ctx.state.last:set(e.ts)
    ctx.state.beats:set { n = (ctx.state.beats:get() or { n = 0 }).n + 1 }
    if last then ctx:delete_event_timer(last + 2500) end
    ctx:register_event_timer(e.ts + 2500)
  end,
  on_timer = function(ts, ctx)
    if ctx.state.last:get() == ts - 2500 then
      ctx.state.last:clear()
      ctx:emit(s.row { { "k", ctx:key().k }, { "since", ts - 2500 } })
    end
  end }
r""" + TAIL


def silence():
    last, rows = {}, []
    for e in records():
        was = last.get(e["k"])
        if was is not None and e["ts"] - was >= 2500:
            rows.append({"k": e["k"], "since": was})
        last[e["k"]] = e["ts"]
    return text_of(rows + [{"k": k, "since": t} for k, t in last.items()])


# A map by time, accumulators, timers that clear, a side output.
BUCKETS = HEAD + """
local r = keyed():process { name = "buckets", outputs = { "seen" },
  state = { sums = s.map_state(), all = s.aggregating_state(s.sum "v"),
    most = s.reducing_state(math.max) },
  on_record = function(e, ctx)
    local from = e.ts // 5000 * 5000
    local b = ctx.state.sums:get(from) or { n = 0, sum = 0 }
    b.n, b.sum = b.n + 1, b.sum + e.v
    ctx.state.sums:put(from, b)
    ctx.state.all:add(e)
    ctx.state.most:add(e.v)
    ctx:register_event_timer(from + 5000)
    if e.i % 100 == 0 then
      ctx:emit_to("seen", s.row { { "k", e.k }, { "i", e.i },
        { "sum", ctx.state.all:get() }, { "most", ctx.state.most:get() } })
    end
  end,
  on_timer = function(ts, ctx)
    local b = ctx.state.sums:get(ts - 5000)
    ctx.state.sums:remove(ts - 5000)
    ctx:emit(s.row { { "k", ctx:key().k }, { "from", ts - 5000 },
      { "n", b.n }, { "sum", b.sum } })
  end }
r:side_output "seen":sink("seen", s.file { path = "seen" })
r""" + TAIL


def buckets():
    sums, total, most, seen = {}, {}, {}, []
    for e in records():
        k, at = e["k"], (e["k"], e["ts"] // 5000 * 5000)
        n, s = sums.get(at, (0, 0))
        sums[at] = (n + 1, s + e["v"])
        total[k] = total.get(k, 0) + e["v"]
        most[k] = max(most.get(k, 0), e["v"])
        if e["i"] % 100 == 0:
            seen.append({"k": k, "i": e["i"], "sum": total[k],
                         "most": most[k]})
    return text_of({"k": k, "from": at, "n": n, "sum": s}
                   for (k, at), (n, s) in sums.items()), text_of(seen)


# A list and a map whose parts expire, each by its own time.
RECENT = HEAD + """
keyed():process { name = "recent",
  state = { l = s.list_state { ttl = "2s" }, m = s.map_state { ttl = "4s" } },
  on_record = function(e, ctx)
    local names = {}
    ctx.state.l:add(e.i)
    ctx.state.m:put("v" .. e.v % 7, e.ts)
    for name in ctx.state.m:pairs() do names[#names + 1] = name end
    ctx:emit(s.row { { "i", e.i }, { "l", ctx.state.l:get() }, { "m", names } })
    if e.i % 50 == 7 then ctx.state.l:update { e.i } end
    if e.i % 50 == 8 then ctx.state.m:clear() end
  end }""" + TAIL


def recent():
    lists, maps, rows = {}, {}, []
    for e in records():
        ts = e["ts"]
        # An element is as old as its own record, unless the list was
        # replaced since.
        held = lists.get(e["k"], []) + [(e["i"], ts)]
        held = [(i, t) for i, t in held if ts - t < 2000]
        m = maps.setdefault(e["k"], {})
        m["v%d" % (e["v"] % 7)] = ts
        rows.append({"i": e["i"], "l": [i for i, _ in held],
                     "m": sorted(n for n, t in m.items() if ts - t < 4000)})
        lists[e["k"]] = [(e["i"], ts)] if e["i"] % 50 == 7 else held
        if e["i"] % 50 == 8:
            m.clear()
    return text_of(rows)


DEDUP = HEAD + """
keyed():dedup { name = "first", ttl = "1500ms" }
  :select { "i", "k" }""" + TAIL


def dedup():
    seen, rows = {}, []
    for e in records():
        was = seen.get(e["k"])
        if was is None or e["ts"] - was >= 1500:
            seen[e["k"]] = e["ts"]
            rows.append({"i": e["i"], "k": e["k"]})
    return text_of(rows)


CONNECT = HEAD + """
local odd = input:filter(function(e) return e.i % 2 == 1 end)
local even = input:filter(function(e) return e.i % 2 == 0 end)
odd:key_by "k":connect(even:key_by { other = function(e) return e.k end })
  :process { name = "both", state = { n = s.map_state() },
    on_left = function(e, ctx)
      ctx.state.n:put("odd", (ctx.state.n:get "odd" or 0) + e.v)
      ctx:register_event_timer(math.maxinteger)
    end,
    on_right = function(e, ctx)
      ctx.state.n:put("even", (ctx.state.n:get "even" or 0) + e.v)
      ctx:register_event_timer(math.maxinteger)
    end,
    on_timer = function(ts, ctx)
      ctx:emit(s.row { { "k", ctx:key() }, { "odd", ctx.state.n:get "odd" or 0 },
        { "even", ctx.state.n:get "even" or 0 } })
    end }""" + TAIL


def connect():
    sums = {}
    for e in records():
        sides = sums.setdefault(e["k"], {"k": e["k"], "odd": 0, "even": 0})
        sides["odd" if e["i"] % 2 else "even"] += e["v"]
    return text_of(sums.values())


# --- tests ----------------------------------------------------------------------


def check(binary, text, want, number, backend="lmdb", kills=5):
    """An undisturbed run and one of many deaths give what was computed.
    `want`: rows by sink."""
    calm, _ = checkpoint_test.undisturbed(binary, text, list(want))
    for sink, rows in want.items():
        assert len(rows) > 100
        same_rows(calm[sink], rows, "undisturbed " + sink)
    rng = random.Random(checkpoint_test.seed * 1000 + number)
    with Folder(binary, text) as f:
        checkpoint_test.disturb(f, rng, kills, "--set", "backend=" + backend)
        for sink, rows in want.items():
            same_rows(f.rows(sink), rows, sink)


def values_and_timers_survive_kills_and_other_widths(binary):
    check(binary, SILENCE, {"out": silence()}, 1)


def values_and_timers_in_memory_survive_kills(binary):
    check(binary, SILENCE, {"out": silence()}, 2, "memory")


def maps_and_accumulators_survive_kills(binary):
    out, seen = buckets()
    check(binary, BUCKETS, {"out": out, "seen": seen}, 3)


def lists_and_maps_that_expire_survive_kills(binary):
    check(binary, RECENT, {"out": recent()}, 4)


def dedup_survives_kills(binary):
    check(binary, DEDUP, {"out": dedup()}, 5)


def connected_streams_survive_kills(binary):
    check(binary, CONNECT, {"out": connect()}, 6)


def a_stopped_job_goes_on_at_another_width(binary):
    for text, want in ((SILENCE, silence()), (RECENT, recent())):
        with Folder(binary, text) as f:
            for width in ("2", "4", "1"):
                checkpoint_test.stop_after_a_round(f, "--parallelism", width)
            f.finish("--parallelism", "3")
            same_rows(f.rows(), want, "out")


def a_savepoint_holds_state_and_timers(binary):
    text, want = SILENCE.replace('s.file { path = "out" }', "s.stdout()"), \
        silence()
    with Folder(binary, text) as f, Folder(binary, text) as other:
        with f.start("--parallelism", "3") as run:
            assert run.until(ckpt_kit.COMPLETED % 3)
            point = checkpoint_test.ask(f, "--stop", "--to", "kept")
            run.end(0)
        other.finish("--from", point, "--parallelism", "2")
        assert f.stdout() and other.stdout()
        same_rows(sorted(f.stdout() + other.stdout()), want, "both")


def other_state_is_refused_and_nothing_changes(binary):
    want = silence()
    with Folder(binary, SILENCE) as f:
        checkpoint_test.stop_after_a_round(f)
        for old, new, word in (
                ("last = s.value_state()", "last = s.list_state()", "last"),
                (", beats = s.value_state()", "", "beats"),
                ('key_by { "k",', 'key_by { "v",', "silence")):
            changed = SILENCE.replace(old, new)
            assert changed != SILENCE
            if word == "beats":
                changed = "\n".join(line for line in changed.split("\n")
                                    if "state.beats" not in line)
            f.write("changed.lua", changed)
            must_hold(f.finish(code=65, file="changed.lua"), word, "silence")
        f.finish()
        same_rows(f.rows(), want, "out")


def a_handle_may_be_added_and_a_ttl_changed(binary):
    want = silence()
    with Folder(binary, SILENCE) as f:
        checkpoint_test.stop_after_a_round(f)
        f.write("more.lua", SILENCE.replace(
            "state = { last = s.value_state(),",
            'state = { a = s.map_state(), last = s.value_state { ttl = "1d" },'
        ).replace("ctx.state.last:set(e.ts)",
                  "ctx.state.last:set(e.ts) ctx.state.a:put(e.i % 3, e.i)"))
        f.finish("--set", "rate=40000", file="more.lua")
        same_rows(f.rows(), want, "out")


def shown(f, *words):
    """What the verb state says, a value a line."""
    p = subprocess.run([f.binary, "state", *words, "--json"], cwd=f.path,
                       capture_output=True, text=True, check=True,
                       timeout=ckpt_kit.WAIT_S,
                       env=run_cases.clean_env({}))
    return [json.loads(line) for line in p.stdout.split("\n")[:-1]]


def state_shows_what_functions_keep(binary):
    with Folder(binary, CONNECT) as f:
        f.finish("--set", "rate=0")
        want = {r["k"]: r for r in map(json.loads, connect())}
        rows = shown(f, "scan", "job", "both")
        assert [r["key"]["k"] for r in rows] == sorted(want)
        for r in rows:
            w = want[r["key"]["k"]]
            assert r == {"step": "both", "key": {"k": w["k"]}, "state": "n",
                         "value": {"even": w["even"], "odd": w["odd"]}}, r
        assert shown(f, "list", "job") == [
            {"step": "both", "state": "map", "name": "n", "keys": 240,
             "bytes": shown(f, "list", "job")[0]["bytes"]}]


def state_shows_timers(binary):
    with Folder(binary, SILENCE) as f:
        checkpoint_test.stop_after_a_round(f)
        rows = shown(f, "scan", "job", "silence")
        last = {r["key"]["k"]: r["value"] for r in rows
                if r.get("state") == "last"}
        timers = {r["key"]["k"]: r["ts"] for r in rows
                  if r.get("timer") == "event"}
        assert len(timers) > 50
        assert timers == {k: t + 2500 for k, t in last.items()}
        k, at = sorted(timers.items())[7]
        key = {"k": k, "even": k % 2 == 0}
        assert {"step": "silence", "key": key, "timer": "event", "ts": at} in \
            shown(f, "get", "job", "silence", json.dumps(key))
        kinds = [(x["state"], x.get("name")) for x in shown(f, "list", "job")]
        assert kinds == [("value", "beats"), ("value", "last"),
                         ("timer", None)], kinds


TESTS = [
    values_and_timers_survive_kills_and_other_widths,
    values_and_timers_in_memory_survive_kills,
    maps_and_accumulators_survive_kills,
    lists_and_maps_that_expire_survive_kills,
    dedup_survives_kills,
    connected_streams_survive_kills,
    a_stopped_job_goes_on_at_another_width,
    a_savepoint_holds_state_and_timers,
    other_state_is_refused_and_nothing_changes,
    a_handle_may_be_added_and_a_ttl_changed,
    state_shows_what_functions_keep,
    state_shows_timers,
]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=4)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("names", nargs="*")
    a = ap.parse_args()
    checkpoint_test.seed = a.seed
    return ckpt_kit.run_tests(TESTS, os.path.abspath(a.bin), a.names, a.j)


if __name__ == "__main__":
    sys.exit(main())
