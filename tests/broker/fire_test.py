#!/usr/bin/env python3
"""Jobs with state under fire: functions, timers, ttl, dedup, top_n, connect.

usage: fire_test.py [--long] [PART-OF-A-NAME]...  STREAMLUA_TEST_BROKER, see
                                                  run.py

The jobs and what must come out of them are in fire_jobs.py. The faults are
those of eo_test.py: kill -9 and another parallelism each time, the broker
killed, crashes at fault points, requests that are late or lost. --long (or
STREAMLUA_LONG=1) is what a release runs. SEED in the environment repeats a
run.
"""
import os
import random
import signal
import sys

import eo_kit
import kit
from eo_kit import LONG, SEED, fault_binary, say, wait_a_moment
from eo_points import FAILING, POINTS, SECOND
from eo_relay import SHARE, relay, run_under_faults
from fire_jobs import CASES
from fire_kit import RATE, FireJob
from kit import check, test

KILLS = 40 if LONG else 6
BROKER_KILLS = 20 if LONG else 2
ROUNDS = 150 if LONG else 12
PARALLEL = (1, 4, 2)
BACKENDS = ("lmdb", "memory")


def cases(rng):
    """All of them, each with a backend that is drawn."""
    return [(case, rng.choice(BACKENDS)) for case in CASES]


def one_case(rng):
    """The short form takes one of them."""
    all_of_them = cases(rng)
    return all_of_them if LONG else [rng.choice(all_of_them)]


def report(job, backend, *words):
    """Compare at the end, and say what was done to the job."""
    before = job.compare_part()
    rows = job.finish("--parallelism", 2)
    say("SEED=%d %s/%s:" % (SEED, job.case.name, backend), *words,
        "%d steps of input, %d rows, %d of them before the last run" % (
            job.live.count, rows, before))


@test
def functions_with_state_killed_and_rescaled_lose_and_double_nothing():
    rng = random.Random(SEED)
    for case, backend in cases(rng):
        with FireJob(case, backend=backend) as job:
            moved, last = 0, eo_kit.NO_ROUND
            for i in range(KILLS):
                job.start("--parallelism", PARALLEL[i % len(PARALLEL)])
                if i % 3 == 0:  # on a slow machine others may see none
                    job.until_round(last + 1)
                wait_a_moment(rng.uniform(0.2, 2.0))
                check(job.p.poll() is None, "it ended by itself:\n",
                      job.stderr()[-2000:])
                if i % 4 == 3:  # in between a stop, with a last round
                    job.signal(signal.SIGTERM)
                    check(job.ends() in (0, -signal.SIGTERM), "SIGTERM:",
                          job.stderr()[-2000:])
                else:
                    job.kill()
                now = job.marker()
                check(now >= last, "the marker went back from", last, "to",
                      now)
                moved += now > last
                last = now
            check(moved >= KILLS // 3, "too few rounds in between:", moved)
            report(job, backend, "%d kills, %d behind a new round," % (
                KILLS, moved))


@test
def functions_with_state_go_on_when_the_broker_was_killed():
    rng = random.Random(SEED)
    for case, backend in one_case(rng):
        with FireJob(case, RATE // 3, backend=backend) as job:
            job.start("--parallelism", 2)
            for _ in range(BROKER_KILLS):
                job.until_round(max(0, job.marker()) + 2)
                wait_a_moment(rng.uniform(0.0, 0.4))
                kit.broker_do("kill")
                wait_a_moment(rng.uniform(0.0, 1.0))
                kit.broker_do("restart")
                kit.until(lambda: job.marker() >= 0, "the broker", 60)
            job.signal(signal.SIGTERM)
            check(job.ends() == 0, "SIGTERM:", job.stderr()[-2000:])
            report(job, backend, "%d broker kills, %d restarts inside," % (
                BROKER_KILLS, job.summary()["restarts"]))


def crash_or_go_on(job, point, parallelism):
    """Whether that fault point was met; else it is killed after rounds."""
    enough = job.marker() + 8
    job.start("--parallelism", parallelism, fault=point)
    kit.until(lambda: job.p.poll() is not None or job.marker() >= enough,
              point, 60)
    met = job.p.poll() is not None
    if not met:  # a step of recovery: there was nothing to recover
        job.kill()
    check(job.p.returncode == -signal.SIGKILL, point, "ended with",
          job.p.returncode, job.stderr()[-2000:])
    return met


@test
def functions_with_state_crashed_at_each_point_lose_and_double_nothing():
    binary = fault_binary()
    rng = random.Random(SEED)
    points = ["%s=%d!" % (name, hit) for name, hit, _ in POINTS]
    for case, backend in cases(rng):
        some = rng.sample(points, len(points) if LONG else 4)
        if LONG:
            some += ["%s=1!" % name for name in SECOND]
        with FireJob(case, binary=binary, backend=backend) as job:
            job.start("--parallelism", 2)
            job.until_round(1)
            job.kill()
            crashes = 0
            for i, point in enumerate(some):
                crashes += crash_or_go_on(
                    job, point, PARALLEL[i % len(PARALLEL)])
            check(crashes > len(some) // 2, "only", crashes, "crashes of",
                  some)
            report(job, backend, "%d crashes at %d points," % (
                crashes, len(some)))


@test
def functions_with_state_recover_inside_the_process_from_a_failed_step():
    binary = fault_binary()
    rng = random.Random(SEED)
    for case, backend in one_case(rng):
        some = FAILING if LONG else rng.sample(FAILING, 2)
        with FireJob(case, binary=binary, backend=backend) as job:
            for point, hit in some:
                job.start("--parallelism", 2, fault="%s=%d" % (point, hit))
                kit.until(lambda: job.says("restart 1: goes on from"),
                          "a restart", 60, job=job)
                job.until_round(job.marker() + 3)
                job.kill()
            report(job, backend, "%d failures," % len(some))


@test
def functions_with_state_behind_lost_and_late_requests_stay_exact():
    rng = random.Random(SEED)
    servers, relayed = relay()
    with relayed:
        for case, backend in one_case(rng):
            with FireJob(case, servers=servers, backend=backend) as job:
                relayed.random(SEED, SHARE)
                before = relayed.faults()
                crashes, own = run_under_faults(job, relayed, rng, ROUNDS)
                relayed.random(0, 0)
                report(job, backend, "%d rounds, %d faults, %d crashes, "
                       "%d ends by itself," % (
                           job.marker(), relayed.faults() - before, crashes,
                           own))


if __name__ == "__main__":
    if "--long" in sys.argv:
        os.environ["STREAMLUA_LONG"] = "1"
        sys.argv.remove("--long")
    sys.exit(kit.main(__doc__))
