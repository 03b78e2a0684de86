"""A job behind the relay (proxy.py), killed now and then between rounds."""
import os
import signal
import threading

import kit
import proxy
from eo_kit import wait_a_moment
from kit import check

SHARE = 0.08  # of the requests, and of the rounds


def relay():
    with open(os.path.join(kit.BROKER_DIR, "proxy")) as f:
        listen = f.read()
    with open(os.path.join(kit.BROKER_DIR, "proxied")) as f:
        return listen, proxy.Proxy(listen, f.read())


class Watch(threading.Thread):
    """Kills the job with some chance at each round it sees."""

    def __init__(self, job, rng):
        super().__init__(daemon=True)
        self.job, self.rng = job, rng
        self.over = threading.Event()

    def run(self):
        last = self.job.marker()
        while not self.over.wait(0.05):
            now = self.job.marker()
            for _ in range(max(0, now - last)):
                if self.rng.random() < SHARE:
                    wait_a_moment(self.rng.uniform(0, 0.2))
                    self.job.p.kill()
                    return
            last = now


def run_under_faults(job, relayed, rng, rounds):
    """Run, and start again, until so many rounds are there.

    Returns (crashes, ends by itself).
    """
    crashes = own = 0
    while job.marker() < rounds:
        job.start("--parallelism", 2)
        watch = Watch(job, rng)
        watch.start()
        kit.until(lambda: job.p.poll() is not None or
                  job.marker() >= rounds, "rounds", 300)
        watch.over.set()
        watch.join()
        if job.p.poll() is None:
            job.kill()
        elif job.p.returncode == -signal.SIGKILL:
            crashes += 1
        else:
            # Two mishaps between two commits look like a rival: 73.
            own += 1
            check(job.p.returncode in (69, 73) and own < rounds,
                  "it ended with %d, %d times:\n%s" % (
                      job.p.returncode, own, job.stderr()[-3000:]))
    return crashes, own
