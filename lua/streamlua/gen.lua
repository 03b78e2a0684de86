-- Templates of generator fields: s.gen.*
local check = require "streamlua.check"
local where, fail = check.where, check.fail

local M = {}
local function template(t) return check.new("generator template", t) end

local function options(kind)
  return function(o)
    local out = check.options(where(), "gen." .. kind, o, kind)
    out.kind = kind
    if kind == "sequence" then
      check.defaults(out, { from = 0, step = 1 })
    else
      out.step, out.step_ms = out.step_ms, nil
      check.defaults(out, { start = 0, step = 1 })
    end
    return template(out)
  end
end
M.sequence = options "sequence"
M.time = options "time"

local function values(kind)
  return function(list)
    local place, name = where(), "gen." .. kind
    if type(list) ~= "table" or #list == 0 then check.expected(place, name, "values", "a list that is not empty", list) end
    local copy = check.list()
    for i = 1, #list do
      if type(list[i]) == "function" then fail(place, name, "value %d is a function", i) end
      copy[i] = list[i]
    end
    return template { kind = kind, values = copy }
  end
end
M.cycle = values "cycle"
M.choice = values "choice"

function M.int(a, b)
  local place = where()
  a = check.arg(place, "gen.int", "first", "int", a)
  b = check.arg(place, "gen.int", "last", "int", b)
  if b < a then fail(place, "gen.int", "the last value %d is below the first %d", b, a) end
  return template { kind = "int", a = a, b = b }
end

function M.float(a, b)
  local place = where()
  a = check.arg(place, "gen.float", "first", "num", a)
  b = check.arg(place, "gen.float", "last", "num", b)
  return template { kind = "float", a = a + 0.0, b = b + 0.0 }
end

function M.zipf(n, exponent)
  local place = where()
  return template { kind = "zipf", n = check.arg(place, "gen.zipf", "n", "int(1,100000000)", n),
    exponent = check.arg(place, "gen.zipf", "exponent", "num(0)", exponent) + 0.0 }
end

function M.hex(len)
  return template { kind = "hex", len = check.arg(where(), "gen.hex", "length", "int(1,65536)", len) }
end

-- The fields of a generator: list of { name, gen } in byte order of names.
function M.fields(place, t)
  local out = check.list()
  for _, name in ipairs(check.names.sorted(t)) do
    local v = t[name]
    if type(name) ~= "string" then fail(place, "generator", "fields: names are strings, got %s", check.got(name)) end
    local gen
    if check.kind(v) == "generator template" then
      gen = check.data(v)
    elseif type(v) == "function" then
      gen = { kind = "func", func = v }
    elseif check.kind(v) then
      check.expected(place, "generator", ('field "%s"'):format(name), "a template, a constant or a function", v)
    else
      gen = { kind = "const", value = v }
    end
    out[#out + 1] = { name = name, gen = gen }
  end
  return out
end

return M
