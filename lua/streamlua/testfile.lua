-- What a test file is made of: test.job, test.case and the object `t` that a
-- case gets. Everything that a method of t does is done by the engine
-- (host.call); here arguments are checked and results get their form.
local _, host = ...
local check = require "streamlua.check"
local fail, where, expected = check.fail, check.where, check.expected

local M = { api = {} }
local api = M.api
local jobs, cases, by_name = check.list(), check.list(), {}
local loaded = false

-- Rows that are not written out ------------------------------------------

local any = setmetatable({}, { mark = "any", __tostring = function() return "any" end, __metatable = false })
local approx_mt = { mark = "approx", __metatable = false }
local tombstone_mt = { mark = "tombstone", __metatable = false }
local tombstones = setmetatable({}, { __mode = "k" })

local function approx(value, eps)
  local place = where()
  if type(value) ~= "number" then expected(place, "approx", "first argument", "a number", value) end
  if eps == nil then eps = 1e-9 end
  if type(eps) ~= "number" or not (eps >= 0) then expected(place, "approx", "second argument", "a number from 0", eps) end
  return setmetatable({ value, eps }, approx_mt)
end

local function tombstone(fields)
  if fields == nil then fields = {} end
  if type(fields) ~= "table" then expected(where(), "tombstone", "argument", "a table of fields", fields) end
  local o = setmetatable({ fields }, tombstone_mt)
  tombstones[o] = true
  return o
end

api.any, api.approx, api.tombstone = any, approx, tombstone

-- The file --------------------------------------------------------------

-- Parameters of a job, as --set has them.
local function params(place, t)
  local out = check.map()
  for name, v in pairs(t or {}) do
    local kind = type(v)
    if type(name) ~= "string" then fail(place, "test.job", "set: names are strings, got %s", check.got(name)) end
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      expected(place, "test.job", "set: " .. name, "a string, number or boolean", v)
    end
    out[name] = tostring(v)
  end
  return out
end

