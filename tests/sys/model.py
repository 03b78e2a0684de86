"""What a job of sources, steps and windows must put out: plain lists and
fractions, every window computed at the end from all of its records.

Rules: API.md sections 4 (time, lateness), 5 (steps, keys), 5.1, 6, 7 (text).
"""
import decimal
import math
from fractions import Fraction

import oracle

INT_MAX, INT_MIN = 2**63 - 1, -2**63


class Rec:
    """A record on its way; `wm`: its partition's watermark before it."""

    __slots__ = ("fields", "raw", "ts", "wm", "origin")

    def __init__(self, fields, raw, origin, ts=None, wm=None):
        self.fields, self.raw, self.origin = fields, raw, origin
        self.ts, self.wm = ts, wm

    def same(self, fields, raw):
        return Rec(fields, raw, self.origin, self.ts, self.wm)


class Fails(Exception):
    """A value that is an error of a cause."""


# --- paths, keys -------------------------------------------------------------

def get(fields, path):
    v = fields
    for name in path.split("."):
        if isinstance(v, list) and name.isdigit():
            v = v[int(name) - 1] if 1 <= int(name) <= len(v) else None
        elif isinstance(v, dict):
            v = v.get(name)
        else:
            return None
    return v


def canon(v):
    if isinstance(v, bool) or v is None or isinstance(v, (str, int)):
        return v
    if isinstance(v, float):
        return int(v) if v == math.floor(v) and INT_MIN <= v <= INT_MAX else v
    if isinstance(v, list):
        return [canon(x) for x in v]
    return {k: canon(v[k]) for k in sorted(v, key=lambda s: s.encode())}


RANK = {bool: 1, int: 2, float: 2, str: 3, list: 4, dict: 5}


def order(v):
    """Sort key in the order of keys: null, booleans, numbers, strings, ..."""
    if v is None:
        return (0,)
    r = RANK[type(v)]
    if isinstance(v, str):
        v = v.encode()
    return (r, v)


def same_rank(v):
    """Among equal numbers: the int, then -0.0, then others."""
    if not isinstance(v, float):
        return 0
    return 1 if v == 0 and math.copysign(1, v) < 0 else 2


# --- time ---------------------------------------------------------------------

def to_ms(v, unit):
    if isinstance(v, bool) or v is None:
        raise Fails("timestamp")
    if unit == "rfc3339":
        if not isinstance(v, str):
            raise Fails("timestamp")
        return rfc_ms(v)
    if isinstance(v, int):
        ms = {"s": v * 1000, "ms": v, "us": v // 1000, "ns": v // 10**6}[unit]
    elif isinstance(v, float):
        d = {"s": v * 1000.0, "ms": v, "us": v / 1000.0,
             "ns": v / 1000000.0}[unit]
        ms = math.floor(d)
    else:
        raise Fails("timestamp")
    if not INT_MIN <= ms <= INT_MAX:
        raise Fails("timestamp")
    return ms


def days(y, m, d):
    y -= m <= 2
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (m + (-3 if m > 2 else 9)) + 2) // 5 + d - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


def rfc_ms(t):
    """Only the forms that the generator below makes."""
    try:
        date, rest = t[:10], t[11:]
        zone = 0
        if rest.endswith("Z"):
            rest = rest[:-1]
        elif len(rest) > 6 and rest[-6] in "+-":
            zone = (int(rest[-5:-3]) * 60 + int(rest[-2:])) * 60
            zone = -zone if rest[-6] == "-" else zone
            rest = rest[:-6]
        y, m, d = map(int, date.split("-"))
        if not 1 <= m <= 12:
            raise Fails("timestamp")
        hms, _, frac = rest.partition(".")
        h, mi, s = map(int, hms.split(":"))
        at = Fraction((days(y, m, d) * 86400 + h * 3600 + mi * 60 + s - zone)
                      * 1000)
        if frac:
            at += Fraction(int(frac), 10 ** len(frac)) * 1000
        return math.floor(at)
    except ValueError:
        raise Fails("timestamp")


