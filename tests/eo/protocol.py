"""The exactly-once protocol of one process, as a transition system.

A state is one nested tuple; successors() gives every step that anything can
take next. What is in it, and what is left out, stands in README.md.

state  = (broker, procs, dirs, budget)
broker = (ids, vis, mk, log, late)
  ids  = one (holder, open, prep) for each transactional id
         holder  process whose handle has the id's newest epoch, or NOBODY
         open    (lo, hi): records lo+1..hi are in the transaction, or None
         prep    (outs, marked): decided; rows outs = (lo, hi) or None, and
                 its marker, are not visible yet; None = all is
  vis  = how often each record is visible to a read_committed reader
  mk   = the last visible marker (lineage, round, position), or None
  log  = markers that are not visible yet, in the order of their offsets:
         (id, (lineage, round, position, owner), what), what = PENDING,
         DECIDED or DONE (committed, behind one that is not)
  late = frozenset of requests under way whose client has gone on:
         (kind, id)
procs  = one tuple for each process: (OFF,), or
  (pc, inside, fenced, moved, read, pos, base, stage)
         inside  recovers inside the process: it gives the job up when it
                 finds another owner
         fenced  fencings since it last committed a round
         moved   the marker is not what it read last, nor its own
         read    the marker it read, from READ to DECIDE
         pos     records processed; base: position at the last barrier
         stage   of its checkpoint thread
dirs   = one (lineage, cur, position, redo) for each process; redo = (round,
         position) or None; None where there is no directory
budget = (crashes, late requests, timeouts, rival starts) still allowed
"""
import collections

NOBODY = -1
PENDING, DECIDED, DONE = range(3)
(OFF, LOOK, INIT0, INIT1, READ, DECIDE, CLAIM, CLAIM_END, CLAIM_INIT,
 CLAIM_INIT2, CLAIM_CHECK, RUN) = range(12)
(IDLE, REDO, MARK, END, COMPLETE, RENEW, CHECK, REDO_LATE) = range(8)

# What kind of step it is: the process itself; the world without which nothing
# goes on (the broker finishes a commit, somebody starts a process again);
# mishaps.
SELF, WORLD, MISHAP = "self", "world", "mishap"

Options = collections.namedtuple("Options", (
    "records", "crashes", "lates", "timeouts", "rival",
    # The rules, each of which can be broken.
    "ids", "fresh_handle", "end_check", "look_first", "owner_check",
    "read_marker", "init_before_read", "init_both", "redo_first",
    "redo_durable", "claim", "fence_limit", "equality", "complete_first",
    "unknown_is_unknown", "attempt", "claim_next",
    "renew_both", "check_after_init"))

RULES = Options(
    records=3, crashes=2, lates=2, timeouts=1, rival=None,
    ids=2, fresh_handle=True, end_check=True, look_first=True,
    owner_check=True, read_marker=True, init_before_read=True,
    init_both=True, redo_first=True, redo_durable=True, claim=True,
    fence_limit=2, equality=True, complete_first=True,
    unknown_is_unknown=True, attempt=True, claim_next=True,
    renew_both=True, check_after_init=True)


def start(o):
    """The first state: a directory of lineage 0, nothing in Kafka."""
    ids = ((NOBODY, None, None),) * o.ids
    procs, dirs = [(OFF,)], [(0, 0, 0, None)]
    if o.rival:
        procs.append((OFF,))
        dirs.append(None)
    return ((ids, (0,) * o.records, None, (), frozenset()), tuple(procs),
            tuple(dirs), (o.crashes, o.lates, o.timeouts,
                          {"copy": 1, "empty": 2}.get(o.rival, 0)))


def put(t, i, x):
    return t[:i] + (x,) + t[i + 1:]


def give_up_handles(broker, p):
    """The process's handles are gone; what they sent may still arrive."""
    ids = tuple((NOBODY if t[0] == p else t[0], t[1], t[2])
                for t in broker[0])
    return (ids,) + broker[1:]


def forget_owner(broker, p):
    """A process that ended is nobody any more: its markers are another's."""
    ids, vis, mk, log, late = broker
    log = tuple((t, m[:3] + (NOBODY,), what) if m[3] == p else (t, m, what)
                for t, m, what in log)
    return ids, vis, mk, log, late


