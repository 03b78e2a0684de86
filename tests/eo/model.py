#!/usr/bin/env python3
"""Explore the exactly-once protocol: every interleaving, every mishap.

usage: model.py [--long] [--list] [NAME...]

Runs the protocol as it is in several settings, where no bad state may be
found, and broken variants of it, each of which must show the bad state it is
known for; the shortest way there is printed. NAMEs choose among them.
--long (or STREAMLUA_LONG=1) allows more records, crashes and lost messages
(minutes), and leaves out rules that are a second line only.

A bad state is
  doubled   a row is visible twice under read_committed
  lost      a row is visible and one before it never will be
  marker    what is visible is not what the marker says
  stuck     from here, without any further mishap, the end is out of reach
  pingpong  processes can fence each other for ever

The last line is "N passed, N failed, N skipped".
"""
import collections
import multiprocessing
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from protocol import (IDLE, OFF, RULES, RUN, SELF, MISHAP, start,  # noqa: E402
                      successors)

STATES_MAX = 5000000
WORKERS = 2  # each may need 0.4 GB


def safety(state):
    """The name of what is wrong with this state, or None."""
    ids, vis, mk, log, _ = state[0]
    if 2 in vis:
        return "doubled"
    prep = [t[2] for t in ids if t[2]]
    final = list(vis)
    for outs, _ in prep:
        if outs:
            for i in range(*outs):
                if final[i]:
                    return "doubled"
                final[i] = 1
    if any(b > a for a, b in zip(final, final[1:])):
        return "lost"
    if not prep and not any(x[2] for x in log) and sum(vis) != (mk[2] if mk else 0):
        return "marker"
    return None


def is_end(o, state):
    """All rows are out, the marker says so, and a process rests at it."""
    (ids, vis, mk, log, _), procs, dirs, _ = state
    if log or any(t[2] for t in ids) or min(vis) == 0 or not mk \
            or mk[2] != o.records:
        return False
    return any(q[0] == RUN and q[7] == IDLE and d[:3] == mk
               for q, d in zip(procs, dirs) if d)


class Found(Exception):
    def __init__(self, kind, way):
        super().__init__(kind)
        self.kind, self.way = kind, way


class Explorer:
    def __init__(self, options, look_for=None):
        self.o = options
        self.look_for = look_for  # one kind, or None = any
        self.number = {}          # state -> its number
        self.came = []            # number -> (number before, label)
        self.quiet = []           # number -> numbers after it, no mishap
        self.own = []             # number -> those by a process's own steps

    def wants(self, kind):
        return kind is not None and self.look_for in (None, kind)

    def way(self, n):
        out = []
        while self.came[n] is not None:
            n, label = self.came[n]
            out.append(label)
        return out[::-1]

    def add(self, state, before):
        n = len(self.came)
        self.number[state] = n
        self.came.append(before)
        self.quiet.append([])
        self.own.append([])
        kind = safety(state)
        if self.wants(kind):
            raise Found(kind, self.way(n))
        return n

    def run(self):
        """Visit every state; raises Found at the first bad one."""
        first = start(self.o)
        self.add(first, None)
        queue = collections.deque([(first, 0)])
        ends = []
        while queue:
            state, n = queue.popleft()
            if is_end(self.o, state):
                ends.append(n)
            for label, kind, after in successors(self.o, state):
                m = self.number.get(after)
                if m is None:
                    m = self.add(after, (n, label))
                    queue.append((after, m))
                    if m > STATES_MAX:
                        raise SystemExit("more than %d states" % STATES_MAX)
                if kind != MISHAP:
                    self.quiet[n].append(m)
                    if kind == SELF:
                        self.own[n].append(m)
        if self.wants("stuck"):
            self.find_stuck(ends)
        if self.wants("pingpong"):
            self.find_circle()
        return len(self.came)

    def find_stuck(self, ends):
        """Every state must have a way to an end without a mishap."""
        before = [[] for _ in self.came]
        for n, after in enumerate(self.quiet):
            for m in after:
                before[m].append(n)
        good = bytearray(len(self.came))
        stack = list(ends)
        for n in ends:
            good[n] = 1
        while stack:
            for n in before[stack.pop()]:
                if not good[n]:
                    good[n] = 1
                    stack.append(n)
        bad = good.find(0)
        if bad >= 0:
            raise Found("stuck", self.way(bad))

    def find_circle(self):
        """No process may go round for ever by its own steps."""
        left = [0] * len(self.came)
        for after in self.own:
            for m in after:
                left[m] += 1
        stack = [n for n, c in enumerate(left) if c == 0]
        gone = 0
        while stack:
            n = stack.pop()
            gone += 1
            for m in self.own[n]:
                left[m] -= 1
                if left[m] == 0:
                    stack.append(m)
        if gone == len(left):
            return
        at = next(n for n, c in enumerate(left) if c)
        seen = {}
        walk = [at]  # forwards among what is left, until one comes again
        back = [[] for _ in left]
        for n, after in enumerate(self.own):
            if left[n]:
                for m in after:
                    if left[m]:
                        back[m].append(n)
        while walk[-1] not in seen:
            seen[walk[-1]] = len(walk) - 1
            walk.append(back[walk[-1]][0])
        circle = walk[seen[walk[-1]]:][::-1]
        names = {n: s for s, n in self.number.items()}
        way = self.way(circle[0]) + ["-- and round and round:"]
        for n, m in zip(circle, circle[1:]):
            way.append(next(label for label, _, s in
                            successors(self.o, names[n])
                            if self.number[s] == m))
        raise Found("pingpong", way)


