#!/usr/bin/env python3
"""Random jobs over random input, compared with model.py: rows, late records,
the order of rows of a key, and the counters of every step.

usage: random_test.py [--bin PATH] [--seed N] [--time S] [--only N] [--keep]
The seed is printed; with it --only N makes job N again and shows it. Without
one it is always the same; --seed 0 draws another.
"""
import argparse
import glob
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import model
import oracle
import run_cases

KEYS = ["a", "b", "a", 1, 1.0, "1", True, None, [1, 2.0], {"y": 1, "x": [0.0]},
        "\u00e9\n", -0.0, 0, 2**53 + 1, "z" * 40]
STRINGS = ["", "a", "B", "\u00e9", "a\"\\", "zz", "\u0001", "aa"]
BAD_TIMES = [None, "x", True, [], {}, "2024-13-01T00:00:00Z", "nan"]
BAD_VALUES = ["12", True, [1], {}]
BIG = [2**62, -2**62, 2**63 - 1, -2**63, 2**53 + 1]
ODD = [0.0, -0.0, 0, 1.0, 1, 1e16, -1e16, 0.1, 1e-9]
QUANTILES = [0.01, 0.5, 0.9, 0.95, 0.99, 1, 0.07, 0.29, 0.58]

HEAD = """local s = require "streamlua"
local job = s.job("random", { parallelism = %(par)d, on_error = "skip",
  buffer_timeout = %(timeout)d, agg_phase_strategy = "%(strategy)s",
  mini_batch = { size = %(batch)d, allow_latency = %(latency)d,
                 bytes = %(bytes)d } })
local function range(x)
  return s.aggregator { args = { x },
    init = function() return nil end,
    add = function(a, v)
      if v == nil then return a or {} end
      if not a or not a.lo then return { lo = v, hi = v } end
      a.lo, a.hi = math.min(a.lo, v), math.max(a.hi, v)
      return a
    end,
    merge = function(a, b)
      if not a or not a.lo then return b or {} end
      if not b or not b.lo then return a end
      a.lo, a.hi = math.min(a.lo, b.lo), math.max(a.hi, b.hi)
      return a
    end,
    result = function(a) if a and a.lo then return a.hi - a.lo end end }
end
local pair = s.aggregator { args = { "i", "o.q" },
  init = function() return { 0, 0 } end,
  add = function(a, x, y)
    if x and y then a[1], a[2] = a[1] + 1, a[2] + x * y end
    return a
  end,
  merge = function(a, b) a[1], a[2] = a[1] + b[1], a[2] + b[2]; return a end,
  result = function(a) return { n = a[1], dot = a[2] } end }
local ids = s.aggregator {
  init = function() return {} end,
  add = function(a, e) a[#a + 1] = e.i; return a end,
  result = function(a) table.sort(a); return a end }
local function lua_source(name, n, pause)
  local rows = {}
  for p = 0, n - 1 do
    rows[p] = {}
    for line in io.lines(name .. "/p" .. p .. ".jsonl") do
      rows[p][#rows[p] + 1] = line
    end
  end
  return s.source { partitions = n, poll = 1, read = function(pos, max, p)
    pos = pos or { 0, false }
    local at = pos[1]
    if at >= #rows[p] then return nil end
    if pause and not pos[2] then return {}, { at, true } end
    local out = {}
    for i = at + 1, math.min(at + max, #rows[p], at + 37) do
      out[#out + 1] = s.decode("json", rows[p][i])
    end
    return out, { at + #out, false }
  end }
end
"""


def by_name(v):
    """A Lua table's order of writing: byte order at every depth."""
    if isinstance(v, list):
        return [by_name(x) for x in v]
    if isinstance(v, dict):
        return {k: by_name(v[k]) for k in sorted(v)}
    return v


def field(path):
    return lambda r: model.get(r.fields, path)


# The same jobs in every run of the tests, so that what fails there is the
# change at hand; --seed 0 looks for more.
SEED = 20261129

