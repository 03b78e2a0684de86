-- tries: to call itself without end
-- stderr: stack overflow|not enough memory
-- seconds: 10
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "256MiB", call_timeout = "5s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local function f() return 1 + f() end
     return f()
   end)
   :sink("out", s.stdout())

return job
