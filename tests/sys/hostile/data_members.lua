-- tries: a map with 600,000 members
-- stderr: too many members
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
     local t = { i = 5 }
     for i = 1, 600000 do t['k' .. i] = i end
     return t
   end)
   :sink("out", s.stdout())

return job
