-- tries: to yield in a metamethod that map's result calls
-- out: all
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     return setmetatable({ i = 5 }, { __pairs = coroutine.yield, __index = coroutine.yield })
   end)
   :sink("out", s.stdout())

return job
