/*
 * Laws of custom aggregators (API.md section 6): result(add-all) equals
 * result(merge of parts), merge is commutative and associative, init is
 * neutral. Tried at load on samples and generated values, and by agg.c on
 * the first real records. The tests themselves are Lua, since all they do is
 * call Lua functions and compare what these give.
 */
#include <stdio.h>
#include <string.h>

#include "script/calls_impl.h"

static const char law_source[] =
    "local record, show, plain, fold = ...\n"
    "local abs, max, mtype = math.abs, math.max, math.type\n"
    "local unpack, pairs, ipairs, pcall = table.unpack, pairs, ipairs, pcall\n"
    "local type, tostring = type, tostring\n"
    "\n"
    "-- The largest magnitude in a result: what rounding is measured by.\n"
    "local function size(v)\n"
    "  if type(v) == 'number' then\n"
    "    v = abs(v)\n"
    "    return v < math.huge and v or 0\n"
    "  end\n"
    "  local m = 0\n"
    "  if type(v) == 'table' then\n"
    "    for _, x in pairs(v) do m = max(m, size(x)) end\n"
    "  end\n"
    "  return m\n"
    "end\n"
    "\n"
    "local function near(a, b, scale)\n"
    "  if a == b then return true end\n"
    "  if type(a) == 'number' and type(b) == 'number' then\n"
    "    if a ~= a or b ~= b then return a ~= a and b ~= b end\n"
    "    if mtype(a) == 'integer' and mtype(b) == 'integer' then\n"
    "      return false\n"
    "    end\n"
    "    return abs(a - b) <= 1e-9 * max(abs(a), abs(b), scale)\n"
    "  end\n"
    "  if type(a) ~= 'table' or type(b) ~= 'table' then return false end\n"
    "  for k, v in pairs(a) do\n"
    "    if not near(v, b[k], scale) then return false end\n"
    "  end\n"
    "  for k in pairs(b) do\n"
    "    if a[k] == nil then return false end\n"
    "  end\n"
    "  return true\n"
    "end\n"
    "\n"
    "-- nil if the laws hold for inputs 1..n, false if add raises on them,\n"
    "-- else the counter-example.\n"
    "local function try(f, inputs, n, nargs, splits)\n"
    "  local function fold(i, j)\n"
    "    local acc = f.init()\n"
    "    for k = i, j do\n"
    "      local x = inputs[k]\n"
    "      if nargs == 0 then acc = f.add(acc, x)\n"
    "      else acc = f.add(acc, unpack(x, 1, nargs)) end\n"
    "    end\n"
    "    return acc\n"
    "  end\n"
    "  local function part(i, j)\n"
    "    return function() return f.result(fold(i, j)) end\n"
    "  end\n"
    "  local function differ(lname, left, rname, right, scale)\n"
    "    local rok, r = pcall(right)\n"
    "    if not rok then return end\n"
    "    local lok, l = pcall(left)\n"
    "    if not lok then\n"
    "      return lname .. ' raises ' .. tostring(l) .. ', ' .. rname ..\n"
    "             ' = ' .. show(r)\n"
    "    end\n"
    "    if near(l, r, scale) then return end\n"
    "    return lname .. ' = ' .. show(l) .. ', ' .. rname .. ' = ' .. "
    "show(r)\n"
    "  end\n"
    "  local function extent(...)\n"
    "    local m = 0\n"
    "    for _, p in ipairs { ... } do\n"
    "      local ok, r = pcall(p)\n"
    "      if ok then m = max(m, size(r)) end\n"
    "    end\n"
    "    return m\n"
    "  end\n"
    "  local merge, result, init = f.merge, f.result, f.init\n"
    "  if not pcall(fold, 1, n) then return false end\n"
    "  local bad = differ('merge(init, x)', function()\n"
    "      return result(merge(init(), fold(1, n)))\n"
    "    end, 'x', part(1, n), 0)\n"
    "    or differ('merge(x, init)', function()\n"
    "      return result(merge(fold(1, n), init()))\n"
    "    end, 'x', part(1, n), 0)\n"
    "  if bad then return bad end\n"
    "  for _, i in ipairs(splits) do\n"
    "    if i >= 1 and i < n then\n"
    "      local scale = extent(part(1, i), part(i + 1, n))\n"
    "      local function ab()\n"
    "        return result(merge(fold(1, i), fold(i + 1, n)))\n"
    "      end\n"
    "      local function ba()\n"
    "        return result(merge(fold(i + 1, n), fold(1, i)))\n"
    "      end\n"
    "      local k = (i + n + 1) // 2\n"
    "      bad = differ('merge of two parts', ab, 'all added to one',\n"
    "                   part(1, n), scale)\n"
    "        or differ('merge(a, b)', ab, 'merge(b, a)', ba, scale)\n"
    "        or k > i and k < n and differ('merge(merge(a, b), c)',\n"
    "          function()\n"
    "            return result(merge(merge(fold(1, i), fold(i + 1, k)),\n"
    "                                fold(k + 1, n)))\n"
    "          end, 'merge(a, merge(b, c))', function()\n"
    "            return result(merge(fold(1, i),\n"
    "                          merge(fold(i + 1, k), fold(k + 1, n))))\n"
    "          end, scale)\n"
    "      if bad then return bad end\n"
    "    end\n"
    "  end\n"
    "end\n"
    "\n"
    "local function newest(f, inputs, nargs)\n"
    "  local n = #inputs\n"
    "  return try(f, inputs, n, nargs, { n - 1, n // 2 })\n"
    "end\n"
    "\n"
    "local function try_all(f, inputs, nargs)\n"
    "  local done = {}\n"
    "  for _, n in ipairs { 1, 2, 3, 5, 8, #inputs } do\n"
    "    if n <= #inputs and not done[n] then\n"
    "      done[n] = true\n"
    "      local splits = {}\n"
    "      for i = 1, n - 1 do\n"
    "        if n <= 8 or i == 1 or i == n // 2 or i == n - 1 then\n"
    "          splits[#splits + 1] = i\n"
    "        end\n"
    "      end\n"
    "      local bad = try(f, inputs, n, nargs, splits)\n"
    "      if bad ~= nil then return bad end\n"
    "    end\n"
    "  end\n"
    "end\n"
    "\n"
    "-- Deterministic values: small ints, multiples of 0.25, nil.\n"
    "local function generate(nargs, round)\n"
    "  local x = 12345 + round\n"
    "  local function draw(n)\n"
    "    x = (x * 1103515245 + 12345) % 2147483648\n"
    "    return (x >> 8) % n\n"
    "  end\n"
    "  local list = {}\n"
    "  for i = 1, 6 do\n"
    "    local args = {}\n"
    "    for k = 1, nargs do\n"
    "      local kind = draw(8)\n"
    "      if kind >= 5 then args[k] = draw(4194304) * 0.25\n"
    "      elseif kind >= 1 then args[k] = draw(19) - 9 end\n"
    "    end\n"
    "    list[i] = args\n"
    "  end\n"
    "  return list\n"
    "end\n"
    "\n"
    "-- true if tested and right, the counter-example, or nil: not tested.\n"
    "local function at_load(f, samples, args)\n"
    "  local nargs, tested = #args, nil\n"
    "  if samples then\n"
    "    local inputs = {}\n"
    "    for i, sample in ipairs(samples) do\n"
    "      local r = record(sample)\n"
    "      if nargs == 0 then\n"
    "        inputs[i] = r\n"
    "      else\n"
    "        local list = {}\n"
    "        for k, a in ipairs(args) do\n"
    "          local v\n"
    "          if type(a) == 'function' then v = a(r) else v = r[a] end\n"
    "          if type(v) == 'userdata' then v = plain(v) end\n"
    "          list[k] = v\n"
    "        end\n"
    "        inputs[i] = list\n"
    "      end\n"
    "    end\n"
    "    local bad = try_all(f, inputs, nargs)\n"
    "    if bad then return bad end\n"
    "    if bad == nil and #inputs > 0 then tested = true end\n"
    "  end\n"
    "  if nargs == 0 then return tested end\n"
    "  local lists = {}\n"
    "  for round = 1, 8 do\n"
    "    local list = generate(nargs, round)\n"
    "    local ok = pcall(function()\n"
    "      local acc = f.init()\n"
    "      for _, x in ipairs(list) do\n"
    "        acc = f.add(acc, unpack(x, 1, nargs))\n"
    "      end\n"
    "    end)\n"
    "    if not ok then return tested end\n"
    "    lists[round] = list\n"
    "  end\n"
    "  for _, list in ipairs(lists) do\n"
    "    local bad = try_all(f, list, nargs)\n"
    "    if bad then return bad end\n"
    "  end\n"
    "  return true\n"
    "end\n"
    "\n"
    "-- The functions of an aggregator that does what reduce(f) does.\n"
    "local function reducer(f)\n"
    "  local function both(a, b)\n"
    "    if a == nil then return b end\n"
    "    if b == nil then return a end\n"
    "    return fold(f, a, b)\n"
    "  end\n"
    "  return { init = function() end, add = both, merge = both,\n"
    "           result = function(a) return plain(a) end }\n"
    "end\n"
    "\n"
    "return newest, at_load, reducer\n";

