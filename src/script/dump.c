#include "script/dump.h"

#include <string.h>

/* Signature, version, format, data, three sizes, an integer, a number; then
 * the number of upvalues. */
enum { HEADER_SIZE = 4 + 1 + 1 + 6 + 3 + 8 + 8 + 1 };

static int
add_piece(lua_State *L, const void *bytes, size_t size, void *arg)
{
    (void)L;
    buf_add(arg, bytes, size);
    return 0;
}

static bool
is_known(const struct dump *d)
{
    static const char begin[] = LUA_SIGNATURE "\x54\0\x19\x93\r\n\x1a\n\x04";
    const unsigned char *sizes = d->pos + sizeof begin - 1;

    return (size_t)(d->end - d->pos) > HEADER_SIZE &&
           memcmp(d->pos, begin, sizeof begin - 1) == 0 &&
           sizes[0] == sizeof(lua_Integer) && sizes[1] == sizeof(lua_Number);
}

void
dump_open(lua_State *L, bool strip, struct buf *bytes, struct dump *ret)
{
    int failed = lua_dump(L, add_piece, bytes, strip);

    *ret = (struct dump){.pos = (const unsigned char *)bytes->data};
    ret->end = ret->pos + bytes->len;
    ret->bad = failed != 0 || !is_known(ret);
    if (!ret->bad)
        ret->pos += HEADER_SIZE;
}

const unsigned char *
dump_take(struct dump *d, size_t size)
{
    const unsigned char *at = d->pos;

    if (d->bad || (size_t)(d->end - d->pos) < size) {
        d->bad = true;
        return NULL;
    }
    d->pos += size;
    return at;
}

unsigned
dump_byte(struct dump *d)
{
    const unsigned char *at = dump_take(d, 1);

    return at == NULL ? 0 : *at;
}

uint64_t
dump_int(struct dump *d)
{
    uint64_t n = 0;
    unsigned b;

    do {
        b = dump_byte(d);
        n = n << 7 | (b & 0x7f);
    } while (!d->bad && (b & 0x80) == 0);
    return n;
}
