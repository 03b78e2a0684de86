"""Versions by verbs, at starts, and by saving files; the rows stay exact."""
import os
import random
import re
import signal

import kit
from eo_kit import SEED, say, wait_a_moment
from kit import check, equal, test, until
from reload_kit import ReloadJob, Try, text_of

REFUSED = 78


def stamp_of(job):
    return job.attempts()[-1].stamp


def asked(job, verb, code, *words):
    """Ask and wait; @return what it said."""
    p = job.ask_verb(verb, job.name, *words)
    out, err = p.communicate(timeout=60)
    check(p.returncode == code, verb, *words, "ended with", p.returncode, out,
          err)
    return out + err


def back_to(job, stamp):
    """`rollback` brings that version again, with its parameters."""
    job.attempts().append(Try(*stamp, False))
    said = asked(job, "rollback", 0)
    check("accepted at checkpoint" in said, said)


def forth(job, *words):
    """The next version by `reload`; @return its stamp."""
    p = job.reload(*words)
    out, err = p.communicate(timeout=60)
    check(p.returncode == 0, "reload:", out, err)
    return stamp_of(job)


def refused_start(job, pattern):
    """A start that must be refused; it is no run of the job."""
    mark = job.mark
    job.start("--parallelism", 2, mark=mark)
    equal(job.ends(), REFUSED, "exit code\n" + job.stderr())
    check(job.says(pattern), job.stderr())


class BackJob(ReloadJob):
    goes_back = True


@test
def rollbacks_go_back_version_by_version_also_behind_a_kill():
    with BackJob(800) as job:
        job.begin("--parallelism", 2)
        job.until_round(1)
        stamps = [stamp_of(job)]
        for p in (1, 4, 2):
            stamps.append(forth(job, "--parallelism", p))
        back_to(job, stamps[2])
        back_to(job, stamps[1])
        asked(job, "rollback", 0, "--dry-run")
        job.kill()
        # The file has the last version, which was rolled back.
        refused_start(job, "this text was rolled back")
        job.v = stamps[1][0]
        job.write(text_of(job.v))
        job.begin("--parallelism", 2)  # what the checkpoint has
        job.until_running()
        check(not job.says(" at start"), job.stderr())
        back_to(job, stamps[0])
        check("no version before" in asked(job, "rollback", 1),
              "a rollback too far")
        job.until_round(job.marker() + 1)
        job.kill()
        refused_start(job, "this text was rolled back")
        job.begin("--accept-code", "--parallelism", 1)
        job.says_within(r"reload \d+ accepted")
        job.kill()
        # A file that was changed while the job was down is a reload.
        job.v = 10
        job.begin("--parallelism", 4, change=True)
        job.says_within(r"reload \d+ at start")
        job.says_within(r"reload \d+ accepted")
        job.kill()
        job.finish("--parallelism", 2)
        rounds, versions, _ = job.compare()
        say("%d rounds of %d versions" % (rounds, versions))


@test
def a_version_that_fails_at_its_first_records_is_known_behind_a_restart():
    with ReloadJob(800) as job:
        job.begin("--parallelism", 2)
        job.until_round(1)
        good = text_of(0)
        bad = text_of(1, body="error 'not so'")
        job.hup(bad)
        job.says_within(r"reload 1 rolled back to 0: job\.lua:\d+: not so")
        job.until_round(job.marker() + 2)  # the checkpoint knows it
        job.kill()
        refused_start(job, "this text was rolled back")
        job.start("--parallelism", 2, "--accept-code", mark=job.mark)
        equal(job.ends(), 1, "exit code\n" + job.stderr())
        job.v = 0
        job.write(good)
        job.begin("--parallelism", 2)
        job.until_running()
        check(not job.says("reload"), job.stderr())
        job.v = 1
        job.hup()
        job.says_within(r"reload \d+ accepted")
        job.kill()
        job.finish("--parallelism", 2)
        job.compare()


# --- saving files -------------------------------------------------------------

