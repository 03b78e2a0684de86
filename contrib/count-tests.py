#!/usr/bin/env python3
"""Sum the tests of automake logs: promises, not programs.

usage: count-tests.py BUILD_DIR...

A cmocka program counts as its test functions, a script that ends with a line
"N passed, N failed" as those, any other test as one. Prints
"PASSED FAILED SKIPPED", and each failed test on stderr.
"""
import os
import re
import sys

CMOCKA = {k: re.compile(r"^\[ *%s *\] (\d+) test\(s\)" % k, re.M)
          for k in ("PASSED", "FAILED", "SKIPPED")}
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$",
                   re.M)


def count(result, log):
    """(passed, failed, skipped) of one test."""
    found = [CMOCKA[k].findall(log) for k in ("PASSED", "FAILED", "SKIPPED")]
    plain = PLAIN.findall(log)
    if any(found):
        n = [sum(map(int, f)) for f in found]
    elif plain:
        n = [int(x or 0) for x in plain[-1]]
    elif result in ("PASS", "XFAIL"):
        n = [1, 0, 0]
    elif result == "SKIP":
        n = [0, 0, 1]
    else:
        n = [0, 1, 0]
    if result not in ("PASS", "XFAIL", "SKIP") and n[1] == 0:
        n[1] = 1  # it died before it could say so
    return n


def main():
    total = [0, 0, 0]
    for root in sys.argv[1:]:
        for folder, dirs, files in os.walk(root):
            dirs[:] = [d for d in dirs if not d.startswith("streamlua-")]
            for f in sorted(files):
                if not f.endswith(".trs"):
                    continue
                trs = os.path.join(folder, f)
                with open(trs, errors="replace") as h:
                    result = re.search(r"^:test-result: (\w+)", h.read(), re.M)
                result = result.group(1) if result else "ERROR"
                try:
                    with open(trs[:-4] + ".log", errors="replace") as h:
                        log = h.read()
                except OSError:
                    log = ""
                n = count(result, log)
                if n[1]:
                    print("failed: %s (%d)" % (trs[:-4], n[1]),
                          file=sys.stderr)
                total = [a + b for a, b in zip(total, n)]
    print("%d %d %d" % tuple(total))


if __name__ == "__main__":
    main()
