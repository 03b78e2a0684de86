#!/usr/bin/env python3
"""Run whole jobs and compare what comes out with what must come out.

usage: run_cases.py [--bin PATH] [--full] [-j N] [NAME...]

A case is a folder of cases/: job.lua, `in` (stdin), `out` (stdout expected),
further files that the job reads, and case.json (README.md names its members).
A case with a matrix runs for several numbers of slots, strategies and batch
sizes; the output must be the same each time. Exit 0 if all hold.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "cases")
TIMEOUT_S = 60

SLOTS = (1, 2, 4)
STRATEGIES = ("AUTO", "ONE_PHASE", "TWO_PHASE")
BATCHES = (1, 3, 50000)
OWN_FILES = ("case.json", "in", "out")


def matrix(full):
    """Each pair of values at least once (nine runs), or all 27."""
    return [(SLOTS[a], STRATEGIES[b], BATCHES[c])
            for a in range(3) for b in range(3) for c in range(3)
            if full or c == (a + b) % 3]


def with_options(text, strategy, batch):
    """The job with a strategy and a batch size, on the same lines."""
    opts = ('{ agg_phase_strategy = "%s", mini_batch = { size = %d } }'
            % (strategy, batch))
    new, n = re.subn(r's\.job\s*\(?\s*"([^"]+)"\s*\)?(?!\s*,)',
                     lambda m: 's.job("%s", %s)' % (m.group(1), opts),
                     text, count=1)
    if n != 1:
        raise ValueError("the job has options of its own: "
                         "set \"matrix\": false")
    return new


class Case:
    def __init__(self, name):
        self.name = name
        self.dir = os.path.join(CASES, name)
        path = os.path.join(self.dir, "case.json")
        self.conf = json.load(open(path)) if os.path.exists(path) else {}
        self.job = open(os.path.join(self.dir, "job.lua")).read()
        self.stdin = self.read("in")
        self.out = self.read("out")

    def read(self, name):
        path = os.path.join(self.dir, name)
        if not os.path.exists(path):
            return None
        with open(path, "rb") as f:
            return f.read()

    def runs(self, full):
        verb = self.conf.get("verb", "run")
        if verb == "run" and self.conf.get("matrix", True):
            return matrix(full)
        return [None]


def lines(data):
    text = data.decode("utf-8", "surrogateescape")
    if text and not text.endswith("\n"):
        text += "<no newline>"
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")


def first_difference(got, want):
    for i, (g, w) in enumerate(zip(got, want)):
        if g != w:
            return "line %d\n    got  %s\n    want %s" % (i + 1, g, w)
    if len(got) > len(want):
        return "%d lines too many, first: %s" % (len(got) - len(want),
                                                 got[len(want)])
    return "%d lines missing, first: %s" % (len(want) - len(got),
                                            want[len(got)])


def last_rows(rows, keys):
    """The last row per upsert key, and the rows without that key."""
    last, rest = {}, []
    for r in rows:
        o = json.loads(r)
        if all(k in o for k in keys):
            last[json.dumps([o[k] for k in keys])] = r
        else:
            rest.append(r)
    return sorted(list(last.values()) + rest)


def compare(case, out):
    how = case.conf.get("compare", "sorted")
    if how == "none" or case.out is None:
        return None
    got, want = lines(out), lines(case.out)
    if how == "exact":
        return None if out == case.out else first_difference(got, want)
    if how == "upsert":
        got = last_rows(got, case.conf["upsert"])
    elif how != "sorted":
        return "unknown comparison %r" % how
    got, want = sorted(got), sorted(want)
    return None if got == want else first_difference(got, want)


def walk(value, path):
    for member in path.split("/"):
        if isinstance(value, list):
            value = value[int(member)] if int(member) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(member)
        else:
            return None
    return value


def check_summary(path, expected):
    try:
        with open(path) as f:
            summary = json.load(f)
    except (OSError, ValueError) as e:
        return "no summary: %s" % e
    for key, want in expected.items():
        got = walk(summary, key)
        if got is None and re.search(r"/(dropped|errors)/", key):
            got = 0
        if isinstance(want, list):  # [">", 10]
            ok = got is not None and {">": got > want[1], "<": got < want[1],
                                      ">=": got >= want[1]}[want[0]]
        else:
            ok = got == want
        if not ok:
            return "summary %s is %r, expected %r" % (key, got, want)
    return None


def check_files(folder, expected):
    for name, want in expected.items():
        try:
            with open(os.path.join(folder, name)) as f:
                got = f.read()
        except OSError as e:
            if want is None:
                continue
            return "%s: %s" % (name, e.strerror)
        if got != want:
            return "%s holds %r, expected %r" % (name, got[:200], want)
    return None


def command(case, binary, run):
    conf = case.conf
    cmd = [binary, conf.get("verb", "run")]
    if run:
        cmd += ["--slots", str(run[0]), "--parallelism", str(run[0])]
    if conf.get("summary"):
        cmd += ["--summary", "summary.json"]
    cmd += ["job.lua" if a == "{job}" else a for a in conf.get("args", [])]
    if "{job}" not in conf.get("args", []):
        cmd.append("job.lua")
    return cmd


class Skipped(Exception):
    """A test cannot run here; the text says why."""


def run_tests(tests, names, *args):
    """Call each test, or those of the names; the exit code."""
    chosen = [t for t in tests if not names or t.__name__ in names]
    failed = skipped = 0
    for test in chosen:
        try:
            test(*args)
            print("ok", test.__name__, flush=True)
        except Skipped as e:
            skipped += 1
            print("skipped %s: %s" % (test.__name__, e), flush=True)
        except Exception:  # each test reports, the others go on
            failed += 1
            print("not ok", test.__name__)
            traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed, %d skipped"
          % (len(chosen) - failed - skipped, failed, skipped))
    return 1 if failed else 0


def clean_env(extra):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("STREAMLUA_") or k == "STREAMLUA_FAULT"}
    env.update(extra)
    return env


def once(case, binary, run):
    """Run the case once; None if it holds, else what differs."""
    conf = case.conf
    folder = tempfile.mkdtemp(prefix="streamlua-case-")
    try:
        shutil.copytree(case.dir, folder, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns(*OWN_FILES))
        job = with_options(case.job, run[1], run[2]) if run else case.job
        with open(os.path.join(folder, "job.lua"), "w") as f:
            f.write(job)
        try:
            p = subprocess.run(command(case, binary, run), cwd=folder,
                               input=case.stdin or b"", capture_output=True,
                               timeout=TIMEOUT_S,
                               env=clean_env(conf.get("env", {})))
        except subprocess.TimeoutExpired:
            return "no end after %d s" % TIMEOUT_S
        err = p.stderr.decode("utf-8", "replace")
        if p.returncode != conf.get("exit", 0):
            return "exit %d, expected %d; stderr: %s" % (
                p.returncode, conf.get("exit", 0), err[-600:].strip())
        why = compare(case, p.stdout)
        if why:
            return why
        for rx in conf.get("stderr", []):
            if not re.search(rx, err, re.M):
                return "stderr lacks /%s/: %s" % (rx, err[-600:].strip())
        for rx in conf.get("stderr_not", []):
            if re.search(rx, err, re.M):
                return "stderr has /%s/: %s" % (rx, err[-600:].strip())
        if conf.get("summary"):
            why = check_summary(os.path.join(folder, "summary.json"),
                                conf["summary"])
        return why or check_files(folder, conf.get("files", {}))
    except ValueError as e:
        return str(e)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def hold(name, binary, full):
    case = Case(name)
    for run in case.runs(full):
        why = once(case, binary, run)
        if why:
            at = ("slots=%d strategy=%s batch=%d: " % run) if run else ""
            return name, at + why
    return name, None


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("--full", action="store_true", help="all 27 runs a case")
    ap.add_argument("-j", type=int, default=os.cpu_count() or 1)
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    names = args.names or sorted(os.listdir(CASES))
    binary = os.path.abspath(args.bin)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for name, why in pool.map(lambda n: hold(n, binary, args.full),
                                  names):
            print("%s %s%s" % ("not ok" if why else "ok", name,
                               ": " + why if why else ""), flush=True)
            failed += why is not None
    print("%d passed, %d failed, 0 skipped" % (len(names) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
