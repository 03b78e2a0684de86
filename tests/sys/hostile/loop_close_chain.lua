-- tries: to-be-closed variables that each wake a coroutine
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
     local function wake()
       local w = coroutine.wrap(function() while true do end end)
       return setmetatable({}, { __close = w })
     end
     local a <close>, b, c, d = wake(), wake(), wake(), wake()
     local e1 <close> = wake()
     local e2 <close> = wake()
     local e3 <close> = wake()
     local e4 <close> = wake()
     while true do end
   end)
   :sink("out", s.stdout())

return job
