#!/usr/bin/env python3
"""Benchmarks: what the engine costs, beside a bare client in the same run.

usage: run.py [--build DIR] [--only NAME[,NAME]] [--records N] [--runs N]
              [--quick] [--json FILE] [--keep DIR]

Starts a broker of its own, fills the topics once with the engine's seeded
generator, then runs baseline and jobs in turn (A B C, A B C, ...) and prints
a table for each benchmark. A figure is the best of its runs; a ratio is
taken between the bests of one table, so only what ran in turn is compared.
CPU time is user + system of the whole process, start and end included.
Nothing here judges a figure: machines differ. It fails only if a job does.

--quick  small numbers: shows that every benchmark works, nothing else.
--build  where streamlua and `make bench-programs` are (default: .).
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "broker"))
import broker as kafka  # noqa: E402

PARTS = 4
MIB = 1 << 20


class Run:
    """One program run to its end: what it used."""

    def __init__(self, argv, **kw):
        begin = time.monotonic()
        proc = subprocess.Popen(argv, **kw)
        _, status, use = os.wait4(proc.pid, 0)
        self.wall = time.monotonic() - begin
        proc.returncode = os.waitstatus_to_exitcode(status)
        if proc.returncode != 0:
            raise SystemExit(f"bench: exit {proc.returncode}: "
                             f"{' '.join(map(str, argv))}")
        self.cpu = use.ru_utime + use.ru_stime
        self.rss = use.ru_maxrss * 1024
        self.summary = None


class Bench:
    def __init__(self, args, dir):
        self.args = args
        self.dir = pathlib.Path(dir)
        self.build = pathlib.Path(args.build).resolve()
        self.broker = None
        self.filled = {}
        self.results = {}
        self.outs = 0
        self.datas = 0

    # --- programs -----------------------------------------------------------
    def job(self, name, *sets, stdout=None, kafka=True, bounded=True):
        summary = self.dir / "summary.json"
        data = self.data()
        argv = [self.build / "streamlua", "run", HERE / "jobs" / f"{name}.lua",
                "-q", "--summary", summary, "--data-dir", data]
        argv += [x for s in sets for x in ("--set", s)]
        if kafka:
            argv += ["--bootstrap-servers", self.servers()]
            if bounded:
                argv += ["--bounded"]
        run = Run(argv, stdout=stdout or subprocess.DEVNULL)
        run.summary = json.loads(summary.read_text())
        shutil.rmtree(data, ignore_errors=True)
        return run

    def data(self):
        """A data directory of its own: every run starts fresh."""
        self.datas += 1
        return self.dir / f"data-{self.datas}"

    def bare(self, topic):
        return Run([self.build / "tests/bench/bare_consumer", self.servers(),
                    topic, str(PARTS)], stdout=subprocess.DEVNULL)

    def ktool(self, *argv):
        subprocess.run([self.build / "tests/broker/ktool", self.servers(),
                        *map(str, argv)], check=True)

    # --- the broker and its topics ------------------------------------------
    def servers(self):
        if self.broker is None:
            self.say("starting a broker")
            self.broker = kafka.Broker(self.dir / "broker")
            self.broker.start()
        return self.broker.bootstrap

    def topic(self, keys, count):
        """A topic of `count` events, filled the first time it is asked."""
        name = f"bench-{keys}-{count}"
        if name not in self.filled:
            self.say(f"filling {name}")
            self.ktool("create", name, PARTS)
            self.filled[name] = self.job("load", f"topic={name}",
                                         f"count={count}", f"keys={keys}")
        return name

    def out(self):
        """A fresh empty output topic."""
        self.outs += 1
        name = f"out-{self.outs}"
        self.ktool("create", name, PARTS)
        return name

    def say(self, text):
        print(f"bench: {text}", file=sys.stderr, flush=True)

    # --- tables -------------------------------------------------------------
    def in_turn(self, runs, cases):
        """Run all cases in turn, `runs` times: name -> list of Run."""
        done = {name: [] for name, _ in cases}
        for i in range(runs):
            for name, make in cases:
                self.say(f"{name} {i + 1}/{runs}")
                done[name].append(make())
        return done

    def table(self, title, records, done, aims=None):
        """Rows: records per CPU second and wall, and against the first."""
        aims = aims or {}
        base = next(iter(done))
        cpu = {n: min(r.cpu for r in runs) for n, runs in done.items()}
        wall = {n: min(r.wall for r in runs) for n, runs in done.items()}
        print(f"\n## {title}\n\n| case | ns/rec CPU | rec/CPU-s | rec/s wall "
              f"| of {base} | spread | peak MiB |\n|---|---|---|---|---|---|"
              "---|")
        for name, runs in done.items():
            spread = max(r.cpu for r in runs) / cpu[name]
            of = f"{cpu[base] / cpu[name]:.2f}"
            if name in aims:
                of += f" (aim {aims[name]:.2f})"
            rss = max(r.rss for r in runs) / MIB
            print(f"| {name} | {cpu[name] / records * 1e9:.0f} "
                  f"| {records / cpu[name] / 1e6:.2f} M "
                  f"| {records / wall[name] / 1e6:.2f} M | {of} "
                  f"| {spread:.2f} | {rss:.0f} |")
            self.put(title, name, ns=cpu[name] / records * 1e9,
                     rec_per_cpu_s=records / cpu[name],
                     rec_per_s=records / wall[name],
                     ratio=cpu[base] / cpu[name])
        sys.stdout.flush()

    def line(self, title, name, text, **figures):
        if title not in self.results:
            print(f"\n## {title}\n")
        print(f"- {name}: {text}", flush=True)
        self.put(title, name, **figures)

    def put(self, title, name, **figures):
        self.results.setdefault(title, {})[name] = figures


# --- the benchmarks ---------------------------------------------------------
def bench_drain(b):
    n = b.args.records
    topic = b.topic("uniform", n)
    t = f"topic={topic}"
    done = b.in_turn(b.args.runs, [
        ("bare", lambda: b.bare(topic)),
        ("fields", lambda: b.job("drain", t)),
        ("lua", lambda: b.job("drain", t, "how=lua")),
    ])
    b.table("drain", n, done, {"fields": 0.75, "lua": 0.5})


def bench_count10k(b):
    n = b.args.records
    topic = b.topic("uniform", n)
    t = f"topic={topic}"
    cases = [
        ("bare", lambda: b.bare(topic)),
        ("p=1", lambda: b.job("count10k", t, f"out={b.out()}")),
        ("p=2", lambda: b.job("count10k", t, "p=2", f"out={b.out()}")),
    ]
    done = b.in_turn(b.args.runs, cases)
    b.table("count10k", n, done, {"p=1": 0.65})
    steps = done["p=1"][-1].summary["steps"]
    local = steps["aggregate-1"]["local"]
    rows = steps["out"]["records_out"]
    b.line("count10k, rows", "p=1",
           f"{rows / n * 100:.2f} rows and {local['partials_out'] / n * 100:.2f}"
           " partials per 100 records",
           rows_per_100=rows / n * 100)


def busy_by_slot(summary):
    """Busy ms of each subtask number over the two chains."""
    steps = summary["steps"]
    slots = {}
    for step in ("events", "aggregate-1"):
        for i, s in enumerate(steps[step]["subtasks"]):
            slots[i] = slots.get(i, 0) + s["busy_ms"]
    return list(slots.values())


def bench_hotkey(b):
    n = b.args.records
    p = b.args.hot_slots
    for keys, what in (("zipf", "Zipf 1.5 over 1 M keys"),
                       ("hot", "one key has 80 %")):
        topic = b.topic(keys, n)
        cases = [("bare", lambda: b.bare(topic))]
        for how in ("AUTO", "ONE_PHASE", "TWO_PHASE"):
            cases.append((how, lambda how=how: b.job(
                "hotkey", f"topic={topic}", f"strategy={how}", f"p={p}")))
        done = b.in_turn(b.args.runs, cases)
        title = f"hotkey: {what}"
        b.table(title, n, done)
        for how in ("AUTO", "ONE_PHASE", "TWO_PHASE"):
            s = done[how][-1].summary
            local = s["steps"]["aggregate-1"].get("local")
            moved = local["partials_out"] if local else n
            busy = [x["busy_ms"] for x in
                    s["steps"]["aggregate-1"]["subtasks"]]
            slots = busy_by_slot(s)
            load = max(slots) * len(slots) / max(sum(slots), 1)
            keyed = max(busy) * len(busy) / max(sum(busy), 1)
            b.line(f"{title}, exchange", how,
                   f"{moved / n:.4f} exchanged per input, load of slots "
                   f"max/mean {load:.2f}, of the keyed subtasks {keyed:.2f} "
                   f"(busy {max(busy)} ms)",
                   exchanged=moved / n, load=load, keyed_load=keyed)


def bench_windows(b):
    """Keyed steps beside a plain count: q5, top_n and others."""
    n = b.args.records
    t = f"topic={b.topic('uniform', n)}"
    cases = [("bare", lambda: b.bare(t[6:]))]
    for how in ("count", "where", "top_n", "reduce", "updating", "clock",
                "count_window"):
        cases.append((how, lambda how=how: b.job("windows", t, f"how={how}")))
    b.table("keyed steps, 100 keys, windows of 1 s", n,
            b.in_turn(b.args.runs, cases))
    topic = b.topic("zipf", n)
    t5 = f"topic={topic}"
    done = b.in_turn(b.args.runs, [
        ("bare", lambda: b.bare(topic)),
        ("count", lambda: b.job("windows", t5, "by=user", "how=count")),
        ("q5", lambda: b.job("windows", t5, "by=user", "how=q5")),
        ("q5, p=2", lambda: b.job("windows", t5, "by=user", "how=q5", "p=2")),
    ])
    b.table("q5: the hottest of 1 M keys, 2 s windows by 1 s", n, done)


def stateful(b, topic, how, *sets):
    """A run of jobs/stateful.lua; its output topic goes with it."""
    def run():
        out = b.out()
        done = b.job("stateful", f"topic={topic}", f"out={out}",
                     f"how={how}", f"prefix={out}", *sets)
        b.ktool("delete", out)
        return done
    return run


def rows_out(b, title, done):
    """What each case wrote, and what its rounds took."""
    for name, runs in done.items():
        if runs[-1].summary is None:
            continue
        rows = runs[-1].summary["steps"]["out"]["records_out"]
        ms = sorted(r["ms"] for r in runs[-1].summary["rounds"])
        b.line(f"{title}: rows", name,
               f"{rows} rows out; {len(ms)} rounds"
               + (f", median {ms[len(ms) // 2]} ms" if ms else ""), rows=rows)


def bench_process(b):
    """A function with one value state, Kafka to Kafka, piece by piece."""
    n = b.args.records
    topic = b.topic("uniform", n)
    exactly = "delivery=exactly_once"
    cases = [
        ("pass", stateful(b, topic, "pass")),
        ("bare", lambda: b.bare(topic)),
        ("map", stateful(b, topic, "map")),
        ("call", stateful(b, topic, "call")),
        ("value", stateful(b, topic, "value")),
        ("value, memory", stateful(b, topic, "value", "backend=memory")),
        ("value, p=2", stateful(b, topic, "value", "p=2")),
        ("value, exactly once 1s",
         stateful(b, topic, "value", exactly, "interval=1s")),
        ("value, 1 % out", stateful(b, topic, "value", "each=100")),
        ("value with ttl, 1 % out", stateful(b, topic, "ttl", "each=100")),
        ("value and timer, 1 % out", stateful(b, topic, "timer", "each=100")),
    ]
    title = "functions with state, Kafka to Kafka, 10,000 keys"
    done = b.in_turn(b.args.runs, cases)
    b.table(title, n, done)
    rows_out(b, title, done)


def bench_dedup(b):
    """The first record of each of a million keys, Kafka to Kafka."""
    n = b.args.records
    topic = b.topic("uniform", n)
    user = "by=user"
    done = b.in_turn(b.args.runs, [
        ("pass", stateful(b, topic, "pass")),
        ("bare", lambda: b.bare(topic)),
        ("dedup", stateful(b, topic, "dedup", user)),
        ("dedup, memory", stateful(b, topic, "dedup", user, "backend=memory")),
        ("dedup, ttl", stateful(b, topic, "dedup", user, "ttl=1m")),
        ("dedup, exactly once 1s",
         stateful(b, topic, "dedup", user, "delivery=exactly_once",
                  "interval=1s")),
        ("as a function", stateful(b, topic, "first", user)),
    ])
    title = "dedup, Kafka to Kafka, 1 M keys"
    b.table(title, n, done)
    rows_out(b, title, done)


def bench_top(b):
    """The best of each window and the hottest keys, Kafka to Kafka."""
    n = b.args.records
    topic, skewed = b.topic("uniform", n), b.topic("zipf", n)
    metric, user = "by=metric_name", "by=user"
    done = b.in_turn(b.args.runs, [
        ("bare", lambda: b.bare(topic)),
        ("pass", stateful(b, topic, "pass")),
        ("top 10 of 100 keys", stateful(b, topic, "top_n", metric)),
        ("top 3 of 10,000 keys, 10 s",
         stateful(b, topic, "top_n", "n=3", "window=10s")),
        ("top 3 of 10,000 keys, 10 s, p=2",
         stateful(b, topic, "top_n", "n=3", "window=10s", "p=2")),
        ("q5, 1 M keys, Zipf 1.5", stateful(b, skewed, "q5", user)),
        ("q5, p=2", stateful(b, skewed, "q5", user, "p=2")),
        ("q5, exactly once 1s",
         stateful(b, skewed, "q5", user, "delivery=exactly_once",
                  "interval=1s")),
    ])
    title = "top-N of windows of 1 s, and q5, Kafka to Kafka"
    b.table(title, n, done)
    rows_out(b, title, done)


def bench_file(b):
    n = b.args.records
    path = b.dir / "events.jsonl"
    with open(path, "wb") as f:
        b.job("generator", f"count={n}", "out=stdout", stdout=f, kafka=False)
    done = b.in_turn(b.args.runs, [
        ("wc -l", lambda: Run(["wc", "-l", path], stdout=subprocess.DEVNULL)),
        ("file", lambda: b.job("file", f"path={path}", kafka=False)),
    ])
    b.table(f"file to blackhole ({path.stat().st_size / n:.0f} bytes a line)",
            n, done)
    path.unlink()


def bench_generator(b):
    n = b.args.records
    done = b.in_turn(b.args.runs, [
        ("generator", lambda: b.job("generator", f"count={n}", kafka=False))])
    b.table("generator to blackhole", n, done)


def first_line_ms(argv):
    begin = time.monotonic()
    proc = subprocess.Popen(argv, stdout=subprocess.PIPE)
    proc.stdout.readline()
    ms = (time.monotonic() - begin) * 1000
    proc.stdout.read()
    proc.stdout.close()
    if proc.wait() != 0:
        raise SystemExit("bench: first.lua failed")
    return ms


def bench_start(b):
    topic = b.topic("uniform", 1000)
    runs = 3 if b.args.quick else 15
    argv = [b.build / "streamlua", "run", HERE / "jobs/first.lua", "-q"]
    for name, more in (
            ("generator", []),
            ("kafka", ["--set", "from=kafka", "--set", f"topic={topic}",
                       "--bounded", "--bootstrap-servers", b.servers()])):
        ms = sorted(first_line_ms(argv + ["--data-dir", b.data()] + more)
                    for _ in range(runs))
        b.line("cold start: exec to first line on stdout (aim 100 ms)", name,
               f"median {ms[len(ms) // 2]:.0f} ms, best {ms[0]:.0f}, worst "
               f"{ms[-1]:.0f} of {runs}", ms=ms[len(ms) // 2])


def proc_use(pid):
    """CPU seconds and resident bytes of a running process."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1]
    ticks = sum(map(int, stat.split()[11:13]))
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    rss = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
    return ticks / os.sysconf("SC_CLK_TCK"), rss


