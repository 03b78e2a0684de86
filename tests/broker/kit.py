"""What the tests of whole jobs share: a job that runs, a topic, a condition.

Nothing waits for a fixed time: until() asks again and again, and fails at its
deadline. Every test makes topics of its own.
"""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests", "sys"))

BROKER = os.environ.get("STREAMLUA_TEST_BROKER")
BROKER_DIR = os.environ.get("STREAMLUA_TEST_BROKER_DIR")
BROKER_TOOL = os.environ.get("STREAMLUA_TEST_BROKER_TOOL",
                             os.path.join(HERE, "broker.py"))
BINARY = os.path.abspath(os.environ.get("STREAMLUA", "streamlua"))
KTOOL = os.path.abspath(os.environ.get("KTOOL", "tests/broker/ktool"))
WAIT_S = 40
MIB = 1 << 20

_number = itertools.count(1)


def check(ok, what, *more):
    if not ok:
        raise AssertionError(" ".join(map(str, (what,) + more)))


def equal(got, want, what):
    """Both must be the same; says where they part."""
    if got == want:
        return
    if isinstance(got, list) and isinstance(want, list):
        for i, (g, w) in enumerate(zip(got, want)):
            if g != w:
                raise AssertionError("%s: entry %d is\n    %r, expected\n"
                                     "    %r" % (what, i, g, w))
        raise AssertionError("%s: %d entries, expected %d" %
                             (what, len(got), len(want)))
    raise AssertionError("%s: %r, expected %r" % (what, got, want))


def until(condition, what, wait_s=WAIT_S, job=None):
    """Ask until the condition holds; returns its answer."""
    end = time.monotonic() + wait_s
    pause = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if job is not None and job.p.poll() is not None:
            answer = condition()
            if answer:
                return answer
            raise AssertionError("%s: the job ended with %d before\n%s" %
                                 (what, job.p.returncode, job.stderr()))
        if time.monotonic() > end:
            raise AssertionError("%s: not within %d s%s" % (
                what, wait_s, "" if job is None else "\n" + job.stderr()))
        pause.wait(0.05)


# --- topics --------------------------------------------------------------------

class Row:
    """A record as it lies in a topic; key and value None or bytes."""
    __slots__ = ("partition", "ts", "key", "value", "offset", "headers")

    def __init__(self, cells):
        self.offset = int(cells[0])
        self.partition = int(cells[1])
        self.ts = int(cells[2])
        self.headers = None
        if len(cells) == 6:
            self.headers = cells[3]
        self.key, self.value = [None if c == b"\\N" else c
                                for c in cells[-2:]]


def ktool(*args, data=None):
    p = subprocess.run([KTOOL, BROKER, *map(str, args)], input=data,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=120)
    if p.returncode != 0:
        raise AssertionError("ktool %s: %s" % (
            " ".join(map(str, args)), p.stderr.decode(errors="replace")))
    return p.stdout


def topic(name, partitions=1, *configs):
    """Make a topic nobody else uses; returns its name."""
    name = "%s-%d-%d" % (name, os.getpid(), next(_number))
    ktool("create", name, partitions, *configs)
    return name


def tsv(rows):
    """Lines for `ktool produce --tsv` of (partition, ts, key, value)."""
    out = []
    for partition, ts, key, value in rows:
        cells = ["" if partition is None else str(partition),
                 "" if ts is None else str(ts),
                 "\\N" if key is None else key,
                 "\\N" if value is None else value]
        out.append("\t".join(cells))
    return ("\n".join(out) + "\n").encode()


def produce(name, rows, *options):
    ktool("produce", name, "-", "--tsv", *options, data=tsv(rows))


def produce_values(name, values, *options):
    ktool("produce", name, "-", *options,
          data=("\n".join(values) + "\n").encode())


def read(name, *options):
    """All rows of a topic, read_committed."""
    out = ktool("read", name, "--tsv", "--offsets", *options)
    n = 5 if "--headers" not in options else 6
    return [Row(line.split(b"\t", n - 1)) for line in out.split(b"\n")[:-1]]


def values(name, *options):
    return [r.value.decode() for r in read(name, *options)]


def ends(name):
    """[(low, LSO)] by partition."""
    rows = [line.split() for line in ktool("ends", name).split(b"\n")[:-1]]
    return [(int(r[1]), int(r[2])) for r in sorted(rows,
                                                   key=lambda r: int(r[0]))]


def total(name):
    """How many offsets a topic holds."""
    return sum(high - low for low, high in ends(name))


class Feed:
    """`ktool produce` with its input held open."""

    def __init__(self, name, *options):
        self.p = subprocess.Popen([KTOOL, BROKER, "produce", name, "-",
                                   "--tsv", *options], stdin=subprocess.PIPE)

    def put(self, rows):
        self.p.stdin.write(tsv(rows))
        self.p.stdin.flush()

    def close(self):
        if not self.p.stdin.closed:
            self.p.stdin.close()
        return self.p.wait(WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.close()
        except (OSError, subprocess.TimeoutExpired):
            self.p.kill()
            self.p.wait()


# --- the broker -----------------------------------------------------------------

def broker_pid():
    with open(os.path.join(BROKER_DIR, "pid")) as f:
        return int(f.read())


def broker_do(what):
    subprocess.run([sys.executable, BROKER_TOOL, what, BROKER_DIR], check=True,
                   stdout=subprocess.DEVNULL, timeout=120)


class BrokerPaused:
    """The broker stands still inside the block (SIGSTOP, SIGCONT)."""

    def __enter__(self):
        self.pid = broker_pid()
        os.kill(self.pid, signal.SIGSTOP)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


# --- jobs ------------------------------------------------------------------------

def clean_env():
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith("STREAMLUA")}
    return dict(keep, LC_ALL="C", NO_COLOR="1")


