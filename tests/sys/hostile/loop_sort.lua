-- tries: a comparator that does not end
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
     table.sort({ 3, 2, 1 }, function() while true do end end)
   end)
   :sink("out", s.stdout())

return job
