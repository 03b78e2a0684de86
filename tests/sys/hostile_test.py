#!/usr/bin/env python3
"""Hostile job files: none crashes, hangs or corrupts the process.

usage: hostile_test.py [--bin PATH] [-j N] [NAME...]

Each file of hostile/ is a whole job that tries one thing; its first lines say
what must come of it (README.md lists them). It runs alone, on ten records,
under a limit of time and of address space (of resident memory in a build with
a sanitizer).
"""
import argparse
import concurrent.futures
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "hostile")
ADDRESS_SPACE = 3 << 30
RESIDENT_MIB = 2000
SLOW = 8  # a sanitizer, and a loaded machine
KEYS = {"tries", "exit", "out", "stdout", "stderr", "stderr-not", "seconds",
        "input", "args", "term", "term-after", "setup", "line"}
CRASH = re.compile(r"AddressSanitizer|runtime error:|LeakSanitizer|"
                   r"ThreadSanitizer|Assertion|PANIC|internal error|"
                   r"memory exhausted|Segmentation")


def header(path):
    """{key: [values]} of the comment that the file begins with."""
    keys = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"-- ([a-z-]+): (.*)\n", line)
            if m is None:
                break
            if m[1] not in KEYS:
                raise ValueError(f"{path}: unknown key {m[1]}")
            keys.setdefault(m[1], []).append(m[2])
    return keys


def records(n):
    return "".join(json.dumps(
        {"i": i, "k": "ab"[i % 2], "ts": 1000 * i, "l": [1, 2, 3],
         "m": {"a": {"b": 1}}}) + "\n" for i in range(n)).encode()


def wanted(out, n):
    """The values of "i" that must come out, or None: any."""
    if out == "all":
        return list(range(n))
    if out == "none":
        return []
    if out.startswith("all but "):
        gone = {int(x) for x in out[8:].split()}
        return [i for i in range(n) if i not in gone]
    return None


def limits(sanitizer):
    def set_limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not sanitizer:
            resource.setrlimit(resource.RLIMIT_AS,
                               (ADDRESS_SPACE, ADDRESS_SPACE))
    return set_limits


def run(binary, path, folder, keys, sanitizer):
    """(exit code, stdout, stderr), or None for code: it did not end."""
    n = int(keys.get("input", ["10"])[0])
    seconds = float(keys.get("seconds", ["5"])[0]) * SLOW
    # An end at once leaves threads behind; that is its point.
    env = dict(os.environ, TZ="UTC",
               TSAN_OPTIONS=os.environ.get("TSAN_OPTIONS", "") +
               " report_thread_leaks=0")
    if sanitizer:
        env["ASAN_OPTIONS"] = (env.get("ASAN_OPTIONS", "") +
                               f":hard_rss_limit_mb={RESIDENT_MIB}")
    verb = ["run"] + keys.get("args", [""])[0].split()
    p = subprocess.Popen([binary, *verb, path], cwd=folder, env=env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE,
                         preexec_fn=limits(sanitizer))
    term = keys.get("term")
    texts = [b"", []]

    def read_errors():
        for line in p.stderr:
            texts[1].append(line)
            if term and re.search(term[0].encode(), line):
                p.send_signal(signal.SIGTERM)

    def write():
        try:
            p.stdin.write(records(n))
            p.stdin.close()
        except BrokenPipeError:
            pass

    def read():
        texts[0] = p.stdout.read()

    if "term-after" in keys:
        later = threading.Timer(float(keys["term-after"][0]), p.terminate)
        later.daemon = True
        later.start()
    threads = [threading.Thread(target=f, daemon=True)
               for f in (read_errors, write, read)]
    for t in threads:
        t.start()
    try:
        code = p.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        p.kill()
        code = None
        p.wait()
    for t in threads:
        t.join(timeout=10)
    return code, texts[0], b"".join(texts[1]).decode("utf-8", "replace")


def faults(keys, path, code, out, err):
    """What is not as the header says, as lines."""
    if code is None:
        yield "did not end"
        return
    if str(code) not in keys.get("exit", ["0"])[0].split(" or "):
        yield f"exit code {code}"
    m = CRASH.search(err)
    if m:
        yield f"stderr has {m[0]!r}"
    for pattern in keys.get("stderr", []):
        m = re.search(pattern, err)
        if m is None:
            yield f"stderr has no {pattern!r}"
        elif "line" in keys and m.groups():
            with open(path, encoding="utf-8") as f:
                text = f.read().split("\n")[int(m[1]) - 1]
            if keys["line"][0] not in text:
                yield f"line {m[1]} is told, not that of {keys['line'][0]!r}"
    for pattern in keys.get("stderr-not", []):
        if re.search(pattern, err):
            yield f"stderr has {pattern!r}"
    text = out.decode("utf-8", "replace")
    for pattern in keys.get("stdout", []):
        if re.search(pattern, text) is None:
            yield f"stdout has no {pattern!r}"
    want = wanted(keys["out"][0], int(keys.get("input", ["10"])[0]))
    got = []
    for line in text.splitlines():
        try:
            got.append(json.loads(line).get("i"))
        except (ValueError, AttributeError):
            yield f"stdout has a line that is no record: {line[:80]!r}"
            return
    if want is not None and sorted(got, key=str) != sorted(want, key=str):
        yield f"records {got} came out"
    if keys["out"][0] == "some" and not got:
        yield "no record came out"


def try_one(binary, name, sanitizer):
    """The faults of a script, as one text; "" for none."""
    folder = tempfile.mkdtemp(prefix="hostile-")
    try:
        path = os.path.join(folder, name + ".lua")
        shutil.copy(os.path.join(FOLDER, name + ".lua"), path)
        shutil.copytree(os.path.join(FOLDER, "lib"),
                        os.path.join(folder, "lib"))
        with open(os.path.join(folder, "lib", "lib_binary.lua"), "wb") as f:
            f.write(b"\x1bLuaT\x00\x19\x93\r\n\x1a\n")
        with open(os.path.join(folder, "lib", "lib_c.so"), "wb") as f:
            f.write(b"\x7fELF")
        keys = header(path)
        if keys.get("setup") == ["fifo"]:
            os.mkfifo(os.path.join(folder, "fifo"))
        code, out, err = run(binary, path, folder, keys, sanitizer)
        bad = list(faults(keys, path, code, out, err))
        if not bad:
            return ""
        return "\n".join([*bad, err[-1500:]])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-j", type=int, default=2)
    ap.add_argument("names", nargs="*")
    a = ap.parse_args()
    binary = os.path.abspath(a.bin) if "/" in a.bin else shutil.which(a.bin)
    version = subprocess.run([binary, "version"], stdout=subprocess.PIPE,
                             check=True, text=True).stdout
    sanitizer = re.search(r"sanitizer +no\n", version) is None
    names = a.names or sorted(f[:-4] for f in os.listdir(FOLDER)
                              if f.endswith(".lua"))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(a.j) as pool:
        results = pool.map(lambda n: try_one(binary, n, sanitizer), names)
        for name, text in zip(names, results):
            if text:
                failed += 1
                print(f"FAIL {name}: {text}", flush=True)
    print(f"{len(names)} scripts, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
