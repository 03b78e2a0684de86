-- tries: indexes a list does not have
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     local l = e.l
     assert(l[0] == nil and l[-1] == nil and l[1 << 62] == nil and l[1.5] == nil and l.x == nil)
     assert(not pcall(function() l[100] = 1 end) and not pcall(function() l[0] = 1 end))
     assert(not pcall(function() l[math.maxinteger] = 1 end) and not pcall(function() l[{}] = 1 end))
     return e
   end)
   :sink("out", s.stdout())

return job
