#!/usr/bin/env python3
"""Run what the documents show: each Lua and shell block of doc/ and README.md.

usage: test_docs.py [--bin PATH] [-v] [--broker] [PAGE...]

README.md beside this file says how a block is marked. Blocks for a broker run
when STREAMLUA_TEST_BROKER=HOST:PORT names one, else they are counted as
skipped. With --broker only the pages that have such blocks are run, and only
those blocks are counted. Exit 0 if all hold.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import run_cases

TOP = os.path.abspath(os.environ.get(
    "top_srcdir", os.path.join(run_cases.HERE, "..", "..")))
BROKER_SHOWN = "localhost:9092"
KAFKA_TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh":
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh":
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
}
TESTED = ("lua", "sh", "console")
FOLLOWERS = ("input", "output", "error", "warning")
INFO_LINE = re.compile(r"^\d{4}-\S+Z INFO  .*\n", re.M)
BINARY = None
VERBOSE = False


class Failed(Exception):
    pass


class Block:
    def __init__(self, page, line, lang, marks):
        self.page, self.line, self.lang, self.marks = page, line, lang, marks
        self.lines = []
        self.after = {}  # input, output, error, warning blocks behind it

    @property
    def text(self):
        return "".join(x + "\n" for x in self.lines)

    def mark(self, name):
        """The words behind `name` in the block's comment, or None."""
        for m in self.marks:
            word, _, rest = m.partition(" ")
            if word == name:
                return rest.strip()
        return None

    def __str__(self):
        return "%s:%d" % (os.path.relpath(self.page, TOP), self.line)


def read_blocks(page):
    """The fenced blocks of a page in order, with their marks."""
    blocks, block, marks, fence = [], None, [], None
    with open(page, encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if block is not None:
                if line.strip() == fence:
                    block = None
                else:
                    block.lines.append(line[indent:])
                continue
            m = re.match(r"( *)(```+)(\w*)\s*$", line)
            if m:
                indent, fence = len(m.group(1)), m.group(2)
                block = Block(page, n, m.group(3), marks)
                marks = []
                if block.lang in FOLLOWERS:
                    if not blocks or blocks[-1].lang != "lua":
                        raise Failed("%s: ```%s without a lua block before it"
                                     % (block, block.lang))
                    blocks[-1].after[block.lang] = block
                else:
                    blocks.append(block)
                continue
            marks += re.findall(r"<!-- test: (.*?) -->", line)
    if block is not None:
        raise Failed("%s: the block is never closed" % block)
    return blocks


class Page:
    """One page: its blocks run in order in one folder."""

    def __init__(self, path):
        self.path = path
        self.dir = tempfile.mkdtemp(prefix="streamlua-docs-")
        self.bin = os.path.join(self.dir, ".bin")
        os.mkdir(self.bin)
        os.symlink(BINARY, os.path.join(self.bin, "streamlua"))
        shutil.copytree(os.path.join(TOP, "jobs"),
                        os.path.join(self.dir, "jobs"))
        self.env = run_cases.clean_env({"NO_COLOR": "1", "LC_ALL": "C.UTF-8"})
        self.env["PATH"] = self.bin + os.pathsep + self.env["PATH"]

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, cmd, stdin=b"", merge=False):
        try:
            p = subprocess.run(
                cmd, cwd=self.dir, env=self.env, input=stdin,
                stdout=subprocess.PIPE, timeout=run_cases.TIMEOUT_S * 2,
                stderr=subprocess.STDOUT if merge else subprocess.PIPE)
        except subprocess.TimeoutExpired:
            raise Failed("no end: %s" % " ".join(cmd)) from None
        return (p.returncode, shown(p.stdout),
                "" if merge else shown(p.stderr))

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def broker():
    return os.environ.get("STREAMLUA_TEST_BROKER")


def broker_in(text):
    return text.replace(BROKER_SHOWN, broker()) if broker() else text


def shown(data):
    """Output as the page shows it: with the page's broker."""
    text = data.decode("utf-8", "replace")
    return text.replace(broker(), BROKER_SHOWN) if broker() else text


# --- comparing ---------------------------------------------------------------

def line_rx(want):
    """A line of the page as an expression: the sign "…" stands for any text,
    a time of the log for any time."""
    rx = re.escape(want).replace("…", ".*")
    return re.sub(r"2026\\-01\\-02T03:04:05\\.678Z",
                  r"\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z", rx)