MODULE = 'local M = {}\nM.v = %d\nM.whole = true\nreturn M\n'
USES = """(function()
  local M = require "version"
  assert(M.whole, "half a file")
  return M.v
end)()"""


def save_by_rename(path, data, _):
    with open(path + ".new", "w") as f:
        f.write(data)
    os.rename(path + ".new", path)


def save_in_two_pieces(path, data, rng):
    """As an editor that is slow: what is there meanwhile is no file."""
    cut = rng.randrange(len(data))
    with open(path, "w") as f:
        f.write(data[:cut])
        f.flush()
        wait_a_moment(rng.choice((0.02, 0.1, 0.5)))
        f.write(data[cut:])


def save_at_once(path, data, _):
    with open(path, "w") as f:
        f.write(data)


SAVES = (save_by_rename, save_in_two_pieces, save_at_once)


class WatchedJob(ReloadJob):
    """Which versions of a burst are tried, nobody knows: only the last one."""
    has_extra = staticmethod(lambda v: False)

    def save(self, name, text, save, rng):
        save(os.path.join(self.folder, name), text, rng)

    def lives(self, v):
        """Wait until rows of version v are visible."""
        until(lambda: any('"v":%d}' % v in x
                          for x in kit.values(self.outs["raw"])),
              "rows of version %d" % v, 60, job=self)

    def compare_saves(self, known):
        """Each round is of one whole version; none comes again."""
        stamps, rows = self.rounds()
        seen = []
        for n in sorted(stamps):
            equal(len(stamps[n]), 1, "versions in round %d" % n)
            (v, _), = stamps[n]
            check(v in known, "round", n, "is of", v)
            if not seen or seen[-1] != v:
                seen.append(v)
        equal(seen, sorted(set(seen)), "versions, in the order of rounds")
        self.compare_rows(rows)
        return seen


@test
def what_was_saved_last_is_what_runs_with_watch_and_nothing_half_saved():
    rng = random.Random(SEED)
    with WatchedJob(800) as job:
        job.write(MODULE % 0, "version.lua")
        job.write(text_of(USES))
        job.begin("--parallelism", 2, "--watch")
        job.until_round(1)
        v = 0
        for n in range(9):
            burst = 1 if n % 3 else 6
            for _ in range(burst):
                v += 1
                save = rng.choice(SAVES) if burst > 1 else SAVES[n // 3]
                if n % 2:
                    job.save("version.lua", MODULE % v, save, rng)
                else:
                    job.write(MODULE % v, "version.lua")
                    job.save("job.lua", text_of(USES, more="-- %d\n" % v),
                             save, rng)
                wait_a_moment(rng.choice((0.0, 0.03)))
            job.lives(v)
        refused = len(re.findall(r"reload \d+ refused", job.stderr()))
        job.kill()
        job.finish("--parallelism", 2)
        seen = job.compare_saves(range(v + 1))
        say("SEED=%d %d saves, %d versions ran, %d refused" % (
            SEED, v, len(seen), refused))


PLAIN = """local s = require "streamlua"
local job = s.job("%(name)s", { checkpoint = { interval = "200ms" },
  %(more)s })
job:source("in", s.generator { rate = 500, fields = { i = s.gen.sequence {} } })
  :sink("out", s.kafka { topic = "%(name)s", delivery = "exactly_once" })
return job
"""


@test
def what_the_job_says_of_its_clients_passes_preflight_too():
    name = kit.topic("reload-plain")
    with kit.Job(PLAIN % {"name": name, "more": ""}) as job:
        until(lambda: "checkpoint 2 completed" in job.stderr(), "rounds",
              job=job)
        with open(os.path.join(job.folder, "job.lua"), "w") as f:
            f.write(PLAIN % {"name": name, "more": "properties = { "
                             "['socket.timeout.ms'] = 'x' }"})
        job.p.send_signal(signal.SIGHUP)
        until(lambda: re.search("reload 1 (refused|rolled back)",
                                job.stderr()), "an answer", job=job)
        check(re.search("reload 1 refused: .*socket.timeout.ms",
                        job.stderr()), job.stderr())
