#!/usr/bin/env python3
"""Stopping a running job, a stalled sink, an idle job.

usage: signals_test.py [--bin PATH] [NAME...]
"""
import argparse
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile

import run_cases

UNBOUNDED = """local s = require "streamlua"
local job = s.job "endless"
job:source("in", s.generator { rate = s.param("rate", 20000),
     fields = { i = s.gen.sequence {}, pad = ("x"):rep(100) } })
   :filter(function(e) return e.i >= 0 end)
   :sink("out", s.stdout())
return job
"""

BOUNDED = UNBOUNDED.replace("s.generator {", "s.generator { count = 400000,")

STDIN = """local s = require "streamlua"
local job = s.job "waits"
job:source("in", s.stdin()):sink("out", s.stdout())
return job
"""

WAIT_S = 30
MIB = 1 << 20


class Job:
    """A running streamlua in a folder of its own."""

    def __init__(self, binary, text, *flags):
        self.folder = tempfile.mkdtemp(prefix="streamlua-signal-")
        with open(os.path.join(self.folder, "job.lua"), "w") as f:
            f.write(text)
        self.err_path = os.path.join(self.folder, "stderr")
        self.err = open(self.err_path, "wb")
        self.p = subprocess.Popen(
            [binary, "run", "job.lua", "--summary", "summary.json", *flags],
            cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.err, env=run_cases.clean_env({
                # An end at once leaves threads behind; that is its point.
                "TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") +
                                " report_thread_leaks=0"}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        self.p.stdout.close()
        self.p.stdin.close()
        self.err.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def first_bytes(self):
        """Wait until the job has written something."""
        ready, _, _ = select.select([self.p.stdout], [], [], WAIT_S)
        assert ready, "no output after %d s: %s" % (WAIT_S, self.stderr())
        return os.read(self.p.stdout.fileno(), 4096)

    def rest(self):
        out = self.p.stdout.read()
        self.p.wait(WAIT_S)
        return out

    def stderr(self):
        with open(self.err_path, errors="replace") as f:
            return f.read()

    def summary(self):
        with open(os.path.join(self.folder, "summary.json")) as f:
            return json.load(f)

    def rss(self):
        with open("/proc/%d/statm" % self.p.pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self):
        with open("/proc/%d/stat" % self.p.pid) as f:
            parts = f.read().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def until(self, what, step_s=0.1):
        """Ask again and again until what() is true; bounded."""
        for _ in range(int(WAIT_S / step_s)):
            if what():
                return
            try:
                self.p.wait(step_s)
            except subprocess.TimeoutExpired:
                continue
            break
        assert what(), "condition not met; stderr: " + self.stderr()

    def linger(self, seconds):
        """Let the job run; it must not end by itself."""
        try:
            self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError("ended by itself, exit %d: %s" %
                             (self.p.returncode, self.stderr()))


def stopped_cleanly(binary, sig):
    with Job(binary, UNBOUNDED) as job:
        out = job.first_bytes()
        job.p.send_signal(sig)
        out += job.rest()
        assert job.p.returncode == 0, (job.p.returncode, job.stderr())
        lines = out.split(b"\n")
        assert lines[-1] == b"", "the last line is cut"
        for i, line in enumerate(lines[:-1]):
            assert json.loads(line)["i"] == i, "line %d: %r" % (i, line)
        s = job.summary()
        assert s["status"] == "stopped" and s["exit_code"] == 0, s
        assert s["steps"]["out"]["records_out"] == len(lines) - 1, s
        assert s["steps"]["in"]["records_out"] == len(lines) - 1, s


def sigterm_finishes_what_was_read(binary):
    stopped_cleanly(binary, signal.SIGTERM)


def sigint_finishes_what_was_read(binary):
    stopped_cleanly(binary, signal.SIGINT)


def second_signal(binary, sig, code):
    with Job(binary, UNBOUNDED, "--set", "rate=0") as job:
        # Nobody reads stdout: once the pipe is full the drain cannot end.
        job.first_bytes()
        full = [-1]

        def is_stalled():
            now = job.cpu_s()
            same = now == full[0]
            full[0] = now
            return same
        job.until(is_stalled, 0.5)
        job.p.send_signal(sig)
        job.linger(0.3)
        job.p.send_signal(sig)
        job.p.wait(WAIT_S)
        assert job.p.returncode == code, (job.p.returncode, job.stderr())


def second_sigterm_ends_at_once(binary):
    second_signal(binary, signal.SIGTERM, 143)


def second_sigint_ends_at_once(binary):
    second_signal(binary, signal.SIGINT, 130)


def a_signal_that_comes_twice_at_once_is_one(binary):
    """timeout(1) signals its child, then the group the child is in."""
    with Job(binary, UNBOUNDED, "--set", "rate=50") as job:
        job.first_bytes()
        job.p.send_signal(signal.SIGTERM)
        job.p.send_signal(signal.SIGTERM)
        job.p.wait(WAIT_S)
        assert job.p.returncode == 0, (job.p.returncode, job.stderr())


def stop_timeout_ends_a_stalled_drain(binary):
    with Job(binary, UNBOUNDED, "--set", "rate=0",
             "--stop-timeout=200ms") as job:
        job.first_bytes()
        job.linger(0.5)
        job.p.send_signal(signal.SIGTERM)
        job.p.wait(WAIT_S)
        assert job.p.returncode == 143, (job.p.returncode, job.stderr())


def sigusr1_writes_the_counters(binary):
    with Job(binary, UNBOUNDED) as job:
        job.first_bytes()
        job.p.send_signal(signal.SIGUSR1)

        def has_line():
            return any(line.startswith("{") and line.endswith("}")
                       for line in job.stderr().split("\n"))

        def drain_until():
            while select.select([job.p.stdout], [], [], 0)[0]:
                if not os.read(job.p.stdout.fileno(), 65536):
                    break
                if has_line():
                    break
            return has_line()
        job.until(drain_until)
        line = next(x for x in job.stderr().split("\n") if x.startswith("{"))
        s = json.loads(line)
        assert s["job"] == "endless" and s["steps"]["in"]["records_out"] > 0


def closed_stdout_ends_an_endless_job_with_74(binary):
    with Job(binary, UNBOUNDED) as job:
        job.first_bytes()
        job.p.stdout.close()
        job.p.wait(WAIT_S)
        assert job.p.returncode == 74, (job.p.returncode, job.stderr())
        job.p.stdout = open(os.devnull, "rb")


def closed_stdout_ends_a_bounded_job_with_0(binary):
    with Job(binary, BOUNDED, "--set", "rate=0") as job:
        job.first_bytes()
        job.p.stdout.close()
        job.p.wait(WAIT_S)
        assert job.p.returncode == 0, (job.p.returncode, job.stderr())
        job.p.stdout = open(os.devnull, "rb")


def with_file(text):
    return text.replace("job:source", "local x = job:source").replace(
        "return job", 'x:sink("file", s.file { path = "parts" })\nreturn job')


def a_closed_stdout_takes_the_last_round_of_a_bounded_job_only(binary):
    """An unbounded one ends with an error, and with its last checkpoint: its
    next run writes on in the part."""
    for text, code, part in (
            (UNBOUNDED, 74, ".part-0-000001.jsonl.inprogress"),
            (BOUNDED, 0, "part-0-000001.jsonl")):
        with Job(binary, with_file(text), "--set",
                 "rate=0") as job:
            job.first_bytes()
            job.p.stdout.close()
            job.p.wait(WAIT_S)
            assert job.p.returncode == code, (job.p.returncode, job.stderr())
            job.p.stdout = open(os.devnull, "rb")
            parts = os.listdir(os.path.join(job.folder, "parts"))
            assert sorted(parts) == sorted([part, ".streamlua"]), parts
            s = job.summary()
            assert s["status"] == "stopped" and s["error"] is None, s
            steps = s["steps"]
            assert steps["file"]["records_in"] == steps["in"]["records_out"], s


def a_stalled_sink_keeps_memory_flat_and_loses_nothing(binary):
    with Job(binary, BOUNDED, "--set", "rate=0") as job:
        out = job.first_bytes()
        job.linger(1.0)
        before = job.rss()
        job.linger(2.0)
        grown = job.rss() - before
        assert grown < 2 * MIB, "grew by %d bytes" % grown
        assert before < 512 * MIB, "%d bytes" % before
        out += job.rest()
        assert job.p.returncode == 0, (job.p.returncode, job.stderr())
        assert out.count(b"\n") == 400000, out.count(b"\n")


def an_idle_job_does_not_use_the_processor(binary):
    with Job(binary, STDIN) as job:
        job.p.stdin.write(b'{"a":1}\n')
        job.p.stdin.flush()
        job.first_bytes()
        before = job.cpu_s()
        job.linger(3.0)
        used = job.cpu_s() - before
        assert used <= 0.03, "%.2f s of 3 s" % used
        job.p.stdin.close()
        assert job.rest() == b""
        assert job.p.returncode == 0, job.stderr()


TESTS = [
    sigterm_finishes_what_was_read,
    sigint_finishes_what_was_read,
    second_sigterm_ends_at_once,
    second_sigint_ends_at_once,
    a_signal_that_comes_twice_at_once_is_one,
    stop_timeout_ends_a_stalled_drain,
    sigusr1_writes_the_counters,
    closed_stdout_ends_an_endless_job_with_74,
    closed_stdout_ends_a_bounded_job_with_0,
    a_closed_stdout_takes_the_last_round_of_a_bounded_job_only,
    a_stalled_sink_keeps_memory_flat_and_loses_nothing,
    an_idle_job_does_not_use_the_processor,
]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    binary = os.path.abspath(args.bin)
    return run_cases.run_tests(TESTS, args.names, binary)


if __name__ == "__main__":
    sys.exit(main())
