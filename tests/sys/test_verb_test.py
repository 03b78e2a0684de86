#!/usr/bin/env python3
"""streamlua test from outside: what passes, what fails and how it is told.

usage: test_verb_test.py [--bin PATH] [NAME]...
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import run_cases

TOP = os.path.join(run_cases.HERE, "..", "..")
BINARY = None

SUMS = """local s = require "streamlua"
local job = s.job "sums"
job:source("in", s.stdin())
   :event_time { field = "ts" }
   :key_by "k"
   :window(s.tumbling "1m")
   :aggregate { total = s.sum "v", n = s.count() }
   :sink("out", s.stdout())
return job
"""
HEAD = """local test = require "streamlua.test"
test.job "job.lua"
"""
# What passes, as long as SUMS is the job.
GOOD = HEAD + """
test.case("a sum", function(t)
  t:push("in", { k = "a", v = 1, ts = 0 })
  t:push("in", { k = "a", v = 2, ts = 59999 })
  t:push("in", { k = "b", v = 3.5, ts = 60000 })
  t:advance_watermark(59999)
  t:expect("out", { { k = "a", window_start = 0, window_end = 60000, total = 3, n = 2 } })
  t:expect_nothing "out"
end)
"""


def run(files, *args, rc=0, env=None):
    """Write the files, run the verb among them; gives stdout, stderr, files."""
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(d, name)), exist_ok=True)
            with open(os.path.join(d, name), "w") as f:
                f.write(text)
        p = subprocess.run([BINARY, "test", *args], cwd=d, capture_output=True,
                           text=True, timeout=run_cases.TIMEOUT_S,
                           env=run_cases.clean_env(env or {}))
        assert p.returncode == rc, (p.returncode, p.stdout, p.stderr)
        left = {}
        for name in os.listdir(d):
            if os.path.isfile(os.path.join(d, name)):
                with open(os.path.join(d, name)) as f:
                    left[name] = f.read()
        return p.stdout, p.stderr, left


def plain(out):
    """Output without times."""
    return re.sub(r" \(\d+ ms\)", "", out)


def case(body, job=SUMS, options="", head=HEAD, args=(), rc=1, more=None):
    """Run one case of these lines; gives what is told."""
    files = {"job.lua": job, "job_test.lua":
             head + 'test.case("c", function(t)\n%s\nend%s)\n' %
             (body, options)}
    return plain(run({**files, **(more or {})}, *args, rc=rc)[0])


def a_case_that_holds_is_a_line_and_exit_0():
    out, err, _ = run({"job.lua": SUMS, "job_test.lua": GOOD}, "job.lua")
    assert plain(out) == ("# job_test.lua\nok 1 a sum\n"
                          "1 passed, 0 failed\n"), out
    assert re.search(r"^ok 1 a sum \(\d+ ms\)$", out, re.M), out
    assert err == "", err


def a_difference_is_told_field_by_field_with_place_variant_and_seed():
    out = case('t:push("in", { k = "a", v = 1, ts = 0 })\n'
               't:push("in", { k = "b", v = 2, ts = 0 })\n'
               't:advance_watermark(59999)\n'
               't:expect("out", { { k = "a", window_start = 0, window_end = '
               '60000, total = 1.0, n = 1 },\n  { k = "c" } })')
    assert out == (
        '# job_test.lua\n'
        'not ok 1 c\n'
        '  job_test.lua:7: the rows of "out" are not those expected: 2 of 2 '
        'rows missing, 2 unexpected\n'
        '  - {"k":"a","n":1,"total":1.0,"window_end":60000,"window_start":0}\n'
        '  + {"k":"a","n":1,"total":1,"window_end":60000,"window_start":0}\n'
        '      total: expected 1.0 (float), got 1 (integer)\n'
        '  - {"k":"c"}\n'
        '  + {"k":"b","n":1,"total":2,"window_end":60000,"window_start":0}\n'
        '  with parallelism 1, one phase; repeat with --seed 1\n'
        '0 passed, 1 failed\n'), out


def rows_are_compared_as_they_are_asked_to():
    push = ('t:push("in", { k = "a", v = 1, ts = 0 })\n'
            't:push("in", { k = "b", v = 2, ts = 0 })\n'
            't:advance_watermark(59999)\n')
    for body in (
            't:expect("out", { { total = 2 }, { total = 1 } }, '
            '{ subset = true })',
            't:expect("out", { { k = "b", total = t.any, n = t.approx(1.4, 0.5)'
            ', window_start = 0, window_end = 60000 }, { k = "a", total = 1, '
            'n = 1, window_start = t.any, window_end = t.any } })',
            'local rows = t:take "out"\ntable.sort(rows, function(x, y) '
            'return x.k < y.k end)\nassert(#rows == 2 and rows[2].total == 2 '
            'and math.type(rows[2].total) == "integer")\n'
            't:expect_nothing "out"',
            't:expect("out", { { value = t.any, key = "b", timestamp = 59999 '
            '}, { value = t.any, key = "a", timestamp = 59999 } }, '
            '{ meta = true })'):
        case(push + body, rc=0)
    for body, why in (
            ('t:expect("out", { { total = 2 } }, { subset = true })',
             "0 of 1 rows missing, 1 unexpected"),
            ('t:expect_nothing "out"', "0 of 0 rows missing, 2 unexpected"),
            ('t:expect("out", { { k = "a" }, { k = "b" } })',
             "window_start: not expected, got 0")):
        out = case(push + body)
        assert why in out, out


def what_a_case_does_wrong_is_told_with_its_line():
    for body, why in (
            ('t:push("inn", {})', 'the job has no source "inn"; it has: in'),
            ('t:expect("oot", {})', '"oot"'),
            ('t:pusch("in", {})', 't has no method "pusch"; did you mean '
             '"push"?'),
            ('t:push("in", { a = 1 }, { kee = 1 })',
             'push: unknown option "kee"; did you mean "key"?'),
            ('t:push("in", 5)', 'push: second argument: expected a table of '
             'fields'),
            ('t:push("in", { a = t.any })', "cannot be pushed"),
            ('t:expect("out", { k = 1 })', "rows are a list of tables"),
            ('t:advance_time "soon"', 'advance_time: argument: expected a '
             'duration'),
            ('error "mine"', "mine"),
            ('local x = nil; x.y = 1', "attempt to index a nil value"),
            ('t:fail "no good"', "no good"),
            ('t:expect_error()', "expected an error, there is none"),
            ('pcall(t.expect, t, "out", { { a = 1 } })', "1 of 1 rows missing"),
            ('n = 1', "assignment to global 'n'"),
            ('local l = {}; for i = 1, 1e9 do l[i] = ("x"):rep(1e6) .. i end',
             "not enough memory: the Lua state may take 256 MiB")):
        out = case(body)
        assert re.search(r"^  job_test\.lua:4: .*" + re.escape(why), out,
                         re.M), (body, out)


def an_error_of_the_job_is_to_be_expected():
    job = SUMS.replace(":key_by", ":filter(function(e) return e.v > 0 end)"
                       "\n   :key_by")
    bad = 't:push("in", { k = "a", v = "x", ts = 0 })\n'
    case(bad + 't:expect_error("user_error", "compare")', job, rc=0)
    case('t:push("in", "{")\nlocal e = t:expect_error "decode"\n'
         'assert(e.cause == "decode" and #e.text > 0)', job, rc=0)
    for body, why in (
            (bad, r"job_test\.lua:4: the job failed: job\.lua:5: attempt to "
             r"compare .*\(user_error\)"),
            (bad + 't:expect_nothing "out"', r"job_test\.lua:4: the job "
             "failed"),
            (bad + 't:expect_error "decode"', r"job_test\.lua:5: expected an "
             r"error \(decode\), got one \(user_error\)"),
            (bad + 't:expect_error("user_error", "nothing")',
             r"job_test\.lua:5: the error does not match \"nothing\"")):
        out = case(body, job)
        assert re.search(why, out), (body, out)


def a_test_file_that_does_not_load_has_failed():
    for text, why in (
            ("local = 1\n", r"job_test\.lua:1: .*expected"),
            ('require "streamlua.tests"\n', r"job_test\.lua:1: module "
             r"'streamlua\.tests' not found: no field "),
            (HEAD, r"job_test\.lua:2: no cases"),
            ('require "streamlua.test"\n', r"job_test\.lua:1: no job"),
            (GOOD + 'error "mine"\n', r"job_test\.lua:\d+: mine"),
            (GOOD + GOOD[len(HEAD):], r'.*two cases are called "a sum"'),
            (HEAD + 'require("streamlua").job "x"\n',
             r"job_test\.lua:3: job: a test file has no job of its own"),
            ("io.open 'x'\n", r"job_test\.lua:1: .*io")):
        out, _, _ = run({"job.lua": SUMS, "job_test.lua": text}, rc=1)
        assert re.search(r"^not ok 1 job_test\.lua", out, re.M), out
        assert re.search("^  " + why, out, re.M), (why, out)
        assert out.endswith("0 passed, 1 failed\n"), out


def a_job_that_does_not_load_fails_its_cases():
    out = case("", SUMS.replace("s.sum", "s.sumn"))
    assert re.search(r"job_test\.lua:2: job\.lua:\d+: .*sumn", out), out
    out = case("", head=HEAD.replace("job.lua", "none.lua"))
    assert "job_test.lua:2: none.lua: cannot open" in out, out
    out = case("", head=HEAD.replace('"job.lua"',
                                     '("job.lua", { set = { x = 1 } })'))
    assert "no s.param asks for it" in out, out


def nothing_to_run_is_a_failure():
    out, _, _ = run({"job.lua": SUMS}, rc=1)
    assert "there is no *_test.lua in '.'" in out, out
    out, _, _ = run({"job.lua": SUMS}, "job.lua", rc=1)
    assert "there is no test file 'job_test.lua'" in out, out
    out, _, _ = run({"job.lua": SUMS, "job_test.lua": GOOD}, "--filter", "xx",
                    rc=1)
    assert 'no case has "xx" in its name' in out, out
    out, _, _ = run({}, "nowhere", rc=1)
    assert "0 passed, 1 failed" in out, out


def folders_files_and_jobs_name_tests():
    files = {"a/job.lua": SUMS, "a/x_test.lua": GOOD, "a/y_test.lua": GOOD,
             "a/b/z_test.lua": "error 'below'\n", "a/x.lua": ""}
    out = plain(run(files, "a")[0])
    assert out == ("# a/x_test.lua\nok 1 a sum\n# a/y_test.lua\nok 2 a sum\n"
                   "2 passed, 0 failed\n"), out
    out = plain(run(files, "a/x.lua", "a/y_test.lua", "a/y")[0])
    assert out.count("# a/y_test.lua") == 2, out
    assert out.endswith("3 passed, 0 failed\n"), out


def a_filter_takes_the_cases_whose_names_hold_it():
    text = GOOD + GOOD[len(HEAD):].replace("a sum", "another [sum]")
    out = plain(run({"job.lua": SUMS, "job_test.lua": text}, "--filter",
                    "[sum]")[0])
    assert out == ("# job_test.lua\nok 1 another [sum]\n"
                   "1 passed, 0 failed\n"), out


MIXED = GOOD.replace("a sum", 'a sum & <1> #2 \\"x\\"') + \
    'test.case("bad", function(t) t:expect("out", { { a = "<&>" } }) end)\n'


def what_stands_where_rows_stand_is_told_not_compared():
    push = ('t:push("in", { k = "a", v = 1, ts = 0 })\n'
            't:advance_watermark(59999)\n')
    for rows in "{ 1 }", "t.approx(1)":
        out = case(push + 't:expect("out", { %s })' % rows)
        assert "job_test.lua:6: expect: row 1: expected a table of fields" \
            in out, out
    for text in '1', '"x"', '[1]', 'null':
        out = case(push + 't:expect("out", "r.jsonl")',
                   more={"r.jsonl": '{"a":1}\n' + text + "\n"})
        assert "job_test.lua:6: r.jsonl: line 2: a row is a JSON object" \
            in out, out


def keys_that_no_record_has_are_refused():
    for table, key in (("{ [1.5] = 1 }", "number 1.5"),
                       ("{ [2] = 1 }", "number 2"),
                       ("{ 1, 2, [5] = 3 }", "number 5"),
                       ("{ 1, [true] = 3 }", "boolean true")):
        out = case('t:push("in", { k = %s })' % table)
        assert "names of fields are strings, got %s;" % key in out, out
    case('t:push("in", { k = "a", v = 1, l = { 1, nil, 3 }, ts = 0 })', rc=0)


def tap_is_tap():
    out, _, _ = run({"job.lua": SUMS, "job_test.lua": MIXED}, "--output=tap",
                    rc=1)
    lines = out.splitlines()
    assert lines[0] == "TAP version 14" and lines[-1] == "1..2", out
    results, inside = [], False
    for line in lines[1:-1]:
        if inside:
            assert line.startswith("  "), line
            inside = line != "  ..."
        elif line == "  ---":
            inside = True
        elif not line.startswith("#"):
            m = re.match(r"(not )?ok (\d+) - (.*)$", line)
            assert m and int(m[2]) == len(results) + 1, line
            assert not re.search(r"(?<!\\)#", m[3]), line
            results.append((m[1] is None, m[3]))
    assert not inside
    assert results == [(True, 'a sum & <1> \\#2 "x"'), (False, "bad")], results
    assert re.search(r"^  message: \|-\n    job_test\.lua:\d+: ", out, re.M)


def junit_is_xml():
    out, _, _ = run({"job.lua": SUMS, "job_test.lua": MIXED,
                     "b_test.lua": "local = 1\n"}, "--output", "junit", rc=1)
    root = xml.etree.ElementTree.fromstring(out)
    assert root.tag == "testsuites" and root.attrib == {
        "tests": "3", "failures": "2"}, root.attrib
    suites = root.findall("testsuite")
    assert [s.get("name") for s in suites] == ["b_test.lua", "job_test.lua"]
    assert [s.get("failures") for s in suites] == ["1", "1"]
    cases = suites[1].findall("testcase")
    assert [c.get("name") for c in cases] == ['a sum & <1> #2 "x"', "bad"]
    assert float(cases[0].get("time")) >= 0 and not list(cases[0])
    failure = cases[1].find("failure")
    assert '- {"a":"<&>"}' in failure.text, failure.text
    assert failure.get("message").startswith("job_test.lua:"), failure.attrib
    out, _, _ = run({"job.lua": SUMS, "job_test.lua": HEAD + 'test.case('
                     '"a\\xff\\0b\\1", function(t) t:fail "\\xfe" end)\n'},
                    "--output", "junit", rc=1)
    case_ = xml.etree.ElementTree.fromstring(out).find("*/testcase")
    assert case_.get("name").startswith("a\ufffd"), case_.attrib
    assert "\ufffd" in case_.find("failure").text, out


def expected_rows_in_a_file_are_written_by_update():
    text = GOOD.replace('{ { k = "a", window_start = 0, window_end = 60000, '
                        'total = 3, n = 2 } }', '"rows.jsonl"')
    row = '{"k":"a","n":2,"total":3,"window_end":60000,"window_start":0}\n'
    files = {"job.lua": SUMS, "job_test.lua": text}
    out, _, _ = run(files, rc=1)
    assert re.search(r"cannot open 'rows\.jsonl': .* \(--update writes it\)",
                     out), out
    _, _, left = run(files, "--update")
    assert left["rows.jsonl"] == row, left
    run({**files, "rows.jsonl": row})
    out, _, left = run({**files, "rows.jsonl": row.replace(":3", ":4")}, rc=1)
    assert "total: expected 4, got 3" in out and "rows.jsonl" in out, out
    out, _, left = run({**files, "rows.jsonl": "\n{x\n"}, rc=1)
    assert "rows.jsonl: line 2: " in out, out


COVERED = """local s = require "streamlua"
local m = require "m"
local job = s.job "cover"