/* Push an owned, read-only record of a sample table. */
static int
sample_record_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct lrec *lr;
    struct rec r;
    struct err e;
    bool ext = false;

    memset(&r, 0, sizeof r);
    r.kind = REC_OBJECT;
    buf_clear(&c->buf);
    if (conv_put(c, L, 1, &c->buf, &ext, &e) != 0)
        return calls_raise_lj(L, &e);
    if (c->buf.data[0] != '{')
        return luaL_error(L, "a sample is a table with named fields");
    r.val = c->buf.data;
    r.val_len = (uint32_t)c->buf.len;
    r.flags = (uint8_t)(REC_OWNED | (ext ? REC_EXT : 0u));
    lr = record_push_owned_lj(L, &r);
    lr->fresh = true;
    lr->readonly = true;
    return 1;
}

/* A value as JSON, short. */
static int
show_lj(lua_State *L)
{
    enum { SHOWN = 60 };
    struct calls *c = calls_of(L);
    struct err e;
    bool ext = false;

    lua_settop(L, 1);
    buf_clear(&c->buf);
    if (conv_put(c, L, 1, &c->buf, &ext, &e) != 0)
        lua_pushstring(L, luaL_typename(L, 1));
    else if (c->buf.len > SHOWN)
        lua_pushfstring(L, "%s...", (c->buf.data[SHOWN] = '\0', c->buf.data));
    else
        (void)lua_pushlstring(L, c->buf.data, c->buf.len);
    return 1;
}

