#include "script/script_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script/embed.h"

/*
 * require: the engine's own modules first, then package.preload, then Lua
 * text in the job's folder, its lib/ and the Lua path. C modules only with
 * --unsafe.
 */

static const char host_key = 0; /* registry: the host table */
static const char own_key = 0;  /* registry: globals of the engine's modules */

enum { MODULE_NAME_MAX = 64 };

/* Read the module from the folder of STREAMLUA_LUA_DIR, if that is set; its
 * chunk name is on top of the stack. @return status of the load, or -1 if
 * there is no such folder or file. */
static int
load_from_folder_lj(lua_State *L, const char *dir)
{
    const char *chunk, *path;
    struct err e;
    char *text;
    size_t len;
    int status;

    chunk = lua_tostring(L, -1);
    path = luaL_gsub(L, chunk + 1, ".", "/");
    path = lua_pushfstring(L, "%s/%s.lua", dir, path);
    if (script_read_file(path, &text, &len, &e) != 0)
        return -1;
    status = luaL_loadbufferx(L, text, len, chunk, "t");
    free(text);
    return status;
}

/* Load the text of an engine module as a function; pushes it.
 * @return false if there is no such module. */
static bool
load_own_lj(lua_State *L, const char *name)
{
    const struct script_lua_file *f;
    const char *dir, *chunk;
    int status;

    chunk = lua_pushfstring(L, "=%s%s", name,
                            strcmp(name, "streamlua") == 0 ? ".init" : "");
    dir = getenv("STREAMLUA_LUA_DIR");
    status = dir == NULL ? -1 : load_from_folder_lj(L, dir);
    if (status == -1) {
        for (f = script_lua_files; f->name != NULL; f++) {
            if (strcmp(f->name, name) == 0)
                break;
        }
        if (f->name == NULL)
            return false;
        status = script_load_own(L, f, chunk);
    }
    if (status != LUA_OK)
        (void)lua_error(L);
    return true;
}

/* Loader of an engine module: calls the chunk with name and host. */
static int
run_own_lj(lua_State *L)
{
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &host_key);
    lua_call(L, 2, 1);
    return 1;
}

static int
search_own_lj(lua_State *L)
{
    const char *name;

    name = luaL_checkstring(L, 1);
    if (strncmp(name, "streamlua", 9) != 0 ||
        (name[9] != '\0' && name[9] != '.') || strlen(name) > MODULE_NAME_MAX ||
        !load_own_lj(L, name)) {
        lua_pushnil(L);
        return 1;
    }
    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &own_key);
    if (lua_setupvalue(L, -2, 1) == NULL)
        lua_pop(L, 1);
    lua_pushcclosure(L, run_own_lj, 1);
    return 1;
}

/* Look for module `name` along `path`, the texts of package.path.
 * @return its file, or NULL: the list of those that are not there is pushed. */
static const struct script_file *
find_text_lj(lua_State *L, const char *name, const char *path)
{
    struct script_files *files = script_of(L)->files;
    const struct script_file *f;
    const char *full, *end;
    struct err e;
    int seen = 0;

    name = luaL_gsub(L, name, ".", "/");
    for (; *path != '\0'; path = *end != '\0' ? end + 1 : end) {
        end = path + strcspn(path, ";");
        if (end == path)
            continue;
        (void)lua_pushlstring(L, path, (size_t)(end - path));
        full = luaL_gsub(L, lua_tostring(L, -1), "?", name);
        if (script_files_read(files, SCRIPT_FILE_MODULE, full, &f, &e) == 0)
            return f;
        f = script_files_find(files, SCRIPT_FILE_MODULE, full);
        /* Looked for after the load, as before a C module in a call, and not
         * there: no text that another load could have. */
        if (f == NULL && access(full, F_OK) == 0) {
            (void)luaL_error(L, "%s: %s%s%s", full, e.msg,
                             e.hint[0] != '\0' ? "; " : "", e.hint);
            return NULL;
        }
        (void)lua_pushfstring(L, "%sno file '%s'", seen++ > 0 ? "\n\t" : "",
                              full);
        lua_replace(L, -3);
        lua_pop(L, 1);
        if (seen > 1)
            lua_concat(L, 2);
    }
    if (seen == 0)
        lua_pushliteral(L, "");
    return NULL;
}

/* A module lies below the folders of package.path, never beside or above. */
static void
check_name_lj(lua_State *L, const char *name)
{
    bool begins = true;
    const char *p;

    for (p = name; *p != '\0'; p++) {
        if (begins && (*p == '.' || *p == '/'))
            break;
        begins = *p == '.' || *p == '/';
    }
    if (*p != '\0' || begins)
        (void)luaL_error(L,
                         "require: '%s' is no module name; write \"a.b\" for "
                         "a/b.lua in the job's folder or its lib/",
                         name);
}

