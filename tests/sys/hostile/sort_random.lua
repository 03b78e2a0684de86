-- tries: a comparator that throws dice
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local t = {}
     for i = 1, 1000 do t[i] = i end
     pcall(table.sort, t, function() return math.random() < 0.5 end)
     pcall(table.sort, t, function(a, b) t[math.random(1000)] = nil return a < b end)
     return true
   end)
   :sink("out", s.stdout())

return job
