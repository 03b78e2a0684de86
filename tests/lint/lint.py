#!/usr/bin/env python3
"""Rules of the house that a compiler does not check.

usage: lint.py [NAME...]        top_srcdir and CC come from the environment

Each rule is a function whose name is the promise; all of them run, each
breach is one line with file and line.
"""
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.abspath(os.environ.get("top_srcdir", "."))
FILE_LINES, FUNCTION_LINES = 800, 70
BANNED = re.compile(
    r"\b(sprintf|vsprintf|strcpy|strcat|gets|usleep)\s*\(")
SLEEPS = re.compile(r"\b(usleep|nanosleep|clock_nanosleep|sleep)\s*\(")
UNFINISHED = re.compile(
    r"\b(TODO|FIXME|XXX|HACK|unimplemented|placeholder|stub)\b", re.I)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
PREFIXES = re.compile(r"^(ev_|mdb_|lua_|luaL_|rd_|je_)\w+\(", re.M)


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8",
              errors="replace") as f:
        return f.read()


def files(folder, *suffixes):
    """Paths below folder, relative to the top, sorted."""
    out = []
    for root, dirs, names in os.walk(os.path.join(TOP, folder)):
        dirs[:] = [d for d in dirs if not d.startswith((".", "__"))]
        for n in names:
            if n.endswith(suffixes) and n != "lua_embed.c":
                out.append(os.path.relpath(os.path.join(root, n), TOP))
    return sorted(out)


def sources():
    return files("src", ".c", ".h", ".cc") + files("state", ".c", ".h")


def folder_of(include):
    """Where a quoted include lies: state/ is a library beside src/."""
    return "" if include.startswith("state/") else "src"


def as_included(path):
    return path[len("src/"):] if path.startswith("src/") else path