/* Loader of a text. Upvalues: the chunk, the table of names being loaded. A
 * name stays there when its chunk fails. */
static int
run_text_lj(lua_State *L)
{
    lua_settop(L, 2);
    lua_pushvalue(L, 1);
    lua_pushboolean(L, 1);
    lua_rawset(L, lua_upvalueindex(2));
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    lua_rawset(L, lua_upvalueindex(2));
    return 1;
}

/* Upvalues: the package table, the table of names being loaded. Loads Lua
 * text only. */
static int
search_text_lj(lua_State *L)
{
    const struct script_file *f;
    const char *name;
    size_t skip;

    name = luaL_checkstring(L, 1);
    check_name_lj(L, name);
    lua_pushvalue(L, 1);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
        return luaL_error(L, "module '%s' requires itself, or failed before",
                          name);
    if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
        return luaL_error(L, "'package.path' must be a string");
    f = find_text_lj(L, name, lua_tostring(L, -1));
    if (f == NULL) {
        if (!script_of(L)->conf.unsafe)
            (void)lua_pushfstring(
                L, "%s\n\tno C module is looked for without --unsafe",
                lua_tostring(L, -1));
        return 1;
    }
    skip = script_skip_begin(f->text, f->len);
    if (luaL_loadbufferx(L, f->text + skip, f->len - skip,
                         lua_pushfstring(L, "@%s", f->path), "t") == LUA_OK) {
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_pushcclosure(L, run_text_lj, 2);
        lua_pushstring(L, f->path);
        return 2;
    }
    if (luaL_len(L, -1) > 0 &&
        strncmp(lua_tostring(L, -1), f->path, strlen(f->path)) == 0)
        return lua_error(L); /* a fault of the text, with its place */
    return luaL_error(L, "error loading module '%s':\n\t%s", name,
                      lua_tostring(L, -1));
}

static void
set_path_lj(lua_State *L, const char *dir)
{
    (void)lua_getfield(L, -1, "path");
    lua_pushfstring(L, "%s?.lua;%s?/init.lua;%slib/?.lua;%slib/?/init.lua;%s",
                    dir, dir, dir, dir, lua_tostring(L, -1));
    lua_setfield(L, -3, "path");
    lua_pop(L, 1);
}

/* Push a copy of the table at the top; tables in it are copied `depth` deep. */
static void
copy_table_lj(lua_State *L, int depth)
{
    int from = lua_gettop(L), to = from + 1;

    luaL_checkstack(L, 8, NULL);
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, from) != 0) {
        if (depth > 0 && lua_istable(L, -1)) {
            copy_table_lj(L, depth - 1);
            lua_remove(L, -2);
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, to);
    }
}

/* A copy of the globals and of the libraries: what a job assigns to them does
 * not reach our modules. */
static void
own_globals_lj(lua_State *L)
{
    lua_pushglobaltable(L);
    copy_table_lj(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &own_key);
    lua_pop(L, 1);
}

void
script_require_open_lj(struct script *s)
{
    static const char *const cfields[] = {"loadlib", "cpath", NULL};
    lua_State *L = s->L;
    int i, old, n;

    script_host_lj(s);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &host_key);
    own_globals_lj(L);
    lua_pushglobaltable(L);
    (void)lua_getfield(L, -1, LUA_LOADLIBNAME);
    set_path_lj(L, s->dir);
    (void)lua_getfield(L, -1, "searchers");
    old = lua_gettop(L);
    lua_newtable(L);
    lua_pushcfunction(L, search_own_lj);
    lua_rawseti(L, -2, 1);
    (void)lua_rawgeti(L, old, 1); /* preload */
    lua_rawseti(L, -2, 2);
    lua_pushvalue(L, old - 1);
    lua_newtable(L);
    lua_pushcclosure(L, search_text_lj, 2);
    lua_rawseti(L, -2, 3);
    n = s->conf.unsafe ? (int)lua_rawlen(L, old) : 2;
    for (i = 3; i <= n; i++) { /* C modules */
        (void)lua_rawgeti(L, old, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, old - 1, "searchers");
    lua_pop(L, 1);
    for (i = 0; !s->conf.unsafe && cfields[i] != NULL; i++) {
        lua_pushnil(L);
        lua_setfield(L, -2, cfields[i]);
    }
    lua_pop(L, 2);
}
