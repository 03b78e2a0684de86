"""Three jobs with state, what goes into them, and what must come out.

A Case names the job's text, its input and output topics, make(i), which gives
the i-th records as (topic, partition, fields), and rows(count), which computes
in plain Python what all outputs hold in the end. Each rule of the jobs is one
whose answer does not depend on when anything happens: keys whose order counts
lie in one partition; what a timer tells concerns only what had to be there
when the watermark reached it; who waits for another compares times.

    memory  process: every kind of state, event and processing timers, timers
            that are deleted, calls that fail, are undone, and quarantined
    first   dedup for ever and with a ttl, state with a ttl by event time,
            split into two sinks, reduce
    pair    connect of two topics whose keys lie in different partitions,
            top_n with and without ties under late records, the hottest key
"""
import collections
import json
import zlib

PARTITIONS = 4
STEP_MS = 5  # event time between two records
Case = collections.namedtuple("Case", "name text inputs outputs make rows")

HEAD = """local s = require "streamlua"
local function from(name)
  return s.kafka { topic = s.param(name), start = "earliest" }
end
local function to(name)
  return s.kafka { topic = s.param(name), delivery = "exactly_once" }
end
local job = s.job(s.param("name"), {
  checkpoint = { interval = s.param("interval", "200ms") },
  max_parallelism = 16,
  state = { backend = s.param("backend", "lmdb") },
  restart = { initial_backoff = "100ms", max_backoff = "1s" },
})
"""


def draw(i, what, n):
    """A number below n that belongs to record i."""
    return zlib.crc32(b"%d/%d" % (i, what)) % n


def text_of(fields):
    """As the engine writes a Lua table: names in byte order, no spaces."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def line_of(fields):
    """As it was produced."""
    return json.dumps(fields, separators=(",", ":"))


# --- memory ---------------------------------------------------------------------

BUCKET_MS, QUIET_MS = 500, 333

MEMORY = HEAD.replace("  restart =", """  quarantine = to "bad",
  restart =""") + """
