-- tries: table.concat of the same large string many times
-- stderr: not enough memory
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local big, t = ('x'):rep(1 << 20), {}
     for i = 1, 1000 do t[i] = big end
     return #table.concat(t) > 0
   end)
   :sink("out", s.stdout())

return job
