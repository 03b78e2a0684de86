-- tries: headers without end
-- stderr: not enough memory
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     for i = 1, 1e9 do s.set_header(e, 'h', ('x'):rep(1000)) end
     return e
   end)
   :sink("out", s.stdout())

return job
