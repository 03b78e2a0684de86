-- Connector specs: s.kafka, s.file, ...; checked where they are used.
local check = require "streamlua.check"
local gen = require "streamlua.gen"
local fail, expected = check.fail, check.expected

local M = {}

local function spec(kind, needs_table)
  return function(o)
    local place = check.where()
    if type(o) == "string" then
      expected(place, kind, "options", ('a table such as { %s = "%s" }'):format(kind == "kafka" and "topic" or "path", o), o)
    end
    if o ~= nil and (type(o) ~= "table" or check.kind(o)) or o == nil and needs_table then
      expected(place, kind, "options", "a table", o)
    end
    return check.new("connector", { kind = kind, opts = o or {}, place = place })
  end
end

M.kafka, M.file, M.generator = spec("kafka", true), spec("file", true), spec("generator", true)
M.stdin, M.stdout, M.blackhole = spec "stdin", spec "stdout", spec "blackhole"
M.source, M.sink = spec("source", true), spec("sink", true)

-- Formats ---------------------------------------------------------------

local csv_types = { int = true, float = true, string = true, bool = true }

local function csv_fields(place, kind, list)
  local out, seen = check.list(), {}
  if type(list) ~= "table" or #list == 0 then
    expected(place, kind, 'option "fields"', 'a list such as { "id:int", "name" }', list)
  end
  for i = 1, #list do
    local f = list[i]
    if type(f) ~= "string" then expected(place, kind, ("fields[%d]"):format(i), '"name" or "name:type"', f) end
    local name, t = f:match "^(.*):([^:]*)$"
    if not name then name, t = f, "string" end
    if not csv_types[t] then
      fail(place, kind, 'fields[%d]: unknown type "%s"%s allowed: string, int, float, bool', i, t,
        check.names.hint(t, { "string", "int", "float", "bool" }, ";"))
    end
    if name == "" or seen[name] then fail(place, kind, 'fields[%d]: the name "%s" is %s', i, name, name == "" and "empty" or "used twice") end
    seen[name] = true
    out[i] = { name = name, type = t }
  end
  return out
end

function M.format(place, kind, conn, role)
  conn.format = conn.format or "json"
  if conn.format ~= "csv" then
    for _, o in ipairs { "fields", "header", "delimiter" } do
      if conn[o] ~= nil then fail(place, kind, 'option "%s" belongs to format = "csv", here it is "%s"', o, conn.format) end
    end
    return
  end
  if conn.fields ~= nil then
    conn.fields = csv_fields(place, kind, conn.fields)
    if role == "source" and conn.header then fail(place, kind, "csv: give fields or header = true, not both") end
  elseif role == "sink" then
    fail(place, kind, 'missing required option "fields" (format = "csv")')
  elseif not conn.header then
    fail(place, kind, "csv needs fields = { \"id:int\", … } or header = true")
  end
end

-- Kafka -----------------------------------------------------------------

local starts = { "earliest", "latest", "committed", "committed-or-earliest", "committed-or-latest" }

local function position(place, option, v, words)
  if type(v) == "string" then
    for _, w in ipairs(words) do
      if v == w then return v end
    end
    fail(place, "kafka", 'option "%s": unknown value "%s"%s allowed: "%s", { timestamp = ms }, { offsets = {…} }',
      option, v, check.names.hint(v, words, ";"), table.concat(words, '", "'))
  end
  local k = type(v) == "table" and next(v)
  if not k or next(v, k) or k ~= "timestamp" and k ~= "offsets" then
    expected(place, "kafka", ('option "%s"'):format(option),
      '"' .. table.concat(words, '", "') .. '", { timestamp = ms } or { offsets = {…} }', v)
  end
  if k == "timestamp" then return { timestamp = check.arg(place, "kafka", option .. ".timestamp", "int", v[k]) } end
  if type(v[k]) ~= "table" then expected(place, "kafka", option .. ".offsets", "a table { [partition] = offset }", v[k]) end
  local out = check.map()
  for p, o in pairs(v[k]) do
    check.arg(place, "kafka", option .. ".offsets: partition", "int(0,1000000)", p)
    if o ~= "earliest" and o ~= "latest" then
      if type(o) == "string" then
        expected(place, "kafka", ("%s.offsets[%d]"):format(option, p), 'an offset, "earliest" or "latest"', o)
      end
      o = check.arg(place, "kafka", ("%s.offsets[%d]"):format(option, p), "int(0)", o)
    end
    out[tostring(math.tointeger(p))] = o
  end
  return { offsets = out }
