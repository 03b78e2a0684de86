#!/usr/bin/env python3
"""Keyed steps that keep records, count, or have no window: killed, stopped
and rescaled.

usage: rows_test.py [--bin PATH] [-j N] [--seed N] [NAME...]

What a job must give is computed here, in plain Python, from the same input
(that of stateful_test.py, where a key lies in one partition).
"""
import argparse
import json
import os
import random
import sys

import checkpoint_test
import ckpt_kit
from ckpt_kit import Folder, same_rows
from stateful_test import COUNT, HEAD, records, text_of

# One order of fields, so that records can be compared as bytes.
HEAD = HEAD + """
input = input:select { "i", "k", "v", "ts" }
local function by_k() return input:key_by "k" end
"""

TAIL = """
  :sink("out", s.file { path = "out" })
return job
"""


def windows(size, slide, key=lambda e: e["k"]):
    """{(key, start): its records in order}."""
    held = {}
    for e in records():
        start = e["ts"] // slide * slide
        while start > e["ts"] - size:
            held.setdefault((key(e), start), []).append(e)
            start -= slide
    return held


# --- the jobs -----------------------------------------------------------------

RANKED = HEAD + """
by_k():window(s.tumbling "20s"):top_n { name = "top", n = 3, by = "v",
  ties = true }""" + TAIL


def ranked():
    rows = []
    for (_, start), held in windows(20000, 20000).items():
        held.sort(key=lambda e: (-e["v"], e["ts"]))
        for e in held:
            rank = 1 + sum(x["v"] > e["v"] for x in held)
            if rank <= 3:
                rows.append({**e, "window_start": start,
                             "window_end": start + 20000, "rank": rank})
    return text_of(rows)


REDUCED = HEAD + """
by_k():window(s.hopping("20s", "5s")):reduce(function(a, b)
    return s.row { { "k", a.k }, { "i", math.max(a.i, b.i) },
      { "v", a.v + b.v } }
  end, { name = "sum" })
  :select { "k", "i", "v" }""" + TAIL


def reduced():
    return text_of({"k": k, "i": held[-1]["i"], "v": sum(e["v"] for e in held)}
                   for (k, _), held in windows(20000, 5000).items())


WHOLE = HEAD + """
by_k():window(s.tumbling "10s"):process { name = "whole",
  on_window = function(rows, ctx)
    local ids = {}
    for i, e in ipairs(rows) do ids[i] = e.i end
    ctx:emit(s.row { { "k", ctx:key() }, { "from", ctx:window_start() },
      { "ids", ids } })
  end }""" + TAIL


def whole():
    return text_of({"k": k, "from": start, "ids": [e["i"] for e in held]}
                   for (k, start), held in windows(10000, 10000).items())


COUNTED = HEAD + """
by_k():window(s.count_window(9, 6)):aggregate({ { "ids", s.collect "i" },
  { "sum", s.sum "v" } }, { name = "counted" })""" + TAIL


def counted():
    held, rows = {}, []
    for e in records():
        mine = held.setdefault(e["k"], [])
        mine.append(e)
        if len(mine) >= 9 and (len(mine) - 9) % 6 == 0:
            rows.append({"k": e["k"], "ids": [x["i"] for x in mine[-9:]],
                         "sum": sum(x["v"] for x in mine[-9:])})
    return text_of(rows)


HOTTEST = HEAD + """
by_k():window(s.hopping("4s", "2s")):aggregate({ n = s.count() },
    { name = "counts" })
  :key_by {}:window(s.same()):top_n { name = "hot", n = 1, by = "n",
    ties = true }""" + TAIL


def hottest():
    by_start = {}
    for (k, start), held in windows(4000, 2000).items():
        by_start.setdefault(start, []).append((k, len(held)))
    return text_of({"k": k, "window_start": start, "window_end": start + 4000,
                    "n": n, "rank": 1}
                   for start, all_ in by_start.items() for k, n in all_
                   if n == max(x for _, x in all_))


# Each row says of when it is, so it can be compared with what was then.
UPDATING = HEAD + """
by_k():aggregate({ { "at", s.max "i" }, { "n", s.count() }, { "sum", s.sum "v" },
    { "low", s.count(nil, { where = function(e) return e.v < 50 end }) } },
    { name = "updating" })
  :filter(function(e) return e.n > 0 end)""" + TAIL

FOLDED = HEAD + """
input = input:map(function(e)
  return s.row { { "k", e.k }, { "at", e.i }, { "n", 1 }, { "sum", e.v } }
end)
by_k():reduce(function(a, b)
    return s.row { { "k", a.k }, { "at", math.max(a.at, b.at) },
      { "n", a.n + b.n }, { "sum", a.sum + b.sum } }
  end, { name = "folded" })""" + TAIL
TTL = 3000


