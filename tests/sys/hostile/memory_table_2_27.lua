-- tries: a table with 2^27 entries
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
     local t = {}
     for i = 1, 1 << 27 do t[i] = i end
     return true
   end)
   :sink("out", s.stdout())

return job
