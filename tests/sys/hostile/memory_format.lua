-- tries: string.format of large strings
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
     local t = {}
     for i = 1, 100 do t[i] = ('x'):rep(1 << 20) end
     return #string.format(('%s'):rep(100), table.unpack(t)) > 0
   end)
   :sink("out", s.stdout())

return job