def bump(broker, t, holder):
    """A new epoch of id t for `holder`: aborts what is open, fences all."""
    ids, vis, mk, log, late = broker
    ids = put(ids, t, (holder, None, None))
    log = tuple(x for x in log if x[0] != t or x[2] != PENDING)
    return ids, vis, mk, log, late - {("end", t)}


def produce(broker, t, p, lo, hi, marker=None):
    """Rows lo+1..hi, or a marker, by p; with an old epoch never seen."""
    ids, vis, mk, log, late = broker
    holder, opened, prep = ids[t]
    if holder != p:
        return broker
    opened = (opened[0] if opened else lo, hi)
    if marker:
        log += ((t, marker, PENDING),)
    return put(ids, t, (p, opened, prep)), vis, mk, log, late


def end_txn(broker, t):
    """EndTxn(commit) with the newest epoch of id t: the decision is logged."""
    ids, vis, mk, log, late = broker
    holder, (lo, hi), _ = ids[t]
    marked = any(x[0] == t and x[2] == PENDING for x in log)
    prep = ((lo, hi) if hi > lo else None, marked)
    log = tuple((i, m, DECIDED if i == t and what == PENDING else what)
                for i, m, what in log)
    if prep == (None, False):
        prep = None
    return put(ids, t, (holder, None, prep)), vis, mk, log, late


def settle(broker, procs):
    """Markers become visible in the order of their offsets."""
    ids, vis, mk, log, late = broker
    while log and log[0][2] == DONE:
        mk, owner = log[0][1][:3], log[0][1][3]
        log = log[1:]
        procs = tuple(q if q[0] == OFF else put(q, 3, i != owner)
                      for i, q in enumerate(procs))
    return (ids, vis, mk, log, late), procs


class World:
    """One state taken apart, and the ways to make the next one."""
    __slots__ = ("o", "broker", "procs", "dirs", "budget")

    def __init__(self, o, state):
        self.o = o
        self.broker, self.procs, self.dirs, self.budget = state

    def next(self, broker=None, p=None, proc=None, dir=None, budget=None):
        """The state with these parts replaced."""
        procs, dirs = self.procs, self.dirs
        if proc is not None:
            procs = put(procs, p, proc)
        if dir is not None:
            dirs = put(dirs, p, dir)
        if broker is None:
            broker = self.broker
        if broker[3] and broker[3][0][2] == DONE:
            broker, procs = settle(broker, procs)
        return (broker, procs, dirs, budget or self.budget)

    def spend(self, i):
        return put(self.budget, i, self.budget[i] - 1)

    def off(self, p, broker=None, budget=None, dir=None):
        b = self.broker if broker is None else broker
        return self.next(forget_owner(give_up_handles(b, p), p), p, (OFF,),
                         budget=budget, dir=dir)

    def recover(self, p, fenced):
        """Destroy both handles and begin again inside the process."""
        _, _, count, moved, _, _, _, _ = self.procs[p]
        count += fenced
        if fenced and self.o.fence_limit and count >= self.o.fence_limit:
            return self.off(p)
        if not self.o.fence_limit:
            count = 0
        first = LOOK if self.o.look_first else INIT0
        if not self.o.init_before_read:
            first = READ
        return self.next(give_up_handles(self.broker, p), p,
                         (first, True, count, moved, None, 0, 0, IDLE))


def tid(o, n):
    return n % o.ids


def successors(o, state):
    """Every (label, kind, state) that may come next."""
    w = World(o, state)
    yield from broker_steps(w)
    for p, proc in enumerate(w.procs):
        pc = proc[0]
        if pc == OFF:
            yield from start_steps(w, p)
            continue
        if w.budget[0] > 0:
            yield from crash_steps(w, p)
        if pc == RUN:
            yield from slot_steps(w, p)
            yield from ckpt_steps(w, p)
        else:
            yield from start_up_steps(w, p)


# --- the broker -------------------------------------------------------------

def show_outputs(w, t):
    ids, vis, mk, log, late = w.broker
    holder, opened, ((lo, hi), marked) = ids[t]
    vis = tuple(min(2, c + (lo <= i < hi)) for i, c in enumerate(vis))
    prep = (None, True) if marked else None
    return w.next((put(ids, t, (holder, opened, prep)), vis, mk, log, late))


def show_marker(w, t):
    ids, vis, mk, log, late = w.broker
    holder, opened, (outs, _) = ids[t]
    prep = (outs, False) if outs else None
    log = tuple((i, m, DONE if i == t and what == DECIDED else what)
                for i, m, what in log)
    return w.next((put(ids, t, (holder, opened, prep)), vis, mk, log, late))


