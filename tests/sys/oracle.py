"""What a windowed job must put out, computed in plain exact arithmetic.

Shares no code and no method with the engine: every window is computed at the
end from the list of its records, with fractions. Rules and their words:
API.md sections 2 (values, keys), 4 (time, lateness), 5.1, 6, 7 (text).
"""
import json
from fractions import Fraction

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t",
           "\b": "\\b", "\f": "\\f"}


def text(v):
    """The engine's JSON text of a value."""
    if v is None:
        return "null"
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, float):
        return repr(v)
    if isinstance(v, int):
        return str(v)
    if isinstance(v, str):
        return '"' + "".join(
            ESCAPES.get(c) or ("\\u%04x" % ord(c) if ord(c) < 32 else c)
            for c in v) + '"'
    if isinstance(v, list):
        return "[" + ",".join(map(text, v)) + "]"
    return "{" + ",".join(text(k) + ":" + text(x) for k, x in v.items()) + "}"


def canonical(v):
    """A key part as results carry it: 1.0 is 1, -0.0 is 0, sorted names."""
    if isinstance(v, float) and v == int(v):
        return int(v)
    if isinstance(v, list):
        return [canonical(x) for x in v]
    if isinstance(v, dict):
        return {k: canonical(v[k]) for k in sorted(v)}
    return v


class Record:
    def __init__(self, fields, ts, partition, offset, topic):
        self.fields = fields
        self.ts = ts
        self.origin = (topic, partition, offset)
        self.partition = (topic, partition)
        self.watermark = None  # of its partition, before it was read


def with_watermarks(partitions, out_of_orderness):
    """Note in each record the watermark its partition had before it."""
    for records in partitions:
        high = None
        for r in records:
            r.watermark = None if high is None else high - out_of_orderness - 1
            high = r.ts if high is None else max(high, r.ts)


def windows_of(ts, size, slide, offset=0):
    start = (ts - offset) // slide * slide + offset
    while start > ts - size:
        yield start
        start -= slide


# --- aggregates: each takes the records of one key and window ----------------

def values(records, field):
    out = [(r.fields[field], r) for r in records
           if r.fields.get(field) is not None]
    return out


def exact(vals):
    return sum((Fraction(v) for v, _ in vals), Fraction(0))


def rounded(f):
    return f.numerator / f.denominator  # correctly rounded in Python


def agg_count(records, field=None):
    return len(records) if field is None else len(values(records, field))


def agg_sum(records, field):
    vals = values(records, field)
    if not vals:
        return None
    total = exact(vals)
    if all(isinstance(v, int) for v, _ in vals):
        return int(total)
    return rounded(total)


def agg_avg(records, field):
    vals = values(records, field)
    return rounded(exact(vals)) / len(vals) if vals else None


def agg_min(records, field):
    vals = [v for v, _ in values(records, field)]
    return min(vals, key=lambda v: (v, isinstance(v, float))) if vals else None


def agg_max(records, field):
    vals = [v for v, _ in values(records, field)]
    return max(vals, key=lambda v: (v, isinstance(v, int))) if vals else None


def agg_max_by(records, field, what):
    vals = values(records, field)
    if not vals:
        return None
    _, r = min(vals, key=lambda p: (-p[0], p[1].ts, p[1].origin))
    return r.fields.get(what)


def agg_first(records, field):
    vals = values(records, field)
    return min(vals, key=lambda p: (p[1].ts, p[1].origin))[0] if vals else None


def agg_last(records, field):
    vals = values(records, field)
    return max(vals, key=lambda p: (p[1].ts, p[1].origin))[0] if vals else None


def agg_count_distinct(records, field):
    return len({text(canonical(v)) for v, _ in values(records, field)})


def agg_var_pop(records, field):
    vals = values(records, field)
    if not vals:
        return None
    n, total = len(vals), exact(vals)
    squares = sum((Fraction(v) ** 2 for v, _ in vals), Fraction(0))
    return rounded((squares - total * total / n) / n)


# --- the whole job ------------------------------------------------------------

def window_job(partitions, key, aggregates, size, slide, out_of_orderness=0,
               lateness=0):
    """Rows (as text), late records, and the counts of a windowed job.

    partitions: lists of Record in order of reading. key: list of fields.
    aggregates: list of (name, function of the records).
    """
    with_watermarks(partitions, out_of_orderness)
    groups, late = {}, []
    counts = {"late": 0, "late_windows": 0, "null_key": 0}
    for records in partitions:
        for r in records:
            parts = [canonical(r.fields.get(k)) for k in key]
            if any(p is None for p in parts):
                counts["null_key"] += 1
                continue
            starts = list(windows_of(r.ts, size, slide))
            missed = [s for s in starts if r.watermark is not None and
                      r.watermark >= s + size - 1 + lateness]
            if len(missed) == len(starts):
                counts["late"] += 1
                late.append(r)
                continue
            counts["late_windows"] += len(missed)
            for s in starts:
                if s not in missed:
                    groups.setdefault((s, text(parts)), (parts, []))[1].append(
                        r)
    rows = []
    for (start, _), (parts, records) in groups.items():
        row = dict(zip(key, parts))
        row["window_start"] = start
        row["window_end"] = start + size
        for name, function in aggregates:
            row[name] = function(records)
        rows.append(row)
    return rows, late, counts


def read_rows(data):
    """The objects of JSON lines, and whether each is in the engine's text."""
    rows = []
    for line in data.decode().split("\n")[:-1]:
        row = json.loads(line)
        if text(row) != line:
            raise ValueError("not in canonical text: " + line)
        rows.append(row)
    return rows


# --- the generator's draws (API.md section 3) ---------------------------------

MASK = (1 << 64) - 1


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(seed, i, rank):
    """u of record i, field of 0-based rank in byte order of names."""
    return splitmix(splitmix(splitmix(seed) ^ i) ^ rank)
