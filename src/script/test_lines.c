#include "script/test.h"

#include <string.h>

#include "base/buf.h"
#include "script/script_impl.h"

/*
 * Which lines of a text can be executed. Lua says it for one function
 * (lua_getinfo, "L") but gives no way to the functions inside it that no call
 * has made yet, so the compiled text is dumped and read: the format of
 * ldump.c, which is the same in all releases of 5.4 and checked by its header.
 */

enum {
    HEADER_SIZE = 4 + 1 + 1 + 6 + 3 + 8 + 8 + 1,
    LINE_ABSOLUTE = -128, /* in lineinfo: the line is in abslineinfo */
    CONST_FLOAT = 0x13,
    CONST_INTEGER = 0x03,
    CONST_SHORT = 0x04,
    CONST_LONG = 0x14,
    DEPTH_MAX = 250 /* more functions in functions Lua refuses */
};

struct dump {
    const unsigned char *pos, *end;
    bool bad;
    void (*put)(void *arg, int line);
    void *arg;
};

static const unsigned char *
take(struct dump *d, size_t size)
{
    const unsigned char *at = d->pos;

    if (d->bad || (size_t)(d->end - d->pos) < size) {
        d->bad = true;
        return NULL;
    }
    d->pos += size;
    return at;
}

static unsigned
take_byte(struct dump *d)
{
    const unsigned char *at = take(d, 1);

    return at == NULL ? 0 : *at;
}

/* A number in groups of seven bits, the last one marked. */
static size_t
take_size(struct dump *d)
{
    size_t n = 0;
    unsigned b;

    do {
        b = take_byte(d);
        n = n << 7 | (b & 0x7f);
    } while (!d->bad && (b & 0x80) == 0);
    return n;
}

static void
skip_string(struct dump *d)
{
    size_t size = take_size(d);

    if (size > 1)
        (void)take(d, size - 1);
}

static void
skip_constants(struct dump *d)
{
    size_t n = take_size(d);

    for (; n > 0 && !d->bad; n--) {
        switch (take_byte(d)) {
        case CONST_FLOAT:
            (void)take(d, sizeof(lua_Number));
            break;
        case CONST_INTEGER:
            (void)take(d, sizeof(lua_Integer));
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
tell_lines(struct dump *d, int line, bool vararg)
{
    size_t n = take_size(d), count, i, next_abs = 0;
    const unsigned char *info = take(d, n), *abs_at;
    struct dump abs;
    size_t pc;

    count = take_size(d);
    abs_at = d->pos;
    for (i = 0; i < count; i++) {
        (void)take_size(d);
        (void)take_size(d);
    }
    if (d->bad)
        return;
    abs = *d;
    abs.pos = abs_at;
    for (pc = 0; pc < n; pc++) {
        if ((signed char)info[pc] == LINE_ABSOLUTE && next_abs < count) {
            (void)take_size(&abs);
            line = (int)take_size(&abs);
            next_abs++;
        } else {
            line += (signed char)info[pc];
        }
        if (pc + 1 < n && !(vararg && pc == 0))
            d->put(d->arg, line);
    }
}

static void
read_function(struct dump *d, int depth)
{
    int line;
    size_t n, i;
    bool vararg;

    skip_string(d); /* source */
    line = (int)take_size(d);
    (void)take_size(d); /* last line */
    (void)take_byte(d); /* parameters */
    vararg = take_byte(d) != 0;
    (void)take_byte(d); /* stack */
    n = take_size(d);
    (void)take(d, n * 4); /* instructions */
    skip_constants(d);
    n = take_size(d);
    (void)take(d, n * 3); /* upvalues */
    n = take_size(d);
    if (depth >= DEPTH_MAX)
        d->bad = true;
    for (i = 0; i < n && !d->bad; i++)
        read_function(d, depth + 1);
    tell_lines(d, line, vararg);
    n = take_size(d);
    for (i = 0; i < n && !d->bad; i++) { /* local variables */
        skip_string(d);
        (void)take_size(d);
        (void)take_size(d);
    }
    n = take_size(d);
    for (i = 0; i < n && !d->bad; i++) /* names of upvalues */
        skip_string(d);
}

static int
add_piece(lua_State *L, const void *p, size_t size, void *arg)
{
    (void)L;
    buf_add(arg, p, size);
    return 0;
}

static bool
is_known(const struct dump *d)
{
    static const unsigned char begin[] = {0x1b,
                                          'L',
                                          'u',
                                          'a',
                                          0x54,
                                          0,
                                          0x19,
                                          0x93,
                                          '\r',
                                          '\n',
                                          0x1a,
                                          '\n',
                                          4,
                                          sizeof(lua_Integer),
                                          sizeof(lua_Number)};

    return (size_t)(d->end - d->pos) > HEADER_SIZE &&
           memcmp(d->pos, begin, sizeof begin) == 0;
}

int
script_lines(const char *text, size_t len, void (*put)(void *arg, int line),
             void *arg, struct err *e)
{
    struct dump d = {.put = put, .arg = arg};
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
    (void)lua_dump(L, add_piece, &b, 0);
    d.pos = (const unsigned char *)b.data;
    d.end = d.pos + b.len;
    if (is_known(&d)) {
        d.pos += HEADER_SIZE;
        read_function(&d, 0);
    } else {
        d.bad = true;
    }
    if (d.bad)
        r = err_set(e, ERR_JOBFILE,
                    "coverage does not know the bytecode of this Lua");
end:
    lua_close(L);
    buf_fini(&b);
    return r;
}
