-- tries: a record above 64 MiB
-- stderr: 64 MiB
-- seconds: 30
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "600MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     return { i = 5, v = ('x'):rep(70 << 20) }
   end)
   :sink("out", s.stdout())

return job