static int
plain_lj(lua_State *L)
{
    struct calls *c = calls_of(L);
    struct val v;
    struct err e;
    bool ext = false;

    buf_clear(&c->buf);
    if (conv_put(c, L, 1, &c->buf, &ext, &e) != 0 ||
        json_value(c->buf.data, c->buf.len, BIGINT_STRING, &c->tmp, &v, &e) !=
            0 ||
        conv_push_lj(c, L, &v, BIGINT_STRING, true, &e) != 0)
        return calls_raise_lj(L, &e);
    return 1;
}

void
law_open_lj(struct calls *c, lua_State *L)
{
    if (luaL_loadbufferx(L, law_source, sizeof law_source - 1, "=streamlua.law",
                         "t") != LUA_OK)
        (void)lua_error(L);
    lua_pushcfunction(L, sample_record_lj);
    lua_pushcfunction(L, show_lj);
    lua_pushcfunction(L, plain_lj);
    lua_pushcfunction(L, reduce_fold_lj);
    lua_call(L, 4, 3);
    c->law_reduce_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    c->law_load_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    c->law_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* Build the table of the aggregator's functions. */
static int
functions_lj(lua_State *L)
{
    const struct law *l = lua_touserdata(L, 1);
    const struct {
        const char *name;
        int func;
    } funcs[] = {{"init", l->init},
                 {"add", l->add},
                 {"merge", l->merge},
                 {"result", l->result}};
    size_t i;

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, script_of(L)->funcs_ref);
    if (l->reduce != 0) {
        (void)lua_rawgeti(L, LUA_REGISTRYINDEX, calls_of(L)->law_reduce_ref);
        (void)lua_rawgeti(L, -2, l->reduce);
        lua_call(L, 1, 1);
        return 1;
    }
    lua_createtable(L, 0, 4);
    for (i = 0; i < sizeof funcs / sizeof funcs[0]; i++) {
        (void)lua_rawgeti(L, -2, funcs[i].func);
        lua_setfield(L, -2, funcs[i].name);
    }
    return 1;
}