def histories(ttl):
    """{(key, i): the state after record i}, {key: its last i}."""
    now, then, last = {}, {}, {}
    for e in records():
        k = e["k"]
        n, total, low, ts = now.get(k, (0, 0, 0, None))
        if ts is not None and ttl is not None and e["ts"] - ts >= ttl:
            n = total = low = 0
        now[k] = (n + 1, total + e["v"], low + (e["v"] < 50), e["ts"])
        then[k, e["i"]] = now[k]
        last[k] = e["i"]
    return then, last


def check_updates(lines, ttl):
    then, last = histories(ttl)
    seen = {}
    for line in lines:
        row = json.loads(line)
        n, total, low, _ = then[row["k"], row["at"]]
        want = {"k": row["k"], "at": row["at"], "n": n, "sum": total}
        if "low" in row:
            want["low"] = low
        assert row == want, (row, want)
        assert (row["k"], row["at"]) not in seen, ("twice", row)
        seen[row["k"], row["at"]] = row
    for at in last.items():
        assert at in seen, ("the last row is missing", at)
    return len(seen)


CLOCK = HEAD + """
by_k():window(s.tumbling("200ms", { clock = "processing" }))
  :aggregate({ n = s.count(), ids = s.sum "i" }, { name = "clock" })
  """ + TAIL


# --- tests ----------------------------------------------------------------------


def disturbed(binary, text, number, backend="lmdb", kills=5):
    """The rows of a job that dies and begins again."""
    rng = random.Random(checkpoint_test.seed * 1000 + number)
    with Folder(binary, text) as f:
        checkpoint_test.disturb(f, rng, kills, "--set", "backend=" + backend)
        return f.rows()


def check(binary, text, want, number, backend="lmdb"):
    calm, _ = checkpoint_test.undisturbed(binary, text, ["out"])
    assert len(want) > 100
    same_rows(calm["out"], want, "undisturbed")
    same_rows(disturbed(binary, text, number, backend), want, "disturbed")


def ranked_records_survive_kills_and_other_widths(binary):
    check(binary, RANKED, ranked(), 1)


def reduced_records_survive_kills(binary):
    check(binary, REDUCED, reduced(), 2)


def reduced_records_in_memory_survive_kills(binary):
    check(binary, REDUCED, reduced(), 3, "memory")


def whole_windows_survive_kills(binary):
    check(binary, WHOLE, whole(), 4)


def count_windows_survive_kills_and_other_widths(binary):
    check(binary, COUNTED, counted(), 5)


def windows_of_window_rows_survive_kills(binary):
    check(binary, HOTTEST, hottest(), 6)


def updates(binary, text, ttl, number, backend="lmdb"):
    if ttl is not None:
        text = text.replace("backend = s.param",
                            'ttl = "%dms", backend = s.param' % ttl)
        assert "ttl" in text
    calm, _ = checkpoint_test.undisturbed(binary, text, ["out"])
    check_updates(calm["out"], ttl)
    check_updates(disturbed(binary, text, number, backend), ttl)


def updating_aggregates_survive_kills(binary):
    updates(binary, UPDATING, None, 7)


def updating_aggregates_with_ttl_survive_kills(binary):
    updates(binary, UPDATING, TTL, 8)


def updating_aggregates_with_ttl_in_memory_survive_kills(binary):
    updates(binary, UPDATING, TTL, 9, "memory")


def updating_reduce_with_ttl_survives_kills(binary):
    updates(binary, FOLDED, TTL, 10)


def processing_time_windows_count_each_record_once(binary):
    rows = [json.loads(x) for x in disturbed(binary, CLOCK, 11)]
    assert sum(r["n"] for r in rows) == COUNT
    assert sum(r["ids"] for r in rows) == COUNT * (COUNT - 1) // 2
    assert all(r["window_end"] - r["window_start"] == 200 for r in rows)
    assert len({r["window_start"] for r in rows}) > 2


def a_stopped_job_goes_on_at_another_width(binary):
    for text, want in ((RANKED, ranked()), (COUNTED, counted())):
        with Folder(binary, text) as f:
            for width in ("2", "4", "1"):
                checkpoint_test.stop_after_a_round(f, "--parallelism", width)
            f.finish("--parallelism", "3")
            same_rows(f.rows(), want, "out")


TESTS = [
    ranked_records_survive_kills_and_other_widths,
    reduced_records_survive_kills,
    reduced_records_in_memory_survive_kills,
    whole_windows_survive_kills,
    count_windows_survive_kills_and_other_widths,
    windows_of_window_rows_survive_kills,
    updating_aggregates_survive_kills,
    updating_aggregates_with_ttl_survive_kills,
    updating_aggregates_with_ttl_in_memory_survive_kills,
    updating_reduce_with_ttl_survives_kills,
    processing_time_windows_count_each_record_once,
    a_stopped_job_goes_on_at_another_width,
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
