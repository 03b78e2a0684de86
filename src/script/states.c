/*
 * State handles: ctx.state.NAME:get(), and so on.
 *
 * A handle's methods are found in a table of its kind; reading and writing a
 * number or a boolean makes no memory. What goes in is copied (pack.c), what
 * comes out is new.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "core/key.h"
#include "script/process_impl.h"

static const char state_magic[STATE_KINDS] = {0};

/* ---- what all kinds share ---- */

static struct state_handle *
handle_lj(lua_State *L, enum state_kind kind)
{
    struct state_handle *h = lua_touserdata(L, 1);

    if (h == NULL || lua_rawlen(L, 1) != sizeof *h ||
        h->magic != &state_magic[kind])
        (void)luaL_error(L, "call the methods of state with a colon, as "
                            "ctx.state.name:get()");
    process_check_lj(L, h->sp);
    return h;
}

static int
fail_lj(lua_State *L, const struct state_handle *h, const char *text)
{
    return luaL_error(L, "state %s: %s", opt_str(h->opts, "name", ""), text);
}

/* Push a value. Numbers, the common case, are read here. */
static void
push_packed_lj(lua_State *L, const struct state_handle *h, const char *p,
               uint32_t len)
{
    struct pack_number n;
    struct err e;

    if (pack_get_number(p, len, &n)) {
        if (n.is_int)
            lua_pushinteger(L, n.u.i);
        else
            lua_pushnumber(L, n.u.d);
        return;
    }
    if (pack_push_lj(h->sp->c, L, p, len, &e) != 0)
        (void)fail_lj(L, h, e.msg);
}

/* Pack the value at `idx` behind what is in sp->bytes. */
static void
pack_lj(lua_State *L, const struct state_handle *h, int idx)
{
    struct script_process *sp = h->sp;
    struct err e;

    if (pack_put_state(sp->c, L, idx, &sp->bytes, &e) != 0)
        (void)fail_lj(L, h, e.msg);
}

/* The value at `idx` packed: numbers in `room`, others in sp->bytes. */
static struct kstate_bytes
packed_lj(lua_State *L, const struct state_handle *h, int idx,
          char room[PACK_NUMBER])
{
    struct script_process *sp = h->sp;
    struct pack_number n;

    if (lua_type(L, idx) == LUA_TNUMBER) {
        n.is_int = lua_isinteger(L, idx);
        if (n.is_int)
            n.u.i = lua_tointeger(L, idx);
        else
            n.u.d = lua_tonumber(L, idx);
        pack_put_number(room, &n);
        return (struct kstate_bytes){.p = room, .len = PACK_NUMBER};
    }
    buf_clear(&sp->bytes);
    pack_lj(L, h, idx);
    if (sp->bytes.len > KSTATE_VALUE_MAX)
        (void)fail_lj(L, h, "a value above 64 MiB");
    return (struct kstate_bytes){.p = sp->bytes.data,
                                 .len = (uint32_t)sp->bytes.len};
}

/* Set a value to that at `idx`, not nil. */
static void
set_value_lj(lua_State *L, const struct state_handle *h, int idx)
{
    char room[PACK_NUMBER];
    struct kstate_bytes v = packed_lj(L, h, idx, room);
    struct err e;

    if (kstate_value_set(h->sp->conf.state, h->h, v.p, v.len, &e) != 0)
        (void)fail_lj(L, h, e.msg);
}

static int
clear_lj(lua_State *L, enum state_kind kind)
{
    const struct state_handle *h = handle_lj(L, kind);

    kstate_clear(h->sp->conf.state, h->h);
    return 0;
}

/* Push the value or nil. @return whether there is one. */
static bool
get_value_lj(lua_State *L, const struct state_handle *h)
{
    const char *p;
    uint32_t len;

    p = kstate_value_get(h->sp->conf.state, h->h, &len);
    if (p == NULL)
        lua_pushnil(L);
    else
        push_packed_lj(L, h, p, len);
    return p != NULL;
}

/* ---- value ---- */

static int
value_get(lua_State *L)
{
    (void)get_value_lj(L, handle_lj(L, STATE_VALUE));
    return 1;
}

static int
value_set(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_VALUE);

    lua_settop(L, 2);
    if (lua_isnil(L, 2))
        kstate_clear(h->sp->conf.state, h->h);
    else
        set_value_lj(L, h, 2);
    return 0;
}

static int
value_clear(lua_State *L)
{
    return clear_lj(L, STATE_VALUE);
}

/* ---- map ---- */

