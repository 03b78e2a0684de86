#include "script/script_impl.h"

#include <stdio.h>
#include <string.h>

/*
 * From Lua errors to `struct err`: the place is taken from the message or
 * from the stack, the traceback shows the user's own frames only.
 */

/* Frames looked at: each costs its depth, and a runaway recursion leaves
 * hundreds of thousands. */
enum { TRACE_LEVELS = 200 };

static const char no_memory[] = "not enough memory";

static bool
is_lib(const lua_Debug *ar)
{
    return strncmp(ar->source, SCRIPT_LIB_MARK, sizeof SCRIPT_LIB_MARK - 1) ==
           0;
}

bool
script_user_frame(lua_State *L, lua_Debug *ar)
{
    int level;

    for (level = 0; level < TRACE_LEVELS && lua_getstack(L, level, ar) != 0;
         level++) {
        (void)lua_getinfo(L, "Sl", ar);
        if (strcmp(ar->what, "C") != 0 && !is_lib(ar))
            return true;
    }
    return false;
}

void
script_place(const struct script *s, const lua_Debug *ar, char *out,
             size_t size)
{
    const char *file;

    file = ar->short_src;
    if (strcmp(file, s->chunk) == 0)
        file = s->conf.path;
    (void)snprintf(out, size, "%s:%d", file, ar->currentline);
}

void
script_note_place(struct script *s)
{
    lua_Debug ar;

    if (script_user_frame(
            atomic_load_explicit(&s->running, memory_order_relaxed), &ar))
        script_place(s, &ar, s->where, sizeof s->where);
}

/* Append one frame to the trace. */
static void
trace_frame(struct script *s, lua_State *L, lua_Debug *ar, size_t *len)
{
    char place[ERR_WHERE_MAX], *at;
    size_t room;
    int n;

    (void)lua_getinfo(L, "n", ar);
    script_place(s, ar, place, sizeof place);
    at = s->trace + *len;
    room = sizeof s->trace - *len;
    if (ar->name != NULL)
        n = snprintf(at, room, "%s%s: in %s '%s'", *len > 0 ? "\n" : "", place,
                     *ar->namewhat != '\0' ? ar->namewhat : "function",
                     ar->name);
    else if (strcmp(ar->what, "main") == 0)
        n = snprintf(at, room, "%s%s: in main chunk", *len > 0 ? "\n" : "",
                     place);
    else
        n = snprintf(at, room, "%s%s: in function <%s:%d>",
                     *len > 0 ? "\n" : "", place, ar->short_src,
                     ar->linedefined);
    if (n > 0)
        *len = (size_t)n < room ? *len + (size_t)n : sizeof s->trace - 1;
}

int
script_msgh(lua_State *L)
{
    struct script *s;
    lua_Debug ar;
    size_t len;
    int level;

    s = script_of(L);
    s->where[0] = '\0';
    s->trace[0] = '\0';
    len = 0;
    for (level = 0; level < TRACE_LEVELS && lua_getstack(L, level, &ar) != 0;
         level++) {
        (void)lua_getinfo(L, "Sl", &ar);
        if (strcmp(ar.what, "C") == 0 || is_lib(&ar))
            continue;
        if (s->where[0] == '\0')
            script_place(s, &ar, s->where, sizeof s->where);
        trace_frame(s, L, &ar, &len);
    }
    return 1;
}

/* Length of a "FILE:LINE: " prefix of msg, 0 if there is none; *ret_file and
 * *ret_line say its parts. */
static size_t
place_prefix(const char *msg, size_t *ret_file, int *ret_line)
{
    const char *p;
    int line, n;

    for (p = strchr(msg, ':'); p != NULL; p = strchr(p + 1, ':')) {
        line = n = 0;
        if (p > msg && sscanf(p, ":%d: %n", &line, &n) == 1 && n > 0) {
            *ret_file = (size_t)(p - msg);
            *ret_line = line;
            return *ret_file + (size_t)n;
        }
        if (p[1] == ' ')
            break; /* a message, no file name */
    }
    return 0;
}

/* Split "FILE:LINE: text" off; the rest is returned. */
static const char *
take_place(struct script *s, const char *msg, struct err *e)
{
    size_t n, file;
    int line;

    n = place_prefix(msg, &file, &line);
    if (n == 0) {
        err_where(e, "%s", s->where);
        return msg;
    }
    if (strncmp(msg, "streamlua.", 10) == 0) /* code of ours: its caller */
        err_where(e, "%s", s->where);
    else if (file == strlen(s->chunk) && memcmp(msg, s->chunk, file) == 0)
        err_where(e, "%s:%d", s->conf.path, line);
    else
        err_where(e, "%.*s:%d", (int)file, msg, line);
    return msg + n;
}