def rfc_text(ms, rng):
    zone = rng.choice([None, 0, 0, 60, -330, 765])
    digits = rng.choice([3, 3, 6, 9])
    local = ms + (zone or 0) * 60000
    day, rest = divmod(local, 86400000)
    z = day + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    d = doy - (153 * mp + 2) // 5 + 1
    m = mp + (3 if mp < 10 else -9)
    y = yoe + era * 400 + (m <= 2)
    frac = "%03d" % (rest % 1000)
    frac += "".join(rng.choice("0123456789") for _ in range(digits - 3))
    if frac.strip("0") == "" and rng.random() < 0.5:
        frac = ""
    text = "%04d-%02d-%02d%s%02d:%02d:%02d" % (
        y, m, d, rng.choice("T "), rest // 3600000, rest // 60000 % 60,
        rest // 1000 % 60)
    if frac:
        text += "." + frac
    if zone is None:
        return text
    if zone == 0:
        return text + "Z"
    return text + "%s%02d:%02d" % ("-" if zone < 0 else "+",
                                   abs(zone) // 60, abs(zone) % 60)


# --- aggregates: function(list of (args, record), parameters) ----------------

def nums(rows, n=0):
    out = []
    for args, _ in rows:
        if args[n] is not None:
            out.append(args[n])
    return out


def exact(vals):
    return sum((Fraction(v) for v in vals), Fraction(0))


def rounded(f):
    return f.numerator / f.denominator


def a_count(rows, p):
    return len(rows) if not p.get("x") else len(nums(rows))


def a_sum(rows, p):
    vals = nums(rows)
    if not vals:
        return None
    t = exact(vals)
    if p.get("as") == "float" or any(isinstance(v, float) for v in vals):
        return rounded(t)
    t = int(t)
    if INT_MIN <= t <= INT_MAX:
        return t
    how = p.get("overflow", "error")
    if how == "error":
        raise Fails("overflow")
    return float(t) if how == "float" else str(t)


def a_avg(rows, p):
    vals = nums(rows)
    return rounded(exact(vals)) / len(vals) if vals else None


def minus_zero(v):
    return isinstance(v, float) and v == 0 and math.copysign(1, v) < 0


def low(vals):
    """-0.0 below 0 and 0.0; among equals the int."""
    return min(vals, key=lambda v: (order(v), not minus_zero(v),
                                    isinstance(v, float)))


def high(vals):
    return max(vals, key=lambda v: (order(v), not minus_zero(v),
                                    not isinstance(v, float)))


def a_min(rows, p):
    vals = nums(rows)
    return low(vals) if vals else None


def a_max(rows, p):
    vals = nums(rows)
    return high(vals) if vals else None


def what_of(args, p):
    got = args[1:]
    return dict(zip(p["names"], got)) if p["list"] else got[0]


def by(rows, p, sign):
    rows = [(a, r) for a, r in rows if a[0] is not None]
    if not rows:
        return None
    best = (max if sign > 0 else min)(order(a[0]) for a, _ in rows)
    rows = [(a, r) for a, r in rows if order(a[0]) == best]
    a, _ = min(rows, key=lambda x: (x[1].ts, x[1].origin,
                                    [order(canon(v)) if not isinstance(
                                        v, (dict, list)) else order(str(v))
                                     for v in x[0][1:]],
                                    [same_rank(v) for v in x[0][1:]]))
    return what_of(a, p)


def a_min_by(rows, p):
    return by(rows, p, -1)


def a_max_by(rows, p):
    return by(rows, p, 1)


def edge(rows, pick):
    rows = [(a, r) for a, r in rows if a[0] is not None]
    if not rows:
        return None
    return pick(rows, key=lambda x: (x[1].ts, x[1].origin, order(x[0][0]),
                                     same_rank(x[0][0])))[0][0]


def a_first(rows, p):
    return edge(rows, min)


def a_last(rows, p):
    return edge(rows, max)


def variance(rows, samp):
    vals = nums(rows)
    n = len(vals)
    if n == 0 or (samp and n == 1):
        return None
    t, sq = exact(vals), sum((Fraction(v) ** 2 for v in vals), Fraction(0))
    return (sq - t * t / n) / (n - 1 if samp else n)


def near(f, p):
    return None if f is None else Near(rounded(f), 1e-14)


def sqrt(f):
    if f is None:
        return None
    with decimal.localcontext() as c:
        c.prec = 60
        d = (decimal.Decimal(f.numerator) / decimal.Decimal(f.denominator))
        return Near(float(d.sqrt()), 1e-14)


class Near:
    def __init__(self, v, rel):
        self.v, self.rel = v, rel

    def holds(self, g):
        return isinstance(g, float) and abs(g - self.v) <= self.rel * abs(
            self.v)

    def __repr__(self):
        return "~%r" % self.v


def a_var_pop(rows, p):
    return near(variance(rows, False), p)


def a_var_samp(rows, p):
    return near(variance(rows, True), p)


def a_stddev_pop(rows, p):
    return sqrt(variance(rows, False))


def a_stddev_samp(rows, p):
    return sqrt(variance(rows, True))


def a_count_distinct(rows, p):
    return len({oracle.text(canon(v)) for v in nums(rows)})


class NearCount(Near):
    """A whole number within `rel` of v."""

    def holds(self, g):
        return type(g) is int and abs(g - self.v) <= self.rel * self.v


def a_distinct(rows, p):
    n = a_count_distinct(rows, p)
    # Exact to 256 values; beyond, four standard errors of 0.81 %.
    return n if n <= 256 else NearCount(n, 4 * 0.0081)


def rank_of(vals, q):
    n = len(vals)
    k = math.ceil(Fraction(decimal.Decimal(repr(q))) * n
                  - Fraction(1, 10**9))
    v = sorted(vals, key=lambda v: (v, not minus_zero(v)))[max(k, 1) - 1]
    return float(v) if n <= 64 else Near(float(v), p_error)


p_error = 0.0100001


def a_percentile(rows, p):
    vals = nums(rows)
    if p["list"]:
        return None if not vals else [rank_of(vals, q) for q in p["q"]]
    return None if not vals else rank_of(vals, p["q"])


def a_range(rows, p):
    """Custom: largest minus smallest."""
    vals = nums(rows)
    return max(vals) - min(vals) if vals else None


def a_pair(rows, p):
    """Custom over two fields: number of records with both, their dot sum."""
    n = t = 0
    for args, _ in rows:
        if args[0] is not None and args[1] is not None:
            n, t = n + 1, t + args[0] * args[1]
    return {"dot": t, "n": n}


def a_ids(rows, p):
    """Custom without merge over the whole record: sorted ids."""
    out = sorted(args[0] for args, _ in rows if args[0] is not None)
    return out if out else {}


def a_collect(rows, p):
    rows = [(a, r) for a, r in rows if a[0] is not None]
    if len(rows) > p["limit"]:
        raise Fails("overflow")
    rows.sort(key=lambda x: (x[1].ts, x[1].origin, order(canon(x[0][0])),
                             same_rank(x[0][0])))
    return [a[0] for a, _ in rows] or None


FUNCTIONS = {k[2:]: v for k, v in globals().items() if k.startswith("a_")}
NUMERIC = {"sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp",
           "percentile"}


# --- steps --------------------------------------------------------------------

def event_time(parts, path, unit, ooo, counts):
    """Give time and verdict; `parts`: lists in order of reading."""
    out = []
    for part in parts:
        high, kept = None, []
        for r in part:
            counts["records_in"] = counts.get("records_in", 0) + 1
            try:
                ts = to_ms(get(r.fields, path), unit)
            except Fails as e:
                counts[str(e)] = counts.get(str(e), 0) + 1
                continue
            kept.append(Rec(r.fields, r.raw, r.origin, ts,
                            None if high is None else high - ooo - 1))
            high = ts if high is None else max(high, ts)
        out.append(kept)
    counts["records_out"] = sum(map(len, out))
    return out


def starts(ts, size, slide, offset):
    s = (ts - offset) // slide * slide + offset
    while s > ts - size:
        yield s
        s -= slide


def taken(a, r):
    """Whether an aggregate takes a record."""
    where = a[3].get("where")
    return where is None or where(r)


def group(recs, key, spec, lateness, accept):
    """Sort records into windows: [(start, key parts, [what accept gave])],
    late records, counters. accept(record) raises Fails for a bad one."""
    n = {"records_in": len(recs), "late": 0, "late_windows": 0,
         "null_key": 0, "type": 0, "overflow": 0}
    late, groups = [], {}
    for r in recs:
        parts = [f(r.fields) for _, f in key]
        if any(p is None for p in parts):
            n["null_key"] += 1
            continue
        parts = [canon(p) for p in parts]
        at = [None] if spec is None else list(starts(r.ts, *spec))
        missed = [] if spec is None or r.wm is None else [
            s for s in at if r.wm >= s + spec[0] - 1 + lateness]
        if at and len(missed) == len(at):
            n["late"] += 1
            late.append(r)
            continue
        n["late_windows"] += len(missed)
        try:
            one = accept(r)
        except Fails as e:
            n[str(e)] += 1
            continue
        for s in at:
            if s not in missed:
                groups.setdefault((s, oracle.text(parts)), (parts, []))[
                    1].append(one)
    return [(s, *g) for (s, _), g in groups.items()], late, n


def window(recs, key, spec, aggs, lateness=0):
    """key: [(name, function(fields))]; spec: None (global) or (size, slide,
    offset); aggs: [(name, kind, [function(rec)], params)].
    Returns rows (dict), late records, counters."""
    def accept(r):
        args = [[f(r) for f in a[2]] if taken(a, r) else None for a in aggs]
        if any(a is not None and kind in NUMERIC and
               isinstance(a[0], (str, list, dict, bool))
               for (_, kind, _, _), a in zip(aggs, args)):
            raise Fails("type")
        return args, r

    groups, late, n = group(recs, key, spec, lateness, accept)
    rows = []
    for s, parts, members in groups:
        row = {name: p for (name, _), p in zip(key, parts)}
        if s is not None:
            row["window_start"], row["window_end"] = s, s + spec[0]
        try:
            for i, (name, kind, _, p) in enumerate(aggs):
                row[name] = FUNCTIONS[kind](
                    [(a[i], r) for a, r in members if a[i] is not None], p)
        except Fails as e:
            n[str(e)] += 1
            continue
        rows.append(row)
    n["records_out"] = len(rows)
    return rows, late, n


def top_n(recs, key, spec, by, n, desc, ties):
    """Lines of the ranked records, late records, counters."""
    groups, late, c = group(recs, key, spec, 0, lambda r: r)
    lines = []
    for s, _, members in groups:
        members = [r for r in members if by(r) is not None]
        members.sort(key=lambda r: (r.ts, r.origin, r.raw.encode()))
        members.sort(key=lambda r: order(by(r)), reverse=desc)
        rank = 0
        for i, r in enumerate(members):
            if i == 0 or not ties or order(by(r)) != order(by(members[i - 1])):
                rank = i + 1
            if rank > n:
                break
            tail = '"rank":%d}' % rank
            if s is not None:
                tail = '"window_start":%d,"window_end":%d,%s' % (
                    s, s + spec[0], tail)
            lines.append(r.raw[:-1] + "," + tail)
    c["records_out"] = len(lines)
    return lines, late, c


def reduce(recs, key, spec):
    """Lines of reduce by the sum of i: a record alone is itself."""
    groups, late, c = group(recs, key, spec, 0, lambda r: r)
    lines = [m[0].raw if len(m) == 1 else
             '{"i":%d}' % sum(r.fields["i"] for r in m) for _, _, m in groups]
    c["records_out"] = len(lines)
    return lines, late, c


def as_records(rows, step):
    return [Rec(r, None, (step, 0, 0),
                r["window_end"] - 1 if "window_end" in r else INT_MAX - 1)
            for r in rows]


# --- comparison ---------------------------------------------------------------

def same(g, w):
    if isinstance(w, Near):
        return w.holds(g)
    if isinstance(w, list):
        return isinstance(g, list) and len(g) == len(w) and all(
            same(a, b) for a, b in zip(g, w))
    return oracle.text(g) == oracle.text(w)


def row_key(row, names):
    return oracle.text([row.get(n) for n in names])


def differ(got, want, names):
    """None, or what differs; rows paired by their upsert key."""
    names = list(names) + ["window_start", "window_end"]
    g, w = {}, {}
    for r in got:
        k = row_key(r, names)
        if k in g:
            return "two rows for %s" % k
        g[k] = r
    for r in want:
        w[row_key(r, names)] = r
    for k in w:
        if k not in g:
            return "no row for %s; expected %r" % (k, w[k])
    for k in g:
        if k not in w:
            return "unexpected row %r" % (g[k],)
        if list(g[k]) != list(w[k]):
            return "members %s, expected %s" % (list(g[k]), list(w[k]))
        for name in w[k]:
            if not same(g[k][name], w[k][name]):
                return "%s of %s is %r, expected %r" % (
                    name, k, g[k][name], w[k][name])
    return None