static struct kstate_bytes
map_key_lj(lua_State *L, const struct state_handle *h, int idx)
{
    struct script_process *sp = h->sp;
    struct buf *b = &sp->map_key;
    struct val v;
    struct err e;

    buf_clear(b);
    if (lua_isinteger(L, idx)) {
        key_put_int(b, lua_tointeger(L, idx));
    } else if (lua_isnoneornil(L, idx)) {
        (void)fail_lj(L, h, "nil as key of the map");
    } else {
        arena_reset(&sp->arena);
        if (conv_value(sp->c, L, idx, &sp->arena, &v, &e) != 0)
            (void)fail_lj(L, h, e.msg);
        if (v.type == VAL_DBL && isnan(v.u.d))
            (void)fail_lj(L, h, "NaN as key of the map");
        if (v.type == VAL_NULL)
            (void)fail_lj(L, h, "null as key of the map");
        if (!key_put_scalar(b, &v) && json_key_encode(b, &v, &e) != 0)
            (void)fail_lj(L, h, e.msg);
    }
    return (struct kstate_bytes){.p = b->data, .len = (uint32_t)b->len};
}

static int
map_get(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_MAP);
    struct kstate_bytes key = map_key_lj(L, h, 2);
    const char *p;
    uint32_t len;

    p = kstate_map_get(h->sp->conf.state, h->h, &key, &len);
    if (p == NULL)
        lua_pushnil(L);
    else
        push_packed_lj(L, h, p, len);
    return 1;
}

static int
map_put(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_MAP);
    struct script_process *sp = h->sp;
    struct kstate_bytes key = map_key_lj(L, h, 2), value;
    char room[PACK_NUMBER];
    struct err e;

    lua_settop(L, 3);
    if (lua_isnil(L, 3)) {
        (void)kstate_map_remove(sp->conf.state, h->h, &key);
        return 0;
    }
    value = packed_lj(L, h, 3, room);
    if (kstate_map_put(sp->conf.state, h->h, &key, &value, &e) != 0)
        return fail_lj(L, h, e.msg);
    return 0;
}

static int
map_has(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_MAP);
    struct kstate_bytes key = map_key_lj(L, h, 2);

    lua_pushboolean(L, kstate_map_has(h->sp->conf.state, h->h, &key));
    return 1;
}

static int
map_remove(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_MAP);
    struct kstate_bytes key = map_key_lj(L, h, 2);

    (void)kstate_map_remove(h->sp->conf.state, h->h, &key);
    return 0;
}

struct map_walk {
    struct script_process *sp;
    uint64_t number; /* of the call */
    struct kstate_iter iter;
};

/* Upvalues: the walk's userdata, the handle's. */
static int
map_next(lua_State *L)
{
    struct map_walk *w = lua_touserdata(L, lua_upvalueindex(1));
    struct state_handle *h = lua_touserdata(L, lua_upvalueindex(2));
    struct kstate_bytes key, value;
    const char *p;

    process_check_lj(L, h->sp);
    if (w->number != h->sp->number)
        return fail_lj(L, h, "pairs() of an earlier call");
    if (!kstate_map_next(h->sp->conf.state, &w->iter, &key, &value))
        return 0;
    p = key.p;
    (void)process_push_part_lj(L, h->sp->c, p, p + key.len);
    push_packed_lj(L, h, value.p, value.len);
    return 2;
}

static int
map_pairs(lua_State *L)
{
    struct state_handle *h = handle_lj(L, STATE_MAP);
    struct map_walk *w = lua_newuserdatauv(L, sizeof *w, 0);

    w->sp = h->sp;
    w->number = h->sp->number;
    kstate_map_begin(h->sp->conf.state, h->h, &w->iter);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, map_next, 2);
    return 1;
}

static int
map_clear(lua_State *L)
{
    return clear_lj(L, STATE_MAP);
}

/* ---- list ---- */

static int
list_get(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_LIST);
    struct kstate_bytes value;
    struct kstate_iter iter;
    lua_Integer n = 0;

    kstate_list_begin(h->sp->conf.state, h->h, &iter);
    lua_createtable(L, (int)(iter.count < 1024 ? iter.count : 1024), 0);
    while (kstate_list_next(h->sp->conf.state, &iter, &value)) {
        push_packed_lj(L, h, value.p, value.len);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static int
list_add(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_LIST);
    struct kstate_bytes v;
    char room[PACK_NUMBER];
    struct err e;

    lua_settop(L, 2);
    if (lua_isnil(L, 2))
        return fail_lj(L, h, "nil as element of the list");
    v = packed_lj(L, h, 2, room);
    if (kstate_list_add(h->sp->conf.state, h->h, v.p, v.len, &e) != 0)
        return fail_lj(L, h, e.msg);
    return 0;
}

