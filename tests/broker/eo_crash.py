"""A crash at every step of a round, and another one while it recovers."""
import random
import signal

import eo_kit
import kit
from eo_kit import LONG, SEED, EoJob, fault_binary, say
from eo_points import ANY, FAILING, POINTS, RUN, SAYS, SECOND
from kit import check, equal, test

WORK = 12000   # makes the input last for some rounds
COUNT = 20000


def said(text, outcome):
    """Whether the words of a restart are those of the outcome."""
    heard = [k for k, v in SAYS.items() if v in text]
    return outcome == ANY or heard == ([] if outcome == RUN else [outcome])


def crash_once(name, hit, outcome):
    with EoJob(COUNT, fault_binary(), work=WORK) as job:
        job.crash("%s=%d!" % (name, hit), "--bounded")
        job.compare_part()
        job.finish(work=0)
        check(said(job.stderr(), outcome), "after %s=%d! it must %s:\n%s" % (
            name, hit, outcome, job.stderr()[-2000:]))
        job.compare()


def crash_twice(first, hit, second):
    with EoJob(COUNT, fault_binary(), work=WORK) as job:
        job.crash("%s=%d!" % (first, hit), "--bounded")
        job.start("--bounded", fault="%s=1!" % second, work=WORK // 4)
        code = job.ends()
        # Some steps are not met again: nothing to complete, no round left.
        check(code in (0, -signal.SIGKILL), "%s then %s: ended with %d:\n%s" %
              (first, second, code, job.stderr()[-2000:]))
        if code != 0:
            job.compare_part()
            job.finish(work=0)
        job.compare()
    return code != 0


def each(cases, what, f):
    """Run f for all cases; says all that fail."""
    failed = []
    for n, case in enumerate(cases):
        if n and n % 50 == 0:
            say("%d of %d %s, %d failed" % (n, len(cases), what, len(failed)))
        try:
            f(*case)
        except AssertionError as e:
            failed.append("%s: %s" % (case, str(e)[:1500]))
            say("not ok", case, str(e)[:300])
    check(not failed, "%d of %d %s fail:\n" % (len(failed), len(cases), what),
          "\n".join(failed))


@test
def a_crash_at_each_point_of_a_round_loses_and_doubles_nothing():
    fault_binary()
    each(POINTS, "crashes", crash_once)
    say("%d points" % len(POINTS))


@test
def a_second_crash_while_it_recovers_from_the_first_changes_nothing():
    fault_binary()
    pairs = [(a, n, b) for a, n, _ in POINTS for b in SECOND]
    if not LONG:
        pairs = random.Random(SEED).sample(pairs, 8)
        say("SEED=%d" % SEED, ", ".join("%s+%s" % (a, b)
                                        for a, _, b in pairs))
    hits = []
    each(pairs, "pairs", lambda *case: hits.append(crash_twice(*case)))
    say("%d pairs, %d with both crashes" % (len(pairs), sum(hits)))


def fail_inside(name, hit):
    with EoJob(COUNT, fault_binary(), work=WORK) as job:
        job.start("--bounded", fault="%s=%d" % (name, hit))
        equal(job.ends(), 0, "exit code\n" + job.stderr()[-2000:] + "\n")
        check(job.summary()["restarts"] >= 1, "it did not restart:",
              job.stderr()[-2000:])
        equal(job.step("in")["records_in"], COUNT, "records read, once each")
        job.compare()


@test
def a_step_that_fails_is_recovered_from_inside_the_process():
    fault_binary()
    each(FAILING, "failures", fail_inside)


def crash_inside(point):
    with EoJob(COUNT, fault_binary(), work=WORK) as job:
        job.crash("txn_committed=3," + point, "--bounded")
        job.compare_part()
        job.finish(work=0)
        job.compare()


@test
def a_crash_while_it_recovers_inside_the_process_changes_nothing():
    fault_binary()
    points = [("recover_begin=2!",), ("recover_looked=1!",),
              ("recover_decided=2!",), ("txn_claimed=2!",),
              ("restore_begin=2!",), ("restore_done=2!",)]
    each(points if LONG else points[1:4], "crashes", crash_inside)


