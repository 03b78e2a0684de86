-- tries: the same, caught at every level
-- stderr: stack overflow|took longer|error in error|not enough memory
-- seconds: 10
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local function f() pcall(f) return 1 + f() end
     return f()
   end)
   :sink("out", s.stdout())

return job
