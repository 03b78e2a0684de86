-- tries: a comparator that contradicts itself
-- stderr: invalid order function
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local t = {}
     for i = 1, 1000 do t[i] = i * 7919 % 1000 end
     table.sort(t, function() return true end)
   end)
   :sink("out", s.stdout())

return job