/* Push the function table. @return false without memory for it. */
static bool
push_functions(struct calls *c, const struct law *l)
{
    struct err e;

    lua_pushcfunction(c->s->L, functions_lj);
    lua_pushlightuserdata(c->s->L, (void *)(uintptr_t)l);
    return calls_call(c, 1, 1, &e) == 0;
}

/* Copy the text at the top, if it is one. */
static void
take_text(lua_State *L, char text[LAW_TEXT_MAX])
{
    if (lua_type(L, -1) == LUA_TSTRING)
        (void)snprintf(text, LAW_TEXT_MAX, "%s", lua_tostring(L, -1));
}

void
law_test_newest(struct calls *c, const struct law *l, char text[LAW_TEXT_MAX])
{
    lua_State *L = calls_stack(c);
    struct err e;
    int inputs = lua_gettop(L);

    text[0] = '\0';
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->law_ref);
    if (!push_functions(c, l))
        return;
    lua_pushvalue(L, inputs);
    lua_pushinteger(L, l->nargs);
    if (calls_call(c, 3, 1, &e) == 0) {
        take_text(L, text);
        lua_settop(L, inputs - 1);
    }
}

/* ---- on real records ---- */

struct law_input {
    struct law_feed *f;
    const struct val *args;
    const struct rec *rec;
};

static void
push_arg_lj(lua_State *L, struct calls *c, const struct law_input *in,
            const struct val *v)
{
    struct err e;

    if (v->type != VAL_LIST && v->type != VAL_MAP) {
        record_push_scalar_lj(L, v, false);
        return;
    }
    arena_reset(&c->tmp);
    if (conv_push_lj(c, L, v, json_bigint_of(in->rec), true, &e) != 0)
        (void)luaL_error(L, "%s", e.msg);
}

/* Add the record to the list of inputs that the laws are tested on. */
static int
keep_input_lj(lua_State *L)
{
    const struct law_input *in = lua_touserdata(L, 1);
    struct law_feed *f = in->f;
    uint32_t i;

    if (f->inputs_ref == 0) {
        lua_newtable(L);
        f->inputs_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, f->inputs_ref);
    if (f->law.nargs == 0) {
        record_push_owned_lj(L, in->rec)->readonly = true;
    } else {
        lua_createtable(L, (int)f->law.nargs, 0);
        for (i = 0; i < f->law.nargs; i++) {
            push_arg_lj(L, calls_of(L), in, &in->args[i]);
            lua_rawseti(L, -2, i + 1);
        }
    }
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    return 0;
}

void
law_feed_forget(struct calls *c, struct law_feed *f)
{
    if (f->inputs_ref != 0)
        luaL_unref(c->s->L, LUA_REGISTRYINDEX, f->inputs_ref);
    f->inputs_ref = 0;
}

int
law_feed_test(struct calls *c, struct law_feed *f, const struct val *args,
              const struct rec *r, struct err *e)
{
    struct law_input in = {.f = f, .args = args, .rec = r};
    lua_State *L = calls_stack(c);
    char text[LAW_TEXT_MAX];
    struct err ignored;

    lua_pushcfunction(L, keep_input_lj);
    lua_pushlightuserdata(L, &in);
    if (calls_call(c, 1, 0, &ignored) != 0) {
        f->on = false;
        return 0;
    }
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, f->inputs_ref);
    law_test_newest(c, &f->law, text);
    if (++f->seen >= f->max) {
        law_feed_forget(c, f);
        f->on = false;
    }
    if (text[0] == '\0')
        return 0;
    (void)err_set(e, ERR_FAIL, "aggregator %s broke a law on real records: %s",
                  f->name, text);
    err_where(e, "%s", f->place);
    if (f->law.reduce != 0)
        err_hint(e, "the function of reduce must give the same whatever the "
                    "order and grouping of the records");
    else
        err_hint(e, "give the aggregator samples = { records like these }, so "
                    "that the law is tested at load and the step runs in one "
                    "phase, or mend merge");
    return ERR_FAIL;
}

