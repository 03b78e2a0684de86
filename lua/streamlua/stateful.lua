-- Keyed steps beside aggregate: process, reduce, dedup, top_n, connect; and
-- split. steps.lua hands in what it shares and takes the methods.
local check = require "streamlua.check"
local fail, expected = check.fail, check.expected

local M = {}

-- Outputs -----------------------------------------------------------------

-- Names of outputs beside "main": a list, not empty, no name twice.
function M.outputs(place, kind, what, list)
  if type(list) ~= "table" or check.kind(list) or #list == 0 then
    expected(place, kind, what, 'a list of names such as { "alerts" }', list)
  end
  local out, seen = check.list(), {}
  for k in pairs(list) do
    if math.type(k) ~= "integer" or k < 1 or k > #list then
      fail(place, kind, "%s: unexpected key %s; it is a list of names", what, check.got(k))
    end
  end
  for i = 1, #list do
    local name = M.output(place, kind, ("%s: entry %d"):format(what, i), list[i])
    if seen[name] then fail(place, kind, '%s: the name "%s" is used twice', what, name) end
    seen[name] = true
    out[i] = name
  end
  return out
end

-- One name of an output: "main" and "quarantine" are the engine's.
function M.output(place, kind, what, name)
  if not check.is_name(name) then
    expected(place, kind, what, "a name (letters, digits, _ and -, at most 64)", name)
  end
  if name == "main" or name == "quarantine" then
    fail(place, kind, '%s: the name "%s" is reserved', what, name)
  end
  return name
end

-- State -------------------------------------------------------------------

local function one_handle(job, place, name, h)
  if check.kind(h) ~= "state handle" then
    expected(place, "process", ("state: %s"):format(name), "a state handle such as s.value_state()", h)
  end
  local d = {}
  for k, v in pairs(check.data(h)) do d[k] = v end
  d.name = name
  if d.ttl_ms == nil then d.ttl_ms = job.options.state.ttl_ms end
  for _, o in ipairs { "ttl_clock", "ttl_update" } do
    if d[o] and d.ttl_ms < 0 then
      fail(d.place, d.kind .. "_state", 'option "%s" needs a ttl', o)
    end
  end
  d.ttl_update = d.ttl_update or "write"
  if d.agg then
    local a = {}
    for k, v in pairs(d.agg) do a[k] = v end
    a.name = name
    if a.fn == "custom" then a.label = name end
    d.agg = a
  end
  return d
end

