-- tries: arithmetic that wraps around
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     return { i = 5, v = math.maxinteger + 1, w = math.mininteger // -1 }
   end)
   :sink("out", s.stdout())

return job