def broker_steps(w):
    ids, late = w.broker[0], w.broker[4]
    for t, (_, opened, prep) in enumerate(ids):
        if prep and prep[0]:
            yield "broker: rows of id %d are visible" % t, WORLD, \
                show_outputs(w, t)
        if prep and prep[1]:
            yield "broker: marker of id %d is written" % t, WORLD, \
                show_marker(w, t)
        if opened and w.budget[2] > 0:
            yield "broker: transaction of id %d timed out" % t, MISHAP, \
                w.next(bump(w.broker, t, NOBODY), budget=w.spend(2))
    for kind, t in late:
        left = w.broker[:4] + (late - {(kind, t)},)
        if kind == "init":
            if not ids[t][2]:  # else it is answered "concurrent" and gone
                left = bump(left, t, NOBODY)
        elif ids[t][1]:
            left = end_txn(left, t)
        yield "network: late %s of id %d arrives" % (kind, t), MISHAP, \
            w.next(left)


# --- processes that start, die ------------------------------------------------

def start_steps(w, p):
    first = INIT0 if w.o.init_before_read else READ
    fresh = (first, False, 0, False, None, 0, 0, IDLE)
    if p == 0:
        yield "A: starts", WORLD, w.next(p=p, proc=fresh)
        return
    there = w.dirs[p] is not None
    if there and (w.o.rival == "empty" or w.budget[3] == 0):
        yield "B: starts again", WORLD, w.next(p=p, proc=fresh)
    elif w.budget[3] > 0 and (there or w.o.rival == "empty"):
        yield "B: starts", MISHAP, w.next(p=p, proc=fresh,
                                          budget=w.spend(3))
    elif not there and w.o.rival == "copy":
        yield "B: gets a copy of A's directory", MISHAP, \
            w.next(p=p, dir=w.dirs[0])


NAME = "AB"


def crash_steps(w, p):
    yield "%s: crashes" % NAME[p], MISHAP, w.off(p, budget=w.spend(0))
    dir = w.dirs[p]
    if not w.o.redo_durable and dir and dir[3]:
        yield "%s: power cut, the unsynced redo is lost" % NAME[p], MISHAP, \
            w.off(p, budget=w.spend(0), dir=dir[:3] + (None,))


def init_steps(w, p, t, proc, at):
    """InitProducerId of id t by p, which then is `proc`."""
    ids, late = w.broker[0], w.broker[4]
    if ids[t][2]:
        return  # "concurrent transactions": it waits
    yield "%s: %s initialises id %d" % (NAME[p], at, t), SELF, \
        w.next(bump(w.broker, t, p), p, proc)
    if w.budget[1] > 0 and ("init", t) not in late:
        yield "%s: %s's InitProducerId of id %d is held, and sent again" % (
            NAME[p], at, t), MISHAP, \
            w.next(w.broker[:4] + (late | {("init", t)},),
                   budget=w.spend(1))


def after_inits(o, inside):
    if not o.init_both:
        return CLAIM
    skip = not o.init_before_read or (inside and not o.read_marker)
    return DECIDE if skip else READ


def after_init0(o, inside):
    if o.ids == 1 or not o.init_both:
        return DECIDE if inside and not o.read_marker else READ
    return INIT1


def start_up_steps(w, p):
    o, proc = w.o, w.procs[p]
    pc, inside, fenced, moved, read, _, _, _ = proc
    name = NAME[p]

    def at(next_pc, **more):
        return (next_pc, inside, fenced, more.get("moved", moved),
                more.get("read", read), 0, 0, IDLE)

    if pc == LOOK:
        if moved and o.owner_check:
            yield "%s: the marker moved: taken over, ends (73)" % name, \
                SELF, w.off(p)
        else:
            yield "%s: looks, the marker is unchanged" % name, SELF, \
                w.next(p=p, proc=at(INIT0))
    elif pc == INIT0:
        yield from init_steps(w, p, 0, at(after_init0(o, inside)), "start")
    elif pc == INIT1:
        yield from init_steps(w, p, 1, at(after_inits(o, inside)), "start")
    elif pc == READ:
        if inside and moved and o.owner_check and o.check_after_init:
            yield "%s: reads another's marker: taken over, ends (73)" % \
                name, SELF, w.off(p)
        else:
            then = DECIDE if o.init_before_read else INIT0
            yield "%s: reads marker %s" % (name, w.broker[2]), SELF, \
                w.next(p=p, proc=at(then, moved=False, read=w.broker[2]))
    elif pc == DECIDE:
        yield from decide_steps(w, p, at)
    else:
        yield from claim_steps(w, p, at)


