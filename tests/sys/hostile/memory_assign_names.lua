-- tries: fields without end
-- stderr: not enough memory
-- seconds: 20
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     for i = 1, 1e9 do e['f' .. i] = i end
     return e
   end)
   :sink("out", s.stdout())

return job
