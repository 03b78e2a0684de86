/*
 * Functions as bytes: the form of lua_dump(), which is the same in all
 * releases of Lua 5.4, and a cursor over it.
 *
 * For what Lua knows of a function and does not tell: which lines of the
 * functions inside it can be executed, whether it keeps its argument. Reading
 * never goes behind the end: it sets `bad` and gives 0. Thread: the caller's.
 * @source Lua 5.4 ldump.c.
 */
#ifndef SCRIPT_DUMP_H
#define SCRIPT_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lua.h>

#include "base/buf.h"

struct dump {
    const unsigned char *pos, *end;
    bool bad;
};

/**
 * Dump the function at the top of the stack.
 *
 * @param strip leave names and lines out. @param bytes empty; appended to.
 * @param ret   borrows from `bytes`; begins behind the header, at the first
 *        function. `bad` if this is no form that is known.
 */
void dump_open(lua_State *L, bool strip, struct buf *bytes, struct dump *ret);
/** The next `size` bytes, or NULL. */
const unsigned char *dump_take(struct dump *d, size_t size);
unsigned dump_byte(struct dump *d);
/** A size or an int: 7 bits a byte, highest first, the last byte marked. */
uint64_t dump_int(struct dump *d);

#endif
