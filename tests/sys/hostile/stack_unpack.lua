-- tries: to unpack ten million values
-- stderr: too many results
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     return select('#', table.unpack({}, 1, 10000000)) > 0
   end)
   :sink("out", s.stdout())

return job