/* Raise unless the keys of the table at 2 are exactly 1 to n. */
static lua_Integer
check_list_lj(lua_State *L, const struct state_handle *h)
{
    lua_Integer n, count = 0;

    if (!lua_istable(L, 2))
        (void)luaL_error(L, "state %s: update: expected a list, got %s",
                         opt_str(h->opts, "name", ""), luaL_typename(L, 2));
    n = (lua_Integer)lua_rawlen(L, 2);
    lua_pushnil(L);
    while (lua_next(L, 2) != 0) {
        lua_pop(L, 1);
        if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1 ||
            lua_tointeger(L, -1) > n)
            (void)fail_lj(L, h, "update: a list has keys other than 1 to n");
        count++;
    }
    if (count != n)
        (void)fail_lj(L, h, "update: a list with a gap");
    return n;
}

/* All elements are packed before the old ones go. */
static int
list_update(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_LIST);
    struct script_process *sp = h->sp;
    lua_Integer n, i;
    uint32_t len = 0;
    size_t at = 0;
    struct err e;

    lua_settop(L, 2);
    n = check_list_lj(L, h);
    buf_clear(&sp->bytes);
    for (i = 1; i <= n; i++) {
        at = sp->bytes.len;
        buf_add(&sp->bytes, &len, sizeof len);
        (void)lua_rawgeti(L, 2, i);
        pack_lj(L, h, -1);
        lua_pop(L, 1);
        if (sp->bytes.len - at - sizeof len > KSTATE_VALUE_MAX)
            return fail_lj(L, h, "update: an element above 64 MiB");
        calls_room_lj(L, sp->bytes.len);
        len = (uint32_t)(sp->bytes.len - at - sizeof len);
        memcpy(sp->bytes.data + at, &len, sizeof len);
    }
    kstate_clear(sp->conf.state, h->h);
    for (i = 1, at = 0; i <= n; i++) {
        memcpy(&len, sp->bytes.data + at, sizeof len);
        at += sizeof len;
        if (kstate_list_add(sp->conf.state, h->h, sp->bytes.data + at, len,
                            &e) != 0)
            return fail_lj(L, h, e.msg);
        at += len;
    }
    return 0;
}

static int
list_clear(lua_State *L)
{
    return clear_lj(L, STATE_LIST);
}

/* ---- reducing, aggregating ---- */

static void
push_func_lj(lua_State *L, int func)
{
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, script_of(L)->funcs_ref);
    (void)lua_rawgeti(L, -1, func);
    lua_remove(L, -2);
}

static int
reducing_add(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_REDUCING);

    lua_settop(L, 2);
    if (lua_isnil(L, 2))
        return fail_lj(L, h, "add: expected a value, got nil");
    push_func_lj(L, opt_func(h->opts, "func"));
    if (!get_value_lj(L, h)) {
        set_value_lj(L, h, 2);
        return 0;
    }
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
    if (lua_isnil(L, -1))
        return fail_lj(L, h, "the function of reducing_state returned nil");
    set_value_lj(L, h, -1);
    return 0;
}

static int
reducing_get(lua_State *L)
{
    (void)get_value_lj(L, handle_lj(L, STATE_REDUCING));
    return 1;
}

static int
reducing_clear(lua_State *L)
{
    return clear_lj(L, STATE_REDUCING);
}

/* Push the member at path `path` of the table on top, which is replaced. */
static void
push_path_lj(lua_State *L, const char *path)
{
    char name[256];
    size_t n = 0;

    for (;; path++) {
        if (*path != '\0' && *path != '.') {
            if (path[0] == '\\' && path[1] == '.')
                path++;
            if (n < sizeof name)
                name[n++] = *path;
            continue;
        }
        (void)lua_pushlstring(L, name, n);
        n = 0;
        if (lua_istable(L, -2) || lua_isuserdata(L, -2))
            (void)lua_gettable(L, -2);
        else
            lua_pushnil(L);
        lua_remove(L, -2);
        if (*path == '\0')
            return;
    }
}

/* Push what an argument { field | func } of an aggregator is of the value at
 * 2: a record, a table, or (for a field) the value itself. */
static void
push_arg_lj(lua_State *L, const struct opt *arg)
{
    const char *field = opt_str(arg, "field", NULL);

    if (field == NULL) {
        push_func_lj(L, opt_func(arg, "func"));
        lua_pushvalue(L, 2);
        lua_call(L, 1, 1);
        return;
    }
    lua_pushvalue(L, 2);
    if (lua_type(L, 2) == LUA_TUSERDATA) {
        lua_getfield(L, -1, field); /* records and views know paths */
        lua_remove(L, -2);
    } else if (lua_istable(L, 2)) {
        push_path_lj(L, field);
    }
    if (lua_islightuserdata(L, -1)) { /* s.null */
        lua_pop(L, 1);
        lua_pushnil(L);
    }
}