job:source("in", s.stdin())
   :map(function(e)
     if e.v > 10 then
       e.v = 10 -- never
     end
     return m.double(e)
   end)
   :sink("out", s.stdout())

return job
"""
MODULE = """local M = {}

function M.double(e)
  e.v = e.v * 2
  return e
end

function M.unused(e)
  return e
end

return M
"""


def coverage_has_every_line_that_can_run():
    test = HEAD + """test.case("doubles", function(t)
  t:push("in", { v = 2 })
  t:expect("out", { { v = 4 } })
end)
"""
    _, _, left = run({"job.lua": COVERED, "m.lua": MODULE,
                      "job_test.lua": test}, "--coverage", "lcov.info")
    files = {}
    for line in left["lcov.info"].splitlines():
        key, _, value = line.partition(":")
        if key == "SF":
            name = value
            files[name] = {}
        elif key == "DA":
            number, hits = value.split(",")
            files[name][int(number)] = int(hits)
        elif key in ("LF", "LH"):
            files[name][key] = int(value)
    assert sorted(files) == ["job.lua", "m.lua"], files
    job, module = files["job.lua"], files["m.lua"]
    assert job["LF"] == len(job) - 2, job
    assert job["LH"] == sum(1 for k, v in job.items()
                            if v > 0 and k not in ("LF", "LH")), job
    for line in (1, 2, 3, 5, 7, 10, 14):
        assert job[line] > 0, (line, job)
    assert job[8] == 0, job
    for line in (4, 9, 13):
        assert line not in job, (line, job)
    assert module[4] > 0 and module[5] > 0 and module[9] == 0, module


HIDDEN = """local s = require "streamlua"
local job = s.job "hidden"
local count = 0 -- in no checkpoint
job:source("in", s.stdin())
   :key_by "k"
   :process { name = "count", on_record = function(e, ctx)
     count = count + 1
     ctx:emit { k = e.k, n = count }
   end }
   :sink("out", s.stdout())
