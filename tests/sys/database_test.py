#!/usr/bin/env python3
"""The jobs of jobs/ that read SQLite and write PostgreSQL, killed on the way.

usage: database_test.py [--bin PATH] [--seed N] [--kills N] [NAME...]

The databases are the real ones: an SQLite file, and a PostgreSQL server that
this program starts for itself (postgres_kit.py). Skipped where LuaSQL or the
server is not installed. What the tables must hold is computed here, from the
input, without any code of the engine.
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time

import ckpt_kit
import postgres_kit
import run_cases
from ckpt_kit import Folder, has_test_mode, must_hold

TOP = os.path.abspath(os.environ.get(
    "top_srcdir", os.path.join(os.path.dirname(__file__), "..", "..")))
OPTIONS = None  # of the command line
RECORDS = 24000
RATE = 12000  # a second: two seconds, undisturbed


def read_job(name, *changes):
    with open(os.path.join(TOP, "jobs", name)) as f:
        text = f.read()
    for old, new in changes:
        assert old in text, "%r is not in jobs/%s" % (old, name)
        text = text.replace(old, new)
    return text


def lua_has(binary, module):
    """Whether a job may require the module."""
    with Folder(binary, 'local s = require "streamlua"\nrequire "%s"\n'
                'local job = s.job "t"\n'
                'job:source("a", s.stdin()):sink("b", s.blackhole())\n'
                "return job\n" % module) as folder:
        r = subprocess.run([binary, "check", "job.lua", "--unsafe"],
                           cwd=folder.path, capture_output=True, text=True,
                           env=run_cases.clean_env({}))
    assert r.returncode == 0 or "module '%s' not found" % module in r.stderr, \
        r.stderr
    return r.returncode == 0


# --------------------------------------------------------------- PostgreSQL

def payment(i):
    return {"account": "it's %d" % (i * 7919 % 23), "amount": i * 31 % 1000 - 300,
            "ts": i * 10}


def balances(n):
    """account -> [amount, payments] of the first n payments."""
    want = {}
    for i in range(n):
        p = payment(i)
        row = want.setdefault(p["account"], [0, 0])
        row[0] += p["amount"]
        row[1] += 1
    return want


# The input has a rate of its own, so that there is time to kill; a window is a
# second, so that each round has rows.
SLOWLY = (
    ("s.file { path = input }", """s.generator { count = %d, rate = %d,
  partitions = 4, fields = {
    account = function(i) return "it's " .. i * 7919 %% 23 end,
    amount = function(i) return i * 31 %% 1000 - 300 end,
    ts = function(i) return i * 10 end } }""" % (RECORDS, RATE)),
    ('interval = "1s"', 'interval = "50ms"'),
    ('s.tumbling "1m"', 's.tumbling "1s"'),
    ("local job = s.job(name, {", """local job = s.job(name, {
  restart = { initial_backoff = "10ms", max_backoff = "50ms" },"""),
)


class Ledger(Folder):
    """jobs/to_postgres.lua in a folder and a database of its own."""
    made = 0

    def __init__(self, binary, server, *changes):
        super().__init__(binary, read_job("to_postgres.lua",
                                          *(changes or SLOWLY)))
        Ledger.made += 1
        self.server = server
        self.database = server.make_database("t%d" % Ledger.made)
        self.flags = ["--set", "database=" + self.database]

    def start(self, *flags, **more):
        return super().start(*self.flags, *flags, **more)

    def query(self, sql):
        return self.server.query(sql, self.database)

    def round(self):
        """What the database says; None: nothing yet."""
        if self.query("select to_regclass('streamlua_round')") == [[""]]:
            return None
        rows = self.query("select round from streamlua_round")
        return int(rows[0][0]) if rows else None

    def table(self):
        return {row[0]: [int(row[1]), int(row[2])] for row in
                self.query("select * from balance order by account")}

    def must_be(self, want, what):
        got = self.table()
        wrong = {k: (got.get(k), want.get(k)) for k in {*got, *want}
                 if got.get(k) != want.get(k)}
        assert not wrong, "%s: account: (in the table, wanted) %r" % (
            what, wrong)


def kill_while_it_runs(run, rng):
    """@return whether it was killed, and not over before."""
    deadline = time.monotonic() + rng.uniform(0.02, 0.5)
    while time.monotonic() < deadline:
        if not run.listen(0.01):
            break
    killed = run.p.poll() is None
    run.kill()
    return killed


def postgres_gets_each_row_once_under_kill_9(binary):
    """... and at another parallelism each time."""
    rng = random.Random(OPTIONS.seed)
    with Ledger(binary, OPTIONS.server) as job:
        kills = 0
        while kills < OPTIONS.kills:
            with job.start("--parallelism", str(rng.choice((1, 2, 4)))) as run:
                if not kill_while_it_runs(run, rng):
                    assert run.p.returncode == 0, run.text()
                    break
                kills += 1
        job.finish("--parallelism", "2")
        job.must_be(balances(RECORDS), "after %d kills" % kills)
        print("   %d kills, %s rounds" % (kills, job.round()))
        must_hold(job.finish(), "finished at checkpoint %d" % job.round())


POINTS = ("round_frozen", "ckpt_prepare", "store_write", "store_written",
          "target_commit", "target_committed", "store_complete",
          "store_completed", "source_committed", "round_done",
          "recover_begin", "recover_decided", "restore_begin")


def with_fault_points(binary):
    """The program, or the one beside it that has fault points, or None."""
    for b in binary, os.environ.get("STREAMLUA_TEST_MODE"):
        if b and has_test_mode(b):
            return b
    return None


def postgres_gets_each_row_once_whatever_step_dies(binary):
    binary = with_fault_points(binary)
    if binary is None:
        return "skipped"
    for n, point in enumerate(POINTS):
        with Ledger(binary, OPTIONS.server) as job:
            for hit in (1, 2, 5):
                if point.startswith(("rec", "res")):
                    hit = 1
                with job.start("--parallelism", str(1 + (n + hit) % 3),
                               env={"STREAMLUA_FAULT": "%s=%d!" % (point, hit)
                                    }) as run:
                    run.drain()
                    over = hit == 5 and run.p.returncode == 0  # few rounds
                    assert over or run.p.returncode == -9, (
                        point, hit, run.text())
            job.finish()
            job.must_be(balances(RECORDS), point)
    return "%d points" % len(POINTS)


def an_unknown_commit_is_decided_inside_the_process(binary):
    """The answer is lost, or the commit never was: both are looked up."""
    binary = with_fault_points(binary)
    if binary is None:
        return "skipped"
    for point in "target_commit", "target_committed":
        with Ledger(binary, OPTIONS.server) as job:
            err = job.finish(env={"STREAMLUA_FAULT": point + "=3"})
            must_hold(err, "restart 1: goes on from checkpoint",
                      "was not committed: discarded"
                      if point == "target_commit" else
                      "was committed: completed")
            job.must_be(balances(RECORDS), point)
            assert job.summary()["restarts"] == 1, job.summary()


def the_sink_may_end_long_before_the_job(binary):
    """Rounds go on, and its target follows them: also when killed."""
    rng = random.Random(OPTIONS.seed)
    other = """job:source("other", s.generator { count = 30000, rate = 6000,
  fields = { i = s.gen.sequence {} } }):sink("else", s.file { path = "out" })

return job"""
    with Ledger(binary, OPTIONS.server, *SLOWLY,
                ("count = %d, rate = %d" % (RECORDS, RATE),
                 "count = 3000, rate = 6000"), ("return job", other)) as job:
        kills = 0
        for _ in range(4):
            with job.start("--parallelism", str(rng.choice((1, 2)))) as run:
                run.until("checkpoint %d completed" % ((job.round() or 0) + 5))
                kills += kill_while_it_runs(run, rng)
        before = job.round()
        job.finish()
        job.must_be(balances(3000), "after %d kills" % kills)
        last = job.summary()["checkpoints"]["last"]
        assert job.round() == last > before, (job.round(), last, before)
        assert len(job.rows()) == 30000


def an_error_in_commit_ends_the_job_and_the_next_start_decides(binary):
    late = ('    execute "commit"\n', '''    if round == 3 and BEFORE then error "no" end
    execute "commit"
    if round == 3 then local f = io.open("once") if not f then
      io.open("once", "w"):close() error "yes" end f:close() end
''')
    for before, said in ("true", "no"), ("false", "yes"):
        with Ledger(binary, OPTIONS.server, *SLOWLY,
                    (late[0], late[1].replace("BEFORE", before))) as job:
            must_hold(job.finish(code=1), "commit: ", said)
            assert job.round() == (2 if before == "true" else 3)
            job.write("job.lua", read_job("to_postgres.lua", *SLOWLY))
            must_hold(job.finish(), "checkpoint 3 was " + (
                "not committed: discarded" if before == "true"
                else "committed: completed"))
            job.must_be(balances(RECORDS), "after an error in commit")


def a_commit_may_take_longer_than_a_call(binary):
    with Ledger(binary, OPTIONS.server, *SLOWLY, ('"30s"', '"1s"'),
                ('    execute "commit"\n', '''    execute "commit"
    if round == 2 then execute("select pg_sleep(3)"):close() end
''')) as job:
        must_hold(job.finish(), "held by ")
        job.must_be(balances(RECORDS), "after a slow commit")
        assert job.summary()["restarts"] == 0


def a_server_that_goes_away_is_waited_for(binary):
    with postgres_kit.Server() as server, Ledger(binary, server) as job:
        with job.start() as run:
            run.until("checkpoint 3 completed")
            for _ in range(3):
                server.query("select pg_terminate_backend(pid) from "
                             "pg_stat_activity where pid <> pg_backend_pid() "
                             "and usename = 'test'", server.conninfo)
                run.until("restart")
                time.sleep(0.2)
            run.end(0)
        job.must_be(balances(RECORDS), "after sessions were ended")
        assert job.summary()["restarts"] >= 1


def stops_and_savepoints_hold_what_the_table_has(binary):
    with Ledger(binary, OPTIONS.server) as job:
        with job.start("--parallelism", "4") as run:
            run.until("checkpoint 3 completed")
            run.p.terminate()
            run.end(0)
        first = job.round()
        assert job.summary()["checkpoints"]["last"] == first
        with job.start("--parallelism", "1") as run:
            run.until("checkpoint %d completed" % (first + 2))
            r = subprocess.run(
                [binary, "savepoint", "streamlua-data/ledger", "--to", "saved",
                 "--stop"], cwd=job.path, capture_output=True, text=True)
            assert r.returncode == 0, r.stderr
            run.end(0)
        job.finish("--data-dir", "elsewhere", "--from", "saved")
        job.must_be(balances(RECORDS), "after a stop and a savepoint")


def a_reload_changes_the_sink_between_two_rounds(binary):
    """Three times under load."""
    with Ledger(binary, OPTIONS.server) as job:
        with job.start("--parallelism", "2") as run:
            run.until("checkpoint 1 completed")
            accepted = 0
            for n in range(3):
                job.write("job.lua", read_job("to_postgres.lua", *SLOWLY)
                          + "-- version %d\n" % n)
                r = subprocess.run(
                    [binary, "reload", "streamlua-data/ledger"],
                    cwd=job.path, capture_output=True, text=True)
                if r.returncode in (69, 75) and accepted > 0:
                    break  # a slow build is at the end of its input by now
                assert r.returncode == 0, r.stdout + r.stderr + run.text()
                accepted += 1
            run.end(0)
        job.must_be(balances(RECORDS), "after three reloads")


def what_does_not_belong_together_is_refused(binary):
    with Ledger(binary, OPTIONS.server) as job:
        with job.start() as run:
            run.until("checkpoint 3 completed")
            run.p.terminate()
            run.end(0)
        shutil.copytree(job.at("streamlua-data"), job.at("old"),
                        ignore=shutil.ignore_patterns("control"))
        with job.start() as run:
            run.until("checkpoint %d completed" % (job.round() + 3))
            run.kill()
        before, seen = job.table(), job.round()
        must_hold(job.finish("--data-dir", "lost", code=78),
                  "its data directory is new or lost: last_round of balances "
                  "is checkpoint %d of lineage" % seen,
                  "has checkpoint 0", "--recover=discard-state")
        must_hold(job.finish("--data-dir", "old", code=78),
                  "the target is ahead of the directory", "--recover=rewind")
        assert job.table() == before and job.round() == seen
        must_hold(job.finish("--data-dir", "old", "--recover=rewind"),
                  "rows written since then may be doubled")
        must_hold(job.finish("--data-dir", "old"), "finished at checkpoint")
        job.query("truncate balance")
        job.finish("--fresh")
        job.must_be(balances(RECORDS), "after --fresh")
        job.query("truncate streamlua_round")
        must_hold(job.finish(code=78), "the target holds no round",
                  "last_round of balances is none")


def two_processes_do_not_double(binary):
    """A copy of the directory begins while the first one sleeps: the first
    finds out at its next commit, or at the latest when it starts again."""
    with Ledger(binary, OPTIONS.server) as job:
        with job.start() as run:
            run.until("checkpoint 3 completed")
            run.p.send_signal(19)  # SIGSTOP
            shutil.copytree(job.at("streamlua-data"), job.at("copy"),
                            ignore=shutil.ignore_patterns("control"))
            job.query("select pg_terminate_backend(pid) from pg_stat_activity "
                      "where pid <> pg_backend_pid() and datname = "
                      "current_database()")
            job.finish("--data-dir", "copy")
            run.p.send_signal(18)  # SIGCONT
            run.drain()
            assert run.p.returncode in (73, 78), run.text()
        job.must_be(balances(RECORDS), "with a sleeper")


def the_job_runs_as_it_stands(binary):
    with Ledger(binary, OPTIONS.server, ("ledger", "ledger")) as job:
        with open(job.at("payments.jsonl"), "w") as f:
            for i in range(5000):
                f.write(json.dumps(payment(i)) + "\n")
        job.finish()
        job.must_be(balances(5000), "jobs/to_postgres.lua")


# ------------------------------------------------------------------- SQLite

ORDERS = 6000
TABLE = ("create table orders (id integer primary key autoincrement, "
         "customer text, amount integer, ts integer)")


def order(i):
    return ("c%d" % (i % 11), i * 17 % 500, i * 20)


def insert(folder, first, last):
    db = sqlite3.connect(folder.at("shop.db"), timeout=30)
    with db:
        db.execute(TABLE.replace("table", "table if not exists", 1))
        db.executemany("insert into orders(customer, amount, ts) values "
                       "(?,?,?)", map(order, range(first, last)))
    db.close()


def totals(n):
    want = {}
    for i in range(n):
        customer, amount, ts = order(i)
        row = want.setdefault((customer, ts // 1000), [0, 0])
        row[0] += amount
        row[1] += 1
    return sorted((c, w * 1000, a, k) for (c, w), (a, k) in want.items())


def read_totals(folder):
    rows = [json.loads(line) for line in folder.rows("totals")]
    return sorted((r["customer"], r["window_start"], r["amount"], r["orders"])
                  for r in rows)


def sqlite_rows_are_read_once_under_kill_9(binary):
    """... while others are inserted; its position is all that comes back."""
    rng = random.Random(OPTIONS.seed)
    text = read_job("from_sqlite.lua", ('interval = "1s"', 'interval = "50ms"'),
                    ("(position, max)", "(position, max) max = math.min(max, 20)"),
                    ('s.tumbling "1m"', 's.tumbling "1s"'))
    with Folder(binary, text) as folder:
        kills, there = 0, 0
        while there < ORDERS:
            insert(folder, there, there + 500)
            there += 500
            with folder.start("--parallelism", str(rng.choice((1, 2, 4)))) as run:
                kills += kill_while_it_runs(run, rng)
        folder.finish("--bounded")
        got, want = read_totals(folder), totals(ORDERS)
        assert got == want, (len(got), len(want),
                             [r for r in got if r not in want][:3],
                             [r for r in want if r not in got][:3])
        print("   %d kills, %d windows" % (kills, len(got)))


NEEDS = {"luasql.postgres": [
    the_job_runs_as_it_stands,
    postgres_gets_each_row_once_under_kill_9,
    postgres_gets_each_row_once_whatever_step_dies,
    an_unknown_commit_is_decided_inside_the_process,
    the_sink_may_end_long_before_the_job,
    an_error_in_commit_ends_the_job_and_the_next_start_decides,
    a_commit_may_take_longer_than_a_call,
    a_server_that_goes_away_is_waited_for,
    stops_and_savepoints_hold_what_the_table_has,
    a_reload_changes_the_sink_between_two_rounds,
    what_does_not_belong_together_is_refused,
    two_processes_do_not_double,
], "luasql.sqlite3": [
    sqlite_rows_are_read_once_under_kill_9,
]}


def skip(tests, why):
    """@return what stands in their place and is counted as skipped."""
    for t in tests:
        print("%s: %s" % (t.__name__, why), flush=True)

    def stand_in(test):
        def skipped(_):
            return "skipped"
        skipped.__name__ = test.__name__
        return skipped
    return [stand_in(t) for t in tests]


def main():
    global OPTIONS
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--kills", type=int, default=20)
    ap.add_argument("-j", type=int, default=3)
    ap.add_argument("names", nargs="*")
    OPTIONS = ap.parse_args()
    binary = os.path.abspath(OPTIONS.bin)
    tests, real, server = [], 0, False
    for module, of_it in NEEDS.items():
        if not lua_has(binary, module):
            of_it = skip(of_it, "there is no " + module + " for Lua 5.4")
        elif module.endswith("postgres") and postgres_kit.find() is None:
            of_it = skip(of_it, "there is no PostgreSQL server")
        else:
            real += len(of_it)
            server = server or module.endswith("postgres")
        tests += of_it
    with postgres_kit.Server() if server else contextlib.nullcontext() as pg:
        OPTIONS.server = pg
        code = ckpt_kit.run_tests(tests, binary, OPTIONS.names, OPTIONS.j)
    return code if real else 77  # automake: skipped


if __name__ == "__main__":
    sys.exit(main())