def decide(o, dir, mk, inside):
    """What the equality rule says: "run", "complete", "discard", "refuse"."""
    lineage, cur, _, redo = dir
    if inside and not o.read_marker:
        return "discard" if redo else "run"
    if inside and redo and not o.unknown_is_unknown:
        return "discard"
    n = mk[1] if mk else 0
    if mk and mk[0] != lineage:
        return "refuse"
    if redo is None and n == cur:
        return "run"
    if redo and n == redo[0]:
        # The same number may have been tried with other records.
        same = mk[2] == redo[1] or not o.attempt
        return "complete" if same else "refuse"
    if redo and n == cur:
        return "discard"
    if not o.equality and n > cur:
        return "discard" if redo else "run"
    return "refuse"


def decide_steps(w, p, at):
    o, name, dir = w.o, NAME[p], w.dirs[p]
    mk = w.procs[p][4]
    then = CLAIM if o.claim else RUN

    def go(dir):
        if not o.init_both:
            return at(INIT1, read=None)
        if then == RUN:
            return running(at(RUN), dir)
        return at(CLAIM, read=None)

    if dir is None:
        if mk:
            yield "%s: no directory but a marker: refused (78)" % name, \
                SELF, w.off(p)
        else:
            dir = (p, 0, 0, None)
            yield "%s: a fresh start, new lineage" % name, SELF, \
                w.next(p=p, proc=go(dir), dir=dir)
        return
    what = decide(o, dir, mk, w.procs[p][1])
    if what == "refuse":
        yield "%s: marker %s, directory %s: refused (78)" % (name, mk, dir), \
            SELF, w.off(p)
        return
    if what == "complete":
        dir = (dir[0], dir[3][0], dir[3][1], None)
    elif what == "discard":
        dir = dir[:3] + (None,)
    yield "%s: decides to %s at round %d" % (name, what, dir[1]), SELF, \
        w.next(p=p, proc=go(dir), dir=dir)


def running(proc, dir):
    return (RUN, proc[1], proc[2], proc[3], None, dir[2], dir[2], IDLE)


def claim_steps(w, p, at):
    o, name, dir = w.o, NAME[p], w.dirs[p]
    pc = w.procs[p][0]
    t = tid(o, dir[1] + o.claim_next)
    if pc == CLAIM:
        broker = produce(w.broker, t, p, dir[2], dir[2], dir[:3] + (p,))
        yield "%s: claims, marker of round %d" % (name, dir[1]), SELF, \
            w.next(broker, p, at(CLAIM_END))
    elif pc == CLAIM_END:
        then = at(CLAIM_INIT) if o.fresh_handle else running(at(RUN), dir)
        yield from commit_steps(w, p, t, then, "the claim")
    elif pc == CLAIM_INIT:
        then = at(CLAIM_CHECK) if o.end_check else running(at(RUN), dir)
        if o.renew_both and o.ids > 1:
            then = at(CLAIM_INIT2)
        yield from init_steps(w, p, t, then, "after the claim")
    elif pc == CLAIM_INIT2:
        then = at(CLAIM_CHECK) if o.end_check else running(at(RUN), dir)
        yield from init_steps(w, p, 1 - t, then, "after the claim")
    elif w.procs[p][3]:
        yield "%s: the marker's end moved" % name, SELF, w.recover(p, 1)
    else:
        yield "%s: the marker's end is where it left it" % name, SELF, \
            w.next(p=p, proc=running(at(RUN), dir))


def commit_steps(w, p, t, then, what):
    """EndTxn of id t by p, which is `then` when it was answered."""
    ids, late = w.broker[0], w.broker[4]
    name = NAME[p]
    holder, opened, _ = ids[t]
    if holder != p:
        yield "%s: %s is fenced" % (name, what), SELF, w.recover(p, 1)
        return
    if opened is None:  # decided already: an answer was lost
        yield "%s: %s is answered the second time" % (name, what), SELF, \
            w.next(p=p, proc=then)
        yield "%s: what became of %s stays unknown" % (name, what), MISHAP, \
            w.recover(p, 0)
        return
    done = end_txn(w.broker, t)
    yield "%s: commits %s" % (name, what), SELF, w.next(done, p, then)
    yield "%s: commits %s, the answer is lost" % (name, what), MISHAP, \
        w.next(done)
    yield "%s: what became of %s stays unknown" % (name, what), MISHAP, \
        w.recover(p, 0)
    if w.budget[1] > 0 and ("end", t) not in late:
        yield "%s: EndTxn of %s is held, and sent again" % (name, what), \
            MISHAP, w.next(w.broker[:4] + (late | {("end", t)},),
                           budget=w.spend(1))