return job
"""
KEPT = HIDDEN.replace("local count = 0 -- in no checkpoint\n", "").replace(
    '{ name = "count", on', '{ name = "count", state = { n = s.value_state() '
    '}, on').replace("count = count + 1", "local count = (ctx.state.n:get() "
                     "or 0) + 1\n     ctx.state.n:set(count)")


def faults_find_state_that_is_in_no_checkpoint():
    body = ('t:push("in", { k = "a" })\nt:push("in", { k = "a" })\n'
            't:expect("out", { { k = "a", n = 1 }, { k = "a", n = 2 } })')
    head = HEAD.replace('"job.lua"', '("job.lua", { parallelism = 1 })')
    case(body, HIDDEN, head=head, rc=0)
    out = case(body, HIDDEN, head=head, options=", { faults = true }")
    assert ("with parallelism 1, a restart after each step; repeat with "
            "--seed 1\n") in out, out
    case(body, KEPT, head=head, options=", { faults = true }", rc=0)


def parallelism_finds_state_that_keys_share():
    body = "".join('t:push("in", { k = "%s" })\n' % k for k in "abcdefgh") + (
        'local seen = {}\nfor _, r in ipairs(t:take "out") do\n'
        '  assert(not seen[r.n], "twice " .. r.n)\n  seen[r.n] = true\nend')
    head = HEAD.replace('"job.lua"', '("job.lua", { parallelism = 1 })')
    case(body, HIDDEN, head=head, rc=0)
    out = case(body, HIDDEN)
    assert re.search(r"twice \d\n  with parallelism [24]; repeat", out), out


def one_seed_is_one_run():
    body = ('for i = 1, 20 do t:push("in", { k = i, v = i, ts = 0 }, '
            '{ partition = i % 4 }) end\n'
            't:advance_watermark(59999)\n'
            'local ks = {}\n'
            'for _, r in ipairs(t:take "out") do ks[#ks + 1] = r.k end\n'
            't:fail(table.concat(ks, " "))')
    head = HEAD.replace('"job.lua"', '("job.lua", { parallelism = 4 })')
    outs = {n: [case(body, head=head, args=("--seed", n)) for _ in range(2)]
            for n in "2 3 4 5 6 7".split()}
    for n, pair in outs.items():
        assert pair[0] == pair[1], pair
        assert "repeat with --seed %s\n" % n in pair[0], pair
    texts = {re.sub("--seed .*", "", p[0]) for p in outs.values()}
    assert len(texts) > 1, texts  # the seed decides something
    out = case(body, head=head, args=("--seed", "0"))
    assert re.search(r"repeat with --seed ([2-9]|\d\d+)\n", out), out


def what_does_not_end_is_stopped():
    forever = "while true do pcall(function() while true do end end) end"
    began = time.monotonic()
    out = case(forever, options=', { timeout = "100ms" }')
    assert ("job_test.lua:4: the case did not end within 100 ms (option "
            "timeout of test.case)\n" in out), out
    out = case('t:push("in", { k = "a", v = 1, ts = 0 })', SUMS.replace(
        ":key_by", ":filter(function(e) %s end)\n   :key_by" % forever).replace(
            '"sums"', '("sums", { lua = { call_timeout = "100ms" } })'))
    assert re.search(r"the job failed: job\.lua:5: the call took longer than "
                     r"call_timeout", out), out
    assert time.monotonic() - began < 10
    out = case('t:push("in", { k = "a", v = 1, ts = 0 })\n'
               't:advance_time("36500d")', SUMS.replace(
                   ':window(s.tumbling "1m")\n   :aggregate { total = s.sum '
                   '"v", n = s.count() }', ':process { on_record = function(e, '
                   'c) c:register_processing_timer(1) end, on_timer = '
                   'function(ts, c) c:register_processing_timer(ts + 1000) '
                   'end }'), options=', { timeout = "300ms" }')
    assert re.search(r"job_test\.lua:5: the time of the case is over, with the "
                     r"clock at \d+ of 3153600000000 ms \(timers on the way",
                     out), out
    out, _, _ = run({"job.lua": SUMS, "job_test.lua": HEAD + forever + "\n"},
                    rc=1)
    assert "loading took longer than load_timeout" in out, out


def a_signal_leaves_no_temporary_directory():
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "job.lua"), "w") as f:
            f.write(SUMS)
        with open(os.path.join(d, "job_test.lua"), "w") as f:
            f.write(HEAD + 'test.case("c", function(t) t:push("in", { k = "a", '
                    'v = 1, ts = 0 }) while true do end end)\n')
        tmp = os.path.join(d, "tmp")
        for number in signal.SIGINT, signal.SIGTERM:
            os.mkdir(tmp)
            p = subprocess.Popen([BINARY, "test", "job.lua"], cwd=d,
                                 stdout=subprocess.DEVNULL,
                                 env=run_cases.clean_env({"TMPDIR": tmp}))
            until = time.monotonic() + run_cases.TIMEOUT_S
            while not os.listdir(tmp) and time.monotonic() < until:
                time.sleep(0.01)
            p.send_signal(number)
            assert p.wait(run_cases.TIMEOUT_S) == -number, p.returncode
            os.rmdir(tmp)


def formats_take_tables_where_they_have_fields():
    csv = SUMS.replace('s.stdin()', 's.stdin { format = "csv", fields = '
                       '{ "k", "v:int", "ts:int" } }')
    case('t:push("in", { k = "a, \\"b\\"", v = 5, ts = 0 })\n'
         't:push("in", "c,6,0")\nt:push("in", { k = "", ts = 0 })\n'
         't:advance_watermark(59999)\n'
         't:expect("out", { { k = \'a, "b"\', total = 5 }, { k = "c", '
         'total = 6 }, { k = "", n = 1 } }, { subset = true })', csv,
         rc=0)
    out = case('t:push("in", { kk = "a" })', csv)
    assert "source in has no column kk" in out, out
    text = SUMS.replace('s.stdin()', 's.stdin { format = "text" }')
    out = case('t:push("in", { k = "a" })', text)
    assert ('push: source in has format = "text": push a string' in out), out


def keys_timestamps_headers_and_tombstones_reach_the_job():
    job = """local s = require "streamlua"
