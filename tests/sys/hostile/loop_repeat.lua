-- tries: repeat until false, with an empty function
-- stderr: the call took longer than call_timeout \(1000 ms\)
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local function f() end
     repeat f() until false
   end)
   :sink("out", s.stdout())

return job
