"""Two processes for one job: stopped ones that wake up, rivals, copies."""
import os
import random
import re
import signal
import socket

import eo_kit
import kit
import proxy
from eo_kit import LONG, SEED, EoJob, Live, say, wait_a_moment
from kit import check, equal, test, until

TIMES = 25 if LONG else 3
CONCURRENT = 51  # a commit or abort is under way: ask again


def twin(job):
    """Another process for the same job, in a folder of its own."""
    other = EoJob(0)
    other.name, other.out, other.input = job.name, job.out, job.input
    return other


def copy_of(job, other):
    """The data directory of a stopped process, for another one."""
    eo_kit.copy_dir(job.dir, other.dir)


def stop_at_random(job, rng, rounds=2):
    job.until_round(max(0, job.marker()) + rounds)
    wait_a_moment(rng.uniform(0, 0.5))
    job.signal(signal.SIGSTOP)


def abort_both_ids(job):
    """What the coordinator does when the job's transactions time out."""
    for n in (0, 1):
        id = "streamlua-%s-%d" % (job.name, n)
        until(lambda: proxy.init_producer_id(kit.BROKER, id) != CONCURRENT,
              "a new epoch of " + id)


def end_and_compare(job, live, survivor):
    """SIGTERM the one that is left, run its directory to the end, compare."""
    survivor.signal(signal.SIGTERM)
    code = survivor.ends()
    check(code == 0, "the survivor ended with %d:\n%s" % (
        code, survivor.stderr()[-3000:]))
    survivor.live = job.live
    survivor.finish("--parallelism", 1)
    survivor.compare()
    check(live.over.is_set(), "the input has ended")


@test
def a_process_that_sleeps_past_its_transaction_timeout_recovers_once():
    rng = random.Random(SEED)
    say("SEED=%d" % SEED)
    live = Live(5000)
    with EoJob(live=live) as job:
        job.start("--parallelism", 2)
        for _ in range(TIMES):
            stop_at_random(job, rng)
            before = job.marker()
            abort_both_ids(job)
            seen = len(job.rows())
            job.signal(signal.SIGCONT)
            job.until_round(before + 2)
            check(job.p.poll() is None, "it ended:", job.stderr()[-2000:])
            check(len(job.rows()) >= seen, "rows vanished")
            job.compare_part()
        check(not job.says("taken over"), "it saw a rival where there is "
              "none:\n", job.stderr()[-3000:])
        job.signal(signal.SIGTERM)
        equal(job.ends(), 0, "exit code\n" + job.stderr()[-3000:])
        restarts = job.summary()["restarts"]
        say("stopped %d times, restarts: %d" % (TIMES, restarts))
        check(1 <= restarts <= TIMES, "restarts:", restarts)
        job.finish("--parallelism", 3)
        job.compare()


@test
def a_process_that_really_sleeps_past_the_timeout_writes_nothing_visible():
    if not LONG:
        raise kit.Skipped("a transaction lives for 80 s at least; --long")
    live = Live(2000)
    with EoJob(live=live) as job:
        job.start("--parallelism", 2, "-X", "transaction.timeout.ms=80400")
        stop_at_random(job, random.Random(SEED))
        before = job.marker()
        wait_a_moment(95)
        job.signal(signal.SIGCONT)
        job.until_round(before + 3)
        job.signal(signal.SIGTERM)
        equal(job.ends(), 0, "exit code\n" + job.stderr()[-3000:])
        say("restarts:", job.summary()["restarts"])
        job.finish()
        job.compare()


TAKEN = (r"job (\S+) was taken over \(checkpoint (\d+), here (\d+)\) "
         r"by (\S+):(\d+)")


