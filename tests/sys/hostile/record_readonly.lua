-- tries: to write to the record of a filter
-- stderr: read-only
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     e.i = 6
     return true
   end)
   :sink("out", s.stdout())

return job
