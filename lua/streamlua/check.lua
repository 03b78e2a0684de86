-- Checks that every call shares: messages, types, options, ordered tables.
local _, host = ...
local names = require "streamlua.names"
local schema = require "streamlua.schema"
local error, type, pairs, ipairs, rawget = error, type, pairs, ipairs, rawget
local floor, tointeger, math_type = math.floor, math.tointeger, math.type

local M = { host = host, where = host.where, names = names }

-- Engine objects (streams, specs, aggregators...): kind and data aside, so
-- that a job cannot reach them by name.
local kinds = setmetatable({}, { __mode = "k" })
local data = setmetatable({}, { __mode = "k" })

function M.new(kind, d, mt)
  local o = setmetatable({}, mt or M.plain)
  kinds[o], data[o] = kind, d
  return o
end
M.plain = { __metatable = false, __newindex = function() error("this object is read-only", 2) end }

function M.kind(v) return kinds[v] end
function M.data(v) return data[v] end

local list_mt, map_mt, keep_mt = { list = true }, { list = false }, { keep = true }
function M.list(t) return setmetatable(t or {}, list_mt) end
function M.map(t) return setmetatable(t or {}, map_mt) end
-- A Lua value that the engine keeps as it is, like a function.
function M.keep(v) return setmetatable({ v }, keep_mt) end

-- FILE:LINE: step-kind: text
local function fail(place, kind, text, ...)
  if select("#", ...) > 0 then text = text:format(...) end
  error(place .. ": " .. kind .. ": " .. text, 0)
end
M.fail = fail

-- FILE:LINE: session windows are not available in this version
function M.later(place, what)
  error(place .. ": " .. what .. " not available in this version", 0)
end

-- What was found, for messages.
local function got(v)
  local t = kinds[v] or type(v)
  if t == "string" then
    if #v > 40 then v = v:sub(1, 37) .. "..." end
    return ('string "%s"'):format(v)
  elseif t == "number" or t == "boolean" then
    return t .. " " .. tostring(v)
  end
  return t
end
M.got = got

local function expected(place, kind, what, want, v)
  fail(place, kind, "%s: expected %s, got %s", what, want, got(v))
end
M.expected = expected

-- Units ---------------------------------------------------------------

local ms_of = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }
local size_of = { B = 1, KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30, KB = 1000, MB = 1000000, GB = 1000000000 }
local unit_max = 1 << 50