end

local function topic(place, v, want)
  if type(v) ~= "string" then expected(place, "kafka", 'option "topic"', want, v) end
  if v:sub(1, 1) == "^" then
    fail(place, "kafka", 'option "topic": the pattern "%s" can only stand in a source', v)
  end
  if v == "" or v == "." or v == ".." or #v > 249 or v:find "[^%w._-]" then
    fail(place, "kafka", 'option "topic": "%s" is no topic name (letters, digits, . _ -, at most 249)', v)
  end
  return v
end

-- A name, or a pattern.
local function read_topic(place, v, want)
  if type(v) ~= "string" or v:sub(1, 1) ~= "^" then return topic(place, v, want) end
  if #v == 1 then fail(place, "kafka", 'option "topic": the pattern "^" has nothing behind its ^') end
  return v
end

local function kafka_source(place, conn)
  local t = conn.topic
  if type(t) == "table" and not check.kind(t) then
    if #t == 0 then expected(place, "kafka", 'option "topic"', "a list that is not empty", t) end
    local list = check.list()
    for i = 1, #t do list[i] = read_topic(place, t[i], "a list of strings") end
    conn.topic = list
  else
    conn.topic = read_topic(place, t, 'a string, a list of strings or a pattern "^…"')
  end
  conn.start = position(place, "start", conn.start, starts)
  if conn.stop ~= nil then conn.stop = position(place, "stop", conn.stop, { "latest" }) end
  check.defaults(conn, { isolation = "read_committed", key_format = "text", tombstones = "pass", discovery_ms = 300000 })
end

-- Sinks -----------------------------------------------------------------

local function key(place, kind, v)
  if v == nil then return { kind = "default" } end
  if v == false then return { kind = "none" } end
  if type(v) == "function" then return { kind = "func", func = v } end
  if type(v) == "string" then return { kind = "field", field = check.ref(place, kind, 'option "key"', v).field } end
  if type(v) ~= "table" or check.kind(v) then
    expected(place, kind, 'option "key"', "a field, a list of fields, a function or false", v)
  end
  local cols = check.ordered(place, kind, v, function(what, x) return check.ref(place, kind, "key: " .. what, x) end)
  if #cols == 0 then fail(place, kind, 'option "key": the list is empty; use key = false for none') end
  return { kind = "fields", cols = cols }
end

local function kafka_sink(place, conn)
  if type(conn.topic) == "function" then
    conn.topic, conn.topic_func = nil, conn.topic
  else
    conn.topic = topic(place, conn.topic, "a string or a function")
  end
  if conn.create then
    local c = check.options(place, "kafka: create", conn.create, "create")
    c.config = check.properties(place, "kafka: create: config", c.config)
    conn.create = check.defaults(c, { partitions = -1, replication = -1 })
  end
  local headers = check.map()
  for _, name in ipairs(check.names.sorted(conn.headers or {})) do
    local v = conn.headers[name]
    if type(name) ~= "string" then fail(place, "kafka", "headers: names are strings, got %s", check.got(name)) end
    local t = type(v)
    if t == "number" or t == "boolean" then v, t = tostring(v), "string" end
    if t ~= "string" and t ~= "function" then
      expected(place, "kafka", ('headers: "%s"'):format(name), "a string or a function", v)
    end
    headers[name] = v
  end
  conn.headers = headers
  conn.delivery = conn.delivery or "at_least_once"
  if conn.transactional_id_prefix and conn.delivery ~= "exactly_once" then
    fail(place, "kafka", 'option "transactional_id_prefix" belongs to delivery = "exactly_once", here it is "%s"',
      conn.delivery)
  end
end

local function roll(place, conn)
  local r = check.options(place, "file: roll", conn.roll, "roll")
  conn.roll = check.defaults(r, { size = 128 << 20, interval_ms = 60000 })
