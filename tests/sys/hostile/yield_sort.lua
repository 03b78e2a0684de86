-- tries: to yield out of a comparator
-- stderr: across a C-call boundary
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local co = coroutine.wrap(function() table.sort({ 3, 2, 1 }, function() coroutine.yield() end) end)
     co()
   end)
   :sink("out", s.stdout())

return job
