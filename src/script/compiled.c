#include <stdatomic.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "script/embed.h"
#include "script/script_impl.h"

/*
 * The engine's own modules, compiled once a process: every task loads them,
 * and compiling is two thirds of a load. Bytecode never comes from anywhere
 * else. Whoever compiles a module first leaves it here; a thread that did so
 * at the same time throws its own away.
 */

enum { MODULES_MAX = 64 };

static _Atomic(struct buf *) compiled[MODULES_MAX];

static int
add_piece(lua_State *L, const void *p, size_t size, void *arg)
{
    (void)L;
    buf_add(arg, p, size);
    return 0;
}

/* Keep the function on top of the stack. */
static void
keep(lua_State *L, size_t index)
{
    struct buf *b = mem_alloc(sizeof *b), *none = NULL;

    buf_init(b);
    (void)lua_dump(L, add_piece, b, 0);
    /* Release: who sees the pointer sees the bytes. */
    if (!atomic_compare_exchange_strong_explicit(&compiled[index], &none, b,
                                                 memory_order_release,
                                                 memory_order_relaxed)) {
        buf_fini(b);
        free(b);
    }
}

int
script_load_own(lua_State *L, const struct script_lua_file *f,
                const char *chunk)
{
    size_t index = (size_t)(f - script_lua_files);
    const struct buf *b = NULL;
    int status;

    if (index < MODULES_MAX)
        b = atomic_load_explicit(&compiled[index], memory_order_acquire);
    if (b != NULL)
        return luaL_loadbufferx(L, b->data, b->len, chunk, "b");
    status = luaL_loadbufferx(L, f->text, f->len, chunk, "t");
    if (status == LUA_OK && index < MODULES_MAX)
        keep(L, index);
    return status;
}
