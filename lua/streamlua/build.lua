-- s.job, s.param, s.args and the end of a load: from the job to its tree.
local _, host = ...
local check = require "streamlua.check"
local connectors = require "streamlua.connectors"
local steps = require "streamlua.steps"
local fail, where = check.fail, check.where

local M = { api = {} }
local the_job -- { object, data }
local sealed = false

-- Parameters --------------------------------------------------------------

local params, order, problems = {}, {}, {}

local function list_params()
  local out = {}
  for i, name in ipairs(order) do
    local p = params[name]
    out[i] = ("%s (%s, %s)"):format(name, p.type, p.required and "required" or "default " .. tostring(p.default))
  end
  return #out > 0 and "; the job's parameters: " .. table.concat(out, ", ") or "; the job has no parameters"
end

local function problem(...) problems[#problems + 1] = string.format(...) end

-- The first problem with parameters, as an error of usage; nil if none.
function M.usage()
  if #problems > 0 then return { usage = true, message = problems[1] .. list_params() } end
end

local readers = {
  string = function(text) return text end,
  integer = function(text) return text:find "^[+-]?%d+$" and math.tointeger(tonumber(text)) end,
  float = function(text)
    local n = text:find "^[+-]?[%d.]+[eE]?[+-]?%d*$" and tonumber(text)
    return n and math.abs(n) < math.huge and n + 0.0 or nil
  end,
  boolean = function(text)
    if text == "true" then return true elseif text == "false" then return false end
  end,
}
local articles = { integer = "no integer", float = "no number", boolean = "neither true nor false" }

function M.api.param(name, default)
  local place = where()
  if sealed then fail(place, "param", "parameters are read at load only") end
  if not check.is_name(name) then check.expected(place, "param", "first argument", "a name", name) end
  local kind = default == nil and "string" or math.type(default) or type(default)
  local read = readers[kind]
  if not read then check.expected(place, "param", "default of " .. name, "a string, number or boolean", default) end
  if not params[name] then order[#order + 1] = name end
  params[name] = { type = kind, default = default, required = default == nil }
  local text = host.params[name] or host.env("STREAMLUA_PARAM_" .. name:upper():gsub("-", "_"))
  if text == nil then
    if default == nil then
      problem('parameter %s is missing: give --set %s=VALUE', name, name)
      return "missing"
    end
    return default
  end
  local value = read(text)
  if value == nil then value = false end
  if value == false and not (kind == "boolean" and text == "false") then
    problem('parameter %s: "%s" is %s', name, text, articles[kind])
    return default
  end
  return value
end

M.api.args = host.args

-- Files ---------------------------------------------------------------------

local reads = check.list() -- { path, size, hash }: part of the plan

-- s.read { path =, format = }: the records of a file, as plain tables.
function M.api.read(t)
  local place = where()
  if sealed then fail(place, "read", "files are read at load only") end
  local o = check.options(place, "read", t, "read")
  if o.path == "" then fail(place, "read", 'option "path" is empty') end
  connectors.format(place, "read", o, "source")
  local rows, size, hash = host.read(o)
  if not rows then fail(place, "read", "%s", size) end
  reads[#reads + 1] = { path = o.path, size = size, hash = hash }
  return rows
end

-- The job -------------------------------------------------------------------

local function nested(place, o, name, defaults)
  local out = check.options(place, "job: " .. name, o[name], name)
  o[name] = check.defaults(out, defaults)
end

-- Options that were given and that this version does not act on yet.
local function idle_options(o)
  local out = check.list()
  if o.checkpoint and o.checkpoint.retained > 1 then out[#out + 1] = "checkpoint.retained" end
  if o.memory.buffers then out[#out + 1] = "memory.buffers" end
  if o.memory.lua then out[#out + 1] = "memory.lua" end
  return out
end

-- The parts of memory are not more than the whole.
local function memory_parts(place, m)
  local sum, said = 0, {}
  for _, name in ipairs { "state", "buffers", "lua" } do
    local v = m[name]
    if math.type(v) == "integer" then v = m.total and v / m.total or 0 end
    if v and v > 0 then
      sum = sum + v
      said[#said + 1] = ("%s = %s"):format(name, m[name])
    end
  end
  if sum > 1 + 1e-9 then
    fail(place, "job", "memory: more than the total%s is given away: %s",
      m.total and (" of %d bytes"):format(m.total) or "", table.concat(said, ", "))
  end
end

local function job_options(place, t)
  local o = check.options(place, "job", t, "job")
  if type(o.checkpoint) ~= "boolean" or o.checkpoint then
    if o.checkpoint == true then o.checkpoint = nil end
    nested(place, o, "checkpoint", { interval_ms = 10000, timeout_ms = 600000, min_pause_ms = 0,
      tolerable_failures = 0, retained = 1 })
  end
  nested(place, o, "mini_batch", { allow_latency_ms = 1000, size = 50000, bytes = 32 << 20 })
  nested(place, o, "state", { backend = "lmdb", ttl_ms = -1 })
  nested(place, o, "memory", { state = 0.6 })
  memory_parts(place, o.memory)
  nested(place, o, "restart", { initial_backoff_ms = 1000, max_backoff_ms = 60000, attempts = -1 })
  if o.restart.initial_backoff_ms > o.restart.max_backoff_ms then
    fail(place, "job", "restart: initial_backoff (%d ms) is above max_backoff (%d ms)",
      o.restart.initial_backoff_ms, o.restart.max_backoff_ms)
  end
  nested(place, o, "lua", { memory = 256 << 20, call_timeout_ms = 1000, load_timeout_ms = 5000 })
  if o.lua.memory < 1 << 20 then check.expected(place, "job: lua", 'option "memory"', 'at least "1MiB"', o.lua.memory) end
  o.idle = idle_options(o)
  if o.properties then o.properties = check.properties(place, "job", o.properties) end
  return check.defaults(o, { agg_phase_strategy = "AUTO", buffer_timeout_ms = 100, on_error = "fail" })
end

function M.api.job(name, t)
  local place = where()
  if host.call then fail(place, "job", "a test file has no job of its own; test.job names the file of one") end
  if the_job then fail(place, "job", "s.job was called already (%s); a file has one job", the_job.data.place) end
  if not check.is_name(name) then
    check.expected(place, "job", "first argument", "a name (letters, digits, _ and -, at most 64)", name)
  end
  local o = job_options(place, t)
  local follows
  if o.quarantine ~= nil then o.quarantine, follows = connectors.quarantine(place, o.quarantine) end
  host.limits(o.lua.memory, o.lua.call_timeout_ms, o.lua.load_timeout_ms)
  local d = { name = name, place = place, options = o, steps = check.list(), counts = {}, names = {}, watched = {},
    quarantine_follows = follows }
  the_job = { object = steps.new_job(d), data = d }
  return the_job.object
end

-- Records are skipped and quarantined in one transaction: where the job has
-- one, a quarantine in Kafka that says nothing else takes part in it.
local function quarantine_follows(d)
  for _, x in ipairs(d.steps) do
    if x.kind == "sink" and x.connector == "kafka" and x.conn.delivery == "exactly_once" then
      local conn = d.options.quarantine.conn
      conn.delivery, conn.transactional_id_prefix = "exactly_once", x.conn.transactional_id_prefix
      return
    end
  end
end

-- Called with what the job file returned; gives the tree.
function M.finish(result)
  if host.call then return require("streamlua.testfile").finish() end -- a test file
  local last = host.file .. ":" .. host.lines
  if #problems > 0 then error(M.usage(), 0) end
  for _, name in ipairs(check.names.sorted(host.params)) do
    if not params[name] then
      problem("parameter %s: no s.param asks for it", name)
      error(M.usage(), 0)
    end
  end
  if not the_job then error(last .. ": no job: the file must call s.job(name) and end with return job", 0) end
  if result ~= the_job.object then
    error(("%s: the file must end with return job, got %s"):format(last, result == nil and "nothing" or check.got(result)), 0)
  end
  local d = the_job.data
  steps.check_ends(d)
  if d.quarantine_follows then quarantine_follows(d) end
  d.done, sealed = true, true
  return { name = d.name, place = d.place, file = host.file, options = d.options, steps = d.steps,
    reads = reads, warnings = check.list() }
end

-- Close the public module: unknown names fail with the nearest one.
function M.seal(module)
  local names = {}
  for _, name in ipairs(check.names.sorted(module)) do
    if not M.later[name] then names[#names + 1] = name end
  end
  setmetatable(module, { __metatable = false,
    __index = function(_, name) check.unknown(where(), "streamlua", "function", name, names) end,
    __newindex = function(_, name) error(where() .. ": streamlua cannot be assigned to: " .. tostring(name), 0) end })
end

-- Functions of later stages, with what they are called in the message.
M.later = {
  session = "session windows are", cumulating = "cumulating windows are", on_count = "triggers are",
  top_k = "top_k is", lookup = "lookup is",
}

return M
