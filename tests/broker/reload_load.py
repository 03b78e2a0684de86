"""Reloads under load, with kills at random moments and at each step."""
import random
import signal
import time

from eo_kit import LONG, SEED, fault_binary, say, wait_a_moment
from kit import check, equal, test, until
from reload_kit import ReloadJob, text_of

SECONDS = 60 if LONG else 12
TICK_S = 1.0
WIDE = (1, 2, 4)


def change(job, rng, n):
    """Bring in the next version by one of the ways there are.

    @return the verb that asks, or None; the parallelism it asks for, or None.
    """
    way = n % 3
    if way == 0:
        job.hup()
        return None, None
    if way == 1:
        wide = WIDE[n // 3 % len(WIDE)]
        return job.reload("--parallelism", wide), wide
    return job.reload(change=rng.random() < 0.5), None


def kill(job, rng, asked):
    """Somewhere between the request and a while behind the swap."""
    wait_a_moment(rng.choice((0.1, 0.4, 1.2)) * rng.random())
    check(job.p.poll() is None, "it ended by itself:", job.stderr()[-2000:])
    job.kill()
    if asked is not None:
        asked.communicate(timeout=60)


def reload_for(job, rng, seconds):
    """A version each second; @return how many, and how many kills."""
    changes = kills = 0
    next_kill = rng.randint(2, 4)
    due = end = time.monotonic() + seconds
    due -= seconds
    while time.monotonic() < end:
        due = max(due + TICK_S, time.monotonic())
        asked, wide = change(job, rng, changes)
        changes += 1
        next_kill -= 1
        if next_kill == 0:
            kill(job, rng, asked)
            kills += 1
            next_kill = rng.randint(2, 4)
            job.begin("--parallelism", rng.choice(WIDE),
                      change=rng.random() < 0.3)
        elif asked is not None:
            out, err = asked.communicate(timeout=60)
            check(asked.returncode == 0, "reload:", asked.returncode, out,
                  err, job.stderr()[-2000:])
            if wide is not None:
                equal(job.ask()["parallelism"], wide, "parallelism")
        job.until_running()
        wait_a_moment(max(0.0, due - time.monotonic()))
    return changes, kills


@test
def a_reload_each_second_and_kills_leave_every_round_to_one_version():
    rng = random.Random(SEED)
    backend = rng.choice(("lmdb", "memory"))
    with ReloadJob(2000 if LONG else 1000, backend=backend) as job:
        job.begin("--parallelism", 2)
        job.until_round(1)
        changes, kills = reload_for(job, rng, SECONDS)
        job.kill()
        job.finish("--parallelism", 2)
        rounds, versions, unsure = job.compare()
        say("SEED=%d %s: %d reloads and %d kills, %d records, %d rounds of "
            "%d versions, of %d the log died before it told" % (
                SEED, backend, changes, kills, job.live.count, rounds,
                versions, unsure))
        check(versions >= changes // 3, "only", versions, "versions")


# Which hit in a run with one reload and no other round: the start's claim and
# the swap's round come before those of the new version.
STEPS = (
    "reload_prepare=1!", "reload_swap=1!", "round_begin=1!",
    "round_frozen=1!", "ckpt_prepare=1!", "store_write=1!",
    "store_written=1!", "txn_marker=2!", "txn_commit=2!", "txn_committed=2!",
    "store_complete=1!", "store_completed=1!", "sink_committed=1!",
    "source_committed=1!", "round_done=1!", "reload_swapped=1!",
    "recover_begin=2!", "recover_decided=2!", "txn_init=5!", "txn_init=7!",
    "txn_claimed=2!", "restore_begin=8!", "restore_done=8!",
    "round_frozen=2!", "ckpt_prepare=2!", "store_write=2!",
    "store_written=2!", "txn_marker=4!", "txn_commit=4!", "txn_committed=4!",
    "store_complete=2!", "store_completed=2!", "sink_committed=2!",
    "source_committed=2!", "reload_accepted=1!", "round_done=2!",
    "reload_rollback=1!")
# Behind the commit of the new version's first round, it is the job's.
NEW = STEPS[STEPS.index("txn_committed=4!"):-1]
FAILS = "if e.i % 10 == 3 then error 'not so' end "


def crash_at(job, step):
    """Reload it until it dies at that step, then start it again.

    @return whether it died there and not before, and the old version stayed.
    """
    bad = step.startswith("reload_rollback")
    job.begin("--parallelism", 2, fault=step)
    until(lambda: job.signals("SigCgt", signal.SIGUSR1) or
          job.p.poll() is not None, "a start")
    early = job.p.poll() is not None
    if not early:
        job.hup(text_of(job.v + 1, body=FAILS) if bad else None)
    until(lambda: job.p.poll() is not None or job.is_at_rest(), step, 60)
    for _ in range(30):  # steps behind the last word
        if job.p.poll() is None:
            wait_a_moment(0.1)
    there = job.p.poll() == -signal.SIGKILL and not early
    job.kill()
    job.begin("--parallelism", 2, change=bad)
    job.until_running()
    said = job.stderr()
    job.kill()
    return there, " at start" in said


@test
def a_crash_at_each_step_of_a_reload_leaves_one_of_the_two_versions():
    binary = fault_binary()
    rng = random.Random(SEED)
    steps = STEPS if LONG else rng.sample(STEPS, 3) + rng.sample(NEW, 2)
    with ReloadJob(1000, binary=binary, interval="5m") as job:
        job.begin("--parallelism", 2)
        job.opened()
        job.hup()
        job.until_round(1)
        job.kill()
        died = {step: crash_at(job, step) for step in steps}
        job.finish("--parallelism", 2)
        rounds, versions, unsure = job.compare()
        missed = [step for step, (there, _) in died.items() if not there]
        check(not missed, "no crash at", missed)
        wrong = [step for step, (_, old) in died.items()
                 if old == (step in NEW)]
        check(not wrong, "the other version is left after", wrong)
        say("SEED=%d %d crashes, %d left the old version, %d rounds of %d "
            "versions, of %d the log died before it told" % (
                SEED, len(steps), sum(old for _, old in died.values()),
                rounds, versions, unsure))
