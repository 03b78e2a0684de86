#!/usr/bin/env python3
"""Run the broker tests: start a broker, run each program, stop the broker.

usage: run.py [PROGRAM]...

Without arguments: the cmocka programs in $top_builddir/tests/broker, and
the scripts tests/broker/jobs_test.py, eo_test.py, fire_test.py,
reload_test.py and job_*.py of the source tree (whole jobs; they get STREAMLUA
and KTOOL). All of them find the broker in STREAMLUA_TEST_BROKER (host:port),
STREAMLUA_TEST_BROKER_SASL, STREAMLUA_TEST_BROKER_DIR (its data) and
STREAMLUA_TEST_BROKER_TOOL (broker.py, to kill and restart it).
STREAMLUA_KEEP=DIR keeps the broker's data and log in DIR. The last line is
"N passed, N failed, N skipped".
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import broker

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 600
EO_LIMIT_S = 24 * 3600 if os.environ.get("STREAMLUA_LONG") else 1500
COUNT = {k: re.compile(r"^\[ *%s *\] (\d+) test\(s\)" % k, re.M)
         for k in ("PASSED", "FAILED", "SKIPPED")}
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$",
                   re.M)


def programs(build):
    found = sorted(p for p in (build / "tests" / "broker").glob("test_kafka_*")
                   if p.suffix == "" and os.access(p, os.X_OK))
    return found + [HERE / "jobs_test.py", HERE / "eo_test.py",
                    HERE / "fire_test.py", HERE / "reload_test.py"] + \
        sorted(HERE.glob("job_*.py"))


def run(program, env):
    """(passed, failed, skipped) of one program; its output is shown."""
    args = [str(program)]
    if program.suffix == ".py":
        args.insert(0, sys.executable)
    p = subprocess.Popen(args, env=env, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, start_new_session=True)
    limit = EO_LIMIT_S if program.name in (
        "eo_test.py", "fire_test.py", "reload_test.py") else LIMIT_S
    try:
        out, _ = p.communicate(timeout=limit)
        status = p.returncode
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, _ = p.communicate()
        status = "none within %d s" % limit
    text = out.decode(errors="replace")
    sys.stdout.write(text)
    if status == 77:
        return 0, 0, 1
    counts = [sum(map(int, COUNT[k].findall(text)))
              for k in ("PASSED", "FAILED", "SKIPPED")]
    plain = PLAIN.findall(text)
    if not any(counts) and plain:
        counts = [int(x or 0) for x in plain[-1]]
    if status != 0 and counts[1] == 0:
        print(f"{program.name}: ended with {status}")
        counts[1] = 1
    if status == 0 and not any(counts):
        counts[0] = 1
    return counts


def main():
    build = pathlib.Path(os.environ.get("top_builddir", ".")).absolute()
    wanted = [pathlib.Path(p) for p in sys.argv[1:]] or programs(build)
    total = [0, 0, 0]
    try:
        broker.jars()
    except broker.Unavailable as e:
        print("no broker can be had:", e)
        print("0 passed, 0 failed, %d skipped" % len(wanted))
        return 77
    with tempfile.TemporaryDirectory(prefix="streamlua-broker-") as tmp:
        with broker.Broker(os.environ.get("STREAMLUA_KEEP", tmp + "/b")) as b:
            env = dict(os.environ,
                       STREAMLUA_TEST_BROKER=b.bootstrap,
                       STREAMLUA_TEST_BROKER_SASL=b.sasl,
                       STREAMLUA_TEST_BROKER_DIR=str(b.dir),
                       STREAMLUA_TEST_BROKER_TOOL=str(HERE / "broker.py"),
                       top_srcdir=str(HERE.parent.parent),
                       top_builddir=str(build))
            env.setdefault("KTOOL", str(build / "tests/broker/ktool"))
            env.setdefault("STREAMLUA", str(build / "streamlua"))
            for program in wanted:
                print(f"== {program.name}", flush=True)
                total = [a + b for a, b in zip(total, run(program, env))]
                sys.stdout.flush()
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
