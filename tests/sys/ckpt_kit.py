"""Jobs that are killed, stopped and started again in one folder.

Used by checkpoint_test.py and restart_test.py. Nothing of the engine is
imported; what a job did is read from its output, stderr and summary.
"""
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import run_cases

WAIT_S = 60  # for anything; a test that runs into it has failed
COMPLETED = "checkpoint %d completed"


class Folder:
    """A place where one job runs again and again."""

    def __init__(self, binary, text, name="job"):
        self.binary = binary
        self.name = name
        self.path = tempfile.mkdtemp(prefix="streamlua-ckpt-")
        self.runs = 0
        self.write("job.lua", text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def at(self, *names):
        return os.path.join(self.path, *names)

    def write(self, name, text):
        with open(self.at(name), "w") as f:
            f.write(text)

    def start(self, *flags, env=None, file="job.lua"):
        self.runs += 1
        return Run(self, [self.binary, "run", file, "--unsafe", "--summary",
                          "summary.json", *flags], env or {})

    def finish(self, *flags, code=0, env=None, file="job.lua"):
        """Run to the end. @return what it said on stderr."""
        with self.start(*flags, env=env, file=file) as run:
            return run.end(code)

    def rows(self, folder="out", hidden=False):
        """All lines of a file sink's visible parts, sorted."""
        lines = []
        for part in sorted(glob.glob(self.at(folder, "part-*"))):
            with open(part, "rb") as f:
                data = f.read()
            assert data.endswith(b"\n"), "%s ends in half a row" % part
            lines += data.split(b"\n")[:-1]
        left = glob.glob(self.at(folder, ".*.inprogress"))
        assert hidden or not left, left
        return sorted(lines)

    def stdout(self):
        """Whole lines of all runs' stdout, in order."""
        lines = []
        for i in range(1, self.runs + 1):
            with open(self.at("stdout-%d" % i), "rb") as f:
                lines += f.read().split(b"\n")[:-1]
        return lines

    def summary(self):
        with open(self.at("summary.json")) as f:
            return json.load(f)


class Run:
    """One process."""

    def __init__(self, folder, argv, env):
        self.folder = folder
        self.err = b""
        self.out = open(folder.at("stdout-%d" % folder.runs), "wb")
        tsan = os.environ.get("TSAN_OPTIONS", "") + " report_thread_leaks=0"
        self.p = subprocess.Popen(
            argv, cwd=folder.path, stdin=subprocess.DEVNULL, stdout=self.out,
            stderr=subprocess.PIPE,
            env=run_cases.clean_env({"TSAN_OPTIONS": tsan, **env}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        self.p.stderr.close()
        self.out.close()

    def text(self):
        return self.err.decode("utf-8", "replace")

    def listen(self, seconds):
        """Take what comes on stderr. @return False at its end."""
        ready, _, _ = select.select([self.p.stderr], [], [], seconds)
        if not ready:
            return True
        data = os.read(self.p.stderr.fileno(), 65536)
        self.err += data
        return data != b""

    def until(self, what):
        """Wait until stderr holds `what`. @return whether it came."""
        deadline = time.monotonic() + WAIT_S
        while what not in self.text():
            if not self.listen(1):
                return what in self.text()
            assert time.monotonic() < deadline, self.text()
        return True

    def kill(self):
        self.p.send_signal(signal.SIGKILL)
        self.drain()

    def drain(self):
        deadline = time.monotonic() + WAIT_S
        while self.listen(1):
            assert time.monotonic() < deadline, "hangs: " + self.text()
        self.p.wait(WAIT_S)

    def end(self, code):
        self.drain()
        assert self.p.returncode == code, (
            "exit %s, want %d: %s" % (self.p.returncode, code, self.text()))
        return self.text()


def must_hold(text, *parts):
    for part in parts:
        assert part in text, "%r is not in: %s" % (part, text)


def same_rows(got, want, what):
    if got == want:
        return
    more, less = list(got), list(want)
    for row in want:
        if row in more:
            more.remove(row)
    for row in got:
        if row in less:
            less.remove(row)
    raise AssertionError("%s: %d rows, want %d; too many %r; missing %r" % (
        what, len(got), len(want), more[:3], less[:3]))


def has_test_mode(binary):
    out = subprocess.run([binary, "--version"], capture_output=True,
                         text=True, env=run_cases.clean_env({}))
    return "test mode     yes" in out.stdout


_lock = threading.Lock()


def _one(test, binary):
    begun = time.monotonic()
    try:
        note = test(binary)
        ok = True
    except Exception:  # each test reports, the others go on
        note, ok = traceback.format_exc(), False
    with _lock:
        if note == "skipped":
            print("skip", test.__name__, flush=True)
            return None
        print("ok" if ok else "not ok", test.__name__,
              "(%.1f s)" % (time.monotonic() - begun), flush=True)
        if not ok:
            print(note, flush=True)
    return ok


def run_tests(tests, binary, names, jobs):
    """Jobs mostly wait for their rate, so several run at once."""
    chosen = [t for t in tests if not names or t.__name__ in names]
    assert chosen, "no such test"
    with ThreadPoolExecutor(jobs) as pool:
        got = list(pool.map(lambda t: _one(t, binary), chosen))
    failed = got.count(False)
    print("%d passed, %d failed, %d skipped" % (
        got.count(True), failed, got.count(None)))
    return 1 if failed else 0
