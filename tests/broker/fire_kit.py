"""What the tests of jobs with state share: live input, the job, comparing."""
import collections
import json
import threading

import eo_kit
import kit
from eo_kit import EoJob
from kit import check, until

RATE = 2500  # steps of make() a second


def line_of(fields):
    return json.dumps(fields, separators=(",", ":"))


class Live:
    """A case's input, which grows while its job runs."""
    topic = None  # there are several: topics

    def __init__(self, case, rate=RATE):
        self.case, self.rate, self.count = case, rate, 0
        self.topics = {name: kit.topic("fire-" + name, 4)
                       for name in case.inputs}
        self.feeds = {name: kit.Feed(topic)
                      for name, topic in self.topics.items()}
        self.rows, self.over = None, threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while not self.over.wait(0.1):
            rows = collections.defaultdict(list)
            last = self.count + self.rate // 10
            for i in range(self.count, last):
                for name, partition, fields in self.case.make(i):
                    rows[name].append((partition, None, None,
                                       line_of(fields)))
            for name, some in rows.items():
                self.feeds[name].put(some)
            self.count = last

    def end(self):
        """No more; returns the rows of all that was sent, by output."""
        if self.rows is None:
            self.over.set()
            self.thread.join()
            for feed in self.feeds.values():
                check(feed.close() == 0, "ktool produce failed")
            self.rows = self.case.rows(self.count)
        return self.rows


class FireJob(EoJob):
    """A job of fire_jobs.py, and its topics."""

    def __init__(self, case, rate=RATE, **more):
        self.case, self.text = case, case.text
        self.outs = {name: kit.topic("fire-" + name, 2)
                     for name in case.outputs}
        super().__init__(0, live=Live(case, rate), **more)

    def topics(self):
        return dict(self.live.topics, **self.outs)

    def rows(self):
        return {name: kit.values(topic) for name, topic in self.outs.items()}

    def compare(self, what="rows under read_committed"):
        got = self.rows()
        for name in self.case.outputs:
            eo_kit.differ(got[name], self.want[name], "%s: %s of %s" % (
                what, name, self.case.name))
        return sum(map(len, got.values()))

    def compare_part(self):
        """In the middle no row is there twice (no two are equal)."""
        got = self.rows()
        for name, rows in got.items():
            doubled = [k for k, n in collections.Counter(rows).items()
                       if n > 1]
            check(not doubled, "%s of %s: %d rows are doubled, first:" % (
                name, self.case.name, len(doubled)), sorted(doubled)[:1])
        return sum(map(len, got.values()))

    def finish(self, *flags, **params):
        """End the input, let all processing timers fire, run to the end."""
        self.want = self.live.end()
        if "once" in self.outs:
            # A processing timer that is pending at the end is dropped.
            self.start(*flags, **params)
            until(lambda: len(kit.values(self.outs["once"])) >=
                  len(self.want["once"]), "every processing timer",
                  eo_kit.END_S, job=self)
            self.kill()
        super().finish(*flags, **params)
        return self.compare()
