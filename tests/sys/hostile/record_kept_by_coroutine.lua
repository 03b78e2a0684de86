-- tries: a record in a coroutine that goes on in the next call
-- stderr: used after its call
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

local co

job:source("in", s.stdin())
   :filter(function(e)
     if e.i == 5 then return co() == 4 end
     co = coroutine.wrap(function(r)
       while true do coroutine.yield(r.i) end
     end)
     co(e)
     return true
   end)
   :sink("out", s.stdout())

return job