local BUCKET, QUIET = %d, %d
local rows = job:source("in", from "records")
  :event_time { field = "ts", out_of_orderness = "200ms", idle = false }
  :key_by "k"
  :process {
    name = "memory", on_error = "quarantine", outputs = { "timed", "once" },
    state = {
      last = s.value_state(), newest = s.value_state(),
      kinds = s.map_state(), recent = s.list_state(),
      sum = s.aggregating_state(s.sum "v"),
      top = s.reducing_state(function(a, b) return math.max(a, b) end),
      open = s.map_state(), quiet = s.map_state(), due = s.map_state(),
    },
    on_record = function(e, ctx)
      local st = ctx.state
      local prev = st.last:get() or -1
      st.last:set(e.i)
      st.kinds:put(e.c, (st.kinds:get(e.c) or 0) + 1)
      local kinds = {}
      for c, n in st.kinds:pairs() do kinds[#kinds + 1] = c .. n end
      st.recent:add(e.i)
      local recent = st.recent:get()
      if #recent > 3 then
        table.remove(recent, 1)
        st.recent:update(recent)
      end
      st.sum:add(e)
      st.top:add(e.v)

      local bucket = (e.ts // BUCKET + 1) * BUCKET
      st.open:put(bucket, (st.open:get(bucket) or 0) + 1)
      ctx:register_event_timer(bucket)

      local newest = st.newest:get()
      if newest and e.ts < newest + QUIET then -- not silent: take it back
        st.quiet:remove(newest + QUIET)
        if not st.open:has(newest + QUIET) then -- else it is both in one
          ctx:delete_event_timer(newest + QUIET)
        end
      end
      newest = math.max(newest or e.ts, e.ts)
      st.newest:set(newest)
      ctx:register_event_timer(newest + QUIET)
      st.quiet:put(newest + QUIET, true)

      if e.arm then
        local at = ctx:now() + 150
        local due = st.due:get(at) or {}
        due[#due + 1] = e.i
        st.due:put(at, due)
        ctx:register_processing_timer(at)
      end
      ctx:emit { k = e.k, i = e.i, prev = prev, kinds = kinds,
                 recent = recent, sum = st.sum:get(), top = st.top:get() }
      if e.bad then error "undo all of this" end
    end,
    on_timer = function(ts, ctx)
      local st = ctx.state
      if ctx:clock() == "processing" then
        for _, i in ipairs(st.due:get(ts) or { -1 }) do
          ctx:emit_to("once", { i = i, k = ctx:key() })
        end
        st.due:remove(ts)
        return
      end
      local n, quiet = st.open:get(ts), st.quiet:get(ts)
      if n then ctx:emit_to("timed", { k = ctx:key(), at = ts, n = n }) end
      if quiet then
        ctx:emit_to("timed", { k = ctx:key(), quiet_since = ts - QUIET })
      end
      if not n and not quiet then
        ctx:emit_to("timed", { k = ctx:key(), at = ts, nothing = true })
      end
      st.open:remove(ts)
      st.quiet:remove(ts)
    end,
  }
rows:sink("rows", to "rows")
rows:side_output "timed":sink("timed", to "timed")
rows:side_output "once":sink("once", to "once")
return job
""" % (BUCKET_MS, QUIET_MS)


def memory_record(i):
    return {"ts": 1000 + i * STEP_MS - draw(i, 1, 150),
            "k": draw(i, 2, 28), "i": i, "c": "abcde"[draw(i, 3, 5)],
            "v": draw(i, 4, 1000), "bad": draw(i, 5, 23) == 0,
            "arm": draw(i, 6, 40) == 0}


def memory_make(i):
    r = memory_record(i)
    return [("records", r["k"] % PARTITIONS, r)]


class Key:
    """What is known of a key of `memory`."""

    def __init__(self):
        self.ids, self.times, self.kinds = [], [], collections.Counter()
        self.sum = self.top = 0


def silences(times):
    """Newest times that are not followed within QUIET_MS."""
    newest, out = None, []
    for t in times:
        if newest is not None and t >= newest + QUIET_MS:
            out.append(newest)
        newest = t if newest is None else max(newest, t)
    return out + [newest]


def memory_rows(count):
    keys = collections.defaultdict(Key)
    rows, timed, once, bad = [], [], [], []
    for r in map(memory_record, range(count)):
        if r["bad"]:
            bad.append(line_of(r))
            continue  # the call fails: nothing else is left of it
        key = keys[r["k"]]
        prev = key.ids[-1] if key.ids else -1
        key.ids.append(r["i"])
        key.sum += r["v"]
        key.top = max(key.top, r["v"])
        key.times.append(r["ts"])
        key.kinds[r["c"]] += 1
        rows.append(text_of({
            "k": r["k"], "i": r["i"], "prev": prev,
            "kinds": ["%s%d" % x for x in sorted(key.kinds.items())],
            "recent": key.ids[-3:], "sum": key.sum, "top": key.top}))
        if r["arm"]:
            once.append(text_of({"i": r["i"], "k": r["k"]}))
    for k, key in keys.items():
        buckets = collections.Counter(t // BUCKET_MS + 1 for t in key.times)
        timed += [text_of({"k": k, "at": b * BUCKET_MS, "n": n})
                  for b, n in buckets.items()]
        timed += [text_of({"k": k, "quiet_since": t})
                  for t in silences(key.times)]
    return {"rows": rows, "timed": timed, "once": once, "bad": bad}


# --- first ----------------------------------------------------------------------

ONCE_MS = 2000
TTL = {"value": 700, "entry": 1000, "item": 400, "seen": 300}
FOLD_MS = 1000

FIRST = HEAD + """
local input = job:source("in", from "records")
  :event_time { field = "ts", out_of_orderness = "400ms", idle = false }
local by_id = input:key_by "id"
by_id:dedup { name = "first-ever", ttl = false }:sink("ever", to "ever")
by_id:dedup { name = "first-again", ttl = %d }:sink("again", to "again")

local parts = input:key_by "k"
  :process {
    name = "ttl",
    state = {
      value = s.value_state { ttl = %d }, entry = s.map_state { ttl = %d },
      item = s.list_state { ttl = %d },
      seen = s.value_state { ttl = %d, ttl_update = "read_and_write" },
    },
    on_record = function(e, ctx)
      local st = ctx.state
      local entries = {}
      for c, i in st.entry:pairs() do entries[#entries + 1] = c .. i end
      ctx:emit { i = e.i, value = st.value:get() or -1,
                 entry = st.entry:get(e.c) or -1,
                 entries = s.list(entries), items = s.list(st.item:get()),
                 seen = st.seen:get() or -1 }
      if e.v %% 3 == 0 then st.value:set(e.i) end
      if e.v %% 4 == 1 then st.entry:put(e.c, e.i) end
      if e.v %% 3 == 1 then st.item:add(e.i) end
      if not st.seen:get() then st.seen:set(e.i) end
    end,
  }
  :split(function(e) return e.i %% 3 == 0 and "third" or "rest" end,
         { "third", "rest" })
parts.third:sink("third", to "third")
parts.rest:sink("rest", to "rest")

input:map(function(e) return { c = e.c, n = 1, v = e.v, i = e.i } end)
  :key_by "c":window(s.tumbling(%d))
  :reduce(function(a, b)
    return { c = a.c, n = a.n + b.n, v = math.max(a.v, b.v),
             i = math.min(a.i, b.i) }
  end, { name = "fold" })
  :sink("folded", to "folded")
return job
""" % (ONCE_MS, TTL["value"], TTL["entry"], TTL["item"], TTL["seen"], FOLD_MS)


def first_record(i):
    """An id comes again soon, or after a while; k and partition follow it."""
    back = draw(i, 1, 60) if draw(i, 2, 3) else draw(i, 3, 1500)
    known = max(0, i - back)
    return {"id": known, "k": known % 84, "i": i, "c": "abc"[draw(i, 4, 3)],
            "v": draw(i, 5, 1000),
            "ts": 5000 + i * STEP_MS - draw(i, 6, 300) -
            known % PARTITIONS * 170}


def first_make(i):
    r = first_record(i)
    return [("records", r["id"] % PARTITIONS, r)]


class Timed:
    """A value that is there for a while after it was last touched."""

    def __init__(self, ttl):
        self.ttl, self.at, self.value = ttl, None, None

    def get(self, now):
        there = self.at is not None and now - self.at < self.ttl
        return self.value if there else None

    def put(self, now, value):
        self.at, self.value = now, value


class Cell:
    """What is known of a key of `ttl`."""

    def __init__(self):
        self.value, self.seen = Timed(TTL["value"]), Timed(TTL["seen"])
        self.entry = collections.defaultdict(lambda: Timed(TTL["entry"]))
        self.item = collections.deque()

    def row(self, r):
        now = r["ts"]
        # No record is a second behind the newest of its partition.
        while self.item and self.item[0][0] < now - TTL["item"] - 2000:
            self.item.popleft()

        def or_none(x):
            return -1 if x is None else x

        there = {c: x.get(now) for c, x in self.entry.items()
                 if x.get(now) is not None}
        seen = self.seen.get(now)
        out = {"i": r["i"], "value": or_none(self.value.get(now)),
               "entries": ["%s%d" % x for x in sorted(there.items())],
               "entry": there.get(r["c"], -1), "seen": or_none(seen),
               "items": [i for t, i in self.item if now - t < TTL["item"]]}
        if r["v"] % 3 == 0:
            self.value.put(now, r["i"])
        if r["v"] % 4 == 1:
            self.entry[r["c"]].put(now, r["i"])
        if r["v"] % 3 == 1:
            self.item.append((now, r["i"]))
        self.seen.put(now, r["i"] if seen is None else seen)
        return out


def first_rows(count):
    out = {name: [] for name in ("ever", "again", "third", "rest", "folded")}
    ever, cells = set(), collections.defaultdict(Cell)
    again = collections.defaultdict(lambda: Timed(ONCE_MS))
    folded = collections.defaultdict(list)
    for r in map(first_record, range(count)):
        if r["id"] not in ever:
            ever.add(r["id"])
            out["ever"].append(line_of(r))
        if again[r["id"]].get(r["ts"]) is None:
            again[r["id"]].put(r["ts"], True)
            out["again"].append(line_of(r))
        out["third" if r["i"] % 3 == 0 else "rest"].append(
            text_of(cells[r["k"]].row(r)))
        folded[r["c"], r["ts"] // FOLD_MS].append(r)
    for (c, _), rs in folded.items():
        out["folded"].append(text_of({
            "c": c, "n": len(rs), "v": max(r["v"] for r in rs),
            "i": min(r["i"] for r in rs)}))
    return out


# --- pair -----------------------------------------------------------------------

WAIT_MS, KEEP_MS, TOP_MS, BEST = 1400, 5000, 500, 3
LATE_BY_MS = 200  # out_of_orderness of the left side

PAIR = HEAD + """
local WAIT, KEEP = %d, %d
local left = job:source("left", from "orders")
  :event_time { name = "left-time", field = "ts", idle = false,
                out_of_orderness = %d }
local right = job:source("right", from "payments")
  :event_time { name = "right-time", field = "ts", idle = false,
                out_of_orderness = "2800ms" }
local function meet(l, r, ctx)
  if r.ts <= l.ts + WAIT then
    ctx:emit { id = ctx:key(), order = l.i, paid = r.ts - l.ts }
  end
end
left:key_by "id":connect(right:key_by "order")
  :process {
    name = "meet", state = { l = s.value_state(), r = s.value_state() },
    on_left = function(e, ctx)
      local l, r = { i = e.i, ts = e.ts }, ctx.state.r:get()
      ctx.state.l:set(l)
      if r then meet(l, r, ctx) end
      ctx:register_event_timer(e.ts + WAIT)
      ctx:register_event_timer(e.ts + KEEP)
    end,
    on_right = function(e, ctx)
      local l, r = ctx.state.l:get(), { ts = e.ts }
      ctx.state.r:set(r)
      if l then meet(l, r, ctx) end
      ctx:register_event_timer(e.ts + 1)
      ctx:register_event_timer(e.ts + KEEP)
    end,
    on_timer = function(ts, ctx)
      local l, r = ctx.state.l:get(), ctx.state.r:get()
      if l and ts == l.ts + WAIT and not (r and r.ts <= ts) then
        ctx:emit { id = ctx:key(), order = l.i, unpaid = true }
      end
      if r and ts == r.ts + 1 and not l then
        ctx:emit { id = ctx:key(), paid_at = r.ts, unknown = true }
      end
      if l and ts == l.ts + KEEP then ctx.state.l:clear() end
      if r and ts == r.ts + KEEP then ctx.state.r:clear() end
    end,
  }
  :sink("met", to "met")

local windowed = left:key_by "c":window(s.tumbling(%d))
windowed:top_n { name = "top-best", n = %d, by = "score" }
  :sink("best", to "best")
windowed:top_n { name = "top-tied", n = %d, by = "score", ties = true }
  :sink("tied", to "tied")
local counts = windowed:aggregate({ n = s.count() }, { name = "count" })
counts:sink("counts", to "counts")
counts:key_by {}:window(s.same())
  :top_n { name = "hottest", n = 1, by = "n", ties = true }
  :sink("hot", to "hot")
return job
""" % (WAIT_MS, KEEP_MS, LATE_BY_MS, TOP_MS, BEST, BEST)


def order(i):
    """Many are too late for their partition, but not for slower ones."""
    behind = draw(i, 1, 190 if draw(i, 2, 10) < 3 else 950)
    return {"id": i, "i": i, "c": "c%d" % draw(i, 3, 12),
            "score": draw(i, 4, 40),
            "ts": 2000 + i * STEP_MS - behind - i % PARTITIONS * 300}


def payment(i):
    """Later than the watermark at its order, sometimes than WAIT_MS."""
    return {"order": i, "ts": order(i)["ts"] + 900 + draw(i, 5, 900)}


def has_order(i):
    return draw(i, 6, 6) != 0


def has_payment(i):
    return draw(i, 7, 5) != 0


def pair_make(i):
    """The payment of i comes when its time has about come."""
    out = []
    if has_order(i):
        out.append(("orders", i % PARTITIONS, order(i)))
    p = i - 200
    if p >= 0 and has_payment(p):
        out.append(("payments", draw(p, 8, PARTITIONS), payment(p)))
    return out


def met_rows(count):
    out = []
    for i in range(count):
        paid = payment(i)["ts"] if i + 200 < count and has_payment(i) else None
        if not has_order(i):
            if paid is not None:
                out.append(text_of({"id": i, "paid_at": paid,
                                    "unknown": True}))
            continue
        took = WAIT_MS + 1 if paid is None else paid - order(i)["ts"]
        if took <= WAIT_MS:
            out.append(text_of({"id": i, "order": i, "paid": took}))
        else:
            out.append(text_of({"id": i, "order": i, "unpaid": True}))
    return out


def on_time(count):
    """(c, window) -> [(order, partition, offset)] that are not late."""
    newest, offset = {}, collections.Counter()
    windows = collections.defaultdict(list)
    for i in filter(has_order, range(count)):
        r, p = order(i), i % PARTITIONS
        window = r["ts"] // TOP_MS
        last = (window + 1) * TOP_MS - 1
        if p not in newest or newest[p] - LATE_BY_MS - 1 < last:
            windows[r["c"], window].append((r, p, offset[p]))
        newest[p] = max(newest.get(p, r["ts"]), r["ts"])
        offset[p] += 1
    return windows


def ranked(fields, window, rank):
    return line_of(dict(fields, window_start=window * TOP_MS,
                        window_end=(window + 1) * TOP_MS, rank=rank))


def pair_rows(count):
    out = {"met": met_rows(count), "best": [], "tied": [], "counts": [],
           "hot": []}
    counts = collections.defaultdict(dict)
    for (c, window), found in on_time(count).items():
        counts[window][c] = len(found)
        found.sort(key=lambda x: (-x[0]["score"], x[0]["ts"], x[1], x[2]))
        for rank, x in enumerate(found[:BEST], 1):
            out["best"].append(ranked(x[0], window, rank))
        for x in found:
            rank = 1 + sum(y[0]["score"] > x[0]["score"] for y in found)
            if rank <= BEST:
                out["tied"].append(ranked(x[0], window, rank))
    for window, of in counts.items():
        for c, n in of.items():
            row = {"c": c, "window_start": window * TOP_MS,
                   "window_end": (window + 1) * TOP_MS, "n": n}
            out["counts"].append(line_of(row))
            if n == max(of.values()):
                out["hot"].append(line_of(dict(row, rank=1)))
    return out


CASES = (
    Case("memory", MEMORY, ("records",), ("rows", "timed", "once", "bad"),
         memory_make, memory_rows),
    Case("first", FIRST, ("records",),
         ("ever", "again", "third", "rest", "folded"), first_make, first_rows),
    Case("pair", PAIR, ("orders", "payments"),
         ("met", "best", "tied", "counts", "hot"), pair_make, pair_rows),
)