local job = s.job "meta"
job:source("in", s.kafka { topic = "t", start = "earliest", format = "json" })
   :map(function(e)
     local _, partition = s.origin(e)
     return { key = s.key(e), ts = s.timestamp(e), headers = s.headers(e), dead = s.is_tombstone(e), partition = partition }
   end)
   :sink("out", s.kafka { topic = "o", bootstrap_servers = "x" })
return job
""".replace('topic = "t",', 'topic = "t", bootstrap_servers = "x",')
    case('t:push("in", { a = 1 }, { key = "k", timestamp = 7, partition = 2, '
         'headers = { b = "2", a = "1" } })\n'
         't:push("in", nil, { key = { id = 1 } })\n'
         't:expect("out", { { key = "k", ts = 7, headers = { { "a", "1" }, '
         '{ "b", "2" } }, dead = false, partition = 2 },\n'
         '{ key = \'{"id":1}\', ts = t.any, headers = {}, dead = true, '
         'partition = 0 } }, { subset = false })', job, rc=0)
    job = re.sub(r"   :map.*?   end\)\n", "", job, flags=re.S)
    case('t:push("in", nil, { key = "k" })\n'
         't:expect("out", { t.tombstone() })\n'
         't:push("in", nil, { key = "k" })\n'
         'local row = t:take("out", { meta = true })[1]\n'
         'assert(row.tombstone and row.key == "k")\n'
         't:push("in", nil, { key = "k" })\nassert(#t:take "out" == 1)',
         job, rc=0)


def processing_time_is_moved_by_the_case():
    job = SUMS.replace('"1m"', '("1m", { clock = "processing" })').replace(
        '   :event_time { field = "ts" }\n', "")
    case('assert(t:now() == 0)\nt:push("in", { k = "a", v = 1 })\n'
         't:advance_time "59s"\nt:push("in", { k = "a", v = 2 })\n'
         't:expect_nothing "out"\nt:advance_time "1s"\nassert(t:now() == 60000)\n'
         't:expect("out", { { k = "a", total = 3 } }, { subset = true })', job,
         rc=0)


def restarts_and_counters_go_on():
    case('t:push("in", { k = "a", v = 1, ts = 0 })\n'
         't:restart { parallelism = 3 }\n'
         't:push("in", { k = "a", v = 2, ts = 0 })\nt:crash()\nt:restart()\n'
         't:advance_watermark(59999)\n'
         't:expect("out", { { total = 3 } }, { subset = true })\n'
         't:push("in", { k = "a", v = 4, ts = 0 })\n'
         't:expect_nothing "out"\n'
         'assert(t:counter("aggregate-1", "late") == 1)\n'
         'assert(t:counter("in", "records_in") == 3)', rc=0)


def a_reload_goes_on_or_is_refused():
    more = {"more.lua": SUMS.replace("n = s.count()", "n = s.count(), last = "
                                     's.last "v"'),
            "other.lua": SUMS.replace('"k"', '"kk"'),
            "sub/broken.lua": "local = 1\n"}
    push = 't:push("in", { k = "a", v = %d, ts = 0 })\n'
    case(push % 1 + 't:reload "more.lua"\n' + push % 2 +
         't:reload "sub/broken.lua"\n'
         'local e = t:expect_error("refused", "expected")\n'
         'assert(e.where == "sub/broken.lua:1", e.where)\n' + push % 4 +
         't:advance_watermark(59999)\n'
         't:expect("out", { { total = 7, last = 4 } }, { subset = true })',
         options=", { faults = true }", more=more, rc=0)
    out = case(push % 1 + 't:reload "other.lua"', more=more)
    assert re.search(r"job_test\.lua:5: the reload was refused: .*key changed "
                     r"from \[k\] to \[kk\]", out), out


def records_after_a_reload_are_those_of_the_new_file():
    csv = SUMS.replace('s.stdin()', 's.stdin { format = "csv", fields = '
                       '{ "k", "v:int", "ts:int" } }')
    case('t:push("in", { k = "a", v = 1, ts = 0 })\nt:reload "more.lua"\n'
         't:push("in", { k = "a", v = 2, w = 1, ts = 0 })\n'
         't:advance_watermark(59999)\n'
         't:expect("out", { { total = 3 } }, { subset = true })', csv,
         more={"more.lua": csv.replace('"v:int", ', '"v:int", "w:int", ')},
         rc=0)


def the_log_is_silent_unless_asked_for():
    job = SUMS.replace(":key_by", ':filter(function(e) print "seen" return '
                       "true end)\n   :key_by")
    files = {"job.lua": job, "job_test.lua": GOOD}
    assert run(files)[1] == ""
    assert "seen" in run(files, "--log-level=info")[1]


def the_jobs_have_tests_that_hold():
    jobs = os.path.join(TOP, "jobs")
    names = {n[:-4] for n in os.listdir(jobs) if n.endswith(".lua")}
    for name in names:
        if not name.endswith("_test"):
            assert name + "_test" in names, name
    p = subprocess.run([BINARY, "test", "jobs"], cwd=TOP, capture_output=True,
                       text=True, timeout=600, env=run_cases.clean_env({}))
    assert p.returncode == 0, p.stdout + p.stderr


def types_for_editors_are_those_of_the_module():
    with open(os.path.join(TOP, "lua/types/streamlua/test.lua")) as f:
        types = f.read()
    with open(os.path.join(TOP, "lua/streamlua/testfile.lua")) as f:
        code = f.read()
    for theirs, ours in ((r"^function T:(\w+)", r"^function T\.(\w+)\(_?[,)]"),
                         (r"^function test\.(\w+)", None)):
        said = set(re.findall(theirs, types, re.M))
        if ours is None:
            have = set(re.findall(r"^function api\.(\w+)", code, re.M))
            have |= {"approx", "tombstone"}
        else:
            have = set(re.findall(ours, code, re.M))
            have |= {"end_of_input", "crash"}
        assert said == have, said ^ have


TESTS = [
    a_case_that_holds_is_a_line_and_exit_0,
    a_difference_is_told_field_by_field_with_place_variant_and_seed,
    rows_are_compared_as_they_are_asked_to,
    what_a_case_does_wrong_is_told_with_its_line,
    an_error_of_the_job_is_to_be_expected,
    a_test_file_that_does_not_load_has_failed,
    a_job_that_does_not_load_fails_its_cases,
    nothing_to_run_is_a_failure,
    folders_files_and_jobs_name_tests,
    a_filter_takes_the_cases_whose_names_hold_it,
    what_stands_where_rows_stand_is_told_not_compared,
    keys_that_no_record_has_are_refused,
    tap_is_tap,
    junit_is_xml,
    expected_rows_in_a_file_are_written_by_update,
    coverage_has_every_line_that_can_run,
    faults_find_state_that_is_in_no_checkpoint,
    parallelism_finds_state_that_keys_share,
    one_seed_is_one_run,
    what_does_not_end_is_stopped,
    a_signal_leaves_no_temporary_directory,
    formats_take_tables_where_they_have_fields,
    keys_timestamps_headers_and_tombstones_reach_the_job,
    processing_time_is_moved_by_the_case,
    restarts_and_counters_go_on,
    a_reload_goes_on_or_is_refused,
    records_after_a_reload_are_those_of_the_new_file,
    the_log_is_silent_unless_asked_for,
    the_jobs_have_tests_that_hold,
    types_for_editors_are_those_of_the_module,
]


def main():
    global BINARY
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", default=os.environ.get("STREAMLUA", "streamlua"))
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    BINARY = os.path.abspath(args.bin)
    return run_cases.run_tests(TESTS, args.names)


if __name__ == "__main__":
    sys.exit(main())