class Job:
    """streamlua in a folder of its own; `with` ends it and removes it."""
    binary = BINARY
    env = {}  # more variables for the program

    def __init__(self, text, *flags, verb="run", stderr=None, files=()):
        self.folder = tempfile.mkdtemp(prefix="streamlua-job-")
        self.text = text
        for name, data in dict(files).items():
            with open(os.path.join(self.folder, name), "wb") as f:
                f.write(data)
        with open(os.path.join(self.folder, "job.lua"), "w") as f:
            f.write(text)
        self.runs = 0
        self.p = None
        self.verb = verb
        self.start(*flags, stderr=stderr)

    def start(self, *flags, stderr=None):
        """Start it (again)."""
        self.runs += 1
        self.err_path = os.path.join(self.folder, "stderr-%d" % self.runs)
        self.summary_path = os.path.join(self.folder,
                                         "summary-%d" % self.runs)
        args = [self.binary, self.verb, "job.lua"]
        if "--bootstrap-servers" not in flags:
            args += ["--bootstrap-servers", BROKER]
        if self.verb == "run":
            args += ["--summary", self.summary_path]
        with open(self.err_path, "wb") as err, \
                open(os.path.join(self.folder, "stdout"), "wb") as out:
            self.p = subprocess.Popen(
                args + list(map(str, flags)), cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=out,
                stderr=err if stderr is None else stderr,
                env=dict(clean_env(), **self.env))
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stderr(self):
        with open(self.err_path, errors="replace") as f:
            return f.read()

    def stdout(self):
        with open(os.path.join(self.folder, "stdout"), errors="replace") as f:
            return f.read()

    def says(self, pattern):
        return re.search(pattern, self.stderr())

    def summary(self):
        with open(self.summary_path) as f:
            return json.load(f)

    def step(self, name):
        return self.summary()["steps"][name]

    def wait(self, code=0, wait_s=WAIT_S):
        """Wait for its end with that exit code."""
        try:
            self.p.wait(wait_s)
        except subprocess.TimeoutExpired:
            raise AssertionError("still running after %d s:\n%s" %
                                 (wait_s, self.stderr())) from None
        check(self.p.returncode == code, "exit %s, expected %s:\n%s" %
              (self.p.returncode, code, self.stderr()[-3000:]))
        return self

    def signal(self, number):
        self.p.send_signal(number)

    def signals(self, kind, number):
        """Whether the process catches (SigCgt) or ignores (SigIgn) it."""
        try:
            with open("/proc/%d/status" % self.p.pid) as f:
                mask = re.search(r"^%s:\s*(\w+)" % kind, f.read(), re.M)
        except FileNotFoundError:  # it has ended
            return False
        return bool(mask and int(mask.group(1), 16) >> (number - 1) & 1)

    def opened(self):
        """Wait until it has found its topics and offsets."""
        until(lambda: self.signals("SigCgt", signal.SIGUSR1), "a start",
              job=self)

    def ask(self):
        """The summary of the running job, by SIGUSR1."""
        def answers():
            return re.findall(r'^\{"job":.*\}$', self.stderr(), re.M)

        self.opened()
        before = len(answers())
        self.signal(signal.SIGUSR1)
        return json.loads(until(lambda: answers()[before:],
                                "an answer to SIGUSR1", job=self)[0])

    def rss(self):
        with open("/proc/%d/statm" % self.p.pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(text, *flags, code=0, **more):
    """Run a job to its end; returns it (its folder is gone, texts are kept)."""
    with Job(text, *flags, **more) as job:
        job.wait(code)
        done = Done(job)
    return done


class Done:
    """What is left of a job that has ended."""

    def __init__(self, job):
        self.err, self.out = job.stderr(), job.stdout()
        self.sums = {}
        if os.path.exists(job.summary_path):
            self.sums = job.summary()

    def step(self, name):
        return self.sums["steps"][name]


# --- running them -----------------------------------------------------------------

class Skipped(Exception):
    """What the test needs is not to be had here."""


_tests = []


def test(f):
    """Register a test; its name, read aloud, is the promise."""
    _tests.append(f)
    return f


def main(doc):
    args = sys.argv[1:]
    if args and args[0] in ("-h", "--help"):
        print(doc)
        return 0
    if BROKER is None:
        print("STREAMLUA_TEST_BROKER is not set: skipped")
        return 77
    failed = passed = skipped = 0
    for f in _tests:
        name = f.__name__
        if args and not any(a in name for a in args):
            continue
        begun = time.monotonic()
        try:
            f()
            passed += 1
            verdict = "ok"
        except Skipped as e:
            skipped += 1
            verdict = "skipped (%s)" % e
        except Exception as e:  # whatever it is, the others go on
            failed += 1
            verdict = "not ok"
            if not isinstance(e, AssertionError):
                traceback.print_exc(file=sys.stdout)
            print("  " + str(e)[:6000].replace("\n", "\n  "))
        print("%s %s (%.1f s)" % (verdict, name.replace("_", " "),
                                  time.monotonic() - begun), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0
