-- The module that job files require: `local s = require "streamlua"`. The
-- calls on records (s.has, s.row, ...) are added by the engine.
local _, host = ...
local build = require "streamlua.build"
local check = require "streamlua.check"
local gen = require "streamlua.gen"

local s = {
  args = build.api.args, job = build.api.job, param = build.api.param, read = build.api.read,
  log = host.log, gen = {},
}

local inner = { use = true, format = true, quarantine = true }
for _, part in ipairs { "connectors", "windows", "aggregates", "states" } do
  for name, f in pairs(require("streamlua." .. part)) do
    if not inner[name] then s[name] = f end
  end
end

local gen_names = { "choice", "cycle", "float", "hex", "int", "sequence", "time", "zipf" }
for _, name in ipairs(gen_names) do s.gen[name] = gen[name] end
setmetatable(s.gen, { __metatable = false, __index = function(_, name)
  check.unknown(check.where(), "gen", "template", name, gen_names)
end })

for name, what in pairs(build.later) do
  s[name] = function() check.later(check.where(), what) end
end

return s
