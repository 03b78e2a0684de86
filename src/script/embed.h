/*
 * The files of lua/streamlua inside the binary.
 *
 * contrib/embed-lua.sh makes lua_embed.c from them at build time; host.c
 * looks them up by module name. With STREAMLUA_LUA_DIR in the environment
 * they are read from that folder instead (a build tree, an experiment).
 * Read-only, so any thread. compiled.c keeps them compiled.
 */
#ifndef SCRIPT_EMBED_H
#define SCRIPT_EMBED_H

#include <stddef.h>

struct lua_State;

struct script_lua_file {
    const char *name; /* as in require: "streamlua", "streamlua.check" */
    const char *text; /* len bytes and a NUL */
    size_t len;
};

/** All files, sorted by name; the last has a NULL name. */
extern const struct script_lua_file script_lua_files[];

/** Push one of them as a function (compiled.c). @return a status of Lua.
 * @thread the state's. */
int script_load_own(struct lua_State *L, const struct script_lua_file *f,
                    const char *chunk);

#endif
