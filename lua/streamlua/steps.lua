-- Streams and their steps. A method is looked up by name and called a moment
-- later; the look-up happens on the line of the name itself, also inside a
-- long chain (a call reports the line where the chain begins), so the place
-- of a step is taken there.
local check = require "streamlua.check"
local connectors = require "streamlua.connectors"
local stateful = require "streamlua.stateful"
local fail, expected, where = check.fail, check.expected, check.where

local M = {}
local mt = {} -- kind -> metatable

-- Steps -----------------------------------------------------------------

-- Add a step to the job; returns its number. `said`: what the job file
-- calls it, if that is not its kind in the tree.
local function add(job, step, kind, place, opts, name, said)
  said = said or kind
  local n = (job.counts[said] or 0) + 1
  job.counts[said] = n
  step.kind, step.place = kind, place
  step.name, step.auto = name or opts.name or said .. "-" .. n, not (name or opts.name)
  step.parallelism, step.slot_sharing_group = opts.parallelism, opts.slot_sharing_group
  step.chaining, step.on_error = opts.chaining, opts.on_error
  local other = job.names[step.name]
  if other then
    fail(place, said, 'the name "%s" is already used (%s)%s', step.name, other,
      step.auto and "; give this step a name" or "")
  end
  job.names[step.name] = place
  job.steps[#job.steps + 1] = step
  return #job.steps
end

local function stream(job, inputs)
  return check.new("stream", { job = job, inputs = inputs }, mt.stream)
end

local function after(job, index)
  return stream(job, check.list { { step = index, output = "main", rebalance = false } })
end

-- What key_by, window, union, rebalance and side_output give is no step, so
-- the plan cannot see when nobody reads it: it is watched here.
local function watch(object, kind, place, text)
  local d = check.data(object)
  d.watched = { kind = kind, place = place, used = false, text = text or "this stream reaches no sink" }
  d.job.watched[#d.job.watched + 1] = d.watched
  return object
end

local function used(d)
  if d.watched then d.watched.used = true end
  return d
end

-- At the end of the load: the first of them that leads nowhere.
function M.check_ends(d)
  for _, w in ipairs(d.watched) do
    if not w.used then fail(w.place, w.kind, w.text) end
  end
end

-- The inputs of whoever reads the stream `d`.
local function take(d)
  local out = check.list()
  for i, x in ipairs(used(d).inputs) do out[i] = { step = x.step, output = x.output, rebalance = x.rebalance, side = x.side } end
  return out
end

local function step(d, kind, place, opts, fields, said)
  fields.inputs = take(d)
  return after(d.job, add(d.job, fields, kind, place, opts, nil, said))
end

local function func(place, kind, f)
  if type(f) ~= "function" then expected(place, kind, "first argument", "a function", f) end
  return f
end

-- Methods: function(data, place, object, ...) ---------------------------

local job, str, keyed, windowed, connected = {}, {}, {}, {}, {}

local function step_name(place, kind, name)
  if not check.is_name(name) then
    expected(place, kind, "first argument", "a name (letters, digits, _ and -, at most 64)", name)
  end
  return name
end

local function named_options(place, kind, name, o)
  local opts = check.options(place, kind, o, "step")
  if opts.name and opts.name ~= name then
    fail(place, kind, 'the name is "%s" already; option "name" says "%s"', name, opts.name)
  end
  return opts
end

function job.source(d, place, _, name, spec, o)
  step_name(place, "source", name)
  local opts = named_options(place, "source", name, o)
  local kind, conn, on_error = connectors.use(place, "source", name, spec)
  opts.on_error = opts.on_error or on_error
  return after(d, add(d, { connector = kind, conn = conn }, "source", place, opts, name))
end

function str.sink(d, place, self, name, spec, o)
  step_name(place, "sink", name)
  local opts = named_options(place, "sink", name, o)
  local kind, conn, on_error = connectors.use(place, "sink", name, spec)
  opts.on_error = opts.on_error or on_error
  add(d.job, { connector = kind, conn = conn, inputs = take(d) }, "sink", place, opts, name)
  return self
end

local function with_function(kind)
  return function(d, place, _, f, o)
    func(place, kind, f)
    return step(d, kind, place, check.options(place, kind, o, "step"), { func = f })
  end
end
str.filter, str.map, str.flat_map = with_function "filter", with_function "map", with_function "flat_map"

local function columns(place, kind, t, reserved)
  return check.ordered(place, kind, t, function(what, v) return check.ref(place, kind, what, v) end, reserved)
end

function str.select(d, place, _, t, o)
  local cols = columns(place, "select", t)
  if #cols == 0 then fail(place, "select", "the table is empty") end
  return step(d, "select", place, check.options(place, "select", o, "step"), { cols = cols })
end

function str.event_time(d, place, _, o, more)
  local t = check.options(place, "event_time", o, "event_time")
  for k, v in pairs(check.options(place, "event_time", more, "step")) do
    if t[k] ~= nil then fail(place, "event_time", 'option "%s" is given twice', k) end
    t[k] = v
  end
  if t.field and t.func then fail(place, "event_time", "give field or func, not both") end
  if not t.field and t.unit then fail(place, "event_time", "option \"unit\" belongs to field") end
  check.defaults(t, { unit = "ms", out_of_orderness_ms = 0, idle_ms = 30000, all_idle_ms = -1, max_future_ms = -1 })
  return step(d, "event_time", place, t, t)
end

function str.rebalance(d, place, _, o)
  if o ~= nil then fail(place, "rebalance", "takes no options, got %s", check.got(o)) end
  local inputs = take(d)
  for _, x in ipairs(inputs) do x.rebalance = true end
  return watch(stream(d.job, inputs), "rebalance", place)
end

function str.union(d, place, _, ...)
  local inputs = take(d)
  local n = select("#", ...)
  if n == 0 then expected(place, "union", "first argument", "a stream", nil) end
  for i = 1, n do
    local other = select(i, ...)
    if check.kind(other) ~= "stream" then expected(place, "union", "argument " .. i, "a stream", other) end
    for _, x in ipairs(take(check.data(other))) do inputs[#inputs + 1] = x end
  end
  return watch(stream(d.job, inputs), "union", place)
end

function str.side_output(d, place, _, name)
  step_name(place, "side_output", name)
  local from = d.job.steps[d.inputs[1].step]
  local has, known = {}, false
  if #d.inputs == 1 and d.inputs[1].output == "main" then
    for i, x in ipairs(from.outputs or {}) do has[i] = x end
    has[#has + 1] = from.late_output
  end
  for _, x in ipairs(has) do known = known or x == name end
  if not known then
    fail(place, "side_output", 'step %s has no side output "%s"%s it has %s', from.name, name,
      check.names.hint(name, has, ";"), #has > 0 and '"' .. table.concat(has, '", "') .. '"' or "none")
  end
  return watch(stream(d.job, check.list { { step = d.inputs[1].step, output = name, rebalance = false } }),
    "side_output", place)
end

function str.key_by(d, place, _, what, o)
  local key
  if type(what) == "function" then
    key = check.list { { name = "key", func = what } }
  elseif type(what) == "string" then
    key = columns(place, "key_by", { what })
  elseif type(what) == "table" and not check.kind(what) then
    key = columns(place, "key_by", what)
  else
    expected(place, "key_by", "first argument", "a field, a table of fields or a function", what)
  end
  local opts = check.options(place, "key_by", o, "key_by")
  return watch(check.new("keyed", { job = d.job, inputs = take(d), key = key, place = place,
    on_null = opts.on_null }, mt.keyed), "key_by", place)
end

-- Options of a window that its kind has no use for are mistakes.
local function check_window(place, w, opts)
  local what = w.kind == "same" and "s.same()" or w.kind == "count" and "a count window"
    or w.clock == "processing" and 'clock = "processing"'
  for _, o in ipairs { "lateness", "late_output" } do
    if what and opts[o == "lateness" and "lateness_ms" or o] ~= nil then
      fail(place, "window", 'option "%s" has no meaning with %s: no record is late there', o, what)
    end
  end
  if opts.late_output then stateful.output(place, "window", 'option "late_output"', opts.late_output) end
  local f = opts.window_fields
  if f == nil then return end
  if w.kind == "global" or w.kind == "count" then
    fail(place, "window", 'option "window_fields": a %s window has no window fields', w.kind)
  end
  if f ~= false and (type(f) ~= "table" or check.kind(f) or #f ~= 2) then
    expected(place, "window", 'option "window_fields"', 'two names such as { "from", "to" }, or false', f)
  end
  for i = 1, f and 2 or 0 do
    if type(f[i]) ~= "string" or f[i] == "" then
      expected(place, "window", ("window_fields[%d]"):format(i), "a name", f[i])
    end
  end
  if f and f[1] == f[2] then fail(place, "window", 'window_fields: the name "%s" is used twice', f[1]) end
  opts.window_fields = f and check.list { f[1], f[2] }
end

-- The names of the window fields in rows, none if there are none.
local function window_names(fields)
  if fields == false then return end
  return fields and fields[1] or "window_start", fields and fields[2] or "window_end"
end

function keyed.window(d, place, _, spec, o)
  if check.kind(spec) ~= "window spec" then
    expected(place, "window", "first argument", 'a window spec such as s.tumbling "1m"', spec)
  end
  local w = {}
  for k, v in pairs(check.data(spec)) do w[k] = v end
  w.place = place
  local opts = check.options(place, "window", o, "window")
  check_window(place, w, opts)
  if w.kind ~= "global" and w.kind ~= "count" then
    local from, to = window_names(opts.window_fields)
    for _, c in ipairs(d.key) do
      if c.name == from or c.name == to then
        fail(d.place, "key_by", 'the name "%s" is reserved', c.name)
      end
    end
  end
  return watch(check.new("windowed", { job = d.job, inputs = used(d).inputs, key = d.key, key_place = d.place,
    on_null = d.on_null, window = w, lateness_ms = opts.lateness_ms or 0, late_output = opts.late_output,
    window_fields = opts.window_fields, name = opts.name }, mt.windowed), "window", place)
end

-- What every step with a window, or none, has in common.
local function window_parts(d, place)
  local fields = { key = d.key, key_place = d.key_place or d.place, on_null = d.on_null or "skip",
    window = d.window, lateness_ms = d.lateness_ms or 0, late_output = d.late_output, window_fields = d.window_fields }
  if not d.window then
    fields.window, fields.ttl_ms = { kind = "none", place = place }, d.job.options.state.ttl_ms
  end
  return fields
end

local function one_aggregate(place)
  return function(what, v)
    if check.kind(v) ~= "aggregator" then
      expected(place, "aggregate", what, 'an aggregator such as s.sum "value"', v)
    end
    local a = {}
    for k, x in pairs(check.data(v)) do a[k] = x end
    return a
  end
end

local function aggregate(d, place, _, t, o)
  local opts = check.options(place, "aggregate", o, "step")
  local aggs = check.ordered(place, "aggregate", t, one_aggregate(place), true)
  if #aggs == 0 then fail(place, "aggregate", "the table has no aggregator") end
  if #aggs > 255 then fail(place, "aggregate", "at most 255 aggregators, got %d", #aggs) end
  local from, to
  if d.window and d.window.kind ~= "global" and d.window.kind ~= "count" then from, to = window_names(d.window_fields) end
  for _, a in ipairs(aggs) do
    if a.fn == "custom" then a.label = a.name end
    if a.name == from or a.name == to then fail(place, "aggregate", 'the name "%s" is reserved', a.name) end
    for _, c in ipairs(d.key) do
      if c.name == a.name then fail(place, "aggregate", 'the name "%s" is a key field already', a.name) end
    end
  end
  opts.name = opts.name or d.name
  local fields = window_parts(d, place)
  fields.aggs = aggs
  return step(d, "aggregate", place, opts, fields)
end
keyed.aggregate, windowed.aggregate = aggregate, aggregate

-- As key_by was written, for messages.
local function key_text(key)
  local out = {}
  for i, c in ipairs(key) do out[i] = c.name end
  return "[" .. table.concat(out, ", ") .. "]"
end

stateful.add({ step = step, take = take, watch = watch, stream = stream, add = add, func = func,
  windowed = window_parts, key_text = key_text }, mt, str, keyed, windowed, connected)

-- Look-up of methods -------------------------------------------------------

local methods = { job = job, stream = str, keyed = keyed, windowed = windowed, connected = connected }
M.methods = methods

-- Names of later stages, by object.
M.later = {
  job = { table = 4 },
  stream = { join = 4, lookup = 4, broadcast = 4, match = 4 },
  keyed = { top_n = 4, over = 4, join = 4 },
  windowed = {},
  connected = {},
}

-- Whether the name is a step of a later stage, of any object.
local function is_later(name)
  for _, names in pairs(M.later) do
    if names[name] and name ~= "top_n" then return true end
  end
  return false
end

-- What to say of a step that exists, but not on this object.
local function misplaced(place, kind, name)
  if name == "top_n" and kind == "keyed" then
    check.later(place, "top_n without window is")
  elseif (kind == "keyed" or kind == "windowed") and str[name] then
    if name == "key_by" then
      fail(place, name, "the stream has a key already; window and aggregate it first")
    elseif name == "sink" then
      fail(place, name, "a %s stream has no sink; put the step before key_by, or aggregate first", kind)
    elseif name == "side_output" then
      fail(place, name, "a %s stream has no side outputs; ask the stream that aggregate gives", kind)
    end
    fail(place, name, "a %s stream has no %s; put the step before key_by", kind, name)
  elseif kind == "stream" and name == "process" then
    fail(place, name, "key_by is missing before process; without a key use flat_map")
  elseif kind == "stream" and (windowed[name] or keyed[name]) then
    fail(place, name, "key_by is missing before %s%s", name, keyed[name] and "" or " (and window)")
  elseif kind == "windowed" and keyed[name] and name ~= "window" then
    fail(place, name, "a windowed stream has no %s; put the step before window", name)
  elseif kind == "connected" and (str[name] or keyed[name] or windowed[name]) then
    fail(place, name, "connected streams have only process { on_left, on_right }")
  elseif kind == "windowed" and name == "window" then
    fail(place, name, "the stream has a window already; aggregate it first")
  elseif kind == "job" and (str[name] or keyed[name] or windowed[name]) then
    fail(place, name, "a job has no %s; begin with job:source(name, spec)", name)
  elseif name == "source" and kind ~= "job" then
    fail(place, name, "only the job has sources: job:source(name, spec)")
  end
end

-- Arguments a method takes; more would be ignored in silence.
local most = { source = 3, sink = 3, split = 3, rebalance = 1, side_output = 1, process = 1, dedup = 1, top_n = 1,
  connect = 1, union = math.huge }

local function index(kind)
  local own = methods[kind]
  return function(_, name)
    local place = where()
    local method = own[name]
    if method then
      return function(self, ...)
        if check.kind(self) ~= kind then
          fail(place, name, "call it with a colon: %s:%s(…), got %s as the %s",
            kind == "job" and "job" or "stream", name, check.got(self), kind)
        end
        local d = check.data(self)
        local n = select("#", ...)
        if n > (most[name] or 2) then fail(place, name, "takes at most %d arguments, got %d", most[name] or 2, n) end
        if (d.job or d).done then fail(place, name, "the job is complete; steps are added at load only") end
        return method(d, place, self, ...)
      end
    end
    misplaced(place, kind, name)
    if is_later(name) then check.later(place, name .. " is") end
    check.unknown(place, kind, "step", name, check.names.sorted(own))
  end
end

for kind in pairs(methods) do
  mt[kind] = { __metatable = false, __index = index(kind), __name = kind,
    __newindex = function(_, name) error(where() .. ": a " .. kind .. " cannot be assigned to: " .. tostring(name), 0) end }
end

function M.new_job(d) return check.new("job", d, mt.job) end

return M