/* Whether the option `where` of the aggregator lets the value at 2 pass. */
static bool
passes_lj(lua_State *L, const struct opt *agg)
{
    int func = opt_func(agg, "where");
    bool ok;

    if (func == 0)
        return true;
    push_func_lj(L, func);
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
    ok = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return ok;
}

static int
aggregating_add(lua_State *L)
{
    struct state_handle *h = handle_lj(L, STATE_AGGREGATING);
    struct script_process *sp = h->sp;
    const struct opt *agg = opt_get(h->opts, "agg"), *arg;
    struct val vals[AGG_ARGS_MAX];
    struct err e;
    int i, n = 0;

    lua_settop(L, 2);
    if (!passes_lj(L, agg))
        return 0;
    arg = opt_get(agg, "args");
    for (arg = arg != NULL ? arg->first : NULL; arg != NULL; arg = arg->next) {
        push_arg_lj(L, arg); /* may call user code */
        n++;
    }
    arena_reset(&sp->arena);
    for (i = 0; i < n; i++)
        if (conv_value(sp->c, L, 3 + i, &sp->arena, &vals[i], &e) != 0)
            return fail_lj(L, h, e.msg);
    if (kstate_agg_add(sp->conf.state, h->h, vals, sp->c->cur.rec, &e) == 0)
        return 0;
    sp->raised = e;
    return fail_lj(L, h, e.msg);
}

static int
aggregating_get(lua_State *L)
{
    struct state_handle *h = handle_lj(L, STATE_AGGREGATING);
    struct script_process *sp = h->sp;
    const struct aggset *set = sp->conf.handles[h->h].set;
    const void *block;
    struct val v;
    struct err e;
    bool ext = false;
    int r;

    if (kstate_agg_get(sp->conf.state, h->h, &block, &e) != 0)
        return fail_lj(L, h, e.msg);
    buf_clear(&sp->bytes);
    if (block != NULL) {
        r = agg_result(&set->aggs[0], block, &sp->bytes, &ext, &e);
    } else {
        sp->empty = mem_realloc(sp->empty, set->size);
        aggset_init(set, sp->empty);
        r = agg_result(&set->aggs[0], sp->empty, &sp->bytes, &ext, &e);
        aggset_fini(set, sp->empty);
    }
    arena_reset(&sp->arena);
    if (r == 0)
        r = json_value(sp->bytes.data, sp->bytes.len, BIGINT_FLOAT, &sp->arena,
                       &v, &e);
    if (r == 0 && val_is_null(&v))
        lua_pushnil(L);
    else if (r == 0)
        r = conv_push_lj(sp->c, L, &v, BIGINT_FLOAT, true, &e);
    if (r == 0)
        return 1;
    sp->raised = e;
    return fail_lj(L, h, e.msg);
}

static int
aggregating_clear(lua_State *L)
{
    return clear_lj(L, STATE_AGGREGATING);
}

/* ---- custom aggregators ---- */

/* Push the accumulator; over nothing what init() gives. */
static void
push_acc_lj(lua_State *L, const struct state_handle *h)
{
    if (get_value_lj(L, h))
        return;
    lua_pop(L, 1);
    push_func_lj(L, opt_func(opt_get(h->opts, "agg"), "init"));
    lua_call(L, 0, 1);
}

static int
custom_add(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_CUSTOM);
    struct script_process *sp = h->sp;
    const struct opt *agg = opt_get(h->opts, "agg"), *arg;
    struct err e;
    int n = 0;

    lua_settop(L, 2);
    if (!passes_lj(L, agg))
        return 0;
    push_func_lj(L, opt_func(agg, "add"));
    push_acc_lj(L, h);
    arg = opt_get(agg, "args");
    if (arg == NULL || arg->len == 0) {
        lua_pushvalue(L, 2);
        n = 1;
    } else {
        for (arg = arg->first; arg != NULL; arg = arg->next, n++)
            push_arg_lj(L, arg);
    }
    lua_call(L, n + 1, 1);
    if (lua_isnil(L, -1))
        return fail_lj(L, h, "add returned nil; return the accumulator");
    buf_clear(&sp->bytes);
    if (pack_put(sp->c, L, -1, &sp->bytes, &e) != 0 ||
        kstate_value_set(sp->conf.state, h->h, sp->bytes.data, sp->bytes.len,
                         &e) != 0)
        return fail_lj(L, h, e.msg);
    return 0;
}

