"""What the tests of reloads share: a job whose versions stamp their rows, the
rounds as the broker has them, and what must be in them.

Each row tells the version (`v`, in the file) and the parameter (`m`, by --set)
that made it. Which round a row belongs to is read from the broker's own log
files: all rows of a round are in one transaction with its marker, and a
transaction is a producer id with its epoch. Which version a round must be of
is read from what the job said: `reload N accepted at checkpoint M`.
"""
import bisect
import collections
import glob
import json
import os
import re
import struct
import subprocess

import eo_kit
import kit
from eo_kit import EoJob, Live
from kit import check, until

WINDOW_MS, BUCKET_MS, KEYS = 1000, 500, 24
OUTS = ("raw", "sums", "rows", "timed", "extra")

HEAD = """local s = require "streamlua"
local V, M, EXTRA = %(v)s, s.param("mark", 0), s.param("extra")
local job = s.job(s.param("name"), {
  checkpoint = { interval = s.param("interval", "300ms") },
  max_parallelism = 16, state = { backend = s.param("backend", "lmdb") },
  restart = { initial_backoff = "100ms", max_backoff = "1s" },
})
local function to(topic)
  return s.kafka { topic = topic, delivery = "exactly_once" }
end
local function stamp(e)
  e.v, e.m = V, M
  return e
end
"""
BODY = """local rows = job:source("in", s.kafka { topic = s.param("from"),
    start = "earliest" })
  %(before)s:event_time { field = "ts", idle = false }%(behind)s
rows:map(function(e) %(body)s return { i = e.i, v = V, m = M } end)
  :sink("raw", to(s.param "raw"))
rows:key_by "k":window(s.tumbling "1s")
  :aggregate({ n = s.count(), total = s.sum "i"%(aggs)s }, { name = "win" })
  :map(stamp):sink("sums", to(s.param "sums"))
local memory = rows:key_by "k":process {
  name = "memory", outputs = { "timed" },
  state = { n = s.value_state(), open = s.map_state() },
  on_record = function(e, ctx)
    local n = (ctx.state.n:get() or 0) + 1
    ctx.state.n:set(n)
    local at = (e.ts // %(bucket)d + 1) * %(bucket)d
    ctx.state.open:put(at, (ctx.state.open:get(at) or 0) + 1)
    ctx:register_event_timer(at)
    ctx:emit(stamp { i = e.i, n = n })
  end,
  on_timer = function(ts, ctx)
    ctx:emit_to("timed", stamp { k = ctx:key(), at = ts,
                                 n = ctx.state.open:get(ts) or 0 })
    ctx.state.open:remove(ts)
  end,
}
memory:sink("rows", to(s.param "rows"))
memory:side_output "timed":sink("timed", to(s.param "timed"))
"""
EXTRA = """rows:map(function(e) return { i = e.i, v = V, m = M } end)
  :sink("extra", to(EXTRA))
"""
# Steps without state that come and go with versions.
BEFORE = ("", ":filter(function(e) return e.i >= 0 end)\n  ",
          ':map(function(e) return e end, { name = "same" })\n  ')
BEHIND = ("", '\n  :filter(function(e) return e.k >= 0 end, { name = "all" })',
          "", "\n  :flat_map(function(e, emit) emit(e) end)")


def text_of(v, body="", aggs="", more=""):
    """The job file of a version."""
    n = v if isinstance(v, int) else 0
    return HEAD % {"v": v} + BODY % {
        "before": BEFORE[n % len(BEFORE)], "behind": BEHIND[n % len(BEHIND)],
        "body": body, "aggs": aggs, "bucket": BUCKET_MS} + \
        (EXTRA if has_extra(n) else "") + more + "return job\n"


def has_extra(v):
    return v % 3 == 1