-- Number with at most nine decimals times unit, as an exact integer.
local function times(int, frac, unit)
  if #int > 15 or #frac > 9 then return end
  local pow = tointeger(10 ^ #frac)
  local n = (tonumber(frac) or 0) * unit
  if n % pow ~= 0 then return end
  n = tonumber(int) * unit + n // pow
  return n <= unit_max and n or nil
end

local function parse(text, units)
  local total, at = 0, 1
  repeat
    local int, frac, unit, after = text:match("^(%d+)(%.?%d*)(%a+)()", at)
    if frac then frac = frac:match "^%.(%d+)$" or frac == "" and frac end
    local n = frac and units[unit] and times(int, frac, units[unit])
    if not n then return end
    total, at = total + n, after
  until at > #text
  return total <= unit_max and total or nil
end

-- Duration to ms, nil if it is none.
function M.duration(v)
  if type(v) == "number" then
    v = tointeger(v)
    return v and v > -unit_max and v < unit_max and v or nil
  end
  if type(v) ~= "string" then return end
  local sign, rest = v:match "^(%-?)(.+)$"
  local n = rest and parse(rest, ms_of)
  return n and (sign == "-" and -n or n)
end

function M.size(v)
  if type(v) == "number" then return tointeger(v) end
  if type(v) == "string" and not v:find "%d%a+%d" then return parse(v, size_of) end
end

-- Fields --------------------------------------------------------------

-- Last member of a path, or nil and what is wrong with the path.
function M.member(path)
  if path == "" then return nil, "is empty" end
  local members = path:gsub("\\%.", "\0")
  if ("." .. members .. "."):find("..", 1, true) then return nil, "has an empty member" end
  return (members:match "([^.]*)$":gsub("%z", "."))
end

function M.is_name(v)
  return type(v) == "string" and #v <= 64 and v:find "^[A-Za-z_][A-Za-z0-9_-]*$" ~= nil
end

-- Types of options: function(v, ...) -> ok, value; and what is expected ---

local function int(v, lo, hi)
  v = type(v) == "number" and tointeger(v)
  return v and v >= (lo or math.mininteger) and v <= (hi or math.maxinteger), v
end
local function span(test)
  return function(v)
    local n = M.duration(v)
    return n ~= nil and test(n), n
  end
end
local function is(t) return function(v) return type(v) == t, v end end

local types = {
  any = { function(v) return true, v end, "a value" },
  bool = { is "boolean", "true or false" },
  string = { is "string", "a string" },
  func = { is "function", "a function" },
  table = { function(v) return type(v) == "table" and not kinds[v], v end, "a table" },
  name = { function(v) return M.is_name(v), v end, "a name (letters, digits, _ and -, at most 64)" },
  field = { function(v) return type(v) == "string" and M.member(v) ~= nil, v end, 'a field such as "a.b"' },
  int = { int, "an integer" },
  num = { function(v, lo, hi)
    return type(v) == "number" and v == v and v >= (lo or -math.huge) and v <= (hi or math.huge), v
  end, "a number" },
  size = { function(v) v = M.size(v) return v ~= nil and v > 0, v end, 'a size such as "64MiB" or bytes' },
  -- A share of another size, as a float, or a size of its own, as an integer.
  part = { function(v)
    if type(v) == "number" and v > 0 and v <= 1 then return true, v + 0.0 end
    v = M.size(v)
    return v ~= nil and v > 0, v
  end, 'a fraction such as 0.6 or a size such as "2GiB"' },
  -- <prefix>-marker is a topic.
  prefix = { function(v)
    return type(v) == "string" and v ~= "" and #v <= 242 and not v:find "[^%w._-]", v
  end, "the beginning of a topic name (letters, digits, . _ -, at most 242)" },
  delimiter = { function(v)
    return type(v) == "string" and #v == 1 and not v:find '["\r\n]', v
  end, "one character" },
}
-- Durations: the value goes to NAME_ms.
local spans = {
  duration = { span(function(n) return n >= 0 end), 'a duration such as "5s" or milliseconds' },
  period = { span(function(n) return n > 0 end), 'a duration above 0 such as "5s"' },
  offset = { span(function() return true end), 'a duration such as "-8h"' },
  span = { span(function() return true end), 'a duration such as "1ms"' },
  never = { function(v)
    if v == false then return true, -1 end
    local n = M.duration(v)
    return n ~= nil and n > 0, n
  end, 'a duration such as "30s", or false' },
  hold = { function(v)
    if v == "hold" then return true, -1 end
    local n = M.duration(v)
    return n ~= nil and n >= 0, n
  end, '"hold" or a duration such as "1m"' },
}

local function range_text(lo, hi)
  if lo and hi then return (" from %s to %s"):format(lo, hi) end
  return lo and (" of at least %s"):format(lo) or ""
end

local function enum(place, kind, name, args, v)
  local now, later = args:match "^([^;]*);?(.*)$"
  local valid = {}
  for word in now:gmatch "[^,]+" do
    if word == v then return v end
    valid[#valid + 1] = word
  end
  for word in later:gmatch "[^,]+" do
    if word == v then M.later(place, ('%s: %s = "%s" is'):format(kind, name, v)) end
  end
  local allowed = '"' .. table.concat(valid, '", "') .. '"'
  if type(v) ~= "string" then expected(place, kind, ('option "%s"'):format(name), allowed, v) end
  fail(place, kind, 'option "%s": unknown value "%s"%s allowed: %s', name, v,
    names.hint(v, valid, ";"), allowed)
end

-- One value by its type; returns name in the tree, value. `label` is what
-- messages call it.
local function convert(place, kind, name, spec, v, label)
  local base, args = spec:match "^([%w_]+)%(?(.-)%)?$"
  if base == "enum" then return name, enum(place, kind, name, args, v) end
  local t = types[base]
  local key = name
  if not t then t, key = spans[base], name .. "_ms" end
  local lo, hi = args:match "^([^,]*),?(.*)$"
  lo, hi = tonumber(lo), tonumber(hi)
  local ok, value = t[1](v, lo, hi)
  if not ok then expected(place, kind, label or ('option "%s"'):format(name), t[2] .. range_text(lo, hi), v) end
  return key, value
end

-- Check the option table `t` by a schema; returns the values as the tree
-- has them. nil is an empty table. `positional`: it may have entries 1...n.
function M.options(place, kind, t, schema_name)
  local def = schema(schema_name)
  if t == nil then t = {} end
  if type(t) ~= "table" or kinds[t] then
    fail(place, kind, "expected a table of options, got %s", got(t))
  end
  for k in pairs(t) do
    local d = def.by[k]
    if not d then
      local allowed = {}
      for _, x in ipairs(def.list) do
        if not x.later then allowed[#allowed + 1] = x.name end
      end
      if type(k) ~= "string" then
        fail(place, kind, "options have names, got entry %s; allowed: %s", tostring(k), table.concat(allowed, ", "))
      end
      fail(place, kind, 'unknown option "%s"%s allowed: %s', k, names.hint(k, allowed, ";"), table.concat(allowed, ", "))
    end
    if d.later then M.later(place, ('%s: option "%s" is'):format(kind, k)) end
  end
  local out = {}
  for _, d in ipairs(def.list) do
    local v = t[d.name]
    if v ~= nil then
      local key, value = convert(place, kind, d.name, d.type, v)
      out[key] = value
    elseif d.required then
      fail(place, kind, 'missing required option "%s"', d.name)
    end
  end
  return out
end

-- Fill defaults: what `t` lacks comes from `defaults`.
function M.defaults(t, defaults)
  for k, v in pairs(defaults) do
    if t[k] == nil then t[k] = v end
  end
  return t
end

-- librdkafka properties: names with text, number or boolean.
function M.properties(place, kind, t)
  local out = M.map()
  for k, v in pairs(t or {}) do
    if type(k) ~= "string" then fail(place, kind, "properties: names are strings, got %s", got(k)) end
    local tv = type(v)
    if tv ~= "string" and tv ~= "number" and tv ~= "boolean" then
      expected(place, kind, ('properties: "%s"'):format(k), "a string, number or boolean", v)
    end
    if math_type(v) == "float" and v == floor(v) then v = tointeger(v) or v end
    out[k] = tostring(v)
  end
  return out
end

-- A positional argument.
function M.arg(place, kind, what, spec, v)
  local _, value = convert(place, kind, what, spec, v, what)
  return value
end

-- Field or function, as { field = } or { func = }.
function M.ref(place, kind, what, v)
  if type(v) == "function" then return { func = v } end
  if type(v) ~= "string" then expected(place, kind, what, "a field or a function", v) end
  local _, wrong = M.member(v)
  if wrong then fail(place, kind, '%s: the path "%s" %s', what, v, wrong) end
  return { field = v }
end

-- Ordered tables: positional entries, then names in byte order. `one(what,
-- value)` checks an entry and returns its table; the name is put into it.
-- `reserved` names are refused. Returns a list.
function M.ordered(place, kind, t, one, reserved)
  if type(t) ~= "table" or kinds[t] then
    fail(place, kind, "expected a table of fields, got %s", got(t))
  end
  local out, seen, n = M.list(), {}, #t
  local function put(name, value, what)
    if type(name) ~= "string" or name == "" then
      expected(place, kind, what .. ": name", "a string", name)
    end
    if seen[name] then fail(place, kind, 'the name "%s" is used twice', name) end
    if reserved and (name == "window_start" or name == "window_end") then
      fail(place, kind, 'the name "%s" is reserved', name)
    end
    seen[name] = true
    local entry = one(('"%s"'):format(name), value)
    entry.name = name
    out[#out + 1] = entry
  end
  for i = 1, n do
    local v = t[i]
    local what = "entry " .. i
    if type(v) == "string" then
      local name, wrong = M.member(v)
      if not name then fail(place, kind, '%s: the path "%s" %s', what, v, wrong) end
      put(name, v, what)
    elseif type(v) == "table" and not kinds[v] then
      if #v ~= 2 then fail(place, kind, '%s: expected a pair { "name", what }, got a table of %d', what, #v) end
      put(v[1], v[2], what)
    elseif v == nil then
      fail(place, kind, "%s is nil", what)
    else
      fail(place, kind, '%s (%s) needs a name: { "name", … } or name = …', what, got(v))
    end
  end
  local rest = {}
  for k in pairs(t) do
    if type(k) == "string" then
      rest[#rest + 1] = k
    elseif math_type(k) ~= "integer" or k < 1 or k > n then
      fail(place, kind, "unexpected key %s; positional entries have no gaps, others have names", got(k))
    end
  end
  table.sort(rest)
  for _, k in ipairs(rest) do put(k, t[k], k) end
  return out
end

-- A table (module or object) whose unknown names fail by name.
function M.unknown(place, what, word, name, valid)
  if type(name) ~= "string" then
    error(("%s: %s has no %s %s"):format(place, what, word, got(name)), 0)
  end
  error(('%s: %s has no %s "%s"%s'):format(place, what, word, name,
    names.hint(name, valid, "; it has: " .. table.concat(valid, ", "))), 0)
end

return M
