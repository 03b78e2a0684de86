-- tries: what is not there
-- exit: 0
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

assert(io == nil and debug == nil and dofile == nil and loadfile == nil)
for _, n in ipairs { "execute", "exit", "getenv", "remove", "rename", "setlocale", "tmpname" } do
  assert(os[n] == nil, n)
end
assert(package.loadlib == nil and package.cpath == nil and string.dump == nil)
for _, m in ipairs { "io", "debug", "ffi", "jit" } do assert(not pcall(require, m), m) end
for k, v in pairs(package.loaded) do assert(k ~= "io" and k ~= "debug") end

job:source("in", s.stdin()):sink("out", s.stdout())

return job
