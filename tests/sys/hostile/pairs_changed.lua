-- tries: to change a table while pairs walks it
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
     for i = 1, 100 do t[i] = i t['k' .. i] = i end
     for k in pairs(t) do t[k] = nil t[math.random(1000)] = 1 t['n' .. math.random(1000)] = 1 end
     pcall(function() for k in next, t do t[k] = nil t['z' .. k] = 1 end end)
     return true
   end)
   :sink("out", s.stdout())

return job
