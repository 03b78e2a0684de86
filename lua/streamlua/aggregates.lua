-- Aggregators: s.count, s.sum, ..., s.aggregator.
local check = require "streamlua.check"
local where, fail = check.where, check.fail

local M = {}

local function aggregator(a, fn, place)
  a.fn, a.place = fn, place
  return check.new("aggregator", a)
end

local function one(fn, schema)
  return function(x, o)
    local place = where()
    local a = check.options(place, fn, o, schema or "agg")
    a.args = check.list { check.ref(place, fn, "argument", x) }
    return aggregator(a, fn, place)
  end
end

for _, fn in ipairs { "avg", "min", "max", "first", "last", "var_pop", "var_samp", "stddev_pop",
  "stddev_samp", "distinct", "count_distinct" } do
  M[fn] = one(fn)
end
M.sum = one("sum", "sum")

function M.collect(x, o)
  local place = where()
  local a = check.options(place, "collect", o, "collect")
  a.limit = a.limit or 1000
  a.args = check.list { check.ref(place, "collect", "argument", x) }
  return aggregator(a, "collect", place)
end

function M.count(x, o)
  local place = where()
  local a = check.options(place, "count", o, "agg")
  a.args = check.list(x ~= nil and { check.ref(place, "count", "argument", x) } or {})
  return aggregator(a, "count", place)
end

local function by(fn)
  return function(x, what, o)
    local place = where()
    local a = check.options(place, fn, o, "agg")
    a.args, a.what = check.list { check.ref(place, fn, "argument", x) }, check.list()
    a.what_list = type(what) == "table"
    local fields = a.what_list and what or { what }
    if #fields == 0 then check.expected(place, fn, "second argument", "a field or a list of fields", what) end
    if #fields > 15 then fail(place, fn, "at most 15 fields, got %d", #fields) end
    for i = 1, #fields do
      local field = check.arg(place, fn, "second argument", "field", fields[i])
      local name = check.member(field)
      for j = 1, i - 1 do
        if a.what[j] == name then fail(place, fn, 'the name "%s" is used twice', name) end
      end
      a.args[i + 1], a.what[i] = { field = field }, name
    end
    return aggregator(a, fn, place)
  end
end
M.min_by, M.max_by = by "min_by", by "max_by"

-- The shortest decimal that reads back as the number.
local function decimal(q)
  for digits = 1, 17 do
    local text = ("%." .. digits .. "g"):format(q)
    if tonumber(text) == q then return text end
  end
end

function M.percentile(x, q, o)
  local place = where()
  local a = check.options(place, "percentile", o, "percentile")
  if a.error and (a.error <= 0 or a.error >= 1) then
    check.expected(place, "percentile", 'option "error"', "a number between 0 and 1", a.error)
  end
  a.error = (a.error or 0.01) + 0.0
  a.args = check.list { check.ref(place, "percentile", "argument", x) }
  local function quantile(v)
    v = check.arg(place, "percentile", "q", "num(0,1)", v)
    if v == 0 then check.expected(place, "percentile", "q", "a number above 0, at most 1", v) end
    return v + 0.0, decimal(v)
  end
  if type(q) == "table" then
    a.q, a.q_text = check.list(), check.list()
    if #q == 0 then check.expected(place, "percentile", "q", "a number or a list of numbers", q) end
    for i = 1, #q do a.q[i], a.q_text[i] = quantile(q[i]) end
  else
    a.q, a.q_text = quantile(q)
  end
  return aggregator(a, "percentile", place)
end

function M.aggregator(o)
  local place = where()
  local a = check.options(place, "aggregator", o, "aggregator")
  local args = a.args
  a.args, a.retract = check.list(), nil
  if args ~= nil then
    if type(args) ~= "table" or #args == 0 then
      check.expected(place, "aggregator", 'option "args"', "a list of fields", args)
    end
    if #args > 16 then fail(place, "aggregator", "at most 16 args, got %d", #args) end
    for i = 1, #args do
      a.args[i] = { field = check.arg(place, "aggregator", "args", "field", args[i]) }
    end
  end
  if a.samples ~= nil then
    if type(a.samples) ~= "table" then
      check.expected(place, "aggregator", 'option "samples"', "a list of records", a.samples)
    end
    for i, r in ipairs(a.samples) do
      if type(r) ~= "table" and type(r) ~= "userdata" then
        check.expected(place, "aggregator", ("samples[%d]"):format(i), "a record", r)
      end
    end
    a.samples = check.keep(a.samples)
  end
  return aggregator(a, "custom", place)
end

return M
