#!/usr/bin/env bash
# By hand what contrib/ci/run.sh does for CI, keeping the build folder.
#
#   contrib/dev.sh test [MAKE-ARGUMENTS]   release build, make check
#   contrib/dev.sh asan [MAKE-ARGUMENTS]   address, undefined, test mode
#   contrib/dev.sh tsan [MAKE-ARGUMENTS]   thread
#
# For one test: contrib/dev.sh asan TESTS=tests/unit/test_cli
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?usage: contrib/dev.sh asan|tsan|test [make arguments]}
shift
case $what in
asan) flags=(--with-sanitizer=address,undefined --enable-test-mode
    CFLAGS="-O1 -g" CXXFLAGS="-O1 -g") ;;
tsan) flags=(--with-sanitizer=thread CFLAGS="-O1 -g" CXXFLAGS="-O1 -g") ;;
test) flags=() ;;
*)
    echo "usage: contrib/dev.sh asan|tsan|test [make arguments]" >&2
    exit 64
    ;;
esac
[ -x configure ] || autoreconf -i
mkdir -p "build-$what"
cd "build-$what"
[ -f Makefile ] || ../configure --enable-werror "${flags[@]}"
exec make -j"$(nproc)" check "$@"