end

-- Which connectors are what ------------------------------------------------

local schemas = {
  source = { kafka = "kafka_source", file = "file_source", stdin = "stdin_source",
    generator = "generator_source", source = "lua_source" },
  sink = { kafka = "kafka_sink", file = "file_sink", stdout = "stdout_sink",
    blackhole = "blackhole_sink", sink = "lua_sink" },
}

-- A target that is asked for its round must be told it, and the other way.
local function lua_sink(place, conn)
  if (conn.commit == nil) ~= (conn.last_round == nil) then
    fail(place, "sink", 'commit and last_round belong together; "%s" is missing',
      conn.commit == nil and "commit" or "last_round")
  end
end

-- Check the spec of a source or sink step.
-- Returns connector name, conn, on_error.
function M.use(step_place, role, name, sp)
  if check.kind(sp) ~= "connector" then
    expected(step_place, role, ("second argument of %s"):format(name),
      role == "source" and "a spec such as s.kafka { … }" or "a spec such as s.stdout()", sp)
  end
  local d = check.data(sp)
  local kind, place = d.kind, d.place
  local schema = schemas[role][kind]
  if not schema then
    fail(step_place, role, "s.%s is no %s; use %s", kind, role,
      "s." .. table.concat(check.names.sorted(schemas[role]), ", s."))
  end
  local conn = check.options(place, kind, d.opts, schema)
  local on_error = conn.on_error
  conn.on_error = nil
  if kind == "generator" then
    conn.fields = gen.fields(place, conn.fields)
    check.defaults(conn, { rate = 0, partitions = 1, seed = 1 })
  elseif kind == "source" then
    check.defaults(conn, { partitions = 1, poll_ms = 10 })
  elseif kind == "sink" then
    lua_sink(place, conn)
  else
    M.format(place, kind, conn, role)
  end
  if kind == "kafka" then
    conn.properties = check.properties(place, "kafka", conn.properties)
    if role == "source" then kafka_source(place, conn) else kafka_sink(place, conn) end
  elseif kind == "file" then
    if conn.path == "" then fail(place, "file", 'option "path" is empty') end
    if role == "sink" then
      roll(place, conn)
    elseif conn.path:find "%.gz$" or conn.path:find "%.zst$" then
      check.later(place, "file: compressed files are")
    end
  end
  if role == "sink" and (kind == "kafka" or kind == "file" or kind == "stdout") then
    if kind ~= "kafka" and conn.key ~= nil and not conn.envelope then
      fail(place, kind, 'option "key" needs envelope = true')
    end
    if conn.envelope and conn.format and conn.format ~= "json" then
      fail(place, kind, 'envelope = true needs format = "json", here it is "%s"', conn.format)
    end
    conn.key = key(place, kind, conn.key)
  end
  if kind == "source" or kind == "sink" then kind = "lua" end
  return kind, conn, on_error
end

-- What a quarantine keeps is what was read, in the form of API.md 8.
local fixed = { "format", "on_error", "fields", "header", "delimiter", "nan", "invalid_utf8", "key", "headers",
  "partition", "envelope" }

-- Check the spec of the job's quarantine; returns a sink step, and whether
-- its delivery is left to follow the job's other sinks.
function M.quarantine(place, sp)
  local d = check.kind(sp) == "connector" and check.data(sp)
  if not d or d.kind ~= "kafka" and d.kind ~= "file" then
    expected(place, "job", 'option "quarantine"', "s.kafka { … } or s.file { … }", d and "s." .. d.kind or sp)
  end
  for _, o in ipairs(fixed) do
    if d.opts[o] ~= nil then
      fail(d.place, d.kind, 'option "%s" has no place in a quarantine: it keeps what was read as it was', o)
    end
  end
  if type(d.opts.topic) == "function" then
    expected(d.place, "kafka", 'option "topic"', "a string in a quarantine", d.opts.topic)
  end
  local kind, conn = M.use(place, "sink", "quarantine", sp)
  return { kind = "sink", name = "quarantine", auto = false, place = place, connector = kind, conn = conn,
    on_error = "fail" }, kind == "kafka" and d.opts.delivery == nil
end

return M
