"""Directories that are damaged, lost, read-only or full."""
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile

import kit
from eo_kit import (LONG, SEED, EoJob, Live, copy_dir, fault_binary, say,
                    wait_a_moment)
from kit import check, equal, test, until

FLIPS = 300 if LONG else 20
MIB = 1 << 20


def some_rounds(job, rounds=4):
    """Run it for a while and kill it; its directory holds rounds."""
    job.start("--parallelism", 2)
    job.until_round(rounds)
    job.kill()


def refused(job, code, *patterns):
    job.start("--bounded")
    equal(job.ends(), code, "exit code\n" + job.stderr()[-3000:])
    for p in patterns:
        check(job.says(p), "it does not say %r:" % p, job.stderr()[-3000:])


def replaced(job, good):
    """The directory as it was."""
    shutil.rmtree(job.dir, ignore_errors=True)
    copy_dir(good, job.dir)


@test
def cut_and_missing_files_are_refused_and_the_whole_directory_goes_on():
    with EoJob(live=Live(5000)) as job:
        some_rounds(job)
        good = os.path.join(job.folder, "good")
        copy_dir(job.dir, good)
        data = os.path.join(job.dir, "data.mdb")
        for left in (8192, 4096, 100):
            os.truncate(data, left)
            refused(job, 74, re.escape("data.mdb"), "checkpoint|round")
            replaced(job, good)
        os.truncate(data, 0)
        job.start("--bounded")
        code = job.ends()
        check(code in (74, 78), "an empty file: ended with", code,
              job.stderr()[-2000:])
        replaced(job, good)
        os.unlink(data)
        refused(job, 78, "new or lost", "marker in Kafka is checkpoint",
                "--recover=discard-state")
        replaced(job, good)
        job.finish()
        job.compare()


def damage(path, rng, i):
    """Flip a bit, or cut the file; says what was done."""
    size = os.path.getsize(path)
    at = rng.randrange(size)
    if i % 5 == 4:
        os.truncate(path, at)
        return "cut at byte %d" % at
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return "a bit of byte %d" % at


def state_of(job):
    """What the state tools read in its directory."""
    done = subprocess.run([job.binary, "state", "scan", job.dir, "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=kit.clean_env(), check=False)
    equal(done.returncode, 0, "state scan: " + done.stderr.decode())
    check(done.stdout, "there is no state")
    return done.stdout


@test
def flipped_and_cut_files_are_refused_by_name_or_were_not_in_use_there():
    rng = random.Random(SEED)
    say("SEED=%d" % SEED)
    with EoJob(live=Live(5000), binary=fault_binary()) as job:
        some_rounds(job)
        good = os.path.join(job.folder, "good")
        copy_dir(job.dir, good)
        data = os.path.join(job.dir, "data.mdb")
        whole, unused = state_of(job), 0
        for i in range(FLIPS):
            replaced(job, good)
            what = damage(data, rng, i)
            # One that is believed dies before it claims anything.
            job.start("--bounded", fault="recover_decided=1!")
            code = job.ends()
            if code == -signal.SIGKILL:
                unused += 1
                equal(state_of(job), whole, what + ": the state")
                continue
            equal(code, 74, "%s: exit code\n%s" % (
                what, job.stderr()[-2000:]))
            check(job.says("data.mdb") and job.says("checkpoint|round"),
                  what + ": it does not say file and checkpoint:",
                  job.stderr())
        say("%d times, %d in bytes that nothing uses" % (FLIPS, unused))
        check(unused < FLIPS, "nothing was found")
        replaced(job, good)
        job.finish()
        job.compare()


class Disk:
    """A small file system of its own; skips the test where it cannot be."""

    def __init__(self, size):
        self.path = tempfile.mkdtemp(prefix="streamlua-disk-")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o",
                               "size=%d" % size, "none", self.path],
                              stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            os.rmdir(self.path)
            raise kit.Skipped("no file system can be mounted here")

    def again(self, options):
        subprocess.run(["mount", "-o", "remount," + options, self.path],
                       check=True)

    def fill(self):
        """Take all room that is left."""
        with open(os.path.join(self.path, "filler"), "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 4096)
            except OSError:
                pass

    def empty(self):
        os.unlink(os.path.join(self.path, "filler"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)
        os.rmdir(self.path)


@test
def a_full_disk_is_waited_for_and_then_ends_the_job_without_a_loss():
    with Disk(64 * MIB) as disk, EoJob(live=Live(5000)) as job:
        where = ("--data-dir", disk.path)
        job.start("--parallelism", 2, *where)
        job.until_round(2)
        disk.fill()
        until(lambda: job.says("trying again"), "words about the disk",
              job=job)
        before = job.marker()
        wait_a_moment(0.5)
        equal(job.marker(), before, "nothing is committed meanwhile")
        disk.empty()
        job.until_round(before + 3)
        disk.fill()
        until(lambda: job.p.poll() is not None, "the end", 90)
        equal(job.p.returncode, 74, "exit code\n" + job.stderr()[-3000:])
        check(job.says(re.escape(disk.path)) and job.says("checkpoint"),
              "it names directory and checkpoint:", job.stderr()[-2000:])
        job.compare_part()
        disk.empty()
        job.finish(*where)
        job.compare()


@test
def a_read_only_directory_is_refused_with_its_name():
    with Disk(64 * MIB) as disk, EoJob(live=Live(5000)) as job:
        where = ("--data-dir", disk.path)
        job.start(*where)
        job.until_round(2)
        job.kill()
        disk.again("ro")
        job.start("--bounded", *where)
        code = job.ends()
        check(code in (73, 74), "exit code", code, job.stderr()[-2000:])
        check(job.says(re.escape(disk.path)), "it names the directory:",
              job.stderr())
        check(job.says("[Rr]ead-only"), "it says why:", job.stderr())
        disk.again("rw")
        job.finish(*where)
        job.compare()
