#!/usr/bin/env bash
# Every check of the project, each in a build folder of its own below
# build-check/. The packages are there already (contrib/check sees to that).
#
#   contrib/ci/run.sh [STEP...]     all steps in order, or just those named
#
# steps: gcc clang asan tsan fuzz distcheck
#   gcc        release build, warnings are errors; unit, lint, job and broker
#              tests (STREAMLUA_NO_BROKER=1 leaves the broker out); those on
#              the broker wait more than they work, so they run beside all
#              steps that follow
#   clang      the same sources, warnings are errors; unit and lint tests
#   asan       AddressSanitizer and UndefinedBehaviorSanitizer in test mode
#              (small limits, fault points); unit and job tests
#   tsan       ThreadSanitizer; unit and job tests, but for those that time a
#              change against a job's input or a loop against its timeout:
#              its processes are too slow for them
#   fuzz       each fuzz target for FUZZ_SECONDS (20)
#   distcheck  the tarball builds, tests, installs, uninstalls
#
# Goes on after a failed step; ends with "N passed, N failed, N skipped" and a
# code other than 0 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=contrib/packages.sh
. contrib/packages.sh

top=$PWD
out=$top/build-check
jobs=$(jobs_at_once)
passed=0 failed=0 skipped=0
broker= # its process

# quiet LOG COMMAND...: output to LOG, its end on failure.
quiet() {
    local log=$1
    shift
    "$@" >>"$log" 2>&1 && return 0
    tail -n 40 "$log"
    return 1
}

step_failed() {
    echo "FAILED: $1"
    failed=$((failed + 1))
}

# add "PASSED FAILED SKIPPED" to the sums
add() {
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
    echo "$1 passed, $2 failed, $3 skipped"
}

# build NAME CONFIGURE-ARGUMENTS...
build() {
    local name=$1 dir=$out/$1
    shift
    say "$name: configure $*"
    rm -rf "$dir"
    mkdir -p "$dir"
    cd "$dir" || return 1
    quiet build.log "$top/configure" "$@" &&
        quiet build.log make -j"$jobs" &&
        quiet build.log make -j"$jobs" check TESTS=
    local rc=$?
    cd "$top" || return 1
    [ $rc -eq 0 ] || step_failed "$name does not build (build-check/$name/build.log)"
    return $rc
}

