-- tries: elements without end in a list of the record
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
     local l = e.l
     while true do table.insert(l, 'x') end
   end)
   :sink("out", s.stdout())

return job
