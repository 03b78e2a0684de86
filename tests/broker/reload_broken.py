"""Many reloads of one process: broken files, and a thousand good ones."""
import json
import os
import re
import statistics

import kit
from eo_kit import LONG, say, wait_a_moment
from kit import Job, check, equal, test, until
from reload_kit import ReloadJob, text_of, usage

BROKEN_FILES = 100 if LONG else 20
RELOADS = 1000 if LONG else 60
WARM = 10     # broken files, before memory is looked at
# Reloads: the history is full, and the allocator has seen every size.
WARM_GOOD = 120 if LONG else 30
FEW = 10 if LONG else 5  # values of which memory's median is taken
SHARE = 0.05  # how far memory may be off

LAWLESS = (", bad = s.aggregator { init = function() return 0 end, "
           "add = function(a, r) return a + 1 end, "
           "merge = function(a, b) return a end, "
           "result = function(a) return a end, "
           "samples = { { i = 1 }, { i = 2 } } }")
# what, its text as version v, what is said of it
BROKEN = (
    ("syntax", lambda v: text_of(v).replace("local V,", "local V = ,"),
     r"refused: job\.lua:2: unexpected symbol"),
    ("check", lambda v: text_of(v).replace('key_by "k"', "key_by(7)"),
     r"refused: job\.lua:\d+: "),
    ("law", lambda v: text_of(v, aggs=LAWLESS), r"refused: .*law"),
    ("another plan each load", lambda v: text_of(v).replace(
        '{ name = "win" }', '{ name = "win" .. math.random(1 << 40) }'),
     r"refused: .*"),
    ("first record", lambda v: text_of(v, body="error 'not so'"),
     r"rolled back to \d+: job\.lua:\d+: not so"),
    ("no topic", lambda v: text_of(
        v, more='rows:sink("nowhere", to "nobody-made-this")\n'),
     r"refused: .*nobody-made-this"),
    ("error at load", lambda v: "error 'not today'\n" + text_of(v),
     r"refused: job\.lua:1: not today"),
    ("memory", lambda v: "local t = {}\nwhile true do t[#t + 1] = "
     "('x'):rep(1000) .. #t end\n" + text_of(v), r"refused: job\.lua:2: "),
    ("state loss", lambda v: text_of(v).replace(
        'rows:key_by "k":window', 'rows:key_by "i":window'),
     r"refused: job\.lua:\d+: state would be lost: win: key"),
    ("endless", lambda v: "while true do end\n" + text_of(v),
     r"refused: job\.lua:1: .*load_timeout"),
)


def kind(n):
    """The n-th broken file; an endless one takes its 5 s, so a few less."""
    kinds = BROKEN if LONG or n < len(BROKEN) else BROKEN[:-1]
    return kinds[n % len(kinds)]


def over_a_while(job):
    """(least, most, most often) of connections, other descriptors, threads:
    each round closes one client and opens another, one after the other."""
    seen = []
    for _ in range(25):
        seen.append(usage(job)[1:])
        wait_a_moment(0.1)
    columns = list(zip(*seen))
    return [[f(c) for c in columns] for f in (min, max, statistics.mode)]