def bench_idle(b):
    topic = b.topic("uniform", 1000)
    argv = [b.build / "streamlua", "run", HERE / "jobs/idle.lua", "-q",
            "--data-dir", b.data(), "--bootstrap-servers", b.servers(),
            "--set", f"topic={topic}", "--set", f"out={b.out()}"]
    proc = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    settle, over = (2, 2) if b.args.quick else (5, 20)
    time.sleep(settle)
    cpu0, _ = proc_use(proc.pid)
    time.sleep(over)
    cpu, rss = proc_use(proc.pid)
    proc.terminate()
    if proc.wait() != 0:
        raise SystemExit("bench: idle.lua failed")
    b.line("idle Kafka job (aims 30 MiB, 1 % of a core)", "idle",
           f"{rss / MIB:.1f} MiB resident, {(cpu - cpu0) / over * 100:.2f} % "
           f"of a core over {over} s", rss=rss, cpu=(cpu - cpu0) / over)


def bench_keys(b):
    small, large = (20000, 120000) if b.args.quick else (1000000, 3000000)
    a = b.job("keys", f"count={small}", kafka=False)
    c = b.job("keys", f"count={large}", kafka=False)
    each = (c.rss - a.rss) / (large - small)
    b.line("memory per million keys in a window (aim 80 MB)", "keys",
           f"{each:.0f} MB, as the difference of the peaks at {small} and "
           f"{large} keys ({a.rss / MIB:.0f} and {c.rss / MIB:.0f} MiB)",
           bytes=each)


