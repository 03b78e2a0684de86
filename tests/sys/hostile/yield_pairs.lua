-- tries: to yield in a loop of pairs of a record
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local co = coroutine.wrap(function() for k in pairs(e) do coroutine.yield(k) end end)
     return co() ~= nil
   end)
   :sink("out", s.stdout())

return job