/* What to try, if the message tells. */
static void
add_hint(struct script *s, const char *msg, struct err *e)
{
    static const char *const guarded[] = {"'io'",       "'debug'",   "'dofile'",
                                          "'loadfile'", "'execute'", "'exit'",
                                          "'getenv'",   "'loadlib'"};
    size_t i;

    if (!s->conf.unsafe && strstr(msg, "nil value (") != NULL) {
        for (i = 0; i < sizeof guarded / sizeof guarded[0]; i++) {
            if (strstr(msg, guarded[i]) != NULL) {
                err_hint(e, "%s is available with --unsafe only", guarded[i]);
                return;
            }
        }
    }
    if (strncmp(msg, no_memory, sizeof no_memory - 1) == 0) {
        err_hint(e,
                 "keep less in variables, or raise the cap of each task's "
                 "Lua state: s.job(name, { lua = { memory = \"%zuMiB\" } })",
                 (s->memory_max + (1 << 20) - 1) / (1 << 20) * 2);
        return;
    }
    if (!s->loaded || strncmp(msg, "(the error", 10) == 0 ||
        strstr(msg, "(global '") != NULL || strstr(msg, "(upvalue '") != NULL ||
        strstr(msg, "(method '") != NULL)
        return; /* no field of a record */
    if (strstr(msg, "nil value") != NULL || strstr(msg, "with nil") != NULL ||
        strstr(msg, "compare nil") != NULL || strstr(msg, "got nil") != NULL ||
        strstr(msg, "two nil values") != NULL)
        err_hint(e, "the field is missing or null in this record");
}

/* The text of the error value at the top, without calling user code. */
static const char *
error_text(lua_State *L, char *out, size_t size)
{
    const char *msg;

    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
    case LUA_TNUMBER:
        msg = lua_tostring(L, -1); /* the cap is off here: load.c */
        break;
    case LUA_TTABLE:
        lua_pushliteral(L, "message");
        msg = lua_rawget(L, -2) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        lua_pop(L, 1); /* the table keeps the string */
        break;
    default:
        msg = NULL;
    }
    if (msg != NULL)
        return msg;
    (void)snprintf(out, size, "(the error is a %s value)",
                   luaL_typename(L, -1));
    return out;
}

/* What was too much: Lua's own text does not say. */
static void
say_cap(const struct script *s, struct err *e)
{
    size_t n = s->memory_max;
    const char *unit = "bytes";

    if (strcmp(e->msg, no_memory) != 0)
        return;
    if (n >= 1 << 20 && n % (1 << 20) == 0) {
        n >>= 20;
        unit = "MiB";
    } else if (n >= 1 << 10 && n % (1 << 10) == 0) {
        n >>= 10;
        unit = "KiB";
    }
    (void)snprintf(e->msg, sizeof e->msg,
                   "%s: the Lua state may take %zu %s (lua.memory)", no_memory,
                   n, unit);
}

/* A message is one line: "\n\t" of Lua's lists becomes "; ", " " behind ":". */
static void
one_line(char *msg)
{
    char *from, *to;

    for (from = to = msg; *from != '\0'; from++) {
        if (*from == '\n' && from[1] == '\t' && to != msg && to[-1] == ':')
            continue; /* what follows is listed */
        if (*from == '\n' && from[1] == '\t')
            *to++ = ';';
        else if (*from == '\n' || *from == '\t' || *from == '\r')
            *to++ = ' ';
        else
            *to++ = *from;
    }
    *to = '\0';
}

int
script_take_error(struct script *s, struct err *e)
{
    char other[64];
    const char *msg, *text;
    struct err tmp;

    if (e == NULL)
        e = &tmp;
    msg = error_text(s->L, other, sizeof other);
    (void)err_record(e, CAUSE_USER_ERROR, "%s", "");
    text = take_place(s, msg, e);
    if (s->nil_field != NULL && strchr(text, '(') == NULL &&
        (strstr(text, "with nil") != NULL || strstr(text, "compare nil")))
        (void)snprintf(e->msg, sizeof e->msg, "%s (field '%s')", text,
                       s->nil_field);
    else
        (void)snprintf(e->msg, sizeof e->msg, "%s", text);
    (void)snprintf(e->trace, sizeof e->trace, "%s", s->trace);
    one_line(e->msg);
    say_cap(s, e);
    add_hint(s, e->msg, e);
    s->where[0] = s->trace[0] = '\0';
    lua_pop(s->L, 1);
    return ERR_RECORD;
}

int
script_take_load_error(struct script *s, struct err *e)
{
    char other[64];
    const char *msg;
    struct err tmp;
    int code;

    if (e == NULL)
        e = &tmp;
    code = ERR_JOBFILE;
    if (lua_istable(s->L, -1)) {
        lua_pushliteral(s->L, "usage");
        if (lua_rawget(s->L, -2) != LUA_TNIL)
            code = ERR_USAGE;
        lua_pop(s->L, 1);
    }
    msg = error_text(s->L, other, sizeof other);
    (void)err_set(e, code, "%s", "");
    if (code == ERR_JOBFILE)
        msg = take_place(s, msg, e);
    (void)snprintf(e->msg, sizeof e->msg, "%s", msg);
    if (code == ERR_JOBFILE && e->where[0] == '\0')
        err_where(e, "%s%s", s->conf.path, /* Lua does not say where */
                  strcmp(msg, no_memory) == 0 ? "" : ":1");
    one_line(e->msg);
    say_cap(s, e);
    add_hint(s, e->msg, e);
    s->where[0] = s->trace[0] = '\0';
    lua_pop(s->L, 1);
    return code;
}
