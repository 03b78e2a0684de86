"""kill -9 at any moment under load, with another parallelism each time."""
import random

import eo_kit
import kit
from eo_kit import LONG, SEED, EoJob, Live, say, wait_a_moment
from kit import check, test

KILLS = 200 if LONG else 15
IN_A_JOB = 50 if LONG else 15
PARALLEL = (1, 4, 2)


def kill_often(job, rng, kills):
    """Start and kill it; returns how often a round came in between."""
    moved, last = 0, eo_kit.NO_ROUND
    for i in range(kills):
        p = PARALLEL[i % len(PARALLEL)]
        job.start("--parallelism", p)
        wait_a_moment(rng.uniform(0.05, 2.0))
        check(job.p.poll() is None, "it ended by itself:\n",
              job.stderr()[-2000:])
        job.kill()
        now = job.marker()
        check(now >= last, "the marker went back from", last, "to", now)
        moved += now > last
        last = now
    return moved


@test
def kills_at_random_moments_and_rescaling_lose_and_double_nothing():
    rng = random.Random(SEED)
    say("SEED=%d" % SEED)
    left = KILLS
    while left > 0:
        with EoJob(live=Live()) as job:
            moved = kill_often(job, rng, min(left, IN_A_JOB))
            check(moved > 0, "no round in between")
            visible = job.compare_part()
            job.finish("--parallelism", 2)
            say("%d kills, %d with a round since the one before, %d rows "
                "before the last run" % (min(left, IN_A_JOB), moved,
                                         visible))
            job.compare()
        left -= IN_A_JOB


@test
def a_kill_between_two_parallelisms_keeps_every_window():
    for scale in ((1, 4, 2), (4, 1, 3)):
        with EoJob(live=Live()) as job:
            for p in scale:
                job.start("--parallelism", p)
                job.until_round(max(0, job.marker()) + 2)
                job.kill()
            job.finish("--parallelism", scale[0])
            job.compare()


@test
def a_broker_that_is_killed_in_the_middle_of_rounds_changes_nothing():
    times = 20 if LONG else 2
    rng = random.Random(SEED)
    with EoJob(live=Live()) as job:
        job.start("--parallelism", 2)
        for _ in range(times):
            job.until_round(max(0, job.marker()) + 1)
            wait_a_moment(rng.uniform(0.0, 0.4))
            kit.broker_do("kill")
            wait_a_moment(rng.uniform(0.0, 1.0))
            kit.broker_do("restart")
            kit.until(lambda: job.marker() >= 0, "the broker", 60)
        job.compare_part()
        if rng.random() < 0.5:
            job.kill()
        else:
            job.signal(15)
            check(job.ends() == 0, "SIGTERM:", job.stderr()[-2000:])
            say("restarts inside:", job.summary()["restarts"])
        job.finish("--parallelism", 2)
        job.compare()