def headers():
    return [p for p in sources() if p.endswith(".h")]


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def code_only(text):
    """The text with comments and strings blanked, lines kept."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text,
                  flags=re.S)


def read_layers():
    allowed, homes = {}, {}
    for line in read("tests/lint/layers.txt").split("\n"):
        line = line.split("#")[0].strip()
        if line.startswith("home "):
            _, header, *folders = line.split()
            homes[header] = folders
        elif line:
            floor, _, rest = line.partition(":")
            allowed[floor.strip()] = set(rest.split())
    return allowed, homes


def floors_include_only_what_stands_below():
    allowed, homes = read_layers()
    for path in sources():
        floor = as_included(path).split(os.sep)[0]
        text = read(path)
        if floor not in allowed:
            yield "%s: folder %s is not in layers.txt" % (path, floor)
            continue
        for m in INCLUDE.finditer(text):
            at = "%s:%d" % (path, line_of(text, m.start()))
            if m.group(1) == "<":
                for header, home in homes.items():
                    if m.group(2).startswith(header) and floor not in home:
                        yield "%s: <%s> belongs to %s" % (at, m.group(2),
                                                          " ".join(home))
                continue
            other = m.group(2).split("/")[0]
            if m.group(2) == "config.h" and floor == "main":
                continue
            if "/" not in m.group(2):
                yield '%s: write the folder: "%s/%s"' % (at, floor, m.group(2))
            elif other != floor and other not in allowed[floor]:
                yield "%s: %s may not include %s" % (at, floor, other)


def no_file_includes_itself_in_a_circle():
    graph = {p: [os.path.join(folder_of(m.group(2)), m.group(2))
                 for m in INCLUDE.finditer(read(p)) if m.group(1) == '"']
             for p in sources()}
    state, stack = {}, []

    def visit(p):
        state[p] = 1
        stack.append(p)
        for q in graph.get(p, ()):
            if state.get(q) == 1:
                yield "circle: " + " -> ".join(stack[stack.index(q):] + [q])
            elif q not in state:
                yield from visit(q)
        stack.pop()
        state[p] = 2
    for p in sorted(graph):
        if p not in state:
            yield from visit(p)


def read_exceptions():
    out = {}
    for n, line in enumerate(read("tests/lint/exceptions.txt").split("\n")):
        if line and not line.startswith("#"):
            what, _, why = line.partition(": ")
            out[what] = [n + 1, bool(why.strip())]
    return out


def functions(text):
    """(name, first line, lines) of each function; braces at column 0."""
    lines = text.split("\n")
    start = None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
        elif line == "}" and start is not None:
            head = " ".join(lines[max(0, start - 6):start])
            names = re.findall(r"([A-Za-z_]\w*)\s*\(", head)
            yield names[-1] if names else "?", start + 1, i - start
            start = None


def files_and_functions_stay_small():
    excused = read_exceptions()
    used = set()
    for path in sources() + files("tests", ".c"):
        text = read(path)
        n = text.count("\n")
        if n > FILE_LINES:
            key = "file " + path
            used.add(key)
            if key not in excused:
                yield "%s: %d lines, limit %d" % (path, n, FILE_LINES)
        for name, line, length in functions(text):
            if length > FUNCTION_LINES:
                key = "function %s %s" % (name, path)
                used.add(key)
                if key not in excused:
                    yield "%s:%d: %s has %d lines, limit %d" % (
                        path, line, name, length, FUNCTION_LINES)
    for key, (line, has_reason) in excused.items():
        if key not in used:
            yield "tests/lint/exceptions.txt:%d: no longer needed" % line
        elif not has_reason:
            yield "tests/lint/exceptions.txt:%d: no reason given" % line


def banned_calls_are_not_used():
    for path in sources() + files("tests", ".c"):
        text = code_only(read(path))
        for m in BANNED.finditer(text):
            yield "%s:%d: %s is banned" % (path, line_of(text, m.start()),
                                           m.group(1))
        if path.startswith("tests/"):
            for m in SLEEPS.finditer(text):
                yield "%s:%d: %s; wait for the condition" % (
                    path, line_of(text, m.start()), m.group(1))
        if path.startswith("src/main/"):
            continue
        if not path.startswith("tests/"):
            for m in re.finditer(r"\bexit\s*\(", text):
                yield "%s:%d: exit outside main" % (path,
                                                    line_of(text, m.start()))


def lua_call_stands_only_where_an_error_may_pass():
    """In C functions that Lua calls, and in those named ..._lj."""
    for path in files("src/script", ".c"):
        text = code_only(read(path))
        lines = text.split("\n")
        for name, start, length in functions(text):
            head = " ".join(lines[max(0, start - 5):start])
            if name.endswith("_lj") or re.search(
                    r"\bint\s+%s\s*\(\s*lua_State \*\w+\s*\)\s*\{" % name,
                    head):
                continue
            for i in range(start, start + length):
                if re.search(r"\blua_callk?\s*\(", lines[i]):
                    yield "%s:%d: lua_call in %s" % (path, i + 1, name)


def names_keep_clear_of_the_libraries():
    for path in sources():
        text = read(path)
        for m in PREFIXES.finditer(text):
            yield "%s:%d: prefix %s belongs to a library" % (
                path, line_of(text, m.start()), m.group(1))


def nothing_is_left_unfinished():
    for path in sources() + files("lua", ".lua") + files("jobs", ".lua"):
        text = read(path)
        for m in UNFINISHED.finditer(text):
            yield "%s:%d: %s" % (path, line_of(text, m.start()), m.group(0))


def headers_have_a_guard_and_an_opening():
    for path in headers():
        text = read(path)
        guard = re.sub(r"[/.]", "_", as_included(path)).upper()
        if "#ifndef %s\n#define %s\n" % (guard, guard) not in text:
            yield "%s: no guard %s" % (path, guard)
        if not text.startswith("/*"):
            yield "%s: does not open with a comment" % path


def headers_compile_alone():
    cc = os.environ.get("CC", "cc").split()
    with tempfile.TemporaryDirectory() as d:
        for path in headers():
            one = os.path.join(d, "one.c")
            with open(one, "w") as f:
                f.write('#include "%s"\ntypedef int one;\n'
                        % as_included(path))
            flags = os.environ.get("LINT_CPPFLAGS", "").split()
            p = subprocess.run(
                cc + ["-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Werror",
                      "-I" + os.path.join(TOP, "src"), "-I" + TOP] + flags + [one],
                capture_output=True)
            if p.returncode != 0:
                yield "%s: %s" % (path, p.stderr.decode().strip()[:400])


def every_source_is_in_a_fragment():
    floors = ["src/" + f for f in os.listdir(os.path.join(TOP, "src"))]
    for floor in sorted(floors) + ["state"]:
        fragment = floor + "/sources.am"
        if not os.path.isdir(os.path.join(TOP, floor)):
            continue
        if not os.path.exists(os.path.join(TOP, fragment)):
            yield "%s is missing" % fragment
            continue
        listed = set(re.findall(r"%s/\S+\.(?:cc|c|h)\b" % floor,
                                read(fragment)))
        there = {p for p in sources() if p.startswith(floor + "/")}
        for p in sorted(there ^ listed):
            yield "%s: %s" % (fragment, ("lacks " if p in there
                                         else "names a missing ") + p)


def every_test_is_in_a_fragment():
    named = ""
    for path in files("tests", ".am"):
        named += read(path)
    for path in files("tests", ".c"):
        if path not in named:
            yield "%s is in no fragment" % path


def every_folder_of_code_has_a_page():
    folders = {os.path.dirname(p) for p in sources()}
    folders |= {"jobs", "lua", "contrib"}
    for root in ("tests/sys", "tests/lint", "tests/unit"):
        folders.add(root)
    for d in sorted(folders):
        readme = os.path.join(d, "README.md")
        if not os.path.exists(os.path.join(TOP, readme)):
            yield "%s is missing" % readme
        elif read(readme).count("\n") > 80:
            yield "%s: more than a page" % readme


RULES = [
    floors_include_only_what_stands_below,
    no_file_includes_itself_in_a_circle,
    files_and_functions_stay_small,
    banned_calls_are_not_used,
    lua_call_stands_only_where_an_error_may_pass,
    names_keep_clear_of_the_libraries,
    nothing_is_left_unfinished,
    headers_have_a_guard_and_an_opening,
    headers_compile_alone,
    every_source_is_in_a_fragment,
    every_test_is_in_a_fragment,
    every_folder_of_code_has_a_page,
]


def main():
    rules = [r for r in RULES
             if not sys.argv[1:] or r.__name__ in sys.argv[1:]]
    failed = 0
    for rule in rules:
        breaches = list(rule())
        print(("not ok " if breaches else "ok ") + rule.__name__)
        for b in breaches:
            print("  " + b)
        failed += bool(breaches)
    print("%d passed, %d failed, 0 skipped" % (len(rules) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
