#!/usr/bin/env python3
"""Jobs over made input against the oracle, for each number of slots, both
strategies, several batch sizes, and shuffled input.

usage: oracle_test.py [--bin PATH] [--seed N]   The seed is printed.
"""
import argparse
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import oracle
import run_cases

RECORDS = 600
TOLERANCE = 1e-12  # of the variance; everything else is exact

JOB = """local s = require "streamlua"
local job = s.job("oracle", {
  agg_phase_strategy = s.param("strategy", "AUTO"),
  mini_batch = { size = s.param("batch", 50000) },
})
local r = job:source("in", s.file { path = "in/*.jsonl" })
   :event_time { field = "ts", out_of_orderness = "%(ooo)dms" }
   :key_by { "k", "d" }
   :window(%(window)s, { late_output = "late" })
   :aggregate {
     { "n", s.count() }, { "nv", s.count "v" }, { "sum", s.sum "v" },
     { "avg", s.avg "v" }, { "min", s.min "v" }, { "max", s.max "v" },
     { "first", s.first "v" }, { "last", s.last "v" },
     { "at_max", s.max_by("v", "i") }, { "users", s.count_distinct "u" },
     { "var", s.var_pop "v" },
   }
r:sink("out", s.stdout())
r:side_output("late"):sink("late", s.stdout())
return job
"""

AGGREGATES = [
    ("n", oracle.agg_count),
    ("nv", functools.partial(oracle.agg_count, field="v")),
    ("sum", functools.partial(oracle.agg_sum, field="v")),
    ("avg", functools.partial(oracle.agg_avg, field="v")),
    ("min", functools.partial(oracle.agg_min, field="v")),
    ("max", functools.partial(oracle.agg_max, field="v")),
    ("first", functools.partial(oracle.agg_first, field="v")),
    ("last", functools.partial(oracle.agg_last, field="v")),
    ("at_max", functools.partial(oracle.agg_max_by, field="v", what="i")),
    ("users", functools.partial(oracle.agg_count_distinct, field="u")),
    ("var", functools.partial(oracle.agg_var_pop, field="v")),
]

# name, window in Lua, size, slide, out_of_orderness, jitter of the input
SHAPES = [
    ("tumbling", 's.tumbling "10s"', 10000, 10000, 2000, 2000),
    ("tumbling, late records", 's.tumbling "5s"', 5000, 5000, 500, 9000),
    ("hopping", 's.hopping("10s", "2500ms")', 10000, 2500, 3000, 3000),
    ("hopping, not a multiple, late records",
     's.hopping("7s", "3s")', 7000, 3000, 200, 12000),
]


def value(rng):
    kind = rng.randrange(10)
    if kind < 5:
        return rng.randrange(-1000, 1000)
    if kind < 7:
        return rng.randrange(-10000, 10000) / 10
    if kind == 7:
        return rng.choice([2**58, -2**58, 2**53 + 1, 10**15])
    if kind == 8:
        return rng.choice([1e16, -1e16, 0.1, 1e-9, 3.0, 3])
    return None


def make_fields(rng, i, ts):
    dims = [("dc", rng.choice(["x", "y"])), ("host", rng.randrange(2))]
    rng.shuffle(dims)
    fields = [("k", rng.choice(["a", "b", 1, 1.0, 7, None])),
              ("d", dict(dims)), ("u", rng.randrange(40)), ("i", i),
              ("ts", ts)]
    v = value(rng)
    if v is not None or rng.random() < 0.5:
        fields.append(("v", v))
    rng.shuffle(fields)
    return dict(fields)


