-- tries: gsub in gsub in gsub
-- stderr: C stack overflow|stack overflow
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local function f() return (('x'):gsub('x', f)) end
     return f() == 1
   end)
   :sink("out", s.stdout())

return job