def bench_seen(b):
    """dedup over 10 million keys: in memory, and with less than it needs."""
    n = 100000 if b.args.quick else 10000000
    for name, sets in [("memory", ["backend=memory"]),
                       ("lmdb", ["backend=lmdb"]),
                       ("lmdb, 300 MiB of state", ["total=512MiB"])]:
        r = b.job("dedup", f"count={n}", f"keys={n}", *sets, kafka=False)
        rounds = [x["ms"] for x in r.summary["rounds"]] or [0]
        b.line("dedup, generator, up to 10 M keys", name,
               f"{n / r.wall / 1e3:.0f} K records/s, peak "
               f"{r.rss / MIB:.0f} MiB with pages of the store, checkpoints "
               f"of up to {max(rounds)} ms", rate=n / r.wall, bytes=r.rss)


def bench_exactly_once(b):
    """count10k with its output exactly once, against at least once."""
    n = b.args.records
    topic = b.topic("uniform", n)

    def case(delivery, interval):
        return lambda: b.job("count10k", f"topic={topic}", f"out={b.out()}",
                             f"delivery={delivery}", f"interval={interval}",
                             f"prefix=bench-{b.outs}")

    done = b.in_turn(b.args.runs, [
        ("at least once 10s", case("at_least_once", "10s")),
        ("exactly once 1s", case("exactly_once", "1s")),
        ("exactly once 100ms", case("exactly_once", "100ms")),
    ])
    b.table("exactly once", n, done, {"exactly once 1s": 0.9,
                                      "exactly once 100ms": 0.75})
    for name, runs in done.items():
        rounds = runs[-1].summary["rounds"]
        ms = sorted(r["ms"] for r in rounds)
        commit = sorted(r["commit_ms"] for r in rounds)
        pause = max(r["pause_us_max"] for r in rounds)
        b.line("exactly once, rounds", name,
               f"{len(rounds)} last rounds: median {ms[len(ms) // 2]} ms, "
               f"worst {ms[-1]}; of it commit median "
               f"{commit[len(commit) // 2]}; longest pause of a subtask "
               f"{pause} us", ms=ms[len(ms) // 2], pause_us=pause)


def ask_summary(proc, err):
    """The summary object a running job writes for SIGUSR1, on one line."""
    asked = 0
    while True:
        if time.monotonic() - asked > 0.5: # not heard while it starts
            proc.send_signal(signal.SIGUSR1)
            asked = time.monotonic()
        at = err.tell()
        line = err.readline()
        if not line.endswith("\n"):
            err.seek(at)
            time.sleep(0.005)
        elif line.startswith('{"job"'):
            return json.loads(line)


def watch_job(argv, seconds, log):
    """Run a job for so long: (time, records in, rounds) every 100 ms."""
    samples = []
    with open(log, "w", encoding="utf-8") as to:
        proc = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=to)
        with open(log, encoding="utf-8") as err:
            until = time.monotonic() + seconds
            time.sleep(0.3)
            while time.monotonic() < until:
                if proc.poll() is not None:
                    raise SystemExit("bench: bigstate.lua ended")
                s = ask_summary(proc, err)
                samples.append((time.monotonic(),
                                s["steps"]["gen"]["records_in"], s))
                time.sleep(0.1)
            rss = proc_use(proc.pid)[1]
            proc.terminate()
            if proc.wait() != 0:
                raise SystemExit("bench: bigstate.lua failed")
    return samples, rss


def bench_bigstate(b):
    """Rounds over large state: the dip of a round, restore, memory."""
    keys = 100000 if b.args.quick else 10000000
    fill, seconds, rate = (2, 6, 20000) if b.args.quick else (60, 60, 50000)
    argv = [b.build / "streamlua", "run", HERE / "jobs/bigstate.lua", "-q",
            "--data-dir", b.data(), "--set", f"keys={keys}", "--set",
            f"interval={'1s' if b.args.quick else '10s'}"]
    b.say("big state: filling")
    watch_job(argv, fill, b.dir / "bigstate.log")
    b.say("big state: going on")
    begin = time.monotonic()
    samples, rss = watch_job(argv + ["--set", f"rate={rate}"], seconds,
                             b.dir / "bigstate.log")
    took = next(s[0] for s in samples if s[1] > 0) - begin
    held = samples[-1][2]["steps"]["state"]["keys"]
    b.line("big state: restore", f"{held} keys",
           f"{took:.2f} s from exec to the first records, "
           f"{took / held * 1e6:.2f} s a million keys", seconds=took)
    inside, outside = [], []
    for a, c in zip(samples, samples[1:]):
        if a[0] - samples[0][0] < seconds / 6:
            continue
        done = c[2]["checkpoints"]["completed"] > \
            a[2]["checkpoints"]["completed"]
        (inside if done else outside).append((c[1] - a[1]) / (c[0] - a[0]))
    last = samples[-1][2]["rounds"][-1]
    mean = sum(outside) / max(len(outside), 1)
    dip = 1 - sum(inside) / max(len(inside), 1) / mean if inside else 0
    pause = max(r["pause_us_max"] for r in samples[-1][2]["rounds"])
    b.line("big state: rounds (aim: dip below 10 %)", f"{held} keys",
           f"{mean / 1e3:.0f} K records/s, {dip * 100:.0f} % less in the "
           f"{len(inside)} tenths of a second in which a round ended; "
           f"{rss / MIB:.0f} MiB; last round {last['puts']} keys, "
           f"{last['bytes'] / MIB:.0f} MiB in {last['ms']} ms, of it sync "
           f"{last['sync_ms']}; longest pause of a subtask {pause} us",
           dip=dip, rate=mean, rss=rss, ms=last["ms"])


def bench_latency(b):
    rate = 20000
    window, seconds = ("1s", 5) if b.args.quick else ("10s", 55)
    topic, out = f"paced-{b.outs}", b.out()
    b.ktool("create", topic, PARTS)
    summary = b.dir / "latency.json"
    argv = [b.build / "streamlua", "run", HERE / "jobs/count10k.lua", "-q",
            "--data-dir", b.data(), "--bootstrap-servers", b.servers(),
            "--summary", summary, "--set", f"topic={topic}", "--set",
            f"out={out}", "--set", f"window={window}"]
    proc = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    time.sleep(1)
    got = subprocess.run(
        [b.build / "tests/bench/paced", b.servers(), topic, out, str(PARTS),
         str(rate), str(seconds)], check=True, stdout=subprocess.PIPE)
    cpu, rss = proc_use(proc.pid)
    proc.terminate()
    if proc.wait() != 0:
        raise SystemExit("bench: count10k.lua failed")
    rows, p50, p99, worst = map(int, got.stdout.split())
    b.line(f"latency: count10k, {window} windows, {rate} events/s", "p=1",
           f"end of window to row read back: p50 {p50} ms, p99 {p99} ms, "
           f"worst {worst} ms of {rows} rows; {cpu / (seconds + 1) * 100:.1f} "
           f"% of a core, {rss / MIB:.0f} MiB",
           p50=p50, p99=p99, rows=rows)


BENCHES = {
    "drain": bench_drain,
    "count10k": bench_count10k,
    "hotkey": bench_hotkey,
    "windows": bench_windows,
    "process": bench_process,
    "dedup": bench_dedup,
    "top": bench_top,
    "file": bench_file,
    "generator": bench_generator,
    "start": bench_start,
    "idle": bench_idle,
    "keys": bench_keys,
    "seen": bench_seen,
    "latency": bench_latency,
    "exactly_once": bench_exactly_once,
    "bigstate": bench_bigstate,
}


def options():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    p.add_argument("--build", default=".")
    p.add_argument("--only", default=",".join(BENCHES))
    p.add_argument("--records", type=int)
    p.add_argument("--runs", type=int)
    p.add_argument("--hot-slots", type=int, default=2)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--json")
    p.add_argument("--keep", help="work in this folder and keep it")
    args = p.parse_args()
    args.records = args.records or (20000 if args.quick else 4000000)
    args.runs = args.runs or (1 if args.quick else 5)
    args.only = args.only.split(",")
    for name in args.only:
        if name not in BENCHES:
            p.error(f"no benchmark {name}; there are {', '.join(BENCHES)}")
    return args


def main():
    args = options()
    dir = args.keep or tempfile.mkdtemp(prefix="streamlua-bench-")
    b = Bench(args, dir)
    print(f"load {open('/proc/loadavg').read().split()[0]} before, "
          f"{os.cpu_count()} cores, {args.records} records, best of "
          f"{args.runs}")
    try:
        for name in args.only:
            BENCHES[name](b)
    finally:
        if b.broker is not None:
            b.broker.stop()
        if args.keep is None:
            shutil.rmtree(dir, ignore_errors=True)
    print(f"\nload {open('/proc/loadavg').read().split()[0]} after")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(b.results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
