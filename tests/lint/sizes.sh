#!/bin/sh
# Sizes: functions of at most 70 lines, files of at most 800, lines of at
# most 80 columns, in C and C++ of src/ and tests/; Lua files of at most 800.
# tests/lint/sizes.txt lists the exceptions. Prints FILE:LINE: text for each
# break and for exceptions that are not needed; exit 1 if any.
root=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
cd "$root" || exit 2

list() {
    for d in src state tests lua jobs; do
        test -d "$d" && find "$d" \( -name '*.[ch]' -o -name '*.cc' \
            -o -name '*.lua' \) ! -name lua_embed.c
    done | LC_ALL=C sort
}

breaks=$(list | xargs awk -v table=tests/lint/sizes.txt '
function check(what, line, size, limit, kind) {
    if (what in allowed) {
        seen[what] = size > limit
        limit = allowed[what]
    }
    if (size > limit)
        printf "%s:%d: %s has %d lines, more than %d\n", file, line, kind,
               size, limit
}
function end_file() {
    if (file != "")
        check(file, lines, lines, 800, "the file")
}
BEGIN {
    while ((getline row < table) > 0) {
        if (row ~ /^#/ || row ~ /^[ \t]*$/)
            continue
        n = split(row, part, " ")
        allowed[part[1]] = part[2] + 0
        if (n < 3)
            printf "%s: %s has no reason\n", table, part[1]
    }
}
FNR == 1 {
    end_file()
    file = FILENAME
    is_c = file !~ /\.lua$/
    start = 0
}
{ lines = FNR }
is_c && /[^\001-\177]/ { next } # columns of UTF-8 are not bytes
is_c && length($0) > 80 && !/https?:/ {
    printf "%s:%d: %d columns, more than 80\n", file, FNR, length($0)
}
# Definitions have the name at column 0, "{" and "}" alone at column 0.
is_c && /^[A-Za-z_][A-Za-z_0-9]*\(/ {
    name = $0
    sub(/\(.*/, "", name)
}
is_c && /^\{$/ { start = FNR }
is_c && /^\}/ && start > 0 {
    check(file ":" name, start, FNR - start + 1, 70, "function " name)
    start = 0
}
END {
    end_file()
    for (what in allowed)
        if (!seen[what])
            printf "%s: the exception for %s is not needed\n", table, what
}')

if test -n "$breaks"; then
    printf '%s\n' "$breaks"
    exit 1
fi