local function handles(job, place, t)
  local out = check.list()
  if t == nil then return out end
  if type(t) ~= "table" or check.kind(t) then
    expected(place, "process", 'option "state"', "a table { name = handle }", t)
  end
  local names = {}
  for k in pairs(t) do
    if not check.is_name(k) then
      fail(place, "process", "state: handles have names (letters, digits, _ and -, at most 64), got %s", check.got(k))
    end
    names[#names + 1] = k
  end
  table.sort(names)
  if #names > 128 then fail(place, "process", "state: at most 128 handles, got %d", #names) end
  for i, name in ipairs(names) do out[i] = one_handle(job, place, name, t[name]) end
  return out
end

-- Where the source text of `f` says register_event_timer, or nil: timers of
-- event time need it, and `check` can say so before a record does.
local function says_event_timer(f)
  local text, line = check.host.source(f)
  if not text then return end
  text = text:gsub("(%-%-%[(=*)%[.-%]%2%])", function(comment) return (comment:gsub("[^\n]", "")) end)
  for l in (text .. "\n"):gmatch "(.-)\n" do
    l = l:gsub('"[^"]*"', '""'):gsub("'[^']*'", "''"):gsub("%-%-.*$", "")
    if l:find "%f[%w_]register_event_timer%f[^%w_]" then return check.host.file .. ":" .. line end
    line = line + 1
  end
end

-- Options that belong to another kind of process, with what to do.
local function misplaced(place, t, kind)
  if type(t) ~= "table" or check.kind(t) then return end
  local belongs = {
    on_window = { "process_window", "a windowed stream; put :window(…) before process" },
    on_left = { "process_both", "connected streams: a:connect(b):process { … }" },
    on_right = { "process_both", "connected streams: a:connect(b):process { … }" },
    on_record = { "process", kind == "process_window" and "a keyed stream; on a windowed one it is on_window"
      or "one keyed stream; connected streams have on_left and on_right" },
  }
  for _, o in ipairs { "on_window", "on_left", "on_right", "on_record" } do
    if t[o] ~= nil and kind ~= belongs[o][1] then
      fail(place, "process", "%s belongs to %s", o, belongs[o][2])
    end
  end
  for _, o in ipairs { "on_timer", "state" } do
    if t[o] ~= nil and kind == "process_window" then
      fail(place, "process", "%s belongs to a keyed stream without window", o)
    end
  end
end

local function options(place, t, kind)
  misplaced(place, t, kind)
  local opts = check.options(place, "process", t, kind)
  if opts.outputs ~= nil then opts.outputs = M.outputs(place, "process", 'option "outputs"', opts.outputs) end
  return opts
end

-- The functions of a process, its state, its outputs.
local function process_fields(d, place, opts, names)
  local fields = { key = d.key, key_place = d.key_place or d.place, on_null = d.on_null or "skip",
    state = handles(d.job, place, opts.state), outputs = opts.outputs or check.list(), on_timer = opts.on_timer }
  for _, name in ipairs(names) do
    fields[name] = opts[name]
    fields.event_timer_place = fields.event_timer_place or opts[name] and says_event_timer(opts[name])
  end
  return fields
end

-- The methods -------------------------------------------------------------

-- `kit`: step, take, watch, stream, add, func, windowed, key_text of
-- steps.lua; `mt` its metatables; `str`, `keyed`, `windowed`, `connected` get
-- the methods.
function M.add(kit, mt, str, keyed, windowed, connected)
  local step = kit.step

  function keyed.process(d, place, _, t)
    local opts = options(place, t, "process")
    return step(d, "process", place, opts, process_fields(d, place, opts, { "on_record", "on_timer" }))
  end

  function connected.process(d, place, _, t)
    local opts = options(place, t, "process_both")
    local fields = process_fields(d, place, opts, { "on_left", "on_right", "on_timer" })
    fields.right = d.right
    return step(d, "process", place, opts, fields)
  end

  function keyed.connect(d, place, _, other)
    if check.kind(other) ~= "keyed" then
      expected(place, "connect", "first argument", "a keyed stream", other)
    end
    local o = check.data(other)
    if #d.key ~= #o.key then
      fail(place, "connect", "the keys differ in shape: %s (%s), %s (%s)", kit.key_text(d.key), d.place,
        kit.key_text(o.key), o.place)
    end
    local inputs = kit.take(d)
    for _, x in ipairs(kit.take(o)) do
      x.side = "right"
      inputs[#inputs + 1] = x
    end
    return kit.watch(check.new("connected", { job = d.job, inputs = inputs, key = d.key, key_place = d.place,
      on_null = d.on_null, right = { key = o.key, key_place = o.place, on_null = o.on_null or "skip" } },
      mt.connected), "connect", place)
  end

  -- Options of what has one aggregate: the step's own, and none of a window
  -- that has no meaning for it.
  local function one(d, place, kind, opts, agg, rows)
    if d.window and d.window_fields ~= nil and rows ~= "ranked" then
      fail(d.window.place, "window", 'option "window_fields" belongs to aggregate and top_n, here is %s', kind)
    end
    opts.name = opts.name or d.name
    agg.name, agg.fn, agg.place = kind == "process" and "window" or kind, agg.fn or kind, place
    local fields = kit.windowed(d, place)
    fields.rows, fields.aggs = rows, check.list { agg }
    return step(d, "aggregate", place, opts, fields, kind)
  end

  function windowed.process(d, place, _, t)
    local opts = options(place, t, "process_window")
    local fields = { fn = "records", func = opts.on_window, args = check.list() }
    local outputs = opts.outputs
    if outputs and d.late_output then
      for _, name in ipairs(outputs) do
        if name == d.late_output then
          fail(place, "process", 'option "outputs": "%s" is the late output of the window (%s)', name, d.window.place)
        end
      end
    end
    local out = one(d, place, "process", opts, fields, "window")
    d.job.steps[#d.job.steps].outputs = outputs or check.list()
    return out
  end

  local function reduce(d, place, _, f, o)
    kit.func(place, "reduce", f)
    return one(d, place, "reduce", check.options(place, "reduce", o, "step"), { func = f, args = check.list() }, "record")
  end
  keyed.reduce, windowed.reduce = reduce, reduce

  function windowed.top_n(d, place, _, t)
    local opts = check.options(place, "top_n", t, "top_n")
    local agg = { n = opts.n, desc = opts.order ~= "asc", ties = opts.ties or false,
      args = check.list { check.ref(place, "top_n", 'option "by"', opts.by) } }
    return one(d, place, "top_n", opts, agg, "ranked")
  end

  function keyed.dedup(d, place, _, t)
    if t == nil or type(t) == "table" and not check.kind(t) and t.ttl == nil then
      fail(place, "dedup", 'missing required option "ttl": how long a key is remembered, or false for ever')
    end
    local opts = check.options(place, "dedup", t, "dedup")
    return step(d, "dedup", place, opts, { key = d.key, key_place = d.place, on_null = d.on_null or "skip",
      keep = opts.keep or "first", ttl_ms = opts.ttl_ms })
  end

  function str.split(d, place, _, f, list, o)
    kit.func(place, "split", f)
    local outputs = M.outputs(place, "split", "second argument", list)
    local opts = check.options(place, "split", o, "step")
    local index = kit.add(d.job, { func = f, names = outputs, inputs = kit.take(d) }, "split", place, opts)
    local out = {}
    for _, name in ipairs(outputs) do
      out[name] = kit.watch(kit.stream(d.job, check.list { { step = index, output = name, rebalance = false } }),
        "split", place, ('the output "%s" reaches no sink'):format(name))
    end
    return setmetatable(out, { __metatable = false, __index = function(_, name)
      check.unknown(check.where(), "split", "output", name, outputs)
    end, __newindex = function() error(check.where() .. ": the outputs of split cannot be assigned to", 0) end })
  end
end

return M