def takeover(rng):
    """A stopped process, its directory copied, a successor, and it wakes."""
    live = Live(5000)
    with EoJob(live=live) as job, twin(job) as other:
        job.start("--parallelism", 2)
        stop_at_random(job, rng)
        copy_of(job, other)
        other.start("--parallelism", 4)
        other.until_round(job.marker() + 2)
        seen = other.compare_part()
        job.signal(signal.SIGCONT)
        equal(job.ends(), 73, "exit code of the sleeper\n" +
              job.stderr()[-3000:])
        words = re.search(TAKEN, job.stderr())
        check(words, "what it says:", job.stderr()[-2000:])
        equal((words.group(1), words.group(4), int(words.group(5))),
              (job.name, socket.gethostname(), other.p.pid), "by whom")
        check(int(words.group(2)) >= int(words.group(3)), "checkpoints:",
              words.group(0))
        other.until_round(other.marker() + 2)
        check(other.compare_part() >= seen, "rows vanished")
        end_and_compare(job, live, other)


@test
def a_sleeper_that_was_taken_over_ends_and_its_successor_goes_on():
    rng = random.Random(SEED)
    say("SEED=%d" % SEED)
    for _ in range(TIMES):
        takeover(rng)


@test
def two_processes_with_the_same_state_never_both_write():
    """A copy is started beside the running job: one of them is left."""
    rng = random.Random(SEED)
    ends = []
    for _ in range(TIMES):
        live = Live(5000)
        with EoJob(live=live, interval="%dms" % rng.choice((200, 2000))) \
                as job, twin(job) as other:
            other.params = job.params
            job.start("--parallelism", 2)
            stop_at_random(job, rng, 1)
            copy_of(job, other)
            job.signal(signal.SIGCONT)
            other.start("--parallelism", 1)
            gone = until(lambda: [x for x in (job, other)
                                  if x.p.poll() is not None],
                         "one of them ends", 60)
            left = other if gone[0] is job else job
            check(gone[0].p.returncode in (73, 78), "it ended with",
                  gone[0].p.returncode, gone[0].stderr()[-2000:])
            goal = left.marker() + 2
            until(lambda: left.marker() >= goal or
                  left.p.poll() is not None, "rounds of the other", 60)
            check(left.p.poll() is None, "nobody is left, the first:\n",
                  job.stderr()[-5000:], "\nthe second:\n",
                  other.stderr()[-5000:])
            ends.append("%s %d" % ("first" if gone[0] is job else "second",
                                   gone[0].p.returncode))
            left.compare_part()
            end_and_compare(job, live, left)
    say("who ended, with what:", ", ".join(ends))


@test
def a_second_process_on_the_same_directory_is_told_who_holds_it():
    with EoJob(live=Live(2000)) as job, twin(job) as other:
        job.start()
        job.until_round(1)
        other.start("--data-dir", os.path.join(job.folder, "streamlua-data"))
        equal(other.ends(), 73, "exit code\n" + other.stderr())
        check(other.says(re.escape(socket.gethostname())) and
              other.says(r"\b%d\b" % job.p.pid), "host and pid:",
              other.stderr())
        job.until_round(job.marker() + 2)
        job.signal(signal.SIGTERM)
        equal(job.ends(), 0, "exit code of the first")
        equal(job.summary()["restarts"], 0, "it was not disturbed")
        job.finish()
        job.compare()


@test
def the_same_job_with_another_directory_is_refused_with_both_values():
    with EoJob(live=Live(2000)) as job, twin(job) as other:
        job.start()
        job.until_round(2)
        for _ in range(2):  # twice: the first must not give up for it
            other.start()
            equal(other.ends(), 78, "exit code\n" + other.stderr())
            check(other.says("marker in Kafka is checkpoint [0-9]+") and
                  other.says("data directory '.*' has checkpoint 0"),
                  "both values:", other.stderr())
            check(other.says("--recover=discard-state"), "the way out:",
                  other.stderr())
            job.until_round(job.marker() + 2)
        check(job.p.poll() is None, "the first ended", job.stderr()[-2000:])
        job.signal(signal.SIGTERM)
        equal(job.ends(), 0, "exit code of the first\n" + job.stderr())
        say("restarts of the first:", job.summary()["restarts"])
        job.finish()
        job.compare()