def same(got, want):
    """Compare lines; "..." alone stands for any number of lines."""
    rx = "".join("(?:.*\n)*?" if w.strip() == "..." else line_rx(w) + "\n"
                 for w in want)
    return re.fullmatch(rx, "".join(g + "\n" for g in got)) is not None


def expect(got, want, in_order, what):
    got, want = got.splitlines(), list(want)
    if not in_order:
        got, want = sorted(got), sorted(want)
    if not same(got, want):
        raise Failed("%s differs\n  got:\n    %s\n  the page says:\n    %s" %
                     (what, "\n    ".join(got), "\n    ".join(want)))


def expect_within(got, want, what):
    got = got.splitlines()
    for w in want:
        if not any(re.fullmatch(line_rx(w), g) for g in got):
            raise Failed("%s lacks %r; it is:\n    %s" %
                         (what, w, "\n    ".join(got)))


# --- Lua ---------------------------------------------------------------------

HEAD = 'local s = require "streamlua" '


def whole_job(b):
    """The job a block stands for; its lines keep their numbers."""
    text = b.text
    if b.mark("fragment") is not None:
        sink = b.mark("fragment")
        tail = "%s:sink(\"out\", s.stdout())\n" % sink if sink else ""
        return HEAD + 'local job = s.job "doc" ' + text + tail + "return job\n"
    if b.mark("steps") is not None:
        time = ""
        if re.search(r"s\.(tumbling|hopping)", text) and \
                ":event_time" not in text:
            time = ':event_time { field = "ts" }'
        sink = "" if ":sink(" in text else ':sink("out", s.stdout())'
        return (HEAD + 'local job = s.job "doc" job:source("in", s.stdin())' +
                time + text + sink + "\nreturn job\n")
    if b.mark("source") is not None:
        return (HEAD + 'local job = s.job "doc" job:source("in", ' + text +
                '):sink("out", s.blackhole())\nreturn job\n')
    if b.mark("sink") is not None:
        return (HEAD + 'local job = s.job "doc" job:source("in", s.stdin())'
                ':sink("out", ' + text + ")\nreturn job\n")
    if "return job" in text:
        return text
    raise Failed("no whole job, and no comment that says what it is")


def lua_block(page, b):
    name = b.mark("file") or "job.lua"
    if b.mark("file") is not None and "return job" not in b.text:
        page.write(name, b.text)  # a module, or data
        return
    page.write(name, whole_job(b))
    flags = (b.mark("flags") or "").split()
    run = "input" in b.after or "output" in b.after
    stdin = b.after["input"].text.encode() if "input" in b.after else b""
    if run:
        rc, out, err = page.run(["streamlua", "run", *flags, name], stdin)
    else:
        rc, out, err = page.run(["streamlua", "check", *flags, name])
    if "error" in b.after:
        if rc == 0:
            raise Failed("no error, but the page shows one")
        expect_within(err, b.after["error"].lines, "stderr")
    elif rc != 0:
        raise Failed("exit %d: %s" % (rc, err.strip()))
    if "output" in b.after:
        expect(out, b.after["output"].lines, False, "the output")
    if "warning" in b.after:
        expect_within(err, b.after["warning"].lines, "stderr")
    other = [x for x in err.splitlines() if "is not replayable" not in x]
    if not run and rc == 0 and "warning" not in b.after and other:
        raise Failed("a warning the page does not show: " + other[0])


# --- shell -------------------------------------------------------------------

def commands(b):
    """[(command, expected lines)] of a console block."""
    out = []
    for line in b.lines:
        if line.startswith("$ "):
            out.append((line[2:], []))
        elif line.startswith("> ") and out and not out[-1][1]:
            out[-1] = (out[-1][0] + "\n" + line[2:], [])
        elif not out:
            raise Failed("output before the first command")
        else:
            out[-1][1].append(line)
    return out


def console_block(page, b):
    steps = commands(b)
    script = '__end() { local rc=$?; printf "\\001%d\\n" $rc; return $rc; }\n'
    for command, _ in steps:
        script += broker_in(command) + "\n__end\n"
    _, out, _ = page.run(["bash", "-c", script], merge=True)
    parts = re.split("\001(\\d+)\n", out)
    if len(parts) != 2 * len(steps) + 1:
        raise Failed("the shell ended early: " + out)
    for i, (command, want) in enumerate(steps):
        rc, got = int(parts[2 * i + 1]), parts[2 * i]
        if not any(" INFO " in x for x in want):
            got = INFO_LINE.sub("", got)  # not there on a terminal
        asked = i + 1 < len(steps) and steps[i + 1][0].strip() == "echo $?"
        if rc != 0 and not asked:
            raise Failed("$ %s\n  exit %d: %s" % (command, rc, got.strip()))
        expect(got, want, b.mark("sorted") is None, "$ " + command)


