"""The example job, killed every few seconds while its input goes through."""
import collections
import json
import os
import random

import eo_kit
import kit
from eo_kit import LONG, SEED, Live, say, wait_a_moment
from kit import check, equal, test

COUNT = 2000000 if LONG else 100000
RATE = 40000 if LONG else 20000
START = 1767225600000
PARALLEL = (1, 4, 2)
MINUTE = 60000


def event(i):
    """Some thousand keys; half a millisecond between two."""
    n = i * 2654435761 % 1000003
    return {"dimensions": {"host": "h%d" % (n % 7), "dc": "ber"},
            "metric_name": ("cpu", "mem", "net")[n % 3],
            "tenant_id": "t%d" % (n % 41), "ts": START + i // 2,
            "user": n % 200, "value": n % 1000}


def wanted(events):
    """(key, window) -> the values that plain Python can tell exactly."""
    sums = collections.defaultdict(lambda: [0, 0])
    for e in events:
        cell = sums[e["tenant_id"], e["metric_name"],
                    json.dumps(e["dimensions"], sort_keys=True),
                    e["ts"] // MINUTE * MINUTE]
        cell[0] += e["value"]
        cell[1] += 1
    return {k: (total, n, total / n) for k, (total, n) in sums.items()}


def exact_part(lines):
    out = {}
    for line in lines:
        r = json.loads(line)
        key = (r["tenant_id"], r["metric_name"],
               json.dumps(r["dimensions"], sort_keys=True),
               r["window_start"])
        check(key not in out, "two rows for", key)
        out[key] = (r["total"], r["n"], r["mean"])
    return out


def example(name):
    """The job as it lies in jobs/, with a shorter interval."""
    path = os.path.join(kit.TOP, "jobs", "tenant_metrics.lua")
    with open(path) as f:
        text = f.read()
    changed = text.replace('s.job("tenant-metrics", {',
                           's.job("%s", {\n  checkpoint = { interval = "1s" '
                           '},' % name)
    check(changed != text, "the example has another beginning")
    return changed


def settings(topic_in, topic_out):
    out = []
    for k, v in (("input", "kafka"), ("output", "kafka"),
                 ("topic_in", topic_in), ("topic_out", topic_out)):
        out += ["--set", "%s=%s" % (k, v)]
    return out


class Example(kit.Job):
    """Made, but not started before start() is called."""
    made = False

    def start(self, *flags, stderr=None):
        if not self.made:
            self.made = True
            return self
        return super().start(*flags, stderr=stderr)


def undisturbed(topic_in):
    """Sorted rows of a run of its own that nobody kills."""
    topic_out = kit.topic("tenant-quiet", 2)
    kit.run(example("quiet-%d" % os.getpid()), "--bounded",
            *settings(topic_in, topic_out))
    return sorted(kit.values(topic_out))


@test
def the_example_killed_every_few_seconds_and_rescaled_gives_the_same_rows():
    rng = random.Random(SEED)
    live = Live(RATE, event, COUNT)
    topic_out = kit.topic("tenant-out", 2)
    flags = settings(live.topic, topic_out)
    kills = 0
    with Example(example("tenant-%d" % os.getpid())) as job:
        while not live.is_over():
            job.start("--parallelism", PARALLEL[kills % 3], *flags)
            wait_a_moment(rng.uniform(1.5, 4.5))
            check(job.p.poll() is None, "it ended by itself:\n",
                  job.stderr()[-2000:])
            job.p.kill()
            job.p.wait()
            kills += 1
        events = live.stop()
        job.start("--bounded", "--parallelism", 2, *flags)
        equal(job.p.wait(eo_kit.END_S), 0, "exit code\n" +
              job.stderr()[-2000:])
    got = sorted(kit.values(topic_out))
    say("SEED=%d, %d records, %d kills, %d rows" % (SEED, live.count, kills,
                                                    len(got)))
    equal(exact_part(got), wanted(events), "sums, counts and means")
    eo_kit.differ(got, undisturbed(live.topic), "rows of a quiet run")
