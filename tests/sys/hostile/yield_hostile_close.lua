-- tries: to close itself, to resume itself
-- stderr-not: internal error
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local co
     co = coroutine.create(function() assert(not pcall(coroutine.close, co)) return coroutine.resume(co) end)
     coroutine.resume(co)
     return select(2, coroutine.resume(coroutine.running())) == true
   end)
   :sink("out", s.stdout())

return job