/* ---- at load ---- */

struct law_load {
    const struct law *l;
    const struct opt *agg;
};

/* Arguments: the struct law_load. Returns what at_load() does. */
static int
load_one_lj(lua_State *L)
{
    const struct law_load *w = lua_touserdata(L, 1);
    struct calls *c = calls_of(L);
    const struct opt *arg = opt_get(w->agg, "args");
    int samples = opt_func(w->agg, "samples");
    lua_Integer n = 0;

    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->s->funcs_ref); /* 2 */
    (void)lua_rawgeti(L, LUA_REGISTRYINDEX, c->law_load_ref);
    lua_pushcfunction(L, functions_lj);
    lua_pushlightuserdata(L, (void *)(uintptr_t)w->l);
    lua_call(L, 1, 1);
    if (samples > 0)
        (void)lua_rawgeti(L, 2, samples);
    else
        lua_pushnil(L);
    lua_newtable(L);
    for (arg = arg == NULL ? NULL : arg->first; arg != NULL; arg = arg->next) {
        if (opt_func(arg, "func") > 0)
            (void)lua_rawgeti(L, 2, opt_func(arg, "func"));
        else
            lua_pushstring(L, opt_str(arg, "field", ""));
        lua_rawseti(L, -2, ++n);
    }
    lua_call(L, 3, 1);
    return 1;
}

/* Note the outcome at the aggregate: law = { ok, text }. */
static void
note_law(struct script *s, const struct opt *agg, const char *text)
{
    struct opt *law = opt_new_map(&s->arena), *ok = opt_new(&s->arena);

    ok->type = OPT_BOOL;
    ok->i = text[0] == '\0';
    opt_add(&s->arena, law, "ok", ok);
    opt_add(&s->arena, law, "text", opt_new_str(&s->arena, text, strlen(text)));
    /* The tree belongs to this script, which is being loaded. */
    opt_add(&s->arena, (struct opt *)(uintptr_t)agg, "law", law);
}

static int
test_one(struct script *s, const struct opt *agg, struct err *e)
{
    struct calls *c = s->calls;
    lua_State *L = calls_stack(c);
    const struct opt *args = opt_get(agg, "args");
    struct law l = {.init = opt_func(agg, "init"),
                    .add = opt_func(agg, "add"),
                    .merge = opt_func(agg, "merge"),
                    .result = opt_func(agg, "result"),
                    .nargs = args == NULL ? 0 : (uint32_t)args->len};
    struct law_load w = {&l, agg};
    char text[LAW_TEXT_MAX] = "";
    int r;

    if (l.merge == 0 || opt_get(agg, "law") != NULL)
        return 0;
    lua_pushcfunction(L, load_one_lj);
    lua_pushlightuserdata(L, &w);
    r = calls_call(c, 1, 1, e);
    if (r != 0) {
        e->code = ERR_JOBFILE;
        e->cause = CAUSE_NONE;
        if (e->where[0] == '\0')
            err_where(e, "%s", opt_str(agg, "place", ""));
        return ERR_JOBFILE;
    }
    take_text(L, text);
    if (!lua_isnil(L, -1))
        note_law(s, agg, text);
    lua_pop(L, 1);
    return 0;
}

int
script_test_laws(struct script *s, struct err *e)
{
    const struct opt *steps = opt_get(s->job, "steps"), *step, *agg;
    int r = 0;

    script_watch_load(s, true);
    for (step = steps == NULL ? NULL : steps->first; step != NULL;
         step = step->next) {
        agg = opt_get(step, "aggs");
        for (agg = agg == NULL ? NULL : agg->first; agg != NULL && r == 0;
             agg = agg->next)
            if (opt_is(agg, "fn", "custom"))
                r = test_one(s, agg, e);
    }
    script_watch_load(s, false);
    return r;
}
