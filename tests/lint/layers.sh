#!/bin/sh
# Floors: every #include of src/ goes to the same floor or one below it, as
# tests/lint/layers.txt says; third-party headers have one home; the headers
# form no circle. Prints FILE:LINE: text for each break; exit 1 if any.
root=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
cd "$root" || exit 2

breaks=$(find src -name '*.[ch]' -o -name '*.cc' | LC_ALL=C sort |
    xargs awk -v table=tests/lint/layers.txt '
function glob(pattern) { # the only wildcard is *
    gsub(/\./, "\\.", pattern)
    gsub(/\*/, ".*", pattern)
    return "^" pattern "$"
}
function say(text) { printf "%s:%d: %s\n", FILENAME, FNR, text }
BEGIN {
    while ((getline line < table) > 0) {
        sub(/#.*/, "", line)
        if (line ~ /:/) {
            split(line, part, ":")
            gsub(/ /, "", part[1])
            floors[part[1]] = 1
            n = split(part[2], below, " ")
            for (i = 1; i <= n; i++)
                may[part[1], below[i]] = 1
        } else if (line ~ /@/) {
            n = split(line, part, " ")
            homes[glob(part[1])] = part[3]
        }
    }
}
FNR == 1 {
    split(FILENAME, dir, "/")
    floor = dir[2]
    if (!(floor in floors))
        say("folder src/" floor " has no line in tests/lint/layers.txt")
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, q, "\"")
    name = q[2]
    if (name == "config.h")
        next
    if (name !~ /\//) {
        say("include \"" name "\" without its folder")
        next
    }
    sub(/\/.*/, "", name)
    if (!(name in floors))
        say("include of \"" q[2] "\": no floor is called " name)
    else if (name != floor && !((floor, name) in may) && \
             !((floor, "*") in may))
        say("floor " floor " may not include \"" q[2] "\"")
}
/^[ \t]*#[ \t]*include[ \t]*</ {
    name = $0
    sub(/^[^<]*</, "", name)
    sub(/>.*/, "", name)
    for (h in homes)
        if (name ~ h && homes[h] != floor)
            say("<" name "> is included by " homes[h] " only")
}')

# tsort names the members of a circle on its standard error.
circle=$(find src -name '*.h' | LC_ALL=C sort | xargs awk '
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, q, "\"")
    if (q[2] != "config.h")
        print FILENAME, "src/" q[2]
}' | tsort 2>&1 >/dev/null)

if test -n "$breaks$circle"; then
    test -z "$breaks" || printf '%s\n' "$breaks"
    test -z "$circle" || printf 'headers include each other:\n%s\n' "$circle"
    exit 1
fi
