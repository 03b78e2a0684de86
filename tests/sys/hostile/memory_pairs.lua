-- tries: pairs over a table that is almost too large
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "10s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local t = {}
     for i = 1, 100000 do t['k' .. i] = i end
     for k in pairs(t) do t[k] = nil end
     return true
   end)
   :sink("out", s.stdout())

return job