# --- a process that runs -------------------------------------------------------

def slot_steps(w, p):
    """Records, barriers, and fencing that a producer notices by itself."""
    o, name, proc, dir = w.o, NAME[p], w.procs[p], w.dirs[p]
    pos, base, stage = proc[5:]
    ids = w.broker[0]
    under_way = stage not in (IDLE, RENEW, CHECK)
    fill = dir[1] + 1 + under_way
    t = tid(o, fill)
    if pos < o.records and (o.ids > 1 or stage == IDLE):
        broker = produce(w.broker, t, p, pos, pos + 1)
        yield "%s: row %d goes to round %d" % (name, pos + 1, fill), SELF, \
            w.next(broker, p, put(proc, 5, pos + 1))
    if stage == IDLE and pos > base:
        first = REDO if o.redo_first else MARK
        yield "%s: barrier of round %d" % (name, fill), SELF, \
            w.next(p=p, proc=proc[:6] + (pos, first))
    if any(h != p for h, _, _ in ids):
        yield "%s: notices that it was fenced" % name, SELF, w.recover(p, 1)


def ckpt_steps(w, p):
    """The checkpoint thread."""
    o, name, proc, dir = w.o, NAME[p], w.procs[p], w.dirs[p]
    stage, base = proc[7], proc[6]
    n = dir[1] + 1
    t = tid(o, n)

    def at(stage, **more):
        return (RUN, proc[1], more.get("fenced", proc[2]), proc[3], None,
                proc[5], base, stage)

    if stage == REDO:
        yield "%s: redo of round %d is written" % (name, n), SELF, \
            w.next(p=p, proc=at(MARK), dir=dir[:3] + ((n, base),))
    elif stage == MARK:
        broker = produce(w.broker, t, p, base, base, (dir[0], n, base, p))
        yield "%s: marker of round %d is sent" % (name, n), SELF, \
            w.next(broker, p, at(END))
    elif stage == END:
        then = at(COMPLETE if o.redo_first else REDO_LATE)
        yield from commit_steps(w, p, t, then, "round %d" % n)
    elif stage == REDO_LATE:
        yield "%s: redo of round %d is written" % (name, n), SELF, \
            w.next(p=p, proc=at(COMPLETE), dir=dir[:3] + ((n, base),))
    elif stage == COMPLETE:
        yield from complete_steps(w, p, at)
    elif stage == RENEW:
        then = at(CHECK if o.end_check else IDLE)
        yield from init_steps(w, p, tid(o, dir[1]), then, "renewal")
    elif stage == CHECK:
        if proc[3]:
            yield "%s: the marker's end moved" % name, SELF, w.recover(p, 1)
        else:
            yield "%s: the marker's end is where it left it" % name, SELF, \
                w.next(p=p, proc=at(IDLE))


def complete_steps(w, p, at):
    o, name, proc, dir = w.o, NAME[p], w.procs[p], w.dirs[p]
    lineage, _, _, (n, hi) = dir
    done = (lineage, n, hi, None)
    after = RENEW if o.fresh_handle else IDLE
    yield "%s: round %d is complete" % (name, n), SELF, \
        w.next(p=p, proc=at(after, fenced=0), dir=done)
    # The broken variant commits the next round over a redo that is not
    # complete yet; it keeps the old one in memory only.
    pos, base = proc[5], proc[6]
    t = tid(o, n + 1)
    if not o.complete_first and pos > base and w.broker[0][t][0] == p:
        broker = produce(w.broker, t, p, pos, pos, (lineage, n + 1, pos, p))
        yield "%s: redo and marker of round %d before round %d is " \
            "complete" % (name, n + 1, n), SELF, \
            w.next(end_txn(broker, t), p,
                   (RUN,) + proc[1:6] + (pos, COMPLETE),
                   dir=dir[:3] + ((n + 1, pos),))
