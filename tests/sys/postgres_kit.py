"""A PostgreSQL server of a test's own.

It lives in a temporary folder, listens on a Unix socket there and nowhere
else, and is gone with the folder when the test ends. The server refuses to
run as root: then it runs as the user postgres, or nobody.
"""
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

WAIT_S = 60


def find():
    """The folder with initdb, postgres and psql, or None."""
    on_path = shutil.which("postgres")
    folders = [os.path.dirname(os.path.realpath(on_path))] if on_path else []
    folders += sorted(glob.glob("/usr/lib/postgresql/*/bin"),
                      key=lambda p: int(re.sub(r"\D", "", p) or 0),
                      reverse=True)
    folders += ["/usr/pgsql/bin", "/usr/local/pgsql/bin"]
    for folder in folders:
        if all(os.access(os.path.join(folder, name), os.X_OK)
               for name in ("initdb", "postgres", "psql")):
            return folder
    return None


def _unprivileged():
    """Arguments of subprocess that give up root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid,
                "extra_groups": []}
    return {}


class Server:
    def __init__(self):
        self.bin = find()
        self.path = tempfile.mkdtemp(prefix="streamlua-pg-")
        self.data = os.path.join(self.path, "data")
        self.conninfo = "host=%s dbname=postgres user=test" % self.path
        self.identity = _unprivileged()
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # fast shutdown
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait(WAIT_S)
        shutil.rmtree(self.path, ignore_errors=True)

    def tool(self, name, *args, **more):
        return subprocess.run(
            [os.path.join(self.bin, name), *args], cwd="/",
            capture_output=True, text=True, timeout=WAIT_S,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **more)

    def start(self):
        if self.identity:
            os.chown(self.path, self.identity["user"], self.identity["group"])
        os.chmod(self.path, 0o755)
        r = self.tool("initdb", "-D", self.data, "-U", "test", "-A", "trust",
                      "-E", "UTF8", "--no-locale", "--no-sync", **self.identity)
        assert r.returncode == 0, r.stdout + r.stderr
        with open(os.path.join(self.path, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.bin, "postgres"), "-D", self.data,
                 "-k", self.path, "-c", "listen_addresses=",
                 "-c", "fsync=off", "-c", "max_connections=50"],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                **self.identity)
        deadline = time.monotonic() + WAIT_S
        while self.tool("psql", "-d", self.conninfo,
                        "-c", "select 1").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(os.path.join(self.path, "log")) as f:
                    raise AssertionError("no server: " + f.read())
            time.sleep(0.05)

    def make_database(self, name):
        """A database of its own. @return its conninfo."""
        self.query("create database " + name, self.conninfo)
        return self.conninfo.replace("dbname=postgres", "dbname=" + name)

    def query(self, sql, conninfo):
        """@return rows, each a list of texts."""
        r = self.tool("psql", "-X", "-q", "-A", "-t", "-F", "\t",
                      "-v", "ON_ERROR_STOP=1", "-d", conninfo, "-c", sql)
        assert r.returncode == 0, r.stderr
        return [line.split("\t") for line in r.stdout.splitlines()]
