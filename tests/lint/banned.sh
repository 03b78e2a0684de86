#!/bin/sh
# Banned: calls that are wrong wherever they stand, names that belong to
# libraries, and words that say a thing is not finished. Comments and strings
# do not count, but for the words. Prints FILE:LINE: text; exit 1 if any.
root=${top_srcdir:-${srcdir:-$(dirname "$0")/../..}}
cd "$root" || exit 2

breaks=$(for d in src state tests; do
    test -d "$d" && find "$d" -name '*.[ch]' -o -name '*.cc'
done | grep -v lua_embed.c | LC_ALL=C sort | xargs awk '
function say(text) { printf "%s:%d: %s\n", FILENAME, FNR, text }
# The line without strings, characters and comments.
function code(line,    out, c, i, n, quote) {
    n = length(line)
    out = quote = ""
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        if (comment) {
            if (c == "*" && substr(line, i + 1, 1) == "/") {
                comment = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\")
                i++
            else if (c == quote)
                quote = ""
        } else if (c == "\"" || c == "\047") {
            quote = c
        } else if (c == "/" && substr(line, i + 1, 1) == "*") {
            comment = 1
            i++
        } else if (c == "/" && substr(line, i + 1, 1) == "/") {
            break
        } else {
            out = out c
        }
    }
    return out
}
# Whether `text` calls the function that pattern `name` matches.
function calls(text, name) {
    return text ~ ("(^|[^A-Za-z0-9_.>])" name "[ ]*\\(")
}
FNR == 1 { comment = 0 }
/(^|[^A-Za-z])(TODO|FIXME|XXX|HACK)([^A-Za-z]|$)/ {
    say("an unfinished thing; finish it, or file it")
}
{
    text = code($0)
    if (text ~ /^[A-Za-z_][A-Za-z_0-9]*\(/)
        func_name = substr(text, 1, index(text, "(") - 1)
    if (calls(text, "v?sprintf"))
        say("sprintf: use snprintf or buf_addf")
    if (calls(text, "(strcpy|strcat|gets|strncpy|strncat|strtok|alloca)"))
        say("a string call without bounds: use buf_add, arena_dup, snprintf")
    if (calls(text, "(atoi|atol|atoll|atof)"))
        say("ato*: errors are not seen; use strtoll or num_read_double")
    # Functions that may raise, and so run under a pcall, end in _lj.
    if (calls(text, "lua_call") && func_name !~ /_lj$/)
        say("lua_call in a function that may not raise: use lua_pcall")
    if (calls(text, "exit") && FILENAME !~ /^src\/main\/main\.c$/)
        say("exit: return an error, main() decides")
    if (FILENAME ~ /^(src|tests\/unit)\// && calls(text, "(usleep|sleep)"))
        say("sleep: wait for the event instead")
    if (FILENAME ~ /^src\// &&
        text ~ /^(ev|mdb|lua|luaL|rd|je)_[a-zA-Z0-9_]+\(/)
        say("a name that belongs to a library")
}')

if test -n "$breaks"; then
    printf '%s\n' "$breaks"
    exit 1
fi
