-- tries: an error of ten megabytes
-- stderr: xx?
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "128MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     error(('x\n'):rep(5 << 20))
   end)
   :sink("out", s.stdout())

return job
