-- tries: a ring of coroutines that yield
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
     local t = {}
     for i = 1, 100 do t[i] = coroutine.wrap(function() while true do coroutine.yield() end end) end
     while true do for i = 1, 100 do t[i]() end end
   end)
   :sink("out", s.stdout())

return job
