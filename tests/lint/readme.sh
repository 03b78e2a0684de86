#!/bin/sh
# READMEs: every folder with code has a README.md of at most a page (60
# lines) that names its title first. Prints FOLDER: text; exit 1 if any.
root=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
cd "$root" || exit 2

status=0
for d in src/* tests/* state lua jobs contrib; do
    test -d "$d" || continue
    code=$(find "$d" -maxdepth 2 \( -name '*.[ch]' -o -name '*.cc' \
        -o -name '*.lua' -o -name '*.py' -o -name '*.sh' \) | head -n 1)
    test -n "$code" || continue
    if ! test -f "$d/README.md"; then
        echo "$d: no README.md (what lives here, what may not, which thread)"
        status=1
        continue
    fi
    if ! head -n 1 "$d/README.md" | grep -q '^# '; then
        echo "$d/README.md:1: does not begin with a title"
        status=1
    fi
    n=$(wc -l <"$d/README.md")
    if test "$n" -gt 60; then
        echo "$d/README.md:$n: $n lines, more than a page (60)"
        status=1
    fi
done
exit $status