function api.job(path, t)
  local place = where()
  if loaded then fail(place, "test.job", "stands outside of cases") end
  if type(path) ~= "string" or path == "" then expected(place, "test.job", "first argument", "the path of a job file", path) end
  local o = check.options(place, "test.job", t, "test_job")
  o.set = params(place, o.set)
  o.path, o.place = path, place
  jobs[#jobs + 1] = o
end

local new_t

function api.case(name, f, t)
  local place = where()
  if loaded then fail(place, "test.case", "stands outside of cases") end
  if type(name) ~= "string" or name == "" then expected(place, "test.case", "first argument", "a name", name) end
  if type(f) ~= "function" then expected(place, "test.case", "second argument", "a function", f) end
  if #jobs == 0 then fail(place, "test.case", "test.job comes first: which job is tested?") end
  if by_name[name] then fail(place, "test.case", 'two cases are called "%s"; the first is at %s', name, by_name[name]) end
  by_name[name] = place
  local o = check.options(place, "test.case", t, "test_case")
  if o.faults == nil then o.faults = jobs[#jobs].faults or false end
  o.name, o.place, o.job = name, place, jobs[#jobs]
  o.run = function() f(new_t()) end
  cases[#cases + 1] = o
end

-- Called when the file has run; gives the tree.
function M.finish()
  local last = host.file .. ":" .. host.lines
  if #jobs == 0 then error(last .. ": no job: a test file begins with test.job \"FILE.lua\"", 0) end
  if #cases == 0 then error(last .. ": no cases: test.case(name, function(t) ... end)", 0) end
  loaded = true
  return { cases = cases }
end

-- The object of a case ----------------------------------------------------

local T = {}

local function text(call, what, v, example)
  if type(v) ~= "string" then expected(where(), call, what, example, v) end
  return v
end

local function number(call, what, kind, v)
  return check.arg(where(), call, what, kind, v)
end

local function options(call, t)
  return check.options(where(), call, t, "test_" .. call)
end

-- Header pairs, in order of names, or as they are given in a list of pairs.
local function headers(t)
  local out = check.list()
  if t == nil then return nil end
  if #t > 0 then
    for i, pair in ipairs(t) do
      if type(pair) ~= "table" or type(pair[1]) ~= "string" or type(pair[2]) ~= "string" then
        fail(where(), "push", "headers: entry %d: expected { name, value }, two strings", i)
      end
      out[i] = check.list { pair[1], pair[2] }
    end
    return out
  end
  for name in pairs(t) do
    if type(name) ~= "string" then fail(where(), "push", "headers: names are strings, got %s", check.got(name)) end
  end
  for i, name in ipairs(check.names.sorted(t)) do
    if type(t[name]) ~= "string" then expected(where(), "push", "headers: " .. name, "a string", t[name]) end
    out[i] = check.list { name, t[name] }
  end
  return out
end

function T.push(_, source, value, t)
  local o = options("push", t)
  local kind = type(value)
  text("push", "first argument", source, "the name of a source")
  if value == any or kind ~= "table" and kind ~= "string" and kind ~= "nil" then
    expected(where(), "push", "second argument", "a table of fields, a string (the bytes), or nil (a tombstone)", value)
  end
  host.call("push", { source = source, value = value, key = o.key, timestamp = o.timestamp,
    headers = headers(o.headers), partition = o.partition })
end

function T.advance_watermark(_, ms)
  host.call("advance_watermark", { ms = number("advance_watermark", "argument", "int", ms) })
end

function T.advance_time(_, duration)
  host.call("advance_time", { ms = number("advance_time", "argument", "duration", duration) })
end

function T.idle(_, source, partition)
  host.call("idle", { source = text("idle", "first argument", source, "the name of a source"),
    partition = number("idle", "second argument", "int(0,1000000)", partition == nil and 0 or partition) })
end

function T.end_of_input() host.call("end_of_input", {}) end
function T.crash() host.call("crash", {}) end

function T.restart(_, t)
  host.call("restart", { parallelism = options("restart", t).parallelism })
end

function T.reload(_, path)
  host.call("reload", { path = text("reload", "argument", path, "the path of a job file") })
end

local function sink_of(call, sink) return text(call, "first argument", sink, "the name of a sink") end

function T.expect(_, sink, rows, t)
  local o, list = options("expect", t), nil
  sink_of("expect", sink)
  if type(rows) == "table" then
    list = check.list()
    for k in pairs(rows) do
      if math.type(k) ~= "integer" or k < 1 or k > #rows then
        fail(where(), "expect", "rows are a list of tables, { { … }, … }; got a table with %s", check.got(k))
      end
    end
    for i, row in ipairs(rows) do
      if type(row) ~= "table" then expected(where(), "expect", "row " .. i, "a table of fields", row) end
      if #row > 0 and not tombstones[row] then
        fail(where(), "expect", "row %d: expected a table of fields, got a list or t.approx", i)
      end
      list[i] = row
    end
  elseif type(rows) ~= "string" then
    expected(where(), "expect", "second argument", "a list of rows, or the name of a file with them", rows)
  elseif o.subset then
    fail(where(), "expect", "subset and a file of rows do not go together")
  end
  host.call("expect", { sink = sink, rows = list, file = not list and rows or nil, ordered = o.ordered or false,
    subset = o.subset or false, meta = o.meta or false })
end

function T.expect_nothing(_, sink)
  host.call("expect", { sink = sink_of("expect_nothing", sink), rows = check.list(), ordered = false, subset = false,
    meta = false })
end

local function row_of(row, meta)
  if meta then return row end
  if row.tombstone then return tombstone(type(row.value) == "table" and row.value or nil) end
  return row.value
end

function T.take(_, sink, t)
  local meta = options("take", t).meta
  local rows = host.call("take", { sink = sink_of("take", sink) })
  for i, row in ipairs(rows) do rows[i] = row_of(row, meta) end
  return rows
end

function T.now() return host.call("now", {}) end

function T.counter(_, step, name)
  return host.call("counter", { step = text("counter", "first argument", step, "the name of a step"),
    name = text("counter", "second argument", name, 'a counter ("records_in", "late", "dropped.null_key")') })
end

-- Lines of `state get --json` of one key.
local function lines_of(call, step, key, start)
  if key == nil then expected(where(), call, "second argument", "a key, or a table of its fields", key) end
  if start ~= nil then start = number(call, "third argument", "int", start) end
  return host.call("state", { step = text(call, "first argument", step, "the name of a step"), key = key, start = start })
end

function T.state(_, step, key, start)
  local windows, handles
  for _, line in ipairs(lines_of("state", step, key, start)) do
    if line.state then
      handles = handles or {}
      handles[line.state] = line.value
    elseif not line.timer then
      windows = windows or {}
      windows[#windows + 1] = { window_start = line.window_start, window_end = line.window_end, value = line.value }
    end
  end
  if windows and (start ~= nil or windows[1].window_start == nil) then return windows[1].value end
  return windows or handles
end

function T.timers(_, step, key)
  local out = {}
  for _, line in ipairs(lines_of("timers", step, key)) do
    if line.timer then out[#out + 1] = { clock = line.timer, ts = line.ts } end
  end
  return out
end

local causes = { "decode", "timestamp", "future", "user_error", "type", "overflow", "encode", "null_key", "bigint",
  "refused", "failed" }

function T.expect_error(_, cause, pattern)
  local place = where()
  if cause ~= nil and cause ~= any then check.arg(place, "expect_error", "cause", "enum(" .. table.concat(causes, ",") .. ";)", cause) end
  if pattern ~= nil and type(pattern) ~= "string" then expected(place, "expect_error", "second argument", "a pattern", pattern) end
  local e = host.call("take_error", {})
  if not e then
    host.call("fail", { text = "expected an error" .. (type(cause) == "string" and " (" .. cause .. ")" or "") .. ", there is none" })
  elseif type(cause) == "string" and cause ~= e.cause then
    host.call("fail", { text = ("expected an error (%s), got one (%s)"):format(cause, e.cause), more = e.text })
  elseif pattern and not e.text:find(pattern) then
    host.call("fail", { text = ("the error does not match %q"):format(pattern), more = e.text })
  end
  return e
end

function T.fail(_, message)
  host.call("fail", { text = text("fail", "argument", message, "a message") })
end

T.any, T.approx, T.tombstone = any, approx, tombstone

local methods = check.names.sorted(T)
local t_mt = { __metatable = false,
  __newindex = function() error("t cannot be assigned to", 2) end,
  __index = function(_, name)
    local f = T[name]
    if f == nil then check.unknown(where(), "t", "method", name, methods) end
    return f
  end }
function new_t() return setmetatable({}, t_mt) end

local names = check.names.sorted(api)
setmetatable(api, { __metatable = false,
  __newindex = function(_, name) error(where() .. ": streamlua.test cannot be assigned to: " .. tostring(name), 0) end,
  __index = function(_, name) check.unknown(where(), "streamlua.test", "function", name, names) end })

return M