class Input:
    """Random records: their fields, and the files they lie in."""

    def __init__(self, rng):
        self.rng = rng
        self.unit = rng.choice(["ms", "ms", "s", "us", "ns", "rfc3339"])
        self.path = rng.choice(["ts", "ts", "m.at", "l.2"])
        self.span = rng.choice([5000, 60000, 1000000])
        self.base = rng.choice([0, -30000, 1700000000000, 999, -10**12])
        if self.unit == "rfc3339":
            self.base = max(self.base, -30000)
        self.big = rng.random() < 0.6  # values of far magnitudes
        self.bad = rng.random() < 0.4  # wrong times and types
        self.files = {}

    def number(self):
        rng = self.rng
        c = rng.randrange(14)
        if c < 6:
            return rng.randrange(-100, 100)
        if c < 8:
            return rng.randrange(-10**6, 10**6) / 64
        if c == 8:
            return rng.choice(BIG) if self.big else 3
        if c == 9:
            return rng.choice(ODD) if self.big else -0.0
        if c == 10:
            return rng.uniform(-1e6, 1e6)
        return rng.choice([None, 5, 7.25])

    def time(self, ms):
        rng = self.rng
        if self.bad and rng.random() < 0.03:
            return rng.choice(BAD_TIMES)
        if self.unit == "rfc3339":
            return model.rfc_text(ms, rng)
        if self.unit == "ms":
            return ms if rng.random() < 0.9 else ms + 0.75
        if self.unit == "s":
            return ms // 1000 if rng.random() < 0.3 else ms / 1000
        if self.unit == "us":
            return ms * 1000 + rng.randrange(1000)
        return ms * 10**6 + rng.randrange(10**6)

    def fields(self, i, ms):
        rng, t = self.rng, self.time(ms)
        v = self.number()
        if self.bad and rng.random() < 0.03:
            v = rng.choice(BAD_VALUES)
        u = rng.choice([rng.randrange(30), "u%d" % rng.randrange(30), 2.0,
                        None])
        f = [("k", rng.choice(KEYS)), ("u", u), ("i", i),
             ("s", rng.choice(STRINGS)), ("v", v),
             ("o", {"q": rng.randrange(20), "r": rng.choice([None, "x"])})]
        f.append({"ts": ("ts", t), "m.at": ("m", {"at": t}),
                  "l.2": ("l", [0, t])}[self.path])
        if rng.random() < 0.3:
            del f[rng.randrange(2)]
        rng.shuffle(f)
        return dict(f)

    def partition(self, name, kind, p):
        rng = self.rng
        n = rng.choice([0, 1, 20, 150, 400])
        jitter = rng.choice([0, 500, 5000, self.span])
        at = self.base + rng.randrange(-self.span // 4, self.span)
        path = "%s/p%d.jsonl" % (name, p)
        rows, offset, text = [], 0, []
        for i in range(n):
            at += rng.randrange(max(2, 2 * self.span // n))
            if rng.random() < 0.004:
                at += self.span * 50
            f = self.fields(i, at - rng.randrange(jitter + 1))
            f = by_name(f) if kind == "lua" else f
            raw = oracle.text(f)
            origin = {"file": (path, 0, offset), "stdin": ("stdin", 0, offset),
                      "lua": (name, p, i)}[kind]
            rows.append(model.Rec(f, raw, origin))
            text.append(raw + "\n")
            offset += len(text[-1].encode())
        self.files[path] = "".join(text)
        return rows


class Job:
    """A random job, and what the model says of it."""

    def __init__(self, seed, number):
        rng = self.rng = random.Random("%d/%d" % (seed, number))
        self.input = Input(rng)
        self.lua, self.steps, self.kinds = [], {}, {}
        self.sinks, self.lates, self.lines = [], [], []
        self.strategy = rng.choice(["AUTO", "AUTO", "ONE_PHASE", "TWO_PHASE"])
        self.par, self.slots = rng.randrange(1, 5), rng.randrange(1, 5)
        stream, recs = self.source(1)
        if rng.random() < 0.25:
            other, more = self.source(2)
            self.lua.append("local both = %s:union(%s)" % (stream, other))
            stream, recs = "both", recs + more
        elif rng.random() < 0.05:
            self.lua.append("local both = %s:union(%s)" % (stream, stream))
            stream, recs = "both", recs + recs
        for _ in range(rng.choice([1, 1, 2, 3])):
            self.aggregate(stream, recs, 2)

    def text(self):
        rng = self.rng
        head = HEAD % {"par": self.par, "strategy": self.strategy,
                       "batch": rng.choice([1, 3, 50, 50000]),
                       "latency": rng.choice([1, 5, 1000]),
                       "bytes": rng.choice([1, 4096, 32 << 20]),
                       "timeout": rng.choice([0, 1, 100])}
        return head + "\n".join(self.lua) + "\nreturn job\n"

    def number(self, kind):
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return self.kinds[kind]

    def counts(self, step, **c):
        self.steps.setdefault(step, {}).update(c)

    # --- up to event_time, and steps without keys ---------------------------

    def source(self, index):
        rng, name, s = self.rng, "in%d" % index, "s%d" % index
        kind = rng.choice(["file", "file", "lua", "stdin"])
        if kind == "stdin" and "stdin" in self.input.files:
            kind = "file"
        n = 1 if kind == "stdin" else rng.randrange(1, 5)
        parts = [self.input.partition(name, kind, p) for p in range(n)]
        spec = 's.file { path = "%s/*.jsonl" }' % name
        if kind == "stdin":
            spec = "s.stdin()"
            self.input.files["stdin"] = self.input.files[name + "/p0.jsonl"]
        elif kind == "lua":
            spec = 'lua_source("%s", %d, %s)' % (
                name, n, rng.choice(["true", "false"]))
        self.lua.append('local %s = job:source("%s", %s%s)' % (
            s, name, spec, rng.choice(["", ", { parallelism = %d }" %
                                       rng.randrange(1, 4)])))
        total = sum(map(len, parts))
        self.counts(name, records_in=total, records_out=total)
        for _ in range(rng.choice([0, 0, 1, 2])):
            parts = self.stateless(s, parts)
        parts = self.event_time(s, parts)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            parts = self.stateless(s, parts, True)
        if rng.random() < 0.25:
            self.lua.append("%s = %s:rebalance()" % (s, s))
            if rng.random() < 0.6:
                parts = self.stateless(s, parts, True)
        return s, [r for p in parts for r in p]

    def event_time(self, s, parts):
        ooo, c, i = self.rng.choice([0, 1, 500, 5000]), {}, self.input
        self.lua.append('%s = %s:event_time { field = "%s", unit = "%s", '
                        'out_of_orderness = %d, idle = false }' % (
                            s, s, i.path, i.unit, ooo))
        parts = model.event_time(parts, i.path, i.unit, ooo, c)
        bad = c.get("timestamp", 0)
        self.counts("event_time-%d" % self.number("event_time"),
                    records_in=c.get("records_in", 0),
                    records_out=c["records_out"],
                    **{"dropped/timestamp": bad, "errors/timestamp": bad})
        return parts

    def step_options(self, anywhere):
        """Where a step runs; `anywhere`: its parallelism may be its own."""
        rng, o = self.rng, []
        if rng.random() < 0.3:
            o.append('chaining = "%s"' % rng.choice(["head", "never"]))
        if rng.random() < 0.2 and self.slots < 4:  # else slots are given
            o.append('slot_sharing_group = "g%d"' % rng.randrange(2))
        if anywhere and rng.random() < 0.3:
            o.append("parallelism = %d" % rng.randrange(1, 5))
        return ", { %s }" % ", ".join(o) if o else ""

    def stateless(self, s, parts, anywhere=False):
        rng = self.rng
        kind = rng.choice(["filter", "flat_map", "map", "select"])
        n = self.number(kind)
        o = self.step_options(anywhere)
        if kind == "filter":
            k = rng.randrange(2, 6)
            code = "function(e) return e.i %% %d ~= 1 end" % k
            step = lambda r: [r] if r.fields["i"] % k != 1 else []
        elif kind == "map":
            code = "function(e) e.z%d = e.i * 3; return e end" % n
            step = lambda r: [with_field(r, "z%d" % n, r.fields["i"] * 3)]
        elif kind == "select":
            names = ["k", "u", "i", "s", "v", "o",
                     self.input.path.split(".")[0]]
            rng.shuffle(names)
            code = "{ %s }" % ", ".join('"%s"' % x for x in names)
            step = lambda r: [projected(r, names)]
        else:
            code = ("function(e, emit)\n  if e.i % 3 == 2 then return end\n"
                    "  emit(e)\n  if e.i % 4 == 0 then e.i = e.i + 1; "
                    "emit(e) end\nend")
            step = doubled
        self.lua.append("%s = %s:%s(%s%s)" % (s, s, kind, code, o))
        out = [[x for r in p for x in step(r)] for p in parts]
        self.counts("%s-%d" % (kind, n), records_in=sum(map(len, parts)),
                    records_out=sum(map(len, out)))
        return out

    # --- keys, windows, aggregates ------------------------------------------

    def key(self, rows_of):
        """Lua text of the key, [(name, function of the fields)]."""
        rng = self.rng
        on_null = rng.choice(["", ', { on_null = "skip" }'])
        one = lambda p: lambda f: model.get(f, p)
        if rows_of is not None:  # rows of a window
            names = [n for n in rows_of if rng.random() < 0.7]
            rng.shuffle(names)
            if rng.random() < 0.3 and "n0" not in names:
                names.append("n0")
            return ("{ %s }" % ", ".join('"%s"' % n for n in names) + on_null,
                    [(n, one(n)) for n in names])
        text, parts = rng.choice([
            ("{}", []), ('"k"', [("k", one("k"))]),
            ('"o.q"', [("q", one("o.q"))]),
            ("function(e) return e.k end", [("key", one("k"))]),
            ('{ b = "u", a = "k", "s" }',
             [("s", one("s")), ("a", one("k")), ("b", one("u"))]),
            ('{ { "g", function(e) return e.i % 5 end }, "k" }',
             [("g", lambda f: f["i"] % 5), ("k", one("k"))]),
            ('{ "o", "k" }', [("o", one("o")), ("k", one("k"))])])
        return text + on_null, parts

    def window(self):
        """Lua text and (size, slide, offset), None for global."""
        rng = self.rng
        c = rng.randrange(10)
        if c == 0:
            return "s.global()", None
        unit = rng.choice([1, 7, 100, 1000])
        size = rng.randrange(1, max(2, self.input.span // unit // 3)) * unit
        off = rng.choice([0, 0, 1, -1, size // 3, -size * 3 - 5, 3600000])
        o = ", { offset = %d }" % off if off else ""
        if c < 5:
            return "s.tumbling(%d%s)" % (size, o), (size, size, off)
        slide = size // rng.choice([1, 2, 3, 4, 7, 12, 40])
        slide = min(size, max(1, slide + rng.choice([0, 0, 1, -1])))
        return "s.hopping(%d, %d%s)" % (size, slide, o), (size, slide, off)

    def one_aggregate(self, kind, after_window):
        """(Lua text, kind, functions of a record, parameters), or None."""
        rng = self.rng
        x = rng.choice(["n0", "x"] if after_window else ["v", "i"])
        p = {"x": x}
        call = lambda x, o="": ('s.%s("%s"%s)' % (kind, x, o), kind,
                                [field(x)], p)
        if kind == "sum":
            p["overflow"] = rng.choice(["error", "float", "string"])
            if self.updating and p["overflow"] == "error":
                # A row that is lost leaves an earlier one of its window, if
                # there was one: that depends on timing.
                p["overflow"] = "string"
            o = ', { overflow = "%s"' % p["overflow"]
            if rng.random() < 0.3:
                p["as"], o = "float", o + ', as = "float"'
            return call(x, o + " }")
        if kind in ("count", "avg"):
            return call(x)
        if kind == "range":
            x = "n0" if after_window else "i"
            return 'range("%s")' % x, kind, [field(x)], p
        if after_window and kind not in ("min", "max", "first", "last",
                                         "count_distinct", "distinct",
                                         "collect"):
            return None
        return self.of_records(kind, p, x, call, after_window)

    def of_records(self, kind, p, x, call, after_window):
        rng, big = self.rng, self.input.big
        if kind.startswith(("var_", "stddev_", "percentile")) and big:
            x = "i"
        if kind in ("min", "max") and not after_window and (
                self.input.bad or rng.random() < 0.3):
            x = rng.choice(["s", "i"])  # never mixed: order would matter
        if kind in ("first", "last") and not after_window:
            x = rng.choice(["s", "i", "u"])
        if kind in ("count_distinct", "distinct") and not after_window:
            x = rng.choice(["s", "i", "u", "o", "k"])
        if kind == "percentile":
            q = p["q"] = [rng.choice(QUANTILES) for _ in range(3)]
            p["list"] = rng.random() < 0.5
            if not p["list"]:
                p["q"] = q[0]
                return call(x, ", %r" % q[0])
            return call(x, ", { %s }" % ", ".join(map(repr, q)))
        if kind == "collect":
            p["limit"] = rng.choice([1000000, 1000000, 5])
            if self.updating:  # see overflow of sum
                p["limit"] = 1000000
            x = x if after_window else rng.choice(["s", "i", "u"])
            return call(x, ", { limit = %d }" % p["limit"])
        if kind in ("min_by", "max_by"):
            x = rng.choice(["s", "i", "o.q"])
            p["names"] = rng.sample(["i", "s", "v", "u"], rng.randrange(1, 4))
            p["list"] = len(p["names"]) > 1 or rng.random() < 0.3
            what = ", ".join('"%s"' % w for w in p["names"])
            text = call(x, ", { %s }" % what if p["list"] else ", " + what)
            return (*text[:2], [field(w) for w in [x] + p["names"]], p)
        if kind == "pair":
            return "pair", kind, [field("i"), field("o.q")], p
        if kind == "ids":
            if self.strategy == "TWO_PHASE":
                return None
            return "ids", kind, [field("i")], p
        if kind == "function":
            return ("s.max(function(e) return e.i > 3 and e.i * 0.5 or nil "
                    "end)", "max", [lambda r: r.fields["i"] * 0.5
                                    if r.fields["i"] > 3 else None], p)
        return call(x)

    def with_where(self, a, after_window):
        """The aggregate for some records only."""
        text, kind, args, p = a
        if not text.startswith("s."):
            return a  # custom ones have no such option
        name, k = ("n0" if after_window else "i"), self.rng.randrange(2, 5)
        where = "where = function(e) return e.%s %% %d ~= 0 end }" % (name, k)
        if text.endswith(" })") and "=" in text and "function" not in text:
            text = text[:-3] + ", " + where + ")"
        else:
            text = text[:-1] + ", { " + where + ")"
        p = dict(p, where=lambda r: r.fields[name] % k != 0)
        return text, kind, args, p

    def aggregates(self, after_window):
        rng = self.rng
        out = [("c0" if after_window else "n0", "s.count()", "count", [], {})]
        pool = sorted(model.FUNCTIONS) + ["function"]
        rng.shuffle(pool)
        for kind in pool[:rng.randrange(1, 9)]:
            a = self.one_aggregate(kind, after_window)
            if a is not None and rng.random() < 0.25:
                a = self.with_where(a, after_window)
            if a is not None:
                out.append(("%s%d" % (kind, len(out)), *a))
        if rng.random() < 0.7:
            text = ", ".join('{ "%s", %s }' % a[:2] for a in out)
        else:
            out.sort(key=lambda a: a[0])
            text = ", ".join("%s = %s" % a[:2] for a in out)
        return "{ %s }" % text, [(a[0], *a[2:]) for a in out]

    def whole_records(self, s, recs):
        """top_n and reduce: lines, as records stand in them."""
        rng = self.rng
        key_text, key = self.key(None)
        w_text, spec = self.window()
        if rng.random() < 0.6:
            by, n = rng.choice(["i", "o.q", "s", "u"]), rng.choice([1, 2, 5, 40])
            if by == "u":  # numbers and strings: one of them
                by = "i"
            desc, ties = rng.random() < 0.6, rng.random() < 0.5
            kind, call = "top_n", '{ n = %d, by = "%s", order = "%s", ties = %s }' % (
                n, by, "desc" if desc else "asc", str(ties).lower())
            lines, late, c = model.top_n(recs, key, spec, field(by), n, desc,
                                         ties)
        else:
            kind = "reduce"
            call = "function(a, b) return { i = a.i + b.i } end"
            lines, late, c = model.reduce(recs, key, spec)
        k = self.number(kind)
        name = "%s-out-%d" % (kind, k)
        self.lua.append(
            'local w_%s_%d = %s:key_by(%s):window(%s, { late_output = "late" })'
            ":%s(%s)" % (kind, k, s, key_text, w_text, kind, call))
        self.sink("w_%s_%d" % (kind, k), name)
        self.lines.append((name, sorted(lines)))
        self.sink('w_%s_%d:side_output("late")' % (kind, k), name + "-late")
        self.lines.append((name + "-late", sorted(x.raw for x in late)))
        self.expect("%s-%d" % (kind, k), c, 0, True)

    def aggregate(self, s, recs, depth, rows_of=None):
        rng = self.rng
        if rows_of is None and rng.random() < 0.3:
            self.whole_records(s, recs)
        key_text, key = self.key(rows_of)
        w_text, spec = self.window()
        lateness = rng.choice([0, 0, 0, 1, 500, self.input.span // 3])
        late_out = rng.random() < 0.5
        if rows_of is None and rng.random() < 0.2:
            return self.updating_aggregate(s, recs, key_text, key)
        self.updating = lateness > 0
        a_text, aggs = self.aggregates(rows_of is not None)
        n = self.number("aggregate")
        self.lua.append(
            "local r%d = %s:key_by(%s)\n   :window(%s, { lateness = %d%s })\n"
            "   :aggregate(%s%s)" % (
                n, s, key_text, w_text, lateness,
                ', late_output = "late"' if late_out else "", a_text,
                ", { parallelism = %d }" % rng.randrange(1, 5)
                if key and rng.random() < 0.3 else ""))
        rows, late, c = model.window(recs, key, spec, aggs,
                                     lateness if spec else 0)
        names = [k for k, _ in key]
        self.sink("r%d" % n, "out%d" % n)
        self.sinks.append(("out%d" % n, names, rows, lateness == 0))
        self.expect("aggregate-%d" % n, c, lateness, late_out)
        if late_out:
            self.sink('r%d:side_output("late")' % n, "late%d" % n)
            self.lates.append(("late%d" % n, sorted(x.raw for x in late)))
        if depth > 1 and spec and lateness == 0 and rng.random() < 0.5:
            self.aggregate("r%d" % n, model.as_records(
                rows, "aggregate-%d" % n), depth - 1, names)

    def updating_aggregate(self, s, recs, key_text, key):
        self.updating = True
        a_text, aggs = self.aggregates(False)
        n = self.number("aggregate")
        self.lua.append("local r%d = %s:key_by(%s):aggregate(%s)" % (
            n, s, key_text, a_text))
        rows, _, c = model.window(recs, key, None, aggs)
        self.sink("r%d" % n, "out%d" % n)
        self.sinks.append(("out%d" % n, [k for k, _ in key], rows, False))
        self.expect("aggregate-%d" % n, c, 1, False)

    def sink(self, stream, name):
        self.lua.append('%s:sink("%s", s.file { path = "%s" })' % (
            stream, name, name))

    def expect(self, step, c, lateness, late_out):
        self.counts(step, **{
            "records_in": c["records_in"], "late": c["late"],
            "dropped/null_key": c["null_key"],
            "dropped/late": 0 if late_out else c["late"],
            "dropped/type": c["type"], "errors/type": c["type"]})
        if c["type"] == 0:
            self.counts(step, late_windows=c["late_windows"])
        if lateness == 0:  # else the number of rows depends on timing
            self.counts(step, records_out=c["records_out"], **{
                "errors/overflow": c["overflow"]})


def with_field(r, name, v):
    f = dict(r.fields)
    f[name] = v
    return r.same(f, oracle.text(f))


def projected(r, names):
    f = {n: r.fields[n] for n in names if n in r.fields}
    return r.same(f, oracle.text(f))


def doubled(r):
    i = r.fields["i"]
    if i % 3 == 2:
        return []
    return [r, with_field(r, "i", i + 1)] if i % 4 == 0 else [r]


# --- running and comparing ----------------------------------------------------

def read_lines(folder, name):
    lines = []
    for path in sorted(glob.glob(os.path.join(folder, name, "part-*"))):
        with open(path, "rb") as f:
            lines += f.read().decode().split("\n")[:-1]
    return lines


def last_rows(rows, names):
    last = {}
    for r in rows:
        last[model.row_key(r, names + ["window_start", "window_end"])] = r
    return list(last.values())


def out_of_order(rows, names):
    seen = {}
    for r in rows:
        k, at = model.row_key(r, names), r.get("window_end", 0)
        if seen.get(k, at) > at:
            return "rows of %s are out of order at %d" % (k, at)
        seen[k] = at
    return None


def check_sink(folder, summary, name, keys, want, append):
    lines = read_lines(folder, name)
    got = oracle.read_rows("".join(x + "\n" for x in lines).encode())
    if summary["steps"][name]["records_in"] != len(got):
        return "%d rows, but records_in %r" % (
            len(got), summary["steps"][name]["records_in"])
    if append:
        return out_of_order(got, keys) or model.differ(got, want, keys)
    return model.differ(last_rows(got, keys), want, keys)


def check(job, folder, summary):
    for name, *rest in job.sinks:
        why = check_sink(folder, summary, name, *rest)
        if why:
            return "%s: %s" % (name, why)
    for name, want in job.lates + job.lines:
        got = sorted(read_lines(folder, name))
        if got != want:
            extra = [x for x in got if x not in want]
            lack = [x for x in want if x not in got]
            return "%s: %d records, expected %d; too many: %s missing: %s" % (
                name, len(got), len(want), extra[:2], lack[:2])
    for step, c in job.steps.items():
        for path, want in c.items():
            got = run_cases.walk(summary["steps"].get(step), path) or 0
            if got != want:
                return "%s %s is %r, expected %r" % (step, path, got, want)
    if summary["watermark"] != model.INT_MAX:
        return "the watermark ends at %r" % summary["watermark"]
    return None


def run_in(folder, binary, job, text):
    """Run the job and compare; None, or what is wrong."""
    for name, data in [("job.lua", text), *job.input.files.items()]:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(data)
    cmd = [binary, "run", "job.lua", "--unsafe", "--summary", "summary.json"]
    if job.slots >= 4:  # never below the slots needed
        cmd += ["--slots", str(job.slots)]
    try:
        p = subprocess.run(cmd, cwd=folder, capture_output=True,
                           input=job.input.files.get("stdin", "").encode(),
                           timeout=run_cases.TIMEOUT_S,
                           env=run_cases.clean_env({}))
    except subprocess.TimeoutExpired:
        return "no end after %d s" % run_cases.TIMEOUT_S
    err = p.stderr.decode(errors="replace")
    if p.returncode != 0 or "Sanitizer" in err:
        return "exit %d: %s" % (p.returncode, err[-3000:])
    with open(os.path.join(folder, "summary.json")) as f:
        summary = json.load(f)
    try:
        return check(job, folder, summary)
    except ValueError as e:
        return str(e)


def hold(binary, seed, number, keep):
    job = Job(seed, number)
    text = job.text()
    folder = tempfile.mkdtemp(prefix="streamlua-random-")
    why = "?"
    try:
        why = run_in(folder, binary, job, text)
    finally:
        if why and keep:
            print("kept in %s" % folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return why, text


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("--seed", type=int, default=SEED,
                    help="0: another one each time")
    ap.add_argument("--time", type=float, default=40, help="seconds")
    ap.add_argument("--only", type=int, help="number of one job")
    ap.add_argument("--keep", action="store_true")
    args = ap.parse_args()
    args.seed = args.seed or int(time.time())
    print("seed %d" % args.seed, flush=True)
    binary = os.path.abspath(args.bin)
    end = time.monotonic() + args.time
    done = failed = 0
    for number in [args.only] if args.only is not None else itertools.count():
        why, text = hold(binary, args.seed, number, args.keep)
        done += 1
        if why:
            failed += 1
            print("not ok job %d: %s" % (number, why[:2000]), flush=True)
        if args.only is not None:
            print(text)
        if failed == 3 or time.monotonic() > end:
            break
    print("%d passed, %d failed, 0 skipped" % (done - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
