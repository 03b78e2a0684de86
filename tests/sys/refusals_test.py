#!/usr/bin/env python3
"""What a job file may not say: place, text and exit code of each refusal.

usage: refusals_test.py [--bin PATH] [NAME...]
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import run_cases

BINARY = None
JOB = """local s = require "streamlua"
local job = s.job("t"%s)
%s
return job
"""
LATER = r"^job\.lua:3: %s .*not available in this version$"
TIMED = 'job:source("in", s.stdin()):event_time { field = "ts" }'
KEYED = TIMED + ':key_by "k"'
WINDOWED = KEYED + ':window(s.tumbling "1m")'


def call(text, *args, verb="check", modules=None):
    """Exit code and first line of stderr that is no warning."""
    with tempfile.TemporaryDirectory() as d:
        for name, body in [("job.lua", text)] + list((modules or {}).items()):
            path = os.path.join(d, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(body)
        p = subprocess.run([BINARY, verb, "job.lua", *args], cwd=d,
                           stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=run_cases.TIMEOUT_S,
                           env=run_cases.clean_env({}))
    lines = [x for x in p.stderr.decode().split("\n")
             if x and "warning: " not in x]
    return p.returncode, lines[0] if lines else ""


def refused(pattern, body="", options="", code=65, args=(), **more):
    got, line = call(JOB % (options and ", " + options, body), *args, **more)
    assert got == code and re.search(pattern, line), (body, options, got, line)


def accepted(body, options="", **more):
    got, line = call(JOB % (options and ", " + options, body), **more)
    assert got == 0 and line == "", (body, options, got, line)


def sinks(spec):
    return TIMED + ':sink("out", %s)' % spec


def units():
    time = 'job:source("in", s.stdin()):event_time { out_of_orderness = %s }' \
        ':sink("out", s.blackhole())'
    for ok in ("0", "1500", '"1.5s"', '"1h30m"', '"500ms"', '"1d"'):
        accepted(time % ok)
    for bad in ('"1.s"', '"1.5ms"', '"5"', '".5s"', '"1 s"', '"1w"', '"-1s"',
                "-1", "1.5", "true", '""'):
        refused(r'^job\.lua:3: event_time: option "out_of_orderness": '
                "expected a duration", time % bad)
    for bad in ('"64kib"', '"5"', '"1.KB"', "0", "1.5", '"1KiB1KiB"'):
        refused(r'^job\.lua:2: job: mini_batch: option "bytes": expected a '
                "size", sinks("s.blackhole()"), "{ mini_batch = { bytes = %s }"
                " }" % bad)


def steps_of_later_stages_are_named_on_every_object():
    for chain in (TIMED, KEYED, WINDOWED):
        for step in ("join", "lookup", "over", "broadcast", "match"):
            refused(LATER % (step + " is"), chain + ":%s {}" % step)
    refused(LATER % "top_n without window is", KEYED + ":top_n {}")
    refused(LATER % 'dedup: keep = "last" is',
            KEYED + ':dedup { keep = "last", ttl = false }')
    refused(LATER % "table is", 'job:table("t", s.stdin(), {})')


def calls_of_later_stages_are_named():
    for name, args in (
            ("session windows are", "session '10s'"),
            ("cumulating windows are", "cumulating('1m', '1d')"),
            ("triggers are", "on_count(5)"),
            ("top_k is", "top_k('x', 3)"),
            ("lookup is", "lookup {}")):
        refused(LATER % name, "local x = s." + args)


def tests_are_for_test_files():
    refused(r"^job\.lua:3: require: streamlua\.test is for test files",
            'require "streamlua.test"')


def names_of_flink_and_sql_lead_to_ours():
    for theirs, ours in (("sliding", "hopping"), ("hop", "hopping"),
                         ("tumble", "tumbling"), ("mean", "avg"),
                         ("approx_count_distinct", "distinct")):
        refused(r'has no function "%s"; did you mean "%s"\?' % (theirs, ours),
                "local x = s.%s('1m', '5s')" % theirs)
    refused(r'has no step "where"; did you mean "filter"\?',
            TIMED + ":where(print)")
    refused(r'has no step "groupBy"; did you mean "key_by"\?',
            TIMED + ':groupBy "k"')


def options_of_later_stages_are_named():
    window = KEYED + ':window(%s):aggregate { n = s.count() }'
    for what, spec in (
            ('tumbling: option "time_zone" is',
             's.tumbling("1m", { time_zone = "UTC" })'),
            ('window: option "early" is', 's.tumbling "1m", { early = "1s" }'),
            ('window: option "trigger" is', "s.global(), { trigger = 1 }")):
        refused(LATER % what, window % spec)
    refused(LATER % 'stdout: format = "avro" is',
            sinks('s.stdout { format = "avro" }'))
    for what, spec in (
            ("file: compressed files are", 's.file { path = "x.gz" }'),
            ('file: option "compression" is',
             's.file { path = "x", compression = "gzip" }')):
        refused(LATER % what,
                'job:source("in", %s):sink("out", s.blackhole())' % spec)


def kafka(*sinks, source='s.kafka { topic = "i", start = "earliest" }'):
    return 'job:source("in", %s)' % source + "".join(
        '\n:sink("o%d", s.kafka { topic = "x"%s })' % (i, spec and ", " + spec)
        for i, spec in enumerate(sinks))


def exactly_once_needs_what_a_round_needs():
    once = 'delivery = "exactly_once"'
    accepted(kafka(once, once, ""))
    refused(r'^job\.lua:4: sink: delivery = "exactly_once" needs checkpoints, '
            "but the job says checkpoint = false$", kafka(once),
            "{ checkpoint = false }")
    refused(r'^job\.lua:4: sink: delivery = "exactly_once" needs checkpoints, '
            "but source in is not replayable$",
            kafka(once, source="s.stdin()"))
    for more, what in (
            (', transactional_id_prefix = "p"', r'transactional_id_prefix: '
             r'"streamlua-t" and "p"'),
            (', bootstrap_servers = "b:1"', 'bootstrap_servers: "" and "b:1"')):
        refused(r"^job\.lua:5: sink: a job has at most one target that decides "
                r"a round, but the exactly_once sinks o0 \(job\.lua:4\) and o1 "
                "differ in " + what + "$", kafka(once, once + more))
        accepted(kafka(once + more, once + more))
    for prop in ('["transactional.id"] = "x"', '["enable.idempotence"] = false',
                 "acks = 1", '["request.required.acks"] = 0'):
        refused(r'^job\.lua:4: sink: the property [a-z.]+ = \w+ breaks delivery '
                '= "exactly_once"; remove it, ',
                kafka(once + ", properties = { %s }" % prop))
        refused("breaks delivery", kafka(once),
                "{ properties = { %s } }" % prop)


def a_sink_with_commit_decides_rounds_alone():
    commits = "s.sink { write = print, commit = print, last_round = print }"
    generated = 'job:source("in", s.generator { fields = { a = 1 } })\n'
    one = generated + ':sink("o", %s)' % commits
    accepted(one)
    for given, missing in ("commit", "last_round"), ("last_round", "commit"):
        refused(r'^job\.lua:4: sink: commit and last_round belong together; '
                '"%s" is missing$' % missing,
                generated + ':sink("o", s.sink { write = print, %s = print })'
                % given)
    refused(r"^job\.lua:4: sink: commit needs checkpoints, but the job says "
            "checkpoint = false$", one, "{ checkpoint = false }")
    refused(r"^job\.lua:4: sink: commit needs checkpoints, but source in is "
            "not replayable$",
            'job:source("in", s.stdin())\n:sink("o", %s)' % commits)
    refused(r"^job\.lua:4: sink: parallelism = 2: a sink with commit has one "
            "subtask", generated + ':sink("o", %s, { parallelism = 2 })'
            % commits)
    once = 's.kafka { topic = "x", delivery = "exactly_once" }'
    for first, second in (commits, commits), (commits, once), (once, commits):
        refused(r"^job\.lua:5: sink: a job has at most one target that decides "
                r"a round, but the sinks o \(job\.lua:4\) and p have one each$",
                generated + ':sink("o", %s)\n:sink("p", %s)' % (first, second))


def transactional_id_prefix_begins_a_topic_name():
    once = 'delivery = "exactly_once", transactional_id_prefix = %s'
    accepted(kafka(once % '"a-B._9"'))
    accepted(kafka(once % '("x"):rep(242)'))
    for bad in ('""', '"a b"', '"\xc3\xa9"', '("x"):rep(243)', "1"):
        refused(r'^job\.lua:4: kafka: option "transactional_id_prefix": expected '
                "the beginning of a topic name", kafka(once % bad))
    refused(r'^job\.lua:4: kafka: option "transactional_id_prefix" belongs to '
            'delivery = "exactly_once", here it is "at_least_once"$',
            kafka('transactional_id_prefix = "p"'))


def options_of_checkpoints_restart_and_memory():
    body = sinks("s.blackhole()")
    for ok in ('checkpoint = { interval = "1s", timeout = 1, min_pause = 0, '
               "tolerable_failures = 3, retained = 1 }", "checkpoint = true",
               "checkpoint = false", 'state = { backend = "memory" }',
               'restart = { initial_backoff = 1, max_backoff = 1, attempts = 0 }',
               'memory = { total = "1GiB", state = 0.5, buffers = "256MiB", '
               "lua = 0.25 }", "memory = { state = 1 }",
               'memory = { state = "100GiB" }'):
        accepted(body, "{ %s }" % ok)
    for bad, want in (
            ("checkpoint = { timeout = 0 }", 'option "timeout": expected'),
            ("checkpoint = { tolerable_failures = -1 }",
             'option "tolerable_failures": expected an integer of at least 0'),
            ("checkpoint = { retained = 0 }", 'option "retained": expected'),
            ("restart = { attempts = -2 }", 'option "attempts": expected'),
            ('restart = { initial_backoff = "2m" }', "initial_backoff "
             r"\(120000 ms\) is above max_backoff \(60000 ms\)$"),
            ("memory = { state = 0 }", 'option "state": expected a fraction '
             r'such as 0\.6 or a size such as "2GiB", got number 0$'),
            ("memory = { state = 1.5 }", 'option "state": expected'),
            ('memory = { lua = "no" }', 'option "lua": expected'),
            ("memory = { total = 0.5 }", 'option "total": expected a size'),
            ("memory = { lua = 0.5 }", r"more than the total is given away: "
             r"state = 0\.6, lua = 0\.5$"),
            ('memory = { total = 1000, buffers = 500 }', "more than the total "
             r"of 1000 bytes is given away: state = 0\.6, buffers = 500$")):
        refused(r"^job\.lua:2: job: .*" + want, body, "{ %s }" % bad)


def the_quarantine_takes_what_was_read_as_it_was():
    body = 'job:source("in", s.stdin { on_error = "quarantine" })' \
        ':sink("out", s.blackhole())'
    for ok in ('s.kafka { topic = "bad" }', 's.file { path = "bad" }'):
        accepted(body, "{ quarantine = %s }" % ok)
    for bad, want in (
            ("1", r'option "quarantine": expected s\.kafka \{ .* \} or s\.file '
             r"\{ .* \}, got number 1$"),
            ("s.stdout()", r"got string \"s\.stdout\"$"),
            ('s.file { path = "bad", format = "text" }', 'option "format" has '
             "no place in a quarantine: it keeps what was read as it was$"),
            ('s.kafka { topic = "bad", key = "k" }', 'option "key" has no'),
            ("s.kafka { topic = print }", 'option "topic": expected a string '
             "in a quarantine, got function$")):
        refused(r"^job\.lua:2: .*" + want, body, "{ quarantine = %s }" % bad)
    refused(r'^job\.lua:3: source: on_error = "quarantine", but the job has '
            "none: ", body)
    refused(r'^job\.lua:2: job: on_error = "quarantine", but the job has none: ',
            sinks("s.blackhole()"), '{ on_error = "quarantine" }')
    refused(r'^job\.lua:3: key_by: on_null = "quarantine", but the job has none',
            TIMED + ':key_by("k", { on_null = "quarantine" })'
            ':dedup { ttl = false }:sink("o", s.blackhole())')


def updating_streams_are_not_counted_twice():
    updating = KEYED + ":aggregate { n = s.count() }"
    accepted(updating + ":filter(print):select { 'k', 'n' }:map(print)"
             ':flat_map(print):sink("o", s.blackhole())')
    retraction = r"^job\.lua:3: key_by: aggregate over an updating stream needs " \
        "retraction; use a window$"
    for stream in (updating, KEYED + ":reduce(print)",
                   KEYED + ':window(s.tumbling "1m", { lateness = "1s" })'
                   ":aggregate { n = s.count() }"):
        for step in ("aggregate { m = s.count() }", "dedup { ttl = false }",
                     "reduce(print)", "process { on_record = print }",
                     'window(s.tumbling "1m"):top_n { n = 1, by = "n" }'):
            refused(retraction, stream + ':key_by "k":%s:sink("o", '
                    "s.blackhole())" % step)
        for step, what in ((":rebalance()", "rebalance"),
                           (':union(job:source("b", s.stdin()):event_time {})',
                            "union"),
                           (':split(print, { "a" }).a', "split")):
            refused(r"^job\.lua:3: \w+: the rows of \w+-1 replace earlier ones "
                    r"\((no window|lateness)\), so only filter, select, map, "
                    "flat_map and sink may follow it$",
                    stream + step + ':sink("o", s.blackhole())')


def event_timers_without_event_time_are_found_at_load():
    process = 'job:source("in", s.stdin()):key_by "k"' \
        ":process { on_record = function(e, ctx)\n%s\nend }" \
        ':sink("o", s.blackhole())'
    refused(r"^job\.lua:4: process: register_event_timer needs event time; add "
            r":event_time \{ .* \} after the source, or use "
            "register_processing_timer$",
            process % "ctx:register_event_timer(1)")
    for fine in ("ctx:register_processing_timer(1)",
                 "-- no ctx:register_event_timer(1)",
                 "--[[ no\nctx:register_event_timer(1) ]]",
                 "ctx:emit { text = 'register_event_timer' }"):
        accepted(process % fine)
    accepted((process % "ctx:register_event_timer(1)").replace(
        ":key_by", ":event_time {}:key_by"))


def rows_of_windows_are_grouped_again_only_where_they_are_final():
    same = '%s:key_by {}:window(s.same()):aggregate { m = s.count() }' \
        ':sink("o", s.blackhole())'
    accepted(same % (WINDOWED + ":aggregate { n = s.count() }:filter(print)"))
    for stream in (TIMED, KEYED + ":dedup { ttl = false }",
                   KEYED + ":window(s.count_window(3)):aggregate { n = s.count() "
                   "}"):
        refused(r"^job\.lua:3: window: s\.same\(\) needs rows of one append window "
                "step, ", same % stream)


def what_is_read_at_load_is_part_of_the_plan():
    body = "local t = s.read { path = 'lib/x.csv', format = 'csv', header = " \
        'true } assert(t[2].b == "2")' + sinks("s.blackhole()")
    files = {"lib/x.csv": "a,b\nx,1\ny,2\n"}
    accepted(body, modules=files)
    for text, want in (("a,b\nx\n", r"lib/x\.csv:2: "),
                       ("a,b\nx,1\n\"y,2\n", r"lib/x\.csv:3: invalid CSV")):
        refused(r"^job\.lua:3: read: " + want, body,
                modules={"lib/x.csv": text})
    refused(r"^job\.lua:3: read: lib/x\.csv: cannot open: ", body)
    got, line = call(JOB % ("", 'job:source("in", s.generator { count = 1, '
                            "fields = { a = 1 } }):map(function(e) "
                            "return s.read { path = 'x' }[1] end)"
                            ':sink("out", s.stdout())'), verb="run")
    assert got == 1 and "read: files are read at load only" in line, line
    # What s.read gave stays for all loads; each of these sees another file.
    changing = "local f = assert(io.open('n', 'a')) f:write 'x' f:close() " \
        "local n = #io.lines('n')()" + TIMED + \
        ':filter(print, { name = "f" .. n }):sink("o", s.stdout())'
    got, line = call(JOB % ("", changing), "--unsafe", verb="run")
    assert got == 65 and "the plan differs between two loads" in line, line


def streams_that_lead_nowhere_name_their_line():
    sink = TIMED + '\nx:sink("out", s.blackhole())\n'
    refused(r"^job\.lua:2: job: the job has no source$")
    refused(r"^job\.lua:3: event_time: this stream reaches no sink$", TIMED)
    for kind, call_ in (("filter", ":filter(print)"), ("key_by", ':key_by "k"'),
                        ("window", ':key_by "k"\n:window(s.tumbling "1m")'),
                        ("rebalance", ":rebalance()"), ("union", ":union(x)")):
        line = 6 if kind == "window" else 5
        refused(r"^job\.lua:%d: %s: this stream reaches no sink$" %
                (line, kind), "local x = " + sink + "x" + call_)
    accepted("local x = " + sink + 'local k = x:key_by "k"\n'
             'k:window(s.global()):aggregate { n = s.count() }'
             ':sink("a", s.blackhole())')


def a_module_that_does_not_parse_names_its_line():
    for text, want in (("local x = = 1", r"^m\.lua:1: unexpected symbol"),
                       ("\nerror 'no'", r"^m\.lua:2: no$")):
        got, line = call(JOB % ("", 'require "m"'), modules={"m.lua": text})
        assert got == 65 and re.search(want, line), (got, line)


def check_finds_a_plan_that_differs():
    body = 'job:source("in", s.stdin()):filter(print, { name = "f" .. %s })' \
        ':sink("out", s.blackhole())'
    for verb in ("check", "explain", "run"):
        refused(r'^job\.lua: the plan differs between two loads \(step "f\d+"\)'
                "; do not use time, randomness or changing files at the top "
                "level$", body % "math.random(1 << 40)", verb=verb)
    accepted(body % "1")


def parameters():
    body = 's.param("a", 1.5) s.param("b-c", true)' + sinks("s.blackhole()")
    for text, want in (("a=1e400", '"1e400" is no number'),
                       ("a= 1", '" 1" is no number'),
                       ("b-c=yes", '"yes" is neither true nor false'),
                       ("d=1", "parameter d: no s.param asks for it")):
        refused(re.escape(want) + r"; the job's parameters: a \(float, default "
                r"1\.5\), b-c \(boolean, default true\)$", body, code=64,
                args=("--set", text))
    refused(r"^parameter x is missing: .*; the job's parameters: x \(string, "
            r"required\)$", 's.param "x"', code=64)


def parallelism_above_the_most():
    body = WINDOWED + ':aggregate { n = s.count() }:sink("o", s.blackhole())'
    refused(r"^job\.lua:2: job: parallelism 8 is above max_parallelism 4$",
            body, "{ parallelism = 8, max_parallelism = 4 }")
    refused("--parallelism 8 is above max_parallelism 4", body,
            "{ max_parallelism = 4 }", code=78, args=("--parallelism", "8"))
    accepted(body, "{ max_parallelism = 1 }")


def sources_that_make_their_records_take_the_options_of_all():
    for spec in ("s.generator { count = 1, fields = { a = 1 }, %s }",
                 "s.source { read = print, %s }"):
        use = 'job:source("in", %s):sink("out", s.blackhole())' % spec
        accepted(use % 'format = "json", validate = true, bigint = "string"')
        refused('option "format": unknown value "csv"', use % 'format = "csv"')


TESTS = [
    units,
    steps_of_later_stages_are_named_on_every_object,
    calls_of_later_stages_are_named,
    tests_are_for_test_files,
    names_of_flink_and_sql_lead_to_ours,
    options_of_later_stages_are_named,
    exactly_once_needs_what_a_round_needs,
    a_sink_with_commit_decides_rounds_alone,
    transactional_id_prefix_begins_a_topic_name,
    options_of_checkpoints_restart_and_memory,
    the_quarantine_takes_what_was_read_as_it_was,
    updating_streams_are_not_counted_twice,
    event_timers_without_event_time_are_found_at_load,
    rows_of_windows_are_grouped_again_only_where_they_are_final,
    what_is_read_at_load_is_part_of_the_plan,
    streams_that_lead_nowhere_name_their_line,
    a_module_that_does_not_parse_names_its_line,
    check_finds_a_plan_that_differs,
    parameters,
    parallelism_above_the_most,
    sources_that_make_their_records_take_the_options_of_all,
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
