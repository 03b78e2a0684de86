/*
 * migrate: what the state has of a value or accumulator, through the function
 * that makes its new form. Called at a restore, once for each.
 */
#include "script/calls_impl.h"

/* One call, passed to the protected part. */
struct passing {
    struct calls *c;
    int func;
    const char *bytes;
    size_t len;
    struct err damage;
};

static int
pass_lj(lua_State *L)
{
    struct passing *p = lua_touserdata(L, 1);

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, p->c->s->funcs_ref);
    (void)lua_rawgeti(L, -1, p->func);
    if (pack_push_lj(p->c, L, p->bytes, p->len, &p->damage) != 0)
        return luaL_error(L, "%s", p->damage.msg);
    lua_call(L, 1, 1);
    return 1;
}

/* A failure of the function refuses the start: no record has it. */
static int
refuse(struct calls *c, int func, struct err *e)
{
    if (e->where[0] == '\0')
        calls_place(c, func, e);
    e->code = ERR_JOBFILE;
    e->cause = CAUSE_NONE;
    err_hint(e, "nothing has changed: the state is as the last checkpoint "
                "has it");
    return e->code;
}

int
migrate_push(struct calls *c, int func, const char *bytes, size_t len,
             struct err *e)
{
    struct passing p = {.c = c, .func = func, .bytes = bytes, .len = len};
    lua_State *L = calls_stack(c);

    err_clear(&p.damage);
    lua_pushcfunction(L, pass_lj);
    lua_pushlightuserdata(L, &p);
    if (calls_call(c, 1, 1, e) != 0) {
        if (p.damage.code == 0)
            return refuse(c, func, e);
        *e = p.damage;
        return e->code;
    }
    if (!lua_isnil(L, -1))
        return 0;
    lua_pop(L, 1);
    (void)err_set(e, ERR_JOBFILE, "migrate returned nil; return the new form");
    return refuse(c, func, e);
}

int
migrate_put(struct calls *c, int func, bool state, struct buf *out,
            struct err *e)
{
    lua_State *L = c->s->L;
    int r =
        state ? pack_put_state(c, L, -1, out, e) : pack_put(c, L, -1, out, e);

    if (r == 0)
        return 0;
    lua_pop(L, 1);
    (void)err_context(e, "what migrate returned");
    return refuse(c, func, e);
}

int
script_migrate(struct script *s, const struct script_migrate *m,
               const struct kstate_bytes *old, struct buf *out, struct err *e)
{
    int r = migrate_push(s->calls, m->func, old->p, old->len, e);

    if (r != 0)
        return r;
    r = migrate_put(s->calls, m->func, !m->accumulator, out, e);
    if (r == 0)
        lua_pop(s->L, 1);
    return r;
}