def make_input(rng, jitter):
    """Per partition: lists of fields in order of reading."""
    parts = []
    for _ in range(3):
        base = rng.randrange(-40000, 0)
        rows = []
        for i in range(RECORDS // 3):
            base += rng.randrange(0, 800)
            rows.append(make_fields(rng, i, base - rng.randrange(jitter + 1)))
        parts.append(rows)
    return parts


def write_input(folder, parts):
    """Write the files; return the oracle's records, offsets in bytes."""
    shutil.rmtree(os.path.join(folder, "in"), ignore_errors=True)
    os.mkdir(os.path.join(folder, "in"))
    out = []
    for p, rows in enumerate(parts):
        path = "in/p%d.jsonl" % p
        records, at = [], 0
        with open(os.path.join(folder, path), "wb") as f:
            for fields in rows:
                line = (oracle.text(fields) + "\n").encode()
                records.append(oracle.Record(fields, fields["ts"], 0, at,
                                             path))
                f.write(line)
                at += len(line)
        out.append(records)
    return out


def run(binary, folder, slots, strategy, batch):
    env = run_cases.clean_env({})
    p = subprocess.run(
        [binary, "run", "job.lua", "--slots", str(slots), "--parallelism",
         str(slots), "--set", "strategy=" + strategy, "--set",
         "batch=%d" % batch, "--summary", "summary.json"],
        cwd=folder, capture_output=True, timeout=run_cases.TIMEOUT_S, env=env,
        stdin=subprocess.DEVNULL)
    if p.returncode != 0:
        raise ValueError("exit %d: %s" % (
            p.returncode, p.stderr.decode(errors="replace")[-600:]))
    with open(os.path.join(folder, "summary.json")) as f:
        return p.stdout, json.load(f)


def row_key(row):
    return (row["window_start"], oracle.text([row["k"], row["d"]]))


def difference(got, want):
    """None if rows agree: exact texts, the variance within its tolerance."""
    got, want = sorted(got, key=row_key), sorted(want, key=row_key)
    for g, w in zip(got, want):
        if list(g) != list(w):
            return "members %s, expected %s" % (list(g), list(w))
        for name in w:
            if name == "var" and w[name] is not None and g[name] is not None:
                if abs(g[name] - w[name]) <= TOLERANCE * abs(w[name]):
                    continue
            if oracle.text(g[name]) != oracle.text(w[name]):
                return "%s of %s is %s, expected %s" % (
                    name, row_key(w), oracle.text(g[name]),
                    oracle.text(w[name]))
    if len(got) != len(want):
        return "%d rows, expected %d" % (len(got), len(want))
    return None


def check_once(binary, folder, partitions, shape, settings):
    """Compare one run with the oracle; returns the sorted output."""
    _, _, size, slide, ooo, _ = shape
    stdout, summary = run(binary, folder, *settings)
    rows, late, counts = oracle.window_job(partitions, ["k", "d"], AGGREGATES,
                                           size, slide, ooo)
    lines = stdout.split(b"\n")[:-1]
    results = [x for x in lines if b'"window_start":' in x]
    got = oracle.read_rows(b"".join(x + b"\n" for x in results))
    why = difference(got, rows)
    if why:
        raise ValueError(why)
    got_late = sorted(x.decode() for x in lines
                      if b'"window_start":' not in x)
    if got_late != sorted(oracle.text(r.fields) for r in late):
        raise ValueError("late output differs: %d records, expected %d" %
                         (len(got_late), len(late)))
    step = summary["steps"]["aggregate-1"]
    for name in ("late", "late_windows"):
        if step[name] != counts[name]:
            raise ValueError("%s is %d, expected %d" % (name, step[name],
                                                        counts[name]))
    if step["dropped"].get("null_key", 0) != counts["null_key"]:
        raise ValueError("null_key is %r, expected %d" % (
            step["dropped"].get("null_key"), counts["null_key"]))
    return sorted(results)


def shuffled(rng, parts, bound):
    """The same records in another order that `bound` allows."""
    out = []
    for rows in parts:
        out.append(sorted(rows, key=lambda f: f["ts"] + rng.random() * bound))
    return out


def check_shape(binary, folder, seed, shape):
    name, window, size, slide, ooo, jitter = shape
    rng = random.Random("%d %s" % (seed, name))
    with open(os.path.join(folder, "job.lua"), "w") as f:
        f.write(JOB % {"ooo": ooo, "window": window})
    parts = make_input(rng, jitter)
    partitions = write_input(folder, parts)
    first = None
    for settings in run_cases.matrix(False):
        try:
            lines = check_once(binary, folder, partitions, shape, settings)
        except ValueError as e:
            return "slots=%d strategy=%s batch=%d: %s" % (*settings, e)
        if first is not None and lines != first:
            return "slots=%d strategy=%s batch=%d: other bytes" % settings
        first = lines
    if jitter <= ooo:  # nothing is late: another order, the same rows
        partitions = write_input(folder, shuffled(rng, parts, ooo))
        try:
            check_once(binary, folder, partitions, shape, (2, "AUTO", 7))
        except ValueError as e:
            return "shuffled: %s" % e
    return None


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("--seed", type=int, default=int(time.time()))
    args = ap.parse_args()
    print("seed %d" % args.seed, flush=True)
    binary = os.path.abspath(args.bin)
    failed = 0
    for shape in SHAPES:
        folder = tempfile.mkdtemp(prefix="streamlua-oracle-")
        try:
            why = check_shape(binary, folder, args.seed, shape)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print("%s %s%s" % ("not ok" if why else "ok", shape[0],
                           ": " + why if why else ""), flush=True)
        failed += why is not None
    print("%d passed, %d failed, 0 skipped" % (len(SHAPES) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
