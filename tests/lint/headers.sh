#!/bin/sh
# Headers: each compiles alone, without warnings, and has the guard of its
# path (src/core/win.h: CORE_WIN_H). Prints FILE:LINE: text; exit 1 if any
# breaks, 77 (skipped) without a compiler.
root=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
build=${top_builddir:-.}
test -f "$build/config.h" && build=$(cd "$build" && pwd) || build=
cd "$root" || exit 2

cc=${CC:-gcc}
command -v "${cc%% *}" >/dev/null 2>&1 || cc=cc
command -v "${cc%% *}" >/dev/null 2>&1 || exit 77
flags="-std=c11 -D_GNU_SOURCE -Isrc -Wall -Wextra -Wstrict-prototypes -Werror"
test -n "$build" && flags="$flags -I$build"
for p in lua5.4 rdkafka ck; do
    flags="$flags $(pkg-config --cflags "$p" 2>/dev/null)"
done

status=0
for h in $(find src -name '*.h' | LC_ALL=C sort); do
    # Included twice, so that a guard that does not guard is found, too.
    name=${h#src/}
    if ! out=$(printf '#include "%s"\n#include "%s"\nextern int lint_unit;\n' \
        "$name" "$name" | $cc $flags -fsyntax-only -x c - 2>&1); then
        echo "$h:1: does not compile alone:"
        printf '%s\n' "$out" | sed -n '1,6s/^/    /p'
        status=1
    fi
    guard=$(printf '%s' "$name" | tr 'a-z/.-' 'A-Z___')
    if ! grep -q "^#ifndef $guard\$" "$h"; then
        echo "$h:1: the guard should be $guard"
        status=1
    fi
    if test "$(head -c 2 "$h")" != '/*'; then
        echo "$h:1: does not open with a comment that says what it is"
        status=1
    fi
done
exit $status