# name, changes to RULES, changes with --long
COPY = {"rival": "copy", "records": 2, "crashes": 0, "lates": 0,
        "timeouts": 0}
AS_IT_IS = (
    ("one process", {"lates": 1}, {"records": 4, "crashes": 3, "lates": 2}),
    ("one process, many mishaps", {"records": 2, "timeouts": 2},
     {"records": 3, "crashes": 3, "lates": 3}),
    ("a rival with a copy of the directory", COPY,
     {"crashes": 1, "timeouts": 1}),
    ("a rival with an empty directory", dict(COPY, rival="empty"),
     {"crashes": 1, "lates": 1}),
    ("one id in turn with itself, and a rival", dict(COPY, ids=1),
     {"crashes": 1, "lates": 1}),
)

# name, kind it must show, changes to RULES
ALONE = {"records": 2, "crashes": 1, "lates": 1, "timeouts": 0}
BROKEN = (
    ("the handle is kept over rounds", "doubled",
     dict(ALONE, fresh_handle=False)),
    ("a recovery does not read the marker after its init", "doubled",
     dict(ALONE, read_marker=False)),
    ("the marker's end is not looked at after an init", "doubled",
     dict(COPY, end_check=False)),
    ("one id, and the marker's end is not looked at after an init",
     "doubled", dict(COPY, ids=1, end_check=False)),
    ("the redo is written after the commit", "stuck",
     dict(ALONE, redo_first=False)),
    ("the redo is not durable", "stuck", dict(ALONE, redo_durable=False)),
    ("the redo is not durable, and a marker ahead is taken for granted",
     "doubled", dict(ALONE, redo_durable=False, equality=False)),
    ("the marker is read before the ids are initialised", "doubled",
     dict(ALONE, init_before_read=False, equality=False)),
    ("only one id is initialised before the marker is read", "doubled",
     dict(ALONE, crashes=2, init_both=False)),
    ("a directory behind the marker may start", "doubled",
     dict(COPY, equality=False)),
    ("the claim goes through the id of the last round", "doubled",
     dict(COPY, claim_next=False)),
    ("a redo is completed by its number alone", "marker",
     dict(COPY, attempt=False)),
    ("fencing is never the end", "pingpong", dict(COPY, fence_limit=0)),
    ("no claim, and fencing is never the end", "pingpong",
     dict(COPY, claim=False, fence_limit=0)),
    ("round N+1 is committed before N is complete", "stuck",
     dict(ALONE, records=3, complete_first=False)),
    ("an unknown commit is taken for none", "doubled",
     dict(ALONE, unknown_is_unknown=False)),
)

# Rules that are a second line: without one of them alone nothing bad is
# found, and this list says so, in order that nobody believes they carry.
SECOND_LINE = (
    ("no claim", dict(COPY, claim=False)),
    ("no look at the marker before a recovery's init",
     dict(COPY, look_first=False)),
    ("a recovery that finds another's claim after its init goes on",
     dict(COPY, check_after_init=False)),
)


def cases(long_form):
    """(name, kind or None, options) of all that is explored."""
    for name, changes, more in AS_IT_IS:
        if long_form:
            changes = dict(changes, **more)
        yield name, None, RULES._replace(**changes)
    for name, kind, changes in BROKEN:
        yield "broken: " + name, kind, RULES._replace(**changes)
    for name, changes in SECOND_LINE if long_form else ():
        yield "second line: " + name, None, RULES._replace(**changes)


def explore(case):
    """(whether it is as it must be, text) of one case."""
    name, kind, options = case
    begun = time.monotonic()
    e = Explorer(options, kind)
    found, way = None, []
    try:
        e.run()
    except Found as f:
        found, way = f.kind, f.way
    text = "%s %s: %d states, %.1f s: %s\n" % (
        "ok" if found == kind else "not ok", name, len(e.came),
        time.monotonic() - begun,
        "%s after %d steps" % (found, len(way)) if found else "nothing bad")
    for i, label in enumerate(way):
        text += "  %3d  %s\n" % (i + 1, label)
    return found == kind, text


def main():
    args = sys.argv[1:]
    if args and args[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    names = [a for a in args if not a.startswith("--")]
    long_form = "--long" in args or os.environ.get("STREAMLUA_LONG") == "1"
    chosen = [c for c in cases(long_form)
              if not names or any(n in c[0] for n in names)]
    if "--list" in args:
        print("\n".join(c[0] for c in chosen))
        return 0
    results = []
    with multiprocessing.Pool(WORKERS, maxtasksperchild=1) as pool:
        for ok, text in pool.imap(explore, chosen, 1):
            results.append(ok)
            sys.stdout.write(text)
            sys.stdout.flush()
    print("%d passed, %d failed, 0 skipped" % (sum(results),
                                               len(results) - sum(results)))
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main())
