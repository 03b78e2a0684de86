#include "script/test.h"

#include <string.h>

#include "base/buf.h"
#include "script/dump.h"
#include "script/script_impl.h"

/*
 * Which lines of a text can be executed. Lua says it for one function
 * (lua_getinfo, "L") but gives no way to the functions inside it that no call
 * has made yet, so the compiled text is dumped and read (script/dump.h).
 */

enum {
    LINE_ABSOLUTE = -128, /* in lineinfo: the line is in abslineinfo */
    CONST_FLOAT = 0x13,
    CONST_INTEGER = 0x03,
    CONST_SHORT = 0x04,
    CONST_LONG = 0x14,
    DEPTH_MAX = 250 /* more functions in functions Lua refuses */
};

struct lines {
    struct dump dump;
    void (*put)(void *arg, int line);
    void *arg;
};

static void
skip_string(struct dump *d)
{
    uint64_t size = dump_int(d);

    if (size > 1)
        (void)dump_take(d, size - 1);
}

static void
skip_constants(struct dump *d)
{
    size_t n = dump_int(d);

    for (; n > 0 && !d->bad; n--) {
        switch (dump_byte(d)) {
        case CONST_FLOAT:
            (void)dump_take(d, sizeof(lua_Number));
            break;
        case CONST_INTEGER:
            (void)dump_take(d, sizeof(lua_Integer));
            break;
        case CONST_SHORT:
        case CONST_LONG:
            skip_string(d);
            break;
        default: /* nil, false, true */
            break;
        }
    }
}

/* Tell the lines of one function. Its last instruction is the return that
 * every function ends with, on the line of its `end`: not code of the user.
 * The first of a vararg function sets arguments up. */
static void
tell_lines(struct lines *l, int line, bool vararg)
{
    struct dump *d = &l->dump;
    size_t n = dump_int(d), count, i, next_abs = 0;
    const unsigned char *info = dump_take(d, n), *abs_at;
    struct dump abs;
    size_t pc;

    count = dump_int(d);
    abs_at = d->pos;
    for (i = 0; i < count; i++) {
        (void)dump_int(d);
        (void)dump_int(d);
    }
    if (d->bad)
        return;
    abs = *d;
    abs.pos = abs_at;
    for (pc = 0; pc < n; pc++) {
        if ((signed char)info[pc] == LINE_ABSOLUTE && next_abs < count) {
            (void)dump_int(&abs);
            line = (int)dump_int(&abs);
            next_abs++;
        } else {
            line += (signed char)info[pc];
        }
        if (pc + 1 < n && !(vararg && pc == 0))
            l->put(l->arg, line);
    }
}

static void
read_function(struct lines *l, int depth)
{
    struct dump *d = &l->dump;
    int line;
    size_t n, i;
    bool vararg;

    skip_string(d); /* source */
    line = (int)dump_int(d);
    (void)dump_int(d);  /* last line */
    (void)dump_byte(d); /* parameters */
    vararg = dump_byte(d) != 0;
    (void)dump_byte(d); /* stack */
    n = dump_int(d);
    (void)dump_take(d, n * 4); /* instructions */
    skip_constants(d);
    n = dump_int(d);
    (void)dump_take(d, n * 3); /* upvalues */
    n = dump_int(d);
    if (depth >= DEPTH_MAX)
        d->bad = true;
    for (i = 0; i < n && !d->bad; i++)
        read_function(l, depth + 1);
    tell_lines(l, line, vararg);
    n = dump_int(d);
    for (i = 0; i < n && !d->bad; i++) { /* local variables */
        skip_string(d);
        (void)dump_int(d);
        (void)dump_int(d);
    }
    n = dump_int(d);
    for (i = 0; i < n && !d->bad; i++) /* names of upvalues */
        skip_string(d);
}

int
script_lines(const char *text, size_t len, void (*put)(void *arg, int line),
             void *arg, struct err *e)
{
    struct lines l = {.put = put, .arg = arg};
    size_t skip = script_skip_begin(text, len);
    lua_State *L = luaL_newstate();
    struct buf b;
    int r = 0;

    if (L == NULL)
        return err_set(e, ERR_NOMEM, "no memory for a Lua state");
    buf_init(&b);
    if (luaL_loadbufferx(L, text + skip, len - skip, "=job", "t") != LUA_OK) {
        r = err_set(e, ERR_JOBFILE, "%s", lua_tostring(L, -1));
        goto end;
    }
    dump_open(L, false, &b, &l.dump);
    if (!l.dump.bad)
        read_function(&l, 0);
    if (l.dump.bad)
        r = err_set(e, ERR_JOBFILE,
                    "coverage does not know the bytecode of this Lua");
end:
    lua_close(L);
    buf_fini(&b);
    return r;
}
