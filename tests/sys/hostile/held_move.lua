-- tries: table.move over all integers, in C
-- stderr: held by filter-1 for [0-9]+s
-- out: any
-- term: held by
-- args: --stop-timeout 500ms
-- exit: 143
-- seconds: 15
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     table.move({}, 1, math.maxinteger - 1, 2)
     return true
   end)
   :sink("out", s.stdout())

return job