static int
custom_get(lua_State *L)
{
    const struct state_handle *h = handle_lj(L, STATE_CUSTOM);

    push_func_lj(L, opt_func(opt_get(h->opts, "agg"), "result"));
    push_acc_lj(L, h);
    lua_call(L, 1, 1);
    return 1;
}

static int
custom_clear(lua_State *L)
{
    return clear_lj(L, STATE_CUSTOM);
}

/* ---- making them ---- */

static enum state_kind
kind_of(const struct opt *handle)
{
    static const char *const names[] = {"value", "list", "map", "reducing"};
    const char *kind = opt_str(handle, "kind", "");
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(kind, names[i]) == 0)
            return (enum state_kind)i;
    return opt_is(opt_get(handle, "agg"), "fn", "custom") ? STATE_CUSTOM
                                                          : STATE_AGGREGATING;
}

/* Set the metatable of the userdata on top: methods found in a table. */
static void
set_methods_lj(lua_State *L, enum state_kind kind)
{
    static const luaL_Reg methods[STATE_KINDS][8] = {
        {{"get", value_get},
         {"set", value_set},
         {"clear", value_clear},
         {NULL, NULL}},
        {{"add", list_add},
         {"get", list_get},
         {"update", list_update},
         {"clear", list_clear},
         {NULL, NULL}},
        {{"get", map_get},
         {"put", map_put},
         {"has", map_has},
         {"remove", map_remove},
         {"pairs", map_pairs},
         {"clear", map_clear},
         {NULL, NULL}},
        {{"add", reducing_add},
         {"get", reducing_get},
         {"clear", reducing_clear},
         {NULL, NULL}},
        {{"add", aggregating_add},
         {"get", aggregating_get},
         {"clear", aggregating_clear},
         {NULL, NULL}},
        {{"add", custom_add},
         {"get", custom_get},
         {"clear", custom_clear},
         {NULL, NULL}},
    };
    static const char *const names[] = {
        "streamlua.value_state", "streamlua.list_state",
        "streamlua.map_state",   "streamlua.reducing_state",
        "streamlua.aggregating", "streamlua.custom_aggregating"};

    if (luaL_newmetatable(L, names[kind])) {
        lua_newtable(L);
        luaL_setfuncs(L, methods[kind], 0);
        lua_setfield(L, -2, "__index");
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
        lua_pushliteral(L, "state");
        lua_setfield(L, -2, "__name");
    }
    (void)lua_setmetatable(L, -2);
}

static int
state_newindex(lua_State *L)
{
    return luaL_error(L, "ctx.state cannot be assigned to; use the set, put "
                         "or add of a handle");
}

/* Upvalue: the names that there are. */
static int
state_unknown(lua_State *L)
{
    return luaL_error(L, "no state \"%s\"; the step has: %s",
                      luaL_tolstring(L, 2, NULL),
                      lua_tostring(L, lua_upvalueindex(1)));
}

/* The table of handles behind ctx.state, with names that are missing told. */
static void
push_handles_lj(lua_State *L, struct script_process *sp)
{
    const struct opt *list = opt_get(sp->conf.opts, "state"), *o;
    uint32_t i = 0;
    struct buf names;

    buf_init(&names);
    lua_createtable(L, 0, (int)sp->conf.handle_count);
    for (o = list != NULL ? list->first : NULL; o != NULL; o = o->next, i++) {
        enum state_kind kind = kind_of(o);
        struct state_handle *h = lua_newuserdatauv(L, sizeof *h, 0);

        *h = (struct state_handle){
            .magic = &state_magic[kind], .sp = sp, .h = i, .opts = o};
        sp->handles[i] = h;
        set_methods_lj(L, kind);
        lua_setfield(L, -2, opt_str(o, "name", ""));
        buf_addf(&names, "%s%s", i > 0 ? ", " : "", opt_str(o, "name", ""));
    }
    lua_createtable(L, 0, 1);
    (void)lua_pushlstring(L, i > 0 ? names.data : "none",
                          i > 0 ? names.len : 4);
    buf_fini(&names);
    lua_pushcclosure(L, state_unknown, 1);
    lua_setfield(L, -2, "__index");
    (void)lua_setmetatable(L, -2);
}

void
states_push_lj(lua_State *L, struct script_process *sp)
{
    (void)lua_newuserdatauv(L, 1, 0);
    lua_createtable(L, 0, 4);
    push_handles_lj(L, sp);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, state_newindex);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushliteral(L, "state");
    lua_setfield(L, -2, "__name");
    (void)lua_setmetatable(L, -2);
}
