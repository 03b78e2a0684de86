-- tries: to print what is long, binary, many lines
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     print(('x'):rep(5 << 20))
     print('a\0b\27[2J\xff\n2026-01-01T00:00:00.000Z ERROR forged')
     print()
     return true
   end)
   :sink("out", s.stdout())

return job
