-- tries: a module that a function requires first
-- exit: 0
-- out: all but 5
-- stderr: not read when the job was loaded
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i == 5 then require "lib_global" end
     return true
   end)
   :sink("out", s.stdout())

return job
