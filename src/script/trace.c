/* Telling which lines of a job's files run: for coverage, only if asked for. */
#include "script/script_impl.h"

#include <string.h>

void
script_trace_line(lua_State *L, lua_Debug *ar)
{
    const struct script *s = script_of(L);
    const char *path;

    if (s->conf.line == NULL || lua_getinfo(L, "Sl", ar) == 0 ||
        ar->source[0] != '@') /* the engine's own begin with '=' */
        return;
    path = ar->source + 1;
    if (strcmp(path, s->chunk) == 0)
        path = s->conf.path;
    s->conf.line(s->conf.line_arg, path, ar->currentline);
}

void
script_trace_rest(lua_State *L)
{
    if (script_of(L)->conf.line != NULL)
        lua_sethook(L, script_trace_line, LUA_MASKLINE, 0);
    else
        lua_sethook(L, NULL, 0, 0);
}

int
script_trace_mask(const struct script *s)
{
    return s->conf.line != NULL ? LUA_MASKLINE : 0;
}
