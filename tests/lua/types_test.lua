-- Loaded as a job by tests/unit/test_load.c: the types for editors
-- (lua/types/streamlua.lua) say exactly what the engine accepts.
local s = require "streamlua"
local schema = require "streamlua.schema"
local steps = require "streamlua.steps"
local later = require("streamlua.build").later

local classes, functions, methods = {}, {}, {}
local class, deprecated
for line in io.lines(s.param "types") do
  local name = line:match "^%-%-%-@class streamlua%.(%w[%w_]*)"
  if name then
    class = { fields = {}, bases = {} }
    classes[name] = class
    for base in (line:match ":(.*)$" or ""):gmatch "streamlua%.([%w_]+)" do class.bases[base] = true end
  end
  local field, optional, kind = line:match "^%-%-%-@field ([%w_]+)(%??) (.*)$"
  if field and class then class.fields[field] = { optional = optional == "?", type = kind } end
  if line == "" then class = nil end
  if line:find "^%-%-%-@deprecated" then deprecated = true end
  local object, method = line:match "^function (%w+):([%w_]+)%("
  if method then methods[object:lower() .. ":" .. method] = deprecated and "later" or "now" end
  local func = line:match "^function s%.([%w_.]+)%("
  if func then functions[func] = deprecated and "later" or "now" end
  if method or func then deprecated = nil end
end

local wrong = {}
local function expect(ok, text) if not ok then wrong[#wrong + 1] = text end end

-- Options: class and schema have the same members of their own.
for name, words in pairs(schema.names) do
  local c = classes[name]
  expect(c, "no class streamlua." .. name)
  if c then
    local own = {}
    for word in words:gmatch "%S+" do
      local base = word:match "^%+(.+)$"
      if base then expect(c.bases[base], name .. " does not inherit " .. base) end
      local key = word:match "^[%w_]+"
      if key and not base then
        own[key] = true
        local f = c.fields[key]
        expect(f, ("class %s lacks %s"):format(name, key))
        if f then
          expect(f.optional == not word:find "!$", ("%s.%s: optional or not"):format(name, key))
          expect((f.type:find "not in this version" ~= nil) == (word:find "@%d$" ~= nil), ("%s.%s: stage"):format(name, key))
          for value in (word:match "enum%(([^;)]*)" or ""):gmatch "[^,]+" do
            expect(f.type:find('"' .. value .. '"', 1, true), ("%s.%s lacks %q"):format(name, key, value))
          end
        end
      end
    end
    for key in pairs(c.fields) do expect(own[key], ("class %s has %s, the schema has not"):format(name, key)) end
  end
end

-- Methods.
for object, own in pairs(steps.methods) do
  for name in pairs(own) do
    expect(methods[object .. ":" .. name] == "now", ("no type of %s:%s"):format(object, name))
    methods[object .. ":" .. name] = nil
  end
  for name in pairs(steps.later[object]) do
    expect(methods[object .. ":" .. name] == "later", ("no type of later %s:%s"):format(object, name))
    methods[object .. ":" .. name] = nil
  end
end
for name in pairs(methods) do expect(false, "the engine has no " .. name) end

-- Functions of the module.
local seen = {}
local function compare(prefix, t)
  for name, v in pairs(t) do
    local full = prefix .. name
    if type(v) == "function" then
      expect(functions[full] == (later[name] and prefix == "" and "later" or "now"), "no type of s." .. full)
      seen[full] = true
    end
  end
end
compare("", s)
compare("gen.", s.gen)
for name in pairs(functions) do expect(seen[name], "the engine has no s." .. name) end

if #wrong > 0 then error(table.concat(wrong, "; "), 0) end
local job = s.job "types"
job:source("in", s.stdin()):sink("out", s.stdout())
return job
