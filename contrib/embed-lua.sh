#!/bin/sh
# Write the C file that holds Lua modules as text: embed-lua.sh FILE... > C
#
# The module name is the path from the last "streamlua/" on, dots for
# slashes: lua/streamlua/check.lua is "streamlua.check", init.lua its folder.
set -eu
LC_ALL=C
export LC_ALL

printf '/* Made by contrib/embed-lua.sh from lua/streamlua. Do not edit. */\n'
printf '#include "script/embed.h"\n\n'
printf 'const struct script_lua_file script_lua_files[] = {\n'
for file in "$@"; do
    name=$(printf '%s\n' "$file" |
        sed -e 's|^.*streamlua/|streamlua/|' -e 's|\.lua$||' \
            -e 's|/init$||' -e 's|/|.|g')
    size=$(wc -c <"$file" | tr -d ' ')
    printf '    {"%s",\n' "$name"
    awk '{
        gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\?/, "\\?")
        gsub(/\t/, "\\t"); gsub(/\r/, "\\r")
        printf "     \"%s\\n\"\n", $0
    }' "$file"
    printf '     , %s},\n' "$size"
done
printf '    {0, 0, 0}};\n'
