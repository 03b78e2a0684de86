-- tries: bytecode as text
-- stderr: binary
-- exit: 65
-- out: none
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

assert(not load('\27LuaT\0\x19\x93\r\n\x1a\n', 'x', 'b'))
assert(not load('\27Lua', 'x', 'bt'))
assert(not load(function() return '\27Lua' end, 'x', 'b'))
require 'lib_binary'

job:source("in", s.stdin()):sink("out", s.stdout())

return job
