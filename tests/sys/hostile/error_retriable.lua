-- tries: a retriable error out of a filter
-- stderr: again
-- out: any
-- exit: 0 or 1
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     error(s.retriable 'again')
   end)
   :sink("out", s.stdout())

return job