class Usage:
    """Memory, descriptors and threads of a process, try by try."""

    def __init__(self, job, warm):
        self.job, self.warm = job, warm
        self.rss, self.rest = [], None

    def take(self):
        """Behind a try; those before `warm` do not count."""
        self.rss.append(usage(self.job)[0])
        if len(self.rss) == self.warm:
            self.rest = over_a_while(self.job)

    def same(self, what):
        """Memory is within SHARE; descriptors and threads are as they were,
        at least at times, so none was forgotten."""
        rss0, rss1 = (int(statistics.median(part)) // 1024 for part in (
            self.rss[self.warm:self.warm + FEW], self.rss[-FEW:]))
        check(rss1 <= rss0 * (1 + SHARE), "%s: memory went from %d to %d KiB"
              % (what, rss0, rss1), [n // 1024 for n in self.rss])
        least, _, now = over_a_while(self.job)
        _, most, before = self.rest
        check(all(a <= b for a, b in zip(least, most)), what + ": connections,"
              " other descriptors and threads went from at most", most,
              "to at least", least)
        return "%d KiB, then %d; connections, other descriptors, threads: " \
            "%s, then %s" % (rss0, rss1, before, now)


def try_broken(job, n):
    what, make, message = kind(n)
    job.hup(make(job.v + 1))
    said = job.says_within(r"reload %d (refused|rolled back).*" % (n + 1))
    check(re.search("reload %d %s" % (n + 1, message), said.group(0)),
          what, "is answered by", said.group(0))
    if " refused" in said.group(0):
        check("; still running reload 0" in said.group(0), said.group(0))
    else:  # the old code goes on behind the swap's round
        job.until_round(job.marker() + 1)


@test
def broken_files_leave_output_memory_descriptors_and_threads_as_they_were():
    with ReloadJob(1000, backend="memory") as job:
        job.begin("--parallelism", 2)
        job.until_round(2)
        used = Usage(job, WARM)
        for n in range(BROKEN_FILES):
            try_broken(job, n)
            used.take()
        told = used.same("broken files")
        job.hup()
        job.says_within("reload %d accepted" % (BROKEN_FILES + 1))
        job.kill()
        job.finish("--parallelism", 2)
        rounds, versions, _ = job.compare()
        equal(versions, 3, "versions: the first, the last, its restart")
        say("%d broken files, %s; %d rounds, %d records" % (
            BROKEN_FILES, told, rounds, job.live.count))


# --- one process, many versions -----------------------------------------------

EVERY = 100
SMALL = """local s = require "streamlua" -- %(pad)s
local V = %(v)d
local job = s.job("%(out)s", { checkpoint = { interval = "10s" },
  max_parallelism = 16 })
job:source("in", s.generator { rate = 6000, partitions = 2,
    fields = { i = s.gen.sequence {} } })
  %(step)s:key_by "k":process({ name = "count", state = { n = s.value_state() },
    on_record = function(e, ctx)
      local n = (ctx.state.n:get() or 0) + 1
      ctx.state.n:set(n)
      if n %% %(every)d == 0 then ctx:emit { k = e.k, n = n, v = V } end
    end })
  :sink("out", s.kafka { topic = "%(out)s", delivery = "exactly_once" })
return job
"""
STEPS = (":map(function(e) e.k = e.i % 7 return e end)",
         ":map(function(e) return { i = e.i, k = e.i % 7 } end)"
         ":filter(function(e) return e.i >= 0 end)")


def small(v, out):
    return SMALL % {"pad": ("%d " % v) * 20000, "v": v, "every": EVERY,
                    "out": out, "step": STEPS[v % 2]}


def bytes_below(folder):
    return sum(os.stat(os.path.join(at, name)).st_blocks * 512
               for at, _, names in os.walk(folder) for name in names)


def reload_once(job, v, out):
    with open(os.path.join(job.folder, "job.lua"), "w") as f:
        f.write(small(v, out))
    job.signal(1)
    until(lambda: job.says(r"reload %d accepted" % v), "reload %d" % v, 60,
          job=job)
    return bytes_below(os.path.join(job.folder, "streamlua-data"))


def compare_small(rows, versions):
    """By key the counts are without a gap, the versions in order."""
    by_key = {}
    for r in map(json.loads, rows):
        by_key.setdefault(r["k"], []).append((r["n"], r["v"]))
    for k, got in by_key.items():
        got.sort()
        equal([n for n, _ in got], [EVERY * (i + 1) for i in range(len(got))],
              "counts of key %d" % k)
        check(all(a[1] <= b[1] for a, b in zip(got, got[1:])),
              "the versions of key", k, "go back")
    seen = {v for got in by_key.values() for _, v in got}
    check(len(by_key) == 7 and len(seen) > versions // 2 and
          max(seen) <= versions, "rows of", len(seen), "versions")
    return len(seen)


@test
def many_reloads_of_one_process_leak_nothing():
    out = kit.topic("reload-small", 1)
    with Job(small(0, out)) as job:
        job.opened()
        used, sizes = Usage(job, WARM_GOOD), []
        for v in range(1, RELOADS + 1):
            sizes.append(reload_once(job, v, out))
            used.take()
        told = used.same("reloads")
        job.signal(15)
        job.wait()
        seen = compare_small(kit.values(out), RELOADS)
        # 16 texts are kept; all would be RELOADS times 40 KB and more.
        check(max(sizes[-20:]) <= 1.5 * max(sizes[WARM_GOOD:WARM_GOOD + 20]),
              "the data directory grows:", sizes)
        say("%d reloads, rows of %d versions, %s; data directory %d KiB, "
            "then %d" % (RELOADS, seen, told, sizes[WARM_GOOD] // 1024,
                         sizes[-1] // 1024))