def record(i):
    """Keys of a partition (i % 4) are in that partition only."""
    return {"ts": i * eo_kit.STEP_MS, "i": i,
            "k": i % 4 + i * 7919 // 4 % (KEYS // 4) * 4}


# --- what must come out ------------------------------------------------------

def wanted(records):
    """By output the rows, without stamps, of all records."""
    sums = collections.defaultdict(lambda: [0, 0])
    seen, buckets = collections.Counter(), collections.Counter()
    out = {name: [] for name in OUTS}
    for r in records:
        start = r["ts"] // WINDOW_MS * WINDOW_MS
        cell = sums[start, r["k"]]
        cell[0] += 1
        cell[1] += r["i"]
        seen[r["k"]] += 1
        out["raw"].append({"i": r["i"]})
        out["rows"].append({"i": r["i"], "n": seen[r["k"]]})
        buckets[r["k"], (r["ts"] // BUCKET_MS + 1) * BUCKET_MS] += 1
    out["timed"] = [{"k": k, "at": at, "n": n}
                    for (k, at), n in buckets.items()]
    out["sums"] = [{"k": k, "window_start": w, "window_end": w + WINDOW_MS,
                    "n": n, "total": t} for (w, k), (n, t) in sums.items()]
    return out


def line(fields, names=None):
    return json.dumps({k: v for k, v in fields.items()
                       if names is None or k in names}, sort_keys=True)


# --- rounds, as the broker has them ------------------------------------------

def batches(topic, partition):
    """(first offset, producer id, epoch) of each batch of data in the log."""
    out = []
    where = os.path.join(kit.BROKER_DIR, "data",
                         "%s-%d" % (topic, partition), "*.log")
    for name in sorted(glob.glob(where)):
        with open(name, "rb") as f:
            data = f.read()
        at = 0
        while at + 61 <= len(data):
            first, length = struct.unpack_from(">qi", data, at)
            if length <= 0:
                break  # room that is not written yet
            attributes, = struct.unpack_from(">h", data, at + 21)
            if not attributes & 0x20:  # no control record
                out.append((first, *struct.unpack_from(">qh", data, at + 43)))
            at += 12 + length
    return out


class Transactions:
    """Of a topic: which transaction made the record at an offset."""

    def __init__(self, topic):
        self.topic, self.parts = topic, {}

    def of(self, row):
        if row.partition not in self.parts:
            self.parts[row.partition] = batches(self.topic, row.partition)
        have = self.parts[row.partition]
        at = bisect.bisect_right(have, (row.offset, 1 << 62, 0)) - 1
        return have[at][1:]


def usage(job):
    """(resident bytes, connections, other descriptors, threads) of it."""
    proc = "/proc/%d/" % job.p.pid
    fds = []
    for fd in os.listdir(proc + "fd"):
        try:
            fds.append(os.readlink(proc + "fd/" + fd))
        except FileNotFoundError:  # closed meanwhile
            continue
    sockets = sum(name.startswith("socket:") for name in fds)
    return (job.rss(), sockets, len(fds) - sockets,
            len(os.listdir(proc + "task")))


# --- the job -----------------------------------------------------------------

class Input(Live):
    """Records that come while a job runs."""

    def __init__(self, rate):
        super().__init__(rate, record)

    def end(self):
        return wanted(self.stop())


class Try:
    """A version that was brought in, at a start or by a reload."""

    def __init__(self, v, mark, at_start):
        self.stamp, self.at_start = (v, mark), at_start
        # The round from which on rows are of it; or it is known to be below
        # `most` (None: it never was).
        self.first = self.most = None


class ReloadJob(EoJob):
    """A job that is changed while it runs; knows what it was told."""

    goes_back = False  # an older version comes again
    has_extra = staticmethod(has_extra)

    def __init__(self, rate=1500, **more):
        self.v = self.mark = 0
        self.text = text_of(0)
        self.outs = {name: kit.topic("reload-" + name, 2) for name in OUTS}
        self.history = []  # by run: its attempts, and how its log is named
        super().__init__(0, live=Input(rate), **more)
        self.data_dir = os.path.join(self.folder, "streamlua-data")

    def topics(self):
        return dict(self.outs, **{"from": self.input})

    def write(self, text, name="job.lua"):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def begin(self, *flags, change=False, text=None, **more):
        """Start it, with the next version if it is to change."""
        self.mark += 1
        if change:
            self.v += 1
            self.write(text or text_of(self.v))
        self.start(*flags, mark=self.mark, **more)
        self.history.append((self.err_path, [Try(self.v, self.mark, True)]))
        return self

    def finish(self, *flags, **more):
        """End the input and run it to its end."""
        self.want = self.live.end()
        self.begin("--bounded", *flags, **more)
        code = self.ends()
        check(code == 0, "the last run ended with %d:\n%s" % (
            code, self.stderr()[-3000:]))

    def until_running(self):
        """Wait until nothing of a start is under way, nor of a reload."""
        self.opened()
        until(self.is_at_rest, "nothing is under way", 60, job=self)

    def attempts(self):
        return self.history[-1][1]

    def is_at_rest(self):
        said = self.stderr()
        begun = len(re.findall(r"reload \d+(?: \(rollback\))?: loading", said))
        at_start = len(re.findall(r"reload \d+ at start", said))
        over = len(re.findall(r"reload \d+ (?:accepted|refused|rolled)", said))
        return begun == len(self.attempts()) - 1 and over == begun + at_start

    def hup(self, text=None):
        """The next version by signal; it has the parameters of the last."""
        self.v += 1
        self.write(text or text_of(self.v))
        self.attempts().append(
            Try(self.v, self.attempts()[-1].stamp[1], False))
        self.signal(1)

    def reload(self, *words, change=True, mark=True):
        """The next version by `reload`; @return the process that asks."""
        last = self.attempts()[-1].stamp
        if mark:
            self.mark += 1
            words += ("--set", "mark=%d" % self.mark)
        if change:
            self.v += 1
            self.write(text_of(self.v))
        self.attempts().append(Try(self.v if change else last[0],
                                   self.mark if mark else last[1], False))
        return self.ask_verb("reload", self.name, *words)

    def ask_verb(self, *words):
        return subprocess.Popen(
            [self.binary, *map(str, words)], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=kit.clean_env())

    def says_within(self, pattern, wait_s=60):
        return until(lambda: self.says(pattern), pattern, wait_s, job=self)

    # --- which round is of which version -------------------------------------

    def takeovers(self):
        """All attempts in order, with what the logs say of each."""
        tries = []
        for n, (path, attempts) in enumerate(self.history):
            with open(path, errors="replace") as f:
                said = f.read()
            going = re.search(r"goes on from checkpoint (\d+)", said)
            if going is None and n > 0:
                continue  # killed before it had begun
            came_from = int(going.group(1)) if going else 0
            self.settle(tries, came_from, attempts[0].stamp[0],
                        " at start" in said)
            accepted = {int(a): int(b) for a, b in re.findall(
                r"reload (\d+) accepted at checkpoint (\d+)", said)}
            numbers = [int(x) for x in re.findall(
                r"reload (\d+)(?: \(rollback\))?: loading", said)]
            started = re.search(r"reload (\d+) at start", said)
            first = attempts[0]
            if started and tries and first.stamp[0] == tries[-1].stamp[0]:
                check(tries[-1].first is None or
                      tries[-1].first > came_from, "version",
                      tries[-1].stamp, "was accepted at", tries[-1].first,
                      "and checkpoint", came_from, "has another one")
            if started:
                first.first = accepted.get(int(started.group(1)))
            else:
                first.first = came_from + 1
            for number, t in zip(numbers, attempts[1:]):
                t.first = accepted.get(number)
                if re.search(r"reload %d (refused|rolled back)" % number,
                             said):
                    t.most = 0
            tries += [first] + attempts[1:len(numbers) + 1]
        return tries

    @staticmethod
    def settle(tries, came_from, v, differs):
        """What a start with v tells of the attempt that a kill interrupted."""
        if tries and tries[-1].first is None and tries[-1].most is None:
            never = differs and tries[-1].stamp[0] == v
            tries[-1].most = 0 if never else came_from

    def rounds(self):
        """{round: {stamp}}, and rows by output; all read_committed."""
        marker = Transactions(self.name_of_marker)
        # A claim repeats the round before, and has no rows.
        number = {}
        for row in kit.read(self.name_of_marker):
            number.setdefault(marker.of(row), []).append(
                int(row.value.split(b" ")[3]))
        stamps, rows = collections.defaultdict(set), {}
        for name, topic in self.outs.items():
            made_by = Transactions(topic)
            rows[name] = []
            for row in kit.read(topic):
                fields = json.loads(row.value)
                told = number.get(made_by.of(row), ())
                check(len(told) == 1, "a row of", name,
                      "is in a transaction with the markers", told)
                stamps[told[0]].add((fields["v"], fields["m"]))
                rows[name].append(fields)
        return stamps, rows

    def compare(self, what="rows under read_committed"):
        """Each round is of one version, the one it must be of; each row is
        there once. @return how many rounds, versions, and unsure take-overs.
        """
        stamps, rows = self.rounds()
        tries = self.takeovers()
        unsure = check_rounds(stamps, tries)
        self.compare_rows(rows, what)
        if not self.goes_back:
            in_order(rows["raw"])
        return len(stamps), len({s for x in stamps.values() for s in x}), \
            unsure

    def compare_rows(self, rows, what="rows under read_committed"):
        """Without their stamps they are what must come out, once each."""
        want = dict(self.want)
        want["extra"] = [r for r in rows["raw"] if self.has_extra(r["v"])]
        for name in OUTS:
            names = None if name == "extra" else \
                set(want[name][0] if want[name] else ())
            eo_kit.differ([line(r, names) for r in rows[name]],
                          [line(r, names) for r in want[name]],
                          "%s: %s" % (what, name))


def check_rounds(stamps, tries):
    """Each round has the stamp of the attempt that must have made it."""
    at, unsure = 0, 0
    for n in sorted(stamps):
        check(len(stamps[n]) == 1, "round", n, "has rows of the versions",
              sorted(stamps[n]))
        stamp, = stamps[n]
        known = max([k for k, t in enumerate(tries)
                     if t.first is not None and t.first <= n], default=0)
        if tries[known].stamp != stamp:  # taken over without a word
            maybe = [k for k, t in enumerate(tries) if t.stamp == stamp and
                     t.first is None and t.most is not None and n <= t.most]
            check(maybe and maybe[-1] > known, "round", n, "has rows of",
                  stamp, "and must have those of", tries[known].stamp)
            known = maybe[-1]
            unsure += 1
        check(known >= at, "round", n, "goes back to the version", stamp)
        at = known
    return unsure


def in_order(raw):
    """The versions of a partition's records never go back."""
    last = {}
    for r in sorted(raw, key=lambda r: r["i"]):
        before = last.get(r["i"] % 4, (0, 0))
        check((r["v"], r["m"]) >= before, "record", r["i"], "is of", r,
              "behind one of", before)
        last[r["i"] % 4] = (r["v"], r["m"])
