"""What the tests of exactly once share: the job, its input, the oracle.

The job is a two-phase windowed aggregate from Kafka to Kafka. All tests read
the same input topic; each has a job name, and so a transactional prefix, a
marker and an output topic, of its own. The oracle computes the rows from the
list of records without anything of the engine.

--long in the arguments (or STREAMLUA_LONG=1) chooses the long forms; SEED in
the environment repeats a run.
"""
import collections
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import kit
from kit import check, until

LONG = "--long" in sys.argv or os.environ.get("STREAMLUA_LONG") == "1"
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(10 ** 6))
PARTITIONS = 4
KEYS = 23
STEP_MS = 5      # event time between two records
WINDOW_MS = 1000
END_S = 120      # the longest run of a job here
NO_ROUND = -1

TEXT = """local s = require "streamlua"
local work = s.param("work", 0)
local job = s.job(s.param("name"), {
  checkpoint = { interval = s.param("interval", "200ms") },
  max_parallelism = 16,
  restart = { initial_backoff = "100ms", max_backoff = "1s" },
})
job:source("in", s.kafka { topic = s.param("from"), start = "earliest" })
   :event_time { field = "ts", idle = false }
   :filter(function(e)
     local x = 0
     for k = 1, work do x = x + k end
     return e.v >= 0
   end)
   :key_by { "k" }
   :window(s.tumbling "1s")
   :aggregate { n = s.count(), total = s.sum "v" }
   :sink("out", s.kafka { topic = s.param("to"), delivery = "exactly_once" })
return job
"""

_serial = itertools.count(1)
_inputs = {}


def say(*words):
    print(" ", *words, flush=True)


def record(i):
    return {"ts": i * STEP_MS, "k": "k%d" % (i * 7919 % KEYS), "v": i}


