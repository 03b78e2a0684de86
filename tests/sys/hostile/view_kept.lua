-- tries: a list of a record, used in the next call
-- stderr: used after its call
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local kept

job:source("in", s.stdin())
   :filter(function(e)
     if e.i == 5 then return #kept == 3 end
     kept = e.l
     return true
   end)
   :sink("out", s.stdout())

return job
