-- tries: a record above 64 MiB, of parts that are smaller
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
     for i = 1, 5 do e['v' .. i] = ('x'):rep(20 << 20) end
     return e
   end)
   :sink("out", s.stdout())

return job
