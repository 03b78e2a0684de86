-- tries: to return more values than there is room for
-- stderr: too many results|not enough memory|stack overflow
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
     for i = 1, 900000 do t[i] = i end
     return select('#', table.unpack(t)) > 0
   end)
   :sink("out", s.stdout())

return job
