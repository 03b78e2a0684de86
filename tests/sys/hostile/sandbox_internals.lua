-- tries: to turn the engine's own modules against it
-- exit: 0 or 65
-- out: any
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local build = require "streamlua.build"
for k, f in pairs(build) do if type(f) == "function" then pcall(f) pcall(f, {}) pcall(f, job) pcall(f, nil, 1) end end
for name in pairs(package.loaded) do package.loaded[name] = nil end
pcall(require, "streamlua")
string.format, string.rep, table.concat, table.unpack, math.floor = nil
setmetatable, getmetatable, pairs, ipairs, type, tostring, error = nil

job:source("in", s.stdin()):sink("out", s.stdout())

return job