# result NAME CODE LOG FOLDER...: count the tests of the folders, show failed ones
result() {
    local name=$1 rc=$2 log=$3 p f s
    shift 3
    read -r p f s < <("$top/contrib/count-tests.py" "$@")
    [ "$rc" -ne 0 ] && grep -hE '^(FAIL|ERROR|XPASS)' "$log" | sort -u
    add "$p" "$f" "$s"
    if [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then
        step_failed "$name: make check ($log)"
    fi
    find "$@" -name '*.trs' | while read -r trs; do
        grep -q '^:test-result: \(FAIL\|ERROR\)' "$trs" || continue
        echo "--- ${trs%.trs}.log"
        tail -n 60 "${trs%.trs}.log"
    done
}

# check NAME MAKE-ARGUMENTS...: make check of all but the broker's, and count
check() {
    local name=$1 dir=$out/$1 rc
    shift
    say "$name: make check"
    (cd "$dir" && make -k -j"$jobs" check "$@" >check.log 2>&1)
    rc=$?
    mapfile -t folders < <(find "$dir/tests" -mindepth 1 -maxdepth 1 \
        -type d ! -name broker)
    result "$name" $rc "$dir/check.log" "${folders[@]}"
}

# The tests on a broker, beside what follows; counted by broker_end.
broker_begin() {
    local limit=3600
    [ -n "${STREAMLUA_LONG:-}" ] && limit=86400 # hours, in one script
    say "broker: its tests begin, beside the others"
    (cd "$out/gcc" && exec make check TESTS=tests/broker/run.py \
        TEST_SUITE_LOG=broker-suite.log SCRIPT_LIMIT="timeout $limit" \
        >broker.log 2>&1) &
    broker=$!
    trap 'kill "$broker" 2>/dev/null' EXIT
}

broker_end() {
    local rc
    [ -n "$broker" ] || return
    say "broker: the end of its tests"
    wait "$broker"
    rc=$?
    trap - EXIT
    result broker $rc "$out/gcc/broker.log" "$out/gcc/tests/broker"
}

# The tests of a build that run below a folder, as TESTS= wants them.
tests_of() {
    (cd "$out/$1" && make -s print-tests | tr ' ' '\n' | grep -E "$2" |
        tr '\n' ' ')
}

# The program with fault points, beside the release build: crash tests on a
# broker kill it at named places.
test_mode_program() {
    local dir=$out/test-mode
    say "test-mode: configure --enable-test-mode"
    rm -rf "$dir"
    mkdir -p "$dir"
    if (cd "$dir" && quiet build.log "$top/configure" --enable-test-mode &&
        quiet build.log make -j"$jobs" streamlua); then
        export STREAMLUA_TEST_MODE=$dir/streamlua
    else
        step_failed "test-mode does not build (build-check/test-mode/build.log)"
    fi
}

run_gcc() {
    local with=(--enable-broker-tests)
    [ -n "${STREAMLUA_NO_BROKER:-}" ] && with=()
    [ ${#with[@]} -gt 0 ] && test_mode_program
    build gcc CC=gcc CXX=g++ --enable-werror "${with[@]}" || return
    [ ${#with[@]} -gt 0 ] && broker_begin
    check gcc "TESTS=$(tests_of gcc . | sed 's#tests/broker/[^ ]*##g')"
}

run_clang() {
    build clang CC=clang CXX=clang++ --enable-werror &&
        check clang "TESTS=$(tests_of clang '^tests/(unit|lint)/')"
}

run_asan() {
    build asan --with-sanitizer=address,undefined --enable-test-mode \
        --enable-werror CFLAGS="-O1 -g" CXXFLAGS="-O1 -g" &&
        check asan "TESTS=$(tests_of asan '^tests/(unit|sys)/')"
}

run_tsan() {
    build tsan --with-sanitizer=thread CFLAGS="-O1 -g" CXXFLAGS="-O1 -g" &&
        check tsan "TESTS=$(tests_of tsan '^tests/(unit|sys)/' |
            sed -E 's#tests/sys/(database|hostile|keep|lua_source|reload|test_verb)[^ ]*##g')"
}

run_fuzz() {
    local dir=$out/fuzz target name ok=0 bad=0
    build fuzz CC=clang CXX=clang++ --with-sanitizer=address,undefined \
        CFLAGS="-O1 -g" CXXFLAGS="-O1 -g" --enable-fuzz || return
    for target in "$dir"/tests/fuzz/fuzz_*; do
        [ -f "$target" ] && [ -x "$target" ] || continue
        name=$(basename "$target")
        mkdir -p "$dir/corpus/$name"
        say "$name: ${FUZZ_SECONDS:-20} s"
        if quiet "$dir/$name.log" "$target" \
            -max_total_time="${FUZZ_SECONDS:-20}" -timeout=10 -rss_limit_mb=2048 \
            -print_final_stats=1 -artifact_prefix="$dir/$name-" \
            "$dir/corpus/$name" "$top/tests/fuzz/seeds/${name#fuzz_}"; then
            ok=$((ok + 1))
            grep -h 'number_of_executed_units' "$dir/$name.log"
        else
            bad=$((bad + 1))
        fi
    done
    add $ok $bad 0
}

run_distcheck() {
    say "distcheck"
    build dist --enable-werror || return
    if (cd "$out/dist" && quiet distcheck.log make -j"$jobs" distcheck); then
        add 1 0 0
    else
        step_failed "distcheck (build-check/dist/distcheck.log)"
    fi
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(gcc clang asan tsan fuzz distcheck)
mkdir -p "$out"
say "autoreconf"
quiet "$out/autoreconf.log" autoreconf -i || step_failed autoreconf
for step in "${steps[@]}"; do
    case $step in
    gcc | clang | asan | tsan | fuzz | distcheck) "run_$step" ;;
    *)
        echo "unknown step $step; steps: gcc clang asan tsan fuzz distcheck" >&2
        exit 64
        ;;
    esac
done
broker_end
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