def rows_of(records):
    """What must come out of these records, sorted lines."""
    sums = collections.defaultdict(lambda: [0, 0])
    for r in records:
        cell = sums[r["ts"] // WINDOW_MS, r["k"]]
        cell[0] += 1
        cell[1] += r["v"]
    return sorted(
        '{"k":"%s","window_start":%d,"window_end":%d,"n":%d,"total":%d}' % (
            k, w * WINDOW_MS, (w + 1) * WINDOW_MS, n, total)
        for (w, k), (n, total) in sums.items())


def produce_input(topic, start, count):
    kit.produce(topic, [(i % PARTITIONS, None, None, json.dumps(record(i)))
                        for i in range(start, start + count)])


def shared_input(count):
    """A topic with `count` records, made once, and its rows."""
    if count not in _inputs:
        topic = kit.topic("eo-in", PARTITIONS)
        produce_input(topic, 0, count)
        _inputs[count] = (topic, rows_of(map(record, range(count))))
    return _inputs[count]


class Live:
    """Input that grows while a job runs: `rate` records a second.

    make(i) is record i; it ends by itself after `most` of them.
    """

    def __init__(self, rate=20000, make=record, most=10 ** 9):
        self.topic = kit.topic("eo-live", PARTITIONS)
        self.rate, self.count = rate, 0
        self.make, self.most = make, most
        self.over = threading.Event()
        self.feed = kit.Feed(self.topic)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while self.count < self.most and not self.over.wait(0.1):
            first = self.count
            piece = min(self.rate // 10, self.most - first)
            self.feed.put([(i % PARTITIONS, None, None,
                            json.dumps(self.make(i)))
                           for i in range(first, first + piece)])
            self.count += piece

    def is_over(self):
        return not self.thread.is_alive()

    def stop(self):
        """No more; returns all that was sent."""
        self.over.set()
        self.thread.join()
        check(self.feed.close() == 0, "ktool produce failed")
        return map(self.make, range(self.count))

    def end(self):
        """As stop(); returns the rows of all that was sent."""
        return rows_of(self.stop())


def is_test_mode(binary):
    out = subprocess.run([binary, "version"], stdout=subprocess.PIPE,
                         env=kit.clean_env(), check=False).stdout.decode()
    return re.search(r"test.mode\s+yes", out) is not None


def fault_binary():
    """The program with fault points; skips the test where there is none."""
    found = os.environ.get("STREAMLUA_TEST_MODE") or kit.BINARY
    if not is_test_mode(found):
        raise kit.Skipped("the program is not built with --enable-test-mode, "
                          "and STREAMLUA_TEST_MODE names none that is")
    return os.path.abspath(found)


class EoJob(kit.Job):
    """A job of this test; start() runs it (again)."""
    text = TEXT
    start_fault = None  # for every start that names no other

    def __init__(self, count=20000, binary=None, servers=None, live=None,
                 **params):
        self.live = live
        if live is not None:
            self.input, self.want = live.topic, None
        elif count == 0:
            self.input, self.want = None, None
        else:
            self.input, self.want = shared_input(count)
        self.name = "eo-%d-%d" % (os.getpid(), next(_serial))
        self.out = kit.topic(self.name + "-out", 2)
        self.servers = servers
        self.params = params
        self.seen = collections.Counter()
        if binary is not None:
            self.binary = binary
        super().__init__(self.text)

    def start(self, *flags, fault=None, stderr=None, data_dir=None, **params):
        """Start it; without being asked to, only the folder is made."""
        if not hasattr(self, "ready"):
            self.ready = True
            return self
        fault = fault or self.start_fault
        self.env = {"STREAMLUA_FAULT": fault} if fault else {}
        args = list(flags)
        given = dict(self.topics(), name=self.name, **self.params)
        given.update(params)
        for k, v in given.items():
            args += ["--set", "%s=%s" % (k, v)]
        if self.servers:
            args += ["--bootstrap-servers", self.servers]
        if data_dir:
            args += ["--data-dir", data_dir]
        return super().start(*args, stderr=stderr)

    def topics(self):
        """Parameters that name its topics."""
        return {"from": self.input, "to": self.out}

    def __exit__(self, *exc):
        if self.live is not None and not self.live.over.is_set():
            self.live.end()
        if self.p is not None:
            return super().__exit__(*exc)
        shutil.rmtree(self.folder, ignore_errors=True)
        return None

    @property
    def dir(self):
        return os.path.join(self.folder, "streamlua-data", self.name)

    def ends(self, wait_s=END_S):
        """Wait for its end; its exit code (-9: killed)."""
        try:
            return self.p.wait(wait_s)
        except subprocess.TimeoutExpired:
            raise AssertionError("%s: still running after %d s:\n%s" % (
                self.name, wait_s, self.stderr()[-3000:])) from None

    def kill(self):
        self.p.kill()
        self.p.wait()

    def crash(self, fault, *flags, **params):
        """Run it until that fault point kills it; returns its words."""
        self.start(*flags, fault=fault, **params)
        code = self.ends()
        check(code == -signal.SIGKILL, "fault %s: ended with %d:\n%s" % (
            fault, code, self.stderr()[-3000:]))
        return self.stderr()

    def finish(self, *flags, **params):
        """Run it to its end without faults."""
        if self.live is not None:
            self.want = self.live.end()
        self.start("--bounded", *flags, **params)
        code = self.ends()
        check(code == 0, "the last run ended with %d:\n%s" % (
            code, self.stderr()[-3000:]))

    def marker(self):
        """The last visible marker's round, or NO_ROUND."""
        try:
            rows = kit.values(self.name_of_marker)
        except AssertionError:
            return NO_ROUND  # no such topic yet
        return int(rows[-1].split(" ")[3]) if rows else NO_ROUND

    @property
    def name_of_marker(self):
        return "streamlua-%s-marker" % self.name

    def rows(self):
        return sorted(kit.values(self.out))

    def compare(self, what="rows under read_committed"):
        """What is visible is what the oracle says."""
        differ(self.rows(), self.want, what)

    def compare_part(self):
        """In the middle: nothing twice, nothing made up."""
        got = collections.Counter(kit.values(self.out))
        doubled = [k for k, n in got.items() if n > 1]
        check(not doubled, "%d rows are doubled, first:" % len(doubled),
              sorted(doubled)[:1])
        alien = sorted(set(got) - set(self.want or got))
        check(not alien, "%d rows nobody expects:" % len(alien), alien[:3])
        return len(got)

    def until_round(self, n, wait_s=60):
        """Wait until round n is visible."""
        return until(lambda: self.marker() >= n and self.marker(),
                     "round %d" % n, wait_s, job=self)


def copy_dir(source, target):
    """A data directory without the socket of its process."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("control"))


def differences(got, want):
    """(lost, doubled, alien) as lists of rows."""
    g, w = collections.Counter(got), collections.Counter(want)
    lost = sorted((w - g).elements())
    more = g - w
    return (lost, sorted(x for x in more.elements() if x in w),
            sorted(x for x in more.elements() if x not in w))


def differ(got, want, what):
    lost, doubled, alien = differences(got, want)
    check(not (lost or doubled or alien),
          "%s: %d lost, %d doubled, %d made up; first: %s %s %s" % (
              what, len(lost), len(doubled), len(alien), lost[:1],
              doubled[:1], alien[:1]))


def wait_a_moment(seconds):
    """Let the job work; the moment of a kill is what is being drawn."""
    time.sleep(seconds)
