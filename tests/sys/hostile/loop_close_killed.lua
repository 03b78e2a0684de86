-- tries: to close, in a later call, a coroutine that was stopped
-- stderr: the call took longer than call_timeout \(1000 ms\)
-- out: some
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "1s" },
})

local kept

job:source("in", s.stdin())
   :filter(function(e)
     if e.i < 5 then return true end
     if kept then
       coroutine.close(kept)
       return true
     end
     kept = coroutine.create(function()
       local x <close> = setmetatable({}, { __close = function() while true do end end })
       while true do end
     end)
     coroutine.resume(kept)
   end)
   :sink("out", s.stdout())

return job
