#!/bin/sh
# Print a C file that holds the Lua modules under DIR as strings.
#   embed-lua.sh DIR        DIR/streamlua.lua and DIR/streamlua/**.lua
# The table it fills is declared in src/script/embed.h, sorted by module name.
# Files of LuaCATS types (---@meta first) are for editors only and stay out.
set -eu
cd "${1:?usage: embed-lua.sh DIR}"

# "module file" per line
list() {
    find . -type f -name '*.lua' ! -path './types/*' | while read -r f; do
        head -n 1 "$f" | grep -q -e '^---@meta' && continue
        mod=${f#./}
        mod=${mod%.lua}
        mod=${mod%/init}
        printf '%s %s\n' "$(printf '%s' "$mod" | tr / .)" "$f"
    done | LC_ALL=C sort
}

echo '/* Made by contrib/embed-lua.sh; do not edit. */'
echo '#include "script/embed.h"'
n=0
list | while read -r mod f; do
    echo
    echo "/* $mod */"
    echo "static const unsigned char text_$n[] ="
    LC_ALL=C sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' \
        -e 's/^/    "/' -e 's/$/\\n"/' "$f"
    echo '    "";'
    n=$((n + 1))
done
echo
echo 'const struct script_lua_file script_lua_files[] = {'
n=0
list | while read -r mod f; do
    echo "    {\"$mod\", (const char *)text_$n, sizeof text_$n - 1},"
    n=$((n + 1))
done
echo '    {0, 0, 0},'
echo '};'
