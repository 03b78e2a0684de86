-- tries: gsub that multiplies
-- stderr: not enough memory
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :filter(function(e)
     if e.i ~= 5 then return true end
     local a, b = ('x'):rep(100000), ('y'):rep(100000)
     return #a:gsub('x', b) > 0
   end)
   :sink("out", s.stdout())

return job
