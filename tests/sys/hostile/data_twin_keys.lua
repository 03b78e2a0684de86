-- tries: a number and its text as names
-- stderr: one name
-- out: all but 5
local s = require "streamlua"

local job = s.job("hostile", {
  on_error = "skip",
  lua = { memory = "16MiB", call_timeout = "60s" },
})

job:source("in", s.stdin())
   :map(function(e)
     if e.i ~= 5 then return e end
     return { i = 5, [7] = 1, ['7'] = 2 }
   end)
   :sink("out", s.stdout())

return job