def sh_block(page, b):
    rc, out, _ = page.run(["bash", "-e", "-c", broker_in(b.text)], merge=True)
    if rc != 0:
        raise Failed("exit %d: %s" % (rc, out.strip()))


def kafka_tools(page):
    """Kafka's own scripts, as far as the pages use them."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = os.path.join(base, "streamlua-kafka")
    libs = [os.path.join(root, v, "libs") for v in sorted(os.listdir(root))
            if os.path.isdir(os.path.join(root, v, "libs"))]
    for name, main in KAFKA_TOOLS.items():
        path = os.path.join(page.bin, name)
        if os.path.exists(path):
            continue
        call = 'java -cp "%s/*" %s' % (libs[-1], main)
        script = "#!/bin/bash\n"
        if name == "kafka-topics.sh":  # a page begins with an empty topic
            script += ('args=("$@")\n[ "${args[0]}" = --create ] && '
                       '%s --delete --if-exists "${args[@]:1:4}" '
                       '>/dev/null 2>&1\n' % call)
        with open(path, "w") as f:
            f.write(script + 'exec %s "$@" 2>/dev/null\n' % call)
        os.chmod(path, 0o755)


def unrun_block(b):
    """What cannot run here names at least files that exist."""
    if not b.mark("skip"):
        raise Failed("skip needs a reason")
    for path in re.findall(r"(?<![\w./])((?:contrib|jobs|doc|tests)/[\w./-]+)",
                           b.text):
        if not os.path.exists(os.path.join(TOP, path)):
            raise Failed("no such file: " + path)


# --- pages -------------------------------------------------------------------

def run_block(page, b):
    """"ok" or "skipped"; raises Failed."""
    if b.mark("skip") is not None:
        unrun_block(b)
        return "skipped"
    if b.mark("broker") is not None:
        if not broker():
            return "skipped"
        kafka_tools(page)
    {"lua": lua_block, "sh": sh_block, "console": console_block}[b.lang](
        page, b)
    return "ok"


def run_page(path, counts, broker_only):
    blocks = [b for b in read_blocks(path) if b.lang in TESTED]
    if broker_only and all(b.mark("broker") is None for b in blocks):
        return
    page = Page(path)
    try:
        for b in blocks:
            try:
                result = run_block(page, b)
                if VERBOSE or result != "ok":
                    print(result, b, b.lang, flush=True)
            except Failed as e:
                result = "not ok"
                print("not ok %s: %s" % (b, e), flush=True)
            if not broker_only or b.mark("broker") is not None \
                    or result == "not ok":
                counts[result] += 1
    finally:
        page.close()


# --- the words of the documents ----------------------------------------------

def schema_options():
    """(option, its schema) of lua/streamlua/schema.lua."""
    with open(os.path.join(TOP, "lua", "streamlua", "schema.lua")) as f:
        text = f.read()
    for schema, body in re.findall(r"(\w+) = \[\[(.*?)\]\]", text, re.S):
        for word in body.split():
            if not word.startswith("+"):
                yield re.match(r"\w+", word).group(0), schema


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def the_reference_names_every_option():
    for page in ("job-reference.md", "streamlua-job.5"):
        text = read("doc", page)
        if page.endswith(".md"):  # only what stands as code counts
            text = " ".join(re.findall(r"(?s)```.*?```|`[^`\n]+`", text))
        words = set(re.findall(r"[A-Za-z_]\w*",
                               re.sub(r"\\f[BIRP]|\\", "", text)))
        for name, schema in schema_options():
            if name not in words and not schema.startswith("test_"):
                raise Failed("doc/%s lacks the option %s" % (page, name))


def the_testing_page_names_every_option_of_tests():
    words = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(
        r"`[^`\n]+`", read("doc", "testing.md")))))
    options = [name for name, schema in schema_options()
               if schema.startswith("test_")]
    if "faults" not in options:
        raise Failed("the schema of tests is not found")
    for name in options:
        if name not in words:
            raise Failed("doc/testing.md lacks the option " + name)


def flags():
    """The flags in the help of the verbs."""
    found = set()
    verbs = subprocess.run([BINARY, "help"], capture_output=True, text=True,
                           check=True).stdout
    for verb in re.findall(r"^  ([a-z]+) ", verbs, re.M):
        out = subprocess.run([BINARY, "help", verb], capture_output=True,
                             text=True, check=True).stdout
        found.update(re.findall(r"^  (?:-\w, )?(--?[\w-]+)", out, re.M))
    return found


def the_command_line_page_names_every_flag():
    page = read("doc", "command-line.md")
    for flag in sorted(flags()):
        if "`%s" % flag not in page:
            raise Failed("doc/command-line.md lacks " + flag)


def no_page_names_a_flag_that_is_not_there():
    known = flags()
    for name in sorted(os.listdir(os.path.join(TOP, "doc"))):
        if not name.endswith(".md") or name == "performance.md":
            continue
        for flag in re.findall(r"`(--[a-z][\w-]*)", read("doc", name)):
            if flag not in known:
                raise Failed("doc/%s names %s" % (name, flag))


def the_floors_page_is_the_table_of_the_lint():
    page, above = read("doc", "internals", "floors.md"), []
    for line in read("tests", "lint", "layers.txt").split("\n"):
        m = re.match(r"(\w+) *:(.*)$", line)
        if not m:
            continue
        row = re.search(r"^\| `%s` \| (.*?) ?\|" % m.group(1), page, re.M)
        got = row.group(1).replace("`", "").split() if row else None
        if got in (["all", "above"], ["everything"]):
            got = list(above)
        if sorted(got or []) != sorted(m.group(2).split()):
            raise Failed("doc/internals/floors.md: %s: %s, but %s" %
                         (m.group(1), got, m.group(2).split()))
        above.append(m.group(1))


def links_lead_somewhere():
    for path in pages():
        for m in re.finditer(r"\]\(([^)#\s]+)(?:#[^)]*)?\)",
                             re.sub(r"(?s)```.*?```", "", read(path))):
            if re.match(r"\w+:", m.group(1)):
                continue
            target = os.path.join(os.path.dirname(path), m.group(1))
            if not os.path.exists(target):
                raise Failed("%s: no such file: %s" %
                             (os.path.relpath(path, TOP), m.group(1)))


def manual_pages_are_clean():
    if shutil.which("mandoc") is None:
        return "skipped"
    for page in ("streamlua.1", "streamlua-job.5"):
        p = subprocess.run(["mandoc", "-T", "lint", "-W", "warning",
                            os.path.join(TOP, "doc", page)],
                           capture_output=True, text=True)
        if p.stdout:
            raise Failed(p.stdout)
    return "ok"


CHECKS = [the_reference_names_every_option,
          the_testing_page_names_every_option_of_tests,
          the_command_line_page_names_every_flag,
          no_page_names_a_flag_that_is_not_there,
          the_floors_page_is_the_table_of_the_lint,
          links_lead_somewhere, manual_pages_are_clean]


def pages():
    out = [os.path.join(TOP, "README.md")]
    for root, dirs, names in os.walk(os.path.join(TOP, "doc")):
        dirs.sort()
        out += [os.path.join(root, n) for n in sorted(names)
                if n.endswith(".md")]
    return out


def main():
    global BINARY, VERBOSE
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("-v", action="store_true", help="name the good ones, too")
    ap.add_argument("--broker", action="store_true",
                    help="only what needs a broker")
    ap.add_argument("pages", nargs="*")
    args = ap.parse_args()
    BINARY, VERBOSE = os.path.abspath(args.bin), args.v
    counts = {"ok": 0, "not ok": 0, "skipped": 0}
    for path in args.pages or pages():
        try:
            run_page(path, counts, args.broker)
        except Failed as e:
            counts["not ok"] += 1
            print("not ok %s" % e)
    for check in [] if args.pages or args.broker else CHECKS:
        try:
            result = check() or "ok"
            print(result, check.__name__)
        except Failed as e:
            result = "not ok"
            print("not ok %s: %s" % (check.__name__, e))
        counts[result] += 1
    print("%d passed, %d failed, %d skipped" %
          (counts["ok"], counts["not ok"], counts["skipped"]))
    return 1 if counts["not ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
